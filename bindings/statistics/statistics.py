"""`Statistics`: min, max, null count and row count of n containers, and the ways to make them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skipstone.bindings import hooks
from skipstone.bindings.progress import Track, overriding
from skipstone.bindings.statistics.coerce_inputs import common_length, leaf_named, row_count_of
from skipstone.bindings.statistics.from_host import (
    checked_leaves,
    read_dict,
    read_provider,
    split_table,
)
from skipstone.bindings.statistics.membership import values_and_blooms_of
from skipstone.bindings.statistics.packing import PackableStatistics
from skipstone.bindings.statistics.protocols import PruningStatistics as PruningStatistics
from skipstone.ir.errors import counted
from skipstone.ir.node import Path
from skipstone.ir.types import DType
from skipstone.kernels.pack.columns import Column
from skipstone.kernels.pack.planes import Plane
from skipstone.kernels.settings import ProgressSetting

if TYPE_CHECKING:
    import pyarrow.fs as pafs

    from skipstone.kernels.gpu.device import Device
    from skipstone.kernels.index.index import Blocking


class Statistics(PackableStatistics):
    """Min, max, null count and row count of the columns of n containers: a zone map.

    A container is anything that has statistics: a file, a row group, a page, a partition. Any
    statistic may be missing; a missing statistic rules nothing out, so it never prunes.

    Make statistics with `from_dict`, `from_arrow`, `from_provider` or `from_device`, or take those
    of a table, and judge them with a `PruningPredicate`. Statistics are immutable. A column is
    packed for kernels when a predicate first reads it, and launches are kept per predicate, so
    repeated predicates on one object are fast. Threads may share an object.

    Example:
        >>> import pyarrow as pa
        >>> schema = pa.schema([("x", pa.int64())])
        >>> Statistics.from_dict({"x": {"min": [0, 5], "max": [4, None]}}, schema)
        Statistics(2 containers, columns: x)
    """

    # Construction.

    @classmethod
    def from_dict(
        cls, columns: Mapping[str, Mapping[str, Any]], schema: pa.Schema, row_count: Any = None
    ) -> Statistics:
        """Make statistics from lists, NumPy or Arrow arrays of one length.

        Args:
            columns: By column name, any of these statistics. None in a list means unknown, and so
                does a value that is not of the column's type.

                - "min", "max": bounds of the values, without NULL and NaN.
                - "null_count": the number of NULLs.
                - "row_count": the number of values of the column, including NULL and NaN.
                - "nan_count": the number of NaNs.
                - "min_exact", "max_exact": True if the bound is a value that occurs.
                - "values": lists of all values that occur except NULL; NaN must be listed as well.
                - "bloom": bitsets of Parquet split-block filters over values of this type, bytes.
            schema: The table's columns.
            row_count: Rows of each container.

        Returns:
            Statistics in host memory. Arrow arrays and read-only NumPy arrays are used in place,
            and must not change while the statistics are used. A writable NumPy array is copied;
            `array.setflags(write=False)` saves the copy.

        Raises:
            UnknownColumn: the schema lacks a column.
            StatisticsError: a key is unknown, lengths differ, or an array cannot be read.

        Example:
            >>> schema = pa.schema([("x", pa.int64())])
            >>> stats = Statistics.from_dict({"x": {"null_count": [0, None]}}, schema, [10, 0])
            >>> stats.num_containers
            2
        """
        leaves = checked_leaves(schema)
        lengths: dict[str, int] = {}
        rows = None
        if row_count is not None:
            rows = row_count_of(row_count)
            lengths["row_count"] = len(rows)
        raws, extras = read_dict(columns, schema, leaves, lengths)
        members = values_and_blooms_of(extras, leaves)
        return cls(
            schema, common_length(lengths), raws, row_count=rows, extras=extras, members=members
        )

    @classmethod
    def from_arrow(cls, table: pa.Table | pa.RecordBatch, schema: pa.Schema) -> Statistics:
        """Make statistics from a table with one row per container.

        Args:
            table: Columns `x.min`, `x.max`, `a.b.null_count`, ...: the last part names the
                statistic, one of the keys of `from_dict`. The column `row_count` holds the rows of
                each container. Other columns are ignored.
            schema: The table's columns.

        Raises:
            UnknownColumn: a statistic belongs to a column that the schema lacks.
            StatisticsError: the table has no statistics, or one of them cannot be read.

        Example:
            >>> schema = pa.schema([("x", pa.int64())])
            >>> Statistics.from_arrow(pa.table({"x.min": [1, 2], "row_count": [10, 10]}), schema)
            Statistics(2 containers, columns: x)
        """
        columns, row_count = split_table(table)
        return cls.from_dict(columns, schema, row_count)

    @classmethod
    def from_provider(
        cls, provider: PruningStatistics, schema: pa.Schema, columns: Iterable[str]
    ) -> Statistics:
        """Make statistics from a provider; each of its methods is called once per column.

        The provider is kept: predicates with `=` and IN call its method `contained`.

        Args:
            provider: An object with the methods of `PruningStatistics`.
            schema: The table's columns.
            columns: The columns to request, usually `predicate.columns`.

        Raises:
            UnknownColumn: the schema lacks a column.
            StatisticsError: an answer has another length than `num_containers`, or cannot be read.
        """
        raws = read_provider(provider, schema, checked_leaves(schema), columns)
        contained = getattr(provider, "contained", None)
        return cls(schema, provider.num_containers, raws, contained=contained)

    @classmethod
    def from_device(
        cls,
        columns: Any,
        schema: pa.Schema,
        row_count: Any = None,
        device: int | Device | None = None,
    ) -> Statistics:
        """Make statistics from arrays that are already on a GPU.

        Bounds are judged in place, without a copy, if they are numbers, dates or timestamps of the
        column's own type. If some of them are null, NaN or inverted, a repaired copy is made on the
        device. Everything else is downloaded once: counts (kept as one or two bits per container),
        bounds of another type, strings and decimals. Bounds are downloaded too when a feature needs
        them on the host: a CPU backend, `index`, `explain`, `save`, a pickle.

        "auto" runs on the device whenever a predicate reads bounds that are there, however few the
        containers, and waits for the device's compiler.

        Args:
            columns: By column, as in `from_dict`; or a frame with columns `x.min`, `x.max`,
                `x.null_count`, ... as in `from_arrow`: one of cuDF, or an Arrow record batch of a
                device. An array is any object with `__cuda_array_interface__` (masks included),
                `__arrow_c_device_array__` or DLPack, such as those of CuPy, PyTorch, Numba and
                pylibcudf; or an array in host memory. Arrays must not change while the statistics
                are used.
            schema: The table's columns.
            row_count: Rows of each container, if the frame does not have them.
            device: The device that holds the arrays; None means CuPy's current device.

        Returns:
            Statistics on the device, as `to_device` returns them.

        Raises:
            UnknownColumn: a statistic belongs to a column that the schema lacks.
            StatisticsError: lengths differ, or an array is not one-dimensional and contiguous.
            BackendMissing, DeviceError: as for `to_device`.

        Example:
            >>> frame = cudf.DataFrame({"x.min": [1, 5], "x.max": [4, 9]})  # doctest: +SKIP
            >>> Statistics.from_device(frame, pa.schema([("x", pa.int64())]))  # doctest: +SKIP
            Statistics(2 containers, columns: x; on NVIDIA H100 80GB HBM3 (device 0))
        """
        from skipstone.bindings.statistics.from_device import from_device

        return from_device(columns, schema, row_count, device)

    def index(
        self,
        block: Blocking = None,
        order_by: str | Sequence[str] | None = None,
        *,
        progress: ProgressSetting = None,
    ) -> Statistics:
        """Return the same statistics with an index, so that selective predicates judge less.

        The index puts levels of blocks above the containers. A predicate judges blocks first, and
        the containers of a block only if the block's verdict is MAYBE. Verdicts stay the same, in
        the same order.

        Args:
            block: Containers per block; None means 512. Or the ends of natural blocks (the row
                groups of files, the files of partitions): int64 of shape (blocks,), ascending up to
                n. Or several such arrays, finest first, each grouping the blocks of the one before.
                Further levels are added on top as needed.
            order_by: A column, or several, for tables in no useful order. A copy of the statistics
                is sorted by it; for several columns, a Hilbert curve keeps similar containers close
                together. The copy takes as many bytes as the statistics, and 4 more for each
                container.
            progress: As `skipstone.config.progress`, for this call.

        Returns:
            New statistics. The levels of all columns that have statistics are built now, in host
            memory: with blocks of 512 containers they take 1/500 of the bytes. Coarse codes take 4
            bytes for each container and column.

        Raises:
            StatisticsError: the blocks do not cover the containers.
            UnknownColumn: the schema lacks a column of `order_by`.

        Source: small materialized aggregates, Moerkotte, VLDB 1998; Hilbert order as in Delta Lake.

        Example:
            >>> schema = pa.schema([("x", pa.int64())])
            >>> bounds = {"min": range(10_000), "max": range(1, 10_001)}
            >>> Statistics.from_dict({"x": bounds}, schema).index()
            Statistics(10,000 containers, columns: x; levels of 20)
        """
        from skipstone.kernels.index.index import blocks_of, build

        keys = [
            (path, leaf.dtype) for path in self._raw if (leaf := self._leaves.get(path)) is not None
        ]
        several = isinstance(order_by, Iterable | None) and not isinstance(order_by, str | bytes)
        names: list[Any] = list(order_by or ()) if several else [order_by]
        by = [leaf_named(name, self._leaves, "order_by") for name in names]
        order = [(leaf.path, leaf.dtype) for leaf in by]
        with overriding(progress), Track("index", len(keys), "columns") as track:
            return self.with_index(build(self, blocks_of(block, self._n), keys, order, track.step))

    # Files.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write statistics with their packed columns and index to a file that `load` maps.

        The file holds the statistics as given and what was packed of each column, in its own type:
        together at most two or three times the bytes of the statistics, and less where arrays need
        no packing. Arrays stream into the file. A column that was not packed before is packed,
        written and dropped, so there is never a copy of everything. NumPy memory maps that
        `from_dict` was given are read once or twice, and may be larger than memory.

        The file does not hold a provider's `contained`, nor bloom filters from Parquet files.
        Without them, loaded statistics prune less.

        Args:
            path: The file. An existing file is replaced atomically when the new one is complete and
                on disk; programs that have opened the old file keep it. If writing fails, the old
                file stays and no temporary file is left.

        Raises:
            OSError: the file cannot be written.

        Example:
            >>> import tempfile
            >>> schema = pa.schema([("x", pa.int64())])
            >>> bounds = {"min": range(10_000), "max": range(1, 10_001)}
            >>> stats = Statistics.from_dict({"x": bounds}, schema).index()
            >>> path = tempfile.mkdtemp() + "/x.stats"
            >>> stats.save(path)
            >>> Statistics.load(path)
            Statistics(10,000 containers, columns: x; levels of 20)
        """
        from skipstone.bindings.arguments import checked_path
        from skipstone.bindings.statistics.store.write import save

        save(self, checked_path("path", path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Statistics:
        """Load statistics that `save` wrote, with their index, from a memory map.

        Loading reads only the footer. Each part of the file has checksums, which are verified when
        the part is first read. A damaged part raises `StatisticsError` from the call that reads it;
        it never leads to an answer.

        Args:
            path: The file. It may be replaced while it is open, as `save` does. It must not be
                changed or truncated in place: that ends the process, or goes unnoticed in parts
                that were read before.

        Returns:
            The statistics as saved. Nothing is packed again and no array is copied. A pickle of
            them holds the values and does not need the file; to share the file between processes,
            load it in each.

        Raises:
            StatisticsError: the file does not exist, does not hold statistics, is torn, truncated
                or of another version.

        Example:
            >>> Statistics.load("/no/such/file")
            Traceback (most recent call last):
            ...
            skipstone.ir.errors.StatisticsError: /no/such/file: cannot be opened
            (No such file or directory); name a file that Statistics.save wrote
        """
        from skipstone.bindings.arguments import checked_path
        from skipstone.bindings.statistics.store.load import load

        return load(checked_path("path", path))

    def save_shards(
        self,
        where: str | os.PathLike[str],
        rows: int = 1 << 20,
        *,
        order_by: str | Sequence[str] | None = None,
        about: pa.Table | None = None,
        filesystem: pafs.FileSystem | None = None,
    ) -> None:
        """Write statistics as shards; `Shards.open` and Spark's executors open only those needed.

        A shard is a file of `rows` neighbouring containers with an index; `load` could open it. A
        manifest is written last. It names a file with one container per shard, which settles most
        shards unopened if containers are clustered.

        The old shards stay valid until the manifest is replaced. An interrupted save leaves them,
        and unused files that the next save removes. Do not run two saves to one folder at once: if
        they overlap, one raises an error, or the one that ends last wins. Like `save`, this does
        not keep a provider's `contained`, nor bloom filters from Parquet files.

        Args:
            where: A folder, by path or URI; it is created if needed. Its shards are replaced. Their
                files stay until the save after this one, for programs that have opened them. Files
                of other names are left alone.
            rows: Containers per shard.
            order_by: As in `index`, within each shard.
            about: A table of n rows that describes the containers, such as by their paths.
                `Shards.table` and `skipstone.spark.prune_shards` return its rows for the containers
                to keep.
            filesystem: Any pyarrow file system.

        Raises:
            StatisticsError: `rows` or `about` do not fit, or another save ended meanwhile.
            OSError: a file cannot be written.

        Example:
            >>> import tempfile
            >>> schema = pa.schema([("x", pa.int64())])
            >>> stats = Statistics.from_dict({"x": {"min": [0, 5], "max": [4, 9]}}, schema)
            >>> paths = pa.table({"path": ["a.parquet", "b.parquet"]})
            >>> stats.save_shards(tempfile.mkdtemp(), rows=1, about=paths)
        """
        hooks.call("save shards", self, where, rows, order_by, about, filesystem)

    def of_partitions(self, names: Iterable[str]) -> Statistics:
        """Return statistics of the partition columns `names` alone; other columns are unknown."""
        return StatisticsOfColumns(self, names)

    def of_bounds(self) -> Statistics:
        """Return the same statistics without value lists, bloom filters and provider's answers."""
        return StatisticsOfColumns(self, {path[0] for path in self._leaves}, rows=True)

    def _repr_html_(self) -> str | None:
        return hooks.html("HTML of statistics", self)

    def __repr__(self) -> str:
        names = ", ".join(self.columns[:6]) + (", ..." if len(self._raw) > 6 else "")
        levels = (
            f"; levels of {', '.join(str(x.num_containers) for x in self._index.levels) or 'none'}"
            if self._index
            else ""
        )
        where = "" if self.device is None else f"; on {self.device}"
        size = counted(self._n, "containers")
        return f"Statistics({size}, columns: {names or 'none'}{levels}{where})"


class StatisticsOfColumns(Statistics):
    """A view of some columns of other statistics, which pack them; other columns are unknown."""

    def __init__(self, source: Statistics, names: Iterable[str], *, rows: bool = False) -> None:
        super().__init__(source.schema, source.num_containers, {})
        self._names, self._source, self._has_rows = frozenset(names), source, rows

    def pack(self, path: Path, dtype: DType) -> Column:
        """Pack a column of the view by its source; any other column is unknown."""
        if path[0] in self._names:
            return self._source.column(path, dtype)
        return super().pack(path, dtype)

    def pack_rows(self) -> Plane:
        """Pack the flag "may hold rows", if the view has the source's row counts."""
        return self._source.rows_plane() if self._has_rows else super().pack_rows()
