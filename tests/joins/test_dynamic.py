"""Dynamic filters: what collectors keep, what filters say of rows and containers. Ids are those of the conformance table."""

import datetime as dt
import pickle
import threading
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.bindings.filters.filter import DynamicFilter
from skipstone.bindings.filters.kinds import LEFT, RIGHT
from skipstone.bindings.filters.scan import DynamicFilters
from skipstone.ir.session import Session
from tests.support.dynamic_cases import ALWAYS, MAYBE, NEVER, box, collected, judge, schema

NAN = float("nan")


LONG = schema(k=pa.int64())
PAIR = schema(a=pa.int64(), b=pa.int64())
WIDE = schema(a=pa.int32(), b=pa.int64(), c=pa.string())


def rows(data):
    return None if data.data is None else list(zip(*data.data.to_pydict().values(), strict=True))


# 1. Collecting keys.


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


def test_C22_repeats_and_nulls_take_no_room():
    assert rows(collected(LONG, {"k": [7] * 1000 + [None] * 1000}, max_values=100)) == [(7,)]


def test_C23_types_without_order():
    kind = pa.struct([("x", pa.int64()), ("y", pa.float64())])
    values = [{"x": i, "y": -0.0} for i in range(50)]
    data = collected(schema(k=kind), {"k": values * 2}, max_values=100)
    assert data.exact and data.num_rows == 50
    assert data.contains([({"x": 3, "y": 0.0},), ({"x": 3, "y": 1.0},)]).tolist() == [True, False]
    assert not collected(schema(k=kind), {"k": values}, max_values=10).filtering


def test_the_ladder():
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
    ],
    ids=str,
)
def test_refused(options):
    with pytest.raises(ss.DynamicFilterError):
        ss.DynamicFilterCollector(["k"], LONG, **options)


# Keys of other types: probe type, build keys, what is left of them.

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
    ("unsigned", pa.uint8(), pa.array([5, 300, -1, 2**40]), [-1, 5, 300]),  # SMALLINT to Spark
    ("dictionary", pa.string(), pa.array(["x", "x"]).dictionary_encode(), ["x"]),
]


@pytest.mark.parametrize(
    ("probe", "build", "left"), [c[1:] for c in COERCED], ids=[c[0] for c in COERCED]
)
def test_keys_are_coerced(probe, build, left):
    data = collected(schema(k=probe), pa.table({"k": build}))
    assert data.exact and data.data.column(0).to_pylist() == left


@pytest.mark.parametrize(
    "build",
    [pa.array(["x"]), pa.array([b"5"]), pa.array([True]), pa.array([[1]])],
    ids=lambda a: str(a.type),
)
def test_what_spark_does_not_compare_filters_nothing(build):
    data = collected(LONG, pa.table({"k": build}))
    assert not data.filtering and data.contains([(3,)]).all() and "nothing" in data.kind


def test_keys_of_two_types_are_no_keys_of_one_join():
    with pytest.raises(ss.DynamicFilterError, match="cast them"):
        collected(LONG, {"k": [1]}, pa.table({"k": [1.5]}))


# 4. Membership of rows.


def test_V02_V03_arity():
    off = collected(
        WIDE, {"a": [1, 2], "b": [1, 2], "c": ["a", "b"]}, threshold=1, on_overflow="all"
    )
    assert off.contains([(1,), (1, 2, 3, 4)]).tolist() == [True, True]
    on = collected(WIDE, {"a": [1], "b": [1], "c": ["a"]})
    with pytest.raises(ss.DynamicFilterError, match=r"expected tuples of \(a, b, c\)"):
        on.contains([(1, 1)])
    with pytest.raises(ss.DynamicFilterError, match="expected"):
        on.contains(pa.table({"a": [1]}))


def test_joins_equality():
    data = collected(schema(k=pa.float64()), {"k": [NAN, -0.0]})
    assert data.contains([(NAN,), (0.0,), (-0.0,), (1.0,), (None,)]).tolist() == [
        True,
        True,
        True,
        False,
        False,
    ]
    safe = collected(schema(k=pa.float64()), {"k": [None]}, null_safe=True)
    assert safe.contains([(None,), (NAN,)]).tolist() == [True, False]
    mixed = collected(PAIR, {"a": [None, 1], "b": [1, None]}, null_safe=["a"])
    assert mixed.contains([(None, 1), (1, None), (1, 1)]).tolist() == [True, False, False]


