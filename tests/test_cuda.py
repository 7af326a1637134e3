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
from skipstone.kernels import gpu, planes
from skipstone.kernels.cuda_text import TYPES, WARPS, DeviceShape, source_of, tile
from skipstone.kernels.launch import Launch
from skipstone.kernels.planes import word_count
from skipstone.kernels.resident import Resident
from skipstone.kernels.run import run
from tests.effort import LONG
from tests.predicates import predicate
from tests.strategies import array_of
from tests.test_backends import EDGES, SIZES, edge_statistics, random_zone_map
from tests.test_membership_kernels import TYPES as KEYED
from tests.test_membership_kernels import axis_values, containers

FORMS = ("all", "chosen", "many")


@pytest.fixture
def device(where):
    """The stand-in that watches; and the card, if there is one."""
    return where


def shapes(launch, forms=FORMS):
    """What a launch needs compiled."""
    return [DeviceShape(launch.shape, form) for form in forms if launch.params or form != "many"]


def compile_ahead(device, cases):
    """Kernels of (launch, forms), many at a time where the device can."""
    if hasattr(device, "compile"):
        device.compile(
            source_of(shape) for launch, forms in cases for shape in shapes(launch, forms)
        )


def agree(device, launch, r, forms=FORMS):
    """A launch's kernel in some forms, the first among them, compared with NumPy; the planes that gives."""
    if None not in launch.answers:
        return list(launch.answers)
    expected, resident = run(launch, "numpy").planes, Resident(device)
    got = gpu.run(launch, resident)
    same(got, expected)
    if "chosen" in forms:
        words = word_count(launch.n)
        todo = np.array(sorted(r.sample(range(words), r.randint(1, words))), np.uint32)
        same(
            gpu.run(launch, resident, todo),
            [p if isinstance(p, bool) else p[todo] for p in expected],
        )
    if "many" in forms:
        together(
            resident,
            [
                launch,
                *(
                    dataclasses.replace(launch, params=exchanged(launch.params, r))
                    for _ in range(2)
                ),
            ],
        )
    return got


def together(resident, launches):
    """Launches that differ in literals alone, by one kernel."""
    for one, verdicts in zip(launches, gpu.many_here(launches, resident), strict=True):
        assert np.array_equal(verdicts, planes.verdicts(run(one, "numpy").planes, one.n))


def exchanged(params, r):
    """Other literals of the same lanes."""
    return [r.choice([q for q in params if q.dtype == p.dtype]) for p in params]


def same(got, expected):
    for a, b in zip(got, expected, strict=True):
        assert a is b if isinstance(b, bool) else np.array_equal(a, b)


FEW_MASKS = "x >= 40 AND x < 90 AND y IN (3, 5, 8) AND z IS NOT NULL OR NOT (y = 4)"
MANY_MASKS = " OR ".join(f"x BETWEEN {k} AND {k + k % 4} AND y IS NULL" for k in range(0, 100, 9))


@pytest.mark.parametrize("n", SIZES[1:])
def test_sizes(n, device):
    """Of kernels in which each lane keeps its word of few masks, and of one that joins many."""
    stats = edge_statistics(0, n)
    for where in (FEW_MASKS, MANY_MASKS):
        agree(device, stats.launch(ss.PruningPredicate(where, EDGES).program), random.Random(n))


# Comparisons of each lane with each literal.

ENDS = {
    "i": lambda low, high: [low, low + 1, -1, 0, 1, 2**53, 2**53 + 1, high - 1, high],
    "u": lambda low, high: [0, 1, 2**31, 2**53, 2**53 + 1, 2**63, high - 1, high],
    "f": lambda low, high: [
        -math.inf,
        low,
        -1.0,
        -tiny(low),
        -0.0,
        0.0,
        tiny(low),
        2 * tiny(low),
        1e-40,
        1.0,
        1 + 2**-20,
        2.0**53,
        high,
        math.inf,
        math.nan,
    ],
}


def tiny(low):
    """The least denormal of the type whose least value is `low`."""
    return 5e-324 if low < -1e300 else 1e-45


def values_of(lane):
    dtype = np.dtype(lane)
    info = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    made = ENDS[dtype.kind](
        *(float(e) if dtype.kind == "f" else int(e) for e in (info.min, info.max))
    )
    return np.array([v for v in made if dtype.kind == "f" or info.min <= v <= info.max], dtype)


def pack(op, *args):
    return Node(Op.PACK, (Node(op, args),))


@pytest.mark.parametrize("lane", TYPES)
def test_comparisons(lane, device):
    values, array, literal = (
        values_of(lane),
        Node(Op.ARRAY, value=(0, lane)),
        Node(Op.PARAM, value=(0, lane)),
    )
    cases = [
        [Launch(len(values), (pack(op, array, literal),), [values], [], [v]) for v in values]
        for op in (Op.LT, Op.LE, Op.GT, Op.GE)
    ]
    compile_ahead(device, [(launches[0], FORMS) for launches in cases])
    for launches in cases:
        together(Resident(device), launches)
        agree(device, launches[0], random.Random(lane))


@pytest.mark.parametrize("ranges, room", [(40, 512), *[(300, gpu.PARAMETERS)] * LONG])
def test_more_literals_than_arguments_have_room_for(ranges, room, device, monkeypatch):
    """They lie in a table."""
    monkeypatch.setattr(gpu, "PARAMETERS", room)
    x, schema = np.arange(200) * ranges // 2, pa.schema([("x", pa.int64())])
    stats = ss.Statistics.from_dict({"x": {"min": x, "max": x + 3, "null_count": x * 0}}, schema)
    launch = stats.launch(
        ss.PruningPredicate(
            " OR ".join(f"x BETWEEN {k * 13} AND {k * 13 + 1 + k % 4}" for k in range(ranges)),
            schema,
        ).program
    )
    expected, todo = run(launch, "numpy").planes, np.array([1, 3], np.uint32)
    assert not gpu.literals_fit(launch)
    same(gpu.run(launch, Resident(device)), expected)
    same(gpu.run(launch, Resident(device), todo), [p[todo] for p in expected])


