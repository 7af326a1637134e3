"""Plans with a limit return the first rows, and decode few others."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.tables import identity
from skipstone.bindings.tables.parquet.pages import read_pages, row_groups
from skipstone.bindings.tables.parquet.pages.page_choice import first_rows
from tests.support.effort import LONG
from tests.support.rows.alike import alike
from tests.support.tables import pages
from tests.support.tables.delta_log import Log, Written, delta_schema

LIMITS = [0, 1, 17, 600, 1_499, 1_500, 1_501, 2_900, 5_000]


@pytest.mark.parametrize("seed", range(40 if LONG else 4))
@pytest.mark.parametrize("reader", ["arrow", "polars"])
def test_the_first_rows_of_any_pages(seed, reader, tmp_path, monkeypatch):
    """Rows are judged in parts, which grow until there are enough matches."""
    if seed % 2:
        monkeypatch.setattr(read_pages, "LOCAL_PART", 90)
    rows = pages.table(seed)
    nested = pa.array([None if i % 7 == 0 else [i, i + 1] for i in range(len(rows))])
    rows = rows.append_column("list", nested)
    for i in range(2):
        pages.write(tmp_path / f"{i}.parquet", rows.slice(i * 1_500, 1_500), seed)
    table = ss.scan_parquet(tmp_path)
    for where in (None, "k >= 0", "i > 10", "k < 250"):
        every = table.plan(where).to_arrow(reader=reader)
        for limit in LIMITS:
            for columns in (None, ["u", "list"], ["k"]):
                found = table.plan(where, columns=columns, limit=limit).to_arrow(reader=reader)
                expected = every.slice(0, limit).select(found.column_names)
                assert alike(found, expected), (where, limit)


@pytest.mark.parametrize("part", [1 << 16, 300])
@pytest.mark.parametrize("where", [None, "x % 7 = 3", "x > 4500 AND x < 9000"])
@pytest.mark.parametrize("seed", range(3))
def test_deleted_rows_do_not_count(seed, where, part, tmp_path, monkeypatch):
    monkeypatch.setattr(read_pages, "LOCAL_PART", part)
    r = np.random.default_rng(seed)
    log = Log(tmp_path / "t", delta_schema("x LONG"), features=("deletionVectors",))
    for i in range(3):
        gone = np.flatnonzero(r.random(4_000) < (0.02, 0.5, 1.0)[(seed + i) % 3]).tolist()
        rows = pa.table({"x": np.arange(4_000) + 4_000 * i})
        log.add(Written(rows, dead=gone, path=f"{i}.parquet"))
    table = ss.scan_delta(log.folder)
    every = table.plan(where).to_arrow()["x"].to_pylist()
    assert len(every) == table.plan(where).count() < 12_000
    for limit in (1, 5, 249, 999, 1_000, 2_500, 6_000, 12_000):
        assert table.plan(where, limit=limit).to_arrow()["x"].to_pylist() == every[:limit]


def test_only_the_first_pages_are_decoded(tmp_path, monkeypatch):
    path, decoded = tmp_path / "a.parquet", []
    rows = {"x": range(400_000), "y": [i * 0.5 for i in range(400_000)]}
    pq.write_table(pa.table(rows), path, data_page_size=20_000, use_dictionary=False)
    inner = row_groups.decode

    def counted(files, *rest):
        decoded.extend(int(file.chunks[:, 2].sum()) for file in files)
        return inner(files, *rest)

    monkeypatch.setattr(row_groups, "decode", counted)
    assert ss.scan_parquet(path).plan(limit=7).to_arrow()["x"].to_pylist() == list(range(7))
    assert sum(decoded) < 20_000


FIRST, SECOND, ROWS = 1 << 16, 1 << 18, 400_000  # the rows of the first parts, and all
PARTS = [
    (range(0, ROWS, 500), 5, [FIRST]),
    (range(100_000, ROWS, 500), 5, [FIRST, SECOND]),
    ([ROWS - 1], 5, [FIRST, SECOND, ROWS - FIRST - SECOND]),
]


@pytest.mark.parametrize(("matching", "limit", "expected"), PARTS)
def test_only_the_first_parts_are_judged(matching, limit, expected, tmp_path, monkeypatch):
    path, judged, values = tmp_path / "a.parquet", [], np.arange(ROWS) % 997 * 2
    values[list(matching)] = 777  # no page can be ruled out
    pq.write_table(pa.table({"x": values, "y": np.arange(ROWS)}), path)
    monkeypatch.setattr(identity, "UNSETTLED", 0)
    monkeypatch.setenv("SKIPSTONE_KEEP_MATCHES", "1")
    inner = row_groups.PagedRowGroups.filter

    def counted(self, part):
        judged.append(len(self.candidates))
        return inner(self, part)

    monkeypatch.setattr(row_groups.PagedRowGroups, "filter", counted)
    plan = ss.scan_parquet(path).plan("x = 777", limit=limit)
    rows = plan.to_arrow()
    assert rows["y"].to_pylist() == list(matching)[:limit]
    assert list(dict.fromkeys(judged)) == expected
    judged.clear()
    assert plan.to_arrow().equals(rows)
    assert (not judged) is (len(rows) < limit)  # all rows were judged, and are known


def test_other_columns_are_read_once(tmp_path, monkeypatch):
    """Each part has a match; a list is read by whole row groups."""
    path, calls, inner = tmp_path / "a.parquet", [], row_groups.PagedRowGroups._fetch_whole
    data = {"x": np.arange(ROWS) % 40_000, "y": [[i] for i in range(ROWS)]}
    pq.write_table(pa.table(data), path)

    def counted(self, names):
        calls.append(names)
        inner(self, names)

    monkeypatch.setattr(row_groups.PagedRowGroups, "_fetch_whole", counted)
    rows = ss.scan_parquet(path).plan("x = 7", columns=["y"], limit=50).to_arrow()
    assert rows["y"].to_pylist() == [[i] for i in range(7, ROWS, 40_000)]
    assert calls == [["y"]]


def test_rows_that_the_caller_judges_are_not_cut(tmp_path):
    """The first rows of a container may all fail a condition that only the caller knows."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": range(1_000)}), path)
    plan = ss.scan_parquet(path).plan("x >= 990", limit=5)
    batches = plan.table.tasks(plan, lenient=True).batches()
    assert {990, 991, 992, 993, 994} <= {x for b in batches for x in b["x"].to_pylist()}
    unfiltered = plan.to_batches(filter=False).read_all()["x"].to_pylist()
    assert set(range(990, 1_000)) <= set(unfiltered)


@pytest.mark.parametrize("seed", range(20))
def test_windows_of_the_first_rows(seed):
    r = np.random.default_rng(seed)
    windows, live = [], []
    for _ in range(r.integers(1, 5)):
        rows = int(r.integers(1, 40))
        mask = None if r.random() < 0.5 else r.random(rows) < r.choice([0.0, 0.3, 0.9])
        first = int(r.integers(0, rows))
        group = row_groups.RowGroup("", None, rows, None, 0, {}, {}, mask)
        windows.append(row_groups.Window(group, first, rows))
        live += [np.ones(rows, np.bool_)[first:] if mask is None else mask[first:]]
    total = int(np.concatenate(live).sum())
    for n in range(total + 3):
        found = first_rows(windows, n)
        assert sum(int(w.live().sum()) for w in found) == min(n, total)
        assert [(w.group, w.first) for w in found] == [(w.group, w.first) for w in windows][
            : len(found)
        ]
