"""The protocol between plans and tables, and the sizes that both use."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.kernels.pack.planes import Mask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.plans.readers import ReaderName
    from skipstone.bindings.plans.request import PlanRequest
    from skipstone.bindings.plans.work import Work
    from skipstone.bindings.predicates.predicate import PruningPredicate
    from skipstone.bindings.statistics.statistics import Statistics
    from skipstone.bindings.tables.read import Tasks
    from skipstone.ir.errors import SourceError
    from skipstone.ir.node import Path

Positions: TypeAlias = npt.NDArray[np.int64]
Refinement: TypeAlias = "Callable[[PruningPredicate, npt.NDArray[np.uint8]], npt.NDArray[np.uint8]]"


def known_sum(values: npt.NDArray[np.int64]) -> int | None:
    """Return the sum of counts; None if one of them is unknown, which is -1."""
    return None if (values < 0).any() else int(values.sum())


@dataclass(frozen=True, slots=True)
class DataSize:
    """The amount of data in a set of containers; unknown numbers are None.

    Attributes:
        files: Files with at least one of the containers; None where folders were not listed.
        bytes: Compressed bytes of the row groups.
        rows: Physical rows.
        logical_rows: Live rows: physical rows without deleted ones.
        pages: Pages of the condition's columns; known only after `Plan.pages`, and only for the row
            groups that are read.

    Source: Delta Lake, `DataSize`.
    """

    files: int | None
    bytes: int | None
    rows: int | None
    logical_rows: int | None
    pages: int | None = None


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes at the three stages of planning.

    Attributes:
        total: The whole table.
        partition: The containers that remain after partition filters.
        scan: The containers that are read.
        pages: The row ranges of these that remain after page pruning, without their bytes; None
            until `Plan.pages` is used.
    """

    total: DataSize
    partition: DataSize
    scan: DataSize
    pages: DataSize | None = None


@dataclass(frozen=True, slots=True)
class DatasetFile:
    """The description of a plan's file that pyarrow.dataset needs.

    Attributes:
        path, filesystem: Where it is.
        metadata: Its footer, possibly without row groups; None if there is a problem.
        groups: The row groups to read; None or an empty list reads all.
        values: Column -> the value that all rows have, of columns that are not in the file.
        problem: Completes the sentence "a dataset cannot express that ..."; "" if it can be read.
    """

    path: str
    filesystem: Any
    metadata: Any
    groups: list[int] | None = None
    values: Mapping[str, pa.Scalar] = field(default_factory=dict)
    problem: str = ""


class PlannedTable(Protocol):
    """The methods that a plan needs of its table."""

    @property
    def schema(self) -> pa.Schema:
        """The table's columns."""
        ...

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Names of the columns that have one value in each file."""
        ...

    @property
    def unreadable(self) -> Mapping[str, SourceError]:
        """Path -> error of each file that could not be read.

        Such files have no statistics and are kept.
        """
        ...

    @property
    def unit(self) -> str:
        """The kind of the containers, for display: "row groups", "files"."""
        ...

    @property
    def work(self) -> Work:
        """What was read so far to plan the table."""
        ...

    def statistics_in(self, timezone: str) -> Statistics:
        """Return the containers' statistics, with partition values read in a time zone."""
        ...

    def size(self, chosen: Mask) -> DataSize:
        """Return how much data the chosen containers hold."""
        ...

    def logical_rows(self) -> Positions:
        """Return the live rows of each container; -1 is unknown."""
        ...

    def null_counts(self, path: Path) -> Positions:
        """Return the NULLs among the live rows of each container; -1 is unknown."""
        ...

    def occurring(self, path: Path) -> tuple[Mask, Mask]:
        """Return for each container whether its minimum and its maximum occur in a live row."""
        ...

    def row_groups_of(self, kept: Positions) -> dict[str, list[int]]:
        """Return path -> row group indices of some containers; an empty list means a whole file."""
        ...

    def full_path(self, path: str) -> str:
        """Return a file's path as plans name it, given the path that the format stores."""
        ...

    def tasks(self, plan: Plan, *, lenient: bool = False, reader: ReaderName = "auto") -> Tasks:
        """Return how to read the matching rows, in table order.

        Args:
            plan: The plan.
            lenient: True to add the rows for which the condition cannot be evaluated here.
            reader: The decoder of the files, where it can decode them.
        """
        ...

    def dataset_files(self, plan: Plan) -> Iterable[DatasetFile]:
        """Return what pyarrow.dataset must know about the files of a plan."""
        ...

    def check_unchanged(self, containers: Positions) -> None:
        """Raise StaleFile if a file of these containers is not the file that was planned.

        Only cheap checks are made.
        """
        ...

    def total(self, planned: Mask) -> DataSize:
        """Return how much data the whole table holds.

        Args:
            planned: True for every container that was planned.
        """
        ...

    def whole(self) -> PlannedTable:
        """Return the table with all files, including those that the condition kept unlisted."""
        ...

    def load(self, paths: Iterable[Path]) -> None:
        """Prefetch the statistics of these columns."""
        ...

    def refinement(self) -> Refinement | None:
        """Return a function that improves a predicate's verdicts by partition values.

        None: partition values add nothing to the statistics.
        """
        ...

    def replan(self, request: PlanRequest) -> Plan | None:
        """Return the plan of a request with fewer dynamic filters, which needs more files.

        None: all files are listed, so the plan's verdicts can be reused.
        """
        ...

    def why_missing(self, path: Path, statistic: str, containers: Positions) -> str:
        """Return why containers lack statistics of a column, for display; "" if it is not known.

        Args:
            path: The column.
            statistic: "bounds" or "null counts".
            containers: Positions of the containers.
        """
        ...

    @property
    def skipped_folders(self) -> int:
        """The number of folders that were not listed, because of their partition values."""
        ...


class CompleteTable:
    """Default methods of tables whose files are all listed, readable and never replaced.

    Tables inherit these methods, and override those that differ.
    """

    unreadable: Mapping[str, SourceError] = MappingProxyType({})
    skipped_folders: int = 0

    def check_unchanged(self, containers: Positions) -> None:
        """Do nothing: no file is ever replaced in place."""

    def full_path(self, path: str) -> str:
        """Return the path itself: the format has no other form of it."""
        return path

    def total(self: PlannedTable, planned: Mask) -> DataSize:
        """Return how much data the planned containers hold: these are all."""
        return self.size(planned)

    def whole(self: PlannedTable) -> PlannedTable:
        """Return the table itself."""
        return self

    def load(self, paths: Iterable[Path]) -> None:
        """Do nothing: each column is looked up by itself."""

    def refinement(self) -> Refinement | None:
        """Return None: partition values add nothing to the statistics."""
        return None

    def replan(self, request: PlanRequest) -> Plan | None:
        """Return None: all files are listed."""
        return None

    def why_missing(self, path: Path, statistic: str, containers: Positions) -> str:
        """Return "": it is not known."""
        return ""
