"""Pruned reads through Spark Connect."""

from typing import Any


def prune_remote(df: Any, filesystem: Any, listings: Any) -> Any: ...
