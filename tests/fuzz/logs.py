"""Mutants of Delta logs: commits, checkpoints, sidecars, and files that are only hints."""

import io
import json
import struct
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq

import skipstone as ss
from skipstone.bindings.tables.delta import cache
from tests.fuzz.files import LostRows
from tests.fuzz.footers import end, thrift_bytes
from tests.support.tables import footers as thrift
from tests.support.tables.delta_log import Log, Written, delta_schema
from tests.support.tables.mutants import damaged, damaged_json, damaged_thrift, dumped

DDL = "x BIGINT, s STRING, p STRING, f DOUBLE, m DECIMAL(9,2), st STRUCT<a: INT>, d DATE"
WHERE = ("x > 5", "p = 'a' AND x < 30", "s < 'm' OR f > 2", "m = 1.5", "st.a = 3", "d IS NULL")
SIDECAR = "00000000000000000002.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11"


class Target:
    """Tables of three commits: plain, with a checkpoint, and with one that has sidecars."""

    def __init__(self, folder):
        self.tables = {}
        for name in ("plain", "mapped", "checkpoint", "sidecars", "json sidecars"):
            mapping = "name" if name == "mapped" else None
            log = Log(Path(folder) / name, delta_schema(DDL), ["p"], mapping=mapping)
            for i in range(3):
                log.add(*(Written(rows(10 * i), {"p": p}) for p in "ab"))
            log.remove(0)
            (log.log / f"{4:020}.crc").write_text('{"tableSizeBytes":1,"numFiles":5}')
            if name not in ("plain", "mapped"):
                checkpointed(log, name)
            (log.log / "_last_checkpoint").write_text('{"version":2,"size":3}')
            self.tables[name] = log
        self.peers = [t for t in ("plain", "checkpoint") if peer(self.tables[t]) is not None]
        assert self.peers

    def whole(self, undo):
        for log in self.tables.values():
            for w in WHERE:
                for which in range(5):
                    yield from self.asks(log, w, which, log is self.tables["plain"])

    def mutant(self, r, undo):
        name = r.choice(list(self.tables))
        log = self.tables[name]
        files = sorted(p for p in log.log.rglob("*") if p.is_file() and p.parent.name != "backup")
        if name not in ("plain", "mapped") and r.random() < 0.7:
            files = [p for p in files if "checkpoint" in p.name or "sidecar" in str(p.parent)]
        path = r.choice(files)
        data = path.read_bytes()
        undo.callback(path.write_bytes, data)
        path.write_bytes(changed_parquet(data, r) if data[:4] == b"PAR1" else changed_json(data, r))
        yield from self.asks(log, r.choice(WHERE), r.randrange(6), name in self.peers)

    def asks(self, log, where, which, judged):
        cache.forget()
        table = None

        def scan():
            nonlocal table
            table = ss.scan_delta(log.folder)

        yield "scan", scan
        if table is None:
            return
        yield f"plan {where}", lambda: table.plan(where).files
        match which:
            case 0:
                yield "count", lambda: table.plan(where).count()
            case 1:
                yield "statistics", lambda: table.with_stats
                yield "size", lambda: (table.size_in_bytes, table.plan(where).sizes)
            case 2:
                yield "rows", lambda: table.plan(where).to_arrow()
            case 3:
                yield "time", lambda: ss.scan_delta(log.folder, "2050-01-01T00:00:00Z")
            case _:
                mine = []
                yield "all rows", lambda: mine.append(table.plan().to_arrow().num_rows)
                if mine and judged:
                    yield "peer", lambda: compare(mine[0], log)


def compare(mine, log):
    """Find rows that delta-rs reads and Skipstone does not."""
    theirs = peer(log)
    if theirs is not None and mine < theirs:
        raise LostRows(f"{mine} rows of {theirs}")


def peer(log):
    """Return the number of rows that delta-rs reads; None if it does not read the table."""
    try:
        table = deltalake.DeltaTable(str(log.folder))
        return sum(pq.ParquetFile(p).metadata.num_rows for p in table.file_uris())
    except Exception:
        return None


