"""Delta tables with misleading statistics, partition values and column names: no row is lost."""

import decimal
import json
import math
import os

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.tables.delta import cache
from tests.support.tables.delta_log import Log, Written, delta_schema
from tests.support.tables.hostile_logs import found, table_of

SPARK = "Apache-Spark/4.0.0 Delta-Lake/4.0.0"


@pytest.fixture(autouse=True)
def _empty_cache():
    cache.forget()


@pytest.mark.parametrize(
    ("precision", "scale"), [(20, 2), (28, 10), (38, 18), (38, 0), (18, 0), (15, 3)]
)
def test_decimals_that_passed_through_float64(tmp_path, precision, scale):
    """delta-rs writes the bounds of decimals through float64 (delta-rs#4757)."""
    digits = "12345678901234567890123456789012345678"[:precision]
    text = digits[: precision - scale] + "." + digits[precision - scale :]
    values = [decimal.Decimal(sign + text.rstrip(".")) for sign in ("", "-")]
    rows = pa.table({"d": pa.array(values, pa.decimal128(precision, scale))})
    for v in values:
        deltalake.write_deltalake(
            str(tmp_path / "t"), rows.filter(pa.array([w == v for w in values])), mode="append"
        )
    for _ in range(2):
        for v in values:
            assert ss.scan_delta(tmp_path / "t").plan(ss.col("d") == v).to_arrow().num_rows == 1
            assert ss.scan_delta(tmp_path / "t").plan(ss.col("d") >= v).count() == sum(
                w >= v for w in values
            )
        deltalake.DeltaTable(str(tmp_path / "t")).create_checkpoint()


def test_statistics_that_a_delete_of_spark_copied(tmp_path):
    """Another writer left NaN out of the file's bounds; Spark only added a deletion vector."""
    log = table_of(tmp_path, "x DOUBLE", features=("deletionVectors",))
    log.engine = "delta-rs:1"
    stats = {
        "numRecords": 3,
        "minValues": {"x": 1.0},
        "maxValues": {"x": 2.0},
        "nullCount": {"x": 0},
    }
    log.add(Written([{"x": 1.0}, {"x": 2.0}, {"x": math.nan}], stats=stats))
    add = json.loads((log.log / f"{1:020}.json").read_text().splitlines()[1])["add"]
    deleted = add | {
        "deletionVector": log.vector([0]),
        "stats": json.dumps(stats | {"tightBounds": False}),
    }
    log.commit(
        {"commitInfo": {"operation": "DELETE", "engineInfo": SPARK}},
        {"remove": {"path": add["path"], "dataChange": True}},
        {"add": deleted},
    )
    assert len(found(log, "x > 5")) == 1


def test_a_compaction_does_not_name_its_writers(tmp_path):
    log = table_of(tmp_path, "x DOUBLE")
    stats = {
        "numRecords": 2,
        "minValues": {"x": 1.0},
        "maxValues": {"x": 2.0},
        "nullCount": {"x": 0},
    }
    written = log.written(Written([{"x": 1.0}, {"x": math.nan}], stats=stats))
    infos = [{"commitInfo": {"operation": "WRITE", "engineInfo": e}} for e in ("delta-rs:1", SPARK)]
    (log.log / f"{1:020}.{2:020}.compacted.json").write_text(
        "".join(json.dumps(a) + "\n" for a in (infos[1], written))
    )
    assert len(found(log, "x > 5")) == 1
    os.remove(log.log / f"{1:020}.{2:020}.compacted.json")
    log.commit(*infos, written)
    cache.forget()
    assert len(found(log, "x > 5")) == 1


def bounds(v):
    return json.dumps(
        {"numRecords": 1, "minValues": {"x": v}, "maxValues": {"x": v}, "nullCount": {"x": 0}}
    )


