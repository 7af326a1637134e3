"""Put the time of a query in place of `now()`, `current_date()` and the like, as Spark does."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Collection
from typing import Final

from skipstone.bindings.predicates.function_names import check_functions
from skipstone.bindings.predicates.sql import parse
from skipstone.ir import types as ty
from skipstone.ir.errors import PredicateError
from skipstone.ir.functions.spark_names import SPARK_NAMES
from skipstone.ir.node import Name, Node, Op, literal
from skipstone.ir.text import show
from skipstone.ir.zones import zone_of

MICROSECOND: Final = dt.timedelta(microseconds=1)
# Written without parentheses, these are columns if there are columns of these names.
# Source: Spark, `LiteralFunctionResolution`.
KEYWORDS: Final = frozenset(("current_date", "current_timestamp"))


def at_moment(
    text: str, names: Collection[str], timezone: str, micros: int | None = None
) -> str | Node:
    """Return a condition with literals in place of the functions that return the current time.

    All of them return the same moment, in each part of the condition.

    Args:
        text: The condition, as SQL text.
        names: The table's columns.
        timezone: The session's time zone, which decides what day it is.
        micros: The moment, in us since 1970 (UTC); None is now.

    Returns:
        The condition as text, or unbound if text cannot express it; the text itself if it calls no
        such function.

    Raises:
        PredicateError: the text is not one condition, or calls an unknown function.

    Source: Spark, `ComputeCurrentTime`.

    Example:
        >>> at_moment("d = current_date() - INTERVAL 1 DAY", ["d"], "UTC", 86_400_000_000)
        "d = (CAST('1970-01-02' AS DATE) - INTERVAL '1' DAY)"
    """
    node, _ = parse(text)
    moment = time.time_ns() // 1000 if micros is None else micros
    columns = {name.lower() for name in names}
    fixed = _replaced(node, lambda n: _value(n, moment, timezone, columns))
    if fixed is node:
        return text
    check_functions(node, text)
    return _text_of(fixed) or fixed


def _text_of(condition: Node) -> str | None:
    """Return an unbound condition as text that Spark reads as well; None if that is not certain."""
    for n in condition.walk():
        own = n.op is Op.CALL and str(n.value).isidentifier() and n.value not in SPARK_NAMES
        if own or n.op is Op.UNKNOWN:
            return None
    text = show(condition)
    try:
        return text if parse(text)[0] == condition else None
    except PredicateError:
        return None


def _value(n: Node, micros: int, timezone: str, columns: Collection[str]) -> Node | None:
    """Return the literal of a function of the current time; None if a node is something else."""
    name = n.value
    if n.op is Op.COLUMN and isinstance(name, Name) and len(name.parts) == 1:
        name = name.parts[0].lower()
        if name not in KEYWORDS or name in columns:
            return None
    elif n.op is not Op.CALL or n.args:
        return None
    match name:
        case "now" | "current_timestamp":
            return _written(f"{ty.NAIVE_EPOCH + micros * MICROSECOND}+00:00", ty.TIMESTAMP)
        case "unix_timestamp":
            seconds = micros // 1_000_000
            written = literal(seconds, ty.INT32 if seconds < 2**31 else ty.INT64)  # since 2038
            return Node(Op.CAST, (written,), "cast", ty.INT64)
        case "localtimestamp":
            return _written(str(_local(micros, timezone)), ty.TIMESTAMP_NTZ)
        case "current_date" | "curdate":
            return _written(str(_local(micros, timezone).date()), ty.DATE)
    return None


def _written(text: str, dtype: ty.DType) -> Node:
    """Return a literal such as DATE '2024-01-31', as the parser reads it."""
    return Node(Op.CAST, (literal(text.encode(), ty.STRING),), "cast", dtype)


def _local(micros: int, timezone: str) -> dt.datetime:
    """Return the time that clocks in a zone show."""
    moment = ty.EPOCH + micros * MICROSECOND
    return moment.astimezone(zone_of(timezone)).replace(tzinfo=None)


def _replaced(n: Node, replace: Callable[[Node], Node | None]) -> Node:
    """Return a tree with nodes replaced; the same tree if none are."""
    found = replace(n)
    if found is not None:
        return found
    args = tuple([_replaced(a, replace) for a in n.args])
    if all(new is old for new, old in zip(args, n.args, strict=True)):
        return n
    return Node(n.op, args, n.value, n.dtype)
