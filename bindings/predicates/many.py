"""Judge many predicates over the same statistics together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.progress import Track
from skipstone.bindings.statistics.statistics import PruningStatistics, Statistics
from skipstone.ir.errors import PredicateError
from skipstone.kernels.pack.planes import Mask, word_count
from skipstone.kernels.run.run import Backend, Out, is_host_output, on_device, run_many


def prune_many(
    predicates: Sequence[PruningPredicate],
    stats: Statistics | PruningStatistics,
    backend: Backend = "auto",
    *,
    out: Out = "host",
) -> Mask:
    """Decide for each of many predicates which containers to keep.

    The result equals `prune` of each predicate and takes less time: predicates over the same
    columns that differ only in literals read the statistics once.

    Args:
        predicates: q predicates.
        stats: n containers: `Statistics`, or any provider, which is called once for the columns of
            all predicates.
        backend, out: As in `PruningPredicate.prune`.

    Returns:
        bool array, shape (q, n), q * n bytes, memory as `out` says. True: keep, some row may match.

    Raises:
        PredicateError: `predicates` holds another object.
        BackendMissing, DeviceError, StatisticsError: as in `PruningPredicate.prune`.

    Example:
        >>> import pyarrow as pa, skipstone as ss
        >>> schema = pa.schema([("x", pa.int64())])
        >>> stats = ss.Statistics.from_dict({"x": {"min": [0, 2, 5], "max": [4, 10, 8]}}, schema)
        >>> ss.prune_many([ss.PruningPredicate(f"x = {v}", schema) for v in (1, 5)], stats)
        array([[ True, False, False],
               [False,  True,  True]])
    """
    if isinstance(predicates, PruningPredicate):
        raise PredicateError(
            "prune_many was given a PruningPredicate; expected a list of them: write [predicate]"
        )
    if not isinstance(predicates, Sequence):
        raise PredicateError(
            f"prune_many was given {predicates!r:.60}; expected a list of PruningPredicate objects"
        )
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
    with Track("planning", len(predicates), "predicates") as track:
        if stats.levels is not None and is_host_output(out):
            return np.stack(list(track.each(p.prune(stats, backend) for p in predicates)))
        launches = list(track.each(p.launch(stats) for p in predicates))
    if is_host_output(out):
        return run_many(launches, backend).view(np.bool_)
    from skipstone.kernels.gpu import gpu

    rows: Any = on_device(launches[0], backend, lambda on: gpu.many(launches, on))
    kept: Mask = rows.view(np.bool_).reshape(len(launches), word_count(stats.num_containers) * 64)[
        :, : stats.num_containers
    ]
    return kept
