"""Reading statistics from a file: everything in the footer is checked at once, arrays where they are first read."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.statistics.coerce_inputs import KEYS
from skipstone.bindings.statistics.membership import Members
from skipstone.bindings.statistics.store.layout import (
    MAGIC,
    MALFORMED,
    Opened,
    opened,
    type_of,
    wrong,
)
from skipstone.ir.errors import StatisticsError, clip, told
from skipstone.ir.node import Path, show_path
from skipstone.ir.types import DType, leaves_of
from skipstone.kernels.index.blocks import Blocks
from skipstone.kernels.index.coarse import LANE, Grid
from skipstone.kernels.index.index import Index
from skipstone.kernels.index.levels import Coarse, Level
from skipstone.kernels.index.order import Reordered
from skipstone.kernels.pack.codes import Dictionary
from skipstone.kernels.pack.columns import Column, Raw
from skipstone.kernels.pack.narrow import CANDIDATES
from skipstone.kernels.pack.packed import Packed
from skipstone.kernels.pack.planes import Plane, word_count
from skipstone.kernels.run.guard import Guard

if TYPE_CHECKING:
    from skipstone.bindings.statistics.statistics import Statistics

K = TypeVar("K")
V = TypeVar("V")
MOST = 64 << 32  # containers whose words 32 bits can number
Columns = dict[tuple[Path, DType], Column]


class Later(Mapping[K, V], Generic[K, V]):
    """Values that are made when they are first asked for, of a file that must not change; pickled as a dict."""

    def __init__(self, makers: Mapping[K, Callable[[], V]], check: Callable[[], None]) -> None:
        self._makers, self._made, self._check = makers, dict[K, V](), check

    def __getitem__(self, key: K) -> V:
        self._check()
        if key not in self._made:
            self._made[key] = self._makers[key]()
        return self._made[key]

    def __contains__(self, key: object) -> bool:
        return key in self._makers

    def __iter__(self) -> Iterator[K]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


def load(path: str, identity: int | None = None) -> Statistics:
    """Statistics as they were saved.

    Args:
        path: The file.
        identity: What `layout.opened` found when it was written; None: any file will do.

    Raises:
        StatisticsError: the file is not a whole one of this version, or another than is meant.
    """
    path = os.path.abspath(path)
    found = opened(path)
    if identity is not None and found.identity != identity:
        raise wrong(
            path,
            f"is another file than was saved: its checksum is {found.identity:016x}, and {identity:016x} was expected",
        )
    return _checked(path, lambda: _Reader(path, found).statistics())


class PackedFile:
    """What `save_packed` wrote.

    Attributes:
        note: As it was given.
        containers: How many the statistics are of.
    """

    def __init__(self, path: str) -> None:
        """Open a file.

        Raises:
            StatisticsError: it is not a whole one of this version.
        """
        path = os.path.abspath(path)
        found = opened(path)
        self._path, self._reader = path, _checked(path, lambda: _Reader(path, found))
        self.containers: int = self._reader.n
        self.note, self._tables = _checked(
            path, lambda: (found.footer["note"], dict(found.footer["tables"]))
        )

    def table(self, name: str) -> pa.Table:
        """One of the tables, verified, where it lies in the file.

        Raises:
            StatisticsError: the file is damaged there.
        """
        return _checked(self._path, lambda: self._reader.table(self._tables[name]))

    def adopt(self, stats: Statistics) -> None:
        """Give statistics of the same containers and schema their packed columns, which are verified when they are read."""
        _checked(
            self._path, lambda: self._reader.source(stats, self._reader.footer["packed"], None)
        )


def _checked(path: str, read: Callable[[], V]) -> V:
    """What is read, or one kind of error for all that can be wrong with a file."""
    try:
        return read()
    except StatisticsError:
        raise
    except (*MALFORMED, pa.ArrowException) as e:
        raise wrong(path, f"its footer says what cannot be ({told(e)})") from e


class _Reader:
    def __init__(self, path: str, found: Opened) -> None:
        self.path, self.file, self.footer = path, found.file, found.footer
        self.data, self.buffer = found.data, pa.py_buffer(found.data)
        self.n = self.footer["containers"]
        self.whole(self.n, MOST, "the number of containers")
        self.sections: list[tuple[str, int, int, int]] = [tuple(s) for s in self.footer["sections"]]
        end = len(MAGIC)
        for name, at, length, rows in self.sections:
            self.whole(at, self.file.stop, f"the start of section {name!r}")
            self.whole(length, self.file.stop - at, f"the length of section {name!r}")
            self.whole(rows, MOST, f"the rows of section {name!r}")
            if at < end:
                raise wrong(
                    path,
                    f"section {name!r} starts at byte {at}, before the last one ends, at {end}",
                )
            end = at + length
        self.schema = pa.ipc.read_schema(
            pa.py_buffer(base64.b64decode(self.footer["schema"], validate=True))
        )
        self.leaves = leaves_of(self.schema)
        self.batches: dict[int, pa.RecordBatch] = {}
        self.dictionaries: dict[tuple[int, DType], Dictionary] = {}

    def whole(self, value: Any, most: int, what: str) -> int:
        """A number that must be one from 0 up to `most`."""
        if type(value) is not int or not 0 <= value <= most:
            raise wrong(self.path, f"{what} is {value!r}; expected an integer from 0 to {most}")
        return value

    def statistics(self) -> Statistics:
        from skipstone.bindings.statistics.statistics import Statistics

        rows, counts_parents = self.footer["row_count"], self.footer["counts_parents"]
        raw = {
            self.path_of(path): self.raw(keys, section)
            for path, keys, section in self.footer["statistics"]
        }
        extras: dict[Path, dict[str, Callable[[], pa.Array]]] = {}
        for path, key, section in self.footer["extras"]:
            if key not in KEYS[5:]:
                raise wrong(
                    self.path,
                    f"a statistic is named {key!r}; expected one of {', '.join(KEYS[5:])}",
                )
            extras.setdefault(self.path_of(path), {})[key] = self.arrays(section, 1, 0)
        later = {path: Later(makers, self.file.check) for path, makers in extras.items()}
        asked = any("values" in e or "bloom" in e for e in later.values())
        members = (
            Members(later, {p: leaf.dtype for p, leaf in self.leaves.items()}) if asked else None
        )
        if type(counts_parents) is not bool:
            raise wrong(self.path, f"counts_parents is {counts_parents!r}; expected true or false")
        out = Statistics(
            self.schema, self.n, Later(raw, self.file.check), row_count=None if rows is None else self.arrays(rows, 1, 0),
            extras=later, members=members, counts_parents=counts_parents,
        )  # fmt: skip
        columns = self.source(out, self.footer["packed"], None)
        index = self.footer["index"]
        return out if index is None else out.under(self.index(out, index, columns))

    def path_of(self, given: list[str]) -> Path:
        path = tuple(given)
        if not path or not all(isinstance(part, str) for part in path):
            raise wrong(self.path, f"a column is named {given!r}; expected a list of names")
        return path

    # Statistics as they came.

    def raw(self, keys: list[str], section: int | None) -> Callable[[], Raw]:
        if set(keys) - set(KEYS[:5]) or len(set(keys)) != len(keys):
            raise wrong(
                self.path,
                f"a column has the statistics {clip(', '.join(keys))}; expected some of {', '.join(KEYS[:5])}",
            )
        if section is None or not keys:
            return Raw
        reads = {key: self.arrays(section, len(keys), i) for i, key in enumerate(keys)}
        return lambda: Raw(**{key: read() for key, read in reads.items()})

    def arrays(
        self, section: int, columns: int, i: int, rows: int | None = None
    ) -> Callable[[], pa.Array]:
        """What reads one of the columns of a section, which has a value for each container."""
        self.whole(section, len(self.sections) - 1, "the number of a section")
        name, _, _, told = self.sections[section]
        rows = self.n if rows is None else rows
        if told != rows:
            raise wrong(self.path, f"section {name!r} has {told} rows; expected {rows}")
        return lambda: self.batch(section, columns).column(i)

    def batch(self, section: int, columns: int) -> pa.RecordBatch:
        """A section as Arrow reads it, verified first."""
        if section in self.batches:
            self.file.check()
            return self.batches[section]
        name, at, length, rows = self.sections[section]
        self.file.verify_range(at, at + length, f"section {name!r}")
        try:
            batch = pa.ipc.open_stream(self.buffer.slice(at, length)).read_next_batch()
            for column in batch.columns:
                _validate(column)
        except (pa.ArrowException, OSError, StopIteration) as e:
            raise wrong(self.path, f"section {name!r} is no Arrow IPC stream ({e})"[:300]) from e
        if (batch.num_rows, batch.num_columns) != (rows, columns):
            raise wrong(
                self.path,
                f"section {name!r} has {batch.num_rows} rows of {batch.num_columns} columns; expected {rows} of {columns}",
            )
        return self.batches.setdefault(section, batch)

    def table(self, section: int) -> pa.Table:
        """A section as a table, verified first."""
        self.whole(section, len(self.sections) - 1, "the number of a section")
        name, at, length, rows = self.sections[section]
        self.file.verify_range(at, at + length, f"section {name!r}")
        table = pa.ipc.open_stream(self.buffer.slice(at, length)).read_all()
        table.validate()
        if table.num_rows != rows:
            raise wrong(self.path, f"section {name!r} has {table.num_rows} rows; expected {rows}")
        return table

    # What was packed.

    def source(self, source: Packed, told: dict[str, Any], full: Columns | None) -> Columns:
        """Give a source its packed columns. Coarse codes stand for those of `full`."""
        n = source.num_containers
        rows, guard = self.plane(told["rows"], n, "rows")
        columns: Columns = {}
        for c in told["columns"]:
            path = self.path_of(c["path"])
            leaf = self.leaves.get(path)
            if leaf is None or c["type"] != type_of(leaf.dtype):
                raise wrong(
                    self.path,
                    f"column {show_path(path)} was packed as {c['type']!r:.200}; its schema has {leaf and type_of(leaf.dtype)}",
                )
            columns[path, leaf.dtype] = self.column(
                c, path, leaf.dtype, n, (full or {}).get((path, leaf.dtype))
            )
        source.adopt(columns, rows, guard, self.file)
        return columns

    def column(
        self, c: dict[str, Any], path: Path, dtype: DType, n: int, full: Column | None
    ) -> Column:
        guards: dict[str, Guard] = {}
        codes, lane, name = self.codes(c["codes"], dtype, full), c["lane"], show_path(path)
        if lane not in _lanes(dtype, codes):
            raise wrong(
                self.path,
                f"column {name} of type {dtype} has lanes of type {lane!r}; expected one of {', '.join(_lanes(dtype, codes))}",
            )
        found: dict[str, Any] = {}
        for key in ("low", "high", "real", "nulls", "nans"):
            what = f"{name}.{key}"
            part, guard = (
                self.lanes(c[key], lane, n, what)
                if key in ("low", "high")
                else self.plane(c[key], n, what)
            )
            found[key] = part
            if guard is not None:
                guards[key] = guard
        return Column(dtype, lane, **found, codes=codes, guards=guards or None)

    def codes(
        self, told: list[Any] | None, dtype: DType, full: Column | None
    ) -> Dictionary | Grid | None:
        match told:
            case None if not dtype.coded:
                return None
            case ["keys", int(section)] if dtype.coded:
                if (section, dtype) not in self.dictionaries:
                    read = self.arrays(section, 1, 0, self.sections[section][3])
                    self.dictionaries[section, dtype] = Dictionary(lambda: self.keys(read()), dtype)
                return self.dictionaries[section, dtype]
            case ["grid", base, int(shift), float(scale)] if (
                full is not None and full.guards is not None
            ):
                bare = replace(
                    full,
                    low=None,
                    high=None,
                    real=True,
                    nulls=True,
                    nans=True,
                    lost=False,
                    guards=None,
                )
                info = np.iinfo(full.lane) if full.lane[0] in "iu" else None
                fits = (
                    type(base) is float
                    if info is None
                    else type(base) is int and info.min <= base <= info.max
                )
                if fits and 0 <= shift < 64:
                    return Grid(bare, base, shift, scale)
        raise wrong(
            self.path,
            f"bounds of type {dtype} have codes {told!r}; expected none, a dictionary for text and long decimals, or a grid",
        )

    def keys(self, keys: pa.Array) -> pa.Array:
        if keys.type != pa.large_binary() or keys.null_count:
            raise wrong(
                self.path,
                f"a dictionary is of type {keys.type}, {keys.null_count} of it null; expected large_binary without nulls",
            )
        return keys

    def plane(self, told: Any, n: int, what: str) -> tuple[Plane, Guard | None]:
        if type(told) is bool:
            return told, None
        words, guard = self.lanes(told, "uint64", word_count(n), what, step=8)
        if words is None:
            raise wrong(self.path, f"plane {what} is null; expected true, false or words")
        return words, guard

    def lanes(
        self, told: Any, lane: str, count: int, what: str, step: int = 0
    ) -> tuple[npt.NDArray[Any] | None, Guard | None]:
        """An array in its place, not verified, and what guards it."""
        if told is None:
            return None, None
        at, named, rows = told
        dtype = np.dtype(lane)
        if named != lane or rows != count or type(rows) is not int:
            raise wrong(
                self.path, f"{what} is an array of {rows!r} {named!r}; expected {count} {lane!r}"
            )
        self.whole(at, self.file.stop - count * dtype.itemsize, f"the first byte of {what}")
        if at % dtype.itemsize:
            raise wrong(
                self.path, f"{what} starts at byte {at}; expected a multiple of {dtype.itemsize}"
            )
        return np.frombuffer(self.data, dtype, count, at), Guard(
            self.file, what, at, count * dtype.itemsize, step or dtype.itemsize * 64
        )

    # The index.

    def index(self, flat: Statistics, told: dict[str, Any], columns: Columns) -> Index:
        order, guard, leaf = None, None, flat
        source: Packed = leaf
        if told["order"] is not None:
            order, guard = self.lanes(
                told["order"]["order"], "int32" if self.n < 2**31 else "int64", self.n, "order"
            )
            if order is None:
                raise wrong(self.path, "the order is null; expected an array")
            source = Reordered(flat, order, guard)
            columns = self.source(source, told["order"], None)
        levels: list[Level] = []
        for one in reversed(told["levels"]):
            below = levels[0] if levels else source
            levels.insert(0, Level(below, self.blocks(one, below.num_containers)))
            self.source(levels[0], one, None)
        coarse = None
        if told["codes"] is not None:
            coarse = Coarse(source)
            self.source(coarse, told["codes"], columns)
        return Index(source, tuple(levels), coarse, order, guard)

    def blocks(self, told: dict[str, Any], n: int) -> Blocks:
        if told["starts"] is None:
            if self.whole(told["size"], MOST, "the size of blocks") < 2:
                raise wrong(self.path, f"the size of blocks is {told['size']}; expected at least 2")
            return Blocks(n, told["size"])
        starts, guard = self.lanes(
            told["starts"], "int64", told["starts"][2], "the starts of blocks"
        )
        assert starts is not None and guard is not None
        guard.touch()
        starts = starts.copy()  # searches read it without asking the file
        guard.file.check()
        if len(starts) < 2 or starts[0] or starts[-1] != n or (starts[1:] <= starts[:-1]).any():
            raise wrong(
                self.path, f"the {len(starts)} starts of blocks do not ascend from 0 to {n}"
            )
        return Blocks(n, starts=starts)


def _lanes(dtype: DType, codes: Dictionary | Grid | None) -> tuple[str, ...]:
    """The lane types that a column may have."""
    if codes is not None:
        return ("int32",) if isinstance(codes, Dictionary) else (LANE,)
    own = np.dtype(dtype.lane)
    narrow = (
        [c for c in CANDIDATES if np.dtype(c).itemsize < own.itemsize]
        if dtype.discrete and own.itemsize >= 4
        else []
    )
    return (dtype.lane, *narrow)


def _validate(array: pa.Array) -> None:
    """Offsets and lengths must be right; text that is not UTF-8 came so, and bounds nothing."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as e:
        if "UTF8" not in str(e):
            raise
