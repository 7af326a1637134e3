"""The form of a predicate of `power`: its Spark SQL text, and each engine's own spelling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Arrow = Callable[[Any, Any], Any]  # takes pyarrow.compute.field and pyarrow.compute


@dataclass(frozen=True)
class Form:
    """One row of the report.

    Forms of one `rule` are judged together: a rule that loses rows in one file gets no credit in
    another.
    """

    name: str
    sql: str
    arrow: Arrow | None = None
    duckdb: str | None = None
    polars: str | None = None
    datafusion: str | None = None
    iceberg: str | None = None
    table: str = "main"
    rule: str = ""

    def text(self, engine: str) -> str:
        """Return the condition in an engine's own text, or "" if it has none."""
        own: str | None = getattr(self, engine)
        return self.sql if own is None else own
