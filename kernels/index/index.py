"""An index: the levels above containers, their coarse codes, and the order that they stand in."""

from __future__ import annotations

from collections.abc import Sequence
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
from skipstone.kernels.run.guard import Guard
from skipstone.kernels.run.launch import Launch
from skipstone.kernels.run.lru_cache import Kept

BLOCK: Final = 512  # containers, and blocks of every further level
Ends: TypeAlias = npt.NDArray[Any] | Sequence[int]
Blocking: TypeAlias = int | Ends | Sequence[Ends] | None


@dataclass
class Index:
    """Levels above containers, coarsest first.

    Attributes:
        leaf: The containers, in the order of the levels.
        levels: Each over the next, the last over `leaf`.
        coarse: The containers' coarse codes, if they are kept.
        order: Where each container of `leaf` stands in the table, int64 or int32; None: in the same place.
        guard: Of the order, if it comes from a file: to be touched before it is read.
        starts: By program the number of the level to start from: those before have settled too little.
        pays: By program, and whether the answer will be spread over all containers: whether coarse codes promise to pay.
        on: The device that levels, codes and leaf live on, if they do.
    """

    leaf: Packed
    levels: tuple[Level, ...]
    coarse: Coarse | None = None
    order: Order | None = None
    guard: Guard | None = None
    starts: Kept[Program, int] = field(default_factory=lambda: Kept(1024))
    pays: Kept[tuple[Program, bool], bool] = field(default_factory=lambda: Kept(1024))
    on: Resident | None = None

    def touch(self) -> None:
        """Verify the whole order."""
        if self.guard is not None:
            self.guard.touch()

    def __reduce__(self) -> tuple[Any, ...]:
        self.touch()
        return Index, (self.leaf, self.levels, self.coarse, self.order)

    def launch(self, source: Packed, program: Program) -> Launch:
        """The launch of a program over the leaf, a level or the codes, where they live."""
        made = source.launch(program)
        return made if self.on is None or made.on is not None else replace(made, on=self.on)

    @property
    def nbytes(self) -> int:
        """Bytes of what was made for levels and codes so far, host memory."""
        own = sum(level.nbytes for level in self.levels) + (
            self.coarse.nbytes if self.coarse else 0
        )
        return own + (0 if self.order is None else self.order.nbytes + self.leaf.nbytes)


def blocks_of(given: Blocking, n: int) -> list[Blocks]:
    """The groupings that `Statistics.index` was told, finest first."""
    if given is None:
        given = BLOCK
    groups: Any = given
    if isinstance(given, int | np.integer) or not len(given) or np.isscalar(given[0]):
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
) -> Index:
    """Levels over a source, of these columns at once and of others at first use.

    Args:
        source: n containers.
        grouped: The first levels.
        keys: Columns.
        by: Columns that decide the order; none: that of the source.
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
    return index
