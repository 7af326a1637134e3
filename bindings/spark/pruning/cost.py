"""Estimate the cost of reading and of collecting keys, and how much of a scan keys may save."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir.errors import PredicateError
from skipstone.kernels.pack.planes import Mask
from skipstone.kernels.run import forks

MB: Final = 1e6
# Measured on 2 cores with Spark 4.3: a job over one small file takes 0.15 to 0.4 s when the session
# is warm, and 0.3 s more for the first one.
JOB_SECONDS: Final = 0.25
READ_SECONDS: Final = 0.015  # the time to read the keys of a small file without Spark
# (seconds a file, bytes a second) of one task.
LOCAL: Final = (0.003, 100 * MB)
REMOTE: Final = (0.05, 40 * MB)
# The share of a build side's keys that a condition is expected to leave.
REMAINING_SHARE: Final = 0.2
MAX_JOINS: Final = 1000  # the joins whose savings are remembered


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of reading in a session.

    Attributes:
        file: Seconds to open a file.
        byte: Seconds to read and decode a byte.
        job: Seconds of a Spark job that collects keys, before it reads anything.
        ratio: The seconds that a collection must be expected to save, for each second it takes. 0
            collects wherever keys may save anything.
    """

    file: float
    byte: float
    job: float = JOB_SECONDS
    ratio: float = 1.0

    def scan(self, files: float, nbytes: float) -> float:
        """Return the seconds that reading this many files and bytes takes."""
        return files * self.file + nbytes * self.byte

    def pays(self, saved: float, spent: float) -> bool:
        """Return True if saving `saved` seconds is worth spending `spent` seconds."""
        return saved > 0 and saved >= self.ratio * spent


def costs_of(remote: bool, cores: int, setting: Callable[[str], str | None]) -> Costs:
    """Return the costs of a session.

    Args:
        remote: True if files are in an object store.
        cores: Tasks that run at once.
        setting: Returns a setting of the session, or None.

    Raises:
        PredicateError: a setting is not a number, or is negative.
    """
    file, rate = REMOTE if remote else LOCAL

    def number(key: str, otherwise: float) -> float:
        return number_of(setting(key), key, otherwise)

    file = number("spark.skipstone.fileMillis", file * 1000) / 1000
    rate = number("spark.skipstone.megabytesPerSecond", rate / MB) * MB
    job = number("spark.skipstone.jobMillis", JOB_SECONDS * 1000) / 1000
    return Costs(file / cores, 1 / max(rate, 1.0) / cores, job)


def number_of(text: str | None, key: str, otherwise: float) -> float:
    """Return the number in a setting, or `otherwise` if it is not set.

    Raises:
        PredicateError: it is not a number, or is negative.
    """
    try:
        found = otherwise if text is None else float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise PredicateError(f"{key} is {text!r}; expected a number, 0 or more")
    return found


def boolean_of(text: str | None, key: str, otherwise: bool) -> bool:
    """Return the boolean that a setting holds, or `otherwise` if it is not set.

    As in Spark, it is `true` or `false`, in any case.

    Raises:
        PredicateError: the text is neither.

    Example:
        >>> boolean_of("False ", "spark.skipstone.joins", True)
        False
    """
    found = {"true": True, "false": False}.get("" if text is None else text.strip().lower())
    if found is None and text is not None:
        raise PredicateError(f"{key} is {text!r}; expected true or false")
    return otherwise if found is None else found


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """The bounds of one column in n containers, and the containers' sizes.

    Attributes:
        low, high: The smallest and the greatest value of each container; null is unknown.
        nbytes: The size of each container in bytes, int64, shape (n,).
    """

    low: pa.Array
    high: pa.Array
    nbytes: npt.NDArray[np.int64]

    def spread(self) -> float:
        """Return the average share of the bytes that may hold a given value of the column.

        It is 1 if the values are in no order, and small if the containers' ranges do not overlap.

        Example:
            >>> sizes = np.ones(4, np.int64)
            >>> ColumnBounds(pa.array([0, 10, 20, 30]), pa.array([9, 19, 29, 39]), sizes).spread()
            0.25
            >>> ColumnBounds(pa.array([0, 1, 2, 3]), pa.array([36, 37, 38, 39]), sizes).spread()
            0.625
        """
        low, high, known, nbytes = self._known()
        total = float(nbytes.sum())
        if not total or not known.any():
            return 1.0
        rank = np.asarray(pc.rank(pa.concat_arrays([low, high]), tiebreaker="dense"))
        first, last = np.split(rank.astype(np.int64), 2)
        weights = nbytes[known]
        # Count the bytes that may hold each container's smallest value: the bytes of the ranges
        # that begin at or before it, minus the bytes of the ranges that end before it.
        begun = np.cumsum(np.bincount(first, weights, minlength=int(rank.max()) + 1))
        ended = np.cumsum(np.bincount(last, weights, minlength=int(rank.max()) + 1))
        depth = begun[first] - ended[first - 1]
        return float(((depth * weights).sum() / weights.sum() + nbytes[~known].sum()) / total)

    def coverable(self, keys: int) -> float:
        """Return the share of the bytes in containers whose values may all be among `keys` keys.

        These are the containers that have a single value, or no more whole numbers or days
        than keys.

        Example:
            >>> sizes = np.ones(3, np.int64)
            >>> ColumnBounds(pa.array([0, 5, 7]), pa.array([99, 5, 8]), sizes).coverable(2)
            0.6666666666666666
        """
        low, high, known, nbytes = self._known()
        total = float(nbytes.sum())
        if not total or not keys or not known.any():
            return 0.0
        found = np.asarray(pc.equal(low, high))
        if pa.types.is_date32(low.type):
            low, high = low.view(pa.int32()), high.view(pa.int32())
        if pa.types.is_integer(low.type):
            width = np.asarray(high).astype(np.float64) - np.asarray(low).astype(np.float64)
            found |= width < keys
        return float(nbytes[known][found].sum() / total)

    def _known(self) -> tuple[pa.Array, pa.Array, Mask, npt.NDArray[np.int64]]:
        """Return the bounds that are known, which containers have them, and all sizes."""
        valid = pc.and_(pc.is_valid(self.low), pc.is_valid(self.high))
        return self.low.filter(valid), self.high.filter(valid), np.asarray(valid), self.nbytes


UNKNOWN_BOUNDS: Final = ColumnBounds(pa.nulls(0), pa.nulls(0), np.zeros(0, np.int64))


class JoinSavings:
    """Remembers what the keys of earlier joins saved, as a share of the estimate. Thread-safe.

    A join is known by its tables and columns: the next query's condition may be another one.
    """

    def __init__(self) -> None:
        self._shares: OrderedDict[Hashable, float] = OrderedDict()
        self._lock = forks.lock()

    def share(self, join: Hashable) -> float:
        """Return the expected share: 1 for a new join."""
        with self._lock:
            return self._shares.get(join, 1.0)

    def add(self, join: Hashable, expected: float, saved: float) -> None:
        """Record the expected and the actual savings of a join's keys, in seconds."""
        with self._lock:
            before = self._shares.pop(join, 1.0)
            found = min(saved / expected, 1.0) if expected > 0 else 0.0
            self._shares[join] = (before + found) / 2
            while len(self._shares) > MAX_JOINS:
                self._shares.popitem(last=False)
