"""Test IN and NOT IN of any length: the directory's edges, and backends against the oracle."""

import itertools
import math
import random

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.ir.evaluation import oracle
from skipstone.ir.types import from_arrow
from skipstone.kernels.pack.keys import PER_BUCKET, STEPS, buckets_of, keys_of, runs_of
from tests.support.effort import LONG
from tests.support.rows.strategies import array_of
from tests.support.statistics.membership import TYPES, axis_values, containers

LOW, HIGH = -(2**63), 2**63 - 1
DENORMAL = 5e-324
HUGE = 1.7976931348623157e308

#     values                                                          numpy_type
SETS = [
    ([7], "int64"),
    ([LOW], "int64"),
    ([LOW, HIGH], "int64"),  # the difference exceeds the type's range
    ([LOW, LOW + 1, -1, 0, HIGH - 1, HIGH], "int64"),
    (range(-500, 500), "int64"),  # one run
    (range(0, 4000, 2), "int64"),
    ([*range(2000), 2**62], "int64"),  # a huge gap: all but one are in one bucket
    ([2**62 + i * 3 for i in range(3000)], "int64"),  # closer together than doubles
    ([1 << i for i in range(63)], "int64"),
    (range(-128, 128, 3), "int8"),
    (range(-128, 128), "int8"),
    (range(0, 256, 5), "uint8"),
    (range(-32768, 32767, 7), "int16"),
    ([0, 2**64 - 1, *range(2**63, 2**63 + 900, 3)], "uint64"),
    ([-math.inf, math.inf], "float64"),
    ([-math.inf], "float64"),
    ([-HUGE, 0.0, HUGE], "float64"),
    ([0.0, DENORMAL, 2 * DENORMAL], "float64"),
    ([-math.inf, *[i / 7 for i in range(-300, 300)], HUGE, math.inf], "float64"),
    ([float(np.float32(1.1**i)) for i in range(-200, 200)], "float32"),
]
NAMES = [f"{numpy_type}, {len(v)} from {v[0]}" for v, numpy_type in SETS]


@pytest.mark.parametrize("values, numpy_type", SETS, ids=NAMES)
def test_every_end_lies_at_its_place(values, numpy_type):
    """The directory counts the ends before a bucket, and holds each end's place unless it is too
    full.
    """
    firsts, lasts = runs_of(np.array(sorted(values), numpy_type), numpy_type[0] in "iu")
    keys = keys_of(firsts, lasts)
    for ends, lines in ((keys.firsts, keys.first_lines), (keys.lasts, keys.last_lines)):
        places, buckets = buckets_of(ends, keys.frame), len(lines) // 16 - 1
        assert (np.diff(places) >= 0).all() and lines.ctypes.data % 64 == 0
        assert places[0] >= 0 and places[-1] < buckets * STEPS
        slots = lines.view(np.uint16).reshape(-1, 32)[:, 2:]
        counts = [(places < b * STEPS).sum() for b in range(buckets + 1)]
        for b, (start, stop) in enumerate(itertools.pairwise(counts)):
            full = stop - start > PER_BUCKET
            assert lines[16 * b] == (-1 - start if full else start)
            if not full:
                assert slots[b, : stop - start].tolist() == (places[start:stop] % STEPS).tolist()
        assert lines[16 * buckets] == len(ends)
    if keys.frame[3]:
        assert len(np.unique(buckets_of(keys.lasts, keys.frame))) == len(keys.lasts)


#     values                  discrete   runs
RUNS = [
    ([1, 2, 3], True, [(1, 3)]),
    ([1, 2, 3], False, [(1, 1), (2, 2), (3, 3)]),
    ([1, 3, 4, 9], True, [(1, 1), (3, 4), (9, 9)]),
    ([126, 127, 127, 127], True, [(126, 127)]),  # 127 replaces larger values
    (
        [-128, -128, 127],
        True,
        [(-128, -128), (127, 127)],
    ),  # the value after the greatest is not the least
    ([5], True, [(5, 5)]),
]


