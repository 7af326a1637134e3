"""Statistics of n containers: what they are made from, and what kernels see of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from skipstone.bindings import hooks
from skipstone.bindings.statistics.coerce_inputs import (
    KEYS,
    PACKED,
    array_of,
    common_length,
    leaf_named,
    row_count_of,
)
from skipstone.bindings.statistics.device import OnDevice
from skipstone.bindings.statistics.membership import Members, agree
from skipstone.ir.errors import StatisticsError
from skipstone.ir.node import Path, show_path
from skipstone.ir.types import DType, Leaf, leaves_of, to_python, whole
from skipstone.kernels.gpu.device import Device
from skipstone.kernels.index.index import Blocking, Index, blocks_of, build
from skipstone.kernels.pack.bounds import Given
from skipstone.kernels.pack.columns import Column, Raw, pack_column
from skipstone.kernels.pack.counts import rows_plane
from skipstone.kernels.pack.planes import Plane

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow.fs as pafs


@runtime_checkable
class PruningStatistics(Protocol):
    """What a provider of statistics answers, per column, for its n containers.

    Each method returns an Arrow array of length n in which null is unknown, or None when nothing is
    known of the column. Columns are named as in SQL: `a.b` for a struct's field.

    Source: DataFusion, `PruningStatistics`.
    """

    num_containers: int

    def min_values(self, column: str) -> pa.Array | None:
        """Lower bounds: no value of the column, NULL and NaN aside, lies below."""

    def max_values(self, column: str) -> pa.Array | None:
        """Upper bounds: no value of the column, NULL and NaN aside, lies above."""

    def null_counts(self, column: str) -> pa.Array | None:
        """How many NULLs."""

    def row_counts(self, column: str) -> pa.Array | None:
        """How many values, NULL and NaN included."""

    def contained(self, column: str, values: frozenset[object]) -> pa.BooleanArray | None:
        """true: the column holds only these values (or NULL); false: none of them; null: unknown."""


class Contains(Protocol):
    """Value lists and bloom filters, as `Statistics` asks them."""

    def contained(
        self, path: Path, values: tuple[object, ...], dtype: DType
    ) -> pa.BooleanArray | None:
        """As in `PruningStatistics`, for axis values of `dtype`."""


class Statistics(OnDevice):
    """Min, max, null count, row count of the columns of n containers.

    Immutable. Columns are packed at first use, and launches are kept per predicate, so one object
    that is asked many times answers fast. Safe to share between threads.

    Example:
        >>> import pyarrow as pa
        >>> schema = pa.schema([("x", pa.int64())])
        >>> Statistics.from_dict({"x": {"min": [0, 5], "max": [4, None]}}, schema)
        Statistics(2 containers, columns: x)
    """

    def __init__(
        self,
        schema: pa.Schema,
        num_containers: int,
        columns: Mapping[Path, Raw],
        *,
        row_count: Given | Callable[[], pa.Array] | None = None,
        extras: Mapping[Path, Mapping[str, pa.Array]] | None = None,
        contained: Callable[[str, frozenset[object]], pa.BooleanArray | None] | None = None,
        members: Contains | None = None,
        counts_parents: bool = False,
    ) -> None:
        self._schema, self._n = schema, num_containers
        self._raw, self._rows = columns, row_count
        self._extras: Mapping[Path, Mapping[str, pa.Array]] = extras or {}
        self._contained, self._members = contained, members
        # Whether a struct field's null count includes the rows whose struct is NULL. Parquet's does,
        # Iceberg's need not; where it is not certain, such a field may hold NULL.
        self._counts_parents = counts_parents
        self._leaves = leaves_of(schema)
        self._index: Index | None = None
        super().__init__()

    # Construction.

    @classmethod
    def from_dict(
        cls, columns: Mapping[str, Mapping[str, Any]], schema: pa.Schema, row_count: Any = None
    ) -> Statistics:
        """Statistics from lists, NumPy or Arrow arrays of one length.

        Args:
            columns: Per column any of "min", "max", "null_count", "row_count" (its values, NULL and NaN
                included), "nan_count", "min_exact", "max_exact" (whether a bound is a value that occurs),
                "values" (lists: all values that occur besides NULL, so NaN too), "bloom" (the bitsets
                of Parquet split-block filters over values of this type, bytes). None in a list is
                unknown; so is a value that is not one of the column's type.
            schema: The table's columns.
            row_count: Rows of each container.

        Arrow arrays and read-only NumPy arrays are used where they lie, and must not change while
        the statistics are used; `array.setflags(write=False)` saves the copy that is made of a
        NumPy array that may be written to.

        Raises:
            UnknownColumn: a column that the schema lacks.
            StatisticsError: an unknown key, or unequal lengths.

        Example:
            >>> schema = pa.schema([("x", pa.int64())])
            >>> Statistics.from_dict({"x": {"null_count": [0, None]}}, schema, row_count=[10, 0]).num_containers
            2
        """
        leaves = leaves_of(schema)
        raws: dict[Path, Raw] = {}
        extras: dict[Path, dict[str, pa.Array]] = {}
        lengths: dict[str, int] = {}
        rows = None
        if row_count is not None:
            rows = row_count_of(row_count)
            lengths["row_count"] = len(rows)
        for name, given in columns.items():
            leaf = leaf_named(name, leaves)
            if unknown := set(given) - set(KEYS):
                raise StatisticsError(
                    f"column {name!r} has a statistic {min(unknown)!r}; expected some of {', '.join(KEYS)}"
                )
            arrays = {
                key: array_of(key, value, schema, leaf)
                for key, value in given.items()
                if value is not None
            }
            lengths.update({f"{name}.{key}": len(a) for key, a in arrays.items()})
            raws[leaf.path] = Raw(*(arrays.get(k) for k in PACKED))
            extras[leaf.path] = {k: a for k, a in arrays.items() if k not in PACKED}
        asked = any("values" in e or "bloom" in e for e in extras.values())
        members = Members(extras, {p: leaf.dtype for p, leaf in leaves.items()}) if asked else None
        return cls(
            schema, common_length(lengths), raws, row_count=rows, extras=extras, members=members
        )

    @classmethod
    def from_arrow(cls, table: pa.Table | pa.RecordBatch, schema: pa.Schema) -> Statistics:
        """Statistics from a table with one row per container.

        Args:
            table: Columns `x.min`, `x.max`, `a.b.null_count`, ...: the last part names the statistic.
                A column `row_count` counts the rows of the container. Other columns are passed over.
            schema: The table's columns.

        Raises:
            UnknownColumn: a statistic of a column that the schema lacks.

        Example:
            >>> schema = pa.schema([("x", pa.int64())])
            >>> Statistics.from_arrow(pa.table({"x.min": [1, 2], "row_count": [10, 10]}), schema)
            Statistics(2 containers, columns: x)
        """
        columns: dict[str, dict[str, Any]] = {}
        row_count = None
        for name in table.column_names:
            column, dot, key = name.rpartition(".")
            if name == "row_count":
                row_count = table.column(name)
            elif dot and key in KEYS:
                columns.setdefault(column, {})[key] = table.column(name)
        if row_count is None and not columns:
            raise StatisticsError(
                f"the table has columns {', '.join(table.column_names) or 'none'}; expected names such as 'x.min', or 'row_count'"
            )
        return cls.from_dict(columns, schema, row_count)

    @classmethod
    def from_provider(
        cls, provider: PruningStatistics, schema: pa.Schema, columns: Iterable[str]
    ) -> Statistics:
        """Statistics that a provider is asked for, once per column; it is kept, to be asked what is `contained`.

        Args:
            provider: Anything with the methods of `PruningStatistics`.
            schema: The table's columns.
            columns: Those to ask for, usually `predicate.columns`.

        Raises:
            StatisticsError: an answer has another length than `num_containers`.
        """
        leaves = leaves_of(schema)
        n = provider.num_containers
        raws = {}
        for name in columns:
            leaf = leaf_named(name, leaves)
            asked = (
                provider.min_values,
                provider.max_values,
                provider.null_counts,
                provider.row_counts,
            )
            answers = [
                None if (a := ask(name)) is None else array_of(word, a, schema, leaf)
                for word, ask in zip(KEYS, asked, strict=False)
            ]
            for word, a in zip(KEYS, answers, strict=False):
                if a is not None and len(a) != n:
                    raise StatisticsError(
                        f"the provider gave {len(a)} values of {name}.{word}; expected {n}, its num_containers"
                    )
            raws[leaf.path] = Raw(*answers)
        return cls(schema, n, raws, contained=getattr(provider, "contained", None))

    @classmethod
    def from_device(
        cls,
        columns: Any,
        schema: pa.Schema,
        row_count: Any = None,
        device: int | Device | None = None,
    ) -> Statistics:
        """Statistics from arrays that lie on a GPU already.

        Numbers, dates and timestamps of the column's own type are judged where they lie, without a copy; where some of them
        are null, NaN or inverted, a copy is mended on the device. All else comes to the host once, which is counts (a bit or
        two of each container is kept of them), bounds of another type, strings and decimals. So do bounds, where something
        asks for them there: a backend of the CPU, `index`, `explain`, `save`, a pickle. "auto" asks the device wherever
        bounds are read that lie there, however few the containers, and waits for its compiler.

        Args:
            columns: Per column as in `from_dict`; or a frame with columns `x.min`, `x.max`, `x.null_count`, ... as in
                `from_arrow`: one of cuDF, or an Arrow record batch of a device. Arrays are anything with
                `__cuda_array_interface__` (masks included), `__arrow_c_device_array__`, or DLPack: of CuPy, PyTorch, Numba,
                pylibcudf, ...; or in host memory. They must not change while the statistics are used.
            schema: The table's columns.
            row_count: Rows of each container, if the frame does not have them.
            device: Where the arrays lie; None: CuPy's current device.

        Returns:
            Statistics as those of `to_device`.

        Raises:
            UnknownColumn: a statistic of a column that the schema lacks.
            StatisticsError: unequal lengths, or an array that is not one of values one after the other.
            BackendMissing, DeviceError: as for `to_device`.

        Example:
            >>> frame = cudf.DataFrame({"x.min": [1, 5], "x.max": [4, 9]})  # doctest: +SKIP
            >>> Statistics.from_device(frame, pa.schema([("x", pa.int64())]))  # doctest: +SKIP
            Statistics(2 containers, columns: x; on NVIDIA H100 80GB HBM3 (device 0))
        """
        from skipstone.bindings.statistics.foreign import from_device

        return from_device(columns, schema, row_count, device)

    def index(
        self, block: Blocking = None, order_by: str | Sequence[str] | None = None
    ) -> Statistics:
        """The same statistics with levels above the containers, so that a predicate costs what it finds.

        Blocks of containers are judged first, and containers only where their block may go either way.
        Answers are the same, at their own places.

        Args:
            block: Containers per block, 512 unless told; or where natural blocks end (the row groups of
                files, the files of partitions): int64 of shape (blocks,), ascending up to n; or several of
                these, finest first, each over the one before. More levels are put above as needed.
            order_by: For tables in no order: a column by which a copy of the statistics is sorted, or several,
                which a Hilbert curve keeps near each other. Takes their bytes once more, and 4 for each container.

        Returns:
            New statistics. Levels of the columns that have statistics are built now, host memory: of
            512 containers, 1/500 of the bytes; coarse codes take 4 bytes for each container and column.

        Raises:
            StatisticsError: blocks that do not cover the containers.
            UnknownColumn: the schema lacks a column.

        Source: small materialized aggregates, Moerkotte, VLDB 1998; Hilbert order as in Delta Lake.

        Example:
            >>> schema = pa.schema([("x", pa.int64())])
            >>> stats = Statistics.from_dict({"x": {"min": range(10_000), "max": range(1, 10_001)}}, schema)
            >>> stats.index()
            Statistics(10000 containers, columns: x; levels of 20)
        """
        keys = [
            (path, leaf.dtype) for path in self._raw if (leaf := self._leaves.get(path)) is not None
        ]
        names = [order_by] if isinstance(order_by, str) else list(order_by or ())
        by = [leaf_named(name, self._leaves, "order_by") for name in names]
        return self.under(
            build(self, blocks_of(block, self._n), keys, [(leaf.path, leaf.dtype) for leaf in by])
        )

    def under(self, index: Index) -> Statistics:
        """The same statistics with levels that were built over them."""
        out = self.sharing()
        out._index = index
        return out if self._resident is None else out.on(self._resident)

    # Files.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write statistics, packed and with their index, to a file that `load` opens at once.

        What was packed of each column, in its own type, is kept with the statistics as they came: two or three times
        the bytes of these at most, and less where arrays need no packing. Arrays stream into the file; a column that
        was not packed before is packed, written and dropped, so a copy of everything is never made. NumPy memory maps
        that `from_dict` was given are read once or twice, and may be larger than memory.

        A provider's `contained`, and bloom filters in Parquet files, are not kept: without them less is pruned.

        Args:
            path: The file. One of that name is replaced at once when the new one is whole and on disk; who has the
                old one open keeps it. If writing fails it stays, and nothing is left behind.

        Raises:
            OSError: the file cannot be written.

        Example:
            >>> import tempfile
            >>> schema = pa.schema([("x", pa.int64())])
            >>> stats = Statistics.from_dict({"x": {"min": range(10_000), "max": range(1, 10_001)}}, schema).index()
            >>> path = tempfile.mkdtemp() + "/x.stats"
            >>> stats.save(path)
            >>> Statistics.load(path)
            Statistics(10000 containers, columns: x; levels of 20)
        """
        from skipstone.bindings.statistics.store.write import save

        save(self, os.fspath(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Statistics:
        """Statistics that `save` wrote, index included, read in place from a memory map.

        Opening reads the footer alone. Every part has checksums, which are compared when it is first read: a file that
        is damaged there raises `StatisticsError` then, from whatever call reads it, and never gives an answer.

        Args:
            path: The file. It may be replaced while it is open, as `save` does, but must not be changed or cut short
                in place: that ends the process, or goes unnoticed where it was read before.

        Returns:
            The same as before saving; nothing is packed again and no array is copied. Pickled they are values, which
            do not need the file: to share it, load it in each process.

        Raises:
            StatisticsError: there is no such file, or it is none of these, torn, truncated, or of another version.

        Example:
            >>> Statistics.load("/no/such/file")
            Traceback (most recent call last):
            ...
            skipstone.ir.errors.StatisticsError: /no/such/file: cannot be opened (No such file or directory); name a file that Statistics.save wrote
        """
        from skipstone.bindings.statistics.store.read import load

        return load(os.fspath(path))

    def save_shards(
        self,
        where: str | os.PathLike[str],
        rows: int = 1 << 20,
        *,
        order_by: str | Sequence[str] | None = None,
        about: pa.Table | None = None,
        filesystem: pafs.FileSystem | None = None,
    ) -> None:
        """Write statistics as shards, of which `Shards.open` and Spark's executors open only those that a predicate needs.

        Each shard is a file that `load` could open, with an index, of so many neighbouring containers. A manifest, written
        last, and a level above the shards settle most of them unopened where containers are clustered. What is there
        stays until the manifest is: who is interrupted leaves it, and files that the next save removes. Saves to one
        folder must follow each other; of two at once, one raises or the last to end counts.

        Args:
            where: A folder, by path or URI; it is made. Its shards are replaced. The files of those stay until the save
                after this one, for programs that have opened them; files of other names are left alone.
            rows: Containers in a shard.
            order_by: As in `index`, within each shard.
            about: What the containers are, such as their paths: a table of n rows. `Shards.table` and
                `skipstone.spark.prune_shards` return its rows of those that are to be kept.
            filesystem: Any of pyarrow's.

        Raises:
            StatisticsError: `rows` or `about` do not fit, or another save ended meanwhile.
            OSError: a file cannot be written.

        What `save` does not keep, this does not either.

        Example:
            >>> import tempfile
            >>> schema = pa.schema([("x", pa.int64())])
            >>> stats = Statistics.from_dict({"x": {"min": [0, 5], "max": [4, 9]}}, schema)
            >>> stats.save_shards(tempfile.mkdtemp(), rows=1, about=pa.table({"path": ["a.parquet", "b.parquet"]}))
        """
        hooks.call("save shards", self, where, rows, order_by, about, filesystem)

    # What is known.

    @property
    def schema(self) -> pa.Schema:
        """The table's columns."""
        return self._schema

    @property
    def num_containers(self) -> int:
        """How many containers there are."""
        return self._n

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that have some statistic, as SQL names them."""
        return tuple(show_path(p) for p in self._raw)

    @property
    def row_count(self) -> pa.Array | None:
        """Rows of each container, int64; null is unknown."""
        rows = self._given_rows()
        return None if rows is None else whole(rows)

    def _given_rows(self) -> Given | None:
        return self._rows() if callable(self._rows) else self._rows

    @property
    def nbytes(self) -> int:
        """Bytes of the packed columns made so far, and of levels and codes above them, host memory."""
        return super().nbytes + (0 if self._index is None else self._index.nbytes)

    @property
    def counts_parents(self) -> bool:
        """Whether the null count of a struct's field includes the rows whose struct is NULL."""
        return self._counts_parents

    def get(self, column: str, statistic: str) -> pa.Array | None:
        """One statistic of one column as it came, but in one chunk: length n, null is unknown. None: nothing is known.

        Raises:
            UnknownColumn: the schema lacks the column.
            StatisticsError: no statistic has that name.
        """
        if statistic not in KEYS:
            raise StatisticsError(
                f"no statistic is named {statistic!r}; expected one of {', '.join(KEYS)}"
            )
        path = leaf_named(column, self._leaves).path
        raw = self._raw.get(path)
        if statistic in PACKED:
            found = getattr(raw, statistic, None)
            return None if found is None else whole(found)
        return self._extras.get(path, {}).get(statistic)

    def to_arrow(self) -> pa.Table:
        """The statistics as `from_arrow` takes them: `x.min`, `x.max`, `x.null_count`, ... of each column, and `row_count`; null is unknown.

        Exactness of bounds, value lists, bloom filters and a provider's answers are left out.

        Example:
            >>> schema = pa.schema([("x", pa.int64())])
            >>> Statistics.from_dict({"x": {"min": [1, 2]}}, schema, row_count=[10, 10]).to_arrow().column_names
            ['x.min', 'row_count']
        """
        columns: dict[str, Given] = {}
        for path in self.leaf_paths():
            raw = self.raw(path)
            columns |= {
                f"{show_path(path)}.{key}": array
                for key in PACKED
                if (array := getattr(raw, key)) is not None
            }
        rows = self._given_rows()
        return pa.table(columns if rows is None else {**columns, "row_count": rows})

    def leaf_paths(self) -> tuple[Path, ...]:
        """The columns that have some statistic."""
        return tuple(self._raw)

    def extra_paths(self) -> tuple[Path, ...]:
        """The columns that may have exactness of bounds, value lists or bloom filters."""
        return tuple(self._extras)

    def extras(self, path: Path) -> Mapping[str, pa.Array]:
        """Exactness of bounds, value lists and bloom filters of a column, as they came."""
        return self._extras.get(path, {})

    def leaf(self, path: Path) -> Leaf | None:
        """The schema's entry for a column."""
        return self._leaves.get(path)

    def raw(self, path: Path) -> Raw:
        """All statistics of one column as they came."""
        return self._raw[path] if path in self._raw else Raw()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_rows": self._given_rows()}

    def __len__(self) -> int:
        return self._n

    def __repr__(self) -> str:
        names = ", ".join(self.columns[:6]) + (", ..." if len(self._raw) > 6 else "")
        levels = (
            f"; levels of {', '.join(str(level.num_containers) for level in self._index.levels) or 'none'}"
            if self._index
            else ""
        )
        where = "" if self.device is None else f"; on {self.device}"
        return f"Statistics({self._n} containers, columns: {names or 'none'}{levels}{where})"

    # What kernels ask (kernels/pack/packed.py).

    @property
    def levels(self) -> Index | None:
        """The levels above the containers, if there are any."""
        return self._index

    @property
    def has_members(self) -> bool:
        """Whether `contained_in` may have an answer."""
        return self._contained is not None or self._members is not None

    def pack(self, path: Path, dtype: DType) -> Column:
        """Packed statistics of a column whose bounds are read as `dtype`."""
        leaf = self._leaves.get(path)
        return self.packed(
            path,
            dtype,
            self._raw.get(path)
            or (self._of_fields(path) if leaf is not None and leaf.struct else Raw()),
        )

    def packed(self, path: Path, dtype: DType, raw: Raw) -> Column:
        """The same of statistics as they came."""
        leaf = self._leaves.get(path)
        nullable = leaf.nullable if leaf is not None else True
        struct = self._leaves.get(path[:-1])  # None where the predicate's schema has more columns
        above = len(path) > 1 and not self._counts_parents and (struct is None or struct.nullable)
        return pack_column(
            raw, dtype, self._n, nullable=nullable, above=above, rows=self._given_rows()
        )

    def of_partitions(self, names: Iterable[str]) -> Statistics:
        """What partition columns alone tell."""
        return OfColumns(self, names)

    def _of_fields(self, path: Path) -> Raw:
        """What fields tell of their struct: where one has no NULL, and its count includes the struct's, neither has the struct."""
        none = None
        for p in self._leaves if self._counts_parents else ():
            found = self._raw.get(p) if len(p) > len(path) and p[: len(path)] == path else None
            if found is not None and found.null_count is not None:
                without = pc.equal(found.null_count, 0).fill_null(False)
                none = without if none is None else pc.or_(none, without)
        return (
            Raw()
            if none is None
            else Raw(null_count=pc.if_else(none, pa.scalar(0, pa.int64()), None))
        )

    def pack_rows(self) -> Plane:
        """Whether each container may hold rows."""
        return rows_plane(self._given_rows(), self._n)

    def contained_in(
        self, path: Path, values: tuple[object, ...], dtype: DType
    ) -> pa.BooleanArray | None:
        """What value lists, bloom filters and the provider say of a set of axis values, joined."""
        known = None if self._members is None else self._members.contained(path, values, dtype)
        return agree(known, self._answer(path, values, dtype))

    def _answer(
        self, path: Path, values: tuple[object, ...], dtype: DType
    ) -> pa.BooleanArray | None:
        if self._contained is None:
            return None
        answer = self._contained(show_path(path), frozenset(to_python(v, dtype) for v in values))
        if answer is None:
            return None
        if len(answer) != self._n:
            raise StatisticsError(
                f"contained({show_path(path)!r}) gave {len(answer)} values; expected {self._n}, the provider's num_containers"
            )
        return whole(answer).cast(pa.bool_())


class OfColumns(Statistics):
    """What some columns of other statistics tell, which are packed there."""

    def __init__(self, of: Statistics, names: Iterable[str]) -> None:
        super().__init__(of.schema, of.num_containers, {})
        self._names, self._of = frozenset(names), of

    def pack(self, path: Path, dtype: DType) -> Column:
        """Packed statistics of a column: unknown, unless it is one of them."""
        return self._of.column(path, dtype) if path[0] in self._names else super().pack(path, dtype)
