"""DynamicFilterData: the keys of a join's build side, once all of them are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from skipstone.bindings.filters.domain import Domain
from skipstone.bindings.filters.keys import Mask, array_of, axis_of, keyed
from skipstone.bindings.filters.rows import noted, table_of
from skipstone.bindings.filters.state import CollectedKeys, union
from skipstone.bindings.filters.tuples import Tuples, within
from skipstone.bindings.predicates.expr import Expr, col
from skipstone.ir.cached import cached_property
from skipstone.ir.coerce import in_spark
from skipstone.ir.errors import DynamicFilterError
from skipstone.ir.node import Node, Op, literal
from skipstone.ir.session import Incomparable, Session
from skipstone.ir.simplify import FALSE, TRUE
from skipstone.ir.types import DType, from_arrow

if TYPE_CHECKING:
    from skipstone.bindings.predicates.predicate import PruningPredicate

NAN_VALUE: Final = float("nan")
SHOWN: Final = 64  # ranges that a predicate spells out


@dataclass(frozen=True, slots=True)
class Fields:
    """The key columns of a filter, and how they are compared."""

    names: tuple[str, ...]
    fields: tuple[pa.Field, ...]
    null_safe: frozenset[str]
    session: Session

    @property
    def dtypes(self) -> tuple[DType, ...]:
        """What Spark takes the columns for that keys are compared with."""
        return tuple(noted(f) or in_spark(from_arrow(f.type)) for f in self.fields)


class DynamicFilterData:
    """Which keys the build side of a join has: a value, immutable, that pickles, prints, merges, and is equal for equal keys.

    Attributes:
        fields: Names of the key columns, in order.
        rows_seen: Rows that it was made from.
        seconds: From the first row to the last, wall clock.

    Source: Flink FLIP-248, `DynamicFilteringData`.
    """

    def __init__(
        self, fields: Fields, state: CollectedKeys, rows_seen: int = 0, seconds: float = 0.0
    ) -> None:
        self._fields, self.state = fields, state
        self.fields = fields.names
        self.rows_seen, self.seconds = rows_seen, seconds
        self.predicates: dict[Any, PruningPredicate] = {}  # kept by who judges containers
        self._parts: dict[tuple[str, ...], DynamicFilterData] = {}

    # What it is.

    @property
    def filtering(self) -> bool:
        """Whether it can keep anything out: not where there are no key columns, the threshold was exceeded by too much, or keys cannot be compared."""
        return bool(self.fields) and (
            self.state.rows is not None or any(d.kind != "all" for d in self.state.domains)
        )

    @property
    def exact(self) -> bool:
        """Whether it holds each distinct row, so that it also says which rows certainly have a match."""
        return bool(self.fields) and self.state.rows is not None

    @property
    def empty(self) -> bool:
        """Whether the build side has no row at all, not even one with NULL."""
        return not self.state.seen

    @property
    def row_type(self) -> pa.Schema:
        """Names and types of the keys, as they are compared.

        Source: Flink FLIP-248, `getRowType`.
        """
        return pa.schema(
            [pa.field(f.name, self._type(i)) for i, f in enumerate(self._fields.fields)]
        )

    def _type(self, i: int) -> pa.DataType:
        if (
            self.state.dtypes[i] == from_arrow(self._fields.fields[i].type)
            or not self.state.dtypes[i].ordered
        ):
            return self._fields.fields[i].type
        return array_of(pa.nulls(0, pa.int64()), self.state.dtypes[i]).type

    @cached_property
    def data(self) -> pa.Table | None:
        """The distinct keys, ascending; None where there were too many, so that nothing, or less, is filtered.

        Source: Flink FLIP-248, `getData`.
        """
        if not self.exact:
            return None
        rows = self.state.ordered()
        columns = [
            _typed(rows.column(i).combine_chunks(), t, self._type(i))
            for i, t in enumerate(self.state.dtypes)
        ]
        return pa.table(columns, names=list(self.fields))

    @property
    def num_rows(self) -> int | None:
        """Distinct keys; None where there were too many."""
        return None if self.state.rows is None else self.state.rows.num_rows

    @property
    def nbytes(self) -> int:
        """Bytes of the distinct keys, or of what is left of them."""
        return self.state.nbytes

    @cached_property
    def domains(self) -> tuple[Domain, ...]:
        """What is known of each key column by itself."""
        return tuple(self.state.of_column(i) for i in range(len(self.fields)))

    @cached_property
    def tuples(self) -> Tuples:
        """The distinct rows, by rank."""
        rows = self.state.rows
        assert rows is not None
        return Tuples.of(
            [rows.column(i).combine_chunks() for i in range(rows.num_columns)], self.state.dtypes
        )

    @cached_property
    def fingerprint(self) -> str:
        """Equal for equal keys, in whatever order and batches they came."""
        return self.state.fingerprint()

    @property
    def declared(self) -> tuple[DType, ...]:
        """The types of the columns that the keys were collected for."""
        return self._fields.dtypes

    @property
    def session(self) -> Session:
        """Spark's settings that keys were compared under."""
        return self._fields.session

    @property
    def null_safe(self) -> frozenset[str]:
        """The keys that are compared by `<=>`."""
        return self._fields.null_safe

    def only(self, names: tuple[str, ...]) -> DynamicFilterData:
        """Return what is known of some of the key columns alone: each row with a match has one by
        these, too.
        """
        if names not in self._parts:
            at = [self.fields.index(name) for name in names]
            of = self._fields
            fields = Fields(
                names, tuple(of.fields[i] for i in at), of.null_safe & {*names}, of.session
            )
            self._parts[names] = DynamicFilterData(
                fields, self.state.only(at), self.rows_seen, self.seconds
            )
        return self._parts[names]

    # What it says of rows.

    def contains(self, rows: Any) -> Mask:
        """Return which rows may have a match; `matched` says which rows certainly have one.

        Args:
            rows: n rows: Arrow, pandas or Polars, with the key columns alone, in the filter's order, whatever their names; or a
                list of tuples, of Python values.

        Returns:
            bool array, shape (n,). All True if the filter filters nothing, or if the rows cannot
            be compared with its keys:
            Spark refuses the types, or raises an error for one of the values.

        Raises:
            DynamicFilterError: the filter is active, and rows have more or fewer columns than it has.

        Source: Flink FLIP-248, `contains`.
        """
        if not self.filtering:
            return np.ones(_count(rows), np.bool_)
        columns = self._columns(rows)
        found = self._member(columns)
        return np.ones(len(columns[0]), np.bool_) if found is None else found

    def matched(self, rows: Any) -> Mask | None:
        """Return exactly which rows have a match; None if the filter is not exact or cannot
        compare these rows.

        Only this may be negated: rows that `contains` is not sure of are True there.
        """
        return self._member(self._columns(rows)) if self.exact else None

    def _member(self, columns: list[pa.ChunkedArray]) -> Mask | None:
        """Return which rows are among what is kept of the keys; None if the two cannot be
        compared.
        """
        try:
            found = [
                keyed(c, t, self.session) for c, t in zip(columns, self.state.dtypes, strict=True)
            ]
        except Incomparable:
            return None
        if any(k.dtype != t for k, t in zip(found, self.state.dtypes, strict=True)):
            return None  # rows of a type that keys are not comparable in
        lanes = [k.lanes for k in found]
        if self.state.rows is not None:
            out = self.tuples.member(lanes)
        else:
            out = np.logical_and.reduce(
                [
                    within(lane, d, t)
                    for lane, d, t in zip(lanes, self.domains, self.state.dtypes, strict=True)
                ]
            )
        for name, key in zip(self.fields, found, strict=True):
            if key.possible is not None:
                out &= key.possible
            if key.null is not None and name not in self.null_safe:
                out &= ~key.null
        return out

    def _columns(self, rows: Any) -> list[pa.ChunkedArray]:
        if isinstance(rows, list | tuple):
            wrong = next(
                (r for r in rows if not isinstance(r, list | tuple) or len(r) != len(self.fields)),
                None,
            )
            if wrong is not None:
                raise DynamicFilterError(
                    f"contains was asked of {wrong!r}; expected tuples of ({', '.join(self.fields)})"
                )
            given = [[r[i] for r in rows] for i in range(len(self.fields))]
            return [
                pa.chunked_array([_python(v, f.type)])
                for v, f in zip(given, self._fields.fields, strict=True)
            ]
        table = table_of(rows)
        if table.num_columns != len(self.fields):
            raise DynamicFilterError(
                f"contains was asked of rows with the columns ({', '.join(table.column_names)}); expected ({', '.join(self.fields)})"
            )
        return list(table.columns)

    @property
    def spelled(self) -> bool:
        """Return True if `to_predicate` holds of exactly the rows that have a match, so that it
        may be negated.
        """
        return self.exact and len(self.fields) == 1 and self.state.dtypes[0].ordered

    def to_predicate(self, mapping: Mapping[str, str] | None = None) -> Expr:
        """Return a condition that every row with a match fulfils, and no other row if `spelled` is
        True.

        Args:
            mapping: Names of keys -> names of the columns that are compared with them; those that are left out keep their names.

        Returns:
            An expression for `PruningPredicate`, `plan(where=...)` and their like. Of several keys it says what each must be by
            itself, so `plan(dynamic=...)` prunes more.
        """
        if not self.filtering:
            return Expr(TRUE)
        if self.state.rows is not None and not self.state.rows.num_rows:
            return Expr(FALSE)
        out: Expr | None = None
        for name, domain, dtype in zip(self.fields, self.domains, self.state.dtypes, strict=True):
            one = _condition(col((mapping or {}).get(name, name)), domain, dtype)
            out = one if out is None else out if one is None else out & one
        return Expr(TRUE) if out is None else out

    # Being a value.

    def merge(self, *others: DynamicFilterData) -> DynamicFilterData:
        """The keys of this one and of others, in any order and grouping.

        Raises:
            DynamicFilterError: they are of other columns.
        """
        state, rows, seconds = self.state, self.rows_seen, self.seconds
        for other in others:
            if other._fields != self._fields:
                raise DynamicFilterError(
                    f"a filter of {other} was merged into {self}; expected the same columns, types and settings"
                )
            state, rows, seconds = (
                union(state, other.state),
                rows + other.rows_seen,
                max(seconds, other.seconds),
            )
        return DynamicFilterData(self._fields, state, rows, seconds)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DynamicFilterData):
            return NotImplemented
        return self._fields == other._fields and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash((self.fields, self.fingerprint))

    def __reduce__(self) -> tuple[Any, ...]:
        return DynamicFilterData, (self._fields, self.state, self.rows_seen, self.seconds)

    @property
    def kind(self) -> str:
        """What is kept of the keys, for people."""
        if self.state.broken:
            return f"nothing: {self.state.broken}"
        if not self.filtering:
            return "nothing: there were too many keys" if self.fields else "nothing: no key columns"
        if self.state.rows is not None:
            return f"{self.state.rows.num_rows:,} distinct keys, {self.nbytes:,} bytes"
        return ", ".join(f"{name}: {d}" for name, d in zip(self.fields, self.domains, strict=True))

    def __repr__(self) -> str:
        return f"DynamicFilterData(fields=[{', '.join(self.fields)}], {self.kind})"