@pytest.mark.parametrize("values, discrete, runs", RUNS)
def test_runs(values, discrete, runs):
    firsts, lasts = runs_of(np.array(values, np.int8), discrete)
    assert list(zip(firsts.tolist(), lasts.tolist(), strict=True)) == runs


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("seed", range(2 if LONG else 1))
def test_backends_equal_the_oracle(name, seed):
    r, arrow = random.Random(f"{name} {seed}"), TYPES[name]
    dtype, schema = from_arrow(arrow), pa.schema([("x", arrow)])
    for count in (1, 2, 20, 33, 150, 1000, 5000) if LONG else (2, 33, 1000):
        members = axis_values(r, dtype, count)
        bounds = containers(r, dtype, members, 150)
        low, high = ([b[side] for b in bounds] for side in (0, 1))
        stats = ss.Statistics.from_dict(
            {
                "x": {
                    "min": array_of(low, arrow),
                    "max": array_of(high, arrow),
                    "null_count": np.zeros(150, np.int64),
                }
            },
            schema,
        )
        values = [v.decode() for v in members] if dtype.coded else members
        for p in (
            ss.PruningPredicate(c, schema)
            for c in (ss.col("x").isin(values), ~ss.col("x").isin(values))
        ):
            facts = [
                oracle.column_facts(dtype, low=a, high=b, null_count=0, nan_count=None)
                for a, b in bounds
            ]
            expected = [oracle.verdict(p.node, {("x",): f}) for f in facts]
            for backend in ("numpy", "numba"):
                assert p.evaluate(stats, backend).tolist() == expected, (backend, p.expr)


def test_one_kernel_serves_sets_of_any_size_and_content():
    schema = pa.schema([("x", pa.int64())])
    stats = ss.Statistics.from_dict(
        {"x": {"min": [2**40, 2**41], "max": [2**50, 2**42], "null_count": [0, 0]}}, schema
    )

    def shapes(*sets):
        return {
            stats.launch(ss.PruningPredicate(ss.col("x").isin(list(s)), schema).program).shape
            for s in sets
        }

    assert (
        len(shapes(range(0, 9000, 7), range(0, 34, 2), [*range(5000), *range(2**40, 2**45, 2**40)]))
        == 1
    )
    # Few runs become literals: 1, 2, 4, 8 or 16 pairs of them, or single values.
    assert len(shapes([1, 2], [1, 2, 3], range(5000))) == 1
    assert len(shapes([1, 3], [2**40, 2**62])) == 1
    assert len(shapes([1, 3, 5], [2**40, 7, 2**62, 9])) == 1
    assert len(shapes(*(range(0, 2 * k, 2) for k in range(2, 17)))) == 4


SOURCES = {
    "numpy": (np.array([3, 1, 3, 2**40]), "x IN (1, 3, 1099511627776)"),
    "arrow": (pa.array([3, None, 1], pa.int16()), "NULL OR x IN (1, 3)"),
    "chunked": (pa.chunked_array([[3], [1]]), "x IN (1, 3)"),
    "list": ([3, 1, None, True], None),
    "unsigned beyond BIGINT": (np.array([1, 2**64 - 1], np.uint64), "x = 1"),
    "floats": (np.array([1.5, 2.0, math.nan]), "x = 2"),
    "float32": (np.array([1.5, 2.0], np.float32), "x = 2"),
    "nothing": (np.array([], np.int64), "false"),
    "text": (pa.array(["b", "a", "b"]), None),
}


@pytest.mark.parametrize("name", SOURCES)
def test_arrays_mean_what_their_values_mean(name):
    values, _ = SOURCES[name]
    column = "s" if name == "text" else "x"
    schema = pa.schema([("x", pa.int64()), ("s", pa.string())])
    plain = (
        values.tolist()
        if isinstance(values, np.ndarray)
        else [v.as_py() if isinstance(v, pa.Scalar) else v for v in values]
    )
    one_by_one = ss.col(column).isin(iter(plain))  # an iterator, so values are read one by one
    assert ss.PruningPredicate(ss.col(column).isin(values), schema) == ss.PruningPredicate(
        one_by_one, schema
    )


@pytest.mark.parametrize("ascending", [False, True])
def test_long_sets_over_many_containers(ascending, backend):
    """NumPy sorts the containers for such sets, and there are more containers than in a block."""
    r = np.random.default_rng(5)
    keys, low = np.unique(r.integers(0, 2**50, 40_000)), r.integers(0, 2**50, 70_001)
    low = np.sort(low) if ascending else low
    low[::7] = keys[r.integers(0, len(keys), len(low[::7]))]
    high = low + r.integers(0, 2, len(low)) * r.integers(0, 2**35, len(low))
    schema = pa.schema([("x", pa.int64())])
    stats = ss.Statistics.from_dict(
        {"x": {"min": low, "max": high, "null_count": np.zeros(len(low), np.int64)}}, schema
    )
    start, stop = np.searchsorted(keys, low, "left"), np.searchsorted(keys, high, "right")
    expected = np.where(start == stop, 0, np.where(low == high, 2, 1))
    assert (
        ss.PruningPredicate(ss.col("x").isin(keys), schema).evaluate(stats, backend) == expected
    ).all()
