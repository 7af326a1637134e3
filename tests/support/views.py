"""Plans over statistics alone, for pictures of as many containers as a test wants."""

from types import SimpleNamespace

import numpy as np

import skipstone as ss
from skipstone.bindings.plans.plan import Plan
from skipstone.bindings.plans.table_protocol import CompleteTable, DataSize
from skipstone.ir.outcome import Verdict


class StatisticsTable(CompleteTable):
    """A table that has statistics and nothing else; each container is a file."""

    partition_columns = ()
    unit = "files"
    work = SimpleNamespace(counts={}, bytes=0)

    def __init__(self, statistics, folder="/lake/events"):
        self.statistics, self.schema, self.folder = statistics, statistics.schema, folder

    def row_groups_of(self, kept):
        return {f"{self.folder}/part-{i:07}.parquet": [] for i in kept.tolist()}

    def size(self, chosen):
        return DataSize(int(chosen.sum()), None, None, None)

    def logical_rows(self):
        return np.full(self.statistics.num_containers, 100)


def plan_over(statistics, where=None, limit=None, folder="/lake/events"):
    """Return the plan of a condition over statistics."""
    predicate = None if where is None else ss.PruningPredicate(where, statistics.schema)
    n = statistics.num_containers
    verdicts = (
        np.full(n, Verdict.ALWAYS, np.uint8)
        if predicate is None
        else predicate.evaluate(statistics)
    )
    names = list(statistics.schema.names)
    return Plan(StatisticsTable(statistics, folder), predicate, verdicts, names, statistics, limit)
