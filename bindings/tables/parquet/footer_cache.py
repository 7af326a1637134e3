"""A cache of footers: from a saved snapshot, then `_metadata`, then the files themselves."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.fs as pafs

from skipstone.bindings.location import REFUSED, in_folder, is_local, resolve, shown
from skipstone.bindings.plans.work import Meter
from skipstone.bindings.progress import FooterProgress
from skipstone.bindings.tables.files import Files, Ints
from skipstone.bindings.tables.parquet.footer_groups import FooterPart
from skipstone.bindings.tables.parquet.footers import Footer, read_footers
from skipstone.bindings.tables.parquet.groups import RowGroupPart
from skipstone.bindings.tables.parquet.options import SNAPSHOT_NAME
from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of
from skipstone.ir.errors import SourceError, StatisticsError, describe_error

if TYPE_CHECKING:
    from skipstone.bindings.tables.parquet.metadata_file import MetadataFile
    from skipstone.bindings.tables.parquet.saved_footers import SavedPart, Snapshot


class FooterCache:
    """The footers of a table's files; each is read at most once.

    Args:
        root: The table's folder; None if files were named.
        filesystem: The file system of the files.
        stats: As for `scan_parquet`.
        summaries: True to use `_metadata`.
        keep: True if a file that cannot be read is kept.
        meter: Counts the work.
        beside: The names of hidden files that lie directly in `root`; None means unknown.

    Raises:
        SourceError: `stats` names a file that cannot be read.
        StatisticsError: `stats` names a file that is damaged, or of another version.
    """

    def __init__(
        self,
        root: str | None,
        filesystem: pafs.FileSystem,
        stats: str | bool | None,
        meter: Meter,
        *,
        summaries: bool,
        keep: bool,
        beside: Collection[str] | None = None,
    ) -> None:
        self._beside = beside
        self.root, self.filesystem, self.meter = root, filesystem, meter
        self._keep = keep
        with meter.phase("footers"):
            self._snapshot = self._find_snapshot(stats)
            self._metadata_file = self._read_metadata_file() if summaries else None
        self._footers: dict[str, Footer] = {}
        self._served = np.zeros(
            0 if self._snapshot is None else len(self._snapshot.paths), np.bool_
        )

    def _find_snapshot(self, stats: str | bool | None) -> Snapshot | None:
        if stats is False or (stats is None and not self._may_have_snapshot()):
            return None
        return _open_snapshot(stats, self.root, self.filesystem, self.meter)

    def _may_have_snapshot(self) -> bool:
        """Return False if there certainly is no snapshot in `root`; remote storage is not asked."""
        if self.root is None:
            return False
        if self._beside is not None:
            return SNAPSHOT_NAME in self._beside
        return not is_local(self.filesystem) or bool(
            self.filesystem.get_file_info(in_folder(self.root, SNAPSHOT_NAME)).is_file
        )

    def _read_metadata_file(self) -> MetadataFile | None:
        if self.root is None or (self._beside is not None and "_metadata" not in self._beside):
            return None
        info = self.filesystem.get_file_info(in_folder(self.root, "_metadata"))
        if info.mtime_ns is None:
            return None
        from skipstone.bindings.tables.parquet.metadata_file import read_metadata_file

        return read_metadata_file(info.path, info.mtime_ns, self.filesystem, self.meter)

    @property
    def reads_all_footers(self) -> bool:
        """True if all statistics come from the files' own footers."""
        return self._snapshot is None and self._metadata_file is None

    def _count(self, part: SavedPart) -> None:
        """Count the files that take their statistics from the snapshot for the first time."""
        self.meter.count("footers from the snapshot", int((~self._served[part.saved]).sum()))
        self._served[part.saved] = True

    def parts(self, files: Files, progress: FooterProgress | None = None) -> list[RowGroupPart]:
        """Return the row groups of files, reading the footers that no snapshot has.

        Args:
            files: The files.
            progress: Called with (files whose footer is known, files).

        Raises:
            SourceError: a footer cannot be read, and such files are not kept.
        """
        with self.meter.phase("footers"):
            parts: list[RowGroupPart] = []
            unknown = np.ones(len(files), np.bool_)
            if self._snapshot is not None and len(files):
                saved = self._snapshot.part(files, self.filesystem)
                self._count(saved)
                parts.append(saved)
                unknown[saved.files] = False
            unknown_at = np.flatnonzero(unknown)
            if len(unknown_at) or not parts:
                parts.append(FooterPart(self._footers_of(files, unknown_at, progress), unknown_at))
            return parts

    def _footers_of(
        self, files: Files, which: Ints, progress: FooterProgress | None
    ) -> list[Footer]:
        chosen = files.take(which)
        known = dict(enumerate(map(self._footers.get, chosen.paths.to_pylist())))
        if self._metadata_file is not None and self.root is not None and None in known.values():
            described = self._metadata_file.footers(chosen, self.root)
            self.meter.count("footers from _metadata", sum(known[i] is None for i in described))
            known = {i: f or described.get(i) for i, f in known.items()}
        missing = [i for i, f in known.items() if f is None]
        read = read_footers(
            pc.take(chosen.paths, arrow_of(np.array(missing, np.int64))).to_pylist(),
            self.filesystem,
            self.meter,
            keep=self._keep,
            sizes=chosen.sizes[missing],
            progress=_counting_known(progress, len(missing), len(files)),
        )
        known |= dict(zip(missing, read, strict=True))
        footers = [f for f in known.values() if f is not None]
        self._footers |= {f.path: f for f in footers}
        return footers


def _counting_known(
    progress: FooterProgress | None, missing: int, total: int
) -> Callable[[int], None] | None:
    """Return a callback that also counts the files whose footers were known before.

    Args:
        progress: Called with (files whose footer is known, files).
        missing: The number of files whose footers are not known yet.
        total: The number of all files.
    """
    return None if progress is None else lambda done: progress(total - missing + done, total)


def _open_snapshot(
    stats: str | bool | None, root: str | None, filesystem: pafs.FileSystem, meter: Meter
) -> Snapshot | None:
    """Return the snapshot to use: the one that `stats` names, else the one beside the data.

    Args:
        stats: A path or URI; else it lies beside the data.
        root: The table's folder; None if files were named.
        filesystem: The file system of the folder.
        meter: Counts the snapshots and bytes.

    Returns:
        The snapshot; None if there is none beside the data, or it cannot be used.

    Raises:
        SourceError: the snapshot that `stats` names cannot be read.
        StatisticsError: the snapshot that `stats` names is damaged, or of another version.
    """
    from skipstone.bindings.tables.parquet.saved_footers import Snapshot

    if not isinstance(stats, str):
        fs, path = (filesystem, in_folder(root or "", SNAPSHOT_NAME))
    else:
        fs, path = resolve(stats, None)
    try:
        with fs.open_input_file(path) as source:
            data = source.read_buffer()
    except REFUSED as e:
        if isinstance(stats, str):
            raise SourceError(
                f"{shown(stats)}: the statistics cannot be read ({describe_error(e)}); "
                "name a file that save_stats wrote, or leave stats out"
            ) from e
        return None
    meter.count("snapshots", 1, data.size)
    try:
        return Snapshot(path, data)
    except StatisticsError:
        if isinstance(stats, str):
            raise
        return None  # the footers have the same statistics
