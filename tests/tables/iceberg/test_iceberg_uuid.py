"""UUID and FIXED columns: text and binary in Spark, whose bounds are bytes."""

import random
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import EqualTo, In
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import FixedType, IntegerType, LongType, NestedField, UUIDType

import skipstone as ss
from skipstone.ir.outcome import Verdict
from tests.support.tables.iceberg_tables import commit, data_file, make, with_ids

NEVER, MAYBE, ALWAYS = Verdict.NEVER, Verdict.MAYBE, Verdict.ALWAYS
SCHEMA = Schema(NestedField(1, "u", UUIDType()), NestedField(2, "f", FixedType(3)))
A, B, C, D = (uuid.UUID(int=k << 124 | 7) for k in (1, 7, 8, 15))


def file(path, low, high, column=1, partition=(), nulls=0, **more):
    ends = [v.bytes if isinstance(v, uuid.UUID) else v for v in (low, high)]
    named = zip(("lower_bounds", "upper_bounds"), ends, strict=True)
    return data_file(
        path, partition, value_counts={column: 10}, null_value_counts={column: nulls},
        **{name: {column: v} for name, v in named if v is not None}, **more,
    )  # fmt: skip


# Bounds of u; a condition; the verdict.
UUIDS = [
    (A, D, f"u = '{B}'", MAYBE),
    (A, D, "u < '1'", NEVER),
    (A, D, "u >= '1'", ALWAYS),
    (A, D, f"u > '{D}'", MAYBE),  # the second half of a UUID may be in another order
    (A, D, "u > 'f0000000-0000-0001'", NEVER),
    (A, D, f"u = '{uuid.UUID(int=3)}'", NEVER),
    (B, D, f"u IN ('{A}', 'x')", NEVER),
    (B, D, "u LIKE '7%'", MAYBE),
    (B, D, "u LIKE '6%'", NEVER),
    (B, D, f"u = '{str(D).upper()}'", MAYBE),  # another text, and no value
    (A, D, "u IS NULL", NEVER),
    (A, D, "length(u) = 36", MAYBE),
    # Both ends in one half: Java may have merged them by signed numbers.
    (A, B, f"u = '{C}'", MAYBE),
    (A, B, "u < '1'", NEVER),
    (C, D, f"u = '{A}'", MAYBE),
    (C, D, "u > 'f0000000-0000-0001'", NEVER),
    (C, B, f"u = '{A}'", MAYBE),
    (C, C, f"u = '{A}'", MAYBE),
    # No UUIDs.
    (b"short", D, f"u = '{A}'", MAYBE),
    (A, str(B).encode(), f"u > '{D}'", MAYBE),
    (None, D, f"u = '{A}'", MAYBE),
    (None, D, "u > 'g'", NEVER),
]


@pytest.mark.parametrize("low, high, where, verdict", UUIDS, ids=[str(c[2]) for c in UUIDS])
def test_bounds_of_uuids(tmp_path, low, high, where, verdict):
    table = ss.scan_iceberg(commit(make(tmp_path, SCHEMA), [file("/a", low, high)]))
    assert table.plan(where).verdicts.tolist() == [verdict]


# Bounds of u in a file; its split offsets; a condition; the verdict.
GROUPS = [
    (A, B, [4], f"u = '{C}'", NEVER),  # one row group, which Parquet bounds by bytes
    (A, B, [4], f"u = '{B}'", MAYBE),
    (A, B, [4], f"u > '{B}'", NEVER),
    (A, B, [4], f"u <= '{B}'", ALWAYS),
    (C, D, [4], f"u = '{A}'", NEVER),
    (C, D, [4], f"u >= '{C}'", ALWAYS),
    (A, D, [4], f"u > '{D}'", NEVER),
    (C, B, [4], f"u = '{A}'", MAYBE),  # a contradiction
    (A, B, [4, 900], f"u = '{C}'", MAYBE),
    (A, B, [], f"u = '{C}'", MAYBE),
    (A, B, None, f"u = '{C}'", MAYBE),
    (A, B, [900], f"u = '{C}'", MAYBE),  # not the first row group
]


@pytest.mark.parametrize("low, high, splits, where, verdict", GROUPS)
def test_bounds_of_one_row_group_are_in_the_order_of_bytes(
    tmp_path, low, high, splits, where, verdict
):
    source = commit(make(tmp_path, SCHEMA), [file("/a", low, high, split_offsets=splits)])
    assert ss.scan_iceberg(source).plan(where).verdicts.tolist() == [verdict]
    source = make(tmp_path / "orc", SCHEMA)
    files = [file("/a", low, high, split_offsets=splits, format="ORC")]
    assert ss.scan_iceberg(commit(source, files)).plan(where).verdicts.tolist() == [
        verdict if len(splits or ()) != 1 or (low, high) == (C, B) else MAYBE
    ]


