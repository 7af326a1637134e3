"""NULL tests of struct fields: the counts of Iceberg's writers, where a struct itself is NULL."""

import itertools

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, StructType

import skipstone as ss
from skipstone.ir.outcome import Verdict
from tests.support.tables.iceberg_tables import append, commit, data_file, make

NEVER, MAYBE, ALWAYS = Verdict.NEVER, Verdict.MAYBE, Verdict.ALWAYS
INNER = pa.struct([pa.field("z", pa.int32(), nullable=False), ("f", pa.float64())])
ST = pa.struct([("x", pa.int32()), pa.field("y", pa.string(), nullable=False), ("in", INNER)])
FULL = {"x": 1, "y": "a", "in": {"z": 1, "f": 1.5}}
VALUES = [
    None, FULL, FULL | {"x": None}, FULL | {"in": None}, FULL | {"in": {"z": 2, "f": None}},
    FULL | {"x": 5, "in": {"z": 3, "f": float("nan")}},
]  # fmt: skip
TESTS = {
    "st IS NULL": lambda st: st is None,
    "st.x IS NULL": lambda st: st is None or st["x"] is None,
    "st.x IS NOT NULL": lambda st: st is not None and st["x"] is not None,
    "st.y IS NULL": lambda st: st is None,
    "st.`in` IS NULL": lambda st: st is None or st["in"] is None,
    "st.`in`.z IS NULL": lambda st: st is None or st["in"] is None,
    "st.`in`.z IS NOT NULL": lambda st: st is not None and st["in"] is not None,
    "st.`in`.f IS NULL": lambda st: st is None or st["in"] is None or st["in"]["f"] is None,
    "st.x = 5": lambda st: st is not None and st["x"] == 5,
    "NOT (st.x = 5)": lambda st: st is not None and st["x"] not in (5, None),
    "st.x <=> NULL": lambda st: st is None or st["x"] is None,
    "isnan(st.`in`.f)": lambda st: bool(
        st and st["in"] and st["in"]["f"] is not None and st["in"]["f"] != st["in"]["f"]
    ),
}
EXACT = {"st.x IS NULL", "st.y IS NULL", "st.`in`.z IS NULL", "st.`in`.f IS NULL", "st.x <=> NULL",
         "st.x IS NOT NULL", "st.`in`.z IS NOT NULL", "st IS NULL"}  # fmt: skip


def test_files_by_pyiceberg(tmp_path):
    """Each pair of values is a file; a NULL test keeps the files that hold such a row."""
    pairs = list(itertools.combinations_with_replacement(VALUES, 2))
    schema = pa.schema([("id", pa.int32()), ("st", ST)])
    rows = pa.table([range(2 * len(pairs)), list(itertools.chain(*pairs))], schema=schema)
    table = ss.scan_iceberg(append(make(tmp_path, schema), rows, per_file=2))
    assert table.num_files == len(pairs)
    read = table.plan().to_arrow().sort_by("id")["st"].to_pylist()
    order = table.with_stats["id.min"].to_pylist()
    for where, fits in TESTS.items():
        found = table.plan(where)
        for first, verdict in zip(order, found.verdicts.tolist(), strict=True):
            hits = [fits(read[first]), fits(read[first + 1])]
            assert verdict != NEVER or not any(hits), (where, hits)
            assert verdict != ALWAYS or all(hits), (where, hits)
            if where in EXACT:
                assert (verdict == NEVER) == (not any(hits)), (where, read[first : first + 2])
        assert found.to_arrow().num_rows == sum(map(fits, read)), where


# The counts of st.x in a file of 10 rows: its format, values and NULLs; the verdicts of
# st.x IS NULL, st.x IS NOT NULL and st IS NULL.
COUNTS = [
    ("PARQUET", 10, 0, NEVER, ALWAYS, NEVER),
    ("parquet", 10, 4, MAYBE, MAYBE, MAYBE),
    ("PARQUET", 10, 10, ALWAYS, NEVER, MAYBE),
    ("PARQUET", 6, 0, MAYBE, MAYBE, MAYBE),  # rows whose struct is NULL may not be counted
    ("PARQUET", 6, 6, ALWAYS, NEVER, MAYBE),  # whatever was counted, no value is left
    ("PARQUET", None, 0, MAYBE, MAYBE, MAYBE),
    ("PARQUET", 10, None, MAYBE, MAYBE, MAYBE),
    ("PARQUET", 12, 0, MAYBE, MAYBE, MAYBE),  # values of a list
    ("PARQUET", 12, 12, MAYBE, MAYBE, MAYBE),
    ("PARQUET", 10, -1, MAYBE, MAYBE, MAYBE),
    ("ORC", 10, 0, MAYBE, MAYBE, MAYBE),
    ("ORC", 6, 0, MAYBE, MAYBE, MAYBE),
    ("ORC", 0, 0, ALWAYS, NEVER, MAYBE),
    ("AVRO", 10, 0, MAYBE, MAYBE, MAYBE),
]


def test_counts_of_other_writers(tmp_path):
    inner = NestedField(3, "x", IntegerType())
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "st", StructType(inner)))
    files = [
        data_file(
            f"/{k}", rows=10, format=kind,
            **({} if values is None else {"value_counts": {3: values}}),
            **({} if nulls is None else {"null_value_counts": {3: nulls}}),
        )
        for k, (kind, values, nulls, *_) in enumerate(COUNTS)
    ]  # fmt: skip
    table = ss.scan_iceberg(commit(make(tmp_path, schema), files))
    for at, where in enumerate(("st.x IS NULL", "st.x IS NOT NULL", "st IS NULL")):
        assert table.plan(where).verdicts.tolist() == [c[3 + at] for c in COUNTS], where


@pytest.mark.parametrize("required", [True, False])
def test_required_fields_of_optional_structs_may_be_null(tmp_path, required):
    inner = NestedField(3, "y", StringType(), required=True)
    schema = Schema(NestedField(2, "st", StructType(inner), required=required))
    table = ss.scan_iceberg(commit(make(tmp_path, schema), [data_file("/a")]))
    assert table.plan("st.y IS NULL").verdicts.tolist() == [NEVER if required else MAYBE]
