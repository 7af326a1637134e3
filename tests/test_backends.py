"""Every backend equals the oracle bit for bit: evaluate, prune and survivors."""

import functools
import random
import zlib

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.ir import oracle
from skipstone.ir.node import Op
from skipstone.kernels import cuda_text, emit, launch, numba_text, numpy_cpu
from skipstone.kernels.cache import Shape
from tests.effort import LONG
from tests.predicates import predicate
from tests.strategies import fields, schema_of, table
from tests.zonemaps import hostile, zone_map

# Bits are packed in words of 64, NumPy works in blocks of 16,384, Numba in blocks of 64 words.
SIZES = (0, 1, 2, 7, 8, 9, 63, 64, 65, 127, 128, 129, 4095, 4096, 4097, 16383, 16384, 16385, 20000)


@pytest.mark.parametrize(
    "table", [numpy_cpu.EMIT, numba_text.EMIT, cuda_text.EMIT], ids=["numpy", "numba", "cuda"]
)
def test_every_backend_writes_every_operation(table):
    assert set(emit.REQUIRED) <= set(table)


def test_what_is_required_is_what_lowering_makes():
    """A test of a program that no table could write would be found here."""
    assert set(launch.TESTS) | {Op.AND, Op.OR} == set(emit.REQUIRED)


EDGES = pa.schema([("x", pa.int64()), ("y", pa.int16()), ("z", pa.string())])


def edge_statistics(start, stop):
    """Containers start to stop of an endless row of them, in which nothing repeats at a power of two."""
    i = np.arange(start, stop)
    x, y, nulls = i * 37 % 101, (i * 13 % 11).astype(np.int16), i % 3
    columns = {
        "x": {"min": x, "max": x + 7, "null_count": nulls % 2},
        "y": {"min": y, "max": y + i % 2 * 4, "row_count": nulls},
        "z": {"null_count": nulls},
    }
    return ss.Statistics.from_dict(columns, EDGES, row_count=np.where(i % 5 == 0, 2, nulls))


@functools.cache
def edge_predicate():
    p = ss.PruningPredicate(
        "x >= 40 AND x < 90 AND y IN (3, 5, 8) AND z IS NOT NULL OR NOT (y = 4)", EDGES
    )
    return p, np.concatenate(
        [p.evaluate(edge_statistics(at, at + 56), "numpy") for at in range(0, max(SIZES), 56)]
    )


@pytest.mark.parametrize("n", SIZES)
def test_sizes(n, backend):
    """At the edges of words and blocks: a container's answer does not depend on how many there are."""
    p, all_of_them = edge_predicate()
    stats, expected = edge_statistics(0, n), all_of_them[:n]
    assert p.evaluate(stats, backend).tolist() == expected.tolist()
    assert p.prune(stats, backend).tolist() == (expected > 0).tolist()
    assert p.survivors(stats, backend).tolist() == np.flatnonzero(expected).tolist()


def random_zone_map(r, containers):
    """A zone map that is sound for some rows, or one that is sound for none; and its schema."""
    if r.random() < 0.5:
        t = table(r, containers=containers, most_rows=4)
        return zone_map(r, t, told=r.random() < 0.4), t.schema
    chosen = fields(r)
    return hostile(r, chosen, containers), schema_of(chosen)


def agree(p, z, stats, facts, backend, calls=("evaluate", "prune")):
    """Compare one predicate's answers with the oracle's; return how many verdicts."""
    expected = [oracle.verdict(p.node, f, rows) for f, rows in zip(facts, z.rows, strict=True)]
    if "evaluate" in calls:
        got = p.evaluate(stats, backend=backend)
        assert got.dtype == np.uint8 and got.shape == (len(facts),)
        wrong = next((j for j, e in enumerate(expected) if got[j] != e), None)
        assert wrong is None, (
            backend,
            p.expr,
            wrong,
            len(expected),
            got[wrong],
            expected[wrong],
            z.stats[wrong],
            z.rows[wrong],
        )
    if "prune" in calls:
        kept = p.prune(stats, backend=backend)
        assert kept.dtype == np.bool_ and kept.tolist() == [e > 0 for e in expected], p.expr
        assert p.survivors(stats, backend=backend).tolist() == [
            j for j, e in enumerate(expected) if e
        ], p.expr
    return len(expected)


def numpy_verdicts(seed, containers=48, predicates=60):
    """Verdicts of random predicates over one random zone map, all checked."""
    r = random.Random(seed)
    z, schema = random_zone_map(r, containers)
    stats, facts = z.statistics(schema), [z.facts(j) for j in range(containers)]
    return sum(
        agree(ss.PruningPredicate(predicate(r, z.fields).sql, schema), z, stats, facts, "numpy")
        for _ in range(predicates)
    )


@pytest.mark.parametrize("part", range(5 if LONG else 2))
def test_numpy_equals_the_oracle(part):
    assert (
        sum(numpy_verdicts(1000 * part + seed) for seed in range(9)) >= 25_000
    )  # 50,000 in all parts, 125,000 in a long run; `make fuzz` judges 10 million


PARTS = 4


def owner(shape):
    """Which part counts a shape, so that no two parts count the same."""
    return zlib.crc32(numba_text.source_of(Shape(shape)).encode()) % PARTS


def numba_shapes(seed, wanted):
    """Random predicates through Numba until `wanted` shapes of the seed's part were compiled and checked."""
    r, part, shapes = random.Random(seed), seed % PARTS, set()
    while len(shapes) < wanted:
        z, schema = random_zone_map(r, r.choice((3, 64, 65, 70)))
        stats, facts = z.statistics(schema), [z.facts(j) for j in range(len(z.rows))]
        for _ in range(8):
            p = ss.PruningPredicate(predicate(r, z.fields, depth=r.choice((0, 1))).sql, schema)
            for call, program in (("evaluate", p._both), ("prune", p._prune)):
                shape = stats.launch(program).shape
                if (
                    any(root.args for root in shape)
                    and owner(shape) == part
                    and shape not in shapes
                ):
                    agree(p, z, stats, facts, "numba", (call,))
                    shapes.add(shape)
    return shapes


@pytest.mark.parametrize("part", range(PARTS))
def test_numba_equals_the_oracle(part):
    assert len(numba_shapes(part, 24)) >= 24  # 96 in all parts; `make fuzz` compiles more
