"""Parquet files that mislead: INT96, extension types, names in several cases, stale `_metadata`."""

import datetime as dt
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.ir.rows import evaluate_rows, matching_rows
from tests.support.tables.delta_log import Log, Written, delta_schema

DAY = 86_400 * 10**6


def both(table, where, **settings):
    """Return the number of matching rows, which must be the same with pruning and without."""
    plan = table.plan(where, **settings)
    found = plan.to_arrow().num_rows
    assert (found, plan.count()) == (plan.unpruned().to_arrow().num_rows, found)
    return found


def test_int96_timestamps_are_instants_in_microseconds(tmp_path):
    times = pa.array(
        [dt.datetime(3000, 1, 1), dt.datetime(2020, 1, 1, 2), None], pa.timestamp("us")
    )
    pq.write_table(
        pa.table({"t": times, "n": pa.StructArray.from_arrays([times], ["t"])}),
        tmp_path / "a.parquet",
        use_deprecated_int96_timestamps=True,
    )
    table = ss.scan_parquet(tmp_path / "a.parquet")
    assert (
        table.schema.field("t").type
        == table.schema.field("n").type.field("t").type
        == pa.timestamp("us", "UTC")
    )
    for where, zone, rows in [
        ("t > '2500-01-01'", "UTC", 1),
        ("t < '1900-01-01'", "UTC", 0),
        ("n.t > '2500-01-01'", "UTC", 1),
        # 02:00 UTC is the evening before in New York.
        ("t > '2020-01-01'", "America/New_York", 1),
        ("t < '2100-01-01' AND hour(t) = 21", "America/New_York", 1),
    ]:
        assert both(table, where, timezone=zone) == rows, where
    assert table.plan().max("t") == dt.datetime(3000, 1, 1, tzinfo=dt.UTC)
    assert table.plan(order_by="t DESC", limit=1).to_arrow().column("t")[0].as_py().year == 3000
    zoned = pa.table(
        {
            "t": pa.array([5 * DAY]).cast(pa.timestamp("us", "UTC")),
            "n": pa.nulls(1, pa.struct([("t", pa.timestamp("us", "UTC"))])),
        }
    )
    pq.write_table(zoned, tmp_path / "b.parquet")
    assert both(ss.scan_parquet(tmp_path / "*.parquet"), "t < '1980-01-01'") == 1


