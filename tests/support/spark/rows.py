"""Random rows of many types, in small clusters, and the same rows as a Spark DataFrame."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from skipstone.bindings.spark.session.frame import from_arrow
from tests.support.predicates.inside import in_one
from tests.support.rows.neighbours import FIELDS, table
from tests.support.rows.strategies import Field

UNSIGNED: Final = (
    Field(("u8",), pa.uint8()),
    Field(("u16",), pa.uint16()),
    Field(("u32",), pa.uint32()),
    Field(("u64",), pa.uint64()),
)
# Families of `tests/support/spark/grammar.py`, by the prefix of the type's name in Spark.
FAMILY: Final = (
    ("boolean", "B"), ("tinyint", "I"), ("smallint", "I"), ("int", "I"), ("bigint", "I"),
    ("float", "F"), ("double", "F"), ("decimal", "M"), ("string", "S"), ("varchar", "S"),
    ("date", "D"),
    ("timestamp_ntz", "Z"), ("timestamp", "T"), ("binary", "Y"), ("interval day", "V"),
    ("interval second", "V"), ("interval year", "W"), ("interval month", "W"), ("array", "A"),
    ("map", "P"),
)  # fmt: skip
SPARK_TYPES: Final = {
    pa.bool_(): "boolean", pa.int8(): "tinyint", pa.int16(): "smallint", pa.int32(): "int",
    pa.int64(): "bigint", pa.float32(): "float", pa.float64(): "double", pa.date32(): "date",
    pa.timestamp("us"): "timestamp_ntz", pa.timestamp("us", "UTC"): "timestamp",
    pa.string(): "string", pa.binary(): "binary",
    pa.uint8(): "smallint", pa.uint16(): "int", pa.uint32(): "bigint", pa.uint64(): "decimal(20,0)",
}  # fmt: skip


def rows(r: random.Random, *, odd: bool = True, unsigned: bool = False) -> pa.Table:
    """Return random rows of some columns, including nested ones, in small clusters."""
    named = {f.name: f for f in FIELDS}
    chosen = ["i", "s", *r.sample([n for n in named if n not in ("i", "s")], r.randint(4, 8))]
    fields = [f for f in FIELDS if f.name in chosen]
    fields += r.sample(UNSIGNED, 2) if unsigned else []
    made = table(r, fields, containers=r.randint(3, 16), odd=odd)
    batch, _ = in_one(made)
    out = pa.Table.from_batches([batch])
    out = pa.table({"id": pa.array(range(out.num_rows), pa.int64()), **_columns(out)})
    if r.random() < 0.5:
        hollow = pa.array([r.random() < 0.15 for _ in range(out.num_rows)])
        inner = {"a": out["i"], "c": out["s"], **({"e": out["d"]} if "d" in chosen else {})}
        parts = [whole(v) for v in inner.values()]
        made_struct = pa.StructArray.from_arrays(parts, list(inner), mask=hollow)
        out = out.append_column("st", made_struct)
    if r.random() < 0.4:
        lists = [
            None
            if r.random() < 0.1
            else [r.choice((0, 1, 2, None, v)) for _ in range(r.randint(0, 3))]
            for v in out["i"].to_pylist()
        ]
        out = out.append_column("arr", pa.array(lists, pa.list_(pa.int32())))
        plain = [
            None if v is None else [("a", k), ("b", None)][: r.randint(0, 2)]
            for v, k in zip(lists, out["i"].to_pylist(), strict=True)
        ]
        out = out.append_column("mp", pa.array(plain, pa.map_(pa.string(), pa.int32())))
    if r.random() < 0.1:
        out = out.append_column(
            "nothing", pa.nulls(out.num_rows, r.choice((pa.int32(), pa.string())))
        )
    return out


def _columns(t: pa.Table) -> dict[str, pa.Array]:
    return {name: whole(t[name]) for name in t.column_names}


def whole(values: Any) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def spark_type(arrow_type: pa.DataType) -> str:
    """Return the type with which Spark reads an Arrow column."""
    if pa.types.is_decimal(arrow_type):
        return f"decimal({arrow_type.precision},{arrow_type.scale})"
    if pa.types.is_struct(arrow_type):
        return f"struct<{', '.join(f'{f.name}: {spark_type(f.type)}' for f in arrow_type)}>"
    if pa.types.is_list(arrow_type):
        return f"array<{spark_type(arrow_type.value_type)}>"
    if pa.types.is_map(arrow_type):
        return f"map<{spark_type(arrow_type.key_type)}, {spark_type(arrow_type.item_type)}>"
    return SPARK_TYPES[arrow_type]


def ddl(schema: pa.Schema) -> str:
    return ", ".join(f"`{f.name}` {spark_type(f.type)}" for f in schema)


def families(fields: dict[str, str]) -> dict[str, list[str]]:
    """Return expressions that name columns, by family; `fields` is name -> type in Spark."""
    found: dict[str, list[str]] = {}
    for name, kind in fields.items():
        if kind.startswith("struct"):
            known = {"a": "I", "c": "S", "e": "D"}
            for leaf, family in known.items():
                if f"{leaf}:" in kind:
                    found.setdefault(family, []).append(f"{name}.{leaf}")
        for start, family in FAMILY:
            if kind.startswith(start):
                if name != "id":
                    found.setdefault(family, []).append(name)
                break
    return found


def in_spark(spark: Any, t: pa.Table, schema: str | None = None) -> Any:
    """Return the rows as a DataFrame in memory."""
    signed = [
        pa.field(f.name, _signed(f.type)) if pa.types.is_integer(f.type) else f for f in t.schema
    ]
    return from_arrow(spark, t.cast(pa.schema(signed)), schema or ddl(t.schema))


def _signed(arrow_type: pa.DataType) -> pa.DataType:
    wider = {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20)}
    return wider[arrow_type.bit_width] if pa.types.is_unsigned_integer(arrow_type) else arrow_type


def in_nanos(f: pa.Field) -> pa.Field:
    return pa.field(f.name, pa.timestamp("ns", f.type.tz)) if pa.types.is_timestamp(f.type) else f


def within_nanos(t: pa.Table) -> pa.Table:
    """Return the rows with NULL for timestamps that nanoseconds cannot represent."""
    for i, f in enumerate(t.schema):
        if pa.types.is_timestamp(f.type):
            micros = t[f.name].cast(pa.int64())
            fits = pc.and_(pc.greater(micros, -(9 * 10**15)), pc.less(micros, 9 * 10**15))
            t = t.set_column(i, f, pc.if_else(fits, t[f.name], pa.scalar(None, f.type)))
    return t


def plain_years(t: pa.Table) -> pa.Table:
    """Return the rows with NULL for days and times that some writers do not have.

    Python and the old calendar have the years 1 to 9999; the old calendar lacks the days between
    1582-10-04 and 1582-10-15.
    """
    columns = [_plain_years(whole(t[name])) for name in t.column_names]
    return pa.Table.from_arrays(columns, schema=t.schema)


def _plain_years(values: pa.Array) -> pa.Array:
    if pa.types.is_struct(values.type):
        fields = [_plain_years(field) for field in values.flatten()]
        return pa.StructArray.from_arrays(fields, fields=list(values.type), mask=values.is_null())
    if pa.types.is_timestamp(values.type):
        days = pc.divide(values.cast(pa.int64()), 86_400_000_000)
    elif pa.types.is_date(values.type):
        days = values.cast(pa.int32()).cast(pa.int64())
    else:
        return values
    fits = pc.and_(pc.greater(days, -718_000), pc.less(days, 2_932_000))
    skipped = pc.and_(pc.greater(days, -141_440), pc.less(days, -141_425))
    return pc.if_else(pc.and_not(fits, skipped), values, pa.scalar(None, values.type))


def as_instants(t: pa.Table) -> pa.Table:
    """Return the rows with all times in UTC, as Spark and Skipstone read INT96."""
    zoned = [
        f.with_type(pa.timestamp(f.type.unit, "UTC")) if pa.types.is_timestamp(f.type) else f
        for f in t.schema
    ]
    return t.cast(pa.schema(zoned))


@dataclass
class Made:
    """A table on disk and in Spark.

    Attributes:
        writer: The writer and its options.
        truth: Its rows as a DataFrame that reads no file.
        columns: Family -> expressions that name a column.
        scan: A function that returns the table as Skipstone's.
        frame: The files as Spark reads them, for `prune`; None if Spark has no reader for them.
        options: Options for `sks.read`, which takes a path.
    """

    writer: str
    truth: Any
    columns: dict[str, list[str]]
    scan: Callable[[], Any]
    frame: Callable[[], Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)


def made_of(spark: Any, writer: str, t: pa.Table, scan: Any, frame: Any, **more: Any) -> Made:
    names = {f.name: spark_type(f.type) for f in t.schema}
    return Made(writer, in_spark(spark, t), families(names), scan, frame, more)


def pieces(r: random.Random, t: pa.Table) -> list[pa.Table]:
    """Split rows into the files of a table: some with one row, one empty, some with many."""
    if r.random() < 0.2:
        t = t.take(pa.array(r.sample(range(t.num_rows), t.num_rows)))
    elif r.random() < 0.3:
        plain = [
            n
            for n in t.column_names
            if spark_type(t.schema.field(n).type) in ("int", "date", "string")
        ]
        t = t.sort_by(r.choice(plain))
    count = r.choice((1, 2, 3, 5))
    cuts = sorted(r.randint(0, t.num_rows) for _ in range(count - 1))
    return [t.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, t.num_rows], strict=True)]
