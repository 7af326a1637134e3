"""DynamicFilter: what a join's other side says of one scan, as soon as it is known."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as Late
from typing import Final, Literal

from skipstone.bindings.filters.data import DynamicFilterData, DynamicFilteringEvent
from skipstone.bindings.filters.kinds import Side, kind_of, needs_of
from skipstone.ir.errors import DynamicFilterError, SkipstoneWarning
from skipstone.kernels.run import forks

OPERATORS: Final = ("=", "<=>", "<", "<=", ">", ">=")
Columns = Mapping[str, str | Sequence[str]]


class DynamicFilter:
    """The keys of a join's build side, bound to the columns that a scan compares with them; known now or later.

    Until it is complete, and if it fails or is cancelled, it keeps everything.

    Args:
        data: The keys, if they are there.
        columns: Names of keys -> names of the scan's columns, one or several that are all compared with the key. Those that
            are left out keep their names.
        how: The kind of the join: "inner", "semi", "left", "right", "full", "anti" or "not in", or as Spark calls it.
        side: On which side of the join the scan stands: "left", or "right".
        op: How the scan's column is compared with the key: "=", or with one key "<", "<=", ">" or ">=". NULL is a key where the
            filter was collected as null-safe.
        builders: How many parts the keys come in; None: not known yet, `expect` will say.
        awaitable: Whether `wait` waits.

    Safe to share between threads.

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
        self._waiting: list[Future[DynamicFilterData | None]] = []
        self._told: list[Callable[[DynamicFilter], object]] = []
        self._warned: set[str] = set()
        if data is not None:
            self.report(data)

    # What builders say.

    def report(self, data: DynamicFilterData | DynamicFilteringEvent, builder: object = 0) -> bool:
        """Take what one builder has found.

        Args:
            data: Its keys.
            builder: Which it is; one that runs again must find the same.

        Returns:
            Whether this was news: False for the same keys once more, and after a failure.

        Raises:
            DynamicFilterError: the builder found other keys before. Rows may already have been left out by these.

        Source: Flink FLIP-248 and `DynamicFilteringDataCollectorCoordinator`, which refuses other data too.
        """
        data = data.data if isinstance(data, DynamicFilteringEvent) else data
        with self._lock:
            before = self._parts.get(builder)
            if before is not None:
                if before == data:
                    return False
                raise DynamicFilterError(
                    f"the recomputed filter differs: {data} came after {before}. Its input is not repeatable; "
                    "materialise it, or run without dynamic filtering (dynamic_filtering=False)"
                )
            if self.complete and self._data is None:
                return False
            if self._builders is not None and len(self._parts) >= self._builders:
                raise DynamicFilterError(
                    f"builder {builder!r} reports, and all {self._builders} have; expected so many"
                )
            self._parts[builder] = data
        self._settle()
        return True

    def expect(self, builders: int) -> None:
        """Say how many builders there are."""
        with self._lock:
            if self._builders is not None and self._builders != builders:
                raise DynamicFilterError(
                    f"{builders} builders are expected, and {self._builders} were before"
                )
            if len(self._parts) > builders:
                raise DynamicFilterError(
                    f"{builders} builders are expected, and {len(self._parts)} have reported"
                )
            self._builders = builders
        self._settle()

    def fail(self, error: BaseException) -> None:
        """Say that the keys will not come: everything is kept."""
        with self._lock:
            if self.complete:
                return
            self.error = error
        self._finish()

    def cancel(self) -> None:
        """Wait for the keys no longer: everything is kept."""
        with self._lock:
            if self.complete:
                return
            self.cancelled = True
        self._finish()

    def _settle(self) -> None:
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
            waiting, self._waiting = self._waiting, []
            told, self._told = self._told, []
        for one in waiting:
            if one.set_running_or_notify_cancel():
                one.set_result(self._data)
        for tell in told:
            tell(self)

    # What scans ask.

    @property
    def data(self) -> DynamicFilterData | None:
        """The keys of all builders; None where they are not, or will never be, known."""
        return self._data

    @property
    def complete(self) -> bool:
        """Whether nothing more will come."""
        return self._data is not None or self.error is not None or self.cancelled

    @property
    def decides_rows(self) -> bool:
        """Whether it says of each row for certain that the join needs it, so that a LIMIT may count the rows that it lets pass."""
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
        """Return True if a key is compared with several columns. It must equal all of them, and
        they are judged one by one.
        """
        return any(not isinstance(c, str) and len(c) > 1 for c in self.columns.values())

    def warn_once(self, message: str) -> None:
        """Warn of something, unless this filter has."""
        with self._lock:
            if message in self._warned:
                return
            self._warned.add(message)
        warnings.warn(message, SkipstoneWarning, stacklevel=2)

    def future(self) -> Future[DynamicFilterData | None]:
        """The keys when they are complete, None if they fail. Each caller has one of its own, and may cancel it."""
        out: Future[DynamicFilterData | None] = Future()
        with self._lock:
            if not self.complete:
                self._waiting.append(out)
                return out
        out.set_result(self._data)
        return out

    def wait(self, seconds: float | None = None) -> DynamicFilterData | None:
        """Wait for the keys; not at all where the filter is not awaitable.

        Args:
            seconds: At most so long; None: as long as it takes.

        Returns:
            The keys; None: they are late, or failed, and everything is to be kept.
        """
        if not self.awaitable:
            return self._data
        waiting = self.future()
        try:
            return waiting.result(seconds)
        except (Late, CancelledError):
            waiting.cancel()
            return self._data

    def when_complete(self, tell: Callable[[DynamicFilter], object]) -> None:
        """Call a function when nothing more will come; at once, if that is so already."""
        with self._lock:
            if not self.complete:
                self._told.append(tell)
                return
        tell(self)

    @property
    def state(self) -> str:
        """What has become of it, for people."""
        if self._data is not None:
            return self._data.kind
        if self.error is not None:
            return f"nothing: {type(self.error).__name__}: {self.error}"
        return "nothing: it was cancelled" if self.cancelled else "nothing yet: it is late"

    def __repr__(self) -> str:
        names = ", ".join(self._data.fields if self._data is not None else self.columns)
        return f"DynamicFilter(fields=[{names}], {self.how} join, {self.state})"
