"""Filter rows: one conjunct after another, each on the rows that the ones before it left.

Comparisons of numbers, days and times run in kernels, with a row as a container
(kernels/pack/rows.py). The row evaluator judges the rest: a column of dictionary type by its
distinct values.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from skipstone.ir.errors import PredicateTooDeep
from skipstone.ir.lower import Program, lower
from skipstone.ir.node import Node, Op, Path, columns_of
from skipstone.ir.rows import Truth, judge, unjudged
from skipstone.ir.session import CannotJudge
from skipstone.kernels.pack.planes import Mask, mask_of
from skipstone.kernels.pack.rows import RowSource, has_lanes
from skipstone.kernels.run.prepare import prepare
from skipstone.kernels.run.run import run

# Rows from which a kernel is faster than the evaluator: preparing a launch takes some 100 us.
KERNEL_FROM: Final = 1 << 10


@dataclass(frozen=True, slots=True)
class Conjunct:
    """A part of a condition that rows must pass.

    Attributes:
        node: The bound condition.
        columns: The paths of the columns that it tests.
        program: The condition for kernels; None if only the row evaluator knows it.
    """

    node: Node
    columns: tuple[Path, ...]
    program: Program | None

    @property
    def names(self) -> list[str]:
        """The top-level columns that it tests."""
        return list(dict.fromkeys(path[0] for path in self.columns))

    def judge(self, rows: pa.RecordBatch) -> Truth:
        """Judge each row.

        Args:
            rows: n rows, with the columns of the conjunct.

        Raises:
            UnsupportedForm: only planning supports a form of the condition.
        """
        if not rows.num_rows:
            none = np.zeros(0, np.bool_)
            return Truth(none, none, none)
        return self._by_kernel(rows) or self._by_dictionary(rows) or judge(self.node, rows, {})

    def _by_kernel(self, rows: pa.RecordBatch) -> Truth | None:
        if (
            self.program is None
            or rows.num_rows < KERNEL_FROM
            or not all(has_lanes(rows.schema.field(name).type) for name in self.names)
        ):
            return None
        try:
            can_match, can_miss = run(prepare(self.program, RowSource(rows))).planes
        except CannotJudge:
            return None
        match, miss = (mask_of(p, rows.num_rows) for p in (can_match, can_miss))
        true, false = match & ~miss, ~match
        may_raise = np.zeros(rows.num_rows, np.bool_)
        open_ = np.flatnonzero(match & miss)
        if len(open_):
            rest = judge(self.node, rows.take(pa.array(open_)), {})
            true[open_], false[open_], may_raise[open_] = rest.true, rest.false, rest.may_raise
        return Truth(true, false, may_raise)

    def _by_dictionary(self, rows: pa.RecordBatch) -> Truth | None:
        if len(self.columns) != 1 or len(self.columns[0]) != 1:
            return None
        values = rows.column(self.names[0])
        if not pa.types.is_dictionary(values.type) or len(values.dictionary) >= len(values):
            return None
        null = pa.nulls(1, values.type.value_type)
        distinct = pa.concat_arrays([values.dictionary, null])
        truth = judge(self.node, pa.record_batch([distinct], self.names), {})
        at = np.asarray(values.indices.fill_null(len(values.dictionary)))
        return Truth(truth.true[at], truth.false[at], truth.may_raise[at])


@functools.lru_cache(maxsize=256)
def conjuncts(node: Node) -> tuple[Conjunct, ...]:
    """Return the conjuncts of a bound condition; those that kernels judge come first."""
    parts = node.args if node.op is Op.AND else (node,)
    by_columns: dict[tuple[Path, ...], list[Node]] = {}
    out = []
    for part in parts:
        columns = tuple(columns_of(part))
        if _is_plain(part):
            by_columns.setdefault(columns, []).append(part)
        else:
            out.append(Conjunct(part, columns, None))
    return (
        *(
            Conjunct(
                both := nodes[0] if len(nodes) == 1 else Node(Op.AND, tuple(nodes)),
                columns,
                _program(both),
            )
            for columns, nodes in by_columns.items()
        ),
        *out,
    )


def _program(node: Node) -> Program | None:
    try:
        return lower(node)
    except PredicateTooDeep:
        return None


def _is_plain(node: Node) -> bool:
    """Return True if a condition tests top-level columns that may have lanes, and no calls."""
    columns = (n for n in node.walk() if n.op is Op.COLUMN)
    return (
        not any(n.op in (Op.UNKNOWN, Op.CALL) for n in node.walk())
        and all(len(path) == 1 for path in columns_of(node))
        and not any(n.dtype is None or n.dtype.coded for n in columns)
    )


def matching_rows(node: Node, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of a batch for which a bound condition is TRUE.

    Raises:
        UnsupportedForm: only planning supports a form of the condition, or Spark raises an error
            for a row that the rest of the condition leaves.
    """
    alive = matches(node, batch)
    return batch if alive.all() else batch.filter(pa.array(alive))


def matches(node: Node, batch: pa.RecordBatch) -> Mask:
    """Return the mask of the rows for which a bound condition is TRUE; raises as above."""
    alive, open_ = np.ones(batch.num_rows, np.bool_), None
    for part in conjuncts(node):
        if not batch.num_rows:
            break
        rows = batch.select(part.names) if part.names else batch
        # A kernel judges all rows in less time than Arrow takes the ones that are left.
        whole = part.program is not None or alive.all()
        truth = part.judge(rows if whole else rows.filter(pa.array(alive)))
        where = slice(None) if whole else alive
        if truth.may_raise.any():
            open_ = np.zeros(batch.num_rows, np.bool_) if open_ is None else open_
            open_[where] |= truth.may_raise
        alive[where] &= truth.true | truth.may_raise
    if open_ is not None and (lost := int((open_ & alive).sum())):
        raise unjudged(node, lost)
    return alive
