"""What cannot be registered is refused in one line."""

import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.spark import register_statistics, registered_statistics, unregister_statistics

GOOD = {"path": ["a"], "k.min": [1]}
WRONG = [
    (pa.table({"x": [1], "k.min": [1]}), {}, "have no column 'path' (of x, k.min); expected text"),
    (pa.table({"path": [1], "k.min": [1]}), {}, "have a column int64 'path'"),
    (pa.table({"path": ["a"], "size": [1]}), {}, "there is no statistic among path, size"),
    (pa.table(GOOD | {"size": ["1"]}), {}, "'size' is string; expected whole numbers of bytes"),
    (
        pa.table(GOOD | {"modification_time": pa.array([1], pa.timestamp("us"))}),
        {},
        "'modification_time' is timestamp[us]; expected whole numbers (ms since 1970) or",
    ),
    (pa.table([["a"], [1], [2]], names=["path", "k.min", "k.min"]), {}, "two columns 'k.min'"),
    (pa.table(GOOD), {"columns": {"k.min": "x"}}, "columns= is for DataFrames"),
    (pa.table(GOOD), {"about": pa.table(GOOD)}, "about= is for Statistics"),
    ({"path": ["a"]}, {}, "the statistics are dict; expected a DataFrame of Spark"),
    (ss.Statistics.from_dict({"k": {"min": [1]}}, pa.schema([("k", pa.int64())])), {},
     "about= is NoneType; expected a table of 1 rows with the column 'path'"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "more", "why"), WRONG)
def test_errors(given, more, why):
    with pytest.raises(ss.StatisticsError) as e:
        register_statistics("/nowhere", given, **more)
    assert why in str(e.value) and "\n" not in str(e.value)
    assert registered_statistics() == ()


def test_unregister_names_what_there_is():
    register_statistics("/lake/t", pa.table(GOOD))
    with pytest.raises(
        ss.StatisticsError, match=r"for file:/nowhere; there are some for file:/lake/t"
    ):
        unregister_statistics("/nowhere")
    unregister_statistics("/lake/t")
    assert registered_statistics() == ()
