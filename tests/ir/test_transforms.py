"""Partition transforms: the specification's examples, the ends of types, and pyiceberg's values."""

import datetime as dt
import random
import uuid
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from skipstone.ir import types as ty
from skipstone.ir.errors import UnsupportedForm
from skipstone.ir.partitioning.murmur import hash_bytes, hash_longs
from skipstone.ir.partitioning.transforms import Transform
from skipstone.ir.types import Kind, decimal_type, to_axis
from tests.support.predicates.transforms import MILLIS, NANOS, SECONDS, iceberg_types, python
from tests.support.rows.strategies import TEXTS, point

T = Transform.parse


def apply(transform, values, dtype):
    """Apply a transform to axis values, one by one, as Python objects."""
    if dtype.kind in (Kind.STRING, Kind.BINARY):
        return T(transform).apply(pa.array(values, pa.large_binary()), dtype).to_pylist()
    found = T(transform).apply(np.array(values, object if dtype.coded else dtype.numpy_type), dtype)
    return found.to_pylist() if isinstance(found, pa.Array) else found.tolist()


@pytest.mark.parametrize(
    "text, expected",
    [
        ("identity", Transform("identity")),
        ("bucket[16]", Transform("bucket", 16)),
        ("truncate[10]", Transform("truncate", 10)),
        ("TRUNCATE[2147483647]", Transform("truncate", 2**31 - 1)),
        ("Year", Transform("year")),
        ("void", Transform("void")),
    ],
)
def test_parse(text, expected):
    assert T(text) == expected
    assert str(expected) == text.lower()


UNKNOWN = (
    "bucket",
    "truncate",
    "bucket[0]",
    "bucket[-1]",
    "bucket[2147483648]",
    "bucket[4] ",
    "bucket[x]",
    "week",
    "zorder[4]",
    "day[3]",
    "",
    "buc\u212aet[4]",
    "bucket[٤]",
)


@pytest.mark.parametrize("text", UNKNOWN)
def test_unknown_transforms_allow_no_conclusion(text):
    assert str(T(text)) == text
    assert not T(text).supports(ty.INT32)
    assert not T(text).result_type(ty.INT32).ordered
    with pytest.raises(UnsupportedForm, match="of INT is not known"):
        T(text).apply(np.array([1]), ty.INT32)


#     transform     source               result
RESULTS = [
    ("identity",    ty.DOUBLE,           ty.DOUBLE),
    ("void",        ty.DOUBLE,           ty.DOUBLE),
    ("bucket[4]",   ty.STRING,           ty.INT32),
    ("bucket[4]",   decimal_type(38, 9), ty.INT32),
    ("bucket[4]",   ty.DOUBLE,           None),
    ("bucket[4]",   ty.BOOL,             None),
    ("truncate[4]", ty.INT64,            ty.INT64),
    ("truncate[4]", ty.INT8,             ty.INT32),
    ("truncate[4]", decimal_type(9, 2),  decimal_type(9, 2)),
    ("truncate[4]", ty.BINARY,           ty.BINARY),
    ("truncate[4]", ty.DATE,             None),
    ("year",        ty.DATE,             ty.INT32),
    ("month",       ty.TIMESTAMP,        ty.INT32),
    ("day",         ty.TIMESTAMP_NTZ,    ty.DATE),
    ("day",         ty.DATE,             ty.DATE),
    ("hour",        ty.TIMESTAMP,        ty.INT32),
    ("hour",        ty.DATE,             None),
    ("year",        ty.STRING,           None),
]  # fmt: skip


@pytest.mark.parametrize(
    "transform, source, result", RESULTS, ids=[f"{t}-{s}" for t, s, _ in RESULTS]
)
def test_result_types(transform, source, result):
    assert T(transform).supports(source) == (result is not None)
    assert T(transform).result_type(source) == (
        result or ty.DType(Kind.OTHER, name=f"partition by {transform}")
    )


MOMENT = dt.datetime(2017, 11, 16, 22, 31, 8)
#     the specification's appendix B, as signed integers
HASHES = [
    (34, ty.INT32, 2017239379),
    (34, ty.INT64, 2017239379),
    (Decimal("14.20"), decimal_type(9, 2), -500754589),
    (Decimal("14.20"), decimal_type(38, 2), -500754589),
    (dt.date(2017, 11, 16), ty.DATE, -653330422),
    (MOMENT, ty.TIMESTAMP_NTZ, -2047944441),
    (MOMENT, SECONDS, -2047944441),
    (MOMENT, MILLIS, -2047944441),
    (MOMENT, NANOS, -2047944441),
    (MOMENT.replace(microsecond=1), ty.TIMESTAMP_NTZ, -1207196810),
    (MOMENT.replace(tzinfo=dt.UTC), ty.TIMESTAMP, -2047944441),
    ("iceberg", ty.STRING, 1210000089),
    (uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes, ty.BINARY, 1488055340),
    (bytes(range(4)), ty.BINARY, -188683207),
]


