"""Scans of Parquet files in Spark's plans: their conditions, and the files they can leave out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from skipstone.bindings.filters.scan import DynamicFilters
from skipstone.bindings.plans.table_protocol import Positions
from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.spark.pruning.catalyst import conjunction, conjuncts
from skipstone.bindings.spark.pruning.context import Context
from skipstone.bindings.spark.pruning.cost import ColumnBounds
from skipstone.bindings.spark.pruning.list_files import (
    NARROWED,
    PARQUET,
    NotPruned,
    Relation,
    check_kind,
    list_files,
)
from skipstone.bindings.spark.pruning.reports import PrunedScan, joined_reasons, with_join
from skipstone.bindings.spark.pruning.scan_files import ScanFiles
from skipstone.bindings.spark.session.types import arrow_schema, shared_fields
from skipstone.ir.errors import SkipstoneError
from skipstone.ir.node import columns_of, not_understood
from skipstone.ir.session import Session
from skipstone.kernels.pack.planes import Mask

if TYPE_CHECKING:
    from skipstone.bindings.filters.filter import DynamicFilter

FOREVER: Final = 2**63 - 1


def id_of(tree: Mapping[str, Any]) -> int:
    """Return Spark's id of the only column in an expression, or -1 if it has none or several."""
    while (
        "id" not in tree
        and tree["parts"]
        and isinstance(tree["parts"][0], dict)
        and "class" in tree["parts"][0]
    ):
        tree = tree["parts"][0]
    return int(tree.get("id", -1))


def _by_path(listing: ScanFiles, keep: Mask) -> Mask:
    """Keep all occurrences of a file if one is kept, because a file is left out by its path."""
    if listing.first is None:
        return keep
    needed = np.zeros(len(listing), np.bool_)
    needed[listing.first[keep]] = True
    found: Mask = needed[listing.first]
    return found


