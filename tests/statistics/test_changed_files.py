"""Saved statistics that change while they are open cause an error, never a wrong answer."""

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.bindings.statistics.store import layout

SCHEMA = pa.schema([("x", pa.int64()), ("s", pa.string())])
N = 100_000
SIZES = {"in memory": 1 << 40, "mapped": 0}


def stats_of(n=N):
    low = np.arange(n)
    text = pa.array([f"k{v:08}" for v in range(n)])
    return ss.Statistics.from_dict(
        {"x": {"min": low, "max": low + 9}, "s": {"min": text, "max": text}}, SCHEMA
    )


STATS = stats_of()
P = ss.PruningPredicate("x < 70", SCHEMA)


def cut(path, size):
    os.truncate(path, size)


def cut_and_grow(path, size):
    whole = os.path.getsize(path)
    os.truncate(path, size)
    os.truncate(path, whole)


def overwrite(path, size):
    os.utime(path, ns=(0, 0))  # clocks of file systems are coarse
    with open(path, "r+b") as f:
        f.seek(size)
        f.write(bytes(4096))


CHANGES = [cut, cut_and_grow, overwrite]
USES = {
    "prune": lambda stats: P.prune(stats),
    "numba": lambda stats: P.prune(stats, "numba"),
    "evaluate": lambda stats: P.evaluate(stats),
    "survivors": lambda stats: P.survivors(stats),
    "many": lambda stats: ss.prune_many([P, ss.PruningPredicate("x > 7", SCHEMA)], stats),
    "another": lambda stats: ss.PruningPredicate("x > 5 OR x = 3", SCHEMA).prune(stats),
    "text": lambda stats: ss.PruningPredicate("s = 'k00000005'", SCHEMA).prune(stats),
    "bounds": lambda stats: stats.get("x", "min"),
    "derived": lambda stats: ss.PruningPredicate("x + 1 > 50", SCHEMA).prune(stats),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("indexed", [False, True])
def test_a_mapped_file_that_changed_is_an_error(change, indexed, tmp_path, monkeypatch):
    monkeypatch.setattr(layout, "MAX_READ_BYTES", 0)
    path = tmp_path / "x.stats"
    (STATS.index() if indexed else STATS).save(path)
    stats = ss.Statistics.load(path)
    for use in USES.values():
        use(stats)  # parts that were read are not verified again
    change(path, 8192)
    for use in USES.values():
        with pytest.raises(
            ss.StatisticsError, match=r"x\.stats: the file was changed while it was open"
        ):
            use(stats)


@pytest.mark.parametrize("change", CHANGES)
def test_a_small_file_is_in_memory(change, tmp_path):
    path = tmp_path / "x.stats"
    stats_of(1000).save(path)
    stats = ss.Statistics.load(path)
    change(path, 4096)
    assert P.prune(stats).sum() == 70


@pytest.mark.parametrize("limit", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("method", ["prune", "survivors", "table"])
def test_shards_that_changed_lose_nothing(limit, method, tmp_path, monkeypatch):
    monkeypatch.setattr(layout, "MAX_READ_BYTES", limit)
    STATS.save_shards(tmp_path, rows=N // 4)
    shards = ss.Shards.open(tmp_path)
    text = f"x < 70 OR x > {N - 5}"
    before = len(getattr(shards, method)(text))
    for file in os.listdir(tmp_path):
        if file != "shards.json":
            cut_and_grow(tmp_path / file, 4096)
    if limit:
        assert len(getattr(shards, method)(text)) == before
        return
    found = shards.judge(text)
    assert len(found.unreadable) == 4 and (found.verdicts == ss.Verdict.MAYBE).all()


CUT = """
import os, sys, numpy as np, pyarrow as pa, skipstone as ss
path = sys.argv[1]
schema = pa.schema([("x", pa.int64())])
low = np.arange(400_000)
ss.Statistics.from_dict({"x": {"min": low, "max": low + 9}}, schema).save(path)
stats, p = ss.Statistics.load(path), ss.PruningPredicate("x < 70", schema)
if sys.argv[2] == "read":
    p.prune(stats)
os.truncate(path, 4096)
try:
    print(p.prune(stats).sum())
except ss.StatisticsError as e:
    print("StatisticsError")
"""


@pytest.mark.parametrize("when", ["opened", "read"])
def test_a_cut_file_does_not_end_the_process(when, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", CUT, tmp_path / "x.stats", when],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "StatisticsError\n", "")
