"""The files of a scan that registered statistics judge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skipstone.bindings.spark.pruning.cost import UNKNOWN_BOUNDS, ColumnBounds
from skipstone.bindings.spark.pruning.listed_files import ListedFiles
from skipstone.bindings.spark.pruning.scan_files import ScanFiles
from skipstone.bindings.spark.registered.listed_rows import NO_ROW
from skipstone.bindings.spark.registered.registry import RegisteredStatistics
from skipstone.bindings.spark.statistics.needed import ROW_COUNT, spellings
from skipstone.bindings.statistics.coerce_inputs import KEYS, PACKED, array_of
from skipstone.bindings.statistics.membership import values_and_blooms_of
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.tables.files import Ints
from skipstone.bindings.tables.partition_values import constant_statistics
from skipstone.ir.arrow import whole
from skipstone.ir.outcome import Verdict
from skipstone.ir.types import leaves_of
from skipstone.kernels.pack.bounds import Given
from skipstone.kernels.pack.columns import ColumnStatistics
from skipstone.kernels.pack.planes import Mask

if TYPE_CHECKING:
    from skipstone.bindings.filters.scan import DynamicFilters
    from skipstone.bindings.predicates.predicate import PruningPredicate
    from skipstone.ir.node import Path


class RegisteredListing(ListedFiles):
    """Files of one scan that registered statistics judge; others stay. Threads may share it.

    Args:
        text, partitions, data, partitioned: As in `ListedFiles`.
        registered: The statistics; the first that has a file judges it.
        case_sensitive: Whether Spark distinguishes names by case.
        footers: Makes the same list with footers, to read rows by.
    """

    def __init__(
        self,
        text: str,
        partitions: str,
        data: pa.Schema,
        partitioned: pa.Schema,
        registered: Sequence[RegisteredStatistics],
        case_sensitive: bool,
        footers: Callable[[], ScanFiles],
    ) -> None:
        super().__init__(text, partitions, data, partitioned)
        self._footers = footers
        self._parts: list[tuple[Ints, Statistics]] = []  # positions of files, their statistics
        known = np.zeros(len(self), np.bool_)
        for one in registered:
            row = one.rows_of(self.paths, self.sizes, self.times)
            row[known] = NO_ROW
            chosen = np.flatnonzero(row != NO_ROW)
            known[chosen] = True
            if len(chosen):
                columns = _Columns(one, row[chosen], self.data, case_sensitive)
                self._parts.append((chosen, self._statistics(columns, chosen)))
        self._known = known
        self.by = self._shown(registered)

    def _shown(self, registered: Sequence[RegisteredStatistics]) -> str:
        missing = len(self) - int(self._known.sum())
        others = f"; {missing} of {len(self)} files are not registered or have changed"
        return (
            f"registered statistics ({', '.join(dict.fromkeys(r.check for r in registered))})"
            + (others if missing else "")
        )

    def _statistics(self, columns: _Columns, chosen: Ints) -> Statistics:
        """Return the statistics of some files, by the columns of the scan and its partitions."""
        partition = pa.array(self.partition[chosen])
        for name, values in self.values.items():
            columns.put((name,), constant_statistics(values.take(partition)))
        extras = columns.extras()
        return Statistics(
            pa.schema([*self.data, *self.partitioned]),
            len(chosen),
            columns,
            row_count=columns.row_count(),
            extras=extras,
            members=values_and_blooms_of(extras, leaves_of(self.data)),
        )

    def keep_mask(
        self,
        predicate: PruningPredicate,
        candidates: Mask,
        *,
        case_sensitive: bool,
        filters: DynamicFilters | None = None,
    ) -> Mask:
        """Return which of some files may hold a matching row; see `ScanFiles.keep_mask`."""
        out = candidates.copy()
        for chosen, statistics in self._parts:
            verdicts = predicate.evaluate(statistics)
            if filters is not None:
                verdicts = filters.judged(statistics, verdicts)
            out[chosen] &= verdicts != Verdict.NEVER
        return out

    def bounds(self, column: str, candidates: Mask) -> ColumnBounds:
        """Return the bounds of a column in some files; those of a changed file are unknown."""
        low, high, nbytes = [], [], [self.sizes[candidates & ~self._known]]
        for chosen, statistics in self._parts:
            raw, wanted = statistics.raw((column,)), pa.array(candidates[chosen])
            if raw is None or raw.min is None or raw.max is None:
                return UNKNOWN_BOUNDS
            low.append(whole(raw.min).filter(wanted))
            high.append(whole(raw.max).filter(wanted))
            nbytes.insert(-1, self.sizes[chosen][candidates[chosen]])
        if not low or len({a.type for a in (*low, *high)}) > 1:
            return UNKNOWN_BOUNDS
        unknown = pa.nulls(len(nbytes[-1]), low[0].type)
        lowest, highest = (pa.concat_arrays([*side, unknown]) for side in (low, high))
        return ColumnBounds(lowest, highest, np.concatenate(nbytes))

    def rows(
        self,
        predicate: PruningPredicate,
        candidates: Mask,
        columns: list[str],
        *,
        case_sensitive: bool,
    ) -> pa.Table:
        """Read the rows of some files that match a predicate, as `Listing.rows` does."""
        return self._footers().rows(predicate, candidates, columns, case_sensitive=case_sensitive)


class _Columns(Mapping["Path", ColumnStatistics]):
    """Registered statistics of some rows by the scan's columns, taken at first use.

    Args:
        registered: The statistics.
        rows: The rows to take.
        data: The columns of the scan.
        case_sensitive: Whether Spark distinguishes names by case.
    """

    def __init__(
        self, registered: RegisteredStatistics, rows: Ints, data: pa.Schema, case_sensitive: bool
    ) -> None:
        self._registered, self._rows, self._data = registered, rows, data
        self._leaves = leaves_of(data)
        self._names = _resolved(registered.statistics, list(self._leaves), case_sensitive)
        self._taken: dict[Path, ColumnStatistics] = {}

    def put(self, path: Path, raw: ColumnStatistics) -> None:
        """Add the statistics of a column."""
        self._taken[path] = raw

    def __getitem__(self, path: Path) -> ColumnStatistics:
        found = self._taken.get(path)
        if found is None:
            arrays = self._arrays(path, PACKED)
            if not arrays:
                raise KeyError(path)
            found = self._taken[path] = ColumnStatistics(*(arrays.get(key) for key in PACKED))
        return found

    def __contains__(self, path: object) -> bool:
        return path in self._taken or path in self._names

    def __iter__(self) -> Iterator[Path]:
        return iter(dict.fromkeys((*self._names, *self._taken)))

    def __len__(self) -> int:
        return len(self._names.keys() | self._taken.keys())

    def _arrays(self, path: Path, keys: Sequence[str]) -> dict[str, Given]:
        names = {key: name for key, name in self._names[path].items() if key in keys}
        return {
            key: array_of(
                key, self._registered.taken(name, self._rows), self._data, self._leaves[path]
            )
            for key, name in names.items()
        }

    def extras(self) -> dict[Path, dict[str, pa.Array]]:
        """Return exactness of bounds, value lists and bloom filters by column."""
        keys = [key for key in KEYS if key not in PACKED]
        return {path: found for path in self._names if (found := self._arrays(path, keys))}

    def row_count(self) -> Given | None:
        """Return the rows of each file, if they are registered."""
        if ROW_COUNT not in self._registered.statistics:
            return None
        return self._registered.taken(ROW_COUNT, self._rows)


def _resolved(
    given: Sequence[str], paths: Sequence[Path], case_sensitive: bool
) -> dict[Path, dict[str, str]]:
    """Return the names of statistics by column and key; a name for two columns is left out."""
    fold = str if case_sensitive else str.lower
    columns: dict[str, Path | None] = {}
    for path in sorted(paths, key=len):  # a column at the top takes precedence
        for name in map(fold, spellings(path)):
            other = columns.setdefault(name, path)
            if other is not None and other != path and len(other) == len(path):
                columns[name] = None
    found: dict[tuple[Path, str], list[str]] = {}
    for name in given:
        column, _, key = name.rpartition(".")
        if (own := columns.get(fold(column))) is not None:
            found.setdefault((own, key), []).append(name)
    out: dict[Path, dict[str, str]] = {}
    for (path, key), names in found.items():
        if len(names) == 1:
            out.setdefault(path, {})[key] = names[0]
    return out
