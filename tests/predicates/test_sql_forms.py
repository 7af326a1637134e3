"""SQL forms that the reader does not know are UNKNOWN: they do not prune, and are not an error."""

import pyarrow as pa
import pytest
from sqlglot import exp

import skipstone as ss
from skipstone.bindings.predicates.sql import parse, parse_order
from skipstone.bindings.predicates.sql_forms import PARTS, READ, UNREAD, not_understood
from skipstone.ir.node import Op

SCHEMA = pa.schema(
    [
        *((n, pa.int64()) for n in ("x", "y", "month", "v")),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("d", pa.date32()),
        ("e", pa.date32()),
        ("t", pa.timestamp("us", "UTC")),
        ("n", pa.timestamp("us")),
        ("arr", pa.list_(pa.int64())),
    ]
)
STATS = ss.Statistics.from_dict({"x": {"min": [7], "max": [9], "null_count": [0]}}, SCHEMA)


def classes(names):
    """Return the named classes, if the installed sqlglot has them."""
    return {name: cls for name in sorted(names) if (cls := getattr(exp, name, None)) is not None}


@pytest.mark.parametrize("name, cls", classes(READ).items(), ids=classes(READ))
def test_every_argument_is_listed(name, cls):
    """A version of sqlglot that adds an argument fails here: read it, or list it in UNREAD."""
    assert set(cls.arg_types) <= READ[name] | UNREAD.get(name, frozenset())
    assert not READ[name] & UNREAD.get(name, frozenset())


def test_tables_are_consistent():
    assert set(UNREAD) <= set(READ)
    assert set(PARTS) <= set(READ)


OTHERS = [(name, arg) for name in sorted(UNREAD) for arg in sorted(UNREAD[name])]


@pytest.mark.parametrize("name, arg", [*OTHERS, ("Column", "new"), ("Not", "new"), ("If", "new")])
def test_an_argument_that_is_not_read_is_unknown(name, arg):
    cls = classes(READ).get(name)
    if cls is None or (arg not in cls.arg_types and arg != "new"):
        pytest.skip("the installed sqlglot does not have it")
    form = cls()
    form.set(arg, False)
    assert not_understood(form) is None
    form.set(arg, exp.Null())
    assert not_understood(form) == f"{name} with {arg}"
    inside = exp.Anonymous(this="f", expressions=[exp.Null(), form])
    assert (not_understood(inside) is not None) == (name in PARTS)  # others are read on their own


def test_every_other_class_is_unknown():
    every = {c.__name__: c for c in vars(exp).values() if isinstance(c, type)}
    strange = [
        name
        for name, c in every.items()
        if issubclass(c, exp.Expression) and name not in READ and not_understood(c()) is None
    ]
    assert strange == []


# Text with a form that is not understood; the rest of the condition still prunes.
UNKNOWN_FORMS = [
    "timestampadd(HOUR, x, t) > t",
    "x & 1 >>> 1 = 1", "x | 1 >> 1 = 1", "x ^ 1 << 1 = 1", "v:a::int = 1", "v:a = 1",
    "v:a.b[0].c::string = '1'", "v:['a'] = 1", "v:a['b c'] = 1", "parse_json(s):a::int = x",
    "exists(arr, v -> soundex(v) = x)", "aggregate(arr, 0, (p, q) -> p + q) = 1",
    "filter(arr, (p, q, r) -> p > x)[0] = 1", "d = d + INTERVAL x DAY",
    "t = t + INTERVAL '10' DAY TO HOUR", "d = d + INTERVAL 1 MONTH 1 DAY",
    "t - n > INTERVAL '1 24:03:04' DAY TO SECOND",
    "struct(x, y).col1 = 1", "named_struct('a', x).a = 1", "array(x, y)[0] = 1",
    "map('a', x)['a'] = 1", "struct(x AS a).a = 1", "(x, y) IN ((1, 2, 3))", "mask(s) IN (s, 'a')",
    "CAST(s AS DATE FORMAT 'yyyy') = d",
    "CAST(s AS INT DEFAULT 3 ON CONVERSION ERROR) = x",
    "CAST(s AS STRING COLLATE UTF8_LCASE) = 'a'", "s COLLATE UTF8_LCASE = 'a'",
    "s COLLATE `UNICODE` = 'a'", "CAST(x AS VOID) IS NULL", "CAST(x AS SOME_TYPE(3)) = 1",
    "first(x IGNORE NULLS) = 1", "coalesce(DISTINCT x, 1) = 1", "abs(x) FILTER (WHERE b) = 1",
    "abs(x) OVER (PARTITION BY y) = 1", "abs(expr => x) = 1", "x BETWEEN SYMMETRIC 9 AND 1",
    "x IN (SELECT x FROM u LATERAL VIEW OUTER EXPLODE(a) AS q)",
    "EXISTS (SELECT 1 FROM u WHERE a ~~ b)", "x = (SELECT max(x) FROM u WHERE NOT NOT)",
    "x IN (SELECT nope nope nope FROM u)", "user = s", "current_user = s", "session_user = s",
    "t < current_timestamp", "d = current_date", "SUBSTRING(s, 1, 2, 3) = 'a'",
    "s LIKE 'a' ESCAPE NULL", "s LIKE ANY ('a%', 'a\\\\b')",
    "s LIKE ALL ('a%') ESCAPE '!'", "s RLIKE ANY ('a')", "+s = '5'",
    "x || y + 1 = 2", "x & y || 1 = 2", "b <=> b <= b", "b <=> x BETWEEN 1 AND 2",
    "b <=> x IN (1)", "x IS DISTINCT FROM y = b", "b <=> b IS DISTINCT FROM b",
    "b = b <=> b < b", "CAST(x AS FLOAT) = 1.00000017881393432617187499e0F",
]  # fmt: skip


