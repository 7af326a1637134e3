"""Check the arguments of a table's `plan` method."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from skipstone.bindings.filters.option import enabled
from skipstone.bindings.predicates.predicate import Condition, PruningPredicate
from skipstone.ir.errors import PredicateError, unknown_column
from skipstone.ir.functions.build import REGISTERED
from skipstone.ir.node import Node, Op
from skipstone.ir.session import Session, check_flag
from skipstone.ir.types import Kind, leaves_of
from skipstone.ir.zones import check_zone, zone_of
from skipstone.kernels.run.bounded_cache import BoundedCache

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skipstone.bindings.filters.data import DynamicFilterData
    from skipstone.bindings.filters.filter import DynamicFilter
    from skipstone.bindings.filters.scan import DynamicFilters
    from skipstone.bindings.plans.table_protocol import Refinement

T = TypeVar("T")
Dynamic: TypeAlias = (
    "Sequence[DynamicFilter | DynamicFilterData] | DynamicFilter | DynamicFilterData | None"
)


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """The arguments of a table's `plan` method.

    Attributes:
        where: The condition; None keeps everything.
        columns: The top-level columns to read; None reads all.
        limit: The number of matching rows that are needed; None means no limit.
        order_by: The order of the rows; None means table order.
        stats_skipping: Whether to prune by statistics; if False, only by partition values.
        footers: The most files whose footers are read because a Delta log lacks bounds.
        dynamic: Filters from joins.
        dynamic_filtering: Whether to use `dynamic`; None asks the environment.
        timezone, ansi, case_sensitive: Spark's settings.
    """

    where: Condition | None = None
    columns: list[str] | None = None
    limit: int | None = None
    order_by: str | Sequence[str] | None = None
    stats_skipping: bool = True
    footers: int = 0
    dynamic: Dynamic = None
    dynamic_filtering: bool | None = None
    timezone: str = "UTC"
    ansi: bool = True
    case_sensitive: bool = False

    def __post_init__(self) -> None:
        check_flag("stats_skipping", self.stats_skipping)
        whole = isinstance(self.footers, int | np.integer) and not isinstance(self.footers, bool)
        if not whole or self.footers < 0:
            raise PredicateError(
                f"footers is {self.footers!r:.60}; expected a number of files, 0 or more"
            )

    @property
    def settings(self) -> Session:
        """Spark's settings; a predicate has its own time zone."""
        where = self.where
        timezone = where.timezone if isinstance(where, PruningPredicate) else self.timezone
        return Session(timezone, self.ansi, self.case_sensitive)

    def predicate(self, schema: pa.Schema) -> PruningPredicate | None:
        """Return the condition as a predicate over a table's schema; None if there is none.

        Raises:
            PredicateError: the condition is malformed, it is a predicate over another schema, or
                a setting is none of Spark's.
        """
        if self.where is None:
            check_zone(self.settings.timezone)
            return None
        return predicate_over(
            schema,
            self.where,
            timezone=self.timezone,
            ansi=self.ansi,
            case_sensitive=self.case_sensitive,
        )

    def filters(
        self, schema: pa.Schema, refinement: Refinement | None = None
    ) -> DynamicFilters | None:
        """Return the filters from joins over a table's schema; None if there are none to use.

        Args:
            schema: The table's columns.
            refinement: See `PlannedTable.refinement`.

        Raises:
            DynamicFilterError: `dynamic` holds no dynamic filters.
        """
        if self.dynamic is None or not enabled(self.dynamic_filtering):
            return None
        from skipstone.bindings.filters.scan import DynamicFilters, filters_of

        filters = filters_of(self.dynamic)
        return DynamicFilters(filters, schema, self.settings, refine=refinement)


def check_limit(limit: int | None) -> int | None:
    """Return a limit as an int that fits 64 bits; None means no limit.

    Raises:
        PredicateError: the limit is not an integer, or it is negative.
    """
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int | np.integer) or limit < 0:
        raise PredicateError(f"limit is {limit!r}; expected a number of rows, 0 or more, or None")
    return min(int(limit), np.iinfo(np.int64).max)


