"""`handover`: a query by Polars and DuckDB over Delta and Iceberg tables of many small files.

Both read the tables as they can by themselves, or by the format's own Python package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.report.measure import YARDSTICK, Run, interleave, yardstick
from bench.report.report import Options, Report, WrongAnswer
from bench.rows.data import FOLDER, made
from bench.rows.engines import NO_PLANNER, has_planner, polars_iceberg
from bench.tables.lake_data import as_delta, as_iceberg

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
    contestants: dict[str, Callable[[], Answer]] = {
        "Polars, Delta": partial(polars, "delta", delta, first, last),
        "DuckDB over to_pyarrow_dataset, Delta": partial(duckdb_delta, delta, first, last),
        "Polars, Iceberg": partial(polars, "iceberg", iceberg, first, last),
        "DuckDB over pyiceberg's rows, Iceberg": partial(duckdb_iceberg, iceberg, first, last),
    }
    runs: dict[str, Run] = {YARDSTICK: yardstick}
    for name, run in contestants.items():
        try:
            found = run()
        except ImportError as e:
            report.leave_out(name, f"{e.name} is not installed")
            continue
        if sorted(found) != expected:
            raise WrongAnswer(f"{name} answers {sorted(found)}, expected {expected}")
        runs[name] = run
    timings = interleave(runs, options.rounds or 5)
    for name, t in timings.items():
        if name != YARDSTICK:
            engine, _, kind = name.rpartition(", ")
            report.time(name, t, (YARDSTICK, timings[YARDSTICK]), engine=engine, group=kind)
            report.rows.append({"": name, "ms": t.median * 1e3, "best ms": t.best * 1e3})
    if not has_planner():
        report.notes.append(NO_PLANNER)
    return report


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
