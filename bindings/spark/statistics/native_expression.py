"""A program as one native Spark expression: SQL text that a table of operations makes, over statistics by name.

Spark parses text in a fraction of the time that building the same Column call by call takes through Java.
An unknown statistic is NULL, and every test says itself what it answers then, so no setting of Spark's (ANSI mode, time
zone, case, collation) has a say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.spark.session.session import functions_of, quiet, require_pyspark
from skipstone.bindings.spark.statistics.judge import Answer
from skipstone.bindings.spark.statistics.native_bounds import bound, count, literal
from skipstone.bindings.spark.statistics.places import StatisticColumn, assumed, located
from skipstone.bindings.spark.statistics.slots import Slot, slots_of
from skipstone.bindings.spark.statistics.udf import predicate_of
from skipstone.ir.errors import StatisticsError, UnsupportedForm
from skipstone.ir.lower import Program
from skipstone.ir.node import Node, Op, Path, show_path
from skipstone.ir.simplify import TRUE
from skipstone.ir.text import show
from skipstone.ir.types import DType, Kind, Leaf, leaves_of
from skipstone.kernels.pack.keys import runs_of
from skipstone.kernels.run.emit import join
from skipstone.kernels.run.launch import COMPARE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

# Calls alone: for each "(" of an operand, Spark's parser looks ahead to its ")" and keeps what it saw for good. 36
# conditions of 80 KB took 13 s and 415 MB of the driver so, and take 0.2 s and 5 MB as calls.
EMIT: Final = {
    Op.LT: "`<`({0}, {1})",
    Op.LE: "`<=`({0}, {1})",
    Op.GT: "`>`({0}, {1})",
    Op.GE: "`>=`({0}, {1})",
    Op.AND: "`and`({0}, {1})",
    Op.OR: "`or`({0}, {1})",
    Op.NOT: "`not`({0})",
    # Of sorted runs, those that end below a lower bound are left behind by halves. NULL, an unknown bound, leaves none.
    Op.ANY_IN: "if(`>`({0}, {1}), {3}, {2})",
    Op.NOT_ALL_IN: "if(`>`({0}, {1}), {3}, {2})",
    Op.MAY_CONTAIN: "coalesce(exists({0}, {1} -> `or`(isnull({2}), `in`({2}, {3}))), true)",
    Op.MAY_CONTAIN_OTHER: "coalesce(`or`(`==`(size({0}), 0), exists({0}, {1} -> `or`(isnull({2}), `not`(`in`({2}, {3}))))), true)",
}
YES: Final = "true"
NO: Final = "false"
MEMBER: Final = "`skipstone member`"  # a lambda's variable; no column is likely to have that name

NONE: Final[frozenset[Path]] = frozenset()

Places = Mapping[tuple[Path, str], StatisticColumn]


def to_column(
    predicate: PruningPredicate | Any,
    columns: Mapping[str, Column | str] | None = None,
    *,
    schema: pa.Schema | StructType | None = None,
    answer: Answer = "verdict",
    df: DataFrame | None = None,
) -> Column:
    """What `evaluate` or `prune` says of a container, as one native Spark expression over its statistics.

    Nothing runs in Python, so Spark compiles it and may push it down. `with_verdict` does the same, and
    more: it judges with kernels where that is faster or needed.

    Args:
        predicate: A `PruningPredicate`; or what makes one, such as SQL text, together with `schema`.
        columns: Where statistics are: `{"x.min": "lowest_x", "row_count": "stats.n"}`. Without it they go by
            their own names, `x.min`, `x.max`, `x.null_count`, ...: all of `keep_udf(predicate).columns`.
        schema: The table's columns, for a predicate that is not bound to them yet.
        answer: "verdict", INT: 0 NEVER, 1 MAYBE, 2 ALWAYS; or "keep", BOOLEAN: false where no row can match.
        df: The DataFrame that it will be used on. Statistics that it lacks are then unknown, those of other types
            are used where they say something, and structs of statistics and value lists are found. Without it
            bounds are taken to have the columns' own types, counts to be whole numbers, and others are unknown.

    Returns:
        A Column, of Spark Connect where `df` or a Column in `columns` is.

    Raises:
        UnsupportedForm: the predicate has functions of columns, or `df` has bloom filters: kernels alone judge those.
        StatisticsError: as in `with_verdict`; or `columns` has a Column that is more than a name.

    Example:
        >>> df.where(to_column("x = 5", schema=table.schema, answer="keep", df=df))  # doctest: +SKIP
    """
    require_pyspark()
    with quiet():
        given = columns or {}
        predicate = predicate_of(predicate, schema, None if df is None else df.sparkSession)
        found = (
            assumed(predicate, given)
            if df is None
            else located(df, predicate.schema, slots_of(predicate, members=True), given)
        )
        for slot, place in found.items():
            if not place.name:
                raise StatisticsError(
                    f"columns= has an expression for {slot.name!r}; expected a column's name. "
                    "Give it one first, with df.withColumn, or use with_verdict, which takes expressions."
                )
        like = next(
            (c for c in (df, *given.values()) if c is not None and not isinstance(c, str)), None
        )
        column: Column = functions_of(like).expr(text_of(predicate, found, answer))
        return column


def text_of(
    predicate: PruningPredicate, found: Mapping[Slot, StatisticColumn], answer: Answer
) -> str:
    """The SQL text of `to_column`.

    Args:
        predicate: The condition.
        found: Where statistics are; all of them have names.
        answer: What it is to say.

    Raises:
        UnsupportedForm: the predicate has no native form over these.
    """
    program, places = (
        predicate.program,
        {(s.path, s.statistic): place for s, place in found.items()},
    )
    if (why := obstacle(program, places)) is not None:
        raise UnsupportedForm(
            f"{predicate.expr:.200} has no native Spark form: {why}. Use with_verdict with strategy='auto', 'arrow_udf', 'map_in_arrow' or 'pandas_udf'."
        )
    leaves = leaves_of(predicate.schema)
    roots = (program.can_match,) if answer == "keep" else program.roots

    def said(writer: _Writer) -> str:
        match, *miss = map(writer.text, roots)
        return choose(match, choose(miss[0], "1", "2"), "0") if miss else match

    writer = _Writer(places, leaves)
    return writer.guarded(NONE.union(*map(writer.asks, roots)), said)


def obstacle(program: Program, places: Places) -> str | None:
    """What of a program has no native form, in words; None: nothing."""
    for _, n, _ in program.steps():
        if isinstance(n.value, Node):
            return f"the statistics of {show(n.value)} are derived by kernels"
        if n.op in (Op.MAY_CONTAIN, Op.MAY_CONTAIN_OTHER) and (n.value[0], "bloom") in places:  # type: ignore[index]
            return f"the bloom filters of {show_path(n.value[0])} are probed by kernels"  # type: ignore[index]
    return None


def weight(program: Program) -> int:
    """How many tests an expression has; a set counts its runs."""

    def of(n: Node) -> int:
        if n.op not in (Op.ANY_IN, Op.NOT_ALL_IN) or n.dtype is None:
            return 1
        assert isinstance(n.value, tuple)
        return len(_runs(n.value, n.dtype)[0])

    return sum(of(n) for _, n, _ in program.steps())


class _Writer:
    """Writes conditions as text.

    Where a column's counts and bounds contradict each other, nobody knows which are right, and all are unknown.
    That is tested once for the largest part of a program that asks one column alone: around each of its
    tests, the text would be ten times as long, and Spark's planning with it.
    """

    def __init__(
        self, places: Places, leaves: Mapping[Path, Leaf], unknown: frozenset[Path] = NONE
    ) -> None:
        self.places, self.leaves = places, leaves
        self.unknown = unknown  # columns that contradict themselves
        self.trusted = NONE  # columns that do not
        self.written: dict[tuple[Node, frozenset[Path]], str] = {}
        self.asked: dict[Node, frozenset[Path]] = {}

    def asks(self, n: Node) -> frozenset[Path]:
        """The columns whose counts and bounds a condition asks; those of value lists alone are not among them."""
        if n not in self.asked:
            own = NONE
            if n.op in (Op.MAY_HOLD_VALUE, Op.MAY_HOLD_NULL, Op.MAY_HOLD_NAN, Op.MIN, Op.MAX):
                assert isinstance(n.value, tuple)
                own = frozenset({n.value})
            self.asked[n] = own.union(*map(self.asks, n.args))
        return self.asked[n]

    def guarded(self, columns: frozenset[Path], said: Callable[[_Writer], str]) -> str:
        """What `said` writes, once for a column that contradicts itself and once for one that does not."""
        if len(columns) != 1 or columns <= self.trusted | self.unknown:
            return said(self)
        (path,) = columns
        wrong = self.contradicts(path)
        before, self.trusted = self.trusted, self.trusted | columns
        plain = said(self)
        self.trusted = before
        if wrong == NO:
            return plain
        return f"if({wrong}, {said(_Writer(self.places, self.leaves, self.unknown | columns))}, {plain})"

    def text(self, n: Node) -> str:
        """A condition that is never NULL."""
        key = n, self.trusted
        if key not in self.written:
            self.written[key] = self.guarded(self.asks(n), lambda writer: writer._text(n))
        return self.written[key]

    def _text(self, n: Node) -> str:
        match n.op:
            case Op.LITERAL:
                return YES if n == TRUE else NO
            case Op.AND | Op.OR:
                return self.parts(n)
            case Op.MAY_HOLD_ROWS:
                rows = self.count((), "row_count")
                return YES if rows is None else f"coalesce({unequal(rows, '0')}, true)"
            case Op.MAY_HOLD_VALUE | Op.MAY_HOLD_NULL | Op.MAY_HOLD_NAN:
                return self.planes(n)[n.op]
            case Op.ANY_IN | Op.NOT_ALL_IN:
                return self.in_set(n)
            case Op.MAY_CONTAIN | Op.MAY_CONTAIN_OTHER:
                return self.membership(n)
        slot, lit = n.args
        return self.compare(n.op, slot, lit.value, self.given(slot))

    def parts(self, n: Node) -> str:
        """AND or OR: those parts together that ask the same columns."""
        groups: dict[frozenset[Path], list[Node]] = {}
        for arg in n.args:
            groups.setdefault(self.asks(arg), []).append(arg)
        combine = both if n.op is Op.AND else either
        return combine(
            *(
                self.guarded(columns, lambda writer, group=group: combine(*map(writer.text, group)))  # type: ignore[misc]
                for columns, group in groups.items()
            )
        )

    # Bounds.

    def given(self, slot: Node) -> str | None:
        """A bound as it came, NULL where it is unknown; None where it is everywhere."""
        assert isinstance(slot.value, tuple) and slot.dtype is not None
        if slot.value in self.unknown:
            return None
        high = slot.op is Op.MAX
        place = self.places.get((slot.value, "max" if high else "min"))
        return None if place is None else bound(place.name, place.type, slot.dtype, high=high)

    def compare(self, op: Op, slot: Node, value: Any, known: str | None) -> str:
        """A bound against a value; one that is unknown stands for the end of its type."""
        dtype = slot.dtype
        assert dtype is not None
        end = dtype.lowest if slot.op is Op.MIN else dtype.highest
        unknown = YES if end is None or COMPARE[op](end, value) else NO
        return (
            unknown
            if known is None
            else f"coalesce({EMIT[op].format(known, literal(value, dtype))}, {unknown})"
        )

    def in_set(self, n: Node) -> str:
        low, high = n.args
        a, b, values = self.given(low), self.given(high), n.value
        assert isinstance(values, tuple) and low.dtype is not None
        dtype = low.dtype
        firsts, lasts = _runs(values, dtype)

        def leaf(i: int) -> str:
            """The first run that does not end below the range: does it start within; does it not reach over all of it."""
            if n.op is Op.ANY_IN:
                return self.compare(Op.GE, high, firsts[i], b)
            return either(
                self.compare(Op.LT, low, firsts[i], a), self.compare(Op.GT, high, lasts[i], b)
            )

        def tree(first: int, last: int) -> str:
            """The first run that does not end below the lower bound is one of these, or, at the end, none."""
            if first == last or a is None:
                return leaf(first) if first < len(lasts) else none
            half = (first + last) // 2
            return EMIT[n.op].format(
                a, literal(lasts[half], dtype), tree(first, half), tree(half + 1, last)
            )

        none = NO if n.op is Op.ANY_IN else YES
        return tree(0, len(lasts))

    # Counts, as in `kernels/pack/counts.py`.

    def count(self, path: Path, statistic: str) -> str | None:
        """A count, NULL where it is unknown; None where it is everywhere."""
        place = self.places.get((path, statistic))
        return None if place is None else count(place.name, place.type)

    def planes(self, n: Node) -> dict[Op, str]:
        """Whether the column may hold a value, NULL, NaN."""
        path = n.value
        assert isinstance(path, tuple) and n.dtype is not None
        floating, leaf = n.dtype.kind is Kind.FLOAT, self.leaves[path]
        if path in self.unknown:
            return {
                Op.MAY_HOLD_VALUE: YES,
                Op.MAY_HOLD_NULL: YES,
                Op.MAY_HOLD_NAN: YES if floating else NO,
            }
        null, nan = (self.known(self.count(path, s)) for s in ("null_count", "nan_count"))
        rows = self.known(self.count(path, "row_count"), self.count((), "row_count"))
        counted, empty = holds("`>=`({0}, 0)", rows), holds("`==`({0}, 0)", rows)
        all_null = both(counted, holds("`==`({0}, {1})", null, rows))
        told = holds("`>`({0}, 0)", null)
        nulls = (unequal(null, "0") if null else YES) if leaf.nullable else told
        all_nan = NO
        if floating and rows and nan:
            others = (
                f"`-`({rows}, if(`and`(`>`({null}, 0), `<=`({null}, {rows})), {null}, 0))"
                if null
                else rows
            )
            all_nan = both(counted, f"`>=`({nan}, 0)", f"`==`({nan}, {others})")
            nulls = both(nulls, inverse(both(all_nan, holds("`==`({0}, {1})", nan, rows))))
        struct = self.leaves.get(path[:-1])
        above = len(path) > 1 and (struct is None or struct.nullable)
        return {
            Op.MAY_HOLD_VALUE: inverse(either(all_null, all_nan, empty)),
            Op.MAY_HOLD_NULL: YES if above else either(nulls, empty),
            Op.MAY_HOLD_NAN: both(
                unequal(nan, "0") if nan else YES, inverse(all_null), inverse(empty)
            )
            if floating
            else NO,
        }

    def contradicts(self, path: Path) -> str:
        """Where a column's bounds are inverted, or its counts leave no row for a value that its bounds say it has.

        NULL where too little is known.
        """
        dtype = self.leaves[path].dtype
        low, high = (self.given(Node(op, value=path, dtype=dtype)) for op in (Op.MIN, Op.MAX))
        inverted = NO if low is None or high is None else f"`>`({low}, {high})"
        null = self.count(path, "null_count")
        nan = self.count(path, "nan_count") if dtype.kind is Kind.FLOAT else None
        rows = self.first(self.count(path, "row_count"), self.count((), "row_count"))
        if rows is None:
            return inverted
        # Spark's greatest skips NULL. No side can overflow: rows >= 0.
        nulls, nans = (f"greatest({c}, 0L)" if c else "0L" for c in (null, nan))
        unbounded = both(*(f"isnull({b})" for b in (low, high) if b is not None))
        value = {YES: "0"}.get(unbounded, f"if({unbounded}, 0, 1)")
        if (null, nan, value) == (None, None, "0"):
            return inverted
        left = f"`-`(`-`({rows}, {nulls}), {value})"
        return either(both(f"`>=`({rows}, 0)", f"`>`({nans}, {left})"), inverted)

    def known(self, *counts: str | None) -> str | None:
        """The first of some counts that is there, -1 where none is; None: none is anywhere."""
        return self.first(*counts, "-1") if any(counts) else None

    def first(self, *counts: str | None) -> str | None:
        """The first of some counts that is there, NULL where none is; None: none is anywhere."""
        there = [c for c in counts if c is not None]
        return f"coalesce({', '.join(there)})" if len(there) > 1 else next(iter(there), None)

    # Value lists.

    def membership(self, n: Node) -> str:
        """What a list of all values that occur says of a set; one that is NULL, or has a NULL, says nothing."""
        from pyspark.sql import types as T

        assert isinstance(n.value, tuple) and n.dtype is not None
        path, values = n.value
        place = self.places.get((path, "values"))
        if place is None or not isinstance(place.type, T.ArrayType):
            return YES
        exact = [
            bound(MEMBER, place.type.elementType, n.dtype, high=high) for high in (False, True)
        ]
        if exact[0] is None or exact[1] is None:
            return YES
        value = (
            exact[0]
            if exact[0] == exact[1]
            else f"if(`==`({exact[0]}, {exact[1]}), {exact[0]}, NULL)"
        )  # between two ticks of the column
        if n.dtype.kind is Kind.FLOAT:
            value = f"`+`(cast({MEMBER} AS {'float' if n.dtype.bits == 32 else 'double'}), 0D)"  # so that -0.0 is 0.0 to hashes too; NaN is a value
        return EMIT[n.op].format(
            place.name, MEMBER, value, ", ".join(literal(v, n.dtype) for v in values)
        )


def _runs(values: tuple[Any, ...], dtype: DType) -> tuple[list[Any], list[Any]]:
    """Where runs of members start and end: those of consecutive integers, else each value."""
    if not dtype.discrete:
        return list(values), list(values)
    firsts, lasts = runs_of(np.asarray(values, dtype.lane), True)
    return firsts.tolist(), lasts.tolist()


# Logic on text, without constants.


def holds(template: str, *counts: str | None) -> str:
    """A test of counts; of one that is unknown everywhere it does not hold."""
    return NO if None in counts else template.format(*counts)


def unequal(a: str, b: str) -> str:
    """Return text of `a <> b`."""
    return f"`not`(`==`({a}, {b}))"


def choose(condition: str, then: str, otherwise: str) -> str:
    """Return text of `then` where a condition holds, else of `otherwise`."""
    return {YES: then, NO: otherwise}.get(condition) or f"if({condition}, {then}, {otherwise})"


def inverse(condition: str) -> str:
    """NOT."""
    return {YES: NO, NO: YES}.get(condition) or EMIT[Op.NOT].format(condition)


def both(*conditions: str) -> str:
    """AND of any number of conditions."""
    return _joined(Op.AND, conditions, YES, NO)


def either(*conditions: str) -> str:
    """OR of any number of conditions."""
    return _joined(Op.OR, conditions, NO, YES)


def _joined(op: Op, conditions: Sequence[str], neutral: str, final: str) -> str:
    kept = [c for c in dict.fromkeys(conditions) if c != neutral]
    if final in kept:
        return final
    return join(op, kept, EMIT) if kept else neutral
