"""Pruned reads through Spark Connect, where only the client's own plan is visible.

A condition on `_metadata`, right above the scan, leaves files out: Spark applies it when it lists
files. It names each file by its path, modification time and size, so Spark reads a file that is
new, replaced or spelled differently. It also names the time zone and the ANSI mode, because Connect
resolves a DataFrame again at each action. Only filters directly above a scan are used.
"""

from __future__ import annotations

import copy
import re
from itertools import takewhile
from typing import Any, Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.spark.pruning.column import from_column
from skipstone.bindings.spark.pruning.context import Context, context_of, unusual_option
from skipstone.bindings.spark.pruning.list_files import NotPruned, registered_listing
from skipstone.bindings.spark.pruning.listing import Listing, own_paths
from skipstone.bindings.spark.pruning.registered_listing import RegisteredListing
from skipstone.bindings.spark.pruning.reports import Pruned, PrunedScan
from skipstone.bindings.spark.pruning.scan_files import Listings
from skipstone.bindings.spark.registered.registry import REGISTRY, common_folder
from skipstone.bindings.spark.session.text_meaning import other_meaning
from skipstone.bindings.spark.session.types import arrow_schema
from skipstone.bindings.tables.partitions import pair_of
from skipstone.ir.errors import SkipstoneError
from skipstone.ir.node import Node, Op, not_understood
from skipstone.ir.text import show_value
from skipstone.ir.types import STRING

FILE: Final = (
    "concat_ws('|', _metadata.file_path, "
    "unix_millis(_metadata.file_modification_time), _metadata.file_size)"
)
# True only in this mode: the common type of BIGINT and FLOAT depends on it.
ANSI: Final = "typeof(1L + 1F) = 'double'"
LEGACY: Final = "typeof(1L + 1F) = 'float'"
OPTION: Final = re.compile(r"(\w+)=([^,\]]*)")  # as DESCRIBE TABLE shows a table's options
MAX_NAMES: Final = 20_000  # files in a condition; Spark takes about 20 us to parse each


def prune_remote(
    df: Any, filesystem: pafs.FileSystem | None, listings: Listings
) -> tuple[Any, Pruned]:
    """Return the DataFrame with conditions on files, and the report of each scan."""
    walk = _Walk(df.sparkSession, context_of(df.sparkSession, None, filesystem, listings))
    plan = walk.node(df._plan, [])
    report = Pruned(walk.reports)
    return (df if plan is df._plan else type(df)(plan, df.sparkSession)), report


class _Walk:
    """One walk through a client's plan.

    Nodes above a change are copied, so the original plan stays as it is.
    """

    def __init__(self, spark: Any, context: Context) -> None:
        self.spark, self.context = spark, context
        self.reports: list[PrunedScan] = []
        self._seen: dict[tuple[int, ...], Any] = {}  # some nodes refer to a child twice

    def node(self, plan: Any, conditions: list[Any]) -> Any:
        key = (id(plan), *map(id, conditions))
        if key not in self._seen:
            self._seen[key] = self._node(plan, conditions)
        return self._seen[key]

    def _node(self, plan: Any, conditions: list[Any]) -> Any:
        kind = type(plan).__name__
        if kind in ("DataSource", "Read"):
            return self.scan(plan, conditions)
        if kind != "Filter":
            conditions = []
        else:
            conditions = [*conditions, plan.filter]
        changed = {}
        for name, value in vars(plan).items():
            if _is_plan(value) and (new := self.node(value, conditions)) is not value:
                changed[name] = new
        if not changed:
            return plan
        out = copy.copy(plan)
        out.__dict__.update(changed)
        return out

    def scan(self, source: Any, conditions: list[Any]) -> Any:
        scan = _Source(self.spark, source)
        try:
            dropped = scan.judge(conditions, self.context)
        except (SkipstoneError, pa.ArrowException, OSError) as e:
            dropped, scan.report = [], PrunedScan(scan.table, scan.where, None, None, str(e))
        self.reports.append(scan.report)
        if not dropped:
            return source
        zone, files = _literal(self.context.settings["timezone"]), ", ".join(map(_literal, dropped))
        same = (
            f"current_timezone() = {zone} AND {ANSI if self.context.settings['ansi'] else LEGACY}"
        )
        return (
            type(scan.frame)(source, self.spark)
            .where(f"NOT ({same}) OR {FILE} NOT IN ({files})")
            ._plan
        )


