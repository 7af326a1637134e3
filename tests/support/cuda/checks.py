"""Checks of CUDA kernels that every stand-in device must pass."""

import math
import random

import numpy as np
import pyarrow as pa

import skipstone as ss
from skipstone.ir.evaluation import oracle
from skipstone.ir.node import Node, Op
from skipstone.ir.types import from_arrow
from skipstone.kernels.gpu.resident import Resident
from skipstone.kernels.pack import planes
from skipstone.kernels.run.launch import Launch
from tests.support.cuda.shapes import (
    FORMS,
    agree,
    compile_ahead,
    together,
)
from tests.support.effort import LONG
from tests.support.rows.strategies import array_of
from tests.support.statistics.backends import EDGES, edge_statistics
from tests.support.statistics.membership import TYPES as KEYED
from tests.support.statistics.membership import axis_values, containers

FEW_MASKS = "x >= 40 AND x < 90 AND y IN (3, 5, 8) AND z IS NOT NULL OR NOT (y = 4)"


MANY_MASKS = " OR ".join(f"x BETWEEN {k} AND {k + k % 4} AND y IS NULL" for k in range(0, 100, 9))


def check_sizes(n, device):
    """Check kernels whose lanes keep their words of a few masks, and one that joins many masks."""
    stats = edge_statistics(0, n)
    for where in (FEW_MASKS, MANY_MASKS):
        agree(device, stats.launch(ss.PruningPredicate(where, EDGES).program), random.Random(n))


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
    """Return the smallest denormal of the type whose least value is `low`."""
    return 5e-324 if low < -1e300 else 1e-45


def values_of(numpy_type):
    dtype = np.dtype(numpy_type)
    info = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    made = ENDS[dtype.kind](
        *(float(e) if dtype.kind == "f" else int(e) for e in (info.min, info.max))
    )
    return np.array([v for v in made if dtype.kind == "f" or info.min <= v <= info.max], dtype)


def pack(op, *args):
    return Node(Op.PACK, (Node(op, args),))


def check_comparisons(numpy_type, device):
    values, array, literal = (
        values_of(numpy_type),
        Node(Op.ARRAY, value=(0, numpy_type)),
        Node(Op.PARAM, value=(0, numpy_type)),
    )
    cases = [
        [Launch(len(values), (pack(op, array, literal),), [values], [], [v]) for v in values]
        for op in (Op.LT, Op.LE, Op.GT, Op.GE)
    ]
    compile_ahead(device, [(launches[0], FORMS) for launches in cases])
    for launches in cases:
        together(Resident(device), launches)
        agree(device, launches[0], random.Random(numpy_type))


def check_sets(name, device):
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
        ]  # NumPy checks longer ones
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
