"""Spark SQL as the judge of predicates: many in one query, row by row.

In ANSI mode one row that raises fails the whole query, so rows on which the row evaluator expects
an error are not given to Spark. A query that still fails runs again in halves.
"""

import contextlib
import logging
import random

import numpy as np
import pyarrow as pa

from skipstone.ir.errors import UnsupportedForm
from skipstone.ir.node import Node, Op
from skipstone.ir.outcome import Verdict
from skipstone.ir.rows import judge, values_of
from tests.support.predicates.inside import SESSIONS, vague
from tests.support.predicates.judges import Tally, Trial, check, outcomes, trial, verdicts_of
from tests.support.rows.neighbours import FIELDS

TYPES = {
    "t": "boolean", "i8": "tinyint", "i16": "smallint", "i": "int", "j": "int", "l": "bigint",
    "f": "float", "g": "double", "h": "double", "m": "decimal(9,2)",
    "m0": "decimal(5,0)", "w": "decimal(38,10)", "d": "date", "c": "date", "n": "timestamp_ntz",
    "z": "timestamp", "s": "string", "v": "string", "y": "binary",
}  # fmt: skip


class Question:
    """A predicate, its verdicts, and the expression for Spark."""

    def __init__(self, t: Trial, numba: bool):
        self.predicate, p = _mostly_understood(t)
        self.node = p.node
        self.understood = not any(n.op is Op.UNKNOWN for n in p.node.walk())
        self.verdicts, _ = verdicts_of(t, p, ("numpy", "numba") if numba else ("numpy",))
        self.may = outcomes(p.node, t.batch, {})
        try:
            self.truth = judge(p.node, t.batch, {})
        except UnsupportedForm:
            self.truth = None
        loose = (
            vague(p.node) and not t.session.ansi
        )  # Spark then knows values that are unknown here
        self.kept = (
            np.zeros(t.batch.num_rows, np.bool_) if loose else losses(p.node, t.batch, every=False)
        )
        self.wary = False
        self.batch = t.batch

    def again(self) -> bool:
        """Withhold all rows on which any part may raise, whether or not Spark evaluates it.

        Returns False if that was tried before.
        """
        if self.wary:
            return False
        self.wary, self.kept = True, losses(self.node, self.batch, every=True)
        return True

    @property
    def text(self) -> str:
        rows = ", ".join(map(str, np.flatnonzero(self.kept)))
        return (
            f"CASE WHEN row NOT IN ({rows}) THEN ({self.predicate.sql}) END"
            if rows
            else f"({self.predicate.sql})"
        )


def _mostly_understood(t: Trial):
    """Return a random predicate, mostly one that is understood.

    Spark refuses most forms that are not understood, and a query that it refuses runs many times.
    """
    while True:
        q = t.predicates.predicate()
        p = t.pruning(q.sql)
        if not any(n.op is Op.UNKNOWN for n in p.node.walk()) or t.predicates.r.random() < 0.1:
            return q, p


def losses(n: Node, batch: pa.RecordBatch, *, every: bool) -> np.ndarray:
    """Return the rows on which some test of a predicate raises or is unknown.

    `every` includes the rows on which any part does.
    """
    may_raise = np.zeros(batch.num_rows, np.bool_)
    for part in n.walk():
        if part.op is Op.CALL and (every or part not in _inside(n)):
            with contextlib.suppress(UnsupportedForm):
                may_raise = may_raise | values_of(part, batch, {}).may_raise
    return may_raise


def _inside(n: Node) -> set[Node]:
    """Return the calls that are arguments of calls."""
    return {
        inner for call in n.walk() if call.op is Op.CALL for a in call.args for inner in a.walk()
    }


