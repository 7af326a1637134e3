"""Progress of long work: which events come, how many, to whom, and what their errors do."""

import os
import pty
import re
import subprocess
import sys
import threading
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings import bars, progress
from skipstone.bindings.tables.delta import cache as delta_tables
from skipstone.bindings.tables.iceberg import manifest
from tests.support.tables import formats
from tests.support.tables.lazy import years


@pytest.fixture
def eager(monkeypatch):
    """Report every step."""
    monkeypatch.setattr(progress, "FIRST_EVENT_SECONDS", 0.0)
    monkeypatch.setattr(progress, "EVENT_SECONDS", 0.0)


@pytest.fixture
def files(tmp_path):
    for i in range(5):
        pq.write_table(pa.table({"x": [i], "y": [i]}), tmp_path / f"{i}.parquet")
    return tmp_path


class Clock:
    """A clock that a step of work moves on."""

    now = 0.0

    def perf_counter(self):
        return self.now


#     seconds of a step, steps, what `done` the events show
THROTTLED = [
    (0.001, 400, []),  # less than half a second: nobody hears of it
    (0.001, 700, [500, 600, 700]),
    (0.001, 650, [500, 600, 650]),  # the last event is the end
    (0.25, 4, [2, 3, 4]),
    (5.0, 2, [1, 2]),
    (0.125, 100, list(range(4, 101))),
]


