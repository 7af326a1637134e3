"""Hand a plan to pyarrow.dataset: its kept files and row groups, if Arrow reads the same values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from skipstone.bindings.tables.char_columns import holds_char
from skipstone.bindings.tables.parquet.calendar import is_julian
from skipstone.bindings.tables.parquet.declared_types import meaning_of, noted_paths
from skipstone.bindings.tables.parquet.heads import schema_of
from skipstone.ir.errors import UnsupportedForm
from skipstone.ir.node import show_path

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.plans.table_protocol import DatasetFile

OTHERWISE: Final = (
    "Read the plan with to_arrow(), to_batches() or an engine that takes Arrow streams, such as "
    'duckdb.sql("FROM plan")'
)


class KeptDataset(ds.FileSystemDataset):  # type: ignore[misc]  # pyarrow has no types
    """A dataset that counts the rows of its row groups.

    Arrow (26) counts all rows of a file, if no filter names a column.
    """

    def count_rows(self, filter: pc.Expression | None = None, **options: Any) -> int:
        """Return the number of rows that pass a filter, as `pyarrow.dataset.Dataset` does."""
        column = pc.field(self.schema.names[0])
        any_row = column.is_null() | column.is_valid()
        return int(super().count_rows(any_row if filter is None else any_row & filter, **options))

    def replace_schema(self, schema: pa.Schema) -> KeptDataset:
        """Return the dataset with other columns, as `pyarrow.dataset.Dataset` does."""
        return KeptDataset(*super().replace_schema(schema).__reduce__()[1])

    def __reduce__(self) -> tuple[Any, ...]:
        return KeptDataset, super().__reduce__()[1]


def dataset_of(plan: Plan) -> ds.Dataset:
    """Return a dataset of the kept files and row groups of a plan.

    Raises:
        UnsupportedForm: Arrow would read a file differently.
        SourceError: a footer or a partition value cannot be read.
        StaleFile: a file was replaced after it was planned.
    """
    schema = plan.schema
    for path, field in noted_paths(schema).items():
        raise UnsupportedForm(
            f"a dataset cannot express that the column {show_path(path)} is {meaning_of(field)}. "
            f"{OTHERWISE}"
        )
    if char := next(filter(holds_char, schema), None):
        raise UnsupportedForm(f"a dataset cannot pad the CHAR values of {char.name!r}. {OTHERWISE}")
    plan.table.check_unchanged(plan.kept)
    kind, fragments, known = ds.ParquetFileFormat(), [], {}
    for file in plan.table.dataset_files(plan):
        key = (id(file.metadata), tuple(file.values))
        if key not in known:
            known[key] = (_why_not(file, schema), file.metadata)  # the latter keeps its id
        if problem := file.problem or known[key][0] or _why_no_constant(file):
            raise UnsupportedForm(
                f"{file.path}: a dataset cannot express that {problem}. {OTHERWISE}"
            )
        fragments.append(
            kind.make_fragment(
                file.path,
                file.filesystem,
                partition_expression=_expression(file),
                row_groups=file.groups or None,
            )
        )
    # Arrow (26) crashes when it pickles a dataset without a file system.
    fs = fragments[0].filesystem if fragments else pafs.LocalFileSystem()
    return KeptDataset(fragments, schema, kind, fs)


def _expression(file: DatasetFile) -> pc.Expression:
    """Return the partition values of a file as an expression that holds for all of its rows."""
    out = pc.scalar(True)
    for name, value in file.values.items():
        column = pc.field(name)
        out = out & ((column == value) if value.is_valid else column.is_null())
    return out


def _why_no_constant(file: DatasetFile) -> str:
    """Explain which partition value no Arrow expression can represent; "" if there is none."""
    for name, value in file.values.items():
        if pa.types.is_floating(value.type) and value.is_valid and math.isnan(value.as_py()):
            return f"the partition value of {name} is NaN"
    return ""


def _why_not(file: DatasetFile, schema: pa.Schema) -> str:
    """Explain why Arrow would not read columns of a file as the table has them; "" if it would.

    Args:
        file: The file.
        schema: The columns to read.
    """
    if file.metadata is None:
        return ""
    own, julian = schema_of(file.metadata), is_julian(file.metadata.metadata or {})
    arrow = file.metadata.schema.to_arrow_schema()
    int96 = _int96_columns(file.metadata)
    in_any_case: dict[str, list[str]] = {}
    for name in own.names:
        in_any_case.setdefault(name.lower(), []).append(name)
    for f in schema:
        found = in_any_case.get(f.name.lower(), [])
        if f.name in file.values:
            if found:
                return f"the column {f.name} of the file is not the partition column {f.name}"
            continue
        if not found:
            continue  # NULL in all rows
        if found != [f.name]:
            return f"the table's column {f.name} is the file's column {', '.join(found)}"
        own_field, stored = own.field(f.name), arrow.field(f.name).type
        why = _why_changed(f, own_field, stored, int96=f.name in int96, julian=julian)
        if why:
            return why
    return ""


def _why_changed(
    f: pa.Field, own: pa.Field, stored: pa.DataType, *, int96: bool, julian: bool
) -> str:
    """Explain why Arrow would not read one column as the table has it; "" if it would.

    Args:
        f: The table's column.
        own: The file's column of this name.
        stored: Its type for Arrow.
        int96: True if Parquet stores it as INT96.
        julian: True if the file counts early days in the Julian calendar.
    """
    for noted in noted_paths([own]).values():
        return f"the column {f.name} is {meaning_of(noted)}"
    if own.type != f.type:
        return f"the column {f.name} of type {own.type} is {f.type} in the table"
    if int96:
        return f"the column {f.name} of type INT96 holds timestamps of Spark"
    if _has_times(f.type) and own.type != stored:
        return f"the column {f.name} of type {stored} is {f.type} in Spark's schema"
    if _may_be_misread(f.type):
        # pyarrow 26 reads no row where a list's pages hold one value each, and it does not join
        # dictionaries of several row groups within structs (bindings/tables/read.py).
        return f"the column {f.name} of type {f.type} may have rows that Arrow leaves out"
    if julian and _has_times(f.type):
        return f"the column {f.name} counts early days in the Julian calendar"
    return ""


def _int96_columns(metadata: pq.FileMetaData) -> set[str]:
    """Return the top-level columns that hold values of type INT96."""
    leaves = map(metadata.schema.column, range(len(metadata.schema)))
    return {c.path.split(".")[0] for c in leaves if c.physical_type == "INT96"}


def _may_be_misread(arrow_type: pa.DataType, *, inner: bool = False) -> bool:
    """Return True if a type holds lists or maps, or dictionaries within structs."""
    if pa.types.is_struct(arrow_type):
        return any(_may_be_misread(f.type, inner=True) for f in arrow_type)
    return bool(pa.types.is_nested(arrow_type) or (inner and pa.types.is_dictionary(arrow_type)))


def _has_times(arrow_type: pa.DataType) -> bool:
    """Return True if a type holds days or timestamps."""
    if pa.types.is_struct(arrow_type):
        return any(_has_times(f.type) for f in arrow_type)
    return bool(pa.types.is_date(arrow_type) or pa.types.is_timestamp(arrow_type))
