"""Pruned joins: of a join's large side only those files are opened that may hold a row with a partner on its small side."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.dynamic.filter import DynamicFilter
from skipstone.bindings.dynamic.keys import compared_in, keeps_values
from skipstone.bindings.dynamic.kinds import Needs, Side, kind_of, needs_of
from skipstone.bindings.dynamic.option import enabled
from skipstone.bindings.dynamic.scan import DynamicFilters
from skipstone.bindings.predicate import PruningPredicate, is_column
from skipstone.bindings.shards.read import Shards
from skipstone.bindings.spark.catalyst import casts_of, conjunction
from skipstone.bindings.spark.join_keys import collated, collected, failures, fixed, once
from skipstone.bindings.spark.join_shards import join_shards
from skipstone.bindings.spark.join_table import Join, join_table
from skipstone.bindings.spark.jvm import frame_of
from skipstone.bindings.spark.prune import classic, remembered, scans_of
from skipstone.bindings.spark.scans import Context, Pruned, Scan, untouched
from skipstone.bindings.spark.session import is_connect, require_pyspark
from skipstone.bindings.spark.types import as_arrow
from skipstone.ir.coerce import in_spark
from skipstone.ir.errors import PredicateError, SkipstoneError
from skipstone.ir.node import quoted_name
from skipstone.ir.session import Incomparable, Session
from skipstone.ir.types import DType, from_arrow

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from skipstone.bindings.dynamic.data import DynamicFilterData
    from skipstone.bindings.predicate import Source

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
        how: The kind of the join, by one of Spark's names for it.
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
        raise PredicateError("how is 'not in'; expected a join of Spark's. NOT IN is an anti join in Spark only where neither side has a NULL")
    if not _is_frame(fact):
        asked = Join(pairs_of(on), kind, side, where, threshold, max_values, null_safe, lambda a, b: joined_frames(a, b, on, kind, side, null_safe))
        return join_shards(fact, dim, asked, read) if isinstance(fact, Shards) else join_table(fact, dim, asked)
    if where is not None:
        if not (isinstance(where, str) or is_column(where)):
            raise PredicateError(f"where is {type(where).__name__} {where!r:.80}; expected a Column or SQL text, as for DataFrame.where")
        fact = fact.where(where)
    plain = joined_frames(fact, dim, on, kind, side, null_safe)
    if why := _unfit(fact, dim, kind, side):
        return remembered(plain, Pruned((untouched(why),)))
    look = _Asked(plain, kind, side, threshold, max_values)
    found, report = classic(plain, filesystem, look)
    if not look.targets:
        return remembered(found, report)
    try:
        steady = once(dim)
        joined = plain if steady is dim else joined_frames(fact, steady, on, kind, side, null_safe)
        return remembered(*classic(joined, filesystem, _Asked(joined, kind, side, threshold, max_values, collect=True)))
    except failures() as e:
        return remembered(plain, Pruned((untouched(f"its keys cannot be collected ({str(e)[:300]})"),)))


def _is_frame(fact: Any) -> bool:
    return type(fact).__module__.startswith("pyspark.") and hasattr(fact, "sparkSession")


def _unfit(fact: Any, dim: Any, kind: str, side: Side) -> str:
    """Why a join is left as it is; "": it may be pruned."""
    if needs_of(kind, side) is Needs.ALL:
        return f"a {kind} join needs all rows of its {side} side"
    if not enabled():
        return "dynamic filtering is off (SKIPSTONE_DYNAMIC_FILTERING)"
    if is_connect(fact):
        return "a client of Spark Connect is not shown the plan of a DataFrame; give the fact table by its path or as a table of Skipstone's"
    if dim.isStreaming:
        return "the other side is streaming, so its keys are never all there"
    return "it is streaming" if fact.isStreaming else ""


def pairs_of(on: On) -> dict[str, str]:
    """The keys' names, on the fact table's side and on the other.

    Raises:
        PredicateError: there are none, or they are not named.
    """
    if isinstance(on, str):
        on = [on]
    if is_column(on) or not isinstance(on, Mapping | Sequence) or not len(on) or not all(isinstance(name, str) for name in on):
        raise PredicateError(f"on is {on!r:.100}; expected names of keys, on both sides or as names of the fact table -> names of the dimension")
    return dict(on) if isinstance(on, Mapping) else {name: name for name in on}


def joined_frames(fact: Any, dim: Any, on: On, kind: str, side: Side, null_safe: bool) -> Any:
    """The join as Spark has it."""
    left, right = (fact, dim) if side == "left" else (dim, fact)
    if is_column(on):
        return left.join(right, on, kind)
    pairs = pairs_of(on)
    if not null_safe and not isinstance(on, Mapping):
        return left.join(right, list(pairs), kind)
    both = [(fact[quoted_name(a)], dim[quoted_name(b)]) for a, b in pairs.items()]
    return left.join(right, reduce(and_, (a.eqNullSafe(b) if null_safe else a == b for a, b in both)), kind)


@dataclass(frozen=True, slots=True)
class _Target:
    """A scan of the fact table: which of the join's keys are which of its columns."""

    scan: Scan
    fields: dict[int, pa.Field]


