"""Projections and residuals: special cases, nesting, and evaluation by kernels."""

import itertools

import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.ir import types as ty
from skipstone.ir.node import Node, Op, literal
from skipstone.ir.outcome import Verdict
from skipstone.ir.partitioning.projection import PartitionField, project
from skipstone.ir.partitioning.transforms import Transform
from skipstone.ir.session import Session
from skipstone.ir.simplify import FALSE, NULL, TRUE
from skipstone.ir.spec import LEAVES
from skipstone.ir.text import show
from tests.support.effort import LONG
from tests.support.rows.partitions import COMPARISONS, MODES, bind, fields
from tests.support.rows.residual import outcome, residual

# Special cases.

#  predicate  type  transform  inclusive  strict
TABLE = [
    ("x < 0", pa.int32(), "truncate[10]", "p <= -10 OR p >= 2147483646", "p < 0"),
    ("x > 0", pa.int32(), "truncate[10]", "p >= 0", "p > 0 AND p < 2147483646"),
    ("x <> 7", pa.int32(), "identity", "p <> 7", "p <> 7"),
    ("x <> 7", pa.int32(), "bucket[8]", "p IS NOT NULL", "p <> 3"),
    ("x = 7", pa.int32(), "bucket[8]", "p = 3", "false"),
    ("x IS NULL", pa.int32(), "bucket[8]", "p IS NULL", "p IS NULL"),
    ("x IS NOT NULL", pa.int32(), "bucket[8]", "p IS NOT NULL", "p IS NOT NULL"),
    ("x IS NULL", pa.int32(), "void", "true", "false"),
    ("x IS NULL", pa.int32(), "zorder[4]", "true", "false"),
    ("x > 5", pa.float64(), "bucket[8]", "true", "false"),
    ("x > 5", pa.uint32(), "truncate[8]", "true", "false"),
    ("x > 5", pa.int8(), "truncate[8]", "p >= 0", "p > 0"),
    ("NOT (x > 5)", pa.int8(), "truncate[8]", "p <= 0", "p < 0"),
    ("(x > 5) IS NULL", pa.int8(), "truncate[8]", "p IS NULL", "p IS NULL"),
    ("(x = 5 OR x IS NULL) IS NOT NULL", pa.int8(), "bucket[8]",
     "p IS NOT NULL OR p = 7 OR p IS NULL", "p IS NOT NULL OR p IS NULL"),
    ("(x > 5) IS NOT TRUE", pa.int8(), "truncate[8]", "p IS NULL OR p <= 0", "p IS NULL OR p < 0"),
    ("x <=> 5", pa.int8(), "truncate[8]", "p = 0", "false"),
    ("NOT (x <=> 5)", pa.int8(), "truncate[8]", "p IS NULL OR p IS NOT NULL",
     "p IS NULL OR p <> 0"),
    ("x = 5 AND x IS NULL", pa.int8(), "truncate[8]", "p = 0 AND p IS NULL", "false"),
    ("x = x", pa.int8(), "truncate[8]", "p IS NOT NULL", "p IS NOT NULL"),
    ("x <> x", pa.int8(), "truncate[8]", "false", "false"),
    ("x > 5", pa.int32(), "truncate[1073741825]", "p IS NOT NULL", "false"),
    ("x <> 5", pa.int32(), "truncate[1]", "p <> 5", "p <> 5"),
    ("x IN (5, 6)", pa.int32(), "truncate[1]", "p IN (5, 6)", "p IN (5, 6)"),
    ("x = -5", pa.int64(), "truncate[10]", "p = -10", "false"),
    ("x > 1e300D", pa.float64(), "identity", "p > 1e+300D", "p > 1e+300D"),
    ("x = CAST('NaN' AS DOUBLE)", pa.float64(), "identity", "p = CAST('NaN' AS DOUBLE)",
     "p = CAST('NaN' AS DOUBLE)"),
    ("x <= -99999999999999999999999999999999999998", pa.decimal128(38, 0), "truncate[10]",
     "p <= -99999999999999999999999999999999999999", "false"),
    ("x >= -99999999999999999999999999999999999998", pa.decimal128(38, 0), "truncate[10]",
     "p IS NOT NULL", None),
    ("x = -99999999999999999999999999999999999998", pa.decimal128(38, 0), "truncate[10]",
     "p <= -99999999999999999999999999999999999999", "false"),
    ("x < 'ab'", pa.string(), "truncate[3]", "p < 'ab'", "p < 'ab'"),
    ("x <= 'ab'", pa.string(), "truncate[3]", "p <= 'ab'", "p <= 'ab'"),
    ("x > 'abc'", pa.string(), "truncate[3]", "p >= 'abc'", "p > 'abc'"),
    ("x = 'ab'", pa.string(), "truncate[3]", "p = 'ab'", "p = 'ab'"),
    ("x = 'abc'", pa.string(), "truncate[3]", "p = 'abc'", "false"),
    ("x NOT IN ('ab', 'abc')", pa.string(), "truncate[3]", "p <> 'ab'", "NOT (p IN ('ab', 'abc'))"),
    ("x = ''", pa.string(), "truncate[1]", "p = ''", "p = ''"),
    ("x > ''", pa.string(), "truncate[1]", "p > ''", "p > ''"),
    ("x LIKE 'ab%'", pa.string(), "truncate[3]", "p LIKE 'ab%'", "p LIKE 'ab%'"),
    ("x LIKE 'abc%'", pa.string(), "truncate[3]", "p = 'abc'", "p = 'abc'"),
    ("x LIKE 'abcd%'", pa.string(), "truncate[3]", "p = 'abc'", "false"),
    ("x LIKE 'ab%z'", pa.string(), "truncate[3]", "p LIKE 'ab%'", "false"),
    ("x LIKE '%z'", pa.string(), "truncate[3]", "p IS NOT NULL", "false"),
    ("x LIKE 'a_'", pa.string(), "truncate[3]", "p LIKE 'a_'", "p LIKE 'a_'"),
    ("x LIKE '_b_d'", pa.string(), "truncate[3]", "p LIKE '_b_'", "false"),
    ("x LIKE '日_語%'", pa.string(), "truncate[3]", "p LIKE '日_語'", "p LIKE '日_語'"),
    ("x LIKE 'a\\\\_%%'", pa.string(), "truncate[3]", "p LIKE 'a\\\\_%'", "p LIKE 'a\\\\_%'"),
    ("x LIKE 'a!!!%%' ESCAPE '!'", pa.string(), "truncate[3]", "p = 'a!%'", "p = 'a!%'"),
    ("x NOT LIKE 'abcd%'", pa.string(), "truncate[3]", "p IS NOT NULL", "p <> 'abc'"),
    ("x LIKE 'a%'", pa.string(), "bucket[8]", "p IS NOT NULL", "false"),
    ("x LIKE 'a%'", pa.string(), "identity", "p LIKE 'a%'", "p LIKE 'a%'"),
    ("x > X'00ff'", pa.binary(), "truncate[1]", "p >= X'00'", "p > X'00'"),
    ("x < DATE '1970-01-01'", pa.date32(), "year", "p <= 0", "p < 0"),
    ("x < DATE '1970-01-01'", pa.date32(), "day", "p < DATE '1970-01-01'", "p < DATE '1970-01-01'"),
    ("x = DATE '1971-05-01'", pa.date32(), "year", "p = 1", "false"),
    ("x IS NULL", pa.list_(pa.int8()), "identity", "p IS NULL", "p IS NULL"),
    ("abs(x) = 1", pa.int32(), "identity", "(abs(p) = 1) IS TRUE", "(abs(p) = 1) IS TRUE"),
    ("NOT (abs(x) = 1)", pa.int32(), "identity", "(abs(p) <> 1) IS TRUE", "(abs(p) <> 1) IS TRUE"),
    ("abs(x) = 1", pa.int32(), "bucket[4]", "true", "false"),
    ("x = 1 OR NULL", pa.int32(), "identity", "p = 1", "p = 1"),
    ("NOT (x = 1 AND NULL)", pa.int32(), "identity", "p <> 1", "p <> 1"),
]  # fmt: skip


