"""Statistics and verdicts on which all backends are compared."""

import random
import zlib

import numpy as np
import pyarrow as pa

import skipstone as ss
from skipstone.ir.evaluation import oracle
from skipstone.kernels.run import numba_text
from skipstone.kernels.run.compile_cache import Shape
from tests.support.predicates.predicates import predicate
from tests.support.rows.strategies import fields, schema_of, table
from tests.support.rows.zonemaps import hostile, zone_map

# Around the edges of words (64 bits), of chunks of 64 words, and of 16,384 containers.
SIZES = (
    0,
    1,
    2,
    7,
    8,
    9,
    63,
    64,
    65,
    127,
    128,
    129,
    2047,
    2048,
    2049,
    4095,
    4096,
    4097,
    16383,
    16384,
    16385,
    20000,
)


EDGES = pa.schema([("x", pa.int64()), ("y", pa.int16()), ("z", pa.string())])


def edge_statistics(start, stop):
    """Return containers start to stop of an endless row; no pattern repeats at a power of two."""
    i = np.arange(start, stop)
    x, y, nulls = i * 37 % 101, (i * 13 % 11).astype(np.int16), i % 3
    columns = {
        "x": {"min": x, "max": x + 7, "null_count": nulls % 2},
        "y": {"min": y, "max": y + i % 2 * 4, "row_count": nulls},
        "z": {"null_count": nulls},
    }
    return ss.Statistics.from_dict(columns, EDGES, row_count=np.where(i % 5 == 0, 2, nulls))


def random_zone_map(r, containers):
    """Return a zone map and its schema; the map is sound for some rows, or for none."""
    if r.random() < 0.5:
        t = table(r, containers=containers, most_rows=4)
        return zone_map(r, t, contained=r.random() < 0.4), t.schema
    chosen = fields(r)
    return hostile(r, chosen, containers), schema_of(chosen)


def agree(p, z, stats, facts, backend, calls=("evaluate", "prune")):
    """Compare one predicate's answers with the oracle's, and return the number of verdicts."""
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
    """Check random predicates over one random zone map, and return the number of verdicts."""
    r = random.Random(seed)
    z, schema = random_zone_map(r, containers)
    stats, facts = z.statistics(schema), [z.facts(j) for j in range(containers)]
    return sum(
        agree(ss.PruningPredicate(predicate(r, z.fields).sql, schema), z, stats, facts, "numpy")
        for _ in range(predicates)
    )


PARTS = 4


def owner(shape):
    """Return the part that counts a shape, so that no two parts count the same shape."""
    return zlib.crc32(numba_text.source_of(Shape(shape)).encode()) % PARTS


def numba_shapes(seed, wanted):
    """Run random predicates through Numba until `wanted` shapes of the seed's part are checked."""
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
