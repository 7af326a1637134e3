"""Prepare launches: combine a program with packed statistics into the inputs of a kernel.

Constant planes, bounds that are unknown everywhere and literals that need no array are folded away,
so a kernel reads only what can differ between containers. The rest has a shape (operations and
NumPy types, no values), and launches of one shape share a compiled kernel.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, Final

import numpy as np

from skipstone.ir.lower import Program
from skipstone.ir.node import Node, Op
from skipstone.ir.simplify import FALSE, TRUE
from skipstone.ir.types import DType
from skipstone.kernels.index.coarse import Grid
from skipstone.kernels.pack.columns import Column
from skipstone.kernels.pack.keys import keys_of, runs_of
from skipstone.kernels.pack.narrow import clamp, open_ends
from skipstone.kernels.pack.planes import Plane, plane_of
from skipstone.kernels.run.guard import Guard
from skipstone.kernels.run.launch import Key, Launch, PackedStatistics

COMPARE: Final[dict[Op, Callable[[Any, Any], bool]]] = {
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}
PLANE_ATTRIBUTES: Final = {
    Op.MAY_HOLD_VALUE: "may_hold_value",
    Op.MAY_HOLD_NULL: "may_hold_null",
    Op.MAY_HOLD_NAN: "may_hold_nan",
    Op.MAY_RAISE: "may_raise",
}
# Largest number of runs of a set that are compared one by one, as two literals each.
MAX_LITERAL_RUNS: Final = 16
TESTS: Final = (*COMPARE, Op.ANY_IN, Op.NOT_ALL_IN)


def prepare(
    program: Program,
    source: PackedStatistics,
    column_of: Callable[[Key, DType], Column] | None = None,
    *,
    definite: bool = False,
) -> Launch:
    """Fold a program over the statistics that it runs on, and collect the inputs that remain.

    Args:
        program: The program.
        source: The statistics.
        column_of: Returns columns, possibly with guards; None means the source's `column`, whose
            arrays need no guards.
        definite: Add one root, for coarse bounds: the containers that `can_match` would hold for
            with full bounds as well. The root of `can_match` then holds for more containers.
    """
    builder = _Builder(source, column_of or source.column)
    roots = tuple(builder.as_words(builder.fold(root)) for root in program.roots)
    if definite:
        builder.definite, builder.folded = True, {}
        roots = (*roots, builder.as_words(builder.fold(program.can_match)))
    out = _compact(roots, builder.launch)
    out.files = source.files
    out.guards = [
        builder.guards[id(a)] for a in (*out.arrays, *out.planes) if id(a) in builder.guards
    ]
    return out


def _compact(roots: tuple[Node, ...], gathered: Launch) -> Launch:
    """Keep the inputs that the roots still use, numbered by first use.

    Equal shapes then are equal nodes.
    """
    out = Launch(gathered.n)
    lists: dict[Op, tuple[list[Any], list[Any]]] = {
        Op.ARRAY: (gathered.arrays, out.arrays),
        Op.PLANE: (gathered.planes, out.planes),
        Op.PARAM: (gathered.params, out.params),
        Op.SET: (gathered.sets, out.sets),
    }
    done: dict[Node, Node] = {}

    def renumber(n: Node) -> Node:
        if n not in done:
            if n.op in lists:
                source, into = lists[n.op]
                assert isinstance(n.value, tuple)
                done[n] = Node(n.op, value=(len(into), n.value[1]))
                into.append(source[n.value[0]])
            else:
                done[n] = Node(n.op, tuple(map(renumber, n.args)), n.value, n.dtype)
        return done[n]

    out.roots = tuple(map(renumber, roots))
    return out


class _Builder:
    """Folds conditions over a source and collects the inputs of a launch."""

    def __init__(self, source: PackedStatistics, column_of: Callable[[Key, DType], Column]) -> None:
        self.source, self.column_of = source, column_of
        self.launch = Launch(source.num_containers)
        self.inputs: dict[object, Node] = {}
        self.folded: dict[Node, Node] = {}
        self.definite = False
        self.guards: dict[int, Guard] = {}  # id of an input of the launch -> its guard

    def fold(self, n: Node) -> Node:
        """Return a condition as a node over kernel inputs.

        Results are not packed into words yet: `as_words` does that.
        """
        if n not in self.folded:
            self.folded[n] = self._fold(n)
        return self.folded[n]

    def _fold(self, n: Node) -> Node:
        match n.op:
            case Op.LITERAL:
                return n
            case Op.AND | Op.OR:
                return self.combine(n.op, [self.fold(a) for a in n.args])
            case Op.MAY_HOLD_ROWS:
                return self.plane(Op.MAY_HOLD_ROWS, self.source.rows_plane())
            case Op.MAY_HOLD_VALUE | Op.MAY_HOLD_NULL | Op.MAY_HOLD_NAN | Op.MAY_RAISE:
                c, name = self.column(n), PLANE_ATTRIBUTES[n.op]
                plane: Plane = getattr(c, name)
                self.guard(c, name, plane)
                return self.plane((n.op, n.value), plane)
            case Op.MAY_CONTAIN | Op.MAY_CONTAIN_OTHER:
                return self.membership(n)
            case Op.ANY_IN | Op.NOT_ALL_IN:
                return self.in_set(n)
        return self.compare(n)

    def combine(self, op: Op, args: list[Node]) -> Node:
        neutral, final = (TRUE, FALSE) if op is Op.AND else (FALSE, TRUE)
        if final in args:
            return final
        kept = list(dict.fromkeys(a for a in args if a != neutral))
        if not kept:
            return neutral
        if len(kept) == 1:
            return kept[0]
        tests = [a for a in kept if a.op in TESTS]
        if len(tests) == len(kept):
            return Node(op, tuple(kept))
        # Tests of one level share a mask. Masks of other levels, and planes, are combined with it
        # as words.
        if tests:
            packed = [Node(Op.PACK, (tests[0] if len(tests) == 1 else Node(op, tuple(tests)),))]
        else:
            packed = []
        return Node(op, (*packed, *(self.as_words(a) for a in kept if a.op not in TESTS)))

    def as_words(self, n: Node) -> Node:
        return Node(Op.PACK, (n,)) if is_container_test(n) else n

    def column(self, n: Node) -> Column:
        assert isinstance(n.value, tuple | Node) and n.dtype is not None
        return self.column_of(n.value, n.dtype)

    def guard(self, c: Column, name: str, values: object) -> None:
        """Record the guard of an array of a column, if it has one."""
        if c.guards is not None and name in c.guards:
            self.guards[id(values)] = c.guards[name]

    def plane(self, key: object, plane: Plane) -> Node:
        if isinstance(plane, bool):
            return TRUE if plane else FALSE
        return self.input(Op.PLANE, key, self.launch.planes, plane)

    def input(self, op: Op, key: object, into: list[Any], value: Any) -> Node:
        key = (op, key)
        if key not in self.inputs:
            numpy_type = "" if op is Op.PLANE else str(value.dtype)
            self.inputs[key] = Node(op, value=(len(into), numpy_type))
            into.append(value)
        return self.inputs[key]

    def bound(self, statistic: Node, c: Column) -> Node:
        """Return the array of a bound; a bound that is unknown everywhere becomes a full array."""
        high = statistic.op is Op.MAX
        values = c.high if high else c.low
        if values is None:
            values = np.full(self.launch.n, c.end(high), c.numpy_type)
        self.guard(c, "high" if high else "low", values)
        return self.input(Op.ARRAY, (statistic.op, statistic.value), self.launch.arrays, values)

    def param(self, statistic: Node, key: object, value: int | float, numpy_type: str) -> Node:
        scalar = np.dtype(numpy_type).type(value)
        return self.input(Op.PARAM, (statistic.value, key), self.launch.params, scalar)

    def compare(self, n: Node) -> Node:
        statistic, lit = n.args
        c = self.column(statistic)
        unknown = c.low is None if statistic.op is Op.MIN else c.high is None
        if unknown:
            end = c.dtype.lowest if statistic.op is Op.MIN else c.dtype.highest
            return TRUE if end is None or COMPARE[n.op](end, lit.value) else FALSE
        if c.codes is None:
            assert isinstance(lit.value, int | float)
            value = clamp(n.op, int(lit.value), c.dtype, c.numpy_type) if c.narrowed else lit.value
            return Node(
                n.op,
                (
                    self.bound(statistic, c),
                    self.param(statistic, (lit.value, value), value, c.numpy_type),
                ),
            )
        op = Op.LT if n.op in (Op.LT, Op.LE) else Op.GE
        same: object = n.op in (Op.LE, Op.GT)  # one rank serves a comparison and its negation
        if isinstance(c.codes, Grid):
            rank = c.codes.rank(n.op, lit.value, definite=self.definite)
            same = (n.op, self.definite)
        else:
            rank = c.codes.rank(n.op, lit.value)
        return Node(
            op,
            (
                self.bound(statistic, c),
                self.param(statistic, (lit.value, same), rank, c.numpy_type),
            ),
        )

    def in_set(self, n: Node) -> Node:
        low, high = n.args
        c = self.column(low)
        values = n.value
        assert isinstance(values, tuple)
        if c.low is None and c.high is None:
            return self.in_range(n.op, c.dtype, values)
        if isinstance(c.codes, Grid) and (self.definite or n.op is Op.NOT_ALL_IN):
            # other values may have the same coarse codes as members
            return FALSE if self.definite else TRUE
        members = self.members((n.value, low.value), low, values, c)
        test = Node(n.op, (self.bound(low, c), self.bound(high, c), *members))
        if n.op is Op.ANY_IN:
            return test
        open_low, open_high = open_ends(c.dtype, c.numpy_type) if c.narrowed else (False, False)
        # A range that reaches an open end of the array's type reaches the end of the column's type,
        # so it is wider than any list of values.
        beyond = []
        if open_low:
            least = self.param(low, "least", c.end(high=False), c.numpy_type)
            beyond.append(Node(Op.LE, (test.args[0], least)))
        if open_high:
            greatest = self.param(high, "greatest", c.end(high=True), c.numpy_type)
            beyond.append(Node(Op.GE, (test.args[1], greatest)))
        return Node(Op.OR, (test, *beyond)) if beyond else test

    def members(
        self, key: object, statistic: Node, values: tuple[object, ...], c: Column
    ) -> Iterator[Node]:
        """Yield the inputs of a set: the ends of a few runs, or all runs and their directory."""
        if c.codes is None:
            members = np.asarray(values, c.dtype.numpy_type)
            if c.narrowed:
                members = members.clip(c.end(high=False), c.end(high=True)).astype(c.numpy_type)
            firsts, lasts = runs_of(members, c.dtype.discrete)
        else:
            firsts, lasts = c.codes.runs(values)
        if len(lasts) <= MAX_LITERAL_RUNS:
            # The last run is repeated until there are 1, 2, 4, 8 or 16, so that sets share kernels.
            count, are_points = 1 << (len(lasts) - 1).bit_length(), np.array_equal(firsts, lasts)
            for i in range(count):
                at = min(i, len(lasts) - 1)
                last = self.param(statistic, (key, i, "last"), lasts[at], c.numpy_type)
                yield from (
                    last
                    if are_points
                    else self.param(statistic, (key, i, "first"), firsts[at], c.numpy_type),
                    last,
                )
            return
        keys = keys_of(firsts, lasts)
        for f in fields(keys):
            yield self.input(Op.SET, (key, f.name), self.launch.sets, getattr(keys, f.name))

    def in_range(self, op: Op, dtype: DType, values: tuple[object, ...]) -> Node:
        """Test a set against the whole range of the type, since all bounds are unknown."""
        if op is Op.ANY_IN:
            return TRUE
        low, high = dtype.lowest, dtype.highest
        full = (
            dtype.discrete
            and isinstance(low, int)
            and isinstance(high, int)
            and len(values) == high - low + 1
        )
        return FALSE if full else TRUE

    def membership(self, n: Node) -> Node:
        assert isinstance(n.value, tuple) and n.dtype is not None
        path, values = n.value
        answer = self.source.contained_in(path, values, n.dtype)
        if answer is None:
            return TRUE
        # MAY_CONTAIN_OTHER is false where the answer is "only these"; MAY_CONTAIN, where it is
        # "none".
        decided = n.op is Op.MAY_CONTAIN_OTHER
        known = np.asarray(
            answer.fill_null(not decided).to_numpy(zero_copy_only=False), dtype=np.bool_
        )
        return self.plane((n.op, n.value), plane_of(known != decided))


def is_container_test(n: Node) -> bool:
    """Return True if a node is a test of arrays, or a flat AND or OR of such tests.

    Such a node gives one result per container, which is not packed into words yet.
    """
    return n.op in TESTS or (n.op in (Op.AND, Op.OR) and all(a.op in TESTS for a in n.args))
