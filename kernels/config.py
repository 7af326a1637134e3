"""`skipstone.config`: every setting, read from the environment and changeable in code.

A setting has the value of the innermost `override`, else the value that the program set, else that
of its environment variable, else its default. Variables are read at each use, so a program may also
change `os.environ`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar, cast, overload

from skipstone.ir.errors import DynamicFilterError, SkipstoneError, SourceError

T = TypeVar("T")  # the type of a setting's value
Given = TypeVar("Given")  # the types that a program may set
Folder: TypeAlias = str | os.PathLike[str]
BOOLEAN_WORDS: Final = {
    **dict.fromkeys(("1", "true", "on", "yes"), True),
    **dict.fromkeys(("0", "false", "off", "no"), False),
}


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """How far a long piece of work has come.

    Attributes:
        phase: The work: "listing", "footers", "log", "checkpoint", "manifests", "reading", "pages",
            "index", "planning" or "shards".
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


class _Unset:
    """The value of an argument that was not given."""

    def __repr__(self) -> str:
        return "<unset>"


UNSET: Final = _Unset()


class _Wrong(Exception):
    """A value that a setting cannot have; the message says what was expected."""


class Setting(Generic[T, Given]):
    """One setting: an attribute of `Config` that checks what it is given.

    Args:
        variable: The environment variable.
        parse: Returns a variable's text as a value.
        check: Returns what a program gave as a value.
        default: Returns the value if nothing was said.
        error: The class of errors about it.
        nullable: Whether None is a value. Otherwise, to set None resets the setting.
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
    def __get__(self, config: Config, owner: type[Any]) -> T: ...
    def __get__(self, config: Config | None, owner: type[Any]) -> Setting[T, Given] | T:
        return self if config is None else self.value()

    def __set__(self, config: Config, value: Given) -> None:
        self.set(value)

    def set(self, value: object, called: str | None = None) -> None:
        """Set the value for the whole process; `called` names it in an error."""
        if value is None and not self.nullable:
            _set.pop(self.name, None)
        else:
            _set[self.name] = self.checked(value, called or f"config.{self.name}", ", or None")

    def checked(self, value: object, called: str, otherwise: str = "") -> T:
        """Return a value that a program gave, as the setting's type.

        Args:
            value: The value.
            called: The name of the setting, for errors.
            otherwise: What else could be given, for errors.

        Raises:
            SkipstoneError: the value is not a possible one.
        """
        try:
            return self._check(value)
        except _Wrong as e:
            raise self._error(f"{called} is {value!r}; expected {e}{otherwise}") from None

    def value(self) -> T:
        """Return the value that counts here and now.

        Raises:
            SkipstoneError: the environment variable has another form than expected.
        """
        held = _overridden.get()
        if self.name in held or self.name in (held := _set):
            return cast("T", held[self.name])
        text = self._text()
        if text is None:
            return self._default()
        try:
            return self._parse(text)
        except _Wrong as e:
            message = f"{self.variable} is {text!r}; expected {e}, or leave it unset"
            raise self._error(message) from None

    def source(self) -> str:
        """Return where the value comes from: "override", "code", the variable, or "default"."""
        if self.name in _overridden.get():
            return "override"
        if self.name in _set:
            return "code"
        return "default" if self._text() is None else self.variable

    def _text(self) -> str | None:
        text = os.environ.get(self.variable)
        # An empty folder would be the current one; it has always counted as unset.
        return None if text == "" and self._parse is _folder else text


_set: dict[str, Any] = {}  # what the program set
_overridden: ContextVar[Mapping[str, Any]] = ContextVar(
    "skipstone.config", default=MappingProxyType({})
)


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) == 0:
        raise _Wrong("a positive integer")
    return int(text)


def _checked_positive(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _Wrong("a positive integer")
    return value


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _boolean(text: str) -> bool:
    if text.strip().lower() not in BOOLEAN_WORDS:
        raise _Wrong("true or false")
    return BOOLEAN_WORDS[text.strip().lower()]


def _checked_boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Wrong("True or False")
    return value


def _folder(value: Folder) -> str:
    return os.path.abspath(os.path.expanduser(os.fspath(value)))


def _checked_folder(value: Any) -> str:
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(path, str) or not path:
        raise _Wrong("a folder's path")
    return _folder(path)


def _checked_optional_folder(value: Any) -> str | None:
    return None if value is None else _checked_folder(value)


def _user_cache() -> str:
    from pathlib import Path

    return str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "skipstone")


def _checked_progress(value: Any) -> ProgressSetting:
    if value is None or isinstance(value, bool):
        return value
    if not callable(value) or needs_two(value):
        raise _Wrong("True, False, or a function of one ProgressEvent")
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


class Config:
    """The settings of this process, each an attribute that can be read and set.

    To set an attribute changes the setting for the whole process. `override` changes it for a
    block. Each value is checked when it is set, and a variable when it is read.

    Attributes:
        threads: The number of threads that share work, the caller's included. Variable:
            SKIPSTONE_THREADS. Default: one for each CPU that the process may use.
        kernel_cache_dir: The folder that keeps compiled kernels. Variable: SKIPSTONE_CACHE_DIR.
            Default: `skipstone` in the user's cache directory.
        statistics_cache_dir: The folder that keeps the statistics of tables whose logs were read,
            for other processes; None keeps nothing. Variable: SKIPSTONE_STATISTICS_CACHE_DIR.
            `skipstone.cache_dir` is the same setting.
        compile: Whether kernels are compiled in the background. Variable: SKIPSTONE_COMPILE.
        dynamic_filtering: Whether plans and joins use dynamic filters, where neither the plan nor
            the table says. Variable: SKIPSTONE_DYNAMIC_FILTERING.
        progress: Who hears of the progress of long work: a function of one `ProgressEvent`; True:
            bars on standard error, if that is a terminal; False: nobody; None: bars in the shell
            and in notebooks. Variable: SKIPSTONE_PROGRESS, true or false.

    Example:
        >>> import skipstone as ss
        >>> with ss.config.override(threads=2, progress=False):
        ...     ss.config.threads, ss.config.source("threads")
        (2, 'override')
    """

    __slots__ = ()

    threads: Setting[int, int | None] = Setting(
        "SKIPSTONE_THREADS", _positive, _checked_positive, _cpus
    )
    kernel_cache_dir: Setting[str, Folder | None] = Setting(
        "SKIPSTONE_CACHE_DIR", _folder, _checked_folder, _user_cache, error=SourceError
    )
    statistics_cache_dir: Setting[str | None, Folder | None] = Setting(
        "SKIPSTONE_STATISTICS_CACHE_DIR",
        _folder,
        _checked_optional_folder,
        lambda: None,
        error=SourceError,
        nullable=True,
    )
    compile: Setting[bool, bool | None] = Setting(
        "SKIPSTONE_COMPILE", _boolean, _checked_boolean, lambda: True
    )
    dynamic_filtering: Setting[bool, bool | None] = Setting(
        "SKIPSTONE_DYNAMIC_FILTERING",
        _boolean,
        _checked_boolean,
        lambda: True,
        error=DynamicFilterError,
    )
    progress: Setting[ProgressSetting, ProgressSetting] = Setting(
        "SKIPSTONE_PROGRESS", _boolean, _checked_progress, lambda: None, nullable=True
    )

    @contextlib.contextmanager
    def override(
        self,
        *,
        threads: int | _Unset = UNSET,
        kernel_cache_dir: Folder | _Unset = UNSET,
        statistics_cache_dir: Folder | _Unset | None = UNSET,
        compile: bool | _Unset = UNSET,
        dynamic_filtering: bool | _Unset = UNSET,
        progress: ProgressSetting | _Unset = UNSET,
    ) -> Iterator[None]:
        """Change settings for a `with` block.

        Only the thread or asyncio task that enters the block sees the change, and the threads that
        Skipstone starts on its behalf. A stream that `to_batches` made inside the block keeps the
        change when it is read later. Kernels that the background thread compiles already are not
        stopped.

        Args:
            threads, kernel_cache_dir, statistics_cache_dir, compile, dynamic_filtering, progress:
                The values, as of the attributes.

        Raises:
            SkipstoneError: a value is not a possible one; nothing is changed then.
        """
        given = {
            "threads": threads,
            "kernel_cache_dir": kernel_cache_dir,
            "statistics_cache_dir": statistics_cache_dir,
            "compile": compile,
            "dynamic_filtering": dynamic_filtering,
            "progress": progress,
        }
        checked = {
            name: SETTINGS[name].checked(value, f"config.override({name}=)")
            for name, value in given.items()
            if not isinstance(value, _Unset)
        }
        token = _overridden.set({**_overridden.get(), **checked})
        try:
            yield
        finally:
            _overridden.reset(token)

    def reset(self, *names: str) -> None:
        """Forget what the program set: the environment or the default counts again.

        Args:
            names: The settings; none: all.

        Raises:
            SkipstoneError: there is no setting of a name.
        """
        for setting in [_named(name) for name in names] or SETTINGS.values():
            _set.pop(setting.name, None)

    def source(self, name: str) -> str:
        """Return where a setting's value comes from.

        Args:
            name: The setting.

        Returns:
            "override", "code", the environment variable's name, or "default".

        Raises:
            SkipstoneError: there is no setting of that name.
        """
        return _named(name).source()

    def __setattr__(self, name: str, value: object) -> None:
        _named(name).set(value)

    def __repr__(self) -> str:
        """Return each setting with its value and where that comes from."""
        rows = [(s.name, _shown(s), s.source()) for s in SETTINGS.values()]
        first, second = (max(len(row[i]) for row in rows) for i in (0, 1))
        lines = [f"  {name:{first}}  {value:{second}}  {source}" for name, value, source in rows]
        return "\n".join(["skipstone.config", *lines])

    def __reduce__(self) -> Literal["config"]:
        return "config"


SETTINGS: Final[dict[str, Setting[Any, Any]]] = {
    name: one for name, one in vars(Config).items() if isinstance(one, Setting)
}
config: Final = Config()


def _named(name: str) -> Setting[Any, Any]:
    if name not in SETTINGS:
        import difflib

        near = difflib.get_close_matches(name, SETTINGS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise UnknownSetting(
            f"skipstone.config has no setting {name!r}; it has {', '.join(SETTINGS)}.{hint}"
        )
    return SETTINGS[name]


class UnknownSetting(SkipstoneError, AttributeError):
    """There is no setting of that name."""


def _shown(setting: Setting[Any, Any]) -> str:
    try:
        return repr(setting.value())
    except (SkipstoneError, RuntimeError) as e:  # RuntimeError: the user has no home directory
        return f"<{e}>"
