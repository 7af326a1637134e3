"""Star joins: decide which joins of a pruned DataFrame are worth a job, and filter its scans."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from skipstone.bindings.filters.kinds import Needs, Side
from skipstone.bindings.spark.pruning.build_rows import key_columns, read_keys
from skipstone.bindings.spark.pruning.context import Context
from skipstone.bindings.spark.pruning.cost import (
    LOCAL,
    READ_SECONDS,
    REMAINING_SHARE,
    Costs,
    JoinSavings,
)
from skipstone.bindings.spark.pruning.join_keys import job_errors, watches
from skipstone.bindings.spark.pruning.joins import (
    OTHER,
    SIDES,
    Collector,
    Joins,
    JoinSide,
    PlanJoin,
    kinds_of,
    session_of,
    targets_of,
)
from skipstone.bindings.spark.pruning.plan_scans import validity_of
from skipstone.bindings.spark.pruning.scans import FOREVER, Scan
from skipstone.bindings.spark.session.jvm import frame_of
from skipstone.ir.errors import SkipstoneError, describe_error

THRESHOLD: Final = "32MiB"  # the greatest size of a filter
MAX_KEYS: Final = 1_000_000  # the distinct keys that may come to the driver
MAX_JOBS: Final = 16  # Spark jobs per DataFrame
SMALL_BYTES: Final = 1 << 20  # a build side of this size is used even without a condition on it
# The largest build side, as a share of the probe side's remaining bytes: it is read twice, so a
# larger one would cost more than it saves.
# Source: Spark, `spark.sql.optimizer.dynamicPartitionPruning.fallbackFilterRatio`.
MAX_SHARE: Final = 0.5

# Collect wherever keys may save anything: the user asked for it, and may run the plan many times.
ANY_SAVING: Final = Costs(LOCAL[0], 1 / LOCAL[1], ratio=0.0)
_savings_of_joins: Final = JoinSavings()

Above = tuple[tuple[int, Side], ...]


@dataclass(frozen=True, slots=True)
class KeySource:
    """The side of a join that keys are taken from.

    Attributes:
        join: The join.
        side: The other side, which is pruned.
        above: Joins above whose keys filter this build side, as if it were a probe side.
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


def filter_scans_by_joins(
    context: Context,
    plan: Any,
    analysed: Any,
    scans: list[Scan],
    jvm_scans: Any,
    costs: Costs = ANY_SAVING,
    is_abandoned: Callable[[], bool] = lambda: False,
) -> None:
    """Filter the scans of a DataFrame by the keys of its own joins, where a Spark job pays off.

    The joins are those of the optimised plan, where conditions are directly above their scans, and
    IN and EXISTS are joins. A filter leaves out only rows that its join drops, so the operators
    above see the same rows as before, and any number of filters may be combined.

    Args:
        context: The settings that the scans share.
        plan: The optimised plan.
        analysed: The plan that it was made from.
        scans: The scans of the optimised plan, judged by their own conditions.
        jvm_scans: The same scans, as an object of Spark's JVM.
        costs: The costs of reading and of a job.
        is_abandoned: Returns True once the caller no longer waits for the answer.
    """
    if not jvm_scans.joined():
        return
    expected: tuple[type[Exception], ...] = (SkipstoneError, *job_errors())
    try:
        joins = Joins(context, plan, jvm_scans)
        pruner = _JoinPruner(context, analysed, scans, jvm_scans, joins, costs)
        pruner.collect(expected, is_abandoned)
    except expected as e:
        for scan in scans:
            scan.note_join(f"its joins cannot be read ({describe_error(e)})")


