"""`prune` never misjudges columns that the optimiser rewrites, renames or copies."""

import math
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skipstone.spark import prune, prune_join, pruned
from tests.support.effort import LONG
from tests.support.spark.automatic import again, enabled, settings
from tests.support.spark.reads import rows_of
from tests.support.spark.session import INSTALLED, QUIET, SPARK_4

pytestmark = pytest.mark.filterwarnings(QUIET)

COLUMNS = """id, CAST(id AS INT) i,
named_struct('a', id, 'b', named_struct('c', concat('x', id))) st,
concat('a', id) s, make_ym_interval(CAST(id AS INT), 0) ym,
make_dt_interval(CAST(id AS INT)) dt, array(id) ar, map('k', id) m,
TIMESTAMP_NTZ '2024-01-01 00:00:00' + make_dt_interval(CAST(id AS INT)) n"""
# Spark 3.5 has neither collations nor VARIANT.
COLUMNS_OF_4 = """concat('A', id) COLLATE UTF8_LCASE u,
parse_json(concat('{"a":', id, ',"b":{"c":"x', id, '"}}')) v,
named_struct('w', parse_json(concat('{"a":', id, '}')), 'k', id) sv"""
OF_4 = re.compile(r"\b(?:u|v|sv)\b|COLLATE")


@pytest.fixture(scope="module")
def table(spark, tmp_path_factory):
    """Write four ascending files of five rows as the view t; the view k has the keys 3 and 4."""
    path = str(tmp_path_factory.mktemp("rewritten") / "t")
    columns = COLUMNS if INSTALLED < (4, 0) else f"{COLUMNS}, {COLUMNS_OF_4}"
    spark.sql(f"SELECT {columns} FROM range(20)").repartitionByRange(4, "id").write.parquet(path)
    spark.read.parquet(path).createOrReplaceTempView("t")
    keys = f"{path}_keys"
    spark.sql("SELECT id k, CAST(id AS INT) j FROM range(3, 5)").write.parquet(keys)
    spark.read.parquet(keys).createOrReplaceTempView("k")
    yield path
    spark.catalog.dropTempView("t")
    spark.catalog.dropTempView("k")


def ids(df):
    """Return the sorted ids of the rows, or all columns if there is no id."""
    return rows_of(df.select("id") if "id" in df.columns else df)


def same(plain, files=None, joins=True):
    """Prune a DataFrame and compare its rows.

    `files` is the number of files that each scan opens, in ascending order.
    """
    small = prune(plain, joins=joins)
    found = pruned(small)
    assert small is plain or ids(small) == ids(plain), found
    # Spark 4.3 cannot read parts of variants without generated code.
    generated = {"spark.sql.codegen.factoryMode": "FALLBACK"}
    with settings(plain.sparkSession, generated):
        expected = ids(again(plain))
        with enabled(plain.sparkSession) as now:
            assert ids(again(plain)) == expected and now().failed == 0
    if files is not None:
        opened = sorted(scan.files if scan.kept is None else scan.kept for scan in found)
        assert tuple(opened) == files, found
    return found


def usual(cases):
    """Return the marked cases, or all of them in a long run, that the installed Spark can run."""
    run = [case for mark, *case in cases if mark or LONG]
    return [case for case in run if INSTALLED >= (4, 0) or not OF_4.search(case[0])]


