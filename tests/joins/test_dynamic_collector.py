"""Dynamic filters: the keys that collectors store, and how keys of other types are compared.

Ids in test names are those of the conformance table.
"""

import datetime as dt
import pickle
import threading
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from tests.support.joins.dynamic_cases import collected, schema

NAN = float("nan")

LONG = schema(k=pa.int64())
PAIR = schema(a=pa.int64(), b=pa.int64())
WIDE = schema(a=pa.int32(), b=pa.int64(), c=pa.string())


def rows(data):
    return None if data.data is None else list(zip(*data.data.to_pydict().values(), strict=True))


# Collecting keys.


def test_C03_over_the_limit_nothing_is_filtered():
    two = len(b"a") + 4 + 8
    data = collected(
        WIDE,
        {"a": [1, 2, 3], "b": [1, 1, 1], "c": ["a", "b", "c"]},
        threshold=2 * two,
        on_overflow="all",
    )
    assert not data.filtering and data.data is None and not data.exact
    assert data.contains([(7, 7, "z")]).tolist() == [True]
    assert collected(
        WIDE, {"a": [1, 2], "b": [1, 1], "c": ["a", "b"]}, threshold=2 * two, on_overflow="all"
    ).exact


def test_C04_only_distinct_bytes_count():
    data = collected(
        WIDE, *[{"a": [1], "b": [1], "c": ["a"]}] * 1000, threshold=26, on_overflow="all"
    )
    assert data.exact and rows(data) == [(1, 1, "a")] and data.nbytes == 13


def test_C08_null_is_no_key():
    data = collected(LONG, {"k": [1, 2, 3]}, {"k": [3, None, 4]}, {"k": [4, 5]})
    assert rows(data) == [(1,), (2,), (3,), (4,), (5,)]
    assert data.contains([(None,), (3,)]).tolist() == [False, True]


def test_C11_no_tuple_can_match():
    data = collected(PAIR, {"a": [None] * 101, "b": range(101)}, max_values=100)
    assert data.exact and rows(data) == [] and not data.empty


def test_C12_no_columns():
    data = collected(pa.schema([]), pa.table({"x": [1]}))
    assert not data.filtering and data.contains([(1, 2)]).tolist() == [True]


def test_C20_long_strings_become_points():
    a, b = "a" * 51, "b" * 51
    data = collected(schema(a=pa.string(), b=pa.string()), {"a": [a], "b": [b]}, threshold=100)
    assert [str(d) for d in data.domains] == ["minimum and maximum"] * 2
    assert data.contains([(a, b), (a + "a", b), (a, a)]).tolist() == [True, False, False]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_C21_floats_become_ranges(kind):
    data = collected(schema(k=kind), {"k": [NAN, -0.0, *range(100), NAN]}, max_values=100, ranges=1)
    assert not data.exact and data.domains[0].nan
    assert data.contains(
        [(NAN,), (0.0,), (-0.0,), (99.0,), (99.5,), (-1.0,), (float("inf"),)]
    ).tolist() == [True, True, True, True, False, False, False]


def test_C22_repeats_and_nulls_take_no_space():
    assert rows(collected(LONG, {"k": [7] * 1000 + [None] * 1000}, max_values=100)) == [(7,)]


def test_C23_types_without_order():
    kind = pa.struct([("x", pa.int64()), ("y", pa.float64())])
    values = [{"x": i, "y": -0.0} for i in range(50)]
    data = collected(schema(k=kind), {"k": values * 2}, max_values=100)
    assert data.exact and data.num_rows == 50
    assert data.contains([({"x": 3, "y": 0.0},), ({"x": 3, "y": 1.0},)]).tolist() == [True, False]
    assert not collected(schema(k=kind), {"k": values}, max_values=10).filtering


def test_degrading_step_by_step():
    values = {"k": [0, 1, 2, 3, 1000, 1001, 10**12]}
    steps = [collected(LONG, values, max_values=n, ranges=k) for n, k in ((7, 3), (6, 3), (6, 1))]
    assert [str(s.domains[0]) for s in steps] == [
        "7 values",
        "3 ranges",
        "minimum and maximum",
    ]
    probe = [(5,), (500,), (1000,), (10**11,), (10**13,)]
    found = [s.contains(probe).tolist() for s in steps]
    assert found == [
        [False, False, True, False, False],
        [False, False, True, False, False],
        [True, True, True, True, False],
    ]
    assert not collected(schema(k=pa.string()), {"k": ["x" * 40]}, threshold=30).filtering


def test_columns_degrade_by_themselves():
    data = collected(PAIR, {"a": [1, 2] * 50, "b": range(100)}, max_values=10, ranges=4)
    assert [str(d) for d in data.domains] == ["2 values", "4 ranges"]
    assert data.contains([(3, 5), (1, 5), (1, 200)]).tolist() == [False, True, False]


