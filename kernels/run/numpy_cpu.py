"""Run launches with NumPy, which compiles nothing, in tiles that stay in cache."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skipstone.ir.node import Node, Op
from skipstone.kernels.pack import planes
from skipstone.kernels.pack.planes import Todo, Verdicts, Words
from skipstone.kernels.run import pool
from skipstone.kernels.run.emit import emit, input_number, join
from skipstone.kernels.run.launch import Launch

EMIT: Final = {
    Op.LT: "({0} < {1})",
    Op.LE: "({0} <= {1})",
    Op.GT: "({0} > {1})",
    Op.GE: "({0} >= {1})",
    Op.AND: "({0} & {1})",
    Op.OR: "({0} | {1})",
    Op.ANY_IN: "any_in({0}, {1}, {2}, {3}, {4}, {5}, {6})",
    Op.NOT_ALL_IN: "not_all_in({0}, {1}, {2}, {3}, {4}, {5}, {6})",
}
# Containers of a tile. Their masks stay in the L2 cache, and NumPy's cost per call is spread over
# them: 10 M containers took 17 ms in tiles of 1 << 14, and 14 ms in these, on one thread.
TILE: Final = 1 << 16
# Minimum runs of a set for which containers are tested in the order of their lower bounds.
SORTED_FROM: Final = 1 << 14
CHUNK: Final = 1 << 18  # containers of a task of the pool
# Up to this many containers, packing and unpacking masks takes as long as judging the containers.
MAX_UNPACKED: Final = 1 << 12


def any_in(
    low: Any, high: Any, firsts: Any, _first_lines: Any, lasts: Any, _last_lines: Any, _frame: Any
) -> Any:
    """Return a mask of containers whose bounds may hold a member of the set.

    They hold one if more runs start at `high` or below than end below `low` (kernels/pack/keys.py).
    """
    return in_order(
        lambda a, b: np.searchsorted(lasts, a, "left") < np.searchsorted(firsts, b, "right"),
        low,
        high,
        len(lasts),
    )


def not_all_in(
    low: Any, high: Any, firsts: Any, _first_lines: Any, lasts: Any, _last_lines: Any, _frame: Any
) -> Any:
    """Return a mask of containers whose bounds may hold a value outside the set.

    They do unless one run reaches from `low` to `high`.
    """

    def test(a: Any, b: Any) -> Any:
        ended = np.searchsorted(lasts, a, "left")
        k = np.minimum(ended, len(lasts) - 1)
        return (ended != k) | (a < firsts[k]) | (lasts[k] < b)

    return in_order(test, low, high, len(lasts))


def in_order(test: Callable[[Any, Any], Any], low: Any, high: Any, runs: int) -> Any:
    """Test a tile's containers in the order of their lower bounds, if there are many runs.

    Otherwise each search would miss the cache lines of the one before. With 1 M random keys this
    takes a third of the time; with sorted containers, a tenth more. The directory that compiled
    kernels use would take a dozen passes here.
    """
    if runs < SORTED_FROM:
        return test(low, high)
    order = np.argsort(low)
    out = np.empty(len(low), np.bool_)
    out[order] = test(low[order], high[order])
    return out


@functools.lru_cache(maxsize=1024)
def compile_shape(roots: tuple[Node, ...], packed: bool = True) -> Callable[..., Any]:
    """Return the kernel of a shape.

    It judges one tile of containers. If `packed`, planes and outs are bytes; otherwise planes are
    masks, and it returns the masks of the roots that are not constant.
    """
    body = emit(roots, EMIT)
    counts = {
        op: max((input_number(n) + 1 for r in roots for n in r.walk() if n.op is op), default=0)
        for op in (Op.ARRAY, Op.PLANE, Op.PARAM, Op.SET)
    }
    unpack = [
        f"    {''.join(f'{letter}{i}, ' for i in range(counts[op]))} = {name}"
        for op, letter, name in (
            (Op.ARRAY, "x", "arrays"),
            (Op.PLANE, "k", "planes"),
            (Op.PARAM, "p", "params"),
            (Op.SET, "s", "sets"),
        )
        if counts[op]
    ]
    masks = [join(m.op, list(m.tests), EMIT) for m in body.masks]
    outputs = [e for e in body.outputs if e is not None]
    if packed:
        lines = [
            "def kernel(arrays, planes, params, sets, outs):",
            *unpack,
            *(f"    m{i} = packbits({mask}, -1, 'little')" for i, mask in enumerate(masks)),
            *(f"    outs[{i}][:] = {output}" for i, output in enumerate(outputs)),
        ]
    else:
        lines = [
            "def kernel(arrays, planes, params, sets):",
            *unpack,
            *(f"    m{i} = {mask}" for i, mask in enumerate(masks)),
            f"    return {', '.join(outputs)},",
        ]
    scope: dict[str, Any] = {"packbits": np.packbits, "any_in": any_in, "not_all_in": not_all_in}
    exec(compile("\n".join(lines) + "\n", "<skipstone numpy kernel>", "exec"), scope)
    kernel: Callable[..., Any] = scope["kernel"]
    return kernel


def verdicts(launch: Launch) -> Verdicts:
    """Judge a few containers, and return their verdicts, uint8, shape (n,).

    Args:
        launch: The inputs, in host memory; at least one root is not constant.
    """
    if launch.unpacked is None:
        launch.unpacked = compile_shape(launch.shape, packed=False)
    found = launch.unpacked(launch.arrays, launch.plane_masks, launch.scalars, launch.sets)
    if len(launch.answers) == len(found) == 2:
        match, may_miss = found
        out: Verdicts = match.view(np.uint8) + (match > may_miss)
        return out
    masks = iter(found)
    each = [next(masks).copy() if a is None else a for a in launch.answers]
    return planes.verdicts(each, launch.n)


def run(launch: Launch, outs: list[Words], todo: Todo = None) -> None:
    """Judge containers: fill one array of words for each root that is not constant.

    Args:
        launch: The inputs, in host memory.
        outs: The arrays to fill; one word for each word of containers, or for each of `todo`.
        todo: The numbers of the words to judge; None means all.
    """
    if launch.interpreted is None:
        launch.interpreted = compile_shape(launch.shape)
    kernel, scalars, sets = launch.interpreted, launch.scalars, launch.sets
    if todo is None and launch.n <= TILE:
        count = (launch.n + 7) >> 3
        views = [o.view(np.uint8)[:count] for o in outs]
        kernel(launch.arrays, launch.plane_bytes, scalars, sets, views)
        return
    views = [o.view(np.uint8) for o in outs]

    def tiles(first: int, stop: int) -> None:
        for start in range(first, stop, TILE):
            end = min(start + TILE, stop)
            b, e = start >> 3, (end + 7) >> 3
            kernel(
                [a[start:end] for a in launch.arrays],
                [p[b:e] for p in launch.plane_bytes],
                scalars,
                sets,
                [v[b:e] for v in views],
            )

    def some(first: int, stop: int) -> None:
        assert todo is not None
        words = todo[first:stop]
        arrays = [gather(a, words) for a in launch.arrays]
        planes = [p[words].view(np.uint8) for p in launch.planes]
        kernel(arrays, planes, scalars, sets, [v[first * 8 : stop * 8] for v in views])

    if todo is not None:
        pool.run_chunks(some, len(todo), TILE // 64)
    else:
        pool.run_chunks(tiles, launch.n, CHUNK)


def gather(values: npt.NDArray[Any], words: npt.NDArray[np.uint32]) -> npt.NDArray[Any]:
    """Return the values of the containers of some words, 64 for each.

    Past the end of the last word the values are arbitrary.
    """
    whole = len(values) // 64
    if not len(words) or words[-1] < whole:
        return values[: whole * 64].reshape(-1, 64)[words].reshape(-1)
    return np.concatenate([gather(values, words[:-1]), np.resize(values[whole * 64 :], 64)])
