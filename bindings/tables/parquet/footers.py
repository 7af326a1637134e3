"""Read the footers of many Parquet files in parallel."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Final

import pyarrow.fs as pafs

from skipstone.bindings.plans.work import Meter
from skipstone.bindings.tables.parquet.footer import READ_ERRORS, ParsedFooter, read_tail
from skipstone.bindings.tables.parquet.heads import Heads
from skipstone.bindings.tables.parquet.pages.ranges import is_local
from skipstone.ir.errors import SourceError, describe_error
from skipstone.kernels.decode.footer_layout import at_hand

FETCH_THREADS: Final = 16  # most of the time of a fetch is spent waiting for storage
# Storage is slow if a footer takes this many seconds, averaged over a batch of this many files.
# Files in memory take 50 us each; from 16 threads they take 190, because the threads wait for the
# interpreter.
SLOW_SECONDS, BATCH_FILES = 0.001, 16
# Bytes of footers. Below SMALL no loop is compiled. At LARGE, Python would take more than a second
# to read them, and keep 40 MB.
SMALL, LARGE = 1 << 17, 1 << 22
_asked = 0  # bytes that Python has read, or could have
WAY_OUT: Final = (
    'leave it out by a glob such as folder/*.parquet, or plan to read it by on_error="keep" '
    "(--keep-unreadable)"
)

Progress = Callable[[int, int], None]


@dataclass(slots=True)
class Footer:
    """The footer of one file, from the file itself or from `_metadata`.

    Attributes:
        path: The path of the file.
        tail: The footer, or that of `_metadata`; None if it could not be read.
        groups: The row groups of `tail` that belong to the file, in the file's order.
        error: The reason why the footer could not be read.
        own: Whether the footer is the file's own. `_metadata` does not say who wrote the file.
        nbytes: The number of bytes that were read from storage for it.
    """

    path: str
    tail: ParsedFooter | None
    groups: Sequence[int] = ()
    error: SourceError | None = None
    own: bool = True
    nbytes: int = 0

    @property
    def julian(self) -> bool:
        """True if Spark may have written the file in the Julian calendar; `_metadata` hides it."""
        return not self.own or (self.tail is not None and self.tail.head.julian)

    @property
    def orders_nan(self) -> bool:
        """True if NaN is known to count as the greatest value in the file's bounds."""
        return self.own and self.tail is not None and self.tail.head.orders_nan


def read_footers(
    paths: Sequence[str],
    filesystem: pafs.FileSystem,
    meter: Meter,
    *,
    keep: bool,
    progress: Callable[[int], None] | None = None,
) -> list[Footer]:
    """Read footers in parallel.

    Args:
        paths: The files.
        filesystem: Their file system.
        meter: Counts the footers and bytes.
        keep: Whether a file whose footer cannot be read is kept, with its error.
        progress: Called with the number of footers that were read so far.

    Returns:
        The footers, in the order of `paths`.

    Raises:
        SourceError: a file is missing, truncated, not Parquet or encrypted, and `keep` is False.
    """
    out: list[Footer] = []
    nbytes = 0
    with closing(_iter_footers(paths, filesystem, Heads())) as footers:
        for footer in footers:
            if footer.error is not None and not keep:
                raise SourceError(f"{footer.error}; {WAY_OUT}") from footer.error
            out.append(footer)
            nbytes += footer.nbytes
            if nbytes >= SMALL:
                at_hand()
            meter.count("footers", 1, footer.nbytes)
            if progress is not None:
                progress(len(out))
    return out


def is_worth_loop(nbytes: int) -> bool:
    """Return True if the loop should read this many bytes of footers.

    This is so if they are large, or if the process has read many and the loop is compiled.
    Otherwise it may start compiling in the background.
    """
    global _asked
    _asked += nbytes
    return nbytes > 0 and (nbytes >= LARGE or (_asked >= SMALL and at_hand()))


def _iter_footers(
    paths: Sequence[str], filesystem: pafs.FileSystem, heads: Heads
) -> Generator[Footer]:
    """Yield footers in the files' order: one by one while storage is quick, else in parallel."""
    at, quick = 0, True
    while quick and at < len(paths):
        start, batch = time.perf_counter(), paths[at : at + BATCH_FILES]
        footers = [_read_footer(path, filesystem, heads) for path in batch]
        quick = time.perf_counter() - start < SLOW_SECONDS * len(batch)
        at += len(batch)
        yield from footers
    with ThreadPoolExecutor(FETCH_THREADS, "skipstone-footers") as readers:
        try:
            # Several files at a time: handing over a task takes as long as reading a footer.
            step = max(1, min(BATCH_FILES, (len(paths) - at) // (4 * FETCH_THREADS)))
            batches = (paths[i : i + step] for i in range(at, len(paths), step))
            for footers in readers.map(
                lambda batch: [_read_footer(path, filesystem, heads) for path in batch], batches
            ):
                yield from footers
        finally:
            readers.shutdown(wait=False, cancel_futures=True)


def _read_footer(path: str, filesystem: pafs.FileSystem, heads: Heads) -> Footer:
    try:
        with filesystem.open_input_file(path) as source:
            tail, nbytes = read_tail(source, heads, local=is_local(filesystem))
        names = tail.head.schema.names
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            error = SourceError(f"{path}: has two columns named {twice!r}; expected each name once")
            return Footer(path, None, error=error)
        return Footer(path, tail, range(len(tail.rows)), nbytes=nbytes)
    except READ_ERRORS as e:
        return Footer(path, None, error=SourceError(f"{path}: {_describe(e)}"))


def _describe(e: Exception) -> str:
    text = str(e)
    lower = text.lower()
    if isinstance(e, FileNotFoundError):
        return "the file is not there"
    if "encrypt" in lower or "decrypt" in lower:
        return "the file is encrypted, and no keys were given; read it elsewhere or leave it out"
    if "magic bytes" in lower or "too small" in lower or "parquet file size" in lower:
        return "not a whole Parquet file: it does not end as one (truncated, or of another format)"
    return f"the footer cannot be read ({describe_error(e)})"
