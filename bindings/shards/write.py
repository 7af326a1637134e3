"""Save shards: every file is complete before the manifest names it.

An interrupted save leaves the previous shards.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.progress import Track
from skipstone.bindings.shards.folder import ShardFolder
from skipstone.bindings.shards.manifest import NAME, SAVE_AGAIN, SHARD_FILES, Manifest, Shard, parse
from skipstone.bindings.shards.summary import stack_summaries, summary_of
from skipstone.bindings.statistics.coerce_inputs import PACKED
from skipstone.bindings.statistics.membership import values_and_blooms_of
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.statistics.store.atomic import replacing
from skipstone.bindings.statistics.store.layout import open_file
from skipstone.bindings.statistics.store.table_file import write_table
from skipstone.ir.errors import StatisticsError
from skipstone.ir.node import Path
from skipstone.ir.types import leaves_of
from skipstone.kernels.pack.columns import ColumnStatistics

# Containers of a shard: about 20 MB for two columns, and a few milliseconds of work.
ROWS: Final = 1 << 20


@dataclass(frozen=True)
class WrittenShard:
    """A shard that is on disk, with the data for its manifest and summary.

    Attributes:
        shard: The manifest's entry.
        paths: The columns that have statistics.
        summary: All of its containers as one (summary.py).
        always_holds: True if it has neither value lists nor bloom filters.
    """

    shard: Shard
    paths: tuple[Path, ...]
    summary: pa.Table
    always_holds: bool


def save_shards(
    stats: Statistics,
    where: str | os.PathLike[str],
    rows: int,
    order_by: str | Sequence[str] | None,
    about: pa.Table | None,
    filesystem: pafs.FileSystem | None,
) -> None:
    """Implement `Statistics.save_shards`."""
    check_rows(rows)
    n = stats.num_containers
    if not isinstance(about, pa.Table | None):
        raise StatisticsError(
            f"about is of the type {type(about).__name__}; expected a pyarrow.Table"
        )
    if about is not None and about.num_rows != n:
        raise StatisticsError(
            f"about has {about.num_rows} rows; expected {n}, one for each container"
        )
    folder, save = ShardFolder.of(where, filesystem), new_token()
    folder.make()
    try:
        written = []
        with Track("shards", -(-n // rows), "shards") as track:
            for first in range(0, n, rows):
                stop = min(first + rows, n)
                rows_about = None if about is None else about.slice(first, stop - first)
                containers = slice_statistics(stats, first, stop)
                written.append(write_shard(folder, save, containers, rows_about, order_by))
                track.step()
        commit(folder, save, stats.schema, written, None if about is None else about.schema)
    except BaseException:
        forget(folder, save)
        raise


def check_rows(rows: int) -> None:
    """Check the number of containers per shard.

    Raises:
        StatisticsError: `rows` is not a positive integer.
    """
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise StatisticsError(
            f"rows is {rows!r}; expected the number of containers per shard, at least 1"
        )


def new_token() -> str:
    """Return a random token: part of the names of one save, or of one file."""
    return secrets.token_hex(8)


def slice_statistics(stats: Statistics, first: int, stop: int) -> Statistics:
    """Return statistics of containers `first` to `stop - 1` as views, without an index."""

    def cut(a: pa.Array | pa.ChunkedArray | None) -> pa.Array | pa.ChunkedArray | None:
        return None if a is None else a.slice(first, stop - first)

    columns = {
        path: ColumnStatistics(**{key: cut(getattr(raw, key)) for key in PACKED})
        for path in stats.leaf_paths()
        if (raw := stats.raw(path))
    }
    extras = {
        path: {key: array.slice(first, stop - first) for key, array in stats.extras(path).items()}
        for path in stats.extra_paths()
    }
    rows = cut(stats.row_count)
    return Statistics(
        stats.schema,
        stop - first,
        columns,
        row_count=rows,
        extras=extras,
        members=values_and_blooms_of(extras, leaves_of(stats.schema)),
        counts_parents=stats.counts_parents,
    )


def write_shard(
    folder: ShardFolder,
    save: str,
    stats: Statistics,
    about: pa.Table | None,
    order_by: str | Sequence[str] | None,
) -> WrittenShard:
    """Write the files of one shard, under names that no other attempt uses.

    Args:
        folder: The folder.
        save: The token of the save.
        stats: The shard's containers.
        about: Rows that describe them.
        order_by: As in `Statistics.index`.

    Raises:
        OSError: a file cannot be written.
    """
    stem = f"shard-{save}-{new_token()}"
    always_holds, no_empty = not stats.has_members, stats.rows_plane() is True
    stats = stats.index(order_by=order_by)
    with folder.writing(f"{stem}.stats") as path:
        stats.save(path)
        size, identity = os.path.getsize(path), open_file(path).identity
    checksum = None
    if about is not None:
        with folder.writing(f"{stem}.about") as path, replacing(path) as f:
            checksum = write_table(f, about)
    shard = Shard(stem, stats.num_containers, size, identity, no_empty, checksum)
    return WrittenShard(shard, stats.leaf_paths(), summary_of(stats), always_holds)


def commit(
    folder: ShardFolder,
    save: str,
    schema: pa.Schema,
    written: Sequence[WrittenShard],
    about: pa.Schema | None,
) -> None:
    """Replace the folder's shards by these, in this order, and delete unused files.

    Files of the replaced shards stay until the next save, for programs that have opened them.

    Args:
        folder: The folder.
        save: The token of the save.
        schema: The table's columns.
        written: The shards.
        about: The columns that describe containers.

    Raises:
        StatisticsError: a file was deleted, as another save to the same folder ended meanwhile.
        OSError: a file cannot be written.
    """
    before = _current_files(folder)
    summary = None
    if written:
        stem = f"summary-{save}-{new_token()}"
        with folder.writing(f"{stem}.stats") as path:
            summaries = [w.summary for w in written]
            stack_summaries(schema, written[0].paths, summaries).save(path)
            summary = stem, open_file(path).identity
    manifest = Manifest(
        schema,
        tuple(w.shard for w in written),
        summary,
        all(w.always_holds for w in written),
        about,
    )
    if gone := manifest.files - folder.names():
        raise StatisticsError(
            f"{folder.at(min(gone))} is gone: another save to the same folder has ended since, "
            "or the folder is not shared by all machines that write to it; "
            f"{SAVE_AGAIN}, one after the other, to a shared folder"
        )
    folder.put(NAME, manifest.dump())
    with contextlib.suppress(OSError):  # unused files do no harm
        folder.remove(_shard_files(folder) - manifest.files - before)


def forget(folder: ShardFolder, save: str) -> None:
    """Delete the files of a save that failed, unless the manifest already names them."""
    with contextlib.suppress(OSError, StatisticsError):
        current = (
            parse(folder.at(NAME), folder.read(NAME)).files if NAME in folder.names() else set()
        )
        folder.remove(name for name in _shard_files(folder) - current if f"-{save}-" in name)


def _current_files(folder: ShardFolder) -> set[str]:
    """Return the files of the current manifest; none if it is missing or damaged."""
    try:
        return parse(folder.at(NAME), folder.read(NAME)).files
    except StatisticsError:
        return set()


def _shard_files(folder: ShardFolder) -> set[str]:
    """Return the files in the folder that saves created, except the manifest."""
    return {name for name in folder.names() if SHARD_FILES.fullmatch(name) and name != NAME}
