"""Jobs that run on executors: pack statistics into shards, and judge shards in place.

PySpark sends these objects by pickle; executors run the Skipstone that is installed there.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.shards.files import OnError
from skipstone.bindings.shards.folder import ShardFolder
from skipstone.bindings.shards.shards import Shards
from skipstone.bindings.shards.verdicts import as_bytes
from skipstone.bindings.shards.write import write_shard
from skipstone.bindings.spark.statistics.needed import ROW_COUNT, Statistic
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.ir.errors import StatisticsError
from skipstone.ir.node import show_path
from skipstone.ir.outcome import Verdict
from skipstone.kernels.index.descend import SparseVerdicts
from skipstone.kernels.run.pool import set_threads

Batches = Iterator[pa.RecordBatch]
# A row for each file that a task wrote, with its position; and for each shard that it judged, with
# packed verdicts.
WRITTEN: Final = pa.schema(
    [("partition", pa.int32()), ("piece", pa.int32()), ("written", pa.binary())]
)
JUDGED: Final = pa.schema(
    [
        ("shard", pa.int32()),
        ("words", pa.binary()),
        ("match", pa.binary()),
        ("fully_matched", pa.binary()),
        ("error", pa.string()),
    ]
)


def as_function(job: PackJob | JudgeJob | ListJob) -> Callable[[Batches], Batches]:
    """Return a job as the plain function that PySpark requires."""

    def run(batches: Any) -> Any:
        return job(batches)

    return run


def own_cpus() -> None:
    """Limit the threads to the CPUs of the task, since other tasks share the machine."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is not None and "SKIPSTONE_THREADS" not in os.environ:
        set_threads(max(context.cpus(), 1))


@dataclass(frozen=True)
class PackJob:
    """Writes the statistics of a partition as shards.

    Each attempt writes under its own file names; the driver decides which files count.

    Attributes:
        folder: The folder of the shards.
        save: The part of file names that is unique to this save.
        schema: The table's columns.
        needed: The statistics in the first columns of the batches.
        about: The remaining columns, if any.
        rows, order_by: As in `Statistics.save_shards`.
    """

    folder: ShardFolder
    save: str
    schema: pa.Schema
    needed: tuple[Statistic, ...]
    about: pa.Schema | None
    rows: int
    order_by: tuple[str, ...]

    def __call__(self, batches: Batches) -> Batches:
        """Write the shards of a partition."""
        from pyspark import TaskContext

        own_cpus()
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        self.folder.make()
        for piece, table in enumerate(_pieces(batches, self.rows)):
            given = [table.column(i) for i in range(len(self.needed))]
            about = None
            if self.about is not None:
                others = list(table.columns[len(given) :])
                about = pa.table(others, names=self.about.names).cast(self.about)
            written = write_shard(
                self.folder, self.save, self._statistics(given), about, self.order_by or None
            )
            yield pa.record_batch(
                [
                    pa.array([partition], pa.int32()),
                    pa.array([piece], pa.int32()),
                    [pickle.dumps(written)],
                ],
                schema=WRITTEN,
            )

    def _statistics(self, given: list[pa.ChunkedArray]) -> Statistics:
        columns: dict[str, dict[str, Any]] = {}
        for statistic, array in zip(self.needed, given, strict=True):
            columns.setdefault(show_path(statistic.path), {})[statistic.kind] = array
        rows = columns.pop(show_path(()), {}).get(ROW_COUNT)
        return Statistics.from_dict(columns, self.schema, row_count=rows)


def _pieces(batches: Batches, rows: int) -> Iterator[pa.Table]:
    """Split batches into tables of `rows` rows; the last one has the rest."""
    pending: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        while batch.num_rows:
            part = batch.slice(0, rows - count)
            batch = batch.slice(part.num_rows)
            pending.append(part)
            count += part.num_rows
            if count == rows:
                yield pa.Table.from_batches(pending)
                pending, count = [], 0
    if count:
        yield pa.Table.from_batches(pending)


@dataclass(frozen=True)
class JudgeJob:
    """Judges shards. The rows that arrive are indices into `todo`.

    Attributes:
        shards: All shards.
        predicate: The condition.
        todo: The numbers of the shards that the driver could not decide.
    """

    shards: Shards
    predicate: PruningPredicate
    todo: tuple[int, ...]

    def __call__(self, batches: Batches) -> Batches:
        """Judge the shards whose indices arrive."""
        own_cpus()

        def find(i: int) -> tuple[bytes, bytes, bytes]:
            return as_bytes(self.predicate.find(self.shards.statistics(i)))

        for batch in batches:
            for index in batch.column(0).to_pylist():
                i = self.todo[index]
                failed: dict[str, StatisticsError] = {}
                found = self.shards.ask(i, find, (b"", b"", b""), "keep", failed)
                error = next((str(e) for e in failed.values()), None)
                yield pa.record_batch(
                    [
                        pa.array([v], t.type)
                        for v, t in zip((i, *found, error), JUDGED, strict=True)
                    ],
                    schema=JUDGED,
                )


@dataclass(frozen=True)
class ListJob:
    """Lists the containers to keep. The rows that arrive are indices into `todo`.

    Attributes:
        shards: All shards.
        predicate: The condition.
        todo: The numbers of the shards that may keep something, with their verdicts. MAYBE: the
            shard is not decided as a whole.
        on_error: As in `Shards.judge`.
    """

    shards: Shards
    predicate: PruningPredicate
    todo: tuple[tuple[int, Verdict], ...]
    on_error: OnError

    def __call__(self, batches: Batches) -> Batches:
        """List the containers to keep of the shards whose indices arrive."""
        own_cpus()

        def find(i: int) -> SparseVerdicts:
            return self.predicate.find(self.shards.statistics(i))

        for batch in batches:
            for index in batch.column(0).to_pylist():
                i, verdict = self.todo[index]
                failed: dict[str, StatisticsError] = {}
                found: Any = verdict
                if verdict is Verdict.MAYBE:
                    found = self.shards.ask(i, find, verdict, self.on_error, failed)
                yield from self.shards.rows(
                    i, found, next(iter(failed.values()), None)
                ).to_batches()
