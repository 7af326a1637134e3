"""Column statistics in handmade manifests: bounds of all types and widths, impossible counts."""

import datetime as dt
import struct
import uuid

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

import skipstone as ss
from skipstone.ir.outcome import Verdict
from tests.support.tables.iceberg_tables import commit, data_file, make

NEVER, MAYBE, ALWAYS = Verdict.NEVER, Verdict.MAYBE, Verdict.ALWAYS
INF, NAN = float("inf"), float("nan")
GREATEST = uuid.UUID(int=2**128 - 1)


def int4(v):
    return struct.pack("<i", v)


def int8(v):
    return struct.pack("<q", v)


def float4(v):
    return struct.pack("<f", v)


def float8(v):
    return struct.pack("<d", v)


def micros(*parts):
    return int8(int(dt.datetime(*parts, tzinfo=dt.UTC).timestamp()) * 10**6)


# One column c of 10 rows: its type; lower and upper bound; counts of values, NULLs and NaNs; a
# condition; the verdict.
CASES = [
    (LongType(), int8(5), int8(9), 10, 0, None, "c > 9", NEVER),
    (LongType(), int8(5), int8(9), 10, 0, None, "c >= 5", ALWAYS),
    (LongType(), int8(5), int8(9), 10, 1, None, "c >= 5", MAYBE),
    (LongType(), int8(5), int8(9), 10, None, None, "c >= 5", MAYBE),  # a missing count is not 0
    (LongType(), int8(5), int8(9), None, 0, None, "c >= 5", ALWAYS),
    (LongType(), int8(5), int8(9), 10, 10, None, "c >= 5", MAYBE),  # all NULL contradicts bounds
    (LongType(), None, None, 10, 10, None, "c >= 5", NEVER),
    (LongType(), None, None, 10, 10, None, "c IS NOT NULL", NEVER),
    (LongType(), None, None, 10, 10, None, "c IS NULL", ALWAYS),
    (LongType(), None, None, None, 10, None, "c IS NOT NULL", NEVER),  # every row is NULL
    (LongType(), None, None, 10, 0, None, "c IS NULL", NEVER),
    (LongType(), None, None, 10, None, None, "c IS NULL", MAYBE),
    (LongType(), None, None, None, None, None, "c = 1", MAYBE),
    (LongType(), int8(5), None, 10, 0, None, "c < 5", NEVER),
    (LongType(), int8(5), None, 10, 0, None, "c > 100", MAYBE),
    (LongType(), None, int8(9), 10, 0, None, "c > 9", NEVER),
    # Impossible statistics are unknown.
    (LongType(), int8(9), int8(5), 10, 0, None, "c = 100", MAYBE),
    (LongType(), int8(5), int8(9), 10, -1, None, "c >= 5", MAYBE),
    (LongType(), None, None, 10, 11, None, "c IS NULL", MAYBE),
    (LongType(), None, None, 5, 5, None, "c IS NOT NULL", MAYBE),  # the file has 10 rows
    (LongType(), None, None, 5, 0, None, "c IS NULL", MAYBE),
    (LongType(), None, None, -1, -1, None, "c IS NOT NULL", MAYBE),
    (LongType(), b"123", int8(9), 10, 0, None, "c < -5", MAYBE),
    (LongType(), b"", int8(9), 10, 0, None, "c < -5", MAYBE),
    (LongType(), int8(5) + b"x", int8(9), 10, 0, None, "c < -5", MAYBE),
    # Bounds of a narrower type, before the column was promoted.
    (LongType(), int4(-5), int4(9), 10, 0, None, "c < -5", NEVER),
    (LongType(), int4(-5), int4(9), 10, 0, None, "c > 9", NEVER),
    (LongType(), int4(-5), int8(2**40), 10, 0, None, "c = 1000000", MAYBE),
    (IntegerType(), int8(5), int8(9), 10, 0, None, "c = 0", MAYBE),  # a width of no earlier type
    (DoubleType(), float4(0.5), float4(2.5), 10, 0, 0, "c > 2.5", NEVER),
    (DoubleType(), float4(0.5), float8(2.5), 10, 0, 0, "c < 0.5", NEVER),
    (TimestampType(), int4(19358), int4(19359), 10, 0, None, "c >= '2023-01-02 00:00:01'", NEVER),
    (TimestampType(), int4(19358), int4(19359), 10, 0, None, "c >= '2023-01-02'", MAYBE),
    # NaN is above all numbers, and not in bounds.
    (FloatType(), float4(0.5), float4(2.5), 10, 0, None, "c > 3", MAYBE),
    (FloatType(), float4(0.5), float4(2.5), 10, 0, 0, "c > 3", NEVER),
    (FloatType(), float4(0.5), float4(2.5), 10, 0, 1, "c > 3", MAYBE),
    (FloatType(), float4(0.5), float4(2.5), 10, 0, None, "c < 0.5", NEVER),
    (FloatType(), float4(0.5), float4(2.5), 10, 0, None, "c <= 2.5", MAYBE),
    (FloatType(), float4(0.5), float4(2.5), 10, 0, 0, "c <= 2.5", ALWAYS),
    (DoubleType(), None, None, 10, 0, 10, "isnan(c)", ALWAYS),
    (DoubleType(), None, None, 10, 0, 10, "c < 5", NEVER),
    (DoubleType(), None, None, 10, 4, 6, "c < 5", NEVER),
    (DoubleType(), None, None, 10, 0, 0, "isnan(c)", NEVER),
    (DoubleType(), None, None, 10, 0, None, "isnan(c)", MAYBE),
    (DoubleType(), float8(NAN), float8(2.5), 10, 0, 0, "c > 3", MAYBE),
    (DoubleType(), float8(1), float8(NAN), 10, 0, 0, "c < 0", MAYBE),
    (DoubleType(), float8(-0.0), float8(-0.0), 10, 0, 0, "c = 0", ALWAYS),
    (DoubleType(), float8(0.0), float8(-0.0), 10, 0, 0, "c = 0", ALWAYS),
    (DoubleType(), float8(0.0), float8(1.0), 10, 0, 0, "c < 0", NEVER),
    (DoubleType(), float8(-INF), float8(INF), 10, 0, 0, "c = 7", MAYBE),
    # Decimals of any number of bytes.
    (DecimalType(9, 2), b"\x01\xf4", b"\x03\xe8", 10, 0, None, "c > 10.00", NEVER),
    (DecimalType(9, 2), b"\xff", b"\x03\xe8", 10, 0, None, "c < -0.01", NEVER),
    (DecimalType(9, 2), b"\xff" * 16, b"\x03\xe8", 10, 0, None, "c < -0.01", NEVER),
    (DecimalType(9, 2), b"\xff" * 17, b"\x03\xe8", 10, 0, None, "c < -100", MAYBE),
    (DecimalType(9, 2), b"", b"\x03\xe8", 10, 0, None, "c < -100", MAYBE),
    (DecimalType(5, 2), b"\x7f" * 5, None, 10, 0, None, "c = 1", MAYBE),  # too many digits
    (DecimalType(38, 0), b"\x01" * 15, b"\x01" * 16, 10, 0, None, "c < 5", NEVER),
    # Texts, whose bounds may be truncated.
    (StringType(), b"abc", b"abd", 10, 0, None, "c > 'abe'", NEVER),
    (StringType(), b"abc", b"abd", 10, 0, None, "c LIKE 'ab%'", ALWAYS),
    (StringType(), b"abc", b"abd", 10, 0, None, "c LIKE 'abe%'", NEVER),
    (StringType(), b"", b"", 10, 0, None, "c = ''", ALWAYS),
    (StringType(), b"", b"", 10, 0, None, "c > ''", NEVER),
    (StringType(), b"\xff\xfe", b"\xff\xff", 10, 0, None, "c = 'a'", MAYBE),
    (StringType(), b"a", b"z\xc3", 10, 0, None, "c > 'zz'", MAYBE),
    (StringType(), "é".encode(), "é".encode(), 10, 0, None, "c = 'é'", ALWAYS),
    (BinaryType(), b"\x00", b"\xfe", 10, 0, None, "c = X'ff'", NEVER),
    (BinaryType(), b"\x00", b"\xff", 10, 0, None, "c = X'ff'", MAYBE),
    (BooleanType(), b"\x00", b"\x00", 10, 0, None, "c", NEVER),
    (BooleanType(), b"\x00", b"\x01", 10, 0, None, "c", MAYBE),
    (BooleanType(), b"\x01", b"\x01", 10, 0, None, "c", ALWAYS),
    (DateType(), int4(19358), int4(19358), 10, 0, None, "c = DATE '2023-01-01'", ALWAYS),
    (DateType(), int4(-1), int4(0), 10, 0, None, "c < DATE '1969-12-31'", NEVER),
    *(
        (kind, micros(2023, 1, 1), micros(2023, 1, 2), 10, 0, None, "c > '2023-01-02'", NEVER)
        for kind in (TimestampType(), TimestamptzType())
    ),
    # More in test_iceberg_uuid.py.
    (UUIDType(), b"\x01" * 16, b"\x02" * 16, 10, 0, None, f"c = '{GREATEST}'", MAYBE),
    (UUIDType(), None, None, 10, 10, None, "c IS NOT NULL", NEVER),
    (FixedType(2), b"\x01\x01", b"\x02\x02", 10, 0, None, "c = X'ffff'", NEVER),
]  # fmt: skip


