"""Functions of lists and maps, for all rows at once.

`arrays.py` and `maps.py` in `ir/functions/nested/` compute the same functions of a row; these serve
for arguments and types that this module leaves to them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, booleans_of, python_array
from skipstone.ir.errors import UnsupportedForm
from skipstone.ir.evaluation.list_orders import distinct, extreme, in_order
from skipstone.ir.evaluation.lists import Ints, Lists, equal_items
from skipstone.ir.function import Call, has_items
from skipstone.ir.functions.build import call_of
from skipstone.ir.node import FIELDS, Node, Op
from skipstone.ir.rows import column_at, values_of
from skipstone.ir.text import show
from skipstone.ir.types import TEXT, Kind, from_arrow
from skipstone.ir.values import Mask, Values, to_array

# Functions that take a lambda; their last arguments are columns that it reads.
OUTER: Final = (
    *("exists", "forall", "filter", "transform", "aggregate"),
    *("map_filter", "transform_keys", "transform_values", "zip_with"),
)
# Those of which no row is computed by itself.
WHOLE: Final = ("map_filter", "transform_keys", "transform_values", "zip_with")


def of_call(n: Node, batch: pa.RecordBatch) -> Values | None:
    """Evaluate a call whose first argument is a list or map.

    Args:
        n: The bound call.
        batch: Rows with the columns of the call.

    Returns:
        Its results; None if they must be computed row by row.

    Raises:
        UnsupportedForm: the lists have another layout, and are not computed row by row.
    """
    if n.dtype is not None and has_items(n.dtype):
        source = _source(n, batch) if _is_computed(n) else None
        made = None if source is None else LISTS[call_of(n).name](n, source, batch)
        return _by_row(n) if made is None else made.values(n.dtype)
    compute = COMPUTE.get(call_of(n).name)
    if compute is None:
        return _by_row(n)
    lists = _source(n, batch)
    others = [values_of(a, batch, {}) for a in n.args[1:] if call_of(n).name not in OUTER]
    found = None if lists is None else compute(n, lists, batch, *others)
    if found is None or lists is None:
        return _by_row(n)
    lost = lists.unknown() | lists.may_raise
    for other in others:
        lost |= other.may_raise
    return Values(
        found.dtype,
        found.array,
        found.valid & ~lost & ~found.may_raise,
        found.may_raise | lost,
    )


def lists_of(n: Node, batch: pa.RecordBatch) -> Lists | None:
    """Evaluate a scalar whose values are lists or maps; None if it has another layout.

    Raises:
        UnsupportedForm: as `of_call` does.
    """
    if n.op is Op.COLUMN:
        assert isinstance(n.value, tuple)
        return Lists.of(column_at(batch, n.value))
    if _is_computed(n):
        source = _source(n, batch)
        made = None if source is None else LISTS[call_of(n).name](n, source, batch)
        if made is not None:
            return made
        _by_row(n)
    if n.dtype is None or n.dtype.element is None:
        return None
    values, size = values_of(n, batch, {}), batch.num_rows
    found = Lists.of(to_array(replace(values, may_raise=np.zeros(1, np.bool_)), size))
    return found and replace(found, may_raise=np.array(np.broadcast_to(values.may_raise, size)))


def _is_computed(n: Node) -> bool:
    return n.op is Op.CALL and call_of(n).name in LISTS


def _source(n: Node, batch: pa.RecordBatch) -> Lists | None:
    """Return the first argument of a call; None if the call is better computed row by row."""
    source = n.args[0]
    is_call = source.op is not Op.COLUMN and not _is_computed(source)
    if is_call and not _needs_columns(n) and source.dtype is not None and source.dtype.nested:
        return None
    return lists_of(source, batch)


def _needs_columns(n: Node) -> bool:
    """Return True for a lambda of which no row is computed by itself: it reads other columns."""
    name = call_of(n).name
    if name in WHOLE:
        return True
    return name in OUTER and len(n.args) > (2 if name == "aggregate" else 1)


def _by_row(n: Node) -> Values | None:
    """Leave a call to the functions of single rows, if they have its types.

    Raises:
        UnsupportedForm: they have not.
    """
    first = n.args[0].dtype
    if first is not None and (not first.nested or _needs_columns(n) or not _is_simple(n)):
        raise UnsupportedForm(f"cannot filter rows by {show(n)}: its lists have another layout")
    return None


def _is_simple(n: Node) -> bool:
    """Return True if neither the values of a map nor the result are nested."""
    first, out = n.args[0].dtype, n.dtype
    items = first.entries[1] if first is not None and first.entries is not None else None
    of_items = items is None or items.ordered or out is None or out.ordered
    return of_items and (out is None or out.ordered or out.nested)


def _size(n: Node, lists: Lists, batch: pa.RecordBatch) -> Values:
    call, none = call_of(n), np.zeros(len(lists.valid), np.bool_)
    if call.session.ansi:
        return Values(call.dtype, lists.sizes, lists.valid, none)
    return Values(call.dtype, np.where(lists.valid, lists.sizes, -1), ~none, none)


def _beside(lists: Lists, wanted: Values) -> pa.Array:
    """Return a value of each row for each of its items; of a literal, one value."""
    if len(wanted) == 1 and wanted.dtype.kind in TEXT:  # `to_array` needs pandas
        return python_array([wanted.data[0] if wanted.valid[0] else None], pa.large_binary())
    if len(wanted) == 1:
        return to_array(wanted, 1)
    return pc.take(to_array(wanted, len(lists.valid)), arrow_of(lists.rows()))


def _contains(n: Node, lists: Lists, batch: pa.RecordBatch, wanted: Values) -> Values | None:
    (items,) = lists.parts
    if (equal := equal_items(items, _beside(lists, wanted))) is None:
        return None
    found, valid = lists.counts(equal) > 0, lists.valid & wanted.valid
    if items.null_count:
        valid = valid & (found | (lists.counts(~booleans_of(pc.is_valid(items))) == 0))
    return Values(call_of(n).dtype, found.astype(np.int64), valid, np.zeros_like(found))


def _contains_key(n: Node, lists: Lists, batch: pa.RecordBatch, key: Values) -> Values | None:
    if (equal := equal_items(lists.parts[0], _beside(lists, key))) is None:
        return None
    found, valid = lists.counts(equal) > 0, lists.valid & key.valid
    return Values(call_of(n).dtype, found.astype(np.int64), valid, np.zeros_like(found))


def _index_of(n: Node, lists: Lists, batch: pa.RecordBatch, wanted: Values) -> Values | None:
    """Return array_position: the first position of a value, from 1, and 0 without one."""
    if (equal := equal_items(lists.parts[0], _beside(lists, wanted))) is None:
        return None
    at, found = lists.first(equal)
    valid = lists.valid & wanted.valid
    return Values(call_of(n).dtype, (at - lists.starts + 1) * found, valid, np.zeros_like(found))


# Items by their positions: of which row, whether there is one, and whether Spark raises an error.
Found = tuple[Ints, Mask, Mask]


def _position(call: Call, lists: Lists, index: Values) -> Found:
    """Return the items at an index."""
    n = len(lists.valid)
    at, valid = np.broadcast_to(index.points, n), np.broadcast_to(index.valid, n) & lists.valid
    from_one = call.name.endswith("element_at")
    zero = valid & (at == 0) & from_one
    if from_one:  # counts from 1, or from the end
        at = np.where(at > 0, at - 1, lists.sizes + at)
    within = valid & ~zero & (at >= 0) & (at < lists.sizes)
    strict = call.session.ansi and call.name in ("element_at", "[]")
    return lists.starts + at, within, (valid & ~within) if strict else zero


def _key(call: Call, lists: Lists, key: Values) -> Found | None:
    """Return the value of a key; Spark finds the first of equal keys."""
    if (equal := equal_items(lists.parts[0], _beside(lists, key))) is None:
        return None
    at, found = lists.first(equal)
    return at, found & lists.valid, np.zeros(len(found), np.bool_)


def _item(n: Node, lists: Lists, batch: pa.RecordBatch, which: Values) -> Values | None:
    """Return one item of each row."""
    assert n.dtype is not None
    found = FIND[call_of(n).name](call_of(n), lists, which)
    if found is None or (n.dtype.ordered and not from_arrow(lists.parts[-1].type).ordered):
        return None
    at, within, raises = found
    out = lists.items_at(lists.parts[-1], at, within, n.dtype)
    return Values(out.dtype, out.array, out.valid, raises | out.may_raise)


def _inner(n: Node, lists: Lists, batch: pa.RecordBatch) -> Lists | None:
    """Return one item of each row, which is a list or map itself."""
    which = values_of(n.args[1], batch, {})
    found = FIND[call_of(n).name](call_of(n), lists, which)
    if found is None:
        return None
    at, within, raises = found
    return lists.lists_at(lists.parts[-1], at, within, lists.may_raise | which.may_raise | raises)


def _without(n: Node, lists: Lists, batch: pa.RecordBatch) -> Lists | None:
    """Return array_remove."""
    value = values_of(n.args[1], batch, {})
    if (equal := equal_items(lists.parts[0], _beside(lists, value))) is None:
        return None
    valid, may_raise = lists.valid & value.valid, lists.may_raise | value.may_raise
    return replace(lists, valid=valid, may_raise=may_raise).kept(~equal)


def _fields(n: Node, lists: Lists, batch: pa.RecordBatch) -> Lists:
    """Return a field of all structs of a list, or of a map's values."""
    *keys, items = lists.parts
    path = call_of(n).body
    return replace(lists, parts=(*keys, column_at(_batch({"": items}), ("", *path))))


