"""One walk from a kernel's shape to source text, for every backend; a backend is a table.

The text has two levels. Lanes: comparisons, one answer per container, joined inside one loop.
Words: 64 packed answers at a time, where planes join in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from skipstone.ir.node import Node, Op
from skipstone.ir.simplify import FALSE, TRUE

Table = Mapping[Op, str]

INPUTS = {Op.ARRAY: "x{0}", Op.PARAM: "p{0}", Op.SET: "s{0}", Op.PLANE: "k{0}"}
# What every backend must be able to write; tests/kernels/test_backends.py holds them to it.
REQUIRED = (Op.LT, Op.LE, Op.GT, Op.GE, Op.AND, Op.OR, Op.ANY_IN, Op.NOT_ALL_IN)


@dataclass(frozen=True, slots=True)
class Mask:
    """Lane tests that share one mask.

    Attributes:
        op: AND or OR, how the tests join; AND when there is one.
        tests: Their text.
        arrays: Per test the numbers of the arrays that it reads.
    """

    op: Op
    tests: tuple[str, ...]
    arrays: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Body:
    """The text of a kernel, but for the loops around it.

    Attributes:
        masks: Mask i, packed, is the words `m{i}`.
        outputs: Per root its word expression over masks and planes `k0`, ...; None for a constant.
    """

    masks: tuple[Mask, ...]
    outputs: tuple[str | None, ...]


def emit(roots: tuple[Node, ...], table: Table) -> Body:
    """Write a kernel's text.

    Args:
        roots: `Launch.roots`.
        table: The backend's operations, as templates over their inputs' text.
    """
    masks: dict[Node, Mask] = {}

    def text(n: Node) -> str:
        if n.op in INPUTS:
            return INPUTS[n.op].format(input_number(n))
        if n.op is Op.PACK:
            masks.setdefault(n, mask(n.args[0]))
            return f"m{list(masks).index(n)}"
        if n.op in (Op.ANY_IN, Op.NOT_ALL_IN) and n.args[2].op is Op.PARAM:
            return emit_runs(n.op, [text(a) for a in n.args], table)
        return join(n.op, [text(a) for a in n.args], table, n.value)

    def mask(n: Node) -> Mask:
        tests = n.args if n.op in (Op.AND, Op.OR) else (n,)
        arrays = tuple(tuple(input_number(a) for a in t.args if a.op is Op.ARRAY) for t in tests)
        return Mask(n.op if len(tests) > 1 else Op.AND, tuple(map(text, tests)), arrays)

    outputs = tuple(None if r in (TRUE, FALSE) else text(r) for r in roots)
    return Body(tuple(masks.values()), outputs)


def join(op: Op, args: list[str], table: Table, value: object = None) -> str:
    """One operation's text; AND and OR take any number of inputs, joined in halves: Python refuses text 200 parentheses deep."""
    if op not in (Op.AND, Op.OR):
        return table[op].format(*args, value=value)
    half = len(args) // 2
    return (
        args[0]
        if len(args) == 1
        else table[op].format(join(op, args[:half], table), join(op, args[half:], table))
    )


def emit_runs(op: Op, args: list[str], table: Table) -> str:
    """A test against a few runs: of a lower and an upper bound, and of each run its first and last value."""
    low, high, *ends = args
    one, outer, a, b = (
        (Op.AND, Op.OR, Op.LE, Op.GE) if op is Op.ANY_IN else (Op.OR, Op.AND, Op.LT, Op.GT)
    )
    pairs = list(zip(ends[::2], ends[1::2], strict=True))
    # Some run meets the range; or it sticks out of every one.
    near = [(last, first) if op is Op.ANY_IN else (first, last) for first, last in pairs]
    return join(
        outer,
        [table[one].format(table[a].format(low, x), table[b].format(high, y)) for x, y in near],
        table,
    )


def input_lanes(roots: tuple[Node, ...], op: Op) -> list[str]:
    """The lane types of one kind of input, by number."""
    found = {input_number(n): n.value[1] for r in roots for n in r.walk() if n.op is op}  # type: ignore[index]
    return [found[i] for i in sorted(found)]


def input_number(n: Node) -> int:
    """Of an input, among those of its kind."""
    assert isinstance(n.value, tuple)
    return int(n.value[0])
