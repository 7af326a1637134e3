"""All ways to write a predicate give the same nodes."""

import datetime as dt
import decimal
import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg import expressions as ice

import skipstone as ss
from skipstone import col, lit
from skipstone.bindings import hooks
from skipstone.bindings.predicates import source
from skipstone.bindings.predicates.source import is_column
from skipstone.bindings.predicates.sql import parse
from tests.support.effort import LONG
from tests.support.predicates.predicates import predicate
from tests.support.predicates.schemas import INPUTS as SCHEMA
from tests.support.rows.strategies import fields, schema_of

D = decimal.Decimal
F = pc.field
DAY, MOMENT = dt.date(2024, 1, 2), dt.datetime(2024, 1, 2, 3, 4, 5, 6)

#     SQL, col(), pyarrow, filters, Iceberg; None: the form cannot express it
SAME = [
    ("x = 5", col("x") == 5, F("x") == 5, [("x", "=", 5)], ice.EqualTo("x", 5)),
    ("x <> 5", col("x") != 5, F("x") != 5, [("x", "!=", 5)], ice.NotEqualTo("x", 5)),
    ("5 > x", lit(5) > col("x"), pc.scalar(5) > F("x"), [("x", "<", 5)], ice.LessThan("x", 5)),
    (
        "x >= 5 AND i < 3",
        (col("x") >= 5) & (col("i") < 3),
        (F("x") >= 5) & (F("i") < 3),
        [("x", ">=", 5), ("i", "<", 3)],
        ice.And(ice.GreaterThanOrEqual("x", 5), ice.LessThan("i", 3)),
    ),
    (
        "x = 5 OR s = 'a'",
        (col("x") == 5) | (col("s") == "a"),
        (F("x") == 5) | (F("s") == "a"),
        [[("x", "==", 5)], [("s", "=", "a")]],
        ice.Or(ice.EqualTo("x", 5), ice.EqualTo("s", "a")),
    ),
    (
        "NOT (x = 5 AND b)",
        ~((col("x") == 5) & col("b")),
        ~((F("x") == 5) & F("b")),
        None,
        ice.Not(ice.And(ice.EqualTo("x", 5), ice.EqualTo("b", True))),
    ),
    (
        "x IN (1, 2, NULL)",
        col("x").isin([1, 2, None]),
        F("x").isin([1, 2, None]),
        [("x", "in", [1, 2, None])],
        None,
    ),
    (
        "s NOT IN ('a', 'b')",
        ~col("s").isin(["a", "b"]),
        ~F("s").isin(["a", "b"]),
        [("s", "not in", ("a", "b"))],
        ice.NotIn("s", ["a", "b"]),
    ),
    ("x IS NULL", col("x").is_null(), F("x").is_null(), None, ice.IsNull("x")),
    ("x IS NOT NULL", col("x").is_not_null(), F("x").is_valid(), None, ice.NotNull("x")),
    ("x <=> 5", col("x").eq_null_safe(5), None, [("x", "<=>", 5)], None),
    ("(x = 5) IS TRUE", (col("x") == 5).is_true(), None, None, None),
    (
        "x BETWEEN 1 AND 5",
        col("x").between(1, 5),
        (F("x") >= 1) & (F("x") <= 5),
        [("x", ">=", 1), ("x", "<=", 5)],
        ice.And(ice.GreaterThanOrEqual("x", 1), ice.LessThanOrEqual("x", 5)),
    ),
    (
        "s LIKE 'a\\\\_b%'",
        col("s").startswith("a_b"),
        pc.starts_with(F("s"), "a_b"),
        None,
        ice.StartsWith("s", "a_b"),
    ),
    ("x + 1 > 5", col("x") + 1 > 5, F("x") + 1 > 5, None, None),
    ("-x * 2 < i", -col("x") * 2 < col("i"), pc.negate(F("x")) * 2 < F("i"), None, None),
    ("abs(x) = 5", abs(col("x")) == 5, pc.abs(F("x")) == 5, None, None),
    (
        "CAST(x AS INT) = 5",
        col("x").cast(pa.int32()) == 5,
        F("x").cast(pa.int32()) == 5,
        None,
        None,
    ),
    ("year(d) = 2024", ss.call("year", col("d")) == 2024, pc.year(F("d")) == 2024, None, None),
    ("upper(s) = 'A'", ss.call("upper", col("s")) == "A", pc.utf8_upper(F("s")) == "A", None, None),
    (
        "if(x > 3, 1, 2) = 2",
        ss.call("if", col("x") > 3, 1, 2) == 2,
        pc.if_else(F("x") > 3, 1, 2) == 2,
        None,
        None,
    ),
    (
        "coalesce(x, 0) = 0",
        ss.call("coalesce", col("x"), 0) == 0,
        pc.coalesce(F("x"), 0) == 0,
        None,
        None,
    ),
    ("s LIKE '%b'", ss.call("endswith", col("s"), "b"), pc.ends_with(F("s"), "b"), None, None),
    (
        "contains(s, 'b')",
        ss.call("contains", col("s"), "b"),
        pc.match_substring(F("s"), "b"),
        None,
        None,
    ),
    ("s LIKE 'a!_%' ESCAPE '!'", col("s").like("a!_%", "!"), None, None, None),
    ("f = 0.5D", col("f") == 0.5, F("f") == 0.5, [("f", "=", 0.5)], ice.EqualTo("f", 0.5)),
    (
        "f > CAST('NaN' AS DOUBLE)",
        col("f") > float("nan"),
        F("f") > float("nan"),
        [("f", ">", float("nan"))],
        None,
    ),
    (
        "m = 1.50",
        col("m") == D("1.50"),
        F("m") == D("1.50"),
        [("m", "=", D("1.50"))],
        ice.EqualTo("m", D("1.50")),
    ),
    (
        "d = DATE '2024-01-02'",
        col("d") == DAY,
        F("d") == DAY,
        [("d", "=", DAY)],
        ice.EqualTo("d", DAY),
    ),
    (
        "n = TIMESTAMP_NTZ '2024-01-02 03:04:05.000006'",
        col("n") == MOMENT,
        F("n") == MOMENT,
        [("n", "=", MOMENT)],
        ice.EqualTo("n", MOMENT),
    ),
    (
        "t < TIMESTAMP '2024-01-02 03:04:05.000006'",
        col("t") < MOMENT.replace(tzinfo=dt.UTC),
        F("t") < MOMENT.replace(tzinfo=dt.UTC),
        None,
        ice.LessThan("t", MOMENT.replace(tzinfo=dt.UTC)),
    ),
    ("b = true", col("b"), F("b"), [("b", "=", True)], ice.EqualTo("b", True)),
    (
        "y = X'00ff'",
        col("y") == b"\x00\xff",
        F("y") == b"\x00\xff",
        [("y", "=", b"\x00\xff")],
        ice.EqualTo("y", b"\x00\xff"),
    ),
    ("a.b = 5", col("a.b") == 5, F("a", "b") == 5, [("a.b", "=", 5)], ice.EqualTo("a.b", 5)),
    (
        "a.`c.d` = 5",
        col("a", "c.d") == 5,
        F("a", "c.d") == 5,
        [("a.`c.d`", "=", 5)],
        ice.EqualTo("a.c.d", 5),
    ),
    (
        "NOT x IS NULL OR x > 7",
        col("x").is_not_null() | (col("x") > 7),
        F("x").is_valid() | (F("x") > 7),
        None,
        ice.Or(ice.NotNull("x"), ice.GreaterThan("x", 7)),
    ),
    (
        "s NOT LIKE 'ab%'",
        ~col("s").starts_with("ab"),
        ~pc.starts_with(F("s"), "ab"),
        None,
        ice.NotStartsWith("s", "ab"),
    ),
    (
        "f = CAST('NaN' AS DOUBLE)",
        col("f") == float("nan"),
        pc.is_nan(F("f")),
        [("f", "=", float("nan"))],
        None,
    ),
    ("(f = CAST('NaN' AS DOUBLE)) IS TRUE", col("f").is_nan(), None, None, ice.IsNaN("f")),
    ("NOT ((f = CAST('NaN' AS DOUBLE)) IS TRUE)", ~col("f").is_nan(), None, None, ice.NotNaN("f")),
    ("TRUE", lit(True), pc.scalar(True), None, ice.AlwaysTrue()),
    ("FALSE", lit(False), pc.scalar(False), None, ice.AlwaysFalse()),
    (
        "x IN (1, 2, 70000000000)",
        col("x").isin([1, 2, 7 * 10**10]),
        F("x").isin([1, 2, 7 * 10**10]),
        [("x", "in", {1, 2, 7 * 10**10})],
        ice.In("x", [1, 2, 7 * 10**10]),
    ),
    (
        "x = NULL",
        col("x") == None,  # noqa: E711
        F("x") == pa.scalar(None, pa.int64()),
        [("x", "=", None)],
        None,
    ),
]


