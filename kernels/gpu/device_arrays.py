"""Read arrays that other libraries keep on a device.

Three protocols are supported: `__cuda_array_interface__`, DLPack, and Arrow's C device data
interface.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir.errors import StatisticsError
from skipstone.ir.types import DType, Kind, from_arrow
from skipstone.kernels.gpu.device import Device, DeviceArray

# Device types of DLPack and Arrow: CUDA memory, and managed CUDA memory.
CUDA: Final = (2, 13)


@dataclass(frozen=True, slots=True, eq=False)
class ExternalArray:
    """An array on a device, as another library describes it.

    Attributes:
        type: The Arrow type of its values.
        n: Its length.
        numpy_type: The NumPy name of the values' type, such as "int64", "bool" or "datetime64[us]";
            None: buffers that only Arrow can read.
        data: The address of the first value; of buffers, the addresses of their starts.
        mask: The address of the mask of known values; None if all are known.
        bits: True if the mask has a bit for each value, lowest first; else a byte.
        first: The number of the first value in the mask, and in buffers.
        owner: The object that keeps the memory alive.
    """

    type: pa.DataType
    n: int
    numpy_type: str | None
    data: tuple[int, ...]
    mask: int | None
    bits: bool
    first: int
    owner: object

    def suits(self, dtype: DType) -> bool:
        """Return True if a column of the type can use its values as bounds in place."""
        if (
            self.numpy_type is None
            or not dtype.ordered
            or dtype.coded
            or dtype.kind is Kind.DECIMAL
        ):
            return False
        return (
            from_arrow(self.type) == dtype
            and np.dtype(self.numpy_type).itemsize == np.dtype(dtype.numpy_type).itemsize
        )

    def check_device(self, device: Device) -> None:
        """Check that its memory belongs to the device.

        Raises:
            DeviceError: it belongs to another device.
        """
        # Only the first buffer of the data: that of a text's bytes may be empty.
        for address in (*self.data[:1], *([] if self.mask is None else [self.mask])):
            if self.n:
                device.adopt(address, 1, "uint8", self.owner)

    def values(self, device: Device) -> DeviceArray:
        """Return the values as an array of the device, in place."""
        assert self.numpy_type is not None
        plain = {"M": "int64", "b": "uint8"}.get(np.dtype(self.numpy_type).kind, self.numpy_type)
        return device.adopt(self.data[0], self.n, plain, self.owner)

    def mask_bytes(self, device: Device) -> DeviceArray:
        """Return the bytes of the mask, in place; the first value has number `first` in it."""
        assert self.mask is not None
        return device.adopt(
            self.mask, (self.first + self.n + 7) // 8 if self.bits else self.n, "uint8", self.owner
        )

    def to_arrow(self, device: Device) -> pa.Array:
        """Copy the values to an Arrow array in host memory."""
        if not self.n or pa.types.is_null(self.type):
            return pa.nulls(self.n, self.type)
        known = self._valid(device)
        if self.numpy_type is None:
            return pa.Array.from_buffers(
                self.type,
                self.first + self.n,
                [_validity(known, self.first), *self._buffers(device)],
            ).slice(self.first)
        values = device.download(self.values(device))
        if self.numpy_type == "bool":
            # A byte other than 0 and 1 is unknown.
            return pa.array(values != 0, mask=_null_mask(known, values > 1))
        if self.numpy_type.startswith("datetime64"):
            return pa.array(values.view(self.numpy_type), mask=_null_mask(known)).view(self.type)
        return pa.Array.from_buffers(self.type, self.n, [_validity(known), pa.py_buffer(values)])

    def _valid(self, device: Device) -> npt.NDArray[np.bool_] | None:
        if self.mask is None:
            return None
        found = device.download(self.mask_bytes(device))
        if not self.bits:
            return np.asarray(found != 0)
        bits = np.unpackbits(found, count=self.first + self.n, bitorder="little")
        return bits[self.first :].view(np.bool_)

    def _buffers(self, device: Device) -> list[pa.Buffer]:
        """Copy buffers that Arrow reads: bits, values of 16 bytes, or offsets and their bytes."""
        count = self.first + self.n

        def read(address: int, size: int) -> npt.NDArray[Any]:
            if size and address:
                return device.download(device.adopt(address, size, "uint8", self.owner))
            return np.empty(0, np.uint8)

        if len(self.data) == 1:
            return [pa.py_buffer(read(self.data[0], (count * self.type.bit_width + 7) // 8))]
        wide = pa.types.is_large_string(self.type) or pa.types.is_large_binary(self.type)
        offsets = read(self.data[0], (count + 1) * (8 if wide else 4))
        return [
            pa.py_buffer(offsets),
            pa.py_buffer(read(self.data[1], int(offsets.view(np.int64 if wide else np.int32)[-1]))),
        ]


def _null_mask(
    known: npt.NDArray[np.bool_] | None, others: npt.NDArray[np.bool_] | None = None
) -> npt.NDArray[np.bool_] | None:
    """Return the mask of values that are unknown, or that `others` marks; None if none is."""
    if known is None:
        return others
    return ~known if others is None else ~known | others


def _validity(known: npt.NDArray[np.bool_] | None, before: int = 0) -> pa.Buffer | None:
    """Return Arrow's bitmap of known values, preceded by `before` zeros; None if all are known."""
    if known is None:
        return None
    mask = np.append(np.zeros(before, np.bool_), known)
    return pa.py_buffer(np.packbits(mask, bitorder="little"))


