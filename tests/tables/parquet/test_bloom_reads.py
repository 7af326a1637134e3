"""Bloom filters of files: only some blocks are read, and those of Delta and Iceberg files, too."""

import os
import random
import threading

import deltalake
import fsspec
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import LongType

import skipstone as ss
from skipstone.bindings.tables.delta import read_files
from skipstone.bindings.tables.parquet import blooms, footer
from skipstone.bindings.tables.parquet.pages import group_blooms, ranges
from skipstone.ir.types import INT64
from tests.support.effort import LONG
from tests.support.rows.alike import alike
from tests.support.tables.pages import compile_loops

REMOTE = pafs.PyFileSystem(pafs.FSSpecHandler(fsspec.filesystem("file")))
FILES, ROWS = 4, 2000
NUMBERS = {"ndv": ROWS, "fpp": 0.001}


def columns(seed):
    """Return rows in no order, without the multiples of 7 in `k`."""
    r = random.Random(seed)
    k = [v + (v % 7 == 0) for v in (r.randrange(1 << 40) for _ in range(FILES * ROWS))]
    return pa.table(
        {
            "k": pa.array(k, pa.int64()),
            "s": [f"id {v}" if v % 5 else None for v in k],
            "n": pa.array([v % 1000 if v % 3 else None for v in k], pa.int32()),
            "f": [float(v % 100) if v % 11 else float("nan") for v in k],
        }
    )


def write(folder, data, filters=NUMBERS):
    os.makedirs(folder, exist_ok=True)
    paths = [os.path.join(folder, f"{i}.parquet") for i in range(FILES)]
    for i, path in enumerate(paths):
        pq.write_table(
            data.slice(i * ROWS, ROWS),
            path,
            row_group_size=ROWS // 2,
            use_dictionary=False,
            bloom_filter_options=dict.fromkeys(data.column_names, filters),
        )
    return paths


def delta_table(folder, data):
    write(folder, data)
    deltalake.convert_to_deltalake(folder)
    return ss.scan_delta(folder)


def iceberg_table(folder, data):
    os.makedirs(folder)
    catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/ice")
    catalog.create_namespace("n")
    made = catalog.create_table("n.t", data.schema)
    made.add_files(write(f"{folder}/files", data))
    with made.update_schema() as update:
        update.rename_column("s", "renamed")
        update.update_column("n", LongType())
    return ss.scan_iceberg(made)


KINDS = {"delta": delta_table, "remote delta": delta_table, "iceberg": iceberg_table}


def conditions(data, seed):
    """Return conditions on values that occur, and on some that do not."""
    r, values = random.Random(seed), data["k"].to_pylist()
    present, absent = r.choice(values), 7 * r.randrange(1 << 30)
    text, number = data["s"].drop_null()[r.randrange(1000)].as_py(), r.randrange(1200)
    listed = ", ".join(str(r.choice(values)) for _ in range(3))
    many = ", ".join(str(7 * r.randrange(1 << 30)) for _ in range(300))
    return [
        f"k = {present}", f"k = {absent}", f"k IN ({listed})", f"k IN ({absent}, {present})",
        f"s = '{text}'", f"s = '{text} '", f"k = {absent} OR s = '{text}'", "f = 5",
        f"NOT (k <> {present})", f"k = {absent} OR n = {number}", f"n = {number}", "n = 1001",
        f"k = {absent} AND n IS NULL", f"n IS NULL OR k = {absent}", "f = 200", f"n <=> {number}",
        f"k IN ({many})", f"k IN ({many}, {present})", f"s IN ('{text}', 'id 7')",
        f"CASE WHEN k = {absent} THEN TRUE ELSE s = '{text}' END", f"k <> {absent} AND f = 7",
        f"coalesce(k = {absent}, TRUE)", f"k + 1 = {present + 1}", "s LIKE 'id 12345%'",
    ]  # fmt: skip


@pytest.fixture(params=[False, True], ids=["in Python", "by loops"])
def _loops(request, monkeypatch):
    if request.param:
        compile_loops()
    else:
        monkeypatch.setattr(footer, "is_compiled", lambda: False)


