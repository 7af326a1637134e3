"""Planning again keeps the plan's condition and settings."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss

SETTINGS = {"timezone": "Asia/Tokyo", "ansi": False, "case_sensitive": True}
TABLES = ("hive", "parquet", "delta")


def filter_of(name, value):
    collector = ss.DynamicFilterCollector([name], pa.schema([(name, pa.int64())]), ansi=False)
    collector.add(pa.table({name: [value]}))
    return ss.DynamicFilter(collector.finish())


@pytest.fixture(params=TABLES)
def table(tmp_path, request):
    """Four folders with two columns that differ only by case, and texts that are not numbers."""
    for p in range(4):
        rows = pa.table({"k": [p, p + 10], "K": [p + 20, p + 30], "s": [str(p), "x"]})
        (tmp_path / f"p={p}").mkdir()
        pq.write_table(rows, tmp_path / f"p={p}/a.parquet")
    if request.param == "hive":
        return ss.scan_hive(str(tmp_path), partition_schema={"p": pa.int64()})
    if request.param == "parquet":
        return ss.scan_parquet(str(tmp_path), partition_schema={"p": pa.int64()})
    deltalake = pytest.importorskip("deltalake")
    # Delta's column names are case-insensitive.
    parts = [{"k": [p, p + 10], "s": [str(p), "x"], "p": [p, p]} for p in range(4)]
    rows = pa.concat_tables(map(pa.table, parts))
    deltalake.write_deltalake(str(tmp_path / "delta"), rows, partition_by=["p"])
    return ss.scan_delta(str(tmp_path / "delta"))


def variants(plan, more):
    """Yield each public way to make another plan of the same query."""
    yield "replanned", plan.replanned()
    yield "unpruned", plan.unpruned()
    yield "one more", plan.with_dynamic((*plan.dynamic.filters, more))
    yield "another", plan.with_dynamic((more,))
    yield "none", plan.with_dynamic(())
    yield "again", plan.with_dynamic((more,)).with_dynamic(plan.dynamic.filters)
    yield "some", plan.only(plan.kept, plan.columns)
    splits = plan.splits()
    splits.on_filter(more.data, filter=more)
    yield "splits", splits.plan


def test_settings_are_kept(table):
    """The columns are those that only a case-sensitive session distinguishes."""
    more = filter_of("k", 3)
    plan = table.plan(
        "p >= 0",
        order_by="k DESC",
        dynamic=[filter_of("p", 2)],
        dynamic_filtering=True,
        **SETTINGS,
    )
    assert plan.to_arrow().column("k").to_pylist() == [12, 2]
    for name, again in variants(plan, more):
        assert again.settings == plan.settings, name
        assert (
            again.timezone == SETTINGS["timezone"] and again.order == plan.order
        ) or name == "some"
        found = again.to_arrow().column("k").to_pylist()
        wanted = {
            "one more": [], "splits": [], "another": [3], "none": [13, 12, 11, 10, 3, 2, 1, 0],
        }.get(name, [12, 2])  # fmt: skip
        assert (sorted(found, reverse=True) if name == "some" else found) == wanted, name


def test_forced_filtering_is_kept(table, monkeypatch):
    """The plan's own setting counts, whatever the table or the environment say later."""
    options = {"dynamic": [filter_of("p", 2)], "case_sensitive": True}
    plan = table.plan(**options, dynamic_filtering=True)
    off = table.plan(**options, dynamic_filtering=False)
    monkeypatch.setenv("SKIPSTONE_DYNAMIC_FILTERING", "off")
    for name, again in variants(plan, filter_of("k", 3)):
        wanted = {"one more": 0, "splits": 0, "another": 1, "none": 8}.get(name, 2)
        assert again.count() == wanted, name
    monkeypatch.setenv("SKIPSTONE_DYNAMIC_FILTERING", "on")
    for again in (off.replanned(), off.with_dynamic((filter_of("k", 3),)), off.unpruned()):
        assert again.count() == 8


def test_only_a_removed_filter_may_list_the_table_again(table, monkeypatch):
    options = {"dynamic_filtering": True, "case_sensitive": True}
    plan = table.plan(dynamic=[filter_of("p", 2)], **options)

    def listed(self, request):
        raise AssertionError("listed again")

    monkeypatch.setattr(type(plan.table), "replan", listed)
    same = plan.dynamic.filters
    for filters in (same, (*same, filter_of("k", 3))):
        assert plan.with_dynamic(filters).dynamic.filters == filters
    with pytest.raises(AssertionError, match="listed again"):
        plan.with_dynamic(())


def test_skipping_stays_off(table):
    """Without file statistics, filters prune by partitions alone, also in later plans."""
    options = {"stats_skipping": False, "dynamic_filtering": True, "case_sensitive": True}
    plan = table.plan(dynamic=[filter_of("k", 99)], **options)
    more = (*plan.dynamic.filters, filter_of("p", 3))
    for again in (plan, plan.replanned(), plan.with_dynamic(plan.dynamic.filters).replanned()):
        assert (len(again.kept), len(again.with_dynamic(more).kept)) == (4, 1)


def test_names_of_min_and_max_follow_the_case(table):
    plan = table.plan(case_sensitive=True)
    assert plan.max("k") == 13
    with pytest.raises(ss.UnknownColumn):
        plan.max("S")
    assert table.plan().max("S") == "x"


def test_zones_are_kept(tmp_path):
    """A partition value without a zone is another instant in another zone."""
    for hour in ("00", "09"):
        (tmp_path / f"t=2024-01-01 {hour}%3A00%3A00").mkdir()
        pq.write_table(
            pa.table({"x": [int(hour)]}), tmp_path / f"t=2024-01-01 {hour}%3A00%3A00/a.parquet"
        )
    kind = pa.timestamp("us", "UTC")
    table = ss.scan_hive(str(tmp_path), partition_schema={"t": kind})
    f = filter_of("x", 9)
    plan = table.plan("t = TIMESTAMP '2024-01-01 00:00:00Z'", dynamic=[f], timezone="Asia/Tokyo")
    for again in (plan, plan.unpruned(), plan.replanned(), plan.with_dynamic(())):
        assert again.to_arrow().column("x").to_pylist() == [9]
