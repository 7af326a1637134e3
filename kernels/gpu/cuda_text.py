"""Write the text of CUDA kernels: one walk over a shape, and the loops around its result.

A warp judges a tile of words of 32 containers each. Each of its lanes loads the bounds of one
container, compares them and votes, so a vote is a word of packed results; lane j keeps the j-th
word. Then each lane combines its word with planes and writes it. Warps share nothing: no shared
memory, no atomics, one writer for each word.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from skipstone.ir.node import Node, Op
from skipstone.kernels.gpu.cuda_header import HEADER, SETS
from skipstone.kernels.run.emit import INPUTS, Body, emit, input_number, input_types, join

# A test judges the container of its lane.
EMIT: Final = {
    Op.LT: "({0} < {1})",
    Op.LE: "({0} <= {1})",
    Op.GT: "({0} > {1})",
    Op.GE: "({0} >= {1})",
    Op.AND: "({0} & {1})",
    Op.OR: "({0} | {1})",
    Op.ANY_IN: "any_in({0}_{4}, {1}, {2}, {5}, {6})",
    Op.NOT_ALL_IN: "not_all_in({0}_{4}, {0}, {1}, {2}, {4}, {5}, {6})",
}
# The rank of a lower bound among the ends of a set's runs; all tests of both share it.
RANK: Final = "const i64 {0}_{4} = below({0}, {4}, {5}, {6});"
TYPES: Final = {
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "i64",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "u32",
    "uint64": "u64",
    "float32": "float",
    "float64": "double",
}
THREADS: Final = 256  # threads of a block
WARPS: Final = THREADS // 32
# Words that a warp judges; their results take 32 bytes, one sector of memory.
TILE: Final = 8
# Bytes that a lane loads before it waits. With 2,000 lanes on each multiprocessor, 16 of them keep
# some 4 MB under way, and a card of 3 TB/s needs 2 to 3 MB. More bytes help if there are fewer
# lanes. Up to this number they do not reduce the number of lanes: words of one test take at most 32
# registers.
LOAD_AHEAD: Final = 64
# A lane keeps its own words of at most this many masks. With more, each lane takes so many
# registers that few lanes fit on a multiprocessor. Then words are joined one by one: some 15 % more
# instructions, and a third to a half of the registers.
MAX_MASKS: Final = 8
# Largest number of masks that are unrolled; longer texts take seconds to compile.
MAX_TESTS: Final = 128
# Bytes of bounds that a lane keeps while it tests many sets of literals.
REGISTER_BYTES: Final = 128


Variant: TypeAlias = Literal["all", "chosen", "many"]


class DeviceShape(NamedTuple):
    """The key of a compiled device kernel.

    Attributes:
        roots: `Launch.shape`.
        variant: "all" judges every container; "chosen" the words of a list; "many" every container
            by many sets of literals.
    """

    roots: tuple[Node, ...]
    variant: Variant = "all"


def source_of(shape: DeviceShape) -> str:
    """Return the text of a shape's kernel: an `extern "C"` function named `kernel`.

    It is started with blocks of THREADS. `kernel(n, outs..., arrays..., planes..., params...,
    sets...)` fills outs with words of 32 bits, twice as many as `planes.word_count(n)`. Bits past
    the last container are 0.

    The variant "chosen" has `todo, count` after `n`: the numbers of `count` words of 64 containers,
    whose results are written one after the other. The variant "many" has `rows` there, and takes
    `tables` instead of literals; the results of row r start at r * 2 * word_count(n). A block
    judges `tile(shape) * WARPS` words of 32.
    """
    body, names = emit(shape.roots, EMIT), _arguments(shape)
    lines = {"all": _all, "chosen": _all, "many": _many}[shape.variant](shape, body)
    sets = SETS if any(n.op is Op.SET for r in shape.roots for n in r.walk()) else ""
    # "many" reads once and then computes, so two blocks on a multiprocessor suffice. By itself the
    # compiler aims at more, and spills values to memory.
    threads = f"{THREADS}, 2" if shape.variant == "many" else THREADS
    head = f'extern "C" __global__ void __launch_bounds__({threads})\nkernel({", ".join(names)})'
    return "\n".join([f"{HEADER}{sets}", head, "{", *(f"    {line}" for line in lines), "}", ""])


def tile(shape: DeviceShape) -> int:
    """Return the number of words of 32 containers that a warp judges."""
    if not _width(shape):
        return 32  # planes only: one word for each lane
    if shape.variant != "many":
        return TILE
    return max(min(TILE, REGISTER_BYTES // _width(shape), MAX_TESTS // _masks(shape)), 1)


def tables(rows: Sequence[Sequence[np.generic]]) -> list[npt.NDArray[np.generic]]:
    """Return the literals of launches of one shape as the variant "many" takes them.

    Args:
        rows: `Launch.params` of each launch.

    Returns:
        One array for each NumPy type, in the order of first use: its literals in the first launch,
            then those in the second, and so on.
    """
    return [
        np.array([p for row in rows for p in row if p.dtype == numpy_type], numpy_type)
        for numpy_type in dict.fromkeys(p.dtype for p in rows[0])
    ]


def _width(shape: DeviceShape) -> int:
    """Return the bytes of all bounds of a container."""
    return sum(np.dtype(t).itemsize for t in input_types(shape.roots, Op.ARRAY))


def _masks(shape: DeviceShape) -> int:
    return len({n for root in shape.roots for n in root.walk() if n.op is Op.PACK})


def _arguments(shape: DeviceShape) -> list[str]:
    kinds = {
        op: [TYPES[t] for t in input_types(shape.roots, op)] for op in (Op.ARRAY, Op.PARAM, Op.SET)
    }
    literals = [f"const {t} p{i}" for i, t in enumerate(kinds[Op.PARAM])]
    if shape.variant == "many":
        literals = [
            f"const {t}* __restrict__ r{i}" for i, t in enumerate(dict.fromkeys(kinds[Op.PARAM]))
        ]
    return [
        "const i64 n",
        *{
            "all": [],
            "chosen": ["const u32* __restrict__ todo", "const i64 count"],
            "many": ["const i64 rows"],
        }[shape.variant],
        *(
            f"u32* __restrict__ o{i}"
            for i in range(sum(1 for r in shape.roots if r.op is not Op.LITERAL))
        ),
        *(f"const {t}* __restrict__ a{i}" for i, t in enumerate(kinds[Op.ARRAY])),
        *(f"const u32* __restrict__ q{i}" for i in range(len(input_types(shape.roots, Op.PLANE)))),
        *literals,
        *(f"const {t}* __restrict__ s{i}" for i, t in enumerate(kinds[Op.SET])),
    ]


def _start(shape: DeviceShape, words: str) -> list[str]:
    return [
        "const u32 lane = threadIdx.x & 31;",
        f"const i64 words = {words};",
        f"const i64 first = ((i64)blockIdx.x * {WARPS} + (threadIdx.x >> 5)) * {tile(shape)};",
        "if (first >= words) return;",  # the whole warp
    ]


def _container(word: str) -> str:
    """Return the code that finds a lane's container.

    Past the end it is the last container, whose result is dropped.
    """
    return f"const i64 at = {word} << 5 | lane, i = at < n ? at : n - 1;"


def _write_words(texts: list[str], into: str) -> list[str]:
    """Return the code that writes a lane's word of each root."""
    return [
        "const i64 left = n - (w << 5);",
        "const u32 live = left >= 32 ? 0xffffffffu : left > 0 ? (1u << left) - 1u : 0u;",
        *(f"o{i}[{into}] = {text} & live;" for i, text in enumerate(texts)),
    ]


