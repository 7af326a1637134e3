"""Star joins in a DataFrame that is pruned: which of its joins are worth a job that collects their keys, and what the keys say of its scans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from skipstone.bindings.filters.kinds import Needs, Side
from skipstone.bindings.spark.pruning.join_keys import failures, watches
from skipstone.bindings.spark.pruning.joins import (
    OTHER,
    SIDES,
    Collector,
    Joins,
    JoinSide,
    PlanJoin,
    session_of,
    targets_of,
)
from skipstone.bindings.spark.pruning.scans import FOREVER, Context, Scan, validity_of
from skipstone.bindings.spark.session.jvm import frame_of
from skipstone.ir.errors import SkipstoneError

THRESHOLD: Final = "32MiB"  # of a filter
MOST: Final = 1_000_000  # distinct rows of keys that come to the driver
JOBS: Final = 16  # for one DataFrame
SMALL: Final = 1 << 20  # bytes of a dimension that is asked without a condition on it
# What a dimension may have, of the bytes that a fact table has left: more of them to be read twice would not pay.
# Source: Spark, `spark.sql.optimizer.dynamicPartitionPruning.fallbackFilterRatio`.
SHARE: Final = 0.5
BROADCAST: Final = "spark.sql.autoBroadcastJoinThreshold"

Above = tuple[tuple[int, Side], ...]


@dataclass(frozen=True, slots=True)
class Dimension:
    """The side of a join that keys are taken from.

    Attributes:
        join: The join.
        side: Where the fact table stands.
        above: Joins above by which rows of the dimension are left out: dimensions of the dimension.
        halves: All that is read for the keys.
    """

    join: PlanJoin
    side: Side
    above: Above
    halves: tuple[JoinSide, ...]

    @property
    def scans(self) -> list[int]:
        """The numbers of the scans that are read."""
        return [number for half in self.halves for number in half.scans]


def star(context: Context, execution: Any, scans: list[Scan], made: Any) -> None:
    """Have the joins of a DataFrame's own plan say what they need of its scans, where that is worth a job of Spark's.

    They are those of the optimised plan: conditions stand at their scans there, and IN and EXISTS are joins. A filter leaves out only
    rows that its join drops, so all that is above sees what it saw before, and any number of filters hold together.

    Args:
        context: What the scans have in common.
        execution: Spark's query execution.
        scans: Those of its optimised plan, judged by their own conditions.
        made: The same as Spark's JVM has them.
    """
    if not made.joined():
        return
    expected: tuple[type[Exception], ...] = (SkipstoneError, *failures())
    try:
        _Star(context, execution, scans, Joins(context, execution.optimizedPlan(), made)).ask(
            expected
        )
    except expected as e:
        for scan in scans:
            scan.unasked(f"its joins cannot be read ({str(e)[:300]})")


class _Star:
    def __init__(self, context: Context, execution: Any, scans: list[Scan], joins: Joins) -> None:
        self.context, self.scans, self.joins = context, scans, joins
        self.analysed = execution.analyzed()
        self.jobs = 0
        self._hangs: dict[tuple[int, Side, Above], list[Any] | None] = {}

    def ask(self, expected: tuple[type[Exception], ...]) -> None:
        """Ask the dimensions, that one first which costs least by then: what is left of one scan may be the dimension of another."""
        waiting = list(self._dimensions())
        while waiting and self.jobs < JOBS:
            dimension = min(waiting, key=self._cost)
            waiting.remove(dimension)
            try:
                self._ask(dimension)
            except expected as e:
                self._note(dimension, f"the keys of a join cannot be collected ({str(e)[:300]})")

    # Which dimensions there are.

    def _dimensions(self) -> Iterator[Dimension]:
        for join in self.joins.each:
            for side in SIDES:
                if join.half(side).origins and join.needs(side) is not Needs.ALL:
                    half = join.half(OTHER[side])
                    # Of an anti join's dimension all keys are needed.
                    above = tuple(self._above(half)) if join.needs(side) is Needs.MATCHED else ()
                    if above or half.filtered or self._nbytes(half) <= SMALL:
                        yield Dimension(
                            join,
                            side,
                            above,
                            (half, *(self.joins.each[n].half(OTHER[s]) for n, s in above)),
                        )

    def _above(self, half: JoinSide) -> Iterator[tuple[int, Side]]:
        for number, standing in half.above:
            join = self.joins.each[number]
            other = join.half(OTHER[standing])
            further = tuple(self._above(other))
            small = self._nbytes(other) <= max(SMALL, self._nbytes(half))
            if (
                join.needs(standing) is Needs.MATCHED
                and small
                and (other.filtered or further)
                and self._watches(number, OTHER[standing], further) is not None
            ):
                yield number, standing
                yield from further

    def _nbytes(self, half: JoinSide) -> int:
        return half.others + sum(self.scans[n].nbytes for n in half.scans)

    def _cost(self, dimension: Dimension) -> int:
        return sum(map(self._nbytes, dimension.halves))

    def _watches(self, number: int, side: Side, above: Above) -> list[Any] | None:
        key = number, side, above
        if key not in self._hangs:
            self._hangs[key] = watches(self.context.spark, self.joins.keys(*key), self.analysed)
        return self._hangs[key]

    # Asking one.

    def _ask(self, dimension: Dimension) -> None:
        join, side = dimension.join, dimension.side
        worth = [
            n
            for n in join.half(side).origins
            if self._pays(self.scans[n], join.half(side).origins[n], dimension)
        ]
        if not worth:
            return
        hangs = self._watches(join.number, OTHER[side], dimension.above)
        if hangs is None:
            self._note(
                dimension, "the other side of a join may have other rows when it is computed again"
            )
            return
        keys = frame_of(self.context.spark, self._narrowed(dimension))
        targets = targets_of(join, side, worth, self.scans, keys.schema, self.context)
        if not targets:
            return
        self.jobs += 1
        hangs = [*hangs, *(w for n in dimension.scans for w in self.scans[n].watches)]
        collector = Collector(keys, join, side, THRESHOLD, MOST, self.context)
        for target in targets:
            said = collector.filter_of(target)
            target.scan.joined(said, session_of(self.context), hangs, self.context)

    def _pays(self, scan: Scan, ids: Sequence[int], dimension: Dimension) -> bool:
        """Whether to collect keys may cost less than to read what they leave out."""
        if not any(i in scan.columns for i in ids):
            return False
        if self._by_spark(scan, ids, dimension):
            if "Spark prunes" not in scan.report.why:
                scan.unasked("Spark prunes by partition columns itself")
            return False
        try:
            files, nbytes = scan.left(self.context)
        except (SkipstoneError, OSError) as e:
            scan.unasked(str(e))
            return False
        pays = self._cost(dimension) <= SHARE * nbytes
        if files > 1 and not pays:
            scan.unasked("the other side of a join is too large beside it")
        return files > 1 and pays

    def _by_spark(self, scan: Scan, ids: Sequence[int], dimension: Dimension) -> bool:
        """Whether Spark's dynamic partition pruning does it: keys are partition columns, and what it broadcasts has them."""
        if not {scan.columns[i] for i in ids if i in scan.columns} <= scan.partitioned:
            return False
        most = self.context.spark._jsparkSession.sessionState().conf().autoBroadcastJoinThreshold()
        broadcast = dimension.join.half(OTHER[dimension.side]).size <= most
        return any(key in ids and (broadcast or not only) for key, only in scan.dynamic)

    def _narrowed(self, dimension: Dimension) -> Any:
        """The plan of the keys, reading what is left of its scans."""
        plan = self.joins.keys(dimension.join.number, OTHER[dimension.side], dimension.above)
        own = [self.scans[n] for n in dimension.scans]
        indexes: dict[str, Any] = {}
        for scan in own:
            if scan.pruned and sum(bool(scan.ids & other.ids) for other in own) == 1:
                indexes |= dict.fromkeys(
                    map(str, scan.ids),
                    scan.without(scan.index, (), validity_of(self.context.door, FOREVER, ())),
                )
        return self.context.door.replaced(plan, indexes) if indexes else plan

    def _note(self, dimension: Dimension, why: str) -> None:
        for number in dimension.join.half(dimension.side).origins:
            self.scans[number].unasked(why)
