"""The Python data source "skipstone".

Spark looks for modules whose names have this form, so that `spark.read.format("skipstone")` needs
no registration. `skipstone.bindings.spark.reading.data_source` does the work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from skipstone.bindings.spark.reading.data_source import NAME, PlanReader, ReadRequest


class DefaultSource(DataSource):  # type: ignore[misc]
    """Tables that Skipstone plans: Parquet, Hive, Delta and Iceberg, by options."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return NAME

    def schema(self) -> StructType:
        """Return the columns of the table."""
        return ReadRequest(self.options).schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the columns of this schema."""
        return Reader(PlanReader(ReadRequest(self.options), schema))


class Split(InputPartition):  # type: ignore[misc]
    """The files that one task reads."""

    def __init__(self, tasks: Sequence[Any]) -> None:
        super().__init__(tasks)


class Reader(DataSourceReader):  # type: ignore[misc]
    """Reads a plan."""

    def __init__(self, plan: PlanReader) -> None:
        self._plan = plan

    def partitions(self) -> Sequence[Split]:
        """Return the splits, with a few files each."""
        return [Split(group) for group in self._plan.groups]

    def read(self, partition: Split) -> Iterator[pa.RecordBatch]:
        """Yield the matching rows of one split."""
        return self._plan.batches(partition.value)
