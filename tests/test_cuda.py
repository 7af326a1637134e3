"""The text of CUDA kernels, in all its forms, equals the oracle bit for bit, on a device that watches every access."""

import dataclasses
import math
import random

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.ir import oracle
from skipstone.ir.node import Node, Op
from skipstone.ir.types import from_arrow
from skipstone.kernels import planes
from skipstone.kernels.cuda_text import TYPES, DeviceShape, source_of
from skipstone.kernels.launch import Launch
from skipstone.kernels.planes import word_count
from skipstone.kernels.run import run
from tests.cuda_launches import judged, judged_many
from tests.effort import LONG
from tests.predicates import predicate
from tests.strategies import array_of
from tests.test_backends import SIZES, edge_predicate, edge_statistics, random_zone_map
from tests.test_membership_kernels import TYPES as KEYED
from tests.test_membership_kernels import axis_values, containers


def shapes(launch):
    """What a launch needs compiled."""
    forms = ("all", "chosen", "many") if launch.params else ("all", "chosen")
    return [DeviceShape(launch.shape, form) for form in forms]


def compile_ahead(device, launches):
    """Many at a time, where the device can."""
    if hasattr(device, "compile"):
        device.compile(source_of(s) for launch in launches if None in launch.answers for s in shapes(launch))


def agree(device, launch, r):
    """Every form of a launch's kernel, compared with NumPy; the planes of the first."""
    if None not in launch.answers:
        return list(launch.answers)
    expected = run(launch, "numpy").planes
    got = judged(device, launch)
    same(got, expected)
    words = word_count(launch.n)
    todo = np.array(sorted(r.sample(range(words), r.randint(1, words))), np.uint32)
    same(judged(device, launch, todo), [p if isinstance(p, bool) else p[todo] for p in expected])
    if DeviceShape(launch.shape, "many") in shapes(launch):
        others = [launch, *(dataclasses.replace(launch, params=exchanged(launch.params, r)) for _ in range(2))]
        for one, planes_of_one in zip(others, judged_many(device, others), strict=True):
            same(planes_of_one, run(one, "numpy").planes)
    return got


def exchanged(params, r):
    """Other literals of the same lanes."""
    return [r.choice([q for q in params if q.dtype == p.dtype]) for p in params]


def same(got, expected):
    for a, b in zip(got, expected, strict=True):
        assert a is b if isinstance(b, bool) else np.array_equal(a, b)


@pytest.mark.parametrize("n", SIZES[1:])
def test_sizes(n, device):
    p, all_of_them = edge_predicate()
    launch = edge_statistics(0, n).launch(p.program)
    got = agree(device, launch, random.Random(n))
    assert planes.verdicts(got, n).tolist() == all_of_them[:n].tolist()


# Comparisons of each lane with each literal.

EDGES = {
    "i": lambda low, high: [low, low + 1, -1, 0, 1, 2**53, 2**53 + 1, high - 1, high],
    "u": lambda low, high: [0, 1, 2**31, 2**53, 2**53 + 1, 2**63, high - 1, high],
    "f": lambda low, high: [-math.inf, low, -1.0, -tiny(low), -0.0, 0.0, tiny(low), 2 * tiny(low), 1e-40, 1.0, 1 + 2**-20, 2.0**53, high, math.inf, math.nan],
}


def tiny(low):
    """The least denormal of the type whose least value is `low`."""
    return 5e-324 if low < -1e300 else 1e-45


def values_of(lane):
    dtype = np.dtype(lane)
    info = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    made = EDGES[dtype.kind](*(float(e) if dtype.kind == "f" else int(e) for e in (info.min, info.max)))
    return np.array([v for v in made if dtype.kind == "f" or info.min <= v <= info.max], dtype)


def pack(op, *args):
    return Node(Op.PACK, (Node(op, args),))


@pytest.mark.parametrize("lane", TYPES)
def test_comparisons(lane, device):
    values, array, literal = values_of(lane), Node(Op.ARRAY, value=(0, lane)), Node(Op.PARAM, value=(0, lane))
    roots = tuple(pack(op, array, literal) for op in (Op.LT, Op.LE, Op.GT, Op.GE))
    launches = [Launch(len(values), roots, [values], [], [v]) for v in values]
    for launch, got in zip(launches, judged_many(device, launches), strict=True):
        same(got, run(launch, "numpy").planes)
    agree(device, launches[0], random.Random(lane))


# IN lists: few runs as literals, many with a directory, keys spread evenly and not.


@pytest.mark.parametrize("name", KEYED)
def test_sets(name, device):
    r, arrow = random.Random(f"cuda {name}"), KEYED[name]
    dtype, schema = from_arrow(arrow), pa.schema([("x", arrow)])
    cases = []
    for count in (1, 2, 20, 33, 150, 1000, 5000):
        members = axis_values(r, dtype, count)
        bounds = containers(r, dtype, members, 150)
        low, high = (array_of([b[side] for b in bounds], arrow) for side in (0, 1))
        stats = ss.Statistics.from_dict({"x": {"min": low, "max": high, "null_count": np.zeros(150, np.int64)}}, schema)
        facts = [oracle.column_facts(dtype, low=a, high=b, null_count=0, nan_count=None) for a, b in bounds if count <= 150]  # NumPy speaks for longer ones
        values = [v.decode() for v in members] if dtype.coded else members
        asked = [ss.PruningPredicate(c, schema) for c in (ss.col("x").isin(values), ~ss.col("x").isin(values))]
        cases += [(stats.launch(p.program), [oracle.verdict(p.node, {("x",): f}) for f in facts]) for p in asked]
    compile_ahead(device, [launch for launch, _ in cases])
    for launch, expected in cases:
        got = planes.verdicts(agree(device, launch, r), 150).tolist()
        assert got == expected or not expected


# Random predicates over random statistics, sound and hostile.


@pytest.mark.parametrize("part", range(8 if LONG else 2))
def test_random_predicates(part, device):
    random_predicates(f"cuda {part}", 300 if LONG else 40, device)


def random_predicates(seed, wanted, device):
    """As many shapes as are wanted, in all forms."""
    r, cases, seen = random.Random(seed), [], set()
    while len(seen) < wanted:
        z, schema = random_zone_map(r, r.choice((3, 64, 65, 70, 200)))
        stats, facts = z.statistics(schema), [z.facts(j) for j in range(len(z.rows))]
        for _ in range(6):
            p = ss.PruningPredicate(predicate(r, z.fields, depth=r.choice((0, 1, 2))).sql, schema)
            launch = stats.launch(p.program)
            if launch.shape not in seen and None in launch.answers:
                seen.add(launch.shape)
                cases.append((launch, p, [oracle.verdict(p.node, f, rows) for f, rows in zip(facts, z.rows, strict=True)]))
    compile_ahead(device, [launch for launch, *_ in cases])
    for launch, p, expected in cases:
        assert planes.verdicts(agree(device, launch, r), launch.n).tolist() == expected, p.expr
