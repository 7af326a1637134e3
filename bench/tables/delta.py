"""`delta`: load, plan and refresh a Delta log of a million files, compared with deltalake."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

import skipstone as ss
from bench.files.delta_log import CHECKPOINT, ROWS, append_commits, write_log
from bench.report.measure import Timing, clock, interleave, repeat
from bench.report.report import OWN, Options, Report, Requirement, equal
from skipstone.bindings.tables.delta import cache

FILES: Final = 1_000_000
MANY: Final = 20_000_000  # with --full
COMMITS: Final = 1000
PEER: Final = "deltalake"
# Predicates, and how many of n files they keep.
WHERE: Final = {
    "a range of the column that files are sorted by": ("id BETWEEN {a} AND {b}", 3),
    "a date": ("day = DATE '2020-01-02'", 2_000),
    "three columns": ("id >= {a} AND price < 5 AND amount > 9900", None),
    "a text": ("name < 'name-1' AND id < {a}", None),
}
# Run in a fresh process. Prints the seconds of opening, of the first plan and of another one, the
# files that they keep, and the memory taken in bytes.
FRESH: Final = """
import json, resource, sys, time
import skipstone as ss
ss.scan_delta, ss.PruningPredicate
import skipstone.bindings.tables.delta.disk, skipstone.bindings.predicates.sql, sqlglot
path, folder, first, second = sys.argv[1:]
ss.config.statistics_cache_dir = folder or None
def used():  # private memory, without mapped files
    if sys.platform != "linux":
        return 0
    resident, shared = map(int, open("/proc/self/statm").read().split()[1:3])
    return (resident - shared) * resource.getpagesize()
before, start = used(), time.perf_counter()
table = ss.scan_delta(path)
opened = time.perf_counter()
kept = len(table.plan(first).kept)
planned = time.perf_counter()
again = len(table.plan(second).kept)
seconds = [opened - start, planned - opened, time.perf_counter() - planned]
print(json.dumps([*seconds, kept, again, used() - before]))
"""


def delta(options: Options) -> Report:
    """A Delta log of a million files: loading, opening from disk, plans, refreshes."""
    n = FILES if options.containers >= 10_000_000 else options.containers
    report = Report(f"a Delta log of {n:,} files x 8 columns: seconds", n)
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("stats_parsed", "JSON"):
            write_log(Path(folder) / kind, n, parsed=kind == "stats_parsed")
            _load(
                report,
                str(Path(folder) / kind),
                kind,
                n,
                options.rounds or (7 if options.full else 3),
            )
        _from_disk(report, Path(folder), n)
        _plans(report, str(Path(folder) / "stats_parsed"), n, options.rounds or 15)
        _refresh(report, Path(folder) / "stats_parsed", n)
    if options.full:
        _twenty_million(report)
    return report


def load_anew(path: str) -> ss.DeltaTable:
    """Load a table's log again, with the statistics of all its columns."""
    cache.forget()
    table = ss.scan_delta(path)
    for leaf in table.statistics.leaf_paths():
        table.statistics.raw(leaf)
    return table


def _load(report: Report, path: str, kind: str, n: int, rounds: int) -> None:
    equal("the log", load_anew(path).num_files, n)
    runs: dict[str, Any] = {OWN: lambda: load_anew(path)}
    try:
        import deltalake
    except ImportError:
        report.leave_out(PEER, "not installed", kind)
    else:
        runs[PEER] = lambda: deltalake.DeltaTable(path).get_add_actions(flatten=True)
        equal(PEER, runs[PEER]().num_rows, n)
    timings = interleave(runs, rounds)
    for name, t in timings.items():
        report.time(f"{name}, load, {kind}", t, own=timings[OWN], engine=name, group=kind)
        report.rows.append(_row(f"{name}: load, {kind}", t))
    if PEER in timings:
        ratio = timings[OWN].times(timings[PEER])
        report.requirements.append(
            Requirement(
                f"loading {kind}: time relative to deltalake's open and get_add_actions",
                ratio,
                1.3,
                at_most=True,
            )
        )


