"""DynamicFilterData: the complete keys of a join's build side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skipstone.bindings.filters.condition import domain_condition
from skipstone.bindings.filters.domain import Domain
from skipstone.bindings.filters.fields import KeyFields, names_of_keys, row_count
from skipstone.bindings.filters.keys import array_of, join_keys
from skipstone.bindings.filters.state import CollectedKeys, union
from skipstone.bindings.filters.tuples import Tuples, in_domain
from skipstone.bindings.predicates.expr import Expr, col
from skipstone.ir.cached import cached_property
from skipstone.ir.errors import DynamicFilterError, unknown_column
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.simplify import FALSE, TRUE
from skipstone.ir.types import DType, from_arrow
from skipstone.kernels.pack.planes import Mask

if TYPE_CHECKING:
    from skipstone.bindings.predicates.predicate import PruningPredicate


class DynamicFilterData:
    """The keys of a join's build side, as an immutable value.

    It pickles, prints and merges. Two of them are equal if their keys are.

    Attributes:
        fields: Names of the key columns, in order.
        rows_seen: Rows that it was made from.
        seconds: Wall-clock time from the first row to the last.

    Source: Flink FLIP-248, `DynamicFilteringData`.
    """

    def __init__(
        self, fields: KeyFields, state: CollectedKeys, rows_seen: int = 0, seconds: float = 0.0
    ) -> None:
        self._fields, self.state = fields, state
        self.fields = fields.names
        self.rows_seen, self.seconds = rows_seen, seconds
        self.predicates: dict[Any, PruningPredicate] = {}  # a cache of `judge.predicate_of`
        self._parts: dict[tuple[str, ...], DynamicFilterData] = {}

    @property
    def filtering(self) -> bool:
        """True if it can rule anything out.

        It cannot if there are no key columns, if the threshold was exceeded by too much, or if the
        keys cannot be compared.
        """
        return bool(self.fields) and (
            self.state.rows is not None or any(d.kind != "all" for d in self.state.domains)
        )

    @property
    def exact(self) -> bool:
        """True if it holds every distinct row.

        Then `matched` also returns which rows certainly have a match.
        """
        return bool(self.fields) and self.state.rows is not None

    @property
    def empty(self) -> bool:
        """True if the build side has no rows, not even rows with NULL."""
        return not self.state.has_rows

    @property
    def row_type(self) -> pa.Schema:
        """Names of the keys, and the types in which they are compared.

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
        """The distinct keys, ascending; None if there were too many to store.

        Source: Flink FLIP-248, `getData`.
        """
        if not self.exact:
            return None
        rows = self.state.ordered()
        columns = [
            _array_of_type(rows.column(i).combine_chunks(), dtype, self._type(i))
            for i, dtype in enumerate(self.state.dtypes)
        ]
        return pa.table(columns, names=list(self.fields))

    @property
    def num_rows(self) -> int | None:
        """The number of distinct keys; None if there were too many to store."""
        return None if self.state.rows is None else self.state.rows.num_rows

    @property
    def nbytes(self) -> int:
        """Bytes of the distinct keys, or of the domains that replace them."""
        return self.state.nbytes

    @cached_property
    def domains(self) -> tuple[Domain, ...]:
        """The domain of each key column by itself."""
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
        """A hash that is equal for equal keys, regardless of their order and batches."""
        return self.state.fingerprint()

    @property
    def declared(self) -> tuple[DType, ...]:
        """The types of the columns that the keys were collected for."""
        return self._fields.dtypes

    @property
    def session(self) -> Session:
        """Spark's settings under which keys were compared."""
        return self._fields.session

    @property
    def null_safe(self) -> frozenset[str]:
        """The keys that are compared by `<=>`."""
        return self._fields.null_safe

    def only(self, names: tuple[str, ...]) -> DynamicFilterData:
        """Return the filter restricted to some of the key columns.

        It is weaker: every row that matches by all columns also matches by these.
        """
        names = names_of_keys(names, "names")
        if unknown := [name for name in names if name not in self.fields]:
            raise unknown_column(unknown[0], self.fields, "names=", "the keys are")
        if names not in self._parts:
            at = [self.fields.index(name) for name in names]
            own = self._fields
            fields = KeyFields(
                names, tuple(own.fields[i] for i in at), own.null_safe & {*names}, own.session
            )
            self._parts[names] = DynamicFilterData(
                fields, self.state.only(at), self.rows_seen, self.seconds
            )
        return self._parts[names]

    # Rows.

    def contains(self, rows: Any) -> Mask:
        """Return which rows may have a match; `matched` returns which rows certainly have one.

        Args:
            rows: n rows: Arrow, pandas or Polars, with exactly the key columns, in the filter's
                order, under any names; or a list of tuples of Python values.

        Returns:
            bool array, shape (n,). All True if the filter filters nothing, or if the rows cannot be
            compared with its keys, because Spark refuses the types or raises an error for one of
            the values.

        Raises:
            DynamicFilterError: the filter is active, and the rows have more or fewer columns than
                it has.

        Source: Flink FLIP-248, `contains`.
        """
        if not self.filtering:
            return np.ones(row_count(rows), np.bool_)
        columns = self._fields.columns_of(rows)
        members = self._member(columns)
        return np.ones(len(columns[0]), np.bool_) if members is None else members

    def matched(self, rows: Any) -> Mask | None:
        """Return exactly which rows have a match.

        Only this result may be negated: `contains` is also True for rows that it cannot decide.

        Args:
            rows: As for `contains`.

        Returns:
            bool array, shape (n,); None if the filter is not exact or cannot compare these rows.

        Raises:
            DynamicFilterError: the rows have more or fewer columns than the filter has.
        """
        return self._member(self._fields.columns_of(rows)) if self.exact else None

    def _member(self, columns: list[pa.ChunkedArray]) -> Mask | None:
        """Return which rows are among the keys or domains; None if they cannot be compared."""
        try:
            compared = [
                join_keys(c, t, self.session)
                for c, t in zip(columns, self.state.dtypes, strict=True)
            ]
        except CannotJudge:
            return None
        if any(k.dtype != t for k, t in zip(compared, self.state.dtypes, strict=True)):
            return None  # the rows are compared in another type than the keys were
        keys = [k.keys for k in compared]
        if self.state.rows is not None:
            out = self.tuples.member(keys)
        else:
            out = np.logical_and.reduce(
                [
                    in_domain(key, d, t)
                    for key, d, t in zip(keys, self.domains, self.state.dtypes, strict=True)
                ]
            )
        for name, column in zip(self.fields, compared, strict=True):
            if column.possible is not None:
                out &= column.possible
            if column.null is not None and name not in self.null_safe:
                out &= ~column.null
        return out

    @property
    def spelled(self) -> bool:
        """True if `to_predicate` holds for exactly the rows that have a match.

        Only then may it be negated.
        """
        return self.exact and len(self.fields) == 1 and self.state.dtypes[0].ordered

    def to_predicate(self, mapping: Mapping[str, str] | None = None) -> Expr:
        """Return a condition that every row with a match fulfils.

        No other row fulfils it if `spelled` is True.

        Args:
            mapping: Names of keys -> names of the columns that are compared with them; other keys
                keep their names.

        Returns:
            An expression for `PruningPredicate`, `plan(where=...)` and the like. For several keys
            it has one condition for each key by itself, so `plan(dynamic=...)` prunes more.
        """
        if not isinstance(mapping, Mapping | None):
            raise DynamicFilterError(
                f"mapping is {mapping!r:.60}; expected names of keys -> names of columns"
            )
        if not self.filtering:
            return Expr(TRUE)
        if self.state.rows is not None and not self.state.rows.num_rows:
            return Expr(FALSE)
        out: Expr | None = None
        for name, domain, dtype in zip(self.fields, self.domains, self.state.dtypes, strict=True):
            condition = domain_condition(col((mapping or {}).get(name, name)), domain, dtype)
            if condition is not None:
                out = condition if out is None else out & condition
        return Expr(TRUE) if out is None else out

    # Values.

    def merge(self, *others: DynamicFilterData) -> DynamicFilterData:
        """Return the keys of this filter and of others, in any order and grouping.

        Raises:
            DynamicFilterError: they have other columns, types or settings.
        """
        state, rows, seconds = self.state, self.rows_seen, self.seconds
        for other in others:
            if other._fields != self._fields:
                raise DynamicFilterError(
                    f"{other} was merged into {self}; expected the same columns, types and settings"
                )
            state = union(state, other.state)
            rows = rows + other.rows_seen
            seconds = max(seconds, other.seconds)
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
        """The form in which the keys are stored, for display."""
        if self.state.failure:
            return f"nothing: {self.state.failure}"
        if not self.filtering:
            return "nothing: there were too many keys" if self.fields else "nothing: no key columns"
        if self.state.rows is not None:
            return f"{self.state.rows.num_rows:,} distinct keys, {self.nbytes:,} bytes"
        return ", ".join(f"{name}: {d}" for name, d in zip(self.fields, self.domains, strict=True))

    def __repr__(self) -> str:
        return f"DynamicFilterData(fields=[{', '.join(self.fields)}], {self.kind})"


@dataclass(frozen=True)
class DynamicFilteringEvent:
    """The event that carries the keys of a collector to the enumerators of scans.

    Source: Flink FLIP-248, `DynamicFilteringEvent`.
    """

    data: DynamicFilterData

    def __str__(self) -> str:
        return f"DynamicFilteringEvent{{data={self.data}}}"


def _array_of_type(keys: pa.Array, dtype: DType, to: pa.DataType) -> pa.Array:
    """Return normalized keys as an Arrow array of type `to`, if they can be cast to it."""
    array = array_of(keys, dtype)
    try:
        return array if array.type == to else array.cast(to)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # A dictionary or a nested type: keys stay in the type in which they are compared.
        return array
