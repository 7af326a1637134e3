"""`plan.to_spark` of plans whose settings are not those of the session, in name or in meaning."""

import datetime as dt
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone import ir
from skipstone.bindings.predicates.sql import parse
from skipstone.ir.zones import same_zone
from skipstone.spark import read
from tests.support.spark.session import QUIET
from tests.support.tables.delta_log import Log, Written, delta_schema

pytestmark = pytest.mark.filterwarnings(QUIET, "ignore::skipstone.SkipstoneWarning")

#   two zones, whether they are one
ZONES = [
    ("UTC", "Etc/UTC", True),
    ("UTC", "Z", True),
    ("UTC", "+00:00", True),
    ("UTC", "-00:00", True),
    ("GMT", "Etc/UTC", True),
    ("UTC+1", "+01:00", True),
    ("Europe/Berlin", "Europe/Berlin", True),
    ("UTC", "Europe/London", False),
    ("+01:00", "Africa/Lagos", False),  # the tz database of one side may know more of it
    ("Europe/Berlin", "Arctic/Longyearbyen", False),
    ("UTC", "+01:00", False),
    ("UTC", "No/Where", False),
    ("No/Where", "No/Where", True),
]


@pytest.mark.parametrize("a, b, same", ZONES)
def test_zones_are_compared_by_their_rules(a, b, same):
    assert same_zone(a, b) is same_zone(b, a) is same


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("t")
    days = [dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=23 * i) for i in range(10)]
    rows = {
        "x": range(10),
        "s": [f"{i}a" for i in range(10)],
        "t": pa.array(days, pa.timestamp("us", "UTC")),
        "w": pa.array([d.replace(tzinfo=None) for d in days], pa.timestamp("us")),
        "d": [d.date() for d in days],
        "l": [[i, 5] for i in range(10)],
    }
    pq.write_table(pa.table(rows), folder / "t.parquet")
    return ss.scan_parquet(folder)


@pytest.fixture
def session(spark):
    """Return a function that sets settings of the session, and put them back."""
    keys = {"zone": "session.timeZone", "ansi": "ansi.enabled", "case": "caseSensitive"}
    before = {key: spark.conf.get(f"spark.sql.{key}") for key in keys.values()}

    def given(**settings):
        for name, value in settings.items():
            spark.conf.set(f"spark.sql.{keys[name]}", value)
        return spark

    yield given
    for key, value in before.items():
        spark.conf.set(f"spark.sql.{key}", value)


FREE = [  # conditions whose meaning is the same in all zones
    "x = 5", "x + 1 = 4", "x % 2 = 0 AND s LIKE '%a'", "abs(x - 7) < 2", "year(d) = 2024 AND x = 1",
    "upper(s) = '3A' OR x IN (1, 2, 3)", "substring(s, 1, 1) = '4'", "CAST(s AS STRING) > '5'",
    "w >= TIMESTAMP_NTZ '2024-01-03 00:00:00'", "hour(w) = 22", "d = DATE '2024-01-02'",
    "date_add(d, 1) > DATE '2024-01-04'", "t >= TIMESTAMP '2024-01-03 00:00:00Z'",
    "coalesce(x, 3) > 7", "CASE WHEN x > 3 THEN 1 ELSE 0 END = 1",
]  # fmt: skip
BOUND = [  # and of those that depend on the zone
    "hour(t) = 22", "to_date(t) = '2024-01-04'", "CAST(t AS STRING) > '2024-01-04'",
    "t >= TIMESTAMP '2024-01-03 00:00:00' AND x + 1 > 0", "CAST(d AS TIMESTAMP) < t",
    "date_trunc('DAY', t) > TIMESTAMP '2024-01-02 00:00:00'", "t + INTERVAL 1 DAY > w",
]  # fmt: skip
UNKNOWN = "soundex(s) = 'A000'"


@pytest.mark.parametrize("where", [*FREE, *BOUND])
@pytest.mark.parametrize("zone", ["Etc/UTC", "GMT", "+00:00"])
def test_another_name_of_the_zone(session, table, where, zone):
    plan = table.plan(where)
    rows = plan.to_spark(session(zone=zone)).select("x").collect()
    assert sorted(r.x for r in rows) == plan.to_arrow()["x"].to_pylist()
    assert rows or "CAST(d AS" in where


