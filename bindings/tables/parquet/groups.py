"""The row groups of many files as columns: statistics from footers, `_metadata` and snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from skipstone.bindings.plans.table_protocol import DataSize, known_sum
from skipstone.bindings.statistics.casts import cast_or_null, value_type_at
from skipstone.bindings.tables.files import UNKNOWN, Files, Ints
from skipstone.bindings.tables.parquet.file_schemas import BloomLocation, FileSchema, common_schema
from skipstone.bindings.tables.partition_values import constant_statistics
from skipstone.bindings.tables.partitions import partition_column
from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of
from skipstone.ir.errors import SourceError
from skipstone.ir.node import Path, parts_of
from skipstone.ir.types import leaves_of
from skipstone.kernels.decode.arrays import joined_longs
from skipstone.kernels.pack.columns import ColumnStatistics
from skipstone.kernels.pack.planes import Mask


class RowGroupPart(Protocol):
    """m files of a table with k row groups.

    A file that cannot be read counts as one row group without statistics.

    Attributes:
        files: The position of each file in the table, shape (m,).
        schema_number: The index in `schemas` of each file's schema, shape (m,); -1 if the file
            cannot be read.
        owner: The index of each row group's file among the m files, shape (k,), ascending.
        group: The number of each row group in its file, shape (k,); -1 if the file cannot be read.
        rows: The rows of each row group, shape (k,); -1 is unknown.
    """

    files: Ints
    schema_number: Ints
    owner: Ints
    group: Ints
    rows: Ints

    @property
    def schemas(self) -> Sequence[FileSchema]:
        """The distinct schemas of the files."""
        ...

    @property
    def nbytes(self) -> Ints:
        """Compressed bytes of each row group, shape (k,); -1 is unknown."""
        ...

    def load(self, paths: Sequence[Path]) -> None:
        """Look up the statistics of columns together, if that is cheaper than one by one."""
        ...

    def raw(self, path: Path, arrow_type: pa.DataType) -> ColumnStatistics:
        """Return the statistics of one column, length k, with bounds of `arrow_type`."""
        ...

    def exact(self, path: Path) -> tuple[pa.Array, pa.Array]:
        """Return whether min and max occur in a row: bool, length k; null is unknown."""
        ...

    def blooms(self, path: Path) -> dict[int, BloomLocation]:
        """Return row group (0 to k - 1) -> location of a column's bloom filter."""
        ...


def first_positions(codes: Ints, n: int) -> Ints:
    """Return the first position of each of the codes 0 to n - 1; -1 if a code does not occur.

    Negative codes are ignored.
    """
    out = np.full(n + 1, -1, np.int64)
    out[np.where(codes < 0, n, codes)[::-1]] = np.arange(len(codes))[::-1]
    return out[:n]


def schemas_in(parts: Sequence[RowGroupPart]) -> list[FileSchema]:
    """Return the distinct schemas of files, in the order of their first file in the table."""
    first: dict[FileSchema, int] = {}
    for p in parts:
        for schema, at in zip(
            p.schemas, first_positions(p.schema_number, len(p.schemas)).tolist(), strict=True
        ):
            if at >= 0:
                first[schema] = min(int(p.files[at]), first.get(schema, int(p.files[at])))
    return sorted(first, key=lambda f: first[f])


