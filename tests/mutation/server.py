"""Plant small faults in modules of Python and run their tests: faults that no test notices are listed.

    python -m tests.mutation                     all targets, a sample of each
    python -m tests.mutation plan sql --count 80 --seed 3
    python -m tests.mutation plan --name "Plan.count: "    those whose name begins so

The tests of a module are imported and collected once. Each mutant has a child process, forked from there, whose functions
get the changed code. It runs the tests that reach the changed statement, the fastest first, until one fails. Which reach it
is recorded once per version of code and tests.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import itertools
import json
import math
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, Final

import pytest

from tests.support.code_mutants import Mutant, mutants
from tests.support.mutation_equivalent import EQUIVALENT

ROOT: Final = Path(__file__).parent.parent
RECORDS: Final = ROOT / "build" / "mutation"
# Hypothesis is imported before pytest starts, so that children need not.
OPTIONS: Final = (
    "-q",
    "-s",
    "-p",
    "no:cacheprovider",
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
)


@dataclass(frozen=True)
class Target:
    """A module, how many of its faults are planted, and the tests that cover it."""

    module: str
    count: int
    tests: tuple[str, ...]
    spark: bool = False

    @property
    def path(self) -> Path:
        """The module's file, as Python names it in frames."""
        return ROOT / "src" / Path(*self.module.split(".")).with_suffix(".py")


def _of(*names: str) -> tuple[str, ...]:
    """Return the paths of test files, wherever they lie below `tests`."""
    found = {path.stem: path for path in (ROOT / "tests").rglob("test_*.py")}
    return tuple(found[f"test_{name}"].relative_to(ROOT).as_posix() for name in names)


TARGETS: Final = {
    "plan": Target(
        "skipstone.bindings.plans.plan",
        70,
        (*_of("plan_faults", "parquet", "order", "dynamic_plans", "dynamic_splits", "delta_plan", "work", "hive"), "bindings/plans/plan.py"),
    ),
    "sql": Target(
        "skipstone.bindings.predicates.sql",
        70,
        (*_of("sql_faults", "sql", "inputs", "bind", "like", "peer_bugs"), "bindings/predicates/sql.py"),
    ),
    "predicate": Target(
        "skipstone.bindings.predicates.predicate",
        50,
        (*_of("statistics", "inputs", "many", "device_errors", "sql"), "bindings/predicates/predicate.py"),
    ),
    "enumerator": Target(
        "skipstone.bindings.plans.enumerator",
        60,
        (*_of("plan_faults", "dynamic_splits", "dynamic_conformance", "order"), "bindings/plans/enumerator.py"),
    ),
    "prune": Target(
        "skipstone.bindings.spark.pruning.prune",
        40,
        _of(
            "spark_prune", "spark_prune_columns", "spark_prune_connect", "spark_prune_queries",
            "spark_prune_predicates", "spark_star", "spark_star_document",
        ),
        spark=True,
    ),
}  # fmt: skip