def by_spark(
    spark,
    seed: int,
    tally: Tally,
    *,
    containers: int = 150,
    predicates: int = 200,
    numba: float = 0.0,
) -> None:
    """Let Spark judge; each row's outcome must also be the row evaluator's."""
    t, r = trial(seed, containers, fields=FIELDS, sessions=SESSIONS), random.Random(seed)
    table = pa.Table.from_batches([t.batch]).append_column(
        "row", pa.array(range(len(t.container)), pa.int32())
    )
    logging.disable(logging.CRITICAL)
    spark.conf.set("spark.sql.ansi.enabled", str(t.session.ansi).lower())
    spark.conf.set("spark.sql.session.timeZone", t.session.timezone)
    try:
        spark.createDataFrame(
            table, ", ".join(f"{name} {kind}" for name, kind in TYPES.items()) + ", row int"
        ).createOrReplaceTempView("rows")
        for q, answer in _asked(
            spark, [Question(t, r.random() < numba) for _ in range(predicates)], tally, t
        ):
            _compare(t, q, answer, tally)
    finally:
        spark.conf.set("spark.sql.ansi.enabled", "true")
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        logging.disable(logging.NOTSET)


def _asked(spark, questions: list[Question], tally: Tally, t: Trial) -> list:
    """Return each question with Spark's outcomes.

    Questions that Spark refuses or fails on individually are left out and counted.
    """
    try:
        selected = ", ".join(f"{q.text} AS c{i}" for i, q in enumerate(questions))
        found = (
            spark.sql(f"SELECT row, {selected} FROM rows")
            .toArrow()
            .sort_by("row")
            .drop_columns(["row"])
        )
        return list(zip(questions, found.columns, strict=True))
    except Exception as e:
        if len(questions) > 1:
            half = len(questions) // 2
            return _asked(spark, questions[:half], tally, t) + _asked(
                spark, questions[half:], tally, t
            )
        (q,) = questions
        if q.again():
            return _asked(spark, questions, tally, t)
        what = str(e).partition("]")[0].lstrip("[") if str(e).startswith("[") else type(e).__name__
        if q.truth is None or what.startswith(("DATATYPE_MISMATCH", "PARSE_SYNTAX", "INVALID")):
            tally.forms[f"Spark: {what[:38]}"].predicates += 1
        elif not vague(q.node) and q.understood:
            # Spark may still evaluate parts that Skipstone folds away, such as `x = NULL`.
            tally.forms[f"Spark raises by itself: {what[:20]}"].predicates += 1
            tally.raised.append(
                f"seed {t.seed}, {t.session}\n  {q.predicate.sql}\n  {str(e)[:300]}"
            )
        return []


def _compare(t: Trial, q: Question, answer, tally: Tally) -> None:
    theirs = answer.combine_chunks()
    null = np.asarray(theirs.is_null())
    true = np.asarray(theirs.fill_null(False).to_numpy(zero_copy_only=False), np.bool_)
    # Rows withheld from Spark may have any outcome that the row evaluator allows.
    hit, miss = np.where(q.kept, q.may[0], true), np.where(q.kept, q.may[1] | q.may[2], ~true)
    known = ~(q.kept & q.may[3])
    check(t, q.predicate, q.verdicts, hit & known, miss & known, tally, "Spark")
    if q.truth is None:
        return
    ours = np.where(q.truth.true, 1, np.where(q.truth.false, 0, -1))
    wrong = (ours != np.where(null, -1, true)) & ~q.truth.may_raise & ~q.kept
    if wrong.any():
        i = int(np.flatnonzero(wrong)[0])
        j = int(t.container[i])
        k = i - int(np.flatnonzero(t.container == j)[0])
        named = {n.value for n in q.node.walk() if n.op is Op.COLUMN}
        row = {".".join(c): t.table.containers[j][k][c] for c in named}
        verdict = Verdict(int(q.verdicts[j])).name
        tally.surprises.append(
            f"seed {t.seed}, {t.session}: a row is {ours[i]} here and "
            f"{None if null[i] else bool(true[i])} in Spark ({verdict})\n  "
            f"{q.predicate.sql}\n  {row}"
        )
