"""Filter rows: one conjunct after another, each on the rows that passed the conjuncts before it.

Comparisons of numbers, days and times run in kernels, with a row as a container
(kernels/pack/rows.py). The row evaluator judges the rest.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of
from skipstone.ir.errors import PredicateTooDeep
from skipstone.ir.lower import Program, lower
from skipstone.ir.merge import merge
from skipstone.ir.node import Node, Op, Path, columns_of
from skipstone.ir.rows import judge
from skipstone.ir.session import CannotJudge
from skipstone.kernels.pack.planes import Mask, both_of, mask_of
from skipstone.kernels.pack.rows import RowSource, kernels_read
from skipstone.kernels.run.pool import ContextPool, threads
from skipstone.kernels.run.prepare import prepare
from skipstone.kernels.run.run import run

# Minimum rows for which a kernel beats the evaluator: preparing a launch takes 80 to 300 us.
KERNEL_FROM: Final = 1 << 16


class Judged(NamedTuple):
    """Masks of n rows: those for which a condition is TRUE, and those that may raise an error.

    None: no row may raise an error.
    """

    true: Mask
    may_raise: Mask | None = None

    @property
    def to_keep(self) -> Mask:
        """The mask of the rows to keep."""
        return self.true if self.may_raise is None else self.true | self.may_raise


def _joined(parts: Sequence[Judged]) -> Judged:
    """Join the masks of parts, in order."""
    if len(parts) == 1:
        return parts[0]
    may_raise = None
    if any(p.may_raise is not None for p in parts):
        each = [np.zeros_like(p.true) if p.may_raise is None else p.may_raise for p in parts]
        may_raise = np.concatenate(each)
    return Judged(np.concatenate([p.true for p in parts]), may_raise)


class Conjunct(NamedTuple):
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

    def judge(self, rows: pa.RecordBatch) -> Judged:
        """Judge each row.

        Args:
            rows: n rows, with the columns of the conjunct.

        Raises:
            UnsupportedForm: only planning supports a form of the condition.
        """
        if not rows.num_rows:
            return Judged(np.zeros(0, np.bool_))
        found = self._by_kernel(rows)
        if found is None:
            truth = judge(self.node, rows, {})
            found = Judged(truth.true, truth.may_raise if truth.may_raise.any() else None)
        return found if found.may_raise is None else self._by_bounds(rows, found, found.may_raise)

    def judge_all(self, batches: Sequence[pa.RecordBatch]) -> Judged:
        """Judge the rows of batches, in order; several are judged concurrently.

        Raises:
            UnsupportedForm: as in `judge`.
        """
        if self.program is not None or len(batches) == 1 or threads() == 1:
            return _joined([self.judge(rows) for rows in batches])  # kernels use several threads
        with ContextPool(threads(), "skipstone-judge") as pool:
            return _joined(list(pool.map(self.judge, batches)))

    def _by_bounds(self, rows: pa.RecordBatch, found: Judged, open_: Mask) -> Judged:
        """Judge rows without a known value by the bounds of the value.

        One case is a time whose zone offset is uncertain: the year of its wall clock is often
        certain.
        """
        program = _program(self.node) if self.program is None else self.program
        if program is None:
            return found
        some = pc.filter(rows, arrow_of(open_))
        try:
            can_match, can_miss = run(prepare(program, RowSource(some))).planes
        except CannotJudge:
            return found
        true, may_raise, n = found.true.copy(), np.zeros_like(open_), some.num_rows
        match, miss = mask_of(can_match, n), mask_of(can_miss, n)
        true[open_] = match & ~miss
        may_raise[open_] = match & miss
        return Judged(true, may_raise if may_raise.any() else None)

    def _by_kernel(self, rows: pa.RecordBatch) -> Judged | None:
        if (
            self.program is None
            or rows.num_rows < KERNEL_FROM
            or not all(kernels_read(rows.schema.field(name).type) for name in self.names)
        ):
            return None
        try:
            can_match, can_miss = run(prepare(self.program, RowSource(rows))).planes
        except CannotJudge:
            return None
        n = rows.num_rows
        both = both_of(can_match, can_miss)
        if both is False:
            return Judged(mask_of(can_match, n))
        undecided = mask_of(both, n)
        rest = judge(self.node, pc.filter(rows, arrow_of(undecided)), {})
        true, may_raise = mask_of(can_match, n) & ~undecided, np.zeros(n, np.bool_)
        true[undecided], may_raise[undecided] = rest.true, rest.may_raise
        return Judged(true, may_raise)


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
        return lower(merge(node))
    except PredicateTooDeep:
        return None


def _is_plain(node: Node) -> bool:
    """Return True if a condition tests top-level columns that kernels may read, and no calls."""
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
    candidates = matches(node, batch)
    return batch if candidates.all() else pc.filter(batch, arrow_of(candidates))


def matches(node: Node, batch: pa.RecordBatch) -> Mask:
    """Return the mask of the rows for which a bound condition is TRUE; raises as above."""
    candidates, open_ = np.ones(batch.num_rows, np.bool_), None
    for part in conjuncts(node):
        if not batch.num_rows:
            break
        rows = batch.select(part.names) if part.names else batch
        # A kernel judges all rows in less time than Arrow needs to select the remaining ones.
        whole = part.program is not None or candidates.all()
        truth = part.judge(rows if whole else pc.filter(rows, arrow_of(candidates)))
        where = slice(None) if whole else candidates
        if truth.may_raise is not None:
            open_ = np.zeros(batch.num_rows, np.bool_) if open_ is None else open_
            open_[where] |= truth.may_raise
        candidates[where] &= truth.to_keep
    if open_ is not None and (lost := open_ & candidates).any():
        from skipstone.ir.evaluation.unjudged import unjudged

        raise unjudged(node, int(lost.sum()), batch.slice(int(lost.argmax()), 1))
    return candidates
