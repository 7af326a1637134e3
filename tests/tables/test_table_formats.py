"""Folders of Delta, Iceberg and Hudi tables are no plain Parquet folders, unless one says so."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.ir.errors import SourceError

#   file that marks the format, its name, the way out
MARKS = [
    ("_delta_log/00000000000000000000.json", "Delta", "use scan_delta"),
    ("metadata/v1.metadata.json", "Iceberg", "use scan_iceberg"),
    (".hoodie/hoodie.properties", "Hudi", "read it by Spark"),
    (".hoodie_partition_metadata", "Hudi", "read it by Spark"),
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
