"""Iceberg tables of version 3 with timestamps in nanoseconds, whose bounds pyiceberg cuts."""

import json
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, TimestampType, TimestamptzType

import skipstone as ss
from skipstone.ir.outcome import Verdict
from tests.support.tables.iceberg_tables import commit, data_file, make, with_ids

NEVER, MAYBE, ALWAYS = Verdict.NEVER, Verdict.MAYBE, Verdict.ALWAYS
KINDS = {"timestamp": TimestampType(), "timestamptz": TimestamptzType()}
# Upper bound in nanoseconds, with a lower one of -2000; a condition; the verdict.
CASES = [
    (0, "c > '1970-01-01'", MAYBE),  # up to 999 nanoseconds later
    (0, "c >= '1970-01-01 00:00:00.000001'", NEVER),
    (0, "c <= '1970-01-01'", MAYBE),
    (0, "c < '1970-01-01 00:00:00.000001'", ALWAYS),
    (0, "c < '1969-12-31 23:59:59.999998'", NEVER),
    (-1, "c >= '1970-01-01'", NEVER),
    (-1, "c < '1970-01-01'", ALWAYS),
    (-1000, "c > '1969-12-31 23:59:59.999999'", MAYBE),
    (-1000, "c >= '1970-01-01'", NEVER),
    (2**63 - 1 - (2**63 - 1) % 1000, "c > '2262-04-11 23:47:16.854775'", MAYBE),
]


def nanoseconds(source, folder):
    """Make a metadata file of a table with times that says nanoseconds, which pyiceberg cannot."""
    found = json.loads(Path(source.metadata_location.removeprefix("file://")).read_text())
    for schema in found["schemas"]:
        for field in schema["fields"]:
            field["type"] += "_ns"
    found |= {"format-version": 3, "next-row-id": 0}
    path = folder / "ns.metadata.json"
    path.write_text(json.dumps(found))
    return ss.scan_iceberg(str(path))


@pytest.mark.parametrize("kind", KINDS)
def test_verdicts(tmp_path, kind):
    files = [
        data_file(
            f"/{k}", value_counts={1: 10}, null_value_counts={1: 0},
            lower_bounds={1: struct.pack("<q", -2000)}, upper_bounds={1: struct.pack("<q", high)},
        )
        for k, (high, _, _) in enumerate(CASES)
    ]  # fmt: skip
    source = commit(make(tmp_path, Schema(NestedField(1, "c", KINDS[kind]))), files)
    table = nanoseconds(source, tmp_path)
    found = [int(table.plan(where).verdicts[k]) for k, (_, where, _) in enumerate(CASES)]
    assert found == [verdict for _, _, verdict in CASES]


def test_rows_and_greatest_values(tmp_path):
    """Bounds that may have been cut are not answers to MIN and MAX."""
    schema = with_ids([("c", pa.timestamp("ns"), 1)])
    ticks = pa.array([-1500, 1, 999], pa.int64()).cast(pa.timestamp("ns"))
    pq.write_table(pa.table([ticks], schema=schema), tmp_path / "a.parquet")
    file = data_file(
        f"{tmp_path}/a.parquet", rows=3, value_counts={1: 3}, null_value_counts={1: 0},
        lower_bounds={1: struct.pack("<q", -2000)}, upper_bounds={1: struct.pack("<q", 0)},
    )  # fmt: skip
    source = commit(make(tmp_path, Schema(NestedField(1, "c", TimestampType()))), [file])
    table = nanoseconds(source, tmp_path)
    plan = table.plan("c > '1970-01-01'")
    assert plan.to_arrow().column("c").cast(pa.int64()).to_pylist() == [1, 999]
    assert table.plan("c < '1969-12-31 23:59:59.999998'").count() == 0
    ends = table.plan().min("c"), table.plan().max("c")
    assert [pa.scalar(end, pa.timestamp("ns")).value for end in ends] == [-1500, 999]
