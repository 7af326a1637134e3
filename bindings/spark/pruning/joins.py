"""The joins of Spark's plans: which columns of scans are compared with which keys, and filters of these."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from skipstone.bindings.filters.filter import DynamicFilter
from skipstone.bindings.filters.keys import compared_in, keeps_values
from skipstone.bindings.filters.kinds import Needs, Side, kind_of, needs_of
from skipstone.bindings.spark.pruning.join_keys import collated, collected
from skipstone.bindings.spark.pruning.scans import Context, Scan
from skipstone.bindings.spark.session.catalyst import casts_of
from skipstone.bindings.spark.session.jvm import joins_of
from skipstone.bindings.spark.session.types import as_arrow
from skipstone.ir.coerce import in_spark
from skipstone.ir.errors import DynamicFilterError
from skipstone.ir.session import Incomparable, Session
from skipstone.ir.types import DType, from_arrow

if TYPE_CHECKING:
    from skipstone.bindings.filters.data import DynamicFilterData

SIDES: Final[tuple[Side, Side]] = ("left", "right")
OTHER: Final[dict[Side, Side]] = {"left": "right", "right": "left"}


@dataclass(frozen=True, slots=True)
class JoinSide:
    """One side of a join.

    Attributes:
        origins: Scans that keys come from, by number, each with the ids of its columns key by key; -1 is none.
        scans: The numbers of all scans that its rows are made of.
        others: Bytes that are read beside these, as Spark takes them to be.
        size: Bytes of its rows, as Spark takes them to be.
        filtered: Whether a condition stands on it that somebody wrote.
        above: Joins above whose keys come from this side too, by number, each with the side of it that this one stands on.
    """

    origins: dict[int, list[int]]
    scans: range
    others: int
    size: int
    filtered: bool
    above: tuple[tuple[int, Side], ...]


@dataclass(frozen=True, slots=True)
class PlanJoin:
    """A join of a plan by equal keys.

    Attributes:
        number: Among the joins of the plan, from the top down.
        kind: As `kind_of` names it; "" is one that is not known.
        all: Whether it asks for nothing but equal keys.
        keys: What is compared, as trees for each side, and whether NULL equals NULL.
        left, right: Its sides.
    """

    number: int
    kind: str
    all: bool
    keys: list[Any]
    left: JoinSide
    right: JoinSide

    def half(self, side: Side) -> JoinSide:
        """One of its sides."""
        return self.left if side == "left" else self.right

    def needs(self, side: Side) -> Needs:
        """Which rows of a side it needs."""
        return needs_of(self.kind, side) if self.kind else Needs.ALL


@dataclass(frozen=True, slots=True)
class Target:
    """A scan that keys of a join come from: which of them are which of its columns."""

    scan: Scan
    fields: dict[int, pa.Field]


class Joins:
    """The joins of one plan, by number, and the rows of their keys."""

    def __init__(self, context: Context, plan: Any, made: Any) -> None:
        self._spark, self._made = context.spark, joins_of(context.spark).joins(plan, made)
        self.each = [_join(i, told) for i, told in enumerate(json.loads(self._made.text()))]

    def keys(self, number: int, side: Side, above: Sequence[tuple[int, Side]] = ()) -> Any:
        """A plan of the keys on one side of a join, named by their numbers.

        Args:
            number: Which join.
            side: Which side of it.
            above: Joins above it, each with the side that this one stands on: rows that they have no use for are left out.
        """
        given = self._spark._jvm.java.util.ArrayList()
        for join, standing in above:
            given.add(f"{join} {standing}")
        return self._made.of(number, side == "left", given)


def _join(number: int, told: Any) -> PlanJoin:
    return PlanJoin(
        number,
        _kind(told["how"]),
        told["all"],
        told["keys"],
        _half(told["left"]),
        _half(told["right"]),
    )


def _kind(how: str) -> str:
    try:
        return "inner" if how == "CROSS" else kind_of(how)
    except DynamicFilterError:
        return ""


def _half(told: Any) -> JoinSide:
    above = tuple((a["join"], SIDES[not a["left"]]) for a in told["above"])
    origins = {o["scan"]: o["ids"] for o in told["scans"]}
    return JoinSide(
        origins,
        range(told["first"], told["last"]),
        told["others"],
        told["size"],
        told["filtered"],
        above,
    )


def targets_of(
    join: PlanJoin,
    side: Side,
    numbers: Iterable[int],
    scans: Sequence[Scan],
    keys: Any,
    context: Context,
) -> list[Target]:
    """The scans on one side of a join whose columns are compared with keys of the other as a dynamic filter compares them.

    Args:
        join: One of the plan's.
        side: Where the scans stand.
        numbers: Which of the side's origins to look at.
        scans: Those of the plan.
        keys: The schema of the other side's keys, as PySpark has it.
        context: What the scans have in common.
    """
    found = (
        _target(join, side, scans[number], join.half(side).origins[number], keys, context)
        for number in numbers
    )
    return [target for target in found if target is not None]


def _target(
    join: PlanJoin, side: Side, scan: Scan, ids: Sequence[int], keys: Any, context: Context
) -> Target | None:
    names, schema, kinds = scan.columns, scan.schema, as_arrow(keys)
    fields: dict[int, pa.Field] = {}
    for i, column in enumerate(ids):
        if column in names and not collated(keys[i]):
            field = schema.field(names[column])
            if _compares(
                field,
                casts_of(join.keys[i][side], context.settings),
                from_arrow(kinds.field(i).type),
                context,
            ):
                fields[i] = field
    # A row has a partner for certain if all that the join asks is among the keys.
    whole = join.all and len(fields) == len(join.keys)
    return Target(scan, fields) if fields and (whole or join.needs(side) is Needs.MATCHED) else None


class Collector:
    """Collects the keys of one side of a join, once for columns of the same names and types.

    Args:
        keys: A DataFrame of the keys, named by their numbers.
        join: The join.
        side: Where the scans stand that keys are compared with.
        threshold: Bytes of a filter, as for `DynamicFilterCollector`.
        most: Distinct rows that come to the driver.
        context: What the scans have in common.
    """

    def __init__(
        self,
        keys: Any,
        join: PlanJoin,
        side: Side,
        threshold: str | int | None,
        most: int,
        context: Context,
    ) -> None:
        self._keys, self._join, self._side = keys, join, side
        self._threshold, self._most, self._context = threshold, most, context
        self._known: dict[bytes, DynamicFilterData] = {}

    def filter_of(self, target: Target) -> DynamicFilter:
        """What the keys say of a scan."""
        of = pa.schema([f.with_name(str(i)) for i, f in target.fields.items()])
        key = of.serialize().to_pybytes()
        if key not in self._known:
            safe = [str(i) for i in target.fields if self._join.keys[i]["null_safe"]]
            self._known[key] = collected(
                self._keys.select(*of.names),
                of,
                safe,
                self._threshold,
                self._most,
                self._context.settings,
            )
        columns = {str(i): f.name for i, f in target.fields.items()}
        return DynamicFilter(
            self._known[key], columns=columns, how=self._join.kind, side=self._side
        )


def session_of(context: Context) -> Session:
    """Names are Spark's own, resolved already."""
    return Session(context.settings["timezone"], context.settings["ansi"], case_sensitive=True)


def _compares(
    field: pa.Field, casts: list[DType | None] | None, key: DType, context: Context
) -> bool:
    """Whether what a column is cast to before it is compared with a key is what a join of the two compares them in, and no value is changed before."""
    if casts is None or None in casts:
        return False
    own = in_spark(from_arrow(field.type))
    session = session_of(context)
    try:
        return all(
            compared_in(own, to, session) == to and (to == key or keeps_values(own, to))
            for to in (*casts, key)
            if to is not None
        )
    except Incomparable:
        return False