@pytest.mark.parametrize(("seconds", "steps", "expected"), THROTTLED)
def test_events_are_few(seconds, steps, expected, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    seen = []
    with (
        ss.config.override(progress=lambda e: seen.append(e.done)),
        progress.Track("footers", steps, "files") as track,
    ):
        for _ in range(steps):
            clock.now = round(clock.now + seconds, 6)
            track.step()
    assert seen == expected


def test_work_that_fails_has_no_last_event(eager):
    seen = []
    with ss.config.override(progress=seen.append):
        track = progress.Track("footers", 3, "files")

    def fail():
        with track:
            track.step()
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        fail()
    assert seen == [ss.ProgressEvent("footers", 1, 3, "files")]


def of_parquet(folder):
    years(folder)
    return partial(ss.scan_parquet, folder)


def of_hive(folder):
    years(folder)
    return partial(ss.scan_hive, folder)


def of_delta(folder):
    deltalake = pytest.importorskip("deltalake")
    for i in range(4):
        rows = pa.table({"x": [i]})
        deltalake.write_deltalake(str(folder / "t"), rows, mode="append")
    deltalake.DeltaTable(str(folder / "t")).create_checkpoint()
    deltalake.write_deltalake(str(folder / "t"), rows, mode="append")

    def work():
        delta_tables.forget()
        ss.scan_delta(folder / "t")

    return work


def of_iceberg(folder):
    pytest.importorskip("pyiceberg")
    source = formats.iceberg(folder).source

    def work():
        manifest.forget()
        ss.scan_iceberg(source).plan("x >= 0")

    return work


def of_reading(folder):
    return ss.scan_parquet(years(folder)).plan("x >= 1").to_arrow


def of_pages(folder):
    plan = ss.scan_parquet(years(folder)).plan("x >= 1")
    return lambda: plan.pages


def many(n=1000):
    schema = pa.schema([("x", pa.int64()), ("y", pa.int64())])
    bounds = {"min": range(n), "max": range(1, n + 1)}
    return ss.Statistics.from_dict({"x": bounds, "y": bounds}, schema)


def of_index(folder):
    return many().index


def of_shards(folder):
    return lambda: many().save_shards(folder, rows=100)


def of_judging(folder):
    many().save_shards(folder, rows=100)
    return lambda: ss.Shards.open(folder).judge("x + y > 500")


def of_many(folder):
    stats = many()
    return lambda: ss.prune_many([ss.PruningPredicate("x > 3", stats.schema)] * 7, stats)


#     work, the phases that it reports and their units
PHASES = {
    of_parquet: {"footers": "files"},
    of_hive: {"listing": "folders"},
    of_delta: {"log": "commits", "checkpoint": "files", "statistics": "files"},
    of_iceberg: {"manifests": "manifests"},
    of_reading: {"reading": "row groups"},
    of_pages: {"pages": "row groups"},
    of_index: {"index": "columns"},
    of_shards: {"shards": "shards"},
    of_judging: {"shards": "shards"},
    of_many: {"planning": "predicates"},
}


@pytest.mark.parametrize("prepare", PHASES, ids=lambda f: f.__name__)
def test_phases(prepare, tmp_path, eager):
    work = prepare(tmp_path)
    seen = []
    with ss.config.override(progress=seen.append):
        work()
    last = {e.phase: e for e in seen}
    wanted = PHASES[prepare]
    assert {phase: e.unit for phase, e in last.items() if phase in wanted} == wanted
    assert all(last[phase].done == last[phase].total > 0 for phase in wanted)
    assert all(0 < e.done <= e.total for e in seen)


def test_arguments(files, eager):
    seen = []
    table = ss.scan(files, progress=seen.append)
    assert seen[-1] == ss.ProgressEvent("footers", 5, 5, "files")
    plan = table.plan("x >= 1")
    for work in (plan.to_arrow, lambda progress: list(plan.to_batches(progress=progress))):
        seen.clear()
        work(progress=seen.append)
        assert seen[-1] == ss.ProgressEvent("reading", 4, 4, "row groups")
    seen.clear()
    table.statistics.index(progress=seen.append)
    assert seen[-1].phase == "index"
    ss.scan_parquet(files, progress=False)
    with pytest.raises(ss.SkipstoneError, match="a function of one ProgressEvent"):
        ss.scan(files, progress=lambda done, total: None)
    with pytest.raises(ss.SkipstoneError, match="expected True, False"):
        ss.scan_parquet(files, progress="bar")


def test_the_old_argument_of_scan_parquet_hears_of_every_file(files):
    seen = []
    ss.scan_parquet(files, progress=lambda *args: seen.append(args))
    ss.scan_parquet(files, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(i, 5) for i in range(1, 6)] * 2


def test_a_stream_keeps_the_settings_of_its_making(files, eager):
    seen = []
    plan = ss.scan(files).plan()
    with ss.config.override(progress=seen.append):
        stream = plan.to_batches()
    rows = []
    reader = threading.Thread(target=lambda: rows.append(stream.read_all().num_rows))
    reader.start()
    reader.join()
    assert (rows, seen[-1].phase) == ([5], "reading")


class Stop(Exception):
    pass


def stop(event):
    raise Stop(event.phase)


@pytest.mark.parametrize("prepare", PHASES, ids=lambda f: f.__name__)
def test_an_error_of_the_function_ends_the_work(prepare, tmp_path, eager):
    work = prepare(tmp_path)
    with pytest.raises(Stop), ss.config.override(progress=stop):
        work()
    left = {t.name.rpartition("_")[0] for t in threading.enumerate()}
    assert {name for name in left if name.startswith("skipstone-")} <= {"skipstone-compile"}
    assert not list(tmp_path.rglob("*.tmp"))
    if prepare not in (of_shards, of_judging):
        work()


def test_an_error_of_the_function_leaves_the_rest_undone(files, eager, monkeypatch):
    from skipstone.bindings.tables.parquet import group_tasks, read_groups

    monkeypatch.setattr(group_tasks, "ARROW_ROWS", 1)
    monkeypatch.setattr(group_tasks, "POLARS_ROWS", 1)
    read, inner = [], read_groups.read_files
    monkeypatch.setattr(
        read_groups, "read_files", lambda *a, **k: (read.append(1), inner(*a, **k))[1]
    )
    for i in range(5, 60):
        pq.write_table(pa.table({"x": [i], "y": [i]}), files / f"{i}.parquet")
    plan = ss.scan(files).plan("x >= 0 AND y >= 0")
    with pytest.raises(Stop), ss.config.override(threads=2):
        plan.to_arrow(progress=stop)
    assert 0 < len(read) < 20
    assert plan.to_arrow().num_rows == 60


def test_a_function_may_use_skipstone(files, eager):
    seen = []

    def look(event):
        seen.append((event.phase, ss.scan_parquet(files).num_files))

    ss.scan_parquet(files, progress=look)
    assert seen == [("footers", 5)]


BARS = """
import sys
import skipstone as ss
from skipstone.bindings import progress
progress.FIRST_EVENT_SECONDS = progress.EVENT_SECONDS = 0.0
{before}
from skipstone.bindings.shell.cli import app
app(["plan", {folder!r}, "--where", "x > 3", *{options}], standalone_mode=False)
"""


def on_terminal(code):
    """Run code whose standard error is a terminal, and return what it shows there."""
    master, slave = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=slave, env=env
    ) as child:
        os.close(slave)
        shown = b""
        try:
            while data := os.read(master, 1 << 16):
                shown += data
        except OSError:  # the child has ended
            pass
        child.stdout.read()
    os.close(master)
    assert child.returncode == 0, shown.decode()
    return shown.decode()


