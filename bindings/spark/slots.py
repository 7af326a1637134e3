"""Slots: the statistics that a predicate wants of a DataFrame with one row per container, and their names."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.given import COUNTS
from skipstone.bindings.membership import Members
from skipstone.bindings.predicate import PruningPredicate
from skipstone.bindings.statistics import Statistics
from skipstone.ir.guarantee import membership_paths
from skipstone.ir.node import Path, columns_of, show_path
from skipstone.ir.types import DType, Kind, leaves_of
from skipstone.kernels.columns import Raw
from skipstone.kernels.kept import Kept
from skipstone.kernels.run import COMPILE_FROM, compile_ahead

if TYPE_CHECKING:
    pass

ROW_COUNT: Final = "row_count"
Answer = Literal["keep", "verdict"]
MEMBERS: Final = ("values", "bloom")


@dataclass(frozen=True, slots=True)
class Slot:
    """One statistic of one column, or the container's own row count.

    Attributes:
        name: The column of the DataFrame that holds it: `x.min`, `a.b.null_count`, `row_count`.
        path: The column of the table; () for the container's own row count.
        statistic: "min", "max", "null_count", "row_count", "nan_count"; or "values", "bloom".
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


def slots_of(predicate: PruningPredicate, *, members: bool = False) -> tuple[Slot, ...]:
    """The statistics that a predicate can use, column by column in its own order, the container's row count last.

    Args:
        predicate: The condition.
        members: Value lists and bloom filters, too.

    Example:
        >>> p = PruningPredicate("x = 5", pa.schema([("x", pa.int64())]))
        >>> [s.name for s in slots_of(p)]
        ['x.min', 'x.max', 'x.null_count', 'x.row_count', 'row_count']
    """
    leaves = leaves_of(predicate.schema)
    asked = membership_paths(predicate.node) if members else ()
    out: list[Slot] = []
    for path in columns_of(predicate.node):
        dtype = leaves[path].dtype
        wanted = ["min", "max"] if dtype.ordered else []
        wanted += ["null_count", "row_count"]
        wanted += ["nan_count"] if dtype.kind is Kind.FLOAT else []
        wanted += MEMBERS if path in asked else ()
        out += [Slot(f"{plain_name(path, leaves)}.{s}", path, s, dtype) for s in wanted]
    return (*out, Slot(ROW_COUNT, (), ROW_COUNT, DType(Kind.INT, bits=64)))


def spellings(path: Path) -> tuple[str, str, str]:
    """How a column's name may be written before its statistic: with dots, as in SQL, with every part quoted."""
    return ".".join(path), show_path(path), ".".join(map(quoted, path))


def quoted(name: str) -> str:
    """A name as SQL text, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def plain_name(path: Path, leaves: Mapping[Path, object]) -> str:
    """The path with dots, unless a column at the top has that very name: then parts are quoted."""
    plain, _, quoted = spellings(path)
    return quoted if len(path) > 1 and (plain,) in leaves else plain


@dataclass(frozen=True)
class Judge:
    """A predicate on its way to the workers: it judges batches of containers with the usual kernels.

    Unpickled, it is the one that the process has already, if it has.

    Attributes:
        predicate: The condition.
        slots: What each of the arrays that it is given holds.
        schema: The columns that it reads; the table's may have thousands more.
        seen: How many containers it has judged in this process.
    """

    predicate: PruningPredicate
    slots: tuple[Slot, ...]
    schema: pa.Schema
    seen: list[int] = field(default_factory=lambda: [0], compare=False, repr=False)

    @classmethod
    def of(cls, predicate: PruningPredicate, slots: Sequence[Slot]) -> Judge:
        """A judge that is given the statistics of `slots`, in their order."""
        roots = dict.fromkeys(path[0] for path in columns_of(predicate.node))
        return cls(predicate, tuple(slots), pa.schema([predicate.schema.field(name) for name in roots]))

    def __reduce__(self) -> tuple[Any, ...]:
        # By its parts: a pickled pickle is loaded only where it is not known.
        return _judge_of, (pickle.dumps((self.predicate, self.slots, self.schema)),)

    def answers(self, arrays: Sequence[pa.Array | None], n: int, answer: Answer) -> npt.NDArray[Any]:
        """What is asked of n containers, shape (n,), host memory: "verdict", int32; "keep", bool. An array that is None is unknown."""
        stats, keep = self.statistics(arrays, n), answer == "keep"
        found = self.predicate.prune(stats) if keep else self.predicate.evaluate(stats).astype(np.int32)
        # Spark's batches are too small for each to be worth a kernel; many of them are.
        self.seen[0] += n
        if self.seen[0] >= COMPILE_FROM:
            compile_ahead(self.predicate.launch(stats) if keep else stats.launch(self.predicate.program))
        return found

    def statistics(self, arrays: Sequence[pa.Array | None], n: int) -> Statistics:
        """The statistics of n containers from one array for each slot."""
        given: dict[Path, dict[str, pa.Array]] = {}
        for slot, array in zip(self.slots, arrays, strict=True):
            if array is not None:
                given.setdefault(slot.path, {})[slot.statistic] = array
        rows = given.pop((), {}).get(ROW_COUNT)
        extras: dict[Path, dict[str, pa.Array]] = {path: {s: found.pop(s) for s in MEMBERS if s in found} for path, found in given.items()}
        members = Members(extras, {path: leaf.dtype for path, leaf in leaves_of(self.schema).items()}) if any(extras.values()) else None
        return Statistics(self.schema, n, {path: Raw(**found) for path, found in given.items()}, row_count=rows, members=members)


_judges: Kept[bytes, Judge] = Kept(16)


def _judge_of(pickled: bytes) -> Judge:
    """The judge of some pickled parts."""
    digest = hashlib.sha256(pickled).digest()
    return _judges.get(digest, lambda: Judge(*pickle.loads(pickled)))
