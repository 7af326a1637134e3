"""Describe the files of a Parquet plan to pyarrow.dataset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow.fs as pafs
import pyarrow.parquet as pq

from skipstone.bindings.plans.table_protocol import DatasetFile
from skipstone.bindings.tables.partitions import partition_column
from skipstone.ir.errors import SourceError, describe_error

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.tables.parquet.table import ParquetTable


def dataset_files(table: ParquetTable, plan: Plan) -> Iterator[DatasetFile]:
    """Yield the kept row groups of each file.

    Raises:
        SourceError: a footer or a partition value cannot be read.
    """
    wanted = [table.schema.field(c) for c in plan.columns if c in table.partition_columns]
    groups = table.groups
    folders = dict(zip(groups.files.paths.to_pylist(), groups.files.folder.tolist(), strict=True))
    for path, kept in plan.row_groups.items():
        if path in table.unreadable:
            raise table.unreadable[path]
        folder = groups.files.folders[folders[path]]
        footer = table.footers.get(path)
        if footer is None:
            metadata = read_metadata(path, table.filesystem, path)
        else:
            metadata = footer.head.metadata
        values = {f.name: partition_column([folder], f, plan.timezone)[0] for f in wanted}
        yield DatasetFile(path, table.filesystem, metadata, kept, values)


def read_metadata(path: str, filesystem: pafs.FileSystem, name: str) -> pq.FileMetaData:
    """Read the footer of a file of any table; `name` is the file's path in errors.

    Raises:
        SourceError: the footer cannot be read.
    """
    try:
        return pq.read_metadata(path, filesystem=filesystem)
    except (OSError, ValueError) as e:
        raise SourceError(
            f"{name}: reading the footer failed ({describe_error(e)}); if the table was "
            "changed since, scan it again"
        ) from e
