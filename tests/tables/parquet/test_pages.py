"""Reading by pages gives the rows that reading row groups gives, and reads less."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.tables.parquet import group_tasks, thrift
from skipstone.bindings.tables.parquet.footer import ParsedFooter
from skipstone.bindings.tables.parquet.heads import common_head
from skipstone.bindings.tables.parquet.page_locations import (
    CHUNK_FIELDS,
    METADATA_FIELDS,
    page_locations_in_python,
)  # fmt: skip
from skipstone.bindings.tables.parquet.pages import page_file, wanted_pages
from skipstone.bindings.tables.parquet.pages.page_history import FIRST_ROWS, TRY_EVERY, PageHistory
from skipstone.bindings.tables.parquet.pages.ranges import Ranges
from skipstone.bindings.tables.parquet.pages.row_groups import PagedRowGroups
from skipstone.bindings.tables.parquet.thrift import ThriftError, read_struct
from skipstone.kernels.decode import footer_layout, footer_loops, page_layout
from tests.support.effort import LONG
from tests.support.rows.alike import alike
from tests.support.tables.page_indexes import (
    CONDITIONS_OF_INDEXES,
    WRONG_FLOATS,
    WRONG_INDEXES,
    WRONG_ROWS,
    change_column_index,
    change_offset_index,
    damage_offset_indexes,
    index_file,
)
from tests.support.tables.pages import (
    CONDITIONS,
    Pages,
    compile_loops,
    table,
    without_loops,
    without_pages,
    write,
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _loops():
    compile_loops()


def rows(files, where, columns, reader="auto"):
    return ss.scan_parquet(files).plan(where, columns=columns).to_arrow(reader=reader)


@pytest.mark.parametrize("seed", range(300 if LONG else 2))
def test_pages_have_the_rows_of_row_groups(seed, tmp_path, monkeypatch):
    data = table(seed)
    files = [str(tmp_path / f"{i}.parquet") for i in range(3)]
    options = [write(f, data.slice(i * 1000, 1000), seed) for i, f in enumerate(files)]
    for where in CONDITIONS:
        with monkeypatch.context() as patch:
            without_pages(patch)
            expected = rows(files, where, None)
        with monkeypatch.context() as patch:
            seen = Pages(patch)
            patch.setattr(group_tasks, "MANY_GROUPS", 1 << 30)
            for reader, columns in (
                ("arrow", None), ("polars", None), ("auto", None), ("auto", ["k"]),
                ("auto", ["u", "q"]),
            ):  # fmt: skip
                wanted = expected if columns is None else expected.select(columns)
                got = rows(files, where, columns, reader)
                assert alike(got, wanted), (where, reader, columns, options)
            assert seen.by_row_groups == 0, (where, options)


@pytest.mark.parametrize("seed", range(200 if LONG else 5))
def test_damaged_offset_indexes_lose_no_row(seed, tmp_path):
    random = np.random.default_rng(seed)
    path = tmp_path / "t.parquet"
    file = index_file(path, seed, use_dictionary=bool(seed % 2))
    expected = [rows([file], where, ["k", "u"]) for where in CONDITIONS_OF_INDEXES]
    for _ in damage_offset_indexes(path, random, 20):
        for where, same in zip(CONDITIONS_OF_INDEXES, expected, strict=True):
            assert rows([file], where, ["k", "u"]).equals(same), where


@pytest.mark.parametrize("wrong", WRONG_INDEXES)
def test_column_indexes_that_contradict_are_not_believed(wrong, tmp_path):
    path = tmp_path / "t.parquet"
    file = index_file(path, 5)
    conditions = ("k = 250", "k < 5", "k > 495", "k IS NULL", "k IS NOT NULL", "k >= 0")
    expected = [rows([file], where, ["k", "u"]) for where in conditions]
    assert len(expected[0]) and len(expected[1])
    change_column_index(path, WRONG_INDEXES[wrong])
    for where, same in zip(conditions, expected, strict=True):
        assert rows([file], where, ["k", "u"]).equals(same), where


@pytest.mark.parametrize("compiled", [True, False], ids=["loops", "python"])
@pytest.mark.parametrize("wrong", WRONG_FLOATS)
def test_floats_that_contradict_are_not_believed(wrong, compiled, tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    file = index_file(path, 5)
    column = pq.read_schema(path).names.index("d")
    conditions = ("d > 10", "d = CAST('NaN' AS DOUBLE)", "NOT (d < 12)", "d IS NULL", "d < -12")
    expected = [rows([file], where, ["k", "u"]) for where in conditions]
    assert all(map(len, expected[:3]))
    change_column_index(path, WRONG_FLOATS[wrong], column)
    if not compiled:
        without_loops(monkeypatch)
    for where, same in zip(conditions, expected, strict=True):
        assert rows([file], where, ["k", "u"]).equals(same), where


@pytest.mark.parametrize("indexed", [True, False], ids=["indexed", "headers"])
def test_only_pages_with_matching_rows_are_read(indexed, tmp_path, monkeypatch):
    path = str(tmp_path / "t.parquet")
    data = table(3, 20_000)
    pq.write_table(data, path, max_rows_per_page=500, write_page_index=indexed)
    read = []
    inner = page_file.read_pages

    def counted(columns, groups, keep=None):
        read.extend(part.values for g in groups for part in g.parts)
        return inner(columns, groups, keep)

    monkeypatch.setattr(wanted_pages, "read_pages", counted)
    found = rows([path], "k BETWEEN 250 AND 252", ["k", "u", "q"])
    assert 50 < len(found) < 250
    # The pages of k, and of the two other columns.
    assert len(read) <= 3 and max(read) <= 1000


@pytest.mark.parametrize("reader", ["arrow", "polars"])
@pytest.mark.parametrize("where", [None, "k % 3 = 0", "k % 300 = 0"])
def test_rows_outlive_the_memory_that_they_were_read_from(reader, where, tmp_path):
    """Buffers are reused, and uncompressed values might be returned as views of them."""
    n = 200_000
    files = [str(tmp_path / f"{i}.parquet") for i in range(2)]
    for i, file in enumerate(files):
        k = np.arange(n) + i
        data = pa.table({"k": k, "s": [f"{v:020}" for v in k]})
        pq.write_table(data, file, compression="none", use_dictionary=False)
    first = rows(files[:1], where, None, reader)
    copy = pa.Table.from_pylist(first.to_pylist(), first.schema)
    assert len(first) and rows(files[1:], where, None, reader).num_rows
    assert first.equals(copy)


def test_page_statistics_that_rule_out_nothing_are_left_alone():
    history = PageHistory()
    history.add(FIRST_ROWS, FIRST_ROWS - 1)
    looks = [history.is_worth_a_look() for _ in range(2 * TRY_EVERY + 2)]
    assert [i for i, look in enumerate(looks) if look] == [TRY_EVERY, 2 * TRY_EVERY + 1]
    history.add(FIRST_ROWS, 0)  # another part of the table is sorted
    assert history.is_worth_a_look() and history.is_worth_a_look()


@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize("wrong", WRONG_ROWS)
def test_offset_indexes_that_list_other_rows_change_no_answer(wrong, column, tmp_path):
    path = tmp_path / "t.parquet"
    file = index_file(path, 5)
    asked = [*(f"k = {k}" for k in range(0, 500, 40)), "k > 70 AND k < 130 AND i > 0"]
    expected = [rows([file], where, ["k", "i", "u"]) for where in asked]
    change_offset_index(path, WRONG_ROWS[wrong], column)
    for where, same in zip(asked, expected, strict=True):
        assert rows([file], where, ["k", "i", "u"]).equals(same), where


@pytest.mark.parametrize("seed", range(100 if LONG else 2))
def test_pages_are_found_before_loops_are_compiled(seed, tmp_path, monkeypatch):
    data, file = table(seed), str(tmp_path / "t.parquet")
    write(file, data, seed)
    for where in CONDITIONS:
        expected = rows([file], where, None)
        with monkeypatch.context() as patch:
            without_loops(patch)
            seen = Pages(patch)
            got = rows([file], where, None)
        assert alike(got, expected), where
        assert seen.by_row_groups == 0


@pytest.mark.parametrize("wrong", WRONG_INDEXES)
def test_wrong_column_indexes_before_loops_are_compiled(wrong, tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    file = index_file(path, 5)
    expected = [rows([file], where, ["k", "u"]) for where in CONDITIONS_OF_INDEXES]
    change_column_index(path, WRONG_INDEXES[wrong])
    without_loops(monkeypatch)
    for where, same in zip(CONDITIONS_OF_INDEXES, expected, strict=True):
        assert rows([file], where, ["k", "u"]).equals(same), where


@pytest.mark.parametrize("seed", range(100 if LONG else 4))
def test_python_finds_pages_where_the_loop_does(seed, tmp_path):
    """Damaged footers are refused by both, or one of them; where both read them, they agree."""
    random, file = np.random.default_rng(seed), tmp_path / "t.parquet"
    write(file, table(seed), seed)
    whole = file.read_bytes()
    footer = whole[-8 - int.from_bytes(whole[-8:-4], "little") : -8]
    places, counts = page_layout.page_slots_of(np.frombuffer(footer, np.uint8))
    assert (counts == footer_layout.layout_of(np.frombuffer(footer, np.uint8)).rows).all()
    whole = page_locations_in_python(read_struct(footer))
    assert (_set_slots(whole.slots) == _set_slots(places)).all()
    assert whole.orders == places.shape[1]  # pyarrow says it of every column
    damaged = []
    for _ in range(100):
        data = bytearray(footer)
        for i in random.integers(len(data), size=random.integers(1, 5)):
            data[i] = random.integers(256)
        by_loop = page_layout.page_slots_of(np.frombuffer(data, np.uint8))
        damaged.append((np.frombuffer(data, np.uint8), by_loop))
        try:
            by_python = page_locations_in_python(read_struct(bytes(data)))
        except ThriftError:
            by_python = None
        if by_loop is not None and by_python is not None:
            assert (_set_slots(by_python.slots) == _set_slots(by_loop.slots)).all()
        laid_out = footer_layout.layout_of(np.frombuffer(data, np.uint8))
        if laid_out is not None and by_python is not None:
            assert by_python.orders == laid_out.orders
    together = page_layout.all_page_slots([data for data, _ in damaged])
    for found, (_, alone) in zip(together, damaged, strict=True):
        assert (found is None) == (alone is None)
        if alone is not None:
            assert (found.rows == alone.rows).all()
            assert (_set_slots(found.slots) == _set_slots(alone.slots)).all()


def test_python_parses_a_footer_once(tmp_path, monkeypatch):
    write(tmp_path / "t.parquet", table(1), 1)
    whole = (tmp_path / "t.parquet").read_bytes()
    data = whole[-8 - int.from_bytes(whole[-8:-4], "little") : -8]
    without_loops(monkeypatch)
    places = ParsedFooter(data).page_locations
    parsed = []
    read = thrift.read_struct
    monkeypatch.setattr(thrift, "read_struct", lambda data: parsed.append(data) or read(data))
    footer = ParsedFooter(data)
    assert len(footer.chunks) == len(places)
    assert (_set_slots(footer.page_locations) == _set_slots(places)).all()
    assert len(parsed) == 1


def _set_slots(places):
    """Return the slots that are set, and -1 for the others."""
    bits = places[..., footer_loops.FLAGS]
    slots = (*CHUNK_FIELDS, *METADATA_FIELDS)
    return np.stack([np.where(bits >> slot & 1, places[..., slot], -1) for slot in slots])


def test_orders_of_columns_count_only_if_all_files_say_them(tmp_path):
    write(tmp_path / "t.parquet", table(1), 1)
    footer = ss.scan_parquet(tmp_path).footers[str(tmp_path / "t.parquet")]
    footer.locate_pages()
    ordered = footer.head
    assert ordered.trusted and common_head([ordered, ordered]) is ordered
    unordered = ordered.with_orders(0)
    assert not unordered.trusted
    for heads in ([ordered, unordered], [unordered, ordered]):
        assert not common_head(heads).trusted


def test_small_files_are_pruned_by_pages_before_loops_are_compiled(tmp_path):
    """The first question of a process reads only the pages that may match, too."""
    path = tmp_path / "t.parquet"
    data = pa.table({"x": range(5000), "y": range(5000)})
    pq.write_table(data, path, max_rows_per_page=100, write_batch_size=100)
    code = (
        "import skipstone as ss\n"
        "from skipstone.bindings.tables.parquet.pages import row_groups\n"
        "inner = row_groups.PagedRowGroups.prune\n"
        "def prune(self, *args):\n"
        "    inner(self, *args)\n"
        "    print([(w.first, w.stop) for w in self.windows])\n"
        "row_groups.PagedRowGroups.prune = prune\n"
        f"rows = ss.scan_parquet({str(path)!r}).plan('x = 1234').to_arrow()\n"
        "print(rows.to_pylist())\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout == "[(1200, 1300)]\n[{'x': 1234, 'y': 1234}]\n"


def test_dictionaries_that_no_page_uses_are_not_read(tmp_path, monkeypatch):
    """Writers stop using a dictionary that has grown too large; an offset index does not say so."""
    path, n = str(tmp_path / "t.parquet"), 20_000
    data = pa.table({"k": range(n), "s": [f"{i:032}" for i in range(n)]})
    how = {"write_page_index": True, "max_rows_per_page": 500, "compression": "none"}
    pq.write_table(data, path, dictionary_pagesize_limit=1 << 17, **how)
    used, inner = [], wanted_pages.read_pages

    def counted(columns, groups, keep=None):
        used.extend(part.dictionary for group in groups for part in group.parts)
        return inner(columns, groups, keep)

    monkeypatch.setattr(wanted_pages, "read_pages", counted)
    for reader in ("arrow", "polars"):
        for keys, expected in (((5,), True), ((n - 1,), False), ((5, n - 1), True)):
            found = rows([path], f"k IN ({', '.join(map(str, keys))})", ["s"], reader)
            assert found.column("s").to_pylist() == [f"{k:032}" for k in keys]
            assert used[-1] is expected, keys


@pytest.mark.parametrize("reader", ["arrow", "polars", "auto"])
@pytest.mark.parametrize("where", [None, "k > 0", "k % 3 = 0", "k % 300 = 0", "s = 'text 3'"])
def test_columns_of_many_bytes_are_read_in_rounds(reader, where, tmp_path, monkeypatch):
    paths = [str(tmp_path / f"{i}.parquet") for i in range(3)]
    for i, path in enumerate(paths):
        pq.write_table(table(i), path, row_group_size=1000, write_page_index=True)
    columns = [name for name in table(0, 1).column_names if name not in ("d", "edge", "f")]
    expected = rows(paths, where, columns, reader)  # NaN is not equal to itself
    counts, inner = [], PagedRowGroups._decode_round

    def counted(self, wanted, reader):
        counts.append(sum(map(len, wanted)))
        inner(self, wanted, reader)

    monkeypatch.setattr(PagedRowGroups, "_decode_round", counted)
    for limit in (1, 3000, 20_000):
        monkeypatch.setattr(wanted_pages, "ROUND_BYTES", limit)
        counts.clear()
        assert rows(paths, where, columns, reader).equals(expected)
        if limit == 1:
            assert counts == [1] * len(counts)
            assert len(counts) > 10


def test_threads_share_an_open_file(tmp_path):
    """Columns of one file are read in several threads; the file has one position."""
    path = str(tmp_path / "bytes")
    data = np.random.default_rng(1).bytes(1 << 22)
    Path(path).write_bytes(data)
    with pa.OSFile(path) as source:
        shared = Ranges(source, local=True)

        def differ(first, last):
            for start in range(first * 1000, last * 1000, 1000):
                into = bytearray(1000)
                shared.read_start(start, memoryview(into))
                if into != data[start : start + 1000]:
                    wrong.append(start)

        wrong = []
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(differ, range(0, 4000, 1000), range(1000, 5000, 1000)))
    assert not wrong


@pytest.mark.parametrize("reader", ["arrow", "polars"])
@pytest.mark.parametrize("values", [[1.5, 7.0], [[1], [7]], [{"a": 1}, {"a": 7}]])
def test_a_column_without_a_name_is_no_other_column(values, reader, tmp_path):
    """Columns that files lack are NULL, and partition values are those of folders."""
    unnamed = pa.table({"": values})
    has_y = unnamed.append_column("y", unnamed.column(0))
    for i, part in enumerate((has_y, unnamed)):
        (tmp_path / f"k={i}").mkdir()
        pq.write_table(part, tmp_path / f"k={i}" / "t.parquet", write_page_index=True)
    table = ss.scan(tmp_path)
    rows = table.plan().to_arrow(reader=reader)
    assert rows.column(0).to_pylist() == values * 2
    assert rows.column("y").to_pylist() == [*values, None, None]
    assert rows.column("k").to_pylist() == [0, 0, 1, 1]
    found = table.plan("y IS NULL", columns=["k"])
    assert found.to_arrow(reader=reader)["k"].to_pylist() == [1, 1]
    assert found.pages[str(tmp_path / "k=1" / "t.parquet")] == {0: [(0, 2)]}
    assert table.plan("k = 1", columns=["y"]).to_arrow(reader=reader)["y"].null_count == 2
