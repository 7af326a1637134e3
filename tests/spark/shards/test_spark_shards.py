"""Shards in Spark, written by tasks and judged by executors, in classic and Connect sessions."""

import datetime as dt
import os
import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.bindings.spark.session.frame import from_arrow
from skipstone.spark import delta_statistics, prune_shards, write_shards
from tests.support.spark.session import QUIET
from tests.support.statistics.shard_checks import fresh
from tests.support.statistics.shards import about_of, clustered, files

pytestmark = pytest.mark.filterwarnings(QUIET)

SCHEMA = pa.schema(
    [
        *(
            ("i", pa.int64()),
            ("f", pa.float64()),
            ("s", pa.string()),
            ("t", pa.timestamp("us", "UTC")),
            ("w", pa.timestamp("us")),
        ),
        *(
            ("d", pa.date32()),
            ("m", pa.decimal128(38, 10)),
            ("b", pa.binary()),
            ("z", pa.bool_()),
            ("two words.x`y", pa.int32()),
        ),
        ("st", pa.struct([("f", pa.int64()), ("i", pa.int16())])),
    ]
)
FAR = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)
BOUNDS = {
    "i": [(2**53, 2**53 + 1), (-(2**63), -(2**63) + 1), (None, 5), (7, 7), (None, None)],
    "f": [(0.5, 1.5), (-0.0, 0.0), (float("nan"), 3.0), (2.0, float("nan")), (None, float("inf"))],
    "s": [("a", "b"), ("", "é"), ("\U0010ffff", None), (None, None), ("abc", "abd")],
    "t": [
        (FAR.replace(tzinfo=dt.UTC), FAR.replace(tzinfo=dt.UTC)),
        (dt.datetime(1, 1, 1, tzinfo=dt.UTC),) * 2,
        (None, None),
    ],
    "w": [(FAR, FAR), (dt.datetime(1, 1, 1), dt.datetime(1970, 1, 1)), (None, None)],
    "d": [
        (dt.date(9999, 12, 31),) * 2,
        (dt.date(1, 1, 1), dt.date(1582, 10, 14)),
        (None, dt.date(2024, 1, 1)),
    ],
    "m": [(Decimal("1E-10"), Decimal("9" * 28)), (Decimal("-0.5"), None), (Decimal(0), Decimal(0))],
    "b": [(b"", b"\xff"), (b"\x00", b"\x01"), (None, None)],
    "z": [(False, False), (False, True), (True, True)],
    "`two words.x``y`": [(1, 2), (None, 3), (5, 5)],
    "st.f": [(1, 5), (2**53 + 1, 2**53 + 1), (None, None)],
    "st.i": [(-5, 5), (None, 0), (3, 3)],
}
PREDICATES = (
    *(
        "i = 9007199254740993",
        "i > 9007199254740992",
        "i <= -9223372036854775807",
        "i < 7 OR i IS NULL",
        "i IN (5, 7, 9007199254740993)",
    ),
    *(
        "f > 1.5",
        "f = 0.0",
        "f = DOUBLE('NaN')",
        "f < 0.6",
        "s LIKE 'ab%'",
        "s > 'z'",
        "s = 'é'",
        "b = X'FF'",
        "NOT z",
        "z",
    ),
    *(
        "t > TIMESTAMP '9999-12-31 23:59:59Z'",
        "t < TIMESTAMP '0001-01-02 00:00:00Z'",
        "w >= TIMESTAMP_NTZ '9999-12-31 23:59:59.999999'",
        "year(d) = 9999",
    ),
    *(
        "d < DATE '1582-10-15'",
        "m > 99999999999999999",
        "m = 0",
        "`two words.x``y` = 5",
        "st.f = 9007199254740993",
        "st.i + 1 > 5",
        "st IS NULL",
    ),
    *("i = 7 AND s = 'abc' AND NOT z", "true", "false", "unheard_of(i)"),
)


def odd(n=240, seed=1):
    r = random.Random(seed)
    columns = {"path": [f"s3://lake/part {i}%20.parquet" for i in range(n)]}
    for name, bounds in BOUNDS.items():
        chosen = [r.choice(bounds) for _ in range(n)]
        field = SCHEMA.field("two words.x`y" if "`" in name else name.split(".")[0]).type
        field = field.field(name.split(".")[1]).type if name.startswith("st.") else field
        columns |= {
            f"{name}.min": pa.array([c[0] for c in chosen], field),
            f"{name}.max": pa.array([c[1] for c in chosen], field),
        }
        columns |= {
            f"{name}.null_count": pa.array(
                [r.choice((0, 0, 3, None)) for _ in range(n)], pa.int64()
            )
        }
        if name == "f":
            columns |= {
                "f.nan_count": pa.array([r.choice((0, None)) for _ in range(n)], pa.int64())
            }
    return pa.table(
        {
            **columns,
            "row_count": pa.array([r.choice((3, 5, 0, None)) for _ in range(n)], pa.int64()),
            "ts": [dt.datetime(2024, 1, 1, tzinfo=dt.UTC)] * n,
        }
    )