@pytest.mark.usefixtures("_loops")
@pytest.mark.parametrize("seed", range(30 if LONG else 2))
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_tables_whose_files_have_filters(kind, seed, tmp_path, monkeypatch):
    monkeypatch.setattr(ss.config, "keep_matches", False)
    if "remote" in kind:
        monkeypatch.setattr(read_files, "is_local", lambda filesystem: False)
        monkeypatch.setattr(group_blooms, "REMOTE_GAP", 0)  # the chunks of these files are short
    data = columns(seed)
    table = KINDS[kind](str(tmp_path / "t"), data)
    plain = ss.scan_parquet(_without_filters(str(tmp_path / "p"), data))
    skipped = 0
    for where in conditions(data, seed):
        plan = table.plan(where.replace("s ", "renamed ") if kind == "iceberg" else where)
        got, expected = plan.to_arrow().sort_by("k"), plain.plan(where).to_arrow().sort_by("k")
        assert alike(got, expected.rename_columns(got.column_names).cast(got.schema)), where
        skipped += sum(not ranges for groups in plan.pages.values() for ranges in groups.values())
    assert skipped > 5 * 8


def test_damaged_filters_of_a_table_rule_nothing_out(tmp_path, monkeypatch):
    monkeypatch.setattr(ss.config, "keep_matches", False)
    data, r = columns(1), random.Random(1)
    table, folder = delta_table(str(tmp_path / "t"), data), tmp_path / "t"
    whole = {path: path.read_bytes() for path in folder.glob("*.parquet")}
    offsets = {
        path: [pq.read_metadata(path).row_group(g).column(0).bloom_filter_offset for g in range(2)]
        for path in whole
    }
    for _ in range(100 if LONG else 10):
        for path, content in whole.items():
            damaged = bytearray(content)
            for at in offsets[path]:
                damaged[at + r.randrange(12)] = r.randrange(256)
            path.write_bytes(damaged)
        k = r.choice(data["k"]).as_py()
        assert table.plan(f"k = {k}").to_arrow()["k"].to_pylist() == [k]


#   local   values  filters  bytes that are read, at most
PROBES = [
    (True,  1,      "small", FILES * 2 * (blooms.SMALL + blooms.MAX_HEADER)),
    (True,  1,      "large", FILES * 2 * (blooms.BLOCK + blooms.MAX_HEADER)),
    (True,  30,     "large", FILES * 2 * (30 * blooms.BLOCK + blooms.MAX_HEADER)),
    (True,  1000,   "large", None),
    (False, 1,      "small", None),
    (False, 30,     "large", None),
]  # fmt: skip


@pytest.mark.parametrize("local, count, size, most", PROBES)
def test_only_the_blocks_of_values_are_read(local, count, size, most, tmp_path, monkeypatch):
    if size == "large":
        monkeypatch.setattr(blooms, "SMALL", 0)
        monkeypatch.setattr(blooms, "REMOTE_GAP", 0)
    data, r = columns(1), random.Random(count)
    paths = write(str(tmp_path), data)
    table = ss.scan_parquet(paths, filesystem=None if local else REMOTE)
    plain = ss.scan_parquet(_without_filters(str(tmp_path / "p"), data))
    before = table.work
    absent = [7 * r.randrange(1 << 35) for _ in range(count)]
    assert count > 100 or len(table.plan(ss.col("k").isin(absent)).kept) < FILES * 2
    read = table.work - before
    assert count > 100 or read["bloom filters"] == FILES * 2
    assert most is None or read.bytes <= most
    for _ in range(20):
        condition = ss.col("k").isin(
            [7 * r.randrange(1 << 35) for _ in range(count)] + [r.choice(data["k"]).as_py()]
        )
        got, expected = table.plan(condition).to_arrow(), plain.plan(condition).to_arrow()
        assert alike(got, expected)


def test_threads_hash_all_values(monkeypatch):
    """Two threads that compute a step at once must not skip the next one."""
    values, together = tuple(range(1000)), threading.Barrier(2)

    def hashes_of(some, *stored):
        together.wait(10)
        return list(some)

    monkeypatch.setattr(blooms, "hashes_of", hashes_of)
    hashed, seen = blooms.HashedValues(values, (INT64, "INT64", 0)), [[], []]

    def hash_all(out):
        for some in hashed.steps():
            out += some

    threads = [threading.Thread(target=hash_all, args=(out,)) for out in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [list(values)] * 2


def test_remote_filters_take_one_request_for_each_file(tmp_path, monkeypatch):
    paths, requests = write(str(tmp_path), columns(1)), []
    table = ss.scan_parquet(paths, filesystem=REMOTE)
    read = ranges.Ranges._read
    monkeypatch.setattr(
        ranges.Ranges, "_read", lambda self, span: requests.append(span) or read(self, span)
    )
    for _ in range(2):
        assert not table.plan(f"k = {7 << 36}").files
        assert not table.plan(f"k = {7 << 35}").files
    assert len(requests) == FILES


def _without_filters(folder, data):
    os.makedirs(folder)
    pq.write_table(data, f"{folder}/t.parquet")
    return folder
