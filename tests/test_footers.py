"""Footers in columns: what the loop finds is what pyarrow says of each chunk, bit for bit; where it does not understand, pyarrow is asked."""

import contextlib
import datetime as dt
import decimal
import faulthandler
import os
import pickle
import random
import struct
import subprocess
import sys
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.sources import footers as sources
from skipstone.bindings.sources import tail as tails
from skipstone.bindings.sources.footers import Footer, FooterPart, read_footers
from skipstone.bindings.sources.forms import common_schema
from skipstone.bindings.sources.groups import forms_in, type_at
from skipstone.bindings.sources.tail import Tail
from skipstone.bindings.work import Meter
from skipstone.ir.types import leaves_of
from skipstone.kernels import footer_layout, footer_loops
from skipstone.kernels.loops import compiled
from skipstone.kernels.spans import GATHER
from tests import footers as hand
from tests.effort import LONG
from tests.test_parquet import LEGACY, WIDE
from tests.traps import TRAPS, double, long

D, NAN = decimal.Decimal, float("nan")
LOCAL = pafs.LocalFileSystem()


@pytest.fixture(scope="module", autouse=True)
def loops():
    for loop in (footer_layout.WALK, GATHER):
        compiled(loop)


@contextlib.contextmanager
def by(way):
    """Footers read by the loop; by pyarrow; or by pyarrow at first and later, when it is there, by the loop."""
    with pytest.MonkeyPatch.context() as m:
        m.setattr(tails, "is_there", lambda: way == "loop")
        m.setattr(sources, "SMALL", 1 << 60 if way == "pyarrow" else 0)
        yield


def shown(values):
    """An array as text: NaN equals NaN, and -0.0 is not 0.0."""
    values = values.cast(pa.int64()) if pa.types.is_timestamp(kind := values.type) else values
    return str(kind), [repr(v) for v in values.to_pylist()]


def told(footers, schema=None):
    """All that a part says, as text."""
    part = FooterPart(footers, np.arange(len(footers)))
    schema = schema or common_schema(forms_in([part]))
    out = {
        "rows": part.rows.tolist(),
        "nbytes": part.nbytes.tolist(),
        "groups": part.group.tolist(),
        "forms": part.form.tolist(),
    }
    for path, leaf in leaves_of(schema).items():
        if leaf.dtype.ordered:
            raw = part.raw(path, type_at(schema, path))
            arrays = (raw.min, raw.max, raw.null_count, raw.nan_count, *part.exact(path))
            out[path] = [shown(a) for a in arrays], part.blooms(path)
    return out


def left(footers):
    """Of how many chunks pyarrow is asked, after the loop."""
    part, asked = FooterPart(footers, np.arange(len(footers))), 0
    schema = common_schema(forms_in([part]))
    for path, leaf in leaves_of(schema).items():
        if leaf.dtype.ordered:
            asked += int(part._told(part._places(path), type_at(schema, path)).left.sum())
    return asked


def alike(paths):
    """The same by all ways; of how many chunks pyarrow was asked."""
    found, names = {}, list(map(str, paths))
    for way in ("pyarrow", "loop", "late"):
        with by(way):
            footers = read_footers(names, LOCAL, Meter(), keep=True)
            found[way] = told(footers)
            asked = left(footers)
    assert found["loop"] == found["late"] == found["pyarrow"]
    return asked


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


@pytest.mark.parametrize("table, asked", [(WIDE, 4), (MORE, 8)], ids=["wide", "more"])
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
def test_types(tmp_path, table, asked, options):
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2, **options)
    assert alike([tmp_path / "a.parquet"]) <= asked


