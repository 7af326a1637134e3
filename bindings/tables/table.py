"""The base class of the tables that people scan: one `plan` method, and the same attributes."""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence, Sized
from typing import TYPE_CHECKING, Any, Final

from skipstone.bindings import hooks
from skipstone.bindings.filters.option import enabled
from skipstone.bindings.plans.request import PlanRequest, at_plan_time, may_have_unused_parts
from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.ir.errors import UnknownColumn
from skipstone.ir.node import Node
from skipstone.ir.session import Session

if TYPE_CHECKING:
    import pyarrow as pa
    from polars import LazyFrame

    from skipstone.bindings.checks.check import StatisticsCheck
    from skipstone.bindings.layout.advice import Advice
    from skipstone.bindings.layout.clustering import Clustering
    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.plans.request import Dynamic
    from skipstone.bindings.plans.work import Work
    from skipstone.bindings.predicates.predicate import Condition
    from skipstone.bindings.views.map import Map

# If a Delta log lacks bounds, a plan reads the footers of up to this many files, which reading the
# rows needs anyway.
MAX_FOOTERS: Final = 64


class Table(ABC):
    """A table that can be planned. Its subclasses are the formats.

    Attributes:
        dynamic_filtering: True if filters from joins prune; None reads the environment variable
            SKIPSTONE_DYNAMIC_FILTERING, which is true by default.
    """

    dynamic_filtering: bool | None = None

    @property
    @abstractmethod
    def path(self) -> str | None:
        """The table's folder, or its URI; None if files were named instead of a folder."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The table's columns."""

    @property
    @abstractmethod
    def partition_columns(self) -> tuple[str, ...]:
        """Names of the columns that have one value in each file."""

    @property
    @abstractmethod
    def files(self) -> Sized:
        """All files, in table order: their paths, or an object of its format; `len` counts them."""

    @property
    @abstractmethod
    def all_files(self) -> tuple[str, ...]:
        """The paths of all files, in table order, as plans name them."""

    @property
    @abstractmethod
    def work(self) -> Work:
        """The work done so far by the scan and by plans."""

    @property
    def num_files(self) -> int:
        """The number of files."""
        return len(self.files)

    def plan(
        self,
        where: Condition | None = None,
        *,
        columns: list[str] | None = None,
        limit: int | None = None,
        order_by: str | Sequence[str] | None = None,
        stats_skipping: bool = True,
        footers: int = MAX_FOOTERS,
        dynamic: Dynamic = None,
        dynamic_filtering: bool | None = None,
        timezone: str = "UTC",
        ansi: bool = True,
        case_sensitive: bool = False,
    ) -> Plan:
        """Decide which files and row groups to read.

        Parquet: footers are read, and so are the bloom filters of columns with an `=` or IN test,
        in row groups whose bounds admit a value. Hive: folders that the condition rules out are not
        listed, and footers are read only in the others. Delta: the log decides. Iceberg: a manifest
        is read only if its partitions in the manifest list may match the condition and the join
        keys that are already known; files of other manifests count only in `sizes.total`.

        Args:
            where: The condition: SQL text, an expression, filters, or a PruningPredicate over this
                table's schema. None keeps everything. In text, `now()`, `current_date()` and the
                like are the time of this call.
            columns: The top-level columns to read; None reads all.
            limit: The number of matching rows that are needed; any will do, unless `order_by` is
                given. Fully matched containers are kept until they have enough live rows. If they
                never have, all containers that may match are kept.
            order_by: The order of the rows, as after ORDER BY in Spark SQL: "x DESC NULLS LAST, y".
                With a limit, only containers that may hold one of the first rows are kept.
            stats_skipping: True to use column statistics; False to use only partition values.
            footers: The largest number of files whose footers are read because a Delta log lacks
                their bounds. If more files that may match lack bounds, no footer is read. Other
                formats ignore it.
            dynamic: Filters from joins: `DynamicFilterData` from a collector, or a `DynamicFilter`,
                which may still be pending. Rows that they rule out are not read; a limit chooses
                among the others.
            dynamic_filtering: True to use `dynamic`, False to ignore it; None uses the setting of
                the table or the environment.
            timezone, ansi, case_sensitive: Spark's settings, as for PruningPredicate.

        Warns:
            SkipstoneWarning: a part of the condition can never prune, such as a literal that is
                not of the column's type. The message names it, and what would prune.

        Raises:
            PredicateError: the condition is malformed or names an unknown column.
            SourceError: a folder cannot be listed, or a footer or manifest cannot be read.
            StatisticsError: the table's file in `config.statistics_cache_dir` is damaged. It is
                removed, so the next scan reads the log.

        Source: Delta Lake, `filesForScan`.

        Example:
            >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, os, skipstone as ss
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(100)}), path, row_group_size=10)
            >>> plan = ss.scan_parquet(path).plan(where="x >= 95")
            >>> plan.row_groups[path], plan.to_arrow().num_rows
            ([9], 5)
        """
        condition = at_plan_time(where, self.schema, timezone)
        request = PlanRequest(
            condition, columns, limit, order_by, stats_skipping, footers, dynamic,
            enabled(dynamic_filtering, self.dynamic_filtering), timezone, ansi, case_sensitive,
        )  # fmt: skip
        before, start = self.work, time.perf_counter()
        try:
            plan = self.answer(request)
        except UnknownColumn as e:
            e.message += self._above(e.message)
            raise
        plan.seconds["total"] = time.perf_counter() - start
        plan.work = self.work - before
        # A PruningPredicate or a tree of nodes comes from a program, which can ask `plan.unused`.
        if plan.predicate is not None and not isinstance(where, PruningPredicate | Node):
            if may_have_unused_parts(plan.predicate):
                from skipstone.bindings.plans.explain.unused import warn_unused

                warn_unused(plan.predicate, bounds_elements=plan.statistics.bounds_elements)
        return plan

    def to_polars(self, *, timezone: str = "UTC") -> LazyFrame:
        """Return the table as a lazy frame of Polars, whose queries plan by their filters.

        A query reads only the columns that it needs, of the files and row groups that its filters
        and its limit leave. Polars decides what a filter means; a part that Spark may understand
        otherwise prunes nothing.

        Args:
            timezone: The zone in which partition values without a zone are read.

        Raises:
            BackendMissing: Polars is not installed, or too old.
            UnsupportedForm: Polars does not read a column's type.

        Example:
            >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, os, skipstone as ss
            >>> import polars as pl
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(100)}), path, row_group_size=10)
            >>> frame = ss.scan_parquet(path).to_polars()
            >>> frame.filter(pl.col("x") >= 98).collect()["x"].to_list()
            [98, 99]
        """
        from skipstone.bindings.plans.narrow import first_of, without_unjudged
        from skipstone.bindings.plans.polars_source import lazy_frame

        def read(columns: list[str], condition: Any, limit: int | None) -> pa.RecordBatchReader:
            plan = self.plan(condition, columns=columns, timezone=timezone, case_sensitive=True)
            plan = plan if condition is None else without_unjudged(plan)
            return (plan if limit is None else first_of(plan, limit)).to_batches()

        return lazy_frame(self.schema, read, timezone)

    def clustering(
        self,
        columns: Sequence[str] | None = None,
        *,
        workload: Sequence[Condition] | str | None = None,
    ) -> Clustering:
        """Return how far the table's containers overlap, column by column.

        Statistics alone decide: no row is read. Containers are row groups of Parquet and Hive
        tables, and files of Delta and Iceberg tables.

        Args:
            columns: Columns of values that have an order; None means those of the workload, or all.
            workload: Conditions, or text that holds conditions or queries; their columns count.

        Raises:
            UnknownColumn: the table lacks a column.
            StatisticsError: values of a column have no order.

        Source: Snowflake, `SYSTEM$CLUSTERING_INFORMATION`; `docs/layout.md` defines the figures.

        Example:
            >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, os, skipstone as ss
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> rows = pa.table({"x": range(100), "y": [i % 7 for i in range(100)]})
            >>> pq.write_table(rows, path, row_group_size=10)
            >>> found = ss.scan_parquet(path).clustering()
            >>> found["x"].average_depth, found["y"].average_depth
            (1.0, 10.0)
        """
        from skipstone.bindings.arguments import checked_names

        found: Clustering = hooks.call(
            "clustering", self, columns and checked_names("columns", columns), workload
        )
        return found

    def advise(
        self,
        workload: Sequence[Condition] | str | None = None,
        *,
        sample: bool | int | None = None,
        name: str | None = None,
        target_bytes: int | None = None,
        timezone: str = "UTC",
    ) -> Advice:
        """Return which layout of the table would let a workload's queries read less.

        Candidates are sorting by one column or two, Z-order, Hilbert order and partitioning. For
        each, the bytes and files that the workload would read are predicted: rows are put in
        the candidate's order, cut into as many containers as the table has, and judged by the
        conditions. `docs/layout.md` says what a prediction assumes.

        Args:
            workload: Conditions of any form, or text that holds conditions or whole queries. None:
                rank the first 32 columns, and the partition columns, by what a search for one value
                would read.
            sample: Whether to read a sample of the rows: True for some 100,000, or their number.
                False: rows are drawn from the statistics, evenly within each container's bounds.
                None: sample them if at most 256 MiB must be read for it.
            name: The table's name in queries, and in the statements to run.
            target_bytes: The size that files should have; None means 128 MiB.
            timezone: The time zone of Spark's session.

        Raises:
            PredicateError: the workload cannot be used.
            SourceError: a file cannot be read.

        Example:
            >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, os, skipstone as ss
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> rows = pa.table({"x": range(1000), "y": [i * 77 % 1000 for i in range(1000)]})
            >>> pq.write_table(rows, path, row_group_size=100)
            >>> advice = ss.scan_parquet(path).advise(["y = 5", "y > 950"])
            >>> advice.best.label, advice.current.containers, advice.best.containers
            ('sort by y', 4.0, 1.0)
        """
        advice: Advice = hooks.call(
            "advise", self, workload, sample=sample, name=name, target_bytes=target_bytes,
            timezone=timezone,
        )  # fmt: skip
        return advice

    def check(
        self,
        columns: Sequence[str] | None = None,
        *,
        sample: int | None = None,
        timezone: str = "UTC",
    ) -> StatisticsCheck:
        """Read rows, and return which statistics of their containers are wrong.

        A minimum that is too high, or a NULL count that is too low, loses rows in every engine that
        prunes, and nothing else notices it. This compares the bounds, the counts of NULL and NaN
        and the row counts that `plan` uses: of row groups of Parquet and Hive tables, and of files
        of Delta and Iceberg tables. It does not compare statistics of pages, or bloom filters.

        Args:
            columns: The columns to compare; a struct's field is written `a.b`. None means all.
            sample: The number of containers to read, drawn at random; None means all.
            timezone: The zone in which partition values without a zone are read.

        Raises:
            UnknownColumn: the table lacks a column.
            SourceError: a file cannot be read.

        Example:
            >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, os, skipstone as ss
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(100)}), path, row_group_size=10)
            >>> found = ss.scan_parquet(path).check()
            >>> found.ok, found.wrong
            (True, ())
            >>> print(found)
            read 10 of 10 row groups: 100 rows, 1 column
            no statistic is wrong
        """
        found: StatisticsCheck = hooks.call(
            "check", self, columns, sample=sample, timezone=timezone
        )
        return found

    @abstractmethod
    def answer(self, request: PlanRequest) -> Plan:
        """Return the plan of a request."""

    def accepted_filter_fields(
        self, candidates: Sequence[str], case_sensitive: bool = False
    ) -> list[str]:
        """Return the columns that a dynamic filter may be compared with: those with an order.

        Args:
            candidates: Names of columns, partition columns or not; a struct's field is `a.b`.
            case_sensitive: True if names must match in case.

        Source: Flink FLIP-248, `SupportsDynamicFiltering.listAcceptedFilterFields`, which takes
        partition columns only.
        """
        from skipstone.bindings.filters.scan import accepted

        return accepted(self.schema, candidates, Session(case_sensitive=case_sensitive))

    def map(self, *columns: str, where: Condition | None = None, timezone: str = "UTC") -> Map:
        """Return a map: the ranges of some columns in all containers, and what a condition prunes.

        It reads no data, only the statistics that `plan` reads.

        Args:
            columns: The columns to draw; a struct's field is written `a.b`. The first two are also
                drawn against each other. Without any, those of the condition are drawn, or else the
                partition columns.
            where, timezone: As for `plan`.

        Returns:
            The map: notebooks show it, `save(path)` writes HTML or PNG, `show()` opens a browser.

        Raises:
            UnknownColumn: the table lacks a column.

        Example:
            >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, os, skipstone as ss
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(100)}), path, row_group_size=10)
            >>> ss.scan_parquet(path).map("x", where="x >= 95")
            Map(1 of 10 row groups is read, columns: x)
        """
        made: Map = hooks.call("map of plan", self.plan(where, timezone=timezone), columns)
        return made

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if not name.startswith("_"):
                from skipstone.bindings.attributes import explain_attribute

                explain_attribute(self, "table", name)
            return object.__getattribute__(self, name)

    def __dir__(self) -> list[str]:
        from skipstone.bindings.attributes import public_names

        return public_names(super().__dir__(), "table")

    def _repr_html_(self) -> str | None:
        return hooks.html("HTML of table", self)

    def _above(self, message: str) -> str:
        """Return a hint if an unknown column is the one whose partition folder was scanned."""
        named = re.search(r" names '([^'`]+)'; ", message)
        if named is None or f"/{named[1]}=" not in f"{self.path}":
            return ""
        return (
            f" {self.path} is a folder of that partition column: scan the folder above it, or give "
            "that as base_path= to scan_parquet."
        )

    def _shown_columns(self) -> str:
        """Return the names of the first columns, for `repr`."""
        more = ", ..." if len(self.schema) > 6 else ""
        return f"columns: {', '.join(self.schema.names[:6])}{more}"
