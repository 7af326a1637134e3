"""The oracle: judge one container in plain Python, slowly and obviously. It defines the answer.

It reads the bound predicate, not the Program, and raw statistics, not packed columns. It shares
rewrites of predicates with lowering (`merge`, `guarantees`, the prefixes of LIKE patterns), and no
code with packing and the backends.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from skipstone.ir.guarantee import guarantees
from skipstone.ir.like import after_prefix, pattern_of
from skipstone.ir.merge import merge
from skipstone.ir.node import Node, Op, Path, statistics_key
from skipstone.ir.outcome import Outcome, Verdict, verdict_of
from skipstone.ir.types import DType, Kind

Axis = int | float | bytes


@dataclass(frozen=True)
class ColumnFacts:
    """The values that a container's statistics allow in a column.

    Unusable statistics have been dropped. `low` and `high` bound the values that are neither NULL
    nor NaN. If `high` is None, there is no upper bound.
    """

    low: Axis
    high: Axis | None
    may_hold_value: bool = True
    may_hold_null: bool = True
    may_hold_nan: bool = False
    contained: Callable[[tuple[object, ...]], bool | None] = lambda values: None
    may_raise: bool = False


def column_facts(
    dtype: DType,
    *,
    low: Axis | None = None,
    high: Axis | None = None,
    null_count: int | None = None,
    row_count: int | None = None,
    nan_count: int | None = None,
    container_rows: int | None = None,
    nullable: bool = True,
    parent_may_be_null: bool = False,
) -> ColumnFacts:
    """Derive the facts of one column in one container from raw statistics.

    Statistics are axis values or counts; None is unknown. A statistic that cannot be true becomes
    unknown, never an error. Statistics that contradict each other all become unknown.

    Args:
        dtype: The column's type.
        low, high: Bounds of its values.
        null_count, row_count, nan_count: Counts of NULLs, rows and NaNs.
        container_rows: Rows of the container, if `row_count` is unknown.
        nullable: The schema allows NULL.
        parent_may_be_null: A struct around the column may be NULL, which the column's null count
            does not show.
    """
    if row_count is None:
        row_count = container_rows
    floating = dtype.kind is Kind.FLOAT
    null_count, row_count, nan_count = (
        None if count is None or count < 0 else count
        for count in (null_count, row_count, nan_count if floating else None)
    )
    low, high = (None if isinstance(b, float) and math.isnan(b) else b for b in (low, high))
    if not dtype.ordered:
        low = high = None
    without_value = (null_count or 0) + (nan_count or 0)  # rows that hold no value
    bounded = low is not None or high is not None
    if row_count is not None and (
        without_value > row_count or (without_value == row_count and bounded)
    ):
        # Counts and bounds contradict each other, and nothing shows which of them are right.
        return ColumnFacts(
            dtype.lowest if dtype.ordered else 0,
            dtype.highest if dtype.ordered else 0,
            True,
            True,
            floating,
        )
    if low is not None and high is not None and low > high:  # type: ignore[operator]
        low = high = None
    if low is None:
        low = dtype.lowest if dtype.ordered else 0
    if high is None:
        high = dtype.highest if dtype.ordered else 0

    if row_count == 0:
        # The column has no values. If the container has rows anyway, the column is NULL there.
        return ColumnFacts(low, high, False, True, False)
    all_null = null_count is not None and null_count == row_count
    all_nan = (
        row_count is not None
        and nan_count is not None
        and (null_count or 0) + nan_count == row_count
    )
    may_hold_null = nullable if null_count is None else null_count > 0
    if all_nan and nan_count == row_count:
        may_hold_null = False
    may_hold_null = may_hold_null or parent_may_be_null
    may_hold_nan = floating and not all_null and (nan_count is None or nan_count > 0)
    return ColumnFacts(low, high, not (all_null or all_nan), may_hold_null, may_hold_nan)


def outcomes(n: Node, facts: Mapping[Path | Node, ColumnFacts]) -> frozenset[Outcome]:
    """Return every outcome that a bound predicate may have on some row of the container."""
    match n.op:
        case Op.LITERAL:
            return frozenset((None if n.value is None else bool(n.value),))
        case Op.UNKNOWN:
            return frozenset((True, False, None))
        case Op.NOT:
            return frozenset(None if o is None else not o for o in outcomes(n.args[0], facts))
        case Op.AND | Op.OR:
            combine = _sql_and if n.op is Op.AND else _sql_or
            result = outcomes(n.args[0], facts)
            for a in n.args[1:]:
                result = frozenset(
                    itertools.starmap(combine, itertools.product(result, outcomes(a, facts)))
                )
            return result
        case Op.BOTH:
            return outcomes(n.args[0], facts) & outcomes(n.args[1], facts)
        case Op.IS_TRUE:
            return frozenset(o is True for o in outcomes(n.args[0], facts))
        case Op.IS_NULL if n.args[0].op not in (Op.COLUMN, Op.CALL):
            return frozenset(o is None for o in outcomes(n.args[0], facts))
    f = facts[statistics_key(n.args[0])]
    return frozenset((True, False, None)) if f.may_raise else frozenset(_leaf(n, f))


def verdict(
    n: Node, facts: Mapping[Path | Node, ColumnFacts], container_rows: int | None = None
) -> Verdict:
    """Return the verdict of a bound predicate on one container.

    Args:
        n: The bound predicate.
        facts: The facts of each column and call that it tests, by `statistics_key`.
        container_rows: Rows of the container; 0 makes the verdict NEVER.
    """
    if container_rows == 0:
        return Verdict.NEVER
    literal_guarantees, merged = _prepared(n)
    if literal_guarantees is None:
        return Verdict.NEVER
    for path, values, excluded in literal_guarantees:
        if facts[path].contained(values) is excluded:
            return Verdict.NEVER
    return verdict_of(outcomes(merged, facts))


@lru_cache(maxsize=16)  # the containers of one predicate follow each other
def _prepared(n: Node) -> tuple[list[tuple[Path, tuple[Any, ...], bool]] | None, Node]:
    """Return a predicate's guarantees as (path, sorted values, excluded), and its merged form."""
    found = guarantees(n)
    if found is None:
        return None, n
    ordered = [(g.path, tuple(sorted(cast(Any, g.values))), g.kind == "not_in") for g in found]
    return ordered, merge(n)


