"""Import PySpark at first use, inspect a session and its settings, and start a local session."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from skipstone.bindings.spark.session.java import ensure_java
from skipstone.ir.errors import BackendMissing, PredicateError
from skipstone.ir.session import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST: Final = (4, 0)
OLDEST_CLASSIC: Final = (3, 5)  # enough for what only reads and changes plans of classic Spark


def session(
    config: Mapping[str, str] | None = None, *, master: str = "local[*]", name: str = "skipstone"
) -> SparkSession:
    """Start a Spark session on this machine, or return the running one.

    `ensure_java` finds a Java. Workers on this machine run this interpreter unless PYSPARK_PYTHON
    is set.

    Args:
        config: Spark's settings, such as `{"spark.driver.memory": "2g"}`.
        master: Where to run.
        name: The application's name.

    Raises:
        BackendMissing: Java or PySpark is missing.

    Example:
        >>> spark = session({"spark.ui.enabled": "false"}, master="local[2]")  # doctest: +SKIP
    """
    require_pyspark(OLDEST_CLASSIC)
    ensure_java()
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with quiet():
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(master).appName(name)
        for key, value in (config or {}).items():
            builder = builder.config(key, value)
        return builder.getOrCreate()


def check_session(spark: object) -> None:
    """Check that an object is a Spark session, classic or of Spark Connect.

    Raises:
        PredicateError: it is not.
    """
    if not hasattr(spark, "createDataFrame"):
        way_out = (
            "give its .sparkSession"
            if hasattr(spark, "sparkSession")
            else ("skipstone.spark.session() starts one")
        )
        raise PredicateError(
            f"spark is of the type {type(spark).__name__}; expected a SparkSession: {way_out}"
        )


def is_stopped(spark: Any) -> bool:
    """Return True if the Spark of a classic session was stopped."""
    return spark.sparkContext._jsc is None


def settings_of(spark: Any) -> Settings:
    """Return the settings of a session, classic or Spark Connect, for binding predicates."""
    zone, ansi, case = (
        str(spark.conf.get(f"spark.sql.{key}"))
        for key in ("session.timeZone", "ansi.enabled", "caseSensitive")
    )
    return Settings(timezone=zone, ansi=ansi == "true", case_sensitive=case == "true")


def fold_of(spark: Any) -> Callable[[str], str]:
    """Return the function that folds names as a session compares them.

    It converts to lower case, unless the session is case-sensitive.
    """
    return str if str(spark.conf.get("spark.sql.caseSensitive")) == "true" else str.lower


def parallelism(spark: Any) -> int | None:
    """Return how many tasks a session runs at once; None in Spark Connect, where it is unknown."""
    return None if is_connect(spark) else int(spark.sparkContext.defaultParallelism)


def require_pyspark(oldest: tuple[int, int] = OLDEST) -> None:
    """Check that PySpark and pandas are installed, and that PySpark is new enough.

    Args:
        oldest: The oldest PySpark that has what the caller needs.

    Raises:
        BackendMissing: One of them is missing, or PySpark is too old.
    """
    with quiet():
        try:
            import pandas  # noqa: F401
            import pyspark.sql  # noqa: F401
        except ImportError as e:
            raise BackendMissing(
                f'skipstone.spark needs pyspark and pandas ({e}): pip install "skipstone[spark]"'
            ) from e
        if old := too_old(oldest):
            raise BackendMissing(f'{old}: pip install "pyspark[sql]>={oldest[0]}.{oldest[1]}"')


def too_old(oldest: tuple[int, int] = OLDEST) -> str:
    """Return why the installed PySpark is too old, or "" if it is not, or is not installed."""
    with quiet():
        try:
            import pyspark
        except ImportError:
            return ""
    if version_of(pyspark.__version__) >= oldest:
        return ""
    return (
        f"this part of skipstone.spark needs pyspark {oldest[0]}.{oldest[1]} or newer, "
        f"and {pyspark.__version__} is installed"
    )


def oldest_for(of: Any) -> tuple[int, int]:
    """Return the oldest PySpark in which plans of a DataFrame or a session can be pruned."""
    return OLDEST if is_connect(of) else OLDEST_CLASSIC


def version_of(name: str) -> tuple[int, int]:
    """Return the first two numbers of a version; without any, the oldest supported version.

    Example:
        >>> version_of("4.1.0-preview1"), version_of("5.0.0.dev2")
        ((4, 1), (5, 0))
    """
    found = re.match(r"(\d+)\.(\d+)", name)
    return (int(found[1]), int(found[2])) if found else OLDEST


def spark_version(spark: Any) -> tuple[int, int]:
    """Return the older of the session's version and the client's."""
    import pyspark

    return min(version_of(str(spark.version)), version_of(pyspark.__version__))


def is_connect(of: Any) -> bool:
    """Return True if a DataFrame, a Column or a session belongs to Spark Connect."""
    return type(of).__module__.startswith("pyspark.sql.connect")


def functions_of(of: Any) -> Any:
    """Return `pyspark.sql.functions` for the kind of session that an object belongs to."""
    with quiet():
        if is_connect(of):
            from pyspark.sql.connect import functions

            return functions
        from pyspark.sql import functions as classic

        return classic


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress PySpark's warning that it does not support pandas 3 yet.

    The forms that Skipstone uses are tested with pandas 3.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "PySpark does not yet fully support pandas", FutureWarning
        )
        yield
