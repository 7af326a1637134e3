"""Statistics that reside on a device."""

import numpy as np
import pyarrow as pa

import skipstone as ss
from tests.support.statistics.levels import eager, same  # noqa: F401

SCHEMA = pa.schema([("x", pa.int64()), ("f", pa.float32()), ("s", pa.string())])


def small(n=130):
    x = np.arange(n) * 7 % 101 + 2**40
    text = [f"{i % 17:03}" for i in range(n)]
    columns = {
        "x": {"min": x, "max": x + 5, "null_count": np.arange(n) % 2},
        "f": {"min": x.astype("f4"), "max": x.astype("f4") * 2},
        "s": {"min": text, "max": text},
    }
    return ss.Statistics.from_dict(columns, SCHEMA, row_count=np.full(n, 9))
