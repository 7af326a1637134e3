"""Bound predicates as conditions that Spark applies to the rows of `read`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skipstone.bindings.predicates.predicate import PruningPredicate, is_column
from skipstone.bindings.predicates.sql import parse
from skipstone.bindings.spark.pruning.column import from_column
from skipstone.bindings.spark.session.session import settings_of
from skipstone.ir.errors import PredicateError, UnsupportedForm
from skipstone.ir.functions.spark_names import SPARK_NAMES
from skipstone.ir.node import Name, Node, Op, columns_of
from skipstone.ir.session import Session, Settings
from skipstone.ir.text import show, show_value
from skipstone.ir.zones import same_zone

if TYPE_CHECKING:
    from pyspark.sql import Column

    from skipstone.bindings.predicates.predicate import PredicateSource


def condition_of(spark: Any, predicate: PruningPredicate) -> Column | str:
    """Return the condition to pass to `DataFrame.where` for a predicate.

    It is the text or the Column that the predicate was made from. If it was made from something
    else, or means something else under the session's settings, it is SQL text of the bound
    predicate.

    Raises:
        UnsupportedForm: the SQL text would not mean the same in this session.
    """
    source, settings = predicate.source, settings_of(spark)
    differing = _differing(predicate.settings, settings)
    if isinstance(source, str) or is_column(source):
        if not differing or _means_the_same(source, predicate, settings):
            return source
    text = sql_of(predicate.node)
    if _means_the_same(text, predicate, settings) and _has_sparks_names(text):
        return text
    problem = f"the condition {predicate.expr[:300]} cannot be passed to Spark: "
    if differing:
        both = dict(predicate.settings), dict(settings)
        made, here = (" and ".join(f"{k}={s[k]!r}" for k in differing) for s in both)
        have = " and ".join(repr(both[1][k]) for k in differing)
        raise UnsupportedForm(
            f"{problem}the plan was made with {made}; the session has {have}; plan again with "
            f"{here}"
        )
    raise UnsupportedForm(
        f"{problem}its text would mean something else in this session, or Skipstone does not "
        "understand a part of it. Give the condition as SQL text or as a Column."
    )


def _has_sparks_names(text: str) -> bool:
    """Return True if Spark knows all functions of a text; some forms become our own functions."""
    names = [str(n.value) for n in parse(text)[0].walk() if n.op is Op.CALL]
    return all(name in SPARK_NAMES or not name.isidentifier() for name in names)


def _differing(a: Settings, b: Settings) -> list[str]:
    """Return the names of the settings that differ, in alphabetical order."""
    alike = {
        "ansi": a["ansi"] == b["ansi"],
        "case_sensitive": a["case_sensitive"] == b["case_sensitive"],
        "timezone": same_zone(a["timezone"], b["timezone"]),
    }
    return [name for name, same in alike.items() if not same]


def _means_the_same(
    source: PredicateSource, predicate: PruningPredicate, settings: Settings
) -> bool:
    """Return True if a condition certainly means a predicate under settings of a session."""
    if predicate.has_unknown:
        return False
    try:
        bound = PruningPredicate(source, predicate.schema, **settings)
    except PredicateError:
        return False
    return not bound.has_unknown and _without_zone(bound.node) == _without_zone(predicate.node)


def _without_zone(n: Node) -> Node:
    """Return a bound node with one time zone in all calls that do not depend on theirs.

    Evaluation needs the zone only to convert between instants and clocks. Literals are bound
    already, so a call without an instant among its arguments and results does not depend on it.
    """
    value, args = n.value, tuple(map(_without_zone, n.args))
    types = [m.dtype for m in (*args, n) if m.dtype is not None]  # conditions have no type
    if n.op is Op.CALL and not any(t.zoned or t.nested for t in types):
        assert isinstance(value, tuple)
        name, session, *body = value
        if not body and isinstance(session, Session):
            value = name, Session(ansi=session.ansi)
    return Node(n.op, args, value, n.dtype)


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
