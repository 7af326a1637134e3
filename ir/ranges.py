"""Sets of values of one scalar: the ranges of its axis in which a test is TRUE.

A range [low, high) is cut before its ends; None lies beyond every value. On every axis, a cut after
a value can be written as a cut before the next one: integers and floats have a next value, and the
next text is the same text followed by a zero byte.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np

from skipstone.ir.coercion.thresholds import never
from skipstone.ir.like import after_prefix, pattern_of
from skipstone.ir.node import Node, Op
from skipstone.ir.outcome import Outcome
from skipstone.ir.simplify import is_in
from skipstone.ir.types import DType, Kind

Range: TypeAlias = tuple[Any, Any]
EVERYTHING: Final[tuple[Range, ...]] = ((None, None),)
MAX_NAN_CUTS: Final = 8  # single floats that ranges may exclude to keep NaN apart
# Limit of the members of an IN list and of the ranges of a set. Longer ones are left unchanged.
MAX_RANGES: Final = 4096


@dataclass(frozen=True, slots=True)
class ValueSet:
    """The values of a scalar for which a predicate is TRUE, whatever the scalar is.

    Attributes:
        ranges: The ranges where it is TRUE, NULL and NaN aside: disjoint, ascending, not touching.
        nan: It is TRUE for NaN.
        null: Its outcome where the scalar is NULL.
    """

    ranges: tuple[Range, ...]
    nan: bool
    null: Outcome = None


def after(v: Any, dtype: DType) -> Any:
    """Return the least value above v; None if there is none."""
    if isinstance(v, bytes):
        return v + b"\0"
    if dtype.kind is Kind.FLOAT:
        if v == math.inf:
            return None
        numpy_type = np.dtype(dtype.numpy_type).type
        with np.errstate(over="ignore", under="ignore"):
            return float(np.nextafter(numpy_type(v), numpy_type(math.inf))) + 0.0
    return None if v == dtype.highest else v + 1


def _before(v: float, dtype: DType) -> float:
    """Return the greatest float below v."""
    numpy_type = np.dtype(dtype.numpy_type).type
    with np.errstate(over="ignore", under="ignore"):
        return float(np.nextafter(numpy_type(v), numpy_type(-math.inf))) + 0.0


def _cut_before(v: Any, dtype: DType) -> Any:
    """Return a cut before v; None if no value lies before it."""
    return None if v == dtype.lowest else v


def value_set_of(n: Node) -> ValueSet | None:
    """Return the set of values that pass a test on one scalar; None if its list is too long."""
    if n.op is Op.IS_NULL:
        return ValueSet((), False, True)
    dtype = n.args[0].dtype
    assert dtype is not None
    v = n.args[1].value if len(n.args) > 1 else None
    match n.op:
        case Op.DEFINED:
            return ValueSet(EVERYTHING, True)
        case Op.NAN:
            return ValueSet((), True)
        case Op.LT:
            return ValueSet(_below(v, dtype), False)
        case Op.LE:
            return ValueSet(_below(after(v, dtype), dtype), False)
        case Op.GT:
            high = after(v, dtype)
            return ValueSet(() if high is None else ((high, None),), True)
        case Op.GE:
            return ValueSet(((_cut_before(v, dtype), None),), True)
        case Op.EQ:
            return ValueSet(((_cut_before(v, dtype), after(v, dtype)),), False)
        case Op.IN:
            assert isinstance(n.value, tuple)
            if len(n.value) > MAX_RANGES:
                return None
            return ValueSet(_single_values(n.value, dtype), False)
        case Op.LIKE:
            prefix = pattern_of(n).prefix.encode()
            return ValueSet(
                ((_cut_before(prefix, dtype), after_prefix(prefix) if prefix else None),), False
            )
    raise AssertionError(n.op)


def _single_values(values: tuple[Any, ...], dtype: DType) -> tuple[Range, ...]:
    """Return the ranges that hold exactly some values, given in ascending order."""
    highest = None if dtype.kind is Kind.FLOAT else dtype.highest
    if highest is None:
        return union((_cut_before(v, dtype), after(v, dtype)) for v in values)
    out: list[Range] = []
    first = last = values[0]
    for v in values[1:]:
        if v != last + 1:
            out.append((first, last + 1))
            first = v
        last = v
    out.append((first, None if last == highest else last + 1))
    return ((_cut_before(out[0][0], dtype), out[0][1]), *out[1:])


def _below(high: Any, dtype: DType) -> tuple[Range, ...]:
    """Return the range of all values below a cut; no range if there is no such value."""
    return () if high == dtype.lowest else ((None, high),)


def union(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Merge ranges that overlap or touch."""
    out: list[list[Any]] = []
    for low, high in sorted(
        ranges, key=lambda r: (r[0] is not None, r[0] if r[0] is not None else 0)
    ):
        if out and (out[-1][1] is None or (low is None or low <= out[-1][1])):
            if out[-1][1] is not None and (high is None or high > out[-1][1]):
                out[-1][1] = high
        else:
            out.append([low, high])
    return tuple((a, b) for a, b in out)


