"""The row groups of an open file that is read by pages."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from skipstone.bindings.tables.parquet.footer import ParsedFooter
from skipstone.bindings.tables.parquet.pages.chunk import Chunk
from skipstone.bindings.tables.parquet.pages.leaf_types import LeafType
from skipstone.bindings.tables.parquet.pages.page_choice import RowGroup, is_one_page
from skipstone.bindings.tables.parquet.pages.ranges import Ranges
from skipstone.bindings.tables.row_ranges import RowRanges

if TYPE_CHECKING:
    from skipstone.bindings.tables.parquet.pages.nested.nested_types import NestedColumns


class FileRead(NamedTuple):
    """Row groups of an open file to read.

    Attributes:
        path: The path, for messages.
        parsed: The footer.
        ranges: Reads the file.
        groups: The numbers of the row groups; None means all.
        own_names: Table column -> its name in the file, for those that the file has.
        constants: The values of the other columns: partition values, defaults, NULLs.
        convert: Converts a column that Arrow decoded to the table's column of a name.
        deleted: The rows of the file that are deleted; None if there are none.
        inner: Table column -> the parts of it that are needed, for structs that are needed only in
            part.
        inner_by_name: True if the fields of structs have the names that they have in the table.
        tests_blooms: True if bloom filters may rule out row groups; False if planning has tested
            them.
    """

    path: str
    parsed: ParsedFooter
    ranges: Ranges
    groups: Sequence[int] | None
    own_names: Mapping[str, str]
    constants: Mapping[str, pa.Scalar]
    convert: Callable[[str, pa.Array], pa.Array]
    deleted: RowRanges | None = None
    inner: Mapping[str, Sequence[str]] = MappingProxyType({})
    inner_by_name: bool = False
    tests_blooms: bool = False


class MatchedColumns(NamedTuple):
    """The columns of a table as files with one head have them.

    Attributes:
        own: Table column -> its name in the file.
        missing: The table's columns that the file lacks, or that it holds as partition values.
        convert: Converts a column that Arrow decoded to the table's column of a name.
        inner_by_name: As of `FileRead`.
    """

    own: Mapping[str, str]
    missing: Sequence[str]
    convert: Callable[[str, pa.Array], pa.Array]
    inner_by_name: bool


def nested_in(file: FileRead, fields: Sequence[pa.Field]) -> NestedColumns | None:
    """Return those columns of a file that are nested and can be read by pages; None if none are.

    Args:
        file: The file.
        fields: The table's columns.
    """
    if not any(pa.types.is_nested(f.type) for f in fields):
        return None
    from skipstone.bindings.tables.parquet.pages.nested.nested_types import nested_among

    head, by_name = file.parsed.head, file.inner_by_name
    return nested_among(fields, file.own_names, head, by_name=by_name)


def row_groups_of(
    file: FileRead,
    leaves: Mapping[str, LeafType],
    nested: NestedColumns | None = None,
) -> list[RowGroup] | None:
    """Return the row groups of a file; None if the footer contradicts itself about one of them.

    Args:
        file: The file.
        leaves: Table column -> its type in the file, of flat columns.
        nested: Its nested columns.
    """
    leaves = leaves if nested is None else {**leaves, **nested.leaves}
    parsed, page_locations = file.parsed, file.parsed.page_locations
    if page_locations is None:
        return None
    out, all_rows = [], parsed.rows.tolist()
    firsts = None if file.deleted is None else list(itertools.accumulate(all_rows, initial=0))
    positions = [leaf.position for leaf in leaves.values()]
    for g in range(len(all_rows)) if file.groups is None else file.groups:
        rows, small = all_rows[g], True
        chunks = {}
        located = page_locations[g, positions].tolist()
        for (name, leaf), slots in zip(leaves.items(), located, strict=True):
            chunk = Chunk.of(slots, file.ranges.size, rows, leaf.repeated)
            if chunk is not None:
                chunks[name] = chunk
                small = small and is_one_page(chunk)
            elif not leaf.above:  # nested columns may also be read whole
                return None
        live = None
        if file.deleted is not None and firsts is not None:
            deleted = file.deleted.mask(firsts[g], rows)
            live = ~deleted if deleted.any() else None
        out.append(
            RowGroup(
                file.path,
                file.ranges,
                rows,
                parsed,
                g,
                chunks,
                file.constants,
                live,
                file.own_names,
                file.convert,
                file.inner,
                file.tests_blooms and parsed.has_blooms,
                small,
            )
        )
    return out
