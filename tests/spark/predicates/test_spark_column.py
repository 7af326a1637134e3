"""Classic and Connect Columns give the same nodes as SQL text, and lose no row."""

import datetime as dt
import decimal
import functools
import importlib.util
import operator

import pyarrow as pa
import pytest

import skipstone as ss
from tests.support.predicates.schemas import INPUTS
from tests.support.spark.session import QUIET

pytestmark = [pytest.mark.filterwarnings(QUIET), pytest.mark.usefixtures("spark")]
D = decimal.Decimal
DAY, MOMENT = dt.date(2024, 1, 2), dt.datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
SCHEMA = pa.schema(
    [*INPUTS, ("g", pa.float32()), ("odd `name`", pa.int64()), ("l", pa.list_(pa.int64()))]
)


@pytest.fixture(params=["classic", "connect"])
def F(request):
    """Return the functions module of classic PySpark or of Spark Connect."""
    if request.param == "classic":
        from pyspark.sql import functions

        return functions
    if importlib.util.find_spec("grpc") is None:
        pytest.skip("Spark Connect needs grpcio")
    from pyspark.sql.connect import functions as remote

    return remote


NAN = float("nan")
# SQL, Column
SAME = [
    ("x > -(2147483648) - 1", lambda F, c: c("x") > -F.lit(2147483648) - 1),
    ("x = 5", lambda F, c: c("x") == 5),
    ("5 < x", lambda F, c: F.lit(5) < c("x")),
    ("x <> 5", lambda F, c: c("x") != 5),
    ("x >= 5 AND i < 3 AND b", lambda F, c: (c("x") >= 5) & (c("i") < 3) & c("b")),
    ("x <= 5 OR s > 'a' OR NOT b", lambda F, c: (c("x") <= 5) | (c("s") > "a") | ~c("b")),
    ("NOT (x = 5 AND b)", lambda F, c: ~((c("x") == 5) & c("b"))),
    ("x IN (1, 2, NULL)", lambda F, c: c("x").isin(1, 2, None)),
    ("s NOT IN ('a', 'b')", lambda F, c: ~c("s").isin(["a", "b"])),
    ("d IN (DATE '2024-01-02')", lambda F, c: c("d").isin([DAY])),
    ("x BETWEEN 1 AND 5", lambda F, c: c("x").between(1, 5)),
    ("x IS NULL OR s IS NOT NULL", lambda F, c: c("x").isNull() | c("s").isNotNull()),
    ("x <=> 5", lambda F, c: c("x").eqNullSafe(5)),
    ("x <=> NULL", lambda F, c: c("x").eqNullSafe(None)),
    ("x = NULL", lambda F, c: c("x") == F.lit(None)),
    ("s = 'it\\'s \\\\ \"q\" `b` \\n'", lambda F, c: c("s") == "it's \\ \"q\" `b` \n"),
    ("s = ''", lambda F, c: c("s") == ""),
    ("s = 'NULL' OR s = '5' OR s = 'x'",
     lambda F, c: (c("s") == "NULL") | (c("s") == "5") | (c("s") == "x")),
    ("s = '日本 \u202e'", lambda F, c: c("s") == "日本 \u202e"),
    ("s LIKE 'a\\\\_b%'", lambda F, c: c("s").like("a\\_b%")),
    ("s LIKE 'a!_%' ESCAPE '!'", lambda F, c: F.like(c("s"), F.lit("a!_%"), F.lit("!"))),
    ("s LIKE 'a\\\\_b\\\\%%'", lambda F, c: c("s").startswith("a_b%")),
    ("d = DATE '2024-01-02'", lambda F, c: c("d") == DAY),
    ("d > DATE '1500-01-01'", lambda F, c: c("d") > dt.date(1500, 1, 1)),
    ("t < TIMESTAMP '2024-01-02 03:04:05.000006'", lambda F, c: c("t") < MOMENT),
    ("t > TIMESTAMP '1969-12-31 23:59:59.999999'",
     lambda F, c: c("t") > dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.UTC)),
    ("n = TIMESTAMP '2024-01-02 03:04:05.000006'", lambda F, c: c("n") == MOMENT),
    ("d = TIMESTAMP '2024-01-02 00:00:00'",
     lambda F, c: c("d") == dt.datetime(2024, 1, 2, tzinfo=dt.UTC)),
    ("n = CAST('2024-01-02' AS TIMESTAMP_NTZ)",
     lambda F, c: c("n") == F.lit("2024-01-02").cast("timestamp_ntz")),
    ("m = 1.50", lambda F, c: c("m") == D("1.50")),
    ("m > 1.505", lambda F, c: c("m") > D("1.505")),
    ("y = X'00ff'", lambda F, c: c("y") == F.lit(b"\x00\xff")),
    ("f = 0.1D", lambda F, c: c("f") == 0.1),
    ("g = 0.1D", lambda F, c: c("g") == 0.1),
    ("g = CAST(0.5D AS FLOAT)", lambda F, c: c("g") == F.lit(0.5).cast("float")),
    ("f > CAST('-Infinity' AS DOUBLE)", lambda F, c: c("f") > float("-inf")),
    ("f = CAST('NaN' AS DOUBLE)", lambda F, c: c("f") == NAN),
    ("(f = CAST('NaN' AS DOUBLE)) IS TRUE", lambda F, c: F.isnan(c("f"))),
    ("x > 1099511627776", lambda F, c: c("x") > 2**40),
    ("i > 1099511627776", lambda F, c: c("i") > 2**40),
    ("x = -5", lambda F, c: c("x") == -5),
    ("x = -(5)", lambda F, c: c("x") == -F.lit(5)),
    ("x = 2 + 3", lambda F, c: c("x") == F.lit(2) + 3),
    ("CAST('5' AS INT) = x", lambda F, c: F.lit("5").cast("int") == c("x")),
    ("m = CAST(1.5 AS DECIMAL(9,2))", lambda F, c: c("m") == F.lit(D("1.5")).cast("decimal(9, 2)")),
    ("b", lambda F, c: c("b")),
    ("b = true", lambda F, c: c("b") == True),  # noqa: E712
    ("TRUE", lambda F, c: F.lit(True)),
    ("a.b = 5", lambda F, c: c("a.b") == 5),
    ("a.`c.d` = 5", lambda F, c: c("a.`c.d`") == 5),
    ("a.b = 5 OR a.`c.d` = 5", lambda F, c: (c("a")["b"] == 5) | (c("a").getField("c.d") == 5)),
    ("`odd ``name``` = 5", lambda F, c: c("`odd ``name```") == 5),
    ("x > 1 AND s LIKE 'a%' AND i = 3",
     lambda F, c: F.expr("x > 1 and s like 'a%'") & (c("i") == 3)),
    ("x = 5", lambda F, c: c("x").alias("z") == 5),
    ("x + 1 > 5", lambda F, c: c("x") + 1 > 5),
    ("x % 2 = 0 OR x / 2 > 1 OR -x < i * 3",
     lambda F, c: (c("x") % 2 == 0) | (c("x") / 2 > 1) | (-c("x") < c("i") * 3)),
    ("year(d) = 2024", lambda F, c: F.year(c("d")) == 2024),
    ("date_trunc('month', t) = t", lambda F, c: F.date_trunc("month", c("t")) == c("t")),
    ("CAST(x AS STRING) = '5'", lambda F, c: c("x").cast("string") == "5"),
    ("CAST(f AS INT) = 5", lambda F, c: c("f").cast("int") == 5),
    ("TRY_CAST(f AS INT) = 5", lambda F, c: c("f").try_cast("int") == 5),
    ("CASE WHEN x > 3 THEN 1 WHEN b THEN 2 END = 2",
     lambda F, c: F.when(c("x") > 3, 1).when(c("b"), 2) == 2),
    ("CASE WHEN x > 3 THEN 1 ELSE 2 END = 2", lambda F, c: F.when(c("x") > 3, 1).otherwise(2) == 2),
    ("coalesce(x, 0) = 0", lambda F, c: F.coalesce(c("x"), F.lit(0)) == 0),
    ("upper(substring(s, 1, 2)) = 'AB'", lambda F, c: F.upper(c("s").substr(1, 2)) == "AB"),
    ("s RLIKE '^ab'", lambda F, c: c("s").rlike("^ab")),
    ("s ILIKE 'ab%'", lambda F, c: c("s").ilike("ab%")),
    ("contains(s, 'b') AND endswith(s, 'c')",
     lambda F, c: c("s").contains("b") & c("s").endswith("c")),
]  # fmt: skip


