"""Columns that Arrow decodes by row groups are read only where they are needed."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.tables.parquet.pages.nested import nested_pages, whole_columns
from tests.support.tables.pages import Pages, compile_loops, without_pages

N, GROUP = 10_000, 1000
S = pa.struct(
    {"a": pa.int64(), "b": pa.string(), "In": pa.struct({"x.y": pa.int32(), "z": pa.int8()})}
)


@pytest.fixture(scope="module", autouse=True)
def _loops():
    compile_loops()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    def struct(i):
        inner = None if i % 11 == 0 else {"x.y": i % 5, "z": i % 7}
        return None if i % 13 == 0 else {"a": None if i % 17 == 0 else i, "b": f"b{i}", "In": inner}

    rows = range(N)
    table = pa.table(
        {
            "k": pa.array(rows, pa.int64()),
            "items": pa.array([[i] * (i % 3) for i in rows], pa.list_(pa.int64())),
            "s": pa.array([struct(i) for i in rows], S),
            "c": pa.array([f"c{i % 50}" for i in rows]).dictionary_encode(),
            "d.e": pa.array(rows, pa.int32()),
        }
    )
    path = str(tmp_path_factory.mktemp("t") / "t.parquet")
    pq.write_table(table, path, row_group_size=GROUP, max_rows_per_page=100, write_page_index=True)
    return path


@pytest.fixture
def reads(monkeypatch):
    """Return a list that gets the columns and the row groups of each read by Arrow.

    No nested column is read by pages.
    """
    monkeypatch.setattr(nested_pages, "_by_pages", lambda *arguments: None)
    out, inner = [], whole_columns.batches_of

    def counted(file, path, columns, groups, rows):
        out.append((tuple(columns), *groups))
        return inner(file, path, columns, groups, rows)

    monkeypatch.setattr(whole_columns, "batches_of", counted)
    return out


def answer(path, where, columns):
    with ss.config.override(keep_matches=False):
        return ss.scan_parquet(path).plan(where, columns=columns).to_arrow()


@pytest.mark.parametrize(
    ("where", "columns", "expected"),
    [
        ("k = 4321", ["k", "items"], {(("items",), 4)}),
        ("k IN (7, 9999)", ["s"], {(("s",), 0), (("s",), 9)}),
        ("k < 0 OR k > 20000", ["items"], set()),
        ("k < 3000 AND k % 1000 = 5 AND size(items) = 2", ["k"],
         {(("items",), g) for g in range(3)}),
        ("s.a = 4321", ["k"], {(("s.a",), 4)}),
        ("S.A = 4321", ["k"], {(("s.a",), 4)}),
        ("k < 1500 AND (s.a > 1400 OR s.b = 'b7')", ["k"],
         {(("s.a", "s.b"), 0), (("s.a", "s.b"), 1)}),
        ("k < 900 AND s.a IS NULL", ["k"], {(("s.a",), 0)}),
        ("k < 900 AND s.in.z = 3", ["k"], {(("s.In.z",), 0)}),
        ("k < 900 AND s.in.z IS NULL", ["k"], {(("s.In.z",), 0)}),
        ("k < 900 AND s.in.`x.y` = 3", ["k"], {(("s",), 0)}),
        ("k < 900 AND s IS NULL", ["k"], {(("s",), 0)}),
        ("k < 900 AND s IS NULL AND s.a IS NULL", ["k"], {(("s",), 0)}),
        ("s.a = 4321", ["s"], {(("s",), 4)}),
        ("c = 'c7' AND `d.e` < 300", ["c", "d.e"], set()),
    ],
)  # fmt: skip
def test_what_is_read(where, columns, expected, path, reads, monkeypatch):
    with monkeypatch.context() as patch:
        without_pages(patch)
        rows = answer(path, where, columns)
    assert len(rows) or not expected
    reads.clear()
    with monkeypatch.context() as patch:
        seen = Pages(patch)
        found = answer(path, where, columns)
    assert seen.by_row_groups == 0
    assert found.schema == rows.schema and found.to_pylist() == rows.to_pylist()
    assert set(reads) == expected and len(reads) == len(expected)


def test_matches_of_such_columns_are_not_kept(path, reads):
    """A struct's field can get another meaning in the table while the file stays the same."""
    for _ in range(2):
        ss.scan_parquet(path).plan("s.a = 4321", columns=["k"]).to_arrow()
    assert len(reads) == 2
