"""Read packed columns and the index from a file of saved statistics, in place.

Footer entries are checked immediately. Arrays are views of the file, each with a guard that
verifies it before it is first read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.statistics.store.layout import (
    MAX_CONTAINERS,
    OpenedFile,
    type_as_json,
    wrong,
)
from skipstone.bindings.statistics.store.sections import SectionReader
from skipstone.ir.node import Path, show_path
from skipstone.ir.types import DType
from skipstone.kernels.index.blocks import Blocks
from skipstone.kernels.index.coarse import PLACE_TYPE, Grid
from skipstone.kernels.index.index import Index
from skipstone.kernels.index.levels import Coarse, Level
from skipstone.kernels.index.order import Reordered
from skipstone.kernels.pack.codes import Dictionary
from skipstone.kernels.pack.columns import PLANES, Column
from skipstone.kernels.pack.narrow import CANDIDATES
from skipstone.kernels.pack.packed import Packed
from skipstone.kernels.pack.planes import Plane, word_count
from skipstone.kernels.run.guard import Guard

if TYPE_CHECKING:
    from skipstone.bindings.statistics.statistics import Statistics

Columns = dict[tuple[Path, DType], Column]


class PackedReader(SectionReader):
    """The packed columns and the index in an opened file."""

    def __init__(self, path: str, opened: OpenedFile) -> None:
        super().__init__(path, opened)
        self.dictionaries: dict[tuple[int, DType], Dictionary] = {}

    def source(self, source: Packed, entry: dict[str, Any], full: Columns | None) -> Columns:
        """Give a source its packed columns.

        Args:
            source: Containers, or blocks of them.
            entry: The source's entry in the footer.
            full: The columns that coarse codes stand for.
        """
        n = source.num_containers
        rows, guard = self.plane(entry["rows"], n, "rows")
        columns: Columns = {}
        for c in entry["columns"]:
            path = self.column_path(c["path"])
            leaf = self.leaves.get(path)
            if leaf is None or c["type"] != type_as_json(leaf.dtype):
                raise wrong(
                    self.path,
                    f"column {show_path(path)} was packed as {c['type']!r:.200}; "
                    f"its schema has {leaf and type_as_json(leaf.dtype)}",
                )
            columns[path, leaf.dtype] = self.column(
                c, path, leaf.dtype, n, (full or {}).get((path, leaf.dtype))
            )
        source.adopt(columns, rows, guard, self.file)
        return columns

    def column(
        self, c: dict[str, Any], path: Path, dtype: DType, n: int, full: Column | None
    ) -> Column:
        """Return a packed column of n containers from its footer entry `c`."""
        guards: dict[str, Guard] = {}
        codes, numpy_type, name = self.codes(c["codes"], dtype, full), c["lane"], show_path(path)
        if numpy_type not in _possible_types(dtype, codes):
            raise wrong(
                self.path,
                f"column {name} of type {dtype} has bounds of type {numpy_type!r}; "
                f"expected one of {', '.join(_possible_types(dtype, codes))}",
            )
        parts: dict[str, Any] = {}
        for key in ("low", "high", *PLANES):
            what = f"{name}.{key}"
            part, guard = (
                self.array(c[key], numpy_type, n, what)
                if key in ("low", "high")
                else self.plane(c[key], n, what)
            )
            parts[key] = part
            if guard is not None:
                guards[key] = guard
        return Column(dtype, numpy_type, **parts, codes=codes, guards=guards or None)

    def codes(
        self, entry: list[Any] | None, dtype: DType, full: Column | None
    ) -> Dictionary | Grid | None:
        """Return the dictionary or the grid that a column's codes refer to; None if it has none."""
        match entry:
            case None if not dtype.coded:
                return None
            case ["keys", int(section)] if dtype.coded:
                if (section, dtype) not in self.dictionaries:
                    read = self.array_reader(section, 1, 0, self.sections[section][3])
                    self.dictionaries[section, dtype] = Dictionary(
                        lambda: self.check_keys(read()), dtype
                    )
                return self.dictionaries[section, dtype]
            case ["grid", base, int(shift), float(scale)] if (
                full is not None and full.guards is not None
            ):
                info = np.iinfo(full.numpy_type) if full.numpy_type[0] in "iu" else None
                fits = (
                    type(base) is float
                    if info is None
                    else type(base) is int and info.min <= base <= info.max
                )
                if fits and 0 <= shift < 64:
                    return Grid(full.without_arrays(), base, shift, scale)
        raise wrong(
            self.path,
            f"bounds of type {dtype} have codes {entry!r}; "
            "expected none, a dictionary for text and long decimals, or a grid",
        )

    def check_keys(self, keys: pa.Array) -> pa.Array:
        """Return the keys of a dictionary if they have the right type and no null."""
        if keys.type != pa.large_binary() or keys.null_count:
            raise wrong(
                self.path,
                f"a dictionary is of type {keys.type} with {keys.null_count} nulls; "
                "expected large_binary without nulls",
            )
        return keys

    def plane(self, entry: Any, n: int, what: str) -> tuple[Plane, Guard | None]:
        """Return a plane of n containers, not yet verified, and its guard."""
        if type(entry) is bool:
            return entry, None
        words, guard = self.array(entry, "uint64", word_count(n), what, step=8)
        if words is None:
            raise wrong(self.path, f"plane {what} is null; expected true, false or words")
        return words, guard

    def array(
        self, entry: Any, numpy_type: str, count: int, what: str, step: int = 0
    ) -> tuple[npt.NDArray[Any] | None, Guard | None]:
        """Return an array in place, not yet verified, and its guard.

        Args:
            entry: The array's first byte, type and length; None if there is no array.
            numpy_type: The expected type.
            count: The expected length.
            what: The array's name, for errors.
            step: Bytes of the array for 64 containers; 0: those of 64 values.
        """
        if entry is None:
            return None, None
        at, type_name, rows = entry
        dtype = np.dtype(numpy_type)
        if type_name != numpy_type or rows != count or type(rows) is not int:
            raise wrong(
                self.path,
                f"{what} is an array of {rows!r} {type_name!r}; expected {count} {numpy_type!r}",
            )
        last = self.file.stop - count * dtype.itemsize
        self.check_integer(at, last, f"the first byte of {what}")
        if at % dtype.itemsize:
            raise wrong(
                self.path, f"{what} starts at byte {at}; expected a multiple of {dtype.itemsize}"
            )
        return np.frombuffer(self.data, dtype, count, at), Guard(
            self.file, what, at, count * dtype.itemsize, step or dtype.itemsize * 64
        )

    def index(self, flat: Statistics, entry: dict[str, Any], columns: Columns) -> Index:
        """Return the index over `flat`, whose packed columns are `columns`."""
        order, guard = None, None
        source: Packed = flat
        if entry["order"] is not None:
            order, guard = self.array(
                entry["order"]["order"], "int32" if self.n < 2**31 else "int64", self.n, "order"
            )
            if order is None:
                raise wrong(self.path, "the order is null; expected an array")
            source = Reordered(flat, order, guard)
            columns = self.source(source, entry["order"], None)
        levels: list[Level] = []
        for level_entry in reversed(entry["levels"]):
            below = levels[0] if levels else source
            levels.insert(0, Level(below, self.blocks(level_entry, below.num_containers)))
            self.source(levels[0], level_entry, None)
        coarse = None
        if entry["codes"] is not None:
            coarse = Coarse(source)
            self.source(coarse, entry["codes"], columns)
        return Index(source, tuple(levels), coarse, order, guard)

    def blocks(self, entry: dict[str, Any], n: int) -> Blocks:
        """Return the blocks of a level over n containers or blocks."""
        if entry["starts"] is None:
            size = entry["size"]
            if self.check_integer(size, MAX_CONTAINERS, "the size of blocks") < 2:
                raise wrong(self.path, f"the size of blocks is {size}; expected at least 2")
            return Blocks(n, size)
        starts, guard = self.array(
            entry["starts"], "int64", entry["starts"][2], "the starts of blocks"
        )
        assert starts is not None and guard is not None
        guard.verify()
        starts = starts.copy()  # searches read the copy without checking the file
        guard.file.check()
        if len(starts) < 2 or starts[0] or starts[-1] != n or (starts[1:] <= starts[:-1]).any():
            raise wrong(
                self.path, f"the {len(starts)} starts of blocks do not ascend from 0 to {n}"
            )
        return Blocks(n, starts=starts)


def _possible_types(dtype: DType, codes: Dictionary | Grid | None) -> tuple[str, ...]:
    """Return the NumPy types that a column may have."""
    if codes is not None:
        return ("int32",) if isinstance(codes, Dictionary) else (PLACE_TYPE,)
    own = np.dtype(dtype.numpy_type)
    narrow = (
        [c for c in CANDIDATES if np.dtype(c).itemsize < own.itemsize]
        if dtype.discrete and own.itemsize >= 4
        else []
    )
    return (dtype.numpy_type, *narrow)
