"""Pruned joins return the rows of the plain join from fewer files, as Spark itself counts them."""

import pytest

import skipstone as ss
from skipstone.bindings.spark.pruning.join_keys import watches_of
from skipstone.spark import prune, prune_join, pruned
from tests.support.spark.compare import KEYS
from tests.support.spark.compare import same_join as same
from tests.support.spark.reads import rows_of, write_files
from tests.support.spark.session import QUIET

pytestmark = pytest.mark.filterwarnings(QUIET)


@pytest.fixture(scope="module")
def fact(spark, tmp_path_factory):
    """Write twelve files; `tests/support/spark/reads.py` lists their content."""
    df = spark.read.parquet(write_files(str(tmp_path_factory.mktemp("join") / "t")))
    df.createOrReplaceTempView("fact")
    yield df
    spark.catalog.dropTempView("fact")


# Which side, which joins.

#    how, side of the fact table, keys, files kept of twelve
KINDS = [
    ("inner", "left", "(5), (42), (NULL)", 3),
    ("inner", "right", "(5), (42)", 3),
    ("semi", "left", "(5), (42)", 3),
    ("semi", "right", "(5), (42)", 3),  # only its matching rows matter
    ("right", "left", "(5), (42), (1000)", 3),
    ("left_outer", "right", "(5), (42), (1000)", 3),
    ("anti", "right", "(5), (42), (1000)", 3),
    ("left", "left", "(5)", None),
    ("right", "right", "(5)", None),
    ("full", "left", "(5)", None),
    ("full", "right", "(5)", None),
    (
        "anti",
        "left",
        ", ".join(f"({k})" for k in [*range(8), *range(30, 38), *range(90, 98)]),
        10,
    ),  # files 0 and 3; 9 and others have NULL
    ("anti", "left", "(CAST(NULL AS INT))", 12),
]


@pytest.mark.parametrize(("how", "side", "values", "kept"), KINDS, ids=str)
def test_kinds(spark, fact, how, side, values, kept):
    dim = spark.sql(KEYS.format(values))
    fact = fact.select("id", "i")
    joined = prune_join(fact, dim, {"i": "k"}, how, side=side)
    plain = (
        fact.join(dim, fact.i == dim.k, how)
        if side == "left"
        else dim.join(fact, fact.i == dim.k, how)
    )
    if kept is None:
        assert "needs all rows" in pruned(joined)[0].why
    else:
        same(joined, plain, (kept, 12))


#    column of the fact table, keys, files kept by an inner join, and by an anti join
TYPES = [
    ("i", "(42L), (1099511627776L)", 2, None),  # BIGINT keys; the column cannot hold one of them
    ("i", "('42'), ('5')", 3, None),
    ("i", "(42.0BD), (41.5BD)", 2, None),
    ("l", "(420000000000), (NULL)", 2, None),
    (
        "g",
        "(double('NaN')), (10.0)",
        11,
        None,
    ),  # every file may hold NaN, except the file of NULLs
    ("f", "(double('-0.0'))", 2, None),
    ("m", "(10.5BD), (10.50000BD)", 1, None),
    ("w", "(42000000000000000BD)", 1, None),
    ("s", "('a00 text'), ('')", 2, 12),
    ("y", "(X'613030207465787400'), (CAST('a01 text' AS BINARY))", 2, None),
    ("d", "(TIMESTAMP '2024-01-01 00:00:00')", 2, None),
    ("t", "(TIMESTAMP '2024-01-01 03:00:00.000001')", 2, None),
    ("b", "(true)", 5, 7),
    ("`odd ``name``.x`", "(42), (-1)", 2, 11),
]


@pytest.mark.parametrize(("column", "values", "kept", "left"), TYPES, ids=str)
def test_types(spark, fact, column, values, kept, left):
    from pyspark.sql import functions as F

    dim = spark.sql(KEYS.format(values))
    few = fact.select("id", F.col(column).alias("c"))
    same(prune_join(few, dim, {"c": "k"}), few.join(dim, few.c == dim.k), (kept, 12))
    if left is not None:
        same(
            prune_join(few, dim, {"c": "k"}, "anti"),
            few.join(dim, few.c == dim.k, "anti"),
            (left, 12),
        )


def test_further_casts_of_keys(spark, fact):
    """Such casts may make different values equal, so nothing is pruned by them."""
    few = fact.select("id", "i", "l")
    text, truth = spark.sql(KEYS.format("('42')")), spark.sql(KEYS.format("(true)"))
    for dim, on in (
        (text, few.i.cast("string") == text.k),
        (truth, few.l.cast("boolean") == truth.k),
    ):
        assert all(scan.keys == "" for scan in same(prune_join(few, dim, on), few.join(dim, on)))


