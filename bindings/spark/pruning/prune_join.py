"""Pruned joins: of a join's large side only those files are opened that may hold a row with a partner on its small side."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow.fs as pafs

from skipstone.bindings.filters.kinds import Needs, Side, kind_of
from skipstone.bindings.joins.names import pairs_of
from skipstone.bindings.predicates.predicate import PruningPredicate, is_column
from skipstone.bindings.shards.read import Shards
from skipstone.bindings.spark.pruning.join_keys import failures, fixed, once, useless
from skipstone.bindings.spark.pruning.join_shards import join_shards
from skipstone.bindings.spark.pruning.join_table import Join, join_table
from skipstone.bindings.spark.pruning.joins import (
    OTHER,
    Collector,
    Joins,
    Target,
    session_of,
    targets_of,
)
from skipstone.bindings.spark.pruning.prune import classic, remembered
from skipstone.bindings.spark.pruning.scans import Context, Pruned, Scan, scans_of, untouched
from skipstone.bindings.spark.session.catalyst import conjunction
from skipstone.bindings.spark.session.jvm import frame_of
from skipstone.bindings.spark.session.session import is_connect, require_pyspark
from skipstone.ir.errors import PredicateError, SkipstoneError
from skipstone.ir.node import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from skipstone.bindings.filters.filter import DynamicFilter
    from skipstone.bindings.predicates.predicate import Source

On: TypeAlias = "str | Sequence[str] | Mapping[str, str] | Column"
MOST: Final = 1_000_000  # distinct rows of keys that come to the driver


def prune_join(
    fact: Any,
    dim: DataFrame,
    on: On,
    how: str = "inner",
    *,
    side: Side = "left",
    where: Source | None = None,
    null_safe: bool = False,
    threshold: str | int | None = "32MiB",
    max_values: int = MOST,
    filesystem: pafs.FileSystem | None = None,
    read: Callable[[list[str]], DataFrame] | None = None,
) -> DataFrame:
    """An ordinary Spark join that opens fewer files of its large side: those that the keys of the small side rule out are passed over.

    Spark runs a job now that collects the distinct keys of the dimension. Files of the fact table are judged by them on the driver, any column
    with statistics serving, not partition columns alone, beside the conditions that stand on the fact table. The join remains
    as it is, and rows are those of `fact.join(dim, on, how)`. What cannot be pruned is joined as usual, and `pruned` says why.

    A dimension that might have other rows when it is computed again is computed once (`DataFrame.localCheckpoint`), for the keys and for
    the join: one with LIMIT, aggregates, user functions, `rand()`, clocks, or from other sources than files that are listed already.

    Args:
        fact: A DataFrame over Parquet files; or a table of Skipstone's (`scan_parquet`, `scan_hive`, `scan_delta`, `scan_iceberg`) or its
            path, which is read by `read`. The latter also in Spark Connect, where plans of DataFrames cannot be seen. Or the `Shards` of
            a table that outgrows the driver, whose column `path` names its files: executors judge them, and Spark reads what is left.
        dim: The other side, any DataFrame.
        on: The key's name, or a list of names, on both sides; names of the fact table -> names of the dimension; or, of two
            DataFrames, a Column, as for `DataFrame.join`.
        how: The kind of the join, by one of Spark's names for it; a cross join has no keys.
        side: On which side of the join the fact table stands.
        where: A condition on the fact table.
        null_safe: Whether keys that are named are compared by `<=>`; then both sides' keys are columns of the result.
        threshold: How many bytes the filter may have before it becomes weaker, as for `DynamicFilterCollector`.
        max_values: How many distinct rows of keys come to the driver; of more, the executors make ranges.
        filesystem: Where the files are, for Arrow; by default it is found by their paths.
        read: Of shards, what makes a DataFrame of paths; by default they are read as Parquet files with the shards' columns.

    Returns:
        The join. A side that it preserves is not pruned: the left one of a left join, both of a full join. An anti join leaves
        out files in which certainly every row has a partner.

    Raises:
        PredicateError: `on` or `where` is malformed, or names no column of a table.
        SourceError: shards do not say where their files are, or these are no plain Parquet files and `read` is not given.
        DynamicFilterError: Spark has no such join.
        BackendMissing: PySpark is not installed.

    Source: Flink FLIP-248; Spark, dynamic partition pruning.

    Example:
        >>> days = spark.table("date_dim").where("d_moy = 2")  # doctest: +SKIP
        >>> joined = prune_join(spark.table("store_returns"), days, {"sr_returned_date_sk": "d_date_sk"})  # doctest: +SKIP
        >>> print(pruned(joined))  # doctest: +SKIP
        spark_catalog.default.store_returns: 9 of 100 files, joined by inner join, 28 distinct keys, 224 bytes, collected in 0.21 s
    """
    require_pyspark()
    kind = kind_of(how)
    if kind == "not in":
        raise PredicateError(
            "how is 'not in'; expected a join of Spark's. NOT IN is an anti join in Spark only where neither side has a NULL"
        )
    if not _is_frame(fact):
        asked = Join(
            pairs_of(on),
            kind,
            side,
            where,
            threshold,
            max_values,
            null_safe,
            lambda a, b: joined_frames(a, b, on, kind, side, null_safe),
        )
        return (
            join_shards(fact, dim, asked, read)
            if isinstance(fact, Shards)
            else join_table(fact, dim, asked)
        )
    if where is not None:
        if not (isinstance(where, str) or is_column(where)):
            raise PredicateError(
                f"where is {type(where).__name__} {where!r:.80}; expected a Column or SQL text, as for DataFrame.where"
            )
        fact = fact.where(where)
    plain = joined_frames(fact, dim, on, kind, side, null_safe)
    if why := _unfit(fact, dim, kind, side):
        return remembered(plain, Pruned((untouched(why),)))
    look = _Asked(side, threshold, max_values)
    found, report = classic(plain, filesystem, look)
    if not look.targets:
        return remembered(found, report)
    try:
        steady, watches = once(dim)
        joined = plain if steady is dim else joined_frames(fact, steady, on, kind, side, null_safe)
        return remembered(
            *classic(joined, filesystem, _Asked(side, threshold, max_values, watches))
        )
    except failures() as e:
        return remembered(
            plain, Pruned((untouched(f"its keys cannot be collected ({str(e)[:300]})"),))
        )


def _is_frame(fact: Any) -> bool:
    return type(fact).__module__.startswith("pyspark.") and hasattr(fact, "sparkSession")


def _unfit(fact: Any, dim: Any, kind: str, side: Side) -> str:
    """Why a join is left as it is; "": it may be pruned."""
    if is_connect(fact):
        return "a client of Spark Connect is not shown the plan of a DataFrame; give the fact table by its path or as a table of Skipstone's"
    return useless(dim, kind, side) or ("it is streaming" if fact.isStreaming else "")


def joined_frames(fact: Any, dim: Any, on: On, kind: str, side: Side, null_safe: bool) -> Any:
    """The join as Spark has it."""
    left, right = (fact, dim) if side == "left" else (dim, fact)
    if is_column(on):
        return left.join(right, on, kind)
    pairs = pairs_of(on)
    if not null_safe and not isinstance(on, Mapping):
        return left.join(right, list(pairs), kind)
    both = [(fact[quoted_name(a)], dim[quoted_name(b)]) for a, b in pairs.items()]
    return left.join(
        right, reduce(and_, (a.eqNullSafe(b) if null_safe else a == b for a, b in both)), kind
    )


class _Asked:
    """Asks the join at the top of a plan what it says of the scans on one of its sides; of `watches`, what its keys hang on, None is not to collect them."""

    def __init__(
        self, side: Side, threshold: str | int | None, most: int, watches: list[Any] | None = None
    ) -> None:
        self.side, self.threshold, self.most, self.watches = side, threshold, most, watches
        self.targets: list[Target] = []

    def __call__(self, context: Context, execution: Any, scans: list[Scan], _: Any) -> None:
        # In the analysed plan it is still the join that was written.
        plan = execution.analyzed()
        own, made = scans_of(context.door, plan)
        joins = Joins(context, plan, made)
        top = joins.each[0]
        if not top.keys:
            return
        keys = frame_of(context.spark, joins.keys(0, OTHER[self.side]))
        # One scan that stands in a plan twice cannot be told from itself.
        once_there = [
            n
            for n in top.half(self.side).origins
            if sum(bool(own[n].ids & one.ids) for one in own) == 1
        ]
        relations = json.loads(made.text())
        found = targets_of(top, self.side, once_there, own, keys.schema, context)
        matched = top.needs(self.side) is Needs.MATCHED
        self.targets = [
            t for t in found if not (matched and _settled(t, relations[own.index(t.scan)], context))
        ]
        if self.watches is None:
            return
        collector = Collector(keys, top, self.side, self.threshold, self.most, context)
        for target in self.targets:
            said = collector.filter_of(target)
            for scan in scans:
                if scan.ids & target.scan.ids:
                    _ask(scan, target, said, context, self.watches)


def _ask(
    scan: Scan, target: Target, said: DynamicFilter, context: Context, watches: list[Any]
) -> None:
    """Have a join say of a scan of the optimised plan what it says of the same in the analysed plan."""
    if all(
        scan.schema.get_field_index(f.name) >= 0 and scan.schema.field(f.name).type == f.type
        for f in target.fields.values()
    ):
        scan.joined(said, session_of(context), watches, context)
    else:
        scan.unasked("the optimiser rewrote a key's column")


def _settled(target: Target, relation: Any, context: Context) -> bool:
    """Whether conditions on a scan fix its keys already, all of which are partition columns."""
    columns, scan = [f.name for f in target.fields.values()], target.scan
    if not set(columns) <= {f["name"] for f in relation["partitions"]["fields"]}:
        return False
    try:
        node = conjunction(relation["conditions"], scan.columns, scan.schema, context.settings)
        return fixed(
            PruningPredicate(node, scan.schema, **(context.settings | {"case_sensitive": True})),
            columns,
        )
    except SkipstoneError:  # whatever cannot be understood fixes nothing
        return False
