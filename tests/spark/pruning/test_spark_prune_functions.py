"""`prune` understands Spark's expression class of every documented function.

Each file of the table holds one row's values over and over, so that functions of every kind can be
judged: a file is kept exactly if its rows match.
"""

import os

import pytest

from skipstone.bindings.predicates import reference
from skipstone.spark import prune, pruned
from tests.support.spark.session import INSTALLED, QUIET

pytestmark = pytest.mark.filterwarnings(QUIET)

FILES = 6
COLUMNS = (
    "CAST(id AS INT) AS i", "id * 1000003 AS l", "id + 0.25D AS g",
    "CAST(id + 0.25 AS DECIMAL(9, 2)) AS m", "CONCAT('x', id, ' y') AS s",
    "CAST(CONCAT('0', id) AS BINARY) AS y",
    "date_add(DATE '2024-01-30', CAST(id AS INT) * 40) AS d",
    "TIMESTAMP '2024-03-09 22:30:15.25' + make_dt_interval(CAST(id AS INT), 1) AS t",
    "TIMESTAMP_NTZ '2024-03-09 22:30:15.25' + make_dt_interval(CAST(id AS INT), 1) AS n",
    "array(CAST(id AS INT), NULL) AS a", "map(CONCAT('k', id), id) AS k",
    "array(named_struct('sku', CONCAT('s', id), 'q', CAST(id AS INT)), NULL) AS it",
)  # fmt: skip

