"""The session and settings that the scans of one plan share, and settings that forbid pruning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow.fs as pafs

from skipstone.bindings.spark.pruning.listing import Listings
from skipstone.bindings.spark.session.session import settings_of
from skipstone.ir.session import Settings

# Settings that change the values read from files, with the settings under which footers are valid.
# Source: Spark, `SQLConf`.
USUAL_SETTINGS: Final = {
    "spark.sql.parquet.datetimeRebaseModeInRead": ("CORRECTED", "EXCEPTION"),
    "spark.sql.parquet.fieldId.read.enabled": ("false",),
    "spark.sql.optimizer.metadataOnly": ("false",),  # partitions would stand for rows
}
USUAL_OPTIONS: Final = {"datetimerebasemode": ("CORRECTED", "EXCEPTION")}


@dataclass(frozen=True, slots=True)
class Context:
    """The session and settings that the scans of one plan share.

    Attributes:
        spark: The classic Spark session.
        gateway: The object that reads and changes plans in Spark's JVM (`PlanGateway.java`).
        settings: The session's settings that predicates are bound under.
        unusual: A setting of the session that makes statistics invalid, as text; "" if there is
            none.
        filesystem: Where the files are; None finds it by their paths.
        listings: Listings of earlier calls.
    """

    spark: Any
    gateway: Any
    settings: Settings
    unusual: str
    filesystem: pafs.FileSystem | None
    listings: Listings


def context_of(
    spark: Any, gateway: Any, filesystem: pafs.FileSystem | None, listings: Listings
) -> Context:
    """Return the context of a session."""
    unusual = (
        f"{key} is {value}"
        for key, usual in USUAL_SETTINGS.items()
        if (value := str(spark.conf.get(key, usual[0]))) not in usual
    )
    return Context(spark, gateway, settings_of(spark), next(unusual, ""), filesystem, listings)


def unusual_option(options: Mapping[str, str]) -> str:
    """Return the option of a read that makes statistics invalid, as text, or "" if there is none.

    Args:
        options: The read's options, with names in lower case.
    """
    for name, usual in USUAL_OPTIONS.items():
        if options.get(name, usual[0]).upper() not in usual:
            return f"the option {name} is {options[name]}"
    return ""
