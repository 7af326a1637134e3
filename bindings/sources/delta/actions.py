"""The file actions of a Delta log as Arrow tables: from checkpoints' Parquet and from commits' JSON.

Both are read in columns: a Python object per file would take longer than all the rest of planning.
Statistics stay as they came, text or struct, until it is known which files live: those of removed
files may be of other types (kernel-rs#712).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.json as pj
import pyarrow.parquet as pq

from skipstone.bindings.sources.delta.segment import Commits
from skipstone.bindings.work import Meter
from skipstone.ir.errors import SourceError
from skipstone.kernels.pool import threads

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
        texts = list(readers.map(lambda c: _bytes(fs, f"{log}/{c.name}"), commits))
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
        raise SourceError(f"{where} has a path that is no text ({_first_line(e)})") from e
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


def _bytes(fs: pafs.FileSystem, path: str) -> bytes:
    try:
        with fs.open_input_stream(path) as f:
            data: bytes = f.read()
    except OSError as e:
        raise SourceError(f"{path}: the commit cannot be read ({_first_line(e)})") from e
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
                f"{names[0]}: the commit is no JSON of the Delta protocol ({_first_line(e)}); it may be cut short"
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
    for row, info in zip(rows, infos.take(pa.array(rows)).to_pylist(), strict=True):
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


def read_checkpoint(
    fs: pafs.FileSystem, log: str, parts: Sequence[str], partitions: Sequence[str], meter: Meter
) -> Iterator[pa.Table]:
    """The adds of a checkpoint, a table for each of its files and sidecars.

    Args:
        fs: Where the log is.
        log: Its folder.
        parts: The checkpoint's files.
        partitions: Physical names of the partition columns.
        meter: Counts the files, and the bytes of them that are asked for.

    Returns:
        Tables with COLUMNS, and `stats_parsed` if the file has it.

    Raises:
        SourceError: a file cannot be read, or is no checkpoint; it is named.
    """
    for part in parts:
        path = f"{log}/{part}"
        sidecars: list[str] = []
        if part.endswith(".json"):
            text = _bytes(fs, path)
            meter.count("checkpoint files", 1, len(text))
            sidecars += _json_sidecars(text, path)
            adds, _ = read_commits([text], [path], partitions)
            yield adds.drop_columns(["order", "spark"])
        else:
            adds, found = _read_part(fs, path, partitions, meter)
            sidecars += found
            yield adds
        for sidecar in dict.fromkeys(sidecars):
            name = sidecar if "/" in sidecar else f"{log}/_sidecars/{sidecar}"
            yield _read_part(fs, name, partitions, meter)[0]


def checkpoint_settings(
    fs: pafs.FileSystem, log: str, parts: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """The `metaData` and `protocol` of a checkpoint.

    Raises:
        SourceError: a file cannot be read; it is named.
    """
    found: dict[str, dict[str, Any]] = {}
    for part in parts:
        path = f"{log}/{part}"
        if part.endswith(".json"):
            found |= settings([_bytes(fs, path)], [path])
            continue
        try:
            with fs.open_input_file(path) as source:
                file = pq.ParquetFile(source, memory_map=True)
                names = [n for n in ("metaData", "protocol") if n in file.schema_arrow.names]
                for column, name in zip(file.read(columns=names).columns, names, strict=True):
                    for one in column.drop_null().to_pylist():
                        found[name] = one
        except (OSError, ValueError, pa.ArrowException) as e:
            raise SourceError(f"{path}: the checkpoint cannot be read ({_first_line(e)})") from e
    return found


def _json_sidecars(data: bytes, path: str) -> list[str]:
    try:
        actions: list[dict[str, Any]] = [json.loads(line) for line in data.splitlines()]
        return [str(a["sidecar"]["path"]) for a in actions if a.get("sidecar") is not None]
    except (ValueError, KeyError, TypeError, RecursionError) as e:
        raise SourceError(
            f"{path}: the checkpoint is no JSON of the Delta protocol ({type(e).__name__}: {e})"
        ) from e


def _read_part(
    fs: pafs.FileSystem, path: str, partitions: Sequence[str], meter: Meter
) -> tuple[pa.Table, list[str]]:
    try:
        with fs.open_input_file(path) as source:
            file = pq.ParquetFile(source, memory_map=True)
            top = {f.name: f.type for f in file.schema_arrow}
            if "add" not in top and "sidecar" not in top:
                raise SourceError(
                    f"{path}: the file has neither `add` nor `sidecar`; expected a Delta checkpoint"
                )
            add = {f.name for f in top["add"]} if "add" in top else set()
            columns = [
                f"add.{name}"
                for name in (
                    "path",
                    "size",
                    "modificationTime",
                    "deletionVector",
                    "partitionValues",
                    "stats_parsed",
                )
                if name in add
            ]
            if "stats" in add and "stats_parsed" not in add:
                columns.append("add.stats")
            sidecar = ["sidecar.path"] if "sidecar" in top else []
            whole = file.read(columns=[*columns, *sidecar], use_threads=threads() > 1)
            meter.count("checkpoint files", 1, _asked(file.metadata, (*columns, *sidecar)))
            adds = _adds(whole, partitions) if columns else _empty(partitions)
            if {"stats", "stats_parsed"} <= add and adds.column("stats_parsed").null_count:
                # Texts stand in where the checkpoint's writer had none parsed.
                texts = _adds(file.read(columns=["add.path", "add.stats"]), ()).column("stats")
                adds = adds.set_column(
                    adds.schema.get_field_index("stats"),
                    "stats",
                    pc.if_else(pc.is_null(adds.column("stats_parsed")), texts, None),
                )
    except (OSError, pa.ArrowException) as e:
        if isinstance(e, SourceError):
            raise
        raise SourceError(f"{path}: the checkpoint cannot be read ({_first_line(e)})") from e
    names = (
        pc.struct_field(whole.column("sidecar"), "path").drop_null().to_pylist() if sidecar else []
    )
    return adds, names


def _asked(metadata: pq.FileMetaData, columns: Sequence[str]) -> int:
    """Bytes of some columns in a file, and of its footer."""
    chunks = (
        metadata.row_group(g).column(c)
        for g in range(metadata.num_row_groups)
        for c in range(metadata.num_columns)
    )
    wanted = tuple(f"{name}." for name in columns)
    return int(
        metadata.serialized_size
        + sum(c.total_compressed_size for c in chunks if f"{c.path_in_schema}.".startswith(wanted))
    )


def _empty(partitions: Sequence[str]) -> pa.Table:
    kinds = (
        pa.string(),
        pa.int64(),
        pa.int64(),
        pa.string(),
        VECTOR,
        pa.struct([(p, pa.string()) for p in partitions]),
    )
    return pa.table({name: pa.array([], kind) for name, kind in zip(COLUMNS, kinds, strict=True)})


def _adds(whole: pa.Table, partitions: Sequence[str]) -> pa.Table:
    """The adds among a checkpoint's rows, column by column."""
    parts = [
        _add_columns(rows, partitions)
        for chunk in whole.column("add").chunks
        for rows in _there(chunk)
    ]
    return pa.concat_tables(parts) if parts else _empty(partitions)


