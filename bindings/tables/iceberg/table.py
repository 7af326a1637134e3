"""An Iceberg table, planned from its manifest list and manifests."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.filters.option import enabled
from skipstone.bindings.location import (
    KNOWN,
    info_at,
    missing,
    one_line,
    options_of,
    path_text,
    resolve,
    scheme_of,
    shown,
)
from skipstone.bindings.plans.plan import Plan, plan_table, predicate_over
from skipstone.bindings.plans.table_protocol import DataSize
from skipstone.bindings.plans.work import Meter, Work
from skipstone.bindings.statistics.coerce_inputs import KEYS
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.tables.detect import HINT, metadata_files
from skipstone.bindings.tables.dynamic_table import DynamicTable
from skipstone.bindings.tables.iceberg.fields import TableFields
from skipstone.bindings.tables.iceberg.files import IcebergFiles
from skipstone.bindings.tables.iceberg.listing import read_list
from skipstone.bindings.tables.iceberg.located import metadata_file
from skipstone.bindings.tables.iceberg.manifest import Manifest, read_manifests
from skipstone.bindings.tables.iceberg.partition import Spec, keeps
from skipstone.ir.cached import cached_property
from skipstone.ir.errors import BackendMissing, SourceError
from skipstone.ir.node import show_path
from skipstone.ir.session import Session
from skipstone.kernels.run import forks

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Dynamic
    from skipstone.bindings.predicates.predicate import PruningPredicate, Source


VIEWS: Final = 8  # sets of manifests whose statistics are kept


class IcebergTable(DynamicTable):
    """One snapshot of an Iceberg table. Its manifest list has been read; manifests are when a plan needs them, files are not.

    Attributes:
        source: pyiceberg's table.
        version: The snapshot's id; None: the table has no snapshot yet.
        specs: Its partition specs, by id.
        manifests: The entries of the manifest list (listing.py).
        manifests_read: How many manifests the last plan needed, of data files and of deletes, read for it or before.
    """

    def __init__(self, source: Any, snapshot: Any, schema: Any) -> None:
        self.source, self.snapshot, self._meter = source, snapshot, Meter()
        self.version: int | None = None if snapshot is None else snapshot.snapshot_id
        self.fields = TableFields(schema, source.schemas())
        self.specs: Mapping[int, Spec] = {
            number: Spec(spec, self.fields) for number, spec in source.specs().items()
        }
        with self._meter.phase("listing"):
            self.manifests: Sequence[Any] = () if snapshot is None else _listed(source, snapshot)
        self.manifests_read = 0
        self._read: dict[int, Manifest] = {}
        self._lock = forks.lock()
        self._views: OrderedDict[tuple[int, ...], IcebergFiles] = OrderedDict()

    # What the table is.

    @property
    def path(self) -> str:
        """Where the table is."""
        return str(self.source.location())

    @property
    def unit(self) -> str:
        """What its containers are."""
        return "files"

    @property
    def schema(self) -> pa.Schema:
        """The columns, of the snapshot's schema."""
        return self.fields.schema

    @cached_property
    def partition_columns(self) -> tuple[str, ...]:
        """Names of the columns that have one value in each file, by every spec that files were written by."""
        used = {m.partition_spec_id for m in self.manifests} or {self.source.spec().spec_id}
        found = [{f.leaf.path for f in self.specs[number].fields if f.exact} for number in used]
        return tuple(name for name in self.schema.names if all((name,) in paths for paths in found))

    @property
    def sort_order(self) -> tuple[tuple[str, str, str, str], ...]:
        """How writers should sort files by now: column, transform, "asc" or "desc", "nulls-first" or "nulls-last"."""
        names = {leaf.id: show_path(leaf.path) for leaf in self.fields.leaves.values()}
        order = self.source.sort_order().fields
        return tuple(
            (
                names.get(f.source_id, str(f.source_id)),
                str(f.transform),
                str(f.direction.value),
                str(f.null_order.value),
            )
            for f in order
        )

    @property
    def manifests_pruned(self) -> int:
        """How many manifests the last plan left out, by what the manifest list says of their partitions."""
        return len(self.manifests) - self.manifests_read

    @property
    def work(self) -> Work:
        """What was read so far, by all plans."""
        return self._meter.work

    @property
    def metadata(self) -> Any:
        """pyiceberg's metadata of the table."""
        return self.source.metadata

    @cached_property
    def data_size(self) -> DataSize:
        """What the manifest list and the snapshot's summary say that the table holds; None is unknown."""
        data, deletes = ([m for m in self.manifests if int(m.content) == kind] for kind in (0, 1))
        files, rows = (
            [
                (getattr(m, f"added_{what}_count"), getattr(m, f"existing_{what}_count"))
                for m in data
            ]
            for what in ("files", "rows")
        )
        if not all(map(_counted, files)):
            return self.files.size(np.ones(len(self.files), np.bool_))
        physical = sum(map(sum, rows)) if all(map(_counted, rows)) else None
        told = (
            self.snapshot.summary["total-files-size"]
            if self.snapshot is not None and self.snapshot.summary is not None
            else "0"
        )
        known = not deletes and told is not None and str(told).isdigit()
        return DataSize(
            sum(map(sum, files)),
            int(told) if known else None,
            physical,
            physical if not deletes else None,
        )

    @property
    def num_files(self) -> int:
        """How many data files there are."""
        known = self.data_size.files
        return len(self.files) if known is None else known

    @property
    def num_containers(self) -> int:
        """The same: containers are files."""
        return self.num_files

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all data files."""
        return (
            self.data_size.bytes
            if self.data_size.bytes is not None
            else int(self.files.sizes.sum())
        )

    # Files and their statistics.

    @property
    def files(self) -> IcebergFiles:
        """All data files: every manifest is read."""
        return self._files(range(len(self.manifests)))

    @property
    def all_files(self) -> tuple[str, ...]:
        """Paths of all data files, in table order."""
        return tuple(self.files.paths.to_pylist())

    @property
    def statistics(self) -> Statistics:
        """Statistics of all data files."""
        return self.files.statistics

    def statistics_in(self, timezone: str) -> Statistics:
        """The same: no value of an Iceberg table is read in a session's zone."""
        return self.statistics

    @property
    def with_stats(self) -> pa.Table:
        """The data files: `path`, `size`, `sort_order_id`, `num_records`, `num_logical_records`, and `x.min`, `x.max`, ... of each column."""
        files = self.files
        counts = {
            "sort_order_id": files.sort_orders,
            "num_records": files.rows,
            "num_logical_records": files.logical_rows(),
        }
        columns: dict[str, Any] = {
            "path": files.paths,
            "size": files.sizes,
            **{name: pa.array(v, mask=v < 0) for name, v in counts.items()},
        }
        for path in self.fields.leaves:
            raw = files.statistics.raw(path)
            for key in (*KEYS[:3], "nan_count"):
                if (values := getattr(raw, key)) is not None:
                    columns[f"{show_path(path)}.{key}"] = values
        return pa.table(columns)

    def _files(self, chosen: Sequence[int]) -> IcebergFiles:
        """The data files of some manifests of the list, and the deletes of them."""
        key = tuple(chosen)
        with self._lock:
            missing = [i for i in chosen if i not in self._read]
            with self._meter.phase("manifests"):
                found = read_manifests(
                    [self.manifests[i] for i in missing], self.source.io, self._meter
                )
            self._read.update(zip(missing, found, strict=True))
            read = [self._read[i] for i in chosen]
            view = self._views.pop(key, None)
            if view is None:
                data, deletes = (
                    [
                        m
                        for i, m in zip(chosen, read, strict=True)
                        if int(self.manifests[i].content) == kind
                    ]
                    for kind in (0, 1)
                )
                view = IcebergFiles(self, data, deletes, len(read) == len(self.manifests))
            self._views[key] = view
            if len(self._views) > VIEWS:
                self._views.popitem(last=False)
            self.manifests_read = len(read)
        return view

    # Planning (bindings/plans/plan.py).

    def plan(
        self,
        where: Source | PruningPredicate | None = None,
        *,
        columns: list[str] | None = None,
        limit: int | None = None,
        order_by: str | Sequence[str] | None = None,
        stats_skipping: bool = True,
        dynamic: Dynamic = None,
        dynamic_filtering: bool | None = None,
        timezone: str = "UTC",
        ansi: bool = True,
        case_sensitive: bool = False,
    ) -> Plan:
        """Decide which files to read.

        Manifests are read, in parallel, only where the manifest list says that a partition of theirs may match, and have keys of the
        joins that are known already. The verdicts of the plan are of the files of those; the others are counted in `sizes.total` alone.

        Args:
            where: The condition: SQL text, an expression, filters, or a PruningPredicate over this table's schema.
                None keeps everything.
            columns: Top-level columns that reading gives; None gives all.
            limit: How many matching rows are enough, whichever they are. Files of which every row matches are kept
                until they have as many that live; if they do not, all that may match are.
            order_by: What rows are sorted by, as after ORDER BY in Spark SQL: "x DESC NULLS LAST, y". With a limit, only
                files that may hold one of the first rows are kept.
            stats_skipping: Whether to ask statistics of columns; else partition values alone decide.
            dynamic: What joins say of the rows: `DynamicFilterData` of a collector, or `DynamicFilter`, which may still be on its
                way. What they rule out is not read; a limit chooses among the rows that they leave.
            dynamic_filtering: Whether `dynamic` counts at all; None: as the table says, or the environment.
            timezone, ansi, case_sensitive: Spark's settings, as for PruningPredicate.

        Raises:
            PredicateError: the condition is malformed or names no column.
            SourceError: a manifest is missing or damaged.
        """
        kept = np.ones(len(self.manifests), np.bool_)
        if where is not None:
            where = predicate_over(
                self.schema, where, timezone=timezone, ansi=ansi, case_sensitive=case_sensitive
            )
            kept = keeps(where, self.manifests, self.specs)
        wanted = enabled(dynamic_filtering, self.dynamic_filtering)
        if dynamic is not None and wanted:
            from skipstone.bindings.filters.scan import DynamicFilters, filters_of

            dynamic = filters_of(dynamic)
            for condition in DynamicFilters(
                dynamic, self.schema, Session(timezone, ansi, case_sensitive)
            ).conditions:
                kept &= keeps(condition, self.manifests, self.specs)
        files = self._files(np.flatnonzero(kept).tolist())
        with self._meter.phase("planning"):
            return plan_table(
                files, where, columns=columns, limit=limit, order_by=order_by, stats_skipping=stats_skipping, dynamic=dynamic,
                dynamic_filtering=wanted, timezone=timezone, ansi=ansi, case_sensitive=case_sensitive,
            )  # fmt: skip

    def __repr__(self) -> str:
        names = ", ".join(self.schema.names[:6]) + (", ..." if len(self.schema) > 6 else "")
        return f"IcebergTable(snapshot {self.version}, {len(self.manifests)} manifests, columns: {names})"


