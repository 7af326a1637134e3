"""Row groups of many files as columns: what footers, `_metadata` and snapshots tell of them, in table order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skipstone.bindings.statistics.casts import attempt, type_at
from skipstone.bindings.tables.files import Files, Ints
from skipstone.bindings.tables.parquet.file_schemas import Bloom, FileSchema
from skipstone.bindings.tables.partitions import values_of
from skipstone.ir.node import Path
from skipstone.ir.types import leaves_of
from skipstone.kernels.pack.columns import Raw


class RowGroupPart(Protocol):
    """Some files of a table, m of them, with k row groups; a file that cannot be read has one, of which nothing is known.

    Attributes:
        files: Where each file stands in the table, shape (m,).
        form: Which of `forms` each has, shape (m,); -1: it cannot be read.
        owner: Which of the m files each row group is of, shape (k,), ascending.
        group: Its number in the file, shape (k,); -1: the file cannot be read.
        rows: Its rows, shape (k,); -1 is unknown.
    """

    files: Ints
    form: Ints
    owner: Ints
    group: Ints
    rows: Ints

    @property
    def forms(self) -> Sequence[FileSchema]:
        """The distinct forms of the files."""
        ...

    @property
    def nbytes(self) -> Ints:
        """Compressed bytes, shape (k,); -1 is unknown."""
        ...

    def raw(self, path: Path, kind: pa.DataType) -> Raw:
        """Statistics of one column whose values the table has as `kind`: length k."""
        ...

    def exact(self, path: Path) -> tuple[pa.Array, pa.Array]:
        """Whether min and max are values that occur: length k, null is unknown."""
        ...

    def blooms(self, path: Path) -> dict[int, Bloom]:
        """Where bloom filters of a column lie, by row group, of 0 to k - 1."""
        ...


def first_of(codes: Ints, n: int) -> Ints:
    """Where each of n codes comes first, shape (n,); -1: nowhere. Negative codes are passed over."""
    out = np.full(n + 1, -1, np.int64)
    out[np.where(codes < 0, n, codes)[::-1]] = np.arange(len(codes))[::-1]
    return out[:n]


def forms_in(parts: Sequence[RowGroupPart]) -> list[FileSchema]:
    """The distinct forms that files have, in the order in which a table comes upon them."""
    first: dict[FileSchema, int] = {}
    for p in parts:
        for form, at in zip(p.forms, first_of(p.form, len(p.forms)).tolist(), strict=True):
            if at >= 0:
                first[form] = min(int(p.files[at]), first.get(form, int(p.files[at])))
    return sorted(first, key=lambda f: first[f])


class RowGroups:
    """All row groups of a table, n of them, in table order.

    Attributes:
        files: The table's files.
        parts: What is known of them.
        schema: The table's columns.
        partitions: Those of them that come from folders' names, or whose values in each folder were given.
        file: The file of each row group, shape (n,).
        group: Its number in the file, shape (n,); -1: the file cannot be read.
        rows, nbytes: Of each, shape (n,); -1 is unknown.
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
        file, group = _whole([p.files[p.owner] for p in parts]), _whole([p.group for p in parts])
        order = np.lexsort((group, file))
        self._order = None if (np.diff(order) == 1).all() else order
        self.file, self.group = file[order], group[order]
        self.rows = _whole([p.rows for p in parts])[order]
        self._made: dict[Path, Raw] = {}

    def __len__(self) -> int:
        return len(self.file)

    @property
    def nbytes(self) -> Ints:
        """Compressed bytes of each row group; -1 is unknown."""
        return self.ordered(_whole([p.nbytes for p in self.parts]))

    def ordered(self, values: Ints) -> Ints:
        """Values of the parts' row groups, one part after another, in table order."""
        return values if self._order is None else values[self._order]

    def is_partition(self, path: Path) -> bool:
        """Whether a column's values come from folders' names, whatever the files hold."""
        return path[0] in self.partitions

    def raw(self, path: Path) -> Raw:
        """Statistics of one column of the files."""
        if path not in self._made:
            kind = type_at(self.schema, path)
            found = [p.raw(path, kind) for p in self.parts]
            self._made[path] = Raw(
                *(self._joined([getattr(r, key) for r in found], t) for key, t in _statistics(kind))
            )
        return self._made[path]

    def _joined(self, arrays: Sequence[pa.Array | None], kind: pa.DataType) -> pa.Array | None:
        kinds = {a.type for a in arrays if a is not None}
        if not kinds:
            return None
        kind = kinds.pop() if len(kinds) == 1 else kind
        chunks = [
            c
            for a, p in zip(arrays, self.parts, strict=True)
            for c in ([pa.nulls(len(p.owner), kind)] if a is None else attempt(a, kind).chunks)
        ]
        joined = chunks[0] if len(chunks) == 1 else pa.chunked_array(chunks, kind).combine_chunks()
        return joined if self._order is None else joined.take(pa.array(self._order))

    def exact(self, path: Path) -> dict[str, pa.Array]:
        """Whether bounds are values that occur."""
        found = [p.exact(path) for p in self.parts]
        low, high = (self._joined([f[side] for f in found], pa.bool_()) for side in (0, 1))
        return {"min_exact": low, "max_exact": high}

    def blooms(self, path: Path) -> dict[int, Bloom]:
        """Where bloom filters of a column lie, by row group."""
        if self.is_partition(path):
            return {}
        starts = np.cumsum([0, *(len(p.owner) for p in self.parts)]).tolist()
        found = {
            start + i: bloom
            for p, start in zip(self.parts, starts, strict=False)
            for i, bloom in p.blooms(path).items()
        }
        if self._order is None or not found:
            return found
        place = np.empty_like(self._order)
        place[self._order] = np.arange(len(place))
        return {int(place[i]): bloom for i, bloom in found.items()}

    def partition(self, field: pa.Field, timezone: str) -> Raw:
        """A partition column's statistics: both bounds at once; NULL is a column of NULLs, whatever the rows."""
        values = (
            values_of(self.files.folders, field, timezone)
            if self._values is None
            else self._values[field.name]
        )
        return constant(values.take(pa.array(self.files.folder[self.file])))


