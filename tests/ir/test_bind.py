"""Binding: literals become axis values, names are resolved, and errors point at their position."""

import decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skipstone as ss
from skipstone.ir.node import WORDS, quoted_name

D = decimal.Decimal
SCHEMA = pa.schema(
    [
        ("i", pa.int8()), ("x", pa.int64()), ("u", pa.uint8()), ("v", pa.uint64()),
        ("f", pa.float32()), ("g", pa.float64()),
        ("m", pa.decimal128(9, 2)), ("w", pa.decimal128(38, 10)), ("d", pa.date32()),
        ("n", pa.timestamp("us")), ("ns", pa.timestamp("ns")),
        ("sec", pa.timestamp("s")), ("t", pa.timestamp("us", "UTC")), ("s", pa.string()),
        ("y", pa.binary()), ("b", pa.bool_()),
        ("l", pa.list_(pa.int64())), ("z", pa.null()),
        ("a", pa.struct([("b", pa.int64()), ("C", pa.struct([("d.e", pa.int64())]))])),
    ]
)  # fmt: skip

#    predicate                                    bound
COERCED = [
    ("i = 5",                                     "i = 5"),
    ("i = 5L",                                    "i = 5"),
    ("i < 5.5",                                   "i < 6"),
    ("i <= 5.5",                                  "i <= 5"),
    ("i > 5.5",                                   "i > 5"),
    ("i >= 5.5",                                  "i >= 6"),
    ("i = 5.5",                                   "i <> i"),  # never TRUE; NULL where i is NULL
    ("i <> 5.5",                                  "i = i"),  # TRUE where i is not NULL
    ("i = 5.0",                                   "i = 5"),
    ("i = 5.0e0",                                 "i = 5"),
    ("i < 5.5e0",                                 "i < 6"),
    ("5.5 > i",                                   "i < 6"),
    ("5 <= i",                                    "i >= 5"),
    ("i = '5'",                                   "i = 5"),
    ("i = ' 5 '",                                 "i = 5"),
    ("x = -9223372036854775808",                  "x = -9223372036854775808"),
    ("x = 9223372036854775807",                   "x = 9223372036854775807"),
    # both round to the same DOUBLE
    ("x > 9007199254740992.0e0",                  "x > 9007199254740993"),
    ("x = 9007199254740993e0", "x >= 9007199254740992 AND x <= 9007199254740993"),
    ("v = 18446744073709551615",                  "v = 18446744073709551615"),
    ("v >= -1",                                   "v = v"),
    ("u < 256",                                   "u = u"),
    ("u > 255",                                   "u <> u"),
    ("u >= 255",                                  "u >= 255"),
    ("f = 0.5",                                   "f = 0.5F"),
    ("f = 0.1",                                   "f <> f"),          # no FLOAT is the DOUBLE 0.1
    ("f = 0.1F",                                  "f = 0.10000000149011612F"),
    ("f < 0.1",                                   "f < 0.10000000149011612F"),
    ("f > 0.1",                                   "f > 0.09999999403953552F"),
    ("f > 1e39",                                  "f > 3.4028234663852886e+38F"),
    ("f < 1e-50",                                 "f < 1.401298464324817e-45F"),
    ("f = -0.0",                                  "f = 0.0F"),
    ("g = 16777217",                              "g = 16777217.0D"),
    ("g = 9007199254740993",                      "g = 9007199254740992.0D"),
    ("g = '1e3'",                                 "g = 1000.0D"),
    ("g > CAST('NaN' AS DOUBLE)",                 "g <> g"),
    ("g >= CAST('NaN' AS DOUBLE)",                "g = CAST('NaN' AS DOUBLE)"),
    ("g < CAST('NaN' AS FLOAT)",                  "NOT (g = CAST('NaN' AS DOUBLE))"),
    ("g <= CAST('NaN' AS DOUBLE)",                "g = g"),
    # which NaN is not
    ("g <= CAST('Infinity' AS DOUBLE)",           "g <= CAST('Infinity' AS DOUBLE)"),
    ("g > CAST('Infinity' AS DOUBLE)",            "g > CAST('Infinity' AS DOUBLE)"),   # and NaN is
    ("f >= CAST('-Infinity' AS DOUBLE)",          "f >= CAST('-Infinity' AS FLOAT)"),
    ("g <> CAST('NaN' AS DOUBLE)",                "NOT (g = CAST('NaN' AS DOUBLE))"),
    ("i < CAST('NaN' AS DOUBLE)",                 "i = i"),
    ("i = CAST('NaN' AS DOUBLE)",                 "i <> i"),
    ("m = 1.5",                                   "m = 1.50"),
    ("m = 1",                                     "m = 1.00"),
    ("m < 1.555",                                 "m < 1.56"),
    ("m >= 1.555",                                "m >= 1.56"),
    ("m = 1.555",                                 "m <> m"),
    ("m = CAST('-1.555' AS DECIMAL(9,2))",        "m = -1.56"),
    ("m < 10000000",                              "m = m"),
    ("m = 0.1e0",                                 "m = 0.10"),
    ("w = 0.0000000001",                          "w = 0.0000000001"),
    ("w < 1e-10",                                 "w < 0.0000000001"),
    ("d = '2024-01-02'",                          "d = DATE '2024-01-02'"),
    ("d = '2024-1-2'",                            "d = DATE '2024-01-02'"),
    ("d = '2024'",                                "d = DATE '2024-01-01'"),
    ("d < TIMESTAMP_NTZ '2024-01-02 00:00:00.1'", "d < DATE '2024-01-03'"),
    ("d = TIMESTAMP_NTZ '2024-01-02 00:00:00'",   "d = DATE '2024-01-02'"),
    ("d = TIMESTAMP_NTZ '2024-01-02 00:00:01'",   "d <> d"),
    ("n = DATE '2024-01-02'",                     "n = TIMESTAMP_NTZ '2024-01-02 00:00:00'"),
    ("n >= '2024-01-02 03:04:05.678'", "n >= TIMESTAMP_NTZ '2024-01-02 03:04:05.678000'"),
    ("sec < TIMESTAMP_NTZ '2024-01-02 00:00:00.5'", "sec < TIMESTAMP_NTZ '2024-01-02 00:00:01'"),
    ("ns = TIMESTAMP_NTZ '2024-01-02'",           "ns = TIMESTAMP_NTZ '2024-01-02 00:00:00'"),
    ("ns < TIMESTAMP_NTZ '9999-01-01'", "ns = ns"),  # beyond the nanoseconds' range
    ("t = '2024-01-02 03:04:05+01:00'",           "t = TIMESTAMP '2024-01-02 02:04:05+00:00'"),
    ("t = '2024-01-02T03:04:05Z'",                "t = TIMESTAMP '2024-01-02 03:04:05+00:00'"),
    ("b = 'true'",                                "b = true"),
    ("b < TRUE",                                  "b < true"),
    ("b <= TRUE",                                 "b = b"),
    ("s = ''",                                    "s = ''"),
    ("s < ''",                                    "s <> s"),
    ("y >= X''",                                  "y = y"),
    ("y = X'0f'",                                 "y = X'0f'"),
    ("i IN (1, 300, 2.0)",                        "i IN (1, 2) OR i <> i"),
    ("u IN (1, -1)",                              "u = 1"),
    ("i IN (1.5, 2.5)",                           "i <> i"),
    ("f IN (0.5, CAST('NaN' AS DOUBLE))",         "f = 0.5F OR f = CAST('NaN' AS DOUBLE)"),
    ("x IN (9007199254740993, 1e0)", "x = 1 OR x >= 9007199254740992 AND x <= 9007199254740993"),
    ("d IN ('2024-01-01', NULL)",                 "d = DATE '2024-01-01' OR NULL"),
    ("1 IN (1, 2)",                               "true"),
    ("3 NOT IN (1, NULL)",                        "NULL"),
    ("i <=> NULL",                                "i IS NULL"),
    ("i <=> 300",                                 "(i <> i) IS TRUE"),
    ("NULL <=> NULL",                             "true"),
    ("i = NULL",                                  "NULL"),
    ("z = 1",                                     "NULL"),
    ("z IS NULL",                                 "true"),
    ("z <=> i",                                   "i IS NULL"),
    ("i = i",                                     "i = i"),
    ("i < i",                                     "i <> i"),
    ("i <=> i",                                   "true"),
    ("1 = 1.0",                                   "true"),
    ("'a' < 'b'",                                 "true"),
    ("'5' = 5",                                   "true"),
    ("1 > NULL",                                  "NULL"),
    ("CAST(NULL AS INT) <=> 5",                   "false"),
    ("i = 2 + 3",                                 "i = 5"),
    ("i = -(-5)",                                 "i = 5"),
    ("n = CAST('2024-01-02' AS TIMESTAMP_NTZ)",   "n = TIMESTAMP_NTZ '2024-01-02 00:00:00'"),
    ("l IS NULL",                                 "l IS NULL"),
    ("a IS NULL",                                 "a IS NULL"),
    ("a.b = 1",                                   "a.b = 1"),
    ("A.c.`D.E` = 1",                             "a.C.`d.e` = 1"),
    ("X = 1",                                     "x = 1"),
]  # fmt: skip


