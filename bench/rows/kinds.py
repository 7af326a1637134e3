"""`kinds`: questions that TPC-H lacks: nested and category columns, many files or columns, top k.

All engines read the same files. Their numbers of rows are compared before anything is timed.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import skipstone as ss
from bench.report.measure import interleave
from bench.report.report import OWN, Options, Report, Requirement, equal
from bench.rows.engines import CORES

ROWS: Final = 2_000_000
FOLDERS: Final = 200
ROUNDS: Final = 5
ENGINES: Final = (OWN, "Polars", "DuckDB")
MAX_RATIO: Final = 2.0  # times the best engine's time


@dataclass(frozen=True)
class Asked:
    """A question.

    Attributes:
        columns: The columns to return; none means all.
        where: The condition for Spark; "" if all rows match.
        polars: Return the condition for Polars, given the module; None if Polars is not asked.
        duckdb: The condition for DuckDB where it is written differently.
        order: The order of the rows.
        limit: The number of rows to return; 0 means all.
        lake: The folder.
    """

    columns: tuple[str, ...]
    where: str = ""
    polars: Callable[[Any], Any] | None = lambda pl: pl.lit(True)
    duckdb: str = ""
    order: str = ""
    limit: int = 0
    lake: str = "file"


QUESTIONS: Final = {
    "return a list": Asked(("id", "items"), "x < 1000", lambda pl: pl.col("x") < 1000),
    "return a map": Asked(("id", "tags"), "x < 1000", lambda pl: pl.col("x") < 1000),
    "return a struct": Asked(("id", "s"), "x < 1000", lambda pl: pl.col("x") < 1000),
    "return a struct, half of the rows": Asked(
        ("id", "s"), "x < 500000", lambda pl: pl.col("x") < 500_000
    ),
    "nested columns of one row": Asked(
        ("id", "items", "tags", "s"), "id = 1150000", lambda pl: pl.col("id") == 1_150_000
    ),
    "nested columns of 1,000 rows, page indexes": Asked(
        ("id", "items", "tags", "s"), "id BETWEEN 1150000 AND 1150999",
        lambda pl: pl.col("id").is_between(1_150_000, 1_150_999), lake="indexed",
    ),
    "filter by a struct's field": Asked(
        ("id",), "s.a < 1000", lambda pl: pl.col("s").struct.field("a") < 1000
    ),
    "filter by array_contains": Asked(
        ("id",), "array_contains(items, 5)", lambda pl: pl.col("items").list.contains(5),
        "list_contains(items, 5)",
    ),
    "filter by exists": Asked(
        ("id",), "exists(items, v -> v > 995)", lambda pl: pl.col("items").list.max() > 995,
        "list_max(items) > 995",
    ),
    "filter by a map's value": Asked(("id",), "tags['k1'] > 0.999", None),
    "one list that holds a value": Asked(
        ("id",), "array_contains(items, 4321L)", lambda pl: pl.col("items").list.contains(4321),
        "list_contains(items, 4321)", lake="lists",
    ),
    "one list that holds a struct": Asked(
        ("id",), "exists(lines, v -> v.sku = 's004321')",
        lambda pl: pl.col("lines").list.eval(pl.element().struct.field("sku") == "s004321")
        .list.any(),
        "len(list_filter(lines, lambda v: v.sku = 's004321')) > 0", lake="lists",
    ),
    "filter by categories": Asked(
        ("id", "c"), "c = 'w03' AND x < 100000",
        lambda pl: (pl.col("c").cast(pl.String) == "w03") & (pl.col("x") < 100_000),
    ),
    "filter by a prefix": Asked(
        ("id", "c"), "url LIKE 'https://example.com/w000%'",
        lambda pl: pl.col("url").str.starts_with("https://example.com/w000"),
    ),
    "filter by a substring": Asked(
        ("id", "c"), "url LIKE '%w00042%'",
        lambda pl: pl.col("url").str.contains("w00042", literal=True),
    ),
    "filter by a pattern": Asked(
        ("id", "c"), "url LIKE '%/w_0042%'", lambda pl: pl.col("url").str.contains("/w.0042")
    ),
    "filter by a flag and a NULL": Asked(
        ("id", "f"), "flag AND f IS NULL", lambda pl: pl.col("flag") & pl.col("f").is_null(),
        lake="group",
    ),
    "all of a large row group": Asked((), lake="group"),
    "all of many folders": Asked(
        ("id", "day"), "k = 5", lambda pl: pl.col("k") == 5, lake="folders"
    ),
    "one of many folders": Asked(
        ("id", "k"), "day = 'd077' AND k < 50",
        lambda pl: (pl.col("day") == "d077") & (pl.col("k") < 50), lake="folders",
    ),
    "many small files": Asked(("id", "v"), "k < 500", lambda pl: pl.col("k") < 500, lake="small"),
    "many small files, filter by floats": Asked(
        ("id",), "v > 0.9", lambda pl: pl.col("v") > 0.9, lake="small"
    ),
    "two of many columns": Asked(
        ("id", "c7"), "c5 < 0.5", lambda pl: pl.col("c5") < 0.5, lake="wide"
    ),
    "all of many columns": Asked((), "c5 < 0.5", lambda pl: pl.col("c5") < 0.5, lake="wide"),
    "all of many columns, few rows": Asked(
        (), "id BETWEEN 3000 AND 3100", lambda pl: pl.col("id").is_between(3000, 3100), lake="wide"
    ),
    "the top ten rows": Asked(("id", "f"), order="f DESC", limit=10),
    "the top ten rows of six columns": Asked((), order="f DESC", limit=10, lake="group"),
    "any ten rows": Asked((), limit=10),
    "ten matching rows": Asked(
        ("id", "url"), "x < 5000", lambda pl: pl.col("x") < 5000, limit=10
    ),
    "ten matching rows of a large row group": Asked(
        (), "x < 5000", lambda pl: pl.col("x") < 5000, limit=10, lake="group"
    ),
    "ten matching rows of many small files": Asked(
        (), "k < 5", lambda pl: pl.col("k") < 5, limit=10, lake="small"
    ),
}  # fmt: skip


def write(folder: Path, rows: int, folders: int) -> None:
    """Write a file of many kinds of columns, and a Hive table of many folders."""
    r = np.random.default_rng(3)
    offsets = np.arange(rows + 1, dtype=np.int32)
    words = np.array([f"w{i:05}" for i in range(50_000)])
    pairs = zip(words[r.integers(0, 50_000, rows)], words[r.integers(0, 50_000, rows)], strict=True)
    items = pa.array(r.integers(0, 1000, 3 * rows))
    keys = pa.array(["k0", "k1"] * rows)
    structs = [pa.array(r.integers(0, 10**6, rows)), pa.array(r.random(rows).round(6).astype(str))]
    table = pa.table(
        {
            "id": np.arange(rows),
            "x": r.integers(0, 10**6, rows),
            "f": pa.array(r.random(rows), mask=r.random(rows) < 0.1),
            "items": pa.ListArray.from_arrays(pa.array(3 * offsets), items),
            "tags": pa.MapArray.from_arrays(
                pa.array(2 * offsets), keys, pa.array(r.random(2 * rows))
            ),
            "s": pa.StructArray.from_arrays(structs, ["a", "b"]),
            "c": pa.array([f"w{v:02}" for v in r.integers(0, 20, rows)]).dictionary_encode(),
            "url": [f"https://example.com/{a}/{b}" for a, b in pairs],
        }
    )
    (folder / "file").mkdir()
    pq.write_table(table, folder / "file" / "a.parquet", row_group_size=rows // 10)
    (folder / "indexed").mkdir()
    nested = table.select(["id", "items", "tags", "s"])
    path = folder / "indexed" / "a.parquet"
    pq.write_table(nested, path, row_group_size=rows // 10, write_page_index=True)
    flat = table.select(["id", "x", "f", "c", "url"])
    flat = flat.append_column("flag", pa.array(r.random(rows) < 0.5))
    (folder / "group").mkdir()
    pq.write_table(flat, folder / "group" / "a.parquet", row_group_size=rows)
    _write_lists(folder / "lists", folders // 4 + 1, max(rows // 100, 1))
    _write_files(folder / "small", 10 * folders, 1000, 0)
    _write_files(folder / "wide", folders // 4 + 1, 200, 5 * folders)
    for i in range(folders):
        own = folder / "folders" / f"day=d{i:03}"
        own.mkdir(parents=True)
        n = max(rows // folders, 1)
        part = {"id": np.arange(n) + i * n, "k": r.integers(0, 1000, n), "v": r.random(n)}
        pq.write_table(pa.table(part), own / "a.parquet")


def _write_lists(folder: Path, files: int, rows: int) -> None:
    """Write files of orders: the numbers and the lines of each are near those of its neighbours."""
    folder.mkdir()
    offsets = pa.array(2 * np.arange(rows + 1, dtype=np.int32))
    for i in range(files):
        order = np.arange(rows) + i * rows
        numbers = pa.array(np.repeat(order, 2))
        sku = pa.array([f"s{n:06}" for n in np.repeat(order, 2).tolist()])
        lines = pa.StructArray.from_arrays([sku, pa.array(np.tile([1, 2], rows))], ["sku", "qty"])
        items, lines = (pa.ListArray.from_arrays(offsets, part) for part in (numbers, lines))
        part = pa.table({"id": order, "items": items, "lines": lines})
        pq.write_table(part, folder / f"{i:04}.parquet")


def _write_files(folder: Path, files: int, rows: int, columns: int) -> None:
    """Write files with some rows each, and with further columns."""
    r = np.random.default_rng(4)
    folder.mkdir()
    for i in range(files):
        part: dict[str, Any] = {"id": np.arange(rows) + i * rows, "k": r.integers(0, 1000, rows)}
        part["v"] = r.random(rows)
        part |= {f"c{c}": r.random(rows) for c in range(columns)}
        pq.write_table(pa.table(part), folder / f"{i:04}.parquet")


def _own(folder: Path, q: Asked) -> pa.Table:
    scan: Any = ss.scan_hive if q.lake == "folders" else ss.scan_parquet
    first = {name: value for name, value in (("order_by", q.order), ("limit", q.limit)) if value}
    with ss.config.override(keep_matches=False), warnings.catch_warnings():
        warnings.simplefilter("ignore", ss.SkipstoneWarning)  # conditions that cannot prune
        table = scan(str(folder / q.lake))
        return table.plan(q.where or None, columns=list(q.columns) or None, **first).to_arrow()


def _polars(folder: Path, q: Asked) -> pa.Table:
    import polars as pl

    frame = pl.scan_parquet(folder / q.lake, hive_partitioning=q.lake == "folders")
    assert q.polars is not None
    frame = frame.filter(q.polars(pl)) if q.where else frame
    if q.order:
        frame = frame.sort(q.order.split()[0], descending=True, nulls_last=True)
    if q.limit:
        frame = frame.head(q.limit)
    found: Any = (frame.select(q.columns) if q.columns else frame).collect(engine="streaming")
    return found.to_arrow()


def _duckdb(con: Any, folder: Path, q: Asked) -> pa.Table:
    source = f"read_parquet('{folder / q.lake}/**/*.parquet', hive_partitioning = true)"
    tail = f"ORDER BY {q.order} NULLS LAST" if q.order else ""
    tail += f" LIMIT {q.limit}" if q.limit else ""
    where = q.duckdb or q.where or "true"
    query = f"SELECT {', '.join(q.columns) or '*'} FROM {source} WHERE {where} {tail}"
    return con.sql(query).to_arrow_table()


def kinds(options: Options) -> Report:
    """Rows of nested columns, categories, many files or columns, beside Polars and DuckDB."""
    with tempfile.TemporaryDirectory() as folder:
        return measured(Path(folder), ROWS, FOLDERS, options)


def measured(folder: Path, rows: int, folders: int, options: Options) -> Report:
    """Measure over a number of rows and folders; `--only` chooses questions."""
    import duckdb

    write(folder, rows, folders)
    con = duckdb.connect(config={"threads": CORES})
    report = Report(
        f"{rows:,} rows of many kinds, {folders} folders, {10 * folders:,} small files, "
        f"{5 * folders:,} columns: ms from paths to Arrow"
    )
    ratios: dict[str, float] = {}
    for name, q in QUESTIONS.items():
        if options.only and name not in options.only:
            continue
        runs: dict[str, Callable[[], pa.Table]] = {
            OWN: partial(_own, folder, q),
            "DuckDB": partial(_duckdb, con, folder, q),
        }
        if q.polars is not None:
            runs["Polars"] = partial(_polars, folder, q)
        counts = {engine: run().num_rows for engine, run in runs.items()}
        for engine in runs:
            equal(f"{engine}, {name}", [counts[engine]], [counts["DuckDB"]])
        times = interleave(runs, options.rounds or ROUNDS)
        ratios[name] = report.compete(name, counts[OWN], times, ENGINES)
    if ratios:
        slowest = max(ratios, key=lambda name: ratios[name])
        text = (
            f"the slowest of {len(ratios)} questions ({slowest}): time relative to the best engine"
        )
        report.requirements.append(Requirement(text, ratios[slowest], MAX_RATIO, at_most=True))
    return report
