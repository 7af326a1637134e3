"""Files in object stores: few requests, and pieces of a file that are read once."""

import bisect
import threading
import time
from collections import Counter
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.local import LocalFileSystem

import skipstone as ss
from skipstone.bindings.tables import open_objects
from skipstone.bindings.tables.parquet import footers, group_tasks
from skipstone.bindings.tables.parquet.pages import ranges
from skipstone.bindings.tables.parquet.pages.nested import whole_columns
from skipstone.bindings.tables.parquet.pages.ranges import (
    MIN_READ,
    REMOTE_GAP,
    Pieces,
    Ranges,
)
from tests.support.effort import LONG
from tests.support.rows.alike import alike
from tests.support.tables import pages
from tests.support.tables.page_indexes import (
    CONDITIONS_OF_INDEXES,
    WRONG_ROWS,
    change_offset_index,
    damage_offset_indexes,
    index_file,
)

REMOTE = pafs.PyFileSystem(pafs.FSSpecHandler(fsspec.filesystem("file")))
# Bytes between ranges that are joined, least bytes of a read, most bytes that are kept.
COSTS = [(0, 0, 0), (100, 300, 1 << 24), (2_000, 500, 3_000), (REMOTE_GAP, MIN_READ, 1 << 24)]


def set_costs(monkeypatch, costs):
    for name, value in zip(("REMOTE_GAP", "MIN_READ", "MAX_KEPT"), costs, strict=True):
        monkeypatch.setattr(ranges, name, value)


@pytest.fixture(params=[False, True], ids=["opened twice", "kept open"])
def kept_open(request, monkeypatch):
    """Keep objects open between footer and rows, with the bytes that were read, or do not."""
    if request.param:
        monkeypatch.setattr(open_objects, "KEPT", REMOTE.type_name)
        monkeypatch.setattr(open_objects, "is_as_listed", lambda *listed: True)
        monkeypatch.setattr(open_objects, "_open", {})
    return request.param


def rows(files, where, columns=None, filesystem=None):
    plan = ss.scan_parquet(files, filesystem=filesystem).plan(where, columns=columns)
    return plan.to_arrow()


@pytest.mark.parametrize("seed", range(100 if LONG else 4))
def test_rows_are_those_of_local_files(seed, kept_open, tmp_path, monkeypatch):
    set_costs(monkeypatch, COSTS[seed % len(COSTS)])
    data = pages.table(seed)
    files = [str(tmp_path / f"{i}.parquet") for i in range(2)]
    for i, file in enumerate(files):
        pages.write(file, data.slice(i * 1500, 1500), seed)
    for i, where in enumerate(pages.CONDITIONS):
        for columns in (None, ["u", "q"]) if LONG else (None if (i + seed) % 2 else ["u", "q"],):
            expected, got = rows(files, where, columns), rows(files, where, columns, REMOTE)
            assert alike(got, expected), where


@pytest.mark.parametrize("seed", range(100 if LONG else 4))
def test_damaged_offset_indexes_lose_no_row(seed, kept_open, tmp_path, monkeypatch):
    set_costs(monkeypatch, COSTS[seed % len(COSTS)])
    random, path = np.random.default_rng(seed), tmp_path / "t.parquet"
    file = index_file(path, seed, use_dictionary=bool(seed % 2))
    expected = [rows([file], where, ["k", "u"]) for where in CONDITIONS_OF_INDEXES]
    for _ in damage_offset_indexes(path, random, 10):
        for where, same in zip(CONDITIONS_OF_INDEXES, expected, strict=True):
            open_objects._open.clear()  # the file changes, and its time of change is not compared
            assert rows([file], where, ["k", "u"], REMOTE).equals(same), where


@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize("wrong", WRONG_ROWS)
def test_offset_indexes_that_list_other_rows(wrong, column, kept_open, tmp_path):
    path = tmp_path / "t.parquet"
    file = index_file(path, 5)
    asked = ["k = 80", "k = 200", "k = 440", "k > 70 AND k < 130 AND i > 0", "k < 0"]
    expected = [rows([file], where, ["k", "i", "u"]) for where in asked]
    change_offset_index(path, WRONG_ROWS[wrong], column)
    for where, same in zip(asked, expected, strict=True):
        assert rows([file], where, ["k", "i", "u"], REMOTE).equals(same), where


class Source:
    """A file in memory that notes what is read."""

    def __init__(self, data):
        self.data, self.read = data, []

    def size(self):
        return len(self.data)

    def read_at(self, size, start):
        self.read.append((start, start + size))
        return self.data[start : start + size]


LARGE = 8 * REMOTE_GAP


