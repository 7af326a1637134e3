"""The file actions of a Delta log as Arrow tables, from commits' JSON; of checkpoints, see checkpoints.py.

Both are read in columns: a Python object per file would take longer than all the rest of planning.
Statistics stay as they came, text or struct, until it is known which files live: those of removed
files may be of other types (kernel-rs#712).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.json as pj

from skipstone.bindings.plans.work import Meter
from skipstone.bindings.tables.delta.segment import Commits
from skipstone.ir.errors import SourceError

VECTOR: Final = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
COLUMNS: Final = ("path", "size", "modificationTime", "stats", "deletionVector", "partition")
BLOCK: Final = 1 << 24  # bytes of JSON that one thread parses
AHEAD: Final = 16  # commits that are fetched at once


def fetch(fs: pafs.FileSystem, log: str, commits: Sequence[Commits], meter: Meter) -> list[bytes]:
    """The texts of commits, which are counted.

    Raises:
        SourceError: one cannot be read; it is named.
    """
    with ThreadPoolExecutor(AHEAD, "skipstone-log") as readers:
        texts = list(readers.map(lambda c: read_bytes(fs, f"{log}/{c.name}"), commits))
    meter.count("commits", len(texts), sum(map(len, texts)))
    return texts


def settings(texts: Sequence[bytes], names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The newest `metaData` and `protocol` of some commits, oldest first; those that none of them has are absent.

    Raises:
        SourceError: one is no JSON; its commit is named.
    """
    found: dict[str, dict[str, Any]] = {}
    for text, name in zip(texts, names, strict=True):
        stop = 0
        for m in _SETTING.finditer(text):
            if m.start() < stop:
                continue
            start, stop = text.rfind(b"\n", 0, m.start()) + 1, text.find(b"\n", m.start())
            try:
                line = json.loads(text[start:stop])
            except (ValueError, RecursionError) as e:
                raise SourceError(
                    f"{name}: the commit is no JSON of the Delta protocol ({e}); it may be cut short"
                ) from e
            found |= {
                key: line[key] for key in ("metaData", "protocol") if line.get(key) is not None
            }
    return found


_SETTING: Final = re.compile(rb'"(?:metaData|protocol)"\s*:')


def read_commits(
    texts: Sequence[bytes], names: Sequence[str], partitions: Sequence[str]
) -> tuple[pa.Table, pa.Table]:
    """The adds and removes of commits, with the place of each in `order`: what comes later has a greater one.

    Args:
        texts: The commits, oldest first.
        names: What to call them in errors.
        partitions: Physical names of the partition columns.

    Raises:
        SourceError: a commit is no JSON; it is named.
    """
    schema = _schema(partitions)
    tables: list[pa.Table] = []
    # Small commits are parsed together, since each call costs more than a line.
    start = 0
    while start < len(texts):
        stop, size = start, 0
        while stop < len(texts) and (stop == start or size + len(texts[stop]) <= BLOCK):
            size += len(texts[stop])
            stop += 1
        tables += _parsed(texts[start:stop], names[start:stop], schema)
        start = stop
    whole = (
        pa.concat_tables(tables)
        if tables
        else schema.empty_table().append_column("spark", pa.array([], pa.bool_()))
    )
    whole = whole.append_column("order", pa.array(np.arange(whole.num_rows)))
    return _side(whole, "add", names), _side(whole, "remove", names)


def _whole(rows: pa.StructArray, names: Sequence[str]) -> None:
    """Refuse actions that lack what makes them one file's."""
    where = (
        f"the commits {names[0]} to {names[-1]}"
        if len(names) > 1
        else f"the commit {names[0]}"
        if names
        else "the log"
    )
    paths, vectors = rows.field("path"), rows.field("deletionVector")
    try:
        paths.validate(full=True)
    except pa.ArrowInvalid as e:
        raise SourceError(f"{where} has a path that is no text ({first_line(e)})") from e
    stored = pc.and_(
        pc.is_valid(pc.struct_field(vectors, "storageType")),
        pc.is_valid(pc.struct_field(vectors, "pathOrInlineDv")),
    )
    if paths.null_count or pc.any(pc.and_(pc.is_valid(vectors), pc.invert(stored))).as_py():
        raise SourceError(
            f"{where} has an action without a path, or with a deletion vector without storageType or pathOrInlineDv"
        )
    if (
        "partitionValues" in {f.name for f in rows.type}
        and rows.type.field("partitionValues").type.num_fields
        and rows.field("partitionValues").null_count
    ):
        raise SourceError(f"{where} has a file without partitionValues, in a partitioned table")


def _side(whole: pa.Table, side: str, names: Sequence[str]) -> pa.Table:
    column = whole.column(side)
    there = pc.is_valid(column)
    rows = column.filter(there).combine_chunks()
    rows = (
        rows
        if isinstance(rows, pa.StructArray)
        else pa.concat_arrays(rows.chunks)
        if rows.num_chunks
        else pa.array([], column.type)
    )
    _whole(rows, names)
    arrays = {
        "partition" if f.name == "partitionValues" else f.name: rows.field(f.name)
        for f in column.type
    }
    return pa.table(
        {**arrays, **{name: whole.column(name).filter(there) for name in ("spark", "order")}}
    )


