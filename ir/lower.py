"""Lowering: turn a bound predicate into a Program over statistics.

For each node of the predicate, each of the three outcome bits is a condition over statistics. Only
the bits that are needed are built. Besides TRUE (T), FALSE (F) and NULL (N), two unions have short
forms of their own: NOT_TRUE (U: FALSE or NULL) and NOT_FALSE (V: TRUE or NULL). For every kind of
input with at least one outcome they satisfy

    T(a AND b) = T(a) & T(b)        U(a AND b) = U(a) | U(b)
    F(a AND b) = F(a) | F(b)        V(a AND b) = V(a) & V(b)
    N(a AND b) = V(a) & V(b) & (N(a) | N(b))

OR is the mirror image (swap T with F, U with V, & with |). NOT swaps T with F and U with V.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from skipstone.ir.cached import cached_property
from skipstone.ir.errors import PredicateTooDeep
from skipstone.ir.guarantee import LiteralGuarantee, needed_elements
from skipstone.ir.like import after_prefix, pattern_of
from skipstone.ir.node import TERMS, Node, Op, literal, statistics_key
from skipstone.ir.simplify import FALSE, TRUE
from skipstone.ir.types import Kind

MAX_DEPTH: Final = 150  # Python's parser, which reads kernels, takes 200 nested parentheses
LEAF_DEPTH: Final = 24  # the depth of a test of one column that uses all its statistics


class Want(enum.Enum):
    """The outcome whose possibility a condition tests."""

    __hash__ = object.__hash__  # as in `Op`

    TRUE = "true"
    FALSE = "false"
    NULL = "null"
    NOT_TRUE = "not true"
    NOT_FALSE = "not false"


NEGATED: Final = {
    Want.TRUE: Want.FALSE,
    Want.FALSE: Want.TRUE,
    Want.NULL: Want.NULL,
    Want.NOT_TRUE: Want.NOT_FALSE,
    Want.NOT_FALSE: Want.NOT_TRUE,
}


# Unions of outcomes -> the outcomes.
UNIONS: Final = {Want.NOT_TRUE: (Want.FALSE, Want.NULL), Want.NOT_FALSE: (Want.TRUE, Want.NULL)}
WITH_TRUE: Final = (Want.TRUE, Want.NOT_FALSE)


@dataclass(frozen=True)
class Program:
    """Conditions over the statistics of one container, in single static assignment.

    Attributes:
        can_match: Some row may make the predicate TRUE. False prunes.
        can_miss: Some row may make it FALSE or NULL; None if it was not built.
    """

    can_match: Node
    can_miss: Node | None = None

    @property
    def roots(self) -> tuple[Node, ...]:
        """The conditions that were built, `can_match` first."""
        return (self.can_match,) if self.can_miss is None else (self.can_match, self.can_miss)

    @cached_property
    def derived(self) -> bool:
        """True if the program reads statistics that are derived for calls."""
        return any(isinstance(n.value, Node) for _, n, _ in self.steps())

    def steps(self) -> Iterator[tuple[int, Node, tuple[int, ...]]]:
        """Yield each distinct operation once, inputs first: (number, node, numbers of inputs)."""
        numbers: dict[Node, int] = {}
        for root in self.roots:
            stack = [(root, False)]
            while stack:
                node, ready = stack.pop()
                if node in numbers:
                    continue
                if ready or not node.args:
                    numbers[node] = len(numbers)
                    yield numbers[node], node, tuple(numbers[a] for a in node.args)
                else:
                    stack.append((node, True))
                    stack.extend((a, False) for a in reversed(node.args))

    def __str__(self) -> str:
        from skipstone.ir.node import show_path
        from skipstone.ir.text import show

        lines = []
        for i, n, args in self.steps():
            if n.op is Op.LITERAL:
                text = show(n)
            elif n.op in STATISTICS:
                value: Any = n.value
                source = show(value) if isinstance(value, Node) else show_path(value)
                text = f"{n.op.value} {source}"
            else:
                text = " ".join([n.op.value, *(f"%{a}" for a in args)])
            lines.append(f"%{i} = {text}")
        numbers = {n: i for i, n, _ in self.steps()}
        names = ("can match", "can miss")
        return "\n".join(
            lines + [f"{name}: %{numbers[r]}" for name, r in zip(names, self.roots, strict=False)]
        )


def lower(
    n: Node, guarantees: tuple[LiteralGuarantee, ...] | None = (), *, with_can_miss: bool = True
) -> Program:
    """Lower a bound predicate.

    Args:
        n: The bound predicate.
        guarantees: Its literal guarantees; a container that breaks one cannot match. None: they
            contradict each other.
        with_can_miss: Lower `can_miss` as well; pruning alone does not need it.

    Raises:
        PredicateTooDeep: kernels could not follow the nesting.
    """
    rows = Node(Op.MAY_HOLD_ROWS)
    if guarantees is None:
        return Program(FALSE, TRUE if with_can_miss else None)
    guaranteed = [
        Node(
            Op.MAY_CONTAIN if g.kind == "in" else Op.MAY_CONTAIN_OTHER,
            value=(g.path, g.values),
            dtype=g.dtype,
        )
        for g in guarantees
    ]
    program = Program(
        _and(rows, condition_of(n, Want.TRUE), *guaranteed),
        condition_of(n, Want.NOT_TRUE) if with_can_miss else None,
    )
    above = 1 + (len(guarantees) + 2).bit_length()
    if above + _deepest(n) > MAX_DEPTH and _depth(program) > MAX_DEPTH:
        raise PredicateTooDeep(
            "predicate is nested too deeply; expected at most 50 levels of alternating AND and OR"
        )
    return program


def _deepest(n: Node) -> int:
    """Return a depth that the program of a predicate does not exceed."""
    own = 2 * (1 + (len(n.args) + 1).bit_length())
    if n.op in (Op.AND, Op.OR, Op.NOT, Op.IS_TRUE, Op.IS_NULL, Op.BOTH):
        return own + max(map(_deepest, n.args), default=0)
    return LEAF_DEPTH


def _depth(program: Program) -> int:
    """Return the depth of a program in levels.

    An operation of k inputs counts as the tree of pairs that kernels make of it.
    """
    levels: list[int] = []
    for _, _, inputs in program.steps():
        levels.append(max((levels[i] for i in inputs), default=0) + 1 + len(inputs).bit_length())
    return max(levels)


def condition_of(n: Node, want: Want) -> Node:
    """Return the condition over statistics under which a bound predicate can have an outcome."""
    match n.op:
        case Op.LITERAL:
            outcome = Want.NULL if n.value is None else Want.TRUE if n.value else Want.FALSE
            return TRUE if outcome in UNIONS.get(want, (want,)) else FALSE
        case Op.UNKNOWN:
            return TRUE
        case Op.NOT:
            return condition_of(n.args[0], NEGATED[want])
        case Op.AND | Op.OR:
            return _combine(n, want)
        case Op.BOTH:
            outcomes = UNIONS.get(want, (want,))
            return _or(*(_and(*(condition_of(a, outcome) for a in n.args)) for outcome in outcomes))
        case Op.IS_TRUE:
            if want is Want.NULL:
                return FALSE
            return condition_of(n.args[0], Want.TRUE if want in WITH_TRUE else Want.NOT_TRUE)
        case Op.IS_NULL if n.args[0].op not in TERMS:
            if want is Want.NULL:
                return FALSE
            if want in WITH_TRUE:
                return condition_of(n.args[0], Want.NULL)
            return _or(condition_of(n.args[0], Want.TRUE), condition_of(n.args[0], Want.FALSE))
    term = n.args[0]
    test = _test(n, want)
    return _or(test, _statistic(Op.MAY_RAISE, term)) if term.op is Op.CALL else test


def _test(n: Node, want: Want) -> Node:
    """Return the condition for a test on one column or call, for rows that are known."""
    may_hold_null = _statistic(Op.MAY_HOLD_NULL, n.args[0])
    if n.op is Op.IS_NULL:
        if want is Want.NULL:
            return FALSE
        return may_hold_null if want in WITH_TRUE else _may_be_defined(n.args[0])
    if want is Want.NULL:
        return may_hold_null
    test = _leaf(n, want in WITH_TRUE)
    return _or(test, may_hold_null) if want in UNIONS else test


def _combine(n: Node, want: Want) -> Node:
    if want is Want.NULL:
        # The result is NULL if all inputs can avoid the deciding outcome and one of them is NULL.
        avoid = Want.NOT_FALSE if n.op is Op.AND else Want.NOT_TRUE
        return _and(
            *(condition_of(a, avoid) for a in n.args),
            _or(*(condition_of(a, Want.NULL) for a in n.args)),
        )
    all_must = (want in WITH_TRUE) is (n.op is Op.AND)
    return (_and if all_must else _or)(*(condition_of(a, want) for a in n.args))


STATISTICS: Final = (
    Op.MIN,
    Op.MAX,
    Op.MAY_HOLD_VALUE,
    Op.MAY_HOLD_NULL,
    Op.MAY_HOLD_NAN,
    Op.MAY_RAISE,
)


@functools.lru_cache(maxsize=1 << 12)
def _statistic(op: Op, term: Node) -> Node:
    return Node(op, value=statistics_key(term), dtype=term.dtype)


def _member(op: Op, column: Node, values: tuple[object, ...]) -> Node:
    """Return a provider's answer about a set as a statistic; TRUE for calls, which have none.

    A test that only an array with certain elements can pass asks about the elements.
    """
    if column.op is Op.CALL:
        found = needed_elements(column, values) if op is Op.MAY_CONTAIN else None
        if found is None:
            return TRUE
        column, values = found
    return Node(op, value=(column.value, values), dtype=column.dtype)


def _may_be_defined(column: Node) -> Node:
    """Return the condition that the column may hold a value that is not NULL."""
    return _or(_statistic(Op.MAY_HOLD_VALUE, column), *_may_hold_nan(column))


def _may_hold_nan(column: Node) -> tuple[Node, ...]:
    if column.dtype and column.dtype.kind is Kind.FLOAT:
        return (_statistic(Op.MAY_HOLD_NAN, column),)
    return ()


def _leaf(n: Node, true: bool) -> Node:
    """Return the condition under which a test on one column can be TRUE, or can be FALSE.

    NaN is greater than every number: it passes >= and >, and fails all other tests below.
    """
    column = n.args[0]
    may_hold_value, may_hold_nan = _statistic(Op.MAY_HOLD_VALUE, column), _may_hold_nan(column)
    match n.op:
        case Op.DEFINED:
            return _may_be_defined(column) if true else FALSE
        case Op.NAN:
            return _or(*may_hold_nan) if true else may_hold_value
        case Op.GE | Op.GT:  # the negations of < and <=
            return _leaf(Node(Op.LT if n.op is Op.GE else Op.LE, n.args), not true)
    if true:
        return _and(may_hold_value, *_some_value_passes(n))
    return _or(_and(may_hold_value, *_some_value_fails(n)), *may_hold_nan)


def _some_value_passes(n: Node) -> tuple[Node, ...]:
    """Return conditions that hold if some value between the bounds passes a test."""
    column, *literals = n.args
    low, high = _statistic(Op.MIN, column), _statistic(Op.MAX, column)
    match n.op:
        case Op.LT | Op.LE:  # some value is below v; the least is min:  min < v
            return (Node(n.op, (low, literals[0])),)
        case Op.EQ:  # v lies in [min, max]
            (v,) = literals
            within = Node(Op.LE, (low, v)), Node(Op.GE, (high, v))
            return *within, _member(Op.MAY_CONTAIN, column, (v.value,))
        case Op.IN:
            assert isinstance(n.value, tuple)
            any_in = Node(Op.ANY_IN, (low, high), n.value, column.dtype)
            return any_in, _member(Op.MAY_CONTAIN, column, n.value)
        case Op.WITHIN:
            first, last = literals
            return Node(Op.GE, (high, first)), Node(Op.LE, (low, last))
        case Op.LIKE:
            start, end = _prefix_range(n)
            return (
                *([] if start is None else [Node(Op.GE, (high, start))]),
                *([] if end is None else [Node(Op.LT, (low, end))]),
            )
    raise AssertionError(f"no lowering for {n.op}")  # spec.check_bound refuses it first


def _some_value_fails(n: Node) -> tuple[Node, ...]:
    """Return conditions that hold if some value between the bounds fails a test."""
    column, *literals = n.args
    low, high = _statistic(Op.MIN, column), _statistic(Op.MAX, column)
    match n.op:
        case Op.LT:  # some value is not below v; the greatest is max:  max >= v
            return (Node(Op.GE, (high, literals[0])),)
        case Op.LE:
            return (Node(Op.GT, (high, literals[0])),)
        case Op.EQ:  # unless every value is v:  min = v = max
            (v,) = literals
            other = _or(Node(Op.LT, (low, v)), Node(Op.GT, (high, v)))
            return other, _member(Op.MAY_CONTAIN_OTHER, column, (v.value,))
        case Op.IN:
            assert isinstance(n.value, tuple)
            not_all_in = Node(Op.NOT_ALL_IN, (low, high), n.value, column.dtype)
            return not_all_in, _member(Op.MAY_CONTAIN_OTHER, column, n.value)
        case Op.WITHIN:
            first, last = literals
            return (_or(Node(Op.LT, (low, first)), Node(Op.GT, (high, last))),)
        case Op.LIKE if not pattern_of(n).is_prefix:
            return ()  # any value may fail it
        case Op.LIKE:
            start, end = _prefix_range(n)
            return (
                _or(
                    *([] if start is None else [Node(Op.LT, (low, start))]),
                    *([] if end is None else [Node(Op.GE, (high, end))]),
                ),
            )
    raise AssertionError(f"no lowering for {n.op}")  # spec.check_bound refuses it first


def _prefix_range(n: Node) -> tuple[Node | None, Node | None]:
    """Return the range [p, after p) of the texts that start as a pattern does; None: no end.

    A pattern is tested by its start only; `merge` adds the rest.
    """
    dtype = n.args[0].dtype
    assert dtype
    prefix = pattern_of(n).prefix.encode()
    if not prefix:
        return None, None
    after = after_prefix(prefix)
    return literal(prefix, dtype), None if after is None else literal(after, dtype)


def _and(*args: Node) -> Node:
    return _join(Op.AND, args, TRUE, FALSE)


def _or(*args: Node) -> Node:
    return _join(Op.OR, args, FALSE, TRUE)


def _join(op: Op, args: Iterable[Node], neutral: Node, final: Node) -> Node:
    """Build a flat AND or OR without repeats and constants."""
    flat: dict[Node, None] = {}
    for a in args:
        for inner in a.args if a.op is op else (a,):
            if inner.op is not Op.LITERAL:
                flat[inner] = None
            elif inner == final:
                return final
            elif inner != neutral:
                flat[inner] = None
    if not flat:
        return neutral
    return next(iter(flat)) if len(flat) == 1 else Node(op, tuple(flat))
