"""Tables by their names in a real Hive metastore; those of Parquet, beside Spark's rows."""

import json

import deltalake
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.bindings.shell import main
from tests.support.tables import hive_metastore, hive_statements
from tests.support.tables.iceberg_tables import make

pytestmark = [
    pytest.mark.skipif(hive_metastore.MISSING is not None, reason=hive_metastore.MISSING or ""),
    pytest.mark.xdist_group("metastore"),  # one process starts it, which takes seconds
]

# Partition values that look like numbers, are NULL, or have characters which folders escape.
ROWS = "VALUES (1, 'a', '01'), (2, 'b', '1'), (3, NULL, 'x/y=%'), (4, 'd', NULL)"
CODES = ("01", "1", "x/y=%", None)
MAKE = [
    "CREATE DATABASE db",
    f"CREATE TABLE db.plain STORED AS PARQUET AS SELECT * FROM ({ROWS}) AS t(x, s, code)",
    f"CREATE TABLE db.source USING parquet AS SELECT * FROM ({ROWS}) AS t(x, s, code)",
    "CREATE TABLE db.by_code (x INT, s STRING) PARTITIONED BY (code STRING) STORED AS PARQUET",
    f"INSERT INTO db.by_code SELECT * FROM ({ROWS}) AS t(x, s, code)",
    "CREATE TABLE db.mixed (X INT, s STRING, Code STRING) USING parquet PARTITIONED BY (Code)",
    f"INSERT INTO db.mixed SELECT * FROM ({ROWS}) AS t(x, s, code)",
    # A folder that the metastore does not know any more holds no rows of the table.
    "CREATE EXTERNAL TABLE db.dropped (x INT) PARTITIONED BY (d DATE, n DECIMAL(5,2)) "
    "STORED AS PARQUET LOCATION '{folder}/dropped'",
    "INSERT INTO db.dropped VALUES (1, DATE '2024-01-01', 1.5), (2, DATE '2024-01-02', 2.25)",
    "ALTER TABLE db.dropped DROP PARTITION (d = DATE '2024-01-01')",
    "CREATE TABLE db.text (x INT) STORED AS TEXTFILE",
    "CREATE TABLE db.csv (x INT) USING csv",
    "CREATE VIEW db.seen AS SELECT * FROM db.plain",
    "CREATE TABLE db.empty (x INT) PARTITIONED BY (d DATE) STORED AS PARQUET",
    "CREATE TABLE db.timed (x INT) PARTITIONED BY (t TIMESTAMP) STORED AS PARQUET",
    "INSERT INTO db.timed VALUES (1, TIMESTAMP '2024-01-01 10:00:00')",
    "CREATE TABLE db.padded (x INT, c CHAR(5)) STORED AS PARQUET",
    "CREATE TABLE db.inside (x INT, s STRUCT<v: VARCHAR(9), c: CHAR(5)>) STORED AS PARQUET",
    "CREATE TABLE db.moved (x INT) PARTITIONED BY (n INT) STORED AS PARQUET",
    "ALTER TABLE db.moved ADD PARTITION (n = 1) LOCATION '{folder}/moved'",
]
#   table -> conditions
QUERIES = {
    "plain": ["true", "x >= 3", "code = '1'", "s IS NULL"],
    "source": ["true", "x < 2"],
    "by_code": ["true", "code = '1'", "code = '01' OR x = 4", "code IS NULL", "code LIKE 'x/%'"],
    "mixed": ["true", "code = '1'", "code IS NULL", "x = 3"],
    "dropped": ["true", "d = DATE '2024-01-01'", "n > 2", "d > DATE '2024-01-01' AND x = 2"],
}
CASES = [(name, where) for name, several in QUERIES.items() for where in several]


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """The properties of a catalog with these tables, and Spark's rows."""
    folder = tmp_path_factory.mktemp("hive")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    with hive_metastore.serving(folder) as uri:
        rows = hive_statements.run(
            uri, folder / "warehouse", [text.replace("{folder}", str(elsewhere)) for text in MAKE],
            {f"{t} {w}": f"SELECT * FROM db.{t} WHERE {w}" for t, w in CASES},
        )  # fmt: skip
        yield {"type": "hive", "uri": uri}, rows


def values(plan):
    """Return the rows of a plan as Spark's are written."""
    columns = plan.to_arrow().to_pydict().values()
    rows = [[None if v is None else str(v) for v in row] for row in zip(*columns, strict=True)]
    return sorted(rows, key=str)


@pytest.mark.parametrize("name, where", CASES)
def test_rows_are_sparks(lake, name, where):
    catalog, rows = lake
    table = ss.scan(f"db.{name}", catalog=catalog)
    assert values(table.plan(where)) == sorted(rows[f"{name} {where}"], key=str)


def test_partitions_prune(lake):
    table = ss.scan("db.by_code", catalog=lake[0])
    assert set(table.plan("code = '1'").to_arrow()["code"].to_pylist()) == {"1"}
    assert len(table.plan("code = '1'").files) == 1
    assert set(table.plan().to_arrow()["code"].to_pylist()) == set(CODES)


