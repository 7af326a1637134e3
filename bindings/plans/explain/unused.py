"""Find the parts of a condition that can never prune, and warn about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skipstone.ir.errors import clip, warn_caller
from skipstone.ir.functions.build import TRUTH, call_of, function_of
from skipstone.ir.interval import any_result
from skipstone.ir.node import FIELDS, Node, Op, conjuncts_of, not_understood, parts_of, sql_path
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


def unused_parts(
    predicate: PruningPredicate | None, *, bounds_elements: bool
) -> tuple[UnusedPart, ...]:
    """Return the parts of a condition that can never prune, each with its reason.

    Args:
        predicate: The condition; None has no parts.
        bounds_elements: Whether the statistics bound the elements of arrays, and the keys and
            values of maps.
    """
    if predicate is None:
        return ()
    out: dict[UnusedPart, None] = dict.fromkeys(quoted_columns(predicate))
    for c in conjuncts_of(predicate.node):
        reasons, text = not_understood(c), show(c)
        if c == TRUE:
            continue
        if not predicate.part(c).always_true:
            out |= {UnusedPart(r.what, r.why, r.hint, conjunct=False): None for r in reasons}
            if not reasons and (unbounded := _why_unbounded(c, bounds_elements)):
                out[UnusedPart(text, *unbounded)] = None
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


UNBOUNDED: Final = ("no statistics bound the values of lists and maps", "compare a single value")
OPAQUE: Final = ("no bounds of its result are known", "array_contains, exists and array_max prune")
SHORTER: Final = (
    "Spark raises an error where the array is shorter, which pruning must not hide",
    "get(array, index) counts from 0, gives NULL there, and prunes",
)


def _why_unbounded(part: Node, bounds_elements: bool) -> tuple[str, str] | None:
    """Return why no bounds can decide a part that tests lists, maps and the like, and a way out.

    None means that some may, or that the part also tests other columns.
    """
    match part.op:
        case Op.OR:
            found = [_why_unbounded(a, bounds_elements) for a in part.args]
            return next((why for why in found if why), None)
        case Op.AND | Op.NOT:
            found = [_why_unbounded(a, bounds_elements) for a in part.args]
            return found[0] if all(found) else None
        case Op.IS_NULL:
            is_column = part.args[0].op is Op.COLUMN
            return None if is_column else _why_unbounded(part.args[0], bounds_elements)
    columns = [n for n in part.walk() if n.op is Op.COLUMN]
    if not columns or any(n.dtype is None or n.dtype.kind is not Kind.OTHER for n in columns):
        return None
    if not bounds_elements or not any(parts_of(n.dtype) for n in columns if n.dtype):
        return UNBOUNDED
    return next((why for n in part.walk() if (why := why_opaque(n))), None)


def why_opaque(n: Node) -> tuple[str, str] | None:
    """Return why bounds of elements say nothing about the result of a call, and a way out."""
    if n.op is not Op.CALL or not isinstance(n.value, tuple) or n.value[0] in (TRUTH, "exists"):
        return None
    call = call_of(n)
    function = function_of(call.name)
    if call.name in ("filter", FIELDS) and n.args[0].op is Op.COLUMN:
        return None  # some of the column's elements
    if call.name == "size":
        return None if n.args[0].op is Op.CALL and call_of(n.args[0]).name == "filter" else OPAQUE
    if call.session.ansi and call.types and call.types[0].entries is None:
        if call.name in ("[]", "element_at"):
            return SHORTER
    return OPAQUE if function is not None and function.interval is any_result else None


def warn_unused(predicate: PruningPredicate, *, bounds_elements: bool) -> None:
    """Warn in one line about the parts of a condition that can never prune, if there are any.

    Under Python's default warning filters, a message is shown once for each calling line.

    Args:
        predicate: The condition.
        bounds_elements: See `unused_parts`.
    """
    if parts := unused_parts(predicate, bounds_elements=bounds_elements):
        message = ". ".join(map(str, parts[:MAX_PARTS]))
        if len(parts) > MAX_PARTS:
            message += f". {len(parts) - MAX_PARTS} more: see plan.unused_parts"
        warn_caller(message)
