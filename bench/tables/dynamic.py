"""`dynamic`: dynamic filters and joins.

Join keys are tested against containers and collected, ten readers get a late filter, and the query
of the design document runs from files.
"""

from __future__ import annotations

import datetime as dt
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

import skipstone as ss
from bench.report.measure import YARDSTICK, Run, Timing, interleave, yardstick
from bench.report.report import OWN, Options, Report, Requirement, equal
from skipstone.bindings.filters.scan import DynamicFilters
from skipstone.ir.session import Session

KEYS: Final = 1_000_000
PAIRS: Final = 1_000_000  # containers that tuples are tested against
SPAN: Final = 1 << 44
BATCH: Final = 1 << 16  # rows in each batch that a collector gets
DIMENSION: Final = 4_000_000  # rows of the collected dimension
DAYS, PER_DAY = 1000, 20_000  # days, and rows of a day, in the document's query
READERS, SPLITS = 10, 2000
FIRST: Final = 2450815  # the first day's key
LONG: Final = pa.schema([("k", pa.int64())])
Bounds = npt.NDArray[np.int64]


def dynamic(options: Options) -> Report:
    """Dynamic filters: a million keys, ten million containers; a late filter; a join."""
    n = options.containers
    report = Report(f"{min(KEYS, n):,} join keys, {n:,} containers", n)
    rounds = options.rounds or 3
    _keys(n, rounds, report)
    _tuples(min(PAIRS, n), min(KEYS, n), rounds, report)
    _collecting(min(DIMENSION, n), rounds, report)
    with tempfile.TemporaryDirectory() as folder:
        _late_filter(folder, min(SPLITS, max(n // 100, 20)), report)
    with tempfile.TemporaryDirectory() as folder:
        _query(Path(folder), min(DAYS, max(n // 1000, 50)), rounds, report)
    return report


def _keys(n: int, rounds: int, report: Report) -> None:
    """Test one key column; the peer is NumPy's binary search."""
    r = np.random.default_rng(1)
    low = np.sort(r.integers(0, SPAN, n))
    high = low + r.integers(0, SPAN // KEYS // 2, n)
    stats = ss.Statistics.from_dict(
        {"k": {"min": pa.array(low), "max": pa.array(high), "null_count": np.zeros(n, np.int64)}},
        LONG,
    )
    keys = np.unique(r.integers(0, SPAN, min(KEYS, n)))
    data = _collect(LONG, pa.table({"k": keys}))

    def by_numpy() -> Any:
        return np.searchsorted(keys, low, "left") < np.searchsorted(keys, high, "right")

    def own() -> Any:
        return _verdicts(data, stats) > 0

    equal(OWN, own(), by_numpy())
    times("keys and containers", {OWN: own, "NumPy by hand": by_numpy}, n, rounds, report, "NumPy")


def _tuples(n: int, keys: int, rounds: int, report: Report) -> None:
    """Test tuples of two keys against boxes that most tuples meet in one column alone."""
    r = np.random.default_rng(2)
    of = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    table = pa.table({name: r.integers(0, 1 << 20, keys) for name in of.names})
    lows = {name: r.integers(0, 1 << 20, n) for name in of.names}
    given = {
        name: {"min": pa.array(low), "max": pa.array(low + 1000), "null_count": np.zeros(n, int)}
        for name, low in lows.items()
    }
    stats, data = ss.Statistics.from_dict(given, of), _collect(of, table)
    kept = _verdicts(data, stats) > 0
    some = r.integers(0, n, 20)
    inside = np.ones((len(some), keys), bool)
    for name, low in lows.items():
        key, first = table.column(name).to_numpy(), low[some, None]
        inside &= (key >= first) & (key <= first + 1000)
    equal(OWN, kept[some], inside.any(axis=1))
    times("tuples and containers", {OWN: lambda: _verdicts(data, stats)}, n, rounds, report)
    report.notes.append(
        f"tuples: {keys:,} of two keys, {n:,} containers, {kept.mean():.0%} kept; "
        "each column alone keeps all"
    )


def _collecting(n: int, rounds: int, report: Report) -> None:
    """Collect rows of a dimension in batches; the peer is pyarrow's `unique` of all rows."""
    r = np.random.default_rng(3)
    for name, distinct in (("few keys", 10_000), ("all different", 1 << 40)):
        table = pa.table({"k": r.integers(0, distinct, n)})

        def own(table: pa.Table = table) -> int:
            return int(_collect(LONG, table).num_rows or 0)

        def by_arrow(table: pa.Table = table) -> int:
            return len(table.column("k").unique())

        equal("pyarrow", by_arrow(), own())
        found = times(
            f"collecting, {name}",
            {OWN: own, "pyarrow, unique": by_arrow},
            n,
            rounds,
            report,
            "pyarrow",
        )
        report.notes.append(f"collector, {name}: {n / found[OWN].median:,.0f} rows a second")


def _late_filter(folder: str, count: int, report: Report) -> None:
    """Let ten readers take two milliseconds for a split, with and without a late filter.

    The filter keeps one split in ten, and arrives when a tenth of the splits is read.
    """
    table = pa.table({"k": np.arange(count * 4)})
    pq.write_table(table, f"{folder}/t.parquet", row_group_size=4)
    plan = ss.scan_parquet(folder).plan()
    data = _collect(LONG, pa.table({"k": np.arange(0, count * 4, 40)}))
    seconds: dict[str, float] = {}
    read_splits: dict[str, int] = {}
    for name, given in (("no filter", None), ("a late filter", data)):
        splits = plan.splits(min_desired_splits=count)
        done = [0] * READERS

        def read(i: int, splits: ss.SplitEnumerator = splits, done: list[int] = done) -> None:
            while splits.next_split() is not None:
                time.sleep(0.002)
                done[i] += 1

        start = time.perf_counter()
        readers = [threading.Thread(target=read, args=(i,)) for i in range(READERS)]
        for t in readers:
            t.start()
        while sum(done) < count // 10:
            time.sleep(0.001)
        if given is not None:
            splits.on_filter(given)
        for t in readers:
            t.join()
        seconds[name] = time.perf_counter() - start
        read_splits[name] = sum(done)
    for name, s in seconds.items():
        text = f"{READERS} readers, {name}: {read_splits[name]:,} of {count:,} splits"
        report.rows.append(
            {
                "": text,
                "ms": s * 1e3,
                "best ms": s * 1e3,
                "times Skipstone": s / seconds["a late filter"],
            }
        )
    text = "splits that ten readers read without a filter, relative to those with a late filter"
    report.requirements.append(
        Requirement(text, read_splits["no filter"] / read_splits["a late filter"], 2)
    )


def _query(folder: Path, days: int, rounds: int, report: Report) -> None:
    """Join store_returns and date_dim from unpartitioned files that are clustered by day."""
    date_dim = star(folder, days, apart=False)
    table = ss.scan_parquet(str(folder))
    options: dict[str, Any] = {
        "on": {"sr_returned_date_sk": "d_date_sk"},
        "where_dim": "d_moy = 2",
        "columns_dim": ["d_date_id"],
    }

    def own() -> pa.Table:
        return ss.join(table, date_dim, **options)

    def plain() -> pa.Table:
        return ss.join(table, date_dim, **options, dynamic_filtering=False)

    equal("the plain join", plain().equals(own()), True)
    found = times(
        "the document's query, from files",
        {OWN: own, "without dynamic filtering": plain},
        days,
        rounds,
        report,
    )
    report.requirements.append(
        Requirement(
            "the document's query: speed-up by dynamic filtering",
            found["without dynamic filtering"].times(found[OWN]),
            2,
        )
    )


def star(folder: Path, days: int, *, apart: bool, per_day: int = PER_DAY) -> pa.Table:
    """Write store_returns and return date_dim.

    A file holds ten days; with `apart`, each day has a folder.
    """
    r = np.random.default_rng(4)
    for i in range(days if apart else days // 10):
        rows = per_day // 10 if apart else per_day
        table = pa.table(
            {"sr_item_sk": r.integers(0, 18_000, rows), "sr_return_amt": r.random(rows)}
        )
        if apart:
            target = folder / f"sr_returned_date_sk={i + FIRST}" / "0.parquet"
        else:
            day = np.sort(r.integers(10 * i, 10 * i + 10, rows)).astype(np.int32) + FIRST
            table, target = (
                table.add_column(0, "sr_returned_date_sk", pa.array(day, pa.int32())),
                folder / f"{i:04}.parquet",
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, target, row_group_size=per_day // 4)
    dates = [dt.date(2000, 1, 1) + dt.timedelta(days=i) for i in range(days)]
    return pa.table(
        {
            "d_date_sk": pa.array(np.arange(days) + FIRST),
            "d_date_id": [str(d) for d in dates],
            "d_moy": [d.month for d in dates],
        }
    )


def _collect(of: pa.Schema, table: pa.Table) -> ss.DynamicFilterData:
    collector = ss.DynamicFilterCollector(of.names, of, threshold=None)
    for batch in table.to_batches(max_chunksize=BATCH):
        collector.add(batch)
    return collector.finish()


def _verdicts(data: ss.DynamicFilterData, stats: ss.Statistics) -> npt.NDArray[np.uint8]:
    everything = np.full(stats.num_containers, ss.Verdict.ALWAYS, np.uint8)
    return DynamicFilters((ss.DynamicFilter(data),), stats.schema, Session()).judged(
        stats, everything
    )


def times(
    group: str, ways: dict[str, Run], n: int, rounds: int, report: Report, engine: str = OWN
) -> dict[str, Timing]:
    timings = interleave({YARDSTICK: yardstick, **ways}, rounds)
    for name in ways:
        t = timings[name]
        report.time(
            f"{group}: {name}",
            t,
            (YARDSTICK, timings[YARDSTICK]),
            own=timings[OWN],
            engine=OWN if name == OWN else engine,
            group=group,
            n=n,
        )
        report.rows.append(
            {
                "": f"{group}: {name}",
                "ms": t.median * 1e3,
                "best ms": t.best * 1e3,
                "times Skipstone": t.times(timings[OWN]),
            }
        )
    return timings
