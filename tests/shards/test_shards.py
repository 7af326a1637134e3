"""Shards: the verdicts of the statistics that they were made of, whatever becomes of the files."""

import contextlib
import json
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
from skipstone.bindings.shards import manifest, place, read, write
from skipstone.bindings.statistics.store import atomic
from tests.support.effort import LONG
from tests.support.judges import trial
from tests.support.predicates import predicate
from tests.support.shards import SCHEMA, about_of, clustered, files
from tests.support.strategies import fields, schema_of, table
from tests.support.zonemaps import hostile, zone_map


def matches(p, stats, shards):
    """Compare every answer; the result."""
    found, expected = shards.judge(p), p.evaluate(stats)
    assert found.verdicts.dtype == np.uint8 and found.survivors.dtype == np.int64
    assert found.verdicts.tolist() == expected.tolist(), p.expr
    assert found.survivors.tolist() == p.survivors(stats).tolist() == shards.survivors(p).tolist()
    assert shards.prune(p).tolist() == p.prune(stats).tolist()
    assert found.kept == np.count_nonzero(expected) and not found.unreadable
    return found


@pytest.mark.parametrize("seed", range(60 if LONG else 7))
def test_shards_judge_as_statistics_do(seed, tmp_path, eager):
    r = random.Random(seed)
    containers = r.choice((1, 2, 63, 64, 65, 200, 500))
    if r.random() < 0.6:
        t = table(r, containers=containers, most_rows=3)
        z, schema = zone_map(r, t), t.schema
    else:
        chosen = fields(r)
        z, schema = hostile(r, chosen, containers), schema_of(chosen)
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
    stats = write.part(t.stats, 0, 250)  # without what a provider says, which is not kept
    stats.save_shards(tmp_path, rows=60)
    shards = ss.Shards.open(tmp_path)
    for _ in range(25):
        matches(t.pruning(t.predicates.predicate().sql), stats, shards)


def test_value_lists_and_blooms_outdo_bounds(tmp_path):
    schema = pa.schema([("x", pa.int64()), ("s", pa.string())])
    columns = {
        "x": {
            "min": [1, 1, 5, 5],
            "max": [9, 1, 5, 5],
            "null_count": [0] * 4,
            "values": [[1, 9], [2], [5], [6]],
        },  # the last three lie
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
    ("x >= 2000 AND x < 2500", 6),  # bounds overlap by a container
    ("s = '00001000'", 1),
    ("x < 0 OR f > 7", 0),
    ("f >= -1", 10),  # every row matches, but in empty containers
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
    """A FLOAT bound that was written as the DOUBLE 0.1 is another number in each of the two types."""
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


def test_what_containers_are(tmp_path):
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
    with pytest.raises(ss.StatisticsError, match="rows is 0; expected how many containers"):
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
    )  # of each save one, fetched once
    with pytest.raises(ss.SourceError, match="pass filesystem="):
        ss.Shards.open("nowhere://x/y")


# Replacing, and dying on the way.


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
        if allowed == 5:  # three shards, the level above them, the manifest
            new.save_shards(tmp_path, rows=30)
            break
        with pytest.raises(OSError, match="disk is full"):
            new.save_shards(tmp_path, rows=30)
        assert files(tmp_path) == held
        matches(p, old, ss.Shards.open(tmp_path))
    matches(p, new, ss.Shards.open(tmp_path))


def test_files_that_are_left_when_the_manifest_is_there_stay(tmp_path, monkeypatch):
    stats = clustered(100)

    def fails(self, names):
        raise OSError("read-only")

    stats.save_shards(tmp_path, rows=30)
    monkeypatch.setattr(place.ShardFolder, "remove", fails)
    stats.save_shards(tmp_path, rows=20)
    matches(ss.PruningPredicate("x = 5", SCHEMA), stats, ss.Shards.open(tmp_path))