@pytest.mark.parametrize(
    "sql, arrow, transform, inclusive, strict", TABLE, ids=[f"{c[0]}-{c[2]}" for c in TABLE]
)
def test_texts(sql, arrow, transform, inclusive, strict):
    node = bind(sql, {"x": arrow})
    for mode, expected in zip(MODES, (inclusive, strict), strict=True):
        if expected is not None:
            assert show(project(node, fields(("x", transform, "p")), mode)) == expected


def test_fields_of_one_column_meet():
    node = bind("x = 1234 AND y = 2", {"x": pa.int32(), "y": pa.int32()})
    spec = fields(("x", "truncate[100]", "t"), ("x", "bucket[4]", "b"), ("y", "void", "gone"))
    assert show(project(node, spec)) == "t = 1200 AND b = 3"
    node = bind("x <> 1234", {"x": pa.int32()})
    assert show(project(node, spec, "strict")) == "t <> 1200 OR b <> 3"
    assert show(residual(node, spec, {"t": 1200, "b": 2})) == "true"
    assert residual(node, spec, {"t": 1200, "b": 3}) == node == residual(node, spec, {})


def test_a_nested_column_is_a_source():
    schema = pa.schema([("s", pa.struct([("x", pa.int8())])), ("x", pa.int8())])
    node = ss.PruningPredicate("s.x > 3 AND x < 9", schema).node
    spec = (PartitionField(("s", "x"), Transform("identity"), "p.q"),)
    assert show(project(node, spec)) == "`p.q` > 3"


