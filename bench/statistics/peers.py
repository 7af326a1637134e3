"""Other engines with the same condition over the same statistics, in memory, in their best form.

The condition is what DataFusion rewrites a predicate to: bounds overlap the range, and a container
whose values are all NULL does not match. To add a peer, write a function of `Ranges` and a line in
`PEERS`.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from importlib import metadata
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.kernels.run.pool import threads

Mask = npt.NDArray[np.bool_]
Prepared = tuple[Callable[[], Any], Callable[[Any], Mask | int]]
Op = Literal["<", "<=", ">=", "<>"]
Test = tuple[str, Op, str | int]  # a column compared with another one or a literal
PYTHON: Final[dict[Op, Callable[[Any, Any], Any]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">=": operator.ge,
    "<>": operator.ne,
}
MORSEL: Final = 1 << 16  # rows in a batch; more and fewer were slower
ENGINES: Final = {
    "pyarrow": "pyarrow",
    "polars": "Polars",
    "duckdb": "DuckDB",
    "datafusion": "DataFusion",
    "numpy": "NumPy",
    "numexpr": "numexpr",
}


@dataclass(frozen=True)
class Ranges:
    """Statistics as integer columns, one row per container, and the tests that keep a container."""

    table: pa.Table
    tests: tuple[Test, ...]

    @property
    def sql(self) -> str:
        return " AND ".join(f"{left} {op} {right}" for left, op, right in self.tests)

    def arrays(self) -> dict[str, npt.NDArray[np.signedinteger[Any]]]:
        """Return the columns as NumPy arrays, without a copy."""
        return {name: self.table[name].chunk(0).to_numpy() for name in self.table.column_names}

    def expression(self, column: Callable[[str], Any]) -> Any:
        """Return the AND of the tests in an engine's own expressions."""
        return reduce(
            operator.and_,
            (
                PYTHON[op](column(left), column(right) if isinstance(right, str) else right)
                for left, op, right in self.tests
            ),
        )


@dataclass(frozen=True)
class Peer:
    """An engine's way to judge the containers.

    Attributes:
        name: The printed name.
        package: The package that must be installed.
        prepare: Loads the statistics. Returns the run to time, and a function that reads a mask, or
            a count of matches, from its result.
        column: True if it returns a mask, False for a count.
    """

    name: str
    package: str
    prepare: Callable[[Ranges], Prepared]
    column: bool = True

    @property
    def missing(self) -> str | None:
        """Return why it is absent, or None."""
        try:
            importlib.import_module(self.package)
        except ImportError as e:
            return f"{self.package} is not installed ({e}); pip install 'skipstone[bench]'"
        return None

    @property
    def engine(self) -> str:
        return ENGINES[self.package]

    @property
    def version(self) -> str:
        return metadata.version(self.package)


def numpy_plain(r: Ranges) -> Prepared:
    a = r.arrays()
    tests = [
        (PYTHON[op], a[left], a[right] if isinstance(right, str) else right)
        for left, op, right in r.tests
    ]

    def run() -> Mask:
        (test, left, right), *others = tests
        kept = test(left, right)
        for test, left, right in others:
            kept &= test(left, right)
        return np.asarray(kept)

    return run, lambda mask: mask


def pyarrow_compute(r: Ranges) -> Prepared:
    import pyarrow.compute as pc

    functions = {"<": pc.less, "<=": pc.less_equal, ">=": pc.greater_equal, "<>": pc.not_equal}
    a = {name: r.table[name].chunk(0) for name in r.table.column_names}
    tests = [
        (functions[op], a[left], a[right] if isinstance(right, str) else right)
        for left, op, right in r.tests
    ]
    return lambda: reduce(
        pc.and_, [test(left, right) for test, left, right in tests]
    ), lambda mask: mask.to_numpy(zero_copy_only=False)


def pyarrow_scanner(r: Ranges) -> Prepared:
    """Run the same functions in Acero, on all CPUs."""
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    keep = r.expression(pc.field)
    data = ds.dataset(r.table)
    return lambda: data.scanner(columns={"keep": keep}).to_table(), lambda t: t["keep"].to_numpy()


def polars(r: Ranges) -> Prepared:
    import polars as pl

    keep = r.expression(pl.col)
    # Its streaming engine spreads chunks over the CPUs: 1.3 times faster than one chunk.
    whole = pl.DataFrame(pl.from_arrow(r.table))
    step = max(len(whole) // 20, MORSEL)
    frame = pl.concat([whole[i : i + step] for i in range(0, len(whole), step)], rechunk=False)
    return lambda: frame.lazy().select(keep=keep).collect(engine="streaming"), lambda t: t[
        "keep"
    ].to_numpy()


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
    return lambda: con.execute(f"SELECT {r.sql} AS keep FROM s").fetchnumpy(), lambda t: np.asarray(
        t["keep"]
    )


def datafusion(r: Ranges) -> Prepared:
    """Run SQL: DataFusion's Python package does not expose `PruningPredicate`."""
    from datafusion import SessionConfig, SessionContext

    cpus = threads()
    context = SessionContext(SessionConfig().with_target_partitions(cpus))
    # A partition per CPU; batches of 8,192 and of 1,048,576 rows were slower.
    share = -(-r.table.num_rows // cpus)
    parts = [r.table.slice(i * share, share).to_batches(max_chunksize=MORSEL) for i in range(cpus)]
    context.register_record_batches("s", parts)

    def read(collected: Any) -> Mask:
        return np.concatenate(
            [b.column(0).to_numpy(zero_copy_only=False) for part in collected for b in part]
        )

    return lambda: context.sql(f"SELECT {r.sql} AS keep FROM s").collect_partitioned(), read


def numexpr(r: Ranges) -> Prepared:
    import numexpr as ne  # type: ignore[import-untyped]

    ne.set_num_threads(threads())
    arrays = r.arrays()
    # Literals are named and have the column's type; in the text they would be 32-bit integers.
    literals = {
        f"v{i}": arrays[left].dtype.type(right)
        for i, (left, _, right) in enumerate(r.tests)
        if isinstance(right, int)
    }
    names = {
        **{
            name: arrays[name]
            for left, _, right in r.tests
            for name in (left, right)
            if isinstance(name, str)
        },
        **literals,
    }
    text = " & ".join(
        f"({left} {'!=' if op == '<>' else op} {right if isinstance(right, str) else f'v{i}'})"
        for i, (left, op, right) in enumerate(r.tests)
    )
    return lambda: ne.evaluate(text, local_dict=names), lambda mask: mask


PEERS = (
    Peer("pyarrow.compute", "pyarrow", pyarrow_compute),
    Peer("pyarrow scanner", "pyarrow", pyarrow_scanner),
    Peer("Polars", "polars", polars),
    Peer("DuckDB, column", "duckdb", duckdb_column),
    Peer("DuckDB, count only", "duckdb", duckdb_count, column=False),
    Peer("DataFusion, SQL", "datafusion", datafusion),
    Peer("NumPy by hand", "numpy", numpy_plain),
    Peer("numexpr", "numexpr", numexpr),
)
