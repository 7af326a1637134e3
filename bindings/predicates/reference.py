"""Write docs/predicates.md from the tables that the code uses.

`python -m skipstone.bindings.predicates.reference > docs/predicates.md`; a test compares the two.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Final

import pyarrow as pa

from skipstone.ir.function import Function
from skipstone.ir.functions import (
    angles,
    approximate,
    arithmetic,
    builtin_functions,
    casts,
    choice,
    codes,
    dates,
    division,
    formats,
    hashes,
    iceberg,
    intervals,
    moves,
    patterns,
    powers,
    text,
    words,
)
from skipstone.ir.functions import numbers as numbers_
from skipstone.ir.functions.build import ALIASES, SYNONYMS
from skipstone.ir.functions.nested import arrays, lambdas, maps
from skipstone.ir.interval import any_result
from skipstone.ir.node import FIELDS

SCHEMA: Final = pa.schema(
    [
        ("x", pa.int64()),
        ("y", pa.int64()),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("d", pa.date32()),
        ("t", pa.time64("us")),
        ("ts", pa.timestamp("us", "UTC")),
        ("st", pa.struct([("a", pa.int32())])),
        ("arr", pa.list_(pa.int64())),
        ("m", pa.map_(pa.string(), pa.int64())),
        ("items", pa.list_(pa.struct([("a", pa.int32()), ("b", pa.int32())]))),
    ]
)
# Name of the form, examples over SCHEMA, and the statistics that it prunes on.
FORMS: Final = (
    ("comparison", ("x < 5", "5 >= x", "x = 5", "x <> 5", "x <=> NULL"), "bounds, value lists"),
    ("range", ("x BETWEEN 1 AND 9", "x NOT BETWEEN 1 AND 9"), "bounds"),
    ("membership", ("x IN (1, 2, 3)", "s NOT IN ('a', 'b')"), "bounds, value lists, bloom filters"),
    ("rows of values", ("(x, s) IN ((1, 'a'), (2, 'b'))", "(x, s) < (1, 'a')"), "as their parts"),
    ("null test", ("x IS NULL", "st.a IS NOT NULL"), "null counts"),
    ("NaN test", ("isnan(f)", "f = double('NaN')"), "NaN counts, bounds"),
    ("truth test", ("b", "(x > 5) IS TRUE", "(x > 5) IS NOT FALSE"), "as the condition inside"),
    ("logic", ("x = 1 AND s = 'a'", "x = 1 OR b", "NOT (x = 1)"), "as its parts"),
    ("pattern", ("s LIKE 'ab%'", "d LIKE '2024-03-%'", "s ILIKE 'a%'"), "the literal start"),
    ("regular expression", ("s RLIKE '^ab'",), "the literal start"),
    ("text function", ("startswith(s, 'a')", "contains(s, 'b')", "endswith(s, 'c')"), "bounds"),
    ("columns compared", ("x < y", "x + y > 10"), "bounds of both"),
    ("element", ("array_contains(arr, 5)", "exists(arr, v -> v > 5)", "m['k'] = 1"), "elements"),
    (
        "field of an element",
        ("exists(items, v -> v.a = 1 AND v.b > 2)", "items[0].a = 1", "array_max(items.a) > 3"),
        "elements",
    ),
    ("value of a map", ("m.k = 1", "m['k'] = 1", "element_at(m, 'k') = 1"), "keys and values"),
    ("CASE", ("CASE WHEN x > 5 THEN 1 ELSE 0 END = 1", "if(b, x, y) = 3"), "bounds"),
    ("CAST", ("CAST(x AS STRING) = '5'", "TRY_CAST(s AS INT) > 5"), "bounds, or a single value"),
    ("date part", ("year(d) = 2024", "EXTRACT(MONTH FROM ts) = 3"), "bounds"),
    ("formatted date", ("date_format(ts, 'yyyy-MM') = '2024-01'",), "bounds"),
    ("text as a date", ("ts >= to_timestamp('20240301', 'yyyyMMdd')",), "bounds"),
    (
        "date arithmetic",
        ("d + INTERVAL 3 DAYS > DATE '2024-01-01'", "date_add(d, 3) > d"),
        "bounds",
    ),
    (
        "interval",
        ("ts - TIMESTAMP '2024-01-01 00:00:00' > INTERVAL '1' DAY",),
        "bounds",
    ),
    (
        "literals",
        ("d = DATE '2024-01-01'", "ts > TIMESTAMP '2024-01-01 00:00:00'", "t < TIME '05:30:00'"),
        "bounds",
    ),
)
# Forms that cannot filter rows, and the reason.
REFUSED: Final = (
    (
        "structs",
        "`struct(f) = struct(1D)`, `items[0] = items[1]`",
        "columns are compared with rows of values, unless a field is FLOAT, DOUBLE or nested",
    ),
    (
        "arrays of structs, arrays, DOUBLE or TIMESTAMP in functions that make arrays of them",
        "`size(array_distinct(items)) = 1`, `array(1.5D)[0] = 1`",
        "but for filter, transform, flatten and map functions, these know ordered elements only",
    ),
    ("collations", "`s COLLATE UTF8_LCASE = 'a'`", "texts are compared by their bytes"),
    (
        "formats",
        "`date_format(ts, 'hh a') = '05 PM'`, `to_number(s, '99') = 5`",
        "patterns hold years, months, days and clocks of 24 hours",
    ),
    (
        "units between times across changes of offset",
        "`datediff(DAY, ts, current_timestamp()) > 3`",
        "days differ in length",
    ),
    ("decimals beyond 38 digits", "`w * w > 1`", "Spark rounds them"),
    (
        "casts between intervals and text",
        "`CAST(s AS INTERVAL DAY) = INTERVAL '1' DAY`",
        "the text is not parsed",
    ),
)
# Heading -> the modules whose functions it lists.
FAMILIES: Final[Mapping[str, tuple[ModuleType, ...]]] = {
    "Numbers": (arithmetic, division, numbers_, approximate, powers, angles),
    "Bits": (),
    "Text": (text, patterns, words, codes),
    "Hashes": (hashes,),
    "Dates and timestamps": (dates, formats, moves, intervals),
    "Arrays": (arrays, lambdas),
    "Maps": (maps,),
    "Choice and casts": (choice, casts),
    "Iceberg's transforms": (iceberg,),
}
# Functions that are listed under another heading than the rest of their module.
MOVED: Final = {
    **dict.fromkeys(
        ("&", "|", "^", "~", "bit_count", "shiftleft", "shiftright", "shiftrightunsigned"), "Bits"
    ),
}
# Functions that other forms are rewritten into; people do not write them.
INTERNAL: Final = frozenset(
    [
        "compare", "case", "widen", "wall_trunc", "wall_add_months",
        "char_padding", "char_value", "micros_between", "months_apart", "seconds_of",
        "trim_of", "ltrim_of", "rtrim_of",
        "add_units", "units_between", "clock_months", "read_time", "try_read_time",
        "whole_seconds", "later", "has_prefix", "has_suffix", "has_part", "fits", "matches",
        "units_of", "days_between", "clocks_between",
        "days_interval", "months_interval", "interval_days", "interval_hours", "interval_minutes",
        "interval_seconds", "interval_years", "interval_months", "sum_of_months", "sum_of_times",
        "as_array", FIELDS, "reverse_array", "concat_arrays", "map_element", "map_size",
        "instant_add_days", "instant_add_months",
    ]
)  # fmt: skip
# They also take arrays, and prune by the bounds of other columns only.
NOT_OF_ELEMENTS: Final = ("coalesce", "case", "compare")
OPERATORS: Final = {
    "[]": "x[y]",
    "map_value": "m[k]",
    "wall_format": "date_format",
    "add": "x + y",
    "subtract": "x - y",
    "multiply": "x * y",
    "divide": "x / y",
    "remainder": "x % y",
}


def page() -> str:
    """Return docs/predicates.md as text."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from _forms()
    yield from _functions()
    yield from _rows()


