"""Rows that Polars filters while it decodes are those that Skipstone's own evaluators find."""

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.tables.parquet.pages import (
    decoders,
    filtering,
    page_choice,
    read_pages,
    row_groups,
)
from skipstone.bindings.tables.parquet.pages.page_history import PageHistory
from skipstone.bindings.tables.parquet.pages.polars_filter import split
from skipstone.bindings.tables.row_filter import matches
from tests.support.effort import LONG
from tests.support.tables.delta_log import Log, Written, delta_schema
from tests.support.tables.pages import compile_loops, table

# Literals of each column: inside its values, at the ends of its type, and beyond them.
LITERALS = {
    "k": ("250", "-1", "9223372036854775807", "1e3", "250.5"),
    "i": ("0", "-17", "2147483647", "2147483648", "0.5", "'3'"),
    "day": ("DATE '1995-03-01'", "DATE '0001-01-01'", "DATE '9999-12-31'"),
    "far": ("DATE '1582-10-15'", "DATE '0001-01-01'"),
    "t": ("TIMESTAMP '1995-01-02 00:00:00'", "TIMESTAMP '1995-01-02 00:00:00.000001'"),
    "ntz": ("TIMESTAMP_NTZ '1995-01-01 05:00:00'", "TIMESTAMP_NTZ '1995-01-01 05:00:00.0001'"),
    "ns": ("TIMESTAMP_NTZ '1995-01-01 00:00:00.000003'",),
    "p": ("0.10", "0.105", "9999999.99", "1e20"),
    "q": ("0.15", "-0.50", "1"),
    "wide": ("0", "9" * 38, "-" + "9" * 38),
    "s": ("'text 3'", "''", "'text 3 '", "'ü'"),
    "u": ("'-5 10'", "'10'"),
    "i8": ("-40", "0", "200"),
    "u8": ("145", "0", "-1"),
    "u64": ("9223372036854775808", "0", "18446744073709551615"),
    "c": ("'text 3'", "''"),
    "d": ("0.0", "-0.0D", "1", "0.1", "DOUBLE('Infinity')", "DOUBLE('-Infinity')", "DOUBLE('NaN')"),
    "edge": ("0", "-0.0D", "1.5", "DOUBLE('Infinity')", "DOUBLE('-Infinity')", "DOUBLE('NaN')"),
    "f": ("0", "0.1", "16777217", "FLOAT('0.1')", "1e300", "FLOAT('NaN')"),
    "ends": ("-9223372036854775808", "9223372036854775807", "0"),
    "b": ("true", "false", "NULL"),
}
FORMS = (
    "{c} = {a}",
    "{c} <> {a}",
    "{c} < {a}",
    "{a} <= {c}",
    "{c} > {a}",
    "NOT ({c} >= {a})",
    "{c} <=> {a}",
    "{c} <=> NULL",
    "{c} IN ({a}, {b})",
    "{c} NOT IN ({a}, {b})",
    "{c} IN ({a}, NULL)",
    "{c} BETWEEN {a} AND {b}",
    "{c} IS NULL",
    "{c} IS NOT NULL AND ({c} > {a} OR {c} = {b})",
    "({c} = {a}) IS NULL OR {c} = {b}",
    "NOT ({c} < {a} AND {c} > {b})",
    "{c} = {c} AND {c} <> {a}",
    "({c} > {a}) <=> true OR {c} = {b}",
    "NOT (({c} = {a}) <=> true)",
)
PATTERNS = (
    "text%", "%3", "%t%", "", "%", "%%", "text _", "t%3", "%ü%", "\\\\%%", "%\\\\_%", "text 3",
    "%10", "_", "%_", "te_t%", "%x_ 5", "-% _0", "%1%2%", "t.x%_", "_%$", "(%_)",
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _loops():
    compile_loops()


def conditions():
    """Yield conditions of every form, with each pair of a column's literals."""
    for column, literals in LITERALS.items():
        for form in FORMS:
            for a, b in zip(literals, (*literals[1:], literals[0]), strict=True):
                yield form.format(c=column, a=a, b=b)
    yield from ("b", "NOT b", "b AND d > 1", "d IS NULL OR b", "NOT (b <=> true) AND edge < 0")
    for column in ("s", "u", "c"):
        for pattern in PATTERNS:
            yield f"{column} LIKE '{pattern}'"
            yield f"{column} NOT LIKE '{pattern}' OR {column} IS NULL"


def test_expressions_are_true_for_the_same_rows():
    data = table(1, 600).combine_chunks()
    text = data["c"].cast(pa.string())  # as the decoder has it
    data = data.set_column(data.schema.names.index("c"), "c", text)
    batch = data.to_batches()[0]
    frame = pl.from_arrow(data).with_row_index("at")
    expressions = 0
    for where in conditions():
        node = ss.PruningPredicate(where, data.schema).node
        condition, rest = split(node, data.schema)
        if condition is None:
            continue
        expressions += 1
        found = frame.filter(condition)["at"].to_numpy()
        kept = np.ones(len(data), bool) if rest is None else matches(rest, batch)
        expected = np.flatnonzero(matches(node, batch))
        assert np.array_equal(found[kept[found]], expected), (where, condition)
    assert expressions > 400


@pytest.mark.parametrize(
    "where",
    [
        "d + 1 = 2",
        "edge > d",
        "b = (i > 0)",
        "d IN (1, DOUBLE('NaN'))",
        "z = X'03'",
        "z LIKE 'a%'",
        "i + 1 = 2",
        "i = f",
        "u > s || 'a'",
    ],
)
def test_other_conditions_have_no_expression(where):
    schema = table(1, 1).schema
    node = ss.PruningPredicate(where, schema).node
    assert split(node, schema) == (None, node)


def write_files(folder, count=12, rows=500):
    """Write files whose rows are in no order, and return their paths."""
    data = table(5, count * rows)
    data = data.take(np.random.default_rng(1).permutation(len(data)))
    paths = [str(folder / f"{i}.parquet") for i in range(count)]
    for i, path in enumerate(paths):
        pq.write_table(data.slice(i * rows, rows), path, max_rows_per_page=50)
    return paths


def count_passes(monkeypatch):
    """Return a list that gets True for each unit that was read in one pass, else False."""
    passes, inner = [], filtering.filtered_by_decoder

    def counted(rows, wanted):
        found = inner(rows, wanted)
        passes.append(found is not None)
        return found

    monkeypatch.setattr(read_pages, "filtered_by_decoder", counted)
    return passes


def answer(paths, where, columns, reader):
    return ss.scan_parquet(paths).plan(where, columns=columns).to_arrow(reader=reader)


@pytest.mark.parametrize(
    ("where", "one_pass"),
    [
        ("k < 400", True),
        ("k < 400 AND d + 1 > 3", True),  # the evaluator judges the second test
        ("k < 400 AND length(u) > 5 AND i IS NOT NULL", True),
        ("s IN ('text 1', 'text 2') OR p > 0.1", True),
        ("k < 0", False),
        ("d + 1 > 3", False),
        ("d > 2", True),
        ("b", True),
        ("d IS NOT NULL AND NOT b", True),
        ("edge >= 0", True),
        ("edge < 0 OR f > 0.1", True),
        ("NOT (edge <= -0.0D)", True),
        ("edge IN (0, 1.5) OR edge = DOUBLE('Infinity')", True),
    ],
)
def test_files_are_read_in_one_pass(where, one_pass, tmp_path, monkeypatch):
    paths = write_files(tmp_path)
    expected = answer(paths, where, ["u", "k", "q"], "arrow")
    passes = count_passes(monkeypatch)
    found = answer(paths, where, ["u", "k", "q"], "polars")
    assert found.equals(expected)
    assert any(passes) is one_pass


@pytest.mark.parametrize("reader", ["arrow", "polars"])
def test_text_that_is_not_utf8_is_not_judged(reader, tmp_path):
    """Skipstone does not know how many characters Spark sees in such text, so `_` is unknown."""
    path = tmp_path / "t.parquet"
    raw = pa.array([b"abc", b"a\xffc", b"a\xc3\xbcc"] * 9000)
    texts = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    pq.write_table(pa.table({"s": texts}), path)
    scan = ss.scan_parquet(path)
    with pytest.raises(ss.UnsupportedForm, match=r"9,?000"):
        scan.plan("s LIKE 'a_c'").to_arrow(reader=reader)


@pytest.mark.parametrize("matching", [1, 1000])
def test_a_sample_says_if_most_pages_hold_a_match(matching, tmp_path, monkeypatch):
    """Few matches leave most pages of other columns unread."""
    monkeypatch.setattr(filtering, "LATE_BYTES", 1 << 17)
    monkeypatch.setattr(page_choice, "PAGE_ROWS", 100)
    k = np.tile(np.arange(5000), 12)
    paths = [str(tmp_path / f"{i}.parquet") for i in range(12)]
    for i, path in enumerate(paths):
        own = np.random.default_rng(i).permutation(k[i * 5000 : (i + 1) * 5000])
        data = pa.table({"k": own, "u": [f"{v:0200}" for v in own]})
        pq.write_table(data, path, max_rows_per_page=100, use_dictionary=False)
    where = f"k >= 2500 AND k < {2500 + matching}"  # page statistics rule out nothing
    expected = answer(paths, where, None, "arrow")
    passes = count_passes(monkeypatch)
    assert answer(paths, where, None, "polars").equals(expected)
    assert passes == [matching > 1]


def test_a_few_row_groups_say_if_page_statistics_help(tmp_path, monkeypatch):
    judged = []
    inner = row_groups.PagedRowGroups._judge_pages

    def counted(self, predicate, windows, **options):
        judged.append(len(windows))
        return inner(self, predicate, windows, **options)

    monkeypatch.setattr(row_groups.PagedRowGroups, "_judge_pages", counted)
    history = PageHistory()
    assert history.is_new
    for ordered, expected in ((False, [4]), (True, [4, 12])):
        judged.clear()
        paths = []
        for i in range(12):
            k = np.arange(30_000)
            k = k if ordered else np.random.default_rng(i).permutation(k)
            paths.append(str(tmp_path / f"{ordered}{i}.parquet"))
            pq.write_table(pa.table({"k": k}), paths[-1], max_rows_per_page=1000)
        assert len(answer(paths, "k < 100", None, "auto")) == 1200
        assert judged == expected


@pytest.mark.parametrize("seed", range(60 if LONG else 3))
def test_partitions_deletes_and_missing_columns(seed, tmp_path):
    """Columns that files lack, and deleted rows, are right in one pass."""
    deltalake = pytest.importorskip("deltalake")
    data = table(seed, 2000).select(["k", "i", "s", "p", "u"])
    data = data.append_column("part", pa.array([f"p{v % 3}" for v in range(len(data))]))
    path = str(tmp_path / "t")
    deltalake.write_deltalake(path, data.slice(0, 1500), partition_by=["part"])
    more = data.slice(1500).append_column("new", pa.array(range(500), pa.int32()))
    deltalake.write_deltalake(path, more, mode="append", schema_mode="merge")
    table_ = ss.scan_delta(path)
    for where in ("k < 300 AND part <> 'p1'", "i > 0 AND new IS NULL", "s = 'text 2' OR new > 3"):
        plan = table_.plan(where)
        one, other = (plan.to_arrow(reader=r) for r in ("polars", "arrow"))
        assert one.num_rows and one.equals(other), where


@pytest.mark.parametrize(
    "where",
    [
        "k >= 100 AND k < 400 AND q > 0 AND q < 50",  # two tests of each column
        "k < 400 OR k > 2000",
        "k IN (5, 900, 2400) AND s >= 'text'",
        "k > 5 AND length(u) > 5",
    ],
)
@pytest.mark.parametrize("shape", ["one pass", "columns", "conjuncts"])
def test_the_decoder_refuses_nothing(where, shape, tmp_path, monkeypatch, caplog):
    """A refusal falls back to another way, so that only a record and the time show it."""
    paths = write_files(tmp_path)
    monkeypatch.setattr(decoders, "POLARS_FROM", 0)
    if shape != "one pass":
        monkeypatch.setattr(filtering, "LATE_BYTES", -1)
        monkeypatch.setattr(filtering, "MIN_NEEDED", 2)
    if shape == "conjuncts":
        monkeypatch.setattr(filtering, "TOGETHER_BYTES", -1)
    expected = answer(paths, where, ["u", "k"], "arrow")
    filtered, inner = [], decoders._collected

    def counted(*args):
        filtered.append(inner(*args))
        return filtered[-1]

    monkeypatch.setattr(decoders, "_collected", counted)
    with caplog.at_level("DEBUG", "skipstone"):
        assert answer(paths, where, ["u", "k"], "polars").equals(expected)
    assert filtered and all(found is not None for found in filtered)
    assert "Polars" not in caplog.text


@pytest.mark.parametrize("shape", ["one pass", "columns"])
@pytest.mark.parametrize("where", ["k < 10", "k < 10 AND s > 'a'", "k % 3 = 0 AND k < 9"])
def test_pages_of_which_all_rows_are_deleted(where, shape, tmp_path, monkeypatch):
    if shape == "columns":
        monkeypatch.setattr(filtering, "LATE_BYTES", -1)
    log = Log(tmp_path / "t", delta_schema("k BIGINT, s STRING"), features=["deletionVectors"])
    rows = pa.table({"k": range(60_000), "s": [f"s{k}" for k in range(60_000)]})
    log.add(Written(rows, dead=range(30_000)))
    for reader in ("arrow", "polars"):
        assert ss.scan_delta(log.folder).plan(where).to_arrow(reader=reader).num_rows == 0


@pytest.mark.parametrize("reader", ["arrow", "polars"])
def test_a_column_that_is_never_null_in_row_groups_with_different_verdicts(reader, tmp_path):
    """All rows of the second row group match; the decoder filters those of the first."""
    path = tmp_path / "t.parquet"
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False)])
    pq.write_table(pa.table({"k": range(200)}, schema=schema), path, row_group_size=100)
    got = ss.scan_parquet(path).plan("k >= 50").to_arrow(reader=reader)
    assert got.schema == schema
    assert got["k"].to_pylist() == list(range(50, 200))


