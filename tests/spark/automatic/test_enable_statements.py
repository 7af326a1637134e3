"""Statements that write tables: what they write, count and refuse is as without pruning."""

from contextlib import nullcontext

import pytest

from skipstone.spark import prune, pruned
from tests.support.effort import LONG
from tests.support.spark.automatic import enabled, require_answers, settings
from tests.support.spark.lakes import DELTA_PACKAGES, ICEBERG_PACKAGES, judged, package_for
from tests.support.spark.reads import rows_of
from tests.support.spark.session import QUIET

pytestmark = pytest.mark.filterwarnings(QUIET)
TABLES = ("t", "u")
SELECT = """SELECT /*+ COALESCE(1) */ CAST(id AS INT) AS k, CONCAT('s', id) AS s,
            IF(id % 20 < 10, 'a', 'b') AS p FROM range({}, {})"""

# Each statement sees what the ones before it have written. True: some scan skips files.
STATEMENTS = [
    ("INSERT INTO {t} SELECT * FROM {t} WHERE k > 50", True),
    ("INSERT INTO {t} PARTITION (p = 'c') SELECT k, s FROM {t} WHERE k BETWEEN 20 AND 29", True),
    ("INSERT OVERWRITE {t} PARTITION (p = 'c') SELECT k, s FROM {u} WHERE k > 45", True),
    ("INSERT OVERWRITE {t} PARTITION (p) SELECT k, s, 'd' FROM {u} WHERE k < 9", True),
    ("INSERT OVERWRITE {t} SELECT t.k, t.s, t.p FROM {t} t WHERE k > 40", True),
    ("INSERT OVERWRITE {u} SELECT t.k + 100, t.s, t.p FROM {t} t JOIN {u} u USING (k)", False),
    (
        "INSERT INTO {u} SELECT t.k + 200, t.s, t.p FROM {t} t LEFT ANTI JOIN {u} u "
        "ON t.k = u.k AND u.k > 30",
        None,
    ),
    (
        "FROM {t} INSERT INTO {u} SELECT k, s, p WHERE k > 55 INSERT INTO {u} SELECT k, s, 'f' "
        "WHERE k < 3",
        True,
    ),
    ("INSERT INTO {u} SELECT * FROM {u} WHERE k = (SELECT max(k) - 1 FROM {t} WHERE k < 55)", True),
    ("SELECT * FROM {u} WHERE k > 54", True),
]
MODES = ["static", "dynamic"]
QUICK = [("static", "true"), ("dynamic", "false")]


@pytest.fixture
def copies(spark, request, tmp_path):
    """Make two databases with equal tables; yield their names."""
    names = [f"plain_{request.param}", f"pruned_{request.param}"]
    with settings(spark, {"spark.sql.sources.partitionOverwriteMode": request.param}):
        for name in names:
            spark.sql(f"CREATE DATABASE {name} LOCATION '{tmp_path / name}'")
            for table in TABLES:
                columns = "k INT, s STRING, p STRING"
                parts = " PARTITIONED BY (p)" if table == "t" else ""
                spark.sql(f"CREATE TABLE {name}.{table} ({columns}) USING parquet{parts}")
                for first in range(0, 60, 20):
                    rows = SELECT.format(first, first + 20)
                    spark.sql(f"INSERT INTO {name}.{table} {rows}")
        yield names
        for name in names:
            spark.sql(f"DROP DATABASE {name} CASCADE")


def run(spark, statement, database):
    """Run a statement in a database; return its rows, or its error."""
    from pyspark.errors import PySparkException

    names = {table: f"{database}.{table}" for table in TABLES}
    try:
        return rows_of(spark.sql(statement.format(**names)))
    except PySparkException as e:
        return str(e).replace(database, "")[:60]


@pytest.mark.parametrize(
    ("copies", "aqe"),
    [(mode, aqe) for mode in MODES for aqe in ("true", "false") if LONG or (mode, aqe) in QUICK],
    indirect=["copies"],
)
def test_statements_over_parquet(spark, copies, aqe):
    with settings(spark, {"spark.sql.adaptive.enabled": aqe}):
        for statement, skips in STATEMENTS:
            expected = run(spark, statement, copies[0])
            with enabled(spark) as found:
                assert run(spark, statement, copies[1]) == expected, statement
                require_answers(found())
                scans = [scan for query in found().queries for scan in query.scans]
            skipped = any(s.files is not None and s.kept < s.files for s in scans)
            refused = isinstance(expected, str)
            assert refused or skips in (None, skipped), statement
            for table in TABLES:
                plain, pruned = (rows_of(spark.table(f"{name}.{table}")) for name in copies)
                assert pruned == plain, (statement, table)


# Writes of a table's own rows, which Spark refuses.
REFUSED = [
    lambda df, table: df.write.mode("overwrite").saveAsTable(table),
    lambda df, table: df.write.mode("overwrite").insertInto(table),
    lambda df, table: df.distinct().write.mode("overwrite").saveAsTable(table),
    lambda df, table: df.join(df, "k").select("k").write.mode("overwrite").saveAsTable(table),
]


@pytest.mark.parametrize("copies", ["static"], indirect=True)
@pytest.mark.parametrize("how", ["plain", "enable", "prune", "prune twice"])
def test_no_table_is_overwritten_while_it_is_read(spark, copies, how):
    for table in TABLES:
        name = f"{copies[0]}.{table}"
        before = rows_of(spark.table(name))
        for refused in REFUSED:
            with enabled(spark) if how == "enable" else nullcontext():
                df = spark.table(name).where("k > 50")
                if how.startswith("prune"):
                    df = prune(df)
                    assert pruned(df)[0].kept == 1
                if how == "prune twice":
                    df = prune(df.where("k > 55"))
                with pytest.raises(Exception, match="OVERWRITE"):
                    refused(df, name)
            assert rows_of(spark.table(name)) == before


@pytest.mark.parametrize("copies", ["static"], indirect=True)
def test_a_pruned_dataframe_may_overwrite_another_table(spark, copies):
    df = prune(spark.table(f"{copies[0]}.u").where("k > 50"))
    rows = rows_of(df)
    df.write.mode("overwrite").saveAsTable(f"{copies[1]}.u")
    assert rows_of(spark.table(f"{copies[1]}.u")) == rows


@pytest.fixture(scope="module", params=["delta", "iceberg"])
def answers(request, tmp_path_factory):
    package = package_for(DELTA_PACKAGES if request.param == "delta" else ICEBERG_PACKAGES)
    return judged("tests.support.spark.judge_statements", package, tmp_path_factory.mktemp("l"))


def test_statements_over_lakes(answers):
    """Both copies have the same rows, errors and counts of changed rows."""
    assert not [a for a in answers if not a["equal"]]
    errors = [a["what"] for a in answers if a["error"]]
    assert all("'two'" in what for what in errors) and errors
    assert sum(bool(a["skipped"]) for a in answers) > len(answers) // 3
