"""Fields of structs in arrays and maps: `items[0].sku`, `items.sku`, `m.k.sku`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from skipstone.ir import types as ty
from skipstone.ir.comparisons import compare
from skipstone.ir.function import has_items
from skipstone.ir.functions.build import build, call_of, lambda_call, plain_call
from skipstone.ir.node import FIELDS, Node, Op, Path, literal, unknown
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.simplify import simplify
from skipstone.ir.text import show
from skipstone.ir.types import DType, Kind, Leaf, list_type, to_python

PARAMETER: Final = "\0v"
# Functions that return an item of an array or map.
OF_ITEM: Final = (
    *("[]", "get", "element_at", "try_element_at"),
    *("map_value", "map_element"),
)


def of_items(
    n: Node, args: tuple[Node, ...], leaves: Mapping[Path, Leaf], session: Session
) -> Node | None:
    """Bind fields of items, and tests of arrays of structs.

    Args:
        n: A call of two arguments.
        args: These, bound.
        leaves: The schema's columns.
        session: The Spark settings.

    Returns:
        The bound call; None if it is none of these.
    """
    source, other = args
    if n.value == "array_contains":
        return as_exists(source, other, session)
    of_map = source.dtype is not None and source.dtype.entries is not None
    is_name = other.op is Op.LITERAL and other.dtype == ty.STRING and other.value is not None
    if source.op is Op.UNKNOWN or (n.value == "[]" and (of_map or not is_name)):
        return None
    name = str(to_python(other.value, ty.STRING))
    if source.op is Op.COLUMN and isinstance(source.value, tuple):
        fold = str if session.case_sensitive else str.lower
        key = tuple(map(fold, (*source.value, name)))
        found = [leaf for path, leaf in leaves.items() if tuple(map(fold, path)) == key]
        if len(found) == 1 and not found[0].char_length:
            return Node(Op.COLUMN, value=found[0].path, dtype=found[0].dtype)
    return fields_of(source, (name,), show(Node(n.op, args, "[]")), session)


def fields_of(n: Node, names: Path, text: str, session: Session) -> Node:
    """Bind a field of items, or the value of a map; UNKNOWN if it is not understood."""
    try:
        for name in names:
            n = field_of(n, name, session)
    except CannotJudge as e:
        return unknown(text, str(e), e.hint)
    return n


def field_of(n: Node, name: str, session: Session) -> Node:
    """Return a field of a bound scalar, as `n.name` has it: of a map, the value of a key.

    Raises:
        CannotJudge: the scalar has no such field, or the field is not understood.
    """
    if n.dtype is not None and n.dtype.entries is not None:
        return build("map_value", (n, literal(name.encode(), ty.STRING)), session)
    if has_items(n.dtype):
        return _field_of_items(n, name, session)
    if n.op is Op.CALL and call_of(n).name in OF_ITEM:
        source, which = n.args
        return plain_call(call_of(n).name, (_field_of_items(source, name, session), which), session)
    raise CannotJudge(f"{n.dtype} has no fields")


def split(n: Node) -> tuple[Node, Path]:
    """Return the array or map of structs, and the path of the field that a scalar has of each."""
    if n.op is Op.CALL and call_of(n).name == FIELDS:
        return n.args[0], call_of(n).body
    return n, ()


def _field_of_items(n: Node, name: str, session: Session) -> Node:
    source, path = split(n)
    fold = (lambda s: s) if session.case_sensitive else str.lower
    assert source.dtype is not None
    key = (*path, name)
    found = [
        f.path for f in _record(source.dtype) if tuple(map(fold, f.path)) == tuple(map(fold, key))
    ]
    if len(found) != 1:
        raise CannotJudge(f"{show(n)} has {len(found) or 'no'} fields {name!r}")
    return fields_at(source, found[0], session)


def _record(dtype: DType) -> tuple[Leaf, ...]:
    return dtype.record if dtype.entries is None else dtype.entries[1].record


def fields_at(source: Node, path: Path, session: Session) -> Node:
    """Return the array or map of a field of all structs of a bound array or map.

    Raises:
        CannotJudge: the field is not understood.
    """
    if not path:
        return source
    own = source.dtype
    assert own is not None
    inside = [f for f in _record(own) if f.path[: len(path)] == path]
    if inside[0].char_length:
        raise CannotJudge(f"CHAR values in {own} are not understood")
    field, *below = (replace(f, path=f.path[len(path) :]) for f in inside)
    if own.entries is None:
        dtype = list_type(field.dtype, tuple(below))
    else:
        value = replace(field.dtype, record=tuple(below)) if below else field.dtype
        name = f"map<{own.entries[0]},{value}>"
        dtype = DType(Kind.OTHER, name=name, entries=(own.entries[0], value))
    return lambda_call(FIELDS, (source,), path, dtype, session)


def _widens(element: DType, value: Node) -> bool:
    """Return True for a literal of another type that array_contains compares as `=` does.

    Spark makes an INT beside FLOAT elements a FLOAT, and for `=`, in ANSI mode, both a DOUBLE.
    """
    kind = value.dtype and value.dtype.kind
    if kind is Kind.INT and isinstance(value.value, int):
        if element.kind is Kind.DECIMAL:
            return element.precision <= 18  # no digits are lost beside the 20 of a BIGINT
        return element == ty.DOUBLE or (element == ty.FLOAT and abs(value.value) <= 2**24)
    return kind is Kind.DECIMAL and element.kind is Kind.FLOAT


def as_exists(array: Node, value: Node, session: Session) -> Node | None:
    """Return `array_contains(items.sku, 'x')` as `exists(items, v -> v.sku = 'x')`.

    Returns:
        The test, which prunes by the field's bounds; None for other arrays and values.
    """
    source, path = split(array)
    if array.dtype is None or not (array.dtype.record or path) or not has_items(array.dtype):
        return None
    element = array.dtype.element or array.dtype.record[0].dtype
    given = value.dtype
    if value.op is not Op.LITERAL or value.value is None or given is None:
        return None
    alike = element.kind is given.kind and element.zoned == given.zoned
    if not element.ordered or element.kind is Kind.UINT or not (alike or _widens(element, value)):
        return None
    column = Node(Op.COLUMN, value=(PARAMETER, *path), dtype=element)
    body = simplify(compare(Op.EQ, column, value, session))
    return lambda_call("exists", (source,), (body, PARAMETER), ty.BOOL, session)
