"""Whether scans are filtered by joins: said to a plan, of a table, or in the environment."""

from __future__ import annotations

import os
from typing import Final

from skipstone.ir.errors import DynamicFilterError

VARIABLE: Final = "SKIPSTONE_DYNAMIC_FILTERING"
WORDS: Final = {
    **dict.fromkeys(("1", "true", "on", "yes"), True),
    **dict.fromkeys(("0", "false", "off", "no"), False),
}


def enabled(*told: bool | None) -> bool:
    """What the first says that says anything, else the environment, else True.

    Source: Flink FLIP-248, `table.optimizer.dynamic-filtering.enabled`.
    """
    for one in told:
        if one is not None:
            return bool(one)
    text = os.environ.get(VARIABLE)
    if text is None:
        return True
    if text.strip().lower() not in WORDS:
        raise DynamicFilterError(f"{VARIABLE} is {text!r}; expected true or false")
    return WORDS[text.strip().lower()]
