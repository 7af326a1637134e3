"""The lowest versions in pyproject.toml are those that `make lowest` installs.

Nothing calls what needs pandas with them.
"""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TESTED = [
    Requirement(line)
    for line in (ROOT / "constraints-lowest.txt").read_text().splitlines()
    if not line.startswith("#")
]
CLAIMED = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["cli"]]


def lowest(requirement, operator):
    """Return the version behind an operator of a requirement."""
    (found,) = [Version(s.version) for s in requirement.specifier if s.operator == operator]
    return found


@pytest.mark.parametrize("claim", CLAIMED)
def test_the_lowest_version_is_tested(claim):
    """The oldest Python tests the very version; a newer one may need a later version."""
    claimed = Requirement(claim)
    tested = [r for r in TESTED if r.name == claimed.name]
    assert min(lowest(r, "==") for r in tested) == lowest(claimed, ">=")


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
def test_each_is_held_down_once_and_nothing_else(python):
    held = [r.name for r in TESTED if not r.marker or r.marker.evaluate({"python_version": python})]
    assert sorted(held) == sorted(Requirement(claim).name for claim in CLAIMED)


def test_nothing_needs_pandas_for_the_type_of_an_array():
    """`to_pandas_dtype` needs pandas before pyarrow 26."""
    files = [p for floor in ("ir", "kernels", "bindings") for p in (ROOT / floor).rglob("*.py")]
    assert [str(p) for p in files if re.search(r"\.to_pandas_dtype\(", p.read_text())] == []