def test_int96_timestamps_in_lists_and_maps(tmp_path):
    """As nanoseconds, the year 3000 would overflow."""
    late, time = dt.datetime(3000, 1, 1), pa.timestamp("us")
    rows = pa.table(
        {
            "l": pa.array([[late, None], None], pa.list_(time)),
            "s": pa.array(
                [[{"a": 1, "t": late}], []], pa.list_(pa.struct({"a": "int8", "t": time}))
            ),
            "m": pa.array([[("k", late)], None], pa.map_(pa.string(), time)),
            "n": pa.array([{"l": [late]}, None], pa.struct({"l": pa.list_(time)})),
            "t": pa.array([late, None], time),
        }
    )
    pq.write_table(rows, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    pq.write_table(rows.select(["t"]), tmp_path / "b.parquet", use_deprecated_int96_timestamps=True)
    table = ss.scan_parquet(tmp_path / "*.parquet")
    late = late.replace(tzinfo=dt.UTC)
    assert table.plan("t IS NOT NULL").to_arrow().to_pylist() == [
        {
            "l": [late, None],
            "s": [{"a": 1, "t": late}],
            "m": [("k", late)],
            "n": {"l": [late]},
            "t": late,
        },
        {"l": None, "s": None, "m": None, "n": None, "t": late},
    ]
    for where in ("m['k'] = t", "m['k'] = TIMESTAMP '3000-01-01 00:00:00Z'"):
        assert both(table, where, timezone="America/New_York") == 1, where


def test_required_fields_of_structs_that_are_null(tmp_path):
    """Spark writes such fields for `named_struct('x', 1)`, and reads all fields as nullable."""
    time, x = pa.field("t", pa.timestamp("us")), pa.field("x", pa.int32(), nullable=False)
    noon = dt.datetime(2024, 1, 1, 12)
    for name, kind, rows in [
        ("a", pa.struct([x, time]), [{"x": 1, "t": noon}, None]),
        ("b", pa.struct([time]), [{"t": None}]),
    ]:
        column = pa.array(rows, kind)
        pq.write_table(
            pa.table({"s": column}),
            tmp_path / f"{name}.parquet",
            use_deprecated_int96_timestamps=True,
        )
    first = ss.scan_parquet(tmp_path / "a.parquet")
    assert not first.schema.field("s").type.field("x").nullable
    assert first.plan().to_arrow().column("s").to_pylist() == [
        {"x": 1, "t": noon.replace(tzinfo=dt.UTC)},
        None,
    ]
    assert [both(first, w) for w in ("s IS NULL", "s.x = 1", "s.x IS NULL")] == [1, 1, 1]
    table = ss.scan_parquet(tmp_path / "*.parquet")
    assert table.schema.field("s").type.field("x").nullable
    assert [both(table, w) for w in ("s IS NULL", "s.x = 1", "s.x IS NULL")] == [1, 1, 2]


class Point(pa.ExtensionType):
    def __init__(self):
        super().__init__(pa.struct([("x", pa.float64()), ("y", pa.float64())]), "tests.point")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        return cls()


def test_extension_types_move_no_column(tmp_path):
    pa.register_extension_type(Point())
    try:
        points = pa.ExtensionArray.from_storage(
            Point(), pa.array([{"x": 1.0, "y": 2.0}] * 3, Point().storage_type)
        )
        pq.write_table(
            pa.table({"g": points, "id": [100, 200, 300], "v": [1, 2, 3]}), tmp_path / "a.parquet"
        )
        table = ss.scan_parquet(tmp_path / "a.parquet")
        for where, rows in [("id = 200", 1), ("v = 3", 1), ("id < 100", 0), ("v > 3", 0)]:
            assert table.plan(where, columns=["id"]).count() == rows, where
        assert (table.plan().min("id"), table.plan().max("id")) == (100, 300)
        assert table.plan("id < 100").files == ()
    finally:
        pa.unregister_extension_type("tests.point")


def test_names_in_another_case_are_one_column(tmp_path):
    pq.write_table(pa.table({"A": [1], "b": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"a": [2]}), tmp_path / "b.parquet")
    table = ss.scan_parquet(tmp_path / "*.parquet")
    assert table.plan().to_arrow().to_pylist() == [{"A": 1, "b": 1}, {"A": 2, "b": None}]
    assert [both(table, w) for w in ("A = 1", "a = 2", "b IS NULL")] == [1, 1, 1]


LISTS = (pa.list_, pa.large_list, lambda item: pa.list_(item, 1))


@pytest.mark.parametrize("first", LISTS, ids=["list", "large", "fixed"])
@pytest.mark.parametrize("second", LISTS, ids=["list", "large", "fixed"])
def test_fields_in_lists_of_several_layouts_are_one_field(first, second, tmp_path):
    """pyarrow and Polars note in a file that its lists are large, or of a fixed size."""
    for name, layout, item in (("a", first, {"X": 1}), ("b", second, {"x": 2, "y": 3})):
        kinds = pa.struct([(field, pa.int64()) for field in item])
        rows = pa.array([[item]], layout(kinds))
        pq.write_table(pa.table({"l": rows}), tmp_path / f"{name}.parquet")
    found = ss.scan_parquet(tmp_path / "*.parquet").plan().to_arrow().to_pylist()
    assert found == [{"l": [{"X": 1, "y": None}]}, {"l": [{"X": 2, "y": 3}]}]


def test_names_of_fields_in_another_case_are_one_field(tmp_path):
    pairs = pa.map_(pa.string(), pa.struct([("X", pa.int64())]))
    small = pa.map_(pa.string(), pa.struct([("x", pa.int64())]))
    for name, rows in {
        "a": {
            "s": [{"X": 1, "l": [{"Y": 1}]}],
            "l": [[{"X": 1, "y": 1}, None]],
            "m": pa.array([[("k", {"X": 1})]], pairs),
        },
        "b": {
            "s": [{"x": 2, "l": [{"y": 2}]}],
            "l": [[{"x": 2, "Y": 2}]],
            "m": pa.array([[("k", {"x": 2})]], small),
        },
    }.items():
        pq.write_table(pa.table(rows), tmp_path / f"{name}.parquet")
    table = ss.scan_parquet(tmp_path / "*.parquet")
    assert table.plan().to_arrow().to_pylist() == [
        {
            "s": {"X": 1, "l": [{"Y": 1}]},
            "l": [{"X": 1, "y": 1}, None],
            "m": [("k", {"X": 1})],
        },
        {"s": {"X": 2, "l": [{"Y": 2}]}, "l": [{"X": 2, "y": 2}], "m": [("k", {"X": 2})]},
    ]
    assert [both(table, w) for w in ("s.X = 1", "s.x = 2", "s.x IS NULL")] == [1, 1, 0]


def test_columns_that_differ_in_case_alone(tmp_path):
    pq.write_table(pa.table({"x": [1], "X": [50]}), tmp_path / "a.parquet")
    assert both(ss.scan_parquet(tmp_path / "a.parquet"), "X = 50", case_sensitive=True) == 1
    pq.write_table(pa.table({"x": [5]}), tmp_path / "b.parquet")
    with pytest.raises(ss.SourceError, match="differ in case alone"):
        ss.scan_parquet(tmp_path / "*.parquet")


def test_a_metadata_file_that_is_newer_than_a_replaced_file(tmp_path):
    collected = []
    pq.write_table(pa.table({"x": [1, 2, 3]}), tmp_path / "a.parquet", metadata_collector=collected)
    collected[0].set_file_path("a.parquet")
    pq.write_metadata(
        pa.schema([("x", pa.int64())]), tmp_path / "_metadata", metadata_collector=collected
    )
    pq.write_table(
        pa.table({"x": [10, 20, 30, 40, 50, 60]}), tmp_path / "a.parquet", row_group_size=3
    )
    os.utime(tmp_path / "a.parquet", (1, 1))
    with pytest.raises(ss.SourceError, match="row groups differ from those in _metadata"):
        ss.scan_parquet(tmp_path).plan("x > 0").to_arrow()
    assert both(ss.scan_parquet(tmp_path, use_metadata=False), "x = 60") == 1


FORMS = (
    "substring(s, 1, 1) = 'a'",
    "coalesce(x, 7) = 1",
    "s || 'b' = 'ab'",
    "CASE WHEN x > 1 THEN s ELSE 'q' END = 'q'",
    "greatest(x, 3) = 3",
    "repeat(s, 3) = 'aaa'",
)


@pytest.mark.parametrize("where", FORMS)
def test_no_rows_are_judged_by_any_form(where, tmp_path):
    schema = pa.schema([("s", pa.string()), ("x", pa.int64())])
    batch = pa.RecordBatch.from_pylist([], schema)
    node = ss.PruningPredicate(where, schema).node
    assert (matching_rows(node, batch).num_rows, len(evaluate_rows(node, batch))) == (0, 0)
    log = Log(tmp_path / "t", delta_schema("s STRING, x BIGINT"), features=("deletionVectors",))
    log.add(
        Written([{"s": "a", "x": 1}, {"s": "b", "x": None}], dead=[0, 1]),
        Written([{"s": "c", "x": 2}]),
    )
    assert both(ss.scan_delta(log.folder), where) >= 0


def test_dictionaries_beside_plain_text(tmp_path):
    """pandas writes a column as a dictionary in one file, and as plain values in another."""
    pq.write_table(
        pa.table(
            {
                "s": pa.array(["a", "b"]).dictionary_encode(),
                "k": pa.array([1, 2]).dictionary_encode(),
            }
        ),
        tmp_path / "a.parquet",
    )
    pq.write_table(pa.table({"s": ["c"], "k": [3]}), tmp_path / "b.parquet")
    pq.write_table(
        pa.table(
            {"s": pa.array(["d"]).dictionary_encode(), "k": pa.array([4]).dictionary_encode()}
        ),
        tmp_path / "c.parquet",
    )
    table = ss.scan_parquet(tmp_path / "*.parquet")
    assert table.schema.types == [pa.string(), pa.int64()]
    assert [both(table, w) for w in ("s >= 'b'", "s = 'd'", "k <= 3", "s IS NULL")] == [3, 1, 3, 0]
    assert len(table.plan("s > 'c'").files) == 1


def test_dictionaries_within_nested_types(tmp_path):
    texts = pa.array(["a", "b", "c", "a"]).dictionary_encode()
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int32()), texts)
    pq.write_table(
        pa.table({"s": pa.StructArray.from_arrays([texts], ["d"]), "l": lists}),
        tmp_path / "t.parquet",
        row_group_size=1,
    )
    table = ss.scan_parquet(tmp_path)
    assert both(table, "s.d = 'a'") == 2 and table.plan().to_arrow()["l"].to_pylist() == [
        ["a"],
        ["b"],
        ["c"],
        ["a"],
    ]


