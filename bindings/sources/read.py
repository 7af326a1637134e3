"""Reading what a plan kept: only the surviving row groups, filtered only where the verdict is MAYBE."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from skipstone.bindings.sources.files import UNKNOWN
from skipstone.bindings.sources.partitions import values_of
from skipstone.ir.errors import SourceError
from skipstone.ir.node import columns_of
from skipstone.ir.outcome import Verdict
from skipstone.ir.rows import matching_rows
from skipstone.kernels.pool import threads

if TYPE_CHECKING:
    from skipstone.bindings.plan import Plan
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


def _tasks(table: ParquetTable, plan: Plan) -> Iterator[tuple[int, list[int], bool]]:
    """Runs of kept row groups of one file with one verdict: (file, row groups, whether to filter)."""
    groups = table.groups
    kept = [(int(groups.file[i]), int(groups.group[i]), bool(plan.verdicts[i] == Verdict.MAYBE)) for i in plan.kept]
    for (file, filtered), run in itertools.groupby(kept, lambda one: (one[0], one[2])):
        path = groups.files.paths[file].as_py()
        if path in table.unreadable:
            raise table.unreadable[path]
        yield file, [group for _, group, _ in run], filtered


def _read(table: ParquetTable, plan: Plan, file: int, groups: list[int], filtered: bool) -> list[pa.RecordBatch]:
    predicate = plan.predicate
    needed = set(plan.columns)
    if filtered and predicate is not None:
        needed |= {p[0] for p in columns_of(predicate.node)}
    fields = [f for f in table.schema if f.name in needed]
    files = table.groups.files
    path, folder = files.paths[file].as_py(), files.folders[files.folder[file]]
    constants = {f.name: values_of([folder], f, plan.timezone)[0] for f in fields if f.name in table.partition_columns}
    out: list[pa.RecordBatch] = []
    try:
        with table.filesystem.open_input_file(path) as source:
            if files.sizes[file] != UNKNOWN and source.size() != files.sizes[file]:
                raise SourceError(f"{path}: was {files.sizes[file]} bytes when it was planned, and is {source.size()}; scan the table again")
            reader = pq.ParquetFile(source, metadata=table.footers.get(path), coerce_int96_timestamp_unit="us")
            _same_groups(table, file, reader.metadata, path)
            own = _own_names(reader.schema_arrow, [f for f in fields if f.name not in constants], path)
            for batch in reader.iter_batches(BATCH, row_groups=groups, columns=list(own.values()), use_threads=False):
                whole = _complete(batch, fields, own, constants)
                if filtered and predicate is not None:
                    whole = matching_rows(predicate.node, whole)
                if whole.num_rows:
                    out.append(whole.select(plan.columns))
    except (OSError, pa.ArrowException, IndexError) as e:
        if isinstance(e, SourceError):
            raise
        raise SourceError(f"{path}: reading row groups {groups[:8]} failed ({str(e).splitlines()[0] if str(e) else type(e).__name__})") from e
    return out


def _same_groups(table: ParquetTable, file: int, found: pq.FileMetaData, path: str) -> None:
    """Refuse a file that has other row groups than it was planned by: `_metadata` may be older than it."""
    groups = table.groups
    first, stop = np.searchsorted(groups.file, [file, file + 1]).tolist()
    if path not in table.footers and [found.row_group(i).num_rows for i in range(found.num_row_groups)] != groups.rows[first:stop].tolist():
        raise SourceError(f"{path}: has other row groups than a summary of the table says; write _metadata again, or scan with use_metadata=False")


def _own_names(schema: pa.Schema, fields: list[pa.Field], path: str) -> dict[str, str]:
    """What a file calls the table's columns: the same, or in another case, as Spark finds them; what it lacks has no entry."""
    out = {}
    for f in fields:
        found = [f.name] if f.name in schema.names else [name for name in schema.names if name.lower() == f.name.lower()]
        if len(found) > 1:
            raise SourceError(f"{path}: has the columns {', '.join(found)}, and one is expected for {f.name!r}")
        if found:
            out[f.name] = found[0]
    return out


def _complete(batch: pa.RecordBatch, fields: list[pa.Field], own: dict[str, str], constants: dict[str, pa.Scalar]) -> pa.RecordBatch:
    """A batch with the table's columns: partition values repeated, absent columns NULL, types widened."""
    n = batch.num_rows
    columns = []
    for f in fields:
        if f.name in constants:
            columns.append(pa.repeat(constants[f.name], n))
        elif f.name in own:
            columns.append(_fitted(batch.column(own[f.name]), f.type))
        else:
            columns.append(pa.nulls(n, f.type))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _fitted(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values as another type; fields of structs are found as columns are, which Arrow's cast would make NULL in another case."""
    if values.type == kind:
        return values
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(values.type) and kind.tz is not None and values.type.tz is None:  # INT96
        return values.cast(pa.timestamp(kind.unit)).cast(pa.int64()).cast(kind)
    if not (pa.types.is_struct(kind) and pa.types.is_struct(values.type)):
        # Integers that become floats are rounded to the nearest, as Spark's casts do.
        return values.cast(kind, safe=not pa.types.is_floating(kind))
    wanted = [kind.field(i) for i in range(kind.num_fields)]
    own = _own_names(pa.schema(list(values.type)), wanted, "a file")
    given = dict(zip((f.name for f in values.type), values.flatten(), strict=True))
    fields = [_fitted(given[own[f.name]], f.type) if f.name in own else pa.nulls(len(values), f.type) for f in wanted]
    return pa.StructArray.from_arrays(fields, fields=[f.with_nullable(True) for f in wanted], mask=values.is_null()).cast(kind)


def offsets_of(values: pa.ListArray) -> pa.Array:
    """Where each list starts among the items of all of them, NULLs being empty: int32, one more than there are lists."""
    lengths = np.asarray(values.value_lengths().fill_null(0).to_numpy(zero_copy_only=False), np.int32)
    return pa.array(np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)]))