@pytest.fixture(scope="module")
def packed(spark, tmp_path_factory):
    """Return statistics of every type, as an Arrow table and as the shards that tasks wrote."""
    table, folder = odd(), tmp_path_factory.mktemp("shards")
    frame = spark.createDataFrame(table).repartition(3, "path").sortWithinPartitions("path")
    shards = write_shards(frame, folder, SCHEMA, rows=37)
    return frame.toArrow(), shards, folder


def expected(table, text):
    return ss.PruningPredicate(text, SCHEMA).evaluate(ss.Statistics.from_arrow(table, SCHEMA))


def test_tasks_pack_every_type_exactly(packed):
    table, shards, folder = packed
    assert len(shards) == 240 and shards.num_shards == sum(
        1 for f in files(folder) if f.endswith(".about")
    )
    assert {s.rows for s in shards.shards[:1]} == {37} and shards.about_schema.names == [
        "path",
        "ts",
    ]
    paths = pa.concat_tables([shards.about(i) for i in range(shards.num_shards)])
    assert paths["path"].to_pylist() == table["path"].to_pylist()
    for text in PREDICATES:
        assert shards.evaluate(text).tolist() == expected(table, text).tolist(), text


@pytest.mark.parametrize("session", ["spark", "connect"])
def test_executors_judge_as_the_driver(session, packed, request):
    table, shards, folder = packed
    running = request.getfixturevalue(session)
    for text in PREDICATES[:: 7 if session == "spark" else 14]:
        found = prune_shards(running, folder, text, where="executors", tasks=2)
        assert found.verdicts.tolist() == expected(table, text).tolist(), text
        assert (
            not found.unreadable
            and found.survivors.tolist() == np.flatnonzero(expected(table, text)).tolist()
        )
    assert (
        prune_shards(running, folder, "i = 7").verdicts.tolist()
        == shards.evaluate("i = 7").tolist()
    )
    rows = prune_shards(running, shards, "i = 7 AND s = 'abc'", returns="frame", where="executors")
    here = prune_shards(running, shards, "i = 7 AND s = 'abc'", returns="frame")
    assert (
        rows.columns == here.columns == ["container", "verdict", "unreadable", "path", "ts"]
        and rows.dtypes == here.dtypes
    )
    assert sorted(map(tuple, rows.collect())) == sorted(map(tuple, here.collect()))
    verdicts = expected(table, "i = 7 AND s = 'abc'")
    assert {(r.container, r.verdict, r.path) for r in here.collect()} == {
        (i, verdicts[i], table["path"][int(i)].as_py()) for i in np.flatnonzero(verdicts)
    }


def test_connect_writes_too(connect, tmp_path):
    frame = connect.createDataFrame(odd(60))
    shards = write_shards(frame.coalesce(1), tmp_path, SCHEMA, rows=25, about=["path"])
    assert [s.rows for s in shards.shards] == [25, 25, 10] and shards.about_schema.names == ["path"]
    assert shards.evaluate("i = 7").tolist() == expected(odd(60), "i = 7").tolist()


