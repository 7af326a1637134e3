"""The build sides of a join: tables that are read first, whose keys filter the probe side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from skipstone.bindings.filters.collector import DynamicFilterCollector
from skipstone.bindings.filters.filter import DynamicFilter
from skipstone.bindings.filters.kinds import Needs, kind_of, needs_of
from skipstone.bindings.filters.rows import select_columns, table_of
from skipstone.bindings.joins.names import pairs_of, resolved
from skipstone.bindings.plans.request import at_plan_time
from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.tables.table import Table
from skipstone.ir.errors import PredicateError
from skipstone.ir.rows import matching_rows
from skipstone.ir.session import Session

if TYPE_CHECKING:
    from skipstone.bindings.predicates.predicate import PredicateSource

On: TypeAlias = str | Sequence[str] | Mapping[str, str]
TableLike: TypeAlias = Any  # a Skipstone table, or rows: Arrow, pandas, Polars


@dataclass(slots=True)
class BuildSide:
    """One build side: how it is joined, and after `prepare` its rows.

    Attributes:
        table: The table or rows.
        on: Names of the probe side's keys -> names of the build side's keys.
        how: The kind of the join.
        where: The condition on its rows.
        columns: The columns of the result; None for all.
        rows: The rows; None before `prepare`.
        filter: The dynamic filter for the probe side; None if it cannot filter.
    """

    table: TableLike
    on: dict[str, str]
    how: str
    where: PredicateSource | None
    columns: list[str] | None
    rows: pa.Table | None = None
    filter: DynamicFilter | None = None

    @property
    def extra_keys(self) -> list[str]:
        """The keys that are read for the join, and are not among the columns of the result."""
        return [
            name
            for name in self.on.values()
            if self.columns is not None and name not in self.columns
        ]

    def expect(self, schema: pa.Schema, session: Session) -> DynamicFilter | None:
        """Make the filter of the probe side; `prepare` completes it.

        Args:
            schema: The probe side's columns.
            session: Spark's settings.

        Returns:
            None if the join needs all rows of the probe side, or if the keys are not its columns.
        """
        if needs_of(self.how, "left") is Needs.ALL:
            return None
        try:
            names = [
                resolved(name, schema.names, case_sensitive=session.case_sensitive)
                for name in self.on
            ]
        except PredicateError:
            return None  # a column of an earlier build side
        if len(set(names)) < len(names):
            return None  # one column is compared with two keys
        self.filter = DynamicFilter(columns={name: name for name in names}, how=self.how)
        return self.filter

    def prepare(
        self,
        schema: pa.Schema,
        null_safe: bool,
        threshold: str | int | None,
        max_values: int | None,
        session: Session,
    ) -> None:
        """Read the build side, and report its keys to the filter.

        Args:
            schema: The probe side's columns.
            null_safe: True if keys are compared by `<=>`.
            threshold, max_values: See `DynamicFilterCollector`.
            session: Spark's settings.
        """
        names = None if self.columns is None else [*self.columns, *self.extra_keys]
        self.rows = read_side(self.table, self.where, names, session)
        if self.filter is not None:
            keys = list(self.filter.columns)
            collector = DynamicFilterCollector(
                keys, schema, threshold, max_values, null_safe=null_safe,
                timezone=session.timezone, ansi=session.ansi,
            )  # fmt: skip
            found = select_columns(self.rows, list(self.on.values()), "on=", "the build side has")
            collector.add(found.rename_columns(keys))
            self.filter.report(collector.finish())


def check_names(argument: str, names: object) -> None:
    """Check the names of the result's columns; None means all.

    Raises:
        PredicateError: they are a single text, or something else.
    """
    if names is None or (
        isinstance(names, list | tuple) and all(isinstance(n, str) for n in names)
    ):
        return
    listed = [part.strip() for part in names.split(",")] if isinstance(names, str) else []
    way_out = f", such as {listed!r}" if listed else ""
    raise PredicateError(f"{argument} is {names!r:.60}; expected a list of names{way_out}")


def build_sides(dim: Any, on: Any, how: Any, where: Any, columns: Any) -> list[BuildSide]:
    """Return the build sides that the arguments of `join` describe.

    Raises:
        PredicateError: `how` is no kind of join, `columns` are not names, there is not one entry
            for each build side, or a "right" or "full" join is not the last one.
    """
    if not isinstance(dim, list | tuple):
        check_names("columns_dim", columns)
        return [BuildSide(dim, pairs_of(on), kind_of(how, PredicateError), where, columns)]
    n = len(dim)
    if isinstance(on, str):
        ons: list[Any] = [on] * n
    elif isinstance(on, list | tuple) and len(on) == n:
        ons = list(on)
    else:
        raise PredicateError(f"on is {on!r}; expected one entry for each of the {n} tables in dim")
    hows = [how] * n if isinstance(how, str) else list(how)
    wheres = list(where) if isinstance(where, list | tuple) else [where] * n
    if isinstance(columns, list | tuple) and not all(isinstance(c, str) for c in columns):
        chosen = list(columns)
    else:
        chosen = [columns] * n
    if {len(hows), len(wheres), len(chosen)} != {n}:
        raise PredicateError(
            f"how, where_dim and columns_dim have {len(hows)}, {len(wheres)} and {len(chosen)} "
            f"entries; expected {n}, one for each table in dim"
        )
    for names in chosen:
        check_names("columns_dim", names)
    kinds = [kind_of(h, PredicateError) for h in hows]
    if any(k in ("right", "full") for k in kinds[:-1]):
        raise PredicateError(
            f"the joins are {', '.join(kinds)}; expected 'right' and 'full' only as the last join"
        )
    return [
        BuildSide(d, pairs_of(o), k, w, c)
        for d, o, k, w, c in zip(dim, ons, kinds, wheres, chosen, strict=True)
    ]


def read_side(
    table: TableLike, where: PredicateSource | None, columns: list[str] | None, session: Session
) -> pa.Table:
    """Return the rows of one side of a join that match its condition."""
    settings: dict[str, Any] = {
        "timezone": session.timezone,
        "ansi": session.ansi,
        "case_sensitive": session.case_sensitive,
    }
    if isinstance(table, Table):
        plan = table.plan(where, columns=columns, **settings)
        return plan.to_arrow()
    rows = table_of(table)
    if where is not None:
        asked = at_plan_time(where, rows.schema, session.timezone)
        node = PruningPredicate(asked, rows.schema, **settings).node
        rows = pa.Table.from_batches(
            [matching_rows(node, b) for b in rows.combine_chunks().to_batches()], rows.schema
        )
    if columns is None:
        return rows
    return select_columns(rows, columns, "a join", "one of its sides has")
