"""Other engines, each with the same condition over the same statistics, in memory, in the form it likes best.

A peer's condition is what DataFusion rewrites `x >= lo AND x < hi AND y = v` to: a container whose
values are all NULL is no match, and the bounds overlap the range.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.kernels.pool import threads

Mask = npt.NDArray[np.bool_]
Prepared = tuple[Callable[[], Any], Callable[[Any], Mask | int]]


@dataclass(frozen=True)
class Ranges:
    """Statistics of x and y as a table of seven integer columns, one row per container, and the literals."""

    table: pa.Table
    lo: int
    hi: int
    v: int

    @property
    def sql(self) -> str:
        return (
            f"x_null_count <> row_count AND x_max >= {self.lo} AND x_min < {self.hi} AND y_null_count <> row_count AND y_min <= {self.v} AND y_max >= {self.v}"
        )

    def arrays(self) -> dict[str, npt.NDArray[np.signedinteger[Any]]]:
        """The columns as NumPy arrays, without a copy."""
        return {name: self.table[name].chunk(0).to_numpy() for name in self.table.column_names}


@dataclass(frozen=True)
class Peer:
    """One way to judge the containers.

    Attributes:
        name: As printed.
        package: What must be installed.
        prepare: Takes the statistics in; returns the run that is timed, and what reads a mask, or a
            count of matches, from the run's result.
        column: Whether it returns a column, not a count.
        extra: Only in a full run.
    """

    name: str
    package: str
    prepare: Callable[[Ranges], Prepared]
    column: bool = True
    extra: bool = False

    @property
    def missing(self) -> str | None:
        """Why it cannot take part, or None."""
        try:
            importlib.import_module(self.package)
        except ImportError as e:
            return f"{self.package} is not installed ({e}); pip install 'skipstone[bench]'"
        return None

    @property
    def version(self) -> str:
        return metadata.version(self.package)


def numpy_plain(r: Ranges) -> Prepared:
    a = r.arrays()

    def run() -> Mask:
        x = (a["x_null_count"] != a["row_count"]) & (a["x_max"] >= r.lo) & (a["x_min"] < r.hi)
        y = (a["y_min"] <= r.v) & (a["y_max"] >= r.v) & (a["y_null_count"] != a["row_count"])
        return np.asarray(x & y)

    return run, lambda mask: mask


def pyarrow_compute(r: Ranges) -> Prepared:
    import pyarrow.compute as pc

    a = {name: r.table[name].chunk(0) for name in r.table.column_names}

    def run() -> pa.Array:
        x = pc.and_(pc.greater_equal(a["x_max"], r.lo), pc.less(a["x_min"], r.hi))
        y = pc.and_(pc.less_equal(a["y_min"], r.v), pc.greater_equal(a["y_max"], r.v))
        some = pc.and_(pc.not_equal(a["x_null_count"], a["row_count"]), pc.not_equal(a["y_null_count"], a["row_count"]))
        return pc.and_(pc.and_(x, y), some)

    return run, lambda mask: mask.to_numpy(zero_copy_only=False)


def pyarrow_scanner(r: Ranges) -> Prepared:
    """The same functions through Acero, on all CPUs."""
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    f = pc.field
    x = (f("x_null_count") != f("row_count")) & (f("x_max") >= r.lo) & (f("x_min") < r.hi)
    keep = x & (f("y_null_count") != f("row_count")) & (f("y_min") <= r.v) & (f("y_max") >= r.v)
    data = ds.dataset(r.table)
    return lambda: data.scanner(columns={"keep": keep}).to_table(), lambda t: t["keep"].to_numpy()


def polars(r: Ranges) -> Prepared:
    import polars as pl

    c = pl.col
    x = (c("x_null_count") != c("row_count")) & (c("x_max") >= r.lo) & (c("x_min") < r.hi)
    keep = x & (c("y_null_count") != c("row_count")) & (c("y_min") <= r.v) & (c("y_max") >= r.v)
    # In chunks, which its streaming engine spreads over the CPUs: 1.3 times faster than one chunk.
    whole = pl.DataFrame(pl.from_arrow(r.table))
    step = max(len(whole) // 20, 1)
    frame = pl.concat([whole[i : i + step] for i in range(0, len(whole), step)], rechunk=False)
    return lambda: frame.lazy().select(keep=keep).collect(engine="streaming"), lambda t: t["keep"].to_numpy()


def _duckdb(r: Ranges) -> Any:
    import duckdb

    con = duckdb.connect()
    con.execute(f"SET threads = {threads()}")
    con.register("given", r.table)
    con.execute("CREATE TABLE s AS SELECT * FROM given")
    con.unregister("given")
    return con


def duckdb_count(r: Ranges) -> Prepared:
    con = _duckdb(r)
    return lambda: con.execute(f"SELECT count(*) FROM s WHERE {r.sql}").fetchone()[0], int


def duckdb_column(r: Ranges) -> Prepared:
    con = _duckdb(r)
    return lambda: con.execute(f"SELECT {r.sql} AS keep FROM s").fetchnumpy(), lambda t: np.asarray(t["keep"])


def datafusion(r: Ranges) -> Prepared:
    """Its SQL: `PruningPredicate` is not among what its Python package exposes."""
    from datafusion import SessionConfig, SessionContext

    cpus = threads()
    context = SessionContext(SessionConfig().with_target_partitions(cpus))
    # A partition per CPU; batches of 65,536 rows did better than 8,192 and 1,048,576.
    share = -(-r.table.num_rows // cpus)
    parts = [r.table.slice(i * share, share).to_batches(max_chunksize=1 << 16) for i in range(cpus)]
    context.register_record_batches("s", parts)

    def read(collected: Any) -> Mask:
        return np.concatenate([b.column(0).to_numpy(zero_copy_only=False) for part in collected for b in part])

    return lambda: context.sql(f"SELECT {r.sql} AS keep FROM s").collect_partitioned(), read


def numexpr(r: Ranges) -> Prepared:
    import numexpr as ne  # type: ignore[import-untyped]

    ne.set_num_threads(threads())
    names = {**r.arrays(), "lo": r.lo, "hi": r.hi, "v": r.v}
    text = "(x_null_count != row_count) & (x_max >= lo) & (x_min < hi) & (y_null_count != row_count) & (y_min <= v) & (y_max >= v)"
    return lambda: ne.evaluate(text, local_dict=names), lambda mask: mask


PEERS = (
    Peer("pyarrow.compute", "pyarrow", pyarrow_compute),
    Peer("pyarrow scanner", "pyarrow", pyarrow_scanner),
    Peer("Polars", "polars", polars),
    Peer("DuckDB, column", "duckdb", duckdb_column),
    Peer("DuckDB, count only", "duckdb", duckdb_count, column=False),
    Peer("DataFusion, SQL", "datafusion", datafusion),
    Peer("NumPy by hand", "numpy", numpy_plain),
    Peer("numexpr", "numexpr", numexpr, extra=True),
)
