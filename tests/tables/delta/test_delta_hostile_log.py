"""Malformed Delta logs, checkpoints and sidecars: an error names the file that cannot be read."""

import json
import os

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.tables.delta import cache
from tests.support.tables.delta_log import Log, Written, delta_schema
from tests.support.tables.hostile_logs import ADD, found, table_of


@pytest.fixture(autouse=True)
def _empty_cache():
    cache.forget()


def test_a_checkpoint_suffices_without_its_commits(tmp_path):
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


def test_a_file_that_a_checkpoint_names_twice_counts_once(tmp_path):
    log = table_of(tmp_path)
    log.add(Written([{"x": 1}]), Written([{"x": 2}]))
    deltalake.DeltaTable(str(log.folder)).create_checkpoint()
    path = log.log / f"{1:020}.checkpoint.parquet"
    whole = pq.read_table(path)
    pq.write_table(pa.concat_tables([whole, whole]), path)
    assert sorted(found(log, None)) == [1, 2]


def test_paths_are_equal_if_their_uris_are(tmp_path):
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


def test_settings_are_found_anywhere_in_a_line(tmp_path):
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
            "two columns 'x'; expected distinct names",
        ),
        *(
            (
                json.dumps(
                    {
                        "metaData": {
                            "configuration": {
                                f"delta.coordinatedCommits.commitCoordinator{end}": "dynamodb"
                            },
                            "schemaString": json.dumps(delta_schema("x INT")),
                        }
                    }
                )
                + "\n",
                "coordinated commits, and only its coordinator 'dynamodb'",
            )
            for end in ("", "-preview")
        ),
        ("{" + '"a":{' * 100_000 + "\n", "JSON"),
    ],
)
def test_malformed_commits_are_refused(tmp_path, text, message):
    log = table_of(tmp_path)
    log.add(Written([{"x": 1}]))
    (log.log / f"{2:020}.json").write_text(text)
    with pytest.raises(ss.SourceError, match=message):
        ss.scan_delta(log.folder)


def test_a_file_is_kept_if_its_statistics_are_not_utf8(tmp_path):
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


def test_blank_lines_and_windows_line_ends_are_skipped(tmp_path):
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
def test_malformed_deletion_vectors_are_refused(tmp_path, vector):
    log = table_of(tmp_path, features=("deletionVectors",))
    action = log.written(Written([{"x": 1}]))
    action["add"]["deletionVector"] = vector
    log.commit(action)
    with pytest.raises(ss.SourceError):
        found(log, None)


def mapped(tmp_path, mode, written):
    """Return the log of a table whose mode of column mapping is spelled in some way."""
    log = Log(tmp_path / "t", delta_schema("x BIGINT"), mapping=mode)
    first = log.log / f"{0:020}.json"
    first.write_text(first.read_text().replace(f'"{mode}"', json.dumps(written)))
    log.add(Written([{"x": 1}]), Written([{"x": 2}]))
    return log


@pytest.mark.parametrize("mode", ["name", "id"])
@pytest.mark.parametrize("spell", [str.lower, str.upper, str.title])
def test_the_mode_of_column_mapping_may_have_any_case(tmp_path, mode, spell):
    log = mapped(tmp_path, mode, spell(mode))
    table = ss.scan_delta(log.folder)
    assert (table.column_mapping_mode, len(table.plan("x > 1").files)) == (mode, 1)
    assert found(log, "x > 1") == [2]


def test_an_unknown_mode_of_column_mapping_is_refused(tmp_path):
    log = mapped(tmp_path, "name", "label")
    with pytest.raises(ss.SourceError, match="maps columns by 'label'; expected one of none, name"):
        ss.scan_delta(log.folder)


@pytest.mark.parametrize("version", ["latest", 3.5, b"x", True])
def test_invalid_versions_are_refused(tmp_path, version):
    log = table_of(tmp_path)
    with pytest.raises(ss.SourceError, match="expected a number, a time"):
        ss.scan_delta(log.folder, version)


def test_an_incomplete_checkpoint_is_skipped_and_an_unknown_scheme_refused(tmp_path):
    log = table_of(tmp_path)
    log.add(Written([{"x": 1}]))
    (log.log / f"{1:020}.checkpoint.{1:010}.{9_999_999_999:010}.parquet").write_bytes(b"")
    assert found(log, None) == [1]
    with pytest.raises(ss.SourceError):
        ss.scan_delta("zzz://a/b")


@pytest.mark.parametrize("line", ['{"sidecar": {}}', '{"sidecar": 5}', '{"sidecar"'])
def test_malformed_sidecars_are_refused(tmp_path, line):
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
def test_sidecars_must_lie_in_the_log(tmp_path, path):
    log = table_of(tmp_path)
    log.add(Written([{"x": 1}]))
    head = (log.log / f"{0:020}.json").read_text()
    name = f"{1:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    (log.log / name).write_text(head + json.dumps({"sidecar": {"path": path}}))
    with pytest.raises(ss.SourceError, match="sidecar"):
        ss.scan_delta(log.folder)


@pytest.mark.parametrize("form", ["{}", "file://{log}/_sidecars/{}", "{log}/_sidecars/{}"])
def test_sidecars_are_found_by_name_and_by_uri(tmp_path, form):
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
def test_malformed_checkpoints_are_refused(tmp_path, columns):
    log = table_of(tmp_path)
    log.add(Written([{"x": 1}]))
    pq.write_table(pa.table(columns), log.log / f"{1:020}.checkpoint.parquet")
    with pytest.raises(ss.SourceError):
        ss.scan_delta(log.folder)


@pytest.mark.parametrize("path", ["../x.parquet", "a/../../x.parquet", "%2e%2e/x.parquet"])
def test_paths_outside_of_the_table_are_refused(tmp_path, path):
    log = table_of(tmp_path)
    log.add(Written([{"x": 1}]))
    (file,) = log.folder.glob("*.parquet")
    file.rename(tmp_path / "x.parquet")
    log.remove(0)
    log.commit({"add": ADD | {"path": path, "size": 1}})
    with pytest.raises(ss.SourceError, match="outside of its table"):
        ss.scan_delta(log.folder).plan("x = 1").to_arrow()
