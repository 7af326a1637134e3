"""Footers of many files in blocks: their bytes one after another, compressed in full blocks.

One call of a compiled loop finds the statistics of a block's row groups
(kernels/decode/footer_layout.py). The result takes 100 bytes for each column chunk, so it is kept
only while a block is open. A closed block is decompressed and read again for each set of columns
that a plan names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.tables.files import UNKNOWN, Ints
from skipstone.bindings.tables.parquet.footer import MAX_LAYOUT, READ_ERRORS, ParsedFooter
from skipstone.bindings.tables.parquet.heads import Head, Heads
from skipstone.ir.cached import cached_property
from skipstone.kernels.decode import footer_loops as at
from skipstone.kernels.decode.footer_layout import (
    Layouts,
    has_rest,
    is_compiled,
    layouts_of,
    rest_of,
)
from skipstone.kernels.decode.spans import Bytes, gathered
from skipstone.kernels.pack.planes import Mask

BLOCK: Final = 1 << 20  # bytes of a block, after which it is closed
CODEC, LEVEL = "zstd", 1  # 1 MiB of footers of one writer takes 1 ms, and becomes some 80 KB
WIDE: Final = 64  # bytes a row group; wider bounds of a column are copied before blocks are joined
MAX_PARSED: Final = 64  # footers of an open block
S = TypeVar("S", bound=np.generic)
BOUNDS: Final = ((at.MIN, at.MIN_SIZE), (at.MAX, at.MAX_SIZE))


class TwinColumns(ValueError):
    """A file has two columns of one name, which Arrow cannot tell apart."""


class ChunkSlots(NamedTuple):
    """The statistics slots that the loop found for one column in n row groups.

    Attributes:
        data: The bytes that hold the bounds.
        slots: The slots of the chunks, shape (n, WIDTH); zeros for row groups without them.
        present: Mask of the row groups with slots, shape (n,).
    """

    data: Bytes
    slots: Ints
    present: Mask


class ChunkFlags(NamedTuple):
    """The slots of a column that are needed after its bounds are decoded, each of shape (n,)."""

    known: Ints
    bloom: Ints
    bloom_size: Ints
    present: Mask

    @classmethod
    def of(cls, chunks: ChunkSlots) -> ChunkFlags:
        """Return copies of some slots."""
        known = chunks.slots[:, at.FLAGS]
        if (known >> at.BLOOM & 1).any():
            bloom, size = (chunks.slots[:, s].copy() for s in (at.BLOOM, at.BLOOM_SIZE))
        else:
            bloom = size = np.broadcast_to(np.zeros(1, np.int64), known.shape)
        return cls(_copied(known), bloom, size, _copied(chunks.present))


def _copied(values: npt.NDArray[S]) -> npt.NDArray[S]:
    """Return a copy; it takes no memory if all values are equal, as those of one writer are."""
    if len(values) and (values == values[0]).all():
        return np.broadcast_to(values[:1].copy(), values.shape)
    return values.copy()


class OpenBlock:
    """The bytes of a block.

    Attributes:
        data: The bytes of all footers.
        starts: The start of each footer, then the end of the last one, shape (m + 1,).
        max_parsed: The most parsed footers that it keeps; one may take 50 KB.
    """

    def __init__(self, data: Bytes, starts: Ints, max_parsed: int = 1) -> None:
        self.data, self.starts, self._max_parsed = data, starts, max_parsed
        self._parsed: dict[int, ParsedFooter] = {}

    @cached_property
    def layouts(self) -> Layouts:
        """Return what the loop finds; wait until it is compiled."""
        return layouts_of(self.data, self.starts)

    def bytes_of(self, number: int) -> Bytes:
        """Return the bytes of one footer."""
        start, stop = self.starts[number : number + 2].tolist()
        return self.data[start:stop]

    def footer(self, number: int, head: Head | None, heads: Heads | None = None) -> ParsedFooter:
        """Return one footer.

        Args:
            number: Its number in the block.
            head: Its head if it is known.
            heads: Heads of other files, to be shared if its head is not known.

        Raises:
            OSError, ArrowException, ValueError: it cannot be parsed; never if its head is known.
        """
        found = self._parsed.get(number)
        if found is None:
            if len(self._parsed) >= self._max_parsed:
                self._parsed.clear()
            found = self._parsed[number] = ParsedFooter(self.bytes_of(number), heads, head)
        return found

    def forget_parsed(self) -> None:
        """Parse footers again, because their heads have changed."""
        self._parsed.clear()


class FooterBlock:
    """The footers of m files.

    Args:
        footers: The bytes of each footer, or the reason why it could not be read.

    Attributes:
        nbytes: The bytes of all footers.
        is_parsed: True if `parse` was called.
        heads: The head of each footer, length m; None if it cannot be read.
        errors: Number -> why a footer cannot be read.
        counts: The row groups of each footer, shape (m,).
        rows: The rows of each row group, those of one footer after another, shape (k,).
    """

    counts: Ints
    rows: Ints

    def __init__(self, footers: Sequence[bytes | Exception]) -> None:
        data = [b"" if isinstance(f, Exception) else f for f in footers]
        starts = np.zeros(len(data) + 1, np.int64)
        np.cumsum([len(d) for d in data], out=starts[1:])
        self.nbytes = int(starts[-1])
        self.errors = {i: f for i, f in enumerate(footers) if isinstance(f, Exception)}
        self.heads: list[Head | None] = [None] * len(data)
        self._starts = starts
        whole = np.frombuffer(b"".join(data), np.uint8)
        self._open: OpenBlock | None = OpenBlock(whole, starts, MAX_PARSED)
        self._packed: bytes | None = None
        self.is_parsed = False
        self._found: Ints | None = None  # the loop's results, for the footers that it understood
        self._group_bytes: Ints | None = None

    @classmethod
    def of(cls, parsed: ParsedFooter) -> FooterBlock:
        """Return a block of one footer that is parsed already."""
        block = cls([parsed.data.tobytes()])
        block.heads, block.is_parsed = [parsed.head], True
        block.counts, block.rows = np.array([len(parsed.rows)]), parsed.rows
        block._group_bytes = parsed.nbytes
        if parsed.layout is not None:
            block._find(Heads(), block.open())
            block.heads = [parsed.head]
        if block.nbytes > BLOCK:
            block.close()
        return block

    def __reduce__(self) -> tuple[Callable[..., FooterBlock], tuple[list[bytes | Exception]]]:
        opened = self.open()
        each = range(len(self))
        return _restored, ([self.errors.get(i) or opened.bytes_of(i).tobytes() for i in each],)

    def __len__(self) -> int:
        return len(self.heads)

    def open(self) -> OpenBlock:
        """Return the bytes of the block; those of a closed block are decompressed."""
        if self._open is not None:
            return self._open
        data = pa.Codec(CODEC, LEVEL).decompress(self._packed, self.nbytes, asbytes=True)
        return OpenBlock(np.frombuffer(data, np.uint8), self._starts)

    def close(self) -> None:
        """Compress the bytes, and forget everything that can be found again."""
        if self._open is not None and self.nbytes:
            packed = pa.Codec(CODEC, LEVEL).compress(self._open.data, asbytes=True)
            self._packed = bytes(bytearray(packed))  # pyarrow's holds memory for the worst case
            self._open = None

    def first_groups(self) -> Ints:
        """Return the position of each footer's first row group in `rows`, shape (m,)."""
        return np.cumsum(self.counts) - self.counts

    def parse(self, heads: Heads, *, loop: bool) -> None:
        """Find the heads and the row groups of all footers.

        A footer that the loop does not understand is parsed by pyarrow. `errors` receives those
        that pyarrow also refuses.

        Args:
            heads: Heads of other files, to be shared; new ones are added.
            loop: True if the loop reads them; otherwise pyarrow reads all of them.
        """
        opened, self.is_parsed = self.open(), True
        understood = self._find(heads, opened) if loop else np.zeros(len(self), np.bool_)
        if understood.all():
            found, groups, _ = opened.layouts
            self.counts, self.rows = found[:, at.GROUPS].copy(), groups[:, 0].copy()
            self._group_bytes = groups[:, 1].copy()
        else:
            self._parse_each(heads, opened)
        for i, head in enumerate(self.heads):
            if head is not None and head.twin is not None:
                text = f"has two columns named {head.twin!r}; expected each name once"
                self._refuse(i, TwinColumns(text))

    def _parse_each(self, heads: Heads, opened: OpenBlock) -> None:
        """Parse each footer by itself; pyarrow finds the heads that are not known yet."""
        self.counts, rows = np.zeros(len(self), np.int64), [np.zeros(0, np.int64)]
        for i in range(len(self)):
            if i in self.errors:
                continue
            try:
                parsed = opened.footer(i, self.heads[i], heads)
            except READ_ERRORS as e:
                self._refuse(i, e)
                continue
            self.heads[i], self.counts[i] = parsed.head, len(parsed.rows)
            rows.append(parsed.rows)
        self.rows = np.concatenate(rows)

    def _refuse(self, number: int, error: Exception) -> None:
        self.errors[number], self.heads[number] = error, None

    def find_late(self, heads: Heads) -> None:
        """Read with the loop the footers that pyarrow parsed before the loop was compiled."""
        if self._found is None:
            opened = self.open()
            opened.forget_parsed()
            if self._find(heads, opened).all():
                self._group_bytes = opened.layouts.groups[:, 1].copy()

    def _find(self, heads: Heads, opened: OpenBlock) -> Mask:
        """Let the loop read all footers; return a mask of those that it understood."""
        if (np.diff(self._starts) > MAX_LAYOUT).any():
            self._found = np.zeros((len(self), at.FINDS), np.int64)
            return self.understood
        found = opened.layouts.found.copy()
        understood = has_rest(found)
        understood[list(self.errors)] = False
        last, head, starts, each = b"", None, self._starts.tolist(), found.tolist()
        for i in np.flatnonzero(understood).tolist():
            rest = rest_of(opened.data, starts[i], starts[i + 1], each[i])
            if rest != last:
                last, head = rest, _head_of(rest, each[i][at.ORDERS], heads)
            groups, known = each[i][at.GROUPS], self.heads[i]
            if (
                head is None
                or (groups and each[i][at.COLUMNS] != head.metadata.num_columns)
                or (known is not None and groups != self.counts[i])
            ):
                understood[i] = False
            else:
                self.heads[i] = head
        found[:, at.FOUND] = understood
        self._found = found
        return understood

    @property
    def pending(self) -> int:
        """The bytes that the loop has not read yet."""
        return self.nbytes if self._found is None else 0

    @property
    def understood(self) -> Mask:
        """Mask of the footers that the loop understood, shape (m,)."""
        if self._found is None:
            return np.zeros(len(self), np.bool_)
        return np.asarray(self._found[:, at.FOUND] == 1, np.bool_)

    def footer(self, number: int, opened: OpenBlock | None = None) -> ParsedFooter | None:
        """Return one footer; None if it cannot be read.

        Args:
            number: Its number in the block.
            opened: The open block if the caller has it, so that it is not opened again.
        """
        head = self.heads[number]
        return None if head is None else (opened or self.open()).footer(number, head)

    @property
    def group_bytes(self) -> Ints:
        """Compressed bytes of each row group, as in `rows`; -1 is unknown."""
        if self._group_bytes is None:
            opened, each = self.open(), [np.zeros(0, np.int64)]
            for i, count in enumerate(self.counts.tolist()):
                parsed = self.footer(i, opened)
                each.append(np.full(count, UNKNOWN) if parsed is None else parsed.nbytes)
            self._group_bytes = np.concatenate(each)
        return self._group_bytes

    def columns(self, number: Ints, group: Ints, positions: Iterable[Ints]) -> list[ChunkSlots]:
        """Return the slots that the loop found for columns in n row groups.

        Args:
            number: The footer of each row group, shape (n,).
            group: The number of each row group in its footer, shape (n,).
            positions: For each column, its position among the Parquet columns in each row group,
                shape (n,); -1 if the file lacks it.
        """
        understood = self.understood[number]
        if self._found is None or not understood.any():
            none, zeros = (
                np.zeros(len(number), np.bool_),
                np.zeros((len(number), at.WIDTH), np.int64),
            )
            return [ChunkSlots(np.zeros(0, np.uint8), zeros, none) for _ in positions]
        opened, out = self.open(), []
        first, columns = self._found[number, at.FIRST_CHUNK], self._found[number, at.COLUMNS]
        chunks = opened.layouts.chunks
        for position in positions:
            present = understood & (position >= 0)
            slots = np.zeros((len(number), at.WIDTH), np.int64)
            slots[present] = chunks[(first + group * columns + position)[present]]
            data = opened.data if self._open is not None else _keep_bounds(opened.data, slots)
            out.append(ChunkSlots(data, slots, present))
        return out


