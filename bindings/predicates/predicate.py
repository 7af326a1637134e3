"""PruningPredicate: one condition, judged against the statistics of many containers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skipstone.bindings import hooks
from skipstone.bindings.predicates.expr import Expr, from_filters, is_filters
from skipstone.bindings.predicates.iceberg_expr import from_iceberg, is_iceberg
from skipstone.bindings.statistics.statistics import PruningStatistics, Statistics
from skipstone.ir import spec
from skipstone.ir.bind import bind
from skipstone.ir.errors import PredicateError, PredicateTooDeep, clip
from skipstone.ir.guarantee import LiteralGuarantee, guarantees, membership_paths
from skipstone.ir.lower import Program, lower
from skipstone.ir.merge import merge
from skipstone.ir.node import Node, Op, columns_of, not_understood, show_path
from skipstone.ir.session import Session, Settings
from skipstone.ir.simplify import TRUE
from skipstone.ir.text import rewritten, show
from skipstone.ir.types import leaves_of
from skipstone.ir.zones import zone_of
from skipstone.kernels.gpu.device import DeviceArray
from skipstone.kernels.gpu.resident import Resident
from skipstone.kernels.index.descend import Found, descend, found_in
from skipstone.kernels.pack.planes import Mask, Verdicts
from skipstone.kernels.run.launch import Launch
from skipstone.kernels.run.run import Backend, Out, Result, on_device, run, stays_here, survivors

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyspark.sql import Column

Source: TypeAlias = "str | Expr | pc.Expression | Sequence[Any] | BooleanExpression | Column | Node"


class PruningPredicate:
    """A predicate that says, from statistics alone, which containers can hold a matching row.

    Args:
        predicate: Spark SQL text, a `col()` expression, a pyarrow expression, filter lists, an
            expression of pyiceberg, or a PySpark Column, classic or of Spark Connect. Whatever it
            comes as, Spark SQL says what a row is worth.
        schema: The columns that the predicate may name.
        timezone: The Spark session's time zone, for zone-less literals beside zoned columns and the reverse.
        ansi: Whether Spark runs in ANSI mode (its default since 4.0); it decides about some casts of literals.
        case_sensitive: Whether names must match in case.
        on_unknown: Is told of every form that is not understood, such as a function that nobody registered, as
            (what, why). Such a form keeps the containers that nothing else prunes.

    Raises:
        PredicateSyntaxError: the text is not one condition.
        UnknownColumn, AmbiguousColumn: a name fits no column, or several.

    Immutable; copies, pickles and prints. Safe to share between threads.

    Example:
        >>> import pyarrow as pa, skipstone as ss
        >>> schema = pa.schema([("x", pa.int64())])
        >>> stats = ss.Statistics.from_dict({"x": {"min": [0, 2, 5], "max": [4, 10, 8]}}, schema)
        >>> ss.PruningPredicate("x = 5", schema).prune(stats)
        array([False,  True,  True])

    Source: DataFusion, `PruningPredicate`.
    """

    def __init__(
        self,
        predicate: Source,
        schema: pa.Schema,
        *,
        timezone: str = "UTC",
        ansi: bool = True,
        case_sensitive: bool = False,
        on_unknown: Callable[[str, str], object] | None = None,
    ) -> None:
        if not isinstance(schema, pa.Schema):
            raise PredicateError(f"schema is {type(schema).__name__}; expected a pyarrow.Schema")
        try:
            zone_of(timezone)
        except ValueError as e:
            raise PredicateError(str(e)) from None
        self._source, self._schema = predicate, schema
        self._session = Session(timezone, ansi, case_sensitive)
        self._leaves = leaves_of(schema)
        try:
            self._bound = spec.check_bound(_bind(predicate, self._leaves, self._session))
            held = guarantees(self._bound)
            self._both = lower(merge(self._bound), held)
        except RecursionError:
            raise PredicateTooDeep(
                "predicate is nested too deeply; expected at most a few hundred levels"
            ) from None
        if on_unknown is not None:
            for reason in not_understood(self._bound):
                on_unknown(reason.what, reason.why)
        self._guarantees = held or ()
        self._prune = Program(self._both.can_match)
        for root in self._both.roots:
            spec.check_program(root)
        self._columns = tuple(map(show_path, columns_of(self._bound)))
        self._ran: dict[str, int] = {}

    # Judging.

    def prune(
        self, stats: Statistics | PruningStatistics, backend: Backend = "auto", *, out: Out = "host"
    ) -> Mask:
        """Which containers to keep.

        Args:
            stats: n containers: `Statistics`, or any provider.
            backend: "auto", "numpy", "numba" or "cupy". "auto" asks a GPU only of statistics that live there (`to_device`).
            out: "device" gives a CuPy array where the statistics live, of CuPy's current stream, and does not wait for it.

        Returns:
            bool array, shape (n,), host memory or as `out` says. True: some row may match; keep. False: none can; prune.

        Raises:
            BackendMissing: the backend is not there.
            DeviceError: the GPU failed, and the CPU was not to answer instead.

        Source: DataFusion, `PruningPredicate::prune`.
        """
        return self._judge(stats, backend, out, verdicts=False).view(np.bool_)

    def evaluate(
        self, stats: Statistics | PruningStatistics, backend: Backend = "auto", *, out: Out = "host"
    ) -> npt.NDArray[np.uint8]:
        """Whether no row, some or every row can match.

        Args:
            stats: n containers: `Statistics`, or any provider.
            backend, out: As in `prune`.

        Returns:
            uint8 array, shape (n,), host memory or as `out` says, of `Verdict`: 0 NEVER, 1 MAYBE, 2 ALWAYS.

        Source: small materialized aggregates, Moerkotte, VLDB 1998.
        """
        return self._judge(stats, backend, out, verdicts=True)

    def survivors(
        self, stats: Statistics | PruningStatistics, backend: Backend = "auto", *, out: Out = "host"
    ) -> npt.NDArray[np.int64]:
        """The positions of the containers to keep.

        Args:
            stats: n containers: `Statistics`, or any provider.
            backend, out: As in `prune`. How many survive is asked of the GPU first, which waits for it.

        Returns:
            int64 array, shape (k,), host memory or as `out` says, ascending.
        """
        stats = self._statistics(stats)
        if not stays_here(out):
            from skipstone.kernels.gpu import gpu

            places: npt.NDArray[np.int64] = self._there(
                stats.launch(self._prune), backend, gpu.survivors
            )
            return places
        found = self._descend(stats, backend, verdicts=False, dense=False)
        if found is not None:
            return found.survivors()
        at, ran = survivors(stats.launch(self._prune), backend)
        self._ran[ran] = self._ran.get(ran, 0) + 1
        return at

    def find(self, stats: Statistics | PruningStatistics, backend: Backend = "auto") -> Found:
        """The verdicts as packed words, of which those without a container to keep are left out: what is found costs memory, not what there is.

        Args:
            stats: n containers: `Statistics`, or any provider.
            backend: "auto", "numpy", "numba" or "cupy".

        Returns:
            Bits of the containers that may match, and of those that match whole, host memory (kernels/index/descend.py).
        """
        stats = self._statistics(stats)
        found = self._descend(stats, backend, verdicts=True, dense=False)
        if found is not None:
            return found.in_place()
        return found_in(self._run(self._both, stats, backend, verdicts=False).planes, len(stats))

    def _judge(
        self, stats: Statistics | PruningStatistics, backend: Backend, out: Out, *, verdicts: bool
    ) -> Verdicts:
        stats = self._statistics(stats)
        if not stays_here(out):
            from skipstone.kernels.gpu import gpu

            there: Verdicts = self._there(
                stats.launch(self._both if verdicts else self._prune), backend, gpu.verdicts
            )
            return there
        found = self._descend(stats, backend, verdicts=verdicts, dense=True)
        if found is not None:
            return found.verdicts()
        judged = self._run(
            self._both if verdicts else self._prune, stats, backend, verdicts=True
        ).verdicts
        assert judged is not None
        return judged

    def _statistics(self, stats: Statistics | PruningStatistics) -> Statistics:
        return (
            stats
            if isinstance(stats, Statistics)
            else Statistics.from_provider(stats, self._schema, self._columns)
        )

    def _descend(
        self, stats: Statistics, backend: Backend, *, verdicts: bool, dense: bool
    ) -> Found | None:
        if stats.levels is None:
            return None
        found = descend(
            stats.levels,
            self._both,
            self._both if verdicts else self._prune,
            dense=dense,
            backend=backend,
        )
        if found is not None:
            self._ran["levels"] = self._ran.get("levels", 0) + 1
        return found

    def _there(
        self, launch: Launch, backend: Backend, work: Callable[[Launch, Resident], DeviceArray]
    ) -> DeviceArray:
        found = on_device(launch, backend, lambda on: work(launch, on))
        self._ran["cupy"] = self._ran.get("cupy", 0) + 1
        return found

    def _run(
        self, program: Program, stats: Statistics, backend: Backend, *, verdicts: bool
    ) -> Result:
        result = run(stats.launch(program), backend, verdicts=verdicts)
        self._ran[result.backend] = self._ran.get(result.backend, 0) + 1
        return result

    # What is known of the predicate.

    @property
    def schema(self) -> pa.Schema:
        """The columns that the predicate may name."""
        return self._schema

    @property
    def timezone(self) -> str:
        """The session's time zone."""
        return self._session.timezone

    @property
    def settings(self) -> Settings:
        """Spark's settings that it was made under: the keywords `timezone`, `ansi`, `case_sensitive`."""
        s = self._session
        return Settings(timezone=s.timezone, ansi=s.ansi, case_sensitive=s.case_sensitive)

    @property
    def source(self) -> object:
        """What it was made from."""
        return self._source

    @property
    def expr(self) -> str:
        """The predicate as it was understood: bound, coerced, simplified; as SQL text."""
        return show(self._bound)

    @property
    def node(self) -> Node:
        """The bound predicate, for the row evaluator and the oracle (`skipstone.ir`)."""
        return self._bound

    @property
    def rewritten(self) -> str:
        """The condition over `x_min`, `x_max`, `x_null_count`, `x_row_count` that `prune` tests, as SQL text.

        Its FALSE prunes; TRUE and NULL keep. What `contained` and the container's own row count add
        is left out, as in DataFusion; NOT IN is shown by a simpler, weaker test than `prune` makes.

        Source: DataFusion, `PruningPredicate::predicate_expr`.
        """
        return rewritten(self._both.can_match)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns whose statistics are used, in order of first mention."""
        return self._columns

    @property
    def literal_guarantees(self) -> tuple[LiteralGuarantee, ...]:
        """What must hold of single columns wherever the predicate is true."""
        return self._guarantees

    @property
    def literal_columns(self) -> tuple[str, ...]:
        """The columns of the guarantees: those that `contained` is asked of at the top."""
        return tuple(dict.fromkeys(g.column for g in self._guarantees))

    @property
    def membership_columns(self) -> tuple[str, ...]:
        """Every column with an `=` or IN test anywhere: those that `contained` may be asked of."""
        return tuple(map(show_path, membership_paths(self._bound)))

    @property
    def always_true(self) -> bool:
        """Whether nothing can be pruned, whatever the statistics; only a container without rows still is."""
        return self._both.can_match in (TRUE, Node(Op.MAY_HOLD_ROWS))

    @property
    def has_unknown(self) -> bool:
        """Whether a form in it is not understood, so that it may name columns that are not told."""
        return any(n.op is Op.UNKNOWN for n in self._bound.walk())

    @property
    def program(self) -> Program:
        """What kernels compute: conditions over statistics, one for "can match" and one for "can miss"."""
        return self._both

    def launch(self, stats: Statistics) -> Launch:
        """What `prune` computes over these statistics."""
        return stats.launch(self._prune)

    @property
    def backends_text(self) -> str:
        """Which backends have answered so far, and how often."""
        return (
            ", ".join(f"{name} {times} times" for name, times in self._ran.items())
            or "not asked yet"
        )

    def part(self, bound: Node) -> PruningPredicate:
        """A predicate over the same schema and session from a part of this one's bound tree."""
        return PruningPredicate._from_bound(bound, self._schema, self._session)

    def over(self, bound: Node, schema: pa.Schema) -> PruningPredicate:
        """A bound predicate over other columns, such as partition values, in this one's session."""
        return PruningPredicate._from_bound(bound, schema, self._session)

    def explain(self, stats: Statistics | PruningStatistics | None = None) -> str:
        """A report for people: how the predicate was understood and, given statistics, what each conjunct prunes."""
        return str(hooks.call("explain predicate", self, stats))

    # Being a value.

    def __repr__(self) -> str:
        return f"PruningPredicate({self.expr!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PruningPredicate):
            return NotImplemented
        return (self._bound, self._session) == (
            other._bound,
            other._session,
        ) and self._schema.equals(other._schema)

    def __hash__(self) -> int:
        return hash((self._bound, self._session))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._bound, self._schema, self._session)

    @classmethod
    def _from_bound(cls, bound: Node, schema: pa.Schema, session: Session) -> PruningPredicate:
        return cls(
            _Bound(bound),
            schema,
            timezone=session.timezone,
            ansi=session.ansi,
            case_sensitive=session.case_sensitive,
        )