def _there(chunk: pa.StructArray) -> Iterator[pa.StructArray]:
    """The rows of a chunk that are adds. Most checkpoints have them all in one piece, which is not copied."""
    # The path of a row without `add` may be a text nevertheless: one that stands below a null.
    live = np.flatnonzero(np.asarray(pc.is_valid(pc.struct_field(chunk, "path"))))
    if not len(live):
        return
    first, stop = int(live[0]), int(live[-1]) + 1
    yield (
        chunk.slice(first, stop - first)
        if stop - first == len(live)
        else chunk.take(pa.array(live))
    )


def _add_columns(rows: pa.StructArray, partitions: Sequence[str]) -> pa.Table:
    n = len(rows)
    have = {f.name for f in rows.type}
    out: dict[str, pa.Array] = {"path": rows.field("path").cast(pa.string())}
    for name, kind in (
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("stats", pa.string()),
    ):
        out[name] = rows.field(name).cast(kind) if name in have else pa.nulls(n, kind)
    out["deletionVector"] = (
        _vector(rows.field("deletionVector")) if "deletionVector" in have else pa.nulls(n, VECTOR)
    )
    texts: list[pa.Array] = []
    if partitions:
        if "partitionValues" not in have or rows.field("partitionValues").null_count:
            raise SourceError(
                "a checkpoint has files without partitionValues, in a partitioned table; an older version may be read by version="
            )
        values = rows.field("partitionValues").cast(pa.map_(pa.string(), pa.string()))
        texts = [pc.map_lookup(values, pa.scalar(p), "first") for p in partitions]
    out["partition"] = (
        pa.StructArray.from_arrays(texts, list(partitions))
        if partitions
        else pa.array([{}] * n, pa.struct([]))
    )
    if "stats_parsed" in have:
        out["stats_parsed"] = rows.field("stats_parsed")
    return pa.table(out)


def _vector(found: pa.StructArray) -> pa.StructArray:
    """A deletion vector's struct with the protocol's fields in their order."""
    have = {f.name for f in found.type}
    arrays = [
        pc.struct_field(found, f.name).cast(f.type)
        if f.name in have
        else pa.nulls(len(found), f.type)
        for f in VECTOR
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(VECTOR), mask=pc.is_null(found))


def _first_line(e: BaseException) -> str:
    return str(e).splitlines()[0] if str(e) else type(e).__name__