def _plans(report: Report, path: str, n: int, rounds: int) -> None:
    table = load_anew(path)
    slowest = 0.0
    for what, (text, kept) in WHERE.items():
        where = _predicate(text, n)
        found = table.plan(where)
        if kept is not None:
            equal(what, len(found.kept), min(kept, n))
        t = repeat(partial(table.plan, where), rounds)
        slowest = max(slowest, t.median)
        report.time(f"plan: {what}", t)
        report.rows.append(_row(f"plan: {what}", t, files=len(found.kept)))
    report.requirements.append(
        Requirement("the slowest plan, ms: median", slowest * 1e3, 20, at_most=True)
    )


def _from_disk(report: Report, folder: Path, n: int) -> None:
    path, kept = str(folder / "stats_parsed"), str(folder / "cache")
    first, second = _predicate(WHERE["three columns"][0], n), _predicate(WHERE["a date"][0], n)
    saved = _fresh_process(path, kept, first, second)
    plain = _fresh_process(path, "", first, second)
    again = [_fresh_process(path, kept, first, second) for _ in range(5)]
    for one in (plain, *again):
        equal("from disk", one[3:5], saved[3:5])
    size = sum(f.stat().st_size for f in (folder / "cache").rglob("*.stats"))
    opening, first_plan, another = (Timing(tuple(one[i] for one in again)) for i in range(3))
    for what, t in {
        "load and save, in a fresh process": Timing((saved[0],)),
        f"open from disk, {size / n:.0f} bytes a file, in a fresh process": opening,
        "the first plan after that": first_plan,
        "another plan": another,
    }.items():
        report.time(what, t)
        report.rows.append(_row(what, t))
    text = "opening from disk in a fresh process, ms: median"
    report.requirements.append(Requirement(text, opening.median * 1e3, 100, at_most=True))
    report.notes.append(
        "Memory that the log and two plans took in a process: "
        f"{plain[5] / n:.0f} bytes a file; opened from disk {again[0][5] / n:.0f}, "
        "without the mapped file."
    )


def _refresh(report: Report, folder: Path, n: int) -> None:
    cache.forget()
    held = ss.scan_delta(str(folder))
    append_commits(folder, n, COMMITS)
    seconds = clock(lambda: ss.scan_delta(str(folder)))
    newer = ss.scan_delta(str(folder))
    equal(
        "refreshed",
        (newer.version, newer.num_files, held.num_files),
        (CHECKPOINT + COMMITS, n + COMMITS, n),
    )
    report.time(f"{COMMITS:,} new commits", Timing((seconds,)))
    report.rows.append(
        _row(f"{COMMITS:,} new commits, added to a table that is held", Timing((seconds,)))
    )


def _twenty_million(report: Report) -> None:
    """Plan 20 million files from disk."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if shutil.disk_usage(folder).free < MANY * 900:
            report.notes.append(
                f"{MANY:,} files were not measured: they need {MANY * 900 / 1e9:.0f} GB of disk"
            )
            return
        write_log(folder / "t", MANY, parsed=True)
        first = _predicate(WHERE["three columns"][0], MANY)
        second = _predicate(WHERE["a date"][0], MANY)
        saved = _fresh_process(str(folder / "t"), str(folder / "cache"), first, second)
        found = _fresh_process(str(folder / "t"), str(folder / "cache"), first, second)
        equal("20 million", found[3:5], saved[3:5])
        for what, seconds in {
            "load and save": saved[0],
            "open from disk": found[0],
            "the first plan": found[1],
            "another plan": found[2],
        }.items():
            report.time(f"{MANY:,} files: {what}", Timing((seconds,)), n=MANY)
            report.rows.append(_row(f"{MANY:,} files: {what}", Timing((seconds,))))
        report.requirements.append(
            Requirement(
                f"{MANY:,} files opened from disk and planned, seconds",
                found[0] + found[1],
                3,
                at_most=True,
            )
        )


def _predicate(text: str, n: int) -> str:
    return text.format(a=n // 2 * ROWS + 5, b=n // 2 * ROWS + 2 * ROWS + 5)


def _fresh_process(path: str, folder: str, first: str, second: str) -> list[Any]:
    out = subprocess.run(
        [sys.executable, "-c", FRESH, path, folder, first, second],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found: list[Any] = json.loads(out)
    return found


def _row(name: str, t: Timing, files: int | None = None) -> dict[str, Any]:
    return {
        "": name,
        "s": float(np.round(t.median, 4)),
        "best s": t.best,
        "worst s": max(t.seconds),
        "files kept": "" if files is None else f"{files:,}",
    }
