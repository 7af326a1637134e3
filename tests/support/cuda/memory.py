"""Memory of a simulated device: separate from NumPy's, watched, and lost with the device."""

from __future__ import annotations

import math
import mmap
import weakref
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skipstone.ir.errors import DeviceError

SET, UNSET, FRESH = (
    0,
    1,
    2,
)  # the state of a byte: written, never written, written by the running launch
NO_RESERVE: Final = 0x4000  # Linux's value; Python has the name since 3.13
MARGIN: Final = 128  # unused bytes before and after an array


class Wrong(AssertionError):
    """A kernel, or its launch, does something that devices need not support."""


class Room:
    """Bytes of a device, aligned no better than values of `size` bytes need."""

    def __init__(self, nbytes: int, size: int) -> None:
        self._all = np.full(nbytes + 2 * MARGIN, 0xA5, np.uint8)
        start = MARGIN // 2 + (size - (self._all.ctypes.data + MARGIN // 2)) % (2 * size)
        self.bytes = self._all[start : start + nbytes]
        self.known = np.full(nbytes, UNSET, np.uint8)


class Vast(Room):
    """Any number of zeros; only touched pages take host memory."""

    def __init__(self, nbytes: int) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE
        self.bytes, self.known = (
            np.frombuffer(mmap.mmap(-1, nbytes, flags=flags), np.uint8) for _ in range(2)
        )


class Memory:
    """A contiguous device array with exactly the interface of `kernels/gpu/device.py`."""

    def __init__(
        self, room: Room, start: int, dtype: npt.DTypeLike, shape: tuple[int, ...]
    ) -> None:
        self.room, self.start = room, start
        self.dtype, self.shape = np.dtype(dtype), shape
        self.owner: object = None
        assert start + self.nbytes <= len(room.bytes)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def at(self) -> int:
        """Its address."""
        return int(self.room.bytes.ctypes.data) + self.start

    @property
    def bytes(self) -> npt.NDArray[np.uint8]:
        """Its content."""
        return self.room.bytes[self.start : self.start + self.nbytes]

    @property
    def known(self) -> npt.NDArray[np.uint8]:
        """The state of each byte."""
        return self.room.known[self.start : self.start + self.nbytes]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, part: slice | tuple[slice, slice]) -> Memory:
        if isinstance(part, tuple):
            return self._columns(part[1].stop)
        start, stop, step = part.indices(len(self))
        assert step == 1, "arrays of the device are contiguous here"
        shape = (max(stop - start, 0), *self.shape[1:])
        return Memory(
            self.room,
            self.start + start * math.prod(self.shape[1:]) * self.dtype.itemsize,
            self.dtype,
            shape,
        )

    def _columns(self, stop: int) -> Memory:
        """Return the first values of each row, as a copy."""
        rows, columns = self.shape
        room = Room(rows * stop * self.dtype.itemsize, self.dtype.itemsize)
        for into, values in ((room.bytes, self.bytes), (room.known, self.known)):
            into[:] = values.reshape(rows, columns, -1)[:, :stop].ravel()
        return Memory(room, 0, self.dtype, (rows, stop))

    def view(self, dtype: npt.DTypeLike) -> Memory:
        """Return the same bytes as another type."""
        return Memory(
            self.room,
            self.start,
            dtype,
            (*self.shape[:-1], self.shape[-1] * self.dtype.itemsize // np.dtype(dtype).itemsize),
        )

    def reshape(self, *shape: int) -> Memory:
        """Return the same values in rows."""
        assert math.prod(shape) == math.prod(self.shape)
        return Memory(self.room, self.start, self.dtype, shape)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.at, False),
            "version": 3,
            "strides": None,
        }

    def __array__(self, *_: Any, **__: Any) -> npt.NDArray[Any]:
        raise Wrong("memory of the device is not for NumPy; download it")


class Store:
    """All memory of a device.

    Args:
        size: Its size in bytes.
    """

    def __init__(self, size: int = 1 << 40) -> None:
        self.size, self.lost = size, False
        self._rooms: weakref.WeakSet[Room] = weakref.WeakSet()

    @property
    def used(self) -> int:
        return sum(len(room.bytes) for room in self._rooms)

    def lose(self) -> None:
        """Make every later operation fail."""
        self.lost = True

    def check(self) -> None:
        if self.lost:
            raise DeviceError("the device is lost")

    def empty(self, count: int, dtype: npt.DTypeLike) -> Memory:
        self.check()
        nbytes = count * np.dtype(dtype).itemsize
        if self.used + nbytes > self.size:
            raise DeviceError(
                f"the device is out of memory: {nbytes} bytes are asked for, "
                f"{self.size - self.used} are left"
            )
        room = Room(nbytes, np.dtype(dtype).itemsize)
        self._rooms.add(room)
        return Memory(room, 0, dtype, (count,))

    def vast(self, count: int, dtype: npt.DTypeLike) -> Memory:
        """Return zeros."""
        return Memory(Vast(count * np.dtype(dtype).itemsize), 0, dtype, (count,))

    def put(self, values: npt.NDArray[Any]) -> Memory:
        """Copy host values to the device."""
        assert isinstance(values, np.ndarray) and values.ndim == 1, (
            "expected a host array of one dimension"
        )
        out = self.empty(len(values), values.dtype)
        out.bytes[:] = np.ascontiguousarray(values).view(np.uint8)
        out.known[:] = SET
        return out

    def find(self, pointer: int, count: int, dtype: npt.DTypeLike) -> Memory:
        """Return the values at an address; as a copy if they are not aligned."""
        self.check()
        size = np.dtype(dtype).itemsize
        for room in self._rooms:
            start = pointer - int(room.bytes.ctypes.data)
            if start >= 0 and start + count * size <= len(room.bytes):
                found = Memory(room, start, np.uint8, (count * size,))
                return (
                    self.put(self.get(found).view(dtype)) if pointer % size else found.view(dtype)
                )
        raise Wrong(f"{count * size} bytes at {pointer:#x} are not of the device")

    def get(self, values: Memory) -> npt.NDArray[Any]:
        """Return a copy in host memory, of values that were all written."""
        self.check()
        unset = np.flatnonzero(values.known == UNSET)
        if len(unset):
            raise Wrong(
                f"download of {values.nbytes} bytes, of which {len(unset)}, from byte "
                f"{unset[0]} on, nobody wrote"
            )
        return values.bytes.copy().view(values.dtype).reshape(values.shape)