def read_bytes(fs: pafs.FileSystem, path: str) -> bytes:
    """Read the lines of a commit, or of a checkpoint in JSON.

    Raises:
        SourceError: it cannot be read, or is no JSON.
    """
    try:
        with fs.open_input_stream(path) as f:
            data: bytes = f.read()
    except OSError as e:
        raise SourceError(f"{path}: the commit cannot be read ({first_line(e)})") from e
    return _clean(data, path)


def _clean(data: bytes, name: str) -> bytes:
    """The lines of a commit, an object each.

    Arrow's parser passes over blank lines, and dies of a block that begins with `null` (pyarrow 26), so neither gets there.
    """
    data = data.removeprefix(b"\xef\xbb\xbf")
    data = data if data.endswith(b"\n") else data + b"\n"
    if data.startswith(b"{") and data.count(b"\n{") + 1 == data.count(b"\n"):
        return data
    lines = [line.strip() for line in data.splitlines() if line.strip()]
    bad = next((line for line in lines if not line.startswith(b"{")), None)
    if bad is not None or not lines:
        what = "it is empty" if bad is None else f"a line begins with {bad[:20]!r}"
        raise SourceError(
            f"{name}: the commit is no JSON of the Delta protocol ({what}); it may be cut short"
        )
    return b"\n".join(lines) + b"\n"


def _schema(partitions: Sequence[str]) -> pa.Schema:
    values = pa.struct([(name, pa.string()) for name in partitions])
    add: list[tuple[str, pa.DataType]] = [
        ("path", pa.string()),
        ("partitionValues", values),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
    ]
    add += [("stats", pa.string()), ("deletionVector", VECTOR)]
    remove = pa.struct([("path", pa.string()), ("deletionVector", VECTOR)])
    return pa.schema(
        [
            ("add", pa.struct(add)),
            ("remove", remove),
            ("commitInfo", pa.struct([("engineInfo", pa.string()), ("operation", pa.string())])),
        ]
    )


def _parsed(texts: Sequence[bytes], names: Sequence[str], schema: pa.Schema) -> list[pa.Table]:
    data = b"".join(texts)
    if not data.strip():
        return []
    try:
        table = parse_lines(data, schema)
        spark = by_spark(
            table.column("commitInfo"),
            [t.count(b"\n") for t in texts],
            [not n.endswith(".compacted.json") for n in names],
        )
        if spark is not None:
            return [table.append_column("spark", spark)]
        if len(texts) == 1:
            raise SourceError(
                f"{names[0]}: the commit has {table.num_rows} actions in {texts[0].count(bytes([10]))} lines; expected one in each"
            )
    except pa.ArrowInvalid as e:
        if len(texts) == 1:
            raise SourceError(
                f"{names[0]}: the commit is no JSON of the Delta protocol ({first_line(e)}); it may be cut short"
            ) from e
    return [
        t for text, name in zip(texts, names, strict=True) for t in _parsed([text], [name], schema)
    ]


def by_spark(
    infos: pa.ChunkedArray, lines: Sequence[int], single: Sequence[bool]
) -> pa.Array | None:
    """Whether each action's commit has statistics that Delta's Spark writer computed; None: there are not as many as lines.

    Its maximum of floats counts NaN as the greatest; others leave NaN out. Cloned and converted files have the statistics of others.

    Args:
        infos: The `commitInfo` of each action that is one.
        lines: How many actions each commit has.
        single: Whether it is one commit, and not a compaction of several.
    """
    if len(infos) != sum(lines):
        return None
    rows = np.flatnonzero(np.asarray(pc.is_valid(infos)))
    commits = np.repeat(np.arange(len(lines)), lines)
    known = np.zeros(len(lines), np.bool_)
    try:
        told = infos.take(pa.array(rows)).to_pylist()
    except UnicodeDecodeError:  # so nobody knows who wrote them
        return pa.array(np.zeros(len(commits), np.bool_))
    for row, info in zip(rows, told, strict=True):
        engine, operation = info["engineInfo"] or "", (info["operation"] or "").upper()
        known[commits[row]] = (
            re.match(r"Apache-Spark/.* Delta-Lake/", engine) is not None and operation in COMPUTED
        )
    known &= np.asarray(single, np.bool_) & (np.bincount(commits[rows], minlength=len(lines)) == 1)
    return pa.array(known[commits])


# Operations that compute the statistics of what they add.
COMPUTED: Final = frozenset(
    {
        "WRITE",
        "STREAMING UPDATE",
        "MERGE",
        "UPDATE",
        "DELETE",
        "OPTIMIZE",
        "CREATE TABLE AS SELECT",
        "REPLACE TABLE AS SELECT",
    }
    | {"CREATE OR REPLACE TABLE AS SELECT"}
)


def parse_lines(data: bytes, schema: pa.Schema) -> pa.Table:
    """JSON objects, a line each, as a table of these columns; fields that the schema lacks are passed over.

    Raises:
        ArrowInvalid: a line is no JSON object, or a value is of another type.
    """
    parsing = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    for size in (1 << 22, len(data) + 1):  # a line longer than a block is refused
        try:
            return pj.read_json(
                pa.BufferReader(data), pj.ReadOptions(use_threads=True, block_size=size), parsing
            ).select(schema.names)
        except pa.ArrowInvalid:
            if size > len(data):
                raise
    raise AssertionError  # pragma: no cover


def first_line(e: BaseException) -> str:
    """Return what an error says, on one line."""
    return str(e).splitlines()[0] if str(e) else type(e).__name__