def is_device_array(given: object) -> bool:
    """Return True if an object is an array on a device, by any of the supported protocols."""
    if isinstance(given, pa.Array):  # pyarrow.Array also has the protocol, for host memory
        return False
    return (
        _cuda_interface(given) is not None
        or hasattr(given, "__arrow_c_device_array__")
        or _has_dlpack(given)
    )


def external_array_of(given: Any, name: str, device: Device) -> ExternalArray:
    """Describe an array on a device.

    Args:
        given: The array.
        name: Its name in errors.
        device: The device.

    Raises:
        StatisticsError: it has more than one dimension, gaps between values, or an unknown type.
    """
    if (interface := _cuda_interface(given)) is not None:
        return _of_interface(given, interface, name)
    if hasattr(given, "__arrow_c_device_array__"):
        return from_arrow_device(given, name)
    taken = device.from_dlpack(given)
    return _of_interface(taken, taken.__cuda_array_interface__, name)


def _cuda_interface(given: Any) -> Any:
    # cuDF's columns of strings, decimals and categories have the attribute, and raise when it is
    # read.
    try:
        return given.__cuda_array_interface__
    except (AttributeError, NotImplementedError, TypeError):
        return None


def _has_dlpack(given: Any) -> bool:
    try:
        return int(given.__dlpack_device__()[0]) in CUDA
    except (AttributeError, TypeError, NotImplementedError, BufferError):
        return False


def _of_interface(given: Any, interface: Any, name: str) -> ExternalArray:
    try:
        numpy_type = np.dtype(interface["typestr"])
        kind = pa.from_numpy_dtype(numpy_type) if numpy_type.isnative else None
    except (TypeError, pa.ArrowException):
        kind = None
    if kind is None:
        raise StatisticsError(
            f"{name} has values of type {interface['typestr']!r}; expected numbers, booleans or "
            "datetime64, in this machine's byte order"
        )
    shape, strides = tuple(interface["shape"]), interface.get("strides")
    if len(shape) != 1 or (
        strides is not None and shape[0] > 1 and strides[0] != numpy_type.itemsize
    ):
        raise StatisticsError(
            f"{name} is an array of shape {shape} and strides {strides}; expected one dimension "
            "without gaps between values"
        )
    # In cuDF only the type has the time zone.
    zone = getattr(getattr(given, "dtype", None), "tz", None)
    if pa.types.is_timestamp(kind) and zone is not None:
        kind = pa.timestamp(kind.unit, str(zone))
    masked = interface.get("mask")
    mask = None if masked is None else masked.__cuda_array_interface__
    bits = mask is not None and mask["typestr"][1] == "t"  # a bit field, as cuDF's masks are
    return ExternalArray(
        kind,
        shape[0],
        numpy_type.name,
        (interface["data"][0],),
        None if mask is None else mask["data"][0],
        bits,
        0,
        (given, masked),
    )


# Arrow's C device data interface (https://arrow.apache.org/docs/format/CDeviceDataInterface.html).


class _Array(ctypes.Structure):
    pass


_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    ("dictionary", ctypes.POINTER(_Array)),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]


