"""Storage options: each spelling that other tools use means the same for each format."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.storage import (
    STORES,
    filesystem_with,
    for_deltalake,
    for_pyiceberg,
    plain_s3,
    with_s3_endpoint,
)
from tests.support.tables import s3
from tests.support.tables.iceberg_tables import make

URI = "s3://bucket/t"
SECRET = "hush-hush"


def given(options, uri=URI):
    """Return what pyarrow's file system was given."""
    return filesystem_with(uri, {"region": "eu-west-1", **options}).__reduce__()[1][0]


#    options, keyword of pyarrow's S3FileSystem, its value
SPELLINGS = [
    ({"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}, "access_key", "a"),
    ({"aws_access_key_id": "a", "aws_secret_access_key": "b"}, "secret_key", "b"),
    ({"key": "a", "secret": "b", "token": "c"}, "session_token", "c"),
    ({"s3.access-key-id": "a", "s3.secret-access-key": "b"}, "secret_key", "b"),
    ({"fs.s3a.access.key": "a", "fs.s3a.secret.key": "b"}, "access_key", "a"),
    ({"AWS_REGION": "eu-west-1"}, "region", "eu-west-1"),
    ({"AWS_ENDPOINT_URL": "http://h:9"}, "endpoint_override", "http://h:9"),
    ({"fs.s3a.endpoint": "http://h:9"}, "endpoint_override", "http://h:9"),
    ({"endpoint_url": "h:9", "allow_http": "true"}, "scheme", "http"),
    ({"endpoint_url": "h:9", "fs.s3a.connection.ssl.enabled": "false"}, "scheme", "http"),
    ({"endpoint_url": "h:9"}, "scheme", "https"),
    ({"anon": "True"}, "anonymous", True),
    ({"AWS_SKIP_SIGNATURE": "1"}, "anonymous", True),
    ({"s3.anonymous": "no"}, "anonymous", False),
    ({"AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true"}, "force_virtual_addressing", True),
    ({"fs.s3a.path.style.access": "false"}, "force_virtual_addressing", True),
    ({"fs.s3a.path.style.access": "true"}, "force_virtual_addressing", False),
    ({"timeout": "500ms"}, "request_timeout", 0.5),
    ({"connect_timeout": "2m"}, "connect_timeout", 120.0),
    ({"s3.connect-timeout": "7"}, "connect_timeout", 7.0),
    ({"AWS_S3_ALLOW_UNSAFE_RENAME": "true"}, "region", "eu-west-1"),  # for writers
]


@pytest.mark.parametrize("options, keyword, value", SPELLINGS)
def test_each_spelling_reaches_pyarrow(options, keyword, value):
    assert given(options)[keyword] == value


def test_each_spelling_means_one_thing():
    for store, table in STORES.items():
        names = [name for option in table for name in option.names]
        assert len(names) == len(set(names)), store
        assert names == [name.lower() for name in names]


#    URI, options, whether pyarrow's client reads a Delta table
CLIENTS = [
    (URI, {"AWS_REGION": "eu-west-1"}, True),
    (URI, {"key": "a", "secret": "b", "token": "c", "AWS_S3_ALLOW_UNSAFE_RENAME": "true"}, True),
    (URI, {"endpoint": "http://h:9", "anon": "true"}, True),
    # Clients read these in different ways, or pyarrow not at all.
    (URI, {"AWS_REGION": "eu-west-1", "aws_bucket_key_enabled": "true"}, False),
    (URI, {"endpoint": "http://h:9", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true"}, False),
    (URI, {"key": "a"}, False),
    (URI, {"AWS_REGION": "eu-west-1", "AWS_ALLOW_HTTP": "on"}, False),
    (URI, {"AWS_REGION": "eu-west-1", "timeout": "1m 30s"}, False),
    (URI, {"AWS_IAM_ROLE_ARN": "arn:aws:iam::1:role/r"}, False),
    ("abfss://c@one.dfs.core.windows.net/t", {"account_key": "eA=="}, False),
    ("gs://b/t", {"anon": "true"}, False),
]


@pytest.mark.parametrize("uri, options, ours", CLIENTS)
def test_pyarrow_reads_delta_tables_unless_only_deltalake_knows_an_option(
    monkeypatch, uri, options, ours
):
    """Threads wait for each other while deltalake's opens files; it gets what only it knows."""
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    fs = plain_s3(uri, options)
    assert (fs is not None) == ours
    assert fs is None or fs.type_name == "s3"


def test_the_names_in_the_documents_are_read():
    page = Path(__file__).parents[2] / "docs" / "object-stores.md"
    rows = re.findall(r"^\| [\w ]+ \|( `AWS_.*)\|$", page.read_text(encoding="utf-8"), re.MULTILINE)
    names = {name.lower() for row in rows for name in re.findall(r"`(.+?)`", row)}
    assert len(names) > 20
    assert names <= {name for option in STORES["s3"] for name in option.names}


#    options, words of the error
WRONG = [
    ({"AWS_REGOIN": "x"}, r"'AWS_REGOIN'.*did you mean 'aws_region'"),
    ({"colour": "blue"}, "is not a known option of s3"),
    ({"anon": "maybe"}, "expected true or false"),
    ({"timeout": "soon"}, "expected seconds"),
    ({"AWS_REGION": "a", "s3.region": "b"}, "different values"),
    ({"AWS_REGION": 5}, "is not a string"),
    (["AWS_REGION"], "expected strings by name"),
]


@pytest.mark.parametrize("options, words", WRONG)
@pytest.mark.parametrize("scan", [ss.scan, ss.scan_parquet, ss.scan_hive])
def test_wrong_options_are_refused_in_one_line(scan, options, words):
    with pytest.raises(ss.SourceError, match=words) as found:
        scan(URI, storage_options=options)
    assert len(str(found.value).splitlines()) == 1


@pytest.mark.parametrize(
    "uri, options, words",
    [
        ("s3://bucket/t?region=x", {"anon": "true"}, "options of its own"),
        ("hdfs://name/t", {"user": "x"}, "not known for hdfs"),
        ("https://host/t.parquet", {"user": "x"}, "not known for https"),
        ("abfss://container/t", {"account_key": "eA=="}, "account of the storage is unknown"),
        ("abfss://c@one.dfs.core.windows.net/t", {"account_name": "two"}, "'one'.*'two'"),
        ("gs://b/t", {"GOOGLE_SERVICE_ACCOUNT": "f.json"}, "GOOGLE_APPLICATION_CREDENTIALS"),
    ],
)
def test_options_that_do_not_fit_the_uri_are_refused(uri, options, words):
    with pytest.raises(ss.SourceError, match=words):
        ss.scan_parquet(uri, storage_options=options)


def test_a_file_system_and_options_together_are_refused():
    with pytest.raises(ss.SourceError, match="expected one of them"):
        ss.scan_parquet("t", filesystem=pafs.LocalFileSystem(), storage_options={"anon": "true"})


def test_options_of_azure_and_google_reach_pyarrow():
    azure = "abfss://container@account.dfs.core.windows.net/t"
    fs = filesystem_with(azure, {"AZURE_STORAGE_ACCOUNT_KEY": "eA=="})
    assert fs.__reduce__()[1][0]["account_name"] == "account"
    fs = filesystem_with("gs://b/t", {"gcs.oauth2.token": "t", "gcs.project-id": "p"})
    assert fs.__reduce__()[1][0]["project_id"] == "p"
    assert filesystem_with("gs://b/t", {"anon": "true"}).__reduce__()[1][0]["anonymous"]


#    host, options, keywords of pyarrow's AzureFileSystem
AZURE = [
    ("one.dfs.core.windows.net", {}, {"account_name": "one"}),
    ("ONE.blob.core.windows.net", {"account_name": "one"}, {"account_name": "one"}),
    ("one.dfs.core.windows.net", {"sas_token": "?sv=1&sig=x"}, {"sas_token": "?sv=1&sig=x"}),
    ("one.dfs.core.windows.net", {"sas_token": "sv=1&sig=x"}, {"sas_token": "?sv=1&sig=x"}),
    (
        "onelake.dfs.fabric.microsoft.com",
        {},
        {
            "account_name": "onelake",
            "dfs_storage_authority": ".dfs.fabric.microsoft.com",
            "blob_storage_authority": ".blob.fabric.microsoft.com",
        },
    ),
]


@pytest.mark.parametrize("host, options, keywords", AZURE)
def test_the_account_and_endpoint_of_azure_come_from_the_host(host, options, keywords):
    one_of_them = {} if "sas_token" in options else {"account_key": "eA=="}
    fs = filesystem_with(f"abfss://container@{host}/t", options | one_of_them)
    assert fs.__reduce__()[1][0].items() >= keywords.items()


def test_local_paths_ignore_options(tmp_path):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "t.parquet")
    assert ss.scan(tmp_path, storage_options={"AWS_REGION": "x"}).plan("x = 1").count() == 1


def test_other_clients_get_options_by_their_own_names():
    options = {"key": "a", "secret": SECRET, "endpoint": "http://h:9", "other": "stays"}
    assert for_deltalake(URI, options) == {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_ENDPOINT_URL": "http://h:9",
        "AWS_ALLOW_HTTP": "true",
        "other": "stays",
    }
    assert for_pyiceberg(URI, options) == {
        "s3.access-key-id": "a",
        "s3.secret-access-key": SECRET,
        "s3.endpoint": "http://h:9",
        "other": "stays",
    }


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"AWS_ENDPOINT_URL": "http://h:9"}, "http://h:9"),
        ({"AWS_ENDPOINT_URL": "http://h:9", "AWS_ENDPOINT_URL_S3": "http://h:8"}, "http://h:8"),
        ({"AWS_ENDPOINT_URL": "http://h:9", "AWS_ENDPOINT_URL_S3": ""}, "http://h:9"),
    ],
)
def test_the_endpoint_comes_from_the_environment(variables, expected, monkeypatch):
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": SECRET}
    assert endpoint_of(filesystem_with(URI, keys)) == expected
    assert endpoint_of(filesystem_with(URI, {**keys, "endpoint": "http://h:7"})) == "http://h:7"
    found = {} if expected is None else {"s3.endpoint": expected, "s3.region": "eu-north-1"}
    assert with_s3_endpoint(URI, {}) == with_s3_endpoint("s3a://b/t", {}) == found
    assert with_s3_endpoint(URI, {"s3.endpoint": "http://h:7"})["s3.endpoint"] == "http://h:7"
    assert with_s3_endpoint("gs://b/t", {}) == with_s3_endpoint("/t", {}) == {}


