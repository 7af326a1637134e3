"""Split a plan into files that Spark's own Parquet reader reads correctly, and the rest."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from skipstone.bindings.spark.reading.paths import SCHEMES, spark_path, why_unlisted
from skipstone.bindings.spark.session.types import carried_type
from skipstone.bindings.tables.char_columns import padded
from skipstone.bindings.tables.delta.table import DeltaTable
from skipstone.bindings.tables.iceberg.fields import name_mapping
from skipstone.bindings.tables.iceberg.files import IcebergFiles
from skipstone.bindings.tables.iceberg.manifest import require_parquet
from skipstone.bindings.tables.iceberg.partition import partition_of
from skipstone.bindings.tables.parquet.declared_types import FIELD, meaning_of, noted_paths
from skipstone.bindings.tables.parquet.file_schemas import FileSchema
from skipstone.bindings.tables.parquet.table import ParquetTable
from skipstone.bindings.tables.partition_values import partition_values
from skipstone.bindings.tables.partitions import HIVE_NULL, Texts, unescaped
from skipstone.ir import compute as pc
from skipstone.ir.node import Path, lowered

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Plan

# Combinations of partition values, each of which becomes a scan; more make planning slow.
MAX_PARTITIONS: Final = 64
PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class NativeScan:
    """Files that Spark reads in one scan.

    Attributes:
        paths: The files, as Spark names them.
        base: Folders `key=value` below it are columns; None if folders are not columns.
        constants: Columns with one value in all rows, by name.
    """

    paths: list[str]
    base: str | None = None
    constants: Mapping[str, pa.Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NativeSplit:
    """The two ways in which the files of a plan are read.

    Attributes:
        scans: Files that Spark reads.
        rest: Containers that Spark would read incorrectly.
        why: The feature that keeps Spark from reading the rest; "" if there is none.
    """

    scans: list[NativeScan]
    rest: list[int]
    why: str = ""


def split(plan: Plan, columns: Sequence[str], case_sensitive: bool) -> NativeSplit:
    """Return which files of a plan Spark can read, and the feature that forbids the others.

    Args:
        plan: What to read.
        columns: The columns that are needed, including those of the condition.
        case_sensitive: True if Spark's session distinguishes names by case.
    """
    kept = plan.kept.tolist()
    table = plan.table
    match table:
        case ParquetTable():
            return _parquet(table, kept, columns, case_sensitive)
        case DeltaTable():
            return _delta(table, plan, kept, columns)
        case IcebergFiles():
            return _iceberg(table, kept, columns)
    return NativeSplit([], kept, f"a table of the kind {type(table).__name__}")


def _parquet(
    table: ParquetTable, kept: list[int], columns: Sequence[str], case_sensitive: bool
) -> NativeSplit:
    files = np.unique(table.groups.file[kept])
    why = _read_differently(
        table,
        set(files.tolist()),
        [c for c in columns if c not in table.partition_columns],
        case_sensitive,
    )
    scheme = SCHEMES.get(table.filesystem.type_name)
    if scheme is None:
        why = why or (
            f"the file system {table.filesystem.type_name!r}, whose files Skipstone cannot name "
            "for Spark"
        )
    if why:
        return NativeSplit([], kept, why)
    paths = table.groups.files.paths.take(pa.array(files)).to_pylist()
    if why := next(filter(None, map(why_unlisted, paths)), ""):
        return NativeSplit([], kept, why)
    bases: set[str | None] = {None}
    if table.partition_columns:
        folders = [
            table.groups.files.folders[i] for i in set(table.groups.files.folder[files].tolist())
        ]
        bases = {_base(path, texts) for path, texts in folders}
        if len(bases) > 1 or None in bases:
            return NativeSplit([], kept, "partition folders below several base folders")
        if any(map(_has_escaped_unicode, folders)):
            why = (
                "percent signs in a folder's name that encode non-ASCII characters, "
                "which Spark decodes byte by byte"
            )
            return NativeSplit([], kept, why)
    base = next(iter(bases))
    folder = None if base is None else spark_path(base, scheme or "", glob=False)
    return NativeSplit([NativeScan([spark_path(p, scheme or "") for p in paths], folder)], [])


def _read_differently(
    table: ParquetTable, files: set[int], columns: Sequence[str], case_sensitive: bool
) -> str:
    """Return why Spark would read a column of some files differently from the table.

    The text is "" if Spark reads all columns as the table does.
    """
    schemas: list[FileSchema] = []
    for part in table.groups.parts:
        used = {
            int(number)
            for file, number in zip(part.files.tolist(), part.schema_number.tolist(), strict=True)
            if file in files and number >= 0
        }
        schemas += [part.schemas[i] for i in sorted(used)]
    for name in columns:
        expected = carried_type(table.schema.field(name).type)
        for schema in schemas:
            matches = [f for f in schema.schema if f.name == name] or [
                f for f in schema.schema if f.name.lower() == name.lower()
            ]
            if not matches:
                continue
            if _declared_types(matches[0]) != _declared_types(table.schema.field(name)):
                return (
                    f"column {name!r}, which {schema.example} declares with another type for "
                    "Spark than other files"
                )
            if FIELD in (matches[0].metadata or {}) and not case_sensitive:
                continue
            if isinstance(matches[0].type, pa.BaseExtensionType):
                return f"the extension type of column {name!r}"
            if carried_type(matches[0].type) != expected or expected is None:
                return (
                    f"column {name!r}, which is {matches[0].type} in {schema.example} and "
                    f"{table.schema.field(name).type} in the table"
                )
            if case_sensitive and matches[0].name != name:
                return f"column {name!r}, which {schema.example} spells {matches[0].name!r}"
    return ""


def _declared_types(field: pa.Field) -> list[tuple[Path, str]]:
    """Return the types that Spark gives a column and its struct fields, beyond Arrow's types."""
    noted = noted_paths([field])
    return [(lowered(path), meaning_of(f)) for path, f in noted.items()]


