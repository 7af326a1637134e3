"""Statistics and bloom filters of the row groups of files whose footers were read, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from skipstone.bindings.tables.files import UNKNOWN, Ints
from skipstone.bindings.tables.parquet import thrift
from skipstone.bindings.tables.parquet.column_chunks import (
    ChunkBounds,
    bound_array,
    chunk_bounds,
    is_all_nan,
    no_bounds,
    trusted_bounds,
)
from skipstone.bindings.tables.parquet.encodings import encoding_of
from skipstone.bindings.tables.parquet.file_schemas import BloomLocation, FileSchema
from skipstone.bindings.tables.parquet.footer import (
    READ_ERRORS,
    ParsedFooter,
)
from skipstone.bindings.tables.parquet.footer_blocks import (
    ChunkFlags,
    ChunkSlots,
    OpenBlock,
    joined,
)
from skipstone.bindings.tables.parquet.footers import Footer, is_worth_loop
from skipstone.bindings.tables.parquet.heads import Head, Heads, physical_type_of
from skipstone.ir.arrow import arrow_of
from skipstone.ir.cached import cached_property
from skipstone.ir.node import Path, is_part
from skipstone.kernels.decode.arrays import joined_longs
from skipstone.kernels.decode.footer_layout import is_compiled
from skipstone.kernels.decode.footer_loops import (
    BLOOM,
    BLOOM_SIZE,
    BOOLEANS,
    MAX_EXACT,
    MIN_EXACT,
)
from skipstone.kernels.pack.columns import ColumnStatistics
from skipstone.kernels.pack.planes import Mask
from skipstone.kernels.run.pool import run_chunks


class FooterPart:
    """The row groups of files whose footers were read.

    `RowGroupPart` in bindings/tables/parquet/groups.py documents the members.

    Args:
        footers: The footers.
        files: The position of each file in the table.
    """

    def __init__(self, footers: Sequence[Footer], files: Ints) -> None:
        self.footers, self.files = footers, files
        numbers: dict[int, int] = {}
        self._block = np.array(
            [numbers.setdefault(id(f.block), len(numbers)) for f in footers], np.int64
        )
        self._blocks = list({id(f.block): f.block for f in footers}.values())
        self._number = np.array([f.number for f in footers], np.int64)
        _, head, self.schemas, of_head = _distinct_heads(footers)
        self.schema_number: Ints = of_head[head]
        readable = head >= 0
        counts = np.where(readable, self._of_footers([b.counts for b in self._blocks]), 1)
        for i, f in enumerate(footers):
            if f.groups is not None:
                counts[i] = len(f.groups)
        self.owner = np.repeat(np.arange(len(footers)), counts)
        numbered = np.arange(len(self.owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        self.group = np.where(readable[self.owner], numbered, UNKNOWN)
        # The number of each row group in the footer that describes it.
        self._footer_group = self.group
        if any(f.groups is not None for f in footers):
            each = zip(footers, counts.tolist(), strict=True)
            self._footer_group = joined_longs(
                np.arange(n) if f.groups is None else np.array(f.groups, np.int64) for f, n in each
            )
        self.rows = self._per_group([b.rows for b in self._blocks])
        self._loaded: dict[Path, ChunkSlots] = {}
        self._flags: dict[Path, ChunkFlags] = {}

    def _of_footers(self, values: Sequence[Ints]) -> Ints:
        """Return values of each file, given those of the footers of each block."""
        starts = np.cumsum([0, *map(len, self._blocks)])[:-1]
        return joined_longs(values)[starts[self._block] + self._number]

    def _per_group(self, values: Sequence[Ints]) -> Ints:
        """Return values of each row group, given those of each block; -1 for unreadable files."""
        starts = np.cumsum([0, *(len(b.rows) for b in self._blocks)])[:-1]
        first = starts[self._block] + self._of_footers([b.first_groups() for b in self._blocks])
        at = np.where(self.group == UNKNOWN, -1, first[self.owner] + self._footer_group)
        return np.append(joined_longs(values), UNKNOWN)[at]

    @cached_property
    def nbytes(self) -> Ints:
        """Compressed bytes of each row group; -1 is unknown."""
        self._find_late()  # so that the loop reads many footers, not Python
        return self._per_group([b.group_bytes for b in self._blocks])

    def _find_late(self) -> None:
        """Let the loop read footers that came before it was compiled, if that saves time."""
        pending = [b for b in self._blocks if b.pending]
        if pending and (is_compiled() or is_worth_loop(sum(b.pending for b in pending))):
            heads = Heads()
            for block in pending:
                block.find_late(heads)

    def load(self, paths: Sequence[Path]) -> None:
        """Look up the statistics of columns together, so that closed blocks are opened once."""
        if len(self._blocks) > 1:
            self._loaded = self._look_up(paths)

    def _look_up(self, paths: Sequence[Path]) -> dict[Path, ChunkSlots]:
        """Return the slots that the loop finds for columns in all row groups."""
        self._find_late()
        positions = [self._positions(path) for path in paths]
        if not positions:
            return {}
        block = self._block[self.owner]
        order = np.argsort(block, kind="stable")
        ends = np.searchsorted(block[order], np.arange(len(self._blocks) + 1)).tolist()
        each: list[list[ChunkSlots]] = [[] for _ in self._blocks]

        def look_up(first: int, last: int) -> None:
            for i in range(first, last):
                at = order[ends[i] : ends[i + 1]]
                number, group = self._number[self.owner[at]], self._footer_group[at]
                each[i] = self._blocks[i].columns(number, group, [p[at] for p in positions])

        run_chunks(look_up, len(each), 1)
        return {path: joined([e[i] for e in each], order) for i, path in enumerate(paths)}

    def _take_slots(self, path: Path) -> ChunkSlots:
        """Return the slots that the loop finds for a column; only its flags stay cached."""
        chunks = self._loaded.pop(path, None) or self._look_up([path])[path]
        self._flags[path] = ChunkFlags.of(chunks)
        return chunks

    def _flags_of(self, path: Path) -> ChunkFlags:
        if path not in self._flags:
            self._take_slots(path)
        return self._flags[path]

    @cached_property
    def _heads(self) -> tuple[list[Head], Ints]:
        """The distinct heads, and the index of each row group's; -1 if the footer was not read."""
        self._find_late()  # the loop may distinguish heads that look equal to pyarrow
        heads, head, _, _ = _distinct_heads(self.footers)
        return heads, head[self.owner]

    @cached_property
    def _no_counts(self) -> pa.Array:
        """Unknown counts, which most columns share."""
        return pa.nulls(len(self.owner), pa.int64())

    @cached_property
    def _julian(self) -> Mask:
        return np.array([f.julian for f in self.footers], np.bool_)[self.owner]

    def _positions(self, path: Path) -> Ints:
        """Return a column's position in the file of each row group; -1 if absent or unknown."""
        positions = (f.position(path) for f in self.schemas)
        return np.array([*(UNKNOWN if p is None else p for p in positions), UNKNOWN], np.int64)[
            self.schema_number[self.owner]
        ]

    def _from_pyarrow(
        self, which: Mask, position: Ints
    ) -> Iterator[tuple[int, Footer, pq.ColumnChunkMetaData]]:
        """Yield pyarrow's metadata of a column's chunks, where pyarrow can read them safely.

        Args:
            which: Mask of the row groups to look at.
            position: The column's position in the file of each row group.

        Yields:
            The row group, its footer, and the metadata of the chunk.
        """
        at = np.flatnonzero(which)
        refused: set[int] = set()
        opened: dict[int, OpenBlock] = {}
        for i, owner, group, column in zip(
            *(a.tolist() for a in (at, self.owner[at], self._footer_group[at], position[at])),
            strict=True,
        ):
            parsed = None if owner in refused else self._parsed(owner, opened)
            if parsed is None or not parsed.is_safe(group, column):
                continue
            try:
                chunk = parsed.metadata.row_group(group).column(column)
            except (*READ_ERRORS, IndexError):
                # The loop accepted a footer that pyarrow refuses: its statistics are unknown.
                refused.add(owner)
                continue
            yield i, self.footers[owner], chunk

    def _parsed(self, owner: int, opened: dict[int, OpenBlock]) -> ParsedFooter | None:
        """Return the footer of a file; `opened` keeps the latest block that was opened."""
        footer, number = self.footers[owner], int(self._block[owner])
        if number not in opened:
            opened.clear()
            opened[number] = footer.block.open()
        return footer.block.footer(footer.number, opened[number])

    def _per_schema(self, test: Iterable[bool]) -> Mask:
        """Return a test of the file schemas for each row group; False for unreadable files."""
        return np.array([*test, False], np.bool_)[self.schema_number[self.owner]]

    def raw(self, path: Path, arrow_type: pa.DataType) -> ColumnStatistics:
        """Return the statistics of one column, with bounds of the table's type `arrow_type`."""
        position = self._positions(path)
        lacking = self._per_schema(f.lacks(path) for f in self.schemas)
        readable = self._per_schema(f.widens(path, arrow_type) for f in self.schemas)
        plain = arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type
        chunks = self._take_slots(path)
        decoded = self._decoded(chunks, np.where(readable, position, UNKNOWN), plain)
        # The footer counts empty and missing lists among the NULLs of their elements.
        of_lists = is_part(path)
        nulls = np.where(lacking, self.rows, UNKNOWN if of_lists else decoded.nulls)
        counted = lacking if of_lists else decoded.counted | lacking
        nans = np.full(len(position), UNKNOWN, np.int64)
        low: dict[int, Any] = {}
        high: dict[int, Any] = {}
        for i, footer, chunk in self._from_pyarrow(decoded.unresolved, position):
            try:
                stats = chunk.statistics
            except READ_ERRORS:
                continue
            if stats is None:
                continue
            if stats.has_null_count and not of_lists:
                nulls[i], counted[i] = stats.null_count, True
            if stats.has_min_max and stats.physical_type != "INT96":
                low[i], high[i] = trusted_bounds(stats, footer)
                if counted[i] and is_all_nan(stats, footer):
                    nans[i] = self.rows[i] - nulls[i]
        lows = bound_array(decoded.low, decoded, low, plain)
        highs = bound_array(decoded.high, decoded, high, plain)
        if plain != arrow_type:
            lows, highs = (b.dictionary_encode().cast(arrow_type) for b in (lows, highs))
        known = nans != UNKNOWN
        return ColumnStatistics(
            lows,
            highs,
            arrow_of(nulls, counted),
            nan_count=arrow_of(nans, known) if known.any() else self._no_counts,
        )

    def _decoded(self, chunks: ChunkSlots, position: Ints, arrow_type: pa.DataType) -> ChunkBounds:
        """Return the statistics of a column that the loop decodes.

        Args:
            chunks: The column's slots that the loop found.
            position: The column's position in the file of each row group; -1 if nothing is wanted.
            arrow_type: The type of the bounds.
        """
        present = chunks.present & (position >= 0)
        if not present.any():
            return no_bounds(position >= 0)
        heads, head = self._heads
        found, first = np.unique(head[present], return_index=True)
        at = dict(zip(found.tolist(), position[present][first].tolist(), strict=True))
        by_head = {h: encoding_of(heads[h], p, arrow_type) for h, p in at.items()}
        distinct = list(set(by_head.values()))
        encoding = np.full(len(heads) + 1, UNKNOWN, np.int64)
        schema = np.zeros((len(heads) + 1, 2), np.int64)
        for h, p in at.items():
            encoding[h] = distinct.index(by_head[h])
            schema[h] = physical_type_of(*heads[h].physical[p])
        decoded = chunk_bounds(
            chunks.data,
            chunks.slots,
            0,
            schema[head],
            distinct,
            np.where(present, encoding[head], UNKNOWN),
            self._julian,
            arrow_type,
        )
        return decoded._replace(unresolved=decoded.unresolved | ((position >= 0) & ~present))

    def exact(self, path: Path) -> tuple[pa.Array, pa.Array]:
        """Return whether min and max occur in a row, as bool arrays; null is unknown."""
        position = self._positions(path)
        flags = self._flags_of(path)
        known, true = (
            [flags.known >> bit & 1 == 1 for bit in (MIN_EXACT + more, MAX_EXACT + more)]
            for more in (0, BOOLEANS)
        )
        opened: dict[int, OpenBlock] = {}
        for i in np.flatnonzero((position >= 0) & ~flags.present).tolist():
            parsed = self._parsed(int(self.owner[i]), opened)
            chunk = (
                {} if parsed is None else parsed.chunk(int(self._footer_group[i]), int(position[i]))
            )
            stats = chunk.get(thrift.STATISTICS, {})
            for side, field in enumerate((thrift.MIN_EXACT, thrift.MAX_EXACT)):
                flag = _flag(stats, field)
                known[side][i], true[side][i] = flag is not None, bool(flag)
        low, high = (arrow_of(values, mask) for values, mask in zip(true, known, strict=True))
        return low, high

    def blooms(self, path: Path) -> dict[int, BloomLocation]:
        """Return row group -> location of a column's bloom filter, where there is one."""
        position, schema_number = self._positions(path), self.schema_number[self.owner]
        stored = [f.stored_type(path) for f in self.schemas]
        flags = self._flags_of(path)
        spans = {
            i: (
                int(flags.bloom[i]),
                int(flags.bloom_size[i]) if flags.known[i] >> BLOOM_SIZE & 1 else None,
            )
            for i in np.flatnonzero(flags.known >> BLOOM & 1).tolist()
        }
        for i, _, chunk in self._from_pyarrow((position >= 0) & ~flags.present, position):
            at = getattr(chunk, "bloom_filter_offset", None)  # pyarrow 19 does not have it
            if at is not None:
                spans[i] = at, chunk.bloom_filter_length
        return {
            i: BloomLocation(*span, kind)
            for i, span in sorted(spans.items())
            if (kind := stored[schema_number[i]]) is not None
        }


