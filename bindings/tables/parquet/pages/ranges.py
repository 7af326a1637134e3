"""Read byte ranges of one file: close ranges in one request, remote ones concurrently."""

from __future__ import annotations

import bisect
import operator
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa

from skipstone.bindings.tables.identity import FileIdentity
from skipstone.kernels.run.pool import ContextPool

# Gaps up to this many bytes are read and thrown away, because a request costs as much. Object
# stores answer in some 20 ms, and give some 50 MB/s to each request.
LOCAL_GAP, REMOTE_GAP = 1 << 12, 1 << 20
# A short read of a remote file takes `MIN_READ` bytes, and a file of up to `REMOTE_GAP` is read
# whole: the bytes that are needed next, such as the page after a header, are often among them. If
# more than `FEW_SPANS` places of a file are requested at once, each read takes only its own bytes.
MIN_READ, FEW_SPANS = 1 << 18, 16
MAX_KEPT: Final = 1 << 24  # bytes of a remote file that are kept without being asked for
IN_FLIGHT: Final = 8  # requests to remote storage at once, for each file
PART: Final = 1 << 23  # the most bytes of one request to remote storage

Span = tuple[int, int]  # start and stop, in bytes
Piece = tuple[int, memoryview]  # where it starts in the file, and its bytes
_position = operator.itemgetter(0)


class Pieces:
    """Pieces of a file that were read.

    Args:
        spans: The ranges that were read.
        data: The bytes of each.

    Attributes:
        nbytes: The bytes of all pieces.
    """

    def __init__(self, spans: Sequence[Span] = (), data: Iterable[memoryview] = ()) -> None:
        self._pieces: list[Piece] = []  # replaced, never changed: other threads may read it
        self.nbytes = 0
        for (start, _), piece in zip(spans, data, strict=True):
            self.add(start, piece)

    def __iter__(self) -> Iterator[Piece]:
        return iter(self._pieces)

    def add(self, start: int, data: memoryview) -> None:
        """Add a piece, unless another one holds it; remove pieces that it holds.

        Because no piece holds another, the last one that starts before a place reaches farthest.
        """
        stop, known = start + data.nbytes, self._pieces
        if self.find((start, stop)) is not None:
            return
        first = last = bisect.bisect_left(known, start, key=_position)
        while last < len(known) and known[last][0] + known[last][1].nbytes <= stop:
            last += 1
        self.nbytes += data.nbytes - sum(held.nbytes for _, held in known[first:last])
        self._pieces = [*known[:first], (start, data), *known[last:]]

    def __getitem__(self, span: Span) -> memoryview:
        found = self.find(span)
        if found is None:
            raise OSError(f"expected the bytes {span[0]} to {span[1]}, which are not there")
        return found

    def find(self, span: Span) -> memoryview | None:
        """Return the bytes of a range; None if no piece has all of them."""
        (start, stop), known = span, self._pieces  # read once: another thread may replace it
        i = bisect.bisect_right(known, start, key=_position) - 1
        if i < 0:
            return None
        first, data = known[i]
        return data[start - first : stop - first] if start <= stop <= first + data.nbytes else None


