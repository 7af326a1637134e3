"""`plan.pages` loses no row that matches, leaves less where data is sorted, and reads little."""

import os
import pathlib
import tempfile
from functools import cache

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings import hooks
from skipstone.bindings.tables.parquet.pages import page_choice
from skipstone.bindings.tables.parquet.pages import ranges as byte_ranges
from skipstone.ir.errors import SourceError, StaleFile
from tests.support.effort import LONG
from tests.support.tables.page_indexes import (
    COLUMN_INDEX,
    CONDITIONS_OF_INDEXES,
    OFFSET_INDEX,
    WRONG_FLOATS,
    WRONG_INDEXES,
    WRONG_ROWS,
    change_column_index,
    change_offset_index,
    index_file,
    index_span,
)
from tests.support.tables.pages import CONDITIONS, compile_loops, table, without_pages, write


@pytest.fixture(scope="module", autouse=True)
def _loops():
    compile_loops()


def sorted_file(folder, name="t.parquet", rows=200, **options):
    """Write two row groups; the pages of x have 50 rows, those of s have 10."""
    data = pa.table(
        {
            "x": pa.array(range(rows), pa.int64()),
            "s": [f"{i:0100}" for i in range(rows)],
            "n": pa.array([None if i < 50 else i for i in range(rows)], pa.int64()),
            "list": [[i] for i in range(rows)],
        }
    )
    options = {
        "row_group_size": 100, "data_page_size": 400, "max_rows_per_page": 50,
        "write_batch_size": 10,
        "use_dictionary": False, "compression": "none", "write_page_index": True, **options,
    }  # fmt: skip
    path = os.path.join(str(folder), name)
    pq.write_table(data, path, **options)
    return path


def s(n):
    return f"'{n:0100}'"


WHOLE = [(0, 100)]
#    where                                    row group -> ranges
CASES = [
    (None, {0: WHOLE, 1: WHOLE}),
    ("true", {0: WHOLE, 1: WHOLE}),
    ("x >= 0", {0: WHOLE, 1: WHOLE}),  # every row matches
    ("x < 0", {}),  # no row group is kept
    ("x < 20", {0: [(0, 50)]}),
    ("x IN (0, 99)", {0: WHOLE}),  # pages that touch are one range
    (f"s = {s(77)}", {0: [(70, 80)]}),
    (f"s IN ({s(7)}, {s(55)}, {s(130)})", {0: [(0, 10), (50, 60)], 1: [(30, 40)]}),
    (f"x < 50 AND s >= {s(35)}", {0: [(30, 50)]}),  # the pages end in different rows
    (f"x >= 50 AND x < 100 AND s < {s(3)}", {0: []}),  # no page of both is left
    (f"x < 10 OR s = {s(77)}", {0: [(0, 50), (70, 80)]}),
    ("n IS NULL", {0: [(0, 50)]}),
    ("n IS NOT NULL", {0: [(50, 100)], 1: WHOLE}),
    ("x < 20 AND size(list) = 1", {0: [(0, 50)]}),  # other columns than flat ones do not prune
    ("size(list) = 2", {0: WHOLE, 1: WHOLE}),
    ("soundex(x) = 3 AND x < 20", {0: [(0, 50)]}),
    ("missing IS NULL AND x < 20", None),
]


@pytest.mark.parametrize("indexed", [True, False], ids=["indexed", "headers"])
@pytest.mark.parametrize("where, expected", CASES)
def test_pages_leave_ranges_of_rows(where, expected, indexed, tmp_path):
    path = sorted_file(tmp_path, write_page_index=indexed)
    scan = ss.scan_parquet(path)
    if expected is None:
        with pytest.raises(ss.UnknownColumn):
            scan.plan(where)
        return
    plan = scan.plan(where)
    assert plan.pages == ({path: expected} if expected else {})
    assert plan.pages is plan.pages
    assert {file: list(groups) for file, groups in plan.pages.items()} == plan.row_groups


def ranges_hold(plan, numbers):
    """Say whether the ranges of a plan hold rows, which are numbered through all files."""
    covered, first = [], 0
    for path in plan.table.all_files:
        file = pq.ParquetFile(path)
        for g in range(file.num_row_groups):
            rows = file.metadata.row_group(g).num_rows
            ranges = plan.pages.get(path, {}).get(g, [])
            stops = [0, *(stop for _, stop in ranges)]
            assert all(
                before <= a < b <= rows for before, (a, b) in zip(stops, ranges, strict=False)
            )
            covered += [np.arange(first + a, first + b) for a, b in ranges]
            first += rows
    held = np.concatenate([*covered, np.zeros(0, np.int64)])
    return np.isin(numbers, held).all(), len(held)


def numbered(rows):
    return rows.append_column("row", pa.array(range(len(rows)), pa.int64()))


