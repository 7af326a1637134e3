"""Settings of a session that change what a condition means: nothing is pruned by the usual rules.

Each condition has other rows under the setting than under Spark's default.
"""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone.spark as sks
from skipstone.ir.errors import UnsupportedForm
from tests.support.spark.automatic import again, enabled
from tests.support.spark.session import INSTALLED, QUIET, SPARK_4

pytestmark = pytest.mark.filterwarnings(QUIET)

POLICY = "spark.sql.legacy.timeParserPolicy"
# The old formatter reads S as milliseconds; the new one, as a fraction of the second.
CONDITION = "date_format(t, 'S') = '500'"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder of three files, whose times end in .5, .25 and .0 seconds."""
    folder = tmp_path_factory.mktemp("times")
    for at, micros in enumerate([500_000, 250_000, 0]):
        t = dt.datetime(2024, 1, 1, 0, 0, 0, micros, tzinfo=dt.UTC)
        pq.write_table(pa.table({"t": [t], "k": [at]}), folder / f"{at}.parquet")
    return str(folder)


def rows(df):
    return sorted(r.k for r in df.select("k").collect())


@pytest.mark.parametrize("policy", ["LEGACY", "EXCEPTION"])
def test_formats_are_unknown_under_another_policy(spark, setting, folder, policy):
    usual = spark.read.parquet(folder).where("date_format(t, 'S') = '5'")
    assert rows(usual) == rows(sks.prune(usual)) == [0]
    assert len(sks.prune(usual).inputFiles()) == 1
    setting(POLICY, policy)
    df = spark.read.parquet(folder).where(CONDITION)
    if policy == "LEGACY":
        assert rows(df) == [0]
        assert rows(sks.prune(df)) == [0]
    assert len(sks.prune(df).inputFiles()) == 3
    either = spark.read.parquet(folder).where(f"{CONDITION} AND k > 1")
    assert len(sks.prune(either).inputFiles()) == 1  # by the other condition


def test_enabled_sessions_keep_rows_under_the_old_policy(spark, setting, folder):
    setting(POLICY, "LEGACY")
    with enabled(spark):
        assert rows(spark.read.parquet(folder).where(CONDITION)) == [0]


def test_formats_in_text_are_refused_under_the_old_policy(any_session, folder):
    before = any_session.conf.get(POLICY)
    any_session.conf.set(POLICY, "LEGACY")
    try:
        for condition in (CONDITION, "k = 0 AND DATE_FORMAT(DATE'2024-01-01', 'S') = '0'"):
            with pytest.raises(UnsupportedForm, match="timeParserPolicy is LEGACY"):
                sks.read(any_session, folder, condition)
        assert rows(sks.read(any_session, folder, "k = 0")) == [0]
        assert rows(sks.prune(any_session.read.parquet(folder), CONDITION)) == [0]
    finally:
        any_session.conf.set(POLICY, before)


CHAR_CONDITIONS = (
    "c = 'ab'",
    "c IN ('ab', 'zz')",
    "length(c) = 2",
    "c LIKE 'ab%'",
    "upper(c) = 'ZZ'",
)


@pytest.fixture(scope="module")
def char_table(spark, tmp_path_factory):
    """Return a table with a CHAR column, in files of Spark and of a writer that does not pad."""
    folder = tmp_path_factory.mktemp("char")
    spark.sql(f"CREATE TABLE chars (k INT, c CHAR(5)) USING parquet LOCATION '{folder}'")
    spark.sql("INSERT INTO chars VALUES (0, 'ab')")
    spark.sql("INSERT INTO chars VALUES (1, 'b')")
    for k, c in ((2, "ab"), (3, "zz")):
        pq.write_table(
            pa.table({"k": pa.array([k], pa.int32()), "c": [c]}), folder / f"{k}.parquet"
        )
    spark.sql("REFRESH TABLE chars")
    yield "chars"
    spark.sql("DROP TABLE chars")


@pytest.mark.parametrize(
    "key",
    ["legacy.charVarcharAsString", pytest.param("preserveCharVarcharTypeInfo", marks=SPARK_4)],
)
@pytest.mark.parametrize("condition", CHAR_CONDITIONS)
def test_a_plan_keeps_the_settings_of_its_analysis(spark, setting, char_table, key, condition):
    """Spark pads CHAR where it analyses a plan; prune() must not have it analysed again."""
    setting(f"spark.sql.{key}", "true")
    df = spark.table(char_table).where(condition)
    expected = rows(df)
    assert rows(sks.prune(df)) == expected
    setting(f"spark.sql.{key}", "false")
    assert rows(sks.prune(df)) == expected


REBASE = "spark.sql.parquet.datetimeRebaseModeInRead"
OLDER_REBASE = "spark.sql.legacy.parquet.datetimeRebaseModeInRead"
# Julian, this day is 1582-09-21, and thus before the literal.
EARLY = "d < DATE '1582-10-01'"


@pytest.fixture
def days(tmp_path):
    """Return a folder of two files with a day each, which do not say who wrote them."""
    for at, day in enumerate([dt.date(1582, 10, 1), dt.date(2000, 1, 1)]):
        pq.write_table(
            pa.table({"d": [day], "k": [at]}), tmp_path / f"{at}.parquet", store_schema=False
        )
    return str(tmp_path)


@SPARK_4
@pytest.mark.parametrize("key", [REBASE, OLDER_REBASE])
@pytest.mark.parametrize("mode", ["LEGACY", "legacy"])
def test_days_in_another_calendar(spark, days, key, mode):
    spark.conf.set(key, mode)
    try:
        df = spark.read.parquet(days).where(EARLY)
        assert rows(df) == [0]
        assert rows(sks.prune(df)) == [0]
        with enabled(spark):
            assert rows(spark.read.parquet(days).where(EARLY)) == [0]
        for condition in (EARLY, None):
            with pytest.raises(UnsupportedForm, match="datetimeRebaseModeInRead is"):
                sks.read(spark, days, condition)
        assert rows(sks.read(spark, days, "k < 1", columns=["k"])) == [0]
    finally:
        spark.conf.unset(key)


@pytest.mark.parametrize("mode", ["CORRECTED", "corrected", "EXCEPTION"])
def test_days_in_the_usual_calendar(spark, setting, days, mode):
    setting(REBASE, mode)
    df = spark.read.parquet(days).where("d > DATE '1999-01-01'")
    assert rows(df) == rows(sks.prune(df)) == [1]
    assert len(sks.prune(df).inputFiles()) == 1


@SPARK_4
def test_timestamps_without_a_zone_by_a_setting(spark, setting, tmp_path):
    """Spark reads them as times of the session's zone, and `read` as times without one."""
    at = dt.datetime(2024, 5, 5, 2)
    values = {"t": pa.array([at, at + dt.timedelta(3)], pa.timestamp("us")), "k": [0, 1]}
    pq.write_table(pa.table(values), tmp_path / "0.parquet", store_schema=False)
    where = "t < TIMESTAMP '2024-05-05 00:00:00'"
    setting("spark.sql.session.timeZone", "America/Los_Angeles")
    assert rows(sks.read(spark, str(tmp_path), where)) == []
    setting("spark.sql.parquet.inferTimestampNTZ.enabled", "false")
    df = spark.read.parquet(str(tmp_path)).where(where)
    assert rows(df) == rows(sks.prune(df)) == [0]
    with pytest.raises(UnsupportedForm, match="inferTimestampNTZ"):
        sks.read(spark, str(tmp_path), where)
    assert rows(sks.read(spark, str(tmp_path), "k < 1", columns=["k"])) == [0]


