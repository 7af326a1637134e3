"""Mutants of the files that Skipstone saves: statistics, shards, footer snapshots, cached logs.

Checksums refuse nearly all damage at once, so footers and manifests are also changed under a
matching checksum. Blocks are not: whoever can forge those can claim anything about the table
(store/layout.py).
"""

import contextlib
import json
import os
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

import skipstone as ss
from skipstone.bindings.shards import manifest as shard_manifest
from skipstone.bindings.statistics.store import layout, table_file
from skipstone.bindings.tables.delta import cache
from tests.fuzz.files import LostRows
from tests.support.tables.delta_log import simple
from tests.support.tables.mutants import damaged, damaged_json, dumped

SCHEMA = pa.schema([("x", pa.int64()), ("s", pa.string()), ("f", pa.float64())])
WHERE = (
    "x > 300",
    "s < '00000500'",
    "f > 0.5 AND x IS NOT NULL",
    "x IN (3, 10, 7)",
    "NOT s LIKE '0%'",
)


def statistics(n=200):
    r, x = np.random.default_rng(n), np.arange(n) * 10
    names = [f"{v:08}" for v in x]
    f = r.random(n)
    columns = {
        "x": {"min": x, "max": x + 14, "null_count": [0] * n},
        "s": {"min": names, "max": [name + "~" for name in names], "null_count": [0] * n},
        "f": {"min": f, "max": f + 0.1, "null_count": [0] * n, "nan_count": [0] * n},
    }
    columns["x"]["values"] = [[int(v), int(v) + 14] if i % 2 else None for i, v in enumerate(x)]
    return ss.Statistics.from_dict(columns, SCHEMA, row_count=[5] * n)


class Target:
    """Files of each kind. Mutants are copies, since the whole files are mapped."""

    def __init__(self, folder):
        self.folder, self.number = Path(folder), 0
        stats = statistics()
        self.known = {w: ss.PruningPredicate(w, SCHEMA).prune(stats) for w in WHERE}
        stats.save(self.folder / "plain.stats")
        stats.index(block=16, order_by="f").save(self.folder / "index.stats")
        self.files = [(self.folder / f"{n}.stats").read_bytes() for n in ("plain", "index")]
        about = pa.table({"path": [f"{i}.parquet" for i in range(200)]})
        stats.save_shards(self.folder / "shards", rows=64, about=about)
        self.shards = self.folder / "shards"
        lake = self.folder / "lake"
        lake.mkdir()
        for i in range(3):
            pq.write_table(pa.table({"x": range(10 * i, 10 * i + 10)}), lake / f"{i}.parquet")
        self.lake, self.snapshot = lake, self.folder / "lake.stats"

        # Snapshots identify files by their times, which must not be recent.
        for path in lake.iterdir():
            os.utime(path, (time.time() - 100,) * 2)
        ss.scan_parquet(lake).save_stats(str(self.snapshot))
        self.log = simple(self.folder / "delta")
        for path in self.log.log.iterdir():
            os.utime(path, (time.time() - 100,) * 2)
        ss.cache_dir = str(self.folder / "cache")
        cache.forget()
        assert ss.scan_delta(self.log.folder).num_files == 3
        (self.kept,) = (self.folder / "cache").rglob("*.stats")

    def whole(self, undo):
        for data in self.files:
            path = self.written(data, undo)
            for w in WHERE:
                yield "load", lambda path=path, w=w: self.load(path, w)
        for w in WHERE:
            yield "shards", lambda w=w: self.open(w)
        yield "snapshot", self.scan
        yield "cache", self.scan_delta

    def mutant(self, r, undo):
        w = r.choice(WHERE)
        match r.randrange(9):
            case 0 | 1:
                path = self.written(damaged(r.choice(self.files), r, self.files), undo)
                yield f"load {w}", lambda: self.load(path, w)
            case 2 | 3:
                path = self.written(resealed(r.choice(self.files), r), undo)
                yield f"load {w}", lambda: self.load(path, w, forged=True)
            case 4:
                path = r.choice(sorted(p for p in self.shards.iterdir() if p.suffix != ".json"))
                self.change(path, damaged(path.read_bytes(), r), undo)
                yield f"shards {w}", lambda: self.open(w)
            case 5:
                path = self.shards / "shards.json"
                self.change(path, forged_manifest(path.read_bytes(), r), undo)
                yield f"shards {w}", lambda: self.open(w, forged=True)
            case 6:
                data = self.snapshot.read_bytes()
                forged = r.random() < 0.5
                new = forged_snapshot(data, r) if forged else damaged(data, r)
                self.change(self.snapshot, new, undo)
                yield "snapshot", lambda: self.scan(forged)
            case 7 | 8:
                data = self.kept.read_bytes()
                forged = r.random() < 0.5
                self.change(self.kept, resealed(data, r) if forged else damaged(data, r), undo)
                yield "cache", lambda: self.scan_delta(forged)

    def written(self, data, undo):
        self.number += 1
        path = self.folder / f"m{self.number}.stats"
        path.write_bytes(data)
        undo.callback(path.unlink)
        return path

    def change(self, path, new, undo):
        """Replace a file. Truncating it in place would end a process that has it mapped."""
        old = path.rename(path.with_suffix(".whole"))
        undo.callback(old.replace, path)
        path.write_bytes(new)

    def load(self, path, where, forged=False):
        stats = ss.Statistics.load(path)
        found = ss.PruningPredicate(where, SCHEMA).prune(stats)
        if not forged:
            judged(found, self.known[where])

    def open(self, where, forged=False):
        found = ss.Shards.open(str(self.shards)).prune(ss.PruningPredicate(where, SCHEMA))
        if not forged:
            judged(found, self.known[where])

    def scan(self, forged=False):
        table = ss.scan_parquet(str(self.lake), stats=str(self.snapshot))
        plan = table.plan("x > 15")
        if not forged and plan.to_arrow().num_rows != 14:
            raise LostRows(f"{plan.to_arrow().num_rows} rows of 14")

    def scan_delta(self, forged=False):
        cache.forget()
        found = ss.scan_delta(self.log.folder).plan("x > 5").to_arrow().num_rows
        if not forged and found != 24:
            raise LostRows(f"{found} rows of 24")


def judged(found, known):
    if len(found) != len(known) or (known & ~found).any():
        raise LostRows(f"{(known & ~found[: len(known)]).sum()} containers too many are pruned")


def resealed(data, r):
    """Change the footer of saved statistics under a matching checksum."""
    at, length, *_ = layout.TAIL.unpack(
        data[-layout.END.size - layout.TAIL.size : -layout.END.size]
    )
    footer = dumped(damaged_json(json.loads(data[at : at + length]), r)).encode(errors="replace")
    return data[:at] + layout.ending(footer, at)


def forged_manifest(data, r):
    if r.random() < 0.3:
        return damaged(data, r)
    whole = json.loads(data)
    whole["manifest"] = damaged_json(whole["manifest"], r)
    with contextlib.suppress(TypeError, ValueError):
        whole["sha256"] = shard_manifest._digest(whole["manifest"])
    return dumped(whole).encode(errors="replace")


def forged_snapshot(data, r):
    body = damaged(data[: -table_file.TAIL.size], r)
    tail = xxhash.xxh3_64_intdigest(body), len(body), table_file.VERSION, table_file.MAGIC
    return body + table_file.TAIL.pack(*tail)