def test_predicates():
    data = collected(LONG, {"k": [5, 7]})
    assert (
        ss.PruningPredicate(data.to_predicate({"k": "x"}), schema(x=pa.int64())).expr
        == "x IN (5, 7)"
    )
    off = collected(LONG, {"k": [5, 7]}, max_values=1, on_overflow="all")
    assert ss.PruningPredicate(off.to_predicate(), LONG).always_true
    none = ss.PruningPredicate(collected(LONG).to_predicate(), LONG)
    assert none.expr == "false"


# 5. Containers.


JUDGED = [
    # keys, options, container, verdict
    ([5], {}, box(1, 4), NEVER),
    ([5], {}, box(1, 9), MAYBE),
    ([5], {}, box(5, 5), ALWAYS),
    ([5], {}, box(5, 5, None), MAYBE),
    ([5], {}, box(None, None, 10), NEVER),
    ([5, 6, 7], {}, box(5, 7), ALWAYS),
    ([3, 9], {}, box(4, 8), NEVER),  # a gap
    ([], {}, box(1, 4), NEVER),
    ([], {"how": "semi"}, box(1, 4), NEVER),
    ([], {"how": "left"}, box(1, 4), ALWAYS),
    ([], {"how": "full"}, box(1, 4), ALWAYS),
    ([], {"how": "anti"}, box(1, 4), ALWAYS),
    ([], {"how": "not in"}, box(None, None, 10), ALWAYS),
    ([], {"how": "right"}, box(1, 4), NEVER),
    ([5], {"how": "left"}, box(1, 4), ALWAYS),
    ([5], {"how": "left", "side": "right"}, box(1, 4), NEVER),
    ([5], {"how": "semi", "side": "right"}, box(1, 4), NEVER),
    ([5], {"how": "anti", "side": "right"}, box(1, 4), NEVER),
    ([5], {"how": "not in", "side": "right"}, box(1, 4), ALWAYS),
    ([5], {"how": "full", "side": "right"}, box(1, 4), ALWAYS),
    ([1], {"how": "anti"}, box(1, 1), NEVER),  # J06
    ([1], {"how": "anti"}, box(1, 1, None), MAYBE),  # J07
    ([1], {"how": "anti"}, box(1, 2), MAYBE),
    ([1], {"how": "anti"}, box(2, 3), ALWAYS),
    ([1], {"how": "not in"}, box(1, 1, None), NEVER),  # NULL is not certain to be absent
    ([1], {"how": "not in"}, box(2, 3, 1), MAYBE),
    ([1, None], {"how": "not in"}, box(2, 3), NEVER),
    ([1, None], {"how": "anti"}, box(2, 3), ALWAYS),
    ([3, 7], {"op": "<="}, box(7, 9), MAYBE),  # R10
    ([3, 7], {"op": "<="}, box(8, 9), NEVER),
    ([3, 7], {"op": "<="}, box(1, 7), ALWAYS),
    ([3, 7], {"op": "<"}, box(7, 9), NEVER),
    ([3, 7], {"op": ">="}, box(1, 3), MAYBE),  # R12
    ([3, 7], {"op": ">="}, box(1, 2), NEVER),
    ([3, 7], {"op": ">"}, box(1, 3), NEVER),
    ([], {"op": "<="}, box(1, 2), NEVER),  # R14
    ([None], {"op": ">"}, box(1, 2), NEVER),
]


@pytest.mark.parametrize(
    ("keys", "options", "container", "verdict"),
    JUDGED,
    ids=[f"{i} {k} {o}" for i, (k, o, _, _) in enumerate(JUDGED)],
)
def test_containers(keys, options, container, verdict):
    data = collected(LONG, {"k": keys} if keys else {"k": []})
    assert judge(data, LONG, [(container,)], **options) == [verdict]


def test_J07_ranges_settle_nothing():
    data = collected(LONG, {"k": [1, 2]}, max_values=1)
    assert judge(data, LONG, [(box(1, 1),)], how="anti") == [MAYBE]
    assert judge(data, LONG, [(box(1, 1),), (box(5, 6),)]) == [MAYBE, NEVER]


def test_R08_tuples_and_boxes():
    data = collected(PAIR, {"a": [1, 2], "b": [10, 20]})
    boxes = [
        (box(1, 1), box(15, 30)),
        (box(1, 2), box(15, 30)),
        (box(1, 2), box(11, 19)),
        (box(2, 2), box(20, 20)),
        (box(2, 2), box(20, 20, 1)),
    ]
    assert judge(data, PAIR, boxes) == [NEVER, MAYBE, NEVER, ALWAYS, MAYBE]
    assert judge(data, PAIR, boxes, how="anti") == [ALWAYS, MAYBE, ALWAYS, NEVER, MAYBE]


