"""Functions of list and map columns over all rows give what they give row by row."""

import random
from decimal import Decimal
from functools import cache

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.bindings.tables.row_filter import conjuncts
from skipstone.ir.evaluation import list_calls
from skipstone.ir.rows import evaluate_rows
from skipstone.ir.values import from_lists
from tests.support.effort import LONG

ITEMS = {
    "b": (pa.int64(), (0, 1, -5, 2**62)),
    "i": (pa.int32(), (0, 1, -5, 7)),
    "t": (pa.string(), ("", "x", "ü", "long text")),
    "y": (pa.binary(), (b"", b"x", b"\xff")),
    "f": (pa.float64(), (0.0, -0.0, 1.5, float("nan"))),
    "m": (pa.decimal128(9, 2), (Decimal("0.10"), Decimal("-3.00"))),
    "w": (pa.decimal128(30, 2), (Decimal("0.10"), Decimal(10**25))),
    "o": (pa.bool_(), (True, False)),
    "s": (pa.list_(pa.int64()), ([1], [])),
}
LITERALS = {"b": "1", "i": "7", "t": "'x'", "y": "X'FF'", "f": "1.5", "m": "0.10BD", "w": "0.10BD",
            "o": "true", "s": "array(1L)"}  # fmt: skip
LISTS = (
    "size({c}) = 2", "size({c}) >= 0", "size({c}) IS NULL", "array_contains({c}, {v})",
    "NOT array_contains({c}, {v})", "array_contains({c}, {v}) IS NULL", "{c}[0] = {v}",
    "{c}[2] IS NULL", "element_at({c}, 1) = {v}", "element_at({c}, -1) = {v}",
    "try_element_at({c}, 2) = {v}", "try_element_at({c}, -3) IS NULL", "get({c}, 1) = {v}",
    "exists({c}, v -> v = {v})", "NOT exists({c}, v -> v = {v})", "forall({c}, v -> v <> {v})",
    "exists({c}, v -> v IS NULL)", "forall({c}, v -> v > {v}) IS NULL", "get({c}, -1) IS NULL",
    "exists({c}, v -> v < {v} OR v IS NULL) OR size({c}) = 0",
    "forall({c}, v -> 10 / size({c}) > 3)", "exists({c}, v -> 1 / length(string(v)) = 1)",
    "element_at({c}, 0) = {v}", "try_element_at({c}, 0) = {v}",
)  # fmt: skip
MAPS = (
    "size({c}) = 2", "{c}['x'] = {v}", "{c}['x'] IS NULL", "element_at({c}, 'ü') = {v}",
    "try_element_at({c}, 'no') IS NULL", "map_contains_key({c}, 'x')",
    "NOT map_contains_key({c}, '')", "{c}['x'] <> {v} OR size({c}) < 2",
)  # fmt: skip


def rows(seed, n=400):
    r = random.Random(seed)

    def some(values, nulls=0.15):
        return None if r.random() < nulls else r.choice(values)

    columns = {}
    for name, (kind, values) in ITEMS.items():
        given = [
            None if r.random() < 0.1 else [some(values) for _ in range(r.randrange(4))]
            for _ in range(n)
        ]
        columns[name] = pa.array(given, pa.list_(kind))
        columns[f"{name}_large"] = pa.array(given, pa.large_list(kind))
        keys = ("", "x", "ü", "y")
        maps = [
            None if r.random() < 0.1
            else [(k, some(values)) for k in r.sample(keys, r.randrange(4))]
            for _ in range(n)
        ]  # fmt: skip
        columns[f"{name}_map"] = pa.array(maps, pa.map_(pa.string(), kind))
    return pa.record_batch(columns)


def conditions():
    for name, literal in LITERALS.items():
        for form in LISTS:
            yield form.format(c=name, v=literal)
            yield form.format(c=f"{name}_large", v=literal)
        for form in MAPS:
            yield form.format(c=f"{name}_map", v=literal)


@cache
def parts(where, schema, ansi):
    return conjuncts(ss.PruningPredicate(where, schema, ansi=ansi).node)


