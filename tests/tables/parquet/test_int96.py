"""Timestamps of type INT96, which Spark writes unless told otherwise, are read by pages."""

import datetime as dt
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.tables.parquet.pages.nested import whole_columns
from tests.support.spark.automatic import settings

SECOND = 10**6
DAY = 86_400 * SECOND
FIRST, LAST = -62_135_596_800 * SECOND, 253_402_300_799 * SECOND  # the years 1 to 9999
CONDITIONS = [
    None,
    "t IS NULL",
    "t >= TIMESTAMP '2262-04-12 00:00:00Z'",
    "t < TIMESTAMP '1677-09-21 00:00:00Z' AND id % 3 = 0",
    "t BETWEEN TIMESTAMP '1970-01-01 00:00:00Z' AND TIMESTAMP '1970-01-03 00:00:00Z'",
    "year(t) = 1970 AND hour(t) < 5 OR id < 100",
    "id BETWEEN 7000 AND 7100",
    "id = 4321 OR t IN (TIMESTAMP '1970-01-01 00:00:00Z', TIMESTAMP '1970-01-02 00:00:00Z')",
    "t <=> NULL OR NOT (t > TIMESTAMP '1900-01-01 00:00:00Z')",
]


def times(seed: int, n: int) -> pa.Array:
    """Return times of all years, many of them equal, with NULLs."""
    r = np.random.default_rng(seed)
    near, far = r.integers(0, 200, n) * DAY // 24, r.integers(FIRST, LAST, n)
    values = np.where(r.random(n) < 0.8, near, far)
    return pa.array(values, mask=r.random(n) < 0.1).cast(pa.timestamp("us"))


@pytest.mark.parametrize("reader", ["arrow", "polars"])
@pytest.mark.parametrize("codec", ["none", "snappy"])
def test_the_same_rows_as_of_int64(tmp_path, monkeypatch, reader, codec):
    def refused(*_):
        raise AssertionError("it was read by row groups")

    monkeypatch.setattr(whole_columns, "read_whole", refused)
    for i in range(3):
        stored = times(i, 9_000)
        rows = pa.table({"id": np.arange(9_000) + 3_000 * i, "t": stored, "u": stored})
        for name, int96 in (("int96", True), ("int64", False)):
            (tmp_path / name).mkdir(exist_ok=True)
            own = rows if int96 else rows.set_column(1, "t", _utc(stored))
            own = own.set_column(2, "u", _utc(stored).cast(pa.string()))
            pq.write_table(
                own,
                tmp_path / name / f"{i}.parquet",
                use_deprecated_int96_timestamps=int96,
                data_page_size=1_000,
                row_group_size=4_000,
                compression=codec,
                use_dictionary=i < 2,
                write_page_index=i > 0,
            )
    tables = [ss.scan_parquet(tmp_path / name) for name in ("int96", "int64")]
    assert tables[0].schema == tables[1].schema
    for where in CONDITIONS:
        for columns in (["id", "t"], ["t"], ["id"], ["u", "t"]):
            found, expected = (
                table.plan(where, timezone="America/New_York", columns=columns) for table in tables
            )
            assert found.to_arrow(reader=reader).equals(expected.to_arrow()), (where, columns)
            assert found.count() == expected.count(), where


def _utc(values: pa.Array) -> pa.Array:
    return values.cast(pa.int64()).cast(pa.timestamp("us", "UTC"))


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        ({}, 6),
        ({"org.apache.spark.version": "3.5.1"}, 6),
        ({"org.apache.spark.version": "3.5.1", "org.apache.spark.legacyDateTime": ""}, 6),
        ({"org.apache.spark.version": "3.5.1", "org.apache.spark.legacyINT96": ""}, 1),
        ({"org.apache.spark.version": "2.4.8"}, 1),
    ],
)
def test_the_julian_calendar_of_int96(tmp_path, notes, expected):
    """The sixth of January 1000 was the first in the Julian calendar."""
    stored = pa.array([dt.datetime(1000, 1, 6), dt.datetime(2024, 1, 1)], pa.timestamp("us"))
    notes = notes | {"org.apache.spark.timeZone": "UTC"}
    pq.write_table(
        pa.table({"t": stored}).replace_schema_metadata(notes),
        tmp_path / "a.parquet",
        use_deprecated_int96_timestamps=True,
    )
    plan = ss.scan_parquet(tmp_path / "a.parquet").plan("year(t) < 1500", timezone="UTC")
    assert plan.to_arrow()["t"].to_pylist() == [dt.datetime(1000, 1, expected, tzinfo=dt.UTC)]


def test_times_that_arrow_misreads(tmp_path):
    """Spark writes times after the year 285,000 as negative days."""
    path = tmp_path / "a.parquet"
    stored = pa.array([0, DAY], pa.timestamp("us"))
    plain = {"compression": "none", "use_dictionary": False}
    pq.write_table(pa.table({"t": stored}), path, use_deprecated_int96_timestamps=True, **plain)
    second = struct.pack("<qi", 0, 2_440_589)
    data = path.read_bytes()
    assert data.count(second) == 1
    path.write_bytes(data.replace(second, struct.pack("<qi", 0, -30_000_000)))
    with pytest.raises(ss.SourceError, match="INT96 column 't' holds timestamps after the year"):
        ss.scan_parquet(path).plan().to_arrow()


@pytest.mark.parametrize("int96", [True, False], ids=["int96", "int64"])
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_files_that_pyarrow_rewrote_as_spark_reads_them(spark, tmp_path, zone, int96):
    """pyarrow keeps Spark's schema of a file, and reads its INT96 as times without a zone."""
    made, again = tmp_path / "made", tmp_path / "again"
    again.mkdir()
    with settings(spark, {"spark.sql.session.timeZone": zone}):
        for i in range(3):
            rows = spark.range(24 * i, 24 * i + 24, 1, 1).selectExpr(
                "id",
                "TIMESTAMP '2024-06-10 01:30:00' + MAKE_DT_INTERVAL(0, CAST(id AS INT)) AS t",
                "TIMESTAMP_NTZ '2024-06-10 01:30:00' + MAKE_DT_INTERVAL(0, CAST(id AS INT)) AS n",
            )
            nested = rows.selectExpr("*", "NAMED_STRUCT('t', t, 'n', n) AS s", "ARRAY(t) AS l")
            nested.write.mode("append").parquet(str(made))
        for i, file in enumerate(sorted(made.glob("*.parquet"))):
            pq.write_table(
                pq.read_table(file).drop_columns(["l"] if int96 else []),
                again / f"{i}.parquet",
                use_deprecated_int96_timestamps=int96,
                coerce_timestamps=None if int96 else "us",
                row_group_size=10,
            )
        for where in (
            "t > TIMESTAMP '2024-06-11 03:00:00'",
            "n > TIMESTAMP_NTZ '2024-06-11 03:00:00'",
            "t = n",
            "hour(t) = 3",
            "s.t < TIMESTAMP '2024-06-10 07:00:00' AND s.n >= TIMESTAMP_NTZ '2024-06-10 03:30:00'",
        ):
            wanted = sorted(r.id for r in spark.read.parquet(str(again)).where(where).collect())
            plan = ss.scan(again).plan(where, timezone=zone, columns=["id", "t", "n"])
            assert sorted(plan.to_arrow()["id"].to_pylist()) == wanted, where
        types = plan.to_arrow().schema.types[1:]
        assert [t.tz for t in types] == ["UTC", None]
        if not int96:
            with pytest.raises(ss.UnsupportedForm, match="in Spark's schema"):
                plan.to_dataset()
