"""Errors that Skipstone raises.

Each message names the thing, what was expected, what came, and the way out.
"""

from __future__ import annotations

import contextlib
import re
import sys
import warnings
from collections.abc import Iterable, Iterator


class SkipstoneError(Exception):
    """Base class of every error that Skipstone raises on purpose. Catch it to catch them all."""


class SkipstoneWarning(UserWarning):
    """A warning that pruning ignores something: queries may get slower, but never wrong."""


class PredicateError(SkipstoneError, ValueError):
    """A predicate is malformed.

    Attributes:
        message: What is wrong, without the position.
        text: The predicate's text; None if it did not come as text.
        position: The position of the error in `text`, in characters from 0; None if not known.
    """

    def __init__(self, message: str, text: str | None = None, position: int | None = None) -> None:
        self.message, self.text, self.position = message, text, position
        super().__init__(message)

    def at(self, text: str, position: int | None) -> PredicateError:
        """Return the same error, pointing at a position of `text`."""
        return type(self)(self.message, text, position)

    def __str__(self) -> str:
        if self.text is None or self.position is None:
            return self.message
        line = self.text.count("\n", 0, self.position) + 1
        start = self.text.rfind("\n", 0, self.position) + 1
        shown = self.text[start:].split("\n", 1)[0]
        column = self.position - start
        cut = max(0, column - 40)
        # A lone surrogate cannot be printed.
        part = shown[cut : cut + 100].encode(errors="replace").decode()
        position = f"(line {line}, column {column + 1})"
        return f"{self.message} {position}\n  {part}\n  {' ' * (column - cut)}^"


class PredicateSyntaxError(PredicateError):
    """The text of a predicate cannot be parsed."""


class PredicateTooDeep(PredicateError):
    """A predicate is nested deeper than the parser or the compiler can follow."""


@contextlib.contextmanager
def limited_nesting() -> Iterator[None]:
    """Raise PredicateTooDeep where the block exceeds Python's limit of recursion."""
    try:
        yield
    except RecursionError:
        raise PredicateTooDeep(
            "predicate is nested too deeply; expected at most a few hundred levels"
        ) from None


class UnknownColumn(PredicateError):
    """A predicate names a column that the schema lacks."""


class UnknownFunction(PredicateError):
    """A predicate calls a function that does not exist: a misspelt one, or one of Python."""


class AmbiguousColumn(PredicateError):
    """A name matches several columns when case is ignored."""


class UnsupportedForm(SkipstoneError, NotImplementedError):
    """A form cannot be evaluated on rows, or in another engine; planning keeps its containers."""


class StatisticsError(SkipstoneError, ValueError):
    """Statistics have the wrong shape or names, or a saved file is damaged, changed or too new."""


class SourceError(SkipstoneError, OSError):
    """A file of a table is missing, truncated, encrypted, or of another format."""

    def __init__(self, message: str) -> None:
        # Paths and names may hold line feeds, and URLs secrets.
        super().__init__(printable(without_secrets(message)))


class StaleFile(SourceError):
    """A file was replaced, changed or removed after planning, so its plan no longer holds."""


class DynamicFilterError(SkipstoneError, ValueError):
    """A dynamic filter got rows with other columns, or an invalid or changed limit."""


class BackendMissing(SkipstoneError, ImportError):
    """A package, device or version that the call needs is missing."""


class DeviceError(SkipstoneError, RuntimeError):
    """A device failed: it is out of memory or lost, or the process forked after using it."""


PACKAGE = f"{__name__.split('.')[0]}."