class RowGroups:
    """The n row groups of a table, in table order.

    Args:
        files: The table's files.
        parts: The row groups of those files, in parts.
        schema: The table's columns.
        partitions: The columns whose values come from folders' names, or from `values`.
        values: Partition column -> its value in each folder; None takes them from folders' names.

    Attributes:
        files, parts, schema: As given.
        partitions: Name -> partition column.
        file: The index of each row group's file, shape (n,).
        group: The number of each row group in its file, shape (n,); -1 if the file cannot be read.
        rows: The rows of each row group, shape (n,); -1 is unknown.
    """

    def __init__(
        self,
        files: Files,
        parts: Sequence[RowGroupPart],
        schema: pa.Schema,
        partitions: Sequence[pa.Field],
        values: Mapping[str, pa.Array] | None = None,
    ) -> None:
        self.files, self.parts, self.schema = files, parts, schema
        self.partitions = {f.name: f for f in partitions}
        self._values = values
        file = joined_longs([p.files[p.owner] for p in parts])
        group = joined_longs([p.group for p in parts])
        order = np.lexsort((group, file))
        self._order = None if (np.diff(order) == 1).all() else order
        self.file, self.group = file[order], group[order]
        self.rows = joined_longs([p.rows for p in parts])[order]
        self._raw: dict[Path, ColumnStatistics] = {}

    def __len__(self) -> int:
        return len(self.file)

    @property
    def nbytes(self) -> Ints:
        """Compressed bytes of each row group, shape (n,); -1 is unknown."""
        return self._in_table_order(joined_longs([p.nbytes for p in self.parts]))

    def _in_table_order(self, values: Ints) -> Ints:
        """Return values in table order, given those of one part after another."""
        return values if self._order is None else values[self._order]

    def rows_of(self, file: int) -> Ints:
        """Return the rows of each row group of a file; -1 is unknown."""
        first, stop = np.searchsorted(self.file, [file, file + 1]).tolist()
        return self.rows[first:stop]

    def is_partition(self, path: Path) -> bool:
        """Return True if a column is a partition column; files may hold one of the same name."""
        return path[0] in self.partitions

    def load(self, paths: Iterable[Path]) -> None:
        """Look up the statistics of columns of the files together, before `raw` is called."""
        new = [p for p in paths if p not in self._raw and not self.is_partition(p)]
        if len(new) > 1:
            for part in self.parts:
                part.load(new)

    def raw(self, path: Path) -> ColumnStatistics:
        """Return the statistics of one column of the files."""
        if path not in self._raw:
            kind = value_type_at(self.schema, path)
            raws = [p.raw(path, kind) for p in self.parts]
            self._raw[path] = ColumnStatistics(
                *(
                    self._concat_parts([getattr(r, key) for r in raws], t)
                    for key, t in _statistic_types(kind)
                )
            )
        return self._raw[path]

    def _concat_parts(
        self, arrays: Sequence[pa.Array | None], arrow_type: pa.DataType
    ) -> pa.Array | None:
        """Concatenate one statistic of all parts, in table order; None if no part has it."""
        kinds = {a.type for a in arrays if a is not None}
        if not kinds:
            return None
        arrow_type = kinds.pop() if len(kinds) == 1 else arrow_type
        chunks = [
            c
            for a, p in zip(arrays, self.parts, strict=True)
            for c in (
                [pa.nulls(len(p.owner), arrow_type)]
                if a is None
                else cast_or_null(a, arrow_type).chunks
            )
        ]
        joined = (
            chunks[0] if len(chunks) == 1 else pa.chunked_array(chunks, arrow_type).combine_chunks()
        )
        return joined if self._order is None else pc.take(joined, arrow_of(self._order))

    def exact(self, path: Path) -> dict[str, pa.Array]:
        """Return "min_exact" and "max_exact": whether the bounds occur in a row."""
        flags = [p.exact(path) for p in self.parts]
        low, high = (self._concat_parts([f[side] for f in flags], pa.bool_()) for side in (0, 1))
        return {"min_exact": low, "max_exact": high}

    def blooms(self, path: Path) -> dict[int, BloomLocation]:
        """Return row group -> location of a column's bloom filter, where there is one."""
        if self.is_partition(path):
            return {}
        starts = np.cumsum([0, *(len(p.owner) for p in self.parts)]).tolist()
        locations = {
            start + i: bloom
            for p, start in zip(self.parts, starts, strict=False)
            for i, bloom in p.blooms(path).items()
        }
        if self._order is None or not locations:
            return locations
        position = np.empty_like(self._order)
        position[self._order] = np.arange(len(position))
        return {int(position[i]): bloom for i, bloom in locations.items()}

    def partition(self, field: pa.Field, timezone: str) -> ColumnStatistics:
        """Return the statistics of a partition column.

        A partition value is both bounds of its row groups. A NULL value counts as a column of
        NULLs, whatever the number of rows.

        Args:
            field: The column.
            timezone: The zone in which timestamps without a zone are read.
        """
        if self._values is None:
            values = partition_column(self.files.folders, field, timezone)
        else:
            values = self._values[field.name]
        return constant_statistics(pc.take(values, arrow_of(self.files.folder[self.file])))

    def size(self, chosen: Mask) -> DataSize:
        """Return how much data the chosen row groups hold; `chosen` is a mask, shape (n,)."""
        files = int(np.count_nonzero(np.diff(self.file[chosen], prepend=-1)))
        rows = known_sum(self.rows[chosen])
        nbytes = np.where(self.group == UNKNOWN, self.files.sizes[self.file], self.nbytes)
        return DataSize(files, known_sum(nbytes[chosen]), rows, rows)

    def by_path(self, which: Ints) -> dict[str, list[int]]:
        """Return path -> numbers of row groups; an unreadable file has an empty list.

        Args:
            which: Ascending indices of row groups.
        """
        files = self.file[which]
        starts = np.flatnonzero(np.diff(files, prepend=-1))
        paths = pc.take(self.files.paths, arrow_of(files[starts])).to_pylist()
        groups = np.split(self.group[which], starts[1:])
        return {
            path: [g for g in own.tolist() if g != UNKNOWN]
            for path, own in zip(paths, groups, strict=False)
        }

    def with_all_columns(self) -> RowGroups:
        """Return the row groups with the columns of all files, if the files' types fit together."""
        try:
            schema = common_schema(schemas_in(self.parts))
        except SourceError:
            return self
        names = {name.lower() for name in self.partitions}
        data = [f for f in schema if f.name.lower() not in names]
        partitions = list(self.partitions.values())
        return RowGroups(self.files, self.parts, pa.schema([*data, *partitions]), partitions)


