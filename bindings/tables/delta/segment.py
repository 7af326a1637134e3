"""Which files of a Delta log make one version of the table: a checkpoint, and the commits after it.

Source: Delta's PROTOCOL.md, "Checkpoints", "Log Compaction Files"; `_last_checkpoint` is only a hint,
and a listing tells the same, so it is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
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
    """One file of actions: a commit, or a compaction of several.

    Attributes:
        name: In the log's folder.
        first, last: The versions that it holds.
    """

    name: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Segment:
    """The files of one version.

    Attributes:
        version: The table's.
        checkpoint: The newest checkpoint that is there whole; -1: none.
        parts: Names of its files; one, unless it has several parts.
        commits: What follows it, oldest first, without gaps.
    """

    version: int
    checkpoint: int
    parts: tuple[str, ...]
    commits: tuple[Commits, ...]


def versions(names: Iterable[str]) -> list[int]:
    """The versions that a log's files speak of, ascending: of commits, of checkpoints that are whole, and of compactions."""
    found: set[int] = set()
    parts: dict[tuple[int, int], int] = {}
    for name in names:
        if m := COMMIT.fullmatch(name) or _WHOLE.fullmatch(name) or _NAMED.fullmatch(name):
            found.add(int(m[1]))
        elif m := _COMPACTED.fullmatch(name):
            found.add(int(m[2]))
        elif m := _PART.fullmatch(name):
            parts[int(m[1]), int(m[3])] = parts.get((int(m[1]), int(m[3])), 0) + 1
    return sorted(found | {at for (at, count), there in parts.items() if there == count})


def segment(names: Iterable[str], version: int, log: str, after: int | None = None) -> Segment:
    """Choose the files of one version.

    Args:
        names: What the log's folder holds; what is no part of the protocol is passed over.
        version: The version.
        log: The folder, for errors.
        after: A version whose files are known: only commits after it are chosen, if all of them are still there.

    Raises:
        SourceError: a commit is missing that no checkpoint or compaction stands in for.

    Example:
        >>> names = ["00000000000000000002.checkpoint.parquet", "00000000000000000003.json"]
        >>> segment(names, 3, "_delta_log").parts
        ('00000000000000000002.checkpoint.parquet',)
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
            known = compacted.get(found.first)
            if found.first <= found.last <= version and (known is None or known.last < found.last):
                compacted[found.first] = found
    for (at, count), found_parts in parts.items():
        if len(found_parts) == count and set(found_parts) == set(
            range(1, count + 1)
        ):  # a part is missing where a writer died, or is still writing
            checkpoints.setdefault(at, []).append(
                tuple(found_parts[i] for i in range(1, count + 1))
            )
    starts = (
        [after]
        if after is not None
        else [*sorted((c for c in checkpoints if c <= version), reverse=True), -1]
    )
    missing = version
    for start in starts:
        chosen: list[Commits] = []
        at = start + 1
        while at <= version:
            one = compacted.get(at) or commits.get(at)
            if one is None:
                break
            chosen.append(one)
            at = one.last + 1
        if at > version:
            # Of several checkpoints of one version any will do; the order makes the choice the same each time.
            parts_of = min(checkpoints[start]) if after is None and start >= 0 else ()
            return Segment(version, start, parts_of, tuple(chosen))
        missing = at
    base = f"the checkpoint of version {starts[0]}" if starts[0] >= 0 else "the beginning"
    raise SourceError(
        f"{log} lacks the commit of version {missing}; version {version} needs every commit after {base}, or a newer checkpoint that is whole"
    )
