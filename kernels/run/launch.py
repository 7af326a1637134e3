"""A program meets packed statistics: what remains to be computed, and its inputs.

Planes that are constant, bounds that are unknown everywhere and literals that need no array are
folded away, so a kernel reads only what can differ between containers. What is left has a shape
(operations and lane types, no values) that compiled kernels are shared by.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir.cached import cached_property
from skipstone.ir.errors import SkipstoneError
from skipstone.ir.lower import Program
from skipstone.ir.node import Node, Op, Path
from skipstone.ir.simplify import FALSE, TRUE
from skipstone.ir.types import DType
from skipstone.kernels.index.coarse import Grid
from skipstone.kernels.pack.columns import Column
from skipstone.kernels.pack.keys import keys_of, runs_of
from skipstone.kernels.pack.narrow import clamp, is_open
from skipstone.kernels.pack.planes import Plane, Words, plane_of
from skipstone.kernels.run.guard import Checked, Guard

if TYPE_CHECKING:
    from skipstone.kernels.gpu.resident import Resident

COMPARE: Final[dict[Op, Callable[[Any, Any], bool]]] = {
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}


Key: TypeAlias = Path | Node


class Source(Protocol):
    """Statistics of n containers, as kernels want them."""

    @property
    def files(self) -> Sequence[Checked]:
        """Those that its arrays lie in."""
        ...

    @property
    def num_containers(self) -> int:
        """Containers."""
        ...

    def column(self, key: Key, dtype: DType) -> Column:
        """Packed statistics of a column, its bounds read as `dtype`; or those derived for a call."""
        ...

    def rows_plane(self) -> Plane:
        """Whether each container may hold rows."""
        ...

    def contained_in(
        self, path: Path, values: tuple[object, ...], dtype: DType
    ) -> pa.BooleanArray | None:
        """Per container: true, the column holds only these axis values; false, none of them; null, unknown."""
        ...


@dataclass
class Launch:
    """A kernel's inputs.

    Attributes:
        n: Containers.
        roots: For each root of the program a node over ARRAY, PARAM, SET and PLANE inputs, or TRUE or FALSE.
        arrays: Lanes, each of shape (n,); in host memory, or of a device (see `host_twin`).
        planes: Words, each of shape (ceil(n / 64),).
        params: Literals as NumPy scalars of their lane's type.
        sets: Sorted literals of IN lists.
        guards: Of arrays and planes that come from a file: to be touched with the words that are judged, before these are read.
        files: Those that the source's arrays lie in: to be checked after these were read.
        on: The device that the statistics live on, where copies of the inputs are kept.
        host_twin: Makes the same launch in host memory, where some arrays lie on the device alone.
        failed: Why it is in host memory, though it was to be made of arrays of the device.
    """

    n: int
    roots: tuple[Node, ...] = ()
    arrays: list[npt.NDArray[np.generic]] = field(default_factory=list)
    planes: list[Words] = field(default_factory=list)
    params: list[np.generic] = field(default_factory=list)
    sets: list[npt.NDArray[np.generic]] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    files: Sequence[Checked] = ()
    on: Resident | None = None
    host_twin: Callable[[], Launch] | None = None
    failed: SkipstoneError | None = None

    @cached_property
    def answers(self) -> tuple[bool | None, ...]:
        """Per root its answer, where nothing is left to compute."""
        return tuple(r == TRUE if r.op is Op.LITERAL else None for r in self.roots)

    @cached_property
    def plane_bytes(self) -> list[npt.NDArray[np.uint8]]:
        """The planes by bytes, 8 containers each."""
        return [p.view(np.uint8)[: (self.n + 7) >> 3] for p in self.planes]

    @cached_property
    def scalars(self) -> list[npt.NDArray[np.generic]]:
        """The literals as arrays without dimensions, which NumPy compares with in two thirds of the time of its scalars."""
        return [np.asarray(p) for p in self.params]

    @cached_property
    def padded_arrays(self) -> list[npt.NDArray[np.generic]]:
        """The arrays, of at least 64 containers."""
        return self.arrays if self.n >= 64 else [np.resize(a, 64) for a in self.arrays]

    @property
    def on_host(self) -> Launch:
        """The same launch, its inputs in host memory."""
        return self if self.host_twin is None else self.host_twin()

    @property
    def shape(self) -> tuple[Node, ...]:
        """What decides a kernel's text: operations, inputs' numbers and lane types."""
        return self.roots

    @property
    def nbytes(self) -> int:
        """Bytes that the kernel must read."""
        return sum(a.nbytes for a in (*self.arrays, *self.planes, *self.sets))


def prepare(
    program: Program,
    source: Source,
    look: Callable[[Key, DType], Column] | None = None,
    *,
    certain: bool = False,
) -> Launch:
    """Fold a program over the statistics it will run on, and gather what is left to read.

    Args:
        program: What to compute.
        source: The statistics.
        look: What gives columns, with guards if it likes; None: the source's `column`, whose arrays need none.
        certain: Give one root more: what can match for certain, where bounds are coarse. `can_match` holds where
            it may.
    """
    builder = _Builder(source, look or source.column)
    roots = tuple(builder.as_words(builder.fold(root)) for root in program.roots)
    if certain:
        builder.certain, builder.folded = True, {}
        roots = (*roots, builder.as_words(builder.fold(program.can_match)))
    out = _compact(roots, builder.launch)
    out.files = source.files
    out.guards = [
        builder.guards[id(a)] for a in (*out.arrays, *out.planes) if id(a) in builder.guards
    ]
    return out


def group_alike(launches: Sequence[Launch]) -> list[list[int]]:
    """The numbers of launches, together where they differ in literals alone: of one shape, over the same arrays, planes and sets."""
    found: dict[Any, list[int]] = {}
    for i, launch in enumerate(launches):
        found.setdefault(
            (launch.shape, *(id(a) for a in (*launch.arrays, *launch.planes, *launch.sets))), []
        ).append(i)
    return list(found.values())


def _compact(roots: tuple[Node, ...], gathered: Launch) -> Launch:
    """Keep the inputs that the roots still use, numbered by first use, so that equal shapes are equal nodes."""
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


PLANE_ATTRIBUTES: Final = {
    Op.MAY_HOLD_VALUE: "real",
    Op.MAY_HOLD_NULL: "nulls",
    Op.MAY_HOLD_NAN: "nans",
    Op.MAY_RAISE: "lost",
}
MAX_LITERAL_RUNS: Final = 16  # runs of a set, up to which each is compared with as two literals
TESTS: Final = (*COMPARE, Op.ANY_IN, Op.NOT_ALL_IN)


class _Builder:
    def __init__(self, source: Source, look: Callable[[Key, DType], Column]) -> None:
        self.source, self.look = source, look
        self.launch = Launch(source.num_containers)
        self.inputs: dict[object, Node] = {}
        self.folded: dict[Node, Node] = {}
        self.certain = False
        self.guards: dict[int, Guard] = {}  # by the id of an input of the launch

    def fold(self, n: Node) -> Node:
        """The node over kernel inputs. Lanes are not packed yet: `as_words` does that."""
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
        # Tests of one level share a mask; masks of other levels, and planes, join it as words.
        packed = (
            [Node(Op.PACK, (tests[0] if len(tests) == 1 else Node(op, tuple(tests)),))]
            if tests
            else []
        )
        return Node(op, (*packed, *(self.as_words(a) for a in kept if a.op not in TESTS)))

    def as_words(self, n: Node) -> Node:
        return Node(Op.PACK, (n,)) if is_lane_test(n) else n

    def column(self, n: Node) -> Column:
        assert isinstance(n.value, tuple | Node) and n.dtype is not None
        return self.look(n.value, n.dtype)

    def guard(self, c: Column, name: str, values: object) -> None:
        """Note what guards an array of a column."""
        if c.guards is not None and name in c.guards:
            self.guards[id(values)] = c.guards[name]

    def plane(self, key: object, plane: Plane) -> Node:
        if isinstance(plane, bool):
            return TRUE if plane else FALSE
        return self.input(Op.PLANE, key, self.launch.planes, plane)

    def input(self, op: Op, key: object, into: list[Any], value: Any) -> Node:
        key = (op, key)
        if key not in self.inputs:
            lane = "" if op is Op.PLANE else str(value.dtype)
            self.inputs[key] = Node(op, value=(len(into), lane))
            into.append(value)
        return self.inputs[key]

    def bound(self, slot: Node, c: Column) -> Node:
        """The array of a bound; one that is unknown everywhere is spelled out."""
        high = slot.op is Op.MAX
        values = c.high if high else c.low
        if values is None:
            values = np.full(self.launch.n, c.end(high), c.lane)
        self.guard(c, "high" if high else "low", values)
        return self.input(Op.ARRAY, (slot.op, slot.value), self.launch.arrays, values)

    def param(self, slot: Node, key: object, value: int | float, lane: str) -> Node:
        scalar = np.dtype(lane).type(value)
        return self.input(Op.PARAM, (slot.value, key), self.launch.params, scalar)

    def compare(self, n: Node) -> Node:
        slot, lit = n.args
        c = self.column(slot)
        unknown = c.low is None if slot.op is Op.MIN else c.high is None
        if unknown:
            end = c.dtype.lowest if slot.op is Op.MIN else c.dtype.highest
            return TRUE if end is None or COMPARE[n.op](end, lit.value) else FALSE
        if c.codes is None:
            assert isinstance(lit.value, int | float)
            value = clamp(n.op, int(lit.value), c.dtype, c.lane) if c.narrowed else lit.value
            return Node(
                n.op, (self.bound(slot, c), self.param(slot, (lit.value, value), value, c.lane))
            )
        op = Op.LT if n.op in (Op.LT, Op.LE) else Op.GE
        same: object = n.op in (Op.LE, Op.GT)  # one rank for a value and its negation
        if isinstance(c.codes, Grid):
            rank, same = c.codes.rank(n.op, lit.value, certain=self.certain), (n.op, self.certain)
        else:
            rank = c.codes.rank(n.op, lit.value)
        return Node(op, (self.bound(slot, c), self.param(slot, (lit.value, same), rank, c.lane)))

    def in_set(self, n: Node) -> Node:
        low, high = n.args
        c = self.column(low)
        values = n.value
        assert isinstance(values, tuple)
        if c.low is None and c.high is None:
            return self.in_range(n.op, c.dtype, values)
        if isinstance(c.codes, Grid) and (self.certain or n.op is Op.NOT_ALL_IN):
            return FALSE if self.certain else TRUE  # values between members have their places
        members = self.members((n.value, low.value), low, values, c)
        test = Node(n.op, (self.bound(low, c), self.bound(high, c), *members))
        if n.op is Op.ANY_IN:
            return test
        open_low, open_high = is_open(c.dtype, c.lane) if c.narrowed else (False, False)
        # A range that reaches an open end reaches the type's, and is wider than any list.
        beyond = (
            [Node(Op.LE, (test.args[0], self.param(low, "least", c.end(high=False), c.lane)))]
            if open_low
            else []
        )
        beyond += (
            [Node(Op.GE, (test.args[1], self.param(high, "greatest", c.end(high=True), c.lane)))]
            if open_high
            else []
        )
        return Node(Op.OR, (test, *beyond)) if beyond else test

    def members(
        self, key: object, slot: Node, values: tuple[object, ...], c: Column
    ) -> Iterator[Node]:
        """The inputs that a set needs: the ends of few runs, or all of them and their directory."""
        if c.codes is None:
            lanes = np.asarray(values, c.dtype.lane)
            if c.narrowed:
                lanes = lanes.clip(c.end(high=False), c.end(high=True)).astype(c.lane)
            firsts, lasts = runs_of(lanes, c.dtype.discrete)
        else:
            firsts, lasts = c.codes.runs(values)
        if len(lasts) <= MAX_LITERAL_RUNS:
            # The last is repeated until there are 1, 2, 4, ...: kernels are shared.
            count, points = 1 << (len(lasts) - 1).bit_length(), np.array_equal(firsts, lasts)
            for i in range(count):
                at = min(i, len(lasts) - 1)
                last = self.param(slot, (key, i, "last"), lasts[at], c.lane)
                yield from (
                    last if points else self.param(slot, (key, i, "first"), firsts[at], c.lane),
                    last,
                )
            return
        keys = keys_of(firsts, lasts)
        for f in fields(keys):
            yield self.input(Op.SET, (key, f.name), self.launch.sets, getattr(keys, f.name))

    def in_range(self, op: Op, dtype: DType, values: tuple[object, ...]) -> Node:
        """Nothing is known of the bounds: the type's whole range is tested."""
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
        decided = (
            n.op is Op.MAY_CONTAIN_OTHER
        )  # only these values: no others; none of them: not held
        known = np.asarray(
            answer.fill_null(not decided).to_numpy(zero_copy_only=False), dtype=np.bool_
        )
        return self.plane((n.op, n.value), plane_of(known != decided))


def is_lane_test(n: Node) -> bool:
    """Whether a node is a test of arrays, or a flat AND or OR of tests: one answer a lane, not packed yet."""
    return n.op in TESTS or (n.op in (Op.AND, Op.OR) and all(a.op in TESTS for a in n.args))
