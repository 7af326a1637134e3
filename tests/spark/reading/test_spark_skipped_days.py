"""`read` and the ten days of October 1582 that the calendar of `java.sql.Date` skips."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skipstone.spark import read
from tests.support.spark.session import QUIET

pytestmark = pytest.mark.filterwarnings(QUIET)

DAYS = [f"1582-10-{day:02}" for day in (4, 5, 9, 14, 15)]


@pytest.mark.parametrize("how", ["native", "python"])
def test_skipped_days(spark, tmp_path, how):
    """Spark's own reader takes a literal of these days for 1582-10-15, and loses rows."""
    days = np.arange(-141_438, -141_428, dtype=np.int32)  # 1582-10-04 to 1582-10-13
    ticks = pa.array(days.astype(np.int64) * 86_400_000_000)
    table = pa.table({
        "id": range(10), "d": pa.array(days).cast(pa.date32()),
        "ts": ticks.cast(pa.timestamp("us", "UTC")), "n": ticks.cast(pa.timestamp("us")),
        "st": pa.StructArray.from_arrays([pa.array(days).cast(pa.date32())], ["d"]),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet")
    memory = spark.createDataFrame(table).localCheckpoint()
    for day in DAYS:
        for where in (
            f"d = DATE '{day}'", f"d IN (DATE '{day}', DATE '2024-01-01', DATE '2025-01-01')",
            f"ts = TIMESTAMP '{day} 00:00:00'", f"n = TIMESTAMP_NTZ '{day} 00:00:00'",
            f"st.d = DATE '{day}'",
            f"d = to_date('{day[8:]}/10/1582', 'dd/MM/yyyy')", f"d >= DATE '{day}' AND id < 100",
            f"ts < TIMESTAMP '{day} 12:00:00'",
        ):  # fmt: skip
            expected = sorted(r.id for r in memory.where(where).select("id").collect())
            found = read(spark, str(tmp_path), where, how=how).select("id").collect()
            assert sorted(r.id for r in found) == expected, where
