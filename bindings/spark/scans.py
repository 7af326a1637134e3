"""Scans of Parquet files in Spark's plans: what is asked of each, and which of its files can be left out."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.predicate import PruningPredicate
from skipstone.bindings.spark.catalyst import conjunction
from skipstone.bindings.spark.listing import Listing, Listings
from skipstone.bindings.spark.session import settings_of
from skipstone.bindings.spark.types import arrow_schema
from skipstone.ir.errors import SkipstoneError
from skipstone.ir.node import columns_of, not_understood
from skipstone.ir.session import Settings
from skipstone.kernels.planes import Mask

if TYPE_CHECKING:
    from skipstone.bindings.dynamic.filter import DynamicFilter
    from skipstone.bindings.dynamic.scan import DynamicFilters

PARQUET: Final = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
INDEXES: Final = (
    "org.apache.spark.sql.execution.datasources.InMemoryFileIndex",
    "org.apache.spark.sql.execution.datasources.CatalogFileIndex",
    "skipstone.PrunedFiles",
)
# Settings under which values read from files are not those that their footers tell of, and what they are usually.
# Source: Spark, `SQLConf`.
READING: Final = {
    "spark.sql.parquet.datetimeRebaseModeInRead": ("CORRECTED", "EXCEPTION"),
    "spark.sql.parquet.fieldId.read.enabled": ("false",),
}
OPTIONS: Final = {"datetimerebasemode": ("CORRECTED", "EXCEPTION")}


@dataclass(frozen=True, slots=True)
class PrunedScan:
    """What `prune` did to one scan of files.

    Attributes:
        table: The table's name, or the paths that it was read by.
        where: What of the DataFrame's conditions was asked of statistics, as SQL text; "" is nothing.
        files: Files that Spark would open, after its own pruning of partitions; None: they were not looked at, or, of a Hive table,
            some folders were not listed.
        kept: Files that are left of them.
        why: Why none was left out; "" if some were.
        keys: What a join's other side says of it; "" is nothing, or there is no join.
        rows: Distinct rows of keys that were collected for it; None: there were none, or too many.
        nbytes: What is kept of the keys.
        seconds: For collecting them, wall clock.
    """

    table: str
    where: str
    files: int | None
    kept: int | None
    why: str
    keys: str = ""
    rows: int | None = None
    nbytes: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        counts = "" if self.kept is None else f"{self.kept} of {'?' if self.files is None else self.files} files"
        keys = self.keys and f"joined by {self.keys}, collected in {self.seconds:.2f} s"
        return ", ".join(filter(None, (f"{self.table}: {counts or 'untouched'}", self.where and f"where {self.where}", keys, self.why)))


def reported(scan: PrunedScan, filters: Sequence[DynamicFilter]) -> PrunedScan:
    """The report of a scan, with what joins said of it."""
    known = [f.data for f in filters if f.data is not None]
    if not known:
        return scan
    keys = " and ".join(f"{f.how} join, {f.state}" for f in filters)
    return replace(scan, keys=keys, rows=known[0].num_rows, nbytes=sum(d.nbytes for d in known), seconds=sum(d.seconds for d in known))


def untouched(why: str) -> PrunedScan:
    """The report of a DataFrame whose scans were not looked at."""
    return PrunedScan("the DataFrame", "", None, None, why)


class Pruned(tuple[PrunedScan, ...]):
    """What `prune` did, scan by scan; prints as a report."""

    __slots__ = ()

    @property
    def files(self) -> int:
        """Files of the scans that were looked at."""
        return sum(scan.files or 0 for scan in self)

    @property
    def kept(self) -> int:
        """Those that are left."""
        return sum(scan.kept or 0 for scan in self)

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "no scan of files"


@dataclass(frozen=True, slots=True)
class Context:
    """What the scans of one plan have in common.

    Attributes:
        door: The way into Spark's JVM.
        settings: Those of the session that predicates are bound under.
        unusual: A setting of the session under which statistics do not hold; "" is none.
        filesystem: Where the files are; None finds it by their paths.
        listings: The listings that are known already.
    """

    door: Any
    settings: Settings
    unusual: str
    filesystem: pafs.FileSystem | None
    listings: Listings


def context_of(spark: Any, door: Any, filesystem: pafs.FileSystem | None, listings: Listings) -> Context:
    """What a session says."""
    unusual = (f"{key} is {value}" for key, usual in READING.items() if (value := str(spark.conf.get(key))) not in usual)
    return Context(door, settings_of(spark), next(unusual, ""), filesystem, listings)


def unusual_option(options: Mapping[str, str]) -> str:
    """An option of a read, by names in lower case, under which statistics do not hold; "" is none."""
    return next((f"the option {k} is {options[k]}" for k, usual in OPTIONS.items() if options.get(k, usual[0]).upper() not in usual), "")


class Untouched(SkipstoneError):
    """A scan is left as it is; the message says why."""


class Scan:
    """One scan of files in an optimised plan.

    Attributes:
        ids: Spark's ids of its columns.
        roots: The paths that it reads.
        listing: Its files, once they were looked at; `listed` is the same in Spark's JVM.
        kept: Which of them are left, bool, shape (files,); None: it was not judged.
        report: What was found.
    """

    def __init__(self, relation: Any, told: Mapping[str, Any]) -> None:
        self._relation, self._told = relation, told
        self.ids = {column["id"] for column in told["output"]}
        self.roots: list[str] = told["roots"]
        self.listing: Listing | None = None
        self.listed: Any = None
        self.kept: Mask | None = None
        self.where = ""
        self.filters: DynamicFilters | None = None
        self.report = self._reported("")

    def leave(self, why: str) -> None:
        """Say that it is left as it is, whatever was found."""
        self.report = self._reported(why, self.report.files, self.report.files)

    def _reported(self, why: str, files: int | None = None, kept: int | None = None) -> PrunedScan:
        table = self._told["name"] or ", ".join(self.roots[:3]) + (", ..." if len(self.roots) > 3 else "")
        return reported(PrunedScan(table, self.where, files, kept, why), () if self.filters is None else self.filters.filters)

    def judge(self, context: Context) -> None:
        """Find the files that can be left out. Where anything is not understood, none is."""
        try:
            predicate = self._predicate(context)
            self.listing = self._list(context, predicate)
            self._judged(predicate, self.listing, context.settings["case_sensitive"])
        except (SkipstoneError, pa.ArrowException, OSError, RecursionError) as e:
            self.report = self._reported(str(e))

    def _judged(self, predicate: PruningPredicate, listing: Listing, case_sensitive: bool) -> None:
        admitted = listing.admitted(predicate)
        looked = admitted if self.filters is None else admitted & listing.joined(self.filters)
        asked = {path[0] for path in columns_of(predicate.node)} | set(self.filters.columns if self.filters is not None else ())
        if asked <= set(listing.partitioned.names):  # footers have nothing to add
            found = looked
        else:
            found = listing.kept(predicate, looked, case_sensitive=case_sensitive, filters=self.filters)
        self.kept = found
        files, kept = int(admitted.sum()), int(found.sum())
        self.report = self._reported("" if kept < files else "every file may hold a matching row", files, kept)

    @property
    def schema(self) -> pa.Schema:
        """Its columns, as far as statistics can tell of them."""
        apart = {f["name"].lower() for f in self._told["partitions"]["fields"]}
        return pa.schema([*(f for f in arrow_schema(self._told["data"]) if f.name.lower() not in apart), *arrow_schema(self._told["partitions"])])

    @property
    def columns(self) -> dict[int, str]:
        """Their names by Spark's ids."""
        names = self.schema.names
        return {c["id"]: c["parts"][0] for c in self._told["output"] if c["parts"][0] in names}

    @property
    def pruned(self) -> bool:
        """Whether files are left out that Spark would open."""
        return self.report.files is not None and self.report.kept != self.report.files

    @property
    def index(self) -> Any:
        """Spark's list of its files."""
        return self._relation.location()

    def overlaps(self, other: Scan) -> bool:
        """Whether another scan may read some of its files."""
        return any(a.startswith(b) or b.startswith(a) for a in self.roots for b in other.roots)

    def needed(self) -> Iterator[str]:
        """Paths of the files that may hold a matching row."""
        if self.listing is not None and self.kept is not None:
            yield from (self.listing.paths[i] for i in np.flatnonzero(self.kept).tolist())

    def without(self, index: Any, needed: Container[str], until: int) -> Any:
        """An index without the files that can be left out, unless they are needed, until some time in ms since 1970."""
        assert self.listing is not None and self.kept is not None
        dropped = ~self.kept
        dropped[[i for i in np.flatnonzero(dropped).tolist() if self.listing.paths[i] in needed]] = False
        # As bits, the first file in the lowest.
        return self.listed.without(index, np.packbits(dropped, bitorder="little").tobytes(), until)

    def _predicate(self, context: Context) -> PruningPredicate:
        """What is asked of the scan's columns.

        Raises:
            Untouched: nothing that statistics can tell of, or the scan is none that is understood.
        """
        told = self._told
        if told["streaming"]:
            raise Untouched("it is streaming")
        if told["format"] != PARQUET or told["index"] not in INDEXES:
            raise Untouched(f"its files are listed by {told['index'].split('.')[-1]} and read as {told['format'].split('.')[-1]}; Parquet files are pruned")
        odd = context.unusual or next(
            (f"the option {k} is {told['options'][k]}" for k, v in OPTIONS.items() if told["options"].get(k, v[0]).upper() not in v), ""
        )
        if odd:
            raise Untouched(f"{odd}, under which values may be other ones than footers tell of")
        if not told["conditions"] and self.filters is None:
            raise Untouched("no condition comes down to it")
        partitioned, schema = arrow_schema(told["partitions"]), self.schema
        node = conjunction(told["conditions"], self.columns, schema, context.settings)
        # Names are Spark's own, resolved already.
        predicate = PruningPredicate(node, schema, timezone=context.settings["timezone"], ansi=context.settings["ansi"], case_sensitive=True)
        asked = {path[0] for path in columns_of(predicate.node)}
        if not predicate.always_true:
            self.where = predicate.expr
        if self.filters is None and (predicate.always_true or not asked - set(partitioned.names)):
            whys = "; ".join(dict.fromkeys(f"{r.what}: {r.why}" for r in not_understood(predicate.node)))
            spark = "Spark prunes by partition columns itself" if asked and not predicate.always_true else "nothing is asked that statistics can tell of"
            raise Untouched(", ".join(filter(None, (spark, whys))))
        return predicate

    def _list(self, context: Context, predicate: PruningPredicate) -> Listing:
        partitioned = arrow_schema(self._told["partitions"])
        if len(partitioned) != len(self._told["partitions"]["fields"]):
            raise Untouched("it has a partition column of a type that is not understood")
        data = pa.schema([f for f in predicate.schema if f.name not in partitioned.names])
        self.listed = listed = context.door.listing(self._relation.location())
        key = listed.digest(), tuple(self.roots), data.serialize().to_pybytes(), partitioned.serialize().to_pybytes(), id(context.filesystem)
        return context.listings.get(
            key, lambda: Listing(listed.text(), listed.partitions(), data, partitioned, self.roots, context.filesystem)
        )  # fmt: skip
