"""Make the files of `files`: Parquet with many row groups, and a Delta table of many files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ROWS: Final = 20  # rows in each container
SCHEMA: Final = pa.schema(
    [("id", pa.int64()), ("amount", pa.float64()), ("name", pa.string()), ("note", pa.int32())]
)
PARTITIONS: Final = 20
DELTA_SCHEMA: Final = SCHEMA.append(pa.field("p", pa.int32()))


@dataclass(frozen=True)
class Condition:
    """A condition as the SQL text of most engines and as pyarrow's expression."""

    sql: str
    arrow: pc.Expression


@dataclass(frozen=True)
class Bounds:
    """Lower and upper bound and null count of one column in each container."""

    low: pa.Array
    high: pa.Array
    nulls: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Lake:
    """Containers on disk.

    Attributes:
        folder: The folder of the files; for Delta the table.
        files: The files in the order of their containers.
        groups: The number of row groups in each file.
        table: All rows, `ROWS` for each container.
        bounds: The bounds by column.
        condition: The condition to plan.
        some: The containers with a matching row.
        every: The containers in which all rows match.
        matches: The number of matching rows.
    """

    folder: Path
    files: tuple[Path, ...]
    groups: int
    table: pa.Table
    bounds: dict[str, Bounds]
    condition: Condition
    some: frozenset[int]
    every: frozenset[int]
    matches: int

    @property
    def paths(self) -> list[str]:
        return [str(path) for path in self.files]

    @property
    def containers(self) -> int:
        return len(self.files) * self.groups


def make_parquet(folder: Path, containers: int, files: int) -> Lake:
    """Write files of many row groups."""
    groups = containers // files
    table = _rows(files * groups)
    paths = tuple(folder / f"part-{i:05d}.parquet" for i in range(files))
    folder.mkdir(parents=True)
    for i, path in enumerate(paths):
        pq.write_table(table.slice(i * groups * ROWS, groups * ROWS), path, row_group_size=ROWS)
    return _lake(folder, paths, groups, table, _condition(files * groups, ""))


def make_delta(folder: Path, files: int) -> Lake:
    """Write a Delta table of small files in 20 partitions, by one commit with statistics."""
    from deltalake import Schema
    from deltalake.transaction import AddAction, create_table_with_add_actions

    table = _rows(files)
    numbers = np.arange(files) % PARTITIONS
    paths = tuple(folder / f"p={p}" / f"part-{i:05d}.parquet" for i, p in enumerate(numbers))
    for p in range(PARTITIONS):
        (folder / f"p={p}").mkdir(parents=True)
    whole = table.append_column("p", pa.array(np.repeat(numbers, ROWS), pa.int32()))
    lake = _lake(folder, paths, 1, whole, _condition(files, "p <= 9 AND "))
    actions = []
    for i, path in enumerate(paths):
        pq.write_table(table.slice(i * ROWS, ROWS), path)
        stats = json.dumps({"numRecords": ROWS, **_delta_stats(lake, i)})
        actions.append(
            AddAction(
                str(path.relative_to(folder)),
                path.stat().st_size,
                {"p": str(numbers[i])},
                1_700_000_000_000,
                True,
                stats,
            )
        )
    create_table_with_add_actions(
        str(folder), Schema.from_arrow(DELTA_SCHEMA), actions, partition_by=["p"]
    )
    return lake


def _rows(containers: int) -> pa.Table:
    """Make rows.

    `id` grows and its ranges overlap, `amount` and `name` jump from container to container, `note`
    is all NULL in some.
    """
    r = np.random.default_rng(13)
    n = containers * ROWS
    g = np.repeat(np.arange(containers), ROWS)
    return pa.table(
        {
            "id": g * 1000 + r.integers(0, 1500, n),
            "amount": g * 7919 % 1000 / 10 + r.random(n) * 5,
            "name": [
                f"{k:04d}-{v:03d}"
                for k, v in zip(
                    (g * 31 % 1000).tolist(), r.integers(0, 1000, n).tolist(), strict=True
                )
            ],
            "note": pa.array(
                r.integers(0, 100, n), pa.int32(), mask=(g % 50 == 0) | (r.random(n) < 0.1)
            ),
        },
        schema=SCHEMA,
    )


def _condition(containers: int, partition: str) -> Condition:
    f = pc.field
    low, high = containers * 400, containers * 600
    # No `>` on a float: without a NaN count a NaN may exist, and in Spark it exceeds all numbers.
    arrow = (
        (f("id") >= low)
        & (f("id") < high)
        & (f("amount") < 40.5)
        & (f("name") < "0300")
        & ~f("note").is_null()
    )
    text = f"id >= {low} AND id < {high} AND amount < 40.5 AND name < '0300' AND note IS NOT NULL"
    return Condition(partition + text, (f("p") <= 9) & arrow if partition else arrow)


def _lake(
    folder: Path, paths: tuple[Path, ...], groups: int, table: pa.Table, condition: Condition
) -> Lake:
    n = len(paths) * groups
    key = pa.array(np.repeat(np.arange(n), ROWS))
    names = table.column_names
    measures = [(c, how) for c in names for how in ("min", "max")] + [
        (c, "count", pc.CountOptions(mode="only_null")) for c in names
    ]
    found = (
        table.append_column("g", key)
        .group_by("g")
        .aggregate(measures)
        .sort_by("g")
        .combine_chunks()
    )
    bounds = {
        c: Bounds(
            found[f"{c}_min"].chunk(0), found[f"{c}_max"].chunk(0), found[f"{c}_count"].to_numpy()
        )
        for c in names
    }
    matching = table.append_column("g", key).filter(condition.arrow)["g"].to_numpy()
    counts = np.bincount(matching, minlength=n)
    some, every = (
        frozenset(np.flatnonzero(mask).tolist()) for mask in (counts > 0, counts == ROWS)
    )
    return Lake(folder, paths, groups, table, bounds, condition, some, every, len(matching))


def _delta_stats(lake: Lake, i: int) -> dict[str, dict[str, Any]]:
    columns = {c: b for c, b in lake.bounds.items() if c != "p"}
    return {
        "minValues": {c: b.low[i].as_py() for c, b in columns.items() if b.low[i].is_valid},
        "maxValues": {c: b.high[i].as_py() for c, b in columns.items() if b.high[i].is_valid},
        "nullCount": {c: int(b.nulls[i]) for c, b in columns.items()},
    }
