"""Judge the same statistics in memory: Skipstone and pyiceberg's metrics evaluators."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

import skipstone as ss
from bench.files.lake import ROWS, SCHEMA, Lake
from bench.files.task import Contestant, Task, by_position
from bench.report.report import OWN

TYPES: Final = {
    pa.int64(): "LongType",
    pa.int32(): "IntegerType",
    pa.float64(): "DoubleType",
    pa.string(): "StringType",
}


def statistics_of(lake: Lake) -> ss.Statistics:
    """Return the lake's bounds and counts as statistics; no value is NaN."""
    columns = {
        c: {"min": b.low, "max": b.high, "null_count": b.nulls, "nan_count": np.zeros_like(b.nulls)}
        for c, b in lake.bounds.items()
    }
    return ss.Statistics.from_dict(columns, SCHEMA, row_count=np.full(lake.containers, ROWS))


def own_may(lake: Lake) -> Contestant:
    stats = statistics_of(lake)
    return Contestant(
        OWN,
        "PruningPredicate(text).survivors(stats)",
        lambda: ss.PruningPredicate(lake.condition.sql, SCHEMA).survivors(stats),
        by_position,
    )


def own_may_again(lake: Lake) -> Contestant:
    stats = statistics_of(lake)
    predicate = ss.PruningPredicate(lake.condition.sql, SCHEMA)
    return Contestant(
        OWN, "predicate.survivors(stats)", lambda: predicate.survivors(stats), by_position
    )


def own_whole(lake: Lake) -> Contestant:
    stats = statistics_of(lake)
    return Contestant(
        OWN,
        "PruningPredicate(text).evaluate(stats) == ALWAYS",
        lambda: np.flatnonzero(
            ss.PruningPredicate(lake.condition.sql, SCHEMA).evaluate(stats) == ss.Verdict.ALWAYS
        ),
        by_position,
    )


def iceberg_may(lake: Lake) -> Contestant:
    from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator

    return _iceberg(
        lake, "inclusive metrics evaluator, a data file each", _InclusiveMetricsEvaluator
    )


def iceberg_whole(lake: Lake) -> Contestant:
    from pyiceberg.expressions.visitors import _StrictMetricsEvaluator

    return _iceberg(lake, "strict metrics evaluator, a data file each", _StrictMetricsEvaluator)


def _iceberg(lake: Lake, what: str, evaluator: Any) -> Contestant:
    from pyiceberg import types
    from pyiceberg.expressions.parser import parse
    from pyiceberg.schema import Schema

    of = {i: getattr(types, TYPES[f.type])() for i, f in enumerate(SCHEMA, 1)}
    schema = Schema(
        *(types.NestedField(i, c, of[i], required=False) for i, c in enumerate(SCHEMA.names, 1))
    )
    files, condition = _data_files(lake, of), parse(lake.condition.sql)

    def run() -> list[int]:
        judge = evaluator(schema, condition).eval
        return [i for i, f in enumerate(files) if judge(f)]

    return Contestant("pyiceberg", what, run, by_position)


def _data_files(lake: Lake, types: dict[int, Any]) -> list[Any]:
    """Return a data file for each container."""
    from pyiceberg.conversions import to_bytes
    from pyiceberg.manifest import DataFile

    def ends(i: int, values: pa.Array) -> list[bytes | None]:
        return [None if v is None else to_bytes(types[i], v) for v in values.to_pylist()]

    columns = [
        (i, ends(i, b.low), ends(i, b.high), b.nulls.tolist())
        for i, b in enumerate(lake.bounds.values(), 1)
    ]
    return [
        DataFile.from_args(
            file_path=str(g),
            record_count=ROWS,
            file_size_in_bytes=1000,
            value_counts=dict.fromkeys(types, ROWS),
            null_value_counts={i: nulls[g] for i, _, _, nulls in columns},
            nan_value_counts=dict.fromkeys(types, 0),
            lower_bounds={i: low[g] for i, low, _, _ in columns if low[g] is not None},
            upper_bounds={i: high[g] for i, _, high, _ in columns if high[g] is not None},
        )
        for g in range(lake.containers)
    ]


ABSENT: Final = {
    "pyarrow": "its fragments take statistics from footers only; see the earlier tasks",
    **dict.fromkeys(
        ("DuckDB", "Polars"),
        "it takes no statistics from outside; `ranges` tests its columns of such bounds",
    ),
    "DataFusion": "its Python package does not expose PruningPredicate; "
    "`ranges` tests its columns of such bounds",
    "deltalake": "it takes statistics from a Delta log only; see its tasks",
}
WHOLE: Final = {
    **dict.fromkeys(
        ("pyarrow", "DuckDB", "Polars", "DataFusion", "deltalake"),
        "it does not report which containers are fully matched",
    ),
}
TASKS: Final = (
    Task(
        "statistics in memory to containers",
        "may",
        "parquet",
        (own_may, own_may_again, iceberg_may),
        ABSENT,
    ),
    Task(
        "statistics in memory to fully matched containers",
        "whole",
        "parquet",
        (own_whole, iceberg_whole),
        WHOLE,
    ),
)