@pytest.mark.parametrize("text", UNKNOWN_FORMS)
def test_an_unknown_form_leaves_the_rest_pruning(text):
    p = ss.PruningPredicate(text, SCHEMA)
    assert any(n.op is Op.UNKNOWN for n in p.node.walk())
    assert p.evaluate(STATS).tolist() == [ss.Verdict.MAYBE]
    for whole in (f"{text} AND x = 1", f"x = 1 AND ({text}) AND b", f"b AND x < 7 AND {text}"):
        assert ss.PruningPredicate(whole, SCHEMA).evaluate(STATS).tolist() == [ss.Verdict.NEVER]


#  text                              the column that the schema lacks
NO_COLUMN = [
    ("datediff(MONTHS, d, e) = 1",       "MONTHS"),  # not a unit in Spark
    ("datediff(day, d) = 1",             "day"),     # with two arguments, none is a unit
    ("dateadd(`DAY`, 1, d) = e",         "DAY"),     # a quoted name is a name
    ("trunc(d, DAY) = e",                "DAY"),     # Spark looks for a column too
    ("dateadd(MONTH, nope, d) = e",      "nope"),
    ("nope >>> 1 = 1",                   "nope"),
    ("nope:a::int = 1",                  "nope"),
    ("s COLLATE UTF8_LCASE = nope",      "nope"),
    ("0x1F = 1",                         "`0x1F`"),
    ("localtimestamp = t",               "localtimestamp"),
]  # fmt: skip


@pytest.mark.parametrize("text, column", NO_COLUMN)
def test_columns_beside_units_must_exist(text, column):
    with pytest.raises(ss.UnknownColumn, match=f"'{column}'"):
        ss.PruningPredicate(text, SCHEMA)


def test_a_unit_is_not_a_column_of_its_name():
    assert "month" not in ss.PruningPredicate("dateadd(MONTH, 1, d) = e", SCHEMA).columns
    assert "month" in ss.PruningPredicate("datediff(d, e) = month", SCHEMA).columns


#  text                         message                                             position
SYNTAX = [
    ("from = 1",                "'from' is an SQL keyword; .*: `from`",                  0),
    ("x = from",                "'from' is an SQL keyword; .*: `from`",                  4),
    ("x IN (from, 1)",          "'from' is an SQL keyword; .*: `from`",                 6),
    ("x = 1 AND case = 2",      "'case' is an SQL keyword; .*: `case`",                 10),
    ("select = 1 AND from = 2", "'select' is an SQL keyword; .*: `select`, `from`",     0),
    ("x = = 1",                 "an operand is missing here",                           4),
    ("x = 1 AND",               "an operand is missing here",                           6),
    ("x = 1)",                  "this \\) closes nothing",                              5),
    ("(x = 1",                  "this \\( is never closed",                             0),
    ("x IN (1]",                "this \\] closes nothing",                              7),
    ("s = ')' AND arr[1 = 2",   "this \\[ is never closed",                            15),
    ("x y",                     "'y' follows a whole condition",                       2),
    ("x ! < 1",                 "this is not expected here",                            2),
    ("x XOR y",                 "this is not expected here",                            2),
    ("x = 1 ORDER BY x",        "this is not expected here",                            6),
    ("s = 'open",               "the string that begins here is never closed",          4),
    ("CASE WHEN b THEN 1",      "Expected END after CASE",                             17),
    ("abs(x y z) = 1",          "expected \\)",                                         6),
    ("x = +",                   "an operand is missing here",                           4),
]  # fmt: skip


@pytest.mark.parametrize("text, message, position", SYNTAX)
def test_syntax_errors_say_what_fits(text, message, position):
    with pytest.raises(ss.PredicateSyntaxError, match=message) as caught:
        ss.PruningPredicate(text, SCHEMA)
    assert ("backticks" in str(caught.value)) == (
        "backticks" in message or "SQL keyword" in message
    )
    assert caught.value.position == position


def test_order_is_read_by_the_same_reader():
    assert parse_order("x DESC, y NULLS LAST") == [
        (parse("x")[0], True, False),
        (parse("y")[0], False, False),
    ]
    assert parse_order("s COLLATE UTF8_LCASE")[0][0].op is Op.UNKNOWN
    assert parse_order("x -- \\\n DESC")[0][1] is False
    for text in ("x WITH FILL", "x LIMIT 1", "x; SELECT 1", "(x", ""):
        with pytest.raises(ss.PredicateSyntaxError, match="order_by"):
            parse_order(text)
