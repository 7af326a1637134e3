"""Many small files are read together, but never more than a process may open."""

import subprocess
import sys

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.tables import read
from skipstone.bindings.tables.parquet import read_groups
from skipstone.bindings.tables.read import MOST_FILES, files_at_once
from tests.support.tables.pages import compile_loops

FILES = 120


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a file in each of many folders, some of which lack a column."""
    compile_loops()
    folder = tmp_path_factory.mktemp("hive")
    for i in range(FILES):
        (folder / f"day={i}" / f"p=x{i % 3}").mkdir(parents=True)
        table = pa.table({"k": range(i, i + 50), "s": [f"s{j}" for j in range(50)]})
        pq.write_table(table, folder / f"day={i}" / f"p=x{i % 3}" / "a.parquet")
    return str(folder)


def expected():
    return [
        {"k": k, "s": f"s{k - i}", "day": i, "p": f"x{i % 3}"}
        for i in range(FILES)
        for k in range(i, i + 50)
        if k % 10 == 3 and i % 3 != 1
    ]


@pytest.mark.parametrize("scan", [ss.scan_hive, ss.scan_parquet])
@pytest.mark.parametrize("reader", ["arrow", "polars"])
def test_files_of_several_folders_are_read_together(scan, reader, folder, monkeypatch):
    counts, inner = [], read_groups.read_files

    def counted(files, *args, **options):
        counts.append(len(files))
        return inner(files, *args, **options)

    monkeypatch.setattr(read_groups, "read_files", counted)
    plan = scan(folder).plan("k % 10 = 3 AND p <> 'x1'", columns=["k", "s", "day", "p"])
    rows = plan.to_arrow(reader=reader).to_pylist()
    assert sorted(rows, key=lambda r: (r["day"], r["k"])) == expected()
    assert sum(counts) == FILES * 2 // 3
    assert len(counts) == -(-sum(counts) // files_at_once())


def test_a_process_may_open_few_files(folder):
    code = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
import logging
logging.basicConfig(level=logging.DEBUG)
import skipstone as ss
print(ss.scan_hive({folder!r}).plan("k % 10 = 3").to_arrow().num_rows)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == str(FILES * 5)
    assert "read by row groups" not in done.stderr


@pytest.mark.parametrize("where", [None, "k >= 0", "k % 2 = 0"])
def test_zeros_of_partitions_keep_their_sign(where, tmp_path):
    """Arrow takes 0.0 for -0.0; files of both were read with the value of the first."""
    for i, p in enumerate((0.0, -0.0, 1.5)):
        table = pa.table({"k": [2 * i], "p": [p]})
        deltalake.write_deltalake(str(tmp_path), table, mode="append", partition_by=["p"])
    rows = ss.scan_delta(tmp_path).plan(where).to_arrow().to_pylist()
    assert sorted(f"{row['k']} {row['p']}" for row in rows) == ["0 0.0", "2 -0.0", "4 1.5"]


@pytest.mark.parametrize(
    ("limit", "threads", "files"), [(1024, 3, 64), (64, 1, 8), (8, 63, 1), (1 << 20, 3, MOST_FILES)]
)
def test_how_many_files_are_open_at_once(limit, threads, files, monkeypatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, limit))
    monkeypatch.setattr(read, "threads", lambda: threads)
    assert files_at_once() == files


def test_systems_without_a_limit(monkeypatch):
    monkeypatch.setitem(sys.modules, "resource", None)
    assert files_at_once() == MOST_FILES
