"""Pages are handed to a decoder only if their headers fit each other and the footer."""

import numpy as np
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.tables.parquet import thrift_writer as t
from skipstone.bindings.tables.parquet.pages import decoders
from skipstone.ir.errors import SourceError
from skipstone.kernels.decode import page_layout
from tests.support.effort import LONG
from tests.support.tables.pages import compile_loops, table, without_loops

DATA, INDEX, DICTIONARY, DATA_V2 = range(4)
BODY = b"x" * 40


@pytest.fixture(scope="module", autouse=True)
def _loops():
    compile_loops()


def page(kind, values, *, packed=40, unpacked=100, **more):
    """Return a page header and its body; `more` are fields of its inner structure, as f<number>."""
    inner = {DATA: {1: values, 2: 0, 3: 3, 4: 3}, DICTIONARY: {1: values, 2: 0}}.get(
        kind, {1: values, 2: 1, 3: values, 4: 0, 5: 2, 6: 0}
    )
    inner |= {int(name[1:]): value for name, value in more.items()}
    at = {DATA: 5, INDEX: 6, DICTIONARY: 7, DATA_V2: 8}[kind]
    fields = t.structure({} if kind == INDEX else {i: t.i32(v) for i, v in inner.items()})
    return t.write_struct({1: t.i32(kind), 2: t.i32(unpacked), 3: t.i32(packed), at: fields}) + BODY


GOOD = {
    "one page": (page(DATA, 7),),
    "a dictionary and pages": (page(DICTIONARY, 20), page(DATA, 3), page(DATA, 4)),
    "version 2": (page(DATA_V2, 3), page(DATA_V2, 4)),
    "an empty page": (page(DATA, 0), page(DATA, 7)),
}
BAD = {
    "negative values": (page(DATA, -1), page(DATA, 8)),
    "negative values, version 2": (page(DATA_V2, -3), page(DATA_V2, 10)),
    "more values than the chunk": (page(DATA, 8),),
    "fewer values than the chunk": (page(DATA, 6),),
    "negative size": (page(DATA, 7, unpacked=-1),),
    "negative packed size": (page(DATA, 7, packed=-40),),
    "a body beyond the chunk": (page(DATA, 7, packed=41),),
    "a negative dictionary": (page(DICTIONARY, -1), page(DATA, 7)),
    "a dictionary of more values than bytes": (page(DICTIONARY, 101), page(DATA, 7)),
    "a second dictionary": (page(DICTIONARY, 1), page(DICTIONARY, 1), page(DATA, 7)),
    "a dictionary after a page": (page(DATA, 3), page(DICTIONARY, 1), page(DATA, 4)),
    "an index page": (page(INDEX, 0), page(DATA, 7)),
    "negative NULLs": (page(DATA_V2, 7, f2=-1),),
    "more NULLs than values": (page(DATA_V2, 7, f2=8),),
    "other rows than values": (page(DATA_V2, 7, f3=6),),
    "negative bytes of levels": (page(DATA_V2, 7, f5=-2),),
    "levels beyond the page": (page(DATA_V2, 7, f5=41),),
    "repetition levels": (page(DATA_V2, 7, f6=2),),
    "nothing": (b"",),
}


@pytest.mark.parametrize("compiled", [True, False], ids=["loop", "python"])
@pytest.mark.parametrize("name", [*GOOD, *BAD])
def test_headers(name, compiled, monkeypatch):
    if not compiled:
        without_loops(monkeypatch)
    data = b"PAR1" + b"".join((GOOD | BAD)[name])
    chunks = np.array([[4, len(data), 7]])
    found = page_layout.are_sound(np.frombuffer(data, np.uint8), chunks)
    assert found is (name in GOOD)


def test_many_pages_wait_for_the_compiler(monkeypatch):
    """Python would take long for them."""
    asked = []
    monkeypatch.setattr(page_layout, "_seen_by_python", 0)
    monkeypatch.setattr(page_layout.compile_cache, "find", lambda loop: None)
    monkeypatch.setattr(page_layout.loops, "compiled_or_start", asked.append)
    few, many = (n * page(DATA, 1) for n in (page_layout.FEW_PAGES, page_layout.FEW_PAGES + 1))
    for data, count, sound in ((few, 64, True), (many, 65, False)):
        assert len(data) == count * len(page(DATA, 1))
        chunks = np.array([[0, len(data), count]])
        assert page_layout.are_sound(np.frombuffer(data, np.uint8), chunks) is sound
    assert asked == [page_layout.SOUND]


@pytest.mark.parametrize("seed", range(400 if LONG else 10))
def test_damaged_pages_are_read_or_refused(seed, tmp_path):
    """No decoder ends the process; `negative values` did so in Polars."""
    random = np.random.default_rng(seed)
    path = tmp_path / "t.parquet"
    pq.write_table(
        table(seed, 600).select(["k", "i", "u", "p"]),
        path,
        row_group_size=200,
        max_rows_per_page=50,
        use_dictionary=bool(seed % 2),
        data_page_version="2.0" if seed % 3 else "1.0",
        compression=("none", "snappy", "zstd")[seed % 3],
    )
    good = path.read_bytes()
    end = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
    errors: list[str] = []
    for _ in range(10):
        data = bytearray(good)
        for at in random.integers(4, end, random.integers(1, 4)):
            data[at] = random.choice([random.integers(256), data[at] ^ 1, 255])
        path.write_bytes(data)
        for where in ("k < 250", "i = 3 OR u > '4'", "p IS NULL"):
            for reader in ("polars", "arrow"):
                try:
                    ss.scan_parquet(path).plan(where).to_arrow(reader=reader)
                except SourceError as e:
                    errors.append(str(e))
    assert all(str(path) in e for e in errors)


def test_polars_sees_only_sound_pages(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    pq.write_table(table(1, 600), path)
    monkeypatch.setattr(decoders, "are_sound", lambda data, chunks: False)
    monkeypatch.setattr(decoders.PolarsColumns, "all_of", lambda files: pytest.fail("decoded"))
    for where in ("k < 250", "d > 2"):
        plan = ss.scan_parquet(path).plan(where, columns=["k", "u", "p"])
        assert plan.to_arrow(reader="polars").equals(plan.to_arrow(reader="arrow"))
