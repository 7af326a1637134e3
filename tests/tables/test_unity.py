"""Tables by their names in Unity Catalog, `uc://catalog.schema.table`, by a server of its API."""

import json
import os

import deltalake
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.shell import main
from skipstone.bindings.storage import gs_with_token
from skipstone.bindings.tables import unity_client
from skipstone.bindings.tables.unity import table_in_unity
from tests.support.tables import s3
from tests.support.tables.unity_catalog import TOKEN, serving

NAME = "main.sales.orders"
AWS = {"access_key_id": "AK", "secret_access_key": "SK", "session_token": "ST"}


@pytest.fixture
def unity(monkeypatch):
    """A server that the environment names."""
    with serving() as server:
        monkeypatch.setattr(unity_client, "PAUSES", (0.0, 0.0))
        monkeypatch.setenv("DATABRICKS_HOST", server.address)
        monkeypatch.setenv("DATABRICKS_TOKEN", TOKEN)
        yield server


@pytest.fixture
def delta(tmp_path):
    """The folder of a Delta table of three files, 30 rows."""
    for i in range(3):
        rows = pa.table({"x": range(i * 10, i * 10 + 10)})
        deltalake.write_deltalake(str(tmp_path), rows, mode="append")
    return str(tmp_path)


def hive(folder):
    """Write Parquet files in folders `code=...`, whose names look like numbers."""
    for code in ("01", "1", "02"):
        os.makedirs(f"{folder}/code={code}")
        pq.write_table(pa.table({"x": range(5)}), f"{folder}/code={code}/part.parquet")
    return str(folder)


CODE = {"name": "code", "type_name": "STRING", "partition_index": 0}


@pytest.mark.parametrize("scan", [ss.scan, ss.scan_delta])
def test_a_delta_table_opens_by_its_name(unity, delta, scan):
    table = scan(unity.add(NAME, f"file://{delta}"))
    assert type(table).__name__ == "DeltaTable"
    assert table.plan("x >= 25").to_arrow().num_rows == 5
    assert len(table.plan("x >= 25").files) == 1
    # A local folder needs no credentials.
    assert [path for _, path, _ in unity.asked] == [f"/api/2.1/unity-catalog/tables/{NAME}"]


def test_an_older_version_of_a_delta_table_opens(unity, delta):
    assert ss.scan_delta(unity.add(NAME, delta), 0).plan().count() == 10


def test_the_catalog_is_named_by_options(unity, delta, monkeypatch):
    monkeypatch.delenv("DATABRICKS_HOST")
    monkeypatch.delenv("DATABRICKS_TOKEN")
    options = {"databricks_host": f"{unity.address}/", "DATABRICKS_TOKEN": TOKEN}
    uri = unity.add(NAME, delta)
    assert ss.scan(uri, storage_options=options).num_files == 3
    with pytest.raises(ss.SourceError, match="no Unity Catalog is named"):
        ss.scan(uri)


def test_scan_opens_a_table_of_parquet_files(unity, tmp_path):
    pq.write_table(pa.table({"x": range(5)}), tmp_path / "a.parquet")
    table = ss.scan(unity.add(NAME, str(tmp_path), data_source_format="PARQUET"))
    assert table.plan("x > 3").count() == 1
    with pytest.raises(ss.SourceError, match="Parquet files; open it with scan"):
        ss.scan_delta(f"uc://{NAME}")


def test_partition_columns_have_the_catalogs_types(unity, tmp_path):
    """The folders look like numbers; as text, "01" and "1" differ."""
    columns = [{"name": "x", "type_name": "LONG"}, CODE]
    uri = unity.add(NAME, hive(tmp_path), data_source_format="PARQUET", columns=columns)
    table = ss.scan(uri)
    assert table.schema.field("code").type == pa.string()
    assert table.plan("code = '1'").count() == 5
    assert ss.scan(uri, format="hive").plan("code = '01'").count() == 5


def test_the_shell_plans_a_table_by_its_name(unity, tmp_path, monkeypatch, capsys):
    uri = unity.add(NAME, hive(tmp_path), data_source_format="PARQUET", columns=[CODE])
    monkeypatch.setattr("sys.argv", ["skipstone", "plan", uri, "--where", "code = '1'", "--json"])
    with pytest.raises(SystemExit) as done:
        main.main()
    assert not done.value.code
    assert len(json.loads(capsys.readouterr().out)["files"]) == 1