@pytest.mark.parametrize("predicate, bound", COERCED)
def test_coerced(predicate, bound):
    assert ss.PruningPredicate(predicate, SCHEMA).expr == bound


# Spark compares all members of IN in one type; without ANSI mode that is text, if one of them is.
#    predicate                                                        Spark, ANSI   not ANSI
CONSTANT_LISTS = [
    ("5 IN ('05')",                                                   "true",       "false"),
    ("5 NOT IN ('05')",                                               "false",      "true"),
    ("5 IN (6, '05')",                                                "true",       "false"),
    ("DATE '2024-03-31' IN ('2024-3-31')",                            "true",       "false"),
    ("TIMESTAMP '2024-03-31 00:00:00Z' IN ('2024-03-31 00:00:00Z')",  "true",       "false"),
    ("INTERVAL '1' DAY IN ('1')", "INTERVAL '1' DAY IN (...)", "INTERVAL '1' DAY IN (...)"),
    ("16777217 IN (16777216F)",                                       "false",      "true"),
    ("5 IN (5.0, 6)",                                                 "true",       "true"),
    ("CAST(NULL AS INT) IN (5)",                                      "NULL",       "NULL"),
    # A NULL has a part in the choice of the type.
    ("5 IN (5.0, CAST(NULL AS STRING))",                              "true",       "NULL"),
    ("i IN (5.0, CAST(NULL AS STRING))",
     "i = 5 OR NULL", "CAST(i AS STRING) = '5.0' OR NULL"),
    ("16777217 IN (16777216, CAST(NULL AS FLOAT))",                   "NULL",       "true"),
    ("i IN (5, NULL)",                                       "i = 5 OR NULL", "i = 5 OR NULL"),
]  # fmt: skip


