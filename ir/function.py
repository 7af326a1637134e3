"""What a function is: its types, its value on points, and how it carries intervals.

One description serves three uses: rows are computed by `point`; the interval of a container follows
from `point` at the corners of its box, as far as the function is monotone; and a box that is a single
point is computed exactly, whatever the function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from skipstone.ir.node import Node
from skipstone.ir.session import Incomparable, Session
from skipstone.ir.types import DType
from skipstone.ir.values import Data, Values

if TYPE_CHECKING:
    from skipstone.ir.interval import Interval

# What a row gives where `point` says that it has no proper value.
#   never  there is no such row
#   null   NULL
#   raise  Spark raises an error
#   lost   it is not known here
#   keep   the value is right, but order is lost there: integers that wrap
Policy: TypeAlias = Literal["never", "null", "raise", "lost", "keep"]


@dataclass(frozen=True, slots=True)
class Call:
    """One use of a function.

    Attributes:
        name: The function.
        types: Of its arguments, after coercion.
        dtype: Of its result.
        session: The Spark settings.
    """

    name: str
    types: tuple[DType, ...]
    dtype: DType
    session: Session


# Values alone, or with a mask of the bad ones; among uint8 marks, LOST says that a value is not known here.
Points: TypeAlias = Data | tuple[Data, Data]
LOST: Final = 2
Signature: TypeAlias = tuple[Sequence[DType], DType]


@dataclass(frozen=True, slots=True)
class Function:
    """A deterministic function of the rows' values.

    Attributes:
        signature: From bound arguments and session: the types to cast arguments to, and the result's.
            Raises Incomparable for what is not understood.
        point: (call, *data) -> data, or (data, bad): axis values of broadcastable shapes; bad marks those
            without a proper result.
        monotone: In each argument, whatever the others are; a result that is `bad` may end the order.
        bad: What a bad result means.
        saturates: Bad results carry the bound that they ran into, so that an interval may end there.
        strict: NULL if any argument is.
        interval: Instead of corners: (call, intervals) -> interval.
        rows: Instead of `point`, for functions that are not strict: (call, values) -> values.
    """

    signature: Callable[[tuple[Node, ...], Session], Signature]
    point: Callable[..., Points] | None = None
    monotone: bool = False
    bad: Policy | Callable[[Call], Policy] = "never"
    saturates: bool = False
    interval: Callable[[Call, tuple[Interval, ...]], Interval] | None = None
    rows: Callable[[Call, tuple[Values, ...]], Values] | None = None

    def policy(self, call: Call) -> Policy:
        """What a bad result of this call means."""
        return self.bad if isinstance(self.bad, str) else self.bad(call)


def fixed(*types: DType | None, returns: DType) -> Callable[[tuple[Node, ...], Session], Signature]:
    """A signature of these argument types; None takes any ordered one as it is."""

    def signature(args: tuple[Node, ...], session: Session) -> Signature:
        arity(args, len(types))
        return [_own(a) if t is None else t for a, t in zip(args, types, strict=True)], returns

    return signature


def _own(a: Node) -> DType:
    assert a.dtype is not None
    return a.dtype


def arity(args: tuple[Node, ...], least: int, most: int | None = None) -> None:
    """Refuse another number of arguments."""
    most = least if most is None else most
    if not least <= len(args) <= most:
        expected = str(least) if least == most else f"{least} to {most}"
        raise Incomparable(f"it takes {expected} arguments, and {len(args)} were given")


def text_of(a: Node) -> str:
    """The text of a literal argument."""
    if isinstance(a.value, bytes):
        return a.value.decode()
    raise Incomparable("an argument must be a text literal")


def whole_of(a: Node) -> int:
    """The number of an integer literal argument."""
    if isinstance(a.value, int) and a.dtype is not None and a.dtype.discrete:
        return a.value
    raise Incomparable("an argument must be an integer literal")


def one(data: Any) -> Any:
    """The value of an argument that is a literal."""
    return data[0]
