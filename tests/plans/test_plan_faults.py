"""Test the answers of plans and splits that planted faults changed (`python -m tests.mutation`)."""

import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from tests.support.joins.dynamic_cases import collected, schema

KEY = schema(k=pa.int64())


def keys(*values):
    return collected(KEY, {"k": list(values)})


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Four files of ten rows: k = 10 i .. 10 i + 9."""
    path = tmp_path_factory.mktemp("plans")
    for i in range(4):
        rows = {"k": range(10 * i, 10 * i + 10), "v": [i] * 10}
        pq.write_table(pa.table(rows), path / f"{i}.parquet")
    return ss.scan_parquet(str(path))


@pytest.fixture(scope="module")
def buckets(tmp_path_factory):
    """An Iceberg table that is listed in part: four manifests of one file, k = 10 i .. 10 i + 9."""
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import TruncateTransform
    from pyiceberg.types import LongType, NestedField

    from tests.support.tables import iceberg_tables

    fields = [NestedField(i + 1, n, LongType(), required=False) for i, n in enumerate("kv")]
    spec = PartitionSpec(PartitionField(1, 1000, TruncateTransform(10), "p"))
    path = str(tmp_path_factory.mktemp("buckets"))
    source = iceberg_tables.make(path, Schema(*fields), spec)
    for i in range(4):
        rows = {"k": range(10 * i, 10 * i + 10), "v": [i] * 10}
        source = iceberg_tables.append(source, pa.table(rows))
    return ss.scan_iceberg(source)


@pytest.mark.parametrize("where", [None, "k < 25"])
def test_a_limit_of_no_rows_reads_nothing(table, where):
    plan = table.plan(where, limit=0)
    assert plan.files == () and plan.to_arrow().num_rows == 0 and plan.count() == 0
    assert (plan.cut.logical_rows, plan.cut.reached) == (0, True)


@pytest.mark.parametrize("limit, files, rows", [(1, 1, 10), (10, 1, 10), (11, 2, 20), (41, 4, 40)])
def test_a_limit_takes_as_many_files_as_it_needs(table, limit, files, rows):
    plan = table.plan(limit=limit)
    assert (len(plan.files), plan.cut.logical_rows, plan.cut.reached) == (files, rows, limit <= 40)


@pytest.mark.parametrize("limit", [-1, 1.5, True, "5"])
def test_malformed_limits(table, limit):
    with pytest.raises(ss.PredicateError, match="limit is"):
        table.plan(limit=limit)


def test_a_predicate_over_another_schema(table):
    other = ss.PruningPredicate("k = 1", pa.schema([("k", pa.int32())]))
    with pytest.raises(ss.PredicateError, match="made for another schema"):
        table.plan(other)
    same = ss.PruningPredicate("k = 1", pa.schema(list(table.schema)))
    assert table.plan(same).count() == 1


def test_verdicts_are_bytes(table):
    for plan in (table.plan("k = 1"), table.plan()):
        assert plan.verdicts.dtype == plan.unpruned().verdicts.dtype == np.uint8


def test_kinds_of_skipping(tmp_path):
    (tmp_path / "bare").mkdir()
    pq.write_table(pa.table({}), tmp_path / "bare/a.parquet")
    assert ss.scan_parquet(tmp_path / "bare").plan("1 = 0").skipping == "none"
    for i in (1, 2):
        (tmp_path / f"hive/k={i}").mkdir(parents=True)
        pq.write_table(pa.table({"v": [i]}), tmp_path / f"hive/k={i}/a.parquet")
    table = ss.scan_parquet(tmp_path / "hive", partition_schema=KEY)
    assert table.plan(dynamic=[keys(2)]).skipping == "partition"
    of_data = collected(schema(v=pa.int64()), {"v": [2]})
    assert table.plan(dynamic=[of_data]).skipping == "data"


def test_planning_again_by_the_same_filters_lists_nothing_again(buckets):
    plan = buckets.plan(dynamic=[keys(11, 12)])
    assert len(plan.files) == 1 and plan.replanned().table is plan.table


def test_removing_a_filter_removes_its_verdicts(buckets):
    """The condition, columns and limit of the plan stay."""
    plan = buckets.plan("k % 2 = 0", columns=["v"], dynamic=[keys(12)])
    assert plan.to_arrow().to_pydict() == {"v": [1]}
    whole = plan.with_dynamic([])
    assert whole.columns == ["v"] and whole.to_arrow().num_rows == 20
    assert buckets.plan(limit=7, dynamic=[keys(12)]).with_dynamic([]).count() == 7


def test_forced_filtering_stays_on(buckets, monkeypatch):
    monkeypatch.setenv("SKIPSTONE_DYNAMIC_FILTERING", "0")
    plan = buckets.plan(dynamic=[keys(12)], dynamic_filtering=True)
    assert plan.with_dynamic([ss.DynamicFilter(keys(11, 31))]).to_arrow().num_rows == 2


def test_partition_sizes_of_a_partly_listed_table(buckets):
    sizes = buckets.plan("k = 12").sizes
    assert [s.files for s in (sizes.total, sizes.partition, sizes.scan)] == [4, 1, 1]
    sizes = buckets.plan("k = 12 OR v = 3").sizes
    assert [s.files for s in (sizes.total, sizes.partition, sizes.scan)] == [4, 4, 2]


# Splits.


def test_a_request_that_names_no_reader_is_served(table):
    splits = table.plan().splits([1])
    assert splits.next_split(reader=2) is None
    assert splits.next_split() is not None and splits.next_split(reader=1) is not None


def test_a_builder_that_is_not_named_is_the_first(table):
    """An event without a builder and a report without one come from the same builder."""
    f = ss.DynamicFilter(columns={"k": "k"})
    splits = table.plan(dynamic=[f]).splits()
    splits.on_filter(keys(12))
    assert f.report(keys(12)) is False
    with pytest.raises(ss.DynamicFilterError):
        f.report(keys(31))
    assert [s.to_arrow().column("k").to_pylist() for s in splits] == [[12]]


@pytest.mark.parametrize("least", [1, 4, 5, 7, 8, 9, 40])
def test_files_are_divided_into_the_desired_splits(tmp_path, least):
    """Four files of five row groups: each is divided equally, and no finer than its row groups."""
    for i in range(4):
        rows = pa.table({"k": range(10)})
        pq.write_table(rows, tmp_path / f"{i}.parquet", row_group_size=2)
    splits = list(ss.scan_parquet(str(tmp_path)).plan().splits(min_desired_splits=least))
    each = min(-(-least // 4), 5)
    assert len(splits) == 4 * each and sum(s.rows for s in splits) == 40
    assert [g for s in splits[:each] for g in s.row_groups] == [0, 1, 2, 3, 4]


def test_a_filter_that_is_not_awaitable_delays_no_split(table):
    f = ss.DynamicFilter(columns={"k": "k"}, awaitable=False)
    start = time.monotonic()
    assert table.plan(dynamic=[f]).splits(wait=20).next_split() is not None
    assert time.monotonic() - start < 15


def test_a_plan_made_again_still_uses_statistics(buckets):
    assert len(buckets.plan("v = 2", dynamic=[keys(12, 22)]).with_dynamic([]).files) == 1


def test_files_of_one_row_group_beside_others_stay_whole(tmp_path):
    for i, size in enumerate((10, 2, 10, 5)):
        rows = pa.table({"k": range(10)})
        pq.write_table(rows, tmp_path / f"{i}.parquet", row_group_size=size)
    splits = list(ss.scan_parquet(str(tmp_path)).plan().splits())
    assert [len(s.row_groups) for s in splits] == [1, 5, 1, 2]


def test_splits_of_limits_and_orders(table):
    """Only both together are handed out by the best bound first."""
    for options in ({"limit": 15}, {"order_by": "k"}, {"order_by": "k DESC", "limit": 15}):
        plan = table.plan(**options)
        found = [split.containers[0] for split in plan.splits()]
        assert sorted(found) == plan.kept.tolist(), options
    assert found == [3, 2]


def test_readers_register(table):
    splits = table.plan().splits([1])
    assert splits.next_split(reader=2) is None
    splits.register(2)
    assert splits.next_split(reader=1) and splits.next_split(reader=2)
    splits.stop()
    assert splits.next_split(reader=1) is None and splits.remaining == 0


def test_a_split_of_an_empty_file_has_no_rows(tmp_path):
    pq.write_table(pa.table({"k": pa.array([], pa.int64())}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"k": [1]}), tmp_path / "1.parquet")
    assert [s.rows for s in ss.scan_parquet(tmp_path).plan().splits()] == [0, 1]


#    arguments of plan            message
ARGUMENTS = [
    ({"timezone": "Mars"},        "timezone 'Mars' is not known; expected a region"),
    ({"timezone": "Mars", "where": "x > 1"}, "timezone 'Mars' is not known; expected a region"),
    ({"ansi": "false"},           "ansi is 'false'; expected True or False"),
    ({"ansi": "false", "where": "x > 1"}, "ansi is 'false'; expected True or False"),
    ({"case_sensitive": 1},       "case_sensitive is 1; expected True or False"),
    ({"order_by": "x DESC,"},     "order_by is 'x DESC,', which cannot be read; expected a text"),
    ({"columns": [5]},            "columns has 5 of type int; expected a list of names"),
    ({"columns": pa.array(["x"])}, "columns has .* of type StringScalar; expected a list of names"),
    ({"columns": iter([])},       "columns is empty"),
]  # fmt: skip


@pytest.mark.parametrize("arguments, message", ARGUMENTS, ids=[m for _, m in ARGUMENTS])
def test_arguments_of_plans(tmp_path, arguments, message):
    pq.write_table(pa.table({"x": [1, 2], "y": [1, 2]}), tmp_path / "t.parquet")
    with pytest.raises(ss.PredicateError, match=message):
        ss.scan_parquet(tmp_path).plan(**arguments)
    by_iterator = ss.scan_parquet(tmp_path).plan(columns=iter(["y"]))
    assert by_iterator.to_arrow().column_names == ["y"]


#    what is called                               in the error
MISTAKES = [
    (lambda t: t.plan(columns=5),                 "columns is 5; expected a list of names"),
    (lambda t: t.plan().explain(container=5),     "container is 5; expected FILE or FILE:R"),
    (lambda t: t.check(sample="5"),               "sample is '5'; expected a positive number"),
    (lambda t: t.check(sample=True),              "sample is True; expected a positive number"),
]  # fmt: skip


@pytest.mark.parametrize(("use", "text"), MISTAKES, ids=[m[1] for m in MISTAKES])
def test_arguments_of_the_wrong_type(tmp_path, use, text):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    with pytest.raises(ss.SkipstoneError, match=text):
        use(ss.scan_parquet(str(tmp_path)))
