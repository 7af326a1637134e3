"""A few mutants of each kind of file in a process of their own, and mutants that were once wrong.

`make fuzz` tries 20,000.
"""

import random

import pytest

from tests.fuzz import files
from tests.support.effort import LONG
from tests.support.tables.mutants import damaged, damaged_json, dumped

CASES = 2000 if LONG else 20

#   kind, seed; the failure before it was fixed
FIXED = [
    ("footers", 551),  # pyarrow ended the process over counts of levels in `_metadata`
    ("manifests", 7175),  # TypeError: a type in the schema was a list
    ("manifests", 205953),  # StopIteration: the default sort order was not among the sort orders
    ("logs", 712382),  # AttributeError: the physical name of a column was a list
    ("logs", 701383),  # an error of two lines: a file's path held a line feed
    ("logs", 13),  # AttributeError: `add` of a checkpoint was not a structure
    ("footers", 113077),  # UnicodeDecodeError: the path of a file in `_metadata` was not UTF-8
    ("vectors", 112703),  # an error of two lines: the vector's text in the log held a line feed
    ("stores", 201391),  # an error of two lines: a column's name held a line feed
    ("stores", 205802),  # KeyError: the table of files in a saved log had no column `path`
    ("stores", 83),  # KeyError: the metadata of a saved log had no fields
]


@pytest.mark.parametrize("kind", files.KINDS)
def test_mutants_are_answered_or_refused(kind):
    seeds = [*(seed for k, seed in FIXED if k == kind), *range(CASES)]
    failures = []
    seen = files.run(kind, seeds, lambda *failure, **_: failures.append(failure))
    assert set(seen) <= {files.ANSWERED, files.REFUSED}, failures
    assert seen[files.REFUSED] and seen[files.ANSWERED]


def test_a_seed_makes_one_mutant():
    for seed in range(50):
        value = {"a": [1, {"b": "c"}], "d": None}
        one, two = (random.Random(seed) for _ in range(2))
        assert damaged(b"abc" * 50, one) == damaged(b"abc" * 50, two)
        assert dumped(damaged_json(value, one)) == dumped(damaged_json(value, two))
        assert value == {"a": [1, {"b": "c"}], "d": None}
