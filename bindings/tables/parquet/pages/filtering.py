"""Filter rows of row groups: column after column, or by the decoder in one pass over all columns.

Going column after column reads only the pages that hold matching rows. One pass reads all pages,
but takes less time if most of them hold matches, because the decoder skips rows faster than Python
chooses pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from skipstone.bindings.tables.files import Ints
from skipstone.bindings.tables.parquet.pages.columns import as_type, batches_of_rows, is_same
from skipstone.bindings.tables.parquet.pages.decoders import matching, uses_polars
from skipstone.bindings.tables.parquet.pages.page_choice import (
    MAX_AHEAD,
    PAGE_ROWS,
    RowGroup,
    Window,
    needed_share,
)
from skipstone.bindings.tables.parquet.pages.polars_filter import Expression, split
from skipstone.bindings.tables.parquet.pages.row_groups import PagedRowGroups
from skipstone.bindings.tables.parquet.pages.wanted_pages import (
    page_file,
    read_wanted,
    wanted_pages,
    wanted_together,
)
from skipstone.bindings.tables.read import BATCH_ROWS, RowSelection
from skipstone.bindings.tables.row_filter import conjuncts, matches
from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, repeated
from skipstone.ir.errors import UnsupportedForm
from skipstone.ir.node import Node, columns_of
from skipstone.kernels.pack.planes import Mask

# The number of row groups that are read to learn how many pages hold matching rows.
SAMPLED: Final = 2
# Minimum share of needed pages for which one pass takes less time.
MIN_NEEDED: Final = 0.25
# Limits of one pass, in bytes: of columns that the condition does not test (late columns), of rows
# that pages have ruled out, and of tested columns that are read together.
LATE_BYTES, VAIN_BYTES, TOGETHER_BYTES = 1 << 24, 1 << 20, 1 << 22


def keep_matching(rows: PagedRowGroups, predicate: Node, *, lenient: bool) -> None:
    """Keep only the rows for which a condition is TRUE, one conjunct after another.

    Args:
        rows: The row groups.
        predicate: The bound condition.
        lenient: True if rows that cannot be judged here stay candidates.

    Raises:
        UnsupportedForm: rows cannot be judged here.
    """
    if not rows.candidates.count:  # such as where all rows are deleted
        return
    open_ = None
    remaining = _without_decodable(rows, predicate)
    for part in () if remaining is None else conjuncts(remaining):
        if not rows.candidates.count:
            return
        try:
            raising = rows.filter(part)
        except UnsupportedForm:
            if not lenient:
                raise
            continue
        if raising is not None:
            open_ = raising if open_ is None else open_ | raising
    if open_ is not None and not lenient and (lost := open_ & rows.candidates.mask).any():
        from skipstone.ir.evaluation.unjudged import unjudged

        raise unjudged(predicate, int(lost.sum()), _row_at(rows, int(lost.argmax()), predicate))


def _row_at(rows: PagedRowGroups, position: int, predicate: Node) -> pa.RecordBatch:
    """Return the columns that a condition tests of one candidate row, the only one that is left."""
    rows.candidates.keep_only(np.array([position]))
    names = list(dict.fromkeys(path[0] for path in columns_of(predicate)))
    rows.fetch([name for name in names if rows.is_stored(name)])
    return batches_of_rows(rows.columns(names), 1)[0]


def read_ahead(rows: PagedRowGroups, names: Iterable[str]) -> None:
    """Read pages of remote files together if they are short, before it is known which are needed.

    A request for each column of the condition, and one for the others, would take longer.

    Args:
        rows: The row groups.
        names: The columns that may be needed.

    Raises:
        OSError: a file cannot be read.
    """
    stored = [name for name in names if name in rows.leaves]
    groups = [] if len(stored) < 2 else rows.candidate_groups()
    if all(g.windows[0].group.ranges.local for g in groups):
        return
    if _nbytes_within(rows.windows, stored) <= MAX_AHEAD:
        read_wanted(wanted_pages(groups, stored))


def _without_decodable(rows: PagedRowGroups, predicate: Node) -> Node | None:
    """Let the decoder judge the conjuncts that it can judge, all in one pass over their columns.

    It judges none if the columns are large: each conjunct may rule out pages of the next column.

    Returns:
        The other conjuncts; None if there are none.
    """
    condition, rest = rows.expression_of(predicate)
    if condition is None:
        return predicate
    names = list(dict.fromkeys(condition.meta.root_names()))
    small = len(names) > 1 and _nbytes_within(rows.windows, names) <= TOGETHER_BYTES
    return rest if small and rows.filter_while_decoding(condition, names) else predicate


def filtered_by_decoder(rows: PagedRowGroups, wanted: RowSelection) -> list[pa.RecordBatch] | None:
    """Return the wanted rows, filtered while they are decoded.

    Args:
        rows: The row groups; if rows are returned, they become its only candidates.
        wanted: The rows and columns to return.

    Returns:
        The rows; None if Polars cannot filter them, or if another way seems to cost less.

    Raises:
        UnsupportedForm: the rows cannot be judged here.
        OSError: a file cannot be read.
    """
    predicate, windows = wanted.predicate, rows.windows
    assert predicate is not None
    tested = {path[0] for path in columns_of(predicate)}
    groups = [w.group for w in windows]
    if (
        not rows.candidates.count
        or not tested <= rows.leaves.keys()
        or not rows.whole.isdisjoint(wanted.columns)
        or any(leaf.is_int96 for leaf in rows.leaves.values())
        or not all(g.ranges.local for g in groups)
        or not _have_equal_constants(groups, wanted.columns)
        or not uses_polars(_nbytes_within(windows, rows.leaves), rows.reader)
    ):
        return None
    condition, rest = split(predicate, rows.decoder_schema)
    if condition is None or not _is_worth_it(rows, wanted, tested):
        return None
    judged = [] if rest is None else [path[0] for path in columns_of(rest)]
    found = _decoded(rows, condition, list(dict.fromkeys([*wanted.columns, *judged])))
    if found is None:
        return None
    matched, columns = found
    pages = sum(w.rows for w in windows) // PAGE_ROWS
    if wanted.pages.needed_share is None and len(matched) < MIN_NEEDED * pages:
        wanted.pages.needed_share = len(matched) / pages  # at most
    batches = columns.to_batches(BATCH_ROWS)
    if rest is not None:
        masks = [_matches(rest, batch, wanted.lenient) for batch in batches]
        batches = [pc.filter(b, arrow_of(m)) for b, m in zip(batches, masks, strict=True)]
        matched = matched[np.concatenate([*masks, np.zeros(0, np.bool_)])]
    rows.candidates.keep_only(matched)
    return [batch.select(list(wanted.columns)) for batch in batches]


def _matches(node: Node, batch: pa.RecordBatch, lenient: bool) -> Mask:
    """Return the mask of the rows for which a condition is TRUE; of all if it cannot be judged."""
    try:
        return matches(node, batch)
    except UnsupportedForm:
        if not lenient:
            raise
        return np.ones(batch.num_rows, np.bool_)


def _is_worth_it(rows: PagedRowGroups, wanted: RowSelection, tested: set[str]) -> bool:
    """Return True if one pass over all columns seems to cost less than one after another."""
    groups = [w.group for w in rows.windows]
    late = [name for name in wanted.columns if name in rows.leaves and name not in tested]
    history = wanted.pages
    if history.needed_share is None and _nbytes_within(rows.windows, late) <= LATE_BYTES:
        return True
    if history.needed_share is None and len(groups) >= 4 * SAMPLED and wanted.predicate is not None:
        sample = rows.sample(SAMPLED)
        keep_matching(sample, wanted.predicate, lenient=True)
        masks = {id(g.windows[0].group): g.candidates for g in sample.candidate_groups()}
        shares = [
            needed_share(w.group.chunks[name], masks[id(w.group)]) if id(w.group) in masks else 0
            for w in sample.windows
            for name in late
        ]
        history.needed_share = sum(shares) / max(len(shares), 1)
    return history.needed_share is not None and history.needed_share >= MIN_NEEDED


def _decoded(
    rows: PagedRowGroups, condition: Expression, names: Sequence[str]
) -> tuple[Ints, pa.Table] | None:
    """Return columns of the rows of windows for which a condition is TRUE.

    Args:
        rows: The row groups.
        condition: A condition on columns that the files have.
        names: The columns.

    Returns:
        The rows' positions in the windows, and the columns; None if pages leave too little of large
        row groups, or if Polars refuses.

    Raises:
        OSError: a file cannot be read.
    """
    own = [name for name in names if name in rows.leaves]
    wanted = wanted_together(
        rows.candidate_groups(), list(dict.fromkeys([*own, *condition.meta.root_names()]))
    )
    placement = wanted[0].placement
    nbytes = sum(part.nbytes for one in wanted for _, part, *_ in one.parts)
    if nbytes * (1 - int(placement.lengths.sum()) / max(placement.rows, 1)) > VAIN_BYTES:
        return None
    keep = placement.keep(None if rows.candidates.all else rows.candidates.mask)
    with page_file(wanted, rows.leaves, keep, rows.path) as file:
        found = matching(file, condition, own)
    if found is None:
        return None
    decoded, n = found.columns.select(own, None), len(found.positions)
    columns = {name: as_type(decoded.column(name), rows.types[name]) for name in own}
    for name in names:
        if name not in columns:
            columns[name] = repeated(rows.windows[0].group.constants[name], n)
    table = pa.table([columns[name] for name in names], list(names))
    return placement.in_windows(found.positions), table


def _nbytes(groups: Sequence[RowGroup], names: Iterable[str]) -> int:
    """Return the bytes of columns."""
    return sum(g.chunks[name].nbytes for g in groups for name in names)


def _nbytes_within(windows: Sequence[Window], names: Iterable[str]) -> int:
    """Return the approximate bytes of columns in windows."""
    return int(sum(_nbytes([w.group], names) * (w.rows / w.group.rows) for w in windows))


def _have_equal_constants(groups: Sequence[RowGroup], names: Sequence[str]) -> bool:
    """Return True if the columns that files lack have one value in all row groups."""
    first = groups[0].constants
    return all(
        g.constants is first or is_same(g.constants[name], first[name])
        for g in groups
        for name in names
        if name in first
    )