def file_of(size, local=False):
    source = Source(np.random.default_rng(size).bytes(size))
    return source, Ranges(source, local)


def test_a_short_read_takes_what_follows():
    source, found = file_of(LARGE)
    found.read([(100, 110)])
    found.read([(100 + MIN_READ - 5, 100 + MIN_READ), (105, 200)])
    assert source.read == [(100, 100 + MIN_READ)]
    found.read([(LARGE - 10, LARGE)])
    assert source.read[1:] == [(LARGE - 10, LARGE)]


def test_a_small_file_is_read_whole():
    source, found = file_of(REMOTE_GAP)
    assert found.read([(7, 9)]) == [source.data[7:9]]
    assert found.read_at(3, 100) == source.data[100:103]
    assert source.read == [(0, REMOTE_GAP)]


def test_long_reads_are_not_kept_unless_asked():
    long = (0, 3 * REMOTE_GAP)
    source, found = file_of(LARGE)
    for keep, reads in [(False, 1), (True, 2), (False, 2)]:
        found.read([long], keep=keep)
        assert len(source.read) == reads


def test_what_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr(ranges, "MAX_KEPT", 2 * MIN_READ)
    _, found = file_of(8 * LARGE)
    starts = range(0, 8 * LARGE, 2 * REMOTE_GAP)
    for start in starts:
        found.read([(start, start + 10)])
    assert found._kept.nbytes == 2 * MIN_READ
    _, found = file_of(8 * LARGE)
    found.read([(start, start + MIN_READ) for start in starts])
    assert found._kept.nbytes == 2 * MIN_READ


@pytest.mark.parametrize("step", [REMOTE_GAP + 20, REMOTE_GAP + MIN_READ - 5, 2 * REMOTE_GAP])
def test_many_places_are_not_widened(step):
    """The headers of a large file's pages, for example; nor do widened reads join."""
    source, found = file_of(8 * LARGE)
    spans = [(start, start + 10) for start in range(0, 8 * LARGE - step, step)]
    assert len(spans) > ranges.FEW_SPANS
    found.read(spans, keep=True)
    assert sorted(source.read) == spans
    source.read.clear()
    found.read(spans)
    assert not source.read
    few = [(start + 20, stop + 20) for start, stop in spans[:3]]
    found.read(few)
    assert sorted(source.read) == [
        (start, min(start + MIN_READ, limit))
        for (start, _), limit in zip(few, [few[1][0], few[2][0], LARGE * 8], strict=True)
    ]


@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize("size", [0, 1, 5_000, REMOTE_GAP + 1, 3 * REMOTE_GAP])
def test_ranges_are_the_files_bytes(size, local):
    """Whatever was read before, in any order, overlapping or empty."""
    source, found = file_of(size, local)
    r = np.random.default_rng(3)
    for _ in range(60):
        spans = [tuple(sorted(r.integers(0, size + 1, 2).tolist())) for _ in range(3)]
        if r.integers(2):
            spans = [(start, min(stop, start + 40)) for start, stop in spans]
        keep = bool(r.integers(2))
        assert found.read(spans, keep=keep) == [source.data[a:b] for a, b in spans]


@pytest.mark.parametrize("span", [(-5, 10), (20, 10), (90, 101), (200, 300)])
@pytest.mark.parametrize("size", [100, LARGE])
def test_ranges_outside_of_the_file(span, size):
    start, stop = span if size == 100 else (span[0] + LARGE - 100, span[1] + LARGE - 100)
    if start < 0 or start > stop or stop > size:
        with pytest.raises((OSError, ValueError)):
            file_of(size)[1].read([(start, stop)])


@pytest.mark.parametrize("part", [1, 7, 1000, 10**6])
def test_long_reads_go_in_parts(part, monkeypatch):
    monkeypatch.setattr(ranges, "PART", part)
    set_costs(monkeypatch, (0, 0, 0))
    source, found = file_of(5000)
    spans = [(4000, 4100), (0, 3000), (3500, 3500), (3501, 3502)]
    assert [bytes(piece) for piece in found.read(spans)] == [source.data[a:b] for a, b in spans]
    assert max(b - a for a, b in source.read) <= part
    assert sum(b - a for a, b in source.read) == 3101


class Waiting(LocalFileSystem):
    """Opens files only once several wait to be opened, after `begin`."""

    protocol = "waiting"
    cachable = False
    barrier = None

    def begin(self, together):
        self.barrier = threading.Barrier(together, timeout=20)

    def _open(self, path, *args, **kwargs):
        if self.barrier is not None and path.endswith(".parquet"):
            self.barrier.wait()
        return super()._open(path, *args, **kwargs)


