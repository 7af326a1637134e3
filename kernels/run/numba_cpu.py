"""Run launches with Numba: one serial loop without the GIL, compiled per shape and run in chunks.

`parallel=True` is not used: it compiles several times longer, its OpenMP pool kills a forked child,
and its workqueue pool aborts under concurrent callers. The chunks go to `pool.py` instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from skipstone.kernels.pack.planes import Todo, Verdicts, WordNumbers, Words, word_count
from skipstone.kernels.run import compile_cache, pool
from skipstone.kernels.run.compile_cache import Shape
from skipstone.kernels.run.launch import Launch
from skipstone.kernels.run.numba_text import source_of
from skipstone.kernels.run.result_pool import allocate

# Smallest number of words of a task of the pool: 262,144 containers.
CHUNK_WORDS: Final = 1 << 12
# Most tasks for each thread. Each call costs some 10 us, but a thread may be held up.
TASKS_PER_THREAD: Final = 8
# Words of a task that judges chosen words, since these are not in cache.
CHOSEN_CHUNK_WORDS: Final = 1 << 9


def compile_shape(shape: Shape) -> Callable[..., int]:
    """Return the compiled kernel of a shape: from memory, from disk, or compiled now.

    Raises:
        BackendMissing: Numba cannot be imported, or this process cannot compile.
    """
    return compile_cache.kernel(shape, source_of)


_NO_VERDICTS: Final = np.empty(0, np.uint8)
_NO_NUMBERS: Final = np.empty(0, np.uint32)


def run(
    launch: Launch, outs: list[Words], verdicts: bool = False, todo: Todo = None
) -> Verdicts | None:
    """Judge containers: fill one array of words for each root that is not constant.

    Args:
        launch: The inputs, in host memory.
        outs: The arrays to fill; one word for each word of containers, or for each of `todo`.
        verdicts: Also return the verdicts.
        todo: The numbers of the words to judge; None means all.

    Returns:
        The verdicts, uint8 of shape (n,), or 64 for each word of `todo`; None unless `verdicts`.
    """
    kernel = launch.compiled or compile_shape(launch.key)
    n, words = max(launch.n, 64), word_count(launch.n) if todo is None else len(todo)
    spread = allocate(words * 64) if verdicts else _NO_VERDICTS
    tail = _arguments(launch, outs, spread, _NO_NUMBERS, todo)

    def work(first: int, last: int) -> None:
        kernel(n, first, last, *tail)

    pool.run_chunks(
        work, words, *(CHUNK_WORDS, TASKS_PER_THREAD) if todo is None else (CHOSEN_CHUNK_WORDS,)
    )
    return spread[: launch.n if todo is None else words * 64] if verdicts else None


def run_sparse(launch: Launch, outs: list[Words]) -> tuple[WordNumbers, list[Words]]:
    """Judge all containers and keep only the words in which some container passes the first root.

    Args:
        launch: The inputs, in host memory. The first root is not constant.
        outs: Buffers for all words of each root. Only the words that are kept are written.

    Returns:
        The numbers of these words, ascending, and for each root the words themselves.
    """
    kernel, words = launch.compiled or compile_shape(launch.key), word_count(launch.n)
    found = allocate(words * 4).view(np.uint32)
    tail = _arguments(launch, outs, _NO_VERDICTS, found, None)
    ends: dict[int, int] = {}

    def work(first: int, last: int) -> None:
        ends[first] = kernel(max(launch.n, 64), first, last, *tail)

    pool.run_chunks(work, words, CHUNK_WORDS, TASKS_PER_THREAD)
    each = sorted(ends.items())
    kept = [np.concatenate([o[first:end] for first, end in each]) for o in outs]
    return np.concatenate([found[first:end] for first, end in each]), kept


def _arguments(
    launch: Launch, outs: list[Words], spread: Verdicts, found: WordNumbers, todo: Todo
) -> tuple[Any, ...]:
    """Return the arguments of a kernel after the range of words."""
    return (
        _NO_NUMBERS if todo is None else todo,
        spread,
        found,
        *outs,
        *launch.padded_arrays,
        *launch.planes,
        *launch.params,
        *launch.sets,
    )


def run_many(launches: Sequence[Launch], rows: Sequence[int], verdicts: Verdicts) -> None:
    """Write the verdicts of launches that differ only in literals, each to its own row.

    Args:
        launches: Launches of one shape over the same arrays and planes, without sets; at least 64
            containers.
        rows: The number of the row of each launch.
        verdicts: A buffer for all rows, as `allocate_rows` returns it.
    """
    one = launches[0]
    kernel, words = compile_shape(Shape(one.shape, many=True)), word_count(one.n)
    params = [
        np.array(values) for values in zip(*(launch.params for launch in launches), strict=True)
    ]
    tail: tuple[Any, ...] = (np.array(rows, np.uint32), verdicts, *one.arrays, *one.planes, *params)

    def work(first: int, last: int) -> None:
        kernel(one.n, first, last, *tail)

    pool.run_chunks(work, words, CHUNK_WORDS // 8)


def allocate_rows(rows: int, n: int) -> Verdicts:
    """Return a buffer for rows of verdicts of n containers, padded to multiples of 64."""
    return allocate(rows * word_count(n) * 64)
