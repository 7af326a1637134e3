"""Scans of Parquet files in Spark's plans: what is asked of each, and which of its files can be left out."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.filters.scan import DynamicFilters
from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.spark.pruning.listing import Listing, Listings
from skipstone.bindings.spark.session.catalyst import conjunction
from skipstone.bindings.spark.session.session import settings_of
from skipstone.bindings.spark.session.types import arrow_schema, shared_fields
from skipstone.ir.errors import SkipstoneError
from skipstone.ir.node import columns_of, not_understood
from skipstone.ir.session import Session, Settings
from skipstone.kernels.pack.planes import Mask

if TYPE_CHECKING:
    from skipstone.bindings.filters.filter import DynamicFilter

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
    "spark.sql.optimizer.metadataOnly": ("false",),  # partitions would stand for rows
}
Positions = npt.NDArray[np.int64]
FOREVER: Final = 2**63 - 1
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
        why: Why none was left out, and why a join was not asked; "" is nothing to say.
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
        counts = (
            ""
            if self.kept is None
            else f"{self.kept} of {'?' if self.files is None else self.files} files"
        )
        keys = self.keys and f"joined by {self.keys}, collected in {self.seconds:.2f} s"
        return ", ".join(
            filter(
                None,
                (
                    f"{self.table}: {counts or 'untouched'}",
                    self.where and f"where {self.where}",
                    keys,
                    self.why,
                ),
            )
        )


def reported(scan: PrunedScan, filters: Sequence[DynamicFilter]) -> PrunedScan:
    """The report of a scan, with what joins said of it."""
    known = [f.data for f in filters if f.data is not None]
    if not known:
        return scan
    keys = " and ".join(f"{f.how} join, {f.state}" for f in filters)
    counts = [d.num_rows for d in known if d.num_rows is not None]
    return replace(
        scan,
        keys=keys,
        rows=sum(counts) if len(counts) == len(known) else None,
        nbytes=sum(d.nbytes for d in known),
        seconds=sum(d.seconds for d in known),
    )


def _reasons(*whys: str) -> str:
    return "; ".join(dict.fromkeys(filter(None, whys)))


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
        spark: The session, of classic Spark.
        door: The way into Spark's JVM.
        settings: Those of the session that predicates are bound under.
        unusual: A setting of the session under which statistics do not hold; "" is none.
        filesystem: Where the files are; None finds it by their paths.
        listings: The listings that are known already.
    """

    spark: Any
    door: Any
    settings: Settings
    unusual: str
    filesystem: pafs.FileSystem | None
    listings: Listings


def context_of(
    spark: Any, door: Any, filesystem: pafs.FileSystem | None, listings: Listings
) -> Context:
    """What a session says."""
    unusual = (
        f"{key} is {value}"
        for key, usual in READING.items()
        if (value := str(spark.conf.get(key, usual[0]))) not in usual
    )
    return Context(spark, door, settings_of(spark), next(unusual, ""), filesystem, listings)


def unusual_option(options: Mapping[str, str]) -> str:
    """An option of a read, by names in lower case, under which statistics do not hold; "" is none."""
    return next(
        (
            f"the option {k} is {options[k]}"
            for k, usual in OPTIONS.items()
            if options.get(k, usual[0]).upper() not in usual
        ),
        "",
    )


def id_of(tree: Mapping[str, Any]) -> int:
    """Spark's id of the column that an expression is made of alone, -1: of none, or several."""
    while (
        "id" not in tree
        and tree["parts"]
        and isinstance(tree["parts"][0], dict)
        and "class" in tree["parts"][0]
    ):
        tree = tree["parts"][0]
    return int(tree.get("id", -1))


class Untouched(SkipstoneError):
    """A scan is left as it is; the message says why."""


