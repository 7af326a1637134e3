"""Read the footers of many Parquet files, in parallel where storage is slow."""

from __future__ import annotations

import functools
import os
import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

import pyarrow.fs as pafs

from skipstone.bindings.location import is_local
from skipstone.bindings.plans.work import Meter
from skipstone.bindings.progress import Track
from skipstone.bindings.tables.files import UNKNOWN, Ints
from skipstone.bindings.tables.parquet.footer import (
    LOCAL_FETCH,
    READ_ERRORS,
    ParsedFooter,
    footer_bytes,
)
from skipstone.bindings.tables.parquet.footer_blocks import (
    BLOCK,
    FooterBlock,
    OpenBlock,
    TwinColumns,
)
from skipstone.bindings.tables.parquet.heads import MAGIC, Heads
from skipstone.ir.errors import SourceError, describe_error
from skipstone.kernels.decode.footer_layout import (
    compiled_or_start,
    is_compiled,
    load,
    load_from_disk,
)
from skipstone.kernels.run.pool import REQUESTS, ContextPool, map_requests, run_chunks

# Storage is slow if a footer takes this many seconds, averaged over a batch of this many files.
# With many threads a file in memory takes three times as long, because they wait for the GIL.
SLOW_SECONDS, BATCH_FILES = 0.001, 16
# The most bytes that are fetched at once because another footer was that long. For longer footers,
# a second request costs less than fetching more bytes of all others.
MAX_EXPECTED: Final = 1 << 20
# Bytes of footers. Below `LOAD_BYTES` no loop is loaded from disk, which takes 50 ms. Below
# `COMPILE_BYTES` none is compiled, as Numba alone takes 0.4 s to import. From `WAIT_BYTES` on, the
# loop is waited for: Python would take more than a second.
LOAD_BYTES, COMPILE_BYTES, WAIT_BYTES = 1 << 16, 1 << 20, 1 << 22
GROUP: Final = 8  # full blocks that are parsed together, by all threads
OPEN_BLOCKS: Final = 4  # left open, so that plans of small tables decompress nothing; 2 MB each
_asked = 0  # bytes of footers that this process was asked to read
WAY_OUT: Final = (
    "scan a list of the other files, or keep it in plans by scan_parquet(..., "
    'on_error="keep") (--keep-unreadable)'
)

# Extensions of files that often lie beside Parquet files.
OTHER_FORMATS: Final = re.compile(
    r"\.(csv|tsv|txt|jsonl?|ndjson|orc|avro|arrow|feather|xlsx?|zip)(\.gz)?$", re.IGNORECASE
)
HAS_PREAD: Final = hasattr(os, "pread")  # Windows lacks it
FLAGS: Final = os.O_RDONLY | getattr(os, "O_BINARY", 0)

File = tuple[str, int]  # the path of a file, and its size in bytes; -1 is unknown


@dataclass(slots=True)
class Footer:
    """The footer of one file, taken from the file itself or from `_metadata`.

    Attributes:
        path: The path of the file.
        block: The block that holds the footer.
        number: The number of the footer in the block.
        groups: The row groups of the footer that belong to the file, in the file's order; None
            means all, because the footer is the file's own. `_metadata` does not say who wrote the
            file.
    """

    path: str
    block: FooterBlock
    number: int = 0
    groups: Sequence[int] | None = None

    @property
    def own(self) -> bool:
        """True if the footer is the file's own."""
        return self.groups is None

    @property
    def error(self) -> SourceError | None:
        """The reason why the footer could not be read."""
        error = self.block.errors.get(self.number)
        return None if error is None else SourceError(f"{self.path}: {_describe(error)}")

    @property
    def parsed(self) -> ParsedFooter | None:
        """The footer, or that of `_metadata`; None if it could not be read."""
        return self.block.footer(self.number)

    @property
    def julian(self) -> bool:
        """True if Spark may have written the file in the Julian calendar, as far as is known."""
        head = self.block.heads[self.number]
        return not self.own or (head is not None and head.julian)

    @property
    def orders_nan(self) -> bool:
        """True if NaN is known to count as the greatest value in the file's bounds."""
        head = self.block.heads[self.number]
        return self.own and head is not None and head.orders_nan


class FooterMap(Mapping[str, ParsedFooter]):
    """Path -> footer, for the files whose own footer was read."""

    def __init__(self, footers: Sequence[Footer]) -> None:
        self._footers = footers
        self._by_path: dict[str, Footer] | None = None
        self._opened: tuple[FooterBlock, OpenBlock] | None = None

    def _found(self) -> dict[str, Footer]:
        if self._by_path is None:
            readable = (f for f in self._footers if f.own and f.block.heads[f.number] is not None)
            self._by_path = {f.path: f for f in readable}
        return self._by_path

    def __getitem__(self, path: str) -> ParsedFooter:
        footer = self._found()[path]
        opened = self._opened
        if opened is None or opened[0] is not footer.block:
            # The latest block stays open, because footers are requested in table order.
            opened = self._opened = footer.block, footer.block.open()
        parsed = footer.block.footer(footer.number, opened[1])
        assert parsed is not None
        return parsed

    def __iter__(self) -> Iterator[str]:
        return iter(self._found())

    def __len__(self) -> int:
        return len(self._found())


