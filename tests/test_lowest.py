"""The lowest versions in pyproject.toml are those that `make lowest` installs.

Nothing calls what needs pandas with them.
"""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LINES = (ROOT / "constraints-lowest.txt").read_text().splitlines()
TESTED = dict(line.split("==") for line in LINES if not line.startswith("#"))
CLAIMED = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["cli"]]


def version(text):
    """Return a version without zeros at its end: 19.0.0 is 19."""
    return re.sub(r"(\.0)+$", "", text)


@pytest.mark.parametrize("claim", CLAIMED)
def test_the_lowest_version_is_tested(claim):
    name, lowest = claim.split(">=")
    assert version(TESTED[name]) == version(lowest)


def test_nothing_else_is_held_down():
    assert sorted(TESTED) == sorted(claim.split(">=")[0] for claim in CLAIMED)


def test_nothing_needs_pandas_for_the_type_of_an_array():
    """`to_pandas_dtype` needs pandas before pyarrow 26."""
    files = [p for floor in ("ir", "kernels", "bindings") for p in (ROOT / floor).rglob("*.py")]
    assert [str(p) for p in files if re.search(r"\.to_pandas_dtype\(", p.read_text())] == []
