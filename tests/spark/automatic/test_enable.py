"""`enable`: every query of a session opens fewer files, with the same rows."""

import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.spark.automatic.pruner import Pruner
from skipstone.bindings.spark.session import metrics
from skipstone.spark import disable, enable, prune, report
from tests.support.spark.automatic import again, automatic, enabled, settings
from tests.support.spark.opened import files_opened
from tests.support.spark.reads import rows_of
from tests.support.spark.session import QUIET

pytestmark = pytest.mark.filterwarnings(QUIET)
FILES, ROWS = 12, 10


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    """Write t (k ascending, 12 files of 10 rows), p (the same in 3 folders), and d (keys of t)."""
    root = tmp_path_factory.mktemp("lake")
    k = np.arange(FILES * ROWS)
    for i in range(FILES):
        part = pa.table({"k": k[i * ROWS :][:ROWS], "v": k[i * ROWS :][:ROWS] % 7})
        for folder in ("t", f"p/g={i % 3}"):
            (root / folder).mkdir(parents=True, exist_ok=True)
            pq.write_table(part, root / folder / f"{i:02}.parquet")
    (root / "d").mkdir()
    pq.write_table(pa.table({"k": k, "month": k // 20, "g": k % 3}), root / "d" / "0.parquet")
    for name in "tpd":
        spark.read.parquet(str(root / name)).createOrReplaceTempView(name)
    yield root
    for name in "tpd":
        spark.catalog.dropTempView(name)


# The query, and how many files its scans open, in ascending order.
QUERIES = [
    ("SELECT * FROM t WHERE k = 42", [1]),
    ("SELECT count(*) FROM t WHERE k BETWEEN 15 AND 34", [3]),
    ("SELECT * FROM t", [12]),
    ("SELECT * FROM t WHERE k < 0", [0]),
    ("SELECT * FROM (SELECT k + 1 AS n FROM t) WHERE n = 42", [1]),
    ("SELECT * FROM t WHERE k = 5 UNION ALL SELECT * FROM t WHERE k > 100", [1, 2]),
    ("WITH a AS (SELECT * FROM t WHERE k < 30) SELECT * FROM a x JOIN a y USING (k)", [3, 3]),
    ("SELECT * FROM t WHERE k = (SELECT max(k) FROM t WHERE k < 25)", [3, 12]),
    ("SELECT * FROM t WHERE k IN (SELECT k FROM d WHERE month = 2)", [1, 2]),
    ("SELECT * FROM t WHERE NOT EXISTS (SELECT 1 FROM d WHERE d.k = t.k AND month < 5)", [1, 2]),
    ("SELECT t.v, count(*) FROM t JOIN d USING (k) WHERE month = 1 GROUP BY 1", [1, 2]),
    ("SELECT * FROM d LEFT JOIN t USING (k) WHERE month = 1", [1, 2]),
    ("SELECT * FROM t JOIN d ON t.k = d.k AND t.v = d.g WHERE month = 1", [1, 2]),
    ("SELECT * FROM t JOIN d ON t.v = d.g AND t.k = d.k AND t.v = g WHERE month = 1", [1, 2]),
    ("SELECT * FROM t LEFT JOIN d ON t.k = d.k AND month = 1", [1, 12]),
    ("SELECT * FROM p WHERE k = 42 AND g = 1", [1]),
    ("SELECT * FROM p JOIN d USING (k) WHERE month = 1", [1, 2]),
    ("SELECT * FROM t WHERE k = 42 AND current_timestamp() > TIMESTAMP '2020-01-01'", [1]),
    ("SELECT * FROM t WHERE k > 110 AND rand() >= 0", [1]),
    ("SELECT k, row_number() OVER (ORDER BY k) FROM t WHERE k < 10", [1]),
    ("SELECT * FROM t TABLESAMPLE (100 PERCENT) WHERE k < 10", [12]),
    ("SELECT * FROM t WHERE k < 12 ORDER BY k LIMIT 3", [2]),
    ("SELECT k, r FROM (SELECT k, rand(4) r FROM t) WHERE k > 60", [12]),
    ("SELECT k FROM (SELECT k FROM t WHERE rand(42) < 0.5) WHERE k > 60", [12]),
    (
        "WITH n AS (SELECT k, monotonically_increasing_id() i FROM t) "
        "SELECT a.k, b.k FROM n a JOIN n b USING (i) WHERE a.k = 77",
        [12],
    ),
    ("SELECT * FROM (SELECT k, input_file_name() f FROM t) WHERE k > 110", [1]),
]


@pytest.mark.parametrize("aqe", ["true", "false"])
@pytest.mark.parametrize(("query", "files"), QUERIES)
def test_queries(spark, lake, query, files, aqe):
    with settings(spark, {"spark.sql.adaptive.enabled": aqe}):
        df = spark.sql(query)
        rows, opened = automatic(df)
        assert rows == rows_of(again(df))
        assert opened == files


def test_commands(spark, lake, tmp_path):
    """Commands that write a table also read fewer files."""
    expected = spark.sql("SELECT * FROM t WHERE k IN (7, 8)")
    with enabled(spark) as found:
        spark.sql("SELECT * FROM t WHERE k IN (7, 8)").write.parquet(str(tmp_path / "a"))
        spark.read.parquet(str(tmp_path / "a")).createOrReplaceTempView("a")
        spark.sql("INSERT INTO a SELECT * FROM t WHERE k IN (7, 8)")
        judged = {(s.kept, s.files) for q in found().queries for s in q.scans}
    assert judged == {(1, 12)}
    assert rows_of(spark.read.parquet(str(tmp_path / "a"))) == sorted(rows_of(expected) * 2)
    spark.catalog.dropTempView("a")


def test_settings_are_read_at_each_query(spark, lake):
    def opened(query="SELECT * FROM t WHERE k = 42"):
        df = spark.sql(query)
        df.collect()
        return sorted(metrics.files_opened(df))

    joined = "SELECT * FROM t JOIN d USING (k) WHERE month = 1"
    with enabled(spark):
        assert (opened(), opened(joined)) == ([1], [1, 2])
        with settings(spark, {"spark.skipstone.joins": "false"}):
            assert (opened(), opened(joined)) == ([1], [1, 12])
        with settings(spark, {"spark.skipstone.enabled": "FALSE "}):
            assert (opened(), opened(joined)) == ([12], [1, 12])
    assert opened() == [12]


def test_a_dataframe_is_pruned_anew_by_each_action(spark, tmp_path):
    for i in range(3):
        pq.write_table(pa.table({"k": [i * 10 + 1]}), tmp_path / f"{i}.parquet")
    df = spark.read.parquet(str(tmp_path)).where("k > 15")
    with enabled(spark):
        assert df.count() == 1
        pq.write_table(pa.table({"k": [99]}), tmp_path / "0.parquet")  # replaced in place
        assert rows_of(df) == ["Row(k=21)", "Row(k=99)"]
        pq.write_table(pa.table({"k": [77]}), tmp_path / "3.parquet")
        new = spark.read.parquet(str(tmp_path)).where("k > 15")
        assert rows_of(new) == ["Row(k=21)", "Row(k=77)", "Row(k=99)"]


def test_the_build_side_of_a_planned_join_changes(spark, tmp_path):
    """Each action collects the keys anew."""
    (tmp_path / "t").mkdir()
    for i in range(4):
        pq.write_table(pa.table({"k": [i * 10]}), tmp_path / "t" / f"{i}.parquet")
    pq.write_table(pa.table({"k": [0, 10], "x": [1, 2]}), tmp_path / "d.parquet")
    fact, dim = spark.read.parquet(str(tmp_path / "t")), spark.read.parquet(f"{tmp_path}/d.parquet")
    df = fact.join(dim, "k").where("x = 1")
    with enabled(spark):
        assert rows_of(df) == ["Row(k=0, x=1)"]
        assert sorted(metrics.files_opened(df)) == [1, 1]
        time.sleep(0.01)
        pq.write_table(pa.table({"k": [30, 20], "x": [1, 1]}), tmp_path / "d.parquet")
        assert df.count() == 2 and rows_of(again(df)) == ["Row(k=20, x=1)", "Row(k=30, x=1)"]


def test_cached_parts(spark, lake):
    with enabled(spark):
        part = spark.sql("SELECT * FROM t WHERE k < 30").cache()
        try:
            assert part.count() == 30
            assert part.where("k = 5").count() == 1
            assert spark.sql("SELECT * FROM t WHERE k < 30").where("k >= 25").count() == 5
            assert spark.sql("SELECT * FROM t WHERE k = 50").count() == 1
        finally:
            part.unpersist()


def test_dataframes_of_prune(spark, lake):
    with enabled(spark):
        small = prune(spark.table("t").where("k = 42"))
        assert rows_of(small.where("v >= 0")) == ["Row(k=42, v=0)"]


def test_partition_pruning_while_a_query_runs(spark, lake):
    """Spark goes on to reuse the broadcast of a build side that is pruned."""
    query = "SELECT count(*) FROM p JOIN d USING (g) WHERE month = 1 AND d.k < 25"
    with settings(spark, {"spark.sql.adaptive.enabled": "false"}):
        plain = spark.sql(query)
        with enabled(spark):
            plan = again(plain)._jdf.queryExecution().executedPlan().toString()
        expected = plain._jdf.queryExecution().executedPlan().toString()
    for word in ("dynamicpruning", "ReusedExchange", "SubqueryBroadcast"):
        assert plan.count(word) == expected.count(word)


def test_many_threads(spark, lake):
    with enabled(spark) as found:
        wrong = []

        def ask(i):
            for j in range(5):
                n = spark.sql(f"SELECT * FROM t WHERE k = {(i * 5 + j) % 120}").count()
                wrong.extend([n] * (n != 1))

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        now = found()
    assert not wrong
    assert now.failed == 0 and now.answered + now.skipped >= 40


def test_sessions(spark, connect, lake):
    other = spark.newSession()
    other.conf.set("spark.skipstone.minBytes", "0")
    with enabled(spark):
        t = str(lake / "t")
        assert files_opened(other.read.parquet(t).where("k = 3")) == 12
        with pytest.raises(ss.PredicateError, match=r"call enable\(spark\) first"):
            report(other)
        enable(other)
        enable(other)
        assert files_opened(other.read.parquet(t).where("k = 3")) == 1
        assert report(other).answered >= 1
        assert other._jsparkSession.experimental().extraOptimizations().size() == 1
        disable(other)
        disable(other)
        assert other._jsparkSession.experimental().extraOptimizations().size() == 0
        assert files_opened(spark.sql("SELECT * FROM t WHERE k = 3")) == 1
    with pytest.raises(ss.UnsupportedForm, match="Spark Connect"):
        enable(connect)


def test_batches_of_streams(spark, lake, tmp_path):
    """Spark gives each batch a session that it cloned."""
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"k": [42, 55]}), tmp_path / "in" / "0.parquet")
    found = []

    def each(batch, _):
        joined = batch.join(batch.sparkSession.read.parquet(str(lake / "t")).where("k < 50"), "k")
        found.append(rows_of(joined))

    with enabled(spark) as now:
        stream = spark.readStream.schema("k bigint").parquet(str(tmp_path / "in"))
        query = stream.writeStream.foreachBatch(each).trigger(availableNow=True)
        query = query.option("checkpointLocation", str(tmp_path / "c")).start()
        query.awaitTermination()
        assert query.exception() is None
        assert any(s.kept == 5 and s.files == 12 for q in now().queries for s in q.scans)
    assert found == [["Row(k=42, v=0)"]]


