"""User-defined functions: their verdicts, their values, and their errors."""

import datetime as dt
import pickle
import subprocess
import sys
import warnings
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from tests.support.predicates.schemas import FUNCTIONS as SCHEMA

NEVER, MAYBE, ALWAYS = 0, 1, 2
D = dt.date


def at(*parts):
    return dt.datetime(*parts, tzinfo=dt.UTC)


@pytest.fixture
def name(request):
    return "own_" + request.node.name.translate(str.maketrans("[]-", "___"))


def verdict_of(text, backend="auto", **columns):
    given = {
        k: {"min": [v[0]], "max": [v[1]], "null_count": [0], "nan_count": [0]}
        for k, v in columns.items()
    }
    return int(
        ss.PruningPredicate(text, SCHEMA).evaluate(
            ss.Statistics.from_dict(given, SCHEMA, row_count=[3]), backend
        )[0]
    )


def test_a_monotone_function(name, backend):
    ss.register_function(name, lambda x: 100 - x, returns=pa.int64(), monotone="decreasing")
    assert verdict_of(f"{name}(x) > 99", backend, x=(1, 4)) == NEVER
    assert verdict_of(f"{name}(x) >= 96", backend, x=(1, 4)) == ALWAYS
    assert verdict_of(f"{name.upper()}(x) = 97", backend, x=(1, 4)) == MAYBE
    assert verdict_of(f"{name}(x) IS NULL", backend, x=(1, 4)) == NEVER


def test_a_range(name):
    ss.register_function(
        name,
        lambda x: x * x,
        returns=pa.int64(),
        range=lambda lo, hi: (
            np.where((lo < 0) & (hi > 0), 0, np.minimum(lo * lo, hi * hi)),
            np.maximum(lo * lo, hi * hi),
        ),
    )
    assert verdict_of(f"{name}(x) > 16", x=(-3, 4)) == NEVER
    assert verdict_of(f"{name}(x) >= 4", x=(2, 4)) == ALWAYS
    assert ss.PruningPredicate(f"{name}(x) > 16", SCHEMA).evaluate(
        ss.Statistics.from_dict({"x": {"max": [3]}}, SCHEMA)
    ).tolist() == [MAYBE]


def test_an_opaque_function(name):
    ss.register_function(name, lambda s: np.array([len(v.split()) for v in s]), returns=pa.int32())
    assert verdict_of(f"{name}(s) = 2", s=("two words", "two words")) == ALWAYS
    assert verdict_of(f"{name}(s) = 2", s=("a", "z")) == MAYBE


def test_arguments_are_natural_values(name):
    seen = []

    def fn(*args):
        seen[:] = [a.dtype.str if a.dtype != object else type(a[0]).__name__ for a in args]
        return np.ones(len(args[0]), np.bool_)

    ss.register_function(name, fn, returns=pa.bool_())
    moment = at(2024, 1, 1)
    bounds = {
        "x": (1, 1),
        "f": (1.5, 1.5),
        "s": ("a", "a"),
        "d": (D(2024, 1, 1),) * 2,
        "t": (moment, moment),
        "m": (Decimal("1.50"),) * 2,
        "b": (True, True),
    }
    assert verdict_of(f"{name}(x, f, s, d, t, m, b)", **bounds) == ALWAYS
    assert seen == ["<i8", "<f8", "str", "<M8[D]", "<M8[us]", "Decimal", "|b1"]


RETURNS = [
    (pa.date32(), np.array(["2024-01-02"], "M8[D]"), "DATE'2024-01-02'"),
    (
        pa.timestamp("us", "UTC"),
        np.array(["2024-01-02T03:04"], "M8[us]"),
        "TIMESTAMP'2024-01-02 03:04:00'",
    ),
    (pa.decimal128(9, 2), np.array([Decimal("1.50")], object), "1.5"),
    (pa.string(), np.array(["é"]), "'é'"),
    (pa.float32(), np.array([1.5]), "1.5"),
    (pa.int8(), [7], "7"),
    (pa.bool_(), [True], "true"),
]


@pytest.mark.parametrize("returns, value, text", RETURNS, ids=[str(r[0]) for r in RETURNS])
def test_return_types(returns, value, text, name):
    ss.register_function("own_" + str(abs(hash(str(returns)))), lambda x: value, returns=returns)
    assert verdict_of(f"own_{abs(hash(str(returns)))}(x) = {text}", x=(3, 3)) == ALWAYS


def test_null_and_none_become_null(name):
    ss.register_function(
        name,
        lambda x: np.array([None if v == 3 else int(v) for v in x], object),
        returns=pa.int64(),
    )
    assert verdict_of(f"{name}(x) IS NULL", x=(3, 3)) == ALWAYS
    stats = ss.Statistics.from_dict({"x": {"null_count": [5]}}, SCHEMA, row_count=[5])
    assert ss.PruningPredicate(f"{name}(x) > 1 OR {name}(x) <= 1", SCHEMA).evaluate(
        stats
    ).tolist() == [NEVER]


