"""The switch for dynamic filtering: set for a plan, for a table, or in the environment."""

from __future__ import annotations

import os
from typing import Final

from skipstone.ir.errors import DynamicFilterError

VARIABLE: Final = "SKIPSTONE_DYNAMIC_FILTERING"
BOOLEAN_WORDS: Final = {
    **dict.fromkeys(("1", "true", "on", "yes"), True),
    **dict.fromkeys(("0", "false", "off", "no"), False),
}


def enabled(*settings: bool | None) -> bool:
    """Return the first setting that is not None, else the environment's, else True.

    Raises:
        DynamicFilterError: the environment variable is not a boolean word.

    Source: Flink FLIP-248, `table.optimizer.dynamic-filtering.enabled`.
    """
    for setting in settings:
        if setting is not None:
            return bool(setting)
    text = os.environ.get(VARIABLE)
    if text is None:
        return True
    if text.strip().lower() not in BOOLEAN_WORDS:
        raise DynamicFilterError(f"{VARIABLE} is {text!r}; expected true or false")
    return BOOLEAN_WORDS[text.strip().lower()]