class _Source:
    """A scan as the client sees it: Parquet paths, or a table's name."""

    def __init__(self, spark: Any, source: Any) -> None:
        from pyspark.sql.connect.dataframe import DataFrame

        self.spark, self.source, self.where = spark, source, ""
        self.frame = DataFrame(source, spark)
        self.table = (
            source.table_name if type(source).__name__ == "Read" else ", ".join(source._paths or ())
        )
        # Columns whose values may differ from those in the files: CHAR, and a table's partition
        # columns, which its files may have as well.
        self.apart: set[str] = set()
        self.report = PrunedScan(self.table, "", None, None, "")

    def judge(self, conditions: list[Any], context: Context) -> list[str]:
        """Return the files that cannot hold a matching row, in the form of `FILE`."""
        self._check(conditions, context)
        urls = sorted(self.frame.inputFiles())
        paths = [unquote(re.sub(r"^file:/+", "file:/", url)) for url in urls]
        # A client does not see the partition columns of paths: folders name them.
        apart = self.apart | {
            pair_of(folder)[0].lower()
            for path in paths
            for folder in path.split("/")[:-1]
            if "=" in folder
        }
        schema = arrow_schema(self.frame.schema.jsonValue())
        predicate = self._predicate(conditions, schema, context)
        listing = _listing(
            paths, pa.schema([f for f in schema if f.name.lower() not in apart]), context
        )
        every = np.ones(len(listing), np.bool_)
        # The session may distinguish names by case when Spark reads the files, and no condition
        # can ask for that.
        if isinstance(listing, Listing):
            listing.look_again()  # Spark leaves files out without a check
            keep_mask = listing.keep_mask(
                predicate, every, case_sensitive=True, require_columns=True
            )
        else:
            keep_mask = listing.keep_mask(predicate, every, case_sensitive=True)
        out = np.flatnonzero(~keep_mask).tolist()
        dropped = [
            f"{re.sub(r'^file:/+', 'file:/', urls[i])}|{listing.times[i]}|{listing.sizes[i]}"
            for i in out
        ]
        why = "" if dropped else "every file may hold a matching row"
        if len(dropped) > MAX_NAMES:
            raise NotPruned(
                f"{len(dropped):,} files could be left out, but a condition names at most "
                f"{MAX_NAMES:,}; classic Spark has no such limit"
            )
        self.report = PrunedScan(
            self.table, self.where, len(keep_mask), int(keep_mask.sum()), why, by=listing.by
        )
        return dropped

    def _check(self, conditions: list[Any], context: Context) -> None:
        source = self.source
        if source._is_streaming:
            raise NotPruned("it is streaming")
        if not conditions:
            raise NotPruned("there is no condition directly above it")
        options = {k.lower(): v for k, v in (getattr(source, "_options", None) or {}).items()}
        if invalid := context.why_invalid(options, self.frame.schema.jsonValue()):
            raise NotPruned(invalid)
        if why := other_meaning(self.spark, conditions):
            raise NotPruned(f"{why}, so Spark reads conditions differently")
        if any(name.lower() == "_metadata" for name in self.frame.columns):
            raise NotPruned(
                "it has a column named _metadata, which hides Spark's metadata of files"
            )
        if type(source).__name__ == "Read":
            self._check_table()
        elif str(source._format).lower() != "parquet" or source._predicates:
            raise NotPruned(f"its format is {source._format}; only Parquet files are pruned")

    def _check_table(self) -> None:
        described = self._described()
        n = len(self.frame.columns)  # they come first
        columns, rest = described[:n], described[n:]
        details = {row["col_name"]: row["data_type"] for row in rest}
        if (details.get("Provider") or "").lower() != "parquet" or details.get("Type") not in (
            "MANAGED",
            "EXTERNAL",
        ):
            raise NotPruned(
                f"it is {details.get('Provider') or 'a view, or has no provider'}; "
                "only Parquet tables are pruned"
            )
        # Each option counts, because another's value may look like one.
        for name, value in OPTION.findall(str(details.get("Storage Properties"))):
            if why := unusual_option({name.lower(): value}):
                raise NotPruned(f"{why}, so values may differ from the footers' statistics")
        shown = {f.name: f.dataType.simpleString() for f in self.frame.schema}
        # Spark shows CHAR to a client as STRING, and pads its values when it reads them.
        padded = (
            row["col_name"]
            for row in columns
            if shown.get(row["col_name"]) not in (row["data_type"], _plain(row["data_type"]))
        )
        # A section that begins with this title describes the partition columns once more.
        section = [row["col_name"] for row in takewhile(lambda row: row["col_name"], rest)]
        partitioned = section if section[:1] == ["# Partition Information"] else []
        self.apart = {name.lower() for name in (*padded, *partitioned)}

    def _described(self) -> list[Any]:
        """Return the rows of DESCRIBE TABLE EXTENDED.

        Raises:
            NotPruned: the name is not that of a table, but of files, for example.
        """
        from pyspark.errors import AnalysisException

        try:
            rows: list[Any] = self.spark.sql(f"DESCRIBE TABLE EXTENDED {self.table}").collect()
        except AnalysisException as e:
            raise NotPruned("it is no table that Spark can describe") from e
        return rows

    def _predicate(
        self, conditions: list[Any], schema: pa.Schema, context: Context
    ) -> PruningPredicate:
        if len(conditions) > 1:
            node = Node(Op.AND, tuple(map(from_column, conditions)))
        else:
            node = from_column(conditions[0])
        predicate = PruningPredicate(node, schema, **context.settings)
        if predicate.always_true:
            whys = "; ".join(
                dict.fromkeys(f"{r.what}: {r.why}" for r in not_understood(predicate.node))
            )
            raise NotPruned(f"statistics cannot judge its condition, {whys}")
        self.where = predicate.expr
        return predicate


