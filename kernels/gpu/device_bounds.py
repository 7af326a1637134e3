"""Check bounds that are already on a device, and repair them there if some are unknown.

A kernel finds unknown bounds by the rules of kernels/pack/columns.py: null, NaN, and both of an
inverted pair. If there are none, the array stays in place. Otherwise a copy is made in which the
end of the type replaces them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skipstone.ir.types import DType
from skipstone.kernels.gpu import cuda_tools, gpu
from skipstone.kernels.gpu.cuda_text import THREADS
from skipstone.kernels.gpu.device import Device, DeviceArray
from skipstone.kernels.gpu.device_arrays import ExternalArray
from skipstone.kernels.pack.narrow import end_of


def bounds_on_device(
    device: Device, dtype: DType, low: ExternalArray | None, high: ExternalArray | None
) -> list[DeviceArray | None]:
    """Return the lower and the upper bounds of a column.

    Args:
        device: The device that holds them.
        dtype: The column's type, which both suit.
        low: The lower bounds as another library describes them, or None.
        high: The upper bounds, of the same length, which is not 0. At least one of the two is
            given.

    Returns:
        Arrays of the column's type in device memory; None for a side without known bounds.
    """
    sides = [
        None if f is None else "all" if f.mask is None else "bits" if f.bits else "bytes"
        for f in (low, high)
    ]
    present = {is_high: f for is_high, f in ((False, low), (True, high)) if f is not None}
    n = next(iter(present.values())).n
    kinds = [str(f.numpy_type).partition("[")[0] for f in present.values()]
    text = cuda_tools.check_text(
        "datetime64" if "datetime64" in kinds else kinds[0], (sides[0], sides[1])
    )
    values = {side: f.values(device) for side, f in present.items()}
    unknown_bits = {side: device.empty((n + 31) // 32, "uint32") for side in present}
    masks: list[Any] = [
        part
        for f in present.values()
        if f.mask is not None
        for part in (f.mask_bytes(device), np.int64(f.first))
    ]
    device.start(
        device.function(text),
        -(-n // THREADS),
        [np.int64(n), *unknown_bits.values(), *values.values(), *masks],
    )
    found = [
        _replace_unknown(device, dtype, values[side], unknown_bits[side], side)
        if side in present
        else None
        for side in (False, True)
    ]
    if any(
        bounds is not None and bounds is not values.get(side)
        for side, bounds in zip((False, True), found, strict=True)
    ):
        device.settle()  # repaired copies are read on other streams too
    return found


def _replace_unknown(
    device: Device, dtype: DType, values: DeviceArray, unknown_bits: DeviceArray, high: bool
) -> DeviceArray | None:
    n, unknown = values.shape[0], int(gpu.count(device, unknown_bits).sum())
    if unknown == n:
        return None
    if not unknown:
        return values
    out = device.empty(n, dtype.numpy_type)
    end = np.dtype(dtype.numpy_type).type(end_of(dtype, dtype.numpy_type, high=high))
    device.start(
        device.function(cuda_tools.replace_unknown_text(dtype.numpy_type)),
        -(-n // THREADS),
        [np.int64(n), out, values, unknown_bits, end],
    )
    return out
