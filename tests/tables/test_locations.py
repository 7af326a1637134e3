"""Hostile sources at every entry point: each works, or fails within seconds with a short error."""

import contextlib
import io
import os
import pathlib
import socket
import sys
import time

import fsspec
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings import location
from skipstone.bindings.shell import main
from skipstone.bindings.tables.detect import format_of
from tests.support.effort import LONG

LIMIT = 20  # seconds; a cloud client with default settings retries for 15 minutes


class Named(os.PathLike):
    def __init__(self, path):
        self.path = path

    def __fspath__(self):
        return self.path


class Refusing(pafs.FileSystemHandler):
    """A file system that denies every request."""

    def get_type_name(self):
        return "refusing"

    def get_file_info(self, paths):
        raise PermissionError(13, "Permission denied")

    get_file_info_selector = get_file_info

    def __getattr__(self, name):
        raise AssertionError(name)


Refusing.__abstractmethods__ = frozenset()


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """Folders and files of all formats."""
    root = tmp_path_factory.mktemp("data")
    rows = pa.table({"x": range(100)})
    for name in ("plain", "mixed", "hive/k=1", "delta/k=1", "delta/_delta_log", "ice/metadata"):
        (root / name).mkdir(parents=True)
    (root / "delta/_delta_log" / f"{0:020}.json").touch()
    (root / "empty").mkdir()
    (root / "odd name\n").mkdir()
    for name in ("plain/t", "mixed/t", "hive/k=1/t", "delta/k=1/t", "ice/t", "odd name\n/t"):
        pq.write_table(rows, root / f"{name}.parquet", row_group_size=10)
    (root / "mixed" / "notes.csv").write_text("a,b\n")
    (root / "cut.parquet").write_bytes((root / "plain/t.parquet").read_bytes()[:200])
    (root / "zero.parquet").touch()
    (root / "ice/metadata/00000-a.metadata.json").write_text("{")
    (root / "loop").symlink_to(root / "loop")
    (root / "dangling").symlink_to(root / "nothing")
    return root


# Sources that no entry point can reach: not text, not valid UTF-8, or a store that does not exist.
HOSTILE = {
    "None": None,
    "number": 5,
    "blank": " ",
    "empty text": "",
    "NUL": "a\0b",
    "no UTF-8": b"\xff/t",
    "surrogate": "a\udcff",
    "very long": "a" * 5000,
    "long parts": "/".join(["b" * 250] * 40),
    "line break": "a\nb",
    "escape": "a\x1b[31mb",
    "dictionary": {"a": 1},
    "list of a list": [["a"]],
    "list of None": [None],
    "empty list": [],
    "table": pa.table({"x": [1]}),
    "buffer": io.BytesIO(b"PAR1"),
    "function": len,
    "tilde": "~/no/such/place",
    "another's home": "~nobody-by-this-name/t",
    "scheme alone": "s3://",
    "no scheme": "://skipstone-no-such-bucket/x",
    "relative": "no/such/place",
    "absolute": "/no/such/place",
    "device": "/dev/null",
    "file URI": "file:///no/such/place",
    "file URI of a host": "file://host/x",
    "file URI, one slash": "file:/no/such/place",
    "spaces in a URI": "s3://skipstone-no-such-bucket/a b",
    "bad escape": "s3://skipstone-no-such-bucket/%zz",
    "bad option": "s3://skipstone-no-such-bucket/x?nonsense=1",
    "bad port": "hdfs://host:port/x",
    "S3": "s3://skipstone-no-such-bucket/x",
    "S3 of Spark": "s3a://skipstone-no-such-bucket/x",
    "old S3 of Spark": "s3n://skipstone-no-such-bucket/x",
    "S3 in capitals": "S3://skipstone-no-such-bucket/x",
    "S3 with a secret": "s3://key:hush@skipstone-no-such-bucket/x",
    "S3 with a region": "s3://skipstone-no-such-bucket/x?region=eu-west-1",
    "Google": "gs://skipstone-no-such-bucket/x",
    "Google, public": "gs://anonymous@skipstone-no-such-bucket/x",
    "Google of fsspec": "gcs://skipstone-no-such-bucket/x",
    "Azure": "abfss://container@skipstonenosuchaccount.dfs.core.windows.net/t",
    "Hadoop": "hdfs://namenode/t",
    "Hadoop, viewed": "viewfs://cluster/t",
    "HTTP": "https://example.invalid/t.parquet",
    "unknown scheme": "foo://x/y",
    "Databricks": "dbfs:/x/y",
    "pathlib's URI": pathlib.Path("s3://skipstone-no-such-bucket/x"),
    "glob without a folder": "/no/such/*/place",
    "character of no glob": "no/such/[place",
    "user of a host": "ssh://me:hush@host/x",
}
SLOW = ("Google, public", "Google of fsspec")  # two seconds each
# Sources that exist.
THERE = {
    "empty folder": lambda root: root / "empty",
    "glob of nothing": lambda root: f"{root}/plain/*.csv",
    "below a file": lambda root: root / "plain/t.parquet/x",
    "cut file": lambda root: root / "cut.parquet",
    "a CSV": lambda root: root / "mixed/notes.csv",
    "a CSV among others": lambda root: root / "mixed",
    "open file": lambda root: (root / "plain/t.parquet").open("rb"),
    "data set": lambda root: pads.dataset(root / "plain"),
    "link in a circle": lambda root: root / "loop",
    "link to nothing": lambda root: root / "dangling",
    "bytes": lambda root: os.fsencode(root / "plain"),
    "path object": lambda root: Named(str(root / "plain")),
    "path object of bytes": lambda root: Named(os.fsencode(root / "plain")),
    "line break": lambda root: root / "odd name\n",
    "file URI": lambda root: (root / "plain").as_uri(),
    "Hive": lambda root: root / "hive",
    "Delta": lambda root: root / "delta",
    "partition of Delta": lambda root: root / "delta/k=1",
    "Iceberg": lambda root: root / "ice",
    "stores mixed": lambda root: [root / "plain/t.parquet", "s3://skipstone-no-such-bucket/x"],
}
ENTRIES = {
    "scan": ss.scan,
    "parquet": ss.scan_parquet,
    "hive": ss.scan_hive,
    "delta": ss.scan_delta,
    "iceberg": ss.scan_iceberg,
}


