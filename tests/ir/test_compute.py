"""Functions that are called without `pyarrow.compute` return what its own return."""

import subprocess
import sys

import pyarrow as pa
import pyarrow.compute as theirs
import pytest

from skipstone.ir import compute

A = pa.array([3, None, 1, 3, 2])
B = pa.array([1, 2, None, 4, 2])
T = pa.array([True, False, None, True, False])
U = pa.array([False, None, None, True, True])
TEXT = pa.array(["b", None, "a", "b", ""])
CHUNKED = pa.chunked_array([[3, None], [1, 3, 2]])
TABLE = pa.table({"a": A, "s": TEXT})
STRUCTS = pa.array([{"a": 1, "b": {"c": "x"}}, None, {"a": None, "b": None}])
MAPS = pa.array([[("k", 1), ("k", 2)], [], None, [("l", 3)]], pa.map_(pa.string(), pa.int64()))

PLAIN = {
    **{name: [(A, B), (CHUNKED, B), (A, pa.scalar(2)), (TEXT, pa.scalar("b"))]
       for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")},
    **{name: [(A,), (CHUNKED,), (TEXT,)]
       for name in ("is_valid", "is_null", "dictionary_encode", "unique", "array_sort_indices")},
    "invert": [(T,)],
    "and_": [(T, U)],
    "or_": [(T, U), (T, pa.scalar(True))],
    "if_else": [(T, A, B), (U, TEXT, pa.scalar("x"))],
    "coalesce": [(A, B), (CHUNKED, pa.scalar(0))],
    "binary_length": [(TEXT,)],
    **{name: [(A, B), (CHUNKED, B), (A, pa.scalar(2))] for name in ("add", "subtract", "multiply")},
    "and_not": [(T, U)],
    "utf8_upper": [(TEXT,)],
    "is_nan": [(pa.array([1.5, None, float("nan")]),)],
    "is_inf": [(pa.array([1.5, float("inf"), None, float("nan")]),)],
    "drop_null": [(A,), (CHUNKED,), (TEXT,)],
    **{name: [(T,), (U,), (pa.array([], pa.bool_()),)] for name in ("any", "all")},
    **{name: [(A,), (CHUNKED,), (pa.array([], pa.int64()),)]
       for name in ("sum", "min", "max", "min_max")},
    **{name: [(TEXT,), (pa.array(["aB", "\u00e9"]),)]
       for name in ("ascii_upper", "ascii_lower", "utf8_length", "utf8_reverse",
                    "string_is_ascii")},
    "binary_reverse": [(pa.array([b"ab", None]),)],
    "binary_repeat": [(TEXT, pa.scalar(3))],
    "list_value_length": [(pa.array([[1, 2], [], None]),)],
    "or_kleene": [(T, U), (T, pa.scalar(True))],
    "binary_join": [(pa.array([["a", "b"], [], None]), pa.scalar("-"))],
}  # fmt: skip


@pytest.mark.parametrize("name", compute.PLAIN)
def test_plain_functions(name):
    for arguments in PLAIN[name]:
        found, expected = (getattr(m, name)(*arguments) for m in (compute, theirs))
        assert found.type == expected.type and found.equals(expected), arguments


CASES = [
    ("cast", (A, pa.int8()), {}),
    ("cast", (CHUNKED, pa.string()), {}),
    ("cast", (pa.scalar(5), pa.int8()), {}),
    ("cast", (pa.array([1.5]), pa.int8()), {"safe": False}),
    ("take", (A, pa.array([4, None, 0])), {}),
    ("take", (TABLE, pa.array([4, 0])), {}),
    ("take", (CHUNKED, pa.array([4, 0])), {}),
    ("filter", (A, T), {}),
    ("filter", (TABLE, T), {}),
    ("filter", (TABLE.to_batches()[0], T), {}),
    ("is_in", (A, ), {"value_set": pa.array([2, None])}),
    ("is_in", (TEXT, ), {"value_set": pa.array(["b"])}),
    ("is_null", (pa.array([1.0, float("nan"), None]), ), {"nan_is_null": True}),
    ("min_max", (A, ), {}),
    ("struct_field", (STRUCTS, "a"), {}),
    ("struct_field", (STRUCTS, ["b", "c"]), {}),
    ("struct_field", (pa.chunked_array([STRUCTS]), "b"), {}),
    ("map_lookup", (MAPS, pa.scalar("k"), "first"), {}),
    ("map_lookup", (MAPS, pa.scalar("k"), "all"), {}),
    ("match_substring", (TEXT, "b"), {}),
    ("match_substring", (TEXT, "B"), {"ignore_case": True}),
    ("match_substring_regex", (TEXT, "^[ab]$"), {}),
    ("starts_with", (pa.chunked_array([TEXT]), "a"), {}),
    ("ends_with", (TEXT, ""), {}),
    ("find_substring", (TEXT, ), {"pattern": "b"}),
    ("replace_substring", (TEXT, "b", "c"), {}),
    ("replace_substring", (TEXT, ), {"pattern": "b", "replacement": "c"}),
    ("replace_substring_regex", (TEXT, "^b|a$", ""), {}),
    ("utf8_slice_codeunits", (TEXT, 0, 1), {}),
    ("utf8_slice_codeunits", (TEXT, -1), {}),
    ("binary_slice", (TEXT.cast(pa.binary()), 0, 1), {}),
    ("utf8_lpad", (TEXT, 3, "x"), {}),
    ("utf8_rpad", (TEXT, ), {"width": 3, "padding": "x"}),
    *((name, (TEXT, "b"), {})
      for name in ("utf8_trim", "ascii_trim", "ascii_ltrim", "ascii_rtrim")),
    ("sort_indices", (A, ), {}),
    ("sort_indices", (TABLE, [("a", "descending"), ("s", "ascending")]), {}),
    ("sort_indices", (CHUNKED, ), {"sort_keys": [("", "descending")]}),
    ("select_k_unstable", (pa.array([3, 1, 2]), ), {"k": 2, "sort_keys": [("", "descending")]}),
    ("index_in", (TEXT, pa.array(["a", "b"])), {}),
    ("index_in", (A, ), {"value_set": pa.array([3, None])}),
]  # fmt: skip


def test_cases_cover_functions_with_options():
    assert {name for name, _, _ in CASES} >= compute.WITH_OPTIONS.keys()


@pytest.mark.parametrize(("name", "arguments", "options"), CASES)
def test_functions_with_options(name, arguments, options):
    found, expected = (getattr(m, name)(*arguments, **options) for m in (compute, theirs))
    assert found.equals(expected)


@pytest.mark.skipif(not hasattr(theirs, "search_sorted"), reason="pyarrow 26")
@pytest.mark.parametrize("side", ["left", "right"])
def test_search_sorted(side):
    for values, wanted in ((pa.array([1, 2, 2, 5]), pa.array([0, 2, 9])),):
        found = compute.search_sorted(values, wanted, side=side)
        assert found.equals(theirs.search_sorted(values, wanted, side=side))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda m: m.cast(pa.array([300]), pa.int8()), pa.ArrowInvalid),
        (lambda m: m.cast(pa.array([1.5]), pa.int8()), pa.ArrowInvalid),
        (lambda m: m.take(A, pa.array([9])), pa.ArrowIndexError),
        (lambda m: m.invert(A), pa.ArrowNotImplementedError),
        (lambda m: m.equal(A, TEXT), pa.ArrowNotImplementedError),
        (lambda m: m.no_such_function(A), AttributeError),
    ],
)
def test_errors_are_the_same(call, error):
    messages = []
    for module in (compute, theirs):
        with pytest.raises(error) as e:
            call(module)
        messages.append(str(e.value))
    assert messages[0] == messages[1]


def test_names_of_python_stay_pythons():
    assert compute.any(T).as_py() and compute.min(A).as_py() == 1
    assert compute.sum(A).as_py() == 9 and compute.all(T).as_py() is False
    assert compute.invert(T).equals(theirs.invert(T))  # uses Python's `any`


def test_expressions():
    made = compute.less(compute.field("a"), 3)
    assert isinstance(made, compute.Expression) and str(made) == str(theirs.field("a") < 3)


def test_a_pyarrow_without_the_private_module_has_all_functions():
    code = """
import sys
import pyarrow.compute as pc
import pyarrow as pa
del sys.modules["pyarrow._compute"].TakeOptions
from skipstone.ir import compute
assert compute._arrow is pc
assert compute.take(pa.array([1, 2]), pa.array([1])).to_pylist() == [2]
"""
    subprocess.run([sys.executable, "-c", code], check=True)
