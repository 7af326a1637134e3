"""Count the Parquet files of a folder that any library opens; this works only on Linux."""

from __future__ import annotations

import ctypes
import os
import select
import struct
import threading
from pathlib import Path
from typing import Final

IN_OPEN: Final = 0x20
EVENT: Final = struct.Struct("iIII")  # watch, mask, cookie, bytes of the name
POLL: Final = 0.02  # seconds


class Opened:
    """Counts the Parquet files of one folder that are opened within a `with` block.

    Args:
        folder: The folder; its subfolders do not count.

    Attributes:
        names: The names of the files that were opened.
        lost: True if the system dropped events, so that the count is too small.
    """

    def __init__(self, folder: Path) -> None:
        self.names: set[str] = set()
        self.lost = False
        self._folder = folder
        self._end = threading.Event()

    def __enter__(self) -> Opened:
        libc = ctypes.CDLL(None, use_errno=True)
        self._file = libc.inotify_init1(os.O_NONBLOCK)
        if (
            self._file < 0
            or libc.inotify_add_watch(self._file, os.fsencode(self._folder), IN_OPEN) < 0
        ):
            raise OSError(ctypes.get_errno(), f"cannot watch {self._folder}")
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._end.set()
        self._thread.join()
        os.close(self._file)

    def _watch(self) -> None:
        ended = False
        while True:
            ready, _, _ = select.select([self._file], [], [], POLL)
            if ready:
                self._take(os.read(self._file, 1 << 20))
            elif ended:
                return
            ended = self._end.is_set()

    def _take(self, events: bytes) -> None:
        at = 0
        while at < len(events):
            watch, _, _, size = EVENT.unpack_from(events, at)
            at += EVENT.size
            if watch < 0:  # the queue was full
                self.lost = True
            elif (name := events[at : at + size].rstrip(b"\0")).endswith(b".parquet"):
                self.names.add(os.fsdecode(name))
            at += size
