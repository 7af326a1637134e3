"""Run tests; record which lines of a module each reaches, and choose tests by that."""

from __future__ import annotations

import itertools
import sys
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from types import FrameType, ModuleType
from typing import Any

import pytest

from tests.mutation.mutants import Mutant


def forget(module: ModuleType) -> None:
    """Empty the caches of a module's functions."""
    for value in vars(module).values():
        getattr(value, "cache_clear", int)()


@dataclass(eq=False)
class Recorder:
    """A plugin: which lines of a module each test reaches, and how long it takes."""

    module: ModuleType
    path: str
    reached: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    seconds: dict[str, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    now: set[int] = field(default_factory=set)

    def _call(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self._line if frame.f_code.co_filename == self.path else None

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        self.now.add(frame.f_lineno)
        return self._line

    def _traced(self, key: str) -> Any:
        self.now = self.reached[key]
        forget(self.module)  # or only the first test would reach what is cached
        sys.settrace(self._call)
        threading.settrace(self._call)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: Any) -> Any:
        # A fixture may serve all tests of its file.
        return (yield from self._traced(item.nodeid.partition("::")[0]))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: Any) -> Any:
        return (yield from self._traced(item.nodeid))

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" and report.passed:
            self.seconds[report.nodeid] = report.duration
        elif report.failed:
            self.failed.append(report.nodeid)

    def record(self) -> dict[str, Any]:
        """Return what was found, for JSON."""
        good = {n: s for n, s in self.seconds.items() if n not in self.failed}
        reached = {k: sorted(v) for k, v in self.reached.items()}
        return {"seconds": good, "failed": self.failed, "reached": reached}


class Failures:
    """A plugin: whether a test failed; prints which, and why."""

    any = False

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.any |= report.failed
        if report.failed:
            print(f"\n{report.nodeid}, {report.when}\n{report.longreprtext}", flush=True)


def run_tests(items: list[Any], first: bool = True) -> bool:
    """Run some tests, or until the first fails, and return whether all passed."""
    if not items:
        return True
    failures = Failures()
    items[0].config.pluginmanager.register(failures)
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if failures.any and first:
            items[0].session._setupstate.teardown_exact(None)
            break
    return not failures.any


def reaching(mutant: Mutant, record: dict[str, Any]) -> dict[str, float]:
    """The tests that reach the changed statement, and their seconds."""
    first, last = mutant.lines
    hit = {k for k, lines in record["reached"].items() if any(first <= at <= last for at in lines)}
    seconds = record["seconds"]
    return {n: s for n, s in seconds.items() if n in hit or n.partition("::")[0] in hit}


def within(tests: dict[str, float], seconds: float) -> dict[str, float]:
    """The fastest tests that together take no longer than that."""
    fastest = sorted(tests, key=lambda n: tests[n])
    ends = itertools.accumulate(tests[n] for n in fastest)
    return {n: tests[n] for n, end in zip(fastest, ends, strict=True) if end <= seconds} or {
        n: tests[n] for n in fastest[:3]
    }
