"""Tables of random rows by all writers at hand, and the same rows in Spark, whoever reads the files.

A table is a folder; `WRITERS` make them. Each row has an `id`, so an answer is a list of ids.
"""

import contextlib
import os
import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import skipstone as ss
from skipstone.bindings.spark.frame import from_arrow
from tests.delta_log import Log, Written
from tests.inside import in_one
from tests.neighbours import FIELDS, table
from tests.strategies import Field

UNSIGNED: Final = (
    Field(("u8",), pa.uint8()),
    Field(("u16",), pa.uint16()),
    Field(("u32",), pa.uint32()),
    Field(("u64",), pa.uint64()),
)
# Families of `tests/spark_grammar.py`, by the start of the type's name in Spark.
FAMILY: Final = (
    ("boolean", "B"), ("tinyint", "I"), ("smallint", "I"), ("int", "I"), ("bigint", "I"), ("float", "F"),
    ("double", "F"), ("decimal", "M"), ("string", "S"), ("char", "S"), ("varchar", "S"), ("date", "D"),
    ("timestamp_ntz", "Z"), ("timestamp", "T"), ("binary", "Y"), ("interval day", "V"),
    ("interval second", "V"), ("interval year", "W"), ("interval month", "W"), ("array", "A"), ("map", "P"),
)  # fmt: skip
SPARK_TYPES: Final = {
    pa.bool_(): "boolean", pa.int8(): "tinyint", pa.int16(): "smallint", pa.int32(): "int", pa.int64(): "bigint",
    pa.float32(): "float", pa.float64(): "double", pa.date32(): "date", pa.timestamp("us"): "timestamp_ntz",
    pa.timestamp("us", "UTC"): "timestamp", pa.string(): "string", pa.binary(): "binary",
    pa.uint8(): "smallint", pa.uint16(): "int", pa.uint32(): "bigint", pa.uint64(): "decimal(20,0)",
}  # fmt: skip


@dataclass
class Made:
    """A table on disk and in Spark.

    Attributes:
        writer: Who wrote it, and with which options.
        truth: Its rows as a DataFrame that no file stands behind.
        columns: Family -> expressions that name a column.
        scan: Gives the table as Skipstone has it.
        frame: The files as Spark reads them, for `prune`; None where Spark has no reader for them.
        options: For `sks.read`, which takes a path.
    """

    writer: str
    truth: Any
    columns: dict[str, list[str]]
    scan: Callable[[], Any]
    frame: Callable[[], Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)


def rows(r: random.Random, *, odd: bool = True, unsigned: bool = False) -> pa.Table:
    """Random rows of some columns, with nested ones, in clusters of a few."""
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
        parts = [_whole(v) for v in inner.values()]
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
    return {name: _whole(t[name]) for name in t.column_names}


def _whole(values: Any) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def spark_type(kind: pa.DataType) -> str:
    """The type that Spark reads a column of Arrow's as."""
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{f.name}: {spark_type(f.type)}' for f in kind)}>"
    if pa.types.is_list(kind):
        return f"array<{spark_type(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{spark_type(kind.key_type)}, {spark_type(kind.item_type)}>"
    return SPARK_TYPES[kind]


def ddl(schema: pa.Schema) -> str:
    return ", ".join(f"`{f.name}` {spark_type(f.type)}" for f in schema)


def families(fields: dict[str, str]) -> dict[str, list[str]]:
    """Expressions that name columns, by family; `fields` is name -> type in Spark."""
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
    """Rows as a DataFrame in memory."""
    signed = [
        pa.field(f.name, _signed(f.type)) if pa.types.is_integer(f.type) else f for f in t.schema
    ]
    return from_arrow(spark, t.cast(pa.schema(signed)), schema or ddl(t.schema))


def _signed(kind: pa.DataType) -> pa.DataType:
    wider = {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20)}
    return wider[kind.bit_width] if pa.types.is_unsigned_integer(kind) else kind


