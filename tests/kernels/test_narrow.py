"""Test that narrow types keep every outcome, above all at the ends of types."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.ir import types as ty
from skipstone.ir.evaluation import oracle
from skipstone.kernels.pack.columns import ColumnStatistics, pack_column
from skipstone.kernels.pack.narrow import narrowest
from tests.support.effort import LONG

TYPES = {
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "decimal(3,0)": pa.decimal128(3, 0),
}


def column(arrow, low, high):
    return pack_column(
        ColumnStatistics(pa.array(low, arrow), pa.array(high, arrow)),
        ty.from_arrow(arrow),
        len(low),
    )


#     type        lows               highs             NumPy type
NARROWEST = [
    ("int64", [0, -127], [5, 126], "int8"),
    ("int64", [0, -128], [5, 6], "int16"),  # the ends replace unknown bounds
    ("int64", [0], [127], "int16"),
    ("int64", [None, 1], [32766, None], "int16"),
    ("int64", [0], [32767], "int32"),
    ("int64", [0], [2**31 - 2], "int32"),
    ("int64", [0], [2**31 - 1], "int64"),
    ("int64", [None], [None], "int64"),
    ("int32", [0], [40000], "int32"),
    ("uint64", [0], [126], "int8"),  # its lowest value, 0, fits the type
    ("uint32", [0], [32766], "int16"),
    ("decimal(3,0)", [-999], [999], "int16"),  # both ends of the type fit
]


@pytest.mark.parametrize("name, low, high, numpy_type", NARROWEST)
def test_bounds_are_stored_in_the_narrowest_type(name, low, high, numpy_type):
    packed = column(TYPES[name], low, high)
    assert packed.numpy_type == numpy_type
    assert all(a is None or str(a.dtype) == numpy_type for a in (packed.low, packed.high))


def test_garbage_under_nulls_does_not_widen():
    values = pa.Array.from_buffers(
        pa.int64(), 2, [pa.py_buffer(b"\x01"), pa.py_buffer(np.array([5, 2**60]).tobytes())]
    )
    assert pack_column(ColumnStatistics(values, values), ty.INT64, 2).numpy_type == "int8"


def test_small_types_stay():
    assert narrowest(0, 1, ty.INT16) == "int16"
    assert narrowest(0, 1, ty.BOOL) == "uint8"
    assert narrowest(0, 1, ty.DOUBLE) == "float64"


EDGES = [-(2**31), -32768, -128, 0, 127, 32767, 2**31 - 1]
TESTS = [
    "x < {}",
    "x <= {}",
    "x = {}",
    "x >= {}",
    "x > {}",
    "x <> {}",
    "x IN ({}, 3)",
    "x NOT IN ({}, 3)",
]


def near(edge, dtype):
    return [v for v in range(edge - 2, edge + 3) if dtype.lowest <= v <= dtype.highest]


@pytest.mark.parametrize("name", ["int32", "int64", "uint32", "uint64", "decimal(3,0)"])
def test_outcomes_around_the_ends(name, backend):
    """All bounds near one end, and literals near every end, against the oracle."""
    arrow = TYPES[name]
    dtype = ty.from_arrow(arrow)
    schema = pa.schema([("x", arrow)])
    literals = sorted({v for e in [*EDGES, dtype.lowest, dtype.highest] for v in near(e, dtype)})
    predicates = {
        (t, v): ss.PruningPredicate(t.format(v), schema)
        for t, v in itertools.product(TESTS, literals)
    }
    if backend == "numba":
        predicates = dict(list(predicates.items())[:: len(literals) // 2])
    for edge in EDGES:
        values = [None, *near(edge, dtype)]
        pairs = [
            (a, b) for a, b in itertools.product(values, values) if a is None or b is None or a <= b
        ]
        stats = ss.Statistics.from_dict(
            {
                "x": {
                    "min": [a for a, _ in pairs],
                    "max": [b for _, b in pairs],
                    "null_count": [0] * len(pairs),
                }
            },
            schema,
        )
        facts = [
            {("x",): oracle.column_facts(dtype, low=a, high=b, null_count=0)} for a, b in pairs
        ]
        here = near(edge, dtype)
        for k, ((_, literal), p) in enumerate(predicates.items()):
            if not LONG and literal not in here and k % 5:
                continue
            assert p.evaluate(stats, backend).tolist() == [
                oracle.verdict(p.node, f) for f in facts
            ], (p, edge)
