"""Shards of statistics for several tests."""

import os

import numpy as np
import pyarrow as pa

import skipstone as ss

SCHEMA = pa.schema([("x", pa.int64()), ("s", pa.string()), ("f", pa.float64())])


def clustered(n, base=0):
    """Return statistics: x and s ascend, f is random; some containers are empty or all NULL in x.

    The latter have no bounds.
    """
    r = np.random.default_rng(n)
    x = np.arange(n) * 10 + base
    names = [f"{v:08}" for v in x]
    rows = np.where(np.arange(n) % 7 == 3, 0, 5)
    nulls = np.where(np.arange(n) % 5 == 1, rows, 0)

    def known(values, without=rows == 0):
        return pa.array(values, mask=without)

    f = r.random(n)
    columns = {
        "x": {
            "min": known(x, nulls == rows),
            "max": known(x + 14, nulls == rows),
            "null_count": nulls,
        },
        "s": {
            "min": known(names),
            "max": known([name + "~" for name in names]),
            "null_count": [0] * n,
        },
        "f": {
            "min": known(f),
            "max": known(f + 0.1),
            "null_count": [0] * n,
            "nan_count": [0] * n,
        },
    }
    return ss.Statistics.from_dict(columns, SCHEMA, row_count=rows)


def about_of(n):
    return pa.table({"path": [f"part-{i}.parquet" for i in range(n)], "size": range(n)})


def files(folder):
    return set(os.listdir(folder))
