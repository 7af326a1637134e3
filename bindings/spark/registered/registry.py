"""The registered statistics of this process, by folder."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.spark.registered.listed_rows import rows_named, where_equal
from skipstone.ir import compute as pc
from skipstone.ir.errors import StatisticsError, counted
from skipstone.kernels.run import forks

SIZE: Final = "size"
TIME: Final = "modification_time"
_tokens = itertools.count()


@dataclass(frozen=True, slots=True)
class RegisteredStatistics:
    """Statistics of a table's files that `register_statistics` keeps.

    Attributes:
        path: The folder or file, as Spark writes it.
        files: The number of files whose statistics are known.
        statistics: Their names, such as "x.min".
        checked_by: How a file is recognised as the registered one: "size",
            "modification_time", both, or neither: then the caller vouches for it.

    Example:
        >>> print(RegisteredStatistics("file:/t", 12, ("x.min", "x.max"), ("size",)))
        file:/t: 2 statistics of 12 files, checked by size
    """

    path: str
    files: int
    statistics: tuple[str, ...]
    checked_by: tuple[str, ...]
    _paths: Any = field(default=None, repr=False, compare=False)
    _size: Any = field(default=None, repr=False, compare=False)
    _time: Any = field(default=None, repr=False, compare=False)
    _columns: Any = field(default_factory=dict, repr=False, compare=False)
    _token: int = field(default_factory=_tokens.__next__, repr=False, compare=False)

    def __str__(self) -> str:
        return (
            f"{self.path}: {counted(len(self.statistics), 'statistics')} of "
            f"{counted(self.files, 'files')}, {self.check}"
        )

    @property
    def check(self) -> str:
        """How a file that changed is recognised, in words."""
        if not self.checked_by:
            return "without size or time, so the caller vouches for them"
        return f"checked by {' and '.join(self.checked_by)}"

    def rows_of(
        self, paths: Sequence[str], sizes: npt.NDArray[np.int64], times: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Return the registered row of each file; -1 if there is none, or the file has changed.

        Args:
            paths: Paths as Spark lists them.
            sizes: Their sizes in bytes.
            times: Their modification times in ms since 1970.
        """
        names = plain_paths(pa.array(paths, pa.large_string()), "")
        rows = rows_named(names, self._paths)
        for now, registered in ((sizes, self._size), (times, self._time)):
            if registered is not None:
                rows = where_equal(rows, now, registered)
        return rows

    def taken(self, name: str, rows: npt.NDArray[np.int64]) -> pa.Array | pa.ChunkedArray:
        """Return a statistic of some rows."""
        values: pa.ChunkedArray = self._columns[name]
        whole = len(rows) == len(values) and np.array_equal(rows, np.arange(len(rows)))
        return values if whole else values.take(pa.array(rows))

    @property
    def token(self) -> int:
        """A number that no other object of this process has."""
        return self._token


class Registry:
    """Registered statistics by folder. Threads may share it."""

    def __init__(self) -> None:
        self._by_path: dict[str, RegisteredStatistics] = {}
        self._lock = forks.lock()

    def add(self, one: RegisteredStatistics) -> None:
        """Add statistics, instead of those of the same path."""
        with self._lock:
            self._by_path = {**self._by_path, one.path: one}

    def remove(self, path: str) -> None:
        """Remove the statistics of a path.

        Raises:
            StatisticsError: none are registered for it.
        """
        with self._lock:
            if path not in self._by_path:
                known = ", ".join(sorted(self._by_path))
                raise StatisticsError(
                    f"no statistics are registered for {path}"
                    + (f"; there are some for {known:.300}" if known else "")
                )
            self._by_path = {k: v for k, v in self._by_path.items() if k != path}

    def all(self) -> tuple[RegisteredStatistics, ...]:
        """Return all of them, in the order of their paths."""
        return tuple(one for _, one in sorted(self._by_path.items()))

    def over(self, roots: Iterable[str]) -> tuple[RegisteredStatistics, ...]:
        """Return the statistics that judge a scan of some folders.

        A root is judged by the nearest registered folder at or above it. If any root has none, the
        answer is empty: footers judge the scan.
        """
        by_path = self._by_path
        found: dict[str, RegisteredStatistics] = {}
        for root in roots if by_path else ():
            path = plain(root)
            while path not in by_path:
                above = path.rpartition("/")[0]
                if above == path or not above:
                    return ()
                path = above
            found[path] = by_path[path]
        return tuple(found.values())


REGISTRY: Final = Registry()


def plain(path: str) -> str:
    """Return one spelling for the spellings of a path that Spark and others use.

    Example:
        >>> plain("file:///lake/t/"), plain("s3a://bucket/t"), plain("/lake/t")
        ('file:/lake/t', 's3://bucket/t', 'file:/lake/t')
    """
    path = re.sub(r"^(file:)?/+", "file:/", path)
    path = re.sub(r"^s3[an]://", "s3://", path)
    return path.rstrip("/") if path.count("/") > 1 else path


def common_folder(paths: Iterable[str]) -> str:
    """Return the deepest folder that holds all of some files.

    Example:
        >>> common_folder(["s3a://b/t/g=0/0", "s3a://b/t/g=1/0"])
        's3://b/t'
    """
    folders = [plain(path).split("/")[:-1] for path in paths]
    both = zip(min(folders), max(folders), strict=False)
    return "/".join(a for a, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], both))


def plain_paths(paths: pa.Array, root: str) -> pa.Array:
    """Return registered paths in the spelling of `plain`; relative ones begin at the root.

    Args:
        paths: large_string, without escapes.
        root: A path that `plain` returned.

    Example:
        >>> plain_paths(pa.array(["a b.parquet", "/t/0", "file:///t/1"], pa.large_string()),
        ...             "file:/t").to_pylist()
        ['file:/t/a b.parquet', 'file:/t/0', 'file:/t/1']
    """
    store = re.match(r"[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?", root)
    rooted = pc.match_substring_regex(paths, r"^[A-Za-z][A-Za-z0-9+.-]*:/")
    absolute = pc.starts_with(paths, "/")
    empty = pa.scalar("", paths.type)
    before = pc.if_else(
        rooted,
        empty,
        pc.if_else(
            absolute,
            pa.scalar(store[0] if store else "", paths.type),
            pa.scalar(f"{root}/", paths.type),
        ),
    )
    whole = pc.binary_join_element_wise(before, paths, empty)
    whole = pc.replace_substring_regex(whole, "^file:/+", "file:/")
    return pc.replace_substring_regex(whole, "^s3[an]://", "s3://")
