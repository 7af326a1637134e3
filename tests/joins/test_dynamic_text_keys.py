"""Joins of text keys with other types: only exact results are negated, and errors stay errors."""

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.filters.kinds import LEFT
from skipstone.bindings.filters.scan import DynamicFilters
from skipstone.bindings.spark.pruning.join_shards import _conditions_of_filter
from skipstone.ir.session import Session
from tests.fuzz.dynamic import oracle_join
from tests.support.effort import LONG
from tests.support.joins.dynamic import FROM_TEXT, KINDS, TEXTS, Raises, table

HOWS = tuple(LEFT)
KINDS_SHORT = ("int8", "int64", "uint64", "double", "decimal(9,2)", "date", "timestamp", "boolean")


def files(tmp_path, rows):
    """Return a table with one file for each part of the rows."""
    for i, part in enumerate(rows):
        pq.write_table(part, tmp_path / f"{i}.parquet")
    return ss.scan_parquet(str(tmp_path))


def answer(*given, **options):
    """Return the rows of a join as texts, or the text of its error."""
    try:
        found = ss.join(*given, **options).to_pydict()
        return {name: list(map(repr, values)) for name, values in found.items()}  # NaN equals NaN
    except ss.UnsupportedForm as e:
        return str(e)


@pytest.mark.parametrize("kind", FROM_TEXT if LONG else KINDS_SHORT)
@pytest.mark.parametrize("wrong", [False, True], ids=["every text fits", "a text that raises"])
@pytest.mark.parametrize("side", ["fact", "dim"])
def test_text_keys(tmp_path, kind, wrong, side):
    """The filtered join gives the rows or the error of the plain join, and both are Spark's."""
    fit = [t for t, values in TEXTS.items() if FROM_TEXT[kind] in values]
    texts = [*fit, None, *(["x"] if wrong else [])]
    plain = [TEXTS[t][FROM_TEXT[kind]] for t in fit if t not in ("NaN", "9223372036854775807")]
    others = [v for v in plain if not pa.types.is_unsigned_integer(KINDS[kind]) or v >= 0]
    others = pa.array([*others[1:], None], pa.array(others).type).cast(KINDS[kind], safe=False)
    sides = {"string": [(t,) for t in texts], kind: [(v,) for v in others.to_pylist()]}
    kinds = ["string", kind] if side == "fact" else [kind, "string"]
    fact, dim = (sides[k] for k in kinds)
    pq.write_table(table(fact, kinds[:1], ["k"]), tmp_path / "fact.parquet", row_group_size=1)
    scan = ss.scan_parquet(str(tmp_path))
    right = table(dim, kinds[1:], ["k"])
    for how, safe in itertools.product(HOWS, [False, True]):
        if how == "not in" and safe:
            continue
        options = {"on": "k", "how": how, "null_safe": safe}
        found = answer(scan, right, **options)
        assert found == answer(scan, right, **options, dynamic_filtering=False), (how, safe)
        try:
            pairs = oracle_join(fact, dim, kinds[:1], kinds[1:], how, [safe])
        except Raises:
            assert isinstance(found, str) and "Spark raises an error" in found
            continue
        assert len(found["k"]) == len(pairs), (how, safe)
        if how in ("inner", "left", "semi", "anti", "not in"):
            assert found["k"] == [repr(fact[i][0]) for i, _ in sorted(pairs, key=repr)]


def collected(keys, column, **options):
    """Return the filter of some keys, for a column of a type."""
    collector = ss.DynamicFilterCollector(["k"], pa.schema([("k", column)]), **options)
    collector.add(pa.table({"k": keys}))
    return collector.finish()


@pytest.mark.parametrize("how", ["anti", "not in"])
def test_a_plan_keeps_rows_that_it_cannot_compare(tmp_path, how):
    rows = [["1", "2"], ["x"], ["7"]]
    scan = files(tmp_path, [pa.table({"k": part}) for part in rows])
    f = ss.DynamicFilter(collected(pa.array([1, 7]), pa.string()), how=how)
    assert scan.plan(dynamic=[f]).to_arrow().column("k").to_pylist() == ["2", "x"]
    assert f.data.contains(pa.table({"k": ["1", "x"]})).all()
    assert f.data.matched(pa.table({"k": ["1", "x"]})) is None
    assert f.data.matched(pa.table({"k": ["1", "2"]})).tolist() == [True, False]


@pytest.mark.parametrize("how", HOWS)
def test_an_error_is_not_pruned(tmp_path, how):
    """A row whose key raises an error is kept, even if the other key or NULL rules it out."""
    parts = [{"a": ["x"], "b": [1]}, {"a": ["5"], "b": [2]}, {"a": ["6"], "b": [3]}]
    scan = files(tmp_path, [pa.table(part) for part in parts])
    for a, b in (([5], [2]), ([None], [2]), ([5, None], [2, None])):
        dim = pa.table({"a": pa.array(a, pa.int64()), "b": b})
        for on in ("a", ["a", "b"]):
            found = answer(scan, dim, on=on, how=how)
            assert isinstance(found, str) and "Spark raises an error" in found
            assert found == answer(scan, dim, on=on, how=how, dynamic_filtering=False)


