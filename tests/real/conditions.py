"""Conditions over a table, from the values that it holds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

PLAIN = ("{c} = {a}", "{c} <> {a}", "{c} < {a}", "{c} >= {b}", "{c} BETWEEN {a} AND {b}",
         "{c} IN ({a}, {b})", "{c} NOT IN ({a}, {b})", "{c} IS NULL", "{c} IS NOT NULL",
         "{c} <=> {a}", "NOT ({c} > {b})", "{c} IS NULL OR {c} < {a}")  # fmt: skip
OF_TYPE = {
    "string": ("{c} LIKE 'text 01%'", "{c} LIKE 'p1%'", "startswith({c}, 'text 00')",
               "upper({c}) = upper({a})", "length({c}) > 8", "{c} || 'x' = concat({a}, 'x')"),
    "date": ("year({c}) = 2024", "month({c}) = 1", "date_add({c}, 3) > {b}", "{c} > '2024-01-20'"),
    "timestamp": ("CAST({c} AS DATE) = CAST({a} AS DATE)", "hour({c}) = 3", "year({c}) = 2024",
                  "date_trunc('DAY', {c}) = date_trunc('DAY', {b})"),
    "number": ("{c} + 1 > {b}", "abs({c}) < {a}", "-{c} <= -{b}", "{c} * 2 = {a}",
               "{c} > 10.5", "CAST({c} AS STRING) = CAST({a} AS STRING)"),
    "boolean": ("{c}", "NOT {c}", "{c} AND id < 30"),
}  # fmt: skip
NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")
ATOMS = {*NUMBERS, "string", "date", "timestamp", "timestamp_ntz", "boolean", "binary"}


def conditions_of(frame: Any, seed: int, combined: int = 20) -> list[str]:
    """Return conditions on each column of atoms, on fields of structs, and on pairs of columns."""
    r = random.Random(seed)
    rows = frame.orderBy("id").collect()
    found = []
    for name, kind in columns_of(frame.schema):
        literals = [text for v in values_at(rows, name) if (text := literal(v, kind)) is not None]
        if not literals:
            found.append(f"{shown(name)} IS NULL")
            continue
        a, b = (literals[len(literals) * k // 10] for k in (2, 7))
        family = "number" if kind in NUMBERS or kind.startswith("decimal") else kind.split("_")[0]
        forms = (*PLAIN, *OF_TYPE.get(family, ()))
        if family == "boolean":
            forms = (*OF_TYPE["boolean"], "{c} IS NULL", "{c} = true")
        found += [form.format(c=shown(name), a=a, b=b) for form in forms]
    pairs = [r.sample(found, 2) for _ in range(combined)]
    return found + [f"({a}) {r.choice(('AND', 'OR', 'AND NOT'))} ({b})" for a, b in pairs]


def columns_of(schema: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the paths of columns of atoms and their types, fields of structs included."""
    for field in schema.fields:
        path, kind = (*above, field.name), field.dataType.simpleString()
        if kind in ATOMS or kind.startswith("decimal"):
            yield path, kind
        elif kind.startswith("struct"):
            yield from columns_of(field.dataType, path)


def values_at(rows: Any, path: tuple[str, ...]) -> list[Any]:
    """Return the distinct values of a column, in their order; NULLs and NaN are left out."""
    out = []
    for row in rows:
        for name in path:
            row = None if row is None else row[name]
        if row is not None and row == row:
            out.append(bytes(row) if isinstance(row, bytearray) else row)
    return sorted(set(out))


def shown(path: tuple[str, ...]) -> str:
    return ".".join(f"`{name}`" for name in path)


def literal(value: Any, kind: str) -> str | None:
    """Return a value as a literal of Spark SQL."""
    match kind:
        case "string":
            return "'" + value.replace("'", "''") + "'"
        case "date":
            return f"DATE '{value}'"
        case "timestamp":
            return f"TIMESTAMP '{value}'"
        case "timestamp_ntz":
            return f"TIMESTAMP_NTZ '{value}'"
        case "binary":
            return f"X'{value.hex()}'"
        case "double" | "float":
            return f"{value!r}D"
        case "boolean":
            return str(value).lower()
    return str(value)
