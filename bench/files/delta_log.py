"""Write a Delta log of many files that do not exist: a checkpoint with statistics, and commits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

FIELDS: Final = (
    ("id", "long"),
    ("customer", "long"),
    ("quantity", "integer"),
    ("price", "double"),
    ("amount", "decimal(12,2)"),
    ("day", "date"),
    ("at", "timestamp"),
    ("name", "string"),
)
TYPES: Final = (
    pa.int64(),
    pa.int64(),
    pa.int32(),
    pa.float64(),
    pa.decimal128(12, 2),
    pa.date32(),
    pa.timestamp("us", "UTC"),
    pa.string(),
)
ROWS: Final = 1000  # rows in each file; `id` ascends from file to file
CHECKPOINT: Final = 10  # version
START: Final = 1_577_836_800  # 2020-01-01, seconds
PART: Final = 1_000_000  # files in a part of the checkpoint


def write_log(folder: Path, files: int, *, parsed: bool) -> None:
    """Write the log of a table: a checkpoint with statistics of eight columns.

    Args:
        folder: The table's folder.
        files: The number of files.
        parsed: True for statistics as structs, False for JSON texts.
    """
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    parts = -(-files // PART)
    for i in range(parts):
        first = i * PART
        rows = _checkpoint(_adds(first, min(PART, files - first), parsed), settings=i == 0)
        name = f"{CHECKPOINT:020}.checkpoint" + (f".{i + 1:010}.{parts:010}" if parts > 1 else "")
        pq.write_table(rows, log / f"{name}.parquet", compression="snappy")
    (log / f"{CHECKPOINT:020}.json").write_text('{"commitInfo":{"timestamp":1577836800000}}\n')
    about = {"version": CHECKPOINT, "size": files + 2, **({"parts": parts} if parts > 1 else {})}
    (log / "_last_checkpoint").write_text(json.dumps(about))


def append_commits(folder: Path, files: int, commits: int) -> None:
    """Append `commits` commits that each add a file."""
    texts = _adds(files, commits, parsed=False).field("stats").to_pylist()
    for i, text in enumerate(texts):
        add = {
            "path": f"new-{i:08}.parquet",
            "partitionValues": {},
            "size": 1,
            "modificationTime": 0,
            "dataChange": True,
            "stats": text,
        }
        (folder / "_delta_log" / f"{CHECKPOINT + 1 + i:020}.json").write_text(
            json.dumps({"add": add}) + "\n"
        )


def bounds(first: int, n: int) -> tuple[list[pa.Array], list[pa.Array]]:
    """Return the minima and maxima of the columns in n files, in the order of `FIELDS`."""
    r = np.random.default_rng(first)
    at = np.arange(first, first + n, dtype=np.int64)
    low: list[Any] = [
        at * ROWS,
        r.integers(0, 10**6, n),
        r.integers(0, 50, n, np.int32),
        r.random(n).round(4) * 10,
    ]
    high: list[Any] = [
        at * ROWS + ROWS - 1,
        low[1] + r.integers(0, 10**6, n),
        low[2] + np.int32(40),
        low[3] + 90,
    ]
    cents = r.integers(0, 10**6, n)
    day = (START // 86_400 + at // 2_000).astype(np.int32)
    seconds = START + at * 43
    starts = np.char.zfill(r.integers(0, 10**6, n).astype("U7"), 6)
    low += [
        _decimal(cents),
        pa.array(day).cast(pa.date32()),
        _instant(seconds),
        pa.array(np.char.add("name-", starts)),
    ]
    high += [
        _decimal(cents + 5000),
        pa.array(day).cast(pa.date32()),
        _instant(seconds + 43),
        pa.array(np.char.add("zone-", starts)),
    ]
    return [pa.array(v).cast(t) for v, t in zip(low, TYPES, strict=True)], [
        pa.array(v).cast(t) for v, t in zip(high, TYPES, strict=True)
    ]


def _decimal(cents: Any) -> pa.Array:
    return pc.divide(
        pa.array(cents).cast(pa.decimal128(19, 0)), pa.scalar(100, pa.decimal128(3, 0))
    ).cast(pa.decimal128(12, 2), safe=False)


def _instant(seconds: Any) -> pa.Array:
    return pa.array(seconds * 1_000_000).cast(pa.timestamp("us", "UTC"))


def _adds(first: int, n: int, parsed: bool) -> pa.StructArray:
    """Return `add` actions of n files."""
    low, high = bounds(first, n)
    nulls = [pa.array(np.full(n, i % 3, np.int64)) for i in range(len(TYPES))]
    names = [name for name, _ in FIELDS]
    none = pa.MapArray.from_arrays(
        pa.array(np.zeros(n + 1, np.int32)), pa.array([], pa.string()), pa.array([], pa.string())
    )
    at = pa.array(np.char.zfill(np.arange(first, first + n).astype("U10"), 10))
    columns: dict[str, Any] = {
        "path": pc.binary_join_element_wise(
            "part-", at, "-c9f0f895-fb98-4b91-99f7-3c1a7c0fd2ab-c000.snappy.parquet", ""
        ),
        "partitionValues": none,
        "size": pa.array(np.full(n, 1 << 27)),
        "modificationTime": pa.array(np.full(n, START * 1000)),
        "dataChange": pa.repeat(True, n),
    }
    rows = pa.array(np.full(n, ROWS))
    if parsed:
        structs = [pa.StructArray.from_arrays(v, names) for v in (low, high, nulls)]
        columns["stats_parsed"] = pa.StructArray.from_arrays(
            [rows, *structs], ["numRecords", "minValues", "maxValues", "nullCount"]
        )
    else:
        parts = (_object(names, v) for v in (low, high, nulls))
        columns["stats"] = pc.binary_join_element_wise(
            '{"numRecords":', rows.cast(pa.string()), ',"minValues":', next(parts),
            ',"maxValues":', next(parts), ',"nullCount":', next(parts), "}", "",
        )  # fmt: skip
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))


def _object(names: Sequence[str], values: Sequence[pa.Array]) -> pa.Array:
    """Return a JSON object for each file."""
    pieces: list[Any] = []
    for name, v in zip(names, values, strict=True):
        quoted = (
            pa.types.is_date(v.type) or pa.types.is_timestamp(v.type) or pa.types.is_string(v.type)
        )
        text = (
            pc.strftime(v, "%Y-%m-%dT%H:%M:%SZ")
            if pa.types.is_timestamp(v.type)
            else v.cast(pa.string())
        )
        mark = '"' if quoted else ""
        pieces += [f'{"," if pieces else "{"}"{name}":{mark}', text, mark]
    return pc.binary_join_element_wise(*pieces, "}", "")


def _checkpoint(adds: pa.StructArray, settings: bool) -> pa.Table:
    if not settings:
        return pa.table({"add": adds})
    schema = {
        "type": "struct",
        "fields": [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in FIELDS],
    }
    metadata: dict[str, Any] = {
        "id": "0b5c4a2e",
        "format": {"provider": "parquet", "options": []},
        "schemaString": json.dumps(schema),
        "partitionColumns": [],
    }
    metadata |= {"configuration": [], "createdTime": START * 1000}
    strings = pa.map_(pa.string(), pa.string())
    shape = pa.struct(
        [
            ("id", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", strings)])),
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.string())),
            ("configuration", strings),
            ("createdTime", pa.int64()),
        ]
    )
    protocol = pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])
    n = len(adds)
    return pa.table(
        {
            "add": pa.concat_arrays([pa.nulls(2, adds.type), adds]),
            "metaData": pa.concat_arrays([pa.array([metadata, None], shape), pa.nulls(n, shape)]),
            "protocol": pa.concat_arrays(
                [
                    pa.array([None, {"minReaderVersion": 1, "minWriterVersion": 2}], protocol),
                    pa.nulls(n, protocol),
                ]
            ),
        }
    )
