"""Functions whose last digits are not known: their bounds over containers, and tests of rows."""

import math

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings

import skipstone as ss
from skipstone.ir import types as ty
from skipstone.ir.function import Call
from skipstone.ir.functions import angles, approximate, powers
from skipstone.ir.interval import Interval, apply
from skipstone.ir.rows import evaluate_rows
from skipstone.ir.session import Session
from skipstone.ir.values import NO, YES
from tests.support.effort import LONG

FUNCTIONS = {**approximate.FUNCTIONS, **powers.FUNCTIONS, **angles.FUNCTIONS}
TWO = ("atan2", "log", *(n for n in powers.FUNCTIONS if n != "log"))
NEVER, MAYBE, ALWAYS = 0, 1, 2
NUMBERS = st.one_of(
    st.floats(allow_nan=False),
    st.floats(-10, 10),
    st.sampled_from([0.0, 1.0, -1.0, 2.0, math.pi, math.pi / 2, -math.pi / 2, math.tau]),
    st.integers(-20, 20).map(float),
)
BOXES = st.tuples(NUMBERS, NUMBERS, NUMBERS).map(sorted)


# A row in a box: its value, that with the other sign if it is zero, or NaN.
INSIDE, MINUS_ZERO, ALSO_NAN, ONLY_NAN = "inside", "minus zero", "also NaN", "only NaN"
ROWS_IN_A_BOX = st.sampled_from([INSIDE, MINUS_ZERO, ALSO_NAN, ONLY_NAN])


def interval(box, row):
    """Return the interval of a container: statistics do not tell 0.0 from -0.0."""
    low, high = np.array([box[0] + 0.0]), np.array([box[2] + 0.0])
    nan = NO if row in (INSIDE, MINUS_ZERO) else YES
    return Interval(ty.DOUBLE, low, high, NO, NO if row == ONLY_NAN else YES, NO, nan, NO)


def value(box, row):
    if row == MINUS_ZERO and box[1] == 0:
        return np.array([-0.0])
    return np.array([math.nan if row in (ALSO_NAN, ONLY_NAN) else box[1]])


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=1000 if LONG else 100)
@given(BOXES, BOXES, ROWS_IN_A_BOX, ROWS_IN_A_BOX)
@example([-3.0, 0.0, 2.0], [2.0, 2.0, 2.0], INSIDE, INSIDE)
@example([-math.inf, 1.0, math.inf], [0.0, 1.0, math.inf], INSIDE, INSIDE)
@example([0.0, 0.0, 5.0], [-1.0, -1.0, -1.0], MINUS_ZERO, INSIDE)
@example([2.0, 2.0, 2.0], [-1.0, 0.0, 1.0], ONLY_NAN, INSIDE)
@example([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], MINUS_ZERO, INSIDE)
@example([-20.0, -20.0, -20.0], [-3.0, -3.0, -3.0], INSIDE, INSIDE)
@example([-math.inf, -math.inf, -math.inf], [0.5, 0.5, 0.5], INSIDE, INSIDE)
@example([-1.0, -1.0, -1.0], [math.inf, math.inf, math.inf], INSIDE, INSIDE)
def test_bounds_hold_the_results_inside(name, a, b, row, other):
    boxes = [(a, row), (b, other)] if name in TWO else [(a, row)]
    call = Call(name, (ty.DOUBLE,) * len(boxes), ty.DOUBLE, Session())
    function = FUNCTIONS[name]
    found = apply(call, function, tuple(interval(*one) for one in boxes))
    with np.errstate(all="ignore"):
        out, bad = function.point(call, *(value(*one) for one in boxes))
    if bad[0] == 1:
        assert found.may_hold_null.all()
    elif np.isnan(out[0]):
        assert found.may_hold_nan.all()
    else:
        assert found.may_hold_value.all()
        assert (found.low <= out).all()
        assert (out <= found.high).all()


SCHEMA = pa.schema([("f", pa.float64()), ("g", pa.float64()), ("lat", pa.float64()),
                    ("lon", pa.float64())])  # fmt: skip
