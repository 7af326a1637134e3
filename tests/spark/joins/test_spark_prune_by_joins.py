"""Star joins that `prune` finds by itself: plain Spark's rows, from the files that the keys keep.

Spark itself counts the files.
"""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skipstone.spark import prune, prune_join, pruned
from tests.support.effort import LONG
from tests.support.spark.automatic import EAGER, automatic, settings
from tests.support.spark.compare import same_opened as same
from tests.support.spark.reads import rows_of, write_files
from tests.support.spark.session import QUIET, SPARK_4

pytestmark = pytest.mark.filterwarnings(QUIET)

#    query; files that each of its scans opens, in ascending order; marked cases always run.
#    fact has twelve files (see `tests/support/spark/reads.py`); d, e and nulls have one.
QUERIES = [
    # Which joins.
    ("*", "SELECT id FROM fact, d WHERE i = k AND k IN (5, 42, 43)",                       (1, 3)),
    ("",  "SELECT id FROM fact JOIN d ON i = k AND lab = 'x42'",                           (1, 2)),
    ("*", "SELECT id FROM fact WHERE i IN (SELECT k FROM d WHERE lab LIKE 'x4%')",         (1, 3)),
    ("", "SELECT id FROM fact WHERE EXISTS (SELECT 1 FROM d WHERE k = i AND q = 3 AND k < 20)",
     (1, 3)),
    ("*", "SELECT d.k, id FROM d LEFT JOIN fact ON i = k WHERE q = 3 AND k < 20",          (1, 3)),
    ("",  "SELECT d.k, id FROM fact RIGHT JOIN d ON i = k WHERE q = 3 AND k < 20",         (1, 3)),
    ("",  "SELECT d.k, id FROM fact LEFT JOIN d ON i = k AND lab = 'x42'",                 (1, 12)),
    ("", "SELECT d.k, id FROM fact FULL JOIN (SELECT * FROM d WHERE lab = 'x42') d ON i = k",
     (1, 12)),
    ("*", "SELECT id FROM fact WHERE NOT EXISTS (SELECT 1 FROM d WHERE k = i AND k < 15)", (1, 11)),
    # the join has a further condition
    ("", "SELECT id FROM fact WHERE NOT EXISTS (SELECT 1 FROM d WHERE k = i AND k < 15 AND q < id)",
     (1, 12)),
    ("",  "SELECT id FROM fact WHERE i NOT IN (SELECT k FROM d WHERE k < 15)",             (1, 12)),
    # only matching rows of the fact table matter
    ("*", "SELECT k FROM d WHERE lab LIKE 'x4%' AND NOT EXISTS (SELECT 1 FROM fact WHERE i = k)",
     (1, 3)),
    ("", "SELECT id FROM fact WHERE id = 3 OR EXISTS (SELECT 1 FROM d WHERE k = i AND lab = 'x42')",
     (1, 12)),
    ("",  "SELECT id FROM fact JOIN d ON i > k AND lab = 'x42'",                           (1, 11)),
    ("",  "SELECT id, (SELECT max(lab) FROM d WHERE k = i AND lab LIKE 'x4%') FROM fact",  (1, 12)),
    # How keys are compared.
    ("*", "SELECT id FROM fact JOIN nulls ON i <=> k WHERE v = 1",                         (1, 4)),
    ("",  "SELECT id FROM fact JOIN nulls ON i = k WHERE v = 1",                           (1, 2)),
    ("",  "SELECT id FROM fact JOIN nulls ON g <=> x WHERE v = 1",                         (1, 12)),
    # NaN: every file of floats may hold it
    ("*", "SELECT id FROM fact JOIN nulls ON g = x WHERE v = 1",                           (1, 11)),
    # -0.0
    ("",  "SELECT id FROM fact JOIN nulls ON f = x WHERE v = 2",                           (1, 2)),
    ("*", "SELECT id FROM fact JOIN u USING (i) WHERE lab = 'x42'",                        (1, 2)),
    ("",  "SELECT id FROM fact NATURAL JOIN (SELECT k AS i FROM d WHERE lab = 'x42')",     (1, 2)),
    ("",  "SELECT id FROM fact JOIN d ON I = K WHERE LAB = 'x42'",                         (1, 2)),
    # computed on the fact's side
    ("*", "SELECT id FROM fact JOIN d ON i * 2 = k WHERE lab = 'x42'",                     (1, 11)),
    # on the dimension's side
    ("",  "SELECT id FROM fact JOIN d ON i = k * 2 + 2 WHERE lab = 'x20'",                 (1, 2)),
    ("", "SELECT id FROM fact JOIN (SELECT k + 1 AS z, lab FROM d) ON i = z WHERE lab = 'x41'",
     (1, 2)),
    ("",  "SELECT id FROM fact JOIN d ON l = k * 10000000000L WHERE lab = 'x42'",          (1, 2)),
    # decimals of different scales
    ("",  "SELECT id FROM fact JOIN d ON m = k / 4 WHERE lab = 'x42'",                     (1, 1)),
    ("", "SELECT id FROM fact JOIN d ON CAST(i AS STRING) = CAST(k AS STRING) WHERE lab = 'x42'",
     (1, 11)),
    ("",  "SELECT id FROM fact JOIN d ON i = k AND s = d.t WHERE q = 3 AND k < 20",        (1, 3)),
    ("",  "SELECT id FROM fact JOIN d ON i = k AND s > lab WHERE q = 3 AND k < 20",        (1, 3)),
    ("",  "SELECT id FROM fact JOIN d ON st.a = k WHERE lab = 'x42'",                      (1, 10)),
    # Operators between the join and the scan.
    ("*",
     "SELECT i, n FROM (SELECT i, count(*) n FROM fact GROUP BY i) JOIN d ON i = k WHERE lab = "
     "'x42'", (1, 2)),
    ("", "SELECT b, n FROM (SELECT b, max(i) n FROM fact GROUP BY b) JOIN d ON n = k WHERE k < 50",
     (1, 12)),
    ("*",
     "SELECT z FROM (SELECT i z FROM fact UNION ALL SELECT 4 UNION ALL SELECT i FROM fact WHERE "
     "id < 30) JOIN d ON z = k WHERE k IN (4, 42)", (1, 1, 3)),
    ("", "SELECT z FROM (SELECT DISTINCT i z FROM fact) JOIN d ON z = k WHERE lab = 'x42'", (1, 2)),
    ("",
     "SELECT z FROM (SELECT i z FROM fact ORDER BY i, id LIMIT 60) JOIN d ON z = k WHERE lab = "
     "'x42'", (1, 12)),
    ("",
     "SELECT z, n FROM (SELECT i z, row_number() OVER (ORDER BY id) n FROM fact) JOIN d ON z = k "
     "WHERE lab = 'x42'", (1, 12)),
    ("",
     "SELECT z FROM (SELECT i z, rand(1) r FROM fact) JOIN d ON z = k WHERE lab = 'x42' AND r < 2",
     (1, 12)),
    # the fact table is filtered, too
    ("*", "SELECT count(*) FROM fact JOIN d ON i = k WHERE q = 3 AND id < 40 AND s LIKE 'b%'",
     (1, 1)),
    ("",
     "SELECT (SELECT count(*) FROM fact JOIN d ON i = k WHERE lab = 'x42'), (SELECT max(k) FROM d)",
     (1, 1, 2)),
    # a view
    ("",  "SELECT id FROM seen JOIN d ON z = k WHERE lab = 'x42'",                         (1, 2)),
    # Several joins.
    ("", "SELECT id FROM fact JOIN d ON i = d.k JOIN e ON s = e.t WHERE d.k < 40 AND e.q = 3",
     (1, 1, 5)),
    # a chain
    ("*",
     "SELECT id FROM fact JOIN d ON i = d.k JOIN e ON d.q = e.k JOIN d c ON e.q = c.k WHERE c.lab "
     "= 'x3' AND d.k < 20", (1, 1, 1, 3)),
    ("",
     "SELECT id FROM fact JOIN (SELECT d.k FROM d JOIN e ON d.k = e.k WHERE e.lab = 'x42') ON i = "
     "k", (1, 1, 2)),
    ("", "SELECT d.k, id FROM d LEFT JOIN fact ON i = d.k JOIN e ON d.k = e.k WHERE e.lab = 'x42'",
     (1, 1, 2)),
    ("",  "SELECT a.id FROM fact a JOIN fact b ON a.i = b.i WHERE b.id BETWEEN 40 AND 43", (1, 2)),
    ("", "SELECT a.id FROM fact a JOIN d ON a.i = d.k JOIN fact b ON b.i = a.i WHERE lab = 'x42'",
     (1, 2, 2)),
    ("",
     "WITH c AS (SELECT id, i FROM fact) SELECT a.id FROM c a JOIN d ON a.i = k AND lab = 'x42' "
     "JOIN c b ON a.id = b.id + 50", (1, 12, 12)),
    ("",
     "WITH c AS (SELECT id, i FROM fact) SELECT count(*) FROM c JOIN d ON i = k WHERE lab = 'x42' "
     "UNION ALL SELECT count(*) FROM c JOIN d ON i = k WHERE lab = 'x5'", (1, 1, 3, 3)),
    # The dimension.
    ("", "SELECT id FROM fact JOIN (SELECT k FROM d WHERE rand(3) < 0.9 AND lab = 'x42') ON i = k",
     (1, 11)),
    ("",  "SELECT id FROM fact JOIN (SELECT k FROM d WHERE lab = 'x42' LIMIT 1) ON i = k", (1, 11)),
    ("",  "SELECT id FROM fact JOIN (SELECT max(k) k FROM d WHERE q = 3) ON i = k",        (1, 11)),
    ("", "SELECT id FROM fact JOIN d ON i = k WHERE q = (SELECT min(q) FROM d)", (1, 1, 11)),
    ("",
     "SELECT id FROM fact JOIN d ON i = k WHERE q = 3 AND DATE '2024-01-01' < current_date() AND "
     "k < 20", (1, 3)),
    ("", "SELECT id FROM fact JOIN (SELECT DISTINCT k FROM d WHERE q = 3 AND k < 20) ON i = k",
     (1, 3)),
    ("",  "SELECT id FROM fact JOIN VALUES (5), (42), (NULL) AS v(k) ON i = k",            (3,)),
    ("",  "SELECT id FROM fact JOIN (SELECT id k FROM range(40, 43)) AS r ON i = r.k",     (2,)),
    # no key at all
    ("",  "SELECT id FROM fact JOIN d ON i = k WHERE lab = 'none'",                        ()),
    ("", "SELECT id FROM fact WHERE NOT EXISTS (SELECT 1 FROM d WHERE k = i AND lab = 'none')",
     (12,)),
    # its keys occur in every file
    ("",  "SELECT id FROM fact JOIN d ON i = k",                                           (1, 11)),
]  # fmt: skip
USUAL = [(sql, files) for mark, sql, files in QUERIES if mark or LONG]


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    root = tmp_path_factory.mktemp("star")
    spark.read.parquet(write_files(str(root / "fact"))).createOrReplaceTempView("fact")
    keys = np.arange(100, dtype=np.int32)
    texts = [f"{chr(97 + k // 10)}{k % 10:02} text" for k in range(100)]
    pq.write_table(
        pa.table({"k": keys, "q": keys % 7, "lab": [f"x{k}" for k in range(100)], "t": texts}),
        root / "d.parquet",
    )
    pq.write_table(pa.table({"i": keys, "lab": [f"x{k}" for k in range(100)]}), root / "u.parquet")
    odd = {
        "k": pa.array([5, None, None, 7], pa.int32()),
        "x": [float("nan"), None, -0.0, 0.5],
        "v": [1, 1, 2, 3],
    }
    pq.write_table(pa.table(odd), root / "nulls.parquet")
    for name, file in (("d", "d"), ("e", "d"), ("u", "u"), ("nulls", "nulls")):
        spark.read.parquet(str(root / f"{file}.parquet")).createOrReplaceTempView(name)
    spark.sql("CREATE OR REPLACE TEMP VIEW seen AS SELECT id, i AS z FROM fact")
    yield root
    for view in ("fact", "d", "e", "u", "nulls", "seen"):
        spark.catalog.dropTempView(view)


