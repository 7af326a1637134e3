"""Reading what a plan kept: only the surviving row groups, filtered only where the verdict is MAYBE."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from skipstone.bindings.sources.files import partition_array
from skipstone.ir.errors import SourceError
from skipstone.ir.node import columns_of
from skipstone.ir.outcome import Verdict
from skipstone.ir.rows import matching_rows
from skipstone.kernels.pool import threads

if TYPE_CHECKING:
    from skipstone.bindings.plan import Plan
    from skipstone.bindings.sources.footers import Container, Footer
    from skipstone.bindings.sources.parquet import ParquetTable

T = TypeVar("T")
BATCH: Final = 1 << 16  # rows


def in_turn(read: Callable[[T], list[pa.RecordBatch]], tasks: Iterable[T]) -> Iterator[pa.RecordBatch]:
    """What tasks read, in their order; a few of them are read ahead."""
    ahead = threads() + 1
    with ThreadPoolExecutor(threads(), "skipstone-read") as readers:
        waiting: deque[Future[list[pa.RecordBatch]]] = deque()
        try:
            for task in tasks:
                waiting.append(readers.submit(read, task))
                if len(waiting) > ahead:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        finally:  # whoever has enough rows does not wait for more files
            for one in waiting:
                one.cancel()


def read_plan(table: ParquetTable, plan: Plan) -> Iterator[pa.RecordBatch]:
    """The matching rows in table order."""
    return in_turn(lambda task: _read(table, plan, *task), list(_tasks(table, plan)))


def _tasks(table: ParquetTable, plan: Plan) -> Iterator[tuple[Footer, list[int], bool]]:
    """Runs of kept row groups of one file with one verdict: (file, row groups, whether to filter)."""
    kept = [(table.containers[i], bool(plan.verdicts[i] == Verdict.MAYBE)) for i in plan.kept]

    def key(pair: tuple[Container, bool]) -> tuple[int, bool]:
        return pair[0].footer, pair[1]

    for (footer, filtered), run in itertools.groupby(kept, key):
        source = table.footers[footer]
        if source.error is not None:
            raise source.error
        yield source, [c.row_group for c, _ in run if c.row_group is not None], filtered


def _read(table: ParquetTable, plan: Plan, footer: Footer, groups: list[int], filtered: bool) -> list[pa.RecordBatch]:
    predicate = plan.predicate
    needed = set(plan.columns)
    if filtered and predicate is not None:
        needed |= {p[0] for p in columns_of(predicate.node)}
    fields = [f for f in table.schema if f.name in needed]
    assert footer.schema is not None
    own = [f.name for f in fields if f.name in footer.schema.names and f.name not in table.partition_columns]
    out: list[pa.RecordBatch] = []
    try:
        with table.filesystem.open_input_file(footer.file.path) as source:
            reader = pq.ParquetFile(source, metadata=footer.metadata)
            for batch in reader.iter_batches(BATCH, row_groups=groups, columns=own, use_threads=False):
                whole = _complete(batch, footer, fields, table.partition_columns)
                if filtered and predicate is not None:
                    whole = matching_rows(predicate.node, whole)
                if whole.num_rows:
                    out.append(whole.select(plan.columns))
    except (OSError, pa.ArrowException) as e:
        if isinstance(e, SourceError):
            raise
        raise SourceError(f"{footer.file.path}: reading row groups {groups[:8]} failed ({str(e).splitlines()[0] if str(e) else type(e).__name__})") from e
    return out


def _complete(batch: pa.RecordBatch, footer: Footer, fields: list[pa.Field], partitions: tuple[str, ...]) -> pa.RecordBatch:
    """A batch with the table's columns: partition values repeated, absent columns NULL, types widened."""
    n = batch.num_rows
    columns = []
    for f in fields:
        if f.name in partitions:
            value = partition_array(footer.file, f)
            columns.append(pa.repeat(value[0], n))
        elif f.name in batch.schema.names:
            values = batch.column(f.name)
            # Integers that become floats are rounded to the nearest, as Spark's casts do.
            columns.append(values if values.type == f.type else values.cast(f.type, safe=not pa.types.is_floating(f.type)))
        else:
            columns.append(pa.nulls(n, f.type))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
