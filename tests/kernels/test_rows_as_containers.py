"""Rows judged by kernels, as containers of one row, equal the row evaluator's answers."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.bindings.tables import row_filter
from skipstone.bindings.tables.row_filter import Conjunct, conjuncts
from skipstone.ir.lower import lower
from skipstone.ir.node import columns_of
from skipstone.ir.rows import judge
from skipstone.ir.session import CannotJudge
from skipstone.kernels.pack.rows import RowSource

DAY = dt.date(2000, 1, 1)
COLUMNS = {
    "b": (pa.bool_(), [True, False]),
    "i8": (pa.int8(), [-128, -1, 0, 1, 127]),
    "i": (pa.int32(), [-(2**31), -1, 0, 5, 2**31 - 1]),
    "l": (pa.int64(), [-(2**63), -1, 0, 5, 2**63 - 1]),
    "u": (pa.uint64(), [0, 5, 2**63, 2**64 - 1]),
    "f": (pa.float32(), [float("-inf"), -0.0, 0.0, 1.5, float("inf"), float("nan")]),
    "d": (pa.float64(), [float("-inf"), -0.0, 0.0, 1.5, float("inf"), float("nan")]),
    "day": (pa.date32(), [DAY, dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    "t": (pa.timestamp("us", "UTC"), [dt.datetime(2000, 1, 1, tzinfo=dt.UTC)]),
    "n": (pa.timestamp("ns"), [dt.datetime(2000, 1, 1), dt.datetime(1970, 1, 1)]),
    "p": (pa.decimal128(18, 2), [Decimal("-9999999999999999.99"), Decimal("0.05"), Decimal(5)]),
    "q": (pa.decimal128(5, 0), [Decimal(-99999), Decimal(0), Decimal(5)]),
}
# A condition for each column, of literals that occur and that do not.
LITERALS = {
    "b": "true", "i8": "1", "i": "5", "l": "5", "u": "5", "f": "1.5F", "d": "1.5D", "p": "0.05",
    "day": "DATE '2000-01-01'", "t": "TIMESTAMP '2000-01-01 00:00:00'", "q": "5",
    "n": "TIMESTAMP_NTZ '2000-01-01 00:00:00'",
}  # fmt: skip
FORMS = (
    "{0} = {1}", "{0} <> {1}", "{0} < {1}", "{0} >= {1}", "NOT ({0} > {1})", "{0} <=> {1}",
    "{0} IN ({1}, NULL)", "NOT ({0} IN ({1}))", "{0} IS NULL", "{0} IS NOT NULL", "{0} <=> NULL",
    "{0} BETWEEN {1} AND {1}", "({0} > {1}) IS NULL", "({0} = {1}) IS TRUE",
    "{0} = {1} OR i IS NULL", "{0} > {1} AND (l < 5 OR d > 1)", "NOT ({0} < {1} AND f <= 0)",
)  # fmt: skip
NAN = ("d = CAST('NaN' AS DOUBLE)", "NOT (f > 3)", "d > 1e308", "f IN (0.0F, CAST('NaN' AS FLOAT))")


def batch(n, seed, nulls):
    random = np.random.default_rng(seed)

    def column(kind, values):
        some = [None if random.random() < nulls else values[random.integers(len(values))]]
        some += [
            None if random.random() < nulls else values[random.integers(len(values))]
            for _ in range(n + 10)
        ]
        return pa.array(some, kind)

    whole = pa.record_batch({name: column(*of) for name, of in COLUMNS.items()})
    return whole.slice(int(random.integers(0, 11)), n)  # slices begin within bytes of bits


@pytest.mark.parametrize("n", [1, 63, 64, 65, 1000])
@pytest.mark.parametrize("nulls", [0, 0.3, 1])
def test_kernels_judge_rows_as_the_evaluator_does(n, nulls, monkeypatch):
    monkeypatch.setattr(row_filter, "KERNEL_FROM", 0)
    rows = batch(n, n, nulls)
    texts = [form.format(name, LITERALS[name]) for name in COLUMNS for form in FORMS]
    for text in (*texts, *NAN):
        node = ss.PruningPredicate(text, rows.schema).node
        if not columns_of(node):
            continue
        part = Conjunct(node, tuple(columns_of(node)), lower(node))
        expected, found = judge(node, rows, {}), part._by_kernel(rows)
        assert found is not None, text
        assert (found.true == expected.true).all(), text
        assert found.may_raise is None


def test_conjuncts_are_those_of_the_condition(monkeypatch):
    monkeypatch.setattr(row_filter, "KERNEL_FROM", 0)
    rows = batch(500, 3, 0.2)
    text = "i < 5 AND l >= 0 AND abs(i) < 3 AND i > -3 AND b"
    node = ss.PruningPredicate(text, rows.schema).node
    assert [p.program is not None for p in conjuncts(node)].count(False) == 1
    assert (row_filter.matches(node, rows) == judge(node, rows, {}).true).all()


def test_decimals_beyond_their_type_are_not_read_by_kernels():
    wide = pa.array([10**25, None], pa.decimal128(38, 0)).cast(pa.decimal128(38, 0))
    data = pa.Array.from_buffers(pa.decimal128(5, 0), 2, wide.buffers())
    rows = pa.record_batch([data], ["q"])
    with pytest.raises(CannotJudge, match="more digits"):
        RowSource(rows).column(("q",), ss.PruningPredicate("q = 1", rows.schema).node.args[0].dtype)
