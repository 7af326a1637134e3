"""Marks stand for every container once, and the depth is that of all ranges."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipstone.bindings.views import marks as module
from skipstone.bindings.views.marks import (
    bin_starts,
    cells_of,
    cover_of,
    depth_of,
    marks_of,
    strip_of,
)

INF = math.inf
END = st.one_of(st.integers(-20, 20).map(float), st.sampled_from([-INF, INF]), st.floats(-1e9, 1e9))
RANGES = st.lists(st.tuples(END, END, st.integers(0, 2)).map(lambda r: (*sorted(r[:2]), r[2])))


def arrays(ranges):
    low, high, group = (np.array([r[k] for r in ranges], np.float64) for k in range(3))
    return low, high, group.astype(np.uint8)


def counted(low, high, group, groups, x):
    """Count the ranges that hold x, one by one."""
    return [int(((group == g) & (low <= x) & (high >= x)).sum()) for g in range(groups)]


@given(RANGES, st.integers(1, 40))
def test_each_container_has_one_mark(ranges, limit):
    low, high, group = arrays(ranges)
    at = np.arange(len(ranges)) * 3 + 1  # containers on the axis; others lie between
    everything = np.zeros(len(ranges) * 3 + 2, np.uint8)
    everything[at] = group
    marks = marks_of(at, group, [low, high], limit)
    assert sorted(marks.order.tolist()) == at.tolist()
    assert marks.counts.sum() == len(ranges)
    assert (marks.counts > 0).all()
    # Containers of one mark share their group, and whether their ends are infinite.
    whole = np.full(len(everything), 0.0)
    for values in (everything, *(np.isinf(e) * np.sign(e) for e in (low, high))):
        if len(values) != len(everything):
            whole[at] = np.nan_to_num(values)
            values = whole
        assert (marks.least(values) == marks.most(values)).all()
    assert len(marks) <= max(limit, 3 * 16) or len(ranges) <= limit


def test_many_marks_are_few():
    rng = np.random.default_rng(0)
    low = rng.normal(0, 1e6, 50_000)
    high = low + rng.exponential(1e3, 50_000)
    group = (low > 1e6).astype(np.uint8)
    marks = marks_of(np.arange(50_000), group, [low, high], 1000)
    assert 250 < len(marks) <= 1000
    assert marks.counts.sum() == 50_000
    for g in (0, 1):
        assert marks.counts[group[marks.first] == g].sum() == (group == g).sum()
    least = [low[marks.order[a:b]].min() for a, b in pairwise(marks.starts)]
    assert marks.least(low)[:-1].tolist() == least
    assert low[marks.at_least(low)].tolist() == marks.least(low).tolist()
    assert high[marks.at_most(high)].tolist() == marks.most(high).tolist()


#    ranges                               segments: start, end, how many
DEPTHS = [
    ([],                                  []),
    ([(0, 4)],                            [(0, 4, 1)]),
    ([(3, 3)],                            [(3, 3, 1)]),
    ([(0, 4), (2, 10), (5, 8)],           [(0, 2, 1), (2, 4, 2), (4, 5, 1), (5, 8, 2), (8, 10, 1)]),
    ([(0, 4), (4, 8)],                    [(0, 4, 1), (4, 4, 2), (4, 8, 1)]),
    ([(0, 1), (3, 4)],                    [(0, 1, 1), (1, 3, 0), (3, 4, 1)]),
    ([(-INF, 2), (1, INF)],               [(1, 2, 2)]),
    ([(-INF, INF), (1, 2)],               [(1, 2, 2)]),
    ([(-INF, INF)],                       []),
]  # fmt: skip


@pytest.mark.parametrize(("ranges", "segments"), DEPTHS)
def test_depth(ranges, segments):
    low, high, group = arrays([(*r, 0) for r in ranges])
    depth = depth_of(low, high, group, 1)
    assert [*zip(depth.start, depth.end, depth.counts[:, 0], strict=True)] == segments


def test_depth_of_ranks():
    low, high, group = arrays([(0, 1, 0), (1, 1, 1), (3, 3, 0)])
    depth = depth_of(low, high, group, 2, ranks=True)
    assert [*zip(depth.start, depth.end, depth.counts.tolist(), strict=True)] == [
        (-0.5, 0.5, [1, 0]), (0.5, 1.5, [1, 1]), (1.5, 2.5, [0, 0]), (2.5, 3.5, [1, 0]),
    ]  # fmt: skip


@pytest.mark.parametrize("segments", [4, 600])
@given(ranges=RANGES)
def test_no_depth_is_missed(segments, ranges):
    low, high, group = arrays(ranges)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_SEGMENTS", segments)
        depth = depth_of(low, high, group, 3)
    assert (depth.start[1:] >= depth.end[:-1]).all()
    for x in {*low.tolist(), *high.tolist()} - {INF, -INF}:
        there = (depth.start <= x) & (x <= depth.end)
        assert there.any()
        # Each segment says how many overlap at its deepest point, of all groups together.
        assert depth.counts[there].sum(1).max() >= sum(counted(low, high, group, 3, x))
    finite = {*low.tolist(), *high.tolist()} - {INF, -INF}
    if finite:
        deepest = max(sum(counted(low, high, group, 3, x)) for x in finite)
        assert depth.counts.sum(1).max() == deepest


BOX = st.tuples(
    st.integers(0, 4), st.integers(0, 4), st.integers(0, 2), st.integers(0, 2), st.integers(0, 1)
)


@given(st.lists(BOX, max_size=20))
def test_cover(boxes):
    cells = [
        np.array([f(box[k], box[k + 1]) for box in boxes], np.int64)
        for k in (0, 2)
        for f in (min, max)
    ]
    group = np.array([box[4] for box in boxes], np.uint8)
    counts = cover_of(cells, group, (2, 3, 5))
    x1, x2, y1, y2 = cells
    for g in range(2):
        for y in range(3):
            for x in range(5):
                covered = (group == g) & (x1 <= x) & (x <= x2) & (y1 <= y) & (y <= y2)
                assert counts[g, y, x] == covered.sum()


def test_cells():
    positions = np.array([-INF, 0, 2.4, 2.5, 9.9, 10, INF])
    assert cells_of(positions, 0, 10, 4).tolist() == [0, 0, 0, 1, 3, 3, 3]


@given(st.lists(st.sampled_from([0, 1, 2]), min_size=1, max_size=50), st.integers(1, 60))
def test_strip(verdicts, bins):
    never, always = strip_of(np.array(verdicts, np.uint8), bins)
    starts = bin_starts(len(verdicts), bins)
    assert len(never) == len(always) == len(starts) == min(bins, len(verdicts))
    ends = [*starts[1:].tolist(), len(verdicts)]
    for k, (start, end) in enumerate(zip(starts.tolist(), ends, strict=True)):
        assert (never[k], always[k]) == tuple(verdicts[start:end].count(v) for v in (0, 2))
