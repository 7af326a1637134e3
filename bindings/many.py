"""Many predicates at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skipstone.bindings.predicate import PruningPredicate
from skipstone.bindings.statistics import PruningStatistics, Statistics
from skipstone.ir.errors import PredicateError
from skipstone.kernels.planes import Mask
from skipstone.kernels.run import Backend, run_many


def prune_many(predicates: Sequence[PruningPredicate], stats: Statistics | PruningStatistics, backend: Backend = "auto") -> Mask:
    """Which containers each of many predicates keeps; as `prune` of each, in less time.

    Predicates that differ in literals alone, over the same columns, share what they read.

    Args:
        predicates: q predicates.
        stats: n containers: `Statistics`, or any provider, which is asked once for the columns of all.
        backend: "auto", "numpy" or "numba".

    Returns:
        bool array, shape (q, n), host memory: q * n bytes. True: some row may match; keep.

    Raises:
        BackendMissing: the backend is not there.

    Example:
        >>> import pyarrow as pa, skipstone as ss
        >>> schema = pa.schema([("x", pa.int64())])
        >>> stats = ss.Statistics.from_dict({"x": {"min": [0, 2, 5], "max": [4, 10, 8]}}, schema)
        >>> ss.prune_many([ss.PruningPredicate(f"x = {v}", schema) for v in (1, 5)], stats)
        array([[ True, False, False],
               [False,  True,  True]])
    """
    for p in predicates:
        if not isinstance(p, PruningPredicate):
            raise PredicateError(f"prune_many was given a {type(p).__name__}; expected PruningPredicate objects")
    if not predicates:
        return np.zeros((0, stats.num_containers), np.bool_)
    if not isinstance(stats, Statistics):
        columns = dict.fromkeys(c for p in predicates for c in p.columns)
        stats = Statistics.from_provider(stats, predicates[0].schema, columns)
    if stats.levels is not None:
        return np.stack([p.prune(stats, backend) for p in predicates])
    return run_many([p.launch(stats) for p in predicates], backend).view(np.bool_)
