"""From Parquet files to row groups: Skipstone's `plan` and pyarrow's `fragment.subset`."""

from __future__ import annotations

from typing import Any, Final

import pyarrow.dataset as ds

import skipstone as ss
from bench.files.lake import Lake
from bench.files.task import Answer, Contestant, Task, by_row_group
from bench.report.report import OWN


def own_cold(lake: Lake) -> Contestant:
    def run() -> dict[str, list[int]]:
        with ss.config.override(keep_footers=False):
            return ss.scan_parquet(lake.paths).plan(where=lake.condition.sql).row_groups

    return Contestant(
        OWN,
        "scan_parquet(paths).plan(where=text)",
        run,
        lambda found: by_row_group(lake, found),
    )


def own_warm(lake: Lake) -> Contestant:
    table = ss.scan_parquet(lake.paths)
    return Contestant(
        OWN,
        "table.plan(where=text)",
        lambda: table.plan(where=lake.condition.sql).row_groups,
        lambda found: by_row_group(lake, found),
    )


def arrow_cold(lake: Lake) -> Contestant:
    return Contestant(
        "pyarrow",
        "dataset(paths), fragment.subset(filter)",
        lambda: [f.subset(lake.condition.arrow) for f in ds.dataset(lake.paths).get_fragments()],
        lambda found: _of_fragments(lake, found),
    )


def arrow_warm(lake: Lake) -> Contestant:
    fragments = list(ds.dataset(lake.paths).get_fragments())
    return Contestant(
        "pyarrow",
        "fragment.subset(filter)",
        lambda: [f.subset(lake.condition.arrow) for f in fragments],
        lambda found: _of_fragments(lake, found),
    )


def _of_fragments(lake: Lake, fragments: list[Any]) -> Answer:
    return by_row_group(lake, {f.path: [g.id for g in f.row_groups] for f in fragments})


# Why the others cannot name row groups.
ABSENT: Final = {
    **dict.fromkeys(
        ("DuckDB", "Polars", "DataFusion"),
        "it names no row groups; it plans while it runs a query, which is a separate task",
    ),
    "pyiceberg": "it plans from manifests, not from footers; see the task over the same statistics",
    "deltalake": "it plans from a Delta log, not from footers",
}
TASKS: Final = (
    Task("paths to row groups", "may", "parquet", (own_cold, arrow_cold), ABSENT),
    Task("footers in memory to row groups", "may", "parquet", (own_warm, arrow_warm), ABSENT),
)
