"""Faults of an object store: each is retried, or is one line within seconds, and loses no row."""

import os
import time

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.storage import for_pyiceberg
from skipstone.bindings.tables.delta import cache
from skipstone.bindings.tables.files import list_files
from skipstone.bindings.tables.iceberg import manifest
from tests.support.effort import LONG, only_long
from tests.support.tables import s3

deltalake = pytest.importorskip("deltalake")
InMemoryCatalog = pytest.importorskip("pyiceberg.catalog.memory").InMemoryCatalog
pytestmark = pytest.mark.skipif(s3.MISSING is not None, reason=s3.MISSING or "")
LIMIT = 60  # seconds, on a busy machine; a client that waits for ever takes minutes
FILES, WANTED = 4, "x IN (5, 35)"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with s3.server(tmp_path_factory.mktemp("s3")) as found:
        s3.client(found).create_dir("lake")
        yield found


def write(path, values):
    """Write a file whose size depends only on the number of values."""
    pq.write_table(pa.table({"x": values}), path, compression="none", use_dictionary=False)


@pytest.fixture
def lake(address, tmp_path):
    for i in range(FILES):
        write(tmp_path / f"{i}.parquet", range(10 * i, 10 * i + 10))
    pafs.copy_files(str(tmp_path), "lake/t", pafs.LocalFileSystem(), s3.client(address))
    return address


class Fault:
    """Answers matching requests with a status, while it is on."""

    def __init__(self, status, method=None, path="", times=10**9, on=True, suffix=".parquet"):
        self.status, self.method, self.path, self.times = status, method, path, times
        self.on, self.suffix = on, suffix

    def __call__(self, method, path, times):
        named = self.path in path and path.partition("?")[0].endswith(self.suffix)
        hit = self.on and self.method in (None, method) and named
        return self.status if hit and times <= self.times else None


# A store that is slow or fails at times: every row is there.
PASSING = {
    "throttled once, each request": Fault(503, times=1),
    "throttled once, lengths": Fault(503, "HEAD", times=1),
    "throttled once, bytes": Fault(503, "GET", times=1),
    "failed once, each request": Fault(500, times=1),
    "dropped once, each request": Fault(s3.DROPPED, times=1),
    "cut once, bytes": Fault(s3.CUT, "GET", times=1),
}


@pytest.mark.parametrize("name", PASSING)
def test_what_passes_is_retried(lake, name):
    with s3.counted(lake, PASSING[name]) as (between, seen):
        table = ss.scan_parquet("lake/t", filesystem=s3.client(between))
        assert table.plan(WANTED).to_arrow()["x"].to_pylist() == [5, 35]
        assert len(seen) > len(set(seen)), "nothing was retried"


#    status, method, words of the error of a scan
LASTING = [
    (403, "HEAD", "0.parquet|AccessDenied|ACCESS_DENIED|403"),
    (403, "GET", "AccessDenied|ACCESS_DENIED|403"),
    (404, "HEAD", "404|NotFound|not there|NoSuchKey|does not exist|not found"),
    (503, "GET", "SlowDown|SLOW_DOWN|SERVICE_UNAVAILABLE|503"),
    (s3.DROPPED, "GET", "0.parquet"),
    (s3.CUT, "GET", "0.parquet"),
]


@pytest.mark.parametrize("status, method, words", LASTING)
def test_what_lasts_is_one_line(lake, status, method, words):
    fault = Fault(status, method, "0.parquet")
    with s3.counted(lake, fault) as (between, _):
        fs = s3.client(between)
        begun = time.monotonic()
        with pytest.raises(ss.SourceError, match=words) as found:
            ss.scan_parquet("lake/t", filesystem=fs)
        assert len(str(found.value).splitlines()) == 1
        assert "0.parquet" in str(found.value)
        kept = ss.scan_parquet("lake/t", filesystem=fs, on_error="keep")
        assert list(kept.plan("x = 35").files) == ["lake/t/0.parquet", "lake/t/3.parquet"]
        assert time.monotonic() - begun < LIMIT


