"""Delta and Parquet tables by their names in AWS Glue, as Athena and crawlers describe them."""

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from tests.support.tables import s3

pytest.importorskip("boto3")
pytestmark = pytest.mark.skipif(s3.MISSING is not None, reason=s3.MISSING or "")

PARQUET = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"
TEXT = "org.apache.hadoop.mapred.TextInputFormat"
BY_CODE = [{"Name": "code", "Type": "string"}]
# Values that look like numbers, are NULL, or have characters which folders escape.
CODES = {
    "01": "code=01",
    "1": "code=1",
    "x/y": "code=x%2Fy",
    "__HIVE_DEFAULT_PARTITION__": "code=__HIVE_DEFAULT_PARTITION__",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The properties of a catalog, its client of Glue, and the file system."""
    with s3.server(tmp_path_factory.mktemp("glue"), "s3,glue") as address:
        fs = s3.client(address)
        fs.create_dir("lake")
        properties = s3.glue(address)
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog("lake", **properties)
        catalog.create_namespace("db")
        yield properties, catalog.glue, fs


def add(glue, name, location, parameters=None, keys=(), reader=PARQUET, kind="EXTERNAL_TABLE"):
    stored = {
        "Columns": [{"Name": "x", "Type": "bigint"}],
        "Location": location,
        "SerdeInfo": {"Parameters": {}},
    }
    if reader is not None:
        stored["InputFormat"] = reader
    entry = {
        "Name": name,
        "StorageDescriptor": stored,
        "PartitionKeys": list(keys),
        "Parameters": {"classification": "parquet", **(parameters or {})},
    }
    glue.create_table(
        DatabaseName="db", TableInput=entry | ({} if kind is None else {"TableType": kind})
    )


def add_partition(glue, name, values, location):
    glue.create_partition(
        DatabaseName="db", TableName=name,
        PartitionInput={"Values": list(values), "StorageDescriptor": {"Location": location}},
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["EXTERNAL_TABLE", None])
def test_parquet_files(server, kind):
    catalog, glue, fs = server
    name = f"plain_{kind}".lower()
    fs.create_dir(f"lake/{name}")
    pq.write_table(pa.table({"x": range(30)}), f"lake/{name}/a.parquet", filesystem=fs)
    add(glue, name, f"s3://lake/{name}/", kind=kind)
    assert ss.scan(f"db.{name}", catalog=catalog).plan("x >= 25").count() == 5


def test_partitions(server):
    """A folder that Glue does not list holds no rows of the table."""
    catalog, glue, fs = server
    add(glue, "by_code", "s3://lake/by code", keys=BY_CODE)
    for i, (code, folder) in enumerate([*CODES.items(), (None, "code=unlisted")]):
        fs.create_dir(f"lake/by code/{folder}")
        pq.write_table(pa.table({"x": [i]}), f"lake/by code/{folder}/a.parquet", filesystem=fs)
        if code is not None:
            add_partition(glue, "by_code", [code], f"s3://lake/by code/{folder}/")
    table = ss.scan("db.by_code", catalog=catalog)
    rows = table.plan().to_arrow()
    assert sorted(rows["x"].to_pylist()) == [0, 1, 2, 3]
    assert set(rows["code"].to_pylist()) == {"01", "1", "x/y", None}
    for where, x in [("code = '1'", 1), ("code = 'x/y'", 2), ("code IS NULL", 3)]:
        plan = table.plan(where)
        assert (plan.to_arrow()["x"].to_pylist(), len(plan.files)) == ([x], 1)


@pytest.mark.parametrize(
    "parameters", [{"table_type": "DELTA"}, {"spark.sql.sources.provider": "delta"}]
)
def test_delta_tables(server, tmp_path, parameters):
    catalog, glue, fs = server
    name = "by_" + next(iter(parameters)).replace(".", "_")
    deltalake.write_deltalake(str(tmp_path), pa.table({"x": range(30)}))
    fs.create_dir(f"lake/{name}")
    pa.fs.copy_files(str(tmp_path), f"lake/{name}", destination_filesystem=fs)
    add(glue, name, f"s3://lake/{name}", parameters, reader=None)
    table = ss.scan(f"db.{name}", catalog=catalog)
    assert type(table).__name__ == "DeltaTable"
    assert table.plan("x >= 25").to_arrow().num_rows == 5


#    parameters, keys, reader, kind, words of the error
REFUSED = {
    "text": ({}, (), TEXT, "EXTERNAL_TABLE", "is a table of org.apache.*TextInputFormat"),
    "seen": ({}, (), None, "VIRTUAL_VIEW", "is a VIRTUAL_VIEW"),
    "unsaid": ({}, (), None, "EXTERNAL_TABLE", "is a table of None"),
    "projected": (
        {"projection.enabled": "TRUE"}, BY_CODE, PARQUET, "EXTERNAL_TABLE",
        "projected partitions",
    ),
    "acid": ({"transactional": "true"}, (), PARQUET, "EXTERNAL_TABLE", "is transactional"),
    "empty": ({}, BY_CODE, PARQUET, "EXTERNAL_TABLE", "has no partitions"),
    "hudi": (
        {"spark.sql.sources.provider": "hudi"}, (), PARQUET, "EXTERNAL_TABLE",
        "is a table of hudi",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_tables_that_are_refused(server, name):
    catalog, glue, _ = server
    parameters, keys, reader, kind, words = REFUSED[name]
    add(glue, name, f"s3://lake/{name}", parameters, keys, reader, kind)
    with pytest.raises(ss.SourceError, match=words) as found:
        ss.scan(f"db.{name}", catalog=catalog)
    assert len(str(found.value).splitlines()) == 1


def test_a_partition_elsewhere(server):
    catalog, glue, _ = server
    add(glue, "moved", "s3://lake/moved", keys=BY_CODE)
    add_partition(glue, "moved", ["1"], "s3://lake/elsewhere/code=1")
    with pytest.raises(ss.SourceError, match="whose name does not give its values"):
        ss.scan("db.moved", catalog=catalog)
