"""Delta tables written by hand: features that no available writer has, and damaged logs.

Statistics are computed as Spark's writer does: PROTOCOL.md, "Per-file Statistics", and
`StatsCollection` of Delta.
"""

import datetime as dt
import decimal
import json
import struct
import uuid
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import sqlglot
from pyroaring import BitMap64
from sqlglot import exp

from skipstone.bindings.tables.bitmaps import MAGIC
from skipstone.bindings.tables.delta.fields import arrow_type
from skipstone.bindings.tables.delta.vectors import Z85

NAMES = {
    "BIGINT": "long",
    "INT": "integer",
    "SMALLINT": "short",
    "TINYINT": "byte",
    "TEXT": "string",
    "TIMESTAMPTZ": "timestamp",
    "TIMESTAMPNTZ": "timestamp_ntz",
}
PREFIX = 32  # characters of a text in statistics


@dataclass
class Written:
    """One file: its rows, and the log's entries where they differ from Spark's."""

    rows: list | pa.Table
    partition: dict = field(default_factory=dict)
    stats: Any = ...  # a dict, a raw text, or None
    dead: list | None = None  # positions of deleted rows
    path: str | None = None


def delta_schema(ddl):
    """Return the `schemaString` of a DDL, as an object."""
    columns = (
        sqlglot.parse_one(f"CREATE TABLE t ({ddl})", dialect="spark").find(exp.Schema).expressions
    )
    return {"type": "struct", "fields": [_field(c) for c in columns]}


def _field(c):
    return {"name": c.name, "type": _kind(c.args["kind"]), "nullable": True, "metadata": {}}


def _kind(t):
    name = t.this.value
    if name == "STRUCT":
        return {"type": "struct", "fields": [_field(f) for f in t.expressions]}
    if name == "ARRAY":
        return {"type": "array", "elementType": _kind(t.expressions[0]), "containsNull": True}
    if name == "MAP":
        return {
            "type": "map",
            "keyType": _kind(t.expressions[0]),
            "valueType": _kind(t.expressions[1]),
            "valueContainsNull": True,
        }
    if name == "DECIMAL":
        return f"decimal({','.join(e.name for e in t.expressions) or '10,0'})"
    return NAMES.get(name, name.lower())


def arrow_schema(schema):
    return pa.schema([pa.field(f["name"], arrow_type(f["type"])) for f in schema["fields"]])


def arrow_table(rows, schema, timezone="UTC"):
    """Return rows in JSON's form as a table of the schema's types."""
    return pa.Table.from_pylist(
        [{k: _value(v, schema.field(k).type, timezone) for k, v in row.items()} for row in rows],
        schema,
    )


def _value(v, kind, timezone):
    if v is None:
        return None
    if pa.types.is_struct(kind):
        return {f.name: _value(v.get(f.name), f.type, timezone) for f in kind}
    if pa.types.is_map(kind):
        return list(v.items())
    if pa.types.is_decimal(kind):
        return decimal.Decimal(str(v))
    if pa.types.is_date(kind):
        return dt.date.fromisoformat(v)
    if pa.types.is_timestamp(kind) and isinstance(v, str):
        if v.startswith("294247"):  # the last microsecond, in a year that Arrow cannot parse
            return 2**63 - 1
        if v.startswith("+"):  # and others beyond 9999, whose zone is ignored
            return int(np.datetime64(v[1:].replace(" ", "T"), "us").astype(np.int64))
        text = pa.array([v.rstrip("Z")])
        if v[-6] in "+-":
            return text.cast(pa.timestamp("us", "UTC")).cast(pa.int64())[0].as_py()
        plain = text.cast(pa.timestamp("us"))
        return (
            (pc.assume_timezone(plain, timezone) if kind.tz else plain).cast(pa.int64())[0].as_py()
        )
    return v


