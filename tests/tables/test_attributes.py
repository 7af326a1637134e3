"""The attributes that tables of every format have."""

import operator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.attributes import INTERNAL
from skipstone.bindings.tables.table import Table

ROWS = pa.table({"x": pa.array(range(6), pa.int64()), "k": pa.array(["a", "b", "b"] * 2)})


def folders(path):
    for value in "ab":
        (path / f"k={value}").mkdir(parents=True)
        part = ROWS.filter(pc.equal(ROWS["k"], value)).select(["x"])
        pq.write_table(part, path / f"k={value}" / "part.parquet")


def parquet(path):
    folders(path)
    return ss.scan_parquet(path), str(path)


def hive(path):
    folders(path)
    return ss.scan_hive(path), str(path)


def delta(path):
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(path, ROWS, partition_by="k")
    return ss.scan_delta(path), str(path)


def iceberg(path):
    pytest.importorskip("pyiceberg")
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import LongType, NestedField, StringType

    from tests.support.tables.iceberg_tables import append, make

    columns = NestedField(1, "x", LongType()), NestedField(2, "k", StringType())
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "k"))
    source = append(make(path, Schema(*columns), spec), ROWS)
    return ss.scan_iceberg(source), source.location()


@pytest.mark.parametrize("make", [parquet, hive, delta, iceberg])
def test_every_format_has_the_same_attributes(make, tmp_path):
    table, path = make(tmp_path / "t")
    plan = table.plan()
    assert isinstance(table, Table) and isinstance(table.all_files, tuple)
    assert table.path == path
    assert table.num_files == len(table.files) == len(table.all_files) == 2
    assert (plan.sizes.total.files, plan.files) == (2, table.all_files)
    assert table.partition_columns == ("k",)
    assert table.schema.names == ["x", "k"] and table.schema == plan.to_arrow().schema
    assert set(table.plan("k = 'b'").files) < set(table.all_files)


def test_a_table_of_named_files_has_no_path(tmp_path):
    folders(tmp_path)
    first, *_ = files = ss.scan_parquet(tmp_path).files
    for source in (first, list(files), f"{tmp_path}/*/*.parquet"):
        table = ss.scan_parquet(source)
        assert table.path is None and table.num_files == len(table.all_files) > 0


#   attribute               what the error says
MEANT = [
    ("filter",              r"a table has no attribute 'filter'; call plan\(where\)"),
    ("to_arrow",            r"call plan\(where\)\.to_arrow\(\)"),
    ("select",              r"call plan\(columns=\[name, \.\.\.\]\)"),
    ("columns",             "see its schema"),
    ("nosuch",              "'ParquetTable' object has no attribute 'nosuch'"),
]  # fmt: skip


@pytest.mark.parametrize("name, message", MEANT)
def test_attributes_of_other_libraries(tmp_path, name, message):
    table, _ = parquet(tmp_path)
    with pytest.raises(AttributeError, match=message):
        getattr(table, name)
    with pytest.raises(AttributeError, match=r"a plan has no attribute 'collect'; call to_arrow"):
        table.plan().collect()
    with pytest.raises(
        AttributeError, match=r"a plan .* 'head'; call table\.plan\(where, limit=n\)"
    ):
        table.plan().head(3)


def test_only_tables_of_parquet_files_save_statistics(tmp_path):
    with pytest.raises(AttributeError, match="Delta and Iceberg have the statistics in their"):
        delta(tmp_path / "t")[0].save_stats()


def test_names_that_the_package_lacks():
    with pytest.raises(AttributeError, match=r"'read_parquet'; skipstone\.scan\(path\) opens"):
        ss.read_parquet("t")
    with pytest.raises(AttributeError, match=r"no attribute 'Prune'$"):
        operator.attrgetter("Prune")(ss)


@pytest.mark.parametrize("make", [parquet, hive, delta, iceberg])
def test_completion_leaves_internal_names_out(tmp_path, make):
    table, _ = make(tmp_path)
    assert not INTERNAL["table"] & set(dir(table))
    assert not INTERNAL["statistics"] & set(dir(table.statistics))
    assert {"plan", "schema", "files"} <= set(dir(table)) and "pack" in dir(table.statistics)


def test_internal_names_are_not_public_ones():
    listed = (Path(__file__).parents[1] / "data" / "public_names.txt").read_text().split()
    owners = {"table": ("ParquetTable", "HiveTable", "DeltaTable", "IcebergTable")}
    for kind, names in INTERNAL.items():
        for owner in owners.get(kind, ("Statistics",)):
            assert not names & {n.removeprefix(f"skipstone.{owner}.") for n in listed}, owner
