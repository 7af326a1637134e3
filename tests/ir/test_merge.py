"""Merging tests of one scalar: the result, that no row changes, and that no verdict gets weaker."""

import random

import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.ir import ranges
from skipstone.ir import types as ty
from skipstone.ir.errors import UnsupportedForm
from skipstone.ir.evaluation import oracle
from skipstone.ir.merge import merge
from skipstone.ir.node import Node, Op, literal
from skipstone.ir.rows import evaluate_rows
from skipstone.ir.text import show
from tests.support.effort import LONG
from tests.support.predicates.predicates import predicate
from tests.support.rows.strategies import table
from tests.support.rows.zonemaps import zone_map

SCHEMA = pa.schema(
    [
        ("x", pa.int32()),
        ("y", pa.int32()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("m", pa.decimal128(30, 2)),
        ("t", pa.uint8()),
    ]
)
#    predicate                                        what lowering sees
MERGED = [
    ("x > 3 AND x < 4",                                "x <> x"),
    ("x > 3 AND x < 5",                                "x = 4"),
    ("x >= 3 AND x < 9",                               "x >= 3 AND x < 9"),
    ("x < 5 OR x >= 5",                                "x = x"),
    ("x < 5 OR x >= 7",                                "x < 5 OR x >= 7"),
    ("x < 5 OR x > 3",                                 "x = x"),
    ("x > 3 AND x > 5 AND x > 4",                      "x >= 6"),
    ("x > 3 AND y = 1 AND x < 4",                      "x <> x AND y = 1"),
    ("x > 3 AND (y = 1 OR x < 2 AND x > 8) AND x < 9", "x > 3 AND x < 9 AND (y = 1 OR x <> x)"),
    ("NOT (x <= 3 OR x >= 4)",                         "x <> x"),
    ("x IS NOT NULL AND x > 5",                        "(x >= 6) IS TRUE"),
    ("x IS NULL OR x > 5",                             "NOT ((NOT (x >= 6)) IS TRUE)"),
    ("x IS NULL AND x > 5",                            "x <> x"),
    ("x IS NULL OR x IS NOT NULL",                     "NOT ((x <> x) IS TRUE)"),
    ("f > 3 OR f <= 3",                                "f = f"),
    ("f > 3 AND f <= 3",                               "f <> f"),
    ("f >= 3 AND NOT f > 3",                           "f = 3.0D"),
    ("f > 3 AND NOT isnan(f)", "f BETWEEN 3.0000000000000004D AND CAST('Infinity' AS DOUBLE)"),
    ("f >= 3 AND f <= 5",                              "f BETWEEN 3.0D AND 5.0D"),
    ("NOT (f < 3 OR f > 5)",                           "f BETWEEN 3.0D AND 5.0D"),
    ("f < 3 OR f > 5",                                 "NOT (f BETWEEN 3.0D AND 5.0D)"),
    ("g >= 3 AND g < 5",                               "g BETWEEN 3.0F AND 4.999999523162842F"),
    ("s >= 'a' AND s < 'b' AND s LIKE 'c%'",           "s <> s"),
    ("s LIKE 'a%' AND s >= 'a'",                       "s >= 'a' AND s < 'b'"),
    ("s LIKE 'ab%' OR s LIKE 'a%'",                    "s >= 'a' AND s < 'b'"),
    ("s > 'a' OR s <= 'a'",                            "s = s"),
    ("m > 1 AND m < 1.01",                             "m <> m"),
    ("t < 5 OR t > 4",                                 "t = t"),
    ("t >= 0 AND t <= 255",                            "t = t"),
    ("x + y > 3 AND x + y < 4",                        "(x + y) <> (x + y)"),
    ("x < y AND x > y",                                "compare(x, y) <> compare(x, y)"),
    ("x < y OR x >= y",                                "compare(x, y) = compare(x, y)"),
    ("length(s) > 3 AND length(s) < 2",                "length(s) <> length(s)"),
]  # fmt: skip


@pytest.mark.parametrize("text, merged", MERGED, ids=[m[0] for m in MERGED])
def test_merged(text, merged):
    node = merge(ss.PruningPredicate(text, SCHEMA).node)
    assert show(node) == merged


#    predicate                            x in        verdict
VERDICTS = [
    ("x = 1 AND x = 2",                   (0, 9),     0),
    ("x IN (1, 2) AND x IN (3, 4)",       (0, 9),     0),
    ("y = 1 OR x IN (1, 2) AND x IN (3)", (0, 9),     1),
    ("x IN (1, 2, 3) AND x > 1",          (0, 1),     0),
    ("x IN (1, 2, 3) AND x > 1",          (2, 3),     2),
    ("x NOT IN (4, 6) AND x > 3",         (3, 4),     0),
    ("x NOT IN (5) OR x = 5",             (0, 9),     2),
    ("x <> 5 AND x > 4",                  (3, 5),     0),
    ("NOT (x IN (1, 2) OR x > 2)",        (1, 9),     0),
    ("NOT (x > 3 AND x < 4)",             (0, 9),     2),
    ("x BETWEEN 5 AND 4",                 (0, 9),     0),
    ("x NOT BETWEEN 5 AND 4",             (0, 9),     2),
    ("(x > 3 AND x < 4) IS NULL",         (0, 9),     0),
    ("(x < 5 OR x >= 5) IS TRUE",         (0, 9),     2),
    ("x = 1 OR x = 2 OR x > 2",           (1, 9),     2),
]  # fmt: skip


@pytest.mark.parametrize(
    "text, bounds, verdict", VERDICTS, ids=[f"{v[0]} {v[1]}" for v in VERDICTS]
)
def test_verdicts(text, bounds, verdict, backend):
    columns = {"x": {"min": [bounds[0]], "max": [bounds[1]], "null_count": [0]}}
    stats = ss.Statistics.from_dict(columns, SCHEMA, row_count=[5])
    assert ss.PruningPredicate(text, SCHEMA).evaluate(stats, backend).tolist() == [verdict]


# Any of them may hold NaN.
FLOATS = [
    ("f BETWEEN 3 AND 5",                 (6.0, 9.0), 0),
    ("f BETWEEN 3 AND 5",                 (0.0, 2.0), 0),
    ("f BETWEEN 3 AND 5",                 (0.0, 3.0), 1),
    ("f NOT BETWEEN 3 AND 5",             (3.0, 5.0), 1),
    ("f NOT BETWEEN 3 AND 5",             (0.0, 2.0), 2),
    ("f NOT BETWEEN 3 AND 5",             (6.0, 9.0), 2),
    ("f < 3 OR f > 5 AND f <= 7",         (0.0, 2.0), 1),
    ("f < 3 OR f > 5 AND f <= 7",         (3.5, 4.0), 0),
    ("f = 3 OR f > 5 OR isnan(f)",        (6.0, 7.0), 2),
    ("f = 3 OR isnan(f)",                 (3.0, 3.0), 2),
    ("NOT (f < 3 OR f > 5)",              (6.0, 9.0), 0),
    ("f >= 3 AND f < 5 OR f > 7",         (5.0, 6.0), 1),
    ("f = 1 OR f BETWEEN 3 AND 5",        (6.0, 9.0), 0),
]  # fmt: skip


@pytest.mark.parametrize("text, bounds, verdict", FLOATS, ids=[f"{v[0]} {v[1]}" for v in FLOATS])
def test_ranges_of_floats_leave_nan_out(text, bounds, verdict, backend):
    stats = ss.Statistics.from_dict(
        {"f": {"min": [bounds[0]], "max": [bounds[1]], "null_count": [0]}}, SCHEMA, row_count=[5]
    )
    assert ss.PruningPredicate(text, SCHEMA).evaluate(stats, backend).tolist() == [verdict]


def test_providers_get_each_list_and_their_intersection():
    asked = []

    class Provider:
        num_containers = 1
        min_values = max_values = null_counts = row_counts = lambda self, column: None

        def contained(self, column, values):
            asked.append((column, tuple(sorted(values))))

    ss.PruningPredicate("y = 9 OR x IN (1, 2, 3) AND x IN (2, 3, 4) AND x <> 3", SCHEMA).evaluate(
        Provider()
    )
    assert set(asked) >= {("y", (9,)), ("x", (1, 2, 3)), ("x", (2, 3, 4)), ("x", (3,)), ("x", (2,))}


def forms(n: Node):
    """Return a merged predicate with the first, and with the second, of every two equal forms."""
    for side in (0, 1):
        yield chosen(n, side)


def chosen(n: Node, side: int) -> Node:
    if n.op is Op.BOTH:
        return chosen(n.args[side], side)
    return (
        n
        if n.op in (Op.CALL, Op.COLUMN)
        else Node(n.op, tuple(chosen(a, side) for a in n.args), n.value, n.dtype)
    )


@pytest.mark.parametrize("seed", range(4 if LONG else 1))
def test_no_row_changes_and_nothing_is_weaker(seed):
    r = random.Random(seed)
    changed = 0
    for _ in range(60):
        t = table(r, containers=3)
        z = zone_map(r, t)
        for _ in range(8):
            # One column, so that tests can be merged.
            p = ss.PruningPredicate(
                predicate(r, (r.choice(t.fields),), depth=2, plain=True).sql, t.schema
            )
            merged = merge(p.node)
            changed += merged != p.node
            for j in range(len(t.containers)):
                assert oracle.outcomes(merged, z.facts(j)) <= oracle.outcomes(
                    merge_nothing(p.node), z.facts(j)
                ), p.expr
                try:
                    expected = evaluate_rows(p.node, t.batch(j))
                    for form in forms(merged):
                        assert evaluate_rows(form, t.batch(j)).equals(expected), (
                            p.expr,
                            show(form),
                        )
                except UnsupportedForm:
                    pass
    assert changed > 30


def merge_nothing(n: Node) -> Node:
    """Split patterns, as lowering requires, and merge nothing else."""
    if n.op in (Op.COLUMN, Op.CALL, Op.LITERAL):
        return n
    return (
        merge(n)
        if n.op is Op.LIKE
        else Node(n.op, tuple(map(merge_nothing, n.args)), n.value, n.dtype)
    )


@pytest.mark.parametrize("seed", range(300 if LONG else 30))
@pytest.mark.parametrize("kind", [ty.BOOL, ty.INT8, ty.INT32, ty.INT64, ty.DATE, ty.DOUBLE])
def test_lists_are_the_union_of_their_values(kind, seed):
    r, low, high = random.Random(seed), kind.lowest, kind.highest
    near = [low, low + 1, low + 2, high - 2, high - 1, high, *range(-6, 7)]
    values = sorted({v for v in r.sample(near, r.randint(1, 9)) if low <= v <= high}) or [low]
    column = Node(Op.COLUMN, value=("x",), dtype=kind)
    found = ranges.value_set_of(Node(Op.IN, (column,), tuple(values)))
    each = [ranges.value_set_of(Node(Op.EQ, (column, literal(v, kind)))) for v in values]
    assert found == ranges.combined(Op.OR, each), values
