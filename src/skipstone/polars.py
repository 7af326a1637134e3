"""Skipstone in Polars: tables of every format as lazy frames, whose filters prune.

>>> import skipstone as ss
>>> frame = ss.polars.scan("/lake/flights")  # doctest: +SKIP
>>> frame.filter(pl.col("delay") > 60).select("dest").collect()  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skipstone.bindings.tables.scan import scan as scan_table

if TYPE_CHECKING:
    from polars import LazyFrame

__all__ = ["scan"]


def scan(source: Any, *, format: str | None = None, timezone: str = "UTC") -> LazyFrame:
    """Open a table of any format as a lazy frame.

    Args:
        source, format: As for `skipstone.scan`.
        timezone: The zone in which partition values without a zone are read.

    Raises:
        BackendMissing: Polars is not installed, or too old.
        SourceError: nothing exists at `source`, or it cannot be read.
    """
    return scan_table(source, format=format).to_polars(timezone=timezone)
