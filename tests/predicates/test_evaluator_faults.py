"""Answers and counts of the evaluator that planted faults had changed unnoticed."""

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.kernels.gpu import gpu
from skipstone.kernels.index import descend
from tests.support.cuda.emulated import MISSING, Emulated

SCHEMA = pa.schema([("x", pa.int64())])
N = 6400  # words of 64 containers: 100
X = np.random.default_rng(5).permutation(N)
SORTED = "x < 2400"  # 38 of 100 words: too many to spread over all containers, few enough to list
FEW = "x BETWEEN 600 AND 640"


@pytest.fixture(autouse=True)
def small_tables(monkeypatch):
    """Levels and devices judge tables of any size."""
    monkeypatch.setattr(descend, "MIN_CONTAINERS", 0)
    monkeypatch.setattr(gpu, "MIN_CONTAINERS", 0)


def statistics(x):
    columns = {"x": {"min": x, "max": x + 1, "null_count": np.zeros(len(x), np.int64)}}
    return ss.Statistics.from_dict(columns, SCHEMA, row_count=np.full(len(x), 2))


FLAT = statistics(X)
INDEXED = statistics(np.arange(N)).index(block=50)
ORDERED = FLAT.index(order_by="x", block=50)
CALLS = {
    "prune": lambda p, stats: p.prune(stats, "numpy"),
    "evaluate": lambda p, stats: p.evaluate(stats, "numpy"),
    "survivors": lambda p, stats: p.survivors(stats, "numpy"),
    "find": lambda p, stats: p.find(stats, "numpy"),
}
#     statistics      condition   call          what answers
ANSWERED = [
    (FLAT,            FEW,        "prune",      "numpy"),
    (FLAT,            FEW,        "evaluate",   "numpy"),
    (FLAT,            FEW,        "survivors",  "numpy"),
    (FLAT,            FEW,        "find",       "numpy"),
    (INDEXED,         FEW,        "prune",      "levels"),
    (INDEXED,         FEW,        "evaluate",   "levels"),
    (INDEXED,         FEW,        "survivors",  "levels"),
    (INDEXED,         FEW,        "find",       "levels"),
    (INDEXED,         SORTED,     "prune",      "numpy"),
    (INDEXED,         SORTED,     "evaluate",   "numpy"),
    (INDEXED,         SORTED,     "survivors",  "levels"),
    (INDEXED,         SORTED,     "find",       "levels"),
]  # fmt: skip


@pytest.mark.parametrize(
    "stats, text, call, name", ANSWERED, ids=[f"{a[2]}-{a[3]}-{a[1]}" for a in ANSWERED]
)
def test_what_answers_is_counted(stats, text, call, name):
    p = ss.PruningPredicate(text, SCHEMA)
    for _ in range(2):
        CALLS[call](p, stats)
    assert p.backends_text == f"{name} 2 times"


@pytest.mark.parametrize("text", [FEW, SORTED, "x < 0", "x >= 0"])
@pytest.mark.parametrize("stats", [FLAT, INDEXED, ORDERED], ids=["flat", "indexed", "ordered"])
def test_found_words_are_the_verdicts(stats, text):
    p = ss.PruningPredicate(text, SCHEMA)
    flat = FLAT if stats is ORDERED else stats
    expected = p.evaluate(flat, "numpy")
    found = p.find(stats, "numpy")
    assert found.order is None and found.n == N
    assert np.array_equal(found.verdicts(), expected)
    assert np.array_equal(found.survivors(), np.flatnonzero(expected))


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_answers_of_a_device(tmp_path):
    card = Emulated(tmp_path)
    p, there = ss.PruningPredicate(FEW, SCHEMA), FLAT.to_device(card)
    expected = p.evaluate(FLAT, "numpy")
    verdicts = p.evaluate(there, "cupy", out="device")
    assert np.array_equal(card.download(verdicts), expected)
    positions = p.survivors(there, "cupy", out="device")
    assert np.array_equal(card.download(positions), np.flatnonzero(expected))
    assert np.array_equal(p.find(there, "cupy").verdicts(), expected)
    assert p.backends_text == "numpy 1 times, cupy 3 times"