def test_an_unknown_part_under_another_name_of_the_zone(session, table):
    assert table.plan(UNKNOWN).to_spark(session(zone="Etc/UTC")).count() == 0


@pytest.mark.parametrize("where", FREE)
def test_conditions_that_no_zone_affects(session, table, where):
    plan = table.plan(where)
    rows = plan.to_spark(session(zone="Asia/Tokyo")).select("x").collect()
    assert sorted(r.x for r in rows) == plan.to_arrow()["x"].to_pylist() != []


@pytest.mark.parametrize("where", [*BOUND[:3], *BOUND[4:], UNKNOWN, "x > 0 AND hour(t) = 22"])
def test_conditions_of_another_zone(session, table, where):
    spark = session(zone="Europe/Berlin")
    with pytest.raises(
        ss.UnsupportedForm,
        match="the plan was made with timezone='UTC'; the session has 'Europe/Berlin'; "
        "plan again with timezone='Europe/Berlin'",
    ):
        table.plan(where).to_spark(spark)
    again = table.plan(where, timezone="Europe/Berlin").to_spark(spark)
    assert again.count() == read(spark, table, where).count()


def test_a_time_of_another_zone_is_passed_as_an_instant(session, table):
    where = "t >= TIMESTAMP '2024-01-03 00:00:00'"
    expected = table.plan(where).count()
    assert table.plan(where).to_spark(session(zone="Asia/Tokyo")).count() == expected
    assert table.plan(where, timezone="Asia/Tokyo").count() > expected


def test_columns_of_spark(session, table):
    from pyspark.sql import functions as F

    spark = session(zone="Etc/UTC")
    assert table.plan(F.hour("t") == 22).to_spark(spark).count() == 1
    assert table.plan(F.col("x") + 1 == 4).to_spark(session(zone="Asia/Tokyo")).count() == 1
    with pytest.raises(ss.UnsupportedForm, match="plan again with timezone='Asia/Tokyo'"):
        table.plan(F.hour("t") == 22).to_spark(spark)


def test_other_settings_are_named(session, table):
    spark = session(ansi="false")
    with pytest.raises(ss.UnsupportedForm, match="ansi=True; the session has False; plan again"):
        table.plan("x + 1 = 4 AND CAST(s AS INT) = 3").to_spark(spark)
    assert table.plan("X = 3").to_spark(session(case="true", ansi="true")).count() == 1
    with pytest.raises(
        ss.UnsupportedForm,
        match="ansi=False and timezone='Asia/Tokyo'; the session has True and 'UTC'; "
        "plan again with ansi=True and timezone='UTC'",
    ):
        table.plan("hour(t) = abs(x)", ansi=False, timezone="Asia/Tokyo").to_spark(
            session(case="false", zone="UTC")
        )


def test_trees_whose_functions_are_our_own(session, table):
    """Only the text of a condition has Spark's names for all of its functions."""
    spark = session(zone="UTC")
    for text in ("unix_timestamp(t) > 5", "trim('a' FROM s) = '3'"):
        assert table.plan(text).to_spark(spark).count() in (1, 10)
        with pytest.raises(ss.UnsupportedForm, match="Give the condition as SQL text"):
            table.plan(parse(text)[0]).to_spark(spark)
    assert table.plan(parse("x % 2 = 1 AND s LIKE '3%'")[0]).to_spark(spark).count() == 1


def test_partition_values_under_another_name_of_the_zone(session, tmp_path):
    log = Log(tmp_path / "t", delta_schema("x INT, p TIMESTAMP"), ["p"])
    log.add(Written([{"x": 1}], {"p": "2024-01-01 00:00:00"}))
    table = ss.scan_delta(log.folder)
    assert table.plan("x = 1").to_spark(session(zone="Etc/UTC")).count() == 1
    with pytest.raises(ss.SourceError, match="plan with timezone='Asia/Tokyo'"):
        table.plan("x = 1").to_spark(session(zone="Asia/Tokyo"))


def test_functions_that_know_the_zone():
    """`_without_zone` assumes that only calls with an instant need the zone; these have one."""
    texts = {p.name: p.read_text("utf-8") for p in Path(ir.__file__).parent.rglob("*.py")}
    told = {name for name, text in texts.items() if re.search(r"call\.session\.(time)?zone", text)}
    assert told == {"moves.py", "cast_values.py", "instants.py"}
