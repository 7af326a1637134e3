"""`skipstone.config`: every setting, read from the environment and changeable in code.

The innermost `override` takes precedence, then the value that the program set, then the environment
variable, then the default. Variables are read at each use, so a program may also change
`os.environ`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final, Literal

from skipstone.ir.errors import DynamicFilterError, SkipstoneError, SourceError
from skipstone.kernels.settings import (
    Folder,
    ProgressSetting,
    Setting,
    UnknownSetting,
    boolean,
    checked_boolean,
    checked_folder,
    checked_optional_folder,
    checked_positive,
    checked_progress,
    cpus,
    folder_of,
    in_code,
    overridden,
    positive,
    user_cache_dir,
)


class _Unset:
    """The value of an argument that was not given."""

    def __repr__(self) -> str:
        return "<unset>"


UNSET: Final = _Unset()


class Config:
    """The settings of this process, each an attribute that can be read and set.

    Setting an attribute changes the setting for the whole process. `override` changes it for a
    block. Each value is checked when it is set, and a variable when it is read.

    Attributes:
        threads: The number of threads that share work, including the calling thread. Variable:
            SKIPSTONE_THREADS. Default: one for each CPU that the process may use.
        kernel_cache_dir: The folder for compiled kernels. Variable: SKIPSTONE_CACHE_DIR.
            Default: `skipstone` in the user's cache directory.
        statistics_cache_dir: The folder in which the statistics of tables whose logs were read
            are saved for other processes; None saves nothing. Variable:
            SKIPSTONE_STATISTICS_CACHE_DIR. `skipstone.cache_dir` is an older name for it.
        compile: Whether kernels are compiled in the background. Variable: SKIPSTONE_COMPILE.
        keep_footers: Whether a scan of local Parquet files reuses the footers that an earlier
            scan of the process has read, if no file has changed since. Variable:
            SKIPSTONE_KEEP_FOOTERS.
        keep_matches: Whether a read of local Parquet files reuses which rows matched the same
            condition in an earlier read of the process, if no file has changed since. Variable:
            SKIPSTONE_KEEP_MATCHES.
        dynamic_filtering: Whether plans and joins use dynamic filters, where neither the plan nor
            the table says. Variable: SKIPSTONE_DYNAMIC_FILTERING.
        progress: Where long work reports its progress: a function of one `ProgressEvent`; True:
            bars on standard error, if that is a terminal; False: nowhere; None: bars in the shell
            and in notebooks. Variable: SKIPSTONE_PROGRESS, true or false.

    Example:
        >>> import skipstone as ss
        >>> with ss.config.override(threads=2, progress=False):
        ...     ss.config.threads, ss.config.source("threads")
        (2, 'override')
    """

    __slots__ = ()

    threads: Setting[int, int | None] = Setting(
        "SKIPSTONE_THREADS", positive, checked_positive, cpus
    )
    kernel_cache_dir: Setting[str, Folder | None] = Setting(
        "SKIPSTONE_CACHE_DIR", folder_of, checked_folder, user_cache_dir, error=SourceError
    )
    statistics_cache_dir: Setting[str | None, Folder | None] = Setting(
        "SKIPSTONE_STATISTICS_CACHE_DIR",
        folder_of,
        checked_optional_folder,
        lambda: None,
        error=SourceError,
        nullable=True,
    )
    compile: Setting[bool, bool | None] = Setting(
        "SKIPSTONE_COMPILE", boolean, checked_boolean, lambda: True
    )
    keep_footers: Setting[bool, bool | None] = Setting(
        "SKIPSTONE_KEEP_FOOTERS", boolean, checked_boolean, lambda: True
    )
    keep_matches: Setting[bool, bool | None] = Setting(
        "SKIPSTONE_KEEP_MATCHES", boolean, checked_boolean, lambda: True
    )
    dynamic_filtering: Setting[bool, bool | None] = Setting(
        "SKIPSTONE_DYNAMIC_FILTERING",
        boolean,
        checked_boolean,
        lambda: True,
        error=DynamicFilterError,
    )
    progress: Setting[ProgressSetting, ProgressSetting] = Setting(
        "SKIPSTONE_PROGRESS", boolean, checked_progress, lambda: None, nullable=True
    )

    @contextlib.contextmanager
    def override(
        self,
        *,
        threads: int | _Unset = UNSET,
        kernel_cache_dir: Folder | _Unset = UNSET,
        statistics_cache_dir: Folder | _Unset | None = UNSET,
        compile: bool | _Unset = UNSET,
        keep_footers: bool | _Unset = UNSET,
        keep_matches: bool | _Unset = UNSET,
        dynamic_filtering: bool | _Unset = UNSET,
        progress: ProgressSetting | _Unset = UNSET,
    ) -> Iterator[None]:
        """Change settings for a `with` block.

        Only the thread or asyncio task that enters the block sees the change, and the threads that
        Skipstone starts on its behalf. A stream that `to_batches` made inside the block keeps the
        change when it is read later. Kernels that the background thread compiles already are not
        stopped.

        Args:
            threads, kernel_cache_dir, statistics_cache_dir, compile, keep_footers, keep_matches,
                dynamic_filtering, progress: The values, as for the attributes.

        Raises:
            SkipstoneError: a value is invalid; then no setting changes.
        """
        given = {
            "threads": threads,
            "kernel_cache_dir": kernel_cache_dir,
            "statistics_cache_dir": statistics_cache_dir,
            "compile": compile,
            "keep_footers": keep_footers,
            "keep_matches": keep_matches,
            "dynamic_filtering": dynamic_filtering,
            "progress": progress,
        }
        checked = {
            name: SETTINGS[name].checked(value, f"config.override({name}=)")
            for name, value in given.items()
            if not isinstance(value, _Unset)
        }
        token = overridden.set({**overridden.get(), **checked})
        try:
            yield
        finally:
            overridden.reset(token)

    def reset(self, *names: str) -> None:
        """Remove the values that the program set: the environment or the default applies again.

        Args:
            names: The settings; all of them if none is named.

        Raises:
            SkipstoneError: no setting has one of the names.
        """
        for setting in [_named(name) for name in names] or SETTINGS.values():
            in_code.pop(setting.name, None)

    def source(self, name: str) -> str:
        """Return where a setting's value comes from.

        Args:
            name: The setting.

        Returns:
            "override", "code", the environment variable's name, or "default".

        Raises:
            SkipstoneError: no setting has that name.
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
    if not isinstance(name, str):
        raise UnknownSetting(f"skipstone.config has no setting {name!r:.60}; expected a name")
    if name not in SETTINGS:
        import difflib

        near = difflib.get_close_matches(name, SETTINGS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise UnknownSetting(
            f"skipstone.config has no setting {name!r}; it has {', '.join(SETTINGS)}.{hint}"
        )
    return SETTINGS[name]


def _shown(setting: Setting[Any, Any]) -> str:
    try:
        return repr(setting.value())
    except (SkipstoneError, RuntimeError) as e:  # RuntimeError: the user has no home directory
        return f"<{e}>"
