"""`ss.join`: join a probe side with build sides, and read only the files that their keys leave."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import pyarrow as pa

from skipstone.bindings.filters.filter import DynamicFilter
from skipstone.bindings.filters.keys import as_spark_reads, cast_array, compared_in
from skipstone.bindings.filters.option import check_null_safe, check_wait, enabled
from skipstone.bindings.filters.rows import special_type, table_of
from skipstone.bindings.joins.build_side import (
    BuildSide,
    On,
    TableLike,
    build_sides,
    check_names,
    read_side,
)
from skipstone.bindings.joins.match import incomparable_keys, match, take_rows
from skipstone.bindings.joins.names import resolved
from skipstone.bindings.tables.table import Table
from skipstone.ir import compute as pc
from skipstone.ir.arrow import plain, whole
from skipstone.ir.errors import PredicateError, UnsupportedForm
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import from_arrow
from skipstone.kernels.run.pool import ContextPool, threads

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.predicates.predicate import PredicateSource

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class JoinResult:
    """The rows of a join, and the plan and filters that were used to read them.

    Attributes:
        table: The rows.
        plan: The plan of the probe side that was read; with `wait`, the final plan, with all
            filters. None if the probe side was given as rows.
        filters: The dynamic filters that the build sides gave.
    """

    table: pa.Table
    plan: Plan | None
    filters: tuple[DynamicFilter, ...]


def join_explained(
    fact: TableLike,
    dim: TableLike | Sequence[TableLike],
    on: On | Sequence[On],
    how: str | Sequence[str] = "inner",
    *,
    where_fact: PredicateSource | None = None,
    where_dim: PredicateSource | Sequence[PredicateSource | None] | None = None,
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
) -> JoinResult:
    """Join as `join` does, and return the plan and the filters with the rows.

    Arguments and errors are those of `join`.
    """
    session = Session(timezone, ansi, case_sensitive)
    check_names("columns_fact", columns_fact)
    builds = build_sides(dim, on, how, where_dim, columns_dim)
    check_null_safe(null_safe)
    if not isinstance(suffix, str):
        raise PredicateError(f"suffix is {suffix!r:.60}; expected text, such as '_dim'")
    if wait is not None:
        check_wait(wait)
    if null_safe and any(build.how == "not in" for build in builds):
        raise PredicateError(
            "NOT IN compares by =, and null_safe=True by <=>; expected one of them: "
            "write how='anti' with null_safe=True, or leave null_safe out"
        )
    filtering = enabled(dynamic_filtering, getattr(fact, "dynamic_filtering", None)) and isinstance(
        fact, Table
    )
    schema = fact.schema if isinstance(fact, Table) else table_of(fact).schema
    filters = tuple(
        f for build in builds if filtering and (f := build.expect(schema, session)) is not None
    )

    def prepare(build: BuildSide) -> None:
        build.prepare(schema, null_safe, threshold, max_values, session)

    names = None
    if columns_fact is not None:
        keys = [
            resolved(name, schema.names, case_sensitive=case_sensitive)
            for build in builds
            for name in build.on
        ]
        names = list(dict.fromkeys([*columns_fact, *keys]))

    def plan_probe() -> Plan:
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
    if wait is not None and isinstance(fact, Table):
        prepares = [partial(prepare, build) for build in builds]
        rows, plan = _read_concurrently(plan_probe, prepares, wait)
    else:
        for build in builds:
            prepare(build)
        plan = plan_probe() if isinstance(fact, Table) else None
        rows = read_side(fact, where_fact, names, session) if plan is None else plan.to_arrow()
    for build in builds:
        rows = _join_with(rows, build, null_safe, suffix, session)
    if names is not None and columns_fact is not None:
        extra = [n for n in names if n not in columns_fact and n in rows.column_names]
        rows = rows.drop_columns(extra) if extra else rows
    return JoinResult(rows, plan, filters)


def _with_parameters_of(model: Callable[P, object]) -> Callable[[Callable[..., T]], Callable[P, T]]:
    """Give a function the parameters of another one, for type checkers and `help`."""

    def decorate(function: Callable[..., T]) -> Callable[P, T]:
        returned = inspect.signature(function).return_annotation
        signature = inspect.signature(model).replace(return_annotation=returned)
        function.__signature__ = signature  # type: ignore[attr-defined]
        return function

    return decorate


@_with_parameters_of(join_explained)
def join(*args: Any, **options: Any) -> pa.Table:
    """Join tables, and read only the part of `fact` that the keys of `dim` leave.

    `fact` is the probe side, `dim` the build side, or several. Each build side is read first, or
    with `wait` at the same time as the probe side. Its keys become a dynamic filter. The probe side
    is planned and read with all filters, then joined with one build side after the other.
    The rows are those of the join without filters, as Spark defines it: NaN equals NaN, -0.0 equals
    0.0, keys of two types are compared in their common type, and NULL equals nothing.

    Args:
        fact: A Skipstone table, such as `scan_parquet` returns; or rows: Arrow, pandas, Polars.
        dim: Likewise; or a list of such tables. The result of another join can be one of them.
        on: The key's name on both sides, or a list of names, or a mapping: names of the probe side
            -> names of the build side. For several build sides a list with one of these for each.
        how: "inner", "left", "right", "full", "semi", "anti" or "not in", or Spark's names for
            them; the probe side is on the left. For several build sides one kind for all, or a
            list. Only the last may be "right" or "full".
        where_fact, where_dim: Conditions on the rows of each side.
        columns_fact, columns_dim: The columns to read; None reads all.
        null_safe: True if keys are compared by `<=>`.
        suffix: Appended to the name of a build side's column if the name is taken.
        threshold, max_values: The size that a filter may reach, see `DynamicFilterCollector`.
        timezone, ansi, case_sensitive: Spark's settings, see `PruningPredicate`.
        dynamic_filtering: True to filter by the keys, False to ignore them; None uses the table's
            setting, or else the environment's.
        wait: None reads the build sides first. A number reads them while the probe side is planned,
            which then waits this many seconds for their keys. Reading starts without the keys that
            are late; when they arrive, the files not yet read are planned again. This is faster if
            a build side is slow and rules out little of the probe side. Otherwise some files
            are read needlessly.

    Returns:
        An Arrow table in the order of the probe side: its columns, then those of each build side.
        Keys of the same name appear once. Semi, anti and NOT IN joins return the columns of the
        probe side only.

    Raises:
        UnknownColumn: a side lacks a key.
        AmbiguousColumn: a key's name fits several columns.
        PredicateError: the arguments do not fit each other, or two columns would have the same
            name.
        UnsupportedForm: Spark refuses to compare the keys, or raises an error for one of them.

    Source: Flink FLIP-248; Spark, dynamic partition pruning.

    Example:
        >>> import pyarrow.parquet as pq, tempfile, os, skipstone as ss
        >>> folder = tempfile.mkdtemp()
        >>> for day in range(4):
        ...     rows = pa.table({"day": [day, day], "price": [1.5, 2.5]})
        ...     pq.write_table(rows, os.path.join(folder, f"{day}.parquet"))
        >>> days = pa.table({"day": [0, 1, 2, 3], "year": [1999, 1999, 2000, 2000]})
        >>> sales = ss.scan_parquet(folder)
        >>> join(sales, days, on="day", where_dim="year = 2000 AND day < 3").to_pydict()
        {'day': [2, 2], 'price': [1.5, 2.5], 'year': [2000, 2000]}
    """
    try:
        given = inspect.signature(join).bind(*args, **options)
    except TypeError as e:
        raise TypeError(f"join() {e}") from None
    return join_explained(*given.args, **given.kwargs).table


def _read_concurrently(
    plan_probe: Callable[[], Plan], prepares: Sequence[Callable[[], None]], wait: float
) -> tuple[pa.Table, Plan]:
    """Read the probe side split by split, while the build sides are read.

    Args:
        plan_probe: Plans the probe side.
        prepares: Read each build side and report its keys.
        wait: Seconds to wait for the keys.

    Returns:
        The rows in the table's order, and the plan in the end.
    """
    with ContextPool(max(len(prepares), 1), "skipstone-build") as pool:
        jobs = [pool.submit(prepare) for prepare in prepares]
        splits = plan_probe().splits(wait=wait)
        for job in jobs:  # if a build side fails, so does the join: stop reading
            job.add_done_callback(
                lambda done: splits.stop() if done.exception() is not None else None
            )

        def read_splits() -> list[tuple[int, pa.Table]]:
            return [(split.containers[0], split.to_arrow()) for split in splits]

        with ContextPool(threads(), "skipstone-split") as readers:
            parts = [readers.submit(read_splits) for _ in range(threads())]
        for job in jobs:
            job.result()
        numbered = sorted(
            (split for part in parts for split in part.result()), key=lambda split: split[0]
        )
        tables = [table for _, table in numbered]
    plan = splits.plan
    empty = pa.schema([plan.table.schema.field(name) for name in plan.columns]).empty_table()
    return pa.concat_tables([empty, *tables]), plan


def _join_with(
    left: pa.Table, build: BuildSide, null_safe: bool, suffix: str, session: Session
) -> pa.Table:
    """Join rows with one build side."""
    right = build.rows
    assert right is not None
    left_keys = [
        resolved(name, left.schema.names, case_sensitive=session.case_sensitive)
        for name in build.on
    ]
    right_keys = [
        resolved(
            name,
            right.schema.names,
            case_sensitive=session.case_sensitive,
            side="the build side",
        )
        for name in build.on.values()
    ]
    for field in (*map(left.schema.field, left_keys), *map(right.schema.field, right_keys)):
        if (kind := special_type(field)) is not None:
            raise UnsupportedForm(
                f"the key {field.name!r} is {kind}, whose values are not compared as they are "
                "stored; join with another engine"
            )
    pairs = match(
        [left.column(n) for n in left_keys],
        [right.column(n) for n in right_keys],
        build.how,
        [null_safe] * len(left_keys),
        session,
    )
    if build.how in ("semi", "anti", "not in"):
        return left.take(pa.array(pairs.left))
    shared = {b: a for a, b in zip(left_keys, right_keys, strict=True) if a == b}
    first, second = take_rows(left, pairs.left), take_rows(right, pairs.right)
    return _side_by_side(first, second, shared, build, suffix, session)


def _side_by_side(
    first: pa.Table,
    second: pa.Table,
    shared: dict[str, str],
    build: BuildSide,
    suffix: str,
    session: Session,
) -> pa.Table:
    """Return the columns of both sides of matched rows.

    Args:
        first: The rows of the left side; NULL where there is no match.
        second: The rows of the build side, likewise.
        shared: Keys of the build side -> keys of the left side of the same name; they appear once.
        build: The build side.
        suffix: Appended to the name of a build side's column if the name is taken.
        session: Spark's settings.

    Raises:
        PredicateError: two columns would have one name.
    """
    out = {name: first.column(name) for name in first.column_names}
    for b, a in shared.items() if build.how in ("right", "full") else ():
        if build.how == "right":
            out[a] = second.column(b)
        else:
            out[a] = _coalesce_keys(first.column(a), second.column(b), session)
    for name in second.column_names:
        if name in shared:
            continue
        if build.columns is not None and name in build.extra_keys:
            continue
        new = name + suffix if name in out else name
        if new in out:
            raise PredicateError(
                f"the result would have two columns {new!r}; expected different names: "
                "choose columns_dim or another suffix"
            )
        out[new] = second.column(name)
    return pa.table(out)


def _coalesce_keys(a: pa.ChunkedArray, b: pa.ChunkedArray, session: Session) -> pa.ChunkedArray:
    """Return the key of the side that has a row, in the type in which both sides are compared."""
    if a.type != b.type:
        try:
            first, second = (as_spark_reads(plain(whole(side))) for side in (a, b))
            to = compared_in(from_arrow(first.type), from_arrow(second.type), session)
            first, second = (cast_array(side, to, session) for side in (first, second))
            if pa.types.is_nested(first.type):  # Arrow may spell one type differently
                second = pc.cast(second, first.type)
            a, b = pa.chunked_array([first]), pa.chunked_array([second])
        except CannotJudge as e:
            raise incomparable_keys(a, b, e) from None
    return pc.coalesce(a, b)
