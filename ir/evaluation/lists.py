"""The usual functions of a list or map column and literals, for all rows at once.

`ir/functions/arrays.py` and `ir/functions/maps.py` compute the same functions row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, booleans_of, int64_of, plain, scalar_of
from skipstone.ir.errors import UnsupportedForm
from skipstone.ir.function import Call
from skipstone.ir.functions.build import call_of
from skipstone.ir.node import Node, Op
from skipstone.ir.text import show
from skipstone.ir.types import TEXT, DType, Kind, from_arrow
from skipstone.ir.values import Mask, Values, from_array, malformed

Ints = npt.NDArray[np.int64]
# If a mask holds for fewer than one in this many items, their rows are looked up one by one.
ITEMS_PER_LOOKUP: Final = 16


@dataclass(frozen=True, slots=True)
class _Lists:
    """The lists or maps of n rows.

    Attributes:
        starts, stops: Where the items of each row lie, shape (n,).
        valid: Not NULL, shape (n,).
        parts: The items of all rows; of maps the keys and the values.
        element: The type that the items have in the call; None for maps.
    """

    starts: Ints
    stops: Ints
    valid: Mask
    parts: tuple[pa.Array, ...]
    element: DType | None

    @staticmethod
    def of(array: pa.Array, element: DType | None) -> _Lists | None:
        """Return the rows of an array; None if it is of another layout."""
        array = plain(array)
        parts: tuple[pa.Array, ...]
        if isinstance(array, pa.MapArray):
            parts = (array.keys, array.items)
        elif isinstance(array, pa.ListArray | pa.LargeListArray):
            parts = (array.values,)
        else:
            return None
        offsets = int64_of(array.offsets)
        first, last = int(offsets[0]), int(offsets[-1])
        return _Lists(
            offsets[:-1] - first,
            offsets[1:] - first,
            booleans_of(pc.is_valid(array)),
            tuple(plain(part.slice(first, last - first)) for part in parts),
            element,
        )

    def counts(self, items: Mask) -> Ints:
        """Return how many items of each row a mask holds for."""
        at = np.flatnonzero(items)
        if len(at) * ITEMS_PER_LOOKUP < len(items):
            return np.bincount(self.rows_of(at), minlength=len(self.valid))
        width: Any = np.int32 if len(items) < 1 << 31 else np.int64
        sums = np.zeros(len(items) + 1, width)
        np.cumsum(items, dtype=sums.dtype, out=sums[1:])
        return np.asarray(sums[self.stops] - sums[self.starts], np.int64)

    def rows_of(self, at: Ints) -> Ints:
        """Return the rows of items, given by their positions."""
        if len(at) * ITEMS_PER_LOOKUP < len(self.parts[0]):
            return np.searchsorted(self.stops, at, side="right")
        return np.repeat(np.arange(len(self.valid)), self.stops - self.starts)[at]

    def unknown(self) -> Mask:
        """Return a mask of the rows that hold text that is not UTF-8."""
        out = np.zeros(len(self.valid), np.bool_)
        for part in self.parts:
            if from_arrow(part.type).kind is Kind.STRING and (bad := malformed(part)).any():
                out |= self.counts(bad) > 0
        return out & self.valid

    def items_at(self, part: pa.Array, at: Ints, found: Mask, call: Call) -> Values:
        """Return an item of each row in which one was found; NULL in the others."""
        items, n = from_array(part), len(found)
        valid = np.zeros(n, np.bool_)
        valid[found] = np.broadcast_to(items.valid, len(part))[at[found]]
        if isinstance(items.array, np.ndarray):
            chosen = np.zeros(n, items.array.dtype)
            chosen[found] = items.array[at[found]]
            return Values(call.dtype, chosen, valid, np.zeros(n, np.bool_))
        taken = pc.take(items.array, arrow_of(np.where(found, at, 0), found))
        return Values(call.dtype, taken, valid, np.zeros(n, np.bool_))


def of_column(n: Node, column: Callable[[Node], pa.Array]) -> Values | None:
    """Evaluate a call of a list or map column and literals.

    Args:
        n: The bound call.
        column: Returns the rows' values of a column.

    Returns:
        Its results; None if they must be computed row by row.
    """
    call = call_of(n)
    compute = COMPUTE.get(call.name)
    if compute is None:
        return None
    source, *others = n.args
    element = None if source.dtype is None else source.dtype.element
    if source.op is Op.CALL and call_of(source).name == "as_array" and len(source.args) == 1:
        (source,) = source.args
    literals = [o.value for o in others if o.op is Op.LITERAL and o.value is not None]
    if source.op is not Op.COLUMN or len(literals) < len(others):
        return None
    lists = _Lists.of(column(source), element)
    found = None if lists is None else compute(call, lists, *literals)
    if found is None and source.dtype is not None and source.dtype.record:
        raise UnsupportedForm(f"cannot filter rows by {show(n)}: its lists have another layout")
    if found is None or lists is None:
        return None
    unknown = lists.unknown()
    return Values(
        found.dtype,
        found.array,
        found.valid & ~unknown & ~found.may_raise,
        found.may_raise | unknown,
    )


def _size(call: Call, lists: _Lists) -> Values:
    sizes, none = lists.stops - lists.starts, np.zeros(len(lists.valid), np.bool_)
    if call.session.ansi:
        return Values(call.dtype, sizes, lists.valid, none)
    return Values(call.dtype, np.where(lists.valid, sizes, -1), ~none, none)


def _equal(items: pa.Array, value: object) -> Mask | None:
    """Return a mask of the items that equal a value; None for types without a simple equality."""
    dtype = from_arrow(items.type)
    if not dtype.ordered or dtype.kind is Kind.FLOAT:
        return None
    if dtype.kind in TEXT:
        if pa.types.is_string(items.type):
            raw = items.view(pa.binary())
        else:
            raw = pc.cast(items, pa.large_binary())
        return booleans_of(pc.equal(raw, scalar_of(value, raw.type)))
    values = from_array(items)
    return np.asarray((values.points == value) & values.valid, np.bool_)


def _contains(call: Call, lists: _Lists, value: object) -> Values | None:
    (items,) = lists.parts
    if (equal := _equal(items, value)) is None:
        return None
    found, valid = lists.counts(equal) > 0, lists.valid
    if items.null_count:
        valid = valid & (found | (lists.counts(~booleans_of(pc.is_valid(items))) == 0))
    return Values(call.dtype, found.astype(np.int64), valid, np.zeros_like(found))


def _at(call: Call, lists: _Lists, index: object) -> Values | None:
    (items,) = lists.parts
    if not from_arrow(items.type).ordered or not isinstance(index, int):
        return None
    sizes, at = lists.stops - lists.starts, np.full(len(lists.valid), index, np.int64)
    if call.name.endswith("element_at"):  # counts from 1, or from the end
        at = at - 1 if index > 0 else sizes + index
    within = lists.valid & (at >= 0) & (at < sizes)
    out = lists.items_at(items, lists.starts + at, within, call)
    raises = np.zeros_like(within)
    if index == 0 and call.name.endswith("element_at"):
        raises = lists.valid
    elif call.session.ansi and call.name in ("element_at", "[]"):
        raises = lists.valid & ~within
    return Values(out.dtype, out.array, out.valid, raises)


def _value(call: Call, lists: _Lists, key: object) -> Values | None:
    keys, values = lists.parts
    if (equal := _equal(keys, key)) is None or not from_arrow(values.type).ordered:
        return None
    hits = np.flatnonzero(equal)
    rows = lists.rows_of(hits)
    first = np.ones(len(hits), np.bool_)
    np.not_equal(rows[1:], rows[:-1], out=first[1:])
    at, found = np.zeros(len(lists.valid), np.int64), np.zeros(len(lists.valid), np.bool_)
    at[rows[first]], found[rows] = hits[first], True
    return lists.items_at(values, at, found & lists.valid, call)


def _contains_key(call: Call, lists: _Lists, key: object) -> Values | None:
    if (equal := _equal(lists.parts[0], key)) is None:
        return None
    found = lists.counts(equal) > 0
    return Values(call.dtype, found.astype(np.int64), lists.valid, np.zeros_like(found))


def _by_items(call: Call, lists: _Lists) -> Values | None:
    """Return exists or forall."""
    from skipstone.ir.rows import judge

    body, name, *_ = call.body
    (items,) = lists.parts
    some = call.name == "exists"
    if not len(items):
        none = np.zeros(len(lists.valid), np.int64)
        return Values(call.dtype, none if some else none + 1, lists.valid, none > 0)
    if lists.element is not None and from_arrow(items.type) != lists.element:
        return None
    truth = judge(body, pa.record_batch([items], [name]), {})
    # Whether Spark evaluates an item that raises an error depends on those before it.
    if truth.may_raise.any() and lists.element is not None:
        return None
    decided = lists.counts(truth.true if some else truth.false) > 0
    found, valid = decided if some else ~decided, lists.valid
    if (nulls := ~(truth.true | truth.false)).any():
        valid = valid & (decided | (lists.counts(nulls) == 0))
    may_raise = lists.counts(truth.may_raise) > 0
    return Values(call.dtype, found.astype(np.int64), valid & ~may_raise, may_raise & lists.valid)


COMPUTE: Final[dict[str, Callable[..., Values | None]]] = {
    **dict.fromkeys(("size", "map_size"), _size),
    **dict.fromkeys(("[]", "get", "element_at", "try_element_at"), _at),
    **dict.fromkeys(("map_value", "map_element"), _value),
    **dict.fromkeys(("exists", "forall"), _by_items),
    "array_contains": _contains,
    "map_contains_key": _contains_key,
}
