"""Binding of calls that take a lambda: the types of its parameters, and of the call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from skipstone.ir import types as ty
from skipstone.ir.coercion.fields import fields_at, split
from skipstone.ir.function import element, has_items, readable
from skipstone.ir.functions.build import lambda_call
from skipstone.ir.functions.nested.maps import entries
from skipstone.ir.node import Name, Node, Op, Path
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import DType, Kind, Leaf, list_type

# The number of a function's other arguments, and of the parameters that its lambda may have.
ARITY: Final[dict[str, tuple[int, tuple[int, ...]]]] = {
    "exists": (1, (1,)), "forall": (1, (1,)), "filter": (1, (1, 2)), "transform": (1, (1, 2)),
    "aggregate": (2, (2,)), "map_filter": (1, (2,)), "transform_keys": (1, (2,)),
    "transform_values": (1, (2,)), "zip_with": (2, (2,)),
}  # fmt: skip
ALSO: Final = {"reduce": "aggregate"}  # other names
CONDITIONS: Final = ("exists", "forall", "filter", "map_filter")  # their lambda is a condition


def parameters(name: str, lambda_: Node, args: tuple[Node, ...]) -> dict[Path, Leaf]:
    """Return a lambda's parameters, and their fields, as columns.

    Args:
        name: The function.
        lambda_: The unbound lambda.
        args: The function's other arguments, bound.

    Raises:
        CannotJudge: the call is not understood.
    """
    names = [n.parts for n in names_of(lambda_)]
    count, known = ARITY.get(name, (0, ()))
    if len(args) != count or len(names) not in known:
        raise CannotJudge("the lambda is not understood")
    if len(set(names)) < len(names):
        raise CannotJudge("two parameters of the lambda have one name")
    if name == "zip_with":
        return _leaves(names[0], _items(args[0])) | _leaves(names[1], _items(args[1]))
    if name in ("map_filter", "transform_keys", "transform_values"):
        key, value = entries(args[0])
        record = () if has_items(value) else value.record
        return _leaves(names[0], (Leaf((), key, True),)) | _leaves(
            names[1], (Leaf((), value, True), *record)
        )
    items = _leaves(names[1 if name == "aggregate" else 0], _items(args[0]))
    if name == "aggregate":
        assert args[1].dtype is not None
        return _leaves(names[0], (Leaf((), args[1].dtype, True),)) | items
    index = Leaf((), ty.INT32, False)  # of the item, from 0
    return items | (_leaves(names[1], (index,)) if len(names) > 1 else {})


def _items(n: Node) -> tuple[Leaf, ...]:
    if n.dtype is not None and n.dtype.record and has_items(n.dtype):
        return n.dtype.record
    return (Leaf((), element(n), True),)


def _leaves(name: Path, leaves: tuple[Leaf, ...]) -> dict[Path, Leaf]:
    return {(*name, *f.path): replace(f, path=(*name, *f.path), nullable=True) for f in leaves}


def names_of(lambda_: Node) -> tuple[Name, ...]:
    """Return the names of a lambda's parameters."""
    assert isinstance(lambda_.value, tuple)
    return lambda_.value


def visible(
    name: str, lambda_: Node, args: tuple[Node, ...], leaves: Mapping[Path, Leaf]
) -> dict[Path, Leaf]:
    """Return the columns that a lambda may name: its parameters hide those around it.

    Raises as `parameters` does.
    """
    found, names = parameters(name, lambda_, args), names_of(lambda_)
    columns = [c.value for c in lambda_.walk() if c.op is Op.COLUMN]
    if all(isinstance(c, Name) and Name(c.parts[:1]) in names for c in columns):
        return found
    own = {path[0] for path in found}
    return found | {path: leaf for path, leaf in leaves.items() if path[0] not in own}


def call(
    name: str, args: tuple[Node, ...], body: Node, names: tuple[Name, ...], session: Session
) -> Node:
    """Return the call of a function that takes a bound lambda.

    Other columns that the lambda reads are arguments of the call, after those of the function.

    Raises:
        CannotJudge: the type of the lambda's result is not understood.
    """
    if unsupported := next((n for n in body.walk() if n.op is Op.UNKNOWN), None):
        return unsupported
    own = [n.parts[0] for n in names]
    if name == "transform" and body.op is Op.COLUMN and _root(body) == own[0]:
        source, path = split(args[0])
        return fields_at(source, (*path, *_path(body)[1:]), session)
    if name in ("exists", "forall"):
        args, body = _of_structs(args, body, own[0])
    to = _type(name, args, body)
    columns = dict.fromkeys(c for c in body.walk() if c.op is Op.COLUMN and _root(c) not in own)
    if not to.ordered and not to.nested and all(a.op is Op.LITERAL for a in args):
        raise CannotJudge(f"{to} of literals is not understood")
    return lambda_call(name, (*args, *columns), (body, *own), to, session)


def _type(name: str, args: tuple[Node, ...], body: Node) -> DType:
    """Return the type of a call's result."""
    first = args[0].dtype
    assert first is not None
    if name in ("filter", "map_filter"):
        return first
    if name in CONDITIONS:
        return ty.BOOL
    if body.dtype is None:
        raise CannotJudge("the lambda is not understood")
    if name == "transform_values":
        if not body.dtype.ordered or first.entries is None:
            raise CannotJudge(f"a map of {body.dtype} is not understood")
        map_name = f"map<{first.entries[0]},{body.dtype}>"
        return DType(Kind.OTHER, name=map_name, entries=(first.entries[0], readable(body.dtype)))
    if name == "transform_keys":
        if first.entries is None or body.dtype.kind not in ty.ELEMENTS:
            raise CannotJudge(f"a map with keys of {body.dtype} is not understood")
        map_name = f"map<{body.dtype},{first.entries[1]}>"
        return DType(Kind.OTHER, name=map_name, entries=(body.dtype, first.entries[1]))
    if name in ("transform", "zip_with"):
        if not body.dtype.ordered and body.dtype.element is None and body.dtype != ty.NULL:
            raise CannotJudge(f"an array of {body.dtype} is not understood")
        return list_type(readable(body.dtype))
    to = args[1].dtype
    if body.dtype != to or not to.ordered:
        raise CannotJudge(f"the lambda gives {body.dtype}, and the start is {to}")
    return readable(to)


def _of_structs(
    args: tuple[Node, ...], body: Node, parameter: str
) -> tuple[tuple[Node, ...], Node]:
    """Return a test of the items of `items.a` as one of the structs, which prunes by their fields.

    A test with lambdas in it stays as it is.
    """
    source, path = split(args[0])
    nested = any(
        n.op is Op.CALL and isinstance(n.value, tuple) and len(n.value) > 2 for n in body.walk()
    )
    if not path or nested:
        return args, body

    def moved(n: Node) -> Node:
        if n.op is Op.COLUMN and _root(n) == parameter:
            return replace_path(n, (parameter, *path, *_path(n)[1:]))
        return Node(n.op, tuple(map(moved, n.args)), n.value, n.dtype)

    return (source, *args[1:]), moved(body)


def replace_path(n: Node, path: Path) -> Node:
    """Return a bound column with another path."""
    return Node(n.op, n.args, path, n.dtype)


def _path(column: Node) -> Path:
    assert isinstance(column.value, tuple)
    return column.value


def _root(column: Node) -> object:
    return _path(column)[0]