class _Logic(NamedTuple):
    """The code that turns votes into the words of roots.

    Attributes:
        kept: The values that each lane keeps for its own word of the tile.
        each: The code for every word w of the tile, the j-th.
        after: The code that follows once, for the lane's own word w.
        words: The final expressions of the roots' words.
    """

    kept: list[str]
    each: list[str]
    after: list[str]
    words: list[str]


def _logic(shape: DeviceShape, body: Body) -> _Logic:
    roots, ranks = [o for o in body.outputs if o is not None], _ranks(shape)
    votes = [f"vote({join(mask.op, list(mask.tests), EMIT)})" for mask in body.masks]
    planes = [f"const u32 k{p} = q{p}[w];" for p in range(len(input_types(shape.roots, Op.PLANE)))]
    if len(votes) > MAX_MASKS:
        return _Logic(
            [f"v{i}" for i in range(len(roots))],
            [*ranks, *planes, *_join_votes(votes, roots)],
            [],
            [f"v{i}" for i in range(len(roots))],
        )
    masks = range(len(votes))
    code = [f"const u32 t{m} = {votes[m]};" for m in masks]
    return _Logic(
        [f"m{m}" for m in masks],
        [*ranks, *code, *(f"m{m} = lane == j ? t{m} : m{m};" for m in masks)],
        planes,
        roots,
    )


