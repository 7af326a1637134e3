"""File paths in the form in which Spark's readers take them."""

from __future__ import annotations

import re
from typing import Final

from skipstone.bindings.tables.files import is_hidden

SCHEMES: Final = {"local": "file://", "s3": "s3a://", "gcs": "gs://"}
HIDDEN: Final = "a file whose name begins with '_' or '.', which Spark skips"
COLON: Final = "a colon in a file's path, which Hadoop takes for a scheme"


def spark_path(path: str, prefix: str = "file://", *, glob: bool = True) -> str:
    """Return a path as Spark's readers take it: a pattern with special characters escaped.

    Args:
        path: With a scheme or without.
        prefix: The scheme to put before a path without one.
        glob: True if Spark reads the path as a pattern.

    Example:
        >>> spark_path("/t/k=a%2Fb/x[1].parquet"), spark_path("s3://lake/t/x.parquet")
        ('file:///t/k=a%2Fb/x\\\\[1\\\\].parquet', 's3a://lake/t/x.parquet')
    """
    if path.startswith("file:"):
        path = "file:///" + path.removeprefix("file:").lstrip("/")
    elif "://" in path:
        path = re.sub(r"^s3://", "s3a://", path)
    else:
        path = prefix + path
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path) if glob else path


def why_unlisted(path: str) -> str:
    """Return why Spark does not read a file that is named explicitly; "" if it does."""
    if is_hidden(path.rpartition("/")[2]):
        return HIDDEN
    if ":" in (path.partition("://")[2] if "://" in path else path.removeprefix("file:")):
        return COLON
    return ""
