"""The table of calls from a room to one below it in CONTRIBUTING's table.

A room imports only the rooms above it. A method that needs a room below, such as `Plan.to_spark`,
names its target here, and the target is imported when the method is called.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

from skipstone.ir.errors import describe_error
from skipstone.kernels import logs

HOOKS: Final = {
    "explain predicate": "plans.explain.predicate:explain",
    "HTML of plan": "views.reprs:plan_html",
    "HTML of predicate": "views.reprs:predicate_html",
    "HTML of statistics": "views.reprs:statistics_html",
    "HTML of table": "views.reprs:table_html",
    "advise": "layout.advise:advise",
    "check": "checks.check:check",
    "clustering": "layout.clustering:clustering",
    "predicate from Column": "spark.pruning.column:from_column",
    "map of plan": "views.map:map_of_plan",
    "save shards": "shards.write:save_shards",
    "pages of plan": "tables.pages:pages_of",
    "plan to Spark": "spark.reading.read_frame:read_plan",
    "plan to dataset": "tables.dataset:dataset_of",
    "statistics to Spark": "spark.session.frame:stats_frame",
}


def call(hook: str, *args: Any, **kwargs: Any) -> Any:
    """Import the function that a hook names, and call it.

    Args:
        hook: A key of HOOKS.
        args, kwargs: The function's arguments.

    Returns:
        The function's result.
    """
    module, _, name = HOOKS[hook].partition(":")
    function = getattr(importlib.import_module(f"skipstone.bindings.{module}"), name)
    return function(*args, **kwargs)


def html(hook: str, shown: object) -> str | None:
    """Return the HTML that a notebook shows of an object.

    Args:
        hook: A key of HOOKS.
        shown: The object.

    Returns:
        HTML; None if it cannot be made, so that the notebook shows the object's text. The logger
        `skipstone` then names the error.
    """
    try:
        return str(call(hook, shown))
    except Exception as e:  # a notebook must show the object anyway
        logs.fallback(f"{hook} cannot be made ({describe_error(e)})")
        return None