@pytest.mark.parametrize("predicate, ansi, other", CONSTANT_LISTS)
def test_constants_in_lists(predicate, ansi, other):
    assert ss.PruningPredicate(predicate, SCHEMA).expr == ansi
    assert ss.PruningPredicate(predicate, SCHEMA, ansi=False).expr == other


def test_an_empty_list():
    for predicate in (ss.col("i").isin([]), pc.field("i").isin(pa.array([], pa.int8()))):
        assert ss.PruningPredicate(predicate, SCHEMA).expr == "false"
        assert ss.PruningPredicate(predicate, SCHEMA, ansi=False).expr == "i IS NULL AND NULL"


#    predicate                                          zone                 bound
ZONES = [
    ("t = '2024-01-02 00:00:00'", "Europe/Berlin", "t = TIMESTAMP '2024-01-01 23:00:00+00:00'"),
    ("t >= DATE '2024-07-01'", "Europe/Berlin", "t >= TIMESTAMP '2024-06-30 22:00:00+00:00'"),
    ("n = CAST(TIMESTAMP '2024-01-02 00:00:00Z' AS TIMESTAMP_NTZ)", "Europe/Berlin",
     "n = TIMESTAMP_NTZ '2024-01-02 01:00:00'"),
    ("t = CAST(TIMESTAMP_NTZ '2024-01-02 00:00:00' AS TIMESTAMP)", "Europe/Berlin",
     "t = TIMESTAMP '2024-01-01 23:00:00+00:00'"),
    # This reading occurs twice: the earlier instant counts.
    ("t = TIMESTAMP_NTZ '2024-10-27 02:30:00'", "Europe/Berlin",
     "t = TIMESTAMP '2024-10-27 00:30:00+00:00'"),
    # This reading never occurs: the offset before the gap counts.
    ("t = TIMESTAMP_NTZ '2024-03-31 02:30:00'", "Europe/Berlin",
     "t = TIMESTAMP '2024-03-31 01:30:00+00:00'"),
    ("t = TIMESTAMP_NTZ '2024-01-02'", "+05:30", "t = TIMESTAMP '2024-01-01 18:30:00+00:00'"),
    ("t = TIMESTAMP_NTZ '2024-01-02'", "-18:00", "t = TIMESTAMP '2024-01-02 18:00:00+00:00'"),
    ("d > TIMESTAMP '2024-07-01 12:00:00'", "America/New_York", "d > DATE '2024-07-01'"),
    ("n < TIMESTAMP '2024-07-01 12:00:00Z'", "America/New_York",
     "n < TIMESTAMP_NTZ '2024-07-01 08:00:00'"),
]  # fmt: skip