def _forms() -> Iterator[str]:
    """Yield the introduction and the table of forms."""
    yield from (
        "# Predicates",
        "",
        *_wrapped(
            "A condition is Spark SQL text, an expression of `ss.col`, a pyarrow or pyiceberg"
            " expression, filter lists or a PySpark Column, and means what it means in Spark SQL."
            " If a part is not listed on this page, `explain()` names it, and it does not prune;"
            " the rest of the condition still does. This page is generated from Skipstone's tables"
            " of functions."
        ),
        "",
        "## Forms",
        "",
        "| form | examples | prunes on |",
        "|---|---|---|",
    )
    for form, examples, basis in FORMS:
        yield f"| {form} | {', '.join(f'`{e}`' for e in examples)} | {basis} |"


def _functions() -> Iterator[str]:
    """Yield the notes on functions, and a table of each family."""
    yield from (
        "",
        "## Functions",
        "",
        *_wrapped(
            "The last column says how conditions on a function prune. *Order*: the function is"
            " monotone, so applying it to bounds gives bounds. *Range*: a special rule computes"
            " bounds. *Value*: it is computed only for containers that hold a single value."
            " *Elements*: it prunes by the bounds of an array's elements, or of a map's keys and"
            " values, which Parquet's footers have. *Rows*: it does not prune, but `to_arrow()`"
            " filters rows by it. In ANSI mode, `x[y]` and `element_at` of arrays do not prune,"
            " because Spark raises an error where an array is shorter; `get` and `try_element_at`"
            " do."
        ),
        "",
        *_wrapped(
            "`plan` evaluates functions with formats, such as `date_format`, as Spark does under"
            " its default `spark.sql.legacy.timeParserPolicy`, CORRECTED. Under LEGACY, and for"
            " `date_format` and `from_unixtime` also under EXCEPTION, `sks.prune` and `sks.enable`"
            " ignore conditions with them, and functions of `skipstone.spark` that take a"
            " condition as text refuse them."
        ),
    )
    yield from (
        "",
        *_wrapped(
            "In `plan(where=text)`, `now()`, `current_timestamp`, `current_date`, `curdate()`,"
            " `localtimestamp()` and `unix_timestamp()` are the time of the call; its `timezone`"
            " decides what day it is. A `PruningPredicate` does not know the time."
        ),
    )
    also: dict[str, list[str]] = {}
    for alias, name in SYNONYMS.items():
        also.setdefault(name, []).append(alias)
    for family in FAMILIES:
        yield from (
            "",
            f"### {family}",
            "",
            "| function | also written | prunes by |",
            "|---|---|---|",
        )
        for name, basis in _functions_of(family):
            shown = _plain(OPERATORS.get(name, name))
            names = (a for a in also.get(name, ()) if a not in OPERATORS.get(name, "").split())
            others = ", ".join(f"`{_plain(a)}`" for a in names)
            yield f"| `{shown}` | {others} | {basis} |"
    rest = sorted(
        ALIASES.keys()
        - SYNONYMS.keys()
        - INTERNAL
        - builtin_functions().keys()
        - set(OPERATORS.values())
    )
    yield from ("", "Rewritten into the above:", "")
    yield from _wrapped(", ".join(f"`{a}`" for a in rest) + ".")
    yield from (
        "",
        *_wrapped(
            "Formats that text is read by may hold `yyyy`, `MM`, `dd`, `HH`, `mm`, `ss` and ASCII"
            " text: `to_date(s, 'yyyyMMdd')`."
        ),
    )


