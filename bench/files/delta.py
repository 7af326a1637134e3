"""From a Delta log to files: deltalake, and Skipstone on the statistics that deltalake reads."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

import skipstone as ss
from bench.files.lake import DELTA_SCHEMA, SCHEMA, Lake
from bench.files.task import Contestant, Task, by_file
from bench.report.report import OWN


def _open(lake: Lake) -> Any:
    from deltalake import DeltaTable

    return DeltaTable(str(lake.folder))


def _actions(lake: Lake) -> pa.Table:
    return pa.table(_open(lake).get_add_actions(flatten=True))


def _statistics(actions: pa.Table) -> ss.Statistics:
    names = {"min": "min.{}", "max": "max.{}", "null_count": "null_count.{}"}
    columns = {
        c: {key: actions[name.format(c)] for key, name in names.items()} for c in SCHEMA.names
    }
    columns["p"] = {"min": actions["partition.p"], "max": actions["partition.p"]}
    return ss.Statistics.from_dict(columns, DELTA_SCHEMA, row_count=actions["num_records"])


def _kept(lake: Lake, actions: pa.Table, stats: ss.Statistics) -> list[str]:
    paths: list[str] = (
        actions["path"]
        .take(ss.PruningPredicate(lake.condition.sql, DELTA_SCHEMA).survivors(stats))
        .to_pylist()
    )
    return paths


def own_cold(lake: Lake) -> Contestant:
    _open(lake)

    def run() -> list[str]:
        actions = _actions(lake)
        return _kept(lake, actions, _statistics(actions))

    return Contestant(
        OWN, "get_add_actions, Statistics, survivors", run, lambda found: by_file(lake, found)
    )


def own_warm(lake: Lake) -> Contestant:
    actions = _actions(lake)
    stats = _statistics(actions)
    return Contestant(
        OWN,
        "PruningPredicate(text).survivors(stats)",
        lambda: _kept(lake, actions, stats),
        lambda found: by_file(lake, found),
    )


def uris_cold(lake: Lake) -> Contestant:
    _open(lake)
    return Contestant(
        "deltalake",
        "DeltaTable, file_uris(file_pruning_predicate=text)",
        lambda: _open(lake).file_uris(file_pruning_predicate=lake.condition.sql),
        lambda found: by_file(lake, found),
    )


def uris_warm(lake: Lake) -> Contestant:
    table = _open(lake)
    return Contestant(
        "deltalake",
        "file_uris(file_pruning_predicate=text)",
        lambda: table.file_uris(file_pruning_predicate=lake.condition.sql),
        lambda found: by_file(lake, found),
    )


def fragments_cold(lake: Lake) -> Contestant:
    _open(lake)
    return Contestant(
        "deltalake",
        "to_pyarrow_dataset, get_fragments(filter)",
        lambda: list(_open(lake).to_pyarrow_dataset().get_fragments(lake.condition.arrow)),
        lambda found: by_file(lake, (f.path for f in found)),
    )


def fragments_warm(lake: Lake) -> Contestant:
    data = _open(lake).to_pyarrow_dataset()
    return Contestant(
        "deltalake",
        "get_fragments(filter) of its dataset",
        lambda: list(data.get_fragments(lake.condition.arrow)),
        lambda found: by_file(lake, (f.path for f in found)),
    )


ABSENT: Final = {
    "pyarrow": "it does not read Delta logs; deltalake provides its dataset",
    "Polars": "scan_delta names no files; it plans while it runs a query",
    "DuckDB": "its Delta reader is an extension that has to be downloaded",
    "DataFusion": "it does not read Delta logs; deltalake judges files by its expressions",
    "pyiceberg": "it reads Iceberg's manifests only",
}
TASKS: Final = (
    Task("Delta table to files", "may", "delta", (own_cold, uris_cold, fragments_cold), ABSENT),
    Task(
        "Delta log in memory to files",
        "may",
        "delta",
        (own_warm, uris_warm, fragments_warm),
        ABSENT,
    ),
)
