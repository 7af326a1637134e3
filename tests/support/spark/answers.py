"""Spark's values of many expressions over rows in memory; Spark may refuse some of them."""

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa


@contextlib.contextmanager
def set_in(spark: Any, settings: Mapping[str, str]) -> Iterator[None]:
    """Change a session's settings while the block runs."""
    before = {key: spark.conf.get(key) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


def kind_of(spark: Any, text: str) -> str | None:
    """Return the type of an expression by Spark's analysis; None if Spark refuses it."""
    try:
        found: str = spark.sql(f"SELECT ({text}) c FROM fuzzed").schema[0].dataType.simpleString()
    except Exception:
        return None
    return found


def refused_by_spark(spark: Any, text: str) -> bool:
    """Return True if Spark does not accept a text as a condition."""
    return kind_of(spark, text) not in ("boolean", "void")


def answers(spark: Any, texts: list[str], view: str = "fuzzed") -> list[pa.ChunkedArray | None]:
    """Return each expression's values on all rows, by id; None where Spark refuses or raises."""
    left, found = list(range(len(texts))), dict.fromkeys(range(len(texts)))
    while left:
        # Spark's errors name a line, so each expression has a line of its own.
        lines = [f"({texts[k]}) AS c{k}" for k in left]
        try:
            got = spark.sql("SELECT id,\n" + ",\n".join(lines) + f"\nFROM {view}").toArrow()
            got = got.sort_by("id")
            found |= {k: got[f"c{k}"] for k in left}
            break
        except Exception as e:
            at = _culprit(str(e), len(left))
            if at is not None:
                del left[at]
            elif len(left) == 1:
                break
            else:
                parts = left[: len(left) // 2], left[len(left) // 2 :]
                for part in parts:
                    answer = answers(spark, [texts[k] for k in part], view)
                    found |= dict(zip(part, answer, strict=True))
                break
    return list(found.values())


def _culprit(error: str, count: int) -> int | None:
    """Return the number of the expression whose line Spark names in an error, or None."""
    named = re.search(r"\bline (\d+),? pos", error)
    at = int(named[1]) - 2 if named else -1
    return at if 0 <= at < count else None
