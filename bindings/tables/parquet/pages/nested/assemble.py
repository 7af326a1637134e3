"""Put a nested column together from its Parquet columns, which were decoded one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
import pyarrow as pa

from skipstone.bindings.tables.files import Ints
from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, int64_of, known_of
from skipstone.ir.errors import SourceError
from skipstone.ir.node import ELEMENT, KEY, VALUE, Path
from skipstone.kernels.pack.planes import Mask

T = TypeVar("T")


def assembled(
    arrow_type: pa.DataType, chains: Mapping[Path, pa.Array], *, nullable: bool = True
) -> pa.Array:
    """Return a column of a nested type.

    Args:
        arrow_type: The type.
        chains: The path of each Parquet column, below the column -> its values, within structs of
            one field and lists. Structs get only those fields that have a Parquet column here.
        nullable: False if values are NULL only where the struct around them is.

    Raises:
        SourceError: Parquet columns disagree about which structs are NULL, or how long lists are.

    Example:
        >>> a, b = pa.array([{"inner": 1}, None]), pa.array([{"inner": "x"}, None])
        >>> kind = pa.struct([("a", pa.int64()), ("b", pa.string())])
        >>> assembled(kind, {("a",): a, ("b",): b}).to_pylist()
        [{'a': 1, 'b': 'x'}, None]
    """
    if () in chains:
        values = chains[()]
        return values if values.type == arrow_type else pc.cast(values, arrow_type)
    if pa.types.is_struct(arrow_type):
        return _struct(arrow_type, chains, nullable=nullable)
    each = [_lengths(part) for part in chains.values()]
    lengths, nulls = each[0]
    if not all(_same(lengths, n) and _same(nulls, m) for n, m in each[1:]):
        raise SourceError("the Parquet columns of a list or map disagree about its length")
    inner = {path: part.flatten() for path, part in chains.items()}
    offsets = np.append(0, np.cumsum(lengths))
    mask = None if nulls is None else arrow_of(nulls)
    if pa.types.is_map(arrow_type):
        key = assembled(arrow_type.key_type, _below(inner, KEY))
        item = assembled(arrow_type.item_type, _below(inner, VALUE))
        kind = pa.map_(
            arrow_type.key_field.with_type(key.type),
            arrow_type.item_field.with_type(item.type),
            arrow_type.keys_sorted,
        )
        at = arrow_of(offsets.astype(np.int32))
        return pa.MapArray.from_arrays(at, key, item, type=kind, mask=mask)
    element = assembled(arrow_type.value_type, _below(inner, ELEMENT))
    field = arrow_type.value_field.with_type(element.type)
    if pa.types.is_large_list(arrow_type):
        kind = pa.large_list(field)
        return pa.LargeListArray.from_arrays(arrow_of(offsets), element, type=kind, mask=mask)
    at = arrow_of(offsets.astype(np.int32))
    return pa.ListArray.from_arrays(at, element, type=pa.list_(field), mask=mask)


def _struct(
    arrow_type: pa.StructType, chains: Mapping[Path, pa.Array], *, nullable: bool
) -> pa.Array:
    """Return a column of structs."""
    parts = list(chains.values())
    # Within a NULL struct, Arrow reads a required struct as NULL only if it is around a list.
    nulls = _nulls(parts[0]) if nullable else None
    if nullable and not all(_same(nulls, _nulls(part)) for part in parts[1:]):
        raise SourceError("the Parquet columns of a struct disagree about which structs are NULL")
    inner = {path: part.field(0) for path, part in chains.items()}
    fields, values = [], []
    for field in arrow_type:
        if own := _below(inner, field.name):
            values.append(assembled(field.type, own, nullable=field.nullable))
            fields.append(field.with_type(values[-1].type))
    mask = None if nulls is None else arrow_of(nulls)
    return pa.StructArray.from_arrays(values, fields=fields, mask=mask)


def _below(parts: Mapping[Path, T], name: str) -> dict[Path, T]:
    """Return the parts whose path begins with a name, by the rest of it."""
    return {path[1:]: part for path, part in parts.items() if path[0] == name}


def _lengths(lists: pa.Array) -> tuple[Ints, Mask | None]:
    """Return the lengths of lists, 0 for NULL, and the mask of those that are NULL."""
    return int64_of(lists.value_lengths()), _nulls(lists)


def _nulls(values: pa.Array) -> Mask | None:
    """Return the mask of values that are NULL; None if none is."""
    if not values.null_count:
        return None
    known = known_of(values)
    return None if known is None else ~known


def _same(a: Mask | Ints | None, b: Mask | Ints | None) -> bool:
    return a is b or (a is not None and b is not None and bool(np.array_equal(a, b)))