def constant(values: pa.Array) -> Raw:
    """Statistics of containers that hold one value each."""
    nulls = values.is_null().cast(pa.int64())
    ones = pa.repeat(pa.scalar(1, pa.int64()), len(values))
    nans = (
        pc.is_nan(values).fill_null(False).cast(pa.int64())
        if pa.types.is_floating(values.type)
        else None
    )
    return Raw(values, values, nulls, ones, nans)


def _statistics(kind: pa.DataType) -> tuple[tuple[str, pa.DataType], ...]:
    count = pa.int64()
    return (
        ("min", kind),
        ("max", kind),
        ("null_count", count),
        ("row_count", count),
        ("nan_count", count),
    )


def _whole(arrays: Sequence[Ints]) -> Ints:
    return np.concatenate([np.zeros(0, np.int64), *arrays])


class Columns(Mapping[Path, Raw]):
    """Statistics by column, read when a column is first asked for."""

    def __init__(self, groups: RowGroups, timezone: str) -> None:
        self.groups, self._timezone = groups, timezone
        self._leaves = [p for p, leaf in leaves_of(groups.schema).items() if leaf.dtype.ordered]
        self._constants: dict[Path, Raw] = {}

    def __iter__(self) -> Iterator[Path]:
        return iter(self._leaves)

    def __len__(self) -> int:
        return len(self._leaves)

    def __getitem__(self, path: Path) -> Raw:
        if path not in self._leaves:
            raise KeyError(path)
        if not self.groups.is_partition(path):
            return self.groups.raw(path)
        if path not in self._constants:
            self._constants[path] = self.groups.partition(
                self.groups.partitions[path[0]], self._timezone
            )
        return self._constants[path]


class Exactness(Mapping[Path, Mapping[str, pa.Array]]):
    """Column -> {"min_exact", "max_exact"}: bool, a value per row group, null is unknown."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._made: dict[Path, dict[str, pa.Array]] = {}

    def __iter__(self) -> Iterator[Path]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __getitem__(self, path: Path) -> Mapping[str, pa.Array]:
        if path not in self._columns:
            raise KeyError(path)
        if path not in self._made:
            groups = self._columns.groups
            # A folder's value occurs where there is a row.
            occurs = pa.array(groups.rows > 0, mask=groups.rows < 0)
            self._made[path] = (
                {"min_exact": occurs, "max_exact": occurs}
                if groups.is_partition(path)
                else groups.exact(path)
            )
        return self._made[path]