@pytest.mark.parametrize(
    "texts",
    [
        (bounds(1) + " " + bounds(2), bounds(20), ""),
        ("", bounds(20), bounds(30) + bounds(40)),
        ("null", bounds(20), bounds(30)),
        ("null", "null", "null"),
        (bounds(10), " ", "\t" + bounds(30) + " "),
        ('{"a": {}', bounds(20), "}"),
        ('{"numRecords": 1, "q": "', '"}', bounds(30)),
        ("\ufeff" + bounds(10), "\x00", "[1]"),
    ],
)
def test_statistics_stay_with_their_file(tmp_path, texts):
    log = table_of(tmp_path)
    log.add(*(Written([{"x": v}], stats=t) for v, t in zip((10, 20, 30), texts, strict=True)))
    for v in (10, 20, 30):
        assert found(log, f"x = {v}") == [v]
    assert found(log, "x < 5") == []


@pytest.mark.parametrize("zone", ["1971-01-01T12:00:00.000-00:44", "1936-06-01T11:40:28.000Z"])
def test_offsets_with_seconds_after_1900(tmp_path, zone):
    log = table_of(tmp_path, "x TIMESTAMP")
    true = {
        "1971-01-01T12:00:00.000-00:44": "1971-01-01 12:44:30",
        "1936-06-01T11:40:28.000Z": "1936-06-01 11:40:58",
    }[zone]
    rows = pa.table(
        {"x": pa.array([true]).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))}
    )
    log.add(
        Written(
            rows,
            stats={
                "numRecords": 1,
                "minValues": {"x": zone},
                "maxValues": {"x": zone},
                "nullCount": {"x": 0},
            },
        )
    )
    assert len(found(log, f"x = TIMESTAMP '{true}Z'")) == 1


def test_a_time_without_its_zone_is_no_bound(tmp_path):
    log = table_of(tmp_path, "x TIMESTAMP")
    rows = pa.table(
        {
            "x": pa.array(["2024-01-01 05:00:00"])
            .cast(pa.timestamp("us"))
            .cast(pa.timestamp("us", "UTC"))
        }
    )
    text = "2024-01-01T00:00:00.000"
    log.add(
        Written(
            rows,
            stats={
                "numRecords": 1,
                "minValues": {"x": text},
                "maxValues": {"x": text},
                "nullCount": {"x": 0},
            },
        )
    )
    assert len(found(log, "x = TIMESTAMP '2024-01-01 05:00:00Z'")) == 1


def test_char_is_padded_by_readers(tmp_path):
    described = delta_schema("x STRING")
    described["fields"][0]["metadata"]["__CHAR_VARCHAR_TYPE_STRING"] = "char(5)"
    log = Log(tmp_path / "t", described)
    log.add(Written(pa.table({"x": ["a    "]})))
    assert len(ss.scan_delta(log.folder).plan("x = 'a'").files) == 1


def test_zones_beyond_2037(tmp_path):
    log = table_of(tmp_path, "x BIGINT, p TIMESTAMP", partition_by=["p"])
    log.add(Written([{"x": 1}], {"p": "2038-07-01 12:00:00"}))
    assert found(log, "p = TIMESTAMP '2038-07-01 10:00:00Z'", timezone="Europe/Berlin") == [1]


def test_integers_of_partitions_are_decimal(tmp_path):
    log = table_of(tmp_path, "x BIGINT, p INT", partition_by=["p"])
    log.add(Written([{"x": 1}], {"p": "0x10"}), Written([{"x": 2}], {"p": " +7 "}))
    assert len(ss.scan_delta(log.folder).plan("p = 16").files) == 1  # unknown, not 16
    with pytest.raises(ss.SourceError, match="is not of the column's type, int32"):
        found(log, "p = 16")
    assert ss.scan_delta(log.folder).get_stats_column("min", "p").to_pylist() == [None, 7]


def test_fields_whose_names_were_swapped(tmp_path):
    described = delta_schema("x BIGINT, st STRUCT<a: INT, b: INT>")
    for f, name in zip(described["fields"], ("x", "st"), strict=True):
        f["metadata"]["delta.columnMapping.physicalName"] = name
    for f, name in zip(described["fields"][1]["type"]["fields"], ("b", "a"), strict=True):
        f["metadata"]["delta.columnMapping.physicalName"] = name
    log = Log(
        tmp_path / "t",
        described,
        configuration={"delta.columnMapping.mode": "name"},
        features=("columnMapping",),
    )
    log.add(
        Written(
            pa.table(
                {
                    "x": [1],
                    "st": pa.array(
                        [{"a": 1, "b": 2}], pa.struct([("a", pa.int32()), ("b", pa.int32())])
                    ),
                }
            )
        )
    )
    assert found(log, None, "st") == [{"a": 2, "b": 1}]
    assert found(log, "st.a = 2") == [1]


