"""The files that Delta selected for a scan in Spark, judged by the statistics of Delta's log."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skipstone.bindings.spark.pruning.cost import spread
from skipstone.bindings.spark.pruning.scan_files import Ints, UnjudgedFiles
from skipstone.bindings.tables.delta.replay import keys_of, paths_of
from skipstone.bindings.tables.delta.table import DeltaTable, scan_delta
from skipstone.ir.errors import UnsupportedForm
from skipstone.ir.node import Node, columns_of, show_path
from skipstone.ir.outcome import Verdict
from skipstone.ir.types import leaves_of
from skipstone.kernels.pack.planes import Mask

if TYPE_CHECKING:
    from skipstone.bindings.filters.scan import DynamicFilters
    from skipstone.bindings.predicates.predicate import PruningPredicate

NEVER_LISTED: Final = -1


class DeltaListing:
    """n files of one scan of a Delta table. Threads may share it.

    Delta selected them by its own statistics and partitions. A file is judged only if the log's
    entry has the same path, size, time and deletion vector.

    Args:
        text: As `DeltaFiles.java` writes it.
        partitioned: The partition columns.

    Raises:
        SourceError: the log cannot be read.
        UnjudgedFiles: another table lies there.
    """

    def __init__(self, text: str, partitioned: pa.Schema) -> None:
        root, version, own_id, *cells = text.split("\0")[:-1]
        self.partitioned = partitioned
        self.sizes: Ints = np.array(cells[1::4], np.int64)
        files = paths_of(pa.table({"path": pa.array(cells[0::4], pa.string())})).to_pylist()
        vectors = cells[3::4]
        self.paths = [
            f"{root}/{path}\n{vector}" for path, vector in zip(files, vectors, strict=True)
        ]
        self.table: DeltaTable = scan_delta(_location(root), int(version))
        if self.table.metadata["id"] != own_id:
            raise UnjudgedFiles(
                f"{root}: has the id {self.table.metadata['id']}, the scan's table {own_id}"
            )
        times = np.array(cells[2::4], np.int64)
        self._row = self._rows_of(files, vectors, times)

    def _rows_of(self, files: list[str], vectors: list[str], times: Ints) -> Ints:
        """Return the position of each file in the table; -1 if the log has no equal entry."""
        listed = self.table.files
        keys = [
            f"{path}\n{vector}" if vector else path
            for path, vector in zip(files, vectors, strict=True)
        ]
        own = pc.replace_substring_regex(pa.array(keys, pa.string()), r"^file:/+", "file:/")
        found = pc.index_in(own, value_set=keys_of(listed, decoded=True))
        row: Ints = found.fill_null(NEVER_LISTED).to_numpy().astype(np.int64)
        known = np.flatnonzero(row != NEVER_LISTED)
        for name, values in (("size", self.sizes), ("modificationTime", times)):
            logged = np.asarray(listed.column(name).fill_null(-1).to_numpy(), np.int64)
            row[known] = np.where(logged[row[known]] == values[known], row[known], NEVER_LISTED)
            known = np.flatnonzero(row != NEVER_LISTED)
        return row

    def __len__(self) -> int:
        return len(self.paths)

    def partition_mask(self, predicate: PruningPredicate) -> Mask:
        """Return True for each file: Delta has applied the conditions on partitions."""
        return np.ones(len(self), np.bool_)

    def filtered_partitions(self, filters: DynamicFilters) -> Mask:
        """Return the files whose partition may hold a row that joins need, bool, shape (n,)."""
        statistics = self.table.statistics.of_partitions(self.table.partition_columns)
        verdicts = np.full(statistics.num_containers, Verdict.MAYBE, np.uint8)
        return self._not_never(filters.judged(statistics, verdicts))

    def _not_never(self, verdicts: npt.NDArray[np.uint8]) -> Mask:
        out = np.ones(len(self), np.bool_)
        known = self._row != NEVER_LISTED
        out[known] = verdicts[self._row[known]] != Verdict.NEVER
        return out

    def keep_mask(
        self,
        predicate: PruningPredicate,
        candidates: Mask,
        *,
        case_sensitive: bool,
        filters: DynamicFilters | None = None,
    ) -> Mask:
        """Return which of some files may hold a matching row: bool, shape (n,).

        Args:
            predicate: Over the columns of the scan.
            candidates: Which files to judge, bool, shape (n,).
            case_sensitive: Ignored: Delta has resolved the names.
            filters: Dynamic filters that joins apply to the rows, or None.

        Raises:
            UnjudgedFiles: the log's schema has another type for a column.
        """
        self._check_types(predicate, filters)
        statistics = self.table.statistics_in(predicate.timezone)
        verdicts = predicate.evaluate(statistics)
        if filters is not None:
            verdicts = filters.judged(statistics, verdicts)
        return candidates & self._not_never(verdicts)

    def _check_types(self, predicate: PruningPredicate, filters: DynamicFilters | None) -> None:
        own, logged = leaves_of(predicate.schema), leaves_of(self.table.schema)
        names = () if filters is None else filters.columns
        for path in (*columns_of(predicate.node), *((name,) for name in names)):
            if path not in logged or own[path].dtype != logged[path].dtype:
                raise UnjudgedFiles(
                    f"{self.table.redacted_path}: the scan's column {show_path(path)} has another "
                    "type in the log"
                )

    def spread(self, column: str, candidates: Mask) -> float:
        """Return the share of some files' bytes that may hold one value of a column, on average.

        Args:
            column: A column of the table.
            candidates: The files, bool, shape (n,).
        """
        chosen = self._row[candidates]
        raw = self.table.statistics.raw((column,))
        if raw.min is None or raw.max is None or (chosen == NEVER_LISTED).any():
            return 1.0
        sizes = self.sizes[candidates]
        return spread(_taken(raw.min, chosen), _taken(raw.max, chosen), sizes)

    def rows(self, predicate: PruningPredicate, candidates: Mask, columns: list[str]) -> pa.Table:
        """Read the rows of the table that match a predicate: those of some files, and maybe more.

        Args:
            predicate: Over the columns of the scan.
            candidates: The files, bool, shape (n,).
            columns: The columns to read.

        Raises:
            SourceError: a file cannot be read.
            UnsupportedForm: rows cannot be judged by the predicate.
        """
        self._check_types(predicate, None)
        source = predicate.source
        if not isinstance(source, Node):
            raise UnsupportedForm("the condition was not made from a plan of Spark's")
        return self.table.plan(source, columns=columns, **predicate.settings).to_arrow()


def _taken(values: pa.Array | pa.ChunkedArray, chosen: Ints) -> pa.Array:
    taken = values.take(pa.array(chosen))
    return taken.combine_chunks() if isinstance(taken, pa.ChunkedArray) else taken


def _location(root: str) -> str:
    """Return a Hadoop path, which escapes no character, as a path or a URI."""
    scheme, _, path = root.partition(":")
    if scheme == "file":
        return re.sub("^/+", "/", path)
    return f"{scheme}:{quote(path)}"
