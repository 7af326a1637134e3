"""Registered statistics judge a list of files as Spark's JVM sends it; no session is needed."""

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.bindings.spark.pruning.registered_listing import RegisteredListing
from skipstone.bindings.spark.registered.register import (
    register_statistics,
    unregister_statistics,
)

N = 4
ABOUT = {
    "path": [str(i) for i in range(N)],
    "size": [100] * N,
    "modification_time": [5] * N,
}
TEXT = "".join(f"file:/lake/t/{i}\0{100}\0{5}\0{i % 2}\0" for i in range(N))
DATA = pa.schema([("k", pa.int64()), ("s", pa.struct([("a", pa.int32())])), ("y", pa.string())])
G = pa.schema([("g", pa.int32())])  # 0, 1, 0, 1
K = {"k.min": [0, 10, 20, 30], "k.max": [9, 19, 29, 39]}
NESTED = pa.array([{"a": {"min": i * 2, "max": i * 2 + 1}} for i in range(N)])
LISTS = pa.array([["a"], ["q", "z"], ["b"], None], pa.list_(pa.string()))

#    condition, what is registered, files kept of 4
CASES = [
    ("k = 15", K, [1]),
    ("k = 15 AND g = 0", K, []),
    ("k < 25 AND g = 1", K, [1]),
    ("k = 15", K | {"size": [100, 101, 100, None]}, [1, 3]),
    ("k = 35", K | {"modification_time": [5, 6, 5, 5]}, [1, 3]),
    ("k = 15", K | {"path": ["0", "1", "1", "3"]}, [1, 2]),  # two rows of one file
    ("k = 15", {"K.MIN": K["k.min"], "K.Max": K["k.max"]}, [1]),
    ("k = 15", K | {"K.max": [0] * N}, [0, 1]),  # two names of one statistic
    ("k = 15", K | {"k.min": ["a"] * N}, [1, 2, 3]),  # another type
    ("k = 15", K | {"other.min": [99] * N}, [1]),
    ("k IS NULL", K | {"k.null_count": [0, 0, None, 1], "row_count": [5] * N}, [2, 3]),
    ("s.a = 3", {"s.a.min": [0, 2, 4, 6], "s.a.max": [1, 3, 5, 7]}, [1]),
    ("s.a = 3", {"s": NESTED}, [1]),
    ("y = 'q'", {"y.values": LISTS}, [1, 3]),
    ("y > 'a'", {"row_count": [0, 1, None, 1]}, [1, 2, 3]),
]


@pytest.mark.parametrize(("where", "registered", "files"), CASES)
def test_files_that_stay(where, registered, files):
    one = register_statistics("/lake/t", pa.table(ABOUT | registered))
    unregister_statistics("/lake/t")
    listing = RegisteredListing(TEXT, "[[0],[1]]", DATA, G, [one], False, lambda: None)
    predicate = ss.PruningPredicate(where, pa.schema([*DATA, *G]))
    kept = listing.keep_mask(predicate, np.ones(N, np.bool_), case_sensitive=False)
    assert np.flatnonzero(kept).tolist() == files


def test_the_spread_of_a_column():
    one = register_statistics("/lake/t", pa.table(ABOUT | K | {"size": [100, 100, 100, 1]}))
    unregister_statistics("/lake/t")
    listing = RegisteredListing(TEXT, "[[0],[1]]", DATA, G, [one], False, lambda: None)
    every = np.ones(N, np.bool_)
    assert listing.bounds("k", every).spread() == 0.5  # its own file, and the one that has changed
    assert listing.bounds("y", every).spread() == 1.0
