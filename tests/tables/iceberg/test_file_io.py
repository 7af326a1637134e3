"""Who opens the files of an Iceberg table: Arrow the local ones, pyiceberg's FileIO all others."""

import os
import pickle

import pyarrow as pa
import pytest
from pyiceberg.io import PY_IO_IMPL
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

import skipstone as ss
from skipstone.bindings.tables.iceberg.file_io import FileIO, LocalInput, local_path
from tests.support.tables.iceberg_tables import append, make

SCHEMA = Schema(NestedField(1, "x", LongType()))
LOCATIONS = [
    "/a/b", "/a b/../c", "/a%20b", "/a?b#c;d", "file:/a/b", "file:///a/b", "file:///a%20b",
    "file:///a?b", "file:///a;b", "file:///a#b", "file://host/a", "a/b", "s3://a/b", "s3a://a/b",
    "hdfs://host/a", "gs://a/b", "FILE:///a", "//a/b", "http://a/b", "file:a",
]  # fmt: skip


@pytest.mark.parametrize("location", LOCATIONS)
def test_local_paths_are_those_of_pyiceberg(location):
    scheme, _, path = PyArrowFileIO.parse_location(location)
    found = local_path(location)
    assert found is None or (scheme, path) == ("file", found)
    if location.startswith(("/", "file:///a/", "file:/a")):
        assert found is not None


class OtherIO(PyArrowFileIO):
    opened = 0

    def new_input(self, location):
        OtherIO.opened += 1
        return super().new_input(location)


@pytest.fixture
def table(tmp_path):
    made = make(str(tmp_path), SCHEMA)
    return append(made, pa.table({"x": range(1000)}), 250)


def test_pyiceberg_makes_its_own_when_it_is_asked(table):
    found = ss.scan_iceberg(table.metadata_location)
    assert "io" not in vars(found.source)
    assert found.plan("x >= 990").to_arrow().num_rows == 10
    assert "io" not in vars(found.source)
    assert isinstance(found.source.io, PyArrowFileIO)
    assert found.source.scan("x >= 990").to_arrow().num_rows == 10
    for one in (found, ss.scan_iceberg(table)):
        copy = pickle.loads(pickle.dumps(one))
        assert copy.plan("x >= 990").to_arrow().num_rows == 10
        assert isinstance(copy.source.io, PyArrowFileIO)


@pytest.mark.parametrize("by", ["property", "class"])
def test_another_file_io_is_used_for_all_files(by, table):
    OtherIO.opened = 0
    if by == "property":
        name = f"{OtherIO.__module__}.{OtherIO.__qualname__}"
        assert not isinstance(FileIO({PY_IO_IMPL: name}).new_input("/a"), LocalInput)
        found = ss.scan_iceberg(table.metadata_location, storage_options={PY_IO_IMPL: name})
    else:
        table.io = OtherIO({})
        found = ss.scan_iceberg(table)
    assert found.plan("x >= 990").to_arrow().num_rows == 10
    assert OtherIO.opened >= 3  # the list, a manifest, a file


def test_missing_files_are_named(table, tmp_path):
    found = ss.scan_iceberg(table.metadata_location)
    path = local_path(found.plan("x >= 990").files[0])
    os.remove(path)
    with pytest.raises(ss.SourceError, match=os.path.basename(path)):
        found.plan("x >= 990").to_arrow()
    with pytest.raises(ss.SourceError, match=r"none\.metadata\.json"):
        ss.scan_iceberg(f"{tmp_path}/none.metadata.json")