@pytest.mark.parametrize("seed", range(300 if LONG else 6))
def test_every_matching_row_lies_in_a_range(seed, tmp_path, monkeypatch):
    data = numbered(table(seed))
    files = [str(tmp_path / f"{i}.parquet") for i in range(3)]
    options = [write(f, data.slice(i * 1000, 1000), seed) for i, f in enumerate(files)]
    scan = ss.scan_parquet(files)
    for where in CONDITIONS:
        with monkeypatch.context() as patch:
            without_pages(patch)
            expected = scan.plan(where, columns=["row"]).unpruned().to_arrow()["row"]
        held, _ = ranges_hold(scan.plan(where), expected.to_numpy())
        assert held, (where, options)


@pytest.mark.parametrize("indexed", [True, False], ids=["indexed", "headers"])
def test_sorted_columns_leave_few_rows(indexed, tmp_path):
    path = str(tmp_path / "t.parquet")
    data = numbered(table(3, 20_000))
    pq.write_table(data, path, max_rows_per_page=500, write_page_index=indexed)
    for where in ("k BETWEEN 250 AND 252", "day = DATE '1995-03-03'", "k < 3 AND i > 0"):
        plan = ss.scan_parquet(path).plan(where)
        expected = plan.to_arrow()["row"].to_numpy()
        held, rows = ranges_hold(plan, expected)
        assert held and 0 < len(expected) <= rows <= 1500, where
        assert plan.sizes.pages.rows == rows < plan.sizes.scan.rows


@pytest.mark.parametrize("wrong", WRONG_INDEXES)
def test_column_indexes_that_contradict_rule_out_nothing(wrong, tmp_path):
    path = tmp_path / "t.parquet"
    file = index_file(path, 5)
    change_column_index(path, WRONG_INDEXES[wrong])
    for where in ("k = 250", "k < 5", "k > 495", "k IS NULL", "k IS NOT NULL", "k >= 0"):
        _all_are_held(file, where)


@pytest.mark.parametrize("wrong", WRONG_FLOATS)
def test_floats_that_contradict_rule_out_nothing(wrong, tmp_path):
    path = tmp_path / "t.parquet"
    file = index_file(path, 5)
    change_column_index(path, WRONG_FLOATS[wrong], pq.read_schema(path).names.index("d"))
    for where in ("d > 10", "d = CAST('NaN' AS DOUBLE)", "NOT (d < 12)", "d IS NULL", "d < -12"):
        _all_are_held(file, where)


@cache
def _matching(where):
    """Return the numbers of the rows of an undamaged `index_file(path, 5)` that match."""
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(numbered(table(5, 2000)), f"{folder}/rows.parquet")
        plan = ss.scan_parquet(f"{folder}/rows.parquet").plan(where, columns=["row"])
        return plan.to_arrow()["row"].to_numpy()


def _all_are_held(file, where):
    assert ranges_hold(ss.scan_parquet(file).plan(where), _matching(where))[0], where


@pytest.mark.parametrize("wrong", WRONG_ROWS)
def test_offset_indexes_that_list_other_rows_lose_none(wrong, tmp_path):
    path = tmp_path / "t.parquet"
    file = index_file(path, 5)
    change_offset_index(path, WRONG_ROWS[wrong])
    for k in range(0, 500, 25):
        _all_are_held(file, f"k = {k}")
    _all_are_held(file, "k > 70 AND k < 130 AND i > 0")


@pytest.mark.parametrize("field", [OFFSET_INDEX, COLUMN_INDEX], ids=["offset", "column"])
@pytest.mark.parametrize("seed", range(200 if LONG else 6))
def test_damaged_page_indexes_raise_no_error(seed, field, tmp_path):
    """Damage of an offset index loses no row; a column index may lie as a footer may."""
    random = np.random.default_rng(seed)
    path = tmp_path / "t.parquet"
    file = index_file(path, seed, use_dictionary=bool(seed % 2))
    good, scan = path.read_bytes(), ss.scan_parquet(file)
    first, stop = index_span(path, field)
    data = numbered(table(seed, 2000))
    pq.write_table(data, tmp_path / "rows.parquet")
    same = ss.scan_parquet(tmp_path / "rows.parquet")
    expected = [same.plan(w, columns=["row"]).to_arrow()["row"] for w in CONDITIONS_OF_INDEXES]
    for _ in range(20):
        damaged = bytearray(good)
        for at in random.integers(first, stop, random.integers(1, 30)):
            damaged[at] = random.integers(256)
        path.write_bytes(damaged)
        scan = ss.scan_parquet(file)
        for where, rows in zip(CONDITIONS_OF_INDEXES, expected, strict=True):
            held, _ = ranges_hold(scan.plan(where), rows.to_numpy())
            assert held or field == COLUMN_INDEX, where


def test_explain_and_sizes_say_what_pages_leave_once_they_are_known(tmp_path, monkeypatch):
    path = sorted_file(tmp_path)
    plan = ss.scan_parquet(path).plan(f"x < 60 AND s < {s(12)}")
    with monkeypatch.context() as patch:
        patch.delitem(hooks.HOOKS, "pages of plan")
        assert plan.sizes.pages is plan.sizes.scan.pages is None
        assert "─ pages " not in plan.explain()
    line = "─ pages 1 → 1 1 unknown 20 3 of 12 judged pages"
    for text in (plan.explain(pages=True), plan.explain()):
        assert line in " ".join(text.split())
    sizes = plan.sizes
    assert (sizes.scan.rows, sizes.scan.pages) == (100, 12)
    assert sizes.pages == ss.DataSize(1, None, 20, 20, 3)