@pytest.mark.parametrize(("sql", "files"), USUAL, ids=[sql for sql, _ in USUAL])
def test_queries(sql, files, spark, lake):
    found, opened = same(spark.sql(sql))
    assert opened == files, found


# DataFrames.


def test_frames(spark, lake):
    from pyspark.sql import functions as F

    fact, d, nulls = (
        spark.table("fact"),
        spark.table("d").where("lab = 'x42'"),
        spark.table("nulls"),
    )
    few = fact.select("id", "i", "g").where("id >= 0")
    assert same(few.join(d, few.i == d.k))[1] == (1, 2)
    assert same(few.alias("a").join(d.alias("b"), F.col("a.i") == F.col("b.k"), "left_semi"))[
        1
    ] == (1, 2)
    assert same(d.join(few.groupBy("i").count(), d.k == F.col("i"), "left"))[1] == (1, 2)
    assert same(few.join(F.broadcast(nulls.where("v = 1")), few.i.eqNullSafe(nulls.k)))[1] == (1, 4)
    made = spark.createDataFrame(pa.table({"i": pa.array([5, 42, None], pa.int32())}))
    assert same(few.join(made, "i"))[1] == (3,)
    assert same(few.union(few.where("id > 900")).join(made, "i"))[1] in ((0, 3), (1, 3))
    joined = prune_join(few, d, {"i": "k"})
    assert same(joined.where("id > 0"))[1] == (1, 2)  # once more, with all conditions so far