def test_more_columns_than_arguments_have_room_for(device):
    tests = [
        Node(Op.LT, (Node(Op.ARRAY, value=(k, "int8")), Node(Op.PARAM, value=(0, "int8"))))
        for k in range(600)
    ]
    launch = Launch(
        9, (pack(Op.AND, *tests),), [np.arange(9, dtype=np.int8) for _ in tests], [], [np.int8(5)]
    )
    with pytest.raises(ss.DeviceError, match="600 arrays of bounds; a kernel takes 4096 bytes"):
        gpu.run(launch, Resident(device))


# IN lists: few runs as literals, many with a directory, keys spread evenly and not.


@pytest.mark.parametrize("name", KEYED)
def test_sets(name, device):
    r, arrow = random.Random(f"cuda {name}"), KEYED[name]
    dtype, schema = from_arrow(arrow), pa.schema([("x", arrow)])
    cases = []
    for count in (1, 2, 20, 33, 150, 1000, 5000) if LONG else (2, 33, 1000):
        members = axis_values(r, dtype, count)
        bounds = containers(r, dtype, members, 150)
        low, high = (array_of([b[side] for b in bounds], arrow) for side in (0, 1))
        stats = ss.Statistics.from_dict(
            {"x": {"min": low, "max": high, "null_count": np.zeros(150, np.int64)}}, schema
        )
        facts = [
            oracle.column_facts(dtype, low=a, high=b, null_count=0, nan_count=None)
            for a, b in bounds
            if count <= 150
        ]  # NumPy speaks for longer ones
        values = [v.decode() for v in members] if dtype.coded else members
        asked = [
            ss.PruningPredicate(c, schema)
            for c in (ss.col("x").isin(values), ~ss.col("x").isin(values))
        ]
        cases += [
            (stats.launch(p.program), [oracle.verdict(p.node, {("x",): f}) for f in facts])
            for p in asked
        ]
    compile_ahead(device, [(launch, FORMS) for launch, _ in cases])
    for launch, expected in cases:
        got = planes.verdicts(agree(device, launch, r), 150).tolist()
        assert got == expected or not expected


# Random predicates over random statistics, sound and hostile.


@pytest.mark.parametrize("part", range(4 if LONG else 2))
def test_random_predicates(part, device):
    random_predicates(f"cuda {part}", 150 if LONG else 40, device)


def random_predicates(seed, wanted, device):
    """As many shapes as are wanted, in two forms of the three or all; how many there were."""
    r, cases, seen = random.Random(seed), [], set()
    while len(seen) < wanted:
        z, schema = random_zone_map(r, r.choice((3, 64, 65, 70, 200)))
        stats, facts = z.statistics(schema), [z.facts(j) for j in range(len(z.rows))]
        for _ in range(6):
            p = ss.PruningPredicate(predicate(r, z.fields, depth=r.choice((0, 1, 2))).sql, schema)
            launch = stats.launch(p.program)
            if launch.shape not in seen and None in launch.answers:
                seen.add(launch.shape)
                forms = FORMS if LONG else ("all", r.choice(FORMS[1:]))
                cases.append(
                    (
                        launch,
                        forms,
                        p,
                        [
                            oracle.verdict(p.node, f, rows)
                            for f, rows in zip(facts, z.rows, strict=True)
                        ],
                    )
                )
    compile_ahead(device, [case[:2] for case in cases])
    for launch, forms, p, expected in cases:
        assert planes.verdicts(agree(device, launch, r, forms), launch.n).tolist() == expected, (
            p.expr
        )
    return len(seen)


# Places that 32 bits cannot count.

VAST = 2**32 + 77
PLACES = (5, 2**31 - 1, 2**31 + 40, 2**32 - 1, 2**32, VAST - 1)


@pytest.mark.parametrize("form", FORMS)
def test_places_beyond_32_bits(form, device):
    """Of all containers but a few, bounds are 0; the blocks of these few are run, and those of words chosen."""
    if not hasattr(device, "only"):
        pytest.skip("only some blocks of a grid can be run by g++ alone")
    x, roots = (
        device.memory.vast(VAST, "int8"),
        (pack(Op.GT, Node(Op.ARRAY, value=(0, "int8")), Node(Op.PARAM, value=(0, "int8"))),),
    )
    x.bytes[list(PLACES)] = 1
    shape, words, rows = DeviceShape(roots, form), 2 * word_count(VAST), 2 if form == "many" else 1
    todo = np.unique(np.array(PLACES) // 64).astype(np.uint32)
    which = {
        "all": [],
        "chosen": [device.upload(todo), np.int64(len(todo))],
        "many": [np.int64(rows)],
    }[form]
    literals = [device.upload(np.array([0, 1], np.int8))] if form == "many" else [np.int8(0)]
    out = (
        device.empty(2 * len(todo), "uint32")
        if form == "chosen"
        else device.memory.vast(rows * words, "uint32")
    )
    each = tile(shape) * WARPS
    function = device.function(source_of(shape))
    for block in {0} if form == "chosen" else {place // 32 // each for place in PLACES}:
        device.only = range(block, block + 1)
        device.start(function, -(-words // each), [np.int64(VAST), *which, out, x, *literals])
    device.only = None
    found = planes.positions(out.bytes.view(np.uint64), VAST, todo if form == "chosen" else None)
    assert found.tolist() == list(PLACES)
