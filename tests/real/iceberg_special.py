"""Iceberg tables that need more than statements: defaults, UUIDs, branches, tags, encryption."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import skipstone as ss
from tests.real.iceberg_tables import CREATE, DELETES, MERGE_ON_READ, opened, with_properties
from tests.real.made import PARTS, ROWS, Made, Wanted, inserts, run, unmade

V3 = f"'format-version' = '3', {MERGE_ON_READ}"
COMMON = "id, i, l, f, s, d, t, n, b, z, st, arr, m, items, p"
UUID = ("concat(lpad(hex(pmod(hash(id), 4096)), 3, '0'), '00000-0000-4000-', "
        "lpad(hex(pmod(hash(id, 7), 65536)), 4, '0'), '-', lpad(hex(id), 12, '0'))")  # fmt: skip


def by_spark(spark: Any, folder: Path, wanted: Wanted) -> Iterator[Made]:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS ice.special")
    makers = (upgraded, defaults, uuids, referred, geometry, nanoseconds, encrypted)
    for maker in makers:
        if not any(wanted("Spark", feature) for feature in FEATURES[maker.__name__]):
            continue
        try:
            yield from maker(spark, folder / "ice" / "special")
        except Exception as e:
            yield unmade("iceberg", "Spark", ", ".join(FEATURES[maker.__name__]), e)


FEATURES = {
    "upgraded": ("versions 1 to 3",),
    "defaults": ("default values",),
    "uuids": ("UUID and FIXED", "UUID, many row groups", "UUID, identity", "UUID, bucket"),
    "referred": ("branch", "tag"),
    "geometry": ("geometry",),
    "nanoseconds": ("nanoseconds",),
    "encrypted": ("encryption",),
}


def do(spark: Any, name: str, statements: list[str]) -> None:
    run(spark, [s.replace("{t}", f"ice.special.{name}") for s in statements])


def table_of(spark: Any, name: str) -> Any:
    """Return a table of Iceberg's Java library."""
    util = spark._jvm.org.apache.iceberg.spark.Spark3Util
    return util.loadIcebergTable(spark._jsparkSession, f"ice.special.{name}")


def with_columns(statements: list[str], more: str = "") -> list[str]:
    """Name the columns of inserts; add some columns' values."""
    added = [f"{value} AS {name}" for name, value in (pair.split(": ", 1) for pair in
             more.split("; ") if pair)]  # fmt: skip
    names = ", ".join([COMMON, *(a.rsplit(" AS ", 1)[1] for a in added)])
    values = ", ".join([COMMON, *added])
    out = []
    for s in statements:
        head, rows = s.split(" SELECT ", 1)
        out.append(f"{head} ({names}) SELECT {values} FROM (SELECT {rows})")
    return out


def upgraded(spark: Any, folder: Path) -> Iterator[Made]:
    raised = "ALTER TABLE {{t}} SET TBLPROPERTIES ('format-version' = '{}')"
    do(spark, "upgraded", [
        with_properties(f"'format-version' = '1', {MERGE_ON_READ}"),
        "ALTER TABLE {t} ADD PARTITION FIELD bucket(3, i)",
        *inserts("{t}", range(2)), "ALTER TABLE {t} DROP PARTITION FIELD bucket(3, i)",
        raised.format(2), *inserts("{t}", range(2, 4)), DELETES[0],
        "ALTER TABLE {t} RENAME COLUMN l TO `l 2`", "ALTER TABLE {t} ALTER COLUMN i TYPE BIGINT",
        "ALTER TABLE {t} ADD PARTITION FIELD months(d)", raised.format(3),
        *inserts("{t}", range(4, PARTS)), *DELETES[1:],
    ])  # fmt: skip
    yield opened(spark, "versions 1 to 3", folder / "upgraded", "ice.special.upgraded")


