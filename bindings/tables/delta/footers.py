"""Prune Delta files by their footers, where the log lacks bounds and the files are few."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from skipstone.bindings.plans.order import packed
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.tables.parquet.footer_groups import FooterPart
from skipstone.bindings.tables.parquet.footers import Footer, read_footers
from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of
from skipstone.ir.node import Path, columns_of
from skipstone.ir.outcome import Verdict
from skipstone.kernels.pack.planes import Verdicts, mask_of

if TYPE_CHECKING:
    from skipstone.bindings.predicates.predicate import PruningPredicate
    from skipstone.bindings.tables.delta.table import DeltaTable


def prune_by_footers(
    table: DeltaTable,
    predicate: PruningPredicate,
    statistics: Statistics,
    verdicts: Verdicts,
    footer_cache: dict[str, Footer],
    limit: int,
) -> Verdicts:
    """Rule out files by their footers, where the log lacks a bound.

    Only files whose verdict is MAYBE are looked at. A file is ruled out if none of its row groups
    can match. Tables with column mapping are left alone: their footers have other names.

    Args:
        table: The table.
        predicate: The condition.
        statistics: The statistics from the log.
        verdicts: The verdicts by these statistics, uint8, one per file.
        footer_cache: Footers that were read before, by path; new ones are added.
        limit: No footer is read if more files than this lack bounds.

    Returns:
        The verdicts, with NEVER for files that were ruled out.
    """
    paths = [
        path
        for path in columns_of(predicate.node)
        if path[0] not in table.partition_columns and _is_ordered(statistics, path)
    ]
    if not paths or limit < 1 or table.snapshot.fields.mapped:
        return verdicts
    lacking = np.zeros(len(verdicts), np.bool_)
    for path in paths:
        lacking |= _lacks(statistics, path)
    at = np.flatnonzero(lacking & (verdicts == Verdict.MAYBE))
    files = table.files.column("path")
    names = pc.take(files, arrow_of(at)).to_pylist() if 0 < len(at) <= limit else []
    inside = [
        i
        for i, name in enumerate(names)
        if "://" not in name and not name.startswith("file:/") and ".." not in name.split("/")
    ]
    at, names = at[inside], [names[i] for i in inside]
    if not names:
        return verdicts
    root = table.snapshot.root
    full_paths = {
        name: name if name.startswith("/") or not root else f"{root}/{name}" for name in names
    }
    new = [name for name in names if name not in footer_cache]
    footer_cache.update(
        zip(
            new,
            read_footers(
                [full_paths[name] for name in new], table.snapshot.fs, table.meter, keep=True
            ),
            strict=True,
        )
    )
    part = FooterPart([footer_cache[name] for name in names], np.arange(len(names)))
    kinds = {leaf.path: leaf.type for leaf in table.snapshot.fields.leaves}
    rows = arrow_of(part.rows, part.rows >= 0)
    groups = Statistics(
        table.schema,
        len(part.owner),
        {path: part.raw(path, kinds[path]) for path in paths},
        row_count=rows,
        counts_parents=True,
    )
    may_match = np.bincount(part.owner, predicate.prune(groups), len(names)) > 0
    out = verdicts.copy()
    out[at[~may_match]] = Verdict.NEVER
    return out


def _is_ordered(statistics: Statistics, path: Path) -> bool:
    leaf = statistics.leaf(path)
    return leaf is not None and leaf.dtype.ordered


def _lacks(statistics: Statistics, path: Path) -> npt.NDArray[np.bool_]:
    """Return the files where a bound of a column is unknown and the column may hold a value."""
    column = packed(statistics, path)
    may_hold_value = mask_of(column.may_hold_value, statistics.num_containers)
    low, high = column.known(high=False), column.known(high=True)
    return may_hold_value if low is None or high is None else may_hold_value & ~(low & high)
