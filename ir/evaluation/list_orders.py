"""Functions of lists that order their items or look for equal ones, for all rows at once.

NaN is greater than every number and equal to itself; -0.0 equals 0.0.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, booleans_of, numbers_of
from skipstone.ir.evaluation.lists import Ints, Lists
from skipstone.ir.functions.build import call_of
from skipstone.ir.node import Node
from skipstone.ir.rows import values_of
from skipstone.ir.types import TEXT, Kind, from_arrow
from skipstone.ir.values import Mask, Values, from_array


def extreme(n: Node, lists: Lists, batch: pa.RecordBatch) -> Values | None:
    """Return the least or greatest item; NaN is greater than any number."""
    assert n.dtype is not None
    (items,), high = lists.parts, call_of(n).name == "array_max"
    held = np.flatnonzero(booleans_of(pc.is_valid(items)))
    rows = lists.rows_of(held)
    begins = np.flatnonzero(np.diff(rows, prepend=-1))
    at, found = np.zeros(len(lists.valid), np.int64), np.zeros(len(lists.valid), np.bool_)
    if len(held):
        ranks = _ranks(items, held)
        ends = (np.maximum if high else np.minimum).reduceat(ranks, begins)
        best = np.zeros(len(items), np.bool_)
        best[held] = ranks == np.repeat(ends, np.diff(begins, append=len(held)))
        at, found = lists.first(best)  # of -0.0 and 0.0, Spark keeps the first
    return lists.items_at(items, at, found & lists.valid, n.dtype)


def _ranks(items: pa.Array, held: Ints) -> Any:
    """Return numbers that are ordered as the items at some positions are."""
    if from_arrow(items.type).kind in TEXT:
        texts = pc.take(items, arrow_of(held))
        return numbers_of(pc.rank(texts, tiebreaker="dense"))
    points = from_array(items).points[held]
    if points.dtype == object:  # long decimals
        return np.unique(points, return_inverse=True)[1]
    if points.dtype.kind != "f":
        return points
    points = points + points.dtype.type(0)  # -0.0 equals 0.0
    return np.unique(points, return_inverse=True)[1] if np.isnan(points).any() else points


def dense(items: pa.Array) -> Ints:
    """Return numbers that are ordered as items are; NULL has the least, 0."""
    held = np.flatnonzero(booleans_of(pc.is_valid(items)))
    out = np.zeros(len(items), np.int64)
    out[held] = np.unique(_ranks(items, held), return_inverse=True)[1] + 1
    return out


def _two_zeros(lists: Lists) -> Mask:
    """Return a mask of the rows with both 0.0 and -0.0.

    They are equal, but the order, and in some versions of Spark the number, of both is not certain.
    """
    if from_arrow(lists.parts[0].type).kind is not Kind.FLOAT:
        return np.zeros(len(lists.valid), np.bool_)
    points = from_array(lists.parts[0]).points
    held, sign = booleans_of(pc.is_valid(lists.parts[0])), np.signbit(points)
    zero = (points == 0) & held
    return (lists.counts(zero & sign) > 0) & (lists.counts(zero & ~sign) > 0) & lists.valid


def in_order(n: Node, lists: Lists, batch: pa.RecordBatch) -> Lists:
    """Return sort_array; NULL comes first, or last in descending order."""
    (items,), rows = lists.parts, lists.rows()
    ranks, valid, may_raise = dense(items), lists.valid, lists.may_raise | _two_zeros(lists)
    if len(n.args) > 1:
        up = values_of(n.args[1], batch, {})
        valid, may_raise = valid & up.valid, may_raise | up.may_raise
        ranks = np.where(np.broadcast_to(up.points != 0, len(valid))[rows], ranks, -ranks)
    taken = pc.take(items, arrow_of(np.lexsort((ranks, rows))))
    return replace(lists, valid=valid, may_raise=may_raise, parts=(taken,))


def distinct(n: Node, lists: Lists, batch: pa.RecordBatch) -> Lists:
    """Return array_distinct, which keeps the first of equal items."""
    rows, ranks = lists.rows(), dense(lists.parts[0])
    order = np.lexsort((ranks, rows))
    first = np.ones(len(order), np.bool_)
    first[1:] = (np.diff(rows[order]) != 0) | (np.diff(ranks[order]) != 0)
    kept = np.zeros(len(order), np.bool_)
    kept[order[first]] = True
    return replace(lists, may_raise=lists.may_raise | _two_zeros(lists)).kept(kept)
