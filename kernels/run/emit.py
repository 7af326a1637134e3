"""Write kernel source text from a shape, for every backend; a backend is a table of templates.

A kernel has two levels. The inner one compares containers, with one result each, and combines the
results of a container in one loop. The outer one combines words of 64 packed results with planes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from skipstone.ir.node import Node, Op
from skipstone.ir.simplify import FALSE, TRUE

Table = Mapping[Op, str]

INPUTS = {Op.ARRAY: "x{0}", Op.PARAM: "p{0}", Op.SET: "s{0}", Op.PLANE: "k{0}"}
# Every backend's table must have these operations; tests/kernels/test_backends.py checks that.
REQUIRED = (Op.LT, Op.LE, Op.GT, Op.GE, Op.AND, Op.OR, Op.ANY_IN, Op.NOT_ALL_IN)


class MaskTests(NamedTuple):
    """The tests whose results are packed into one mask.

    Attributes:
        op: AND or OR, which combines the tests; AND for a single test.
        tests: Their source text.
        arrays: For each test, the numbers of the arrays that it reads.
    """

    op: Op
    tests: tuple[str, ...]
    arrays: tuple[tuple[int, ...], ...]


class Body(NamedTuple):
    """The text of a kernel without the loops around it.

    Attributes:
        masks: Mask i, packed, becomes the words `m{i}`.
        outputs: For each root, its expression over masks and planes `k0`, ...; None for a constant.
    """

    masks: tuple[MaskTests, ...]
    outputs: tuple[str | None, ...]


def emit(roots: tuple[Node, ...], table: Table) -> Body:
    """Write the text of a kernel.

    Args:
        roots: `Launch.roots`.
        table: The backend's operations, as templates over the text of their inputs.
    """
    masks: dict[Node, MaskTests] = {}

    def text(n: Node) -> str:
        if n.op in INPUTS:
            return INPUTS[n.op].format(input_number(n))
        if n.op is Op.PACK:
            masks.setdefault(n, mask(n.args[0]))
            return f"m{list(masks).index(n)}"
        if n.op in (Op.ANY_IN, Op.NOT_ALL_IN) and n.args[2].op is Op.PARAM:
            return emit_runs(n.op, [text(a) for a in n.args], table)
        return join(n.op, [text(a) for a in n.args], table, n.value)

    def mask(n: Node) -> MaskTests:
        tests = n.args if n.op in (Op.AND, Op.OR) else (n,)
        arrays = tuple(tuple(input_number(a) for a in t.args if a.op is Op.ARRAY) for t in tests)
        return MaskTests(n.op if len(tests) > 1 else Op.AND, tuple(map(text, tests)), arrays)

    outputs = tuple(None if r in (TRUE, FALSE) else text(r) for r in roots)
    return Body(tuple(masks.values()), outputs)


def join(op: Op, args: list[str], table: Table, value: object = None) -> str:
    """Return the text of one operation.

    AND and OR take any number of inputs. They are split in halves, because Python refuses text with
    200 nested parentheses.
    """
    if op not in (Op.AND, Op.OR):
        return table[op].format(*args, value=value)
    half = len(args) // 2
    if len(args) == 1:
        return args[0]
    return table[op].format(join(op, args[:half], table), join(op, args[half:], table))


def emit_runs(op: Op, args: list[str], table: Table) -> str:
    """Return the text of a test against a few runs of values.

    Args:
        op: ANY_IN or NOT_ALL_IN.
        args: Texts of the lower bound, the upper bound, and the first and last value of each run.
        table: As in `emit`.
    """
    low, high, *ends = args
    one, outer, a, b = (
        (Op.AND, Op.OR, Op.LE, Op.GE) if op is Op.ANY_IN else (Op.OR, Op.AND, Op.LT, Op.GT)
    )
    pairs = list(zip(ends[::2], ends[1::2], strict=True))
    # ANY_IN: some run overlaps the bounds. NOT_ALL_IN: the bounds exceed every run.
    near = [(last, first) if op is Op.ANY_IN else (first, last) for first, last in pairs]
    return join(
        outer,
        [table[one].format(table[a].format(low, x), table[b].format(high, y)) for x, y in near],
        table,
    )


def input_types(roots: tuple[Node, ...], op: Op) -> list[str]:
    """Return the NumPy types of the inputs of one kind, ordered by input number."""
    inputs = (n for r in roots for n in r.walk() if n.op is op)
    found = {input_number(n): n.value[1] for n in inputs}  # type: ignore[index]
    return [found[i] for i in sorted(found)]


def input_number(n: Node) -> int:
    """Return the number of an input among the inputs of its kind."""
    assert isinstance(n.value, tuple)
    return int(n.value[0])
