"""Columns that are read whole: Arrow decodes them, row group by row group.

These are CHAR, times and days of old calendars, rare types, and nested columns of which most pages
are needed, or whose pages cannot be found. Row groups without a candidate row are not read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from skipstone.bindings.tables.parquet.pages.decoders import ArrowColumns
from skipstone.bindings.tables.parquet.pages.wanted_pages import CandidateGroup
from skipstone.bindings.tables.read import BATCH_ROWS, batches_of, parquet_file
from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of
from skipstone.ir.node import Node, Path, columns_of
from skipstone.kernels.run.pool import ContextPool, threads


def inner_paths(
    predicate: Node, whole: Collection[str], own_names: Mapping[str, str], file: pa.Schema
) -> dict[str, list[str]]:
    """Return which parts of struct columns a condition tests, for columns that only it needs.

    Args:
        predicate: The bound condition.
        whole: The columns of which other parts are needed, too.
        own_names: Table column -> its name in the file.
        file: The file's columns.

    Returns:
        Table column -> the paths of its parts, as Arrow's reader names them.
    """
    out: dict[str, list[str]] = {}
    paths = list(columns_of(predicate))
    for name in {path[0] for path in paths if path[0] in own_names} - set(whole):
        parts = [_path_in(file, (own_names[name], *path[1:])) for path in paths if path[0] == name]
        known = [part for part in parts if part is not None]
        if len(known) == len(parts):
            out[name] = known
    return out


def _path_in(file: pa.Schema, path: Path) -> str | None:
    """Return the dotted path of a struct's field; None if that is not the path of one field."""
    if len(path) < 2 or any("." in name for name in path):
        return None
    if any(name.startswith(f"{path[0]}.") for name in file.names):
        return None
    at = file.field(path[0]).type
    for name in path[1:]:
        if not pa.types.is_struct(at) or at.get_field_index(name) < 0:
            return None
        at = at.field(name).type
    return ".".join(path)


def read_whole(
    groups: Sequence[CandidateGroup], schema: pa.Schema, *, stop_early: bool
) -> ArrowColumns:
    """Read columns of the candidate rows of row groups.

    Args:
        groups: The row groups.
        schema: The columns, as the table has them.
        stop_early: False to decode the rows after the last candidate, too. Only the end of a column
            shows that pages before it are damaged, so that their values are those of other rows.

    Raises:
        SourceError: a column holds times or days that Arrow misreads, or fewer rows than the
            footer counts.
        OSError, ArrowException: a file cannot be read.
    """
    if len(groups) == 1 or threads() == 1:
        each = [_batches(g, schema, stop_early) for g in groups]
    else:
        # Arrow finds the size of a file object of Python by moving its position, so such a file is
        # opened before threads read it.
        files = [None if g.windows[0].group.ranges.local else _opened(g) for g in groups]
        with ContextPool(threads(), "skipstone-decode") as pool:
            each = list(
                pool.map(lambda g, file: _batches(g, schema, stop_early, file), groups, files)
            )
    return ArrowColumns(pa.Table.from_batches([b for found in each for b in found], schema))


def _opened(candidates: CandidateGroup) -> pq.ParquetFile:
    """Open the file of a row group, to decode it by Arrow."""
    g = candidates.windows[0].group
    return parquet_file(g.ranges.source, local=g.ranges.local, metadata=g.footer.metadata)


def _batches(
    candidates: CandidateGroup,
    schema: pa.Schema,
    stop_early: bool,
    file: pq.ParquetFile | None = None,
) -> list[pa.RecordBatch]:
    """Return columns of the candidate rows of one row group.

    Args:
        candidates: The row group.
        schema: The columns, as the table has them.
        stop_early: As of `read_whole`.
        file: Its file; None if it is yet to be opened.
    """
    g = candidates.windows[0].group
    file = _opened(candidates) if file is None else file
    keep = None if candidates.is_whole else candidates.in_row_group()
    own = {name: g.own_names[name] for name in schema.names}
    paths = dict.fromkeys(path for name, at in own.items() for path in g.inner.get(name, [at]))
    last = max(w.stop for w in candidates.windows) if stop_early else g.rows
    out, start = [], 0
    rows = last if last == g.rows else min(last, BATCH_ROWS)
    for batch in batches_of(file, g.path, list(paths), [g.number], max(rows, 1)):
        stop = start + batch.num_rows
        part = None if keep is None else keep[start:stop]
        if part is not None and not part.all():
            batch = pc.filter(batch, arrow_of(part))
        if batch.num_rows:
            columns = [g.convert(name, batch.column(at)) for name, at in own.items()]
            out.append(pa.RecordBatch.from_arrays(columns, schema=schema))
        if stop >= last:
            break
        start = stop
    return out
