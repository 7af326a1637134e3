"""SQL text whose reading a planted fault had changed unnoticed (`python -m tests.mutation`)."""

import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.bindings.predicates import sql
from skipstone.bindings.predicates.sql import parse_order
from skipstone.ir.text import show

SCHEMA = pa.schema(
    [
        ("x", pa.int64()),
        ("y", pa.int64()),
        ("b", pa.bool_()),
        ("s", pa.string()),
        ("d", pa.date32()),
    ]
)


def read(text):
    return ss.PruningPredicate(text, SCHEMA)


#     type in a cast     its name in Skipstone; None: not understood
TYPES = [
    ("BOOLEAN",          "BOOLEAN"),
    ("TINYINT",          "TINYINT"),
    ("SMALLINT",         "SMALLINT"),
    ("INT",              "INT"),
    ("BIGINT",           "BIGINT"),
    ("FLOAT",            "FLOAT"),
    ("DOUBLE",           "DOUBLE"),
    ("STRING",           "STRING"),
    ("BINARY",           "BINARY"),
    ("DATE",             "DATE"),
    ("TIMESTAMP",        "TIMESTAMP"),
    ("TIMESTAMP_LTZ",    "TIMESTAMP"),
    ("TIMESTAMP_NTZ",    "TIMESTAMP_NTZ"),
    ("DECIMAL",          "DECIMAL(10,0)"),
    ("DECIMAL(5)",       "DECIMAL(5,0)"),
    ("DECIMAL(38,38)",   "DECIMAL(38,38)"),
    ("DECIMAL(39,0)",    None),
    ("DECIMAL(0,0)",     None),
    ("DECIMAL(5,6)",     None),
    ("DECIMAL(5,3Y)",    None),
]  # fmt: skip


@pytest.mark.parametrize("name, expected", TYPES)
def test_types_of_casts(name, expected):
    from skipstone.bindings.predicates.sql import parse

    node = parse(f"CAST(s AS {name})")[0]
    assert (str(node.dtype) if node.op.name == "CAST" else None) == expected


def test_a_number_that_sqlglot_cannot_compute_is_a_syntax_error():
    with pytest.raises(ss.PredicateSyntaxError, match="before BD"):
        read("x = 1e-2.5BD")


#     text that Spark groups differently from sqlglot, or that is not understood
UNKNOWN = [
    "x = y <=> x",
    "x = y BETWEEN 1 AND 2",
    "x = y IN (1)",
    "b = s LIKE 'a'",
    "b = s ILIKE 'a'",
    "b = s RLIKE 'a'",
    "x & 1 | 2 = 3",
    "x | 1 ^ 2 = 3",
    "x BETWEEN SYMMETRIC 3 AND 1",
]


@pytest.mark.parametrize("text", UNKNOWN)
def test_text_that_is_grouped_differently_is_unknown(text):
    assert read(text).has_unknown and read(text).always_true


#     text                                      the same as
SAME = [
    ("x & 1 & 2 = 0",                           "(x & 1) & 2 = 0"),
    ("IF(b, x, y) = 1",                         "CASE WHEN b THEN x ELSE y END = 1"),
    ("CASE x WHEN 1 THEN 2 ELSE 3 END = 2",     "CASE WHEN x = 1 THEN 2 ELSE 3 END = 2"),
    ("d + INTERVAL 2 DAYS > DATE '2024-01-03'", "INTERVAL '2' DAY + d > DATE '2024-01-03'"),
    ("substring(s FROM 2) = 'a'",               "substring(s, 2) = 'a'"),
    ("substring(s FROM 2 FOR 1) = 'a'",         "substr(s, 2, 1) = 'a'"),
    ("substr(s FROM 2) = 'a'",                  "substr(s, 2) = 'a'"),
    ("TRIM(LEADING FROM s) = 'a'",              "ltrim(s) = 'a'"),
    ("TRIM(TRAILING FROM s) = 'a'",             "rtrim(s) = 'a'"),
    ("TRIM(BOTH FROM s) = 'a'",                 "trim(s) = 'a'"),
    ("EXTRACT(YEAR FROM d) = 2024",             "year(d) = 2024"),
]  # fmt: skip


@pytest.mark.parametrize("text, same", SAME)
def test_two_ways_to_write_one_condition(text, same):
    assert not read(text).has_unknown
    assert show(read(text).node) == show(read(same).node)


def test_a_moved_date_moves_its_bounds():
    import datetime as dt

    days = [dt.date(2024, 1, 1), dt.date(2024, 1, 2)]
    stats = ss.Statistics.from_dict({"d": {"min": days, "max": days}}, SCHEMA)
    for text in (
        "d + INTERVAL 1 DAY > DATE '2024-01-02'",
        "d - INTERVAL 1 DAY > DATE '2023-12-31'",
    ):
        assert read(text).prune(stats).tolist() == [False, True]