def _counted(counts: tuple[int | None, ...]) -> bool:
    return all(c is not None and c >= 0 for c in counts)


def _listed(source: Any, snapshot: Any) -> Sequence[Any]:
    listed = read_list(snapshot.manifest_list, source.io)
    unknown = {m.partition_spec_id for m in listed} - set(source.specs())
    if unknown:
        raise SourceError(
            f"{snapshot.manifest_list}: it names the partition specs {sorted(unknown)}, which the table's metadata lacks"
        )
    return listed


def _location(where: str, options: Mapping[str, str]) -> str:
    """Return the location for pyiceberg: it is asked first what lies there, where pyarrow can tell.

    Raises:
        SourceError: nothing is there, no Iceberg table is, or only its catalog knows which file counts.
    """
    scheme = scheme_of(where)
    if options or (scheme is not None and scheme not in KNOWN):
        return where
    fs, path = resolve(where)
    found = info_at(fs, path, where).type
    if found == pafs.FileType.NotFound:
        raise missing(where, "the metadata file of an Iceberg table, or its folder")
    if found == pafs.FileType.File:
        return os.path.expanduser(where)
    names = metadata_files(fs, path)
    if not names:
        raise SourceError(
            f"{shown(where)}: no Iceberg table is there, for its folder metadata holds no *.metadata.json"
        )
    if HINT not in names:
        raise SourceError(
            f"{shown(where)} is an Iceberg table's folder, and its catalog knows which metadata file "
            f"counts; load the table by its catalog, or name that file, such as {max(names)}"
        )
    return os.path.expanduser(where)


