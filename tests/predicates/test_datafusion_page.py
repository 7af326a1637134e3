"""The examples on DataFusion's PruningPredicate page, with its two slips corrected.

The slips: `x < 5` needs `x_min < 5` (the page says `x_max < 5`), and `x IS NULL` must keep all-NULL
containers (the page prunes them).
"""

import pyarrow as pa
import pytest

import skipstone as ss

SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.int64())])


def guarded(column, test):
    return f"CASE WHEN {column}_null_count = {column}_row_count THEN false ELSE {test} END"


#     predicate              rewritten
REWRITES = [
    ("x = 5", guarded("x", "x_min <= 5 AND 5 <= x_max")),
    ("x < 5", guarded("x", "x_min < 5")),
    ("x > 5", guarded("x", "5 < x_max")),
    ("x <> 5", guarded("x", "(x_min < 5 OR 5 < x_max)")),
    (
        "x = 5 AND y = 10",
        guarded("x", "x_min <= 5 AND 5 <= x_max")
        + " AND "
        + guarded("y", "y_min <= 10 AND 10 <= y_max"),
    ),
    (
        "x = 5 OR y = 10",
        guarded("x", "x_min <= 5 AND 5 <= x_max")
        + " OR "
        + guarded("y", "y_min <= 10 AND 10 <= y_max"),
    ),
    ("x IS NULL", "x_null_count > 0"),
    ("x IS NOT NULL", guarded("x", "true")),
    ("TRUE", "true"),
    ("soundex(x) = 4", "true"),
]


@pytest.mark.parametrize("predicate, expected", REWRITES, ids=[r[0] for r in REWRITES])
def test_rewrites(predicate, expected):
    assert ss.PruningPredicate(predicate, SCHEMA).rewritten == expected


def stats(**columns):
    return ss.Statistics.from_dict(
        {name: {k: [v] for k, v in s.items()} for name, s in columns.items()}, SCHEMA
    )


#     statistics of x, statistics of y, keep
COUNTS = [
    (
        {"min": 1, "max": 100, "null_count": None, "row_count": None},
        {"min": 4, "max": 7},
        False,
    ),  # no y is 10
    ({"min": 1, "max": 100}, {"min": 4, "max": 15}, True),
    (
        {"min": None, "max": None, "null_count": 100, "row_count": 100},
        {"min": 4, "max": 7},
        False,
    ),  # example 2
    (
        {"min": None, "max": None, "null_count": 100, "row_count": 100},
        {"min": 4, "max": 15},
        False,
    ),  # all x are NULL
    (
        {"min": None, "max": None},
        {"min": 4, "max": 15},
        True,
    ),  # x is unknown, which differs from all NULL
    ({"min": 1, "max": 100, "null_count": 99, "row_count": 100}, {"min": 4, "max": 15}, True),
    (
        {"min": 1, "max": 100, "null_count": 100, "row_count": 100},
        {"min": 4, "max": 15},
        True,
    ),  # DataFusion lets counts override bounds; here both are unknown
    ({"min": 1, "max": 100, "null_count": 100, "row_count": None}, {"min": 4, "max": 15}, True),
]


@pytest.mark.parametrize("x, y, keep", COUNTS)
def test_two_columns_with_and_without_counts(x, y, keep, backend):
    assert ss.PruningPredicate("x = 5 AND y = 10", SCHEMA).prune(
        stats(x=x, y=y), backend
    ).tolist() == [keep]


def test_containers_a_b_c(backend):
    three = ss.Statistics.from_dict({"x": {"min": [0, 2, 5], "max": [4, 10, 8]}}, SCHEMA)
    assert ss.PruningPredicate("x = 5", SCHEMA).prune(three, backend).tolist() == [
        False,
        True,
        True,
    ]


#     predicate            x's statistics                                          verdict
SLIPS = [
    ("x < 5", {"min": 0, "max": 9}, 1),  # x_max < 5 would prune it and lose the rows below 5
    ("x < 5", {"min": 5, "max": 9}, 0),
    ("x IS NULL", {"null_count": 3, "row_count": 3}, 2),  # all NULL: every row matches
    ("x IS NULL", {"null_count": 1, "row_count": 3}, 1),
    ("x IS NULL", {"null_count": 0, "row_count": 3}, 0),
    ("x IS NULL", {"row_count": 3}, 1),  # an absent count is not zero
]


@pytest.mark.parametrize("predicate, x, verdict", SLIPS)
def test_slips(predicate, x, verdict, backend):
    assert ss.PruningPredicate(predicate, SCHEMA).evaluate(stats(x=x), backend).tolist() == [
        verdict
    ]


def test_cast():
    p = ss.PruningPredicate("CAST(x AS int) = 5", SCHEMA)
    assert p.evaluate(stats(x={"min": 6, "max": 9})).tolist() == [0]


# The page's tables of three-valued logic: NULL = NULL, NULL AND ..., NULL OR ...
LOGIC = [
    ("NULL = NULL", 0),
    ("1 = NULL", 0),
    ("NULL AND TRUE", 0),
    ("NULL AND FALSE", 0),
    ("NULL AND NULL", 0),
    ("NULL OR TRUE", 2),
    ("NULL OR FALSE", 0),
    ("NULL OR NULL", 0),
    ("NOT (NULL AND FALSE)", 2),
    ("(NULL OR FALSE) IS NULL", 2),
    ("NOT (NULL OR FALSE)", 0),
]


@pytest.mark.parametrize("predicate, verdict", LOGIC)
def test_null_tables(predicate, verdict):
    assert ss.PruningPredicate(predicate, SCHEMA).evaluate(stats(x={"min": 1})).tolist() == [
        verdict
    ]


class Provider:
    """A provider with only `contained`, like a bloom filter; `calls` records its arguments."""

    num_containers = 4

    def __init__(self, answers):
        self.answers, self.calls = answers, []

    def min_values(self, column):
        return None

    max_values = null_counts = row_counts = min_values

    def contained(self, column, values):
        self.calls.append((column, values))
        return pa.array(self.answers, pa.bool_())


#     predicate                 [only these, none of these, unknown, none of these]
CONTAINED = [
    ("x = 5", [True, False, True, False]),
    ("x <> 5", [False, True, True, True]),
    ("x IN (1, 2)", [True, False, True, False]),
    ("x NOT IN (1, 2)", [False, True, True, True]),
    ("x = 5 AND y > 3", [True, False, True, False]),
    ("x = 5 OR y > 3", [True, True, True, True]),
    ("x > 5", [True, True, True, True]),
]


@pytest.mark.parametrize("predicate, keep", CONTAINED)
def test_contained(predicate, keep, backend):
    p = ss.PruningPredicate(predicate, SCHEMA)
    provider = Provider([True, False, None, False])
    assert p.prune(provider, backend).tolist() == keep
    assert {column for column, _ in provider.calls} <= set(p.membership_columns)
