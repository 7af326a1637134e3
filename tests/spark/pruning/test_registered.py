"""Registered statistics: scans are judged by them, and no row is lost where they are wrong."""

import os
import time
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

import skipstone as ss
from skipstone.spark import (
    prune,
    pruned,
    register_statistics,
    registered_statistics,
    unregister_statistics,
)
from tests.support.spark.automatic import again, automatic, enabled
from tests.support.spark.opened import files_opened
from tests.support.spark.pruned_conditions import WHERE
from tests.support.spark.reads import SCHEMA, rows_of, write_files
from tests.support.spark.session import QUIET, SPARK_4

pytestmark = pytest.mark.filterwarnings(QUIET)
FILES, ROWS = 6, 10


@pytest.fixture(autouse=True)
def none_left():
    yield
    for one in registered_statistics():
        unregister_statistics(one.path)


def put(file, k, **more):
    """Write a file without statistics in its footer, so that only registered ones can prune."""
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"k": k, **more}), file, write_statistics=False)


@pytest.fixture
def lake(tmp_path):
    """Write 6 files of 10 rows, k ascending, in 2 partitions; one name has odd characters."""
    for i in range(FILES):
        name = "odd %20 name.parquet" if i == 5 else f"{i}.parquet"
        k = np.arange(i * ROWS, (i + 1) * ROWS)
        put(tmp_path / "t" / f"g={i % 2}" / name, k, v=k % 7)
    return tmp_path / "t"


def files_of(lake):
    """Return the files in the order of their values, wherever files were replaced."""
    return sorted(lake.rglob("[0-9o]*.parquet"), key=lambda f: f.name)


