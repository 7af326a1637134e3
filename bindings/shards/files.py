"""`ShardFiles`: the manifest's facts about shards, and how to read one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.shards.folder import ShardFolder
from skipstone.bindings.shards.manifest import SAVE_AGAIN, Manifest, Shard
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.statistics.store.layout import wrong
from skipstone.bindings.statistics.store.load import load
from skipstone.bindings.statistics.store.table_file import read_table
from skipstone.ir.errors import StatisticsError, counted, describe_error
from skipstone.kernels.run.bounded_cache import BoundedCache

OnError = Literal["keep", "raise"]
MAX_MAPPED: Final = 256  # shards that a process keeps mapped, each with a file descriptor
_mapped: BoundedCache[tuple[str, int], Statistics] = BoundedCache(MAX_MAPPED)


class ShardFiles:
    """Shards in a folder, and their files, which are read when they are needed."""

    def __init__(self, place: ShardFolder, manifest: Manifest) -> None:
        self._folder, self._manifest = place, manifest

    @property
    def schema(self) -> pa.Schema:
        """The table's columns."""
        return self._manifest.schema

    @property
    def num_containers(self) -> int:
        """The number of containers."""
        return int(self._manifest.starts[-1])

    @property
    def num_shards(self) -> int:
        """The number of shards."""
        return len(self._manifest.shards)

    @property
    def shards(self) -> Sequence[Shard]:
        """The manifest's entries."""
        return self._manifest.shards

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """The position of each shard's first container, and n; int64, shape (shards + 1,)."""
        return self._manifest.starts

    @property
    def nbytes(self) -> int:
        """Bytes of all shards on their file system."""
        return sum(s.size for s in self.shards)

    @property
    def local(self) -> bool:
        """True if shards can be mapped in place; others are downloaded first."""
        return self._folder.local

    @property
    def about_schema(self) -> pa.Schema | None:
        """The columns that describe containers, such as their paths; None if there are none."""
        return self._manifest.about

    def __len__(self) -> int:
        return self.num_containers

    def __repr__(self) -> str:
        return (
            f"Shards({counted(self.num_containers, 'containers')} in "
            f"{counted(self.num_shards, 'shards')})"
        )

    def statistics(self, i: int) -> Statistics:
        """Map the statistics of shard i.

        Raises:
            StatisticsError: the shard is missing, torn, of another version, or not the one that was
                saved.
        """
        shard = self.shards[i]
        stats = self._load(shard.file, shard.identity)
        if stats.num_containers != shard.rows:
            raise wrong(
                self._folder.at(shard.file),
                f"holds {stats.num_containers} containers; the manifest expects {shard.rows}",
                SAVE_AGAIN,
            )
        return stats

    def about(self, i: int) -> pa.Table:
        """Read the table that describes the containers of shard i.

        Raises:
            StatisticsError: no such table was saved, or it cannot be read.
        """
        shard = self.shards[i]
        if shard.about is None:
            raise StatisticsError(
                f"{self._folder.path} has no table that describes its containers; "
                "save the shards with about="
            )
        path = self._folder.mapped(shard.about_file, f"{shard.about:016x}")
        try:
            # Not mapped: if the file is truncated, a map reads zeros or ends the process.
            with open(path, "rb") as f:
                data = pa.py_buffer(f.read())
        except OSError as e:
            raise wrong(path, f"cannot be opened ({describe_error(e)})", SAVE_AGAIN) from e
        table = read_table(path, data, SAVE_AGAIN, shard.about)
        if table.num_rows != shard.rows:
            raise wrong(
                path,
                f"has {table.num_rows} rows for a shard of {shard.rows} containers",
                SAVE_AGAIN,
            )
        return table

    def ask(
        self,
        i: int,
        work: Callable[[int], Any],
        otherwise: Any,
        on_error: OnError,
        unreadable: dict[str, StatisticsError],
    ) -> Any:
        """Return work(i); if shard i cannot be read, return `otherwise`.

        Args:
            i: The shard.
            work: A function that reads the shard.
            otherwise: The result for a shard that cannot be read.
            on_error: As in `judge`.
            unreadable: Receives the error, by the shard's file.

        Raises:
            StatisticsError: under "raise", the shard cannot be read.
        """
        try:
            return work(i)
        except (StatisticsError, OSError) as e:
            shard = self.shards[i]
            path = self._folder.at(shard.file)
            if self.local:  # a file changed in place may be repaired by its next use
                _mapped.drop((path, shard.identity))
            if isinstance(e, StatisticsError):
                error = e
            else:
                error = wrong(path, f"cannot be read ({describe_error(e)})", SAVE_AGAIN)
            if on_error == "raise":
                raise error from e
            unreadable[shard.file] = error
            return otherwise

    def _load(self, file: str, identity: int) -> Statistics:
        path = self._folder.mapped(file, f"{identity:016x}")
        return _mapped.get((path, identity), lambda: load(path, identity))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._folder, self._manifest)
