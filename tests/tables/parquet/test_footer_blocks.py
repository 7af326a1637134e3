"""Footers in blocks: the memory for many files is small, and answers do not depend on blocks."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.plans.work import Meter
from skipstone.bindings.tables.parquet import footers as sources
from skipstone.bindings.tables.parquet.footer_blocks import FooterBlock
from skipstone.bindings.tables.parquet.footers import Footer, read_footers
from skipstone.ir.arrow import arrow_of
from skipstone.kernels.decode import arrays
from tests.support.tables.footer_readers import LOCAL, compile_loops, content, reader

FILES = 70
READERS = ["pyarrow", "late", "loop"]


@pytest.fixture(scope="module", autouse=True)
def loops():
    compile_loops()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files of two schemas, one of them with a note that differs from file to file."""
    folder = tmp_path_factory.mktemp("files")
    for i in range(FILES):
        text = pa.array([f"{i:03d}", None, "é" * (i % 7)])
        table = pa.table({"x": [i, i + 1, None], "s": text, "f": [0.5, float("nan"), i]})
        table = table.replace_schema_metadata({"pandas": str(i)})
        if i % 3 == 0:
            table = table.append_column("more", pa.array([i, i, i], pa.int32()))
        pq.write_table(table, folder / f"{i:03d}.parquet", row_group_size=2)
    return folder


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(sources, "BLOCK", 1)  # each batch of files is a block
    monkeypatch.setattr(sources, "GROUP", 2)
    monkeypatch.setattr(sources, "OPEN_BLOCKS", 1)


def footers_of(folder):
    names = sorted(map(str, folder.glob("*.parquet")))
    return read_footers(names, LOCAL, Meter(), keep=True)


@pytest.mark.parametrize("name", READERS)
def test_closed_blocks_say_the_same(files, monkeypatch, name):
    with reader(name):
        expected = content(footers_of(files))
        monkeypatch.setattr(sources, "BLOCK", 1)
        monkeypatch.setattr(sources, "GROUP", 2)
        monkeypatch.setattr(sources, "OPEN_BLOCKS", 0)
        monkeypatch.setattr(sources, "SLOW_SECONDS", 60)  # no smaller batches on a busy machine
        footers = footers_of(files)
        assert len({id(f.block) for f in footers}) == -(-FILES // sources.BATCH_FILES)
        assert content(footers) == expected
        assert content(footers[::-1]) == content(footers_of(files)[::-1])  # in any order


@pytest.mark.parametrize("name", READERS)
def test_rows_of_closed_blocks(files, small_blocks, name):
    with reader(name):
        table = ss.scan_parquet(files)
        assert len(table.footers) == FILES
        plan = table.plan("x >= 60 AND s IS NOT NULL")
        assert plan.to_arrow().num_rows == FILES - 60
        assert plan.row_groups[table.files[-1]] == [0]
        assert table.plan("more = 66").to_arrow().num_rows == 3
        assert table.plan("x = 3").count() == 2


def test_columns_of_a_condition_are_looked_up_together(files, small_blocks, monkeypatch):
    opened = []
    monkeypatch.setattr(FooterBlock, "columns", spy(opened, FooterBlock.columns))
    with reader("loop"):
        table = ss.scan_parquet(files)
        assert len(table.plan("x >= 60 AND s >= '060' AND f IS NOT NULL").files) == 10
        assert len(opened) == -(-FILES // sources.BATCH_FILES)
        table.plan("x = 3 AND s = '003'")
        assert len(opened) == -(-FILES // sources.BATCH_FILES)


def spy(calls, function):
    def wrapped(*args):
        calls.append(args)
        return function(*args)

    return wrapped


def test_what_is_kept_of_closed_blocks(files, small_blocks):
    """Neither the uncompressed bytes, nor the loop's results, nor pyarrow's are kept."""
    with reader("loop"):
        table = ss.scan_parquet(files)
        table.plan("x = 3 AND s = '003'").to_arrow()
        blocks = list(
            {id(f.block): f.block for p in table.groups.parts for f in p.footers}.values()
        )
        first, *closed, last = blocks
        assert closed and [b._open for b in closed] == [None] * len(closed)
        assert all(b._open is not None for b in (first, last))
        assert all(len(b._packed) < b.nbytes / 3 for b in closed)
        heads = {id(h) for b in blocks for h in b.heads}
        assert len(heads) == 2  # pandas' notes do not tell heads apart


def test_the_first_file_that_cannot_be_read_is_named(files, small_blocks, tmp_path):
    for i, path in enumerate(sorted(files.iterdir())[:40]):
        (tmp_path / path.name).write_bytes(b"no" if i in (20, 35) else path.read_bytes())
    for name in READERS:
        with reader(name):
            with pytest.raises(ss.SourceError, match=r"020\.parquet: not a whole Parquet file"):
                ss.scan_parquet(tmp_path)
            table = ss.scan_parquet(tmp_path, on_error="keep")
            assert [path[-11:] for path in table.unreadable] == ["020.parquet", "035.parquet"]
            assert table.plan("x = 3").row_groups[str(tmp_path / "035.parquet")] == []


def test_a_file_that_changed_since_it_was_listed(files, tmp_path):
    """The footer at its present end is read."""
    path = tmp_path / "a.parquet"
    path.write_bytes((files / "000.parquet").read_bytes())
    size = np.array([path.stat().st_size])
    pq.write_table(pa.table({"x": range(1000)}), path)
    (footer,) = read_footers([str(path)], LOCAL, Meter(), keep=False, sizes=size)
    assert footer.parsed.rows.tolist() == [1000]


@pytest.mark.parametrize("name", READERS)
def test_blocks_can_be_pickled(files, name):
    with reader(name):
        footers = footers_of(files)
        footers[0].block.close()
        again = pickle.loads(pickle.dumps(footers[0].block))
        assert isinstance(again, FooterBlock)
        copies = [Footer(f.path, again, f.number) for f in footers]
        assert content(copies) == content(footers)


#     values, mask of those that are there
@pytest.mark.parametrize("known", [None, [], [True], [True, False] * 9, [False] * 3])
def test_arrays_of_buffers(known):
    n = 3 if known is None else len(known)
    values, mask = np.arange(n) - 1, None if known is None else np.array(known, np.bool_)
    expected = pa.array(values, mask=None if mask is None else ~mask)
    made = arrow_of(values, mask)
    made.validate(full=True)
    assert made.equals(expected)
    texts = ["é" * (v % 3) if there is None or there else None for v, there in
             zip(values.tolist(), known or [None] * n, strict=True)]  # fmt: skip
    made = arrays.texts(texts)
    made.validate(full=True)
    assert made.equals(pa.array(texts, pa.string()))
    assert arrays.ranks(made).tolist() == sorted(
        range(n), key=lambda i: (texts[i] is None, texts[i] or "", i)
    )
