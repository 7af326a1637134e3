"""Reject likely misspellings of known functions."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Final

from skipstone.ir.errors import UnknownFunction, clip
from skipstone.ir.forms import CONDITIONS, SCALARS
from skipstone.ir.functions import builtin_functions
from skipstone.ir.functions.build import ALIASES, LATEST
from skipstone.ir.functions.spark_names import SPARK_NAMES, explain_method
from skipstone.ir.node import Node, Op

# Python's repr of a value in an f-string: datetime.datetime(2024, 1, 31), np.int64(5).
PYTHON: Final = re.compile(r"(?:datetime|np|numpy|pd|pandas)\.\w+")
MIN_LETTERS: Final = 3  # shorter names are close to everything
# In shorter names, replacing a letter usually gives another word: lake, like.
MIN_LETTERS_TO_REPLACE: Final = 6
MIN_LETTERS_FOR_TWO: Final = 10  # of a name in which two letters may be wrong


def check_functions(node: Node, text: str | None = None) -> None:
    """Check the functions that an unbound predicate calls.

    A name that is neither Spark's, nor registered, nor close to one that is understood may be a
    function that only Spark knows, so it is not an error.

    Args:
        node: The predicate as parsed.
        text: The predicate's text, in which the error points at the name.

    Raises:
        UnknownFunction: there is no such function, but one whose name differs in a letter or two;
            or a value was put into the text as Python writes it.
    """
    for n in node.walk():
        if n.op is Op.CALL and isinstance(n.value, str) and not is_function(n.value):
            if PYTHON.fullmatch(n.value):
                error = UnknownFunction(
                    f"predicate calls {clip(n.value)!r}, a name of Python; write the value in SQL, "
                    "such as 5 or TIMESTAMP '2024-01-31 12:00:00', or use a filter such as "
                    "[('x', '>=', value)]"
                )
                raise error if text is None else error.at(text, _position(n.value, text))
            space, _, method = n.value.rpartition(".")
            is_method = space and explain_method(space, method, ())
            near = None if is_method else near_function(n.value)
            if near is not None:
                name = clip(n.value)
                error = UnknownFunction(
                    f"predicate calls {name!r}, which is not a function. Did you mean {near!r}? "
                    f"A function of your own needs skipstone.register_function({name!r}, ...)"
                )
                raise error if text is None else error.at(text, _position(n.value, text))


@functools.cache
def known_functions() -> frozenset[str]:
    """Return the names that are understood."""
    return frozenset((*builtin_functions(), *ALIASES, *CONDITIONS, *SCALARS))


def is_function(name: str) -> bool:
    """Return True for a function of Spark or a registered one, understood or not.

    Names with a space are the parser's own; nobody can write them.
    """
    return " " in name or name in known_functions() or name in SPARK_NAMES or name in LATEST


def near_function(name: str) -> str | None:
    """Return the understood function whose name differs in a letter or two; None if there is none.

    Example:
        >>> near_function("yaer"), near_function("lenght"), near_function("my_upper")
        ('year', 'length', None)
    """
    if len(name) < MIN_LETTERS:
        return None
    most, replacing = (
        2 if len(name) >= MIN_LETTERS_FOR_TWO else 1,
        1 if len(name) >= MIN_LETTERS_TO_REPLACE else 2,
    )
    digits = re.findall(r"\d", name)  # year2 is a name of its own, not a misspelt year
    found = [
        (distance, other)
        for other in _candidates()
        if abs(len(other) - len(name)) <= most
        and re.findall(r"\d", other) == digits
        and (distance := edits(name, other, replacing)) <= most
    ]
    return min(found)[1] if found else None


def _candidates() -> Iterator[str]:
    """Yield the functions that people can write and that are understood."""
    yield from (name for name in known_functions() if name in SPARK_NAMES or "." in name)
    yield from LATEST


def edits(a: str, b: str, replacing: int = 1) -> int:
    """Return how many letters to insert, delete, replace or swap with the next make `a` into `b`.

    Args:
        a, b: The names.
        replacing: What replacing a letter counts.

    Source: optimal string alignment distance, Damerau, CACM 1964.
    """
    before, row = [0] * (len(b) + 1), list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, before, row = before, row, [i, *[0] * len(b)]
        for j, y in enumerate(b, 1):
            row[j] = min(
                before[j] + 1, row[j - 1] + 1, before[j - 1] + (replacing if x != y else 0)
            )
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                row[j] = min(row[j], last[j - 2] + 1)
    return row[-1]


def _position(name: str, text: str) -> int | None:
    """Return where a text calls a function."""
    m = re.search(rf"(?<![\w.]){re.escape(name)}\s*\(", text, re.IGNORECASE)
    return None if m is None else m.start()
