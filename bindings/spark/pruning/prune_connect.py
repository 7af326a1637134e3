"""Pruned reads through Spark Connect: no plan of Spark's can be seen there, so the client's own is walked.

Files are left out by a condition on `_metadata`, right above the scan: Spark applies it when it lists files. It names each by its path, time
and size, so a file that is new, replaced, or called otherwise, is read; and it names the time zone, since Connect resolves
a DataFrame again at each action. Only filters that stand directly above a scan are known.
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
from skipstone.bindings.spark.pruning.listing import Listing, Listings, own_paths
from skipstone.bindings.spark.pruning.scans import (
    Context,
    Pruned,
    PrunedScan,
    Untouched,
    context_of,
    unusual_option,
)
from skipstone.bindings.spark.session.session import other_text
from skipstone.bindings.spark.session.types import arrow_schema
from skipstone.bindings.tables.partitions import pair_of
from skipstone.ir.errors import SkipstoneError
from skipstone.ir.node import Node, Op, not_understood
from skipstone.ir.text import show_value
from skipstone.ir.types import STRING

FILE: Final = "concat_ws('|', _metadata.file_path, unix_millis(_metadata.file_modification_time), _metadata.file_size)"
MOST: Final = 20_000  # names in a condition; reading it takes Spark some 20 us each


def prune_remote(
    df: Any, filesystem: pafs.FileSystem | None, listings: Listings
) -> tuple[Any, Pruned]:
    """The DataFrame with conditions on files, and what was found scan by scan."""
    walk = _Walk(df.sparkSession, context_of(df.sparkSession, None, filesystem, listings))
    plan = walk.node(df._plan, [])
    report = Pruned(walk.reports)
    return (df if plan is df._plan else type(df)(plan, df.sparkSession)), report


class _Walk:
    """One walk through a client's plan; nodes above a change are copied, so that the plan that was given stays as it is."""

    def __init__(self, spark: Any, context: Context) -> None:
        self.spark, self.context = spark, context
        self.reports: list[PrunedScan] = []
        self._seen: dict[tuple[int, ...], Any] = {}  # some nodes name a child twice

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
        return (
            type(scan.frame)(source, self.spark)
            .where(f"current_timezone() <> {zone} OR {FILE} NOT IN ({files})")
            ._plan
        )