def _sql_and(a: Outcome, b: Outcome) -> Outcome:
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


def _sql_or(a: Outcome, b: Outcome) -> Outcome:
    if a is True or b is True:
        return True
    return None if a is None or b is None else False


def _leaf(n: Node, f: ColumnFacts) -> set[Outcome]:
    out: set[Outcome] = set()
    if n.op is Op.IS_NULL:
        if f.may_hold_null:
            out.add(True)
        if f.may_hold_value or f.may_hold_nan:
            out.add(False)
        return out
    if f.may_hold_null:
        out.add(None)
    if f.may_hold_nan:
        # NaN is greater than every number and equal to itself.
        out.add(n.op in (Op.GT, Op.GE, Op.NAN, Op.DEFINED))
    if f.may_hold_value:
        out |= _value_outcomes(n, f)
    return out


def _value_outcomes(n: Node, f: ColumnFacts) -> set[Outcome]:
    """Return the outcomes over all values v with low <= v <= high."""
    low, high = f.low, f.high

    # Each returns True if some value lies there.
    def below(v: object) -> bool:
        return low < v  # type: ignore[operator]

    def at_most(v: object) -> bool:
        return low <= v  # type: ignore[operator]

    def at_least(v: object) -> bool:
        return high is None or high >= v  # type: ignore[operator]

    def above(v: object) -> bool:
        return high is None or high > v  # type: ignore[operator]

    v = n.args[1].value if len(n.args) > 1 else None
    match n.op:
        case Op.DEFINED:
            return {True}
        case Op.NAN:
            return {False}
        case Op.LT:
            return _pair(below(v), at_least(v))
        case Op.LE:
            return _pair(at_most(v), above(v))
        case Op.GT:
            return _pair(above(v), at_most(v))
        case Op.GE:
            return _pair(at_least(v), below(v))
        case Op.EQ:
            contained = f.contained((v,))
            inside = at_most(v) and at_least(v) and contained is not False
            outside = (below(v) or above(v)) and contained is not True
            return _pair(inside, outside)
        case Op.IN:
            assert isinstance(n.value, tuple)
            contained = f.contained(n.value)
            within = [m for m in n.value if at_most(m) and at_least(m)]
            assert n.dtype
            if n.dtype.discrete:
                covered = len(within) == high - low + 1  # type: ignore[operator]
            else:
                covered = low == high and bool(within)
            return _pair(
                bool(within) and contained is not False, not covered and contained is not True
            )
        case Op.WITHIN:
            last = n.args[2].value
            return _pair(at_least(v) and at_most(last), below(v) or above(last))
        case Op.LIKE:
            pattern = pattern_of(n)
            prefix = pattern.prefix.encode()
            after = after_prefix(prefix) if prefix else None
            inside = at_least(prefix) and (after is None or below(after))
            outside = below(prefix) or (after is not None and at_least(after))
            return _pair(inside, outside)
    raise AssertionError(n.op)


def _pair(true: bool, false: bool) -> set[Outcome]:
    possible: set[Outcome] = set()
    if true:
        possible.add(True)
    if false:
        possible.add(False)
    return possible
