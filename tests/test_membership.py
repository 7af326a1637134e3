"""Value lists and bloom filters: what they settle under every form, and that no value of a real file is ever denied."""

import datetime as dt
import decimal
import functools
import math
import random
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.membership import Blooms, encodings, in_lists
from skipstone.ir import oracle
from skipstone.ir import types as ty
from skipstone.ir.errors import UnsupportedForm
from skipstone.ir.rows import evaluate_rows
from skipstone.ir.types import from_arrow, leaves_of, to_axis
from tests.blooms import bloom, blooms_of
from tests.predicates import predicate
from tests.spark_session import QUIET, spark  # noqa: F401
from tests.strategies import array_of, table

pytestmark = pytest.mark.filterwarnings(QUIET)
D = decimal.Decimal
NAN = math.nan
NEVER, MAYBE, ALWAYS = ss.Verdict
SCHEMA = pa.schema([("x", pa.int64()), ("f", pa.float64()), ("s", pa.string()), ("y", pa.int64()), ("a", pa.struct([("b", pa.int64())]))])


def verdicts(where, values=None, filters=None, backend="numpy", column="x", **more):
    given = {"values": values, "bloom": filters, **more}
    stats = ss.Statistics.from_dict({column: {k: v for k, v in given.items() if v is not None}}, SCHEMA)
    found = ss.PruningPredicate(where, SCHEMA).evaluate(stats, backend).tolist()
    assert ss.PruningPredicate(where, SCHEMA).prune(stats, backend).tolist() == [v != NEVER for v in found]
    return found


LISTS = [[1, 2], [1, 5], [5, 6], [], None]

#    where                              [1, 2]  [1, 5]  [5, 6]  []      unknown     no NULLs
UNDER = [
    ("x = 1",                           (MAYBE,  MAYBE,  NEVER,  NEVER,  MAYBE)),
    ("x <> 1",                          (MAYBE,  MAYBE,  ALWAYS, ALWAYS, MAYBE)),
    ("x IN (1, 2)",                     (ALWAYS, MAYBE,  NEVER,  NEVER,  MAYBE)),
    ("x NOT IN (1, 2)",                 (NEVER,  MAYBE,  ALWAYS, ALWAYS, MAYBE)),
    ("x IN (1, 2) OR x > 100",          (ALWAYS, MAYBE,  MAYBE,  MAYBE,  MAYBE)),
    ("x IN (1, 2) AND x + 1 > 100",     (MAYBE,  MAYBE,  NEVER,  NEVER,  MAYBE)),
    ("x NOT IN (1, 2) OR y = 3",        (MAYBE,  MAYBE,  ALWAYS, ALWAYS, MAYBE)),
    ("NOT (x IN (1, 2) OR y = 3)",      (NEVER,  MAYBE,  MAYBE,  MAYBE,  MAYBE)),
    ("NOT (x NOT IN (1, 2) AND y = 3)", (ALWAYS, MAYBE,  MAYBE,  MAYBE,  MAYBE)),
    ("x = 1 OR x = 6",                  (MAYBE,  MAYBE,  MAYBE,  NEVER,  MAYBE)),
    ("(x IN (1, 2)) IS TRUE",           (ALWAYS, MAYBE,  NEVER,  NEVER,  MAYBE)),
    ("x <=> 1",                         (MAYBE,  MAYBE,  NEVER,  NEVER,  MAYBE)),
    ("x IN (1, 2, NULL)",               (ALWAYS, MAYBE,  NEVER,  NEVER,  MAYBE)),
    ("x NOT IN (1, NULL)",              (NEVER,  NEVER,  NEVER,  NEVER,  NEVER)),
]  # fmt: skip


@pytest.mark.parametrize("where, expected", UNDER)
def test_value_lists(where, expected, backend):
    assert verdicts(where, LISTS, backend=backend, null_count=[0] * 5) == list(expected)
    # A row of NULL matches none of these, so ALWAYS is gone and NEVER stays.
    some_null = [MAYBE if v is ALWAYS else v for v in expected]
    assert verdicts(where, LISTS, backend=backend, null_count=[1] * 5) == some_null
    assert verdicts(where, LISTS, backend=backend) == some_null


def test_all_null_is_not_a_value(backend):
    for where in ("x = 1", "x <> 1", "x NOT IN (1, 2)"):
        assert verdicts(where, [[]], backend=backend, null_count=[3], row_count=[3]) == [NEVER]
    assert verdicts("x = 1 OR x IS NULL", [[]], backend=backend, null_count=[3], row_count=[3]) == [ALWAYS]


