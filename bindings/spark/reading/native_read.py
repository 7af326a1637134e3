"""Reading what a plan kept by Spark's own Parquet reader, where that gives the right rows; else, the feature that forbids it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skipstone.bindings.spark.session.session import functions_of, is_connect, quiet
from skipstone.bindings.spark.session.types import carried, carried_type, spark_schema, spark_type
from skipstone.bindings.tables.delta.columns import partition_values
from skipstone.bindings.tables.delta.table import DeltaTable
from skipstone.bindings.tables.files import is_hidden
from skipstone.bindings.tables.iceberg.files import IcebergFiles
from skipstone.bindings.tables.iceberg.read import partition_of
from skipstone.bindings.tables.parquet.declared_types import FIELD, meaning_of, noted_paths
from skipstone.bindings.tables.parquet.file_schemas import FileSchema
from skipstone.bindings.tables.parquet.table import ParquetTable
from skipstone.bindings.tables.partitions import HIVE_NULL, Texts, unescaped
from skipstone.ir.node import Op, Path, columns_of, quoted_name, quoted_path

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from skipstone.bindings.plans.plan import Plan

SCHEMES: Final = {"local": "file://", "s3": "s3a://", "gcs": "gs://"}
THRESHOLD: Final = "spark.sql.sources.parallelPartitionDiscovery.threshold"
MOST_PARTITIONS: Final = (
    64  # combinations of partition values that are scans of their own; more make planning slow
)
HIDDEN: Final = "a file whose name begins with '_' or '.', which Spark passes over"
COLON: Final = "a colon in a file's path, which Hadoop takes for a scheme"
SAFE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
Notes = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Scan:
    """Files that Spark reads as one.

    Attributes:
        paths: Where they are, as Spark names them.
        base: Below it folders `key=value` are columns; None: they are not.
        constants: Columns that are the same in all rows, by name.
    """

    paths: list[str]
    base: str | None = None
    constants: Mapping[str, pa.Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Split:
    """How a plan is read.

    Attributes:
        scans: By Spark itself.
        others: Containers that Spark cannot read right.
        why: What forbids it, of them; "": nothing does.
    """

    scans: list[Scan]
    others: list[int]
    why: str = ""


def split(plan: Plan, columns: Sequence[str], case_sensitive: bool) -> Split:
    """Which files of a plan Spark can read by itself, and what forbids it for the others.

    Args:
        plan: What to read.
        columns: Those that are needed, the condition's included.
        case_sensitive: Whether Spark's session tells names by their case.
    """
    kept = plan.kept.tolist()
    table = plan.table
    match table:
        case ParquetTable():
            found = _parquet(table, kept, columns, case_sensitive)
        case DeltaTable():
            found = _delta(table, plan, kept, columns)
        case IcebergFiles():
            found = _iceberg(table, kept, columns)
        case _:
            found = Split([], kept, f"a table of the kind {type(table).__name__}")
    return found


# Parquet files, in folders or not.


def _parquet(
    table: ParquetTable, kept: list[int], columns: Sequence[str], case_sensitive: bool
) -> Split:
    files = np.unique(table.groups.file[kept])
    why = _foreign(
        table,
        set(files.tolist()),
        [c for c in columns if c not in table.partition_columns],
        case_sensitive,
    )
    scheme = SCHEMES.get(table.filesystem.type_name)
    if scheme is None:
        why = (
            why
            or f"the file system {table.filesystem.type_name!r}, of which it is not known how Spark names its files"
        )
    if why:
        return Split([], kept, why)
    paths = table.groups.files.paths.take(pa.array(files)).to_pylist()
    if why := next(filter(None, map(unlisted, paths)), ""):
        return Split([], kept, why)
    bases: set[str | None] = {None}
    if table.partition_columns:
        folders = [
            table.groups.files.folders[i] for i in set(table.groups.files.folder[files].tolist())
        ]
        bases = {_base(path, texts) for path, texts in folders}
        if len(bases) > 1 or None in bases:
            return Split([], kept, "folders of partitions that start in several places")
        if any(map(_spelled_otherwise, folders)):
            return Split(
                [],
                kept,
                "characters beyond ASCII behind percent signs in a folder's name, which Spark decodes byte by byte",
            )
    base = next(iter(bases))
    return Split(
        [
            Scan(
                [named(p, scheme or "") for p in paths],
                None if base is None else named(base, scheme or "", glob=False),
            )
        ],
        [],
    )


def _foreign(
    table: ParquetTable, files: set[int], columns: Sequence[str], case_sensitive: bool
) -> str:
    """Why Spark would read a column of some of the files otherwise than the table has it; "": it would not."""
    forms: list[FileSchema] = []
    for part in table.groups.parts:
        used = {
            int(form)
            for file, form in zip(part.files.tolist(), part.form.tolist(), strict=True)
            if file in files and form >= 0
        }
        forms += [part.forms[i] for i in sorted(used)]
    for name in columns:
        wanted = carried_type(table.schema.field(name).type)
        for form in forms:
            spelled = [f for f in form.schema if f.name == name] or [
                f for f in form.schema if f.name.lower() == name.lower()
            ]
            if not spelled:
                continue
            if _meanings(spelled[0]) != _meanings(table.schema.field(name)):
                return f"column {name!r}, which in {form.example} is of another type in Spark than in other files"
            if FIELD in (spelled[0].metadata or {}) and not case_sensitive:
                continue
            if isinstance(spelled[0].type, pa.BaseExtensionType):
                return f"the extension type of column {name!r}"
            if carried_type(spelled[0].type) != wanted or wanted is None:
                return f"column {name!r}, which is {spelled[0].type} in {form.example} and {table.schema.field(name).type} in the table"
            if case_sensitive and spelled[0].name != name:
                return f"column {name!r}, which {form.example} spells {spelled[0].name!r}"
    return ""


def _meanings(field: pa.Field) -> list[tuple[Path, str]]:
    """What a column, and fields of structs in it, are to Spark beside their Arrow types."""
    found = noted_paths([field])
    return [(tuple(name.lower() for name in path), meaning_of(f)) for path, f in found.items()]


def _base(folder: str, texts: Texts) -> str | None:
    """The folder above the outermost partition folder."""
    left = len(texts)
    parts = folder.rstrip("/").split("/")
    while left and parts:
        if "=" not in parts.pop():
            return None
        left -= 1
    return "/".join(parts) or "/"


def _spelled_otherwise(folder: tuple[str, Texts]) -> bool:
    """Whether Spark takes the name of a folder, decoded byte by byte, for another value."""
    return any(
        text is not None and text != HIVE_NULL and "%" in text and not unescaped(text).isascii()
        for text in folder[1].values()
    )


def named(path: str, prefix: str = "file://", *, glob: bool = True) -> str:
    """A path as Spark's readers take it: a pattern, in which characters that mean more than themselves are escaped.

    Args:
        path: With a scheme or without.
        prefix: Of paths without one.
        glob: Whether it is read as a pattern.

    Example:
        >>> named("/t/k=a%2Fb/x[1].parquet"), named("s3://lake/t/x.parquet")
        ('file:///t/k=a%2Fb/x\\\\[1\\\\].parquet', 's3a://lake/t/x.parquet')
    """
    if path.startswith("file:"):
        path = "file:///" + path.removeprefix("file:").lstrip("/")
    elif "://" in path:
        path = re.sub(r"^s3://", "s3a://", path)
    else:
        path = prefix + path
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path) if glob else path


def unlisted(path: str) -> str:
    """Why Spark does not find a file that is named, which it lists all the same; "": it does."""
    if is_hidden(path.rpartition("/")[2]):
        return HIDDEN
    return (
        COLON
        if ":" in (path.partition("://")[2] if "://" in path else path.removeprefix("file:"))
        else ""
    )


# Delta.


def _delta(table: DeltaTable, plan: Plan, kept: list[int], columns: Sequence[str]) -> Split:
    if why := _delta_feature(table, columns):
        return Split([], kept, why)
    uri = "://" in table.path
    prefix = "" if uri else SCHEMES.get(table.snapshot.fs.type_name)
    if prefix is None:
        return Split(
            [],
            kept,
            f"the storage of {table.redacted_path}, of which it is not known how Spark names its files",
        )
    root = table.path.rstrip("/") if uri else table.snapshot.root
    files = table.files.take(pa.array(kept, pa.int64()))
    dead = np.asarray(pc.is_valid(files.column("deletionVector")))
    paths = [
        p if p.startswith(("/", "file:")) or "://" in p else f"{root}/{p}"
        for p in files.column("path").to_pylist()
    ]
    own = [name for name in table.partition_columns if name in columns]
    texts = {
        n: pc.struct_field(files.column("partition"), table.snapshot.fields.partitions[n])
        for n in own
    }
    values = {n: partition_values(texts[n], table.schema.field(n).type, plan.timezone) for n in own}
    unread = np.zeros(len(kept), np.bool_)
    for found, empty in values.values():
        unread |= np.asarray(pc.and_(pc.is_null(found), pc.invert(empty)))
    keys = list(zip(*(texts[n].to_pylist() for n in own), strict=True)) if own else [()] * len(kept)
    why, foreign = "", np.zeros(len(kept), np.bool_)
    for i, path in enumerate(paths):
        found = (
            "deletion vectors"
            if dead[i]
            else "a partition value that cannot be read"
            if unread[i]
            else unlisted(path)
        )
        if found := found or (
            "an absolute path that names no storage" if uri and path.startswith("/") else ""
        ):
            foreign[i], why = True, found
    groups: dict[Hashable, list[int]] = {}
    for i in np.flatnonzero(~foreign).tolist():
        groups.setdefault(keys[i], []).append(i)
    if len(groups) > MOST_PARTITIONS:
        return _too_many(kept, groups)
    scans = [
        Scan([named(paths[i], prefix) for i in at], constants={n: values[n][0][at[0]] for n in own})
        for at in groups.values()
    ]
    return Split(scans, [kept[i] for i in np.flatnonzero(foreign).tolist()], why)


def _too_many(kept: list[int], groups: Mapping[Hashable, Sequence[Any]]) -> Split:
    return Split(
        [],
        kept,
        f"{len(groups)} combinations of partition values, where {MOST_PARTITIONS} are scans of their own at most",
    )


def _delta_feature(table: DeltaTable, columns: Sequence[str]) -> str:
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


# Iceberg.


def _iceberg(files: IcebergFiles, kept: list[int], columns: Sequence[str]) -> Split:
    if why := _iceberg_feature(files, columns):
        return Split([], kept, why)
    others: list[int] = []
    groups: dict[Hashable, list[str]] = {}
    constants: dict[Hashable, dict[str, pa.Scalar]] = {}
    for i in kept:
        manifest, row = files.at(i)
        path, kind = manifest.paths[row].as_py(), manifest.formats[row].as_py()
        ((_, deletes),) = files.deletes.of_files(manifest, [row])
        # A file may lack the columns of its partition; their values are those of the partition.
        values = dict(partition_of(files, manifest, row, set(columns)))
        found = (
            "deletes"
            if deletes
            else f"files of format {kind}"
            if kind.upper() != "PARQUET"
            else unlisted(path)
        )
        if found := found or (
            "a partition value that cannot be read"
            if any(isinstance(v, str) for v in values.values())
            else ""
        ):
            others.append(i)
            why = found
            continue
        key = tuple((name, str(v)) for name, v in sorted(values.items()))
        constants[key] = {name: v for name, v in values.items() if not isinstance(v, str)}
        groups.setdefault(key, []).append(named(path))
    if len(groups) > MOST_PARTITIONS:
        return _too_many(kept, groups)
    return Split(
        [Scan(paths, constants=constants[key]) for key, paths in groups.items()], others, why
    )


def _iceberg_feature(files: IcebergFiles, columns: Sequence[str]) -> str:
    """What Spark's reader, which finds columns by name and knows no defaults, cannot do right."""
    fields = files.table.fields
    schemas = {str(s.as_struct()) for s in (fields.iceberg, *fields.others.values())}
    if len(schemas) > 1:
        return "schema evolution: files are of several schemas"
    if files.table.source.name_mapping() is not None:
        return "a name mapping, by which files without ids are read"
    for f in fields.iceberg.fields:
        if f.name in columns and (not _plain(f) or f.initial_default is not None):
            return f"column {f.name!r}, whose name or type files have otherwise"
    return ""