@pytest.mark.parametrize("value, dtype, expected", HASHES, ids=[f"{v}-{t}" for v, t, _ in HASHES])
def test_hashes_of_the_specification(value, dtype, expected):
    # The largest number of buckets keeps all of the hash but its sign and its greatest value.
    assert apply("bucket[2147483647]", [to_axis(value, dtype)], dtype) == [expected & 0x7FFFFFFF]
    assert apply("bucket[7]", [to_axis(value, dtype)], dtype) == [(expected & 0x7FFFFFFF) % 7]


def test_nanoseconds_hash_as_microseconds():
    micros = to_axis(MOMENT, ty.TIMESTAMP_NTZ)
    assert apply(
        "bucket[1000]", [micros * 1000 + 1, micros * 1000 + 999, micros * 1000 - 1], NANOS
    ) == apply("bucket[1000]", [micros, micros, micros - 1], ty.TIMESTAMP_NTZ)


def test_murmur_is_the_well_known_one():
    mmh3 = pytest.importorskip("mmh3")
    r = random.Random(0)
    longs = [0, -1, 2**63 - 1, -(2**63), *(r.randint(-(2**63), 2**63 - 1) for _ in range(500))]
    assert hash_longs(np.array(longs)).tolist() == [
        mmh3.hash(v.to_bytes(8, "little", signed=True), signed=False) for v in longs
    ]
    texts = [b"", None, *(r.randbytes(r.randint(0, 40)) for _ in range(500)), None]
    array = pa.array(texts, pa.large_binary())
    for part in (array, array[3:99], array[1:2], array[:0], pa.nulls(2, pa.large_binary())):
        expected = [v and mmh3.hash(v, signed=False) for v in part.to_pylist()]
        assert [
            h if v else v for h, v in zip(hash_bytes(part).tolist(), part.to_pylist(), strict=True)
        ] == expected


#  transform  source  values  partition values
VALUES = [
    ("truncate[10]", ty.INT32, [1, 10, -1, 0, -10, 2**31 - 1], [0, 10, -10, 0, -10, 2147483640]),
    # wraps around, as Java does
    ("truncate[10]", ty.INT32, [-(2**31), -2147483640], [2147483646, -2147483640]),
    ("truncate[10]", ty.INT64, [-(2**63), 2**63 - 1], [2**63 - 2, 2**63 - 8]),
    ("truncate[200]", ty.INT8, [-128, 127], [-200, 0]),
    # a digit more
    ("truncate[50]", decimal_type(9, 2), [1065, -1, -999999999], [1050, -50, -1000000000]),
    ("truncate[10]", decimal_type(38, 0), [10**38 - 1, -(10**38) + 1], [10**38 - 10, -(10**38)]),
    ("truncate[3]", ty.STRING, [b"iceberg", b"", "日本語版".encode(), None],
     [b"ice", b"", "日本語".encode(), None]),
    ("truncate[2]", ty.STRING, ["\U0010ffff\ud7ff\ue000".encode()], ["\U0010ffff\ud7ff".encode()]),
    # code points, not characters as displayed
    ("truncate[3]", ty.STRING, ["e\u0301e\u0301".encode()], ["e\u0301e".encode()]),
    ("truncate[3]", ty.BINARY, [b"\xff\x00\xfe\xfd", b"\x00", None],
     [b"\xff\x00\xfe", b"\x00", None]),
    ("identity", ty.STRING, [b"a", None], [b"a", None]),
    ("void", ty.INT32, [1, 2], [None, None]),
    ("year", ty.DATE, [0, -1, -365, -366, 17486], [0, -1, -1, -2, 47]),
    ("month", ty.DATE, [0, -1, -31, -32, 17486, 30, 31], [0, -1, -1, -2, 574, 0, 1]),
    ("year", ty.DATE, [2**31 - 1, -(2**31)], [5879610, -5879611]),
    ("day", ty.DATE, [-1, 2**31 - 1], [-1, 2**31 - 1]),
    ("day", ty.TIMESTAMP, [0, -1, -86_400_000_000, -86_400_000_001], [0, -1, -1, -2]),
    ("hour", ty.TIMESTAMP_NTZ, [0, -1, 3_600_000_000, -3_600_000_001], [0, -1, 1, -2]),
    # wraps around
    ("hour", ty.TIMESTAMP, [2**63 - 1, -(2**63)], [2562047788 - 2**32, 2**32 - 2562047789]),
    ("hour", NANOS, [2**63 - 1, -(2**63)], [2562047, -2562048]),
    # 29 February and 1 March 2000
    ("month", ty.TIMESTAMP, [-1, 951782400_000_000, 951868800_000_000], [-1, 361, 362]),
    ("year", NANOS, [-1, 0], [-1, 0]),
    ("day", SECONDS, [-1, 86400], [-1, 1]),
    ("bucket[5]",      ty.STRING,         [],                                                 []),
    ("bucket[1]", ty.INT8, [-128, 127], [0, 0]),
]  # fmt: skip


