"""Test levels: judging blocks first gives every container the same verdict."""

import itertools
import random

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.ir.node import Op
from skipstone.ir.types import from_arrow
from skipstone.kernels.index import coarse, descend, order
from skipstone.kernels.index.blocks import Blocks, spans, words_inside
from skipstone.kernels.index.levels import any_of, summary
from skipstone.kernels.pack.bounds import Bounds
from skipstone.kernels.pack.columns import column_of
from skipstone.kernels.pack.planes import pack
from skipstone.kernels.run.prepare import COMPARE
from tests.support.effort import LONG
from tests.support.predicates.judges import trial
from tests.support.predicates.predicates import predicate
from tests.support.rows.zonemaps import random_zone_map
from tests.support.statistics.levels import (
    indexes,
    same,
)


@pytest.mark.parametrize("seed", range(14 if LONG else 4))
def test_indexed_verdicts_are_flat_verdicts(seed, eager):
    r = random.Random(seed)
    containers = r.choice((1, 2, 63, 64, 65, 200, 700))
    z, schema = random_zone_map(r, containers, 0.4)
    flat = z.statistics(schema)
    variants = indexes(r, flat)
    for _ in range(40):
        p = ss.PruningPredicate(predicate(r, z.fields).sql, schema)
        for indexed in variants:
            same(p, flat, indexed)


@pytest.mark.parametrize("seed", range(5 if LONG else 2))
def test_expressions_over_levels(seed, eager):
    """Calls are derived from the bounds of blocks, and from those of containers if blocks do not
    settle them.
    """
    t, r = trial(seed, 250), random.Random(seed)
    variants = indexes(r, t.stats)
    for _ in range(25):
        p = t.pruning(t.predicates.predicate().sql)
        for indexed in variants:
            same(p, t.stats, indexed)


