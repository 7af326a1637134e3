"""Conditions over a table, from the values that it holds."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

PLAIN = ("{c} = {a}", "{c} <> {a}", "{c} < {a}", "{c} >= {b}", "{c} BETWEEN {a} AND {b}",
         "{c} IN ({a}, {b})", "{c} NOT IN ({a}, {b})", "{c} IS NULL", "{c} IS NOT NULL",
         "{c} <=> {a}", "NOT ({c} > {b})", "{c} IS NULL OR {c} < {a}",
         "{c} IS DISTINCT FROM {a}", "{c} IS NOT DISTINCT FROM {b}", "{c} IN ({b}, NULL)",
         "coalesce({c}, {a}) = {a}", "nullif({c}, {a}) IS NULL", "{c} = {c}")  # fmt: skip
OF_TYPE = {
    "string": ("{c} LIKE 'text 01%'", "{c} LIKE 'p1%'", "startswith({c}, 'text 00')",
               "upper({c}) = upper({a})", "length({c}) > 8", "{c} || 'x' = concat({a}, 'x')",
               "{c} LIKE '%9'", "{c} NOT LIKE 'text 00%'", "{c} ILIKE 'TEXT 02%'",
               "{c} LIKE ANY ('text 00%', 'p3%')", "{c} RLIKE '^text 0[01]'",
               "substring({c}, 1, 7) = substring({b}, 1, 7)", "{c} LIKE 'text\\\\_0%'",
               "CAST({c} AS BINARY) > CAST({a} AS BINARY)"),
    "date": ("year({c}) = 2024", "month({c}) = 1", "date_add({c}, 3) > {b}", "{c} > '2024-01-20'",
             "CAST({c} AS STRING) > '2024-01-15'", "CAST({c} AS TIMESTAMP) >= TIMESTAMP {b:q}",
             "trunc({c}, 'MM') = DATE '2024-02-01'", "{c} + INTERVAL 1 MONTH < {b}"),
    "timestamp": ("CAST({c} AS DATE) = CAST({a} AS DATE)", "hour({c}) = 3", "year({c}) = 2024",
                  "date_trunc('DAY', {c}) = date_trunc('DAY', {b})", "{c} > '2024-01-05'",
                  "CAST({c} AS STRING) LIKE '2024-01-0%'", "{c} + INTERVAL 2 HOURS > {b}",
                  "CAST({c} AS DATE) BETWEEN '2024-01-02' AND '2024-01-03'",
                  "date_trunc('MILLISECOND', {c}) = date_trunc('MILLISECOND', {a})"),
    "number": ("{c} + 1 > {b}", "abs({c}) < {a}", "-{c} <= -{b}", "{c} * 2 = {a}",
               "{c} > 10.5", "CAST({c} AS STRING) = CAST({a} AS STRING)",
               "CAST({c} AS INT) > {b}", "CAST({c} AS DECIMAL(20, 1)) = 5.1", "{c} = '7'",
               "CAST({c} AS FLOAT) >= {b}", "{c} % 2 = 1", "CAST({c} AS BOOLEAN)"),
    "real": ("isnan({c})", "NOT isnan({c})", "{c} = double('NaN')", "{c} > double('NaN')",
             "{c} <> double('NaN')", "{c} < double('NaN')", "nanvl({c}, 0) < {a}",
             "{c} > {b} AND NOT isnan({c})", "{c} >= double('Infinity')",
             "{c} IN ({a}, double('NaN'))", "{c} <=> double('NaN')"),
    "decimal": ("{c} = 1.25", "{c} > 10.255", "{c} < 3", "CAST({c} AS DECIMAL(5, 1)) = 2.5",
                "{c} IN (1.50, 2.5, 99.999)", "round({c}, 0) = 4", "{c} BETWEEN 1e0 AND 3e0"),
    "binary": ("CAST({c} AS STRING) LIKE 'b1%'", "hex({c}) < hex({a})", "length({c}) = 3",
               "startswith({c}, X'6231')"),
    "boolean": ("{c}", "NOT {c}", "{c} AND id < 30", "{c} IS NOT TRUE", "{c} IS FALSE",
                "{c} IS NULL", "{c} = true", "{c} IS DISTINCT FROM false"),
    "atoms": ("array_contains({c}, {a})", "NOT array_contains({c}, {b})", "{c}[0] = {a}",
              "exists({c}, x -> x > {b})", "forall({c}, x -> x >= {a})", "size({c}) > 1",
              "element_at({c}, 1) < {a}", "array_min({c}) > {b}", "array_max({c}) < {a}",
              "arrays_overlap({c}, array({a}, {b}))", "array_position({c}, {a}) > 0",
              "{c} IS NULL", "exists({c}, x -> x IS NULL)", "exists({c}, x -> x IN ({a}, {b}))",
              "NOT exists({c}, x -> x < {b})", "size(filter({c}, x -> x = {a})) > 0"),
    "structs": ("exists({c}, e -> e.a = {a})", "exists({c}, e -> e.a > {b} AND e.b LIKE 'e1%')",
                "forall({c}, e -> e.a >= {a})", "array_contains({c}.a, {b})", "{c}[0].a > {b}",
                "exists({c}, e -> e.b IS NULL)", "NOT exists({c}, e -> e.a < {b})",
                "array_contains(transform({c}, e -> e.a), {a})", "exists({c}.b, x -> x = 'e3')",
                "size(filter({c}, e -> e.a > {b})) > 0", "{c} IS NULL", "size({c}) = 0"),
    "map": ("{c}['k1'] = {a}", "map_contains_key({c}, 'g2')", "{c}['none'] IS NULL",
            "array_contains(map_keys({c}), 'g3')", "exists(map_values({c}), v -> v > {b})",
            "size({c}) = 2", "element_at({c}, 'k1') < {a}", "{c}.k1 BETWEEN {a} AND {b}",
            "{c}['k1'] IS NOT NULL AND {c}['k1'] > {b}", "{c} IS NULL",
            "exists(map_entries({c}), e -> e.key = 'k1' AND e.value = {a})"),
}  # fmt: skip
NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")
ATOMS = {*NUMBERS, "string", "date", "timestamp", "timestamp_ntz", "boolean", "binary"}
FAMILIES = {"float": ("number", "real"), "double": ("number", "real")}


def conditions_of(frame: Any, seed: str, most: int) -> list[str]:
    """Return conditions on each column of a table, and on pairs of columns.

    Args:
        most: How many; a share of the forms of each column is drawn.
    """
    r = random.Random(seed)
    rows = frame.orderBy("id").collect()
    by_column = [of_column(rows, *column) for column in columns_of(frame.schema)]
    share = most * 0.9 / sum(map(len, by_column))
    drawn = [r.sample(c, min(len(c), max(2, round(len(c) * share)))) for c in by_column]
    found = [condition for c in drawn for condition in c]
    pairs = [r.sample(found, 2) for _ in range(most // 10)]
    return found + [f"({a}) {r.choice(('AND', 'OR', 'AND NOT'))} ({b})" for a, b in pairs]


def of_column(rows: Sequence[Any], path: tuple[str, ...], kind: str) -> list[str]:
    """Return all conditions on a column."""
    family, of = family_of(kind)
    literals = [text for v in values_at(rows, path, family) if (text := literal(v, of)) is not None]
    if not literals:
        return [f"{shown(path)} IS NULL"]
    a, b = (literals[len(literals) * k // 10] for k in (2, 7))
    forms = () if family in ("boolean", "atoms", "structs", "map") else PLAIN
    for name in FAMILIES.get(family, (family,)):
        forms += OF_TYPE.get(name, ())
    return [f.replace("{b:q}", f"'{b.split(chr(39))[1]}'" if "'" in b else b)
             .replace("{c}", shown(path)).replace("{a}", a).replace("{b}", b)
            for f in forms]  # fmt: skip


def family_of(kind: str) -> tuple[str, str]:
    """Return the name of the forms for a type, and the type of their literals."""
    if kind.startswith("array<struct<"):
        return "structs", "int"
    if kind.startswith("array<"):
        return "atoms", kind[6:-1]
    if kind.startswith("map<"):
        return "map", "int"
    if kind.startswith("decimal"):
        return "decimal", kind
    if kind in FAMILIES:
        return kind, kind
    return "number" if kind in NUMBERS else kind.split("_")[0], kind


def columns_of(schema: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the paths of columns and their types, fields of structs included."""
    for field in schema.fields:
        path, kind = (*above, field.name), field.dataType.simpleString()
        if kind in ATOMS or kind.startswith(("decimal", "array<", "map<string,int>")):
            yield path, kind
        elif kind.startswith("struct"):
            yield from columns_of(field.dataType, path)


def values_at(rows: Sequence[Any], path: tuple[str, ...], family: str) -> list[Any]:
    """Return the distinct values of a column, in their order; NULLs and NaN are left out."""
    out = []
    for row in rows:
        for name in path:
            row = None if row is None else row[name]
        match family:
            case "atoms":
                found = row or ()
            case "structs":
                found = [e["a"] for e in row or () if "a" in e]
            case "map":
                found = (row or {}).values()
            case _:
                found = (row,)
        out += [bytes(v) if isinstance(v, bytearray) else v for v in found]
    return sorted({v for v in out if v is not None and v == v})


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
