"""A condition that cannot prune never passes in silence, and one that can is never warned about."""

import json
import os
import re
import subprocess
import sys
import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.plans.explain.unused import unused_parts
from skipstone.bindings.predicates.sql import parse
from skipstone.bindings.shell.show import plan_json
from skipstone.ir.coercion.nearest import nearest_literal
from skipstone.ir.types import BOOL, DATE, DOUBLE, INT32, STRING, TIMESTAMP


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("t") / "t.parquet"
    day = pa.array(range(100), pa.int32()).cast(pa.date32())
    rows = pa.table({
        "x": pa.array(range(100), pa.int32()),
        "s": [f"a{i:02}" for i in range(100)],
        "d": day,
        "ts": day.cast(pa.timestamp("us", "UTC")),
        "l": [[i] for i in range(100)],
        "m": pa.array([[("a", i)] for i in range(100)], pa.map_(pa.string(), pa.int64())),
    })  # fmt: skip
    pq.write_table(rows, path, row_group_size=10)
    return ss.scan_parquet(str(path))


#    condition                            unused                    in the warning
UNUSED = [
    ("x > 'abc'",                         ["x > 'abc'"],            "BIGINT, such as 5"),
    ("x = '12 rows'",                     ["x = '12 rows'"],        "the nearest BIGINT is 12"),
    ("ts >= '2013-13-45'",                ["ts >= '2013-13-45'"],   "is '2013-12-31'"),
    ("ts >= '2013-02-30 25:00:00'",       ["ts >= '2013-02-30 25:00:00'"],
                                                                    "is '2013-02-28 23:00:00'"),
    ("d < DATE '2013-13-45'",             ["d < CAST('2013-13-45' AS DATE)"],
                                                                    "the nearest DATE is"),
    ("d < '12/31/2013'",                  ["d < '12/31/2013'"],     "is '2013-12-31'"),
    ("soundex(s) = 'a'",                  ["soundex(s) = 'a'"],     "Spark's function soundex"),
    ("rand() < 0.5",                      ["rand() < 0.5"],         "the function rand"),
    ("x > 90 AND soundex(s) = 'a'",       ["soundex(s) = 'a'"],     "Spark's function soundex"),
    ("x > 90 OR soundex(s) = 'a'",        ["x > 90 OR soundex(s) = 'a'"], "soundex(s) = 'a': "),
    ("(x > 90 AND soundex(s) = 'a') OR x < 5", [],                  "Spark's function soundex"),
    ("size(l) = 2",                       ["size(l) = 2"],          "array_contains, exists and"),
    ("l[0] = 1 AND x > 5",                ["l[0] = 1"],             "get(array, index) counts"),
    ("x > 90 OR size(m) = 1",             ["x > 90 OR size(m) = 1"], "array_contains, exists and"),
    ("forall(l, e -> e > 5)",             ["forall(l, (e) -> e > 5)"], "array_contains, exists"),
    ('x > 5 AND "s" = \'a01\'',           [],                         "write the column as s"),
    ('s = "x"',                           [],                         "write the column as x"),
    ("ts >= current_time()",              ["ts >= current_time()"],   "such as TIME '12:00:00'"),
    ("60 < x < 90",                       ["(x > 60) < 90"],          "write 60 < x AND x < 90"),
    ("1 < x <= 5 < 9 OR d IS NULL",       ["(x > 1) <= 5 < 9 OR d IS NULL"],
                                                          "write 1 < x AND x <= 5 AND 5 < 9"),
    ("x IN 5",                            ["x IN 5"],                 "parentheses: IN (5)"),
    ("s.startswith('B')",                 ["s.startswith('B')"],
                                          "write s LIKE 'B%' or startswith(s, 'B')"),
    ("s.str.endswith('_')",               ["s.str.endswith('_')"],  "or endswith(s, '_')"),
    ("s.lower() = 'a'",                   ["s.lower() = 'a'"],        "write lower(s)"),
    ("x.isin([1, 2])",                    ["x.isin(ARRAY(1, 2))"],    "write x IN (1, 2)"),
    ("s.mine('a')",                       ["s.mine('a')"],            "register_function"),
    ("s = user",                          ["s = user"],               "such as 'name'"),
    ("x IN (SELECT 1)",                   ["x IN (SELECT 1)"],        "run it first and write its"),
    ("x = (SELECT max(y) FROM t SORT BY NOT)", ["x = ?"],             "run it first and write its"),
    ("EXISTS (SELECT 1)",                 ["EXISTS(SELECT 1)"],       "join by skipstone.join"),
    ("x = ?",                             ["x = ?"],                  "write the value in place"),
    ("x = :low",                          ["x = :low"],               "write the value in place"),
    ("rank() OVER (ORDER BY x) = 1",      ["RANK() OVER (ORDER BY x) = 1"], "filter by it after"),
    ("row_number() = 1",                  ["row_number() = 1"],       "rows of a window; filter"),
    ("sum(x) > 5",                        ["sum(x) > 5"],             "compute it first, and"),
    ("count(*) > 5",                      ["COUNT(*) > 5"],           "compute it first, and"),
    ("x IN 1",                            ["x IN 1"],                 "parentheses: IN (1)"),
    ("1 < x < 9",                         ["(x > 1) < 9"],            "write 1 < x AND x < 9"),
    ("d > 2024-01-31",                    ["d > 1992"],               "write a date as DATE"),
    ("ts > 1700000000",                   ["ts > 1700000000"],        "write a time as TIMESTAMP"),
]  # fmt: skip


