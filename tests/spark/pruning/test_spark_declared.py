"""Files that Spark wrote with types that Parquet does not have.

`scan_parquet` and `sks.read` return Spark's rows, or say why not.
"""

import glob
import os

import pytest

import skipstone as ss
import skipstone.spark as sks
from tests.support.spark.session import QUIET, SPARK_4

pytestmark = [pytest.mark.filterwarnings(QUIET), SPARK_4]

COLUMNS = """CAST(id AS INT) id, concat(IF(id % 2 = 0, 'A', 'a'), id) COLLATE UTF8_LCASE u,
concat('a', id) s, named_struct('k', concat('K', id) COLLATE UNICODE_CI, 'p', id) st,
array(concat('a', id) COLLATE UTF8_LCASE) ar,
make_ym_interval(CAST(id AS INT), 0) ym, make_dt_interval(CAST(id AS INT)) dt,
TIMESTAMP_NTZ '2024-01-01 00:00:00' + make_dt_interval(CAST(id AS INT)) n,
IF(id = 4, NULL, parse_json(concat('{"a":', id, '}'))) v,
named_struct('w', parse_json(concat(id))) sv"""


@pytest.fixture(scope="module")
def folder(spark, tmp_path_factory):
    """Write three files of four rows.

    Without generated code, Spark 4.3 cannot read a VARIANT that it shredded.
    """
    before = spark.conf.get("spark.sql.codegen.factoryMode")
    spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
    path = str(tmp_path_factory.mktemp("declared") / "t")
    spark.sql(f"SELECT {COLUMNS} FROM range(12)").repartitionByRange(3, "id").write.parquet(path)
    yield path
    spark.conf.set("spark.sql.codegen.factoryMode", before)


def texts(df):
    """Return all rows as Spark prints them, because Python has no value for some."""
    printed = df.selectExpr(*(f"CAST(`{name}` AS STRING) `{name}`" for name in df.columns))
    return sorted(map(repr, printed.collect()))


#    a condition; the error when Arrow reads it, "": it gives Spark's rows
CONDITIONS = [
    ("u = 'a7'", "u = 'a7'.*COLLATE UTF8_LCASE"),
    ("u < 'a2'", "u < 'a2'.*COLLATE UTF8_LCASE"),
    ("u IN ('A7', 'zz')", "COLLATE UTF8_LCASE"),
    ("u LIKE 'a1%'", "COLLATE UTF8_LCASE"),
    ("NOT u = 'A3' AND id < 5", "COLLATE UTF8_LCASE"),
    ("st.k = 'k5'", "st.k.*COLLATE UNICODE_CI"),
    ("st.k = 'k5' OR st.p = 5", "COLLATE UNICODE_CI"),
    ("ym = INTERVAL '7' YEAR", "ym|INTERVAL"),
    ("dt >= INTERVAL '9' DAY", "dt|INTERVAL"),
    ("v IS NULL", ""),
    ("v IS NOT NULL AND id > 9", ""),
    ("u IS NOT NULL AND ym IS NOT NULL AND id = 3", ""),
    ("st.p = 5", ""),
    ("s = 'a7'", ""),
    ("n >= TIMESTAMP_NTZ '2024-01-11 00:00:00'", ""),
]


@pytest.mark.parametrize("where, message", CONDITIONS)
def test_conditions(spark, folder, where, message):
    plain = spark.read.parquet(folder)
    expected_rows = plain.select("id", "_metadata.file_name").where(where).collect()
    plan = ss.scan_parquet(folder).plan(where, columns=["id"])
    assert {row["file_name"] for row in expected_rows} <= set(map(os.path.basename, plan.files))
    expected = sorted(row["id"] for row in expected_rows)
    assert (
        sorted(row["id"] for row in sks.read(spark, folder, where, columns=["id"]).collect())
        == expected
    )
    if message:
        with pytest.raises(ss.UnsupportedForm, match=message):
            plan.to_arrow()
    else:
        assert sorted(plan.to_arrow()["id"].to_pylist()) == expected


def test_all_columns(spark, folder):
    """Spark itself reads back the types, collations, intervals and VARIANTs that it wrote."""
    plain, found = spark.read.parquet(folder), sks.read(spark, folder)
    assert found.schema == plain.schema
    assert texts(found) == texts(plain)
    one = sks.read(spark, folder, "u = 'A7' AND variant_get(v, '$.a', 'int') = 7")
    assert texts(one) == texts(plain.where("id = 7")) and one.schema == plain.schema
    assert sks.read(spark, folder, "id > 99").schema == plain.schema


def test_skipstones_own_reader(spark, folder):
    """Python workers, also in a data source, return collated text, and refuse other types early."""
    found = sks.read(spark, folder, "id = 7", columns=["id", "u", "st"], how="python")
    assert found.schema["u"].dataType.simpleString() == "string collate UTF8_LCASE"
    assert [row["id"] for row in found.collect()] == [7]
    for name, kind in (
        ("v", "VARIANT"),
        ("ym", "INTERVAL YEAR"),
        ("dt", "INTERVAL DAY"),
        ("sv", "VARIANT"),
    ):
        with pytest.raises(ss.UnsupportedForm, match=f"{name}.*{kind}"):
            sks.read(spark, folder, columns=["id", name], how="python")


