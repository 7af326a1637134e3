"""Print the explanation of a plan as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skipstone.bindings.plans.explain.report import Explanation
    from skipstone.bindings.plans.work import Work


def as_json(e: Explanation) -> str:
    """Return an explanation as JSON. Numbers that are not known are null; times are seconds."""
    sizes = {k: getattr(e.sizes, k) for k in ("total", "partition", "scan", "pages")}
    kept_because: dict[str, int] = {}
    for r in e.reasons:
        kept_because[r.reason] = kept_because.get(r.reason, 0) + r.containers
    out: dict[str, Any] = {
        "predicate": e.condition,
        "rewritten": e.rewritten,
        "never_true": e.never_true,
        "skipping": e.skipping,
        "kind": e.kind,
        "unit": e.unit,
        "containers": {"total": e.containers, "kept": e.kept},
        "sizes": {k: asdict(size) for k, size in sizes.items() if size is not None},
        "phases": [asdict(p) for p in e.phases],
        "conjuncts": [asdict(c) for c in e.conjuncts],
        "kept_because": kept_because,
        "kept": [asdict(r) for r in e.reasons],
        "unused": [asdict(part) for part in e.unused],
        "not_understood": [asdict(r) for r in e.not_understood],
        "guarantees": [
            {"column": g.column, "kind": g.kind, "values": sorted(map(str, g.literals))}
            for g in e.guarantees
        ],
        "order": list(e.order),
        "deferred_limit": e.deferred,
        "dynamic_filters": list(e.dynamic),
        "seconds": {name: round(s, 6) for name, s in e.seconds.items()},
        "work": _work(e.work),
        "table_work": _work(e.table_work),
        "skipped_folders": e.skipped_folders,
        "unreadable": e.unreadable,
    }
    if e.pages is not None:
        out["pages"] = e.pages
    if e.stories:
        out["stories"] = [asdict(s) for s in e.stories]
    if e.program is not None:
        out["program"] = e.program
    return json.dumps(out, indent=2)


def _work(work: Work) -> dict[str, Any]:
    return {**work.counts, "bytes": work.bytes}
