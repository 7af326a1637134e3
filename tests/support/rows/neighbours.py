"""Rows that lie close together within a container, so that statistics are useful.

Odd values are among them.
"""

import pyarrow as pa

from skipstone.ir.types import PER_SECOND, DType, Kind
from tests.support.rows.strategies import TEXTS, Field, Table, point

# One column of every type of Spark, and two if columns of the type are compared with each other.
FIELDS = (
    Field(("t",), pa.bool_()),
    Field(("i8",), pa.int8()),
    Field(("i16",), pa.int16()),
    Field(("i",), pa.int32(), False),
    Field(("j",), pa.int32()),
    Field(("l",), pa.int64()),
    Field(("f",), pa.float32()),
    Field(("g",), pa.float64()),
    Field(("h",), pa.float64()),
    Field(("m",), pa.decimal128(9, 2)),
    Field(("m0",), pa.decimal128(5, 0)),
    Field(("w",), pa.decimal128(38, 10)),
    Field(("d",), pa.date32()),
    Field(("c",), pa.date32()),
    Field(("n",), pa.timestamp("us")),
    Field(("z",), pa.timestamp("us", "UTC")),
    Field(("s",), pa.string()),
    Field(("v",), pa.string()),
    Field(("y",), pa.binary()),
)
# Further types, which Spark reads as other types.
FOREIGN = (
    *(
        Field((f"u{bits}",), t)
        for bits, t in ((8, pa.uint8()), (16, pa.uint16()), (32, pa.uint32()), (64, pa.uint64()))
    ),
    *(Field((f"n{unit}",), pa.timestamp(unit)) for unit in ("s", "ms", "ns")),
    *(Field((f"z{unit}",), pa.timestamp(unit, "UTC")) for unit in ("s", "ms", "ns")),
    Field(("q",), pa.decimal128(18, 6)),
    Field(("vs",), pa.string_view()),
)
# Days around which a container's dates lie: the present, both ends of the year, clock changes,
# before 1970, 1900 and 1582, and far away.
DAYS = (
    19723,
    19723,
    19782,
    19813,
    20023,
    19792,
    20030,
    20088,
    0,
    -3,
    -7300,
    -25567,
    -30000,
    -141427,
    -719162,
    100_000,
    2_932_890,
)
# Days that every engine reads alike.
PLAIN_DAYS = (19723, 19723, 19782, 19813, 20088, 0, -3, -7300, -25567, 40_000)
STEMS = (
    "",
    "a",
    "ab",
    "k0",
    "Key-",
    "https://example.org/",
    "straße",
    "日",
    " ",
    "20",
    "2024-01-0",
    "1.",
    "-",
    "%",
    "a_",
)


def table(r, fields=FIELDS, *, containers: int, most_rows: int = 6, odd: bool = True) -> Table:
    """Return random rows by container.

    `odd` adds the ends of types, NaN, infinities and dates on which engines disagree.
    """
    return Table(
        tuple(fields),
        tuple(_container(r, fields, r.randint(1, most_rows), odd) for _ in range(containers)),
    )


def _container(r, fields, count: int, odd: bool) -> tuple[dict, ...]:
    center = r.randint(-6, 6)
    made = {
        f.path: _column(r, f, count, center + r.choice((-2, -1, 0, 0, 1, 2, 30)), odd)
        for f in fields
    }
    return tuple({path: values[i] for path, values in made.items()} for i in range(count))


def _column(r, f: Field, count: int, center: int, odd: bool) -> list[object]:
    manner = r.random()
    if manner < 0.08 and f.nullable:
        return [None] * count
    wild = r.choice((0, 0, 0, 0.15)) if odd else 0
    draw = _drawer(r, f, center, wild, odd)
    values = [draw()] * count if manner < 0.35 else [draw() for _ in range(count)]
    nulls = r.choice((0, 0, 0, 0.3)) if f.nullable else 0
    return [None if r.random() < nulls else v for v in values]


def _drawer(r, f: Field, center: int, wild: float, odd: bool):
    dtype = f.dtype
    if dtype.kind in (Kind.DATE, Kind.TIMESTAMP):
        day = r.choice(DAYS if odd else PLAIN_DAYS) if r.random() < 0.7 else 19723 + center
        return lambda: _moment(r, dtype, day, wild)
    if dtype.kind is Kind.STRING:
        stem, style = r.choice(STEMS), r.random()
        if style < 0.2:
            return lambda: str(center + r.randint(-2, 2)).encode()
        if style < 0.35 and odd:
            return lambda: r.choice(TEXTS).encode()
        ends = ("", "a", "b", "c", "Z", "0", "1", "9", "é", " ")
        return lambda: (stem + r.choice(ends)).encode()
    if not odd and dtype.kind is Kind.FLOAT:
        return lambda: center + r.randint(-4, 4) / 2
    return lambda: point(r, dtype, center, f.arrow, wild)


def _moment(r, dtype: DType, day: int, wild: float) -> int:
    if r.random() < wild:
        return r.choice((dtype.lowest, dtype.lowest + 1, dtype.highest, dtype.highest - 1))
    if dtype.kind is Kind.DATE:
        return min(max(day + r.randint(-3, 3), -719162), 2932896)
    unit = PER_SECOND[dtype.unit]
    at = (day * 86400 + r.randint(-30, 30) * r.choice((1, 60, 3600, 3600))) * unit + r.choice(
        (0, 0, 1, unit // 2, unit - 1)
    )
    return min(max(at, dtype.lowest), dtype.highest)
