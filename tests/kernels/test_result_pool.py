"""Test that result buffers are reused, and never while any array refers to them."""

import threading

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.kernels.run import result_pool

SIZE = 1 << 20


@pytest.fixture(autouse=True)
def empty(monkeypatch):
    monkeypatch.setattr(result_pool, "_buffers", [])


def test_a_free_buffer_is_reused():
    first = result_pool.allocate(SIZE)
    at = first.ctypes.data
    assert at % 64 == 0 and first.shape == (SIZE,)
    del first
    assert result_pool.allocate(SIZE).ctypes.data == at
    assert result_pool.allocate(SIZE - 999).ctypes.data == at  # a slightly smaller request fits too
    # and a much smaller request gets its own
    assert result_pool.allocate(SIZE // 4).ctypes.data != at


@pytest.mark.parametrize(
    "hold",
    [
        lambda a: a,
        lambda a: a.view(np.bool_)[5:],
        lambda a: a.reshape(64, -1).T[3],
        lambda a: memoryview(a)[10:],
        lambda a: pa.array(a),
        lambda a: pa.py_buffer(a),
        lambda a: np.frombuffer(a, np.uint64)[1:],
        lambda a: np.asarray(memoryview(a[::2])),
    ],
)
def test_a_view_keeps_its_buffer(hold):
    held = hold(result_pool.allocate(SIZE))
    at = result_pool._buffers[0][0].ctypes.data
    others = [result_pool.allocate(SIZE) for _ in range(3)]
    assert all(not at <= o.ctypes.data < at + SIZE for o in others)
    del held
    assert at <= result_pool.allocate(SIZE).ctypes.data < at + result_pool.CACHE_LINE


def test_the_pool_is_bounded():
    held = [result_pool.allocate(result_pool.MAX_BUFFER // 2) for _ in range(12)]
    assert sum(b.size for b, _ in result_pool._buffers) <= result_pool.MAX_POOL
    assert len({h.ctypes.data for h in held}) == 12
    before = len(result_pool._buffers)
    result_pool.allocate(result_pool.MAX_BUFFER + 1), result_pool.allocate(100)
    assert len(result_pool._buffers) == before


def test_masks_do_not_change():
    n = 300_000
    x = np.arange(n)
    stats = ss.Statistics.from_dict({"x": {"min": x, "max": x}}, pa.schema([("x", pa.int64())]))
    predicates = [ss.PruningPredicate(f"x < {v}", stats.schema) for v in range(0, n, n // 20)]
    wrong = []

    def ask():
        kept = [p.prune(stats, "numba") for p in predicates for _ in range(2)]
        wrong.extend(v for v, mask in enumerate(kept) if mask.sum() != v // 2 * (n // 20))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
