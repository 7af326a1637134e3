"""Statistics on a device: verdicts equal those in host memory; copies are kept and counted.

Every test runs on an emulated device, and on a card if there is one.
"""

import copy
import dataclasses
import gc
import pickle
import random
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import skipstone as ss
from skipstone.ir.lower import Program
from skipstone.kernels.gpu import gpu
from skipstone.kernels.gpu.resident import Resident
from tests.support.cuda.resident import SCHEMA, small
from tests.support.cuda.where import agree_there, here
from tests.support.effort import LONG
from tests.support.predicates.predicates import predicate
from tests.support.statistics.backends import SIZES, agree, edge_statistics, random_zone_map
from tests.support.statistics.levels import eager, same  # noqa: F401

# The same verdicts as the oracle.


@pytest.mark.parametrize("n", SIZES[:1] + SIZES[6:9] if not LONG else SIZES)
def test_sizes(n, where):
    host = edge_statistics(0, n)
    stats, p = (
        host.to_device(where),
        ss.PruningPredicate(
            "x >= 40 AND x < 90 AND y IN (3, 5, 8) AND z IS NOT NULL OR NOT (y = 4)", host.schema
        ),
    )
    assert p.evaluate(stats, "cupy").tolist() == p.evaluate(host, "numpy").tolist()
    agree_there(where, p, stats, host)


@pytest.mark.parametrize("seed", range(40 if LONG else 5))
def test_random_predicates(seed, where):
    r = random.Random(f"resident {seed}")
    containers = r.choice((3, 64, 65, 200))
    z, schema = random_zone_map(r, containers)
    host, facts = z.statistics(schema), [z.facts(j) for j in range(containers)]
    stats = host.to_device(where)
    for _ in range(4):
        p = ss.PruningPredicate(predicate(r, z.fields, depth=r.choice((0, 1))).sql, schema)
        agree(p, z, stats, facts, "cupy")
        agree_there(where, p, stats, host)


@pytest.mark.parametrize("order_by", [None, "x"])
def test_levels(order_by, where, eager, monkeypatch):  # noqa: F811
    monkeypatch.setattr(gpu, "MIN_CONTAINERS", 0)
    host = edge_statistics(0, 2000)
    stats = host.index(
        block=[np.array([*range(50, 2000, 50), 2000]), np.array([10, 40])], order_by=order_by
    ).to_device(where)
    for text in ("x >= 40 AND x < 47", "x < 2 AND z IS NULL", "x + y > 105"):
        for backend in ("auto", "cupy", "numpy"):
            same(ss.PruningPredicate(text, host.schema), host, stats, backend)


def test_many_predicates(where, monkeypatch):
    host = edge_statistics(0, 1000)
    stats = host.to_device(where)
    texts = [
        *(f"x > {v} AND y < {v % 9}" for v in range(0, 90, 15)),
        "z IS NULL",
        "x > 3 OR z IS NULL",
        "TRUE",
        "x <> x",
        f"x IN ({', '.join(map(str, range(0, 99, 3)))})",
    ]
    predicates = [ss.PruningPredicate(t, host.schema) for t in texts]
    expected = ss.prune_many(predicates, host, "numpy").tolist()
    for most in (gpu.MAX_VERDICT_BYTES, 3000):
        monkeypatch.setattr(gpu, "MAX_VERDICT_BYTES", most)
        assert ss.prune_many(predicates, stats, "cupy").tolist() == expected
    assert here(where, ss.prune_many(predicates, stats, out="device")).tolist() == expected


def test_more_literals_than_a_kernel_has_arguments(where, eager, monkeypatch):  # noqa: F811
    monkeypatch.setattr(gpu, "MIN_CONTAINERS", 0)
    host = edge_statistics(0, 700)
    monkeypatch.setattr(gpu, "MAX_ARGUMENT_BYTES", 8 * 30)
    p = ss.PruningPredicate(
        " OR ".join(f"x > {v} AND y < {v % 11} AND x < {v + 2}" for v in range(0, 80, 7)),
        host.schema,
    )
    launch = host.launch(p.program)
    assert gpu.fits(launch) and not gpu.literals_fit(launch)
    same(p, host, host.to_device(where), "cupy")
    same(p, host, host.index(block=20).to_device(where), "auto")


# Copies on the device.


