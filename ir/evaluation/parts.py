"""Judge rows in parts: by their distinct values where these are few, otherwise in chunks.

A chunk's values stay in the cache of a core, and chunks of many rows run in threads.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir.arrow import Mask, booleans_of, int64_of
from skipstone.ir.node import Node, Path, columns_of

# Rows that are judged at once. With fewer, threads wait for the GIL between short steps in NumPy.
CHUNK: Final = 1 << 17
MAX_UNDIVIDED_ROWS: Final = 1 << 15  # for more, it pays to look for few distinct values
MIN_THREADED_ROWS: Final = 2 * CHUNK  # starting threads takes some 100 us
# glibc gives freed memory back to the system, and the next block costs page faults, unless a
# greater block was freed before (mallopt(3), M_MMAP_THRESHOLD; 32 MiB count at most). Where chunks
# make many short-lived arrays, this halves the time.
KEPT_BYTES: Final = 31 << 20
# With at least this many rows per distinct value, the values are judged instead of the rows.
MIN_ROWS_PER_VALUE: Final = 4


@dataclass(frozen=True, slots=True)
class Truth:
    """Masks of shape (rows,): the rows that are TRUE, that are FALSE, and that may raise an error.

    `may_raise` marks rows for which Spark may raise an error, or whose value is not known here. All
    other rows are NULL.
    """

    true: Mask
    false: Mask
    may_raise: Mask


Judge: TypeAlias = Callable[[pa.RecordBatch], Truth]


def in_parts(n: Node, batch: pa.RecordBatch, judge: Judge) -> Truth:
    """Judge rows by a condition that depends on nothing but the row, part by part."""
    if batch.num_rows <= MAX_UNDIVIDED_ROWS:
        return judge(batch)
    paths = list(columns_of(n))
    found = by_values(paths[0], batch, judge) if len(paths) == 1 else None
    return found or _in_chunks(batch.select(list({path[0]: None for path in paths})), judge)


def _in_chunks(batch: pa.RecordBatch, judge: Judge) -> Truth:
    np.empty(KEPT_BYTES, np.uint8)  # freed at once
    chunks = [batch.slice(at, CHUNK) for at in range(0, batch.num_rows, CHUNK)]
    if batch.num_rows < MIN_THREADED_ROWS or pa.cpu_count() < 2:
        parts = list(map(judge, chunks))
    else:
        with ThreadPoolExecutor(pa.cpu_count()) as threads:
            parts = list(threads.map(judge, chunks))
    return Truth(
        np.concatenate([p.true for p in parts]),
        np.concatenate([p.false for p in parts]),
        np.concatenate([p.may_raise for p in parts]),
    )


def by_values(path: Path, batch: pa.RecordBatch, judge: Judge) -> Truth | None:
    """Judge the values that a column may hold, and NULL; None if they are not few."""
    if len(path) > 1:
        return None
    values = batch.column(path[0])
    if (found := _distinct(values)) is None:
        return None
    at, distinct = found
    truth = judge(pa.record_batch([pa.concat_arrays([distinct, pa.nulls(1, distinct.type)])], path))
    code = truth.true + truth.false * np.uint8(2) + truth.may_raise * np.uint8(4)
    codes = code.take(at)
    return Truth(codes == 1, codes == 2, codes == 4)


def _distinct(values: pa.Array) -> tuple[npt.NDArray[np.integer], pa.Array] | None:
    """Return a position for each row, and the values at these positions; NULL comes after them."""
    if pa.types.is_dictionary(values.type):
        distinct = values.dictionary
        if len(distinct) * MIN_ROWS_PER_VALUE > len(values):
            return None
        return int64_of(values.indices, len(distinct)), distinct
    storage = pa.int32() if pa.types.is_date32(values.type) else values.type
    if not pa.types.is_signed_integer(storage):
        return None
    ends = pc.min_max(values.view(storage)).as_py()
    if ends["min"] is None or (ends["max"] - ends["min"] + 1) * MIN_ROWS_PER_VALUE > len(values):
        return None
    low, high = ends["min"], ends["max"]
    numbers = int64_of(values.view(storage), low).astype(np.intp)
    numbers -= low
    if values.null_count:
        numbers[booleans_of(pc.is_null(values))] = high - low + 1
    return numbers, pa.array(np.arange(low, high + 1), storage).view(values.type)
