"""Judge batches of containers in Spark's Python workers, for UDFs and `mapInArrow`.

A worker process caches the predicates that it received by the digest of their pickle. Spark sends a
function again with each task; the cache avoids unpickling a predicate of a million keys each time.
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
from skipstone.bindings.spark.statistics.needed import MEMBERS, ROW_COUNT, Statistic
from skipstone.bindings.spark.statistics.series import Carrier, read
from skipstone.bindings.statistics.membership import values_and_blooms_of
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.ir.node import Path, columns_of
from skipstone.ir.types import leaves_of
from skipstone.kernels.pack.columns import ColumnStatistics
from skipstone.kernels.run.bounded_cache import BoundedCache
from skipstone.kernels.run.compiler import MIN_CONTAINERS
from skipstone.kernels.run.run import compile_ahead

if TYPE_CHECKING:
    import pandas as pd

Answer = Literal["keep", "verdict"]


@dataclass(frozen=True)
class Judge:
    """A predicate that workers receive; it judges batches of containers with the usual kernels.

    Unpickling returns the cached object of the process, if there is one.

    Attributes:
        predicate: The condition.
        needed: The statistic in each of the arrays.
        schema: The columns that the predicate reads; the table may have thousands more.
        seen: A list with one number: how many containers it has judged in this process.
    """

    predicate: PruningPredicate
    needed: tuple[Statistic, ...]
    schema: pa.Schema
    seen: list[int] = field(default_factory=lambda: [0], compare=False, repr=False)

    @classmethod
    def of(cls, predicate: PruningPredicate, needed: Sequence[Statistic]) -> Judge:
        """Make a judge of arrays that hold the statistics of `needed`, in their order."""
        roots = dict.fromkeys(path[0] for path in columns_of(predicate.node))
        return cls(
            predicate, tuple(needed), pa.schema([predicate.schema.field(name) for name in roots])
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # The inner pickle is loaded only if its digest is not cached.
        return _judge_of, (pickle.dumps((self.predicate, self.needed, self.schema)),)

    def answers(
        self, arrays: Sequence[pa.Array | None], n: int, answer: Answer
    ) -> npt.NDArray[Any]:
        """Judge n containers.

        Args:
            arrays: One array of length n for each statistic; None if the statistic is unknown.
            n: The number of containers.
            answer: "verdict" or "keep".

        Returns:
            Array of shape (n,), host memory: int32 verdicts, or bool.
        """
        stats, keep = self.statistics(arrays, n), answer == "keep"
        found = (
            self.predicate.prune(stats) if keep else self.predicate.evaluate(stats).astype(np.int32)
        )
        # One of Spark's batches is too small to be worth a kernel; many of them are not.
        self.seen[0] += n
        if self.seen[0] >= MIN_CONTAINERS:
            compile_ahead(
                self.predicate.launch(stats) if keep else stats.launch(self.predicate.program)
            )
        return found

    def statistics(self, arrays: Sequence[pa.Array | None], n: int) -> Statistics:
        """Return the statistics of n containers from one array for each statistic."""
        given: dict[Path, dict[str, pa.Array]] = {}
        for statistic, array in zip(self.needed, arrays, strict=True):
            if array is not None:
                given.setdefault(statistic.path, {})[statistic.kind] = array
        rows = given.pop((), {}).get(ROW_COUNT)
        extras: dict[Path, dict[str, pa.Array]] = {
            path: {s: found.pop(s) for s in MEMBERS if s in found} for path, found in given.items()
        }
        return Statistics(
            self.schema,
            n,
            {path: ColumnStatistics(**found) for path, found in given.items()},
            row_count=rows,
            members=values_and_blooms_of(extras, leaves_of(self.schema)),
        )


_judges: BoundedCache[bytes, Judge] = BoundedCache(16)


def _judge_of(pickled: bytes) -> Judge:
    """Return the judge with these pickled parts, from the cache if possible."""
    digest = hashlib.sha256(pickled).digest()
    return _judges.get(digest, lambda: Judge(*pickle.loads(pickled)))


def over_series(
    judge: Judge, carriers: Sequence[Carrier], answer: Answer
) -> Callable[[Iterator[Any]], Iterator[pd.Series]]:
    """Return the function of a pandas UDF.

    It takes batches of Series: one for each carrier, or two for a carrier that is split.
    """

    def containers(batches: Iterator[Any]) -> Iterator[pd.Series]:
        import pandas as pd

        for batch in batches:
            series = batch if isinstance(batch, tuple) else (batch,)
            given, arrays = iter(series), []
            for statistic, carrier in zip(judge.needed, carriers, strict=True):
                arrays.append(
                    read(statistic, carrier, next(given), next(given) if carrier.split else None)
                )
            yield pd.Series(judge.answers(arrays, len(series[0]), answer))

    return containers


def over_arrays(judge: Judge, answer: Answer) -> Callable[[Iterator[Any]], Iterator[pa.Array]]:
    """Return the function of an Arrow UDF.

    It takes batches of at least one array: one for each statistic.
    """

    def containers(batches: Iterator[Any]) -> Iterator[pa.Array]:
        for batch in batches:
            arrays = batch if isinstance(batch, tuple) else (batch,)
            yield pa.array(judge.answers(arrays[: len(judge.needed)], len(arrays[0]), answer))

    return containers


def over_batches(
    judge: Judge, num_kept: int, name: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of `mapInArrow`.

    The first `num_kept` columns stay. The columns after them are statistics; one column of
    verdicts, called `name`, replaces them.
    """

    def containers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = batch.columns
            found = pa.array(judge.answers(columns[num_kept:], len(batch), "verdict"))
            yield pa.RecordBatch.from_arrays(
                [*columns[:num_kept], found], names=[*batch.schema.names[:num_kept], name]
            )

    return containers
