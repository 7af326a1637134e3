"""Trees of partition folders, `key=value` at each level; a folder is listed when it is needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

import numpy as np
import pyarrow.fs as pafs

from skipstone.bindings.listing import entries_of
from skipstone.bindings.location import REFUSED, shown
from skipstone.bindings.plans.work import Meter
from skipstone.bindings.progress import Track
from skipstone.bindings.tables.files import (
    Files,
    concat_files,
    files_from_listing,
    is_hidden,
    is_hidden_path,
    list_folder,
)
from skipstone.bindings.tables.partitions import Texts, pair_of
from skipstone.ir.errors import SourceError, counted, describe_error
from skipstone.kernels.pack.planes import Mask
from skipstone.kernels.run.pool import REQUESTS, ContextPool

Folder = tuple[str, Texts]
# Returns a mask of the folders to keep. The folders lie at one level, so that all have texts of the
# same partition columns.
FolderFilter = Callable[[Sequence[Folder]], Mask]
T = TypeVar("T")
Result = TypeVar("Result")
# Local folders that a thread lists at once: handing over one takes as long as listing it.
LOCAL_FOLDERS: Final = 64


class _Listing(NamedTuple):
    """The contents of one folder.

    Attributes:
        folders: Partition folders in it, sorted.
        other_folders: Other folders in it, sorted.
        files: Paths of the files in it.
    """

    folders: list[str]
    other_folders: list[str]
    files: list[str]


class Tree:
    """The partition folders below a folder.

    Each folder is listed at most once, so that a table sees one state of it.

    Args:
        root: The folder.
        filesystem: Its file system.
        meter: Counts folders and files.

    Attributes:
        root: The folder.
        entries: The paths of everything in it, hidden or not; folders end with a slash.
        names: The names of the files that lie directly in it, hidden or not.
        columns: Partition columns, outermost first, spelled as in the first folder of each level.

    Raises:
        SourceError: the folder does not exist or cannot be listed, or has a partition column twice.
    """

    def __init__(self, root: str, filesystem: pafs.FileSystem, meter: Meter) -> None:
        self.root, self._filesystem, self._meter = root, filesystem, meter
        # Listing a local folder is mostly work in Python, where more threads wait for each other.
        local = isinstance(filesystem, pafs.LocalFileSystem)
        self._threads, self._together = (2, LOCAL_FOLDERS) if local else (REQUESTS, 1)
        self._listings: dict[str, _Listing] = {}
        self.entries: tuple[str, ...] = ()
        self.names: frozenset[str] = frozenset()
        self._files: dict[str, Files] = {}
        self.columns = self._columns(root) or ()
        if len({c.lower() for c in self.columns}) < len(self.columns):
            raise SourceError(
                f"{root} has a partition column twice ({', '.join(self.columns)}); expected each "
                "at one level: rename the folders of one of them"
            )

    def _columns(self, folder: str) -> tuple[str, ...] | None:
        """Return the partition columns on the way to the first file; None if there is no file."""
        listing = self._list(folder)
        for inner in listing.folders:
            if (columns := self._columns(inner)) is not None:
                return pair_of(os.path.basename(inner))[0], *columns
        return () if listing.files or listing.other_folders else None

    def iter_folders(self) -> Iterator[Folder]:
        """Yield the innermost partition folders in order, listing only what the next one needs."""
        yield from self._iter_below((self.root, {}), self.columns)

    def _iter_below(self, folder: Folder, columns: Sequence[str]) -> Iterator[Folder]:
        if not columns:
            yield folder
            return
        path, texts = folder
        for inner in self._partition_folders(self._list(path), columns[0]):
            below = inner, {**texts, **self._texts(inner, columns[0])}
            yield from self._iter_below(below, columns[1:])

    def folders(self, keep: FolderFilter | None = None) -> tuple[list[Folder], int]:
        """List the tree, level by level.

        Args:
            keep: Decides at each level which folders are listed further; None keeps all.

        Returns:
            The innermost partition folders that were kept, in order, and the number of folders that
            were skipped.

        Raises:
            SourceError: folders of one level have different columns, or there are files next to
                them.
        """
        level: list[Folder] = [(self.root, {})]
        num_skipped = 0
        for column in self.columns:
            listings = self._of_each(self._list, [path for path, _ in level])
            below = [
                (inner, {**texts, **self._texts(inner, column)})
                for (path, texts), listing in zip(level, listings, strict=True)
                for inner in self._partition_folders(listing, column)
            ]
            mask = np.ones(len(below), np.bool_) if keep is None or not below else keep(below)
            level = [f for f, kept in zip(below, mask.tolist(), strict=True) if kept]
            num_skipped += len(below) - len(level)
        return level, num_skipped

    def _of_each(self, work: Callable[[T], Result], folders: Sequence[T]) -> list[Result]:
        """Run work on each folder in several threads, and return the results."""
        size, out = self._together, list[Result]()
        parts = [folders[i : i + size] for i in range(0, len(folders), size)]
        with (
            Track("listing", len(folders), "folders") as track,
            ContextPool(min(self._threads, len(parts)) or 1, "skipstone-folders") as readers,
        ):
            for found in readers.map(lambda part: [work(folder) for folder in part], parts):
                track.step(len(found))
                out += found
        return out

    def _texts(self, folder: str, column: str) -> Texts:
        key, text = pair_of(os.path.basename(folder))
        if key.lower() != column.lower():
            raise SourceError(
                f"{folder} is of the partition column {key}; expected {column}, because folders of "
                "one level must have one column: rename the folder, or scan it by itself"
            )
        return {column: text}

    def _partition_folders(self, listing: _Listing, column: str) -> list[str]:
        """Return the partition folders in a folder.

        Raises:
            SourceError: there are files next to them.
        """
        stray = [*listing.files]
        stray += [
            f.path
            for other in listing.other_folders
            for f in list_folder(self._filesystem, other, self._meter)[0]
            if not is_hidden_path(f.path, other)
        ]
        if stray:
            raise SourceError(
                f"{stray[0]} lies next to folders of the partition column {column}; expected files "
                f"at one depth, {counted(len(self.columns), 'folders')} below {self.root}: move it"
            )
        return listing.folders

    def files(self, folders: Sequence[Folder]) -> Files:
        """Return the files below some of the innermost folders, at any depth.

        Raises:
            SourceError: there are more partition folders below one of them.
        """
        unlisted = [f for f in folders if f[0] not in self._files]
        found = self._of_each(self._files_below, unlisted)
        self._files |= zip((path for path, _ in unlisted), found, strict=True)
        return concat_files([self._files[path] for path, _ in folders])

    def _files_below(self, folder: Folder) -> Files:
        path, texts = folder
        infos, etags = list_folder(self._filesystem, path, self._meter)
        files = files_from_listing(infos, path, None, etags)
        self._meter.count("files", len(files))
        for deeper, _ in files.folders:
            if "=" in deeper.removeprefix(path):
                raise SourceError(
                    f"{deeper}: the folder has more partition columns than "
                    f"{', '.join(self.columns) or 'none'}; expected files at one depth below "
                    f"{self.root}: move it"
                )
        return Files(
            files.paths,
            files.sizes,
            files.times,
            files.etags,
            ((path, texts),),
            np.zeros(len(files), np.int64),
        )

    def drop(self, folder: str) -> None:
        """Forget a folder that holds no file, and the folders in which nothing else lies."""
        parent = os.path.dirname(folder)
        inner = self._listings.get(parent, self._listings[self.root]).folders
        inner.remove(folder)
        if not inner and parent in self._listings and parent != self.root:
            self.drop(parent)

    def _list(self, folder: str) -> _Listing:
        """List the contents of one folder, without hidden files and folders."""
        if folder not in self._listings:
            try:
                every = entries_of(self._filesystem, folder)
            except REFUSED as e:
                raise SourceError(
                    f"{shown(folder)}: the folder cannot be listed ({describe_error(e)}); "
                    "expected the folder of a table"
                ) from e
            self._meter.count("folders")
            if folder == self.root:
                folders = pafs.FileType.Directory
                self.entries = tuple(f"{f.path}/" if f.type == folders else f.path for f in every)
                self.names = frozenset(f.base_name for f in every if f.is_file)
            entries = [f for f in every if not is_hidden(f.base_name)]
            inner = sorted(f.path for f in entries if f.type == pafs.FileType.Directory)
            self._listings[folder] = _Listing(
                [f for f in inner if "=" in os.path.basename(f)],
                [f for f in inner if "=" not in os.path.basename(f)],
                [f.path for f in entries if f.type == pafs.FileType.File],
            )
        return self._listings[folder]
