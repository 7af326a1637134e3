"""ss.join: a fact table and its dimensions, of which only the files are read that the dimensions leave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from skipstone.bindings.filters.collector import DynamicFilterCollector
from skipstone.bindings.filters.filter import DynamicFilter
from skipstone.bindings.filters.keys import cast_array, compared_in
from skipstone.bindings.filters.kinds import Needs, kind_of, needs_of
from skipstone.bindings.filters.option import enabled
from skipstone.bindings.filters.rows import chosen, noted, table_of
from skipstone.bindings.joins.match import match, refused, taken
from skipstone.bindings.joins.names import pairs_of, resolved
from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.tables.dynamic_table import DynamicTable
from skipstone.ir.errors import PredicateError, UnsupportedForm
from skipstone.ir.rows import matching_rows
from skipstone.ir.session import Incomparable, Session
from skipstone.ir.types import from_arrow, whole
from skipstone.kernels.run.pool import threads

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.predicates.predicate import Source

On: TypeAlias = str | Sequence[str] | Mapping[str, str]
Table: TypeAlias = Any  # a table of Skipstone's, or rows: Arrow, pandas, Polars


@dataclass(frozen=True, slots=True)
class Joined:
    """What a join found, and what it read for it.

    Attributes:
        table: The rows.
        plan: What was read of the fact table, or, under `wait`, what all filters leave of it; None where it came as rows.
        filters: What the dimensions said of it.
    """

    table: pa.Table
    plan: Plan | None
    filters: tuple[DynamicFilter, ...]


def join(
    fact: Table,
    dim: Table | Sequence[Table],
    on: On | Sequence[On],
    how: str | Sequence[str] = "inner",
    *,
    where_fact: Source | None = None,
    where_dim: Source | Sequence[Source | None] | None = None,
    columns_fact: list[str] | None = None,
    columns_dim: list[str] | Sequence[list[str] | None] | None = None,
    null_safe: bool = False,
    suffix: str = "_dim",
    threshold: str | int | None = "32MiB",
    max_values: int | None = None,
    timezone: str = "UTC",
    ansi: bool = True,
    case_sensitive: bool = False,
    dynamic_filtering: bool | None = None,
    wait: float | None = None,
) -> pa.Table:
    """Join a fact table with dimensions, reading of it only what they leave.

    Each dimension is read first, or, under `wait`, beside the fact table; its keys become a dynamic filter, the fact table is
    planned and read with all of them, and what was read is joined, one dimension after the other. The rows are those of the join
    without any filter: those of Spark, which finds NaN equal to NaN and -0.0 to 0.0, compares keys of two types in their common one, and NULL with nothing.

    Args:
        fact: A table of Skipstone's, such as `scan_parquet` gives; or rows: Arrow, pandas, Polars.
        dim: The same; or a list of dimensions. The result of another join is one too.
        on: The key's name, or a list of names, on both sides; or names of the fact table -> names of the dimension. Of
            several dimensions a list, with one of these for each.
        how: "inner", "left", "right", "full", "semi", "anti" or "not in", as Spark calls them, the fact table being the left
            side; of several dimensions one for all, or a list. Only the last may be "right" or "full".
        where_fact, where_dim: Conditions on the rows of either.
        columns_fact, columns_dim: Which columns to read; None: all.
        null_safe: Whether keys are compared by `<=>`.
        suffix: What is put behind names of a dimension's columns that are there already.
        threshold, max_values: How large a filter may grow, as for `DynamicFilterCollector`.
        timezone, ansi, case_sensitive: Spark's settings, as for `PruningPredicate`.
        dynamic_filtering: Whether to filter at all; None: as the table says, or the environment.
        wait: None: dimensions are read first. A number: they are read while the fact table is planned, which then waits so many seconds for
            their keys, and reads without those that are not there yet; what is left of it is planned anew when they come. That is faster where
            a dimension is slow and leaves much, and reads in vain where it leaves little.

    Returns:
        An Arrow table in the fact table's order: its columns, then those of each dimension, but for keys of the same name, which are there once.
        Semi, anti and NOT IN joins give the fact table's columns alone.

    Raises:
        UnknownColumn: a side lacks a key.
        UnsupportedForm: Spark refuses to compare the keys, or raises an error for one of them.

    Source: Flink FLIP-248; Spark, dynamic partition pruning.

    Example:
        >>> import pyarrow.parquet as pq, tempfile, os, skipstone as ss
        >>> folder = tempfile.mkdtemp()
        >>> for day in range(4):
        ...     pq.write_table(pa.table({"day": [day, day], "price": [1.5, 2.5]}), os.path.join(folder, f"{day}.parquet"))
        >>> days = pa.table({"day": [0, 1, 2, 3], "year": [1999, 1999, 2000, 2000]})
        >>> join(ss.scan_parquet(folder), days, on="day", where_dim="year = 2000 AND day < 3").to_pydict()
        {'day': [2, 2], 'price': [1.5, 2.5], 'year': [2000, 2000]}
    """
    return join_explained(
        fact, dim, on, how, where_fact=where_fact, where_dim=where_dim, columns_fact=columns_fact, columns_dim=columns_dim,
        null_safe=null_safe, suffix=suffix, threshold=threshold, max_values=max_values, timezone=timezone, ansi=ansi,
        case_sensitive=case_sensitive, dynamic_filtering=dynamic_filtering, wait=wait,
    ).table  # fmt: skip


def join_explained(
    fact: Table,
    dim: Table | Sequence[Table],
    on: On | Sequence[On],
    how: str | Sequence[str] = "inner",
    *,
    where_fact: Source | None = None,
    where_dim: Source | Sequence[Source | None] | None = None,
    columns_fact: list[str] | None = None,
    columns_dim: list[str] | Sequence[list[str] | None] | None = None,
    null_safe: bool = False,
    suffix: str = "_dim",
    threshold: str | int | None = "32MiB",
    max_values: int | None = None,
    timezone: str = "UTC",
    ansi: bool = True,
    case_sensitive: bool = False,
    dynamic_filtering: bool | None = None,
    wait: float | None = None,
) -> Joined:
    """`join`, with the plan and the filters beside the rows."""
    session = Session(timezone, ansi, case_sensitive)
    steps = _steps(dim, on, how, where_dim, columns_dim)
    if null_safe and any(step.how == "not in" for step in steps):
        raise PredicateError(
            "NOT IN compares by =, and null_safe=True asks for <=>; expected one of them: write how='anti' with null_safe=True, or leave null_safe out"
        )
    wanted = enabled(dynamic_filtering, getattr(fact, "dynamic_filtering", None)) and isinstance(
        fact, DynamicTable
    )
    schema = fact.schema if isinstance(fact, DynamicTable) else table_of(fact).schema
    filters = tuple(
        f for step in steps if wanted and (f := step.expect(schema, session)) is not None
    )

    def prepare(step: _Step) -> None:
        step.prepare(schema, null_safe, threshold, max_values, session)

    keys = [name for step in steps for name in step.on]
    names = (
        None
        if columns_fact is None
        else list(
            dict.fromkeys(
                [
                    *columns_fact,
                    *(resolved(k, schema.names, case_sensitive=case_sensitive) for k in keys),
                ]
            )
        )
    )

    def planned() -> Plan:
        plan: Plan = fact.plan(
            where_fact,
            columns=names,
            dynamic=filters or None,
            timezone=timezone,
            ansi=ansi,
            case_sensitive=case_sensitive,
        )
        return plan

    plan = None
    if wait is not None and isinstance(fact, DynamicTable):
        out, plan = _beside(planned, [partial(prepare, step) for step in steps], wait)
    else:
        for step in steps:
            prepare(step)
        plan = planned() if isinstance(fact, DynamicTable) else None
        out = _read(fact, where_fact, names, session) if plan is None else plan.to_arrow()
    for step in steps:
        out = _joined(out, step, null_safe, suffix, session)
    extra = (
        [] if names is None or columns_fact is None else [n for n in names if n not in columns_fact]
    )
    return Joined(
        out.drop_columns([n for n in extra if n in out.column_names]) if extra else out,
        plan,
        filters,
    )


@dataclass(slots=True)
class _Step:
    dim: Table
    on: dict[str, str]
    how: str
    where: Source | None
    columns: list[str] | None
    rows: pa.Table | None = None
    filter: DynamicFilter | None = None

    def keys(self, session: Session) -> list[str]:
        """The dimension's keys that are not among its columns."""
        return [
            name
            for name in self.on.values()
            if self.columns is not None and name not in self.columns
        ]

    def expect(self, schema: pa.Schema, session: Session) -> DynamicFilter | None:
        """What the dimension's keys will say of the fact table; None: they need all of its rows, or are none of its own columns."""
        if needs_of(self.how, "left") is Needs.ALL:
            return None
        try:
            names = [
                resolved(name, schema.names, case_sensitive=session.case_sensitive)
                for name in self.on
            ]
        except PredicateError:
            return None  # a column of an earlier dimension
        if len(set(names)) < len(names):
            return None  # one column, compared with two
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
        """Read the dimension, and say what keys it has."""
        self.rows = _read(
            self.dim,
            self.where,
            None if self.columns is None else [*self.columns, *self.keys(session)],
            session,
        )
        if self.filter is not None:
            names = list(self.filter.columns)
            collector = DynamicFilterCollector(
                names, schema, threshold, max_values, null_safe=null_safe, timezone=session.timezone, ansi=session.ansi,
            )  # fmt: skip
            collector.add(chosen(self.rows, list(self.on.values())).rename_columns(names))
            self.filter.report(collector.finish())


