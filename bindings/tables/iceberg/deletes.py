"""Deletes: which delete files may take rows of a data file, and how many of its rows live.

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
CUT: Final = 16  # characters that bounds of strings may have been cut to
LAST: Final = np.iinfo(np.int64).max
Key = tuple[int, Hashable]  # a spec's id, and a partition's values


@dataclass(frozen=True, slots=True)
class Delete:
    """One delete file.

    Attributes:
        path, format: Of the file.
        sequence: Of its data; the greatest, where that is not known.
        equality: The ids of the columns by which rows are compared; none: it names positions.
        offset, length: Where a deletion vector is in the file; -1: it is none.
        rows: Rows of the file, or of a vector how many rows it deletes.
        target: The only data file that it is of; None: there may be others.
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
        """Whether it is a deletion vector."""
        return self.offset >= 0 and self.target is not None

    def takes(self, sequence: int) -> bool:
        """Whether it may take rows of a data file of a sequence number: an equality delete takes older ones only."""
        return self.sequence > sequence if self.equality else self.sequence >= sequence


@dataclass
class Deletes:
    """The delete files of a table, by what they are of."""

    specs: Mapping[int, Spec]
    everywhere: list[Delete] = field(default_factory=list)
    by_partition: dict[Key, list[Delete]] = field(default_factory=lambda: defaultdict(list))
    by_path: dict[str, list[Delete]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, manifests: Sequence[Manifest], specs: Mapping[int, Spec]) -> Deletes:
        """Those of delete manifests."""
        out = cls(specs)
        for m in manifests:
            low, high = (_paths(m.bounds(number, FILE_PATH), len(m)) for number in (LOWER, UPPER))
            offsets, lengths = m.places
            paths, formats = m.paths.to_pylist(), m.formats.to_pylist()
            for i in np.flatnonzero(m.contents != DATA).tolist():
                by_value = int(m.contents[i]) == EQUALITY
                target = m.references[i] or (
                    low[i] if len(low[i] or "") > CUT and low[i] == high[i] else None
                )
                sequence = int(m.sequences[i]) if m.sequences[i] >= 0 else int(LAST)
                ids = tuple(m.equality_ids(i)) if by_value else ()
                one = Delete(
                    paths[i],
                    formats[i],
                    sequence,
                    ids or ((-1,) if by_value else ()),
                    int(offsets[i]),
                    int(lengths[i]),
                    int(m.rows[i]),
                    target,
                )
                if target is not None and not by_value:
                    out.by_path[target].append(one)
                elif by_value and not _partitioned(specs, m.spec):
                    out.everywhere.append(one)
                else:
                    out.by_partition[m.spec, m.keys[i]].append(one)
        return out

    def __bool__(self) -> bool:
        return bool(self.everywhere or self.by_partition or self.by_path)

    def of_files(self, files: Manifest, rows: Sequence[int]) -> Iterator[tuple[int, list[Delete]]]:
        """Data files of a manifest at some places, and what may take rows of each."""
        for i in rows:
            own = (
                self.by_partition.get((files.spec, files.keys[i]), ()) if self.by_partition else ()
            )
            given = [
                *self.everywhere,
                *own,
                *(self.by_path.get(files.paths[i].as_py(), ()) if self.by_path else ()),
            ]
            yield i, [d for d in given if d.takes(int(files.sequences[i]))]

    def living(self, files: Manifest) -> npt.NDArray[np.int64]:
        """Rows that live in each data file of a manifest, int64; -1 is unknown."""
        out = np.where(files.rows < 0, -1, files.rows)
        if not self:
            return out
        for i, found in self.of_files(files, range(len(files))):
            # A vector holds all deletes of positions. Of other files it is not known which rows they take, or whether any.
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
