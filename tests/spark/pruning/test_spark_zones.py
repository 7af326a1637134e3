"""Zones of which Spark's JVM and Python have other rules: one of them has an old tz database."""

import datetime as dt
import shutil
import zoneinfo
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
import skipstone.spark as sks
from skipstone.bindings.spark.session import zones
from skipstone.ir.errors import UnsupportedForm
from skipstone.ir.zones import _zone_of, shifts_of
from tests.support.spark.answers import set_in
from tests.support.spark.automatic import enabled
from tests.support.spark.session import QUIET

pytestmark = pytest.mark.filterwarnings(QUIET)

MEXICO = "America/Mexico_City"
ZONE = "spark.sql.session.timeZone"
WHERE = "hour(t) = 12"
SHIFTED = f"hour(from_utc_timestamp(t, '{MEXICO}')) = 12"


def forget():
    zoneinfo.ZoneInfo.clear_cache()
    zones._known.clear()
    for cached in (_zone_of, shifts_of):
        cached.cache_clear()


@pytest.fixture
def other_mexico(tmp_path):
    """Python believes that Mexico has summer time as Chicago has; the JVM knows that it ended."""
    old = zoneinfo.TZPATH
    found = next((Path(p, "America/Chicago") for p in old if Path(p, MEXICO).is_file()), None)
    if found is None:
        pytest.skip("Python has no tz database in a folder")
    (tmp_path / "tz/America").mkdir(parents=True)
    shutil.copy(found, tmp_path / "tz" / MEXICO)
    zoneinfo.reset_tzpath([str(tmp_path / "tz"), *old])
    forget()
    yield
    zoneinfo.reset_tzpath(old)
    forget()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three files, of 16, 17 and 18 o'clock in UTC on a day of July; noon in Mexico is 18."""
    folder = tmp_path_factory.mktemp("hours")
    for hour in (16, 17, 18):
        t = dt.datetime(2024, 7, 1, hour, tzinfo=dt.UTC)
        pq.write_table(pa.table({"t": [t], "k": [hour]}), folder / f"{hour}.parquet")
    return str(folder)


def rows(df):
    return sorted(r.k for r in df.select("k").collect())


def test_rules_agree_here(spark, setting, folder):
    setting(ZONE, MEXICO)
    df = sks.prune(spark.read.parquet(folder).where(WHERE))
    assert (rows(df), len(df.inputFiles())) == ([18], 1)


@pytest.mark.parametrize("name", ["Europe/Berlin", "Africa/Casablanca", "Asia/Kolkata", "EST5EDT"])
def test_these_zones_agree(any_session, name):
    assert zones.other_zone(any_session, name) == ""


def test_nothing_is_pruned_in_a_zone_of_other_rules(spark, setting, other_mexico, folder):
    setting(ZONE, MEXICO)
    df = spark.read.parquet(folder).where(WHERE)
    assert rows(df) == [18]
    pruned = sks.prune(df)
    assert (rows(pruned), len(pruned.inputFiles())) == ([18], 3)
    with enabled(spark):
        assert rows(spark.read.parquet(folder).where(WHERE)) == [18]


def test_zones_in_conditions(spark, setting, other_mexico, folder):
    """A condition that names such a zone is unknown; others of the query still prune."""
    setting(ZONE, "UTC")
    df = sks.prune(spark.read.parquet(folder).where(SHIFTED))
    assert (rows(df), len(df.inputFiles())) == ([18], 3)
    df = sks.prune(spark.read.parquet(folder).where(f"{SHIFTED} AND k > 16"))
    assert (rows(df), len(df.inputFiles())) == ([18], 2)


def test_text_is_refused(any_session, other_mexico, folder):
    with set_in(any_session, {ZONE: "UTC"}):
        assert rows(sks.read(any_session, ss.scan_parquet(folder), "hour(t) = 17")) == [17]
        with pytest.raises(UnsupportedForm, match=f"other rules of {MEXICO} than Python, from"):
            sks.read(any_session, ss.scan_parquet(folder), SHIFTED)
        with pytest.raises(UnsupportedForm, match=f"other rules of {MEXICO} than Python"):
            sks.read(
                any_session,
                ss.scan_parquet(folder),
                f"t >= TIMESTAMP '2024-07-01 12:00:00 {MEXICO}'",
            )
    with (
        set_in(any_session, {ZONE: MEXICO}),
        pytest.raises(UnsupportedForm, match=r"update the older one"),
    ):
        sks.read(any_session, ss.scan_parquet(folder), "k > 16")