# A condition, and how many of four files it keeps (None: any number); marked cases always run.
CONDITIONS = [
    ("*", "variant_get(v, '$.a', 'int') = 5", None),
    ("", 'v:a::int = 5', None),
    ("", "try_variant_get(v, '$.b.c', 'string') = 'x7'", None),
    ("*", 'v:a::int = 5 AND id = 5', 1),
    ("", 'v:a::int IS NOT NULL AND i < 3', 1),
    ("", 'v:zz::int IS NULL AND id = 9', 1),
    ("", 'v IS NULL OR v:a::int > 17', None),
    ("", 'sv.w:a::int = 5', None),
    ("*", 'sv.w:a::int = 5 AND sv.k = 5', 1),
    ("*", "st.b.c = 'x7'", 1),
    ("", 'st.a = 5 AND st.b IS NOT NULL', 1),
    ("", "st.a > 17 OR st.b.c = 'x0'", 2),
    ("*", "u = 'a7'", None),
    ("", "u < 'a2'", None),
    ("*", "u = 'a7' AND id = 7", 1),
    ("", "CAST(u AS STRING) = 'A7'", None),
    ("", "lower(u) = 'a7'", None),
    ("", "s COLLATE UTF8_LCASE = 'A7'", None),
    ("*", "ym = INTERVAL '7' YEAR", None),
    ("", "dt > INTERVAL '17' DAY", None),
    ("", "n >= TIMESTAMP_NTZ '2024-01-18 00:00:00'", 1),
    ("", 'ar[0] = 5 AND id = 5', 1),
    ("", "m['k'] = 5", None),
    ("", 'exists(ar, x -> x = 5)', None),
]  # fmt: skip


@pytest.mark.parametrize("where, files", usual(CONDITIONS))
def test_conditions(spark, table, where, files):
    found = same(spark.table("t").where(where))
    assert files is None or (found.kept, found.files) == (files, 4), found


# A query; how many files each scan opens, in ascending order.
QUERIES = [
    ("", 'SELECT v:b.c::string FROM t WHERE v:a::int = 5', None),
    ("", 'SELECT v FROM t WHERE v:a::int = 5', None),
    ("", 'SELECT a.id FROM t a JOIN t b ON a.v:a::int = b.v:a::int WHERE b.id = 5', None),
    ("*", 'SELECT a.id FROM t a JOIN k ON a.v:a::int = k.j', None),
    ("*", 'SELECT a.id FROM t a JOIN k ON a.sv.k = k.k', None),
    ("", 'SELECT a.id FROM t a JOIN k ON a.st.a = k.k', None),
    ("", 'SELECT a.id FROM t a JOIN k ON a.id = k.k WHERE v:a::int < 9', (1, 2)),
    ("", 'SELECT a.id FROM t a WHERE v:a::int IN (SELECT j FROM k)', None),
    ("", 'SELECT a.id FROM t a JOIN t b ON a.u = b.u WHERE b.id = 7', None),
    ("", 'SELECT a.id FROM t a JOIN t b ON a.ym = b.ym WHERE b.id = 7', None),
    ("", "SELECT max(st.a) FROM t WHERE st.b.c = 'x7' GROUP BY st.b", (1,)),
    ("", "SELECT x.a FROM (SELECT st x FROM t) WHERE x.b.c = 'x7'", (1,)),
    ("", "SELECT x.b.c FROM (SELECT named_struct('a', st.b, 'b', st.b) x FROM t) WHERE"
     " x.a.c = 'x7'", None),
    ("*", 'SELECT y FROM (SELECT id + 1 AS id, id y FROM t) WHERE id = 5', None),
    ("*", 'SELECT i FROM (SELECT i, s AS id, id AS s FROM t) WHERE s = 7', (1,)),
    ("", 'SELECT id FROM (SELECT id, explode(ar) e FROM t) WHERE e = 5 AND id = 5', (1,)),
    ("", 'SELECT id FROM t LATERAL VIEW explode(ar) AS e WHERE id < 3', (1,)),
    ("", 'SELECT * FROM (SELECT id, rank() OVER (ORDER BY id) r FROM t) WHERE r = 1', None),
    ("", 'SELECT id FROM t WHERE id = (SELECT min(k) FROM k)', None),
    ("", 'SELECT id FROM t WHERE EXISTS (SELECT 1 FROM k WHERE k.k = t.id AND k.j > 3)', None),
    ("", "SELECT DISTINCT lower(u) FROM t WHERE u = 'a7' COLLATE UTF8_LCASE", None),
    ("", "SELECT u, count(*) FROM t WHERE u >= 'a5' GROUP BY u", None),
    ("", "SELECT id FROM t WHERE u IN ('a7', 'A9')", None),
]  # fmt: skip


@pytest.mark.parametrize("query, files", usual(QUERIES))
def test_queries(spark, table, query, files):
    same(spark.sql(query), files)