def _base(folder: str, texts: Texts) -> str | None:
    """Return the folder above the outermost partition folder."""
    remaining = len(texts)
    parts = folder.rstrip("/").split("/")
    while remaining and parts:
        if "=" not in parts.pop():
            return None
        remaining -= 1
    return "/".join(parts) or "/"


def _has_escaped_unicode(folder: tuple[str, Texts]) -> bool:
    """Return True if Spark decodes a folder's name, byte by byte, to a different value."""
    return any(
        text is not None and text != HIVE_NULL and "%" in text and not unescaped(text).isascii()
        for text in folder[1].values()
    )


def _delta_problem(path: str, has_deletes: bool, unreadable: bool, is_uri: bool) -> str:
    """Return why Spark's own reader cannot read a file of a Delta table; "" if it can."""
    if has_deletes:
        return "deletion vectors"
    if unreadable:
        return "a partition value that cannot be read"
    if problem := why_unlisted(path):
        return problem
    return "an absolute path that names no storage" if is_uri and path.startswith("/") else ""


def _delta(table: DeltaTable, plan: Plan, kept: list[int], columns: Sequence[str]) -> NativeSplit:
    if why := _delta_feature(table, columns):
        return NativeSplit([], kept, why)
    is_uri = "://" in table.path
    prefix = "" if is_uri else SCHEMES.get(table.snapshot.fs.type_name)
    if prefix is None:
        return NativeSplit(
            [],
            kept,
            f"the storage of {table.redacted_path}, whose files Skipstone cannot name for Spark",
        )
    root = table.path.rstrip("/") if is_uri else table.snapshot.root
    files = table.files.take(pa.array(kept, pa.int64()))
    has_deletes = np.asarray(pc.is_valid(files.column("deletionVector")))
    paths = [
        p if p.startswith(("/", "file:")) or "://" in p else f"{root}/{p}"
        for p in files.column("path").to_pylist()
    ]
    texts = {
        n: pc.struct_field(files.column("partition"), table.snapshot.fields.partitions[n])
        for n in table.partition_columns
        if n in columns
    }
    values = {
        n: partition_values(t, table.schema.field(n).type, plan.timezone) for n, t in texts.items()
    }
    unreadable = np.zeros(len(kept), np.bool_)
    for value, empty in values.values():
        unreadable |= np.asarray(pc.and_(pc.is_null(value), pc.invert(empty)))
    partitions = list(zip(*(t.to_pylist() for t in texts.values()), strict=True))
    rest: list[int] = []
    why = ""
    groups: dict[Hashable, list[int]] = {}
    for i, path in enumerate(paths):
        if problem := _delta_problem(path, has_deletes[i], unreadable[i], is_uri):
            rest.append(kept[i])
            why = problem
        else:
            groups.setdefault(partitions[i] if partitions else (), []).append(i)
    if len(groups) > MAX_PARTITIONS:
        return _too_many(kept, groups)
    scans = [
        NativeScan(
            [spark_path(paths[i], prefix) for i in at],
            constants={
                n: padded(value.slice(at[0], 1), table.schema.field(n))[0]
                for n, (value, _) in values.items()
            },
        )
        for at in groups.values()
    ]
    return NativeSplit(scans, rest, why)


