"""Log records of scans, plans and reads. They are made only if somebody listens."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir.node import not_understood
from skipstone.ir.outcome import Verdict
from skipstone.kernels import logs

if TYPE_CHECKING:
    from skipstone.bindings.plans.table_protocol import PlannedTable
    from skipstone.bindings.predicates.predicate import PruningPredicate

T = TypeVar("T")


def log_opened(table: T, format: str, source: Any) -> T:
    """Return a table, and write the record that it was opened.

    Args:
        table: The table.
        format: Its format.
        source: The source that the caller named.
    """
    if logs.enabled("table opened"):
        found: Any = table
        named = source if isinstance(source, str | os.PathLike) else type(source).__name__
        done = found.work
        logs.write(
            "table opened",
            format=format,
            table=found.path or str(named),
            read={**done.counts, "bytes": done.bytes},
            seconds=sum(done.seconds.values()),
        )
    return table


def log_planned(
    table: PlannedTable,
    predicate: PruningPredicate | None,
    verdicts: npt.NDArray[np.uint8],
    start: float,
) -> None:
    """Write the record of a plan.

    Args:
        table: The table.
        predicate: The condition.
        verdicts: The verdicts of the containers.
        start: When planning began, by `time.perf_counter`.
    """
    if logs.enabled("table planned"):
        logs.write(
            "table planned",
            condition=None if predicate is None else str(predicate.expr),
            unit=table.unit,
            containers=len(verdicts),
            kept=int(np.count_nonzero(verdicts)),
            fully_matched=int(np.count_nonzero(verdicts == Verdict.ALWAYS)),
            not_used=0 if predicate is None else len(not_understood(predicate.node)),
            seconds=time.perf_counter() - start,
        )


def log_reading(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches; when the stream ends, write the record of what was read."""
    if not logs.enabled("rows read"):
        return batches
    return _logged(batches)


def _logged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    start, rows, n, complete = time.perf_counter(), 0, 0, False
    try:
        for batch in batches:
            rows, n = rows + batch.num_rows, n + 1
            yield batch
        complete = True
    finally:
        logs.write(
            "rows read",
            rows=rows,
            batches=n,
            seconds=time.perf_counter() - start,
            complete=complete,
        )
