"""`prune_shards`: one row per shard goes to the executors, which judge it where it lies, and what may match comes back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, overload

import pyarrow.fs as pafs

from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.shards.read import OnError, Shards, undecided
from skipstone.bindings.shards.verdicts import ShardVerdicts, from_bytes
from skipstone.bindings.spark.session.frame import from_arrow
from skipstone.bindings.spark.session.session import parallelism, quiet, require_pyspark
from skipstone.bindings.spark.session.types import as_spark, spark_schema
from skipstone.bindings.spark.shards.shard_jobs import JUDGED, Judging, Listing, plain
from skipstone.bindings.spark.statistics.udf import predicate_of
from skipstone.ir.errors import SkipstoneError, StatisticsError
from skipstone.ir.outcome import Verdict
from skipstone.kernels.index.descend import Found
from skipstone.kernels.run.pool import threads

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Where = Literal["auto", "driver", "executors"]
Returns = Literal["verdicts", "frame"]
# Containers in shards that are not settled, up to which the driver is done before a job of Python workers is, some 0.2 s; for each of its
# threads: 100 million in no order took 0.07 s on four, and executors of the same machine 0.16 s at best. Twice as many would take as
# long. Shards that are fetched first wait for storage; of these executors fetch theirs.
FEW: Final = 1 << 25
FEW_FETCHED: Final = 1 << 22
ROWS: Final = 100_000  # that the driver hands to Spark; more are made by executors


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
    """Judge the containers of shards, those that the level above them does not settle, on the executors.

    Nothing but what may match leaves the workers. A shard that is missing, damaged, or another than was saved keeps all of
    its containers, each MAYBE.

    Args:
        spark: The session, classic or of Spark Connect.
        shards: Opened shards, or the folder of some, which driver and executors share.
        predicate: A `PruningPredicate`; or what makes one under the session's settings, such as SQL text.
        returns: "verdicts": what was found, sparse, with `survivors`, `verdicts` and `unreadable`. "frame": a DataFrame
            with a row for each container to keep: `container`, its position, BIGINT; `verdict`, INT; `unreadable`, why its
            shard could not be read, else NULL; and the columns that say what it is. It may be judged again for each action.
        on_error: Of a shard that cannot be read: "keep" its containers, or "raise"; of a frame at its first action.
        where: "executors", or "driver", which reads the shards by itself; "auto": the driver, where few are not settled.
        tasks: How many tasks share the shards; None: as many as the session runs at once.
        filesystem: Any of pyarrow's, which must pickle.

    Raises:
        StatisticsError: the manifest cannot be read; under "raise" a shard cannot; or, whatever was asked, what its containers are
            cannot be read for a frame, since their rows would be lost.
        BackendMissing: PySpark or pandas is not installed.

    Example:
        >>> found = prune_shards(spark, "/lake/stats", "day = DATE '2026-03-04'")  # doctest: +SKIP
        >>> found.survivors, found.unreadable  # doctest: +SKIP
        >>> prune_shards(spark, "/lake/stats", "day = DATE '2026-03-04'", returns="frame").select("path")  # doctest: +SKIP
    """
    _check("returns", returns, get_args(Returns))
    _check("on_error", on_error, get_args(OnError))
    _check("where", where, get_args(Where))
    if tasks is not None and (isinstance(tasks, bool) or not isinstance(tasks, int) or tasks < 1):
        raise SkipstoneError(f"tasks is {tasks!r}; expected a positive integer, or None")
    require_pyspark()
    with quiet():
        opened = shards if isinstance(shards, Shards) else Shards.open(shards, filesystem)
        p = predicate_of(predicate, opened.schema, spark)
        settled = opened.settled(p)
        todo = undecided(settled)
        few = FEW * threads() if opened.local else FEW_FETCHED
        here = (
            where == "driver"
            or not todo
            or (where == "auto" and sum(opened.shards[i].rows for i in todo) <= few)
        )
        if returns == "frame":
            return _frame(spark, opened, p, settled, on_error, where, here, tasks)
        return (
            opened.judge(p, on_error=on_error)
            if here
            else _gathered(spark, opened, p, settled, todo, on_error, tasks)
        )


def _check(name: str, given: object, known: tuple[str, ...]) -> None:
    if given not in known:
        raise SkipstoneError(f"{name} is {given!r}; expected one of {', '.join(map(repr, known))}")


def _gathered(
    spark: SparkSession,
    shards: Shards,
    p: PruningPredicate,
    settled: list[Verdict],
    todo: list[int],
    on_error: OnError,
    tasks: int | None,
) -> ShardVerdicts:
    """What the executors found, with what is settled."""
    answer: Any = _numbers(spark, len(todo), tasks).mapInArrow(
        plain(Judging(shards, p, tuple(todo))), spark_schema(JUDGED)
    )
    found = answer.toArrow()
    parts: list[Found | Verdict] = list(settled)
    unreadable: dict[str, StatisticsError] = {}
    for i, words, match, sure, error in zip(*(c.to_pylist() for c in found.columns), strict=True):
        if error is None:
            parts[i] = from_bytes(shards.shards[i].rows, words, match, sure)
        elif on_error == "raise":
            raise StatisticsError(error)
        else:
            unreadable[shards.shards[i].file] = StatisticsError(error)
    # A job answers for each partition once, however often it was tried.
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
    here: bool,
    tasks: int | None,
) -> DataFrame:
    schema = as_spark(shards.frame_schema)
    if here:
        found = shards.judge(p, on_error=on_error)
        if where == "driver" or found.kept <= ROWS:
            return from_arrow(spark, shards.listed(found), schema)
    todo = tuple((i, v) for i, v in enumerate(settled) if v is not Verdict.NEVER)
    return _numbers(spark, len(todo), tasks).mapInArrow(
        plain(Listing(shards, p, todo, on_error)), schema
    )


def _numbers(spark: SparkSession, count: int, tasks: int | None) -> DataFrame:
    """One row for each shard, without a shuffle."""
    tasks = parallelism(spark) if tasks is None else tasks
    return spark.range(0, count, 1, tasks if tasks is None else max(min(tasks, count), 1))
