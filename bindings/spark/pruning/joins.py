"""The equi-joins of Spark's plans: which scan columns they compare with keys, and their filters."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from skipstone.bindings.filters.filter import DynamicFilter
from skipstone.bindings.filters.keys import compared_in, keeps_values
from skipstone.bindings.filters.kinds import Needs, Side, kind_of, needs_of
from skipstone.bindings.spark.pruning.catalyst import casts_of
from skipstone.bindings.spark.pruning.context import Context
from skipstone.bindings.spark.pruning.join_keys import collect_keys, is_collated
from skipstone.bindings.spark.pruning.scans import Scan
from skipstone.bindings.spark.session.jvm import text_of
from skipstone.bindings.spark.session.types import as_arrow
from skipstone.ir.coercion.coerce import in_spark
from skipstone.ir.errors import DynamicFilterError
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import DType, from_arrow

if TYPE_CHECKING:
    from skipstone.bindings.filters.data import DynamicFilterData

SIDES: Final[tuple[Side, Side]] = ("left", "right")
OTHER: Final[dict[Side, Side]] = {"left": "right", "right": "left"}


@dataclass(frozen=True, slots=True)
class JoinSide:
    """One side of a join.

    Attributes:
        origins: Scans that keys come from, by number, each with the ids of its columns, key by key;
            -1 if a key does not come from it.
        scans: The numbers of all scans that its rows are made of.
        others: Bytes read from other sources, by Spark's estimate.
        size: Bytes of its rows, by Spark's estimate.
        filtered: True if the user's query has a condition on it.
        plain: True if its rows are those of one scan under conditions.
        above: Joins above whose keys also come from this side, by number, each with the side of it
            that contains this join.
    """

    origins: dict[int, list[int]]
    scans: range
    others: int
    size: int
    filtered: bool
    plain: bool
    above: tuple[tuple[int, Side], ...]


@dataclass(frozen=True, slots=True)
class PlanJoin:
    """A join of a plan by equal keys.

    Attributes:
        number: Its position among the joins of the plan, from the top down.
        kind: As `kind_of` names it; "" if unknown.
        all: True if equal keys are its only condition.
        keys: The compared expressions, as trees for each side, and whether NULL equals NULL.
        left, right: Its sides.
    """

    number: int
    kind: str
    all: bool
    keys: list[Any]
    left: JoinSide
    right: JoinSide

    def side_of(self, side: Side) -> JoinSide:
        """Return one of its sides."""
        return self.left if side == "left" else self.right

    def needs(self, side: Side) -> Needs:
        """Return which rows of a side the join needs."""
        return needs_of(self.kind, side) if self.kind else Needs.ALL


@dataclass(frozen=True, slots=True)
class Target:
    """A scan to be filtered by a join's keys, with its columns by key number."""

    scan: Scan
    fields: dict[int, pa.Field]


class Joins:
    """The joins of one plan, by number."""

    def __init__(self, context: Context, plan: Any, jvm_scans: Any) -> None:
        self._jvm_joins = context.gateway.joins(plan, jvm_scans)
        infos = json.loads(text_of(self._jvm_joins.text()))
        self.each = [_join(i, info) for i, info in enumerate(infos)]

    def keys(self, number: int, side: Side, above: Sequence[tuple[int, Side]] = ()) -> Any:
        """Return a plan of the keys on one side of a join, with columns named by the keys' numbers.

        Args:
            number: Which join.
            side: Which side of it.
            above: Joins above it, each with the side that contains this one. Rows that these joins
                do not need are left out.
        """
        outer = ",".join(f"{join} {standing}" for join, standing in above)
        return self._jvm_joins.of(number, side == "left", outer)


def _join(number: int, info: Any) -> PlanJoin:
    return PlanJoin(
        number,
        _kind(info["how"]),
        info["all"],
        info["keys"],
        _join_side(info["left"]),
        _join_side(info["right"]),
    )


def _kind(how: str) -> str:
    try:
        return "inner" if how == "CROSS" else kind_of(how)
    except DynamicFilterError:
        return ""


