"""PySpark, imported when it is first needed, and a local session that finds its Java by itself."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from skipstone.bindings.spark.java import ensure_java
from skipstone.ir.errors import BackendMissing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session(config: Mapping[str, str] | None = None, *, master: str = "local[*]", name: str = "skipstone") -> SparkSession:
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


class Settings(TypedDict):
    """What of a Spark session decides what a predicate means; the keywords of `PruningPredicate` and of `plan`."""

    timezone: str
    ansi: bool
    case_sensitive: bool


def settings_of(spark: Any) -> Settings:
    """The settings of a session, classic or of Spark Connect, that a predicate is bound under."""
    zone, ansi, case = (str(spark.conf.get(f"spark.sql.{key}")) for key in ("session.timeZone", "ansi.enabled", "caseSensitive"))
    return Settings(timezone=zone, ansi=ansi == "true", case_sensitive=case == "true")


def functions_of(spark: Any) -> Any:
    """PySpark's functions for the Columns of a session; a process may have both classic sessions and Connect's."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        from pyspark.sql.connect import functions as connected

        return connected
    from pyspark.sql import functions as classic

    return classic


def require_pyspark() -> None:
    """Check that PySpark and pandas are there.

    Raises:
        BackendMissing: one of them is not.
    """
    with quiet():
        try:
            import pandas  # noqa: F401
            import pyspark.sql  # noqa: F401
        except ImportError as e:
            raise BackendMissing(f'skipstone.spark needs pyspark and pandas, and {e}: pip install "skipstone[spark]"') from e


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without PySpark's notice that it does not claim pandas 3 yet; the forms used here are tested with it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield
