"""Measure an engine in a new process: its time with all imports, and the bytes that it reads.

`python -m bench.rows.fresh` asks; what to ask is pickled on its standard input.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.rows.engines import CONTESTANTS, Contestant
from bench.rows.lake import Lake
from bench.rows.questions import Question

if TYPE_CHECKING:
    from bench.report.measure import Timing

IO: Final = Path("/proc/self/io")  # only Linux has it


def interleave(
    best: Mapping[str, Contestant], lake: Lake, question: Question, rounds: int
) -> dict[str, Timing]:
    """Time a Python process from start to end, in turn for each engine."""
    from bench.report.measure import Timing  # it imports NumPy, which not every engine does

    seconds: dict[str, list[float]] = {engine: [] for engine in best}
    for _ in range(rounds):
        for engine, contestant in best.items():
            start = time.perf_counter()
            _child(contestant, lake, question)
            seconds[engine].append(time.perf_counter() - start)
    return {engine: Timing(tuple(s)) for engine, s in seconds.items()}


def read_bytes(
    contestant: Contestant, lake: Lake, question: Question, tiny: Lake, all_: tuple[Question, ...]
) -> int | None:
    """Return how many bytes an engine reads of a lake that its process has not seen before.

    The engine first answers all questions on a tiny lake of the same kind, so that its late imports
    are not counted. None: the system has no such count, or the engine maps files, because it read
    less than their footers.
    """
    if not IO.exists():
        return None
    found = int(_child(contestant, lake, question, (tiny, all_)))
    return None if lake.kind == "Parquet" and found < _footers(lake) else found


def _footers(lake: Lake) -> int:
    """Return the bytes of the footers of a lake's files."""
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(path).serialized_size for path in lake.files)


def _child(
    contestant: Contestant,
    lake: Lake,
    question: Question,
    before: tuple[Lake, tuple[Question, ...]] | None = None,
) -> bytes:
    done = subprocess.run(
        [sys.executable, "-m", "bench.rows.fresh"],
        input=pickle.dumps((contestant.name, lake, question, before)),
        stdout=subprocess.PIPE,
        check=True,
    )
    return done.stdout


def _bytes_read() -> int:
    """Return how many bytes this process has read; those of mapped files do not count."""
    return int(IO.read_text().split()[1])


def _main() -> None:
    name, lake, question, before = pickle.load(sys.stdin.buffer)
    ask = next(c.ask for c in CONTESTANTS if c.name == name)
    if before is None:
        ask(lake, question)
        return
    tiny, questions = before
    for other in questions:
        ask(tiny, other)
    start = _bytes_read()
    ask(lake, question)
    print(_bytes_read() - start)


if __name__ == "__main__":
    _main()