def _steps(dim: Any, on: Any, how: Any, where: Any, columns: Any) -> list[_Step]:
    if not isinstance(dim, list | tuple):
        return [_Step(dim, pairs_of(on), kind_of(how), where, columns)]
    n = len(dim)
    ons = (
        list(on)
        if isinstance(on, list | tuple) and len(on) == n
        else [on] * n
        if isinstance(on, str)
        else None
    )
    if ons is None:
        raise PredicateError(f"on is {on!r}; expected one entry for each of {n} dimensions")
    hows = [how] * n if isinstance(how, str) else list(how)
    wheres = list(where) if isinstance(where, list | tuple) else [where] * n
    shown = (
        list(columns)
        if isinstance(columns, list | tuple) and not all(isinstance(c, str) for c in columns)
        else [columns] * n
    )
    if {len(hows), len(wheres), len(shown)} != {n}:
        raise PredicateError(
            f"how, where_dim and columns_dim have {len(hows)}, {len(wheres)} and {len(shown)} entries; expected {n}, one for each dimension"
        )
    kinds = [kind_of(h) for h in hows]
    if any(k in ("right", "full") for k in kinds[:-1]):
        raise PredicateError(
            f"the joins are {', '.join(kinds)}; expected 'right' and 'full' in the last place only"
        )
    return [
        _Step(d, pairs_of(o), k, w, c)
        for d, o, k, w, c in zip(dim, ons, kinds, wheres, shown, strict=True)
    ]


