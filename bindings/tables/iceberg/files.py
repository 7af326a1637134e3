"""The data files of some manifests of a table: what a plan is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.plans.plan import Plan
from skipstone.bindings.plans.table_protocol import DataSize
from skipstone.bindings.plans.work import Work
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.tables.iceberg.columns import FileColumns
from skipstone.bindings.tables.iceberg.deletes import Deletes
from skipstone.bindings.tables.iceberg.manifest import Manifest
from skipstone.ir.cached import cached_property
from skipstone.ir.errors import SourceError
from skipstone.ir.node import Path
from skipstone.ir.outcome import Verdict
from skipstone.ir.types import Kind, whole

if TYPE_CHECKING:
    from skipstone.bindings.predicates.predicate import PruningPredicate
    from skipstone.bindings.tables.iceberg.table import IcebergTable
    from skipstone.bindings.tables.read import Tasks

Mask = npt.NDArray[np.bool_]
Verdicts = npt.NDArray[np.uint8]


class IcebergFiles:
    """The data files of the manifests that were read, and the deletes of them; the other ones of the table cannot match.

    Attributes:
        table: Whose they are.
        manifests: Of data files, in the order of the manifest list.
        deletes: The delete files.
        complete: Whether these are all manifests of the table.
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
            raise SourceError(f"{table.path}: a manifest of data files lists deletes")

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self.table.schema

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Names of the columns that have one value in each file."""
        return self.table.partition_columns

    @property
    def unit(self) -> str:
        """What its containers are."""
        return "files"

    @property
    def unreadable(self) -> Mapping[str, SourceError]:
        """None of its files was read."""
        return {}

    @cached_property
    def statistics(self) -> Statistics:
        """Of the files. Whether the null count of a struct's field includes the rows whose struct is NULL differs between writers."""
        columns = FileColumns(self.table.fields, self.table.specs, self.manifests)
        return Statistics(self.schema, len(self), columns, row_count=self._known_rows)

    def statistics_in(self, timezone: str) -> Statistics:
        """Of the files; no partition value is read in a zone."""
        return self.statistics

    @cached_property
    def paths(self) -> pa.ChunkedArray:
        """Of the files, as the manifests have them."""
        return pa.chunked_array([m.paths for m in self.manifests], pa.string())

    @cached_property
    def rows(self) -> npt.NDArray[np.int64]:
        """Physical rows of each file; negative is unknown."""
        return _joined([m.rows for m in self.manifests])

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Bytes of each file."""
        return _joined([m.sizes for m in self.manifests])

    @property
    def sort_orders(self) -> npt.NDArray[np.int64]:
        """The id of the order that each file is sorted by; negative is unknown."""
        return _joined([m.sort_orders for m in self.manifests])

    @cached_property
    def _logical(self) -> npt.NDArray[np.int64]:
        return _joined([self.deletes.living(m) for m in self.manifests])

    def _known_rows(self) -> pa.Array:
        return pa.array(self._logical, mask=self._logical < 0)

    def logical_rows(self) -> npt.NDArray[np.int64]:
        """Rows that live in each file, int64; -1 is unknown."""
        return self._logical

    def null_counts(self, path: Path) -> npt.NDArray[np.int64]:
        """NULLs among the rows that live in each file; -1 is unknown."""
        raw = self.statistics.raw(path)
        # Whether rows whose struct is NULL are among those of its fields differs between writers.
        if raw.null_count is None or raw.row_count is None or len(path) > 1:
            return np.full(len(self), -1, np.int64)
        nulls, rows = (
            np.asarray(whole(c).fill_null(-1).to_numpy(zero_copy_only=False), np.int64)
            for c in (raw.null_count, raw.row_count)
        )
        # Of a partition value they only say whether it is NULL, of one row.
        found = np.where(rows == 1, nulls * self.rows, nulls)
        return np.where((nulls == 0) | ((nulls > 0) & self._untouched), found, -1)

    def occurring(self, path: Path) -> tuple[Mask, Mask]:
        """Whether bounds are values of rows that live: partition values, and of files without deletes those that writers do not cut.

        Source: Iceberg, `AggregateEvaluator`.
        """
        leaf = self.statistics.leaf(path)
        told = leaf is not None and leaf.dtype.kind not in (Kind.STRING, Kind.BINARY)
        found = (
            self._untouched & told
            if path[0] not in self.partition_columns
            else np.ones(len(self), np.bool_)
        )
        return found, found

    @cached_property
    def _untouched(self) -> Mask:
        """Whether all rows of a file live."""
        found: Mask = (self.rows >= 0) & (self._logical == self.rows)
        return found

    @property
    def work(self) -> Work:
        """What was read of the table."""
        return self.table.work

    def size(self, chosen: Mask) -> DataSize:
        """How much data some files hold."""
        return DataSize(
            int(chosen.sum()),
            _sum(self.sizes, chosen),
            _sum(self.rows, chosen),
            _sum(self._logical, chosen),
        )

    def total(self) -> DataSize:
        """How much data the table holds, manifests that were not read included."""
        return self.size(np.ones(len(self), np.bool_)) if self.complete else self.table.data_size

    def whole(self) -> IcebergFiles:
        """All files of the table."""
        return self.table.files

    def refined(self, predicate: PruningPredicate, verdicts: Verdicts) -> Verdicts:
        """Verdicts, with what partitions by transforms of columns tell."""
        partitions = np.full(len(self), Verdict.MAYBE, np.uint8)
        for number, (places, statistics) in self._by_spec.items():
            partitions[places] = self.table.specs[number].judge(predicate, statistics)
        never, always = partitions == Verdict.NEVER, partitions == Verdict.ALWAYS
        return np.where(
            never,
            Verdict.NEVER,
            np.where(always & (verdicts == Verdict.MAYBE), Verdict.ALWAYS, verdicts),
        ).astype(np.uint8)

    @cached_property
    def _by_spec(self) -> Mapping[int, tuple[npt.NDArray[np.int64], Statistics]]:
        """For each spec the places of its files, and the values of their partitions."""
        out = {}
        for number in {m.spec for m in self.manifests}:
            mine = [
                (m, end)
                for m, end in zip(self.manifests, self._ends.tolist(), strict=True)
                if m.spec == number
            ]
            places = np.concatenate([np.arange(end - len(m), end) for m, end in mine])
            out[number] = places, self.table.specs[number].statistics([m for m, _ in mine])
        return out

    def at(self, i: int) -> tuple[Manifest, int]:
        """The manifest of the i-th file, and its place there."""
        m = int(np.searchsorted(self._ends, i, side="right"))
        return self.manifests[m], i - (int(self._ends[m - 1]) if m else 0)

    def row_groups_of(self, kept: npt.NDArray[np.int64]) -> dict[str, list[int]]:
        """Path -> an empty list: files are kept whole."""
        return {path: [] for path in self.paths.take(pa.array(kept)).to_pylist()}

    def tasks(self, plan: Plan, *, lenient: bool = False) -> Tasks:
        """How to read the rows that match a plan of these files."""
        from skipstone.bindings.tables.iceberg.read import tasks_of

        return tasks_of(self, plan, lenient)

    def __repr__(self) -> str:
        return f"IcebergFiles({len(self)} files of {len(self.manifests)} manifests, {self.table!r})"


def _joined(parts: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _sum(values: npt.NDArray[np.int64], chosen: Mask) -> int | None:
    """The sum of some values; None: one of them is not known."""
    some = values[chosen]
    return None if (some < 0).any() else int(some.sum())
