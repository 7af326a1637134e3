"""Find the parts of a condition that can never prune, and warn about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skipstone.ir.errors import clip, warn_caller
from skipstone.ir.node import Node, Op, conjuncts_of, not_understood, sql_path
from skipstone.ir.simplify import TRUE
from skipstone.ir.text import show
from skipstone.ir.types import Kind

if TYPE_CHECKING:
    from skipstone.bindings.predicates.predicate import PruningPredicate

MAX_SHOWN: Final = 200  # characters of a part in a message
MAX_PARTS: Final = 3  # the parts that a message names


@dataclass(frozen=True, slots=True)
class UnusedPart:
    """A part of a condition that can never prune, whatever the statistics are.

    Attributes:
        text: The conjunct, or the part of one, as SQL.
        why: The reason.
        hint: What to write instead, so that it prunes; "" if that is not known.
        conjunct: Whether this is a whole conjunct, and not a part of one that may prune.
    """

    text: str
    why: str
    hint: str = ""
    conjunct: bool = True

    def __str__(self) -> str:
        tail = f"; {self.hint}" if self.hint else ""
        return f"{clip(self.text, MAX_SHOWN)} cannot prune: {clip(self.why, MAX_SHOWN)}{tail}"


def unused_parts(predicate: PruningPredicate | None) -> tuple[UnusedPart, ...]:
    """Return the parts of a condition that can never prune, each with its reason."""
    if predicate is None:
        return ()
    out: dict[UnusedPart, None] = dict.fromkeys(quoted_columns(predicate))
    for c in conjuncts_of(predicate.node):
        reasons, text = not_understood(c), show(c)
        if c == TRUE:
            continue
        if not predicate.part(c).always_true:
            out |= {UnusedPart(r.what, r.why, r.hint, conjunct=False): None for r in reasons}
            if not reasons and _compares_nested(c):
                why = "no statistics bound the values of lists and maps"
                out[UnusedPart(text, why, "compare a column of single values")] = None
        elif reasons:
            r = reasons[0]
            why = r.why if c.op is Op.UNKNOWN else f"{clip(r.what, MAX_SHOWN)}: {r.why}"
            out[UnusedPart(text, why, r.hint)] = None
        else:
            out[UnusedPart(text, "no statistics can rule it out")] = None
    return tuple(out)


def quoted_columns(predicate: PruningPredicate) -> list[UnusedPart]:
    """Return the names of columns that a condition's text has in double quotes.

    Spark SQL reads them as text, so `"x" = 5` compares the letter x with 5.
    """
    text = predicate.source
    if not isinstance(text, str) or '"' not in text:
        return []
    from skipstone.bindings.predicates.sql_tokens import QUOTED

    quoted = [m[0][1:-1] for m in QUOTED.finditer(text) if m[0][0] == '"']
    return [
        UnusedPart(
            f'"{name}"',
            "Spark SQL reads double quotes as text, not as a column",
            f"write the column as {sql_path((name,))}",
            conjunct=False,
        )
        for name in dict.fromkeys(quoted)
        if name in predicate.schema.names
    ]


def _compares_nested(part: Node) -> bool:
    """Return True if a part can only be decided by values of lists, maps and the like."""
    match part.op:
        case Op.OR:
            return any(map(_compares_nested, part.args))
        case Op.AND | Op.NOT:
            return all(map(_compares_nested, part.args))
        case Op.IS_NULL:
            return part.args[0].op is not Op.COLUMN and _compares_nested(part.args[0])
    columns = [n for n in part.walk() if n.op is Op.COLUMN]
    return bool(columns) and all(
        n.dtype is not None and n.dtype.kind is Kind.OTHER for n in columns
    )


def warn_unused(predicate: PruningPredicate) -> None:
    """Warn in one line about the parts of a condition that can never prune, if there are any.

    Under Python's default warning filters, a message is shown once for each calling line.
    """
    if parts := unused_parts(predicate):
        message = ". ".join(map(str, parts[:MAX_PARTS]))
        if len(parts) > MAX_PARTS:
            message += f". {len(parts) - MAX_PARTS} more: see plan.unused_parts"
        warn_caller(message)