def _join_votes(votes: list[str], roots: list[str]) -> list[str]:
    """Return the code that joins the votes of one word of the tile.

    The word's lane keeps the results.

    All lanes vote, so no vote is inside a condition.
    """
    # A vote that is used once is written where it is used: otherwise hundreds of words would wait
    # in registers.
    needed = collections.Counter(re.findall(r"\bm\d+\b", " ".join(roots)))
    code = [f"const u32 m{m} = {vote};" for m, vote in enumerate(votes) if needed[f"m{m}"] > 1]
    for i, root in enumerate(roots):
        word = re.sub(
            r"\bm(\d+)\b", lambda m: votes[int(m[1])] if needed[m[0]] == 1 else m[0], root
        )
        code += [f"const u32 w{i} = {word};", f"v{i} = lane == j ? w{i} : v{i};"]
    return code


def _ranks(shape: DeviceShape) -> list[str]:
    """Return the lookups that tests of long sets share.

    A lookup takes longer than the rest of a test.
    """
    tests = [
        n
        for root in shape.roots
        for n in root.walk()
        if n.op in (Op.ANY_IN, Op.NOT_ALL_IN) and n.args[2].op is Op.SET
    ]
    return list(
        dict.fromkeys(
            RANK.format(*(INPUTS[a.op].format(input_number(a)) for a in n.args)) for n in tests
        )
    )


def _all(shape: DeviceShape, body: Body) -> list[str]:
    chosen = shape.variant == "chosen"
    logic = _logic(shape, body)
    if chosen:
        k = "const i64 k = first + j < words ? first + j : words - 1;"
        walk = _walk(shape, logic, [k, _word("k"), _container("w")], "a{0}[i]", _unroll(shape))
    else:
        walk = _near_words(shape, logic)
    return [
        *_start(shape, "count << 1" if chosen else "(n + 63) >> 6 << 1"),
        *(f"u32 {name} = 0;" for name in logic.kept),
        *(walk if body.masks else ()),
        "const i64 k = first + lane;",
        f"if (lane >= {tile(shape)} || k >= words) return;",
        _word("k") if chosen else "const i64 w = k;",
        *logic.after,
        *_write_words(logic.words, "k"),
    ]