@pytest.mark.parametrize(
    ("physical", "named", "files"),
    [
        ("ba", "a,c", 2),  # Delta writes the bounds of one as those of the other
        ("ca", "a,c", 2),
        ("bA", "a,c", 2),
        ("ba", None, 1),
        ("uv", "a,c", 1),
        ("ab", "a,c", 1),
    ],
)
def test_statistics_of_named_columns_that_were_swapped(physical, named, files, tmp_path):
    described = delta_schema("x BIGINT, a INT, b INT")
    for f, name in zip(described["fields"], ("x", *physical), strict=True):
        f["metadata"]["delta.columnMapping.physicalName"] = name
    configuration = {"delta.columnMapping.mode": "name"}
    if named is not None:
        configuration["delta.dataSkippingStatsColumns"] = named
    log = Log(tmp_path / "t", described, configuration=configuration, features=("columnMapping",))
    for x, a, b in ((1, 1, 2), (5, 7, 8)):
        columns = [pa.array([x]), pa.array([a], pa.int32()), pa.array([b], pa.int32())]
        log.add(Written(pa.table(columns, ["x", *physical])))
    table = ss.scan_delta(log.folder)
    assert len(table.plan("a = 7").files) == files
    assert len(table.plan("b = 2").files) == files
    assert len(table.plan("x = 1").files) == 1
    assert found(log, "a = 7") == [5]


def test_ids_identify_columns_where_files_have_them(tmp_path):
    described = delta_schema("x BIGINT, st STRUCT<a: INT>, y INT")
    log = Log(tmp_path / "t", described, mapping="id")
    log.add(Written([{"x": 1, "st": {"a": 5}, "y": 7}]))
    (file,) = tmp_path.glob("t/*.parquet")
    rows = pq.read_table(file)
    renamed = [pa.field("q", rows.schema[0].type, metadata=rows.schema[0].metadata)]
    inner = rows.schema[1].type.field(0)
    renamed.append(
        pa.field(
            "r",
            pa.struct([pa.field("z", inner.type, metadata=inner.metadata)]),
            metadata=rows.schema[1].metadata,
        )
    )
    renamed.append(
        pa.field(rows.schema[2].name, rows.schema[2].type, metadata={"PARQUET:field_id": "777"})
    )
    struct = rows.column(1).combine_chunks()
    arrays = [
        rows.column(0).combine_chunks(),
        pa.StructArray.from_arrays([struct.field(0)], fields=list(renamed[1].type)),
        rows.column(2).combine_chunks(),
    ]
    pq.write_table(pa.Table.from_arrays(arrays, schema=pa.schema(renamed)), file)
    assert ss.scan_delta(log.folder).plan("st.a = 5").to_arrow().to_pylist() == [
        {"x": 1, "st": {"a": 5}, "y": None}
    ]


def test_names_in_another_case(tmp_path):
    log = table_of(tmp_path)
    log.add(Written(pa.table({"X": pa.array([7], pa.int64())})))
    assert found(log, "x = 7") == [7]


