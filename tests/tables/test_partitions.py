"""Hive partition folders: values, types and plans."""

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.tables.partitions import (
    HIVE_NULL,
    INSTANT,
    partition_column,
    partition_fields,
    partition_texts,
)


def tree(root, folders):
    for i, folder in enumerate(folders):
        (root / folder).mkdir(parents=True)
        pq.write_table(pa.table({"x": [i, i + 10]}), root / folder / "p.parquet")
    return ss.scan_parquet(root)


#     folders' values                  Arrow type    values
TYPES = [
    (["1", "02", "-3"], "int32", [1, 2, -3]),
    (["1", str(2**40)], "int64", [1, 2**40]),
    (["1", "2.5", "1d"], "double", [1.0, 2.5, 1.0]),
    (["2.5", "1e3"], "string", ["2.5", "1e3"]),
    (["2013-01-01", "2014-12-31"], "date32[day]", [dt.date(2013, 1, 1), dt.date(2014, 12, 31)]),
    (["2013-01-01", "2013-02-30"], "string", ["2013-01-01", "2013-02-30"]),
    (["1", "x"], "string", ["1", "x"]),
    (["a%2Fb", "a b"], "string", ["a/b", "a b"]),
    (["1", HIVE_NULL], "int32", [1, None]),
    ([HIVE_NULL], "string", [None]),
    (["99999999999999999999", "5"], "decimal128(20, 0)", [99999999999999999999, 5]),
]


@pytest.mark.parametrize("texts, arrow, values", TYPES, ids=[str(t[0]) for t in TYPES])
def test_types_are_inferred(tmp_path, texts, arrow, values):
    table = tree(tmp_path, [f"k={t}" for t in texts])
    assert str(table.schema.field("k").type) == arrow
    found = table.plan(columns=["k"]).to_arrow()["k"].to_pylist()
    assert sorted(set(found), key=str) == sorted(set(values), key=str)


#     text of a folder      days from 1970 that Spark 4.1 finds in it; None where it infers STRING
DATES = [
    ("0000-01-01", -719528), ("-0001-01-01", -719893), ("-44-01-01", None), ("999-01-01", None),
    ("12345-01-01", None), ("+12345-01-01", 3789391), ("+02024-01-01", 19723),
    ("+2024-01-01", None), ("002024-01-01", None), ("2024-1-1", None), (" 2024-01-01", None),
    ("+5881580-07-11", 2**31 - 1), ("+5881581-01-01", None), ("-5877641-06-23", -(2**31)),
    ("-5877641-06-22", None), ("+12345-13-01", None), ("+12345-02-30", None),
    ("+00001234-01-01", None), ("+0002020-01-01", 18262),
    ("2024-01-01Z", None), ("2024-01-01T00:00:00", None),
]  # fmt: skip


@pytest.mark.parametrize("text, days", DATES)
def test_dates_are_inferred_as_by_spark(tmp_path, text, days):
    (field,) = partition_fields([("t", {"d": text})])
    assert field.type == (pa.string() if days is None else pa.date32())
    if days is not None:
        assert partition_column([("t", {"d": text})], field).cast(pa.int32()).to_pylist() == [days]


def test_times_of_far_years_are_inferred_as_by_spark():
    times = ["+12345-01-01 00:00:00", "+12345-01-01 00:00:00.5"]
    (field,) = partition_fields([("t", {"t": text}) for text in times])
    assert field.type == INSTANT
    found = partition_column([("t", {"t": text}) for text in times], field)
    start = 3789391 * 86_400_000_000
    assert found.cast(pa.int64()).to_pylist() == [start, start + 500_000]
    (field,) = partition_fields([("t", {"t": "+294248-01-01 00:00:00"})])
    assert field.type == pa.string()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_of_every_unit(unit):
    field = pa.field("t", pa.timestamp(unit, "UTC"))
    found = partition_column([("t", {"t": "2020-01-01 00:00:00"})], field)
    assert found.to_pylist() == [dt.datetime(2020, 1, 1, tzinfo=dt.UTC)]


def test_given_types_win(tmp_path):
    tree(tmp_path, ["k=1", "k=2"])
    table = ss.scan_parquet(tmp_path, partition_schema={"k": pa.string()})
    assert table.plan(where="k = '2'").to_arrow()["k"].to_pylist() == ["2", "2"]
    with pytest.raises(ss.SourceError, match=r"k='1' is not of .*, date32.*\{'k': pa.str"):
        ss.scan_parquet(tmp_path, partition_schema=pa.schema([("k", pa.date32())])).plan(
            where="k IS NULL"
        )


#     predicate                      kept   skipping     partition files   scan files
PLANS = [
    (None, 4, "none", 4, 4),
    ("TRUE", 4, "none", 4, 4),
    ("y = 2", 2, "partition", 2, 2),
    ("y = 2 AND z IS NULL", 1, "partition", 1, 1),
    ("y = 2 AND x >= 13", 1, "data", 2, 1),
    ("x >= 13", 1, "data", 4, 1),
    ("y IS NULL", 0, "partition", 0, 0),
    ("y <> 1", 2, "partition", 2, 2),
    ("z = 'b' OR x = 0", 3, "data", 4, 3),
    ("NOT (z <=> 'b')", 2, "partition", 2, 2),
]