def test_V08_null_safe_and_no_other_keys():
    nothing = collected(LONG, {"k": [None]})
    assert judge(nothing, LONG, [(box(1, 2, 0),), (box(1, 2, 1),)]) == [NEVER, NEVER]
    safe = collected(LONG, {"k": [None]}, null_safe=True)
    assert judge(safe, LONG, [(box(1, 2, 0),), (box(1, 2, 1),), (box(None, None, 10),)]) == [
        NEVER,
        MAYBE,
        ALWAYS,
    ]


def test_V16_wrapped_values_match_nothing():
    data = collected(schema(k=pa.int32()), pa.table({"k": [2**40]}))
    assert judge(data, schema(k=pa.int32()), [(box(0, 0),), (box(None, None, None),)]) == [
        NEVER,
        NEVER,
    ]
    assert judge(data, schema(k=pa.int32()), [(box(0, 0),)], op="<=") == [
        MAYBE
    ]  # the key was left out, and is greater


def test_nan_and_zeros():
    of = schema(k=pa.float64())
    data = collected(of, {"k": [NAN]})
    assert judge(
        data, of, [((0.0, 1.0, 0, 0),), ((0.0, 1.0, 0, None),), ((None, None, 0, 10),)]
    ) == [NEVER, MAYBE, ALWAYS]
    data = collected(of, {"k": [0.0]})
    assert judge(data, of, [((-0.0, -0.0, 0, 0),), ((0.5, 1.0, 0, None),)]) == [ALWAYS, NEVER]


def test_casts_that_round():
    """Several BIGINT equal one DOUBLE."""
    data = collected(LONG, pa.table({"k": [2.0**53]}))
    assert judge(data, LONG, [(box(2**53 + 1, 2**53 + 1),), (box(2**53 + 2, 2**60),)]) == [
        ALWAYS,
        NEVER,
    ]


def test_P09_one_key_and_two_columns():
    of = schema(x=pa.int64(), y=pa.int64())
    f = DynamicFilter(collected(LONG, {"k": [1]}), columns={"k": ["x", "y"]})
    assert judge(
        f, of, [(box(1, 1), box(2, 2)), (box(1, 1), box(1, 1)), (box(2, 2), box(1, 1))]
    ) == [NEVER, ALWAYS, NEVER]


def test_J12_renamed_and_reordered():
    of = schema(y=pa.int64(), x=pa.int64())
    f = DynamicFilter(collected(PAIR, {"a": [1], "b": [2]}), columns={"a": "x", "b": "y"})
    assert judge(f, of, [(box(2, 2), box(1, 1)), (box(1, 1), box(2, 2))]) == [ALWAYS, NEVER]


def test_J23_three_keys():
    of = schema(one=pa.int64(), two=pa.int64(), three=pa.int64())
    data = collected(of, {"one": [1, 2], "two": [1, 2], "three": [1, 2]})
    point = [box(1, 1)] * 3
    assert judge(
        data,
        of,
        [
            tuple(point),
            *(tuple(box(3, 3) if i == j else p for j, p in enumerate(point)) for i in range(3)),
        ],
    ) == [ALWAYS, NEVER, NEVER, NEVER]


def test_other_types_than_were_declared():
    data = collected(schema(k=pa.int32()), {"k": [1]})
    with pytest.warns(ss.SkipstoneWarning, match="give the collector the schema of the scan"):
        assert judge(data, LONG, [(box(1, 1),), (box(2, 2),)]) == [MAYBE, MAYBE]


def test_kinds():
    assert set(LEFT) == set(RIGHT)
    for name in ("left_semi", "LEFT ANTI", "fullouter", "not_in"):
        DynamicFilter(how=name)
    with pytest.raises(ss.DynamicFilterError, match="the join is 'cross'"):
        DynamicFilter(how="cross")
    with pytest.raises(ss.DynamicFilterError, match="the operator"):
        DynamicFilter(op="<>")


def test_value_lists_and_bloom_filters():
    stats = ss.Statistics.from_dict(
        {"k": {"min": [1, 1], "max": [9, 9], "null_count": [0, 0], "values": [[1, 9], [1, 5, 9]]}},
        LONG,
        row_count=[3, 3],
    )
    filters = DynamicFilters((DynamicFilter(collected(LONG, {"k": [5, 6]})),), LONG, Session())
    assert filters.judged(stats, np.full(2, 2, np.uint8)).tolist() == [NEVER, MAYBE]
