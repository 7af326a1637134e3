"""Limits on the size of a dynamic filter."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from skipstone.ir.errors import DynamicFilterError

SIZE_UNITS: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE: Final = re.compile(
    r"\s*(-?\d+(?:\.\d+)?)\s*([kmgt]?)i?(b|bytes)?\s*", re.IGNORECASE | re.ASCII
)
DEFAULT_RANGES: Final = 1024  # ranges of a column that has too many values


@dataclass(frozen=True, slots=True)
class Limits:
    """The size up to which keys are stored, and what happens beyond it.

    Attributes:
        nbytes: Maximum bytes of the distinct rows; None for no limit.
        values: Maximum number of distinct rows, and of distinct values of a column; None for no
            limit.
        ranges: Maximum number of ranges that replace a column's values if there are too many.
        degrade: True if ranges replace them; if False, a filter that is too large filters nothing.
    """

    nbytes: int | None
    values: int | None
    ranges: int
    degrade: bool

    def fits(self, count: int, nbytes: int, share: int = 1) -> bool:
        """Return True if values may be stored.

        Args:
            count: The number of values.
            nbytes: Their bytes.
            share: The number of columns that share the byte limit.
        """
        return (self.values is None or count <= self.values) and (
            self.nbytes is None or nbytes <= self.nbytes / share
        )

    def ranges_of(self, widest: int, share: int) -> int:
        """Return the maximum number of ranges of a column; 0 allows none.

        Args:
            widest: Bytes of the column's longest value.
            share: The number of columns that share the byte limit.
        """
        if self.nbytes is None:
            return self.ranges
        return max(
            min(self.ranges, self.nbytes // (share * 2 * max(widest, 1))),
            int(widest <= self.nbytes),
        )


def limits_of(
    threshold: str | int | None, max_values: int | None, ranges: int, on_overflow: str
) -> Limits:
    """Return the limits that a collector's arguments describe.

    Raises:
        DynamicFilterError: a limit is malformed.
    """
    if on_overflow not in ("degrade", "all"):
        raise DynamicFilterError(f"on_overflow is {on_overflow!r}; expected 'degrade' or 'all'")
    for name, count in (("max_values", max_values), ("ranges", ranges)):
        if (count is not None or name == "ranges") and (
            isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1
        ):
            or_none = " or None" if name == "max_values" else ""
            raise DynamicFilterError(f"{name} is {count!r}; expected a positive integer{or_none}")
    return Limits(
        bytes_of(threshold),
        None if max_values is None else int(max_values),
        int(ranges),
        on_overflow == "degrade",
    )


def bytes_of(size: str | int | None) -> int | None:
    """Return a size in bytes; None, zero and negative sizes mean no limit.

    Raises:
        DynamicFilterError: the size is malformed.

    Example:
        >>> bytes_of("32MiB"), bytes_of("8 mb"), bytes_of(0)
        (33554432, 8388608, None)

    Source: Flink, `MemorySize`, in which kb is 1,024 bytes as well.
    """
    if isinstance(size, str):
        parsed = _SIZE.fullmatch(size)
        if parsed is None:
            raise _bad_threshold(size)
        size = int(float(parsed[1]) * SIZE_UNITS[parsed[2].lower()])
    if size is not None and (isinstance(size, bool) or not isinstance(size, int | np.integer)):
        raise _bad_threshold(size)
    return None if size is None or size <= 0 else int(size)


def _bad_threshold(size: object) -> DynamicFilterError:
    return DynamicFilterError(
        f"the threshold is {size!r}; expected a size such as '32MiB', a number of bytes, "
        "or None for no limit"
    )