def test_names_types_and_omitted_columns(spark, tmp_path):
    from pyspark.sql import functions as F

    schema = pa.schema([("x", pa.int64()), ("s", pa.string()), ("c", pa.string())])
    frame = spark.sql(
        "SELECT 1L AS `X.Min`, 5L AS most, CAST(0 AS DECIMAL(20,0)) AS `x.null_count`, "
        "0.5D AS `x.row_count`, struct(7L AS n) AS counts,"
        " 'a' AS `s.min`, 'b' AS `s.max`, 'A' COLLATE UTF8_LCASE AS `c.min`, 'B' COLLATE "
        "UTF8_LCASE AS `c.max`, array(1L, 3L) AS `x.values`,"
        " map('a', 1) AS tags"
    )
    shards = write_shards(
        frame, tmp_path, schema, {"x.max": "most", "row_count": F.col("counts.n")}
    )
    stats = shards.statistics(0)
    assert (
        stats.get("x", "max").to_pylist() == [5]
        and stats.get("x", "null_count").to_pylist() == [0]
        and stats.get("x", "row_count") is None
    )
    assert (
        stats.row_count.to_pylist() == [7]
        and stats.get("c", "min") is None
        and shards.about_schema.names == ["most", "counts", "tags"]
    )
    #            predicate   verdict
    for text, verdict in (
        ("x = 2", 0),
        ("x = 3", 1),
        ("x IN (1, 3)", 2),
        ("x <= 5", 2),
        ("c > 'b'", 1),
        ("s > 'b'", 0),
    ):
        assert shards.evaluate(text).tolist() == [verdict], text
    assert prune_shards(
        spark, shards, "x = 3", returns="frame", where="executors"
    ).first().tags == {"a": 1}
    for given, message in (
        ({"columns": {"y.min": "most"}}, "which is not a statistic of a column"),
        ({"about": ["nope"]}, "about= names 'nope'"),
        ({"rows": 0}, "expected the number of containers per shard"),
    ):
        with pytest.raises(ss.StatisticsError, match=message):
            write_shards(frame, tmp_path, schema, **given)
    with pytest.raises(ss.StatisticsError, match="columns= with their names"):
        write_shards(frame.select("most"), tmp_path, schema)
    ages = frame.selectExpr("*", "make_interval(1, 2) age")
    with pytest.raises(ss.StatisticsError, match=r"'age' is interval, .* leave it out: about="):
        write_shards(ages, tmp_path, schema)
    with pytest.raises(ss.StatisticsError, match="no statistic has a type that bounds a column"):
        write_shards(frame.select("`c.min`"), tmp_path, schema)
    for given in ({"returns": "rows"}, {"where": "here"}, {"on_error": "skip"}, {"tasks": 0}):
        with pytest.raises(ss.SkipstoneError, match="expected"):
            prune_shards(spark, shards, "x = 3", **given)


STATS = '{"numRecords":3,"minValues":{"x":1},"maxValues":{"x":5},"nullCount":{"x":0}}'


@pytest.mark.parametrize(
    "select, columns, about",
    [
        (
            "struct(1L AS min, 5Y AS Max, 0L AS null_count, true AS min_exact) AS X, 3L AS "
            "row_count",
            None,
            ["path"],
        ),
        (
            "1L AS low, struct(struct(5L AS x) AS max) AS s",
            lambda F, df: {"x.min": F.col("low"), "x.max": F.col("s")["max"]["x"] + 0},
            ["path", "low", "s"],
        ),
        (
            f"'{STATS}' AS stats",
            lambda F, df: delta_statistics(df, pa.schema([("x", pa.int32())])),
            ["path", "stats"],
        ),
        ("struct(1L AS n) AS x, 1BD AS `x.min`, 5BD AS `x.max`", None, ["path", "x"]),
    ],
    ids=["struct", "expressions", "Delta", "decimals"],
)
def test_statistics_are_found_where_with_verdict_finds_them(
    select, columns, about, spark, tmp_path
):
    from pyspark.sql import functions as F

    schema = pa.schema([("x", pa.int32())])
    df = spark.sql(f"SELECT 'p' AS path, {select}")
    shards = write_shards(df, tmp_path, schema, columns and columns(F, df))
    assert shards.about_schema.names == about
    for text, verdict in (
        ("x = 6", 0),
        ("x = 5", 1),
        ("x = 0", 0),
        ("x >= 1", {True: 2, False: 1}[shards.statistics(0).get("x", "null_count") is not None]),
    ):
        assert shards.evaluate(text).tolist() == [verdict], text


def test_container_columns_may_have_any_name(spark, tmp_path):
    frame = spark.range(0, 9, 1, 1).selectExpr(
        "id AS `x.min`",
        "id AS `x.max`",
        "concat('p', id) AS `a.b``c d%`",
        "struct(id AS `n.m`) AS `st`",
    )
    shards = write_shards(
        frame, tmp_path / "with blanks %41", pa.schema([("x", pa.int64())]), rows=4
    )
    for where in ("driver", "executors"):
        rows = prune_shards(
            spark, tmp_path / "with blanks %41", "x IN (3, 7)", returns="frame", where=where
        ).orderBy("container")
        assert [tuple(r) for r in rows.collect()] == [
            (i, 1, None, f"p{i}", (i,)) for i in (3, 7)
        ] and rows.columns[3] == "a.b`c d%"
    assert shards.num_shards == 3


