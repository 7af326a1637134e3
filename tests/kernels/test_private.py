"""Test that cached files are used only if no other user could have written them.

Cached logs also distinguish a commit from a different commit of the same name.
"""

import os
import warnings

import pytest

import skipstone as ss
from skipstone.bindings.statistics.store import folder as kept
from skipstone.bindings.tables.delta import cache as tables
from skipstone.bindings.tables.delta import disk, log
from skipstone.kernels.run import compile_cache, private
from skipstone.kernels.run.private import why_exposed
from tests.support.tables.delta_log import simple

pytestmark = pytest.mark.skipif(not hasattr(os, "getuid"), reason="no POSIX permissions here")
OTHER = 4711  # a user id that does not exist


@pytest.fixture(autouse=True)
def _own_groups(monkeypatch):
    monkeypatch.setattr(private, "_own_group", lambda found: False)
    kept._warned.clear()
    tables.forget()


def owned(monkeypatch, path, user=OTHER):
    """Change the owner of a folder, as `lstat` reports it."""
    real = os.lstat

    def lstat(at):
        found = list(real(at))
        found[4] = user if str(at) == str(path) else found[4]
        return os.stat_result(found)

    monkeypatch.setattr(private.os, "lstat", lstat)


def test_a_folder_of_our_own(tmp_path):
    assert why_exposed(tmp_path) is None and why_exposed(tmp_path / "not" / "there") is None


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o775, 0o757, 0o1777])
@pytest.mark.parametrize("above", [0, 1, 2])
def test_folders_that_others_may_write_to(tmp_path, mode, above):
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    at = [deep, *deep.parents][above]
    at.chmod(mode)
    fine = mode & 0o1000 and above  # in a sticky folder, others cannot rename our files
    assert why_exposed(deep) == (None if fine else f"others may write to {at}")


@pytest.mark.parametrize("above", [0, 1, 2])
def test_folders_of_others(tmp_path, monkeypatch, above):
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    at = [deep, *deep.parents][above]
    owned(monkeypatch, at)
    assert why_exposed(deep) == f"{at} belongs to another user"
    owned(monkeypatch, at, 0)
    assert why_exposed(deep) is None


def test_links_are_checked_and_followed(tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert why_exposed(tmp_path / "link") is None
    (tmp_path / "real").chmod(0o777)
    assert why_exposed(tmp_path / "link") == f"others may write to {tmp_path / 'real'}"
    (tmp_path / "real").chmod(0o700)
    owned(monkeypatch, tmp_path / "link")
    assert why_exposed(tmp_path / "link") == f"{tmp_path / 'link'} belongs to another user"


def test_kernels_below_a_folder_of_others(tmp_path, monkeypatch):
    monkeypatch.setenv("SKIPSTONE_CACHE_DIR", str(tmp_path / "a" / "b"))
    own = compile_cache.directory()
    (tmp_path / "a").chmod(0o777)
    with pytest.warns(RuntimeWarning, match="others may write to .*/a"):
        assert compile_cache.directory() != own


def test_tables_are_not_kept_below_a_folder_of_others(tmp_path, monkeypatch):
    """There is one warning and no error, and nothing is read from there."""
    folder = simple(tmp_path / "t", 2).folder
    monkeypatch.setattr(ss, "cache_dir", tmp_path / "a" / "cache")
    for path in (folder / "_delta_log").iterdir():
        os.utime(path, (1e9, 1e9))
    ss.scan_delta(folder)
    (planted,) = (tmp_path / "a").rglob("*.stats")
    planted.write_bytes(b"planted")
    (tmp_path / "a").chmod(0o777)
    tables.forget()
    monkeypatch.setattr(disk, "_open", lambda *_: pytest.fail("it was read"))
    with pytest.warns(RuntimeWarning, match=r"keeps nothing in config\.statistics_cache_dir"):
        assert ss.scan_delta(folder).num_files == 2
    tables.forget()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ss.scan_delta(folder).num_files == 2


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_commit_that_was_rewritten_with_its_size_and_time(tmp_path, monkeypatch, on_disk):
    monkeypatch.setattr(ss, "cache_dir", tmp_path / "cache" if on_disk else None)
    folder = simple(tmp_path / "t", 2).folder
    last = folder / "_delta_log" / f"{2:020}.json"
    os.utime(last, (1e9, 1e9))
    whole = last.read_text()
    (full,) = ss.scan_delta(folder).plan("x >= 10").files
    path = os.path.basename(full)
    last.write_text(whole.replace(path, "q" * len(path)))
    os.utime(last, (1e9, 1e9))
    if on_disk:
        tables.forget()
    assert f"{folder}/{'q' * len(path)}" in ss.scan_delta(folder).all_files


def test_a_remote_commit_is_identified_by_time_and_size(tmp_path):
    from pyarrow import fs

    folder = simple(tmp_path / "t", 1).folder
    _, place = log.locate(str(folder), None, None)
    remote = fs.SubTreeFileSystem("/", fs.LocalFileSystem())
    assert place.stamp(1)[2] and not log.replace(place, fs=remote).stamp(1)[2]
