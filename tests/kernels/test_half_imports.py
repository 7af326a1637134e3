"""Test packages whose first import Ctrl-C stopped half-way, by us, by pyarrow or by the program."""

import os
import subprocess
import sys

import pytest

INTERRUPTED = """
import importlib, sys, _imp
import skipstone as ss, pyarrow as pa

class CtrlC:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == {at!r}:
            sys.meta_path.remove(CtrlC)
            raise KeyboardInterrupt

sys.meta_path.insert(0, CtrlC)
package = {at!r}.partition(".")[0]
try:
    importlib.import_module(package)
except KeyboardInterrupt:
    print("interrupted", package in sys.modules)
{use}
print(_imp.lock_held())
"""
USES = {
    "pandas": """
pd = importlib.import_module('pandas')
print(pa.array([pd.NaT], from_pandas=True).null_count)
""",
    "polars": """
pl = importlib.import_module('polars')
print(pl.DataFrame({'a': [1, None]}).filter(pl.col('a').is_null()).height)
""",
}
# What ran before each of these modules leaves C modules behind, or modules that know each other.
MODULES = [
    "pandas._libs.tslibs.np_datetime",
    "pandas._libs.lib",
    "pandas.core.api",
    "pandas._libs.parsers",
    "pandas.io.json",
    "polars._reexport",
    "polars.series",
    "polars.dataframe.frame",
    "polars.io",
]


@pytest.mark.parametrize("at", MODULES)
def test_the_next_import_starts_afresh(at):
    use = USES[at.partition(".")[0]]
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(at=at, use=use)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout.split(), done.stderr) == (["interrupted", "False", "1", "False"], "")


REGISTERING = """
import signal, os
from numba.core.typing.templates import RegistryLoader
whole = RegistryLoader.new_registrations

def interrupted(self, name):
    for i, one in enumerate(found := list(whole(self, name))):
        if i == 3 and name == "attributes" and len(found) > 10 and not sent:
            sent.append(1)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)
        yield one

import time, skipstone as ss, numpy as np, pyarrow as pa
schema, sent = pa.schema([("x", pa.int64()), ("y", pa.int64())]), []
low = np.arange(1000)
stats = ss.Statistics.from_dict({"x": {"min": low}, "y": {"min": low}}, schema)
p = ss.PruningPredicate("x < 500 AND y <> 3", schema)
signal.signal(signal.SIGINT, signal.default_int_handler)
RegistryLoader.new_registrations = interrupted
try:
    p.prune(stats, "numba")
except KeyboardInterrupt:
    print("interrupted")
print(p.prune(stats, "numba").sum())
"""


def test_ctrl_c_while_numba_registers_its_functions(tmp_path):
    """Numba registers each function once; those that Ctrl-C left out were missing from then on."""
    env = {**os.environ, "SKIPSTONE_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", REGISTERING], env=env, capture_output=True, text=True, timeout=120
    )
    assert (done.stdout.split(), done.stderr) == (["interrupted", "500"], "")
