"""Rows in parts: many rows are judged as each row is alone."""

import functools
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skipstone as ss
from skipstone.bindings.predicates.sql import parse
from skipstone.ir.bind import bind_scalar
from skipstone.ir.errors import UnsupportedForm
from skipstone.ir.evaluation import parts
from skipstone.ir.node import Op
from skipstone.ir.rows import judge, values_of
from skipstone.ir.types import leaves_of
from skipstone.ir.values import NO, YES, both, either
from tests.support.predicates.expressions import Scalars
from tests.support.predicates.inside import SESSIONS, in_one
from tests.support.rows.neighbours import FIELDS, FOREIGN, table

TEXTS = ["", "a", " Ab ", "été", "日本", "x" * 9, None, "A%b", " 12", "k0-1", "ß"]
# Conditions whose parts Arrow computes for many rows and Python for one.
CONDITIONS = [
    "upper(s) = 'AB'", "lower(s) < 'b'", "length(s) > 2", "octet_length(s) = 3", "trim(s) = 'Ab'",
    "ltrim(s) LIKE 'A%'", "rtrim(s) LIKE '%b'", "reverse(s) >= 'b'", "substring(s, 2) = 'b '",
    "substring(s, -2) = 'b '", "substring(s, -5, 4) = ' Ab'", "substr(s, 0, 2) = ' A'",
    "substr(s, 2, 1) IN ('A', 'b', 't', '本')", "concat(s, 'x') = 'ax'", "s || '-' || s LIKE 'a%'",
    "replace(s, 'x') = ''", "replace(s, 'Ab', 'c') = ' c '", "instr(s, 'b') = 3",
    "locate('t', s) = 2", "contains(s, 'b')", "startswith(s, 'é')", "endswith(s, ' ')",
    "trim(s) LIKE '_b'", "s RLIKE '^[a-z]'", "coalesce(upper(s), 'none') = 'none'",
    "CASE WHEN n > 2 THEN trim(s) ELSE 'A%b' END = 'A%b'", "CAST(n AS STRING) LIKE '1%'",
    "CAST(s AS INT) = 12", "greatest(s, 'b') = 'b'", "round(f, 1) = 0.3", "round(f) = 1",
    "CAST(f AS DECIMAL(9,2)) = 0.13", "m / n > 0.5", "m * m * m > 8", "m % 3 = 1.25", "n % 3 = 1",
    "CAST(m AS DECIMAL(30,20)) + 1.5 > 3", "m / m = 1", "m div 2 = 1", "n = 3 OR year(d) = 2024",
    "month(d) = 2 AND n > 1", "d IS NULL OR day(d) > 3", "abs(n - 3) IS NULL",
]  # fmt: skip


def rows(count: int, seed: int) -> pa.RecordBatch:
    r = random.Random(seed)
    some = lambda values: [r.choice(values) for _ in range(count)]
    return pa.record_batch(
        {
            "s": pa.array(some(TEXTS)).cast(r.choice((pa.string(), pa.large_string()))),
            "n": pa.array(some([None, 0, 1, 2, 3, 12, -5]), pa.int32()),
            "f": pa.array(some([None, 0.25, 0.125, 0.3, -0.5, 1e18, float("nan"), 0.135])),
            "m": pa.array(some([None, "0.00", "1.25", "-2.50", "999999.99"])).cast(
                pa.decimal128(8, 2)
            ),
            "d": pa.array(some([None, 19750, 19760, 19800]), pa.int32()).cast(pa.date32()),
        }
    )


def alone(node, batch):
    """Return the outcome of each row, judged in a batch of its own."""
    parts = [judge(node, batch.slice(i, 1), {}) for i in range(batch.num_rows)]
    return [[bool(m[0]) for m in (p.true, p.false, p.may_raise)] for p in parts]


@pytest.mark.parametrize("ansi", [True, False])
@pytest.mark.parametrize("text", CONDITIONS)
def test_conditions(text, ansi, monkeypatch):
    batch = rows(60, len(text)).slice(7)
    node = ss.PruningPredicate(text, batch.schema, ansi=ansi).node
    expected = alone(node, batch)
    for chunk, few in ((1 << 20, 4), (9, 1 << 20), (9, 1)):
        monkeypatch.setattr(parts, "CHUNK", chunk)
        monkeypatch.setattr(parts, "MAX_UNDIVIDED_ROWS", chunk)
        monkeypatch.setattr(parts, "MIN_THREADED_ROWS", 2 * chunk)
        monkeypatch.setattr(parts, "MIN_ROWS_PER_VALUE", few)
        truth = judge(node, batch, {})
        assert np.transpose([truth.true, truth.false, truth.may_raise]).tolist() == expected


@pytest.mark.parametrize("seed", range(6))
def test_scalars(seed):
    r = random.Random(seed)
    t = table(r, (*FIELDS, *FOREIGN), containers=12)
    batch, _ = in_one(t)
    draw, leaves, compared = Scalars(r, t.fields), leaves_of(t.schema), 0
    for _ in range(60):
        text, session = draw.scalar("X", r.randint(1, 2)).sql, r.choice(SESSIONS)
        bound = bind_scalar(parse(text)[0], leaves, session)
        if bound.op is not Op.CALL:
            continue
        try:
            many = values_of(bound, batch, {})
        except UnsupportedForm:
            continue
        for i in r.sample(range(batch.num_rows), 10):
            one = values_of(bound, batch.slice(i, 1), {})
            assert _at(many, i) == _at(one, 0), text
            compared += 1
    assert compared > 100


def _at(values, i):
    """Return a row: its value as text, since NaN differs from itself, or what it has instead."""
    data, valid, may_raise = (
        a[i if len(a) > 1 else 0] for a in (values.data, values.valid, values.may_raise)
    )
    return "may raise" if may_raise else repr(data) if valid else "NULL"


@given(st.integers(0, 3), st.lists(st.tuples(st.booleans(), st.integers(0, 7)), max_size=4))
def test_masks_are_combined_as_by_numpy(n, each):
    """Masks have shape (n,), or (1,) for all entries."""
    masks = [YES] + [
        YES & bool(bits & 1) if alike else np.array([bool(bits >> i & 1) for i in range(n)], bool)
        for alike, bits in each
    ]
    for combine, reduce in ((both, np.logical_and), (either, np.logical_or)):
        own = masks if combine is both else [NO, *masks[1:]]
        expected = functools.reduce(reduce, own)
        found = combine(*own)
        assert found.tolist() == expected.tolist()
        assert found.dtype == bool
