"""The switch for dynamic filtering: set for a plan, for a table, or in `skipstone.config`."""

from __future__ import annotations

from skipstone.kernels.config import config


def enabled(*settings: bool | None) -> bool:
    """Return the first setting that is not None, else `config.dynamic_filtering`.

    Raises:
        DynamicFilterError: the environment variable is not a boolean word.

    Source: Flink FLIP-248, `table.optimizer.dynamic-filtering.enabled`.
    """
    for setting in settings:
        if setting is not None:
            return bool(setting)
    return config.dynamic_filtering