def _restored(footers: Sequence[bytes | Exception]) -> FooterBlock:
    block = FooterBlock(footers)
    block.parse(Heads(), loop=is_compiled())
    return block


def _head_of(rest: bytes, orders: int, heads: Heads) -> Head | None:
    """Return the head of a footer that the loop understood; None if pyarrow refuses it."""
    try:
        return heads.of_bytes(rest, orders)
    except READ_ERRORS:  # pyarrow reports the problem when it parses the whole footer
        return None


def _keep_bounds(data: Bytes, slots: Ints) -> Bytes:
    """Return the bytes of bounds alone; the slots are changed to point into them."""
    parts, after = [], 0
    for bound, size in BOUNDS:
        said = (slots[:, at.FLAGS] >> bound & 1) == 1
        spans = gathered(data, slots[:, bound], slots[:, size], said)
        ends = np.frombuffer(spans.buffers()[1], np.int32)[: len(slots)].astype(np.int64)
        slots[:, bound] = np.where(said, ends + after, 0)
        parts.append(np.frombuffer(spans.buffers()[2] or b"", np.uint8))
        after += len(parts[-1])
    return np.concatenate(parts)


def joined(parts: Sequence[ChunkSlots], order: Ints) -> ChunkSlots:
    """Join the slots that the loop found for one column in the row groups of several blocks.

    Args:
        parts: The slots of each block, which may be changed.
        order: The position of each row group of the parts, one part after another.
    """
    if len(parts) == 1:
        return parts[0]
    # The slots of an open block point into all of its bytes.
    parts = [
        part._replace(data=_keep_bounds(part.data, part.slots))
        if len(part.data) > WIDE * len(part.slots)
        else part
        for part in parts
    ]
    data = np.concatenate([np.zeros(0, np.uint8), *(p.data for p in parts)])
    starts = np.cumsum([0, *(len(p.data) for p in parts)])[:-1]
    slots, present = np.empty((len(order), at.WIDTH), np.int64), np.empty(len(order), np.bool_)
    after = 0
    for part, start in zip(parts, starts.tolist(), strict=True):
        which = order[after : after + len(part.slots)]
        slots[which], present[which] = part.slots, part.present
        for bound, _ in BOUNDS:
            slots[which, bound] += start
        after += len(part.slots)
    return ChunkSlots(data, slots, present)
