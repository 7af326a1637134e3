"""The data files in some manifests of an Iceberg table, as a plan needs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.plans.plan import Plan
from skipstone.bindings.plans.table_protocol import CompleteTable, DatasetFile, DataSize, known_sum
from skipstone.bindings.plans.work import Work
from skipstone.bindings.statistics.coerce_inputs import KEYS
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.tables.iceberg.columns import FileColumns
from skipstone.bindings.tables.iceberg.deletes import Deletes
from skipstone.bindings.tables.iceberg.manifest import Manifest
from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, int64_of, whole
from skipstone.ir.cached import cached_property
from skipstone.ir.errors import SourceError, counted
from skipstone.ir.node import Path, show_path
from skipstone.ir.outcome import Verdict
from skipstone.ir.types import TEXT
from skipstone.kernels.pack.planes import Mask, Verdicts

if TYPE_CHECKING:
    from skipstone.bindings.plans.readers import ReaderName
    from skipstone.bindings.plans.request import PlanRequest
    from skipstone.bindings.plans.table_protocol import Refinement
    from skipstone.bindings.predicates.predicate import PruningPredicate
    from skipstone.bindings.tables.iceberg.table import IcebergTable
    from skipstone.bindings.tables.read import Tasks


class IcebergFiles(CompleteTable):
    """The data files of the manifests that were read, and their deletes.

    The table's other manifests have no file that can match.

    Attributes:
        table: The table.
        manifests: The manifests of data files, in the order of the manifest list.
        deletes: The delete files.
        complete: True if these are all manifests of the table.
    """

    def __init__(
        self,
        table: IcebergTable,
        manifests: Sequence[Manifest],
        deletes: Sequence[Manifest],
        complete: bool,
    ) -> None:
        self.table, self.manifests, self.complete = table, manifests, complete
        self.deletes = Deletes.of(deletes, table.specs)
        self._ends = np.cumsum([len(m) for m in manifests], dtype=np.int64)
        if any((m.contents != 0).any() for m in manifests):
            raise SourceError(
                f"{table.path}: a manifest of data files lists deletes; expected data files only"
            )

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    @property
    def schema(self) -> pa.Schema:
        """The table's columns."""
        return self.table.schema

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The names of the columns that have one value in each file."""
        return self.table.partition_columns

    @property
    def unit(self) -> str:
        """The unit of the containers: "files"."""
        return "files"

    @cached_property
    def statistics(self) -> Statistics:
        """The statistics of the files."""
        columns = FileColumns(self.table.fields, self.table.specs, self.manifests)
        return Statistics(
            self.schema, len(self), columns, row_count=self._known_rows, counts_parents=True
        )

    def statistics_in(self, timezone: str) -> Statistics:
        """Return the statistics of the files; no partition value depends on the zone."""
        return self.statistics

    @cached_property
    def paths(self) -> pa.ChunkedArray:
        """The paths of the files, as in the manifests."""
        return pa.chunked_array([m.paths for m in self.manifests], pa.string())

    @cached_property
    def rows(self) -> npt.NDArray[np.int64]:
        """The physical rows of each file, int64; negative is unknown."""
        return _concatenate([m.rows for m in self.manifests])

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """The bytes of each file, int64."""
        return _concatenate([m.sizes for m in self.manifests])

    @property
    def sort_orders(self) -> npt.NDArray[np.int64]:
        """The id of each file's sort order, int64; negative is unknown."""
        return _concatenate([m.sort_orders for m in self.manifests])

    @cached_property
    def _logical(self) -> npt.NDArray[np.int64]:
        return _concatenate([self.deletes.live_rows(m) for m in self.manifests])

    def _known_rows(self) -> pa.Array:
        return arrow_of(self._logical, self._logical >= 0)

    def logical_rows(self) -> npt.NDArray[np.int64]:
        """Return the live rows of each file, int64; -1 is unknown."""
        return self._logical

    def null_counts(self, path: Path) -> npt.NDArray[np.int64]:
        """Return the NULLs among the live rows of each file, int64; -1 is unknown."""
        raw = self.statistics.raw(path)
        # Writers differ in whether a field's NULLs include the rows whose struct is NULL.
        if raw.null_count is None or raw.row_count is None or len(path) > 1:
            return np.full(len(self), -1, np.int64)
        nulls, rows = (int64_of(whole(c), -1) for c in (raw.null_count, raw.row_count))
        # Where the row count is 1, the counts are a partition value's: NULL or not.
        found = np.where(rows == 1, nulls * self.rows, nulls)
        return np.where((nulls == 0) | ((nulls > 0) & self._all_live), found, -1)

    def occurring(self, path: Path) -> tuple[Mask, Mask]:
        """Return for each file whether its minimum and its maximum occur in live rows.

        Partition values do. Other bounds do in files without deletes, for types that writers do not
        truncate; pyiceberg cuts nanoseconds.

        Source: Iceberg, `AggregateEvaluator`.
        """
        leaf = self.statistics.leaf(path)
        exact = leaf is not None and leaf.dtype.kind not in TEXT and leaf.dtype.unit != "ns"
        if path[0] not in self.partition_columns:
            occurs = self._all_live & exact
        else:
            occurs = np.ones(len(self), np.bool_)
        return occurs, occurs

    @cached_property
    def _all_live(self) -> Mask:
        """True for each file whose rows are all live."""
        found: Mask = (self.rows >= 0) & (self._logical == self.rows)
        return found

    @property
    def work(self) -> Work:
        """Counts of the files and bytes that were read for the table."""
        return self.table.work

    def size(self, chosen: Mask) -> DataSize:
        """Return how much data the chosen files hold."""
        return DataSize(
            int(chosen.sum()),
            known_sum(self.sizes[chosen]),
            known_sum(self.rows[chosen]),
            known_sum(self._logical[chosen]),
        )

    def total(self, planned: Mask) -> DataSize:
        """Return how much data the whole table holds, including manifests that were not read."""
        return self.size(planned) if self.complete else self.table.data_size

    def whole(self) -> IcebergFiles:
        """Return all files of the table; this reads every manifest."""
        return self.table.files

    def refinement(self) -> Refinement:
        """Return the function that adds the verdicts by transformed partition values."""
        return self._refine

    def replan(self, request: PlanRequest) -> Plan:
        """Return the plan of another request; it reads the manifests that this one needs."""
        return self.table.answer(request)

    def _refine(self, predicate: PruningPredicate, verdicts: Verdicts) -> Verdicts:
        """Combine verdicts by statistics with the verdicts by transformed partition values.

        Args:
            predicate: The condition.
            verdicts: The verdicts by statistics, uint8, one per file.
        """
        partitions = np.full(len(self), Verdict.MAYBE, np.uint8)
        for number, (positions, statistics) in self._by_spec.items():
            partitions[positions] = self.table.specs[number].judge(predicate, statistics)
        never, always = partitions == Verdict.NEVER, partitions == Verdict.ALWAYS
        return np.where(
            never,
            Verdict.NEVER,
            np.where(always & (verdicts == Verdict.MAYBE), Verdict.ALWAYS, verdicts),
        ).astype(np.uint8)

    @cached_property
    def _by_spec(self) -> Mapping[int, tuple[npt.NDArray[np.int64], Statistics]]:
        """Spec id -> the positions of its files, and the statistics of their partition values."""
        out = {}
        for number in {m.spec for m in self.manifests}:
            mine = [
                (m, end)
                for m, end in zip(self.manifests, self._ends.tolist(), strict=True)
                if m.spec == number
            ]
            positions = np.concatenate([np.arange(end - len(m), end) for m, end in mine])
            out[number] = positions, self.table.specs[number].statistics([m for m, _ in mine])
        return out

    def at(self, i: int) -> tuple[Manifest, int]:
        """Return the manifest of the i-th file, and the file's position in it."""
        m = int(np.searchsorted(self._ends, i, side="right"))
        return self.manifests[m], i - (int(self._ends[m - 1]) if m else 0)

    def row_groups_of(self, kept: npt.NDArray[np.int64]) -> dict[str, list[int]]:
        """Return path -> an empty list for the kept files: each is read whole."""
        return {path: [] for path in pc.take(self.paths, arrow_of(kept)).to_pylist()}

    def tasks(self, plan: Plan, *, lenient: bool = False, reader: ReaderName = "auto") -> Tasks:
        """Return the tasks that read the matching rows of a plan of these files.

        Args:
            plan: The plan.
            lenient: True to add the rows for which the condition cannot be evaluated here.
            reader: The decoder of the files, where it can decode them.
        """
        from skipstone.bindings.tables.iceberg.read_files import tasks_of
        from skipstone.bindings.tables.read import RowSelection

        return tasks_of(self, RowSelection.of(plan, lenient, reader), plan)

    def dataset_files(self, plan: Plan) -> Iterator[DatasetFile]:
        """Yield what pyarrow.dataset must know about the files of a plan."""
        from skipstone.bindings.tables.iceberg.dataset_files import dataset_files

        return dataset_files(self, plan)

    def stats_table(self) -> pa.Table:
        """Return the files with their statistics (`IcebergTable.with_stats`)."""
        counts = {
            "sort_order_id": self.sort_orders,
            "num_records": self.rows,
            "num_logical_records": self.logical_rows(),
        }
        columns: dict[str, Any] = {
            "path": self.paths,
            "size": self.sizes,
            **{name: arrow_of(v, v >= 0) for name, v in counts.items()},
        }
        for path in self.table.fields.leaves:
            raw = self.statistics.raw(path)
            for key in (*KEYS[:3], "nan_count"):
                if (values := getattr(raw, key)) is not None:
                    columns[f"{show_path(path)}.{key}"] = values
        return pa.table(columns)

    def __repr__(self) -> str:
        files = f"{counted(len(self), 'files')} of {counted(len(self.manifests), 'manifests')}"
        return f"IcebergFiles({files}, {self.table!r})"


def _concatenate(parts: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