@pytest.mark.parametrize("sql, expression, arrow, filters, iceberg", SAME, ids=[s[0] for s in SAME])
def test_same_nodes(sql, expression, arrow, filters, iceberg):
    expected = ss.PruningPredicate(sql, SCHEMA)
    for way in (expression, arrow, filters, iceberg):
        if way is not None:
            assert ss.PruningPredicate(way, SCHEMA).node == expected.node, way


def test_a_node_is_bound_with_the_settings():
    """Names and types are those of the schema, and the zone is the session's."""
    text = "D = DATE '2024-01-02' AND t < TIMESTAMP '2024-01-02 03:04:05'"
    for zone in ("UTC", "Asia/Tokyo"):
        expected = ss.PruningPredicate(text, SCHEMA, timezone=zone)
        assert ss.PruningPredicate(parse(text)[0], SCHEMA, timezone=zone).node == expected.node
    with pytest.raises(ss.UnknownColumn):
        ss.PruningPredicate(parse("D = DATE '2024-01-02'")[0], SCHEMA, case_sensitive=True)


#     module                name        a PySpark Column
CLASSES = [
    ("pyspark.sql.column",  "Column",   True),
    ("pyspark.sql.column",  "Columns",  False),
    ("elsewhere",           "Column",   False),
    ("elsewhere",           "Columns",  False),
]  # fmt: skip


