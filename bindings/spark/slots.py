"""Slots: the statistics that a predicate wants of a DataFrame with one row per container, and their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.given import COUNTS
from skipstone.bindings.predicate import PruningPredicate
from skipstone.bindings.statistics import Statistics
from skipstone.ir.node import Path, columns_of, show_path
from skipstone.ir.types import DType, Kind, leaves_of
from skipstone.kernels.columns import Raw

if TYPE_CHECKING:
    from skipstone.ir.types import Leaf

ROW_COUNT: Final = "row_count"


@dataclass(frozen=True, slots=True)
class Slot:
    """One statistic of one column, or the container's own row count.

    Attributes:
        name: The column of the DataFrame that holds it: `x.min`, `a.b.null_count`, `row_count`.
        path: The column of the table; () for the container's own row count.
        statistic: "min", "max", "null_count", "row_count" or "nan_count".
        dtype: The type of the column of the table.
    """

    name: str
    path: Path
    statistic: str
    dtype: DType

    @property
    def counts(self) -> bool:
        """Whether it is a count, not a bound."""
        return self.statistic in COUNTS


def slots_of(predicate: PruningPredicate) -> tuple[Slot, ...]:
    """The statistics that a predicate can use, column by column in its own order, the container's row count last.

    Example:
        >>> p = PruningPredicate("x = 5", pa.schema([("x", pa.int64())]))
        >>> [s.name for s in slots_of(p)]
        ['x.min', 'x.max', 'x.null_count', 'x.row_count', 'row_count']
    """
    leaves = leaves_of(predicate.schema)
    out: list[Slot] = []
    for path in columns_of(predicate.node):
        dtype = leaves[path].dtype
        wanted = ["min", "max"] if dtype.ordered else []
        wanted += ["null_count", "row_count"]
        wanted += ["nan_count"] if dtype.kind is Kind.FLOAT else []
        out += [Slot(f"{_name(path, leaves)}.{s}", path, s, dtype) for s in wanted]
    return (*out, Slot(ROW_COUNT, (), ROW_COUNT, DType(Kind.INT, bits=64)))


def spellings(path: Path) -> tuple[str, str, str]:
    """How a column's name may be written before its statistic: with dots, as in SQL, with every part quoted."""
    return ".".join(path), show_path(path), ".".join("`" + p.replace("`", "``") + "`" for p in path)


def _name(path: Path, leaves: Mapping[Path, Leaf]) -> str:
    """The path with dots, unless a column at the top has that very name: then parts are quoted."""
    plain, _, quoted = spellings(path)
    return quoted if len(path) > 1 and (plain,) in leaves else plain


@dataclass(frozen=True, slots=True)
class Judge:
    """A predicate on its way to the workers: it judges batches of containers with the usual kernels.

    Attributes:
        predicate: The condition.
        slots: What each of the arrays that it is given holds.
        schema: The columns that it reads; the table's may have thousands more.
    """

    predicate: PruningPredicate
    slots: tuple[Slot, ...]
    schema: pa.Schema

    @classmethod
    def of(cls, predicate: PruningPredicate, slots: Sequence[Slot]) -> Judge:
        """A judge that is given the statistics of `slots`, in their order."""
        roots = dict.fromkeys(path[0] for path in columns_of(predicate.node))
        return cls(predicate, tuple(slots), pa.schema([predicate.schema.field(name) for name in roots]))

    def verdicts(self, arrays: Sequence[pa.Array | None], n: int) -> npt.NDArray[np.uint8]:
        """The verdicts of n containers: uint8, shape (n,), host memory. An array that is None is unknown."""
        return self.predicate.evaluate(self.statistics(arrays, n))

    def kept(self, arrays: Sequence[pa.Array | None], n: int) -> npt.NDArray[np.bool_]:
        """Which of n containers to keep: bool, shape (n,), host memory."""
        return self.predicate.prune(self.statistics(arrays, n))

    def statistics(self, arrays: Sequence[pa.Array | None], n: int) -> Statistics:
        """The statistics of n containers from one array for each slot."""
        given: dict[Path, dict[str, pa.Array]] = {}
        for slot, array in zip(self.slots, arrays, strict=True):
            if array is not None:
                given.setdefault(slot.path, {})[slot.statistic] = array
        rows = given.pop((), {}).get(ROW_COUNT)
        return Statistics(self.schema, n, {path: Raw(**found) for path, found in given.items()}, row_count=rows)