HAVERSINE = (
    "2 * asin(sqrt(pow(sin(radians(lat - 52) / 2), 2)"
    " + cos(radians(52)) * cos(radians(lat)) * pow(sin(radians(lon - 4.5) / 2), 2))) * 6371 < 10"
)
#   condition                bounds                                   verdict
CASES = [
    ("ln(f) > 3",            {"f": (1.0, 20.0)},                      NEVER),
    ("ln(f) > 3",            {"f": (1.0, 21.0)},                      MAYBE),
    ("ln(f) > 3",            {"f": (21.0, 90.0)},                     ALWAYS),
    ("ln(f) IS NULL",        {"f": (-2.0, 0.0)},                      ALWAYS),
    ("ln(f) < 0",            {"f": (-2.0, 0.5)},                      MAYBE),
    ("ln(f) > 0",            {"f": (-2.0, 0.5)},                      NEVER),
    ("log(2, f) >= 3",       {"f": (1.0, 7.9)},                       NEVER),
    ("log(0.5, f) > 0",      {"f": (1.1, 7.9)},                       NEVER),
    ("log(g, f) > 9",        {"f": (1.0, 7.9), "g": (0.5, 2.0)},      MAYBE),
    ("exp(f) < 0",           {"f": (-1e9, 1e9)},                      NEVER),
    ("f > exp(2)",           {"f": (1.0, 7.38)},                      NEVER),
    ("f > exp(2)",           {"f": (7.4, 8.0)},                       ALWAYS),
    ("exp(2) > 7",           {"f": (7.4, 8.0)},                       ALWAYS),
    ("acos(f) > 2",          {"f": (0.0, 0.9)},                       NEVER),
    ("asin(f) IS NULL",      {"f": (0.0, 2.0)},                       NEVER),
    ("cosh(f) > 2",          {"f": (-1.0, 1.0)},                      NEVER),
    ("pow(f, 2) < 4",        {"f": (2.1, 9.0)},                       NEVER),
    ("pow(f, 2) < 4",        {"f": (-9.0, -2.1)},                     NEVER),
    ("pow(f, 2) < 4",        {"f": (-9.0, 3.0)},                      MAYBE),
    ("pow(f, 2) < 0",        {"f": (-9.0, 3.0)},                      NEVER),
    ("pow(f, 3) > 28",       {"f": (-9.0, 3.0)},                      NEVER),
    ("pow(f, 0.5) > 3",      {"f": (0.0, 8.0)},                       NEVER),
    ("pow(f, 0.5) > 3",      {"f": (-1.0, 8.0)},                      MAYBE),  # NaN is greater
    ("pow(f, -1) < 0",       {"f": (0.0, 5.0)},                       MAYBE),  # -0.0
    ("pow(f, -1) < 0",       {"f": (0.1, 5.0)},                       NEVER),
    ("hypot(f, g) < 5",      {"f": (3.0, 9.0), "g": (-9.0, -4.1)},    NEVER),
    ("sin(f) > 0.5",         {"f": (3.2, 6.2)},                       NEVER),
    ("sin(f) > 0.5",         {"f": (0.6, 2.5)},                       ALWAYS),
    ("sin(f) > 1.1",         {"f": (-1e18, 1e18)},                    NEVER),
    ("cos(f) < -0.1",        {"f": (-1.0, 1.0)},                      NEVER),
    ("tan(f) > 1.6",         {"f": (-1.0, 1.0)},                      NEVER),
    ("tan(f) > 1.6",         {"f": (-1.0, 2.0)},                      MAYBE),
    ("cot(f) < 0",           {"f": (0.1, 1.5)},                       NEVER),
    ("cot(f) > 7",           {"f": (0.2, 3.0)},                       NEVER),
    ("cot(f) > 7",           {"f": (0.0, 3.0)},                       MAYBE),
    ("csc(f) > 0",           {"f": (0.0, 0.0)},                       MAYBE),  # or of -0.0
    ("sec(f) < 1",           {"f": (-1.0, 1.0)},                      MAYBE),  # but for the digits
    ("sec(f) < 0.99",        {"f": (-1.0, 1.0)},                      NEVER),
    ("csc(f) < 0.99",        {"f": (0.1, 3.0)},                       NEVER),
    ("atan2(f, g) > 1.6",    {"f": (-5.0, 5.0), "g": (0.5, 9.0)},     NEVER),
    ("atan2(f, g) > 1.6",    {"f": (-5.0, 5.0), "g": (-0.5, 9.0)},    MAYBE),
    ("e() < f",              {"f": (1.0, 2.7)},                       NEVER),
    (HAVERSINE,              {"lat": (52.1, 53.0), "lon": (4.0, 5.0)}, NEVER),
    (HAVERSINE,              {"lat": (51.9, 52.1), "lon": (4.4, 4.6)}, MAYBE),
    (HAVERSINE,              {"lat": (51.99, 52.01), "lon": (4.49, 4.51)}, ALWAYS),
    (HAVERSINE,              {"lat": (51.9, 52.1), "lon": (5.0, 6.0)}, NEVER),
]  # fmt: skip