#    where                                  lists                                      expected
FLOATS = [
    ("f = 1",                               [[NAN], [1.0, NAN], [1.0]],                [NEVER, MAYBE, ALWAYS]),
    ("f <> 1",                              [[NAN], [1.0, NAN], [1.0]],                [ALWAYS, MAYBE, NEVER]),
    ("NOT (f IN (1, 2))",                   [[NAN], [1.0, NAN], [1.0, 2.0]],           [ALWAYS, MAYBE, NEVER]),
    ("f = CAST('NaN' AS DOUBLE)",           [[NAN], [1.0, NAN], [1.0]],                [ALWAYS, MAYBE, NEVER]),
    ("f = 0.0D",                            [[-0.0], [0.0], [-0.0, 1.0], [1.0]],       [ALWAYS, ALWAYS, MAYBE, NEVER]),
    ("f <> -0.0D",                          [[-0.0], [0.0], [-0.0, 1.0], [1.0]],       [NEVER, NEVER, MAYBE, ALWAYS]),
    ("f > 5",                               [[NAN], [1.0], [9.0]],                     [ALWAYS, MAYBE, MAYBE]),
]  # fmt: skip


@pytest.mark.parametrize("where, lists, expected", FLOATS)
def test_nan_and_zero_in_lists(where, lists, expected, backend):
    nans = [sum(v != v for v in values) for values in lists]
    found = verdicts(where, lists, backend=backend, column="f", null_count=[0] * len(lists), nan_count=nans, row_count=[len(v) for v in lists])
    assert found == expected
    # Without the counts, a list still never denies what it holds.
    for values, v in zip(lists, verdicts(where, lists, backend=backend, column="f"), strict=True):
        if v == NEVER:
            assert not any(_matches(where, value) for value in values)


def _matches(where, value):
    rows = pa.table({"f": pa.array([value])})
    return evaluate_rows(ss.PruningPredicate(where, SCHEMA).node, rows).to_pylist() == [True]


DAY, MOMENT = dt.date(2024, 1, 2), dt.datetime(2024, 1, 2, 3, 4, 5, 6)
#    type                        a      b      c
TYPES = [
    (pa.bool_(),                 True,  None,  False),
    (pa.int8(),                  -128,  127,   5),
    (pa.int16(),                 -3,    4,     5),
    (pa.int32(),                 -2**31, 7,    2**31 - 1),
    (pa.int64(),                 -2**63, 7,    2**63 - 1),
    (pa.uint8(),                 0,     255,   7),
    (pa.uint32(),                0,     7,     2**32 - 1),
    (pa.uint64(),                0,     7,     2**64 - 1),
    (pa.float32(),               0.5,   -0.0,  0.25),
    (pa.float64(),               0.1,   -0.0,  1e300),
    (pa.string(),                "",    "é",   "日本"),
    (pa.large_string(),          "a",   "b",   "c"),
    (pa.dictionary(pa.int8(), pa.string()), "a", "b", "c"),
    (pa.binary(),                b"",   b"\0", b"\xff"),
    (pa.binary(2),               b"ab", b"cd", b"ef"),
    (pa.date32(),                DAY,   dt.date(1500, 1, 1), dt.date(9999, 1, 1)),
    (pa.timestamp("us"),         MOMENT, dt.datetime(1, 1, 1), dt.datetime(9999, 1, 1)),
    (pa.timestamp("ns", "UTC"),  MOMENT.replace(tzinfo=dt.UTC), dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(1700, 1, 1, tzinfo=dt.UTC)),
    (pa.decimal128(9, 2),        D("1.50"), D("-0.01"), D("9999999.99")),
    (pa.decimal128(38, 10),      D("1.5"), D("-1234567890123456789012345678.0000000001"), D("0")),
]  # fmt: skip


@pytest.mark.parametrize("kind, a, b, c", TYPES, ids=[str(t[0]) for t in TYPES])
def test_lists_of_every_type(kind, a, b, c):
    dtype = from_arrow(kind)
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    members = [v for v in (a, b) if v is not None]
    lists = pa.array([members, [a, c], [c], [a], [], None], pa.list_(inner))
    chosen = tuple(to_axis(v, dtype) + 0.0 if isinstance(v, float) else to_axis(v, dtype) for v in members)
    expected = [True, None, False, True, False, None]
    assert in_lists(lists, chosen, dtype).to_pylist() == expected
    for other in (pa.large_list(inner), pa.list_view(inner)):
        assert in_lists(pa.array(lists.to_pylist(), other), chosen, dtype).to_pylist() == expected
    assert in_lists(lists[1:4], chosen, dtype).to_pylist() == expected[1:4]
    schema = pa.schema([("c", kind)])
    made = ss.Statistics.from_dict({"c": {"values": lists.to_pylist()}}, schema, row_count=[1] * 6)
    again = ss.Statistics.from_dict({"c": {"values": lists}}, schema, row_count=[1] * 6)
    p = ss.PruningPredicate(ss.col("c").isin(members), schema)
    assert p.prune(made).tolist() == p.prune(again).tolist() == [e is not False for e in expected]


