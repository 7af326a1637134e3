"""Delta logs that were made to be misread: no row is lost, and what cannot be read is an error that says so."""

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
from tests.support.delta_log import Log, Written, delta_schema

SPARK = "Apache-Spark/4.0.0 Delta-Lake/4.0.0"


@pytest.fixture(autouse=True)
def _nothing_is_kept():
    cache.forget()


def table_of(tmp_path, ddl="x BIGINT", **options):
    return Log(tmp_path / "t", delta_schema(ddl), **options)


def found(log, where, column="x", **settings):
    return ss.scan_delta(log.folder).plan(where, **settings).to_arrow().column(column).to_pylist()


@pytest.mark.parametrize(
    ("precision", "scale"), [(20, 2), (28, 10), (38, 18), (38, 0), (18, 0), (15, 3)]
)
def test_decimals_that_were_a_float_on_their_way(tmp_path, precision, scale):
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
    """Of another writer's file: its NaN is not in the bounds, whoever added the deletion vector."""
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


def test_a_compaction_tells_no_writer(tmp_path):
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


def test_char_is_padded_by_its_reader(tmp_path):
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
    with pytest.raises(ss.SourceError, match="is not a int32"):
        found(log, "p = 16")
    assert ss.scan_delta(log.folder).get_stats_column("min", "p").to_pylist() == [None, 7]


# Column mapping, and what files call their columns.


def test_fields_whose_names_were_exchanged(tmp_path):
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


def test_ids_decide_where_files_have_them(tmp_path):
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


# Replay.


def test_a_checkpoint_newer_than_the_commits(tmp_path):
    log = table_of(tmp_path)
    for i in range(3):
        log.add(Written([{"x": i}]))
    deltalake.DeltaTable(str(log.folder)).create_checkpoint()
    os.remove(log.log / f"{3:020}.json")
    assert (ss.scan_delta(log.folder).version, sorted(found(log, None))) == (3, [0, 1, 2])
    for v in range(3):
        os.remove(log.log / f"{v:020}.json")
    cache.forget()
    assert sorted(found(log, "x >= 1")) == [1, 2]


def test_a_file_that_a_checkpoint_names_twice(tmp_path):
    log = table_of(tmp_path)
    log.add(Written([{"x": 1}]), Written([{"x": 2}]))
    deltalake.DeltaTable(str(log.folder)).create_checkpoint()
    path = log.log / f"{1:020}.checkpoint.parquet"
    whole = pq.read_table(path)
    pq.write_table(pa.concat_tables([whole, whole]), path)
    assert sorted(found(log, None)) == [1, 2]


def test_paths_that_mean_the_same_and_ones_that_do_not(tmp_path):
    log = table_of(tmp_path)
    log.add(Written([{"x": 1}], path="a b.parquet"))
    full = f"file:{log.folder}/a%20b.parquet"
    log.commit({"remove": {"path": "a%20b.parquet", "dataChange": True}})
    add = {
        "path": full,
        "partitionValues": {},
        "size": 1,
        "modificationTime": 1,
        "dataChange": True,
    }
    log.commit({"add": add})
    assert found(log, None) == [1]
    log.commit({"remove": {"path": full.replace("file:", "file://"), "dataChange": True}})
    assert ss.scan_delta(log.folder).num_files == 0
    log.commit({"add": add | {"path": "%FF.parquet"}}, {"add": add | {"path": "%FE.parquet"}})
    assert ss.scan_delta(log.folder).num_files == 2


def test_settings_stand_anywhere_in_their_line(tmp_path):
    log = table_of(tmp_path)
    log.add(Written([{"x": 1}]))
    metadata = json.loads((log.log / f"{0:020}.json").read_text().splitlines()[1])["metaData"]
    log.commit(
        {
            "commitInfo": None,
            "metaData": metadata | {"schemaString": json.dumps(delta_schema("x BIGINT, y INT"))},
        }
    )
    assert ss.scan_delta(log.folder).schema.names == ["x", "y"]