def maps(lower, upper, values, nulls, nans, column=1):
    given = {
        "lower_bounds": lower,
        "upper_bounds": upper,
        "value_counts": values,
        "null_value_counts": nulls,
        "nan_value_counts": nans,
    }
    return {name: {column: v} for name, v in given.items() if v is not None}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    """The verdict of each case: one file per case, one table per type."""
    folder, out = tmp_path_factory.mktemp("cases"), {}
    for kind in {str(case[0]): case[0] for case in CASES}.values():
        mine = [(k, case) for k, case in enumerate(CASES) if str(case[0]) == str(kind)]
        source = commit(
            make(folder, Schema(NestedField(1, "c", kind))),
            [data_file(f"/{k}", rows=10, **maps(*case[1:6])) for k, case in mine],
        )
        table = ss.scan_iceberg(source)
        for at, (k, case) in enumerate(mine):
            out[k] = int(table.plan(case[6]).verdicts[at])
    return out


@pytest.mark.parametrize("k", range(len(CASES)), ids=[f"{c[0]} {c[1:6]} {c[6]}" for c in CASES])
def test_verdicts(verdicts, k):
    assert verdicts[k] == CASES[k][7]


def test_required_columns(tmp_path):
    source = make(tmp_path, Schema(NestedField(1, "c", LongType(), required=True)))
    table = ss.scan_iceberg(
        commit(
            source,
            [data_file("/a", **maps(int8(1), int8(2), None, None, None)), data_file("/b", rows=-1)],
        )
    )
    assert table.plan("c >= 1").verdicts.tolist() == [ALWAYS, MAYBE] and table.plan(
        "c IS NULL"
    ).verdicts.tolist() == [NEVER, NEVER]
    assert table.files.logical_rows().tolist() == [10, -1] and table.plan().sizes.scan.rows is None


