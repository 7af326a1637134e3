"""Read the file actions of a Delta log's commits as Arrow tables; checkpoints.py reads checkpoints.

Both modules read whole columns: one Python object per file would take longer than all other
planning. Statistics stay text or structs until the live files are known, because the statistics of
removed files may have other types (kernel-rs#712).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.json as pj

from skipstone.bindings.plans.work import Meter
from skipstone.bindings.progress import Track
from skipstone.bindings.tables.delta.segment import Commits
from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, booleans_of, whole
from skipstone.ir.errors import SourceError, describe_error
from skipstone.kernels.run.pool import ContextPool

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
MAX_PARSED_BYTES: Final = (
    1 << 24
)  # bytes of JSON in one call of the parser, unless a commit is larger
MAX_CONCURRENT_READS: Final = 16  # commits fetched at once


def fetch(fs: pafs.FileSystem, log: str, commits: Sequence[Commits], meter: Meter) -> list[bytes]:
    """Fetch the texts of commits in parallel.

    Args:
        fs: The file system of the log.
        log: The log's folder.
        commits: The commits to fetch.
        meter: Counts the commits and their bytes.

    Returns:
        One text per commit, in the same order, as `read_bytes` returns it.

    Raises:
        SourceError: a commit cannot be read; the message names it.
    """
    with (
        Track("log", len(commits), "commits") as track,
        ContextPool(MAX_CONCURRENT_READS, "skipstone-log") as readers,
    ):
        found = readers.map(lambda c: read_bytes(fs, f"{log}/{c.name}"), commits)
        texts = list(track.each(found))
    meter.count("commits", len(texts), sum(map(len, texts)))
    return texts


def settings(texts: Sequence[bytes], names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the newest `metaData` and `protocol` actions of some commits.

    Args:
        texts: The commits, oldest first.
        names: Their names, for errors.

    Returns:
        Action name -> action. A name is absent if no commit holds that action.

    Raises:
        SourceError: an action is not JSON; the message names its commit.
    """
    found: dict[str, dict[str, Any]] = {}
    for text, name in zip(texts, names, strict=True):
        stop = 0
        for m in _SETTING_KEY.finditer(text):
            if m.start() < stop:
                continue
            start, stop = text.rfind(b"\n", 0, m.start()) + 1, text.find(b"\n", m.start())
            try:
                line = json.loads(text[start:stop])
            except (ValueError, RecursionError) as e:
                raise SourceError(
                    f"{name}: the commit is not JSON of the Delta protocol ({describe_error(e)}); "
                    "it may be cut short"
                ) from e
            found |= {
                key: line[key] for key in ("metaData", "protocol") if line.get(key) is not None
            }
    return found


_SETTING_KEY: Final = re.compile(rb'"(?:metaData|protocol)"\s*:')


def read_commits(
    texts: Sequence[bytes], names: Sequence[str], partitions: Sequence[str]
) -> tuple[pa.Table, pa.Table]:
    """Return the adds and the removes of commits as two tables.

    The column `order` numbers the actions of both tables: a later action has a greater number.

    Args:
        texts: The commits, oldest first.
        names: Their names, for errors.
        partitions: Physical names of the partition columns.

    Raises:
        SourceError: a commit is not JSON, or an action lacks a required field; the message names
            the commit.
    """
    schema = _schema(partitions)
    tables: list[pa.Table] = []
    # Small commits are parsed together, because a call costs more than a line.
    start = 0
    while start < len(texts):
        stop, size = start, 0
        while stop < len(texts) and (stop == start or size + len(texts[stop]) <= MAX_PARSED_BYTES):
            size += len(texts[stop])
            stop += 1
        tables += _parse_commits(texts[start:stop], names[start:stop], schema)
        start = stop
    if tables:
        actions = pa.concat_tables(tables)
    else:
        empty = pa.Table.from_batches([], schema)  # `empty_table` imports pandas
        actions = empty.append_column("spark", pa.nulls(0, pa.bool_()))
    actions = actions.append_column("order", arrow_of(np.arange(actions.num_rows)))
    return _actions(actions, "add", names), _actions(actions, "remove", names)


def _check_actions(rows: pa.StructArray, names: Sequence[str]) -> None:
    """Raise SourceError if an action lacks its path, its vector's location or partition values."""
    if len(names) > 1:
        where = f"the commits {names[0]} to {names[-1]}"
    elif names:
        where = f"the commit {names[0]}"
    else:
        where = "the log"
    paths, vectors = rows.field("path"), rows.field("deletionVector")
    try:
        paths.validate(full=True)
    except pa.ArrowInvalid as e:
        raise SourceError(f"{where} has a path that is not text ({describe_error(e)})") from e
    stored = pc.and_(
        pc.is_valid(pc.struct_field(vectors, "storageType")),
        pc.is_valid(pc.struct_field(vectors, "pathOrInlineDv")),
    )
    if paths.null_count or pc.any(pc.and_(pc.is_valid(vectors), pc.invert(stored))).as_py():
        raise SourceError(
            f"{where} has an action without a path, or with a deletion vector without storageType "
            "or pathOrInlineDv"
        )
    if (
        "partitionValues" in {f.name for f in rows.type}
        and rows.type.field("partitionValues").type.num_fields
        and rows.field("partitionValues").null_count
    ):
        raise SourceError(f"{where} has a file without partitionValues, in a partitioned table")