@pytest.mark.parametrize("sql, make", SAME, ids=[s[0] for s in SAME])
def test_same_nodes(sql, make, F):
    assert ss.PruningPredicate(make(F, F.col), SCHEMA).node == ss.PruningPredicate(sql, SCHEMA).node


UNKNOWN = {
    "function": lambda F, c: F.soundex(c("s")) == "A",
    "element": lambda F, c: c("l")[0] == 5,
    "lambda": lambda F, c: F.exists(c("l"), lambda v: v == c("x")),
    "interval": lambda F, c: F.lit(dt.timedelta(1)) > F.lit(dt.timedelta(2)),
    "text of another form": lambda F, c: F.expr("x + 1 AS y") == 5,
}


@pytest.mark.parametrize("make", UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_forms_weaken_only_their_branch(make, F):
    stats = ss.Statistics.from_dict({"x": {"min": [100], "max": [200]}}, SCHEMA)
    c = F.col
    assert ss.PruningPredicate(make(F, c), SCHEMA).evaluate(stats).tolist() == [1]
    assert ss.PruningPredicate(make(F, c) & (c("x") == 5), SCHEMA).evaluate(stats).tolist() == [0]
    assert ss.PruningPredicate(make(F, c) | (c("x") == 5), SCHEMA).evaluate(stats).tolist() == [1]
    with pytest.raises(ss.UnknownColumn, match="nope"):
        ss.PruningPredicate(F.upper(c("nope")) == "A", SCHEMA)


def test_early_timestamps_are_not_guessed(F):
    """Java's Timestamp changes its calendar, so only instants that are certain are understood."""
    p = ss.PruningPredicate(F.col("t") == dt.datetime(1500, 1, 1, tzinfo=dt.UTC), SCHEMA)
    stats = ss.Statistics.from_dict(
        {
            "t": {
                "min": [dt.datetime(1500, 1, 1, tzinfo=dt.UTC)],
                "max": [dt.datetime(1500, 1, 1, tzinfo=dt.UTC)],
            }
        },
        SCHEMA,
    )
    assert p.prune(stats).tolist() == [True]


def test_long_chains_and_lists(F):
    c = F.col
    many = functools.reduce(operator.or_, [c("x") == k for k in range(400)])
    assert (
        ss.PruningPredicate(many, SCHEMA).node
        == ss.PruningPredicate(" OR ".join(f"x = {k}" for k in range(400)), SCHEMA).node
    )
    assert (
        ss.PruningPredicate(c("x").isin(list(range(1000))), SCHEMA).node
        == ss.PruningPredicate(ss.col("x").isin(range(1000)), SCHEMA).node
    )


def test_columns_of_a_data_frame(spark):
    df = spark.createDataFrame([], "x bigint, a struct<b: bigint, `c.d`: bigint>, s string")
    for made in (df["x"] == 5, df.x == 5):
        assert ss.PruningPredicate(made, SCHEMA).expr == "x = 5"
    for made in (df["a.b"] == 5, df.a.b == 5, df["a"]["b"] == 5):
        assert ss.PruningPredicate(made, SCHEMA).expr == "a.b = 5"
    assert ss.PruningPredicate(df["a.`c.d`"] == 5, SCHEMA).expr == "a.`c.d` = 5"
    with pytest.raises(ss.UnknownColumn):
        ss.PruningPredicate(df["s"] == "a", pa.schema([("x", pa.int64())]))


ROWS = [
    (None, None, None, None),
    (1, "a", 0.5, DAY),
    (5, "a_b", NAN, dt.date(1970, 1, 1)),
    (-7, "it's", -0.0, dt.date(1500, 1, 1)),
    (2**40, "", 1e300, DAY),
]
JUDGED = [
    s
    for s in SAME
    if all(
        w not in s[0]
        for w in ("i ", "m ", "t ", "t)", "AS INT", "n ", "y =", "g ", "b", "a.", "odd")
    )
]


@pytest.mark.parametrize("sql, make", JUDGED, ids=[s[0] for s in JUDGED])
def test_no_row_that_spark_keeps_is_lost(sql, make, spark):
    from pyspark.sql import functions as F

    names = ("x", "s", "f", "d")
    df = spark.createDataFrame(ROWS, "x bigint, s string, f double, d date")
    matching = {tuple(map(str, row)) for row in df.where(make(F, F.col)).collect()}
    for row in ROWS:
        given = {}
        for name, v in zip(names, row, strict=True):
            nan = v is not None and v != v
            given[name] = {
                "null_count": [int(v is None)],
                "row_count": [1],
                "min": [None if nan else v],
                "max": [None if nan else v],
            }
            given[name] |= {"nan_count": [int(nan)]} if name == "f" else {}
        verdict = (
            ss.PruningPredicate(make(F, F.col), SCHEMA)
            .evaluate(ss.Statistics.from_dict(given, SCHEMA, row_count=[1]))
            .tolist()
        )
        assert verdict == [2 if tuple(map(str, row)) in matching else 0], row


def test_a_column_of_another_version_is_refused_in_words():
    class Column:
        _expr = 5

    Column.__module__ = "pyspark.sql.column"
    p = Column()
    with pytest.raises(ss.PredicateError, match="PySpark Column cannot be read"):
        ss.PruningPredicate(p, SCHEMA)
