"""Files with pages of many kinds, and rows read by pages and by row groups."""

import datetime as dt
from decimal import Decimal
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skipstone.bindings.tables.parquet import footer, group_tasks, read_groups
from skipstone.bindings.tables.parquet.pages import page_choice
from skipstone.bindings.tables.parquet.pages.nested.page_rows import COUNT_ZEROS
from skipstone.kernels.decode import footer_layout, page_layout, spans
from skipstone.kernels.decode.spans import GATHER
from skipstone.kernels.run.loops import compiled, plain

DAY = dt.date(1995, 1, 1)
DATETIME = dt.datetime(1995, 1, 1)
TIME = DATETIME.replace(tzinfo=dt.UTC)
NANOS, WIDE = pa.timestamp("ns"), pa.decimal128(38, 0)
ENDS = (-(2**63), -1, 0, 2**63 - 1)
EDGES = (float("-inf"), -0.0, 0.0, 5e-324, float("inf"), float("nan"))
WIDEST = (Decimal(0), Decimal("9" * 38), Decimal("-" + "9" * 38))
STRUCT = pa.struct({"a": pa.int64(), "b": pa.string()})
UNSIGNED = {bits: (0, 1, 2 ** (bits - 1), 2**bits - 1) for bits in (32, 64)}
FAR = (dt.date(1, 1, 1), dt.date(1582, 10, 4), dt.date(1582, 10, 15), dt.date(9999, 12, 31))


@pytest.fixture(autouse=True)
def small_pages(monkeypatch):
    """Let pages of small files be looked up, in the modules that import this."""
    compile_loops()
    monkeypatch.setattr(group_tasks, "MANY_GROUPS", 1 << 30)
    monkeypatch.setattr(page_choice, "PAGE_ROWS", 16)
    monkeypatch.setattr(page_choice, "PAGE_BYTES", 64)


def compile_loops():
    """Compile the loops that find pages; without them, row groups are read."""
    for loop in (footer_layout.WALK, GATHER, page_layout.HEADERS, page_layout.SOUND, COUNT_ZEROS):
        compiled(loop)


def without_loops(monkeypatch):
    """Let pages be found as in a process that has compiled nothing yet."""
    monkeypatch.setattr(footer, "is_compiled", lambda: False)
    monkeypatch.setattr(footer, "_read_by_python", -(1 << 30))
    monkeypatch.setattr(page_layout, "is_compiled", lambda: False)
    found = page_layout.compile_cache.find
    only = lambda loop: None if loop == page_layout.SOUND else found(loop)
    monkeypatch.setattr(page_layout.compile_cache, "find", only)
    for module in (page_layout, spans):
        monkeypatch.setattr(module, "compiled_or_plain", lambda loop, size: plain(loop))


@lru_cache(64)
def table(seed, n=3000):
    """Make a table sorted by `k`, of all types that are read by pages, and of some others."""
    random = np.random.default_rng(seed)
    k = np.sort(random.integers(0, 500, n))
    nulls = random.random(n) < random.choice([0, 0.2])

    def column(values, kind):
        return pa.array([None if null else v for v, null in zip(values, nulls, strict=True)], kind)

    some = random.integers(-50, 50, n)
    floats = np.where(random.random(n) < 0.05, np.nan, some / 4)
    return pa.table(
        {
            "k": pa.array(k, pa.int64()),
            "i": column(some.tolist(), pa.int32()),
            "f": column(floats.astype(np.float32).tolist(), pa.float32()),
            "d": column(floats.tolist(), pa.float64()),
            "b": column((some > 0).tolist(), pa.bool_()),
            "day": column([DAY + dt.timedelta(int(v)) for v in k], pa.date32()),
            "t": column(
                [TIME + dt.timedelta(hours=int(v)) for v in some], pa.timestamp("us", "UTC")
            ),
            "ntz": column([dt.datetime(1995, 1, 1, int(v) % 24) for v in some], pa.timestamp("ms")),
            "p": column([Decimal(int(v)) / 100 for v in some], pa.decimal128(9, 2)),
            "q": column([Decimal(int(v)) / 100 for v in some], pa.decimal128(30, 2)),
            "s": column([f"text {v % 7}" for v in some], pa.string()),
            "u": column([f"{v} {i}" for i, v in enumerate(some)], pa.string()),
            "z": column([bytes([v % 5]) for v in some], pa.binary()),
            "ends": column([ENDS[v % len(ENDS)] for v in some], pa.int64()),
            "edge": column([EDGES[v % len(EDGES)] for v in some], pa.float64()),
            "far": column([FAR[v % len(FAR)] for v in some], pa.date32()),
            "ns": column([DATETIME + dt.timedelta(microseconds=int(v)) for v in some], NANOS),
            "wide": column([WIDEST[int(np.sign(v))] for v in some], WIDE),
            "i8": column([int(v) for v in some], pa.int8()),
            "i16": column([int(v) * 600 for v in some], pa.int16()),
            "u8": column([int(v) + 100 for v in some], pa.uint8()),
            "u16": column([(int(v) + 50) * 650 for v in some], pa.uint16()),
            "u32": column([UNSIGNED[32][v % 4] for v in some], pa.uint32()),
            "u64": column([UNSIGNED[64][v % 4] for v in some], pa.uint64()),
            "c": column([f"text {v % 7}" for v in some], pa.string()).dictionary_encode(),
            "items": column([[int(v)] * (v % 3) for v in some], pa.list_(pa.int64())),
            "pairs": column([[("a", int(v))] for v in some], pa.map_(pa.string(), pa.int32())),
            "st": column([{"a": int(v), "b": f"b {v}"} for v in some], STRUCT),
            "span": column([int(v) for v in some], pa.duration("ms")),
        }
    )