@SPARK_4
def test_bytes_as_text_by_a_setting(spark, setting, tmp_path):
    """Spark counts characters, and `read` bytes."""
    for k, text in enumerate(("ab", "\u00e4")):
        values = {"y": [text.encode()], "k": [k]}
        pq.write_table(pa.table(values), tmp_path / f"{k}.parquet", store_schema=False)
    where = "length(y) = 2"
    assert rows(sks.read(spark, str(tmp_path), where)) == [0, 1]
    setting("spark.sql.parquet.binaryAsString", "true")
    df = spark.read.parquet(str(tmp_path)).where(where)
    assert rows(df) == rows(sks.prune(df)) == [0]
    for condition in (where, None):
        with pytest.raises(UnsupportedForm, match="binaryAsString"):
            sks.read(spark, str(tmp_path), condition)
    assert rows(sks.read(spark, str(tmp_path), "k < 1", columns=["k"])) == [0]


@pytest.fixture(scope="module")
def prices(tmp_path_factory):
    """Return a folder of three files with prices of several types; k is 0, 1 and 2."""
    folder = tmp_path_factory.mktemp("prices")
    for at in range(3):
        types = {"a": (10, 2), "b": (20, 10), "c": (38, 10)}
        one = {name: pa.array([Decimal(at + 1)], pa.decimal128(*t)) for name, t in types.items()}
        pq.write_table(pa.table({**one, "k": [at]}), folder / f"{at}.parquet")
    return str(folder)


#    an expression, and whether files are left out: only where no setting changes its digits
DECIMALS = [
    ("a / 3BD", True),
    ("a * b", True),
    ("a + c", False),
    ("b / CAST(3 AS DECIMAL(20, 6))", False),
    ("b * CAST(0.333333333 AS DECIMAL(30, 18))", False),
    ("c / 3BD", False),
    ("c * c / 3BD", False),
]


@pytest.mark.parametrize("early, late", [("true", "false"), ("false", "true")])
@pytest.mark.parametrize("expression, judged", DECIMALS)
def test_digits_of_decimals(spark, setting, prices, early, late, expression, judged):
    """Test that no row is lost where the digits of decimals change after prune().

    In Spark 3.5 expressions do not carry the setting, so it counts when the DataFrame runs.
    """
    key = "spark.sql.decimalOperations.allowPrecisionLoss"
    table, values = spark.read.parquet(prices), set()
    for value in (early, late):
        setting(key, value)
        found = table.where("k = 1").selectExpr(f"CAST({expression} AS STRING) x").collect()
        values.add(found[0].x)
    assert len(values) == 1 or not judged
    fewer = 0
    for value in sorted(values):
        setting(key, early)
        df = table.where(f"{expression} = {value}BD")
        small = sks.prune(df)
        fewer += len(small.inputFiles()) < 3
        for now in (early, late):
            setting(key, now)
            expected = rows(df)
            assert rows(small) == expected
            with enabled(spark):
                assert rows(again(df)) == expected
    # Before Spark 4.0 no expression says that its digits may not be lost.
    assert (fewer > 0) == (judged and (early == "true" or INSTALLED < (4, 0)))
