"""Indexes: levels above containers, their coarse codes, and the order of containers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from skipstone.ir.lower import Program
from skipstone.ir.node import Path
from skipstone.ir.types import DType
from skipstone.kernels.gpu.resident import Resident
from skipstone.kernels.index.blocks import Blocks
from skipstone.kernels.index.levels import Coarse, Level, levels_over
from skipstone.kernels.index.order import Order, Reordered, order_of
from skipstone.kernels.pack.packed import Packed
from skipstone.kernels.run.bounded_cache import BoundedCache
from skipstone.kernels.run.guard import Guard
from skipstone.kernels.run.launch import Launch

BLOCK: Final = 512  # containers of a block, and blocks of a block in higher levels
Ends: TypeAlias = npt.NDArray[Any] | Sequence[int]
Blocking: TypeAlias = int | Ends | Sequence[Ends] | None


@dataclass
class Index:
    """Levels above containers, coarsest first.

    Attributes:
        leaf: The containers, in the order of the levels.
        levels: Each level lies over the next one, the last over `leaf`.
        coarse: The coarse codes of the containers, if any.
        order: The position in the table of each container of `leaf`, int64 or int32; None if it is
            the same.
        guard: The guard of the order, if it comes from a file. Verify it before the order is read.
        starts: By program, the number of the level to start from: those before it settled too
            little.
        pays: By program and whether the result is spread over all containers: True if coarse codes
            promise to pay.
        resident: The device that holds levels, codes and leaf, if any.
    """

    leaf: Packed
    levels: tuple[Level, ...]
    coarse: Coarse | None = None
    order: Order | None = None
    guard: Guard | None = None
    starts: BoundedCache[Program, int] = field(default_factory=lambda: BoundedCache(1024))
    pays: BoundedCache[tuple[Program, bool], bool] = field(
        default_factory=lambda: BoundedCache(1024)
    )
    resident: Resident | None = None

    def verify_order(self) -> None:
        """Verify the whole order.

        Raises:
            StatisticsError: the file of the order is damaged.
        """
        if self.guard is not None:
            self.guard.verify()

    def __reduce__(self) -> tuple[Any, ...]:
        self.verify_order()
        return Index, (self.leaf, self.levels, self.coarse, self.order)

    def launch(self, source: Packed, program: Program) -> Launch:
        """Return the launch of a program over the leaf, a level or the codes.

        It runs on their device if there is one.
        """
        made = source.launch(program)
        if self.resident is None or made.resident is not None:
            return made
        return replace(made, resident=self.resident)

    @property
    def nbytes(self) -> int:
        """Bytes of the columns of levels and codes made so far, host memory.

        They include a reordered leaf and its order.
        """
        own = sum(level.nbytes for level in self.levels) + (
            self.coarse.nbytes if self.coarse else 0
        )
        return own + (0 if self.order is None else self.order.nbytes + self.leaf.nbytes)


def blocks_of(given: Blocking, n: int) -> list[Blocks]:
    """Return the groupings that `Statistics.index` was given, finest first."""
    if given is None:
        given = BLOCK
    groups: Any = given
    if not hasattr(given, "__len__") or not len(groups) or np.isscalar(groups[0]):
        groups = [given]
    out: list[Blocks] = []
    for one in groups:
        out.append(Blocks.of(one, out[-1].count if out else n))
    return out


def build(
    source: Packed,
    grouped: list[Blocks],
    keys: Sequence[tuple[Path, DType]],
    by: Sequence[tuple[Path, DType]],
    done: Callable[[], None],
) -> Index:
    """Build levels over a source.

    Columns that are not in `keys` are summarised at first use.

    Args:
        source: n containers.
        grouped: The blocks of the first levels.
        keys: Columns to summarise now.
        by: Columns that decide the order; if empty, the source's order is kept.
        done: Called after each column of `keys`.
    """
    order = order_of([source.column(*key) for key in by], source.num_containers) if by else None
    leaf = source if order is None else Reordered(source, order)
    index = Index(
        leaf, levels_over(leaf, [b for b in grouped if b.count > 1], BLOCK), Coarse(leaf), order
    )
    for key in keys:
        for each in (*reversed(index.levels), index.coarse):
            if each is not None:
                each.column(*key)
        done()
    return index
