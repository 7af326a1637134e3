"""The part of pruned reads that runs in Spark's JVM: `PrunedFiles.java`, compiled when it is first needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

from skipstone.bindings.spark.session import quiet
from skipstone.ir.errors import BackendMissing

SOURCE: Final = Path(__file__).with_name("PrunedFiles.java")
_doors: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # by the JVM that they lead to


def door_of(spark: Any) -> Any:
    """The object through which classic Spark's plans are read and changed.

    Raises:
        BackendMissing: this Spark has other classes than the known ones.
    """
    jvm = spark._jvm
    if jvm not in _doors:
        _doors[jvm] = _compiled(jvm)
    return _doors[jvm]


def _compiled(jvm: Any) -> Any:
    from py4j.protocol import Py4JError

    try:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.cook(SOURCE.read_text(encoding="utf-8"))
        return compiler.getClassLoader().loadClass("skipstone.PrunedFiles$Door").newInstance()
    except (Py4JError, TypeError) as e:
        raise BackendMissing(f"this Spark's plans cannot be changed ({str(e)[:300]}); prune() is tested with Spark 4.0 to 4.3") from e


def frame_of(spark: Any, plan: Any) -> Any:
    """A DataFrame of an analysed plan."""
    with quiet():
        from pyspark.sql.classic.dataframe import DataFrame

        return DataFrame(spark._jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan), spark)
