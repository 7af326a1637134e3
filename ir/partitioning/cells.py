"""Cells: the rows of one partition value, and the outcomes that a test can have on them.

A condition made here tests a partition value alone. It is NULL if that value is NULL. Otherwise it
is TRUE if some row may give the test the requested outcome, so its negation means that no row can.
It never relies on which rows exist.

Two kinds of rows may lie in partitions other than the one that the transform gives. The conditions
include those partitions:

- Periods below zero. Iceberg's writers up to 0.10.0, and others since, cut towards zero, so the
  last second of 1969 may lie under day 0 instead of day -1. Java widens in the same way; pyiceberg
  does not.
- Values near the end of a type. If the partition value does not fit its type, Java wraps it around
  (`truncate[10]` of -2147483648 is 2147483646); others clip it to the type's range or keep one
  digit more.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from skipstone.ir.coercion.pullback import Span
from skipstone.ir.coercion.thresholds import against_span, never
from skipstone.ir.like import pattern_of, quoted
from skipstone.ir.node import Node, Op, literal
from skipstone.ir.partitioning.transforms import TIME, Transform
from skipstone.ir.simplify import is_in
from skipstone.ir.types import STRING, TEXT, DType, Kind

OPPOSITE: Final = {Op.LT: Op.GE, Op.LE: Op.GT, Op.GT: Op.LE, Op.GE: Op.LT}
MIRROR: Final = {Op.AND: Op.OR, Op.OR: Op.AND}


def may_have_outcome(leaf: Node, outcome: bool, transform: Transform, column: Node) -> Node:
    """Return a condition on the partitions that may hold a row on which a leaf has an outcome.

    Args:
        leaf: A test of one column, other than IS NULL.
        outcome: TRUE or FALSE; a leaf is NULL exactly where its column is.
        transform: A transform that supports the column's type, other than `void`.
        column: The partition column, of the transform's result type.

    Returns:
        A condition on `column`, as the module's docstring describes.
    """
    source, op = leaf.args[0].dtype, leaf.op
    assert source
    if transform.exact(source):
        same = Node(
            op,
            (column, *(Node(a.op, value=a.value, dtype=column.dtype) for a in leaf.args[1:])),
            leaf.value,
            leaf.dtype and column.dtype,
        )
        return same if outcome else negated(same)
    if op is Op.DEFINED:
        return non_null(column) if outcome else never(column)
    if not outcome and op in OPPOSITE:
        op, outcome = OPPOSITE[op], True
    if transform.name == "bucket":
        if outcome and op in (Op.EQ, Op.IN):
            buckets = _buckets(_members(leaf), source, transform)
            # A text that is no UUID has no bucket.
            return non_null(column) if None in buckets else is_in(column, buckets)
        return non_null(column)
    if source.kind in TEXT:
        return _text_condition(leaf, op, outcome, transform.width, column)
    return _number_condition(leaf, op, transform, source, column) if outcome else non_null(column)


def non_null(column: Node) -> Node:
    """Return a condition that is TRUE, or NULL where the column is NULL."""
    return Node(Op.DEFINED, (column,))


def negated(n: Node) -> Node:
    """Push NOT down to the leaves of a condition.

    Spark's order is total, NaN included, so `x < v` and `x >= v` are opposites.
    """
    match n:
        case Node(Op.NOT, (p,)):
            return p
        case Node(Op.AND | Op.OR):
            return Node(MIRROR[n.op], tuple(map(negated, n.args)))
        case Node(op, args) if op in OPPOSITE:
            return Node(OPPOSITE[op], args)
    return Node(Op.NOT, (n,))


def _either(column: Node, *conditions: Node) -> Node:
    """Return the OR of conditions on one column, without trivial ones."""
    remaining = tuple(dict.fromkeys(c for c in conditions if c != never(column)))
    if non_null(column) in remaining:
        return non_null(column)
    if len(remaining) > 1:
        return Node(Op.OR, remaining)
    if remaining:
        return remaining[0]
    return never(column)


def _members(leaf: Node) -> tuple[object, ...]:
    if leaf.op is Op.EQ:
        return (leaf.args[1].value,)
    return leaf.value if isinstance(leaf.value, tuple) else ()


def _buckets(values: tuple[object, ...], source: DType, transform: Transform) -> list[object]:
    if source.kind in TEXT:
        return list(transform.apply(pa.array(values, pa.large_binary()), source).to_pylist())
    wide = source.kind is Kind.DECIMAL and source.coded
    return list(transform.apply(np.array(values, object if wide else np.int64), source).tolist())


# Truncated numbers, and time. T is the transform's `floor`, which is monotone.


def _number_condition(
    leaf: Node, op: Op, transform: Transform, source: DType, column: Node
) -> Node:
    """Return the condition for a comparison of truncated numbers or times.

    `x < v` is `x <= v - 1`. The rows of x <= v lie in partitions up to T(v), those of x >= v from
    T(v) on.
    """
    if transform.name == "truncate" and source.kind is Kind.INT and transform.width > 2**30:
        # Then Java's v - ((v % w) + w) % w overflows.
        return non_null(column)
    partitions = _PartitionValues(transform, source, column)
    if op in (Op.EQ, Op.IN):
        return partitions.among([v for v in _members(leaf) if isinstance(v, int)])
    v = leaf.args[1].value
    assert isinstance(v, int)
    if op in (Op.LT, Op.LE):
        return partitions.up_to(v - 1 if op is Op.LT else v)
    return partitions.since(v + 1 if op is Op.GT else v)


class _PartitionValues:
    """The partition values under which rows with values in a range may lie."""

    def __init__(self, transform: Transform, source: DType, column: Node) -> None:
        self.transform, self.source, self.column = transform, source, column
        assert column.dtype is not None
        low, high = column.dtype.lowest, column.dtype.highest
        first, last = source.lowest, source.highest
        assert isinstance(low, int) and isinstance(high, int)
        assert isinstance(first, int) and isinstance(last, int)
        self.low, self.high, self.first, self.last = low, high, first, last
        self.wraps_low = self.wraps_high = never(column)
        if source.kind is not Kind.DECIMAL:
            # Digits are not lost: a partition value below the type is one digit longer.
            turn = high - low + 1
            least = transform.floor(first, source) + turn
            most = transform.floor(last, source) - turn
            if least <= high:
                self.wraps_low = self.at_least(max(least, low))
            if most >= low:
                self.wraps_high = self.at_most(min(most, high))

    def latest(self, cell: int) -> int:
        """Return the last partition value under which a row of `cell` may lie."""
        return cell + 1 if cell < 0 and self.transform.name in TIME else cell

    def at_most(self, cell: int) -> Node:
        if cell >= self.low:
            return against_span(Op.LE, self.column, Span(cell, min(cell, self.high)))
        return never(self.column)

    def at_least(self, cell: int) -> Node:
        if cell <= self.high:
            return against_span(Op.GE, self.column, Span(max(cell, self.low), cell))
        return never(self.column)

    def up_to(self, v: int) -> Node:
        """Match rows with values <= v.

        Partition values below the type may have been clipped to its lowest.
        """
        if v < self.first:
            return never(self.column)
        cell = self.transform.floor(v, self.source)
        return _either(self.column, self.at_most(max(self.latest(cell), self.low)), self.wraps_low)

    def since(self, v: int) -> Node:
        """Match rows with values >= v.

        Partition values above the type may have been clipped to its highest.
        """
        if v > self.last:
            return never(self.column)
        cell = self.transform.floor(v, self.source)
        return _either(self.column, self.at_least(min(cell, self.high)), self.wraps_high)

    def among(self, values: list[int]) -> Node:
        """Match rows with one of the values."""
        targets = {self.transform.floor(v, self.source) for v in values}
        inside: list[object] = [
            p for cell in targets for p in {cell, self.latest(cell)} if self.low <= p <= self.high
        ]
        below, above = min(targets) < self.low, max(targets) > self.high
        return _either(
            self.column,
            is_in(self.column, inside) if inside else never(self.column),
            _either(self.column, self.wraps_low, self.at_most(self.low))
            if below
            else never(self.column),
            _either(self.column, self.wraps_high, self.at_least(self.high))
            if above
            else never(self.column),
        )


# Truncated strings and binary. A partition value shorter than the width is the value of all its
# rows. One as long as the width is their prefix, and they have no greatest value.


def _text_condition(leaf: Node, op: Op, outcome: bool, width: int, column: Node) -> Node:
    dtype = column.dtype
    assert dtype
    if op is Op.LIKE:
        return _like_condition(leaf, outcome, width, column)
    values = [v for v in _members(leaf) if isinstance(v, bytes)]
    if op in (Op.EQ, Op.IN):
        if outcome:
            return is_in(column, [_cut(v, width, dtype) for v in values])
        short: list[object] = [v for v in values if _length(v, dtype) < width]
        return negated(is_in(column, short)) if short else non_null(column)
    v = leaf.args[1].value
    assert isinstance(v, bytes)
    start, length = _cut(v, width, dtype), _length(v, dtype)
    # x < v: the least row of a cell is the cell's value p. Is p < v? Beyond the width: p <= start.
    # x > v: some row that starts with p is greater if p >= start. A v shorter than the width is the
    # only row of its cell.
    closed = {Op.LT: length > width, Op.LE: True, Op.GT: length >= width, Op.GE: True}[op]
    low = op in (Op.LT, Op.LE)
    return against_span(
        (Op.LE if closed else Op.LT) if low else (Op.GE if closed else Op.GT),
        column,
        Span(start, start),
    )


def _like_condition(leaf: Node, outcome: bool, width: int, column: Node) -> Node:
    """Return the condition for LIKE, from the characters before the first `%`; None is `_`."""
    head: list[str | None] = []
    rest: list[tuple[bool, str]] = []
    for wild, text in pattern_of(leaf).tokens:
        if rest or (wild and text == "%"):
            rest.append((wild, text))
        else:
            head += [None] if wild else list(text)
    reaches = len(head) >= width
    if outcome:
        # A shorter head ends before the cut, so the text after it is unknown. A longer head is cut.
        return _like_or_equal(column, head[:width], bool(rest) and not reaches)
    if not rest:
        # Rows have a fixed length. Below the width, the partition value is the row.
        return non_null(column) if reaches else negated(_like_or_equal(column, head, False))
    if any(token != (True, "%") for token in rest) or len(head) > width:
        return non_null(column)
    return negated(_like_or_equal(column, head, not reaches))


def _like_or_equal(column: Node, head: list[str | None], more: bool) -> Node:
    if None not in head and not more:
        text = "".join(c or "" for c in head).encode()
        return Node(Op.EQ, (column, literal(text, STRING)))
    if not head:
        return non_null(column)
    pattern = "".join("_" if c is None else quoted(c) for c in head) + ("%" if more else "")
    return Node(Op.LIKE, (column, literal(pattern.encode(), STRING)), "\\")


def _length(v: bytes, dtype: DType) -> int:
    return len(v.decode()) if dtype.kind is Kind.STRING else len(v)


def _cut(v: bytes, width: int, dtype: DType) -> bytes:
    return v.decode()[:width].encode() if dtype.kind is Kind.STRING else v[:width]
