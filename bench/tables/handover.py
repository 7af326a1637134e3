"""`handover`: a query by Polars and DuckDB over Delta and Iceberg tables of many small files.

Both read the tables as they can by themselves or by the format's own Python package, and through
Skipstone. Each opens the table again for each query; the first answer of a fresh process is
measured as well.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.report.measure import YARDSTICK, Run, Timing, interleave, yardstick
from bench.report.report import OWN, Options, Report, WrongAnswer
from bench.rows.data import FOLDER, made
from bench.rows.engines import NO_PLANNER, has_planner, polars_iceberg
from bench.tables.lake_data import as_delta, as_iceberg
from bench.tables.opened import Opened

FILES: Final = 20_000
ROWS: Final = 50  # rows in each file; `id` ascends from file to file
WANTED: Final = 20  # files with matching rows
KINDS: Final = 4
SCHEMA: Final = pa.schema(
    [("id", pa.int64()), ("kind", pa.int64()), ("price", pa.int64()), ("name", pa.string())]
)
Answer = list[tuple[int, int, int]]  # kind, rows, sum of prices


def handover(options: Options) -> Report:
    """A query by Polars and DuckDB over 20,000 small files, in Delta and Iceberg."""
    return measured(FOLDER, FILES, options)


def measured(folder: Path, files: int, options: Options) -> Report:
    """Measure the query on tables in a folder that is kept."""
    report = Report(f"{files:,} files of {ROWS} rows, {WANTED} of them with matches")
    try:
        source = made(folder / f"handover-{files}", partial(_write, files))
    except ImportError as e:
        report.leave_out("all engines", f"{e.name} is not installed, and it makes the tables")
        return report
    first = files // 2 * ROWS
    last = first + WANTED * ROWS - 1
    expected = _expected(first, last)
    delta = str(source / "data")
    iceberg = (source / "metadata.txt").read_text()
    sources = {"Delta": delta, "Iceberg": iceberg}
    runs: dict[str, Run] = {YARDSTICK: yardstick}
    opened: dict[str, int | str] = {}
    for name, ask in CONTESTANTS.items():
        asked = sources[_kind(name)]
        try:
            with Opened(Path(delta)) as files_opened:
                found = ask(asked, first, last)
        except ImportError as e:
            report.leave_out(name, f"{e.name} is not installed")
            continue
        if sorted(found) != expected:
            raise WrongAnswer(f"{name} answers {sorted(found)}, expected {expected}")
        runs[name] = partial(ask, asked, first, last)
        opened[name] = "" if files_opened.lost else len(files_opened.names)
    timings = interleave(runs, options.rounds or 5)
    fresh = _fresh([(n, sources[_kind(n)], first, last) for n in opened], options.rounds or 3)
    for name, t in timings.items():
        if name == YARDSTICK:
            continue
        engine, _, kind = name.rpartition(", ")
        is_own = OWN in engine
        peers = [n for n in opened if _is_peer(n, name)]
        report.time(name, t, (YARDSTICK, timings[YARDSTICK]), engine=engine, group=kind)
        row: dict[str, Any] = {"": name, "ms": t.median * 1e3, "fresh ms": fresh[name].median * 1e3}
        row |= {"/own way": "", "fresh /own way": "", "files opened": opened[name]}
        if is_own and peers:
            row["/own way"] = t.times(timings[peers[0]])
            row["fresh /own way"] = fresh[name].times(fresh[peers[0]])
        report.rows.append(row)
    report.notes.append(
        "/own way: the time through Skipstone divided by that of the same engine without it. "
        "fresh: a Python process from start to end. Warm, Skipstone finds the table's log in "
        "memory if it did not change; the others read it again."
    )
    if not has_planner():
        report.notes.append(NO_PLANNER)
    return report


def _kind(name: str) -> str:
    return name.rpartition(", ")[2]


def _is_peer(name: str, own: str) -> bool:
    """Return True if both are the same engine over the same format, one without Skipstone."""
    return (
        OWN in own
        and OWN not in name
        and _kind(name) == _kind(own)
        and name.split()[0].strip(",") == own.split()[0].strip(",")
    )


def _fresh(asked: list[tuple[str, str, int, int]], rounds: int) -> dict[str, Timing]:
    """Time a process from start to end, in turn for each contestant."""
    seconds: dict[str, list[float]] = {name: [] for name, *_ in asked}
    for _ in range(rounds):
        for one in asked:
            start = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "bench.tables.handover"],
                input=json.dumps(one).encode(), check=True,
            )  # fmt: skip
            seconds[one[0]].append(time.perf_counter() - start)
    return {name: Timing(tuple(s)) for name, s in seconds.items()}


def _write(files: int, folder: Path) -> None:
    (folder / "data").mkdir()
    paths = [folder / "data" / f"part-{i:06}.parquet" for i in range(files)]
    for i, path in enumerate(paths):
        pq.write_table(pa.table(_columns(i * ROWS, ROWS), SCHEMA), path)
    (folder / "metadata.txt").write_text(str(as_iceberg(folder / "catalog", paths, SCHEMA)))
    as_delta(folder / "data")


def _columns(first: int, n: int) -> Mapping[str, Any]:
    ids = np.arange(first, first + n)
    prices = ids * 7919 % 10_007
    return {"id": ids, "kind": ids % KINDS, "price": prices, "name": [f"k{p}" for p in prices]}


def _expected(first: int, last: int) -> Answer:
    columns = _columns(first, last - first + 1)
    kinds, prices = columns["kind"], columns["price"]
    return [
        (kind, int((kinds == kind).sum()), int(prices[kinds == kind].sum()))
        for kind in range(KINDS)
    ]


def polars(kind: str, source: str, first: int, last: int) -> Answer:
    """Return Polars' answer from its own scan."""
    import polars as pl

    frame = pl.scan_delta(source) if kind == "delta" else polars_iceberg(source)
    grouped = frame.filter(pl.col("id").is_between(first, last)).group_by("kind")
    return grouped.agg(pl.len(), pl.col("price").sum()).collect().rows()


