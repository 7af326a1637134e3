"""`rows`: from paths to rows in Arrow, compared with engines that read Parquet, Delta and Iceberg.

Each engine opens a lake by path and returns the rows of each question. They are compared with those
of the original file before anything is timed. `--only` chooses lakes, questions, engines and parts:
`python -m bench rows --only one day Skipstone warm`.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from bench.report.measure import YARDSTICK, Timing
from bench.report.report import OWN, Options, Report
from bench.rows import fresh
from bench.rows.compete import Rows, compete, fastest, matching
from bench.rows.data import FOLDER, Data, Layout, layouts
from bench.rows.engines import ABSENT, AGAIN, CONTESTANTS, NO_PLANNER, has_planner
from bench.rows.questions import Question, questions

FRESH_LAKES: Final = ("one", "sorted")
FRESH_QUESTIONS: Final = ("day", "point", "none")
FRESH_ROUNDS: Final = 3
TINY: Final = 1000  # rows of the lakes that engines see before their bytes are counted
CLOSE, FASTER = 1.1, 1.5
PARTS: Final = ("warm", "bytes", "fresh")  # "warm" is measured in any case: it finds the settings
ENGINES: Final = tuple(dict.fromkeys(c.engine for c in CONTESTANTS if c.engine != AGAIN))


def rows(options: Options) -> Report:
    """From paths to rows of TPC-H lineitem, scale 1, in Parquet, Delta and Iceberg."""
    return measured(Data(FOLDER), layouts(), options)


def measured(data: Data, lakes: Sequence[Layout], options: Options) -> Report:
    """Measure the lakes, questions and engines that `--only` names; by default all."""
    every, only = questions(data.scale), options.only
    names = [x.name for x in lakes]
    known = [*names, *(q.name for q in every), *ENGINES, *PARTS]
    if unknown := set(only) - set(known):
        raise ValueError(f"--only names {min(unknown)!r}; expected any of {', '.join(known)}")
    run = _Run(
        data,
        tuple(q for q in every if q.name in _chosen(only, [q.name for q in every])),
        every,
        _chosen(only, ENGINES),
        _chosen(only, PARTS),
        options.rounds,
        Report(f"TPC-H lineitem at scale {data.scale:g}: ms from paths to rows in Arrow"),
    )
    try:
        expected = {q.name: matching(data, q) for q in run.asked}
    except ImportError as e:
        run.report.leave_out("everything", f"{e.name} is not installed, and it makes the data")
        return run.report
    for layout in lakes:
        if layout.name in _chosen(only, names):
            run.measure(layout, expected)
    run.summarise()
    return run.report


def _chosen(words: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Return the names among the words, or all names if there are none."""
    return tuple(name for name in names if name in words) or tuple(names)


