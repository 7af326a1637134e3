"""SplitEnumerator: hands the containers of a plan to several readers, and narrows what is left when a dynamic filter arrives."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.filters.data import DynamicFilterData, DynamicFilteringEvent
from skipstone.bindings.filters.filter import DynamicFilter
from skipstone.bindings.plans.order import best_first
from skipstone.bindings.plans.topk import TopK
from skipstone.ir.errors import DynamicFilterError
from skipstone.kernels.run import forks

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Plan

Positions = npt.NDArray[np.int64]
Hosts = Callable[[str], Iterable[str]]


@dataclass(frozen=True)
class Split:
    """A part of a plan for one reader: containers of one file.

    Attributes:
        path: The file.
        row_groups: Which of its row groups; empty: the file as a whole.
        containers: Their positions among the plan's containers.
        rows: Physical rows, before any filter; None: not known.
        hosts: Where it is local to, as far as known.
    """

    path: str
    row_groups: tuple[int, ...]
    containers: tuple[int, ...]
    rows: int | None
    hosts: tuple[str, ...] = ()
    plan: Plan | None = field(default=None, repr=False, compare=False)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The split's matching rows, judged by the plan's condition; rows that joins do not need may be among them."""
        assert self.plan is not None
        return self.plan.only(np.array(self.containers, np.int64), self.plan.columns).to_batches()

    def to_arrow(self) -> pa.Table:
        """The same as one table."""
        assert self.plan is not None
        return self.plan.only(np.array(self.containers, np.int64), self.plan.columns).to_arrow()


