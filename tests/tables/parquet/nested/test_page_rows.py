"""The rows in pages of lists and maps are counted by their repetition levels."""

import itertools
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from skipstone.bindings.tables.parquet.pages.nested import page_rows
from skipstone.kernels.decode import footer_loops as at
from skipstone.kernels.decode import level_loops
from skipstone.kernels.decode import page_layout as layout
from skipstone.kernels.run.loops import compiled
from tests.support.effort import LONG

MANY = 1 << 31


@pytest.fixture(params=["compiled", "plain"])
def count(request):
    """Return the loop, as compiled and as Python runs it."""
    if request.param == "plain":
        return level_loops.count_zeros
    return compiled(page_rows.COUNT_ZEROS)


def head(run, packed):
    """Return the head of a run: a number in groups of seven bits."""
    value, out = 2 * run + packed, b""
    while value >= 128:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def repeated(level, run, width):
    return head(run, False) + level.to_bytes((width + 7) // 8, "little")


def packed(levels, width):
    """Return levels, filled up to a multiple of eight, in groups of eight."""
    groups = -(-len(levels) // 8)
    number = sum(level << i * width for i, level in enumerate(levels))
    return head(groups, True) + number.to_bytes(groups * width, "little")


CASES = [
    # levels, bits of each, number of levels, how many are 0
    (repeated(0, 5, 1), 1, 5, 5),
    (repeated(0, 1, 1) + repeated(1, 9, 1), 1, 10, 1),
    (packed([0, 1, 0, 1, 1], 1), 1, 5, 2),
    (packed([0, 1, 2, 0, 3, 1, 0, 0], 2), 2, 8, 4),
    (packed([0] * 16, 3), 3, 9, 9),
    (packed([0] * 16, 3)[:-2], 3, 9, 9),  # the last group ends after its last level
    (repeated(0, 3, 9) + repeated(256, 4, 9), 9, 7, 3),
    (repeated(0, 1000, 1), 1, 10, 10),  # a run is longer than it need be
    (b"", 1, 0, 0),
    (repeated(1, 5, 1), 1, 5, -1),  # the first level is not 0
    (packed([1, 0, 0], 1), 1, 3, -1),
    (repeated(256, 5, 9), 9, 5, -1),
    (repeated(0, 5, 1), 1, 6, -1),  # there are too few levels
    (repeated(0, 5, 1)[:-1], 1, 5, -1),
    (packed([0] * 16, 3)[:-3], 3, 9, -1),
    (b"", 1, 1, -1),
    (b"\x80" * 20, 1, 5, -1),  # a run without an end
    (b"\x00\x00", 1, 5, -1),  # runs of no levels
    (b"\x01", 1, 5, -1),
    (b"\xff\xff\xff\xff\x0f" + bytes(100), 20, MANY, -1),  # more levels than there are bytes
]


@pytest.mark.parametrize(("levels", "width", "n", "zeros"), CASES)
def test_zeros_are_counted(levels, width, n, zeros, count):
    for before, after in ((b"", b""), (b"\xff", b"\xff" * 9)):
        data = np.frombuffer(before + levels + after, np.uint8)
        start = len(before)
        assert count(data, start, start + len(levels), width, n) == zeros


@pytest.mark.parametrize("seed", range(500 if LONG else 20))
def test_random_levels(seed, count):
    random = np.random.default_rng(seed)
    width = int(random.integers(1, 11))
    data, levels = repeated(0, 1, width), [0]
    for _ in range(random.integers(1, 20)):
        if random.random() < 0.5:
            run, level = int(random.integers(1, 300)), int(random.choice([0, 2**width - 1]))
            data, levels = data + repeated(level, run, width), levels + [level] * run
        else:
            own = random.integers(0, 2**width, 8 * random.integers(1, 9))
            own = np.where(random.random(len(own)) < 0.5, 0, own).tolist()
            data, levels = data + packed(own, width), levels + own
    array = np.frombuffer(data, np.uint8)
    zeros = list(itertools.accumulate(level == 0 for level in levels))
    for n in random.integers(1, len(levels) + 1, 5).tolist():
        assert count(array, 0, len(array), width, n) == zeros[n - 1]
    for _ in range(20):  # damage raises no error
        broken = array.copy()
        broken[random.integers(len(array), size=2)] = random.integers(256, size=2)
        assert -1 <= count(broken, 0, len(array), width, len(levels)) <= len(levels)


def header(kind, values, nbytes, unpacked):
    out = np.zeros(layout.PAGE_WIDTH, np.int64)
    out[[at.TYPE, at.PAGE_VALUES, at.BYTES, at.UNPACKED]] = kind, values, nbytes, unpacked
    return out


def test_a_page_that_claims_many_values_takes_no_memory():
    """100 bytes cannot hold 30 million levels."""
    n = 30_000_000
    body = b"\x40\0\0\0" + head(n // 8, True) + bytes(100)
    page = header(at.DATA_PAGE, n, len(body), len(body))
    tracemalloc.start()
    assert page_rows.rows_in_page(np.frombuffer(body, np.uint8), page, 0, 2) is None
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()


@pytest.mark.parametrize("codec", [0, *page_rows.CODECS])
def test_rows_of_compressed_pages(codec):
    levels = packed([0, 1, 1, 0], 1)
    body = len(levels).to_bytes(4, "little") + levels + b"values" * 9
    stored = pa.Codec(page_rows.CODECS[codec]).compress(body, asbytes=True) if codec else body
    page = header(at.DATA_PAGE, 4, len(stored), len(body))
    assert page_rows.rows_in_page(np.frombuffer(stored, np.uint8), page, codec, 1) == 2
    plain = header(at.DATA_PAGE_V2, 4, len(levels), len(body))  # its levels are not compressed
    assert page_rows.rows_in_page(np.frombuffer(levels, np.uint8), plain, codec, 1) == 2
