"""Pruned reads of files under odd paths and with odd columns lose no row."""

import datetime as dt
import os
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skipstone.spark import prune, pruned, read
from tests.support.spark.automatic import again, automatic, enabled
from tests.support.spark.compare import no_match_is_lost, same, write
from tests.support.spark.reads import rows_of
from tests.support.spark.session import QUIET, SPARK_4

pytestmark = pytest.mark.filterwarnings(QUIET)


def test_ways_of_naming_files(spark, tmp_path):
    for k in range(6):
        write(str(tmp_path / f"day={k % 3}" / f"f#{k} %41.parquet"), x=[k * 10, k * 10 + 1])
    write(str(tmp_path / "other" / "x.parquet"), x=[7, 21])
    names = [str(tmp_path / f"day={k}") for k in range(3)]
    #    options, paths, condition, (files kept, all files)
    ways = [
        ({"basePath": str(tmp_path)}, names, "x = 21", (1, 6)),
        ({}, names, "x = 21", (1, 6)),
        ({}, [f"{tmp_path}/day=[12]"], "x = 21", (1, 4)),
        ({"recursiveFileLookup": "true"}, [str(tmp_path)], "x = 21", (2, 7)),
        (
            {"recursiveFileLookup": "true", "pathGlobFilter": "f*"},
            [str(tmp_path)],
            "x = 21",
            (1, 6),
        ),
        ({"basePath": str(tmp_path)}, names, "x = 21 AND day = 2", (1, 2)),
        ({"basePath": str(tmp_path)}, names, "x = 21 AND day = 1", (0, 2)),
        ({"modifiedBefore": "2022-01-01T00:00:00"}, names, "x < 15", (1, 5)),
        ({}, [f"{names[0]}/f#0 %41.parquet"] * 2, "x = 0", None),
    ]
    os.utime(tmp_path / "day=0" / "f#0 %41.parquet", (1_700_000_000, 1_700_000_000))
    for options, paths, where, files in ways:
        same(spark.read.options(**options).parquet(*paths).where(where), files)


def test_partition_values_are_sparks(spark, tmp_path, setting):
    setting("spark.sql.session.timeZone", "America/New_York")
    for k, folder in enumerate(
        ["t=2024-11-03 01%3A30%3A00", "t=2024-11-03 00%3A30%3A00", "t=__HIVE_DEFAULT_PARTITION__"]
    ):
        write(str(tmp_path / "a" / folder / "x.parquet"), x=[k, k + 10])
    df = spark.read.parquet(str(tmp_path / "a"))
    wheres = [
        "x = 0 AND t > TIMESTAMP '2024-11-03 01:00:00'",
        "x = 2 AND t IS NULL",
        "x = 11 AND t < TIMESTAMP '2024-11-03 01:30:00'",
        "x <> 0 OR hour(t) = 1",
        "x = 11 AND t IS NOT NULL",
    ]
    no_match_is_lost(df, wheres)
    for k, folder in enumerate(["d=1.50", "d=2", "d=-0.0"]):
        write(str(tmp_path / "b" / folder / "x.parquet"), x=[k, k + 10])
    df = spark.read.parquet(str(tmp_path / "b"))
    same(df.where("d = 2 OR x = 11"), (2, 3))
    same(df.where("d = 0 AND x = 12"), (1, 1))


@SPARK_4
def test_columns_that_differ_between_files(spark, tmp_path, setting):
    write(str(tmp_path / "1.parquet"), x=pa.array([1, 2], pa.int32()), y=["a", "b"])
    write(str(tmp_path / "2.parquet"), x=pa.array([5, 6], pa.int32()))
    write(str(tmp_path / "3.parquet"), X=pa.array([9, None], pa.int32()), y=["c", "d"])
    df = spark.read.schema("x bigint, y string, z double").parquet(str(tmp_path))
    same(df.where("x > 4 AND y IS NULL"), (1, 3))
    same(df.where("x = 9"), (1, 3))
    same(df.where("z IS NULL"), (3, 3))
    same(df.where("z > 1 OR y = 'd'"), (1, 3))
    same(spark.read.option("mergeSchema", "true").parquet(str(tmp_path)).where("y = 'a'"), (1, 3))
    setting("spark.sql.caseSensitive", "true")
    df = spark.read.schema("x int, y string").parquet(str(tmp_path))
    assert "case-sensitive Spark" in same(df.where("x IS NULL"), None)[0].why
    same(df.where("y = 'a'"), (1, 3))


