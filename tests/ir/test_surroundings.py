"""A program's settings for its own arithmetic change no answer.

Programs set the precision of Python's decimals, and make NumPy raise errors for what is tiny.
"""

import json
import subprocess
import sys

CONDITIONS = (
    *("m = 12345.678", "m > 1.2345678BD * 3", "round(m, 2) = 123456.78", "m / 3 = 4115.226"),
    *("m % 1000.5 = 340.178", "m + 1234567.891 = 1358024.671", "-m = -12345.678", "m * m > 1e9BD"),
    *("floor(m) = 12345", "round(m, -2) = 12300", "CAST(m AS DECIMAL(10, 1)) = 12345.7"),
    *("CAST(m AS STRING) = '12345.678'", "m IN (12345.678, 123456.78)", "abs(m) = 12345.678"),
    *("m BETWEEN 99999.999 AND 100000.001", "m = CAST('12345.678' AS DECIMAL(9, 3))"),
    *("CAST(m AS DOUBLE) = 12345.678D", "m = 12345.678D", "d = CAST('1e-310' AS DOUBLE)"),
    *("t + INTERVAL '1.123456' SECOND > TIMESTAMP '1970-01-15 06:56:09Z'", "d * 1e-300 > 0"),
    *("t - INTERVAL '1 02:03:04.567891' DAY TO SECOND < TIMESTAMP '1970-01-14 04:53:03.323110Z'",),
    *("t = timestamp_seconds(1234567.891)", "CAST(1234567.891 AS INT) = i", "exp(d) > 1"),
    *("CAST(1234567.891BD AS DOUBLE) = d", "CAST(d AS FLOAT) < 1", "f > 1e-45", "pow(d, 3) > 0"),
    *("sin(d) < 1e-300", "d / 1e300 >= 0", "CAST(d AS DECIMAL(20, 3)) > 1", "f * f < 1"),
    *("CAST(d AS STRING) = '1.0E-310'", "ln(d) < -700", "f = 1e-42F", "d > 4.9e-324"),
)
ANSWER = """
import json, sys
conditions, hostile, place = json.loads(sys.stdin.read())
if hostile:
    import decimal
    import numpy as np
    np.seterr(all="raise")
    for context in (decimal.DefaultContext, decimal.getcontext()):
        context.prec, context.rounding = 3, decimal.ROUND_UP
import pyarrow as pa
import pyarrow.parquet as pq
import skipstone as ss

text = pa.array(["12345.678", "100000.001", "123456.780", "-0.001", None])
table = pa.table({
    "m": text.cast(pa.decimal128(20, 3)),
    "d": [1e-310, 5e-324, 1e300, 1234567.891, 0.0],
    "f": pa.array([1e-45, 1e-42, 1e38, 1.5, None], pa.float32()),
    "i": [1, 2, 3, 1234567, 5],
    "t": pa.array([1, 2, 3, 1234567891000, None], pa.timestamp("us", "UTC")),
})
pq.write_table(table, place, row_group_size=1)
found = []
for where in conditions:
    plan = ss.scan_parquet(place).plan(where)
    found.append([where, plan.sizes.scan.rows, repr(plan.predicate)])
    try:
        found.append(plan.to_arrow()["i"].to_pylist())
    except ss.UnsupportedForm as e:
        found.append(str(e))
every = ss.scan_parquet(place).plan("m > -5 AND d > 0")
print(json.dumps([found, str([every.min("m"), every.max("m"), every.min("d"), every.count()])]))
"""


def answers(place, *, hostile):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ANSWER],
        input=json.dumps([CONDITIONS, hostile, str(place)]),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_decimal_contexts_and_errors_of_numpy_change_nothing(tmp_path):
    place = tmp_path / "t.parquet"
    plain = answers(place, hostile=False)
    assert answers(place, hostile=True) == plain
