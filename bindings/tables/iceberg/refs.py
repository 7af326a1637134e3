"""Find a snapshot of an Iceberg table by its id, or by the name of a branch or a tag."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any, Final

from skipstone.ir.errors import SourceError, clip

MAIN: Final = "main"
MAX_SHOWN: Final = 8


def snapshot_of(table: Any, wanted: int | str | None) -> tuple[Any, Any]:
    """Return a snapshot of a pyiceberg table, and the schema to read it by.

    Args:
        table: The table.
        wanted: The id of a snapshot, as a number or text; the name of a branch or tag; or None for
            the current snapshot.

    Returns:
        The snapshot, None if the table has none; and its own schema, or the table's if a branch was
        named.

    Raises:
        SourceError: there is no such snapshot, branch or tag.

    Source: Iceberg, `SnapshotUtil.schemaFor`.
    """
    if wanted is None:
        return table.current_snapshot(), table.schema()
    refs, number = table.metadata.refs, None
    if isinstance(wanted, str):
        if wanted in refs or wanted == MAIN:
            found = table.snapshot_by_id(refs[wanted].snapshot_id) if wanted in refs else None
            is_branch = wanted not in refs or _is_branch(refs[wanted])
            return found, table.schema() if is_branch else _schema_of(table, found)
        number = int(wanted) if wanted.isascii() and wanted.isdecimal() else None
    elif isinstance(wanted, numbers.Integral) and not isinstance(wanted, bool):
        number = int(wanted)
    else:
        raise SourceError(
            f"{table.location()}: the version is {clip(repr(wanted))}; expected the id of a "
            "snapshot, or the name of a branch or tag"
        )
    found = None if number is None else table.snapshot_by_id(number)
    if found is None:
        snapshots = [str(s.snapshot_id) for s in table.metadata.snapshots]
        latest = ", ".join(snapshots[-MAX_SHOWN:])
        raise SourceError(
            f"{table.location()}: there is no "
            + (f"branch or tag {clip(repr(wanted))}" if number is None else f"snapshot {number}")
            + f"; the table has {_shown_refs(refs) or 'none'}"
            + (f"; of {len(snapshots)} snapshots, the latest are {latest}" if snapshots else "")
        )
    return found, _schema_of(table, found)


def _schema_of(table: Any, snapshot: Any) -> Any:
    return table.schemas().get(snapshot.schema_id, table.schema())


def _is_branch(ref: Any) -> bool:
    return str(ref.snapshot_ref_type.value) == "branch"


def _shown_refs(refs: Any) -> str:
    """Return the names of branches and tags, for errors; "" if there are none."""
    branches = [name for name, ref in refs.items() if _is_branch(ref)]
    tags = [name for name in refs if name not in branches]
    kinds = (("branch", "branches", branches), ("tag", "tags", tags))
    return "; ".join(
        f"the {one if len(names) == 1 else many} {_listed(names)}"
        for one, many, names in kinds
        if names
    )


def _listed(names: Iterable[str]) -> str:
    every = sorted(names)
    more = f" and {len(every) - MAX_SHOWN:,} more" if len(every) > MAX_SHOWN else ""
    return clip(", ".join(every[:MAX_SHOWN])) + more
