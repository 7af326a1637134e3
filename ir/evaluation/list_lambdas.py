"""Functions of lists and maps that take a lambda, for all rows at once.

The lambda is judged on a batch of all items, beside the columns of their rows that it reads.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, plain
from skipstone.ir.evaluation.list_orders import dense
from skipstone.ir.evaluation.lists import Ints, Lists
from skipstone.ir.function import has_items
from skipstone.ir.functions.build import call_of
from skipstone.ir.node import Node, Op
from skipstone.ir.rows import column_at, judge, values_of
from skipstone.ir.values import Mask, Values, to_array

LAST: Final = np.iinfo(np.int64).max


def _items(n: Node, lists: Lists, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the items of all rows, as the columns that a lambda reads.

    Args:
        n: The call; its arguments after the first are columns that the lambda reads.
        lists: Its first argument.
        batch: The rows.
    """
    _, *names = call_of(n).body
    rows = lists.rows()
    columns = dict(zip(names, lists.parts, strict=False))
    for name in names[len(lists.parts) :]:  # the index of an item in its list
        columns[name] = arrow_of((np.arange(len(rows)) - lists.starts[rows]).astype(np.int32))
    return _with_columns(columns, n.args[1:], batch, rows)


def _with_columns(
    columns: dict[str, pa.Array], others: tuple[Node, ...], batch: pa.RecordBatch, rows: Ints
) -> pa.RecordBatch:
    for other in others:
        assert isinstance(other.value, tuple)
        if other.value[0] not in columns:
            column = plain(batch.column(other.value[0]))
            columns[other.value[0]] = pc.take(column, arrow_of(rows))
    return pa.record_batch(list(columns.values()), list(columns))


def by_items(n: Node, lists: Lists, batch: pa.RecordBatch) -> Values:
    """Return exists or forall: Spark stops at the first item that decides."""
    call = call_of(n)
    some, none = call.name == "exists", np.zeros(len(lists.valid), np.bool_)
    if not len(lists.parts[0]):  # functions that take columns whole may need an item
        return Values(call.dtype, (none ^ (not some)).astype(np.int64), lists.valid, none)
    truth = judge(call.body[0], _items(n, lists, batch), {})
    at, decided = lists.first(truth.true if some else truth.false)
    found, valid = decided if some else ~decided, lists.valid
    if (nulls := ~(truth.true | truth.false)).any():
        valid = valid & (decided | (lists.counts(nulls) == 0))
    if truth.may_raise.any():
        bad, raised = lists.first(truth.may_raise)
        none = raised & (bad < np.where(decided, at, LAST)) & lists.valid
    return Values(call.dtype, found.astype(np.int64), valid & ~none, none)


def filtered(n: Node, lists: Lists, batch: pa.RecordBatch) -> Lists:
    """Return filter or map_filter."""
    if not len(lists.parts[0]):
        return lists
    truth = judge(call_of(n).body[0], _items(n, lists, batch), {})
    return _raising(lists, truth.may_raise).kept(truth.true)


def transformed(n: Node, lists: Lists, batch: pa.RecordBatch) -> Lists | None:
    """Return transform; None if its results have no Arrow type here."""
    found = _results(n, _items(n, lists, batch))
    return None if found is None else replace(_raising(lists, found[1]), parts=found[:1])


def transformed_values(n: Node, lists: Lists, batch: pa.RecordBatch) -> Lists | None:
    """Return transform_values."""
    found = _results(n, _items(n, lists, batch))
    if found is None:
        return None
    return replace(_raising(lists, found[1]), parts=(lists.parts[0], found[0]))


