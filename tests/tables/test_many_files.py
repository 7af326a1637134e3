"""Many small files are read together, but never more than a process may open."""

import os
import subprocess
import sys

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.tables import read
from skipstone.bindings.tables.delta.read_files import FileReader
from skipstone.bindings.tables.iceberg.read_files import FileReader as IcebergReader
from skipstone.bindings.tables.parquet import read_groups
from skipstone.bindings.tables.parquet.read_groups import GroupReader
from skipstone.bindings.tables.read import MAX_FILES, files_at_once
from tests.support.tables.iceberg_tables import make
from tests.support.tables.lazy import OLD
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
        path = folder / f"day={i}" / f"p=x{i % 3}" / "a.parquet"
        pq.write_table(table, path)
        os.utime(path, (OLD, OLD))
    return str(folder)


def expected():
    return [
        {"k": k, "s": f"s{k - i}", "day": i, "p": f"x{i % 3}"}
        for i in range(FILES)
        for k in range(i, i + 50)
        if k % 10 == 3 and i % 3 != 1
    ]


def count_files_read_together(monkeypatch):
    """Return a list that receives the number of files of each call of `read_files`."""
    counts, inner = [], read_groups.read_files

    def counted(files, *args, **options):
        counts.append(len(files))
        return inner(files, *args, **options)

    monkeypatch.setattr(read_groups, "read_files", counted)
    return counts


@pytest.mark.parametrize("scan", [ss.scan_hive, ss.scan_parquet])
@pytest.mark.parametrize("reader", ["arrow", "polars"])
def test_files_of_several_folders_are_read_together(scan, reader, folder, monkeypatch):
    counts = count_files_read_together(monkeypatch)
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
    ("limit", "threads", "files"), [(1024, 3, 64), (64, 1, 8), (8, 63, 1), (1 << 20, 3, MAX_FILES)]
)
def test_how_many_files_are_open_at_once(limit, threads, files, monkeypatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, limit))
    monkeypatch.setattr(read, "threads", lambda: threads)
    assert files_at_once() == files


def test_systems_without_a_limit(monkeypatch):
    monkeypatch.setitem(sys.modules, "resource", None)
    assert files_at_once() == MAX_FILES


@pytest.mark.parametrize("where", [None, "k % 3 = 1", "k < 100", "f > 5", "extra IS NULL"])
@pytest.mark.parametrize("reader", ["arrow", "polars"])
def test_files_of_two_schemas_are_read_together(where, reader, tmp_path, monkeypatch):
    """Rows stay in the order of files, which have one of two schemas by turns."""
    parts = []
    for i in range(30):
        k = range(7 * i, 7 * i + 7)
        part = pa.table({"k": k, "f": [v / 8 for v in k], "s": [f"s{v}" for v in k]})
        if i % 2:
            part = part.select(["s", "f", "k"]).append_column("extra", pa.array(k))
        pq.write_table(part, tmp_path / f"{i:02}.parquet")
        parts.append(part)
    counts = count_files_read_together(monkeypatch)
    table = ss.scan_parquet(tmp_path)
    every = pa.concat_tables(parts, promote_options="default").select(["k", "extra", "s"])
    keep = {
        None: lambda k, extra: True,
        "k % 3 = 1": lambda k, extra: k % 3 == 1,
        "k < 100": lambda k, extra: k < 100,
        "f > 5": lambda k, extra: k > 40,
        "extra IS NULL": lambda k, extra: extra is None,
    }[where]
    expected = [row for row in every.to_pylist() if keep(row["k"], row["extra"])]
    plan = table.plan(where, columns=["k", "extra", "s"])
    assert plan.to_arrow(reader=reader).to_pylist() == expected
    assert len(counts) <= 4  # one for each schema and verdict
    assert plan.to_arrow(reader=reader).to_pylist() == expected  # by the rows that are known