def test_instants_in_several_zones(tmp_path):
    """Also within structs, next to text that is a dictionary in some files."""
    for i, zone in enumerate(("Asia/Kolkata", "UTC", "Europe/Berlin")):
        t = pa.array([DAY * i, DAY * i + 7_200_000_000]).cast(pa.timestamp("us", zone))
        text = pa.array(["a", f"c{i}"]) if i else pa.array(["a", "c0"]).dictionary_encode()
        pq.write_table(
            pa.table({"t": t, "s": pa.StructArray.from_arrays([t, text], ["t", "c"])}),
            tmp_path / f"{i}.parquet",
        )
    tables = (
        ss.scan_parquet(tmp_path),
        ss.scan_parquet(tmp_path, stats=ss.scan_parquet(tmp_path).save_stats(tmp_path / "_s")),
    )
    for table in tables:
        assert (
            table.schema.field("t").type
            == table.schema.field("s").type.field("t").type
            == pa.timestamp("us", "UTC")
        )
        for where, verdicts in [
            ("t < '1970-01-02'", [2, 0, 0]),
            ("s.t >= '1970-01-02 01:00:00'", [0, 1, 2]),
            ("t > '1970-01-04' OR s.c > 'c1'", [0, 0, 1]),
        ]:
            assert table.plan(where).verdicts.tolist() == verdicts and both(table, where)