def _rows() -> Iterator[str]:
    """Yield what filtering rows refuses."""
    yield from (
        "",
        "## Rows",
        "",
        *_wrapped(
            "`plan.to_arrow()` filters rows by these forms and functions. If it cannot judge a"
            " condition exactly as Spark does, it raises an error that names the part; planning"
            " still prunes by the rest. It also raises an error if Spark would raise one for a row,"
            " or if a row's result is not certain. For example, the last digit of Spark's"
            " logarithms is not certain, so `log2(f) > 3` fails on a row where `f` is 8, and on no"
            " other. It refuses about 8 of 100 random conditions that Spark answers (`python -m"
            " tests.fuzz.refusals --conditions 5000 --spark`). Most of these hold one of:"
        ),
        "",
        "| form | example | reason |",
        "|---|---|---|",
        *(f"| {form} | {example} | {why} |" for form, example, why in REFUSED),
    )


def _functions_of(family: str) -> Iterator[tuple[str, str]]:
    """Yield the functions under a heading, and how each prunes."""
    for heading, modules in FAMILIES.items():
        for module in modules:
            for name, function in module.FUNCTIONS.items():
                if name not in INTERNAL and MOVED.get(name, heading) == family:
                    yield name, _basis(name, function)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 100, break_on_hyphens=False)


def _plain(name: str) -> str:
    return name.replace("|", "\\|")


def _basis(name: str, function: Function) -> str:
    if function.interval is any_result and name not in ("exists", "filter"):
        return "rows"
    if function.nested and name not in NOT_OF_ELEMENTS:
        return "elements"
    if function.monotone:
        return "order"
    return "value" if function.interval is None else "range"


_LISTED: Final = {n for modules in FAMILIES.values() for m in modules for n in m.FUNCTIONS}
assert set(builtin_functions()) == _LISTED

if __name__ == "__main__":
    print(page(), end="")
