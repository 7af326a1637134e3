"""prune_many returns the masks that `prune` of each predicate returns."""

import random

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.kernels.run import run
from tests.support.predicates.predicates import predicate
from tests.support.rows.strategies import table
from tests.support.rows.zonemaps import zone_map

SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.float64()), ("s", pa.string())])


def statistics(n, seed=0):
    r = np.random.default_rng(seed)
    x, y = r.integers(0, 1000, n), r.random(n)
    columns = {
        "x": {"min": x, "max": x + r.integers(0, 50, n), "null_count": r.integers(0, 2, n)},
        "y": {"min": y, "max": y + 0.1, "nan_count": r.integers(0, 2, n)},
        "s": {"min": pa.array([f"{v:04}" for v in x]), "max": pa.array([f"{v + 3:04}" for v in x])},
    }
    return ss.Statistics.from_dict(columns, SCHEMA, row_count=r.integers(0, 3, n))


FORMS = (
    "x >= {0} AND x < {1}",
    "x = {0} AND y > 0.{1}",
    "s >= '{0:04}' OR x = {1}",
    "x IN ({0}, {1})",
    "x IS NULL",
    "NOT (x > {0} OR y < 0.{1})",
    "x % 7 = {0} AND x > {1}",
    "x > {0} AND y = NULL",
)


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 1000, 40_001])
def test_one_by_one_and_together(n, backend):
    r, stats = random.Random(n), statistics(n)
    predicates = [
        ss.PruningPredicate(r.choice(FORMS).format(r.randint(0, 900), r.randint(0, 999)), SCHEMA)
        for _ in range(60)
    ]
    predicates += predicates[:3]
    got = ss.prune_many(predicates, stats, backend)
    assert got.shape == (len(predicates), n) and got.dtype == np.bool_
    for p, kept in zip(predicates, got, strict=True):
        assert kept.tolist() == p.prune(stats, backend).tolist(), p.expr


def test_predicates_of_one_shape_share_a_kernel(monkeypatch):
    stats, groups = statistics(5000), []
    together = run.numba_cpu.run_many
    monkeypatch.setattr(
        run.numba_cpu,
        "run_many",
        lambda launches, *rest: groups.append(len(launches)) or together(launches, *rest),
    )
    predicates = [ss.PruningPredicate(f"x >= {v} AND x < {v + 9}", SCHEMA) for v in range(20)] + [
        ss.PruningPredicate(f"s = '{v}'", SCHEMA) for v in range(3)
    ]
    predicates += [
        ss.PruningPredicate("x IN (1, 5)", SCHEMA),
        ss.PruningPredicate("y > 0.5", SCHEMA),
    ]
    got = ss.prune_many(predicates, stats, "numba")
    assert groups == [20, 3]
    assert (got == [p.prune(stats, "numpy") for p in predicates]).all()


@pytest.mark.parametrize("seed", range(4))
def test_random_predicates(seed):
    r = random.Random(seed)
    t = table(r, containers=100, most_rows=3)
    stats = zone_map(r, t, contained=True).statistics(t.schema)
    predicates = [ss.PruningPredicate(predicate(r, t.fields).sql, t.schema) for _ in range(60)]
    expected = [p.prune(stats).tolist() for p in predicates]
    assert ss.prune_many(predicates, stats).tolist() == expected
    assert ss.prune_many(predicates, stats.index(64)).tolist() == expected


def test_inputs():
    stats = statistics(10)
    assert ss.prune_many([], stats).shape == (0, 10)
    with pytest.raises(ss.PredicateError, match="given a str; expected PruningPredicate"):
        ss.prune_many(["x = 5"], stats)

    class Provider:
        num_containers = 3

        def __init__(self):
            self.calls = []

        def min_values(self, column):
            self.calls.append(column)
            return pa.array([1, 2, 3])

        max_values = row_counts = null_counts = lambda self, column: None
        contained = lambda self, column, values: None

    provider = Provider()
    kept = ss.prune_many(
        [ss.PruningPredicate("x < 2", SCHEMA), ss.PruningPredicate("x < 3", SCHEMA)], provider
    )
    assert kept.tolist() == [[True, False, False], [True, True, False]] and provider.calls == ["x"]