@pytest.mark.parametrize(("where", "unused", "words"), UNUSED)
def test_a_condition_that_cannot_prune_is_warned_about(table, where, unused, words):
    with pytest.warns(ss.SkipstoneWarning) as caught:
        plan = table.plan(where)
    (warning,) = caught
    message = str(warning.message)
    assert words in message and "cannot prune" in message and "\n" not in message
    assert warning.filename == __file__  # the line of the caller
    assert list(plan.unused) == unused
    assert len(plan.unused_parts) == 1 and plan.unused_parts[0].text in message
    assert f"unused: {plan.unused_parts[0].text}" in repr(plan)
    assert "cannot prune" in plan.explain()


#    condition                what prunes
PRUNES_BY = [
    (None,                    "nothing"),
    ("x > 90",                "column statistics"),
    ("soundex(s) = 'a'",      "nothing"),
    ("x > 90 AND soundex(s) = 'a'", "column statistics"),
    ("x > 99999999999999999", "the condition, which is never TRUE"),
    ("x = NULL",              "the condition, which is never TRUE"),
]  # fmt: skip


@pytest.mark.parametrize(("where", "words"), PRUNES_BY)
@pytest.mark.filterwarnings("ignore:.* cannot prune")
def test_plans_say_what_prunes(table, where, words):
    plan = table.plan(where)
    assert f"pruned by: {words}" in repr(plan) and f"prunes by {words}" in plan.explain()


#    condition, limit         what prunes
WITH_KEYS = [
    (None, None,              "dynamic filters"),
    ("x > 0", None,           "column statistics and dynamic filters"),
    ("x > 0", 5,              "the condition and the limit, and dynamic filters"),
]  # fmt: skip


@pytest.mark.parametrize(("where", "limit", "words"), WITH_KEYS)
def test_plans_say_that_keys_prune(table, where, limit, words):
    keys = ss.DynamicFilterCollector(["x"], table.schema)
    keys.add(pa.table({"x": [3]}))
    plan = table.plan(where, dynamic=[keys.finish()], limit=limit)
    assert f"pruned by: {words}" in repr(plan) and f"prunes by {words}\n" in plan.explain()


def test_statistics_without_bounds_of_elements(table):
    """Those of Delta and Iceberg tables have none."""
    p = ss.PruningPredicate("array_contains(l, 5) AND x > 3", table.schema)
    (part,) = unused_parts(p, bounds_elements=False)
    assert part.text == "array_contains(l, 5)" and "values of lists and maps" in str(part)
    assert not unused_parts(p, bounds_elements=True)


def test_the_warning_shows_the_line_of_the_program(table):
    for call in (
        lambda: table.map("x", where="soundex(s) = 'a'"),
        lambda: table.clustering(workload=["x = 1", "nosuch = 1"]),
    ):
        with pytest.warns(ss.SkipstoneWarning) as caught:
            call()
        assert [w.filename for w in caught] == [__file__]


@pytest.mark.parametrize(
    "where",
    [
        None, "true", "x > 90", "x >= 0", "x > 1000", "x IS NULL", "x IS NOT NULL",
        "s LIKE '%x'", "md5(s) = 'x'", "x % 2 = 0", "x = NULL", "x = 1 OR x <> 1", "s = 'q'",
        "l IS NULL", "array_contains(l, x)", "array_contains(l, 5)", "get(l, 0) = 5",
        "exists(l, e -> e > 5)", "x > 90 OR m['a'] = 1", "array_max(l) > 5",
        "x = 1 AND (l IS NOT NULL OR x > 5)",
        "s > 5", "d > '2013-12-31'", "x = '5'", 's = "X"', ss.col("x") > 5,
        "d >= current_date()", "d >= current_date", "ts > now() - INTERVAL 7 DAYS",
        [("x", "=", 5)],
    ],
)  # fmt: skip
def test_a_condition_that_may_prune_is_not_warned_about(table, where):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan = table.plan(where)
    assert plan.unused_parts == () and "unused" not in repr(plan)