#    lists of another type, or with what is no value       set            answers
ODD = [
    (pa.array([[1, None], [2]]),                            (1,),         [None, False]),      # an element that is unknown
    (pa.array([[1.0], [2.0]]),                              (1,),         None),
    (pa.array([["1"], []]),                                 (1,),         None),
    (pa.array([1, 2]),                                      (1,),         None),               # no lists at all
    (pa.array([[1], [2**63]], pa.list_(pa.uint64())),       (1,),         [True, None]),
    (pa.array([[1], [2]], pa.list_(pa.int8())),             (1,),         [True, False]),
    (pa.array([[], [None]], pa.list_(pa.int64())),          (1,),         [False, None]),
    (pa.array([], pa.list_(pa.int64())),                    (1,),         []),
]  # fmt: skip


@pytest.mark.parametrize("lists, chosen, expected", ODD)
def test_odd_lists(lists, chosen, expected):
    found = in_lists(lists, chosen, ty.INT64)
    if expected is None:
        assert found is None or not any(v is not None and len(lists[i]) for i, v in enumerate(found.to_pylist()))
    else:
        assert found.to_pylist() == expected


def test_what_lies_under_a_null_list_is_not_counted():
    hidden = pa.ListArray.from_arrays(pa.array([0, 2, 4, 6]), pa.array([1, 1, 7, 7, 7, 7]), mask=pa.array([False, True, False]))
    assert in_lists(hidden, (1,), ty.INT64).to_pylist() == [True, None, False]
    assert in_lists(hidden, (7,), ty.INT64).to_pylist() == [False, None, True]


def test_ticks_between_those_of_the_column():
    lists = pa.array([[1_000], [1_500], [2_000]]).cast(pa.list_(pa.timestamp("ns")))
    assert in_lists(lists, (1,), ty.TIMESTAMP_NTZ).to_pylist() == [True, None, False]


@pytest.mark.parametrize("seed", range(20))
def test_random_lists_equal_the_oracle(seed, backend):
    """The oracle is told what `contained` means in one line of Python; everything else is its own."""
    r = random.Random(seed)
    n = r.choice([1, 7, 70])
    pool = range(-2, 6)
    lists = [None if r.random() < 0.2 else [r.choice(pool) for _ in range(r.randrange(4))] for _ in range(n)]
    nulls = [r.choice([0, 1, None]) for _ in range(n)]
    bounded = r.random() < 0.5
    low = [min(v) if v and bounded and r.random() < 0.7 else None for v in lists]
    high = [max(v) if v and bounded and r.random() < 0.7 else None for v in lists]
    stats = ss.Statistics.from_dict({"x": {"values": lists, "null_count": nulls, "min": low, "max": high}}, SCHEMA)

    def contained(values, chosen):
        if values is None:
            return None
        return False if not set(values) & set(chosen) else True if set(values) <= set(chosen) else None

    for _ in range(4 if backend == "numba" else 30):  # Numba compiles each shape
        p = ss.PruningPredicate(_random(r, 2), SCHEMA)
        expected = []
        for i in range(n):
            facts = oracle.column_facts(ty.INT64, low=low[i], high=high[i], null_count=nulls[i])
            facts = oracle.ColumnFacts(facts.low, facts.high, facts.may_hold_values, facts.may_hold_null, False, functools.partial(contained, lists[i]))
            y = oracle.column_facts(ty.INT64)
            expected.append(oracle.verdict(p.node, {("x",): facts, ("y",): y}))
        assert p.evaluate(stats, backend).tolist() == expected, p
        # And no row is lost: a container whose values hold a match is kept, whatever is said of it.
        for i, values in enumerate(lists):
            for v in values or ():
                if _row(p, v):
                    assert expected[i] != NEVER


def _row(p, v):
    return evaluate_rows(p.node, pa.table({"x": pa.array([v], pa.int64()), "y": pa.array([3], pa.int64())})).to_pylist() == [True]


def _random(r, depth):
    if depth and r.random() < 0.7:
        parts = [_random(r, depth - 1) for _ in range(r.choice([1, 2, 3]))]
        if len(parts) == 1:
            return f"NOT ({parts[0]})"
        return "(" + r.choice([" AND ", " OR "]).join(parts) + ")"
    members = ", ".join(str(r.randrange(-3, 7)) for _ in range(r.choice([1, 2, 4])))
    return r.choice([f"x IN ({members})", f"x NOT IN ({members})", f"x = {r.randrange(-3, 7)}", f"x <> {r.randrange(-3, 7)}", "x < 3", "x IS NULL", "y = 3"])