#    what the catalog gives, the options of the table's storage
VENDED = [
    (
        {"aws_temp_credentials": AWS},
        {
            "AWS_ACCESS_KEY_ID": "AK",
            "AWS_SECRET_ACCESS_KEY": "SK",
            "AWS_SESSION_TOKEN": "ST",
        },
    ),
    (
        {"aws_temp_credentials": None, "azure_user_delegation_sas": {"sas_token": "sig=1"}},
        {"AZURE_STORAGE_SAS_TOKEN": "sig=1"},
    ),
    (
        {"gcp_oauth_token": {"oauth_token": "ya29"}, "expiration_time": 1_900_000_000_000},
        {"access_token": "ya29", "gcs.oauth2.token-expires-at": "1900000000000"},
    ),
]


@pytest.mark.parametrize("given, expected", VENDED)
def test_the_catalogs_credentials_become_storage_options(unity, given, expected):
    unity.credentials = given
    uri = unity.add(NAME, "s3://lake/orders")
    assert table_in_unity(uri).options == expected
    assert unity.asked[-1][2] == {"table_id": f"id of {NAME}", "operation": "READ"}
    assert table_in_unity(uri, {"AWS_REGION": "eu-west-1"}).options == {
        **expected,
        "AWS_REGION": "eu-west-1",
    }


@pytest.mark.parametrize("own", [{"AWS_ACCESS_KEY_ID": "mine"}, {"anon": "true"}])
def test_given_credentials_replace_those_of_the_catalog(unity, own):
    assert table_in_unity(unity.add(NAME, "s3a://lake/orders"), own).options == own
    assert len(unity.asked) == 1


def test_googles_token_reaches_pyarrow():
    token = {"access_token": "ya29"}
    assert isinstance(gs_with_token("gs://lake/t", token), pafs.GcsFileSystem)
    assert gs_with_token("gs://lake/t", {"project_id": "p"}) is None
    assert gs_with_token("s3://lake/t", token) is None


@pytest.mark.skipif(s3.MISSING is not None, reason=s3.MISSING or "")
def test_a_table_in_s3_is_read_with_the_catalogs_credentials(
    unity, delta, tmp_path_factory, monkeypatch
):
    for name in [n for n in os.environ if n.startswith("AWS_")]:
        monkeypatch.delenv(name)
    with s3.server(tmp_path_factory.mktemp("s3")) as address:
        fs = s3.client(address)
        fs.create_dir("lake")
        pafs.copy_files(delta, "lake/orders", destination_filesystem=fs)
        unity.credentials = {
            "aws_temp_credentials": {
                "access_key_id": s3.KEY,
                "secret_access_key": s3.KEY,
                "session_token": "",
            }
        }
        table = ss.scan(
            unity.add(NAME, "s3://lake/orders"),
            storage_options={"AWS_ENDPOINT_URL": address, "AWS_REGION": "us-east-1"},
        )
        assert table.plan("x >= 25").to_arrow().num_rows == 5


#    what the catalog says of the table, words of the error
WRONG = [
    ({"table_type": "VIEW"}, "is a VIEW"),
    ({"table_type": None}, "is a None"),
    ({"data_source_format": "CSV"}, "is a table of CSV files"),
    ({"data_source_format": "ICEBERG"}, "open Iceberg tables with scan_iceberg"),
    ({"data_source_format": None}, "is a table of None files"),
    ({"storage_location": ""}, "names no storage_location"),
    ({"storage_location": 5}, "names no storage_location"),
    ({"storage_location": f"uc://{NAME}"}, "as its folder"),
    ({"storage_location": "s3://lake/t", "table_id": None}, "names no table_id"),
    ({"storage_location": "s3://lake/t"}, "no credentials of AWS, Azure or Google"),
    ({"row_filter": {"function_name": "f"}}, "row filter or column masks"),
    ({"columns": [{"name": "x", "mask": {"function_name": "f"}}]}, "row filter or column masks"),
    (
        {"data_source_format": "PARQUET", "columns": [{"name": "c", "type_text": "char(5)"}]},
        "the column 'c' is of type CHAR",
    ),
    (
        {"data_source_format": "PARQUET", "columns": [{**CODE, "type_name": "DECIMAL"}]},
        "partition column 'code' is of type DECIMAL",
    ),
]


@pytest.mark.parametrize("said, words", WRONG)
def test_tables_that_are_refused(unity, tmp_path, said, words):
    with pytest.raises(ss.SourceError, match=words) as found:
        ss.scan(unity.add(NAME, str(tmp_path), **said))
    assert len(str(found.value).splitlines()) == 1


@pytest.mark.parametrize(
    "uri", ["uc://orders", "uc://a.b", "uc://a.b.c.d", "uc://a..c", "uc://", "uc://a.b.c/d"]
)
def test_malformed_names_are_refused(unity, uri):
    with pytest.raises(ss.SourceError, match=r"expected a URI uc://catalog\.schema\.table"):
        ss.scan(uri)