# Faults: the rows of the query are still right.


def test_a_callback_that_raises(spark, lake, monkeypatch):
    def fail(*_):
        raise RuntimeError("no")

    monkeypatch.setattr(Pruner, "_prune", fail)
    with enabled(spark) as found, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for k in (3, 4):
            assert spark.sql(f"SELECT * FROM t WHERE k = {k}").count() == 1
        assert [q.why for q in found().queries] == ["RuntimeError: no"] * 2
        assert (found().failed, found().answered) == (2, 0)
    assert len([w for w in told if "RuntimeError: no" in str(w.message)]) == 1


def test_a_callback_that_takes_too_long(spark, lake, monkeypatch):
    real, release = Pruner._prune, threading.Event()

    def slow(*given):
        release.wait(30)
        return real(*given)

    monkeypatch.setattr(Pruner, "_prune", slow)
    with enabled(spark, **{"spark.skipstone.maxPlanningMillis": "100"}) as found:
        start = time.monotonic()
        assert spark.sql("SELECT * FROM t WHERE k = 3").count() == 1
        assert time.monotonic() - start < 20
        assert found().late == 1
        release.set()
        deadline = time.monotonic() + 20
        while not found().queries and time.monotonic() < deadline:
            time.sleep(0.01)
        assert "took too long" in found().queries[0].why