# Bloom filters.


def of_longs(*values, blocks=8):
    return bloom([v.to_bytes(8, "little", signed=True) for v in values], blocks)


FILTERS = [of_longs(1, 2), of_longs(9), None, b"", b"x" * 33, of_longs(), of_longs(1).ljust(512, b"\0")]

#    where                                [1, 2]  [9]    None   empty  33 B   none
PROBED = [
    ("x = 1",                             (MAYBE, NEVER, MAYBE, MAYBE, MAYBE, NEVER)),
    ("x IN (1, 9)",                       (MAYBE, MAYBE, MAYBE, MAYBE, MAYBE, NEVER)),
    ("x IN (3, 4)",                       (NEVER, NEVER, MAYBE, MAYBE, MAYBE, NEVER)),
    ("x <> 1",                            (MAYBE, ALWAYS, MAYBE, MAYBE, MAYBE, ALWAYS)),
    ("NOT (x IN (1, 3))",                 (MAYBE, ALWAYS, MAYBE, MAYBE, MAYBE, ALWAYS)),
    ("x = 3 OR x = 4",                    (NEVER, NEVER, MAYBE, MAYBE, MAYBE, NEVER)),
    ("x = 3 OR y = 1",                    (MAYBE, MAYBE, MAYBE, MAYBE, MAYBE, MAYBE)),
    ("(x = 3 OR y = 1) AND x = 9",        (NEVER, MAYBE, MAYBE, MAYBE, MAYBE, NEVER)),
    ("NOT (x <> 3 OR y = 1)",             (NEVER, NEVER, MAYBE, MAYBE, MAYBE, NEVER)),
    ("x > 100",                           (MAYBE, MAYBE, MAYBE, MAYBE, MAYBE, MAYBE)),
]  # fmt: skip


@pytest.mark.parametrize("where, expected", PROBED)
def test_blooms(where, expected, backend):
    assert verdicts(where, None, FILTERS[:6], backend=backend, null_count=[0] * 6) == list(expected)


def test_many_values_and_many_containers():
    r = random.Random(1)
    values = [r.randrange(-(2**63), 2**63) for _ in range(3000)]
    filters = [of_longs(*values[i : i + 10], blocks=r.choice([1, 2, 3, 32])) for i in range(0, 3000, 10)]
    blooms = Blooms(pa.array(filters), ty.INT64)
    for chosen in (values[:1], values[5:500], values, [r.randrange(2**60) for _ in range(50)]):
        found = blooms.absent(chosen)
        for i in range(300):
            assert not (found[i] and set(values[10 * i : 10 * i + 10]) & set(chosen))
        few = chosen[:20]
        assert blooms.absent(few).tolist() == np.all([blooms.absent([v]) for v in few], axis=0).tolist()
    assert Blooms(pa.array([], pa.binary()), ty.INT64).absent([1]).tolist() == []
    assert Blooms(pa.array([1, 2]), ty.INT64).absent([1]).tolist() == [False, False]


#    type            value               encodings
ENCODED = [
    (ty.INT8,        -1,                 [b"\xff\xff\xff\xff"]),
    (ty.INT64,       5,                  [b"\5\0\0\0\0\0\0\0", b"\5\0\0\0"]),         # the file may be older than the column's width
    (ty.INT64,       -(2**40),           [(-(2**40)).to_bytes(8, "little", signed=True)]),
    (ty.DATE,        1,                  [b"\1\0\0\0"]),
    (ty.DATE,        -200_000,           None),                                        # the Julian calendar in legacy files
    (ty.DOUBLE,      0.0,                [b"\0" * 8, b"\0" * 7 + b"\x80", b"\0" * 4, b"\0" * 3 + b"\x80"]),
    (ty.DOUBLE,      0.1,                [b"\x9a\x99\x99\x99\x99\x99\xb9?"]),
    (ty.BOOL,        1,                  None),
    (ty.TIMESTAMP,   1,                  None),
    (ty.decimal_type(9, 2), 150,         None),
    (ty.STRING,      "é".encode(),       [b"\xc3\xa9"]),
]  # fmt: skip


@pytest.mark.parametrize("dtype, value, expected", ENCODED)
def test_encodings(dtype, value, expected):
    assert encodings(value, dtype) == expected


