"""The row evaluator against Spark SQL itself, expression by expression; Spark is the judge.

Binding decides in which type a literal meets a column, and the row evaluator computes the value of
each row. Both are right exactly if Spark gives the same values for the same expressions and rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.ir.errors import UnsupportedForm
from skipstone.ir.outcome import Verdict
from skipstone.ir.rows import evaluate_rows
from tests.support.effort import LONG
from tests.support.spark.coercion import BATCH, COLUMNS, ROWS, SCHEMA, SETTINGS, WALLS, judging
from tests.support.spark.session import QUIET

pytestmark = pytest.mark.filterwarnings(QUIET)


WALLS += [
    (2024, 1, 1, 1),
    (2024, 7, 1, 2),
    (2024, 1, 1, 12, 30, 15, 123456),
    (2024, 3, 31, 2, 30),
    (2024, 3, 10, 2, 30),
    (9999, 12, 30),
    (1960, 5, 5),
]


def one_row_each() -> Statistics:
    """Return the rows as containers of one row each."""
    columns = {}
    for name, array in zip(SCHEMA.names, BATCH.columns, strict=True):
        nan = (
            pc.is_nan(array).fill_null(False)
            if pa.types.is_floating(array.type)
            else pa.array([False] * ROWS)
        )
        bound = pc.if_else(nan, None, array) if pa.types.is_floating(array.type) else array
        columns[name] = {
            "min": bound,
            "max": bound,
            "null_count": array.is_null().cast(pa.int64()),
            "nan_count": nan.cast(pa.int64()),
        }
    return Statistics.from_dict(columns, SCHEMA, row_count=[1] * ROWS)


ROW_STATISTICS = one_row_each()


def cases(name: str) -> list[str]:
    """Return the cases below a heading of the file."""
    text = (Path(__file__).parents[2] / "data" / "spark_cases.sql").read_text(encoding="utf-8")
    return re.split(r"\n-- \w+: .*", text)[re.findall(r"\n-- (\w+): ", text).index(name) + 1].split(
        "\n"
    )[1:-1]


@pytest.fixture(params=SETTINGS, ids=lambda s: f"{'ansi' if s[0] else 'legacy'}-{s[1]}")
def judge(request: pytest.FixtureRequest, spark: Any) -> Iterator[Judge]:
    with judging(spark, *request.param):
        yield Judge(spark, *request.param)


class Judge:
    """Spark and the row evaluator, under the same settings."""

    def __init__(self, spark: Any, ansi: bool, zone: str) -> None:
        self.spark, self.ansi, self.zone = spark, ansi, zone

    def predicate(self, text: str) -> PruningPredicate:
        return PruningPredicate(text, SCHEMA, timezone=self.zone, ansi=self.ansi)

    def ours(self, text: str) -> list[bool | None] | None:
        """Return our outcomes per row, or None if the expression is refused."""
        try:
            outcomes: list[bool | None] = evaluate_rows(
                self.predicate(text).node, BATCH
            ).to_pylist()
            return outcomes
        except UnsupportedForm:
            return None

    def verdicts(self, text: str) -> list[int]:
        """Return verdicts over containers of one row each."""
        return self.predicate(text).evaluate(ROW_STATISTICS).tolist()  # type: ignore[no-any-return]

    def sparks(self, texts: Iterable[str]) -> list[list[bool | None]]:
        """Return Spark's outcomes per row, one list per expression, from one query."""
        selected = ", ".join(f"({text}) AS c{i}" for i, text in enumerate(texts))
        return [
            c.to_pylist()
            for c in self.spark.sql(f"SELECT {selected} FROM rows ORDER BY row").toArrow().columns
        ]

    def disagreements(self, texts: list[str]) -> list[tuple[str, Any, Any]]:
        return [
            (t, theirs, ours)
            for t, theirs in zip(texts, self.sparks(texts), strict=True)
            if (ours := self.ours(t)) != theirs
        ]


def test_understood_expressions_equal_spark(judge: Judge) -> None:
    texts = cases("understood")
    # Strings in an IN list, and integers beside BOOLEAN, mean different things in each mode.
    unclear = {t for t in texts if judge.ours(t) is None}
    assert unclear == set(), unclear
    assert judge.disagreements(texts) == []


def test_every_literal_against_every_column(judge: Judge) -> None:
    texts = [f"{c} {op} {v}" for c in COLUMNS for v in cases("literals") for op in ("=", "<")]
    assert len(texts) == 1980
    # Each mode has two zones, which share the texts in a short run.
    part = SETTINGS.index((judge.ansi, judge.zone)) // 2
    judged = [t for t in (texts if LONG else texts[part::2]) if judge.ours(t) is not None]
    assert len(judged) >= (820 if LONG else 400)
    assert [
        d for i in range(0, len(judged), 400) for d in judge.disagreements(judged[i : i + 400])
    ] == []


def test_verdicts_over_single_rows_hold(judge: Judge) -> None:
    texts = cases("understood") + cases("declined")
    wrong = [
        (text, row)
        for text, outcomes in zip(texts, judge.sparks(texts), strict=True)
        for row, (verdict, outcome) in enumerate(zip(judge.verdicts(text), outcomes, strict=True))
        if verdict in (Verdict.NEVER, Verdict.ALWAYS)
        and (verdict == Verdict.ALWAYS) != (outcome is True)
    ]
    assert wrong == []


def test_known_refusals(judge: Judge) -> None:
    texts = cases("declined")
    assert [t for t in texts if judge.ours(t) is not None] == []
    judge.sparks(texts)  # Spark evaluates all of them


def test_expressions_that_may_raise_are_declined(judge: Judge) -> None:
    texts = cases("raising")
    assert [
        t for t in texts if judge.ours(t) is not None or set(judge.verdicts(t)) != {Verdict.MAYBE}
    ] == []
    if judge.ansi and judge.zone == "UTC":
        for text in texts:
            with pytest.raises(Exception, match=r"CAST_INVALID_INPUT|OVERFLOW|INVALID_FORMAT"):
                judge.sparks([text])


def test_overflows_are_declined_in_ansi_mode_only(judge: Judge) -> None:
    texts = cases("overflowing")
    if not judge.ansi:
        assert judge.disagreements(texts) == []
        return
    assert [t for t in texts if judge.ours(t) is not None] == []
    for text in texts if judge.zone == "UTC" else ():
        with pytest.raises(Exception, match=r"OVERFLOW|BY_ZERO|CAST_INVALID_INPUT"):
            judge.sparks([text])


def test_expressions_that_spark_refuses_are_declined(judge: Judge) -> None:
    assert [t for t in cases("refused") if judge.ours(t) is not None] == []
    if judge.ansi and judge.zone == "UTC":
        for text in cases("refused"):
            with pytest.raises(Exception, match="DATATYPE_MISMATCH"):
                judge.sparks([text])
