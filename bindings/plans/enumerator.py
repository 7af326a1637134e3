"""SplitEnumerator: distribute the containers of a plan over several readers.

When a dynamic filter arrives, it prunes the remaining containers.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np
import pyarrow as pa

from skipstone.bindings.filters.data import DynamicFilterData, DynamicFilteringEvent
from skipstone.bindings.filters.filter import DynamicFilter
from skipstone.bindings.filters.option import check_builder, check_count, check_wait
from skipstone.bindings.plans.order import best_first
from skipstone.bindings.plans.plan import Plan
from skipstone.bindings.plans.table_protocol import Positions, known_sum
from skipstone.bindings.plans.topk import TopK
from skipstone.ir.errors import DynamicFilterError
from skipstone.kernels.run import forks

Hosts = Callable[[str], Iterable[str]]


@dataclass(frozen=True)
class Split:
    """A part of a plan for one reader: containers of one file.

    Attributes:
        path: The file.
        row_groups: Indices of its row groups; empty for the whole file.
        containers: Positions of the containers in the plan.
        rows: Physical rows before any filter; None if unknown.
        hosts: Hosts that have the file locally, if known.
        plan: The plan that the split belongs to.
    """

    path: str
    row_groups: tuple[int, ...]
    containers: tuple[int, ...]
    rows: int | None
    hosts: tuple[str, ...] = ()
    plan: Plan | None = field(default=None, repr=False, compare=False)

    def to_batches(self) -> pa.RecordBatchReader:
        """Return the split's rows that match the plan's condition, as a stream of batches.

        Some may be rows that joins do not need.
        """
        assert self.plan is not None
        return self.plan.only(np.array(self.containers, np.int64), self.plan.columns).to_batches()

    def to_arrow(self) -> pa.Table:
        """Return the rows of `to_batches` as one table."""
        assert self.plan is not None
        return self.plan.only(np.array(self.containers, np.int64), self.plan.columns).to_arrow()


class SplitEnumerator:
    """Hand out splits to readers on several threads, while dynamic filters may still arrive.

    Until a filter arrives, splits come from all containers of the plan. When it arrives, the
    remaining containers are planned again. A split that was handed out is never repeated or
    withdrawn. Late, failed and cancelled filters keep everything, and so does a filter that cannot
    be evaluated; `errors` holds what went wrong.

    If the plan is sorted and has a limit, each split is a single container, and those with the best
    rows come first. Readers `offer` the rows that they found. Containers that cannot hold a row
    before the k-th row so far are skipped.

    Safe to share between threads. It does not pickle; its splits do.

    Args:
        plan: The plan to read. Its `dynamic` filters may be incomplete.
        readers, min_desired_splits, hosts, wait: See `Plan.splits`.

    Source: Flink FLIP-248, `DynamicFileSplitEnumerator` and `DynamicFileEnumerator`.

    Example:
        >>> import pyarrow.parquet as pq, tempfile, os, skipstone as ss
        >>> folder = tempfile.mkdtemp()
        >>> for i in range(4):
        ...     pq.write_table(pa.table({"x": [i]}), os.path.join(folder, f"{i}.parquet"))
        >>> plan = ss.scan_parquet(folder).plan(dynamic=[ss.DynamicFilter(columns={"x": "x"})])
        >>> splits = plan.splits()
        >>> os.path.basename(splits.next_split().path)
        '0.parquet'
        >>> collector = ss.DynamicFilterCollector(["x"], pa.schema([("x", pa.int64())]))
        >>> collector.add(pa.table({"x": [0, 2]}))
        >>> splits.on_filter(collector.finish())
        >>> os.path.basename(splits.next_split().path), splits.next_split()
        ('2.parquet', None)
    """

    def __init__(
        self,
        plan: Plan,
        readers: Iterable[int] | None = None,
        *,
        min_desired_splits: int | None = None,
        hosts: Hosts | None = None,
        wait: float = 0.0,
    ) -> None:
        if not isinstance(plan, Plan):
            raise DynamicFilterError(f"plan is {plan!r:.60}; expected what table.plan() returns")
        check_wait(wait)
        check_count("min_desired_splits", min_desired_splits)
        if isinstance(readers, str) or not isinstance(readers, Iterable | None):
            raise DynamicFilterError(
                f"readers is {readers!r:.60}; expected numbers of readers, such as range(10)"
            )
        if hosts is not None and not callable(hosts):
            raise DynamicFilterError(
                f"hosts is of the type {type(hosts).__name__}; expected a function of a path"
            )
        self.plan = plan
        self.errors: list[BaseException] = []
        self._readers = None if readers is None else set(readers)
        self._min, self._hosts = min_desired_splits, hosts
        self._lock = forks.reentrant_lock()
        self._wait, self._deadline = wait, 0.0  # the deadline is set by the first request
        self._handed_out = np.zeros(len(plan.verdicts), np.bool_)
        self._queue: deque[Split] | None = None
        self._stopped, self._changed = False, threading.Event()
        self._top = TopK(plan, plan.cut.limit) if plan.order and plan.cut is not None else None
        self._filters = () if plan.dynamic is None else plan.dynamic.filters
        for f in self._filters:
            f.when_complete(self._on_complete)

    # Readers.

    def register(self, reader: int) -> None:
        """Add a reader. From then on only registered readers get splits."""
        check_builder(reader, "reader")
        with self._lock:
            self._readers = {reader} if self._readers is None else self._readers | {reader}

    def unregister(self, reader: int) -> None:
        """Remove a reader that failed or finished."""
        with self._lock:
            if self._readers is not None:
                self._readers = self._readers - {reader}

    def next_split(self, hostname: str | None = None, *, reader: int | None = None) -> Split | None:
        """Return the next split, preferably one that is local to a host.

        Args:
            hostname: The reader's host.
            reader: The reader's number. A reader that is not registered gets None.

        Returns:
            None if no split is left for now; another reader may still give one back.
        """
        self._wait_for_filters()
        with self._lock:
            if self._stopped or (
                reader is not None and self._readers is not None and reader not in self._readers
            ):
                return None
            queue = self._remaining_splits()
            if not queue:
                return None
            if hostname is None:
                at = 0
            else:
                at = next((i for i, s in enumerate(queue) if hostname in s.hosts), 0)
            split = queue[at]
            del queue[at]
            self._handed_out[list(split.containers)] = True
            return split

    def return_split(self, split: Split) -> None:
        """Give back a split that was not read. It is handed out again if it is still needed.

        Raises:
            DynamicFilterError: the split was not handed out, or it was given back before.
        """
        if not isinstance(split, Split):
            raise DynamicFilterError(
                f"the split is {split!r:.60}; expected one that next_split() returned"
            )
        with self._lock:
            if not split.containers or not self._handed_out[list(split.containers)].all():
                raise DynamicFilterError(
                    f"{split.path}: row groups {list(split.row_groups)} were given back, but are "
                    "not handed out; give a split back once"
                )
            self._handed_out[list(split.containers)] = False
            self._queue = None

    def add_splits_back(self, splits: Iterable[Split], reader: int | None = None) -> None:
        """Give back the unfinished splits of a reader that failed, and unregister the reader.

        Args:
            splits: The splits that it did not finish.
            reader: The reader's number; None unregisters no reader.

        Raises:
            DynamicFilterError: a split was not handed out, or it was given back before.

        Source: Flink, `SplitEnumerator.addSplitsBack`.
        """
        if reader is not None:
            self.unregister(reader)
        if not isinstance(splits, Iterable):
            raise DynamicFilterError(f"splits is {splits!r:.60}; expected a list of splits")
        for split in splits:
            self.return_split(split)

    def offer(self, rows: pa.Table) -> None:
        """Add rows that a reader found, for a sorted plan with a limit.

        Splits that cannot hold better rows are then skipped.

        Args:
            rows: All rows of a split, or some of them, with the columns that the plan sorts by.
        """
        if self._top is not None and self._top.offer(rows):
            with self._lock:
                self._queue = None

    def __iter__(self) -> Iterator[Split]:
        """Yield splits until there are no more."""
        while (split := self.next_split()) is not None:
            yield split

    # Filters.

    def on_filter(
        self,
        data: DynamicFilterData | DynamicFilteringEvent,
        builder: object = 0,
        filter: DynamicFilter | None = None,
    ) -> None:
        """Add a filter, or one builder's part of a filter, and plan the remaining containers by it.

        Args:
            data: The keys.
            builder: The builder that collected them.
            filter: The filter that the keys belong to: one of the plan's, or a new one. None means
                the plan's filter that has these keys. If the plan has none, a new filter compares
                the keys with the columns of their names.

        Raises:
            DynamicFilterError: the keys differ from earlier keys of the same builder; or `filter`
                is None and several filters of the plan have these keys.
        """
        data = data.data if isinstance(data, DynamicFilteringEvent) else data
        targets = [
            f for f in self._filters if f is filter or (filter is None and _accepts(f, data))
        ]
        if len(targets) > 1:
            raise DynamicFilterError(
                f"{len(targets)} filters of the plan may have the keys ({', '.join(data.fields)}); "
                "say which is meant: filter="
            )
        if targets:
            targets[0].report(data, builder)
            return
        added = DynamicFilter() if filter is None else filter
        added.report(data, builder)
        with self._lock:
            try:
                plan = self.plan.with_dynamic((*self._filters, added))
            except DynamicFilterError:
                raise
            except Exception as e:
                # Listing files again may fail. Without the filter, no row is lost.
                self.errors.append(e)
                return
            if plan is not self.plan:
                self.plan, self._filters, self._queue = plan, (*self._filters, added), None
                self._collect_errors()

    handle_source_event = on_filter
    set_dynamic_filtering_data = on_filter

    def _on_complete(self, f: DynamicFilter) -> None:
        """Plan the remaining containers with a filter that is now complete."""
        with self._lock:
            self._changed.set()
            if f.error is not None:
                self.errors.append(f.error)
            if f.data is None or self._stopped:
                return
            try:
                self.plan = self.plan.replanned()
            except Exception as e:
                # Listing files again may fail. Without the filter, no row is lost.
                self.errors.append(e)
            self._collect_errors()
            self._queue = None

    def _collect_errors(self) -> None:
        """Add the plan's evaluation errors to `errors`, each once."""
        collected = {repr(e) for e in self.errors}
        errors = () if self.plan.dynamic is None else self.plan.dynamic.errors
        self.errors += [e for e in errors if repr(e) not in collected]

    def _wait_for_filters(self) -> None:
        with self._lock:
            self._deadline = self._deadline or time.monotonic() + self._wait
        while (seconds := self._deadline - time.monotonic()) > 0:
            with self._lock:
                self._changed.clear()
                if self._stopped or not any(f.awaitable and not f.complete for f in self._filters):
                    return
            self._changed.wait(seconds)

    # State.

    def stop(self) -> None:
        """Hand out no more splits, and wait for no filter."""
        with self._lock:
            self._stopped, self._queue = True, deque()
            self._changed.set()

    cancel = stop

    @property
    def remaining(self) -> int:
        """The number of splits that are left with the filters that are complete now."""
        with self._lock:
            return 0 if self._stopped else len(self._remaining_splits())

    def _remaining_splits(self) -> deque[Split]:
        if self._queue is None:
            kept = self.plan.kept
            kept = kept[~self._handed_out[kept]]
            if self._top is not None:
                best = best_first(
                    self.plan._pruned_by, self.plan.order[0], kept[self._top.may_improve()[kept]]
                )
                self._queue = deque(
                    split
                    for c in best.tolist()
                    for split in self._split_by_file(np.array([c], np.int64))
                )
            else:
                self._queue = deque(self._split_by_file(kept))
        return self._queue

    def _split_by_file(self, containers: Positions) -> Iterator[Split]:
        """Yield splits by file; files are split further if `min_desired_splits` asks for more."""
        table = self.plan.table
        files = table.row_groups_of(containers)
        runs, at = [], 0
        for path, groups in files.items():
            runs.append((path, groups, containers[at : at + max(1, len(groups))]))
            at += max(1, len(groups))
        if at != len(containers):  # a file is in the table several times
            runs = [
                (path, groups, np.array([c]))
                for c in containers.tolist()
                for path, groups in table.row_groups_of(np.array([c])).items()
            ]
        parts = 1 if not self._min or not runs else -(-self._min // len(runs))
        rows = table.logical_rows()
        for path, groups, own in runs:
            hosts = () if self._hosts is None else tuple(self._hosts(path))
            for part in np.array_split(np.arange(len(own)), min(parts, len(own))):
                members = own[part]
                count = known_sum(rows[members])
                yield Split(
                    path,
                    tuple(groups[i] for i in part) if groups else (),
                    tuple(members.tolist()),
                    count,
                    hosts,
                    self.plan,
                )

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied: two copies would hand out the same splits, and repeat their rows."""
        raise TypeError(
            "cannot pickle a SplitEnumerator: its copies would hand out the same splits; keep it "
            "in one process, and send the splits of next_split() or list(plan.splits())"
        )

    def __repr__(self) -> str:
        handed_out = int(self._handed_out.sum())
        return f"SplitEnumerator({self.remaining} splits left, {handed_out} containers handed out)"


def _accepts(f: DynamicFilter, data: DynamicFilterData) -> bool:
    """Return True if a filter has, or waits for, the keys of some data."""
    if f.data is not None:
        return f.data.fields == data.fields
    return set(f.columns) <= set(data.fields)