@pytest.mark.parametrize("status", [403, 404, *([503, s3.DROPPED] if LONG else []), s3.CUT])
def test_what_fails_between_plan_and_rows(lake, tmp_path, status):
    for i in range(FILES):  # the pages of x are too far from the footer to be read with it
        rows = {"x": range(10 * i, 10 * i + 10), "s": [os.urandom(10_000) for _ in range(10)]}
        pq.write_table(pa.table(rows), tmp_path / f"{i}.parquet")
    pafs.copy_files(str(tmp_path), "lake/wide", pafs.LocalFileSystem(), s3.client(lake))
    fault = Fault(status, on=False)
    with s3.counted(lake, fault) as (between, _):
        plan = ss.scan_parquet("lake/wide", filesystem=s3.client(between)).plan(WANTED)
        fault.on = True
        begun = time.monotonic()
        with pytest.raises(ss.SourceError) as found:
            plan.to_arrow()
        assert len(str(found.value).splitlines()) == 1
        assert time.monotonic() - begun < LIMIT
        fault.on = False
        assert plan.to_arrow()["x"].to_pylist() == [5, 35]


@pytest.fixture(scope="module")
def tables(address, tmp_path_factory):
    """The locations of a Delta and an Iceberg table, whose scans take the server's address."""
    here = tmp_path_factory.mktemp("tables")
    for first in range(0, 40, 10):
        rows = pa.table({"x": range(first, first + 10)})
        deltalake.write_deltalake(str(here / "delta"), rows, mode="append")
    pafs.copy_files(str(here), "lake/tables", pafs.LocalFileSystem(), s3.client(address))
    kept = {"warehouse": "s3://lake/ice", **for_pyiceberg("s3://", s3.environment(address))}
    catalog = InMemoryCatalog("test", **kept)
    catalog.create_namespace("db")
    iceberg = catalog.create_table("db.t", pa.schema([("x", pa.int64())]))
    for first in range(0, 40, 10):
        iceberg.append(pa.table({"x": range(first, first + 10)}))
    return {"delta": "s3://lake/tables/delta", "iceberg": iceberg.metadata_location}


def scanned(format, tables, between):
    cache.forget()
    manifest.forget()
    scan = {"delta": ss.scan_delta, "iceberg": ss.scan_iceberg}[format]
    return scan(tables[format], storage_options=s3.environment(between))


#    format, the end of an object's key
METADATA = [
    ("delta", "2.json"),
    ("iceberg", ".metadata.json"),
    ("iceberg", "-m0.avro"),
    ("iceberg", ".avro"),
]
# Clients wait between retries, so most of these run in `make long` only.
ONCE = (500, 503, s3.DROPPED, s3.CUT) if LONG else (s3.CUT,)
ALL_FAULTS = (403, 404, 500, 503, s3.DROPPED, s3.CUT) if LONG else (403, 404)


@pytest.mark.parametrize("format, suffix", METADATA)
@pytest.mark.parametrize("status", ONCE)
def test_metadata_that_fails_once(tables, address, format, suffix, status):
    with s3.counted(address, Fault(status, times=1, suffix=suffix)) as (between, seen):
        table = scanned(format, tables, between)
        assert sorted(table.plan(WANTED).to_arrow()["x"].to_pylist()) == [5, 35]
        assert len(seen) > len(set(seen)), "nothing was retried"


@pytest.mark.parametrize("format, suffix", METADATA)
@pytest.mark.parametrize("status", ALL_FAULTS)
def test_metadata_that_fails(tables, address, format, suffix, status):
    """A table without a commit, a manifest or a list of them is no table."""
    begun = time.monotonic()
    with s3.counted(address, Fault(status, suffix=suffix)) as (between, _):
        with pytest.raises(ss.SourceError) as found:
            scanned(format, tables, between).plan(WANTED).to_arrow()
        assert len(str(found.value).splitlines()) == 1
        assert time.monotonic() - begun < LIMIT


@pytest.mark.parametrize("format", ["delta", "iceberg"])
@pytest.mark.parametrize("status", ALL_FAULTS)
def test_files_of_tables_that_fail(tables, address, format, status):
    fault = Fault(status, on=False)
    with s3.counted(address, fault) as (between, _):
        plan = scanned(format, tables, between).plan(WANTED)
        fault.on, begun = True, time.monotonic()
        with pytest.raises(ss.SourceError) as found:
            plan.to_arrow()
        assert len(str(found.value).splitlines()) == 1
        assert time.monotonic() - begun < LIMIT
        fault.on = False
        assert sorted(plan.to_arrow()["x"].to_pylist()) == [5, 35]


