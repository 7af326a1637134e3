"""Value lists and bloom filters for membership tests: a schema, verdicts, values of every type."""

import datetime as dt
import decimal
import math
import uuid

import numpy as np
import pyarrow as pa

import skipstone as ss
from skipstone.ir import types as ty
from skipstone.ir.types import from_arrow
from tests.support.statistics.blooms import bloom

D = decimal.Decimal
NAN = math.nan
NEVER, MAYBE, ALWAYS = ss.Verdict
SCHEMA = pa.schema(
    [
        ("x", pa.int64()),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("y", pa.int64()),
        ("a", pa.struct([("b", pa.int64())])),
    ]
)


def verdicts(where, values=None, filters=None, backend="numpy", column="x", **more):
    given = {"values": values, "bloom": filters, **more}
    stats = ss.Statistics.from_dict(
        {column: {k: v for k, v in given.items() if v is not None}}, SCHEMA
    )
    found = ss.PruningPredicate(where, SCHEMA).evaluate(stats, backend).tolist()
    assert ss.PruningPredicate(where, SCHEMA).prune(stats, backend).tolist() == [
        v != NEVER for v in found
    ]
    return found


def of_longs(*values, blocks=8):
    return bloom([v.to_bytes(8, "little", signed=True) for v in values], blocks)


def column_values(kind, n, r):
    if pa.types.is_boolean(kind):
        return [True] * n
    if pa.types.is_integer(kind):
        bits = kind.bit_width
        low = 0 if pa.types.is_unsigned_integer(kind) else -(2 ** (bits - 1))
        return [r.randrange(low, low + 2**bits) for _ in range(n)]
    if pa.types.is_floating(kind):
        values = [
            r.choice([-0.0, NAN, math.inf]) if r.random() < 0.01 else r.gauss(0, 1e9)
            for _ in range(n)
        ]
        return [float(np.float32(v)) for v in values] if kind.bit_width == 32 else values
    if pa.types.is_date(kind):
        return [dt.date.fromordinal(r.randrange(600_000, 3_000_000)) for _ in range(n)]
    if pa.types.is_timestamp(kind):
        return [
            dt.datetime(1950, 1, 1) + dt.timedelta(microseconds=1000 * r.randrange(10**12))
            for _ in range(n)
        ]
    if pa.types.is_decimal(kind):
        return [
            D(r.randrange(-(10**kind.precision) + 1, 10**kind.precision)).scaleb(-kind.scale)
            for _ in range(n)
        ]
    if pa.types.is_fixed_size_binary(kind):
        return [uuid.UUID(int=r.getrandbits(128)).bytes for _ in range(n)]
    text = [f"é{r.getrandbits(60)}日"[: r.randrange(1, 30)] for _ in range(n)]
    return [t.encode() for t in text] if from_arrow(kind).kind is ty.Kind.BINARY else text
