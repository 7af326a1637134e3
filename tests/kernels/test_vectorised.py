"""Test LLVM's code of the main shapes: compares of whole vectors into bits, no scalar lanes."""

import platform
import re
import sys

import llvmlite.binding as llvm
import numba
import pytest

from skipstone.ir.node import Node, Op
from skipstone.kernels.run import compile_cache, numba_text
from skipstone.kernels.run.compile_cache import Shape

X86 = platform.machine() in ("x86_64", "AMD64")
WIDE = X86 and llvm.get_host_cpu_features().get("avx512bw", False)


def compare(op, array, numpy_type):
    return Node(
        op, (Node(Op.ARRAY, value=(array, numpy_type)), Node(Op.PARAM, value=(array, numpy_type)))
    )


def between(numpy_type, first=0):
    return Node(
        Op.PACK,
        (Node(Op.AND, (compare(Op.GE, first, numpy_type), compare(Op.LT, first + 1, numpy_type))),),
    )


SHAPES = {
    "range": lambda numpy_type: (between(numpy_type),),
    "two ranges": lambda numpy_type: (
        Node(
            Op.PACK,
            (Node(Op.AND, tuple(t for i in (0, 2) for t in between(numpy_type, i).args[0].args)),),
        ),
    ),
    "or of two": lambda numpy_type: (Node(Op.OR, (between(numpy_type), between(numpy_type, 2))),),
    "three outcomes": lambda numpy_type: (
        between(numpy_type),
        Node(
            Op.PACK, (Node(Op.OR, (compare(Op.LT, 0, numpy_type), compare(Op.GE, 1, numpy_type))),)
        ),
    ),
}


def assembly(shape):
    """Return the machine code of a shape, compiled here: loaded code cannot be inspected."""
    text = numba_text.source_of(shape)
    module = compile_cache._module(text)
    compile_cache.execute(module, text)
    sys.modules[module.__name__] = module
    (text,) = numba.njit(module.SIGNATURE, **module.JIT)(module.kernel).inspect_asm().values()
    return text


def compares(text):
    """Return the compares of the kernel as (instruction, operands)."""
    return re.findall(r"^\s+(v?p?cmp\w*|vp?cmp\w+)\s+(.*)$", text, re.MULTILINE)


@pytest.mark.skipif(not X86, reason="the names of instructions are those of x86-64")
@pytest.mark.parametrize(
    ("name", "numpy_type", "many"),
    [
        *((name, numpy_type, False) for name in SHAPES for numpy_type in ("int64", "uint16")),
        ("range", "int32", False),
        ("range", "float64", False),
        ("range", "int64", True),
        ("three outcomes", "int32", True),
    ],
)
def test_compares_take_whole_vectors(name, numpy_type, many):
    text = assembly(Shape(SHAPES[name](numpy_type), many))
    found = compares(text)
    register = "zmm" if WIDE else "mm"
    vectors = [c for c in found if register in c[1]]
    tests = sum(
        n.op in (Op.LT, Op.LE, Op.GT, Op.GE)
        for n in {n for root in SHAPES[name](numpy_type) for n in root.walk()}
    )
    assert len(vectors) >= tests, found
    if WIDE:
        # Into a mask register: a bit for each lane.
        assert all("%k" in operands for _, operands in vectors)
        # The other compares are of counters, sizes and ends of arrays, more on processors for which
        # LLVM unrolls. Scalar lanes would give 64 for each test, or a loop with one.
        scalars = [c for c in found if c not in vectors]
        assert all(operation.startswith("cmp") for operation, _ in scalars) and len(scalars) < 64, (
            scalars
        )
        assert not re.search(r"\bv(u?comis|pextr)", text)
