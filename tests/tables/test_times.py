"""Times of day: bounds, pages, partitions and rows of Parquet and Iceberg, judged by Spark."""

import datetime as dt
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.ir.outcome import Verdict
from tests.support.spark.answers import set_in

T = dt.time
FILES = {
    "night": [T(0), T(1, 30), T(2, 0, 0, 999_000)],
    "morning": [T(5, 5), T(6), None],
    "noon": [T(12), T(12)],
    "evening": [T(20), T(23, 59, 59, 999_000)],
    "none": [None, None],
}
# A condition, the files that are left, and the rows.
CASES = [
    ("t = TIME '05:05:00'", "morning", 1),
    ("t = TIME '5:5'", "morning", 1),
    ("t = CAST(' 05:05:00 ' AS TIME)", "morning", 1),
    ("t <> TIME '12:00:00'", "evening morning night", 7),
    ("t < TIME '05:05:00'", "night", 3),
    ("t <= TIME '05:05:00'", "morning night", 4),
    ("t > TIME '02:00:00.999'", "evening morning noon", 6),
    ("t > TIME '02:00:00.998999'", "evening morning night noon", 7),
    ("t BETWEEN TIME '06:00:00' AND TIME '12:00:00'", "morning noon", 3),
    ("t IN (TIME '06:00:00', TIME '20:00:00', NULL)", "evening morning", 2),
    ("NOT (t >= TIME '05:05:00')", "night", 3),
    ("t IS NULL", "morning none", 3),
    ("t IS NOT NULL", "evening morning night noon", 9),
    ("t <=> TIME '12:00:00'", "noon", 2),
    ("t <=> CAST(NULL AS TIME)", "morning none", 3),
    ("coalesce(t, TIME '12:00:00') = TIME '12:00:00'", "morning none noon", 5),
    ("greatest(t, TIME '06:00:00') > TIME '12:00:00'", "evening", 2),
    ("t = TIME '12:00:00' AND id > 6", "noon", 1),
]
# Spark judges these, and we do not: every file stays.
UNKNOWN = [
    "t > '05:05:00'", "t = TIME '5:05 AM'", "hour(t) = 5",
    "CAST(t AS STRING) = '05:05:00'", "t = CAST('05:05:00' AS TIME(3))",
    "t = TIME '05:05:00.0000001'", "t - INTERVAL 0 HOUR > TIME '05:05:00'",
]  # fmt: skip
KINDS = {"ms": pa.time32("ms"), "us": pa.time64("us"), "ns": pa.time64("ns")}
ALL = " ".join(sorted(FILES))


def rows_of(kind):
    """Return a table for each file; ids count through the files."""
    first, out = 0, {}
    for name, values in FILES.items():
        ids = pa.array(range(first, first + len(values)), pa.int64())
        out[name] = pa.table({"id": ids, "t": pa.array(values, kind)})
        first += len(values)
    return out


