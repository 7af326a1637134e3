"""The footer of a Parquet file: fetched once, and parsed only as needed.

A footer has a *head*, which concerns the whole file: columns, writer, key-value metadata. Files of
one writer often have identical heads, and then share one `Head`. A compiled loop locates the
statistics of row groups (kernels/decode/footer_layout.py). Where the loop is not available, pyarrow
reads them, after Python has checked that this is safe (bindings/tables/parquet/thrift.py).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from skipstone.bindings.tables.files import UNKNOWN, Ints
from skipstone.bindings.tables.identity import FileIdentity
from skipstone.bindings.tables.parquet import thrift
from skipstone.bindings.tables.parquet.heads import (
    MAGIC,
    Head,
    Heads,
    parse_footer,
    physical_type_of,
)
from skipstone.bindings.tables.parquet.page_locations import page_locations_in_python
from skipstone.bindings.tables.parquet.pages.ranges import Ranges
from skipstone.ir.cached import cached_property
from skipstone.kernels.decode import page_layout
from skipstone.kernels.decode.footer_layout import Layout, is_compiled, layout_of
from skipstone.kernels.decode.footer_loops import (
    BLOOM,
    BLOOM_SIZE,
    DEFINED,
    FLAGS,
    MAX_BYTES,
    REPEATED,
    UNENCODED,
)
from skipstone.kernels.decode.page_layout import PageSlots
from skipstone.kernels.decode.spans import Bytes
from skipstone.kernels.run.lru_cache import LruCache

# Bytes that are first read from a file's end; a second read costs little if the file is local.
FIRST_FETCH, LOCAL_FETCH = 1 << 16, 1 << 13
# Where bytes are kept, a 512th of a remote file is fetched with its footer, up to `MAX_AHEAD`
# bytes: the page indexes, which precede the footer, take less than that in most files.
SHARE_AHEAD, MAX_AHEAD = 9, 1 << 18
MAX_LAYOUT: Final = 1 << 26  # bytes; longer footers are left to pyarrow
SMALL_FOOTER: Final = 1 << 14  # bytes, below which several footers are searched for pages together
# Total bytes of footers in a process that Python searches for pages before a loop takes over: up to
# `LOAD_BYTES` no loop is loaded from disk, up to `COMPILE_BYTES` none is compiled. Python takes
# 0.2 ms for 1 KB.
LOAD_BYTES, COMPILE_BYTES, MAX_PYTHON = 1 << 16, 1 << 19, 1 << 20
_read_by_python = 0
# Estimated memory of a parsed footer: `KEPT_BYTES`, and `MEMORY_PER_BYTE` for each byte of its
# data, mostly for the slots of its column chunks. `MAX_KEPT` limits the footers that are cached for
# later readers.
KEPT_BYTES, MEMORY_PER_BYTE, MAX_KEPT = 1 << 12, 4, 1 << 24
_recent: Final = LruCache[FileIdentity, "ParsedFooter"](MAX_KEPT)
READ_ERRORS: Final = (OSError, pa.ArrowException, ValueError)  # how pyarrow refuses a footer


class ParsedFooter:
    """A footer.

    Args:
        data: The bytes of the footer.
        heads: Heads of other files, to be shared; new ones are added.
        head: Its head if that is known already.

    Attributes:
        data: The bytes, uint8.
        head: The part of the footer that concerns the whole file. Until the statistics or the pages
            are located, it does not say that columns have the order of their type.
    """

    def __init__(
        self, data: bytes | Bytes, heads: Heads | None = None, head: Head | None = None
    ) -> None:
        self.data: Bytes = np.frombuffer(data, np.uint8)
        self._layout: Layout | None = None
        self._page_rows: Ints | None = None
        self._blooms: dict[tuple[int, int], tuple[int, int | None]] = {}
        self._is_located = False
        if head is not None:
            self.head = head
            return
        heads = heads or Heads()
        if is_compiled():
            self._locate_at_first(heads)
        if self._layout is None:
            self.head = heads.of_metadata(self.metadata)

    @property
    def layout(self) -> Layout | None:
        """Where the statistics of row groups lie in the data.

        None if the loop is not compiled, or does not understand the footer.
        """
        if not self._is_located and is_compiled():
            self.locate_statistics()
        return self._layout

    def _find_layout(self) -> Layout | None:
        self._is_located = True
        return layout_of(self.data) if len(self.data) <= MAX_LAYOUT else None

    def _locate_at_first(self, heads: Heads) -> None:
        """Locate the statistics, and make the head of the rest without parsing the whole."""
        layout = self._find_layout()
        if layout is None:
            return
        try:
            self.head = heads.of_bytes(layout.rest, layout.orders)
        except READ_ERRORS:  # pyarrow reports the problem when it parses the whole footer
            return
        self._layout = layout if layout.fits(self.head.metadata.num_columns) else None

    def locate_statistics(self) -> None:
        """Locate the statistics now if the loop was not compiled when the footer was read."""
        if self._is_located:
            return
        layout = self._find_layout()
        if layout is not None and layout.fits(self.head.metadata.num_columns):
            self._layout, self.head = layout, self.head.with_orders(layout.orders)

    def __reduce__(self) -> tuple[type[ParsedFooter], tuple[bytes]]:
        return ParsedFooter, (self.data.tobytes(),)

    @cached_property
    def metadata(self) -> pq.FileMetaData:
        """The whole footer, parsed by pyarrow."""
        return parse_footer(self.data.tobytes())

    @cached_property
    def page_locations(self) -> Ints | None:
        """The slots that say where the pages of column chunks lie (kernels/decode/page_layout.py).

        None if they are unknown, or if the loops that find them are not compiled yet and Python
        would be slow.
        """
        global _read_by_python
        if len(self.data) > MAX_LAYOUT:
            return None
        _read_by_python += len(self.data)
        if (
            page_layout.is_compiled()
            or (
                (_read_by_python > LOAD_BYTES or "llvmlite.binding" in sys.modules)
                and page_layout.load_from_disk()
            )
            or (_read_by_python > COMPILE_BYTES and page_layout.compiled_or_start())
        ):
            return self._slots_of_pages()
        if _read_by_python > MAX_PYTHON:
            return None
        try:
            return self._located_in(thrift.read_struct(self.data.tobytes()))
        except thrift.ThriftError:
            return None

    def _located_in(self, whole: thrift.Fields) -> Ints | None:
        """Return `page_locations`, found in the parsed footer."""
        found = page_locations_in_python(whole)
        if found is None:
            return None
        self._blooms = found.blooms
        if self._layout is None:
            self.head = self.head.with_orders(found.orders)
        return found.slots

    @property
    def is_page_located(self) -> bool:
        """True if `page_locations` is known, even if it is None."""
        return "page_locations" in self.__dict__

    def set_page_slots(self, found: PageSlots | None) -> None:
        """Set `page_locations` to what the loop found."""
        if found is not None:
            self._page_rows = found.rows
        self.__dict__["page_locations"] = None if found is None else found.slots

    def _slots_of_pages(self) -> Ints | None:
        found = page_layout.page_slots_of(self.data)
        self.set_page_slots(found)
        return None if found is None else found.slots

    def locate_pages(self) -> None:
        """Locate statistics and pages now if the loops were not compiled when they were needed."""
        self.locate_statistics()
        if self.page_locations is None and len(self.data) <= MAX_LAYOUT:
            self._slots_of_pages()

    @cached_property
    def rows(self) -> Ints:
        """Rows of each row group."""
        if self._layout is None and self._page_rows is not None:
            return self._page_rows
        if self.layout is not None:
            return self.layout.rows
        return np.array(
            [self.metadata.row_group(g).num_rows for g in range(self.metadata.num_row_groups)],
            np.int64,
        )

    @cached_property
    def nbytes(self) -> Ints:
        """Compressed bytes of each row group; -1 is unknown."""
        if self.layout is not None:
            return self.layout.nbytes
        sizes: list[list[Any]] = [
            [chunk.get(thrift.BYTES) for chunk in group] for group in self.chunks
        ]
        if len(sizes) != self.metadata.num_row_groups:
            return np.full(self.metadata.num_row_groups, UNKNOWN)
        return np.array(
            [
                sum(g) if all(type(n) is int and 0 <= n <= MAX_BYTES for n in g) else UNKNOWN
                for g in sizes
            ],
            np.int64,
        )

    @cached_property
    def chunks(self) -> list[list[thrift.Fields]]:
        """The fields of the column chunks, per row group; empty if they cannot be read safely."""
        global _read_by_python
        try:
            whole = thrift.read_struct(self.data.tobytes())
            found = thrift.column_chunks(whole)
        except thrift.ThriftError:
            return []
        # Python locates the pages, too: parsing the footer again would take longer.
        if not self.is_page_located and _read_by_python + len(self.data) <= MAX_PYTHON:
            _read_by_python += len(self.data)
            self.__dict__["page_locations"] = self._located_in(whole)
        return found

    def chunk(self, group: int, column: int) -> thrift.Fields:
        """Return the fields of one column chunk; empty if they are unknown."""
        groups = self.chunks
        return groups[group][column] if group < len(groups) and column < len(groups[group]) else {}

    @property
    def has_blooms(self) -> bool:
        """True if a column chunk is known to have a bloom filter."""
        if self.layout is None:
            return bool(self._blooms)
        return bool((self.layout.chunks[:, :, FLAGS] >> BLOOM & 1).any())

    def bloom(self, group: int, column: int) -> tuple[int, int | None] | None:
        """Return the offset and the length of a column chunk's bloom filter, as the footer says.

        None means that it has none, or that the footer has to be parsed again to find it.
        """
        if self.layout is None:
            return self._blooms.get((group, column))
        slots = self.layout.chunks[group, column].tolist()
        if not slots[FLAGS] >> BLOOM & 1:
            return None
        return slots[BLOOM], slots[BLOOM_SIZE] if slots[FLAGS] >> BLOOM_SIZE & 1 else None

    def is_safe(self, group: int, column: int) -> bool:
        """Return True if pyarrow can read a column chunk that the loop left unresolved.

        If the loop has read the footer, the caller never asks about a chunk whose type, or the size
        of a bound, contradicts the schema. Then only the counts of levels are compared here.
        """
        if self.layout is None:
            return self.is_sound(group, column)
        slots, levels = self.layout.chunks[group, column], self.head.levels[column]
        if slots[FLAGS] >> UNENCODED & 1 and self.head.physical[column][0] != "BYTE_ARRAY":
            return False
        return all(
            slots[slot] in (0, greatest + 1)
            for slot, greatest in zip((REPEATED, DEFINED), levels, strict=True)
        )

    def is_sound(self, group: int, column: int) -> bool:
        """Return True if pyarrow (26.0) can read a column chunk safely.

        Some damaged chunks end the process in pyarrow: those whose type differs from the schema's,
        whose bound has fewer bytes than a value, or whose number of level counts is wrong.
        """
        chunk = self.chunk(group, column)
        if column >= len(self.head.physical):
            return False
        number, size = physical_type_of(*self.head.physical[column])
        stats, sizes = chunk.get(thrift.STATISTICS, {}), chunk.get(thrift.SIZES, {})
        if (
            chunk.get(thrift.TYPE) != number
            or not isinstance(stats, dict)
            or (thrift.UNENCODED in sizes and self.head.physical[column][0] != "BYTE_ARRAY")
        ):
            return False
        bounds = [
            stats[f] for f in (thrift.OLD_MIN, thrift.OLD_MAX, thrift.MIN, thrift.MAX) if f in stats
        ]
        counts = zip(
            (sizes.get(f, ()) for f in (thrift.REPEATED, thrift.DEFINED)),
            self.head.levels[column],
            strict=True,
        )
        return all(isinstance(b, bytes) and (not size or len(b) == size) for b in bounds) and all(
            not c or len(c) == greatest + 1 for c, greatest in counts
        )


def locate_pages_together(footers: Iterable[ParsedFooter]) -> None:
    """Locate the pages of small footers in one call, if the loops are compiled.

    A call for each footer would take longer than the work itself.
    """
    new = [f for f in footers if not f.is_page_located and len(f.data) < SMALL_FOOTER]
    if len(new) > 1 and page_layout.is_compiled():
        for footer, found in zip(
            new, page_layout.all_page_slots([f.data for f in new]), strict=True
        ):
            footer.set_page_slots(found)


def read_footer(
    source: pa.NativeFile,
    heads: Heads | None = None,
    *,
    ranges: Ranges | None = None,
) -> tuple[ParsedFooter, int]:
    """Read a file's footer.

    Args:
        source: The file.
        heads: Heads of other files, to be shared; new ones are added.
        ranges: Reads the file, so that what it reads is kept for later; if None, `source` reads it.

    Returns:
        The footer, and the number of bytes that were read from storage.

    Raises:
        OSError, ArrowException, ValueError: the footer cannot be read, or there is none.
    """
    if ranges is None:
        footer, nbytes = footer_bytes(source)
    else:
        footer, nbytes = footer_bytes(source, local=ranges.local, read_at=ranges.read_at)
    return ParsedFooter(footer, heads), nbytes


def footer_of(ranges: Ranges, heads: Heads) -> ParsedFooter:
    """Return a file's footer, from an earlier read if the file has not changed.

    Args:
        ranges: Reads the file.
        heads: As for `read_footer`.

    Raises:
        OSError, ArrowException, ValueError: the footer cannot be read, or there is none.
    """
    identity = ranges.identity
    found = None if identity is None else _recent.find(identity)
    if found is None:
        found, _ = read_footer(ranges.source, heads, ranges=ranges)
        if identity is not None:
            _recent.put(identity, found, KEPT_BYTES + MEMORY_PER_BYTE * len(found.data))
    return found


def footer_bytes(
    source: pa.NativeFile,
    *,
    local: bool = False,
    read_at: Callable[[int, int], bytes] | None = None,
    expected: int = 0,
) -> tuple[bytes, int]:
    """Read a file's footer; errors and results as for `read_footer`, but not parsed.

    Args:
        source: The file.
        local: True if requests cost little.
        read_at: Reads a number of bytes of the file from a position on, and keeps them; None means
            that `source` reads them.
        expected: The bytes at the end of the file that probably hold the footer.
    """
    size = source.size()
    if read_at is None:
        read_at = source.read_at
    elif not (local or expected):
        expected = min(size >> SHARE_AHEAD, MAX_AHEAD)
    first = min(size, max(LOCAL_FETCH if local else FIRST_FETCH, expected))
    end = read_at(first, size - first)
    length = int.from_bytes(end[-8:-4], "little")
    if end[-4:] != MAGIC or not 0 < length <= size - 8:
        pq.read_metadata(source)  # its error explains the problem
        raise ValueError("it does not end as a Parquet file")
    if length + 8 <= len(end):
        return end[-8 - length : -8], first
    return read_at(length + 8 - first, size - 8 - length) + end[:-8], length + 8