@contextlib.contextmanager
def one_line():
    """Allow a SkipstoneError, in one line of reasonable length, within seconds."""
    start = time.monotonic()
    try:
        yield
    except ss.SkipstoneError as e:
        text = str(e)
        assert text.isprintable() and len(text) < 1200, text
        assert "hush" not in text
    assert time.monotonic() - start < LIMIT


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """Make Amazon's host names unknown, whether or not the machine has a network."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    getaddrinfo = socket.getaddrinfo

    def answer(host, *more, **others):
        if str(host).endswith("amazonaws.com"):
            raise socket.gaierror(-2, "Name or service not known")
        return getaddrinfo(host, *more, **others)

    monkeypatch.setattr(socket, "getaddrinfo", answer)


@pytest.fixture(scope="module", autouse=True)
def imported():
    """Import packages before the time is measured."""
    pytest.importorskip("pyiceberg.table")
    pytest.importorskip("deltalake.fs")


def shell(source, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["skipstone", "plan", source, "-w", "x > 1"])
    with pytest.raises(SystemExit) as done:
        main.main()
    out = capsys.readouterr()
    assert done.value.code in (0, None, 2)
    if done.value.code == 2:
        assert out.err.startswith("skipstone: ") or "Usage:" in out.err, out.err
        assert "Traceback" not in out.err


@pytest.mark.filterwarnings("ignore:No preferred file implementation")
@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("name", [n for n in HOSTILE if n not in SLOW or LONG])
def test_hostile_sources(name, entry):
    with one_line():
        table = ENTRIES[entry](HOSTILE[name])
        pytest.fail(f"{table!r} was opened")


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("name", THERE)
def test_existing_sources(name, entry, here):
    source = THERE[name](here)
    with one_line():
        ENTRIES[entry](source)
    if name == "open file":
        source.close()


@pytest.mark.filterwarnings("ignore:No preferred file implementation")
@pytest.mark.parametrize(
    "name", [n for n, s in HOSTILE.items() if isinstance(s, str) and (n not in SLOW or LONG)]
)
def test_hostile_sources_in_the_shell(name, monkeypatch, capsys):
    start = time.monotonic()
    shell(HOSTILE[name], monkeypatch, capsys)
    assert time.monotonic() - start < LIMIT


# File systems.


def test_every_kind_of_file_system(here):
    """File systems of pyarrow and fsspec, the name of a protocol, and the URI of a folder."""
    memory = fsspec.filesystem("memory")
    memory.makedirs("/lake", exist_ok=True)
    with memory.open("/lake/t.parquet", "wb") as f:
        f.write((here / "plain/t.parquet").read_bytes())
    local, folder = pafs.LocalFileSystem(), str(here / "plain")
    for where, filesystem in [
        (folder, local),
        ((here / "plain").as_uri(), local),
        (here / "plain", fsspec.filesystem("file")),
        (folder, "file"),
        (folder, "local"),
        ("plain", here.as_uri()),
        ("/lake", memory),
        ("memory://lake", memory),
        ("memory://lake/*.parquet", memory),
        ("/lake", "memory"),
        (["/lake/t.parquet"], pafs.PyFileSystem(pafs.FSSpecHandler(memory))),
    ]:
        for scan in (ss.scan_parquet, ss.scan_hive):
            if scan is ss.scan_hive and (isinstance(where, list) or "*" in str(where)):
                continue
            table = scan(where, filesystem=filesystem)
            assert table.plan("x >= 95").to_arrow().num_rows == 5, (where, filesystem)


@pytest.mark.parametrize(
    "where, filesystem, error, message",
    [
        ("x", 5, ss.SourceError, "filesystem= is of the type int"),
        ("x", "nonsense", ss.SourceError, "'nonsense' is not an fsspec protocol"),
        ("x", "gs://skipstone-no-such-bucket", ss.SourceError, "gs://"),
        (
            "s3://b/x",
            pafs.LocalFileSystem(),
            ss.SourceError,
            "is a URI of s3, but filesystem= is of",
        ),
        ("s3://b/x", fsspec.filesystem("memory"), ss.SourceError, "is a URI of s3"),
        ("x", pafs.PyFileSystem(Refusing()), ss.SourceError, "Permission denied"),
    ],
)
def test_invalid_file_systems(where, filesystem, error, message):
    for scan in (ss.scan_parquet, ss.scan_hive):
        with one_line(), pytest.raises(error, match=message):
            scan(where, filesystem=filesystem)


def test_a_missing_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(ss.BackendMissing, match="s3fs"):
        ss.scan_parquet("b/x", filesystem="s3")


@pytest.mark.skipif(
    not hasattr(os, "seteuid") or os.geteuid() != 0, reason="only root may change its user"
)
def test_below_an_unreadable_folder(tmp_path):
    (tmp_path / "closed" / "t").mkdir(parents=True)
    tmp_path.joinpath("closed").chmod(0)
    os.seteuid(65534)
    try:
        for entry in ENTRIES.values():
            with one_line(), pytest.raises(ss.SourceError):
                entry(tmp_path / "closed" / "t")
    finally:
        os.seteuid(0)


# Kinds of paths.


def test_kinds_of_paths(here):
    folder = here / "plain"
    for where in (
        str(folder),
        folder,
        os.fsencode(folder),
        Named(str(folder)),
        Named(os.fsencode(folder)),
        [os.fsencode(folder / "t.parquet")],
        {folder / "t.parquet"},
        (f for f in [folder]),
        {str(folder): 1}.keys(),
    ):
        assert ss.scan_parquet(where, base_path=Named(str(here))).plan("x = 5").count() == 1, where


#   scan, where, message
MESSAGES = [
    ("parquet", "delta", "use scan_delta, or take all files with ignore_table_format=True"),
    ("parquet", "delta/k=1", "is a partition folder of .*use scan_delta"),
    ("parquet", "ice", "use scan_iceberg"),
    ("hive", "delta", "use scan_delta"),
    ("hive", "ice", "use scan_iceberg"),
    (
        "parquet",
        "mixed",
        r'notes\.csv: not a whole Parquet file.*convert it.*on_error="keep"',
    ),
    ("parquet", "cut.parquet", "a list of the other files, or keep it in plans by scan"),
    ("parquet", "zero.parquet", "zero.parquet: the file is empty"),
    ("delta", "plain", "not a Delta table.*; scan opens tables of every format"),
    ("delta", "none", "none does not exist; expected the folder of a Delta table"),
    ("iceberg", "plain", "not an Iceberg table"),
    ("iceberg", "ice", "only the catalog.*knows.*name the file, such as 00000-a.metadata.json"),
    ("iceberg", "ice/metadata/00000-a.metadata.json", "the metadata cannot be read"),
]


@pytest.mark.parametrize("entry, where, message", MESSAGES)
def test_errors_have_a_way_out(entry, where, message, here):
    with one_line():
        with pytest.raises(ss.SourceError, match=message):
            ENTRIES[entry](here / where)
        raise ss.SourceError("expected")


def test_reading_a_kept_file_names_it(here):
    plan = ss.scan_parquet(here / "mixed", on_error="keep").plan("x >= 95")
    with one_line(), pytest.raises(ss.SourceError, match=r"notes\.csv.*scan a list") as e:
        plan.to_arrow()
    assert "glob" not in str(e.value) and str(e.value).count("on_error") == 1
    with pytest.raises(ss.SourceError, match=r'no file could be read.*on_error="raise" says why'):
        ss.scan_parquet(here / "mixed/notes.csv", on_error="keep")


def test_files_of_a_delta_table_can_be_named(here):
    """A glob or a list reads the files instead of the table."""
    for where in (f"{here}/delta/*/*.parquet", [here / "delta/k=1/t.parquet"]):
        assert ss.scan_parquet(where).plan("x >= 95").count() == 5


@pytest.mark.parametrize(
    "where, found",
    [
        ("plain", "parquet"), ("plain/t.parquet", "parquet"), ("none", "parquet"),
        ("plain/*", "parquet"),
        ("hive", "hive"), ("delta", "delta"), ("ice", "iceberg"),
        ("ice/metadata/00000-a.metadata.json", "iceberg"),
    ],
)  # fmt: skip
def test_formats(where, found, here):
    assert format_of(here / where) == format_of((here / "x").as_uri()[:-1] + where) == found
    assert format_of(where, pafs.SubTreeFileSystem(str(here), pafs.LocalFileSystem())) == found


def test_invalid_formats(here):
    with pytest.raises(ss.SourceError, match="format is 'orc'; expected parquet, hive, delta"):
        ss.scan(here / "plain", format="orc")
    with pytest.raises(ss.SourceError, match="use scan_delta"):
        ss.scan(here / "delta", format="parquet")


def test_secrets_are_not_shown():
    assert location.shown("s3://key:hush@bucket/x") == "s3://bucket/x"