@pytest.mark.parametrize("predicate, zone, bound", ZONES)
def test_zones(predicate, zone, bound):
    assert ss.PruningPredicate(predicate, SCHEMA, timezone=zone).expr == bound


#    predicate                                  reason
DECLINED = [
    ("b = 1",                                   "Spark does not compare BOOLEAN with INT"),
    ("d = 5",                                   "Spark does not compare DATE with INT"),
    ("i = 'five'",                              "is not a plain BIGINT"),
    ("i = '١٢'", "is not a plain BIGINT"),  # digits, but not Spark's
    ("g = '٠'",                                 "is not a plain DOUBLE"),
    ("d = '٢٠٢٤-01-01'",                        "is not a plain DATE"),
    ("d = '2024-02-30'",                        "is not a plain DATE"),
    ("t = '2024-01-01 00:00:00+18:01'",         "is not a plain TIMESTAMP"),
    ("t = '2024-01-01 00:00:00+99:00'",         "is not a plain TIMESTAMP"),
    ("n = '2024-01-01 00:00:00+99:00'",         "is not a plain TIMESTAMP_NTZ"),
    ("i = CAST(300 AS TINYINT)",                "Spark raises an error"),
    ("m = CAST('9999999.995' AS DECIMAL(9,2))", "its value is not certain"),
    ("l = 1",                                   "null tests only"),
    ("l[s] = 1",                                "expected an integer, got STRING"),
    ("a = 1",                                   "null tests only"),
    ("factorial(i) = 1",                        "does not know Spark's function factorial"),
    ("to_date(s, 'yy') = d",                    "'yy' in the pattern 'yy' is not understood"),
    ("to_date(s, 'yyyy-dd') = d",               "the pattern 'yyyy-dd' lacks a unit"),
    ("to_date(s, '') = d",                      "the pattern is empty"),
    ("to_timestamp_ntz(d, 'yyyy') = n",         "a format that reads DATE as TIMESTAMP_NTZ"),
    ("to_timestamp_ntz(t, 'yyyy') = n",         "a format that reads TIMESTAMP as TIMESTAMP_NTZ"),
    ("to_timestamp(n, 'yyyy') = t",             "a format that reads TIMESTAMP_NTZ as TIMESTAMP"),
    ("unix_timestamp(s, 'MMM yyyy') = 5",       "is not understood where text is read"),
    ("to_timestamp(s, s) = t",                  "expected a text literal"),
    ("(i, s) = (1, 2)",                         "rows of these types are not compared"),
    ("(i, g) IN ((1, 2.0D))",                   "rows of these types are not compared"),
    ("(i, s) IN ((1, 'a', 2))",                 "two rows with the same number of values"),
    ("regexp_extract(s, '(a', 0) = 'a'",        "the regular expression has a form"),
    ("regexp_extract(s, '(a*)+', 1) = 'a'",     "the regular expression has a form"),
    ("regexp_extract(s, 'a') = 'a'",            "the pattern has no group 1"),
    ("regexp_replace(s, 'x*', 'y') = 'a'",      "matches no character"),
    ("regexp_replace(s, '(x)', '$2') = 'a'",    "names a group that the pattern lacks"),
    ("regexp_replace(s, 'x', '$') = 'a'",       "signs other than groups"),
    ("split(s, '.*')[0] = 'a'",                 "without operators of regular expressions"),
    ("next_day(d, 'x') = d",                    "expected the name of a day"),
    ("upper(s, s) = 'A'",                       "expected 1 argument, got 2"),
    ("i = 2147483647 + 1",                      "Spark raises an error"),           # overflows INT
    ("i",                                       "expected a BOOLEAN condition"),
    ("a LIKE 'a%'",                             "LIKE expects STRING"),
    ("w = 99999999999999999999999999999999999999", "Spark rounds beyond 38"),
    ("t = '1850-01-01 Europe/Berlin'",          "is not a plain TIMESTAMP"),
    ("t = '1850-01-01 00:00:00 Europe/Berlin'", "offset is not certain"),
]  # fmt: skip