def _actions(table: pa.Table, kind: str, names: Sequence[str]) -> pa.Table:
    """Return the actions of one kind, "add" or "remove", with a column for each of their fields."""
    column = table.column(kind)
    present = pc.is_valid(column)
    rows = whole(pc.filter(column, present))
    if isinstance(rows, pa.ChunkedArray):
        rows = pa.concat_arrays(rows.chunks)
    _check_actions(rows, names)
    arrays = {
        "partition" if f.name == "partitionValues" else f.name: rows.field(f.name)
        for f in column.type
    }
    return pa.table(
        {**arrays, **{name: pc.filter(table.column(name), present) for name in ("spark", "order")}}
    )


def read_bytes(fs: pafs.FileSystem, path: str) -> bytes:
    """Read the lines of a commit or of a JSON checkpoint: one object in each, and no blank lines.

    Raises:
        SourceError: the file cannot be read, or a line is not a JSON object.
    """
    try:
        # A stream of a store is read by requests of 256 KiB, one after another.
        with fs.open_input_file(path) as f:
            data: bytes = f.read()
    except OSError as e:
        raise SourceError(f"{path}: the commit cannot be read ({describe_error(e)})") from e
    return _one_object_per_line(data, path)


def _one_object_per_line(data: bytes, name: str) -> bytes:
    """Return a commit's text with one object in each line and no blank lines.

    Arrow's parser skips blank lines, and crashes on a block that begins with `null` (pyarrow 26).
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
            f"{name}: the commit is not JSON of the Delta protocol ({what}); it may be cut short"
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


def _parse_commits(
    texts: Sequence[bytes], names: Sequence[str], schema: pa.Schema
) -> list[pa.Table]:
    data = b"".join(texts)
    if not data.strip():
        return []
    try:
        table = parse_lines(data, schema)
        spark = computed_by_spark(
            table.column("commitInfo"),
            [t.count(b"\n") for t in texts],
            [not n.endswith(".compacted.json") for n in names],
        )
        if spark is not None:
            return [table.append_column("spark", spark)]
        if len(texts) == 1:
            raise SourceError(
                f"{names[0]}: the commit has {table.num_rows} actions in "
                f"{texts[0].count(bytes([10]))} lines; expected one in each"
            )
    except pa.ArrowInvalid as e:
        if len(texts) == 1:
            raise SourceError(
                f"{names[0]}: the commit is not JSON of the Delta protocol ({describe_error(e)}); "
                "it may be cut short"
            ) from e
    return [
        t
        for text, name in zip(texts, names, strict=True)
        for t in _parse_commits([text], [name], schema)
    ]


def computed_by_spark(
    infos: pa.ChunkedArray, lines: Sequence[int], single: Sequence[bool]
) -> pa.Array | None:
    """Return which actions belong to a commit whose statistics Delta's Spark writer computed.

    Spark's maximum of floats is NaN if the column holds one; other writers leave NaN out. Clones
    and conversions copy the statistics of other writers.

    Args:
        infos: The `commitInfo` column: one value per action, valid where the action is a
            commitInfo.
        lines: The number of lines of each commit.
        single: True if each file is a single commit, not a compaction of several.

    Returns:
        One boolean per action, or None if there are not as many actions as lines.
    """
    if len(infos) != sum(lines):
        return None
    rows = np.flatnonzero(booleans_of(pc.is_valid(infos)))
    commits = np.repeat(np.arange(len(lines)), lines)
    computed = np.zeros(len(lines), np.bool_)
    try:
        commit_infos = pc.take(infos, arrow_of(rows)).to_pylist()
    except UnicodeDecodeError:  # the writer's name is not text, so the writer is unknown
        return arrow_of(np.zeros(len(commits), np.bool_))
    for row, info in zip(rows, commit_infos, strict=True):
        engine, operation = info["engineInfo"] or "", (info["operation"] or "").upper()
        computed[commits[row]] = (
            re.match(r"Apache-Spark/.* Delta-Lake/", engine) is not None
            and operation in COMPUTING_OPERATIONS
        )
    one_info = np.bincount(commits[rows], minlength=len(lines)) == 1
    computed &= np.asarray(single, np.bool_) & one_info
    return arrow_of(computed[commits])


# Operations that compute the statistics of the files that they add.
COMPUTING_OPERATIONS: Final = frozenset(
    {
        "WRITE", "STREAMING UPDATE", "MERGE", "UPDATE", "DELETE", "OPTIMIZE",
        "CREATE TABLE AS SELECT", "REPLACE TABLE AS SELECT",
    }
    | {"CREATE OR REPLACE TABLE AS SELECT"}
)  # fmt: skip


def parse_lines(data: bytes, schema: pa.Schema) -> pa.Table:
    """Parse JSON objects, one in each line, into a table; fields that the schema lacks are ignored.

    Raises:
        ArrowInvalid: a line is not a JSON object, or a value has another type.
    """
    parsing = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    for size in (1 << 22, len(data) + 1):  # Arrow refuses a line that is longer than a block
        try:
            return pj.read_json(
                pa.BufferReader(data), pj.ReadOptions(use_threads=True, block_size=size), parsing
            ).select(schema.names)
        except pa.ArrowInvalid:
            if size > len(data):
                raise
    raise AssertionError  # pragma: no cover
