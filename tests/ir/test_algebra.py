"""Three-bit algebra: outcomes combine as sets, and lowering equals the set product."""

import itertools
import re

import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.ir.evaluation import oracle
from skipstone.ir.lower import Want, condition_of, lower
from skipstone.ir.merge import merge
from skipstone.ir.node import Node, Op, unknown
from skipstone.ir.outcome import Verdict, verdict_of
from skipstone.ir.simplify import FALSE, NULL, TRUE
from skipstone.kernels.pack.planes import mask_of
from skipstone.kernels.run.prepare import prepare
from skipstone.kernels.run.run import run
from tests.support.predicates.algebra import (
    AND,
    IS_NULL,
    IS_TRUE,
    KLEENE,
    NOT,
    OR,
    A,
    B,
    C,
    F,
    N,
    T,
    facts_of,
    product,
)

SETS = [frozenset(s) for k in (1, 2, 3) for s in itertools.combinations((T, F, N), k)]
MEANING = {
    Want.TRUE: {T},
    Want.FALSE: {F},
    Want.NULL: {N},
    Want.NOT_TRUE: {F, N},
    Want.NOT_FALSE: {T, N},
}


@pytest.mark.parametrize("a, b, conjunction, disjunction", KLEENE)
def test_single_outcomes(a, b, conjunction, disjunction):
    p, q = ({T: TRUE, F: FALSE, N: NULL}[o] for o in (a, b))
    assert oracle.outcomes(Node(Op.AND, (p, q)), {}) == {conjunction}
    assert oracle.outcomes(Node(Op.OR, (p, q)), {}) == {disjunction}


#    outcomes   verdict
VERDICTS = [
    ({T}, Verdict.ALWAYS),
    ({F}, Verdict.NEVER),
    ({N}, Verdict.NEVER),
    ({F, N}, Verdict.NEVER),
    ({T, F}, Verdict.MAYBE),
    ({T, N}, Verdict.MAYBE),
    ({T, F, N}, Verdict.MAYBE),
]


@pytest.mark.parametrize("outcomes, verdict", VERDICTS)
def test_verdicts(outcomes, verdict):
    assert verdict_of(outcomes) is verdict


# Operands: boolean columns, whose statistics can allow any set of outcomes.


def holds(n, facts):
    """Evaluate a program's condition on one container, in plain Python."""
    match n.op:
        case Op.AND | Op.OR:
            return (all if n.op is Op.AND else any)(holds(a, facts) for a in n.args)
        case Op.LITERAL:
            return n.value == 1
        case Op.MAY_HOLD_ROWS | Op.MAY_CONTAIN | Op.MAY_CONTAIN_OTHER:
            return True
        case Op.MAY_HOLD_VALUE:
            return facts[n.value].may_hold_value
        case Op.MAY_HOLD_NULL:
            return facts[n.value].may_hold_null
    slot, lit = n.args
    bound = facts[slot.value].low if slot.op is Op.MIN else facts[slot.value].high
    return {
        Op.LT: bound < lit.value,
        Op.LE: bound <= lit.value,
        Op.GT: bound > lit.value,
        Op.GE: bound >= lit.value,
    }[n.op]


UNKNOWN = unknown("f(x)", "a test")
SHAPES = [
    A, NOT(A), IS_TRUE(A), IS_NULL(A), NOT(IS_TRUE(A)), NOT(IS_NULL(A)), IS_TRUE(NOT(A)),
    IS_NULL(NOT(A)), IS_TRUE(IS_NULL(A)), IS_NULL(IS_TRUE(A)),
    AND(A, B), OR(A, B), NOT(AND(A, B)), NOT(OR(A, B)), AND(NOT(A), B), OR(A, NOT(B)),
    IS_TRUE(AND(A, B)), IS_TRUE(OR(A, NOT(B))), IS_NULL(AND(A, B)), IS_NULL(OR(A, B)),
    NOT(IS_NULL(AND(NOT(A), B))), NOT(IS_TRUE(OR(A, B))),
    AND(IS_NULL(A), B), OR(IS_NULL(A), IS_TRUE(B)), AND(A, TRUE), AND(A, FALSE), AND(A, NULL),
    OR(A, NULL),
    AND(A, UNKNOWN), OR(A, UNKNOWN), NOT(UNKNOWN), IS_NULL(UNKNOWN),
    AND(A, B, C), OR(A, B, C), NOT(AND(A, B, C)), IS_NULL(AND(A, B, C)), IS_NULL(OR(A, B, C)),
    AND(A, OR(B, C)), OR(A, AND(B, C)), NOT(AND(A, NOT(OR(B, C)))), IS_TRUE(AND(OR(A, B), NOT(C))),
    IS_NULL(OR(AND(A, B), C)), IS_NULL(NOT(AND(OR(A, B), C))),
    OR(IS_NULL(AND(A, B)), NOT(C)), AND(IS_TRUE(OR(A, B)), IS_NULL(C)),
    IS_NULL(AND(IS_TRUE(A), OR(B, C))),
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=range(len(SHAPES)))
def test_lowering_equals_the_set_product(shape):
    used = sorted({n.value for n in shape.walk() if n.op is Op.COLUMN})
    for chosen in itertools.product(SETS, repeat=len(used)):
        sets = dict(zip(used, chosen, strict=True))
        facts = {path: facts_of(s) for path, s in sets.items()}
        expected = product(shape, sets)
        assert oracle.outcomes(shape, facts) == expected
        for want, outcomes in MEANING.items():
            assert holds(condition_of(shape, want), facts) == bool(expected & outcomes), (
                want,
                sets,
            )
        program = lower(shape)
        assert (holds(program.can_match, facts), holds(program.can_miss, facts)) == (
            T in expected,
            bool(expected - {T}),
        )


PATTERNS = ("%b", "a%b", "a_", "_", "%", "", "a", "a%", "%a%", "b_%")


@pytest.mark.parametrize("merged", [False, True], ids=["as it is", "merged"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_are_sound_with_and_without_merging(pattern, merged):
    schema = pa.schema([("s", pa.string())])
    node = ss.PruningPredicate(f"s LIKE '{pattern}'", schema).node
    program = lower(merge(node) if merged else node)
    texts = ["", "a", "ab", "abc", "b", "bb", "xb"]
    fits = [re.fullmatch(pattern.replace("%", ".*").replace("_", "."), t) for t in texts]
    stats = ss.Statistics.from_dict(
        {"s": {"min": texts, "max": texts, "null_count": [0] * len(texts)}}, schema
    )
    can_match, can_miss = (mask_of(p, len(texts)) for p in run(prepare(program, stats)).planes)
    for text, fit, match, miss in zip(texts, fits, can_match, can_miss, strict=True):
        assert match if fit else miss, text


def test_every_set_of_outcomes_is_tried():
    assert len(SETS) == 7
    assert all(oracle.outcomes(A, {("b0",): facts_of(s)}) == s for s in SETS)


def test_pruning_builds_one_condition():
    assert lower(AND(A, B), with_can_miss=False).can_miss is None
