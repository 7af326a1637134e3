"""Read a plan with Skipstone's own reader in Spark's Python workers, as Arrow batches."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from skipstone.bindings.spark.session.session import parallelism, quiet
from skipstone.bindings.spark.session.types import carried, fitted, spark_schema
from skipstone.bindings.tables.char_columns import CHAR_KEY
from skipstone.bindings.tables.read import Reader, Tasks
from skipstone.ir import compute as pc
from skipstone.ir.errors import UnsupportedForm

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from skipstone.bindings.plans.plan import Plan

# Opening a file costs as much as reading these bytes: `spark.sql.files.openCostInBytes`.
OPEN_COST: Final = 4 << 20
# Bytes that a task reads, unless one file is larger: `spark.sql.files.maxPartitionBytes`.
MAX_TASK_BYTES: Final = 128 << 20
MIN_TASKS: Final = 8  # fewer only if there are fewer files


def read_in_workers(
    spark: Any, plan: Plan, columns: Sequence[str], notes: dict[str, dict[str, Any]]
) -> DataFrame:
    """Return a DataFrame of a plan's files, which Python workers read when it runs.

    Workers filter the rows that they can judge; Spark filters the others.
    """
    schema = pa.schema([plan.table.schema.field(name) for name in columns])
    tasks = plan.table.tasks(plan.only(plan.kept, list(columns)), lenient=True)
    tasks.reader.require_readable(tasks.each)
    groups = group_tasks(tasks)
    to = carried(schema)
    with quiet():
        packed = spark.createDataFrame(
            pa.table({"tasks": pa.array([pickle.dumps(g) for g in groups], pa.binary())})
        )
        # Spark splits a small table into as many parts as tasks run at once. Connect does not
        # report this number, so tasks are always spread there.
        if len(groups) > (parallelism(spark) or 0):
            packed = packed.repartition(len(groups))
        rows: DataFrame = packed.mapInArrow(
            _task_reader(tasks.reader, to, char_widths(notes, columns)), spark_schema(to, notes)
        )
    return rows


def group_tasks(tasks: Tasks) -> list[list[Any]]:
    """Group neighbouring tasks of a plan into tasks of Spark, each of a limited size in bytes."""
    cost = [n + OPEN_COST for n in tasks.nbytes]
    limit = max(OPEN_COST, min(MAX_TASK_BYTES, -(-sum(cost) // MIN_TASKS)))
    out: list[list[Any]] = []
    remaining = 0
    for task, n in zip(tasks.each, cost, strict=True):
        if not out or n > remaining:
            out.append([])
            remaining = limit
        out[-1].append(task)
        remaining -= n
    return out


def char_widths(notes: dict[str, dict[str, Any]], columns: Sequence[str]) -> dict[str, int]:
    """Return the length in characters of each CHAR column; their reader pads values with blanks.

    Raises:
        UnsupportedForm: there is a CHAR inside a struct, list or map.
    """
    out = {}
    for name in columns:
        declared = str(notes.get(name, {}).get(CHAR_KEY, "")).lower()
        if char := re.fullmatch(r"char\((\d+)\)", declared):
            out[name] = int(char[1])
        elif re.search(r"\bchar\(", declared):
            raise UnsupportedForm(
                f"column {name!r} is {declared}, but CHAR is supported only as a top-level column; "
                "leave this column out with columns="
            )
    return out


def _task_reader(
    reader: Reader, to: pa.Schema, widths: dict[str, int]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that reads the tasks of a worker."""

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for packed in batch.column(0):
                for task in pickle.loads(packed.as_py()):
                    for rows in reader.read(task):
                        yield _pad_char(fitted(rows, to), widths)

    return read


def _pad_char(batch: pa.RecordBatch, widths: dict[str, int]) -> pa.RecordBatch:
    """Return a batch with its CHAR columns padded to their declared lengths."""
    for name, width in widths.items():
        at = batch.schema.get_field_index(name)
        batch = batch.set_column(at, batch.schema.field(at), pc.utf8_rpad(batch.column(at), width))
    return batch
