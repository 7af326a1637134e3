"""Truth tables of three-valued logic."""

import itertools

from skipstone.ir import types as ty
from skipstone.ir.evaluation.oracle import ColumnFacts
from skipstone.ir.node import Node, Op, literal

T, F, N = True, False, None


#  a  b  AND  OR    Source: DataFusion, "Boolean tri-state logic", made whole
KLEENE = [
    (T, T, T, T),
    (T, F, F, T),
    (T, N, N, T),
    (F, T, F, T),
    (F, F, F, F),
    (F, N, F, N),
    (N, T, N, T),
    (N, F, F, N),
    (N, N, N, N),
]


CONJUNCTION = {(a, b): c for a, b, c, _ in KLEENE}


DISJUNCTION = {(a, b): d for a, b, _, d in KLEENE}


def operand(i):
    column = Node(Op.COLUMN, value=(f"b{i}",), dtype=ty.BOOL)
    return Node(Op.EQ, (column, literal(1, ty.BOOL)))


def facts_of(outcomes):
    return ColumnFacts(
        0 if F in outcomes else 1, 1 if T in outcomes else 0, bool(outcomes - {N}), N in outcomes
    )


def product(n, sets):
    """Return the outcomes by definition, from every combination of the operands' outcomes."""
    match n.op:
        case Op.LITERAL:
            return {None if n.value is None else bool(n.value)}
        case Op.UNKNOWN:
            return {T, F, N}
        case Op.NOT:
            return {None if o is None else not o for o in product(n.args[0], sets)}
        case Op.IS_TRUE:
            return {o is True for o in product(n.args[0], sets)}
        case Op.IS_NULL:
            return {o is None for o in product(n.args[0], sets)}
        case Op.AND | Op.OR:
            table, (first, *rest) = (
                CONJUNCTION if n.op is Op.AND else DISJUNCTION,
                [product(a, sets) for a in n.args],
            )
            for other in rest:
                first = {table[pair] for pair in itertools.product(first, other)}
            return first
    return sets[n.args[0].value]


A, B, C = (operand(i) for i in range(3))


AND, OR = (lambda *a: Node(Op.AND, a)), (lambda *a: Node(Op.OR, a))


NOT, IS_TRUE, IS_NULL = (
    (lambda a: Node(Op.NOT, (a,))),
    (lambda a: Node(Op.IS_TRUE, (a,))),
    (lambda a: Node(Op.IS_NULL, (a,))),
)
