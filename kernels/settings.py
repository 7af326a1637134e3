"""The kinds of settings of `skipstone.config`: how each is read from a variable and checked."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast, overload

from skipstone.ir.errors import SkipstoneError

T = TypeVar("T")  # the type of a setting's value
Given = TypeVar("Given")  # the types that a program may set
Folder: TypeAlias = str | os.PathLike[str]
BOOLEAN_WORDS: Final = {
    **dict.fromkeys(("1", "true", "on", "yes"), True),
    **dict.fromkeys(("0", "false", "off", "no"), False),
}


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """The progress of a long piece of work.

    Attributes:
        phase: The work: "listing", "footers", "log", "checkpoint", "statistics", "manifests",
            "planning", "reading", "pages", "index" or "shards".
        done: The number of units that are done.
        total: The number of units; None if it is not known.
        unit: What is counted: "folders", "files", "commits", ...

    Example:
        >>> ProgressEvent("footers", 1200, 10_000, "files")
        ProgressEvent(phase='footers', done=1200, total=10000, unit='files')
    """

    phase: str
    done: int
    total: int | None
    unit: str


ProgressSetting: TypeAlias = Callable[[ProgressEvent], object] | bool | None


class UnknownSetting(SkipstoneError, AttributeError):
    """No setting has that name."""


class _InvalidValue(Exception):
    """A value that a setting cannot have; the message says what was expected."""


class Setting(Generic[T, Given]):
    """One setting: an attribute of `Config` that checks its values.

    Args:
        variable: The environment variable.
        parse: Returns a variable's text as a value.
        check: Returns what a program gave as a value.
        default: Returns the value if neither the program nor the environment sets one.
        error: The class of errors about it.
        nullable: Whether None is a value. Otherwise, setting None resets the setting.
    """

    def __init__(
        self,
        variable: str,
        parse: Callable[[str], T],
        check: Callable[[Any], T],
        default: Callable[[], T],
        *,
        error: type[SkipstoneError] = SkipstoneError,
        nullable: bool = False,
    ) -> None:
        self.variable, self.nullable = variable, nullable
        self._parse, self._check, self._default, self._error = parse, check, default, error

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, config: None, owner: type[Any]) -> Setting[T, Given]: ...
    @overload
    def __get__(self, config: object, owner: type[Any]) -> T: ...
    def __get__(self, config: object, owner: type[Any]) -> Setting[T, Given] | T:
        return self if config is None else self.value()

    def __set__(self, config: object, value: Given) -> None:
        self.set(value)

    def set(self, value: object, called: str | None = None) -> None:
        """Set the value for the whole process; `called` names it in an error."""
        if value is None and not self.nullable:
            in_code.pop(self.name, None)
        else:
            in_code[self.name] = self.checked(value, called or f"config.{self.name}", ", or None")

    def checked(self, value: object, called: str, otherwise: str = "") -> T:
        """Return a value that a program gave, as the setting's type.

        Args:
            value: The value.
            called: The name of the setting, for errors.
            otherwise: What else could be given, for errors.

        Raises:
            SkipstoneError: the value is invalid.
        """
        try:
            return self._check(value)
        except _InvalidValue as e:
            raise self._error(f"{called} is {value!r}; expected {e}{otherwise}") from None

    def value(self) -> T:
        """Return the value in effect, in this thread or task.

        Raises:
            SkipstoneError: the environment variable has another form than expected.
        """
        held = overridden.get()
        if self.name in held or self.name in (held := in_code):
            return cast("T", held[self.name])
        text = self._text()
        if text is None:
            return self._default()
        try:
            return self._parse(text)
        except _InvalidValue as e:
            message = f"{self.variable} is {text!r}; expected {e}, or leave it unset"
            raise self._error(message) from None

    def source(self) -> str:
        """Return where the value comes from: "override", "code", the variable, or "default"."""
        if self.name in overridden.get():
            return "override"
        if self.name in in_code:
            return "code"
        return "default" if self._text() is None else self.variable

    def _text(self) -> str | None:
        text = os.environ.get(self.variable)
        # An empty folder would be the current one; it has always counted as unset.
        return None if text == "" and self._parse is folder_of else text


in_code: dict[str, Any] = {}  # what the program set
overridden: ContextVar[Mapping[str, Any]] = ContextVar(
    "skipstone.config", default=MappingProxyType({})
)


def positive(text: str) -> int:
    """Return a positive integer that a variable holds."""
    if not (text.isascii() and text.isdigit() and len(text) < 10) or int(text) == 0:
        raise _InvalidValue("a positive integer")
    return int(text)


def checked_positive(value: Any) -> int:
    """Return a positive integer that a program gave."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _InvalidValue("a positive integer")
    return value


def cpus() -> int:
    """Return the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def boolean(text: str) -> bool:
    """Return the truth value that a variable holds, in one of BOOLEAN_WORDS."""
    if text.strip().lower() not in BOOLEAN_WORDS:
        raise _InvalidValue("true or false")
    return BOOLEAN_WORDS[text.strip().lower()]


def checked_boolean(value: Any) -> bool:
    """Return a truth value that a program gave."""
    if not isinstance(value, bool):
        raise _InvalidValue("True or False")
    return value


def folder_of(value: Folder) -> str:
    """Return an absolute path; "~" is the user's home directory."""
    return os.path.abspath(os.path.expanduser(os.fspath(value)))


def checked_folder(value: Any) -> str:
    """Return the absolute path of a folder that a program gave."""
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(path, str) or not path:
        raise _InvalidValue("a folder's path")
    return folder_of(path)


def checked_optional_folder(value: Any) -> str | None:
    """Return the absolute path of a folder that a program gave, or None."""
    return None if value is None else checked_folder(value)


def user_cache_dir() -> str:
    """Return `skipstone` in the user's cache directory."""
    from pathlib import Path

    return str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "skipstone")


def checked_progress(value: Any) -> ProgressSetting:
    """Return a progress setting that a program gave."""
    if value is None or isinstance(value, bool):
        return value
    if not callable(value) or needs_two(value):
        raise _InvalidValue("True, False, or a function of one ProgressEvent")
    return cast("Callable[[ProgressEvent], object]", value)


def needs_two(function: Callable[..., object]) -> bool:
    """Return True if a function needs two positional arguments or more.

    Example:
        >>> needs_two(lambda done, total: None), needs_two(lambda event, to=None: None)
        (True, False)
    """
    import inspect

    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a function of C may have no signature
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in positional and p.default is p.empty for p in parameters) > 1
