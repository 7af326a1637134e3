"""`_metadata` and `_common_metadata`: one file that repeats the footers of a folder's files.

Nothing ties such a file to the files that it describes: they may have been replaced, or others
added. It is used for a file only if the two fit. Otherwise the file's own footer is read.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from skipstone.bindings.location import in_folder
from skipstone.bindings.plans.work import Meter
from skipstone.bindings.tables.files import Files
from skipstone.bindings.tables.parquet.footer import READ_ERRORS, ParsedFooter, read_footer
from skipstone.bindings.tables.parquet.footer_blocks import FooterBlock
from skipstone.bindings.tables.parquet.footers import WAIT_BYTES, Footer

MAGIC_BYTES: Final = 4  # before the first row group
MIN_FOOTER_BYTES: Final = 12  # after the last row group: the shortest footer


@dataclass(frozen=True)
class MetadataFile:
    """A `_metadata` file.

    Attributes:
        parsed: Its footer, which describes the row groups of all files.
        block: A block that holds this footer alone.
        time: The time of its last change, in ns since 1970.
        groups: Path below the folder -> the row groups of `parsed` that belong to that file.
    """

    parsed: ParsedFooter
    block: FooterBlock
    time: int
    groups: dict[str, list[int]]

    def footers(self, files: Files, folder: str) -> dict[int, Footer]:
        """Return position -> footer, for the files that `_metadata` fits.

        It fits a file if it is not older, and if the file's row groups lie within the file without
        gaps.

        Args:
            files: The files.
            folder: The folder of `_metadata`.
        """
        out = {}
        for i, path in enumerate(files.paths.to_pylist()):
            groups = self.groups.get(path.removeprefix(folder).strip("/"))
            if (
                groups is not None
                and 0 <= files.times[i] <= self.time
                and self._fill_file(groups, int(files.sizes[i]))
            ):
                out[i] = Footer(path, self.block, groups=groups)
        return out

    def _fill_file(self, groups: list[int], size: int) -> bool:
        """Return True if row groups, in this order, can fill a file of `size` bytes.

        They must begin at the file's start, have no gaps, and leave room for a footer.
        """
        at, metadata = MAGIC_BYTES, self.parsed.metadata
        for g in groups:
            chunks = [metadata.row_group(g).column(c) for c in range(metadata.num_columns)]
            for start, length in sorted((_start(c), c.total_compressed_size) for c in chunks):
                if start != at:
                    return False
                at = start + length
        return at <= size - MIN_FOOTER_BYTES


def _start(chunk: pq.ColumnChunkMetaData) -> int:
    """Return the offset of a column chunk: of its dictionary if it has one, else of its data."""
    first = chunk.dictionary_page_offset if chunk.has_dictionary_page else None
    return int(chunk.data_page_offset if not first else min(first, chunk.data_page_offset))


def read_metadata_file(
    path: str, time: int | None, filesystem: pafs.FileSystem, meter: Meter
) -> MetadataFile | None:
    """Read a `_metadata` file; return None if it is unreadable or names no files.

    Args:
        path: The file.
        time: Its modification time, in ns since 1970; None means unknown, or no file.
        filesystem: Its file system.
        meter: Counts what is read.
    """
    parsed = None if time is None else _read(path, filesystem, meter)
    if parsed is not None and len(parsed.data) >= WAIT_BYTES:
        parsed.locate_statistics()
    metadata = None if parsed is None else parsed.metadata
    if (
        time is None
        or parsed is None
        or metadata is None
        or not metadata.num_row_groups
        or not metadata.num_columns
    ):
        return None
    if not all(
        parsed.is_sound(g, c)
        for g in range(metadata.num_row_groups)
        for c in range(metadata.num_columns)
    ):
        return None
    groups: dict[str, list[int]] = {}
    try:
        for g in range(metadata.num_row_groups):
            name = metadata.row_group(g).column(0).file_path
            groups.setdefault(name.strip("/") if name else "", []).append(g)
    except UnicodeDecodeError:  # a damaged name; the files' own footers are read
        return None
    groups.pop("", None)
    return MetadataFile(parsed, FooterBlock.of(parsed), time, groups) if groups else None


def read_common_schema(
    folder: str, names: Collection[str], filesystem: pafs.FileSystem, meter: Meter
) -> pa.Schema | None:
    """Read the schema from `_common_metadata`, else `_metadata`; None if neither can be read.

    Args:
        folder: The folder.
        names: The names of the files that lie in it.
        filesystem: Its file system.
        meter: Counts what is read.
    """
    for name in ("_common_metadata", "_metadata"):
        if name not in names:
            continue
        parsed = _read(in_folder(folder, name), filesystem, meter)
        if parsed is not None and parsed.head.metadata.num_columns:
            return parsed.head.schema.remove_metadata()
    return None


def _read(path: str, filesystem: pafs.FileSystem, meter: Meter) -> ParsedFooter | None:
    if filesystem.get_file_info(path).type != pafs.FileType.File:
        return None
    try:
        with filesystem.open_input_file(path) as source:
            parsed, _ = read_footer(source)
    except READ_ERRORS:
        return None
    meter.count("summary files", 1, len(parsed.data) + 8)
    return parsed
