"""A few mutants of each kind of file in a process of their own (`make fuzz` tries 20,000), and what the fuzzers found."""

import random

import pytest

from tests.fuzz import files
from tests.support.effort import LONG
from tests.support.mutants import damaged, damaged_json, dumped

CASES = 2000 if LONG else 30


@pytest.mark.parametrize("kind", files.KINDS)
def test_mutants_are_answered_or_refused(kind):
    told = []
    seen = files.run(kind, range(CASES), lambda *what, **_: told.append(what))
    assert set(seen) <= {files.ANSWERED, files.REFUSED}, told
    assert seen[files.REFUSED] and seen[files.ANSWERED]


def test_a_seed_makes_one_mutant():
    for seed in range(50):
        value = {"a": [1, {"b": "c"}], "d": None}
        one, two = (random.Random(seed) for _ in range(2))
        assert damaged(b"abc" * 50, one) == damaged(b"abc" * 50, two)
        assert dumped(damaged_json(value, one)) == dumped(damaged_json(value, two))
        assert value == {"a": [1, {"b": "c"}], "d": None}


#    kind, seed: what each was before it was mended
FOUND = [
    ("footers", 551),  # pyarrow ended the process over counts of levels in `_metadata`
    ("manifests", 7175),  # TypeError: a type of the schema that is a list
    ("logs", 13),  # AttributeError: `add` of a checkpoint is no structure
    ("stores", 83),  # KeyError: the note of a kept log without fields
]


@pytest.mark.parametrize("kind, seed", FOUND)
def test_what_was_found(kind, seed):
    told = []
    seen = files.run(kind, [seed], lambda *what, **_: told.append(what))
    assert set(seen) <= {files.ANSWERED, files.REFUSED}, told
