"""What is known of files without opening them, and opening the others: a snapshot, then `_metadata`, then footers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.plans.work import Meter
from skipstone.bindings.tables.files import Files, Ints
from skipstone.bindings.tables.parquet.footers import Footer, FooterPart, Progress, read_footers
from skipstone.bindings.tables.parquet.groups import RowGroupPart
from skipstone.bindings.tables.parquet.metadata_file import Summary, read_summary
from skipstone.bindings.tables.parquet.saved_footers import SavedPart, Snapshot, find_snapshot


class FooterCache:
    """The footers of a table's files, each read once at most.

    Args:
        root: The table's folder; None: files were named.
        filesystem: Where it is.
        stats: As for `scan_parquet`.
        summaries: Whether to use `_metadata`.
        keep: Whether a file that cannot be read is kept.
        meter: What counts the work.
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
    ) -> None:
        self.root, self.filesystem, self.meter = root, filesystem, meter
        self._keep = keep
        with meter.phase("footers"):
            self._snapshot: Snapshot | None = find_snapshot(stats, root, filesystem, meter)
            self._summary: Summary | None = (
                read_summary(root, filesystem, meter) if summaries and root is not None else None
            )
        self._read: dict[str, Footer] = {}
        self._served = np.zeros(
            0 if self._snapshot is None else len(self._snapshot.paths), np.bool_
        )

    def _count(self, part: SavedPart) -> None:
        """Count what a snapshot tells for the first time."""
        self.meter.count("footers from the snapshot", int((~self._served[part.saved]).sum()))
        self._served[part.saved] = True

    def parts(self, files: Files, progress: Progress | None = None) -> list[RowGroupPart]:
        """What is known of some files, after reading the footers that nothing stands in for.

        Raises:
            SourceError: a footer cannot be read, and such files are not kept.
        """
        with self.meter.phase("footers"):
            parts: list[RowGroupPart] = []
            unknown = np.ones(len(files), np.bool_)
            if self._snapshot is not None and len(files):
                saved = self._snapshot.part(files)
                self._count(saved)
                parts.append(saved)
                unknown[saved.files] = False
            left = np.flatnonzero(unknown)
            if len(left) or not parts:
                parts.append(FooterPart(self._footers(files, left, progress), left))
            return parts

    def _footers(self, files: Files, which: Ints, progress: Progress | None) -> list[Footer]:
        asked = files.take(which)
        found = dict(enumerate(map(self._read.get, asked.paths.to_pylist())))
        if self._summary is not None and self.root is not None and None in found.values():
            told = self._summary.footers(asked, self.root)
            self.meter.count("footers from _metadata", sum(found[i] is None for i in told))
            found = {i: f or told.get(i) for i, f in found.items()}
        left = [i for i, f in found.items() if f is None]
        fresh = read_footers(
            asked.paths.take(pa.array(left, pa.int64())).to_pylist(),
            self.filesystem,
            self.meter,
            keep=self._keep,
            progress=_of(progress, len(left), len(files)),
        )
        found |= dict(zip(left, fresh, strict=True))
        footers = [f for f in found.values() if f is not None]
        self._read |= {f.path: f for f in footers}
        return footers


def _of(progress: Progress | None, left: int, total: int) -> Callable[[int], None] | None:
    """Progress in files, of which all but `left` are known already."""
    return None if progress is None else lambda done: progress(total - left + done, total)
