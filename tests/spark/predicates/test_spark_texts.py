"""Casts of texts: Skipstone reads a value only where Spark reads the same one."""

import random

import pyarrow as pa
import pytest

from skipstone.bindings.tables.partition_values import partition_values
from skipstone.ir import types as ty
from skipstone.ir.coercion.texts import from_text, is_no_value
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import DType, Kind
from tests.support.effort import LONG
from tests.support.spark.automatic import settings
from tests.support.spark.session import QUIET

pytestmark = pytest.mark.filterwarnings(QUIET)

# Type in Spark -> the type, and how a cast is read as a number.
TYPES = {
    "INT": (ty.INT32, "{}"),
    "BIGINT": (ty.INT64, "{}"),
    "DOUBLE": (ty.DOUBLE, "{}"),
    "DECIMAL(10,2)": (DType(Kind.DECIMAL, precision=10, scale=2), "CAST({} * 100 AS BIGINT)"),
    "BOOLEAN": (ty.BOOL, "{}"),
    "DATE": (ty.DATE, "datediff({}, DATE '1970-01-01')"),
    "TIMESTAMP": (ty.TIMESTAMP, "unix_micros({})"),
    "TIMESTAMP_NTZ": (ty.TIMESTAMP_NTZ, "unix_micros(CAST({} AS TIMESTAMP))"),
}
ZONES = (
    "", "Z", "z", "UTC", "utc", "UT", "GMT", " UTC", "+00", "-00", "+0", "+1", "+01", "-05", " +05",
    "+0000", "-0130", "+00:0", "+1:3", "+01:3", "+1:30", "+01:30 ", "+1:30:15", "+01:30:15",
    "+1:3:15", "-013015", "+130", "+12345", "+18", "-1800", "+180000", "+18:01", "+19", "+05:60",
    "+0060", "+01:30:99", "UTC+1", "UTC-01", "GMT+01:30", "GMT-0530", "UT+2", "UTC+1:3", "UTC+",
    "+", "UTC +1", "Z+1", "UTC+00:00:01", "GMT+0", "Etc/UTC", "+1:", "Europe/Berlin",
)  # fmt: skip
CLOCKS = (
    "2022-07-01 00:00",
    "2022-07-01 00:00:00",
    "2022-7-1T1:2:3.5",
    "2022-07-01",
    "2022-07-01T10",
)
SEEDS = (
    "2022-01-01 10:20:30.123456", "2022-1-2", "2022-01-01T1:2:3Z", "+2022-01-01",
    "1999-12-31 23:59:59.9999999 UTC", "12345-01-01", "0006122", "2522213", "500012",
    "294247-01-10", "294247-01-11",
    "0001-01-01 00:00:00", "2022-02-30", "2024-02-29 12:00", "2022", "2022-13", "T10:00:00",
    "10:00:00", "12:00:00 AM", "-5", "+7", " 12 ", "1e5", "1.5", "1.", "0x1F", ".5", "-.5e-3",
    "1e400", "nan", "Infinity", "-inf", "1.5d", "2f", "true", "T", "yes", "N", "0", "1", "off",
    "12345678901234567890", "99999999999999999999.99", "1_000", "0.005", "0.015", "- 5", "+-5",
    "1e", "00012", "-0", "-0.0", "2022-01-01\t", "\u00a012", "\uff11\uff12", "12\n", "tRue",
    "2022-01-01 24:00:00", "2022-01-01 10:60:00", "1970-01-01 00:00:00+18:00", "nanf", "-nan",
)  # fmt: skip
LETTERS = "0123456789-+:. TZeEdDfFUC/aAnN\t\n\x00\x7f_,"


def changed(text, r):
    """Insert, remove or replace a few characters of a text."""
    out = list(text)
    for _ in range(r.choice((0, 1, 1, 1, 2, 3))):
        at, how = r.randrange(len(out) + 1), r.random()
        if how < 0.35:
            out.insert(at, r.choice(LETTERS))
        elif out and how < 0.7:
            del out[min(at, len(out) - 1)]
        elif out:
            out[min(at, len(out) - 1)] = r.choice(LETTERS)
    return "".join(out)


@pytest.fixture(scope="module")
def texts(spark):
    r = random.Random(26)
    drawn = (changed(r.choice(SEEDS), r) for _ in range(40_000 if LONG else 4000))
    some = dict.fromkeys([c + z for c in CLOCKS for z in ZONES] + [*SEEDS, *drawn])
    return spark.createDataFrame([(text,) for text in some], "text STRING").coalesce(1).cache()


def test_times_of_partitions(spark, texts):
    """A text that Spark does not cast is NULL there; a value for it would lose `p IS NULL`."""
    with settings(spark, {"spark.sql.session.timeZone": "UTC"}):
        cast = "unix_micros(TRY_CAST(text AS TIMESTAMP))"
        rows = texts.selectExpr("text", f"{cast} AS micros").collect()
    kind = pa.timestamp("us", "UTC")
    values, _ = partition_values(pa.array([r.text for r in rows], pa.string()), kind, "UTC")
    found = values.cast(pa.int64()).to_pylist()
    known = [(r.text, v, r.micros) for r, v in zip(rows, found, strict=True) if v is not None]
    assert len(known) > 50
    assert [one for one in known if one[1] != one[2]] == []


@pytest.mark.parametrize("ansi", [True, False])
def test_casts_of_texts(spark, texts, ansi):
    cast = "TRY_CAST" if ansi else "CAST"
    reads = [form.format(f"{cast}(text AS {t})") for t, (_, form) in TYPES.items()]
    with settings(
        spark, {"spark.sql.ansi.enabled": str(ansi).lower(), "spark.sql.session.timeZone": "UTC"}
    ):
        rows = texts.selectExpr("text", *reads).collect()
    session, wrong = Session(timezone="UTC", ansi=ansi), []
    for i, (name, (dtype, _)) in enumerate(TYPES.items(), 1):
        read = 0
        for row in rows:
            text, expected = row[0], row[i]
            try:
                found = from_text(text, dtype, session)
            except CannotJudge:
                if expected is not None and is_no_value(text, dtype):
                    wrong.append((name, text, "no value", expected))
                continue
            read += 1
            if found != expected and not (found != found and expected != expected):
                wrong.append((name, text, found, expected))
        assert read > 10, name
    assert not wrong
