"""Kinds of joins: what a match on the other side means for a row of the side that is read."""

from __future__ import annotations

import enum
from typing import Final, Literal

from skipstone.ir.errors import DynamicFilterError

Side = Literal["left", "right"]


class Needs(enum.Enum):
    """Which rows of a side the join's answer depends on."""

    MATCHED = "rows with a match"
    UNMATCHED = "rows without a match"
    ABSENT = "rows that are certain to have no match, NULL being uncertain"
    ALL = "all rows"


# A semi or anti join gives rows of its left side; those of the right only matter by their matches.
LEFT: Final = {
    "inner": Needs.MATCHED,
    "semi": Needs.MATCHED,
    "right": Needs.MATCHED,
    "left": Needs.ALL,
    "full": Needs.ALL,
    "anti": Needs.UNMATCHED,
    "not in": Needs.ABSENT,
}
# NOT IN is empty if the right side has a NULL, and everything if it has no row, so each row of it counts.
RIGHT: Final = {
    "inner": Needs.MATCHED,
    "semi": Needs.MATCHED,
    "left": Needs.MATCHED,
    "anti": Needs.MATCHED,
    "right": Needs.ALL,
    "full": Needs.ALL,
    "not in": Needs.ALL,
}
OTHER_NAMES: Final = {
    "outer": "full",
    "fullouter": "full",
    "leftouter": "left",
    "rightouter": "right",
    "leftsemi": "semi",
    "leftanti": "anti",
    "notin": "not in",
}


def kind_of(how: str) -> str:
    """The kind of a join by one of the names that Spark has for it.

    Example:
        >>> kind_of("left_semi"), kind_of("FULL OUTER"), kind_of("not_in")
        ('semi', 'full', 'not in')
    """
    folded = how.lower().replace("_", "").replace(" ", "") if isinstance(how, str) else ""
    found = OTHER_NAMES.get(folded, folded)
    if found not in LEFT:
        raise DynamicFilterError(
            f"the join is {how!r}; expected one of {', '.join(map(repr, LEFT))}"
        )
    return found


def needs_of(how: str, side: Side) -> Needs:
    """Which rows of a side are needed."""
    if side not in ("left", "right"):
        raise DynamicFilterError(f"the side is {side!r}; expected 'left' or 'right'")
    return (LEFT if side == "left" else RIGHT)[kind_of(how)]
