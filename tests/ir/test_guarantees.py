"""Literal guarantees beyond DataFusion's: all tests of a column together leave a few values."""

import itertools

import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.ir.rows import judge

SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("j", pa.int32()),
        ("s", pa.string()),
        ("f", pa.float64()),
        ("b", pa.bool_()),
    ]
)
#    predicate                                     guarantees
CASES = [
    ("i BETWEEN 5 AND 5",                          [("i", "in", {5})]),
    ("i > 4 AND i < 6",                            [("i", "in", {5})]),
    ("NOT (i <> 1 AND i <> 2)",                    [("i", "in", {1, 2})]),
    ("i IN (1,2,3,4,5,6,7,8) AND i NOT IN (1, 2)", [("i", "in", {3, 4, 5, 6, 7, 8})]),
    ("(i = 1 OR i = 2) AND i <> 1",                [("i", "in", {2})]),
    ("i IN (1, 2, 3) AND i > 1 AND j = 3",         [("i", "in", {2, 3}), ("j", "in", {3})]),
    ("s >= 'a' AND s <= 'a'",                      [("s", "in", {"a"})]),
    ("f BETWEEN 5 AND 5",                          [("f", "in", {5.0})]),
    ("i < -2147483647",                            [("i", "in", {-(2**31)})]),
    ("i = 1 OR i IS NULL",                         []),  # TRUE for NULL
    ("NOT (i <=> 1)",                              []),
    ("f >= 5 AND f <> 6",                          [("f", "not_in", {6.0})]),  # TRUE for NaN
    ("i BETWEEN 5 AND 9",                          []),
    ("i <> 1 AND i <> 2",                          [("i", "not_in", {1, 2})]),
    ("s BETWEEN 'a' AND 'b' AND s <> 'a'",         [("s", "not_in", {"a"})]),
]  # fmt: skip
ROWS = pa.record_batch(
    [
        *zip(
            *itertools.product(
                [None, -(2**31), 0, 1, 2, 3, 5, 6, 9], [None, 3], ["a", "a\0", None],
                [None, float("nan"), 5.0, 6.0], [True, None],
            ),
            strict=True,
        )
    ],
    schema=SCHEMA,
)  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[c[0] for c in CASES])
def test_guarantees(text, expected):
    """Each guarantee is the one expected, and holds on every row that matches."""
    p = ss.PruningPredicate(text, SCHEMA)
    assert [(g.column, g.kind, g.literals) for g in p.literal_guarantees] == expected
    assert {g.column for g in p.literal_guarantees if g.kind == "in"} <= set(p.membership_columns)
    matching = ROWS.filter(pa.array(judge(p.node, ROWS, {}).true))
    assert matching.num_rows
    for g in p.literal_guarantees:
        values = matching[g.column].to_pylist()
        assert all((v in g.literals) == (g.kind == "in") and v is not None for v in values)


def test_value_lists_prune_by_them():
    """Files whose bounds enclose a value, but whose value lists lack it, are pruned."""
    stats = ss.Statistics.from_dict(
        {"i": {"min": [1, 1, 1], "max": [9, 9, 9], "values": [[1, 9], [1, 5, 9], None]}},
        SCHEMA,
        row_count=[3, 3, 3],
    )
    for text in ("i BETWEEN 5 AND 5", "i > 4 AND i < 6", "NOT (i <> 4 AND i <> 5)"):
        assert ss.PruningPredicate(text, SCHEMA).survivors(stats).tolist() == [1, 2], text