def test_writers(tmp_path, spark):
    duckdb, pl = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    table = MORE.drop_columns(["st", "none", "large", "v"])
    duckdb.register("footers_of_duckdb", table.cast(table.schema))
    decimals = pa.table(
        {"m": pa.array([D("-1.5"), D("2.5")], pa.decimal128(20, 2))}
    )  # in 9 bytes, and 16 of DuckDB's
    duckdb.register("decimals_of_duckdb", decimals)
    duckdb.sql(f"COPY decimals_of_duckdb TO '{tmp_path}/a.parquet'")
    pq.write_table(decimals, tmp_path / "b.parquet")
    assert alike([tmp_path / "a.parquet", tmp_path / "b.parquet"]) == 0
    duckdb.sql(f"COPY footers_of_duckdb TO '{tmp_path}/duckdb.parquet' (ROW_GROUP_SIZE 2)")
    pl.from_arrow(table.drop_columns(["long"])).write_parquet(
        tmp_path / "polars.parquet", row_group_size=2
    )
    rows = "SELECT id, CAST(id AS INT) i, id / 7D f, IF(id = 3, double('NaN'), id) g, CAST(id AS STRING) s, CAST(id AS DECIMAL(9, 2)) m"
    rows += ", CAST(id AS DECIMAL(30, 2)) w, CAST(CAST(id AS STRING) AS BINARY) b, DATE '2020-01-01' + INTERVAL '1' DAY d, timestamp_micros(id) t"
    rows += ", id > 5 o, CAST(id AS TINYINT) tiny FROM range(0, 40, 1, 1)"
    for kind in ("INT96", "TIMESTAMP_MICROS"):
        spark.conf.set("spark.sql.parquet.outputTimestampType", kind)
        spark.sql(rows).write.parquet(str(tmp_path / kind))
    spark.conf.unset("spark.sql.parquet.outputTimestampType")
    asked = {
        p.parent.name: alike([p])
        for p in [*tmp_path.glob("*/*.parquet"), *tmp_path.glob("*.parquet")]
    }
    assert max(asked.values()) <= 8


@pytest.mark.parametrize("trap", TRAPS, ids=[t.origin for t in TRAPS])
def test_traps(tmp_path, trap):
    pq.write_table(pa.table(trap.rows), tmp_path / "a.parquet", **trap.options)
    if trap.change:
        trap.change(tmp_path / "a.parquet")
    alike([tmp_path / "a.parquet"])


# Who is trusted, and with what.

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
def test_writers_that_were_wrong(tmp_path, ordered):
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
        alike([path])
    alike(paths)


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
    assert alike(tmp_path.glob("*.parquet")) == 0
    with by("loop"):  # `_metadata` does not tell who wrote
        read = read_footers([str(tmp_path / "us.parquet")], LOCAL, Meter(), keep=True)
        (summed,) = (Footer(f.path, f.tail, [1, 0, 1], own=False) for f in read)
        found = told([summed])
    with by("pyarrow"):
        assert (
            told([Footer(summed.path, Tail(summed.tail.data.tobytes()), [1, 0, 1], own=False)])
            == found
        )


DAY = struct.Struct("<i").pack
#     column                                         bounds that are said of it
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
    alike([tmp_path / "a.parquet"])
    alike([tmp_path / "a.parquet", tmp_path / "b.parquet"])


