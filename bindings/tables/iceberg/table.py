"""Plan an Iceberg table from its manifest list and manifests."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from skipstone.bindings.location import options_of, path_text, shown
from skipstone.bindings.plans.plan import Plan, plan_table
from skipstone.bindings.plans.records import log_opened
from skipstone.bindings.plans.table_protocol import DataSize
from skipstone.bindings.plans.work import Meter, Work
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.tables.iceberg.catalogs import table_in_catalog
from skipstone.bindings.tables.iceberg.fields import TableFields, name_mapping
from skipstone.bindings.tables.iceberg.files import IcebergFiles
from skipstone.bindings.tables.iceberg.listing import listed_size, read_list
from skipstone.bindings.tables.iceberg.located import existing_location, metadata_file
from skipstone.bindings.tables.iceberg.manifest import Manifest, read_manifests
from skipstone.bindings.tables.iceberg.partition import Spec, may_match
from skipstone.bindings.tables.iceberg.refs import snapshot_of
from skipstone.bindings.tables.table import Table
from skipstone.ir.cached import cached_property
from skipstone.ir.errors import BackendMissing, SourceError, counted, describe_error
from skipstone.ir.node import show_path
from skipstone.kernels.run import forks

if TYPE_CHECKING:
    from skipstone.bindings.plans.request import PlanRequest
    from skipstone.bindings.tables.iceberg.file_io import FileIO


MAX_VIEWS: Final = 8  # sets of manifests whose statistics are cached


class IcebergTable(Table):
    """One snapshot of an Iceberg table.

    Its manifest list has been read. A plan reads the manifests that it needs, and no data files.

    Attributes:
        source: pyiceberg's table.
        files_io: Opens its files.
        snapshot: pyiceberg's snapshot; None if the table has none yet.
        version: The snapshot's id; None if the table has no snapshot yet.
        fields: The columns of the snapshot's schema.
        specs: The table's partition specs, by id.
        manifests: The entries of the manifest list (listing.py).
        manifests_read: The number of manifests that the last plan needed, of data files and of
            deletes, whether it read them or an earlier plan had.
    """

    def __init__(self, source: Any, snapshot: Any, schema: Any) -> None:
        from skipstone.bindings.tables.iceberg.file_io import file_io_of

        self.source, self.snapshot, self._meter = source, snapshot, Meter()
        self.files_io = file_io_of(source)
        self.version: int | None = None if snapshot is None else snapshot.snapshot_id
        self.fields = TableFields(schema, source.schemas(), _mapping_of(source))
        self.specs: Mapping[int, Spec] = {
            number: Spec(spec, self.fields) for number, spec in source.specs().items()
        }
        with self._meter.phase("listing"):
            self.manifests: Sequence[Any] = (
                () if snapshot is None else _read_manifest_list(source, snapshot, self.files_io)
            )
        self.manifests_read = 0
        self._decoded_manifests: dict[int, Manifest] = {}
        self._lock = forks.lock()
        self._views: OrderedDict[tuple[int, ...], IcebergFiles] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the table without its catalog and without the manifests that it has read.

        The pickle includes the FileIO, with its properties for reaching the storage.
        """
        from pyiceberg.catalog.noop import NoopCatalog

        from skipstone.bindings.tables.iceberg.file_io import LazyTable

        static = LazyTable(
            self.source.name(),
            self.source.metadata,
            self.source.metadata_location,
            self.files_io,
            NoopCatalog("static-table"),
        )
        fresh = {"source": static, "_decoded_manifests": {}, "_lock": None, "_views": OrderedDict()}
        return {**self.__dict__, **fresh}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=forks.lock())

    # What the table is.

    @property
    def path(self) -> str:
        """The table's location."""
        return str(self.source.location())

    @property
    def unit(self) -> str:
        """The unit of the containers: "files"."""
        return "files"

    @property
    def schema(self) -> pa.Schema:
        """The columns of the snapshot's schema."""
        return self.fields.schema

    @cached_property
    def partition_columns(self) -> tuple[str, ...]:
        """The names of the columns that have one value in each file, by every spec in use."""
        used = {m.partition_spec_id for m in self.manifests} or {self.source.spec().spec_id}
        found = [{f.leaf.path for f in self.specs[number].fields if f.exact} for number in used]
        return tuple(name for name in self.schema.names if all((name,) in paths for paths in found))

    @property
    def sort_order(self) -> tuple[tuple[str, str, str, str], ...]:
        """The current sort order for writers.

        Each item is (column, transform, "asc" or "desc", "nulls-first" or "nulls-last").

        Raises:
            SourceError: the metadata names a sort order that it does not list.
        """
        names = {leaf.id: show_path(leaf.path) for leaf in self.fields.leaves.values()}
        try:
            order = self.source.sort_order().fields
        except StopIteration:  # what pyiceberg 0.12 raises
            raise SourceError(
                f"{self.path}: the metadata names a default sort order that it does not list"
            ) from None
        return tuple(
            (
                names.get(f.source_id, str(f.source_id)), str(f.transform), str(f.direction.value),
                str(f.null_order.value),
            )
            for f in order
        )  # fmt: skip

    @property
    def manifests_pruned(self) -> int:
        """The number of manifests that the last plan skipped by their partition summaries."""
        return len(self.manifests) - self.manifests_read

    @property
    def work(self) -> Work:
        """What all plans have read so far, and their time."""
        return self._meter.work

    @property
    def metadata(self) -> Any:
        """pyiceberg's metadata of the table."""
        return self.source.metadata

    @cached_property
    def data_size(self) -> DataSize:
        """The table's data, by the manifest list and the snapshot's summary; None is unknown."""
        size = listed_size(self.manifests, self.snapshot)
        return self.files.size(np.ones(len(self.files), np.bool_)) if size is None else size

    @property
    def num_files(self) -> int:
        """The number of data files."""
        known = self.data_size.files
        return len(self.files) if known is None else known

    @property
    def num_containers(self) -> int:
        """The number of containers, which are the data files."""
        return self.num_files

    @property
    def size_in_bytes(self) -> int:
        """The total size of all data files, in bytes."""
        if self.data_size.bytes is not None:
            return self.data_size.bytes
        return int(self.files.sizes.sum())

    # Files and their statistics.

    @property
    def files(self) -> IcebergFiles:
        """All data files; this reads every manifest."""
        return self._files(range(len(self.manifests)))

    @property
    def all_files(self) -> tuple[str, ...]:
        """The paths of all data files, in table order; this reads every manifest."""
        return tuple(self.files.paths.to_pylist())

    @property
    def statistics(self) -> Statistics:
        """The statistics of all data files; this reads every manifest."""
        return self.files.statistics

    def statistics_in(self, timezone: str) -> Statistics:
        """Return `statistics`: no value of an Iceberg table depends on a session's zone."""
        return self.statistics

    @property
    def with_stats(self) -> pa.Table:
        """The data files with their statistics.

        Columns: `path`, `size`, `sort_order_id`, `num_records`, `num_logical_records`, and `x.min`,
        `x.max`, `x.null_count`, `x.nan_count` for each column x.
        """
        return self.files.stats_table()

    def _files(self, chosen: Sequence[int]) -> IcebergFiles:
        """Return the data files in the chosen manifests, and their deletes.

        Args:
            chosen: Positions in `manifests`.
        """
        key = tuple(chosen)
        with self._lock:
            missing = [i for i in chosen if i not in self._decoded_manifests]
            with self._meter.phase("manifests"):
                found = read_manifests(
                    [self.manifests[i] for i in missing], self.files_io, self._meter
                )
            self._decoded_manifests.update(zip(missing, found, strict=True))
            read = [self._decoded_manifests[i] for i in chosen]
            view = self._views.pop(key, None)
            if view is None:
                kinds = [int(self.manifests[i].content) for i in chosen]
                data = [m for m, kind in zip(read, kinds, strict=True) if kind == 0]
                deletes = [m for m, kind in zip(read, kinds, strict=True) if kind == 1]
                view = IcebergFiles(self, data, deletes, len(read) == len(self.manifests))
            self._views[key] = view
            if len(self._views) > MAX_VIEWS:
                self._views.popitem(last=False)
            self.manifests_read = len(read)
        return view

    # Planning (bindings/plans/plan.py).

    def answer(self, request: PlanRequest) -> Plan:
        """Return the plan of a request; only manifests that may hold a match are read."""
        predicate, filters = request.predicate(self.schema), request.filters(self.schema)
        kept = np.ones(len(self.manifests), np.bool_)
        conditions = () if predicate is None else (predicate,)
        for condition in (*conditions, *(() if filters is None else filters.conditions)):
            kept &= may_match(condition, self.manifests, self.specs)
        files = self._files(np.flatnonzero(kept).tolist())
        dynamic = None if filters is None else filters.filters
        with self._meter.phase("planning"):
            return plan_table(files, replace(request, where=predicate, dynamic=dynamic))

    def __repr__(self) -> str:
        manifests = counted(len(self.manifests), "manifests")
        return f"IcebergTable(snapshot {self.version}, {manifests}, {self._shown_columns()})"


