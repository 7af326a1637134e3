"""DynamicFilter: the keys of a join's build side for one scan, available now or later."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Final, Literal

from skipstone.bindings.filters.data import DynamicFilterData, DynamicFilteringEvent
from skipstone.bindings.filters.kinds import Side, kind_of, needs_of
from skipstone.bindings.filters.option import check_builder, check_count, check_wait
from skipstone.ir.errors import DynamicFilterError, SkipstoneWarning, describe_error
from skipstone.ir.session import check_flag
from skipstone.kernels import logs
from skipstone.kernels.run import forks

OPERATORS: Final = ("=", "<=>", "<", "<=", ">", ">=")
Columns = Mapping[str, str | Sequence[str]]


class DynamicFilter:
    """The keys of a join's build side, bound to the columns of a scan; available now or later.

    It keeps everything until it is complete, and also if it fails or is cancelled.

    Safe to share between threads.

    Args:
        data: The keys, if they are available.
        columns: Names of keys -> names of the scan's columns: one, or several that are all compared
            with the key. A key that is not in the mapping is compared with the column of its own
            name.
        how: The kind of the join: "inner", "semi", "left", "right", "full", "anti" or "not in", or
            Spark's name for it.
        side: The side of the join on which the scan is: "left" or "right".
        op: How the scan's column is compared with the key: "="; or, with a single key, "<", "<=",
            ">" or ">=". NULL counts as a key if the filter was collected as null-safe.
        builders: The number of parts that the keys arrive in; None if it is not known yet, and
            `expect` will set it.
        awaitable: True if `wait` waits for the keys; False if it returns immediately.

    Raises:
        DynamicFilterError: the operator, the join or the side is unknown, or another argument is
            malformed.

    Example:
        >>> import pyarrow as pa
        >>> later = DynamicFilter(columns={"d_date_sk": "sr_returned_date_sk"}, builders=2)
        >>> later.complete, later.data
        (False, None)
    """

    def __init__(
        self,
        data: DynamicFilterData | DynamicFilteringEvent | None = None,
        *,
        columns: Columns | None = None,
        how: str = "inner",
        side: Side = "left",
        op: Literal["=", "<=>", "<", "<=", ">", ">="] = "=",
        builders: int | None = 1,
        awaitable: bool = True,
    ) -> None:
        if op not in OPERATORS:
            raise DynamicFilterError(
                f"the operator is {op!r}; expected one of {', '.join(OPERATORS)}"
            )
        if not isinstance(columns, Mapping | None):
            raise DynamicFilterError(
                f"columns is {columns!r:.60}; expected names of keys -> names of the scan's columns"
            )
        for name in (columns or {}).values():
            several = isinstance(name, list | tuple) and name
            if not isinstance(name, str) and not (
                several and all(isinstance(one, str) for one in name)
            ):
                raise DynamicFilterError(
                    f"columns has {name!r:.60}; expected the name of a column, or several names"
                )
        check_count("builders", builders)
        check_flag("awaitable", awaitable)
        self.columns: Columns = dict(columns or {})
        self.how, self.side, self.op = kind_of(how), side, op
        self.needs = needs_of(how, side)
        self.awaitable = awaitable
        self.error: BaseException | None = None
        self.cancelled = False
        self.seconds: float | None = None
        self._lock, self._started = forks.lock(), time.perf_counter()
        self._builders = builders
        self._parts: dict[object, DynamicFilterData] = {}
        self._data: DynamicFilterData | None = None
        self._futures: list[Future[DynamicFilterData | None]] = []
        self._callbacks: list[Callable[[DynamicFilter], object]] = []
        self._warned: set[str] = set()
        if data is not None:
            self.report(data)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the filter with the keys that have arrived so far.

        The copy is independent: later keys do not reach it, so plans do not wait for them.
        """
        with self._lock:
            state = dict(self.__dict__, _parts=dict(self._parts), _warned=set(self._warned))
            state |= {
                "_futures": [],
                "_callbacks": [],
                "awaitable": self.awaitable and self.complete,
            }
        if self.error is not None and not isinstance(self.error, DynamicFilterError):
            state["error"] = DynamicFilterError(describe_error(self.error))  # it may not pickle
        del state["_lock"], state["_started"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=forks.lock(), _started=time.perf_counter())

    # For builders.

    def report(self, data: DynamicFilterData | DynamicFilteringEvent, builder: object = 0) -> bool:
        """Add the keys of one builder.

        Args:
            data: The builder's keys.
            builder: The builder; a builder that runs again must report the same keys.

        Returns:
            True if the keys are new; False for the same keys again, and after a failure.

        Raises:
            DynamicFilterError: `data` are not keys; the builder reported other keys before, by
                which rows may already have been left out; or all builders have reported.

        Source: Flink FLIP-248 and `DynamicFilteringDataCollectorCoordinator`, which also refuses
        other data.
        """
        data = data.data if isinstance(data, DynamicFilteringEvent) else data
        if not isinstance(data, DynamicFilterData):
            raise DynamicFilterError(
                f"the keys are a {type(data).__name__}; expected DynamicFilterData, which "
                "DynamicFilterCollector.finish() returns"
            )
        check_builder(builder)
        with self._lock:
            earlier = self._parts.get(builder)
            if earlier is not None:
                if earlier == data:
                    return False
                raise DynamicFilterError(
                    f"the recomputed filter differs: {data} came after {earlier}. Its input is not "
                    "repeatable; materialise it, or run without dynamic filtering "
                    "(dynamic_filtering=False)"
                )
            if self.complete and self._data is None:
                return False
            if self._builders is not None and len(self._parts) >= self._builders:
                raise DynamicFilterError(
                    f"builder {builder!r} reports, but all {self._builders} builders have "
                    "reported; set builders= to the number of builders"
                )
            self._parts[builder] = data
        self._complete_if_ready()
        return True

    def expect(self, builders: int) -> None:
        """Set the number of builders.

        Raises:
            DynamicFilterError: the number is no positive integer, another one was set before, or
                more builders have reported.
        """
        check_count("builders", builders)
        with self._lock:
            if self._builders is not None and self._builders != builders:
                raise DynamicFilterError(
                    f"builders is {builders}, and was {self._builders} before; "
                    "expected the same number each time"
                )
            if len(self._parts) > builders:
                raise DynamicFilterError(
                    f"builders is {builders}; expected at least {len(self._parts)}, the number "
                    "that have reported"
                )
            self._builders = builders
        self._complete_if_ready()

    def fail(self, error: BaseException) -> None:
        """Mark the filter as failed: its keys will not arrive, and it keeps everything.

        Args:
            error: Why it failed.
        """
        with self._lock:
            if self.complete:
                return
            self.error = error
        self._finish()

    def cancel(self) -> None:
        """Stop waiting for the keys: the filter keeps everything."""
        with self._lock:
            if self.complete:
                return
            self.cancelled = True
        self._finish()

    def _complete_if_ready(self) -> None:
        with self._lock:
            if self.complete or self._builders is None or len(self._parts) < self._builders:
                return
            try:
                first, *rest = self._parts.values()
                self._data = first.merge(*rest) if rest else first
            except DynamicFilterError as e:
                self.error = e
        self._finish()

    def _finish(self) -> None:
        with self._lock:
            self.seconds = time.perf_counter() - self._started
            futures, self._futures = self._futures, []
            callbacks, self._callbacks = self._callbacks, []
        for future in futures:
            if future.set_running_or_notify_cancel():
                future.set_result(self._data)
        for callback in callbacks:
            callback(self)

    # For scans.

    @property
    def data(self) -> DynamicFilterData | None:
        """The keys of all builders; None if they are not known yet, or never will be."""
        return self._data

    @property
    def complete(self) -> bool:
        """True if no more keys will arrive."""
        return self._data is not None or self.error is not None or self.cancelled

    @property
    def decides_rows(self) -> bool:
        """True if the rows that pass the filter are exactly those that the join needs.

        Then a LIMIT may count them.
        """
        from skipstone.bindings.filters.kinds import Needs

        if self.needs is Needs.ALL:
            return True
        return (
            self.side == "left"
            and self._data is not None
            and self._data.exact
            and self.op in ("=", "<=>")
            and (
                not self.compares_several
                or (self.needs is Needs.MATCHED and self._data.num_rows == 1)
            )
        )

    @property
    def compares_several(self) -> bool:
        """True if a key is compared with several columns.

        The key must equal all of them, and they are judged one by one.
        """
        return any(not isinstance(c, str) and len(c) > 1 for c in self.columns.values())

    def warn_once(self, message: str) -> None:
        """Warn, unless this filter has given the same warning."""
        with self._lock:
            if message in self._warned:
                return
            self._warned.add(message)
        logs.fallback(message)
        warnings.warn(message, SkipstoneWarning, stacklevel=2)

    def future(self) -> Future[DynamicFilterData | None]:
        """Return a future of the keys; its result is None if the filter fails.

        Each caller gets its own future and may cancel it.
        """
        out: Future[DynamicFilterData | None] = Future()
        with self._lock:
            if not self.complete:
                self._futures.append(out)
                return out
        out.set_result(self._data)
        return out

    def wait(self, seconds: float | None = None) -> DynamicFilterData | None:
        """Wait for the keys, if the filter is awaitable.

        Args:
            seconds: The maximum time to wait; None waits until the filter is complete.

        Returns:
            The keys; None if they are late or failed, and everything must be kept.
        """
        if seconds is not None:
            check_wait(seconds)
        if not self.awaitable:
            return self._data
        future = self.future()
        try:
            return future.result(seconds)
        except (FutureTimeoutError, CancelledError):
            future.cancel()
            return self._data

    def when_complete(self, tell: Callable[[DynamicFilter], object]) -> None:
        """Call a function when no more keys will arrive; immediately if the filter is complete."""
        with self._lock:
            if not self.complete:
                self._callbacks.append(tell)
                return
        tell(self)

    @property
    def state(self) -> str:
        """The state of the filter, for display."""
        if self._data is not None:
            return self._data.kind
        if self.error is not None:
            return f"nothing: {type(self.error).__name__}: {self.error}"
        return "nothing: it was cancelled" if self.cancelled else "nothing yet: it is late"

    def __repr__(self) -> str:
        names = ", ".join(self._data.fields if self._data is not None else self.columns)
        return f"DynamicFilter(fields=[{names}], {self.how} join, {self.state})"