def test_the_shell(lake, monkeypatch, capsys):
    monkeypatch.setenv("PYICEBERG_CATALOG__META__TYPE", "hive")
    monkeypatch.setenv("PYICEBERG_CATALOG__META__URI", lake[0]["uri"])
    import pyiceberg.catalog
    from pyiceberg.utils.config import Config

    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())
    monkeypatch.setattr(
        "sys.argv",
        ["skipstone", "plan", "db.mixed", "--catalog", "meta", "--where", "Code = '1'", "--json"],
    )
    with pytest.raises(SystemExit) as done:
        main.main()
    assert not done.value.code
    assert len(json.loads(capsys.readouterr().out)["files"]) == 1


def test_a_delta_table(lake, tmp_path):
    from hive_metastore.ttypes import FieldSchema, SerDeInfo, StorageDescriptor, Table
    from pyiceberg.catalog import load_catalog

    deltalake.write_deltalake(str(tmp_path), pa.table({"x": range(30)}))
    kinds = {
        "by_spark": ({"spark.sql.sources.provider": "DELTA"}, {"path": str(tmp_path)}, "file:/no"),
        "by_hive": ({"storage_handler": "io.delta.hive.DeltaStorageHandler"}, {}, str(tmp_path)),
    }
    with load_catalog("hive", **lake[0])._client as client:
        for name, (parameters, options, location) in kinds.items():
            stored = StorageDescriptor(
                cols=[FieldSchema("x", "bigint", None)], location=location,
                serdeInfo=SerDeInfo(parameters=options),
            )  # fmt: skip
            client.create_table(
                Table(
                    dbName="db", tableName=name, sd=stored, tableType="EXTERNAL_TABLE",
                    parameters={**parameters, "EXTERNAL": "TRUE"},
                )
            )  # fmt: skip
    for name in kinds:
        table = ss.scan(("db", name), catalog=lake[0])
        assert type(table).__name__ == "DeltaTable"
        assert table.plan("x >= 25").count() == 5


def test_an_iceberg_table(lake, tmp_path):
    from hive_metastore.ttypes import FieldSchema, SerDeInfo, StorageDescriptor, Table
    from pyiceberg.catalog import load_catalog

    rows = pa.table({"x": range(30)})
    made = make(tmp_path, rows.schema)
    made.append(rows)
    catalog = load_catalog("hive", **lake[0])
    catalog.create_namespace("ice")
    catalog.register_table("ice.t", made.metadata_location)
    for scan in (ss.scan, ss.scan_iceberg):
        assert scan("ice.t", catalog=lake[0]).plan("x >= 25").to_arrow().num_rows == 5
    columns = StorageDescriptor(
        cols=[FieldSchema("x", "bigint", None)], location="file:/lake/plain",
        serdeInfo=SerDeInfo(serializationLib="org.apache.hadoop.hive.ql.io.parquet"),
    )  # fmt: skip
    with catalog._client as client:
        client.create_table(Table(dbName="ice", tableName="plain", sd=columns, parameters={}))
    with pytest.raises(ss.SourceError, match=r"'ice\.plain' is not an Iceberg table") as found:
        ss.scan_iceberg("ice.plain", catalog=lake[0])
    assert len(str(found.value).splitlines()) == 1
    with pytest.raises(ss.SourceError, match=r"has no table 'ice\.none'"):
        ss.scan("ice.none", catalog=lake[0])


#    table, words of the error
REFUSED = [
    ("db.text", "is a table of org.apache.hadoop.mapred.TextInputFormat; expected Parquet"),
    ("db.csv", "is a table of csv; expected Parquet"),
    ("db.seen", "is a VIRTUAL_VIEW; expected a table of files"),
    ("db.empty", "has no partitions"),
    ("db.timed", "the partition column 't' is of type timestamp"),
    ("db.moved", "whose name does not give its values"),
    ("db.padded", r"the column 'c' is of type char\(5\)"),
    ("db.inside", "the column 's' is of type struct"),
    ("db.none", "has no table 'db.none'"),
]


@pytest.mark.parametrize("name, words", REFUSED)
def test_tables_that_are_refused(lake, name, words):
    with pytest.raises(ss.SourceError, match=words) as found:
        ss.scan(name, catalog=lake[0])
    assert len(str(found.value).splitlines()) == 1


def test_formats_that_a_catalog_contradicts(lake):
    with pytest.raises(ss.SourceError, match="is not an Iceberg table"):
        ss.scan("db.plain", catalog=lake[0], format="iceberg")
    with pytest.raises(ss.SourceError, match="is not an Iceberg table"):
        ss.scan_iceberg("db.plain", catalog=lake[0])
    with pytest.raises(ss.SourceError, match="a catalog knows the format"):
        ss.scan("db.plain", catalog=lake[0], format="parquet")
