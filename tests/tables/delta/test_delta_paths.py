"""Full paths of the files of Delta tables: those that tables of other formats would show."""

import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from deltalake.fs import DeltaStorageHandler

import skipstone as ss
from skipstone.bindings.tables.delta.full_paths import full_paths
from skipstone.ir.errors import PredicateError
from tests.support.tables.delta_log import Log, Written, delta_schema, quoted, simple

LOCAL, S3 = pafs.LocalFileSystem(), pafs.S3FileSystem(anonymous=True, region="eu-west-1")
OTHER = pafs.PyFileSystem(DeltaStorageHandler("memory://"))  # its root is always ""

#   file system, root, URI, path in the log, full path
SPELLED = [
    (LOCAL, "/lake/t", "t", "k=a%2Fb/x y.parquet", "/lake/t/k=a%2Fb/x y.parquet"),
    (LOCAL, "/", "/", "x.parquet", "/x.parquet"),
    (LOCAL, "/lake/t", "t", "/old/x.parquet", "/old/x.parquet"),
    (LOCAL, "/lake/t", "t", "file:/old/x.parquet", "/old/x.parquet"),
    (LOCAL, "/lake/t", "t", "file:///old/x.parquet", "/old/x.parquet"),
    (LOCAL, "/lake/t", "t", "s3://b/x.parquet", "s3://b/x.parquet"),
    (S3, "b/t", "s3://b/t?region=eu-west-1", "x.parquet", "b/t/x.parquet"),
    (S3, "b/t", "s3a://b/t", "s3://old/t/x.parquet", "old/t/x.parquet"),
    (S3, "b/t", "s3://b/t", "s3a://old/t/x.parquet", "old/t/x.parquet"),
    (S3, "b/t", "s3://b/t", "gs://old/t/x.parquet", "gs://old/t/x.parquet"),
    (S3, "b/t", "s3://b/t", "file:/old/x.parquet", "file:///old/x.parquet"),
    (OTHER, "", "s3://b/a%20t/", "x.parquet", "b/a t/x.parquet"),
    (OTHER, "", "s3a://b/t", "s3://old/t/x.parquet", "old/t/x.parquet"),
    (OTHER, "", "gs://anonymous@b/t", "x.parquet", "b/t/x.parquet"),
    (OTHER, "", "abfss://c@a.dfs.core.windows.net/t", "x.parquet", "c/t/x.parquet"),
    (OTHER, "", "abfss://c@a.dfs.core.windows.net/t",
     "abfss://d@a.dfs.core.windows.net/x.parquet", "d/x.parquet"),
    (OTHER, "", "abfss://c@a.dfs.core.windows.net/t",
     "abfss://c@b.dfs.core.windows.net/x.parquet", "abfss://c@b.dfs.core.windows.net/x.parquet"),
    (OTHER, "", "az://c/t?x=1", "x.parquet", "az://c/t/x.parquet"),
    (OTHER, "", "hdfs://h:1/t", "x.parquet", "/t/x.parquet"),
    (OTHER, "", "hdfs://h:1/t", "hdfs://h:1/old/x.parquet", "/old/x.parquet"),
    (OTHER, "", "hdfs://h:1/t", "hdfs://i:1/old/x.parquet", "hdfs://i:1/old/x.parquet"),
]  # fmt: skip


@pytest.mark.parametrize("fs, root, uri, path, full", SPELLED)
def test_spellings(fs, root, uri, path, full):
    for others in ([], ["y.parquet"], ["/z.parquet", "file:/q.parquet"]):
        paths = pa.chunked_array([[*others, path]], pa.string())
        found = full_paths(paths, fs, root, uri)
        assert found.type == pa.string() and found.to_pylist()[-1] == full


def test_any_reader_can_read_the_files(tmp_path, monkeypatch):
    simple(tmp_path / "a t")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "plain.parquet")
    monkeypatch.chdir(tmp_path)
    (plain,) = ss.scan_parquet("plain.parquet").all_files
    for source in ("a t", tmp_path / "a t", f"{tmp_path}/a t/", f"file://{tmp_path}/a%20t"):
        table = ss.scan(source)
        plan = table.plan("x >= 15")
        assert os.path.dirname(plan.files[0]) == f"{os.path.dirname(plain)}/a t"
        assert pq.read_table(list(plan.files)).num_rows == 20
        assert list(plan.row_groups) == list(plan.pages) == list(plan.files)
        assert plan.files == table.all_files[1:]
        assert [s.path for s in plan.splits()] == list(plan.files)
        assert all(map(os.path.isabs, table.all_files))
        # The log's own entries stay as the log has them.
        assert not any(map(os.path.isabs, table.files.column("path").to_pylist()))


def test_pages_of_a_file_of_another_table(tmp_path):
    """A shallow clone names files by their URIs."""
    source, clone = simple(tmp_path / "a t", 1), Log(tmp_path / "t", delta_schema("x BIGINT"))
    add = json.loads((source.log / f"{1:020}.json").read_text().splitlines()[1])["add"]
    full = str(source.folder / add["path"])
    clone.commit({"add": add | {"path": quoted(f"file:{full}")}})
    plan = ss.scan_delta(clone.folder).plan("x = 5")
    assert plan.files == (full,) == tuple(plan.pages)
    assert pq.read_table(list(plan.files)).num_rows == 10
    for named in (full, f"file:{full}", f"file://{full}", "/" + add["path"]):
        assert full in plan.explain(container=named)


def test_relative_paths_are_accepted(tmp_path):
    log = Log(tmp_path / "t", delta_schema("x BIGINT"))
    log.add(*(Written([{"x": i}], path=p) for i, p in enumerate(["a.parquet", "k/a.parquet"])))
    table = ss.scan_delta(log.folder)
    plan = table.plan("x = 1")
    for path in ("a.parquet", "k/a.parquet"):  # one is the end of the other
        full = f"{log.folder}/{path}"
        assert plan.explain(container=path) == plan.explain(container=full)
        assert table.get_specific_files_with_stats([path]).num_rows == 1
        assert table.get_specific_files_with_stats([full]).num_rows == 1
    assert table.get_specific_files_with_stats([]).num_rows == 0
    with pytest.raises(PredicateError, match="no such file"):
        plan.explain(container="b.parquet")


def test_full_paths_are_made_of_the_kept_files_only(tmp_path, monkeypatch):
    made = []
    module = "skipstone.bindings.tables.delta.files.full_paths"
    monkeypatch.setattr(module, lambda p, *at: made.append(len(p)) or full_paths(p, *at))
    table = ss.scan_delta(simple(tmp_path / "t", 5).folder)
    plan = table.plan("x >= 45")
    assert made == []
    assert len(plan.files) == len(plan.files) == 1 and made == [1]
    assert len(table.row_groups_of(np.arange(2))) == 2 and made == [1, 2]
