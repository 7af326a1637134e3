"""What runs in Spark's Python workers: batches of statistics in, answers out.

A worker process keeps the predicates that it was sent, by the digest of their pickle: Spark sends a function anew with
each task, and a predicate of a million keys is made once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skipstone.bindings.spark.series import Carrier, read

if TYPE_CHECKING:
    import pandas as pd

    from skipstone.bindings.spark.slots import Answer, Judge


def over_series(judge: Judge, carriers: Sequence[Carrier], answer: Answer) -> Callable[[Iterator[Any]], Iterator[pd.Series]]:
    """The function of a pandas UDF: batches of Series, one for each carrier, or two where it is split."""

    def containers(batches: Iterator[Any]) -> Iterator[pd.Series]:
        import pandas as pd

        for batch in batches:
            series = batch if isinstance(batch, tuple) else (batch,)
            given, arrays = iter(series), []
            for slot, carrier in zip(judge.slots, carriers, strict=True):
                arrays.append(read(slot, carrier, next(given), next(given) if carrier.split else None))
            yield pd.Series(judge.answers(arrays, len(series[0]), answer))

    return containers


def over_arrays(judge: Judge, answer: Answer) -> Callable[[Iterator[Any]], Iterator[pa.Array]]:
    """The function of an Arrow UDF: batches of arrays, one for each slot; at least one."""

    def containers(batches: Iterator[Any]) -> Iterator[pa.Array]:
        for batch in batches:
            arrays = batch if isinstance(batch, tuple) else (batch,)
            yield pa.array(judge.answers(arrays[: len(judge.slots)], len(arrays[0]), answer))

    return containers


def over_batches(judge: Judge, kept: int, name: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function of mapInArrow: the first columns stay, those after them are the statistics, and verdicts by a name take their place."""

    def containers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = batch.columns
            found = pa.array(judge.answers(columns[kept:], len(batch), "verdict"))
            yield pa.RecordBatch.from_arrays([*columns[:kept], found], names=[*batch.schema.names[:kept], name])

    return containers
