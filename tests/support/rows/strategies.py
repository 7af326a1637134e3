"""Random schemas and rows, for Hypothesis and the long run.

Values are axis values (`ir/types.py`), None for NULL.
"""

import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from skipstone.ir.node import Path, show_path
from skipstone.ir.types import EXACT, DType, Kind, from_arrow, to_python

TYPES = (
    pa.bool_(),
    *(
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.uint8(),
        pa.uint16(),
        pa.uint32(),
        pa.uint64(),
    ),
    *(pa.float32(), pa.float64(), pa.float32(), pa.float64()),
    *(pa.decimal128(9, 2), pa.decimal128(18, 0), pa.decimal128(38, 10), pa.decimal128(20, 3)),
    *(pa.date32(), pa.date32(), pa.date64()),
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")),
    pa.timestamp("us", "Europe/Berlin"),
    *(
        pa.string(),
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
    ),
    *(pa.binary(), pa.binary(2), pa.large_binary()),
)
TEXTS = (
    *(
        "",
        "a",
        "ab",
        "abc",
        "abd",
        "b",
        "Ab",
        "zebra",
        "é",
        "日本",
        "a%b",
        "a_b",
        "a\\b",
        "it's",
        "a\n",
        "\x00",
        " a ",
        "5",
        "-7",
        "1e0",
        "true",
    ),
    *(
        "2024-01-01",
        "\ud7ff",
        "\ue000",
        "\U00010000",
        "a\U0010ffff",
        "\U0010ffff",
        "\U0010ffff\U0010ffff",
        "https://example.org/a",
        "https://example.org/b",
    ),
)
FLOATS = (
    0.0,
    -0.0,
    math.nan,
    math.inf,
    -math.inf,
    5e-324,
    -5e-324,
    1e-45,
    1.1754942e-38,
    3.4028234663852886e38,
    1.7976931348623157e308,
    0.1,
    16777217.0,
    2.0**53,
)
ZERO_DAY = 19723  # 2024-01-01
WILD = (
    0.12,
    0.01,
    0,
)  # without values at the ends of its type, a column's bounds take fewer bytes


@dataclass(frozen=True)
class Field:
    """A column that predicates may name: a top-level column, or the leaf of a struct."""

    path: Path
    arrow: pa.DataType
    nullable: bool = True

    @property
    def name(self) -> str:
        return show_path(self.path)

    @property
    def dtype(self) -> DType:
        return from_arrow(self.arrow)


@dataclass(frozen=True)
class Table:
    """Fields, and rows by container: one dict per row, path to axis value.

    A NULL struct has None at its own path.
    """

    fields: tuple[Field, ...]
    containers: tuple[tuple[dict[Path, object], ...], ...]

    @property
    def schema(self) -> pa.Schema:
        return schema_of(self.fields)

    def batch(self, container: int) -> pa.RecordBatch:
        return batch_of(self.fields, self.containers[container])


NAMES = (("x",), ("y",), ("Zed",), ("x.y",), ("two words",), ("s", "f"), ("s", "g"), ("naïve",))


def fields(r, count: int | None = None) -> tuple[Field, ...]:
    chosen = r.sample(NAMES, count or r.randint(1, 4))
    return tuple(
        Field(path, r.choice(TYPES), len(path) > 1 or r.random() < 0.85) for path in chosen
    )


def schema_of(fields: tuple[Field, ...]) -> pa.Schema:
    inner = [pa.field(f.path[1], f.arrow) for f in fields if len(f.path) > 1]
    outer = [pa.field(f.path[0], f.arrow, f.nullable) for f in fields if len(f.path) == 1]
    return pa.schema(outer + ([pa.field("s", pa.struct(inner))] if inner else []))


def table(r, *, containers: int, most_rows: int = 5, count: int | None = None) -> Table:
    """Return rows with close values within each container, so that statistics are useful."""
    chosen, wild = fields(r, count), r.choice(WILD)
    made = []
    for _ in range(containers):
        centers = {f.path: r.randint(-6, 6) for f in chosen}
        nulls = {f.path: r.choice((0, 0, 0.2, 1)) if f.nullable else 0 for f in chosen}
        hollow = r.choice((0, 0, 0.3, 1))
        made.append(
            tuple(
                _row(r, chosen, centers, nulls, hollow, wild)
                for _ in range(r.randint(0 if r.random() < 0.1 else 1, most_rows))
            )
        )
    return Table(chosen, tuple(made))


