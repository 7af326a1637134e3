"""Hive tables agree with Spark on types, values and rows of partition columns."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.tables.partitions import HIVE_NULL

# Texts of one column's folders, as in the paths.
TEXTS = [
    ["+5", "02", "-3"], ["-2147483648"], ["9223372036854775808"], ["10", "99999999999"], ["٣"],
    ["1", "2.5"], ["1e3"], ["2.5", "1e3"], [str(2**40), "2.5"], ["99999999999999999999", "5"],
    ["99999999999999999999", "2.5"], ["9" * 38, "1"], ["1" * 39], ["1e37"], ["1e38"], ["1e400"],
    ["0" * 46 + "1"], [".5", "5."], ["-0.0", "0.0"], ["NaN"], ["Infinity", "-Infinity"], ["1d"],
    ["1.5f"], ["0x1p3"], ["0x10"], [" 1"], ["1 "], ["1%20"], ["%2B5"], ["2013-01-01"],
    ["0001-01-01"], ["10000-01-01"], ["2013-1-1"], ["2013-01-01", "2013-02-30"], ["2013-01-01 "],
    ["2013-01-01 10%3A00%3A00"], ["2013-01-01 10:00:00.5"], ["2013-01-01 10:00:00.123456"],
    ["2013-01-01T10%3A00%3A00"], ["2013-01-01 24:00:00"], ["2013-01-01", "2013-01-01 10%3A00%3A00"],
    ["2013-01-01 10%3A00%3A00Z"], ["1", "2013-01-01"], ["1", HIVE_NULL], ["a%2Fb", "a b"], ["é"],
    ["%41"], ["100%"], ["%zz"], ["1=2"],
]  # fmt: skip


def tree(root, texts):
    for i, text in enumerate(texts):
        (root / f"k={text}").mkdir(parents=True)
        pq.write_table(pa.table({"x": [i]}), root / f"k={text}" / "part.parquet")
    return root


def by_x(table):
    return sorted(map(repr, table.select(["x", "k"]).to_pylist()))


#    texts of the folders that hold a file, of those that hold none, and a condition
EMPTY = [
    (["9", "10"], ["abc"], "k > '8'"),
    (["9", "10"], [str(2**40)], "k > '8'"),
    (["9", "10"], ["1.5"], "k > '8'"),
    (["9"], [HIVE_NULL], "k IS NULL"),
    (["2013-01-01"], ["2013-01-01 10%3A00%3A00"], "k >= '2013-01-01'"),
    (["9", "abc"], ["10", "1.5"], "k > '8'"),
]


@pytest.mark.parametrize("files, empty, where", EMPTY)
def test_folders_without_files_give_no_types(spark, tmp_path, files, empty, where):
    for text in empty:
        (tmp_path / f"k={text}").mkdir()
        (tmp_path / f"k={text}" / "_SUCCESS").touch()
    root = tree(tmp_path, files)
    theirs, ours = spark.read.parquet(root.as_uri()), ss.scan_hive(root)
    types = [t.schema.field("k").type for t in (ours, ss.scan_parquet(root), theirs.toArrow())]
    assert len(set(types)) == 1, types
    assert by_x(ours.plan(where).to_arrow()) == by_x(theirs.where(where).toArrow())
    assert ours.plan().count() == theirs.count()


def test_types_and_values(spark, tmp_path):
    for i, texts in enumerate(TEXTS):
        root = tree(tmp_path / str(i), texts)
        theirs, ours = spark.read.parquet(root.as_uri()).toArrow(), ss.scan_hive(root)
        assert ours.schema.field("k").type == theirs.schema.field("k").type, texts
        assert by_x(ours.plan().to_arrow()) == by_x(theirs), texts
        for row in theirs.to_pylist():  # each value matches its row
            if row["k"] is not None:
                assert row["x"] in ours.plan(ss.col("k") == row["k"]).to_arrow()["x"].to_pylist(), (
                    texts
                )


@pytest.mark.parametrize("setting, options", [("true", {}), ("false", {"infer_types": False})])
def test_inference_can_be_turned_off(spark, tmp_path, setting, options):
    root = tree(tmp_path / "t", ["01", "2", "2013-01-01"][:2])
    name = "spark.sql.sources.partitionColumnTypeInference.enabled"
    before = spark.conf.get(name)
    spark.conf.set(name, setting)
    try:
        theirs = spark.read.parquet(root.as_uri()).toArrow()
    finally:
        spark.conf.set(name, before)
    ours = ss.scan_hive(root, **options)
    assert ours.schema.field("k").type == theirs.schema.field("k").type
    assert by_x(ours.plan().to_arrow()) == by_x(theirs)


WHERE = [
    "a = 2",
    "a <=> NULL",
    "b > DATE '2024-01-01'",
    "a = 1 AND x >= 5",
    "c = 'p/q' OR x < 3",
    "NOT (a = 1) AND c IS NOT NULL",
    "t >= TIMESTAMP '2024-01-01 06:00:00'",
]


def test_trees_that_spark_writes(spark, tmp_path):
    columns = """id x, IF(id % 5 = 0, NULL, id % 3) a,
                 DATE '2024-01-01' + CAST(id % 2 AS INT) b,
                 IF(id % 7 = 0, NULL, IF(id % 2 = 0, 'p/q', 'r é')) c,
                 TIMESTAMP '2024-01-01 00:00:00'
                 + MAKE_DT_INTERVAL(0, CAST(id % 2 * 12 AS INT)) t"""
    path = tmp_path / "t"
    spark.sql(f"SELECT {columns} FROM range(60)").coalesce(1).write.partitionBy(
        "a", "b", "c", "t"
    ).parquet(str(path))
    frame = spark.read.parquet(str(path))
    saved = ss.scan_hive(path).save_stats(tmp_path / "stats")
    tables = ss.scan_hive(path), ss.scan_hive(path, stats=saved), ss.scan_parquet(path)
    for where in WHERE:
        theirs = sorted(frame.where(where).select("x").toArrow()["x"].to_pylist())
        for table in tables:
            assert sorted(table.plan(where).to_arrow()["x"].to_pylist()) == theirs, where
    ss.scan_hive(path).save_stats()  # beside the data, where Spark ignores it
    assert spark.read.parquet(str(path)).count() == 60
