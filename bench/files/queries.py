"""Count matching rows of Parquet files: plan, then read the kept row groups.

This is the only question about files that query engines answer.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pyarrow.dataset as ds

import skipstone as ss
from bench.files.lake import Lake
from bench.files.task import Answer, Contestant, Task
from bench.report.report import OWN
from skipstone.kernels.run.pool import threads


def own(lake: Lake) -> Contestant:
    def run() -> int:
        return ss.scan_parquet(lake.paths).plan(where=lake.condition.sql).count()

    kept = len(ss.scan_parquet(lake.paths).plan(where=lake.condition.sql).kept)
    return Contestant(
        OWN,
        "scan_parquet(paths).plan(where=text).count()",
        run,
        lambda rows: Answer(rows=rows, read=kept),
    )


def arrow(lake: Lake) -> Contestant:
    kept = sum(
        f.subset(lake.condition.arrow).num_row_groups
        for f in ds.dataset(lake.paths).get_fragments()
    )
    return Contestant(
        "pyarrow",
        "dataset(paths).count_rows(filter)",
        lambda: ds.dataset(lake.paths).count_rows(lake.condition.arrow),
        lambda rows: Answer(rows=rows, read=kept),
    )


def _select(lake: Lake, source: str) -> str:
    return f"SELECT count(*) FROM {source} WHERE {lake.condition.sql}"


def duckdb(lake: Lake) -> Contestant:
    """Make a new connection for each run, so that no metadata is cached."""
    import duckdb as engine

    query = _select(lake, f"read_parquet({lake.paths})")

    def run() -> int:
        with engine.connect() as con:
            con.execute(f"SET threads = {threads()}")
            return int(con.execute(query).fetchall()[0][0])

    with engine.connect() as con:
        con.execute("SET enable_profiling = 'no_output'")
        con.execute(query).fetchall()
        read = int(json.loads(con.get_profiling_information())["query"]["total_row_groups_scanned"])
    return Contestant(
        "DuckDB",
        "connect, SELECT count(*) FROM read_parquet(paths)",
        run,
        lambda rows: Answer(rows=rows, read=read),
    )


def polars(lake: Lake) -> Contestant:
    """Polars prints how many row groups it reads only to standard error; `power` parses that."""
    import polars as pl

    condition = pl.sql_expr(lake.condition.sql)
    return Contestant(
        "Polars",
        "scan_parquet(paths).filter(...).select(len)",
        lambda: (
            pl.scan_parquet(lake.paths)
            .filter(condition)
            .select(pl.len())
            .collect(engine="streaming")
            .item()
        ),
        lambda rows: Answer(rows=rows),
    )


def datafusion(lake: Lake) -> Contestant:
    """Make a new context for each run, so that no metadata is cached."""
    from datafusion import SessionConfig, SessionContext

    def context() -> Any:
        made = SessionContext(SessionConfig().with_target_partitions(threads()))
        made.register_parquet("t", str(lake.folder))
        return made

    def run() -> int:
        return int(context().sql(_select(lake, "t")).collect()[0].column(0)[0].as_py())

    plan = "\n".join(context().sql(f"EXPLAIN ANALYZE {_select(lake, 't')}").to_pydict()["plan"])
    # The plan rounds numbers from 1,000: "2.50 K".
    matched = re.search(r"row_groups_pruned_bloom_filter=.*? total → (\d+) matched", plan)
    read = int(matched[1]) if matched else None
    return Contestant(
        "DataFusion",
        "register_parquet(folder), SELECT count(*)",
        run,
        lambda rows: Answer(rows=rows, read=read),
    )


ABSENT: Final = {
    "pyiceberg": "it reads tables of a catalog, not files",
    "deltalake": "it reads Delta tables, not files",
}
TASKS: Final = (
    Task(
        "paths to the number of matching rows",
        "rows",
        "parquet",
        (own, arrow, duckdb, polars, datafusion),
        ABSENT,
    ),
)
