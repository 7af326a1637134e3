"""DynamicFilterCollector: collect the distinct keys of a join's build side, from any thread."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skipstone.bindings.filters.data import DynamicFilterData
from skipstone.bindings.filters.fields import KeyFields, names_of_keys, null_safe_names
from skipstone.bindings.filters.keys import join_keys, not_in_as_text
from skipstone.bindings.filters.limits import DEFAULT_RANGES, limits_of
from skipstone.bindings.filters.rows import batches_of
from skipstone.bindings.filters.state import (
    CollectedKeys,
    bounded,
    distinct,
    empty,
    failed_keys,
    row_bytes,
    union,
    union_all,
)
from skipstone.ir.errors import DynamicFilterError, unknown_column
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import from_arrow
from skipstone.ir.zones import check_zone
from skipstone.kernels.run import forks

MAX_PENDING_BYTES: Final = 1 << 20  # bytes of keys that wait to be merged with the others


class DynamicFilterCollector:
    """Collect the keys of a join's build side, and return the distinct ones as a filter.

    Rows are compared by value. Equal keys give the same result, regardless of their order and
    batches. Over the threshold a filter becomes weaker, column by column, but never wrong: first
    distinct rows, then the distinct values of each column, then ranges, then minimum and maximum,
    then nothing.

    Safe to share between threads. Pickles, so that a worker's collector can be merged elsewhere.

    Args:
        columns: Names of the key columns in the rows that are added. With no names, the filter
            filters nothing.
        schema: The types of the columns that the keys are compared with, by the same names: those
            of the scan that is filtered. Keys of other types are compared as Spark's join compares
            the two.
        threshold: Maximum bytes of distinct rows, as a number or a text such as "32MiB"; None, 0
            and negative numbers mean no limit.
        max_values: Maximum number of distinct rows, and of distinct values of one column; None for
            no limit.
        on_overflow: "degrade", or "all": a filter that is too large filters nothing, as in Flink.
        ranges: The number of ranges that replace a column's values if there are too many.
        null_safe: True if keys are compared by `<=>`, so that NULL is a key like others; or the
            names of the keys that are.
        timezone, ansi: Spark's settings, which casts depend on.

    Raises:
        UnknownColumn: the schema lacks a column, or `null_safe` names no key.
        DynamicFilterError: a limit or another argument is malformed.

    Source: Flink FLIP-248, `DynamicFilteringDataCollectorOperator`.

    Example:
        >>> collector = DynamicFilterCollector(["k"], pa.schema([("k", pa.int32())]))
        >>> collector.add(pa.table({"k": pa.array([3, None, 1]), "name": ["a", "b", "c"]}))
        >>> collector.add(pa.table({"k": pa.array([1, 2**40])}))
        >>> data = collector.finish()
        >>> data.data.to_pydict(), data.contains(pa.table({"k": [1, 2, 3]})).tolist()
        ({'k': [1, 3]}, [True, False, True])
    """

    def __init__(
        self,
        columns: Sequence[str],
        schema: pa.Schema,
        threshold: str | int | None = "32MiB",
        max_values: int | None = None,
        on_overflow: str = "degrade",
        *,
        ranges: int = DEFAULT_RANGES,
        null_safe: bool | Collection[str] = False,
        timezone: str = "UTC",
        ansi: bool = True,
    ) -> None:
        names = names_of_keys(columns)
        if not isinstance(schema, pa.Schema):
            way_out = ": give its .schema" if hasattr(schema, "schema") else ""
            raise DynamicFilterError(
                f"schema is {type(schema).__name__}; expected a pyarrow.Schema{way_out}"
            )
        for name in names:
            if name not in schema.names:
                raise unknown_column(name, schema.names, "columns=")
        check_zone(timezone)
        safe = null_safe_names(null_safe, names)
        self._limits = limits_of(threshold, max_values, ranges, on_overflow)
        self._fields = KeyFields(
            names, tuple(schema.field(n) for n in names), safe, Session(timezone, ansi)
        )
        self._state = empty(self._fields.dtypes, self._limits)
        self._pending: list[CollectedKeys] = []
        self._pending_bytes, self._state_bytes, self._rows = 0, 0, 0
        self._finished: DynamicFilterData | None = None
        self._start()

    def _start(self) -> None:
        self._lock, self._started = forks.lock(), time.perf_counter()

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the key columns."""
        return self._fields.names

    @property
    def rows_seen(self) -> int:
        """The number of rows added so far."""
        return self._rows

    def add(self, batch: Any) -> None:
        """Add rows of the build side.

        Args:
            batch: An Arrow RecordBatch or Table, a DataFrame of pandas or Polars, or any object
                with Arrow's stream protocol. Columns other than the keys are ignored.

        Raises:
            UnknownColumn: the rows lack a key column.
            AmbiguousColumn: several columns have a key's name.
            DynamicFilterError: `finish` was called; or the keys are compared in another type than
                earlier keys.
        """
        for rows in batches_of(batch, self.fields):
            keys = self._keys_of(rows)
            with self._lock:
                if self._finished is not None:
                    raise DynamicFilterError(
                        "rows were added after finish(); make another collector, or finish later"
                    )
                self._rows += rows.num_rows
                self._pending.append(keys)
                self._pending_bytes += (
                    64 if keys.rows is None else row_bytes(keys.rows, keys.dtypes)
                )
                if self._pending_bytes > max(MAX_PENDING_BYTES, self._state_bytes):
                    self._merge_pending()

    def merge(self, *others: DynamicFilterCollector | DynamicFilterData) -> None:
        """Add the keys of other collectors or filters of the same columns, in any order.

        Raises:
            DynamicFilterError: they are something else, their columns differ, or `finish` was
                called.
        """
        for other in others:
            if not isinstance(other, DynamicFilterCollector | DynamicFilterData):
                raise DynamicFilterError(
                    f"merge got a {type(other).__name__}; expected collectors, or what their "
                    "finish() returned: add() takes rows"
                )
            state = other.state if isinstance(other, DynamicFilterData) else other._current_state()
            if other.fields != self.fields:
                raise DynamicFilterError(
                    f"a filter of ({', '.join(other.fields)}) was merged into one of "
                    f"({', '.join(self.fields)}); expected the same columns"
                )
            with self._lock:
                if self._finished is not None:
                    raise DynamicFilterError(
                        "a filter was merged after finish(); make another collector, "
                        "or finish later"
                    )
                self._rows += 0 if isinstance(other, DynamicFilterData) else other._rows
                self._state = union(self._state, state)

    def finish(self) -> DynamicFilterData:
        """Return the filter; later calls return the same one."""
        with self._lock:
            if self._finished is None:
                self._merge_pending()
                self._finished = DynamicFilterData(
                    self._fields, self._state, self._rows, time.perf_counter() - self._started
                )
            return self._finished

    def _current_state(self) -> CollectedKeys:
        with self._lock:
            self._merge_pending()
            return self._state

    def _merge_pending(self) -> None:
        """Merge pending keys into the state.

        The pending keys are at least as large as the state, so each row is moved a few times only.
        """
        if self._pending:
            self._state = union_all([self._state, *self._pending])
            self._pending, self._pending_bytes = [], 0
            self._state_bytes = self._state.nbytes

    def _keys_of(self, rows: pa.Table) -> CollectedKeys:
        """Return the distinct keys of some rows."""
        fields = self._fields
        no_keys = empty(fields.dtypes, self._limits)
        if not fields.names or not rows.num_rows:
            return replace(no_keys, has_rows=rows.num_rows > 0)
        try:
            columns = [
                join_keys(rows.column(name), dtype, fields.session)
                for name, dtype in zip(fields.names, fields.dtypes, strict=True)
            ]
        except CannotJudge as e:
            return failed_keys(no_keys, str(e))
        dtypes = tuple(column.dtype for column in columns)
        possible, all_null = np.ones(rows.num_rows, np.bool_), np.ones(rows.num_rows, np.bool_)
        has_null = np.zeros(rows.num_rows, np.bool_)
        for name, column in zip(fields.names, columns, strict=True):
            all_null &= False if column.null is None else column.null
            if column.null is not None and name not in fields.null_safe:
                has_null |= column.null
            if column.possible is not None:
                possible &= column.possible
        matchable = possible & ~has_null
        table = pa.table({str(i): column.keys for i, column in enumerate(columns)})
        table = distinct(table if matchable.all() else table.filter(pa.array(matchable)))
        return bounded(
            CollectedKeys(
                dtypes,
                self._limits,
                table,
                has_rows=True,
                null_dropped=bool(has_null.any()),
                all_null_row=bool(all_null.any()),
                unmatchable=not possible.all(),
                as_text=any(
                    not_in_as_text(from_arrow(rows.schema.field(name).type), dtype, fields.session)
                    for name, dtype in zip(fields.names, fields.dtypes, strict=True)
                ),
            )
        )

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            self._merge_pending()
            return {k: v for k, v in self.__dict__.items() if k not in ("_lock", "_started")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    def __repr__(self) -> str:
        return f"DynamicFilterCollector(fields=[{', '.join(self.fields)}], {self._rows:,} rows)"