def test_row_groups_that_pages_rule_out_count_for_nothing(tmp_path):
    plan = ss.scan_parquet(sorted_file(tmp_path)).plan(f"x >= 50 AND x < 100 AND s < {s(3)}")
    line = "─ pages 1 → 0 0 unknown 0 0 of 12 judged pages"
    assert line in " ".join(plan.explain(pages=True).split())
    assert plan.count() == 0


@pytest.mark.parametrize("use_metadata", [True, False])
def test_footers_that_were_not_read_are_read_for_pages(use_metadata, tmp_path):
    path = sorted_file(tmp_path)
    os.utime(path, (1, 1))
    if use_metadata:
        footer = pq.read_metadata(path)
        footer.set_file_path("t.parquet")
        footer.write_metadata_file(tmp_path / "_metadata")
    else:
        ss.scan_parquet(tmp_path).save_stats()
    scan = ss.scan_parquet(tmp_path)
    assert not scan.footers
    assert scan.plan(f"s = {s(77)}").pages == {path: {0: [(70, 80)]}}
    assert scan.plan("x >= 0").pages == {path: {0: WHOLE, 1: WHOLE}}


def test_settings_that_keep_more(tmp_path):
    path = sorted_file(tmp_path)
    scan = ss.scan_parquet(path)
    assert scan.plan("x < 20", stats_skipping=False).pages == {path: {0: WHOLE, 1: WHOLE}}
    assert scan.plan("x < 20").unpruned().pages == {path: {0: [(0, 50)], 1: []}}
    limited = scan.plan("x < 120", limit=3)
    assert limited.pages == {path: {0: WHOLE}}
    best = scan.plan("x < 120 AND x > 20", limit=3, order_by="x DESC")
    assert best.pages[path][1] == [(0, 50)]


def test_pages_of_files_that_changed(tmp_path):
    path = sorted_file(tmp_path)
    plan = ss.scan_parquet(path).plan("x < 20")
    sorted_file(tmp_path, rows=150)
    with pytest.raises(StaleFile, match="scan the table again"):
        _ = plan.pages


def test_files_that_cannot_be_read_are_kept_whole(tmp_path):
    path = sorted_file(tmp_path)
    (tmp_path / "u.parquet").write_bytes(b"no Parquet file")
    scan = ss.scan_parquet(tmp_path, on_error="keep")
    plan = scan.plan("x < 20")
    assert plan.pages == {path: {0: [(0, 50)]}, str(tmp_path / "u.parquet"): {}}
    assert plan.sizes.pages.files == 2 and plan.sizes.pages.rows is None


@pytest.mark.parametrize("small, requests", [(True, 1), (False, 3)])
def test_page_indexes_are_read_together(tmp_path, monkeypatch, small, requests):
    """One request for the indexes of a file, one for last pages, one for the ends of ranges.

    A small file is read whole.
    """
    if not small:
        for module in (byte_ranges, page_choice):
            monkeypatch.setattr(module, "MIN_READ", 0)
        monkeypatch.setattr(byte_ranges.Ranges, "_widened", lambda self, span: span)
    path, reads = sorted_file(tmp_path), []
    plain = sorted_file(tmp_path, "plain.parquet", write_page_index=False)
    inner = byte_ranges.Ranges._read
    monkeypatch.setattr(
        byte_ranges.Ranges, "_read", lambda self, span: reads.append(span) or inner(self, span)
    )
    memory = fsspec.filesystem("memory")
    for file in (path, plain):
        memory.pipe(os.path.basename(file), pathlib.Path(file).read_bytes())
    where = f"x < 110 AND s >= {s(35)}"
    plan = ss.scan_parquet(["/t.parquet"], filesystem=memory).plan(where)
    reads.clear()  # the footer
    assert list(plan.pages.values()) == [{0: [(30, 100)], 1: [(0, 50)]}]
    assert len(reads) == requests, reads
    # Headers would have to be fetched one by one, or with all of the column.
    plan = ss.scan_parquet(["/plain.parquet"], filesystem=memory).plan(where)
    reads.clear()
    assert list(plan.pages.values()) == [{0: WHOLE, 1: WHOLE}]
    assert not reads


def test_an_error_names_the_file(tmp_path, monkeypatch):
    def fail(self, span):
        raise OSError("no route to host")

    path = sorted_file(tmp_path)
    plan = ss.scan_parquet(path).plan("x < 20")
    monkeypatch.setattr(byte_ranges.Ranges, "_read", fail)
    with pytest.raises(SourceError, match=r"t\.parquet: reading its page indexes failed.*no route"):
        _ = plan.pages
