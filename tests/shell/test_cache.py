"""`skipstone cache info | clear`: only our files are counted and removed, also while in use."""

import json
import os
import subprocess
import sys
import time

import pytest

pytest.importorskip("click")
from click.testing import CliRunner

from skipstone.bindings.shell import cache_files
from skipstone.bindings.shell.cli import app

VERSION = "0.1.0-numba0.68.1-py311"
STEM = "skipstone_kernel_" + "a" * 32
TABLE = "b" * 32
SHARD = f"shard-{'0' * 16}-{'1' * 16}.stats"
OURS = {
    "kernels": [
        f"kernels/{VERSION}/{STEM}.py",
        f"kernels/{VERSION}/{STEM}.lock",
        f"kernels/{VERSION}/{STEM}.ce471d9a559e2d1f.o",
        f"kernels/{VERSION}/__pycache__/{STEM}.kernel-99.py311.nbi",
        f"cubins/{VERSION}/{'c' * 32}.cubin",
        f"cubins/{VERSION}/{'c' * 32}.lock",
        f"parses/0.1.0-py311/parse_{'f' * 32}.json",
    ],
    "statistics": [
        f"kept/delta/{TABLE}/12-900-1700000000000000000-.stats",
        f"kept/shards/key1-{SHARD}",
        f"shards/{VERSION}/key2-{SHARD}",
    ],
}
OTHERS = [
    f"kernels/{VERSION}/notes.txt",
    f"kernels/{VERSION}/{STEM[:-1]}.py",
    f"kernels/other/{STEM}.py",
    "parses/0.1.0-py311/parse_mine.json",
    "kept/mine.stats",
    "kept/delta/mine/12-900-1-.stats",
    f"kept/delta/{TABLE}/report.parquet",
    "kept/shards/data.parquet",
    "java/0123/bin/java",
]
NEW = [f"kernels/{VERSION}/.new-{'d' * 16}", f"kept/delta/{TABLE}/1-2-3-.stats.{'e' * 8}.tmp"]


@pytest.fixture
def caches(tmp_path, monkeypatch):
    monkeypatch.setenv("SKIPSTONE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("SKIPSTONE_STATISTICS_CACHE_DIR", str(tmp_path / "kept"))
    for name in [*OURS["kernels"], *OURS["statistics"], *OTHERS, *NEW]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"12345")
    return tmp_path


def left(folder):
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if not p.is_dir()}


def run(*words, status=0):
    result = CliRunner().invoke(app, ["cache", *words])
    assert result.exit_code == status, result.output
    return result


def test_info(caches):
    kernels, statistics = json.loads(run("info", "--json").stdout)
    assert (kernels["entries"], kernels["bytes"], kernels["problem"]) == (3, 35, None)
    assert (statistics["entries"], statistics["bytes"]) == (3, 15)
    assert (kernels["folder"], statistics["folder"]) == (str(caches), str(caches / "kept"))
    assert kernels["oldest"].endswith(" UTC")
    assert "kernels" in run("info").stdout


def test_folders_of_the_user_are_shown_short(caches, monkeypatch):
    """As in docs/configuration.md; JSON has the whole paths."""
    monkeypatch.setenv("HOME", str(caches.parent))
    short = f"~/{caches.name}"
    assert f"{short}\n" in run("info").stdout and f"{short}/kept\n" in run("info").stdout
    assert json.loads(run("info", "--json").stdout)[0]["folder"] == str(caches)
    assert run("clear", "--kernels").stdout.endswith(f"35 bytes from {short}\n")


#     options, the caches that are emptied
CLEARS = [
    ([], ("kernels", "statistics")),
    (["--kernels"], ("kernels",)),
    (["--statistics"], ("statistics",)),
    (["--kernels", "--statistics"], ("kernels", "statistics")),
]


