"""Public objects are values: they can be copied, pickled, compared and printed."""

import copy
import pickle

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skipstone as ss

SCHEMA = pa.schema(
    [
        ("x", pa.int64()),
        ("s", pa.string()),
        ("f", pa.float64()),
        ("a", pa.struct([("b", pa.int32())])),
    ]
)
STATS = {
    "x": {"min": [0, 5], "max": [4, None], "null_count": [0, None]},
    "s": {"min": ["a", "b"], "max": ["b", "c"]},
}
COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda v: pickle.loads(pickle.dumps(v)),
}

PREDICATES = [
    "x = 5 AND s LIKE 'ab%'",
    "x IN (1, 2, NULL) OR NOT (f >= CAST('NaN' AS DOUBLE))",
    "a.b IS NULL AND x + 1 = 2",
    "x <=> 3",
    "TRUE",
]


@pytest.mark.parametrize("way", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("text", PREDICATES)
def test_predicates(text, way):
    p = ss.PruningPredicate(text, SCHEMA, timezone="Europe/Berlin", ansi=False)
    again = way(p)
    stats = ss.Statistics.from_dict(STATS, SCHEMA)
    assert again == p
    assert hash(again) == hash(p)
    assert repr(again) == repr(p)
    assert (again.rewritten, again.literal_guarantees, again.columns) == (
        p.rewritten,
        p.literal_guarantees,
        p.columns,
    )
    assert again.evaluate(stats).tolist() == p.evaluate(stats).tolist()


@pytest.mark.parametrize("way", COPIES.values(), ids=COPIES)
def test_statistics(way):
    stats = ss.Statistics.from_dict(STATS, SCHEMA, row_count=[10, 0])
    p = ss.PruningPredicate("x >= 5 OR s = 'a'", SCHEMA)
    before = p.evaluate(stats).tolist()
    again = way(stats)
    assert p.evaluate(again).tolist() == before == [1, 0]
    assert repr(again) == repr(stats) == "Statistics(2 containers, columns: x, s)"
    assert again.get("x", "max").to_pylist() == [4, None]


@pytest.mark.parametrize("way", COPIES.values(), ids=COPIES)
def test_small_values(way):
    guarantee = ss.PruningPredicate("x = 5", SCHEMA).literal_guarantees[0]
    assert way(guarantee) == guarantee
    assert way(ss.Verdict.MAYBE) is ss.Verdict.MAYBE
    assert way(ss.DataSize(1, 2, None, None)) == ss.DataSize(1, 2, None, None)
    assert repr(way(ss.col("x") > 5)) == "Expr(x > 5)"
    with pytest.raises(ss.UnknownColumn) as raised:
        ss.PruningPredicate("y = 1", SCHEMA)
    assert str(way(raised.value)) == str(raised.value)


def test_equality_is_by_meaning():
    same = ss.PruningPredicate("x > 4", SCHEMA)
    assert (
        same
        == ss.PruningPredicate(ss.col("x") > 4, SCHEMA)
        == ss.PruningPredicate(pc.field("x") > 4, SCHEMA)
    )
    assert same == ss.PruningPredicate("4 < X", SCHEMA)
    assert same != ss.PruningPredicate("x > 5", SCHEMA)
    assert same != ss.PruningPredicate("x > 4", SCHEMA, ansi=False)
    assert same != ss.PruningPredicate("x > 4", pa.schema([("x", pa.int64())]))
    assert same != "x > 4"


def test_repr():
    assert (
        repr(ss.PruningPredicate("NOT x = 5 AND s LIKE 'a_'", SCHEMA))
        == "PruningPredicate(\"x <> 5 AND s LIKE 'a_'\")"
    )
    assert repr(ss.col("a.b").isin([1, None])) == "Expr(a.b IN (1, NULL))"


def test_properties():
    p = ss.PruningPredicate("x = 5 AND s <> 'a' AND (f > 1 OR a.b IN (1, 2))", SCHEMA)
    assert p.columns == ("x", "s", "f", "a.b")
    assert p.literal_columns == ("x", "s")
    assert p.membership_columns == ("x", "s", "a.b")
    assert p.schema is SCHEMA
    assert not p.always_true
    assert [
        ss.PruningPredicate(t, SCHEMA).always_true
        for t in ("TRUE", "soundex(x) = 2", "x IS NULL", "FALSE", "x = 1 OR soundex(x) = 2")
    ] == [
        True,
        True,
        False,
        False,
        True,
    ]
