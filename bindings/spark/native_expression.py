"""A program as one native Spark expression: SQL text that a table of operations makes, over statistics by name.

Spark parses text in a fraction of the time that building the same Column call by call takes through Java.
An unknown statistic is NULL, and every test says itself what it answers then, so no setting of Spark's (ANSI mode, time
zone, case, collation) has a say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from skipstone.bindings.predicate import PruningPredicate
from skipstone.bindings.spark.judge import Answer
from skipstone.bindings.spark.native_bounds import bound, count, literal
from skipstone.bindings.spark.places import Place, assumed, located
from skipstone.bindings.spark.session import functions_of, quiet, require_pyspark
from skipstone.bindings.spark.slots import Slot, slots_of
from skipstone.bindings.spark.udf import predicate_of
from skipstone.ir.errors import StatisticsError, UnsupportedForm
from skipstone.ir.lower import Program
from skipstone.ir.node import Node, Op, Path, show_path
from skipstone.ir.simplify import TRUE
from skipstone.ir.text import show
from skipstone.ir.types import DType, Kind, Leaf, leaves_of
from skipstone.kernels.emit import join
from skipstone.kernels.keys import runs_of
from skipstone.kernels.launch import COMPARE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

EMIT: Final = {
    Op.LT: "{0} < {1}",
    Op.LE: "{0} <= {1}",
    Op.GT: "{0} > {1}",
    Op.GE: "{0} >= {1}",
    Op.AND: "({0} AND {1})",
    Op.OR: "({0} OR {1})",
    Op.NOT: "(NOT {0})",
    # Of sorted runs, those that end below a lower bound are left behind by halves. NULL, an unknown bound, leaves none.
    Op.ANY_IN: "if({0} > {1}, {3}, {2})",
    Op.NOT_ALL_IN: "if({0} > {1}, {3}, {2})",
    Op.HOLDS: "coalesce(exists({0}, {1} -> {2} IS NULL OR {2} IN ({3})), true)",
    Op.OTHERS: "coalesce(size({0}) = 0 OR exists({0}, {1} -> {2} IS NULL OR {2} NOT IN ({3})), true)",
}
YES: Final = "true"
NO: Final = "false"
MEMBER: Final = "`skipstone member`"  # a lambda's variable; no column is likely to have that name

Places = Mapping[tuple[Path, str], Place]


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


def text_of(predicate: PruningPredicate, found: Mapping[Slot, Place], answer: Answer) -> str:
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
    writer = _Writer(places, leaves_of(predicate.schema))
    if answer == "keep":
        return writer.text(program.can_match)
    match, miss = map(writer.text, program.roots)
    return f"CASE WHEN NOT {match} THEN 0 WHEN {miss} THEN 1 ELSE 2 END"


def obstacle(program: Program, places: Places) -> str | None:
    """What of a program has no native form, in words; None: nothing."""
    for _, n, _ in program.steps():
        if isinstance(n.value, Node):
            return f"the statistics of {show(n.value)} are derived by kernels"
        if n.op in (Op.HOLDS, Op.OTHERS) and (n.value[0], "bloom") in places:  # type: ignore[index]
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
    def __init__(self, places: Places, leaves: Mapping[Path, Leaf]) -> None:
        self.places, self.leaves = places, leaves
        self.written: dict[Node, str] = {}

    def text(self, n: Node) -> str:
        """A condition that is never NULL."""
        if n not in self.written:
            self.written[n] = self._text(n)
        return self.written[n]

    def _text(self, n: Node) -> str:
        match n.op:
            case Op.LITERAL:
                return YES if n == TRUE else NO
            case Op.AND | Op.OR:
                return (both if n.op is Op.AND else either)(*map(self.text, n.args))
            case Op.ROWS:
                rows = self.count((), "row_count")
                return YES if rows is None else f"coalesce({rows} <> 0, true)"
            case Op.REAL | Op.NULLS | Op.NANS:
                return self.planes(n)[n.op]
            case Op.ANY_IN | Op.NOT_ALL_IN:
                return self.in_set(n)
            case Op.HOLDS | Op.OTHERS:
                return self.membership(n)
        slot, lit = n.args
        return self.compare(n.op, slot, lit.value, self.ordered(slot))

    # Bounds.

    def given(self, slot: Node) -> str | None:
        """A bound as it came, NULL where it is unknown; None where it is everywhere."""
        assert isinstance(slot.value, tuple) and slot.dtype is not None
        high = slot.op is Op.MAX
        place = self.places.get((slot.value, "max" if high else "min"))
        return None if place is None else bound(place.name, place.type, slot.dtype, high=high)

    def ordered(self, slot: Node) -> str | None:
        """The same, unknown too where bounds are inverted, or contradict the counts: no one knows
        which of them are right.
        """
        own = self.given(slot)
        low, high = (
            self.given(Node(op, value=slot.value, dtype=slot.dtype)) for op in (Op.MIN, Op.MAX)
        )
        if own is None:
            return None
        wrong = self.untrue(slot, low, high)
        return own if wrong == NO else f"if({wrong}, NULL, {own})"

    def untrue(self, n: Node, low: str | None, high: str | None) -> str:
        """Where bounds say nothing. It is tested once, however many tests the bounds are put to."""
        inverted = NO if low is None or high is None else f"({low} > {high})"
        return either(self.contradicts(n), inverted)

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
        found = tree(0, len(lasts))
        wrong = NO if a is None and b is None else self.untrue(low, a, b)
        if wrong == NO:
            return found
        everywhere = _Writer({}, self.leaves).text(n)
        return f"if({wrong}, {everywhere}, {found})"

    # Counts, as in `kernels/counts.py`.

    def count(self, path: Path, statistic: str) -> str | None:
        """A count, NULL where it is unknown; None where it is everywhere."""
        place = self.places.get((path, statistic))
        return None if place is None else count(place.name, place.type)

    def planes(self, n: Node) -> dict[Op, str]:
        """Whether the column may hold a value, NULL, NaN."""
        path = n.value
        assert isinstance(path, tuple) and n.dtype is not None
        floating, leaf = n.dtype.kind is Kind.FLOAT, self.leaves[path]
        null, nan = (self.known(self.count(path, s)) for s in ("null_count", "nan_count"))
        rows = self.known(self.count(path, "row_count"), self.count((), "row_count"))
        counted, empty = holds("{0} >= 0", rows), holds("{0} = 0", rows)
        all_null = both(counted, holds("{0} = {1}", null, rows))
        told = holds("{0} > 0", null)
        nulls = (holds("{0} <> 0", null) if null else YES) if leaf.nullable else told
        all_nan = NO
        if floating and rows and nan:
            others = f"({rows} - if({null} > 0 AND {null} <= {rows}, {null}, 0))" if null else rows
            all_nan = both(counted, f"({nan} >= 0)", f"({nan} = {others})")
            nulls = both(nulls, inverse(both(all_nan, holds("{0} = {1}", nan, rows))))
        wrong = self.contradicts(n)
        struct = self.leaves.get(path[:-1])
        above = len(path) > 1 and (struct is None or struct.nullable)
        return {
            Op.REAL: either(inverse(either(all_null, all_nan, empty)), wrong),
            Op.NULLS: YES if above else either(nulls, empty, wrong),
            Op.NANS: either(
                both(holds("{0} <> 0", nan) if nan else YES, inverse(all_null), inverse(empty)),
                wrong,
            )
            if floating
            else NO,
        }

    def contradicts(self, n: Node) -> str:
        """Where counts and bounds of a column contradict each other: all of them are unknown
        there.
        """
        path, dtype = n.value, n.dtype
        assert isinstance(path, tuple) and dtype is not None
        null = self.known(self.count(path, "null_count"))
        nan = self.known(self.count(path, "nan_count")) if dtype.kind is Kind.FLOAT else None
        rows = self.known(self.count(path, "row_count"), self.count((), "row_count"))
        if rows is None:
            return NO
        nulls, nans = (f"greatest({c}, 0L)" if c else "0L" for c in (null, nan))
        slots = (Node(op, value=path, dtype=dtype) for op in (Op.MIN, Op.MAX))
        bounds = [b for b in map(self.given, slots) if b is not None]
        bounded = either(*(f"({b} IS NOT NULL)" for b in bounds)) if bounds else NO
        over = f"({nulls} > {rows} OR {nans} > {rows} - {nulls})"
        full = f"({nulls} <= {rows} AND {nans} = {rows} - {nulls})"
        return both(f"({rows} >= 0)", either(over, both(full, bounded)))

    def known(self, *counts: str | None) -> str | None:
        """The first of some counts that is there, -1 where none is; None: none is anywhere."""
        there = [c for c in counts if c is not None]
        return f"coalesce({', '.join(there)}, -1)" if there else None

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
            exact[0] if exact[0] == exact[1] else f"if({exact[0]} = {exact[1]}, {exact[0]}, NULL)"
        )  # between two ticks of the column
        if n.dtype.kind is Kind.FLOAT:
            value = f"(cast({MEMBER} AS {'float' if n.dtype.bits == 32 else 'double'}) + 0D)"  # so that -0.0 is 0.0 to hashes too; NaN is a value
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
    return NO if None in counts else f"({template.format(*counts)})"


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
