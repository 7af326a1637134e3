"""Statistics from footers: the loop and pyarrow must agree on each chunk, bit for bit."""

import datetime as dt
import decimal
import pickle
import struct
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.plans.work import Meter
from skipstone.bindings.tables.parquet import footer as footer_module
from skipstone.bindings.tables.parquet import footer_blocks as blocks
from skipstone.bindings.tables.parquet import footer_groups as groups
from skipstone.bindings.tables.parquet import footers as sources
from skipstone.bindings.tables.parquet.column_chunks import trusted_bounds
from skipstone.bindings.tables.parquet.footer import ParsedFooter
from skipstone.bindings.tables.parquet.footer_blocks import FooterBlock
from skipstone.bindings.tables.parquet.footers import Footer, read_footers
from skipstone.bindings.tables.parquet.heads import Heads
from tests.support.tables import footers as hand
from tests.support.tables.footer_readers import LOCAL, assert_same, compile_loops, content, reader
from tests.support.tables.parquet_cases import LEGACY, WIDE
from tests.support.tables.traps import TRAPS, double, long

D, NAN = decimal.Decimal, float("nan")


@pytest.fixture(scope="module", autouse=True)
def loops():
    compile_loops()


MORE = pa.table(
    {
        "i8": pa.array([-128, 127, None, 3], pa.int8()),
        "u8": pa.array([0, 255, None, 3], pa.uint8()),
        "u16": pa.array([0, 2**16 - 1, None, 3], pa.uint16()),
        "u32": pa.array([0, 2**32 - 1, None, 3], pa.uint32()),
        "i64": pa.array([-(2**63), 2**63 - 1, 0, 1]),
        "f": pa.array([-0.0, 0.0, 5e-324, None]),
        "g": pa.array([NAN, NAN, float("-inf"), 3.5], pa.float32()),
        "fixed": pa.array([b"abc", b"\xff\xfe\xfd", None, b"\0\0\0"], pa.binary(3)),
        "large": pa.array(["", "é\U0010ffff", None, "z" * 70], pa.large_string()),
        "d64": pa.array([0, 86_400_000, None, 1], pa.date64()),
        "s": pa.array([1, -5, None, 2**40], pa.timestamp("s")),
        "ms": pa.array([1, -5, None, 2**50], pa.timestamp("ms", "Europe/Berlin")),
        "short": pa.array([D("-9.99"), D("9.99"), None, D("0")], pa.decimal128(3, 2)),
        "long": pa.array([D(10) ** 35, -(D(10) ** 35), None, D("0.01")], pa.decimal128(38, 2)),
        "numbers": pa.array([5, 5, None, 7]).dictionary_encode(),
        "none": pa.nulls(4, pa.int32()),
        "st": pa.array([{"x": 1, "y": [1]}, None, {"x": None, "y": None}, {"x": 3, "y": []}]),
        "v": pa.array([b"a", None, b"", b"\xff"], pa.binary_view()),
    }
)


@pytest.mark.parametrize("table, unresolved", [(WIDE, 4), (MORE, 8)], ids=["wide", "more"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"store_decimal_as_integer": True},
        {"version": "1.0", "coerce_timestamps": "ms", "allow_truncated_timestamps": True},
        {"store_schema": False},
        {"write_statistics": False},
    ],
    ids=str,
)
def test_types(tmp_path, table, unresolved, options):
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2, **options)
    assert assert_same([tmp_path / "a.parquet"]) <= unresolved


def test_writers(tmp_path, spark):
    duckdb, pl = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    table = MORE.drop_columns(["st", "none", "large", "v"])
    duckdb.register("footers_of_duckdb", table.cast(table.schema))
    # Stored in 9 bytes here, and in 16 by DuckDB.
    decimals = pa.table({"m": pa.array([D("-1.5"), D("2.5")], pa.decimal128(20, 2))})
    duckdb.register("decimals_of_duckdb", decimals)
    duckdb.sql(f"COPY decimals_of_duckdb TO '{tmp_path}/a.parquet'")
    pq.write_table(decimals, tmp_path / "b.parquet")
    assert assert_same([tmp_path / "a.parquet", tmp_path / "b.parquet"]) == 0
    duckdb.sql(f"COPY footers_of_duckdb TO '{tmp_path}/duckdb.parquet' (ROW_GROUP_SIZE 2)")
    pl.from_arrow(table.drop_columns(["long"])).write_parquet(
        tmp_path / "polars.parquet", row_group_size=2
    )
    rows = (
        "SELECT id, CAST(id AS INT) i, id / 7D f, IF(id = 3, double('NaN'), id) g, "
        "CAST(id AS STRING) s, CAST(id AS DECIMAL(9, 2)) m, CAST(id AS DECIMAL(30, 2)) w, "
        "CAST(CAST(id AS STRING) AS BINARY) b, DATE '2020-01-01' + INTERVAL '1' DAY d, "
        "timestamp_micros(id) t, id > 5 o, CAST(id AS TINYINT) tiny FROM range(0, 40, 1, 1)"
    )
    for kind in ("INT96", "TIMESTAMP_MICROS"):
        spark.conf.set("spark.sql.parquet.outputTimestampType", kind)
        spark.sql(rows).write.parquet(str(tmp_path / kind))
    spark.conf.unset("spark.sql.parquet.outputTimestampType")
    unresolved = {
        p.parent.name: assert_same([p])
        for p in [*tmp_path.glob("*/*.parquet"), *tmp_path.glob("*.parquet")]
    }
    assert max(unresolved.values()) <= 8