# The fact table's side.


def test_conditions_on_the_fact_table(spark, fact):
    dim = spark.sql(KEYS.format("(5), (42), (75)"))
    joined = prune_join(
        fact.select("id", "i"), dim.withColumnRenamed("k", "i"), "i", where="i < 60"
    )
    same(
        joined,
        fact.select("id", "i").where("i < 60").join(dim.withColumnRenamed("k", "i"), "i"),
        (3, 12),
    )
    assert "where i IS NOT NULL AND i < 60" in str(
        pruned(joined)
    ) and "inner join, 3 distinct keys, 12 bytes" in str(pruned(joined))
    again = prune(joined.where("i > 20"))
    assert rows_of(again) == rows_of(joined.where("i > 20"))
    with pytest.raises(ss.PredicateError, match="expected names of keys"):
        prune_join(fact, dim, [])
    with pytest.raises(ss.PredicateError, match=r"null_safe is .*; expected True or False"):
        prune_join(fact, dim, "k", null_safe=["k"])
    with pytest.raises(ss.PredicateError, match="where is int"):
        prune_join(fact, dim, {"i": "k"}, where=5)
    with pytest.raises(ss.DynamicFilterError, match="expected one of"):
        prune_join(fact, dim, {"i": "k"}, "sideways")


#    the fact table, the keys, files kept
SHAPES = [
    ("SELECT id, i AS z FROM fact", "z", 3),  # J12
    ("SELECT id, i + 0 AS z FROM fact", "z", None),  # J09
    ("SELECT i AS z, sum(id) AS n FROM fact GROUP BY i", "z", 3),  # J15: a grouping key
    ("SELECT b, sum(i) AS z FROM fact GROUP BY b", "z", None),  # J15: an aggregate
    ("SELECT DISTINCT i AS z FROM fact WHERE id >= 0", "z", 3),
    ("SELECT id, i AS z, row_number() OVER (ORDER BY id) AS n FROM fact", "z", None),
    ("SELECT i AS z FROM fact ORDER BY i, id LIMIT 60", "z", None),
    ("SELECT id, i AS z FROM fact SEMI JOIN VALUES (5L), (42L), (75L) AS v(u) ON id = u", "z", 3),
    (
        "SELECT v.u, i AS z FROM VALUES (5L), (42L), (75L) AS v(u) LEFT JOIN fact ON id = u",
        "z",
        None,
    ),  # a lost row would become NULL, not disappear
    (
        "WITH c AS (SELECT id, i AS z FROM fact) SELECT a.id, b.z FROM c a JOIN c b ON a.z = b.z",
        "z",
        None,
    ),
]


@pytest.mark.parametrize(
    ("query", "key", "kept"), SHAPES, ids=lambda v: v if isinstance(v, str) else None
)
def test_shapes(spark, fact, query, key, kept):
    dim = spark.sql(KEYS.format("(5), (42)"))
    df = spark.sql(query)
    found = same(prune_join(df, dim, {key: "k"}), df.join(dim, df[key] == dim.k))
    assert any(scan.keys for scan in found) == (kept is not None), found
    assert kept is None or kept in (scan.kept for scan in found), found


def test_unions(spark, fact):
    """J13: the branch whose key is not a column keeps its rows."""
    dim = spark.sql(KEYS.format("(4), (42)"))
    df = spark.sql("SELECT 4 AS z, id FROM fact UNION ALL SELECT i, id FROM fact")
    found = same(prune_join(df, dim, {"z": "k"}, "semi"), df.join(dim, df.z == dim.k, "semi"))
    assert [scan.kept for scan in found] == [None, 3]


def test_several_keys(spark, fact):
    """Rows of several keys are compared as rows, and NULL is a key if equality is null-safe."""
    few = fact.select("id", "i", "s")
    dim = spark.sql("SELECT * FROM VALUES (5, 'c01 text'), (42, 'e02 text'), (42, NULL) AS d(i, s)")
    same(prune_join(few, dim, ["i", "s"]), few.join(dim, ["i", "s"]), (2, 12))
    safe = few.i.eqNullSafe(dim.i) & few.s.eqNullSafe(dim.s)
    same(prune_join(few, dim, ["i", "s"], null_safe=True), few.join(dim, safe), (2, 12))
    nulls = spark.sql("SELECT CAST(NULL AS INT) AS i, CAST(NULL AS STRING) AS s")
    same(
        prune_join(few, nulls, ["i", "s"], "semi", null_safe=True),
        few.join(nulls, few.i.eqNullSafe(nulls.i) & few.s.eqNullSafe(nulls.s), "semi"),
        (2, 12),
    )
    wide = spark.sql("SELECT id AS i, 'zzz' AS s FROM range(100)")
    more = (few.i == dim.i) & (few.s > dim.s)  # the join has a further condition
    same(prune_join(few, dim, more), few.join(dim, more), (3, 12))
    by = (few.i == wide.i) & (few.s > wide.s)
    same(prune_join(few, wide, by, "anti"), few.join(wide, by, "anti"))