@pytest.mark.parametrize("shape", ["one pass", "columns"])
@pytest.mark.parametrize("wrong", [[1, 0], [0, 0], [0, 10**6]])
def test_rows_that_polars_numbers_wrongly_are_filtered_otherwise(
    wrong, shape, tmp_path, monkeypatch
):
    paths = write_files(tmp_path)
    if shape == "columns":
        monkeypatch.setattr(filtering, "LATE_BYTES", -1)
        monkeypatch.setattr(filtering, "MIN_NEEDED", 2)
    expected = answer(paths, "k < 400", ["u", "k"], "arrow")
    inner, numbered = decoders._collected, []

    def renumbered(file, condition, names, number):
        found = inner(file, condition, names, number)
        if found is None or found.height < 2:
            return found
        numbered.append(1)
        rows = found.get_column(number).to_list()
        return found.with_columns(pl.Series(number, wrong + rows[2:], dtype=pl.UInt32))

    monkeypatch.setattr(decoders, "_collected", renumbered)
    assert answer(paths, "k < 400", ["u", "k"], "polars").equals(expected)
    assert numbered


@pytest.mark.parametrize("columns", [None, ["odd"], ["x1"]])
@pytest.mark.parametrize("where", ["odd > 9", "odd > 9 AND x1 = 3", "x1 = 2 OR odd = 4", "x1 = 3"])
@pytest.mark.parametrize("name", ["^x.*$", "^x1$", "*", "^", "$", "^$"])
def test_names_that_polars_takes_for_patterns(name, where, columns, tmp_path):
    """A column with such a name is one column, not those that it fits."""
    whole = pa.table({"odd": list(range(50)), "x1": [i % 7 for i in range(50)]})
    pq.write_table(whole.rename_columns([name, "x1"]), tmp_path / "t.parquet")
    own = columns and [name if c == "odd" else c for c in columns]
    found = ss.scan_parquet(str(tmp_path / "t.parquet")).plan(
        where.replace("odd", f"`{name}`"), columns=own
    )
    of_row = {"odd > 9": lambda i: i > 9, "x1 = 3": lambda i: i % 7 == 3,
              "odd > 9 AND x1 = 3": lambda i: i > 9 and i % 7 == 3,
              "x1 = 2 OR odd = 4": lambda i: i % 7 == 2 or i == 4}  # fmt: skip
    expected = whole.take([i for i in range(50) if of_row[where](i)]).select(columns or [0, 1])
    rows = found.to_arrow(reader="polars")
    assert rows.column_names == (own or [name, "x1"])
    assert rows.rename_columns(expected.column_names).to_pylist() == expected.to_pylist()
