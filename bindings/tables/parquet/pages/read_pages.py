"""Read row groups of several files together, by pages, where their columns and footers allow it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.tables.parquet.footer import ParsedFooter
from skipstone.bindings.tables.parquet.pages.chunk_pages import Chunk
from skipstone.bindings.tables.parquet.pages.leaf_types import LeafType
from skipstone.bindings.tables.parquet.pages.ranges import Ranges
from skipstone.bindings.tables.parquet.pages.row_groups import RowGroup, RowGroups
from skipstone.bindings.tables.row_filter import conjuncts
from skipstone.ir.errors import UnsupportedForm
from skipstone.ir.node import Node
from skipstone.ir.rows import unjudged
from skipstone.ir.session import Session


@dataclass(frozen=True, slots=True)
class PageRead:
    """What to read from row groups.

    Attributes:
        fields: The table's columns that are needed.
        columns: Those to return.
        predicate: The condition that the rows are filtered by; None: all rows are returned.
        lenient: Whether rows that cannot be judged are returned.
    """

    fields: Sequence[pa.Field]
    columns: Sequence[str]
    predicate: Node | None
    lenient: bool = False


def leaves_of(
    tail: ParsedFooter, fields: Sequence[pa.Field], own_names: Mapping[str, str]
) -> dict[str, LeafType] | None:
    """Return the types of a file's columns; None if some of them cannot be read by pages.

    Args:
        tail: The file's footer.
        fields: The table's columns that are not partition columns.
        own_names: Their names in the file; absent columns have none.
    """
    if tail.head.julian or tail.places is None:
        return None
    known = tail.head.leaf_types
    out = {f.name: known.get(own_names[f.name]) for f in fields if f.name in own_names}
    return (
        None if None in out.values() else {n: leaf for n, leaf in out.items() if leaf is not None}
    )


def row_groups_of(
    path: str, tail: ParsedFooter, ranges: Ranges, size: int, leaves: Mapping[str, LeafType],
    groups: Sequence[int],
) -> list[RowGroup] | None:  # fmt: skip
    """Return row groups of a file; None if the footer contradicts itself about one of them."""
    places = tail.places
    assert places is not None
    out = []
    for g in groups:
        rows = int(tail.rows[g])
        chunks = {name: Chunk.of(places[g, leaf.position], size) for name, leaf in leaves.items()}
        if any(c is None or c.values != rows for c in chunks.values()):
            return None
        out.append(
            RowGroup(
                path, ranges, rows, tail, g, {n: c for n, c in chunks.items() if c is not None}
            )
        )
    return out


def rows_of(
    rows: RowGroups, wanted: PageRead, constants: Mapping[str, pa.Scalar]
) -> pa.RecordBatch | None:
    """Return the wanted rows of row groups; None if there are none.

    Args:
        rows: The row groups.
        wanted: What to read.
        constants: The values of columns that the files lack: partition values, and NULLs.

    Raises:
        UnsupportedForm: the rows cannot be judged here.
        SourceError, OSError, ArrowException: the pages cannot be read.
    """
    if wanted.predicate is not None:
        rows.prune(_predicate(wanted.predicate, pa.schema(wanted.fields)))
        _filter(rows, wanted.predicate, constants, lenient=wanted.lenient)
    n = int(rows.alive.sum())
    if not n:
        return None
    names = [name for name in wanted.columns if name not in constants]
    rows.fetch(names)
    own = rows.columns(names)
    types = {f.name: f for f in wanted.fields}
    arrays = [
        pa.repeat(constants[name], n) if name in constants else own[name] for name in wanted.columns
    ]
    schema = pa.schema([types[name] for name in wanted.columns])
    if not arrays:
        return pa.record_batch([pa.nulls(n)], [""]).select([])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _filter(
    rows: RowGroups, predicate: Node, constants: Mapping[str, pa.Scalar], *, lenient: bool
) -> None:
    open_ = None
    for part in conjuncts(predicate):
        if not rows.alive.any():
            return
        try:
            raising = rows.filter(part, constants)
        except UnsupportedForm:
            if not lenient:
                raise
            continue
        if raising is not None:
            open_ = raising if open_ is None else open_ | raising
    if open_ is not None and not lenient and (lost := int((open_ & rows.alive).sum())):
        raise unjudged(predicate, lost)


@functools.lru_cache(maxsize=64)
def _predicate(node: Node, schema: pa.Schema) -> PruningPredicate:
    return PruningPredicate._from_bound(node, schema, Session())
