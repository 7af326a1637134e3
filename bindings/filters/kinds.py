"""Kinds of joins: which rows of a side the join needs, by whether they have a match."""

from __future__ import annotations

import enum
from typing import Final, Literal

from skipstone.ir.errors import DynamicFilterError, SkipstoneError

Side = Literal["left", "right"]


class Needs(enum.Enum):
    """The rows of a side that the join's result depends on."""

    MATCHED = "rows with a match"
    UNMATCHED = "rows without a match"
    ABSENT = "rows that certainly have no match; NULL is uncertain"
    ALL = "all rows"


# Semi and anti joins return rows of the left side. Right rows matter only if they match.
LEFT: Final = {
    "inner": Needs.MATCHED,
    "semi": Needs.MATCHED,
    "right": Needs.MATCHED,
    "left": Needs.ALL,
    "full": Needs.ALL,
    "anti": Needs.UNMATCHED,
    "not in": Needs.ABSENT,
}
# NOT IN returns no row if the right side has a NULL, and every row if the right side is empty.
# So the result depends on all rows of the right side.
RIGHT: Final = {
    "inner": Needs.MATCHED,
    "semi": Needs.MATCHED,
    "left": Needs.MATCHED,
    "anti": Needs.MATCHED,
    "right": Needs.ALL,
    "full": Needs.ALL,
    "not in": Needs.ALL,
}
ALIASES: Final = {
    "outer": "full",
    "fullouter": "full",
    "leftouter": "left",
    "rightouter": "right",
    "leftsemi": "semi",
    "leftanti": "anti",
    "notin": "not in",
}


def kind_of(how: str, error: type[SkipstoneError] = DynamicFilterError) -> str:
    """Return the kind of a join by any of Spark's names for it.

    Args:
        how: The name.
        error: The class of the error.

    Raises:
        SkipstoneError: the name is not a kind of join.

    Example:
        >>> kind_of("left_semi"), kind_of("FULL OUTER"), kind_of("not_in")
        ('semi', 'full', 'not in')
    """
    folded = how.lower().replace("_", "").replace(" ", "") if isinstance(how, str) else ""
    kind = ALIASES.get(folded, folded)
    if kind not in LEFT:
        import difflib

        if near := difflib.get_close_matches(folded, LEFT, n=1):
            raise error(f"how is {how!r}; did you mean {near[0]!r}?")
        raise error(f"how is {how!r}; expected one of {', '.join(map(repr, LEFT))}")
    return kind


def needs_of(how: str, side: Side) -> Needs:
    """Return which rows of a side the join needs.

    Raises:
        DynamicFilterError: the join or the side is unknown.
    """
    if side not in ("left", "right"):
        raise DynamicFilterError(f"the side is {side!r}; expected 'left' or 'right'")
    return (LEFT if side == "left" else RIGHT)[kind_of(how)]