@pytest.mark.parametrize(
    "where, kept, skipping, partition, scan", PLANS, ids=[str(p[0]) for p in PLANS]
)
def test_sizes_and_branches(tmp_path, where, kept, skipping, partition, scan):
    table = tree(tmp_path, ["y=1/z=a", "y=1/z=b", f"y=2/z={HIVE_NULL}", "y=2/z=b"])
    plan = table.plan(where=where)
    assert (len(plan.files), plan.skipping) == (kept, skipping)
    assert (plan.sizes.total.files, plan.sizes.partition.files, plan.sizes.scan.files) == (
        4,
        partition,
        scan,
    )
    assert plan.sizes.scan.rows == 2 * scan
    assert plan.to_arrow().equals(plan.unpruned().to_arrow())


@pytest.mark.parametrize(
    "where, verdicts",
    [
        ("k > 5", [0, 2]),
        ("k = CAST('NaN' AS DOUBLE)", [0, 2]),
        ("k < 5", [2, 0]),
        ("k <> 1.5", [0, 2]),
    ],
)
def test_nan_in_partition_values(tmp_path, where, verdicts):
    tree(tmp_path, ["k=1.5", "k=NaN"])
    table = ss.scan_parquet(tmp_path, partition_schema={"k": pa.float64()})
    assert table.plan(where=where).verdicts.tolist() == verdicts


def test_folder_overrides_a_column_of_the_file(tmp_path):
    (tmp_path / "k=7").mkdir()
    pq.write_table(pa.table({"k": [1], "x": [2]}), tmp_path / "k=7" / "p.parquet")
    table = ss.scan_parquet(tmp_path)
    assert table.schema.names == ["x", "k"]
    assert table.plan(where="k = 7").to_arrow().to_pydict() == {"x": [2], "k": [7]}
    assert table.plan(where="k = 1").files == ()


def test_partition_columns_must_agree():
    with pytest.raises(
        ss.SourceError,
        match=r"b has no partition columns, and a has the partition columns k; .* scan each",
    ):
        partition_fields([("a", {"k": "1"}), ("b", {})])


@pytest.mark.parametrize(
    "path, base, expected",
    [
        ("/t/a=1/b=%41/f", "/t", {"a": "1", "b": "%41"}),
        ("/t/a=1/f", "/t/a=1", {}),
        ("/t/a=/f", "/t", {"a": ""}),
        ("/t/x/a=1=2/f", "/t/", {"a": "1=2"}),
        (f"/t/a={HIVE_NULL}/f", "/t", {"a": None}),
    ],
)
def test_partition_of(path, base, expected):
    assert partition_texts(path, base) == expected


@pytest.mark.parametrize("scan", [ss.scan_parquet, ss.scan_hive])
def test_without_stats_skipping_only_partition_values_prune(tmp_path, scan):
    tree(tmp_path, ["y=1", "y=2"])
    table = scan(tmp_path)
    where = "x = 0 AND y = 1"
    pruned, unpruned = table.plan(where), table.plan(where, stats_skipping=False)
    assert (
        len(table.plan("x = 99").files),
        len(table.plan("x = 99", stats_skipping=False).files),
    ) == (0, 2)
    assert len(unpruned.files) == 1
    assert unpruned.to_arrow().equals(pruned.to_arrow()) and pruned.count() == 1
    assert table.plan(where, footers=0).files == pruned.files  # only Delta reads the option


def test_a_partition_folder_does_not_know_its_own_column(tmp_path):
    tree(tmp_path, ["k=1", "k=2"])
    message = "names 'k'; .* is a folder of that partition column: scan the folder above it"
    with pytest.raises(ss.UnknownColumn, match=message):
        ss.scan(tmp_path / "k=1").plan("k = 1")
    with pytest.raises(ss.UnknownColumn, match=r"names 'z'; the schema has '\w'\. \(line 1"):
        ss.scan(tmp_path / "k=1").plan("z = 1")


@pytest.mark.parametrize("value", ["1960-01-01 00:00:00", "1883-11-18 12:00:00.5"])
def test_a_partition_value_of_uncertain_offset_says_so(value, tmp_path):
    folder = tmp_path / f"k={value.replace(':', '%3A')}"
    folder.mkdir()
    pq.write_table(pa.table({"x": [1]}), folder / "t.parquet")
    table = ss.scan_parquet(tmp_path, partition_schema={"k": pa.timestamp("us", "UTC")})
    with pytest.raises(ss.SourceError, match=r"offset of the zone America/New_York is not certain"):
        table.plan(timezone="America/New_York").to_arrow()
    assert table.plan(timezone="UTC").to_arrow().num_rows == 1