@pytest.mark.parametrize("where", [None, "x % 2 = 0"])
def test_several_files_are_opened_at_once(where, tmp_path):
    for i in range(8):
        pq.write_table(pa.table({"x": [i, i + 1]}), tmp_path / f"{i}.parquet")
    files = Waiting()
    remote = pafs.PyFileSystem(pafs.FSSpecHandler(files))
    plan = ss.scan_parquet(str(tmp_path), filesystem=remote).plan(where)
    files.begin(8)
    expected = [v for i in range(8) for v in (i, i + 1) if where is None or v % 2 == 0]
    assert sorted(plan.to_arrow()["x"].to_pylist()) == sorted(expected)


class Counted(LocalFileSystem):
    """Notes the reads of each file."""

    protocol = "counted"
    cachable = False

    def __init__(self):
        super().__init__()
        self.reads = []

    def _open(self, path, *args, **kwargs):
        file = super()._open(path, *args, **kwargs)
        inner = file.f.read
        file.read = lambda size=-1: (self.reads.append(path), inner(size))[1]
        return file


def test_long_footers_are_read_at_once_if_the_first_ones_were_long(tmp_path, monkeypatch):
    monkeypatch.setattr(footers, "REQUESTS", 2)
    columns = {f"c{i}": [1.5] for i in range(2_000)}
    for i in range(4):
        pq.write_table(pa.table(columns), tmp_path / f"{i}.parquet")
    files = Counted()
    remote = pafs.PyFileSystem(pafs.FSSpecHandler(files))
    assert ss.scan_parquet(str(tmp_path), filesystem=remote).plan("c7 < 1").files == ()
    counts = Counter(Path(path).stem for path in files.reads)
    assert counts == {"0": 2, "1": 2, "2": 1, "3": 1}


def test_pieces_do_not_hide_one_another():
    """A short piece within a long one that came later, or before it, or beside it."""
    data = memoryview(bytes(range(200)))
    r = np.random.default_rng(5)
    for _ in range(200):
        pieces, spans = Pieces(), []
        for _ in range(12):
            start, stop = sorted(r.integers(0, 201, 2).tolist())
            spans.append((start, stop))
            pieces.add(start, data[start:stop])
        starts = [start for start, _ in pieces]
        stops = [start + piece.nbytes for start, piece in pieces]
        assert starts == sorted(set(starts)) and stops == sorted(set(stops))
        assert pieces.nbytes == sum(piece.nbytes for _, piece in pieces)
        for start, stop in spans:
            assert pieces[start, stop] == data[start:stop]
            middle = (start + stop) // 2
            assert pieces[start, middle] == data[start:middle]


@pytest.mark.parametrize("added", [(0, 40), (0, 200), (60, 100)])
def test_pieces_that_a_thread_adds_while_another_one_looks(added, monkeypatch):
    data = memoryview(bytes(range(200)))
    spans = [(0, 10), (20, 30), (50, 60), (100, 200)]
    pieces = Pieces(spans, [data[start:stop] for start, stop in spans])
    inner = bisect.bisect_right

    def found_then_added(*args, **options):
        i = inner(*args, **options)
        monkeypatch.undo()
        pieces.add(added[0], data[slice(*added)])
        return i

    monkeypatch.setattr(bisect, "bisect_right", found_then_added)
    assert pieces.find((50, 60)) == data[50:60]


class Slow(LocalFileSystem):
    """Lets other threads run while its files are at their end, and before each read."""

    protocol = "slow"
    cachable = False

    def _open(self, path, *args, **kwargs):
        file = super()._open(path, *args, **kwargs)
        seek, read = file.f.seek, file.f.read
        file.seek = lambda *to: (seek(*to), time.sleep(0.005 * (to[1:] == (2,))))[0]
        file.read = lambda size=-1: (time.sleep(0.002), read(size))[1]
        return file


def test_threads_that_read_one_file_do_not_move_its_position(tmp_path, monkeypatch):
    """Arrow finds the size of a file object of Python by moving its position to the end."""
    monkeypatch.setattr(whole_columns, "threads", lambda: 4)
    monkeypatch.setattr(group_tasks, "MANY_GROUPS", 1 << 30)
    path, n = str(tmp_path / "t.parquet"), 800
    items = pa.array([[i] * (i % 4) for i in range(n)])
    pq.write_table(pa.table({"k": range(n), "items": items}), path, row_group_size=100)
    slow = pafs.PyFileSystem(pafs.FSSpecHandler(Slow()))
    with monkeypatch.context() as patch:
        seen = pages.Pages(patch)
        found = rows([path], "k % 2 = 1", filesystem=slow)
    assert found["items"].to_pylist() == items.to_pylist()[1::2]
    assert seen.by_row_groups == 0
