"""Remember how much page statistics helped a query, to decide how to read later row groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# The rows after which page statistics must prove useful; the share of these rows that they must
# rule out; and how often they are tried again if they do not, because tables are not uniform.
FIRST_ROWS: Final = 1 << 18
LEAST_SHARE: Final = 8
TRY_EVERY: Final = 8


@dataclass(slots=True)
class PageHistory:
    """A prediction of whether pages help a query, from the row groups that it has read.

    Attributes:
        rows: The rows of the row groups whose page statistics were judged.
        remaining: The rows that page statistics did not rule out.
        skipped: How many times in a row they were not looked at.
        needed_share: The share of the untested columns' pages that hold a matching row; None:
            unknown.
    """

    rows: int = 0
    remaining: int = 0
    skipped: int = 0
    needed_share: float | None = None

    @property
    def is_new(self) -> bool:
        """True if nothing was judged yet."""
        return self.rows == 0

    @property
    def helps(self) -> bool:
        """True if page statistics have ruled out a fair share of rows."""
        return (self.rows - self.remaining) * LEAST_SHARE >= self.rows

    def is_worth_a_look(self) -> bool:
        """Return True if page statistics are likely to rule out rows of the next row groups."""
        if self.rows < FIRST_ROWS or self.helps or self.skipped >= TRY_EVERY:
            self.skipped = 0
            return True
        self.skipped += 1
        return False

    def add(self, rows: int, remaining: int) -> None:
        """Count rows that were judged by page statistics, and those that remain."""
        self.rows += rows
        self.remaining += remaining