ADD = {
    "path": "a.parquet",
    "partitionValues": {},
    "size": 1,
    "modificationTime": 1,
    "dataChange": True,
}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty"),
        ("\n \n", "it is empty"),
        ("null\n", "begins with b'null'"),
        ("[]\n", "begins with"),
        ('{"add":{}}\n', "without a path"),
        ('{"add":{"path":null,"size":1}}\n', "without a path"),
        ('{"remove":{}}\n', "without a path"),
        (
            json.dumps({"add": ADD | {"deletionVector": {"pathOrInlineDv": "x"}}}),
            "deletion vector without",
        ),
        ('{"metaData":5}\n', "cannot be read"),
        ('{"metaData":{"schemaString":"{}"}}\n', "cannot be read"),
        ('{"metaData":{"schemaString":' + json.dumps("[" * 100_000) + "}}\n", "cannot be read"),
        ('{"protocol":"x"}\n', "cannot be read"),
        *(
            (f'{{"protocol":{{"minReaderVersion":{version}}}}}\n', "expected 1, 2 or 3")
            for version in ("[]", "2.5", "-1", "0", "true", '"2"', "null", "{}", "1e400")
        ),
        *(
            (f'{{"protocol":{{"minReaderVersion":3{features}}}}}\n', "expected names")
            for features in ("", ',"readerFeatures":null', ',"readerFeatures":5')
        ),
        ('{"protocol":{"minReaderVersion":3,"readerFeatures":[5]}}\n', "expected names"),
        ('{"protocol":{"minReaderVersion":3,"readerFeatures":"x"}}\n', "expected names"),
        ('{"protocol":{"minReaderVersion":4}}\n', "needs a reader that supports reader version 4"),
        ('{"metaData":{"configuration":[1],"schemaString":"{}"}}\n', "cannot be read"),
        (
            '{"metaData":{"schemaString":'
            + json.dumps(json.dumps(delta_schema("x INT, x INT")))
            + "}}\n",
            "two columns of one name",
        ),
        ("{" + '"a":{' * 100_000 + "\n", "JSON"),
    ],
)
def test_commits_that_cannot_be_one(tmp_path, text, message):
    log = table_of(tmp_path)
    log.add(Written([{"x": 1}]))
    (log.log / f"{2:020}.json").write_text(text)
    with pytest.raises(ss.SourceError, match=message):
        ss.scan_delta(log.folder)


def test_bytes_that_are_no_text(tmp_path):
    log = table_of(tmp_path)
    line = json.dumps({"add": ADD | {"stats": "STATS"}}).encode() + b"\n"
    (log.log / f"{1:020}.json").write_bytes(
        line.replace(b"STATS", b'{\\"numRecords\\": 1, \\"q\\": \\"\xff\\"}')
    )
    assert ss.scan_delta(log.folder).plan("x = 1").sizes.scan.files == 1
    (log.log / f"{2:020}.json").write_bytes(
        line.replace(b"a.parquet", b"\xff.parquet").replace(b"STATS", b"{}")
    )
    with pytest.raises(ss.SourceError):
        ss.scan_delta(log.folder)


def test_blank_lines_and_line_ends_of_windows(tmp_path):
    log = table_of(tmp_path)
    log.add(Written([{"x": 1}]), Written([{"x": 2}]))
    path = log.log / f"{1:020}.json"
    path.write_bytes(b"\xef\xbb\xbf\n  \n" + path.read_bytes().replace(b"\n", b"\r\n\r\n") + b"   ")
    assert sorted(found(log, "x > 0")) == [1, 2]


def test_partition_values_are_required(tmp_path):
    log = table_of(tmp_path, "x BIGINT, p STRING", partition_by=["p"])
    log.commit({"add": {k: v for k, v in ADD.items() if k != "partitionValues"}})
    with pytest.raises(ss.SourceError, match="without partitionValues"):
        ss.scan_delta(log.folder)


@pytest.mark.parametrize(
    "vector",
    [
        {"storageType": "u", "pathOrInlineDv": "", "sizeInBytes": 4, "cardinality": 1},
        {"storageType": "u", "pathOrInlineDv": "abc", "sizeInBytes": 4, "cardinality": 1},
        {"storageType": "i", "pathOrInlineDv": "^Bg9^", "sizeInBytes": 4, "cardinality": 1},
        {"storageType": "i", "pathOrInlineDv": "^Bg9^0rr91", "sizeInBytes": None, "cardinality": 1},
        {"storageType": "q", "pathOrInlineDv": "x", "sizeInBytes": 4, "cardinality": 1},
        {"storageType": "p", "pathOrInlineDv": "/nowhere", "sizeInBytes": 4, "cardinality": 1},
    ],
)
def test_vectors_that_cannot_be_one(tmp_path, vector):
    log = table_of(tmp_path, features=("deletionVectors",))
    action = log.written(Written([{"x": 1}]))
    action["add"]["deletionVector"] = vector
    log.commit(action)
    with pytest.raises(ss.SourceError):
        found(log, None)


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
    """And paths and partition values as large strings, which other writers' checkpoints may have."""
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


@pytest.mark.parametrize("version", ["latest", 3.5, b"x", True])
def test_versions_that_are_none(tmp_path, version):
    log = table_of(tmp_path)
    with pytest.raises(ss.SourceError, match="expected a number, a time"):
        ss.scan_delta(log.folder, version)


def test_a_checkpoint_of_very_many_parts_and_an_unknown_scheme(tmp_path):
    log = table_of(tmp_path)
    log.add(Written([{"x": 1}]))
    (log.log / f"{1:020}.checkpoint.{1:010}.{9_999_999_999:010}.parquet").write_bytes(b"")
    assert found(log, None) == [1]
    with pytest.raises(ss.SourceError):
        ss.scan_delta("zzz://a/b")


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
        assert {int(i) for i in table.plan(where).kept} == files, (
            where
        )  # the third may be any bytes


