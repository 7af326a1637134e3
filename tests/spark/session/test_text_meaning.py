"""Settings under which Spark gives a text another meaning: reading by the text is refused.

Each condition has other rows under the setting than without it, so the setting does matter.
"""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone.spark as sks
from skipstone.bindings.spark.session.session import functions_of
from skipstone.bindings.spark.session.text_meaning import SETTINGS, other_meaning
from skipstone.ir.errors import UnsupportedForm
from tests.support.spark.automatic import settings
from tests.support.spark.session import QUIET, SPARK_4

pytestmark = [
    SPARK_4,
    pytest.mark.filterwarnings(QUIET),
    pytest.mark.filterwarnings("ignore:The SQL config 'spark.sql.parser.escapedStringLiterals'"),
]

LEGACY = "spark.sql.legacy."
ANSI = "spark.sql.ansi.enabled"
LOSS = "spark.sql.decimalOperations.allowPrecisionLoss"
NOT_ANSI = {ANSI: "false"}
TYPES = {"k": pa.int32(), "x": pa.int32(), "s": pa.string(), "m": pa.decimal128(10, 2),
         "f": pa.float64(), "d": pa.date32(), "t": pa.timestamp("us", "UTC"),
         "a": pa.list_(pa.int32())}  # fmt: skip
