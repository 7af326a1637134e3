"""Partition values that Spark generates from times bound these times.

The times lie around clock changes and where islands cross the date line.
"""

import datetime as dt
import zoneinfo

import numpy as np
import pyarrow as pa
import pytest

from skipstone.bindings.tables.delta.clock import SKIPPED_DAYS, bounds_from_times
from skipstone.bindings.tables.delta.fields import fields_of
from skipstone.bindings.tables.delta.generation import Same, Truncation, generated_columns
from tests.support.tables.generated_columns import DATE, FORMS, STAMP, WALL, described

CLOCK_CHANGES = {
    "Australia/Lord_Howe": ("2023-04-01T15", "2023-09-30T15"),
    "America/Sao_Paulo": ("2018-11-04T03", "2018-02-18T02"),
    "Pacific/Apia": ("2011-12-30T10",),
    "Pacific/Kwajalein": ("1993-08-21T12", "1969-09-30T13"),
    "Pacific/Kiritimati": ("1994-12-31T10", "1995-01-01T10"),
    "Asia/Manila": ("1844-12-31T16",),
    "America/Juneau": ("1867-10-19T00",),
    "+18:00": (),
    "-18:00": (),
}
FAR_AWAY = (
    "-0005-06-07T08:09:10",
    "0001-01-01T00:00:00",
    "1582-10-15T00:00:00",
    "9999-12-31T23:59:59.999999",
    "12345-07-15T18:00:00",
)


def around(zone):
    """Return times around clock changes, ends of years and months, and times in far years."""
    turns = [
        np.datetime64(t, "us")
        for t in (*CLOCK_CHANGES[zone], "2024-01-01", "2024-03-01", "1970-01-01")
    ]
    steps = [
        np.timedelta64(int(h * 3_600_000_000) + d, "us")
        for h in (-49, -25, -24, -1, -0.5, 0, 0.25, 0.5, 1, 24, 25, 49)
        for d in (-1, 0)
    ]
    return sorted(
        {int((t + s).astype(np.int64)) for t in turns for s in steps}
        | {int(np.datetime64(t, "us").astype(np.int64)) for t in FAR_AWAY}
    )


SOURCES = {
    STAMP: "timestamp_micros(at)",
    WALL: "TIMESTAMP_NTZ '1970-01-01 00:00:00' "
    "+ make_dt_interval(0, 0, 0, CAST(at / 1000000BD AS DECIMAL(18,6)))",
    DATE: "date_from_unix_date(CAST(floor(at / 86400000000BD) AS INT))",
}


@pytest.mark.parametrize("zone", CLOCK_CHANGES)
def test_generated_values_bound_their_times(zone, spark):
    """Instants from date_trunc are written in UTC, or as the writer's clock shows them."""
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        for kind, source in SOURCES.items():
            forms = [c for k, c in FORMS if k == kind]
            frame = spark.createDataFrame([(v,) for v in around(zone)], "at bigint").selectExpr(
                "at", f"{source} AS x"
            )
            made = {e.format("x"): t for c in forms for t, e in c.values()}
            expressions = [
                *(f"CAST({e} AS STRING)" for e in made),
                *(f"unix_micros({e})" if t == "TIMESTAMP" else "0" for e, t in made.items()),
            ]
            values = pa.table(
                list(zip(*frame.selectExpr("at", *expressions).collect(), strict=True)),
                names=list(map(str, range(1 + 2 * len(made)))),
            )
            at = np.asarray(values.column(0)) // (86_400_000_000 if kind == DATE else 1)
            texts = dict(zip(made, values.columns[1:], strict=False))
            in_utc = {
                e: [f"{np.datetime64(v, 'us')}Z" for v in c.to_pylist()]
                for e, c in zip(made, values.columns[1 + len(made) :], strict=True)
            }
            for columns in forms:
                for utc in {False, any(t == "TIMESTAMP" for t, _ in columns.values())}:
                    own = {
                        n: in_utc[e.format("x")]
                        if utc and t == "TIMESTAMP"
                        else texts[e.format("x")]
                        for n, (t, e) in columns.items()
                    }
                    bounded(
                        described(kind, columns),
                        kind,
                        {
                            n: pa.chunked_array([v]) if isinstance(v, list) else v
                            for n, v in own.items()
                        },
                        at,
                        zone,
                    )
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def bounded(schema, kind, texts, at, zone):
    """Check that each value lies within the bounds from its partition values.

    The bounds must be known for usual years, and the value may never be certainly NULL.
    """
    fields = fields_of(schema, list(texts), False)
    forms = {g.name: g.form for g in generated_columns(fields)}
    assert list(forms) == list(texts)
    columns = [
        (
            Truncation("microsecond") if form == Same() else form,
            texts[n],
            fields.schema.field(n).type,
        )
        for n, form in forms.items()
    ]
    raw = bounds_from_times(kind, columns)
    low, high = (
        np.asarray(b.cast(pa.int32()).cast(pa.int64()) if kind == DATE else b.cast(pa.int64()))
        for b in (raw.min.fill_null(0), raw.max.fill_null(0))
    )
    known = np.asarray(raw.min.is_valid())
    wrong = np.flatnonzero(known & ((at < low) | (at > high)))
    assert not len(wrong), [
        (
            zone,
            schema["fields"][1:],
            {n: t[i].as_py() for n, t in texts.items()},
            int(at[i]),
            int(low[i]),
            int(high[i]),
        )
        for i in wrong[:3]
    ]
    usual = (at > -20_000 * (1 if kind == DATE else 86_400_000_000)) & (
        at < 60_000 * (1 if kind == DATE else 86_400_000_000)
    )
    direct = any(isinstance(form, Truncation | Same) for form in forms.values())
    assert known[usual].all() or not direct
    assert set(raw.null_count.to_pylist()) <= {0, None}


def test_skipped_days():
    """SKIPPED_DAYS holds every day that a zone of the machine's tz database skips."""
    found = set()
    for name in zoneinfo.available_timezones():
        zone = zoneinfo.ZoneInfo(name)
        for day in map(
            np.datetime64,
            (
                "1844-12-30",
                "1993-08-20",
                "1994-12-30",
                "1994-12-31",
                "2011-12-29",
                *(f"{y}-01-01" for y in range(1850, 2030, 20)),
            ),
        ):
            for d in np.arange(day - 2, day + 4):
                noon = dt.datetime.combine(d.item(), dt.time(12), zone)
                if noon.astimezone(dt.UTC).astimezone(zone).date() != d.item():
                    found.add(int(d.astype(np.int64)))
    assert found <= set(SKIPPED_DAYS.tolist())
    assert np.datetime64("2011-12-30").astype(np.int64) in found
