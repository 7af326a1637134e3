"""Bloom filters: which values they rule out; a value of a real file is never ruled out."""

import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.statistics.membership import Blooms, encodings
from skipstone.ir import types as ty
from skipstone.ir.types import from_arrow, to_axis
from tests.support.effort import LONG
from tests.support.spark.session import QUIET
from tests.support.statistics.blooms import bloom, blooms_of
from tests.support.statistics.members import column_values, of_longs, verdicts

pytestmark = pytest.mark.filterwarnings(QUIET)
NEVER, MAYBE, ALWAYS = ss.Verdict
FILTERS = [
    of_longs(1, 2),
    of_longs(9),
    None,
    b"",
    b"x" * 33,
    of_longs(),
    of_longs(1).ljust(512, b"\0"),
]

#    where                                [1, 2]  [9]    None   empty  33 B   none
PROBED = [
    ("x = 1",                             (MAYBE, NEVER, MAYBE, MAYBE, MAYBE, NEVER)),
    ("x IN (1, 9)",                       (MAYBE, MAYBE, MAYBE, MAYBE, MAYBE, NEVER)),
    ("x IN (3, 4)",                       (NEVER, NEVER, MAYBE, MAYBE, MAYBE, NEVER)),
    ("x <> 1",                            (MAYBE, ALWAYS, MAYBE, MAYBE, MAYBE, ALWAYS)),
    ("NOT (x IN (1, 3))",                 (MAYBE, ALWAYS, MAYBE, MAYBE, MAYBE, ALWAYS)),
    ("x = 3 OR x = 4",                    (NEVER, NEVER, MAYBE, MAYBE, MAYBE, NEVER)),
    ("x = 3 OR y = 1",                    (MAYBE, MAYBE, MAYBE, MAYBE, MAYBE, MAYBE)),
    ("(x = 3 OR y = 1) AND x = 9",        (NEVER, MAYBE, MAYBE, MAYBE, MAYBE, NEVER)),
    ("NOT (x <> 3 OR y = 1)",             (NEVER, NEVER, MAYBE, MAYBE, MAYBE, NEVER)),
    ("x > 100",                           (MAYBE, MAYBE, MAYBE, MAYBE, MAYBE, MAYBE)),
]  # fmt: skip


@pytest.mark.parametrize("where, expected", PROBED)
def test_containers_are_pruned_by_bloom_filters(where, expected, backend):
    assert verdicts(where, None, FILTERS[:6], backend=backend, null_count=[0] * 6) == list(expected)


def test_present_values_are_never_ruled_out():
    r = random.Random(1)
    values = [r.randrange(-(2**63), 2**63) for _ in range(3000)]
    filters = [
        of_longs(*values[i : i + 10], blocks=r.choice([1, 2, 3, 32])) for i in range(0, 3000, 10)
    ]
    blooms = Blooms(pa.array(filters), ty.INT64)
    for chosen in (values[:1], values[5:500], values, [r.randrange(2**60) for _ in range(50)]):
        absent = blooms.absent(chosen)
        for i in range(300):
            assert not (absent[i] and set(values[10 * i : 10 * i + 10]) & set(chosen))
        few = chosen[:20]
        one_by_one = np.all([blooms.absent([v]) for v in few], axis=0)
        assert blooms.absent(few).tolist() == one_by_one.tolist()
    assert Blooms(pa.array([], pa.binary()), ty.INT64).absent([1]).tolist() == []
    assert Blooms(pa.array([1, 2]), ty.INT64).absent([1]).tolist() == [False, False]


