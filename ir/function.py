"""Functions: their types, their values on arrays, and how they map intervals.

One description serves three uses. Rows are computed by `point`. The interval of a container follows
from `point` at the corners of its box, where the function is monotone. A box that is a single point
is computed exactly, whatever the function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from skipstone.ir.node import Node
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import DType, Kind
from skipstone.ir.values import Data, Values

if TYPE_CHECKING:
    from skipstone.ir.interval import Interval

# What a function makes of a row that its `point` marks as bad.
#   never    no row is ever bad
#   null     the row's value is NULL
#   raise    Spark raises an error for the row
#   unknown  Spark has a value, which is not known here
#   keep     the value that `point` returned is right, but it breaks the order of a monotone
#            function: integers that wrap around
Policy: TypeAlias = Literal["never", "null", "raise", "unknown", "keep"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a function.

    Attributes:
        name: The function.
        types: The types of its arguments, after coercion.
        dtype: The type of its result.
        session: The Spark settings.
        body: A lambda: its bound condition or scalar, and the columns that are its parameters.
    """

    name: str
    types: tuple[DType, ...]
    dtype: DType
    session: Session
    body: tuple[Any, ...] = ()


# Values, or values and a mask of the bad ones. A uint8 mask may hold VALUE_UNKNOWN: the row has a
# value, which is not known here.
Points: TypeAlias = Data | tuple[Data, Data]
VALUE_UNKNOWN: Final = 2
Signature: TypeAlias = tuple[Sequence[DType], DType]


@dataclass(frozen=True, slots=True)
class Function:
    """A deterministic function of the values of a row.

    Attributes:
        signature: Maps bound arguments and the session to the types to cast the arguments to, and
            the type of the result. Raises CannotJudge for unsupported arguments.
        point: (call, *data) -> data, or (data, bad). Axis values of broadcastable shapes; `bad`
            marks those without a proper result.
        monotone: The function is monotone in each argument, whatever the others are. A result that
            is `bad` may break the order.
        bad: The meaning of a bad result.
        saturates: A bad result is the end of the type that it overflowed, so it can serve as the
            end of an interval: a BIGINT that is too great for an INT counts as the greatest INT.
        interval: (call, intervals) -> interval; replaces the corners.
        rows: (call, values) -> values; replaces `point` for functions that are not strict. A
            strict function is NULL if any argument is NULL.
        column: (call, *arguments) -> Arrow text, data, (data, bad) or None; replaces `point` for
            many rows of text. An argument is large Arrow text, data, or a value that all rows
            share. None: `point` has to compute these rows.
        nested: Arguments may be arrays or maps.
        items: Arrays may have any items, such as structs; rows are then computed in
            `ir/evaluation/list_calls.py` only.
        bounded: `interval` bounds the results that `point` marks as unknown.
    """

    signature: Callable[[tuple[Node, ...], Session], Signature]
    point: Callable[..., Points] | None = None
    monotone: bool = False
    bad: Policy | Callable[[Call], Policy] = "never"
    saturates: bool = False
    interval: Callable[[Call, tuple[Interval, ...]], Interval] | None = None
    rows: Callable[[Call, tuple[Values, ...]], Values] | None = None
    column: Callable[..., Any] | None = None
    nested: bool = False
    items: bool = False
    bounded: bool = False

    def takes(self, dtype: DType) -> bool:
        """Return True if arguments may have a type that has no order."""
        return self.nested and (dtype.nested or (self.items and has_items(dtype)))

    def policy(self, call: Call) -> Policy:
        """Return the meaning of a bad result of this call."""
        return self.bad if isinstance(self.bad, str) else self.bad(call)


def has_items(dtype: DType | None) -> bool:
    """Return True for the types of lists and maps."""
    if dtype is None:
        return False
    return dtype.nested or (bool(dtype.record) and not dtype.name.startswith("struct<"))


def element(n: Node) -> DType:
    """Return the type of an array's elements.

    Raises:
        CannotJudge: the scalar is not an array, or its element type is not understood.
    """
    if n.dtype is None or n.dtype.element is None:
        raise CannotJudge(f"expected an array, got {n.dtype}")
    return n.dtype.element


def item(n: Node) -> DType:
    """Return the type of an array's items, which may be structs, arrays or maps.

    Raises:
        CannotJudge: the scalar is not an array.
    """
    if n.dtype is not None and n.dtype.record and has_items(n.dtype):
        return n.dtype.record[0].dtype
    return element(n)


def readable(dtype: DType) -> DType:
    """Return the type of an item of a list or map.

    Raises:
        CannotJudge: values of the type cannot filter rows.
    """
    if dtype.kind is Kind.UINT or dtype.unit == "ns":
        raise CannotJudge(f"items of {dtype} are not understood")
    return dtype


def fixed(*types: DType | None, returns: DType) -> Callable[[tuple[Node, ...], Session], Signature]:
    """Return a signature of these argument types; None accepts any type unchanged."""

    def signature(args: tuple[Node, ...], session: Session) -> Signature:
        check_arity(args, len(types))
        return [_own(a) if t is None else t for a, t in zip(args, types, strict=True)], returns

    return signature


def _own(a: Node) -> DType:
    assert a.dtype is not None
    return a.dtype


def check_arity(args: tuple[Node, ...], least: int, most: int | None = None) -> None:
    """Raise CannotJudge unless the number of arguments lies from `least` to `most`."""
    most = least if most is None else most
    if not least <= len(args) <= most:
        expected = str(least) if least == most else f"{least} to {most}"
        noun = "argument" if expected == "1" else "arguments"
        raise CannotJudge(f"expected {expected} {noun}, got {len(args)}")


def text_literal(a: Node) -> str:
    """Return the text of a literal argument.

    Raises:
        CannotJudge: the argument is not a text literal.
    """
    if isinstance(a.value, bytes):
        return a.value.decode()
    raise CannotJudge("expected a text literal as argument")


def int_literal(a: Node) -> int:
    """Return the number of an integer literal argument.

    Raises:
        CannotJudge: the argument is not an integer literal.
    """
    if isinstance(a.value, int) and a.dtype is not None and a.dtype.discrete:
        return a.value
    raise CannotJudge("expected an integer literal as argument")


def with_unknown(results: Sequence[bytes | None]) -> tuple[Data, Data]:
    """Return the results of rows as data, and the mask of the unknown ones, which are None."""
    data = np.array([b"" if v is None else v for v in results], object)
    return data, np.array([VALUE_UNKNOWN if v is None else 0 for v in results], np.uint8)


def only_value(data: Any) -> Any:
    """Return the only value of an argument that is a literal."""
    return data[0]
