"""Check options of `scan_parquet` and `scan_hive`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from skipstone.bindings.location import Location, path_text
from skipstone.ir.errors import SourceError

SNAPSHOT_NAME: Final = "_skipstone_stats"  # hidden from Spark, and from our own listings


def check_on_error(on_error: str) -> None:
    """Raise an error if `on_error` is neither "raise" nor "keep".

    Raises:
        SourceError: it is neither.
    """
    if on_error not in ("raise", "keep"):
        raise SourceError(f"on_error is {on_error!r}; expected 'raise' or 'keep'")


def types_of(
    given: Mapping[str, pa.DataType] | pa.Schema | None,
) -> Mapping[str, pa.DataType] | None:
    """Return `partition_schema=` as types by name.

    Raises:
        SourceError: it is neither a schema nor types by name.
    """
    if isinstance(given, pa.Schema):
        return {f.name: f.type for f in given}
    if given is not None and not isinstance(given, Mapping):
        raise SourceError(
            f"partition_schema is a {type(given).__name__}; expected a schema, or types by name"
        )
    for name, kind in (given or {}).items():
        if not isinstance(kind, pa.DataType):
            raise SourceError(
                f"partition_schema gives {name!r} the type {kind!r}; expected a pyarrow type, such "
                "as pa.int32()"
            )
    return given


def saved_at(stats: Location | bool | None) -> str | bool | None:
    """Return `stats=` as text, None or False.

    Raises:
        SourceError: it is neither a path, None nor False.
    """
    if stats is None or stats is False:
        return stats
    if isinstance(stats, bool):
        raise SourceError("stats is True; expected a path, None to look beside the data, or False")
    return path_text(stats)