def about(lake, spell=str):
    """Return paths, sizes and times of files as a dictionary of columns."""
    files = files_of(lake)
    return {
        "path": [spell(f) for f in files],
        "size": [f.stat().st_size for f in files],
        "modification_time": [f.stat().st_mtime_ns // 10**6 for f in files],
    }


BOUNDS = {
    "k.min": pa.array([i * ROWS for i in range(FILES)]),
    "k.max": pa.array([i * ROWS + ROWS - 1 for i in range(FILES)]),
    "k.null_count": pa.array([0] * FILES),
    "row_count": pa.array([ROWS] * FILES),
}


def register(lake, drop=(), **other):
    columns = {**about(lake), **BOUNDS, **other}
    return register_statistics(
        str(lake), pa.table({k: v for k, v in columns.items() if k not in drop}), url_encoded=False
    )


def opened(spark, lake, where="k = 42", files=1):
    """Check the rows of a condition by `prune` and under `enable`, and the files that they open."""
    plain = spark.read.parquet(str(lake)).where(where)
    expected, found = rows_of(plain), prune(again(plain))
    assert rows_of(found) == expected
    assert files_opened(found, ran=True) == files, pruned(found)
    assert automatic(plain) == (expected, [files])
    return pruned(found)


# What is registered.


def test_what_is_registered_judges(spark, lake):
    one = register(lake)
    text = f"file:{lake}: 4 statistics of 6 files, checked by size and modification_time"
    assert str(one) == text and registered_statistics() == (one,)
    report = opened(spark, lake)
    by = "by registered statistics (checked by size and modification_time)"
    assert str(report).endswith(f"1 of 6 files, where k IS NOT NULL AND k = 42, {by}")
    opened(spark, lake, "k > 55 OR k < 5", 2)
    opened(spark, lake, "k > 100", 0)
    opened(spark, lake, "k IS NULL", 0)
    opened(spark, lake, "v = 3", 6)
    opened(spark, lake, "g = 1 AND k < 25", 1)  # Spark opens 3 of these
    opened(spark, lake, "k = 100 - g", 0)  # partition values are judged, too
    unregister_statistics(str(lake))
    assert " by " not in str(opened(spark, lake, files=6))


def uri(file):
    return "file://" + quote(str(file))


SPELLINGS = [
    (uri, True),
    (str, False),
    (lambda f: f"file:{f}", False),
    (lambda f: "/".join(f.parts[-2:]), False),  # relative
    (lambda f: quote("/".join(f.parts[-2:])), True),
]


@pytest.mark.parametrize(("spell", "url_encoded"), SPELLINGS)
def test_spellings_of_paths(spark, lake, spell, url_encoded):
    table = pa.table(about(lake, spell) | BOUNDS)
    register_statistics(f"{lake}/", table, url_encoded=url_encoded)
    opened(spark, lake, "k >= 50")


def test_forms(spark, lake, connect):
    """Structs, other names, DataFrames of both kinds, Statistics: all of them judge."""
    plain = spark.createDataFrame(pa.table(about(lake, uri) | BOUNDS).to_pandas())
    struct = plain.select(
        *about(lake),
        F.struct(F.col("`k.min`").alias("MIN"), F.col("`k.max`").alias("max")).alias("K"),
        F.expr("timestamp_millis(modification_time)").alias("changed"),
    )
    own = spark.read.parquet(str(lake)).groupBy("_metadata.file_path")
    own = own.agg(F.min("k").alias("lo"), F.max("k").alias("hi"), F.count("*").alias("row_count"))
    stats = ss.Statistics.from_dict(
        {"k": {"min": BOUNDS["k.min"], "max": BOUNDS["k.max"]}}, pa.schema([("k", pa.int64())])
    )
    remote = connect.createDataFrame(pa.table(about(lake, uri) | BOUNDS).to_pandas())
    for given, columns, more in [
        (plain, None, {}),
        (struct, None, {}),
        (struct, {"modification_time": "changed"}, {}),
        (own, {"path": "file_path", "k.min": "lo", "k.max": F.col("hi")}, {}),
        (remote, None, {}),
        (stats, None, {"about": pa.table(about(lake)), "url_encoded": False}),
    ]:
        register_statistics(lake, given, columns, **more)
        opened(spark, lake)
        assert len(registered_statistics()) == 1


def test_connect(spark, connect, lake):
    register(lake)
    plain = connect.read.parquet(str(lake)).where("k = 42")
    found = prune(plain)
    assert rows_of(found) == rows_of(plain)
    assert (pruned(found)[0].kept, pruned(found)[0].files) == (1, 6)
    assert "by registered statistics" in str(pruned(found))


def test_the_nearest_folder_judges(spark, lake):
    wrong = {"k.min": pa.array([1000] * FILES), "k.max": pa.array([1000] * FILES)}
    register(lake.parent, **wrong)
    register(lake)
    opened(spark, lake)
    put(lake.parent / "u" / "0.parquet", [1, 2])
    assert rows_of(prune(spark.read.parquet(str(lake.parent / "u")), "k = 2"))  # not registered
    parts = spark.read.parquet(f"{lake}/g=0", f"{lake}/g=1").where("k = 42")
    assert files_opened(prune(parts)) == 1
    # One of the roots has no registered folder: footers judge.
    both = spark.read.parquet(str(lake.parent / "u"), f"{lake}/g=1").where("k = 42")
    unregister_statistics(lake.parent)
    assert " by " not in str(pruned(prune(both)))


# What is not known, or no longer true, prunes nothing.


def test_files_that_came_later(spark, lake):
    register(lake)
    put(lake / "g=0" / "new.parquet", [42, 43], v=[0, 0])
    report = opened(spark, lake, files=2)
    assert "1 of 7 files are not registered or have changed" in str(report)


def test_files_that_were_replaced(spark, lake):
    register(lake)
    put(lake / "g=0" / "0.parquet", [42] * 50, v=[1] * 50)  # other size
    opened(spark, lake, files=2)
    put(lake / "g=0" / "0.parquet", list(range(10)), v=list(range(10)))
    register(lake, drop=["size"])
    other = lake / "g=1" / "1.parquet"
    time.sleep(0.01)
    put(other, [42] * 10, v=[2] * 10)
    assert "checked by modification_time; 1 of 6" in str(opened(spark, lake, files=2)).replace(
        ")", ""
    )
    register(lake, drop=["modification_time"])
    before = other.stat()
    put(other, [43] * 10, v=[2] * 10)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    if other.stat().st_size == before.st_size:  # size alone cannot tell
        assert "checked by size" in str(opened(spark, lake))


def test_a_dataframe_that_lives_on(spark, lake):
    """A file that is replaced after its list was made is read, as in plain Spark."""
    register(lake)
    df = spark.read.parquet(str(lake)).where("k = 42")
    found = prune(df)
    assert found.count() == 1
    put(lake / "g=0" / "0.parquet", [42] * 50, v=[1] * 50)
    assert prune(again(df)).count() == 51
    with enabled(spark):
        assert again(df).count() == 51


def test_a_build_side_that_was_replaced(spark, lake, tmp_path):
    """Keys are those of the files that are there, not of those that were registered."""
    for i in range(4):
        put(tmp_path / "d" / f"{i}.parquet", [i * 10], x=[i])
    bounds = {"x.min": pa.array(range(4)), "x.max": pa.array(range(4))}
    dim = spark.read.parquet(str(tmp_path / "d"))
    register_statistics(tmp_path / "d", pa.table(about(tmp_path / "d") | bounds))
    register(lake)
    df = spark.read.parquet(str(lake)).join(dim, "k").where("x = 1")
    for _ in range(2):
        expected = rows_of(df)
        assert automatic(df)[0] == expected and rows_of(prune(again(df))) == expected
        time.sleep(0.01)
        put(tmp_path / "d" / "3.parquet", [50, 51, 52, 53], x=[1, 1, 1, 1])
        assert automatic(df)[0] == rows_of(again(df))
        dim = spark.read.parquet(str(tmp_path / "d"))
        df = spark.read.parquet(str(lake)).join(dim, "k").where("x = 1")
    assert len(rows_of(df)) == 5


UNKNOWN = [
    ({"size": [None] * FILES}, FILES),
    ({"modification_time": pa.array([None] * FILES, pa.int64())}, FILES),
    ({"path": pa.array(["nothing"] * FILES)}, FILES),
    ({"path": pa.array([None] * FILES, pa.string())}, FILES),
    ({"k.min": pa.array([None] * FILES, pa.int64())}, 5),  # of k = 42, by the maximum alone
    ({"k.min": pa.array([str(i) for i in range(FILES)])}, 2),  # another type
    ({"k.min": pa.array([100] * FILES)}, FILES),  # above the maximum
    ({"k.max": pa.array([9.0] * FILES)}, 5),
]


@pytest.mark.parametrize(("other", "files"), UNKNOWN)
def test_what_is_unknown(spark, lake, other, files):
    register(lake, **other)
    if "k.min" in other and files == 5:
        files = 2  # files 4 and 5
    opened(spark, lake, files=files)


def test_two_rows_of_one_file(spark, lake):
    columns = about(lake) | BOUNDS
    table = pa.table(columns)
    wrong = table.slice(0, 1).set_column(4, "k.max", pa.array([3]))
    one = register_statistics(lake, pa.concat_tables([table, wrong]), url_encoded=False)
    assert one.files == 5
    opened(spark, lake, "k = 5", 1)
    opened(spark, lake, "k = 50", 2)


def test_without_size_and_time_the_caller_vouches(spark, lake):
    register(lake, drop=["size", "modification_time"])
    assert "without size or time, so the caller vouches for them" in str(opened(spark, lake))


def test_names(spark, lake, setting):
    """Names are resolved as the session does it, and a name for two columns means none."""
    upper = {f"K.{key[2:]}": BOUNDS[key] for key in ("k.min", "k.max")}
    register(lake, drop=["k.min", "k.max"], **upper)
    opened(spark, lake, "K = 42")
    register(lake, **{"K.max": pa.array([0] * FILES)})  # beside k.max
    opened(spark, lake, "k = 42", 5)
    setting("spark.sql.caseSensitive", "true")
    opened(spark, lake, "k = 42", 1)
    register(lake, drop=["k.min", "k.max", "k.null_count", "row_count"], **upper)
    opened(spark, lake, "k = 42", 6)


@SPARK_4
def test_collated_text_is_no_bound(spark, tmp_path):
    for i, text in enumerate(["B", "a"]):
        put(tmp_path / "t" / f"{i}.parquet", [text])
    stats = spark.sql(
        f"SELECT '{tmp_path}/t/' || n || '.parquet' path, lo COLLATE UNICODE_CI `k.min`, "
        "'b' COLLATE UNICODE_CI `k.max`, 1 row_count FROM VALUES (0, 'c'), (1, 'c') AS v(n, lo)"
    )
    one = register_statistics(tmp_path / "t", stats)
    assert one.statistics == ("row_count",)
    opened(spark, tmp_path / "t", "k = 'B'", 2)


# Tables and queries.


def test_tables_views_and_joins(spark, lake):
    spark.sql(f"CREATE TABLE reg (k BIGINT, v BIGINT, g INT) USING parquet PARTITIONED BY (g) "
              f"LOCATION '{lake}'")  # fmt: skip
    try:
        spark.sql("MSCK REPAIR TABLE reg")
        spark.sql("CREATE OR REPLACE TEMP VIEW small AS SELECT k, v FROM reg WHERE k < 20")
        register(lake)
        for query, files in [
            ("SELECT * FROM reg WHERE k = 42", [1]),
            ("SELECT * FROM small WHERE v = 1", [2]),
            ("SELECT * FROM small WHERE k >= 10", [1]),
            ("SELECT * FROM reg a JOIN reg b ON a.k = b.k WHERE a.k < 5 AND b.v < 9", [1, 1]),
            ("SELECT * FROM reg WHERE k < 5 UNION ALL SELECT * FROM reg WHERE k > 45", [1, 2]),
            ("SELECT * FROM reg WHERE k = (SELECT max(k) FROM small)", [2, 6]),
            ("SELECT * FROM reg WHERE g = 1 AND k < 30", [1]),
        ]:
            df = spark.sql(query)
            assert automatic(df) == (rows_of(again(df)), files), query
        with enabled(spark) as found:
            assert spark.sql("SELECT * FROM reg WHERE k = 42").count() == 1
            assert found().queries[-1].scans[0].by.startswith("registered statistics")
        # The table moves elsewhere: what is registered for the old place says nothing.
        put(lake.parent / "new" / "g=0" / "0.parquet", [42, 1], v=[1, 1])
        spark.sql("DROP TABLE reg")
        spark.sql(f"CREATE TABLE reg (k BIGINT, v BIGINT, g INT) USING parquet PARTITIONED BY (g) "
                  f"LOCATION '{lake.parent}/new'")  # fmt: skip
        spark.sql("MSCK REPAIR TABLE reg")
        df = spark.sql("SELECT * FROM reg WHERE k = 42")
        assert automatic(df)[0] == rows_of(again(df)) != []
    finally:
        spark.sql("DROP TABLE IF EXISTS reg")
        spark.catalog.dropTempView("small")


def test_aggregates_of_spark_as_statistics(spark, tmp_path):
    """Bounds of all types that Spark computed itself, odd values and NaN among them."""
    folder = write_files(str(tmp_path / "t"))
    t = spark.read.parquet(folder)
    names = [f.name for f in SCHEMA if not pa.types.is_nested(f.type) and "odd" not in f.name]
    stats = t.groupBy(
        F.col("_metadata.file_path").alias("path"),
        F.col("_metadata.file_size").alias("size"),
        F.col("_metadata.file_modification_time").alias("modification_time"),
    ).agg(
        F.count("*").alias("row_count"),
        *(F.min(n).alias(f"{n}.min") for n in names),
        *(F.max(n).alias(f"{n}.max") for n in names),
        *(F.count_if(F.col(n).isNull()).alias(f"{n}.null_count") for n in names),
    )
    assert register_statistics(folder, stats).files == 12
    fewer = 0
    for where, kept in [one for one in WHERE if "st." not in one[0] and "odd" not in one[0]][::6]:
        found, plain = prune(t, where), t.where(where)
        assert rows_of(found) == rows_of(plain), where
        for report in pruned(found):
            if kept < 11:
                assert report.kept <= kept + 1, (where, report)
                fewer += report.kept < 12
    assert fewer >= 10