@pytest.mark.parametrize("trap", TRAPS, ids=[t.origin for t in TRAPS])
def test_traps(tmp_path, trap):
    pq.write_table(pa.table(trap.rows), tmp_path / "a.parquet", **trap.options)
    if trap.change:
        trap.change(tmp_path / "a.parquet")
    assert_same([tmp_path / "a.parquet"])


# Writers that pyarrow trusts.

WRITERS = [
    "parquet-mr version 1.8.0",
    "parquet-mr version 1.9.1 (build 7)",
    "parquet-mr version 1.10.0",
    "parquet-mr version 1.15.2",
    "PARQUET-MR version 1.5.0",
]
WRITERS += [
    "parquet-mr",
    "x parquet-mr version 1.2.0",
    "parquet-cpp version 1.2.0",
    "parquet-cpp version 1.5.1-SNAPSHOT",
    "parquet-cpp-arrow version 3.0.0",
    "impala",
    "",
]


@pytest.mark.parametrize("ordered", [True, False])
def test_writers_that_wrote_wrong_bounds(tmp_path, ordered):
    paths = [tmp_path / f"{i}.parquet" for i in range(len(WRITERS) + 2)]
    for path, writer in zip(paths, [*map(str.encode, WRITERS), b"\xff", None], strict=True):
        pq.write_table(
            pa.table(
                {
                    "s": ["a", "é"],
                    "same": ["b", "b"],
                    "u": pa.array([1, 2**32 - 1], pa.uint32()),
                    "i": [1, 2],
                }
            ),
            path,
        )
        footer = hand.read_footer(path)
        footer.pop(hand.CREATED_BY)
        if writer is not None:
            footer[hand.CREATED_BY] = hand.BINARY, writer
        hand.write_footer(path, footer)
        if not ordered:
            hand.forget_orders(path)
        assert_same([path])
    assert_same(paths)


@pytest.mark.parametrize(
    "notes",
    [
        LEGACY,
        {b"org.apache.spark.version": b"2.4.8"},
        {b"org.apache.spark.version": b"3.5.0"},
        {b"a": b"\xff"},
    ],
)
def test_calendars(tmp_path, notes):
    days, stamps = (
        [dt.date(1500, 1, 1), dt.date(2000, 1, 2)],
        [dt.datetime(1850, 1, 1), dt.datetime(2020, 1, 2)],
    )
    for unit in ("ms", "us", "ns"):
        table = pa.table({"d": days, "t": pa.array(stamps, pa.timestamp(unit))})
        with pq.ParquetWriter(tmp_path / f"{unit}.parquet", table.schema) as writer:
            writer.write_table(table, row_group_size=1)
            writer.add_key_value_metadata(notes)
    assert assert_same(tmp_path.glob("*.parquet")) == 0
    with reader("loop"):  # `_metadata` does not say who wrote a file
        (read,) = read_footers([str(tmp_path / "us.parquet")], LOCAL, Meter(), keep=True)
        expected = content([Footer(read.path, read.block, groups=[1, 0, 1])])
    with reader("pyarrow"):
        block = FooterBlock.of(ParsedFooter(read.parsed.data.tobytes()))
        assert content([Footer(read.path, block, groups=[1, 0, 1])]) == expected


