"""`Advice`: what `table.advise` found, as an object, text, JSON and HTML."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from skipstone.bindings.layout.clustering import Clustering
from skipstone.bindings.layout.statements import Statement


@dataclass(frozen=True, slots=True)
class Estimate:
    """The share of the table that the workload reads in one layout.

    Attributes:
        label: The layout in words, such as "sort by a, b".
        kind: "current", "sort", "zorder", "hilbert" or "partition".
        keys: The columns that rows are ordered by.
        partition_by: The columns that the table is partitioned by.
        share: The share of the table that a query reads, on average. Of the current layout, the
            share of the bytes, or of the containers if bytes are unknown; of others, the share of
            the rows.
        bytes: The bytes that all queries read together; None if the table's size is unknown.
        containers: The containers that a query reads, on average.
        files: The files that a query reads, on average.
        shares: By query, the share of the table, as for `share`.
        runnable: Whether there is a statement that makes this layout.
        partition_bytes: The mean bytes of the partitions that this layout would make; None if it
            makes none, or if the table's size is unknown.
    """

    label: str
    kind: str
    keys: tuple[str, ...]
    partition_by: tuple[str, ...]
    share: float
    bytes: int | None
    containers: float
    files: float
    shares: tuple[float, ...]
    runnable: bool = True
    partition_bytes: int | None = None

    @property
    def pruned(self) -> float:
        """The share of the table that a query does not read, on average."""
        return 1.0 - self.share


@dataclass(frozen=True, slots=True)
class QueryReport:
    """One condition of the workload.

    Attributes:
        text: The condition.
        weight: How often the workload has it.
        columns: The columns that it compares.
        share: The share of the table's bytes that it reads now, or of its containers if bytes are
            unknown.
        note: Why no layout can help it; "" if one may.
    """

    text: str
    weight: int
    columns: tuple[str, ...]
    share: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Advice:
    """A report that proposes a layout in which queries read less.

    `str()` returns it as text, `to_json()` as JSON, `to_html()` as a page.

    Attributes:
        table: The table's path or name.
        format: "parquet", "hive", "delta" or "iceberg".
        unit: The kind of its containers: "row groups" or "files".
        containers, files, rows, bytes: The table's size; None is unknown.
        source: Where the predictions come from: "statistics", or a sample of rows.
        has_workload: False if searches for one value replace the workload.
        queries: The conditions of the workload.
        unread: (text, why) of the parts of the workload that could not be used.
        current: What the workload reads now.
        candidates: What it would read in other layouts, by prediction, the best first.
        best: The layout to choose; None if no layout reads clearly less than the current one.
        clustering: How far containers overlap now, in the columns of the workload.
        problems: Problems of statistics and files.
        statements: What to run for `best`.
        limits: What the predictions do not know.
    """

    table: str
    format: str
    unit: str
    containers: int
    files: int
    rows: int | None
    bytes: int | None
    source: str
    has_workload: bool
    queries: tuple[QueryReport, ...]
    unread: tuple[tuple[str, str], ...]
    current: Estimate
    candidates: tuple[Estimate, ...]
    best: Estimate | None
    clustering: Clustering
    problems: tuple[str, ...]
    statements: tuple[Statement, ...]
    limits: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        from dataclasses import asdict

        return {
            **{k: v for k, v in asdict(self).items() if k != "clustering"},
            "clustering": self.clustering.to_dict(),
        }

    def to_json(self) -> str:
        """Return the report as JSON."""
        return json.dumps(self.to_dict(), indent=2)

    def to_html(self) -> str:
        """Return the report as a page that loads nothing from the network."""
        from skipstone.bindings.html import document
        from skipstone.bindings.layout.render import html_of

        return document(f"Layout of {self.table}", html_of(self))

    def _repr_html_(self) -> str:
        from skipstone.bindings.html import fragment
        from skipstone.bindings.layout.render import html_of

        return fragment(html_of(self))

    def __str__(self) -> str:
        from skipstone.bindings.layout.render import text_of

        return text_of(self)
