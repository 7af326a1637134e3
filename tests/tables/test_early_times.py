"""Times with an uncertain offset, before 1970 and after 2200: no row is lost, others prune."""

import contextlib
import datetime as dt
import itertools
import zoneinfo

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.ir.errors import UnsupportedForm
from skipstone.ir.outcome import Verdict
from tests.support.spark.answers import set_in

NEW_YORK = "America/New_York"


def utc(*parts):
    return dt.datetime(*parts, tzinfo=dt.UTC)


FILES = {
    "early": [utc(1850, 1, 1, 12), utc(1851, 1, 1)],
    "mixed": [utc(1850, 6, 1, 12), utc(2024, 5, 1)],
    "2024": [utc(2024, 1, 2), utc(2024, 6, 1), None],
    "2025": [utc(2025, 1, 2), utc(2025, 6, 1)],
    "last": [utc(9999, 12, 30), utc(9999, 12, 31, 23, 59, 59, 999999)],
    "1582": [utc(1582, 10, 14), utc(1582, 10, 15, 4, 56, 2), utc(1582, 10, 17)],
}
FIRST_DAY = "TIMESTAMP '1582-10-15 00:00:00'"
LAST_MICROSECOND = "TIMESTAMP '9999-12-31 23:59:59.999999'"
# A condition in New York, the files that are left, and the rows, if all can be judged.
CASES = [
    ("year(ts) = 2024", "2024 mixed", 3),
    ("year(ts) = 2024 OR ts IS NULL", "2024 mixed", 4),
    ("year(ts) < 2000", "1582 early mixed", 6),
    ("CAST(ts AS DATE) = DATE '2024-05-31'", "2024", 1),
    ("date_trunc('DAY', ts) = TIMESTAMP '2024-01-01 00:00:00'", "2024 mixed", 1),
    ("ts < TIMESTAMP '1883-01-01 00:00:00'", "1582 early mixed", 6),
    ("ts > TIMESTAMP '1883-01-01 00:00:00'", "2024 2025 last mixed", 7),
    ("ts > '1883-01-01'", "2024 2025 last mixed", 7),
    ("ts > DATE '1883-01-01'", "2024 2025 last mixed", 7),
    ("ts > TIMESTAMP_NTZ '1883-01-01 00:00:00'", "2024 2025 last mixed", 7),
    ("year(ts) = 1850", "early mixed", None),
    (f"ts = {FIRST_DAY}", "1582", None),
    (f"ts < {FIRST_DAY}", "1582", None),
    (f"ts > {LAST_MICROSECOND}", "last", None),
    (f"ts IN ({FIRST_DAY}, TIMESTAMP '2024-05-31 20:00:00')", "1582 2024", None),
    ("ts IN ('1582-10-15', '2024-05-31 20:00:00')", "1582 2024", None),
    (f"ts IN (TIMESTAMP '2025-01-01 19:00:00', {LAST_MICROSECOND})", "2025 last", None),
    (f"ts NOT IN ({FIRST_DAY}, {LAST_MICROSECOND}) AND ts > '2025-01-01'", "2025 last", None),
    (f"ts IN ({LAST_MICROSECOND}, TIMESTAMP '2025-01-01 19:00:00') AND ts < '2100-01-01'", "2025",
     1),
    ("ts <=> TIMESTAMP '1700-01-01 00:00:00'", "", 0),
    ("ts BETWEEN TIMESTAMP '1700-01-01 00:00:00' AND TIMESTAMP '1883-01-01 00:00:00'",
     "early mixed", 3),
    ("year(TIMESTAMP '1700-06-01 00:00:00') = 1700 AND ts > '2025-01-01'", "2025 last", 4),
    ("year(TIMESTAMP '1700-06-01 00:00:00') = 1701", "", 0),
    ("date_format(ts, 'yyyy') LIKE '202%'", "2024 2025 last mixed", None),
    ("NOT endswith(date_format(ts, 'yyyy-MM-dd'), 'b')", "1582 2024 2025 early last mixed", None),
    ("date_format(ts, 'yyyy-MM-dd') NOT LIKE '%b%'", "1582 2024 2025 early last mixed", None),
    ("date_format(ts, 'yyyy-MM-dd') LIKE '1850-%-01' OR ts > '9000-01-01'", "early last mixed",
     None),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("times")
    for name, values in FILES.items():
        column = pa.array(values, pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"ts": column}), f"{out}/{name}.parquet")
    return str(out)


def names(plan):
    return " ".join(sorted(f.rsplit("/", 1)[-1].removesuffix(".parquet") for f in plan.files))


@pytest.mark.parametrize("where, files, rows", CASES, ids=[c[0] for c in CASES])
def test_plans_and_rows(folder, where, files, rows):
    plan = ss.scan_parquet(folder).plan(where, timezone=NEW_YORK)
    assert names(plan) == files
    if rows is None:
        with pytest.raises(UnsupportedForm, match=r"cannot filter .* is not known here"):
            plan.to_arrow()
    else:
        assert plan.to_arrow().num_rows == rows