def test_null_tests_and_row_counts(folder):
    table = ss.scan_parquet(folder)
    assert len(table.plan("u IS NULL OR ym IS NULL OR s IS NULL", columns=["id"]).to_arrow()) == 0
    assert table.plan("s IS NULL").files == ()
    for text in ("u", "ym DESC", "st.k"):
        with pytest.raises(ss.PredicateError, match="whose values have an order"):
            table.plan(order_by=text, limit=1)
    with pytest.raises(ss.PredicateError, match="no minimum and maximum"):
        table.plan().max("u")


def test_a_predicate_for_another_schema(folder):
    """A predicate that takes the column for plain text is refused: it would prune by bytes."""
    import pyarrow as pa

    table = ss.scan_parquet(folder)
    bare = pa.schema([pa.field(f.name, f.type, f.nullable) for f in table.schema])
    with pytest.raises(ss.PredicateError, match="another schema"):
        table.plan(ss.PruningPredicate("u = 'a7'", bare))
    assert table.plan(ss.PruningPredicate("u = 'a7'", table.schema)).files == table.files


def test_joins_by_collated_keys(spark, folder):
    import pyarrow as pa

    table, keys = ss.scan_parquet(folder), pa.table({"u": ["A7", "a2"]})
    for options in ({}, {"dynamic_filtering": False}):
        with pytest.raises(ss.SkipstoneError, match=r"COLLATE|collat"):
            ss.join(table, keys, "u", **options)
    dim = spark.createDataFrame([("A7",), ("a2",)], "u string").selectExpr("u COLLATE UTF8_LCASE u")
    expected = sorted(
        r["id"] for r in spark.read.parquet(folder).join(dim, "u").select("id").collect()
    )
    assert expected == [2, 7]
    joined = sks.prune_join(spark.read.parquet(folder), dim, "u")
    assert sorted(r["id"] for r in joined.select("id").collect()) == expected
    assert (
        sorted(r["id"] for r in sks.prune_join(table, dim, "u").select("id").collect()) == expected
    )


def test_files_that_differ(spark, folder, tmp_path):
    """A type declared in one file holds for the whole table, whichever file comes first."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for name in ("0", "zz"):
        path = tmp_path / name
        spark.sql("SELECT 1 id, 'A7' COLLATE UTF8_LCASE u").coalesce(1).write.parquet(
            str(path / "t")
        )
        pq.write_table(
            pa.table({"id": pa.array([2], pa.int32()), "U": ["A8"]}), path / "t" / f"{name}.parquet"
        )
        table = ss.scan_parquet(str(path / "t"))
        assert len(table.plan("u = 'a7'").files) == 2
        with pytest.raises(ss.UnsupportedForm, match="COLLATE UTF8_LCASE"):
            table.plan("u = 'a7'").to_arrow()
        assert table.plan("u IS NOT NULL").to_arrow().num_rows == 2
        found = sks.read(spark, str(path / "t"), "u IN ('a7', 'a8')")
        assert sorted(row["id"] for row in found.collect()) == [1, 2]


def test_variants_shredded_in_several_ways(spark, folder, tmp_path):
    """Each file shreds a VARIANT in its own way; Arrow cannot reassemble it, but Spark can."""
    path = str(tmp_path / "t")
    for i, value in enumerate(("7", '"x"', '{"a":1,"b":[2]}', "null")):
        spark.sql(f"SELECT {i} id, parse_json('{value}') v").coalesce(1).write.mode(
            "append"
        ).parquet(path)
    plain = spark.read.parquet(path)
    assert texts(sks.read(spark, path)) == texts(plain)
    assert texts(sks.read(spark, path, "id = 2")) == texts(plain.where("id = 2"))
    table = ss.scan_parquet(path)
    assert table.plan("id = 2", columns=["id"]).to_arrow()["id"].to_pylist() == [2]
    with pytest.raises(ss.UnsupportedForm, match=r"'v' is VARIANT.*several forms"):
        table.plan("id < 3").to_arrow()


def test_hive_and_saved_footers(spark, tmp_path):
    path = str(tmp_path / "t")
    spark.sql(
        "SELECT id, id % 2 p, concat('A', id) COLLATE UTF8_LCASE u FROM range(8)"
    ).write.partitionBy("p").parquet(path)
    expected = sorted(
        r["id"] for r in spark.read.parquet(path).where("u = 'a7' OR u = 'a2'").collect()
    )
    assert expected == [2, 7]
    for make in (lambda: ss.scan_hive(path), lambda: ss.scan_parquet(path)):
        where = "u = 'a7' OR u = 'a2'"
        assert len(make().plan(where).files) == len(ss.scan_parquet(path).files)
        with pytest.raises(ss.UnsupportedForm, match="COLLATE UTF8_LCASE"):
            make().plan(where).to_arrow()
        assert sorted(r["id"] for r in sks.read(spark, make(), where).collect()) == expected
        for file in glob.glob(f"{path}/*/*.parquet"):
            os.utime(file, (1_600_000_000, 1_600_000_000))
        ss.scan_parquet(path).save_stats()  # the second iteration reads them
    assert ss.scan_parquet(path).work["snapshots"] == 1