def _flag(stats: thrift.Fields, field: int) -> bool | None:
    """Return a flag of a chunk's statistics; None if it is not set."""
    value = stats.get(field) if isinstance(stats, dict) else None
    return value if isinstance(value, bool) else None


def _distinct_heads(footers: Sequence[Footer]) -> tuple[list[Head], Ints, list[FileSchema], Ints]:
    """Return the distinct heads and schemas of footers.

    Returns:
        The distinct heads; the index of each file's head, -1 if its footer could not be read; the
        distinct schemas; the index of each head's schema, with a last entry of -1 for files without
        a head.
    """
    numbers: dict[int, int] = {}
    heads: list[Head] = []
    schemas: dict[FileSchema, int] = {}
    head, of_head = np.full(len(footers), UNKNOWN, np.int64), list[int]()
    for i, f in enumerate(footers):
        own = f.block.heads[f.number]
        if own is None:
            continue
        if id(own) not in numbers:
            numbers[id(own)] = len(heads)
            same_as_last = (
                heads
                and own.metadata.schema.equals(heads[-1].metadata.schema)
                and own.columns.equals(heads[-1].columns, check_metadata=True)
            )
            if same_as_last:
                of_head.append(of_head[-1])
            else:
                of_head.append(schemas.setdefault(own.file_schema.of_file(f.path), len(schemas)))
            heads.append(own)
        head[i] = numbers[id(own)]
    return heads, head, list(schemas), np.array([*of_head, UNKNOWN], np.int64)
