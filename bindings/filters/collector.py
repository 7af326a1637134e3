"""DynamicFilterCollector: takes the build side's rows as they come, from any thread, and keeps the distinct keys."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skipstone.bindings.filters.data import DynamicFilterData, Fields
from skipstone.bindings.filters.keys import keyed, not_in_as_text
from skipstone.bindings.filters.limits import RANGES, limits_of
from skipstone.bindings.filters.rows import batches_of
from skipstone.bindings.filters.state import (
    CollectedKeys,
    bounded,
    broken,
    distinct,
    empty,
    row_bytes,
    union,
    union_all,
)
from skipstone.ir.errors import DynamicFilterError, unknown_column
from skipstone.ir.session import Incomparable, Session
from skipstone.ir.types import from_arrow
from skipstone.kernels.run import forks

WAITING: Final = 1 << 20  # bytes of rows that wait for being joined with the others


class DynamicFilterCollector:
    """Collects the keys of a join's build side, and says at the end which of them there are.

    Rows are equal by value, whatever batch they came in; of equal keys in any order and any parts the result is the same.
    Over the threshold a filter becomes weaker, column by column, and never wrong: distinct rows, then the distinct values of
    each column, then ranges, then the least and the greatest value, then nothing.

    Args:
        columns: Names of the key columns in what is added. None at all give a filter that filters nothing.
        schema: The types of the columns that the keys are compared with, by the same names: those of the scan that is to be
            filtered. Keys of other types are compared as Spark's join compares the two.
        threshold: Bytes of distinct rows, as a number or a text such as "32MiB"; None, 0 and less: no limit.
        max_values: Distinct rows, and distinct values of one column; None: any number.
        on_overflow: "degrade", or "all": a filter that is too large filters nothing, as in the source.
        ranges: How many ranges a column's values become where they are too many.
        null_safe: Whether the join's equality is `<=>`, so that NULL is a key like others; or the names of the keys of which it is.
        timezone, ansi: Spark's settings, which casts depend on.

    Raises:
        UnknownColumn: the schema lacks a column.
        DynamicFilterError: a limit that is none.

    Safe to share between threads. Pickles, so that a worker's collector can be merged elsewhere.

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
        ranges: int = RANGES,
        null_safe: bool | Collection[str] = False,
        timezone: str = "UTC",
        ansi: bool = True,
    ) -> None:
        if isinstance(columns, str):
            columns = [columns]
        for name in columns:
            if name not in schema.names:
                raise unknown_column(name, schema.names, "columns")
        names = tuple(columns)
        safe = names if null_safe is True else tuple(n for n in names if n in (null_safe or ()))
        self._limits = limits_of(threshold, max_values, ranges, on_overflow)
        self._fields = Fields(
            names, tuple(schema.field(n) for n in names), frozenset(safe), Session(timezone, ansi)
        )
        self._state = empty(self._fields.dtypes, self._limits)
        self._waiting: list[CollectedKeys] = []
        self._bytes, self._known, self._rows = 0, 0, 0
        self._finished: DynamicFilterData | None = None
        self._start_making()

    def _start_making(self) -> None:
        self._lock, self._started = forks.lock(), time.perf_counter()

    @property
    def fields(self) -> tuple[str, ...]:
        """The key columns."""
        return self._fields.names

    @property
    def rows_seen(self) -> int:
        """Rows that were added so far."""
        return self._rows

    def add(self, batch: Any) -> None:
        """Take rows of the build side.

        Args:
            batch: An Arrow RecordBatch or Table, or a DataFrame of pandas or Polars, or anything that speaks Arrow's stream
                protocol. Columns besides the keys are passed over.

        Raises:
            UnknownColumn: it lacks a key column.
            DynamicFilterError: `finish` was called; or its keys are compared in another type than those before.
        """
        for rows in batches_of(batch, self.fields):
            part = self._part(rows)
            with self._lock:
                if self._finished is not None:
                    raise DynamicFilterError(
                        "rows were added after finish(); make another collector, or finish later"
                    )
                self._rows += rows.num_rows
                self._waiting.append(part)
                self._bytes += 64 if part.rows is None else row_bytes(part.rows, part.dtypes)
                if self._bytes > max(WAITING, self._known):
                    self._settle()

    def merge(self, *others: DynamicFilterCollector | DynamicFilterData) -> None:
        """Take what other collectors of the same keys have found, in any order."""
        for other in others:
            state = other.state if isinstance(other, DynamicFilterData) else other._settled()
            if other.fields != self.fields:
                raise DynamicFilterError(
                    f"a filter of ({', '.join(other.fields)}) was merged into one of ({', '.join(self.fields)}); expected the same columns"
                )
            with self._lock:
                if self._finished is not None:
                    raise DynamicFilterError(
                        "a filter was merged after finish(); make another collector, or finish later"
                    )
                self._rows += 0 if isinstance(other, DynamicFilterData) else other._rows
                self._state = union(self._state, state)

    def finish(self) -> DynamicFilterData:
        """The filter, once; later calls give the same one."""
        with self._lock:
            if self._finished is None:
                self._settle()
                self._finished = DynamicFilterData(
                    self._fields, self._state, self._rows, time.perf_counter() - self._started
                )
            return self._finished

    def _settled(self) -> CollectedKeys:
        with self._lock:
            self._settle()
            return self._state

    def _settle(self) -> None:
        """Join what waits with what is known. At least as much waits as is known, so each row is moved a few times only."""
        if self._waiting:
            self._state = union_all([self._state, *self._waiting])
            self._waiting, self._bytes = [], 0
            self._known = self._state.nbytes

    def _part(self, rows: pa.Table) -> CollectedKeys:
        """The distinct keys of some rows."""
        fields = self._fields
        first = empty(fields.dtypes, self._limits)
        if not fields.names or not rows.num_rows:
            return replace(first, seen=rows.num_rows > 0)
        try:
            found = [
                keyed(rows.column(name), dtype, fields.session)
                for name, dtype in zip(fields.names, fields.dtypes, strict=True)
            ]
        except Incomparable as e:
            return broken(first, str(e))
        dtypes = tuple(k.dtype for k in found)
        possible, blank = np.ones(rows.num_rows, np.bool_), np.ones(rows.num_rows, np.bool_)
        nulls = np.zeros(rows.num_rows, np.bool_)
        for name, key in zip(fields.names, found, strict=True):
            blank &= False if key.null is None else key.null
            if key.null is not None and name not in fields.null_safe:
                nulls |= key.null
            if key.possible is not None:
                possible &= key.possible
        kept = possible & ~nulls
        table = pa.table({str(i): k.lanes for i, k in enumerate(found)})
        table = distinct(table if kept.all() else table.filter(pa.array(kept)))
        return bounded(
            CollectedKeys(
                dtypes,
                self._limits,
                table,
                (),
                True,
                bool(nulls.any()),
                bool(blank.any()),
                not possible.all(),
                as_text=any(
                    not_in_as_text(from_arrow(rows.schema.field(name).type), dtype, fields.session)
                    for name, dtype in zip(fields.names, fields.dtypes, strict=True)
                ),
            )
        )

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            self._settle()
            return {k: v for k, v in self.__dict__.items() if k not in ("_lock", "_started")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start_making()

    def __repr__(self) -> str:
        return f"DynamicFilterCollector(fields=[{', '.join(self.fields)}], {self._rows:,} rows)"