@pytest.mark.parametrize(
    ("text", "at"), [("2024-03-31 02:30:00", "01:30:00"), ("2024-10-27 02:30:00", "00:30:00")]
)
def test_clock_times_that_never_come_or_come_twice(tmp_path, text, at):
    """Spark takes the first of two, and moves what lies in a gap behind it."""
    log = table_of(tmp_path, "x BIGINT, p TIMESTAMP", partition_by=["p"])
    log.add(Written([{"x": 1}], {"p": text}))
    assert found(log, f"p = TIMESTAMP '{text[:10]} {at}Z'", timezone="Europe/Berlin") == [1]


def test_dates_as_spark_spells_them_and_blanks_that_it_does_not_trim(tmp_path):
    log = table_of(tmp_path, "x BIGINT, d DATE, i INT", partition_by=["d", "i"])
    log.add(
        Written([{"x": 1}], {"d": "2024-1-2", "i": "\t7 "}),
        Written([{"x": 2}], {"d": "12345-01-02", "i": "\u00a07"}),
    )
    assert found(log, "d = DATE '2024-01-02'") == [1]
    assert ss.scan_delta(log.folder).get_stats_column("min", "i").to_pylist() == [7, None]


@pytest.mark.parametrize("line", ['{"sidecar": {}}', '{"sidecar": 5}', '{"sidecar"'])
def test_sidecars_that_cannot_be_one(tmp_path, line):
    log = table_of(tmp_path)
    head = (log.log / f"{0:020}.json").read_text()
    (log.log / f"{0:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json").write_text(
        head + line
    )
    with pytest.raises(ss.SourceError):
        ss.scan_delta(log.folder)


@pytest.mark.parametrize(
    "path",
    [
        "../../../../etc/passwd",
        "..%2F..%2Fx.parquet",
        "/etc/x.parquet",
        "file:///etc/x.parquet",
        "s3://other/_sidecars/x.parquet",
        "..",
        ".parquet/..",
        "",
        "a/b.parquet",
        "a\\b.parquet",
        "passwd",
        None,
        5,
    ],
)
def test_sidecars_lie_in_their_own_folder(tmp_path, path):
    log = table_of(tmp_path)
    log.add(Written([{"x": 1}]))
    head = (log.log / f"{0:020}.json").read_text()
    name = f"{1:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    (log.log / name).write_text(head + json.dumps({"sidecar": {"path": path}}))
    with pytest.raises(ss.SourceError, match="sidecar"):
        ss.scan_delta(log.folder)


@pytest.mark.parametrize("form", ["{}", "file://{log}/_sidecars/{}", "{log}/_sidecars/{}"])
def test_sidecars_by_name_and_by_uri(tmp_path, form):
    log = table_of(tmp_path)
    log.add(Written([{"x": 1}]))
    deltalake.DeltaTable(str(log.folder)).create_checkpoint()
    checkpoint = log.log / f"{1:020}.checkpoint.parquet"
    (log.log / "_sidecars").mkdir()
    checkpoint.rename(log.log / "_sidecars" / "a b.parquet")
    head = (log.log / f"{0:020}.json").read_text()
    path = form.format("a%20b.parquet", log=log.log)
    name = f"{1:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    (log.log / name).write_text(head + json.dumps({"sidecar": {"path": path}}))
    assert found(log, None) == [1]


TEXT = pa.string()


@pytest.mark.parametrize(
    "columns",
    [
        {"add": pa.array([5])},
        {"add": pa.array([{"size": 5}])},
        {"add": pa.array([{"path": 5}])},
        {"add": pa.array([{"path": "a", "deletionVector": 5}])},
        {"add": pa.array([{"path": "a", "partitionValues": {"x": 5}}])},
        {
            "add": pa.array(
                [{"path": None, "size": 5}], pa.struct({"path": TEXT, "size": pa.int64()})
            )
        },
        {"sidecar": pa.array(["a.parquet"])},
        {"sidecar": pa.array([{"path": 5}])},
        {"x": pa.array([5])},
    ],
)
def test_checkpoints_of_another_form(tmp_path, columns):
    log = table_of(tmp_path)
    log.add(Written([{"x": 1}]))
    pq.write_table(pa.table(columns), log.log / f"{1:020}.checkpoint.parquet")
    with pytest.raises(ss.SourceError):
        ss.scan_delta(log.folder)


@pytest.mark.parametrize("path", ["../x.parquet", "a/../../x.parquet", "%2e%2e/x.parquet"])
def test_files_that_climb_out_of_their_table(tmp_path, path):
    log = table_of(tmp_path)
    log.add(Written([{"x": 1}]))
    (file,) = log.folder.glob("*.parquet")
    file.rename(tmp_path / "x.parquet")
    log.remove(0)
    log.commit({"add": ADD | {"path": path, "size": 1}})
    with pytest.raises(ss.SourceError, match="outside of its table"):
        ss.scan_delta(log.folder).plan("x = 1").to_arrow()