@pytest.mark.parametrize(
    "column, bound",
    [(pa.array([1]), b"\1" * 4), (pa.array([1]), b""), (pa.array([1], pa.int32()), b"\1" * 8), (pa.array([True]), b""),
     (pa.array([b"abc"], pa.binary(3)), b"ab"), (pa.array([1.0]), b"\0" * 7), (pa.array([D("1.5")], pa.decimal128(5, 2)), b"\0")],
)  # fmt: skip
def test_bounds_of_another_size_are_unknown(tmp_path, column, bound):
    """They end the process in pyarrow 26."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": column, "y": [1]}), path)
    hand.restate(path, {hand.MIN: bound, hand.MAX: bound})
    with by("loop"):
        table = ss.scan_parquet(path)
        assert [
            v
            for w in ("x IS NOT NULL", "x IS NULL", "y = 2")
            for v in table.plan(w).verdicts.tolist()
        ] == [1, 1, 0]


LEVELS = (hand.STRUCT, {3: (hand.LIST, (hand.I64, [0, 1, 2, 3]))})
#     column chunk's metadata: field -> value
DAMAGED = {
    "short bound": {
        12: (hand.STRUCT, {hand.MAX: (hand.BINARY, b"\1" * 4), hand.MIN: (hand.BINARY, long(1))})
    },
    "short old bound": {
        12: (hand.STRUCT, {hand.OLD_MAX: (hand.BINARY, b""), hand.OLD_MIN: (hand.BINARY, long(1))})
    },
    "other type": {1: (hand.I32, 1)},
    "no type": {1: (hand.I32, 77)},
    "no encoding": {2: (hand.LIST, (hand.I32, [77, -1]))},
    "levels": {16: LEVELS},
}
COLD = """
import sys, skipstone as ss
table = ss.scan_parquet(sys.argv[1])
found = [table.plan(w).verdicts.tolist() for w in ("x > 5", "y = 2")]
table.save_stats(sys.argv[2])
print(found, table.files == ss.scan_parquet(sys.argv[1]).files)
"""


@pytest.mark.parametrize("summed", [False, True], ids=["files", "_metadata"])
def test_chunks_that_end_the_process_in_pyarrow(tmp_path, summed):
    """Nothing is compiled, so that Python reads the footers; the whole runs in a process of its own."""
    lake = tmp_path / "lake"
    lake.mkdir()
    for i, change in enumerate(
        [DAMAGED[k] for k in ("short bound", "levels")] if summed else DAMAGED.values()
    ):
        path = lake / f"{i}.parquet"
        kept = []
        pq.write_table(pa.table({"x": [1, 2], "y": [5, 6]}), path, metadata_collector=kept)
        at = path
        if summed:
            kept[0].set_file_path(path.name)
            at = lake / "_metadata"
            kept[0].write_metadata_file(at)
        footer = hand.read_footer(at)
        footer[hand.ROW_GROUPS][1][1][0][hand.COLUMNS][1][1][0][hand.META_DATA][1].update(change)
        hand.write_footer(at, footer)
        if summed:
            assert cold(lake, tmp_path / "stats").endswith("True")
    if not summed:
        assert cold(lake, tmp_path / "stats") == f"[{[1, 1, 1, 1, 0, 1]}, {[0] * 6}] True"


def cold(folder, to):
    done = subprocess.run(
        [sys.executable, "-c", COLD, str(folder), str(to)],
        capture_output=True,
        text=True,
        env={**os.environ, "SKIPSTONE_COMPILE": "0"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# Files of several forms.


def test_forms_that_differ(tmp_path):
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
    alike(paths[5:])
    paths[4].write_bytes(b"nothing")
    alike(paths)
    alike(paths[1:3])
    alike([paths[4], paths[2], paths[2]])


def test_footers_share_what_they_have_in_common(tmp_path):
    for i in range(3):
        pq.write_table(pa.table({"x": range(i + 1)}), tmp_path / f"{i}.parquet", row_group_size=1)
    pq.write_table(pa.table({"x": [1]}).replace_schema_metadata({"a": "b"}), tmp_path / "3.parquet")
    with by("loop"):
        table = ss.scan_parquet(tmp_path)
        found = list(table.footers.values())
        assert [len(t.rows) for t in found] == [1, 2, 3, 1] and len(
            {id(t.head) for t in found}
        ) == 2
        assert table.plan("x = 1").row_groups == {
            table.files[1]: [1],
            table.files[2]: [1],
            table.files[3]: [0],
        }
        assert table.plan("x >= 1").to_arrow().num_rows == 4
        again = pickle.loads(pickle.dumps(found[2]))
        assert again.metadata.num_row_groups == 3 and again.rows.tolist() == [1, 1, 1]


def test_few_footers_wait_for_nothing(tmp_path, monkeypatch):
    """Nothing is compiled for them, nor loaded."""
    pq.write_table(pa.table({"x": range(10)}), tmp_path / "a.parquet", row_group_size=1)
    monkeypatch.setattr(tails, "is_there", lambda: False)
    monkeypatch.setattr(sources, "at_hand", lambda: pytest.fail("the loop was asked for"))
    assert ss.scan_parquet(tmp_path).plan("x = 3").row_groups == {str(tmp_path / "a.parquet"): [3]}


def test_long_footers_are_fetched_once_more(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": range(2000)}), path, row_group_size=2)
    for way in ("pyarrow", "loop"):
        with by(way):
            table = ss.scan_parquet(path)
            assert table.plan("x = 1999").row_groups == {str(path): [999]}
            assert table.work.bytes == pq.read_metadata(path).serialized_size + 8 > tails.FETCHED


# Damage.


@pytest.fixture(scope="module")
def footer(tmp_path_factory):
    path = tmp_path_factory.mktemp("footers") / "a.parquet"
    blooms = {"x": {"ndv": 4}} if "bloom_filter_options" in pq.write_table.__doc__ else None
    table = pa.table(
        {
            "x": [1, 2],
            "s": ["a", None],
            "f": [1.5, 2.5],
            "m": pa.array([D("1.5"), D("2")], pa.decimal128(5, 2)),
            "l": [[1], []],
        }
    )
    pq.write_table(
        table, path, row_group_size=1, **({"bloom_filter_options": blooms} if blooms else {})
    )
    data = path.read_bytes()
    return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]


def outcome(data):
    """What a footer says, whether the loop understood it, or what is wrong with it."""
    try:
        tail = Tail(data)
        return told([Footer("a", tail, range(len(tail.rows)))]), tail.layout is not None
    except Exception as e:  # whatever it is, both ways are to raise it
        return f"{type(e).__name__}: {e}", False


def outcomes(each, way):
    """Of footers one after the other, in children of this process; None: pyarrow ended it."""
    found = []
    while len(found) < len(each):
        read, write = os.pipe()
        if not (child := os.fork()):
            with contextlib.suppress(BaseException), by(way), os.fdopen(write, "wb") as out:
                faulthandler.disable()
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                for data in each[len(found) :]:
                    out.write(pickle.dumps(outcome(data)))
                    out.flush()
            os._exit(0)
        os.close(write)
        with (
            os.fdopen(read, "rb") as results,
            contextlib.suppress(EOFError, pickle.UnpicklingError),
        ):
            while True:
                found.append(pickle.load(results))
        if os.waitpid(child, 0)[1]:
            found.append(None)
    return found


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_each_byte_changed_or_cut(footer):
    r, each = random.Random(3), [footer]
    for at in range(0, len(footer), 1 if LONG else 3):
        each += [
            footer[:at] + bytes([byte]) + footer[at + 1 :]
            for byte in {
                footer[at] ^ 1,
                footer[at] ^ 0x10,
                r.randrange(256),
                *(r.randbytes(16) if LONG else ()),
            }
        ]
        each += [footer[:at], footer[:at] + footer[at + 1 :]]
    counted = Counter()
    for data, old, new in zip(each, outcomes(each, "pyarrow"), outcomes(each, "loop"), strict=True):
        assert old is not None, data  # nor did pyarrow end the process
        told, understood = new or (None, False)
        counted["understood"] += understood
        if understood and (
            isinstance(old[0], str) or (told != old[0] and less(old[0], told))
        ):  # pyarrow does not take it, or is not asked
            counted["more"] += 1
        else:
            counted["less"] += told != old[0]
            assert new is not None and (told == old[0] or (understood and less(told, old[0]))), data
    assert counted["understood"] > len(each) // 8 and counted["less"] < len(each) // 20


def less(told, other):
    """Whether of column chunks less is known than by another way, and nothing else."""
    columns = [path for path in told if isinstance(path, tuple)]
    pairs = [
        (a, b)
        for path in columns
        for (_, own), (_, others) in zip(told[path][0], other[path][0], strict=True)
        for a, b in zip(own, others, strict=True)
    ]
    return all(a in (b, "None") for a, b in pairs) and all(
        told[key] == other[key] for key in told if key not in columns
    )


def test_the_text_of_the_loop_runs_as_python(footer):
    """And finds the same, of whole footers and damaged ones."""
    r = random.Random(5)
    for n in range(60):
        data = bytearray(footer)
        for _ in range(n % 4):
            data[r.randrange(len(data))] = r.randrange(256)
        found = [
            footer_layout.layout_of(np.frombuffer(bytes(data), np.uint8), walk)
            for walk in (None, footer_loops.walk)
        ]
        assert [x is None for x in found] in ([True] * 2, [False] * 2)
        assert found[0] is None or all(np.array_equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\x19\xfc\xff\xff\xff\xff\x0f",
        b"\x1c" * 5000,
        b"\x16" + b"\xff" * 20,
        b"\x19\xf0" + b"\xff" * 9 + b"\1",
        b"\x49\xfc\x80\x80\x80\x01" * 9,
    ],
)
def test_bombs(data):
    assert footer_layout.layout_of(np.frombuffer(data, np.uint8)) is None


def test_fields_that_nobody_knows_yet_are_passed_over(tmp_path):
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
    fields[8] = hand.LIST, (0, [])  # some writers name no type where there are no items
    hand.write_footer(path, footer)
    assert alike([path]) == 0


@pytest.mark.parametrize("on_error", ["raise", "keep"])
def test_a_footer_that_pyarrow_refuses_when_a_plan_asks(tmp_path, monkeypatch, on_error):
    """The loop took it: what pyarrow alone could tell is unknown, the plan keeps the file, and reading it says why."""
    times = pa.array([dt.time(1), dt.time(2)], pa.time32("ms"))
    for name in ("a", "b"):
        pq.write_table(pa.table({"x": [1, 2], "t": times}), tmp_path / f"{name}.parquet")
    with by("loop"):
        table = ss.scan_parquet(tmp_path, on_error=on_error)

        def refuse(footer):
            raise OSError("Couldn't deserialize thrift: don't know what type:\nmore")

        monkeypatch.setattr(tails, "parsed", refuse)
        monkeypatch.setattr(sources, "way_of", lambda *_: None)  # so that pyarrow is asked
        plan = table.plan("x > 5")
        assert len(plan.files) == 2
        with pytest.raises(ss.SourceError, match=r"a\.parquet: reading row groups") as found:
            plan.to_arrow()
        assert str(found.value).isprintable()
