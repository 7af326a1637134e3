"""Writing statistics to a file. Arrays go from where they are to the file, and a name is given to it only when it is whole."""

from __future__ import annotations

import base64
import json
import mmap
from collections.abc import Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.statistics.coerce_inputs import KEYS
from skipstone.bindings.statistics.store.atomic import replacing
from skipstone.bindings.statistics.store.layout import ALIGN, MAGIC, ending, type_of
from skipstone.ir.errors import SkipstoneError
from skipstone.ir.node import Path, show_path
from skipstone.ir.types import whole
from skipstone.kernels.index.coarse import Grid
from skipstone.kernels.pack.codes import Dictionary
from skipstone.kernels.pack.columns import Column
from skipstone.kernels.pack.packed import Packed
from skipstone.kernels.pack.planes import Plane, word_count
from skipstone.kernels.run.guard import BLOCK

if TYPE_CHECKING:
    from skipstone.bindings.statistics.statistics import Statistics

Ref = list[int | str]  # where an array's first byte lies, its lane type, its length


def save(stats: Statistics, path: str) -> None:
    """Write statistics to a file that takes the place of any that was there, at once."""
    with replacing(path) as f:
        _Writer(f).statistics(stats)


def save_packed(stats: Statistics, path: str, tables: Mapping[str, pa.Table], note: Any) -> None:
    """Write what is packed of statistics, tables that they can be made from again, and a note, JSON, in the same way."""
    with replacing(path) as f:
        _Writer(f).packed(stats, tables, note)


class _Sink:
    """Bytes on their way to the file, with their checksums."""

    closed = False

    def __init__(self, file: IO[bytes]) -> None:
        import xxhash

        self.file, self.at, self.sums = file, 0, list[int]()
        self._hash, self._room = xxhash.xxh3_64(), BLOCK

    def write(self, data: Any) -> None:
        rest = memoryview(data).cast("B")
        while len(rest):
            piece, rest = rest[: self._room], rest[self._room :]
            self.file.write(piece)
            self._hash.update(piece)
            self.at += len(piece)
            self._room -= len(piece)
            if not self._room:
                self.end_block()

    def end_block(self) -> None:
        if self._room < BLOCK:
            self.sums.append(self._hash.intdigest())
            self._hash.reset()
            self._room = BLOCK

    def tell(self) -> int:
        return self.at

    def flush(self) -> None: ...
    def close(self) -> None: ...