# function -> conditions; the settings of the tests' session are ANSI mode and UTC.
WHERE = {
    "add": ["i + 1 = 3", "m + 1 > 3.5"],
    "subtract": ["i - 1 = 3", "d - DATE '2024-01-30' = INTERVAL '80' DAY",
                 "t - TIMESTAMP '2024-03-09 00:00:00' > INTERVAL '3' DAY",
                 "n - TIMESTAMP_NTZ '2024-03-09 00:00:00' < INTERVAL '3 05:00' DAY TO MINUTE"],
    "multiply": ["i * 2 = 6"],
    "try_add": ["try_add(i, 2147483645) IS NULL", "try_add(m, 1) = 3.25"],
    "try_subtract": ["try_subtract(i, 1) = 2"],
    "try_multiply": ["try_multiply(i, 1000000000) IS NULL"],
    "try_divide": ["try_divide(i, 2) = 1.5", "try_divide(8, i) IS NULL"],
    "try_mod": ["try_mod(7, i) = 1"],
    "negative": ["-i < -3"], "abs": ["abs(i - 3) = 2"], "divide": ["i / 2 = 1.5"],
    "div": ["l div 1000000 = 2"], "remainder": ["i % 4 = 1"], "pmod": ["pmod(i, 4) = 1"],
    "floor": ["floor(g) > 3"], "ceil": ["ceil(m) = 3"],
    "round": ["round(m) = 3", "round(g, 1) < 3", "round(l, -6) = 3000000"],
    "bround": ["bround(m) = 3", "bround(g, 1) < 3", "bround(l, -6) = 3000000"],
    "sign": ["sign(i) = 0"], "degrees": ["degrees(g) < 200"], "radians": ["radians(g) < 0.03"],
    "rint": ["rint(g) = 3"], "sqrt": ["sqrt(g) < 2"],
    "pow": ["pow(i, 2) = 9", "pow(g, 2) < 9"], "ln": ["ln(g) < 1.1"], "log": ["log(2, g) < 1.7"],
    "log10": ["log10(g) < 0.5"], "log2": ["log2(g) < 1.7"], "log1p": ["log1p(g) < 1.5"],
    "exp": ["exp(g) < 9"], "expm1": ["expm1(g) < 9"], "cbrt": ["cbrt(g) < 1.5"],
    "hypot": ["hypot(i, g) < 5"], "sin": ["sin(g) < -0.5"], "cos": ["cos(g) < 0.5"],
    "tan": ["tan(g / 4) < 1.1"], "cot": ["cot(g / 4) < 0.9"], "sec": ["sec(g / 4) < 1.5"],
    "csc": ["csc(g / 4) < 2"], "asin": ["asin(g / 9) < 0.4"], "acos": ["acos(i / 9) > 1.3"],
    "atan": ["atan(g) < 1.2"], "atan2": ["atan2(g, 1) < 1.2"], "sinh": ["sinh(g) < 9"],
    "cosh": ["cosh(g) < 9"], "tanh": ["tanh(g) < 0.98"],
    "&": ["i & 2 = 2"], "|": ["i | 4 = 5"], "^": ["i ^ 1 = 3"], "~": ["~i = -3"],
    "bit_count": ["bit_count(i) = 2"], "shiftleft": ["shiftleft(i, 1) = 6", "l << 2 = 8000024"],
    "shiftright": ["shiftright(i, 1) = 1", "i >> 1 = 2"],
    "shiftrightunsigned": ["shiftrightunsigned(i, 1) = 1", "i >>> 1 = 2"],
    "length": ["length(substring(s, 1, i)) = 3", "length(substring(y, 1, i)) = 1"],
    "octet_length": ["octet_length(substring(s, 1, i)) = 3"],
    "bit_length": ["bit_length(substring(s, 1, i)) = 24"],
    "substring": ["substring(s, 2, 1) = '3'"],
    "upper": ["upper(s) = 'X3 Y'"], "lower": ["lower(s) < 'x2'"], "concat": ["s || 'z' = 'x2 yz'"],
    "trim": ["trim(s) = 'x2 y'", "trim(BOTH 'xy' FROM s) = '2 '", "btrim(s, 'x') = '2 y'"],
    "ltrim": ["ltrim(s) = 'x2 y'", "trim(LEADING 'x2' FROM s) = ' y'"],
    "rtrim": ["rtrim(s) = 'x2 y'", "trim(TRAILING 'y ' FROM s) = 'x2'"],
    "reverse": ["reverse(s) = 'y 2x'"],
    "overlay": ["overlay(s PLACING 'ab' FROM 3) = 'x2ab'",
                "overlay(s PLACING 'a' FROM 2 FOR 0) = 'xa2 y'"],
    "lpad": ["lpad(s, 6, '-') = '--x2 y'", "lpad(s, 2) = 'x2'"], "rpad": ["rpad(s, 5) = 'x2 y '"],
    "translate": ["translate(s, '23', 'b') = 'xb y'"],
    "substring_index": ["substring_index(s, ' ', 1) = 'x4'"],
    "find_in_set": ["find_in_set(s, 'a,x4 y,b') = 2"], "replace": ["replace(s, '4', 'f') = 'xf y'"],
    "repeat": ["repeat(s, 2) = 'x1 yx1 y'"], "right": ["right(s, 3) = '4 y'"],
    "split_part": ["split_part(s, ' ', 1) = 'x4'", "split_part(s, '4', -1) = ' y'",
                   "split_part(s, '4', 2) = ''"],
    "instr": ["instr(s, '3') = 2"], "locate": ["locate('3', s) = 2", "position('4', s) > 0"],
    "ascii": ["ascii(substring(s, 2)) = 51"], "hex": ["hex(i + 20) = '17'", "hex(y) = '3033'"],
    "bin": ["bin(i) = '11'"], "unhex": ["unhex(CAST(i AS STRING)) = X'03'"],
    "unbase64": ["unbase64(repeat(substring(s, 2, 1), 4)) = X'DB6DB6'"],
    "md5": ["md5(y) = md5(CAST('03' AS BINARY))"], "sha1": ["sha1(s) = sha1('x2 y')"],
    "sha2": ["sha2(s, 256) = sha2('x2 y', 256)"], "crc32": ["crc32(y) = crc32('03')"],
    "chr": ["chr(i + 65) = 'C'"],
    "year": ["year(d + INTERVAL 1 YEAR) = 2025 AND year(t) = 2024 AND i = 3"],
    "quarter": ["quarter(d) = 3"], "month": ["month(d) = 4"], "day": ["day(n) = 12"],
    "dayofyear": ["dayofyear(d) = 70"], "dayofweek": ["dayofweek(d) = 1"],
    "weekday": ["weekday(d) = 6"], "weekofyear": ["weekofyear(d) > 20"],
    "hour": ["hour(t) = 23 AND i > 4"], "minute": ["minute(n) = 30 AND i > 4"],
    "second": ["second(t) = 15 AND i > 4", "extract(SECOND FROM t) = 15.25 AND i > 2",
               "extract(SECOND FROM n) = 15.25 AND i = 2"],
    "last_day": ["last_day(d) = DATE '2024-03-31'"],
    "trunc": ["trunc(d, 'MM') = DATE '2024-03-01'"],
    "date_add": ["date_add(d, 10) > DATE '2024-07-01'", "d + i > DATE '2024-07-01'"],
    "date_sub": ["date_sub(d, 10) > DATE '2024-07-01'"],
    "add_months": ["add_months(d, 1) = DATE '2024-04-10'",
                   "d + INTERVAL 1 MONTH = DATE '2024-02-29'",
                   "d - INTERVAL 2 YEAR = DATE '2022-03-10'",
                   "d + INTERVAL '1-2' YEAR TO MONTH = DATE '2025-05-10'",
                   "d + make_ym_interval(0, i) > DATE '2024-10-01'",
                   "t + INTERVAL 1 MONTH > TIMESTAMP '2024-04-13'",
                   "n - INTERVAL 3 MONTHS > TIMESTAMP_NTZ '2023-12-13'",
                   "timestampadd(MONTH, 1, t) > TIMESTAMP '2024-04-13'"],
    "datediff": ["datediff(d, DATE '2024-01-30') = 80",
                 "timestampdiff(DAY, TIMESTAMP '2024-03-09', t) = 4",
                 "timestampdiff(MONTH, d, TIMESTAMP '2024-09-09') = 4",
                 "timestampdiff(MICROSECOND, n, TIMESTAMP_NTZ '2024-03-09') < 0 AND i = 3"],
    "make_date": ["make_date(2020, i + 1, 1) = DATE '2020-04-01'"],
    "unix_date": ["unix_date(d) = 19752"],
    "date_from_unix_date": ["date_from_unix_date(i) = DATE '1970-01-04'"],
    "unix_seconds": ["unix_seconds(t) > 1710370000", "unix_timestamp(t) > 1710370000",
                     "to_unix_timestamp(n) > 1710370000", "unix_timestamp(d) > 1720000000"],
    "unix_millis": ["unix_millis(t) > 1710370000000"],
    "unix_micros": ["unix_micros(t) > 1710370000000000"],
    "timestamp_seconds": ["timestamp_seconds(l) > TIMESTAMP '1970-02-10'",
                          "timestamp_seconds(m) = TIMESTAMP '1970-01-01 00:00:02.25'"],
    "timestamp_millis": ["timestamp_millis(l) > TIMESTAMP '1970-01-01 01:00:00'"],
    "timestamp_micros": ["timestamp_micros(l) > TIMESTAMP '1970-01-01 00:00:04'"],
    "wall_format": ["date_format(d, 'yyyy-MM') = '2024-03'", "date_format(t, 'MM/dd') = '03/13'",
                    "date_format(n, 'dd') < '12'", "date_format(d, 'EEE, MMMM') = 'Fri, April'"],
    "dayname": ["dayname(d) = 'Sun'"], "monthname": ["monthname(d) = 'Apr'"],
    "next_day": ["next_day(d, 'MON') = DATE '2024-04-22'"],
    "months_between": ["months_between(d, DATE '2024-01-30') > 3",
                       "months_between(DATE '2024-01-30', d, false) < -4"],
    "from_unixtime": ["from_unixtime(l) > '1970-02-10'", "from_unixtime(l, 'dd') = '12'"],
    "concat_ws": ["concat_ws('-', i, s) = '3-x3 y'",
                  "concat_ws('/', CAST(NULL AS STRING), i) = '2'"],
    "regexp_extract": ["regexp_extract(s, 'x([0-9])', 1) = '3'",
                       "regexp_extract(s, '2 y', 0) = ''"],
    "regexp_replace": ["regexp_replace(s, '[xy ]', '') = '4'",
                       "regexp_replace(s, '(x)([0-9])', '$2$1') = '3x y'"],
    "decode": ["decode(i, 2, 'a', 3, 'b', 'c') = 'b'"],
    "later": ["t + INTERVAL 3 HOURS > TIMESTAMP '2024-03-14'",
              "t - INTERVAL '1 02' DAY TO HOUR > TIMESTAMP '2024-03-12'",
              "n + INTERVAL 1 WEEK > TIMESTAMP_NTZ '2024-03-20 00:00:00'",
              "t + make_dt_interval(i) > TIMESTAMP '2024-03-17'",
              "timestampadd(HOUR, -5, t) < TIMESTAMP '2024-03-11'",
              "dateadd(DAY, 1, n) > TIMESTAMP_NTZ '2024-03-14 00:00:00'"],
    "convert_timezone": ["from_utc_timestamp(t, 'Asia/Tokyo') > TIMESTAMP '2024-03-14 09:00:00'",
                         "to_utc_timestamp(t, 'Asia/Tokyo') > TIMESTAMP '2024-03-13 09:00:00'",
                         "convert_timezone('UTC', 'Asia/Tokyo', n) > "
                         "TIMESTAMP_NTZ '2024-03-14 09:00:00'"],
    "nanvl": ["nanvl(g, 7D) < 3"], "coalesce": ["coalesce(i, 7) = 4"],
    "greatest": ["greatest(i, 3) = 4"], "least": ["least(i, 3) = 2"],
    "cast": ["CAST(m AS INT) = 3", "CAST(t AS DATE) = DATE '2024-03-13'"],
    "try_cast": ["TRY_CAST(substring(s, 2, 1) AS INT) = 3"],
    "array": ["array_contains(array(i, i), 3)", "arrays_overlap(a, array(i, 3)) AND i = 3"],
    "array_contains": ["array_contains(a, 3)", "array_contains(a, i) AND i = 2",
                       "array_contains(it.sku, 's3')", "array_contains(it.q, 2)"],
    "array_position": ["array_position(a, 3) > 0"],
    "array_remove": ["array_contains(array_remove(a, 7), 3)"],
    "element_at": ["element_at(k, 'k3') = 3"],
    "try_element_at": ["try_element_at(a, 1) > 3", "try_element_at(k, 'k2') = 2"],
    "get": ["get(a, 0) < 2"], "array_max": ["array_max(a) > 3"], "array_min": ["array_min(a) = 1"],
    "arrays_overlap": ["arrays_overlap(a, array(0, 1))"],
    "sort_array": ["array_contains(sort_array(a), 3)"],
    "array_distinct": ["array_contains(array_distinct(a), 3)"],
    "exists": ["exists(it, v -> v.sku = 's3' OR v.q = 1)", "exists(a, v -> v > 1 AND v < 4)",
               "exists(a, v -> v + 1 = 3)"],
    "map_value": ["k['k3'] = 3"], "map_contains_key": ["map_contains_key(k, 'k3')"],
    "map_keys": ["array_contains(map_keys(k), 'k1')"],
    "map_values": ["array_contains(map_values(k), 4L)"],
    "like": ["s LIKE ANY ('x3%', '%_4_%')", "s LIKE ALL ('x_ %', '%4 y')",
             "s NOT LIKE ANY ('x_%', '%_4_%')", "s NOT LIKE ALL ('x_4%', '_3%')"],
}  # fmt: skip
# Spark replaces the first two by calls of Java methods, and array_compact by a filter. In ANSI
# mode, Spark raises an error where an array is shorter than the index of a[i]. Filters of arrays in
# Spark's plans are not read, and `size` prunes with them only.
UNKNOWN = {"base64", "url_encode", "array_compact", "[]", "filter", "size", "hash", "xxhash64"}
OF_SPARK_4 = ("<<", ">>", "try_mod(", "dayname(", "monthname(")
CONDITIONS = [
    (name, where)
    for name, wheres in WHERE.items()
    for where in wheres
    if INSTALLED >= (4, 0) or not any(form in where for form in OF_SPARK_4)
]


