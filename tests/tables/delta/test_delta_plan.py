"""Plans of Delta tables: the branches, sizes and names of Delta's reader, and limits."""

import re

import numpy as np
import pytest

import skipstone as ss
from tests.support.tables.delta_log import Log, Written, delta_schema, simple, xs

# The names of Delta's reader.


def test_the_four_branches(tmp_path):
    log = Log(tmp_path / "t", delta_schema("x BIGINT, p STRING"), ["p"])
    log.add(
        *(Written([{"x": 10 * i + k} for k in range(10)], {"p": f"q{i % 2}"}) for i in range(4))
    )
    table = ss.scan_delta(log.folder)
    both, only = "dataSkippingAndPartitionFilteringV1", "dataSkippingOnlyV1"
    for where, limit, branch, files, kind in [
        (None, None, "none", 4, "noSkippingV1"),
        ("true", None, "none", 4, "noSkippingV1"),
        ("p = 'q1'", None, "partition", 2, "partitionFilteringOnlyV1"),
        ("x < 15", None, "data", 2, only),
        ("x < 15 AND p = 'q1'", None, "data", 1, both),
        ("x < 15 OR p = 'q1'", None, "data", 3, only),
        (None, 15, "limit", 2, "limit"),
        ("p = 'q1'", 5, "limit", 1, "filteredLimit"),
        ("x >= 10", 12, "limit", 2, "filteredLimit"),
    ]:
        plan = table.plan(where, limit=limit)
        assert (plan.skipping, len(plan.files), plan.kind) == (branch, files, kind), where
    plan = table.plan("x < 15 AND p = 'q1'")
    assert [
        (s.files, s.rows, s.logical_rows)
        for s in (plan.sizes.total, plan.sizes.partition, plan.sizes.scan)
    ] == [(4, 40, 40), (2, 20, 20), (1, 10, 10)]
    assert len(table.plan("x < 15 AND p = 'q1'", stats_skipping=False).files) == 2
    assert table.plan("x < 15", stats_skipping=False).to_arrow().num_rows == 15
    assert table.name == f"Delta Table State with Stats #1 - {tmp_path / 't'}"
    assert table.filter_on_partitions("p = 'q1' AND x = 3").num_rows == 2
    assert table.filter_on_partitions("p = 'q1'", keep_num_records=True).column(
        "num_records"
    ).to_pylist() == [10, 10]
    assert table.files_with_stats_for_scan("p = 'q0'").column("x.max").to_pylist() == [9, 29]
    assert table.get_specific_files_with_stats([table.all_files[2]]).column(
        "x.min"
    ).to_pylist() == [20]
    assert table.files_and_num_records.column_names == [
        "path",
        "num_physical_records",
        "num_logical_records",
    ]
    assert "x.min" not in table.with_no_stats.column_names
    by = "partition values and column statistics"
    assert repr(plan) == f"Plan(1 of 4 files, pruned by: {by})"
    assert plan.unused == ()
    assert table.plan("x < 15 AND rand() < 0.5").unused == ("rand() < 0.5",)


def test_one_unknown_count_makes_a_total_unknown(tmp_path):
    log = simple(tmp_path / "t", 2)
    log.add(Written([{"x": 99, "s": "q"}], stats=None))
    sizes = ss.scan_delta(log.folder).plan("x < 10", footers=0).sizes
    assert sizes.total.rows is None
    assert sizes.total.files == 3
    assert sizes.scan.bytes > 0
    assert sizes.scan.rows is None


@pytest.mark.parametrize("seed", range(20))
def test_limits_give_rows_that_match(tmp_path, seed):
    """A limit gives as many rows as there are, up to itself, and all of them match."""
    r = np.random.default_rng(seed)
    log = Log(tmp_path / "t", delta_schema("x BIGINT"), features=("deletionVectors",))
    for _ in range(int(r.integers(1, 8))):
        n = int(r.integers(1, 20))
        rows = [{"x": int(v)} for v in r.integers(0, 30, n) // int(r.integers(1, 10))]
        dead = sorted(int(i) for i in set(r.integers(0, n, 5))) if r.random() < 0.4 else None
        log.add(Written(rows, stats=None if r.random() < 0.3 else ..., dead=dead))
    table = ss.scan_delta(log.folder)
    for where in (None, "x < 10", "x >= 2", "x = 3", "x IS NULL"):
        everything = xs(table, where)
        for limit in (0, 1, 3, 10, 1000):
            found = xs(table, where, limit=limit)
            assert table.plan(where, limit=limit).count() == len(found)
            assert len(found) == min(limit, len(everything)), (where, limit)
            rest = list(everything)
            for v in found:
                rest.remove(v)


def test_why_files_are_kept(tmp_path):
    log = simple(tmp_path / "t", 5)
    log.add(Written([{"x": 7, "s": "q"}], stats=None))
    log.add(
        Written(
            [{"x": 30, "s": None}],
            stats={
                "numRecords": 1,
                "minValues": {"x": 30},
                "maxValues": {"x": 30},
                "nullCount": {"x": 0},
            },
        )
    )
    table = ss.scan_delta(log.folder)
    for where, reasons in [
        (None, {"there is no condition": 7}),
        ("x >= 20", {"every row matches": 4, "no bounds of x": 1}),
        (
            "x >= 25",
            {"every row matches": 3, "no bounds of x": 1, "the bounds overlap the condition": 1},
        ),
        (
            "x >= 25 AND s < 't3'",
            {"no bounds of x": 1, "no bounds of s": 1, "the bounds overlap the condition": 1},
        ),
        ("x >= 25 AND rand() < 0.5", {"no bounds of x": 1, "the form is not understood": 4}),
        ("x > 1000 AND x IS NOT NULL", {"no bounds of x": 1}),
    ]:
        plan = table.plan(where, footers=0)
        assert plan.kept_because == reasons, where
        assert sum(reasons.values()) == len(plan.kept)
    plan = table.plan("x >= 25 AND x < 40 AND s < 'zz'", limit=3, order_by="x DESC")
    assert [(c.text, c.alone, c.after) for c in plan.conjuncts] == [
        ("x >= 25", 2, 2),
        ("x < 40", 1, 1),
        ("s < 'zz'", 0, 0),
    ]
    text = plan.explain()
    assert "  prunes by column statistics\n" in text
    assert re.search("before → after +files +bytes", text)
    assert "  order x DESC NULLS LAST\n" in text
    assert "3: reached by 10 rows of fully matched containers" in text
    assert "─ 1 file: every row matches" in text


def test_reads_are_counted(tmp_path):
    log = simple(tmp_path / "t", 3)
    work = ss.scan_delta(log.folder).work
    sizes = sum(p.stat().st_size for p in log.log.iterdir())
    assert (work["commits"], work["checkpoint files"], work.bytes) == (4, 0, sizes)
    log.add(Written([{"x": 99, "s": "q"}]))
    table = ss.scan_delta(log.folder)
    assert table.work["commits"] == 1  # the rest was read before
    assert set(table.work.seconds) == {"listing", "log"}
    assert f"the scan and all plans: {table.work}"[:40] in table.plan("x = 3").explain()
    assert repr(table.work) == f"Work({table.work})"
    assert set(table.work.seconds) == {"listing", "log", "planning"}