@SPARK_4
def test_types_given_to_the_reader(spark, tmp_path):
    """The condition binds to the type given to Spark; statistics of an unfit type are unknown."""
    write(
        str(tmp_path / "1.parquet"),
        i=pa.array([1, 2], pa.int32()),
        d=[dt.date(2024, 1, 1)] * 2,
        f=pa.array([0.1, 0.2], pa.float32()),
    )
    write(
        str(tmp_path / "2.parquet"),
        i=pa.array([3, 4], pa.int32()),
        d=[dt.date(2024, 6, 1)] * 2,
        f=pa.array([0.3, 0.4], pa.float32()),
    )
    df = spark.read.schema("i double, d timestamp_ntz, f double").parquet(str(tmp_path))
    same(df.where("i > 2.5"), None)
    same(df.where("d >= TIMESTAMP_NTZ '2024-06-01 00:00:00'"), None)
    same(df.where("f <= 0.2"), (1, 2))
    same(df.where("f > 0.3"), None)
    same(spark.read.schema("i decimal(12,2)").parquet(str(tmp_path)).where("i = 3"), (1, 2))


@SPARK_4
def test_structs_that_differ_in_case_between_files(spark, tmp_path, setting):
    """A case-sensitive Spark takes a struct of another spelling for one that the file lacks."""
    for k, (name, field) in enumerate((("st", "a"), ("ST", "a"), ("st", "A"), ("st", "z"))):
        kind = pa.struct([(field, pa.int64()), ("b", pa.int64())])
        values = pa.array([{field: k, "b": k}], kind)
        write(str(tmp_path / f"{k}.parquet"), **{name: values, "k": [k]})
    for given in ("a: BIGINT, b: BIGINT", "a: BIGINT", "z: BIGINT", "A: BIGINT"):
        df = spark.read.schema(f"st STRUCT<{given}>, k BIGINT").parquet(str(tmp_path))
        for sensitive in ("true", "false"):
            setting("spark.sql.caseSensitive", sensitive)
            for where in ("st IS NULL", "st IS NOT NULL AND k < 9", "(st IS NULL) = (k > 0)"):
                plain = df.where(where)
                small = prune(plain)
                found = sorted(r.k for r in small.collect())
                assert found == sorted(r.k for r in plain.collect()), (given, where, pruned(small))
            assert pruned(prune(df.where("k = 1"))).kept == 1


# The schema given to Spark, a condition
TWINS = [
    ("x BIGINT, k BIGINT", "x > 1000"),
    ("x BIGINT, k BIGINT", "k = 7"),
    ("X BIGINT, k BIGINT", "x = 7 AND k = 7"),
    ("st STRUCT<x BIGINT>, k BIGINT", "st.x > 1000"),
    ("st STRUCT<X BIGINT>, k BIGINT", "k = 7"),
    ("l ARRAY<STRUCT<x BIGINT>>, k BIGINT", "exists(l, v -> v.x > 1000)"),
    ("m MAP<STRING, STRUCT<X BIGINT>>, k BIGINT", "k = 7"),
]


@SPARK_4
@pytest.mark.parametrize("given, where", TWINS)
def test_names_that_differ_only_in_case_in_a_file(spark, tmp_path, given, where):
    """Spark raises an error as soon as it reads such a column, unless it is case-sensitive."""
    kind = pa.struct([("x", pa.int64()), ("X", pa.int64())])
    for k in range(3):
        pair = {"x": k, "X": 100 - k}
        values = [
            pa.array([k]),
            pa.array([100 - k]),
            pa.array([pair], kind),
            pa.array([[pair]], pa.list_(kind)),
            pa.array([[("a", pair)]], pa.map_(pa.string(), kind)),
            pa.array([k]),
        ]
        file = pa.Table.from_arrays(values, names=["x", "X", "st", "l", "m", "k"])
        pq.write_table(file, tmp_path / f"{k}.parquet")
    df = spark.read.schema(given).parquet(str(tmp_path)).where(where)
    with enabled(spark):
        for frame in (df, prune(df), again(df)):
            with pytest.raises(Exception, match="duplicate field"):
                frame.collect()


