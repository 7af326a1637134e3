"""The session and settings that the scans of one plan share, and settings that forbid pruning."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow.fs as pafs

from skipstone.bindings.spark.pruning.catalyst import Tree, Unsure
from skipstone.bindings.spark.pruning.scan_files import Listings
from skipstone.bindings.spark.session.session import settings_of
from skipstone.bindings.spark.session.text_meaning import other_policy
from skipstone.bindings.spark.session.zones import other_zone
from skipstone.ir.session import Settings

# Settings that change the values read from files, with the settings under which footers are valid.
# Source: Spark, `SQLConf`.
# Spark has a present and an older name for a setting, and `spark.conf.get` reads one of them.
REBASE: Final = (
    "spark.sql.parquet.datetimeRebaseModeInRead",
    "spark.sql.legacy.parquet.datetimeRebaseModeInRead",
)
USUAL_SETTINGS: Final = {
    **dict.fromkeys(REBASE, ("CORRECTED", "EXCEPTION")),
    "spark.sql.optimizer.metadataOnly": ("false",),  # partitions would stand for rows
}
CASE_SENSITIVE: Final = "spark.sql.caseSensitive"
READS_IDS: Final = "spark.sql.parquet.fieldId.read.enabled"
ID: Final = "parquet.field.id"
ZONED: Final = ("FromUTCTimestamp", "ToUTCTimestamp", "ConvertTimezone")  # they name zones
USUAL_OPTIONS: Final = {"datetimerebasemode": ("CORRECTED", "EXCEPTION")}


@dataclass(frozen=True, slots=True)
class Context:
    """The session and settings that the scans of one plan share.

    Attributes:
        spark: The classic Spark session.
        gateway: The object that reads and changes plans in Spark's JVM (`PlanGateway.java`).
        settings: The session's settings that predicates are bound under.
        unsure: Returns why the session evaluates an expression differently from Skipstone, or "".
        unusual: A setting of the session that makes statistics invalid, as text; "" if there is
            none.
        reads_ids: True if Spark finds columns that have an id in files by it, not by name.
        filesystem: Where the files are; None finds it by their paths.
        listings: Listings of earlier calls.
        runs_now: True if the plan runs as soon as it is pruned, and only once.
    """

    spark: Any
    gateway: Any
    settings: Settings
    unsure: Unsure
    unusual: str
    reads_ids: bool
    filesystem: pafs.FileSystem | None
    listings: Listings
    runs_now: bool = False

    def why_invalid(
        self, options: Mapping[str, str], schema: Any, own: Mapping[str, str] | None = None
    ) -> str:
        """Return why the statistics of files may not be those of the values read, or "".

        Args:
            options: The read's options, with names in lower case.
            schema: The columns, with their metadata, in Spark's JSON form.
            own: The settings of the session that made the scan, which Spark reads its files under;
                None if it is this session. A view may come from another one.
        """
        own = {} if own is None else own
        why = self.unusual or _unusual_value(own, USUAL_SETTINGS) or unusual_option(options)
        case_sensitive = own.get(CASE_SENSITIVE, str(self.settings["case_sensitive"])).lower()
        if not why and (case_sensitive == "true") != self.settings["case_sensitive"]:
            why = f"{CASE_SENSITIVE} is {case_sensitive} in the session that made the scan"
        reads_ids = self.reads_ids or own.get(READS_IDS, "false").lower() != "false"
        if not why and reads_ids and ID in json.dumps(schema):
            why = f"{READS_IDS} is true, and columns have an id"
        return f"{why}, so values may differ from the footers' statistics" if why else ""


def context_of(
    spark: Any,
    gateway: Any,
    filesystem: pafs.FileSystem | None,
    listings: Listings,
    *,
    runs_now: bool = False,
) -> Context:
    """Return the context of a session."""
    settings = settings_of(spark)
    first = unusual_setting(spark, USUAL_SETTINGS) or other_zone(spark, settings["timezone"])
    reads_ids = str(spark.conf.get(READS_IDS, "false")).lower() != "false"
    return Context(
        spark, gateway, settings, _unsure(spark), first, reads_ids, filesystem, listings, runs_now
    )


def _unsure(spark: Any) -> Unsure:
    writing = other_policy(spark, "CORRECTED")
    reading = other_policy(spark, "CORRECTED", "EXCEPTION")

    def why(tree: Tree) -> str:
        if tree["class"] in ("DateFormatClass", "FromUnixTime"):
            return writing
        if tree["class"] in ("UnixTimestamp", "ToUnixTimestamp"):
            return reading
        if tree["class"] not in ZONED:
            return ""
        texts = (_text(part) for part in tree["parts"])
        return next(filter(None, (other_zone(spark, t) for t in texts if t is not None)), "")

    return why


def _text(part: Any) -> str | None:
    """Return the text of a literal; None of anything else."""
    if not isinstance(part, dict) or part.get("class") != "Literal":
        return None
    match part["parts"][0]:
        case {"bytes": digits}:
            return bytes.fromhex(digits).decode("utf-8", "replace")
    return None


def unusual_setting(spark: Any, keys: Iterable[str]) -> str:
    """Return the first of these settings that makes statistics invalid, as text, or "".

    Args:
        spark: The session, classic or Spark Connect.
        keys: Of `USUAL_SETTINGS`.
    """
    return _unusual_value(
        {key: str(spark.conf.get(key, USUAL_SETTINGS[key][0])) for key in keys}, keys
    )


def _unusual_value(values: Mapping[str, str], keys: Iterable[str]) -> str:
    for key in keys:
        usual = USUAL_SETTINGS[key]
        value = values.get(key, usual[0])
        if value.upper() not in map(str.upper, usual):
            return f"{key} is {value}"
    return ""


def unusual_option(options: Mapping[str, str]) -> str:
    """Return the option of a read that makes statistics invalid, as text, or "" if there is none.

    Args:
        options: The read's options, with names in lower case.
    """
    for name, usual in USUAL_OPTIONS.items():
        if options.get(name, usual[0]).upper() not in usual:
            return f"the option {name} is {options[name]}"
    return ""
