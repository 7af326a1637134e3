"""Progress bars, by rich or tqdm if one of them is installed.

Bars go to standard error, and only if it is a terminal or a notebook. They disappear at their end.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import TYPE_CHECKING, Any, Protocol

from skipstone.bindings.progress import in_notebook
from skipstone.kernels.run import forks
from skipstone.kernels.settings import ProgressEvent

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_lock = forks.reentrant_lock()


class Bar(Protocol):
    """A bar of one piece of work."""

    def update(self, event: ProgressEvent) -> None:
        """Show how far the work has come."""
        ...

    def close(self) -> None:
        """Remove the bar."""
        ...


def new_bar() -> Bar | None:
    """Return a bar that appears at its first event; None if it could not be shown."""
    notebook = in_notebook()
    try:
        if not (notebook or sys.stderr.isatty()):
            return None
    except (AttributeError, ValueError):  # there is no standard error, or it is closed
        return None
    # In a notebook, rich needs ipywidgets, and tqdm prints text.
    if _is_there("rich") and (not notebook or _is_there("ipywidgets")):
        return RichBar()
    return TqdmBar() if _is_there("tqdm") else None


def _is_there(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


class RichBar:
    """A bar by rich. Concurrent bars share one display, because rich allows only one."""

    _display: Progress | None = None
    _open = 0

    def __init__(self) -> None:
        self._task: TaskID | None = None

    def update(self, event: ProgressEvent) -> None:
        """Show how far the work has come."""
        with _lock:
            if self._task is None:
                display = RichBar._display = RichBar._display or _new_display()
                self._task = display.add_task(event.phase, total=event.total, unit=event.unit)
                RichBar._open += 1
            assert RichBar._display is not None
            RichBar._display.update(
                self._task, completed=event.done, total=event.total, refresh=True, unit=event.unit
            )

    def close(self) -> None:
        """Remove the bar, and the display if it was the last one."""
        with _lock:
            if self._task is None or RichBar._display is None:
                return
            RichBar._display.remove_task(self._task)
            self._task, RichBar._open = None, RichBar._open - 1
            if RichBar._open == 0:
                RichBar._display.stop()
                RichBar._display = None


def _new_display() -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    # Without rich's refresh thread, which a fork would lose: events come often enough.
    display = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        auto_refresh=False,
    )
    display.start()
    return display


class TqdmBar:
    """A bar by tqdm."""

    def __init__(self) -> None:
        self._bar: Any = None

    def update(self, event: ProgressEvent) -> None:
        """Show how far the work has come."""
        if self._bar is None:
            tqdm: Any = importlib.import_module("tqdm")  # its types are a package of their own
            self._bar = tqdm.tqdm(desc=event.phase, unit=f" {event.unit}", leave=False)
        self._bar.total = event.total
        self._bar.update(event.done - self._bar.n)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