@SPARK_4
def test_fields_of_lists_that_differ_in_case_between_files(spark, tmp_path, setting):
    """A case-sensitive Spark reads NULL where a file spells a field in another case."""
    for k, name in enumerate(("x", "X", "x")):
        kind = pa.list_(pa.struct([(name, pa.int64()), ("y", pa.int64())]))
        write(str(tmp_path / f"{k}.parquet"), l=pa.array([[{name: k, "y": k}]], kind), k=[k])
    df = spark.read.schema("l ARRAY<STRUCT<x BIGINT, y BIGINT>>, k BIGINT").parquet(str(tmp_path))
    wheres = ("exists(l, v -> v.X = 1)", "array_max(l.x) = 1", "exists(l, v -> v.Y = 1)")
    for where in wheres:
        same(df.where(where), (1, 3))
    setting("spark.sql.caseSensitive", "true")
    for where in ("array_max(l.x) = 1", "coalesce(array_max(l.x), 7) = 7"):
        assert "case-sensitive Spark" in same(df.where(where), None)[0].why
        assert automatic(df.where(where))[0] == rows_of(df.where(where))


def test_fields_in_another_case_than_the_files(spark, tmp_path):
    for k in range(3):
        kind = pa.struct([("Qty", pa.int64()), ("name", pa.string())])
        values = pa.array([{"Qty": k, "name": "ab"[k % 2]}], kind)
        write(str(tmp_path / f"{k}.parquet"), st=values, l=pa.array([[values[0].as_py()]]))
    df = spark.read.parquet(str(tmp_path))
    same(df.where("ST.qTY = 1"), (1, 3))
    same(df.where("st.QTY > 1 AND st.NAME = 'a'"), (1, 3))
    same(df.where("exists(l, v -> v.qty = 1)"), (1, 3))


WRITERS = {
    "u8": pa.uint8(), "u16": pa.uint16(), "u32": pa.uint32(), "u64": pa.uint64(), "i8": pa.int8(),
    "i16": pa.int16(),
    "ms": pa.timestamp("ms", "UTC"), "nms": pa.timestamp("ms"), "big": pa.large_string(),
    "dict": pa.dictionary(pa.int8(), pa.string()),
    "m4": pa.decimal128(4, 1), "fixed": pa.binary(2), "view": pa.string_view(),
}  # fmt: skip


def test_types_of_other_writers(spark, tmp_path):
    textual, texts = {"big", "dict", "view"}, [["aa", "bb"], ["cc", "dd"], ["ee", "zz"]]
    for k, values in enumerate(([1, 2], [40, 100], [101, None])):
        columns = {}
        for name, kind in WRITERS.items():
            given = (
                texts[k]
                if name in textual
                else [t.encode() for t in texts[k]]
                if name == "fixed"
                else values
            )
            plain = pa.array(
                given,
                pa.string() if name in textual else pa.binary() if name == "fixed" else pa.int64(),
            )
            columns[name] = (
                pa.array(given, kind)
                if name == "fixed"
                else plain.cast(pa.decimal128(19)).cast(kind)
                if name == "m4"
                else plain.cast(kind)
            )
        pq.write_table(
            pa.table(columns), str(tmp_path / f"{k}.parquet"), store_decimal_as_integer=True
        )
        os.utime(tmp_path / f"{k}.parquet", (1_600_000_000, 1_600_000_000))
    df = spark.read.parquet(str(tmp_path))
    wheres = [
        f"{c} {op} 100"
        for c in ("u8", "u16", "u32", "u64", "i8", "i16", "m4")
        for op in ("=", ">", "<")
    ]
    wheres += [
        f"{c} {op} TIMESTAMP '1970-01-01 00:00:00.1'"
        for c in ("ms", "nms")
        for op in ("=", ">", "<")
    ]
    wheres += [f"{c} {op} 'dd'" for c in ("big", "dict", "view") for op in ("=", ">", "<")] + [
        "fixed = CAST('dd' AS BINARY)",
        "u64 IS NULL",
    ]
    no_match_is_lost(df, wheres)
    assert [
        pruned(prune(df.where(w))).kept
        for w in ("u8 = 100", "u32 = 100", "m4 = 100", "big = 'dd'", "i16 > 100")
    ] == [1, 1, 1, 1, 1]