class _Source:
    """A scan as the client knows it: paths that are read as Parquet, or a table's name."""

    def __init__(self, spark: Any, source: Any) -> None:
        from pyspark.sql.connect.dataframe import DataFrame

        self.spark, self.source, self.where = spark, source, ""
        self.frame = DataFrame(source, spark)
        self.table = (
            source.table_name if type(source).__name__ == "Read" else ", ".join(source._paths or ())
        )
        self.strange: set[str] = set()  # columns that Spark reads otherwise than their types tell
        self.report = PrunedScan(self.table, "", None, None, "")

    def judge(self, conditions: list[Any], context: Context) -> list[str]:
        """Files that cannot hold a matching row, as `FILE` names them."""
        self._check(conditions, context)
        urls = sorted(self.frame.inputFiles())
        paths = [unquote(re.sub(r"^file:/+", "file:/", url)) for url in urls]
        parted = {
            pair_of(folder)[0].lower()
            for path in paths
            for folder in path.split("/")[:-1]
            if "=" in folder
        }
        # Which columns are partition columns, a client is not told. They are named in paths, or lacking in files.
        known = (
            f
            for f in arrow_schema(self.frame.schema.jsonValue())
            if f.name.lower() not in self.strange
        )
        schema = pa.schema(known)
        predicate = self._predicate(conditions, schema, context)
        listing = _listing(
            paths, pa.schema([f for f in schema if f.name.lower() not in parted]), context
        )
        kept = listing.kept(
            predicate,
            np.ones(len(listing), np.bool_),
            case_sensitive=context.settings["case_sensitive"],
            everywhere=True,
        )
        out = np.flatnonzero(~kept).tolist()
        dropped = [
            f"{re.sub(r'^file:/+', 'file:/', urls[i])}|{listing.times[i]}|{listing.sizes[i]}"
            for i in out
        ]
        why = "" if dropped else "every file may hold a matching row"
        if len(dropped) > MOST:
            raise Untouched(
                f"{len(dropped):,} files could be left out, and a condition names {MOST:,} at most; classic Spark has no such limit"
            )
        self.report = PrunedScan(self.table, self.where, len(kept), int(kept.sum()), why)
        return dropped

    def _check(self, conditions: list[Any], context: Context) -> None:
        source = self.source
        if source._is_streaming:
            raise Untouched("it is streaming")
        if not conditions:
            raise Untouched("no condition stands directly above it")
        if odd := context.unusual or unusual_option(
            {k.lower(): v for k, v in (getattr(source, "_options", None) or {}).items()}
        ):
            raise Untouched(f"{odd}, under which values may be other ones than footers tell of")
        if why := other_text(self.spark):
            raise Untouched(f"{why}, by which Spark reads conditions otherwise")
        if any(name.lower() == "_metadata" for name in self.frame.columns):
            raise Untouched(
                "it has a column named _metadata, which hides what Spark knows of files"
            )
        if type(source).__name__ == "Read":
            self._check_table()
        elif source._format != "parquet" or source._predicates:
            raise Untouched(f"its format is {source._format}; Parquet files are pruned")

    def _check_table(self) -> None:
        rows = self.spark.sql(f"DESCRIBE TABLE EXTENDED {self.source.table_name}").collect()
        found = {row["col_name"]: row["data_type"] for row in rows}
        if (found.get("Provider") or "").lower() != "parquet" or found.get("Type") not in (
            "MANAGED",
            "EXTERNAL",
        ):
            raise Untouched(
                f"it is {found.get('Provider') or 'a view, or of no provider'}; Parquet tables are pruned"
            )
        columns = takewhile(lambda row: row["col_name"] and row["col_name"][0] != "#", rows)
        own = {f.name: f.dataType.simpleString() for f in self.frame.schema}
        # CHAR is shown to a client as STRING, and padded where it is read.
        self.strange = {
            row["col_name"].lower()
            for row in columns
            if own.get(row["col_name"]) not in (row["data_type"], _plain(row["data_type"]))
        }

    def _predicate(
        self, conditions: list[Any], schema: pa.Schema, context: Context
    ) -> PruningPredicate:
        node = (
            Node(Op.AND, tuple(map(from_column, conditions)))
            if len(conditions) > 1
            else from_column(conditions[0])
        )
        predicate = PruningPredicate(node, schema, **context.settings)
        if predicate.always_true:
            whys = "; ".join(
                dict.fromkeys(f"{r.what}: {r.why}" for r in not_understood(predicate.node))
            )
            raise Untouched(f"nothing is asked that statistics can tell of, {whys}")
        self.where = predicate.expr
        return predicate


def _plain(kind: str) -> str:
    """The type of a column that is no CHAR: VARCHAR is read as it is stored."""
    return "string" if re.fullmatch(r"varchar\(\d+\)", kind) else kind


def _is_plan(value: Any) -> bool:
    return any(
        t.__name__ == "LogicalPlan" and t.__module__ == "pyspark.sql.connect.plan"
        for t in type(value).__mro__
    )


def _listing(paths: list[str], schema: pa.Schema, context: Context) -> Listing:
    fs, own = own_paths(paths, context.filesystem)
    infos = fs.get_file_info(own)
    text = "".join(
        f"{path}\0{i.size or 0}\0{(i.mtime_ns or 0) // 10**6}\x000\0"
        for path, i in zip(paths, infos, strict=True)
    )
    key = text, schema.serialize().to_pybytes(), id(context.filesystem)
    return context.listings.get(
        key, lambda: Listing(text, "[[]]", schema, pa.schema([]), [], context.filesystem)
    )


def _literal(text: str) -> str:
    return show_value(text.encode(), STRING)
