"""A short random run of Spark's grammar; `tests/fuzz/conditions.py` says what it checks."""

import random
import re

import pyarrow as pa
import pytest

from skipstone.bindings.plans.plan import Plan
from tests.fuzz import conditions, joins
from tests.support.effort import LONG
from tests.support.spark.answers import answers
from tests.support.spark.grammar import Grammar
from tests.support.spark.session import QUIET
from tests.support.spark.tables import TURNS, write

pytestmark = pytest.mark.filterwarnings(QUIET)
COLUMNS = {
    "I": ["i"],
    "F": ["f"],
    "S": ["s", "st.c"],
    "D": ["d"],
    "T": ["z"],
    "B": ["t"],
    "A": ["arr"],
}
# The forms of Spark's predicates, each with and without NOT.
FORMS = (
    r"BETWEEN .* AND ", r"\bIN \(", r"LIKE '", r"ILIKE '", r"RLIKE ", r"REGEXP ", r"LIKE ANY \(",
    r"ILIKE SOME \(", r"LIKE ALL \(", "IS{}NULL", "IS{}TRUE", "IS{}FALSE", "IS{}UNKNOWN",
    "IS{}DISTINCT FROM",
)  # fmt: skip
OTHERS = (
    "ESCAPE '", "<=>", "==", "!=", "<>", "!<", "!>", "DIV", "%", "&", r"\|", r"\^", "~", "<<", ">>",
    ">>>",
    r"\|\|", "CAST\\(", "TRY_CAST\\(", "::", "CASE WHEN", r"CASE \S+ WHEN", r"if\(", "coalesce",
    "nullif",
    "nvl", "EXTRACT", "SUBSTRING.* FROM", "TRIM\\(BOTH", "position", "OVERLAY", r"st\.c", r"arr\[",
    r"dateadd\(MONTH", r"timestampadd\(", "trunc", "date_trunc", "hash", "INTERVAL", "DATE '",
    "TIMESTAMP '",
    "TIMESTAMP_NTZ '", "X'", r"\br'", "''", r"\\u", "NULL", "NOT ", "! ", " OR ", "q -> ",
)  # fmt: skip


def conditions_of(seed, count):
    g = Grammar(random.Random(seed), COLUMNS)
    for family, names in COLUMNS.items():
        for name in names:
            g.learn(family, name, ["ab", "it's"] if family == "S" else [])
    return [g.condition(2) for _ in range(count)]


def test_a_seed_repeats_its_conditions():
    assert conditions_of(5, 50) == conditions_of(5, 50) != conditions_of(6, 50)


def test_the_grammar_has_all_forms():
    found = "\n".join(conditions_of(1, 20_000))
    wanted = [*OTHERS]
    for form in FORMS:
        plain = form.format(" ") if "{}" in form else f"(?<!NOT ){form}"
        wanted += [plain, form.format(" NOT ") if "{}" in form else f"NOT {form}"]
    assert [form for form in wanted if not re.search(form, found)] == []


@pytest.mark.parametrize(
    "seed", range(40) if LONG else (0, 1, 4, 5), ids=lambda s: f"{TURNS[s % 10]}-{s}"
)
def test_no_row_is_lost(seed, spark):
    tally = conditions.Tally()
    conditions.case(spark, seed, tally, 250 if LONG else 12)
    assert tally.failures == []
    assert (
        tally.entry_points["prune"] + tally.entry_points["read"] + tally.entry_points["to_arrow"]
        > 0
    )


def test_joins(spark):
    tally = joins.Tally()
    for seed in range(200 if LONG else 3):
        joins.case(spark, seed, tally)
    assert tally.failures == []


def test_no_folder_has_nul_in_its_name(spark, tmp_path):
    assert "s" in write(1100009, spark, str(tmp_path)).writer  # some texts of `s` hold NUL


def test_a_lost_row_is_noticed(spark, monkeypatch):
    whole = Plan.to_arrow
    monkeypatch.setattr(Plan, "to_arrow", lambda plan: whole(plan).slice(1))
    tally = conditions.Tally()
    conditions.case(spark, 4, tally, 8)
    assert any("to_arrow" in failure and "lost" in failure for failure in tally.failures)


def test_one_expression_that_fails_costs_only_itself(spark):
    rows = spark.createDataFrame(pa.table({"id": [0, 1], "x": [0, 1]}))
    rows.createOrReplaceTempView("some")
    expressions = ["x", "y", "1 / x", "x +", "length(x)", "CAST('a' AS INT)", "-x"]
    found = [None if v is None else v.to_pylist() for v in answers(spark, expressions, "some")]
    assert found == [[0, 1], None, None, None, [1, 1], None, [0, -1]]