@pytest.mark.parametrize(("text", "bounds", "expected"), CASES)
def test_verdicts(text, bounds, expected):
    columns = {
        name: {"min": [low], "max": [high], "null_count": [0], "nan_count": [0]}
        for name, (low, high) in bounds.items()
    }
    stats = ss.Statistics.from_dict(columns, SCHEMA, row_count=[5])
    assert ss.PruningPredicate(text, SCHEMA).evaluate(stats).tolist() == [expected]


def rows(text, **columns):
    batch = pa.record_batch({k: pa.array(v, pa.float64()) for k, v in columns.items()})
    return evaluate_rows(ss.PruningPredicate(text, batch.schema).node, batch).to_pylist()


F = [0.5, 1.0, 3.0, -1.0, None, math.nan, math.inf]
#   condition                   outcomes
ROWS = [
    ("ln(f) > 0",               [False, False, True, None, None, True, True]),
    ("ln(f) IS NULL",           [False, False, False, True, True, False, False]),
    ("NOT ln(f) > 0",           [True, True, False, None, None, False, False]),
    ("exp(f) IN (2, 3, 4)",     [False, False, False, False, None, False, False]),
    ("exp(f) BETWEEN 2 AND 3",  [False, True, False, False, None, False, False]),
    ("exp(f) <=> double('NaN')", [False, False, False, False, False, True, False]),
    ("round(exp(f), 2) = 2.72", [False, True, False, False, None, False, False]),
    ("round(exp(f) * 1e300D) > 9", [True, True, True, True, None, True, True]),
    ("TRY_CAST(exp(f) * 1e300D AS DECIMAL(9, 2)) IS NULL",
     [True, True, True, True, True, True, True]),
    ("coalesce(ln(f), -9) < 0", [True, False, False, True, True, False, False]),
    ("CASE WHEN ln(f) > 1 THEN 'a' ELSE 'b' END = 'a'",
     [False, False, True, False, False, True, True]),
    ("if(sin(f) > 0, 1, 2) + f = 4", [False, False, True, False, None, False, False]),
    ("log10(f) = 0",            [False, True, False, None, None, False, False]),
    ("cbrt(f) < 2",             [True, True, True, True, None, False, False]),
    ("cos(f) IN (1, 2)",        [False, False, False, False, None, False, False]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), ROWS)
def test_rows(text, expected):
    assert rows(text, f=F) == expected


@pytest.mark.parametrize(
    "text", ["ln(s) > 0", "sqrt(s) > 1", "pow(s, '2') > 1", "atan2(s, 9) > 0.2"]
)
def test_text_is_read_as_a_double(text):
    batch = pa.record_batch({"s": ["1", " 2.0 ", None]})
    found = evaluate_rows(ss.PruningPredicate(text, batch.schema).node, batch)
    assert found.to_pylist() == [False, True, None]
    malformed = pa.record_batch({"s": ["a"]})
    predicate = ss.PruningPredicate(text, malformed.schema, ansi=False)
    assert evaluate_rows(predicate.node, malformed).to_pylist() == [None]


