"""Pruned joins: open only the files of the probe side that may hold a row with a match."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow.fs as pafs

from skipstone.bindings.filters.kinds import Needs, Side, kind_of
from skipstone.bindings.filters.option import check_null_safe
from skipstone.bindings.joins.names import pairs_of
from skipstone.bindings.predicates.predicate import PruningPredicate, is_column
from skipstone.bindings.shards.shards import Shards
from skipstone.bindings.spark.pruning.catalyst import conjunction
from skipstone.bindings.spark.pruning.context import Context
from skipstone.bindings.spark.pruning.join_keys import (
    fixes_columns,
    job_errors,
    repeatable,
    why_not_prunable,
)
from skipstone.bindings.spark.pruning.join_shards import join_shards
from skipstone.bindings.spark.pruning.join_table import JoinRequest, join_table
from skipstone.bindings.spark.pruning.joins import (
    OTHER,
    Collector,
    Joins,
    Target,
    kinds_of,
    session_of,
    targets_of,
)
from skipstone.bindings.spark.pruning.plan_scans import scans_of
from skipstone.bindings.spark.pruning.prune import filtered, prune_classic, with_report
from skipstone.bindings.spark.pruning.reports import not_pruned
from skipstone.bindings.spark.pruning.scans import Scan
from skipstone.bindings.spark.session.jvm import frame_of, text_of
from skipstone.bindings.spark.session.session import is_connect, oldest_for, require_pyspark
from skipstone.ir.errors import PredicateError, SkipstoneError, describe_error
from skipstone.ir.node import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from skipstone.bindings.filters.filter import DynamicFilter
    from skipstone.bindings.predicates.predicate import PredicateSource

On: TypeAlias = "str | Sequence[str] | Mapping[str, str] | Column"
MAX_KEYS: Final = 1_000_000  # distinct rows of keys that come to the driver


def prune_join(
    fact: Any,
    dim: DataFrame,
    on: On,
    how: str = "inner",
    *,
    side: Side = "left",
    where: PredicateSource | None = None,
    null_safe: bool = False,
    threshold: str | int | None = "32MiB",
    max_values: int = MAX_KEYS,
    filesystem: pafs.FileSystem | None = None,
    read: Callable[[list[str]], DataFrame] | None = None,
) -> DataFrame:
    """Return an ordinary Spark join that opens only the probe side's files that may have matches.

    Spark runs a job now that collects the distinct keys of the build side, `dim`. They judge the
    files of the probe side, `fact`, on the driver, together with its conditions. Any column with
    statistics can prune, not only partition columns. The join itself stays, and its rows are those
    of `fact.join(dim, on, how)`. A table that cannot be pruned is joined as usual, and `pruned`
    says why.

    A build side that may have other rows when it is computed again is computed once
    (`DataFrame.localCheckpoint`), for both the keys and the join. Such build sides have LIMIT,
    aggregates, user functions, `rand()` or clocks, or come from sources other than files that are
    already listed.

    Args:
        fact: The probe side: a DataFrame over Parquet files; or a Skipstone table (`scan_parquet`,
            `scan_hive`, `scan_delta`, `scan_iceberg`) or its path, which is read by `read`. Spark
            Connect needs one of the latter, because plans of DataFrames are not visible there. Or
            the `Shards` of a table that outgrows the driver, whose column `path` names its files:
            executors judge these, and Spark reads those that remain.
        dim: The build side, any DataFrame.
        on: The key's name, or a list of names, that both sides have; a mapping from names of the
            probe side to names of the build side; or, for two DataFrames, a Column, as for
            `DataFrame.join`.
        how: The kind of the join, by any of Spark's names for it. A cross join has no keys.
        side: The side of the join that the probe side is on.
        where: A condition on the probe side.
        null_safe: True if named keys are compared by `<=>`; the result then has the key columns of
            both sides.
        threshold: Size in bytes at which the filter becomes weaker, as for
            `DynamicFilterCollector`.
        max_values: The largest number of distinct rows of keys to collect on the driver; if there
            are more, the executors reduce them to ranges.
        filesystem: Where the files are, as an Arrow file system; None finds it by their paths.
        read: For shards, a function from paths to a DataFrame; by default they are read as Parquet
            files with the shards' columns.

    Returns:
        The join. A side that it preserves is not pruned: the left side of a left join, both sides
        of a full join. An anti join leaves out files in which every row certainly has a match.

    Raises:
        PredicateError: `on` or `where` is malformed, or names an unknown column.
        SourceError: the shards do not name their files, or these are not plain Parquet files and
            `read` is not given.
        DynamicFilterError: Spark has no such join.
        BackendMissing: PySpark is not installed.

    Source: Flink FLIP-248; Spark, dynamic partition pruning.

    Example:
        >>> days = spark.table("date_dim").where("d_moy = 2")  # doctest: +SKIP
        >>> keys = {"sr_returned_date_sk": "d_date_sk"}
        >>> joined = prune_join(spark.table("store_returns"), days, keys)  # doctest: +SKIP
        >>> print(pruned(joined))  # doctest: +SKIP
        spark_catalog.default.store_returns: 9 of 100 files, joined by inner join,
            28 distinct keys, 224 bytes, collected in 0.21 s
    """
    require_pyspark(oldest_for(dim))
    kind = kind_of(how)
    check_null_safe(null_safe)
    if kind == "not in":
        raise PredicateError(
            "how is 'not in'; expected one of Spark's joins. "
            "Spark's NOT IN is an anti join only if neither side has a NULL"
        )
    if not _is_frame(fact):
        request = JoinRequest(
            pairs_of(on),
            kind,
            side,
            where,
            threshold,
            max_values,
            null_safe,
            lambda a, b: joined_frames(a, b, on, kind, side, null_safe),
        )
        if isinstance(fact, Shards):
            return join_shards(fact, dim, request, read)
        return join_table(fact, dim, request)
    fact = filtered(fact, where)
    plain = joined_frames(fact, dim, on, kind, side, null_safe)
    if why := _why_unpruned(fact, dim, kind, side):
        return with_report(plain, not_pruned(why))
    dry_run = _TopJoin(side, threshold, max_values)
    found, report = prune_classic(plain, filesystem, dry_run)
    if not dry_run.targets:
        return with_report(found, report)
    try:
        repeatable_build, watches = repeatable(dim)
        if repeatable_build is dim:
            joined = plain
        else:
            joined = joined_frames(fact, repeatable_build, on, kind, side, null_safe)
        return with_report(
            *prune_classic(joined, filesystem, _TopJoin(side, threshold, max_values, watches))
        )
    except job_errors() as e:
        why = f"its keys cannot be collected ({describe_error(e)})"
        return with_report(plain, not_pruned(why))


def _is_frame(probe: Any) -> bool:
    """Return True if this is a PySpark DataFrame."""
    return type(probe).__module__.startswith("pyspark.") and hasattr(probe, "sparkSession")


def _why_unpruned(probe: Any, build: Any, kind: str, side: Side) -> str:
    """Return why a join cannot be pruned; "" if it can."""
    if is_connect(probe):
        return (
            "a client of Spark Connect cannot see the plan of a DataFrame; "
            "pass the probe side by its path or as a Skipstone table"
        )
    return why_not_prunable(build, kind, side) or ("it is streaming" if probe.isStreaming else "")


def joined_frames(probe: Any, build: Any, on: On, kind: str, side: Side, null_safe: bool) -> Any:
    """Return the plain Spark join."""
    left, right = (probe, build) if side == "left" else (build, probe)
    if is_column(on):
        return left.join(right, on, kind)
    pairs = pairs_of(on)
    if not null_safe and not isinstance(on, Mapping):
        return left.join(right, list(pairs), kind)
    both = [(probe[quoted_name(a)], build[quoted_name(b)]) for a, b in pairs.items()]
    return left.join(
        right, reduce(and_, (a.eqNullSafe(b) if null_safe else a == b for a, b in both)), kind
    )


class _TopJoin:
    """Adds the filter of the join at the top of a plan to the scans on one of its sides.

    Args:
        side: The side of the scans.
        threshold: Size of a filter in bytes.
        max_rows: Distinct rows that come to the driver.
        watches: File lists that the keys depend on; None only finds `targets` and collects no keys.
    """

    def __init__(
        self,
        side: Side,
        threshold: str | int | None,
        max_rows: int,
        watches: list[Any] | None = None,
    ) -> None:
        self.side, self.threshold, self.max_rows, self.watches = side, threshold, max_rows, watches
        self.targets: list[Target] = []

    def __call__(self, context: Context, _: Any, plan: Any, scans: list[Scan], __: Any) -> None:
        # In the analysed plan the top join is still the one that was written.
        analysed, jvm_scans = scans_of(context.spark, context.gateway, plan)
        joins = Joins(context, plan, jvm_scans)
        top = joins.each[0]
        if not top.keys:
            return
        keys = frame_of(context.spark, joins.keys(0, OTHER[self.side]))
        # A scan that occurs twice in a plan has the same ids in both places.
        unique = [
            n
            for n in top.side_of(self.side).origins
            if sum(bool(analysed[n].ids & one.ids) for one in analysed) == 1
        ]
        relations = json.loads(text_of(jvm_scans.text()))
        found = targets_of(top, self.side, unique, analysed, kinds_of(keys), context)
        matched = top.needs(self.side) is Needs.MATCHED
        self.targets = [
            t
            for t in found
            if not (matched and _fixed_by_conditions(t, relations[analysed.index(t.scan)], context))
        ]
        if self.watches is None:
            return
        collector = Collector(keys, top, self.side, self.threshold, self.max_rows, context)
        watches = [*self.watches, *(scan.settings for scan in scans)]
        for target in self.targets:
            dynamic_filter = collector.filter_of(target)
            for scan in scans:
                if scan.ids & target.scan.ids:
                    _filter_scan(scan, target, dynamic_filter, context, watches)


def _filter_scan(
    scan: Scan, target: Target, dynamic_filter: DynamicFilter, context: Context, watches: list[Any]
) -> None:
    """Apply a join's filter of an analysed scan to the same scan of the optimised plan."""
    if all(
        scan.schema.get_field_index(f.name) >= 0 and scan.schema.field(f.name).type == f.type
        for f in target.fields.values()
    ):
        scan.add_filter(dynamic_filter, session_of(context), watches, context)
    else:
        scan.note_join("the optimiser rewrote a key's column")


def _fixed_by_conditions(target: Target, relation: Any, context: Context) -> bool:
    """Return True if all keys are partition columns that the scan's conditions already fix."""
    columns, scan = [f.name for f in target.fields.values()], target.scan
    if not set(columns) <= {f["name"] for f in relation["partitions"]["fields"]}:
        return False
    try:
        node = conjunction(
            relation["conditions"], scan.columns, scan.schema, context.settings, context.unsure
        )
        return fixes_columns(
            PruningPredicate(node, scan.schema, **(context.settings | {"case_sensitive": True})),
            columns,
        )
    except SkipstoneError:  # a condition that is not understood fixes no column
        return False