DAY = struct.Struct("<i").pack
#     column                                         bounds in the footer
BOUNDS = [
    (pa.array([1], pa.int8()), DAY(-129), DAY(300)),
    (pa.array([1], pa.uint8()), DAY(-1), DAY(256)),
    (pa.array([1], pa.date32()), DAY(-(2**31)), DAY(2**31 - 1)),
    (pa.array([1], pa.date32()), DAY(-719_162), DAY(2_932_896)),
    (pa.array([1], pa.date32()), DAY(-719_163), DAY(0)),
    (pa.array([True]), b"\0", b"\2"),
    (pa.array([1], pa.timestamp("ns")), long(-(2**63)), long(2**63 - 1)),
    (pa.array([1.0]), double(NAN), double(1.0)),
    (pa.array([1.0]), double(1.0), double(-NAN)),
    (pa.array([1.0]), double(-0.0), double(-0.0)),
    (pa.array([D("1.5")], pa.decimal128(5, 2)), b"\x7f\xff\xff", b"\x80\0\0"),
    (pa.array([D("1.5")], pa.decimal128(38, 2)), b"\x7f" + b"\xff" * 15, b"\x80" + b"\0" * 15),
    (pa.array(["a"]), b"\xed\xa0\x80", b"z"),
    (pa.array(["a"]), b"", b"\xf4\x90\x80\x80"),
    (pa.array([b"a"]), b"\xff", b""),
    (pa.array(["a"]), b"a", None),
    (pa.array(["a"]), None, b"a"),
    (pa.array([1]), long(1), None),
    (pa.array([1]), None, None),
]


@pytest.mark.parametrize(
    "column, low, high", BOUNDS, ids=[f"{c.type} {low} {high}" for c, low, high in BOUNDS]
)
def test_bounds(tmp_path, column, low, high):
    pq.write_table(pa.table({"before": column, "x": column}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"before": column, "x": column}), tmp_path / "b.parquet")
    hand.restate(tmp_path / "a.parquet", {hand.MIN: low, hand.MAX: high}, column=1)
    assert_same([tmp_path / "a.parquet"])
    assert_same([tmp_path / "a.parquet", tmp_path / "b.parquet"])


# Files with different schemas.


def test_different_schemas(tmp_path):
    tables = [
        {
            "i": pa.array([1], pa.int32()),
            "t": pa.array([2**53], pa.timestamp("ms")),
            "m": pa.array([D("1.5")], pa.decimal128(5, 2)),
            "d": [dt.date(2020, 1, 1)],
        },
        {
            "i": pa.array([2**40]),
            "t": pa.array([5], pa.timestamp("ns")),
            "m": pa.array([D("1.25")], pa.decimal128(20, 4)),
            "x": ["a"],
        },
        {"x": ["b"], "i": pa.array([2**40]), "t": pa.array([5], pa.timestamp("us"))},
        {"I": pa.array([3], pa.int16()), "t": pa.nulls(1, pa.timestamp("s"))},
    ]
    paths = [tmp_path / f"{i}.parquet" for i in range(6)]
    for path, table in zip(paths, tables, strict=False):
        pq.write_table(pa.table(table), path)
    pq.write_table(pa.table({"i": pa.array([], pa.int64())}), paths[5])
    assert_same(paths[5:])
    paths[4].write_bytes(b"nothing")
    assert_same(paths)
    assert_same(paths[1:3])
    assert_same([paths[4], paths[2], paths[2]])


def test_footers_share_heads(tmp_path):
    for i in range(3):
        pq.write_table(pa.table({"x": range(i + 1)}), tmp_path / f"{i}.parquet", row_group_size=1)
    for i, note in ((3, "org.apache.spark.version"), (4, "pandas")):
        rows = pa.table({"x": [-i]}).replace_schema_metadata({note: "4.0"})
        pq.write_table(rows, tmp_path / f"{i}.parquet")
    with reader("loop"):
        table = ss.scan_parquet(tmp_path)
        footers = list(table.footers.values())
        assert [len(t.rows) for t in footers] == [1, 2, 3, 1, 1]
        first, *others = (t.head for t in footers)
        assert [head is first for head in others] == [True, True, False, True]
        assert table.plan("x = 1").row_groups == {
            table.files[1]: [1],
            table.files[2]: [1],
        }
        assert table.plan("x >= 1").to_arrow().num_rows == 3
        again = pickle.loads(pickle.dumps(footers[2]))
        assert again.metadata.num_row_groups == 3 and again.rows.tolist() == [1, 1, 1]


