"""Conditions of Spark's plans prune no file with a matching row, and keep the expected number."""

import os

import pytest

from skipstone.spark import prune, pruned
from tests.support.effort import LONG
from tests.support.spark.reads import rows_of, write_files
from tests.support.spark.session import QUIET

pytestmark = pytest.mark.filterwarnings(QUIET)

#    condition, files kept of 12
WHERE = [
    ("i = 42", 2),
    ("i IN (1, 42, 77)", 4),
    ("i NOT IN (1, 42)", 11),
    ("i IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17)", 3),
    ("i <> 5", 11),
    ("i > 5.5 AND i < 20", 3),
    ("i BETWEEN 20 AND 29", 2),
    ("NOT (i BETWEEN 20 AND 89)", 4),
    ("i < 10 OR i >= 90", 3),
    ("i = 42L", 2),
    ("i = '42'", 2),
    ("i > 3000000000L", 0),
    ("i IS NULL", 2),
    ("i IS NOT NULL AND i < 10", 2),
    ("i <=> 42", 2),
    ("i <=> NULL", 2),
    ("i = NULL", 0),
    ("NOT (i <=> 42)", 12),
    ("l >= 900000000000", 2),
    ("l = 420000000000 OR l IS NULL", 4),
    ("l < i", 2),
    ("i = j", 2),
    ("i > j AND i < 30", 4),
    ("i + 1 = 43", 2),
    ("i * 2 < 10", 2),
    ("-i > -10", 2),
    ("i / 2 > 45", 2),
    ("i div 10 = 4", 2),
    ("i % 10 = 9", 10),
    ("abs(i - 45) < 3", 2),
    ("i & 64 = 64 AND i < 70", 8),
    ("f > 40", 11),
    ("f = CAST('NaN' AS FLOAT)", 11),
    ("f < 0.5", 2),
    ("isnan(g)", 11),
    ("g > 1e300", 11),
    ("g = 0.0", 2),
    ("g >= 22 OR g <=> NULL", 12),
    ("NOT (g < 1)", 11),
    ("g = CAST('-Infinity' AS DOUBLE)", 1),
    ("m = 10.50", 1),
    ("m > 20", 2),
    ("m = 10.505", 0),
    ("m + 1 < 3", 2),
    ("m IN (1.25, 20.5)", 2),
    ("w >= 9e16", 1),
    ("w = 42000000000000000", 1),
    ("w < 0", 1),
    ("s = 'c03 text'", 2),
    ("s > 'i'", 3),
    ("s LIKE 'd0%'", 2),
    ("s LIKE 'd0_ text'", 2),
    ("s LIKE '%7 text'", 11),
    ("startswith(s, 'b')", 2),
    ("contains(s, 'a05')", 11),
    ("s IN ('a00 text', '', 'zzz')", 2),
    ("s = 'it\\'s \\\\ \"q\" %_'", 1),
    ("s >= '日'", 1),
    ("s RLIKE '^e0[0-3]'", 2),
    ("s ILIKE 'F0%'", 2),
    ("upper(s) = 'C03 TEXT'", 2),
    ("substring(s, 1, 2) = 'g0'", 2),
    ("length(s) < 5", 11),
    ("y = X'613030207465787'", 1),
    ("y < CAST('b' AS BINARY)", 2),
    ("b", 5),
    ("NOT b", 5),
    ("b IS NULL", 3),
    ("b AND i < 30", 2),
    ("d = DATE '2024-02-02'", 2),
    ("d >= '2024-09-01'", 3),
    ("d BETWEEN DATE '2024-02-01' AND DATE '2024-02-01' + INTERVAL 1 MONTH", 3),
    ("year(d) = 2024 AND month(d) = 3", 3),
    ("year(d) <> 2024", 1),
    ("quarter(d) = 2", 5),
    ("trunc(d, 'MM') = DATE '2024-04-01'", 3),
    ("date_add(d, 10) < DATE '2024-01-15'", 2),
    ("datediff(d, DATE '2024-01-01') = 63", 2),
    ("d > DATE '9000-01-01'", 1),
    ("t < TIMESTAMP '2024-01-02 00:00:00'", 2),
    ("t = TIMESTAMP '2024-03-01 03:00:00.000001'", 2),
    ("CAST(t AS DATE) = DATE '2024-03-31'", 2),
    ("date_trunc('month', t) = TIMESTAMP '2024-05-01 00:00:00'", 2),
    ("hour(t) = 21 AND t > TIMESTAMP '2024-09-01'", 2),
    ("t >= '2024-08-01'", 3),
    ("n > TIMESTAMP_NTZ '2024-09-01 00:00:00'", 2),
    ("n = TIMESTAMP_NTZ '2024-03-01 03:00:00.000001'", 2),
    ("year(n) = 1", 1),
    ("t = n AND i > 80", 3),
    ("st.a = 42", 1),
    ("st.c LIKE 'a%'", 1),
    ("st IS NULL", 3),
    ("st.a IS NULL", 3),
    ("`odd ``name``.x` = 42", 1),
    ("CASE WHEN i > 50 THEN 1 ELSE 0 END = 1", 6),
    ("CASE WHEN i > 50 THEN s END = 'j05 text'", 2),
    ("coalesce(i, 0) = 0", 4),
    ("coalesce(i, j) = 42", 3),
    ("nullif(i, 42) IS NULL", 4),
    ("greatest(i, j) < 6", 3),
    ("IF(b, i, -i) = -15", 2),
    ("CAST(i AS STRING) = '42'", 11),
    ("CAST(s AS STRING) = 'a00 text'", 2),
    ("TRY_CAST(g AS INT) = 5", 8),
    ("TRY_CAST(s AS INT) = 5", 11),
    ("try_add(i, 1) = 43", 11),
    ("rand() < 2", 12),
    ("rand(3) < 2 AND i = 42", 2),
    ("soundex(s) = 'T230' OR i = 42", 12),
    ("soundex(s) <> 'T230' AND i = 42", 2),
    ("get(arr, 0) = 42", 12),
    ("array_contains(arr, 42) AND i > 35", 8),
    ("exists(arr, v -> v = 42)", 12),
    ("input_file_name() LIKE '%04.parquet' AND i > 35", 8),
    ("hash(i) = hash(42)", 12),
    ("i = id", 11),
    ("TRUE", 12),
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
    """Return condition -> names of the files with a matching row, from one unfiltered query."""
    from pyspark.sql import functions as F

    rows = frame.select(
        F.col("_metadata.file_name").alias("file"),
        *(F.expr(w).alias(f"c{k}") for k, (w, _) in enumerate(WHERE)),
    )
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
    assert len(names(small)) == kept, pruned(small)