def test_switches(spark, lake, monkeypatch):
    plain = spark.sql("SELECT id FROM fact JOIN d ON i = k WHERE lab = 'x42'")
    found = pruned(prune(plain))[0]
    assert (found.kept, found.files, found.rows) == (
        2,
        12,
        1,
    ) and "inner join, 1 distinct keys" in str(found)
    assert pruned(prune(plain, joins=False))[0].kept == 11
    monkeypatch.setenv("SKIPSTONE_DYNAMIC_FILTERING", "0")
    assert pruned(prune(plain))[0].kept == 11
    monkeypatch.delenv("SKIPSTONE_DYNAMIC_FILTERING")
    monkeypatch.setattr("skipstone.bindings.spark.pruning.prune_by_joins.MAX_JOBS", 0)
    assert pruned(prune(plain))[0].kept == 11


def test_connect(connect, spark, lake):
    """A client sees no plan, so joins are left alone."""
    fact, d = (
        connect.read.parquet(str(lake / "fact")),
        connect.read.parquet(str(lake / "d.parquet")),
    )
    joined = fact.select("id", "i").join(d.where("lab = 'x42'"), fact.i == d.k)
    assert rows_of(prune(joined)) == rows_of(joined)


def test_dataframes_that_stay_unpruned(spark, lake):
    """Dimensions that may have other rows each time are not used, and the report says so."""
    d = spark.table("d").where("k IN (5, 42)").select("k").cache()
    assert d.count() == 2
    found, opened = same(spark.table("fact").join(d, spark.table("fact").i == d.k).select("id"))
    assert opened == (11,) and "may have other rows" in str(found)
    d.unpersist()
    unsteady = spark.sql(
        "SELECT id FROM fact JOIN (SELECT k FROM d WHERE lab = 'x42' AND rand(5) < 0.9) ON i = k"
    )
    assert "may have other rows" in str(pruned(prune(unsteady)))
    broken = spark.sql(
        "SELECT id FROM fact JOIN (SELECT 1 DIV (k - 5) AS z FROM d WHERE k < 9) ON i = z"
    )  # computing it raises an error
    assert "cannot be collected" in str(pruned(prune(broken)))
    large = spark.sql(
        "SELECT a.id FROM fact a JOIN fact b ON a.i = b.i WHERE a.id % 2 = 0 AND b.id % 3 = 0"
    )
    assert "too large compared with it" in str(pruned(prune(large)))