# One table in several places: each scan by its own condition, or by the OR of them.
PLACES = [
    ("*", 'SELECT id FROM t WHERE id = 5 UNION ALL SELECT id FROM t WHERE 1 = 0', (1,)),
    ("", 'SELECT id FROM t WHERE 1 = 0 UNION ALL SELECT id FROM t WHERE id < 7', (2,)),
    ("", 'SELECT id FROM t WHERE id = 5 UNION ALL SELECT id FROM t WHERE id > 17', (1, 1)),
    ("*", 'SELECT id FROM t WHERE id < 12 EXCEPT SELECT id FROM t WHERE id > 2', (1,)),
    ("*", "SELECT id FROM t WHERE id < 12 EXCEPT SELECT id FROM t WHERE id > 2 AND s > 'a'", None),
    ("", 'SELECT id FROM t WHERE id < 12 EXCEPT ALL SELECT id FROM t WHERE id > 7', None),
    ("", 'SELECT id FROM t WHERE id < 7 INTERSECT SELECT id FROM t WHERE id > 3', None),
    ("", 'SELECT id, v:a::int FROM t WHERE id < 7 EXCEPT SELECT id, v:a::int FROM t WHERE'
     ' v:a::int > 3', None),
    ("", 'SELECT (SELECT max(id) FROM t WHERE id < 3), (SELECT min(s) FROM t WHERE id > 18)', None),
    ("", 'SELECT (SELECT max(id) FROM t WHERE v:a::int < 3), (SELECT min(id) FROM t WHERE'
     ' v:a::int > 3)', None),
    ("*", 'WITH c AS (SELECT id, s, rand(3) r FROM t) SELECT a.id FROM c a JOIN c b ON'
     ' a.id = b.id AND a.r = b.r WHERE a.id < 4 AND b.id > 2', None),
    ("", 'WITH c AS (SELECT * FROM t WHERE id < 7) SELECT a.id FROM c a JOIN c b ON a.id'
     " = b.i WHERE a.s > 'a4'", (2, 2)),
    ("", 'WITH c AS (SELECT id, count(*) n FROM t WHERE id < 7 GROUP BY id) SELECT a.id'
     ' FROM c a LEFT JOIN c b ON a.id = b.id + 1 WHERE a.id > 1', (2, 2)),
    ("*", 'WITH c AS (SELECT * FROM t) SELECT id FROM c WHERE id = 1 UNION ALL SELECT id'
     ' FROM c WHERE id = 19 UNION ALL SELECT id FROM c WHERE false', None),
    ("", 'SELECT a.id FROM t a LEFT JOIN t b ON a.id = b.id AND b.id < 2 WHERE a.id = 4', None),
    ("*", 'SELECT a.id FROM t a LEFT ANTI JOIN (SELECT * FROM t WHERE 1 = 0) b ON a.id ='
     ' b.id WHERE a.id = 4', (1,)),
    ("", 'SELECT id FROM t WHERE id = 3 AND NOT EXISTS (SELECT 1 FROM t x WHERE x.id ='
     ' t.id + 1 AND x.i > 18)', None),
    ("", 'SELECT count(DISTINCT id), count(DISTINCT s) FILTER (WHERE i > 5) FROM t WHERE'
     ' id < 9', None),
]  # fmt: skip


@pytest.mark.parametrize("query, files", usual(PLACES))
def test_one_table_in_several_places(spark, table, query, files):
    same(spark.sql(query), files)
    if LONG:
        same(spark.sql(query), joins=False)


def test_a_cached_part_is_read_whole(spark, table):
    """The plan does not show what a cache was made from, so its files all stay."""
    cached = spark.table("t").where("id > 10").cache()
    cached.count()
    try:
        for other in (
            spark.table("t").where("id = 3"),
            spark.table("t").where("id = 3").where("1 = 0"),
        ):
            found = same(cached.union(other))
            assert found.kept == found.files, found
    finally:
        cached.unpersist()