@pytest.mark.parametrize(
    "kind",
    [
        pa.int64(),
        pa.bool_(),
        pa.timestamp("us"),
        pa.null(),
        pa.float64(),
        pa.large_string(),
        pa.list_(pa.string()),
    ],
)
def test_parsed_statistics_of_another_type(tmp_path, kind):
    """Paths and partition values are large strings here, as in some writers' checkpoints."""
    log = table_of(tmp_path, "x STRING, p STRING", partition_by=["p"])
    file = log.written(Written(pa.table({"x": ["q"]}), {"p": "a"}))["add"]
    bound = pa.struct([("x", kind)])
    stats = pa.struct(
        [
            ("numRecords", pa.int64()),
            ("minValues", bound),
            ("maxValues", bound),
            ("nullCount", pa.struct([("x", pa.int64())])),
        ]
    )
    value = {
        pa.int64(): 5,
        pa.bool_(): True,
        pa.timestamp("us"): 5,
        pa.float64(): 0.5,
        pa.large_string(): "q",
    }.get(kind)
    row = {
        "path": file["path"],
        "partitionValues": [("p", "a")],
        "stats_parsed": {
            "numRecords": 1,
            "minValues": {"x": value},
            "maxValues": {"x": value},
            "nullCount": {"x": 0},
        },
    }
    add = pa.struct(
        [
            ("path", pa.large_string()),
            ("partitionValues", pa.map_(pa.large_string(), pa.large_string())),
            ("stats_parsed", stats),
        ]
    )
    setting = pa.struct(
        [
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.string())),
            ("configuration", pa.map_(pa.string(), pa.string())),
        ]
    )
    metadata = {
        "schemaString": json.dumps(delta_schema("x STRING, p STRING")),
        "partitionColumns": ["p"],
        "configuration": [],
    }
    schema = pa.schema(
        [
            ("protocol", pa.struct([("minReaderVersion", pa.int32())])),
            ("metaData", setting),
            ("add", add),
        ]
    )
    rows = [{"protocol": {"minReaderVersion": 1}}, {"metaData": metadata}, {"add": row}]
    pq.write_table(pa.Table.from_pylist(rows, schema), log.log / f"{1:020}.checkpoint.parquet")
    log.version = 1
    log.add(Written(pa.table({"x": ["r"]}), {"p": "b"}))
    assert found(log, "x = 'q'") == ["q"]
    assert found(log, "p = 'b'") == ["r"]


def test_binary_partition_values_are_their_bytes(tmp_path):
    log = table_of(tmp_path, "x BIGINT, p BINARY", partition_by=["p"])
    log.add(*(Written([{"x": i}], {"p": p}) for i, p in enumerate([" a", "a", "\u00e9", "\x01"])))
    table = ss.scan_delta(log.folder)
    for where, files in {
        "p = X'2061'": {0, 2},
        "p = X'61'": {1, 2},
        "p = X'01'": {3, 2},
        "p > X'ff'": {2},
    }.items():
        # The third value is not ASCII: not all readers agree on its bytes.
        assert {int(i) for i in table.plan(where).kept} == files, where
    for where, rows in {
        "p = X'C3A9'": [2],
        "p = X'E9'": [],
        "p < X'62' OR p > X'ff'": [0, 1, 3],
        "p IS NULL": [],
        "x >= 2": [2, 3],
    }.items():
        plan = table.plan(where, columns=["x", "p"])
        assert sorted(plan.to_arrow()["x"].to_pylist()) == rows, where
        assert plan.count() == len(rows), where


@pytest.mark.parametrize(
    ("text", "at"), [("2024-03-31 02:30:00", "01:30:00"), ("2024-10-27 02:30:00", "00:30:00")]
)
def test_clock_times_in_gaps_and_overlaps(tmp_path, text, at):
    """Spark takes the first of two times, and moves a time in a gap to after it."""
    log = table_of(tmp_path, "x BIGINT, p TIMESTAMP", partition_by=["p"])
    log.add(Written([{"x": 1}], {"p": text}))
    assert found(log, f"p = TIMESTAMP '{text[:10]} {at}Z'", timezone="Europe/Berlin") == [1]


def test_dates_with_one_digit_and_blanks_that_spark_keeps(tmp_path):
    log = table_of(tmp_path, "x BIGINT, d DATE, i INT", partition_by=["d", "i"])
    log.add(
        Written([{"x": 1}], {"d": "2024-1-2", "i": "\t7 "}),
        Written([{"x": 2}], {"d": "12345-01-02", "i": "\u00a07"}),
    )
    assert found(log, "d = DATE '2024-01-02'") == [1]
    assert ss.scan_delta(log.folder).get_stats_column("min", "i").to_pylist() == [7, None]
