"""Options of dynamic filtering: the switch, and how long to wait for keys.

The switch is set for a plan, for a table, or in `skipstone.config`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from skipstone.ir.errors import DynamicFilterError, PredicateError
from skipstone.ir.session import check_flag
from skipstone.kernels.config import config


def enabled(*settings: bool | None) -> bool:
    """Return the first setting that is not None, else `config.dynamic_filtering`.

    Raises:
        PredicateError: it is neither True nor False.
        DynamicFilterError: the environment variable is not a boolean word.

    Source: Flink FLIP-248, `table.optimizer.dynamic-filtering.enabled`.
    """
    for setting in settings:
        if setting is not None:
            check_flag("dynamic_filtering", setting)
            return setting
    return config.dynamic_filtering


def check_wait(seconds: Any) -> None:
    """Check a number of seconds to wait for keys.

    Raises:
        DynamicFilterError: it is not a number of seconds.
    """
    number = isinstance(seconds, int | float | np.integer | np.floating)
    if not number or isinstance(seconds, bool) or not seconds >= 0:
        raise DynamicFilterError(
            f"wait is {seconds!r:.60}; expected a number of seconds, 0 or more"
        )


def check_null_safe(null_safe: object) -> None:
    """Check whether all keys of a join are compared by `<=>`.

    Raises:
        PredicateError: it is neither True nor False.
    """
    if not isinstance(null_safe, bool):
        raise PredicateError(
            f"null_safe is {null_safe!r:.60}; expected True or False, which holds for all keys"
        )


def check_count(name: str, count: Any) -> None:
    """Check a number of things, such as builders; None means that it is not known.

    Raises:
        DynamicFilterError: it is not a positive integer.
    """
    whole = isinstance(count, int | np.integer) and not isinstance(count, bool)
    if count is not None and not (whole and count > 0):
        raise DynamicFilterError(f"{name} is {count!r:.60}; expected a positive integer, or None")


def check_builder(builder: object, argument: str = "builder") -> None:
    """Check the name or the number of a builder, or of a reader.

    Raises:
        DynamicFilterError: it cannot be looked up.
    """
    if not isinstance(builder, Hashable):
        raise DynamicFilterError(f"{argument} is {builder!r:.60}; expected a number or a name")