def rows(first):
    n = 10
    columns = {
        "x": pa.array(range(first, first + n)),
        "s": [str(i) for i in range(n)],
        "f": [i / 2 for i in range(n)],
        "m": pa.array([None] * n, pa.decimal128(9, 2)),
        "st": pa.array([{"a": i} for i in range(n)], pa.struct([("a", pa.int32())])),
        "d": pa.nulls(n, pa.date32()),
    }
    return pa.table(columns)


def checkpointed(log, name):
    """Replace the commits up to version 2 by a checkpoint."""
    deltalake.DeltaTable(str(log.folder), version=2).create_checkpoint()
    path = log.log / f"{2:020}.checkpoint.parquet"
    whole = pq.read_table(path)
    if name != "checkpoint":
        path.unlink()
        (log.log / "_sidecars").mkdir()
        live = whole.filter(pa.compute.is_valid(whole.column("add")))
        pq.write_table(live.select(["add"]), log.log / "_sidecars" / "one.parquet")
        sidecar = {"path": "one.parquet", "sizeInBytes": 1, "modificationTime": 1}
        settings = [
            json.loads(line)
            for line in (log.log / f"{0:020}.json").read_text().splitlines()
            if "commitInfo" not in line
        ]
        if name == "json sidecars":
            text = "".join(json.dumps(a) + "\n" for a in (*settings, {"sidecar": sidecar}))
            (log.log / f"{SIDECAR}.json").write_text(text)
        else:
            kept = whole.select(["protocol", "metaData"]).to_pylist()
            lines = [{k: v for k, v in row.items() if v is not None} for row in kept]
            both = [row for row in lines if row] + [{"sidecar": sidecar}]
            kinds = [whole.schema.field(n) for n in ("protocol", "metaData")]
            kinds.append(pa.field("sidecar", pa.struct([("path", pa.string())])))
            loose = pa.schema([pa.field(f.name, nullable(f.type)) for f in kinds])
            pq.write_table(pa.Table.from_pylist(both, loose), log.log / f"{SIDECAR}.parquet")
    for i in range(3):
        (log.log / f"{i:020}.json").unlink()


def nullable(kind):
    if not pa.types.is_struct(kind):
        return kind
    return pa.struct([pa.field(f.name, nullable(f.type)) for f in kind])


def changed_json(data, r):
    if r.random() < 0.3:
        return damaged(data, r)
    lines = [json.loads(line) for line in data.decode().splitlines()]
    at = r.randrange(len(lines))
    match r.randrange(6):
        case 0:
            lines.insert(at, lines[r.randrange(len(lines))])
        case 1:
            changed = damaged_json(lines, r)
            lines = changed if isinstance(changed, list) else [changed]
        case 2 if isinstance(lines[at].get("metaData"), dict):
            inner = damaged_json(json.loads(lines[at]["metaData"]["schemaString"]), r)
            lines[at]["metaData"]["schemaString"] = dumped(inner)
        case 2 | 3 if isinstance(lines[at].get("add"), dict):
            lines[at]["add"]["stats"] = dumped(
                damaged_json(json.loads(lines[at]["add"]["stats"]), r)
            )
        case _:
            lines[at] = damaged_json(lines[at], r)
    text = "\n".join(map(dumped, lines)) + "\n"
    if r.random() < 0.1:  # a duplicate key
        text = text.replace('{"path":', '{"path": "other", "path":', 1)
    return text.encode(errors="replace")


def changed_parquet(data, r):
    """Change a checkpoint: its footer, its bytes, or its rows."""
    at = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
    match r.randrange(3):
        case 0:
            return data[:at] + end(
                thrift_bytes(damaged_thrift(thrift._Reader(data[at:-8]).struct(), r))
            )
        case 1:
            return damaged(data, r, start=at)
    table = pq.read_table(io.BytesIO(data))
    rows_of = [json.loads(json.dumps(row, default=str)) for row in table.to_pylist()]
    try:
        changed = pa.Table.from_pylist(damaged_json(rows_of, r))
        sink = io.BytesIO()
        pq.write_table(changed, sink)
        return sink.getvalue()
    except Exception:  # Arrow has no type for the damaged rows
        return damaged(data, r, start=at)
