"""Bound predicates as conditions that Spark applies to the rows of `read`."""

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
    """Return the condition to pass to `DataFrame.where` for a predicate.

    It is the text or the Column that the predicate was made from. If it was made from something
    else or under other settings, it is SQL text of the bound predicate.

    Raises:
        UnsupportedForm: the SQL text would not mean the same in this session.
    """
    source = predicate.source
    if (isinstance(source, str) or is_column(source)) and predicate.settings == settings_of(spark):
        return source
    text, reparsed = sql_of(predicate.node), None
    if not predicate.has_unknown:
        with contextlib.suppress(PredicateError):
            reparsed = PruningPredicate(text, predicate.schema, **settings_of(spark))
    if reparsed is None or reparsed.node != predicate.node:
        raise UnsupportedForm(
            f"the condition {predicate.expr[:300]} cannot be passed to Spark: its text would mean "
            "something else in this session, or Skipstone does not understand a part of it. Give "
            "the condition as SQL text or as a Column, under the session's own time zone, ANSI "
            "mode and case sensitivity."
        )
    return text


def columns_in(predicate: PruningPredicate) -> list[str] | None:
    """Return the top-level columns that a condition names in the form in which Spark gets it.

    These include columns that binding simplified away. The result is None if a part of the
    condition is not understood.

    Example:
        >>> import pyarrow as pa
        >>> schema = pa.schema([("x", pa.int64()), ("y", pa.int64())])
        >>> columns_in(PruningPredicate("(x = 5 OR true) AND y = 3", schema))
        ['x', 'y']
    """
    source, names = predicate.source, predicate.schema.names
    if isinstance(source, str):
        node = parse(source)[0]
    elif is_column(source):
        node = from_column(source)
    else:
        node = predicate.node
    if predicate.has_unknown or any(n.op is Op.UNKNOWN for n in node.walk()):
        return None
    named = {
        part.lower() for n in node.walk() if isinstance(n.value, Name) for part in n.value.parts
    }
    return [
        name
        for name in names
        if name.lower() in named or (name,) in {path[:1] for path in columns_of(predicate.node)}
    ]


def sql_of(n: Node) -> str:
    """Return a bound predicate as SQL text, with every member of its IN lists."""
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
