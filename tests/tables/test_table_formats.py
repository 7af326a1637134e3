"""Folders of Delta, Iceberg and Hudi tables are no plain Parquet folders, unless one says so."""

import os

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.ir.errors import SourceError

#   file that marks the format, its name, the way out
MARKS = [
    ("_delta_log/00000000000000000000.json", "Delta", "use scan_delta"),
    ("metadata/v1.metadata.json", "Iceberg", "use scan_iceberg"),
    (".hoodie/hoodie.properties", "Hudi", "read it with Spark"),
    (".hoodie_partition_metadata", "Hudi", "read it with Spark"),
]


@pytest.mark.parametrize(("mark", "name", "way_out"), MARKS)
@pytest.mark.parametrize("scan", [ss.scan_parquet, ss.scan_hive])
def test_a_folder_of_another_format_is_refused(tmp_path, scan, mark, name, way_out):
    folder = tmp_path / "t"
    os.makedirs(folder / "p=1")
    pq.write_table(pa.table({"x": [1, 2]}), folder / "p=1/a.parquet")
    os.makedirs((folder / mark).parent, exist_ok=True)
    (folder / mark).write_text("{}")
    with pytest.raises(SourceError, match=f"a {name} table.*{way_out}.*ignore_table_format=True"):
        scan(folder)
    if name == "Iceberg" and scan is ss.scan_hive:
        return  # its files lie in `data`, beside the metadata
    table = scan(folder, ignore_table_format=True)
    assert table.plan("x > 1 AND p = 1").to_arrow().num_rows == 1
    if name != "Iceberg":
        with pytest.raises(SourceError, match=f"partition folder of .* the folder of a {name}"):
            scan(folder / "p=1")


def test_scan_refuses_hudi(tmp_path):
    (tmp_path / ".hoodie").mkdir()
    (tmp_path / ".hoodie" / "hoodie.properties").write_text("hoodie.table.version=6")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    with pytest.raises(SourceError, match="does not read Hudi"):
        ss.scan(tmp_path)


def test_a_file_system_that_lists_paths_without_their_slash(tmp_path):
    """The folder is still known to be a table's, and to have its partitions and statistics."""
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(str(tmp_path / "a=1/t"), pa.table({"x": [1]}))
    deltalake.write_deltalake(str(tmp_path / "a=1/t"), pa.table({"x": [2]}), mode="overwrite")
    (tmp_path / "a=1/plain/day=3").mkdir(parents=True)
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a=1/plain/day=3/f.parquet")
    inner = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
    for where in ("/a=1/t", "a=1/t", "/a=1/t/"):
        for scan in (ss.scan_parquet, ss.scan_hive):
            with pytest.raises(ss.SourceError, match="use scan_delta"):
                scan(where, filesystem=inner)
    for where in ("/a=1/plain", "a=1/plain"):
        assert ss.scan_parquet(where, filesystem=inner).schema.names == ["x", "day"]
