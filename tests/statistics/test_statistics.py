"""Statistics from lists, tables and providers: names of columns, answers, mistakes."""

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss

SCHEMA = pa.schema(
    [
        ("x", pa.int64()),
        ("s", pa.string()),
        ("a.b", pa.int64()),
        ("q`t", pa.int64()),
        ("a", pa.struct([("b", pa.int64()), ("c d", pa.int64())])),
    ]
)
KEEP, DROP = True, False


def pruned(predicate, stats, schema=SCHEMA):
    return ss.PruningPredicate(predicate, schema).prune(stats).tolist()


#    column            as statistics name it
NAMES = [
    ("x",              "x"),
    ("a.b",            "a.b"),          # the struct's field, as in SQL
    ("`a.b`",          "`a.b`"),        # the column whose name has a dot
    ("`q``t`",         "`q``t`"),
    ("`q``t`",         "q`t"),
    ("a.`c d`",        "a.c d"),
]  # fmt: skip


@pytest.mark.parametrize("column, name", NAMES)
def test_names(column, name):
    """Statistics of one column, however given, prune by that column and by no other."""

    class Provider:
        num_containers = 2

        def min_values(self, requested):
            return pa.array([0, 7]) if requested == column else None

        max_values = min_values

        def null_counts(self, requested):
            return None

        row_counts = null_counts

        def contained(self, requested, values):
            return None

    made = [
        ss.Statistics.from_dict({name: {"min": [0, 7], "max": [0, 7]}}, SCHEMA),
        ss.Statistics.from_arrow(
            pa.table({f"{name}.min": [0, 7], f"{name}.max": [0, 7], "ignored": [1, 2]}), SCHEMA
        ),
        Provider(),
    ]
    for stats in made:
        assert pruned(f"{column} = 7", stats) == [DROP, KEEP]
        for other in {c for c, _ in NAMES} - {column}:
            assert pruned(f"{other} = 7", stats) == [KEEP, KEEP]
            # Both columns, in both orders: neither answer is used for the other.
            assert (
                pruned(f"{other} = 1 AND {column} = 7", stats)
                == pruned(f"{column} = 7 AND {other} = 1", stats)
                == [DROP, KEEP]
            )


def test_a_column_that_only_the_predicate_knows():
    """Statistics of an older schema: a column that they lack is unknown."""
    old = pa.schema([("x", pa.int32())])
    stats = ss.Statistics.from_dict(
        {"x": {"min": [1, 2**31 - 1], "max": [2, 2**31 - 1]}}, old, row_count=[5, 5]
    )
    new = pa.schema([("x", pa.int64()), ("y", pa.int64()), ("st", pa.struct([("f", pa.int64())]))])
    assert pruned("x = 1 AND y = 1 AND st.f = 1", stats, new) == [KEEP, DROP]
    assert ss.PruningPredicate("st.f IS NULL OR x > 0", new).evaluate(stats).tolist() == [1, 1]
    assert pruned("x > 3000000000", stats, new) == [DROP, DROP]


def test_from_arrow_of_struct_fields():
    table = pa.table(
        {"a.b.min": [0, 7], "a.b.max": [0, 7], "a.b.null_count": [0, 0], "row_count": [1, 0]}
    )
    assert ss.PruningPredicate("a.b = 7 OR a.b = 0", SCHEMA).evaluate(
        ss.Statistics.from_arrow(table, SCHEMA)
    ).tolist() == [1, 0]  # the struct may be NULL


class Silent:
    """A provider that returns nothing but the given answers, and records its calls."""

    def __init__(self, n=3, **answers):
        self.num_containers, self.answers, self.calls = n, answers, []

    def __getattr__(self, name):
        if name not in ("min_values", "max_values", "null_counts", "row_counts", "contained"):
            raise AttributeError(name)

        def answer(*args):
            self.calls.append((name, *args))
            return self.answers.get(name)

        return answer


def test_providers_are_called_only_for_columns_of_the_predicate():
    provider = Silent()
    assert pruned("x = 5 AND s > 'a'", provider) == [KEEP] * 3
    assert {call[1] for call in provider.calls} == {"x", "s"}
    assert [call for call in provider.calls if call[0] == "contained"] == [
        ("contained", "x", frozenset({5}))
    ]