def _plain(kind: str) -> str:
    """Return "string" for VARCHAR, which Spark reads as it is stored, and other types unchanged."""
    return "string" if re.fullmatch(r"varchar\(\d+\)", kind) else kind


def _is_plan(value: Any) -> bool:
    return any(
        t.__name__ == "LogicalPlan" and t.__module__ == "pyspark.sql.connect.plan"
        for t in type(value).__mro__
    )


def _listing(paths: list[str], schema: pa.Schema, context: Context) -> Listing | RegisteredListing:
    fs, shown = own_paths(paths, context.filesystem)
    infos = fs.get_file_info(shown)
    text = "".join(
        f"{path}\0{i.size or 0}\0{(i.mtime_ns or 0) // 10**6}\x000\0"
        for path, i in zip(paths, infos, strict=True)
    )
    key = text, schema.serialize().to_pybytes(), id(context.filesystem)
    parts = text, "[[]]", schema, pa.schema([])

    def footers() -> Listing:
        return context.listings.get(key, lambda: Listing(*parts, [], context.filesystem))

    # A client does not see the roots of a table.
    registered = REGISTRY.over([common_folder(paths)] if len(paths) > 1 else paths)
    if not registered:
        return footers()
    return registered_listing(registered, key, lambda: parts, footers, context)


def _literal(text: str) -> str:
    return show_value(text.encode(), STRING)
