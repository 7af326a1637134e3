"""Value lists: verdicts for every form, with other statistics, and for every type."""

import datetime as dt
import functools
import random

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.bindings.statistics.membership import in_lists
from skipstone.ir import types as ty
from skipstone.ir.evaluation import oracle
from skipstone.ir.rows import evaluate_rows
from skipstone.ir.types import from_arrow, to_axis
from tests.support.effort import LONG
from tests.support.statistics.members import NAN, SCHEMA, D, of_longs, verdicts

NEVER, MAYBE, ALWAYS = ss.Verdict
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
    # A row of NULL matches none of these: ALWAYS becomes MAYBE, and NEVER stays.
    some_null = [MAYBE if v is ALWAYS else v for v in expected]
    assert verdicts(where, LISTS, backend=backend, null_count=[1] * 5) == some_null
    assert verdicts(where, LISTS, backend=backend) == some_null


def test_all_null_is_not_a_value(backend):
    for where in ("x = 1", "x <> 1", "x NOT IN (1, 2)"):
        assert verdicts(where, [[]], backend=backend, null_count=[3], row_count=[3]) == [NEVER]
    assert verdicts("x = 1 OR x IS NULL", [[]], backend=backend, null_count=[3], row_count=[3]) == [
        ALWAYS
    ]


#    values  others                                                  contradiction
CONTRADICTIONS = [
    ([],     {"null_count": [0], "row_count": [10]},                   True),
    ([],     {"null_count": [9], "row_count": [10]},                   True),
    ([],     {"null_count": [10], "row_count": [10]},                  False),
    ([],     {"null_count": [0]},                                      False),  # may have no rows
    ([],     {"row_count": [10]},                                      False),  # may be all NULL
    ([],     {"null_count": [0], "row_count": [0]},                    False),
    ([],     {"min": [1]},                                             True),
    ([],     {"min": [None], "max": [9]},                              True),
    ([5],    {"null_count": [10], "row_count": [10]},                  True),
    ([5],    {"null_count": [9], "row_count": [10]},                   False),
    ([5],    {"row_count": [0]},                                       True),
    (None,   {"null_count": [0], "row_count": [10]},                   False),
]  # fmt: skip


@pytest.mark.parametrize("values, others, contradiction", CONTRADICTIONS)
def test_lists_that_contradict_other_statistics(values, others, contradiction, backend, tmp_path):
    made = ss.Statistics.from_dict({"x": {"values": [values], **others}}, SCHEMA, [10])
    made.save(tmp_path / "x.stats")
    plain = ss.Statistics.from_dict({"x": {"values": [values]}}, SCHEMA, [10])
    for where in ("x = 5", "x = 7", "x <> 5", "x IS NULL", "x IS NOT NULL", "NOT x IN (5, 6)"):
        p = ss.PruningPredicate(where, SCHEMA)
        verdict = int(p.evaluate(made, backend)[0])
        if contradiction:
            assert verdict == MAYBE, where
        elif values == [5] and where == "x = 5":
            assert verdict >= p.evaluate(plain, backend)[0]
        assert p.evaluate(ss.Statistics.load(tmp_path / "x.stats"), backend)[0] == verdict


def test_an_empty_list_contradicts_rows_of_a_column_without_nulls(backend):
    schema = pa.schema([pa.field("x", pa.int64(), nullable=False)])
    made = ss.Statistics.from_dict({"x": {"values": [[]]}}, schema, [10])
    assert ss.PruningPredicate("x = 5", schema).evaluate(made, backend)[0] == MAYBE


#    where                         lists                                 expected
FLOATS = [
    ("f = 1",                      [[NAN], [1.0, NAN], [1.0]],           [NEVER, MAYBE, ALWAYS]),
    ("f <> 1",                     [[NAN], [1.0, NAN], [1.0]],           [ALWAYS, MAYBE, NEVER]),
    ("NOT (f IN (1, 2))",          [[NAN], [1.0, NAN], [1.0, 2.0]],      [ALWAYS, MAYBE, NEVER]),
    ("f = CAST('NaN' AS DOUBLE)",  [[NAN], [1.0, NAN], [1.0]],           [ALWAYS, MAYBE, NEVER]),
    ("f = 0.0D",                   [[-0.0], [0.0], [-0.0, 1.0], [1.0]],
     [ALWAYS, ALWAYS, MAYBE, NEVER]),
    ("f <> -0.0D",                 [[-0.0], [0.0], [-0.0, 1.0], [1.0]],
     [NEVER, NEVER, MAYBE, ALWAYS]),
    ("f > 5",                      [[NAN], [1.0], [9.0]],                [ALWAYS, MAYBE, MAYBE]),
]  # fmt: skip


