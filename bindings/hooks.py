"""Calls from a lower room to an upper one, in one table.

Rooms import only the rooms above them in CONTRIBUTING's table. A method such as `Plan.to_spark` needs more:
it names its target here, and the target is imported at the call.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

HOOKS: Final = {
    "explain predicate": "plans.explain:explain",
    "predicate from Column": "spark.pruning.column:from_column",
    "save shards": "shards.write:save_shards",
    "plan to Spark": "spark.reading.read:read_plan",
    "statistics to Spark": "spark.session.frame:stats_frame",
}


def call(hook: str, *args: Any, **kwargs: Any) -> Any:
    """Import the function that a hook names, and call it."""
    module, _, name = HOOKS[hook].partition(":")
    function = getattr(importlib.import_module(f"skipstone.bindings.{module}"), name)
    return function(*args, **kwargs)
