"""Statistics of random rows, as different writers make them, and hostile ones that fit no rows."""

import math
import zlib
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

import skipstone as ss
from skipstone.ir.evaluation.oracle import ColumnFacts, column_facts
from skipstone.ir.interval import Interval
from skipstone.ir.like import after_prefix
from skipstone.ir.node import Node
from skipstone.ir.types import Kind, to_python
from skipstone.kernels.pack.derive import interval_of
from tests.support.rows.strategies import (
    WILD,
    Field,
    Table,
    array_of,
    fields,
    point,
    schema_of,
    table,
)

COUNTS = ("null_count", "row_count", "nan_count")


@dataclass(frozen=True)
class Stat:
    """One column in one container: axis values; None is unknown."""

    low: object = None
    high: object = None
    null_count: int | None = None
    row_count: int | None = None
    nan_count: int | None = None


@dataclass(frozen=True)
class ZoneMap:
    """Statistics of a table as written, and a provider's answers about contained values."""

    fields: tuple[Field, ...]
    stats: tuple[dict, ...]  # per container: path to Stat
    rows: tuple[int | None, ...]
    intervals: dict = field(default_factory=dict)
    contained: object = None  # (path, frozenset of Python values, container) -> True, False or None

    def facts(self, container: int) -> "Facts":
        """Return the oracle's input."""
        return Facts(self, container)

    def interval(self, call: Node) -> Interval:
        """Return the interval of a call in all containers, before it is packed for kernels."""
        if call not in self.intervals:
            if not self.intervals:
                self.intervals[None] = self.statistics(schema_of(self.fields))
            self.intervals[call] = interval_of(call, self.intervals[None])
        return self.intervals[call]

    def _facts(self, f: Field, j: int) -> ColumnFacts:
        s = self.stats[j][f.path]
        found = column_facts(
            f.dtype, low=s.low, high=s.high, null_count=s.null_count, row_count=s.row_count,
            nan_count=s.nan_count,
            container_rows=self.rows[j], nullable=f.nullable, parent_may_be_null=len(f.path) > 1,
        )  # fmt: skip
        if self.contained is None:
            return found
        contained = lambda values: self.contained(
            f.path, frozenset(to_python(v, f.dtype) for v in values), j
        )
        return ColumnFacts(
            found.low,
            found.high,
            found.may_hold_value,
            found.may_hold_null,
            found.may_hold_nan,
            contained=contained,
        )

    def statistics(self, schema: pa.Schema, dress=lambda array: array) -> ss.Statistics:
        """Return these facts as `Statistics`; `dress` may change the layout of an array."""
        columns = {}
        for f in self.fields:
            mine = [s[f.path] for s in self.stats]
            columns[f.name] = {
                k: dress(array_of([getattr(s, a) for s in mine], f.arrow))
                for k, a in (("min", "low"), ("max", "high"))
            }
            columns[f.name] |= {
                k: dress(pa.array([getattr(s, k) for s in mine], pa.int64())) for k in COUNTS
            }
        made = ss.Statistics.from_dict(columns, schema, row_count=pa.array(self.rows, pa.int64()))
        if self.contained is not None:
            paths = {f.name: f.path for f in self.fields}
            n = len(self.stats)
            made._contained = lambda name, values: pa.array(
                [self.contained(paths[name], values, j) for j in range(n)], pa.bool_()
            )
        return made


class Facts(dict):
    """One container's facts by column; those of calls are computed on demand."""

    def __init__(self, z: ZoneMap, container: int):
        super().__init__({f.path: z._facts(f, container) for f in z.fields})
        self.z, self.container = z, container

    def __missing__(self, call: Node) -> ColumnFacts:
        v = self.z.interval(call)
        at = lambda a: a[self.container if len(a) > 1 else 0]
        plain = lambda x: x.item() if isinstance(x, np.generic) else x
        real, low, high = bool(at(v.may_hold_value)), plain(at(v.low)), plain(at(v.high))
        if not real:
            low, high = v.dtype.lowest, v.dtype.highest
        found = ColumnFacts(
            low,
            None if at(v.unbounded_above) else high,
            real,
            bool(at(v.may_hold_null)),
            bool(at(v.may_hold_nan)),
            may_raise=bool(at(v.may_raise)),
        )
        self[call] = found
        return found


