"""Statistics from arrays of every kind, and the errors for other objects."""

import datetime as dt
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss

SCHEMA = pa.schema(
    [("x", pa.int64()), ("f", pa.float64()), ("s", pa.string()), ("t", pa.timestamp("us"))]
)
DAYS = [dt.datetime(2020, 1, 1), dt.datetime(2021, 1, 1)]
SWAPPED = "<" if sys.byteorder == "big" else ">"

#    column, maxima of two containers in any form; the first is 1, 'a' or 2020
READ = [
    ("x", [1, 2]),
    ("x", (1, 2)),
    ("x", range(1, 3)),
    ("x", (i for i in (1, 2))),
    ("x", np.array([1, 2])),
    ("x", np.array([1, 2], f"{SWAPPED}i8")),
    ("x", np.array([1, 2], f"{SWAPPED}u2")),
    ("x", np.array([1, 2], object)),
    ("x", np.array([[1, 9], [2, 9]])[:, 0]),  # strided
    ("x", pd.Series([1, 2])),
    ("x", pl.Series([1, 2])),
    ("x", pa.chunked_array([[1], [2]])),
    ("x", pa.array([1, 2]).dictionary_encode()),
    ("s", np.array(["a", "b"])),
    ("s", np.array(["a", "b"], f"{SWAPPED}U1")),
    ("s", pa.array(["a", "b"]).dictionary_encode()),
    ("t", np.array(DAYS, "M8[us]")),
    ("t", np.array(DAYS, f"{SWAPPED}M8[s]")),
    ("t", np.array(DAYS, "M8[h]")),  # a unit that Arrow lacks
    ("t", np.array(DAYS, "M8[Y]")),
    ("t", np.array(DAYS, "M8[60s]")),  # a unit that Arrow reads as one second
    ("t", np.array(DAYS, f"{SWAPPED}M8[30m]")),
]
ABOVE = {"x": "x > 1", "s": "s > 'a'", "t": "t > TIMESTAMP_NTZ '2020-01-01'"}


class Provider:
    num_containers = 2

    def __init__(self, values=None, counts=None):
        self.values, self.counts = values, counts

    def min_values(self, column):
        return None

    def max_values(self, column):
        return self.values

    def null_counts(self, column):
        return self.counts

    def row_counts(self, column):
        return None


@pytest.mark.parametrize("column, values", READ, ids=lambda v: str(getattr(v, "dtype", type(v))))
def test_arrays_that_are_read(column, values):
    """Both from a dictionary and from a provider."""
    values = list(values) if not hasattr(values, "__len__") else values
    p = ss.PruningPredicate(ABOVE[column], SCHEMA)
    for stats in (
        ss.Statistics.from_dict({column: {"max": values}}, SCHEMA),
        ss.Statistics.from_provider(Provider(values), SCHEMA, [column]),
    ):
        assert p.prune(stats).tolist() == [False, True]


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_floats_of_either_byte_order(kind):
    p = ss.PruningPredicate("f < 2.0", SCHEMA)
    for order in "<>":
        values = np.array([1.0, 3.0], f"{order}{kind}")
        stats = ss.Statistics.from_dict({"f": {"min": values}}, SCHEMA)
        assert p.prune(stats).tolist() == [True, False]


def test_a_generator_is_read_once():
    stats = ss.Statistics.from_dict(
        {"x": {"max": (i for i in (1, 2))}}, SCHEMA, (n for n in (5, 5))
    )
    assert ss.PruningPredicate("x > 1", SCHEMA).prune(stats).tolist() == [False, True]


@pytest.mark.parametrize(
    "values",
    [
        np.array([1j, 2]),
        np.array([1, 2], "m8[s]"),
        np.array([1, 2], np.longdouble),
        np.array([1, 2], "M8[ps]"),
    ],
)
def test_values_of_other_types_are_unknown(values):
    for key in ("min", "max", "null_count"):
        stats = ss.Statistics.from_dict({"x": {key: values}}, SCHEMA)
        assert ss.PruningPredicate("x > 1", SCHEMA).prune(stats).all()


