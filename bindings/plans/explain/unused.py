"""Find the parts of a condition that can never prune, and warn about them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skipstone.ir.errors import SkipstoneWarning, clip
from skipstone.ir.node import Op, conjuncts_of, not_understood
from skipstone.ir.simplify import TRUE
from skipstone.ir.text import show

if TYPE_CHECKING:
    from skipstone.bindings.predicates.predicate import PruningPredicate

MAX_SHOWN: Final = 200  # characters of a part in a message
MAX_PARTS: Final = 3  # in a message


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
    out: dict[UnusedPart, None] = {}
    for c in conjuncts_of(predicate.node):
        reasons, text = not_understood(c), show(c)
        if c == TRUE:
            continue
        if not predicate.part(c).always_true:
            out |= {UnusedPart(r.what, r.why, r.hint, conjunct=False): None for r in reasons}
        elif reasons:
            r = reasons[0]
            why = r.why if c.op is Op.UNKNOWN else f"{clip(r.what, MAX_SHOWN)}: {r.why}"
            out[UnusedPart(text, why, r.hint)] = None
        else:
            out[UnusedPart(text, "no statistics can rule it out")] = None
    return tuple(out)


def warn_unused(predicate: PruningPredicate, stacklevel: int) -> None:
    """Warn in one line about the parts of a condition that can never prune, if there are any.

    As Python's filters have it, a message is shown once for each place that plans by it.

    Args:
        predicate: The condition.
        stacklevel: As for `warnings.warn`, counted from the caller.
    """
    if parts := unused_parts(predicate):
        message = ". ".join(map(str, parts[:MAX_PARTS]))
        if len(parts) > MAX_PARTS:
            message += f". {len(parts) - MAX_PARTS} more: see plan.unused_parts"
        warnings.warn(message, SkipstoneWarning, stacklevel + 1)
