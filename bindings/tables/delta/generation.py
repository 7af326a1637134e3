"""Recognize the generation expressions that bound the column they are generated from.

Any other expression bounds nothing, and is not an error. Source: Delta Lake,
`OptimizablePartitionExpression`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

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
    """The source column itself."""


@dataclass(frozen=True, slots=True)
class Substring:
    """A substring of the source, by Spark's `substring`.

    Attributes:
        at: The position of its first character, from 1; negative counts from the end.
        count: The number of characters; None means all that follow.
    """

    at: int
    count: int | None


@dataclass(frozen=True, slots=True)
class Truncation:
    """The source truncated to a unit, as CAST AS DATE, `year`, `date_trunc` or `date_format` do.

    Its value names the interval of a clock, one unit long, that contains the source.

    Attributes:
        unit: The unit, such as "day".
        pattern: The pattern of `date_format`, if the value is a text.
        zoned: True if the expression treats the time as an instant in the session's zone.
    """

    unit: str
    pattern: str = ""
    zoned: bool = False


@dataclass(frozen=True, slots=True)
class DatePart:
    """A part of the source: the month of its year, the day of its month, or the hour of its day."""

    unit: str


Form: TypeAlias = Same | Substring | Truncation | DatePart


@dataclass(frozen=True, slots=True)
class GeneratedColumn:
    """A partition column that is generated from another column.

    Attributes:
        name: The partition column.
        form: The form of its expression.
        source: The column it is generated from.
    """

    name: str
    form: Form
    source: Path


# Patterns of date_format, and the smallest unit that each one shows.
PATTERNS: Final = {
    "yyyy": "year",
    "yyyy-MM": "month",
    "yyyyMM": "month",
    "yyyy-MM-dd": "day",
    "yyyyMMdd": "day",
    "yyyy-MM-dd-HH": "hour",
}
SHORT: Final = STEPS.keys() - {"day"}  # units shorter than a day, which a date does not have
TRUNC: Final = ("week", "month", "quarter", "year")  # units that Spark's `trunc` takes


def generated_columns(fields: TableFields) -> tuple[GeneratedColumn, ...]:
    """Return the generated partition columns of a table whose forms bound their source columns."""
    leaves = leaves_of(fields.schema)
    found = (
        _recognize(name, fields.generated[name], leaves)
        for name in fields.partitions
        if name in fields.generated
    )
    return tuple(g for g in found if g is not None and g.source[0] not in fields.partitions)


def _recognize(name: str, text: str, leaves: Mapping[Path, Leaf]) -> GeneratedColumn | None:
    from skipstone.bindings.predicates.sql import parse

    try:
        n = parse(text)[0]
        form, x, result, zoned = _match(n)
        if isinstance(form, Truncation | DatePart):
            x, zoned = _strip_casts(x, zoned, whole_days=form.unit not in SHORT)
            form = replace(form, zoned=zoned) if isinstance(form, Truncation) else form
        column = bind_scalar(x, leaves, Session())
    except (PredicateError, _UnknownForm):
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
            fits = own.kind is result and _bounds_source(form, dtype, zoned)
    return GeneratedColumn(name, form, path) if fits else None


def _bounds_source(form: Truncation | DatePart, dtype: DType, zoned: bool) -> bool:
    """Return True if a form bounds a source of this type.

    It does not if the expression treats a wall-clock time as an instant, because the session's zone
    may skip that time.
    """
    if dtype == ty.DATE:
        return isinstance(form, Truncation) or not (zoned or form.unit == "hour")
    return dtype == ty.TIMESTAMP or (dtype == ty.TIMESTAMP_NTZ and not zoned)


class _UnknownForm(Exception):
    """The form of the expression bounds nothing."""


class _Match(NamedTuple):
    """The known form that an expression has.

    Attributes:
        form: The form.
        argument: The expression's argument.
        result: The kind of the expression's result; None if it is that of its source.
        zoned: True if the expression treats the argument as an instant in the session's zone.
    """

    form: Form
    argument: Node
    result: Kind | None = None
    zoned: bool = False


def _match(n: Node) -> _Match:
    """Match an expression with the known forms.

    Raises:
        _UnknownForm: the expression has none of the forms.
    """
    match n:
        case Node(Op.COLUMN):
            return _Match(Same(), n)
        case Node(Op.CAST, (x,), dtype=ty.DATE):
            return _Match(Truncation("day"), x, Kind.DATE)
        case Node(Op.CALL, (x,), "year"):
            return _Match(Truncation("year"), x, Kind.INT)
        case Node(Op.CALL, (x,), "month" | "day" | "dayofmonth" | "hour"):
            part = DatePart("day" if n.value == "dayofmonth" else str(n.value))
            return _Match(part, x, Kind.INT)
        case Node(Op.CALL, (x, unit), "trunc") if (
            unit_name := UNITS.get(_text(unit).lower())
        ) in TRUNC:
            return _Match(Truncation(str(unit_name)), x, Kind.DATE)
        case Node(Op.CALL, (unit, x), "date_trunc") if (
            unit_name := UNITS.get(_text(unit).lower())
        ) is not None:
            return _Match(Truncation(unit_name), x, Kind.TIMESTAMP, zoned=True)
        case Node(Op.CALL, (x, pattern), "date_format") if (
            unit_name := PATTERNS.get(_text(pattern))
        ) is not None:
            return _Match(Truncation(unit_name, _text(pattern)), x, Kind.STRING, zoned=True)
        case Node(Op.CALL, (x, at), "substring" | "substr"):
            return _Match(Substring(_integer(at), None), x)
        case Node(Op.CALL, (x, at, count), "substring" | "substr"):
            return _Match(Substring(_integer(at), _integer(count)), x)
        case Node(Op.CALL, (x, count), "left"):
            return _Match(Substring(1, _integer(count)), x)
    raise _UnknownForm


def _text(n: Node) -> str:
    return n.value.decode() if n.op is Op.LITERAL and isinstance(n.value, bytes) else ""


def _integer(n: Node) -> int:
    n = bind_scalar(n, {}, Session())  # binding folds a sign, which is a function
    if n.op is Op.LITERAL and isinstance(n.value, int):
        return n.value
    raise _UnknownForm


def _strip_casts(n: Node, zoned: bool, *, whole_days: bool) -> tuple[Node, bool]:
    """Strip casts between dates and times.

    Args:
        n: The expression.
        zoned: True if the form treats it as an instant.
        whole_days: True if the form's unit is a day or longer, so that a cast to DATE keeps it.

    Returns:
        The innermost expression, and whether the form or a cast treats it as an instant.
    """
    while n.op is Op.CAST:
        if n.dtype == ty.TIMESTAMP:
            zoned = True
        elif n.dtype != ty.DATE or not whole_days:
            raise _UnknownForm
        (n,) = n.args
    return n, zoned
