"""Call Arrow's compute functions without importing `pyarrow.compute`.

When that module is imported, it wraps each of 300 compute functions in a Python function, which
takes 35 ms, a tenth of the time to a process's first answer. Methods of arrays, such as `cast`,
import it as well. Here, common functions go to the registry directly. Every other name is that of
`pyarrow.compute`, which is imported when one is first used.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

import pyarrow as pa

# Name -> name in the registry, of functions that are called with arrays and scalars alone.
PLAIN: Final = {
    **{name: name for name in ("equal", "not_equal", "less", "less_equal", "greater")},
    **{name: name for name in ("greater_equal", "invert", "is_valid", "is_null", "if_else")},
    **{name: name for name in ("coalesce", "dictionary_encode", "unique", "binary_length")},
    **{name: name for name in ("add", "subtract", "multiply", "and_not", "is_inf", "is_nan")},
    **{name: name for name in ("drop_null", "utf8_upper", "ascii_upper", "ascii_lower")},
    **{name: name for name in ("any", "all", "sum", "min", "max", "min_max", "binary_join")},
    **{name: name for name in ("or_kleene", "utf8_length", "utf8_reverse", "string_is_ascii")},
    **{name: name for name in ("binary_reverse", "binary_repeat", "list_value_length")},
    **{"array_sort_indices": "array_sort_indices", "and_": "and", "or_": "or"},
}
# Name -> the class of its options, of functions that are called with an array and those options.
WITH_OPTIONS: Final = {
    **dict.fromkeys(("match_substring", "match_substring_regex"), "MatchSubstringOptions"),
    **dict.fromkeys(("starts_with", "ends_with", "find_substring"), "MatchSubstringOptions"),
    "replace_substring": "ReplaceSubstringOptions",
    "replace_substring_regex": "ReplaceSubstringOptions",
    **dict.fromkeys(("utf8_slice_codeunits", "binary_slice"), "SliceOptions"),
    **dict.fromkeys(("utf8_lpad", "utf8_rpad"), "PadOptions"),
    **dict.fromkeys(("utf8_trim", "ascii_trim", "ascii_ltrim", "ascii_rtrim"), "TrimOptions"),
    "sort_indices": "SortOptions",
    "select_k_unstable": "SelectKOptions",
    "index_in": "SetLookupOptions",
}
# `pyarrow.compute` takes these from a private module, so a version may lack one there.
NEEDED: Final = (
    *("call_function", "Expression", "CastOptions", "FilterOptions", "SetLookupOptions"),
    *("MapLookupOptions", "StructFieldOptions", "TakeOptions", *WITH_OPTIONS.values()),
)


def _module_with_needed() -> Any:
    try:
        module = importlib.import_module("pyarrow._compute")
    except ImportError:
        module = None
    if all(hasattr(module, name) for name in NEEDED):
        return module
    return importlib.import_module("pyarrow.compute")


_arrow: Final = _module_with_needed()


def cast(values: Any, to: pa.DataType, safe: bool = True) -> Any:
    """Return an array, chunked or not, or a scalar, as another type."""
    options = _arrow.CastOptions.safe(to) if safe else _arrow.CastOptions.unsafe(to)
    return _arrow.call_function("cast", [values], options)


def take(values: Any, indices: Any) -> Any:
    """Return the values at indices of an array, a chunked array, a batch or a table."""
    return _arrow.call_function("take", [values, indices], _arrow.TakeOptions(boundscheck=True))


def filter(values: Any, mask: Any) -> Any:
    """Return the values of an array, a chunked array, a batch or a table where a mask is True."""
    return _arrow.call_function("filter", [values, mask], _arrow.FilterOptions())


def is_in(values: Any, *, value_set: Any) -> Any:
    """Return True for each value of an array, chunked or not, that another array holds."""
    options = _arrow.SetLookupOptions(value_set=value_set)
    return _arrow.call_function("is_in", [values], options)


def struct_field(values: Any, indices: Any) -> Any:
    """Return a field of structs by its name, or by names from the top down; NULL stays NULL."""
    return _arrow.call_function("struct_field", [values], _arrow.StructFieldOptions(indices))


def map_lookup(maps: Any, query_key: Any, occurrence: str) -> Any:
    """Return the value of a key in each map: the "first" one, the "last" one, or "all" of them."""
    return _arrow.call_function(
        "map_lookup", [maps], _arrow.MapLookupOptions(query_key, occurrence)
    )


# Not in the module itself, where `any` and `min` would replace Python's.
_found: Final[dict[str, Any]] = {}


def __getattr__(name: str) -> Any:
    found = _found.get(name)
    if found is None:
        found = _found[name] = _find(name)
    return found


def _find(name: str) -> Any:
    if name in PLAIN:
        return _plain(name, PLAIN[name])
    if name in WITH_OPTIONS:
        return _with_options(name, getattr(_arrow, WITH_OPTIONS[name]))
    if name == "search_sorted" and hasattr(_arrow, "SearchSortedOptions"):  # pyarrow 26
        return _search_sorted
    if name == "Expression":
        return _arrow.Expression
    return getattr(importlib.import_module("pyarrow.compute"), name)


def _plain(name: str, registered: str) -> Any:
    def call(*args: Any, **options: Any) -> Any:
        if options or any(isinstance(a, _arrow.Expression) for a in args):
            return getattr(importlib.import_module("pyarrow.compute"), name)(*args, **options)
        return _arrow.call_function(registered, args)

    return call


def _with_options(name: str, options_class: Any) -> Any:
    def call(values: Any, *arguments: Any, **options: Any) -> Any:
        return _arrow.call_function(name, [values], options_class(*arguments, **options))

    return call


def _search_sorted(values: Any, wanted: Any, *, side: str = "left") -> Any:
    options = _arrow.SearchSortedOptions(side=side)
    return _arrow.call_function("search_sorted", [values, wanted], options)
