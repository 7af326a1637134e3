"""Test kernels that write whole cache lines, or only the words that they find."""

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone import PruningPredicate
from skipstone.ir.lower import Program
from skipstone.kernels.pack.planes import word_count
from skipstone.kernels.run.run import run, run_sparse


@pytest.mark.parametrize("n", [524_289, 700_001, 1_048_576])
@pytest.mark.parametrize(
    "where", ["x IS NULL", "x IS NULL AND y IS NOT NULL", "x IS NULL OR y IS NULL"]
)
def test_planes_alone_are_written_past_the_caches(n, where):
    """Whole lines are written, and start and end at the right word for any number of threads."""
    r = np.random.default_rng(n)
    schema = pa.schema([("x", pa.int64()), ("y", pa.int64())])
    columns = {name: {"null_count": r.integers(0, 3, n)} for name in "xy"}
    stats = ss.Statistics.from_dict(columns, schema, row_count=np.full(n, 2))
    p = ss.PruningPredicate(where, schema)
    expected = p.evaluate(stats, "numpy")
    try:
        for threads in (1, 2, 3, 7):
            ss.set_threads(threads)
            assert np.array_equal(p.evaluate(stats, "numba"), expected)
            assert np.array_equal(p.survivors(stats, "numba"), np.flatnonzero(expected))
    finally:
        ss.set_threads(None)


@pytest.mark.parametrize("n", [1, 63, 64, 1000, 300_007, 600_000])
@pytest.mark.parametrize(
    "where",
    [
        "x < 100",
        "x < 100 AND y IS NOT NULL",
        "x < -5",
        "x >= 0",
        "y IS NULL",
        "x < 100 OR x > 99999 AND y IS NULL",
    ],
)
@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_the_nonzero_words_are_returned(n, where, backend):
    x = np.random.default_rng(n).integers(0, 100_000, n)
    schema = pa.schema([("x", pa.int64()), ("y", pa.int64())])
    columns = {
        "x": {"min": x, "max": x + 5, "null_count": np.zeros(n, int)},
        "y": {"null_count": x % 2},
    }
    stats = ss.Statistics.from_dict(columns, schema, row_count=np.full(n, 1))
    for program in (
        PruningPredicate(where, schema).program,
        Program(PruningPredicate(where, schema).program.can_match),
    ):
        launch = stats.launch(program)
        match, *others = run(launch, backend).planes
        found = run_sparse(launch, backend)
        at = (
            np.arange(word_count(n) if match else 0)
            if isinstance(match, bool)
            else np.flatnonzero(match)
        )
        assert found.words.dtype == np.uint32
        assert np.array_equal(found.words, at)
        for plane, whole in zip(found.planes, (match, *others), strict=True):
            assert plane is whole if isinstance(whole, bool) else np.array_equal(plane, whole[at])