# A filter of an int64 column may come from a file in which the column had 32 bits. Legacy files
# have early days in the Julian calendar.
#    type            value               encodings
ENCODED = [
    (ty.INT8,        -1,                 [b"\xff\xff\xff\xff"]),
    (ty.INT64,       5,                  [b"\5\0\0\0\0\0\0\0", b"\5\0\0\0"]),
    (ty.INT64,       -(2**40),           [(-(2**40)).to_bytes(8, "little", signed=True)]),
    (ty.DATE,        1,                  [b"\1\0\0\0"]),
    (ty.DATE,        -200_000,           None),
    (ty.DOUBLE,      0.0,                [b"\0" * 8, b"\0" * 7 + b"\x80",
                                          b"\0" * 4, b"\0" * 3 + b"\x80", b"\0" * 4]),
    (ty.DOUBLE,      -5.0,               [b"\0\0\0\0\0\0\x14\xc0", b"\0\0\xa0\xc0",
                                          b"\xfb\xff\xff\xff"]),
    (ty.DOUBLE,      2.0**31,            [b"\0\0\0\0\0\0\xe0A", b"\0\0\0O", b"\0\0\0\x80"]),
    (ty.FLOAT,       5.0,                [b"\0\0\xa0@"]),
    (ty.DOUBLE,      0.1,                [b"\x9a\x99\x99\x99\x99\x99\xb9?"]),
    (ty.BOOL,        1,                  None),
    (ty.TIMESTAMP,   1,                  None),
    (ty.decimal_type(9, 2), 150,         None),
    (ty.STRING,      "é".encode(),       [b"\xc3\xa9"]),
]  # fmt: skip


@pytest.mark.parametrize("dtype, value, expected", ENCODED)
def test_values_are_hashed_in_the_encodings_of_parquet(dtype, value, expected):
    assert encodings(value, dtype) == expected


def test_bloom_filters_of_uncertain_types_prune_nothing(backend):
    empty = bytes(32)
    schema = pa.schema(
        [
            ("b", pa.bool_()),
            ("t", pa.timestamp("us")),
            ("m", pa.decimal128(9, 2)),
            ("d", pa.date32()),
            ("x", pa.int64()),
        ]
    )
    stats = ss.Statistics.from_dict({c: {"bloom": [empty]} for c in schema.names}, schema)
    for where in (
        "b",
        "t = TIMESTAMP_NTZ '2024-01-01 00:00:00'",
        "m = 1.50",
        "d = DATE '1500-01-01'",
        "d IN (DATE '1500-01-01', DATE '2000-01-01')",
    ):
        assert ss.PruningPredicate(where, schema).prune(stats, backend).tolist() == [True], where
    for where in ("d = DATE '2000-01-01'", "x = 5", "d = DATE '2000-01-01' AND b"):
        assert ss.PruningPredicate(where, schema).prune(stats, backend).tolist() == [False], where


def test_literals_of_a_wider_schema_are_looked_up_in_the_own_type():
    old = pa.schema([("x", pa.int32()), ("f", pa.float32())])
    stats = ss.Statistics.from_dict(
        {"x": {"bloom": [bloom([b"\5\0\0\0"])]}, "f": {"values": [[0.5]]}}, old
    )
    new = pa.schema([("x", pa.int64()), ("f", pa.float64())])
    assert [
        ss.PruningPredicate(w, new).prune(stats).tolist()[0]
        for w in ("x = 5", "x = 6", "f = 0.5D", "f = 0.1D")
    ] == [True, False, True, False]
    text = pa.schema([("x", pa.string()), ("f", pa.string())])
    assert ss.PruningPredicate("x = 'a' AND f = 'a'", text).prune(stats).tolist() == [True]


# Real files.

N, FPP = 3000, 0.01


REAL = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(),
    pa.uint64(), pa.float32(), pa.float64(), pa.date32(), pa.string(), pa.large_string(),
    pa.binary(), pa.binary(16), pa.dictionary(pa.int32(), pa.string()), pa.decimal128(9, 2),
    pa.decimal128(18, 4), pa.decimal128(38, 10), pa.timestamp("ms"), pa.timestamp("us", "UTC"),
    pa.timestamp("ns"),
]  # fmt: skip


def ruled_out(filters, kind, values, physical=None, length=None):
    """Return for each value whether the filters rule it out; None if they decide nothing."""
    dtype = from_arrow(kind)
    blooms = Blooms(pa.array(filters, pa.binary()), dtype, physical, length)
    out = []
    for v in values:
        absent = blooms.absent(
            [to_axis(v, dtype) + 0.0 if isinstance(v, float) else to_axis(v, dtype)]
        )
        out.append(None if absent is None else bool(absent.any()))
    return out


