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
from skipstone.kernels.run.result_pool import room

CHUNK: Final = 1 << 12  # words that one task of the pool takes, at least: 262,144 containers
TASKS: Final = 8  # for each thread at most: each call costs some 10 us, but a thread may be held up
CHOSEN: Final = 1 << 9  # of words that are chosen, and so are not in cache


def compile_shape(shape: Shape) -> Callable[..., int]:
    """The compiled kernel of a shape: from memory, from disk, or compiled now."""
    return compile_cache.kernel(shape, source_of)


_NONE: Final = np.empty(0, np.uint8)
_ALL: Final = np.empty(0, np.uint32)


def run(
    launch: Launch, outs: list[Words], verdicts: bool = False, todo: Todo = None
) -> Verdicts | None:
    """Fill one array of words per root that is not constant and, if asked, give the verdicts as well."""
    kernel = compile_shape(Shape(launch.shape))
    n, words = max(launch.n, 64), word_count(launch.n) if todo is None else len(todo)
    spread = room(words * 64) if verdicts else _NONE
    tail = _tail(launch, outs, spread, _ALL, todo)

    def work(first: int, last: int) -> None:
        kernel(n, first, last, *tail)

    pool.run_chunks(work, words, *(CHUNK, TASKS) if todo is None else (CHOSEN,))
    return spread[: launch.n if todo is None else words * 64] if verdicts else None


def sift(launch: Launch, outs: list[Words]) -> tuple[WordNumbers, list[Words]]:
    """The numbers of the words in which a bit of the first root is set, which is not constant, and these words of each root.

    Args:
        outs: Room for all words of each; only what is found is written.
    """
    kernel, words = compile_shape(Shape(launch.shape)), word_count(launch.n)
    found = room(words * 4).view(np.uint32)
    tail = _tail(launch, outs, _NONE, found, None)
    ends: dict[int, int] = {}

    def work(first: int, last: int) -> None:
        ends[first] = kernel(max(launch.n, 64), first, last, *tail)

    pool.run_chunks(work, words, CHUNK, TASKS)
    each = sorted(ends.items())
    kept = [np.concatenate([o[first:end] for first, end in each]) for o in outs]
    return np.concatenate([found[first:end] for first, end in each]), kept


def _tail(
    launch: Launch, outs: list[Words], spread: Verdicts, found: WordNumbers, todo: Todo
) -> tuple[Any, ...]:
    """What kernels are given beside the words that they judge."""
    return (
        _ALL if todo is None else todo,
        spread,
        found,
        *outs,
        *launch.words,
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

    pool.run_chunks(work, words, CHUNK // 8)


def rows_of(rows: int, n: int) -> Verdicts:
    """Room for the verdicts of n containers in each row; rows are padded to 64."""
    return room(rows * word_count(n) * 64)
