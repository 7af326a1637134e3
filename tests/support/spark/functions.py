"""Rows of scalar expressions, computed by Skipstone and by Spark."""

import math
from pathlib import Path

import pyarrow as pa

from skipstone.bindings.predicates.sql import parse
from skipstone.ir.bind import bind_scalar
from skipstone.ir.node import Op
from skipstone.ir.rows import values_of
from skipstone.ir.types import DType, Kind, from_arrow, leaves_of
from skipstone.ir.values import to_array
from tests.support.spark.coercion import BATCH, ROWS, SCHEMA

EXPRESSIONS = [
    line
    for line in (Path(__file__).parents[2] / "data" / "spark_functions.sql")
    .read_text(encoding="utf-8")
    .splitlines()
    if line[:2] != "--"
]
LEAVES = leaves_of(SCHEMA)


def ours(text, session):
    """Return the values as an Arrow array, the lost rows and the type; None for an unknown form."""
    scalar = bind_scalar(parse(text)[0], LEAVES, session)
    if scalar.op is Op.UNKNOWN:
        return None
    found = values_of(scalar, BATCH, {})
    may_raise = found.may_raise
    lost = [bool(may_raise[i if len(may_raise) > 1 else 0]) for i in range(ROWS)]
    return to_array(found, ROWS), lost, scalar.dtype


def key(value):
    """Return a value under which NaN equals itself, and 0.0 equals -0.0."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def as_spark_has_it(dtype):
    return (
        DType(Kind.TIMESTAMP, unit="us", zoned=dtype.zoned)
        if dtype.kind is Kind.TIMESTAMP
        else dtype
    )


def disagreements(spark, mine):
    selected = []
    for i, (text, (_, lost, _)) in enumerate(mine.items()):
        rows = ", ".join(str(r) for r, gone in enumerate(lost) if not gone)
        selected.append(f"CASE WHEN row IN ({rows or -1}) THEN {text} END AS c{i}")
    answers = spark.sql(f"SELECT {', '.join(selected)} FROM rows ORDER BY row").toArrow()
    for (text, (array, lost, dtype)), column in zip(mine.items(), answers.columns, strict=True):
        theirs = from_arrow(column.type)
        if theirs != as_spark_has_it(dtype) and not (
            dtype.kind is Kind.INT and text.startswith("compare")
        ):
            yield text, "type", str(theirs), str(dtype)
            continue
        if pa.types.is_temporal(column.type):  # beyond Python's range of years
            whole = pa.int64() if pa.types.is_timestamp(column.type) else pa.int32()
            column, array = column.cast(whole), array.cast(whole)
        for row, (a, b, gone) in enumerate(
            zip(column.to_pylist(), array.to_pylist(), lost, strict=True)
        ):
            if not gone and key(a) != key(b):
                yield text, [v[row].as_py() for v in BATCH.columns], a, b
