"""Reports of `prune` and `prune_join`: which files each scan opens, and why it keeps others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from skipstone.ir.errors import counted

if TYPE_CHECKING:
    from skipstone.bindings.filters.filter import DynamicFilter


@dataclass(frozen=True, slots=True)
class PrunedScan:
    """The report of `prune` on one scan of files.

    Attributes:
        table: The table's name, or the paths that it was read from.
        where: The part of the DataFrame's conditions that statistics judged, as SQL text; "" if
            there was none.
        files: Files that Spark would open after its own partition pruning. None if they were not
            listed, or if some folders of a Hive table were not listed.
        kept: Files that remain of these.
        why: Why no file was left out, and why a join was not used; "" if there is no reason to
            give.
        keys: The joins whose keys pruned the scan, and the state of these keys; "" if there is
            none.
        rows: Distinct rows of keys that were collected for the scan; None if there were none or too
            many.
        nbytes: Bytes of the dynamic filters.
        seconds: Wall-clock time of collecting the keys.
        by: The registered statistics that judged the scan; "" if footers, a log or manifests did.

    Example:
        >>> print(PrunedScan("flights", "x > 5", None, None, "its files are not listed"))
        flights: not pruned, where x > 5, its files are not listed
    """

    table: str
    where: str
    files: int | None
    kept: int | None
    why: str
    keys: str = ""
    rows: int | None = None
    nbytes: int = 0
    seconds: float = 0.0
    by: str = ""

    def __str__(self) -> str:
        files = "? files" if self.files is None else counted(self.files, "files")
        counts = f"{self.kept} of {files}"
        parts = (
            f"{self.table}: {'not pruned' if self.kept is None else counts}",
            self.where and f"where {self.where}",
            self.keys and f"joined by {self.keys}, collected in {self.seconds:.2f} s",
            self.by and f"by {self.by}",
            self.why,
        )
        return ", ".join(filter(None, parts))


def with_join(scan: PrunedScan, filters: Sequence[DynamicFilter]) -> PrunedScan:
    """Return the report of a scan, completed with the joins that filtered it."""
    collected = [f.data for f in filters if f.data is not None]
    if not collected:
        return scan
    keys = " and ".join(f"{f.how} join, {f.state}" for f in filters)
    counts = [d.num_rows for d in collected if d.num_rows is not None]
    return replace(
        scan,
        keys=keys,
        rows=sum(counts) if len(counts) == len(collected) else None,
        nbytes=sum(d.nbytes for d in collected),
        seconds=sum(d.seconds for d in collected),
    )


def joined_reasons(*whys: str) -> str:
    """Join distinct, non-empty reasons with semicolons."""
    return "; ".join(dict.fromkeys(filter(None, whys)))


class Pruned(tuple[PrunedScan, ...]):
    """The reports of `prune`, one per scan; prints as text."""

    __slots__ = ()

    @property
    def files(self) -> int:
        """Files of the scans that were examined."""
        return sum(scan.files or 0 for scan in self)

    @property
    def kept(self) -> int:
        """Files that remain of these."""
        return sum(scan.kept or 0 for scan in self)

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "no scan of files"


def not_pruned(why: str) -> Pruned:
    """Return the reports of a DataFrame whose scans were not examined."""
    return Pruned((PrunedScan("the DataFrame", "", None, None, why),))