@pytest.fixture(scope="module", params=list(KINDS))
def lake(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("times")
    for name, rows in rows_of(KINDS[request.param]).items():
        pq.write_table(rows, folder / f"{name}.parquet")
    return folder


def files_of(plan):
    return " ".join(sorted(f.rpartition("/")[2].split(".")[0] for f in plan.files))


@pytest.mark.parametrize("where, files, rows", CASES, ids=[c[0] for c in CASES])
def test_files_and_rows(lake, where, files, rows):
    plan = ss.scan_parquet(str(lake)).plan(where)
    assert files_of(plan) == files
    assert len(plan.to_arrow()) == rows


@pytest.mark.parametrize("where", UNKNOWN)
def test_what_is_not_understood_keeps_all_files(lake, where):
    with pytest.warns(ss.SkipstoneWarning):
        assert files_of(ss.scan_parquet(str(lake)).plan(where)) == ALL


def test_a_finer_literal_lies_between_the_values_of_a_column(tmp_path):
    for kind in KINDS.values():
        pq.write_table(pa.table({"t": pa.array([T(1), T(2)], kind)}), tmp_path / "a.parquet")
        table = ss.scan_parquet(str(tmp_path / "a.parquet"))
        between = T(1, 0, 0, 1)
        counts = [
            table.plan(p).to_arrow().num_rows
            for p in (ss.col("t") < between, ss.col("t") <= between, ss.col("t") > between,
                      ss.col("t") == between, ss.col("t").isin([between, T(2)]))
        ]  # fmt: skip
        assert counts == [1, 1, 1, 0, 1], kind


def test_pages_of_times_are_judged_and_read(tmp_path):
    ticks = np.arange(86_400, dtype=np.int64) * 10**6
    rows = pa.table({"t": pa.array(ticks).cast(pa.time64("us")), "x": pa.array(ticks)})
    pq.write_table(rows, tmp_path / "a.parquet", write_page_index=True, max_rows_per_page=1000)
    plan = ss.scan_parquet(str(tmp_path / "a.parquet")).plan("t = TIME '10:20:30'")
    assert plan.to_arrow() == rows.filter(pc.equal(rows["x"], (10 * 3600 + 20 * 60 + 30) * 10**6))
    ((_, groups),) = plan.pages.items()
    ((start, stop),) = groups[0]
    assert stop - start <= 1024


def test_expressions_of_arrow_and_of_python(lake):
    table = ss.scan_parquet(str(lake))
    for where in (ss.col("t") == T(5, 5), pc.field("t") == T(5, 5), ss.col("t").isin([T(5, 5)])):
        assert files_of(table.plan(where)) == "morning"


def test_joins_and_dynamic_filters(lake):
    table = ss.scan_parquet(str(lake))
    build = pa.table({"k": pa.array([T(5, 5), T(20), None], pa.time64("us"))})
    found = ss.join(table, build, on={"t": "k"})
    assert sorted(found["id"].to_pylist()) == [3, 8]
    rest = ss.join(table, build, on={"t": "k"}, how="anti")
    assert sorted(rest["id"].to_pylist()) == [0, 1, 2, 4, 5, 6, 7, 9, 10, 11]


def test_text_in_a_list_is_cast_to_the_time_in_ansi_mode_alone(lake):
    table = ss.scan_parquet(str(lake))
    assert files_of(table.plan("t IN ('5:5')", ansi=True)) == "morning"
    with pytest.warns(ss.SkipstoneWarning):  # Spark compares texts then: '05:05:00' is not '5:5'
        assert files_of(table.plan("t IN ('5:5')", ansi=False)) == ALL


def test_statistics_are_saved_indexed_and_pickled(tmp_path):
    schema = pa.schema([("t", pa.time64("us"))])
    bounds = {k: pa.array([T(h) for h in hours], pa.time64("us"))
              for k, hours in {"min": range(20), "max": range(1, 21)}.items()}  # fmt: skip
    stats = ss.Statistics.from_dict({"t": {**bounds, "null_count": [0] * 20}}, schema)
    predicate = ss.PruningPredicate("t BETWEEN TIME '07:30:00' AND TIME '08:30:00'", schema)
    expected = [h in (7, 8) for h in range(20)]
    stats.save(tmp_path / "s")
    for one in (stats, ss.Statistics.load(tmp_path / "s"), pickle.loads(pickle.dumps(stats)),
                stats.index()):  # fmt: skip
        for backend in ("numpy", "numba"):
            assert predicate.prune(one, backend).tolist() == expected
    assert pickle.loads(pickle.dumps(predicate)).prune(stats, "numpy").tolist() == expected
    assert "TIME '07:30:00'" in str(predicate)


def test_bounds_of_other_types_and_units_and_beyond_a_day():
    schema = pa.schema([("t", pa.time64("us"))])
    nine = {"min": pa.array([T(9)], pa.time32("s")), "max": pa.array([T(9)], pa.time64("ns"))}
    days = pa.array([90_000 * 10**6], pa.int64()).view(pa.time64("us"))
    for columns, where, left in (
        (nine, "t = TIME '09:00:00'", True),
        (nine, "t = TIME '09:00:01'", False),
        ({"min": pa.array([5]), "max": pa.array([6])}, "t = TIME '09:00:01'", True),
        ({"min": days, "max": days}, "t < TIME '23:00:00'", False),
        ({"min": days, "max": days}, "t > TIME '23:00:00'", True),
    ):
        stats = ss.Statistics.from_dict({"t": columns}, schema)
        assert ss.PruningPredicate(where, schema).prune(stats, "numpy").tolist() == [left]


def test_iceberg_bounds_partitions_and_expressions(tmp_path):
    pytest.importorskip("pyiceberg.catalog.sql")
    from pyiceberg import expressions as ice
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.transforms import IdentityTransform

    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("db")
    rows = rows_of(pa.time64("us"))
    for name, parted in (("plain", False), ("parted", True)):
        table = catalog.create_table(f"db.{name}", rows["night"].schema)
        if parted:
            with table.update_spec() as update:
                update.add_field("t", IdentityTransform())
        for part in rows.values():
            table.append(part)
        scanned = ss.scan_iceberg(table.metadata_location)
        for where, files, count in CASES:
            plan = scanned.plan(where)
            assert len(plan.to_arrow()) == count, where
            if not parted:
                assert len(plan.files) == len(files.split()), where
        theirs = ice.And(ice.GreaterThan("t", T(5, 5)), ice.LessThan("t", T(12)))
        plan = scanned.plan(theirs)
        assert plan.to_arrow()["id"].to_pylist() == [4]
        assert len(plan.files) == len(list(table.scan(row_filter=theirs).plan_files())) == 1


def test_order_limit_and_aggregates(lake):
    table = ss.scan_parquet(str(lake))
    latest = table.plan("t IS NOT NULL", order_by="t DESC", limit=2).to_arrow()
    assert latest["id"].to_pylist() == [9, 8]
    plan = table.plan("t < TIME '12:30:00'")
    found = [plan.min("t"), plan.max("t")]
    assert [v.as_py() if isinstance(v, pa.Scalar) else v for v in found] == [T(0), T(12)]


def test_spark_statistics_of_times_are_counts():
    pytest.importorskip("pyspark")
    from skipstone.bindings.spark.statistics.needed import needed_statistics

    schema = pa.schema([("t", pa.time64("us"))])
    names = [s.name for s in needed_statistics(ss.PruningPredicate("t > TIME '01:00:00'", schema))]
    assert names == ["t.null_count", "t.row_count", "row_count"]


def test_all_rows_of_a_container_are_matched():
    schema = pa.schema([pa.field("t", pa.time64("us"), nullable=False)])
    stats = ss.Statistics.from_dict(
        {"t": {"min": pa.array([T(1)], pa.time64("us")), "max": pa.array([T(2)], pa.time64("us")),
               "null_count": [0]}}, schema, row_count=[5],
    )  # fmt: skip
    for where, verdict in (
        ("t < TIME '03:00:00'", Verdict.ALWAYS),
        ("t < TIME '01:00:00'", Verdict.NEVER),
        ("t < TIME '02:00:00'", Verdict.MAYBE),
    ):
        found = ss.PruningPredicate(where, schema).evaluate(stats, "numpy")
        assert Verdict(int(found[0])) is verdict


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_spark_gives_the_same_rows(spark, tmp_path, ansi):
    if tuple(map(int, spark.version.split(".")[:2])) < (4, 1):
        pytest.skip("TIME came with Spark 4.1")
    for name, rows in rows_of(pa.time64("us")).items():
        pq.write_table(rows, tmp_path / f"{name}.parquet")
    settings = {"spark.sql.timeType.enabled": "true", "spark.sql.ansi.enabled": ansi}
    table = ss.scan_parquet(str(tmp_path))
    with set_in(spark, settings):
        frame = spark.read.parquet(str(tmp_path))
        for where, _, _ in CASES:
            expected = sorted(row.id for row in frame.where(where).select("id").collect())
            plan = table.plan(where, ansi=ansi == "true")
            assert sorted(plan.to_arrow()["id"].to_pylist()) == expected, where
        for where in UNKNOWN:
            assert frame.where(where).count() >= 0
