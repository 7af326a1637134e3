"""Compile the classes of `bindings/spark/java` in Spark's JVM at their first use."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

from skipstone.bindings.spark.session.session import quiet
from skipstone.ir.errors import BackendMissing, describe_error
from skipstone.kernels.run import forks

_gateways: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # by JVM
_COMPILING: Final = forks.lock()
PIECE: Final = 7000  # characters, as in LongText.java
MAX_PIECES: Final = 100  # more of them take longer than waiting once


def plan_gateway(spark: Any) -> Any:
    """Return the Java object that reads and changes the plans of classic Spark.

    Raises:
        BackendMissing: This Spark's classes are not the expected ones.
    """
    jvm = spark._jvm
    # Two compilations have two loaders, and Java takes their classes for different ones.
    with _COMPILING:
        if jvm not in _gateways:
            _gateways[jvm] = _compiled(jvm)
        return _gateways[jvm]


def _compiled(jvm: Any) -> Any:
    from py4j.protocol import Py4JError

    try:
        sources = jvm.org.codehaus.commons.compiler.util.resource.MapResourceFinder()
        for path in (Path(__file__).parents[1] / "java").rglob("*.java"):
            sources.addResource(f"skipstone/{path.name}", path.read_text(encoding="utf-8"))
        above = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        loader = jvm.org.codehaus.janino.JavaSourceClassLoader(above, sources, "UTF-8")
        return loader.loadClass("skipstone.PlanGateway").newInstance()
    except (Py4JError, TypeError) as e:
        raise BackendMissing(
            f"this Spark's plans cannot be changed ({describe_error(e)}); "
            "prune() is tested with Spark 4.0 to 4.3"
        ) from e


def text_of(text: Any) -> str:
    """Return the characters of a `LongText`."""
    found: str = text.piece(0)
    length: int = text.length() if len(found) >= PIECE else len(found)
    if length > MAX_PIECES * PIECE:
        return str(text.whole())
    while len(found) < length:
        found += text.piece(len(found))
    return found


def frame_of(spark: Any, plan: Any) -> Any:
    """Make a DataFrame from an analysed plan."""
    with quiet():
        from pyspark.sql.classic.dataframe import DataFrame

        return DataFrame(
            spark._jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan),
            spark,
        )