#    faults, words of the error; None: the request succeeds
FAULTS = [
    ([503], None),
    ([429, 503], None),
    ([503, 503, 503], "answered 503 .*try again later"),
    ([403], "EXTERNAL USE SCHEMA"),
    ([302], "answered 302"),
    ([500], "answered 500"),
]


@pytest.mark.parametrize("faults, words", FAULTS)
def test_requests_are_repeated_after_passing_faults(unity, delta, faults, words):
    uri = unity.add(NAME, delta)
    unity.faults = list(faults)
    if words is None:
        assert ss.scan(uri).num_files == 3
        return
    with pytest.raises(ss.SourceError, match=words) as found:
        ss.scan(uri)
    assert TOKEN not in str(found.value)
    assert "/elsewhere" not in [path for _, path, _ in unity.asked]


def test_malformed_answers_are_errors(unity, monkeypatch):
    uri = f"uc://{NAME}"
    with pytest.raises(ss.SourceError, match=r"answered 404 \(Table not found.*check the table's"):
        ss.scan(uri)
    for answer in (b"<html>", b"[]", b"\xff", b"9" * 5000):
        unity.tables[NAME] = answer
        with pytest.raises(ss.SourceError, match="check DATABRICKS_HOST"):
            ss.scan(uri)
    monkeypatch.setattr(unity_client, "MAX_ANSWER_BYTES", 10)
    with pytest.raises(ss.SourceError, match="more than 10 bytes"):
        ss.scan(uri)
    monkeypatch.setenv("DATABRICKS_TOKEN", "wrong")
    with pytest.raises(ss.SourceError, match=r"answered 401.*check DATABRICKS_TOKEN"):
        ss.scan(uri)


#    host, words of the error
HOSTS = [
    ("http://127.0.0.1:1", "cannot be asked"),
    ("http://lake.example", "unencrypted"),
    ("ftp://lake.example", "not the address"),
    ("https://", "not the address"),
    ("no host", "cannot be asked"),
]


@pytest.mark.parametrize("host, words", HOSTS)
def test_malformed_hosts_are_refused(monkeypatch, host, words):
    monkeypatch.setenv("DATABRICKS_HOST", host)
    with pytest.raises(ss.SourceError, match=words):
        ss.scan(f"uc://{NAME}")


def test_an_option_wins_over_every_variable(unity, delta, monkeypatch):
    """The variable of another spelling must not send the token to another server."""
    monkeypatch.setenv("DATABRICKS_HOST", "http://127.0.0.1:1")
    monkeypatch.setenv("DATABRICKS_TOKEN", "another")
    options = {"unity_workspace_url": unity.address, "unity_access_token": TOKEN}
    assert ss.scan(unity.add(NAME, delta), storage_options=options).num_files == 3


def test_secrets_are_not_shown(unity):
    unity.credentials = {"aws_temp_credentials": AWS}
    assert "SK" not in repr(table_in_unity(unity.add(NAME, "s3://lake/orders")))
    assert TOKEN not in repr(unity_client.UnityCatalog.of({}, NAME))


def test_a_token_that_the_server_repeats_is_not_shown(unity, delta):
    uri, unity.faults, unity.said = unity.add(NAME, delta), [403], f"no rights for {TOKEN}"
    with pytest.raises(ss.SourceError, match=r"no rights for \.\.\.") as found:
        ss.scan(uri)
    assert TOKEN not in str(found.value)


@pytest.mark.parametrize("token", ["secret\r\nX: 1", "sec ret", "s\u00e9cret"])
def test_a_malformed_token_is_not_printed(monkeypatch, token):
    monkeypatch.setenv("DATABRICKS_HOST", "https://lake.example")
    monkeypatch.setenv("DATABRICKS_TOKEN", token)
    with pytest.raises(ss.SourceError, match="the token is malformed") as found:
        ss.scan(f"uc://{NAME}")
    assert "cret" not in str(found.value)


def test_scan_parquet_and_scan_hive_refuse_names_of_unity(unity, delta):
    uri = unity.add(NAME, delta)
    for call in (ss.scan_parquet, ss.scan_hive):
        with pytest.raises(ss.SourceError, match="only scan and scan_delta open tables of Unity"):
            call(uri)
    with pytest.raises(ss.SourceError, match="omit catalog="):
        ss.scan(uri, catalog="lake")
    with pytest.raises(ss.SourceError, match="is 'delta' according to its catalog"):
        ss.scan(uri, format="parquet")
