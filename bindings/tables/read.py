"""Reading what a plan kept: only the surviving row groups, filtered only where the verdict is MAYBE."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from skipstone.bindings.location import one_line
from skipstone.bindings.tables.files import UNKNOWN, check_unchanged
from skipstone.bindings.tables.parquet.calendar import leaves, modern
from skipstone.bindings.tables.parquet.declared_types import unjudged, unread
from skipstone.bindings.tables.parquet.footer import schema_of
from skipstone.bindings.tables.partitions import Texts, values_of
from skipstone.ir.errors import SourceError, StaleFile, UnsupportedForm
from skipstone.ir.node import Node, columns_of
from skipstone.ir.outcome import Verdict
from skipstone.ir.rows import matching_rows
from skipstone.kernels.run.pool import threads

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.tables.parquet.footer import Tail
    from skipstone.bindings.tables.parquet.table import ParquetTable

T = TypeVar("T")
BATCH: Final = 1 << 16  # rows
# The first Julian day, in microseconds since 1970. Spark writes days before it, and those so late that their number overflows, as negative
# ones, and Arrow takes these for other days: the late ones always for days before the first.
JULIAN: Final = -210_866_803_200_000_000


def in_turn(
    read: Callable[[T], list[pa.RecordBatch]], tasks: Iterable[T]
) -> Iterator[pa.RecordBatch]:
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


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a plan wants of each file.

    Attributes:
        columns: Top-level columns.
        predicate: The bound condition; None keeps every row.
        lenient: Whether rows are handed on that cannot be judged here, to be judged by who asked.
    """

    columns: tuple[str, ...]
    predicate: Node | None
    lenient: bool = False

    @staticmethod
    def of(plan: Plan, lenient: bool = False) -> Wanted:
        """What a plan wants."""
        return Wanted(
            tuple(plan.columns), None if plan.predicate is None else plan.predicate.node, lenient
        )

    def needed(self, filtered: bool) -> set[str]:
        """The columns to read of a file, whose rows are to be judged or not."""
        judged = columns_of(self.predicate) if filtered and self.predicate is not None else ()
        return {*self.columns, *(path[0] for path in judged)}

    def select(self, batch: pa.RecordBatch, filtered: bool) -> pa.RecordBatch:
        """The rows and columns that are wanted of a batch."""
        if filtered and self.predicate is not None:
            try:
                batch = matching_rows(self.predicate, batch)
            except UnsupportedForm:
                if not self.lenient:
                    raise
        return batch.select(list(self.columns))


class Reader(Protocol):
    """Reads files of a plan. It holds what they have in common, and nothing of the table besides, so that it may be pickled."""

    @property
    def wanted(self) -> Wanted:
        """What it reads of each file."""
        ...

    def read(self, task: Any) -> Iterator[pa.RecordBatch]:
        """The rows that are wanted of one file, or of some row groups of it."""
        ...