def functions(space: dict[str, Any], module: str, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """All functions that a module or a class defines, by qualified name, without what is wrapped around them."""
    for name, value in space.items():
        at = f"{prefix}{name}"
        if isinstance(value, type) and value.__module__ == module:
            yield from functions(dict(vars(value)), module, f"{at}.")
            continue
        for inner in ("fget", "func", "__func__", "__wrapped__"):
            value = getattr(value, inner, value)
        if isinstance(value, FunctionType) and value.__module__ == module:
            yield at, value


def transplant(module: ModuleType, code: CodeType) -> None:
    """Give a module's functions and constants the code and values of a changed version, whoever holds them already."""
    space = {"__name__": module.__name__, "__file__": module.__file__}
    exec(code, space)
    old = dict(functions(vars(module), module.__name__))
    for name, new in functions(space, module.__name__):
        if name in old and old[name].__code__.co_filename == new.__code__.co_filename:
            old[name].__code__ = new.__code__
            old[name].__defaults__, old[name].__kwdefaults__ = new.__defaults__, new.__kwdefaults__
    for name, value in space.items():
        if isinstance(value, int | str | tuple | frozenset | dict) and not name.startswith("__"):
            setattr(module, name, value)
    for value in vars(module).values():
        getattr(value, "cache_clear", int)()


@dataclass(eq=False)
class Recorder:
    """A plugin: which lines of a file each test reaches, and how long it takes."""

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
        """What was found, for JSON."""
        good = {n: s for n, s in self.seconds.items() if n not in self.failed}
        reached = {k: sorted(v) for k, v in self.reached.items()}
        return {"seconds": good, "failed": self.failed, "reached": reached}


def fork(work: Callable[[], int], log: Path) -> int:
    """Run some work in a child process and return its number."""
    child = os.fork()
    if child:
        return child
    code = 99
    try:
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.setpgid(0, 0)
        code = int(work())
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def tests_of(target: Target) -> list[str]:
    """The files of a target's tests that are there."""
    return [t for t in target.tests if (ROOT / t).exists()]


@dataclass(eq=False)
class Server:
    """A plugin: runs nothing of what was collected, but forks children that do."""

    name: str
    target: Target
    chosen: list[Mutant]
    jobs: int
    seconds: float
    found: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        import hypothesis

        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)  # what failed is not shrunk
        hypothesis.settings.register_profile("mutants", hypothesis.settings(), phases=phases)
        hypothesis.settings.load_profile("mutants")
        importlib.import_module(self.target.module)
        warm(self.target.spark)
        self.found = run(self, {i.nodeid: i for i in session.items}, self.recorded(session))
        return True

    def recorded(self, session: pytest.Session) -> dict[str, Any]:
        """Which tests reach which lines: as found before, or by running all of them once."""
        digest = hashlib.sha256(self.target.path.read_bytes())
        for test in tests_of(self.target):
            digest.update((ROOT / test).read_bytes())
        kept = RECORDS / f"{self.name}-{digest.hexdigest()[:16]}.json"
        if not kept.exists():

            def work() -> int:
                recorder = Recorder(str(self.target.path))
                session.config.pluginmanager.register(recorder)
                run_tests(session.items, first=False)
                kept.write_text(json.dumps(recorder.record()))
                return 0

            os.waitpid(fork(work, kept.with_suffix(".log")), 0)
        found: dict[str, Any] = json.loads(kept.read_text())
        passed, failed = len(found["seconds"]), len(found["failed"])
        print(f"{self.name}: {passed} tests pass, {failed} fail", flush=True)
        return found


class Failures:
    """A plugin: whether a test failed."""

    any = False

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.any |= report.failed


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


def on_import(mutant: Mutant) -> bool:
    """Return True if the change lies outside of all functions: it is reached when the module is imported."""
    import ast

    lines = [
        range(n.body[0].lineno, (n.end_lineno or n.lineno) + 1)
        for n in ast.walk(ast.parse(mutant.source))
        if isinstance(n, ast.FunctionDef)
    ]
    return not any(mutant.lines[0] in body for body in lines)


def plant(target: Target, mutant: Mutant, tests: list[Any], log: Path) -> int:
    """Start a child that runs some tests with a fault."""

    def work() -> int:
        code = compile(mutant.tree(), str(target.path), "exec")
        transplant(importlib.import_module(target.module), code)
        return 0 if run_tests(tests) else 1

    return fork(work, log)


