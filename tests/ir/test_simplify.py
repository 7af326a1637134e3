"""Simplification: pairs of before and after, and a proof that no rule changes an outcome."""

import random

import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.ir import types as ty
from skipstone.ir.evaluation import oracle
from skipstone.ir.node import Op
from skipstone.ir.session import Session
from skipstone.ir.simplify import FALSE, NULL, SIMPLIFY, TRUE, simplify
from skipstone.ir.text import show
from skipstone.ir.types import leaves_of
from tests.support.predicates.algebra import (
    AND,
    IS_NULL,
    IS_TRUE,
    NOT,
    OR,
    A,
    B,
    C,
    facts_of,
    product,
)

SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.int64()), ("b", pa.bool_()), ("f", pa.float64())])

#    before                                            after
PAIRS = [
    ("x = 1 AND (y = 2 AND b)",                        "x = 1 AND y = 2 AND b = true"),
    ("x = 1 OR (y = 2 OR (b OR y = 3))",               "x = 1 OR y IN (2, 3) OR b = true"),
    ("NOT NOT x = 1",                                  "x = 1"),
    ("NOT NOT NOT x = 1",                              "x <> 1"),
    ("NOT TRUE",                                       "false"),
    ("NOT FALSE",                                      "true"),
    ("NOT NULL",                                       "NULL"),
    ("x = 1 AND TRUE",                                 "x = 1"),
    ("x = 1 AND FALSE",                                "false"),
    ("x = 1 AND NULL",                                 "x = 1 AND NULL"),       # FALSE where x <> 1
    ("x = 1 OR FALSE",                                 "x = 1"),
    ("x = 1 OR TRUE",                                  "true"),
    ("x = 1 OR NULL",                                  "x = 1 OR NULL"),
    ("TRUE AND TRUE",                                  "true"),
    ("FALSE OR FALSE",                                 "false"),
    ("x = 1 AND x = 1",                                "x = 1"),
    ("x = 1 OR b OR x = 1",                            "x = 1 OR b = true"),
    ("(x = 1) IS TRUE IS TRUE",                        "(x = 1) IS TRUE"),
    ("(x IS NULL) IS TRUE",                            "x IS NULL"),
    ("(x IS NULL) IS NULL",                            "false"),
    ("(x IS NULL) IS FALSE",                           "x IS NOT NULL"),
    ("(NOT x = 1) IS NULL",                            "(x = 1) IS NULL"),
    ("((x = 1) IS TRUE) IS NULL",                      "false"),
    ("NULL IS NULL",                                   "true"),
    ("TRUE IS NULL",                                   "false"),
    ("(NULL AND TRUE) IS TRUE",                        "false"),
    ("x = 1 OR x = 2 OR x IN (3, 1)",                  "x IN (1, 2, 3)"),
    ("x = 1 OR y = 1",                                 "x = 1 OR y = 1"),
    ("x = 1 OR y = 1 OR x = 2 OR y = 2",               "x IN (1, 2) OR y IN (1, 2)"),
    ("x IN (2, 1, 2)",                                 "x IN (1, 2)"),
    ("x IN (1, 1)",                                    "x = 1"),
    ("x IN (1, NULL)",                                 "x = 1 OR NULL"),
    ("x NOT IN (1, NULL)",                             "NOT (x = 1 OR NULL)"),
    ("x BETWEEN 1 AND 2",                              "x >= 1 AND x <= 2"),
    ("x NOT BETWEEN 1 AND 2",                          "NOT (x >= 1 AND x <= 2)"),
    ("f = 0.0 OR f = -0.0",                            "f = 0.0D"),
    ("NOT b",                                          "b <> true"),
    ("b = FALSE",                                      "b = false"),
    ("(b) = TRUE",                                     "b = true"),
    ("(x = 1) = TRUE",                                 "x = 1"),
    ("(x = 1) = FALSE",                                "x <> 1"),
    ("(x = 1) <=> FALSE",                              "(x <> 1) IS TRUE"),
    ("(x = 1) <=> NULL",                               "(x = 1) IS NULL"),
    ("(x = 1) = NULL",                                 "NULL"),
]  # fmt: skip


@pytest.mark.parametrize("before, after", PAIRS)
def test_pairs(before, after):
    assert ss.PruningPredicate(before, SCHEMA).expr == after


def test_every_rule_is_at_work():
    """Each rule changes at least one of the pairs."""
    from skipstone.bindings.predicates.sql import parse
    from skipstone.ir.bind import _Binder

    used = set()
    for before, _ in PAIRS:
        raw = _Binder(leaves_of(SCHEMA), Session()).predicate(parse(before)[0])
        used |= {
            rule for rule in SIMPLIFY for n in [*raw.walk(), simplify(raw)] if rule(n) is not None
        }
        used |= {
            rule
            for rule in SIMPLIFY
            if any(
                rule(type(n)(n.op, tuple(map(simplify, n.args)), n.value, n.dtype)) is not None
                for n in raw.walk()
            )
        }
    assert used == set(SIMPLIFY)


def tree(r, depth):
    if depth == 0:
        return r.choice((A, B, C, TRUE, FALSE, NULL))
    op = r.choice((AND, OR, AND, OR, NOT, IS_TRUE, IS_NULL))
    return (
        op(tree(r, depth - 1))
        if op in (NOT, IS_TRUE, IS_NULL)
        else op(*(tree(r, r.randrange(depth)) for _ in range(r.randint(1, 3))))
    )


@pytest.mark.parametrize("seed", range(5))
def test_no_rule_changes_an_outcome(seed):
    """A rule keeps the outcome on one row, for every outcome of its operands."""
    r = random.Random(seed)
    paths = [n.args[0].value for n in (A, B, C)]
    for _ in range(200):
        before = tree(r, 4)
        after = simplify(before)
        for a in (True, False, None):
            for b in (True, False, None):
                for c in (True, False, None):
                    sets = dict(zip(paths, ({a}, {b}, {c}), strict=True))
                    assert product(after, sets) == product(before, sets), (
                        show(before),
                        show(after),
                        sets,
                    )


@pytest.mark.parametrize("seed", range(3))
def test_simplified_outcomes_are_no_wider(seed):
    """A simplified predicate allows no outcome on a container that the original excludes."""
    r = random.Random(seed)
    sets = [
        frozenset(s)
        for s in (
            {True},
            {False},
            {None},
            {True, False},
            {True, None},
            {False, None},
            {True, False, None},
        )
    ]
    for _ in range(200):
        before = tree(r, 4)
        facts = {n.args[0].value: facts_of(r.choice(sets)) for n in (A, B, C)}
        assert oracle.outcomes(simplify(before), facts) <= oracle.outcomes(before, facts), show(
            before
        )


def test_long_disjunctions_are_one_set():
    """The time grows linearly with the length."""
    p = ss.PruningPredicate(" OR ".join(f"x = {i}" for i in range(5000)), SCHEMA)
    assert p.node.op is Op.IN and p.node.value == tuple(range(5000)) and p.node.dtype == ty.INT64
