"""`read` of Delta and Iceberg tables returns Spark's rows, whichever reader reads each file."""

import datetime as dt

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

import skipstone as ss
from skipstone.spark import read
from tests.support.spark.compare import rows
from tests.support.spark.opened import files_opened
from tests.support.spark.session import QUIET
from tests.support.tables.delta_log import Log, Written, delta_schema, rows_of
from tests.support.tables.iceberg_tables import append, commit, data_file, make, position_deletes

pytestmark = pytest.mark.filterwarnings(QUIET)
NAN = float("nan")


DDL = (
    "p DATE, x BIGINT, q TIMESTAMP, s STRING, f DOUBLE, n STRUCT<v: INT, f: DOUBLE>, d "
    "DECIMAL(12,2), k INT"
)


def delta_log(folder, **options):
    log = Log(folder, delta_schema(DDL), ["q", "p", "k"], **options)
    dead = "deletionVectors" in options.get("features", ())
    for i in range(6):
        data = [
            {
                "x": 10 * i + k,
                "s": f"t{k}é",
                "f": NAN if k == 3 else float(k),
                "n": {"v": k, "f": NAN} if k % 4 else None,
                "d": f"{k}.25",
            }
            for k in range(10)
        ]
        values = {
            "p": None if i == 2 else f"2024-02-0{i + 1}",
            "q": "" if i == 3 else f"2024-01-01 0{i}:00:00.000001",
            "k": str(i % 2),
        }
        log.add(
            Written(
                data,
                values,
                dead=[0, 5] if dead and i in (1, 4) else None,
                path=f"odd name %[{i}].parquet" if i == 5 else None,
            )
        )
    return log


DELTA = [
    None, "x BETWEEN 25 AND 34", "p IS NULL", "q IS NULL AND f > 7",
    "p >= DATE '2024-02-02' AND x % 2 = 0", "q > TIMESTAMP '2024-01-01 03:30:00'",
    "n.f > 3", "n IS NULL AND k = 1", "d = 3.25 OR s = 't9é'", "x = 10", "k = 0 AND x > 1000",
    "NOT (f <= 8)",
]  # fmt: skip


@pytest.mark.parametrize(
    "options, how, zone, conditions",
    [
        ({}, "native", "UTC", DELTA),
        ({}, "native", "Asia/Kolkata", DELTA[2:6]),
        ({}, "python", "Asia/Kolkata", DELTA[::3]),
        ({"features": ("deletionVectors",)}, "auto", "UTC", DELTA[::2]),
        ({"mapping": "name"}, "auto", "UTC", DELTA[1::2]),
        ({"mapping": "id"}, "auto", "UTC", DELTA[::4]),
    ],
)
def test_delta(spark, tmp_path, options, how, zone, conditions):
    table = ss.scan_delta(delta_log(tmp_path / "t", **options).folder)
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        schema = table.plan(timezone=zone).to_spark(spark, how="python").schema
        assert schema.names == table.schema.names
        for where in conditions:
            df = read(spark, table, where, how=how)
            assert rows(df) == rows_of(table.plan(where, timezone=zone).unpruned().to_arrow()), (
                where
            )
            assert df.schema == schema
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_delta_over_connect(connect, tmp_path):
    table = ss.scan_delta(delta_log(tmp_path / "t", features=("deletionVectors",)).folder)
    for where in DELTA[1:5]:
        assert rows(read(connect, table, where)) == rows_of(table.plan(where).to_arrow()), where


def test_only_files_with_deletes_go_to_workers(spark, tmp_path):
    table = ss.scan_delta(delta_log(tmp_path / "t", features=("deletionVectors",)).folder)
    assert files_opened(read(spark, table, "x < 30")) == 2  # one of three has deleted rows
    with pytest.raises(ss.UnsupportedForm, match=r"1 of 3 files correctly: deletion vectors.*auto"):
        read(spark, table, "x < 30", how="native")
    assert files_opened(read(spark, table, "x < 5", how="native")) == 1


@pytest.mark.parametrize("mode", ["name", "id"])
def test_refusals_name_the_feature(spark, tmp_path, mode):
    log = delta_log(tmp_path / "t", mapping=mode)
    with pytest.raises(ss.UnsupportedForm, match=f"column mapping by {mode}"):
        read(spark, log.folder, how="native")