@pytest.mark.parametrize("where, lists, expected", FLOATS)
def test_nan_and_zero_in_lists(where, lists, expected, backend):
    nans = [sum(v != v for v in values) for values in lists]
    found = verdicts(
        where,
        lists,
        backend=backend,
        column="f",
        null_count=[0] * len(lists),
        nan_count=nans,
        row_count=[len(v) for v in lists],
    )
    assert found == expected
    # Without counts, a list never rules out a value that it holds.
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
    (pa.timestamp("ns", "UTC"),  MOMENT.replace(tzinfo=dt.UTC),
     dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(1700, 1, 1, tzinfo=dt.UTC)),
    (pa.decimal128(9, 2),        D("1.50"), D("-0.01"), D("9999999.99")),
    (pa.decimal128(38, 10),      D("1.5"), D("-1234567890123456789012345678.0000000001"), D("0")),
]  # fmt: skip


@pytest.mark.parametrize("kind, a, b, c", TYPES, ids=[str(t[0]) for t in TYPES])
def test_lists_of_every_type(kind, a, b, c):
    dtype = from_arrow(kind)
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    members = [v for v in (a, b) if v is not None]
    lists = pa.array([members, [a, c], [c], [a], [], None], pa.list_(inner))
    chosen = tuple(
        to_axis(v, dtype) + 0.0 if isinstance(v, float) else to_axis(v, dtype) for v in members
    )
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


#    lists of another type, or with odd elements       set    answers
ODD = [
    (pa.array([[1, None], [2]]),                       (1,),  [None, False]),  # an unknown element
    (pa.array([[1.0], [2.0]]),                         (1,),  None),
    (pa.array([["1"], []]),                            (1,),  None),
    (pa.array([1, 2]),                                 (1,),  None),           # no lists at all
    (pa.array([[1], [2**63]], pa.list_(pa.uint64())),  (1,),  [True, None]),
    (pa.array([[1], [2]], pa.list_(pa.int8())),        (1,),  [True, False]),
    (pa.array([[], [None]], pa.list_(pa.int64())),     (1,),  [False, None]),
    (pa.array([], pa.list_(pa.int64())),               (1,),  []),
]  # fmt: skip


@pytest.mark.parametrize("lists, chosen, expected", ODD)
def test_odd_lists(lists, chosen, expected):
    found = in_lists(lists, chosen, ty.INT64)
    if expected is None:
        assert found is None or not any(
            v is not None and len(lists[i]) for i, v in enumerate(found.to_pylist())
        )
    else:
        assert found.to_pylist() == expected


def test_values_under_a_null_list_are_not_counted():
    hidden = pa.ListArray.from_arrays(
        pa.array([0, 2, 4, 6]), pa.array([1, 1, 7, 7, 7, 7]), mask=pa.array([False, True, False])
    )
    assert in_lists(hidden, (1,), ty.INT64).to_pylist() == [True, None, False]
    assert in_lists(hidden, (7,), ty.INT64).to_pylist() == [False, None, True]


def test_ticks_between_those_of_the_column():
    lists = pa.array([[1_000], [1_500], [2_000]]).cast(pa.list_(pa.timestamp("ns")))
    assert in_lists(lists, (1,), ty.TIMESTAMP_NTZ).to_pylist() == [True, None, False]


