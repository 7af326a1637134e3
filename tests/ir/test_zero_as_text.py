"""0.0 and -0.0 are equal, but differ as text: neither bounds nor literals tell which one it is."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss

SCHEMA = pa.schema([("g", pa.float64()), ("f", pa.float32()), ("i", pa.int32())])
ZEROS = {"g": [-0.0, 0.0, 1.0], "f": pa.array([-0.0, 0.0, 1.0], pa.float32()), "i": [0, 0, 1]}
# A condition, and the rows of ZEROS that match it, by Spark 4.3 without ANSI mode.
CONDITIONS = [
    ("CAST(g AS STRING) = '-0.0'", [0]),
    ("CAST(f AS STRING) = '0.0'", [1]),
    ("NOT (CAST(g AS STRING) = '-0.0')", [1, 2]),
    ("g IN ('-0.0', 'x')", [0]),
    ("concat('a', g) = 'a-0.0'", [0]),
    ("g IN (-0.0D, 'x')", [0]),
    ("f IN (-0.0D, 'x')", [0]),
    ("f IN (0.0D, 'x')", [1]),
    ("CAST(-0.0D AS STRING) = '-0.0'", [0, 1, 2]),
    ("CAST(g AS STRING) = CAST(-0.0D AS STRING)", [0]),
    ("CAST(coalesce(NULL, -0.0D) AS STRING) = '-0.0'", [0, 1, 2]),
    ("CAST(if(i = 0, -0.0D, g) AS STRING) = '-0.0'", [0, 1]),
    ("CAST(i * -1.0D AS STRING) = '-0.0'", [0, 1]),
    ("g = -0.0D", [0, 1]),
    ("g IN (-0.0D, 5)", [0, 1]),
]


@pytest.mark.parametrize("where, rows", CONDITIONS)
@pytest.mark.parametrize("bounds", [(-0.0, -0.0), (0.0, 0.0), (-0.0, 0.0), (0.0, -0.0)])
def test_no_container_is_lost(where, rows, bounds):
    """The container holds the first two rows; writers say either zero."""
    low, high = bounds
    column = {"min": [low], "max": [high], "null_count": [0]}
    integers = {"min": [0], "max": [0], "null_count": [0]}
    stats = ss.Statistics.from_dict({"g": column, "f": column, "i": integers}, SCHEMA, [2])
    verdict = ss.PruningPredicate(where, SCHEMA, ansi=False).evaluate(stats)[0]
    held = np.isin([0, 1], rows)
    assert verdict != ss.Verdict.NEVER or not held.any()
    assert verdict != ss.Verdict.ALWAYS or held.all()


@pytest.mark.parametrize("where, rows", CONDITIONS)
def test_rows(where, rows, tmp_path):
    pq.write_table(pa.table(ZEROS, SCHEMA).append_column("id", pa.array([0, 1, 2])), tmp_path / "z")
    plan = ss.scan_parquet(str(tmp_path / "z")).plan(where, ansi=False)
    try:
        assert plan.to_arrow()["id"].to_pylist() == rows
    except ss.UnsupportedForm:
        assert len(plan.files) == 1