def test_many_partitions(spark, tmp_path):
    log = Log(tmp_path / "t", delta_schema("x INT, p INT"), ["p"])
    log.add(*(Written([{"x": i}], {"p": str(i)}) for i in range(80)))
    table = ss.scan_delta(log.folder)
    assert read(spark, table, "p < 70").count() == 70
    assert read(spark, table, "p < 10", how="native").count() == 10
    with pytest.raises(ss.UnsupportedForm, match="70 combinations of partition values"):
        read(spark, table, "p < 70", how="native")


def test_files_that_spark_does_not_list(spark, tmp_path):
    log = Log(tmp_path / "[t] {u}", delta_schema("x INT"))
    log.add(
        *(
            Written([{"x": i}], path=name)
            for i, name in enumerate(
                ["_hidden.parquet", ".dot.parquet", "a:b.parquet", "_k=1/p*?.parquet"]
            )
        )
    )
    assert sorted(read(spark, log.folder, "x >= 0").collect()) == [(0,), (1,), (2,), (3,)]
    assert read(spark, log.folder, "x = 3", how="native").collect() == [(3,)]
    for x, message in enumerate(["begins with '_'", "begins with '_'", "a colon"]):
        with pytest.raises(ss.UnsupportedForm, match=message):
            read(spark, log.folder, f"x = {x}", how="native")


def test_partition_values_of_every_type(spark, tmp_path):
    kinds = {
        "b BOOLEAN": "true", "i8 TINYINT": "-5", "i64 BIGINT": str(2**60), "f FLOAT": "1.1",
        "g DOUBLE": "NaN", "h DOUBLE": "-Infinity", "d DATE": "0001-01-01",
        "e DATE": "9999-12-31", "c DECIMAL(38,10)": "1234567890123456789012345678.0123456789",
        "s STRING": "a 'b' \\ % é", "t TIMESTAMP": "1500-01-01 00:00:00",
        "n TIMESTAMP_NTZ": "9999-12-31 23:59:59.999999", "y BINARY": "abc",
    }  # fmt: skip
    log = Log(
        tmp_path / "t", delta_schema("x INT, " + ", ".join(kinds)), [k.split()[0] for k in kinds]
    )
    values = {k.split()[0]: v for k, v in kinds.items()}
    log.add(Written([{"x": 1}], values), Written([{"x": 2}], dict.fromkeys(values)))
    table = ss.scan_delta(log.folder)
    native, ours = (read(spark, table, how=how).toArrow() for how in ("native", "python"))
    assert native.schema == ours.schema and rows_of(native) == rows_of(ours) == rows_of(
        table.plan().to_arrow()
    )


def test_char_is_padded(spark, tmp_path):
    schema = delta_schema("c STRING, x INT")
    schema["fields"][0]["metadata"] = {"__CHAR_VARCHAR_TYPE_STRING": "char(4)", "comment": "said"}
    log = Log(tmp_path / "t", schema, features=("deletionVectors",))
    log.add(Written([{"c": "ab", "x": 1}, {"c": "abcd", "x": 2}]))
    for how in ("native", "python"):
        df = read(spark, log.folder, "c = 'ab'", how=how)
        assert df.collect() == [("ab  ", 1)] and df.schema["c"].metadata["comment"] == "said"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("legacy.charVarcharAsString", "true"),
        ("readSideCharPadding", "false"),
        ("preserveCharVarcharTypeInfo", "true"),
    ],
)
def test_char_is_refused_where_spark_reads_it_otherwise(spark, tmp_path, key, value):
    """Spark 4.1 keeps rows for `c > 'a'`, or for `length(c) = 1`, that padded values rule out."""
    schema = delta_schema("c STRING, x INT")
    schema["fields"][0]["metadata"] = {"__CHAR_VARCHAR_TYPE_STRING": "char(4)"}
    log = Log(tmp_path / "t", schema)
    log.add(Written([{"c": "a", "x": 1}]))
    key = f"spark.sql.{key}"
    before = spark.conf.get(key)
    spark.conf.set(key, value)
    try:
        for how in ("auto", "python"):
            with pytest.raises(ss.UnsupportedForm, match=f"{key} is {value}"):
                read(spark, log.folder, "c > 'a'", how=how)
        assert read(spark, log.folder, "x = 1", columns=["x"]).collect() == [(1,)]
    finally:
        spark.conf.set(key, before)