@pytest.fixture(scope="module")
def frame(spark, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("lake") / "t")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    for k in range(FILES):
        rows = spark.range(k, k + 1).selectExpr(*COLUMNS, "explode(array(1, 2)) AS row")
        rows.coalesce(1).write.mode("append").parquet(folder)
    spark.conf.unset("spark.sql.parquet.outputTimestampType")
    return spark.read.parquet(folder)


@pytest.fixture(scope="module")
def matching(frame):
    """Return condition -> names of the files with a matching row, from one unfiltered query."""
    from pyspark.sql import functions as F

    columns = (F.expr(where).alias(f"c{k}") for k, (_, where) in enumerate(CONDITIONS))
    found = frame.select(F.col("_metadata.file_name").alias("file"), *columns).collect()
    return {
        where: {row["file"] for row in found if row[f"c{k}"]}
        for k, (_, where) in enumerate(CONDITIONS)
    }


@pytest.mark.parametrize("name, where", CONDITIONS, ids=[where for _, where in CONDITIONS])
def test_function(name, where, frame, matching):
    assert 0 < len(matching[where]) < FILES, f"{where} tells no file from another"
    small = prune(frame.where(where))
    assert {os.path.basename(path) for path in small.inputFiles()} == matching[where], pruned(small)


@pytest.mark.parametrize("function", ["unix_timestamp", "to_unix_timestamp"])
def test_text_is_read_by_its_format(function, frame):
    text = "CONCAT('2004-05-0', i + 1)"  # 2004-03-05, of the file with i = 2
    small = prune(frame.where(f"{function}({text}, 'yyyy-dd-MM') = 1078444800"))
    assert len(small.inputFiles()) == 1
    assert {row.i for row in small.collect()} == {2}


def test_every_function():
    documented = {
        name
        for family in reference.FAMILIES
        for name, basis in reference._functions_of(family)
        if basis != "rows" and not name.startswith("system.")
    }
    assert documented - WHERE.keys() == UNKNOWN
