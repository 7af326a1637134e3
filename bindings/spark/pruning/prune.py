"""Pruned reads: a DataFrame that opens only those files of its Parquet scans that may hold what it asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import WeakKeyDictionary

import pyarrow.fs as pafs

from skipstone.bindings.filters.option import enabled
from skipstone.bindings.predicates.predicate import is_column
from skipstone.bindings.spark.pruning.listing import Listings
from skipstone.bindings.spark.pruning.prune_star import star
from skipstone.bindings.spark.pruning.scans import (
    FOREVER,
    Context,
    Pruned,
    Scan,
    context_of,
    scans_of,
    untouched,
    validity_of,
)
from skipstone.bindings.spark.session.jvm import door_of, frame_of
from skipstone.bindings.spark.session.session import is_connect, require_pyspark
from skipstone.ir.errors import BackendMissing, PredicateError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
# Given an execution, its scans, and these as Spark's JVM has them: has scans say more, by what joins say of their rows.
Asked: TypeAlias = "Callable[[Context, Any, list[Scan], Any], None]"
_reports: WeakKeyDictionary[Any, Pruned] = WeakKeyDictionary()
_listings: Final = Listings()


def prune(
    df: DataFrame,
    where: Column | str | None = None,
    *,
    joins: bool = True,
    filesystem: pafs.FileSystem | None = None,
) -> DataFrame:
    """The same DataFrame, with fewer files opened: those whose statistics say that no row can match are left out.

    Each scan of Parquet files is judged by the conditions that Spark's optimiser brings down to it, so joins, unions, views,
    subqueries and aggregates prune each side by its own. The conditions stay where they are. What cannot be judged is
    left as it is, and `pruned` says why. Footers are read on the driver when a table is first pruned, and kept.

    In classic Spark, joins by equal keys prune, too: where one side is small beside a scan on the other, and is filtered or tiny, its
    distinct keys are collected now, by a job of Spark's, and the scan is judged by them, as by `prune_join`. Files are left out by them while
    that side's files are listed as they were. A side that may have other rows when it is computed again is not asked.

    Files are left out while Spark lists them as they were: what is added to a table or replaced in it is read as soon as Spark
    itself sees it (after `REFRESH TABLE`, say). What is pruned by current_date() is read whole from the next day on; a DataFrame
    that asks for the moment, as current_timestamp() does, is another at each action, and left as it is. What Spark itself leaves
    open without pruning stays open: the order of rows without ORDER BY, which ones LIMIT takes, `rand()`,
    `monotonically_increasing_id()`.

    Args:
        df: A DataFrame, of classic Spark or of Spark Connect.
        where: A condition that is added to it, as by `df.where`: a Column or SQL text.
        joins: Whether keys of joins are collected; SKIPSTONE_DYNAMIC_FILTERING=0 says no, too.
        filesystem: Where the files are, for Arrow; by default it is found by their paths.

    Returns:
        A DataFrame with the rows of `df`, or of `df.where(where)`; the same object if nothing was left out.

    Raises:
        PredicateError: `where` is neither a Column nor text.
        DynamicFilterError: SKIPSTONE_DYNAMIC_FILTERING is neither true nor false.
        BackendMissing: PySpark is not installed.

    Example:
        >>> late = prune(spark.table("flights").where("time_hour >= TIMESTAMP '2013-12-24'"))  # doctest: +SKIP
        >>> print(pruned(late))  # doctest: +SKIP
        spark_catalog.default.flights: 1 of 12 files, where time_hour IS NOT NULL AND time_hour >= TIMESTAMP '2013-12-24 00:00:00+00:00'
    """
    require_pyspark()
    if where is not None:
        if not (isinstance(where, str) or is_column(where)):
            raise PredicateError(
                f"where is {type(where).__name__} {where!r:.80}; expected a Column or SQL text, as for DataFrame.where"
            )
        df = df.where(where)
    if is_connect(df):
        from skipstone.bindings.spark.pruning.prune_connect import prune_remote

        found, report = prune_remote(df, filesystem, _listings)
    else:
        found, report = classic(df, filesystem, star if joins and enabled() else None)
    return remembered(found, report)


def remembered(df: DataFrame, report: Pruned) -> DataFrame:
    """A DataFrame of which `pruned` can tell."""
    _reports[df] = report
    return df


def pruned(df: DataFrame) -> Pruned:
    """What `prune` or `prune_join` did for a DataFrame that it returned.

    Returns:
        One `PrunedScan` for each scan of files; prints as a report.

    Raises:
        PredicateError: neither returned this DataFrame.

    Example:
        >>> [(scan.table, scan.files, scan.kept) for scan in pruned(prune(df))]  # doctest: +SKIP
    """
    try:
        return _reports[df]
    except (KeyError, TypeError):
        raise PredicateError(
            "the DataFrame does not come from prune(); pass what prune() returned, not what was made from it"
        ) from None


def classic(
    df: Any, filesystem: pafs.FileSystem | None, joins: Asked | None = None
) -> tuple[Any, Pruned]:
    """The DataFrame with fewer files, and what was found scan by scan.

    Args:
        df: Of classic Spark.
        filesystem: Where the files are.
        joins: Has joins say of scans what they need of them; None: joins are not looked at.
    """
    if df.isStreaming:
        return df, Pruned((untouched("it is streaming"),))
    from py4j.protocol import Py4JError

    try:
        return _replanned(df, door_of(df.sparkSession), filesystem, joins)
    except (
        BackendMissing,
        Py4JError,
        RecursionError,
    ) as e:  # a plan that is too deep to be written down, or of another Spark's classes
        return df, Pruned((untouched(f"its plan cannot be read ({str(e)[:300]})"),))


def _replanned(
    df: Any, door: Any, filesystem: pafs.FileSystem | None, joins: Asked | None
) -> tuple[Any, Pruned]:
    spark, execution = df.sparkSession, df._jdf.queryExecution()
    until = door.until(execution.analyzed())
    if not until:
        return df, Pruned(
            (
                untouched(
                    "it asks for what is another at each action, such as current_timestamp(); give the moment, or ask for current_date()"
                ),
            )
        )
    if until < FOREVER:  # what was optimised before may be of another day
        execution = frame_of(spark, execution.analyzed())._jdf.queryExecution()
    written, own = scans_of(door, execution.analyzed())
    scans, made = scans_of(door, execution.optimizedPlan(), written)
    context = context_of(spark, door, filesystem, _listings)
    for scan in scans:
        scan.judge(context)
    if joins is not None:
        joins(context, execution, scans, made)
    indexes = (
        _indexes(door, written, scans, until, _hides(own.leaves(), made.leaves()))
        if any(scan.pruned for scan in scans)
        else {}
    )
    report = Pruned(scan.report for scan in scans)
    return (
        frame_of(spark, door.replaced(execution.analyzed(), indexes)) if indexes else df
    ), report


def _hides(analysed: Mapping[str, int], optimised: Mapping[str, int]) -> bool:
    """Whether rows of a scan that is gone may come from elsewhere: leaves that the query does not name, such as caches, hold rows of files."""
    return any(count > (analysed.get(kind) or 0) for kind, count in dict(optimised).items())


def _indexes(
    door: Any, analysed: Sequence[Scan], judged: Sequence[Scan], until: int, hides: bool
) -> dict[str, Any]:
    """Lists of files for scans of the analysed plan, by the ids of their columns, which hold until some time.

    Where each scan of some files has its own in the analysed plan, by the ids of columns, each is pruned by what is asked of it. The optimiser
    may also have removed scans, merged them, or copied them under new ids. Both plans give the same rows over any files, so a file that no
    scan of the optimised plan needs can then be left out of all scans of the analysed one at once.
    """
    out: dict[str, Any] = {}
    for ones, scans in _by_files(analysed, judged):
        copies = [scan for scan in scans if not any(scan.ids & one.ids for one in ones)]
        gone = [one for one in ones if not any(scan.ids & one.ids for scan in scans)]
        if gone and hides:
            _leave(
                scans, "Spark does not read these files in all places where the query names them"
            )
        elif gone or copies:
            out |= _left_out(door, until, ones, scans)
        else:
            for one in ones:
                own = [scan for scan in scans if scan.ids & one.ids]
                out |= _left_out(door, until, [one], own)
    return out


def _left_out(door: Any, until: int, ones: Sequence[Scan], scans: Sequence[Scan]) -> dict[str, Any]:
    """Lists for some scans of the analysed plan without the files that none of those of the optimised plan needs."""
    if not all(scan.pruned for scan in scans):
        _leave(scans, "its files are also needed in another place")
        return {}
    needed = {path for scan in scans for path in scan.needed()}
    if not any(len(scan.drops(needed)) for scan in scans):
        _leave(scans, "its files are also needed in another place")
        return {}
    out: dict[str, Any] = {}
    validity = validity_of(door, until, scans)
    for one in ones:
        index = one.index
        for scan in scans:
            index = scan.without(index, needed, validity)
        out |= dict.fromkeys(map(str, one.ids), index)
    for scan in scans:
        scan.shares(needed)
    return out


def _by_files(
    analysed: Sequence[Scan], judged: Sequence[Scan]
) -> list[tuple[list[Scan], list[Scan]]]:
    """Scans of both plans by the files that they may read: those of one group read none of another's."""
    groups: list[list[Scan]] = []
    for scan in (*analysed, *judged):
        near = [group for group in groups if any(scan.overlaps(other) for other in group)]
        groups = [group for group in groups if group not in near]
        groups.append([scan, *(other for group in near for other in group)])
    return [
        (
            [one for one in analysed if any(one is scan for scan in group)],
            [one for one in judged if any(one is scan for scan in group)],
        )
        for group in groups
    ]


def _leave(scans: Sequence[Scan], why: str) -> None:
    for scan in scans:
        if scan.pruned:
            scan.leave(why)
