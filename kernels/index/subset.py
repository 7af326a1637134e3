"""Some words of a source's containers as a source of their own.

Programs over calls use it, so that calls are derived only for these containers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from skipstone.ir.node import Path
from skipstone.ir.types import DType
from skipstone.kernels.pack.columns import Column
from skipstone.kernels.pack.packed import Packed
from skipstone.kernels.pack.planes import Plane, WordNumbers
from skipstone.kernels.run.numpy_cpu import gather


class Subset(Packed):
    """The containers of some words, 64 each; those past the end of the last word are arbitrary."""

    def __init__(self, full: Packed, words: WordNumbers) -> None:
        super().__init__(full.files)
        self.full, self.words = full, words

    @property
    def num_containers(self) -> int:
        """64 for each word."""
        return len(self.words) * 64

    @property
    def bounds_elements(self) -> bool:
        """True if `column` knows the elements of arrays, and the keys and values of maps."""
        return self.full.bounds_elements

    def pack(self, path: Path, dtype: DType) -> Column:
        """Return the column's statistics in these containers."""
        c = self.full.peek(path, dtype)
        for guard in (c.guards or {}).values():
            guard.verify(self.words)
        own = c.rearranged(lambda b: np.ascontiguousarray(gather(b, self.words)), self._plane)
        return replace(own, guards=None)

    def pack_rows(self) -> Plane:
        """Return the plane of these containers that may hold rows."""
        return self._plane(self.full.rows_plane())

    def contained_in(
        self, path: Path, values: tuple[object, ...], dtype: DType
    ) -> pa.BooleanArray | None:
        """Return the full source's answer for these containers."""
        answer = self.full.contained_in(path, values, dtype)
        if answer is None:
            return None
        at = self.words.astype(np.int64)[:, None] * 64 + np.arange(64)
        return answer.take(pa.array(np.minimum(at, len(answer) - 1).ravel()))

    def _plane(self, plane: Plane) -> Plane:
        return plane if isinstance(plane, bool) else plane[self.words]