@pytest.mark.parametrize(
    "transform, dtype, values, expected",
    VALUES,
    ids=[f"{t}-{d}-{i}" for i, (t, d, _, _) in enumerate(VALUES)],
)
def test_values(transform, dtype, values, expected):
    assert apply(transform, values, dtype) == expected


@pytest.mark.parametrize("name", ["year", "month"])
@pytest.mark.parametrize(
    "dtype, unit", [(ty.DATE, "D"), (ty.TIMESTAMP, "us"), (NANOS, "ns"), (MILLIS, "ms")]
)
def test_calendar_is_numpys(name, dtype, unit):
    r = random.Random(1)
    values = np.array(
        [
            dtype.lowest + 1,
            dtype.highest,
            *(
                r.randint(dtype.lowest // k, dtype.highest // k)
                for k in (1, 100, 10**6)
                for _ in range(500)
            ),
        ],
        np.int64,
    )
    if unit == "ms":
        values //= 10**6  # NumPy's calendar overflows beyond this, and its lowest value is NaT
    expected = (
        values.view(f"datetime64[{unit}]").astype(f"datetime64[{name[0].upper()}]").astype(np.int64)
    )
    assert T(name).apply(values, dtype).tolist() == expected.tolist()
    assert [T(name).floor(int(v), dtype) for v in values[:50]] == expected[:50].tolist()


@pytest.mark.parametrize(
    "text",
    [
        "identity",
        "bucket[16]",
        "bucket[2147483647]",
        "truncate[1]",
        "truncate[7]",
        "truncate[1000003]",
        "year",
        "month",
        "day",
        "hour",
        "void",
    ],
)
def test_values_are_pyicebergs(text):
    transforms = pytest.importorskip("pyiceberg.transforms")
    theirs, ours, r = transforms.parse_transform(text), T(text), random.Random(text)
    seen = 0
    for dtype, iceberg in iceberg_types().items():
        assert ours.supports(dtype) == theirs.can_transform(iceberg), dtype
        if not ours.supports(dtype):
            continue
        values = [point(r, dtype, r.choice((-9, 0, 9, -20000)), wild=0.1) for _ in range(300)]
        if dtype == ty.STRING:
            values += [v.encode() for v in TEXTS]
        if dtype.kind in (Kind.DATE, Kind.TIMESTAMP):
            # pyiceberg uses Python's calendar, of the years 1 to 9999.
            unit = {"us": 86400 * 10**6, "ns": 86400 * 10**9}.get(dtype.unit, 1)
            values = [v for v in values if -700_000 < v // unit < 2_900_000] + [
                -1,
                0,
                1,
                -unit,
                -unit - 1,
                unit * 59,
                unit * -2_000,
            ]
        wanted = [theirs.transform(iceberg)(python(v, dtype)) for v in values]
        wanted = [
            w if w is None or ours.name not in ("identity", "truncate") else axis(w, dtype)
            for w in wanted
        ]
        if ours.name == "truncate" and dtype.kind is Kind.INT:
            # pyiceberg's integers are unbounded; Java's wrap around.
            wanted = [(w - dtype.lowest) % 2**dtype.bits + dtype.lowest for w in wanted]
        assert apply(text, values, dtype) == wanted
        seen += len(values)
    assert seen > 300


def axis(v, dtype):
    return to_axis(v, dtype) if dtype.kind in (Kind.DECIMAL, Kind.STRING) else v