def warn_caller(message: str) -> None:
    """Warn at the line of the program that called Skipstone, however deep our own calls are."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, SkipstoneWarning, stacklevel=level)


MAX_PATH = 1000  # characters of a path that messages show
MAX_NAMES = 8  # columns that a message lists
MIN_LIKENESS = 0.6  # of a column that a message suggests, as `difflib` measures it


def printable(text: str) -> str:
    """Return a text on one line: characters that cannot be printed are escaped."""
    return "".join(ch if ch.isprintable() else repr(ch)[1:-1] for ch in text)


def clip(name: str, most: int = 100) -> str:
    """Return a name as messages show it: on one line, cut after `most` characters."""
    shown = printable(name[:most])
    return shown if len(name) <= most >= len(shown) else shown[:most] + "..."


def counted(n: int | None, what: str) -> str:
    """Return a number of things, for display; None is an unknown number.

    Example:
        >>> counted(1, "row groups"), counted(1_200, "footers from the snapshot")
        ('1 row group', '1,200 footers from the snapshot')
    """
    if n is None:
        return f"unknown {what}"
    return f"{n:,} " + (re.sub(r"s\b", "", what, count=1) if n == 1 else what)


def shown_number(n: int | None) -> str:
    """Return a number for display; None is an unknown number."""
    return "unknown" if n is None else f"{n:,}"


def without_secrets(text: str) -> str:
    """Return a text without the passwords and query values of the URLs in it.

    Example:
        >>> without_secrets("https://me:secret@host/t.parquet?sig=secret&v=1")
        'https://host/t.parquet?sig=...&v=...'
    """
    if "://" not in text:
        return text
    text = re.sub(r"(?<=://)[^/@\s]*@", "", text)
    # Punctuation of the sentence around a URL stays.
    return re.sub(r"(?<=[?&])([\w.%-]+)=[^&\s'\"]*[^&\s'\",:;)]", r"\1=...", text)


def describe_error(e: BaseException) -> str:
    """Return an error's class and message on one line, as our own messages quote it.

    A long message is cut in its middle: libraries name the cause last.
    """
    text = re.sub(r"\x1b\[[0-9;]*m|\u21b3", "", str(e))  # colours of terminals
    lines = [line.strip() for line in without_secrets(text).splitlines() if line.strip()]
    said = printable("; ".join(lines))
    said = said if len(said) <= 300 else f"{said[:140]} ... {said[-155:]}"
    return f"{type(e).__name__}: {said}" if said else type(e).__name__


def _nearest_first(name: str, names: list[str]) -> list[tuple[float, str]]:
    """Return the names with their similarity to a name, from 0 to 2, the most similar first.

    The similarity of a name that contains this one as a word is above 1.
    """
    import difflib

    wanted = name.lower()
    matcher = difflib.SequenceMatcher(b=wanted)
    found = []
    for other in names:
        matcher.set_seq1(other.lower())
        is_part = wanted in re.split(r"[\W_]+", other.lower())
        found.append((matcher.ratio() + is_part, other))
    return sorted(found, key=lambda pair: -pair[0])


def unknown_column(
    name: str, known: Iterable[str], by: str = "predicate", whose: str = "the schema has"
) -> UnknownColumn:
    """Return the error for a name that matches no column, with the nearest names.

    The hint prefers a name that contains this one, such as dep_delay for delay, to a name that
    differs in some letters, such as day.

    Args:
        name: The name.
        known: The names of the columns.
        by: Who used the name: "predicate", "order_by", ...
        whose: The owner of the columns, with the verb, such as "the rows have".
    """
    names, name = list(known), clip(name)
    near = _nearest_first(name, names)
    more = f" and {len(names) - MAX_NAMES:,} more" if len(names) > MAX_NAMES else ""
    listed = names if len(names) <= MAX_NAMES else [n for _, n in near[:MAX_NAMES]]
    shown = ", ".join(map(repr, listed)) + more
    hint = near[0][1] if near and near[0][0] >= MIN_LIKENESS else None
    before, _, last = name.rpartition(".")
    if last in names and not any(n.startswith(f"{before}.") for n in names):
        hint = last  # after the table's name or an alias of it
    tail = f" Did you mean {hint!r}?" if hint else ""
    return UnknownColumn(f"{by} names {name!r}; {whose} {shown or 'no columns'}.{tail}")