KILLED = """
import sys, numpy as np, skipstone as ss
from tests.support.shards import clustered
for i in range(1000):
    clustered(3000, int(sys.argv[2]) + i).save_shards(sys.argv[1], rows=300)
    print("saved", flush=True)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_a_kill_leaves_what_was_there_and_the_next_save_cleans(tmp_path):
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


def test_of_two_saves_at_once_one_says_so(tmp_path, monkeypatch):
    mine, other = clustered(100), clustered(50, 3)
    inner = write.commit

    def commit(*args):
        monkeypatch.setattr(write, "commit", inner)
        other.save_shards(tmp_path, rows=20)  # takes the files that the first one wrote for orphans
        inner(*args)

    monkeypatch.setattr(write, "commit", commit)
    with pytest.raises(
        ss.StatisticsError, match="another save to the same folder has ended meanwhile"
    ):
        mine.save_shards(tmp_path, rows=30)
    matches(ss.PruningPredicate("x = 5", SCHEMA), other, ss.Shards.open(tmp_path))


# Damage.


def fresh():
    read._mapped.__init__(read.MAX_MAPPED)


def flip(path):
    data = bytearray(path.read_bytes())
    for at in range(64, len(data), 64):
        data[at] ^= 1
    path.unlink()  # others may have it mapped
    path.write_bytes(data)


def swap(path):
    other = next(f for f in sorted(path.parent.glob(f"shard-*{path.suffix}")) if f != path)
    a, b = path.read_bytes(), other.read_bytes()
    for f, data in ((path, b), (other, a)):
        f.unlink()
        f.write_bytes(data)


def in_its_place(path):
    path.unlink()
    clustered(30, 99).save(path)


DAMAGE = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: (path.unlink(), path.write_bytes(b"")),
    "cut": lambda path: (
        data := path.read_bytes(),
        path.unlink(),
        path.write_bytes(data[: len(data) // 2]),
    ),
    "flipped": flip,
    "swapped": swap,
    "replaced by another": in_its_place,
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_shard_that_cannot_be_read_is_kept_and_reported(damage, tmp_path):
    stats, p = clustered(120), ss.PruningPredicate("f > 0.95 AND x >= 0", SCHEMA)
    stats.save_shards(tmp_path, rows=30, about=about_of(120))
    shards = ss.Shards.open(tmp_path)
    damage(tmp_path / shards.shards[1].file)
    fresh()
    found, expected = shards.judge(p), p.evaluate(stats)
    bad = [i for i, s in enumerate(shards.shards) if s.file in found.unreadable]
    assert 1 in bad and len(bad) <= 2
    for i in bad:
        expected[i * 30 : (i + 1) * 30] = 1
    assert (
        found.verdicts.tolist() == expected.tolist()
        and found.survivors.tolist() == np.flatnonzero(expected).tolist()
    )
    assert all(
        isinstance(e, ss.StatisticsError) and name in str(e) for name, e in found.unreadable.items()
    )
    assert repr(found).endswith(f"{len(bad)} shards could not be read and are kept)")
    rows = shards.table(p)
    assert rows["path"].to_pylist() == [f"part-{i}.parquet" for i in np.flatnonzero(expected)]
    assert {
        i // 30
        for i, why in zip(
            rows["container"].to_pylist(), rows["unreadable"].to_pylist(), strict=True
        )
        if why
    } == set(bad)
    with pytest.raises(ss.StatisticsError):
        shards.judge(p, on_error="raise")
    elsewhere = ss.PruningPredicate("x > 100000", SCHEMA)  # settled by what is known of the shard
    assert not shards.judge(elsewhere).unreadable


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_without_the_level_above_all_shards_are_opened(damage, tmp_path):
    stats = clustered(120)
    stats.save_shards(tmp_path, rows=30)
    shards = ss.Shards.open(tmp_path)
    (tmp_path / f"shard-{'0' * 16}-{'0' * 16}.stats").write_bytes(b"to be swapped with")
    damage(tmp_path / f"{shards._manifest.summary[0]}.stats")
    fresh()
    found = shards.judge(p := ss.PruningPredicate("x = 45", SCHEMA))
    assert found.verdicts.tolist() == p.evaluate(stats).tolist()


@pytest.mark.parametrize(
    "damage",
    [d for d in DAMAGE.values() if d is not in_its_place],
    ids=[name for name in DAMAGE if name != "replaced by another"],
)
def test_paths_that_cannot_be_read_are_never_lost(damage, tmp_path):
    stats = clustered(120)
    stats.save_shards(tmp_path, rows=30, about=about_of(120))
    shards = ss.Shards.open(tmp_path)
    files = [tmp_path / s.about_file for s in shards.shards]
    before = [f.read_bytes() for f in files]
    damage(files[1])
    with pytest.raises(ss.StatisticsError, match="save the shards again"):
        shards.table("f > 0")
    untouched = next(
        i
        for i, f in enumerate(files)
        if f.exists() and not f.is_dir() and f.read_bytes() == before[i]
    )
    assert len(
        shards.table(f"x BETWEEN {300 * untouched + 100} AND {300 * untouched + 200}")
    )  # of another shard


def rewrite(folder, change):
    """The manifest with another body, whose checksum is right."""
    path = folder / manifest.NAME
    told = json.loads(path.read_bytes())
    body = told["manifest"]
    change(body)
    path.write_text(json.dumps({**told, "manifest": body, "sha256": manifest._digest(body)}))


HOSTILE = {
    "a path": lambda m: m["shards"][0].__setitem__(0, "../../etc/passwd"),
    "an absolute path": lambda m: m["shards"][0].__setitem__(0, "/etc/passwd"),
    "no name": lambda m: m["shards"][0].__setitem__(0, None),
    "twice": lambda m: m["shards"].__setitem__(1, m["shards"][0]),
    "negative": lambda m: (
        m["shards"][0].__setitem__(1, -30),
        m.update(containers=m["containers"] - 60),
    ),
    "nothing": lambda m: (
        m["shards"][0].__setitem__(1, 0),
        m.update(containers=m["containers"] - 30),
    ),
    "true": lambda m: (
        m["shards"][0].__setitem__(1, True),
        m.update(containers=m["containers"] - 29),
    ),
    "huge": lambda m: (
        m["shards"][0].__setitem__(1, 1 << 80),
        m.update(containers=m["containers"] - 30 + (1 << 80)),
    ),
    "fewer": lambda m: m["shards"].pop(),
    "another sum": lambda m: m.update(containers=119),
    "a text": lambda m: m.update(containers="120"),
    "filled": lambda m: m["shards"][0].__setitem__(4, 1),
    "certain": lambda m: m.update(certain=None),
    "about": lambda m: m["shards"][0].__setitem__(5, "0" * 16),
    "checksum": lambda m: m["shards"][0].__setitem__(3, "0x1"),
    "schema": lambda m: m.update(schema="bm90aGluZw=="),
    "no base64": lambda m: m.update(schema="*"),
    "a list": lambda m: m.update(shards=5),
    "short": lambda m: m["shards"].__setitem__(0, []),
    "summary": lambda m: m.update(summary=["../x", "0" * 16]),
    "deep": lambda m: m.update(shards=[[[[[]]]]]),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_a_manifest_that_says_what_cannot_be(change, tmp_path):
    clustered(120).save_shards(tmp_path, rows=30)
    rewrite(tmp_path, change)
    with pytest.raises(ss.StatisticsError, match=r"shards\.json: .*save the shards again"):
        ss.Shards.open(tmp_path)


LYING = {
    "rows": lambda m: (m["shards"][0].__setitem__(1, 31), m["shards"][1].__setitem__(1, 29)),
    "another order": lambda m: m["shards"].reverse(),
    "no summary": lambda m: m.update(summary=None),
    "another summary": lambda m: m.update(summary=[m["summary"][0], "0" * 16]),
    "another shard": lambda m: m["shards"][2].__setitem__(3, "0" * 16),
}


@pytest.mark.parametrize("change", LYING.values(), ids=LYING)
def test_a_manifest_that_lies_opens_and_raises_nothing_else(change, tmp_path):
    clustered(120).save_shards(tmp_path, rows=30)
    rewrite(tmp_path, change)
    assert len(ss.Shards.open(tmp_path).judge("f > 0.5").verdicts) == 120


def test_every_other_byte_of_a_manifest_is_noticed(tmp_path):
    stats = clustered(60)
    stats.save_shards(tmp_path, rows=30)
    path, p, r = tmp_path / manifest.NAME, ss.PruningPredicate("x = 45", SCHEMA), random.Random(5)
    good, expected = path.read_bytes(), p.evaluate(stats).tolist()
    for at in (*range(0, len(good), 3), len(good)):
        path.write_bytes(
            good[:at] + bytes([good[at] ^ r.randint(1, 255)]) + good[at + 1 :]
            if at < len(good)
            else good[:-30]
        )
        with contextlib.suppress(ss.StatisticsError):
            assert ss.Shards.open(tmp_path).evaluate(p).tolist() == expected
    path.write_bytes(good.replace(b'"skipstone shards": 1', b'"skipstone shards": 2'))
    with pytest.raises(
        ss.StatisticsError, match="has format version 2, and this Skipstone reads version 1"
    ):
        ss.Shards.open(tmp_path)


def test_no_shards_are_there(tmp_path):
    with pytest.raises(
        ss.StatisticsError,
        match=r"shards\.json: cannot be read .*name a folder that save_shards or write_shards wrote",
    ):
        ss.Shards.open(tmp_path)
