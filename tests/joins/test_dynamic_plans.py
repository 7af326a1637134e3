"""Dynamic filters of tables: plans, limits, partitions, Hive, Delta and Iceberg.

Ids in test names are those of the conformance table.
"""

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from tests.support.joins.dynamic_cases import KEY, V05, collected, keys, names, schema

# Plans.


def test_a_filter_prunes_files_and_rows(table):
    plan = table.plan("k % 2 = 1", dynamic=[keys(3, 4, 25)])
    assert names(plan) == ["0", "2"] and len(plan.kept) == 2
    assert plan.to_arrow().column("k").to_pylist() == [3, 25] and plan.count() == 2
    assert plan.unpruned().to_arrow().equals(plan.to_arrow())
    assert table.plan(dynamic=keys(3), columns=["v"]).to_arrow().to_pydict() == {"v": [0.0]}


def test_P06_P07_a_plan_keeps_what_every_filter_keeps(table):
    first, second = ss.DynamicFilter(columns={"k": "k"}), ss.DynamicFilter(columns={"k": "k"})
    plan = table.plan(dynamic=[first, second])
    assert len(plan.kept) == 12 and len(plan.dynamic.pending) == 2
    first.report(keys(1, 2, 12))
    plan = plan.replanned()
    assert names(plan) == ["0", "1"] and plan.dynamic.pending == (second,)
    second.report(keys(2, 3))
    assert plan.replanned().to_arrow().column("k").to_pylist() == [2]


def test_H06_a_limit_counts_rows_after_the_filters(table):
    assert names(table.plan(limit=3)) == ["0"]
    plan = table.plan(limit=3, dynamic=[keys(*range(40, 50))])
    assert (
        names(plan) == ["4"]
        and plan.to_arrow().column("k").to_pylist() == [40, 41, 42]
        and plan.cut.reached
    )
    plan = table.plan(limit=3, dynamic=[keys(41, 43, 52, 57)])
    assert names(plan) == ["4", "5"] and plan.to_arrow().column("k").to_pylist() == [41, 43, 52]
    late = ss.DynamicFilter(columns={"k": "k"})
    plan = table.plan(limit=3, dynamic=[late])
    assert plan.deferred == 3 and len(plan.kept) == 12 and plan.to_arrow().num_rows == 60
    late.report(keys(*range(50, 60)))
    assert names(plan.replanned()) == ["5"] and plan.replanned().to_arrow().num_rows == 3
    ranges = table.plan(limit=1, dynamic=[keys(41, 57, max_values=1)])
    assert ranges.deferred == 1 and ranges.to_arrow().num_rows >= 2
    assert "left to the join" in ranges.explain()


def test_a_limit_of_sorted_rows_waits_for_late_filters(table):
    plan = table.plan(order_by="k DESC", limit=2, dynamic=[keys(7, 8, 31)])
    assert plan.to_arrow().column("k").to_pylist() == [31, 8]
    late = table.plan(order_by="k DESC", limit=2, dynamic=[ss.DynamicFilter(columns={"k": "k"})])
    assert late.to_arrow().num_rows == 60


@pytest.mark.parametrize("how", ["inner", "semi", "right", "left", "full", "anti", "not in"])
def test_each_kind_of_join_keeps_the_rows_it_needs(table, how):
    f = ss.DynamicFilter(keys(*range(30), 35), how=how)
    plan = table.plan(dynamic=[f])
    everything = set(range(60))
    wanted = {
        "left": everything,
        "full": everything,
        "anti": everything - {*range(30), 35},
        "not in": everything - {*range(30), 35},
    }.get(how, {*range(30), 35})
    assert (
        set(plan.to_arrow().column("k").to_pylist())
        == wanted
        == set(plan.unpruned().to_arrow().column("k").to_pylist())
    )
    assert len(plan.kept) == {"left": 12, "full": 12, "anti": 6, "not in": 6}.get(how, 7)


def test_explain_shows_filters_and_their_state(table):
    late = ss.DynamicFilter(columns={"d_date_sk": "day"})
    text = table.plan(dynamic=[late, keys(3)], columns=["k", "v"]).explain()
    assert "DynamicFilteringTableSourceScan(fields=[k, v])" in text
    assert (
        "DynamicFilteringDataCollector(fields=[d_date_sk])" in text
        and "DynamicFilteringDataCollector(fields=[k])" in text
    )
    assert (
        "it is late" in text
        and "1 distinct keys" in text
        and "11 row groups more" in text
        and "1 of 2 filters may still come" in text
    )


def test_dynamic_filtering_false_keeps_everything(table, monkeypatch):
    data = keys(3)
    assert len(table.plan(dynamic=[data], dynamic_filtering=False).kept) == 12
    monkeypatch.setenv("SKIPSTONE_DYNAMIC_FILTERING", "off")
    assert (
        len(table.plan(dynamic=[data]).kept) == 12
        and len(table.plan(dynamic=[data], dynamic_filtering=True).kept) == 1
    )
    off = table.plan().splits()
    off.on_filter(data)
    assert off.remaining == 6
    monkeypatch.setenv("SKIPSTONE_DYNAMIC_FILTERING", "maybe")
    with pytest.raises(ss.DynamicFilterError, match="expected true or false"):
        table.plan(dynamic=[data])
    monkeypatch.setattr(table, "dynamic_filtering", False)
    assert len(table.plan(dynamic=[data]).kept) == 12