def _plain(f: Any) -> bool:
    """Whether files have a field by its own name and type."""
    if not SAFE.fullmatch(f.name) or type(f.field_type).__name__ in (
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


# Scans as a DataFrame.


def by_spark(
    spark: Any,
    plan: Plan,
    scans: Sequence[Scan],
    columns: Sequence[str],
    notes: dict[str, dict[str, Any]],
) -> DataFrame:
    """The rows of some scans, all of them: nothing is filtered yet.

    Raises:
        UnsupportedForm: Spark has no type for a column.
    """
    F = functions_of(spark)
    whole = carried(pa.schema([plan.table.schema.field(name) for name in columns]), by_spark=True)
    guarded = _may_hide_nan(plan, columns)
    frames = []
    with quiet(), listing(spark, max(len(scan.paths) for scan in scans)):
        for scan in scans:
            reader = spark.read.schema(
                spark_schema(pa.schema([f for f in whole if f.name not in scan.constants]), notes)
            )
            if scan.base is not None:
                reader = reader.option("basePath", scan.base)
            raw = reader.parquet(*scan.paths)
            if not scan.constants and not guarded:
                frames.append(raw.select(*(quoted_name(f.name) for f in whole)))
                continue
            given = {
                n: literal(F, v, whole.field(n).type).alias(n, metadata=notes.get(n, {}))
                for n, v in scan.constants.items()
            }
            seen = {
                path[0]: _guard(F, path, guarded).alias(path[0])
                for path in guarded
                if path[0] not in given
            }
            frames.append(
                raw.select(
                    *(
                        given.get(n)
                        if n in given
                        else seen[n]
                        if n in seen
                        else F.col(quoted_name(n))
                        for n in whole.names
                    )
                )
            )
    out = frames[0]
    for one in frames[1:]:
        out = out.union(one)
    return out


@contextlib.contextmanager
def listing(spark: Any, paths: int) -> Iterator[None]:
    """Files that are named are looked up by the driver, however many. Spark starts a job for more than 32, a task each.

    Connect resolves a DataFrame again whenever it runs, so there a change that ends now would not help.
    """
    before = int(spark.conf.get(THRESHOLD))
    if paths <= before or is_connect(spark):
        yield
        return
    spark.conf.set(THRESHOLD, str(paths))
    try:
        yield
    finally:
        spark.conf.set(THRESHOLD, str(before))


def _may_hide_nan(plan: Plan, columns: Sequence[str]) -> list[Path]:
    """Float columns of the condition.

    Footers of most writers leave NaN out of bounds, and Spark's reader trusts these: it drops row groups that hold NaN,
    which is above every number in Spark. Behind a function the condition is not handed to that reader.
    """
    if plan.predicate is None:
        return []
    node = plan.predicate.node
    if any(n.op is Op.UNKNOWN for n in node.walk()):  # it may name any column
        from skipstone.ir.types import leaves_of

        paths = [p for p in leaves_of(plan.table.schema) if p[0] in columns]
    else:
        paths = list(columns_of(node))
    return [
        p
        for p in paths
        if p[0] not in plan.table.partition_columns and _is_float(plan.table.schema, p)
    ]


def _is_float(schema: pa.Schema, path: Path) -> bool:
    kind = schema.field(path[0]).type
    for name in path[1:]:
        kind = kind.field(name).type
    kind = carried_type(kind)
    return kind is not None and pa.types.is_floating(kind)


def _guard(F: Any, path: Path, guarded: Sequence[Path]) -> Column:
    """A column with its floats behind a function that gives them as they are."""
    out: Column = F.col(quoted_name(path[0]))
    for p in guarded:
        if p[0] != path[0]:
            continue
        value = F.col(quoted_path(p))
        same = F.nanvl(value, value)
        out = same if len(p) == 1 else out.withField(quoted_path(p[1:]), same)
    return out


def literal(F: Any, value: pa.Scalar, kind: pa.DataType) -> Column:
    """A value as a column of Spark's, of the type that it has in a table; `F` are PySpark's functions. It may be NULL for all that its type tells."""
    to = spark_type(kind)
    if not value.is_valid:
        out = F.lit(None).cast(to)
    elif pa.types.is_timestamp(kind):
        micros = value.cast(kind).value
        out = (
            F.lit(_wall(micros)).cast("timestamp_ntz")
            if kind.tz is None
            else F.timestamp_micros(F.lit(micros))
        )
    elif pa.types.is_date32(kind):
        out = F.date_from_unix_date(F.lit(value.cast(pa.int32()).as_py()))
    elif pa.types.is_decimal(kind):
        out = F.lit(format(value.as_py(), "f")).cast(to)
    else:
        out = F.lit(value.as_py()).cast(to)
    return cast("Column", F.nullif(out, F.lit(None).cast(to)))


def _wall(micros: int) -> str:
    """A clock's time as text that casts read, of any year."""
    text = str(np.datetime64(micros, "us"))
    return text if text.startswith("-") or len(text.split("-")[0]) == 4 else f"+{text}"