def test_what_is_not_certain_denies_nothing(backend):
    empty = bytes(32)
    schema = pa.schema([("b", pa.bool_()), ("t", pa.timestamp("us")), ("m", pa.decimal128(9, 2)), ("d", pa.date32()), ("x", pa.int64())])
    stats = ss.Statistics.from_dict({c: {"bloom": [empty]} for c in schema.names}, schema)
    for where in ("b", "t = TIMESTAMP_NTZ '2024-01-01 00:00:00'", "m = 1.50", "d = DATE '1500-01-01'", "d IN (DATE '1500-01-01', DATE '2000-01-01')"):
        assert ss.PruningPredicate(where, schema).prune(stats, backend).tolist() == [True], where
    for where in ("d = DATE '2000-01-01'", "x = 5", "d = DATE '2000-01-01' AND b"):
        assert ss.PruningPredicate(where, schema).prune(stats, backend).tolist() == [False], where


def test_a_predicate_over_a_wider_schema():
    old = pa.schema([("x", pa.int32()), ("f", pa.float32())])
    stats = ss.Statistics.from_dict({"x": {"bloom": [bloom([b"\5\0\0\0"])]}, "f": {"values": [[0.5]]}}, old)
    new = pa.schema([("x", pa.int64()), ("f", pa.float64())])
    assert [ss.PruningPredicate(w, new).prune(stats).tolist()[0] for w in ("x = 5", "x = 6", "f = 0.5D", "f = 0.1D")] == [True, False, True, False]
    text = pa.schema([("x", pa.string()), ("f", pa.string())])
    assert ss.PruningPredicate("x = 'a' AND f = 'a'", text).prune(stats).tolist() == [True]


class Provider:
    num_containers = 3

    def __init__(self, answer):
        self.answer = answer

    def contained(self, column, values):
        return self.answer


#    lists                   provider                        x = 1                       x <> 1
JOINED = [
    ([[1], [2], None],       [None, None, False],            [ALWAYS, NEVER, NEVER],     [NEVER, ALWAYS, ALWAYS]),
    ([None, None, None],     [True, False, None],            [ALWAYS, NEVER, MAYBE],     [NEVER, ALWAYS, MAYBE]),
    ([[1], [2], [1]],        [False, True, True],            [MAYBE, MAYBE, ALWAYS],     [MAYBE, MAYBE, NEVER]),  # they contradict each other
]  # fmt: skip


@pytest.mark.parametrize("lists, answer, equal, unequal", JOINED)
def test_lists_beside_a_provider(lists, answer, equal, unequal, backend):
    made = ss.Statistics.from_dict({"x": {"values": lists, "null_count": [0] * 3}}, SCHEMA)
    both = ss.Statistics(SCHEMA, 3, made._raw, members=made._members, contained=Provider(pa.array(answer)).contained)
    assert ss.PruningPredicate("x = 1", SCHEMA).evaluate(both, backend).tolist() == equal
    assert ss.PruningPredicate("x <> 1", SCHEMA).evaluate(both, backend).tolist() == unequal


# Real files.

N, FPP = 3000, 0.01


def column_values(kind, n, r):
    if pa.types.is_boolean(kind):
        return [True] * n
    if pa.types.is_integer(kind):
        bits = kind.bit_width
        low = 0 if pa.types.is_unsigned_integer(kind) else -(2 ** (bits - 1))
        return [r.randrange(low, low + 2**bits) for _ in range(n)]
    if pa.types.is_floating(kind):
        values = [r.choice([-0.0, NAN, math.inf]) if r.random() < 0.01 else r.gauss(0, 1e9) for _ in range(n)]
        return [float(np.float32(v)) for v in values] if kind.bit_width == 32 else values
    if pa.types.is_date(kind):
        return [dt.date.fromordinal(r.randrange(600_000, 3_000_000)) for _ in range(n)]
    if pa.types.is_timestamp(kind):
        return [dt.datetime(1950, 1, 1) + dt.timedelta(microseconds=1000 * r.randrange(10**12)) for _ in range(n)]
    if pa.types.is_decimal(kind):
        return [D(r.randrange(-(10**kind.precision) + 1, 10**kind.precision)).scaleb(-kind.scale) for _ in range(n)]
    if pa.types.is_fixed_size_binary(kind):
        return [uuid.UUID(int=r.getrandbits(128)).bytes for _ in range(n)]
    text = [f"é{r.getrandbits(60)}日"[: r.randrange(1, 30)] for _ in range(n)]
    return [t.encode() for t in text] if from_arrow(kind).kind is ty.Kind.BINARY else text


REAL = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float32(), pa.float64(),
    pa.date32(), pa.string(), pa.large_string(), pa.binary(), pa.binary(16), pa.dictionary(pa.int32(), pa.string()),
    pa.decimal128(9, 2), pa.decimal128(18, 4), pa.decimal128(38, 10), pa.timestamp("ms"), pa.timestamp("us", "UTC"), pa.timestamp("ns"),
]  # fmt: skip


