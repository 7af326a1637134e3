"""`keep_udf` and `verdict_udf`: UDFs that judge the rows of a DataFrame as containers.

They work on pandas Series or Arrow arrays, from plain functions over batches. pandas cannot carry
every type without loss. A call on columns, where types are visible, therefore passes dates as days
and timestamps as microseconds, so that far ones raise no error and no time zone is needed.
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
    settings_of,
)
from skipstone.bindings.spark.session.text_meaning import require_usual_meaning
from skipstone.bindings.spark.session.types import as_arrow
from skipstone.bindings.spark.statistics.carry import as_carried, own_carrier
from skipstone.bindings.spark.statistics.judge import Answer, Judge, over_arrays, over_series
from skipstone.bindings.spark.statistics.needed import needed_statistics
from skipstone.bindings.spark.statistics.series import Carrier
from skipstone.ir.errors import BackendMissing, PredicateError, StatisticsError
from skipstone.ir.session import check_flag

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

Kind = Literal["pandas", "arrow"]


class ContainerUDF:
    """A UDF over the statistics of containers. Call it with Columns in the order of `columns`.

    It works wherever PySpark's own UDFs do, including `spark.udf.register`. If SQL calls it by its
    registered name, it receives what PySpark makes of the columns and cannot see their types. Then
    collated text must not be passed. In Series, dates and timestamps are wall clocks, and bounds
    cover every instant that shows this wall clock in some zone; PySpark raises an error for
    timestamps outside 1677 to 2262 and for dates after 9999. Arrow arrays, a call on columns, and
    `with_verdict` have no such limits.

    A worker process unpickles the predicate once for all tasks and batches.

    Attributes:
        columns: The names of the statistics that a call takes: `x.min`, `x.max`, `x.null_count`,
            `x.row_count`, for floats `x.nan_count`, and so on for each column; the container's own
            `row_count` comes last. Pass `F.lit(None)` for an unknown one.
        predicate: The condition.
        kind: "pandas" or "arrow".
        func, returnType, evalType, deterministic: As in PySpark's UDFs.
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
        check_flag("deterministic", deterministic)
        self.predicate, self.kind, self.deterministic = predicate, kind, deterministic
        self._answer: Answer = answer
        self._needed = needed_statistics(predicate)
        self.columns = tuple(s.name for s in self._needed)
        self._judge = Judge.of(predicate, self._needed)
        plain = self._made([Carrier() for _ in self._needed], connect=_remote())
        self.func, self.returnType, self.evalType = plain.func, plain.returnType, plain.evalType

    def _made(self, carriers: Sequence[Carrier], *, connect: bool) -> Any:
        return make_udf(
            self._judge,
            carriers,
            self._answer,
            self.kind,
            deterministic=self.deterministic,
            connect=connect,
        )

    def __call__(self, *columns: Column | str) -> Column:
        """Return the answer as a Column.

        Args:
            columns: The statistics that `self.columns` names, as Columns or names.

        Raises:
            StatisticsError: The number of columns is not that of `self.columns`.
        """
        if len(columns) != len(self._needed):
            raise StatisticsError(
                f"the UDF of {self.predicate.expr!r} was called with {len(columns)} columns; "
                f"expected {len(self._needed)}: {', '.join(self.columns)}"
            )
        like = next((c for c in columns if not isinstance(c, str)), None)
        F, arrow = functions_of(like), self.kind == "arrow"
        given = [F.col(c) if isinstance(c, str) else c for c in columns]
        udf = self._made(
            [own_carrier(s) for s in self._needed],
            connect=_remote() if like is None else is_connect(like),
        )
        found: Column = udf(
            *(as_carried(F, s, c, arrow=arrow) for s, c in zip(self._needed, given, strict=True))
        )
        return found

    def asNondeterministic(self) -> ContainerUDF:
        """Return the same UDF as nondeterministic: Spark does not repeat it to push a filter."""
        return ContainerUDF(self.predicate, self._answer, self.kind, deterministic=False)

    def __repr__(self) -> str:
        return f"{self._answer}_udf({self.predicate.expr!r})"