@dataclass(frozen=True, slots=True)
class Tasks:
    """How to read a plan: one reader, and what it is to read, in table order.

    Attributes:
        reader: Reads each of them.
        each: Small values of the reader's own kind, which may be pickled.
        containers: Which containers of the plan each is of.
        nbytes: About how much each reads.
    """

    reader: Reader
    each: Sequence[Any]
    containers: Sequence[Sequence[int]]
    nbytes: Sequence[int]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, in table order."""
        return in_turn(lambda task: list(self.reader.read(task)), self.each)


@dataclass(frozen=True, slots=True)
class GroupTask:
    """Row groups of one file with one verdict.

    Attributes:
        path, size, time: The file's, the time in ns since 1970; -1 is unknown.
        groups: Which row groups.
        filtered: Whether their rows are to be judged.
        folder: Path, and texts of the partition values, of the folder that holds it.
        tail: The file's footer, if it was read.
        rows: The rows that a summary tells of each row group of the file; None: the footer told them.
    """

    path: str
    size: int
    time: int
    groups: list[int]
    filtered: bool
    folder: tuple[str, Texts]
    tail: Tail | None
    rows: list[int] | None


def tasks_of(table: ParquetTable, plan: Plan, lenient: bool = False) -> Tasks:
    """How to read a plan of a Parquet table.

    Raises:
        SourceError: a file that could not be read is to be.
    """
    found = table.groups
    nbytes = np.where(found.nbytes == UNKNOWN, found.files.sizes[found.file], found.nbytes)
    each, containers, sizes = [], [], []
    kept = [
        (i, int(found.file[i]), bool(plan.verdicts[i] == Verdict.MAYBE)) for i in plan.kept.tolist()
    ]
    for (file, filtered), several in itertools.groupby(kept, lambda one: one[1:]):
        places = [i for i, _, _ in several]
        path = found.files.paths[file].as_py()
        if path in table.unreadable:
            raise SourceError(
                f'{table.unreadable[path]}; it was kept by on_error="keep", and the rows may be in it: '
                "leave it out of the scan by a glob such as folder/*.parquet"
            ) from table.unreadable[path]
        tail = table.footers.get(path)
        first, stop = np.searchsorted(found.file, [file, file + 1]).tolist()
        rows = found.rows[first:stop].tolist() if tail is None else None
        groups, folder = found.group[places].tolist(), found.files.folders[found.files.folder[file]]
        each.append(
            GroupTask(
                path,
                int(found.files.sizes[file]),
                int(found.files.times[file]),
                groups,
                filtered,
                folder,
                tail,
                rows,
            )
        )
        containers.append(places)
        sizes.append(int(nbytes[places].sum()))
    reader = GroupReader(
        Wanted.of(plan, lenient),
        table.filesystem,
        table.schema,
        table.partition_columns,
        plan.timezone,
    )
    return Tasks(reader, each, containers, sizes)


@dataclass(frozen=True, slots=True)
class GroupReader:
    """Reads row groups of Parquet files.

    Attributes:
        wanted: What of them.
        filesystem: Where they are.
        schema: The table's columns.
        partition_columns: Those of them that come from folders' names.
        timezone: What partition values without a zone are read in.
    """

    wanted: Wanted
    filesystem: pafs.FileSystem
    schema: pa.Schema
    partition_columns: tuple[str, ...]
    timezone: str

    def read(self, task: GroupTask) -> Iterator[pa.RecordBatch]:
        """The rows that are wanted of some row groups.

        Raises:
            SourceError: the file cannot be read, or is another than the one that was planned.
        """
        needed, path = self.wanted.needed(task.filtered), task.path
        fields = [f for f in self.schema if f.name in needed]
        constants = {
            f.name: values_of([task.folder], f, self.timezone)[0]
            for f in fields
            if f.name in self.partition_columns
        }
        check_unchanged(self.filesystem, [path], [task.size], [task.time])
        try:
            with self.filesystem.open_input_file(path) as source:
                if task.size != UNKNOWN and source.size() != task.size:
                    raise StaleFile(
                        f"{path}: was {task.size} bytes when it was planned, and is {source.size()}; scan the table again"
                    )
                reader = pq.ParquetFile(
                    source,
                    metadata=None if task.tail is None else task.tail.metadata,
                    coerce_int96_timestamp_unit="us",
                )
                _same_groups(task, reader.metadata)
                filtered = self._can_judge(task, reader, fields)
                own = _own_names(
                    reader.schema_arrow, [f for f in fields if f.name not in constants], path
                )
                for batch in batches_of(reader, path, list(own.values()), task.groups):
                    rows = self.wanted.select(_complete(batch, fields, own, constants), filtered)
                    if rows.num_rows:
                        yield rows
        except (OSError, pa.ArrowException, IndexError) as e:
            if isinstance(e, SourceError):
                raise
            raise SourceError(
                f"{path}: reading row groups {task.groups[:8]} failed ({one_line(e)}); if the file "
                "was changed since, scan the table again, else leave the file out"
            ) from e

    def _can_judge(self, task: GroupTask, file: pq.ParquetFile, fields: list[pa.Field]) -> bool:
        """Return True if the file's columns mean what the table's do, False if whoever asked judges its rows.

        Raises:
            UnsupportedForm: they do not.
        """
        own = schema_of(file.metadata) if task.tail is None else task.tail.head.columns
        judged = () if self.wanted.predicate is None else columns_of(self.wanted.predicate)
        why = unjudged(fields, own, judged) if task.filtered else ""
        if problem := unread(fields, own) or ("" if self.wanted.lenient else why):
            raise UnsupportedForm(f"{task.path}: {problem}")
        return task.filtered and not why


def batches_of(
    file: pq.ParquetFile, path: str, columns: list[str], groups: Sequence[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """Columns of a file, batch by batch, all of its row groups or some.

    Raises:
        SourceError: a column holds times or days that Arrow reads as other ones; or Arrow reads
            fewer rows than there are.
    """
    found = file.metadata.schema
    asked = range(file.num_row_groups) if groups is None else groups
    left = sum(file.metadata.row_group(g).num_rows for g in asked)
    old = {
        c.path.split(".")[0]
        for c in map(found.column, range(len(found)))
        if c.physical_type == "INT96"
    }
    # Arrow (26) does not join the dictionaries of several row groups within structs and lists.
    several = any(f.name in columns and _has_categories(f.type) for f in file.schema_arrow)
    parts = (
        [groups]
        if not several
        else [[g] for g in (range(file.num_row_groups) if groups is None else groups)]
    )
    for batch in itertools.chain.from_iterable(
        file.iter_batches(BATCH, row_groups=part, columns=columns, use_threads=False)
        for part in parts
    ):
        for name in old.intersection(batch.schema.names):
            times = (
                part for part in leaves(batch.column(name)) if pa.types.is_timestamp(part.type)
            )
            if any(
                t.null_count < len(t) and pc.min(t.cast(pa.int64())).as_py() < JULIAN for t in times
            ):
                raise SourceError(
                    f"{path}: its INT96 column {name!r} holds timestamps beyond the year 285,000 or before -4713, which Arrow reads as other ones; "
                    "write it as TIMESTAMP_MICROS (spark.sql.parquet.outputTimestampType), or read it by Spark"
                )
        left -= batch.num_rows
        yield modern(batch, file.metadata.metadata or {}, old, path)
    if columns and left:  # pyarrow 26 reads no row where a list's pages hold one value each
        raise SourceError(
            f"{path}: Arrow read {left} rows fewer than the footer counts; expected all of them. "
            f"Read other columns than {', '.join(columns)}, or read it by Spark"
        )


def _has_categories(t: pa.DataType) -> bool:
    """Whether a type holds a dictionary within others."""
    inner = [t.field(i).type for i in range(t.num_fields)] if pa.types.is_nested(t) else []
    return any(pa.types.is_dictionary(i) or _has_categories(i) for i in inner)


def _same_groups(task: GroupTask, found: pq.FileMetaData) -> None:
    """Refuse a file that has other row groups than it was planned by: `_metadata` may be older than it."""
    if (
        task.rows is not None
        and [found.row_group(i).num_rows for i in range(found.num_row_groups)] != task.rows
    ):
        raise SourceError(
            f"{task.path}: has other row groups than a summary of the table says; write _metadata again, or scan with use_metadata=False"
        )


def _own_names(schema: pa.Schema, fields: list[pa.Field], path: str) -> dict[str, str]:
    """What a file calls the table's columns: the same, or in another case, as Spark finds them; what it lacks has no entry."""
    out = {}
    for f in fields:
        found = (
            [f.name]
            if f.name in schema.names
            else [name for name in schema.names if name.lower() == f.name.lower()]
        )
        if len(found) > 1:
            raise SourceError(
                f"{path}: has the columns {', '.join(found)}, and one is expected for {f.name!r}"
            )
        if found:
            out[f.name] = found[0]
    return out


