"""Delta tables saved on disk: same answers, only newer commits are read, damage is noticed."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import skipstone as ss
from skipstone.bindings.tables.delta import cache, disk, log, snapshot
from skipstone.bindings.tables.identity import STEP
from tests.support.effort import LONG
from tests.support.tables.delta_log import Log, Written, delta_schema, simple


@pytest.fixture
def scan_saved(tmp_path, monkeypatch):
    """A scan that uses the folder of saved tables, and no table cached in memory."""
    monkeypatch.setattr(ss, "cache_dir", tmp_path / "cache")

    def scan(*args, **settings):
        cache.forget()
        time.sleep(2 * STEP / 1e9)  # a table with a commit of this moment is not saved
        return ss.scan_delta(*args, **settings)

    yield scan
    cache.forget()


def files(tmp_path):
    return sorted((tmp_path / "cache").rglob("*.stats"))


def forbid_reading(monkeypatch):
    """From now on fail if any part of a log, or any saved table of one, is read."""
    monkeypatch.setattr(
        disk.PackedFile, "table", lambda self, name: pytest.fail(f"{name} was read")
    )
    monkeypatch.setattr(
        "skipstone.bindings.tables.delta.table.read_snapshot",
        lambda *_: pytest.fail("the log was read"),
    )


ALL = "x BIGINT, f DOUBLE, t TIMESTAMP, d DECIMAL(20,2), s STRING, p DATE, n STRUCT<`a.b`: INT>"


def varied(folder):
    log = Log(folder, delta_schema(ALL), ["p"], features=("deletionVectors",))
    rows = [
        {
            "x": i,
            "f": i / 7,
            "t": f"2024-01-0{i % 9 + 1}T00:00:00.123Z",
            "d": f"{i}.25",
            "s": f"s{i}",
            "n": {"a.b": i},
        }
        for i in range(60)
    ]
    written = [
        Written(rows[i : i + 6], {"p": f"2024-02-{i // 6 + 1:02}"}, dead=[0] if i == 6 else None)
        for i in range(0, 54, 6)
    ]
    log.add(*written, Written(rows[54:], {"p": None}, stats=None))
    return log


WHERE = (
    "x = 7",
    "f > 5.5D",
    "t < TIMESTAMP '2024-01-02 00:00:00.5Z'",
    "d BETWEEN 10 AND 20",
    "s LIKE 's4%'",
    "p = DATE '2024-02-03'",
    "n.`a.b` >= 50",
    "p IS NULL",
)


def test_an_opened_table_is_the_one_that_was_read(tmp_path, scan_saved, monkeypatch):
    folder = varied(tmp_path / "t").folder
    monkeypatch.setattr(ss, "cache_dir", None)
    expected = scan_saved(folder)
    answers = {w: expected.plan(w).verdicts.tolist() for w in WHERE}
    monkeypatch.setattr(ss, "cache_dir", tmp_path / "cache")
    for table in (scan_saved(folder), scan_saved(folder)):
        assert {w: table.plan(w).verdicts.tolist() for w in WHERE} == answers
        assert table.with_stats.equals(expected.with_stats)
        assert (table.schema, table.metadata, table.version, table.name) == (
            expected.schema,
            expected.metadata,
            expected.version,
            expected.name,
        )
        assert table.plan("x > 30").to_arrow().equals(expected.plan("x > 30").to_arrow())
        assert table.plan("x < 12", limit=7).cut == expected.plan("x < 12", limit=7).cut
    assert len(files(tmp_path)) == 1


def test_a_plan_reads_neither_the_log_nor_the_list_of_files(tmp_path, scan_saved, monkeypatch):
    folder = varied(tmp_path / "t").folder
    expected = scan_saved(folder).plan("x = 7", footers=0).verdicts.tolist()
    forbid_reading(monkeypatch)
    assert scan_saved(folder).plan("x = 7", footers=0).verdicts.tolist() == expected


def test_only_newer_commits_are_read(tmp_path, scan_saved, monkeypatch):
    log_ = simple(tmp_path / "t", 3)
    scan_saved(log_.folder)
    read = snapshot.read_checkpoint
    monkeypatch.setattr(
        snapshot, "read_checkpoint", lambda *_: pytest.fail("the checkpoint was read")
    )
    log_.add(Written([{"x": 500, "s": "q"}]))
    log_.remove(0)
    table = scan_saved(log_.folder)
    assert (table.num_files, table.plan("x = 500").verdicts.tolist()) == (3, [0, 0, 2])
    assert len(files(tmp_path)) == 1  # two commits are too few to save a version again
    monkeypatch.setattr(disk, "COMMITS", 2)
    assert scan_saved(log_.folder).num_files == 3
    assert len(files(tmp_path)) == 2
    log_.add(Written([{"x": 501, "s": "q"}]), Written([{"x": 502, "s": "q"}]))
    log_.add(Written([{"x": 503, "s": "q"}]))
    assert scan_saved(log_.folder).num_files == 6
    assert [p.name.split("-")[0] for p in files(tmp_path)] == [
        str(table.version),
        str(table.version + 2),
    ]  # the oldest was removed
    monkeypatch.setattr(snapshot, "read_checkpoint", read)
    assert (
        scan_saved(log_.folder, version=table.version - 1).num_files == 4
    )  # an old version is not saved beside newer ones
    assert len(files(tmp_path)) == 2


def test_another_table_in_the_same_place_is_noticed(tmp_path, scan_saved):
    folder = simple(tmp_path / "t", 2).folder
    assert scan_saved(folder).num_files == 2
    os.rename(folder, tmp_path / "old")
    other = Log(folder, delta_schema("y BIGINT"))
    other.add(Written([{"y": 1}]))
    assert scan_saved(folder).schema.names == ["y"]
    assert scan_saved(folder).plan("y = 1").verdicts.tolist() == [2]


def test_other_storage_options_are_another_table(tmp_path, scan_saved):
    folder = simple(tmp_path / "t", 2).folder
    for options in (None, {"endpoint": "a"}, {"endpoint": "b"}):
        scan_saved(folder, storage_options=options)
    assert len({p.parent for p in files(tmp_path)}) == 3


@pytest.mark.parametrize("seed", range(6 if LONG else 1))
def test_damage_raises_or_changes_nothing(tmp_path, scan_saved, seed):
    r = np.random.default_rng(seed)
    folder = varied(tmp_path / "t").folder
    answers = {w: scan_saved(folder).plan(w).verdicts.tolist() for w in WHERE}
    (path,) = files(tmp_path)
    whole = path.read_bytes()
    for _ in range(20):
        data = bytearray(whole)
        if r.random() < 0.3:
            data = data[: r.integers(0, len(data))]
        else:
            for at in r.integers(0, len(data), r.integers(1, 4)):
                data[at] ^= 1 << r.integers(0, 8)
        path.unlink()  # saved files are replaced, never changed in place
        path.write_bytes(data)
        for w in WHERE:
            try:
                assert scan_saved(folder).plan(w).verdicts.tolist() == answers[w]
            except ss.StatisticsError as e:
                assert str(path) in str(e) and "remove the file" in str(e)  # noqa: PT017


def test_a_damaged_file_is_removed(tmp_path, scan_saved):
    folder = varied(tmp_path / "t").folder
    expected = scan_saved(folder).plan("x = 7").verdicts.tolist()
    (path,) = files(tmp_path)
    data = path.read_bytes()
    for at in range(0, len(data), 64):  # some of these bytes are checked when the file is opened
        path.unlink(missing_ok=True)
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        try:
            scan_saved(folder).plan("x = 7 AND f > 5.5D")
        except ss.StatisticsError:
            assert not path.exists()
            assert ss.scan_delta(folder).plan("x = 7").verdicts.tolist() == expected
            return
    pytest.fail("no damage was noticed")


def test_another_table_in_the_same_place_is_saved(tmp_path, scan_saved):
    """It is saved even if it has fewer versions."""
    folder = simple(tmp_path / "t", 6).folder
    scan_saved(folder)
    os.rename(folder, tmp_path / "old")
    simple(tmp_path / "t", 2)
    assert scan_saved(folder).num_files == 2
    assert [p.name.split("-")[0] for p in files(tmp_path)] == ["2"]


def test_an_older_format_is_ignored(tmp_path, scan_saved, monkeypatch):
    folder = simple(tmp_path / "t", 2).folder
    scan_saved(folder)
    monkeypatch.setattr(disk, "FORMAT", disk.FORMAT + 1)
    assert scan_saved(folder).plan("x = 3").files


@pytest.mark.parametrize("folder", ["", 5, b""])
def test_invalid_folders(folder, monkeypatch):
    with pytest.raises(ss.SourceError, match="expected a folder's path, or None"):
        monkeypatch.setattr(ss, "cache_dir", folder)


def test_a_folder_that_cannot_be_written_only_warns(tmp_path, scan_saved, monkeypatch):
    folder = simple(tmp_path / "t", 2).folder
    (tmp_path / "cache").write_text("a file")
    with pytest.warns(RuntimeWarning, match="cannot save"):
        table = scan_saved(folder)
    assert len(table.plan("x = 3").files) == 1


@pytest.mark.parametrize(("age", "found"), [(0, 0), (STEP // 2, 0), (10 * STEP, 1)])
def test_a_commit_of_this_moment_is_not_saved(tmp_path, scan_saved, age, found):
    """A table that took its place right now could have a commit of the same time and size."""
    folder = simple(tmp_path / "t", 2).folder
    cache.forget()
    newest = max((tmp_path / "t" / "_delta_log").glob("*.json"))
    now = time.time_ns() + 10**12  # later than any file's time
    os.utime(newest, ns=(now - age, now - age))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log.time, "time_ns", lambda: now)
        ss.scan_delta(folder)
    assert len(files(tmp_path)) == found


PROCESS = """
import json, sys, time
import skipstone as ss
from skipstone.bindings.tables.delta import cache, disk
ss.cache_dir, disk.COMMITS = sys.argv[2], 1
for _ in range(int(sys.argv[3])):
    cache.forget()
    table = ss.scan_delta(sys.argv[1])
    found = [len(table.plan(where).files) for where in ("x >= 0", "x = 3")]
    print(json.dumps([table.version, table.num_files, *found]), flush=True)
