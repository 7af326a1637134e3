"""What runs on executors for shards: packing statistics into files, and judging them where they lie.

PySpark sends these objects by pickle; the modules that they need are those of the Skipstone which is installed there.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.shards.place import ShardFolder
from skipstone.bindings.shards.read import OnError, Shards
from skipstone.bindings.shards.verdicts import as_bytes
from skipstone.bindings.shards.write import write_shard
from skipstone.bindings.spark.statistics.slots import ROW_COUNT, Slot
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.ir.errors import StatisticsError
from skipstone.ir.node import show_path
from skipstone.ir.outcome import Verdict
from skipstone.kernels.index.descend import Found
from skipstone.kernels.run.pool import set_threads

Batches = Iterator[pa.RecordBatch]
# What a task answers: for each file that it wrote, in which order they follow each other; for each shard that it judged, packed verdicts.
WRITTEN: Final = pa.schema(
    [("partition", pa.int32()), ("place", pa.int32()), ("written", pa.binary())]
)
JUDGED: Final = pa.schema(
    [
        ("shard", pa.int32()),
        ("words", pa.binary()),
        ("match", pa.binary()),
        ("sure", pa.binary()),
        ("error", pa.string()),
    ]
)


def plain(job: Packing | Judging | Listing) -> Callable[[Batches], Batches]:
    """A job as the plain function that PySpark asks for."""

    def run(batches: Any) -> Any:
        return job(batches)

    return run


def own_cpus() -> None:
    """Take no more threads than the task has CPUs: other tasks share the machine."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is not None and "SKIPSTONE_THREADS" not in os.environ:
        set_threads(max(context.cpus(), 1))


@dataclass(frozen=True)
class Packing:
    """Writes the statistics of a partition as shards, whose names no other attempt has; the driver decides which of them count.

    Attributes:
        place, save: Where, and the save's own part of names.
        schema: The table's columns.
        slots: What the columns of the batches hold, from the first.
        about: The rest of the columns, if any.
        rows, order_by: As in `Statistics.save_shards`.
    """

    place: ShardFolder
    save: str
    schema: pa.Schema
    slots: tuple[Slot, ...]
    about: pa.Schema | None
    rows: int
    order_by: tuple[str, ...]

    def __call__(self, batches: Batches) -> Batches:
        """Write the shards of a partition."""
        from pyspark import TaskContext

        own_cpus()
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        self.place.make()
        for place, table in enumerate(_pieces(batches, self.rows)):
            given = [table.column(i) for i in range(len(self.slots))]
            about = (
                None
                if self.about is None
                else pa.table(list(table.columns[len(given) :]), names=self.about.names).cast(
                    self.about
                )
            )
            written = write_shard(
                self.place, self.save, self._statistics(given), about, self.order_by or None
            )
            yield pa.record_batch(
                [
                    pa.array([partition], pa.int32()),
                    pa.array([place], pa.int32()),
                    [pickle.dumps(written)],
                ],
                schema=WRITTEN,
            )

    def _statistics(self, given: list[pa.ChunkedArray]) -> Statistics:
        columns: dict[str, dict[str, Any]] = {}
        for slot, array in zip(self.slots, given, strict=True):
            columns.setdefault(show_path(slot.path), {})[slot.statistic] = array
        rows = columns.pop(show_path(()), {}).get(ROW_COUNT)
        return Statistics.from_dict(columns, self.schema, row_count=rows)


def _pieces(batches: Batches, rows: int) -> Iterator[pa.Table]:
    """Batches as tables of so many rows, the last of what is left."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        while batch.num_rows:
            part = batch.slice(0, rows - count)
            batch = batch.slice(part.num_rows)
            held.append(part)
            count += part.num_rows
            if count == rows:
                yield pa.Table.from_batches(held)
                held, count = [], 0
    if count:
        yield pa.Table.from_batches(held)


@dataclass(frozen=True)
class Judging:
    """Judges shards by the numbers that arrive, which index `todo`.

    Attributes:
        shards: All of them.
        predicate: The condition.
        todo: The shards that the driver could not settle.
    """

    shards: Shards
    predicate: PruningPredicate
    todo: tuple[int, ...]

    def __call__(self, batches: Batches) -> Batches:
        """Judge the shards whose numbers arrive."""
        own_cpus()

        def find(i: int) -> tuple[bytes, bytes, bytes]:
            return as_bytes(self.predicate.find(self.shards.statistics(i)))

        for batch in batches:
            for at in batch.column(0).to_pylist():
                i = self.todo[at]
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
class Listing:
    """Lists the containers to keep of shards by the numbers that arrive, which index `todo`.

    Attributes:
        shards: All of them.
        predicate: The condition.
        todo: The shards of which something may be kept, and their verdict, if they are settled as a whole.
        on_error: As in `Shards.judge`.
    """

    shards: Shards
    predicate: PruningPredicate
    todo: tuple[tuple[int, Verdict], ...]
    on_error: OnError

    def __call__(self, batches: Batches) -> Batches:
        """List what is to be kept of the shards whose numbers arrive."""
        own_cpus()

        def find(i: int) -> Found:
            return self.predicate.find(self.shards.statistics(i))

        for batch in batches:
            for at in batch.column(0).to_pylist():
                i, part = self.todo[at]
                failed: dict[str, StatisticsError] = {}
                found: Any = part
                if part is Verdict.MAYBE:
                    found = self.shards.ask(i, find, part, self.on_error, failed)
                yield from self.shards.rows(
                    i, found, next(iter(failed.values()), None)
                ).to_batches()