@pytest.mark.parametrize(
    "limits", [{}, {"max_values": 20}, {"threshold": 200}, {"max_values": 20, "ranges": 3}], ids=str
)
def test_order_batches_and_parts_do_not_matter(limits):
    r = np.random.default_rng(5)
    keys = {
        "k": r.integers(-(2**40), 2**40, 60),
        "s": [f"s{'x' * (i % 7)}{i % 31}" for i in range(60)],
    }
    of = schema(k=pa.int64(), s=pa.string())
    table = pa.table({n: pa.array(v, of.field(n).type) for n, v in keys.items()})
    expected = collected(of, table, **limits)
    for _ in range(10):
        shuffled = table.take(r.permutation(60))
        cuts = [0, *sorted(r.integers(0, 61, 3)), 60]
        parts = [
            collected(of, shuffled.slice(a, b - a), shuffled.slice(b, 1), **limits)
            for a, b in pairwise(cuts)
        ]
        left = parts[0].merge(parts[1]).merge(parts[2].merge(parts[3]))
        right = parts[3].merge(parts[2].merge(parts[1], parts[0]))
        assert expected == left == right and expected.fingerprint == right.fingerprint
        assert [(str(d), d.firsts.to_pylist(), d.lasts.to_pylist()) for d in left.domains] == [
            (str(d), d.firsts.to_pylist(), d.lasts.to_pylist()) for d in expected.domains
        ]


def test_threads():
    c = ss.DynamicFilterCollector(["k"], LONG)
    batches = [pa.table({"k": np.arange(i, i + 5000) % 7919}) for i in range(0, 40_000, 1000)]

    def work(mine):
        for b in mine:
            c.add(b)

    threads = [threading.Thread(target=work, args=(batches[i::4],)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    data = c.finish()
    assert data.num_rows == 7919 and data.rows_seen == 200_000
    assert data == collected(LONG, {"k": range(7919)})
    assert c.finish() is data
    with pytest.raises(ss.DynamicFilterError, match="after finish"):
        c.add(batches[0])


def test_inputs():
    import pandas as pd
    import polars as pl

    keys = {"K": [3, 1, 3], "other": ["x", "y", "z"]}
    arrow = pa.table(keys)
    given = [
        arrow,
        arrow.to_batches()[0],
        pd.DataFrame(keys),
        pl.DataFrame(keys),
        pl.DataFrame(keys).lazy(),
        arrow.to_reader(),
    ]
    found = {collected(LONG, g).fingerprint for g in given}
    assert len(found) == 1
    with pytest.raises(ss.UnknownColumn):
        collected(LONG, pa.table({"x": [1]}))
    with pytest.raises(ss.DynamicFilterError, match="expected an Arrow"):
        collected(LONG, 5)


def test_filters_are_values():
    data = collected(PAIR, {"a": [1, 2], "b": [10, None]})
    again = pickle.loads(pickle.dumps(data))
    assert again == data and hash(again) == hash(data) and rows(again) == [(1, 10)]
    c = ss.DynamicFilterCollector(["a", "b"], PAIR)
    c.add(pa.table({"a": [1, 2], "b": pa.array([10, None], pa.int64())}))
    assert pickle.loads(pickle.dumps(c)).finish() == data
    other = ss.DynamicFilterCollector(["a", "b"], PAIR)
    other.merge(c, data)
    assert other.finish() == data
    assert str(ss.DynamicFilteringEvent(data)) == f"DynamicFilteringEvent{{data={data}}}"


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ("32MiB", 1 << 25),
        ("8 mb", 1 << 23),
        (100, 100),
        ("1.5k", 1536),
        (0, None),
        (-1, None),
        (None, None),
    ],
)
def test_thresholds(size, expected):
    assert ss.DynamicFilterCollector(["k"], LONG, size)._limits.nbytes == expected


@pytest.mark.parametrize(
    "options",
    [
        {"threshold": "lots"},
        {"threshold": 1.5},
        {"max_values": 0},
        {"on_overflow": "raise"},
        {"ranges": 0},
        {"null_safe": 1},
        {"null_safe": [1]},
        {"columns": None},
        {"columns": [1]},
    ],
    ids=str,
)
def test_refused(options):
    with pytest.raises(ss.DynamicFilterError):
        ss.DynamicFilterCollector(**{"columns": ["k"], "schema": LONG, **options})


