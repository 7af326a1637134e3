"""Kernels' texts become machine code without a device: what NVRTC says of them, and how it is kept."""

import re

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.kernels import nvrtc
from skipstone.kernels.cuda_text import DeviceShape, source_of
from tests.cuda_interpreted import MISSING
from tests.test_cuda import shapes
from tests.strategies import array_of
from skipstone.ir.types import from_arrow

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

TYPES = {f"{kind}{bits}": getattr(pa, f"{kind}{bits}")() for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
TYPES |= {"float32": pa.float32(), "float64": pa.float64(), "string": pa.string()}
COLUMNS = ("int64", "float64", "int32", "string", "float32", "int16")
LANE = "(x > 3 AND x <= 100) OR x = 2"
WIDE = pa.schema([(f"c{i}", TYPES[COLUMNS[i % len(COLUMNS)]]) for i in range(16)])


def leaf(i):
    return f"c{i} > '5'" if COLUMNS[i % len(COLUMNS)] == "string" else f"c{i} > {i}"


CASES = {
    **{name: (LANE if name != "string" else "x > '3' AND x <= '7' OR x = '2'", pa.schema([("x", t)])) for name, t in TYPES.items()},
    "1 leaf": (leaf(0), WIDE),
    "5 leaves": (" AND ".join(map(leaf, range(5))), WIDE),
    "5 leaves, nested": (f"({leaf(0)} OR NOT ({leaf(1)})) AND ({leaf(2)} OR {leaf(3)} AND c0 IS NOT NULL) OR {leaf(4)}", WIDE),
    "16 leaves": (" AND ".join(map(leaf, range(16))), WIDE),
    "planes": ("c0 IS NULL AND c1 IS NOT NULL OR c2 IS NULL", WIDE),
    "16 runs": (f"c0 IN ({', '.join(map(str, range(0, 64, 4)))})", WIDE),
    "a set of integers": (f"c0 NOT IN ({', '.join(map(str, range(0, 4000, 4)))}) OR c2 IN ({', '.join(map(str, range(0, 4000, 3)))})", WIDE),
    "a set of floats": (f"c1 IN ({', '.join(f'{i}.25' for i in range(100))})", WIDE),
}


def launch_of(name):
    """A launch in which no plane is constant and lanes are as wide as their types."""
    text, schema = CASES[name]
    i = np.arange(96)
    columns = {f.name: {"min": array_of(bounds(f.type, 0), f.type), "max": array_of(bounds(f.type, 1), f.type), "null_count": i % 3, "row_count": 2 + i % 2} for f in schema}
    return ss.Statistics.from_dict(columns, schema, row_count=i % 5).launch(ss.PruningPredicate(text, schema).program)


def bounds(arrow, shift):
    dtype = from_arrow(arrow)
    if dtype.coded:
        return [str(i % 9 + shift).encode() for i in range(96)]
    if not dtype.discrete:
        return [i / 4 + shift for i in range(96)]
    top = dtype.highest // 96
    return [i * top + shift for i in range(96)]