@SPARK_4
def test_texts_with_other_equality(spark, lake, tmp_path):
    """Spark pads CHAR when it reads it; DISTINCT returns any of the texts a collation equates."""
    try:
        for name, kind, values in (
            ("chars", "CHAR(5)", "('ab'), ('zz')"),
            ("texts", "STRING COLLATE UTF8_LCASE", "('ab'), ('AB'), ('zz')"),
        ):
            spark.sql(
                f"CREATE TABLE {name} (s {kind}) USING parquet LOCATION "
                f"'{(tmp_path / name).as_uri()}'"
            )
            spark.sql(f"INSERT INTO {name} VALUES {values}")
        spark.sql("SELECT 'AB' s UNION ALL SELECT 'ab   '").coalesce(1).write.parquet(
            str(tmp_path / "keys")
        )
        spark.read.parquet(str(tmp_path / "keys")).createOrReplaceTempView("keys")
        for join in (
            "chars JOIN keys ON chars.s = keys.s",
            "chars JOIN keys ON chars.s = rtrim(keys.s)",
            "texts JOIN keys ON texts.s = keys.s COLLATE UTF8_LCASE",
        ):
            same(spark.sql(f"SELECT * FROM {join} WHERE keys.s > 'A'"))
        any_of_several = spark.sql(
            "SELECT id FROM fact JOIN (SELECT CAST(s AS STRING) s FROM (SELECT DISTINCT s "
            "FROM texts)) t ON fact.s = t.s WHERE t.s > 'a'"
        )
        assert "may have other rows" in str(same(any_of_several)[0])
    finally:
        for name in ("chars", "texts"):
            spark.sql(f"DROP TABLE IF EXISTS {name}")
        spark.catalog.dropTempView("keys")


