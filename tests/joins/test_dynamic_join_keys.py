"""ss.join: odd names, empty sides, nested and other types of keys, and clocks that change."""

import datetime as dt
import os
import random
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.joins.join import join_explained

LONG = os.environ.get("SKIPSTONE_TESTS") == "long"
HOWS = ("inner", "left", "right", "full", "semi", "anti", "not in")


STRUCT = pa.struct([("a", pa.int64()), ("b", pa.large_string())])
#    the build side's keys
NESTED = [
    ("l", pa.array([[1, 2], None])),  # Parquet calls elements "element", and Arrow "item"
    ("l", pa.array([[1, 2]], pa.large_list(pa.field("x", pa.int64(), nullable=False)))),
    ("s", pa.array([{"a": 1, "b": "x"}], STRUCT)),  # as Polars spells it
    ("s", pa.array([{"b": "x", "a": 1}])),  # fields in another order: another type
]


@pytest.mark.parametrize(("key", "keys"), NESTED, ids=lambda v: str(getattr(v, "type", v)))
def test_spellings_of_nested_types(tmp_path, key, keys):
    rows = pa.table({"l": [[1, 2], [3], None], "s": [{"a": i, "b": "x"} for i in range(3)]})
    pq.write_table(rows, tmp_path / "a.parquet")
    table, dim = ss.scan_parquet(str(tmp_path)), pa.table({key: keys})
    if keys.type.field(0).name == "b":
        with pytest.raises(ss.UnsupportedForm, match="are not compared here"):
            ss.join(table, dim, on=key)
        return
    joined = join_explained(table, dim, on=key)
    assert joined.table.num_rows == 1 and joined.plan.dynamic.effects[0].state.startswith("1 ")
    assert ss.join(table, dim, on=key, how="anti").num_rows == 2
    assert ss.join(table, dim, on=key, how="full").num_rows == 2 + len(keys)


def test_days_within_structs_that_python_lacks():
    far = pa.array([3_000_000], pa.int32()).view(pa.date32())
    rows = pa.table({"s": pa.StructArray.from_arrays([far], ["d"])})
    with pytest.raises(ss.UnsupportedForm, match="not compared here"):
        ss.join(rows, rows, on="s")


@pytest.mark.parametrize(("how", "rows"), [*zip(HOWS, (0, 2, 1, 3, 0, 2, 0), strict=True)])
def test_a_column_of_the_type_null(tmp_path, how, rows, recwarn):
    pq.write_table(pa.table({"x": pa.nulls(2)}), tmp_path / "a.parquet")
    joined = ss.join(ss.scan_parquet(str(tmp_path)), pa.table({"x": [1]}), on="x", how=how)
    assert joined.num_rows == rows and not recwarn.list


END = dt.datetime(9999, 12, 31)  # beyond the range of nanoseconds
NANOS = pa.array([1_577_923_200 * 10**9], pa.timestamp("ns"))


@pytest.mark.parametrize(
    "kind", [pa.timestamp("us"), pa.timestamp("ms", "UTC"), pa.date32()], ids=str
)
@pytest.mark.parametrize("how", HOWS)
def test_nanoseconds_beside_other_units(tmp_path, kind, how):
    """The times of pandas are nanoseconds, and need not hold every time of the other side."""
    days = pa.array([END, dt.datetime(2020, 1, 2), None], pa.timestamp("us")).cast(kind)
    pq.write_table(pa.table({"t": days}), tmp_path / "a.parquet")
    table, dim = ss.scan_parquet(str(tmp_path)), pa.table({"t": NANOS})
    expected = {"inner": 1, "left": 3, "right": 1, "full": 3, "semi": 1, "anti": 2, "not in": 1}
    for filtering in (True, False):
        options = {"on": "t", "how": how, "dynamic_filtering": filtering}
        assert ss.join(table, dim, **options).num_rows == expected[how]


