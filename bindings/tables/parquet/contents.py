"""Cache the row groups and statistics of recently scanned tables.

If no file has changed since an earlier scan in this process, a new scan reuses what that scan and
its plans read and packed, and reads no footers.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.progress import FooterProgress
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.tables.files import UNKNOWN, Files, Ints
from skipstone.bindings.tables.identity import identity_of
from skipstone.bindings.tables.parquet.blooms import FileBlooms
from skipstone.bindings.tables.parquet.file_schemas import common_schema
from skipstone.bindings.tables.parquet.footer import MEMORY_PER_BYTE
from skipstone.bindings.tables.parquet.footer_cache import FooterCache
from skipstone.bindings.tables.parquet.footer_groups import FooterPart
from skipstone.bindings.tables.parquet.footers import FooterMap
from skipstone.bindings.tables.parquet.groups import (
    Exactness,
    LazyColumns,
    RowGroupPart,
    RowGroups,
    schemas_in,
)
from skipstone.ir.arrow import arrow_of, is_instant
from skipstone.ir.errors import SourceError
from skipstone.kernels.config import config
from skipstone.kernels.run.lru_cache import LruCache

MAX_FILES: Final = 1 << 10  # tables of more files are not kept, to limit memory
MAX_BYTES: Final = 1 << 25  # of all tables that are kept
GROUP_BYTES: Final = 1 << 11  # of a row group's statistics, without its footer


class Contents:
    """The row groups of a table, and their statistics.

    Args:
        files: The table's files.
        parts: The row groups of those files.
        schema: The columns of the table; None means those of all files.
        partitions: The columns whose values come from folders' names, or from `values`.
        values: Partition column -> its value in each folder; None takes them from folders' names.

    Attributes:
        schema: The columns of the table, partition columns last.
        groups: The row groups, in table order.
        footers: Path -> footer, for the files whose own footer was read.
        unreadable: Path -> why its footer cannot be read.
        nbytes: The approximate size of all this in host memory, in bytes.
    """

    def __init__(
        self,
        files: Files,
        parts: Sequence[RowGroupPart],
        schema: pa.Schema | None,
        partitions: Sequence[pa.Field],
        values: Mapping[str, pa.Array] | None,
    ) -> None:
        names = {f.name.lower() for f in partitions}
        # A partition value overrides a column of the same name in the file, as in Spark.
        data = common_schema(schemas_in(parts)) if schema is None else schema
        if names:
            data = pa.schema([*(f for f in data if f.name.lower() not in names), *partitions])
        self.schema: pa.Schema = data if data.metadata is None else data.remove_metadata()
        self.groups = RowGroups(files, parts, self.schema, partitions, values)
        footers = [f for p in parts if isinstance(p, FooterPart) for f in p.footers]
        self.unreadable: Mapping[str, SourceError] = {
            f.path: e for f in footers if (e := f.error) is not None
        }
        self.footers = FooterMap(footers)
        blocks = {id(f.block): f.block for f in footers}.values()
        nbytes = sum(block.nbytes for block in blocks)
        self.nbytes = GROUP_BYTES * len(self.groups) + MEMORY_PER_BYTE * nbytes
        self._statistics: dict[str, tuple[Statistics, FileBlooms]] = {}

    def statistics_in(self, timezone: str, cache: FooterCache) -> Statistics:
        """Return the statistics of the row groups.

        Args:
            timezone: The zone in which partition timestamps without a zone are read.
            cache: The footer cache of the calling table, whose meter counts the bloom filters that
                are read.
        """
        if not any(is_instant(f.type) for f in self.groups.partitions.values()):
            timezone = "UTC"
        if timezone not in self._statistics:
            self._statistics[timezone] = self._made(timezone, cache)
        statistics, blooms = self._statistics[timezone]
        blooms.meter = cache.meter
        return statistics

    def _made(self, timezone: str, cache: FooterCache) -> tuple[Statistics, FileBlooms]:
        n, columns = len(self.groups), LazyColumns(self.groups, timezone)
        rows = _counts(self.groups.rows)
        bounds = functools.partial(
            Statistics, self.schema, n, columns, row_count=rows, counts_parents=True
        )
        blooms = FileBlooms(self.groups, bounds, cache.filesystem, cache.meter)
        return Statistics(
            self.schema,
            n,
            columns,
            row_count=rows,
            extras=Exactness(columns),
            members=blooms,
            counts_parents=True,
        ), blooms


_recent: LruCache[Hashable, Contents] = LruCache(MAX_BYTES)


def contents_of(
    files: Files,
    cache: FooterCache,
    partitions: Sequence[pa.Field],
    progress: FooterProgress | None = None,
) -> Contents:
    """Return the row groups of files, from an earlier scan or by reading the footers now.

    Args:
        files: The files, as they were listed.
        cache: Reads the footers.
        partitions: The columns whose values come from folders' names.
        progress: Called with (files whose footer is known, files).

    Raises:
        SourceError: a footer cannot be read, and such files are not kept.
    """
    key = _key_of(files, cache, partitions)
    found = None if key is None else _recent.find(key)
    if found is None:
        found = Contents(files, cache.parts(files, progress), None, partitions, None)
        if key is not None and not found.unreadable:
            _recent.put(key, found, found.nbytes)
    else:
        cache.meter.count("footers in memory", len(files))
        if progress is not None:
            progress(len(files), len(files))
    return found


def _key_of(files: Files, cache: FooterCache, partitions: Sequence[pa.Field]) -> Hashable | None:
    """Return what identifies the contents of a table; None if they must not be cached."""
    if (
        not config.keep_footers
        or len(files) > MAX_FILES
        or not isinstance(cache.filesystem, pafs.LocalFileSystem)
        or not cache.reads_all_footers
    ):
        return None
    paths = files.paths.to_pylist()
    found = [identity_of(path) for path in paths]
    identities = tuple(one for one in found if one is not None)
    if len(identities) < len(paths):
        return None
    sizes, times = [one.size for one in identities], [one.modified for one in identities]
    if sizes != files.sizes.tolist() or times != files.times.tolist():
        return None  # a file has changed since it was listed
    folders = tuple((path, tuple(texts.items())) for path, texts in files.folders)
    return (
        tuple(paths), identities, folders, files.folder.tobytes(), tuple(partitions),
    )  # fmt: skip


def _counts(values: Ints) -> pa.Array:
    return arrow_of(values, values != UNKNOWN)
