"""`keep_udf` and `verdict_udf`: pandas UDFs that judge the rows of a DataFrame as containers.

PySpark's UDF is made of a plain function over pandas Series. What pandas cannot carry exactly is
helped on the way where a type can be seen: a call on columns hands dates over as days and timestamps
as microseconds, so that far ones do not raise and no time zone is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from skipstone.bindings.predicate import PruningPredicate
from skipstone.bindings.spark.series import Carrier, read
from skipstone.bindings.spark.session import quiet, require_pyspark, settings_of
from skipstone.bindings.spark.slots import Judge, Slot, slots_of
from skipstone.ir.errors import PredicateError, StatisticsError
from skipstone.ir.types import Kind

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

Answer = Literal["keep", "verdict"]
ANSWERS = {"keep": "boolean", "verdict": "int"}
DAYS, INSTANT, WALL = pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us")


class ContainerUDF:
    """A pandas UDF over the statistics of containers; call it with columns in the order of `columns`.

    It goes wherever PySpark's own UDFs go, `spark.udf.register` included. Called by that name in SQL,
    it is given what PySpark makes of dates and timestamps: wall clocks, which it takes for any instant
    that shows them in some zone; and PySpark raises for timestamps outside 1677 to 2262 and for dates
    after 9999. A call on columns, and `with_verdict`, have neither limit.

    Attributes:
        columns: The statistics that a call takes, by name: `x.min`, `x.max`, `x.null_count`,
            `x.row_count`, for floats `x.nan_count`, and so on for each column; at last the
            container's own `row_count`. One that is not known: `F.lit(None)`.
        predicate: The condition.
        func, returnType, evalType, deterministic: As PySpark's UDFs have them.
    """

    def __init__(self, predicate: PruningPredicate, answer: Answer, *, deterministic: bool = True) -> None:
        require_pyspark()
        self.predicate, self.deterministic = predicate, deterministic
        self._answer: Answer = answer
        self._slots = slots_of(predicate)
        self.columns = tuple(s.name for s in self._slots)
        judge = Judge.of(predicate, self._slots)
        self._plain = make(judge, [Carrier() for _ in self._slots], answer, deterministic=deterministic)
        self._carried = make(judge, [_carrier(s) for s in self._slots], answer, deterministic=deterministic)
        self.func, self.returnType, self.evalType = self._plain.func, self._plain.returnType, self._plain.evalType

    def __call__(self, *columns: Column | str) -> Column:
        """The answer as a column.

        Raises:
            StatisticsError: there are more or fewer columns than `self.columns`.
        """
        if len(columns) != len(self._slots):
            raise StatisticsError(
                f"the UDF of {self.predicate.expr!r} was called with {len(columns)} columns; expected {len(self._slots)}: {', '.join(self.columns)}"
            )
        found: Column = self._carried(*(_dress(s, c) for s, c in zip(self._slots, columns, strict=True)))
        return found

    def asNondeterministic(self) -> ContainerUDF:
        """The same UDF, which Spark will not evaluate twice to push a filter down."""
        return ContainerUDF(self.predicate, self._answer, deterministic=False)

    def __repr__(self) -> str:
        return f"{self._answer}_udf({self.predicate.expr!r})"


def keep_udf(predicate: PruningPredicate | Any, schema: pa.Schema | StructType | None = None) -> ContainerUDF:
    """A pandas UDF that says which containers to keep: BOOLEAN, false where no row can match.

    Args:
        predicate: A `PruningPredicate`; or what makes one, such as SQL text, together with `schema`.
        schema: The table's columns, as pyarrow or Spark has them. The predicate then takes the time
            zone, ANSI mode and case sensitivity of the active Spark session.

    Returns:
        The UDF; `columns` names what it is called with.

    A bigint that arrives as float64, because a null is in its batch, is rounded outwards; a count
    beyond 2^53 is then unknown. `with_verdict` loses nothing.

    Example:
        >>> import pyarrow as pa
        >>> from skipstone.bindings.spark.session import session
        >>> spark = session()
        >>> udf = keep_udf("x = 5", pa.schema([("x", pa.int64())]))
        >>> udf.columns
        ('x.min', 'x.max', 'x.null_count', 'x.row_count', 'row_count')
        >>> from pyspark.sql import functions as F
        >>> df.where(udf(*(F.col(f"`{c}`") for c in udf.columns)))  # doctest: +SKIP
    """
    return ContainerUDF(predicate_of(predicate, schema), "keep")


def verdict_udf(predicate: PruningPredicate | Any, schema: pa.Schema | StructType | None = None) -> ContainerUDF:
    """A pandas UDF that says whether no row, some or every row can match: INT, 0 NEVER, 1 MAYBE, 2 ALWAYS.

    Args:
        predicate: As in `keep_udf`.
        schema: As in `keep_udf`.

    Returns:
        The UDF; `columns` names what it is called with.
    """
    return ContainerUDF(predicate_of(predicate, schema), "verdict")


def predicate_of(predicate: PruningPredicate | Any, schema: pa.Schema | StructType | None, spark: Any = None) -> PruningPredicate:
    """A predicate that was given, or is made under the settings of a Spark session (`spark`, else the active one)."""
    if isinstance(predicate, PruningPredicate):
        return predicate
    if schema is None:
        raise PredicateError(f"the predicate {predicate!r:.80} came without its schema; expected a PruningPredicate, or schema=")
    require_pyspark()
    with quiet():
        from pyspark.sql import SparkSession
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import StructType

        if isinstance(schema, StructType):
            schema = to_arrow_schema(schema, timezone="UTC")
        spark = spark or SparkSession.getActiveSession()
    if spark is None:
        return PruningPredicate(predicate, schema)
    return PruningPredicate(predicate, schema, **settings_of(spark))


def make(judge: Judge, carriers: Sequence[Carrier], answer: Answer, *, deterministic: bool) -> Any:
    """PySpark's UDF over one Series for each carrier, or two where it is split."""
    with quiet():
        import pandas as pd
        from pyspark.sql import functions as F

        function = _function(judge, tuple(carriers), answer)
        function.__name__ = answer  # what plans and result columns show
        # Set, not written: annotations that are text would need pandas among this module's names.
        function.__annotations__ = {"series": pd.Series, "return": pd.Series}
        pandas_udf: Any = F.pandas_udf
        made = pandas_udf(function, ANSWERS[answer])
    return made if deterministic else made.asNondeterministic()