@pytest.mark.parametrize("name", ["a.b", "c d", "x%y", "back`tick", "SELECT", "é"])
def test_odd_names(tmp_path, name):
    for i in range(3):
        pq.write_table(pa.table({name: [i, i + 10]}), tmp_path / f"{i}.parquet")
    joined = join_explained(ss.scan_parquet(str(tmp_path)), pa.table({name: [11]}), on=name)
    assert joined.table.to_pydict() == {name: [11]} and joined.plan.dynamic.effects[0].pruned == 1
    joined = join_explained(ss.scan_parquet(str(tmp_path)), pa.table({name: [20]}), on={name: name})
    assert joined.table.num_rows == 0 and joined.plan.files == ()


EMPTY = [
    ("an empty dimension", pa.table({"k": pa.array([], pa.int64())}), [0, 2, 0, 2, 0, 2, 2]),
    ("NULL alone", pa.table({"k": pa.nulls(2, pa.int64())}), [0, 2, 2, 4, 0, 2, 0]),
    ("NULL without a type", pa.table({"k": pa.nulls(2)}), [0, 2, 2, 4, 0, 2, 0]),
]


@pytest.mark.parametrize(("dim", "rows"), [e[1:] for e in EMPTY], ids=[e[0] for e in EMPTY])
def test_empty_sides(tmp_path, dim, rows):
    pq.write_table(pa.table({"k": [1, 2]}), tmp_path / "a.parquet")
    table = ss.scan_parquet(str(tmp_path))
    assert [ss.join(table, dim, on="k", how=how).num_rows for how in HOWS] == rows
    nothing = pa.table({"k": pa.array([], pa.int64())})
    assert [ss.join(nothing, pa.table({"k": [1]}), on="k", how=how).num_rows for how in HOWS] == [
        0,
        0,
        1,
        1,
        0,
        0,
        0,
    ]


def test_other_forms_of_rows(tmp_path):
    pq.write_table(
        pa.table({"k": pa.array(["a", "b"]).dictionary_encode(), "l": [[1], [2]]}),
        tmp_path / "a.parquet",
    )
    table = ss.scan_parquet(str(tmp_path))
    assert ss.join(
        table, pa.table({"k": pa.array(["b"], pa.string_view()), "m": [[7]]}), on="k"
    ).to_pydict() == {"k": ["b"], "l": [[2]], "m": [[7]]}
    assert ss.join(table, pa.table({"k": ["c"], "m": [[7]]}), on="k", how="full").to_pydict() == {
        "k": ["a", "b", "c"], "l": [[1], [2], None], "m": [None, None, [7]],
    }  # fmt: skip
    nested = pa.table({"k": [{"a": 1}, {"a": 2}]})
    assert ss.join(nested, pa.table({"k": [{"a": 2}]}), on="k").to_pydict() == {"k": [{"a": 2}]}


@pytest.mark.parametrize("kind", [pa.decimal32(7, 2), pa.decimal64(16, 2)])
@pytest.mark.parametrize("other", [pa.decimal32(9, 2), pa.decimal64(12, 3), pa.decimal128(20, 2)])
def test_decimals_of_any_width(tmp_path, kind, other):
    for i in range(3):
        rows = pa.table({"k": pa.array([Decimal(i), Decimal(i + 10), None], kind)})
        pq.write_table(rows, tmp_path / f"{i}.parquet")
    keys = pa.table({"k": pa.array([Decimal(11), Decimal(40), None], other)})
    counts = [ss.join(ss.scan_parquet(tmp_path), keys, on="k", how=how).num_rows for how in HOWS]
    assert counts == [1, 9, 3, 11, 1, 8, 0]
    assert join_explained(ss.scan_parquet(tmp_path), keys, on="k").plan.dynamic.effects[0].pruned