def test_programs_are_not_warned(table):
    """Predicates and trees come from programs: they ask `unused`, or `on_unknown`."""
    predicate = ss.PruningPredicate("x > 'abc' AND x > 90", table.schema)
    plan = table.plan(predicate)
    assert plan.unused == ("x > 'abc'",)
    assert plan.kept.tolist() == [9]
    tree, _ = parse("x > 'abc' AND x > 90")
    assert table.plan(tree).unused == plan.unused
    later = table.plan(predicate, dynamic=[ss.DynamicFilter(columns={"x": "x"})])
    assert later.replanned().unused == later.unpruned().unused == plan.unused


def test_a_plan_is_warned_about_once(table):
    with warnings.catch_warnings(record=True) as caught:
        warnings.resetwarnings()
        for _ in range(3):
            plan = table.plan("x > 'abc'")
        plan.count, plan.sizes, plan.explain(), repr(plan), plan.unpruned()
    assert len(caught) == 1


def test_several_parts_are_one_warning(table):
    with pytest.warns(ss.SkipstoneWarning) as caught:
        plan = table.plan("x > 'abc' AND soundex(s) = 'a' AND x > 90")
    assert len(caught) == 1 and len(plan.unused) == 2
    assert re.search(r"x > 'abc' cannot prune: .*\. soundex", str(caught[0].message))


def test_many_parts_are_a_short_warning(table):
    with pytest.warns(ss.SkipstoneWarning, match="; .* 7 more: see plan.unused_parts") as caught:
        plan = table.plan(" AND ".join(f"x > 'a{i}'" for i in range(10)))
    assert len(caught) == 1 and len(plan.unused_parts) == 10
    assert "x > 'a2', and 7 more)" in repr(plan)


def test_no_row_is_lost(table):
    with pytest.warns(ss.SkipstoneWarning):
        plan = table.plan("x > '90 rows' OR x > 95")
    assert len(plan.kept) == 10


def test_the_shell_says_it_in_colour_and_succeeds(table):
    command = [sys.executable, "-m", "skipstone", "plan", table.all_files[0], "-w", "x > 'abc'"]
    colours = os.environ | {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    found = subprocess.run(command, capture_output=True, text=True, check=False, env=colours)
    assert found.returncode == 0 and found.stderr == ""
    assert "\x1b[33mx > 'abc' cannot prune" in found.stdout


def test_json_names_the_parts(table):
    (part,) = json.loads(plan_json(table.plan("x > 'abc'"), 0.0, 0.0))["unused"]
    assert part == {
        "text": "x > 'abc'",
        "why": "'abc' is not a plain BIGINT",
        "hint": "write a literal of BIGINT, such as 5",
        "conjunct": True,
    }


@pytest.mark.parametrize(
    ("text", "to", "hint"),
    [
        ("2013-13-45", DATE, "the nearest DATE is '2013-12-31'"),
        ("2013-02-29", DATE, "the nearest DATE is '2013-02-28'"),
        ("20131345", DATE, "the nearest DATE is '2013-12-31'"),
        ("31.12.2013", DATE, "the nearest DATE is '2013-12-31'"),
        ("05/04/2013", DATE, "write a literal of DATE, such as '2013-12-31'"),  # April or May
        ("0000-00-00", DATE, "the nearest DATE is '0001-01-01'"),
        ("tomorrow", TIMESTAMP, "write a literal of TIMESTAMP, such as '2013-12-31 23:59:59'"),
        ("2013-1-1 24:61", TIMESTAMP, "the nearest TIMESTAMP is '2013-01-01 23:59:00'"),
        ("99999999999", INT32, "the nearest INT is 2147483647"),
        ("-5.7", INT32, "the nearest INT is -5"),
        ("", INT32, "write a literal of INT, such as 5"),
        ("1,024.5 kg", DOUBLE, "the nearest DOUBLE is 1024.5"),
        ("maybe", BOOL, "write a literal of BOOLEAN, such as 'true'"),
        ("x", STRING, ""),
    ],
)
def test_the_nearest_literal(text, to, hint):
    assert nearest_literal(text, to) == hint
