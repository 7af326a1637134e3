"""Nested columns that are read by the pages of their Parquet columns have the same rows."""

import datetime as dt
import json
from decimal import Decimal

import deltalake
import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from pyiceberg.types import LongType

import skipstone as ss
from skipstone.bindings.tables.parquet.pages.nested import nested_pages, page_rows
from tests.support.effort import LONG
from tests.support.rows.alike import alike
from tests.support.tables import iceberg_tables
from tests.support.tables.page_indexes import (
    WRONG_ROWS,
    change_offset_index,
    damage_offset_indexes,
)
from tests.support.tables.pages import (
    Pages,
    compile_loops,
    small_pages,  # noqa: F401
    without_pages,
)

VALUES = {
    pa.int64(): [-(2**63), 2**63 - 1, 0, 7],
    pa.int16(): [-(2**15), 2**15 - 1, 0],
    pa.float64(): [float("nan"), -0.0, 1.5, float("inf")],
    pa.bool_(): [True, False],
    pa.string(): ["", "a", "é\U0001f600", "long " * 9],
    pa.large_string(): ["", "b" * 30],
    pa.binary(): [b"", b"\0\xff"],
    pa.binary(3): [b"abc", b"\0\0\0"],
    pa.date32(): [dt.date(1900, 1, 1), dt.date(2100, 1, 1)],
    pa.timestamp("us", "UTC"): [dt.datetime(1970, 1, 1, tzinfo=dt.UTC)],
    pa.decimal128(20, 2): [Decimal("-0.01"), Decimal("999999999999999999.99")],
}
LEAVES = list(VALUES)
WRITERS = {
    "indexed": {"write_page_index": True},
    "version 1": {},
    "version 2": {"data_page_version": "2.0"},
    "version 2, indexed": {"data_page_version": "2.0", "write_page_index": True},
}
N, DEPTH = 3000, 3
REMOTE = pafs.PyFileSystem(pafs.FSSpecHandler(fsspec.filesystem("file")))


@pytest.fixture(scope="module", autouse=True)
def _loops():
    compile_loops()


def random_type(random, depth):
    """Return a type that is nested up to a depth."""

    def field(name, depth):
        return pa.field(name, random_type(random, depth), nullable=bool(random.random() < 0.7))

    form = random.integers(4 + (depth < DEPTH)) if depth else 4
    if form == 0:
        return pa.struct([field(f"f.{i}", depth - 1) for i in range(random.integers(1, 4))])
    if form < 3:
        return (pa.list_ if form == 1 else pa.large_list)(field("element", depth - 1))
    if form == 3:
        return pa.map_(LEAVES[random.integers(len(LEAVES))], random_type(random, depth - 1))
    return LEAVES[random.integers(len(LEAVES))]


def random_value(random, kind, nullable=True):
    """Return a value of a type; NULLs, and empty lists, are frequent."""
    if nullable and random.random() < 0.2:
        return None
    if pa.types.is_struct(kind):
        return {f.name: random_value(random, f.type, f.nullable) for f in kind}
    if pa.types.is_map(kind):
        key, item = kind.key_type, kind.item_type
        return [
            (random_value(random, key, False), random_value(random, item))
            for _ in range(random.integers(0, 4))
        ]
    if pa.types.is_nested(kind):
        own = kind.value_field
        return [random_value(random, own.type, own.nullable) for _ in range(random.integers(0, 4))]
    return VALUES[kind][random.integers(len(VALUES[kind]))]


def random_table(random, n=N):
    columns = {"k": pa.array(range(n)), "r": pa.array(random.integers(0, 1000, n))}
    for i in range(3):
        kind = random_type(random, DEPTH)
        columns[f"n{i}"] = pa.array([random_value(random, kind) for _ in range(n)], kind)
    return pa.table(columns)


def write(path, rows, random, options):
    one = lambda *choices: choices[random.integers(len(choices))]
    pq.write_table(
        rows,
        path,
        row_group_size=one(700, N),
        max_rows_per_page=one(30, 100),
        write_batch_size=one(7, 64),
        data_page_size=one(200, 1 << 20),
        use_dictionary=one(True, False),
        dictionary_pagesize_limit=one(64, 1 << 20),
        compression=one("none", "snappy", "zstd", "gzip", "lz4", "brotli"),
        **options,
    )


