"""Rows as containers: the minimum and the maximum of a row are its value.

Container kernels can therefore judge rows too, with the same three-valued logic, reading values in
place from Arrow buffers.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir.arrow import booleans_of
from skipstone.ir.node import Node, Path
from skipstone.ir.session import CannotJudge
from skipstone.ir.types import DType, Kind, from_arrow
from skipstone.kernels.pack import row_loops
from skipstone.kernels.pack.bounds import BoundArray
from skipstone.kernels.pack.columns import Column
from skipstone.kernels.pack.planes import (
    Mask,
    Plane,
    clear_tail,
    mask_of,
    pack,
    plane_of,
    word_count,
)
from skipstone.kernels.run.launch import Key
from skipstone.kernels.run.loops import Loop, compiled, compiled_or_start

NARROW: Final = Loop(row_loops, "take_low_words", "i8(longs, array)")
# Types whose values kernels read in Arrow's buffers, without a conversion.
IN_PLACE: Final = (Kind.INT, Kind.UINT, Kind.FLOAT, Kind.DATE, Kind.TIME, Kind.TIMESTAMP)


class RowSource:
    """The rows of a batch, as the statistics of containers of one row each.

    Args:
        batch: n rows, host memory. Struct fields are not resolved here.
    """

    files = ()
    bounds_elements = False

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._columns: dict[str, Column] = {}

    @property
    def num_containers(self) -> int:
        """The number of rows."""
        return int(self._batch.num_rows)

    def column(self, key: Key, dtype: DType) -> Column:
        """Return a column's values as both bounds; a call's bounds are derived from them.

        Raises:
            CannotJudge: kernels cannot read the values (see `kernels_read`), or they are of another
                type.
        """
        if isinstance(key, Node):
            from skipstone.kernels.pack.derive import derive

            return derive(key, self)
        if len(key) != 1:
            raise CannotJudge("struct fields are not resolved here")
        name = key[0]
        if name not in self._columns:
            values = self._batch.column(name)
            if not kernels_read(values.type) or from_arrow(values.type) != dtype:
                raise CannotJudge(f"kernels cannot read values of type {values.type} as {dtype}")
            self._columns[name] = _column(values, dtype)
        return self._columns[name]

    def rows_plane(self) -> Plane:
        """Return True for all containers: each has a row."""
        return True

    def contained_in(self, path: Path, values: tuple[object, ...], dtype: DType) -> None:
        """Return None: nothing is known besides the values."""


def _column(values: pa.Array, dtype: DType) -> Column:
    valid, numbers = validity(values), _numbers(values)
    value: Plane = valid
    nan: Plane = False
    if dtype.kind is Kind.FLOAT and (not_a_number := np.isnan(numbers)).any():
        known = mask_of(valid, len(values))
        value, nan = plane_of(known & ~not_a_number), plane_of(known & not_a_number)
    return Column(
        dtype, dtype.numpy_type, numbers, numbers, value, _inverse(valid, len(values)), nan
    )


def kernels_read(t: pa.DataType) -> bool:
    """Return True if kernels can compare values of a type in place."""
    if pa.types.is_dictionary(t) or pa.types.is_date64(t) or pa.types.is_time32(t):
        return False
    if pa.types.is_run_end_encoded(t):
        return False
    dtype = from_arrow(t)
    if dtype.kind is Kind.DECIMAL:
        return pa.types.is_decimal128(t) and not dtype.coded
    return dtype.kind is Kind.BOOL or dtype.kind in IN_PLACE


def validity(values: pa.Array) -> Plane:
    """Return the plane of the values that are not NULL."""
    if not values.null_count:
        return True
    if values.null_count == len(values):
        return False
    bits = values.buffers()[0]
    if values.offset % 8:
        return pack(booleans_of(pc.is_valid(values)))
    out = np.zeros(word_count(len(values)), np.uint64)
    count = (len(values) + 7) // 8
    out.view(np.uint8)[:count] = np.frombuffer(bits, np.uint8, count, values.offset // 8)
    return clear_tail(out, len(values))


def _numbers(values: pa.Array) -> BoundArray:
    """Return the values that kernels compare, shape (n,); NULLs have any value.

    Raises:
        CannotJudge: a decimal has more digits than its type.
    """
    dtype, data = from_arrow(values.type), values.buffers()[1]
    if dtype.kind is Kind.BOOL:
        bits = np.frombuffer(data, np.uint8)
        stop = values.offset + len(values)
        return np.unpackbits(bits, count=stop, bitorder="little")[values.offset :]
    if dtype.kind is not Kind.DECIMAL:
        return np.frombuffer(
            data, dtype.numpy_type, len(values), values.offset * np.dtype(dtype.numpy_type).itemsize
        )
    words = np.frombuffer(data, np.int64, 2 * len(values), 16 * values.offset)
    if compiled_or_start(NARROW):
        low = np.empty(len(values), np.int64)
        if not compiled(NARROW)(words, low):
            return low
    low = np.ascontiguousarray(words[0::2])
    if (valid := validity(values)) is not False:
        wide: Mask = words[1::2] != low >> 63
        if wide.any() and (valid is True or (pack(wide) & valid).any()):
            raise CannotJudge(f"decimals have more digits than {values.type}")
    return low


def _inverse(plane: Plane, n: int) -> Plane:
    if isinstance(plane, bool):
        return not plane
    return clear_tail(~plane, n)
