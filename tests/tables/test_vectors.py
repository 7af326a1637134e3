"""Deletion vectors: the cost follows the number of bytes, and malformed ones are refused."""

import random
import struct
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap64

import skipstone as ss
from skipstone.bindings.tables.bitmaps import (
    CONTAINER_VALUES,
    COOKIE_NO_RUNS,
    COOKIE_RUNS,
    MAGIC,
    rows_of,
)
from skipstone.bindings.tables.iceberg.removed import deleted_positions, numbers_by_path
from skipstone.bindings.tables.row_ranges import RowRanges
from tests.support.tables.delta_log import Log, Written, base85, delta_schema


def vector(*bitmaps):
    """Return a vector of 32-bit bitmaps, each with the upper half of its row numbers."""
    head = struct.pack("<iQ", MAGIC, len(bitmaps))
    return head + b"".join(struct.pack("<I", key) + data for key, data in bitmaps)


def runs(*containers):
    """Return a bitmap of containers, each a key and its (start, length - 1) pairs."""
    n = len(containers)
    head = struct.pack("<I", COOKIE_RUNS | (n - 1) << 16) + b"\xff" * ((n + 7) // 8)
    keys = b"".join(struct.pack("<HH", key, 0) for key, _ in containers)
    offsets = b"\0" * (4 * n if n >= 4 else 0)
    body = (struct.pack(f"<H{2 * len(p)}H", len(p), *sum(p, ())) for _, p in containers)
    return head + keys + offsets + b"".join(body)


def lists(*containers):
    """Return a bitmap of containers, each a key and its values."""
    head = struct.pack("<II", COOKIE_NO_RUNS, len(containers))
    keys = b"".join(struct.pack("<HH", key, len(v) - 1) for key, v in containers)
    body = (struct.pack(f"<{len(v)}H", *v) for _, v in containers)
    return head + keys + b"\0" * 4 * len(containers) + b"".join(body)


BOMB = vector((0, runs(*((key, [(0, CONTAINER_VALUES - 1)]) for key in range(4000)))))


def test_a_vector_costs_its_bytes_not_its_rows():
    tracemalloc.start()
    found = rows_of(BOMB, 4000 * CONTAINER_VALUES, "the vector")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(BOMB) < 57_000 and found.count == 262_144_000
    assert (found.starts.tolist(), found.stops.tolist()) == ([0], [262_144_000])
    assert peak < 8_000_000  # 2.1 GiB if each row were stored as a number


@pytest.mark.parametrize("seed", range(40))
def test_vectors_agree_with_pyroaring(seed):
    r, rows = random.Random(seed), BitMap64()
    for _ in range(r.randrange(7)):
        low = r.randrange(1 << r.randrange(1, 62))
        match r.randrange(3):
            case 0:
                rows.update(range(low, low + r.randrange(1, 200_000)))
            case 1:
                rows.update([low + r.randrange(200_000) for _ in range(r.randrange(9000))])
            case 2:
                rows.add(low)
    if r.random() < 0.5:
        rows.run_optimize()
    found = rows_of(struct.pack("<i", MAGIC) + rows.serialize(), len(rows), "the vector")
    listed = [np.arange(a, b) for a, b in zip(found.starts, found.stops, strict=True)]
    assert np.concatenate([np.empty(0, np.int64), *listed]).tolist() == list(rows)


@pytest.mark.parametrize(
    ("data", "count", "message"),
    [
        (vector((1 << 31, lists((0, [1])))), 1, "beyond 2\\^63"),
        (vector(((1 << 31) - 1, lists((0, [1])))), 1, "beyond 2\\^63"),
        (vector((1, lists((0, [1]))), (1, lists((0, [2])))), 2, "do not ascend"),
        (vector((0, lists((5, [1]), (4, [1])))), 2, "do not ascend"),
        (vector((0, lists((0, [2, 1])))), 2, "do not ascend"),
        (vector((0, lists((0, [1, 1])))), 2, "do not ascend"),
        (vector((0, runs((0, [(5, 10), (9, 3)])))), 15, "overlap"),
        (vector((0, runs((0, [(9, CONTAINER_VALUES - 1)])))), CONTAINER_VALUES, "pass the end"),
        (vector((0, struct.pack("<II", COOKIE_NO_RUNS, 1 << 31))), 1, "cut off"),
        (vector((0, struct.pack("<I", 7))), 1, "its cookie is 7"),
        (vector((0, lists((0, [1, 2]))))[:-1], 2, "cut off"),
        (struct.pack("<iQ", MAGIC, 1 << 63), 1, "cut off"),
        (vector((0, lists((0, [1, 2])))), 3, "names 2 rows; the table says 3"),
        (b"", 0, "does not begin with"),
    ],
)
def test_malformed_vectors_are_refused(data, count, message):
    with pytest.raises(ss.SourceError, match=message):
        rows_of(data, count, "the vector")


def test_unions_and_masks_of_ranges():
    r = random.Random(5)
    for _ in range(200):
        spans = [
            (a, a + r.randrange(1, 9)) for a in (r.randrange(60) for _ in range(r.randrange(6)))
        ]
        split = r.randrange(len(spans) + 1)
        parts = [
            RowRanges.of(*np.array(p, np.int64).reshape(-1, 2).T)
            for p in (spans[:split], spans[split:])
        ]
        found, rows = RowRanges.union(parts), {x for a, b in spans for x in range(a, b)}
        assert (found.count, found.stop) == (len(rows), max(rows, default=-1) + 1)
        first, n = r.randrange(70), r.randrange(20)
        assert found.mask(first, n).tolist() == [x in rows for x in range(first, first + n)]


def table_with(tmp_path, data, cardinality, rows=3, **fields):
    log = Log(tmp_path / "t", delta_schema("x BIGINT"), features=("deletionVectors",))
    action = log.written(Written([{"x": i} for i in range(rows)]))
    text = base85(data + b"\0" * (-len(data) % 4))
    whole = {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(data)}
    action["add"]["deletionVector"] = whole | {"cardinality": cardinality} | fields
    log.commit(action)
    return ss.scan_delta(log.folder)


def test_rows_that_a_file_lacks_are_an_error(tmp_path):
    """They would be subtracted from the live rows, so that the count would be wrong."""
    with pytest.raises(ss.SourceError, match="names row 3; the file has 3 rows"):
        table_with(tmp_path, vector((0, lists((0, [1, 3])))), 2).plan().to_arrow()


def test_a_vector_of_all_rows_of_262_million(tmp_path):
    with pytest.raises(ss.SourceError, match="names row 262143999; the file has 3 rows"):
        table_with(tmp_path, BOMB, 4000 * CONTAINER_VALUES).plan().to_arrow()


@pytest.mark.parametrize(
    "fields",
    [
        {"storageType": "u", "pathOrInlineDv": "../.." + "0" * 20},
        {"storageType": "u", "pathOrInlineDv": "/etc" + "0" * 20},
        {"storageType": "p", "pathOrInlineDv": __file__, "offset": 0, "sizeInBytes": 2**31 - 1},
        {"storageType": "p", "pathOrInlineDv": __file__, "offset": -5, "sizeInBytes": 40},
        {"storageType": "p", "pathOrInlineDv": __file__, "offset": 0, "sizeInBytes": -4},
        {"storageType": "p", "pathOrInlineDv": "file:relative", "offset": 0, "sizeInBytes": 40},
    ],
)
def test_vectors_that_lead_elsewhere(tmp_path, fields):
    with pytest.raises(ss.SourceError):
        table_with(tmp_path, vector((0, lists((0, [1])))), 1, **fields).plan().to_arrow()


@pytest.mark.parametrize("places", [[1, None], [-1, 2], [2**63 - 1, 0]])
def test_position_deletes_without_a_number(places):
    with pytest.raises(ss.SourceError, match="whose number is missing or negative"):
        deleted_positions(pa.array(places, pa.int64()), "a", "deletes.parquet")


@pytest.mark.parametrize("seed", range(5))
def test_position_deletes_are_found_by_path(seed):
    r = np.random.default_rng(seed)
    names = [None, "", "a", "b", "c/é"]
    paths = [names[i] for i in r.integers(0, len(names), 200)]
    if seed % 2:
        paths.sort(key=str)
    numbers = [None if v < 3 else int(v) for v in r.integers(0, 50, 200)]
    found = numbers_by_path(pa.array(paths, pa.string()), pa.array(numbers, pa.int64()))
    assert {path: rows.to_pylist() for path, rows in found.items()} == {
        name: [v for p, v in zip(paths, numbers, strict=True) if p == name] for name in names[1:]
    }
    empty = pa.array([], pa.string()), pa.array([], pa.int64())
    assert numbers_by_path(*empty) == {}


@pytest.mark.parametrize("seed", range(20))
def test_masks_of_row_ranges(seed):
    r = np.random.default_rng(seed)
    rows = r.random(300) < r.choice([0.02, 0.5, 0.97])
    ranges = RowRanges.at(np.flatnonzero(rows))
    for first, n in [(0, 300), (0, 1), (40, 0), (17, 100), (299, 1), (250, 200), (400, 50)]:
        expected = np.append(rows, np.zeros(200, np.bool_))[first : first + n]
        assert ranges.mask(first, n)[: len(expected)].tolist() == expected.tolist()
        assert not ranges.mask(first, n)[len(expected) :].any()
