"""Read the keys of a join's build side without a Spark job, if its rows come from a single scan.

A dynamic filter that has too many keys prunes less, but is still correct. So the rows need not be
exactly those of the build side: conditions that only Spark can judge are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from skipstone.bindings.filters.kinds import Needs, Side
from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.spark.pruning.catalyst import conjunction, conjuncts
from skipstone.bindings.spark.pruning.context import Context
from skipstone.bindings.spark.pruning.joins import OTHER, PlanJoin
from skipstone.bindings.spark.pruning.scan_files import UnjudgedFiles
from skipstone.bindings.spark.pruning.scans import Scan
from skipstone.ir.errors import SkipstoneError, UnsupportedForm
from skipstone.ir.node import Node, Op, literal
from skipstone.ir.types import BOOL, Kind, from_arrow

MAX_BYTES: Final = 64 << 20  # Spark reads larger files faster, as it reads them in parallel
# Types whose values Spark and Arrow decode alike from every file. Times are not: INT96, rebasing.
KINDS: Final = frozenset(
    {Kind.BOOL, Kind.INT, Kind.UINT, Kind.DATE, Kind.DECIMAL, Kind.STRING, Kind.BINARY}
)


def key_columns(
    join: PlanJoin, side: Side, scans: Sequence[Scan], context: Context
) -> list[str] | None:
    """Return the columns of the build side's scan that are its keys, in their order.

    Args:
        join: The join.
        side: The side that is pruned; the keys are those of the other side.
        scans: The scans of the plan.
        context: The settings that the scans share.

    Returns:
        None if a Spark job must collect the keys: they are computed, or the rows come from several
        scans, or too many bytes, or the join needs to know which rows have no match.
    """
    build = join.side_of(OTHER[side])
    if not build.plain or join.needs(side) is not Needs.MATCHED:
        return None
    scan = scans[build.scans[0]]
    if scan.kept is None:
        scan.judge(context)
    if scan.listing is None or scan.kept is None or scan.nbytes > MAX_BYTES:
        return None
    names = [
        scan.columns.get(tree["id"]) if tree["class"] == "AttributeReference" else None
        for tree in (key[OTHER[side]] for key in join.keys)
    ]
    found = [name for name in names if name is not None]
    if len(found) < len(names) or not all(
        from_arrow(scan.schema.field(name).type).kind in KINDS for name in found
    ):
        return None
    return found


def read_keys(scan: Scan, names: Sequence[str], context: Context) -> pa.Table | None:
    """Return the rows of a scan under its conditions, with the named columns as "0", "1", ...

    Args:
        scan: A scan that was judged.
        names: The columns; one may occur twice.
        context: The settings that the scans share.

    Returns:
        None if none of its conditions can be judged without Spark, or if a case-sensitive Spark
        reads other columns of some file.

    Raises:
        SourceError: a file cannot be read, or is no longer as Spark listed it.
    """
    assert scan.listing is not None and scan.kept is not None
    predicate = _known_part(scan, context)
    if predicate is None:
        return None
    try:
        rows = scan.listing.rows(
            predicate,
            scan.kept,
            list(dict.fromkeys(names)),
            case_sensitive=context.settings["case_sensitive"],
        )
    except (UnsupportedForm, UnjudgedFiles):
        return None
    return pa.table([rows[name] for name in names], names=[str(i) for i in range(len(names))])


def _known_part(scan: Scan, context: Context) -> PruningPredicate | None:
    """Return the scan's conditions without those that are not understood; None if none is left."""
    known: list[Node] = []
    unknown = False
    settings = context.settings | {"case_sensitive": True}
    for tree in conjuncts(scan.conditions):
        node = conjunction([tree], scan.columns, scan.schema, context.settings, context.unsure)
        try:
            one = PruningPredicate(node, scan.schema, **settings)
        except SkipstoneError:
            unknown = True
            continue
        unknown |= one.has_unknown
        if not one.has_unknown and not one.always_true:
            known.append(node)
    if unknown and not known:
        return None
    return PruningPredicate(Node(Op.AND, (*known, literal(1, BOOL))), scan.schema, **settings)
