"""Statistics of a column that contradict each other are unknown: none of them prunes."""

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.ir.evaluation import oracle
from skipstone.ir.types import from_arrow

#    min   max   nulls rows  nans   contradiction
CASES = [
    (2,    8,    10,   10,   None,  True),   # all NULL, and bounds
    (2,    None, 10,   10,   None,  True),
    (None, 8,    10,   10,   None,  True),
    (None, None, 10,   10,   None,  False),
    (2,    8,    11,   10,   None,  True),   # more NULLs than rows
    (None, None, 11,   10,   None,  True),
    (2,    8,    0,    0,    None,  True),   # bounds of no rows
    (None, None, 1,    0,    None,  True),
    (None, None, 0,    0,    None,  False),
    (8,    2,    10,   10,   None,  True),   # inverted bounds are bounds too
    (2,    8,    -1,   10,   None,  False),  # an invalid count contradicts nothing
    (2,    8,    10,   -1,   None,  False),
    (2,    8,    10,   None, None,  False),
    (2,    8,    9,    10,   None,  False),
    (2,    8,    0,    10,   11,    True),   # more NaNs than rows
    (2,    8,    6,    10,   5,     True),   # more NULLs and NaNs than rows
    (2,    8,    None, 10,   11,    True),
    (2,    8,    0,    10,   10,    True),   # all NaN, and bounds
    (2,    8,    4,    10,   6,     True),
    (None, None, 4,    10,   6,     False),
    (float("nan"), float("nan"), 4, 10, 6, False),  # NaN is no bound
]  # fmt: skip
WHERE = (
    "x = {5}",
    "x = {9}",
    "x < {1}",
    "x IN ({5}, {6})",
    "NOT x = {5}",
    "x IS NULL",
    "x IS NOT NULL",
)
KINDS = {
    "int64": (pa.int64(), int),
    "int8": (pa.int8(), int),
    "double": (pa.float64(), float),
    "decimal": (pa.decimal128(30, 0), int),
    "string": (pa.string(), str),
}


def facts(case, kind, make, nullable=True):
    """Return a case as facts for the oracle."""
    low, high = (v if v is None or make is not str else str(v).encode() for v in case[:2])
    counts = dict(zip(("null_count", "row_count", "nan_count"), case[2:5], strict=True))
    return oracle.column_facts(from_arrow(kind), low=low, high=high, nullable=nullable, **counts)


def statistics(cases, kind, make, nullable=True):
    keys = ("min", "max", "null_count", "row_count", "nan_count")
    columns = {}
    for i, key in enumerate(keys):
        given = [c[i] if i > 1 or c[i] is None else make(c[i]) for c in cases]
        columns[key] = pa.array(given, kind if i < 2 else pa.int64())
    return ss.Statistics.from_dict({"x": columns}, pa.schema([pa.field("x", kind, nullable)]))


@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize("name", KINDS)
def test_a_contradiction_is_unknown(backend, name, nullable):
    """Every backend equals the oracle, for a case alone and among all others."""
    kind, make = KINDS[name]
    cases = [c for c in CASES if name == "double" or c[4] is None]
    stats = statistics(cases * 40, kind, make, nullable)
    for text in WHERE:
        where = text.format(*((f"'{i}'" if make is str else i) for i in range(10)))
        p = ss.PruningPredicate(where, stats.schema)
        verdicts = p.evaluate(stats, backend).reshape(40, -1)
        assert (verdicts == verdicts[0]).all()
        for case, verdict in zip(cases, verdicts[0].tolist(), strict=True):
            x = facts(case, kind, make, nullable)
            assert verdict == oracle.verdict(p.node, {("x",): x}), (where, case)
            assert not case[5] or verdict == 1, (where, case)


def test_unusable_bounds_contradict_nothing(backend):
    """All rows are NULL; a bound that cannot be read, or is of another type, is ignored."""
    schema = pa.schema([("s", pa.string()), ("x", pa.int64())])
    counts = {"null_count": [3], "row_count": [3]}
    stats = ss.Statistics.from_dict(
        {
            "s": {"min": pa.array([b"\xff"], pa.binary()), **counts},
            "x": {"min": pa.array(["2"]), "max": pa.array(["8"]), **counts},
        },
        schema,
    )
    for where in ("s = 'a'", "x = 5"):
        assert ss.PruningPredicate(where, schema).evaluate(stats, backend).tolist() == [0], where


def test_a_container_without_rows_is_pruned_despite_bounds():
    """A container's row count is not the column's: deletion vectors leave bounds behind."""
    schema = pa.schema([("x", pa.int64())])
    stats = ss.Statistics.from_dict({"x": {"min": [2], "max": [8]}}, schema, row_count=[0])
    assert ss.PruningPredicate("x = 5", schema).evaluate(stats).tolist() == [0]
    stats = ss.Statistics.from_dict({"x": {"min": [2], "null_count": [9]}}, schema, row_count=[9])
    assert ss.PruningPredicate("x = 5", schema).evaluate(stats).tolist() == [1]


@pytest.mark.parametrize("name", KINDS)
def test_in_blocks_and_levels(name):
    """A few contradictions among many containers, in blocks of their own and in mixed ones."""
    kind, make = KINDS[name]
    n, r = 132_000, np.random.default_rng(1)
    which = np.where(r.random(n) < 0.001, r.integers(0, 10, n), 13)
    which[:70_000] = 13
    which[-1] = 0
    cases = [CASES[i] for i in which.tolist()]
    stats = statistics(cases, kind, make)
    p = ss.PruningPredicate("x = '9'" if make is str else "x = 9", stats.schema)
    expected = np.array([int(c[5]) for c in CASES], np.uint8)[which]
    expected[which == 10] = 0
    assert np.array_equal(p.evaluate(stats), expected)
    assert np.array_equal(p.evaluate(stats.index(block=64)), expected)