@pytest.mark.parametrize("module, name, expected", CLASSES)
def test_columns_are_told_by_the_name_of_their_class(module, name, expected):
    cls = type(name, (), {"__module__": module})
    assert is_column(cls()) is expected
    assert is_column(type("Derived", (cls,), {"__module__": "mine"})()) is expected


def test_a_column_is_bound_with_the_settings(monkeypatch):
    column = type("Column", (), {"__module__": "pyspark.sql.column"})()
    text = "t < TIMESTAMP '2024-01-02 03:04:05'"
    monkeypatch.setattr(
        hooks, "call", lambda hook, given: parse(text)[0] if given is column else None
    )
    for zone in ("UTC", "Asia/Tokyo"):
        expected = ss.PruningPredicate(text, SCHEMA, timezone=zone)
        assert ss.PruningPredicate(column, SCHEMA, timezone=zone).node == expected.node


def test_an_error_points_at_the_name_in_the_text():
    with pytest.raises(ss.UnknownColumn) as raised:
        ss.PruningPredicate("x = 1 AND xx > 2", SCHEMA)
    assert str(raised.value).endswith("(line 1, column 11)\n  x = 1 AND xx > 2\n            ^")


def test_an_error_about_no_name_points_nowhere(monkeypatch):
    def refuse(*_):
        raise ss.PredicateTooDeep("too deep")

    monkeypatch.setattr(source, "bind", refuse)
    with pytest.raises(ss.PredicateTooDeep, match=r"^too deep$"):
        ss.PruningPredicate("x = 1", SCHEMA)


@pytest.mark.parametrize(
    "value", [np.int64(5), np.int8(5), np.uint16(5), pa.scalar(5), np.float64(5.0), D("5.00"), 5.0]
)
def test_numbers_of_every_make(value):
    assert ss.PruningPredicate(col("x") == value, SCHEMA).expr == "x = 5"


ARROW_UNKNOWN = [
    F("x").isin(pa.array([dt.time(1)])),
    F("d") == pa.scalar(2**31 - 1, pa.int32()).cast(pa.date32()),  # Python has no such date
    pc.and_(F("b"), F("x") == 1),  # NULL if either side is, which SQL has no operator for
    pc.true_unless_null(F("x") == 100),
    F("x").is_null(nan_is_null=True),
    F("x") / 2 == 1,  # Arrow truncates quotients of integers, Spark does not
    F("x").cast(pa.list_(pa.int64())) == 1,
    pc.utf8_title(F("s")) == "A",
    pc.match_like(F("s"), "a%", ignore_case=True),
]