def test_names_of_null_safe_keys():
    """A name is no part of another one, and an unknown name is not ignored: rows were lost."""
    keys, none = (
        schema(key=pa.int64(), key_b=pa.int64()),
        pa.table({"key": pa.nulls(1, pa.int64())}),
    )
    build = none.append_column("key_b", pa.array([1]))
    data = collected(keys, build, null_safe="key_b")
    assert data.null_safe == {"key_b"} and data.data.num_rows == 0
    assert collected(keys, build, null_safe=("key",)).data.num_rows == 1
    with pytest.raises(ss.UnknownColumn, match="null_safe= names 'kye'; the keys are 'key'"):
        ss.DynamicFilterCollector(["key", "key_b"], keys, null_safe=["kye"])
    assert ss.DynamicFilterCollector(iter(["key"]), keys).fields == ("key",)


#    what is called                                                       in the error
MISTAKES = [
    (lambda c, f: c.merge(pa.table({"k": [1]})),                          "add\\(\\) takes rows"),
    (lambda c, f: ss.DynamicFilter(columns={"k": 3}),                     "columns has 3"),
    (lambda c, f: ss.DynamicFilter(columns={"k": []}),                    "columns has \\[\\]"),
    (lambda c, f: ss.DynamicFilter(builders=0),                           "builders is 0"),
    (lambda c, f: ss.DynamicFilter(builders="2"),                         "builders is '2'"),
    (lambda c, f: f.expect(0),                                            "builders is 0"),
    (lambda c, f: f.wait("1s"),                                           "wait is '1s'"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "text"), MISTAKES, ids=[c[1] for c in MISTAKES])
def test_mistakes(call, text):
    with pytest.raises(ss.DynamicFilterError, match=text):
        call(ss.DynamicFilterCollector(["k"], LONG), ss.DynamicFilter(builders=None))


# Keys of other types: id, probe side's type, build side's keys, keys that are stored.

DAY = dt.date(2024, 5, 1)
NOON = dt.datetime(2024, 5, 1, 12)
COERCED = [
    ("V16 INT beside BIGINT", pa.int32(), pa.array([2**40, 5]), [5]),
    ("BIGINT beside INT", pa.int64(), pa.array([5], pa.int32()), [5]),
    ("INT beside DOUBLE", pa.int32(), pa.array([5.0, 5.5, NAN, 1e300]), [5]),
    ("BIGINT beside DOUBLE", pa.int64(), pa.array([2.0**53, 5.5]), [5.5, 2.0**53]),
    ("FLOAT beside DOUBLE", pa.float32(), pa.array([0.1, 0.5]), [0.5]),
    ("INT beside DECIMAL", pa.int32(), pa.array([Decimal("5.00"), Decimal("5.50")]), [5]),
    (
        "R18 other scale",
        pa.decimal128(10, 2),
        pa.array([Decimal("1.1000"), Decimal("1.1001")]),
        [Decimal("1.10")],
    ),
    ("R18 wider", pa.decimal128(30, 4), pa.array([Decimal("1.1")]), [Decimal("1.1000")]),
    (
        "R18 nanoseconds",
        pa.timestamp("us"),
        pa.array([1000, 1001], pa.timestamp("ns")),
        [dt.datetime(1970, 1, 1, 0, 0, 0, 1)],
    ),
    ("R18 milliseconds", pa.timestamp("us"), pa.array([NOON], pa.timestamp("ms")), [NOON]),
    ("DATE beside TIMESTAMP_NTZ", pa.date32(), pa.array([NOON, dt.datetime(2024, 5, 1)]), [DAY]),
    ("TIMESTAMP_NTZ beside DATE", pa.timestamp("us"), pa.array([DAY]), [dt.datetime(2024, 5, 1)]),
    ("INT beside STRING", pa.int32(), pa.array(["5", "99999999999"]), [5]),
    ("DATE beside STRING", pa.date32(), pa.array(["2024-05-01"]), [DAY]),
    ("unsigned", pa.uint8(), pa.array([5, 300, -1, 2**40]), [-1, 5, 300]),  # Spark: SMALLINT
    ("dictionary", pa.string(), pa.array(["x", "x"]).dictionary_encode(), ["x"]),
]


@pytest.mark.parametrize(
    ("probe", "build", "stored"), [c[1:] for c in COERCED], ids=[c[0] for c in COERCED]
)
def test_keys_are_coerced(probe, build, stored):
    data = collected(schema(k=probe), pa.table({"k": build}))
    assert data.exact and data.data.column(0).to_pylist() == stored


@pytest.mark.parametrize(
    "build",
    [pa.array(["x"]), pa.array([b"5"]), pa.array([True]), pa.array([[1]])],
    ids=lambda a: str(a.type),
)
def test_keys_that_spark_does_not_compare_filter_nothing(build):
    data = collected(LONG, pa.table({"k": build}))
    assert not data.filtering and data.contains([(3,)]).all() and "nothing" in data.kind


def test_keys_of_two_types_are_refused():
    with pytest.raises(ss.DynamicFilterError, match="cast them"):
        collected(LONG, {"k": [1]}, pa.table({"k": [1.5]}))
