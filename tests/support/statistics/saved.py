"""Helpers for tests of saved statistics: small files, damaged files, and their answers."""

import json

import numpy as np
import pyarrow as pa

import skipstone as ss
from skipstone.bindings.statistics.store import layout

SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.float64()), ("s", pa.string())])


def many(n, spread=10, contradictions=True):
    """Return statistics: clustered x and s, random y, some nulls, some bounds without rows."""
    r = np.random.default_rng(7)
    x, y = np.arange(n) * spread + 2**40 * np.arange(n) // max(n, 1), r.random(n)
    columns = {
        "x": {"min": x, "max": x + 3 * spread, "null_count": r.integers(0, 2, n)},
        "y": {"min": y, "max": y + 1e-3},
        "s": {
            "min": pa.array([f"{i // 3:08}" for i in range(n)]),
            "max": pa.array([f"{i // 3 + 1:08}" for i in range(n)]),
        },
    }
    row_count = r.integers(0, 9, n) if contradictions else r.integers(2, 9, n)
    return ss.Statistics.from_dict(columns, SCHEMA, row_count=row_count)


TEXTS = (
    "x = 12345",
    "x < 1000 AND y > 0.5",
    "y BETWEEN 0.2 AND 0.201",
    "s = '00000123'",
    "x IS NULL",
    "s LIKE '0000001%' OR y < 0.01",
    "x % 7 = 3 AND x < 900",
)


def back(stats, path):
    """Save statistics and load them."""
    stats.save(path)
    return ss.Statistics.load(path)


def answers(stats, predicates):
    """Return verdicts and survivors of each predicate."""
    return [
        getattr(p, call)(stats, "numpy").tolist()
        for p in predicates
        for call in ("evaluate", "survivors")
    ]


def rewritten(path, change):
    """Write the file with a changed footer and the right checksums."""
    opened = layout.open_file(str(path))
    at, count, _ = opened.footer["checksums"]
    footer = json.loads(json.dumps(opened.footer))
    change(footer)
    start = at + count * 8
    data = opened.data[:start]
    path.write_bytes(data + layout.ending(json.dumps(footer).encode(), start))
