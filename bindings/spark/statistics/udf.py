"""`keep_udf` and `verdict_udf`: UDFs over pandas Series or Arrow arrays that judge the rows of a DataFrame as containers.

PySpark's UDF is made of a plain function over batches. What pandas cannot carry exactly is helped on
the way where a type can be seen: a call on columns hands dates over as days and timestamps as
microseconds, so that far ones do not raise and no time zone is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.spark.session.session import (
    functions_of,
    is_connect,
    quiet,
    require_pyspark,
    require_usual_text,
    settings_of,
)
from skipstone.bindings.spark.session.types import as_arrow
from skipstone.bindings.spark.statistics.carry import dressed, own_carrier
from skipstone.bindings.spark.statistics.judge import Answer, Judge, over_arrays, over_series
from skipstone.bindings.spark.statistics.series import Carrier
from skipstone.bindings.spark.statistics.slots import slots_of
from skipstone.ir.errors import BackendMissing, PredicateError, StatisticsError

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

Kind = Literal["pandas", "arrow"]


class ContainerUDF:
    """A UDF over the statistics of containers; call it with columns in the order of `columns`.

    It goes wherever PySpark's own UDFs go, `spark.udf.register` included. Called by that name in SQL, it is
    given what PySpark makes of the columns, whose types it cannot see: collated text must not be handed over.
    In Series, dates and timestamps then are wall clocks, which it takes for any instant that shows them in
    some zone; and PySpark raises for timestamps outside 1677 to 2262 and for dates after 9999. Arrow arrays,
    a call on columns, and `with_verdict` have no such limit.

    A worker process makes the predicate once, whatever tasks and batches it is sent.

    Attributes:
        columns: The statistics that a call takes, by name: `x.min`, `x.max`, `x.null_count`,
            `x.row_count`, for floats `x.nan_count`, and so on for each column; at last the
            container's own `row_count`. One that is not known: `F.lit(None)`.
        predicate: The condition.
        kind: "pandas" or "arrow".
        func, returnType, evalType, deterministic: As PySpark's UDFs have them.
    """

    def __init__(
        self,
        predicate: PruningPredicate,
        answer: Answer,
        kind: Kind = "pandas",
        *,
        deterministic: bool = True,
    ) -> None:
        require_pyspark()
        self.predicate, self.kind, self.deterministic = predicate, kind, deterministic
        self._answer: Answer = answer
        self._slots = slots_of(predicate)
        self.columns = tuple(s.name for s in self._slots)
        self._judge = Judge.of(predicate, self._slots)
        plain = self._made([Carrier() for _ in self._slots], connect=_remote())
        self.func, self.returnType, self.evalType = plain.func, plain.returnType, plain.evalType

    def _made(self, carriers: Sequence[Carrier], *, connect: bool) -> Any:
        return make(
            self._judge,
            carriers,
            self._answer,
            self.kind,
            deterministic=self.deterministic,
            connect=connect,
        )

    def __call__(self, *columns: Column | str) -> Column:
        """The answer as a column.

        Raises:
            StatisticsError: there are more or fewer columns than `self.columns`.
        """
        if len(columns) != len(self._slots):
            raise StatisticsError(
                f"the UDF of {self.predicate.expr!r} was called with {len(columns)} columns; expected {len(self._slots)}: {', '.join(self.columns)}"
            )
        like = next((c for c in columns if not isinstance(c, str)), None)
        F, arrow = functions_of(like), self.kind == "arrow"
        given = [F.col(c) if isinstance(c, str) else c for c in columns]
        udf = self._made(
            [own_carrier(s) for s in self._slots],
            connect=_remote() if like is None else is_connect(like),
        )
        found: Column = udf(
            *(dressed(F, s, c, arrow=arrow) for s, c in zip(self._slots, given, strict=True))
        )
        return found

    def asNondeterministic(self) -> ContainerUDF:
        """The same UDF, which Spark will not evaluate twice to push a filter down."""
        return ContainerUDF(self.predicate, self._answer, self.kind, deterministic=False)

    def __repr__(self) -> str:
        return f"{self._answer}_udf({self.predicate.expr!r})"


def keep_udf(
    predicate: PruningPredicate | Any,
    schema: pa.Schema | StructType | None = None,
    *,
    kind: Kind = "pandas",
) -> ContainerUDF:
    """A UDF that says which containers to keep: BOOLEAN, false where no row can match.

    Args:
        predicate: A `PruningPredicate`; or what makes one, such as SQL text, together with `schema`.
        schema: The table's columns, as pyarrow or Spark has them. The predicate then takes the time
            zone, ANSI mode and case sensitivity of the active Spark session.
        kind: "pandas": batches of Series. "arrow": of Arrow arrays, faster and exact for every type; Spark 4.1 and later.

    Returns:
        The UDF; `columns` names what it is called with.

    Raises:
        BackendMissing: this PySpark has no such UDFs.

    In a Series, a bigint that arrives as float64, because a null is in its batch, is rounded outwards; a
    count beyond 2^53 is then unknown. Arrow arrays and `with_verdict` lose nothing.

    Example:
        >>> udf = keep_udf("x = 5", pa.schema([("x", pa.int64())]))
        >>> udf.columns
        ('x.min', 'x.max', 'x.null_count', 'x.row_count', 'row_count')
        >>> from pyspark.sql import functions as F
        >>> df.where(udf(*(F.col(f"`{c}`") for c in udf.columns)))  # doctest: +SKIP
    """
    return ContainerUDF(predicate_of(predicate, schema), "keep", kind)


def verdict_udf(
    predicate: PruningPredicate | Any,
    schema: pa.Schema | StructType | None = None,
    *,
    kind: Kind = "pandas",
) -> ContainerUDF:
    """A UDF that says whether no row, some or every row can match: INT, 0 NEVER, 1 MAYBE, 2 ALWAYS.

    Args:
        predicate: As in `keep_udf`.
        schema, kind: As in `keep_udf`.

    Returns:
        The UDF; `columns` names what it is called with.

    Raises:
        BackendMissing: this PySpark has no such UDFs.
    """
    return ContainerUDF(predicate_of(predicate, schema), "verdict", kind)


def predicate_of(
    predicate: PruningPredicate | Any, schema: pa.Schema | StructType | None, spark: Any = None
) -> PruningPredicate:
    """A predicate that was given, or is made under the settings of a Spark session (`spark`, else the active one)."""
    if isinstance(predicate, PruningPredicate):
        return predicate
    if schema is None:
        raise PredicateError(
            f"the predicate {predicate!r:.80} came without its schema; expected a PruningPredicate, or schema="
        )
    require_pyspark()
    with quiet():
        from pyspark.sql import SparkSession
        from pyspark.sql.types import StructType

        if isinstance(schema, StructType):
            schema = as_arrow(schema)
        spark = spark or SparkSession.getActiveSession()
    if spark is None:
        return PruningPredicate(predicate, schema)
    require_usual_text(spark)
    return PruningPredicate(predicate, schema, **settings_of(spark))


def make(
    judge: Judge,
    carriers: Sequence[Carrier],
    answer: Answer,
    kind: Kind,
    *,
    deterministic: bool,
    connect: bool,
) -> Any:
    """PySpark's UDF over batches: of Series, one for each carrier, or two where it is split; or of Arrow arrays, one for each slot.

    Raises:
        BackendMissing: this PySpark has no Arrow UDFs.
    """
    with quiet():
        import pandas as pd
        import pyspark
        from pyspark.sql import functions as F
        from pyspark.sql.types import BooleanType, IntegerType

        if kind == "arrow" and not hasattr(F, "arrow_udf"):
            raise BackendMissing(
                f"Arrow UDFs need pyspark 4.1 or newer, and {pyspark.__version__} is installed; use kind='pandas', or with_verdict"
            )
        function: Any = (
            over_series(judge, carriers, answer) if kind == "pandas" else over_arrays(judge, answer)
        )
        one, make_udf = (pd.Series, F.pandas_udf) if kind == "pandas" else (pa.Array, F.arrow_udf)
        function.__name__ = answer  # what plans and result columns show
        # Set, not written: annotations that are text would need pandas among the worker's names.
        function.__annotations__ = {"batches": Iterator[tuple[one, ...]], "return": Iterator[one]}  # type: ignore[valid-type]
        returns = BooleanType() if answer == "keep" else IntegerType()
        made: Any = make_udf(function, returns)
        if connect and not _remote():  # a client in a process that runs Spark itself too
            from pyspark.sql.connect.udf import _create_udf

            made = _create_udf(function, returns, made.evalType)
    return made if deterministic else made.asNondeterministic()


def _remote() -> bool:
    """Whether PySpark's functions make Columns of Spark Connect in this process."""
    with quiet():
        from pyspark.sql.utils import is_remote

        return bool(is_remote())