def denied(filters, kind, values, physical=None, length=None):
    """Per value, whether the filter says that it does not occur; None where it says nothing."""
    dtype = from_arrow(kind)
    blooms = Blooms(pa.array(filters, pa.binary()), dtype, physical, length)
    out = []
    for v in values:
        absent = blooms.absent([to_axis(v, dtype) + 0.0 if isinstance(v, float) else to_axis(v, dtype)])
        out.append(None if absent is None else bool(absent.any()))
    return out


@pytest.mark.parametrize("version", ["1.0", "2.6"])
@pytest.mark.parametrize("kind", REAL, ids=map(str, REAL))
def test_files_of_pyarrow(kind, version, tmp_path):
    r = random.Random(str(kind))
    values = column_values(kind, N, r)
    path = tmp_path / "t.parquet"
    array = pa.array(values, kind)
    pq.write_table(pa.table({"c": array}), path, bloom_filter_options={"c": {"ndv": N, "fpp": FPP}}, version=version)
    filters = blooms_of(path, 0)
    assert filters != [None]
    column = pq.read_metadata(path).schema.column(0)
    stored = pq.read_schema(path).field("c").type
    if pa.types.is_timestamp(stored) and stored != kind:
        return  # format 1.0 rounds nanoseconds
    here = [v for v in values if v == v]
    assert not any(denied(filters, kind, here))
    known = denied(filters, kind, here, column.physical_type, column.length)
    assert not any(known) and None not in known
    taken = set(values)
    others = [v for v in column_values(kind, N, r) if v == v and v not in taken]
    if len(others) > 1000:
        told = denied(filters, kind, others, column.physical_type, column.length)
        assert told.count(False) / len(told) < 3 * FPP
        open_ = denied(filters, kind, others)
        assert None in open_ or open_.count(False) / len(open_) < 5 * FPP  # a second form is probed for some types


