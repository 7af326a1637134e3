"""Write the text of Numba kernels: one walk over a shape, and the loops around its result."""

from __future__ import annotations

import itertools
import re
from typing import Final, NamedTuple

import numpy as np

from skipstone.ir.node import Node, Op
from skipstone.ir.simplify import TRUE
from skipstone.kernels.run.compile_cache import Shape
from skipstone.kernels.run.emit import MaskTests, emit, input_types, join
from skipstone.kernels.run.numba_header import HEADER
from skipstone.kernels.run.numba_sets import SETS
from skipstone.kernels.run.result_pool import CACHE_LINE, MAX_SMALL

# A test judges LANES containers from the i-th on, with one bit each.
EMIT: Final = {
    Op.LT: "lt({0}, i, {1})",
    Op.LE: "le({0}, i, {1})",
    Op.GT: "gt({0}, i, {1})",
    Op.GE: "ge({0}, i, {1})",
    Op.AND: "({0} & {1})",
    Op.OR: "({0} | {1})",
    Op.ANY_IN: "any_in({0}, {1}, i, {2}, {3}, {4}, {5}, {6})",
    Op.NOT_ALL_IN: "not_all_in({0}, {1}, i, {2}, {3}, {4}, {5}, {6})",
}
# How many chosen words lie between the word that is fetched and the word that is judged.
CHOSEN_AHEAD: Final = 3
# Bytes of the widest array that a step takes, and how far ahead of it memory is fetched. Without
# fetching, the processor's own prefetcher gave between 0.55 and 0.97 of the bandwidth, whatever the
# widths of the arrays. With it, 1 to 8 columns gave 0.86 and more. Steps of 64 and 256 bytes gave
# less, as did 512 bytes ahead; 1,024 to 4,096 are alike. Lines are fetched into all caches. A fetch
# past them (NTA) has only as many lines under way as the L1 cache has buffers: that was enough on
# one machine, and gave a third of the bandwidth on another.
STEP_BYTES: Final = 2 * CACHE_LINE
FETCH_AHEAD: Final = 24 * CACHE_LINE
# Bytes of bounds that many sets of literals are tested on in turn, so that they stay in the L1
# cache.
TILE_BYTES: Final = 1 << 14

# The last word may be partial. Its lanes are read as part of the last 64, and shifted down.
POSITION: Final = ("at = min(w << 6, n - 64)", "shift = np.uint64((w << 6) - at)")
LANE_LOOP: Final = "for lane in range(0, 64, LANES):"