def _batch(columns: dict[str, pa.Array]) -> pa.RecordBatch:
    return pa.record_batch(list(columns.values()), list(columns))


def _wider(n: Node, lists: Lists, batch: pa.RecordBatch) -> Lists:
    """Return items as wider integers."""
    (items,), to = lists.parts, n.dtype and n.dtype.element
    own = from_arrow(items.type)
    if to is not None and own.kind is Kind.INT and to.kind is Kind.INT and own != to:
        items = pc.cast(items, pa.from_numpy_dtype(to.numpy_type))
    return replace(lists, parts=(items,))


def _entries(n: Node, lists: Lists, batch: pa.RecordBatch) -> Lists:
    """Return the array of a map's structs of key and value."""
    return replace(lists, parts=(pa.StructArray.from_arrays(lists.parts, ["key", "value"]),))


def _flat(n: Node, lists: Lists, batch: pa.RecordBatch) -> Lists | None:
    """Return the items of an array of arrays, one after another; NULL if an array is NULL."""
    inner = Lists.of(lists.parts[0])
    if inner is None:
        return None
    gone = lists.counts(~inner.valid) > 0
    offsets = inner.offsets[lists.offsets]
    return Lists(offsets, lists.valid & ~gone, lists.may_raise, inner.parts)


def _slice(n: Node, lists: Lists, batch: pa.RecordBatch) -> Lists:
    """Return the items from a position on, which counts from 1, or from the end."""
    start, length = (values_of(a, batch, {}) for a in n.args[1:])
    valid, may_raise = lists.valid & start.valid & length.valid, start.may_raise | length.may_raise
    first = np.where(start.points > 0, start.points - 1, lists.sizes + start.points)
    bad = valid & ((start.points == 0) | (length.points < 0))
    inside = valid & ~bad & (first >= 0)
    sizes = np.where(inside, np.clip(lists.sizes - first, 0, np.maximum(length.points, 0)), 0)
    found = lists.taken(lists.starts + first, sizes)
    return replace(found, valid=valid, may_raise=lists.may_raise | may_raise | bad)


