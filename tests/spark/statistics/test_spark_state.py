"""Delta's reader API in Spark: the cached state of a version, and the files of a scan.

The latter is in Delta's words and counts.
"""

import pytest

import skipstone as ss
from skipstone.spark import files_for_scan, with_stats, with_verdict
from tests.support.spark.session import QUIET
from tests.support.tables.delta_log import Log, Written, delta_schema

pytestmark = pytest.mark.filterwarnings(QUIET)


@pytest.fixture
def log(tmp_path):
    """Write four files of ten rows, x from 0, two per partition; one has deleted rows."""
    log = Log(
        tmp_path / "a `table`",
        delta_schema("x BIGINT, p STRING"),
        ["p"],
        features=("deletionVectors",),
    )
    log.add(
        *(
            Written(
                [{"x": 10 * i + k} for k in range(10)],
                {"p": f"q{i % 2}"},
                dead=[0, 1] if i == 2 else None,
            )
            for i in range(4)
        )
    )
    return log


def test_the_state_is_cached_by_its_name(spark, log):
    table = ss.scan_delta(log.folder)
    df = with_stats(spark, log.folder)
    assert (
        "In-memory table `Delta Table State with Stats #1 - "
        in df._jdf.queryExecution().executedPlan().toString()
        and df.count() == 4
    )
    assert [
        i.name()
        for i in spark._jsc.sc().getRDDStorageInfo()
        if f"#1 - {log.folder}".replace("`", "``") in i.name()
    ]
    assert sorted(df.where("`x.max` > 15").select("`x.min`").collect()) == [(10,), (20,), (30,)]
    found = {
        r["path"]: r["verdict"]
        for r in with_verdict(df, "x = 25 OR p = 'q1'", schema=table.schema).collect()
    }
    assert [found[path] for path in table.files["path"].to_pylist()] == table.plan(
        "x = 25 OR p = 'q1'"
    ).verdicts.tolist()
    name = f"`{table.name.replace('`', '``')}`"
    assert spark.catalog.isCached(name) and with_stats(spark, table).count() == 4
    log.add(Written([{"x": 99}], {"p": None}))
    assert with_stats(spark, log.folder).count() == 5 and spark.catalog.isCached(
        name
    )  # another version is another view
    spark.catalog.dropTempView(table.name)


def test_over_connect(connect, log):
    assert with_stats(connect, log.folder).where("num_logical_records < num_records").count() == 1
    assert files_for_scan(connect, log.folder, "x = 5").frame.count() == 1
    assert files_for_scan(connect, log.folder, "x = 555").frame.count() == 0


def test_files_for_scan(spark, log):
    table = ss.scan_delta(log.folder)
    both, only = "dataSkippingAndPartitionFilteringV1", "dataSkippingOnlyV1"
    for filters, limit, kind, counts in [
        (None, None, "noSkippingV1", (4, 4, 4)),
        ([], None, "noSkippingV1", (4, 4, 4)),
        ("true", None, "noSkippingV1", (4, 4, 4)),
        ("p = 'q1'", None, "partitionFilteringOnlyV1", (4, 2, 2)),
        (["p = 'q1'", "x < 15"], None, both, (4, 2, 1)),
        ([("x", "<", 15)], None, only, (4, 4, 2)),
        (["x < 15"], None, only, (4, 4, 2)),
        (["x > 5000"], None, only, (4, 4, 0)),
        ("p = 'q0'", 5, "filteredLimit", (4, 2, 1)),
        (None, 15, "limit", (4, 4, 2)),
    ]:
        scan = files_for_scan(spark, table, filters, limit=limit)
        assert (scan.skipping, (scan.total.files, scan.partition.files, scan.scanned.files)) == (
            kind,
            counts,
        ), filters
        assert len(scan.files) == counts[2] and set(scan.files["stats"].to_pylist()) <= {None}
        assert scan.frame.count() == counts[2]
    scan = files_for_scan(
        spark, table, ["p = 'q0' AND x >= 20", "rand() < 2"], keep_num_records=True
    )
    assert (scan.partition_filters, scan.data_filters, scan.unused_filters) == (
        ("p = 'q0'",),
        ("x >= 20", "rand() < 2"),
        ("rand() < 2",),
    )
    assert scan.version == 1 and scan.files["stats"].to_pylist() == ['{"numRecords":10}']
    assert (scan.scanned.rows, scan.scanned.logical_rows, scan.total.logical_rows) == (10, 8, 38)
    assert [r.path for r in scan.frame.collect()] == scan.files["path"].to_pylist()


def test_errors_without_a_delta_table(spark, tmp_path):
    with pytest.raises(ss.SourceError, match="_delta_log"):
        with_stats(spark, tmp_path)