class _JoinPruner:
    """Collects keys from the build sides of one plan, and filters the scans of the other sides."""

    def __init__(
        self,
        context: Context,
        analysed: Any,
        scans: list[Scan],
        jvm_scans: Any,
        joins: Joins,
        costs: Costs,
    ) -> None:
        self.context, self.analysed, self.scans, self.joins = context, analysed, scans, joins
        self.jvm_scans, self.costs = jvm_scans, costs
        self.jobs = 0
        self._watch_lists: dict[tuple[int, Side, Above], list[Any] | None] = {}

    def collect(
        self, expected: tuple[type[Exception], ...], is_abandoned: Callable[[], bool]
    ) -> None:
        """Collect keys from one build side after the other, the cheapest first.

        Each filter may make another build side cheaper, because a filtered scan may itself be a
        build side.
        """
        if not any(self._remaining_files(scan) > 1 for scan in self.scans):
            return
        pending = list(self._build_sides())
        while pending and self.jobs < MAX_JOBS and not is_abandoned():
            build = min(pending, key=self._cost)
            pending.remove(build)
            try:
                self._collect(build)
            except expected as e:
                why = f"the keys of a join cannot be collected ({describe_error(e)})"
                self._note_all(build, why)

    def _remaining_files(self, scan: Scan) -> int:
        try:
            return scan.remaining(self.context)[0]
        except (SkipstoneError, OSError):
            return 0

    def _build_sides(self) -> Iterator[KeySource]:
        for join in self.joins.each:
            for side in SIDES:
                if join.side_of(side).origins and join.needs(side) is not Needs.ALL:
                    join_side = join.side_of(OTHER[side])
                    # An anti join needs all keys of its build side.
                    above = (
                        tuple(self._above(join_side, set()))
                        if join.needs(side) is Needs.MATCHED
                        else ()
                    )
                    if above or join_side.filtered or self._nbytes(join_side) <= SMALL_BYTES:
                        yield KeySource(
                            join,
                            side,
                            above,
                            (join_side, *(self.joins.each[n].side_of(OTHER[s]) for n, s in above)),
                        )

    def _above(self, join_side: JoinSide, seen: set[int]) -> Iterator[tuple[int, Side]]:
        """Yield the joins above whose keys filter a side, without those in `seen`.

        If many tables are joined by one key, many paths lead to each join: twice as many with each
        further table.
        """
        for number, standing in join_side.above:
            if number in seen:
                continue
            seen.add(number)
            join = self.joins.each[number]
            other = join.side_of(OTHER[standing])
            further = tuple(self._above(other, seen))
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

    def _cost(self, build: KeySource) -> int:
        return sum(map(self._nbytes, build.sides))

    def _watches(self, number: int, side: Side, above: Above) -> list[Any] | None:
        key = number, side, above
        if key not in self._watch_lists:
            self._watch_lists[key] = watches(
                self.context.spark, self.joins.keys(*key), self.analysed
            )
        return self._watch_lists[key]

    def _collect(self, build: KeySource) -> None:
        join, side = build.join, build.side
        origins = join.side_of(side).origins
        savings = {n: self._saving(self.scans[n], origins[n], build) for n in origins}
        worthwhile = [n for n, seconds in savings.items() if seconds > 0]
        if not worthwhile:
            return
        columns = None if build.above else key_columns(join, side, self.scans, self.context)
        expected = sum(savings.values())
        if not self._pays(build, expected, is_job=columns is None):
            return
        watched = self._watches(join.number, OTHER[side], build.above)
        if watched is None:
            self._note_all(
                build, "the build side of a join may have other rows when it is computed again"
            )
            return
        found = self._keys(build, columns, expected)
        if found is None:
            return
        keys, kinds = found
        targets = targets_of(join, side, worthwhile, self.scans, kinds, self.context)
        if not targets:
            return
        sources = [self.scans[n] for n in build.scans]
        watched = [*watched, *(w for one in sources for w in (one.settings, *one.watches))]
        collector = Collector(keys, join, side, THRESHOLD, MAX_KEYS, self.context)
        for target in targets:
            before = self._seconds_of(target.scan)
            dynamic_filter = collector.filter_of(target)
            target.scan.add_filter(dynamic_filter, session_of(self.context), watched, self.context)
            saved = before - self._seconds_of(target.scan)
            number = target.scan.number
            _savings_of_joins.add(
                self._known_as(target.scan, origins[number], build), savings[number], saved
            )

    def _pays(self, build: KeySource, expected: float, *, is_job: bool) -> bool:
        """Return True if collecting keys is likely to save more seconds than it takes."""
        files = sum(self.scans[n].files for n in build.scans)
        reading = self.costs.scan(files, self._cost(build))
        spent = reading + (self.costs.job if is_job else READ_SECONDS)
        pays = self.costs.pays(expected, spent)
        if not pays:
            self._note_all(
                build,
                "the keys of a join are likely to save less than they cost "
                f"({expected:.2f} s, {spent:.2f} s)",
            )
        return pays

    def _keys(
        self, build: KeySource, columns: list[str] | None, expected: float
    ) -> tuple[Any, list[pa.DataType | None]] | None:
        """Return the keys, as rows or as a DataFrame that a Spark job computes, and their types.

        None: only a job could, and would cost more than it is expected to save.
        """
        if columns is not None:
            scan = self.scans[build.scans[0]]
            rows = read_keys(scan, columns, self.context)
            if rows is not None:
                return rows, [scan.schema.field(name).type for name in columns]
            if not self._pays(build, expected, is_job=True):
                return None
        self.jobs += 1
        frame = frame_of(self.context.spark, self._pruned_keys(build))
        return frame, kinds_of(frame)

    def _seconds_of(self, scan: Scan) -> float:
        """Return the seconds that Spark is likely to take to read what remains of a scan."""
        files, nbytes = scan.remaining(self.context)
        return self.costs.scan(files, nbytes * scan.share_read)

    def _known_as(self, scan: Scan, ids: Sequence[int], build: KeySource) -> Hashable:
        names = tuple(scan.columns.get(i) for i in ids)
        return tuple(scan.roots), names, tuple(r for n in build.scans for r in self.scans[n].roots)

    def _saving(self, scan: Scan, ids: Sequence[int], build: KeySource) -> float:
        """Return the seconds that the keys are likely to save Spark in reading a scan."""
        names = [scan.columns[i] for i in ids if i in scan.columns]
        if not names:
            return 0.0
        if self._spark_prunes(scan, ids, build):
            if "Spark prunes" not in scan.report.why:
                scan.note_join("Spark prunes by partition columns itself")
            return 0.0
        try:
            files, nbytes = scan.remaining(self.context)
        except (SkipstoneError, OSError) as e:
            scan.note_join(str(e))
            return 0.0
        if files < 2:
            return 0.0
        if self._cost(build) > MAX_SHARE * nbytes:
            scan.note_join("the build side of a join is too large compared with it")
            return 0.0
        if build.join.needs(build.side) is Needs.UNMATCHED:
            # Each key takes about a byte or more, so there are hardly more keys than bytes.
            keys = self._cost(build)
            apart = min(scan.coverable(name, keys) for name in names)
            why = "every file has more values than an anti join has keys"
        else:
            apart = 1 - min(scan.spread(name) for name in names)
            why = "every file may hold any key of a join"
        if apart <= 0:
            scan.note_join(why)
        share = (
            apart
            * (1 - REMAINING_SHARE)
            * _savings_of_joins.share(self._known_as(scan, ids, build))
        )
        return share * self._seconds_of(scan)

    def _spark_prunes(self, scan: Scan, ids: Sequence[int], build: KeySource) -> bool:
        """Return True if Spark's dynamic partition pruning does the same.

        That is so if the keys are partition columns, and Spark broadcasts the build side or prunes
        without a broadcast.
        """
        if not {scan.columns[i] for i in ids if i in scan.columns} <= scan.partitioned:
            return False
        limit = self.context.spark._jsparkSession.sessionState().conf().autoBroadcastJoinThreshold()
        broadcast = build.join.side_of(OTHER[build.side]).size <= limit
        return any(key in ids and (broadcast or not only) for key, only in scan.dynamic)

    def _pruned_keys(self, build: KeySource) -> Any:
        """Return the plan of the keys, reading only the remaining files of its scans."""
        plan = self.joins.keys(build.join.number, OTHER[build.side], build.above)
        scans = [self.scans[n] for n in build.scans]
        indexes: dict[int, Any] = {}
        for scan in scans:
            if scan.pruned and sum(bool(scan.ids & other.ids) for other in scans) == 1:
                validity = validity_of(self.context.gateway, FOREVER, ())
                indexes[scan.number] = scan.without(scan.index, (), validity)
        return self.context.gateway.replaced(plan, self.jvm_scans, indexes) if indexes else plan

    def _note_all(self, build: KeySource, why: str) -> None:
        for number in build.join.side_of(build.side).origins:
            self.scans[number].note_join(why)