@pytest.mark.parametrize("expression", ARROW_UNKNOWN, ids=map(str, ARROW_UNKNOWN))
def test_unknown_arrow_functions_are_kept(expression):
    stats = ss.Statistics.from_dict({"x": {"min": [100], "max": [200]}}, SCHEMA)
    assert ss.PruningPredicate(expression, SCHEMA).evaluate(stats).tolist() == [1]
    assert ss.PruningPredicate(expression & (F("x") == 5), SCHEMA).evaluate(stats).tolist() == [0]
    with pytest.raises(ss.UnknownColumn):
        ss.PruningPredicate(expression & (pc.utf8_upper(F("nope")) == "A"), SCHEMA)


def test_true_unless_null_is_null_where_the_column_is():
    p = ss.PruningPredicate(~pc.true_unless_null(F("x")), SCHEMA)
    stats = ss.Statistics.from_dict({"x": {"null_count": [3]}}, SCHEMA, row_count=[3])
    assert p.evaluate(stats).tolist() == [0]  # NULL in every row, so never TRUE


@pytest.mark.parametrize("seed", range(4 if LONG else 1))
def test_random_predicates_as_text_and_as_expression(seed):
    r = random.Random(seed)
    for _ in range(60):
        chosen = fields(r)
        schema = schema_of(chosen)
        for _ in range(10):
            others = r.random() < 0.5
            q = predicate(r, chosen, plain=True, others=others)
            if others and " IN (" in q.sql:
                continue  # in text, members that are casts stay apart, in another order
            assert (
                ss.PruningPredicate(q.sql, schema).node == ss.PruningPredicate(q.expr, schema).node
            ), q.sql


#    a name as `col` takes it     the column
NAMES = [
    ("a`b",      "a`b"),
    ("`a``b`",   "a`b"),
    ("`a",       "`a"),
    ("`x.y`",    "x.y"),
    ("`a` b",    "`a` b"),
]  # fmt: skip


@pytest.mark.parametrize("name, column", NAMES)
def test_backticks_within_a_name_stand_for_themselves(name, column):
    schema = pa.schema([(c, pa.int64()) for c in {"ab": 0, **{c: 0 for _, c in NAMES}}])
    quoted = "`" + column.replace("`", "``") + "`"
    assert ss.PruningPredicate(col(name) == 5, schema) == ss.PruningPredicate(
        f"{quoted} = 5", schema
    )
    assert ss.PruningPredicate([(name, "=", 5)], schema).columns == (quoted,)


@pytest.mark.parametrize(
    "condition",
    [
        col("c") >= pa.scalar(1_500, pa.time64("ns")),
        pc.field("c") >= pa.scalar(1_500, pa.time64("ns")),
        [("c", ">=", pa.scalar(1_500, pa.time64("ns")))],
    ],
    ids=["col", "arrow", "filters"],
)
def test_nanoseconds_of_a_time_of_day(condition):
    """Arrow's Python value of such a time lacks the nanoseconds below a microsecond."""
    schema = pa.schema([("c", pa.time64("ns"))])
    predicate = ss.PruningPredicate(condition, schema)
    bounds = pa.array([1_100, 1_499, 1_500], pa.time64("ns"))
    stats = ss.Statistics.from_dict({"c": {"min": bounds, "max": bounds}}, schema)
    assert predicate.prune(stats).tolist() == [False, False, True]
    assert predicate.expr == "c >= TIME '00:00:00.000001500'"


@pytest.mark.parametrize(
    "where",
    [
        "x > -(2147483648) - 1",
        "x > negative(2147483648) - 1",
        col("x") > -lit(2147483648) - 1,
        col("x") > ss.call("negative", 2147483648) - 1,
        pc.field("x") > pc.subtract(pc.negate(pc.scalar(2147483648)), 1),
    ],
    ids=str,
)
def test_a_negated_bigint_stays_one(where):
    """`-2147483648` is an INT; only a sign that is written before the number belongs to it."""
    p = ss.PruningPredicate(where, pa.schema([("x", pa.int64())]), ansi=False)
    assert str(p.expr) == "x > -2147483649"
