"""Files that the log says too little of: their footers may rule them out, if they are few."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.plans.order import packed
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.tables.parquet.footer_groups import FooterPart
from skipstone.bindings.tables.parquet.footers import Footer, read_footers
from skipstone.ir.node import Path, columns_of
from skipstone.ir.outcome import Verdict
from skipstone.kernels.pack.planes import mask_of

if TYPE_CHECKING:
    from skipstone.bindings.predicates.predicate import PruningPredicate
    from skipstone.bindings.tables.delta.table import DeltaTable

Verdicts = npt.NDArray[np.uint8]
MOST: Final = (
    64  # files whose footers a plan reads; whoever reads the files needs these footers too
)


def by_footers(
    table: DeltaTable,
    predicate: PruningPredicate,
    statistics: Statistics,
    verdicts: Verdicts,
    held: dict[str, Footer],
    most: int,
) -> Verdicts:
    """Verdicts, where files that may match, and of which the log lacks a bound, are ruled out if none of their row groups can match.

    Args:
        table: Whose files they are; by column mapping footers have other names, and are not read.
        predicate: The condition.
        statistics: What the log says.
        verdicts: By that.
        held: Footers that were read before, by path.
        most: How many files may lack bounds, for any footer to be read.
    """
    paths = [
        path
        for path in columns_of(predicate.node)
        if path[0] not in table.partition_columns and _bounded(statistics, path)
    ]
    if not paths or most < 1 or table.snapshot.fields.mapped:
        return verdicts
    lacking = np.zeros(len(verdicts), np.bool_)
    for path in paths:
        lacking |= _lacks(statistics, path)
    at = np.flatnonzero(lacking & (verdicts == Verdict.MAYBE))
    names = table.files.column("path").take(pa.array(at)).to_pylist() if 0 < len(at) <= most else []
    own = [
        i
        for i, name in enumerate(names)
        if "://" not in name and not name.startswith("file:/") and ".." not in name.split("/")
    ]
    at, names = at[own], [names[i] for i in own]
    if not names:
        return verdicts
    root = table.snapshot.root
    places = {
        name: name if name.startswith("/") or not root else f"{root}/{name}" for name in names
    }
    new = [name for name in names if name not in held]
    held.update(
        zip(
            new,
            read_footers([places[name] for name in new], table.snapshot.fs, table.meter, keep=True),
            strict=True,
        )
    )
    part = FooterPart([held[name] for name in names], np.arange(len(names)))
    kinds = {leaf.path: leaf.type for leaf in table.snapshot.fields.leaves}
    rows = pa.array(part.rows, mask=part.rows < 0)
    groups = Statistics(
        table.schema,
        len(part.owner),
        {path: part.raw(path, kinds[path]) for path in paths},
        row_count=rows,
        counts_parents=True,
    )
    some = np.bincount(part.owner, predicate.prune(groups), len(names)) > 0
    out = verdicts.copy()
    out[at[~some]] = Verdict.NEVER
    return out


def _bounded(statistics: Statistics, path: Path) -> bool:
    leaf = statistics.leaf(path)
    return leaf is not None and leaf.dtype.ordered


def _lacks(statistics: Statistics, path: Path) -> npt.NDArray[np.bool_]:
    """Where a bound of a column is not known, and the column may hold a value."""
    column = packed(statistics, path)
    real = mask_of(column.real, statistics.num_containers)
    low, high = column.known(high=False), column.known(high=True)
    return real if low is None or high is None else real & ~(low & high)
