"""A tree of partition folders, `key=value` at each level, of which only what is asked for is listed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pyarrow.fs as pafs

from skipstone.bindings.location import REFUSED, one_line, shown
from skipstone.bindings.plans.work import Meter
from skipstone.bindings.tables.files import Files, below, files_of, hidden, is_hidden, joined
from skipstone.bindings.tables.parquet.footers import READERS
from skipstone.bindings.tables.partitions import Texts, pair_of
from skipstone.ir.errors import SourceError
from skipstone.kernels.pack.planes import Mask

Folder = tuple[str, Texts]
# Which of some folders may hold what is looked for; their columns are known as far as the texts of the first go.
Judge = Callable[[Sequence[Folder]], Mask]


class _Level(NamedTuple):
    folders: list[str]  # partition folders
    others: list[str]
    files: list[pafs.FileInfo]


class Tree:
    """The partition folders below a folder. Each is listed once at most, so that one table sees one state of it.

    Attributes:
        columns: Partition columns, outermost first, as the first folder of each level spells them.

    Raises:
        SourceError: the folder is not there, or cannot be listed.
    """

    def __init__(self, root: str, filesystem: pafs.FileSystem, meter: Meter) -> None:
        self.root, self._filesystem, self._meter = root, filesystem, meter
        # Listing a local folder is Python's work for the most part, in which more threads wait for each other.
        self._readers = 2 if isinstance(filesystem, pafs.LocalFileSystem) else READERS
        self._levels: dict[str, _Level] = {}
        self._leaves: dict[str, Files] = {}
        self.columns = self._columns(root) or ()
        if len({c.lower() for c in self.columns}) < len(self.columns):
            raise SourceError(
                f"{root} has a partition column twice ({', '.join(self.columns)}); expected each at one level"
            )

    def _columns(self, folder: str) -> tuple[str, ...] | None:
        """The partition columns above the first file below a folder; None: it holds no file."""
        level = self._level(folder)
        for inner in level.folders:
            if (columns := self._columns(inner)) is not None:
                return pair_of(os.path.basename(inner))[0], *columns
        return () if level.files or level.others else None

    def each(self) -> Iterator[Folder]:
        """The innermost partition folders, in order, listing no more than is needed for the next."""
        yield from self._each((self.root, {}), self.columns)

    def _each(self, folder: Folder, columns: Sequence[str]) -> Iterator[Folder]:
        if not columns:
            yield folder
            return
        path, texts = folder
        for inner in self._inner(path, self._level(path), columns[0]):
            yield from self._each((inner, {**texts, **self._texts(inner, columns[0])}), columns[1:])

    def folders(self, judge: Judge | None = None) -> tuple[list[Folder], int]:
        """The innermost partition folders that may hold what is looked for, in order, and how many folders were passed over.

        Raises:
            SourceError: folders of one level have different columns, or files beside them.
        """
        level: list[Folder] = [(self.root, {})]
        passed_over = 0
        for column in self.columns:
            with ThreadPoolExecutor(
                min(self._readers, len(level)) or 1, "skipstone-folders"
            ) as readers:
                inside = list(readers.map(self._level, (path for path, _ in level)))
            found = [
                (inner, {**texts, **self._texts(inner, column)})
                for (path, texts), own in zip(level, inside, strict=True)
                for inner in self._inner(path, own, column)
            ]
            keep = np.ones(len(found), np.bool_) if judge is None or not found else judge(found)
            level = [f for f, kept in zip(found, keep.tolist(), strict=True) if kept]
            passed_over += len(found) - len(level)
        return level, passed_over

    def _texts(self, folder: str, column: str) -> Texts:
        key, text = pair_of(os.path.basename(folder))
        if key.lower() != column.lower():
            raise SourceError(
                f"{folder} is of the partition column {key}, and {column} was expected: folders of one level must have one column"
            )
        return {column: text}

    def _inner(self, path: str, level: _Level, column: str) -> list[str]:
        stray = [f.path for f in level.files]
        stray += [
            f.path
            for o in level.others
            for f in below(self._filesystem, o, self._meter)[0]
            if not hidden(f.path, o)
        ]
        if stray:
            raise SourceError(
                f"{stray[0]} lies beside folders of the partition column {column}; expected files at one depth, {len(self.columns)} folders below {self.root}"
            )
        return level.folders

    def files(self, folders: Sequence[Folder]) -> Files:
        """The files in some of the innermost folders, however deep.

        Raises:
            SourceError: there are more partition folders below one.
        """
        left = [f for f in folders if f[0] not in self._leaves]
        with ThreadPoolExecutor(min(self._readers, len(left)) or 1, "skipstone-folders") as readers:
            self._leaves |= zip(
                (path for path, _ in left), readers.map(self._leaf, left), strict=True
            )
        return joined([self._leaves[path] for path, _ in folders])

    def _leaf(self, folder: Folder) -> Files:
        path, texts = folder
        infos, etags = below(self._filesystem, path, self._meter)
        found = files_of(infos, path, None, etags)
        self._meter.count("files", len(found))
        for deeper, _ in found.folders:
            if "=" in deeper.removeprefix(path):
                raise SourceError(
                    f"{deeper}: has more partition columns than {', '.join(self.columns) or 'none'}; expected files at one depth below {self.root}"
                )
        return Files(
            found.paths,
            found.sizes,
            found.times,
            found.etags,
            ((path, texts),),
            np.zeros(len(found), np.int64),
        )

    def _level(self, folder: str) -> _Level:
        if folder not in self._levels:
            try:
                found = [
                    f
                    for f in self._filesystem.get_file_info(pafs.FileSelector(folder))
                    if not is_hidden(f.base_name)
                ]
            except REFUSED as e:
                raise SourceError(
                    f"{shown(folder)}: the folder cannot be listed ({one_line(e)}); expected the folder of a table"
                ) from e
            self._meter.count("folders")
            inner = sorted(f.path for f in found if f.type == pafs.FileType.Directory)
            self._levels[folder] = _Level(
                [f for f in inner if "=" in os.path.basename(f)],
                [f for f in inner if "=" not in os.path.basename(f)],
                [f for f in found if f.type == pafs.FileType.File],
            )
        return self._levels[folder]
