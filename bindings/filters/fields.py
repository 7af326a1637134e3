"""The key columns of a dynamic filter, and rows whose keys are looked up in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from skipstone.bindings.filters.rows import special_type, table_of
from skipstone.ir.coercion.coerce import in_spark
from skipstone.ir.errors import DynamicFilterError, unknown_column
from skipstone.ir.session import Session
from skipstone.ir.types import DType, from_arrow


@dataclass(frozen=True, slots=True)
class KeyFields:
    """The key columns of a filter, and how they are compared.

    Attributes:
        names: Names of the keys.
        fields: The columns that the keys are compared with.
        null_safe: Names of the keys that are compared by `<=>`.
        session: Spark's settings.
    """

    names: tuple[str, ...]
    fields: tuple[pa.Field, ...]
    null_safe: frozenset[str]
    session: Session

    @property
    def dtypes(self) -> tuple[DType, ...]:
        """Spark's types of the columns that the keys are compared with."""
        return tuple(special_type(f) or in_spark(from_arrow(f.type)) for f in self.fields)

    def columns_of(self, rows: Any) -> list[pa.ChunkedArray]:
        """Return rows as columns, one for each key.

        Args:
            rows: Arrow, pandas or Polars, or a list of tuples.

        Raises:
            DynamicFilterError: the rows have more or fewer columns than there are keys.
        """
        if isinstance(rows, list | tuple):
            wrong = [
                r for r in rows if not isinstance(r, list | tuple) or len(r) != len(self.names)
            ]
            if wrong:
                raise DynamicFilterError(
                    f"contains got the row {wrong[0]!r:.60}; "
                    f"expected tuples of ({', '.join(self.names)})"
                )
            values = [[r[i] for r in rows] for i in range(len(self.names))]
            return [
                pa.chunked_array([_array_of_values(v, f.type)])
                for v, f in zip(values, self.fields, strict=True)
            ]
        table = table_of(rows)
        if table.num_columns != len(self.names):
            raise DynamicFilterError(
                f"contains got rows with the columns ({', '.join(table.column_names)}); "
                f"expected ({', '.join(self.names)})"
            )
        return list(table.columns)


def names_of_keys(names: Any, argument: str = "columns") -> tuple[str, ...]:
    """Return names of key columns; a single name is a name.

    Raises:
        DynamicFilterError: they are not names.
    """
    given = (names,) if isinstance(names, str) else names
    several = isinstance(given, Iterable) and not isinstance(given, Mapping)
    found = tuple(given) if several else (given,)
    if not all(isinstance(name, str) for name in found):
        raise DynamicFilterError(f"{argument} is {names!r:.60}; expected names of key columns")
    return found


def null_safe_names(null_safe: Any, names: tuple[str, ...]) -> frozenset[str]:
    """Return the keys that are compared by `<=>`.

    Args:
        null_safe: True for all keys, False for none, or names of keys.
        names: The names of all keys.

    Raises:
        UnknownColumn: no key has a name.
        DynamicFilterError: `null_safe` is something else.
    """
    if isinstance(null_safe, bool):
        return frozenset(names if null_safe else ())
    safe = names_of_keys(null_safe, "null_safe")
    for name in safe:
        if name not in names:
            raise unknown_column(name, names, "null_safe=", "the keys are")
    return frozenset(safe)


def _array_of_values(values: list[Any], to: pa.DataType) -> pa.Array:
    """Return values as the column's type; if they do not fit it, as the type that they have."""
    try:
        return pa.array(values, to)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array(values)


def row_count(rows: Any) -> int:
    """Return the number of rows."""
    return len(rows) if isinstance(rows, Sequence) else table_of(rows).num_rows