def endpoint_of(filesystem):
    return filesystem.__reduce__()[1][0]["endpoint_override"] or None


def test_a_profile_becomes_keys_and_a_region(tmp_path, monkeypatch):
    pytest.importorskip("botocore")
    (tmp_path / "config").write_text("[profile lake]\nregion = eu-north-1\n")
    (tmp_path / "credentials").write_text(
        f"[lake]\naws_access_key_id = a\naws_secret_access_key = {SECRET}\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    found = filesystem_with(URI, {"AWS_PROFILE": "lake"}).__reduce__()[1][0]
    assert (found["access_key"], found["secret_key"], found["region"]) == (
        "a",
        SECRET,
        "eu-north-1",
    )
    assert for_deltalake(URI, {"profile": "lake"})["AWS_REGION"] == "eu-north-1"
    assert for_pyiceberg(URI, {"profile": "lake"})["s3.access-key-id"] == "a"
    with pytest.raises(ss.SourceError, match="'nobody' cannot be used"):
        filesystem_with(URI, {"profile": "nobody"})


# Real tables on a real server, which no environment variable names.


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    if s3.MISSING is not None:
        pytest.skip(s3.MISSING)
    deltalake = pytest.importorskip("deltalake")
    here = tmp_path_factory.mktemp("lake")
    rows = pa.table({"x": range(30)})
    for i in (0, 10, 20):
        part = rows.slice(i, 10)
        (here / f"hive/day={i}").mkdir(parents=True)
        pq.write_table(part, here / f"hive/day={i}/part.parquet", row_group_size=5)
        deltalake.write_deltalake(str(here / "delta"), part, mode="append")
    pq.write_table(rows, here / "plain.parquet", row_group_size=10)
    table = make(here / "ice", rows.schema)
    table.append(rows)
    with s3.server(tmp_path_factory.mktemp("s3")) as address:
        fs = s3.client(address)
        fs.create_dir("lake")
        pafs.copy_files(str(here), "lake", pafs.LocalFileSystem(), fs)
        yield address


STYLES = {
    "object_store": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"),
    "fsspec": ("key", "secret", "endpoint_url"),
    "pyiceberg": ("s3.access-key-id", "s3.secret-access-key", "s3.endpoint"),
    "Hadoop": ("fs.s3a.access.key", "fs.s3a.secret.key", "fs.s3a.endpoint"),
}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("table", ["plain.parquet", "hive", "delta"])
def test_tables_of_each_format_open_with_options_of_each_client(lake, table, style, monkeypatch):
    for name in s3.environment(lake):
        monkeypatch.delenv(name, raising=False)
    options = dict(zip(STYLES[style], (s3.KEY, s3.KEY, lake), strict=True))
    options["AWS_REGION"] = "us-east-1"
    plan = ss.scan(f"s3://lake/{table}", storage_options=options).plan("x >= 25")
    assert (plan.to_arrow().num_rows, len(plan.files)) == (5, 1)


def test_secrets_stay_out_of_errors(lake):
    options = {"key": "nobody", "secret": SECRET, "endpoint": "http://127.0.0.1:1"}
    for scan in (ss.scan_parquet, ss.scan_delta, ss.scan_iceberg):
        with pytest.raises(ss.SourceError) as found:
            scan("s3://lake/t", storage_options={**options, "connect_timeout": "1s"})
        assert SECRET not in str(found.value)
