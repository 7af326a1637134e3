"""Literals: the types of Python values, nanoseconds, and rounding to FLOAT."""

import datetime as dt
import decimal
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.ir import types as ty
from skipstone.ir.coercion.coerce import cast_literal
from skipstone.ir.coercion.literals import literal_type, to_float32
from skipstone.ir.coercion.pullback import pullback
from skipstone.ir.session import Session

D = decimal.Decimal
SCHEMA = pa.schema([("x", pa.int64()), ("ns", pa.timestamp("ns"))])

with warnings.catch_warnings(action="ignore"):  # NumPy 2.5 advises against times without a unit
    GENERIC = np.datetime64("NaT")
NANO = 1_704_067_200_000_000_001
#  value  type  axis value
LITERALS = [
    (None, ty.NULL, None),
    (True, ty.BOOL, 1),
    (np.bool_(False), ty.BOOL, 0),
    (2**31 - 1, ty.INT32, 2**31 - 1),
    (2**31, ty.INT64, 2**31),
    (2**63, ty.decimal_type(19, 0), 2**63),
    (np.uint64(2**64 - 1), ty.decimal_type(20, 0), 2**64 - 1),
    (1.5, ty.DOUBLE, 1.5),
    (np.float32(1.5), ty.FLOAT, 1.5),
    (np.float16(1.5), ty.DOUBLE, 1.5),
    (D("1.50"), ty.decimal_type(3, 2), 150),
    (D("1E+3"), ty.decimal_type(4, 0), 1000),
    (D("1E-3"), ty.decimal_type(3, 3), 1),
    (D("-0"), ty.decimal_type(1, 0), 0),
    (dt.date(1970, 1, 2), ty.DATE, 1),
    (dt.time(0, 1, 0, 5), ty.TIME, 60_000_005),
    (dt.datetime(1970, 1, 2), ty.TIMESTAMP_NTZ, 86_400_000_000),
    (dt.datetime(1970, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=1))), ty.TIMESTAMP,
     82_800_000_000),
    (np.datetime64("2024-01-01", "D"), ty.TIMESTAMP_NTZ, NANO // 1000),
    (np.datetime64(NANO - 1, "ns"), ty.TIMESTAMP_NTZ, NANO // 1000),
    (np.datetime64(NANO, "ns"), ty.DType(ty.Kind.TIMESTAMP, unit="ns"), NANO),
    (pd.Timestamp(NANO), ty.DType(ty.Kind.TIMESTAMP, unit="ns"), NANO),
    (pd.Timestamp(NANO, tz="Asia/Tokyo"), ty.DType(ty.Kind.TIMESTAMP, unit="ns", zoned=True), NANO),
    (pd.Timestamp("2024-01-01"), ty.TIMESTAMP_NTZ, NANO // 1000),
    (np.datetime64("NaT", "us"), ty.NULL, None),
    (GENERIC, ty.NULL, None),
    (pd.NaT, ty.NULL, None),
    (pd.NA, ty.NULL, None),
    ("é", ty.STRING, "é".encode()),
    (np.str_("a"), ty.STRING, b"a"),
    (bytearray(b"\xff"), ty.BINARY, b"\xff"),
]  # fmt: skip


@pytest.mark.parametrize("value, dtype, axis", LITERALS, ids=[repr(v) for v, _, _ in LITERALS])
def test_literals(value, dtype, axis):
    assert literal_type(value) == (dtype, axis)


@pytest.mark.parametrize(
    "value",
    [
        D("NaN"),
        D("Infinity"),
        10**38,
        D("1E-39"),
        dt.time(1, tzinfo=dt.UTC),
        object(),
        [1],
        1j,
        "\ud800",
        np.datetime64(1, "ps"),
    ],
    ids=lambda v: type(v).__name__,
)
def test_no_literals(value):
    with pytest.raises(ss.PredicateError, match="is not a literal"):
        ss.col("x") == value  # noqa: B015


def test_nanoseconds_are_not_cut():
    """A bound of 1,000 ns lies below a literal of 1,001 ns; microseconds cannot tell them apart."""
    stats = ss.Statistics.from_dict(
        {
            "ns": {
                "min": pa.array([1000]).view(pa.timestamp("ns")),
                "max": pa.array([1000]).view(pa.timestamp("ns")),
            }
        },
        SCHEMA,
    )
    for literal in (
        np.datetime64(1001, "ns"),
        pd.Timestamp(1001),
        pa.scalar(1001, pa.timestamp("ns")),
    ):
        given = (
            ss.col("ns") < literal
            if not isinstance(literal, pa.Scalar)
            else pa.compute.field("ns") < literal
        )
        assert ss.PruningPredicate(given, SCHEMA).prune(stats).tolist() == [True]


@pytest.mark.parametrize(
    "value", [3.4028234663852886e38, -3.4028234663852886e38, 1e-46, 3.4028235e38, 1e39, 0.1, -0.0]
)
def test_float32_rounds_as_numpy_does(value):
    with np.errstate(over="ignore"):
        assert to_float32(value) == float(np.float32(value))


def test_zoned_and_zone_less_nanoseconds():
    """The digits below a microsecond survive a change of zone in both directions."""
    berlin, zoned, plain = (
        Session("Europe/Berlin"),
        ty.DType(ty.Kind.TIMESTAMP, unit="ns", zoned=True),
        ty.DType(ty.Kind.TIMESTAMP, unit="ns"),
    )
    hour = 3_600_000_000_000
    assert pullback(plain, zoned, NANO, berlin).low == NANO + hour
    assert cast_literal(NANO, plain, zoned, berlin) == NANO - hour
