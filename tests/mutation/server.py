"""Collect the tests of a module once, and fork a child for each of its faults."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import signal
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from tests.mutation.equivalent import EQUIVALENT
from tests.mutation.mutants import Mutant
from tests.mutation.plant import fork, on_import, plant, warm
from tests.mutation.record import Recorder, reaching, run_tests, within
from tests.mutation.targets import ROOT, Target, tests_of

RECORDS: Final = ROOT / "build" / "mutation"


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

        (RECORDS / self.name).mkdir(parents=True, exist_ok=True)
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)  # what failed is not shrunk
        hypothesis.settings.register_profile("mutants", hypothesis.settings(), phases=phases)
        hypothesis.settings.load_profile("mutants")
        warm(self.target.spark)
        self.found = run(self, {i.nodeid: i for i in session.items}, self.recorded(session))
        return True

    def recorded(self, session: pytest.Session) -> dict[str, Any]:
        """Return which tests reach which lines: as saved, or by running all of them once."""
        module = importlib.import_module(self.target.module)
        digest = hashlib.sha256(self.target.path.read_bytes())
        for test in (Path(__file__).parent / "record.py", *tests_of(self.target)):
            digest.update((ROOT / test).read_bytes())
        kept = RECORDS / f"{self.name}-{digest.hexdigest()[:16]}.json"
        if not kept.exists():

            def work() -> int:
                recorder = Recorder(module, str(self.target.path))
                session.config.pluginmanager.register(recorder)
                run_tests(session.items, first=False)
                kept.write_text(json.dumps(recorder.record()))
                return 0

            os.waitpid(fork(work, kept.with_suffix(".log")), 0)
        found: dict[str, Any] = json.loads(kept.read_text())
        passed, failed = len(found["seconds"]), len(found["failed"])
        print(f"{self.name}: {passed} tests pass, {failed} fail", flush=True)
        return found


def run(server: Server, items: dict[str, Any], record: dict[str, Any]) -> dict[str, list[str]]:
    """Plant faults in one module and return their names by what came of them."""
    name, target = server.name, server.target
    out: dict[str, list[str]] = defaultdict(list)
    running: dict[int, tuple[Mutant, float, Path, int]] = {}
    logs = RECORDS / name

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
