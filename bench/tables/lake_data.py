"""The data set of `lakes` and the questions about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FILES: Final = 256
ROWS: Final = 50  # rows in each file
SCHEMA: Final = pa.schema(
    [
        ("g", pa.int32()),
        ("id", pa.int64()),
        ("ts", pa.timestamp("us")),
        ("price", pa.float64()),
        ("name", pa.string()),
        ("note", pa.int32()),
    ]
)
NUM_ROWS: Final = FILES * ROWS


@dataclass(frozen=True)
class Question:
    """A condition in Spark SQL, with the spellings of engines that need another one.

    A spelling of None means that the engine has no such form.
    """

    sql: str
    spellings: tuple[tuple[str, str | None], ...] = ()

    def text(self, engine: str) -> str | None:
        """Return the text for an engine, or None."""
        return dict(self.spellings).get(engine, self.sql)


QUESTIONS: Final = (
    Question("id = 6400"),
    Question("id >= 6000 AND id < 6200"),
    Question("id IN (5, 6400, 12795)"),
    Question("NOT (id < 12000)"),
    Question("id < 100 OR price < 0.1"),
    Question("price > 99.5"),  # NaN is greater in Spark, and one file has it
    Question("price BETWEEN 20 AND 20.5"),
    Question("name LIKE 'k017%'"),
    Question("name >= 'k25' AND note IS NULL"),
    Question("note IS NULL"),
    Question("note IS NOT NULL AND id < 1000"),
    Question(
        "ts < TIMESTAMP '2024-01-01 12:00:00'",
        (
            ("pyiceberg", "ts < '2024-01-01T12:00:00'"),
            ("Polars", "pl.col('ts') < datetime(2024, 1, 1, 12)"),
        ),
    ),
    Question(
        "CAST(ts AS DATE) = DATE '2024-01-03'",
        (("pyiceberg", None), ("Polars", "pl.col('ts').dt.date() == date(2024, 1, 3)")),
    ),
    Question("id + 10 < 100", (("pyiceberg", None),)),
    Question("abs(id - 6400) < 60", (("pyiceberg", None),)),
    Question(f"id IN ({', '.join(str(v) for v in range(0, NUM_ROWS, 50))}) AND name < 'k002'"),
)


def make(folder: Path) -> list[Path]:
    """Write the files.

    `id` and `ts` ascend; `price`, with one NaN, and `name` jump; `note` is all NULL in some files.
    """
    r = np.random.default_rng(17)
    paths = []
    for g in range(FILES):
        ids = g * ROWS + np.arange(ROWS)
        low = g * 97 % FILES
        table = pa.table(
            {
                "g": np.full(ROWS, g),
                "id": ids,
                "ts": pa.array(1_704_067_200_000_000 + ids * 30_000_000).cast(pa.timestamp("us")),
                "price": np.where(
                    (g == 7) & (np.arange(ROWS) == 3),
                    np.nan,
                    low / FILES * 90 + r.random(ROWS) * 10,
                ),
                "name": [f"k{low:03}-{v:04}" for v in r.integers(0, 10_000, ROWS)],
                "note": pa.array(
                    r.integers(0, 100, ROWS),
                    mask=(np.full(ROWS, g % 10 == 0)) | (r.random(ROWS) < 0.02 * (g % 3)),
                ),
            }
        ).cast(SCHEMA)
        paths.append(folder / f"part-{g:05}.parquet")
        pq.write_table(table, paths[-1])
    return paths


def as_delta(folder: Path) -> None:
    """Make the files a Delta table in place."""
    from deltalake import convert_to_deltalake

    convert_to_deltalake(str(folder))


def as_iceberg(folder: Path, paths: Sequence[Path], schema: pa.Schema = SCHEMA) -> Path:
    """Make the files an Iceberg table; return the path of its metadata."""
    from pyiceberg.catalog.sql import SqlCatalog

    folder.mkdir()
    catalog = SqlCatalog(
        "bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}"
    )
    catalog.create_namespace("bench")
    table = catalog.create_table("bench.t", schema)
    table.add_files([str(p) for p in paths])
    return Path(table.metadata_location.removeprefix("file://"))
