"""A workload: the conditions that a table's queries have, each with its weight."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from skipstone.bindings.layout.workload_sql import Unread, read_workload
from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.ir.errors import PredicateError, SkipstoneError, clip
from skipstone.ir.node import Path, columns_of

if TYPE_CHECKING:
    from skipstone.bindings.predicates.predicate import Condition


_FILE: Final = re.compile(r"[^\s'\"`=<>()]+\.(sql|txt)", re.IGNORECASE)  # no condition


@dataclass(frozen=True, slots=True)
class Query:
    """A condition of a workload.

    Attributes:
        predicate: The condition over the table's schema.
        weight: How often the workload has it.
        text: The original condition, on one line.
    """

    predicate: PruningPredicate
    weight: int
    text: str


@dataclass(frozen=True, slots=True)
class Workload:
    """The conditions of a table's queries.

    Attributes:
        queries: The conditions, in the order of their first occurrence.
        unread: What could not be used, and why.
        full_reads: The number of queries that read the table without a condition on it.
    """

    queries: tuple[Query, ...]
    unread: tuple[Unread, ...] = ()
    full_reads: int = 0

    @property
    def paths(self) -> tuple[Path, ...]:
        """The columns that the conditions compare, those with the greatest weight first."""
        weights: dict[Path, int] = {}
        for query in self.queries:
            for path in columns_of(query.predicate.node):
                weights[path] = weights.get(path, 0) + query.weight
        return tuple(sorted(weights, key=lambda path: -weights[path]))

    @property
    def weight(self) -> int:
        """The number of queries."""
        return sum(q.weight for q in self.queries)


def workload_of(
    given: Condition | Iterable[Condition] | str,
    schema: pa.Schema,
    *,
    name: str | None = None,
    folder: str | None = None,
    timezone: str = "UTC",
) -> Workload:
    """Read a workload.

    Args:
        given: Conditions of any form; text may also hold whole queries, or many conditions.
        schema: The table's columns.
        name, folder: The table's name in queries; see `read_workload`.
        timezone: The time zone of Spark's session.

    Raises:
        PredicateError: `given` is not a workload.
    """
    conditions: list[Condition] = []
    unread: list[Unread] = []
    full_reads = 0
    for one in _items(given):
        if isinstance(one, str):
            read = read_workload(one, schema.names, name, folder)
            conditions += read.conditions
            unread += read.unread
            full_reads += len(read.full_reads)
        else:
            conditions.append(one)
    found: dict[PruningPredicate, tuple[int, str]] = {}
    for condition in conditions:
        try:
            predicate = (
                condition
                if isinstance(condition, PruningPredicate)
                else PruningPredicate(condition, schema, timezone=timezone)
            )
        except SkipstoneError as e:
            if not isinstance(condition, str):
                raise
            unread.append(Unread(condition, " ".join(e.args[0].split()) if e.args else str(e)))
            continue
        text = " ".join((condition if isinstance(condition, str) else predicate.expr).split())
        weight, first = found.get(predicate, (0, text))
        found[predicate] = weight + 1, first
    queries = tuple(Query(p, weight, text) for p, (weight, text) in found.items())
    return Workload(queries, tuple(unread), full_reads)


def _is_file(path: str) -> PredicateError:
    """Return the error for the path of a workload."""
    return PredicateError(
        f"workload is the path {clip(path)!r}; expected its text: pathlib.Path({clip(path)!r})"
        ".read_text()"
    )


def _items(given: object) -> Sequence[Condition]:
    if isinstance(given, str):
        if _FILE.fullmatch(given.strip()):
            raise _is_file(given.strip())
        return [given]
    if isinstance(given, os.PathLike):
        raise _is_file(os.fsdecode(given))
    if isinstance(given, PruningPredicate):
        return [given]
    if isinstance(given, Iterable):
        return list(given)
    raise PredicateError(
        f"workload is {type(given).__name__}; expected a list of conditions, or text that holds "
        "conditions or queries"
    )
