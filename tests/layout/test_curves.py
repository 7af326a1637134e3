"""Z curve and Hilbert curve: every cell once, neighbours close, known cases."""

import itertools

import numpy as np
import pytest

from skipstone.bindings.layout.curves import order_by, rank_places, z_order
from skipstone.kernels.index.order import hilbert

CURVES = {"zorder": z_order, "hilbert": lambda places, bits: hilbert(list(places), bits)}


def grid(dimensions, bits):
    cells = np.array(list(itertools.product(range(1 << bits), repeat=dimensions)), np.uint64)
    return list(cells.T.copy())


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize(("dimensions", "bits"), [(2, 1), (2, 4), (3, 3), (4, 2)])
def test_every_cell_has_its_own_distance(curve, dimensions, bits):
    found = CURVES[curve](grid(dimensions, bits), bits)
    assert sorted(found.tolist()) == list(range(1 << bits * dimensions))


@pytest.mark.parametrize(("dimensions", "bits"), [(2, 1), (2, 5), (3, 3)])
def test_hilbert_moves_one_step_at_a_time(dimensions, bits):
    cells = grid(dimensions, bits)
    order = np.argsort(hilbert(cells, bits))
    steps = sum(np.abs(np.diff(axis[order].astype(np.int64))) for axis in cells)
    assert (steps == 1).all()


def test_known_cells():
    x, y = np.array([0, 0, 1, 1], np.uint64), np.array([0, 1, 1, 0], np.uint64)
    # The curve of order 1 is a U; the Z curve is the letter.
    assert hilbert([x, y], 1).tolist() == [0, 1, 2, 3]
    assert z_order([x, y], 1).tolist() == [0, 1, 3, 2]
    # Morton's interleaving: x = 0b101, y = 0b011 give 0b10_01_11.
    assert z_order([np.array([5], np.uint64), np.array([3], np.uint64)], 3).tolist() == [0b100111]


def test_a_run_of_the_curve_stays_in_a_block():
    for curve in CURVES.values():
        cells = grid(2, 4)
        order = np.argsort(curve(cells, 4))
        for run in order.reshape(16, 16):  # aligned runs are blocks of 4 by 4
            for axis in cells:
                assert np.ptp(axis[run].astype(int)) == 3


def test_places_ascend_and_ignore_the_distribution():
    r = np.random.default_rng(1)
    keys = np.exp(r.normal(0, 9, 5000)).astype(np.int64)
    places = rank_places(keys, 6)
    by_key = np.argsort(keys, kind="stable")
    assert (np.diff(places[by_key].astype(int)) >= 0).all()
    assert all(len(set(places[keys == k])) == 1 for k in np.unique(keys)[:50])
    spread = rank_places(r.permutation(64 * 100).astype(np.int64), 6)
    assert set(np.bincount(spread.astype(int))) == {100}
    assert rank_places(np.zeros(0, np.int64)).shape == (0,)


def test_order_by():
    a, b = np.array([2, 1, 2, 1]), np.array([0, 9, -5, 3])
    assert order_by([a, b], "sort").tolist() == [3, 1, 2, 0]
    assert order_by([a], "hilbert").tolist() == [1, 3, 0, 2]
    assert sorted(order_by([a, b], "zorder").tolist()) == [0, 1, 2, 3]