def answers(batch, ansi):
    """Return the outcome of each condition that is judged: TRUE, FALSE and open rows."""
    all_of = {where: judged(batch, where, ansi) for where in conditions()}
    return {where: found for where, found in all_of.items() if found is not None}


def judged(batch, where, ansi):
    """Return the outcome of a condition; None if rows cannot be filtered by it."""
    try:
        return [
            (found.true.tolist(), None if found.may_raise is None else found.may_raise.tolist())
            for found in (part.judge(batch) for part in parts(where, batch.schema, ansi))
        ]
    except ss.UnsupportedForm:
        return None


@pytest.mark.parametrize("ansi", [True, False])
@pytest.mark.parametrize("cut", [slice(None), slice(7, 391), slice(50, 51), slice(3, 3)])
@pytest.mark.parametrize("seed", range(10 if LONG else 1))
def test_all_rows_at_once(seed, cut, ansi, monkeypatch):
    batch = rows(seed).slice(cut.start or 0, len(range(400)[cut]))
    found = answers(batch, ansi)
    with monkeypatch.context() as patch:
        patch.setattr(list_calls, "COMPUTE", {})
        patch.setattr(list_calls, "LISTS", {})
        expected = answers(batch, ansi)
    assert len(found) >= len(expected) > 200
    assert {where: found[where] for where in expected} == expected


def test_items_below_null_lists_do_not_count(monkeypatch):
    """Arrow allows items below a NULL; they belong to no list."""
    mask = pa.array([True, False, True, False])
    items = pa.array([1, 5, 1, None, 5, 5, 1, 1])
    lists_ = pa.ListArray.from_arrays(pa.array([0, 2, 4, 6, 8], pa.int32()), items, mask=mask)
    batch = pa.record_batch({"b": lists_})
    conditions = [form.format(c="b", v="5L") for form in LISTS]
    found = {where: judged(batch, where, True) for where in conditions}
    monkeypatch.setattr(list_calls, "COMPUTE", {})
    expected = {where: judged(batch, where, True) for where in conditions}
    assert sum(one is not None for one in expected.values()) > 20
    assert [w for w, one in expected.items() if one is not None and one != found[w]] == []


def test_lists_without_items():
    """Functions that take columns whole got no item, and failed."""
    batch = pa.record_batch({"t": pa.array([[], None], pa.list_(pa.string()))})
    for body in ("v || 'x' = 'x'", "greatest(v, 'x') = 'x'"):
        assert judged(batch, f"exists(t, v -> {body})", True) == [([False, False], None)]
        assert judged(batch, f"forall(t, v -> {body})", True) == [([True, False], None)]


def test_text_that_is_not_utf_8_is_open(monkeypatch):
    raw = pa.array([[b"\xff", b"x"], [b"x"], None, []], pa.list_(pa.binary()))
    texts = pa.ListArray.from_arrays(raw.offsets, raw.values.view(pa.string()), mask=raw.is_null())
    batch = pa.record_batch({"t": texts})
    for where in ("array_contains(t, 'x')", "size(t) = 1", "get(t, 1) = 'x'"):
        (part,) = conjuncts(ss.PruningPredicate(where, batch.schema).node)
        assert part.judge(batch).may_raise.tolist() == [True, False, False, False]


def test_items_of_a_slice_alone_are_converted():
    """Items of the whole array were converted for each slice of it."""
    offsets = np.arange(0, 3001, 3, np.int32)
    whole = pa.ListArray.from_arrays(pa.array(offsets), pa.array(range(3000)))
    found = from_lists(whole.slice(500, 2))
    assert found.points.tolist() == [(1500, 1501, 1502), (1503, 1504, 1505)]


def test_rows_of_no_items():
    batch = pa.record_batch({"b": pa.array([None, [], None], pa.list_(pa.int64()))})
    for where, expected in (("size(b) = 0", [None, True, None]), ("get(b, 0) = 1", [None] * 3)):
        node = ss.PruningPredicate(where, batch.schema).node
        assert evaluate_rows(node, batch).to_pylist() == expected
