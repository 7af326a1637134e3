"""The statistics of an Iceberg table's columns as kernels want them, decoded at first use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skipstone.bindings.tables.iceberg.fields import Leaf, TableFields
from skipstone.bindings.tables.iceberg.manifest import LOWER, NANS, NULLS, UPPER, VALUES, Manifest
from skipstone.bindings.tables.iceberg.partition import Spec, joined, partition_raw
from skipstone.bindings.tables.iceberg.values import typed
from skipstone.ir.node import Path
from skipstone.kernels.pack.columns import Raw
from skipstone.kernels.run.pool import run_chunks


class FileColumns(Mapping[Path, Raw]):
    """The statistics of all columns of the files of some manifests.

    Args:
        fields: The table's columns.
        specs: Its partition specs, by id.
        manifests: In the order of the containers.
    """

    def __init__(
        self, fields: TableFields, specs: Mapping[int, Spec], manifests: Sequence[Manifest]
    ) -> None:
        self._fields, self._specs, self._manifests = fields, specs, manifests
        self._made: dict[Path, Raw] = {}

    def __getitem__(self, path: Path) -> Raw:
        if path not in self._made:
            self._made[path] = self._raw(self._fields.leaves[path])
        return self._made[path]

    def __iter__(self) -> Iterator[Path]:
        return iter(self._fields.leaves)

    def __len__(self) -> int:
        return len(self._fields.leaves)

    def _raw(self, leaf: Leaf) -> Raw:
        parts = [Raw()] * len(self._manifests)

        def work(first: int, stop: int) -> None:
            parts[first:stop] = [self._of_manifest(leaf, m) for m in self._manifests[first:stop]]

        run_chunks(work, len(parts), 1)
        return joined(parts, list(map(len, self._manifests)), leaf.type)

    def _of_manifest(self, leaf: Leaf, files: Manifest) -> Raw:
        spec = self._specs.get(files.spec)
        if spec is not None and (f := spec.exact(leaf.path)) is not None:
            # Every row of a file has the value of its partition, whatever the file itself says or lacks.
            raw = partition_raw(f, files)
            if raw.row_count is not None:
                return raw
        low, high = (_bounds(files, number, leaf) for number in (LOWER, UPPER))
        values, nulls, nans = (files.counts(number, leaf.id) for number in (VALUES, NULLS, NANS))
        if low is not None and high is not None and pa.types.is_floating(leaf.type):
            # Early ORC writers let NaN into bounds, and then neither of the two can be trusted.
            bad = pc.or_(pc.is_nan(low).fill_null(False), pc.is_nan(high).fill_null(False))
            low, high = (pc.if_else(bad, None, b) for b in (low, high))
        rows = pa.array(files.rows, mask=files.rows < 0)
        if (
            len(leaf.path) > 1
        ):  # whether values below a NULL struct are counted differs between writers
            return Raw(low, high, nulls, values, nans)
        if values is not None:
            # A file has a value of each column in each row. Counts that say otherwise are of something else.
            wrong = pc.not_equal(values, rows).fill_null(False)
            if pc.any(wrong).as_py():
                nulls, nans = (
                    None if c is None else pc.if_else(wrong, None, c) for c in (nulls, nans)
                )
        return Raw(low, high, nulls, rows, nans)


def _bounds(files: Manifest, number: int, leaf: Leaf) -> pa.Array | None:
    found = files.bounds(number, leaf.id)
    if found is None or not np.any(found.second >= 0):
        return None
    return typed(found, leaf.kind, leaf.type)
