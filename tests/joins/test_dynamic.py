"""Dynamic filters: membership of rows, conditions, and verdicts of containers.

Ids in test names are those of the conformance table.
"""

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.bindings.filters.filter import DynamicFilter
from skipstone.bindings.filters.kinds import LEFT, RIGHT
from skipstone.bindings.filters.scan import DynamicFilters
from skipstone.ir.session import Session
from tests.support.joins.dynamic_cases import ALWAYS, MAYBE, NEVER, box, collected, judge, schema

NAN = float("nan")

LONG = schema(k=pa.int64())
PAIR = schema(a=pa.int64(), b=pa.int64())
WIDE = schema(a=pa.int32(), b=pa.int64(), c=pa.string())


# Membership of rows.


def test_V02_V03_rows_of_another_arity_are_refused():
    off = collected(
        WIDE, {"a": [1, 2], "b": [1, 2], "c": ["a", "b"]}, threshold=1, on_overflow="all"
    )
    assert off.contains([(1,), (1, 2, 3, 4)]).tolist() == [True, True]
    on = collected(WIDE, {"a": [1], "b": [1], "c": ["a"]})
    with pytest.raises(ss.DynamicFilterError, match=r"expected tuples of \(a, b, c\)"):
        on.contains([(1, 1)])
    with pytest.raises(ss.DynamicFilterError, match="expected"):
        on.contains(pa.table({"a": [1]}))


def test_nan_equals_nan_and_zeros_are_equal_in_contains():
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


def test_a_filter_becomes_a_condition_on_the_column():
    data = collected(LONG, {"k": [5, 7]})
    assert (
        ss.PruningPredicate(data.to_predicate({"k": "x"}), schema(x=pa.int64())).expr
        == "x IN (5, 7)"
    )
    off = collected(LONG, {"k": [5, 7]}, max_values=1, on_overflow="all")
    assert ss.PruningPredicate(off.to_predicate(), LONG).always_true
    none = ss.PruningPredicate(collected(LONG).to_predicate(), LONG)
    assert none.expr == "false"


# Containers.


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
    ([1], {"how": "not in"}, box(1, 1, None), NEVER),  # NULL might equal the key
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
def test_a_container_is_judged_by_the_keys(keys, options, container, verdict):
    data = collected(LONG, {"k": keys} if keys else {"k": []})
    assert judge(data, LONG, [(container,)], **options) == [verdict]


def test_J07_ranges_never_make_a_container_fully_matched():
    data = collected(LONG, {"k": [1, 2]}, max_values=1)
    assert judge(data, LONG, [(box(1, 1),)], how="anti") == [MAYBE]
    assert judge(data, LONG, [(box(1, 1),), (box(5, 6),)]) == [MAYBE, NEVER]


def test_R08_a_box_without_any_tuple_of_keys_is_pruned():
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


def test_V08_null_matches_only_null_safe_keys():
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
    # The key was left out because it fits no INT, but it is greater than 0.
    assert judge(data, schema(k=pa.int32()), [(box(0, 0),)], op="<=") == [MAYBE]


def test_nan_and_zeros_are_judged_as_keys():
    of = schema(k=pa.float64())
    data = collected(of, {"k": [NAN]})
    assert judge(
        data, of, [((0.0, 1.0, 0, 0),), ((0.0, 1.0, 0, None),), ((None, None, 0, 10),)]
    ) == [NEVER, MAYBE, ALWAYS]
    data = collected(of, {"k": [0.0]})
    assert judge(data, of, [((-0.0, -0.0, 0, 0),), ((0.5, 1.0, 0, None),)]) == [ALWAYS, NEVER]


def test_keys_that_round_match_several_values():
    """Several BIGINT values equal one DOUBLE."""
    data = collected(LONG, pa.table({"k": [2.0**53]}))
    assert judge(data, LONG, [(box(2**53 + 1, 2**53 + 1),), (box(2**53 + 2, 2**60),)]) == [
        ALWAYS,
        NEVER,
    ]


def test_P09_one_key_restricts_two_columns():
    of = schema(x=pa.int64(), y=pa.int64())
    f = DynamicFilter(collected(LONG, {"k": [1]}), columns={"k": ["x", "y"]})
    assert judge(
        f, of, [(box(1, 1), box(2, 2)), (box(1, 1), box(1, 1)), (box(2, 2), box(1, 1))]
    ) == [NEVER, ALWAYS, NEVER]


def test_J12_keys_follow_renamed_and_reordered_columns():
    of = schema(y=pa.int64(), x=pa.int64())
    f = DynamicFilter(collected(PAIR, {"a": [1], "b": [2]}), columns={"a": "x", "b": "y"})
    assert judge(f, of, [(box(2, 2), box(1, 1)), (box(1, 1), box(2, 2))]) == [ALWAYS, NEVER]


def test_J23_each_of_three_keys_prunes():
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


def test_keys_collected_for_another_type_prune_nothing_and_warn():
    data = collected(schema(k=pa.int32()), {"k": [1]})
    with pytest.warns(ss.SkipstoneWarning, match="give the collector the schema of the scan"):
        assert judge(data, LONG, [(box(1, 1),), (box(2, 2),)]) == [MAYBE, MAYBE]


def test_unknown_kinds_and_operators_are_refused():
    assert set(LEFT) == set(RIGHT)
    for name in ("left_semi", "LEFT ANTI", "fullouter", "not_in"):
        DynamicFilter(how=name)
    with pytest.raises(ss.DynamicFilterError, match="how is 'cross'"):
        DynamicFilter(how="cross")
    with pytest.raises(ss.DynamicFilterError, match="the operator"):
        DynamicFilter(op="<>")


def test_value_lists_rule_keys_out():
    stats = ss.Statistics.from_dict(
        {"k": {"min": [1, 1], "max": [9, 9], "null_count": [0, 0], "values": [[1, 9], [1, 5, 9]]}},
        LONG,
        row_count=[3, 3],
    )
    filters = DynamicFilters((DynamicFilter(collected(LONG, {"k": [5, 6]})),), LONG, Session())
    assert filters.judged(stats, np.full(2, 2, np.uint8)).tolist() == [NEVER, MAYBE]