def check_columns(columns: list[str] | None, names: list[str]) -> list[str]:
    """Return the columns to read; None means all names of the table.

    Raises:
        PredicateError: the columns are a single string, an empty list or no list, one is not a
            name, or one occurs twice.
        UnknownColumn: the table lacks a column.
    """
    if isinstance(columns, str):
        given = [part.strip() for part in columns.split(",")]
        several = columns not in names and all(part in names for part in given)
        raise PredicateError(
            f"columns is {columns!r}; expected a list of names, such as "
            f"{given if several else [columns]!r}"
        )
    if not isinstance(columns, Iterable | None):
        raise PredicateError(f"columns is {columns!r:.60}; expected a list of names")
    columns = None if columns is None else list(columns)
    if odd := [c for c in columns or () if not isinstance(c, str)]:
        raise PredicateError(
            f"columns has {odd[0]!r:.60} of type {type(odd[0]).__name__}; expected a list of names"
        )
    if columns is not None and not columns:
        raise PredicateError(
            "columns is empty; expected at least one of the table's columns, or None for all of "
            "them. Plan.count() counts rows"
        )
    for c in columns or ():
        if c not in names:
            raise unknown_column(str(c), names, "columns=", "the table has")
    if columns is not None and len({*columns}) < len(columns):
        twice = next(c for c in columns if columns.count(c) > 1)
        raise PredicateError(f"columns= names {twice!r} twice; name each column once")
    return columns or names


MENTIONS_NOW: Final = re.compile(
    r"\b(?:now|curdate|current_date|current_timestamp|localtimestamp|unix_timestamp)\b",
    re.IGNORECASE,
)
# The predicates of the latest texts, with their schemas, so that no other schema gets the same id.
MAX_KEPT_TEXT: Final = 1 << 12  # characters
_recent: Final = BoundedCache[Hashable, tuple[pa.Schema, PruningPredicate]](128)


def predicate_over(
    schema: pa.Schema, where: Condition, *, timezone: str, ansi: bool, case_sensitive: bool
) -> PruningPredicate:
    """Return a condition as a predicate over a table's schema.

    Raises:
        PredicateError: the condition is malformed, or it is a predicate over another schema.
    """
    settings = timezone, ansi, case_sensitive
    if (
        isinstance(where, str)
        and len(where) <= MAX_KEPT_TEXT
        and [type(value) for value in settings] == [str, bool, bool]
    ):
        key = where, id(schema), *settings, len(REGISTERED)
        return _recent.get(
            key,
            lambda: (
                schema,
                PruningPredicate(
                    where, schema, timezone=timezone, ansi=ansi, case_sensitive=case_sensitive
                ),
            ),
        )[1]
    if not isinstance(where, PruningPredicate):
        return PruningPredicate(
            where, schema, timezone=timezone, ansi=ansi, case_sensitive=case_sensitive
        )
    if where.schema is not schema and not same_columns(where.schema, schema):
        raise PredicateError(
            "the PruningPredicate was made for another schema; make it with table.schema, "
            "or pass its text"
        )
    return where


def same_columns(schema: pa.Schema, other: pa.Schema) -> bool:
    """Return True if two schemas have the same columns, metadata such as collations included."""
    return schema.equals(other) and leaves_of(schema) == leaves_of(other)


def may_have_unused_parts(predicate: PruningPredicate) -> bool:
    """Return False if all parts of a condition can certainly prune; this check imports nothing."""
    return (
        predicate.has_unknown
        or predicate.always_true
        or (isinstance(predicate.source, str) and '"' in predicate.source)
        or any(
            n.op is Op.COLUMN and n.dtype is not None and n.dtype.kind is Kind.OTHER
            for n in predicate.node.walk()
        )
    )


def at_plan_time(where: T, schema: pa.Schema, timezone: str) -> T | str | Node:
    """Replace functions that return the current time by the time of this call.

    The caller then plans, reads and displays the rows of one moment. In the text of a
    `PruningPredicate`, which may be kept for long, these functions remain unknown.

    Args:
        where: The condition.
        schema: The table's columns.
        timezone: The session's time zone, which decides what day it is.

    Raises:
        PredicateError: the condition is a text that cannot be read.
    """
    if not isinstance(where, str) or MENTIONS_NOW.search(where) is None:
        return where
    try:
        zone_of(timezone)
    except ValueError:
        return where  # the predicate raises the error
    from skipstone.bindings.predicates.current_time import at_moment

    return at_moment(where, schema.names, timezone)
