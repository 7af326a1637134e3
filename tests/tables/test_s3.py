"""Tables in S3, on a local server: each URI is planned in its table's format."""

import json
from collections import Counter

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.shell import main
from tests.support.tables import s3
from tests.support.tables.iceberg_tables import make

deltalake = pytest.importorskip("deltalake")
pytestmark = pytest.mark.skipif(s3.MISSING is not None, reason=s3.MISSING or "")
ROWS = [0, 10, 20]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with s3.server(tmp_path_factory.mktemp("s3")) as found:
        yield found


@pytest.fixture(scope="module")
def lake(address, tmp_path_factory):
    """A bucket with a table of each format; files of removed Delta rows still exist."""
    here = tmp_path_factory.mktemp("lake")
    for i in ROWS:
        rows = pa.table({"x": range(i, i + 10)})
        deltalake.write_deltalake(str(here / "delta"), rows, mode="append")
        (here / f"hive/day={i}").mkdir(parents=True)
        pq.write_table(rows, here / f"hive/day={i}" / "part.parquet", row_group_size=5)
    deltalake.DeltaTable(str(here / "delta")).delete("x >= 20")
    (here / "plain").mkdir()
    pq.write_table(pa.table({"x": range(30)}), here / "plain" / "a b.parquet", row_group_size=10)
    table = make(here / "ice", pa.schema([("x", pa.int64())]))
    table.append(pa.table({"x": range(30)}))
    fs = s3.client(address)
    fs.create_dir("lake")
    pafs.copy_files(str(here), "lake", pafs.LocalFileSystem(), fs)
    return "lake"


@pytest.fixture(autouse=True)
def reached(address, monkeypatch):
    for name, value in s3.environment(address).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def shell(monkeypatch, capsys):
    def run(*args):
        monkeypatch.setattr("sys.argv", ["skipstone", *args])
        with pytest.raises(SystemExit) as done:
            main.main()
        return done.value.code or 0, capsys.readouterr()

    return run


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_the_shell_plans_a_delta_table_by_its_uri(lake, shell, scheme):
    """It is not planned as the Parquet files in its folder, which include removed ones."""
    code, out = shell("plan", f"{scheme}://{lake}/delta", "-w", "x >= 5", "--json")
    found = json.loads(out.out)
    assert code == 0, out.err
    assert (found["sizes"]["total"]["rows"], len(found["files"])) == (20, 2)
    assert "row_groups" not in found


@pytest.mark.parametrize("table", ["delta", "plain"])
def test_the_shell_takes_storage_options(lake, shell, address, monkeypatch, table):
    for name in s3.environment(address):
        monkeypatch.delenv(name)
    options = [f"{name}={value}" for name, value in s3.environment(address).items()]
    given = [word for option in options for word in ("--storage-option", option)]
    code, out = shell("plan", f"s3://{lake}/{table}", "-w", "x >= 5", "--json", *given)
    assert code == 0, out.err
    assert json.loads(out.out)["files"]
    code, out = shell("plan", f"s3://{lake}/{table}", "--storage-option", "AWS_REGION")
    assert code == 2 and "expected NAME=VALUE" in out.err


#     where, format, rows with x >= 5
FORMATS = [
    ("delta", "DeltaTable", 15),
    ("delta/", "DeltaTable", 15),
    ("hive", "HiveTable", 25),
    ("plain", "ParquetTable", 25),
    ("plain/*.parquet", "ParquetTable", 25),
    ("hive/day=10/part.parquet", "ParquetTable", 10),
]


@pytest.mark.parametrize("where, kind, rows", FORMATS)
def test_scan_finds_the_format(lake, where, kind, rows):
    table = ss.scan(f"s3://{lake}/{where}")
    assert type(table).__name__ == kind
    assert table.plan("x >= 5").to_arrow().num_rows == rows


def test_files_of_delta_tables_are_spelled_as_those_of_parquet_tables(lake, address):
    plain = ss.scan_parquet(f"s3://{lake}/plain").all_files
    assert plain == (f"{lake}/plain/a b.parquet",)
    options = {"AWS_ENDPOINT_URL": address, "aws_bucket_key_enabled": "true"}  # for deltalake's own
    for given in (None, options):
        table = ss.scan_delta(f"s3://{lake}/delta", storage_options=given)
        plan = table.plan("x < 10")
        (path,) = plan.files
        assert path.startswith(f"{lake}/delta/part-") and path in table.all_files
        assert pq.read_table(path, filesystem=s3.client(address)).num_rows == 10
        assert path in plan.explain(container=path)


def test_tables_of_one_path_on_two_servers_are_told_apart(lake, address, monkeypatch):
    """Or of two accounts: what is kept of one is not taken for the other."""
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    port = address.rpartition(":")[2]
    uris = [
        f"s3://{lake}/delta?endpoint_override={host}:{port}&scheme=http"
        for host in ("127.0.0.1", "localhost")
    ]
    tables = [ss.scan_delta(uri) for uri in uris]
    assert tables[0].plan("x >= 5").files == tables[1].plan("x >= 5").files
    for host in ("127.0.0.1", "localhost"):
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        tables.append(ss.scan_delta(f"s3://{lake}/delta"))
    assert len({table.request for table in tables}) == len(tables)