def test_partitions_that_stand_for_rows(spark, tmp_path, monkeypatch):
    """With this setting, Spark answers from the file list, which pruning would change."""
    path = str(tmp_path / "t")
    spark.sql("SELECT id, id % 3 p FROM range(9)").write.partitionBy("p").parquet(path)
    df = spark.read.parquet(path)
    spark.conf.set("spark.sql.optimizer.metadataOnly", "true")
    try:
        same(df.select("p").distinct().union(df.where("id = 1").select("p")))
        same(df.selectExpr("max(p)").union(df.where("id = 0").select("p")))
    finally:
        spark.conf.unset("spark.sql.optimizer.metadataOnly")


def test_columns_that_spark_makes_up(spark, tmp_path):
    """No file stores row numbers, whatever the schema says."""
    path = str(tmp_path / "t")
    spark.range(20).repartitionByRange(4, "id").write.parquet(path)
    name = "_tmp_metadata_row_index"
    df = spark.read.schema(f"id LONG, {name} LONG").parquet(path)
    assert df.where(f"{name} = 2").count() == 4
    same(df.where(f"{name} = 2"))
    same(df.where(f"{name} IS NOT NULL"))
    same(df.where(f"{name} = 2 AND id = 7"), (1,))
    same(spark.read.parquet(path).where("_metadata.row_index = 2"))
    same(spark.read.parquet(path).where("_metadata.file_size > 0 AND id = 3"), (1,))


#    metadata of a column; whether its conditions prune
NOTES = [
    ({}, True),
    ({"comment": "a key"}, True),
    ({"__CHAR_VARCHAR_TYPE_STRING": "varchar(5)"}, True),
    ({"EXISTS_DEFAULT": "'zz'"}, False),
    ({"__NEW_IN_SPARK_9": "x"}, False),
    ({"means": "another thing"}, False),
]


@pytest.mark.parametrize("notes, judged", NOTES)
def test_notes_of_columns(spark, table, notes, judged):
    from pyspark.sql import types as T

    fields = [T.StructField("id", T.LongType()), T.StructField("s", T.StringType(), metadata=notes)]
    inner = T.StructType([T.StructField("a", T.LongType(), metadata=notes)])
    df = spark.read.schema(T.StructType([*fields, T.StructField("st", inner)])).parquet(table)
    for where in ("s = 'a5'", "st.a = 5"):
        if "EXISTS_DEFAULT" not in notes or where.startswith("s "):
            found = same(df.where(where))
            assert (found.kept == 1) is judged, (where, found)


def test_char_is_padded_where_it_is_read(spark, connect, tmp_path):
    place = (tmp_path / "chars").as_uri()
    spark.sql(
        "CREATE TABLE chars (c CHAR(5), v VARCHAR(5), st STRUCT<q: CHAR(3)>) USING "
        f"parquet LOCATION '{place}'"
    )
    try:
        spark.sql("INSERT INTO chars VALUES ('ab', 'ab', named_struct('q', 'a'))")
        spark.sql("INSERT INTO chars VALUES ('zz', 'zz', named_struct('q', 'z'))")
        for session in (spark, connect):
            for where in (
                "c = 'ab'",
                "c < 'ab  !'",
                "st.q = 'a'",
                "c IN ('ab', 'q')",
                "v = 'ab'",
                "length(c) = 5",
            ):
                plain = session.table("chars").where(where)
                small = prune(plain)
                assert rows_of(small) == rows_of(plain), (where, pruned(small))
                assert plain.count() or where.startswith("st"), where
    finally:
        spark.sql("DROP TABLE IF EXISTS chars")


@SPARK_4
def test_default_collation_of_a_table(spark, tmp_path):
    spark.sql(
        "CREATE TABLE texts (s STRING, id INT) USING parquet LOCATION "
        f"'{(tmp_path / 'c').as_uri()}' DEFAULT COLLATION UTF8_LCASE"
    )
    try:
        spark.sql("INSERT INTO texts VALUES ('AB', 1)")
        spark.sql("INSERT INTO texts VALUES ('zz', 2)")
        assert spark.table("texts").where("s = 'ab'").count() == 1
        same(spark.table("texts").where("s = 'ab'"))
        same(spark.table("texts").where("s = 'ab' AND id = 1"), (1,))
    finally:
        spark.sql("DROP TABLE IF EXISTS texts")


