"""Test that every backend equals the oracle bit for bit: evaluate, prune and survivors."""

import functools
import itertools

import numpy as np
import pytest

import skipstone as ss
from skipstone.ir.node import Op
from skipstone.kernels.gpu import cuda_text
from skipstone.kernels.run import emit, numba_text, numpy_cpu, prepare
from tests.support.effort import LONG
from tests.support.statistics.backends import (
    EDGES,
    PARTS,
    SIZES,
    edge_statistics,
    numba_shapes,
    numpy_verdicts,
)


@pytest.mark.parametrize(
    "table", [numpy_cpu.EMIT, numba_text.EMIT, cuda_text.EMIT], ids=["numpy", "numba", "cuda"]
)
def test_every_backend_writes_every_operation(table):
    assert set(emit.REQUIRED) <= set(table)


def test_required_operations_are_those_of_lowering():
    """Backends support all tests that a lowered program may contain."""
    assert set(prepare.TESTS) | {Op.AND, Op.OR} == set(emit.REQUIRED)


# NumPy works in blocks of 65,536 containers, Numba in chunks of 4,096 words of 64 containers.
BLOCK_SIZES = (*SIZES, 65_535, 65_536, 65_537, 262_145)


@functools.cache
def edge_predicate():
    p = ss.PruningPredicate(
        "x >= 40 AND x < 90 AND y IN (3, 5, 8) AND z IS NOT NULL OR NOT (y = 4)", EDGES
    )
    # Below a word first; the rest is far from the edges of blocks.
    ends = [*range(0, max(SIZES), 56), *range(max(SIZES), max(BLOCK_SIZES) + 4000, 4000)]
    return p, np.concatenate(
        [p.evaluate(edge_statistics(*pair), "numpy") for pair in itertools.pairwise(ends)]
    )


@pytest.mark.parametrize("n", BLOCK_SIZES)
def test_sizes(n, backend):
    """The verdict of a container does not depend on the number of containers, at word and block
    edges.
    """
    p, all_of_them = edge_predicate()
    stats, expected = edge_statistics(0, n), all_of_them[:n]
    assert p.evaluate(stats, backend).tolist() == expected.tolist()
    assert p.prune(stats, backend).tolist() == (expected > 0).tolist()
    assert p.survivors(stats, backend).tolist() == np.flatnonzero(expected).tolist()


@pytest.mark.parametrize("part", range(5 if LONG else 1))
@pytest.mark.parametrize("few", [0, numpy_cpu.MAX_UNPACKED], ids=["packed", "unpacked"])
def test_numpy_equals_the_oracle(part, few, monkeypatch):
    # 25,000 of each, and 125,000 in a long run; `make fuzz` judges 10 million.
    monkeypatch.setattr(numpy_cpu, "MAX_UNPACKED", few)
    assert sum(numpy_verdicts(1000 * part + seed) for seed in range(9)) >= 25_000


@pytest.mark.parametrize("part", range(PARTS))
def test_numba_equals_the_oracle(part):
    assert len(numba_shapes(part, 24)) >= 24  # 96 in all parts; `make fuzz` compiles more