def test_negative_zero(name):
    ss.register_function(name, lambda f: np.signbit(f), returns=pa.bool_())
    assert verdict_of(f"{name}(f)", f=(0.0, 0.0)) == MAYBE
    assert verdict_of(f"{name}(f)", f=(-1.0, -1.0)) == ALWAYS


FAULTS = [
    (lambda x: 1 / 0, "raised ZeroDivisionError"),
    (lambda x: np.ones(7), r"shape \(7,\); expected \(1,\)"),
    (lambda x: 5, r"shape \(\); expected"),
    (lambda x: np.array(["a"] * len(x)), "not BIGINT"),
    (lambda x: np.array([1.5] * len(x)), "fractions"),
    (lambda x: [[1], [2, 3]], "no array|shape"),
]


@pytest.mark.parametrize("fn, message", FAULTS, ids=[f[1] for f in FAULTS])
def test_a_fault_warns_once_and_keeps(fn, message, request):
    own = f"own_fault_{FAULTS.index((fn, message))}"
    ss.register_function(own, fn, returns=pa.int64(), monotone="increasing")
    with pytest.warns(RuntimeWarning, match=message):
        assert verdict_of(f"{own}(x) > 5", x=(3, 3)) == MAYBE
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert verdict_of(f"{own}(x) < 5", x=(3, 4)) == MAYBE
    assert verdict_of(f"{own}(x) < 5 AND x > 9", x=(3, 4)) == NEVER


def test_registering_again(name):
    ss.register_function(name, lambda x: x, returns=pa.int64(), monotone="increasing")
    stats = ss.Statistics.from_dict({"x": {"min": [1], "max": [4], "null_count": [0]}}, SCHEMA)
    before = ss.PruningPredicate(f"{name}(x) > 4", SCHEMA)
    assert before.evaluate(stats).tolist() == [NEVER]
    ss.register_function(name, lambda x: x + 10, returns=pa.int64(), monotone="increasing")
    after = ss.PruningPredicate(f"{name}(x) > 4", SCHEMA)
    assert (before.evaluate(stats).tolist(), after.evaluate(stats).tolist()) == ([NEVER], [ALWAYS])
    assert after.expr == f"{name}(x) > 4"


def test_rows_are_filtered_by_user_functions(name, tmp_path):
    import pyarrow.parquet as pq

    ss.register_function(name, lambda x: x * 2, returns=pa.int64(), monotone="increasing")
    pq.write_table(pa.table({"x": pa.array([1, 2, 3, None], pa.int32())}), tmp_path / "t.parquet")
    assert ss.scan_parquet(tmp_path).plan(where=f"{name}(x) >= 4").to_arrow().column(
        "x"
    ).to_pylist() == [2, 3]


def test_unregistered_in_another_process(name):
    """A pickled predicate does not prune by a function that its process has not registered."""
    ss.register_function(name, lambda x: x, returns=pa.int64(), monotone="increasing")
    p = ss.PruningPredicate(f"{name}(x) > 100", SCHEMA)
    stats = "ss.Statistics.from_dict({'x': {'min': [1], 'max': [4], 'null_count': [0]}}, p.schema)"
    code = (
        f"import pickle, skipstone as ss; p = pickle.loads({pickle.dumps(p)!r}); "
        f"print(p.evaluate({stats}).tolist())"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[1]"
    )


REFUSED = [
    (("year", abs), {"returns": pa.int64()}, "a function of Spark's"),
    (("isnan", abs), {"returns": pa.bool_()}, "a function of Spark's"),
    (("a b", abs), {"returns": pa.int64()}, "cannot be named"),
    (("own_x", abs), {"returns": pa.list_(pa.int64())}, "null tests only"),
    (("own_x", 5), {"returns": pa.int64()}, "cannot be called"),
    (("own_x", abs), {"returns": pa.int64(), "monotone": "up"}, "expected 'increasing'"),
    (
        ("own_x", abs),
        {"returns": pa.int64(), "monotone": "increasing", "range": abs},
        "one of them",
    ),
]


@pytest.mark.parametrize("args, more, message", REFUSED, ids=[r[2] for r in REFUSED])
def test_refused(args, more, message):
    with pytest.raises(ss.PredicateError, match=message):
        ss.register_function(*args, **more)


def test_on_unknown_reports_unsupported_forms():
    reported = []
    p = ss.PruningPredicate(
        "nobody_knows(x) = 3 AND x > 1",
        SCHEMA,
        on_unknown=lambda what, why: reported.append((what, why)),
    )
    assert reported == [("nobody_knows(x) = 3", "the function nobody_knows is not understood")]
    assert p.prune(
        ss.Statistics.from_dict({"x": {"min": [0, 0], "max": [1, 2]}}, SCHEMA)
    ).tolist() == [False, True]
