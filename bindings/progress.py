"""Progress of long work: a few events a second, to a function, a bar, or nobody.

Work that takes less than half a second reports nothing. Events come from the thread that waits for
the work, so an error that a function raises ends the call as any other error does.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from types import TracebackType
from typing import Any, Final, Self, TypeAlias, TypeVar, cast

from skipstone.kernels.config import SETTINGS, config
from skipstone.kernels.settings import ProgressEvent, ProgressSetting, needs_two

FIRST_EVENT_SECONDS: Final = 0.5  # work before the first event
EVENT_SECONDS: Final = 0.1  # time between events
# What `scan_parquet` has always taken: called with (files whose footer is known, files).
FooterProgress: TypeAlias = Callable[[int, int], None]
T = TypeVar("T")


class Track(AbstractContextManager["Track"]):
    """The progress of one piece of work, within a `with` block.

    Args:
        phase, total, unit: As in `ProgressEvent`.

    Attributes:
        done: The number of units that are done.
        total: The number of units, which may grow; None if it is not known.
    """

    def __init__(self, phase: str, total: int | None, unit: str) -> None:
        self.done, self.total = 0, total
        self._phase, self._unit = phase, unit
        self._sink, self._close = _sink_of(config.progress)
        self._next = 0.0 if self._sink is None else time.perf_counter() + FIRST_EVENT_SECONDS
        self._sent = -1

    def step(self, n: int = 1) -> None:
        """Count n more units, and report them if it is time to."""
        self.done += n
        if self._sink is not None and (now := time.perf_counter()) >= self._next:
            self._next = now + EVENT_SECONDS
            self._send(self._sink)

    def each(self, items: Iterable[T], sizes: Iterable[int] | None = None) -> Iterator[T]:
        """Yield the items, and count each; `sizes` are their units, by default 1."""
        for item, n in zip(items, itertools.repeat(1) if sizes is None else sizes, strict=False):
            self.step(n)
            yield item

    def grow(self, n: int) -> None:
        """Add n units to the total."""
        self.total = None if self.total is None else self.total + n

    def _send(self, sink: Callable[[ProgressEvent], object]) -> None:
        self._sent = self.done
        # The function may itself use Skipstone.
        with config.override(progress=False):
            sink(ProgressEvent(self._phase, self.done, self.total, self._unit))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None and self._sink is not None and self._sent not in (-1, self.done):
                self._send(self._sink)
        finally:
            if self._close is not None:
                self._close()


def _sink_of(
    setting: ProgressSetting,
) -> tuple[Callable[[ProgressEvent], object] | None, Callable[[], None] | None]:
    """Return the function that receives the events of some work, and the one that ends it."""
    if setting is False or (setting is None and not in_notebook()):
        return None, None
    if callable(setting):
        return setting, None
    from skipstone.bindings.bars import new_bar

    bar = new_bar()
    return (None, None) if bar is None else (bar.update, bar.close)


def in_notebook() -> bool:
    """Return True in a Jupyter kernel, whose cells show HTML."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


@contextmanager
def reporting(
    progress: ProgressSetting | FooterProgress,
) -> Iterator[FooterProgress | None]:
    """Report the progress of a `with` block according to an argument `progress=`.

    Args:
        progress: The argument; None leaves it to `config.progress`.

    Yields:
        The argument, if it is a function of (files whose footer is known, files).

    Raises:
        SkipstoneError: the argument is invalid.
    """
    if callable(progress) and (needs_two(progress) or _takes_any(progress)):
        yield cast("FooterProgress", progress)
        return
    with overriding(cast("ProgressSetting", progress)):
        yield None


def _takes_any(function: Callable[..., object]) -> bool:
    """Return True if a function takes any number of positional arguments."""
    import inspect

    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)


def overriding(progress: ProgressSetting) -> AbstractContextManager[None]:
    """Return a context that sets `config.progress` to an argument; None changes nothing."""
    if progress is None:
        return nullcontext()
    SETTINGS["progress"].checked(progress, "progress")
    return config.override(progress=progress)


def under_current_settings(items: Iterator[T], progress: ProgressSetting = None) -> Iterator[T]:
    """Return an iterator that computes its items under the settings in effect at this call.

    Args:
        items: The items, which are computed one by one.
        progress: As for `overriding`.
    """
    with overriding(progress):
        context = copy_context()
    end: Any = object()
    # A generator, so that to close it closes `items`.
    return _within(context.run, items, end)


def _within(run: Callable[..., Any], items: Iterator[T], end: Any) -> Iterator[T]:
    try:
        while (item := run(next, items, end)) is not end:
            yield item
    finally:
        close = getattr(items, "close", None)
        if close is not None:
            close()