def test_bars_in_the_shell(files):
    pytest.importorskip("rich")
    pytest.importorskip("click")
    code = partial(BARS.format, folder=str(files))
    shown = on_terminal(code(before="", options=[]))
    text = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", shown)
    assert "footers" in text and "5/5 files" in text
    assert shown.rstrip().endswith("\x1b[2K\x1b[?25h")  # it disappears, and the cursor is back
    for before, options in (
        ("", ["--json"]),
        ("ss.config.progress = False", []),
        ("progress.FIRST_EVENT_SECONDS = 1e9", []),
    ):
        assert on_terminal(code(before=before, options=options)) == ""
    done = subprocess.run(
        [sys.executable, "-c", code(before="", options=[])],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""  # it is not a terminal


class Notebook:
    """IPython, as far as we look at it."""

    @staticmethod
    def get_ipython():
        return type("ZMQInteractiveShell", (), {"kernel": None})()


def test_bars_in_notebooks_need_a_package(files, eager, monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", Notebook)
    made = []

    class Tqdm:
        def __init__(self, **options):
            self.n, self.total = 0, None
            made.append((self, options))

        def update(self, n):
            self.n += n

        def close(self):
            self.closed = True

    there = {"tqdm"}
    monkeypatch.setattr(bars, "_is_there", lambda name: name in there)
    monkeypatch.setitem(sys.modules, "tqdm", type("tqdm", (), {"tqdm": Tqdm}))
    ss.scan_parquet(files)
    ((bar, options),) = made
    assert (bar.n, bar.total, bar.closed, options["desc"]) == (5, 5, True, "footers")
    there.clear()
    ss.scan_parquet(files)
    there.add("rich")  # it shows nothing in a notebook that lacks ipywidgets
    ss.scan_parquet(files)
    monkeypatch.delitem(sys.modules, "IPython")
    there.add("tqdm")
    ss.scan_parquet(files)  # a plain program
    assert len(made) == 1


def test_bars_at_once_share_a_display(eager, monkeypatch, capsys):
    pytest.importorskip("rich")
    one, two = bars.RichBar(), bars.RichBar()
    for bar in (one, two):
        bar.update(ss.ProgressEvent("footers", 1, None, "files"))
    assert bars.RichBar._open == 2
    for bar in (one, one, two):
        bar.close()
    assert (bars.RichBar._open, bars.RichBar._display) == (0, None)


@pytest.mark.parametrize("scan", [ss.scan, ss.scan_parquet])
def test_the_argument_is_named(scan, tmp_path):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "t.parquet")
    with pytest.raises(ss.SkipstoneError, match=r"^progress is 'yes'; expected "):
        scan(tmp_path, progress="yes")
