"""Shards whose files are damaged, exchanged or forged: containers are kept, never lost."""

import contextlib
import json
import random

import numpy as np
import pytest

import skipstone as ss
from skipstone.bindings.shards import manifest
from skipstone.ir.errors import counted
from tests.support.statistics.shard_checks import fresh
from tests.support.statistics.shards import SCHEMA, about_of, clustered


def flip(path):
    data = bytearray(path.read_bytes())
    for at in range(64, len(data), 64):
        data[at] ^= 1
    path.unlink()  # another test may have it mapped
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
    assert repr(found).endswith(f"; kept, but unreadable: {counted(len(bad), 'shards')})")
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
    elsewhere = ss.PruningPredicate("x > 100000", SCHEMA)  # settled by the summary
    assert not shards.judge(elsewhere).unreadable


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_without_the_summary_all_shards_are_opened(damage, tmp_path):
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
    )  # containers of another shard


def rewrite(folder, change):
    """Write the manifest with a changed body and the right checksum."""
    path = folder / manifest.NAME
    document = json.loads(path.read_bytes())
    body = document["manifest"]
    change(body)
    path.write_text(json.dumps({**document, "manifest": body, "sha256": manifest._digest(body)}))


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
    "no_empty": lambda m: m["shards"][0].__setitem__(4, 1),
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
def test_malformed_manifests(change, tmp_path):
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
def test_a_manifest_with_wrong_entries_raises_nothing_else(change, tmp_path):
    clustered(120).save_shards(tmp_path, rows=30)
    rewrite(tmp_path, change)
    assert len(ss.Shards.open(tmp_path).judge("f > 0.5").verdicts) == 120


def test_every_changed_byte_of_a_manifest_is_noticed(tmp_path):
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
        ss.StatisticsError, match="has format version 2; this Skipstone reads version 1"
    ):
        ss.Shards.open(tmp_path)


def test_no_shards_are_there(tmp_path):
    with pytest.raises(
        ss.StatisticsError,
        match=r"shards\.json: cannot be read .*"
        r"name a folder that save_shards or write_shards wrote",
    ):
        ss.Shards.open(tmp_path)