def test_a_column_is_uploaded_once(where):
    stats = small().to_device(where)
    assert (stats.device, stats.device_nbytes) == (where.name, 0)
    assert where.name in repr(stats)
    kept = []
    for text in (
        "x > 5",
        "x < 700 AND x > 1",
        "x > 5 AND s > '004'",
        "x IS NULL",
        f"x IN ({', '.join(map(str, range(0, 80, 2)))})",
    ):
        ss.PruningPredicate(text, SCHEMA).prune(stats, "cupy")
        kept.append(stats.device_nbytes)
    high, both, codes, plane = 130 * 8, 130 * 16, 130 * 4, 3 * 8
    assert kept[:4] == [high + 0 * plane, both, both + codes, both + codes + plane]
    sets = kept[4] - kept[3]
    assert sets > 0
    ss.PruningPredicate("x > 7", SCHEMA).prune(stats, "cupy")
    assert stats.device_nbytes == kept[4]
    stats.release()
    assert stats.device_nbytes == 0
    ss.PruningPredicate("x > 7", SCHEMA).prune(stats, "cupy")
    assert stats.device_nbytes == high


def test_copies_go_with_their_statistics(where):
    stats = small().to_device(where)
    p = ss.PruningPredicate("x > 7", SCHEMA)
    p.prune(stats, "cupy")
    resident = stats._resident
    assert resident.nbytes
    del stats
    gc.collect()
    assert resident.nbytes == 0


def test_copies_do_not_wait_for_the_collector(where):
    host, p = small(), ss.PruningPredicate("x > 7", SCHEMA)
    gc.disable()
    try:
        stats = host.to_device(where)
        p.prune(stats, "cupy")
        copies = weakref.ref(next(iter(stats._resident._copies.values())))
        del stats
        assert copies() is None
    finally:
        gc.enable()


def test_inputs_of_a_launch_are_found_once_and_go_with_it(where):
    host, resident = small(), Resident(where)
    program = Program(ss.PruningPredicate("x > 7", SCHEMA).program.can_match)
    launch = dataclasses.replace(host.launch(program))  # statistics keep their own launches
    found = resident.inputs(launch)
    assert resident.inputs(launch) is found
    there = weakref.ref(found[0][0])
    del found
    gc.disable()
    try:
        resident.release()
        assert there() is None
        resident.inputs(launch)
        assert len(resident._inputs) == 1
        del launch
        assert not resident._inputs
    finally:
        gc.enable()


def test_a_copy_that_is_released_while_its_array_goes(where, monkeypatch):
    """Dropping an array waits for the device; other threads may release the copies meanwhile."""
    resident, rows, others = Resident(where), np.arange(10), np.arange(5)
    resident._copy(rows), resident._copy(others)
    settle = where.settle
    monkeypatch.setattr(
        where, "settle", lambda: (monkeypatch.setattr(where, "settle", settle), resident.release())
    )
    del rows
    assert resident.nbytes == 0
    assert resident._copy(others).nbytes == others.nbytes == resident.nbytes


@pytest.mark.parametrize("most", [0, 1 << 22])
def test_verdicts_for_the_host_come_as_bytes_or_as_bits(where, monkeypatch, most):
    monkeypatch.setattr(gpu, "MAX_UNPACKED", most)
    host, stats = small(), small().to_device(where)
    for text in ("x > 5 AND f < 3", "x IS NULL OR f >= 8", "x < -100"):
        p = ss.PruningPredicate(text, SCHEMA)
        assert p.evaluate(stats, "cupy").tolist() == p.evaluate(host, "numpy").tolist()
        assert p.prune(stats, "cupy").tolist() == p.prune(host, "numpy").tolist()


def test_host_statistics_are_uploaded_for_one_call(where):
    stats, p = small(), ss.PruningPredicate("x > 5 AND f < 3", SCHEMA)
    assert p.prune(stats, "cupy").tolist() == p.prune(stats, "numpy").tolist()
    assert (
        here(where, p.survivors(stats, "cupy", out="device")).tolist()
        == p.survivors(stats, "numpy").tolist()
    )
    assert (stats.device, stats.device_nbytes) == (None, 0)
    assert stats.to_device().device == where.name