def duckdb_delta(source: str, first: int, last: int) -> Answer:
    """Return DuckDB's answer over the dataset of deltalake, which gets the filter from DuckDB."""
    from deltalake import DeltaTable

    return _duckdb(DeltaTable(source).to_pyarrow_dataset(), first, last)


def duckdb_iceberg(source: str, first: int, last: int) -> Answer:
    """Return DuckDB's answer over rows that pyiceberg has filtered."""
    from pyiceberg.expressions import And, GreaterThanOrEqual, LessThanOrEqual
    from pyiceberg.table import StaticTable

    condition = And(GreaterThanOrEqual("id", first), LessThanOrEqual("id", last))
    scan = StaticTable.from_metadata(source).scan(condition, ("id", "kind", "price"))
    return _duckdb(scan.to_arrow(), first, last)


def _duckdb(rows: Any, first: int, last: int) -> Answer:
    import duckdb

    with duckdb.connect() as con:
        con.register("t", rows)
        query = (
            "SELECT kind, count(*), sum(price)::BIGINT FROM t WHERE id BETWEEN ? AND ? GROUP BY 1"
        )
        return con.execute(query, [first, last]).fetchall()


def polars_own(kind: str, source: str, first: int, last: int) -> Answer:
    """Return Polars' answer from Skipstone's scan."""
    import polars as pl

    import skipstone as ss

    table = ss.scan_delta(source) if kind == "delta" else ss.scan_iceberg(source)
    frame = ss.polars.scan(table).filter(pl.col("id").is_between(first, last))
    answer: Answer = frame.group_by("kind").agg(pl.len(), pl.col("price").sum()).collect().rows()
    return answer


def duckdb_own(kind: str, source: str, first: int, last: int) -> Answer:
    """Return DuckDB's answer over a plan of Skipstone's."""
    import skipstone as ss

    table = ss.scan_delta(source) if kind == "delta" else ss.scan_iceberg(source)
    plan = table.plan(f"id BETWEEN {first} AND {last}", columns=["id", "kind", "price"])
    return _duckdb(plan.to_batches(), first, last)


CONTESTANTS: Final[Mapping[str, Callable[[str, int, int], Answer]]] = {
    f"Polars over {OWN}, Delta": partial(polars_own, "delta"),
    "Polars, Delta": partial(polars, "delta"),
    f"DuckDB over {OWN}, Delta": partial(duckdb_own, "delta"),
    "DuckDB over to_pyarrow_dataset, Delta": duckdb_delta,
    f"Polars over {OWN}, Iceberg": partial(polars_own, "iceberg"),
    "Polars, Iceberg": partial(polars, "iceberg"),
    f"DuckDB over {OWN}, Iceberg": partial(duckdb_own, "iceberg"),
    "DuckDB over pyiceberg's rows, Iceberg": duckdb_iceberg,
}

if __name__ == "__main__":
    asked_name, *asked_of = json.loads(sys.stdin.read())
    CONTESTANTS[asked_name](*asked_of)
