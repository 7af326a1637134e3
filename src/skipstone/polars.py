"""Skipstone in Polars: tables of every format as lazy frames, whose filters prune.

>>> import skipstone as ss
>>> frame = ss.polars.scan("/lake/flights")  # doctest: +SKIP
>>> frame.filter(pl.col("delay") > 60).select("dest").collect()  # doctest: +SKIP
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from skipstone.bindings.location import FileSystemLike
from skipstone.bindings.tables.scan import scan as scan_table

if TYPE_CHECKING:
    from polars import LazyFrame

__all__ = ["scan"]


def scan(
    source: Any,
    *,
    format: str | None = None,
    timezone: str = "UTC",
    version: int | str | datetime.datetime | None = None,
    catalog: Any = None,
    storage_options: Mapping[str, str] | None = None,
    filesystem: FileSystemLike | None = None,
    partition_schema: Mapping[str, pa.DataType] | pa.Schema | None = None,
    on_error: Literal["raise", "keep"] = "raise",
) -> LazyFrame:
    """Open a table of any format as a lazy frame.

    Args:
        source, format: As for `skipstone.scan`.
        timezone: The zone in which partition values without a zone are read.
        version, catalog, storage_options: As for `skipstone.scan`.
        filesystem, partition_schema, on_error: As for `skipstone.scan`.

    Raises:
        BackendMissing: Polars is not installed, or too old.
        SourceError: nothing exists at `source`, or it cannot be read.

    Example:
        >>> import polars as pl, tempfile, skipstone as ss
        >>> folder = tempfile.mkdtemp()
        >>> pl.DataFrame({"x": range(100)}).write_parquet(f"{folder}/part.parquet")
        >>> ss.polars.scan(folder).filter(pl.col("x") > 97).collect()["x"].to_list()
        [98, 99]
    """
    table = scan_table(
        source,
        format=format,
        version=version,
        catalog=catalog,
        storage_options=storage_options,
        filesystem=filesystem,
        partition_schema=partition_schema,
        on_error=on_error,
    )
    return table.to_polars(timezone=timezone)
