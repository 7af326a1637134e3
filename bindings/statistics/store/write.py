"""Write statistics to a file.

Arrays stream from memory into the file, which takes its name only when it is complete.
"""

from __future__ import annotations

import base64
import json
import mmap
from collections.abc import Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.statistics.coerce_inputs import PACKED
from skipstone.bindings.statistics.store.atomic import replacing
from skipstone.bindings.statistics.store.layout import ALIGN, MAGIC, ending, type_as_json
from skipstone.ir.arrow import whole
from skipstone.ir.errors import SkipstoneError
from skipstone.ir.node import Path, show_path
from skipstone.kernels.index.coarse import Grid
from skipstone.kernels.pack.codes import Dictionary
from skipstone.kernels.pack.columns import PLANES, Column
from skipstone.kernels.pack.packed import Packed
from skipstone.kernels.pack.planes import Plane, word_count
from skipstone.kernels.run.guard import BLOCK

if TYPE_CHECKING:
    from skipstone.bindings.statistics.statistics import Statistics

ArrayRef = list[int | str]  # an array's first byte in the file, its NumPy type, its length


def save(stats: Statistics, path: str) -> None:
    """Write statistics to a file, which atomically replaces any file at `path`.

    Raises:
        OSError: the file cannot be written.
    """
    with replacing(path) as f:
        _Writer(f).statistics(stats)


def save_packed(stats: Statistics, path: str, tables: Mapping[str, pa.Table], note: Any) -> None:
    """Write packed columns and the tables from which statistics can be rebuilt, like `save`.

    Args:
        stats: The statistics, whose packed columns are written.
        path: The file.
        tables: Tables by name.
        note: Any JSON value, to be returned by `PackedFile.note`.

    Raises:
        OSError: the file cannot be written.
    """
    with replacing(path) as f:
        _Writer(f).packed(stats, tables, note)


class _Sink:
    """A file object that writes bytes and computes the checksum of each block."""

    closed = False

    def __init__(self, file: IO[bytes]) -> None:
        import xxhash

        self.file, self.at, self.sums = file, 0, list[int]()
        self._hash, self._rest_of_block = xxhash.xxh3_64(), BLOCK

    def write(self, data: Any) -> None:
        rest = memoryview(data).cast("B")
        while len(rest):
            piece, rest = rest[: self._rest_of_block], rest[self._rest_of_block :]
            self.file.write(piece)
            self._hash.update(piece)
            self.at += len(piece)
            self._rest_of_block -= len(piece)
            if not self._rest_of_block:
                self.end_block()

    def end_block(self) -> None:
        if self._rest_of_block < BLOCK:
            self.sums.append(self._hash.intdigest())
            self._hash.reset()
            self._rest_of_block = BLOCK

    def tell(self) -> int:
        return self.at

    def flush(self) -> None: ...
    def close(self) -> None: ...


