"""Write conditions of a program as SQL text over statistics in a DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from skipstone.bindings.spark.statistics.locate import StatisticColumn
from skipstone.bindings.spark.statistics.native_bounds import bound, count, literal
from skipstone.bindings.spark.statistics.native_logic import (
    EMIT,
    MEMBER,
    NO,
    YES,
    all_of,
    any_of,
    holds,
    inverse,
)
from skipstone.ir.node import Node, Op, Path
from skipstone.ir.simplify import TRUE
from skipstone.ir.types import DType, Kind, Leaf
from skipstone.kernels.pack.keys import runs_of
from skipstone.kernels.run.prepare import COMPARE

NO_COLUMNS: Final[frozenset[Path]] = frozenset()
PLANES: Final = (Op.MAY_HOLD_VALUE, Op.MAY_HOLD_NULL, Op.MAY_HOLD_NAN)

ByKey = Mapping[tuple[Path, str], StatisticColumn]


class Writer:
    """Writes conditions as text.

    If a column's counts and bounds contradict each other, it is uncertain which of them are right,
    so all of them are unknown. The text tests this once, around the largest part of a program that
    uses one column only. A test around each bound would make the text ten times as long.

    Attributes:
        by_key: Path and statistic -> the column of the DataFrame that has it.
        leaves: The columns of the table, by path.
        unknown: Columns that contradict themselves, in the text being written.
        trusted: Columns that do not.
    """

    def __init__(
        self, by_key: ByKey, leaves: Mapping[Path, Leaf], unknown: frozenset[Path] = NO_COLUMNS
    ) -> None:
        self.by_key, self.leaves, self.unknown = by_key, leaves, unknown
        self.trusted = NO_COLUMNS
        self._texts: dict[tuple[Node, frozenset[Path]], str] = {}
        self._columns: dict[Node, frozenset[Path]] = {}

    def columns(self, n: Node) -> frozenset[Path]:
        """Return the columns whose statistics a condition uses."""
        if n not in self._columns:
            own = NO_COLUMNS
            if n.op in (*PLANES, Op.MIN, Op.MAX):
                assert isinstance(n.value, tuple)
                own = frozenset({n.value})
            if n.op in (Op.MAY_CONTAIN, Op.MAY_CONTAIN_OTHER):
                assert isinstance(n.value, tuple)
                own = frozenset({n.value[0]})
            self._columns[n] = own.union(*map(self.columns, n.args))
        return self._columns[n]

    def guarded(self, columns: frozenset[Path], write: Callable[[Writer], str]) -> str:
        """Return text for both cases: one column contradicts itself, or it does not.

        Args:
            columns: The columns that the text uses. If there are several, they are guarded inside.
            write: Writes the text with a given writer.
        """
        if len(columns) != 1 or columns <= self.trusted | self.unknown:
            return write(self)
        (path,) = columns
        wrong = self.contradicts(path)
        before, self.trusted = self.trusted, self.trusted | columns
        plain = write(self)
        self.trusted = before
        if wrong == NO:
            return plain
        without = write(Writer(self.by_key, self.leaves, self.unknown | columns))
        return f"if({wrong}, {without}, {plain})"

    def text(self, n: Node) -> str:
        """Return the text of a condition; it is never NULL."""
        key = n, self.trusted
        if key not in self._texts:
            self._texts[key] = self.guarded(self.columns(n), lambda writer: writer._text(n))
        return self._texts[key]

    def _text(self, n: Node) -> str:
        match n.op:
            case Op.LITERAL:
                return YES if n == TRUE else NO
            case Op.AND | Op.OR:
                return self._grouped(n)
            case Op.MAY_HOLD_ROWS:
                rows = self._count((), "row_count")
                return YES if rows is None else f"coalesce({rows} <> 0, true)"
            case Op.MAY_HOLD_VALUE | Op.MAY_HOLD_NULL | Op.MAY_HOLD_NAN:
                return self._planes(n)[n.op]
            case Op.ANY_IN | Op.NOT_ALL_IN:
                return self._in_set(n)
            case Op.MAY_CONTAIN | Op.MAY_CONTAIN_OTHER:
                return self._membership(n)
        statistic, lit = n.args
        return self._compare(n.op, statistic, lit.value, self._bound(statistic))

    def _grouped(self, n: Node) -> str:
        """Return the text of AND or OR, with the parts that use the same columns side by side."""
        groups: dict[frozenset[Path], list[Node]] = {}
        for arg in n.args:
            groups.setdefault(self.columns(arg), []).append(arg)
        combine = all_of if n.op is Op.AND else any_of

        def part(nodes: list[Node]) -> Callable[[Writer], str]:
            return lambda writer: combine(*map(writer.text, nodes))

        return combine(*(self.guarded(columns, part(nodes)) for columns, nodes in groups.items()))

    # Bounds.

    def _bound(self, statistic: Node) -> str | None:
        """Return text of a bound, NULL where it is unknown; None if it is unknown everywhere."""
        assert isinstance(statistic.value, tuple) and statistic.dtype is not None
        if statistic.value in self.unknown:
            return None
        high = statistic.op is Op.MAX
        column = self.by_key.get((statistic.value, "max" if high else "min"))
        return (
            None if column is None else bound(column.name, column.type, statistic.dtype, high=high)
        )

    def _compare(self, op: Op, statistic: Node, value: Any, text: str | None) -> str:
        """Compare a bound with a value; an unknown bound counts as the end of its type."""
        dtype = statistic.dtype
        assert dtype is not None
        end = dtype.lowest if statistic.op is Op.MIN else dtype.highest
        unknown = YES if end is None or COMPARE[op](end, value) else NO
        if text is None:
            return unknown
        return f"coalesce({EMIT[op].format(text, literal(value, dtype))}, {unknown})"

    def _in_set(self, n: Node) -> str:
        low, high = n.args
        a, b, values = self._bound(low), self._bound(high), n.value
        assert isinstance(values, tuple) and low.dtype is not None
        dtype = low.dtype
        firsts, lasts = runs(values, dtype)
        none = NO if n.op is Op.ANY_IN else YES

        def leaf(i: int) -> str:
            """Test run i, the first that does not end below the range.

            For "any": does it start within the range? For "not all": does it leave a part free?
            """
            if n.op is Op.ANY_IN:
                return self._compare(Op.GE, high, firsts[i], b)
            return any_of(
                self._compare(Op.LT, low, firsts[i], a), self._compare(Op.GT, high, lasts[i], b)
            )

        def tree(first: int, last: int) -> str:
            """Search runs first to last - 1 for the one to test; run `last` is the one after."""
            if first == last or a is None:
                return leaf(first) if first < len(lasts) else none
            half = (first + last) // 2
            return EMIT[n.op].format(
                a, literal(lasts[half], dtype), tree(first, half), tree(half + 1, last)
            )

        return tree(0, len(lasts))

    # Counts, as in `kernels/pack/counts.py`.

    def _count(self, path: Path, statistic: str) -> str | None:
        """Return text of a count, NULL where it is unknown; None if it is unknown everywhere."""
        column = self.by_key.get((path, statistic))
        return None if column is None else count(column.name, column.type)

    def _planes(self, n: Node) -> dict[Op, str]:
        """Return the texts of MAY_HOLD_VALUE, MAY_HOLD_NULL and MAY_HOLD_NAN of a column."""
        path = n.value
        assert isinstance(path, tuple) and n.dtype is not None
        floating, leaf = n.dtype.kind is Kind.FLOAT, self.leaves[path]
        # If only the bounds are inverted, the counts are right.
        unknown = self._miscounted(path) if path in self.unknown else NO
        null, nan = (_or_minus_one(self._count(path, s)) for s in ("null_count", "nan_count"))
        rows = _or_minus_one(self._count(path, "row_count"), self._count((), "row_count"))
        counted, empty = holds("{0} >= 0", rows), holds("{0} = 0", rows)
        all_null = all_of(counted, holds("{0} = {1}", null, rows))
        if leaf.nullable:
            nulls = YES if null is None else holds("{0} <> 0", null)
        else:
            nulls = holds("{0} > 0", null)
        all_nan = NO
        if floating and rows and nan:
            others = rows
            if null:
                others = f"{rows} - if({null} BETWEEN 1 AND {rows}, {null}, 0)"
            all_nan = all_of(counted, f"{nan} >= 0", f"{nan} = {others}")
            nulls = all_of(nulls, inverse(all_of(all_nan, holds("{0} = {1}", nan, rows))))
        some_nan = YES if nan is None else holds("{0} <> 0", nan)
        struct = self.leaves.get(path[:-1])
        parent_may_be_null = len(path) > 1 and (struct is None or struct.nullable)
        return {
            Op.MAY_HOLD_VALUE: any_of(unknown, inverse(any_of(all_null, all_nan, empty))),
            Op.MAY_HOLD_NULL: YES if parent_may_be_null else any_of(unknown, nulls, empty),
            Op.MAY_HOLD_NAN: (
                any_of(unknown, all_of(some_nan, inverse(all_null), inverse(empty)))
                if floating
                else NO
            ),
        }

    def contradicts(self, path: Path) -> str:
        """Return the test that a column contradicts itself; it is NULL if a bound is unknown."""
        low, high = self._bounds(path)
        inverted = NO if low is None or high is None else EMIT[Op.GT].format(low, high)
        return any_of(self._miscounted(path), inverted)

    def _miscounted(self, path: Path) -> str:
        """Return the test that counts, bounds and a value list contradict each other."""
        return any_of(self._listed_wrongly(path), self._counted_wrongly(path))

    def _listed_wrongly(self, path: Path) -> str:
        """Return the test that a list of all values contradicts counts or bounds.

        `bindings/statistics/list_contradictions.py` has the same rules.
        """
        size = self._list_size(path)
        if size is None:
            return NO
        leaf = self.leaves[path]
        null, rows = (
            _or_minus_one(self._count(path, "null_count")),
            _or_minus_one(self._count(path, "row_count"), self._count((), "row_count")),
        )
        bounded = (f"{b} IS NOT NULL" for b in self._bounds(path) if b is not None)
        fewest = null if leaf.nullable or len(path) > 1 else f"greatest({null or '0L'}, 0L)"
        counted = NO
        if rows is not None and fewest is not None:
            counted = f"{fewest} BETWEEN 0L AND {rows} - 1L"
        none = holds("{0} = 0", rows)
        if rows is not None and null is not None:
            none = any_of(none, f"{rows} > 0 AND {null} >= {rows}")
        return any_of(all_of(f"{size} = 0", any_of(counted, *bounded)), all_of(f"{size} > 0", none))

    def _list_size(self, path: Path) -> str | None:
        """Return text of the size of a value list, -1 where it is NULL; None if there is none."""
        from pyspark.sql import types as T

        column = self.by_key.get((path, "values"))
        if column is None or not isinstance(column.type, T.ArrayType):
            return None
        return f"coalesce(array_size({column.name}), -1)"

    def _counted_wrongly(self, path: Path) -> str:
        """Return the test that the counts leave no row for a value that bounds prove."""
        null = self._count(path, "null_count")
        floating = self.leaves[path].dtype.kind is Kind.FLOAT
        nan = self._count(path, "nan_count") if floating else None
        rows = _or_minus_one(self._count(path, "row_count"), self._count((), "row_count"))
        if rows is None:
            return NO
        # Spark's greatest skips NULL. No side can overflow: all three counts are at least 0.
        nulls, nans = (f"greatest({c}, 0L)" if c else "0L" for c in (null, nan))
        unbounded = all_of(*(f"{b} IS NULL" for b in self._bounds(path) if b is not None))
        value = "0" if unbounded == YES else f"if({unbounded}, 0, 1)"
        if (null, nan, value) == (None, None, "0"):
            return NO
        return all_of(f"{rows} >= 0", f"{nans} > greatest({rows}, 0L) - {nulls} - {value}")

    def _bounds(self, path: Path) -> tuple[str | None, str | None]:
        """Return the texts of a column's bounds, even where the column contradicts itself."""
        dtype = self.leaves[path].dtype
        low, high = (self.by_key.get((path, name)) for name in ("min", "max"))
        return (
            None if low is None else bound(low.name, low.type, dtype, high=False),
            None if high is None else bound(high.name, high.type, dtype, high=True),
        )

    # Value lists.

    def _membership(self, n: Node) -> str:
        """Return what a list of all values says about a set.

        A list that is NULL or contains NULL says nothing.
        """
        from pyspark.sql import types as T

        assert isinstance(n.value, tuple) and n.dtype is not None
        path, values = n.value
        if path in self.unknown:
            return YES
        column = self.by_key.get((path, "values"))
        if column is None or not isinstance(column.type, T.ArrayType):
            return YES
        low, high = (
            bound(MEMBER, column.type.elementType, n.dtype, high=high) for high in (False, True)
        )
        if low is None or high is None:
            return YES
        # A member between two ticks of the column is rounded both ways, and unknown.
        value = low if low == high else f"if({low} = {high}, {low}, NULL)"
        if n.dtype.kind is Kind.FLOAT:
            # Adding 0 turns -0.0 into 0.0, which hash differently. NaN is a value here.
            value = f"cast({MEMBER} AS {'float' if n.dtype.bits == 32 else 'double'}) + 0D"
        return EMIT[n.op].format(
            column.name, MEMBER, value, ", ".join(literal(v, n.dtype) for v in values)
        )


def runs(values: tuple[Any, ...], dtype: DType) -> tuple[list[Any], list[Any]]:
    """Return the starts and ends of a set's runs of consecutive integers, or each value twice."""
    if not dtype.discrete:
        return list(values), list(values)
    firsts, lasts = runs_of(np.asarray(values, dtype.numpy_type), True)
    return firsts.tolist(), lasts.tolist()


def _or_minus_one(*texts: str | None) -> str | None:
    """Return text of the first value that is not NULL, else -1; None if no text is given."""
    given = [t for t in texts if t is not None]
    return f"coalesce({', '.join(given)}, -1)" if given else None