# Dimensions that change.


@pytest.mark.parametrize("name", ["k", "K"])
@pytest.mark.parametrize("sensitive", ["true", "false"])
def test_keys_that_the_files_spell_otherwise(spark, tmp_path, name, sensitive):
    """A case-sensitive Spark reads NULL for such a key, which `<=>` compares."""
    for i, keys in enumerate(([1, 2], [10, None], [20, 21])):
        rows = {"k": pa.array(keys * 100, pa.int64()), "s": [f"{i} {j}" for j in range(200)]}
        pq.write_table(pa.table(rows), tmp_path / f"{i}.parquet")
    (tmp_path / "dim").mkdir()
    pq.write_table(pa.table({name: [1, 20], "x": [5, 5]}), tmp_path / "dim" / "0.parquet")
    spark.read.parquet(*map(str, tmp_path.glob("*.parquet"))).createOrReplaceTempView("facts")
    dim = spark.read.schema("k BIGINT, x BIGINT").parquet(str(tmp_path / "dim"))
    with settings(spark, EAGER | {"spark.sql.caseSensitive": sensitive}):
        dim.createOrReplaceTempView("dim")
        for equal in ("=", "<=>"):
            df = spark.sql(f"SELECT * FROM facts f JOIN dim d ON f.k {equal} d.k WHERE d.x = 5")
            expected = rows_of(df)
            assert rows_of(prune(df)) == expected
            assert automatic(df)[0] == expected