def test_empty_files(tmp_path):
    source = make(tmp_path, Schema(NestedField(1, "c", LongType())))
    table = ss.scan_iceberg(commit(source, [data_file("/a", rows=0), data_file("/b", rows=1)]))
    assert table.plan("c IS NULL OR c IS NOT NULL").files == ("/b",)


def test_partition_values_are_statistics(tmp_path):
    """The files have no statistics of the column themselves."""
    source = make(
        tmp_path,
        Schema(NestedField(1, "c", LongType()), NestedField(2, "d", DoubleType())),
        PartitionSpec(
            PartitionField(1, 1000, IdentityTransform(), "c"),
            PartitionField(2, 1001, IdentityTransform(), "d"),
        ),
    )
    files = [
        data_file("/a", (5, 1.5)),
        data_file("/b", (None, NAN)),
        data_file("/c", (7, None)),
        data_file("/d", (5, -0.0)),
    ]
    table = ss.scan_iceberg(commit(source, files))
    cases = {
        "c = 5": [2, 0, 0, 2],
        "c IS NULL": [0, 2, 0, 0],
        "c <> 5": [0, 0, 2, 0],
        "d > 100": [0, 2, 0, 0],
        "isnan(d)": [0, 2, 0, 0],
        "d = 0": [0, 0, 0, 2],
        "d IS NULL OR c > 6": [0, 0, 2, 0],
        "d < 2 AND c = 5": [2, 0, 0, 2],
        "NOT (c = 5)": [0, 0, 2, 0],
    }
    for where, expected in cases.items():
        plan = table.plan(where)
        assert dict(zip(plan.table.paths.to_pylist(), plan.verdicts.tolist(), strict=True)) == dict(
            zip(("/a", "/b", "/c", "/d"), expected, strict=True)
        ), where
        assert plan.skipping == "partition"
    assert table.partition_columns == ("c", "d")


def test_many_partitions_and_few_columns_decoded(tmp_path):
    """Only the statistics of the columns in the condition are decoded."""
    names = [f"c{i}" for i in range(50)]
    source = make(
        tmp_path, Schema(*(NestedField(i + 1, n, LongType()) for i, n in enumerate(names)))
    )
    source = commit(
        source,
        [
            data_file(
                f"/{k}",
                lower_bounds={i: int8(k) for i in range(1, 51)},
                upper_bounds={i: int8(k) for i in range(1, 51)},
            )
            for k in range(20)
        ],
    )
    table = ss.scan_iceberg(source)
    assert table.plan("c7 = 3 AND c9 = 3").files == ("/3",)
    assert set(table.files.statistics._raw._decoded) == {("c7",), ("c9",)}


def test_bounds_of_another_files_columns(tmp_path):
    """Statistics with ids outside of the schema are ignored."""
    source = make(tmp_path, Schema(NestedField(1, "c", LongType())))
    file = data_file(
        "/a",
        lower_bounds={1: int8(3), 77: b"x", -1: b""},
        upper_bounds={2147483647: b"y"},
        value_counts={},
        null_value_counts={1: 0, 1000: 5},
    )
    assert ss.scan_iceberg(commit(source, [file])).plan("c < 3").files == ()


def test_types(tmp_path):
    from pyiceberg.types import ListType, MapType, StructType, TimeType

    schema = Schema(
        NestedField(1, "t", TimeType()),
        NestedField(2, "u", UUIDType()),
        NestedField(3, "x", FixedType(3)),
        NestedField(
            4, "l", ListType(5, StructType(NestedField(6, "a", StringType(), required=True)))
        ),
        NestedField(7, "m", MapType(8, StringType(), 9, LongType())),
    )
    found = ss.scan_iceberg(make(tmp_path, schema)).schema
    assert found.types[:3] == [pa.time64("us"), pa.string(), pa.binary()]
    assert found.field("l").type.value_type == pa.struct(
        [pa.field("a", pa.string(), nullable=False)]
    ) and pa.types.is_map(found.field("m").type)
