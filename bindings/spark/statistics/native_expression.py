"""Write a program as one native Spark expression: SQL text over statistics by name.

A table of operations gives the text. Spark parses text in a fraction of the time that it takes to
build the same Column call by call through Java. An unknown statistic is NULL, and every test
defines its own answer for NULL, so that no setting of Spark (ANSI mode, time zone, case, collation)
matters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.spark.session.session import functions_of, quiet, require_pyspark
from skipstone.bindings.spark.statistics.judge import Answer
from skipstone.bindings.spark.statistics.locate import StatisticColumn, assume, locate
from skipstone.bindings.spark.statistics.native_bounds import bound, count, literal
from skipstone.bindings.spark.statistics.native_logic import (
    EMIT,
    MEMBER,
    NO,
    YES,
    both,
    choose,
    either,
    holds,
    inverse,
    unequal,
)
from skipstone.bindings.spark.statistics.slots import Slot, slots_of
from skipstone.bindings.spark.statistics.udf import predicate_of
from skipstone.ir.errors import StatisticsError, UnsupportedForm
from skipstone.ir.lower import Program
from skipstone.ir.node import Node, Op, Path, show_path
from skipstone.ir.simplify import TRUE
from skipstone.ir.text import show
from skipstone.ir.types import DType, Kind, Leaf, leaves_of
from skipstone.kernels.pack.keys import runs_of
from skipstone.kernels.run.prepare import COMPARE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

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
    """Write `evaluate` or `prune` as one native Spark expression over a container's statistics.

    Nothing runs in Python, so Spark compiles the expression and may push it down. `with_verdict`
    gives the same answers; it also judges with kernels where that is faster or necessary.

    Args:
        predicate: A `PruningPredicate`; or anything that makes one, such as SQL text, together with
            `schema`.
        columns: Where statistics are: `{"x.min": "lowest_x", "row_count": "stats.n"}`. By default
            they have their own names, `x.min`, `x.max`, `x.null_count`, ...: all of
            `keep_udf(predicate).columns`.
        schema: The table's columns, for a predicate that is not bound to them yet.
        answer: "verdict", INT: 0 NEVER, 1 MAYBE, 2 ALWAYS; or "keep", BOOLEAN: false if no row can
            match.
        df: The DataFrame that the expression will be used on. Then missing statistics are unknown,
            statistics of other types are used if they bound the column, and structs of statistics
            and value lists are found. Without it, bounds are assumed to have the columns' own types
            and counts to be whole numbers; all others are unknown.

    Returns:
        A Column; one of Spark Connect if `df` or a Column in `columns` is.

    Raises:
        UnsupportedForm: The predicate has functions of columns, or `df` has bloom filters; only
            kernels can judge those.
        StatisticsError: As in `with_verdict`; or `columns` has a Column that is not a plain name.

    Example:
        >>> keep = to_column("x = 5", schema=schema, answer="keep", df=df)  # doctest: +SKIP
        >>> df.where(keep)  # doctest: +SKIP
    """
    require_pyspark()
    with quiet():
        given = columns or {}
        predicate = predicate_of(predicate, schema, None if df is None else df.sparkSession)
        found = (
            assume(predicate, given)
            if df is None
            else locate(df, predicate.schema, slots_of(predicate, members=True), given)
        )
        for slot, place in found.items():
            if not place.name:
                raise StatisticsError(
                    f"columns= has an expression for {slot.name!r}; expected a column's name. Name "
                    "it first, with df.withColumn, or use with_verdict, which takes expressions."
                )
        like = next(
            (c for c in (df, *given.values()) if c is not None and not isinstance(c, str)), None
        )
        column: Column = functions_of(like).expr(text_of(predicate, found, answer))
        return column


def text_of(
    predicate: PruningPredicate, found: Mapping[Slot, StatisticColumn], answer: Answer
) -> str:
    """Return the SQL text of `to_column`.

    Args:
        predicate: The condition.
        found: Where statistics are; all of them have names.
        answer: "verdict" or "keep".

    Raises:
        UnsupportedForm: The predicate has no native form over these statistics.
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
    """Return why a program has no native form, or None if it has one."""
    for _, n, _ in program.steps():
        if isinstance(n.value, Node):
            return f"the statistics of {show(n.value)} are derived by kernels"
        if n.op in (Op.MAY_CONTAIN, Op.MAY_CONTAIN_OTHER):
            assert isinstance(n.value, tuple)
            if (n.value[0], "bloom") in places:
                return f"the bloom filters of {show_path(n.value[0])} are probed by kernels"
    return None


def weight(program: Program) -> int:
    """Return the number of tests in an expression; a set counts its runs."""

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
    """Return the starts and ends of a set's runs of consecutive integers, or each value twice."""
    if not dtype.discrete:
        return list(values), list(values)
    firsts, lasts = runs_of(np.asarray(values, dtype.lane), True)
    return firsts.tolist(), lasts.tolist()
