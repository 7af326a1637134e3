"""Run the programs of one predicate: by levels if there is an index, else by the flat kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from skipstone.bindings.statistics.statistics import Statistics
from skipstone.ir.lower import Program
from skipstone.kernels.pack.planes import Verdicts
from skipstone.kernels.run.launch import Launch
from skipstone.kernels.run.run import (
    Backend,
    Out,
    Result,
    is_host_output,
    on_device,
    run,
    survivors,
)

if TYPE_CHECKING:
    from skipstone.kernels.gpu.device import DeviceArray
    from skipstone.kernels.gpu.resident import Resident
    from skipstone.kernels.index.descend import SparseVerdicts


class Evaluator:
    """Runs the programs of one predicate over statistics, and counts which backends answered.

    Args:
        match_program: The program with one root, "can match".
        verdict_program: The program with two roots, "can match" and "can miss".

    Attributes:
        answered: How often each backend answered, by name; "levels" counts answers by an index.
    """

    def __init__(self, match_program: Program, verdict_program: Program) -> None:
        self._match_program, self._verdict_program = match_program, verdict_program
        self.answered: dict[str, int] = {}

    def verdicts(
        self, stats: Statistics, backend: Backend, out: Out, *, fully_matched: bool
    ) -> Verdicts:
        """Return the verdict of each container, uint8, shape (n,).

        Args:
            stats: n containers.
            backend, out: As in `PruningPredicate.prune`.
            fully_matched: True: tell ALWAYS from MAYBE. False: both are 1.
        """
        program = self._verdict_program if fully_matched else self._match_program
        if not is_host_output(out):
            from skipstone.kernels.gpu import gpu

            on_gpu: Verdicts = self._on_device(stats.launch(program), backend, gpu.verdicts)
            return on_gpu
        found = self._descend(stats, backend, program, dense=True)
        if found is not None:
            return found.verdicts()
        verdicts = self._run(program, stats, backend, verdicts=True).verdicts
        assert verdicts is not None
        return verdicts

    def survivors(self, stats: Statistics, backend: Backend, out: Out) -> npt.NDArray[np.int64]:
        """Return the positions of the containers to keep, ascending."""
        if not is_host_output(out):
            from skipstone.kernels.gpu import gpu

            on_gpu: npt.NDArray[np.int64] = self._on_device(
                stats.launch(self._match_program), backend, gpu.survivors
            )
            return on_gpu
        found = self._descend(stats, backend, self._match_program, dense=False)
        if found is not None:
            return found.survivors()
        positions, name = survivors(stats.launch(self._match_program), backend)
        self._count(name)
        return positions

    def find(self, stats: Statistics, backend: Backend) -> SparseVerdicts:
        """Return the verdicts as packed words, without those that hold no container to keep."""
        found = self._descend(stats, backend, self._verdict_program, dense=False)
        if found is not None:
            return found.in_place()
        from skipstone.kernels.index.descend import sparse_verdicts_of

        return sparse_verdicts_of(
            self._run(self._verdict_program, stats, backend, verdicts=False).planes, len(stats)
        )

    def _descend(
        self, stats: Statistics, backend: Backend, program: Program, *, dense: bool
    ) -> SparseVerdicts | None:
        """Judge by the index; None if there is no index, or the flat kernel is faster."""
        if stats.levels is None:
            return None
        from skipstone.kernels.index.descend import descend

        found = descend(stats.levels, self._verdict_program, program, dense=dense, backend=backend)
        if found is not None:
            self._count("levels")
        return found

    def _on_device(
        self, launch: Launch, backend: Backend, work: Callable[[Launch, Resident], DeviceArray]
    ) -> DeviceArray:
        answer = on_device(launch, backend, lambda on: work(launch, on))
        self._count("cupy")
        return answer

    def _run(
        self, program: Program, stats: Statistics, backend: Backend, *, verdicts: bool
    ) -> Result:
        result = run(stats.launch(program), backend, verdicts=verdicts)
        self._count(result.backend)
        return result

    def _count(self, backend: str) -> None:
        self.answered[backend] = self.answered.get(backend, 0) + 1