SPARK_TYPES = {
    "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(), "float": pa.float32(), "double": pa.float64(), "date": pa.date32(),
    "string": pa.string(), "binary": pa.binary(), "decimal(9,2)": pa.decimal128(9, 2), "decimal(18,4)": pa.decimal128(18, 4),
    "decimal(38,10)": pa.decimal128(38, 10), "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip


def test_files_of_spark(spark, tmp_path):  # noqa: F811
    r = random.Random(5)
    columns = {f"c{i}": (name, kind, column_values(kind, 1000, r)) for i, (name, kind) in enumerate(SPARK_TYPES.items())}
    ddl = ", ".join(f"{c} {name}" for c, (name, _, _) in columns.items())
    writer = spark.createDataFrame([list(row) for row in zip(*(v for _, _, v in columns.values()), strict=True)], ddl).coalesce(1).write
    writer = writer.option("parquet.enable.dictionary", "false")  # beside a dictionary it writes no filter
    for c in columns:
        writer = writer.option(f"parquet.bloom.filter.enabled#{c}", "true").option(f"parquet.bloom.filter.expected.ndv#{c}", "1000")
    writer.parquet(str(tmp_path / "t"))
    path = next((tmp_path / "t").glob("*.parquet"))
    for i, (name, kind, values) in enumerate(columns.values()):
        filters, column = blooms_of(path, i), pq.read_metadata(path).schema.column(i)
        assert None not in filters, name
        here = [v for v in values if v == v]
        assert not any(denied(filters, kind, here)), name
        assert not any(denied(filters, kind, here, column.physical_type, column.length)), name
        taken = set(values)
        others = [v for v in column_values(kind, 1000, r) if v == v and v not in taken]
        if len(others) > 500:
            told = denied(filters, kind, others, column.physical_type, column.length)
            assert None not in told and told.count(False) / len(told) < 3 * FPP, name


def test_scans_of_spark(spark, tmp_path):  # noqa: F811
    r = random.Random(6)
    values = [r.randrange(2**60) for _ in range(500)]
    writer = spark.createDataFrame([[v] for v in values], "k bigint").coalesce(1).write.option("parquet.enable.dictionary", "false")
    writer.option("parquet.bloom.filter.enabled", "true").parquet(str(tmp_path / "t"))
    table = ss.scan_parquet(tmp_path / "t")
    assert all(len(table.plan(ss.col("k") == v).kept) == 1 for v in values[:50])
    middle = [v for v in sorted(values)[100] + np.arange(1, 200) if v not in values]
    assert sum(len(table.plan(ss.col("k") == v).kept) for v in middle) < 20


# Random rows: what is judged from lists and filters must fit what the rows say.


def check(p, stats, batches):
    verdicts = p.evaluate(stats).tolist()
    assert p.prune(stats).tolist() == [v != NEVER for v in verdicts]
    for batch, v in zip(batches, verdicts, strict=True):
        try:
            outcomes = evaluate_rows(p.node, batch).to_pylist()
        except UnsupportedForm:
            return
        assert v != NEVER or True not in outcomes, p
        assert v != ALWAYS or set(outcomes) <= {True}, p


@pytest.mark.parametrize("seed", range(25))
def test_random_rows_under_lists(seed):
    r = random.Random(seed)
    t = table(r, containers=8)
    batches = [t.batch(i) for i in range(8)]
    given = {}
    for f in t.fields:
        values = [[row[f.path] for row in rows if row[f.path] is not None] for rows in t.containers]
        flat = array_of([v for some in values for v in some], f.arrow)
        lists = pa.ListArray.from_arrays(np.cumsum([0, *map(len, values)]).astype(np.int32), flat)
        nulls = [sum(row[f.path] is None for row in rows) if r.random() < 0.5 else None for rows in t.containers]
        given[f.name] = {"values": lists, "null_count": nulls} | ({"bloom": [None] * 8} if r.random() < 0.1 else {})
    stats = ss.Statistics.from_dict(given, t.schema, row_count=[len(rows) for rows in t.containers])
    for _ in range(60):
        check(ss.PruningPredicate(predicate(r, t.fields, plain=True, others=r.random() < 0.3).sql, t.schema), stats, batches)


def test_random_rows_under_filters(tmp_path):
    written = 0
    for seed in range(60):
        r = random.Random(seed)
        t = table(r, containers=6)
        batches = [b for b in map(t.batch, range(6)) if b.num_rows]
        options = {".".join(f.path): {"ndv": 5, "fpp": 0.01} for f in t.fields if f.dtype.kind is not ty.Kind.BOOL}
        path = tmp_path / f"{seed}.parquet"
        try:
            with pq.ParquetWriter(path, t.schema, bloom_filter_options=options, write_statistics=r.random() < 0.5) as writer:
                for b in batches:
                    writer.write_batch(b)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
            continue  # a type that Parquet lacks, or a time that overflows its units
        found = ss.scan_parquet(path)
        if len(found.containers) != len(batches):
            continue
        written += 1
        leaves = leaves_of(found.schema)
        if any(leaves[f.path].dtype != f.dtype for f in t.fields):
            continue  # seconds are stored as milliseconds
        groups = [pa.Table.from_batches([b]).cast(found.schema).combine_chunks().to_batches()[0] for b in batches]
        for _ in range(30):
            check(ss.PruningPredicate(predicate(r, t.fields, plain=True, others=r.random() < 0.3).sql, found.schema), found.statistics, groups)
    assert written > 20


def test_copies_keep_what_they_know():
    import copy
    import pickle

    stats = ss.Statistics.from_dict({"x": {"values": [[1], [2]]}, "a.b": {"bloom": [of_longs(1), of_longs(2)]}}, SCHEMA)
    p = ss.PruningPredicate("x = 1 AND a.b = 1", SCHEMA)
    for again in (stats, copy.deepcopy(stats), pickle.loads(pickle.dumps(stats))):
        assert p.prune(again).tolist() == [True, False]
        assert p.part(p.node).prune(again).tolist() == [True, False]


# Scans.


@pytest.fixture
def scattered(tmp_path):
    """Two files of four row groups: bounds tell nothing, filters nearly all."""
    r = random.Random(3)
    kinds = {"k": pa.int64(), "s": pa.string(), "m": pa.decimal128(9, 2), "t": pa.timestamp("us", "UTC"), "f": pa.float32()}
    tables = []
    for i in range(2):
        columns = {c: pa.array(column_values(kind, 2000, r), kind) for c, kind in kinds.items()}
        tables.append(pa.table({**columns, "a": pa.array([{"b": v} for v in columns["k"].to_pylist()], pa.struct([("b", pa.int64())]))}))
        options = {c: {"ndv": 500, "fpp": 0.001} for c in (*kinds, "a.b")}
        pq.write_table(tables[-1], tmp_path / f"{i}.parquet", row_group_size=500, bloom_filter_options=options)
    return tmp_path, tables


def test_scans_read_filters(scattered, monkeypatch):
    folder, tables = scattered
    table = ss.scan_parquet(folder)
    whole = pa.concat_tables(tables)
    kept = 0
    for c in ("k", "s", "m", "t", "f", "a.b"):
        column = whole["k"] if c == "a.b" else whole[c]
        for at in (0, 700, 3999):
            value = column[at].as_py()
            if value != value:
                continue
            p = ss.PruningPredicate(ss.col(c) == (column[at] if c != "f" else np.float32(value)), table.schema)
            rows = table.plan(p)
            assert rows.to_arrow().num_rows >= 1
            kept += len(rows.kept)
    assert kept <= 18 * 1.5  # of 18 * 8: nearly each value lies in one row group
    assert len(table.plan("k IN (1, 2, 3)").kept) == 0
    assert len(table.plan("k NOT IN (1, 2, 3)").kept) == 8
    assert (table.plan("k <> 1 OR k IS NULL").verdicts == ALWAYS).all()


def test_scans_do_not_read_what_bounds_exclude(tmp_path, monkeypatch):
    from skipstone.bindings.sources import blooms

    pq.write_table(pa.table({"k": range(0, 4000, 2)}), tmp_path / "t.parquet", row_group_size=500, bloom_filter_options={"k": {"ndv": 500, "fpp": 0.001}})
    read, bitset = [], blooms._bitset
    monkeypatch.setattr(blooms, "_bitset", lambda source, *at: read.append(at) or bitset(source, *at))
    table = ss.scan_parquet(tmp_path)
    assert len(table.plan("k > 1001").kept) == 3
    assert read == []
    for _ in range(2):
        assert len(table.plan("k = 1002").kept) == 1
        assert len(table.plan("k = 1001").kept) == 0
    assert len(read) == 1
    (tmp_path / "t.parquet").unlink()
    assert len(table.plan("k = 3001").kept) == 1  # a file that is gone says nothing


def test_filters_of_partition_columns_and_other_types(tmp_path):
    """A folder's value wins over the file's column; a file with another type is asked in its own."""
    (tmp_path / "k=5").mkdir()
    pq.write_table(pa.table({"k": [7, 8], "x": pa.array([1, 2], pa.int32())}), tmp_path / "k=5" / "a.parquet", bloom_filter_options={"k": True, "x": True})
    pq.write_table(pa.table({"x": pa.array([1, 2**40], pa.int64())}), tmp_path / "k=5" / "b.parquet", bloom_filter_options={"x": True})
    table = ss.scan_parquet(tmp_path)
    assert len(table.plan("k = 5").kept) == 2
    assert len(table.plan("x = 1").kept) == 2
    assert [len(table.plan(f"x = {v}").kept) for v in (2, 2**40, 3)] == [1, 1, 0]


def test_damaged_filters_say_nothing(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"k": [0, 9]}), path, bloom_filter_options={"k": {"ndv": 10, "fpp": 0.01}})
    at = pq.read_metadata(path).row_group(0).column(0).bloom_filter_offset
    whole = path.read_bytes()
    assert len(ss.scan_parquet(path).plan("k = 5").kept) == 0
    r = random.Random(1)
    for _ in range(60):
        head = bytearray(whole)
        head[at + r.randrange(12)] = r.randrange(256)
        path.write_bytes(head)
        for where in ("k = 0", "k = 9"):
            assert len(ss.scan_parquet(path).plan(where).kept) == 1


