"""A process uses what it has read of a file again only if the file did not change.

Every case rewrites files in a way that should be noticed, and compares with a scan that keeps
nothing.
"""

import os
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.tables import identity
from skipstone.bindings.tables.parquet import contents, footer
from skipstone.bindings.tables.parquet.pages import (
    chunk_pages,
    known_rows,
    page_choice,
    page_segments,
)
from skipstone.kernels.run.lru_cache import LruCache

TICK = 0.02  # a file system's clock has ticks of at most 10 ms


@pytest.fixture(autouse=True)
def settled(monkeypatch):
    """Count files as settled at once, and begin with nothing kept."""
    monkeypatch.setattr(identity, "UNSETTLED", 0)
    monkeypatch.setenv("SKIPSTONE_KEEP_MATCHES", "1")
    for module in (contents, footer, known_rows, page_choice, page_segments):
        module._recent.clear()


def write(path, values, **how):
    how = {"row_group_size": 100, "max_rows_per_page": 10, "write_batch_size": 10} | how
    data = pa.table({"x": pa.array(values, pa.int64()), "t": [f"{v:05}" for v in values]})
    pq.write_table(data, path, use_dictionary=False, compression="none", **how)
    time.sleep(TICK)


def rows(paths, where, **how):
    with ss.config.override(keep_footers=False):
        expected = ss.scan_parquet(paths, **how).plan(where).to_arrow()
    found = ss.scan_parquet(paths, **how).plan(where).to_arrow()
    assert found.equals(expected)
    return found


def test_a_later_scan_reads_no_footers(tmp_path):
    paths = [str(tmp_path / f"{i}.parquet") for i in range(3)]
    for i, path in enumerate(paths):
        write(path, range(i * 1000, i * 1000 + 1000))
    first, second = ss.scan_parquet(paths), ss.scan_parquet(paths)
    assert first.work["footers"] == 3 and second.work["footers"] == 0
    assert second.work["footers in memory"] == 3
    for where in ("x = 1234", "t > '02990'", None):
        a, b = first.plan(where), second.plan(where)
        assert a.row_groups == b.row_groups and a.to_arrow().equals(b.to_arrow())
    assert ss.scan_parquet(tmp_path).work["footers"] == 0  # the same files, found by their folder
    assert ss.scan_parquet(paths[:2]).work["footers"] == 2
    with ss.config.override(keep_footers=False):
        assert ss.scan_parquet(paths).work["footers"] == 3


def rewrite(path, data):
    path.write_bytes(data)


def rename(path, data):
    other = path.with_name("other")
    other.write_bytes(data)
    os.replace(other, path)


def overwrite(path, data):
    with open(path, "r+b") as f:
        f.write(data)


def link(path, data):
    other = path.with_name("linked")
    other.write_bytes(data)
    path.unlink()
    path.symlink_to(other)


@pytest.mark.parametrize("change", [rewrite, rename, overwrite, link])
def test_a_changed_file_of_the_same_size_and_time_is_noticed(change, tmp_path):
    path, other = tmp_path / "t.parquet", tmp_path / "new"
    write(path, range(1000))
    os.utime(path, (1, 1))
    time.sleep(TICK)
    assert rows([path], "x = 5000 OR x = 7").num_rows == 1
    write(other, [x + 4993 for x in range(1000)])
    data = other.read_bytes()
    other.unlink()
    assert len(data) == path.stat().st_size
    change(path, data)
    os.utime(path, (1, 1))
    time.sleep(TICK)
    assert rows([path], "x = 5000 OR x = 7").column("x").to_pylist() == [5000]


def test_rows_in_another_order_are_noticed(tmp_path):
    """The footers of both files are equal; only their pages differ."""
    path = tmp_path / "t.parquet"
    write(path, range(100))
    before = pq.read_metadata(path)
    os.utime(path, (1, 1))
    time.sleep(TICK)
    for _ in range(2):
        assert rows([path], "x < 5").column("x").to_pylist() == [0, 1, 2, 3, 4]
    write(path, range(99, -1, -1))
    os.utime(path, (1, 1))
    time.sleep(TICK)
    assert pq.read_metadata(path).equals(before) and path.stat().st_mtime == 1
    for _ in range(2):
        assert rows([path], "x < 5").column("x").to_pylist() == [4, 3, 2, 1, 0]


