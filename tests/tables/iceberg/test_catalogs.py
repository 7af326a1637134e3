"""Iceberg tables by their names in catalogs: SQLite, REST, local servers of AWS Glue and Hive."""

import json

import pyarrow as pa
import pyiceberg.catalog
import pytest
from pyiceberg.utils.config import Config

import skipstone as ss
from skipstone.bindings.shell import main
from tests.support.tables import s3
from tests.support.tables.iceberg_tables import make
from tests.support.tables.rest_catalog import serving

ROWS = pa.table({"x": range(30)})


@pytest.fixture
def sql(tmp_path, monkeypatch):
    """A table in a catalog on SQLite, which the environment describes as `lake`."""
    table = make(tmp_path, ROWS.schema)
    table.append(ROWS)
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())  # it is read at the import
    return table


def described(catalog):
    return {"type": "sql", "name": "lake", "uri": catalog.properties["uri"]}


WAYS = {
    "a catalog": lambda table: table.catalog,
    "its properties": lambda table: described(table.catalog),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scan", [ss.scan, ss.scan_iceberg])
def test_a_table_by_its_name(sql, scan, way):
    found = scan(".".join(sql.name()), catalog=WAYS[way](sql))
    assert type(found).__name__ == "IcebergTable"
    assert found.plan("x >= 25").to_arrow().num_rows == 5
    assert scan(sql.name(), catalog=WAYS[way](sql)).num_files == 1


def test_a_catalog_by_its_name(sql):
    assert ss.scan(".".join(sql.name()), catalog="lake").plan("x >= 25").count() == 5


def test_the_shell_plans_by_a_catalog(sql, monkeypatch, capsys):
    monkeypatch.setattr(
        "sys.argv", ["skipstone", "plan", ".".join(sql.name()), "--catalog", "lake", "--json"]
    )
    with pytest.raises(SystemExit) as done:
        main.main()
    assert not done.value.code
    assert len(json.loads(capsys.readouterr().out)["files"]) == 1


def test_an_older_snapshot(sql):
    first = sql.current_snapshot().snapshot_id
    sql.append(ROWS)
    name = ".".join(sql.name())
    assert ss.scan_iceberg(name, catalog=sql.catalog).plan().count() == 60
    assert ss.scan_iceberg(name, first, catalog=sql.catalog).plan().count() == 30


#    name, catalog, error, words
WRONG = [
    ("db.none", "lake", ss.SourceError, "lake has no table 'db.none'"),
    ("none.t", "lake", ss.SourceError, "lake has no table 'none.t'"),
    ("t", "lake", ss.SourceError, "'t'"),
    ("", "lake", ss.SourceError, "''"),
    ("db.t", "nobody", ss.SourceError, "nobody cannot be asked"),
    ("db.t", {"type": "rest", "uri": "http://127.0.0.1:1"}, ss.SourceError, "cannot be asked"),
    ("db.t", {"type": "paper"}, ss.SourceError, "cannot be asked"),
    ("db.t", {"py-catalog-impl": "no.such.Class"}, ss.SkipstoneError, "no.such.Class|no"),
    ("db.t", 5, ss.SourceError, "catalog= is of the type int"),
    (5, "lake", ss.SourceError, "was given a int and a catalog"),
    (("db", 5), "lake", ss.SourceError, "was given a tuple and a catalog"),
]


@pytest.mark.parametrize("name, catalog, error, words", WRONG)
def test_wrong_names(sql, name, catalog, error, words):
    with pytest.raises(error, match=words) as found:
        ss.scan_iceberg(name, catalog=catalog)
    assert len(str(found.value).splitlines()) == 1


def test_what_contradicts_a_catalog(sql):
    with pytest.raises(ss.SourceError, match="a catalog knows the format"):
        ss.scan("db.t", format="delta", catalog="lake")
    with pytest.raises(ss.SourceError, match="a catalog that is open"):
        ss.scan("db.t", catalog=sql.catalog, storage_options={"anon": "true"})


@pytest.mark.skipif(s3.MISSING is not None, reason=s3.MISSING or "")
def test_glue(tmp_path, monkeypatch):
    """AWS Glue by pyiceberg's own client; the data lie in S3."""
    pytest.importorskip("boto3")
    from pyiceberg.catalog import load_catalog

    with s3.server(tmp_path, "s3,glue") as address:
        for name, value in s3.environment(address).items():
            monkeypatch.setenv(name, value)
        s3.client(address).create_dir("lake")
        properties = s3.glue(address)
        catalog = load_catalog("lake", **properties)
        catalog.create_namespace("db")
        catalog.create_table("db.t", ROWS.schema, location="s3://lake/t").append(ROWS)
        table = ss.scan("db.t", catalog=properties)
        assert table.plan("x >= 25").to_arrow().num_rows == 5
        with pytest.raises(ss.SourceError, match=r"has no table 'db\.none'"):
            ss.scan("db.none", catalog=properties)


def test_rest(sql):
    """The table comes with the server's answer; its files are read from where they lie."""
    sql.append(ROWS)
    with serving(sql.catalog, token="secret") as (uri, asked):
        catalog = {"type": "rest", "uri": uri, "token": "secret"}
        for scan in (ss.scan, ss.scan_iceberg):
            table = scan(".".join(sql.name()), catalog=catalog)
            plan = table.plan("x >= 25")
            assert plan.count() == plan.to_arrow().num_rows == 10
        first = sql.snapshots()[0].snapshot_id
        old = ss.scan_iceberg(".".join(sql.name()), first, catalog=catalog)
        assert old.plan("x >= 25").count() == 5
        space, name = sql.name()
        assert set(asked) == {"/v1/config", f"/v1/namespaces/{space}/tables/{name}"}
        with pytest.raises(ss.SourceError, match=r"the catalog has no table 'db\.none'"):
            ss.scan("db.none", catalog=catalog)
        with pytest.raises(ss.SourceError, match="cannot be asked") as raised:
            ss.scan(f"{space}.{name}", catalog={**catalog, "token": "guessed"})
        assert "guessed" not in str(raised.value) and "\n" not in str(raised.value)
