"""The functions that Numba kernels call, as text that precedes each kernel."""

from __future__ import annotations

from typing import Final

# Functions that kernels call. A comparison loads lanes of an array as one vector and returns one
# bit for each: on AVX-512, a compare into a mask register. LLVM does not find this form by itself.
# It does vectorise loops over bytes; with packing afterwards, they reached 0.75 of this speed.
HEADER: Final = '''\
import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

JIT = dict(_nrt=False, forceinline=True, nogil=True, boundscheck=False, error_model="numpy")


# Each intrinsic is compiled in two steps. Numba calls it with the types of its arguments and a
# typing `context`. The `codegen` that it returns writes LLVM instructions: `target` is Numba's
# context for the processor, `builder` appends instructions, `args` are the values as LLVM has them.


def vector(target, builder, array, value, i, lane, lanes):
    """Return a pointer to the vector of `lanes` values of type `lane` from the i-th value on."""
    data = target.make_array(array)(target, builder, value).data
    return builder.bitcast(builder.gep(data, [i]), ir.VectorType(lane, lanes).as_pointer())


def splat(builder, value, lanes):
    """Return a vector whose `lanes` values are all the same one."""
    i32 = ir.IntType(32)
    one = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    one = builder.insert_element(one, value, i32(0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(i32, lanes), [0] * lanes))


def comparison(sign):
    """Return a function that compares LANES values from the i-th on with one: a bit each."""

    @intrinsic
    def compare(context, array, i, value):
        def codegen(target, builder, signature, args):
            lane = target.get_data_type(array.dtype)
            left = vector(target, builder, array, args[0], args[1], lane, LANES)
            left = builder.load(left, align=array.dtype.bitwidth // 8)
            right = splat(builder, args[2], LANES)
            if isinstance(array.dtype, nb.types.Float):
                found = builder.fcmp_ordered(sign, left, right)
            else:
                icmp = builder.icmp_signed if array.dtype.signed else builder.icmp_unsigned
                found = icmp(sign, left, right)
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
def store_verdicts(context, match, full, verdicts, i):
    """Write the 64 verdicts from the i-th on, a byte each, from two words of 64 bits.

    A verdict is the sum of its bit in `match` (some row may match) and its bit in `full` (every
    row matches): 0 is NEVER, 1 is MAYBE, 2 is ALWAYS.
    """

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
