"""Bind a predicate written in any form: text, expressions, filters, Columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from skipstone.bindings import hooks
from skipstone.bindings.predicates.expr import Expr, from_filters, is_filters
from skipstone.bindings.predicates.function_names import check_functions
from skipstone.bindings.predicates.iceberg_expr import from_iceberg, is_iceberg
from skipstone.ir import compute as pc
from skipstone.ir.bind import bind
from skipstone.ir.errors import PredicateError, UnknownColumn, clip
from skipstone.ir.node import Node, Path, show_path
from skipstone.ir.session import Session
from skipstone.ir.types import Leaf
from skipstone.kernels.run.forks import release_imports

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyspark.sql import Column

    from skipstone.bindings.predicates.predicate import PruningPredicate

PredicateSource: TypeAlias = (
    "str | Expr | pc.Expression | Sequence[Any] | BooleanExpression | Column | Node"
)
Condition: TypeAlias = "PruningPredicate | PredicateSource"


class Bound(NamedTuple):
    """A predicate that is already bound: a copy of another predicate, or a part of one."""

    node: Node


def bind_source(predicate: object, leaves: Mapping[Path, Leaf], session: Session) -> Node:
    """Return a predicate of any form as a bound tree.

    Args:
        predicate: A `PredicateSource`, or a `Bound`.
        leaves: The schema's columns.
        session: The session's settings.

    Raises:
        PredicateError: `predicate` has none of the known forms, or it does not fit the schema.
    """
    release_imports()  # an earlier call that Ctrl-C ended may have left the lock held
    match predicate:
        case Bound():
            return predicate.node
        case str():
            from skipstone.bindings.predicates.sql import parse

            node, positions = parse(predicate)
            check_functions(node, predicate)
            try:
                return bind(node, leaves, session)
            except PredicateError as e:
                position = _position(e.message, positions)
                if position is not None and isinstance(e, UnknownColumn):
                    e.message += _meant(predicate, position)
                raise e.at(predicate, position) from None
        case Expr():
            check_functions(predicate.node)
            return bind(predicate.node, leaves, session)
        case pc.Expression():
            from skipstone.bindings.predicates.arrow import from_expression

            return bind(from_expression(predicate), leaves, session)
        case Node():
            return bind(predicate, leaves, session)
        case _ if is_filters(predicate):
            return bind(from_filters(predicate), leaves, session)
        case _ if is_iceberg(predicate):
            return bind(from_iceberg(predicate, leaves, session), leaves, session)
        case _ if is_column(predicate):
            return bind(hooks.call("predicate from Column", predicate), leaves, session)
    from skipstone.bindings.location import package_of

    package = package_of(predicate)
    shown = "" if package in DATA else f" {clip(repr(predicate), 80)}"
    raise PredicateError(
        f"a predicate cannot be made from {type(predicate).__name__}{shown}; "
        "expected SQL text, a col() expression, a pyarrow or pyiceberg expression, "
        f'a PySpark Column, or filters such as [("x", "=", 5)]{_way_out(predicate, package)}'
    )


DATA: Final = ("pandas", "numpy")  # packages of arrays


def _way_out(given: object, package: str) -> str:
    """Return what to write instead of an object that is not a predicate; "" if unknown."""
    match given:
        case dict() if given and isinstance(name := next(iter(given)), str):
            return f"; write {[(name, '=', given[name])]!r:.80}"
        case tuple() if len(given) == 3:
            return f"; write a list of it: [{given!r:.80}]"
        case list() | tuple() if given and all(isinstance(part, str) for part in given):
            return "; join the conditions by AND in one text"
        case list() | tuple() | bool() | None:
            return "; for all rows, give None"
    if package in DATA:
        return "; a mask of rows is computed from data: write the condition itself"
    if package == "polars":
        return "; write it as SQL text, or skipstone.polars.scan(...).filter(expression)"
    return "; write it as SQL text" if package in ("duckdb", "sqlalchemy") else ""


def is_column(value: object) -> bool:
    """Return True if a value is a PySpark Column; PySpark is not imported for the test."""
    return any(
        t.__module__ == "pyspark.sql.column" and t.__name__ == "Column" for t in type(value).__mro__
    )


# What precedes a value: an operator, or the beginning of a list.
_VALUE: Final = re.compile(r"(?:[=<>]|\bIN\s*\(|\b(?:LIKE|IS|IS\s+NOT))\s*\Z", re.IGNORECASE)
_CURLY: Final = re.compile("[\u2018\u201c]([^\u2018-\u201d]*)[\u2019\u201d]")
_UNDERSCORES: Final = re.compile(r"\d+(?:_\d+)+\b")
_WORD: Final = re.compile(r"[^\W\d]\w*")


def _meant(text: str, position: int) -> str:
    """Return a hint if an unknown name in a text is where a value would be; otherwise ""."""
    if (curly := _CURLY.match(text, position)) is not None:
        return f" Write straight quotes: '{clip(curly[1], 40)}'."
    if (number := _UNDERSCORES.match(text, position)) is not None:
        return f" Write {clip(number[0].replace('_', ''), 40)}, without underscores."
    word = _WORD.match(text, position)
    if word is None or _VALUE.search(text, max(0, position - 20), position) is None:
        return ""
    if word[0].lower() == "none":
        return " Did you mean NULL? Write column IS NULL."
    if word[0].lower() == "nan":
        return " Did you mean NaN? Write double('NaN')."
    return f" Write text in single quotes: '{clip(word[0], 40)}'."


def _position(message: str, positions: Mapping[Any, int]) -> int | None:
    """Return the position in the text of the name that an error message begins with."""
    return next(
        (
            at
            for name, at in positions.items()
            if message.startswith(f"predicate names {clip(show_path(name.parts))!r};")
        ),
        None,
    )
