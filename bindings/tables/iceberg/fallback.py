"""Read by pyiceberg what our own Avro decoder does not support.

pyiceberg's decoder in Python is used, because its compiled one trusts every length in a file.
Importing this module imports pyiceberg.
"""

from __future__ import annotations

import io
import json
from typing import Any

from pyiceberg.avro.decoder import StreamingBinaryDecoder
from pyiceberg.avro.file import SYNC_SIZE, AvroFile, AvroOutputFile, Block
from pyiceberg.avro.resolver import resolve_reader
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    ManifestEntry,
    ManifestFile,
    PartitionFieldSummary,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)

from skipstone.ir.errors import SourceError, describe_error
from skipstone.kernels import logs
from skipstone.kernels.decode.avro import max_unpacked_bytes
from skipstone.kernels.decode.unpack import CODECS, unpacked

READ = 2  # pyiceberg reads manifests of any version of the format as this one
PARTITION = 102  # the id of the field


def rewritten(data: bytes, why: Exception) -> bytes:
    """Read a manifest by pyiceberg and write it again as uncompressed Avro.

    Args:
        data: The manifest.
        why: The reason that our decoder does not support it, for errors.

    Raises:
        SourceError: pyiceberg cannot read it either.
    """
    logs.fallback(f"pyiceberg decodes a manifest: {describe_error(why)}")
    try:
        with _File(
            _Memory(data), MANIFEST_ENTRY_SCHEMAS[READ], {-1: ManifestEntry, 2: DataFile}
        ) as reader:
            entries = list(reader)
            partition = reader.schema.find_type(PARTITION)
        out = _Memory()
        schema = manifest_entry_schema_with_data_file(
            READ, data_file_with_partition(partition, READ)
        )
        with AvroOutputFile(
            out, schema, "manifest_entry", metadata={"avro.codec": "null"}
        ) as writer:
            if entries:
                writer.write_block(entries)
        return out.data
    except Exception as e:  # a decoder may raise anything on arbitrary bytes
        raise SourceError(f"{why}; pyiceberg cannot read it either ({describe_error(e)})") from e


def manifest_list(data: bytes, why: Exception) -> list[Any]:
    """Read a manifest list by pyiceberg.

    Args:
        data: The manifest list.
        why: The reason that our decoder does not support it, for errors.

    Raises:
        SourceError: pyiceberg cannot read it either.
    """
    try:
        with _File(
            _Memory(data),
            MANIFEST_LIST_FILE_SCHEMAS[READ],
            {-1: ManifestFile, 508: PartitionFieldSummary},
        ) as reader:
            return list(reader)
    except Exception as e:  # as above
        raise SourceError(f"{why}; pyiceberg cannot read it either ({describe_error(e)})") from e


class _Decoder(StreamingBinaryDecoder):  # type: ignore[misc]
    """pyiceberg's decoder, with checks for damaged files."""

    def read_int(self) -> int:
        n = 0
        for shift in range(0, 70, 7):
            byte = int(self.read(1)[0])
            n |= (byte & 0x7F) << shift
            if byte < 0x80 and n < 2**64:
                return (n >> 1) ^ -(n & 1)
        raise ValueError("a number has more than 64 bits")

    def skip_int(self) -> None:
        self.read_int()

    def skip(self, n: int) -> None:
        self.read(n)


class _File(AvroFile):  # type: ignore[misc]
    """pyiceberg's reader over `_Decoder`."""

    begun, size, remaining = False, 0, 0

    def __enter__(self) -> Any:
        with self.input_file.open() as f:
            data = f.read()
        self.size, self.remaining, self.decoder = (
            len(data),
            max_unpacked_bytes(len(data)),
            _Decoder(data),
        )
        self.header = self._read_header()
        _takes_bytes(json.loads(self.header.meta["avro.schema"]))
        self.schema = self.header.get_schema()
        self.reader = resolve_reader(
            self.schema, self.read_schema, self.read_types, self.read_enums
        )
        return self

    def _read_block(self) -> int:
        try:
            return self._block()
        except EOFError:  # pyiceberg takes it for the end of the file
            raise ValueError("a block is cut off") from None

    def __next__(self) -> Any:
        if (
            self.block is None or not self.block.has_next()
        ) and self.decoder.tell() == self.size - (SYNC_SIZE if self.begun else 0):
            raise StopIteration
        return super().__next__()

    def _block(self) -> int:
        if self.begun and self.decoder.read(SYNC_SIZE) != self.header.sync:
            raise ValueError("the marker after a block is missing")
        self.begun = True
        count = int(self.decoder.read_int())
        if count < 1:
            raise ValueError("a block has no records")
        data = self.decoder.read_bytes()
        if self.header.compression_codec() is not None:
            codec = self.header.meta.get("avro.codec", "deflate")
            if codec not in CODECS:
                raise ValueError(f"its codec is {codec!r}")
            data = unpacked(codec, data, self.remaining)
            self.remaining -= len(data)
        self.block = Block(self.reader, count, _Decoder(data))
        return count


def _takes_bytes(described: Any) -> bool:
    """Return True if each value of a schema takes at least one byte.

    Raises:
        ValueError: an array's items take none, so its count alone could ask for any amount of work.
    """
    if isinstance(described, list):
        for one in described:
            _takes_bytes(one)
        return True
    if not isinstance(described, dict):
        return bool(described != "null")
    kind = described.get("type")
    if kind == "record":
        # `sum`, unlike `any`, checks every field.
        return sum(_takes_bytes(f["type"]) for f in described["fields"]) > 0
    if kind in ("array", "map"):
        if not _takes_bytes(described.get("items", described.get("values"))) and kind == "array":
            raise ValueError("the schema has an array of items that take no bytes")
        return True
    return bool(described.get("size")) if kind == "fixed" else _takes_bytes(kind)


class _Memory:
    """Bytes in memory as pyiceberg's InputFile and OutputFile."""

    location = "memory"

    def __init__(self, data: bytes = b"") -> None:
        self.data = data

    def open(self, seekable: bool = True) -> io.BytesIO:
        return io.BytesIO(self.data)

    def create(self, overwrite: bool = False) -> _Stream:
        return _Stream(self)


class _Stream(io.BytesIO):
    def __init__(self, memory: _Memory) -> None:
        super().__init__()
        self.memory = memory

    def close(self) -> None:
        self.memory.data = self.getvalue()
        super().close()