class Ranges:
    """Byte ranges of an open file. Short reads of remote files are kept, with what follows them.

    Several threads may read them.

    Args:
        source: The file.
        local: True if requests cost little.
        identity: What identifies the file's content, taken before it was opened; None if nothing
            does.

    Attributes:
        source, local, identity: As given.
        size: The size of the file, in bytes.
    """

    def __init__(
        self, source: pa.NativeFile, local: bool, identity: FileIdentity | None = None
    ) -> None:
        self.source, self.local, self.identity = source, local, identity
        self.size = int(source.size())
        self._kept = Pieces()
        self._lock = threading.Lock()  # the position of a local file

    def read(
        self, spans: Sequence[Span], *, keep: bool = False, exact: bool = False
    ) -> list[memoryview]:
        """Read ranges.

        Args:
            spans: Ranges in any order, none of them past the end of the file.
            keep: True to keep what is read of a remote file, however long it is.
            exact: True if what follows short ranges is not worth reading.

        Returns:
            The bytes of each range, which may share memory.

        Raises:
            OSError: the file cannot be read, or is shorter.
        """
        if self.local:
            joined = join_near(spans, LOCAL_GAP)
            read = Pieces(joined, map(self._read, joined))
            return [read[span] for span in spans]
        found = [self._kept.find(span) for span in spans]
        missing = [span for span, data in zip(spans, found, strict=True) if data is None]
        joined = join_near(missing, REMOTE_GAP)
        if not exact:
            joined = self._widened(joined)
        read = Pieces(joined, self._read_remote(joined))
        for piece in read:
            room = MAX_KEPT - self._kept.nbytes
            if keep or piece[1].nbytes <= min(REMOTE_GAP, room):
                self._kept.add(*piece)
        return [
            read[span] if data is None else data for span, data in zip(spans, found, strict=True)
        ]

    def holds(self, spans: Iterable[Span]) -> bool:
        """Return True if ranges of a remote file were kept, so that reading them costs nothing."""
        return all(self._kept.find(span) is not None for span in spans)

    def copy(self) -> Ranges:
        """Return ranges of the same open file, which know what was kept so far."""
        copied = Ranges(self.source, self.local, self.identity)
        for start, data in self._kept:
            copied._kept.add(start, data)
        return copied

    def read_at(self, size: int, start: int, *, exact: bool = False) -> bytes:
        """Read `size` bytes from a position on; `exact` and errors are as for `read`."""
        return bytes(self.read([(start, start + size)], exact=exact)[0])

    def _widened(self, spans: list[Span]) -> list[Span]:
        """Return the ranges to read of a remote file for ascending ranges; none overlap."""
        if not spans or len(spans) > FEW_SPANS:
            return spans
        if self.size <= REMOTE_GAP:
            return [(0, max(self.size, spans[-1][1]))]
        limits = [start for start, _ in spans[1:]] + [self.size]
        return [
            (start, max(stop, min(start + MIN_READ, limit)))
            for (start, stop), limit in zip(spans, limits, strict=True)
        ]

    def _read_remote(self, spans: Sequence[Span]) -> list[memoryview]:
        """Read ranges concurrently, long ones in parts."""
        parts = [
            (at, min(at + PART, stop)) for start, stop in spans for at in range(start, stop, PART)
        ]
        if len(parts) <= 1:
            return [self._read(span) for span in spans]
        with ContextPool(min(IN_FLIGHT, len(parts)), "skipstone-ranges") as pool:
            read = zip(parts, pool.map(self._read, parts), strict=True)
            return [self._joined(span, read) for span in spans]

    @staticmethod
    def _joined(span: Span, read: Iterator[tuple[Span, memoryview]]) -> memoryview:
        """Return the bytes of a range, which the next parts hold."""
        start, stop = span
        if stop - start <= PART:
            return next(read)[1] if stop > start else memoryview(b"")
        out = memoryview(bytearray(stop - start))
        for (first, last), data in read:
            out[first - start : last - start] = data
            if last == stop:
                break
        return out

    def read_into(self, wanted: Sequence[tuple[Span, memoryview]]) -> None:
        """Read ranges, each into a buffer of its size.

        Raises:
            OSError: the file cannot be read, or is shorter.
        """
        if not self.local:
            for (_, into), data in zip(wanted, self.read([s for s, _ in wanted]), strict=True):
                into[:] = data
            return
        for (start, _), into in wanted:
            self.read_start(start, into)

    def read_start(self, start: int, into: memoryview) -> None:
        """Read bytes of a local file from a position on, as many as a buffer holds.

        Raises:
            OSError: the file cannot be read, or is shorter.
        """
        with self._lock:
            self.source.seek(start)
            count = self.source.readinto(into)
        if count != len(into):
            raise OSError(f"expected {len(into)} bytes at {start}")

    def _read(self, span: Span) -> memoryview:
        start, stop = span
        data = memoryview(self.source.read_at(stop - start, start))
        if data.nbytes != stop - start:
            raise OSError(f"expected {stop - start} bytes at {start}, got {data.nbytes}")
        return data


def join_near(spans: Sequence[Span], gap: int) -> list[Span]:
    """Return ascending ranges that cover `spans`, joined where at most `gap` bytes lie between.

    Example:
        >>> join_near([(10, 20), (0, 5), (500, 600)], 8)
        [(0, 20), (500, 600)]
    """
    out: list[Span] = []
    for start, stop in sorted(spans):
        if out and start <= out[-1][1] + gap:
            out[-1] = out[-1][0], max(out[-1][1], stop)
        else:
            out.append((start, stop))
    return out