@pytest.mark.parametrize("kind", ["INT96", "TIMESTAMP_MICROS"])
@pytest.mark.parametrize("mode", ["LEGACY", "CORRECTED"])
def test_old_times(mode, kind, spark, tmp_path, setting):
    times = [
        dt.datetime(1500, 1, 1),
        dt.datetime(1700, 1, 1),
        dt.datetime(2024, 1, 1),
        dt.datetime(3000, 1, 1),
    ]
    setting("spark.sql.parquet.datetimeRebaseModeInWrite", mode)
    setting("spark.sql.parquet.int96RebaseModeInWrite", mode)
    setting("spark.sql.parquet.outputTimestampType", kind)
    spark.createDataFrame([(t, t.date()) for t in times], "t timestamp, d date").repartitionByRange(
        4, "t"
    ).write.parquet(str(tmp_path / "t"))
    wheres = [
        f"{c} {op} {to} '{t}'"
        for t in times
        for op in ("=", ">", "<")
        for c, to in (("t", "TIMESTAMP"), ("d", "TIMESTAMP"), ("d", "DATE"))
    ]
    no_match_is_lost(
        spark.read.parquet(str(tmp_path / "t")), [w.replace(" 00:00:00", "") for w in wheres]
    )


def test_columns_with_a_default(spark, tmp_path):
    """A file that is older than a column has the column's default."""
    try:
        spark.sql(
            f"CREATE TABLE grown (x INT) USING parquet LOCATION '{(tmp_path / 'g').as_uri()}'"
        )
        spark.sql("INSERT INTO grown VALUES (1)")
        spark.sql("ALTER TABLE grown ADD COLUMN y INT DEFAULT 42")
        spark.sql("INSERT INTO grown VALUES (2, 7)")
        assert same(spark.table("grown").where("y = 42"), None)[0].why.startswith(
            "statistics cannot judge"
        )
        assert spark.table("grown").where("y = 42").count() == 1
        same(spark.table("grown").where("y = 42 AND x = 2"), (1, 2))
    finally:
        spark.sql("DROP TABLE IF EXISTS grown")


@SPARK_4
def test_texts_with_other_equality(spark, tmp_path):
    write(str(tmp_path / "c" / "1.parquet"), s=["abc"], c=["q"])
    write(str(tmp_path / "c" / "2.parquet"), s=["XYZ"], c=["r"])
    df = spark.read.schema("s STRING COLLATE UTF8_LCASE, c STRING").parquet(str(tmp_path / "c"))
    assert df.where("s = 'ABC'").count() == 1
    same(df.where("s = 'ABC'"), None)
    same(df.where("s > 'b' AND c = 'r'"), (1, 2))
    try:
        spark.sql(
            "CREATE TABLE chars (s CHAR(5), v VARCHAR(5)) USING parquet LOCATION "
            f"'{(tmp_path / 'k').as_uri()}'"
        )
        spark.sql("INSERT INTO chars VALUES ('ab', 'ab')")
        spark.sql("INSERT INTO chars VALUES ('zz', 'zz')")
        same(spark.table("chars").where("s = 'ab'"), None)
        same(spark.table("chars").where("v = 'ab'"), (1, 2))
    finally:
        spark.sql("DROP TABLE IF EXISTS chars")


@SPARK_4
def test_unsigned_numbers_read_as_signed_ones(spark, tmp_path):
    """Spark reads UINT32 as a signed number into a column that is not BIGINT."""
    for at, x in enumerate([7, 2**32 - 1]):
        values = {"x": pa.array([x], pa.uint32()), "k": [at]}
        pq.write_table(pa.table(values), tmp_path / f"{at}.parquet", store_schema=False)
    df = spark.read.schema("x DOUBLE, k BIGINT").parquet(str(tmp_path))
    negative = df.where("x < 0")
    assert [r.k for r in prune(negative).collect()] == [r.k for r in negative.collect()] == [1]
    as_bigint = spark.read.schema("x BIGINT, k BIGINT").parquet(str(tmp_path))
    same(as_bigint.where("x > 7"), (1, 2))


