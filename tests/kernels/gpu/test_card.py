"""Test what only a real card shows: streams, threads, other libraries' arrays, forks, denormals."""

import multiprocessing
import threading
import warnings

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.ir.errors import SkipstoneError
from skipstone.kernels.gpu import cupy_gpu, gpu, uploads
from tests.support.cuda.two_columns import SCHEMA, P, small

pytestmark = pytest.mark.gpu
N = 1_000_003


@pytest.fixture
def card():
    """Return the card; skip if there is none."""
    try:
        return cupy_gpu.device()
    except SkipstoneError as e:
        pytest.skip(f"no CUDA device: {e}")


def predicates(count):
    return [
        ss.PruningPredicate(f"x >= {k * 1000} AND x < {k * 3000 + 500} OR y = {k}", SCHEMA)
        for k in range(count)
    ]


def test_threads_with_streams_of_their_own_share_statistics(card):
    """Columns are uploaded by whichever thread is first; all read them."""
    import cupy

    host, asked, wrong = small(N), predicates(24), []
    expected = [p.survivors(host, "numpy") for p in asked]
    there = host.to_device()

    def work(number):
        with cupy.cuda.Stream(non_blocking=True):
            for k in range(number, len(asked) * 4, 8):
                p, kept = asked[k % len(asked)], expected[k % len(asked)]
                mask = p.prune(there, out="device")
                found = cupy.flatnonzero(mask)  # started on the same stream, without a wait
                if not (
                    np.array_equal(cupy.asnumpy(found), kept)
                    and np.array_equal(p.survivors(there, "cupy"), kept)
                ):
                    wrong.append(k)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_released_memory_is_not_read_by_kernels_that_still_run(card):
    """Another thread releases and writes over the memory while kernels are under way."""
    import cupy

    host, p = small(N), predicates(3)[2]
    expected = p.prune(host, "numpy")
    for _ in range(30):
        there = host.to_device()
        with cupy.cuda.Stream(non_blocking=True):
            masks = [p.prune(there, out="device") for _ in range(4)]
            there.release()
            with cupy.cuda.Stream(non_blocking=True):
                cupy.full(4 * N, 2**40, np.int64)  # takes what was released
            assert all(np.array_equal(cupy.asnumpy(m), expected) for m in masks)


def test_arrays_of_pytorch_are_judged_in_place(card):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch finds no card")
    x, host = torch.arange(N, device="cuda"), small(N)
    given = {"x": {"min": x, "max": x + 5}, "y": {"min": x.flip(0)}}
    there = ss.Statistics.from_device(given, SCHEMA)
    for p in predicates(5):
        assert np.array_equal(p.survivors(there), p.survivors(host, "numpy"))


@pytest.mark.parametrize("size", [uploads.MIN_BYTES, 5 * uploads.BUFFER_BYTES + 8, 1 << 29])
@pytest.mark.parametrize("numpy_type", ["uint8", "int64"])
def test_large_arrays_are_uploaded_whole(card, size, numpy_type):
    """Buffers take turns while the device reads them, on streams and in threads of their own."""
    import cupy

    count = size // np.dtype(numpy_type).itemsize
    values = np.random.default_rng(size).integers(0, 100, 2 * count).astype(numpy_type)[::2]
    wrong = []

    def work():
        with cupy.cuda.Stream(non_blocking=True):
            if not np.array_equal(card.download(card.upload(values)), values):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_large_arrays_are_uploaded_without_pinned_memory(card, monkeypatch):
    """A host that has no memory to pin gives what it has."""
    import cupy

    def refuse(_):
        raise cupy.cuda.runtime.CUDARuntimeError(cupy_gpu.NO_MEMORY)

    monkeypatch.setattr(cupy.cuda, "alloc_pinned_memory", refuse)
    values = np.arange(uploads.MIN_BYTES // 8)
    assert np.array_equal(card.download(card.upload(values)), values)


def test_denormals_are_kept(card):
    """A card that flushes them would take bounds below 1.2e-38 for 0."""
    r = np.random.default_rng(1)
    low = (r.integers(-50, 50, N) * 1e-41).astype(np.float32)
    high = low + (r.integers(0, 3, N) * 1e-41).astype(np.float32)
    schema, none = pa.schema([("f", pa.float32())]), np.zeros(N, np.int64)
    host = ss.Statistics.from_dict(
        {"f": {"min": low, "max": high, "null_count": none, "nan_count": none}}, schema
    )
    for text in ("f > 0", "f < -1e-41F", "f <> 0", "f BETWEEN 1e-41F AND 2e-41F"):
        p = ss.PruningPredicate(text, schema)
        assert np.array_equal(p.evaluate(host, "cupy"), p.evaluate(host, "numpy")), text


def ask_in_child(stats, queue):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        kept = P.survivors(stats).tolist()
    try:
        P.survivors(stats, "cupy")
    except ss.DeviceError as e:
        queue.put((kept, [str(w.message) for w in said], str(e)))


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_child_uses_the_cpu_and_says_so(card, monkeypatch):
    monkeypatch.setattr(gpu, "MIN_CONTAINERS", 0)
    stats = small().to_device()
    expected = P.survivors(stats, "cupy").tolist()
    fork = multiprocessing.get_context("fork")
    queue = fork.Queue()
    child = fork.Process(target=ask_in_child, args=(stats, queue))
    child.start()
    kept, said, error = queue.get(timeout=60)
    child.join(60)
    assert kept == expected
    assert any("continues on the CPU" in w for w in said)
    assert "CUDA does not survive a fork" in error
