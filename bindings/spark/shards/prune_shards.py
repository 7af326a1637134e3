"""`prune_shards`: executors judge shards in place, and return only what may match.

Each row that Spark sends to an executor stands for one shard.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args, overload

import pyarrow.fs as pafs

from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.shards.files import OnError
from skipstone.bindings.shards.shards import Shards, undecided
from skipstone.bindings.shards.verdicts import ShardVerdicts, from_bytes
from skipstone.bindings.spark.session.frame import from_arrow
from skipstone.bindings.spark.session.session import parallelism, quiet, require_pyspark
from skipstone.bindings.spark.session.types import as_spark, spark_schema
from skipstone.bindings.spark.shards.shard_jobs import JUDGED, JudgeJob, ListJob, as_function
from skipstone.bindings.spark.statistics.udf import predicate_of
from skipstone.ir.errors import SkipstoneError, StatisticsError
from skipstone.ir.outcome import Verdict
from skipstone.kernels.index.descend import SparseVerdicts
from skipstone.kernels.run.pool import threads

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Where = Literal["auto", "driver", "executors"]
Returns = Literal["verdicts", "frame"]
# The driver judges undecided shards itself if they have at most this many containers per thread:
# that takes less than the 0.2 s of a job in Python workers. On one machine, 100 million containers
# in random order took 0.07 s on four threads of the driver, and at best 0.16 s on executors. With
# twice as many containers, both would take equally long. If shards have to be fetched, the limit is
# for the whole driver, because executors fetch in parallel.
MAX_DRIVER_CONTAINERS: Final = 1 << 25
MAX_DRIVER_CONTAINERS_FETCHED: Final = 1 << 22
MAX_DRIVER_ROWS: Final = 100_000  # rows that the driver hands to Spark; executors make more


@overload
def prune_shards(
    spark: SparkSession,
    shards: Shards | str | os.PathLike[str],
    predicate: PruningPredicate | Any,
    *,
    returns: Literal["verdicts"] = "verdicts",
    on_error: OnError = "keep",
    where: Where = "auto",
    tasks: int | None = None,
    filesystem: pafs.FileSystem | None = None,
) -> ShardVerdicts: ...
@overload
def prune_shards(
    spark: SparkSession,
    shards: Shards | str | os.PathLike[str],
    predicate: PruningPredicate | Any,
    *,
    returns: Literal["frame"],
    on_error: OnError = "keep",
    where: Where = "auto",
    tasks: int | None = None,
    filesystem: pafs.FileSystem | None = None,
) -> DataFrame: ...
def prune_shards(
    spark: SparkSession,
    shards: Shards | str | os.PathLike[str],
    predicate: PruningPredicate | Any,
    *,
    returns: Returns = "verdicts",
    on_error: OnError = "keep",
    where: Where = "auto",
    tasks: int | None = None,
    filesystem: pafs.FileSystem | None = None,
) -> ShardVerdicts | DataFrame:
    """Judge the containers of shards on the executors.

    The driver decides shards by the level above their containers; executors judge the rest. Only
    containers that may match leave the workers. All containers of a shard that is missing, damaged,
    or not the one that was saved are kept as MAYBE.

    Args:
        spark: The session, classic or of Spark Connect.
        shards: Opened shards, or their folder, which driver and executors share.
        predicate: A `PruningPredicate`; or anything that makes one under the session's settings,
            such as SQL text.
        returns: "verdicts" for a sparse result with `survivors`, `verdicts` and `unreadable`.
            "frame" for a DataFrame with one row for each container to keep: `container`, its
            position, BIGINT; `verdict`, INT; `unreadable`, why its shard could not be read, or
            NULL; and the columns that describe it. Each action may judge the shards again.
        on_error: For a shard that cannot be read: "keep" its containers, or "raise"; a frame
            raises at its first action.
        where: "executors"; "driver", which reads the shards itself; or "auto": the driver if few
            containers are undecided.
        tasks: The number of tasks that share the shards; None means as many as the session runs at
            once.
        filesystem: Any of pyarrow's file systems; it must pickle.

    Returns:
        `ShardVerdicts`, or a DataFrame.

    Raises:
        StatisticsError: The manifest cannot be read; a shard cannot be read, with
            `on_error="raise"`; or, for a frame, the columns that describe a shard's containers
            cannot be read: their rows would be lost, so this is an error even with "keep".
        BackendMissing: PySpark or pandas is not installed.
        SkipstoneError: An argument is not one of these values.

    Example:
        >>> where = "day = DATE '2026-03-04'"  # doctest: +SKIP
        >>> found = prune_shards(spark, "/lake/stats", where)  # doctest: +SKIP
        >>> found.survivors, found.unreadable  # doctest: +SKIP
        >>> kept = prune_shards(spark, "/lake/stats", where, returns="frame")  # doctest: +SKIP
        >>> kept.select("path")  # doctest: +SKIP
    """
    _check_one_of("returns", returns, get_args(Returns))
    _check_one_of("on_error", on_error, get_args(OnError))
    _check_one_of("where", where, get_args(Where))
    if tasks is not None and (isinstance(tasks, bool) or not isinstance(tasks, int) or tasks < 1):
        raise SkipstoneError(f"tasks is {tasks!r}; expected a positive integer, or None")
    require_pyspark()
    with quiet():
        opened = shards if isinstance(shards, Shards) else Shards.open(shards, filesystem)
        p = predicate_of(predicate, opened.schema, spark)
        settled = opened.settled(p)
        todo = undecided(settled)
        few = MAX_DRIVER_CONTAINERS * threads() if opened.local else MAX_DRIVER_CONTAINERS_FETCHED
        on_driver = (
            where == "driver"
            or not todo
            or (where == "auto" and sum(opened.shards[i].rows for i in todo) <= few)
        )
        on_executors = _OnExecutors(spark, opened, p, settled, on_error, tasks)
        if not on_driver:
            return on_executors.frame() if returns == "frame" else on_executors.verdicts()
        found = opened.judge(p, on_error=on_error)
        if returns == "verdicts":
            return found
        if where == "driver" or found.kept <= MAX_DRIVER_ROWS:
            return from_arrow(spark, opened.listed(found), as_spark(opened.frame_schema))
        return on_executors.frame()


def _check_one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SkipstoneError(
            f"{name} is {value!r}; expected one of {', '.join(map(repr, allowed))}"
        )


class _OnExecutors(NamedTuple):
    """Judges shards on the executors.

    Attributes:
        spark: The session.
        shards: All shards.
        predicate: The condition.
        settled: The verdict of each shard as a whole; the executors judge those that are MAYBE.
        on_error, tasks: As in `prune_shards`.
    """

    spark: SparkSession
    shards: Shards
    predicate: PruningPredicate
    settled: list[Verdict]
    on_error: OnError
    tasks: int | None

    def verdicts(self) -> ShardVerdicts:
        """Judge undecided shards; return their verdicts with the settled ones."""
        todo, shards = undecided(self.settled), self.shards
        answer: Any = self._rows(len(todo)).mapInArrow(
            as_function(JudgeJob(shards, self.predicate, tuple(todo))), spark_schema(JUDGED)
        )
        found = answer.toArrow()
        parts: list[SparseVerdicts | Verdict] = list(self.settled)
        unreadable: dict[str, StatisticsError] = {}
        columns = (c.to_pylist() for c in found.columns)
        for i, words, match, full, error in zip(*columns, strict=True):
            if error is None:
                parts[i] = from_bytes(shards.shards[i].rows, words, match, full)
            elif self.on_error == "raise":
                raise StatisticsError(error)
            else:
                unreadable[shards.shards[i].file] = StatisticsError(error)
        # A job returns each partition once, however often it was tried.
        if sorted(found.column("shard").to_pylist()) != todo:
            raise SkipstoneError(
                f"{found.num_rows} shards were judged; expected {len(todo)}, each once"
            )
        return ShardVerdicts(shards.starts, parts, dict(sorted(unreadable.items())), len(todo))

    def frame(self) -> DataFrame:
        """Return a DataFrame of the containers to keep."""
        todo = tuple((i, v) for i, v in enumerate(self.settled) if v is not Verdict.NEVER)
        job = ListJob(self.shards, self.predicate, todo, self.on_error)
        schema = as_spark(self.shards.frame_schema)
        return self._rows(len(todo)).mapInArrow(as_function(job), schema)

    def _rows(self, count: int) -> DataFrame:
        """Return a DataFrame with one row for each shard, without a shuffle."""
        tasks = parallelism(self.spark) if self.tasks is None else self.tasks
        parts = tasks if tasks is None else max(min(tasks, count), 1)
        return self.spark.range(0, count, 1, parts)
