"""Shared by all tests: Hypothesis profiles, and the backends that this machine has."""

import gc
import os

import hypothesis
import pytest

from skipstone.ir import spec
from skipstone.ir.errors import BackendMissing
from skipstone.ir.node import Node, Op
from skipstone.kernels.run.launch import Launch
from skipstone.kernels.run.run import BACKENDS, choose
from skipstone.kernels.settings import in_code
from tests.support.cuda import emulated as on_gxx
from tests.support.cuda import interpreted as on_ptx
from tests.support.cuda.emulated import device  # noqa: F401
from tests.support.cuda.interpreted import interpreted  # noqa: F401
from tests.support.cuda.where import where  # noqa: F401
from tests.support.spark.session import connect, spark  # noqa: F401
from tests.support.spark.takers import scope_of
from tests.support.statistics.levels import eager  # noqa: F401

spec.checks_programs = True
hypothesis.settings.register_profile(
    "ci",
    max_examples=200,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
hypothesis.settings.register_profile(
    "fuzz", parent=hypothesis.settings.get_profile("ci"), max_examples=5000, derandomize=False
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def missing(name: str) -> str | None:
    """Return why a backend cannot run here."""
    try:
        choose(Launch(1, roots=(Node(Op.PLANE),)), name, 1)
    except BackendMissing as e:
        return str(e)
    return None


MISSING = {name: why for name in BACKENDS if name != "auto" and (why := missing(name))}


@pytest.fixture(autouse=True)
def settings():
    """Give each test the settings of the environment, and take back what it sets in code."""
    before = dict(in_code)
    in_code.clear()
    yield
    in_code.clear()
    in_code.update(before)


@pytest.fixture(params=[name for name in BACKENDS if name != "auto" and name not in MISSING])
def backend(request):
    """Return the name of each backend that this machine has, in turn."""
    return request.param


def pytest_collection_modifyitems(items):
    """Begin with the tests of whole programs, the longest ones, so that workers end together."""
    items.sort(key=lambda item: item.path.parent.name != "tests")


def pytest_collection_finish(session):
    """Keep 13,000 collected tests out of garbage collection: that takes a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def pytest_unconfigure(config):
    gc.unfreeze()  # libraries report what they find alive at the end


def pytest_terminal_summary(terminalreporter):
    for name, why in MISSING.items():
        terminalreporter.write_line(
            f"not tested: {why if name in why else f'backend {name!r}: {why}'}"
        )
    for what, why in (
        ("kernels as g++ compiles them", on_gxx.MISSING),
        ("kernels as NVRTC compiles them", on_ptx.MISSING),
    ):
        if why:
            terminalreporter.write_line(f"not tested: {what}: {why}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Let one worker run all tests of Spark, so that one Java serves them; others share the rest.

    Files that mark their tests as `xdist_group` go to one worker as well.

    pytest-xdist 3.8 has groups of its own (`--dist loadgroup`), which do nothing under pytest 9.2.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return scope_of(nodeid)

        def mark_test_complete(self, node, item_index, duration=0):
            super().mark_test_complete(node, item_index, duration)
            # After each test, all scopes of its worker are counted: thousands, if those remain.
            work = self.assigned_work[node]
            scope = self._split_scope(self.registered_collections[node][item_index])
            if all(work[scope].values()):
                del work[scope]

    return Scheduling(config, log)
