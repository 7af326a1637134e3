"""`table.advise`: try layouts for a workload, and recommend one with statements to write it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from skipstone.bindings.layout.advice import Advice, Estimate, QueryReport
from skipstone.bindings.layout.bounds import ranges_of
from skipstone.bindings.layout.candidates import REWRITTEN_BY_DUCKDB, JudgedLayout, judge
from skipstone.bindings.layout.clustering import Clustering, of_ranges
from skipstone.bindings.layout.problems import TARGET_BYTES, problems_of
from skipstone.bindings.layout.rows import (
    MAX_SAMPLE_BYTES,
    ROWS,
    Rows,
    draw_rows,
    sample_bytes,
    sample_rows,
)
from skipstone.bindings.layout.simulate import ROWS_PER_CONTAINER, Layout
from skipstone.bindings.layout.statements import Statement, statements_for
from skipstone.bindings.layout.workload import Query, Workload, workload_of
from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.ir.errors import PredicateError, SkipstoneError, counted
from skipstone.ir.node import Path, columns_of, show_path, sql_path
from skipstone.ir.types import Leaf, leaves_of, to_axis

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.predicates.predicate import Condition
    from skipstone.bindings.tables.table import Table

CURRENT: Final = "current layout"  # the label of the layout that the table has
# A layout is advised only if queries read less than this share of what they read now.
MAX_ADVISED_SHARE: Final = 0.95
# Without a workload, this many values of each column are searched for instead.
SEARCHES_PER_COLUMN: Final = 9
# Each column is tried as a sort key of all searches, so the time grows with the square of their
# number. Delta's writers collect statistics for as many by default.
MAX_SEARCHED_COLUMNS: Final = 32


def advise(
    table: Table,
    workload: Sequence[Condition] | str | None = None,
    *,
    sample: bool | int | None = None,
    name: str | None = None,
    target_bytes: int | None = None,
    timezone: str = "UTC",
) -> Advice:
    """Return which layout would let a workload read less; `Table.advise` documents it."""
    wanted = _wanted_rows(sample)
    target = TARGET_BYTES if target_bytes is None else target_bytes
    if isinstance(target, bool) or not isinstance(target, int) or target < 1:
        raise PredicateError(f"target_bytes is {target_bytes!r}; expected a positive number")
    plan = table.plan(timezone=timezone)
    leaves = leaves_of(table.schema)
    partitions = tuple((p,) for p in table.partition_columns)
    if workload is None:
        ordered = [leaf for leaf in leaves.values() if leaf.dtype.ordered]
        used = _columns_to_search(ordered, partitions)
        untried = len(ordered) - len(used)
    else:
        parsed = workload_of(
            workload, table.schema, name=name and name.split(".")[-1], folder=_folder(table),
            timezone=timezone,
        )  # fmt: skip
        used = [leaves[p] for p in parsed.paths if p in leaves]
        untried = 0
    needed = {leaf.path: leaf for leaf in used if leaf.dtype.ordered}
    needed |= {p: leaves[p] for p in partitions if p in leaves and leaves[p].dtype.ordered}
    rows, unsampled = None, ""
    if len(plan.verdicts):
        rows, unsampled = _rows(plan, list(needed.values()), wanted)
    if workload is None:
        parsed = _searches(rows, used, table.schema, timezone)
    judged = (
        []
        if rows is None
        else judge(
            rows, parsed, table.schema, containers=len(plan.verdicts), files=table.num_files,
            partition_by=partitions, format=_format(table),
        )
    )  # fmt: skip
    return _report(
        table,
        plan,
        parsed,
        judged,
        rows,
        used,
        name,
        target,
        workload is not None,
        untried,
        unsampled,
    )


def _columns_to_search(leaves: Sequence[Leaf], partitions: Sequence[Path]) -> list[Leaf]:
    """Return the columns to search for: the first ones, and the partition columns."""
    others = [leaf.path for leaf in leaves if leaf.path not in partitions]
    chosen = {*partitions, *others[:MAX_SEARCHED_COLUMNS]}
    return [leaf for leaf in leaves if leaf.path in chosen]


def _format(table: Table) -> str:
    return type(table).__name__.removesuffix("Table").lower()


def _folder(table: Table) -> str | None:
    """Return the name of a table's folder, which queries often use."""
    path = (table.path or "").split("/metadata/")[0].rstrip("/")
    return path.rsplit("/", 1)[-1].removesuffix(".parquet") or None


def _wanted_rows(sample: object) -> int | None:
    """Return the number of rows to sample; 0: none; None: as many as can be read cheaply.

    Raises:
        PredicateError: `sample` is neither a flag nor a number of rows.
    """
    if sample is None:
        return None
    if isinstance(sample, bool | np.bool_):
        return ROWS if sample else 0
    if isinstance(sample, int | np.integer) and sample > 0:
        return int(sample)
    raise PredicateError(f"sample is {sample!r}; expected True, False, None or a number of rows")


