"""The table of calls from a room to one below it in CONTRIBUTING's table.

A room imports only the rooms above it. A method such as `Plan.to_spark` needs a room below: it
names its target here, and the target is imported at the call.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

HOOKS: Final = {
    "advise": "layout.advise:advise",
    "clustering": "layout.clustering:clustering",
    "explain predicate": "plans.explain:explain",
    "predicate from Column": "spark.pruning.column:from_column",
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
