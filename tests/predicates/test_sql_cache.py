"""A cached parse that is filled with other literals, or read from disk, equals a fresh parse."""

import contextlib
import random

import pyarrow as pa
import pytest

from skipstone.bindings.predicates import sql, sql_cache, sql_saved
from skipstone.ir.bind import bind
from skipstone.ir.errors import PredicateError, UnknownColumn
from skipstone.ir.node import Node, Op
from skipstone.ir.session import Session
from skipstone.ir.types import leaves_of
from tests.support.effort import LONG

SCHEMA = pa.schema(
    {
        "x": pa.int64(),
        "y": pa.int32(),
        "s": pa.string(),
        "f": pa.float64(),
        "g": pa.float32(),
        "d": pa.date32(),
        "t": pa.timestamp("us", "UTC"),
        "n": pa.timestamp("us"),
        "m": pa.decimal128(10, 2),
        "and 5": pa.int8(),
    }
)
NAMES = ("x", "y", "s", "f", "g", "d", "t", "n", "m", "`and 5`", "X", "nope", "`a'b`")
# Forms with places for a name {c}, a value {v} and another condition {p}.
FORMS = (
    *(f"{{c}} {op} {{v}}" for op in ("=", "<", ">=", "<>", "<=>", "!=", "!<", "==")),
    *("{v} < {c}", "{c}={v}", "{c}>-{v}", "{c} = - {v}", "{c} - {v} > {v}", "{c} + {v} <= {v}"),
    *("{c} IN ({v})", "{c} IN ({v}, {v} ,{v})", "{c} NOT IN ({v},{v})", "{c} IN ({v}, {c})"),
    *("{c} BETWEEN {v} AND {v}", "{c} not between {v} and {v}", "{v} BETWEEN {c} AND {v}"),
    *("{c} LIKE {v}", "{c} NOT LIKE {v}", "{c} ILIKE {v}", "{c} RLIKE {v}", "{c} LIKE ANY ({v})"),
    *("{c} LIKE {v} ESCAPE {v}", "{c} LIKE ALL ({v}, {v})", "{c} IS NULL", "{c} IS NOT TRUE"),
    *(
        "{c} = DATE {v}",
        "{c} < DATE'2020-01-02'",
        "{c} >= TIMESTAMP {v}",
        "{c} < TIMESTAMP_NTZ{v}",
        "{c} < TIMESTAMP_LTZ {v}",
        "{c} = INTERVAL {v} DAY",
    ),
    *("{c} = INTERVAL {v}", "{c} > TIMESTAMP '2020-01-01 00:00:00+01:00'", "{c} = X{v}"),
    *("{c} = CAST({v} AS INT)", "CAST({c} AS DECIMAL({v}, {v})) = {v}", "{c} = {v}::string"),
    *("{c} = FLOAT({v})", "coalesce({c}, {v}) = {v}", "substring({c}, {v}, {v}) = {v}"),
    *("date_add({c}, {v}) < {v}", "dateadd(DAY, {v}, {c}) > {v}", "round({c}, {v}) = {v}"),
    *("CASE WHEN {c} = {v} THEN {v} ELSE {v} END = {v}", "if({p}, {v}, {v}) = {v}"),
    *("CASE {v} WHEN {c} THEN true END", "{c}[{v}] = {v}", "{c} = {v} {v}", "{c} = {v} || {v}"),
    *("NOT {p}", "({p}) AND ({p})", "{p} AND {p}", "{p} OR {p}", "({p})", "{p} AND", "{p}; {p}"),
    *("{p} -- {v}\n AND {p}", "{p} /* {v} */ OR {p}", "{c} = {v}AND {c} = {v}", "{c} = r{v}"),
    *("{v}", "{v} AND {p}", "filter({c}, a -> a > {v}) = {v}", "unheard_of({c}, {v}) > {v}"),
    *("{c} = -({v})", "{c} / - ({v}) < {v}", "{c} IN (-(({v})), {v})", "-( -({v})) + {c} > {v}"),
    *("{c} IN (SELECT {v})", "{c} = {v} = {v}", "{c} & {v} = {v}", "{c} % {v} = {v}"),
    *("get_json_object({c}, {v}) = {v}", "{c}:a = {v}", "{c}.{v} = {v}", "1e-{v} < {c}"),
)
NUMBERS = ("0", "1", "007", "5", "2147483647", "2147483648", "9223372036854775808", "9" * 39)
NUMBERS += ("1.0", "1.50", ".5", "5.", "1e3", "1.5e0F", "5L", "3Y", "2.5BD", "1_000", "0x1F", "1D")
NUMBERS += ("99999999999", "987000000", "987000001", "9" * 38, "0.00001", "1" * 20 + "." + "1" * 19)
STRINGS = ("", "a", "2020-01-01", "2020-01-01 10:11:12", "2020-01-01T00:00:00Z", "5", "a%", "_b%")
STRINGS += ("it''s", "\\%", "\\", "é", "a AND b = 5", "= 5", "' 'x", "\n", "`", "--", "1 day", "!")
STRINGS += ("2020-13-01", "\udc80", "987000001", "$.a", "9 IN (1, 2)", "\t", "x" * 40, "/*", '"')
OTHERS = ("NULL", "true", "current_date()", "-3", "- 3", "+4", '"dq"', "(6)", "(-7)", "y")


