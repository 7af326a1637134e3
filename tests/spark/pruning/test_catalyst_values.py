"""Values of IN lists, which may be long, are converted together as they are one by one."""

import math

import pytest

from skipstone.bindings.spark.pruning.catalyst_calls import value_of, values_of
from skipstone.ir import types as ty

BAD = object()
#    type, values as `Json.java` writes them, axis values; BAD for a value that is not supported
VALUES = [
    (ty.INT64, [3, None, -1], [3, None, -1]),
    (ty.INT64, [3, True], [3, BAD]),
    (ty.INT64, [3, {"other": "java.lang.Object"}], [3, BAD]),
    (ty.BOOL, [True, None, False], [1, None, 0]),
    (ty.BOOL, [True, 1], [1, BAD]),
    (ty.DATE, [-141428, 0], [-141428, 0]),
    (ty.DOUBLE, [{"float": "-0.0"}, {"float": "Infinity"}, None], [0.0, math.inf, None]),
    (ty.DOUBLE, [{"float": "-Infinity"}, {"float": "1.0E-7"}], [-math.inf, 1e-7]),
    (ty.DOUBLE, [{"float": "1.5"}, {"bytes": "31"}], [1.5, BAD]),
    (ty.decimal_type(5, 2), [{"decimal": "1.50"}, {"decimal": "-0.01"}], [150, -1]),
    (ty.STRING, [{"bytes": "61"}, {"bytes": ""}, {"bytes": "c3a9"}], [b"a", b"", b"\xc3\xa9"]),
    (ty.STRING, [{"bytes": "c3"}, {"bytes": "a9"}], [BAD, BAD]),  # together, they would be a text
    (ty.BINARY, [{"bytes": "c3"}, None], [b"\xc3", None]),
    (ty.STRING, [], []),
]


@pytest.mark.parametrize("dtype, given, expected", VALUES)
def test_values_of_one_type(dtype, given, expected):
    assert values_of(given, dtype) == (None if BAD in expected else expected)
    assert values_of(given, None) is None
    for one, axis in zip(given, expected, strict=True):
        found = value_of(one, dtype)
        assert found is None if axis is BAD else (found.value, found.dtype) == (axis, dtype)


def test_nan_and_zero():
    nan, zero = values_of([{"float": "NaN"}, {"float": "-0.0"}], ty.FLOAT)
    assert math.isnan(nan) and math.copysign(1, zero) == 1