#     predicate     partition   left
RESIDUALS = [
    ("x < 5 AND y = 1",     {"p": 4},       "y = 1"),
    ("x < 5 AND y = 1",     {"p": 5},       "false"),
    ("x < 5 OR y = 1",      {"p": None},    "NULL OR y = 1"),
    ("x <> 5",              {"p": None},    "NULL"),        # Iceberg: TRUE, in two-valued logic
    ("x < 5",               {"p": None},    "NULL"),        # pyiceberg: TypeError
    ("(x < 5) IS NULL",     {"p": None},    "true"),
    ("x IS NOT NULL",       {"p": None},    "false"),
    ("x <=> 5",             {"p": None},    "false"),
    ("abs(x) = 5 OR x = 7", {"p": 7},       "true"),
    ("abs(x) = 5 OR x = 7", {"p": 8},       "abs(x) = 5"),
]  # fmt: skip


@pytest.mark.parametrize(
    "sql, partition, left", RESIDUALS, ids=[f"{c[0]}-{c[1]['p']}" for c in RESIDUALS]
)
def test_residuals(sql, partition, left):
    node = bind(sql, {"x": pa.int32(), "y": pa.int32()})
    assert show(residual(node, fields(("x", "identity", "p")), partition)).lower() == left.lower()


@pytest.mark.parametrize(
    "sql, values, expected",
    [
        ("x > 5", [float("nan"), 6.0, 5.0], [TRUE, TRUE, FALSE]),
        ("x <= 5", [float("nan"), 5.0], [FALSE, TRUE]),
        ("x <> 5", [float("nan"), None], [TRUE, NULL]),
        ("x = 0", [-0.0, 0.0], [TRUE, TRUE]),
        ("x IN (0, CAST('NaN' AS DOUBLE))", [-0.0, float("nan"), 1.0], [TRUE, TRUE, FALSE]),
    ],
)
def test_floats_follow_spark(sql, values, expected):
    node = bind(sql, {"x": pa.float64()})
    assert [residual(node, fields(("x", "identity", "p")), {"p": v}) for v in values] == expected
    found = project(node, fields(("x", "identity", "p")))
    assert [outcome(found, {("p",): v}) is True for v in values] == [e == TRUE for e in expected]


