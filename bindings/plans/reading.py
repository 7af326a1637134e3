"""Reading: hand the rows of a plan to Arrow, pandas, Spark and every reader of Arrow streams."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings import hooks
from skipstone.bindings.plans.readers import ReaderName, check_reader
from skipstone.bindings.plans.records import log_reading
from skipstone.bindings.plans.selection import Selection
from skipstone.bindings.progress import under_current_settings
from skipstone.ir.errors import BackendMissing, PredicateError
from skipstone.ir.outcome import Verdict
from skipstone.ir.session import check_flag
from skipstone.kernels.run.forks import release_imports
from skipstone.kernels.settings import ProgressSetting

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    from duckdb import DuckDBPyConnection
    from polars import LazyFrame
    from pyarrow.dataset import Dataset

    from skipstone.bindings.filters.scan import DynamicFilters
    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.plans.table_protocol import Positions
    from skipstone.bindings.predicates.predicate import PruningPredicate


class Reading(Selection, ABC):
    """The methods of a plan that return its rows. `Plan` documents the attributes."""

    @abstractmethod
    def _judged(
        self,
        predicate: PruningPredicate | None,
        verdicts: npt.NDArray[np.uint8],
        columns: list[str],
        dynamic: DynamicFilters | None = None,
    ) -> Plan:
        """Return a plan of the same table, with other verdicts, no order and no limit."""

    def _restricted(
        self, containers: Positions, columns: list[str], dynamic: DynamicFilters | None
    ) -> Plan:
        """Return a plan of some of the containers, with no order and no limit."""
        verdicts = np.zeros_like(self.verdicts)
        verdicts[containers] = self.verdicts[containers]
        return self._judged(self.predicate, verdicts, columns, dynamic)

    @property
    def _plan(self) -> Plan:
        """The plan itself, by its own class."""
        return cast("Plan", self)

    @property
    def schema(self) -> pa.Schema:
        """The columns that reading returns."""
        return pa.schema([self.table.schema.field(name) for name in self.columns])

    def to_batches(
        self,
        *,
        reader: ReaderName = "auto",
        filter: bool = True,
        progress: ProgressSetting = None,
    ) -> pa.RecordBatchReader:
        """Return the matching rows as a stream of batches, in table order or sorted.

        The stream ends at the limit. It reads files while it is consumed, and raises the errors
        below then. Sorted rows without a limit are all in memory at once.

        Args:
            reader: Decodes Parquet pages: "arrow", "polars", or "auto", which takes Polars for
                large reads if it is installed. All give the same rows. In a process that was
                forked after Polars was imported, Arrow decodes.
            filter: If False, return all rows of the kept containers, in table order, for an engine
                that filters, sorts and limits rows itself.
            progress: As `skipstone.config.progress`, for this stream.

        Returns:
            An iterator of batches that has the plan's `schema`.

        Raises:
            BackendMissing: `reader` is "polars", and Polars is not installed.
            UnsupportedForm: rows of a container must be filtered by a form that only planning
                understands.
            SourceError: a file can no longer be read.
        """
        check_flag("filter", filter)
        if not filter:
            return self._unfiltered().to_batches(reader=reader, progress=progress)
        schema = self.schema
        found = under_current_settings(log_reading(self._batches(check_reader(reader))), progress)
        # A stream of other types than its schema's would not be noticed.
        rows = (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in found)
        return pa.RecordBatchReader.from_batches(schema, rows)

    def _unfiltered(self) -> Plan:
        """Return the plan of all rows of the kept containers."""
        verdicts = np.where(self._selected, Verdict.ALWAYS, Verdict.NEVER).astype(np.uint8)
        return self._judged(None, verdicts, self.columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the matching rows as an Arrow stream, for every library that reads those.

        The library raises its own class of error, with our message.

        Args:
            requested_schema: A capsule of the schema that the library prefers.

        Source: Arrow, "The Arrow PyCapsule Interface".

        Example:
            >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, os, skipstone as ss
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(100)}), path, row_group_size=10)
            >>> pa.table(ss.scan_parquet(path).plan("x >= 98")).column("x").to_pylist()
            [98, 99]
        """
        return self.to_batches().__arrow_c_stream__(requested_schema)

    def _batches(self, reader: ReaderName) -> Iterator[pa.RecordBatch]:
        """Yield the matching rows, in table order or sorted, up to the limit."""
        release_imports()  # as in `bind_source`
        if self.order:
            from skipstone.bindings.plans.topk import read_in_order

            yield from read_in_order(self._plan)
            return
        remaining = None if self.cut is None else self.cut.limit
        for batch in self._matching_batches(reader):
            if remaining is None:
                yield batch
                continue
            if remaining:
                yield batch.slice(0, remaining)
            remaining -= min(remaining, batch.num_rows)
            if not remaining:
                return

    def _matching_batches(self, reader: ReaderName) -> Iterator[pa.RecordBatch]:
        """Yield the rows that match the condition and that joins may need."""
        if self.dynamic is None or not self.dynamic.columns:
            yield from self.table.tasks(self._plan, reader=reader).batches()
            return
        names = list(dict.fromkeys([*self.columns, *self.dynamic.columns]))
        wider = self._restricted(self.kept, names, None)
        for batch in self.table.tasks(wider, reader=reader).batches():
            needed = self.dynamic.needed_rows(batch)
            if needed.num_rows:
                yield needed.select(self.columns)

    def to_arrow(
        self,
        *,
        reader: ReaderName = "auto",
        filter: bool = True,
        progress: ProgressSetting = None,
    ) -> pa.Table:
        """Return the matching rows as an Arrow table.

        They are the rows that Spark returns when it reads and filters the whole table.

        Args:
            reader, filter, progress: See `to_batches`.

        Raises:
            BackendMissing: `reader` is "polars", and Polars is not installed.
            UnsupportedForm: see `to_batches`.
            SourceError: a file can no longer be read.
        """
        return self.to_batches(reader=reader, filter=filter, progress=progress).read_all()

    def to_pandas(self, *, filter: bool = True) -> pd.DataFrame:
        """Return the matching rows as a pandas DataFrame.

        Args:
            filter: See `to_batches`.

        Raises:
            BackendMissing: pandas is not installed.
            UnsupportedForm: see `to_batches`.
            SourceError: a file can no longer be read.
        """
        rows = self.to_arrow(filter=filter)
        try:
            return rows.to_pandas()
        except ImportError as e:
            raise BackendMissing(
                "to_pandas needs the package pandas: pip install pandas, or "
                'pip install "skipstone[spark]", which includes it'
            ) from e

    def to_dataset(self) -> Dataset:
        """Return the kept files and row groups as a dataset of pyarrow, for Dask and others.

        Its rows are neither filtered by the condition nor sorted nor limited. Its scans prune
        further by their own filters. It does not notice files that are replaced later.

        Raises:
            UnsupportedForm: Arrow would read a file differently: it has deleted rows, renamed
                columns, widened types, lists, INT96 timestamps, or columns that Spark describes
                otherwise.
            SourceError: a footer cannot be read.
            StaleFile: a file was replaced after it was planned.

        Example:
            >>> import pyarrow as pa, pyarrow.compute as pc, pyarrow.parquet as pq
            >>> import tempfile, os, skipstone as ss
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(100)}), path, row_group_size=10)
            >>> rest = ss.scan_parquet(path).plan("x >= 85").to_dataset()
            >>> rest.count_rows(), rest.to_table(filter=pc.field("x") > 97).num_rows
            (20, 2)
        """
        return hooks.call("plan to dataset", self)

    def to_duckdb(self, con: DuckDBPyConnection | None = None, *, filter: bool = True) -> Any:
        """Return the matching rows as a relation of DuckDB, which reads them at each query.

        Args:
            con: The connection; None is DuckDB's default connection.
            filter: See `to_batches`.

        Raises:
            BackendMissing: DuckDB is not installed.
            UnsupportedForm: DuckDB does not read a column's type.

        Example:
            >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, os, skipstone as ss
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(100)}), path, row_group_size=10)
            >>> ss.scan_parquet(path).plan("x >= 95").to_duckdb().aggregate("sum(x)").fetchall()
            [(485,)]
        """
        try:
            import duckdb
        except ImportError as e:
            raise BackendMissing("to_duckdb needs the package duckdb: pip install duckdb") from e
        check_flag("filter", filter)
        if con is not None and not isinstance(con, duckdb.DuckDBPyConnection):
            raise PredicateError(
                f"con is {con!r:.60}; expected a connection, such as duckdb.connect(), or None"
            )
        connection = duckdb if con is None else con
        try:
            return connection.from_arrow(self if filter else self._unfiltered())
        except duckdb.Error as e:
            from skipstone.bindings.plans.polars_source import unread_types_error

            def reads(field: pa.Field) -> None:
                connection.from_arrow(pa.Table.from_batches([], pa.schema([field])))

            raise unread_types_error("DuckDB", "to_duckdb", self.schema, reads, e) from e

    def to_polars(self, *, filter: bool = True) -> LazyFrame:
        """Return the matching rows as a lazy frame of Polars.

        Each query reads the columns that it needs, and plans again with its filters and its limit,
        unless the plan has a limit or an order. `to_polars().collect()` is a DataFrame.

        Args:
            filter: See `to_batches`.

        Raises:
            BackendMissing: Polars is not installed, or too old.
            UnsupportedForm: Polars does not read a column's type.

        Example:
            >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, os, skipstone as ss
            >>> import polars as pl
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(100)}), path, row_group_size=10)
            >>> frame = ss.scan_parquet(path).plan("x >= 15").to_polars()
            >>> frame.filter(pl.col("x") < 18).collect()["x"].to_list()
            [15, 16, 17]
        """
        from skipstone.bindings.plans.polars_source import frame_of_plan

        check_flag("filter", filter)
        return frame_of_plan(self._plan if filter else self._unfiltered())

    def to_spark(self, spark: Any, *, how: Literal["auto", "native", "python"] = "auto") -> Any:
        """Return the matching rows as a Spark DataFrame, with the plan's order and limit.

        Spark applies the condition to the rows in any case. If a part of it depends on the time
        zone, the plan must be made with the session's.

        Args:
            spark: The session, classic or of Spark Connect.
            how: See `skipstone.spark.read`.

        Raises:
            UnsupportedForm: `how` is "native", and Spark would read a file differently; the
                condition cannot be expressed in Spark; or it would mean something else under the
                session's settings.
            SourceError: partition values without a zone were read in another zone than the
                session's.
            BackendMissing: PySpark or pandas is not installed.

        Example:
            >>> plan.to_spark(spark).groupBy("dest").count().show()  # doctest: +SKIP
        """
        return hooks.call("plan to Spark", spark, self, how)
