"""Reading a plan by Skipstone's own reader, in Spark's Python workers: a few files a task, as Arrow batches."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from skipstone.bindings.spark.session.session import parallelism, quiet
from skipstone.bindings.spark.session.types import carried, fitted, spark_schema
from skipstone.bindings.tables.read import Reader, Tasks
from skipstone.ir.errors import UnsupportedForm

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from skipstone.bindings.plans.plan import Plan

CHAR: Final = "__CHAR_VARCHAR_TYPE_STRING"
OPENING: Final = (
    4 << 20
)  # what opening a file costs, in bytes read: `spark.sql.files.openCostInBytes`
MOST: Final = 128 << 20  # bytes a task reads, beyond one file: `spark.sql.files.maxPartitionBytes`
LEAST_TASKS: Final = 8  # so many there are, if there are so many files, however small


def by_workers(
    spark: Any, plan: Plan, columns: Sequence[str], notes: dict[str, dict[str, Any]]
) -> DataFrame:
    """A DataFrame of some columns of a plan's files, which workers read when it runs.

    Rows that a worker can judge are judged there; all others come, to be judged by Spark.
    """
    schema = pa.schema([plan.table.schema.field(name) for name in columns])
    tasks = plan.table.tasks(plan.only(plan.kept, list(columns)), lenient=True)
    groups = grouped(tasks)
    to = carried(schema)
    with quiet():
        packed = spark.createDataFrame(
            pa.table({"tasks": pa.array([pickle.dumps(g) for g in groups], pa.binary())})
        )
        # A small table is in as many parts as tasks run at once. Connect does not say; there tasks are always spread.
        if len(groups) > (parallelism(spark) or 0):
            packed = packed.repartition(len(groups))
        found: DataFrame = packed.mapInArrow(
            _function(tasks.reader, to, padded(notes, columns)), spark_schema(to, notes)
        )
    return found


def grouped(tasks: Tasks) -> list[list[Any]]:
    """Tasks of a plan by what one task of Spark reads: neighbours, up to so many bytes."""
    cost = [n + OPENING for n in tasks.nbytes]
    most = max(OPENING, min(MOST, -(-sum(cost) // LEAST_TASKS)))
    out: list[list[Any]] = []
    room = 0
    for task, n in zip(tasks.each, cost, strict=True):
        if not out or n > room:
            out.append([])
            room = most
        out[-1].append(task)
        room -= n
    return out


def padded(notes: dict[str, dict[str, Any]], columns: Sequence[str]) -> dict[str, int]:
    """The CHAR columns, by name, and how many characters they have: who reads them pads them with blanks.

    Raises:
        UnsupportedForm: there is CHAR within a struct, list or map.
    """
    out = {}
    for name in columns:
        declared = str(notes.get(name, {}).get(CHAR, "")).lower()
        if found := re.fullmatch(r"char\((\d+)\)", declared):
            out[name] = int(found[1])
        elif re.search(r"\bchar\(", declared):
            raise UnsupportedForm(
                f"column {name!r} is {declared}, and CHAR is padded at the top of a table alone; leave the column out: columns="
            )
    return out


def _function(
    reader: Reader, to: pa.Schema, pad: dict[str, int]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for packed in batch.column(0):
                for task in pickle.loads(packed.as_py()):
                    for rows in reader.read(task):
                        yield _padded(fitted(rows, to), pad)

    return read


def _padded(batch: pa.RecordBatch, pad: dict[str, int]) -> pa.RecordBatch:
    """A batch with its CHAR columns as long as they are declared."""
    for name, width in pad.items():
        at = batch.schema.get_field_index(name)
        batch = batch.set_column(at, batch.schema.field(at), pc.utf8_rpad(batch.column(at), width))
    return batch
