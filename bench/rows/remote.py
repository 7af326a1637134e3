"""`remote`: rows from an object store, from the URI of a table to Arrow.

The store is an S3 server of this machine that answers each request 10 ms later. It runs on the same
cores, so a request costs some 3 ms more.
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
from bench.rows.data import FOLDER, made
from bench.slow_s3 import BUCKET, slow_store
from bench.tables.lake_data import as_delta

FILES, ROWS = 200, 20_000
ROUNDS: Final = 3
TABLE: Final = f"s3://{BUCKET}/remote"
PARQUET, DELTA = "Parquet", "Delta"
MAX_RATIO: Final = 1.2  # times the best engine's time


@dataclass(frozen=True)
class Asked:
    """A question: a condition for Spark and Polars, and the columns to return; none: all."""

    where: str | None
    columns: tuple[str, ...]


def questions(rows: int) -> dict[str, Asked]:
    """Return the questions about a table of some rows, by name."""
    return {
        "a column": Asked(None, ("id",)),
        "all columns": Asked(None, ()),
        "a range": Asked(f"id BETWEEN {rows // 4} AND {rows // 4 + rows // 40}", ()),
        "scattered rows": Asked("k = 5", ("id", "name")),
    }


def remote(options: Options) -> Report:
    """Rows from S3, of Parquet and Delta tables of 200 objects, beside three engines."""
    files = min(FILES, max(options.containers // ROWS, 4))
    source = made(FOLDER / f"remote-{files}", partial(_write, files)) / "remote"
    with tempfile.TemporaryDirectory() as folder, slow_store(Path(folder), [source]):
        return measured(files * ROWS, files, options)


def _write(files: int, folder: Path) -> None:
    (folder / "remote").mkdir()
    for i in range(files):
        ids = np.arange(i * ROWS, (i + 1) * ROWS)
        rows = pa.table(
            {
                "id": ids,
                "k": ids % 1000,
                "v": ids * 1.5,
                "name": [f"name-{n}" for n in (ids % 10_007).tolist()],
                "ts": (ids * 1_000_000).astype("M8[us]"),
            }
        )
        pq.write_table(rows, folder / "remote" / f"part-{i:04}.parquet")
    as_delta(folder / "remote")


def _own(scan: Callable[..., Any], q: Asked) -> int:
    with ss.config.override(keep_matches=False), warnings.catch_warnings():
        warnings.simplefilter("ignore", ss.SkipstoneWarning)  # no statistics prune k
        return int(scan(TABLE).plan(q.where, columns=list(q.columns) or None).to_arrow().num_rows)


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


def _files() -> Any:
    import pyarrow.dataset as ds

    return ds.dataset(TABLE, format="parquet")


def _delta() -> Any:
    from deltalake import DeltaTable

    return DeltaTable(TABLE).to_pyarrow_dataset()


ENGINES: Final[dict[str, dict[str, Callable[[Asked], int]]]] = {
    PARQUET: {
        OWN: partial(_own, partial(ss.scan_parquet, ignore_table_format=True)),
        "Polars": partial(_polars, "scan_parquet", f"{TABLE}/*.parquet"),
        "pyarrow": partial(_dataset, _files),
    },
    DELTA: {
        OWN: partial(_own, ss.scan_delta),
        "Polars": partial(_polars, "scan_delta", TABLE),
        "deltalake": partial(_dataset, _delta),
    },
}


NAMES: Final = tuple(dict.fromkeys(name for engines in ENGINES.values() for name in engines))


def measured(rows: int, files: int, options: Options) -> Report:
    """Measure a table in the store; `--only` chooses questions."""
    report = Report(f"{rows:,} rows in {files} objects: ms from the table's URI to Arrow")
    ratios: dict[str, float] = {}
    for name, q in questions(rows).items():
        if options.only and name not in options.only:
            continue
        for format, engines in ENGINES.items():
            runs = {engine: partial(run, q) for engine, run in engines.items()}
            counts = {engine: run() for engine, run in runs.items()}
            equal(f"{name}, {format}", list(counts.values()), [counts[OWN]] * len(counts))
            times = interleave(runs, options.rounds or ROUNDS)
            group = f"{name}, {format}"
            ratios[group] = report.compete(group, counts[OWN], times, NAMES)
    for format in ENGINES:
        of_format = {group: r for group, r in ratios.items() if group.endswith(format)}
        if of_format:
            slowest = max(of_format, key=lambda group: of_format[group])
            text = f"the slowest question ({slowest}), times the best engine's time"
            report.requirements.append(
                Requirement(text, of_format[slowest], MAX_RATIO, at_most=True)
            )
    return report