# Bounds of f; a condition; the verdict.
FIXED = [
    (b"\x10\0\1", b"\x90\0\1", "f = X'0f0001'", NEVER),
    (b"\x10\0\1", b"\x90\0\1", "f = X'800001'", MAYBE),
    (b"\x10\0\1", b"\x90\0\1", "f > X'900001'", NEVER),
    (b"\x10\0\1", b"\x90\0\1", "f > X'10'", ALWAYS),
    (b"\x10\0\1", b"\x90\0\1", "f < X'10'", NEVER),
    (b"\x10", b"\x91", "f = X'90ffff'", MAYBE),  # truncated
    (b"\x10\0\1", b"\x10\0\1", "f = X'100001'", ALWAYS),
    (b"\x90\0\1", b"\x10\0\1", "f = X'000001'", MAYBE),
]


@pytest.mark.parametrize("low, high, where, verdict", FIXED, ids=[c[2] for c in FIXED])
def test_bounds_of_fixed(tmp_path, low, high, where, verdict):
    table = ss.scan_iceberg(commit(make(tmp_path, SCHEMA), [file("/a", low, high, 2)]))
    assert table.plan(where).verdicts.tolist() == [verdict]


def signed(u):
    """The key by which Java compares UUIDs."""
    return [(half ^ 1 << 63) for half in (u.int >> 64, u.int & 2**64 - 1)]


def test_no_row_is_lost_to_signed_bounds(tmp_path):
    """Row groups have right bounds; files merge them by either order."""
    r = random.Random(5)
    draw = lambda: uuid.UUID(
        int=r.choice((0, 1, 6, 7, 8, 9, 15)) << 124 | r.getrandbits(r.choice((2, 66)))
    )
    contents = [
        [[draw() for _ in range(r.randint(1, 3))] for _ in range(r.randint(1, 3))]
        for _ in range(300)
    ]
    files = []
    for k, groups in enumerate(contents):
        key = signed if k % 2 else (lambda u: u.int)
        low, high = min(map(min, groups), key=key), max(map(max, groups), key=key)
        assert len(groups) > 1 or (low, high) == (min(groups[0]), max(groups[0]))
        # Files of one row group have its bounds.
        splits = [4, *range(100, 99 + len(groups))]
        files.append(file(f"/{k}", low, high, split_offsets=splits if k % 3 else None))
    table = ss.scan_iceberg(commit(make(tmp_path, SCHEMA), files))
    texts = [[str(u) for g in groups for u in g] for groups in contents]
    kept = 0
    for value in [draw() for _ in range(40)]:
        tests = {
            f"u = '{value}'": lambda t, v=str(value): t == v,
            f"u < '{value}'": lambda t, v=str(value): t < v,
            f"u >= '{value}'": lambda t, v=str(value): t >= v,
            f"u LIKE '{str(value)[:2]}%'": lambda t, v=str(value)[:2]: t.startswith(v),
        }
        for where, fits in tests.items():
            for verdict, held in zip(table.plan(where).verdicts.tolist(), texts, strict=True):
                assert verdict != NEVER or not any(map(fits, held)), (where, held)
                assert verdict != ALWAYS or all(map(fits, held)), (where, held)
                kept += verdict != NEVER
    assert kept < 0.9 * 300 * 160


def parted(tmp_path, source, transform, values):
    spec = PartitionSpec(PartitionField(source, 1000, transform, "p"))
    table = make(tmp_path, SCHEMA, spec)
    return commit(table, [data_file(f"/{k}", (v,)) for k, v in enumerate(values)])


def test_identity_partitions(tmp_path):
    values = [A, B, C, D, None]
    table = ss.scan_iceberg(parted(tmp_path / "u", 1, IdentityTransform(), values))
    cases = {
        f"u = '{B}'": [1], f"u = '{str(D).upper()}'": [], f"u > '{B}'": [2, 3], "u < '8'": [0, 1],
        "u IS NULL": [4], f"u IN ('{A}', '{D}')": [0, 3], "u LIKE 'f%'": [3], "u <=> NULL": [4],
    }  # fmt: skip
    for where, kept in cases.items():
        assert table.plan(where).files == tuple(f"/{k}" for k in kept), where
    assert table.plan(EqualTo("u", D)).files == ("/3",)
    assert table.plan(In("u", {A, C})).files == ("/0", "/2")
    fixed = [b"\0\1\2", b"\x7f\1\2", b"\x80\1\2", None]
    table = ss.scan_iceberg(parted(tmp_path / "f", 2, IdentityTransform(), fixed))
    cases = {"f = X'7f0102'": [1], "f > X'7f0102'": [2], "f IS NULL": [3], "f < X'80'": [0, 1],
             "f = X'7f01'": []}  # fmt: skip
    for where, kept in cases.items():
        assert table.plan(where).files == tuple(f"/{k}" for k in kept), where


