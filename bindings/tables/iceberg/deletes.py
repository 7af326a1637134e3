"""Match delete files with the data files whose rows they may delete, and count live rows.

Source: Iceberg's specification, "Scan Planning".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from skipstone.bindings.tables.iceberg.manifest import DATA, EQUALITY, LOWER, UPPER, Manifest
from skipstone.bindings.tables.iceberg.partition import Spec
from skipstone.kernels.decode.avro_records import Entry

FILE_PATH: Final = 2147483546  # ids of the columns of position delete files
FILE_POSITION: Final = 2147483545
TRUNCATED_LENGTH: Final = 16  # characters to which writers may have truncated bounds of strings
MAX_SEQUENCE: Final = np.iinfo(np.int64).max
Key = tuple[int, Hashable]  # a spec's id, and a partition's values


@dataclass(frozen=True, slots=True)
class Delete:
    """One delete file, or one deletion vector.

    Attributes:
        path, format: The file's path and format.
        sequence: Its data sequence number; MAX_SEQUENCE if unknown.
        equality: The ids of the columns that an equality delete compares; empty for position
            deletes.
        offset, length: The deletion vector's place in the file; -1 if there is none.
        rows: The rows of the file, or the number of rows that a vector deletes.
        target: The one data file that it applies to; None if it may apply to others.
    """

    path: str
    format: str
    sequence: int
    equality: tuple[int, ...]
    offset: int
    length: int
    rows: int
    target: str | None

    @property
    def vector(self) -> bool:
        """True if it is a deletion vector."""
        return self.offset >= 0 and self.target is not None

    def applies_to(self, sequence: int) -> bool:
        """Return True if it may delete rows of a data file with this sequence number.

        An equality delete applies to older files only.
        """
        return self.sequence > sequence if self.equality else self.sequence >= sequence


@dataclass
class Deletes:
    """The delete files of a table, by the data files that they apply to.

    Attributes:
        specs: The table's partition specs, by id.
        everywhere: Equality deletes of unpartitioned specs, which apply to all files.
        by_partition: Deletes that apply to the files of one partition.
        by_path: Position deletes and vectors that apply to one file.
    """

    specs: Mapping[int, Spec]
    everywhere: list[Delete] = field(default_factory=list)
    by_partition: dict[Key, list[Delete]] = field(default_factory=lambda: defaultdict(list))
    by_path: dict[str, list[Delete]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, manifests: Sequence[Manifest], specs: Mapping[int, Spec]) -> Deletes:
        """Collect the entries of delete manifests."""
        out = cls(specs)
        for m in manifests:
            low, high = (_paths(m.bounds(number, FILE_PATH), len(m)) for number in (LOWER, UPPER))
            offsets, lengths = m.vector_spans
            paths, formats = m.paths.to_pylist(), m.formats.to_pylist()
            for i in np.flatnonzero(m.contents != DATA).tolist():
                is_equality = int(m.contents[i]) == EQUALITY
                target = m.references[i] or (
                    low[i] if len(low[i] or "") > TRUNCATED_LENGTH and low[i] == high[i] else None
                )
                sequence = int(m.sequences[i]) if m.sequences[i] >= 0 else int(MAX_SEQUENCE)
                ids = tuple(m.equality_ids(i)) if is_equality else ()
                one = Delete(
                    paths[i],
                    formats[i],
                    sequence,
                    ids or ((-1,) if is_equality else ()),
                    int(offsets[i]),
                    int(lengths[i]),
                    int(m.rows[i]),
                    target,
                )
                if target is not None and not is_equality:
                    out.by_path[target].append(one)
                elif is_equality and not _partitioned(specs, m.spec):
                    out.everywhere.append(one)
                else:
                    out.by_partition[m.spec, m.keys[i]].append(one)
        return out

    def __bool__(self) -> bool:
        return bool(self.everywhere or self.by_partition or self.by_path)

    def of_files(self, files: Manifest, rows: Sequence[int]) -> Iterator[tuple[int, list[Delete]]]:
        """Yield the position of data files in a manifest, and the deletes that may apply to each.

        A deletion vector replaces the position deletes of its file, so these are left out.

        Args:
            files: A manifest of data files.
            rows: Positions of files in it.

        Source: Iceberg's specification, "Scan Planning".
        """
        for i in rows:
            own = (
                self.by_partition.get((files.spec, files.keys[i]), ()) if self.by_partition else ()
            )
            candidates = [
                *self.everywhere,
                *own,
                *(self.by_path.get(files.paths[i].as_py(), ()) if self.by_path else ()),
            ]
            found = [d for d in candidates if d.applies_to(int(files.sequences[i]))]
            if any(d.vector for d in found):
                found = [d for d in found if d.vector or d.equality]
            yield i, found

    def live_rows(self, files: Manifest) -> npt.NDArray[np.int64]:
        """Return the live rows of each data file of a manifest, int64; -1 is unknown."""
        out = np.where(files.rows < 0, -1, files.rows)
        if not self:
            return out
        for i, found in self.of_files(files, range(len(files))):
            # A vector holds all position deletes of its file, so it is exact. Other deletes may
            # repeat each other or match no row.
            if len(found) == 1 and found[0].vector and 0 <= found[0].rows <= out[i]:
                out[i] -= found[0].rows
            elif found:
                out[i] = -1
        return out


def _partitioned(specs: Mapping[int, Spec], number: int) -> bool:
    spec = specs.get(number)
    return spec is not None and spec.partitioned


def _paths(found: Entry | None, n: int) -> list[str | None]:
    if found is None:
        return [None] * n
    return [
        None if v is None else v.decode(errors="surrogateescape") for v in found.texts().to_pylist()
    ]