class _Run:
    """One run of the workload, and the ratios to the best other engine that it has found so far."""

    def __init__(
        self,
        data: Data,
        asked: tuple[Question, ...],
        every: tuple[Question, ...],
        engines: tuple[str, ...],
        parts: tuple[str, ...],
        rounds: int | None,
        report: Report,
    ) -> None:
        self.data, self.asked, self.every, self.engines = data, asked, every, engines
        self.parts, self.rounds, self.report = parts, rounds, report
        self.ratios: dict[str, list[float]] = {"warm": [], "again": [], "fresh": []}

    def measure(self, layout: Layout, expected: Mapping[str, Rows]) -> None:
        """Measure all questions on one lake."""
        lake = self.data.lake(layout)
        tiny = self.data.lake(replace(layout, name=f"tiny-{layout.kind}", files=1, rows=TINY))
        asked = {*self.engines, AGAIN} if OWN in self.engines else self.engines
        there = [c for c in CONTESTANTS if c.engine in asked and layout.kind in c.kinds]
        for engine in self.engines:
            if engine in ABSENT and layout.kind != "Parquet":
                self.report.leave_out(engine, ABSENT[engine], layout.name)
        totals: dict[str, list[Timing]] = {}
        for q in self.asked:
            label, right = f"{layout.name}, {q.name}", expected[q.name]
            timings, errors = compete(there, lake, q, right, self.rounds or 5)
            for name, why in errors.items():
                self.report.leave_out(name, why, label)
            best = fastest(there, timings)
            best.pop(AGAIN, None)
            read = {
                c.engine: fresh.read_bytes(c, lake, q, tiny, self.every)
                for c in best.values()
                if "bytes" in self.parts
            }
            found = {engine: timings[c.name] for engine, c in best.items()}
            self._row("warm", label, right.count, found, read, timings.get(AGAIN))
            if OWN in found:
                self.report.time(label, found[OWN], (YARDSTICK, timings[YARDSTICK]), group=label)
            for engine, t in found.items():
                totals.setdefault(engine, []).append(t)
            if "fresh" in self.parts and layout.name in FRESH_LAKES and q.name in FRESH_QUESTIONS:
                again = fresh.interleave(best, lake, q, self.rounds or FRESH_ROUNDS)
                self._row("fresh", f"{label}, fresh", right.count, again, {})
        self._compare(layout.name, totals)

    def _row(
        self,
        kind: str,
        label: str,
        count: int,
        found: Mapping[str, Timing],
        read: Mapping[str, int | None],
        again: Timing | None = None,
    ) -> None:
        """Add a row of the table; `again` is the time of a condition that was judged before."""
        peers = {engine: t for engine, t in found.items() if engine != OWN}
        row: dict[str, Any] = {"": label, "rows": f"{count:,}"}
        row |= {e: found[e].median * 1e3 if e in found else "" for e in self.engines}
        row |= {"best": "", "/best": "", "again": "", "again/best": "", "MB": "", "/least": ""}
        if OWN in found and peers:
            best = min(peers, key=lambda engine: peers[engine].median)
            ratio = found[OWN].times(peers[best])
            self.ratios[kind].append(ratio)
            row |= {"best": best, "/best": ratio}
            if again is not None:
                row |= {"again": again.median * 1e3, "again/best": again.times(peers[best])}
                self.ratios["again"].append(again.times(peers[best]))
        if (own := read.get(OWN)) is not None:
            others = [n for engine, n in read.items() if engine != OWN and n is not None]
            row |= {"MB": own / 1e6, "/least": own / max(min(others), 1) if others else ""}
        self.report.rows.append(row)

    def _compare(self, lake: str, totals: Mapping[str, Sequence[Timing]]) -> None:
        """Report the engines' geometric means over a lake's questions, round by round."""
        means = {
            engine: Timing(
                tuple(map(statistics.geometric_mean, zip(*(t.seconds for t in ts), strict=True)))
            )
            for engine, ts in totals.items()
            if len(ts) == len(self.asked)
        }
        for engine, t in means.items():
            if OWN in means and engine != OWN:
                self.report.time(
                    f"{lake}: {engine}", t, (OWN, means[OWN]), own=means[OWN],
                    engine=engine, group=lake,
                )  # fmt: skip

    def summarise(self) -> None:
        """Add the notes."""
        for kind, ratios in self.ratios.items():
            close, faster = (sum(r <= most for r in ratios) for most in (CLOSE, 1 / FASTER))
            if ratios:
                self.report.notes.append(
                    f"{kind}: {OWN} takes at most {CLOSE} times as long as the best other engine "
                    f"in {close} of {len(ratios)}, and is at least {FASTER} times as fast in "
                    f"{faster}."
                )
        self.report.notes += [
            "/best: Skipstone's time divided by that of the best other engine. Of an engine's "
            "settings, the fastest counts: " + ", ".join(c.name for c in CONTESTANTS if c.setting),
            "MB: what Skipstone reads of a lake that its process has not seen; /least: divided by "
            "the least of the others. Mapped files would not count.",
            "Skipstone judges all rows in each round; again: it asks for a condition that it has "
            "judged before, and takes over which rows matched.",
            "fresh: a Python process from start to end, with its imports. All files are in the "
            "system's cache.",
        ]
        if not has_planner():
            self.report.notes.append(NO_PLANNER)