@pytest.mark.parametrize("seed", range(20 if LONG else 4))
def test_random_lists_equal_the_oracle(seed, backend):
    """One line of Python defines `contained` for the oracle; the oracle does the rest."""
    r = random.Random(seed)
    n = r.choice([1, 7, 70])
    pool = range(-2, 6)
    lists = [
        None if r.random() < 0.2 else [r.choice(pool) for _ in range(r.randrange(4))]
        for _ in range(n)
    ]
    nulls = [r.choice([0, 1, None]) for _ in range(n)]
    bounded = r.random() < 0.5
    low = [min(v) if v and bounded and r.random() < 0.7 else None for v in lists]
    high = [max(v) if v and bounded and r.random() < 0.7 else None for v in lists]
    stats = ss.Statistics.from_dict(
        {"x": {"values": lists, "null_count": nulls, "min": low, "max": high}}, SCHEMA
    )

    def contained(values, chosen):
        if values is None:
            return None
        return (
            False if not set(values) & set(chosen) else True if set(values) <= set(chosen) else None
        )

    for _ in range(4 if backend == "numba" else 30):  # Numba compiles each shape
        p = ss.PruningPredicate(_random(r, 2), SCHEMA)
        expected = []
        for i in range(n):
            facts = oracle.column_facts(ty.INT64, low=low[i], high=high[i], null_count=nulls[i])
            facts = oracle.ColumnFacts(
                facts.low,
                facts.high,
                facts.may_hold_value,
                facts.may_hold_null,
                False,
                functools.partial(contained, lists[i]),
            )
            y = oracle.column_facts(ty.INT64)
            expected.append(oracle.verdict(p.node, {("x",): facts, ("y",): y}))
        assert p.evaluate(stats, backend).tolist() == expected, p
        # No row is lost: a container with a matching value is kept, whatever its statistics say.
        for i, values in enumerate(lists):
            for v in values or ():
                if _row(p, v):
                    assert expected[i] != NEVER


def _row(p, v):
    return evaluate_rows(
        p.node, pa.table({"x": pa.array([v], pa.int64()), "y": pa.array([3], pa.int64())})
    ).to_pylist() == [True]


def _random(r, depth):
    if depth and r.random() < 0.7:
        parts = [_random(r, depth - 1) for _ in range(r.choice([1, 2, 3]))]
        if len(parts) == 1:
            return f"NOT ({parts[0]})"
        return "(" + r.choice([" AND ", " OR "]).join(parts) + ")"
    members = ", ".join(str(r.randrange(-3, 7)) for _ in range(r.choice([1, 2, 4])))
    return r.choice(
        [
            f"x IN ({members})",
            f"x NOT IN ({members})",
            f"x = {r.randrange(-3, 7)}",
            f"x <> {r.randrange(-3, 7)}",
            "x < 3",
            "x IS NULL",
            "y = 3",
        ]
    )


class Provider:
    num_containers = 3

    def __init__(self, answer):
        self.answer = answer

    def contained(self, column, values):
        return self.answer


#    lists                provider              x = 1                    x <> 1
JOINED = [
    ([[1], [2], None],    [None, None, False],  [ALWAYS, NEVER, NEVER],  [NEVER, ALWAYS, ALWAYS]),
    ([None, None, None],  [True, False, None],  [ALWAYS, NEVER, MAYBE],  [NEVER, ALWAYS, MAYBE]),
    # A contradiction.
    ([[1], [2], [1]],     [False, True, True],  [MAYBE, MAYBE, ALWAYS],  [MAYBE, MAYBE, NEVER]),
]  # fmt: skip


@pytest.mark.parametrize("lists, answer, equal, unequal", JOINED)
def test_lists_beside_a_provider(lists, answer, equal, unequal, backend):
    made = ss.Statistics.from_dict({"x": {"values": lists, "null_count": [0] * 3}}, SCHEMA)
    both = ss.Statistics(
        SCHEMA, 3, made._raw, members=made._members, contained=Provider(pa.array(answer)).contained
    )
    assert ss.PruningPredicate("x = 1", SCHEMA).evaluate(both, backend).tolist() == equal
    assert ss.PruningPredicate("x <> 1", SCHEMA).evaluate(both, backend).tolist() == unequal


def test_copies_keep_lists_and_filters():
    import copy
    import pickle

    stats = ss.Statistics.from_dict(
        {"x": {"values": [[1], [2]]}, "a.b": {"bloom": [of_longs(1), of_longs(2)]}}, SCHEMA
    )
    p = ss.PruningPredicate("x = 1 AND a.b = 1", SCHEMA)
    for again in (stats, copy.deepcopy(stats), pickle.loads(pickle.dumps(stats))):
        assert p.prune(again).tolist() == [True, False]
        assert p.part(p.node).prune(again).tolist() == [True, False]


#    key       value                                                x = 7 may match
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
def test_unusable_lists_and_filters_are_unknown(key, given, expected):
    assert (
        ss.PruningPredicate("x = 7", SCHEMA)
        .prune(ss.Statistics.from_dict({"x": {key: given}}, SCHEMA))
        .tolist()
        == expected
    )
