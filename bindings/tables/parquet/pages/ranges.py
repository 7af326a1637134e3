"""Read byte ranges of one file: close ranges in one request, remote ones concurrently."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.tables.identity import FileIdentity
from skipstone.kernels.run.pool import ContextPool

# Gaps up to this many bytes are read and thrown away, because a request costs as much. Storage of
# objects answers in some 20 ms and gives some 50 MB/s to each request.
LOCAL_GAP, REMOTE_GAP = 1 << 12, 1 << 20
IN_FLIGHT: Final = 8  # requests to remote storage at once, for each file

Span = tuple[int, int]  # start and stop, in bytes


class Ranges:
    """Byte ranges of an open file.

    Args:
        source: The file.
        local: True if requests cost little.
        identity: What identifies the file's content, from before it was opened; None: nothing does.

    Attributes:
        local, identity: As given.
        size: The size of the file, in bytes.
    """

    def __init__(
        self, source: pa.NativeFile, local: bool, identity: FileIdentity | None = None
    ) -> None:
        self._source, self.local, self.identity = source, local, identity
        self.size = int(source.size())

    def read(self, spans: Sequence[Span]) -> list[memoryview]:
        """Read ranges.

        Args:
            spans: Ranges in any order, none of them past the end of the file.

        Returns:
            The bytes of each range, which may share memory.

        Raises:
            OSError: the file cannot be read, or is shorter.
        """
        joined = join_near(spans, LOCAL_GAP if self.local else REMOTE_GAP)
        if self.local or len(joined) == 1:
            buffers = [self._read(span) for span in joined]
        else:
            with ContextPool(min(IN_FLIGHT, len(joined)), "skipstone-ranges") as pool:
                buffers = list(pool.map(self._read, joined))
        out = []
        for start, stop in spans:
            i = _holding(joined, start)
            first = joined[i][0]
            out.append(buffers[i][start - first : stop - first])
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
        self._source.seek(start)
        if self._source.readinto(into) != len(into):
            raise OSError(f"expected {len(into)} bytes at {start}")

    def _read(self, span: Span) -> memoryview:
        start, stop = span
        data = memoryview(self._source.read_at(stop - start, start))
        if data.nbytes != stop - start:
            raise OSError(f"expected {stop - start} bytes at {start}, got {data.nbytes}")
        return data


class ReadAhead(Ranges):
    """Byte ranges of an open file; some of them are read in advance, together.

    Args:
        ranges: Reads the file.
        spans: The ranges to read now.
    """

    def __init__(self, ranges: Ranges, spans: Sequence[Span]) -> None:
        self._source, self.local, self.size = ranges._source, ranges.local, ranges.size
        self.identity = ranges.identity
        self._held = dict(zip(spans, ranges.read(spans), strict=True))

    def read_more(self, spans: Sequence[Span]) -> None:
        """Read further ranges now."""
        new = [span for span in dict.fromkeys(spans) if span not in self._held]
        self._held |= zip(new, super().read(new), strict=True)

    def read(self, spans: Sequence[Span]) -> list[memoryview]:
        """Return ranges; see `Ranges.read`."""
        if all(span in self._held for span in spans):
            return [self._held[span] for span in spans]
        return super().read(spans)


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


def _holding(joined: Sequence[Span], start: int) -> int:
    """Return the index of the range that holds a position."""
    low, high = 0, len(joined) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if joined[middle][0] <= start:
            low = middle
        else:
            high = middle - 1
    return low


def is_local(filesystem: pafs.FileSystem) -> bool:
    """Return True if the files of a file system are local."""
    if isinstance(filesystem, pafs.SubTreeFileSystem):
        return is_local(filesystem.base_fs)
    return isinstance(filesystem, pafs.LocalFileSystem)
