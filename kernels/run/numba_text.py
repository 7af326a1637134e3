"""The text of Numba kernels: one walk over a shape, and what the loops are made of."""

from __future__ import annotations

import itertools
import re
from typing import Final

import numpy as np

from skipstone.ir.node import Node, Op
from skipstone.ir.simplify import TRUE
from skipstone.kernels.run.compile_cache import Shape
from skipstone.kernels.run.emit import emit, input_lanes, join
from skipstone.kernels.run.numba_sets import SETS
from skipstone.kernels.run.result_pool import CACHE_LINE, MAX_SMALL

# A test judges LANES containers from the i-th on, one bit each.
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
CHOSEN_AHEAD: Final = 3  # chosen words between the one that is fetched and the one that is judged
# Bytes of the widest array that a step takes, and how far ahead of it memory is fetched. Without fetching
# the processor's own guesses gave between 0.55 and 0.97 of the bandwidth, whatever the widths of the
# arrays; with it 0.86 and more, of 1 to 8 columns. Steps of 64 and 256 bytes did less, as did 512 bytes
# ahead; 1,024 to 4,096 are alike. Fetched into all caches: past them (NTA) only as many lines are under way
# as the L1 cache has buffers for, which was enough on one machine and a third of the bandwidth on another.
STEP_BYTES: Final = 2 * CACHE_LINE
FETCH_AHEAD: Final = 24 * CACHE_LINE
BLOCK_BYTES: Final = (
    1 << 14
)  # bytes of bounds that many sets of literals are asked about in turn: they stay in the L1 cache

# What kernels are made of. A comparison loads lanes of an array as one vector and gives one bit for
# each: on AVX-512 a compare into a mask register. LLVM does not find this form by itself; the loops
# over bytes that it does vectorise, packed afterwards, reached 0.75 of this one's speed.
HEADER: Final = '''\
import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

JIT = dict(_nrt=False, forceinline=True, nogil=True, boundscheck=False, error_model="numpy")


def vector(target, builder, array, value, i, lane, lanes):
    data = target.make_array(array)(target, builder, value).data
    return builder.bitcast(builder.gep(data, [i]), ir.VectorType(lane, lanes).as_pointer())


def comparison(sign):
    """Compare LANES values from the i-th on with one: a bit each."""

    @intrinsic
    def compare(context, array, i, value):
        def codegen(target, builder, signature, args):
            lane = target.get_data_type(array.dtype)
            left = builder.load(vector(target, builder, array, args[0], args[1], lane, LANES), align=array.dtype.bitwidth // 8)
            right = builder.insert_element(ir.Constant(left.type, ir.Undefined), args[2], ir.IntType(32)(0))
            right = builder.shuffle_vector(right, right, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))
            if isinstance(array.dtype, nb.types.Float):
                found = builder.fcmp_ordered(sign, left, right)
            else:
                found = (builder.icmp_signed if array.dtype.signed else builder.icmp_unsigned)(sign, left, right)
            return builder.bitcast(found, ir.IntType(LANES))

        return getattr(nb, f"uint{LANES}")(array, i, array.dtype), codegen

    return compare


lt, le, gt, ge = map(comparison, ("<", "<=", ">", ">="))


@intrinsic
def fetch(context, array, i):
    """Ask for the cache line of the i-th value."""

    def codegen(target, builder, signature, args):
        byte, i32 = ir.IntType(8), ir.IntType(32)
        at = vector(target, builder, array, args[0], args[1], byte, 1)
        kind = ir.FunctionType(ir.VoidType(), [byte.as_pointer(), i32, i32, i32])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(prefetch, [builder.bitcast(at, byte.as_pointer()), i32(0), i32(3), i32(1)])
        return target.get_dummy_value()

    return nb.void(array, i), codegen


@intrinsic
def spread(context, match, sure, verdicts, i):
    """Write 64 verdicts from the i-th on: a bit of each word adds one."""

    def codegen(target, builder, signature, args):
        bits, bytes = ir.VectorType(ir.IntType(1), 64), ir.VectorType(ir.IntType(8), 64)
        one, two = (builder.zext(builder.bitcast(a, bits), bytes) for a in args[:2])
        at = vector(target, builder, verdicts, args[2], args[3], bytes.element, 64)
        builder.store(builder.add(one, two), at, align=64)
        return target.get_dummy_value()

    return nb.void(nb.uint64, nb.uint64, verdicts, i), codegen


@intrinsic
def stream(context, words, i, a, b, c, d, e, f, g, h):
    """Write 8 words from the i-th on, a cache line, without reading it first."""

    def codegen(target, builder, signature, args):
        line = ir.Constant(ir.VectorType(ir.IntType(64), 8), ir.Undefined)
        for j, word in enumerate(args[2:]):
            line = builder.insert_element(line, word, ir.IntType(32)(j))
        at = vector(target, builder, words, args[0], args[1], line.type.element, 8)
        stored = builder.store(line, at, align=64)
        stored.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))
        return target.get_dummy_value()

    return nb.void(words, i, *[nb.uint64] * 8), codegen

'''