def test_few_footers_need_no_loop(tmp_path, monkeypatch):
    """Nothing is compiled or loaded for them, unless a process reads them again and again."""
    pq.write_table(pa.table({"x": range(10)}), tmp_path / "a.parquet", row_group_size=1)
    expected = {str(tmp_path / "a.parquet"): [3]}
    for module in (footer_module, blocks, sources, groups):
        monkeypatch.setattr(module, "is_compiled", lambda: False)
    monkeypatch.setattr(sources, "_asked", 0)
    for name in ("load_from_disk", "compiled_or_start"):
        monkeypatch.setattr(sources, name, lambda: pytest.fail("the loop was requested"))
    assert ss.scan_parquet(tmp_path).plan("x = 3").row_groups == expected
    loads, requests = [], []
    monkeypatch.setattr(sources, "load_from_disk", lambda: loads.append(1))
    monkeypatch.setattr(sources, "compiled_or_start", lambda: requests.append(1))
    while sources._asked < sources.COMPILE_BYTES:
        assert bool(loads) == (sources._asked >= sources.LOAD_BYTES)
        with ss.config.override(keep_footers=False):
            assert ss.scan_parquet(tmp_path).plan("x = 3").row_groups == expected
    assert len(requests) == 1


def test_long_footers_take_a_second_fetch(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": range(2000)}), path, row_group_size=2)
    for name in ("pyarrow", "loop"):
        with reader(name):
            table = ss.scan_parquet(path)
            assert table.plan("x = 1999").row_groups == {str(path): [999]}
            assert (
                table.work.bytes
                == pq.read_metadata(path).serialized_size + 8
                > footer_module.FIRST_FETCH
            )


def test_unknown_fields_are_skipped(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1, 2]}), path)
    footer = hand.read_footer(path)
    new = (
        hand.STRUCT,
        {
            1: (hand.LIST, (hand.STRUCT, [{1: (hand.TRUE, True), 99: (hand.DOUBLE, bytes(8))}])),
            3: (hand.LIST, (hand.TRUE, [b"\1", b"\2"])),
        },
    )
    for fields in (
        footer,
        footer[hand.ROW_GROUPS][1][1][0],
        footer[hand.ROW_GROUPS][1][1][0][hand.COLUMNS][1][1][0][hand.META_DATA][1],
    ):
        fields |= {19: new, 300: (hand.I32, 5)}
    fields[8] = hand.LIST, (0, [])  # some writers store no item type for an empty list
    hand.write_footer(path, footer)
    assert assert_same([path]) == 0


@pytest.mark.parametrize("name", ["pyarrow", "late", "loop"])
def test_files_of_one_writer_share_a_head(tmp_path, name):
    """So they are read together, also if the table was opened before the loop was compiled."""
    for i in range(4):
        kind = pa.int64() if i < 3 else pa.int32()
        table = pa.table({"x": pa.array([i, i + 1], kind)})
        pq.write_table(table, tmp_path / f"{i}.parquet")
    with reader(name):
        table = ss.scan_parquet(tmp_path)
        assert table.plan("x > 0").files
        heads = [id(footer.head) for footer in table.footers.values()]
        assert len(set(heads[:3])) == 1
        assert len(set(heads)) == 2


def test_heads_with_other_orders_are_others(tmp_path):
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "a.parquet")
    head = Heads().of_metadata(pq.read_metadata(tmp_path / "a.parquet"))
    ordered = head.with_orders(1)
    assert (head.trusted, ordered.trusted) == (False, True)
    assert head.with_orders(1) is ordered
    assert ordered.with_orders(0) is head
    assert not head.equals(ordered)


@pytest.mark.parametrize("precision, scale", [(9, 2), (9, 0), (18, 5), (38, 10)])
def test_bounds_of_decimals_that_pyarrow_cannot_read(precision, scale, tmp_path):
    """pyarrow 21 refuses the bounds of decimals that are stored as integers."""
    values = [D(f"-{'9' * (precision - scale)}"), D(5)]
    column = pa.array(values, pa.decimal128(precision, scale))
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"m": column}), path, store_decimal_as_integer=True)
    stats = pq.read_metadata(path).row_group(0).column(0).statistics
    is_integer = isinstance(stats.min_raw, int)

    class Refusing:
        """Statistics as pyarrow 21 has them."""

        logical_type, min_raw, max_raw = stats.logical_type, stats.min_raw, stats.max_raw

        @property
        def min(self):
            if is_integer:
                raise pa.ArrowNotImplementedError("Cannot extract statistics for type")
            return stats.min

        max = property(lambda self: stats.max)

    footer = SimpleNamespace(julian=False, orders_nan=False)
    assert trusted_bounds(Refusing(), footer) == (min(values), max(values))
    assert is_integer == (precision <= 18)
