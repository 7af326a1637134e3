"""The tasks of `files`, and the form of their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bench.files.lake import Lake


@dataclass(frozen=True)
class Answer:
    """The kept containers; or the number of matching rows, and of containers read, if known."""

    containers: frozenset[int] = frozenset()
    rows: int = 0
    read: int | None = None


@dataclass(frozen=True)
class Contestant:
    """An engine's way to do a task. `run` is timed; `answer` interprets its result."""

    engine: str
    what: str
    run: Callable[[], Any]
    answer: Callable[[Any], Answer]


@dataclass(frozen=True)
class Task:
    """Work for contestants side by side; the first of them is Skipstone's.

    Attributes:
        name: The printed name.
        asks: "may": containers that may match; "whole": containers in which all rows match;
            "rows": the number of matching rows.
        lake: The lake to use.
        contestants: Functions that make a contestant for a lake, untimed. An ImportError means that
            its package is missing.
        absent: Engine -> why it is absent.
    """

    name: str
    asks: Literal["may", "whole", "rows"]
    lake: Literal["parquet", "delta"]
    contestants: tuple[Callable[[Lake], Contestant], ...]
    absent: Mapping[str, str] = field(default_factory=dict)


def by_position(found: Iterable[Any]) -> Answer:
    """Read an answer that names containers by number."""
    return Answer(frozenset(int(i) for i in found))


def by_row_group(lake: Lake, found: Mapping[str, Iterable[int]]) -> Answer:
    """Read an answer that names containers by path and row group."""
    first = {str(path): i * lake.groups for i, path in enumerate(lake.files)}
    return Answer(frozenset(first[path] + g for path, groups in found.items() for g in groups))


def by_file(lake: Lake, found: Iterable[str]) -> Answer:
    """Read an answer that names files; folders, which engines spell differently, are ignored."""
    number = {path.name: i for i, path in enumerate(lake.files)}
    return Answer(frozenset(number[Path(path).name] for path in found))