def defaults(spark: Any, folder: Path) -> Iterator[Made]:
    do(spark, "defaults", [with_properties(V3), *inserts("{t}", range(3))])
    jvm = spark._jvm
    types = jvm.org.apache.iceberg.types.Types
    literal = jvm.org.apache.iceberg.expressions.Literal
    change = table_of(spark, "defaults").updateSchema()
    change.addColumn("k", types.IntegerType.get(), literal.of(5))
    change.addColumn("w", types.StringType.get(), literal.of("fixed"))
    change.commit()
    spark.sql("REFRESH TABLE ice.special.defaults")
    more = with_columns(inserts("{t}", range(3, 5)), "k: CAST(id AS INT); w: s")
    do(spark, "defaults", [*more, *with_columns(inserts("{t}", range(5, PARTS)))
                           , "UPDATE {t} SET k = 6 WHERE id % 40 = 3"])  # fmt: skip
    yield opened(spark, "default values", folder / "defaults", "ice.special.defaults")


def uuids(spark: Any, folder: Path) -> Iterator[Made]:
    kinds = spark._jvm.org.apache.iceberg.types.Types
    groups = "'write.parquet.row-group-size-bytes' = '1', 'write.parquet.page-row-limit' = '5', " \
        "'write.parquet.row-group-check-min-record-count' = '5', " \
        "'write.parquet.row-group-check-max-record-count' = '5'"  # fmt: skip
    tables = {"uuid": CREATE, "uuid_groups": with_properties(groups),
              "uuid_parts": with_properties("'write.distribution-mode' = 'none'"),
              "uuid_bucket": with_properties("'write.distribution-mode' = 'none'")}  # fmt: skip
    for feature, (name, create) in zip(FEATURES["uuids"], tables.items(), strict=True):
        do(spark, name, [create])
        change = table_of(spark, name).updateSchema()
        change.addColumn("u", kinds.UUIDType.get()).addColumn("x", kinds.FixedType.ofLength(3))
        change.commit()
        spark.sql(f"REFRESH TABLE ice.special.{name}")
        uuid = UUID.replace("hash(id)", "hash(id DIV 5)") if name == "uuid_parts" else UUID
        if name == "uuid_parts":
            uuid = uuid.replace("hash(id, 7)", "7").replace("hex(id)", "'1'")
            do(spark, name, ["ALTER TABLE {t} ADD PARTITION FIELD u"])
        if name == "uuid_bucket":
            do(spark, name, ["ALTER TABLE {t} ADD PARTITION FIELD bucket(4, u)"])
        fixed = "CAST(substring(CONCAT('x', id, '0000'), 1, 3) AS BINARY)"
        more = f"u: IF(id % 19 = 4, NULL, lower({uuid})); x: {fixed}"
        do(spark, name, with_columns(inserts("{t}"), more))
        yield opened(spark, feature, folder / name, f"ice.special.{name}")


def referred(spark: Any, folder: Path) -> Iterator[Made]:
    """A branch and a tag; the table's own rows are others."""
    do(spark, "refs", [
        with_properties(V3), *inserts("{t}", range(3)), "ALTER TABLE {t} CREATE TAG old",
        "ALTER TABLE {t} CREATE BRANCH work", DELETES[0],
        *inserts("{t}.branch_work", range(3, PARTS)), "ALTER TABLE {t} RENAME COLUMN l TO l2",
    ])  # fmt: skip
    path = str(folder / "refs")
    for feature, name in (("branch", "work"), ("tag", "old")):
        yield Made(
            "iceberg", "Spark", feature, lambda name=name: ss.scan_iceberg(path, name),
            lambda name=name: spark.read.option("versionAsOf", name).table("ice.special.refs"),
        )  # fmt: skip


def geometry(spark: Any, folder: Path) -> Iterator[Made]:
    spark.conf.set("spark.sql.geospatial.enabled", "true")
    do(spark, "places", [
        f"{CREATE[: CREATE.index(', p STRING')]}, p STRING, g GEOMETRY(4326)) USING iceberg "
        f"TBLPROPERTIES ({V3})",
        *with_columns(inserts("{t}"), "g: st_setsrid(st_geomfromwkb("
                      "X'0101000000000000000000F03F0000000000000040'), 4326)"), *DELETES,
    ])  # fmt: skip
    yield opened(spark, "geometry", folder / "places", "ice.special.places")