def test_a_dimension_that_grows(spark, lake, tmp_path):
    """Files are left out while the files that the keys came from are unchanged."""
    try:
        spark.sql(
            f"CREATE TABLE grown USING parquet LOCATION '{(tmp_path / 'g').as_uri()}' AS "
            "SELECT 5 AS k, 'a' AS v"
        )
        fact, grown = spark.table("fact").select("id", "i"), spark.table("grown").where("v = 'a'")
        small, by_hand = (
            prune(fact.join(grown, fact.i == grown.k)),
            prune_join(fact, grown, {"i": "k"}),
        )
        again = prune(
            small.where("id >= 0").join(
                spark.table("d").where("q >= 0"), small.i == spark.table("d").k
            )
        )
        assert [pruned(df)[0].kept for df in (small, by_hand)] == [2, 2] and (
            small.count(),
            by_hand.count(),
            again.count(),
        ) == (1, 1, 1)
        spark.sql("INSERT INTO grown VALUES (42, 'a')")
        assert (
            small.count()
            == by_hand.count()
            == again.count()
            == 2
            == fact.join(grown, fact.i == grown.k).count()
        )
    finally:
        spark.sql("DROP TABLE IF EXISTS grown")


def test_a_dimension_that_is_replaced(spark, lake, tmp_path):
    path = tmp_path / "k.parquet"
    pq.write_table(pa.table({"k": pa.array([5], pa.int32()), "v": [1]}), path)
    fact, dim = spark.table("fact").select("id", "i"), spark.read.parquet(str(path)).where("v = 1")
    small = prune(fact.join(dim, fact.i == dim.k))
    assert pruned(small)[0].kept == 2 and small.count() == 1
    pq.write_table(pa.table({"k": pa.array([42], pa.int32()), "v": [1]}), path)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    assert (
        [row["id"] for row in small.collect()]
        == [row["id"] for row in fact.join(dim, fact.i == dim.k).collect()]
        == [42]
    )


# At random.

RELATIONS = (
    "(SELECT id x, i z FROM fact)", "(SELECT id x, i z FROM fact WHERE id < 60)",
    "(SELECT CAST(count(*) AS BIGINT) x, i z FROM fact GROUP BY i)",
    "(SELECT id x, i z FROM fact UNION ALL SELECT k, k FROM d WHERE q = 2)",
    "(SELECT CAST(k AS BIGINT) x, k z FROM d WHERE q = 3)",
    "(SELECT CAST(k AS BIGINT) x, k + 1 z FROM d WHERE k BETWEEN 20 AND 31)",
    "(SELECT v x, k z FROM nulls)",
    "(SELECT DISTINCT v x, k z FROM nulls WHERE v < 3)",
)  # fmt: skip


def _random(r, depth):
    """Return a random relation of x and z, made of joins of joins."""
    if not depth:
        return RELATIONS[r.integers(len(RELATIONS))]
    left, right = _random(r, depth - 1), _random(r, r.integers(depth))
    how = ("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN")[
        r.integers(7)
    ]
    on = (
        "a.z = b.z",
        "a.z <=> b.z",
        "a.x = b.z",
        "a.z = b.z AND a.x = b.x",
        "a.z = b.z AND a.x > b.x",
    )[r.integers(5)]
    columns = (
        "a.x, a.z"
        if how in ("SEMI JOIN", "ANTI JOIN")
        else ("a.x, b.z", "b.x, a.z", "a.x, a.z")[r.integers(3)]
    )
    where = ("", "", " WHERE a.x < 50", " WHERE a.z IS NOT NULL")[r.integers(4)]
    return f"(SELECT {columns} FROM {left} a {how} {right} b ON {on}{where})"


@pytest.mark.parametrize("seed", range(300 if LONG else 3))
def test_random(seed, spark, lake):
    same(
        spark.sql(
            "SELECT x, z, count(*) n FROM "
            f"{_random(np.random.default_rng(seed), 1 + seed % 3)} GROUP BY x, z"
        )
    )
