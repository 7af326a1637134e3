"""Find the scans of a plan, and decide how long files may be left out of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from skipstone.bindings.spark.pruning.scans import Scan
from skipstone.bindings.spark.session.jvm import text_of


def scans_of(
    spark: Any, gateway: Any, plan: Any, analysed: Sequence[Scan] | None = None
) -> tuple[list[Scan], Any]:
    """Return the scans of a plan, and the object of Spark's JVM that holds the same scans.

    Args:
        spark: The classic Spark session that the plan runs in.
        gateway: The object that reads plans in Spark's JVM.
        plan: The analysed or optimised plan.
        analysed: For an optimised plan, the scans of the analysed plan that it was made from.
    """
    jvm_scans = gateway.scans(plan, spark._jsparkSession.sessionState().conf())
    info = json.loads(text_of(jvm_scans.text()))
    lists: dict[int, Any] = {}
    return [
        Scan(
            i,
            jvm_scans.files(i),
            one,
            None if analysed is None else _origins(one, analysed),
            lists,
            jvm_scans.settings(i),
        )
        for i, one in enumerate(info)
    ], jvm_scans


def _origins(info: Mapping[str, Any], analysed: Sequence[Scan]) -> list[Scan]:
    """Return the analysed scans that an optimised scan may stand for.

    They share ids of columns with it; if none does, they read the same paths.
    """
    ids = {column["id"] for column in info["output"]}
    return [one for one in analysed if one.ids & ids] or [
        one for one in analysed if one.roots == info["roots"]
    ]


def validity_of(gateway: Any, until: int, scans: Iterable[Scan]) -> Any:
    """Return the JVM object that decides how long files may be left out.

    They may be left out until the time `until`, in ms since 1970, and while the scans' settings and
    the file lists that their joins depend on are unchanged.
    """
    watches = gateway.watches()
    for scan in scans:
        for watch in (scan.settings, *scan.watches):
            watches.add(watch)
    return gateway.validity(until, watches)