def test_rows_are_as_in_spark(folder, spark):
    """Spark's rows are in the files of the plan, and equal ours where ours can be judged."""
    with set_in(spark, {"spark.sql.session.timeZone": NEW_YORK}):
        tests = [f"({where}) AS c{k}" for k, (where, _, _) in enumerate(CASES)]
        rows = spark.read.parquet(folder).selectExpr("input_file_name()", *tests).collect()
    for k, (where, files, count) in enumerate(CASES):
        found = [r[0].rsplit("/", 1)[-1].removesuffix(".parquet") for r in rows if r[k + 1]]
        assert set(found) <= set(files.split()), where
        assert count in (None, len(found)), where


FAR = "date_format(c, 'yyyy-MM-dd')"
PATTERNS = ("'%b'", "'%3'", "'9999%'", "'9999-12-2_'", "'%9999%'", "'9999-12-23'", "'2024-%'")


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("negated", ["", "NOT "])
def test_patterns_of_days_with_an_uncertain_clock(tmp_path, spark, pattern, negated):
    """A row is judged as Spark judges it, or not at all; it once was by the pattern's start."""
    days = [dt.date(9999, 12, 23), dt.date(2024, 1, 1), dt.date(2024, 1, 3), None]
    pq.write_table(pa.table({"c": days}), tmp_path / "a.parquet")
    where = f"{negated}({FAR} LIKE {pattern})"
    with set_in(spark, {"spark.sql.session.timeZone": "Pacific/Apia"}):
        expected = [r.c for r in spark.read.parquet(str(tmp_path)).where(where).collect()]
    plan = ss.scan_parquet(str(tmp_path)).plan(where, timezone="Pacific/Apia")
    assert len(plan.files) or not expected
    with contextlib.suppress(UnsupportedForm):
        assert plan.to_arrow()["c"].to_pylist() == expected


ZONES = (NEW_YORK, "Asia/Manila", "America/Juneau", "Africa/Monrovia", "Europe/Amsterdam")
DAYS = [utc(y, m, d) for y in (1582, 1700, 1844, 1867, 1883, 1899, 1900, 2024, 2199, 2200, 5000)
        for m, d in ((1, 1), (10, 15), (12, 30))]  # fmt: skip
STEPS = [dt.timedelta(hours=h, seconds=s) for h in (-18, -12, -5, 0, 5, 13) for s in (-1, 2)]


@pytest.mark.parametrize("zone", ZONES)
def test_no_row_is_lost(zone):
    """Walls by the tz database, whose early offsets differ from Java's by less than a day."""
    moments = sorted(d + s for d in DAYS for s in STEPS)
    clock = zoneinfo.ZoneInfo(zone)
    walls = [m.astimezone(clock).replace(tzinfo=None) for m in moments]
    n = len(moments)
    pairs = [(i, i + k) for k in (0, 1, 12, 80) for i in range(0, n - k, 5)]
    lows, highs = ([moments[p[side]] for p in pairs] for side in (0, 1))
    schema = pa.schema([("ts", pa.timestamp("us", "UTC"))])
    stats = ss.Statistics.from_dict(
        {"ts": {"min": lows, "max": highs, "null_count": [0] * len(pairs)}}, schema
    )
    literals = walls[::11]
    tests = itertools.chain(
        ((f"year(ts) = {w.year}", [x.year == w.year for x in walls]) for w in literals),
        ((f"CAST(ts AS DATE) < DATE '{w:%Y-%m-%d}'", [x.date() < w.date() for x in walls])
         for w in literals),
        ((f"ts < TIMESTAMP '{w}'", [m < w.replace(tzinfo=clock) for m in moments])
         for w in literals if w.replace(tzinfo=clock).utcoffset() is not None),
        ((f"hour(ts) = {w.hour}", [x.hour == w.hour for x in walls]) for w in literals[:5]),
    )  # fmt: skip
    for where, true in tests:
        verdicts = ss.PruningPredicate(where, schema, timezone=zone).evaluate(stats)
        for (a, b), verdict in zip(pairs, verdicts.tolist(), strict=True):
            assert verdict != Verdict.NEVER or not any(true[a : b + 1]), (where, a, b)
            assert verdict != Verdict.ALWAYS or all(true[a : b + 1]), (where, a, b)


def test_early_rows_are_judged_by_bounds_in_bulk(tmp_path):
    """A kernel judges rows of many; those that it cannot judge are few."""
    n = 5000
    values = [utc(1850 + k % 40, 3, 1) if k % 100 == 0 else utc(2024, 1 + k % 12, 3)
              for k in range(n)]  # fmt: skip
    table = pa.table({"ts": pa.array(values, pa.timestamp("us", "UTC")), "k": range(n)})
    pq.write_table(table, tmp_path / "a.parquet")
    found = (
        ss.scan_parquet(str(tmp_path))
        .plan("year(ts) = 2024 AND month(ts) = 5", timezone=NEW_YORK)
        .to_arrow()
    )
    months = pc.equal(pc.month(table["ts"]), 5)
    assert (
        found.num_rows
        == table.filter(pc.and_(months, pc.equal(pc.year(table["ts"]), 2024))).num_rows
    )
