"""Small statistics of two columns, and a predicate, for tests of failing devices."""

import numpy as np
import pyarrow as pa

import skipstone as ss

SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.int64())])
P = ss.PruningPredicate("x > 3 AND y < 90", SCHEMA)


def small(n=200):
    x = np.arange(n)
    return ss.Statistics.from_dict(
        {"x": {"min": x, "max": x + 5}, "y": {"min": x[::-1].copy()}}, SCHEMA
    )
