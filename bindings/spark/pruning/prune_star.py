"""Star joins: decide which joins of a pruned DataFrame are worth a job, and filter its scans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from skipstone.bindings.filters.kinds import Needs, Side
from skipstone.bindings.spark.pruning.context import Context
from skipstone.bindings.spark.pruning.join_keys import job_errors, watches
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
from skipstone.bindings.spark.pruning.scans import FOREVER, Scan, validity_of
from skipstone.bindings.spark.session.jvm import frame_of
from skipstone.ir.errors import SkipstoneError, describe_error

THRESHOLD: Final = "32MiB"  # of a filter
MAX_KEYS: Final = 1_000_000  # distinct rows of keys that come to the driver
MAX_JOBS: Final = 16  # per DataFrame
SMALL_BYTES: Final = 1 << 20  # a build side of this size is used even without a condition on it
# The largest build side, as a share of the probe side's remaining bytes: it is read twice, so a
# larger one would cost more than it saves.
# Source: Spark, `spark.sql.optimizer.dynamicPartitionPruning.fallbackFilterRatio`.
MAX_SHARE: Final = 0.5

Above = tuple[tuple[int, Side], ...]


@dataclass(frozen=True, slots=True)
class BuildSide:
    """The side of a join that keys are taken from.

    Attributes:
        join: The join.
        side: The other side, which is pruned.
        above: Joins above whose keys filter this build side: dimensions of the dimension.
        sides: All sides that are read to collect the keys.
    """

    join: PlanJoin
    side: Side
    above: Above
    sides: tuple[JoinSide, ...]

    @property
    def scans(self) -> list[int]:
        """The numbers of the scans that are read."""
        return [number for join_side in self.sides for number in join_side.scans]


def star(context: Context, execution: Any, scans: list[Scan], jvm_scans: Any) -> None:
    """Filter the scans of a DataFrame by the keys of its own joins, where a Spark job pays off.

    The joins are those of the optimised plan, where conditions stand at their scans, and IN and
    EXISTS are joins. A filter leaves out only rows that its join drops, so the operators above see
    the same rows as before, and any number of filters may be combined.

    Args:
        context: What the scans share.
        execution: Spark's query execution.
        scans: The scans of its optimised plan, judged by their own conditions.
        jvm_scans: The same scans, as an object of Spark's JVM.
    """
    if not jvm_scans.joined():
        return
    expected: tuple[type[Exception], ...] = (SkipstoneError, *job_errors())
    try:
        _Star(
            context, execution, scans, Joins(context, execution.optimizedPlan(), jvm_scans)
        ).collect(expected)
    except expected as e:
        for scan in scans:
            scan.note_join(f"its joins cannot be read ({describe_error(e)})")


class _Star:
    """Collects keys from the build sides of one plan, and filters the scans of the other sides."""

    def __init__(self, context: Context, execution: Any, scans: list[Scan], joins: Joins) -> None:
        self.context, self.scans, self.joins = context, scans, joins
        self.analysed = execution.analyzed()
        self.jobs = 0
        self._watch_lists: dict[tuple[int, Side, Above], list[Any] | None] = {}

    def collect(self, expected: tuple[type[Exception], ...]) -> None:
        """Collect keys from one build side after the other, the cheapest first.

        Each filter may make another build side cheaper, because a filtered scan may itself be a
        build side.
        """
        pending = list(self._build_sides())
        while pending and self.jobs < MAX_JOBS:
            build = min(pending, key=self._cost)
            pending.remove(build)
            try:
                self._collect(build)
            except expected as e:
                why = f"the keys of a join cannot be collected ({describe_error(e)})"
                self._note_all(build, why)

    def _build_sides(self) -> Iterator[BuildSide]:
        for join in self.joins.each:
            for side in SIDES:
                if join.side_of(side).origins and join.needs(side) is not Needs.ALL:
                    join_side = join.side_of(OTHER[side])
                    # An anti join needs all keys of its build side.
                    above = (
                        tuple(self._above(join_side)) if join.needs(side) is Needs.MATCHED else ()
                    )
                    if above or join_side.filtered or self._nbytes(join_side) <= SMALL_BYTES:
                        yield BuildSide(
                            join,
                            side,
                            above,
                            (join_side, *(self.joins.each[n].side_of(OTHER[s]) for n, s in above)),
                        )

    def _above(self, join_side: JoinSide) -> Iterator[tuple[int, Side]]:
        for number, standing in join_side.above:
            join = self.joins.each[number]
            other = join.side_of(OTHER[standing])
            further = tuple(self._above(other))
            small = self._nbytes(other) <= max(SMALL_BYTES, self._nbytes(join_side))
            if (
                join.needs(standing) is Needs.MATCHED
                and small
                and (other.filtered or further)
                and self._watches(number, OTHER[standing], further) is not None
            ):
                yield number, standing
                yield from further

    def _nbytes(self, join_side: JoinSide) -> int:
        return join_side.others + sum(self.scans[n].nbytes for n in join_side.scans)

    def _cost(self, build: BuildSide) -> int:
        return sum(map(self._nbytes, build.sides))

    def _watches(self, number: int, side: Side, above: Above) -> list[Any] | None:
        key = number, side, above
        if key not in self._watch_lists:
            self._watch_lists[key] = watches(
                self.context.spark, self.joins.keys(*key), self.analysed
            )
        return self._watch_lists[key]

    def _collect(self, build: BuildSide) -> None:
        join, side = build.join, build.side
        worthwhile = [
            n
            for n in join.side_of(side).origins
            if self._pays(self.scans[n], join.side_of(side).origins[n], build)
        ]
        if not worthwhile:
            return
        watched = self._watches(join.number, OTHER[side], build.above)
        if watched is None:
            self._note_all(
                build, "the build side of a join may have other rows when it is computed again"
            )
            return
        keys = frame_of(self.context.spark, self._pruned_keys(build))
        targets = targets_of(join, side, worthwhile, self.scans, keys.schema, self.context)
        if not targets:
            return
        self.jobs += 1
        watched = [*watched, *(w for n in build.scans for w in self.scans[n].watches)]
        collector = Collector(keys, join, side, THRESHOLD, MAX_KEYS, self.context)
        for target in targets:
            dynamic_filter = collector.filter_of(target)
            target.scan.add_filter(dynamic_filter, session_of(self.context), watched, self.context)

    def _pays(self, scan: Scan, ids: Sequence[int], build: BuildSide) -> bool:
        """Return True if collecting the keys may cost less than reading the files they prune."""
        if not any(i in scan.columns for i in ids):
            return False
        if self._spark_prunes(scan, ids, build):
            if "Spark prunes" not in scan.report.why:
                scan.note_join("Spark prunes by partition columns itself")
            return False
        try:
            files, nbytes = scan.remaining(self.context)
        except (SkipstoneError, OSError) as e:
            scan.note_join(str(e))
            return False
        pays = self._cost(build) <= MAX_SHARE * nbytes
        if files > 1 and not pays:
            scan.note_join("the build side of a join is too large beside it")
        return files > 1 and pays

    def _spark_prunes(self, scan: Scan, ids: Sequence[int], build: BuildSide) -> bool:
        """Return True if Spark's dynamic partition pruning does the same.

        That is so if the keys are partition columns, and Spark broadcasts the build side or prunes
        without a broadcast.
        """
        if not {scan.columns[i] for i in ids if i in scan.columns} <= scan.partitioned:
            return False
        limit = self.context.spark._jsparkSession.sessionState().conf().autoBroadcastJoinThreshold()
        broadcast = build.join.side_of(OTHER[build.side]).size <= limit
        return any(key in ids and (broadcast or not only) for key, only in scan.dynamic)

    def _pruned_keys(self, build: BuildSide) -> Any:
        """Return the plan of the keys, reading only the remaining files of its scans."""
        plan = self.joins.keys(build.join.number, OTHER[build.side], build.above)
        scans = [self.scans[n] for n in build.scans]
        indexes: dict[str, Any] = {}
        for scan in scans:
            if scan.pruned and sum(bool(scan.ids & other.ids) for other in scans) == 1:
                indexes |= dict.fromkeys(
                    map(str, scan.ids),
                    scan.without(scan.index, (), validity_of(self.context.gateway, FOREVER, ())),
                )
        return self.context.gateway.replaced(plan, indexes) if indexes else plan

    def _note_all(self, build: BuildSide, why: str) -> None:
        for number in build.join.side_of(build.side).origins:
            self.scans[number].note_join(why)
