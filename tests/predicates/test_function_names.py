"""A nearly right name of a function is an error; other unknown functions are UNKNOWN."""

import pickle

import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.bindings.predicates import function_names, reference
from skipstone.bindings.predicates.function_names import edits, near_function
from skipstone.ir.node import Name, Node, Op, literal
from skipstone.ir.types import INT32

SCHEMA = pa.schema([("x", pa.int32()), ("s", pa.string()), ("ts", pa.timestamp("us", "UTC"))])

#    text                           the name that is meant
MISSPELT = [
    ("yaer(ts) = 2014",             "year"),
    ("lenght(s) > 3",               "length"),
    ("uper(s) = 'A'",               "upper"),
    ("LOWR(s) = 'a'",               "lower"),
    ("to_data(s) > DATE '2024-01-01'", "to_date"),
    ("coalesc(x, 1) > 3",           "coalesce"),
    ("x > 3 AND (x = 1 OR abbs(x) = 2)", "abs"),
    ("susbtring_idnex(s, 'a', 1) = 'b'", "substring_index"),
    ("isnul(x)",                    "isnull"),
    ("start_with(s, 'a')",          "startswith"),
    ("abs(roundd(x)) = 1",          "round"),
    ("system.bukket(4, x) = 1",     "system.bucket"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "meant"), MISSPELT)
def test_a_misspelt_function_is_an_error_that_names_the_right_one(text, meant):
    with pytest.raises(ss.UnknownFunction, match=rf"Did you mean '{meant}'\?") as e:
        ss.PruningPredicate(text, SCHEMA)
    assert e.value.text == text
    assert isinstance(e.value, ss.PredicateError)


def test_the_error_points_at_the_name():
    with pytest.raises(ss.UnknownFunction) as e:
        ss.PruningPredicate("s = 'yaer(' AND yaer(ts) = 2014", SCHEMA)
    assert e.value.position is not None and e.value.text[e.value.position :].startswith("yaer(")
    assert str(pickle.loads(pickle.dumps(e.value))) == str(e.value)


def test_calls_of_expressions_are_checked_too():
    with pytest.raises(ss.UnknownFunction, match="'upper'"):
        ss.PruningPredicate(ss.call("uper", ss.col("s")) == "A", SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        "soundex(s) = 'A'",  # Spark's, not understood here
        "rand() < 0.5",  # near to round, but Spark's
        "my_upper(s) = 'A'",
        "year2(ts) = 2014",  # a version of a name is another name
        "nope(x) = 1",
        "f(x) = 1",
        "mydb.yaer(ts) = 2014",
        # Other words, which may be functions of a user.
        "lake(s) = 1", "row(x) = 1", "found(x) = 1", "footer(s) = 1", "report(s) = 1",
        "failing(x) = 1", "record(x) = 1",
    ],
)  # fmt: skip
def test_other_functions_may_be_known_elsewhere(text):
    assert ss.PruningPredicate(text, SCHEMA).has_unknown


def test_trees_of_nodes_are_not_checked():
    """Spark's plans come as nodes: their functions exist, whatever they are called."""
    call = Node(Op.CALL, (Node(Op.COLUMN, value=Name(("s",))),), "uper")
    assert ss.PruningPredicate(Node(Op.EQ, (call, literal(1, INT32))), SCHEMA).has_unknown


def test_registered_functions_are_known_and_meant():
    ss.register_function("kelvins", lambda c: c + 273, returns=pa.int64(), monotone="increasing")
    assert not ss.PruningPredicate("kelvins(x) > 3", SCHEMA).has_unknown
    with pytest.raises(ss.UnknownFunction, match="'kelvins'"):
        ss.PruningPredicate("kelvinz(x) > 3", SCHEMA)


@pytest.mark.parametrize(
    ("a", "b", "n"),
    [("year", "year", 0), ("yaer", "year", 1), ("yer", "year", 1), ("", "abc", 3), ("ab", "ba", 1)],
)
def test_edits(a, b, n):
    assert edits(a, b) == edits(b, a) == n


def test_short_names_are_near_to_nothing():
    assert near_function("ab") is None


@pytest.mark.parametrize("example", [e for _, examples, _ in reference.FORMS for e in examples])
def test_no_documented_form_looks_for_near_names(example, monkeypatch):
    """To compare a name with all functions takes longer than all else that a predicate needs."""
    monkeypatch.setattr(function_names, "near_function", lambda name: pytest.fail(name))
    ss.PruningPredicate(example, reference.SCHEMA)
