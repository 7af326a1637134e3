"""The Python data source "skipstone". Spark looks for modules of this form of name, so that `spark.read.format("skipstone")` needs no registration.

What it does is in `skipstone.bindings.spark.reading.data_source`.
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
        """What `format` takes."""
        return NAME

    def schema(self) -> StructType:
        """The columns of the table."""
        return ReadRequest(self.options).schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """What reads the columns of this schema."""
        return Reader(PlanReader(ReadRequest(self.options), schema))


class Split(InputPartition):  # type: ignore[misc]
    """What one task reads."""

    def __init__(self, tasks: Sequence[Any]) -> None:
        super().__init__(tasks)


class Reader(DataSourceReader):  # type: ignore[misc]
    """Reads what was planned."""

    def __init__(self, plan: PlanReader) -> None:
        self._plan = plan

    def partitions(self) -> Sequence[Split]:
        """A few files each."""
        return [Split(group) for group in self._plan.groups]

    def read(self, partition: Split) -> Iterator[pa.RecordBatch]:
        """The matching rows of one split."""
        return self._plan.batches(partition.value)