@pytest.mark.parametrize(
    "where", ["p = 'k'", "p IN ('k', 'z')", "length(p) = 4 AND x < 3", "p LIKE 'k   '", "p < 'k!'"]
)
def test_char_partitions_are_padded(spark, tmp_path, where):
    schema = delta_schema("x INT, p STRING")
    schema["fields"][1]["metadata"] = {"__CHAR_VARCHAR_TYPE_STRING": "char(4)"}
    log = Log(tmp_path / "t", schema, ["p"])
    parts = {1: "k", 3: "kkkk", 4: None}
    log.add(*(Written([{"x": x}], {"p": p}) for x, p in parts.items()))
    for how in ("native", "python"):
        assert read(spark, log.folder, where, how=how).collect() == [(1, "k   ")]


def test_a_plan_in_another_zone_is_refused(spark, tmp_path):
    table = ss.scan_delta(delta_log(tmp_path / "t").folder)
    with pytest.raises(ss.SourceError, match="plan with timezone='UTC'"):
        table.plan("x = 1", timezone="Asia/Tokyo").to_spark(spark)


@pytest.fixture
def iceberg(tmp_path):
    schema = Schema(
        NestedField(1, "x", LongType()),
        NestedField(2, "p", StringType()),
        NestedField(3, "t", TimestamptzType()),
    )
    source = make(
        tmp_path, schema, PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p"))
    )
    arrow = pa.schema([("x", pa.int64()), ("p", pa.string()), ("t", pa.timestamp("us", "UTC"))])
    for k, p in enumerate("aba"):
        at = [dt.datetime(2024, 1, k + 1, h, tzinfo=dt.UTC) for h in range(10)]
        source = append(
            source, pa.table([list(range(k * 10, k * 10 + 10)), [p] * 10, at], schema=arrow)
        )
    return source


def test_iceberg(any_session, iceberg):
    table = ss.scan_iceberg(iceberg)
    for where, how in [
        (None, "native"),
        ("p = 'a' AND x % 2 = 0", "python"),
        ("t >= TIMESTAMP '2024-01-03'", "native"),
        ("x > 99", "python"),
    ]:
        assert rows(read(any_session, iceberg, where, how=how)) == rows_of(
            table.plan(where).to_arrow()
        ), where


def test_a_metadata_file_that_no_catalog_committed_is_not_read(spark, iceberg):
    """The newest metadata file may be one of a commit that failed."""
    folder = iceberg.location().removeprefix("file://")
    with pytest.raises(ss.SourceError, match="only the catalog of this Iceberg table knows"):
        read(spark, folder)
    metadata = iceberg.metadata_location.removeprefix("file://")
    assert read(spark, metadata).count() == 30
    with pytest.raises(ss.SourceError, match="no branch or tag 'newest'; the table has the branch"):
        read(spark, metadata, version="newest")


def test_iceberg_deletes_and_evolution(spark, iceberg):
    path = ss.scan_iceberg(iceberg).plan("x = 3").files[0]
    source = position_deletes(iceberg, [(path, 3)], ("a",))
    with pytest.raises(ss.UnsupportedForm, match="1 of 3 files correctly: deletes"):
        read(spark, source, how="native")
    df = read(spark, source, "x < 15")
    assert files_opened(df) == 1 and sorted(r.x for r in df.collect()) == [
        x for x in range(15) if x != 3
    ]
    with source.update_schema() as change:
        change.rename_column("x", "y")
    with pytest.raises(ss.UnsupportedForm, match="schema evolution"):
        read(spark, source, how="native")
    assert sorted(r.y for r in read(spark, source, "y < 5", columns=["y"]).collect()) == [
        0,
        1,
        2,
        4,
    ]


@pytest.mark.parametrize("how", ["auto", "native", "python"])
def test_iceberg_files_of_other_formats_are_refused_at_once(spark, iceberg, how):
    """No reader of ours can read them, so the driver says it, and no worker fails later."""
    orc = data_file("/a.orc", ("c",), format="ORC")
    table = ss.scan_iceberg(commit(iceberg, [orc]))
    with pytest.raises(ss.SourceError, match=r"/a\.orc: .* format ORC; expected PARQUET"):
        read(spark, table, how=how)
    assert read(spark, table, "p = 'b'", how=how).count() == 10


def test_iceberg_deletes_of_other_formats_are_refused_at_once(spark, iceberg):
    avro = data_file("/d.avro", ("a",), 1, 1, "AVRO")
    table = ss.scan_iceberg(commit(iceberg, [avro], 1))
    with pytest.raises(ss.SourceError, match=r"/d\.avro: .* format AVRO; expected PARQUET"):
        read(spark, table, "p = 'a'")
    assert read(spark, table, "p = 'b'").count() == 10