def _join_side(info: Any) -> JoinSide:
    above = tuple((a["join"], SIDES[not a["left"]]) for a in info["above"])
    origins = {o["scan"]: o["ids"] for o in info["scans"]}
    return JoinSide(
        origins,
        range(info["first"], info["last"]),
        info["others"],
        info["size"],
        info["filtered"],
        info["plain"],
        above,
    )


def targets_of(
    join: PlanJoin,
    side: Side,
    numbers: Iterable[int],
    scans: Sequence[Scan],
    kinds: Sequence[pa.DataType | None],
    context: Context,
) -> list[Target]:
    """Return the scans on one side of a join that its keys can prune.

    A dynamic filter must compare their columns with the keys exactly as Spark does.

    Args:
        join: A join of the plan.
        side: The side of the scans.
        numbers: The side's origins to examine.
        scans: The scans of the plan.
        kinds: The types of the other side's keys; None if a collation compares them.
        context: The settings that the scans share.
    """
    found = (
        _target(join, side, scans[number], join.side_of(side).origins[number], kinds, context)
        for number in numbers
    )
    return [target for target in found if target is not None]


def _target(
    join: PlanJoin,
    side: Side,
    scan: Scan,
    ids: Sequence[int],
    kinds: Sequence[pa.DataType | None],
    context: Context,
) -> Target | None:
    names, schema = scan.columns, scan.schema
    fields: dict[int, pa.Field] = {}
    for i, (column, kind) in enumerate(zip(ids, kinds, strict=True)):
        if column in names and kind is not None:
            field = schema.field(names[column])
            if _compared_alike(
                field,
                casts_of(join.keys[i][side], context.settings),
                from_arrow(kind),
                context,
            ):
                fields[i] = field
    # A row certainly has a match only if the keys cover the join's whole condition.
    whole = join.all and len(fields) == len(join.keys)
    return Target(scan, fields) if fields and (whole or join.needs(side) is Needs.MATCHED) else None


def kinds_of(keys: Any) -> list[pa.DataType | None]:
    """Return the types of a DataFrame's columns; None for strings that a collation compares."""
    schema = keys.schema
    return [
        None if is_collated(f) else kind
        for f, kind in zip(schema, as_arrow(schema).types, strict=True)
    ]


class Collector:
    """Collects the keys of one side of a join, once for columns of the same names and types.

    Args:
        keys: The keys, with columns named by their numbers: a DataFrame, whose keys a Spark job
            collects, or an Arrow table.
        join: The join.
        side: The side of the scans that the keys are compared with.
        threshold: Size of a filter in bytes, as for `DynamicFilterCollector`.
        max_rows: Distinct rows that come to the driver.
        context: The settings that the scans share.
    """

    def __init__(
        self,
        keys: Any,
        join: PlanJoin,
        side: Side,
        threshold: str | int | None,
        max_rows: int,
        context: Context,
    ) -> None:
        self._keys, self._join, self._side = keys, join, side
        self._threshold, self._max_rows, self._context = threshold, max_rows, context
        self._collected: dict[bytes, DynamicFilterData] = {}

    def filter_of(self, target: Target) -> DynamicFilter:
        """Return the dynamic filter of the keys for a scan."""
        columns = pa.schema([f.with_name(str(i)) for i, f in target.fields.items()])
        key = columns.serialize().to_pybytes()
        if key not in self._collected:
            safe = [str(i) for i in target.fields if self._join.keys[i]["null_safe"]]
            self._collected[key] = collect_keys(
                self._keys.select(list(columns.names)),
                columns,
                safe,
                self._threshold,
                self._max_rows,
                self._context.settings,
            )
        names = {str(i): f.name for i, f in target.fields.items()}
        return DynamicFilter(
            self._collected[key], columns=names, how=self._join.kind, side=self._side
        )


def session_of(context: Context) -> Session:
    """Return a session for names that Spark has resolved already."""
    return Session(context.settings["timezone"], context.settings["ansi"], case_sensitive=True)


def _compared_alike(
    field: pa.Field, casts: list[DType | None] | None, key: DType, context: Context
) -> bool:
    """Return True if a dynamic filter compares a column with a key as Spark does.

    Both must use the type that Spark casts the column to, and no cast before that may change a
    value.
    """
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
    except CannotJudge:
        return False
