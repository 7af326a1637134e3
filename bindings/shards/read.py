"""`Shards`: judging containers shard by shard, of which only those are opened that are not settled as a whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.predicates.predicate import PruningPredicate, Source
from skipstone.bindings.shards.manifest import AGAIN, NAME, Manifest, Shard, parse
from skipstone.bindings.shards.place import ShardFolder
from skipstone.bindings.shards.verdicts import ShardVerdicts, survivors_of
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.statistics.store.checked import read_table
from skipstone.bindings.statistics.store.layout import wrong
from skipstone.bindings.statistics.store.read import load
from skipstone.ir.errors import StatisticsError
from skipstone.ir.node import columns_of
from skipstone.ir.outcome import Verdict
from skipstone.ir.types import leaves_of
from skipstone.kernels.index.descend import Found
from skipstone.kernels.run.lru_cache import Kept
from skipstone.kernels.run.pool import run_chunks
from skipstone.kernels.run.run import Backend

OnError = Literal["keep", "raise"]
OPEN: Final = 256  # shards that a process keeps mapped, each with a file descriptor
_mapped: Kept[tuple[str, int], Statistics] = Kept(OPEN)


class Shards:
    """Statistics of n containers in files of their own, which `Statistics.save_shards` or `skipstone.spark.write_shards` wrote.

    Shards are mapped when they are first needed, and verified where they are read. A shard that cannot be read keeps
    all of its containers, and the result says so. Immutable; pickles as what the manifest says, so that other
    processes read the same files.

    Example:
        >>> import tempfile
        >>> schema = pa.schema([("x", pa.int64())])
        >>> stats = Statistics.from_dict({"x": {"min": range(10_000), "max": range(1, 10_001)}}, schema)
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
        """The shards of a folder.

        Args:
            where: A path or URI. Files that do not lie on this machine are fetched, once in each machine that
                needs them, into `skipstone.cache_dir` or the user's cache directory.
            filesystem: Any of pyarrow's, for what its URIs cannot say.

        Raises:
            StatisticsError: there is no manifest, or it is damaged; without it nobody knows what there is to keep.
            SourceError: no file system is known for the URI.
        """
        place = ShardFolder.of(where, filesystem)
        return cls(place, parse(place.at(NAME), place.read(NAME)))

    # What there is.

    @property
    def schema(self) -> pa.Schema:
        """The table's columns."""
        return self._manifest.schema

    @property
    def num_containers(self) -> int:
        """How many containers there are."""
        return int(self._manifest.starts[-1])

    @property
    def num_shards(self) -> int:
        """How many files they lie in."""
        return len(self._manifest.shards)

    @property
    def shards(self) -> Sequence[Shard]:
        """What the manifest says of each."""
        return self._manifest.shards

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """Where each shard's containers start, and their number at last; int64, shape (shards + 1,)."""
        return self._manifest.starts

    @property
    def nbytes(self) -> int:
        """Bytes of the shards, where they lie."""
        return sum(s.size for s in self.shards)

    @property
    def local(self) -> bool:
        """Whether they can be mapped where they lie; others are fetched first."""
        return self._place.local

    @property
    def about_schema(self) -> pa.Schema | None:
        """The columns that say what containers are, such as their paths; None: there are none."""
        return self._manifest.about

    def __len__(self) -> int:
        return self.num_containers

    def __repr__(self) -> str:
        return f"Shards({self.num_containers:,} containers in {self.num_shards:,} shards)"

    # Judging.

    def predicate(self, predicate: PruningPredicate | Source) -> PruningPredicate:
        """A predicate over these columns; one that was made already is taken as it is."""
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
        """The verdicts of all containers, sparse.

        Args:
            predicate: A `PruningPredicate`, or what makes one under Spark's default settings, such as SQL text.
            backend: "auto", "numpy" or "numba".
            on_error: Of a shard that cannot be read: "keep" its containers, each MAYBE, and name it in the result's `unreadable`; or "raise".

        Raises:
            StatisticsError: under "raise", a shard is missing, damaged, or another than was saved.
        """
        p = self.predicate(predicate)
        parts: list[Found | Verdict] = list(self.settled(p))
        todo = np.flatnonzero([part is Verdict.MAYBE for part in parts])
        unreadable: dict[str, StatisticsError] = {}

        def find(i: int) -> Found:
            return p.find(self.statistics(i), backend)

        def some(first: int, stop: int) -> None:
            for i in todo[first:stop].tolist():
                parts[i] = self.ask(i, find, Verdict.MAYBE, on_error, unreadable)

        run_chunks(some, len(todo), 1)
        return ShardVerdicts(self.starts, parts, dict(sorted(unreadable.items())), len(todo))

    def evaluate(
        self,
        predicate: PruningPredicate | Source,
        *,
        backend: Backend = "auto",
        on_error: OnError = "keep",
    ) -> npt.NDArray[np.uint8]:
        """As `PruningPredicate.evaluate`, of all containers: uint8, shape (n,), host memory; arguments are those of `judge`."""
        return self.judge(predicate, backend=backend, on_error=on_error).verdicts

    def prune(
        self,
        predicate: PruningPredicate | Source,
        *,
        backend: Backend = "auto",
        on_error: OnError = "keep",
    ) -> npt.NDArray[np.bool_]:
        """As `PruningPredicate.prune`, of all containers: bool, shape (n,), host memory, True = keep; arguments are those of `judge`."""
        kept = self.judge(predicate, backend=backend, on_error=on_error).verdicts != Verdict.NEVER
        return np.asarray(kept, np.bool_)

    def survivors(
        self,
        predicate: PruningPredicate | Source,
        *,
        backend: Backend = "auto",
        on_error: OnError = "keep",
    ) -> npt.NDArray[np.int64]:
        """As `PruningPredicate.survivors`, of all containers: int64, shape (k,), host memory, ascending; arguments are those of `judge`."""
        return self.judge(predicate, backend=backend, on_error=on_error).survivors

    def table(
        self,
        predicate: PruningPredicate | Source,
        *,
        backend: Backend = "auto",
        on_error: OnError = "keep",
    ) -> pa.Table:
        """What the containers to keep are.

        Returns:
            A row for each, in order: `container`, its position, int64; `verdict`, int32; `unreadable`, why its shard could
            not be read, null where it could; and the columns that were saved as `about`.

        Raises:
            StatisticsError: what the containers of a shard are cannot be read, so that they would be lost; or, under "raise", their statistics cannot.
        """
        return self.listed(self.judge(predicate, backend=backend, on_error=on_error))

    def listed(self, found: ShardVerdicts) -> pa.Table:
        """The rows of `table` for what was found in these shards."""
        tables = [
            self.rows(i, part, found.unreadable.get(self.shards[i].file))
            for i, part in enumerate(found.parts)
            if part is not Verdict.NEVER
        ]
        return pa.concat_tables([self.frame_schema.empty_table(), *tables])

    # One shard.

    def settled(self, p: PruningPredicate) -> list[Verdict]:
        """Per shard what all of its containers are, by what is known of it as a whole; MAYBE: it must be opened."""
        maybe = [Verdict.MAYBE] * self.num_shards
        summary = self._manifest.summary
        leaves, own = leaves_of(p.schema), leaves_of(self.schema)
        # Bounds that are read as another type than the shards' may be rounded otherwise.
        if summary is None or any(
            path not in own or own[path].dtype != leaves[path].dtype for path in columns_of(p.node)
        ):
            return maybe
        try:
            verdicts = p.evaluate(self._load(f"{summary[0]}.stats", summary[1]), "numpy")
        except StatisticsError:  # without it more shards are opened, and that is all
            return maybe
        if len(verdicts) != self.num_shards:
            return maybe
        certain = self._manifest.certain
        return [
            Verdict.NEVER
            if v == Verdict.NEVER
            else Verdict.ALWAYS
            if v == Verdict.ALWAYS and certain and s.filled
            else Verdict.MAYBE
            for v, s in zip(verdicts.tolist(), self.shards, strict=True)
        ]

    def statistics(self, i: int) -> Statistics:
        """One shard, mapped.

        Raises:
            StatisticsError: it is missing, torn, of another version, or another than was saved.
        """
        shard = self.shards[i]
        found = self._load(shard.file, shard.identity)
        if found.num_containers != shard.rows:
            raise wrong(
                self._place.at(shard.file),
                f"holds {found.num_containers} containers, and the manifest says {shard.rows}",
                AGAIN,
            )
        return found

    def about(self, i: int) -> pa.Table:
        """What the containers of one shard are.

        Raises:
            StatisticsError: nothing was saved that says it, or it cannot be read.
        """
        shard = self.shards[i]
        if shard.about is None:
            raise StatisticsError(
                f"{self._place.path} does not say what its containers are; save the shards with about="
            )
        path = self._place.mapped(shard.about_file, f"{shard.about:016x}")
        try:
            # Not mapped: a map reads as zeros, or ends the process, where somebody cuts the file.
            with open(path, "rb") as f:
                data = pa.py_buffer(f.read())
        except OSError as e:
            raise wrong(path, f"cannot be opened ({e})", AGAIN) from e
        table = read_table(path, data, AGAIN, shard.about)
        if table.num_rows != shard.rows:
            raise wrong(
                path, f"has {table.num_rows} rows, and the shard {shard.rows} containers", AGAIN
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
        """Return work(i); if shard i cannot be read, note that and return `otherwise`."""
        try:
            return work(i)
        except (StatisticsError, OSError) as e:
            self._forget(self.shards[i])
            error = (
                e
                if isinstance(e, StatisticsError)
                else wrong(self._place.at(self.shards[i].file), f"cannot be read ({e})", AGAIN)
            )
            if on_error == "raise":
                raise error from e
            unreadable[self.shards[i].file] = error
            return otherwise

    @property
    def frame_schema(self) -> pa.Schema:
        """The columns of `table`."""
        own = [
            pa.field("container", pa.int64()),
            pa.field("verdict", pa.int32()),
            pa.field("unreadable", pa.string()),
        ]
        told = list(self.about_schema or ())
        names = [f.name.lower() for f in (*own, *told)]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise StatisticsError(
                f"columns that say what containers are include {twice!r}, which the result has too; save the shards with another name"
            )
        return pa.schema([*own, *told])

    def rows(self, i: int, part: Found | Verdict, unreadable: StatisticsError | None) -> pa.Table:
        """The rows of `table` for one shard."""
        shard, start = self.shards[i], int(self.starts[i])
        kept = survivors_of(part, shard.rows)
        verdicts = (
            part.verdicts()[kept].astype(np.int32)
            if isinstance(part, Found)
            else np.full(len(kept), int(part), np.int32)
        )
        why = pa.array([None if unreadable is None else str(unreadable)] * len(kept), pa.string())
        told = (
            self.about(i).take(pa.array(kept)).columns
            if shard.about is not None and len(kept)
            else []
        )
        if shard.about is not None and not len(kept):
            return self.frame_schema.empty_table()
        return pa.table(
            [pa.array(kept + start), pa.array(verdicts), why, *told], schema=self.frame_schema
        )

    def _load(self, file: str, identity: int) -> Statistics:
        path = self._place.mapped(file, f"{identity:016x}")
        return _mapped.get((path, identity), lambda: load(path, identity))

    def _forget(self, shard: Shard) -> None:
        """Open a shard anew next time: it may have been changed in its place, and be repaired by then."""
        if self.local:
            _mapped.drop((self._place.at(shard.file), shard.identity))

    def __reduce__(self) -> tuple[Any, ...]:
        return Shards, (self._place, self._manifest)


def undecided(settled: Iterable[Verdict]) -> list[int]:
    """The shards that must be opened."""
    return [i for i, verdict in enumerate(settled) if verdict is Verdict.MAYBE]