@pytest.mark.parametrize(
    ("backend", "ordered"),
    [("numpy", None), ("numpy", "x"), ("numpy", ("y", "x")), ("numba", None)],
)
def test_levels_of_many_containers(backend, ordered, monkeypatch):
    """Clustered and random columns under AND, OR and NOT.

    They have NULLs, empty and unknown containers, and a partial last word.
    """
    monkeypatch.setattr(descend, "SAMPLE", 64)
    n, r = 300_007, np.random.default_rng(5)
    x, y = np.arange(n) * 10 + r.integers(-500, 500, n), r.integers(0, 10**9, n)
    nulls, rows = (
        np.where(r.random(n) < 0.02, 100, r.integers(0, 2, n)),
        np.where(r.random(n) < 0.01, 0, 100),
    )
    gone = r.random(n) < 0.001
    schema = pa.schema([("x", pa.int64()), ("y", pa.float64()), ("s", pa.string())])
    columns = {
        "x": {
            "min": pa.array(x, mask=gone),
            "max": pa.array(x + 25, mask=r.random(n) < 0.001),
            "null_count": np.minimum(nulls, rows),
        },
        "y": {
            "min": pa.array(y.astype(float)),
            "max": pa.array(y + 1e5),
            "nan_count": pa.array(np.zeros(n, np.int64)),
        },
        "s": {
            "min": pa.array([f"{v:07}" for v in x // 50]),
            "max": pa.array([f"{v:07}" for v in x // 50 + 1]),
        },
    }
    flat = ss.Statistics.from_dict(columns, schema, row_count=rows)
    indexed = flat.index(order_by=ordered)
    texts = (
        "x BETWEEN 100000 AND 100100",
        "x > 2999000 OR y < 10000",
        "x < 2900000",
        "NOT (x < 2900000 OR y > 1e6)",
        "y BETWEEN 5e8 AND 5.0005e8",
        "x IN (5, 77777, 1234567) AND y > 1",
        "x NOT IN (5, 6)",
        "x IS NULL AND y >= 9.9999e8",
        "s >= '0030000' AND s < '0030010'",
        "s LIKE '00300%' OR x = 17",
        "x % 1000 = 3 AND x < 2000",
        "y < 0",
        "x < 0 AND x > 5",
        "y >= 0",
    )
    for text in texts if backend == "numpy" else texts[:6]:  # each compiles a shape or two
        same(ss.PruningPredicate(text, schema), flat, indexed, backend)


def test_a_clustered_range_looks_at_few_containers():
    n = 1 << 20
    schema = pa.schema([("x", pa.int64())])
    columns = {
        "x": {"min": np.arange(n), "max": np.arange(n) + 1, "null_count": np.zeros(n, np.int64)}
    }
    indexed = ss.Statistics.from_dict(columns, schema).index()
    p = ss.PruningPredicate("x BETWEEN 500000 AND 500099", schema)
    found = descend.descend(indexed.levels, p.program, p.program, dense=False, backend="numpy")
    assert len(found.words) <= 2 * 512 // 64
    assert found.survivors().tolist() == list(range(499999, 500100))
    wide = ss.PruningPredicate("x >= 0", schema).program
    wide = descend.descend(indexed.levels, wide, wide, dense=False, backend="numpy")
    assert len(wide.survivors()) == n


def test_value_lists_override_bounds(eager):
    """Contradicting statistics: by the bounds every row matches, by a value list none does."""
    n = 200
    schema = pa.schema([("x", pa.int64())])
    columns = {
        "x": {
            "min": [5] * n,
            "max": [5] * n,
            "null_count": [0] * n,
            "values": [[5] if i % 3 else [6] for i in range(n)],
        }
    }
    flat = ss.Statistics.from_dict(columns, schema, row_count=[10] * n)
    for text in ("x = 5", "x IN (5, 7)", "x <> 5", "NOT (x IN (5, 8))"):
        same(ss.PruningPredicate(text, schema), flat, flat.index(64))


def test_useless_levels_are_remembered_per_question(monkeypatch):
    """Codes may pay for a mask and not for verdicts, whichever is computed first."""
    monkeypatch.setattr(descend, "MIN_CONTAINERS", 0)
    monkeypatch.setattr(descend, "SAMPLE", 16)
    n = 20_000
    x = np.random.default_rng(1).integers(0, 10**12, n)
    schema = pa.schema([("x", pa.int64())])
    flat = ss.Statistics.from_dict(
        {"x": {"min": x, "max": x, "null_count": np.zeros(n, np.int8)}}, schema
    )
    p, indexed = ss.PruningPredicate("x < 1000000000", schema), flat.index()
    assert indexed.nbytes > flat.nbytes
    same(p, flat, indexed)
    assert [
        indexed.levels.pays.find((program, dense))
        for program, dense in ((p._prune, False), (p._prune, True), (p.program, True))
    ] == [True] * 3
    assert all(start <= len(indexed.levels.levels) for start in indexed.levels.starts)


def test_an_index_pickles_and_prints(eager):
    import pickle

    n = 5000
    schema = pa.schema([("x", pa.int64())])
    flat = ss.Statistics.from_dict(
        {"x": {"min": np.arange(n)[::-1].copy(), "max": np.arange(n)[::-1] + 3}}, schema
    )
    indexed = flat.index(64, "x")
    assert repr(indexed) == "Statistics(5,000 containers, columns: x; levels of 79)"
    same(ss.PruningPredicate("x = 77", schema), flat, pickle.loads(pickle.dumps(indexed)))


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (1, "block is 1; expected at least 2"),
        (-5, "at least 2"),
        ([], "expected the ends of blocks"),
        ([3.5, 10], "integers"),
        ([5, 3, 10], "must ascend"),
        ([3, 9], "up to 10"),
        ([-1, 10], "ascend from 0"),
        ([[3, 10], [3]], "up to 2"),
    ],
)
def test_bad_blocks(block, message):
    stats = ss.Statistics.from_dict({"x": {"min": range(10)}}, pa.schema([("x", pa.int64())]))
    with pytest.raises(ss.StatisticsError, match=message):
        stats.index(block)
    with pytest.raises(ss.UnknownColumn):
        stats.index(order_by="y")


@pytest.mark.parametrize("given", [2, 3, 64, 100, 128, 1000, "random"])
@pytest.mark.parametrize("n", [1, 64, 100, 129, 1000])
def test_blocks(given, n):
    r = random.Random(n)
    blocks = Blocks.of(
        [*sorted(r.choices(range(n), k=n // 3)), n] if given == "random" else given, n
    )
    edges = [int(blocks.edges(b)) for b in range(blocks.count + 1)]
    assert edges[0] == 0 and edges[-1] == n and edges == sorted(set(edges))
    for _ in range(20):
        at = np.array(sorted(r.sample(range(blocks.count), r.randint(0, blocks.count))), np.int64)
        members = {i for b in at for i in range(edges[b], edges[b + 1])}
        assert blocks.words(at).tolist() == sorted({i // 64 for i in members})
        whole, shared = words_inside(blocks.edges(at), blocks.edges(at + 1), n)
        assert {i // 64 for i in members} <= {*whole.tolist(), *shared.tolist()}
        assert all(i in members for w in whole.tolist() for i in range(w * 64, min(w * 64 + 64, n)))
    parts = blocks.parts(50)
    assert parts[0] == 0 and parts[-1] == blocks.count and (np.diff(parts) > 0).all()
    assert spans(np.array([3, 5]), np.array([5, 5])).tolist() == [3, 4]


@pytest.mark.parametrize("size", [2, 7, 64, 128])
@pytest.mark.parametrize("kind", ["int64", "float32", "uint8"])
def test_summaries(size, kind):
    """A block's bounds cover its containers that hold values; its planes hold if any container's
    do.
    """
    n, r = 1000, np.random.default_rng(size)
    dtype = from_arrow(pa.from_numpy_dtype(np.dtype(kind)))
    low = r.integers(0, 100, n).astype(kind)
    real, rows, nulls = (r.random(n) < share for share in (0.3, 0.6, 0.01))
    c = column_of(
        dtype,
        Bounds(low, None),
        Bounds(low + np.array(9, kind), r.random(n) < 0.9),
        pack(real),
        pack(nulls),
        False,
    )
    blocks = Blocks.of(size, n)
    found = summary(c, pack(rows), blocks)
    bits = np.unpackbits(
        np.asarray(
            found.may_hold_value
            if not isinstance(found.may_hold_value, bool)
            else pack(np.full(blocks.count, found.may_hold_value))
        ).view(np.uint8),
        bitorder="little",
    )
    for b in range(blocks.count):
        part = slice(b * size, min((b + 1) * size, n))
        alive = real[part] & rows[part]
        assert bits[b] == alive.any()
        if alive.any():
            assert (
                found.low[b] == c.low[part][alive].min()
                and found.high[b] == c.high[part][alive].max()
            )
    assert any_of(True, blocks) is True


@pytest.mark.parametrize(
    "arrow",
    [
        pa.int64(),
        pa.int32(),
        pa.float64(),
        pa.float32(),
        pa.string(),
        pa.decimal128(38, 2),
        pa.uint64(),
    ],
)
@pytest.mark.parametrize("spread", ["even", "skewed", "one", "ends"])
def test_a_coarse_test_holds_where_the_exact_one_does(arrow, spread):
    r, g = random.Random(str(arrow) + spread), np.random.default_rng(3)
    width = {"even": 1e6, "skewed": 1e9, "one": 0, "ends": 1e9}[spread]
    raw = g.lognormal(0, 4, 3000) if spread == "skewed" else g.random(3000)
    points = (raw / max(raw.max(), 1) * width).astype(np.int64)
    values = pa.array([f"{v:012}" for v in points] if arrow == pa.string() else points)
    if not pa.types.is_string(arrow):
        values = (
            values.cast(pa.decimal128(20, 0)).cast(arrow)
            if pa.types.is_decimal(arrow)
            else values.cast(arrow, safe=False)
        )
    if spread == "ends" and pa.types.is_integer(arrow):
        info = np.iinfo(arrow.to_pandas_dtype())
        values = pa.concat_arrays([values, pa.array([info.min, info.max], arrow)])
    schema = pa.schema([("x", arrow)])
    gone = pa.array([None if r.random() < 0.01 else v for v in values.to_pylist()], arrow)
    column = ss.Statistics.from_dict({"x": {"min": gone, "max": gone}}, schema).column(
        ("x",), from_arrow(arrow)
    )
    grid = coarse.fitted(column)
    if grid is None:
        assert column.low.dtype.itemsize <= 2 or spread == "one"
        return
    codes = grid.places(column.low)
    assert (np.diff(codes[np.argsort(column.low, kind="stable")].astype(int)) >= 0).all()
    dtype = from_arrow(arrow)
    from skipstone.ir.types import to_axis

    for v in r.sample(values.to_pylist(), 60):
        axis = to_axis(v, dtype)
        for op, nudge in itertools.product(COMPARE, (-1, 0, 1)):
            at = (
                axis
                if isinstance(axis, bytes)
                else max(dtype.lowest, min(axis + nudge, dtype.highest))
            )
            for side in (column.low, column.high):
                exact = exact_test(column, side, op, at)
                places = grid.places(side)
                loose, sure = (
                    places < rank if op in (Op.LT, Op.LE) else places >= rank
                    for definite in (False, True)
                    if 0 <= (rank := grid.rank(op, at, definite=definite)) <= coarse.LAST + 1
                )
                assert not (exact & ~loose).any() and not (sure & ~exact).any(), (op, at)


def exact_test(column, side, op, at):
    """Return a comparison of bounds with an axis value, as kernels compute it."""
    from skipstone.kernels.pack.narrow import clamp

    if column.codes is not None:
        rank = column.codes.rank(op, at)
        return side < rank if op in (Op.LT, Op.LE) else side >= rank
    value = clamp(op, at, column.dtype, column.numpy_type) if column.narrowed else at
    return COMPARE[op](side, np.dtype(column.numpy_type).type(value))


@pytest.mark.parametrize(("axes", "bits"), [(1, 5), (2, 4), (3, 3), (4, 2)])
def test_the_curve_visits_every_cell_by_single_steps(axes, bits):
    cells = np.array(list(itertools.product(range(1 << bits), repeat=axes)), np.uint64)
    at = order.hilbert([c.copy() for c in cells.T], bits)
    assert sorted(at.tolist()) == list(range(len(cells)))
    path = cells[np.argsort(at)].astype(int)
    assert (np.abs(np.diff(path, axis=0)).sum(axis=1) == 1).all()
