"""Binding of calls that take a lambda: the types of its parameters, and of the call."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from skipstone.ir import types as ty
from skipstone.ir.functions.arrays import element
from skipstone.ir.functions.build import lambda_call
from skipstone.ir.node import Name, Node, Op, Path
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import ELEMENTS, DType, Kind, Leaf, list_type

# The number of a function's other arguments, and of the lambda's parameters.
ARITY: Final = {
    "exists": (1, 1), "forall": (1, 1), "filter": (1, 1), "transform": (1, 1), "aggregate": (2, 2),
}  # fmt: skip
CONDITIONS: Final = ("exists", "forall", "filter")  # their lambda is a condition


def parameters(name: str, lambda_: Node, args: tuple[Node, ...]) -> dict[Path, Leaf]:
    """Return a lambda's parameters, which are the only columns that its body may name.

    Args:
        name: The function.
        lambda_: The unbound lambda.
        args: The function's other arguments, bound.

    Raises:
        CannotJudge: the call is not understood.
    """
    names = names_of(lambda_)
    columns = [c.value for c in lambda_.walk() if c.op is Op.COLUMN]
    if not all(isinstance(c, Name) and Name(c.parts[:1]) in names for c in columns):
        raise CannotJudge("a lambda that reads other columns is not understood")
    if (len(args), len(names)) != ARITY.get(name):
        raise CannotJudge("the lambda is not understood")
    if name in ("exists", "forall") and args[0].dtype is not None and args[0].dtype.record:
        (parameter,) = names
        found = {parameter.parts: Leaf(parameter.parts, DType(Kind.OTHER, name="struct"), True)}
        for leaf in args[0].dtype.record:
            path = (*parameter.parts, *leaf.path)
            found[path] = replace(leaf, path=path, nullable=True)
        return found
    types = [element(args[0])] if len(args) == 1 else [args[1].dtype, element(args[0])]
    return {n.parts: Leaf(n.parts, t, True) for n, t in zip(names, types, strict=True) if t}


def names_of(lambda_: Node) -> tuple[Name, ...]:
    """Return the names of a lambda's parameters."""
    assert isinstance(lambda_.value, tuple)
    return lambda_.value


def call(
    name: str, args: tuple[Node, ...], body: Node, names: tuple[Name, ...], session: Session
) -> Node:
    """Return the call of a function that takes a bound lambda.

    Raises:
        CannotJudge: the type of the lambda's result is not understood.
    """
    if unsupported := next((n for n in body.walk() if n.op is Op.UNKNOWN), None):
        return unsupported
    if name in CONDITIONS:
        to = args[0].dtype if name == "filter" else ty.BOOL
    elif name == "transform":
        if body.dtype is None or body.dtype.kind not in (*ELEMENTS, Kind.NULL):
            raise CannotJudge(f"an array of {body.dtype} is not understood")
        to = list_type(body.dtype)
    else:
        to = args[1].dtype
        if body.dtype != to or to is None or to.kind not in ELEMENTS:
            raise CannotJudge(f"the lambda gives {body.dtype}, and the start is {to}")
    assert to is not None
    return lambda_call(name, args, (body, *(n.parts[0] for n in names)), to, session)