@SPARK_4
@pytest.mark.parametrize(
    ("zone", "time", "hour"),
    [
        ("Europe/Oslo", dt.datetime(1960, 7, 1, 4, 30), 5),
        ("America/Nassau", dt.datetime(1960, 7, 1, 4, 30), 0),
        ("PST8PDT", dt.datetime(1960, 7, 1, 4, 30), 21),
        ("WET", dt.datetime(1995, 7, 1, 23, 30), 1),
    ],
)
def test_zones_whose_history_differs_between_databases(spark, tmp_path, setting, zone, time, hour):
    """Java and Debian give these zones other offsets; what Spark returns is right."""
    for at, value in enumerate([time, dt.datetime(2024, 1, 1, 12)]):
        values = {"t": pa.array([value], pa.timestamp("us", "UTC")), "k": [at]}
        pq.write_table(pa.table(values), tmp_path / f"{at}.parquet")
    setting("spark.sql.session.timeZone", zone)
    everything = spark.read.parquet(str(tmp_path))
    text = everything.where("k = 0").selectExpr("CAST(t AS STRING) AS t").first().t
    for condition in (f"hour(t) = {hour}", f"t = TIMESTAMP '{text}'"):
        found = everything.where(condition)
        expected = [r.k for r in found.collect()]
        assert [r.k for r in prune(found).collect()] == expected
        assert [r.k for r in read(spark, str(tmp_path), condition).collect()] == expected


#    a type in files, values of two files, the type given to Spark, a condition, the rows' k
UNFIT = [
    (pa.int32(), [[5, 2 * 10**9], [1, 1]], "DECIMAL(9,0)", "coalesce(x, 0) = 0", [1]),
    (pa.int32(), [[5, 2 * 10**9], [1, 1]], "DECIMAL(9,0)", "coalesce(x, 2000000000) > 9e9", []),
    (pa.int32(), [[5, 2 * 10**9], [1, 1]], "DECIMAL(12,4)", "coalesce(x, 0) = 0", [1]),
    (pa.int64(), [[5, 2 * 10**18], [1, 1]], "DECIMAL(18,0)", "coalesce(x, 0) = 0", [1]),
    (pa.int16(), [[5, 30_000], [1, 1]], "DECIMAL(4,0)", "coalesce(x, 0) = 0", [1]),
    (pa.int8(), [[5, 127], [1, 1]], "DECIMAL(2,0)", "coalesce(x, 0) = 0", [1]),
    (pa.uint64(), [[5, 2**64 - 1], [1, 1]], "BIGINT", "abs(x) = 1", [1, 2, 3]),
    (pa.uint64(), [[5, 2**64 - 1], [1, 1]], "BIGINT", "-x = 1", [1]),
    (pa.uint64(), [[5, 2**64 - 1], [1, 1]], "DECIMAL(38,10)", "-x = 1", []),
    (pa.uint64(), [[5, 2**64 - 1], [1, 1]], "DECIMAL(20,0)", "abs(x) = 1", [2, 3]),
    (pa.decimal128(12, 2), [[5, 5 * 10**8], [1, 1]], "DECIMAL(9,2)", "coalesce(x, 0) = 0", [1]),
]


@SPARK_4
@pytest.mark.parametrize("kind, values, given, condition, expected", UNFIT)
def test_numbers_that_do_not_fit_the_given_type(
    spark, tmp_path, setting, kind, values, given, condition, expected
):
    """Spark's reader of rows, unlike that of batches, returns NULL or wraps such numbers."""
    setting("spark.sql.parquet.enableVectorizedReader", "false")
    for at, pair in enumerate(values):
        numbers = [Decimal(x) for x in pair] if pa.types.is_decimal(kind) else pair
        file = pa.table({"x": pa.array(numbers, kind), "k": [2 * at, 2 * at + 1]})
        pq.write_table(file, tmp_path / f"{at}.parquet")
    df = spark.read.schema(f"x {given}, k BIGINT").parquet(str(tmp_path)).where(condition)
    assert sorted(r.k for r in df.collect()) == expected
    assert sorted(r.k for r in prune(df).collect()) == expected
