"""Generated columns: which forms of their expressions tell something of the column that they are made from.

Any other expression tells nothing, and is no error. Source: Delta Lake, `OptimizablePartitionExpression`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from skipstone.bindings.tables.delta.fields import TableFields
from skipstone.ir import types as ty
from skipstone.ir.bind import bind_scalar
from skipstone.ir.errors import PredicateError
from skipstone.ir.functions.dates import STEPS, UNITS
from skipstone.ir.node import Node, Op, Path
from skipstone.ir.session import Session
from skipstone.ir.types import DType, Kind, Leaf, leaves_of


@dataclass(frozen=True, slots=True)
class Same:
    """The column itself."""


@dataclass(frozen=True, slots=True)
class Substring:
    """Characters of a text, by Spark's `substring`; `count` None: all from there on."""

    at: int
    count: int | None


@dataclass(frozen=True, slots=True)
class Cell:
    """A stretch of a clock, one unit long: a date, the number of a year, an instant, or a text of a pattern names it.

    `zoned`: the time was taken for an instant on the way, in the session's zone.
    """

    unit: str
    pattern: str = ""
    zoned: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """The month of a year, the day of a month, or the hour of a day, by its number."""

    unit: str


Form: TypeAlias = Same | Substring | Cell | Turn


@dataclass(frozen=True, slots=True)
class Generated:
    """A partition column that is made from another column.

    Attributes:
        name: Its own.
        form: How it is made.
        source: The column that it is made from.
    """

    name: str
    form: Form
    source: Path


# Patterns of date_format, and the unit that the last of their letters counts.
PATTERNS: Final = {
    "yyyy": "year",
    "yyyy-MM": "month",
    "yyyyMM": "month",
    "yyyy-MM-dd": "day",
    "yyyyMMdd": "day",
    "yyyy-MM-dd-HH": "hour",
}
SHORT: Final = STEPS.keys() - {"day"}  # units that a date does not have
TRUNC: Final = ("week", "month", "quarter", "year")


def generated(fields: TableFields) -> tuple[Generated, ...]:
    """The partition columns of a table that tell something of its other columns."""
    leaves = leaves_of(fields.schema)
    found = (
        _read(name, fields.generated[name], leaves)
        for name in fields.partitions
        if name in fields.generated
    )
    return tuple(g for g in found if g is not None and g.source[0] not in fields.partitions)


def _read(name: str, text: str, leaves: Mapping[Path, Leaf]) -> Generated | None:
    from skipstone.bindings.predicates.sql import parse

    try:
        n = parse(text)[0]
        form, result, x, zoned = _form(n)
        if isinstance(form, Cell | Turn):
            x, zoned = _uncast(x, zoned, whole_days=form.unit not in SHORT)
            form = replace(form, zoned=zoned) if isinstance(form, Cell) else form
        column = bind_scalar(x, leaves, Session())
    except (PredicateError, _NotKnown):
        return None
    own, dtype, path = leaves[(name,)].dtype, column.dtype, column.value
    if column.op is not Op.COLUMN or dtype is None or not isinstance(path, tuple):
        return None
    match form:
        case Same():
            fits = own == dtype and dtype.ordered
        case Substring():
            fits = own == dtype == ty.STRING
        case _:
            fits = own.kind is result and _keeps(form, dtype, zoned)
    return Generated(name, form, path) if fits else None


def _keeps(form: Cell | Turn, dtype: DType, zoned: bool) -> bool:
    """Whether a form tells of a type. What is no instant, and is taken for one, may be a time that the session's zone skips."""
    if dtype == ty.DATE:
        return isinstance(form, Cell) or not (zoned or form.unit == "hour")
    return dtype == ty.TIMESTAMP or (dtype == ty.TIMESTAMP_NTZ and not zoned)


class _NotKnown(Exception):
    """The form tells nothing."""


def _form(n: Node) -> tuple[Form, Kind | None, Node, bool]:
    """How an expression is made, the kind of its result, what it is made of, and whether it takes that for an instant."""
    match n:
        case Node(Op.COLUMN):
            return Same(), None, n, False
        case Node(Op.CAST, (x,), dtype=ty.DATE):
            return Cell("day"), Kind.DATE, x, False
        case Node(Op.CALL, (x,), "year"):
            return Cell("year"), Kind.INT, x, False
        case Node(Op.CALL, (x,), "month" | "day" | "dayofmonth" | "hour"):
            return Turn("day" if n.value == "dayofmonth" else str(n.value)), Kind.INT, x, False
        case Node(Op.CALL, (x, unit), "trunc") if (
            known := UNITS.get(_text(unit).lower())
        ) in TRUNC:
            return Cell(str(known)), Kind.DATE, x, False
        case Node(Op.CALL, (unit, x), "date_trunc") if (
            known := UNITS.get(_text(unit).lower())
        ) is not None:
            return Cell(known), Kind.TIMESTAMP, x, True
        case Node(Op.CALL, (x, pattern), "date_format") if (
            known := PATTERNS.get(_text(pattern))
        ) is not None:
            return Cell(known, _text(pattern)), Kind.STRING, x, True
        case Node(Op.CALL, (x, at), "substring" | "substr"):
            return Substring(_whole(at), None), None, x, False
        case Node(Op.CALL, (x, at, count), "substring" | "substr"):
            return Substring(_whole(at), _whole(count)), None, x, False
        case Node(Op.CALL, (x, count), "left"):
            return Substring(1, _whole(count)), None, x, False
    raise _NotKnown


def _text(n: Node) -> str:
    return n.value.decode() if n.op is Op.LITERAL and isinstance(n.value, bytes) else ""


def _whole(n: Node) -> int:
    n = bind_scalar(n, {}, Session())  # a sign is a function
    if n.op is Op.LITERAL and isinstance(n.value, int):
        return n.value
    raise _NotKnown


def _uncast(n: Node, zoned: bool, *, whole_days: bool) -> tuple[Node, bool]:
    """What casts between dates and times are of, and whether it is taken for an instant."""
    while n.op is Op.CAST:
        if n.dtype == ty.TIMESTAMP:
            zoned = True
        elif n.dtype != ty.DATE or not whole_days:
            raise _NotKnown
        (n,) = n.args
    return n, zoned
