"""NOT IN of texts and other types: without ANSI mode Spark compares them as text."""

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss

#    fact column, keys that `=` finds equal to its first value (or NULL)
KEYS = [
    (pa.array([2, 3], pa.int8()), pa.array([" 2 ", "true"])),
    (pa.array([2.0, 3.0]), pa.array(["2", "a"])),
    (pa.array([dt.date(2024, 1, 1)]), pa.array(["2024-1-1", "a"])),
    (pa.array([" 2 ", "a", None]), pa.array([2], pa.int64())),
    (pa.array(["é", "1"]), pa.array([dt.datetime(2024, 1, 6)])),
]


@pytest.fixture(params=KEYS, ids=lambda pair: f"{pair[0].type}-{pair[1].type}")
def sides(request, tmp_path):
    fact, keys = request.param
    pq.write_table(pa.table({"k": fact}), tmp_path / "a.parquet", row_group_size=1)
    return ss.scan_parquet(tmp_path), pa.table({"k": keys})


@pytest.mark.parametrize("dynamic", [True, False])
def test_joins_refuse(sides, dynamic):
    """In Spark, both `2 NOT IN (' 2 ', 'true')` and `2 = ' 2 '` are TRUE."""
    with pytest.raises(ss.UnsupportedForm, match="NOT IN compares them as text"):
        ss.join(*sides, on="k", how="not in", ansi=False, dynamic_filtering=dynamic)


def test_plans_keep_all(sides):
    scan, keys = sides
    collector = ss.DynamicFilterCollector(["k"], scan.schema, ansi=False)
    collector.add(keys)
    collector.add(keys.slice(0, 0))
    dynamic_filter = ss.DynamicFilter(collector.finish(), how="not in")
    plan = scan.plan(dynamic=[dynamic_filter], ansi=False)
    assert len(plan.kept) == len(plan.verdicts)
    assert plan.to_arrow().num_rows == plan.unpruned().to_arrow().num_rows == len(plan.verdicts)


def test_no_keys_are_no_texts(sides):
    scan, keys = sides
    found = ss.join(scan, keys.slice(0, 0), on="k", how="not in", ansi=False)
    assert found.num_rows == len(scan.plan().verdicts)


def test_spark(spark):
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        query = "SELECT 2Y IN (SELECT explode(array(' 2 ', 'true'))), 2Y = ' 2 '"
        assert spark.sql(query).collect() == [(False, True)]
    finally:
        spark.conf.set("spark.sql.ansi.enabled", "true")
