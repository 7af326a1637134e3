"""The errors that Skipstone raises: each names the thing, what was expected, what came, the way out."""

from __future__ import annotations

from collections.abc import Iterable


class SkipstoneError(Exception):
    """Base of every error raised on purpose. Catch this one to catch them all."""


class SkipstoneWarning(UserWarning):
    """Something costs speed, and never rows: what it names is not used for pruning."""


class PredicateError(SkipstoneError, ValueError):
    """A predicate is malformed. `text` and `position` (0-based) say where, when it came as text."""

    def __init__(self, message: str, text: str | None = None, position: int | None = None) -> None:
        self.message, self.text, self.position = message, text, position
        super().__init__(message)

    def at(self, text: str, position: int | None) -> PredicateError:
        """The same error, pointing into `text`."""
        return type(self)(self.message, text, position)

    def __str__(self) -> str:
        if self.text is None or self.position is None:
            return self.message
        line = self.text.count("\n", 0, self.position) + 1
        start = self.text.rfind("\n", 0, self.position) + 1
        shown = self.text[start:].split("\n", 1)[0]
        column = self.position - start
        cut = max(0, column - 40)
        part = (
            shown[cut : cut + 100].encode(errors="replace").decode()
        )  # a lone surrogate cannot be printed
        return f"{self.message} (line {line}, column {column + 1})\n  {part}\n  {' ' * (column - cut)}^"


class PredicateSyntaxError(PredicateError):
    """The text of a predicate cannot be parsed."""


class PredicateTooDeep(PredicateError):
    """A predicate is nested deeper than the parser or the compiler can follow."""


class UnknownColumn(PredicateError):
    """A predicate names a column that the schema lacks."""


class AmbiguousColumn(PredicateError):
    """A name fits several columns when case is ignored."""


class UnsupportedForm(SkipstoneError, NotImplementedError):
    """Rows must be judged by a form that the row evaluator lacks. Planning still works: it keeps the container."""


class StatisticsError(SkipstoneError, ValueError):
    """Statistics have the wrong shape: unequal lengths, unknown keys, no containers."""


class SourceError(SkipstoneError, OSError):
    """A file of a table is missing, truncated, of another format, or encrypted."""


class StaleFile(SourceError):
    """A file was replaced, changed or removed after it was planned: what was known of it is not
    true of it any more.
    """


class DynamicFilterError(SkipstoneError, ValueError):
    """A dynamic filter was given rows of other columns, a limit that is none, or differs from the one that it was before."""


class BackendMissing(SkipstoneError, ImportError):
    """A backend was asked for by name, and its package or device is not there."""


class DeviceError(SkipstoneError, RuntimeError):
    """A device was there and failed: it is out of memory, lost, or was used before this process was forked."""


def clip(name: str) -> str:
    """A name as messages show it."""
    return name if len(name) <= 100 else name[:100] + "..."


def unknown_column(name: str, known: Iterable[str]) -> UnknownColumn:
    """The error for a name that no column has, with the nearest names as a hint."""
    names = list(known)
    name = clip(name)
    shown = ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")
    import difflib

    near = difflib.get_close_matches(name.lower(), [n.lower() for n in names], n=1)
    hint = next((n for n in names if near and n.lower() == near[0]), None)
    tail = f" Did you mean {hint!r}?" if hint else ""
    return UnknownColumn(f"predicate names {name!r}; the schema has {shown}.{tail}")