def test_few_containers_are_left_to_the_cpu(where, monkeypatch):
    stats, p = small().to_device(where), ss.PruningPredicate("x > 5", SCHEMA)
    p.prune(stats)
    assert p.backends_text == "numpy 1 times"
    monkeypatch.setattr(gpu, "MIN_CONTAINERS", 130)
    ss.PruningPredicate("x > 9", SCHEMA).prune(stats, "cupy")  # it waits for the same kernel
    p.prune(stats)
    assert p.backends_text == "numpy 1 times, cupy 1 times"
    assert f"device      {where.name}" in p.explain(stats)


def test_auto_does_not_wait_for_a_compiler(where, monkeypatch):
    """While the kernel of a new shape is compiled, "auto" uses the CPU; "cupy" waits."""
    stats, compiled = small().to_device(where), threading.Event()
    monkeypatch.setattr(gpu, "MIN_CONTAINERS", 0)
    monkeypatch.setattr(where, "ready", lambda text: compiled.is_set())
    function = where.function
    monkeypatch.setattr(where, "function", lambda text: (function(text), compiled.set())[0])
    p = ss.PruningPredicate("x > 5 AND f < 3 OR f >= 8 AND x < 9", SCHEMA)
    first = p.prune(stats).tolist()
    assert p.backends_text == "numpy 1 times"
    assert compiled.wait(60)
    assert p.prune(stats).tolist() == first
    assert p.backends_text == "numpy 1 times, cupy 1 times"


def test_copies_and_pickles_are_in_host_memory(where):
    p = ss.PruningPredicate("x > 5 AND f < 3", SCHEMA)
    x = small().get("x", "min").to_numpy()
    given = ss.Statistics.from_device({"x": {"min": where.upload(x)}}, SCHEMA, device=where)
    for stats in (
        small().to_device(where),
        small().index(block=10).to_device(where),
        given,
        given.index(block=20),
    ):
        for other in (pickle.loads(pickle.dumps(stats)), copy.copy(stats), copy.deepcopy(stats)):
            assert (other.device, other.device_nbytes) == (None, 0)
            assert p.evaluate(other).tolist() == p.evaluate(stats, "cupy").tolist()
        assert stats.device == where.name


def test_threads_share_statistics(where):
    host, rows = (
        small(2000),
        [f"x > {2**40 + v} AND f < {2**40 + 2 * v} AND x < {2**40 + 3 * v}" for v in range(24)],
    )
    predicates = [ss.PruningPredicate(t, SCHEMA) for t in rows]
    stats = host.to_device(where)
    with ThreadPoolExecutor(6) as callers:
        for found, p in zip(
            callers.map(lambda p: p.evaluate(stats, "cupy"), predicates), predicates, strict=True
        ):
            assert found.tolist() == p.evaluate(host, "numpy").tolist()
    assert stats.device_nbytes == 2000 * (8 + 8 + 4)


def test_saved_statistics(where, tmp_path):
    """Data from a file is verified before it is uploaded."""
    small(5000).index().save(tmp_path / "x.stats")
    p = ss.PruningPredicate("x > 5 AND f < 3 AND s > '003'", SCHEMA)
    loaded = ss.Statistics.load(tmp_path / "x.stats").to_device(where)
    assert p.evaluate(loaded, "cupy").tolist() == p.evaluate(small(5000)).tolist()
    loaded.save(tmp_path / "y.stats")
    assert (tmp_path / "y.stats").stat().st_size == (tmp_path / "x.stats").stat().st_size
    data = bytearray((tmp_path / "x.stats").read_bytes())
    at = data.find((np.arange(5000) * 7 % 101 + 2**40)[:64].tobytes())
    data[at] ^= 1
    (tmp_path / "z.stats").write_bytes(data)
    damaged = ss.Statistics.load(tmp_path / "z.stats").to_device(where)
    with pytest.raises(ss.StatisticsError, match="is damaged"):
        p.evaluate(damaged, "cupy")
    assert damaged.device_nbytes == 0


@pytest.mark.parametrize("call", ["prune", "evaluate", "survivors"])
def test_out_selects_the_memory(call, where):
    p, stats = ss.PruningPredicate("x > 5", SCHEMA), small()
    with pytest.raises(ss.SkipstoneError, match="statistics in host memory"):
        getattr(p, call)(stats, out="device")
    with pytest.raises(ss.SkipstoneError, match="'numba' returns results in host memory"):
        getattr(p, call)(stats.to_device(where), "numba", out="device")
    with pytest.raises(ss.SkipstoneError, match="expected 'host' or 'device'"):
        getattr(p, call)(stats, out="there")
