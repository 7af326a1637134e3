"""`PruningPredicate`: one condition, judged against the statistics of many containers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings import hooks
from skipstone.bindings.predicates.evaluator import Evaluator
from skipstone.bindings.predicates.source import Bound, bind_source
from skipstone.bindings.predicates.source import Condition as Condition
from skipstone.bindings.predicates.source import PredicateSource as PredicateSource
from skipstone.bindings.predicates.source import is_column as is_column
from skipstone.bindings.statistics.statistics import PruningStatistics, Statistics
from skipstone.ir import spec
from skipstone.ir.errors import PredicateError, limited_nesting
from skipstone.ir.guarantee import LiteralGuarantee, guarantees, membership_paths
from skipstone.ir.lower import Program, lower
from skipstone.ir.merge import merge
from skipstone.ir.node import Node, Op, columns_of, has_unknown, not_understood, show_path
from skipstone.ir.session import Session, Settings
from skipstone.ir.simplify import TRUE
from skipstone.ir.text import rewritten, show
from skipstone.ir.types import leaves_of
from skipstone.ir.zones import check_zone
from skipstone.kernels.pack.planes import Mask
from skipstone.kernels.run.launch import Launch
from skipstone.kernels.run.run import Backend, Out

if TYPE_CHECKING:
    from skipstone.kernels.index.descend import SparseVerdicts


class PruningPredicate:
    """A condition that decides from statistics alone which containers can hold a matching row.

    A container is anything that has statistics: a file, a row group, a page, a partition. On a row,
    a condition is TRUE, FALSE or NULL, and the row matches if it is TRUE. From the minimum, maximum
    and null count of each column, a predicate computes which of these outcomes the rows of a
    container can have. That gives one of three verdicts:

    - **NEVER** (0): TRUE is impossible. No row matches, so the container is pruned.
    - **MAYBE** (1): some rows may match. The container is read, and its rows are filtered.
    - **ALWAYS** (2): only TRUE is possible. Every row matches, so the container needs no filter,
      and its rows can be counted without reading it.

    Three containers show all three. Their values of `x` lie in 0 to 4, in 2 to 10 and in 5 to 8:

        >>> import pyarrow as pa, skipstone as ss
        >>> schema = pa.schema([("x", pa.int64())])
        >>> bounds = {"min": [0, 2, 5], "max": [4, 10, 8], "null_count": [0, 0, 0]}
        >>> stats = ss.Statistics.from_dict({"x": bounds}, schema, row_count=[100, 100, 100])
        >>> predicate = ss.PruningPredicate("x >= 5", schema)
        >>> predicate.evaluate(stats)  # NEVER, MAYBE, ALWAYS
        array([0, 1, 2], dtype=uint8)
        >>> predicate.prune(stats)  # True: keep
        array([False,  True,  True])

    Verdicts are sound: NEVER and ALWAYS are proofs. A statistic that is missing or cannot be used
    rules nothing out, and neither does a form of SQL that is not understood; the rest of the
    condition still prunes. Spark SQL defines what a condition means, whatever form it is written
    in: NaN is above every number, strings compare by their bytes, literals are coerced.

    Predicates are immutable. They can be compared, hashed, copied and pickled, and threads may
    share them.

    Args:
        predicate: The condition: Spark SQL text, a `col()` expression, filter lists such as
            `[("x", "=", 5)]`, an expression of pyarrow or pyiceberg, or a PySpark Column, classic
            or of Spark Connect.
        schema: The columns that the predicate may name.
        timezone: The Spark session's time zone. It relates literals without a zone to columns with
            one, and the reverse.
        ansi: True if Spark runs in ANSI mode, its default since 4.0. It decides some casts of
            literals.
        case_sensitive: True if names must match in case.
        on_unknown: Called with (what, why) for each form that is not understood, such as a function
            that is not registered. Such a form prunes nothing.

    Raises:
        PredicateSyntaxError: the text is not one condition.
        PredicateTooDeep: the condition is nested more than a few hundred levels deep.
        UnknownColumn, AmbiguousColumn: a name fits no column, or several.
        PredicateError: the predicate has an unknown form, or an argument is invalid.

    Source: DataFusion, `PruningPredicate`.
    """

    def __init__(
        self,
        predicate: PredicateSource,
        schema: pa.Schema,
        *,
        timezone: str = "UTC",
        ansi: bool = True,
        case_sensitive: bool = False,
        on_unknown: Callable[[str, str], object] | None = None,
    ) -> None:
        if not isinstance(schema, pa.Schema):
            way_out = ": give its .schema" if hasattr(schema, "schema") else ""
            raise PredicateError(
                f"schema is {type(schema).__name__}; expected a pyarrow.Schema{way_out}"
            )
        check_zone(timezone)
        self._source, self._schema = predicate, schema
        self._session = Session(timezone, ansi, case_sensitive)
        self._leaves = leaves_of(schema)
        with limited_nesting():
            self._bound = spec.check_bound(bind_source(predicate, self._leaves, self._session))
            literal_guarantees = guarantees(self._bound)
            self._both = lower(merge(self._bound), literal_guarantees)
        if on_unknown is not None:
            for reason in not_understood(self._bound):
                on_unknown(reason.what, reason.why)
        self._guarantees = literal_guarantees or ()
        self._prune = Program(self._both.can_match)
        for root in self._both.roots:
            spec.check_program(root)
        self._evaluator = Evaluator(self._prune, self._both)

    # Judging containers.

    def prune(
        self, stats: Statistics | PruningStatistics, backend: Backend = "auto", *, out: Out = "host"
    ) -> Mask:
        """Decide which containers to keep.

        Args:
            stats: n containers: `Statistics`, or any provider of statistics.
            backend: "auto", "numpy", "numba" or "cupy". "auto" uses a GPU only for statistics that
                live there (`Statistics.to_device`).
            out: "host": return a NumPy array. "device": return a CuPy array on the device of the
                statistics, on CuPy's current stream, without waiting for it.

        Returns:
            bool array, shape (n,), memory as `out` says. True: keep, some row may match. False:
            prune, no row can match.

        Raises:
            BackendMissing: the backend is not available.
            DeviceError: the GPU failed, and the backend is not "auto".
            StatisticsError: statistics of a saved file are damaged, or a provider's answer has the
                wrong length.

        Source: DataFusion, `PruningPredicate::prune`.
        """
        stats = self._statistics(stats)
        return self._evaluator.verdicts(stats, backend, out, fully_matched=False).view(np.bool_)

    def evaluate(
        self, stats: Statistics | PruningStatistics, backend: Backend = "auto", *, out: Out = "host"
    ) -> npt.NDArray[np.uint8]:
        """Decide for each container whether no row, some rows or every row can match.

        Args:
            stats: n containers: `Statistics`, or any provider of statistics.
            backend, out: As in `prune`.

        Returns:
            uint8 array of `Verdict`, shape (n,), memory as `out` says: 0 NEVER, 1 MAYBE, 2 ALWAYS.

        Raises:
            BackendMissing, DeviceError, StatisticsError: as in `prune`.

        Source: small materialized aggregates, Moerkotte, VLDB 1998.
        """
        return self._evaluator.verdicts(self._statistics(stats), backend, out, fully_matched=True)

    def survivors(
        self, stats: Statistics | PruningStatistics, backend: Backend = "auto", *, out: Out = "host"
    ) -> npt.NDArray[np.int64]:
        """Return the positions of the containers to keep.

        Args:
            stats: n containers: `Statistics`, or any provider of statistics.
            backend, out: As in `prune`; but with "device" this waits for the GPU, which first
                counts the survivors.

        Returns:
            int64 array, shape (k,), ascending, memory as `out` says.

        Raises:
            BackendMissing, DeviceError, StatisticsError: as in `prune`.
        """
        return self._evaluator.survivors(self._statistics(stats), backend, out)

    def find(
        self, stats: Statistics | PruningStatistics, backend: Backend = "auto"
    ) -> SparseVerdicts:
        """Return the verdicts as packed words, without words that hold no container to keep.

        Memory grows with the containers that are kept, not with all containers.

        Args:
            stats: n containers: `Statistics`, or any provider of statistics.
            backend: As in `prune`.

        Returns:
            Bits of the containers that may match and of those that fully match, host memory
            (kernels/index/descend.py).

        Raises:
            BackendMissing, DeviceError, StatisticsError: as in `prune`.
        """
        return self._evaluator.find(self._statistics(stats), backend)

    def _statistics(self, stats: Statistics | PruningStatistics) -> Statistics:
        if isinstance(stats, Statistics):
            return stats
        return Statistics.from_provider(stats, self._schema, self.columns)

    # Properties of the predicate.

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
        """Spark's settings: the keywords `timezone`, `ansi` and `case_sensitive`."""
        s = self._session
        return Settings(timezone=s.timezone, ansi=s.ansi, case_sensitive=s.case_sensitive)

    @property
    def source(self) -> object:
        """The text or object that the predicate was made from."""
        return self._source

    @property
    def expr(self) -> str:
        """The predicate as it was understood, as SQL text: bound, coerced and simplified."""
        return show(self._bound)

    @property
    def node(self) -> Node:
        """The bound predicate, for the row evaluator and the oracle (`skipstone.ir`)."""
        return self._bound

    @property
    def rewritten(self) -> str:
        """The condition over `x_min`, `x_max`, `x_null_count`, `x_row_count` that `prune` tests.

        As SQL text: where it is FALSE, the container is pruned; TRUE and NULL keep. As in
        DataFusion, it leaves out what `contained` and the container's own row count add. NOT IN is
        shown by a simpler, weaker test than the one that `prune` makes.

        Source: DataFusion, `PruningPredicate::predicate_expr`.
        """
        return rewritten(self._both.can_match)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns whose statistics are read, in order of first mention."""
        return tuple(map(show_path, columns_of(self._bound)))

    @property
    def literal_guarantees(self) -> tuple[LiteralGuarantee, ...]:
        """Conditions on single columns that hold wherever the predicate is TRUE."""
        return self._guarantees

    @property
    def literal_columns(self) -> tuple[str, ...]:
        """The columns of the literal guarantees, which `contained` can refute."""
        return tuple(dict.fromkeys(g.column for g in self._guarantees))

    @property
    def membership_columns(self) -> tuple[str, ...]:
        """The columns with an `=` or IN test or a guarantee, which may be passed to `contained`."""
        return tuple(map(show_path, membership_paths(self._bound, self._guarantees)))

    @property
    def always_true(self) -> bool:
        """True if no statistics can prune anything, except a container without rows."""
        return self._both.can_match in (TRUE, Node(Op.MAY_HOLD_ROWS))

    @property
    def has_unknown(self) -> bool:
        """True if a form is not understood; it may name columns that `columns` does not list."""
        return has_unknown(self._bound)

    @property
    def program(self) -> Program:
        """The program for kernels: conditions over statistics, "can match" and "can miss"."""
        return self._both

    def launch(self, stats: Statistics) -> Launch:
        """Return the launch that `prune` runs over these statistics."""
        return stats.launch(self._prune)

    @property
    def backends_text(self) -> str:
        """The backends that have answered so far, with counts, as text."""
        return (
            ", ".join(f"{name} {n} times" for name, n in self._evaluator.answered.items())
            or "none has answered yet"
        )

    def part(self, bound: Node) -> PruningPredicate:
        """Return a part of this predicate's bound tree as a predicate of its own."""
        return PruningPredicate._from_bound(bound, self._schema, self._session)

    def over(self, bound: Node, schema: pa.Schema) -> PruningPredicate:
        """Return a bound predicate over other columns, such as partition values.

        It keeps this predicate's session settings.
        """
        return PruningPredicate._from_bound(bound, schema, self._session)

    def explain(self, stats: Statistics | PruningStatistics | None = None) -> str:
        """Explain how the predicate was understood and what it prunes.

        Args:
            stats: Statistics; None to explain only the predicate.

        Returns:
            A report of several lines: the bound predicate, the condition over statistics, forms
            that are not understood, literal guarantees, the program and the backends used. With
            statistics, also the verdicts and what each conjunct prunes.
        """
        report: str = hooks.call("explain predicate", self, stats)
        return report

    # Value semantics.

    def _repr_html_(self) -> str | None:
        return hooks.html("HTML of predicate", self)

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
        return PruningPredicate._from_bound, (self._bound, self._schema, self._session)

    @classmethod
    def _from_bound(cls, bound: Node, schema: pa.Schema, session: Session) -> PruningPredicate:
        return cls(
            Bound(bound),
            schema,
            timezone=session.timezone,
            ansi=session.ansi,
            case_sensitive=session.case_sensitive,
        )
