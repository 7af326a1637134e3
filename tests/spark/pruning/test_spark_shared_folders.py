"""Partitions of a catalog's table whose folders lie elsewhere, or are those of other partitions."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone.spark as sks
from tests.support.spark.automatic import again, enabled, require_answers
from tests.support.spark.reads import rows_of
from tests.support.spark.session import QUIET

pytestmark = pytest.mark.filterwarnings(QUIET)


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    """Make `shared`, whose two partitions have one folder, and `apart`, whose two have others.

    Neither has a file in its own folder. `fact` has keys of both.
    """
    root = tmp_path_factory.mktemp("folders")
    for folder in ("one", "two"):
        for x in ([5, 6], [50, 60]):
            (root / folder).mkdir(exist_ok=True)
            values = {"x": pa.array(x, pa.int64())}
            pq.write_table(pa.table(values), root / folder / f"{x[0]}.parquet")
    (root / "fact").mkdir()
    for v in range(8):
        values = {"v": pa.array([v * 10, v * 10 + 5], pa.int64())}
        pq.write_table(pa.table(values), root / "fact" / f"{v}.parquet")
    spark.read.parquet(str(root / "fact")).createOrReplaceTempView("fact")
    for name, folders in (("shared", ("one", "one")), ("apart", ("one", "two"))):
        spark.sql(
            f"CREATE TABLE {name} (x BIGINT, p INT) USING parquet PARTITIONED BY (p) "
            f"LOCATION '{(root / name).as_uri()}'"
        )
        for p, folder in enumerate(folders, 1):
            place = (root / folder).as_uri()
            spark.sql(f"ALTER TABLE {name} ADD PARTITION (p = {p}) LOCATION '{place}'")
    yield
    for name in ("shared", "apart"):
        spark.sql(f"DROP TABLE {name}")
    spark.catalog.dropTempView("fact")


QUERIES = [
    "SELECT * FROM {} WHERE x = 5 OR p = 2",
    "SELECT * FROM {} WHERE (x = 5 AND p = 1) OR (x = 60 AND p = 2)",
    "SELECT * FROM {} WHERE x + p = 7",
    "SELECT * FROM {} WHERE x = 5 AND p = 2",
    "SELECT * FROM {} WHERE p = 1 UNION ALL SELECT * FROM {} WHERE x = 50",
    "SELECT * FROM {} WHERE p = 1 AND x > 9 UNION ALL SELECT * FROM {} WHERE x = 5",
    "SELECT * FROM {} WHERE p = 1 EXCEPT SELECT * FROM {} WHERE x = 50",
    "SELECT * FROM {} a JOIN {} b USING (x) WHERE a.p = 1 AND b.x < 9",
    "WITH c AS (SELECT * FROM {}) SELECT * FROM c WHERE p = 2 UNION ALL SELECT * FROM c"
    " WHERE x = 50",
    "SELECT v, x, p FROM fact JOIN {} ON v = x WHERE x + p = 7",
    "SELECT v, x, p FROM fact JOIN {} ON v = x WHERE (x = 5 AND p = 1) OR (x = 60 AND p = 2)",
    "SELECT v, x, p FROM fact JOIN {} ON v = 5 * p WHERE x = 5",
    "SELECT * FROM {} WHERE x IN (SELECT v FROM fact WHERE v > 45) AND p * x > 9",
]


@pytest.mark.parametrize("table", ["shared", "apart"])
@pytest.mark.parametrize("query", QUERIES)
def test_queries(spark, tables, table, query):
    plain = spark.sql(query.replace("{}", table))
    expected = rows_of(plain)
    assert expected
    small = sks.prune(again(plain))
    assert rows_of(small) == expected, sks.pruned(small)
    with enabled(spark) as found:
        assert rows_of(again(plain)) == expected
        require_answers(found())


def test_files_are_counted_where_they_are_read(spark, tables):
    df = spark.table("shared")
    found = sks.pruned(sks.prune(df.where("(x = 5 AND p = 1) OR (x = 60 AND p = 2)")))
    assert (found.kept, found.files) == (4, 4)  # both partitions need one of the two files
    found = sks.pruned(sks.prune(df.where("x = 5")))
    assert (found.kept, found.files) == (2, 4)
    found = sks.pruned(sks.prune(spark.table("apart").where("x = 5 OR (x = 60 AND p = 2)")))
    assert (found.kept, found.files) == (3, 4)


MOVED = [
    ("p = 1 OR x > 90", "ALTER TABLE moved PARTITION (p = 1) SET LOCATION '{two}'", [50]),
    ("p = 3 OR x = 5", "ALTER TABLE moved ADD PARTITION (p = 3) LOCATION '{two}'", [5, 50]),
    ("p = 9 OR x > 90", "ALTER TABLE moved ADD PARTITION (p = 9) LOCATION '{two}'", [50]),
]


@pytest.mark.parametrize("condition, change, expected", MOVED)
def test_folders_that_move_to_other_partitions(spark, tmp_path, condition, change, expected):
    """A folder that was left out is read if it now belongs to a partition that may match."""
    folders = {name: (tmp_path / name).as_uri() for name in ("one", "two")}
    for name, x in (("one", 5), ("two", 50)):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"x": pa.array([x], pa.int64())}), tmp_path / name / "0.parquet")
    spark.sql(
        "CREATE TABLE moved (x BIGINT, p INT) USING parquet PARTITIONED BY (p) "
        f"LOCATION '{(tmp_path / 'moved').as_uri()}'"
    )
    try:
        for p, name in enumerate(folders, 1):
            spark.sql(f"ALTER TABLE moved ADD PARTITION (p = {p}) LOCATION '{folders[name]}'")
        query = f"SELECT x FROM moved WHERE {condition}"
        plain, small = spark.sql(query), sks.prune(spark.sql(query))
        with enabled(spark):
            planned = spark.sql(query)
            planned._jdf.queryExecution().executedPlan()
        assert sks.pruned(small).kept < 2
        spark.sql(change.format(**folders))
        found = [sorted({row.x for row in df.collect()}) for df in (plain, small, planned)]
        assert found == [expected] * 3
        assert len(small.inputFiles()) == len(expected)
    finally:
        spark.sql("DROP TABLE moved")
