"""Partition values in all spellings: read if Spark's casts accept them, refused otherwise."""

import math

import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.bindings.tables.partition_values import partition_values
from tests.support.tables.delta_log import Log, Written, delta_schema, xs

KINDS = {
    "tinyint": pa.int8(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "decimal(10,2)": pa.decimal128(10, 2),
    "decimal(38,0)": pa.decimal128(38, 0),
}
TEXTS = [
    *(
        " 1 ",
        "1\t",
        "+1",
        "-0",
        "00012",
        "127",
        "128",
        "2147483648",
        "1L",
        "1_0",
        "0x10",
        "--1",
        "1 2",
        "+",
        "-",
        "on",
        "\u00a01",
    ),
    *(
        "1.",
        ".5",
        "+.5",
        "-.5e1",
        "1.5",
        "-1.5",
        "1e3",
        "1E2",
        "1e+02",
        "1E-5",
        "1e",
        "e1",
        "1e1.0",
        "1e400",
        "-1e400",
        "1e-400",
        "0e400",
        "9.9e9",
    ),
    *(
        "1d",
        "1D",
        "1.0f",
        "1F",
        "+1d",
        "1.f",
        "1e3d",
        "1.5d ",
        "1ed",
        "1dd",
        "d",
        "infd",
        "Infinityf",
        "16777217.0000000001",
        "7e-46",
        "3.4028236e38",
    ),
    *(
        "Infinity",
        "-Infinity",
        "+Infinity",
        "inf",
        "+Inf",
        "-inf",
        "INF",
        "NaN",
        "nan",
        "+nan",
        "-nan",
        "nan(1)",
    ),
    *("true", "TRUE", "tRuE", "t", "T", "yes", "Y", "y", "no", "N", "n", "f", "F", "false"),
    *(
        "1.555",
        "1.545",
        "-1.555",
        "0.005",
        "0.004",
        "99999999.99",
        "99999999.995",
        "1e8",
        "1" * 39,
        "0." + "1" * 30,
    ),
]


def known(value):
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


@pytest.mark.parametrize("name", KINDS)
def test_texts_are_read_as_spark_casts_them(name, spark):
    kind = KINDS[name]
    cast = (
        spark.createDataFrame([(t,) for t in TEXTS], "s string")
        .selectExpr(f"try_cast(s AS {name})")
        .collect()
    )
    theirs = pa.array([r[0] for r in cast]).cast(kind)
    ours = partition_values(pa.array(TEXTS), kind, "UTC")[0]
    pairs = {
        t: (known(a), known(b))
        for t, a, b in zip(TEXTS, ours.to_pylist(), theirs.to_pylist(), strict=True)
    }
    assert {t: p for t, p in pairs.items() if p[0] != p[1]} == {}


def test_tables_are_planned_and_read_by_them(tmp_path):
    log = Log(
        tmp_path / "t", delta_schema("x INT, d DOUBLE, b BOOLEAN, m DECIMAL(10,2)"), ["d", "b", "m"]
    )
    log.add(
        Written([{"x": 1}], {"d": "1e3d", "b": "Y", "m": "1E2"}),
        Written([{"x": 2}], {"d": "-inf", "b": " no", "m": "1.555"}),
    )
    table = ss.scan_delta(log.folder)
    for where, expected in {
        "d = 1000": [1],
        "d < 0": [2],
        "b": [1],
        "NOT b": [2],
        "m = 100": [1],
        "m = 1.56": [2],
    }.items():
        assert xs(table, where) == expected
        assert len(table.plan(where).files) == 1


def test_a_text_that_spark_refuses_is_unknown_and_not_read(tmp_path):
    log = Log(tmp_path / "t", delta_schema("x INT, b BOOLEAN"), ["b"])
    log.add(Written([{"x": 1}], {"b": "on"}))
    table = ss.scan_delta(log.folder)
    assert table.plan("b").files
    with pytest.raises(ss.SourceError, match="b='on' is not of the column's type, bool"):
        table.plan("b").to_arrow()


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("s = ''", [1]), ("s IS NULL", [2]), ("s < 'a'", [1]), ("coalesce(s, 'z') = ''", [1]),
        ("s <=> NULL", [2]), ("b = X''", [1]), ("b IS NULL", [2]), ("length(s) = 0", [1]),
        ("s IS NOT NULL", [1, 3]), ("NOT (s = 'a')", [1]), ("i IS NULL", [1, 2]), ("i = 0", []),
    ],
)  # fmt: skip
def test_an_empty_text_is_a_value_of_string_and_binary(tmp_path, where, expected):
    """Spark reads it so; delta-rs writes it, and takes it for NULL: both may be asked for files."""
    columns = delta_schema("x INT, s STRING, b BINARY, i INT")
    log = Log(tmp_path / "t", columns, ["s", "b", "i"])
    log.add(
        Written([{"x": 1}], {"s": "", "b": "", "i": ""}),
        Written([{"x": 2}], {"s": None, "b": None, "i": None}),
        Written([{"x": 3}], {"s": "a", "b": "q", "i": "5"}),
    )
    table = ss.scan_delta(log.folder)
    assert xs(table, where) == expected
    assert table.plan(where).count() == len(expected)
    as_null = "s IS NULL" if where.startswith("s") else "b IS NULL"
    assert len(table.plan(as_null).files) == 2
    assert len(table.plan("s = 'a'").files) == len(table.plan("b = X'71'").files) == 1
