"""Choose the files of a Delta log that make up one version: a checkpoint and the commits after it.

Source: Delta's PROTOCOL.md, "Checkpoints", "Log Compaction Files". `_last_checkpoint` is only a
hint and a listing gives the same answer, so it is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from skipstone.ir.errors import SourceError

COMMIT: Final = re.compile(r"(\d{20})\.json")
_COMPACTED: Final = re.compile(r"(\d{20})\.(\d{20})\.compacted\.json")
_WHOLE: Final = re.compile(r"(\d{20})\.checkpoint\.parquet")
_PART: Final = re.compile(r"(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet")
_NAMED: Final = re.compile(r"(\d{20})\.checkpoint\.[0-9A-Fa-f-]{36}\.(?:json|parquet)")


@dataclass(frozen=True, slots=True)
class Commits:
    """One file of actions: a commit, or a compaction of several commits.

    Attributes:
        name: Its name in the log's folder.
        first, last: The first and last version that it holds.
    """

    name: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Segment:
    """The files of one version.

    Attributes:
        parts: The names of the files of the newest complete checkpoint: one, or several parts;
            none if there is no checkpoint.
        commits: The commits after it, oldest first, without gaps.
    """

    parts: tuple[str, ...]
    commits: tuple[Commits, ...]


def versions(names: Iterable[str]) -> list[int]:
    """Return the versions in a log, ascending: of commits, complete checkpoints and compactions."""
    found: set[int] = set()
    parts: dict[tuple[int, int], int] = {}
    for name in names:
        if m := COMMIT.fullmatch(name) or _WHOLE.fullmatch(name) or _NAMED.fullmatch(name):
            found.add(int(m[1]))
        elif m := _COMPACTED.fullmatch(name):
            found.add(int(m[2]))
        elif m := _PART.fullmatch(name):
            parts[int(m[1]), int(m[3])] = parts.get((int(m[1]), int(m[3])), 0) + 1
    return sorted(found | {at for (at, count), present in parts.items() if present == count})


def segment(names: Iterable[str], version: int, log: str, after: int | None = None) -> Segment:
    """Choose the files of one version.

    Args:
        names: The files in the log's folder; files outside the protocol are ignored.
        version: The version.
        log: The folder, for errors.
        after: A version that was read before: only the commits after it are chosen.

    Raises:
        SourceError: a commit is missing, and no checkpoint or compaction replaces it.

    Example:
        >>> names = ["00000000000000000002.checkpoint.parquet", "00000000000000000003.json"]
        >>> segment(names, 3, "_delta_log").parts
        ('00000000000000000002.checkpoint.parquet',)
    """
    commits, checkpoints = _commits_and_checkpoints(names, version)
    if after is not None:
        starts = [after]
    else:
        starts = [*sorted((c for c in checkpoints if c <= version), reverse=True), -1]
    for start in starts:
        chosen, end = _without_gaps(commits, start + 1, version)
        if end > version:
            # Any checkpoint of a version will do; `min` makes the choice repeatable.
            parts_of = min(checkpoints[start]) if after is None and start >= 0 else ()
            return Segment(parts_of, tuple(chosen))
    missing = _without_gaps(commits, starts[0] + 1, version)[1]
    base = f"the checkpoint of version {starts[0]}" if starts[0] >= 0 else "the beginning"
    raise SourceError(
        f"{log} lacks the commit of version {missing}; version {version} needs every commit after "
        f"{base}, or a newer complete checkpoint"
    )


def _commits_and_checkpoints(
    names: Iterable[str], version: int
) -> tuple[dict[int, Commits], dict[int, list[tuple[str, ...]]]]:
    """Return the files of commits and of complete checkpoints.

    Args:
        names: The files in the log's folder.
        version: Compactions beyond this version are left out.

    Returns:
        By first version, the file that holds most commits; and by version, the names of the files
        of each checkpoint.
    """
    commits: dict[int, Commits] = {}
    compacted: dict[int, Commits] = {}
    checkpoints: dict[int, list[tuple[str, ...]]] = {}
    parts: dict[tuple[int, int], dict[int, str]] = {}
    for name in names:
        if m := COMMIT.fullmatch(name):
            at = int(m[1])
            commits[at] = Commits(name, at, at)
        elif m := _WHOLE.fullmatch(name) or _NAMED.fullmatch(name):
            checkpoints.setdefault(int(m[1]), []).append((name,))
        elif m := _PART.fullmatch(name):
            parts.setdefault((int(m[1]), int(m[3])), {})[int(m[2])] = name
        elif m := _COMPACTED.fullmatch(name):
            found = Commits(name, int(m[1]), int(m[2]))
            longest = compacted.get(found.first)
            if found.first <= found.last <= version and (
                longest is None or longest.last < found.last
            ):
                compacted[found.first] = found
    for (at, count), names_by_part in parts.items():
        if _is_complete(names_by_part, count):
            checkpoints.setdefault(at, []).append(
                tuple(names_by_part[i] for i in range(1, count + 1))
            )
    return {**commits, **compacted}, checkpoints


def _is_complete(parts: Mapping[int, str], count: int) -> bool:
    """Return True if a checkpoint has all parts; one is missing if its writer died or still writes.

    The lengths are compared first, because `count` is any number that a file's name claims.
    """
    return len(parts) == count and set(parts) == set(range(1, count + 1))


def _without_gaps(
    commits: Mapping[int, Commits], first: int, version: int
) -> tuple[list[Commits], int]:
    """Return the files from one version up to another, and the first version that none holds."""
    out: list[Commits] = []
    at = first
    while at <= version and at in commits:
        out.append(commits[at])
        at = commits[at].last + 1
    return out, at