@pytest.mark.parametrize("how", HOWS)
def test_nothing_is_cast_beside_an_empty_side(tmp_path, how):
    """Spark compares no key with an empty side, so no cast raises."""
    scan = files(tmp_path, [pa.table({"k": ["x"]}), pa.table({"k": ["1"]})])
    none = pa.table({"k": pa.array([], pa.int64())})
    found = answer(scan, none, on="k", how=how)
    assert found == answer(scan, none, on="k", how=how, dynamic_filtering=False)
    if how == "full":  # the result has the key in the common type of both sides
        assert "Spark raises an error" in found
    else:
        assert found["k"] == (["'x'", "'1'"] if how in ("left", "anti", "not in") else [])


@pytest.mark.parametrize("how", ["inner", "semi", "anti", "not in"])
def test_a_key_that_equals_several_columns(tmp_path, how):
    """In each row each column equals some key, but no key equals both columns."""
    rows = [{"a": [1, 2], "b": [2, 1]}, {"a": [1, 2], "b": [1, 2]}, {"a": [8], "b": [1]}]
    scan = files(tmp_path, [pa.table(part) for part in rows])
    f = ss.DynamicFilter(
        collected(pa.array([1, 2]), pa.int64()), columns={"k": ["a", "b"]}, how=how
    )
    plan = scan.plan(dynamic=[f], limit=4)
    assert plan.deferred == 4 and not f.decides_rows
    wanted = [1, 2] if how in ("inner", "semi") else [1, 2, 8]
    needed = {
        (a, b)
        for part in rows
        for a, b in zip(*part.values(), strict=True)
        if (a == b) == (how in ("inner", "semi"))
    }
    found = plan.to_arrow().to_pydict()
    assert needed <= set(zip(found["a"], found["b"], strict=True)) and set(wanted) <= set(
        found["a"]
    )
    assert len(plan.files) == (2 if how in ("inner", "semi") else 3)


@pytest.mark.parametrize("op", ["<", "<=", ">", ">="])
def test_not_in_by_another_operator_is_not_judged(tmp_path, op):
    scan = files(tmp_path, [pa.table({"k": [v]}) for v in (1, 5, 9)])
    f = ss.DynamicFilter(collected(pa.array([5]), pa.int64()), how="not in", op=op)
    assert scan.plan(dynamic=[f]).to_arrow().num_rows == 3


def test_not_in_of_null_safe_keys_is_not_judged(tmp_path):
    scan = files(tmp_path, [pa.table({"k": [v]}) for v in (1, None)])
    f = ss.DynamicFilter(collected(pa.array([1, None]), pa.int64(), null_safe=True), how="not in")
    assert scan.plan(dynamic=[f]).to_arrow().num_rows == 2


def test_shards_negate_only_what_is_spelled_exactly():
    """For keys without an order the condition is always TRUE, so its negation would keep no row."""
    lists = ss.DynamicFilter(collected(pa.array([[1]]), pa.list_(pa.int64())), how="anti")
    numbers = ss.DynamicFilter(collected(pa.array([1]), pa.int64()), how="anti")
    assert lists.data.exact and not lists.data.spelled and numbers.data.spelled
    assert _conditions_of_filter(lists, pa.schema([("k", pa.list_(pa.int64()))])) == []
    assert len(_conditions_of_filter(numbers, pa.schema([("k", pa.int64())]))) == 1


def test_equal_keys_that_raise_have_one_fingerprint():
    """The order and the batches do not matter, so a builder that runs again reports equal keys."""
    keys = [pa.array([None, "1", "x"]), pa.array(["x", "1", None])]
    parts = [collected(part, pa.int32()) for part in keys]
    apart = [collected(keys[0].slice(i, 1), pa.int32()) for i in range(3)]
    assert (
        len(
            {
                d.fingerprint
                for d in (*parts, apart[0].merge(*apart[1:]), apart[2].merge(*apart[:2]))
            }
        )
        == 1
    )


def test_verdicts_of_several_columns():
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    bounds = {"min": [1, 1, 7], "max": [1, 1, 7], "null_count": [0] * 3, "row_count": [1] * 3}
    stats = ss.Statistics.from_dict(
        {"a": bounds, "b": bounds | {"min": [2, 7, 7], "max": [2, 7, 7]}}, schema
    )
    data = collected(pa.array([1, 2]), pa.int64())
    for how, wanted in (("semi", [1, 0, 0]), ("anti", [1, 2, 2]), ("not in", [1, 2, 2])):
        f = ss.DynamicFilter(data, columns={"k": ["a", "b"]}, how=how)
        found = DynamicFilters((f,), schema, Session()).judged(stats, np.full(3, 2, np.uint8))
        assert found.tolist() == wanted, how
    one = collected(pa.array([1]), pa.int64())
    for how, wanted in (("semi", [0, 0, 0]), ("anti", [2, 2, 2]), ("not in", [2, 2, 2])):
        f = ss.DynamicFilter(one, columns={"k": ["a", "b"]}, how=how)
        found = DynamicFilters((f,), schema, Session()).judged(stats, np.full(3, 2, np.uint8))
        assert found.tolist() == wanted, how
