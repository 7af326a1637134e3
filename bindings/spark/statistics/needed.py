"""Slots: the statistics that a predicate needs from a DataFrame of containers, and their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.statistics.coerce_inputs import COUNTS, KEYS
from skipstone.ir.guarantee import membership_paths
from skipstone.ir.node import Path, columns_of, quoted_path, show_path
from skipstone.ir.types import DType, Kind, leaves_of

ROW_COUNT: Final = "row_count"
MEMBERS: Final = ("values", "bloom")


@dataclass(frozen=True, slots=True)
class Statistic:
    """One statistic of one column, or the container's own row count.

    Attributes:
        name: The DataFrame's column that holds it: `x.min`, `a.b.null_count`, `row_count`.
        path: The table's column; () for the container's own row count.
        kind: "min", "max", "null_count", "row_count", "nan_count"; "values", "bloom"; or
            "min_exact", "max_exact".
        dtype: The type of the table's column.
    """

    name: str
    path: Path
    kind: str
    dtype: DType

    @property
    def is_count(self) -> bool:
        """True for a count, False for a bound."""
        return self.kind in COUNTS


CONTAINER: Final = Statistic(ROW_COUNT, (), ROW_COUNT, DType(Kind.INT, bits=64))


def needed_statistics(
    predicate: PruningPredicate, *, members: bool = False
) -> tuple[Statistic, ...]:
    """Return the statistics that a predicate can use: by column, then the container's row count.

    Args:
        predicate: The condition.
        members: True to include value lists and bloom filters.

    Example:
        >>> p = PruningPredicate("x = 5", pa.schema([("x", pa.int64())]))
        >>> [s.name for s in needed_statistics(p)]
        ['x.min', 'x.max', 'x.null_count', 'x.row_count', 'row_count']
    """
    leaves = leaves_of(predicate.schema)
    with_members = membership_paths(predicate.node, predicate.literal_guarantees) if members else ()
    out: list[Statistic] = []
    for path in columns_of(predicate.node):
        dtype = leaves[path].dtype
        # Only newer versions of Spark have TIME, and none has it by default: no bound travels.
        wanted = ["min", "max"] if dtype.ordered and dtype.kind is not Kind.TIME else []
        wanted += ["null_count", "row_count"]
        wanted += ["nan_count"] if dtype.kind is Kind.FLOAT else []
        wanted += MEMBERS if path in with_members else ()
        out += [Statistic(f"{plain_name(path, leaves)}.{s}", path, s, dtype) for s in wanted]
    return (*out, CONTAINER)


def all_statistics(schema: pa.Schema) -> tuple[Statistic, ...]:
    """Return every statistic that a table may have: by column, then the container's row count."""
    leaves = leaves_of(schema)
    names = {path: plain_name(path, leaves) for path in leaves}
    return (
        *(
            Statistic(f"{names[path]}.{s}", path, s, leaf.dtype)
            for path, leaf in leaves.items()
            for s in KEYS
        ),
        CONTAINER,
    )


def spellings(path: Path) -> tuple[str, str, str]:
    """Return the spellings of a column before its statistic: dotted, as in SQL, and all quoted."""
    return ".".join(path), show_path(path), quoted_path(path)


def plain_name(path: Path, leaves: Mapping[Path, object]) -> str:
    """Return the dotted path, or the quoted one if a column at the top has the dotted name."""
    plain, _, quoted = spellings(path)
    return quoted if len(path) > 1 and (plain,) in leaves else plain
