"""Tables that the package deltalake has open: the same version, the same options."""

import pyarrow as pa
import pytest

import skipstone as ss

deltalake = pytest.importorskip("deltalake")


@pytest.fixture
def table(tmp_path):
    for i in range(3):
        rows = pa.table({"x": range(10 * i, 10 * i + 10)})
        deltalake.write_deltalake(str(tmp_path), rows, mode="append")
    return deltalake.DeltaTable(str(tmp_path))


@pytest.mark.parametrize("scan", [ss.scan, ss.scan_delta])
def test_the_version_is_that_of_the_open_table(table, scan, tmp_path):
    old = deltalake.DeltaTable(str(tmp_path), version=1)
    assert (scan(table).version, scan(table).plan("x >= 5").count()) == (2, 25)
    assert (scan(old).version, scan(old).plan("x >= 5").count()) == (1, 15)
    deltalake.write_deltalake(str(tmp_path), pa.table({"x": [100]}), mode="append")
    assert scan(table).plan().count() == 30  # as it was opened


def test_a_version_that_is_named_wins(table):
    assert ss.scan_delta(table, 0).plan().count() == 10


def test_other_objects_of_the_package_are_refused(table):
    with pytest.raises(ss.SourceError, match="is not a path"):
        ss.scan_delta(table.metadata())
