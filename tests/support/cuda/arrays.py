"""Device arrays in the forms of other libraries.

These are CUDA's array interface with masks, DLPack, and Arrow device arrays.
"""

import ctypes

import numpy as np
import pyarrow as pa

from skipstone.ir.types import Kind, from_arrow
from skipstone.kernels.gpu.device_arrays import _DeviceArray
from tests.support.rows.strategies import TYPES

FIXED = [t for t in TYPES if not from_arrow(t).coded and from_arrow(t).kind is not Kind.DECIMAL]


class Interface:
    """The part of a cuDF column that its array interface needs.

    Args:
        array: The values on the device.
        mask: Words or bytes that mark valid values, also on the device.
        bits: True if the mask has a bit for each value.
        typestr: The type of the values, if it differs from the array's.
        zone: The time zone, as cuDF's types have it.
    """

    def __init__(self, array, mask=None, bits=True, typestr=None, zone=None, strides=None):
        self.array = array
        described = array.__cuda_array_interface__
        self.__cuda_array_interface__ = {
            **described,
            "version": 1,
            "typestr": typestr or described["typestr"],
            "strides": strides,
        }
        if mask is not None:
            self.__cuda_array_interface__["mask"] = Interface(
                mask, typestr="<t1" if bits else "|b1"
            )
        if zone is not None:
            self.dtype = type("DatetimeTZDtype", (), {"tz": zone})()


class Refuses:
    """A cuDF column of strings, which has no array interface."""

    def __init__(self, array):
        self.to_arrow = lambda: array

    @property
    def __cuda_array_interface__(self):
        raise NotImplementedError("Strings are not yet supported via `__cuda_array_interface__`")


class ByDLPack:
    """A tensor of a library that supports only DLPack."""

    def __init__(self, memory):
        self.memory = memory

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, **_):
        return self.memory.bytes.view(self.memory.dtype).__dlpack__()


class Frame:
    """A cuDF data frame: names, and a column for each."""

    def __init__(self, columns):
        self.columns, self._columns = list(columns), columns

    def __getitem__(self, name):
        return self._columns[name]


class ArrowDevice:
    """An Arrow array or record batch with its buffers on a device.

    It is the host's structure with other addresses.

    Args:
        given: The host's array or batch.
        device: The device to copy its buffers to.
        kind: Arrow's number for that kind of device.
        rows: Which rows are not null, a bit each; None if all are, and there is no mask.
        null_count: The null count to report; -1 if nobody counted.
    """

    def __init__(self, given, device, kind=2, rows=None, null_count=0):
        self.given, self.device, self.kind, self.rows, self.null_count = (
            given,
            device,
            kind,
            rows,
            null_count,
        )

    def __arrow_c_device_array__(self, requested_schema=None, **_):
        schema, array = self.given.__arrow_c_device_array__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        held = _DeviceArray.from_address(pointer(array, b"arrow_device_array"))
        held.device_type, held.device_id = self.kind, 0
        self.buffers = []
        if self.rows is not None:
            self.buffers.append(self.device.upload(np.array([self.rows], np.uint64)))
            held.array.buffers[0] = self.buffers[0].__cuda_array_interface__["data"][0]
            held.array.null_count = self.null_count
        columns = [(held.array, self.given)]
        if isinstance(self.given, pa.RecordBatch):
            columns = [
                (held.array.children[i].contents, column)
                for i, column in enumerate(self.given.columns)
            ]
        for there, column in columns:
            for j, buffer in enumerate(column.buffers()):
                if buffer is not None and buffer.size:
                    # Arrow may read whole words.
                    copy = self.device.upload(
                        np.frombuffer(bytes(buffer) + bytes(-buffer.size % 8), np.uint64)
                    )
                    self.buffers.append(copy)
                    there.buffers[j] = copy.__cuda_array_interface__["data"][0]
        return schema, array


def mask_of(known, bits):
    """Return a mask as host words of bits, or as bytes."""
    if not bits:
        return np.asarray(known, np.uint8)
    packed = np.packbits(known, bitorder="little")
    return np.pad(packed, (0, -len(packed) % 4)).view(np.uint32)


def interface(where, array, bits):
    """Return an Arrow array in the form of cuDF's interface, with its nulls in a mask."""
    known = np.array([v.is_valid for v in array])
    dtype = from_arrow(array.type)
    typestr = {Kind.TIMESTAMP: f"<M8[{dtype.unit}]", Kind.BOOL: "|b1"}.get(dtype.kind)
    values = (
        np.array(array.fill_null(False).to_pylist(), np.uint8)
        if dtype.kind is Kind.BOOL
        else array.fill_null(0)
    )
    values = (
        values
        if isinstance(values, np.ndarray)
        else np.frombuffer(values.buffers()[1], dtype.numpy_type, len(array))
    )
    zone = array.type.tz if dtype.kind is Kind.TIMESTAMP else None
    return Interface(
        where.upload(values),
        None if known.all() else where.upload(mask_of(known, bits)),
        bits,
        typestr,
        zone,
    )
