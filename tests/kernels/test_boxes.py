"""Test points in boxes, compiled and in NumPy, against comparing each point with each box."""

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.ir.node import show_path
from skipstone.kernels.index.boxes import any_inside, tree_of
from skipstone.kernels.pack.rank import ranks_of


@pytest.mark.parametrize("compiling", [True, False])
@pytest.mark.parametrize("d", [1, 2, 3, 4])
@pytest.mark.parametrize("m", [1, 7, 8, 9, 1000])
def test_points_in_boxes(m, d, compiling):
    r = np.random.default_rng(m * 10 + d)
    points = r.integers(0, 30, (m, d))
    low = r.integers(-5, 35, (500, d))
    high = low + r.integers(-1, 12, (500, d))
    expected = (
        ((points[None] >= low[:, None]) & (points[None] <= high[:, None])).all(axis=2).any(axis=1)
    )
    assert (any_inside(tree_of(points), low, high, compiling=compiling) == expected).all()
    assert any_inside(tree_of(points), low[:0], high[:0], compiling=compiling).tolist() == []


def test_many_pairs_go_down_in_parts(monkeypatch):
    from skipstone.kernels.index import boxes

    monkeypatch.setattr(boxes, "MAX_PAIRS", 64)
    r = np.random.default_rng(1)
    points, low = r.integers(0, 1000, (2000, 2)), r.integers(0, 1000, (300, 2))
    high = low + r.integers(0, 60, (300, 2))
    expected = (
        ((points[None] >= low[:, None]) & (points[None] <= high[:, None])).all(axis=2).any(axis=1)
    )
    assert (any_inside(tree_of(points), low, high, compiling=False) == expected).all()


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), [0, 3, 7]),
        (pa.int32(), [-(2**31), 5]),
        (pa.float64(), [0.5, 3.0]),
        (pa.string(), ["", "b", "bc"]),
        (pa.decimal128(30, 2), [1, 2]),
    ],
    ids=str,
)
def test_places(kind, values):
    schema = pa.schema([("x", kind)])
    bounds = pa.array([*values, values[0], None], kind)
    stats = ss.Statistics.from_dict({"x": {"min": bounds, "max": bounds}}, schema)
    leaf = stats.leaf(("x",))
    scale = 100 if pa.types.is_decimal(kind) else 1
    axis = [v.encode() if isinstance(v, str) else v * scale for v in values]
    low, high = ranks_of(stats.column(leaf.path, leaf.dtype), axis, np.arange(len(bounds)))
    n = len(values)
    assert show_path(leaf.path) == "x"
    assert low.tolist() == [*range(n), 0, 0] and high.tolist() == [*range(1, n + 1), 1, n]
