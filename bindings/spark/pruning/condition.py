"""The way back: a predicate of ours as a condition on rows, by which Spark filters what `read` gives it, whatever planning found."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from skipstone.bindings.predicates.predicate import PruningPredicate, is_column
from skipstone.bindings.predicates.sql import parse
from skipstone.bindings.spark.pruning.column import from_column
from skipstone.bindings.spark.session.session import settings_of
from skipstone.ir.errors import PredicateError, UnsupportedForm
from skipstone.ir.node import Name, Node, Op, columns_of
from skipstone.ir.text import show, show_value

if TYPE_CHECKING:
    from pyspark.sql import Column


def condition_of(spark: Any, predicate: PruningPredicate) -> Column | str:
    """What `DataFrame.where` takes for a predicate: the text or the Column that it was made from, else its text as it was understood.

    Raises:
        UnsupportedForm: it was made from something else, or for other settings than the session's, and its text does not mean
            the same in this session.
    """
    given = predicate.source
    if (isinstance(given, str) or is_column(given)) and predicate.settings == settings_of(spark):
        return given
    text, again = sql_of(predicate.node), None
    if not predicate.has_unknown:
        with contextlib.suppress(PredicateError):
            again = PruningPredicate(text, predicate.schema, **settings_of(spark))
    if again is None or again.node != predicate.node:
        raise UnsupportedForm(
            f"the condition {predicate.expr[:300]} cannot be given to Spark: its text would mean something else in this session, or has forms that "
            "are not understood. Give the condition as SQL text or as a Column, under the session's own time zone, ANSI mode and case sensitivity."
        )
    return text


def columns_in(predicate: PruningPredicate) -> list[str] | None:
    """The top-level columns that a condition names, as it is given to Spark: also those without which it means the same. None: it is not known.

    Example:
        >>> import pyarrow as pa
        >>> schema = pa.schema([("x", pa.int64()), ("y", pa.int64())])
        >>> columns_in(PruningPredicate("(x = 5 OR true) AND y = 3", schema))
        ['x', 'y']
    """
    given, own = predicate.source, predicate.schema.names
    node = (
        parse(given)[0]
        if isinstance(given, str)
        else from_column(given)
        if is_column(given)
        else predicate.node
    )
    if predicate.has_unknown or any(n.op is Op.UNKNOWN for n in node.walk()):
        return None
    named = {
        part.lower() for n in node.walk() if isinstance(n.value, Name) for part in n.value.parts
    }
    return [
        name
        for name in own
        if name.lower() in named or (name,) in {path[:1] for path in columns_of(predicate.node)}
    ]


def sql_of(n: Node) -> str:
    """A bound predicate as SQL text, with every member of its lists."""
    match n.op:
        case Op.AND | Op.OR:
            return (
                f" {n.op.name} ".join(f"({sql_of(a)})" for a in n.args)
                or str(n.op is Op.AND).lower()
            )
        case Op.NOT:
            return f"NOT ({sql_of(n.args[0])})"
        case Op.IN if isinstance(n.value, tuple) and len(n.args) == 1:
            members = (v if isinstance(v, tuple) else (n.dtype, v) for v in n.value)
            return f"{show(n.args[0])} IN ({', '.join(show_value(v, t) for t, v in members)})"
    return show(n)