def answer(path, where, columns=None, filesystem=None):
    with ss.config.override(keep_matches=False):
        table = ss.scan_parquet(path, filesystem=filesystem)
        return table.plan(where, columns=columns).to_arrow()


@pytest.fixture
def read(monkeypatch):
    """Return a list that gets whether each nested column was read by pages."""
    out, inner = [], nested_pages._by_pages

    def seen(*arguments):
        found = inner(*arguments)
        out.append(found is not None)
        return found

    monkeypatch.setattr(nested_pages, "_by_pages", seen)
    return out


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("seed", range(200 if LONG else 3))
def test_rows_are_those_of_row_groups(seed, writer, tmp_path, monkeypatch, read):
    random = np.random.default_rng(seed)
    path = str(tmp_path / "t.parquet")
    write(path, random_table(random), random, WRITERS[writer])
    conditions = ("k = 1500", "k >= 650 AND k < 790", "k < 40 OR k > 2950", "r < 5", "k % 100 = 7")
    for where in conditions:
        with monkeypatch.context() as patch:
            without_pages(patch)
            expected = answer(path, where)
        with monkeypatch.context() as patch:
            seen = Pages(patch)
            for filesystem in (None, REMOTE):
                found = answer(path, where, filesystem=filesystem)
                assert alike(found, expected), (where, filesystem)
            assert seen.by_row_groups == 0
    assert any(read) or writer == "version 1"  # which does not tell the rows of lists


KIND = pa.struct([("a", pa.int64()), ("t", pa.string()), ("in", pa.struct([("x.y", pa.int32())]))])


