"""Compile `PrunedFiles.java` and `Joins.java` in Spark's JVM at their first use."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from skipstone.bindings.spark.session.session import quiet
from skipstone.ir.errors import BackendMissing

# Compiled objects by JVM and by class name.
_gateways: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


def plan_gateway(spark: Any) -> Any:
    """Return the Java object that reads and changes the plans of classic Spark.

    Raises:
        BackendMissing: This Spark's classes are not the expected ones.
    """
    return _gateway(
        spark._jvm,
        "PrunedFiles",
        spark._jvm.java.lang.Thread.currentThread().getContextClassLoader(),
    )


def joins_of(spark: Any) -> Any:
    """Return the Java object that reads the joins of a plan.

    Raises:
        BackendMissing: This Spark's classes are not the expected ones.
    """
    return _gateway(spark._jvm, "Joins", plan_gateway(spark).getClass().getClassLoader())


def _gateway(jvm: Any, name: str, above: Any) -> Any:
    gateways = _gateways.setdefault(jvm, {})
    if name not in gateways:
        gateways[name] = _compiled(jvm, name, above)
    return gateways[name]


def _compiled(jvm: Any, name: str, above: Any) -> Any:
    """Compile a source and return its `PlanGateway`; `above` loads the classes that it mentions."""
    from py4j.protocol import Py4JError

    try:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(above)
        compiler.cook(
            (Path(__file__).parents[1] / "java" / f"{name}.java").read_text(encoding="utf-8")
        )
        return compiler.getClassLoader().loadClass(f"skipstone.{name}$PlanGateway").newInstance()
    except (Py4JError, TypeError) as e:
        raise BackendMissing(
            f"this Spark's plans cannot be changed ({str(e)[:300]}); "
            "prune() is tested with Spark 4.0 to 4.3"
        ) from e


def frame_of(spark: Any, plan: Any) -> Any:
    """Make a DataFrame from an analysed plan."""
    with quiet():
        from pyspark.sql.classic.dataframe import DataFrame

        return DataFrame(
            spark._jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan),
            spark,
        )
