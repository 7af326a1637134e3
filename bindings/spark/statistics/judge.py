"""Judging batches of containers in Spark's Python workers: statistics in, answers out, for UDFs and `mapInArrow`.

A worker process keeps the predicates that it was sent, by the digest of their pickle: Spark sends a function anew with
each task, and a predicate of a million keys is made once.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.spark.statistics.series import Carrier, read
from skipstone.bindings.spark.statistics.slots import MEMBERS, ROW_COUNT, Slot
from skipstone.bindings.statistics.membership import Members
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.ir.node import Path, columns_of
from skipstone.ir.types import leaves_of
from skipstone.kernels.pack.columns import Raw
from skipstone.kernels.run.compiler import MIN_CONTAINERS
from skipstone.kernels.run.lru_cache import Kept
from skipstone.kernels.run.run import compile_ahead

if TYPE_CHECKING:
    import pandas as pd

Answer = Literal["keep", "verdict"]


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
        return cls(
            predicate, tuple(slots), pa.schema([predicate.schema.field(name) for name in roots])
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # By its parts: a pickled pickle is loaded only where it is not known.
        return _judge_of, (pickle.dumps((self.predicate, self.slots, self.schema)),)

    def answers(
        self, arrays: Sequence[pa.Array | None], n: int, answer: Answer
    ) -> npt.NDArray[Any]:
        """What is asked of n containers, shape (n,), host memory: "verdict", int32; "keep", bool. An array that is None is unknown."""
        stats, keep = self.statistics(arrays, n), answer == "keep"
        found = (
            self.predicate.prune(stats) if keep else self.predicate.evaluate(stats).astype(np.int32)
        )
        # Spark's batches are too small for each to be worth a kernel; many of them are.
        self.seen[0] += n
        if self.seen[0] >= MIN_CONTAINERS:
            compile_ahead(
                self.predicate.launch(stats) if keep else stats.launch(self.predicate.program)
            )
        return found

    def statistics(self, arrays: Sequence[pa.Array | None], n: int) -> Statistics:
        """The statistics of n containers from one array for each slot."""
        given: dict[Path, dict[str, pa.Array]] = {}
        for slot, array in zip(self.slots, arrays, strict=True):
            if array is not None:
                given.setdefault(slot.path, {})[slot.statistic] = array
        rows = given.pop((), {}).get(ROW_COUNT)
        extras: dict[Path, dict[str, pa.Array]] = {
            path: {s: found.pop(s) for s in MEMBERS if s in found} for path, found in given.items()
        }
        members = (
            Members(extras, {path: leaf.dtype for path, leaf in leaves_of(self.schema).items()})
            if any(extras.values())
            else None
        )
        return Statistics(
            self.schema,
            n,
            {path: Raw(**found) for path, found in given.items()},
            row_count=rows,
            members=members,
        )


_judges: Kept[bytes, Judge] = Kept(16)


def _judge_of(pickled: bytes) -> Judge:
    """The judge of some pickled parts."""
    digest = hashlib.sha256(pickled).digest()
    return _judges.get(digest, lambda: Judge(*pickle.loads(pickled)))


def over_series(
    judge: Judge, carriers: Sequence[Carrier], answer: Answer
) -> Callable[[Iterator[Any]], Iterator[pd.Series]]:
    """The function of a pandas UDF: batches of Series, one for each carrier, or two where it is split."""

    def containers(batches: Iterator[Any]) -> Iterator[pd.Series]:
        import pandas as pd

        for batch in batches:
            series = batch if isinstance(batch, tuple) else (batch,)
            given, arrays = iter(series), []
            for slot, carrier in zip(judge.slots, carriers, strict=True):
                arrays.append(
                    read(slot, carrier, next(given), next(given) if carrier.split else None)
                )
            yield pd.Series(judge.answers(arrays, len(series[0]), answer))

    return containers


def over_arrays(judge: Judge, answer: Answer) -> Callable[[Iterator[Any]], Iterator[pa.Array]]:
    """The function of an Arrow UDF: batches of arrays, one for each slot; at least one."""

    def containers(batches: Iterator[Any]) -> Iterator[pa.Array]:
        for batch in batches:
            arrays = batch if isinstance(batch, tuple) else (batch,)
            yield pa.array(judge.answers(arrays[: len(judge.slots)], len(arrays[0]), answer))

    return containers


def over_batches(
    judge: Judge, kept: int, name: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function of mapInArrow: the first columns stay, those after them are the statistics, and verdicts by a name take their place."""

    def containers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = batch.columns
            found = pa.array(judge.answers(columns[kept:], len(batch), "verdict"))
            yield pa.RecordBatch.from_arrays(
                [*columns[:kept], found], names=[*batch.schema.names[:kept], name]
            )

    return containers