def test_buckets_of_uuids(tmp_path):
    """They hash the bytes, not the text."""
    width = 64
    bucket = BucketTransform(width).transform(UUIDType())
    values = [uuid.UUID(int=k << 100 | k) for k in range(1, 40)]
    source = parted(tmp_path, 1, BucketTransform(width), range(width))
    table = ss.scan_iceberg(source)
    for value in values:
        own = f"/{bucket(value.bytes)}"
        assert table.plan(f"u = '{value}'").files == (own,)
        assert table.plan(EqualTo("u", value)).files == (own,)
        assert own in table.plan(f"u <> '{values[0]}'").files
        assert own in table.plan(f"u >= '{value}'").files
        assert len(table.plan(f"u <=> '{value}'").files) == 1
    chosen = table.plan(f"u IN ('{A}', '{D}', NULL)").files
    assert set(chosen) == {f"/{bucket(v.bytes)}" for v in (A, D)}
    # Texts that no UUID has allow no conclusion here.
    for text in (str(D).upper(), D.hex, "x", ""):
        assert len(table.plan(f"u = '{text}'").files) == width
        assert f"/{bucket(A.bytes)}" in table.plan(f"u IN ('{A}', '{text}')").files
    assert len(table.plan(f"NOT (u = '{A}')").files) == width
    assert len(table.plan(f"length(u) = 36 OR u = '{A}'").files) == width


def test_buckets_of_fixed(tmp_path):
    fixed = BucketTransform(4).transform(FixedType(3))
    texts = [b"\0\1\2", b"\x7f\1\2", b"\x80\1\2"]
    table = ss.scan_iceberg(parted(tmp_path, 2, BucketTransform(4), list(map(fixed, texts))))
    for k, text in enumerate(texts):
        assert f"/{k}" in table.plan(f"f = X'{text.hex()}'").files


def test_rows_by_pyiceberg(tmp_path):
    schema = Schema(*SCHEMA.fields, NestedField(3, "i", IntegerType()))
    source = make(tmp_path, schema)
    for k, value in enumerate((A, D)):
        columns = [[value.bytes, None], [b"\0\1" + bytes([k]), None], [k, None]]
        arrow = pa.schema([("u", pa.uuid()), ("f", pa.binary(3)), ("i", pa.int32())])
        source.append(pa.table(columns, schema=arrow))
    table = ss.scan_iceberg(source)
    plan = table.plan(f"u = '{D}' AND f = X'000101'")
    assert len(plan.files) == 1 and plan.to_arrow()["i"].to_pylist() == [1]
    assert table.plan("u IS NULL AND f IS NULL").to_arrow().num_rows == 2
    assert table.plan("u > 'f'").to_arrow()["u"].to_pylist() == [str(D)]


@pytest.mark.parametrize("reader", ["auto", "arrow", "polars"])
@pytest.mark.parametrize("kind", [pa.binary(16), pa.uuid()], ids=str)
def test_bytes_that_are_also_a_text_are_read_as_a_uuid(kind, reader, tmp_path):
    """All bytes of the nil UUID are characters, so a cast to text would not fail."""
    nil, late = uuid.UUID(int=0), uuid.UUID("6162636465666768696a6b6c6d6e6f70")
    stored = pa.array([nil.bytes, None, late.bytes], pa.binary(16))
    columns = [stored if kind == stored.type else stored.cast(kind), pa.array([0, 1, 2])]
    schema = with_ids([("u", kind, 1), ("x", pa.int64(), 2)])
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table(columns, schema=schema), path, row_group_size=2)
    own = Schema(NestedField(1, "u", UUIDType()), NestedField(2, "x", LongType()))
    table = ss.scan_iceberg(commit(make(tmp_path / "t", own), [data_file(str(path), rows=3)]))
    rows = {
        None: [str(nil), None, str(late)], "x > 0": [None, str(late)], f"u = '{nil}'": [str(nil)],
        "u LIKE '61%'": [str(late)], "length(u) = 16": [],
    }  # fmt: skip
    for where, expected in rows.items():
        assert table.plan(where).to_arrow(reader=reader)["u"].to_pylist() == expected, where