class Scan:
    """One scan of files in a plan.

    Args:
        relation: Spark's.
        told: What `PrunedFiles.java` says of it.
        analysed: Of a scan in an optimised plan, those that it may stand for in the analysed one: rules of the optimiser rewrite columns under
            their names and ids, so a column is judged only where these have it with the same type.

    Attributes:
        ids: Spark's ids of its columns.
        roots: The paths that it reads.
        listing: Its files, once they were looked at; `listed` is the same in Spark's JVM.
        kept: Which of them are left, bool, shape (files,); None: it was not judged.
        filters: What joins say of its rows; None: nothing. `unsaid` is why those that say nothing do not.
        watches: Lists of files that the filters hang on, as Spark's JVM has them.
        report: What was found.
    """

    def __init__(
        self, relation: Any, told: Mapping[str, Any], analysed: Sequence[Scan] | None = None
    ) -> None:
        self._relation, self._told = relation, told
        self.schema = self._understood(analysed)
        self.ids = {column["id"] for column in told["output"]}
        self.roots: list[str] = told["roots"]
        self.listing: Listing | None = None
        self.listed: Any = None
        self.kept: Mask | None = None
        self._admitted: Mask | None = None  # those that Spark would open
        self.where = ""
        self.unsaid: list[str] = []
        self.filters: DynamicFilters | None = None
        self.watches: list[Any] = []
        self.report = self._reported("")

    def leave(self, why: str) -> None:
        """Say that it is left as it is, whatever was found."""
        self.report = self._reported(why, self.report.files, self.report.files)

    def unasked(self, why: str) -> None:
        """Note why a join says nothing of it."""
        if why not in self.unsaid:
            self.unsaid.append(why)
            self.report = replace(self.report, why=_reasons(self.report.why, why))

    def joined(
        self, by: DynamicFilter, session: Session, watches: Iterable[Any], context: Context
    ) -> None:
        """Judge it by what a join says of it, too, which hangs on some lists of files."""
        before, left = () if self.filters is None else self.filters.filters, self.report.kept
        self.filters = DynamicFilters((*before, by), self.schema, session)
        self.judge(context)
        if self.pruned and self.report.kept != left:
            self.watches += [w for w in watches if w not in self.watches]

    def _reported(self, why: str, files: int | None = None, kept: int | None = None) -> PrunedScan:
        table = self._told["name"] or ", ".join(self.roots[:3]) + (
            ", ..." if len(self.roots) > 3 else ""
        )
        return reported(
            PrunedScan(table, self.where, files, kept, _reasons(why, *self.unsaid)),
            () if self.filters is None else self.filters.filters,
        )

    def judge(self, context: Context) -> None:
        """Find the files that can be left out. Where anything is not understood, none is."""
        try:
            predicate = self._condition(context)
            self._check_asked(predicate)
            self.listing = self._list(context)
            self._judged(predicate, self.listing, context.settings["case_sensitive"])
        except (SkipstoneError, pa.ArrowException, OSError, RecursionError) as e:
            self.report = self._reported(str(e))

    def _judged(self, predicate: PruningPredicate, listing: Listing, case_sensitive: bool) -> None:
        self._admitted = admitted = listing.admitted(predicate)
        looked = admitted if self.filters is None else admitted & listing.joined(self.filters)
        asked = {path[0] for path in columns_of(predicate.node)} | set(
            self.filters.columns if self.filters is not None else ()
        )
        if asked <= set(listing.partitioned.names):  # footers have nothing to add
            found = looked
        else:
            found = listing.kept(
                predicate, looked, case_sensitive=case_sensitive, filters=self.filters
            )
        self.kept = found
        files, kept = int(admitted.sum()), int(found.sum())
        self.report = self._reported(
            "" if kept < files else "every file may hold a matching row", files, kept
        )

    def left(self, context: Context) -> tuple[int, int]:
        """How many files Spark would open, as far as is known, and how many bytes they have.

        Raises:
            Untouched: the scan is none that is understood.
        """
        if self.listing is None or self._admitted is None:
            predicate = self._condition(context)
            self.listing = self._list(context)
            self._admitted = self.listing.admitted(predicate)
        kept = self._admitted if self.kept is None else self.kept
        return int(kept.sum()), int(self.listing.sizes[kept].sum())

    @property
    def nbytes(self) -> int:
        """Bytes of its files; where they were not looked at, as Spark takes them to be."""
        return (
            int(self._told["bytes"])
            if self.listing is None or self.kept is None
            else int(self.listing.sizes[self.kept].sum())
        )

    @property
    def dynamic(self) -> list[tuple[int, bool]]:
        """Columns that Spark prunes partitions by while a query runs, by id, and whether it does so only where the keys are broadcast."""
        found = [
            part
            for tree in self._told["conditions"]
            for part in (tree["parts"] if tree["class"] == "And" else [tree])
        ]
        each = [tree["parts"] for tree in found if tree["class"] == "DynamicPruningSubquery"]
        return [
            (id_of(parts[0]), next((p for p in parts if isinstance(p, bool)), True))
            for parts in each
        ]

    @property
    def partitioned(self) -> set[str]:
        """The names of the columns that it is partitioned by."""
        return {f["name"] for f in self._told["partitions"]["fields"]}

    def _understood(self, analysed: Sequence[Scan] | None) -> pa.Schema:
        """Its columns, as far as statistics can tell of them."""
        told, apart = self._told, {f["name"].lower() for f in self._told["partitions"]["fields"]}
        fields = [f for f in told["data"]["fields"] if f["name"].lower() not in apart]
        fields = shared_fields([*fields, *told["partitions"]["fields"]], told["output"])
        for one in () if analysed is None else analysed:
            fields = shared_fields(fields, one._told["output"])
        return arrow_schema({"fields": () if analysed is not None and not analysed else fields})

    @property
    def columns(self) -> dict[int, str]:
        """Their names by Spark's ids."""
        names = self.schema.names
        return {c["id"]: c["name"] for c in self._told["output"] if c["name"] in names}

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

    def shares(self, needed: Container[str]) -> None:
        """Say that it opens files, too, that other scans need."""
        assert self.listing is not None and self.kept is not None and self._admitted is not None
        opened = sum(
            bool(self.kept[i]) or self.listing.paths[i] in needed
            for i in np.flatnonzero(self._admitted).tolist()
        )
        self.report = replace(self.report, kept=opened)

    def needed(self) -> Iterator[str]:
        """Paths of the files that may hold a matching row."""
        if self.listing is not None and self.kept is not None:
            yield from (self.listing.paths[i] for i in np.flatnonzero(self.kept).tolist())

    def drops(self, needed: Container[str]) -> Positions:
        """Positions of the files that can be left out, unless they are needed."""
        assert self.listing is not None and self.kept is not None
        paths = self.listing.paths
        return np.array(
            [i for i in np.flatnonzero(~self.kept).tolist() if paths[i] not in needed], np.int64
        )

    def without(self, index: Any, needed: Container[str], validity: Any) -> Any:
        """An index without the files that can be left out, unless they are needed, as long as that is valid."""
        assert self.listing is not None
        dropped = np.zeros(len(self.listing), np.bool_)
        dropped[self.drops(needed)] = True
        # As bits, the first file in the lowest.
        return self.listed.without(
            index, np.packbits(dropped, bitorder="little").tobytes(), validity
        )

    def _condition(self, context: Context) -> PruningPredicate:
        """What is asked of the scan's columns.

        Raises:
            Untouched: the scan is none that is understood.
        """
        told = self._told
        if told["streaming"]:
            raise Untouched("it is streaming")
        if told["format"] != PARQUET or told["index"] not in INDEXES:
            raise Untouched(
                f"its files are listed by {told['index'].split('.')[-1]} and read as {told['format'].split('.')[-1]}; Parquet files are pruned"
            )
        if odd := context.unusual or unusual_option(told["options"]):
            raise Untouched(f"{odd}, under which values may be other ones than footers tell of")
        node = conjunction(told["conditions"], self.columns, self.schema, context.settings)
        # Names are Spark's own, resolved already.
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

    def _check_asked(self, predicate: PruningPredicate) -> None:
        """Whether statistics can tell more than Spark knows without them.

        Raises:
            Untouched: they cannot.
        """
        if self.filters is not None:
            return
        if not self._told["conditions"]:
            raise Untouched("no condition comes down to it")
        asked = {path[0] for path in columns_of(predicate.node)}
        if predicate.always_true or not asked - self.partitioned:
            whys = "; ".join(
                dict.fromkeys(f"{r.what}: {r.why}" for r in not_understood(predicate.node))
            )
            spark = (
                "Spark prunes by partition columns itself"
                if asked and not predicate.always_true
                else "nothing is asked that statistics can tell of"
            )
            raise Untouched(", ".join(filter(None, (spark, whys))))

    def _list(self, context: Context) -> Listing:
        partitioned = arrow_schema(self._told["partitions"])
        if len(partitioned) != len(self._told["partitions"]["fields"]) or not set(
            partitioned.names
        ) <= set(self.schema.names):
            raise Untouched("it has a partition column of a type that is not understood")
        data = pa.schema([f for f in self.schema if f.name not in partitioned.names])
        self.listed = listed = context.door.listing(self._relation.location())
        key = (
            listed.digest(),
            tuple(self.roots),
            data.serialize().to_pybytes(),
            partitioned.serialize().to_pybytes(),
            id(context.filesystem),
        )
        return context.listings.get(
            key, lambda: Listing(listed.text(), listed.partitions(), data, partitioned, self.roots, context.filesystem)
        )  # fmt: skip


def scans_of(
    door: Any, plan: Any, analysed: Sequence[Scan] | None = None
) -> tuple[list[Scan], Any]:
    """The scans of a plan, and the same as Spark's JVM has them; `analysed` are those of the analysed plan, where the plan is what became of it."""
    made = door.scans(plan)
    told = json.loads(made.text())
    return [
        Scan(made.relation(i), one, None if analysed is None else _origins(one, analysed))
        for i, one in enumerate(told)
    ], made


def _origins(told: Mapping[str, Any], analysed: Sequence[Scan]) -> list[Scan]:
    """The scans of the analysed plan that one of the optimised plan may stand for: by ids of columns, else by what they read."""
    ids = {column["id"] for column in told["output"]}
    return [one for one in analysed if one.ids & ids] or [
        one for one in analysed if one.roots == told["roots"]
    ]


def validity_of(door: Any, until: int, scans: Iterable[Scan]) -> Any:
    """How long files may be passed over that scans do not need: until some time in ms since 1970, and while what their joins hang on stays as it is."""
    watches = door.watches()
    for scan in scans:
        for watch in scan.watches:
            watches.add(watch)
    return door.validity(until, watches)