#    key       as given                                             x = 7 may match
GIVEN = [
    ("values", [["a"], [5], [7]],                                   [True, False, True]),
    ("values", [[5.0], [5.5], [2**70]],                             [False, True, True]),
    ("values", [5, [5]],                                            [True, False]),
    ("values", [{5}, (5,), [None], [5, None]],                      [False, False, True, True]),
    ("values", np.array([[5, 6], [7, 8]]),                          [False, True]),
    ("values", [np.array([5, 6]), None],                            [False, True]),
    ("values", pa.chunked_array([[[5]], [[7]]]),                    [False, True]),
    ("values", pa.array([[5], [7]], pa.list_(pa.int8())),           [False, True]),
    ("values", pa.array([5, 7]),                                    [True, True]),
    ("bloom",  [bytes(32), bytearray(32), memoryview(bytes(32))],   [False, False, False]),
    ("bloom",  ["a" * 32, 5, None, b"", bytes(33)],                 [True, True, True, True, True]),
    ("bloom",  pa.array([bytes(32), None], pa.binary_view()),       [False, True]),
    ("bloom",  pa.array([bytes(32)], pa.binary(32)),                [False]),
    ("bloom",  pa.array([bytes(32)]).dictionary_encode(),           [False]),
    ("bloom",  pa.array([1, 2]),                                    [True, True]),
    ("bloom",  pa.array(["a" * 32]),                                [True]),
]  # fmt: skip


@pytest.mark.parametrize("key, given, expected", GIVEN, ids=range(len(GIVEN)))
def test_what_cannot_be_used_is_unknown(key, given, expected):
    assert ss.PruningPredicate("x = 7", SCHEMA).prune(ss.Statistics.from_dict({"x": {key: given}}, SCHEMA)).tolist() == expected
