"""What a plan asks of a table, and the sizes that both speak of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.plans.work import Work
    from skipstone.bindings.predicates.predicate import PruningPredicate
    from skipstone.bindings.statistics.statistics import Statistics
    from skipstone.bindings.tables.read import Tasks
    from skipstone.ir.errors import SourceError
    from skipstone.ir.node import Path

Mask: TypeAlias = npt.NDArray[np.bool_]
Positions: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DataSize:
    """How much data a set of containers holds; None is unknown, as soon as one container's is.

    Attributes:
        files: Files with at least one of the containers; None where folders were not listed.
        bytes: Compressed bytes of the row groups.
        rows: Physical rows.
        logical_rows: Rows that live: physical ones less deleted ones.

    Source: Delta Lake, `DataSize`.
    """

    files: int | None
    bytes: int | None
    rows: int | None
    logical_rows: int | None


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes at the three stages of planning: everything, after partition filters, after statistics."""

    total: DataSize
    partition: DataSize
    scan: DataSize


class PlannedTable(Protocol):
    """What a plan asks of its table."""

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        ...

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Names of the columns that have one value in each file."""
        ...

    @property
    def unreadable(self) -> Mapping[str, SourceError]:
        """Path -> error, of files of which nothing is known, and which are kept."""
        ...

    @property
    def unit(self) -> str:
        """What its containers are, for people: "row groups", "files"."""
        ...

    @property
    def work(self) -> Work:
        """What was read so far to plan it."""
        ...

    def statistics_in(self, timezone: str) -> Statistics:
        """Statistics of the containers, where partition values without a zone are read in this one."""
        ...

    def size(self, chosen: Mask) -> DataSize:
        """How much data some containers hold."""
        ...

    def logical_rows(self) -> Positions:
        """Rows that live in each container; -1 is unknown."""
        ...

    def null_counts(self, path: Path) -> Positions:
        """NULLs among the rows that live in each container; -1 is unknown."""
        ...

    def occurring(self, path: Path) -> tuple[Mask, Mask]:
        """Whether the least and the greatest value that are known of each container are those of a row that lives."""
        ...

    def row_groups_of(self, kept: Positions) -> dict[str, list[int]]:
        """Path -> indices of row groups, of some containers; an empty list is a file as a whole."""
        ...

    def tasks(self, plan: Plan, *, lenient: bool = False) -> Tasks:
        """How to read the matching rows, in table order; `lenient`: and those that cannot be judged here."""
        ...


@runtime_checkable
class LiveFiles(Protocol):
    """Extra method of a table whose files may be replaced in place; Delta's and Iceberg's never
    are.
    """

    def check_unchanged(self, containers: Positions) -> None:
        """Raise StaleFile if a file of these containers is not the one that was planned, as far as
        that is known cheaply.
        """
        ...


@runtime_checkable
class PrunedTable(Protocol):
    """What a plan asks besides of a table of which only what a predicate left was listed, and whose partitions tell more than its columns do."""

    def total(self) -> DataSize:
        """How much data the whole table holds."""
        ...

    def whole(self) -> PlannedTable:
        """The whole table."""
        ...

    def refined(
        self, predicate: PruningPredicate, verdicts: npt.NDArray[np.uint8]
    ) -> npt.NDArray[np.uint8]:
        """Verdicts, with what the partitions say as well."""
        ...
