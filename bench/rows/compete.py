"""Check the rows of all engines against the expected ones, then time the engines in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import pyarrow as pa
import pyarrow.compute as pc

from bench.report.measure import YARDSTICK, Run, Timing, interleave, yardstick
from bench.report.report import WrongAnswer
from bench.rows.data import SCHEMA, Data, read
from bench.rows.engines import Contestant
from bench.rows.lake import Lake
from bench.rows.questions import Question


@dataclass
class Rows:
    """The expected rows of a question, in any order."""

    table: pa.Table

    @property
    def count(self) -> int:
        return int(self.table.num_rows)

    @cached_property
    def ordered(self) -> pa.Table:
        return _ordered(self.table)

    def check(self, name: str, found: pa.Table) -> None:
        """Raise `WrongAnswer` if a table holds other rows, or other columns."""
        expected = self.table.schema
        if found.column_names != expected.names or found.num_rows != self.count:
            raise WrongAnswer(
                f"{name}: {found.num_rows:,} rows of {found.column_names}, "
                f"expected {self.count:,} of {expected.names}"
            )
        if not _ordered(found.cast(expected)).equals(self.ordered):
            raise WrongAnswer(f"{name}: {self.count:,} rows, but not the right ones")


def matching(data: Data, question: Question) -> Rows:
    """Return a question's rows: Arrow's kernels filter the whole original file in memory."""
    names = {*question.columns, *(t.column for t in question.tests)}
    table = read(data.original, tuple(n for n in SCHEMA.names if n in names))
    return Rows(table.filter(question.arrow()).select(question.columns).combine_chunks())


def _ordered(table: pa.Table) -> pa.Table:
    return table.take(
        pc.sort_indices(table, sort_keys=[(name, "ascending") for name in table.column_names])
    )


def compete(
    contestants: Sequence[Contestant], lake: Lake, question: Question, right: Rows, rounds: int
) -> tuple[Mapping[str, Timing], Mapping[str, str]]:
    """Return the timings of the contestants and of a yardstick by name, and why some have none.

    Raises:
        WrongAnswer: rows are missing, or wrong.
    """
    runs: dict[str, Run] = {YARDSTICK: yardstick}
    errors = {}
    for c in contestants:
        run = partial(c.ask, lake, question)
        try:
            found = run()
        except Exception as e:  # engines raise errors of many classes
            errors[c.name] = f"{type(e).__name__}: {e}"
            continue
        right.check(f"{c.name} on {lake.folder}, {question.sql}", found)
        runs[c.name] = run
    return interleave(runs, rounds), errors


def fastest(
    contestants: Sequence[Contestant], timings: Mapping[str, Timing]
) -> dict[str, Contestant]:
    """Return each engine's fastest contestant."""
    found: dict[str, Contestant] = {}
    for c in sorted(
        (c for c in contestants if c.name in timings), key=lambda c: timings[c.name].median
    ):
        found.setdefault(c.engine, c)
    return found
