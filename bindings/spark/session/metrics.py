"""Read Spark's own metrics of a DataFrame that has run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def files_opened(df: Any) -> list[int]:
    """Return how many files each scan of an executed DataFrame opened, in the order of the plan.

    Only classic Spark has this metric.
    """
    return list(_opened(df._jdf.queryExecution().executedPlan()))


def _opened(node: Any) -> Iterator[int]:
    name = node.getClass().getSimpleName()
    if name == "AdaptiveSparkPlanExec":
        yield from _opened(node.executedPlan())
    elif name.endswith("QueryStageExec"):
        yield from _opened(node.plan())
    elif name == "FileSourceScanExec":
        yield int(node.metrics().get("numFiles").get().value())
    for inner in (node.children(), node.subqueries()):
        for i in range(inner.size()):
            yield from _opened(inner.apply(i))
