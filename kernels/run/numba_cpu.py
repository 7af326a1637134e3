"""The Numba backend: one serial loop without the GIL, compiled per shape and run in chunks.

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

CHUNK_WORDS: Final = 1 << 12  # words that one task of the pool takes, at least: 262,144 containers
TASKS_PER_THREAD: Final = (
    8  # for each thread at most: each call costs some 10 us, but a thread may be held up
)
CHOSEN_CHUNK_WORDS: Final = 1 << 9  # of words that are chosen, and so are not in cache


def compile_shape(shape: Shape) -> Callable[..., int]:
    """The compiled kernel of a shape: from memory, from disk, or compiled now."""
    return compile_cache.kernel(shape, source_of)


_NO_VERDICTS: Final = np.empty(0, np.uint8)
_NO_NUMBERS: Final = np.empty(0, np.uint32)


def run(
    launch: Launch, outs: list[Words], verdicts: bool = False, todo: Todo = None
) -> Verdicts | None:
    """Fill one array of words per root that is not constant and, if asked, give the verdicts as well."""
    kernel = compile_shape(Shape(launch.shape))
    n, words = max(launch.n, 64), word_count(launch.n) if todo is None else len(todo)
    spread = allocate(words * 64) if verdicts else _NO_VERDICTS
    tail = _arguments(launch, outs, spread, _NO_NUMBERS, todo)

    def work(first: int, last: int) -> None:
        kernel(n, first, last, *tail)

    pool.run_chunks(
        work, words, *(CHUNK_WORDS, TASKS_PER_THREAD) if todo is None else (CHOSEN_CHUNK_WORDS,)
    )
    return spread[: launch.n if todo is None else words * 64] if verdicts else None


def sift(launch: Launch, outs: list[Words]) -> tuple[WordNumbers, list[Words]]:
    """The numbers of the words in which a bit of the first root is set, which is not constant, and these words of each root.

    Args:
        outs: Room for all words of each; only what is found is written.
    """
    kernel, words = compile_shape(Shape(launch.shape)), word_count(launch.n)
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
    """What kernels are given beside the words that they judge."""
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
    """Write the verdicts of launches that differ in literals alone, each to its row.

    Args:
        launches: Of one shape, over the same arrays and planes, without sets; at least 64 containers.
        rows: The row of each.
        verdicts: Room for all rows, as `rows_of` makes it.
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
    """Room for the verdicts of n containers in each row; rows are padded to 64."""
    return allocate(rows * word_count(n) * 64)
