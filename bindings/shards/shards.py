"""`Shards`: judge containers shard by shard; shards that the summary settles stay unopened."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.predicates.predicate import PruningPredicate, Source
from skipstone.bindings.shards.manifest import NAME, SAVE_AGAIN, Manifest, Shard, parse
from skipstone.bindings.shards.place import ShardFolder
from skipstone.bindings.shards.verdicts import ShardVerdicts, survivors_of
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.statistics.store.checked import read_table
from skipstone.bindings.statistics.store.layout import wrong
from skipstone.bindings.statistics.store.load import load
from skipstone.ir.errors import StatisticsError
from skipstone.ir.node import columns_of
from skipstone.ir.outcome import Verdict
from skipstone.ir.types import leaves_of
from skipstone.kernels.index.descend import Found
from skipstone.kernels.run.lru_cache import LruCache
from skipstone.kernels.run.pool import run_chunks
from skipstone.kernels.run.run import Backend

OnError = Literal["keep", "raise"]
MAX_MAPPED: Final = 256  # shards that a process keeps mapped, each with a file descriptor
_mapped: LruCache[tuple[str, int], Statistics] = LruCache(MAX_MAPPED)


class Shards:
    """Statistics of n containers in many files: the shards that `Statistics.save_shards` wrote.

    `skipstone.spark.write_shards` writes them too. A shard is mapped when a predicate first needs
    it, and each part of it is verified when it is first read. If a shard cannot be read, all of its
    containers are kept, and the result names the shard. Objects are immutable. A pickle holds the
    manifest, so other processes read the same files.

    Example:
        >>> import tempfile
        >>> schema = pa.schema([("x", pa.int64())])
        >>> bounds = {"min": range(10_000), "max": range(1, 10_001)}
        >>> stats = Statistics.from_dict({"x": bounds}, schema)
        >>> folder = tempfile.mkdtemp()
        >>> stats.save_shards(folder, rows=2500)
        >>> shards = Shards.open(folder)
        >>> shards
        Shards(10,000 containers in 4 shards)
        >>> shards.survivors("x = 7")
        array([6, 7])
        >>> shards.judge("x = 7")
        ShardVerdicts(2 of 10,000 containers kept; 1 of 4 shards opened)
    """

    def __init__(self, place: ShardFolder, manifest: Manifest) -> None:
        self._place, self._manifest = place, manifest

    @classmethod
    def open(
        cls, where: str | os.PathLike[str], filesystem: pafs.FileSystem | None = None
    ) -> Shards:
        """Open the shards in a folder; this reads only the manifest.

        Args:
            where: A path or URI. Each machine that needs remote files downloads them once, into
                `skipstone.cache_dir` or else the user's cache directory.
            filesystem: Any file system of pyarrow's, for settings that a URI cannot express.

        Raises:
            StatisticsError: the manifest is missing or damaged. Without it the containers to keep
                are unknown.
            SourceError: no file system is known for the URI.
        """
        place = ShardFolder.of(where, filesystem)
        return cls(place, parse(place.at(NAME), place.read(NAME)))

    # Contents.

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
        return self._place.local

    @property
    def about_schema(self) -> pa.Schema | None:
        """The columns that describe containers, such as their paths; None: there are none."""
        return self._manifest.about

    def __len__(self) -> int:
        return self.num_containers

    def __repr__(self) -> str:
        return f"Shards({self.num_containers:,} containers in {self.num_shards:,} shards)"

    # Judging.

    def predicate(self, predicate: PruningPredicate | Source) -> PruningPredicate:
        """Return a predicate over these columns; a `PruningPredicate` is returned unchanged."""
        return (
            predicate
            if isinstance(predicate, PruningPredicate)
            else PruningPredicate(predicate, self.schema)
        )

    def judge(
        self,
        predicate: PruningPredicate | Source,
        *,
        backend: Backend = "auto",
        on_error: OnError = "keep",
    ) -> ShardVerdicts:
        """Judge all containers.

        Args:
            predicate: A `PruningPredicate`; or a source of one, such as SQL text, which is bound
                under Spark's default settings.
            backend: "auto", "numpy" or "numba".
            on_error: What to do if a shard cannot be read. "keep": its containers are MAYBE, and
                the result's `unreadable` names it. "raise": raise the error.

        Returns:
            The verdicts, stored sparsely.

        Raises:
            StatisticsError: under "raise", a shard is missing, damaged, or not the one that was
                saved.
        """
        p = self.predicate(predicate)
        parts: list[Found | Verdict] = list(self.settled(p))
        open_shards = np.flatnonzero([part is Verdict.MAYBE for part in parts])
        unreadable: dict[str, StatisticsError] = {}

        def find(i: int) -> Found:
            return p.find(self.statistics(i), backend)

        def judge_some(first: int, stop: int) -> None:
            for i in open_shards[first:stop].tolist():
                parts[i] = self.try_shard(i, find, Verdict.MAYBE, on_error, unreadable)

        run_chunks(judge_some, len(open_shards), 1)
        return ShardVerdicts(self.starts, parts, dict(sorted(unreadable.items())), len(open_shards))

    def evaluate(
        self,
        predicate: PruningPredicate | Source,
        *,
        backend: Backend = "auto",
        on_error: OnError = "keep",
    ) -> npt.NDArray[np.uint8]:
        """Return the verdict of each container, as `PruningPredicate.evaluate` does.

        Args:
            predicate, backend, on_error: As in `judge`.

        Returns:
            uint8 array of `Verdict`, shape (n,), host memory: 0 NEVER, 1 MAYBE, 2 ALWAYS.

        Raises:
            StatisticsError: as in `judge`.
        """
        return self.judge(predicate, backend=backend, on_error=on_error).verdicts

    def prune(
        self,
        predicate: PruningPredicate | Source,
        *,
        backend: Backend = "auto",
        on_error: OnError = "keep",
    ) -> npt.NDArray[np.bool_]:
        """Decide which containers to keep, as `PruningPredicate.prune` does.

        Args:
            predicate, backend, on_error: As in `judge`.

        Returns:
            bool array, shape (n,), host memory. True: keep, some row may match.

        Raises:
            StatisticsError: as in `judge`.
        """
        verdicts = self.judge(predicate, backend=backend, on_error=on_error).verdicts
        return np.asarray(verdicts != Verdict.NEVER, np.bool_)

    def survivors(
        self,
        predicate: PruningPredicate | Source,
        *,
        backend: Backend = "auto",
        on_error: OnError = "keep",
    ) -> npt.NDArray[np.int64]:
        """Return the positions of the containers to keep, as `PruningPredicate.survivors` does.

        Args:
            predicate, backend, on_error: As in `judge`.

        Returns:
            int64 array, shape (k,), ascending, host memory.

        Raises:
            StatisticsError: as in `judge`.
        """
        return self.judge(predicate, backend=backend, on_error=on_error).survivors

    def table(
        self,
        predicate: PruningPredicate | Source,
        *,
        backend: Backend = "auto",
        on_error: OnError = "keep",
    ) -> pa.Table:
        """Return the containers to keep, with the columns that describe them.

        Args:
            predicate, backend, on_error: As in `judge`.

        Returns:
            One row for each container to keep, in order: `container`, its position, int64;
            `verdict`, int32; `unreadable`, why its shard could not be read, null if it could; and
            the columns that were saved as `about`.

        Raises:
            StatisticsError: the `about` table of a shard cannot be read, so that its containers
                would be lost; or, under "raise", its statistics cannot be read.
        """
        return self.listed(self.judge(predicate, backend=backend, on_error=on_error))

    def listed(self, found: ShardVerdicts) -> pa.Table:
        """Return the rows of `table` for verdicts of these shards."""
        tables = [
            self.rows(i, part, found.unreadable.get(self.shards[i].file))
            for i, part in enumerate(found.parts)
            if part is not Verdict.NEVER
        ]
        return pa.concat_tables([self.frame_schema.empty_table(), *tables])

    # One shard.

    def settled(self, p: PruningPredicate) -> list[Verdict]:
        """Return for each shard the verdict of all its containers; MAYBE: it must be opened.

        The verdicts come from the summary alone.
        """
        maybe = [Verdict.MAYBE] * self.num_shards
        summary = self._manifest.summary
        leaves, own = leaves_of(p.schema), leaves_of(self.schema)
        # If the predicate reads bounds as another type than the shards', rounding may differ.
        if summary is None or any(
            path not in own or own[path].dtype != leaves[path].dtype for path in columns_of(p.node)
        ):
            return maybe
        try:
            verdicts = p.evaluate(self._load(f"{summary[0]}.stats", summary[1]), "numpy")
        except StatisticsError:  # without the summary, all shards are opened
            return maybe
        if len(verdicts) != self.num_shards:
            return maybe
        certain = self._manifest.certain
        return [
            Verdict.NEVER
            if v == Verdict.NEVER
            else Verdict.ALWAYS
            if v == Verdict.ALWAYS and certain and s.no_empty
            else Verdict.MAYBE
            for v, s in zip(verdicts.tolist(), self.shards, strict=True)
        ]

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
                self._place.at(shard.file),
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
                f"{self._place.path} has no table that describes its containers; "
                "save the shards with about="
            )
        path = self._place.mapped(shard.about_file, f"{shard.about:016x}")
        try:
            # Not mapped: if the file is truncated, a map reads zeros or ends the process.
            with open(path, "rb") as f:
                data = pa.py_buffer(f.read())
        except OSError as e:
            raise wrong(path, f"cannot be opened ({e})", SAVE_AGAIN) from e
        table = read_table(path, data, SAVE_AGAIN, shard.about)
        if table.num_rows != shard.rows:
            raise wrong(
                path,
                f"has {table.num_rows} rows for a shard of {shard.rows} containers",
                SAVE_AGAIN,
            )
        return table

    def try_shard(
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
            self._forget(self.shards[i])
            error = (
                e
                if isinstance(e, StatisticsError)
                else wrong(self._place.at(self.shards[i].file), f"cannot be read ({e})", SAVE_AGAIN)
            )
            if on_error == "raise":
                raise error from e
            unreadable[self.shards[i].file] = error
            return otherwise

    @property
    def frame_schema(self) -> pa.Schema:
        """The columns of `table`.

        Raises:
            StatisticsError: an `about` column has the name of one of the other columns.
        """
        own = [
            pa.field("container", pa.int64()),
            pa.field("verdict", pa.int32()),
            pa.field("unreadable", pa.string()),
        ]
        about = list(self.about_schema or ())
        names = [f.name.lower() for f in (*own, *about)]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise StatisticsError(
                f"the about= columns include {twice!r}, which the result has too; "
                "save the shards with another name"
            )
        return pa.schema([*own, *about])

    def rows(self, i: int, part: Found | Verdict, unreadable: StatisticsError | None) -> pa.Table:
        """Return the rows of `table` for shard i, whose verdicts are `part`."""
        shard, start = self.shards[i], int(self.starts[i])
        kept = survivors_of(part, shard.rows)
        verdicts = (
            part.verdicts()[kept].astype(np.int32)
            if isinstance(part, Found)
            else np.full(len(kept), int(part), np.int32)
        )
        reason = None if unreadable is None else str(unreadable)
        reasons = pa.array([reason] * len(kept), pa.string())
        about = (
            self.about(i).take(pa.array(kept)).columns
            if shard.about is not None and len(kept)
            else []
        )
        if shard.about is not None and not len(kept):
            return self.frame_schema.empty_table()
        return pa.table(
            [pa.array(kept + start), pa.array(verdicts), reasons, *about],
            schema=self.frame_schema,
        )

    def _load(self, file: str, identity: int) -> Statistics:
        path = self._place.mapped(file, f"{identity:016x}")
        return _mapped.get((path, identity), lambda: load(path, identity))

    def _forget(self, shard: Shard) -> None:
        """Reopen a shard at its next use; a file changed in place may be repaired by then."""
        if self.local:
            _mapped.drop((self._place.at(shard.file), shard.identity))

    def __reduce__(self) -> tuple[Any, ...]:
        return Shards, (self._place, self._manifest)


def undecided(settled: Iterable[Verdict]) -> list[int]:
    """Return the shards that must be opened, from the result of `Shards.settled`."""
    return [i for i, verdict in enumerate(settled) if verdict is Verdict.MAYBE]