def test_a_file_that_changed_a_moment_ago_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(identity, "UNSETTLED", 2 * 10**9)
    path = tmp_path / "t.parquet"
    write(path, range(1000))
    for _ in range(2):
        table = ss.scan_parquet(path)
        assert table.work["footers"] == 1 and table.plan("x = 5").to_arrow().num_rows == 1
    assert not len(contents._recent) and not len(page_choice._recent)


def test_times_in_the_future_are_not_believed(tmp_path):
    path = tmp_path / "t.parquet"
    write(path, range(10))
    os.utime(path, (4e9, 4e9))
    for _ in range(2):
        assert ss.scan_parquet(path).work["footers"] == 1


def test_unreadable_files_are_read_again(tmp_path):
    write(tmp_path / "a.parquet", range(10))
    (tmp_path / "b.parquet").write_bytes(b"PAR1 not really")
    time.sleep(TICK)
    for _ in range(2):
        table = ss.scan_parquet(tmp_path, on_error="keep")
        assert len(table.unreadable) == 1
    with pytest.raises(ss.SourceError, match=r"b\.parquet"):
        ss.scan_parquet(tmp_path)


def test_partition_values_come_from_the_scan(tmp_path):
    folder = tmp_path / "p=1" / "q=x"
    folder.mkdir(parents=True)
    write(folder / "t.parquet", range(10))
    scans = [
        {},
        {"base_path": tmp_path / "p=1"},
        {"partition_schema": {"p": pa.string()}},
        {"base_path": folder},
    ]
    for _ in range(2):
        found = [ss.scan_parquet(tmp_path, **how).schema for how in scans]
        assert [s.names for s in found] == [
            ["x", "t", "p", "q"], ["x", "t", "q"], ["x", "t", "p", "q"], ["x", "t"],
        ]  # fmt: skip
        assert found[0].field("p").type == pa.int32() and found[2].field("p").type == pa.string()


