"""Turn automatic pruning on for every session that a process gets from now on."""

from __future__ import annotations

import functools
import warnings
from typing import Any, Final

from skipstone.bindings.spark.automatic.enable import enable
from skipstone.bindings.spark.session.session import (
    OLDEST_CLASSIC,
    is_connect,
    quiet,
    require_pyspark,
)
from skipstone.ir.errors import SkipstoneWarning, describe_error
from skipstone.kernels.run import forks

_seen: set[str] = set()  # ids of sessions; whoever disables one keeps it so
_LOCK: Final = forks.lock()


def enable_new_sessions() -> None:
    """Call `enable` for the active session, and for each that `SparkSession.builder` returns.

    Use it in code that runs before a session exists, or that many programs share: a startup file of
    IPython, a library, `sitecustomize`. Each session is enabled once, so `disable` stays in effect.
    Spark Connect clients are left alone. If `enable` fails, the session works without it.

    Raises:
        BackendMissing: PySpark is not installed, or too old.

    Warns:
        SkipstoneWarning: a session cannot be enabled, when it is made.

    Example:
        >>> enable_new_sessions()  # doctest: +SKIP
        >>> spark = SparkSession.builder.getOrCreate()  # doctest: +SKIP
        >>> print(report(spark))  # doctest: +SKIP
        0 plans answered, 0 failed, 0 late, 0 skipped
    """
    require_pyspark(OLDEST_CLASSIC)
    with quiet():
        from pyspark.sql import SparkSession

    made = SparkSession.Builder.getOrCreate
    if not hasattr(made, "__wrapped__"):

        @functools.wraps(made)
        def get_or_create(builder: Any) -> Any:
            spark = made(builder)
            _enable_once(spark)
            return spark

        SparkSession.Builder.getOrCreate = get_or_create
    active = SparkSession.getActiveSession()
    if active is not None:
        _enable_once(active)


def _enable_once(spark: Any) -> None:
    if is_connect(spark):
        return
    try:
        key = str(spark._jsparkSession.sessionUUID())
        with _LOCK:
            if key in _seen:
                return
            _seen.add(key)
        enable(spark)
    except Exception as e:  # no program fails because of this
        warnings.warn(
            f"queries of a new Spark session are not pruned ({describe_error(e)}); "
            "skipstone.spark.enable(spark) tries again",
            SkipstoneWarning,
            stacklevel=3,
        )
