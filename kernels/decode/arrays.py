"""Make arrays of texts and numbers without the packages that pyarrow and NumPy import late.

`pa.array` imports pandas, which takes 0.2 s at the first answer of a process, and `np.unique`
imports `numpy.ma` (NumPy 2), which takes 9 ms.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir.arrow import bitmap, int64_of

T = TypeVar("T", bound=np.generic)


def distinct(values: npt.NDArray[T]) -> npt.NDArray[T]:
    """Return the distinct values of an array in ascending order, as `np.unique` does."""
    ordered = np.sort(values)
    is_new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    return ordered[is_new]


def ranks(values: pa.Array) -> npt.NDArray[np.int64]:
    """Return the positions of an array's values in ascending order, shape (n,)."""
    return int64_of(pc.array_sort_indices(values))


def texts(values: Sequence[str | None]) -> pa.StringArray:
    """Return a string array; None becomes null.

    Raises:
        UnicodeEncodeError: a text is not valid Unicode.
        OverflowError: the texts take 2 GiB or more.
    """
    each = [b"" if v is None else v.encode() for v in values]
    offsets = list(itertools.accumulate(map(len, each), initial=0))
    if offsets[-1] >= 1 << 31:
        raise OverflowError(f"the texts take {offsets[-1]} bytes; expected less than 2 GiB")
    known = bitmap(np.array([v is not None for v in values], np.bool_))
    buffers = [known, pa.py_buffer(np.array(offsets, np.int32)), pa.py_buffer(b"".join(each))]
    return pa.Array.from_buffers(pa.string(), len(each), buffers)


def joined_longs(arrays: Iterable[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """Join int64 arrays. Return an empty array if there are none."""
    return np.concatenate([np.zeros(0, np.int64), *arrays])