def nanoseconds(spark: Any, folder: Path) -> Iterator[Made]:
    """Spark has no such type: Arrow writes the files, Iceberg's library adds them."""
    do(spark, "nanos", [f"CREATE TABLE {{t}} (id BIGINT, s STRING) USING iceberg "
                        f"TBLPROPERTIES ({V3})"])  # fmt: skip
    iceberg, table = spark._jvm.org.apache.iceberg, table_of(spark, "nanos")
    kind = iceberg.types.Types.TimestampNanoType
    change = table.updateSchema().addColumn("w", kind.withoutZone())
    change.addColumn("v", kind.withZone()).commit()
    names = {f.name(): f.fieldId() for f in table.schema().columns()}
    append, files = table.newAppend(), []
    for part in range(PARTS):
        ids = [*range(part * ROWS, part * ROWS + ROWS)]
        times = [None if k % 9 == 4 else k * 3_600_000_001_000 for k in ids]
        columns = {"id": pa.array(ids), "s": pa.array([f"s{k}" for k in ids]),
                   "w": pa.array(times, pa.timestamp("ns")),
                   "v": pa.array(times, pa.timestamp("ns", "UTC"))}  # fmt: skip
        fields = [pa.field(n, c.type, metadata={"PARQUET:field_id": str(names[n])})
                  for n, c in columns.items()]  # fmt: skip
        files.append(str(folder / "nanos" / "data" / f"{part}.parquet"))
        Path(files[-1]).parent.mkdir(exist_ok=True)
        rows = pa.Table.from_arrays([*columns.values()], schema=pa.schema(fields))
        pq.write_table(rows, files[-1], version="2.6")
        opened_file = table.io().newInputFile(f"file:{files[-1]}")
        metrics = iceberg.parquet.ParquetUtil.fileMetrics(
            opened_file, iceberg.MetricsConfig.forTable(table)
        )
        append.appendFile(
            iceberg.DataFiles.builder(table.spec()).withInputFile(opened_file)
            .withFormat("parquet").withMetrics(metrics).build()
        )  # fmt: skip
    append.commit()
    spark.conf.set("spark.sql.legacy.parquet.nanosAsLong", "true")
    times = "timestamp_micros(w DIV 1000)"
    yield Made(
        "iceberg", "Arrow", "nanoseconds", lambda: ss.scan_iceberg(str(folder / "nanos")),
        lambda: spark.read.parquet(*files).selectExpr(
            "id", "s", f"CAST({times} AS TIMESTAMP_NTZ) w", f"{times} v"),
        theirs=False,
    )  # fmt: skip
    spark.conf.unset("spark.sql.legacy.parquet.nanosAsLong")


def encrypted(spark: Any, folder: Path) -> Iterator[Made]:
    """A table whose manifest lists Iceberg's library has encrypted."""
    do(spark, "secret", [CREATE, *inserts("{t}")])
    table = table_of(spark, "secret")
    found = table.io().newInputFile(table.currentSnapshot().manifestListLocation())
    place = Path(found.location().removeprefix("file:"))
    plain, key = place.read_bytes(), bytearray(16)
    target = table.io().newOutputFile(f"file:{place}.enc")
    output = spark._jvm.org.apache.iceberg.encryption.AesGcmOutputFile(target, key, key)
    stream = output.createOrOverwrite()
    stream.write(bytearray(plain))
    stream.close()
    Path(f"{place}.enc").replace(place)
    yield Made(
        "iceberg", "Spark", "encryption", lambda: ss.scan_iceberg(str(folder / "secret")), None,
        refused="encrypt",
    )  # fmt: skip


MAKERS = (by_spark,)