# None: the condition reads characters, and Spark's reading of malformed bytes is not known.
#   condition                     rows that Spark returns
MALFORMED = [
    ("s > 'a'",                      [0, 1, 2, 4, 5]),
    ("s LIKE 'a%'",                  [2]),
    ("s LIKE '%b'",                  [2]),
    ("contains(s, 'b')",             [2]),
    ("NOT endswith(s, 'b')",         [0, 1, 4, 5]),
    ("s NOT IN ('ok')",              [1, 2, 4, 5]),
    ("s LIKE 'a_b'",                 None),
    ("s LIKE '_'",                   None),
    ("length(s) = 3",                None),
    ("upper(s) = 'OK'",              None),
    ("s || 'x' = 'okx'",             None),
    ("length(s) = 3 AND s = 'ok'",   []),
]  # fmt: skip


@pytest.mark.parametrize("where, rows", MALFORMED)
def test_text_that_is_no_utf8(tmp_path, where, rows):
    texts = pa.array(
        [b"ok", b"\xff\xfe", b"a\x80b", None, b"\xed\xa0\x80", b"\xc3"], pa.binary()
    ).view(pa.string())
    pq.write_table(pa.table({"s": texts, "x": range(6)}), tmp_path / "t.parquet", row_group_size=1)
    plan = ss.scan_parquet(tmp_path).plan(where)
    if rows is None:
        for read in (plan.to_arrow, plan.count):
            with pytest.raises(ss.UnsupportedForm, match="not UTF-8"):
                read()
    else:
        assert plan.to_arrow()["x"].to_pylist() == rows and plan.count() == len(rows)


def test_two_columns_of_one_name(tmp_path):
    pq.write_table(
        pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"]),
        tmp_path / "a.parquet",
    )
    with pytest.raises(ss.SourceError, match="two columns named 'x'"):
        ss.scan_parquet(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    ("scan", "path", "message"),
    [
        (ss.scan_parquet, "", "is blank"),
        (ss.scan_hive, "", "is blank"),
        (ss.scan_hive, "a.parquet", "is a file"),
        (ss.scan_hive, "none", "does not exist"),
    ],
)
def test_invalid_sources(tmp_path, scan, path, message):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    with pytest.raises(ss.SourceError, match=message):
        scan(str(tmp_path / path) if path else "")


def test_files_that_do_not_fit_together_name_the_way_out(tmp_path):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": ["one"]}), tmp_path / "b.parquet")
    with pytest.raises(ss.SourceError, match=r"b\.parquet: its columns .* int64 vs string\); scan"):
        ss.scan_parquet(tmp_path)
    as_text = ss.scan_hive(tmp_path, schema=pa.schema([("x", pa.string())]))
    assert as_text.plan("x IS NOT NULL").to_arrow()["x"].to_pylist() == ["1", "one"]


def test_an_explanation_says_which_files_cannot_be_read(tmp_path):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").touch()
    plan = ss.scan_parquet(tmp_path, on_error="keep").plan("x > 5")
    assert "no bounds in 1 file that cannot be read" in plan.explain()
