"""Bind a predicate written in any form: text, expressions, filters, Columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from skipstone.bindings import hooks
from skipstone.bindings.predicates.expr import Expr, from_filters, is_filters
from skipstone.bindings.predicates.function_names import check_functions
from skipstone.bindings.predicates.iceberg_expr import from_iceberg, is_iceberg
from skipstone.ir import compute as pc
from skipstone.ir.bind import bind
from skipstone.ir.errors import PredicateError, clip
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
                raise e.at(predicate, _position(e.message, positions)) from None
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
    raise PredicateError(
        f"a predicate cannot be made from {type(predicate).__name__} {predicate!r:.80}; "
        "expected SQL text, a col() expression, a pyarrow or pyiceberg expression, "
        'a PySpark Column, or filters such as [("x", "=", 5)]'
    )


def is_column(value: object) -> bool:
    """Return True if a value is a PySpark Column; PySpark is not imported for the test."""
    return any(
        t.__module__ == "pyspark.sql.column" and t.__name__ == "Column" for t in type(value).__mro__
    )


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