def _near_words(shape: DeviceShape, logic: _Logic) -> list[str]:
    """Return the code that judges the consecutive words of a tile.

    Each array has one address, and all words lie at fixed distances from it. That takes half the
    instructions of an address for each word.
    """
    place, unroll = "const i64 i = base + (j << 5);", _unroll(shape)
    base = "const i64 base = first << 5 | lane;"
    rest = f"const int rest = n - base < {TILE * 32} ? (int)(n - base) : {TILE * 32};"
    exists, load = "const bool in = (int)(j << 5) < rest;", "in ? a{0}[i] : 0"
    if unroll == 1 or _masks(shape) > MAX_MASKS:  # the tests take longer than loading
        word = "const i64 w = first + j < words ? first + j : first;"
        return [base, rest, *_walk(shape, logic, [place, word, exists], load, unroll)]
    # If each bound were checked for its existence, the checks would be more than half of all
    # instructions, and columns of 1 or 2 bytes would be read at half the bandwidth. So only the
    # last block checks. All threads of a block take the same branch, and the compiler has to see
    # that: otherwise it waits for the first word's bounds before it loads the others.
    return [
        base,
        f"if (((i64)blockIdx.x + 1) * {WARPS * TILE * 32} <= n) {{",
        *(f"    {line}" for line in _walk(shape, logic, [place], "a{0}[i]", unroll)),
        "} else {",
        f"    {rest}",
        *(f"    {line}" for line in _walk(shape, logic, [place, exists], load, unroll)),
        "}",
    ]


def _walk(
    shape: DeviceShape, logic: _Logic, places: list[str], bound: str, unroll: int
) -> list[str]:
    """Return the loop over the words of a tile; `bound` loads from the array with a number."""
    return [
        f"#pragma unroll {unroll}",
        f"for (u32 j = 0; j < {TILE}; ++j) {{",
        *(f"    {line}" for line in places),
        *(
            f"    const {TYPES[t]} x{a} = {bound.format(a)};"
            for a, t in enumerate(input_types(shape.roots, Op.ARRAY))
        ),
        *(f"    {line}" for line in logic.each),
        "}",
    ]


def _unroll(shape: DeviceShape) -> int:
    """Return how many words of a tile have their bounds loaded at a time: 1, 2, 4 or 8."""
    most = min(TILE, LOAD_AHEAD // max(_width(shape), 1), MAX_TESTS // max(_masks(shape), 1))
    return 1 << max(most, 1).bit_length() - 1


def _word(k: str) -> str:
    """Return the code that finds the number of the k-th of the chosen words of 32."""
    return f"const i64 w = (i64)todo[{k} >> 1] << 1 | ({k} & 1);"


def _many(shape: DeviceShape, body: Body) -> list[str]:
    size, kinds, logic = tile(shape), input_types(shape.roots, Op.ARRAY), _logic(shape, body)
    return [
        *_start(shape, "(n + 63) >> 6 << 1"),
        *(f"{TYPES[t]} b{a}[{size}];" for a, t in enumerate(kinds)),
        "#pragma unroll",
        f"for (u32 j = 0; j < {size}; ++j) {{",
        f"    {_container('(first + j)')}",
        *(f"    b{a}[j] = a{a}[i];" for a in range(len(kinds))),
        "}",
        f"const bool writes = lane < {size} && first + lane < words;",
        "const i64 w = writes ? first + lane : first;",
        *logic.after,
        "for (i64 row = 0; row < rows; ++row) {",
        *(f"    {line}" for line in _literals(input_types(shape.roots, Op.PARAM))),
        *(f"    u32 {name} = 0;" for name in logic.kept),
        "    #pragma unroll",
        f"    for (u32 j = 0; j < {size}; ++j) {{",
        "        const i64 w = first + j < words ? first + j : first;",
        *(f"        const {TYPES[t]} x{a} = b{a}[j];" for a, t in enumerate(kinds)),
        *(f"        {line}" for line in logic.each),
        "    }",
        "    if (writes) {",
        *(f"        {line}" for line in _write_words(logic.words, "row * words + w")),
        "    }",
        "}",
    ]


def _literals(lanes: list[str]) -> list[str]:
    """Return the code that loads the literals of a row from its tables."""
    tables = list(dict.fromkeys(lanes))
    return [
        f"const {TYPES[t]} p{i} = "
        f"r{tables.index(t)}[row * {lanes.count(t)} + {lanes[:i].count(t)}];"
        for i, t in enumerate(lanes)
    ]