class _Kernel(NamedTuple):
    """The parts of a kernel's text.

    Attributes:
        roots: The shape's roots.
        many: True if the kernel judges many sets of literals at once.
        masks: The tests of each mask.
        outs: For each root that is not constant its expression over masks and planes.
        arrays: The NumPy type of each array of bounds.
        planes: The number of planes.
        params: The NumPy type of each literal.
        sets: The NumPy type of each array of a set.
    """

    roots: tuple[Node, ...]
    many: bool
    masks: tuple[MaskTests, ...]
    outs: list[str]
    arrays: list[str]
    planes: int
    params: list[str]
    sets: list[str]

    @property
    def sizes(self) -> list[int]:
        """The bytes of a value of each array."""
        return [np.dtype(t).itemsize for t in self.arrays]

    @property
    def lanes(self) -> int:
        """The number of containers that a step of the inner loop judges."""
        # Comparisons limit the speed of tests against runs. So a step takes one cache line: with
        # two, each test would also have to join their masks.
        compares_runs = any(
            n.op in (Op.ANY_IN, Op.NOT_ALL_IN) and n.args[2].op is Op.PARAM
            for r in self.roots
            for n in r.walk()
        )
        step = CACHE_LINE if compares_runs else STEP_BYTES
        return min(step // max(self.sizes, default=1), 64)

    @property
    def tile(self) -> int:
        """The number of words that a turn of the outer loop judges."""
        return max(TILE_BYTES // (64 * max(sum(self.sizes), 1)), 1) if self.many else 1


def source_of(shape: Shape) -> str:
    """Return the text of the module of a shape's kernel.

    Without `many` it defines `kernel(n, first, last, todo, verdicts, found, outs..., arrays...,
    planes..., params..., sets...)`. The kernel judges the words [first, last), or the words at
    these positions of `todo` if that is not empty. n is at least 64.

    - It fills `outs` at the same positions.
    - It fills `verdicts`, aligned to 64 bytes, with a byte for each container, unless it is empty.
    - If `found` is not empty, the kernel writes only the words in which a bit of the first out is
      set, one after the other from `first` on, and their numbers to `found`. It returns the end.

    With `many` it defines `kernel(n, first, last, rows, verdicts, arrays..., planes...,
    params...)`. Each of `params` is an array with one literal for each set of literals, and the
    verdicts by set j go to row rows[j]. All sets are tested on one tile, whose bounds then are in
    the L1 cache, before the next tile. So comparisons are the limit, and not memory. Tiles of 64
    containers took 1.4 times as long, since each write went to another page.
    """
    roots, many = shape
    body = emit(roots, EMIT)
    kernel = _Kernel(
        roots,
        many,
        body.masks,
        [out for out in body.outputs if out is not None],
        input_types(roots, Op.ARRAY),
        len(input_types(roots, Op.PLANE)),
        input_types(roots, Op.PARAM),
        input_types(roots, Op.SET),
    )
    lines = [
        "i8 = nb.int64",
        "array = lambda t: nb.types.Array(getattr(nb, t), 1, 'C')",
        "readonly = lambda t: nb.types.Array(getattr(nb, t), 1, 'C', readonly=True)",
        f"SIGNATURE = i8({', '.join(_types(kernel))})",
        "",
        "",
        f"def kernel({', '.join(_names(kernel))}):",
        *_indent(1, _planes_only(kernel)),
        "    words, kept = (n + 63) >> 6, first",
        f"    for k in range(first, last, {kernel.tile}):",
        *_indent(2, _judge_many(kernel) if many else _judge_word(kernel)),
        "    return kept",
    ]
    head = f"LANES = {kernel.lanes}\n{HEADER}{SETS if kernel.sets else ''}"
    return head + "\n" + "\n".join(lines) + "\n"


def _indent(levels: int, lines: list[str]) -> list[str]:
    return [f"{'    ' * levels}{line}" for line in lines]


def _types(kernel: _Kernel) -> list[str]:
    """Return the types of a kernel's arguments."""
    types = ["i8", "i8", "i8", "readonly('uint32')", "array('uint8')"]
    if not kernel.many:
        types += ["array('uint32')", *["array('uint64')"] * len(kernel.outs)]
    types += [f"readonly('{t}')" for t in kernel.arrays]
    types += ["readonly('uint64')"] * kernel.planes
    types += [f"readonly('{t}')" if kernel.many else f"nb.{t}" for t in kernel.params]
    types += [f"readonly('{t}')" for t in kernel.sets]
    return types


def _names(kernel: _Kernel) -> list[str]:
    """Return the names of a kernel's arguments."""
    names = ["n", "first", "last"]
    names += ["rows", "verdicts"] if kernel.many else ["todo", "verdicts", "found"]
    counts = (
        ("o", 0 if kernel.many else len(kernel.outs)),
        ("x", len(kernel.arrays)),
        ("q", kernel.planes),
        ("r" if kernel.many else "p", len(kernel.params)),
        ("s", len(kernel.sets)),
    )
    return names + [f"{letter}{i}" for letter, count in counts for i in range(count)]


def _fetches(kernel: _Kernel) -> list[str]:
    """Fetch the cache lines of a step's bounds, ahead of the words that are judged."""
    return [
        f"fetch(x{a}, f{size} + lane + {byte // size})"
        for a, size in enumerate(kernel.sizes)
        for byte in range(0, kernel.lanes * size, CACHE_LINE)
    ]


def _judge_lanes(kernel: _Kernel) -> list[str]:
    """Compute the masks of a word from its containers' bounds."""
    masks = range(len(kernel.masks))
    tests = [join(mask.op, list(mask.tests), EMIT) for mask in kernel.masks]
    return [
        *(f"m{m} = np.uint64(0)" for m in masks),
        LANE_LOOP,
        "    i = at + lane",
        *_indent(1, [] if kernel.many else _fetches(kernel)),
        *(f"    t{m} = {test}" for m, test in enumerate(tests)),
        *(f"    m{m} |= np.uint64(t{m}) << np.uint64(lane)" for m in masks),
        *(f"m{m} >>= shift" for m in masks),
    ]


def _load_planes(kernel: _Kernel) -> list[str]:
    return [f"k{k} = q{k}[w]" for k in range(kernel.planes)]


def _judge_word(kernel: _Kernel) -> list[str]:
    """Judge one word and write its results."""
    outs = range(len(kernel.outs))
    return [
        "w = np.int64(todo[k]) if todo.size else k",
        # If only chosen words are judged, a later one of them is fetched.
        f"next = np.int64(todo[min(k + {CHOSEN_AHEAD}, last - 1)]) << 6 if todo.size else w << 6",
        *(
            f"f{size} = next if todo.size else next + {FETCH_AHEAD // size}"
            for size in sorted(set(kernel.sizes))
        ),
        *POSITION,
        *_judge_lanes(kernel),
        *_load_planes(kernel),
        *(f"v{i} = {text}" for i, text in enumerate(kernel.outs)),
        "if found.size:",
        "    if v0:",
        "        found[kept] = w",
        *(f"        o{i}[kept] = v{i}" for i in outs),
        "        kept += 1",
        "    continue",
        *(f"o{i}[k] = v{i}" for i in outs),
        "if verdicts.size:",
        f"    store_verdicts({_verdict_words(kernel.roots)}, verdicts, k << 6)",
    ]


def _judge_many(kernel: _Kernel) -> list[str]:
    """Judge a tile of words by every set of literals."""
    verdicts = _verdict_words(kernel.roots)
    return [
        f"stop = min(k + {kernel.tile}, last)",
        "for w in range(k, stop):",
        *(f"    f{size} = (w << 6) + {FETCH_AHEAD // size}" for size in sorted(set(kernel.sizes))),
        f"    {LANE_LOOP}",
        *_indent(2, _fetches(kernel)),
        "for j in range(rows.size):",
        *(f"    p{i} = r{i}[j]" for i in range(len(kernel.params))),
        "    for w in range(k, stop):",
        *_indent(2, [*POSITION, *_load_planes(kernel), *_judge_lanes(kernel)]),
        *(f"        v{i} = {text}" for i, text in enumerate(kernel.outs)),
        f"        store_verdicts({verdicts}, verdicts, (np.int64(rows[j]) * words + w) << 6)",
    ]


def _planes_only(kernel: _Kernel) -> list[str]:
    """Join planes alone, if there are no arrays and only words are written.

    For each two words that are read, one or more is written, so lines are written past the caches.
    """
    if kernel.arrays or kernel.many:
        return []
    line = [re.sub(r"\bk(\d+)\b", rf"q\1[w + {j}]", text) for text in kernel.outs for j in range(8)]
    outs = range(len(kernel.outs))
    return [
        "if todo.size == verdicts.size == found.size == 0:",
        # A buffer of more than MAX_SMALL bytes starts at a cache line, and so do chunks.
        f"    whole = first + (last - first) // 8 * 8 if n > {MAX_SMALL * 8} else first",
        "    for w in range(first, whole, 8):",
        *(f"        fetch(q{k}, w + {FETCH_AHEAD // 8})" for k in range(kernel.planes)),
        *(f"        stream(o{i}, w, {', '.join(line[i * 8 : i * 8 + 8])})" for i in outs),
        "    for w in range(whole, last):",
        *_indent(2, _load_planes(kernel)),
        *(f"        o{i}[w] = {text}" for i, text in enumerate(kernel.outs)),
        "    return last",
    ]


def _verdict_words(roots: tuple[Node, ...]) -> str:
    """Return the words of containers that can match, and of those that cannot miss either."""
    outs = itertools.count()
    match, *miss = (
        f"np.uint64({2**64 - 1 if r == TRUE else 0})" if r.op is Op.LITERAL else f"v{next(outs)}"
        for r in roots
    )
    return f"{match}, {match} & ~{miss[0]}" if miss else f"{match}, np.uint64(0)"