def value(r):
    pick = r.random()
    if pick < 0.45:
        return r.choice((*NUMBERS, str(r.randrange(10**9)), str(r.randrange(100))))
    if pick < 0.9:
        return f"'{r.choice(STRINGS)}'"
    return r.choice(OTHERS)


def shape(r, depth=2):
    """Return a random text with places `{v}` for values."""
    form = r.choice(FORMS)
    if depth == 0 and "{p}" in form:
        form = r.choice(FORMS[:14])
    while "{p}" in form:
        form = form.replace("{p}", shape(r, depth - 1), 1)
    while "{c}" in form:
        form = form.replace("{c}", r.choice(NAMES), 1)
    return form


def filled(r, text):
    while "{v}" in text:
        text = text.replace("{v}", value(r), 1)
    return text


def outcome(text, parse):
    try:
        return parse(text)
    except PredicateError as e:
        return type(e), str(e)


def check(text):
    kept, fresh = outcome(text, sql._parse_literals), outcome(text, sql._parse)
    # Equal nodes of different literals print alike only if their types and values agree.
    assert kept == fresh and repr(kept) == repr(fresh), text
    with contextlib.suppress(sql_saved._CannotSave):
        if isinstance(fresh[0], Node):
            saved = sql_saved._parsed_of(text, sql_saved._as_bytes(text, fresh))
            assert saved == fresh and repr(saved) == repr(fresh), text


@pytest.mark.parametrize("seed", range(400 if LONG else 4))
def test_kept_parses_equal_fresh_ones(seed):
    r = random.Random(seed)
    for _ in range(60):
        text = shape(r)
        for _ in range(6):
            check(filled(r, text))


# A text, and others that can use its cached parse.
KEPT = {
    "x >= 5 AND y = 3": ["x >= 99999999999 AND y = 1.5", "x >= 007 AND y = 3"],
    "s = 'a' OR s LIKE 'b%'": ["s = 'it AND x = 5' OR s LIKE ''"],
    "d >= DATE '2020-01-01'": ["d >= DATE '2021-12-31'"],
    "x IN (1, 2) AND NOT y BETWEEN 3 AND -4": ["x IN (5.5, 2) AND NOT y BETWEEN 1 AND -2147483648"],
    "`and 5` = 5": ["`and 5` = 6"],
}


@pytest.mark.parametrize("text", KEPT)
def test_what_is_kept(text):
    sql_cache._parse_marked.cache_clear()
    for other in (text, *KEPT[text]):
        check(other)
    found = sql_cache._parse_marked.cache_info()
    assert (found.misses, found.hits) == (1, len(KEPT[text]))


# The tree of these texts depends on the values of their literals.
NEVER_KEPT = (
    "s LIKE ANY ('a', 'b')",
    "s LIKE 'a!%' ESCAPE '!'",
    "d = INTERVAL '1' DAY",
    "g = 1.5e0F",
    "x = 5L",
    "CAST(x AS DECIMAL(10, 2)) = 5",
    "s = 'it''s' -- = 5",
    "x = -(5)",
    "x IN (7, - ((5)))",
    "no_such(x SIMILAR 5) = 5",
)


@pytest.mark.parametrize("text", NEVER_KEPT)
def test_what_is_not_kept(text):
    assert sql_cache.parse_cached(text, sql._parse) is None
    check(text)


def test_binding_sees_the_literals():
    """A condition that literals make contradictory, or that cannot be cast, is judged anew."""
    for text in ("y > 5 AND y < 3", "y > 1 AND y < 3", "y = '4'", "y = 'b'", "y = 5.5", "y = 5"):
        kept, fresh = sql._parse_literals(text)[0], sql._parse(text)[0]
        for session in (Session(), Session("Asia/Kolkata", ansi=False)):
            leaves = leaves_of(SCHEMA)
            assert bind(kept, leaves, session) == bind(fresh, leaves, session)


def test_errors_name_the_place():
    from skipstone import PruningPredicate

    for text in ("x = 5 AND nope = 1", "x = 123456789012345 AND nope = 1", "s = '' AND nope = 1"):
        with pytest.raises(UnknownColumn) as e:
            PruningPredicate(text, SCHEMA)
        assert e.value.position == text.index("nope")


def test_marks_never_stay():
    r = random.Random(5)
    for _ in range(500):
        found = outcome(filled(r, shape(r)).replace("987", "1"), sql._parse_literals)
        assert f"{sql_cache.FIRST_MARK}"[:6] not in repr(found)
    assert sql._parse_literals("x = 987000001")[0].args[1].op is Op.LITERAL