def _reversed(n: Node, lists: Lists, batch: pa.RecordBatch) -> Lists:
    return lists.taken(lists.starts + lists.sizes - 1, lists.sizes, -1)


def _compact(n: Node, lists: Lists, batch: pa.RecordBatch) -> Lists:
    return lists.kept(booleans_of(pc.is_valid(lists.parts[0])))


def _lambdas(name: str) -> Callable[..., Any]:
    """Return a function of `list_lambdas.py`, which is imported when a condition has a lambda."""

    def compute(n: Node, lists: Lists, batch: pa.RecordBatch) -> Any:
        from skipstone.ir.evaluation import list_lambdas

        return getattr(list_lambdas, name)(n, lists, batch)

    return compute


FIND: Final[dict[str, Callable[[Call, Lists, Values], Found | None]]] = {
    **dict.fromkeys(("[]", "get", "element_at", "try_element_at"), _position),
    **dict.fromkeys(("map_value", "map_element"), _key),
}
# Functions whose results are single values.
COMPUTE: Final[dict[str, Callable[..., Values | None]]] = {
    **dict.fromkeys(("size", "map_size"), _size),
    **dict.fromkeys(FIND, _item),
    **dict.fromkeys(("array_max", "array_min"), extreme),
    **dict.fromkeys(("exists", "forall"), _lambdas("by_items")),
    "aggregate": _lambdas("folded"),
    "array_contains": _contains,
    "array_position": _index_of,
    "map_contains_key": _contains_key,
}
# Functions whose results are lists or maps.
LISTS: Final[dict[str, Callable[[Node, Lists, pa.RecordBatch], Lists | None]]] = {
    **dict.fromkeys(FIND, _inner),
    FIELDS: _fields,
    "as_array": _wider,
    "filter": _lambdas("filtered"),
    "map_filter": _lambdas("filtered"),
    "transform": _lambdas("transformed"),
    "flatten": _flat,
    "slice": _slice,
    "reverse_array": _reversed,
    "array_compact": _compact,
    "sort_array": in_order,
    "array_distinct": distinct,
    "array_remove": _without,
    "transform_keys": _lambdas("transformed_keys"),
    "transform_values": _lambdas("transformed_values"),
    "zip_with": _lambdas("zipped"),
    "map_keys": lambda n, lists, batch: replace(lists, parts=lists.parts[:1]),
    "map_values": lambda n, lists, batch: replace(lists, parts=lists.parts[1:]),
    "map_entries": _entries,
}