"""


def process(tmp_path, folder, times):
    return subprocess.Popen(
        [sys.executable, "-c", PROCESS, str(folder), str(tmp_path / "cache"), str(times)],
        stdout=subprocess.PIPE,
        text=True,
    )


def test_two_processes_refresh_one_cache(tmp_path, scan_saved):
    log_ = simple(tmp_path / "t", 3)
    both = [process(tmp_path, log_.folder, 40) for _ in range(2)]
    for i in range(30):
        log_.add(Written([{"x": 1000 + i, "s": "q"}]))
        time.sleep(0.02)
    for one in both:
        out, _ = one.communicate(timeout=60)
        assert one.returncode == 0
        for version, number, matching, three in map(json.loads, out.splitlines()):
            assert (number, matching, three) == (version, version, 1)
    assert scan_saved(log_.folder).num_files == 33
    assert not list((tmp_path / "cache").rglob("*.tmp"))


def test_a_process_that_is_killed_while_it_saves_leaves_no_wrong_plan(tmp_path, scan_saved):
    log_ = simple(tmp_path / "t", 3)
    for i in range(4):
        with process(tmp_path, log_.folder, 10_000) as one:
            one.stdout.readline()
            for k in range(3):
                log_.add(Written([{"x": 1000 + 3 * i + k, "s": "q"}]))
                time.sleep(0.003 * (i + 1))
            one.send_signal(signal.SIGKILL)
        table = scan_saved(log_.folder)
        assert (
            table.num_files,
            len(table.plan("x >= 0").files),
            len(table.plan("x = 3").files),
        ) == (6 + 3 * i, 6 + 3 * i, 1)
