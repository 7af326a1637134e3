"""Compile the classes of `bindings/spark/java` in Spark's JVM at their first use."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

from skipstone.bindings.spark.session.session import quiet, spark_version
from skipstone.ir.errors import BackendMissing, describe_error
from skipstone.kernels.run import forks

_gateways: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # by JVM
_COMPILING: Final = forks.lock()
PIECE: Final = 7000  # the characters of a piece, as in LongText.java
MAX_PIECES: Final = 100  # fetching more pieces takes longer than waiting once


def plan_gateway(spark: Any) -> Any:
    """Return the Java object that reads and changes the plans of classic Spark.

    Raises:
        BackendMissing: This Spark's classes are not the expected ones.
    """
    jvm = spark._jvm
    # Each compilation has a class loader of its own, and Java treats their classes as different.
    with _COMPILING:
        if jvm not in _gateways:
            _gateways[jvm] = _compiled(jvm, str(spark.version))
        return _gateways[jvm]


def _compiled(jvm: Any, spark: str) -> Any:
    from py4j.protocol import Py4JError

    try:
        scala = str(jvm.scala.util.Properties.versionNumberString())
        sources = jvm.org.codehaus.commons.compiler.util.resource.MapResourceFinder()
        for path in (Path(__file__).parents[1] / "java").rglob("*.java"):
            text = _fitted(path.read_text(encoding="utf-8"), spark, scala)
            sources.addResource(f"skipstone/{path.name}", text)
        above = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        loader = jvm.org.codehaus.janino.JavaSourceClassLoader(above, sources, "UTF-8")
        return loader.loadClass("skipstone.PlanGateway").newInstance()
    except (Py4JError, TypeError) as e:
        raise BackendMissing(
            f"this Spark's plans cannot be changed ({describe_error(e)}); "
            "prune() is tested with Spark 3.5 to 4.3"
        ) from e


def _fitted(source: str, spark: str, scala: str) -> str:
    """Return a Java source, which is written for Spark 4 and Scala 2.13, for these versions."""
    if scala.startswith("2.12."):  # `Seq` in signatures is another interface
        source = source.replace("scala.collection.immutable.Seq", "scala.collection.Seq")
    if spark.startswith("3."):  # Delta 3's index does not know the catalog's table
        source = source.replace("whole.catalogTableOpt(),", "")
    return source


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
    classes = spark._jvm.org.apache.spark.sql
    with quiet():
        if spark_version(spark) < (4, 0):
            from pyspark.sql import DataFrame as OldFrame

            return OldFrame(classes.Dataset.ofRows(spark._jsparkSession, plan), spark)
        from pyspark.sql.classic.dataframe import DataFrame

        return DataFrame(classes.classic.Dataset.ofRows(spark._jsparkSession, plan), spark)
