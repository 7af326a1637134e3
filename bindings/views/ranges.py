"""The ranges of a column in n containers, placed on its axis or in a margin beside it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.statistics.coerce_inputs import leaf_named
from skipstone.bindings.views.axis import FAR, Axis, PlacedBounds, Positions, axis_of, place
from skipstone.ir.arrow import plain, whole
from skipstone.ir.node import Path, show_path
from skipstone.ir.types import DType, Kind, leaves_of
from skipstone.kernels.pack.bounds import Bounds, Given, bounds_of
from skipstone.kernels.pack.planes import Mask

if TYPE_CHECKING:
    from skipstone.bindings.statistics.statistics import Statistics


class Margin(enum.IntEnum):
    """Tells whether a container is drawn on the axis, or in which margin beside it."""

    AXIS = 0
    NO_BOUNDS = 1
    ONLY_NULL = 2
    CONTRADICTORY = 3


MARGIN_NAMES: Final = {
    Margin.NO_BOUNDS: "no bounds: may hold any value",
    Margin.ONLY_NULL: "no values: only NULL, or no rows",
    Margin.CONTRADICTORY: "bounds that contradict each other, which are not used",
}


@dataclass(frozen=True, slots=True)
class Ranges:
    """The ranges of one column in n containers.

    Attributes:
        name, path: The column's name, as in SQL, and its path in the schema.
        dtype: Its type.
        axis: Its axis.
        low, high: Positions on the axis, shape (n,). An infinite one is an open end: the bound is
            unknown, infinite, or beyond `FAR`.
        known_low, known_high: Masks, shape (n,): True where that bound is known.
        margin: `Margin` of each container, uint8, shape (n,).
        placed: The bounds, for their text.
        note: A sentence about the column that the picture's legend says; "" if there is none.
    """

    name: str
    path: Path
    dtype: DType
    axis: Axis
    low: Positions
    high: Positions
    known_low: Mask
    known_high: Mask
    margin: npt.NDArray[np.uint8]
    placed: PlacedBounds
    note: str = ""

    @property
    def open_ends(self) -> int:
        """The number of containers on the axis that have an open end."""
        return int(
            ((self.margin == Margin.AXIS) & ~(np.isfinite(self.low) & np.isfinite(self.high))).sum()
        )

    def text(self, side: str, i: int) -> str:
        """Return a bound of a container as text; "unknown" if it is not known.

        Args:
            side: "min" or "max".
            i: The container.
        """
        known = self.known_low if side == "min" else self.known_high
        return self.placed.text(side, i) if known[i] else "unknown"


def ranges_of(statistics: Statistics, column: str) -> Ranges:
    """Place the ranges of a column.

    Args:
        statistics: n containers.
        column: The column's name; a struct's field is written `a.b`.

    Raises:
        UnknownColumn: the schema lacks the column.
    """
    leaf = leaf_named(column, leaves_of(statistics.schema), "a map")
    raw, n = statistics.raw(leaf.path), statistics.num_containers
    dtype, note = leaf.dtype, ""
    given = {"min": raw.min, "max": raw.max}
    if not dtype.ordered:
        placed = PlacedBounds("number", np.zeros(n), np.zeros(n), lambda side, i: "", float)
        known = [np.zeros(n, np.bool_)] * 2
        note = f"{dtype} has no order, so it has no bounds."
    else:
        bounds: list[Bounds | None] = [
            None if a is None else bounds_of(a, dtype, "min" if side == "min" else "max")
            for side, a in given.items()
        ]
        placed = place(bounds[0], bounds[1], dtype, n)
        known = [np.zeros(n, np.bool_) if b is None else _all_known(b.known, n) for b in bounds]
    positions = [placed.low, placed.high]
    if dtype.kind is Kind.FLOAT:
        known = [k & ~np.isnan(p) for k, p in zip(known, positions, strict=True)]
    margin = _margins(known, positions, _only_null(raw.null_count, raw.row_count, statistics, n))
    on_axis = margin == Margin.AXIS
    shown = [k & on_axis for k in known]
    axis = axis_of(placed, [p[k] for k, p in zip(shown, positions, strict=True)])
    low = np.where(shown[0] & (positions[0] >= -FAR), positions[0], -np.inf)
    high = np.where(shown[1] & (positions[1] <= FAR), positions[1], np.inf)
    # A minimum of +Infinity, or a maximum of -Infinity.
    low, high = np.where(low > FAR, np.inf, low), np.where(high < -FAR, -np.inf, high)
    return Ranges(
        show_path(leaf.path), leaf.path, dtype, axis, low, high, known[0], known[1], margin, placed,
        note,
    )  # fmt: skip


def _margins(
    known: list[Mask], positions: list[Positions], only_null: Mask
) -> npt.NDArray[np.uint8]:
    """Return the margin of each container.

    As in `kernels/pack/columns.py`, a minimum above the maximum makes both unknown, and so do
    bounds of a column that holds only NULL.
    """
    any_known = known[0] | known[1]
    inverted = known[0] & known[1] & (positions[0] > positions[1])
    margin = np.where(any_known, Margin.AXIS, Margin.NO_BOUNDS).astype(np.uint8)
    margin[only_null] = Margin.ONLY_NULL
    margin[inverted | (only_null & any_known)] = Margin.CONTRADICTORY
    return margin


def _only_null(nulls: Given | None, own_rows: Given | None, statistics: Statistics, n: int) -> Mask:
    """Return the mask of the containers in which the column has no value."""
    rows: Any = own_rows if own_rows is not None else statistics.row_count
    if rows is None:
        return np.zeros(n, np.bool_)
    counts = _counts(rows, n)
    empty: Mask = counts == 0
    if nulls is not None:
        empty |= (counts > 0) & (_counts(nulls, n) == counts)
    return empty


def _counts(array: Given, n: int) -> npt.NDArray[np.int64]:
    """Return counts; -1 is unknown."""
    values = plain(whole(array))
    try:
        return np.asarray(values.cast(pa.int64()).fill_null(-1).to_numpy(False), np.int64)
    except pa.ArrowInvalid:  # of another type than a count
        return np.full(n, -1, np.int64)


def _all_known(known: Mask | None, n: int) -> Mask:
    return np.ones(n, np.bool_) if known is None else known
