"""skipstone.config: where values come from, what is refused, and who sees a change."""

import asyncio
import os
import subprocess
import sys
import threading

import pytest

import skipstone as ss
from skipstone.bindings.filters.option import enabled
from skipstone.bindings.statistics.store import folder
from skipstone.kernels.config import SETTINGS
from skipstone.kernels.run import compile_cache, compiler, pool


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for setting in SETTINGS.values():
        monkeypatch.delenv(setting.variable, raising=False)


#     setting, the variable's text, its value, another value in code
VALUES = [
    ("threads", "3", 3, 5),
    ("kernel_cache_dir", "/v/k", "/v/k", "/c/k"),
    ("statistics_cache_dir", "/v/s", "/v/s", "/c/s"),
    ("compile", "off", False, True),
    ("keep_footers", "0", False, True),
    ("keep_matches", "0", False, True),
    ("dynamic_filtering", "No", False, True),
    ("progress", "1", True, False),
]


@pytest.mark.parametrize(("name", "text", "value", "other"), VALUES)
def test_code_comes_before_the_environment_before_the_default(
    name, text, value, other, monkeypatch
):
    default = getattr(ss.config, name)
    assert ss.config.source(name) == "default"
    monkeypatch.setenv(SETTINGS[name].variable, text)
    assert (getattr(ss.config, name), ss.config.source(name)) == (value, SETTINGS[name].variable)
    setattr(ss.config, name, other)
    assert (getattr(ss.config, name), ss.config.source(name)) == (other, "code")
    with ss.config.override(**{name: value}):
        assert (getattr(ss.config, name), ss.config.source(name)) == (value, "override")
    assert getattr(ss.config, name) == other
    ss.config.reset(name)
    assert getattr(ss.config, name) == value
    monkeypatch.delenv(SETTINGS[name].variable)
    assert getattr(ss.config, name) == default


def test_every_setting_is_tested():
    assert [name for name, *_ in VALUES] == list(SETTINGS)


#     variable, text, expected
WRONG_TEXTS = [
    ("SKIPSTONE_THREADS", "0", "a positive integer"),
    ("SKIPSTONE_THREADS", "", "a positive integer"),
    ("SKIPSTONE_THREADS", "²", "a positive integer"),
    ("SKIPSTONE_THREADS", "9" * 5000, "a positive integer"),
    ("SKIPSTONE_COMPILE", "maybe", "true or false"),
    ("SKIPSTONE_KEEP_FOOTERS", "always", "true or false"),
    ("SKIPSTONE_DYNAMIC_FILTERING", "2", "true or false"),
    ("SKIPSTONE_PROGRESS", "bar", "true or false"),
]


@pytest.mark.parametrize(("variable", "text", "expected"), WRONG_TEXTS)
def test_a_wrong_variable_is_named(variable, text, expected, monkeypatch):
    monkeypatch.setenv(variable, text)
    (name,) = [s.name for s in SETTINGS.values() if s.variable == variable]
    with pytest.raises(ss.SkipstoneError) as e:
        getattr(ss.config, name)
    assert str(e.value) == f"{variable} is {text!r}; expected {expected}, or leave it unset"
    assert variable in repr(ss.config)  # which shows the error and does not raise it


#     setting, a wrong value
WRONG_VALUES = [
    ("threads", 0),
    ("threads", True),
    ("threads", "2"),
    ("kernel_cache_dir", ""),
    ("kernel_cache_dir", b"/x"),
    ("statistics_cache_dir", 3),
    ("compile", 1),
    ("dynamic_filtering", "no"),
    ("progress", "bar"),
    ("progress", lambda done, total: None),
]


@pytest.mark.parametrize(("name", "value"), WRONG_VALUES)
def test_a_wrong_value_changes_nothing(name, value):
    before = repr(ss.config)
    with pytest.raises(ss.SkipstoneError, match=rf"config\.{name} is .*; expected .*, or None"):
        setattr(ss.config, name, value)
    with (
        pytest.raises(ss.SkipstoneError, match=rf"override\({name}=\) is .*; expected "),
        ss.config.override(**{name: value, "threads": 0 if name == "threads" else 7}),
    ):
        pass
    assert repr(ss.config) == before


def test_a_misspelt_setting_is_an_error():
    for wrong in (
        lambda: setattr(ss.config, "thread", 2),
        lambda: ss.config.source("thread"),
        lambda: ss.config.reset("thread"),
    ):
        with pytest.raises(ss.SkipstoneError, match=r"no setting 'thread'.*Did you mean 'threads'"):
            wrong()
    with pytest.raises(AttributeError):
        _ = ss.config.thread
    with pytest.raises(TypeError):
        ss.config.override(thread=2).__enter__()


def test_old_names_are_the_same_settings(tmp_path, monkeypatch):
    monkeypatch.setattr(ss, "cache_dir", tmp_path)
    assert ss.config.statistics_cache_dir == ss.cache_dir == str(tmp_path)
    ss.config.statistics_cache_dir = None
    assert (ss.cache_dir, folder.cache_folder("x")) == (None, None)
    ss.set_threads(3)
    assert ss.config.threads == pool.threads() == 3
    ss.config.threads = None
    assert ss.config.source("threads") == "default"


def test_settings_count_where_they_are_used(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(compiler.threading, "Thread", lambda **kw: started.append(kw) or Idle())
    with ss.config.override(
        kernel_cache_dir=tmp_path, compile=False, dynamic_filtering=False, threads=2
    ):
        assert compile_cache.directory().is_relative_to(tmp_path)
        compiler.compile_in_background("key", str)
        assert (started, enabled(), enabled(True), pool.threads()) == ([], False, True, 2)
    assert enabled()


class Idle:
    def start(self):
        pass


def test_an_override_belongs_to_its_thread_and_task():
    seen = {}

    def look(name):
        seen[name] = ss.config.threads

    with ss.config.override(threads=41):
        other = threading.Thread(target=look, args=["thread"])
        other.start()
        other.join()
        with pool.ContextPool(1) as own:
            own.submit(look, "own pool").result()
    assert seen == {"thread": ss.config.threads, "own pool": 41}

    async def task(n):
        with ss.config.override(threads=n):
            await asyncio.sleep(0)
            return ss.config.threads

    async def both():
        return await asyncio.gather(task(7), task(8))

    assert asyncio.run(both()) == [7, 8]


def test_an_error_ends_an_override():
    with pytest.raises(ZeroDivisionError), ss.config.override(threads=9):
        _ = 1 / 0
    assert ss.config.source("threads") == "default"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_its_parents_settings():
    code = """
import os, skipstone as ss
ss.config.compile = False
with ss.config.override(threads=6):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if (ss.config.threads, ss.config.compile) == (6, False) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "0\n"


def test_settings_import_little():
    code = """
import skipstone, sys
before = set(sys.modules)
repr(skipstone.config)
new = {m.partition(".")[0] for m in set(sys.modules) - before} - set(sys.builtin_module_names)
print(sorted(new & {"numpy", "pyarrow", "numba", "rich", "tqdm", "sqlglot", "asyncio"}))
"""
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


def test_repr_shows_each_value_and_its_source(monkeypatch):
    monkeypatch.setenv("SKIPSTONE_COMPILE", "0")
    ss.config.threads = 3
    lines = repr(ss.config).splitlines()
    assert lines[0] == "skipstone.config"
    assert lines[1].split() == ["threads", "3", "code"]
    assert ["compile", "False", "SKIPSTONE_COMPILE"] in [line.split() for line in lines]
    assert len(lines) == 1 + len(SETTINGS)