def spark_stats(table, indexed=32, wanted=None):
    """Return statistics of a file as Spark writes them.

    Args:
        table: Its rows, without partition columns.
        indexed: How many leaves have statistics; -1 for all.
        wanted: Dotted names of the columns with statistics, instead; a struct's means its leaves.
    """
    out = {"numRecords": table.num_rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    leaves = list(_leaves(table))
    if wanted is not None:
        leaves = [
            (p, v)
            for p, v in leaves
            if any(".".join(p) == w or ".".join(p).startswith(w + ".") for w in wanted)
        ]
    elif indexed >= 0:
        leaves = leaves[:indexed]
    for path, values in leaves:
        _put(out["nullCount"], path, values.null_count)
        if (
            pa.types.is_nested(values.type)
            or pa.types.is_boolean(values.type)
            or pa.types.is_binary(values.type)
            or values.null_count == len(values)
        ):
            continue
        order = (
            values.drop_null().to_pylist()
            if not pa.types.is_timestamp(values.type)
            else values.drop_null().cast(pa.int64()).to_pylist()
        )
        if pa.types.is_floating(values.type):  # NaN is above every number
            order.sort(key=lambda v: (v != v, v))
        low, high = (
            (order[0], order[-1]) if pa.types.is_floating(values.type) else (min(order), max(order))
        )
        if pa.types.is_string(values.type):
            low, high = truncated(low), truncated(high, high=True)
        _put(out["minValues"], path, _json(low, values.type))
        if high is not None:
            _put(out["maxValues"], path, _json(high, values.type))
    return out


def _leaves(table):
    def below(path, values):
        if pa.types.is_struct(values.type):
            for i, f in enumerate(values.type):
                yield from below((*path, f.name), pc.struct_field(values, [i]))
        else:
            yield path, values

    for name in table.schema.names:
        yield from below((name,), table.column(name))


def _put(into, path, value):
    for name in path[:-1]:
        into = into.setdefault(name, {})
    into[path[-1]] = value


def truncated(text, length=PREFIX, high=False):
    """Return a text bound as Spark's writer cuts it; None if it then writes none."""
    if not length:
        return None
    if not high or len(text) <= length:
        return text[:length]
    for i in range(
        length, min(len(text), 2 * length)
    ):  # a tie-breaker above the dropped text; nothing is above U+10FFFF
        if text[i] != "\U0010ffff":
            return text[:i] + ("\x7f" if text[i] < "\x7f" else "\U0010ffff")
    return None


def _json(v, kind):
    if pa.types.is_timestamp(kind):
        ms = v // 1000  # cut to milliseconds
        text = str(np.datetime64(ms, "ms"))
        return text + ("Z" if kind.tz else "")
    if isinstance(v, float) and v != v:
        return "NaN"
    if isinstance(v, float) and v in (float("inf"), float("-inf")):
        return "Infinity" if v > 0 else "-Infinity"
    if pa.types.is_float32(kind):
        return (
            float(f"{v:.9g}")
            if float(pa.scalar(float(f"{v:.7g}"), pa.float32()).as_py()) != v
            else float(f"{v:.7g}")
        )
    if isinstance(v, decimal.Decimal):
        return float(v) if decimal.Decimal(repr(float(v))) == v else int(v)
    return v.isoformat() if isinstance(v, dt.date) else v


class Log:
    """A table's folder and its next commit."""

    def __init__(
        self, folder, schema, partition_by=(), configuration=None, features=(), mapping=None
    ):
        self.folder, self.schema, self.partition_by = Path(folder), schema, list(partition_by)
        self.mapping, self.version, self.engine = mapping, -1, "Apache-Spark/4.0.0 Delta-Lake/4.0.0"
        self.log.mkdir(parents=True)
        configuration = dict(configuration or {})
        if mapping:
            configuration["delta.columnMapping.mode"] = mapping
            features = (*features, "columnMapping")
            for i, f in enumerate(schema["fields"]):
                number(f, [10 * i])
        protocol = {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": list(features),
            "writerFeatures": list(features),
        }
        metadata = {
            "id": str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(schema),
        }
        metadata |= {
            "partitionColumns": self.partition_by,
            "configuration": configuration,
            "createdTime": 1,
        }
        self.commit({"protocol": protocol}, {"metaData": metadata})

    @property
    def log(self):
        return self.folder / "_delta_log"

    def commit(self, *actions):
        self.version += 1
        (self.log / f"{self.version:020}.json").write_text(
            "".join(json.dumps(a) + "\n" for a in actions)
        )

    def add(self, *files, **stats):
        info = {"commitInfo": {"timestamp": 1, "operation": "WRITE", "engineInfo": self.engine}}
        self.commit(info, *(self.written(f, **stats) for f in files))

    def remove(self, i):
        """Remove the i-th file that was added."""
        texts = (path.read_text() for path in sorted(self.log.glob("*.json")))
        added = [
            a["add"]["path"]
            for text in texts
            for a in map(json.loads, text.splitlines())
            if "add" in a
        ]
        self.commit({"remove": {"path": added[i], "deletionTimestamp": 1, "dataChange": True}})

    def written(self, f, **stats):
        """Write a file's rows, and return its action."""
        whole = (
            f.rows
            if isinstance(f.rows, pa.Table)
            else arrow_table(f.rows, arrow_schema(self.schema))
        )
        own = whole.drop_columns([c for c in self.partition_by if c in whole.schema.names])
        path = f.path or f"part-{uuid.uuid4()}.parquet"
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        physical = self.physical(own)
        pq.write_table(physical, self.folder / path)
        known = spark_stats(physical, **stats) if f.stats is ... else f.stats
        values = {self.name(c): f.partition.get(c) for c in self.partition_by}
        action = {
            "path": quoted(path),
            "partitionValues": values,
            "size": (self.folder / path).stat().st_size,
            "modificationTime": 1,
            "dataChange": True,
        }
        if known is not None:
            action["stats"] = known if isinstance(known, str) else json.dumps(known)
        if f.dead is not None:
            action["deletionVector"] = self.vector(f.dead)
        return {"add": action}

    def name(self, column):
        f = next(f for f in self.schema["fields"] if f["name"] == column)
        return f["metadata"].get("delta.columnMapping.physicalName", column)

    def physical(self, table):
        """Return the table with physical names."""
        if not self.mapping:
            return table
        fields = {f["name"]: f for f in self.schema["fields"]}
        kinds = [renamed(table.schema.field(n), fields[n]) for n in table.schema.names]
        arrays = [
            c.combine_chunks().cast(k.type)
            if not pa.types.is_struct(k.type)
            else rebuilt(c.combine_chunks(), k.type)
            for c, k in zip(table.columns, kinds, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=pa.schema(kinds))

    def vector(self, dead, stored="u"):
        data = struct.pack("<i", MAGIC) + BitMap64(dead).serialize()
        out = {"storageType": stored, "sizeInBytes": len(data), "cardinality": len(dead)}
        if stored == "i":
            return out | {"pathOrInlineDv": base85(data + b"\0" * (-len(data) % 4))}
        one = uuid.uuid4()
        (self.folder / f"deletion_vector_{one}.bin").write_bytes(
            b"\1" + struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
        )
        return out | {"pathOrInlineDv": base85(one.bytes), "offset": 1}


def number(f, ids):
    """Give a field, and the fields below it, physical names and ids."""
    ids[0] += 1
    f["metadata"] |= {
        "delta.columnMapping.id": ids[0],
        "delta.columnMapping.physicalName": f"col-{ids[0]}",
    }
    if isinstance(f["type"], dict) and f["type"]["type"] == "struct":
        for below in f["type"]["fields"]:
            number(below, ids)


def renamed(f, described):
    meta = described["metadata"]
    kind = f.type
    if pa.types.is_struct(kind):
        kind = pa.struct([renamed(kind.field(d["name"]), d) for d in described["type"]["fields"]])
    return pa.field(
        meta["delta.columnMapping.physicalName"],
        kind,
        metadata={"PARQUET:field_id": str(meta["delta.columnMapping.id"])},
    )


def rebuilt(values, kind):
    children = [
        rebuilt(values.field(i), f.type) if pa.types.is_struct(f.type) else values.field(i)
        for i, f in enumerate(kind)
    ]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=values.is_null())


def quoted(path):
    return path.replace("%", "%25").replace(" ", "%20")


def base85(data):
    out = ""
    for i in range(0, len(data), 4):
        value, word = int.from_bytes(data[i : i + 4], "big"), ""
        for _ in range(5):
            value, digit = divmod(value, 85)
            word = Z85[digit] + word
        out += word
    return out


def simple(folder, files=3, **options):
    log = Log(folder, delta_schema("x BIGINT, s STRING"), **options)
    for i in range(files):
        log.add(Written([{"x": 10 * i + k, "s": f"t{i}{k}"} for k in range(10)]))
    return log


def xs(table, where=None, **settings):
    return sorted(table.plan(where, **settings).to_arrow().column("x").to_pylist())


def rows_of(table):
    """Return rows as text, in which NaN equals itself."""
    return sorted(map(str, table.to_pylist()))
