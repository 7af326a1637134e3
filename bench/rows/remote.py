"""`remote`: rows from an object store, from the URI of a table to Arrow.

The store is an S3 server of this machine that answers each request 10 ms later. It runs on the same
cores, so a request costs some 3 ms more.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Mapping
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
from bench.rows.data import FOLDER, made
from bench.slow_s3 import BUCKET, slow_store
from bench.tables.lake_data import as_delta

FILES, ROWS = 200, 20_000
LARGE_FILES, LARGE_ROWS = 6, 500_000
ROUNDS: Final = 3
PARQUET, DELTA, LARGE = "Parquet", "Delta", "large Parquet"
TABLES: Final = {PARQUET: "remote", DELTA: "remote", LARGE: "large"}  # folders
MAX_RATIO: Final = 1.2  # times the best engine's time


@dataclass(frozen=True)
class Asked:
    """A question: a condition for Spark and Polars, and the columns to return; none means all."""

    where: str | None
    columns: tuple[str, ...]


def questions(rows: int) -> dict[str, Asked]:
    """Return the questions about a table of some rows, by name."""
    return {
        "a column": Asked(None, ("id",)),
        "all columns": Asked(None, ()),
        "a lookup": Asked(f"id BETWEEN {rows // 4} AND {rows // 4 + 100}", ()),
        "a range": Asked(f"id BETWEEN {rows // 4} AND {rows // 4 + rows // 40}", ()),
        "scattered rows": Asked("k = 5", ("id", "name")),
    }


def remote(options: Options) -> Report:
    """Rows from S3, of tables of 200 small and 6 large objects, compared with three engines."""
    files = min(FILES, max(options.containers // ROWS, 4))
    large = min(LARGE_FILES, max(options.containers // LARGE_ROWS, 2))
    source = made(FOLDER / f"remote-{files}-{large}", partial(_write, files, large))
    rows = {"remote": files * ROWS, "large": large * LARGE_ROWS}
    folders = [source / name for name in rows]
    with tempfile.TemporaryDirectory() as folder, slow_store(Path(folder), folders):
        return measured(rows, f"{files} small and {large} large objects", options)


def _write(files: int, large: int, folder: Path) -> None:
    _write_rows(folder / "remote", files, ROWS)
    as_delta(folder / "remote")
    _write_rows(
        folder / "large", large, LARGE_ROWS, write_page_index=True, row_group_size=LARGE_ROWS // 2
    )


def _write_rows(folder: Path, files: int, count: int, **options: Any) -> None:
    folder.mkdir()
    for i in range(files):
        ids = np.arange(i * count, (i + 1) * count)
        rows = pa.table(
            {
                "id": ids,
                "k": ids % 1000,
                "v": ids * 1.5,
                "name": [f"name-{n}" for n in (ids % 10_007).tolist()],
                "ts": (ids * 1_000_000).astype("M8[us]"),
            }
        )
        pq.write_table(rows, folder / f"part-{i:04}.parquet", **options)


def _uri(format: str) -> str:
    return f"s3://{BUCKET}/{TABLES[format]}"


def _own(scan: Callable[..., Any], format: str, q: Asked) -> int:
    with ss.config.override(keep_matches=False), warnings.catch_warnings():
        warnings.simplefilter("ignore", ss.SkipstoneWarning)  # no statistics prune k
        plan = scan(_uri(format)).plan(q.where, columns=list(q.columns) or None)
        return int(plan.to_arrow().num_rows)


def _polars(scan: str, where: str, q: Asked) -> int:
    import polars as pl

    frame = getattr(pl, scan)(where)
    if q.where is not None:
        frame = frame.filter(pl.sql_expr(q.where))
    return int((frame.select(q.columns) if q.columns else frame).collect().to_arrow().num_rows)


def _dataset(open_dataset: Callable[[], Any], q: Asked) -> int:
    import pyarrow.compute as pc

    where = None if q.where is None else _expression(pc, q.where)
    return int(open_dataset().to_table(columns=list(q.columns) or None, filter=where).num_rows)


def _expression(pc: Any, where: str) -> Any:
    words = where.split()
    field = pc.field(words[0])
    if words[1] == "=":
        return field == int(words[2])
    return (field >= int(words[2])) & (field <= int(words[4]))


def _files(format: str) -> Any:
    import pyarrow.dataset as ds

    return ds.dataset(_uri(format), format="parquet")


def _delta() -> Any:
    from deltalake import DeltaTable

    return DeltaTable(_uri(DELTA)).to_pyarrow_dataset()


ENGINES: Final[dict[str, dict[str, Callable[[Asked], int]]]] = {
    PARQUET: {
        OWN: partial(_own, partial(ss.scan_parquet, ignore_table_format=True), PARQUET),
        "Polars": partial(_polars, "scan_parquet", f"{_uri(PARQUET)}/*.parquet"),
        "pyarrow": partial(_dataset, partial(_files, PARQUET)),
    },
    DELTA: {
        OWN: partial(_own, ss.scan_delta, DELTA),
        "Polars": partial(_polars, "scan_delta", _uri(DELTA)),
        "deltalake": partial(_dataset, _delta),
    },
    LARGE: {
        OWN: partial(_own, ss.scan, LARGE),
        "Polars": partial(_polars, "scan_parquet", f"{_uri(LARGE)}/*.parquet"),
        "pyarrow": partial(_dataset, partial(_files, LARGE)),
    },
}


NAMES: Final = tuple(dict.fromkeys(name for engines in ENGINES.values() for name in engines))


def measured(rows: Mapping[str, int], objects: str, options: Options) -> Report:
    """Measure the tables in the store; `--only` chooses questions.

    Args:
        rows: The rows of each folder.
        objects: What they consist of, for the title.
        options: What to measure.
    """
    report = Report(f"{sum(rows.values()):,} rows in {objects}: ms from a table's URI to Arrow")
    ratios: dict[str, float] = {}
    for format, engines in ENGINES.items():
        for name, q in questions(rows[TABLES[format]]).items():
            if options.only and name not in options.only:
                continue
            runs = {engine: partial(run, q) for engine, run in engines.items()}
            counts = {engine: run() for engine, run in runs.items()}
            equal(f"{name}, {format}", list(counts.values()), [counts[OWN]] * len(counts))
            times = interleave(runs, options.rounds or ROUNDS)
            group = f"{name}, {format}"
            ratios[group] = report.compete(group, counts[OWN], times, NAMES)
    for format in ENGINES:
        of_format = {group: r for group, r in ratios.items() if group.endswith(f", {format}")}
        if of_format:
            slowest = max(of_format, key=lambda group: of_format[group])
            text = f"the slowest question ({slowest}): time relative to the best engine"
            report.requirements.append(
                Requirement(text, of_format[slowest], MAX_RATIO, at_most=True)
            )
    return report