@dataclass(frozen=True, slots=True)
class _Bound:
    """A predicate that is bound already: a copy, or a part of another."""

    node: Node


def _rebuild(bound: Node, schema: pa.Schema, session: Session) -> PruningPredicate:
    return PruningPredicate._from_bound(bound, schema, session)


def _bind(predicate: object, leaves: Any, session: Session) -> Node:
    match predicate:
        case _Bound():
            return predicate.node
        case str():
            from skipstone.bindings.predicates.sql import parse

            node, places = parse(predicate)
            try:
                return bind(node, leaves, session)
            except PredicateError as e:
                raise e.at(predicate, _place(e.message, places)) from None
        case Expr():
            return bind(predicate.node, leaves, session)
        case pc.Expression():
            from skipstone.bindings.predicates.arrow import from_expression

            return bind(from_expression(predicate), leaves, session)
        case Node():
            return bind(predicate, leaves, session)
        case _ if is_filters(predicate):
            return bind(from_filters(predicate), leaves, session)
        case _ if is_iceberg(predicate):
            return bind(from_iceberg(predicate, leaves, session), leaves, session)
        case _ if is_column(predicate):
            return bind(hooks.call("predicate from Column", predicate), leaves, session)
    raise PredicateError(
        f"a predicate cannot be made from {type(predicate).__name__} {predicate!r:.80}; expected SQL text, a col() expression, "
        'a pyarrow or pyiceberg expression, a PySpark Column, or filters such as [("x", "=", 5)]'
    )


def is_column(value: object) -> bool:
    """Whether a value is a Column of PySpark, which is not imported for that."""
    return any(
        t.__module__ == "pyspark.sql.column" and t.__name__ == "Column" for t in type(value).__mro__
    )


def _place(message: str, places: dict[Any, int]) -> int | None:
    """Where the name that a message speaks of stands in the text."""
    return next(
        (
            at
            for name, at in places.items()
            if message.startswith(f"predicate names {clip(show_path(name.parts))!r};")
        ),
        None,
    )