def test_accepted_filter_fields_returns_the_columns_that_filters_can_use(table):
    assert table.accepted_filter_fields(["k", "DAY", "nope", "v"]) == ["k", "DAY", "v"]


def test_filters_of_wrong_types_and_columns_are_refused(table):
    with pytest.raises(ss.DynamicFilterError, match="dynamic has"):
        table.plan(dynamic=["k"])
    with pytest.warns(ss.SkipstoneWarning, match="skips its key 'z'"):
        assert (
            len(table.plan(dynamic=[collected(schema(z=pa.int64()), {"z": [1]}), keys(3)]).kept)
            == 1
        )
    with pytest.raises(ss.DynamicFilterError, match="name 'x'"):
        table.plan(dynamic=[ss.DynamicFilter(keys(1), columns={"x": "k"})])


# Other tables.


def test_a_filter_prunes_hive_partitions(tmp_path):
    texts = dict(zip("abcdefg", (v[0] for v in V05), strict=True))
    kinds = dict(zip("abcdefg", (v[1] for v in V05), strict=True))
    for extra, own in (
        ("x", texts),
        ("y", {**texts, "a": "43"}),
        ("z", {**texts, "b": "__HIVE_DEFAULT_PARTITION__"}),
    ):
        place = tmp_path.joinpath(*(f"{n}={t}" for n, t in own.items()))
        place.mkdir(parents=True)
        pq.write_table(pa.table({"row": [extra]}), place / "part.parquet")
    table = ss.scan_hive(str(tmp_path), partition_schema=kinds)
    of = pa.schema(kinds)
    row = pa.table({n: pa.array([v[2]]).cast(v[1]) for n, v in zip("abcdefg", V05, strict=True)})
    for fields in ("abcdefg", "gb", "a", "f", "b"):
        data = collected(pa.schema([of.field(n) for n in fields]), row.select(list(fields)))
        plan = table.plan(dynamic=[data])
        expected = {
            "abcdefg": ["x"],
            "gb": ["x", "y"],
            "a": ["x", "z"],
            "f": ["x", "y", "z"],
            "b": ["x", "y"],
        }[fields]
        assert sorted(plan.to_arrow().column("row").to_pylist()) == expected
        assert len(plan.files) == len(expected)
        assert plan.unpruned().to_arrow().num_rows == len(expected)


def test_hive_folders_are_not_listed(tmp_path):
    for day in range(10):
        for hour in range(3):
            place = tmp_path / f"day={day}" / f"hour={hour}"
            place.mkdir(parents=True)
            pq.write_table(pa.table({"k": [day * 10 + hour]}), place / "part.parquet")
    kinds = {"day": pa.int32(), "hour": pa.int32()}
    days = collected(schema(day=pa.int32()), {"day": [2, 5]})
    table = ss.scan_hive(str(tmp_path), partition_schema=kinds)
    plan = table.plan("hour < 2", dynamic=[days], columns=["k"])
    assert (
        plan.to_arrow().column("k").to_pylist() == [20, 21, 50, 51] and table.work["footers"] <= 5
    )
    assert "not listed" in plan.explain() and plan.unpruned().to_arrow().equals(plan.to_arrow())
    assert plan.with_dynamic([]).to_arrow().num_rows == 20
    later = ss.DynamicFilter(columns={"hour": "hour"})
    plan = ss.scan_hive(str(tmp_path), partition_schema=kinds).plan(dynamic=[days, later])
    later.report(collected(schema(hour=pa.int32()), {"hour": [1]}))
    assert plan.replanned().to_arrow().column("k").to_pylist() == [21, 51]
    splits = plan.splits()
    assert [s.to_arrow().column("k").to_pylist() for s in splits] == [[21], [51]]
    for how, rows in (("anti", 24), ("left", 30), ("not in", 24), ("full", 30)):
        assert (
            ss.scan_hive(str(tmp_path), partition_schema=kinds)
            .plan(dynamic=[ss.DynamicFilter(days, how=how)])
            .to_arrow()
            .num_rows
            == rows
        )


def test_a_filter_prunes_files_of_delta(tmp_path):
    import deltalake

    for i in range(4):
        deltalake.write_deltalake(
            str(tmp_path),
            pa.table({"k": [i, i], "d": [dt.date(2024, 1, 1 + i)] * 2}),
            mode="append",
            partition_by=["d"],
        )
    table = ss.scan_delta(str(tmp_path))
    data = collected(schema(d=pa.date32()), {"d": [dt.date(2024, 1, 2)]})
    assert table.plan(dynamic=[data]).to_arrow().column("k").to_pylist() == [1, 1]
    assert len(table.plan("k < 3", dynamic=[keys(2, 3)]).files) == 1
    assert len(table.plan(dynamic=[keys(2)], stats_skipping=False).files) == 4
    assert table.accepted_filter_fields(["d", "x"]) == ["d"]


