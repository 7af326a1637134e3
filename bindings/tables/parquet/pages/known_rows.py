"""Remember the rows that matched a condition, for later readers with the same condition.

The matching rows of a row group are kept until the file changes, or newer entries need the memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.tables.identity import FileIdentity
from skipstone.bindings.tables.parquet.pages.leaf_types import LeafType
from skipstone.bindings.tables.parquet.pages.page_choice import RowGroup, Window
from skipstone.ir.functions.build import REGISTERED
from skipstone.ir.node import MAX_HASHED, Node, Op, columns_of
from skipstone.kernels.pack.planes import Mask
from skipstone.kernels.run.lru_cache import LruCache

# Memory is counted by estimates. An entry takes ENTRY_BYTES and its rows; its condition takes
# NODE_BYTES for each node, and VALUE_BYTES for each value of a list.
ENTRY_BYTES, NODE_BYTES, VALUE_BYTES = 1 << 9, 1 << 8, 1 << 6
MAX_KEPT: Final = 1 << 25  # bytes of all entries together
# Rows are kept by their numbers if at most one in this many matches, else as bits.
SPARSE: Final = 32


class Matches(NamedTuple):
    """Rows of a row group that match a condition; others may lie between them.

    Attributes:
        first: The first of them.
        mask: The mask of the rows from the first to the last one; empty if there are none.
    """

    first: int
    mask: Mask


class _Kept(NamedTuple):
    """Matches as they are kept: the rows' numbers from the first on, or the bits of the mask."""

    first: int
    rows: int
    numbers: npt.NDArray[np.uint32] | None
    bits: npt.NDArray[np.uint8] | None

    @staticmethod
    def of(found: Matches) -> _Kept:
        first, mask = found
        if int(np.count_nonzero(mask)) * SPARSE <= len(mask):
            return _Kept(first, len(mask), np.flatnonzero(mask).astype(np.uint32), None)
        return _Kept(first, len(mask), None, np.packbits(mask))

    def matches(self) -> Matches:
        if self.bits is not None:
            return Matches(self.first, np.unpackbits(self.bits, count=self.rows).view(np.bool_))
        mask = np.zeros(self.rows, np.bool_)
        mask[self.numbers] = True
        return Matches(self.first, mask)

    @property
    def nbytes(self) -> int:
        kept = self.numbers if self.bits is None else self.bits
        return 0 if kept is None else kept.nbytes


class _Key(NamedTuple):
    """A row group and a condition.

    Attributes:
        file: The file.
        group: The number of the row group.
        node: The bound condition.
        columns: For each column that the condition tests: its name, and the source of its values:
            its position in the file or, if the file lacks it, the value that all rows share, such
            as a partition value.
    """

    file: FileIdentity
    group: int
    node: Node
    columns: tuple[tuple[str, int | pa.Scalar], ...]


_recent: Final = LruCache[_Key, _Kept](MAX_KEPT)


def may_be_kept(node: Node) -> bool:
    """Return True if the rows that match a bound condition may be kept.

    They may not if the condition calls the program's own functions, which may return something else
    the next time, or if the condition itself takes much memory.
    """
    for n in _all_of(node):
        own = n.op is Op.CALL and isinstance(n.value, tuple) and n.value[0] in REGISTERED
        large = isinstance(n.value, tuple) and len(n.value) > MAX_HASHED
        if own or large or n.op is Op.UNKNOWN:
            return False
    return True


def _all_of(node: Node) -> Iterator[Node]:
    """Yield every node of a bound condition, including the bodies of lambdas."""
    for n in node.walk():
        yield n
        if n.op is Op.CALL and isinstance(n.value, tuple):
            for part in n.value:
                if isinstance(part, Node):
                    yield from _all_of(part)


class KnownRows:
    """The rows of row groups that match a condition, as far as they are known.

    Args:
        groups: The row groups.
        node: The bound condition; None if its rows are not kept.
        leaves: Table column -> its type in the files; columns that the files lack are not there.

    Attributes:
        matches: Row group -> its rows that match, which may include deleted ones. The key is the
            `id()` of the `RowGroup` object.
        unknown: The row groups whose rows are not known yet.
    """

    def __init__(
        self, groups: Sequence[RowGroup], node: Node | None, leaves: Mapping[str, LeafType]
    ) -> None:
        self._node, self._leaves = node, leaves
        names = () if node is None else (path[0] for path in columns_of(node))
        self._names = tuple(dict.fromkeys(names))
        self.matches: dict[int, Matches] = {}
        self.unknown: list[RowGroup] = []
        for g in groups:
            key = self._key(g)
            kept = None if key is None else _recent.find(key)
            if kept is None:
                self.unknown.append(g)
            else:
                self.matches[id(g)] = kept.matches()

    def _key(self, group: RowGroup) -> _Key | None:
        """Return the key of a row group's rows; None if they are not kept."""
        identity = group.ranges.identity
        if identity is None or self._node is None:
            return None
        columns: list[tuple[str, int | pa.Scalar]] = []
        for name in self._names:
            if name in self._leaves:
                columns.append((name, self._leaves[name].position))
                continue
            value = group.constants[name]
            # 0.0 equals -0.0, but functions, and comparisons of nested values, may tell them apart.
            if pa.types.is_floating(value.type) or pa.types.is_nested(value.type):
                return None
            columns.append((name, value))
        return _Key(identity, group.number, self._node, tuple(columns))

    def add(self, groups: Sequence[RowGroup], windows: Sequence[Window], mask: Mask) -> None:
        """Add the rows of row groups, and keep them for the next reader.

        Args:
            groups: The row groups.
            windows: The windows that pages left of them.
            mask: The mask of the matching rows among the rows of all windows.
        """
        if self._node is None:
            return
        by_group: dict[int, list[tuple[Window, Mask]]] = {id(g): [] for g in groups}
        done = 0
        for w in windows:
            by_group[id(w.group)].append((w, mask[done : done + w.rows]))
            done += w.rows
        share = _nbytes(self._node) // max(len(groups), 1)  # the entries share the nodes
        for g in groups:
            found = _matches(by_group[id(g)])
            self.matches[id(g)] = found
            key = self._key(g)
            if key is not None and g.live is None:  # deleted rows were not judged
                kept = _Kept.of(found)
                _recent.put(key, kept, ENTRY_BYTES + kept.nbytes + share)


def _nbytes(node: Node) -> int:
    """Return the approximate bytes of a condition."""
    return sum(
        NODE_BYTES + (VALUE_BYTES * len(n.value) if isinstance(n.value, tuple) else 0)
        for n in _all_of(node)
    )


def _matches(parts: Sequence[tuple[Window, Mask]]) -> Matches:
    """Return the matching rows of a row group's windows."""
    each = [(w.first, np.flatnonzero(mask), mask) for w, mask in parts]
    some = [one for one in each if len(one[1])]
    if not some:
        return Matches(0, np.zeros(0, np.bool_))
    first, stop = some[0][0] + int(some[0][1][0]), some[-1][0] + int(some[-1][1][-1]) + 1
    if len(some) == 1:
        return Matches(first, some[0][2][first - some[0][0] : stop - some[0][0]])
    out = np.zeros(stop - first, np.bool_)
    for start, rows, _ in some:
        out[rows + (start - first)] = True
    return Matches(first, out)