class _Writer:
    """Writes sections, and collects the footer that describes them."""

    def __init__(self, file: IO[bytes]) -> None:
        self.sink = _Sink(file)
        self.sink.write(MAGIC)
        self.sections: list[list[int | str]] = []  # name, first byte, bytes, rows
        # Position in the file of arrays written so far, by address and bytes. Each entry holds its
        # array, so that no other array gets the address.
        self.positions: dict[tuple[int, int], tuple[int, object]] = {}
        self.dictionaries: dict[int, tuple[int, Dictionary]] = {}  # section by id

    def statistics(self, stats: Statistics) -> None:
        """Write statistics as given, their packed columns and their index."""
        rows = stats.row_count
        footer = {
            "counts_parents": stats.counts_parents,
            "row_count": None if rows is None else self.raw("row_count", {"row_count": rows}),
            "statistics": [self.statistics_of(path, stats) for path in stats.leaf_paths()],
            "extras": [
                extra for path in stats.extra_paths() for extra in self.extras_of(path, stats)
            ],
            "packed": self.source("packed", stats, stats),
            "index": None if stats.levels is None else self.index(stats),
        }
        self.finish(stats, footer)

    def packed(self, stats: Statistics, tables: Mapping[str, pa.Table], note: Any) -> None:
        """Write tables and packed columns."""
        named = {name: self.table(name, table) for name, table in tables.items()}
        self.finish(
            stats, {"note": note, "tables": named, "packed": self.source("packed", stats, stats)}
        )

    def finish(self, stats: Statistics, footer: dict[str, Any]) -> None:
        """Write the checksums, the footer and the tail."""
        import xxhash

        self.pad()
        self.sink.end_block()
        schema = base64.b64encode(stats.schema.serialize().to_pybytes()).decode()
        footer |= {"containers": stats.num_containers, "schema": schema, "sections": self.sections}
        at, table = self.sink.at, np.array(self.sink.sums, "<u8").tobytes()
        footer |= {
            "block": BLOCK,
            "checksums": [at, len(self.sink.sums), xxhash.xxh3_64_intdigest(table)],
        }
        self.sink.file.write(table)
        self.sink.file.write(
            ending(json.dumps(footer, separators=(",", ":")).encode(), at + len(table))
        )

    def pad(self) -> None:
        self.sink.write(bytes(-self.sink.at % ALIGN))

    # The original statistics.

    def statistics_of(self, path: Path, stats: Statistics) -> list[Any]:
        """Write bounds and counts of a column, and return its footer entry."""
        raw = stats.raw(path)
        arrays = {key: array for key in PACKED if (array := getattr(raw, key)) is not None}
        named = {f"{show_path(path)}.{key}": array for key, array in arrays.items()}
        return [path, list(arrays), self.raw(f"{show_path(path)}", named) if arrays else None]

    def extras_of(self, path: Path, stats: Statistics) -> Iterator[list[Any]]:
        """Write the extras of a column, and yield their footer entries."""
        for key, array in stats.extras(path).items():
            name = f"{show_path(path)}.{key}"
            yield [path, key, self.raw(name, {name: array})]

    def raw(self, name: str, arrays: dict[str, pa.Array]) -> int:
        """Write arrays as given, and note their positions: packed arrays may be views."""
        plain = {key: whole(array) for key, array in arrays.items()}
        section, positions = self.section(name, plain)
        for array, at in zip(plain.values(), positions, strict=True):
            t = array.type
            if at is not None and (
                pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_temporal(t)
            ):
                width = t.bit_width // 8
                self.positions[
                    array.buffers()[1].address + array.offset * width, len(array) * width
                ] = at, array
        return section

    def table(self, name: str, table: pa.Table) -> int:
        """Write a table as a section, with a batch for each of its chunks; return its number."""
        self.pad()
        start = self.sink.at
        with pa.PythonFile(self.sink, "w") as f, pa.ipc.new_stream(f, table.schema) as stream:
            stream.write_table(table)
        self.sections.append([name, start, self.sink.at - start, table.num_rows])
        return len(self.sections) - 1

    def section(self, name: str, arrays: dict[str, pa.Array]) -> tuple[int, list[int | None]]:
        """Write an Arrow IPC stream of one batch.

        Returns:
            The section's number, and the position of each array's values; None where they are not
            plain numbers.
        """
        self.pad()
        start = self.sink.at
        batch = pa.record_batch(list(arrays.values()), names=list(arrays))
        with pa.PythonFile(self.sink, "w") as f, pa.ipc.new_stream(f, batch.schema) as stream:
            stream.write_batch(batch)
        self.sections.append([name, start, self.sink.at - start, batch.num_rows])
        # Only Arrow knows where it wrote the buffers, so let it read the section back.
        self.sink.file.flush()
        written = pa.py_buffer(mmap.mmap(self.sink.file.fileno(), 0, access=mmap.ACCESS_READ))
        read = pa.ipc.open_stream(written.slice(start, self.sink.at - start)).read_next_batch()
        return len(self.sections) - 1, [_position(a, written) for a in read.columns]

    # Packed columns.

    def source(self, name: str, source: Packed, stats: Statistics) -> dict[str, Any]:
        """Write the packed columns of a source, and return its footer entry.

        A column that was not packed before is dropped after it is written.
        """
        rows = source.rows_plane()
        out: dict[str, Any] = {
            "rows": self.arrays(f"{name}: rows", source.num_containers, {"rows": rows})["rows"],
            "columns": [],
        }
        for path in stats.leaf_paths():
            leaf = stats.leaf(path)
            if leaf is None:
                continue
            packed = source.made(path, leaf.dtype)
            before = dict(self.positions), dict(self.dictionaries)
            column = source.pack(path, leaf.dtype) if packed is None else packed
            entry = {
                "path": path,
                "type": type_as_json(leaf.dtype),
                "lane": column.numpy_type,
                "codes": self.codes(path, column),
            }
            parts = {key: getattr(column, key) for key in ("low", "high", *PLANES)}
            out["columns"].append(
                entry | self.arrays(f"{name}: {show_path(path)}", source.num_containers, parts)
            )
            if packed is None:
                self.positions, self.dictionaries = before
        return out

    def codes(self, path: Path, column: Column) -> list[Any] | None:
        """Return the footer entry of a column's codes; write its dictionary if it is new."""
        codes = column.codes
        if isinstance(codes, Dictionary):
            if id(codes) not in self.dictionaries:
                section, _ = self.section(f"{show_path(path)}: keys", {"keys": codes.keys})
                self.dictionaries[id(codes)] = section, codes
            return ["keys", self.dictionaries[id(codes)][0]]
        return ["grid", codes.base, codes.shift, codes.scale] if isinstance(codes, Grid) else None

    def arrays(
        self, name: str, n: int, parts: dict[str, npt.NDArray[Any] | Plane | None]
    ) -> dict[str, Any]:
        """Return references to packed arrays; write those that are new as one section.

        A part that is not an array, such as a constant plane, is returned unchanged.
        """
        new = {}
        for key, part in parts.items():
            if isinstance(part, np.ndarray) and part.nbytes and _key(part) not in self.positions:
                plane = key in (*PLANES, "rows")
                arrow = pa.bool_() if plane else pa.from_numpy_dtype(part.dtype)
                new[key] = pa.Array.from_buffers(
                    arrow, n if plane else len(part), [None, pa.py_buffer(part)]
                )
        if new:
            _, positions = self.section(name, new)
            self.positions |= {
                _key(part): (at or 0, part)
                for key, at in zip(new, positions, strict=True)
                if isinstance(part := parts[key], np.ndarray)
            }
        return {
            key: self.ref(part) if isinstance(part, np.ndarray) else part
            for key, part in parts.items()
        }

    def ref(self, part: npt.NDArray[Any]) -> ArrayRef:
        """Return the reference to an array that was written."""
        return [self.positions[_key(part)][0] if part.nbytes else ALIGN, str(part.dtype), len(part)]

    def index(self, stats: Statistics) -> dict[str, Any]:
        """Write the index and return its footer entry."""
        index = stats.levels
        assert index is not None
        order = None
        if index.order is not None:
            index.verify_order()
            order = self.arrays("order", len(index.order), {"order": index.order}) | self.source(
                "ordered", index.leaf, stats
            )
        levels = []
        for i, level in enumerate(index.levels):
            size, starts = level.blocks.size, level.blocks.starts
            grouped = {"size": size} | self.arrays(f"level {i}: starts", 0, {"starts": starts})
            levels.append(grouped | self.source(f"level {i}", level, stats))
        return {
            "order": order,
            "levels": levels,
            "codes": None if index.coarse is None else self.source("codes", index.coarse, stats),
        }


def _key(part: npt.NDArray[Any]) -> tuple[int, int]:
    return part.ctypes.data, part.nbytes


def _position(array: pa.Array, written: pa.Buffer) -> int | None:
    """Return the first byte in `written` of the values of an array that was read from it.

    Returns:
        None if the values are not plain numbers, or there are none.
    """
    t = array.type
    if not (
        pa.types.is_integer(t)
        or pa.types.is_floating(t)
        or pa.types.is_temporal(t)
        or pa.types.is_boolean(t)
    ) or not len(array):
        return None
    values = array.buffers()[1]
    needed = word_count(len(array)) * 8 if pa.types.is_boolean(t) else len(array) * t.bit_width // 8
    at = int(values.address - written.address)
    if array.offset or not 0 <= at <= written.size - needed:
        raise SkipstoneError(
            f"pyarrow {pa.__version__} does not read arrays of a file in place; "
            "use a version from 17 to 26"
        )
    return at