def zone_map(r, table: Table, *, contained: bool = False) -> ZoneMap:
    """Return sound statistics of a table's rows."""
    stats = tuple({f.path: stat_of(r, f, rows) for f in table.fields} for rows in table.containers)
    rows = tuple(len(c) if r.random() < 0.5 else None for c in table.containers)
    return ZoneMap(
        table.fields, stats, rows, contained=_contained(table, r.random()) if contained else None
    )


def stat_of(r, field: Field, rows: tuple[dict, ...]) -> Stat:
    values = [row[field.path] for row in rows]
    there = [v for v in values if v is not None]
    numbers = [v for v in there if v == v]
    low, high = (min(numbers), max(numbers)) if numbers else (None, None)
    if numbers:
        low, high = _manner(r, field, low, high)
    elif r.random() < 0.2:
        low = high = point(r, field.dtype, 0, field.arrow)  # a dummy: an empty range, too
    if field.dtype.kind is Kind.FLOAT and len(numbers) < len(there) and r.random() < 0.3:
        high = math.nan  # as Spark writes it
    nulls = len(values) - len(there)
    if len(field.path) > 1 and r.random() < 0.5:
        nulls -= sum(
            row[field.path[:1]] is None for row in rows
        )  # Iceberg need not count the struct's own NULLs
    known = lambda n, share: n if r.random() < share else None
    return Stat(
        low, high, known(nulls, 0.8), known(len(values), 0.8), known(len(there) - len(numbers), 0.5)
    )


def _manner(r, field: Field, low, high):
    """Return exact, widened, truncated or missing bounds."""
    dtype, manner = field.dtype, r.random()
    if manner < 0.25:
        if dtype.kind is Kind.STRING:
            return _cut(low, r.randint(0, 3)), _cut_up(high, r.randint(0, 3))
        if dtype.kind is Kind.BINARY and not pa.types.is_fixed_size_binary(field.arrow):
            return low[:1], high + b"\x00"
        if dtype.kind is Kind.FLOAT:
            return low - 1, high + 1
        if dtype.discrete or dtype.kind is Kind.DECIMAL:
            return max(dtype.lowest, low - r.randint(0, 2)), min(
                dtype.highest, high + r.randint(0, 2)
            )
    return (low if manner < 0.85 else None), (high if manner < 0.8 or manner >= 0.95 else None)


def _cut(text: bytes, size: int) -> bytes:
    return text.decode()[:size].encode()


def _cut_up(text: bytes, size: int) -> bytes | None:
    short = _cut(text, size)
    return short if short == text else after_prefix(short) if short else None


def hostile(r, fields: tuple[Field, ...], containers: int) -> ZoneMap:
    """Return arbitrary statistics, on which only backends and the oracle can be compared."""
    wild = r.choice(WILD)
    bound = lambda f: (
        None
        if r.random() < 0.2
        else math.nan
        if f.dtype.kind is Kind.FLOAT and r.random() < 0.1
        else point(r, f.dtype, r.randint(-6, 6), f.arrow, wild)
    )
    count = lambda: r.choice((None, None, 0, 0, 1, 2, 3, -1, 5, 2**62))
    stats = tuple(
        {f.path: Stat(bound(f), bound(f), count(), count(), count()) for f in fields}
        for _ in range(containers)
    )
    return ZoneMap(fields, stats, tuple(count() for _ in range(containers)))


def _contained(table: Table, salt: float):
    """Return the answers of a dictionary or a bloom filter, for some columns and containers."""

    def contained(path, values: frozenset, container: int) -> bool | None:
        if (
            zlib.crc32(repr((salt, path, container)).encode()) % 3 == 0
            or not table.containers[container]
        ):
            return None
        dtype = next(f.dtype for f in table.fields if f.path == path)
        there = {
            to_python(v, dtype)
            for row in table.containers[container]
            if (v := row[path]) is not None
        }
        return True if there <= values else False if there.isdisjoint(values) else None

    return contained


def random_zone_map(r, containers: int, contained: float = 0) -> tuple[ZoneMap, pa.Schema]:
    """Return statistics of random rows, or hostile ones, and their schema.

    With probability `contained`, statistics of rows also answer which values are contained.
    """
    if r.random() < 0.6:
        t = table(r, containers=containers, most_rows=3)
        return zone_map(r, t, contained=contained > 0 and r.random() < contained), t.schema
    chosen = fields(r)
    return hostile(r, chosen, containers), schema_of(chosen)
