"""Read the file actions of a Delta checkpoint as Arrow tables: from Parquet, JSON and sidecars.

Source: Delta's PROTOCOL.md, "Checkpoints", "Sidecar Files".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from skipstone.bindings.location import is_local
from skipstone.bindings.plans.work import Meter
from skipstone.bindings.progress import Track
from skipstone.bindings.tables.delta.actions import (
    COLUMNS,
    VECTOR,
    read_bytes,
    read_commits,
    settings,
)
from skipstone.bindings.tables.parquet.footer import ParsedFooter, read_footer
from skipstone.bindings.tables.parquet.thrift import BYTES
from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, bitmap, booleans_of, null_where, scalar_of
from skipstone.ir.errors import SourceError, clip, describe_error
from skipstone.kernels.run.pool import threads


def read_checkpoint(
    fs: pafs.FileSystem, log: str, parts: Sequence[str], partitions: Sequence[str], meter: Meter
) -> Iterator[pa.Table]:
    """Yield the adds of a checkpoint, one table for each of its files and sidecars.

    Args:
        fs: The file system of the log.
        log: The log's folder.
        parts: The checkpoint's files.
        partitions: Physical names of the partition columns.
        meter: Counts the files and the bytes that are requested from them.

    Returns:
        Tables with the columns COLUMNS, and `stats_parsed` if the file has it.

    Raises:
        SourceError: a file cannot be read or is not a checkpoint; the message names it.
    """
    with Track("checkpoint", len(parts), "files") as track:
        for part in parts:
            path = f"{log}/{part}"
            sidecars: list[str] = []
            if part.endswith(".json"):
                text = read_bytes(fs, path)
                meter.count("checkpoint files", 1, len(text))
                sidecars += _json_sidecars(text, path)
                adds, _ = read_commits([text], [path], partitions)
                yield adds.drop_columns(["order", "spark"])
            else:
                adds, found = _read_part(fs, path, partitions, meter)
                sidecars += found
                yield adds
            track.step()
            paths = dict.fromkeys(sidecar_path(s, log, path) for s in sidecars)
            track.grow(len(paths))
            for sidecar in paths:
                yield _read_part(fs, sidecar, partitions, meter)[0]
                track.step()


def sidecar_path(reference: str | None, log: str, path: str) -> str:
    """Return the path of a sidecar, which must be in the table's own `_delta_log/_sidecars`.

    Args:
        reference: The sidecar as the checkpoint names it: a file name or a URI, percent-encoded.
        log: The log's folder.
        path: The checkpoint, for errors.

    Raises:
        SourceError: the checkpoint names another folder, or no Parquet file.
    """
    folder, _, name = unquote(reference or "").rpartition("/")
    own = not folder or f"/{folder}".endswith("/_delta_log/_sidecars")
    if not own or not SIDECAR_NAME.fullmatch(name):
        raise SourceError(
            f"{path}: the checkpoint names the sidecar {clip(str(reference))!r}; "
            "expected the name of a Parquet file in _delta_log/_sidecars"
        )
    return f"{log}/_sidecars/{name}"


def checkpoint_settings(
    fs: pafs.FileSystem, log: str, parts: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Return the `metaData` and `protocol` actions of a checkpoint, by name.

    Raises:
        SourceError: a file cannot be read; the message names it.
    """
    found: dict[str, dict[str, Any]] = {}
    for part in parts:
        path = f"{log}/{part}"
        if part.endswith(".json"):
            found |= settings([read_bytes(fs, path)], [path])
            continue
        try:
            with fs.open_input_file(path) as source:
                file = pq.ParquetFile(source, pre_buffer=not is_local(fs))
                names = [n for n in ("metaData", "protocol") if n in file.schema_arrow.names]
                for column, name in zip(file.read(columns=names).columns, names, strict=True):
                    for one in pc.drop_null(column).to_pylist():
                        found[name] = one
        except (OSError, ValueError, pa.ArrowException) as e:
            raise SourceError(f"{path}: the checkpoint cannot be read ({describe_error(e)})") from e
    return found