def source_of(shape: Shape) -> str:
    """The module text of a shape's kernel.

    Its `kernel(n, first, last, todo, verdicts, found, outs..., arrays..., planes..., params..., sets...)` judges words
    [first, last), or those of `todo` at these places unless it is empty. It fills outs at the same places, and
    the verdicts of the containers unless that array, aligned to 64 bytes, is empty. Unless `found` is empty, only words
    in which a bit of the first out is set are written, one after the other from `first` on, with their numbers in
    `found`; where that ends is returned. n is at least 64.

    That of many sets of literals, `kernel(n, first, last, rows, verdicts, arrays..., planes..., params...)`, takes an
    array for each literal, and writes the verdicts by set j to row rows[j]. All of them are asked about a block whose
    bounds are in the L1 cache then, before the next: that is bound by comparisons and not by memory. Of 64 containers at
    a time it took 1.4 times as long, since each write went to another page.
    """
    roots, many = shape
    body = emit(roots, EMIT)
    arrays, params, sets = (
        input_lanes(roots, Op.ARRAY),
        input_lanes(roots, Op.PARAM),
        input_lanes(roots, Op.SET),
    )
    planes, outs = len(input_lanes(roots, Op.PLANE)), [o for o in body.outputs if o is not None]
    types = ["i8, i8, i8, readonly('uint32'), array('uint8')"] + (
        [] if many else ["array('uint32')", *["array('uint64')"] * len(outs)]
    )
    types += [
        *(f"readonly('{t}')" for t in arrays),
        *["readonly('uint64')"] * planes,
        *(f"readonly('{t}')" if many else f"nb.{t}" for t in params),
        *(f"readonly('{t}')" for t in sets),
    ]
    counts = (
        ("o", 0 if many else len(outs)),
        ("x", len(arrays)),
        ("q", planes),
        ("r" if many else "p", len(params)),
        ("s", len(sets)),
    )
    names = [
        "n, first, last",
        "rows, verdicts" if many else "todo, verdicts, found",
        *(f"{letter}{i}" for letter, count in counts for i in range(count)),
    ]
    sizes = [np.dtype(t).itemsize for t in arrays]
    # What is bound by comparisons takes a line: masks of two would be put together for each.
    busy = any(
        n.op in (Op.ANY_IN, Op.NOT_ALL_IN) and n.args[2].op is Op.PARAM
        for r in roots
        for n in r.walk()
    )
    lanes = min((CACHE_LINE if busy else STEP_BYTES) // max(sizes, default=1), 64)
    fetches = [
        f"fetch(x{a}, f{size} + lane + {b // size})"
        for a, size in enumerate(sizes)
        for b in range(0, lanes * size, CACHE_LINE)
    ]
    masks, tests = (
        range(len(body.masks)),
        [join(mask.op, list(mask.tests), EMIT) for mask in body.masks],
    )
    known = [f"k{k} = q{k}[w]" for k in range(planes)]
    # The last word may be partial. Its lanes are read as part of the last 64, and shifted down.
    place = ["at = min(w << 6, n - 64)", "shift = np.uint64((w << 6) - at)"]
    group = max(BLOCK_BYTES // (64 * max(sum(sizes), 1)), 1)
    lanewise = ["for lane in range(0, 64, LANES):", "    i = at + lane"]
    judged = [
        *(f"m{m} = np.uint64(0)" for m in masks),
        *lanewise,
        *(f"    {f}" for f in fetches if not many),
        *(f"    t{m} = {test}" for m, test in enumerate(tests)),
        *(f"    m{m} |= np.uint64(t{m}) << np.uint64(lane)" for m in masks),
        *(f"m{m} >>= shift" for m in masks),
    ]
    if many:
        inside = [
            f"stop = min(k + {group}, last)",
            "for w in range(k, stop):",
            *(f"    f{size} = (w << 6) + {FETCH_AHEAD // size}" for size in sorted(set(sizes))),
            *(f"    {line}" for line in lanewise[:1]),
            *(f"        {f}" for f in fetches),
            "for j in range(rows.size):",
            *(f"    p{i} = r{i}[j]" for i in range(len(params))),
            "    for w in range(k, stop):",
            *(f"        {line}" for line in (*place, *known, *judged)),
            *(f"        v{i} = {text}" for i, text in enumerate(outs)),
            f"        spread({_verdict_words(roots)}, verdicts, (np.int64(rows[j]) * words + w) << 6)",
        ]
    else:
        inside = [
            "w = np.int64(todo[k]) if todo.size else k",
            # Of chosen words, those a few steps on.
            f"next = np.int64(todo[min(k + {CHOSEN_AHEAD}, last - 1)]) << 6 if todo.size else w << 6",
            *(
                f"f{size} = next if todo.size else next + {FETCH_AHEAD // size}"
                for size in sorted(set(sizes))
            ),
            *place,
            *judged,
            *known,
            *(f"v{i} = {text}" for i, text in enumerate(outs)),
            "if found.size:",
            "    if v0:",
            "        found[kept] = w",
            *(f"        o{i}[kept] = v{i}" for i in range(len(outs))),
            "        kept += 1",
            "    continue",
            *(f"o{i}[k] = v{i}" for i in range(len(outs))),
            "if verdicts.size:",
            f"    spread({_verdict_words(roots)}, verdicts, k << 6)",
        ]
    plain = [] if arrays or many else _planes_only(planes, outs)
    lines = [
        "i8 = nb.int64",
        "array = lambda t: nb.types.Array(getattr(nb, t), 1, 'C')",
        "readonly = lambda t: nb.types.Array(getattr(nb, t), 1, 'C', readonly=True)",
        f"SIGNATURE = i8({', '.join(types)})",
        "",
        "",
        f"def kernel({', '.join(names)}):",
        *(f"    {line}" for line in plain),
        "    words, kept = (n + 63) >> 6, first",
        f"    for k in range(first, last, {group if many else 1}):",
        *(f"        {line}" for line in inside),
        "    return kept",
    ]
    return f"LANES = {lanes}\n" + HEADER + (SETS if sets else "") + "\n" + "\n".join(lines) + "\n"


def _planes_only(planes: int, outs: list[str]) -> list[str]:
    """Planes alone: a word and more is written for each two that are read, so lines are written past the caches."""
    some = [re.sub(r"\bk(\d+)\b", rf"q\1[w + {j}]", text) for text in outs for j in range(8)]
    return [
        "if todo.size == verdicts.size == found.size == 0:",
        # Room for more than SMALL bytes starts at a line, and so do chunks.
        f"    whole = first + (last - first) // 8 * 8 if n > {MAX_SMALL * 8} else first",
        "    for w in range(first, whole, 8):",
        *(f"        fetch(q{k}, w + {FETCH_AHEAD // 8})" for k in range(planes)),
        *(
            f"        stream(o{i}, w, {', '.join(some[i * 8 : i * 8 + 8])})"
            for i in range(len(outs))
        ),
        "    for w in range(whole, last):",
        *(f"        k{k} = q{k}[w]" for k in range(planes)),
        *(f"        o{i}[w] = {text}" for i, text in enumerate(outs)),
        "    return last",
    ]


def _verdict_words(roots: tuple[Node, ...]) -> str:
    """The words of containers that can match, and of those that cannot miss either."""
    outs = itertools.count()
    match, *miss = (
        f"np.uint64({2**64 - 1 if r == TRUE else 0})" if r.op is Op.LITERAL else f"v{next(outs)}"
        for r in roots
    )
    return f"{match}, {match} & ~{miss[0]}" if miss else f"{match}, np.uint64(0)"