class SplitEnumerator:
    """Splits for readers that ask from several threads, while dynamic filters may still arrive.

    Splits that are asked for before a filter is there come from everything. When it is, what is left is planned anew: no split
    that was handed out is repeated or withdrawn. Late, failed and cancelled filters keep everything, and so does one that cannot
    be evaluated; `errors` has what went wrong.

    Args:
        plan: What is to be read. Its `dynamic` filters may be incomplete.
        readers, min_desired_splits, hosts, wait: As for `Plan.splits`.

    Of a sorted plan with a limit, splits are single containers, those with the best rows first; readers `offer` what they found, and
    the k-th row so far leaves out what cannot come before it.

    Safe to share between threads.

    Source: Flink FLIP-248, `DynamicFileSplitEnumerator` and `DynamicFileEnumerator`.

    Example:
        >>> import pyarrow.parquet as pq, tempfile, os, skipstone as ss
        >>> folder = tempfile.mkdtemp()
        >>> for i in range(4):
        ...     pq.write_table(pa.table({"x": [i]}), os.path.join(folder, f"{i}.parquet"))
        >>> splits = ss.scan_parquet(folder).plan(dynamic=[ss.DynamicFilter(columns={"x": "x"})]).splits()
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
        self.plan = plan
        self.errors: list[BaseException] = []
        self._readers = None if readers is None else set(readers)
        self._min, self._hosts = min_desired_splits, hosts
        self._lock = forks.reentrant_lock()
        self._wait, self._deadline = wait, 0.0  # counted from the first request
        self._handed = np.zeros(len(plan.verdicts), np.bool_)
        self._left: deque[Split] | None = None
        self._stopped, self._news = False, threading.Event()
        self._top = TopK(plan, plan.cut.limit) if plan.order and plan.cut is not None else None
        self._filters = () if plan.dynamic is None else plan.dynamic.filters
        for f in self._filters:
            f.when_complete(self._arrived)

    # Readers.

    def register(self, reader: int) -> None:
        """Add a reader; from then on only registered ones are served."""
        with self._lock:
            self._readers = {reader} if self._readers is None else self._readers | {reader}

    def unregister(self, reader: int) -> None:
        """Remove a reader, which failed or is done."""
        with self._lock:
            if self._readers is not None:
                self._readers = self._readers - {reader}

    def next_split(self, hostname: str | None = None, *, reader: int | None = None) -> Split | None:
        """The next split, one that is local to a host where there is any.

        Args:
            hostname: The reader's host.
            reader: Which it is; a request of one that is not registered is skipped, and takes nothing.

        Returns:
            None: there are no more, for now; another reader may still return one of its own.
        """
        self._await()
        with self._lock:
            if self._stopped or (
                reader is not None and self._readers is not None and reader not in self._readers
            ):
                return None
            left = self._splits()
            if not left:
                return None
            at = (
                0
                if hostname is None
                else next((i for i, s in enumerate(left) if hostname in s.hosts), 0)
            )
            split = left[at]
            del left[at]
            self._handed[list(split.containers)] = True
            return split

    def return_split(self, split: Split) -> None:
        """Give back a split that was not read; it is handed out again, if it is still wanted.

        Raises:
            DynamicFilterError: it was not handed out, or given back already.
        """
        with self._lock:
            if not split.containers or not self._handed[list(split.containers)].all():
                raise DynamicFilterError(
                    f"{split.path}: row groups {list(split.row_groups)} were given back, and are not handed out"
                )
            self._handed[list(split.containers)] = False
            self._left = None

    def add_splits_back(self, splits: Iterable[Split], reader: int | None = None) -> None:
        """Take back what a reader that failed had not finished, and forget the reader.

        Source: Flink, `SplitEnumerator.addSplitsBack`.
        """
        if reader is not None:
            self.unregister(reader)
        for split in splits:
            self.return_split(split)

    def offer(self, rows: pa.Table) -> None:
        """Tell rows that a reader found, of a plan that is sorted and has a limit: splits that cannot hold better ones are not handed out.

        Args:
            rows: All rows of a split, or some, with the columns that the plan sorts by.
        """
        if self._top is not None and self._top.offer(rows):
            with self._lock:
                self._left = None

    def __iter__(self) -> Iterator[Split]:
        """Splits until there are no more."""
        while (split := self.next_split()) is not None:
            yield split

    # Filters.

    def on_filter(
        self,
        data: DynamicFilterData | DynamicFilteringEvent,
        builder: object = 0,
        filter: DynamicFilter | None = None,
    ) -> None:
        """Take a filter, or the part of one builder; what is left is planned by it.

        Args:
            data: The keys.
            builder: Which builder's they are.
            filter: Which of the plan's filters they belong to, or one more; None: the plan's that has these keys, or if there is
                none, one more whose keys are compared with the columns of their own names.

        Raises:
            DynamicFilterError: it differs from one that the same builder gave before; several filters of the plan have its columns.
        """
        data = data.data if isinstance(data, DynamicFilteringEvent) else data
        known = [f for f in self._filters if f is filter or (filter is None and _takes(f, data))]
        if len(known) > 1:
            raise DynamicFilterError(
                f"{len(known)} filters of the plan may have the keys ({', '.join(data.fields)}); say which is meant: filter="
            )
        if known:
            known[0].report(data, builder)
            return
        added = DynamicFilter() if filter is None else filter
        added.report(data, builder)
        with self._lock:
            try:
                plan = self.plan.with_dynamic((*self._filters, added))
            except DynamicFilterError:
                raise
            except Exception as e:  # whatever another listing raises, nothing is lost without it
                self.errors.append(e)
                return
            if plan is not self.plan:
                self.plan, self._filters, self._left = plan, (*self._filters, added), None
                self._note()

    handle_source_event = on_filter
    set_dynamic_filtering_data = on_filter

    def _arrived(self, f: DynamicFilter) -> None:
        """Plan what is left by what is known now."""
        with self._lock:
            self._news.set()
            if f.error is not None:
                self.errors.append(f.error)
            if f.data is None or self._stopped:
                return
            try:
                self.plan = self.plan.replanned()
            except Exception as e:  # whatever another listing raises, nothing is lost without it
                self.errors.append(e)
            self._note()
            self._left = None

    def _note(self) -> None:
        """Collect why filters of the plan could not be evaluated."""
        known = {repr(e) for e in self.errors}
        found = () if self.plan.dynamic is None else self.plan.dynamic.errors
        self.errors += [e for e in found if repr(e) not in known]

    def _await(self) -> None:
        with self._lock:
            self._deadline = self._deadline or time.monotonic() + self._wait
        while (left := self._deadline - time.monotonic()) > 0:
            with self._lock:
                self._news.clear()
                if self._stopped or not any(f.awaitable and not f.complete for f in self._filters):
                    return
            self._news.wait(left)

    # State.

    def stop(self) -> None:
        """Hand out nothing more, and wait for no filter."""
        with self._lock:
            self._stopped, self._left = True, deque()
            self._news.set()

    cancel = stop

    @property
    def remaining(self) -> int:
        """How many splits are left, as far as is known now."""
        with self._lock:
            return 0 if self._stopped else len(self._splits())

    def _splits(self) -> deque[Split]:
        if self._left is None:
            kept = self.plan.kept
            kept = kept[~self._handed[kept]]
            if self._top is not None:
                best = best_first(
                    self.plan.statistics, self.plan.order[0], kept[self._top.wanted()[kept]]
                )
                self._left = deque(
                    split for c in best.tolist() for split in self._cut(np.array([c], np.int64))
                )
            else:
                self._left = deque(self._cut(kept))
        return self._left

    def _cut(self, containers: Positions) -> Iterator[Split]:
        """Containers by file; and files in parts, where there are to be more splits than files."""
        table = self.plan.table
        files = table.row_groups_of(containers)
        runs, at = [], 0
        for path, groups in files.items():
            runs.append((path, groups, containers[at : at + max(1, len(groups))]))
            at += max(1, len(groups))
        if at != len(containers):  # a file that is there several times
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
                some = own[part]
                count = None if (rows[some] < 0).any() else int(rows[some].sum())
                yield Split(
                    path,
                    tuple(groups[i] for i in part) if groups else (),
                    tuple(some.tolist()),
                    count,
                    hosts,
                    self.plan,
                )

    def __repr__(self) -> str:
        return f"SplitEnumerator({self.remaining} splits left, {int(self._handed.sum())} containers handed out)"


def _takes(f: DynamicFilter, data: DynamicFilterData) -> bool:
    """Whether keys are those that a filter has, or waits for."""
    if f.data is not None:
        return f.data.fields == data.fields
    return set(f.columns) <= set(data.fields)