def test_an_answer_that_is_no_plan(spark, lake, monkeypatch):
    monkeypatch.setattr(Pruner, "_prune", lambda *_: ("not a plan", []))
    with enabled(spark) as found:
        assert spark.sql("SELECT * FROM t WHERE k = 3").count() == 1
        assert found().failed == 1 and "ClassCast" in found().error


UNREADABLE = [
    ("spark.skipstone.minBytes", "1MB", "spark.skipstone.minBytes is '1MB'"),
    ("spark.skipstone.maxPlanningMillis", "1s", "maxPlanningMillis is '1s'; expected millisec"),
]


@pytest.mark.parametrize("key, value, why", UNREADABLE)
def test_a_setting_that_cannot_be_read_is_a_failure(spark, lake, key, value, why):
    with enabled(spark) as found, settings(spark, {key: value}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(5):
            assert spark.sql("SELECT * FROM t WHERE k = 3").count() == 1
        counted = found()
        assert why in counted.error and (counted.failed, counted.skipped) == (3, 2)
        enable(spark)  # begins anew
        assert (report(spark).failed, report(spark).queries) == (0, ())


MISREAD = [
    ("spark.skipstone.enabled", "1", [12], "expected true or false"),
    ("spark.skipstone.enabled", "yes", [12], "expected true or false"),
    ("spark.skipstone.enabled", "", [12], "expected true or false"),
    ("spark.skipstone.joins", "no", [1, 12], "expected true or false"),
    ("spark.skipstone.jobMillis", "soon", [1, 12], "expected a number, 0 or more"),
]


@pytest.mark.parametrize("key, value, files, why", MISREAD)
def test_a_setting_that_cannot_be_read_is_named(spark, lake, key, value, files, why):
    """It turns off what it is about, is named once, and holds nothing up once it is right."""
    joined = "SELECT * FROM t JOIN d USING (k) WHERE month = 1"
    query = joined if "joins" in key or "job" in key else "SELECT * FROM t WHERE k = 42"

    def opened():
        df = spark.sql(query)
        df.collect()
        return sorted(metrics.files_opened(df))

    with enabled(spark) as found, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with settings(spark, {key: value}):
            assert [opened() for _ in range(4)] == [files] * 4
            assert f"{key} is '{value}'; {why}" in str(found())
        assert opened() == [1, 2] if files == [1, 12] else [1]
    assert len([w for w in told if key in str(w.message)]) == (files == [1, 12])


def test_small_scans_say_why_they_stay(spark, lake):
    with enabled(spark, **{"spark.skipstone.minBytes": str(1 << 30)}) as found:
        assert spark.sql("SELECT * FROM t WHERE k = 3").count() == 1
        assert "it has fewer bytes than spark.skipstone.minBytes" in str(found())


@pytest.mark.parametrize("seconds", [0, 1])
def test_a_late_requests_jobs_are_cancelled(spark, lake, monkeypatch, seconds):
    """Both those that run when the limit has passed, and those that begin afterwards."""
    ended = threading.Event()

    def collect(self, request):
        try:
            time.sleep(seconds)
            slow = "SELECT count(*) FROM range(100000) a JOIN range(100000) b ON a.id + b.id < 0"
            spark.sql(slow).collect()
        finally:
            ended.set()

    monkeypatch.setattr(Pruner, "_prune", collect)
    limit = {"spark.skipstone.maxPlanningMillis": "300"}
    with enabled(spark, **limit) as found, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert spark.sql("SELECT * FROM t WHERE k = 3").count() == 1
        assert found().late == 1 and ended.wait(20)


DIES = """
import socket, sys, warnings
warnings.simplefilter("ignore")
from skipstone.spark import enable, report, session
from tests.support.spark.automatic import EAGER
from tests.support.spark.session import CONFIG

limit = {"spark.skipstone.maxPlanningMillis": "500"}
spark = session(CONFIG | EAGER | limit, master="local[1]")
enable(spark)
spark.read.parquet(sys.argv[1]).createOrReplaceTempView("t")
counts = [spark.sql("SELECT * FROM t WHERE k = 3").count()]
server = spark.sparkContext._gateway._callback_server
server.server_socket.close()
for connection in list(server.connections):
    connection.socket.shutdown(socket.SHUT_RDWR)
counts += [spark.sql(f"SELECT * FROM t WHERE k = {k}").count() for k in range(4, 9)]
found = report(spark)
print(set(counts), found.answered, found.failed + found.late, found.skipped)
"""


def test_a_python_side_that_stops(lake):
    """Spark's queries go on without it, and wait for it three times only."""
    done = subprocess.run(
        [sys.executable, "-c", DIES, str(lake / "t")],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(__file__).parents[3],
    )
    assert done.stdout.split("\n")[-2] == "{1} 1 3 2", done.stdout + done.stderr
