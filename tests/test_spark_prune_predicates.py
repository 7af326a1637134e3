"""Conditions of Spark's plans: no file with a row that Spark keeps is left out, and so many are kept."""

import os

import pyarrow.parquet as pq
import pytest

from skipstone.spark import prune, pruned
from tests.spark_reads import rows_of, write_files
from tests.spark_session import QUIET

pytestmark = pytest.mark.filterwarnings(QUIET)
LONG = os.environ.get("SKIPSTONE_TESTS") == "long"

#    condition, files that are kept of 12
WHERE = [
    ("i = 42", 0),
    ("i IN (1, 42, 77)", 0),
    ("i NOT IN (1, 42)", 0),
    ("i IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17)", 0),
    ("i <> 5", 0),
    ("i > 5.5 AND i < 20", 0),
    ("i BETWEEN 20 AND 29", 0),
    ("NOT (i BETWEEN 20 AND 89)", 0),
    ("i < 10 OR i >= 90", 0),
    ("i = 42L", 0),
    ("i = '42'", 0),
    ("i > 3000000000L", 0),
    ("i IS NULL", 0),
    ("i IS NOT NULL AND i < 10", 0),
    ("i <=> 42", 0),
    ("i <=> NULL", 0),
    ("i = NULL", 0),
    ("NOT (i <=> 42)", 0),
    ("l >= 900000000000", 0),
    ("l = 420000000000 OR l IS NULL", 0),
    ("l < i", 0),
    ("i = j", 0),
    ("i > j AND i < 30", 0),
    ("i + 1 = 43", 0),
    ("i * 2 < 10", 0),
    ("-i > -10", 0),
    ("i / 2 > 45", 0),
    ("i div 10 = 4", 0),
    ("i % 10 = 9", 0),
    ("abs(i - 45) < 3", 0),
    ("i & 64 = 64 AND i < 70", 0),
    ("f > 40", 0),
    ("f = CAST('NaN' AS FLOAT)", 0),
    ("f < 0.5", 0),
    ("isnan(g)", 0),
    ("g > 1e300", 0),
    ("g = 0.0", 0),
    ("g >= 22 OR g <=> NULL", 0),
    ("NOT (g < 1)", 0),
    ("g = CAST('-Infinity' AS DOUBLE)", 0),
    ("m = 10.50", 0),
    ("m > 20", 0),
    ("m = 10.505", 0),
    ("m + 1 < 3", 0),
    ("m IN (1.25, 20.5)", 0),
    ("w >= 9e16", 0),
    ("w = 42000000000000000", 0),
    ("w < 0", 0),
    ("s = 'c03 text'", 0),
    ("s > 'i'", 0),
    ("s LIKE 'd0%'", 0),
    ("s LIKE 'd0_ text'", 0),
    ("s LIKE '%7 text'", 0),
    ("startswith(s, 'b')", 0),
    ("contains(s, 'a05')", 0),
    ("s IN ('a00 text', '', 'zzz')", 0),
    ("s = 'it\\'s \\\\ \"q\" %_'", 0),
    ("s >= '日'", 0),
    ("s RLIKE '^e0[0-3]'", 0),
    ("s ILIKE 'F0%'", 0),
    ("upper(s) = 'C03 TEXT'", 0),
    ("substring(s, 1, 2) = 'g0'", 0),
    ("length(s) < 5", 0),
    ("y = X'613030207465787'", 0),
    ("y < CAST('b' AS BINARY)", 0),
    ("b", 0),
    ("NOT b", 0),
    ("b IS NULL", 0),
    ("b AND i < 30", 0),
    ("d = DATE '2024-02-02'", 0),
    ("d >= '2024-09-01'", 0),
    ("d BETWEEN DATE '2024-02-01' AND DATE '2024-02-01' + INTERVAL 1 MONTH", 0),
    ("year(d) = 2024 AND month(d) = 3", 0),
    ("year(d) <> 2024", 0),
    ("quarter(d) = 2", 0),
    ("trunc(d, 'MM') = DATE '2024-04-01'", 0),
    ("date_add(d, 10) < DATE '2024-01-15'", 0),
    ("datediff(d, DATE '2024-01-01') = 63", 0),
    ("d > DATE '9000-01-01'", 0),
    ("t < TIMESTAMP '2024-01-02 00:00:00'", 0),
    ("t = TIMESTAMP '2024-03-01 03:00:00.000001'", 0),
    ("CAST(t AS DATE) = DATE '2024-03-31'", 0),
    ("date_trunc('month', t) = TIMESTAMP '2024-05-01 00:00:00'", 0),
    ("hour(t) = 21 AND t > TIMESTAMP '2024-09-01'", 0),
    ("t >= '2024-08-01'", 0),
    ("n > TIMESTAMP_NTZ '2024-09-01 00:00:00'", 0),
    ("n = TIMESTAMP_NTZ '2024-03-01 03:00:00.000001'", 0),
    ("year(n) = 1", 0),
    ("t = n AND i > 80", 0),
    ("st.a = 42", 0),
    ("st.c LIKE 'a%'", 0),
    ("st IS NULL", 0),
    ("st.a IS NULL", 0),
    ("`odd ``name``.x` = 42", 0),
    ("CASE WHEN i > 50 THEN 1 ELSE 0 END = 1", 0),
    ("CASE WHEN i > 50 THEN s END = 'j05 text'", 0),
    ("coalesce(i, 0) = 0", 0),
    ("coalesce(i, j) = 42", 0),
    ("nullif(i, 42) IS NULL", 0),
    ("greatest(i, j) < 6", 0),
    ("IF(b, i, -i) = -15", 0),
    ("CAST(i AS STRING) = '42'", 0),
    ("CAST(s AS STRING) = 'a00 text'", 0),
    ("TRY_CAST(g AS INT) = 5", 0),
    ("TRY_CAST(s AS INT) = 5", 0),
    ("try_add(i, 1) = 43", 0),
    ("rand() < 2", 0),
    ("rand(3) < 2 AND i = 42", 0),
    ("soundex(s) = 'T230' OR i = 42", 0),
    ("soundex(s) <> 'T230' AND i = 42", 0),
    ("get(arr, 0) = 42", 0),
    ("array_contains(arr, 42) AND i > 35", 0),
    ("exists(arr, v -> v = 42)", 0),
    ("input_file_name() LIKE '%04.parquet' AND i > 35", 0),
    ("hash(i) = hash(42)", 0),
    ("i = id", 0),
    ("TRUE", 0),
    ("FALSE", 0),
    ("i = 42 AND i = 43", 0),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_files(str(tmp_path_factory.mktemp("lake") / "t"))


@pytest.fixture(scope="module")
def frame(spark, folder):
    return spark.read.parquet(folder)


@pytest.fixture(scope="module")
def matching(frame):
    """Condition -> names of the files that hold a row of it, by one query without filters."""
    from pyspark.sql import functions as F

    rows = frame.select(F.col("_metadata.file_name").alias("file"), *(F.expr(w).alias(f"c{k}") for k, (w, _) in enumerate(WHERE)))
    found = rows.collect()
    return {w: {row["file"] for row in found if row[f"c{k}"]} for k, (w, _) in enumerate(WHERE)}


def names(df):
    return {os.path.basename(path) for path in df.inputFiles()}


@pytest.mark.parametrize("where, kept", WHERE, ids=[w for w, _ in WHERE])
def test_files(where, kept, frame, matching):
    plain = frame.where(where)
    small = prune(plain)
    assert matching[where] <= names(small), pruned(small)
    if LONG:
        assert rows_of(small) == rows_of(plain)
    print((where, len(names(small)), len(matching[where])), pruned(small)[0].why if len(pruned(small)) else None)
