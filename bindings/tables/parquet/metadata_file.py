"""`_metadata` and `_common_metadata`: one file that repeats the footers of a folder's files.

Nothing ties such a file to those that it describes: they may have been replaced, or joined by others, since. A file
is described by it only where the two fit, and else says itself what it holds.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from skipstone.bindings.location import in_folder
from skipstone.bindings.plans.work import Meter
from skipstone.bindings.tables.files import Files
from skipstone.bindings.tables.parquet.footer import REFUSED, Tail, read_tail
from skipstone.bindings.tables.parquet.footers import MANY, Footer

MAGIC_BYTES, TAIL_BYTES = (
    4,
    12,
)  # before the first row group; after the last, of the shortest footer


@dataclass(frozen=True)
class Summary:
    """A `_metadata` file.

    Attributes:
        tail: What it holds.
        time: When it was written, in ns since 1970.
        groups: Path below the folder -> the row groups that are said to be of that file.
    """

    tail: Tail
    time: int
    groups: dict[str, list[int]]

    def footers(self, files: Files, folder: str) -> dict[int, Footer]:
        """What it says of the files that it fits: not older than they are, row groups within the file and without gaps."""
        out = {}
        for i, path in enumerate(files.paths.to_pylist()):
            groups = self.groups.get(path.removeprefix(folder).strip("/"))
            if (
                groups is not None
                and 0 <= files.times[i] <= self.time
                and self._fit(groups, int(files.sizes[i]))
            ):
                out[i] = Footer(path, self.tail, groups, own=False)
        return out

    def _fit(self, groups: list[int], size: int) -> bool:
        """Whether row groups, in their order, fill a file of this size from its start, but for the footer."""
        at, metadata = MAGIC_BYTES, self.tail.metadata
        for g in groups:
            chunks = [metadata.row_group(g).column(c) for c in range(metadata.num_columns)]
            for start, length in sorted((_start(c), c.total_compressed_size) for c in chunks):
                if start != at:
                    return False
                at = start + length
        return at <= size - TAIL_BYTES


def _start(chunk: pq.ColumnChunkMetaData) -> int:
    """Where a column chunk starts: with its dictionary, if it has one."""
    first = chunk.dictionary_page_offset if chunk.has_dictionary_page else None
    return int(chunk.data_page_offset if not first else min(first, chunk.data_page_offset))


def read_summary(folder: str, filesystem: pafs.FileSystem, meter: Meter) -> Summary | None:
    """A folder's `_metadata`; None: there is none that can be read, or it does not name files."""
    path = in_folder(folder, "_metadata")
    time = filesystem.get_file_info(path).mtime_ns
    tail = None if time is None else _read(path, filesystem, meter)
    if tail is not None and len(tail.data) >= MANY:
        tail.lay_out()
    metadata = None if tail is None else tail.metadata
    if (
        time is None
        or tail is None
        or metadata is None
        or not metadata.num_row_groups
        or not metadata.num_columns
    ):
        return None
    if not all(
        tail.is_sound(g, c)
        for g in range(metadata.num_row_groups)
        for c in range(metadata.num_columns)
    ):
        return None
    groups: dict[str, list[int]] = {}
    for g in range(metadata.num_row_groups):
        name = metadata.row_group(g).column(0).file_path
        groups.setdefault(name.strip("/") if name else "", []).append(g)
    groups.pop("", None)
    return Summary(tail, time, groups) if groups else None


def read_schema(folder: str, filesystem: pafs.FileSystem, meter: Meter) -> pa.Schema | None:
    """The schema in a folder's `_common_metadata` or `_metadata`; None: there is none that can be read."""
    for name in ("_common_metadata", "_metadata"):
        tail = _read(in_folder(folder, name), filesystem, meter)
        if tail is not None and tail.head.metadata.num_columns:
            return tail.head.schema.remove_metadata()
    return None


def _read(path: str, filesystem: pafs.FileSystem, meter: Meter) -> Tail | None:
    if filesystem.get_file_info(path).type != pafs.FileType.File:
        return None
    try:
        with filesystem.open_input_file(path) as source:
            tail, _ = read_tail(source)
    except REFUSED:
        return None
    meter.count("summary files", 1, len(tail.data) + 8)
    return tail
