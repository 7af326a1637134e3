"""Pruned reads: a DataFrame that opens only the Parquet files that may hold a matching row."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import WeakKeyDictionary

import pyarrow.fs as pafs

from skipstone.bindings.filters.option import enabled
from skipstone.bindings.predicates.predicate import is_column
from skipstone.bindings.spark.pruning.context import Context, context_of
from skipstone.bindings.spark.pruning.plan_scans import scans_of, validity_of
from skipstone.bindings.spark.pruning.prune_by_joins import filter_scans_by_joins
from skipstone.bindings.spark.pruning.reports import Pruned, not_pruned
from skipstone.bindings.spark.pruning.scan_files import Listings
from skipstone.bindings.spark.pruning.scans import FOREVER, Scan
from skipstone.bindings.spark.session.jvm import frame_of, plan_gateway
from skipstone.bindings.spark.session.session import (
    is_connect,
    oldest_for,
    require_pyspark,
    too_old,
)
from skipstone.ir.errors import BackendMissing, PredicateError, SkipstoneWarning, describe_error
from skipstone.ir.session import check_flag

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
# Adds the filters of joins to scans. Arguments: the context, the optimised and the analysed plan,
# the scans of the optimised one, and the same scans as an object of Spark's JVM.
JoinJudge: TypeAlias = "Callable[[Context, Any, Any, list[Scan], Any], None]"
_reports: WeakKeyDictionary[Any, Pruned] = WeakKeyDictionary()
listings: Final = Listings()


def prune(
    df: DataFrame,
    where: Column | str | None = None,
    *,
    joins: bool = True,
    filesystem: pafs.FileSystem | None = None,
) -> DataFrame:
    """Return the same DataFrame with fewer files opened: it skips those in which no row can match.

    Each scan of Parquet files is judged by the conditions that Spark's optimiser pushes down to it,
    so joins, unions, views, subqueries and aggregates prune each side separately. The conditions
    stay where they are. A scan that cannot be judged stays as it is, and `pruned` says why. Footers
    are read on the driver when a table is first pruned, and cached.

    In classic Spark, equi-joins also prune. If one side is small compared with a scan on the other
    side, and is filtered or tiny, it is the build side: a Spark job collects its distinct keys now,
    and they prune the scan, as in `prune_join`. Files stay skipped only while Spark lists the build
    side's files unchanged. A build side that might have different rows when it is computed again is
    not used.

    A file is skipped only while Spark lists it unchanged. Spark reads files that are added to a
    table or replaced as soon as it sees them (after `REFRESH TABLE`, for example). A DataFrame
    pruned by current_date() is read whole from the next day on. A DataFrame that calls
    current_timestamp() changes with every action and stays as it is. Pruning may change results
    that Spark leaves undefined: the order of rows without ORDER BY, the rows that LIMIT takes,
    `rand()`, `monotonically_increasing_id()`.

    Args:
        df: A DataFrame of classic Spark or Spark Connect.
        where: A condition to add, as by `df.where`: a Column or SQL text.
        joins: True to collect the keys of joins. SKIPSTONE_DYNAMIC_FILTERING=0 also turns this off.
        filesystem: Where the files are, as an Arrow file system; None finds it by their paths.

    Returns:
        A DataFrame with the rows of `df`, or of `df.where(where)`; the same object if no file was
        left out.

    Raises:
        PredicateError: `where` is neither a Column nor text.
        DynamicFilterError: SKIPSTONE_DYNAMIC_FILTERING is neither true nor false.
        BackendMissing: PySpark is not installed.

    Warns:
        SkipstoneWarning: PySpark is older than 3.5, or than 4.0 for Spark Connect; the DataFrame
            stays as it is.

    Example:
        >>> condition = "time_hour >= TIMESTAMP '2013-12-24'"
        >>> late = prune(spark.table("flights").where(condition))  # doctest: +SKIP
        >>> print(pruned(late))  # doctest: +SKIP
        spark_catalog.default.flights: 1 of 12 files,
            where time_hour IS NOT NULL AND time_hour >= TIMESTAMP '2013-12-24 00:00:00+00:00'
    """
    if old := too_old(oldest_for(df)):
        warnings.warn(f"{old}; the DataFrame reads all files", SkipstoneWarning, stacklevel=2)
        return with_report(filtered(df, where), not_pruned(old))
    require_pyspark(oldest_for(df))
    check_flag("joins", joins)
    if not hasattr(df, "isStreaming"):
        path = isinstance(df, str | os.PathLike)
        way_out = "spark.read.parquet(path) gives one" if path else "plan by table.plan(where)"
        raise PredicateError(
            f"df is of the type {type(df).__name__}; expected a DataFrame of PySpark: {way_out}"
        )
    df = filtered(df, where)
    if is_connect(df):
        from skipstone.bindings.spark.pruning.prune_connect import prune_remote

        found, report = prune_remote(df, filesystem, listings)
    else:
        found, report = prune_classic(
            df, filesystem, filter_scans_by_joins if joins and enabled() else None
        )
    return with_report(found, report)


def with_report(df: DataFrame, report: Pruned) -> DataFrame:
    """Store the report of a DataFrame for `pruned`, and return the DataFrame."""
    _reports[df] = report
    return df


def pruned(df: DataFrame) -> Pruned:
    """Return the report of a DataFrame that `prune` or `prune_join` returned.

    Args:
        df: The DataFrame.

    Returns:
        One `PrunedScan` for each scan of files; prints as text.

    Raises:
        PredicateError: neither function returned this DataFrame.

    Example:
        >>> [(scan.table, scan.files, scan.kept) for scan in pruned(prune(df))]  # doctest: +SKIP
    """
    try:
        return _reports[df]
    except (KeyError, TypeError):
        raise PredicateError(
            "the DataFrame does not come from prune() or prune_join(); pass the DataFrame that "
            "they returned, not one derived from it"
        ) from None


def filtered(df: Any, where: Any) -> Any:
    """Return `df.where(where)`, or `df` if the condition is None.

    Raises:
        PredicateError: the condition is neither a Column nor text.
    """
    if where is None:
        return df
    if not (isinstance(where, str) or is_column(where)):
        raise PredicateError(
            f"where is {type(where).__name__} {where!r:.80}; "
            "expected a Column or SQL text, as for DataFrame.where"
        )
    return df.where(where)


def prune_classic(
    df: Any, filesystem: pafs.FileSystem | None, joins: JoinJudge | None = None
) -> tuple[Any, Pruned]:
    """Prune a DataFrame of classic Spark.

    Args:
        df: The DataFrame.
        filesystem: Where the files are.
        joins: Adds the filters of joins to scans; None ignores joins.

    Returns:
        The DataFrame with fewer files, and the report of each scan.
    """
    if df.isStreaming:
        return df, not_pruned("it is streaming")
    from py4j.protocol import Py4JError

    try:
        return _prune_plan(df, plan_gateway(df.sparkSession), filesystem, joins)
    # The plan is nested too deeply to serialise, or this Spark has other classes.
    except (BackendMissing, Py4JError, RecursionError) as e:
        return df, not_pruned(f"its plan cannot be read ({describe_error(e)})")


def _prune_plan(
    df: Any, gateway: Any, filesystem: pafs.FileSystem | None, joins: JoinJudge | None
) -> tuple[Any, Pruned]:
    from pyspark.errors import PySparkException

    spark, execution = df.sparkSession, df._jdf.queryExecution()
    until = gateway.until(execution.analyzed())
    if not until:
        return df, not_pruned(
            "it calls a function that changes with every action, such as current_timestamp(); "
            "write the time as a literal, or call current_date()"
        )
    if until < FOREVER:  # an earlier optimisation may hold the date of another day
        execution = frame_of(spark, execution.analyzed())._jdf.queryExecution()
    analysed, jvm_analysed = scans_of(spark, gateway, execution.analyzed())
    try:
        optimised = execution.optimizedPlan()
    except PySparkException as e:  # what an action would raise, such as a division by zero
        return df, not_pruned(f"its plan cannot be optimised ({describe_error(e)})")
    scans, jvm_scans = scans_of(spark, gateway, optimised, analysed)
    context = context_of(spark, gateway, filesystem, listings)
    for scan in scans:
        scan.judge(context)
    if joins is not None:
        joins(context, optimised, execution.analyzed(), scans, jvm_scans)
    indexes = {}
    if any(scan.pruned for scan in scans):
        elsewhere = _may_read_elsewhere(jvm_analysed.leaves(), jvm_scans.leaves())
        indexes = _new_indexes(gateway, analysed, scans, until, elsewhere)
    report = Pruned(scan.report for scan in scans)
    if not indexes:
        return df, report
    plan = gateway.replaced(execution.analyzed(), jvm_analysed, indexes)
    return frame_of(spark, plan), report


def _may_read_elsewhere(analysed: Mapping[str, int], optimised: Mapping[str, int]) -> bool:
    """Return True if rows of a removed scan may come from elsewhere.

    That is so if the optimised plan has leaves, such as caches, that the query does not name.
    """
    return any(count > (analysed.get(kind) or 0) for kind, count in dict(optimised).items())


def _new_indexes(
    gateway: Any, analysed: Sequence[Scan], judged: Sequence[Scan], until: int, read_elsewhere: bool
) -> dict[int, Any]:
    """Return new file indexes for scans of the analysed plan, by their numbers.

    If each scan of some files keeps its ids in the analysed plan, each is pruned by its own
    condition. The optimiser may also have removed scans, merged them, or copied them under new ids.
    Both plans give the same rows over any files, so a file that no scan of the optimised plan needs
    can then be left out of all scans of the analysed plan at once.

    Args:
        gateway: The object that changes plans in Spark's JVM.
        analysed: Scans of the analysed plan.
        judged: Scans of the optimised plan, judged.
        until: When the indexes expire, in ms since 1970.
        read_elsewhere: As `_may_read_elsewhere` says.
    """
    out: dict[int, Any] = {}
    for analysed_scans, scans in _by_files(analysed, judged):
        copies = [s for s in scans if not any(s.ids & a.ids for a in analysed_scans)]
        removed = [a for a in analysed_scans if not any(s.ids & a.ids for s in scans)]
        if removed and read_elsewhere:
            _leave_unpruned(
                scans, "Spark does not read these files everywhere the query names them"
            )
        elif removed or copies:
            out |= indexes_without_files(gateway, until, analysed_scans, scans)
        else:
            for analysed_scan in analysed_scans:
                same_columns = [scan for scan in scans if scan.ids & analysed_scan.ids]
                out |= indexes_without_files(gateway, until, [analysed_scan], same_columns)
    return out


def indexes_without_files(
    gateway: Any, until: int, analysed_scans: Sequence[Scan], scans: Sequence[Scan]
) -> dict[int, Any]:
    """Return indexes for some analysed scans, without the files that no optimised scan needs."""
    if not all(scan.pruned for scan in scans):
        _leave_unpruned(scans, "another scan of the query needs its files")
        return {}
    alone = len(scans) == 1
    needed = set() if alone else {path for scan in scans for path in scan.needed()}
    if not alone and not any(len(scan.drops(needed)) for scan in scans):
        _leave_unpruned(scans, "another scan of the query needs its files")
        return {}
    out: dict[int, Any] = {}
    validity = validity_of(gateway, until, scans)
    for analysed_scan in analysed_scans:
        index = analysed_scan.index
        for scan in scans:
            index = scan.without(index, needed, validity)
        out[analysed_scan.number] = index
    for scan in () if alone else scans:
        scan.count_shared(needed)
    return out


def _by_files(
    analysed: Sequence[Scan], judged: Sequence[Scan]
) -> list[tuple[list[Scan], list[Scan]]]:
    """Group the scans of both plans, so that scans of different groups share no file."""
    groups: list[list[Scan]] = []
    for scan in (*analysed, *judged):
        overlapping = [group for group in groups if any(scan.overlaps(other) for other in group)]
        groups = [group for group in groups if group not in overlapping]
        groups.append([scan, *(other for group in overlapping for other in group)])
    return [
        (
            [scan for scan in analysed if any(scan is member for member in group)],
            [scan for scan in judged if any(scan is member for member in group)],
        )
        for group in groups
    ]


def _leave_unpruned(scans: Sequence[Scan], why: str) -> None:
    for scan in scans:
        if scan.pruned:
            scan.leave_unpruned(why)
