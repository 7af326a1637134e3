"""Faults that change no answer, number or message: target -> name of the mutant -> reason."""

from typing import Final

NO_EFFECT: Final = "a plan of the same files gives the same splits"
LIVE: Final = "a container without live rows adds none, whether its rows are counted or read"

EQUIVALENT: Final[dict[str, dict[str, str]]] = {
    "plan": {
        "Plan.count: 0 -> 1": LIVE,
    },
    "selection": {
        "Selection.kept: np.flatnonzero(self._selected).astype(np.int64, copy=False)"
        " -> np.flatnonzero(self._selected).astype(np.int64)": "a copy",
    },
    "predicate": {
        "PruningPredicate.__init__: spec.check_program(root) -> pass": (
            "no predicate lowers to a program that it refuses"
        ),
    },
    "enumerator": {
        "Split.to_batches: np.array(self.containers, np.int64) -> np.array(self.containers)": (
            "NumPy makes int64 of Python's integers by itself, except on Windows before NumPy 2"
        ),
        "SplitEnumerator._on_complete: f.data is None or self._stopped -> self._stopped": NO_EFFECT,
        "SplitEnumerator._on_complete: f.data is None or self._stopped -> f.data is None": (
            "nothing is handed out once it stopped"
        ),
        "SplitEnumerator.next_split: self._stopped or (reader is not None and self._readers is not"
        " None and (reader not in self._readers)) -> reader is not None and self._readers is not"
        " None and (reader not in self._readers)": "the queue is empty once it stopped",
        "SplitEnumerator._remaining_splits: np.array([c], np.int64) -> np.array([c])": (
            "NumPy makes int64 of Python's integers by itself, except on Windows before NumPy 2"
        ),
        "SplitEnumerator.__init__: 0.0 -> 1.0": "`Plan.splits` gives the wait",
    },
    "prune": {
        "_prune_plan: until < FOREVER -> until <= FOREVER": (
            "Spark optimises the same plan once more"
        ),
    },
}