def _rows(plan: Plan, leaves: Sequence[Leaf], wanted: int | None) -> tuple[Rows, str]:
    """Return rows that represent the table, and why there is no sample if none was refused.

    Raises:
        SourceError: a sample was asked for, and a file can no longer be read.
    """
    why = ""
    if not leaves:
        wanted = 0  # no column of the workload could be a key
    if wanted is None:
        size = sample_bytes(plan, leaves)
        if size is None:
            why = "the sizes of files are unknown"
        elif size > MAX_SAMPLE_BYTES:
            why = f"it would read about {size / 1e9:,.1f} GB"
        else:
            try:
                return sample_rows(plan, leaves, ROWS), ""
            except SkipstoneError as e:  # statistics alone need no readable rows
                why = str(e)
    elif wanted:
        return sample_rows(plan, leaves, wanted), ""
    rows = plan.table.logical_rows()
    known = int(rows[rows >= 0].sum())
    enough = max(ROWS, min(len(rows), ROWS) * ROWS_PER_CONTAINER // 4)
    return draw_rows(plan, leaves, max(min(enough, known or enough), 1)), why


def _searches(
    rows: Rows | None, leaves: Sequence[Leaf], schema: pa.Schema, timezone: str
) -> Workload:
    """Return a workload that searches each column for the same number of values."""
    queries: dict[PruningPredicate, Query] = {}
    for leaf in leaves:
        column = None if rows is None else rows.columns.get(leaf.path)
        held = None if column is None else np.sort(column.codes[column.codes >= 0])
        if column is None or held is None or not len(column.values):
            continue
        held = held[held < len(column.values)]
        for at in np.linspace(0, len(held) - 1, SEARCHES_PER_COLUMN + 2)[1:-1].round().astype(int):
            value = column.values[int(held[at])].as_py()
            predicate = _equals(leaf, value, schema, timezone)
            if predicate is not None:
                queries[predicate] = Query(predicate, 1, predicate.expr)
    return Workload(tuple(queries.values()))


def _equals(leaf: Leaf, value: Any, schema: pa.Schema, timezone: str) -> PruningPredicate | None:
    from skipstone.bindings.predicates.expr import col

    try:
        to_axis(value, leaf.dtype)
        return PruningPredicate(col(sql_path(leaf.path)) == value, schema, timezone=timezone)
    except (ValueError, PredicateError):  # such as a timestamp in nanoseconds
        return None


def _report(
    table: Table, plan: Plan, workload: Workload, judged: Sequence[JudgedLayout], rows: Rows | None,
    used: Sequence[Leaf], name: str | None, target: int, has_workload: bool, untried: int,
    unsampled: str,
) -> Advice:  # fmt: skip
    total, n = plan.sizes.total, len(plan.verdicts)
    format = _format(table)
    current, shares = _current(table, workload, total.bytes, n)
    files = table.all_files

    def statements(layout: Layout) -> tuple[Statement, ...]:
        per_group = max(1, round((total.rows or n) / max(n, 1)))
        return statements_for(
            layout, format, path=table.path, name=name, files=files,
            rows_per_group=per_group,
            file_bytes=max(1, min(target, (total.bytes or target) // max(table.num_files, 1))),
            kinds={path: leaf.dtype.kind for path, leaf in leaves_of(table.schema).items()},
        )  # fmt: skip

    candidates = []
    best: tuple[Estimate, Layout] | None = None
    for j in judged:
        estimate = _estimate(j, table, plan, workload, rows, runnable=bool(statements(j.layout)))
        candidates.append(estimate)
        if best is None and estimate.runnable and j.mean < MAX_ADVISED_SHARE * current.share:
            best = estimate, j.layout
    return Advice(
        table=name or table.path or counted(table.num_files, "files"),
        format=format,
        unit=plan.table.unit,
        containers=n,
        files=table.num_files,
        rows=total.rows,
        bytes=total.bytes,
        source=rows.source if rows else "nothing",
        has_workload=has_workload,
        queries=tuple(_query(q, share) for q, share in zip(workload.queries, shares, strict=True)),
        unread=tuple((u.text, u.why) for u in workload.unread),
        current=current,
        candidates=tuple(candidates),
        best=best[0] if best else None,
        clustering=_clustering_of(plan, used),
        problems=tuple(problems_of(plan, used, target)) if n else (),
        statements=statements(best[1]) if best else (),
        limits=tuple(_limits(rows, used, judged, n, workload, format, untried, unsampled)),
    )


def _estimate(
    j: JudgedLayout,
    table: Table,
    plan: Plan,
    workload: Workload,
    rows: Rows | None,
    *,
    runnable: bool,
) -> Estimate:
    """Return what the workload would read in another layout."""
    total_bytes = plan.sizes.total.bytes
    return Estimate(
        label=_label(j.layout),
        kind=j.layout.kind,
        keys=tuple(map(show_path, j.layout.keys)),
        partition_by=tuple(map(show_path, j.layout.partition_by)),
        share=j.mean,
        bytes=None if total_bytes is None else round(j.mean * workload.weight * total_bytes),
        containers=_mean(j.shares, workload) * len(plan.verdicts),
        files=_mean(j.file_shares, workload) * table.num_files,
        shares=tuple(j.shares.tolist()),
        runnable=runnable,
        partition_bytes=_partition_bytes(j.layout, rows, total_bytes),
    )


def _clustering_of(plan: Plan, used: Sequence[Leaf]) -> Clustering:
    """Return how the table is clustered by the columns of the workload."""
    ordered = [leaf for leaf in used if leaf.dtype.ordered]
    return Clustering(
        plan.table.unit,
        tuple(
            of_ranges(show_path(x.path), ranges_of(plan.statistics, x.path, x.dtype))
            for x in ordered
        ),
    )


def _label(layout: Layout) -> str:
    if layout.kind == "partition" or not layout.partition_by:
        return layout.label
    return f"{layout.label} within {', '.join(map(show_path, layout.partition_by))}"


def _partition_bytes(layout: Layout, rows: Rows | None, size: int | None) -> int | None:
    """Return the mean bytes of the partitions that a layout makes; None if none or unknown."""
    if layout.kind != "partition" or rows is None or size is None:
        return None
    return size // max(1, math.prod(len(rows.columns[p].values) for p in layout.partition_by))


def _mean(values: Any, workload: Workload) -> float:
    return float(np.average(values, weights=[q.weight for q in workload.queries]))


def _current(
    table: Table, workload: Workload, size: int | None, n: int
) -> tuple[Estimate, list[float]]:
    """Return what the workload reads now, and each query's share of the table."""
    shares, files, containers = [], [], []
    for q in workload.queries:
        plan = table.plan(q.predicate)
        scan, total = plan.sizes.scan, plan.sizes.total
        kept = len(plan.kept) / max(n, 1)
        known = total.bytes and scan.bytes is not None
        shares.append(scan.bytes / total.bytes if known else kept)  # type: ignore[operator]
        files.append(scan.files or 0)
        containers.append(len(plan.kept))
    partitions = tuple(table.partition_columns)
    if not shares:
        return Estimate(CURRENT, "current", (), partitions, 1.0, None, n, 0.0, ()), []
    mean = _mean(shares, workload)
    used = None if size is None else round(mean * workload.weight * size)
    return Estimate(
        CURRENT, "current", (), partitions, mean, used, _mean(containers, workload),
        _mean(files, workload), tuple(shares),
    ), shares  # fmt: skip


def _query(q: Query, share: float) -> QueryReport:
    note = "cannot prune: no statistics can rule out a match" if q.predicate.always_true else ""
    columns = tuple(map(show_path, columns_of(q.predicate.node)))
    return QueryReport(q.text, q.weight, columns, share, note)


def _limits(
    rows: Rows | None, used: Sequence[Leaf], judged: Sequence[JudgedLayout], n: int,
    workload: Workload, format: str, untried: int, unsampled: str,
) -> list[str]:  # fmt: skip
    """Return sentences on what the predictions assume and leave out."""
    if rows is None:
        return ["the table has no files"]
    out = []
    if untried:
        out.append(
            f"Without a workload, only the first {MAX_SEARCHED_COLUMNS} columns and the partition "
            f"columns are tried, not the other {untried:,}; pass a workload to try its columns."
        )
    if unsampled:
        out.append(f"No rows were sampled: {unsampled}. `--sample` (`sample=True`) samples them.")
    if rows.drawn:
        out.append(
            "Within a container, values are assumed to be spread evenly between its bounds, and to "
            "be independent of other columns. If columns are skewed or correlated, use a sample."
        )
    if rows.fraction < 1:
        out.append(
            "The bounds of each new container are estimated from some of its rows, and moved "
            "outwards by the mean distance between these rows."
        )
    missing = [show_path(x.path) for x in used if x.dtype.ordered and x.path not in rows.columns]
    if missing:
        out.append(f"No bounds are known for {', '.join(missing)}; use a sample to judge them.")
    fewer = min((j.containers for j in judged), default=n)
    if fewer < n:
        out.append(
            f"Predictions are for {fewer:,} containers instead of {n:,}, so queries would read "
            "less than predicted."
        )
    if workload.full_reads:
        out.append(
            f"{workload.full_reads:,} queries read the whole table in any layout, and are not "
            "counted."
        )
    if format in REWRITTEN_BY_DUCKDB:
        out.append(
            "DuckDB writes bloom filters when it rewrites the table. Predictions include them only "
            "with a sample, so searches for single values may read less than predicted."
            if rows.drawn
            else "Searches for single values use the bloom filters that DuckDB writes for columns "
            "with repeated values. Spark writes none unless parquet.bloom.filter.enabled is set."
        )
    out.append("The table's size is assumed not to change, although row order affects compression.")
    return out
