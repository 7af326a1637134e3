"""A lake of `rows`, as engines see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["Parquet", "Delta", "Iceberg"]


@dataclass(frozen=True)
class Lake:
    """A data set on disk.

    Attributes:
        kind: The table format.
        folder: The folder of its Parquet files.
        source: What an engine opens: `folder`, or the metadata file of an Iceberg table.
        files: The paths of its Parquet files.
    """

    kind: Kind
    folder: str
    source: str
    files: tuple[str, ...]