def test_functions_that_executors_lack_keep_all(spark, tmp_path):
    from skipstone.bindings.predicates.register import register_function

    register_function("only_here", lambda v: v * 2, returns=pa.int64(), monotone="increasing")
    stats = clustered(60)
    stats.save_shards(tmp_path, rows=20)
    p = ss.PruningPredicate("only_here(x) % 7 = 3", stats.schema)
    here, there = (
        prune_shards(spark, tmp_path, p, where=where).verdicts for where in ("driver", "executors")
    )
    assert here.tolist() == p.evaluate(stats).tolist() and ((there >= 1) | (here == 0)).all()


def test_a_failed_job_leaves_what_was_there(spark, tmp_path):
    stats = clustered(40)
    stats.save_shards(tmp_path, rows=10)
    held = files(tmp_path)
    failing = spark.range(0, 40, 1, 4).selectExpr(
        "id AS `x.min`", "id + CAST(assert_true(id < 35) AS INT) AS `x.max`"
    )
    with pytest.raises(Exception, match=r"assert|USER_RAISED"):
        write_shards(failing, tmp_path, pa.schema([("x", pa.int64())]), rows=10)
    assert files(tmp_path) == held and len(ss.Shards.open(tmp_path)) == 40


@pytest.mark.parametrize("session", ["spark", "connect"])
def test_rows_behind_empty_batches(session, tmp_path, request):
    """PySpark's createDataFrame loses rows behind an empty batch, as fully pruned shards make."""
    running = request.getfixturevalue(session)
    part, nothing = pa.table({"x": [1, 2]}), pa.table({"x": pa.array([], pa.int64())})
    for parts in ([nothing, nothing, part], [part, nothing, part], [nothing], []):
        table = pa.concat_tables([nothing.slice(0, 0), *parts]) if parts else nothing
        assert from_arrow(running, table).collect() == [(x,) for x in table["x"].to_pylist()]
    clustered(90).save_shards(tmp_path, rows=30, about=about_of(90))
    here = prune_shards(running, tmp_path, "x = 685 OR f > 2", returns="frame", where="driver")
    assert (
        [r.container for r in here.collect()]
        == ss.Shards.open(tmp_path).survivors("x = 685 OR f > 2").tolist()
        != []
    )


def test_no_containers(spark, tmp_path):
    shards = write_shards(spark.createDataFrame(odd(3)).where("false"), tmp_path, SCHEMA)
    assert (len(shards), shards.num_shards) == (0, 0)
    for where in ("driver", "executors"):
        assert prune_shards(spark, tmp_path, "i = 5", where=where).survivors.tolist() == []
        assert prune_shards(spark, tmp_path, "i = 5", where=where, returns="frame").count() == 0


def test_unreadable_containers_are_kept_and_reported(spark, tmp_path):
    stats, p = clustered(120), ss.PruningPredicate("f > 0.95 AND x >= 0", clustered(1).schema)
    stats.save_shards(tmp_path, rows=30, about=about_of(120))
    shards, verdicts = ss.Shards.open(tmp_path), p.evaluate(stats)
    os.unlink(tmp_path / shards.shards[0].file)
    path = tmp_path / shards.shards[2].file
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data[:-100])
    fresh()
    for i in (0, 2):
        verdicts[i * 30 : (i + 1) * 30] = 1
    bad = {shards.shards[i].file for i in (0, 2)}
    for where in ("driver", "executors"):
        found = prune_shards(spark, tmp_path, p, where=where)
        assert found.verdicts.tolist() == verdicts.tolist() and set(found.unreadable) == bad
        assert all(
            isinstance(e, ss.StatisticsError) and name in str(e)
            for name, e in found.unreadable.items()
        )
        rows = (
            prune_shards(spark, tmp_path, p, where=where, returns="frame")
            .orderBy("container")
            .collect()
        )
        assert [r.path for r in rows] == [f"part-{i}.parquet" for i in np.flatnonzero(verdicts)]
        assert {r.container // 30 for r in rows if r.unreadable} == {0, 2}
        with pytest.raises(ss.StatisticsError, match=r"cannot be opened|torn"):
            prune_shards(spark, tmp_path, p, where=where, on_error="raise")
    with pytest.raises(Exception, match=r"StatisticsError: .*(cannot be opened|torn)"):
        prune_shards(
            spark, tmp_path, p, where="executors", on_error="raise", returns="frame"
        ).collect()
    os.unlink(tmp_path / shards.shards[1].about_file)
    with pytest.raises(Exception, match=r"StatisticsError: .*\.about: cannot be opened"):
        prune_shards(spark, tmp_path, p, where="executors", returns="frame").collect()
