"""Ask each engine, in each of its good settings, for rows in Arrow from the paths of a lake.

An engine keeps what a process would keep between queries: a connection, a session, its caches.
Nothing is imported before an engine is asked, because a fresh process counts its imports.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from typing import Any, Final

from bench.rows.lake import Kind, Lake
from bench.rows.questions import Question

Ask = Callable[[Lake, Question], Any]  # returns a pyarrow.Table
OWN: Final = "Skipstone"  # as in bench.report.report, which imports NumPy
AGAIN: Final = "Skipstone, again"  # asked for a condition that it has judged before
NO_PLANNER: Final = "Polars plans Iceberg by pyiceberg, for polars_iceberg is not installed."
CORES: Final = (
    len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
)


@dataclass(frozen=True)
class Contestant:
    """An engine with its settings. Of one engine's contestants, the fastest counts.

    Attributes:
        engine: The printed name.
        setting: What differs between the contestants of an engine.
        kinds: The kinds of lakes that it reads.
        ask: Open a lake by path and return the rows.
    """

    engine: str
    setting: str
    kinds: tuple[Kind, ...]
    ask: Ask

    @property
    def name(self) -> str:
        return f"{self.engine}, {self.setting}" if self.setting else self.engine


def own(again: bool, lake: Lake, question: Question) -> Any:
    import skipstone as ss

    with ss.config.override(keep_matches=again):
        return _own(ss, lake, question)


def _own(ss: Any, lake: Lake, question: Question) -> Any:
    match lake.kind:
        case "Parquet":
            table: Any = ss.scan_parquet(list(lake.files))
        case "Delta":
            table = ss.scan_delta(lake.source)
        case "Iceberg":
            table = ss.scan_iceberg(lake.source)
    return table.plan(question.sql, columns=list(question.columns)).to_arrow()


def polars(engine: Any, lake: Lake, question: Question) -> Any:
    import polars as pl

    match lake.kind:
        case "Parquet":
            frame = pl.scan_parquet(list(lake.files))
        case "Delta":
            frame = pl.scan_delta(lake.source)
        case "Iceberg":
            frame = polars_iceberg(lake.source)
    rows = frame.filter(question.polars()).select(question.columns)
    return rows.collect(engine=engine).to_arrow()


def polars_iceberg(source: str) -> Any:
    """Open an Iceberg table in Polars; its faster planner is used if it is installed."""
    import polars as pl

    if not has_planner():  # Polars would warn at each query
        os.environ.setdefault("POLARS_ICEBERG_PLANNER", "pyiceberg")
    return pl.scan_iceberg(source)


def has_planner() -> bool:
    """Return True if Polars can plan Iceberg without pyiceberg, by a package of its own."""
    return find_spec("polars_iceberg") is not None


@cache
def _duckdb() -> Any:
    import duckdb

    con = duckdb.connect(config={"threads": CORES})
    con.execute("SET parquet_metadata_cache = true; SET preserve_insertion_order = false")
    return con


def duckdb(lake: Lake, question: Question) -> Any:
    query = question.select("read_parquet(?)")
    return _duckdb().sql(query, params=[list(lake.files)]).to_arrow_table()


@cache
def _session(pushdown: bool) -> Any:
    from datafusion import SessionConfig, SessionContext

    return SessionContext(
        SessionConfig()
        .with_target_partitions(CORES)
        .set("datafusion.execution.parquet.pushdown_filters", str(pushdown).lower())
        .set("datafusion.execution.parquet.reorder_filters", str(pushdown).lower())
        .set("datafusion.sql_parser.parse_float_as_decimal", "true")
    )


def datafusion(pushdown: bool, lake: Lake, question: Question) -> Any:
    session = _session(pushdown)
    session.register_parquet("t", lake.folder)
    try:
        return session.sql(question.select("t")).to_arrow_table()
    finally:
        session.deregister_table("t")


def pyarrow(lake: Lake, question: Question) -> Any:
    import pyarrow.dataset as ds

    data = ds.dataset(list(lake.files), format="parquet")
    return data.to_table(columns=list(question.columns), filter=question.arrow())


def deltalake_query(lake: Lake, question: Question) -> Any:
    import pyarrow as pa
    from deltalake import DeltaTable, QueryBuilder

    builder = QueryBuilder().register("t", DeltaTable(lake.source))
    return pa.table(builder.execute(question.select("t")).read_all())


def deltalake_dataset(lake: Lake, question: Question) -> Any:
    from deltalake import DeltaTable

    data = DeltaTable(lake.source).to_pyarrow_dataset()
    return data.to_table(columns=list(question.columns), filter=question.arrow())


def pyiceberg(lake: Lake, question: Question) -> Any:
    from pyiceberg.table import StaticTable

    scan = StaticTable.from_metadata(lake.source).scan(question.iceberg(), question.columns)
    return scan.to_arrow().select(question.columns)  # it returns them in the table's order


ALL: Final[tuple[Kind, ...]] = ("Parquet", "Delta", "Iceberg")
CONTESTANTS: Final = (
    Contestant(OWN, "", ALL, partial(own, False)),
    Contestant("Polars", "in memory", ALL, partial(polars, "in-memory")),
    Contestant("Polars", "streaming", ALL, partial(polars, "streaming")),
    Contestant("DuckDB", "", ("Parquet",), duckdb),
    Contestant("DataFusion", "filters pushed down", ("Parquet",), partial(datafusion, True)),
    Contestant("DataFusion", "filters on top", ("Parquet",), partial(datafusion, False)),
    Contestant("pyarrow", "", ("Parquet",), pyarrow),
    Contestant("deltalake", "QueryBuilder", ("Delta",), deltalake_query),
    Contestant("deltalake", "to_pyarrow_dataset", ("Delta",), deltalake_dataset),
    Contestant("pyiceberg", "", ("Iceberg",), pyiceberg),
    Contestant(AGAIN, "", ALL, partial(own, True)),  # not beside OWN, whose caches would help it
)
ABSENT: Final[Mapping[str, str]] = {
    "DuckDB": "it reads Delta and Iceberg by extensions that have to be downloaded",
    "DataFusion": "it reads neither Delta nor Iceberg; deltalake queries through it",
    "pyarrow": "it reads neither Delta logs nor Iceberg's manifests; deltalake and pyiceberg read "
    "through it",
}