def keep_udf(
    predicate: PruningPredicate | Any,
    schema: pa.Schema | StructType | None = None,
    *,
    kind: Kind = "pandas",
) -> ContainerUDF:
    """Make a UDF that returns which containers to keep: BOOLEAN, false if no row can match.

    A bigint that arrives in a Series as float64, because its batch holds a null, is rounded
    outwards; a count beyond 2^53 is then unknown. Arrow arrays and `with_verdict` lose nothing.

    Args:
        predicate: A `PruningPredicate`; or anything that makes one, such as SQL text, together with
            `schema`.
        schema: The table's columns, from pyarrow or Spark. The predicate then takes the time zone,
            ANSI mode and case sensitivity of the active Spark session.
        kind: "pandas" for batches of Series; "arrow" for Arrow arrays, which are faster and exact
            for every type and need Spark 4.1 or later.

    Returns:
        The UDF. Its `columns` names the arguments of a call.

    Raises:
        BackendMissing: This PySpark has no such UDFs.

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
    """Make a UDF that returns verdicts: INT, 0 NEVER, 1 MAYBE, 2 ALWAYS.

    Args:
        predicate: As in `keep_udf`.
        schema, kind: As in `keep_udf`.

    Returns:
        The UDF. Its `columns` names the arguments of a call.

    Raises:
        BackendMissing: This PySpark has no such UDFs.
    """
    return ContainerUDF(predicate_of(predicate, schema), "verdict", kind)


def predicate_of(
    predicate: PruningPredicate | Any, schema: pa.Schema | StructType | None, spark: Any = None
) -> PruningPredicate:
    """Return a given predicate, or make one under a session's settings.

    The session is `spark`, or the active one. Without a session, the default settings apply.

    Raises:
        PredicateError: `predicate` is not bound, and there is no `schema`.
    """
    if isinstance(predicate, PruningPredicate):
        return predicate
    if schema is None:
        raise PredicateError(
            f"the predicate {predicate!r:.80} came without its schema; expected a "
            "PruningPredicate, or schema="
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
    require_usual_meaning(spark, predicate)
    return PruningPredicate(predicate, schema, **settings_of(spark))


def make_udf(
    judge: Judge,
    carriers: Sequence[Carrier],
    answer: Answer,
    kind: Kind,
    *,
    deterministic: bool,
    connect: bool,
) -> Any:
    """Make PySpark's UDF over batches.

    A pandas UDF takes Series: one for each carrier, or two for one that is split. An Arrow UDF
    takes one array for each statistic.

    Raises:
        BackendMissing: This PySpark has no Arrow UDFs.
    """
    with quiet():
        import pandas as pd
        import pyspark
        from pyspark.sql import functions as F
        from pyspark.sql.types import BooleanType, IntegerType

        if kind == "arrow" and not hasattr(F, "arrow_udf"):
            raise BackendMissing(
                f"Arrow UDFs need pyspark 4.1 or newer, and {pyspark.__version__} is installed; "
                "use kind='pandas', or with_verdict"
            )
        function: Any = (
            over_series(judge, carriers, answer) if kind == "pandas" else over_arrays(judge, answer)
        )
        one, pyspark_udf = (
            (pd.Series, F.pandas_udf) if kind == "pandas" else (pa.Array, F.arrow_udf)
        )
        function.__name__ = answer  # plans and result columns show it
        # Annotations as text would need pandas in the worker's namespace, so they are assigned.
        function.__annotations__ = {
            "batches": Iterator[tuple[one, ...]],  # type: ignore[valid-type]
            "return": Iterator[one],  # type: ignore[valid-type]
        }
        returns = BooleanType() if answer == "keep" else IntegerType()
        made: Any = pyspark_udf(function, returns)
        # This process runs Spark itself, and is also a client of Spark Connect.
        if connect and not _remote():
            from pyspark.sql.connect.udf import _create_udf

            made = _create_udf(function, returns, made.evalType)
    return made if deterministic else made.asNondeterministic()


def _remote() -> bool:
    """Return True if PySpark's functions make Spark Connect Columns in this process."""
    with quiet():
        from pyspark.sql.utils import is_remote

        return bool(is_remote())
