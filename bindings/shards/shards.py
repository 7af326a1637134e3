"""`Shards`: judge containers shard by shard; shards that the summary settles stay unopened."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from typing import get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.predicates.predicate import Condition, PruningPredicate
from skipstone.bindings.progress import Track
from skipstone.bindings.shards.files import OnError, ShardFiles
from skipstone.bindings.shards.folder import ShardFolder
from skipstone.bindings.shards.manifest import NAME, parse
from skipstone.bindings.shards.verdicts import ShardVerdicts, survivors_of
from skipstone.ir.errors import StatisticsError
from skipstone.ir.node import columns_of
from skipstone.ir.outcome import Verdict
from skipstone.ir.types import leaves_of
from skipstone.kernels.index.descend import SparseVerdicts
from skipstone.kernels.run.pool import run_chunks
from skipstone.kernels.run.run import Backend


class Shards(ShardFiles):
    """Statistics of n containers in many files: the shards that `Statistics.save_shards` wrote.

    `skipstone.spark.write_shards` also writes them. A shard is mapped when a predicate first needs
    it, and each part of it is verified when it is first read. If a shard cannot be read, all of its
    containers are kept, and the result names the shard. Objects are immutable. A pickle holds the
    manifest, so other processes read the same files.

    Example:
        >>> import tempfile
        >>> from skipstone import Statistics
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

    @classmethod
    def open(
        cls, where: str | os.PathLike[str], filesystem: pafs.FileSystem | None = None
    ) -> Shards:
        """Open the shards in a folder; this reads only the manifest.

        Args:
            where: A path or URI. Each machine that needs remote files downloads them once, into
                `config.statistics_cache_dir` or else the user's cache directory.
            filesystem: Any pyarrow file system, for settings that a URI cannot express.

        Raises:
            StatisticsError: the manifest is missing or damaged. Without it the containers to keep
                are unknown.
            SourceError: no file system is known for the URI.
        """
        folder = ShardFolder.of(where, filesystem)
        return cls(folder, parse(folder.at(NAME), folder.read(NAME)))

    def predicate(self, predicate: Condition) -> PruningPredicate:
        """Return a predicate over these columns; a `PruningPredicate` is returned unchanged."""
        if isinstance(predicate, PruningPredicate):
            return predicate
        return PruningPredicate(predicate, self.schema)

    def judge(
        self, predicate: Condition, *, backend: Backend = "auto", on_error: OnError = "keep"
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
        if on_error not in get_args(OnError):
            raise StatisticsError(f"on_error is {on_error!r:.60}; expected 'keep' or 'raise'")
        p = self.predicate(predicate)
        parts: list[SparseVerdicts | Verdict] = list(self.settled(p))
        open_shards = undecided(parts)
        unreadable: dict[str, StatisticsError] = {}

        def find(i: int) -> SparseVerdicts:
            return p.find(self.statistics(i), backend)

        judged: list[int] = []
        caller = threading.get_ident()

        def judge_some(first: int, stop: int) -> None:
            for i in open_shards[first:stop]:
                parts[i] = self.ask(i, find, Verdict.MAYBE, on_error, unreadable)
                judged.append(i)
                if threading.get_ident() == caller:
                    track.step(len(judged) - track.done)

        with Track("shards", len(open_shards), "shards") as track:
            run_chunks(judge_some, len(open_shards), 1)
            track.step(len(judged) - track.done)
        return ShardVerdicts(self.starts, parts, dict(sorted(unreadable.items())), len(open_shards))

    def evaluate(
        self, predicate: Condition, *, backend: Backend = "auto", on_error: OnError = "keep"
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
        self, predicate: Condition, *, backend: Backend = "auto", on_error: OnError = "keep"
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
        self, predicate: Condition, *, backend: Backend = "auto", on_error: OnError = "keep"
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
        self, predicate: Condition, *, backend: Backend = "auto", on_error: OnError = "keep"
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
        always_holds = self._manifest.always_holds
        return [
            Verdict.NEVER
            if v == Verdict.NEVER
            else Verdict.ALWAYS
            if v == Verdict.ALWAYS and always_holds and s.no_empty
            else Verdict.MAYBE
            for v, s in zip(verdicts.tolist(), self.shards, strict=True)
        ]

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

    def rows(
        self, i: int, part: SparseVerdicts | Verdict, unreadable: StatisticsError | None
    ) -> pa.Table:
        """Return the rows of `table` for shard i, whose verdicts are `part`."""
        shard, start = self.shards[i], int(self.starts[i])
        kept = survivors_of(part, shard.rows)
        if not len(kept):
            return self.frame_schema.empty_table()
        if isinstance(part, SparseVerdicts):
            verdicts = part.verdicts()[kept].astype(np.int32)
        else:
            verdicts = np.full(len(kept), int(part), np.int32)
        reason = None if unreadable is None else str(unreadable)
        reasons = pa.array([reason] * len(kept), pa.string())
        about = [] if shard.about is None else self.about(i).take(pa.array(kept)).columns
        return pa.table(
            [pa.array(kept + start), pa.array(verdicts), reasons, *about], schema=self.frame_schema
        )


def undecided(settled: Iterable[SparseVerdicts | Verdict]) -> list[int]:
    """Return the shards that must be opened, from the result of `Shards.settled`."""
    return [i for i, verdict in enumerate(settled) if verdict is Verdict.MAYBE]