def warm(spark: bool) -> None:
    """Start the Java that children share."""
    if spark:
        from pyspark import SparkConf, SparkContext

        conf = SparkConf().set("spark.driver.memory", "1g")
        conf.set("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        SparkContext._ensure_initialized(conf=conf)


def within(tests: dict[str, float], seconds: float) -> dict[str, float]:
    """The fastest tests that together take no longer than that."""
    fastest = sorted(tests, key=lambda n: tests[n])
    ends = itertools.accumulate(tests[n] for n in fastest)
    return {n: tests[n] for n, end in zip(fastest, ends, strict=True) if end <= seconds} or {
        n: tests[n] for n in fastest[:3]
    }


def run(server: Server, items: dict[str, Any], record: dict[str, Any]) -> dict[str, list[str]]:
    """Plant faults in one module and return their names by what came of them."""
    name, target = server.name, server.target
    out: dict[str, list[str]] = defaultdict(list)
    running: dict[int, tuple[Mutant, float, Path, int]] = {}
    logs = RECORDS / name
    logs.mkdir(parents=True, exist_ok=True)

    def ended(mutant: Mutant, what: str, told: str = "") -> None:
        out[what].append(mutant.name)
        if what != "killed":
            print(f"  {what}: {mutant.name} (line {mutant.lines[0]}){told}", flush=True)

    def wait() -> None:
        while True:
            for child, (mutant, deadline, log, many) in list(running.items()):
                done, status = os.waitpid(child, os.WNOHANG)
                if not done and time.monotonic() < deadline:
                    continue
                if not done:
                    os.killpg(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                del running[child]
                code = os.waitstatus_to_exitcode(status) if done else None
                if code == 0:
                    ended(mutant, "survived", f", {many} tests")
                elif code != 1 and done:
                    ended(mutant, "broken", f": see {log.name}")
                else:
                    ended(mutant, "killed" if done else "endless")
                return
            time.sleep(0.02)

    tests = [items[n] for n in within(record["seconds"], server.seconds) if n in items]
    unchanged = Mutant("nothing", (0, 0), target.path.read_text(), (), lambda n: n)
    _, status = os.waitpid(plant(target, unchanged, tests, logs / "unchanged.log"), 0)
    if status:
        raise SystemExit(f"{name}: tests fail without a fault: see {logs / 'unchanged.log'}")
    for i, mutant in enumerate(server.chosen):
        try:
            compile(mutant.tree(), "", "exec")
        except SyntaxError:
            ended(mutant, "no Python")
            continue
        if mutant.name in EQUIVALENT.get(name, {}):
            ended(mutant, "equivalent", f": {EQUIVALENT[name][mutant.name]}")
            continue
        tests = record["seconds"] if on_import(mutant) else reaching(mutant, record)
        if not tests:
            ended(mutant, "not reached")
            continue
        tests = within(tests, server.seconds)
        if len(running) >= server.jobs:
            wait()
        log = logs / f"{i}.log"
        limit = 60 + 5 * sum(tests.values())
        child = plant(target, mutant, [items[n] for n in tests if n in items], log)
        running[child] = (mutant, time.monotonic() + limit, log, len(tests))
    while running:
        wait()
    return out


def sampled(target: Target, count: int | None, seed: int, name: str | None) -> list[Mutant]:
    """The faults to plant, in the order of the text."""
    every = mutants(target.path.read_text())
    if name is not None:
        return [m for m in every if m.name.startswith(name)]
    count = min(target.count if count is None else count, len(every))
    at = random.Random(seed).sample(range(len(every)), count)
    return [every[i] for i in sorted(at)]


def main(argv: Iterable[str] | None = None) -> int:
    """Run as told; 1: some fault was not noticed."""
    parser = argparse.ArgumentParser(description="Plant faults in modules and run their tests.")
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(TARGETS)}; all by default")
    parser.add_argument("--count", type=int, help="faults for each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--name", help="the faults whose name begins so, instead of a sample")
    parser.add_argument("--seconds", type=float, default=math.inf, help="of tests for each fault")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(argv)
    os.chdir(ROOT)
    missed = 0
    for name in options.targets or TARGETS:
        target, start = TARGETS[name], time.monotonic()
        chosen = sampled(target, options.count, options.seed, options.name)
        jobs = 1 if target.spark else options.jobs
        server = Server(name, target, chosen, jobs, options.seconds)
        pytest.main([*tests_of(target), *OPTIONS], [server])
        found = server.found
        counts = ", ".join(f"{len(found[k])} {k}" for k in sorted(found))
        print(f"{name}: {len(chosen)} planted: {counts}; {time.monotonic() - start:.0f} s")
        missed += sum(len(found[k]) for k in ("survived", "not reached", "broken"))
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