class Scan:
    """One scan of files in a plan.

    Args:
        number: Its position among the scans of the plan.
        relation: Spark's file index, or Iceberg's scan.
        info: The report of `Scans.java` about it, as parsed JSON.
        analysed: For a scan of an optimised plan, the scans of the analysed plan that it may stand
            for. Optimiser rules rewrite columns but keep their names and ids, so a column is judged
            only if these scans have it with the same type.
        lists: The lists of files of the plan, which its scans share.
        settings: The settings under which it is judged, as an object of Spark's JVM.

    Attributes:
        same: The first number of the same object in the plan.
        ids: Spark's ids of its columns.
        roots: The paths that it reads.
        listing: Its files, once they are listed; `listed` is the same object in Spark's JVM.
        kept: Files to open, bool, shape (files,); None if the scan was not judged.
        filters: Dynamic filters that joins apply to its rows, or None. `join_notes` lists why other
            joins apply none.
        watches: File lists that the filters depend on, as objects of Spark's JVM.
        report: The report so far.
    """

    def __init__(
        self,
        number: int,
        relation: Any,
        info: Mapping[str, Any],
        analysed: Sequence[Scan] | None,
        lists: dict[int, Any],
        settings: Any,
    ) -> None:
        self.number, self._info, self.settings = number, info, settings
        self.same: int = info["same"]
        self.schema = self._usable_schema(analysed)
        self.ids = {column["id"] for column in info["output"]}
        self.roots: list[str] = info["roots"]
        self._files = Relation(
            jvm=relation,
            index=info["index"],
            format=info["format"],
            planned_by_layout=info["arranged"],
            roots=self.roots,
            schema=self.schema,
            partitions=info["partitions"],
            number=info["list"],
            lists=lists,
        )
        self.listing: ScanFiles | None = None
        self.listed: Any = None
        self.kept: Mask | None = None
        self._spark_opens: Mask | None = None  # files that pass Spark's own partition pruning
        self.where = ""
        self.join_notes: list[str] = []
        self.filters: DynamicFilters | None = None
        self.watches: list[Any] = []
        self.report = self._new_report("")

    def leave_unpruned(self, why: str) -> None:
        """Report that the scan keeps all of its files, for this reason."""
        self.report = self._new_report(why, self.report.files, self.report.files)

    def note_join(self, why: str) -> None:
        """Note why a join applies no filter to the scan."""
        if why not in self.join_notes:
            self.join_notes.append(why)
            self.report = replace(self.report, why=joined_reasons(self.report.why, why))

    def add_filter(
        self, by: DynamicFilter, session: Session, watches: Iterable[Any], context: Context
    ) -> None:
        """Also judge the files by a join's filter, which depends on the file lists in `watches`."""
        before = () if self.filters is None else self.filters.filters
        kept_before = self.report.kept
        self.filters = DynamicFilters((*before, by), self.schema, session)
        self.judge(context)
        if self.pruned and self.report.kept != kept_before:
            self.watches += [w for w in watches if w not in self.watches]

    def _new_report(
        self, why: str, files: int | None = None, kept: int | None = None
    ) -> PrunedScan:
        table = self._info["name"] or ", ".join(self.roots[:3]) + (
            ", ..." if len(self.roots) > 3 else ""
        )
        return with_join(
            PrunedScan(
                table,
                self.where,
                files,
                kept,
                joined_reasons(why, *self.join_notes),
                by="" if self.listing is None else self.listing.by,
            ),
            () if self.filters is None else self.filters.filters,
        )

    def judge(self, context: Context) -> None:
        """Find the files that can be left out. If anything is not understood, keep all files."""
        try:
            predicate = self._condition(context)
            self._check_useful(predicate)
            listing = self._list_files(context)
            self._apply(predicate, listing, context.settings["case_sensitive"])
        except (SkipstoneError, pa.ArrowException, OSError, RecursionError) as e:
            self.report = self._new_report(str(e))

    def _list_files(self, context: Context) -> ScanFiles:
        """List the files, at first use."""
        if self.listing is None:
            self.listing, self.listed = list_files(self._files, context)
        return self.listing

    def _apply(self, predicate: PruningPredicate, listing: ScanFiles, case_sensitive: bool) -> None:
        self._spark_opens = opened = listing.partition_mask(predicate)
        candidates = (
            opened if self.filters is None else opened & listing.filtered_partitions(self.filters)
        )
        used = {path[0] for path in columns_of(predicate.node)} | set(
            self.filters.columns if self.filters is not None else ()
        )
        if used <= set(listing.partitioned.names):  # footers cannot narrow it further
            keep = candidates
        else:
            keep = listing.keep_mask(
                predicate, candidates, case_sensitive=case_sensitive, filters=self.filters
            )
        self.kept = keep = opened & _by_path(listing, keep)
        files, kept = int(opened.sum()), int(keep.sum())
        self.report = self._new_report(
            "" if kept < files else "every file may hold a matching row", files, kept
        )

    def spread(self, column: str) -> float:
        """Return the share of its bytes that may hold one value of a column, on average.

        The scan must have been listed. It is 1 if the column's values are in no order.
        """
        return self._bounds(column).spread()

    def coverable(self, column: str, keys: int) -> float:
        """Return the share of its bytes in files whose values may all be among `keys` keys.

        The scan must have been listed.
        """
        return self._bounds(column).coverable(keys)

    def _bounds(self, column: str) -> ColumnBounds:
        assert self.listing is not None and self._spark_opens is not None
        return self.listing.bounds(column, self._spark_opens if self.kept is None else self.kept)

    def remaining(self, context: Context) -> tuple[int, int]:
        """Return the number of files that Spark would open, and their size in bytes.

        Files that the scan already leaves out do not count.

        Raises:
            NotPruned: the scan cannot be pruned.
        """
        if self.listing is None or self._spark_opens is None:
            predicate = self._condition(context)
            self.listing = self._list_files(context)
            self._spark_opens = self.listing.partition_mask(predicate)
        kept = self._spark_opens if self.kept is None else self.kept
        return int(kept.sum()), int(self.listing.sizes[kept].sum())

    @property
    def nbytes(self) -> int:
        """Size of its files in bytes; Spark's estimate if they were not listed."""
        if self.listing is None or self.kept is None:
            return int(self._info["bytes"])
        return int(self.listing.sizes[self.kept].sum())

    @property
    def files(self) -> int:
        """The number of its files that remain; 1 if they were not listed."""
        return 1 if self.kept is None else int(self.kept.sum())

    @property
    def dynamic(self) -> list[tuple[int, bool]]:
        """The columns that Spark prunes partitions by while the query runs.

        Each is a pair: the column's id, and whether Spark prunes only if it broadcasts the keys.
        """
        terms = conjuncts(self.conditions)
        subqueries = [tree["parts"] for tree in terms if tree["class"] == "DynamicPruningSubquery"]
        return [
            (id_of(parts[0]), next((p for p in parts if isinstance(p, bool)), True))
            for parts in subqueries
        ]

    @property
    def partitioned(self) -> set[str]:
        """The names of the partition columns."""
        return {f["name"] for f in self._info["partitions"]["fields"]}

    def _usable_schema(self, analysed: Sequence[Scan] | None) -> pa.Schema:
        """Return the columns that statistics can judge."""
        info, apart = self._info, {f["name"].lower() for f in self._info["partitions"]["fields"]}
        fields = [f for f in info["data"]["fields"] if f["name"].lower() not in apart]
        fields = shared_fields([*fields, *info["partitions"]["fields"]], info["output"])
        for one in () if analysed is None else analysed:
            fields = shared_fields(fields, one._info["output"])
        return arrow_schema({"fields": () if analysed is not None and not analysed else fields})

    @property
    def columns(self) -> dict[int, str]:
        """The names of the judgeable columns by Spark's ids."""
        names = self.schema.names
        return {c["id"]: c["name"] for c in self._info["output"] if c["name"] in names}

    @property
    def pruned(self) -> bool:
        """True if the scan leaves out files that Spark would open."""
        return self.report.files is not None and self.report.kept != self.report.files

    @property
    def share_read(self) -> float:
        """The columns that Spark reads, as a share of all."""
        return float(self._info["read"] / max(self._info["columns"], 1))

    @property
    def conditions(self) -> list[Any]:
        """The conditions that all of its rows must meet, as trees that `Json.java` wrote."""
        return list(self._info["conditions"])

    @property
    def narrowed(self) -> bool:
        """True if its file list is one that Skipstone made."""
        return self._files.index in NARROWED

    @property
    def index(self) -> Any:
        """Spark's file index of the scan."""
        return self._files.jvm

    def overlaps(self, other: Scan) -> bool:
        """Return True if the other scan may read some of the same files.

        Partitions of a catalog's table may lie outside of its folder, and Spark replaces the folder
        by those of the partitions that a query needs.
        """
        name = self._info["name"]
        if self.ids & other.ids or (name is not None and name == other._info["name"]):
            return True
        return any(a.startswith(b) or b.startswith(a) for a in self.roots for b in other.roots)

    def count_shared(self, needed: Collection[str]) -> None:
        """Count in the report the files that the scan opens because other scans need them."""
        assert self.listing is not None and self.kept is not None and self._spark_opens is not None
        opened = sum(
            bool(self.kept[i]) or self.listing.paths[i] in needed
            for i in np.flatnonzero(self._spark_opens).tolist()
        )
        self.report = replace(self.report, kept=opened)

    def needed(self) -> Iterator[str]:
        """Yield the paths of the files that may hold a matching row."""
        if self.listing is not None and self.kept is not None:
            yield from (self.listing.paths[i] for i in np.flatnonzero(self.kept).tolist())

    def drops(self, needed: Collection[str]) -> Positions:
        """Return the positions of the files that can be left out, except those in `needed`."""
        assert self.listing is not None and self.kept is not None
        dropped = np.flatnonzero(~_by_path(self.listing, self.kept))
        paths = self.listing.paths
        if not needed:
            return dropped
        return np.array([i for i in dropped.tolist() if paths[i] not in needed], np.int64)

    def without(self, index: Any, needed: Collection[str], validity: Any) -> Any:
        """Return an index that leaves out the droppable files while `validity` holds.

        Files in `needed` stay.
        """
        assert self.listing is not None
        dropped = np.zeros(len(self.listing), np.bool_)
        dropped[self.drops(needed)] = True
        # As bits, the first file in the lowest.
        return self.listed.without(
            index, np.packbits(dropped, bitorder="little").tobytes(), validity
        )

    def _condition(self, context: Context) -> PruningPredicate:
        """Return the condition on the scan's columns as a predicate.

        Raises:
            NotPruned: the scan cannot be pruned.
        """
        info = self._info
        if info["streaming"]:
            raise NotPruned("it is streaming")
        check_kind(self._files, context)
        # Delta and Iceberg resolve columns by their own field metadata, and so do their statistics.
        schema = info["data"] if info["format"] == PARQUET else {}
        if invalid := context.why_invalid(info["options"], schema, info["settings"]):
            raise NotPruned(invalid)
        node = conjunction(
            info["conditions"], self.columns, self.schema, context.settings, context.unsure
        )
        # Spark has resolved the names already.
        predicate = PruningPredicate(
            node,
            self.schema,
            timezone=context.settings["timezone"],
            ansi=context.settings["ansi"],
            case_sensitive=True,
        )
        if not predicate.always_true:
            self.where = predicate.expr
        return predicate

    def _check_useful(self, predicate: PruningPredicate) -> None:
        """Check that statistics can rule out more than Spark's own partition pruning.

        Raises:
            NotPruned: they cannot.
        """
        if self.filters is not None:
            return
        if not self._info["conditions"]:
            raise NotPruned("no condition applies to it")
        used = {path[0] for path in columns_of(predicate.node)}
        if predicate.always_true or not used - self.partitioned:
            whys = "; ".join(
                dict.fromkeys(f"{r.what}: {r.why}" for r in not_understood(predicate.node))
            )
            if used and not predicate.always_true:
                spark = "Spark prunes by partition columns itself"
            else:
                spark = "statistics cannot judge its condition"
            raise NotPruned(", ".join(filter(None, (spark, whys))))