# Encodings that other writers choose by default, and pyarrow with an option.
DELTA = {
    **dict.fromkeys(("k", "i", "day", "t", "ntz", "ends"), "DELTA_BINARY_PACKED"),
    **dict.fromkeys(("f", "d"), "BYTE_STREAM_SPLIT"),
    **dict.fromkeys(("s", "z"), "DELTA_LENGTH_BYTE_ARRAY"),
    "u": "DELTA_BYTE_ARRAY", "b": "RLE",
}  # fmt: skip
SPLIT = {**dict.fromkeys(("k", "i", "p", "t"), "BYTE_STREAM_SPLIT"), "s": "DELTA_BYTE_ARRAY"}
CONDITIONS = (
    None,
    "k = 250",
    "k < 5 OR k > 495",
    "k IN (3, 77, 78, 300) AND i > 0",
    "day BETWEEN DATE '1995-03-01' AND DATE '1995-03-20'",
    "k > 100 AND k < 200 AND f > 2.5",
    "d = CAST('NaN' AS DOUBLE)",
    "f IS NULL",
    "NOT (d < 3) AND k > 400",
    "b AND k < 60",
    "t >= TIMESTAMP '1995-01-02 00:00:00' AND k < 90",
    "ntz = TIMESTAMP_NTZ '1995-01-01 05:00:00'",
    "p BETWEEN 0.10 AND 0.20 AND q < 0.15",
    "s = 'text 3' AND k % 3 = 0",
    "s LIKE 'text%' AND s NOT IN ('text 1', 'text 2') AND k BETWEEN 10 AND 40",
    "u LIKE '%99' OR z = X'03' AND k < 20",
    "i / 4 = f AND k < 70",
    "coalesce(i, 0) = 0 AND p IS NOT NULL",
    "k > 1000",
    "s > 'text 5' OR i IS NULL",
    "ends = -9223372036854775808 OR ends >= 9223372036854775807",
    "edge <= 0 AND NOT (edge < 0)",
    "edge > 1e308 OR edge = CAST('NaN' AS DOUBLE)",
    "far < DATE '1582-10-15' AND ns >= TIMESTAMP_NTZ '1995-01-01 00:00:00.000003'",
    "wide > 0 AND k > 50",
    "i8 < -40 OR i16 > 29000",
    "u8 > 145 AND u16 >= 60000",
    "u32 = 4294967295 AND k < 300",
    "u64 > 9223372036854775808 AND k > 300",
    "c = 'text 3' AND k < 100",
    "c LIKE '%5' OR c IS NULL",
    "size(items) = 2 AND k BETWEEN 100 AND 130",
    "array_contains(items, 41)",
    "pairs['a'] = 7 OR k = 11",
    "st.a > 45",
    "st.b = 'b 7' AND i8 = 7",
    "st IS NULL AND k < 50",
)


def write(path, rows, seed):
    """Write rows with options that change their pages."""
    random = np.random.default_rng(seed)

    def one(*choices):
        return choices[random.integers(len(choices))]

    options = {
        "row_group_size": one(300, 1000, 10_000),
        "data_page_size": one(1, 500, 1 << 20),
        "max_rows_per_page": one(50, 200, 20_000),
        "write_batch_size": one(7, 64, 1024),
        "data_page_version": one("1.0", "2.0"),
        "write_page_index": one(True, False),
        "use_dictionary": one(True, False, ["s"]),
        "dictionary_pagesize_limit": one(64, 1 << 20),
        "compression": one("none", "snappy", "zstd", "gzip"),
        "store_decimal_as_integer": one(True, False),
        "store_schema": one(True, False),
        "write_statistics": one(True, True, ["k", "s"], False),
    }
    if (encodings := one(None, DELTA, SPLIT)) is not None:
        options |= {"use_dictionary": False, "column_encoding": encodings}
    else:  # INT96 has no other encodings
        options["use_deprecated_int96_timestamps"] = one(False, True)
    pq.write_table(rows, path, **options)
    return options


class Pages:
    """Counts the units of row groups that are read by pages, and by row groups."""

    def __init__(self, monkeypatch):
        self.by_pages = self.by_row_groups = 0
        inner = read_groups.GroupReader._by_pages

        def counted(reader, tasks, apart):
            self.by_row_groups += 1
            found = inner(reader, tasks, apart)  # an error leads to row groups, too
            if found is not None:
                self.by_row_groups -= 1
                self.by_pages += 1
            return found

        monkeypatch.setattr(read_groups.GroupReader, "_by_pages", counted)


def without_pages(monkeypatch):
    """Read row groups only."""
    monkeypatch.setattr(read_groups.GroupReader, "_by_pages", lambda reader, tasks, apart: None)