def _statistic_types(arrow_type: pa.DataType) -> tuple[tuple[str, pa.DataType], ...]:
    count = pa.int64()
    return (
        ("min", arrow_type),
        ("max", arrow_type),
        ("null_count", count),
        ("row_count", count),
        ("nan_count", count),
    )


class LazyColumns(Mapping[Path, ColumnStatistics]):
    """Column -> statistics, computed when a column is first used.

    It also knows the elements of arrays, and the keys and values of maps, but does not list them.

    Attributes:
        groups: The row groups.
        parts: The paths of such elements, keys and values.
    """

    bounds_elements = True

    def __init__(self, groups: RowGroups, timezone: str) -> None:
        self.groups, self._timezone = groups, timezone
        leaves = leaves_of(groups.schema).values()
        self._leaves = [leaf.path for leaf in leaves if leaf.dtype.ordered]
        self.parts = {
            (*leaf.path, *part)
            for leaf in leaves
            for part, dtype in parts_of(leaf.dtype).items()
            if dtype.ordered
        }
        self._constants: dict[Path, ColumnStatistics] = {}

    def __iter__(self) -> Iterator[Path]:
        return iter(self._leaves)

    def __len__(self) -> int:
        return len(self._leaves)

    def __getitem__(self, path: Path) -> ColumnStatistics:
        if path not in self._leaves and path not in self.parts:
            raise KeyError(path)
        if not self.groups.is_partition(path):
            return self.groups.raw(path)
        if path not in self._constants:
            self._constants[path] = self.groups.partition(
                self.groups.partitions[path[0]], self._timezone
            )
        return self._constants[path]


class Exactness(Mapping[Path, Mapping[str, pa.Array]]):
    """Column -> {"min_exact", "max_exact"}: bool, one value per row group; null is unknown."""

    def __init__(self, columns: LazyColumns) -> None:
        self._columns, self.parts = columns, columns.parts
        self._flags: dict[Path, dict[str, pa.Array]] = {}

    def __iter__(self) -> Iterator[Path]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __getitem__(self, path: Path) -> Mapping[str, pa.Array]:
        if path not in self._columns:
            raise KeyError(path)
        if path not in self._flags:
            groups = self._columns.groups
            # A partition value occurs if the row group has a row.
            occurs = arrow_of(groups.rows > 0, groups.rows >= 0)
            if groups.is_partition(path):
                self._flags[path] = {"min_exact": occurs, "max_exact": occurs}
            else:
                self._flags[path] = groups.exact(path)
        return self._flags[path]
