"""Test packages whose first import Ctrl-C stopped half-way, by us, by pyarrow or by the program."""

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
    "pandas": "print(pa.array([importlib.import_module('pandas').NaT], from_pandas=True).null_count)",
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