@SPARK_4
def test_prune_join_by_rewritten_keys(spark, table):
    from pyspark.sql import functions as F

    fact, dim = spark.table("t"), spark.table("k")
    for on in (
        F.expr("id = k"),
        F.expr("v:a::int = j"),
        F.expr("st.a = k"),
        F.expr("sv.k = k"),
        F.expr("id = k AND v:a::int = j"),
    ):
        plain = fact.select("id", "i", "st", "sv", "v").join(dim, on)
        small = prune_join(fact.select("id", "i", "st", "sv", "v"), dim, on)
        assert rows_of(small.select("id", "k")) == rows_of(plain.select("id", "k")), pruned(small)


def test_binary_as_string(spark, tmp_path):
    for k, texts in enumerate((["a", "b"], ["c", "d"], ["e", "ä"], ["f", None])):
        pq.write_table(
            pa.table({"s": pa.array([t and t.encode() for t in texts], pa.binary())}),
            tmp_path / f"{k}.parquet",
        )
    pq.write_table(pa.table({"s": pa.array([b"\xff", b"x"], pa.binary())}), tmp_path / "9.parquet")
    spark.conf.set("spark.sql.parquet.binaryAsString", "true")
    try:
        df = spark.read.parquet(str(tmp_path))
        assert dict(df.dtypes) == {"s": "string"}
        for where, files in (
            ("s = 'c'", 1),
            ("s > 'd'", None),
            ("s LIKE 'b%'", None),
            ("s IS NULL", None),
            ("s >= 'ä'", None),
        ):
            found = same(df.where(where))
            assert files is None or found.kept <= files + 1 < found.files, (where, found)
    finally:
        spark.conf.unset("spark.sql.parquet.binaryAsString")


def test_a_replaced_file_is_read_and_reported(spark, tmp_path):
    """The listed files and the reported files come from one decision."""
    from skipstone.bindings.spark.session.metrics import files_opened

    for k in range(3):
        pq.write_table(pa.table({"x": [10 * k, 10 * k + 1]}), tmp_path / f"{k}.parquet")
    df = spark.read.parquet(str(tmp_path))
    small = prune(df.where("x = 1"))
    assert pruned(small).kept == 1 and len(small.inputFiles()) == 1
    pq.write_table(pa.table({"x": list(range(100))}), tmp_path / "2.parquet")
    assert sorted(p.rpartition("/")[2] for p in small.inputFiles()) == ["0.parquet", "2.parquet"]
    assert rows_of(small) == rows_of(df.where("x = 1")) == ["Row(x=1)"] * 2
    assert files_opened(small) == [2]


ELEVEN = ", ".join(f"{k}.5D" for k in range(11))


@pytest.mark.parametrize("mode", ["FALLBACK", "NO_CODEGEN"])
@pytest.mark.parametrize(
    "where, files",
    [
        (f"d NOT IN ({ELEVEN}, NULL)", 0),
        (f"NOT coalesce(d IN ({ELEVEN}, NULL), true)", 3),
        (f"coalesce(d NOT IN ({ELEVEN}, NULL), false)", 3),
        (f"(d IN ({ELEVEN}, NULL)) IS NOT NULL", 3),
        (f"d IN ({ELEVEN}, NULL)", 2),
        (f"d NOT IN ({ELEVEN}, 'NaN', NULL)", 0),
        ("NOT coalesce(d IN (3D, NULL), true)", 0),
    ],
)
def test_nan_beside_null_in_a_list(spark, tmp_path, where, files, mode):
    """Spark's interpreter returns FALSE for NaN in a long list; its generated code, NULL."""
    for d in (math.nan, 1.0, 1.5):
        pq.write_table(pa.table({"id": [1, 2], "d": [d, d]}), tmp_path / f"{d}.parquet")
    generated = {"spark.sql.codegen.factoryMode": mode, "spark.sql.codegen.wholeStage": "false"}
    with settings(spark, generated if mode == "NO_CODEGEN" else {}):
        df = spark.read.parquet(str(tmp_path)).where(where)
        expected = ids(df)
        small = prune(df)
        assert ids(small) == expected and len(small.inputFiles()) == files, pruned(small)
        with enabled(spark):
            assert ids(again(df)) == expected
