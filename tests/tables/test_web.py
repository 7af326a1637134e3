"""Parquet files on a web server: only the ranges that a plan needs are asked for."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from tests.support.tables import web

pytest.importorskip("aiohttp")
ROWS, GROUP = 100_000, 10_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    here = tmp_path_factory.mktemp("web")
    rows = pa.table({"x": range(ROWS), "s": [f"text {i}" for i in range(ROWS)]})
    for name in "ab":
        pq.write_table(rows, here / f"{name}.parquet", row_group_size=GROUP)
    (here / "text.txt").write_text("no Parquet")
    return here


@pytest.fixture
def served(folder):
    with web.server(folder) as found:
        yield found


def test_rows_by_ranges(served, folder):
    address, seen, _ = served
    size = (folder / "a.parquet").stat().st_size
    table = ss.scan(f"{address}/a.parquet")
    plan = table.plan("x BETWEEN 25000 AND 25009", columns=["s"])
    assert plan.to_arrow()["s"].to_pylist() == [f"text {i}" for i in range(25_000, 25_010)]
    gets = [asked for method, _, asked in seen if method == "GET"]
    assert None not in gets, "a whole file was asked for"
    bounds = [asked.removeprefix("bytes=").split("-") for asked in gets]
    assert sum(int(end) - int(start) + 1 for start, end in bounds) < size / 2
    assert plan.files == (f"{address}/a.parquet",)


@pytest.mark.parametrize(
    "names, rows", [(["a.parquet"], 5), (["a.parquet", "b.parquet"], 10), (["a.parquet?v=1"], 5)]
)
def test_files_named_one_by_one(served, names, rows):
    address = served[0]
    table = ss.scan_parquet([f"{address}/{name}" for name in names])
    assert table.plan("x < 5").count() == rows


# name, status that the server answers, words of the error
REFUSED = [
    ("none.parquet", None, "does not exist"),
    ("a.parquet", 410, "does not exist"),
    ("a.parquet", 403, "403"),
    ("a.parquet", 401, "401"),
    ("a.parquet", 503, "503"),
    ("text.txt", None, "not a whole Parquet file"),
]


@pytest.mark.parametrize("name, status, words", REFUSED)
def test_a_refusal_is_one_line(served, name, status, words):
    address, _, refused = served
    if status is not None:
        refused[name] = status
    with pytest.raises(ss.SourceError, match=words) as found:
        ss.scan_parquet(f"{address}/{name}?sig=hush")
    assert len(str(found.value).splitlines()) == 1
    assert "hush" not in str(found.value)


def test_a_server_that_is_not_there():
    with pytest.raises(ss.SourceError, match="check the address and the network"):
        ss.scan_parquet("http://127.0.0.1:1/x.parquet")


@pytest.mark.parametrize("scan", [ss.scan_delta, ss.scan_hive, ss.scan_iceberg, ss.scan])
def test_folders_are_refused(served, scan):
    with pytest.raises(ss.SourceError):
        scan(f"{served[0]}/table")


def test_a_file_that_is_lost_between_plan_and_read(served):
    address, _, refused = served
    plan = ss.scan_parquet(f"{address}/a.parquet").plan("x = 777")
    refused["a.parquet"] = 404
    with pytest.raises(ss.SourceError):
        plan.to_arrow()