def _row(r, chosen, centers, nulls, hollow, wild) -> dict[Path, object]:
    row: dict[Path, object] = {
        f.path: None
        if r.random() < nulls[f.path]
        else point(r, f.dtype, centers[f.path], f.arrow, wild)
        for f in chosen
    }
    row[("s",)] = None if r.random() < hollow else True
    if row[("s",)] is None:
        row |= {f.path: None for f in chosen if len(f.path) > 1}
    return row


def point(
    r, dtype: DType, center: int = 0, arrow: pa.DataType | None = None, wild: float = 0.12
) -> object:
    """Return a random axis value, often near `center`.

    With probability `wild` it is at an end of the type.
    """
    rare = r.random() < wild
    match dtype.kind:
        case Kind.BOOL:
            return r.randint(0, 1) if center % 3 else center % 2
        case Kind.FLOAT:
            value = r.choice(FLOATS) if rare else center + r.randint(-4, 4) / 2
            with np.errstate(over="ignore"):
                return float(np.float32(value)) if dtype.bits == 32 else value
        case Kind.STRING:
            return (
                r.choice(TEXTS).encode()
                if r.random() < 0.5
                else TEXTS[abs(center) % len(TEXTS)].encode()
            )
        case Kind.BINARY:
            width = (
                arrow.byte_width
                if arrow is not None and pa.types.is_fixed_size_binary(arrow)
                else r.randint(0, 3)
            )
            return bytes(r.choice((0, 1, 0x61, 0x62, 0xFE, 0xFF)) for _ in range(width))
        case Kind.OTHER | Kind.NULL:
            return None
    low, high = dtype.lowest, dtype.highest
    if rare:
        return r.choice(
            (low, low + 1, high, high - 1, min(high, 2**53 + 1), max(low, -(2**53) - 1), 0)
        )
    step = {
        Kind.TIMESTAMP: {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}.get(dtype.unit, 1),
        Kind.DECIMAL: 10**dtype.scale,
    }.get(dtype.kind, 1)
    base = {Kind.DATE: ZERO_DAY, Kind.TIMESTAMP: ZERO_DAY * 86400 * step}.get(dtype.kind, 0)
    spread = r.choice(
        (1, max(1, step // 2), step, 86400 * step if dtype.kind is Kind.TIMESTAMP else step)
    )
    return min(max(base + (center + r.randint(-3, 3)) * spread, low), high)


# Axis values as Arrow arrays.


def array_of(values: list[object], arrow: pa.DataType) -> pa.Array:
    """Return axis values as an array of a column's type, beyond the range of Python's own types."""
    dtype = from_arrow(arrow)
    if pa.types.is_dictionary(arrow):
        return array_of(values, arrow.value_type).dictionary_encode().cast(arrow)
    match dtype.kind:
        case Kind.DATE if pa.types.is_date64(arrow):
            return pa.array(
                [None if v is None else v * 86_400_000 for v in values], pa.int64()
            ).view(arrow)
        case Kind.DATE:
            return pa.array(values, pa.int32()).view(arrow)
        case Kind.TIMESTAMP:
            return pa.array(values, pa.int64()).view(arrow)
        case Kind.STRING:
            return pa.array(values, pa.large_binary()).cast(pa.large_string()).cast(arrow)
        case Kind.BINARY if pa.types.is_fixed_size_binary(arrow):
            return pa.array(values, arrow)
        case Kind.BINARY:
            return pa.array(values, pa.large_binary()).cast(arrow)
        case Kind.FLOAT:
            mask = np.array([v is None for v in values], np.bool_)
            return pa.array(
                np.array([0.0 if v is None else v for v in values], dtype.numpy_type),
                arrow,
                mask=mask,
            )
        case Kind.OTHER | Kind.NULL:
            return pa.nulls(len(values), arrow)
    return pa.array([to_python(v, dtype) for v in values], arrow)


def batch_of(fields: tuple[Field, ...], rows: tuple[dict[Path, object], ...]) -> pa.RecordBatch:
    schema = schema_of(fields)
    columns = {f.path: array_of([row[f.path] for row in rows], f.arrow) for f in fields}
    arrays = []
    for outer in schema:
        if pa.types.is_struct(outer.type):
            inner = [columns[(outer.name, i.name)] for i in outer.type]
            mask = pa.array([row[(outer.name,)] is None for row in rows], pa.bool_())
            arrays.append(pa.StructArray.from_arrays(inner, fields=list(outer.type), mask=mask))
        else:
            arrays.append(columns[(outer.name,)])
    return pa.record_batch(arrays, schema=schema)


def decimal_text(axis: int, scale: int) -> str:
    return format(Decimal(axis).scaleb(-scale, EXACT), "f")


randoms = st.randoms(use_true_random=False)
