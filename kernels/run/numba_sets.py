"""The text of Numba kernels for sets: test LANES containers against runs of values.

It follows `numba_text.HEADER`.
"""

from __future__ import annotations

from typing import Final

from skipstone.kernels.pack.keys import EDGE

# Largest number of runs of a set that a step compares with all its containers, one run after the
# other. That takes some 5 cycles a run for 16 containers; a lookup takes 10 cycles or more a
# container.
MAX_COMPARED_RUNS: Final = 32

# Tests against runs (kernels/pack/keys.py). Without `forceinline` and `_nrt=False`, each call
# counts references to its arrays with atomic instructions: 4 times slower.
SETS: Final = (
    f"""\
FEW, EDGE = {MAX_COMPARED_RUNS}, {EDGE}
ALL = np.uint64((1 << LANES) - 1)
"""
    '''\


@intrinsic
def places(context, array, i, lowest, scale, top):
    """Find the places of LANES values from the i-th on; returns the address of that many int64."""

    def codegen(target, builder, signature, args):
        number, double, i64 = array.dtype, ir.DoubleType(), ir.IntType(64)
        lane = target.get_data_type(number)
        x = vector(target, builder, array, args[0], args[1], lane, LANES)
        x = builder.load(x, align=number.bitwidth // 8)
        doubles = ir.VectorType(double, LANES)
        if isinstance(number, nb.types.Float):
            x = x if number.bitwidth == 64 else builder.fpext(x, doubles)
        else:
            x = (builder.sitofp if number.signed else builder.uitofp)(x, doubles)
        lowest, scale, top = (splat(builder, a, LANES) for a in args[2:])
        x = builder.fmul(builder.fsub(x, lowest), scale)
        x = builder.fadd(x, ir.Constant(doubles, [EDGE] * LANES))
        for sign, end in ((">", ir.Constant(doubles, [0.0] * LANES)), ("<", top)):
            x = builder.select(builder.fcmp_ordered(sign, x, end), x, end)
        room = cgutils.alloca_once(builder, ir.VectorType(i64, LANES))
        builder.store(builder.fptosi(x, ir.VectorType(i64, LANES)), room)
        return builder.ptrtoint(room, i64)

    return nb.int64(array, nb.int64, nb.float64, nb.float64, nb.float64), codegen


@intrinsic
def place(context, address, j):
    """The j-th of the places at an address."""

    def codegen(target, builder, signature, args):
        at = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.load(builder.gep(at, [args[1]]))

    return nb.int64(nb.int64, nb.int64), codegen


def against_bucket(sign):
    """Return a function that compares each end of a bucket with a place: a bit for each."""

    @intrinsic
    def compare(context, lines, place):
        def codegen(target, builder, signature, args):
            i16, i64 = ir.IntType(16), ir.IntType(64)
            start = builder.shl(builder.lshr(args[1], i64(16)), i64(4))
            ends = builder.load(vector(target, builder, lines, args[0], start, i16, 32), align=64)
            place_of_all = splat(builder, builder.trunc(args[1], i16), 32)
            found = builder.icmp_unsigned(sign, ends, place_of_all)
            # The first two are the bucket's count.
            return builder.and_(builder.bitcast(found, ir.IntType(32)), ir.IntType(32)(0xFFFFFFFC))

        return nb.uint32(lines, nb.int64), codegen

    return compare


less, same = map(against_bucket, ("<", "=="))


@intrinsic
def ones(context, bits):
    """Return the number of bits that are set."""

    def codegen(target, builder, signature, args):
        return builder.zext(builder.ctpop(args[0]), ir.IntType(64))

    return nb.int64(nb.uint32), codegen


@nb.njit(**JIT)
def count(lines, place):
    """Return the number of ends in the buckets before a place's; negative: its bucket is full."""
    return np.int64(lines[np.uint64(place) >> np.uint64(16) << np.uint64(4)])


@nb.njit(**JIT)
def below(x, ends, lines, place):
    """Return the number of ends less than x."""
    k, stop = count(lines, place), count(lines, place + 65536)
    k, stop = k ^ (k >> 63), stop ^ (stop >> 63)
    while k < stop:
        middle = (k + stop) >> 1
        if ends[middle] < x:
            k = middle + 1
        else:
            stop = middle
    return k


@nb.njit(**JIT)
def next_to(lows, i, places, lines, size):
    """The runs that may be next to a value at LANES places, if they are few; else all.

    `size` is more than FEW.
    """
    a, b = place(places, 0), place(places, LANES - 1)
    if abs(count(lines, a) - count(lines, b)) > FEW:
        return np.int64(0), size
    if lt(lows, i, lows[i]) | gt(lows, i, lows[i + LANES - 1]):
        for j in range(LANES):
            a, b = min(a, place(places, j)), max(b, place(places, j))
    k, stop = count(lines, a), count(lines, b)
    if k < 0 or stop < 0:
        return np.int64(0), size
    stop += ones(less(lines, b)) + ones(same(lines, b)) + 1
    return k + ones(less(lines, a)), min(stop, size)


@nb.njit(**JIT)
def any_in(lows, highs, i, firsts, first_lines, lasts, last_lines, frame):
    """Return bits, set where more runs start up to the upper bound than end below the lower."""
    size, bits = np.int64(lasts.size), np.uint64(0)
    overlaps = np.uint64(le(lows, i, lasts[size - 1]) & ge(highs, i, firsts[0]))
    if not overlaps:
        return bits
    at_low, k, stop = np.int64(0), np.int64(0), size
    if size > FEW:
        at_low = places(lows, i, frame[0], frame[1], frame[2])
        k, stop = next_to(lows, i, at_low, last_lines, size)
    if stop - k <= FEW:
        for r in range(k, stop):
            bits |= le(lows, i, lasts[r]) & ge(highs, i, firsts[r])
        return bits
    at_high = places(highs, i, frame[0], frame[1], frame[2])
    whole = np.int64(frame[3])
    for j in range(LANES):
        p, q = place(at_low, j), place(at_high, j) + whole
        ended, started = count(last_lines, p), count(first_lines, q)
        found = started + ones(less(first_lines, q)) > ended + ones(less(last_lines, p))
        if ended | started < 0 or (same(last_lines, p) | same(first_lines, q) and not whole):
            r = below(lows[i + j], lasts, last_lines, p)
            found = r < size and firsts[r] <= highs[i + j]
        bits |= np.uint64(found) << np.uint64(j)
    return overlaps & bits


@nb.njit(**JIT)
def not_all_in(lows, highs, i, firsts, first_lines, lasts, last_lines, frame):
    """Return bits, set where no run reaches from the lower bound to the upper."""
    size, bits = np.int64(lasts.size), np.uint64(0)
    overlaps = np.uint64(ge(lows, i, firsts[0]) & le(highs, i, lasts[size - 1]))
    if not overlaps:
        return ALL
    at_low, k, stop = np.int64(0), np.int64(0), size
    if size > FEW:
        at_low = places(lows, i, frame[0], frame[1], frame[2])
        k, stop = next_to(lows, i, at_low, last_lines, size)
    if stop - k <= FEW:
        for r in range(k, stop):
            bits |= ge(lows, i, firsts[r]) & le(highs, i, lasts[r])
        return bits ^ ALL
    for j in range(LANES):
        p = place(at_low, j)
        ended, started = count(last_lines, p), count(first_lines, p)
        # More runs started than ended below the lower bound, or one starts about there.
        found = started + ones(less(first_lines, p)) > ended + ones(less(last_lines, p))
        if ended | started < 0 or found or same(last_lines, p) | same(first_lines, p):
            r = below(lows[i + j], lasts, last_lines, p)
            found = r < size and firsts[r] <= lows[i + j] and highs[i + j] <= lasts[r]
        bits |= np.uint64(found) << np.uint64(j)
    return overlaps & bits ^ ALL

'''
)