def corrupt(indices):
    return pa.DictionaryArray.from_arrays(
        pa.array(indices, pa.int32()), pa.array(["a", "b"]), safe=False
    )


REFUSED = [
    (np.array(5), r"has the shape \(\)"),
    (np.array([[1], [2]]), r"has the shape \(2, 1\)"),
    (np.array([(1, 2), (3, 4)], [("a", "i4"), ("b", "i4")]), "has the NumPy type"),
    (np.zeros(2, "V8"), "has the NumPy type"),
    (5, "is of the type int"),
    (np.int64(5), "is of the type int64"),
    ("ab", "is of the type str"),
    (b"ab", "is of the type bytes"),
    ({1: 2, 3: 4}, "is of the type dict"),
    ({1, 2}, "is of the type set"),
    (pa.table({"a": [1, 2]}), "is of the type Table"),
    (corrupt([0, 5]), "its indices are 0 to 5, and its dictionary has 2 values"),
    (corrupt([-1, 0]), "its indices are -1 to 0"),
    (pa.chunked_array([corrupt([0, 1]), corrupt([2, None])]), "its indices are 2 to 2"),
]


@pytest.mark.parametrize("value, message", REFUSED, ids=[m for _, m in REFUSED])
def test_objects_that_are_refused(value, message):
    """The error is one line that names the statistic, for every statistic and every constructor."""
    ways = [
        *(
            lambda key=key: ss.Statistics.from_dict({"s": {key: value}}, SCHEMA)
            for key in ("min", "max", "null_count", "nan_count", "min_exact", "bloom")
        ),
        lambda: ss.Statistics.from_dict({}, SCHEMA, row_count=value),
        lambda: ss.Statistics.from_provider(Provider(value), SCHEMA, ["s"]),
        lambda: ss.Statistics.from_provider(Provider(None, value), SCHEMA, ["s"]),
    ]
    if isinstance(value, pa.Array | pa.ChunkedArray):
        ways.append(lambda: ss.Statistics.from_arrow(pa.table({"s.min": value}), SCHEMA))
    for way in ways:
        with pytest.raises(ss.StatisticsError, match=message) as found:
            way()
        text = str(found.value)
        assert text.isprintable() and text.startswith(("s.", "row_count"))
        assert text.endswith("expected a list, NumPy or Arrow array of one value per container")


@pytest.mark.parametrize("unit", ["Y", "W", "h", "25s", "1000us"])
def test_times_that_overflow_are_unknown(unit):
    values = np.array([2**62, 2**61], "i8").view(f"M8[{unit}]")
    stats = ss.Statistics.from_dict({"t": {"max": values}}, SCHEMA)
    assert ss.PruningPredicate("t > TIMESTAMP_NTZ '2020-01-01'", SCHEMA).prune(stats).all()


def test_a_dictionary_index_under_null_is_ignored():
    """It may have any value."""
    indices = pa.Array.from_buffers(
        pa.int32(), 2, [pa.py_buffer(b"\x01"), pa.py_buffer(np.array([0, 77], np.int32))]
    )
    values = pa.DictionaryArray.from_arrays(indices, pa.array(["a"]), safe=False)
    stats = ss.Statistics.from_dict({"s": {"max": values}}, SCHEMA)
    assert ss.PruningPredicate("s > 'a'", SCHEMA).prune(stats).tolist() == [False, True]