def _made(spark: Any, writer: str, t: pa.Table, scan: Any, frame: Any, **more: Any) -> Made:
    names = {f.name: spark_type(f.type) for f in t.schema}
    return Made(writer, in_spark(spark, t), families(names), scan, frame, more)


def _pieces(r: random.Random, t: pa.Table) -> list[pa.Table]:
    """Files of a table: some of one row, one without any, some of many."""
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


def _of_files(spark: Any, writer: str, t: pa.Table, folder: str) -> Made:
    schema = ddl(t.schema)
    return _made(
        spark,
        writer,
        t,
        lambda: ss.scan_parquet(folder),
        lambda: spark.read.schema(schema).parquet(folder),
        format="parquet",
    )


def by_pyarrow(r: random.Random, spark: Any, folder: str) -> Made:
    t = rows(r, unsigned=r.random() < 0.3)
    int96, nanos = r.random() < 0.12, r.random() < 0.08
    if int96 or nanos:
        t = _within_nanos(t)
    names = t.column_names
    said = []
    missing = r.choice(names[2:]) if r.random() < 0.15 else None
    for i, piece in enumerate(_pieces(r, t)):
        options: dict[str, Any] = {
            "version": r.choice(("1.0", "2.4", "2.6")),
            "data_page_version": r.choice(("1.0", "2.0")),
            "write_statistics": r.choice((True, True, True, False, names[: len(names) // 2])),
            "use_dictionary": r.choice((True, False)),
            "compression": r.choice(("none", "snappy", "zstd")),
            "row_group_size": r.choice((1, 3, 6, 6, 12, 1000)),
            "write_page_index": r.random() < 0.5,
            "data_page_size": r.choice((None, 1, 64)),
            "store_decimal_as_integer": r.random() < 0.3,
        }
        if options["version"] == "1.0":  # which stores UINT32 as INT64, and moments in milliseconds
            options["version"] = "2.4"
        if int96:
            options["use_deprecated_int96_timestamps"] = True
        elif nanos:
            options |= {"version": "2.6", "coerce_timestamps": None}
            piece = piece.cast(pa.schema([_in_nanos(f) for f in piece.schema]))
        if missing and i % 2:
            piece = piece.drop_columns([missing])
            t = _without(t, missing, piece["id"])
        pq.write_table(piece, f"{folder}/{i:02}.parquet", **options)
        said.append(str({k: v for k, v in options.items() if k not in ("compression",)}))
    made = _of_files(spark, "pyarrow", t, folder)
    if missing:  # the column may be in no file, then it is no column
        t = t if missing in ss.scan_parquet(folder).schema.names else t.drop_columns([missing])
        made = _of_files(spark, "pyarrow, a file lacks a column", t, folder)
    if nanos:
        made = replace(made, writer="pyarrow, nanoseconds", frame=None)
    return replace(made, writer="pyarrow, INT96") if int96 else made


def _without(t: pa.Table, name: str, ids: pa.Array) -> pa.Table:
    """The rows, with NULL in a column of those of a file that lacks it."""
    gone = pc.is_in(t["id"], value_set=_whole(ids))
    i = t.column_names.index(name)
    if pa.types.is_nested(t.schema.field(name).type):
        values = [
            None if g else v for g, v in zip(gone.to_pylist(), t[name].to_pylist(), strict=True)
        ]
        return t.set_column(i, name, pa.array(values, t.schema.field(name).type))
    return t.set_column(
        i, name, pc.if_else(gone, pa.scalar(None, t.schema.field(name).type), t[name])
    )


def _in_nanos(f: pa.Field) -> pa.Field:
    return pa.field(f.name, pa.timestamp("ns", f.type.tz)) if pa.types.is_timestamp(f.type) else f


def _within_nanos(t: pa.Table) -> pa.Table:
    """With moments that nanoseconds can name, others being NULL."""
    for i, f in enumerate(t.schema):
        if pa.types.is_timestamp(f.type):
            micros = t[f.name].cast(pa.int64())
            fits = pc.and_(pc.greater(micros, -(9 * 10**15)), pc.less(micros, 9 * 10**15))
            t = t.set_column(i, f, pc.if_else(fits, t[f.name], pa.scalar(None, f.type)))
    return t


def by_spark(r: random.Random, spark: Any, folder: str) -> Made:
    t = rows(r)
    legacy, int96 = r.choice(("CORRECTED", "CORRECTED", "LEGACY")), r.random() < 0.2
    if int96:
        t = _within_nanos(t)
    settings = {
        "spark.sql.parquet.datetimeRebaseModeInWrite": legacy,
        "spark.sql.parquet.int96RebaseModeInWrite": legacy,
        "spark.sql.parquet.outputTimestampType": "INT96" if int96 else "TIMESTAMP_MICROS",
        "spark.sql.parquet.writeLegacyFormat": str(r.random() < 0.15).lower(),
    }
    if legacy == "LEGACY":
        t = _plain_years(t)
    frame = in_spark(spark, t)
    extra = []
    if r.random() < 0.3:
        extra.append("CAST(s AS STRING COLLATE UTF8_LCASE) AS u")
    if r.random() < 0.3:
        extra += ["make_dt_interval(i % 100, 0, 0, 0.5) AS iv", "make_ym_interval(0, i % 50) AS ym"]
    if r.random() < 0.2:
        extra.append("CAST(left(s, 5) AS VARCHAR(5)) AS vc")
    frame = frame.selectExpr("*", *extra)
    options = {
        "parquet.page.size": r.choice(("64", "1048576")),
        "parquet.statistics.truncate.length": r.choice(("2", "2147483647")),
        "parquet.columnindex.truncate.length": r.choice(("1", "64")),
        "parquet.enable.dictionary": r.choice(("true", "false")),
        "parquet.writer.version": r.choice(("PARQUET_1_0", "PARQUET_2_0")),
        "parquet.bloom.filter.enabled#s": r.choice(("true", "false")),
        "parquet.block.size": r.choice(("200", "134217728")),
        "parquet.page.row.count.limit": r.choice(("2", "20000")),
    }
    with _set(spark, settings):
        parts = r.choice((1, 2, 4))
        spread = (
            frame.repartitionByRange(parts, "i") if r.random() < 0.6 else frame.repartition(parts)
        )
        spread.write.options(**options).mode("append").parquet(folder)
    kinds = {f.name: f.dataType.simpleString() for f in frame.schema.fields}
    name = f"Spark{', INT96' * int96}{', legacy' * (legacy == 'LEGACY')}{', collated' * ('u' in kinds)}"
    name += ", intervals" * ("iv" in kinds)
    return Made(
        name,
        _kept(frame),
        families(kinds),
        lambda: ss.scan_parquet(folder),
        lambda: spark.read.schema(frame.schema).parquet(folder),
        {"format": "parquet"},
    )


def _kept(frame: Any) -> Any:
    """The rows, computed once."""
    return frame.localCheckpoint()


def _plain_years(t: pa.Table) -> pa.Table:
    """With moments that the old calendar has, too: from year 1 to 9999."""
    for i, f in enumerate(t.schema):
        if pa.types.is_timestamp(f.type):
            micros = t[f.name].cast(pa.int64())
            fits = pc.and_(
                pc.greater(micros, -62_100_000_000_000_000),
                pc.less(micros, 253_402_000_000_000_000),
            )
            t = t.set_column(i, f, pc.if_else(fits, t[f.name], pa.scalar(None, f.type)))
        if pa.types.is_date(f.type):
            days = t[f.name].cast(pa.int32())
            fits = pc.greater(days, -718_000)
            t = t.set_column(i, f, pc.if_else(fits, t[f.name], pa.scalar(None, f.type)))
    return t


@contextlib.contextmanager
def _set(spark: Any, settings: dict[str, str]) -> Any:
    before = {key: spark.conf.get(key) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


def by_duckdb(r: random.Random, spark: Any, folder: str) -> Made:
    import duckdb

    t = _plain_years(rows(r, odd=r.random() < 0.5))
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'")
        for i, piece in enumerate(_pieces(r, t)):
            if not piece.num_rows and i:
                continue
            con.register("piece", piece)
            options = (
                f"ROW_GROUP_SIZE {r.choice((2, 8, 2048))}, PARQUET_VERSION {r.choice(('v1', 'v2'))}"
            )
            con.execute(f"COPY piece TO '{folder}/{i}.parquet' (FORMAT parquet, {options})")
            con.unregister("piece")
    return _of_files(spark, "DuckDB", t, folder)


def by_polars(r: random.Random, spark: Any, folder: str) -> Made:
    import polars as pl

    t = _plain_years(rows(r, unsigned=r.random() < 0.3))
    t = t.drop_columns([n for n in ("mp",) if n in t.column_names])
    for i, piece in enumerate(_pieces(r, t)):
        pl.from_arrow(piece).write_parquet(
            f"{folder}/{i}.parquet",
            statistics=r.choice(
                (True, "full", False, {"min": True, "max": False, "null_count": True})
            ),
            row_group_size=r.choice((2, 8, 1000)),
            data_page_size=r.choice((None, 64)),
        )
    return _of_files(spark, "Polars", t, folder)


def by_deltalake(r: random.Random, spark: Any, folder: str) -> Made:
    import deltalake

    t = _plain_years(rows(r, odd=r.random() < 0.7))
    t = t.drop_columns([n for n in ("arr", "mp", "nothing") if n in t.column_names])
    keys = [n for n in ("i", "s", "d", "t", "m") if n in t.column_names]
    by = r.sample(keys, 1) if r.random() < 0.3 else None
    if by == ["s"]:  # Delta has no empty partition value: it is NULL
        empty = pc.equal(t["s"], "")
        t = t.set_column(
            t.column_names.index("s"), "s", pc.if_else(empty, pa.scalar(None, pa.string()), t["s"])
        )
    for piece in _pieces(r, t):
        if piece.num_rows:
            deltalake.write_deltalake(folder, piece, mode="append", partition_by=by)
    if r.random() < 0.3:
        cut = r.randrange(t.num_rows)
        deltalake.DeltaTable(folder).delete(f"id >= {cut}")
        t = t.filter(pc.less(t["id"], cut))
    return _made(
        spark,
        f"deltalake{', partitions' if by else ''}",
        t,
        lambda: ss.scan_delta(folder),
        None,
        format="delta",
    )


def by_delta_log(r: random.Random, spark: Any, folder: str) -> Made:
    """A Delta table as Spark writes it, with deletion vectors and column mapping."""
    t = _plain_years(rows(r))
    t = t.drop_columns([n for n in ("arr", "mp", "st", "nothing") if n in t.column_names])
    kinds = {"int": "integer", "bigint": "long", "smallint": "short", "tinyint": "byte"}
    described = {
        "type": "struct",
        "fields": [
            {
                "name": f.name,
                "type": kinds.get(spark_type(f.type), spark_type(f.type)),
                "nullable": True,
                "metadata": {},
            }
            for f in t.schema
        ],
    }
    mapping = r.choice((None, None, "name"))
    log = Log(
        f"{folder}/t", described, features=("deletionVectors", "timestampNtz"), mapping=mapping
    )
    gone: list[int] = []
    for piece in _pieces(r, t):
        dead = [k for k in range(piece.num_rows) if r.random() < 0.2] if r.random() < 0.5 else []
        gone += [piece["id"][k].as_py() for k in dead]
        log.add(Written(piece, dead=dead or None), indexed=r.choice((32, 3)))
    left = t.filter(pc.invert(pc.is_in(t["id"], value_set=pa.array(gone, pa.int64()))))
    return _made(
        spark,
        f"delta log{', mapping' if mapping else ''}{', vectors' if gone else ''}",
        left,
        lambda: ss.scan_delta(f"{folder}/t"),
        None,
        format="delta",
    )


def by_pyiceberg(r: random.Random, spark: Any, folder: str) -> Made:
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.transforms import parse_transform

    from tests import iceberg_tables as ice

    t = _plain_years(rows(r))
    t = t.drop_columns([n for n in ("arr", "mp", "nothing", "i8", "i16") if n in t.column_names])
    whole = pa.schema(
        [
            pa.field(f.name, f.type, metadata={"PARQUET:field_id": str(k)})
            for k, f in enumerate(t.schema, 1)
        ]
    )
    from pyiceberg.io.pyarrow import pyarrow_to_schema
    from pyiceberg.schema import assign_fresh_schema_ids

    if "st" in t.column_names:
        t = t.drop_columns(["st"])
        whole = whole.remove(whole.get_field_index("st"))
    schema = assign_fresh_schema_ids(pyarrow_to_schema(whole))
    transforms = {
        "i": ("identity", "bucket[4]", "truncate[10]"),
        "s": ("identity", "truncate[2]", "bucket[3]"),
        "d": ("day", "month", "year"),
        "n": ("day", "hour", "month"),
        "z": ("day", "hour", "year"),
        "l": ("bucket[5]", "truncate[100]"),
    }
    usable = [n for n in transforms if n in t.column_names]
    spec = PartitionSpec()
    if r.random() < 0.5:
        name = r.choice(usable)
        source = schema.find_field(name).field_id
        how = r.choice(transforms[name])
        spec = PartitionSpec(
            PartitionField(
                source_id=source, field_id=1000, transform=parse_transform(how), name=f"{name}_p"
            )
        )
    made = ice.make(folder, schema, spec)
    for piece in _pieces(r, t):
        if piece.num_rows:
            made = ice.append(made, piece, per_file=r.choice((None, 4)))
    kind = ""
    if not spec.fields and r.random() < 0.4:
        ids = sorted(r.sample(range(t.num_rows), max(1, t.num_rows // 5)))
        made = ice.equality_deletes(made, pa.table({"id": pa.array(ids, pa.int64())}), [1])
        t = t.filter(pc.invert(pc.is_in(t["id"], value_set=pa.array(ids, pa.int64()))))
        kind = ", equality deletes"
    where = made.metadata_location.removeprefix("file://")
    return _made(
        spark,
        f"pyiceberg{', ' + str(spec.fields[0].transform).split('[')[0] if spec.fields else ''}{kind}",
        t,
        lambda: ss.scan_iceberg(where),
        None,
        format="iceberg",
    )


def by_hive(r: random.Random, spark: Any, folder: str) -> Made:
    """Folders of Spark's, whose partition columns come back with inferred types."""
    t = rows(r)
    t = t.drop_columns([n for n in ("nothing",) if n in t.column_names])
    keys = [n for n in ("i", "s", "d", "i8", "v") if n in t.column_names]
    by = r.sample(keys, r.choice((1, 1, 2)) if len(keys) > 1 else 1)
    if "d" in by:
        t = _plain_years(t)
    in_spark(spark, t).coalesce(1).write.mode("append").partitionBy(*by).parquet(folder)
    back = spark.read.parquet(folder)
    kinds = {f.name: f.dataType.simpleString() for f in back.schema.fields}
    return Made(
        f"Hive folders by {', '.join(by)}",
        _kept(back),
        families(kinds),
        lambda: ss.scan_hive(folder),
        lambda: spark.read.parquet(folder),
        {"format": "hive"},
    )


WRITERS: Final[dict[str, Callable[[random.Random, Any, str], Made]]] = {
    "pyarrow": by_pyarrow,
    "spark": by_spark,
    "duckdb": by_duckdb,
    "polars": by_polars,
    "deltalake": by_deltalake,
    "delta_log": by_delta_log,
    "pyiceberg": by_pyiceberg,
    "hive": by_hive,
}
TURNS: Final = (
    "pyarrow",
    "spark",
    "pyarrow",
    "spark",
    "duckdb",
    "polars",
    "deltalake",
    "delta_log",
    "pyiceberg",
    "hive",
)


def write(seed: int, spark: Any, folder: str) -> Made:
    """The table of a seed."""
    r = random.Random(seed)
    os.makedirs(folder, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return WRITERS[TURNS[seed % len(TURNS)]](r, spark, folder)
