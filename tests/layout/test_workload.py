"""Workloads: the conditions that queries have for one table; nothing is dropped in silence."""

import pathlib

import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.bindings.layout.workload import workload_of
from skipstone.bindings.layout.workload_sql import read_workload, split_workload

COLUMNS = ["x", "y", "s", "p"]

# text, parts
SPLIT = [
    ("x = 1\n\n  y = 2  \n", ["x = 1", "y = 2"]),
    ("x = 1 -- why\n-- nothing\n/* a\nb */y = 2", ["x = 1", "y = 2"]),
    ("s = '-- no; comment' AND x = 1", ["s = '-- no; comment' AND x = 1"]),
    ("x = 1;\ny = 2\n  OR y = 3;", ["x = 1", "y = 2\n  OR y = 3"]),
    ("x = 1\ny = 2;\ns = 'a'\n", ["x = 1", "y = 2", "s = 'a'"]),
    (
        "x = 1\n  AND y = 2\nx IN (1,\n2)\ny = 2 OR\nx = 3\nNOT x = 1",
        ["x = 1\n  AND y = 2", "x IN (1,\n2)", "y = 2 OR\nx = 3", "NOT x = 1"],
    ),
    ("x NOT\nIN (1)\ns = 'a('\ns = 'b'", ["x NOT\nIN (1)", "s = 'a('", "s = 'b'"]),
    ('s = "it\'s"\ny = 2', ['s = "it\'s"', "y = 2"]),
    ("s = 'a\nb'\ny = 2", ["s = 'a\nb'", "y = 2"]),
    ("x = 1; SELECT *\nFROM t\nWHERE y = 1\n", ["x = 1", "SELECT *\nFROM t\nWHERE y = 1"]),
    ("SELECT *\nFROM t\nWHERE x = 1", ["SELECT *\nFROM t\nWHERE x = 1"]),
    ("s = 'it''s; so'", ["s = 'it''s; so'"]),
    ("", []),
    (" ; ;", []),
]


@pytest.mark.parametrize(("text", "parts"), SPLIT)
def test_split(text, parts):
    assert split_workload(text) == parts


# query, conditions on a table with COLUMNS
QUERIES = [
    ("SELECT x FROM t WHERE x = 1 AND y > 2", ["(x = 1) AND (y > 2)"]),
    ("SELECT x FROM t WHERE x = 1 OR y > 2", ["x = 1 OR y > 2"]),
    ("select a.x from lake.t a where a.x = 1", ["x = 1"]),
    ("SELECT * FROM t JOIN u ON t.x = u.k AND t.y < 3 WHERE u.z = 5", ["y < 3"]),
    ("SELECT * FROM t LEFT JOIN u ON t.x = u.k AND t.y < 3 WHERE t.s = 'a'", ["s = 'a'"]),
    ("SELECT * FROM t, u WHERE x = k AND x = 1 AND z = 2", ["x = 1"]),
    ("WITH w AS (SELECT * FROM t WHERE x = 1) SELECT * FROM w WHERE y = 2", ["x = 1"]),
    (
        "SELECT * FROM t WHERE x = 1 UNION ALL SELECT * FROM t WHERE x = 2",
        ["x = 1", "x = 2"],
    ),
    ("SELECT * FROM u WHERE k IN (SELECT x FROM t WHERE y = 1)", ["y = 1"]),
    ("SELECT t.x FROM t WHERE t.s.f = 1 AND p > 2", ["(s.f = 1) AND (p > 2)"]),
]  # fmt: skip


@pytest.mark.parametrize(("query", "conditions"), QUERIES)
def test_conditions_of_queries(query, conditions):
    read = read_workload(query, COLUMNS)
    assert (sorted(read.conditions), read.unread) == (sorted(conditions), [])


# query, name, a word of the reason
UNREAD = [
    ("SELECT FROM WHERE", None, "cannot be read"),
    ("SELECT a FROM u WHERE b = 1", None, "no SELECT"),
    ("SELECT x FROM u WHERE x = 1", "t", "table t"),
    ("SELECT * FROM t WHERE x = (SELECT max(x) FROM t)", None, "subquery"),
    ("SELECT * FROM a, b WHERE a.x = 1 AND b.y = 2", None, "which of a, b"),
    ("SELECT * FROM t WHERE CAST(y AS FLOAT(similar)) > 1", None, "cannot be written as SQL"),
]


@pytest.mark.parametrize(("query", "name", "why"), UNREAD)
def test_what_cannot_be_used_is_listed(query, name, why):
    read = read_workload(query, COLUMNS, name)
    assert not read.conditions
    assert any(why in u.why for u in read.unread)


def test_a_name_or_a_folder_says_which_table():
    query = "SELECT * FROM a, b WHERE a.x = 1 AND b.y = 2"
    assert read_workload(query, COLUMNS, "b").conditions == ["y = 2"]
    assert read_workload(query, COLUMNS, folder="a").conditions == ["x = 1"]
    assert read_workload("SELECT k FROM t", COLUMNS, "t").full_reads == ["SELECT k FROM t"]


SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.int64()), ("s", pa.string())])


def test_repeated_conditions_have_weight():
    found = workload_of("x = 1\nx  =  1\nSELECT * FROM t\nWHERE x = 1;", SCHEMA)
    assert [(q.text, q.weight) for q in found.queries] == [("x = 1", 2)]
    assert [u.text for u in found.unread] == ["SELECT * FROM t", "WHERE x = 1"]
    found = workload_of("x = 1\nx  =  1;\nSELECT * FROM t\nWHERE x = 1", SCHEMA)
    assert [(q.text, q.weight) for q in found.queries] == [("x = 1", 3)]
    found = workload_of(["x = 1", "x  =  1", "SELECT * FROM t WHERE x = 1", "y > 5"], SCHEMA)
    assert [(q.text, q.weight) for q in found.queries] == [("x = 1", 3), ("y > 5", 1)]
    assert found.weight == 4
    assert found.paths == (("x",), ("y",))


def test_conditions_of_other_forms():
    found = workload_of([ss.col("x") > 3, ss.PruningPredicate("y = 1", SCHEMA)], SCHEMA)
    assert [q.predicate.expr for q in found.queries] == ["x > 3", "y = 1"]


def test_conditions_that_do_not_fit_are_listed():
    found = workload_of(["nosuch = 1", "x = = 2", "x = 2"], SCHEMA)
    assert [q.text for q in found.queries] == ["x = 2"]
    assert [u.text for u in found.unread] == ["nosuch = 1", "x = = 2"]
    with pytest.raises(ss.PredicateError, match="workload is int"):
        workload_of(5, SCHEMA)


@pytest.mark.parametrize("path", ["lake/queries.sql", pathlib.Path("lake/queries.sql")])
def test_a_path_is_no_workload(path):
    """A text is a workload, so the file's text is wanted."""
    message = r"is the path 'lake/queries.sql'; expected its text: .*\.read_text\(\)"
    with pytest.raises(ss.PredicateError, match=message):
        workload_of(path, SCHEMA)
    assert [u.text for u in workload_of("x = q.sql", SCHEMA).unread] == ["x = q.sql"]