def test_an_object_that_fails_amid_its_rows(lake, tmp_path):
    """The first batches came; the rest must not be missing in silence."""
    rows = pa.table({"x": range(50_000), "s": [os.urandom(20).hex() for _ in range(50_000)]})
    pq.write_table(rows, tmp_path / "long.parquet", row_group_size=5_000)
    fs = s3.client(lake)
    fs.create_dir("lake/long")
    pafs.copy_files(str(tmp_path / "long.parquet"), "lake/long/0.parquet",
                    pafs.LocalFileSystem(), fs)  # fmt: skip
    fault = Fault(404, "GET", on=False)
    with s3.counted(lake, fault) as (between, _):
        plan = ss.scan_parquet("lake/long", filesystem=s3.client(between)).plan("x >= 0")
        batches = iter(plan.to_batches())
        count = next(batches).num_rows
        fault.on = True
        if (error := read_on(batches, lambda n: count + n == 50_000)) is not None:
            assert len(error.splitlines()) == 1


def read_on(batches, complete):
    """Read the other batches; return the text of the error, or None if all rows came."""
    try:
        assert complete(sum(batch.num_rows for batch in batches)), "rows are missing in silence"
    except ss.SourceError as e:
        return str(e)
    return None


def test_an_object_of_the_same_size_that_is_replaced(lake, tmp_path):
    """Its time of change is looked up while its pages are read; nothing else waits for that."""
    with s3.counted(lake) as (between, seen):
        plan = ss.scan_parquet("lake/t", filesystem=s3.client(between)).plan("x = 5")
        time.sleep(2.1)  # times are compared in seconds
        write(tmp_path / "new.parquet", range(50, 60))
        assert (tmp_path / "new.parquet").stat().st_size == (tmp_path / "0.parquet").stat().st_size
        pafs.copy_files(str(tmp_path / "new.parquet"), "lake/t/0.parquet",
                        pafs.LocalFileSystem(), s3.client(lake))  # fmt: skip
        before = len(seen)
        with pytest.raises(ss.StaleFile, match="changed after it was planned"):
            plan.to_arrow()
        assert len(seen) - before <= 2


def test_an_object_where_listing_is_denied(lake, tmp_path, monkeypatch):
    """Its name does not say that it is Parquet; access to it is enough."""
    write(tmp_path / "rows", range(10))
    pafs.copy_files(str(tmp_path / "rows"), "lake/rows", pafs.LocalFileSystem(), s3.client(lake))
    deny = lambda method, path, times: 403 if "list-type" in path else None
    with s3.counted(lake, deny) as (between, _):
        for name, value in s3.environment(between).items():
            monkeypatch.setenv(name, value)
        assert ss.scan("s3://lake/rows").plan("x = 5").count() == 1
        with pytest.raises(ss.SourceError, match=r"AccessDenied|ACCESS_DENIED"):
            ss.scan("s3://lake/t")


def test_objects_that_stay_open(lake, tmp_path):
    """Rows come from the object that was listed, or not at all, however often it is replaced."""
    fs = s3.client(lake)
    plan = ss.scan_parquet("lake/t", filesystem=fs).plan("x >= 5")
    assert plan.to_arrow().num_rows == plan.to_arrow().num_rows == 35
    for values in (range(100, 150), range(30), [None] * 20):  # of other sizes
        write(tmp_path / "new.parquet", values)
        pafs.copy_files(str(tmp_path / "new.parquet"), "lake/t/1.parquet",
                        pafs.LocalFileSystem(), fs)  # fmt: skip
        with pytest.raises(ss.StaleFile, match="the file had"):
            plan.to_arrow()
        plan = ss.scan_parquet("lake/t", filesystem=fs).plan("x >= 5 OR x IS NULL")
        matching = sum(v is None or v >= 5 for v in values)
        assert plan.to_arrow().num_rows == plan.to_arrow().num_rows == 25 + matching
    fs.delete_file("lake/t/1.parquet")
    with pytest.raises(ss.SourceError, match="does not exist"):
        plan.to_arrow()


@only_long
def test_keys_are_listed_by_pages(address, tmp_path):
    """A listing of more keys than one answer holds (1,000) is complete."""
    files = 1_050
    for i in range(files):
        (tmp_path / f"{i:05}.parquet").write_bytes(b"x")
    pafs.copy_files(str(tmp_path), "lake/many", pafs.LocalFileSystem(), s3.client(address))
    with s3.counted(address) as (between, seen):
        found = list_files("lake/many", s3.client(between)).files
        assert found.paths.to_pylist() == [f"lake/many/{i:05}.parquet" for i in range(files)]
        assert len(seen) <= 10
