"""The decoders of Parquet pages that a caller may choose."""

from __future__ import annotations

import importlib.util
import sys
from typing import Final, Literal, get_args

from skipstone.ir.errors import BackendMissing, SkipstoneError

ReaderName = Literal["auto", "arrow", "polars"]
READERS: Final[tuple[ReaderName, ...]] = get_args(ReaderName)


def check_reader(reader: ReaderName) -> ReaderName:
    """Return the name of a reader.

    Raises:
        SkipstoneError: no reader has that name.
        BackendMissing: Polars was asked for and is not installed.
    """
    if reader not in READERS:
        raise SkipstoneError(f"reader is {reader!r}; expected one of {', '.join(READERS)}")
    if reader == "polars" and not has_polars():
        raise BackendMissing(
            "reader='polars' needs the package polars: pip install polars, or use reader='arrow'"
        )
    return reader


def has_polars() -> bool:
    """Return True if Polars is installed."""
    return "polars" in sys.modules or importlib.util.find_spec("polars") is not None
