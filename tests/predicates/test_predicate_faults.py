"""Test answers of predicates that planted faults changed (`python -m tests.mutation`)."""

import pickle

import pyarrow as pa

import skipstone as ss

SCHEMA = pa.schema([("x", pa.int64()), ("X", pa.int64()), ("s", pa.string())])
SETTINGS = {"timezone": "Asia/Tokyo", "ansi": False, "case_sensitive": True}


def test_parts_and_copies_keep_the_settings():
    p = ss.PruningPredicate("x = 1 AND X = 2", SCHEMA, **SETTINGS)
    part, other = p.node.args
    copies = {
        "pickle": pickle.loads(pickle.dumps(p)),
        "part": p.part(part),
        "over": p.over(other, pa.schema([("X", pa.int64())])),
    }
    assert copies["pickle"] == p
    assert copies["part"] == ss.PruningPredicate("x = 1", SCHEMA, **SETTINGS)
    assert copies["over"].columns == ("X",)
    for name, copy in copies.items():
        assert copy.settings == SETTINGS, name


def test_a_condition_that_nothing_passes_has_no_guarantees():
    assert ss.PruningPredicate("x = 1 AND x = 2", SCHEMA, **SETTINGS).literal_guarantees == ()


def test_backends_that_answered():
    p = ss.PruningPredicate("x = 1", SCHEMA, **SETTINGS)
    assert p.backends_text == "none has answered yet"
    stats = ss.Statistics.from_dict({"x": {"min": [1, 2], "max": [1, 3]}}, SCHEMA)
    for _ in range(2):
        p.prune(stats, "numpy")
    assert p.backends_text == "numpy 2 times"