def ordered_table():
    def struct(i):
        inner = None if i % 11 == 0 else {"x.y": i // 3}
        return (
            None if i % 13 == 0 else {"a": None if i % 7 == 0 else i, "t": f"t{i:05}", "in": inner}
        )

    def items(i):
        return None if i % 17 == 0 else [i] * (i % 4)

    return pa.table(
        {
            "k": range(N),
            "s": pa.array(map(struct, range(N)), KIND),
            "items": pa.array(map(items, range(N)), pa.list_(pa.int64())),
            "m": pa.array([[("a", i), ("b", i + 1)] for i in range(N)], pa.map_("string", "int64")),
            "ls": pa.array([[struct(i), None, struct(i + 1)] for i in range(N)], pa.list_(KIND)),
        }
    )


PRUNED = [
    ("s.a = 1234", 1),
    ("s.t BETWEEN 't00500' AND 't00510'", 1),
    ("s.in.`x.y` = 700", 1),
    ("s.a > 2990 AND s.in.`x.y` IS NOT NULL", 1),
    ("array_contains(items, 1999L)", 1),
    ("exists(items, v -> v > 2995)", 1),
    ("m['a'] = 77", 1),
    ("exists(ls, v -> v.a = 1500)", 2),
    ("s.a < 0 OR k = 5", 1),
]


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize(("where", "pages"), PRUNED, ids=[where for where, _ in PRUNED])
def test_pages_are_pruned_by_nested_columns(where, pages, writer, tmp_path, monkeypatch):
    path, options = str(tmp_path / "t.parquet"), WRITERS[writer]
    pq.write_table(ordered_table(), path, max_rows_per_page=100, write_batch_size=50, **options)
    plan = ss.scan_parquet(path).plan(where)
    with monkeypatch.context() as patch:
        without_pages(patch)
        expected = plan.to_arrow()
    assert alike(answer(path, where), expected) and len(expected)
    (ranges,) = plan.pages.values()
    rows = sum(stop - start for start, stop in ranges[0])
    # The headers of version 1 do not tell the rows of lists.
    known = "s." in where or writer != "version 1"
    assert rows == (100 * pages if known else N)


@pytest.mark.parametrize("where", ["k = 5", "s IS NULL AND k < 100", "k < 100 AND items IS NULL"])
def test_rows_of_columns_without_a_chunk_of_pages(where, tmp_path):
    """A file of one page a chunk has nothing to choose."""
    path = str(tmp_path / "t.parquet")
    pq.write_table(ordered_table(), path)
    expected = pq.read_table(path).slice(0, 100)
    found = answer(path, where, ["k", "ls"])
    assert found["ls"].to_pylist() == [expected["ls"][k].as_py() for k in found["k"].to_pylist()]


def test_required_structs_within_null_structs(tmp_path, read):
    """Arrow reads such a struct as NULL around a list, and as a value around other fields."""
    inner = pa.struct([pa.field("a", pa.int64()), pa.field("items", pa.list_(pa.int64()))])
    kind = pa.struct([pa.field("in", inner, nullable=False)])
    rows = [None if i % 3 else {"in": {"a": i, "items": [i] * (i % 4)}} for i in range(N)]
    table = pa.table({"k": range(N), "s": pa.array(rows, kind)})
    path = str(tmp_path / "t.parquet")
    pq.write_table(table, path, max_rows_per_page=50, write_batch_size=50, write_page_index=True)
    assert answer(path, "k > 70 AND k < 90")["s"].to_pylist() == rows[71:90]
    assert read == [True]


def test_no_read_waits_for_the_compiler(tmp_path, read, monkeypatch):
    """On a new machine, lists of many values are read whole until the loop is compiled."""
    path = str(tmp_path / "t.parquet")
    pq.write_table(ordered_table(), path, max_rows_per_page=50, write_page_index=True)
    started = []
    monkeypatch.setattr(page_rows, "PLAIN_SIZE", 0)
    monkeypatch.setattr(page_rows, "compiled_or_start", started.append)
    expected = pq.read_table(path).slice(1500, 1)
    assert answer(path, "k = 1500", ["k", "items"]) == expected.select(["k", "items"])
    assert read == [False] and set(started) == {page_rows.COUNT_ZEROS}
    assert answer(path, "k = 1500", ["k", "s"]) == expected.select(["k", "s"])
    assert read == [False, True]


ASKED = ("k = 250", "k > 1010 AND k < 1030", "s.a = 1777", "array_contains(items, 603L)")


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("wrong", WRONG_ROWS)
def test_offset_indexes_that_list_other_rows_change_no_answer(wrong, version, tmp_path):
    """The pages that are read, and the last one, show the rows that they have."""
    path = tmp_path / "t.parquet"
    for column in range(1, 10) if LONG else (1, 4, 7):
        pq.write_table(
            ordered_table(), path, max_rows_per_page=50, write_batch_size=50,
            write_page_index=True, data_page_version=version,
        )  # fmt: skip
        expected = [answer(str(path), where) for where in ASKED]
        assert all(map(len, expected))
        change_offset_index(path, WRONG_ROWS[wrong], column)
        for where, same in zip(ASKED, expected, strict=True):
            assert answer(str(path), where).equals(same), (where, column)
        found = answer(str(path), ASKED[0], filesystem=REMOTE)
        assert found.equals(expected[0]), column


@pytest.mark.parametrize("seed", range(100 if LONG else 3))
def test_damaged_offset_indexes_lose_no_row(seed, tmp_path):
    random = np.random.default_rng(seed)
    path = tmp_path / "t.parquet"
    pq.write_table(
        ordered_table(), path, row_group_size=1100, max_rows_per_page=50, write_batch_size=25,
        write_page_index=True, data_page_version="2.0" if seed % 2 else "1.0",
    )  # fmt: skip
    expected = [answer(str(path), where) for where in ASKED]
    for _ in damage_offset_indexes(path, random, 8):
        for where, same in zip(ASKED, expected, strict=True):
            assert answer(str(path), where).equals(same), where


def test_fields_that_got_other_names_do_not_prune(tmp_path):
    """A field of an Iceberg table may have a name that another one has in older files."""
    made = iceberg_tables.make(
        str(tmp_path), pa.schema([("k", pa.int64()), ("s", pa.struct([("a", pa.int64())]))]),
        **{"write.parquet.page-row-limit": "100", "write.parquet.page-size-bytes": "100"},
    )  # fmt: skip
    rows = [{"k": k, "s": {"a": k}} for k in range(3000)]
    made.append(pa.Table.from_pylist(rows, made.schema().as_arrow()))
    table = ss.scan_iceberg(made.metadata_location)
    (ranges,) = table.plan("s.a = 150").pages.values()
    ((first, stop),) = ranges[0]
    assert stop - first < 3000
    with made.update_schema() as update:
        update.rename_column("s.a", "b")
    with made.update_schema() as update:
        update.add_column(("s", "a"), LongType())
    table = ss.scan_iceberg(made.refresh().metadata_location)
    for where, count in (("s.b = 150", 1), ("s.a IS NULL AND k < 700", 700), ("s.a = 150", 0)):
        assert table.plan(where, columns=["k"]).to_arrow().num_rows == count, where


def test_delta_tables_with_column_mapping(tmp_path):
    """The names of fields in the files are those of the table only without column mapping."""
    rows = pa.Table.from_pylist(
        [{"k": k, "s": {"a": k, "b": -k}} for k in range(1000)],
        pa.schema([("k", pa.int64()), ("s", pa.struct([("a", pa.int64()), ("b", pa.int64())]))]),
    )
    options = deltalake.WriterProperties(data_page_row_count_limit=100, write_batch_size=50)
    deltalake.write_deltalake(tmp_path, rows, writer_properties=options)
    (ranges,) = ss.scan_delta(tmp_path).plan("s.a = 150").pages.values()
    assert ranges == {0: [(100, 200)]}
    (log,) = (tmp_path / "_delta_log").glob("*.json")
    log.write_text(swapped(log.read_text()))
    table = ss.scan_delta(tmp_path)
    for where, expected in (("s.a = -150", 150), ("s.b = 150", 150)):
        assert table.plan(where, columns=["k"]).to_arrow()["k"].to_pylist() == [expected], where


def swapped(log):
    """Return a log in which the fields of a struct have each other's name in the files."""
    out = []
    for line in map(json.loads, log.splitlines()):
        if "protocol" in line:
            line["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
        if "metaData" in line:
            schema = json.loads(line["metaData"]["schemaString"])
            at = 1
            for field in schema["fields"]:
                at = named(field, field["name"], at)
            a, b = schema["fields"][1]["type"]["fields"]
            named(a, "b", 8)
            named(b, "a", 9)
            line["metaData"]["schemaString"] = json.dumps(schema)
            line["metaData"]["configuration"] = {
                "delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "9",
            }  # fmt: skip
        if "add" in line:
            line["add"].pop("stats", None)
        out.append(json.dumps(line))
    return "\n".join(out)


def named(field, name, number):
    """Give a field its name in the files, and a number; return the next number."""
    field["metadata"] = {
        "delta.columnMapping.id": number, "delta.columnMapping.physicalName": name
    }  # fmt: skip
    return number + 1


def test_a_column_whose_name_looks_like_the_key_of_a_field(tmp_path):
    """With column mapping, any name is allowed; `\\1` is between the names of a key."""
    struct = pa.struct([("a", pa.int64()), ("b", pa.int64())])
    kind = pa.schema([("k", pa.int64()), ("s", struct), ("f", pa.int64())])
    rows = [{"k": k, "s": {"a": k, "b": -k}, "f": 1000 - k} for k in range(1000)]
    options = deltalake.WriterProperties(data_page_row_count_limit=100, write_batch_size=50)
    deltalake.write_deltalake(tmp_path, pa.Table.from_pylist(rows, kind), writer_properties=options)
    (log,) = (tmp_path / "_delta_log").glob("*.json")
    log.write_text(swapped(log.read_text()).replace(r"\"name\": \"f\"", r"\"name\": \"s\\u0001b\""))
    table = ss.scan_delta(tmp_path)
    for where in ("`s\1b` = 850", "s.b = 150 AND `s\1b` = 850", "k = 150"):
        plan = table.plan(where, columns=["k", "s\1b"])
        assert len(plan.pages) == 1, where
        assert plan.to_arrow().to_pylist() == [{"k": 150, "s\1b": 850}], where