@pytest.mark.parametrize("predicate, why", DECLINED)
def test_declined(predicate, why):
    p = ss.PruningPredicate(predicate, SCHEMA, timezone="Europe/Berlin")
    assert why in p.node.value.why
    stats = ss.Statistics.from_dict({}, SCHEMA, row_count=[5])
    assert p.evaluate(stats).tolist() == [ss.Verdict.MAYBE]


KNOWN = "the schema has 'price', 'qty', 'Qty', 'a', 'a.b'."
SEVERAL = (
    "predicate names 'QTY'; the schema has qty, Qty. Write case_sensitive=True to tell them apart."
)
BROKEN = "cannot read the predicate: an operand is missing here"
WORD = (
    "cannot read the predicate: 'desc' is an SQL keyword; "
    "quote a column of that name in backticks: `desc`"
)
#  predicate  error  message  line and column  the line
ERRORS = [
    ("pirce = 5", ss.UnknownColumn, f"predicate names 'pirce'; {KNOWN} Did you mean 'price'?",
     (1, 1), "pirce = 5"),
    ("price = 5 AND\n  nope > 1", ss.UnknownColumn, f"predicate names 'nope'; {KNOWN}", (2, 3),
     "  nope > 1"),
    ("price = 1 AND prize = 2", ss.UnknownColumn,
     f"predicate names 'prize'; {KNOWN} Did you mean 'price'?", (1, 15), "price = 1 AND prize = 2"),
    ("abs(nope) = 1", ss.UnknownColumn, f"predicate names 'nope'; {KNOWN}", (1, 5),
     "abs(nope) = 1"),
    ("a.c = 1", ss.UnknownColumn, f"predicate names 'a.c'; {KNOWN} Did you mean 'a.b'?", (1, 1),
     "a.c = 1"),
    ("QTY = 1", ss.AmbiguousColumn, SEVERAL, (1, 1), "QTY = 1"),
    ("price = ", ss.PredicateSyntaxError, BROKEN, (1, 7), "price = "),
    ("desc > 1", ss.PredicateSyntaxError, WORD, (1, 1), "desc > 1"),
    ("", ss.PredicateSyntaxError, "the text holds nothing; expected one condition", (1, 1), ""),
]  # fmt: skip


@pytest.mark.parametrize("predicate, error, message, place, line", ERRORS)
def test_errors(predicate, error, message, place, line):
    schema = pa.schema(
        [
            ("price", pa.int64()),
            ("qty", pa.int64()),
            ("Qty", pa.int64()),
            ("a", pa.struct([("b", pa.int64())])),
        ]
    )
    with pytest.raises(error) as caught:
        ss.PruningPredicate(predicate, schema)
    assert (
        str(caught.value)
        == f"{message} (line {place[0]}, column {place[1]})\n  {line}\n  {' ' * (place[1] - 1)}^"
    )