ROWS = [
    (-3, "a", "0.50", 0.0, None),
    (-2, "ab", "1.50", 0.5, []),
    (-1, "a'b", "2.50", 1.0, [1, None]),
    (0, None, "3.50", 1.5, [6, None]),
    (1, "5", "4.50", 2.0, [7]),
    (-(2**31), "a\\\\b", "5.50", 0.3, [1, 2]),
]
# Setting, other settings, a condition.
CASES = [
    ("spark.sql.parser.escapedStringLiterals", "true", {}, r"s = 'a\\\\b'"),
    ("spark.sql.ansi.doubleQuotedIdentifiers", "true", {}, 's = "s"'),
    (f"{LEGACY}typeCoercion.datetimeToString.enabled", "true", NOT_ANSI, "d > '2024'"),
    (f"{LEGACY}typeCoercion.datetimeToString.enabled", "true", NOT_ANSI, "d < 'a'"),
    (LOSS, "false", NOT_ANSI,
     "(m * 2.12345678901234567890123456789012345) IS NULL"),
    (f"{LEGACY}literal.pickMinimumPrecision", "false", {}, "m / 3 = 0.1666666666667"),
    (f"{LEGACY}exponentLiteralAsDecimal.enabled", "true", {}, "f = 3 * 1e-1"),
    (f"{LEGACY}sizeOfNull", "false", NOT_ANSI, "size(a) = -1"),
    (f"{LEGACY}followThreeValuedLogicInArrayExists", "false", {}, "NOT exists(a, v -> v > 5)"),
    (f"{LEGACY}consecutiveStringLiterals.enabled", "true", {}, "s = 'a''b'"),
    (f"{LEGACY}timeParserPolicy", "LEGACY", {}, "date_format(t, 'S') = '500'"),
    ("skipstone.test", "5", {}, "s = '${skipstone.test}'"),
]  # fmt: skip
IDS = [f"{key.removeprefix(LEGACY)}: {condition}" for key, _, _, condition in CASES]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder of one file for each row."""
    folder = tmp_path_factory.mktemp("rows")
    for k, (x, s, m, f, a) in enumerate(ROWS):
        t = dt.datetime(2024, 1, 1, k, 0, 0, 500_000, tzinfo=dt.UTC)
        row = (k, x, s, Decimal(m), f, dt.date(2024, 1, 1 + k), t, a)
        table = pa.table([[value] for value in row], schema=pa.schema(TYPES))
        pq.write_table(table, folder / f"{k}.parquet")
    return str(folder)


def keys(df):
    return sorted(r.k for r in df.select("k").collect())


def asked(session, folder, condition):
    return keys(session.read.parquet(folder).where(condition))


@pytest.mark.parametrize(("key", "value", "more", "condition"), CASES, ids=IDS)
def test_a_setting_that_matters_is_refused(any_session, folder, key, value, more, condition):
    with settings(any_session, more):
        before = asked(any_session, folder, condition)
        with settings(any_session, {key: value}):
            if asked(any_session, folder, condition) == before:
                pytest.skip("this version of Spark does not have the setting")
            named = "spark.sql.variable.substitute" if key == "skipstone.test" else key
            for how in ("native", "python"):
                with pytest.raises(UnsupportedForm, match=named):
                    sks.read(any_session, folder, condition, how=how)
            pruned = sks.prune(any_session.read.parquet(folder).where(condition))
            assert keys(pruned) == asked(any_session, folder, condition)
        if key != "skipstone.test":
            assert keys(sks.read(any_session, folder, condition)) == before


# Setting, value, condition that it does not change.
UNCHANGED = [
    (
        "spark.sql.decimalOperations.allowPrecisionLoss",
        "false",
        "d >= DATE '2024-01-03' AND x > -2",
    ),
    ("spark.sql.decimalOperations.allowPrecisionLoss", "false", "s = 'a+b' OR m BETWEEN -1 AND 1"),
    (f"{LEGACY}literal.pickMinimumPrecision", "false", "s LIKE 'a%' AND d IS NOT NULL"),
    (f"{LEGACY}exponentLiteralAsDecimal.enabled", "true", "m >= 1.5 AND s <> '1e5'"),
    (f"{LEGACY}sizeOfNull", "false", "x = 1"),
    (f"{LEGACY}consecutiveStringLiterals.enabled", "true", "s = 'a'"),
    (f"{LEGACY}timeParserPolicy", "LEGACY", "month(d) = 1 AND x = 1"),
    ("skipstone.test", "5", "s = '$x' OR x = 1"),
]


@pytest.mark.parametrize(("key", "value", "condition"), UNCHANGED)
def test_a_setting_that_does_not_matter_is_ignored(spark, folder, key, value, condition):
    with settings(spark, {key: value}):
        assert keys(sks.read(spark, folder, condition)) == asked(spark, folder, condition)


def test_parts_of_a_condition_and_statistics_are_checked(spark, folder):
    with settings(spark, {f"{LEGACY}literal.pickMinimumPrecision": "false"}):
        for take in (
            lambda: sks.read(spark, folder, "x > -5 AND m / 3 = 0.1666666666667"),
            lambda: sks.with_verdict(
                spark.createDataFrame([(0, 0)], "x_min INT, x_max INT"),
                "x / 3 = 1",
                schema=pa.schema({"x": pa.int32()}),
            ),
        ):  # fmt: skip
            with pytest.raises(UnsupportedForm, match="pickMinimumPrecision is false"):
                take()


def test_columns_are_checked(any_session, folder):
    F = functions_of(any_session)
    for condition in (
        F.col("m") / 3 == F.lit(Decimal("0.5")),
        F.col("m") - F.col("m") == F.lit(Decimal("0")),
        F.expr("s = 'it''s' AND m / 3 = 1"),
    ):
        with settings(any_session, {LOSS: "false"}):
            with pytest.raises(UnsupportedForm, match=LOSS):
                sks.read(any_session, folder, condition)
            df = any_session.read.parquet(folder).where(condition)
            assert keys(sks.prune(df)) == keys(df)


EMPTY = f"{LEGACY}nullInEmptyListBehavior"


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_null_in_an_empty_list(any_session, folder, ansi):
    """A setting decides whether it is NULL or FALSE; without it, the ANSI mode does."""
    s = functions_of(any_session).col("s").isin([])
    for condition in (~s, s.isNull(), s.isNotNull()):
        with settings(any_session, {ANSI: ansi}):
            found = asked(any_session, folder, condition)
            for how in ("native", "python"):
                assert keys(sks.read(any_session, folder, condition, how=how)) == found
        for value in ("true", "false"):
            with settings(any_session, {ANSI: ansi, EMPTY: value}):
                df = any_session.read.parquet(folder).where(condition)
                assert keys(sks.prune(df)) == keys(df)
                if value == ansi:
                    with pytest.raises(UnsupportedForm, match=f"{EMPTY} is {value}"):
                        sks.read(any_session, folder, condition)


# Text that each setting can change; it is refused under another value than the default.
CHANGED = {
    "spark.sql.timestampType": ("TIMESTAMP_NTZ", "x = 1"),
    f"{LEGACY}decimal.retainFractionDigitsOnTruncate": ("true", "m = 1"),
    f"{LEGACY}allowNegativeScaleOfDecimal": ("true", "round(m, -1) = 10"),
    f"{LEGACY}castComplexTypesToString.enabled": ("true", "CAST(a AS STRING) = '[]'"),
    f"{LEGACY}interval.enabled": ("true", "d + INTERVAL 1 MONTH > DATE '2024-02-03'"),
    f"{LEGACY}fromDayTimeString.enabled": ("true", "t > t - INTERVAL '1:30' HOUR TO MINUTE"),
    "spark.sql.functionResolution.sessionOrder": ("first", "upper/* of */(s) = 'A'"),
}


@pytest.mark.parametrize("key", CHANGED)
def test_other_settings_are_refused_as_well(spark, folder, key):
    value, condition = CHANGED[key]
    with settings(spark, {key: value}), pytest.raises(UnsupportedForm, match=f"{key} is {value}"):
        sks.read(spark, folder, condition)


def test_every_setting_is_tested():
    shown = {key for key, *_ in CASES} | CHANGED.keys()
    shown |= {"spark.sql.variable.substitute", EMPTY}
    assert {setting.key for setting in SETTINGS} <= shown


@pytest.mark.parametrize("call", ["nvl(s, 'b') = 'X'", "`upper` (s) = 'X'", "upper/**/(s) = 'X'"])
def test_functions_are_found_in_text(spark, call):
    """A lookup that fails is no proof that the function is Spark's own."""

    class Broken:
        conf = spark.conf

        class catalog:
            @staticmethod
            def getFunction(name):
                raise ConnectionError("gone")

    assert other_meaning(spark, call) == ""
    assert "cannot be looked up (ConnectionError: gone)" in other_meaning(Broken, call)


def test_a_replaced_function_is_refused(spark, folder):
    session, condition = spark.newSession(), "upper(s) = 'X'"  # Spark 4.1 cannot drop the function
    before = asked(session, folder, condition)
    session.udf.register("upper", lambda s: "X")
    if asked(session, folder, condition) == before:  # since 4.3, a built-in function comes first
        assert keys(sks.read(session, folder, condition)) == before
        return
    with pytest.raises(UnsupportedForm, match="the function upper was replaced by"):
        sks.read(session, folder, condition)
    pruned = sks.prune(session.read.parquet(folder).where(condition))
    assert keys(pruned) == asked(session, folder, condition)


def test_defaults_are_sparks(spark):
    """A default that Spark changes would pass for another setting."""
    for setting in SETTINGS:
        value = spark.sql(f"SET {setting.key}").collect()[0]["value"]
        assert value.lower() in (setting.default.lower(), "<undefined>"), setting.key
