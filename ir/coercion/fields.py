"""Tests of a field of all structs in an array, such as `array_contains(items.sku, 'x')`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from skipstone.ir.node import Name, Node, Op, Path, parameter
from skipstone.ir.types import ELEMENTS, Kind, Leaf

ELEMENT_NAME: Final = parameter("v")


def as_exists(
    n: Node,
    leaves: Mapping[Path, Leaf],
    by_name: Mapping[Path, list[Path]],
    fold: Callable[[str], str],
) -> Node | None:
    """Return `array_contains(items.sku, 'x')` as `exists(items, v -> v.sku = 'x')`.

    In Spark, `items.sku` is the array of a field's values, if `items` is an array of structs.

    Args:
        n: A call of array_contains; its first argument is not bound yet.
        leaves: The schema's columns.
        by_name: Their paths by name, from `paths_by_name`.
        fold: Turns a name into the form that is compared.

    Returns:
        The unbound test; None for other calls.
    """
    (column, value), name = n.args, n.args[0].value
    if column.op is not Op.COLUMN or not isinstance(name, Name):
        return None
    if value.op is not Op.LITERAL or value.value is None:
        return None
    key = tuple(map(fold, name.parts))
    for length in range(1, len(key)):
        paths = by_name.get(key[:length], [])
        if len(paths) != 1 or not leaves[paths[0]].dtype.record:
            continue
        record = leaves[paths[0]].dtype.record
        fields = [f for f in record if tuple(map(fold, f.path)) == key[length:]]
        given = value.dtype
        if len(fields) != 1 or given is None or fields[0].dtype.kind not in ELEMENTS:
            return None
        if fields[0].dtype != given and {fields[0].dtype.kind, given.kind} != {Kind.INT}:
            return None
        field = Node(Op.COLUMN, value=Name((*ELEMENT_NAME.parts, *fields[0].path)))
        test = Node(Op.LAMBDA, (Node(Op.EQ, (field, value)),), (ELEMENT_NAME,))
        return Node(Op.CALL, (Node(Op.COLUMN, value=Name(paths[0])), test), "exists")
    return None
