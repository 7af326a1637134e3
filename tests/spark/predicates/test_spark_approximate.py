"""Spark as the judge of functions whose last digits are not known here.

Spark's result must lie within the bounds of each row, and must equal results that are certain.
"""

import math

import numpy as np
import pyarrow as pa
import pytest

from skipstone.bindings.predicates.sql import parse
from skipstone.ir.bind import bind_scalar
from skipstone.ir.evaluation.bounded import bounds_of
from skipstone.ir.functions import angles, approximate, powers
from skipstone.ir.rows import values_of
from skipstone.ir.session import Session
from skipstone.ir.types import leaves_of

INF, NAN = math.inf, math.nan
RANDOM = np.random.default_rng(20)
EDGES = [
    0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, 8.0, 10.0, 100.0, 1000.0, 1e15, 1e22, 1e23, math.pi,
    math.pi / 2, math.pi / 4, 2 * math.pi, 1e5 * math.pi, 5e-324, 1e-310, 1e-20, 709.78, 709.79,
    710.0, -745.2, -708.5, 1.7e308, 1e300, 2.0**53, -8.0, -3.0, 1 + 2**-52, 1 - 2**-53, INF, -INF,
    NAN, None,
]  # fmt: skip
X = [
    *EDGES,
    *RANDOM.normal(0, 1, 150), *RANDOM.normal(0, 50, 100), *RANDOM.uniform(-1, 1, 100),
    *(RANDOM.choice((-1, 1), 150) * 10 ** RANDOM.uniform(-320, 308, 150)),
]  # fmt: skip
ONE = [n for f in (approximate, angles) for n in f.FUNCTIONS if n != "atan2"] + ["log"]
TWO = ["log", *(n for n in powers.FUNCTIONS if n != "log"), "atan2"]
# NumPy computes powers by a literal in other ways: the square root for 0.5.
WITH_LITERALS = [
    *(f"pow(x, {n})" for n in (0, 0.5, 1, 2, 3, -0.5, -1, -2, 0.25)),
    *(
        "pow(2, x)",
        "pow(-8, x)",
        "log(2, x)",
        "log(x, 2)",
        "log(1, x)",
        "hypot(x, 0)",
        "atan2(x, 0)",
    ),
    *("atan2(0, x)", "atan2(x, -1)"),
]


@pytest.fixture(scope="module")
def pairs():
    """Return two columns: each value alone beside a random one, and all pairs of edges."""
    x = [float(v) if v is not None else None for v in X]
    y = [x[i] for i in RANDOM.permutation(len(x))]
    x += [a for a in EDGES for _ in EDGES]
    y += EDGES * len(EDGES)
    return pa.record_batch({"x": pa.array(x, pa.float64()), "y": pa.array(y, pa.float64())})


def is_same(a, b):
    """Return True if two numbers are equal, and so are the signs of zeros."""
    return a == b and math.copysign(1, a) == math.copysign(1, b)


@pytest.mark.parametrize(
    "text", [f"{n}(x)" for n in ONE] + [f"{n}(x, y)" for n in TWO] + WITH_LITERALS
)
def test_sparks_results_lie_within_the_bounds(text, pairs, spark):
    found = (
        spark.createDataFrame(pa.Table.from_batches([pairs])).selectExpr(f"{text} AS v").toArrow()
    )
    theirs = found.column("v").combine_chunks()
    scalar = bind_scalar(parse(text)[0], leaves_of(pairs.schema), Session("UTC", True))
    bounds = bounds_of(scalar, lambda n: values_of(n, pairs, {}))
    low, high, value, null, nan, may_raise = (
        np.broadcast_to(a, len(theirs))
        for a in (bounds.low, bounds.high, bounds.may_hold_value, bounds.may_hold_null,
                  bounds.may_hold_nan, bounds.may_raise)
    )  # fmt: skip
    own = values_of(scalar, pairs, {})
    known = np.broadcast_to(~own.may_raise, len(theirs))
    wrong = []
    for i, v in enumerate(theirs.to_pylist()):
        if v is None:
            ok = null[i] and not (known[i] and own.valid[i])
        elif math.isnan(v):
            ok = nan[i] and (not known[i] or np.isnan(own.points[i]))
        else:
            ok = value[i] and low[i] <= v <= high[i] and (not known[i] or is_same(own.points[i], v))
        if not ok or may_raise[i]:
            wrong.append((*(pairs.column(c)[i].as_py() for c in "xy"), v, low[i], high[i]))
    assert wrong == []
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = high - low <= (1 + np.abs(high)) ** 2 * 2.0**-30
    far = np.array([v is None or not abs(v) < 1e3 for v in pairs["x"].to_pylist()])
    assert (null | nan | narrow | far).mean() > 0.9