def test_rows_that_the_last_digit_decides_are_refused():
    e = math.exp(1.0)
    for text in ("exp(f) = {}", "exp(f) < {}", "exp(f) IN (1, {})", "exp(f) BETWEEN {} AND 9"):
        with pytest.raises(ss.UnsupportedForm, match=r"the last digits of Spark's exp\(f\) where"):
            rows(text.format(f"{e!r}D"), f=[1.0])
    assert rows(f"f = 1 OR exp(f) = {e!r}D", f=[1.0, 2.0]) == [True, False]


def test_many_rows_are_judged_in_parts():
    f = np.random.default_rng(3).normal(0, 3, 300_000)
    assert rows("exp(f) > 2", f=f) == (f > math.log(2)).tolist()


#   condition                        outcomes, which are certain
CERTAIN = [
    ("pow(f, -1) = g",               [(0.0, math.inf, True), (-0.0, math.inf, False)]),
    ("pow(f, 0.5) = g",              [(-math.inf, math.inf, True), (-0.0, 0.0, True)]),
    ("CAST(pow(f, 0.5) AS STRING) = '0.0'", [(-0.0, 0.0, True), (0.0, 0.0, True)]),
    ("pow(f, 1) = g",                [(0.1, 0.1, True), (-0.0, 0.0, True)]),
    ("pow(f, g) < 10",               [(-20.0, -20.0, True), (-2.0, 5.0, True), (2.0, -0.5, True)]),
    ("log(f, g) = 0",                [(math.inf, 2.0, True), (3.0, 1.0, True), (1.0, 2.0, False)]),
    ("hypot(f, g) = 0",              [(0.0, -0.0, True), (math.inf, math.nan, False)]),
    ("atan2(f, g) <= 0",             [(0.0, 5.0, True), (0.0, -5.0, False), (-1.0, 0.0, True)]),
    ("atan2(f, g) = pi()",           [(0.0, -5.0, True), (-0.0, -1e-9, True), (1.0, 0.0, False)]),
    ("csc(f) = g",                   [(0.0, math.inf, True), (-0.0, -math.inf, True)]),
    ("cot(f) = g",                   [(0.0, math.inf, True), (-0.0, -math.inf, True)]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "cases"), CERTAIN)
def test_special_cases_are_certain(text, cases):
    f, g, expected = zip(*cases, strict=True)
    assert rows(text, f=f, g=g) == list(expected)


@pytest.mark.parametrize(
    "name", ["asin", "atan", "cbrt", "expm1", "log1p", "sin", "sinh", "tan", "tanh"]
)
def test_the_result_for_minus_zero_is_minus_zero(name):
    assert rows(f"CAST({name}(f) AS STRING) = '-0.0'", f=[0.0, -0.0]) == [False, True]


@pytest.mark.parametrize("text", ["floor(cbrt(f)) = 1", "CAST(exp(f) AS STRING) = 'a'"])
def test_functions_of_uncertain_values_are_refused(text):
    with pytest.raises(ss.UnsupportedForm, match=r"last digits of Spark's \w+\(f\) where f is 1"):
        rows(text, f=[1.0])


def test_nan_to_the_power_of_zero_is_one():
    columns = {
        "f": {"null_count": [0], "nan_count": [5]},
        "g": {"min": [-1.0], "max": [1.0], "null_count": [0], "nan_count": [0]},
    }
    stats = ss.Statistics.from_dict(columns, SCHEMA, row_count=[5])
    assert ss.PruningPredicate("pow(f, g) = 1", SCHEMA).prune(stats).tolist() == [True]


def test_results_that_are_certain_do_not_depend_on_numpy():
    """With AVX512, NumPy once returned less than 1 for the cosine of 0 (numpy#23773)."""
    for formula, x, exact in ((np.cos, 0.0, 1.0), (np.log, 1.0, 0.0), (np.exp, 0.0, 1.0)):
        near_it = approximate.settled(lambda v, f=formula: f(v) - 1e-16, {x: exact})
        assert near_it(np.array([x, 0.5])).tolist() == [exact, float(formula(0.5)) - 1e-16]
    assert powers._power(np.array([3.0]), np.array([5.0])).tolist() == [243.0]
