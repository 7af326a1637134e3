"""PySpark, imported when it is first needed; what kind of session one is, and its settings; a local session that finds its Java by itself."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from skipstone.bindings.spark.session.java import ensure_java
from skipstone.ir.errors import BackendMissing, UnsupportedForm
from skipstone.ir.session import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST: Final = (4, 0)


def session(
    config: Mapping[str, str] | None = None, *, master: str = "local[*]", name: str = "skipstone"
) -> SparkSession:
    """A Spark session on this machine; the one that is running already, if there is one.

    Java is found by `ensure_java`. Workers on this machine run this interpreter unless PYSPARK_PYTHON says otherwise.

    Args:
        config: Spark's settings, such as `{"spark.driver.memory": "2g"}`.
        master: Where to run.
        name: The application's name.

    Raises:
        BackendMissing: there is no Java, or no PySpark.

    Example:
        >>> spark = session({"spark.ui.enabled": "false"}, master="local[2]")  # doctest: +SKIP
    """
    require_pyspark()
    ensure_java()
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with quiet():
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(master).appName(name)
        for key, value in (config or {}).items():
            builder = builder.config(key, value)
        return builder.getOrCreate()


def settings_of(spark: Any) -> Settings:
    """The settings of a session, classic or of Spark Connect, that a predicate is bound under."""
    zone, ansi, case = (
        str(spark.conf.get(f"spark.sql.{key}"))
        for key in ("session.timeZone", "ansi.enabled", "caseSensitive")
    )
    return Settings(timezone=zone, ansi=ansi == "true", case_sensitive=case == "true")


def fold_of(spark: Any) -> Callable[[str], str]:
    """What makes names equal that a session takes for one: lower case, unless it minds case."""
    return str if str(spark.conf.get("spark.sql.caseSensitive")) == "true" else str.lower


def other_text(spark: Any) -> str:
    """A setting by which a session reads SQL text otherwise than Skipstone does; "" is none. Source: Spark, `SQLConf`."""

    def is_set(key: str, value: str) -> bool:
        return str(spark.conf.get(key)).upper() == value

    if is_set("spark.sql.parser.escapedStringLiterals", "TRUE"):
        return "spark.sql.parser.escapedStringLiterals is true"
    if is_set("spark.sql.ansi.doubleQuotedIdentifiers", "TRUE") and is_set(
        "spark.sql.ansi.enabled", "TRUE"
    ):
        return "spark.sql.ansi.doubleQuotedIdentifiers is true"
    return (
        ""
        if is_set("spark.sql.timestampType", "TIMESTAMP_LTZ")
        else "spark.sql.timestampType is not TIMESTAMP_LTZ"
    )


def require_usual_text(spark: Any) -> None:
    """Check that conditions mean the same to a session and to Skipstone.

    Raises:
        UnsupportedForm: a setting changes how SQL text is read.
    """
    if why := other_text(spark):
        raise UnsupportedForm(
            f"{why}, by which Spark reads conditions otherwise than Skipstone; unset it, or leave the condition to Spark: df.where(...)"
        )


def parallelism(spark: Any) -> int | None:
    """How many tasks a session runs at once; None: Spark Connect does not tell."""
    return None if is_connect(spark) else int(spark.sparkContext.defaultParallelism)


def require_pyspark() -> None:
    """Check that PySpark and pandas are there, and that PySpark is new enough.

    Raises:
        BackendMissing: one of them is not, or PySpark is too old.
    """
    with quiet():
        try:
            import pandas  # noqa: F401
            import pyspark.sql
        except ImportError as e:
            raise BackendMissing(
                f'skipstone.spark needs pyspark and pandas, and {e}: pip install "skipstone[spark]"'
            ) from e
        if version_of(pyspark.__version__) < OLDEST:
            raise BackendMissing(
                f'skipstone.spark needs pyspark 4.0 or newer, and {pyspark.__version__} is installed: pip install "pyspark[sql]>=4.0"'
            )


def version_of(name: str) -> tuple[int, int]:
    """The first two numbers of a version.

    Example:
        >>> version_of("4.1.0-preview1"), version_of("5.0.0.dev2")
        ((4, 1), (5, 0))
    """
    found = re.match(r"(\d+)\.(\d+)", name)
    return (int(found[1]), int(found[2])) if found else OLDEST


def spark_version(spark: Any) -> tuple[int, int]:
    """What a session can do: its version, or the client's, where that is older."""
    import pyspark

    return min(version_of(str(spark.version)), version_of(pyspark.__version__))


def is_connect(of: Any) -> bool:
    """Whether a DataFrame, a Column or a session is of Spark Connect."""
    return type(of).__module__.startswith("pyspark.sql.connect")


def functions_of(of: Any) -> Any:
    """`pyspark.sql.functions` for the kind of session that a DataFrame or a Column is of."""
    with quiet():
        if is_connect(of):
            from pyspark.sql.connect import functions

            return functions
        from pyspark.sql import functions as classic

        return classic


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without PySpark's notice that it does not claim pandas 3 yet; the forms used here are tested with it."""
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "PySpark does not yet fully support pandas", FutureWarning
        )
        yield