@pytest.mark.parametrize(
    "answer",
    [
        pa.chunked_array([[True], [None, False]]),
        pa.array([1, None, 0]),
        pa.array([True, None, False]),
    ],
    ids=lambda a: str(a.type),
)
def test_contained_accepts_other_layouts(answer):
    assert pruned("x = 5", Silent(contained=answer)) == [KEEP, KEEP, DROP]
    assert pruned("x <> 5", Silent(contained=answer)) == [DROP, KEEP, KEEP]


def test_contained_does_not_concern_null():
    """ "Only these values" allows NULL: a NULL row prevents ALWAYS, and IS NULL may match."""
    provider = Silent(
        contained=pa.array([True] * 3),
        null_counts=pa.array([0, 1, None]),
        row_counts=pa.array([2, 2, 2]),
    )
    assert ss.PruningPredicate("x = 5", SCHEMA).evaluate(provider).tolist() == [2, 1, 1]
    assert ss.PruningPredicate("x <> 5 OR x IS NULL", SCHEMA).evaluate(provider).tolist() == [
        0,
        1,
        1,
    ]
    assert ss.PruningPredicate("(x <> 5) IS NULL", SCHEMA).evaluate(provider).tolist() == [0, 1, 1]


def test_no_containers(backend):
    for stats in (
        ss.Statistics.from_dict(
            {"x": {"min": [], "max": []}, "s": {"min": []}}, SCHEMA, row_count=[]
        ),
        Silent(0),
    ):
        for predicate in (
            "x = 5 AND s LIKE 'a%'",
            "TRUE",
            "FALSE",
            "s IN ('a', 'b') OR x NOT IN (1, 2)",
        ):
            p = ss.PruningPredicate(predicate, SCHEMA)
            assert (
                p.evaluate(stats, backend).shape,
                p.prune(stats, backend).shape,
                p.survivors(stats, backend).shape,
            ) == ((0,),) * 3


@pytest.mark.parametrize(
    "call, dtype", [("evaluate", np.uint8), ("prune", np.bool_), ("survivors", np.int64)]
)
@pytest.mark.parametrize("predicate", ["x = 5", "TRUE", "FALSE", "x IS NULL", "x + 1 = 2"])
def test_types_of_answers(call, dtype, predicate, backend):
    stats = ss.Statistics.from_dict(
        {"x": {"min": [5, 6], "null_count": [0, 1]}}, SCHEMA, row_count=[1, 0]
    )
    assert getattr(ss.PruningPredicate(predicate, SCHEMA), call)(stats, backend).dtype == dtype


#    made of                              error                message
MISTAKES = [
    ({"y": {"min": [1]}},                 ss.UnknownColumn,    "names 'y'; the schema has 'x'"),
    ({"x": {"maximum": [1]}},             ss.StatisticsError,
     "a statistic 'maximum'; expected some of min, max"),
    ({"x": {"min": [1], "max": [1, 2]}}, ss.StatisticsError,  "x.max has 2 values and x.min has 1"),
    ({},                                  ss.StatisticsError,  "no statistics were given"),
]  # fmt: skip


@pytest.mark.parametrize("columns, error, message", MISTAKES)
def test_mistakes(columns, error, message):
    with pytest.raises(error, match=message):
        ss.Statistics.from_dict(columns, SCHEMA)


def test_mistakes_of_providers_and_tables():
    with pytest.raises(ss.StatisticsError, match=r"gave 2 values of x.min; expected 3"):
        pruned("x = 5", Silent(min_values=pa.array([1, 2])))
    with pytest.raises(ss.StatisticsError, match=r"contained\('x'\) gave 2 values; expected 3"):
        pruned("x = 5", Silent(contained=pa.array([True, False])))
    with pytest.raises(
        ss.StatisticsError, match=r"the table has columns min; expected names such as 'x.min'"
    ):
        ss.Statistics.from_arrow(pa.table({"min": [1]}), SCHEMA)
    with pytest.raises(ss.SkipstoneError, match="backend 'gpu' is not known"):
        ss.PruningPredicate("x = 1", SCHEMA).prune(
            ss.Statistics.from_dict({}, SCHEMA, row_count=[1]), "gpu"
        )
    with pytest.raises(ss.StatisticsError, match="no statistic is named 'mean'"):
        ss.Statistics.from_dict({"x": {"min": [1]}}, SCHEMA).get("x", "mean")