def _mapping_of(source: Any) -> Sequence[Any] | None:
    """Return the name mapping of a table; None if it has none, empty if it cannot be read."""
    try:
        return name_mapping(source)
    except SourceError:
        return ()


def _read_manifest_list(source: Any, snapshot: Any, files_io: FileIO) -> Sequence[Any]:
    listed = read_list(snapshot.manifest_list, files_io)
    unknown = {m.partition_spec_id for m in listed} - set(source.specs())
    if unknown:
        raise SourceError(
            f"{snapshot.manifest_list}: it names the partition specs {sorted(unknown)}, which the "
            "table's metadata lacks"
        )
    return listed


def scan_iceberg(
    source: Any,
    snapshot_id: int | str | None = None,
    *,
    catalog: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> IcebergTable:
    """Read the manifest list of an Iceberg table.

    Args:
        source: pyiceberg's table, as a catalog loads it; or the path or URI of a metadata file, or
            of a table's folder, if its `metadata/version-hint.text` names the current one. With
            `catalog`, the table's name there, such as "db.events".
        snapshot_id: The snapshot: its id, or the name of a branch or tag; None is the current one.
            Its columns are those of its own schema; a branch has the table's.
        catalog: A pyiceberg catalog; the name of one that pyiceberg's configuration
            describes (`.pyiceberg.yaml` or variables PYICEBERG_CATALOG__NAME__...); or its
            properties, such as {"type": "rest", "uri": ...}, with its "name" if it matters.
        storage_options: The options that pyiceberg's FileIO needs to reach a metadata file, in any
            of the spellings that `scan_parquet` takes; with `catalog`, added to its properties.

    Returns:
        The table. Only its metadata and manifest list have been read.

    Raises:
        SourceError: there is no such metadata file, table, snapshot, branch or tag, it is damaged
            or of a version that pyiceberg does not read, or the catalog cannot be reached.
        BackendMissing: pyiceberg is not installed, or a package that the catalog needs.

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
        >>> metadata = new_table_metadata(
        ...     schema, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, folder
        ... )
        >>> file = f"{folder}/00000.metadata.json"
        >>> ToOutputFile.table_metadata(metadata, PyArrowFileIO().new_output(file))
        >>> table = scan_iceberg(file)
        >>> table.num_files, table.plan("x > 5").files
        (0, ())
    """
    try:
        from pyiceberg.table import Table
    except ModuleNotFoundError as e:
        raise BackendMissing(
            "reading Iceberg tables needs the package pyiceberg: pip install 'skipstone[iceberg]'"
        ) from e
    table = source
    if catalog is not None:
        table = table_in_catalog(source, catalog, options_of(storage_options))
    elif isinstance(source, str | bytes | os.PathLike):
        options = options_of(storage_options)
        if options or "://" in path_text(source):
            from skipstone.bindings.storage import for_pyiceberg, with_s3_endpoint

            options = for_pyiceberg(source, options)
            where = existing_location(path_text(source), options)
            options = with_s3_endpoint(source, options)
        else:
            where = existing_location(path_text(source), options)
        try:
            from skipstone.bindings.tables.iceberg.variants import open_metadata

            table = open_metadata(metadata_file(where, options), options)
        except SourceError:
            raise
        except Exception as e:  # pydantic's, fsspec's and pyarrow's errors have no common base
            raise SourceError(
                f"{shown(where)}: the metadata cannot be read ({describe_error(e)})"
            ) from e
    elif not isinstance(source, Table):
        raise SourceError(
            f"scan_iceberg was given a {type(source).__name__}; expected a pyiceberg table, "
            "or the path of a metadata file"
        )
    return log_opened(IcebergTable(table, *snapshot_of(table, snapshot_id)), "iceberg", source)