def _complete(
    batch: pa.RecordBatch,
    fields: list[pa.Field],
    own: dict[str, str],
    constants: dict[str, pa.Scalar],
) -> pa.RecordBatch:
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
    if (
        pa.types.is_timestamp(kind)
        and pa.types.is_timestamp(values.type)
        and kind.tz is not None
        and values.type.tz is None
    ):  # INT96
        return values.cast(pa.timestamp(kind.unit)).cast(pa.int64()).cast(kind)
    if not (pa.types.is_struct(kind) and pa.types.is_struct(values.type)):
        # Integers that become floats are rounded to the nearest, as Spark's casts do.
        return values.cast(kind, safe=not pa.types.is_floating(kind))
    wanted = [kind.field(i) for i in range(kind.num_fields)]
    own = _own_names(pa.schema(list(values.type)), wanted, "a file")
    given = dict(zip((f.name for f in values.type), values.flatten(), strict=True))
    fields = [
        _fitted(given[own[f.name]], f.type) if f.name in own else pa.nulls(len(values), f.type)
        for f in wanted
    ]
    return pa.StructArray.from_arrays(
        fields, fields=[f.with_nullable(True) for f in wanted], mask=values.is_null()
    ).cast(kind)


def offsets_of(values: pa.ListArray) -> pa.Array:
    """Where each list starts among the items of all of them, NULLs being empty: int32, one more than there are lists."""
    lengths = np.asarray(
        values.value_lengths().fill_null(0).to_numpy(zero_copy_only=False), np.int32
    )
    return pa.array(np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)]))