def _read(
    table: Table, where: Source | None, columns: list[str] | None, session: Session
) -> pa.Table:
    """The rows of a side that fulfil its condition."""
    settings: dict[str, Any] = {
        "timezone": session.timezone,
        "ansi": session.ansi,
        "case_sensitive": session.case_sensitive,
    }
    if isinstance(table, DynamicTable):
        return table.plan(where, columns=columns, **settings).to_arrow()  # type: ignore[attr-defined]
    rows = table_of(table)
    if where is not None:
        node = PruningPredicate(where, rows.schema, **settings).node
        rows = pa.Table.from_batches(
            [matching_rows(node, b) for b in rows.combine_chunks().to_batches()], rows.schema
        )
    return rows if columns is None else chosen(rows, columns)


def _beside(
    planned: Callable[[], Plan], dimensions: list[Callable[[], None]], wait: float
) -> tuple[pa.Table, Plan]:
    """Read the fact table while its dimensions are read, split by split; the rows in the table's order, and the plan in the end."""
    with ThreadPoolExecutor(max(len(dimensions), 1), "skipstone-dimension") as pool:
        jobs = [pool.submit(read) for read in dimensions]
        splits = planned().splits(wait=wait)
        for job in jobs:  # no split is of use to a join that fails
            job.add_done_callback(
                lambda done: splits.stop() if done.exception() is not None else None
            )

        def some() -> list[tuple[int, pa.Table]]:
            return [(split.containers[0], split.to_arrow()) for split in splits]

        with ThreadPoolExecutor(threads(), "skipstone-split") as readers:
            parts = [readers.submit(some) for _ in range(threads())]
        for job in jobs:
            job.result()
        found = [
            table
            for _, table in sorted(
                (one for part in parts for one in part.result()), key=lambda one: one[0]
            )
        ]
    plan = splits.plan
    empty = pa.schema([plan.table.schema.field(name) for name in plan.columns]).empty_table()
    return pa.concat_tables([empty, *found]), plan


def _joined(
    left: pa.Table, step: _Step, null_safe: bool, suffix: str, session: Session
) -> pa.Table:
    right = step.rows
    assert right is not None
    own = [
        resolved(name, left.schema.names, case_sensitive=session.case_sensitive) for name in step.on
    ]
    others = [
        resolved(name, right.schema.names, case_sensitive=session.case_sensitive)
        for name in step.on.values()
    ]
    for field in (*map(left.schema.field, own), *map(right.schema.field, others)):
        if (kind := noted(field)) is not None:
            raise UnsupportedForm(
                f"the key {field.name!r} is {kind}, which is not compared by what is stored; join with another engine"
            )
    found = match(
        [left.column(n) for n in own],
        [right.column(n) for n in others],
        step.how,
        [null_safe] * len(own),
        session,
    )
    if step.how in ("semi", "anti", "not in"):
        return left.take(pa.array(found.left))
    shared = {b: a for a, b in zip(own, others, strict=True) if a == b}
    first, second = taken(left, found.left), taken(right, found.right)
    out = {name: first.column(name) for name in first.column_names}
    for b, a in shared.items() if step.how in ("right", "full") else ():
        out[a] = (
            second.column(b)
            if step.how == "right"
            else _either(first.column(a), second.column(b), session)
        )
    for name in second.column_names:
        if name in shared:
            continue
        if step.columns is not None and name in step.keys(session):
            continue
        new = name + suffix if name in out else name
        if new in out:
            raise PredicateError(
                f"the column {new!r} would be there twice; expected names that differ: choose columns_dim or another suffix"
            )
        out[new] = second.column(name)
    return pa.table(out)


def _either(a: pa.ChunkedArray, b: pa.ChunkedArray, session: Session) -> pa.ChunkedArray:
    """The key of whichever side has a row, in the type that both are compared in."""
    if a.type != b.type:
        try:
            to = compared_in(from_arrow(a.type), from_arrow(b.type), session)
            a, b = (pa.chunked_array([cast_array(whole(side), to, session)]) for side in (a, b))
        except Incomparable as e:
            raise refused(a, b, e) from None
    return pc.coalesce(a, b)