# The dimension's side.


@pytest.mark.parametrize(
    ("query", "steady"),
    [
        ("SELECT i FROM fact WHERE s LIKE 'c%' AND i BETWEEN 20 AND 30", True),
        ("SELECT i, rand() FROM fact", False),
        ("SELECT CAST(floor(rand() * 90) AS INT) AS i FROM range(3)", False),
        ("SELECT i FROM fact LIMIT 3", False),
        ("SELECT monotonically_increasing_id() AS i FROM fact", False),
        ("SELECT i FROM fact WHERE t < current_timestamp()", False),
        ("SELECT max(i) AS i FROM fact", False),
        ("SELECT i FROM fact WHERE i = (SELECT max(i) FROM fact)", False),
    ],
)
def test_repeatable(spark, fact, query, steady):
    assert (watches_of(spark.sql(query)) is not None) == steady


def test_dimensions_that_differ_each_time(spark, fact):
    """Such dimensions are computed once: the collected keys are the joined keys."""
    few = fact.select("id", "i")
    for query in (
        "SELECT CAST(floor(rand() * 88) AS INT) AS k FROM range(1)",
        "SELECT i AS k FROM fact WHERE i BETWEEN 0 AND 87 ORDER BY rand() LIMIT 1",
    ):
        joined = prune_join(few, spark.sql(query), {"i": "k"}, "right")
        first = joined.collect()
        assert sorted(map(str, joined.collect())) == sorted(map(str, first))
        (key,) = {row["k"] for row in first}
        expected = few.where(f"i = {key}").collect()
        assert sorted((row["id"], row["i"]) for row in first if row["id"] is not None) == sorted(
            (row["id"], row["i"]) for row in expected
        ), key
        assert pruned(joined)[0].rows == 1
    broken = spark.sql("SELECT i DIV (i - 5) AS k FROM fact")  # computing it raises an error
    assert "keys cannot be collected" in pruned(prune_join(few, broken, {"i": "k"}))[0].why


def test_a_table_with_itself(spark, fact):
    few, dim = fact.select("id", "i"), fact.where("id BETWEEN 40 AND 43").select("i", "s")
    same(prune_join(few, dim, "i"), few.join(dim, "i"), (2, 12))
    swapped = prune_join(few, dim, "i", side="right")
    assert rows_of(swapped) == rows_of(dim.join(few, "i")) and [
        s.kept for s in pruned(swapped)
    ] == [1, 2]
    few, some = fact.select("id", "i"), spark.sql(KEYS.format("(5), (5), (NULL)")).limit(5)
    same(prune_join(few, some, few.i == some.k), few.join(some, few.i == some.k), (2, 12))


def test_many_keys(spark, fact):
    """Above the cap, tasks make ranges, which are merged; no partner is certain any more."""
    few, dim = fact.select("id", "i"), spark.sql("SELECT CAST(id AS INT) AS k FROM range(20, 48)")
    for how, kept in (("inner", 4), ("anti", 12)):
        joined = prune_join(few, dim, {"i": "k"}, how, max_values=10)
        found = same(joined, few.join(dim, few.i == dim.k, how), (kept, 12))
        assert found[0].rows is None and "ranges" in found[0].keys


def test_a_join_without_keys_over_one_with_keys(spark, fact):
    """The join that was written is the top one, not the first that compares keys."""
    from pyspark.sql import functions as F

    inner = (
        fact.select("id", "i")
        .join(spark.sql(KEYS.format("(5), (42)")), F.col("i") == F.col("k"))
        .drop("k")
    )
    dim = spark.sql("SELECT w FROM VALUES (-1) AS t(w)")
    for on in (inner.i > dim.w, inner.i == inner.id):
        joined = prune_join(inner, dim, on)
        assert joined.count() == inner.join(dim, on).count() and all(
            scan.keys == "" for scan in pruned(joined)
        )