@pytest.mark.parametrize("version", ["1.0", "2.6"] if LONG else ["2.6"])
@pytest.mark.parametrize("kind", REAL, ids=map(str, REAL))
def test_bloom_filters_that_pyarrow_writes_are_read(kind, version, tmp_path):
    r = random.Random(str(kind))
    values = column_values(kind, N, r)
    path = tmp_path / "t.parquet"
    array = pa.array(values, kind)
    pq.write_table(
        pa.table({"c": array}),
        path,
        bloom_filter_options={"c": {"ndv": N, "fpp": FPP}},
        version=version,
    )
    filters = blooms_of(path, 0)
    assert filters != [None]
    column = pq.read_metadata(path).schema.column(0)
    stored = pq.read_schema(path).field("c").type
    if pa.types.is_timestamp(stored) and stored != kind:
        return  # format 1.0 rounds nanoseconds
    present = [v for v in values if v == v]
    assert not any(ruled_out(filters, kind, present))
    known = ruled_out(filters, kind, present, column.physical_type, column.length)
    assert not any(known) and None not in known
    taken = set(values)
    others = [v for v in column_values(kind, N, r) if v == v and v not in taken]
    if len(others) > 1000:
        absent = ruled_out(filters, kind, others, column.physical_type, column.length)
        assert absent.count(False) / len(absent) < 3 * FPP
        # Without the stored type, a second encoding is probed for some types.
        absent = ruled_out(filters, kind, others)
        assert None in absent or absent.count(False) / len(absent) < 5 * FPP


SPARK_TYPES = {
    "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(),
    "float": pa.float32(), "double": pa.float64(), "date": pa.date32(), "string": pa.string(),
    "binary": pa.binary(), "decimal(9,2)": pa.decimal128(9, 2),
    "decimal(18,4)": pa.decimal128(18, 4), "decimal(38,10)": pa.decimal128(38, 10),
    "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip


def test_bloom_filters_that_spark_writes_are_read(spark, tmp_path):
    r = random.Random(5)
    columns = {
        f"c{i}": (name, kind, column_values(kind, 1000, r))
        for i, (name, kind) in enumerate(SPARK_TYPES.items())
    }
    ddl = ", ".join(f"{c} {name}" for c, (name, _, _) in columns.items())
    writer = (
        spark.createDataFrame(
            [list(row) for row in zip(*(v for _, _, v in columns.values()), strict=True)], ddl
        )
        .coalesce(1)
        .write
    )
    # A column with a dictionary gets no filter.
    writer = writer.option("parquet.enable.dictionary", "false")
    for c in columns:
        writer = writer.option(f"parquet.bloom.filter.enabled#{c}", "true").option(
            f"parquet.bloom.filter.expected.ndv#{c}", "1000"
        )
    writer.parquet(str(tmp_path / "t"))
    path = next((tmp_path / "t").glob("*.parquet"))
    for i, (name, kind, values) in enumerate(columns.values()):
        filters, column = blooms_of(path, i), pq.read_metadata(path).schema.column(i)
        assert None not in filters, name
        present = [v for v in values if v == v]
        assert not any(ruled_out(filters, kind, present)), name
        assert not any(ruled_out(filters, kind, present, column.physical_type, column.length)), name
        taken = set(values)
        others = [v for v in column_values(kind, 1000, r) if v == v and v not in taken]
        if len(others) > 500:
            absent = ruled_out(filters, kind, others, column.physical_type, column.length)
            assert None not in absent and absent.count(False) / len(absent) < 3 * FPP, name


def test_prune_reads_bloom_filters_for_spark_scans(spark, tmp_path):
    r = random.Random(6)
    values = [r.randrange(2**60) for _ in range(500)]
    writer = (
        spark.createDataFrame([[v] for v in values], "k bigint")
        .coalesce(1)
        .write.option("parquet.enable.dictionary", "false")
    )
    writer.option("parquet.bloom.filter.enabled", "true").parquet(str(tmp_path / "t"))
    table = ss.scan_parquet(tmp_path / "t")
    assert all(len(table.plan(ss.col("k") == v).kept) == 1 for v in values[:50])
    middle = [v for v in sorted(values)[100] + np.arange(1, 200) if v not in values]
    assert sum(len(table.plan(ss.col("k") == v).kept) for v in middle) < 20


def test_bloom_filters_are_counted(tmp_path):
    pq.write_table(
        pa.table({"s": ["a", "c"]}), tmp_path / "a.parquet", bloom_filter_options={"s": True}
    )
    table = ss.scan_parquet(tmp_path)
    before = table.work
    assert table.plan("s = 'b'").files == ()
    assert (table.work - before)["bloom filters"] == 1
    assert (table.work - before).bytes > 0
