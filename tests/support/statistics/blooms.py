"""Bloom filters for tests: one implemented here, and those of real files."""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq
import xxhash

from skipstone.bindings.tables.parquet.thrift import sized_struct

SALT = (
    0x47B6137B,
    0x44974D91,
    0x8824AD5B,
    0xA2B7289D,
    0x705495C7,
    0x2DF1424B,
    0x9EFC4947,
    0x5C6BFB31,
)


def bloom(encoded: list[bytes], blocks: int = 8) -> bytes:
    """Return a split-block filter, built word by word as Parquet's BloomFilter.md describes it."""
    words = [[0] * 8 for _ in range(blocks)]
    for data in encoded:
        h = xxhash.xxh64_intdigest(data)
        block = words[((h >> 32) * blocks) >> 32]
        for i, salt in enumerate(SALT):
            block[i] |= 1 << (((h & 0xFFFFFFFF) * salt & 0xFFFFFFFF) >> 27)
    return b"".join(w.to_bytes(4, "little") for block in words for w in block)


def blooms_of(path: Any, column: int) -> list[bytes | None]:
    """Return the bitsets of one column's filters in a file, one per row group."""
    metadata, out = pq.read_metadata(path), []
    with open(path, "rb") as f:
        data = f.read()
    for g in range(metadata.num_row_groups):
        chunk = metadata.row_group(g).column(column)
        at = chunk.bloom_filter_offset
        if at is None:
            out.append(None)
            continue
        header, size = sized_struct(data[at : at + 64])
        out.append(data[at + size : at + size + header[1]])
    return out
