"""Queries of many forms return plain Spark's rows from fewer files, as Spark itself counts them."""

import pytest

from skipstone.bindings.spark.session.metrics import files_opened
from skipstone.spark import prune, pruned
from tests.support.effort import LONG
from tests.support.spark.reads import rows_of, write_files
from tests.support.spark.session import QUIET

pytestmark = pytest.mark.filterwarnings(QUIET)

#    query; files that each of its scans opens, in ascending order; marked cases always run
QUERIES = [
    ("*", "SELECT * FROM t WHERE i = 42", (2,)),
    ("", "SELECT i, s FROM t WHERE i BETWEEN 10 AND 12 AND s LIKE 'b%'", (2,)),
    ("", "SELECT count(*) FROM t WHERE d >= DATE '2024-09-01'", (3,)),
    ("*", "SELECT b, sum(i), max(s) FROM t WHERE i < 30 GROUP BY b HAVING count(*) > 1", (4,)),
    ("", "SELECT DISTINCT b FROM t WHERE l > 500000000000", (6,)),
    ("*", "SELECT i FROM t WHERE i < 50 ORDER BY i DESC LIMIT 5", (6,)),
    ("", "SELECT i FROM t ORDER BY i LIMIT 3", (0,)),
    ("", "SELECT i, row_number() OVER (PARTITION BY b ORDER BY i) FROM t WHERE i > 60 AND i < 80",
     (3,)),
    ("*", "SELECT a.i, b.s FROM t a JOIN t b ON a.i = b.i WHERE a.i < 20 AND b.s > 'a'", (3, 3)),
    ("*", "SELECT a.i, b.i FROM t a JOIN t b ON a.i = b.i - 50 WHERE a.i < 20 AND b.i > 60",
     (3, 5)),
    ("", "SELECT a.i, b.i FROM t a LEFT JOIN t b ON a.i = b.i AND b.i < 15 WHERE a.i < 25", (3, 4)),
    ("", "SELECT a.i, b.i FROM t a FULL JOIN t b ON a.i = b.i AND b.i < 15", (12,)),
    # also by the keys
    ("", "SELECT i FROM t a LEFT SEMI JOIN dim ON a.i = dim.k WHERE a.i > 40", (1, 4)),
    ("", "SELECT i FROM t a LEFT ANTI JOIN dim ON a.i = dim.k WHERE a.i > 40", (1, 7)),
    ("", "SELECT t.i, dim.label FROM t JOIN dim ON t.i = dim.k WHERE dim.label = 'k42'", (1, 2)),
    ("", "SELECT t.i FROM t CROSS JOIN dim WHERE t.i = 5 AND dim.k > 50", (1, 2)),
    ("*", "SELECT i FROM t WHERE i < 10 UNION ALL SELECT i FROM t WHERE i >= 80", (2, 3)),
    ("", "SELECT i FROM t WHERE i < 10 UNION SELECT k FROM dim WHERE k > 40", (1, 2)),
    ("", "SELECT i FROM t WHERE i < 35 INTERSECT SELECT i FROM t WHERE i > 25", (5, 9)),
    ("", "SELECT i FROM t WHERE i < 35 EXCEPT SELECT i FROM t WHERE i > 25", (4,)),
    ("*",
     "WITH c AS (SELECT i, s FROM t WHERE i < 60) SELECT a.i FROM c a JOIN c b ON a.i = b.i WHERE "
     "a.i > 50 AND b.s > 'a'", (2, 2)),
    ("*",
     "WITH c AS (SELECT * FROM t) SELECT count(*) FROM c WHERE i < 10 UNION ALL SELECT count(*) "
     "FROM c WHERE i > 70", (5, 5)),
    ("",
     "WITH c AS (SELECT i, rand(3) r FROM t WHERE i < 30) SELECT count(*) FROM c a JOIN c b ON "
     "a.i = b.i AND a.r = b.r", (4,)),
    ("*", "SELECT i FROM t WHERE i = (SELECT max(k) FROM dim WHERE k < 45)", (1, 11)),
    ("*", "SELECT i FROM t WHERE i < 50 AND i > (SELECT min(i) FROM t WHERE i > 30)", (6, 8)),
    ("", "SELECT (SELECT max(i) FROM t WHERE i < 20), (SELECT min(i) FROM t WHERE i > 70)", (3, 4)),
    ("", "SELECT i FROM t WHERE i IN (SELECT k FROM dim) AND i < 30", (1, 4)),
    ("", "SELECT i FROM t WHERE i NOT IN (SELECT k FROM dim WHERE k IS NOT NULL) AND i < 30",
     (1, 4)),
    ("", "SELECT i FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE b.i = a.i + 1 AND b.i < 20)",
     (3, 12)),
    ("",
     "SELECT i FROM t a WHERE i < (SELECT avg(i) FROM t b WHERE b.b = a.b AND b.i < 40) AND i > 5",
     (4, 10)),
    ("", "SELECT i FROM (SELECT i, s FROM t WHERE i > 20) WHERE i < 30", (2,)),
    ("", "SELECT z FROM (SELECT i + 1 AS z, s FROM t) WHERE z = 43", (2,)),
    ("", "SELECT i, explode(arr) e FROM t WHERE i = 42", (2,)),
    ("", "SELECT st.c FROM t WHERE st.a = 42", (1,)),
    ("", "SELECT _metadata.file_size > 0, x FROM bt WHERE x = 42", (0,)),
    ("", "SELECT i FROM small WHERE b", (1,)),
    ("", "SELECT i FROM t TABLESAMPLE (100 PERCENT) WHERE i = 42", (0,)),
    ("*", "SELECT * FROM pt WHERE p = 1 AND x < 120", (0,)),
    ("", "SELECT * FROM pt WHERE x BETWEEN 100 AND 130", (1,)),
    ("*", "SELECT * FROM pt WHERE p = 1", (0,)),
    ("", "SELECT p, q, count(*) FROM pt WHERE q = 'a b' AND x > 500 GROUP BY p, q", (2,)),
    ("", "SELECT * FROM pt WHERE q IS NULL AND x % 2 = 0 AND x > 300", (1,)),
    ("", "SELECT * FROM pt WHERE (p = 0 AND x < 30) OR (p = 2 AND x > 500)", (2,)),
    ("", "SELECT pt.x FROM pt JOIN dim ON pt.p = dim.k WHERE dim.label = 'k1' AND pt.x > 230", ()),
    ("*", "SELECT * FROM bt WHERE x < 50", (6,)),
    ("", "SELECT a.x FROM bt a JOIN bt b ON a.x = b.x WHERE a.x < 50", (6, 6)),
    ("*", "SELECT * FROM pathpt WHERE day = DATE '2024-01-02' AND x > 40", (0,)),
    ("", "SELECT * FROM pathpt WHERE x > 150 AND code = 7", (0,)),
    ("", "SELECT count(*) FROM t WHERE FALSE", ()),
    ("", "SELECT count(*) FROM t", (12,)),
]  # fmt: skip


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    root = tmp_path_factory.mktemp("lake of #1 %41 ü")
    spark.read.parquet(write_files(str(root / "t"))).createOrReplaceTempView("t")
    spark.sql("CREATE OR REPLACE TEMP VIEW small AS SELECT i, b, s FROM t WHERE i < 15")
    spark.sql("SELECT id * 7 k, 'k' || (id * 7) label FROM range(10)").coalesce(1).write.parquet(
        str(root / "dim")
    )
    spark.read.parquet(str(root / "dim")).createOrReplaceTempView("dim")
    values = (
        "id x, CAST(id DIV 200 AS INT) p, CASE id DIV 100 % 3 WHEN 0 THEN 'a b' WHEN 1 THEN "
        "'c/d=%' END q"
    )
    spark.sql(
        "CREATE TABLE pt USING parquet PARTITIONED BY (p, q) LOCATION "
        f"'{(root / 'pt').as_uri()}' AS SELECT {values} FROM range(600) WHERE id % 50 < 40"
    )
    spark.sql("INSERT INTO pt SELECT id x, 1 p, 'a b' q FROM range(900, 910)")
    spark.sql(
        "CREATE TABLE bt USING parquet CLUSTERED BY (x) SORTED BY (x) INTO 3 BUCKETS "
        f"LOCATION '{(root / 'bt').as_uri()}' AS SELECT id x FROM range(40)"
    )
    spark.sql("INSERT INTO bt SELECT id x FROM range(100, 140)")
    days = "id x, DATE '2024-01-01' + CAST(id DIV 50 AS INT) day, CAST(id DIV 100 + 7 AS INT) code"
    for start in (0, 100):
        frame = spark.sql(f"SELECT {days} FROM range({start}, {start + 100})")
        for half in ("x % 50 < 25", "x % 50 >= 25"):
            frame.where(half).coalesce(1).write.mode("append").partitionBy("day", "code").parquet(
                str(root / "pathpt")
            )
    spark.read.parquet(str(root / "pathpt")).createOrReplaceTempView("pathpt")
    yield root
    for table in ("pt", "bt"):
        spark.sql(f"DROP TABLE {table}")
    for view in ("t", "small", "dim", "pathpt"):
        spark.catalog.dropTempView(view)


USUAL = [(sql, files) for mark, sql, files in QUERIES if mark or LONG]


@pytest.mark.parametrize("sql, files", USUAL, ids=[sql for sql, _ in USUAL])
def test_rows_and_files(sql, files, spark, lake):
    plain = spark.sql(sql)
    small = prune(plain)
    assert rows_of(small) == rows_of(plain), pruned(small)
    assert small.schema == plain.schema
    assert sorted(files_opened(small)) == list(files) and sum(files) <= sum(files_opened(plain))