def read_footers(
    paths: Sequence[str],
    filesystem: pafs.FileSystem,
    meter: Meter,
    *,
    keep: bool,
    sizes: Ints | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[Footer]:
    """Read footers; in parallel where storage is slow.

    Args:
        paths: The files.
        filesystem: Their file system.
        meter: Counts the footers and bytes.
        keep: True if a file whose footer cannot be read is kept, with its error.
        sizes: The sizes of the files in bytes as they were listed; -1 is unknown, and None means
            that all are.
        progress: Called with the number of footers that were read so far.

    Returns:
        The footers, in the order of `paths`.

    Raises:
        SourceError: a file is missing, truncated, not Parquet or encrypted, and `keep` is False.
    """
    known = [UNKNOWN] * len(paths) if sizes is None else sizes.tolist()
    reading = _Reading(list(zip(paths, known, strict=True)), filesystem, meter, progress, keep)
    reading.read()
    blocks = reading.parsed()
    numbers = ((block, i) for block in blocks for i in range(len(block)))
    return [Footer(path, block, i) for path, (block, i) in zip(paths, numbers, strict=True)]


def is_worth_loop(nbytes: int) -> bool:
    """Return True if the loop should read this many bytes of footers.

    It should if they are large, or if the process has read many and the loop is compiled. If it has
    read many and there is no loop, this call starts compiling in the background.
    """
    global _asked
    _asked += nbytes
    return nbytes > 0 and (
        nbytes >= WAIT_BYTES
        or (_asked >= LOAD_BYTES and load_from_disk())
        or (_asked >= COMPILE_BYTES and compiled_or_start())
    )


class _Reading:
    """The state of reading footers into blocks, most of which are closed."""

    def __init__(
        self,
        files: Sequence[File],
        filesystem: pafs.FileSystem,
        meter: Meter,
        progress: Callable[[int], None] | None,
        keep: bool,
    ) -> None:
        self._files, self._filesystem, self._meter = files, filesystem, meter
        self._progress, self._keep = progress, keep
        self._heads, self._done, self._size = Heads(), 0, 0
        self._blocks: list[FooterBlock] = []

    def read(self) -> None:
        """Read the footers; end early at a file that cannot be read, unless such files are kept."""
        held, size = list[bytes | Exception](), 0
        with (
            Track("footers", len(self._files), "files") as track,
            closing(_iter_batches(self._files, self._filesystem)) as batches,
        ):
            for batch in batches:
                if size >= BLOCK:
                    self._end_block(held)
                    held, size = [], 0
                self._count([nbytes for _, nbytes in batch])
                track.step(len(batch))
                held += [footer for footer, _ in batch]
                sizes = [len(f) for f, _ in batch if not isinstance(f, Exception)]
                size, self._size = size + sum(sizes), self._size + sum(sizes)
                if len(sizes) < len(batch) and not self._keep:
                    break
        if held:
            self._blocks.append(FooterBlock(held))

    def _count(self, sizes: Sequence[int]) -> None:
        self._meter.count("footers", len(sizes), sum(sizes))
        if self._progress is not None:
            for n in range(len(sizes)):
                self._progress(self._done + n + 1)
        self._done += len(sizes)

    def _end_block(self, footers: Sequence[bytes | Exception]) -> None:
        """Add a full block, which stays open until it is parsed, or closed by the next group."""
        self._blocks.append(FooterBlock(footers))
        if not is_compiled() and self._size * len(self._files) // self._done >= WAIT_BYTES:
            load()
        if len(self._blocks) % GROUP == 0:
            group = self._blocks[-GROUP:]
            if is_compiled():
                self._parse(group, loop=True)
            for block in group:
                self._close(block)

    def _close(self, block: FooterBlock) -> None:
        """Close a block, unless it is one of the first of the table."""
        if all(block is not one for one in self._blocks[:OPEN_BLOCKS]):
            block.close()

    def _parse(self, blocks: Sequence[FooterBlock], *, loop: bool) -> None:
        """Parse blocks, and close all but the last one of the table and its first ones."""

        def work(first: int, last: int) -> None:
            for block in blocks[first:last]:
                block.parse(self._heads, loop=loop)
                if block is not self._blocks[-1]:
                    self._close(block)

        run_chunks(work, len(blocks), 1 if loop else len(blocks))

    def parsed(self) -> list[FooterBlock]:
        """Return the blocks, all of them parsed.

        Raises:
            SourceError: a footer cannot be read, and such files are not kept.
        """
        unparsed = [block for block in self._blocks if not block.is_parsed]
        if self._size >= COMPILE_BYTES:
            compiled_or_start()
        # They wait for the loop only if Python would take long.
        nbytes = sum(block.nbytes for block in unparsed)
        loop = is_compiled() or nbytes >= WAIT_BYTES or (nbytes >= LOAD_BYTES and load_from_disk())
        self._parse(unparsed, loop=loop)
        first = 0
        for block in self._blocks:
            if block.errors and not self._keep:
                number = min(block.errors)
                error = Footer(self._files[first + number][0], block, number).error
                way_out = _way_out(self._files[first + number][0])
                raise SourceError(f"{error}; {way_out}") from error
            first += len(block)
        return self._blocks


def _iter_batches(
    files: Sequence[File], filesystem: pafs.FileSystem
) -> Generator[list[tuple[bytes | Exception, int]]]:
    """Yield footers in the files' order: one by one while storage is quick, else concurrently."""
    read = functools.partial(_read_footer, filesystem=filesystem)
    at, quick = 0, is_local(filesystem)
    while quick and at < len(files):
        start, batch = time.perf_counter(), files[at : at + BATCH_FILES]
        footers = [read(file) for file in batch]
        quick = time.perf_counter() - start < SLOW_SECONDS * len(batch)
        at += len(batch)
        yield footers
    if not is_local(filesystem):
        footers = map_requests(read, files[:REQUESTS])
        at = len(footers)
        yield footers
    if at == len(files):
        return
    # Footers of one table are of similar size, so asking for as many bytes saves second requests.
    longest = max((len(found) + 8 for found, _ in footers if isinstance(found, bytes)), default=0)
    read = functools.partial(read, expected=min(longest + longest // 8, MAX_EXPECTED))
    with ContextPool(REQUESTS, "skipstone-footers") as readers:
        try:
            # Several files at a time: handing over a task takes as long as reading a footer.
            step = max(1, min(BATCH_FILES, (len(files) - at) // (4 * REQUESTS)))
            batches = (files[i : i + step] for i in range(at, len(files), step))
            yield from readers.map(lambda batch: [read(file) for file in batch], batches)
        finally:
            readers.shutdown(wait=False, cancel_futures=True)


def _read_footer(
    file: File, filesystem: pafs.FileSystem, expected: int = 0
) -> tuple[bytes | Exception, int]:
    """Return a footer, or why it cannot be read, and the bytes that were read from storage.

    Args:
        file: The file.
        filesystem: Its file system.
        expected: The bytes that its footer probably takes.
    """
    path, size = file
    local = is_local(filesystem)
    try:
        if (
            HAS_PREAD
            and size > 0
            and isinstance(filesystem, pafs.LocalFileSystem)
            and (found := _pread(path, size)) is not None
        ):
            return found
        if local:
            with filesystem.open_input_file(path) as source:
                return footer_bytes(source, local=True, expected=expected)
        from skipstone.bindings.tables.open_objects import open_object

        with open_object(filesystem, path) as ranges:
            read_at = functools.partial(ranges.read_at, exact=True)
            return footer_bytes(ranges.source, read_at=read_at, expected=expected)
    except READ_ERRORS as e:
        return e, 0


def _pread(path: str, size: int) -> tuple[bytes, int] | None:
    """Read the footer of a local file; None if no Parquet file ends at this size."""
    handle = os.open(path, FLAGS)
    try:
        first = min(size, LOCAL_FETCH)
        end = os.pread(handle, first, size - first)
        length = int.from_bytes(end[-8:-4], "little")
        if len(end) != first or end[-4:] != MAGIC or not 0 < length <= size - 8:
            return None
        if length + 8 <= first:
            return end[-8 - length : -8], first
        footer = os.pread(handle, length, size - 8 - length)
        return (footer, length + 8) if len(footer) == length else None
    finally:
        os.close(handle)


def _way_out(path: str) -> str:
    """Return what to do about a file whose footer cannot be read."""
    if "/_delta_log/" in path or path.endswith(".metadata.json"):
        return "it describes a Delta or Iceberg table: scan the folder of that table"
    return f"convert it to Parquet, {WAY_OUT}" if OTHER_FORMATS.search(path) else WAY_OUT


def _describe(e: Exception) -> str:
    text = str(e)
    lower = text.lower()
    if isinstance(e, FileNotFoundError):
        return "the file does not exist"
    if "encrypt" in lower or "decrypt" in lower:
        return "the file is encrypted, and no keys were given; read it elsewhere or leave it out"
    if "size is 0 bytes" in lower:
        return "the file is empty: it has 0 bytes"
    if "magic bytes" in lower or "too small" in lower or "parquet file size" in lower:
        return "not a whole Parquet file: it does not end as one (truncated, or of another format)"
    if isinstance(e, TwinColumns):
        return text
    return f"the footer cannot be read ({describe_error(e)})"
