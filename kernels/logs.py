"""Log records of counted work, under the logger `skipstone` of the standard module `logging`.

Nothing is printed by default. Each record has two attributes besides its text: `event`, one of
EVENTS, and `work`, a dict of what was counted. Passwords and signatures of URLs are left out.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from skipstone.ir.errors import clip, without_secrets

ROOT: Final = logging.getLogger("skipstone")
ROOT.addHandler(logging.NullHandler())
SCAN: Final = logging.getLogger("skipstone.scan")
PLAN: Final = logging.getLogger("skipstone.plan")
READ: Final = logging.getLogger("skipstone.read")
CACHE: Final = logging.getLogger("skipstone.cache")
COMPILE: Final = logging.getLogger("skipstone.compile")
FALLBACK: Final = logging.getLogger("skipstone.fallback")

# Event -> its logger, its level, and the names of what it counts.
EVENTS: Final = {
    "table opened": (SCAN, logging.INFO, ("format", "table", "read", "seconds")),
    "table planned": (
        PLAN,
        logging.INFO,
        ("condition", "unit", "containers", "kept", "fully_matched", "not_used", "seconds"),
    ),
    "rows read": (READ, logging.INFO, ("rows", "batches", "seconds", "complete")),
    "log in memory": (CACHE, logging.DEBUG, ("table", "version")),
    "statistics opened": (CACHE, logging.DEBUG, ("table", "version", "wanted")),
    "statistics saved": (CACHE, logging.DEBUG, ("table", "version", "folder")),
    "kernel compiled": (COMPILE, logging.DEBUG, ("kernel", "seconds")),
    "kernel loaded": (COMPILE, logging.DEBUG, ("kernel", "seconds")),
    "fallback": (FALLBACK, logging.INFO, ("reason",)),
}
MAX_TEXT: Final = 300  # characters of a text in a record


def enabled(event: str) -> bool:
    """Return True if anybody listens to an event; callers count nothing otherwise."""
    logger, level, _ = EVENTS[event]
    return logger.isEnabledFor(level)


def write(event: str, **work: Any) -> None:
    """Write a record.

    Args:
        event: A key of EVENTS.
        work: What was counted, by the names that EVENTS lists.
    """
    logger, level, names = EVENTS[event]
    if not logger.isEnabledFor(level):
        return
    assert tuple(work) == names, (event, tuple(work))
    safe = {name: _safe(value) for name, value in work.items()}
    text = ", ".join(f"{name} {_shown(value)}" for name, value in safe.items())
    logger.log(level, "%s: %s", event, text, extra={"event": event, "work": safe}, stacklevel=2)


def fallback(reason: str) -> None:
    """Write a record of slower or weaker work than usual."""
    write("fallback", reason=reason)


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _safe(value: Any) -> Any:
    return clip(without_secrets(value), MAX_TEXT) if isinstance(value, str) else value
