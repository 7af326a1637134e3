"""Tables of random rows by all available writers: files, Hive folders, Delta and Iceberg tables.

Each row has an `id`, so an answer is a list of ids.
"""

import os
import random
import warnings
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

import skipstone as ss
from skipstone.ir.arrow import null_where
from tests.support.spark.rows import (
    Made,
    families,
    in_spark,
    made_of,
    pieces,
    plain_years,
    rows,
    spark_type,
)
from tests.support.spark.writers import by_duckdb, by_polars, by_pyarrow, by_spark
from tests.support.tables.delta_log import Log, Written


def by_deltalake(r: random.Random, spark: Any, folder: str) -> Made:
    import deltalake

    t = plain_years(rows(r, odd=r.random() < 0.7))
    t = t.drop_columns([n for n in ("arr", "mp", "nothing") if n in t.column_names])
    keys = [n for n in ("i", "s", "d", "t", "m") if n in t.column_names]
    by = r.sample(keys, 1) if r.random() < 0.3 else None
    # Delta has no empty partition value: it is NULL. deltalake 1.6 writes -1.50 as `-1.-50`.
    if by in (["s"], ["m"]):
        (name,) = by
        values = t[name]
        if name == "s":
            odd = pc.equal(values, "")
        else:
            negative = pc.less(values, pa.scalar(0, pa.decimal128(9, 2)))
            odd = pc.and_(negative, pc.not_equal(pc.floor(values), values))
        t = t.set_column(t.column_names.index(name), name, null_where(odd, values))
    for piece in pieces(r, t):
        if piece.num_rows:
            deltalake.write_deltalake(folder, piece, mode="append", partition_by=by)
    if r.random() < 0.3:
        cut = r.randrange(t.num_rows)
        deltalake.DeltaTable(folder).delete(f"id >= {cut}")
        t = t.filter(pc.less(t["id"], cut))
    return made_of(
        spark,
        f"deltalake{', partitions' if by else ''}",
        t,
        lambda: ss.scan_delta(folder),
        None,
        format="delta",
    )


def by_delta_log(r: random.Random, spark: Any, folder: str) -> Made:
    """Write a Delta table as Spark does, with deletion vectors and column mapping."""
    t = plain_years(rows(r))
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
    for piece in pieces(r, t):
        dead = [k for k in range(piece.num_rows) if r.random() < 0.2] if r.random() < 0.5 else []
        gone += [piece["id"][k].as_py() for k in dead]
        log.add(Written(piece, dead=dead or None), indexed=r.choice((32, 3)))
    left = t.filter(pc.invert(pc.is_in(t["id"], value_set=pa.array(gone, pa.int64()))))
    return made_of(
        spark,
        f"delta log{', mapping' if mapping else ''}{', vectors' if gone else ''}",
        left,
        lambda: ss.scan_delta(f"{folder}/t"),
        None,
        format="delta",
    )


def by_pyiceberg(r: random.Random, spark: Any, folder: str) -> Made:
    from pyiceberg.io.pyarrow import pyarrow_to_schema
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import assign_fresh_schema_ids
    from pyiceberg.transforms import parse_transform

    from tests.support.tables import iceberg_tables as ice

    t = plain_years(rows(r))
    t = t.drop_columns([n for n in ("arr", "mp", "nothing", "i8", "i16") if n in t.column_names])
    fields = pa.schema(
        [
            pa.field(f.name, f.type, metadata={"PARQUET:field_id": str(k)})
            for k, f in enumerate(t.schema, 1)
        ]
    )
    if "st" in t.column_names:
        t = t.drop_columns(["st"])
        fields = fields.remove(fields.get_field_index("st"))
    schema = assign_fresh_schema_ids(pyarrow_to_schema(fields))
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
        if (name, how) == ("i", "truncate[10]"):  # pyiceberg does not write a value below INT
            least = pa.scalar(-(2**31) + 10, t.schema.field("i").type)
            i = pc.if_else(pc.less(t["i"], least), least, t["i"])
            t = t.set_column(t.column_names.index("i"), t.schema.field("i"), i)
        spec = PartitionSpec(
            PartitionField(
                source_id=source, field_id=1000, transform=parse_transform(how), name=f"{name}_p"
            )
        )
    made = ice.make(folder, schema, spec)
    for piece in pieces(r, t):
        if piece.num_rows:
            made = ice.append(made, piece, per_file=r.choice((None, 4)))
    kind = f", {str(spec.fields[0].transform).partition('[')[0]}" if spec.fields else ""
    if not spec.fields and r.random() < 0.4:
        ids = sorted(r.sample(range(t.num_rows), max(1, t.num_rows // 5)))
        made = ice.equality_deletes(made, pa.table({"id": pa.array(ids, pa.int64())}), [1])
        t = t.filter(pc.invert(pc.is_in(t["id"], value_set=pa.array(ids, pa.int64()))))
        kind = ", equality deletes"
    where = made.metadata_location.removeprefix("file://")
    return made_of(
        spark,
        f"pyiceberg{kind}",
        t,
        lambda: ss.scan_iceberg(where),
        None,
        format="iceberg",
    )


def by_hive(r: random.Random, spark: Any, folder: str) -> Made:
    """Write folders with Spark, which infers the types of their partition columns."""
    t = rows(r)
    t = t.drop_columns([n for n in ("nothing",) if n in t.column_names])
    keys = [n for n in ("i", "s", "d", "i8", "v") if n in t.column_names]
    by = r.sample(keys, r.choice((1, 1, 2)) if len(keys) > 1 else 1)
    for name in {"s", "v"} & set(by):  # Spark does not escape NUL, which no file system allows
        plain = pc.replace_substring(t[name], "\x00", "")
        t = t.set_column(t.column_names.index(name), name, plain)
    in_spark(spark, t).coalesce(1).write.mode("append").partitionBy(*by).parquet(folder)
    back = spark.read.parquet(folder)
    kinds = {f.name: f.dataType.simpleString() for f in back.schema.fields}
    return Made(
        f"Hive folders by {', '.join(by)}",
        back.localCheckpoint(),
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
    """Write the table of a seed."""
    r = random.Random(seed)
    os.makedirs(folder, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return WRITERS[TURNS[seed % len(TURNS)]](r, spark, folder)
