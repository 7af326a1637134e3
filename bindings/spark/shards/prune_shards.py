"""`prune_shards`: executors judge shards in place, and return only what may match.

Each row that Spark sends to an executor stands for one shard.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, overload

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
# The most containers in undecided shards that the driver judges itself, per thread: up to here it
# is done before a job of Python workers is, in some 0.2 s. On one machine, 100 million in random
# order took 0.07 s on four threads of the driver, and 0.16 s at best on executors; with twice as
# many, both would take equally long. Shards that are fetched first wait for storage; executors
# fetch theirs in parallel.
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
        if returns == "frame":
            return _frame(spark, opened, p, settled, on_error, where, on_driver, tasks)
        if on_driver:
            return opened.judge(p, on_error=on_error)
        return _judge_on_executors(spark, opened, p, settled, todo, on_error, tasks)


def _check_one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SkipstoneError(
            f"{name} is {value!r}; expected one of {', '.join(map(repr, allowed))}"
        )


def _judge_on_executors(
    spark: SparkSession,
    shards: Shards,
    p: PruningPredicate,
    settled: list[Verdict],
    todo: list[int],
    on_error: OnError,
    tasks: int | None,
) -> ShardVerdicts:
    """Judge undecided shards on the executors; return their verdicts with the settled ones."""
    answer: Any = _shard_numbers(spark, len(todo), tasks).mapInArrow(
        as_function(JudgeJob(shards, p, tuple(todo))), spark_schema(JUDGED)
    )
    found = answer.toArrow()
    parts: list[SparseVerdicts | Verdict] = list(settled)
    unreadable: dict[str, StatisticsError] = {}
    for i, words, match, full, error in zip(*(c.to_pylist() for c in found.columns), strict=True):
        if error is None:
            parts[i] = from_bytes(shards.shards[i].rows, words, match, full)
        elif on_error == "raise":
            raise StatisticsError(error)
        else:
            unreadable[shards.shards[i].file] = StatisticsError(error)
    # A job returns each partition once, however often it was tried.
    if sorted(found.column("shard").to_pylist()) != todo:
        raise SkipstoneError(
            f"{found.num_rows} shards were judged; expected {len(todo)}, each once"
        )
    return ShardVerdicts(shards.starts, parts, dict(sorted(unreadable.items())), len(todo))


def _frame(
    spark: SparkSession,
    shards: Shards,
    p: PruningPredicate,
    settled: list[Verdict],
    on_error: OnError,
    where: Where,
    on_driver: bool,
    tasks: int | None,
) -> DataFrame:
    """Return a DataFrame of the containers to keep."""
    schema = as_spark(shards.frame_schema)
    if on_driver:
        found = shards.judge(p, on_error=on_error)
        if where == "driver" or found.kept <= MAX_DRIVER_ROWS:
            return from_arrow(spark, shards.listed(found), schema)
    todo = tuple((i, v) for i, v in enumerate(settled) if v is not Verdict.NEVER)
    return _shard_numbers(spark, len(todo), tasks).mapInArrow(
        as_function(ListJob(shards, p, todo, on_error)), schema
    )


def _shard_numbers(spark: SparkSession, count: int, tasks: int | None) -> DataFrame:
    """Return a DataFrame with one row for each shard, without a shuffle."""
    tasks = parallelism(spark) if tasks is None else tasks
    return spark.range(0, count, 1, tasks if tasks is None else max(min(tasks, count), 1))