def transformed_keys(n: Node, lists: Lists, batch: pa.RecordBatch) -> Lists | None:
    """Return transform_keys; Spark raises an error for equal keys, by default, and for NULL."""
    found = _results(n, _items(n, lists, batch))
    if found is None:
        return None
    keys, lost = found
    ranks, rows = dense(keys), lists.rows()
    order = np.lexsort((ranks, rows))
    again = np.zeros(len(order), np.bool_)
    again[order[1:]] = (np.diff(rows[order]) == 0) & (np.diff(ranks[order]) == 0)
    bad = lost | again | (ranks == 0)
    return replace(_raising(lists, bad), parts=(keys, lists.parts[1])).kept(~bad)


def zipped(n: Node, lists: Lists, batch: pa.RecordBatch) -> Lists | None:
    """Return zip_with; the shorter of two arrays continues with NULL."""
    from skipstone.ir.evaluation.list_calls import lists_of

    other = lists_of(n.args[1], batch)
    if other is None:
        return None
    valid, may_raise = lists.valid & other.valid, lists.may_raise | other.may_raise
    sizes = np.where(valid, np.maximum(lists.sizes, other.sizes), 0)
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    rows = np.repeat(np.arange(len(sizes)), sizes)
    within = np.arange(len(rows)) - offsets[rows]
    columns = {
        name: pc.take(
            side.parts[0], arrow_of(side.starts[rows] + within, within < side.sizes[rows])
        )
        for name, side in zip(call_of(n).body[1:], (lists, other), strict=True)
    }
    found = _results(n, _with_columns(columns, n.args[2:], batch, rows))
    if found is None:
        return None
    return _raising(Lists(offsets, valid, may_raise, found[:1]), found[1])


def _results(n: Node, items: pa.RecordBatch) -> tuple[pa.Array, Mask] | None:
    """Return a lambda's values, and a mask of those that may raise; None without an Arrow type."""
    body, size = call_of(n).body[0], items.num_rows
    if body.op is Op.COLUMN:
        return column_at(items, body.value), np.zeros(size, np.bool_)
    if has_items(body.dtype) and body.dtype.element is None:
        return None
    if not size:  # functions that take columns whole may need an item
        none = np.zeros(0, np.bool_)
        return to_array(Values(body.dtype, np.zeros(0, np.int64), none, none), 0), none
    values = values_of(body, items, {})
    lost = np.array(np.broadcast_to(values.may_raise, size))
    return to_array(values, size), lost


def _raising(lists: Lists, items: Mask) -> Lists:
    """Mark the rows of items for which Spark may raise an error."""
    if not items.any():
        return lists
    return replace(lists, may_raise=lists.may_raise | (lists.valid & (lists.counts(items) > 0)))


def folded(n: Node, lists: Lists, batch: pa.RecordBatch) -> Values:
    """Return aggregate: fold each array from left to right."""
    call, size = call_of(n), len(lists.valid)
    body, left, right = call.body
    start = values_of(n.args[1], batch, {})
    lost = np.array(np.broadcast_to(start.may_raise, size)) & lists.valid
    sofar = to_array(start, size)
    for index in range(int(lists.sizes[lists.valid].max(initial=0))):
        rows = np.flatnonzero(lists.valid & ~lost & (lists.sizes > index))
        at: Any = arrow_of(lists.starts[rows] + index)
        columns = {left: pc.take(sofar, arrow_of(rows)), right: pc.take(lists.parts[0], at)}
        if not len(rows):
            break
        found = values_of(body, _with_columns(columns, n.args[2:], batch, rows), {})
        lost[rows] = np.broadcast_to(found.may_raise, len(rows))
        where = np.zeros(size, np.bool_)
        where[rows] = True
        sofar = pc.replace_with_mask(sofar, arrow_of(where), to_array(found, len(rows)))
    return _as_values(call.dtype, sofar, lists.valid, lost)


def _as_values(dtype: Any, array: pa.Array, valid: Mask, may_raise: Mask) -> Values:
    from skipstone.ir.values import from_array

    found = from_array(array)
    return Values(dtype, found.array, np.broadcast_to(found.valid, len(valid)) & valid, may_raise)
