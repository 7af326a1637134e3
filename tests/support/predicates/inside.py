"""Check intervals by rows: a scalar's values lie in the interval derived from statistics."""

import random

import numpy as np
import pyarrow as pa

from skipstone.bindings.predicates.sql import parse
from skipstone.ir.bind import bind_scalar
from skipstone.ir.errors import UnsupportedForm
from skipstone.ir.interval import Interval
from skipstone.ir.node import Node, Op
from skipstone.ir.rows import values_of
from skipstone.ir.session import Session
from skipstone.ir.types import Kind, leaves_of
from skipstone.ir.values import Values
from skipstone.kernels.pack.derive import interval_of
from tests.support.predicates.expressions import Scalars
from tests.support.rows.neighbours import FIELDS, FOREIGN, table
from tests.support.rows.strategies import Table, batch_of
from tests.support.rows.zonemaps import ZoneMap, zone_map

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata")
SESSIONS = tuple(Session(zone, ansi) for zone in ZONES for ansi in (True, False))


def in_one(t: Table) -> tuple[pa.RecordBatch, np.ndarray]:
    """Return all rows as one batch, and the container of each row."""
    return batch_of(t.fields, tuple(row for rows in t.containers for row in rows)), np.repeat(
        np.arange(len(t.containers)), [len(c) for c in t.containers]
    )


def vague(n: Node) -> bool:
    """Return True if values may be unknown here although Spark raises no error and order holds."""
    if n.op is not Op.CALL or not isinstance(n.value, tuple):
        return any(map(vague, n.args))
    name, types = n.value[0], [a.dtype for a in n.args]
    clock = types and types[0] and types[0].kind is n.dtype.kind is Kind.TIMESTAMP
    if clock and types[0].zoned != n.dtype.zoned:  # offsets before 1970 and after 2200
        return True
    known = name not in ("upper", "lower") and not (
        types
        and types[0]
        and types[0].kind is Kind.FLOAT
        and (name == "round" or n.dtype.kind is Kind.DECIMAL)
    )
    return not known or any(map(vague, n.args))


def escapes(
    v: Interval, rows: Values, container: np.ndarray, *, unknown_rows: bool = False
) -> dict[str, np.ndarray]:
    """Return the rows outside their container's interval, by the kind of error.

    Args:
        v: The interval of each container.
        rows: The scalar on each row.
        container: The number of each row's container.
        unknown_rows: True if rows may be unknown without being reported as such.
    """
    n = len(container)
    at = lambda a: a[container] if len(a) > 1 else np.broadcast_to(a, n)
    may_raise, valid = np.broadcast_to(rows.may_raise, n), np.broadcast_to(rows.valid, n)
    data = np.broadcast_to(rows.data, n)
    here = valid & ~may_raise
    nan = here & (np.isnan(data) if v.dtype.kind is Kind.FLOAT else np.zeros(n, np.bool_))
    number = here & ~nan
    below, over = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    use = number & at(v.may_hold_value)
    below[use] = np.asarray(data[use] < at(v.low)[use], np.bool_)
    over[use] = np.asarray(data[use] > at(v.high)[use], np.bool_) & ~at(v.unbounded_above)[use]
    found = {
        "a row is lost": (may_raise & ~at(v.may_raise))
        if not unknown_rows
        else np.zeros(n, np.bool_),
        "a row is NULL": ~valid & ~may_raise & ~at(v.may_hold_null),
        "a row is NaN": nan & ~at(v.may_hold_nan),
        "a row has a value": number & ~at(v.may_hold_value),
        "a value lies below": below,
        "a value lies above": over,
    }
    return {what: rows for what, rows in found.items() if rows.any()}


def judge(seed: int, *, containers: int = 60, scalars: int = 60, depth: int = 2) -> int:
    """Check random scalars over one random table, and return how many values were compared."""
    r = random.Random(seed)
    t = table(r, (*FIELDS, *FOREIGN), containers=containers)
    z = zone_map(r, t)
    batch, container = in_one(t)
    stats, leaves = z.statistics(t.schema), leaves_of(t.schema)
    draw, seen = Scalars(r, t.fields), 0
    for _ in range(scalars):
        text, session = draw.scalar("X", r.randint(1, depth)).sql, r.choice(SESSIONS)
        bound = bind_scalar(parse(text)[0], leaves, session)
        if bound.op not in (Op.CALL, Op.COLUMN):
            continue
        v = interval_of(bound, stats)
        try:
            rows = values_of(bound, batch, {})
        except UnsupportedForm:  # an inner condition is not understood
            continue
        wrong = escapes(v, rows, container, unknown_rows=vague(bound))
        assert not wrong, describe_failure(seed, text, session, wrong, t, z, container, v, rows)
        seen += len(container)
    return seen


def describe_failure(
    seed, text, session, wrong, t: Table, z: ZoneMap, container, v: Interval, rows: Values
) -> str:
    """Return a failing case as text: the columns that it names, in the one container."""
    what, where = next(iter(wrong.items()))
    at = int(np.flatnonzero(where)[0])
    j = int(container[at])
    leaves = leaves_of(t.schema)
    named = {
        n.value for n in bind_scalar(parse(text)[0], leaves, session).walk() if n.op is Op.COLUMN
    }
    one = lambda a, i: a[i if len(a) > 1 else 0]
    shown = {
        k: one(getattr(v, k), j)
        for k in (
            "low",
            "high",
            "unbounded_above",
            "may_hold_value",
            "may_hold_null",
            "may_hold_nan",
            "may_raise",
        )
    }
    i = at - int(np.flatnonzero(container == j)[0])
    return (
        f"seed {seed}: {what}\n  {text}   {session}\n  interval {shown}\n  row "
        f"{one(rows.data, at)!r}, valid {one(rows.valid, at)}, lost {one(rows.may_raise, at)}"
        f"\n  from { {p: t.containers[j][i][p] for p in named} }\n  statistics "
        f"{ {p: z.stats[j][p] for p in named} }, rows {z.rows[j]}"
    )
