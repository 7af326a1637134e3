"""Saving shards: each is a file that is whole before the manifest speaks of it, so whoever dies in between leaves what was there before."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.shards.manifest import AGAIN, NAME, OURS, Manifest, Shard, parse
from skipstone.bindings.shards.place import ShardFolder
from skipstone.bindings.shards.summary import joined, summary_of
from skipstone.bindings.statistics.coerce_inputs import PACKED
from skipstone.bindings.statistics.membership import Members
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.statistics.store.atomic import replacing
from skipstone.bindings.statistics.store.checked import write_table
from skipstone.bindings.statistics.store.layout import open_file
from skipstone.ir.errors import StatisticsError
from skipstone.ir.node import Path
from skipstone.ir.types import leaves_of
from skipstone.kernels.pack.columns import Raw

ROWS: Final = (
    1 << 20
)  # containers in a shard: some 20 MB of two columns, and a few milliseconds of work


@dataclass(frozen=True)
class Written:
    """A shard that is on disk, and what its manifest needs to know.

    Attributes:
        shard: The manifest's entry.
        paths: The columns that have statistics.
        summary: All of its containers as one (summary.py).
        certain: Whether it has no value lists and bloom filters.
    """

    shard: Shard
    paths: tuple[Path, ...]
    summary: pa.Table
    certain: bool


def save_shards(
    stats: Statistics,
    where: str | os.PathLike[str],
    rows: int,
    order_by: str | Sequence[str] | None,
    about: pa.Table | None,
    filesystem: pafs.FileSystem | None,
) -> None:
    """`Statistics.save_shards`."""
    check_rows(rows)
    n = stats.num_containers
    if about is not None and about.num_rows != n:
        raise StatisticsError(
            f"about has {about.num_rows} rows; expected {n}, one for each container"
        )
    place, save = ShardFolder.of(where, filesystem), new_token()
    place.make()
    try:
        written = []
        for first in range(0, n, rows):
            stop = min(first + rows, n)
            told = None if about is None else about.slice(first, stop - first)
            written.append(write_shard(place, save, part(stats, first, stop), told, order_by))
        commit(place, save, stats.schema, written, None if about is None else about.schema)
    except BaseException:
        forget(place, save)
        raise


def check_rows(rows: int) -> None:
    """Refuse a number of containers that is none.

    Raises:
        StatisticsError: it is not a positive integer.
    """
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise StatisticsError(
            f"rows is {rows!r}; expected how many containers a shard holds, at least 1"
        )


def new_token() -> str:
    """What names of one save, or of one file, have in common with no others."""
    return secrets.token_hex(8)


def part(stats: Statistics, first: int, stop: int) -> Statistics:
    """Statistics of the containers from `first` up to `stop`, without levels; arrays are views."""

    def cut(a: pa.Array | pa.ChunkedArray | None) -> pa.Array | pa.ChunkedArray | None:
        return None if a is None else a.slice(first, stop - first)

    columns = {
        path: Raw(**{key: cut(getattr(raw, key)) for key in PACKED})
        for path in stats.leaf_paths()
        if (raw := stats.raw(path))
    }
    extras = {
        path: {key: array.slice(first, stop - first) for key, array in stats.extras(path).items()}
        for path in stats.extra_paths()
    }
    asked = any("values" in e or "bloom" in e for e in extras.values())
    members = (
        Members(extras, {path: leaf.dtype for path, leaf in leaves_of(stats.schema).items()})
        if asked
        else None
    )
    rows = cut(stats.row_count)
    return Statistics(
        stats.schema,
        stop - first,
        columns,
        row_count=rows,
        extras=extras,
        members=members,
        counts_parents=stats.counts_parents,
    )


def write_shard(
    place: ShardFolder,
    save: str,
    stats: Statistics,
    about: pa.Table | None,
    order_by: str | Sequence[str] | None,
) -> Written:
    """Write the files of one shard, under names that no other attempt has."""
    stem = f"shard-{save}-{new_token()}"
    certain, filled = not stats.has_members, stats.rows_plane() is True
    stats = stats.index(order_by=order_by)
    with place.writing(f"{stem}.stats") as path:
        stats.save(path)
        size, identity = os.path.getsize(path), open_file(path).identity
    checksum = None
    if about is not None:
        with place.writing(f"{stem}.about") as path, replacing(path) as f:
            checksum = write_table(f, about)
    shard = Shard(stem, stats.num_containers, size, identity, filled, checksum)
    return Written(shard, stats.leaf_paths(), summary_of(stats), certain)


def commit(
    place: ShardFolder,
    save: str,
    schema: pa.Schema,
    written: Sequence[Written],
    about: pa.Schema | None,
) -> None:
    """Make shards what the folder holds, in this order, and remove what neither they nor those before them need.

    The files that are replaced stay until the next save, for who has opened them.

    Raises:
        StatisticsError: a file is gone, as another save to the same folder ended meanwhile.
    """
    before = _before(place)
    summary = None
    if written:
        stem = f"summary-{save}-{new_token()}"
        with place.writing(f"{stem}.stats") as path:
            joined(schema, written[0].paths, [w.summary for w in written]).save(path)
            summary = stem, open_file(path).identity
    manifest = Manifest(
        schema, tuple(w.shard for w in written), summary, all(w.certain for w in written), about
    )
    if gone := manifest.files - place.names():
        raise StatisticsError(
            f"{place.at(min(gone))} is gone: another save to the same folder has ended meanwhile, or the folder is not shared by all "
            f"machines that write to it; {AGAIN}, one after the other, to a folder that is"
        )
    place.put(NAME, manifest.dump())
    with contextlib.suppress(OSError):  # what cannot be removed is in nobody's way
        place.remove(_ours(place) - manifest.files - before)


def forget(place: ShardFolder, save: str) -> None:
    """Remove the files of a save that failed, unless it failed after they became what the folder holds."""
    with contextlib.suppress(OSError, StatisticsError):
        held = parse(place.at(NAME), place.read(NAME)).files if NAME in place.names() else set()
        place.remove(name for name in _ours(place) - held if f"-{save}-" in name)


def _before(place: ShardFolder) -> set[str]:
    """The files of the manifest that is there; none, if it says nothing."""
    try:
        return parse(place.at(NAME), place.read(NAME)).files
    except StatisticsError:
        return set()


def _ours(place: ShardFolder) -> set[str]:
    return {name for name in place.names() if OURS.fullmatch(name) and name != NAME}