@pytest.mark.parametrize(
    "name", [*sorted(WORDS), "FROM", "é", "日本", "1st", "a b", "a`b", "date", "order"]
)
def test_names_as_text(name):
    """The printed form of a predicate parses to the same predicate."""
    p = ss.PruningPredicate(ss.col(quoted_name(name)) > 3, pa.schema([(name, pa.int64())]))
    assert ss.PruningPredicate(str(p.expr), p.schema) == p


def test_case():
    schema = pa.schema(
        [("x", pa.int64()), ("X", pa.int64()), ("ß", pa.int64()), ("ss", pa.int64())]
    )
    assert ss.PruningPredicate("X = 1", schema, case_sensitive=True).columns == ("X",)
    assert ss.PruningPredicate("SS = 1", schema).columns == ("ss",)  # Spark folds case, and no more
    with pytest.raises(ss.UnknownColumn):
        ss.PruningPredicate("SS = 1", schema, case_sensitive=True)


#    session's time zone
@pytest.mark.parametrize(
    "zone", ["+18:01", "+30:00", "-99:00", "+01:99", "Mars/X", "", "../etc/passwd", None, 5]
)
def test_no_zones(zone):
    with pytest.raises(ss.PredicateError, match="timezone"):
        ss.PruningPredicate("x = 1", SCHEMA, timezone=zone)


def nest(depth, names=("x", "i", "w")):
    """Nest alternating AND and OR over several columns, so that nothing flattens or merges them."""
    e = ss.col(names[0]) > 0
    for i in range(depth):
        c = ss.col(names[i % len(names)])
        e = (e & (c > i + 1)) if i % 2 else (e | (c < -i - 1))
    return e


def test_depth(backend):
    stats = ss.Statistics.from_dict(
        {"x": {"min": [0, 5], "max": [3, 9], "null_count": [0, 1]}}, SCHEMA
    )
    assert len(ss.PruningPredicate(nest(40), SCHEMA).evaluate(stats, backend)) == 2
    for depth in (60, 300, 3000):
        with pytest.raises(ss.PredicateTooDeep, match="nested too deeply"):
            ss.PruningPredicate(nest(depth), SCHEMA)
    assert (
        len(ss.PruningPredicate(nest(60, "x"), SCHEMA).evaluate(stats, backend)) == 2
    )  # one column: a set of values


def test_breadth():
    """A conjunction of a thousand columns is no deeper than one of two.

    Python's parser takes 200 nested parentheses.
    """
    schema = pa.schema([(f"c{i}", pa.int64()) for i in range(1000)])
    stats = ss.Statistics.from_dict(
        {f"c{i}": {"min": [0, 0], "max": [i, i + 1]} for i in range(1000)}, schema
    )
    assert ss.PruningPredicate(" AND ".join(f"c{i} >= {i}" for i in range(1000)), schema).prune(
        stats, "numpy"
    ).tolist() == [True, True]
    assert ss.PruningPredicate(" AND ".join(f"c{i} > {i}" for i in range(1000)), schema).prune(
        stats, "numpy"
    ).tolist() == [False, True]
    assert ss.PruningPredicate(
        " OR ".join(f"c{i} BETWEEN {i + 1} AND {i + 2}" for i in range(1000)), schema
    ).prune(stats, "numpy").tolist() == [False, True]


@pytest.mark.parametrize(
    "text",
    [
        "i > (rand() * 10)",
        "upper(soundex(s)) = 'B'",
        "i = 2 OR i = (bround(i) + 1)",
        "CASE WHEN factorial(i) > 1 THEN i ELSE 3 END = 3",
        "NOT upper(soundex(s)) LIKE 'a%'",
        "soundex(s) IS NULL",
        "(CAST(soundex(s) AS INT) + 1) > i",
    ],
)
def test_what_is_not_understood_is_shown_whole(text):
    """So that two conditions that differ around such a part are not equal."""
    schema = pa.schema([("i", pa.int64()), ("s", pa.string())])
    assert ss.PruningPredicate(text, schema).expr == text