class _DeviceArray(ctypes.Structure):
    _fields_ = [
        ("array", _Array),
        ("device_id", ctypes.c_int64),
        ("device_type", ctypes.c_int32),
        ("sync_event", ctypes.c_void_p),
        ("reserved", ctypes.c_int64 * 3),
    ]


def from_arrow_device(given: Any, name: str) -> ExternalArray:
    """Describe an Arrow array on a device.

    Args:
        given: An object with `__arrow_c_device_array__`.
        name: Its name in errors.

    Raises:
        StatisticsError: it is not in CUDA memory, or its type is not supported.
    """
    kind, exported, owner = _capsules(given, name)
    return _of_arrow(kind, exported.array, 0, exported.array.length, owner, name)


def all_of_arrow(given: Any) -> dict[str, ExternalArray]:
    """Describe the columns of an Arrow record batch on a device, by name.

    Args:
        given: An object with `__arrow_c_device_array__`.

    Raises:
        StatisticsError: it is not a record batch in CUDA memory, it may have null rows, or the type
            of a column is not supported.
    """
    kind, exported, owner = _capsules(given, "the batch")
    if not pa.types.is_struct(kind):
        raise StatisticsError(
            f"the Arrow array has type {kind}; expected a record batch with columns such as 'x.min'"
        )
    masked = exported.array.n_buffers > 0 and bool(exported.array.buffers[0])
    if exported.array.null_count > 0 or (
        exported.array.null_count != 0 and masked
    ):  # -1: not counted
        raise StatisticsError(
            "the batch has null rows, or may have some; expected a record batch without a mask of "
            "rows, or with a null count of 0"
        )
    fields: Sequence[pa.Field] = [kind.field(i) for i in range(kind.num_fields)]
    first, n = exported.array.offset, exported.array.length
    return {
        f.name: _of_arrow(f.type, exported.array.children[i].contents, first, n, owner, f.name)
        for i, f in enumerate(fields)
    }


def _capsules(given: Any, name: str) -> tuple[pa.DataType, _DeviceArray, object]:
    schema, array = given.__arrow_c_device_array__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    exported = _DeviceArray.from_address(pointer(array, b"arrow_device_array"))
    if exported.device_type not in CUDA:
        raise StatisticsError(
            f"{name} lies on a device of Arrow's type {exported.device_type}; expected CUDA "
            "memory, of type 2 or 13"
        )
    return pa.DataType._import_from_c_capsule(schema), exported, (given, array)


def _of_arrow(
    arrow_type: pa.DataType, array: _Array, above: int, n: int, owner: object, name: str
) -> ExternalArray:
    first = array.offset + above
    buffers = [array.buffers[i] or 0 for i in range(array.n_buffers)]
    mask = buffers[0] if buffers and array.null_count != 0 and buffers[0] else None
    plain = (
        pa.types.is_integer(arrow_type)
        or pa.types.is_floating(arrow_type)
        or pa.types.is_date(arrow_type)
        or pa.types.is_timestamp(arrow_type)
    )
    if plain and len(buffers) == 2:
        width = arrow_type.bit_width // 8
        prefix = "int"
        if pa.types.is_floating(arrow_type):
            prefix = "float"
        elif pa.types.is_unsigned_integer(arrow_type):
            prefix = "uint"
        numpy_type = f"{prefix}{width * 8}"
        return ExternalArray(
            arrow_type, n, numpy_type, (buffers[1] + first * width,), mask, True, first, owner
        )
    texts = (
        pa.types.is_string(arrow_type)
        or pa.types.is_binary(arrow_type)
        or pa.types.is_large_string(arrow_type)
        or pa.types.is_large_binary(arrow_type)
    )
    if pa.types.is_null(arrow_type):
        return ExternalArray(arrow_type, n, None, (), None, True, 0, owner)
    if (texts and len(buffers) == 3) or (
        (pa.types.is_boolean(arrow_type) or pa.types.is_decimal(arrow_type)) and len(buffers) == 2
    ):
        return ExternalArray(arrow_type, n, None, tuple(buffers[1:]), mask, True, first, owner)
    raise StatisticsError(
        f"{name} is an Arrow array of type {arrow_type} on the device; expected numbers, dates, "
        "timestamps, decimals, booleans, strings or binary"
    )