def complement(ranges: tuple[Range, ...]) -> tuple[Range, ...]:
    """Return the ranges of all values outside of the given ranges."""
    out: list[Range] = []
    at: Any = None
    for low, high in ranges:
        if low is not None:
            out.append((at, low))
        at = high
        if high is None:
            return tuple(out)
    return (*out, (at, None))


def negated(p: ValueSet) -> ValueSet:
    """Return NOT p."""
    return ValueSet(complement(p.ranges), not p.nan, None if p.null is None else not p.null)


def combined(op: Op, sets: list[ValueSet]) -> ValueSet:
    """Return the AND or OR of sets over one scalar."""
    if len(sets) == 1:
        return sets[0]
    if op is Op.AND:
        return negated(combined(Op.OR, [negated(p) for p in sets]))
    nulls = [p.null for p in sets]
    null = True if True in nulls else None if None in nulls else False
    return ValueSet(union(r for p in sets for r in p.ranges), any(p.nan for p in sets), null)


def is_true(p: ValueSet) -> ValueSet:
    """Return p IS TRUE."""
    return replace(p, null=p.null is True)


def is_null(p: ValueSet) -> ValueSet:
    """Return p IS NULL."""
    return ValueSet((), False, p.null is None)


def as_tests(p: ValueSet, term: Node, members: int) -> Node:
    """Write a set of values as tests of its scalar.

    Args:
        p: The set.
        term: The scalar.
        members: The most single values, besides ranges, to write as a list.
    """
    values = _value_tests(p, term, members)
    if p.null is None:
        return values
    # TRUE where NULL: the predicate is not FALSE. OR with a null test means the same, but its two
    # inputs would be judged independently.
    if not p.null:
        return Node(Op.IS_TRUE, (values,))
    return Node(Op.NOT, (Node(Op.IS_TRUE, (Node(Op.NOT, (values,)),)),))


def _value_tests(p: ValueSet, term: Node, members: int) -> Node:
    dtype = term.dtype
    assert dtype is not None
    has_nan = dtype.kind is Kind.FLOAT
    nan = p.nan and has_nan
    is_nan = Node(Op.NAN, (term,))
    if p.ranges == EVERYTHING:
        return Node(Op.DEFINED, (term,)) if nan or not has_nan else Node(Op.NOT, (is_nan,))
    if not p.ranges:
        return is_nan if nan else never(term)
    if (listed := few_members(p.ranges, dtype, members)) is not None and (
        not nan or len(listed) > MAX_NAN_CUTS
    ):
        test = is_in(term, listed)
        return Node(Op.OR, (test, is_nan)) if nan else test
    if (listed := few_members(complement(p.ranges), dtype, members)) is not None and (
        nan or not has_nan or len(listed) > MAX_NAN_CUTS
    ):
        others = Node(Op.NOT, (is_in(term, listed),))
        return others if nan or not has_nan else Node(Op.AND, (others, Node(Op.NOT, (is_nan,))))
    if nan and (len(p.ranges) > 1 or p.ranges[0][1] is not None):
        # Written as a negation, so that NaN is in none of the parts. Otherwise one part would
        # include it.
        return Node(Op.NOT, (_value_tests(negated(p), term, members),))
    parts = [_range_test(low, high, term, nan) for low, high in p.ranges]
    return parts[0] if len(parts) == 1 else Node(Op.OR, tuple(parts))


def few_members(ranges: tuple[Range, ...], dtype: DType, most: int) -> list[Any] | None:
    """Return the members of ranges that hold few values; None if there are too many."""
    out: list[Any] = []
    for low, high in ranges:
        v = dtype.lowest if low is None else low
        if high is None and dtype.highest is None:
            return None
        while len(out) <= most:
            out.append(v)
            v = after(v, dtype)
            if v == high or v is None:
                break
            if not isinstance(v, int):
                return None  # more than one value of a continuous axis
        if len(out) > most:
            return None
    return out


def _range_test(low: Any, high: Any, term: Node, nan: bool) -> Node:
    """Write a range as a test. With `nan` it may include NaN, which lies above every number."""
    dtype = term.dtype
    ends: list[Node] = []
    if (
        dtype is not None
        and dtype.kind is Kind.FLOAT
        and low is not None
        and (high is not None or not nan)
    ):
        # Two tests would be judged independently, and NaN passes the first of them.
        last = math.inf if high is None else _before(high, dtype)
        if low == last:
            return is_in(term, [low])
        return Node(
            Op.WITHIN, (term, *(Node(Op.LITERAL, value=v, dtype=dtype) for v in (low, last)))
        )
    if low is not None:
        if high is not None and dtype is not None and after(low, dtype) == high:
            return is_in(term, [low])
        ends.append(Node(Op.GE, (term, Node(Op.LITERAL, value=low, dtype=dtype))))
    if high is not None:
        whole = isinstance(high, int)
        ends.append(
            Node(
                Op.LE if whole else Op.LT,
                (term, Node(Op.LITERAL, value=high - 1 if whole else high, dtype=dtype)),
            )
        )
    return ends[0] if len(ends) == 1 else Node(Op.AND, tuple(ends))