def test_bloom_filters_are_counted_where_they_are_asked_for(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "t.parquet"
    duckdb.sql(
        f"COPY (SELECT 'v' || (range % 50 * 2) s FROM range(5000)) TO '{path}' (FORMAT parquet)"
    )
    time.sleep(TICK)
    tables = [ss.scan_parquet(path) for _ in range(2)]
    if not tables[0].groups.blooms(("s",)):
        pytest.skip("this DuckDB writes no bloom filters")
    assert len(tables[1].plan("s = 'v33'").kept) == 0
    assert tables[0].work["bloom filters"] == 0 and tables[1].work["bloom filters"] > 0


def test_threads_share_a_table(tmp_path):
    paths = [str(tmp_path / f"{i}.parquet") for i in range(8)]
    for i, path in enumerate(paths):
        write(path, range(i * 1000, i * 1000 + 1000))
    wrong = []

    def ask(seed):
        for x in np.random.default_rng(seed).integers(0, 8000, 20).tolist():
            found = ss.scan_parquet(paths).plan(f"x = {x}").to_arrow()
            if found.column("x").to_pylist() != [x]:
                wrong.append(x)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_large_tables_are_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(contents, "MAX_FILES", 2)
    for i in range(3):
        write(tmp_path / f"{i}.parquet", range(10))
    for _ in range(2):
        assert ss.scan_parquet(tmp_path).work["footers"] == 3


def test_recent_values_are_bounded_by_their_bytes():
    recent = LruCache(100)
    recent.put("a", 1, 60)
    recent.put("b", 2, 30)
    assert recent.find("a") == 1  # the most recently used one
    recent.put("c", 3, 30)
    assert [recent.find(key) for key in "abc"] == [1, None, 3]
    recent.put("a", 4, 10)
    recent.put("d", 5, 60)
    assert [recent.find(key) for key in "acd"] == [4, 3, 5]
    recent.put("e", 6, 101)
    assert recent.find("e") is None and len(recent) == 3
    recent.clear()
    assert recent.find("a") is None


def test_pages_without_their_dictionary(tmp_path, monkeypatch):
    """A writer that gave up its dictionary wrote later pages without it; they are read alone."""
    path = tmp_path / "t.parquet"
    n = 50_000
    data = pa.table({"k": np.arange(n), "t": [f"{v:040}" for v in range(n)]})
    pq.write_table(
        data, path, max_rows_per_page=1000, dictionary_pagesize_limit=100_000, compression="none"
    )
    time.sleep(TICK)
    chunk = pq.read_metadata(path).row_group(0).column(1)
    start, stop = chunk.dictionary_page_offset, chunk.data_page_offset
    assert stop - start > 100_000
    read = []
    inner = page_choice.Ranges.read_start

    def counted(self, at, into):
        read.append((at, at + len(into)))
        return inner(self, at, into)

    monkeypatch.setattr(page_choice.Ranges, "read_start", counted)
    for reader in ("arrow", "polars"):
        for k, with_dictionary in ((10, True), (40_000, False)):
            read.clear()
            found = ss.scan_parquet(path).plan(f"k = {k}").to_arrow(reader=reader)
            assert found.equals(data.slice(k, 1))
            whole = any(a <= start and stop - 1000 <= b for a, b in read)
            assert whole is with_dictionary, (reader, k)


def test_files_of_a_delta_table(tmp_path, monkeypatch):
    deltalake = pytest.importorskip("deltalake")
    data = pa.table({"x": range(1000), "p": [i % 2 for i in range(1000)]})
    deltalake.write_deltalake(tmp_path, data, partition_by=["p"])
    time.sleep(TICK)
    read, inner = [], footer.read_footer
    monkeypatch.setattr(footer, "read_footer", lambda *a, **k: (read.append(1), inner(*a, **k))[1])

    def found():
        return ss.scan_delta(tmp_path).plan("x < 5").to_arrow().column("x").to_pylist()

    for _ in range(3):
        assert sorted(found()) == [0, 1, 2, 3, 4]
    assert len(read) == 2
    (path,) = tmp_path.glob("p=0/*.parquet")  # nobody should, but the file is replaced
    times = path.stat().st_mtime_ns
    pq.write_table(pa.table({"x": pa.array([3] * 500, pa.int64())}), path)
    os.utime(path, ns=(times, times))
    time.sleep(TICK)
    assert sorted(found()) == [1, 3, *[3] * 500]
    assert len(read) == 3


MOUNTS = """\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
25 24 0:23 / /dev/shm rw - tmpfs tmpfs rw
40 27 0:51 / /mnt/nfs rw - nfs4 host:/ rw
41 27 0:52 / /mnt/bucket rw shared:7 master:1 - fuse.s3fs s3fs rw
42 27 0:53 / /mnt/two rw - ext4 /dev/vdb rw
43 27 0:53 / /mnt/kinds rw - fuse.sshfs host: rw
44 27 0:54 / /mnt/odd\\040name rw - xfs /dev/vdc rw
a line of another form
45 27 0:x / /mnt/x rw - ext4 /dev/vdd rw
"""


def test_only_local_file_systems_are_believed(tmp_path, monkeypatch):
    expected = {os.makedev(254, 0), os.makedev(0, 23), os.makedev(0, 54)}
    assert identity.trusted_in(MOUNTS) == expected and not identity.trusted_in("")
    write(tmp_path / "t.parquet", range(10))
    monkeypatch.setattr(identity, "_trusted_devices", frozenset)
    for _ in range(2):
        assert ss.scan_parquet(tmp_path).work["footers"] == 1


def test_unknown_encodings_may_use_the_dictionary(tmp_path):
    from skipstone.kernels.decode import page_layout

    for encoding, is_left_out in ((0, True), (8, False), (2, False), (9, True), (10, False)):
        headers = np.zeros((2, page_layout.STOP + 1), np.int64)
        headers[1, page_layout.ENCODING] = encoding
        pages = chunk_pages.Pages(
            (4, 10), np.array([10, 20]), np.array([20, 30]), np.array([0, 5, 9]), headers
        )
        assert (pages.dictionary_of(np.array([1])) is None) is is_left_out
        assert (pages.dictionary_of(np.array([0, 1])) is None) is is_left_out
        assert pages.dictionary_of(np.array([0])) is None
