"""Explain the dynamic filters of a plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from skipstone.ir.errors import counted

if TYPE_CHECKING:
    from skipstone.bindings.filters.scan import DynamicFilters


def explain_dynamic(dynamic: DynamicFilters, columns: list[str], unit: str) -> Iterator[str]:
    """Yield the lines about dynamic filters: the scan, then each collector with its effect.

    Source: Flink FLIP-248, the explained plan.
    """
    yield f"DynamicFilteringTableSourceScan(fields=[{', '.join(columns)}])"
    for e in dynamic.effects:
        f = e.filter
        keys = ", ".join(f.data.fields if f.data is not None else f.columns)
        built = [] if e.rows is None else [counted(e.rows, "rows")]
        built += [] if e.seconds is None else [f"{e.seconds * 1e3:.1f} ms"]
        yield f"+- DynamicFilteringDataCollector(fields=[{keys}])"
        columns_text = ", ".join(e.fields) or "not known yet"
        yield (
            f"     compared     {columns_text} {f.op} key, {f.how} join, "
            f"which needs {f.needs.value}"
        )
        yield f"     collected    {e.state}{' of ' + ' in '.join(built) if built else ''}"
        yield f"     pruned       {counted(e.pruned, unit)} more"
        for reason, count in e.kept.items():
            yield f"     kept         {counted(count, unit)}: filter cannot be evaluated: {reason}"
    if dynamic.pending:
        pending, total = len(dynamic.pending), len(dynamic.filters)
        yield f"     incomplete   {pending} of {total} filters may still come"