def _json_sidecars(data: bytes, path: str) -> list[str]:
    try:
        actions: list[dict[str, Any]] = [json.loads(line) for line in data.splitlines()]
        found = [a["sidecar"]["path"] for a in actions if a.get("sidecar") is not None]
        if not all(isinstance(name, str) for name in found):
            raise ValueError("the path of a sidecar is not text")
        return found
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise SourceError(
            f"{path}: the checkpoint is not JSON of the Delta protocol ({describe_error(e)})"
        ) from e


def _read_part(
    fs: pafs.FileSystem, path: str, partitions: Sequence[str], meter: Meter
) -> tuple[pa.Table, list[str]]:
    try:
        with fs.open_input_file(path) as source:
            parsed, _ = read_footer(source)
            file = pq.ParquetFile(source, metadata=parsed.metadata, pre_buffer=not is_local(fs))
            top = _columns(file.schema_arrow, path)
            add = {f.name for f in top["add"]} if "add" in top else set()
            columns = [
                f"add.{name}"
                for name in (
                    "path", "size", "modificationTime", "deletionVector", "partitionValues",
                    "stats_parsed",
                )
                if name in add
            ]  # fmt: skip
            if "stats" in add and "stats_parsed" not in add:
                columns.append("add.stats")
            sidecar = ["sidecar.path"] if "sidecar" in top else []
            whole = file.read(columns=[*columns, *sidecar], use_threads=threads() > 1)
            meter.count("checkpoint files", 1, _requested_bytes(parsed, (*columns, *sidecar)))
            adds = _adds(whole, partitions, path) if columns else _empty(partitions)
            both = {"stats", "stats_parsed"} <= add and adds.num_rows
            if both and adds.column("stats_parsed").null_count:
                # Where the checkpoint has no parsed statistics of a file, use their JSON text.
                texts = _adds(file.read(columns=["add.path", "add.stats"]), (), path).column(
                    "stats"
                )
                adds = adds.set_column(
                    adds.schema.get_field_index("stats"),
                    "stats",
                    null_where(pc.is_valid(adds.column("stats_parsed")), texts),
                )
    except SourceError:
        raise
    except (OSError, ValueError, pa.ArrowException) as e:
        raise SourceError(f"{path}: the checkpoint cannot be read ({describe_error(e)})") from e
    if not sidecar:
        return adds, []
    return adds, pc.drop_null(pc.struct_field(whole.column("sidecar"), "path")).to_pylist()


def _columns(schema: pa.Schema, path: str) -> dict[str, pa.DataType]:
    """Return the types of a checkpoint's columns.

    Raises:
        SourceError: the file has none of a checkpoint's columns, or they have other types.
    """
    top = {f.name: f.type for f in schema}
    if "add" not in top and "sidecar" not in top:
        raise SourceError(
            f"{path}: the file has neither `add` nor `sidecar`; expected a Delta checkpoint"
        )
    for name, checks in FIELD_CHECKS.items():
        if name not in top:
            continue
        own = list(top[name]) if pa.types.is_struct(top[name]) else []
        kinds = {f.name: f.type for f in own}
        wrong = [n for n, fits in checks.items() if n in kinds and not fits(kinds[n])]
        twice = len(kinds) < len(own) or schema.names.count(name) > 1
        if "path" not in kinds or wrong or twice:
            what = "a column twice" if twice else ", ".join(wrong) or "no path"
            raise SourceError(
                f"{path}: `{name}` has {what}, or with another type; expected a Delta checkpoint"
            )
    return top


def _is_text(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type))


def _is_text_map(arrow_type: pa.DataType) -> bool:
    return (
        pa.types.is_map(arrow_type)
        and _is_text(arrow_type.key_type)
        and _is_text(arrow_type.item_type)
    )


SIDECAR_NAME: Final = re.compile(r"[^/\\\0]+\.parquet")
FIELD_CHECKS: Final[Mapping[str, Mapping[str, Callable[[pa.DataType], bool]]]] = MappingProxyType(
    {
        "add": {
            "path": _is_text,
            "size": pa.types.is_integer,
            "modificationTime": pa.types.is_integer,
            "stats": _is_text,
            "stats_parsed": pa.types.is_struct,
            "deletionVector": pa.types.is_struct,
            "partitionValues": _is_text_map,
        },
        "sidecar": {"path": _is_text},
    }
)


