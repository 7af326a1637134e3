"""The names of a join's keys: parse them, and resolve them against the rows' columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from skipstone.bindings.predicates.predicate import is_column
from skipstone.ir.errors import AmbiguousColumn, PredicateError, unknown_column


def pairs_of(on: object) -> dict[str, str]:
    """Return the keys' names: probe side's name -> build side's name.

    Raises:
        PredicateError: there are no keys, or they are not names.

    Example:
        >>> pairs_of("k"), pairs_of({"sold": "day"})
        ({'k': 'k'}, {'sold': 'day'})
    """
    given = [on] if isinstance(on, str) else on
    if (
        is_column(given)
        or not isinstance(given, Mapping | Sequence)
        or not len(given)
        or not all(isinstance(name, str) for name in given)
    ):
        raise PredicateError(
            f"on is {on!r:.100}; expected names of keys that both sides have, "
            "or a mapping: names of the probe side (fact) -> names of the build side (dim)"
        )
    return dict(given) if isinstance(given, Mapping) else {name: name for name in given}


def resolved(
    name: str, names: Sequence[str], *, case_sensitive: bool, side: str = "the left side"
) -> str:
    """Return the column of a side of the join that a key's name means.

    Raises:
        UnknownColumn: no column has the name.
        AmbiguousColumn: several columns have it.
    """
    same = [n for n in names if n == name or (not case_sensitive and n.lower() == name.lower())]
    if not same:
        raise unknown_column(name, names, "on=", f"{side} has")
    if len(same) > 1:
        raise AmbiguousColumn(
            f"on= names {name!r}; {side} has {', '.join(map(repr, same))}. "
            "Only a case-sensitive session tells them apart; set case_sensitive=True"
        )
    return same[0]
