"""Text with a point beside integers: without ANSI mode Spark drops what follows the point."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.ir.errors import UnsupportedForm

SCHEMA = pa.schema([("i", pa.int32()), ("i8", pa.int8()), ("l", pa.int64())])


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Return a table of four files: 0 to 4, 5 to 9, 10 to 14, and NULL."""
    folder = tmp_path_factory.mktemp("integers")
    for at, values in enumerate([range(5), range(5, 10), range(10, 15), [None]]):
        rows = pa.table({name: list(values) for name in SCHEMA.names}, SCHEMA)
        pq.write_table(rows, folder / f"{at}.parquet")
    return ss.scan_parquet(str(folder))


# Spark 4.3 gives these rows; tests/data/spark_cases.sql asks it.
#    condition                    files  rows
CASES = [
    ("i = '5.5'",                 1,     [5]),
    ("l = '5.'",                  1,     [5]),
    ("i = '.'",                   1,     [0]),
    ("i < '-0.5'",                0,     []),
    ("i <> '5.0'",                3,     [0, 1, 2, 3, 4, *range(6, 15)]),
    ("i <=> '5.x'",               1,     [None]),
    ("i BETWEEN '1.5' AND '6'",   2,     [1, 2, 3, 4, 5, 6]),
    ("i8 < '300'",                0,     []),            # no TINYINT: NULL
    ("i8 < '127.9'",              3,     list(range(15))),
    ("i IN ('5.5', '6')",         1,     [6]),           # Spark compares as text
]  # fmt: skip


@pytest.mark.parametrize(("condition", "files", "rows"), CASES)
def test_plans_and_rows_without_ansi_mode(table, condition, files, rows):
    plan = table.plan(condition, ansi=False)
    assert plan.to_arrow()["l"].to_pylist() == rows
    assert files <= len(plan.files) <= (4 if " IN " in condition else files)


def test_in_ansi_mode_spark_raises(table):
    with pytest.warns(match=r"'5\.5' is not a plain BIGINT"):
        plan = table.plan("i = '5.5'")
    assert len(plan.files) == 4
    with pytest.raises(UnsupportedForm, match="not a plain BIGINT"):
        plan.to_arrow()