def _requested_bytes(parsed: ParsedFooter, columns: Sequence[str]) -> int:
    """Return the bytes of some columns in a file and of its footer.

    The sizes come from our own parser, because pyarrow crashes on the metadata of damaged chunks.
    """
    wanted, schema = tuple(f"{name}." for name in columns), parsed.head.metadata.schema
    at = [i for i in range(len(schema)) if f"{schema.column(i).path}.".startswith(wanted)]
    sizes = (parsed.chunk(g, i).get(BYTES, 0) for g in range(len(parsed.chunks)) for i in at)
    return len(parsed.data) + sum(size for size in sizes if isinstance(size, int))


def _empty(partitions: Sequence[str]) -> pa.Table:
    kinds = (
        pa.string(),
        pa.int64(),
        pa.int64(),
        pa.string(),
        VECTOR,
        pa.struct([(p, pa.string()) for p in partitions]),
    )
    return pa.table({name: pa.nulls(0, kind) for name, kind in zip(COLUMNS, kinds, strict=True)})


def _adds(whole: pa.Table, partitions: Sequence[str], path: str) -> pa.Table:
    """Return the adds among a checkpoint's rows, column by column."""
    parts = [
        _add_columns(rows, partitions)
        for chunk in whole.column("add").chunks
        for rows in _add_rows(chunk, path)
    ]
    return pa.concat_tables(parts) if parts else _empty(partitions)


def _add_rows(chunk: pa.StructArray, path: str) -> Iterator[pa.StructArray]:
    """Yield the rows of a chunk that are adds.

    Most checkpoints have all of them in one contiguous piece, which is not copied.
    """
    # Below a NULL `add`, `path` may still hold a text; `struct_field` makes it NULL.
    named = pc.is_valid(pc.struct_field(chunk, "path"))
    valid = np.flatnonzero(booleans_of(named))
    sized = chunk.type.get_field_index("size") >= 0
    if sized and pc.any(pc.and_not(pc.is_valid(pc.struct_field(chunk, "size")), named)).as_py():
        raise SourceError(f"{path}: the checkpoint has an add without a path")
    if not len(valid):
        return
    first, stop = int(valid[0]), int(valid[-1]) + 1
    yield (
        chunk.slice(first, stop - first)
        if stop - first == len(valid)
        else pc.take(chunk, arrow_of(valid))
    )


def _add_columns(rows: pa.StructArray, partitions: Sequence[str]) -> pa.Table:
    n = len(rows)
    have = {f.name for f in rows.type}
    out: dict[str, pa.Array] = {"path": pc.cast(rows.field("path"), pa.string())}
    for name, kind in (
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("stats", pa.string()),
    ):
        out[name] = pc.cast(rows.field(name), kind) if name in have else pa.nulls(n, kind)
    out["deletionVector"] = (
        _vector(rows.field("deletionVector")) if "deletionVector" in have else pa.nulls(n, VECTOR)
    )
    if partitions:
        if "partitionValues" not in have or rows.field("partitionValues").null_count:
            raise SourceError(
                "a checkpoint has files without partitionValues, in a partitioned table; "
                "pass version= to read an older version"
            )
        values = pc.cast(rows.field("partitionValues"), pa.map_(pa.string(), pa.string()))
        texts = [pc.map_lookup(values, scalar_of(p, pa.string()), "first") for p in partitions]
        out["partition"] = pa.StructArray.from_arrays(texts, list(partitions))
    else:
        out["partition"] = pa.Array.from_buffers(pa.struct([]), n, [None])
    if "stats_parsed" in have:
        out["stats_parsed"] = rows.field("stats_parsed")
    return pa.table(out)


def _vector(vectors: pa.StructArray) -> pa.StructArray:
    """Return deletion vectors as structs of the protocol's fields, in the protocol's order."""
    have = {f.name for f in vectors.type}
    arrays = [
        pc.cast(pc.struct_field(vectors, f.name), f.type)
        if f.name in have
        else pa.nulls(len(vectors), f.type)
        for f in VECTOR
    ]
    known = bitmap(booleans_of(pc.is_valid(vectors)))
    return pa.Array.from_buffers(VECTOR, len(vectors), [known], children=arrays)