def _too_many(kept: list[int], groups: Mapping[Hashable, Sequence[Any]]) -> NativeSplit:
    """Return a split without native scans, because there are too many partitions."""
    return NativeSplit(
        [],
        kept,
        f"{len(groups)} combinations of partition values; Spark reads at most {MAX_PARTITIONS}",
    )


def _delta_feature(table: DeltaTable, columns: Sequence[str]) -> str:
    """Return the feature of a Delta table that forbids Spark's reader; "" if there is none."""
    if table.column_mapping_mode != "none":
        return f"column mapping by {table.column_mapping_mode}"
    for f in table.snapshot.fields.described:
        if f["name"] not in columns or f["name"] in table.partition_columns:
            continue
        if (f.get("metadata") or {}).get("delta.typeChanges"):
            return f"type widening of column {f['name']!r}"
        if f["type"] in ("void", "variant"):
            return f"column {f['name']!r}, of type {f['type']}"
    return ""


def _iceberg(files: IcebergFiles, kept: list[int], columns: Sequence[str]) -> NativeSplit:
    if why := _iceberg_feature(files, columns):
        return NativeSplit([], kept, why)
    rest: list[int] = []
    groups: dict[Hashable, list[str]] = {}
    constants: dict[Hashable, dict[str, pa.Scalar]] = {}
    for i in kept:
        manifest, row = files.at(i)
        path, kind = manifest.paths[row].as_py(), manifest.formats[row].as_py()
        ((_, deletes),) = files.deletes.of_files(manifest, [row])
        # A file may lack the columns of its partition; their values are those of the partition.
        spec = files.table.specs[manifest.spec]
        values = dict(partition_of(spec, manifest, row, set(columns)))
        require_parquet(path, kind)
        problem = "deletes" if deletes else why_unlisted(path)
        if not problem and any(isinstance(v, str) for v in values.values()):
            problem = "a partition value that cannot be read"
        if problem:
            rest.append(i)
            why = problem
            continue
        key = tuple((name, str(v)) for name, v in sorted(values.items()))
        constants[key] = {name: v for name, v in values.items() if not isinstance(v, str)}
        groups.setdefault(key, []).append(spark_path(path))
    if len(groups) > MAX_PARTITIONS:
        return _too_many(kept, groups)
    return NativeSplit(
        [NativeScan(paths, constants=constants[key]) for key, paths in groups.items()], rest, why
    )


def _iceberg_feature(files: IcebergFiles, columns: Sequence[str]) -> str:
    """Return the feature of an Iceberg table that forbids Spark's reader; "" if there is none.

    Spark's reader finds columns by name and knows no default values.
    """
    fields = files.table.fields
    schemas = {str(s.as_struct()) for s in (fields.iceberg, *fields.others.values())}
    if len(schemas) > 1:
        return "schema evolution: files have several schemas"
    if name_mapping(files.table.source) is not None:
        return "a name mapping, which gives ids to the columns of files without ids"
    for f in fields.iceberg.fields:
        if f.name in columns and (not _plain(f) or f.initial_default is not None):
            return f"column {f.name!r}, whose name, type or default files store in another way"
    return ""


def _plain(f: Any) -> bool:
    """Return True if files store a field under its own name and type."""
    if not PLAIN_NAME.fullmatch(f.name) or type(f.field_type).__name__ in (
        "UUIDType",
        "FixedType",
        "UnknownType",
        "TimeType",
    ):
        return False
    children = getattr(f.field_type, "fields", ())
    return all(
        _plain(child) for child in children if type(f.field_type).__name__ == "StructType"
    ) and (
        type(f.field_type).__name__ not in ("ListType", "MapType")
        or all(_plain(child) for child in children)
    )