@pytest.mark.parametrize("mode", MODES)
def test_kernels_judge_manifests(mode, backend):
    """Kernels judge bounds of many partition values, as manifest lists hold them."""
    node = bind(
        "ts >= TIMESTAMP_NTZ '2024-01-01 00:00:00' AND s LIKE 'abc%'",
        {"ts": pa.timestamp("us"), "s": pa.string()},
    )
    found = project(node, fields(("ts", "month", "m"), ("s", "truncate[2]", "t")), mode)
    schema = pa.schema([("m", pa.int32()), ("t", pa.string())])
    months, texts = (
        {"min": [600, 648, 649, 648], "max": [647, 648, 700, 650]},
        {"min": ["ab", "aa", "b", None], "max": ["ab", "ac", "c", None]},
    )
    stats = ss.Statistics.from_dict(
        {"m": {**months, "null_count": [0] * 4}, "t": {**texts, "null_count": [0] * 4}},
        schema,
        row_count=[9] * 4,
    )
    expected = (
        [Verdict.NEVER, Verdict.MAYBE, Verdict.NEVER, Verdict.MAYBE]
        if mode == "inclusive"
        else [Verdict.NEVER] * 4
    )
    assert (
        ss.PruningPredicate._from_bound(found, schema, Session()).evaluate(stats, backend).tolist()
        == expected
    )


def test_nesting_has_an_end():
    x = Node(Op.EQ, (Node(Op.COLUMN, value=("x",), dtype=ty.INT32), literal(1, ty.INT32)))
    node = x
    for i in range(3000):
        node = Node((Op.AND, Op.OR)[i % 2], (node, x))
    with pytest.raises(ss.PredicateTooDeep):
        project(node, ())
    with pytest.raises(ss.PredicateTooDeep):
        residual(node, (), {})


# Three-valued logic: under identity partitions, projections are exact.

WRAPS = (
    lambda p: p,
    lambda p: Node(Op.NOT, (p,)),
    lambda p: Node(Op.IS_NULL, (p,)),
    lambda p: Node(Op.IS_TRUE, (p,)),
)


def test_logic_is_exact():
    x, y = (Node(Op.EQ, (Node(Op.COLUMN, value=(name,), dtype=ty.BOOL), TRUE)) for name in "xy")
    spec = fields(("x", "identity", "x"), ("y", "identity", "y"))
    rows = [{("x",): a, ("y",): b} for a, b in itertools.product((0, 1, None), repeat=2)]
    others = (y, NULL, Node(Op.IS_NULL, x.args[:1]))
    pairs = [
        Node(op, (f(x), g(b)))
        for op in (Op.AND, Op.OR)
        for f, g in itertools.product(WRAPS, repeat=2)
        for b in others
    ]
    trees = [
        f(Node(op, (p, g(b))))
        for p in pairs
        for op in (Op.AND, Op.OR)
        for f, g, b in itertools.product(WRAPS, WRAPS[:2], (y, others[2]))
    ]
    chosen = trees if LONG else trees[::3]
    for node in (*pairs, *(f(p) for p in pairs for f in WRAPS), *chosen):
        expected = [outcome(node, row) for row in rows]
        for mode in MODES:
            found = project(node, spec, mode)
            assert [outcome(found, row) is True for row in rows] == [e is True for e in expected], (
                show(node),
                mode,
                show(found),
            )
        left = [residual(node, spec, {"x": row[("x",)], "y": row[("y",)]}) for row in rows]
        assert left == [NULL if e is None else TRUE if e else FALSE for e in expected]


def test_all_leaves_have_a_rule():
    """A new leaf needs a rule for partition values."""
    assert set(LEAVES) == {*COMPARISONS, Op.IN, Op.LIKE, Op.NAN, Op.DEFINED}


def test_functions_of_identity_partitions():
    """A function is judged by partition values if they determine all of its columns."""
    node = bind(
        "year(d) = 2024 AND x + k > 5 AND length(s) = 3",
        {"d": pa.date32(), "x": pa.int32(), "k": pa.int32(), "s": pa.string()},
    )
    spec = fields(
        ("d", "day", "d_day"),
        ("x", "identity", "x_part"),
        ("k", "bucket[4]", "k_bucket"),
        ("s", "identity", "s_part"),
    )
    assert (
        show(project(node, spec)) == "(year(d_day) = 2024) IS TRUE AND (length(s_part) = 3) IS TRUE"
    )
    assert show(project(node, spec, "strict")) == "false"
    assert show(project(node.args[0], spec, "strict")) == "(year(d_day) = 2024) IS TRUE"
    assert residual(node, spec, {"d_day": 19723}) == node
