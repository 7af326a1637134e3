"""A table of twelve small files for tests of pruned reads."""

import datetime as dt
import decimal
import os

import pyarrow as pa
import pyarrow.parquet as pq

D = decimal.Decimal
ROWS = 8  # rows per file
DAY, MOMENT = dt.date(2024, 1, 1), dt.datetime(2024, 1, 1)


def rows_of(df):
    """Return all rows, sorted; NaN equals itself."""
    return sorted(map(repr, df.collect()))


def write_files(folder):
    """Write the files.

    Files 0 to 9 have growing values, with a NULL in each column of file 9; file 10 has only NULLs,
    file 11 odd values.
    """
    os.makedirs(folder)
    for k in range(12):
        pq.write_table(_file(k), os.path.join(folder, f"{k:02}.parquet"))
        os.utime(os.path.join(folder, f"{k:02}.parquet"), (1_600_000_000 + k, 1_600_000_000 + k))
    return folder


SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("i", pa.int32()),
        ("j", pa.int32()),
        ("l", pa.int64()),
        ("f", pa.float32()),
        ("g", pa.float64()),
        ("m", pa.decimal128(9, 2)),
        ("w", pa.decimal128(30, 4)),
        ("s", pa.string()),
        ("y", pa.binary()),
        ("b", pa.bool_()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", "UTC")),
        ("n", pa.timestamp("us")),
        ("st", pa.struct([("a", pa.int32()), ("c", pa.string())])),
        ("odd `name`.x", pa.int32()),
        ("arr", pa.list_(pa.int32())),
    ]
)


def _file(k):
    rows = [_row(k, r) for r in range(ROWS)]
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def _row(k, r):
    x, nan = 10 * k + r, float("nan")
    if k == 10 or (k == 9 and r == 3):
        return (x, *[None] * (len(SCHEMA) - 1))
    if k == 11:
        odd = [
            (-(10**9), 10**9, -(2**63), nan, nan), (10**9, 0, 2**63 - 1, -0.0, -0.0),
            (0, 0, 0, 0.0, 0.0),
            (1, 1, 1, float("inf"), float("-inf")), *[(0, 5, 7, nan, nan)] * (ROWS - 4),
        ][r]  # fmt: skip
        moment = [
            dt.datetime(2024, 11, 3, 5, 30),
            dt.datetime(2024, 11, 3, 6, 30),
            dt.datetime(1, 1, 2),
            dt.datetime(9999, 12, 30),
        ][r % 4]
        text = ["", 'it\'s \\ "q" %_', "日本", "\U0001f600"][r % 4]
        i, j, l, f, g = odd
        return (
            x,
            i,
            j,
            l,
            f,
            g,
            D("-9999999.99"),
            D("-1E+20"),
            text,
            text.encode(),
            None,
            moment.date(),
            moment,
            moment,
            None,
            -1,
            [],
        )
    moment = MOMENT + dt.timedelta(days=30 * k, hours=3 * r, microseconds=r)
    text = f"{chr(97 + k)}{r:02} text"
    return (
        x, x, 5, x * 10**10, x / 2, x / 4, D(x) / 4, D(x) * 10**15, text, text.encode(), k % 2 == 0,
        DAY + dt.timedelta(30 * k + r),
        moment, moment, {"a": x, "c": text}, x, [x],
    )  # fmt: skip
