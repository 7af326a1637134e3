"""A column chunk, as the footer describes it."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Final, NamedTuple

from skipstone.bindings.tables.parquet.pages.page_file import ChunkPart
from skipstone.bindings.tables.parquet.pages.ranges import Span
from skipstone.kernels.decode import footer_loops as at
from skipstone.kernels.decode import page_layout as layout

# Bytes of a page index; a longer one is not read. A million pages take some 20 MB.
MAX_INDEX: Final = 1 << 25

# The slots that describe a chunk.
_described_by = operator.itemgetter(
    at.FLAGS, layout.CODEC, layout.VALUES, layout.UNCOMPRESSED, layout.DATA, layout.DICTIONARY,
    at.BYTES,
)  # fmt: skip


class Chunk(NamedTuple):
    """A column chunk, as the footer describes it.

    Attributes:
        codec: Parquet's number of the compression.
        rows: The number of rows.
        values: The number of values, NULLs included. Rows of lists and maps have one each, or more.
        unpacked: The bytes of all pages after decompression.
        start, stop: Where its pages lie in the file.
        offset_index, column_index: Where its page indexes lie; None if it has none.
        repeated: The greatest repetition level, if some rows have several values; else 0.
    """

    codec: int
    rows: int
    values: int
    unpacked: int
    start: int
    stop: int
    offset_index: Span | None
    column_index: Span | None
    repeated: int = 0

    @staticmethod
    def of(slots: Sequence[int], size: int, rows: int, repeated: int = 0) -> Chunk | None:
        """Return the chunk of a footer's slots; None if they contradict each other.

        Args:
            slots: Slots of `page_slots_of`, `WIDTH` of them.
            size: The size of the file, in bytes.
            rows: The number of rows.
            repeated: The greatest repetition level; 0 means that each row has one value.
        """
        bits, codec, values, unpacked, data, dictionary, nbytes = _described_by(slots)
        # Old writers set the dictionary's offset to 0.
        start = dictionary if bits >> layout.DICTIONARY & 1 and 0 < dictionary < data else data
        stop = start + nbytes
        if not (4 <= start < stop <= size and rows >= 0 and 0 <= unpacked < 1 << 47):
            return None
        if values < rows or (values > rows and not repeated):
            return None
        offsets = _span(slots, layout.OFFSET_INDEX, layout.OFFSET_INDEX_SIZE, size)
        columns = _span(slots, layout.COLUMN_INDEX, layout.COLUMN_INDEX_SIZE, size)
        repeated = repeated if values > rows else 0
        return Chunk(codec, rows, values, unpacked, start, stop, offsets, columns, repeated)

    @property
    def nbytes(self) -> int:
        """The bytes of all pages."""
        return self.stop - self.start

    @property
    def spans(self) -> tuple[Span]:
        """The place of all pages in the file, as one span."""
        return ((self.start, self.stop),)

    @property
    def dictionary(self) -> bool:
        """False: `spans` does not tell whether the first page is a dictionary."""
        return False

    @property
    def chunk(self) -> None:
        """None: the pages were not read before."""

    def with_bytes(self, data: memoryview) -> ChunkPart:
        """Return all pages, whose bytes were read before."""
        known = self.start, data
        return ChunkPart(*self[:4], self.nbytes, self.spans, chunk=known)


def _span(slots: Sequence[int], offset: int, length: int, size: int) -> Span | None:
    if not slots[at.FLAGS] >> offset & slots[at.FLAGS] >> length & 1:
        return None
    start, stop = slots[offset], slots[offset] + slots[length]
    return (start, stop) if 4 <= start < stop <= min(size, start + MAX_INDEX) else None
