"""`files`: plan over real files and count their rows, compared with other engines.

Peers that can name the files or row groups that they keep are compared in planning; others only in
whole queries. Each task's answers are compared with the rows before anything is timed. A contestant
may keep containers without a match. One that drops a container with a match shows "loses rows".
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.files import delta, parquet, queries, statistics
from bench.files.lake import Lake, make_delta, make_parquet
from bench.files.task import Answer, Contestant, Task
from bench.report.measure import YARDSTICK, Timing, interleave, yardstick
from bench.report.report import OWN, Options, Report, Requirement
from bench.statistics.peers import ENGINES

TASKS: Final = (*parquet.TASKS, *statistics.TASKS, *delta.TASKS, *queries.TASKS)


def files(options: Options) -> Report:
    """Plans from Parquet footers, statistics and a Delta log, and whole queries."""
    containers = min(100_000 if options.full else 10_000, options.containers)
    paths, adds = max(containers // 500, 1), containers // 5
    title = (
        f"{paths:,} Parquet files of {containers // paths:,} row groups, "
        f"and a Delta table of {adds:,} files"
    )
    report = Report(title, containers)
    lost = 0
    with tempfile.TemporaryDirectory() as folder:
        lakes = {"parquet": make_parquet(Path(folder) / "parquet", containers, paths)}
        try:
            lakes["delta"] = make_delta(Path(folder) / "delta", adds)
        except ImportError as e:
            report.leave_out("deltalake", str(e))
        for task in TASKS:
            if task.lake in lakes:
                lost += compete(task, lakes[task.lake], options, report)
    report.notes += [
        f"{name}: {lake.condition.sql}; {len(lake.some):,} of {lake.containers:,} hold a match"
        for name, lake in lakes.items()
    ]
    report.notes.append(
        "kept: containers left to read, or found to be fully matched, or read. "
        "Files are in the system's cache."
    )
    report.requirements.append(
        Requirement("containers with a match that Skipstone skips", lost, 0, at_most=True)
    )
    return report


def compete(task: Task, lake: Lake, options: Options, report: Report) -> int:
    """Compare the answers, then time the contestants.

    Return how many containers, or rows, Skipstone lost.
    """
    taking_part = [
        c for c in (_make_contestant(make, lake, task, report) for make in task.contestants) if c
    ]
    answers = {c.what: c.answer(c.run()) for c in taking_part}
    for engine, why in task.absent.items():
        report.leave_out(engine, why, task.name)
    runs: dict[str, Callable[[], object]] = {
        YARDSTICK: yardstick,
        **{c.what: c.run for c in taking_part},
    }
    timings = interleave(runs, options.rounds or (15 if options.full else 7))
    own = timings[taking_part[0].what]
    for c in taking_part:
        t = timings[c.what]
        report.time(
            f"{task.name}: {c.engine}, {c.what}",
            t,
            (YARDSTICK, timings[YARDSTICK]),
            own=own,
            engine=c.engine,
            group=task.name,
        )
        report.rows.append(_row(task, lake, c, answers[c.what], t, own))
    return sum(_num_wrong(task, lake, answers[c.what]) for c in taking_part if c.engine == OWN)


def _make_contestant(
    make: Callable[[Lake], Contestant], lake: Lake, task: Task, report: Report
) -> Contestant | None:
    try:
        return make(lake)
    except ImportError as e:
        package = e.name or make.__name__
        report.leave_out(ENGINES.get(package, package), str(e), task.name)
        return None


def _num_wrong(task: Task, lake: Lake, answer: Answer) -> int:
    """Return how many containers, or rows, are wrong in an answer."""
    return {
        "may": len(lake.some - answer.containers),
        "whole": len(answer.containers - lake.every),
        "rows": abs(lake.matches - answer.rows),
    }[task.asks]


def _row(
    task: Task, lake: Lake, c: Contestant, answer: Answer, t: Timing, own: Timing
) -> dict[str, Any]:
    kept = answer.read if task.asks == "rows" else len(answer.containers)
    wrong = _num_wrong(task, lake, answer)
    return {
        "": f"{task.name}: {c.engine}, {c.what}",
        "ms": t.median * 1e3,
        "10 % to 90 %": f"{t.quantile(0.1) * 1e3:.2f} to {t.quantile(0.9) * 1e3:.2f}",
        "kept": "unknown" if kept is None else f"{kept:,}",
        "answer": f"{'wrong' if task.asks == 'whole' else 'loses rows'} ({wrong:,})"
        if wrong
        else "right",
        "times Skipstone": t.times(own),
    }