def test_the_folder_of_an_iceberg_table_is_refused(lake, shell):
    fs, path = pafs.FileSystem.from_uri(f"s3://{lake}/ice")
    inside = [i.path for i in fs.get_file_info(pafs.FileSelector(path, recursive=True))]
    folder = next(p for p in inside if p.endswith(".metadata.json")).rpartition("/metadata/")[0]
    for scan in (ss.scan_parquet, ss.scan_hive):
        with pytest.raises(ss.SourceError, match="use scan_iceberg"):
            scan(f"s3://{folder}")
    code, out = shell("plan", f"s3://{folder}", "-w", "x >= 5")
    assert code == 2 and "name the file" in out.err and "catalog" in out.err


@pytest.mark.parametrize("scan", [ss.scan_parquet, ss.scan_hive])
def test_the_folder_of_a_delta_table_is_refused(lake, scan):
    with pytest.raises(ss.SourceError, match="use scan_delta"):
        scan(f"s3://{lake}/delta")


def test_every_way_to_name_a_file_system(lake, address):
    fs = s3.client(address)
    for where, filesystem in [
        (f"s3://{lake}/plain", None),
        (f"s3a://{lake}/plain", None),
        (f"s3://{lake}/plain", fs),
        (f"s3a://{lake}/plain/a%20b.parquet", fs),
        (f"{lake}/plain", fs),
        (f"{lake}/plain", f"s3://?endpoint_override={address}"),
        ("plain", f"s3://{lake}"),
    ]:
        table = ss.scan_parquet(where, filesystem=filesystem)
        assert table.plan("x >= 25").to_arrow().num_rows == 5, (where, filesystem)
    with pytest.raises(ss.SourceError, match="is a URI of gs, but filesystem= is of s3"):
        ss.scan_parquet(f"gs://{lake}/plain", filesystem=fs)


@pytest.mark.parametrize(
    "scan", [ss.scan, ss.scan_parquet, ss.scan_hive, ss.scan_delta, ss.scan_iceberg]
)
@pytest.mark.parametrize("where", ["lake/none", "nobucket/x"])
def test_missing_tables(lake, scan, where):
    with pytest.raises(ss.SourceError) as found:
        scan(f"s3://{where}")
    assert len(str(found.value).splitlines()) == 1


MANY = 20
FEW = 3  # requests for a folder: what it is, and its listing, which shows what lies beside the data


@pytest.fixture
def many(address, tmp_path):
    """A folder of small files, with page indexes."""
    fs = s3.client(address)
    fs.create_dir("counted")
    for i in range(MANY):
        rows = pa.table({"x": range(i, i + 10), "s": [f"{i} {k}" for k in range(10)]})
        pq.write_table(rows, tmp_path / f"{i}.parquet", write_page_index=True)
    pafs.copy_files(str(tmp_path), "counted/t", pafs.LocalFileSystem(), fs)
    return address


@pytest.mark.parametrize("scan", [ss.scan_parquet, ss.scan_hive])
def test_requests_for_footers_and_rows(many, scan):
    """A footer takes two, as pyarrow asks for the size first; the rows of a file that is as short
    as what is read for its footer take one, which looks up whether the file was replaced.
    """
    with s3.counted(many) as (between, seen):
        table = scan("counted/t", filesystem=s3.client(between))
        plan = table.plan("x = 5")
        assert len(plan.row_groups) == 6
        of_files = [request for request in seen if ".parquet" in request]
        assert Counter(of_files) == {
            f"{kind} /counted/t/{i}.parquet": 1 for kind in ("HEAD", "GET") for i in range(MANY)
        }
        assert len(seen) - len(of_files) <= FEW + 4 * (scan is ss.scan_hive)
        before = len(seen)
        last = table.plan("x >= 25")
        assert len(last.row_groups) == 4
        assert len(seen) == before
        assert last.to_arrow()["s"].to_pylist() == [
            f"{i} {k}" for i in (16, 17, 18, 19) for k in range(25 - i, 10)
        ]
        of_rows = Counter(request.split()[0] for request in seen[before:])
        assert of_rows == {"HEAD": 4}


def test_an_object_and_a_folder_of_one_name(lake, tmp_path):
    """Spark's client asks for the object first, and then reads it alone."""
    fs, bucket = pafs.FileSystem.from_uri(f"s3://{lake}")
    for name, x in (("both", 1), ("both/a.parquet", 2), ("folder/a.parquet", 3)):
        pq.write_table(pa.table({"x": [x]}), tmp_path / "a.parquet")
        with fs.open_output_stream(f"{bucket}/{name}") as out:
            out.write((tmp_path / "a.parquet").read_bytes())
    found = {
        name: ss.scan_parquet(f"s3://{lake}/{name}").plan().to_arrow()["x"].to_pylist()
        for name in ("both", "both/a.parquet", "folder", "folder/*.parquet")
    }
    assert found == {"both": [1], "both/a.parquet": [2], "folder": [3], "folder/*.parquet": [3]}
