"""Many predicates at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.statistics.statistics import PruningStatistics, Statistics
from skipstone.ir.errors import PredicateError
from skipstone.kernels.pack.planes import Mask, word_count
from skipstone.kernels.run.run import Backend, Out, on_device, run_many, stays_here


def prune_many(
    predicates: Sequence[PruningPredicate],
    stats: Statistics | PruningStatistics,
    backend: Backend = "auto",
    *,
    out: Out = "host",
) -> Mask:
    """Which containers each of many predicates keeps; as `prune` of each, in less time.

    Predicates that differ in literals alone, over the same columns, share what they read.

    Args:
        predicates: q predicates.
        stats: n containers: `Statistics`, or any provider, which is asked once for the columns of all.
        backend, out: As in `PruningPredicate.prune`.

    Returns:
        bool array, shape (q, n), host memory or as `out` says: q * n bytes. True: some row may match; keep.

    Raises:
        BackendMissing, DeviceError: as in `PruningPredicate.prune`.

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
            raise PredicateError(
                f"prune_many was given a {type(p).__name__}; expected PruningPredicate objects"
            )
    if not predicates:
        return np.zeros((0, stats.num_containers), np.bool_)
    if not isinstance(stats, Statistics):
        columns = dict.fromkeys(c for p in predicates for c in p.columns)
        stats = Statistics.from_provider(stats, predicates[0].schema, columns)
    if stats.levels is not None and stays_here(out):
        return np.stack([p.prune(stats, backend) for p in predicates])
    launches = [p.launch(stats) for p in predicates]
    if stays_here(out):
        return run_many(launches, backend).view(np.bool_)
    from skipstone.kernels.gpu import gpu

    rows: Any = on_device(launches[0], backend, lambda on: gpu.many(launches, on))
    kept: Mask = rows.view(np.bool_).reshape(len(launches), word_count(stats.num_containers) * 64)[
        :, : stats.num_containers
    ]
    return kept