class _Writer:
    def __init__(self, file: IO[bytes]) -> None:
        self.sink = _Sink(file)
        self.sink.write(MAGIC)
        self.sections: list[list[int | str]] = []  # name, first byte, bytes, rows
        # What is in the file already, by address and bytes; an array is kept with it, so that the address stays its own.
        self.known: dict[tuple[int, int], tuple[int, object]] = {}
        self.keys: dict[int, tuple[int, Dictionary]] = {}  # section by id

    def statistics(self, stats: Statistics) -> None:
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
        named = {name: self.table(name, table) for name, table in tables.items()}
        self.finish(
            stats, {"note": note, "tables": named, "packed": self.source("packed", stats, stats)}
        )

    def finish(self, stats: Statistics, footer: dict[str, Any]) -> None:
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

    # Statistics as they came.

    def statistics_of(self, path: Path, stats: Statistics) -> list[Any]:
        raw = stats.raw(path)
        arrays = {key: array for key in KEYS[:5] if (array := getattr(raw, key)) is not None}
        named = {f"{show_path(path)}.{key}": array for key, array in arrays.items()}
        return [path, list(arrays), self.raw(f"{show_path(path)}", named) if arrays else None]

    def extras_of(self, path: Path, stats: Statistics) -> Iterator[list[Any]]:
        for key, array in stats.extras(path).items():
            name = f"{show_path(path)}.{key}"
            yield [path, key, self.raw(name, {name: array})]

    def raw(self, name: str, arrays: dict[str, pa.Array]) -> int:
        """A section of Arrow arrays; packed arrays that are views of one need no second place."""
        plain = {key: whole(array) for key, array in arrays.items()}
        section, places = self.section(name, plain)
        for array, at in zip(plain.values(), places, strict=True):
            t = array.type
            if at is not None and (
                pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_temporal(t)
            ):
                width = t.bit_width // 8
                self.known[
                    array.buffers()[1].address + array.offset * width, len(array) * width
                ] = at, array
        return section

    def table(self, name: str, table: pa.Table) -> int:
        """A section of a table, in as many batches as it has chunks."""
        self.pad()
        start = self.sink.at
        with pa.PythonFile(self.sink, "w") as f, pa.ipc.new_stream(f, table.schema) as stream:
            stream.write_table(table)
        self.sections.append([name, start, self.sink.at - start, table.num_rows])
        return len(self.sections) - 1

    def section(self, name: str, arrays: dict[str, pa.Array]) -> tuple[int, list[int | None]]:
        """Write an Arrow IPC stream of one batch.

        Returns:
            Its number, and where the values of arrays of numbers lie.
        """
        self.pad()
        start = self.sink.at
        batch = pa.record_batch(list(arrays.values()), names=list(arrays))
        with pa.PythonFile(self.sink, "w") as f, pa.ipc.new_stream(f, batch.schema) as stream:
            stream.write_batch(batch)
        self.sections.append([name, start, self.sink.at - start, batch.num_rows])
        # Where Arrow puts buffers is its own affair, so it is asked.
        self.sink.file.flush()
        written = pa.py_buffer(mmap.mmap(self.sink.file.fileno(), 0, access=mmap.ACCESS_READ))
        read = pa.ipc.open_stream(written.slice(start, self.sink.at - start)).read_next_batch()
        return len(self.sections) - 1, [_place(a, written) for a in read.columns]

    # What was packed.

    def source(self, name: str, source: Packed, stats: Statistics) -> dict[str, Any]:
        """Packed columns of everything that has statistics; one that was not packed yet is dropped once it is written."""
        rows = source.rows_plane()
        out: dict[str, Any] = {
            "rows": self.arrays(f"{name}: rows", source.num_containers, {"rows": rows})["rows"],
            "columns": [],
        }
        for path in stats.leaf_paths():
            leaf = stats.leaf(path)
            if leaf is None:
                continue
            made = source.made(path, leaf.dtype)
            before = dict(self.known), dict(self.keys)
            column = source.pack(path, leaf.dtype) if made is None else made
            shown = {
                "path": path,
                "type": type_of(leaf.dtype),
                "lane": column.lane,
                "codes": self.codes(path, column),
            }
            parts = {key: getattr(column, key) for key in ("low", "high", "real", "nulls", "nans")}
            out["columns"].append(
                shown | self.arrays(f"{name}: {show_path(path)}", source.num_containers, parts)
            )
            if made is None:
                self.known, self.keys = before
        return out

    def codes(self, path: Path, column: Column) -> list[Any] | None:
        codes = column.codes
        if isinstance(codes, Dictionary):
            if id(codes) not in self.keys:
                section, _ = self.section(f"{show_path(path)}: keys", {"keys": codes.keys})
                self.keys[id(codes)] = section, codes
            return ["keys", self.keys[id(codes)][0]]
        return ["grid", codes.base, codes.shift, codes.scale] if isinstance(codes, Grid) else None

    def arrays(
        self, name: str, n: int, parts: dict[str, npt.NDArray[Any] | Plane | None]
    ) -> dict[str, Any]:
        """Packed arrays as references to their places, all that are new in one section; what is no array stands for itself."""
        new = {}
        for key, part in parts.items():
            if isinstance(part, np.ndarray) and part.nbytes and _key(part) not in self.known:
                plane = key in ("real", "nulls", "nans", "rows")
                arrow = pa.bool_() if plane else pa.from_numpy_dtype(part.dtype)
                new[key] = pa.Array.from_buffers(
                    arrow, n if plane else len(part), [None, pa.py_buffer(part)]
                )
        if new:
            _, places = self.section(name, new)
            self.known |= {
                _key(part): (at or 0, part)
                for key, at in zip(new, places, strict=True)
                if isinstance(part := parts[key], np.ndarray)
            }
        return {
            key: self.ref(part) if isinstance(part, np.ndarray) else part
            for key, part in parts.items()
        }

    def ref(self, part: npt.NDArray[Any]) -> Ref:
        return [self.known[_key(part)][0] if part.nbytes else ALIGN, str(part.dtype), len(part)]

    def index(self, stats: Statistics) -> dict[str, Any]:
        index = stats.levels
        assert index is not None
        order = None
        if index.order is not None:
            index.touch()
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


def _place(array: pa.Array, written: pa.Buffer) -> int | None:
    """Where the values of an array that was read from `written` lie in it."""
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
            f"pyarrow {pa.__version__} does not give an array's values where they lie in a file; use a version from 17 to 26"
        )
    return at