GIVEN = ss.Statistics.from_dict({"x": {"min": [1]}}, SCHEMA)
# The whole argument is of the wrong type.
WRONG = [
    (lambda: ss.Statistics.from_dict([1], SCHEMA), "columns are of the type list; .*by column"),
    (lambda: ss.Statistics.from_dict({"x": [1, 2]}, SCHEMA), "of 'x' are of the type list; .*min"),
    (lambda: ss.Statistics.from_dict({}, pa.table({"x": [1]})), "schema is Table; .* its .schema"),
    (
        lambda: ss.Statistics.from_dict({}, {"x": "int"}),
        "schema is dict; expected a pyarrow.Schema",
    ),
    (lambda: ss.Statistics.from_provider({}, SCHEMA, ["x"]), "dict, which has no num_containers"),
    (
        lambda: ss.Statistics.from_arrow(pd.DataFrame({"x.min": [1]}), SCHEMA),
        r"DataFrame; expected an Arrow table: pyarrow.table\(frame\) makes one",
    ),
    (lambda: ss.Statistics.from_dict({1: {"min": [1]}}, SCHEMA), "a statistic names 1; expected"),
    (lambda: ss.Statistics.from_dict({"x": {1: [1], "y": [1]}}, SCHEMA), "has a statistic 1"),
    (lambda: GIVEN.get(1, "min"), "a statistic names 1; expected the name of a column"),
    (lambda: GIVEN.index(order_by=1), "order_by names 1; expected the name of a column"),
    (lambda: GIVEN.index(order_by=b"x"), "order_by names b'x'; expected the name of a column"),
    (lambda: GIVEN.index(block=1.5), "block is 1.5; expected a number of containers"),
    (lambda: GIVEN.save_shards("no", about={"a": [1]}), "about is of the type dict; expected a"),
    (
        lambda: ss.Statistics.from_arrow(
            pa.table([pa.array([1]), pa.array([2])], names=["x.min", "x.min"]), SCHEMA
        ),
        "the table has several columns 'x.min'",
    ),
]


@pytest.mark.parametrize("use, message", WRONG, ids=[m for _, m in WRONG])
def test_arguments_of_the_wrong_type(use, message):
    with pytest.raises(ss.StatisticsError, match=message):
        use()


# Errors name the argument at fault.


@pytest.fixture
def table(tmp_path):
    pq.write_table(pa.table({"x": [1, 2], "price": [1.0, 2.0]}), tmp_path / "t.parquet")
    return ss.scan_parquet(tmp_path)


NAMERS = [
    (lambda t: t.plan("pirce > 1"), "predicate names 'pirce'; the schema has"),
    (lambda t: t.plan(order_by="pirce"), "order_by names 'pirce'; the schema has"),
    (lambda t: t.plan(columns=["pirce"]), "columns= names 'pirce'; the table has"),
    (
        lambda t: ss.Statistics.from_dict({"pirce": {"min": [1]}}, t.schema),
        "a statistic names 'pirce'; the schema has",
    ),
    (
        lambda t: ss.Statistics.from_dict({"x": {"min": [1]}}, t.schema).index(order_by="pirce"),
        "order_by names 'pirce'; the schema has",
    ),
    (lambda t: ss.DynamicFilterCollector(["pirce"], t.schema), "columns= names 'pirce'"),
    (lambda t: t.plan().min("pirce"), r"min\(\) names 'pirce'; the schema has"),
    (lambda t: t.plan().max("pirce"), r"max\(\) names 'pirce'; the schema has"),
    (lambda t: ss.join(t, t, on="pirce"), "on= names 'pirce'; the left side has"),
]


@pytest.mark.parametrize("use, message", NAMERS, ids=[m for _, m in NAMERS])
def test_the_argument_that_names_an_unknown_column(table, use, message):
    with pytest.raises(ss.UnknownColumn, match=message) as found:
        use(table)
    assert "Did you mean 'price'?" in str(found.value)


def test_an_unknown_order_in_another_case(tmp_path):
    pq.write_table(pa.table({"x": [1], "X": [2]}), tmp_path / "t.parquet")
    table = ss.scan_parquet(tmp_path)
    with pytest.raises(ss.AmbiguousColumn, match="order_by names 'x'"):
        table.plan(order_by="x")


def test_pandas_is_missing(table):
    assert table.plan("x > 1").to_pandas()["x"].tolist() == [2]
    code = (
        "import sys\n"
        "class NoPandas:\n    def find_spec(self, name, *_):\n"
        "        if name == 'pandas': raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, NoPandas())\n"
        "import skipstone as ss, pyarrow as pa\n"
        f"plan = ss.scan_parquet({table.files[0]!r}).plan('x > 1')\n"
        "try:\n    plan.to_pandas()\n"
        "except ss.BackendMissing as e:\n    print(e)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert 'pip install "skipstone[spark]"' in done.stdout, done.stderr