def scan_iceberg(
    table: Any,
    snapshot_id: int | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> IcebergTable:
    """Read the manifest list of an Iceberg table.

    Args:
        table: A table of pyiceberg's, as a catalog loads it; or the path or URI of a metadata file, or of a table's folder
            whose `metadata/version-hint.text` names it.
        snapshot_id: Which snapshot; None is the current one. Its columns are those of its own time.
        storage_options: What pyiceberg's FileIO needs to reach the storage, for a metadata file.

    Returns:
        The table. Nothing but its metadata and manifest list has been read.

    Raises:
        SourceError: there is no such metadata file or snapshot; it is damaged, or of a version that pyiceberg does not read.
        BackendMissing: pyiceberg is not there.

    Source: Iceberg's specification, "Scan Planning".

    Example:
        >>> import tempfile
        >>> from pyiceberg.io.pyarrow import PyArrowFileIO
        >>> from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
        >>> from pyiceberg.schema import Schema
        >>> from pyiceberg.serializers import ToOutputFile
        >>> from pyiceberg.table.metadata import new_table_metadata
        >>> from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
        >>> from pyiceberg.types import LongType, NestedField
        >>> folder = tempfile.mkdtemp()
        >>> schema = Schema(NestedField(1, "x", LongType()))
        >>> metadata = new_table_metadata(schema, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, folder)
        >>> ToOutputFile.table_metadata(metadata, PyArrowFileIO().new_output(f"{folder}/00000.metadata.json"))
        >>> table = scan_iceberg(f"{folder}/00000.metadata.json")
        >>> table.num_files, table.plan("x > 5").files
        (0, ())
    """
    try:
        from pyiceberg.table import StaticTable, Table
    except ModuleNotFoundError as e:
        raise BackendMissing(
            "reading Iceberg tables needs the package pyiceberg: pip install 'skipstone[iceberg]'"
        ) from e
    if isinstance(table, str | bytes | os.PathLike):
        options = options_of(storage_options)
        where = _location(path_text(table), options)
        try:
            table = StaticTable.from_metadata(metadata_file(where, options), options)
        except SourceError:
            raise
        except Exception as e:  # pydantic's, fsspec's and pyarrow's errors have no common base
            raise SourceError(
                f"{shown(where)}: the metadata cannot be read ({type(e).__name__}: {one_line(e)})"
            ) from e
    elif not isinstance(table, Table):
        raise SourceError(
            f"scan_iceberg was given a {type(table).__name__}; expected a table of pyiceberg's, or the path of a metadata file"
        )
    if snapshot_id is None:
        return IcebergTable(table, table.current_snapshot(), table.schema())
    snapshot = table.snapshot_by_id(snapshot_id)
    if snapshot is None:
        known = ", ".join(str(s.snapshot_id) for s in table.metadata.snapshots[-8:]) or "none"
        raise SourceError(
            f"{table.location()}: there is no snapshot {snapshot_id}; the last ones are {known}"
        )
    schemas = table.schemas()
    return IcebergTable(table, snapshot, schemas.get(snapshot.schema_id, table.schema()))
