"""`python -m bench compare OLD NEW`: find what got slower by more than the spread.

Times are compared in units of a reference that both runs measured with them, the read bandwidth
or the yardstick, since machines differ and the load of a shared one varies. Without such a
reference, seconds are compared, and only within one machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bench.report.bandwidth import BANDWIDTH
from bench.report.measure import Spread
from bench.report.report import OWN
from bench.report.show import figure, table

# Two runs of one build differ by up to this much in properties that a process keeps: addresses of
# arrays, hashes, clocks.
TOLERANCE: Final = 0.1
MIN_ROUNDS: Final = 5  # in both runs; fewer have no meaningful spread
BUSY: Final = 1.5  # load per CPU that a run does not reach by itself
SAME: Final = ("processor", "cpus", "threads", "system", "python")


@dataclass(frozen=True)
class Change:
    """One contestant in both runs; figures are in `unit`."""

    workload: str
    name: str
    engine: str
    unit: str
    old: Spread
    new: Spread

    @property
    def times(self) -> float:
        return self.new.median / self.old.median

    @property
    def slower(self) -> bool:
        """True if each median lies beyond 90 % of the other run's rounds and the tolerance."""
        return (
            self.new.median > self.old.q90
            and self.new.q10 > self.old.median
            and self.times > 1 + TOLERANCE
        )

    @property
    def faster(self) -> bool:
        return (
            self.new.median < self.old.q10
            and self.new.q90 < self.old.median
            and self.times < 1 / (1 + TOLERANCE)
        )


@dataclass
class Comparison:
    """The changes between two runs' results, and notes on figures that were not compared."""

    changes: list[Change] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def slower(self) -> list[Change]:
        return [c for c in self.changes if c.slower]

    @property
    def worse(self) -> bool:
        """True if Skipstone got slower; a peer may."""
        return any(c.engine == OWN for c in self.slower)

    def __str__(self) -> str:
        out = []
        for title, chosen in (
            ("slower", self.slower),
            ("faster", [c for c in self.changes if c.faster]),
        ):
            if chosen:
                out.append(
                    f"{title} by more than the spread:\n\n"
                    f"{table([_row(c) for c in sorted(chosen, key=lambda c: -abs(c.times - 1))])}\n"
                )
        slower, faster = len(self.slower), sum(c.faster for c in self.changes)
        same = len(self.changes) - slower - faster
        out.append(
            f"{len(self.changes)} figures compared: {slower} slower, {faster} faster, "
            f"{same} within the spread."
        )
        return "\n".join([*self.notes, *([""] if self.notes else []), *out])


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> Comparison:
    """Compare results with earlier ones, workload by workload."""
    found = Comparison()
    for name in [*new, *(n for n in old if n not in new)]:
        if name not in old or name not in new:
            found.notes.append(f"{name}: only in the {'new' if name in new else 'old'} results")
            continue
        a, b = old[name], new[name]
        found.notes += [f"{name}: {d}" for d in _differences(a["ran"], b["ran"])]
        if a["containers"] != b["containers"]:
            found.notes.append(
                f"{name}: not compared: the old run has {_size(a)}, the new one {_size(b)}"
            )
            continue
        same_machine = all(a["ran"][key] == b["ran"][key] for key in SAME)
        found.changes += _changes(name, a["timings"], b["timings"], same_machine, found.notes)
        found.notes += [f"{name}: no longer met: {text}" for text in _broken(a, b)]
    return found


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    out = [f"{key} was {old[key]}, is {new[key]}" for key in SAME if old[key] != new[key]]
    for ran, which in ((old, "old"), (new, "new")):
        if (ran["load"] or 0) > BUSY * (ran["cpus"] or 1):
            out.append(
                f"the {which} run shared its {ran['cpus']} CPUs with other work: load {ran['load']}"
            )
    before, after = old["versions"], new["versions"]
    return out + [
        f"{package} was {before.get(package)}, is {after.get(package)}"
        for package in sorted(before.keys() | after.keys())
        if before.get(package) != after.get(package)
    ]


def _size(workload: Mapping[str, Any]) -> str:
    n = workload["containers"]
    return "an unknown number of containers" if n is None else f"{n:,} containers"


def _changes(
    workload: str,
    old: Sequence[Mapping[str, Any]],
    new: Sequence[Mapping[str, Any]],
    same_machine: bool,
    notes: list[str],
) -> list[Change]:
    before, after = ({t["name"]: t for t in timings} for timings in (old, new))
    out, without, few = [], [], []
    for name, b in after.items():
        a = before.get(name)
        if a is None or b["engine"] == BANDWIDTH:  # a reference itself
            continue
        if min(a["rounds"], b["rounds"]) < MIN_ROUNDS:
            few.append(name)
            continue
        if "reference" in b and a.get("reference") == b["reference"]:
            key, unit = "to_reference", f"x {b['reference']}"
        elif same_machine and "seconds" in a and "seconds" in b:
            key, unit = "seconds", "seconds"
        else:
            without.append(name)
            continue
        out.append(Change(workload, name, b["engine"], unit, Spread(**a[key]), Spread(**b[key])))
    for names, why in (
        (without, "no common reference"),
        (few, f"fewer than {MIN_ROUNDS} rounds"),
    ):
        if names:
            notes.append(f"{workload}: not compared, {why}: {', '.join(names)}")
    for gone, which in (
        (before.keys() - after.keys(), "old"),
        (after.keys() - before.keys(), "new"),
    ):
        if gone:
            notes.append(f"{workload}: only in the {which} results: {', '.join(sorted(gone))}")
    return out


def _broken(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the texts of requirements that held and now fail.

    Requirements are matched by subject: the rest of a text may name measured values.
    """
    met = {_subject(q) for q in old["requirements"] if q["met"]}
    return [q["text"] for q in new["requirements"] if not q["met"] and _subject(q) in met]


def _subject(requirement: Mapping[str, Any]) -> str:
    text: str = requirement["text"]
    return text.partition(" (")[0].partition(":")[0]


def _row(c: Change) -> dict[str, Any]:
    return {
        "": f"{c.workload}: {c.name}",
        "old": _spread(c.old, c.unit),
        "new": _spread(c.new, c.unit),
        "unit": _unit(c.unit),
        "times": c.times,
    }


def _unit(unit: str) -> str:
    return "ms" if unit == "seconds" else unit


def _spread(s: Spread, unit: str) -> str:
    scale = 1e3 if unit == "seconds" else 1
    median, low, high = (_digits(v * scale) for v in (s.median, s.q10, s.q90))
    return f"{median} ({low} to {high})"


def _digits(value: float) -> str:
    return figure(value) if abs(value) >= 0.1 else f"{value:.2g}"
