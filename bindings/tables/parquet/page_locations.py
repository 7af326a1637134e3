"""Find the pages of a small footer's column chunks in Python, before any loop is compiled."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from skipstone.bindings.tables.parquet.thrift import Fields, ThriftError
from skipstone.kernels.decode import footer_loops as at
from skipstone.kernels.decode import page_layout as layout

# Slot -> field of a chunk, and of its metadata.
CHUNK_FIELDS: Final = {
    layout.OFFSET_INDEX: 4, layout.OFFSET_INDEX_SIZE: 5,
    layout.COLUMN_INDEX: 6, layout.COLUMN_INDEX_SIZE: 7,
}  # fmt: skip
METADATA_FIELDS: Final = {
    layout.CODEC: 4, layout.VALUES: 5, layout.UNCOMPRESSED: 6, at.BYTES: 7, layout.DATA: 9,
    layout.DICTIONARY: 11,
}  # fmt: skip
NEEDED: Final = {layout.CODEC, layout.VALUES, layout.UNCOMPRESSED, at.BYTES, layout.DATA}
FILE_PATH, METADATA, CRYPTO, ENCRYPTED = 1, 3, 8, 9
BLOOM_OFFSET, BLOOM_LENGTH = 14, 15
ROW_GROUPS, COLUMNS, COLUMN_ORDERS = 4, 1, 7
TYPE_ORDER: Final[dict[int, dict[int, object]]] = {1: {}}  # a union that names an empty structure


class PageLocations(NamedTuple):
    """The locations of the pages in a footer, and the orders of its columns.

    Attributes:
        slots: The same as `page_layout.page_slots_of` finds.
        orders: The number of columns whose bounds have the order of their type.
        blooms: (row group, column) -> offset and length of its bloom filter, where there is one;
            the length may be None.
    """

    slots: npt.NDArray[np.int64]
    orders: int
    blooms: dict[tuple[int, int], tuple[int, int | None]]


def page_locations_in_python(whole: Fields) -> PageLocations | None:
    """Return where the pages and indexes of a footer's column chunks lie; None if it is damaged.

    Args:
        whole: FileMetaData.
    """
    try:
        groups, orders = _list(whole.get(ROW_GROUPS)), _list(whole.get(COLUMN_ORDERS, []))
        chunks = [[_slots(chunk) for chunk in _list(group.get(COLUMNS))] for group in groups]
        blooms = {
            (g, c): bloom
            for g, group in enumerate(groups)
            for c, chunk in enumerate(group[COLUMNS])
            if (bloom := _bloom(chunk[METADATA])) is not None
        }
    except (ThriftError, AttributeError, OverflowError):  # a field of another type
        return None
    columns = len(chunks[0]) if chunks else 0
    if any(len(group) != columns for group in chunks):
        return None
    return PageLocations(
        np.array(chunks, np.int64).reshape(len(chunks), columns, at.WIDTH),
        sum(order == TYPE_ORDER for order in orders),
        blooms,
    )


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ThriftError("a field is not a list")
    return value


def _bloom(metadata: dict[int, Any]) -> tuple[int, int | None] | None:
    """Return the offset and the length of a chunk's bloom filter."""
    offset, length = metadata.get(BLOOM_OFFSET), metadata.get(BLOOM_LENGTH)
    if type(offset) is not int:
        return None
    return offset, length if type(length) is int else None


def _slots(chunk: dict[int, Any]) -> list[int]:
    metadata = chunk.get(METADATA)
    if not isinstance(metadata, dict) or {FILE_PATH, CRYPTO, ENCRYPTED} & chunk.keys():
        raise ThriftError("the pages of a chunk are encrypted, or in another file")
    out = [0] * at.WIDTH
    for fields, slots in ((chunk, CHUNK_FIELDS), (metadata, METADATA_FIELDS)):
        for slot, field in slots.items():
            value = fields.get(field)
            if value is None and slot not in NEEDED:
                continue
            if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
                raise ThriftError(f"field {field} of a chunk is not a number")
            out[slot] = value
            out[at.FLAGS] |= 1 << slot
    return out
