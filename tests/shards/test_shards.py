"""Shards give the verdicts of the statistics that they were made of; saves are atomic."""

import os
import pickle
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pytest

import skipstone as ss
from skipstone.bindings.shards import folder, write
from skipstone.bindings.statistics.store import atomic
from tests.support.effort import LONG
from tests.support.predicates.judges import trial
from tests.support.predicates.predicates import predicate
from tests.support.rows.zonemaps import random_zone_map
from tests.support.statistics.shard_checks import fresh, matches
from tests.support.statistics.shards import SCHEMA, about_of, clustered, files


@pytest.mark.parametrize("seed", range(60 if LONG else 4))
def test_shards_judge_as_statistics_do(seed, tmp_path, eager):
    r = random.Random(seed)
    containers = r.choice((1, 2, 63, 64, 65, 200, 500))
    z, schema = random_zone_map(r, containers)
    stats = z.statistics(schema)
    names = [n for n in stats.columns if "`" not in n]
    stats.save_shards(
        tmp_path,
        rows=max(1, containers // r.choice((1, 2, 5, 20))),
        order_by=r.choice((None, r.choice(names or [None]))),
    )
    shards = ss.Shards.open(tmp_path)
    for i in range(25):
        p = ss.PruningPredicate(predicate(r, z.fields).sql, schema)
        matches(p, stats, shards)
        if i % 10 == 0:
            matches(pickle.loads(pickle.dumps(p)), stats, pickle.loads(pickle.dumps(shards)))


@pytest.mark.parametrize("seed", range(12 if LONG else 1))
def test_expressions(seed, tmp_path, eager):
    t = trial(seed, 250)
    stats = write.slice_statistics(t.stats, 0, 250)  # without a provider, which is not saved
    stats.save_shards(tmp_path, rows=60)
    shards = ss.Shards.open(tmp_path)
    for _ in range(25):
        matches(t.pruning(t.predicates.predicate().sql), stats, shards)


def test_value_lists_and_blooms_override_bounds(tmp_path):
    schema = pa.schema([("x", pa.int64()), ("s", pa.string())])
    columns = {
        "x": {
            "min": [1, 1, 5, 5],
            "max": [9, 1, 5, 5],
            "null_count": [0] * 4,
            "values": [[1, 9], [2], [5], [6]],
        },  # the last three contradict the bounds
        "s": {
            "min": ["a"] * 4,
            "max": ["z"] * 4,
            "null_count": [0] * 4,
            "bloom": [bytes(32), None, b"\xff" * 32, bytes(32)],
        },
    }
    stats = ss.Statistics.from_dict(columns, schema)
    for rows in (1, 2, 4):
        stats.save_shards(tmp_path, rows=rows)
        for text in (
            "x = 5",
            "x IN (1, 9)",
            "x <> 5",
            "x = 1",
            "s = 'b'",
            "s <> 'b'",
            "x = 5 OR s = 'b'",
        ):
            matches(ss.PruningPredicate(text, schema), stats, ss.Shards.open(tmp_path))


#     predicate                        shards opened, of 10
SETTLED = [
    ("x < 0", 0),
    ("x BETWEEN 1005 AND 1008", 1),
    ("x >= 2000 AND x < 2500", 6),  # bounds of neighbours overlap
    ("s = '00001000'", 1),
    ("x < 0 OR f > 7", 0),
    ("f >= -1", 10),  # every row matches, but some containers are empty
    ("x % 2 = 5", 10),
]


@pytest.mark.parametrize(("text", "opened"), SETTLED)
def test_whole_shards_are_settled(text, opened, tmp_path):
    stats = clustered(500)
    stats.save_shards(tmp_path, rows=50)
    assert (
        matches(ss.PruningPredicate(text, SCHEMA), stats, ss.Shards.open(tmp_path)).opened <= opened
    )


def test_a_shard_without_empty_containers_is_settled_by_always(tmp_path):
    schema = pa.schema([("x", pa.int64())])
    stats = ss.Statistics.from_dict(
        {"x": {"min": range(100), "max": range(1, 101), "null_count": [0] * 100}},
        schema,
        row_count=[1] * 100,
    )
    stats.save_shards(tmp_path, rows=10)
    assert (
        matches(ss.PruningPredicate("x >= 0", schema), stats, ss.Shards.open(tmp_path)).opened == 0
    )
    assert (
        matches(ss.PruningPredicate("x >= 35", schema), stats, ss.Shards.open(tmp_path)).opened == 1
    )


def test_bounds_read_as_another_type_are_not_settled_by_the_manifest(tmp_path):
    """A FLOAT bound that was given as the DOUBLE 0.1 differs between the two types."""
    stats = ss.Statistics.from_dict(
        {"x": {"min": np.array([0.1]), "max": np.array([0.1])}}, pa.schema([("x", pa.float32())])
    )
    stats.save_shards(tmp_path, rows=1)
    for kind in (pa.float32(), pa.float64()):
        matches(
            ss.PruningPredicate("x < 0.1000000001D", pa.schema([("x", kind)])),
            stats,
            ss.Shards.open(tmp_path),
        )


def test_no_containers(tmp_path):
    stats = ss.Statistics.from_dict({"x": {"min": []}}, SCHEMA)
    stats.save_shards(tmp_path, about=about_of(0))
    shards = ss.Shards.open(tmp_path)
    assert (len(shards), shards.num_shards) == (0, 0)
    matches(ss.PruningPredicate("x = 5", SCHEMA), stats, shards)
    assert shards.table("x = 5").column_names == [
        "container",
        "verdict",
        "unreadable",
        "path",
        "size",
    ]


def test_tables_about_containers(tmp_path):
    stats = clustered(100)
    stats.save_shards(tmp_path, rows=30, about=about_of(100))
    found = ss.Shards.open(tmp_path).table("x BETWEEN 295 AND 310")
    kept = ss.PruningPredicate("x BETWEEN 295 AND 310", SCHEMA).survivors(stats).tolist()
    assert found["container"].to_pylist() == kept and found["path"].to_pylist() == [
        f"part-{i}.parquet" for i in kept
    ]
    assert set(found["verdict"].to_pylist()) <= {1, 2} and found["unreadable"].null_count == len(
        kept
    )
    with pytest.raises(ss.StatisticsError, match="about has 3 rows; expected 100"):
        stats.save_shards(tmp_path, about=about_of(3))
    with pytest.raises(ss.StatisticsError, match="rows is 0; expected the number of containers"):
        stats.save_shards(tmp_path, rows=0)
    stats.save_shards(tmp_path, about=pa.table({"Verdict": range(100)}))
    with pytest.raises(ss.StatisticsError, match="'verdict', which the result has too"):
        ss.Shards.open(tmp_path).table("x = 5")


def test_folders_by_uri_and_names_that_are_odd(tmp_path):
    stats, folder = clustered(20), tmp_path / "a b%20c.d`é"
    stats.save_shards(folder)
    where = pafs.FileSystem.from_uri(folder.as_uri())[1]
    assert where == str(folder)
    for name in (folder, str(folder), folder.as_uri()):
        assert (
            ss.Shards.open(name).survivors("x = 55").tolist()
            == ss.PruningPredicate("x = 55", SCHEMA).survivors(stats).tolist()
        )


def test_another_file_system(tmp_path, monkeypatch):
    monkeypatch.setenv("SKIPSTONE_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "far").mkdir()
    far, stats = (
        pafs.SubTreeFileSystem(str(tmp_path / "far"), pafs.LocalFileSystem()),
        clustered(100),
    )
    for base in (0, 7):
        stats = clustered(100, base)
        stats.save_shards("t/stats", rows=30, about=about_of(100), filesystem=far)
        shards = pickle.loads(pickle.dumps(ss.Shards.open("t/stats", far)))
        matches(ss.PruningPredicate("x = 55", SCHEMA), stats, shards)
        assert shards.table("x = 55")["path"].to_pylist() == [
            f"part-{i}.parquet" for i in shards.survivors("x = 55")
        ]
    fetched = [
        f.name
        for f in (tmp_path / "cache").rglob("*")
        if f.is_file() and f.suffix in (".stats", ".about")
    ]
    assert (
        len([f for f in fetched if "-shard-" in f and f.endswith(".stats")]) == 2
    )  # one file of each save, downloaded once
    with pytest.raises(ss.SourceError, match="pass filesystem="):
        ss.Shards.open("nowhere://x/y")


# Replaced shards, failing and interrupted saves.


def test_saving_again_keeps_the_files_before_and_no_others(tmp_path):
    (tmp_path / "mine.txt").write_text("stays")
    (tmp_path / "shard-of-mine.stats").write_text("stays")
    saved, before = [], set()
    for base in range(3):
        stats = clustered(100, base)
        stats.save_shards(tmp_path, rows=30)
        saved.append((stats, ss.Shards.open(tmp_path)))
        own = saved[-1][1]._manifest.files
        assert files(tmp_path) == own | before | {"shards.json", "mine.txt", "shard-of-mine.stats"}
        before = own
        for old, shards in saved[-2:]:
            matches(ss.PruningPredicate("x = 205", SCHEMA), old, shards)
    fresh()
    gone = saved[0][1].judge("f > 0.5")
    assert len(gone.unreadable) == 4 and gone.kept == 100


def test_a_save_that_fails_anywhere_changes_nothing(tmp_path, monkeypatch):
    old, new = clustered(100), clustered(90, 5)
    old.save_shards(tmp_path, rows=30)
    p, held, calls = ss.PruningPredicate("x % 3 = 1 AND f > 0.3", SCHEMA), files(tmp_path), [0]
    replace = os.replace

    def failing(source, to):
        calls[0] -= 1
        if calls[0] < 0:
            raise OSError("the disk is full")
        replace(source, to)

    monkeypatch.setattr(atomic.os, "replace", failing)
    for allowed in range(20):
        calls[0] = allowed
        if allowed == 5:  # three shards, the summary, the manifest
            new.save_shards(tmp_path, rows=30)
            break
        with pytest.raises(OSError, match="disk is full"):
            new.save_shards(tmp_path, rows=30)
        assert files(tmp_path) == held
        matches(p, old, ss.Shards.open(tmp_path))
    matches(p, new, ss.Shards.open(tmp_path))


def test_a_save_succeeds_if_old_files_cannot_be_deleted(tmp_path, monkeypatch):
    stats = clustered(100)

    def fails(self, names):
        raise OSError("read-only")

    stats.save_shards(tmp_path, rows=30)
    monkeypatch.setattr(folder.ShardFolder, "remove", fails)
    stats.save_shards(tmp_path, rows=20)
    matches(ss.PruningPredicate("x = 5", SCHEMA), stats, ss.Shards.open(tmp_path))


KILLED = """
import sys, numpy as np, skipstone as ss
from tests.support.statistics.shards import clustered
for i in range(1000):
    clustered(3000, int(sys.argv[2]) + i).save_shards(sys.argv[1], rows=300)
    print("saved", flush=True)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_a_killed_save_leaves_the_old_shards_and_the_next_save_cleans_up(tmp_path):
    r = random.Random(1)
    for start in (0, 5000):
        child = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path), str(start)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout.readline() == "saved\n"
        time.sleep(0.2 + r.random() / 4)
        child.kill()
        child.wait(20)
        child.stdout.close()
        shards = ss.Shards.open(tmp_path)
        base = shards.statistics(0).get("x", "min")[0].as_py()
        assert start <= base < start + 1000
        matches(
            ss.PruningPredicate("x BETWEEN 9000 AND 9500", SCHEMA), clustered(3000, base), shards
        )
    held = shards._manifest.files
    clustered(10).save_shards(tmp_path)
    assert files(tmp_path) == held | ss.Shards.open(tmp_path)._manifest.files | {"shards.json"}


def test_of_two_saves_at_once_one_raises(tmp_path, monkeypatch):
    mine, other = clustered(100), clustered(50, 3)
    inner = write.commit

    def commit(*args):
        monkeypatch.setattr(write, "commit", inner)
        other.save_shards(
            tmp_path, rows=20
        )  # deletes the first save's files, which no manifest names
        inner(*args)

    monkeypatch.setattr(write, "commit", commit)
    with pytest.raises(ss.StatisticsError, match="another save to the same folder has ended since"):
        mine.save_shards(tmp_path, rows=30)
    matches(ss.PruningPredicate("x = 5", SCHEMA), other, ss.Shards.open(tmp_path))