class _Asked:
    """What a join says of the scans on one of its sides."""

    def __init__(self, plain: Any, kind: str, side: Side, threshold: str | int | None, most: int, *, collect: bool = False) -> None:
        self.plain, self.kind, self.side, self.collect = plain, kind, side, collect
        self.threshold, self.most = threshold, most
        self.targets: list[_Target] = []

    def __call__(self, context: Context, plan: Any) -> list[tuple[set[int], DynamicFilters]]:
        scans, made = scans_of(context.door, plan)
        keys = context.door.keys(plan, made)
        told = json.loads(keys.text())
        if told is None or not told["keys"]:
            return []
        frame = frame_of(self.plain.sparkSession, keys.of(self.side != "left"))
        found = (self._target(told, origin, scans, frame, context) for origin in told[self.side])
        relations = json.loads(made.text())
        self.targets = [t for t in found if t is not None and not self._settled(t, relations[scans.index(t.scan)], context)]
        return self._filters(told, frame, context) if self.collect else []

    def _target(self, told: Any, origin: Any, scans: list[Scan], frame: Any, context: Context) -> _Target | None:
        scan = scans[origin["scan"]]
        names, schema, kinds = scan.columns, scan.schema, as_arrow(frame.schema)
        fields: dict[int, pa.Field] = {}
        for i, column in enumerate(origin["ids"]):
            if column in names and not collated(frame.schema[i]):
                field = schema.field(names[column])
                if _compares(field, casts_of(told["keys"][i][self.side], context.settings), from_arrow(kinds.field(i).type), context):
                    fields[i] = field
        # A row has a partner for certain if all that the join asks is among the keys.
        whole = told["all"] and len(fields) == len(told["keys"])
        return _Target(scan, fields) if fields and (whole or needs_of(self.kind, self.side) is Needs.MATCHED) else None

    def _settled(self, target: _Target, relation: Any, context: Context) -> bool:
        """Whether conditions on a scan fix its keys already, all of which are partition columns."""
        columns, scan = [f.name for f in target.fields.values()], target.scan
        if needs_of(self.kind, self.side) is not Needs.MATCHED or not set(columns) <= {f["name"] for f in relation["partitions"]["fields"]}:
            return False
        try:
            node = conjunction(relation["conditions"], scan.columns, scan.schema, context.settings)
            return fixed(PruningPredicate(node, scan.schema, **(context.settings | {"case_sensitive": True})), columns)
        except SkipstoneError:  # whatever cannot be understood fixes nothing
            return False

    def _filters(self, told: Any, frame: Any, context: Context) -> list[tuple[set[int], DynamicFilters]]:
        known: dict[Any, DynamicFilterData] = {}
        out = []
        for target in self.targets:
            of = pa.schema([f.with_name(str(i)) for i, f in target.fields.items()])
            key = of.serialize().to_pybytes()
            if key not in known:
                safe = [str(i) for i in target.fields if told["keys"][i]["null_safe"]]
                known[key] = collected(frame.select(*of.names), of, safe, self.threshold, self.most, context.settings)
            columns = {str(i): f.name for i, f in target.fields.items()}
            one = DynamicFilter(known[key], columns=columns, how=self.kind, side=self.side)
            out.append((target.scan.ids, DynamicFilters((one,), target.scan.schema, _session(context))))
        return out


def _session(context: Context) -> Session:
    """Names are Spark's own, resolved already."""
    return Session(context.settings["timezone"], context.settings["ansi"], case_sensitive=True)


def _compares(field: pa.Field, casts: list[DType | None] | None, key: DType, context: Context) -> bool:
    """Whether what a column is cast to before it is compared with a key is what a join of the two compares them in, and no value is changed before."""
    if casts is None or None in casts:
        return False
    own = in_spark(from_arrow(field.type))
    try:
        return all(compared_in(own, to, _session(context)) == to and (to == key or keeps_values(own, to)) for to in (*casts, key) if to is not None)
    except Incomparable:
        return False
