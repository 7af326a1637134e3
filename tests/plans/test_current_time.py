"""Plans by `now()`, `current_date()` and the like: all parts of one plan see one moment."""

import datetime as dt
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.predicates import current_time
from skipstone.bindings.predicates.current_time import at_moment
from skipstone.ir.errors import PredicateSyntaxError, UnknownColumn
from skipstone.ir.node import Node

NOON = dt.datetime(2026, 3, 1, 23, 30, tzinfo=dt.UTC)
MICROS = int(NOON.timestamp()) * 1_000_000 + 250_000
NAMES = ("ts", "d", "n", "x", "s")
CASES = [
    ("ts >= now()", "UTC", "ts >= TIMESTAMP '2026-03-01 23:30:00.250000+00:00'"),
    ("ts < current_timestamp", "UTC", "ts < TIMESTAMP '2026-03-01 23:30:00.250000+00:00'"),
    ("ts < CURRENT_TIMESTAMP()", "UTC", "ts < TIMESTAMP '2026-03-01 23:30:00.250000+00:00'"),
    ("d = current_date()", "UTC", "d = DATE '2026-03-01'"),
    ("d = current_date", "Europe/Berlin", "d = DATE '2026-03-02'"),
    ("d = curdate()", "America/New_York", "d = DATE '2026-03-01'"),
    ("n > localtimestamp()", "Asia/Tokyo", "n > TIMESTAMP_NTZ '2026-03-02 08:30:00.250000'"),
    ("x > unix_timestamp()", "UTC", f"x > {MICROS // 1_000_000}"),
    ("x > unix_timestamp(s)", "UTC", "x > unix_timestamp(s)"),
    ("x = 5 OR NOT d IN (current_date(), DATE '2020-01-01')", "UTC",
     "x = 5 OR NOT d IN (DATE '2020-01-01', DATE '2026-03-01')"),
    ("s = 'now()'", "UTC", "s = 'now()'"),
    ("x = `now`", "UTC", "x = `now`"),
    ("x > unix_timestamp() * 1000", "UTC", f"x > {MICROS // 1_000_000 * 1000}"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "timezone", "expected"), CASES)
def test_functions_become_literals(text, timezone, expected):
    found = at_moment(text, [*NAMES, "now"], timezone, MICROS)
    schema = pa.schema([
        ("ts", pa.timestamp("us", "UTC")), ("d", pa.date32()), ("n", pa.timestamp("us")),
        ("x", pa.int64()), ("s", pa.string()), ("now", pa.int64()),
    ])  # fmt: skip
    same = ss.PruningPredicate(expected, schema, timezone=timezone)
    assert ss.PruningPredicate(found, schema, timezone=timezone) == same


def test_seconds_after_2038_are_no_int():
    assert at_moment("x < unix_timestamp()", NAMES, "UTC", 2**31 * 1_000_000) == (
        "x < CAST(2147483648 AS BIGINT)"
    )


def test_a_text_without_them_is_returned_as_it_is():
    text = "ts > TIMESTAMP '2024-01-01 00:00:00' AND s = 'now()'"
    assert at_moment(text, NAMES, "UTC") is text


def test_columns_of_these_names_are_columns():
    """Spark: a name without parentheses is a function only if no column has it."""
    text = "current_date = x"
    assert at_moment(text, [*NAMES, "Current_Date"], "UTC") is text
    assert "AS DATE" in at_moment("current_date() = d", [*NAMES, "current_date"], "UTC")


def test_what_text_cannot_express_stays_a_tree():
    for text in ("trim('x' FROM s) = 'a' AND ts > now()", "x IN (SELECT 1) AND ts > now()"):
        assert isinstance(at_moment(text, NAMES, "UTC"), Node)
    assert at_moment("soundex(s) = 'a' AND ts > now()", NAMES, "UTC", 0) == (
        "soundex(s) = 'a' AND ts > CAST('1970-01-01 00:00:00+00:00' AS TIMESTAMP)"
    )


@pytest.fixture
def recent(tmp_path):
    """A table of the last 30 days, a row group for three of them."""
    now = dt.datetime.now(dt.UTC)
    moments = [now - dt.timedelta(days=i) for i in range(30)]
    rows = pa.table(
        {"ts": pa.array(moments, pa.timestamp("us", "UTC")), "d": [m.date() for m in moments]}
    )
    pq.write_table(rows, tmp_path / "t.parquet", row_group_size=3)
    return ss.scan(tmp_path)


def test_the_last_week(recent):
    plan = recent.plan("ts >= now() - INTERVAL 7 DAYS AND d >= current_date() - 7")
    assert len(plan.kept) == 3
    assert plan.to_arrow().num_rows == 7
    assert plan.unused == ()
    assert "now" not in plan.predicate.expr
    assert recent.plan("ts >= now() - INTERVAL 7 DAYS").count() == 7


def test_both_sides_of_a_join(recent):
    days = recent.plan("ts >= now() - INTERVAL 7 DAYS", columns=["d"]).to_arrow()
    for dimension in (days, days.to_pandas()):
        found = ss.join(recent, dimension, "d", where_dim="d >= current_date() - 2")
        assert found.num_rows == 3


def test_a_plan_keeps_its_moment(recent, monkeypatch):
    plan = recent.plan("ts >= now() - INTERVAL 7 DAYS")
    later = current_time.time.time_ns() + 10 * 86_400 * 10**9
    monkeypatch.setattr(current_time.time, "time_ns", lambda: later)
    assert plan.to_arrow().num_rows == plan.count() == 7
    assert pickle.loads(pickle.dumps(plan)).to_arrow().num_rows == 7
    assert recent.plan("ts >= now() - INTERVAL 7 DAYS").to_arrow().num_rows == 0


def test_a_predicate_that_may_be_kept_does_not_know_the_time(recent):
    said = []
    ss.PruningPredicate("ts >= now()", recent.schema, on_unknown=lambda *why: said.append(why))
    assert len(said) == 1
    assert "its value changes with time" in str(said)
    plan = recent.plan(ss.PruningPredicate("ts >= now()", recent.schema))
    assert len(plan.kept) == 10


def test_errors(recent):
    with pytest.raises(UnknownColumn, match="tss"):
        recent.plan("tss >= now()")
    with pytest.raises(PredicateSyntaxError):
        recent.plan("ts >= now(")
    with pytest.raises(ss.PredicateError, match="Nowhere"):
        recent.plan("ts >= now()", timezone="Nowhere/City")


def test_rows_are_sparks(spark, recent):
    """Both ask the clock, some seconds apart; no row lies near a bound."""
    df = spark.read.parquet(recent.files[0])
    half = "INTERVAL 12 HOURS"
    for where in (
        f"ts >= now() - INTERVAL 7 DAYS - {half}",
        f"ts < current_timestamp - {half}",
        f"ts BETWEEN now() - INTERVAL 3 DAYS - {half} AND now() - {half}",
        "d >= date_sub(current_date(), 5)",
        "d = current_date",
        "datediff(current_date(), d) % 7 = 1",
        "unix_timestamp() - unix_timestamp(ts) < 200000",
    ):
        expected = sorted(row.d for row in df.where(where).collect())
        zone = spark.conf.get("spark.sql.session.timeZone")
        plan = recent.plan(where, timezone=zone)
        assert sorted(plan.to_arrow()["d"].to_pylist()) == expected, where
        assert sorted(row.d for row in plan.to_spark(spark).collect()) == expected, where