@pytest.mark.parametrize("refused", [False, True])
def test_delta_files_of_two_verdicts_are_read_together(refused, tmp_path, monkeypatch):
    """Rows stay in the order of files, be it that some of them are read by another reader."""
    for i in range(12):
        first = 10 * i if i % 2 else 995
        part = pa.table({"k": range(first, first + 10), "i": [i] * 10})
        deltalake.write_deltalake(str(tmp_path), part, mode="append")
    inner = FileReader._open

    def opened(self, task, heads, vectors):
        if refused and sum(task.action["path"].encode()) % 3 == 0:
            raise ValueError("it is read by row groups")
        return inner(self, task, heads, vectors)

    monkeypatch.setattr(FileReader, "_open", opened)
    table = ss.scan_delta(tmp_path)
    every = table.plan().to_arrow().to_pylist()
    assert len({row["i"] for row in every}) == 12
    rows = table.plan("k < 1000").to_arrow().to_pylist()
    assert rows == [row for row in every if row["k"] < 1000]


def opened_by(monkeypatch, kind, name):
    """Return a list that gets an item for each file that a reader opens."""
    counts, inner = [], getattr(kind, name)

    def counted(*args, **options):
        counts.append(1)
        return inner(*args, **options)

    monkeypatch.setattr(kind, name, counted)
    return counts


@pytest.mark.parametrize("reader", ["arrow", "polars"])
@pytest.mark.parametrize(("limit", "most"), [(1, 4), (7, 4), (60, 28), (10_000, FILES)])
def test_a_limit_reads_few_files(limit, most, reader, folder, monkeypatch):
    table = ss.scan_hive(folder)
    every = table.plan("k % 10 = 3").to_arrow().to_pylist()
    files = opened_by(monkeypatch, GroupReader, "_open")
    with ss.config.override(keep_matches=False):
        rows = table.plan("k % 10 = 3", limit=limit).to_arrow(reader=reader).to_pylist()
    assert rows == every[:limit]
    assert len(files) <= most


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_limit_reads_few_files_of_lakes(format, tmp_path, monkeypatch):
    parts = [pa.table({"k": range(i, i + 50)}) for i in range(0, 2_000, 50)]
    if format == "delta":
        for part in parts:
            deltalake.write_deltalake(str(tmp_path), part, mode="append")
        table, kind = ss.scan_delta(tmp_path), FileReader
    else:
        lake = make(str(tmp_path / "lake"), parts[0].schema)
        for i, part in enumerate(parts):
            pq.write_table(part, tmp_path / f"{i}.parquet")
        lake.add_files([str(tmp_path / f"{i}.parquet") for i in range(len(parts))])
        table, kind = ss.scan_iceberg(lake), IcebergReader
    every = table.plan("k % 10 = 3").to_arrow().to_pylist()
    files = opened_by(monkeypatch, kind, "_open")
    assert table.plan("k % 10 = 3", limit=8).to_arrow().to_pylist() == every[:8]
    assert len(files) <= 4


def test_a_limit_reads_few_row_groups(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"k": range(400_000)}), path, row_group_size=4_000)
    counts, inner = [], read_groups.read_files

    def counted(files, *args, **options):
        counts.extend(len(file.groups) for file in files)
        return inner(files, *args, **options)

    monkeypatch.setattr(read_groups, "read_files", counted)
    plan = ss.scan_parquet(path).plan("k % 1000 = 3", limit=5)
    assert plan.to_arrow()["k"].to_pylist() == [3, 1003, 2003, 3003, 4003]
    assert sum(counts) <= 16  # of 100


@pytest.mark.parametrize("where", [None, "k % 10 = 3"])
def test_files_of_saved_statistics_are_read_together(where, folder, tmp_path, monkeypatch):
    ss.scan_hive(folder).save_stats(tmp_path / "saved")
    expected = ss.scan_hive(folder).plan(where).to_arrow()
    saved = ss.scan_hive(folder, stats=tmp_path / "saved")
    assert saved.work["footers"] == 0
    files, together = opened_by(monkeypatch, GroupReader, "_open"), []
    inner = read_groups.read_files

    def counted(files, *args, **options):
        together.append(len(files))
        return inner(files, *args, **options)

    monkeypatch.setattr(read_groups, "read_files", counted)
    assert saved.plan(where).to_arrow().equals(expected)
    assert len(files) == sum(together) == FILES
    assert len(together) == -(-FILES // files_at_once())