@dataclass(frozen=True)
class DynamicFilteringEvent:
    """What a collector sends to the enumerators of scans.

    Source: Flink FLIP-248, `DynamicFilteringEvent`.
    """

    data: DynamicFilterData

    def __str__(self) -> str:
        return f"DynamicFilteringEvent{{data={self.data}}}"


def _typed(lanes: pa.Array, dtype: DType, to: pa.DataType) -> pa.Array:
    found = array_of(lanes, dtype)
    try:
        return found if found.type == to else found.cast(to)
    except (
        pa.ArrowInvalid,
        pa.ArrowNotImplementedError,
    ):  # a dictionary or a nested type: keys stay as they are compared
        return found


def _python(values: list[Any], to: pa.DataType) -> pa.Array:
    """Values as the column's type, or where they do not fit as what they are."""
    try:
        return pa.array(values, to)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array(values)


def _count(rows: Any) -> int:
    return len(rows) if isinstance(rows, Sequence) else table_of(rows).num_rows


def _condition(column: Expr, d: Domain, dtype: DType) -> Expr | None:
    """What a column must fulfil to have one of the values; None: anything does."""
    if d.kind == "all" or not dtype.ordered:
        return None
    nan = [(dtype, NAN_VALUE)] if d.nan else []
    if d.kind == "set":
        members = (*((dtype, v) for v in axis_of(d.firsts, dtype)), *nan)
        found = Expr(Node(Op.IN, (column.node,), members)) if members else None
    else:
        ends = list(zip(axis_of(d.firsts, dtype), axis_of(d.lasts, dtype), strict=True))
        ends = ends if len(ends) <= SHOWN else [(ends[0][0], ends[-1][1])]
        parts = [
            Node(
                Op.AND,
                (
                    Node(Op.GE, (column.node, literal(a, dtype))),
                    Node(Op.LE, (column.node, literal(b, dtype))),
                ),
            )
            for a, b in ends
        ]
        parts += [Node(Op.EQ, (column.node, literal(NAN_VALUE, dtype)))] if d.nan else []
        found = Expr(parts[0] if len(parts) == 1 else Node(Op.OR, tuple(parts))) if parts else None
    if d.null:
        return column.is_null() if found is None else found | column.is_null()
    return Expr(FALSE) if found is None else found
