"""How large a dynamic filter may grow."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from skipstone.ir.errors import DynamicFilterError

UNITS: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE: Final = re.compile(
    r"\s*(-?\d+(?:\.\d+)?)\s*([kmgt]?)i?(b|bytes)?\s*", re.IGNORECASE | re.ASCII
)
RANGES: Final = 1024  # of a column whose values are too many


@dataclass(frozen=True, slots=True)
class Limits:
    """Up to which size keys are kept, and what happens beyond.

    Attributes:
        nbytes: Bytes of the distinct rows; None: any.
        values: Distinct rows, and distinct values of a column; None: any number.
        ranges: Ranges that the values of a column become where they are too many.
        degrade: Whether they do; else a filter that is too large filters nothing.
    """

    nbytes: int | None
    values: int | None
    ranges: int
    degrade: bool

    def fits(self, count: int, nbytes: int, share: int = 1) -> bool:
        """Whether so many values of so many bytes may be kept, of one column among `share`."""
        return (self.values is None or count <= self.values) and (
            self.nbytes is None or nbytes <= self.nbytes / share
        )

    def ranges_of(self, widest: int, share: int) -> int:
        """How many ranges a column among `share` may have, if its longest value takes so many bytes; 0: none."""
        if self.nbytes is None:
            return self.ranges
        return max(
            min(self.ranges, self.nbytes // (share * 2 * max(widest, 1))),
            int(widest <= self.nbytes),
        )


def limits_of(
    threshold: str | int | None, max_values: int | None, ranges: int, on_overflow: str
) -> Limits:
    """What a collector was told.

    Raises:
        DynamicFilterError: a size that is none.
    """
    if on_overflow not in ("degrade", "all"):
        raise DynamicFilterError(f"on_overflow is {on_overflow!r}; expected 'degrade' or 'all'")
    for name, count in (("max_values", max_values), ("ranges", ranges)):
        if count is not None and (
            isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1
        ):
            raise DynamicFilterError(
                f"{name} is {count!r}; expected a positive integer{' or None' if name == 'max_values' else ''}"
            )
    return Limits(
        bytes_of(threshold),
        None if max_values is None else int(max_values),
        int(ranges),
        on_overflow == "degrade",
    )


def bytes_of(size: str | int | None) -> int | None:
    """A size in bytes; None: no limit, as zero and negative ones mean too.

    Example:
        >>> bytes_of("32MiB"), bytes_of("8 mb"), bytes_of(0)
        (33554432, 8388608, None)

    Source: Flink, `MemorySize`, for which kb is 1,024 bytes as well.
    """
    if isinstance(size, str):
        found = _SIZE.fullmatch(size)
        if found is None:
            raise DynamicFilterError(
                f"the threshold is {size!r}; expected a size such as '32MiB', a number of bytes, or None for no limit"
            )
        size = int(float(found[1]) * UNITS[found[2].lower()])
    if size is not None and (isinstance(size, bool) or not isinstance(size, int | np.integer)):
        raise DynamicFilterError(
            f"the threshold is {size!r}; expected a size such as '32MiB', a number of bytes, or None for no limit"
        )
    return None if size is None or size <= 0 else int(size)
