"""What contestants of `files` are asked, and how they answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bench.files.lake import Lake


@dataclass(frozen=True)
class Answer:
    """Containers by number, or how many rows match and how many containers were read for that, if the engine says."""

    containers: frozenset[int] = frozenset()
    rows: int = 0
    read: int | None = None


@dataclass(frozen=True)
class Contestant:
    """`run` is timed; `answer` reads its result."""

    engine: str
    what: str
    run: Callable[[], Any]
    answer: Callable[[Any], Answer]


@dataclass(frozen=True)
class Task:
    """Work that contestants do side by side, the first of them Skipstone's.

    Attributes:
        name: As printed.
        asks: "may": what may match; "whole": what matches whole; "rows": how many rows match.
        lake: Over which lake.
        contestants: Each is made for a lake, untimed; an ImportError says that its package is missing.
        absent: Engine -> why it takes no part.
    """

    name: str
    asks: Literal["may", "whole", "rows"]
    lake: Literal["parquet", "delta"]
    contestants: tuple[Callable[[Lake], Contestant], ...]
    absent: Mapping[str, str] = field(default_factory=dict)


def by_position(found: Iterable[Any]) -> Answer:
    """Containers that were named by number."""
    return Answer(frozenset(int(i) for i in found))


def by_row_group(lake: Lake, found: Mapping[str, Iterable[int]]) -> Answer:
    """Containers that were named by path and row group."""
    first = {str(path): i * lake.groups for i, path in enumerate(lake.files)}
    return Answer(frozenset(first[path] + g for path, groups in found.items() for g in groups))


def by_file(lake: Lake, found: Iterable[str]) -> Answer:
    """Containers that are files, by the files' names: engines differ in how they write the folders."""
    number = {path.name: i for i, path in enumerate(lake.files)}
    return Answer(frozenset(number[Path(path).name] for path in found))