def test_a_filter_prunes_files_of_iceberg(tmp_path):
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("n")
    source = catalog.create_table("n.t", pa.schema([("k", pa.int64())]))
    for i in range(4):
        source.append(pa.table({"k": [10 * i, 10 * i + 5]}))
    table = ss.scan_iceberg(source)
    plan = table.plan(dynamic=[keys(10, 31)])
    assert len(plan.files) == 2 and plan.to_arrow().column("k").to_pylist() == [10]
    assert len(table.plan().splits().plan.kept) == 4
    catalog.engine.dispose()


def test_a_filter_prunes_iceberg_buckets(tmp_path):
    """In a table of buckets, bounds prune nothing, but hashes of the keys do."""
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import BucketTransform
    from pyiceberg.types import LongType, NestedField

    from tests.support.tables import iceberg_tables

    spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(8), "b"))
    source = iceberg_tables.make(str(tmp_path), Schema(NestedField(1, "k", LongType())), spec)
    table = ss.scan_iceberg(iceberg_tables.append(source, pa.table({"k": range(200)})))
    plan = table.plan(dynamic=[keys(77)])
    assert (len(plan.files), plan.sizes.total.files) == (1, 8) and plan.to_arrow().column(
        "k"
    ).to_pylist() == [77]
    assert len(table.plan(dynamic=[ss.DynamicFilter(keys(77), how="anti")]).files) == 8
    later = ss.DynamicFilter(columns={"k": "k"})
    splits = table.plan(dynamic=[later]).splits()
    later.report(keys(77, 78))
    assert (
        77 in [k for s in splits for k in s.to_arrow().column("k").to_pylist()]
        and splits.plan.sizes.scan.files <= 2
    )


def test_a_filter_prunes_iceberg_manifests(tmp_path):
    """A manifest without partitions of the keys is read only if the filter is removed."""
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import IdentityTransform, TruncateTransform
    from pyiceberg.types import LongType, NestedField

    from tests.support.tables import iceberg_tables

    for transform, files in ((IdentityTransform(), 10), (TruncateTransform(10), 1)):
        spec = PartitionSpec(PartitionField(1, 1000, transform, "p"))
        source = iceberg_tables.make(
            str(tmp_path), Schema(NestedField(1, "k", LongType(), required=False)), spec
        )
        for i in range(4):
            source = iceberg_tables.append(
                source, pa.table({"k": [*range(10 * i, 10 * i + 10), *[None] * (i == 3)]})
            )
        table = ss.scan_iceberg(source)
        plan = table.plan("k >= 0", dynamic=[keys(21, 22, 99)])
        assert table.manifests_read == 1 and plan.to_arrow().column("k").to_pylist() == [21, 22]
        assert (plan.sizes.total.files, plan.sizes.partition.files) == (
            4 * files + 1,
            min(files, 2),
        )
        assert plan.unpruned().to_arrow().num_rows == 2 and plan.with_dynamic([]).count() == 40
        more = plan.with_dynamic([*plan.dynamic.filters, ss.DynamicFilter(keys(22))])
        assert (
            more.to_arrow().column("k").to_pylist() == [22]
            and more.sizes.total.files == 4 * files + 1
        )
        #    join, keys, manifests that are read, rows
        for how, data, manifests, rows in (
            ("semi", keys(*range(8), 39), 2, 9),
            ("anti", keys(*range(10)), 4, 31),
            ("left", keys(1), 4, 41),
            ("inner", keys(1, 2, max_values=1), 4, 2),
            ("inner", collected(KEY, {"k": [None, 5]}, null_safe=True), 2, 2),
        ):
            plan = ss.scan_iceberg(source).plan(dynamic=[ss.DynamicFilter(data, how=how)])
            assert (plan.table.table.manifests_read, plan.to_arrow().num_rows) == (
                manifests,
                rows,
            ), (how, transform)
        assert (
            ss.scan_iceberg(source).plan(dynamic=[keys(1)], dynamic_filtering=False).count() == 41
        )
        late = ss.DynamicFilter(columns={"k": "k"})
        splits = table.plan(dynamic=[late]).splits()
        late.report(keys(35))
        assert [s.to_arrow().num_rows for s in splits] == [1]


def test_filters_of_partition_columns_count_as_partition_pruning(tmp_path):
    """Filters of partition columns count as partition filters; others do not."""
    pq.write_to_dataset(
        pa.table({"day": [0, 1, 2, 3], "k": [5, 6, 7, 8]}), str(tmp_path), partition_cols=["day"]
    )
    table = ss.scan_parquet(str(tmp_path), partition_schema={"day": pa.int64()})
    days = collected(schema(day=pa.int64()), {"day": [1, 2]})
    for filters, partition, scan in (([days], 2, 2), ([keys(7)], 4, 1), ([days, keys(8)], 2, 0)):
        sizes = table.plan(dynamic=filters).sizes
        assert (sizes.total.files, sizes.partition.files, sizes.scan.files) == (4, partition, scan)
    assert table.plan("day > 1", dynamic=[days]).sizes.partition.files == 1
