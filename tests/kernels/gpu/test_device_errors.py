"""Test a device that is full, lost, or was used before a fork.

"cupy" raises with a way out; "auto" continues on the CPU and warns once.
"""

import multiprocessing
import os
import threading
import warnings

import numpy as np
import pytest

import skipstone as ss
from skipstone.kernels.gpu import gpu
from tests.support.cuda.emulated import MISSING, Emulated
from tests.support.cuda.two_columns import SCHEMA, P, small


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    if MISSING:
        pytest.skip(MISSING)
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture
def card(libraries, monkeypatch):
    """A new device that a test may break; it judges any number of containers."""
    monkeypatch.setattr(gpu, "MIN_CONTAINERS", 0)
    return Emulated(libraries)


CALLS = {
    "prune": lambda stats, backend: P.prune(stats, backend),
    "evaluate": lambda stats, backend: P.evaluate(stats, backend),
    "survivors": lambda stats, backend: P.survivors(stats, backend),
    "prune_many": lambda stats, backend: ss.prune_many(
        [P, ss.PruningPredicate("x > 5 AND y < 80", SCHEMA)], stats, backend
    ),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("way", ["full", "lost"])
def test_auto_continues_on_the_cpu(call, way, card):
    host = small()
    stats, expected = host.to_device(card), call(host, "numpy").tolist()
    if way == "full":
        card.memory.size = 0
    else:
        assert call(stats, "auto").tolist() == expected
        card.memory.lose()
    with pytest.warns(
        RuntimeWarning, match="skipstone continues on the CPU: the device is"
    ) as told:
        assert call(stats, "auto").tolist() == expected
    assert len(told) == 1
    assert call(stats, "auto").tolist() == expected  # no second warning
    with pytest.raises(ss.DeviceError, match="out of memory" if way == "full" else "lost"):
        call(stats, "cupy")
    with pytest.raises(ss.DeviceError):
        P.prune(stats, out="device")
    if way == "full":
        card.memory.size = 1 << 30
        stats.release()
        before = card.memory.used
        assert call(stats, "auto").tolist() == expected
        assert card.memory.used > before


def ask(stats, *texts):
    """Evaluate predicates, and wait for background compiles."""
    for text in texts:
        ss.PruningPredicate(text, SCHEMA).prune(stats)
    for thread in threading.enumerate():
        if thread.name == "skipstone-compile":
            thread.join(60)


@pytest.fixture
def compiler(card, monkeypatch):
    """A card whose kernels take a compiler, which may fail."""
    function, loaded, wrong = card.function, set(), []

    def compile_now(text):
        if wrong:
            raise wrong[0]
        loaded.add(text)
        return function(text)

    monkeypatch.setattr(card, "ready", lambda text: text in loaded)
    monkeypatch.setattr(card, "function", compile_now)
    return wrong


@pytest.mark.parametrize(
    "wrong",
    [
        ss.DeviceError("no room for a kernel"),
        ss.BackendMissing("no NVRTC"),
        OSError("the disk is full"),
    ],
    ids=repr,
)
def test_kernels_that_cannot_be_compiled(wrong, card, compiler):
    """There is one warning for any number of predicates, and `release` allows another attempt."""
    host = small()
    stats, expected = host.to_device(card), P.prune(host, "numpy").tolist()
    compiler.append(wrong)
    with pytest.warns(RuntimeWarning, match=f"skipstone continues on the CPU: {wrong}") as told:
        ask(stats, "x > 5", "x < 5 OR y > 3", "x = 3", "x > 3 AND y < 90")
    assert len(told) == 1
    assert P.prune(stats).tolist() == expected
    compiler.clear()
    stats.release()
    ask(stats, "x > 3 AND y < 90")
    assert P.prune(stats).tolist() == expected and card.launches


def test_background_compiles_can_be_disabled(card, compiler, monkeypatch):
    monkeypatch.setenv("SKIPSTONE_COMPILE", "0")
    stats = small().to_device(card)
    ask(stats, "x > 3 AND y < 90")
    P.prune(stats)
    assert card.launches == 0
    P.prune(stats, "cupy")
    asked = card.launches
    P.prune(stats)
    assert card.launches == 2 * asked  # the kernel is compiled now


def test_levels_continue_on_the_cpu(card, monkeypatch):
    from skipstone.kernels.index import descend

    monkeypatch.setattr(descend, "MIN_CONTAINERS", 0)
    host = small(4000)
    stats = host.index(block=50).to_device(card)
    card.memory.lose()
    with pytest.warns(RuntimeWarning, match="continues on the CPU"):
        assert P.survivors(stats).tolist() == P.survivors(host).tolist()
    assert P.prune(stats).tolist() == P.prune(host).tolist()


def test_bounds_that_only_the_device_has(card):
    """Without memory to repair them, the bounds are downloaded and judged; once the device is lost,
    they are gone.
    """
    inverted = np.array([7, 1, 5])
    given = {"x": {"min": card.upload(inverted), "max": card.upload(inverted[::-1].copy())}}
    stats = ss.Statistics.from_device(given, SCHEMA, device=card)
    p = ss.PruningPredicate("x > 5", SCHEMA)
    card.memory.size = card.memory.used
    with pytest.warns(RuntimeWarning, match="out of memory"):
        assert p.prune(stats).tolist() == [True, False, True]
    with pytest.raises(ss.DeviceError, match="out of memory"):
        p.prune(stats, "cupy")
    with pytest.raises(ss.DeviceError, match="out of memory"):
        p.prune(stats, out="device")
    card.memory.lose()
    assert p.prune(stats).tolist() == [True, False, True]
    with pytest.raises(ss.DeviceError, match="lost"):
        ss.PruningPredicate("x > 5", SCHEMA).prune(
            ss.Statistics.from_device(given, SCHEMA, device=card)
        )


def in_child(stats, queue):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        kept = int(P.prune(stats).sum())
    try:
        P.prune(stats, "cupy")
    except ss.DeviceError as e:
        queue.put((kept, [str(w.message) for w in told], str(e)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_leaves_the_device_alone(card):
    stats = small().to_device(card)
    kept, uses = int(P.prune(stats).sum()), card.launches
    queue = multiprocessing.get_context("fork").Queue()
    child = multiprocessing.get_context("fork").Process(target=in_child, args=(stats, queue))
    child.start()
    try:
        found, (told,), raised = queue.get(timeout=60)
    finally:
        child.join(10)
    assert found == kept
    assert "CUDA does not survive a fork" in told and "'spawn' or 'forkserver'" in raised
    assert int(P.prune(stats).sum()) == kept and card.launches == uses + 1
