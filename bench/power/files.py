"""The files of `power`: a clustered table, floats as three writers store them, Hive folders.

Each table exists twice: as the files that engines are asked about, and as one file for each row
group, with the same statistics.
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

GROUPS: Final = 40
ROWS: Final = 50  # rows in each row group
WORDS: Final = (
    "alpha",
    "bravo",
    "charlie",
    "delta",
    "echo",
    "foxtrot",
    "golf",
    "hotel",
    "india",
    "juliet",
)
ZERO: Final = dt.datetime(2020, 1, 1)


@dataclass(frozen=True)
class Table:
    """One table of the workload.

    Attributes:
        path: A file, or a folder of files.
        groups: For each row group, a file that holds only that group.
        partitioned: True if `path` has Hive folders.
    """

    path: Path
    groups: tuple[Path, ...]
    partitioned: bool = False


def make(folder: Path, spark: Any = None) -> dict[str, Table]:
    """Make all tables; those that Spark writes need a session."""
    tables = {
        "main": _one_file(folder / "main", rows()),
        "floats": _one_file(folder / "floats", floats()),
        "elements": _one_file(folder / "elements", elements()),
        "hive": _hive(folder / "hive", rows()),
        "floats by Polars": _by_writer(folder / "polars", _polars),
        "floats by DuckDB": _by_writer(folder / "duckdb", _duckdb),
    }
    if spark is not None:
        tables["floats by Spark"] = _by_writer(
            folder / "spark", lambda table, path: _spark(spark, table, path)
        )
    return tables


def rows() -> pa.Table:
    """Make 2,000 rows in 40 groups; `g` is the group.

    x ascends, y descends; c and similar columns have a single value in each group.
    """
    r = np.random.default_rng(5)
    n = GROUPS * ROWS
    g = np.repeat(np.arange(GROUPS), ROWS)
    x = g * 100 + r.integers(1, 99, n)
    y = 2000 - g * 20 + r.integers(0, 10, n)
    some = (r.random(n) < 0.1) & (g % 4 == 1)  # a few NULLs in every fourth group
    gone = some | (g >= 38)  # and nothing but NULL in the last two groups
    words = [f"{WORDS[k // 4]}-{r.integers(1000):03d}" for k in g]
    instants = [
        ZERO + dt.timedelta(days=int(k) * 30, minutes=int(m))
        for k, m in zip(g, r.integers(0, 43_000, n), strict=True)
    ]
    codes = [f"{'Kk'[k % 2]}{k % 5}x{k % 10}" for k in g]
    columns: dict[str, pa.Array] = {
        "g": pa.array(g, pa.int32()),
        "x": pa.array(x, pa.int64(), mask=gone),
        "y": pa.array(y, pa.int64()),
        "i": pa.array(x - 2000, pa.int32()),
        "v": pa.array((x - 1000) / 4, pa.float64()),
        "c": pa.array(g % 10, pa.int64()),
        "k": pa.array(codes),
        "s": pa.array(words, mask=some),
        "e": pa.array([f"{50 + k}%_{j % 7}" for j, k in enumerate(g.tolist())]),
        "d": pa.array([t.date() for t in instants]),
        "t": pa.array([t.replace(tzinfo=dt.UTC) for t in instants], pa.timestamp("us", "UTC")),
        "n": pa.array(instants, pa.timestamp("us")),
        "m": pa.array([Decimal(int(v)).scaleb(-2) for v in x * 7 - 9000], pa.decimal128(12, 2)),
        "w": pa.array([Decimal(int(v)) * 10**18 for v in x], pa.decimal128(38, 4)),
        "b": pa.array(
            [
                None if k % 4 == 3 and j % 9 == 0 else k % 4 == 0 or (k % 4 == 1 and j % 2 == 0)
                for j, k in enumerate(g.tolist())
            ]
        ),
        "a": pa.array(
            [{"b": {"c": int(v)}} if j % 11 or g[j] % 4 != 2 else None for j, v in enumerate(x)],
            pa.struct([("b", pa.struct([("c", pa.int32())]))]),
        ),
        "h": pa.array(r.integers(0, 2**40, n), pa.int64()),
        "u": pa.array([f"{v:013x}" for v in r.integers(0, 2**50, n)]),
    }
    return pa.table(columns)


def floats() -> pa.Table:
    """Make floats with NaN.

    f ascends; every third group has a NaN, the last but one nothing else. `one` is 1.0, with a NaN
    in every fifth group.
    """
    r = np.random.default_rng(6)
    g = np.repeat(np.arange(GROUPS), ROWS)
    f = g * 10 + r.random(len(g)) * 9
    f[(np.arange(len(g)) % ROWS == 7) & (g % 3 == 0)] = np.nan
    f[g == GROUPS - 2] = np.nan
    one = np.ones(len(g))
    one[(np.arange(len(g)) % ROWS == 9) & (g % 5 == 0)] = np.nan
    return pa.table({"g": pa.array(g, pa.int32()), "f": f, "one": one})


def elements() -> pa.Table:
    """Make arrays and maps: `l` and the keys of `p` ascend from group to group."""
    g = np.repeat(np.arange(GROUPS), ROWS)
    at = np.arange(len(g))
    arrays = [None if i % 17 == 0 else [int(i), int(i) + 3][: i % 3] for i in at]
    maps = [[(f"k{k:02d}", int(i))] for k, i in zip(g, at, strict=True)]
    return pa.table(
        {
            "g": pa.array(g, pa.int32()),
            "l": pa.array(arrays, pa.list_(pa.int64())),
            "p": pa.array(maps, pa.map_(pa.string(), pa.int64())),
        }
    )


def _write(table: pa.Table, path: Path, options: dict[str, Any] | None = None) -> None:
    blooms = (
        {"bloom_filter_options": {c: {"ndv": ROWS, "fpp": 0.001} for c in ("h", "u")}}
        if "h" in table.column_names
        else {}
    )
    try:
        pq.write_table(table, path, row_group_size=ROWS, **blooms)
    except TypeError:  # this pyarrow cannot write bloom filters
        pq.write_table(table, path, row_group_size=ROWS)


def _one_file(folder: Path, table: pa.Table) -> Table:
    folder.mkdir(parents=True)
    _write(table, folder / "t.parquet")
    singles = [folder / f"group-{i:02d}.parquet" for i in range(GROUPS)]
    for i, path in enumerate(singles):
        _write(table.slice(i * ROWS, ROWS), path)
    return Table(folder / "t.parquet", tuple(singles))


def _by_writer(folder: Path, write: Callable[[pa.Table, Path], None]) -> Table:
    """Write a file for each group."""
    folder.mkdir(parents=True)
    table = floats()
    files = [folder / f"group-{i:02d}.parquet" for i in range(GROUPS)]
    for i, path in enumerate(files):
        write(table.slice(i * ROWS, ROWS), path)
    return Table(folder, tuple(files))


def _hive(folder: Path, table: pa.Table) -> Table:
    """Write folders of p, an integer, with ten groups each, and q, a text, within them."""
    files = []
    for i in range(GROUPS):
        path = folder / f"p={i // 10}" / f"q={'ab'[i % 2]}" / f"group-{i:02d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(table.slice(i * ROWS, ROWS).select(["g", "x", "y", "s"]), path)
        files.append(path)
    return Table(folder, tuple(files), partitioned=True)


def _polars(table: pa.Table, path: Path) -> None:
    import polars as pl

    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    frame.write_parquet(path)


def _duckdb(table: pa.Table, path: Path) -> None:
    import duckdb

    with duckdb.connect() as con:
        con.register("given", table)
        con.execute(f"COPY given TO '{path}' (FORMAT parquet)")


def _spark(spark: Any, table: pa.Table, path: Path) -> None:
    written = path.with_suffix(".written")
    spark.createDataFrame(table, schema="g int, f double, one double").coalesce(1).write.parquet(
        str(written)
    )
    next(written.glob("part-*.parquet")).rename(path)
    shutil.rmtree(written)