def _function(judge: Judge, carriers: tuple[Carrier, ...], answer: Answer) -> Callable[..., Any]:
    def containers(*series):  # type: ignore[no-untyped-def]
        import pandas as pd

        given, arrays = iter(series), []
        for slot, carrier in zip(judge.slots, carriers, strict=True):
            arrays.append(read(slot, carrier, next(given), next(given) if carrier.split else None))
        n = len(series[0])
        return pd.Series(judge.kept(arrays, n) if answer == "keep" else judge.verdicts(arrays, n).astype("int32"))

    return containers


def _carrier(slot: Slot) -> Carrier:
    if slot.counts:
        return Carrier()
    match slot.dtype.kind:
        case Kind.DATE:
            return Carrier(means=DAYS)
        case Kind.TIMESTAMP:
            return Carrier(means=INSTANT if slot.dtype.zoned else WALL)
    return Carrier()


def _dress(slot: Slot, column: Column | str) -> Column:
    """The column as its carrier wants it. One of another type than the statistic's is unknown there."""
    from pyspark.sql import functions as F

    c = F.col(column) if isinstance(column, str) else column
    means = _carrier(slot).means
    if means is None:
        return c
    name, number = {DAYS: ("date", days), INSTANT: ("timestamp", instant), WALL: ("timestamp_ntz", wall)}[means]
    return F.when(F.typeof(c) == name, number(c.cast(name)))


def days(date: Column) -> Column:
    """Days since 1970 of a DATE."""
    from pyspark.sql import functions as F

    return F.unix_date(date)


def instant(timestamp: Column) -> Column:
    """Microseconds since 1970 of a TIMESTAMP, whatever the session's zone."""
    from pyspark.sql import functions as F

    return F.unix_micros(timestamp)


def wall(timestamp_ntz: Column) -> Column:
    """Microseconds since 1970 of a TIMESTAMP_NTZ, whatever the session's zone."""
    from pyspark.sql import functions as F

    since = timestamp_ntz - F.lit("1970-01-01").cast("timestamp_ntz")
    return (since.cast("interval second").cast("decimal(20,6)") * 1_000_000).cast("bigint")