def test_keys_in_an_hour_that_clocks_skip(tmp_path):
    clocks = pa.array([dt.datetime(2024, 3, 31, hour) for hour in range(5)], pa.timestamp("us"))
    pq.write_table(pa.table({"k": clocks}), tmp_path / "a.parquet", row_group_size=1)
    dim = pa.table({"k": pa.array([dt.datetime(2024, 3, 31, 1)], pa.timestamp("us", "UTC"))})
    joined = ss.join(ss.scan_parquet(str(tmp_path)), dim, on="k", timezone="Europe/Berlin")
    # Clocks skip 2 o'clock, and Spark reads it as the next hour.
    assert [k.hour for k in joined.column("k").to_pylist()] == [2, 3]


def test_a_struct_field(tmp_path):
    pq.write_table(pa.table({"s": [{"k": 1}, {"k": 2}]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"s": [{"k": 5}, None]}), tmp_path / "b.parquet")
    table = ss.scan_parquet(str(tmp_path))
    collector = ss.DynamicFilterCollector("k", pa.schema([("k", pa.int64())]))
    collector.add(pa.table({"k": [5]}))
    plan = table.plan(dynamic=[ss.DynamicFilter(collector.finish(), columns={"k": "s.k"})])
    assert len(plan.files) == 1 and plan.to_arrow().to_pydict() == {"s": [{"k": 5}]}
    assert table.accepted_filter_fields(["s.k", "s", "s.x"]) == ["s.k"]


ZONES = {
    "Europe/Berlin": dt.datetime(2024, 3, 31),
    "America/New_York": dt.datetime(2024, 11, 3),
    "Pacific/Apia": dt.datetime(2011, 12, 30),
}
CLOCKS = {
    "date": pa.date32(),
    "wall": pa.timestamp("us"),
    "instant": pa.timestamp("us", "UTC"),
    "nanoseconds": pa.timestamp("ns"),
    "text": pa.string(),
}


@pytest.mark.parametrize("zone", ZONES)
def test_keys_where_clocks_change(tmp_path, zone):
    r, joined = random.Random(zone), 0

    def value(kind):
        at = ZONES[zone] + dt.timedelta(minutes=30 * r.randint(-60, 60))
        return (
            None
            if r.random() < 0.1
            else at.date()
            if kind == "date"
            else str(at)
            if kind == "text"
            else at
        )

    for n in range(400 if LONG else 15):
        probe, build = r.choice(["date", "wall", "instant"]), r.choice(list(CLOCKS))
        rows = pa.table({"k": pa.array([value(probe) for _ in range(12)], CLOCKS[probe])}).sort_by(
            "k"
        )
        pq.write_table(rows, tmp_path / f"{n}.parquet", row_group_size=2)
        dim = pa.table(
            {"k": pa.array([value(build) for _ in range(5)], CLOCKS[build]), "w": range(5)}
        )
        options = {"on": "k", "how": r.choice(HOWS), "timezone": zone}
        table = ss.scan_parquet(str(tmp_path / f"{n}.parquet"))
        try:
            plain = ss.join(table, dim, **options, dynamic_filtering=False)
        except ss.UnsupportedForm:  # a clock reading that occurs twice is ambiguous
            continue
        assert ss.join(table, dim, **options).equals(plain), (probe, build, options)
        joined += 1
    assert joined > 5


def test_run_end_encoded_columns_are_decoded():
    runs = pc.run_end_encode(pa.array([1, 1, 2]))
    rows, plain = pa.table({"k": runs, "x": [1, 2, 3]}), pa.table({"k": [1, 5], "y": [1, 2]})
    for a, b in ((rows, plain), (plain, rows)):
        assert ss.join(a, b, "k").select(["k", "x", "y"]).to_pydict() == {
            "k": [1, 1], "x": [1, 2], "y": [1, 1],
        }  # fmt: skip
    assert ss.join(rows.slice(0, 0), plain, "k").num_rows == 0


def test_structs_of_other_types_are_refused_with_a_way_out():
    narrow, wide = (pa.array([{"a": 1}], pa.struct([("a", t)])) for t in (pa.int32(), pa.int64()))
    with pytest.raises(ss.UnsupportedForm, match=r"are not compared here\. Cast one of them, or"):
        ss.join(pa.table({"k": narrow}), pa.table({"k": wide}), "k")