#     text                       line, column of the error
PLACES = [
    ("x = 1 AND\n  )",           2, 3),
    ("x = (1",                   1, 5),
    ("x = 1\n AND from",         2, 6),
    ("x =\n1 AND\n where",       3, 2),
    ("x = 1 AND\n y = ",         2, 4),
    ("s = 'it's' AND x = 1",     1, 10),
    ("s = 'O'Brien'",            1, 13),
    ("x = 1 AND\n s = \"open",   2, 6),
    ("x = 1 /* y */ /* open",    1, 15),
    ("-- it's\n `s = 1",         2, 2),
    ("s = r'\\' AND s = 'a\\'",  1, 18),
    ("\nWHERE x = 1",            2, 1),
]  # fmt: skip


@pytest.mark.parametrize("text, line, column", PLACES)
def test_errors_say_where(text, line, column):
    with pytest.raises(ss.PredicateSyntaxError, match=rf"line {line}, column {column}"):
        read(text)


#     text                                     what the error says
WAYS_OUT = [
    ("SELECT * FROM t WHERE x = 1 AND s = 'a'", "SELECT statement; .*alone: x = 1 AND s = 'a'"),
    ("DELETE FROM t WHERE x = 1",               "DELETE statement; .*alone: x = 1"),
    ("FROM t WHERE x = 1",                      "SELECT statement; .*alone: x = 1"),
    ("UPDATE t SET x = 1",                      "UPDATE statement; .*what follows WHERE"),
    ("EXPLAIN SELECT 1",                        "EXPLAIN statement; .*what follows WHERE"),
    ("SELECT * FROM t WHERE",                   "SELECT statement; .*what follows WHERE"),
    ("MERGE INTO t",                            "MERGE statement; .*what follows WHERE"),
    ("WHERE x = 1",                             "does not begin with WHERE; write x = 1"),
    ("where x",                                 "does not begin with WHERE; write x"),
    ("HAVING x = 1",                            "does not begin with HAVING; write x = 1"),
    ("AND x = 1",                               "does not begin with AND; write x = 1"),
    ("x = 1; y = 2",                            "2 statements; .*; join conditions by AND or OR"),
    ("x = 1 && y = 2",                          "write AND instead of &&"),
    ("x => 5",                                  "write >= instead of =>"),
    ("x =< 5",                                  "write <= instead of =<"),
    ("x ! = 5",                                 "write != without a blank"),
    ("s ~ 'a'",                                 "write RLIKE instead of ~"),
    ("x = %s",                                  "write the value in place of the parameter"),
    ("x = %(p)s",                               "write the value in place of the parameter"),
    ("x = 1 GROUP BY x",                        "leave out GROUP BY"),
    ("x = 1 ORDER BY x",                        "give the order by order_by="),
    ("x = 1 LIMIT 5",                           "give the number of rows by limit="),
    ("s contains 'a'",                          r"write contains\(column, 'text'\)"),
    ("x BETWEEN 1, 5",                          "write BETWEEN low AND high"),
    ("s = 'O'Brien'",                           r"never closed; .*a quote inside it as \\'"),
    ("`s = 'a'",                                "the quoted name that begins here is never"),
]  # fmt: skip


@pytest.mark.parametrize("text, message", WAYS_OUT)
def test_errors_name_the_way_out(text, message):
    with pytest.raises(ss.PredicateSyntaxError, match=message) as caught:
        read(text)
    assert "\n" not in caught.value.message


#     text                the column of the error, if no name in backticks would help
NO_ADVICE = [
    ("from where",        6),  # `where` would be an alias, and an alias is no condition
    ("from > 1 AND",      6),
]  # fmt: skip


@pytest.mark.parametrize("text, column", NO_ADVICE)
def test_no_word_is_named_that_backticks_do_not_help(text, column):
    with pytest.raises(ss.PredicateSyntaxError, match=rf"not expected here.*column {column}\)"):
        read(text)


def test_a_word_that_needs_backticks_is_sought_in_short_texts(monkeypatch):
    monkeypatch.setattr(sql, "MAX_TOKENS_FOR_ADVICE", 3)
    with pytest.raises(ss.PredicateSyntaxError, match="in backticks: `from`"):
        read("x = from")
    with pytest.raises(ss.PredicateSyntaxError, match=r"is missing here|not expected here"):
        read("x = 1 AND y = from")


@pytest.mark.parametrize(
    "limit, text", [("MAX_CHARACTERS", "x = 1"), ("MAX_BACKSLASHES", r"s = '\\\\a'")]
)
def test_limits_of_text(limit, text, monkeypatch):
    count = len(text) if limit == "MAX_CHARACTERS" else text.count("\\")
    monkeypatch.setattr(sql, limit, count)
    sql._parse(text)
    monkeypatch.setattr(sql, limit, count - 1)
    with pytest.raises(
        ss.PredicateSyntaxError, match=r"characters; expected|more than 3 backslashes"
    ):
        sql._parse(text)


@pytest.mark.parametrize("text", ["x LIMIT 1", "x) FROM (t", "x; SELECT 1", " "])
def test_malformed_orders(text):
    with pytest.raises(ss.PredicateSyntaxError, match="order_by is"):
        parse_order(text)