@pytest.mark.parametrize(("options", "emptied"), CLEARS)
def test_clear_removes_only_our_files(options, emptied, caches):
    said = run("clear", *options).stdout
    gone = {name for cache in emptied for name in OURS[cache]}
    stays = {name for names in OURS.values() for name in names} - gone
    assert left(caches) == {*OTHERS, *NEW, *stays}
    assert ("kernels: removed 3 entries, 35 bytes" in said) == ("kernels" in emptied)
    assert ("statistics: removed 3 entries, 15 bytes" in said) == ("statistics" in emptied)


def test_old_unfinished_files_are_removed(caches):
    for name in NEW:
        os.utime(caches / name, (time.time() - 7200,) * 2)
    run("clear")
    assert left(caches) == set(OTHERS)


def test_no_caches_are_no_error(tmp_path, monkeypatch):
    monkeypatch.setenv("SKIPSTONE_CACHE_DIR", str(tmp_path / "none"))
    assert [c["entries"] for c in json.loads(run("info", "--json").stdout)] == [0, 0]
    assert run("clear", "--statistics-dir", str(tmp_path / "x")).stdout.count("removed 0") == 2
    unset = "statistics: nothing removed: no folder is set; name it with --statistics-dir\n"
    assert run("clear", "--statistics").stdout == unset
    assert not (tmp_path / "none").exists()


def test_links_are_left_alone(caches, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / f"{STEM}.py").write_bytes(b"precious")
    (caches / "kernels" / "0.2.0-numba1-py312").symlink_to(outside)
    link = caches / "kernels" / VERSION / f"{STEM.replace('a', 'f')}.py"
    link.symlink_to(outside / f"{STEM}.py")
    run("clear")
    assert (outside / f"{STEM}.py").read_bytes() == b"precious" and link.is_symlink()


def test_a_folder_of_others_is_reported_and_left(caches):
    caches.chmod(0o777)
    before = left(caches)
    kernels, statistics = json.loads(run("info", "--json").stdout)
    assert kernels["problem"] == f"others may write to {caches}" == statistics["problem"]
    assert "not used: others may" in " ".join(run("info").stdout.split())
    assert "nothing removed" in run("clear", status=1).stderr
    assert left(caches) == before


def test_files_of_other_users_are_left(caches, monkeypatch):
    monkeypatch.setattr(cache_files, "_is_own", lambda found: False)
    run("clear")
    assert {*OURS["kernels"], *OURS["statistics"]} <= left(caches)


def test_a_kernel_that_another_process_makes_stays(caches):
    code = """
import sys
from pathlib import Path
from skipstone.kernels.run.compile_cache import process_lock
with process_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""
    path = str(caches / OURS["kernels"][0])
    with subprocess.Popen(
        [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout.readline() == "held\n"
        said = run("clear", "--kernels").stdout
        assert "removed 2 entries" in said and "not removed: 1 that another" in said
        assert {name for name in OURS["kernels"] if STEM in name} <= left(caches)
        child.stdin.close()
        child.wait()
    assert "removed 1 entry" in run("clear", "--kernels").stdout


def test_a_process_goes_on_without_its_cache(tmp_path, monkeypatch):
    """Kernels and kept statistics vanish while a process uses both."""
    deltalake = pytest.importorskip("deltalake")
    pa = pytest.importorskip("pyarrow")
    import skipstone as ss
    from skipstone.bindings.tables.delta import cache as tables

    monkeypatch.setenv("SKIPSTONE_CACHE_DIR", str(tmp_path / "c"))
    monkeypatch.setattr(ss, "cache_dir", tmp_path / "kept")
    deltalake.write_deltalake(str(tmp_path / "t"), pa.table({"x": [1, 5]}))
    for one in (tmp_path / "t" / "_delta_log").iterdir():
        os.utime(one, (1e9, 1e9))
    table = ss.scan_delta(tmp_path / "t")
    assert json.loads(run("info", "--json").stdout)[1]["entries"] == 1
    assert "statistics: removed 1 entry" in run("clear").stdout
    assert table.plan("x > 4").to_arrow().num_rows == 1
    tables.forget()
    assert ss.scan_delta(tmp_path / "t").plan("x > 9").files == ()
    assert json.loads(run("info", "--json").stdout)[1]["entries"] == 1
