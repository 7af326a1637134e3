"""Lazy frames of Polars and relations of DuckDB give the rows that they would give of all rows."""

import contextlib
import datetime as dt
import itertools
import json
import random

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.predicates.polars_expr import from_polars
from skipstone.ir.node import Op
from tests.support.tables.formats import FORMATS

x, f, s, k = map(pl.col, "xfsk")
NAN = float("nan")
LEAVES = [
    x > 11, x <= 11, x == 12, x != 12, x >= 20, x > 11.5, x == 12.0, x > 5_000_000_000,
    x > -(2**40),
    x.is_in([1, 12, 39]), x.is_in([12, None]), x.is_in([]), x.is_null(), x.is_not_null(),
    x.is_between(5, 15), x.is_between(5, 15, closed="none"), x.eq_missing(12), x.ne_missing(12),
    x.eq_missing(None), x % 2 == 0, x.cast(pl.Int8) > 3, x == f, x.cast(pl.Float64) < f,
    f > 1e300, f > NAN, f == NAN, f >= NAN, f < NAN, f.is_nan(), f.is_not_nan(), f == 0.0, f < 0.0,
    f.is_in([0.0]), f.is_in([NAN, -5.0]), f != NAN, f.is_finite(), f > float("-inf"), f.is_null(),
    s > "c", s == "d12", s.is_in(["d12", "e18"]), s.str.starts_with("d"), s.str.ends_with("1"),
    s.str.to_uppercase() == "D12", s.str.len_chars() > 2, s.is_null(), s < k,
    s.is_in([None, "d12"]),
    k == "a", k.is_in(["b"]), k != "a", k > "a", pl.lit(True), pl.lit(False),
    pl.lit(None, pl.Boolean),
    pl.col("x").rank() > 30, x > x.mean(), pl.any_horizontal(x > 30, s == "a1"),
]  # fmt: skip


def conditions(n, seed=0):
    """Return the leaves, their negations, and random combinations."""
    rng = random.Random(seed)
    out = [*LEAVES, *(~leaf for leaf in LEAVES)]
    for _ in range(n):
        a, b, c = rng.choices(out, k=3)
        out.append(rng.choice([a & b, a | b, ~(a & b), (a | b) & c, (a & ~b) | c, a ^ b]))
    return out


def rows(frame):
    return sorted(map(repr, frame.to_arrow().to_pylist()))


@pytest.fixture(params=FORMATS, scope="module")
def table(request, tmp_path_factory):
    return FORMATS[request.param](tmp_path_factory.mktemp("t") / "t")


@pytest.mark.parametrize("third", range(3))
@pytest.mark.filterwarnings("ignore:Comparisons with None")
def test_polars_gets_the_rows_that_it_would_leave(table, third):
    where = (None, "x > 11 AND s < 'h'", "soundex(s) IS NULL OR x > 4")[third]
    plan = table.plan(where)
    unfiltered = where is not None and "soundex" in where
    sources = {
        "plan": (plan.to_polars(filter=not unfiltered), plan.to_arrow(filter=not unfiltered))
    }
    if where is None:
        sources["table"] = (table.to_polars(), plan.to_arrow())
    for name, (frame, whole) in sources.items():
        expected = pl.DataFrame(whole)
        assert frame.collect_schema() == expected.schema
        for condition in conditions(60)[third::3]:
            found = frame.filter(condition).collect()
            assert rows(found) == rows(expected.filter(condition)), (name, str(condition))


def test_polars_projects_and_limits(table):
    frame, whole = table.plan("x > 3").to_polars(), pl.DataFrame(table.plan("x > 3"))
    for columns in (["x"], ["k", "f"], ["s"]):
        assert rows(frame.select(columns).collect()) == rows(whole.select(columns))
        assert rows(frame.filter(x > 20).select(columns).collect()) == rows(
            whole.filter(x > 20).select(columns)
        )
    assert frame.select(pl.len()).collect().item() == whole.height
    for n, engine in itertools.product((0, 1, 7, 1000), ("in-memory", "streaming")):
        assert frame.head(n).collect(engine=engine).height == min(n, whole.height)
        assert frame.filter(x > 20).head(n).collect(engine=engine).height == min(
            n, whole.filter(x > 20).height
        )
    assert rows(frame.sort("x").tail(3).collect()) == rows(whole.sort("x").tail(3))
    assert rows(frame.slice(2, 4).collect()) == rows(whole.slice(2, 4))
    joined = frame.join(frame.filter(x > 30), on="x").select("x", "s_right").collect()
    assert joined.height == whole.filter(x > 30).height
    assert rows(frame.group_by("k").agg(x.sum()).collect()) == rows(
        whole.group_by("k").agg(x.sum())
    )


def test_polars_counts_rows_of_which_it_reads_no_column(table):
    frame, whole = table.plan("x > 3").to_polars(), pl.DataFrame(table.plan("x > 3")).lazy()
    number = pl.col("number")
    for steps in (
        lambda frame: frame.with_row_index("number").select(pl.len()),
        lambda frame: frame.with_row_index("number").select("number"),
        lambda frame: frame.with_row_index("number").filter(number > 3).select(number.sum()),
        lambda frame: frame.head(3).with_row_index("number").select("number"),
        lambda frame: frame.filter(x > 20).with_row_index("number").select("number"),
    ):
        expected = steps(whole).collect()
        for engine in ("in-memory", "streaming"):
            assert steps(frame).collect(engine=engine).equals(expected)


HEADS = {
    "a filter after it": lambda frame, n: frame.head(n).filter(x % 2 == 0),
    "a filter before it": lambda frame, n: frame.filter(x % 2 == 0).head(n),
    "a filter on both sides": lambda frame, n: frame.filter(s < "h").head(n).filter(x > 3).head(4),
    "columns": lambda frame, n: frame.select("s", "f").head(n).filter(f.is_null()).select("s"),
    "alone": lambda frame, n: frame.head(n),
    "a slice": lambda frame, n: frame.slice(1, n).filter(x > 12),
    "a mean": lambda frame, n: frame.head(n).filter(x >= x.mean()),
}


@pytest.mark.parametrize("steps", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("where", [None, "x > 3", "x > 5 AND s < 'h'", "f IS NULL OR k = 'b'"])
def test_polars_takes_the_first_rows(table, where, steps):
    """A limit takes rows in table order, also where later containers match in full."""
    plan = table.plan(where)
    frames = [plan.to_polars(), *([table.to_polars()] if where is None else [])]
    whole = pl.DataFrame(plan).lazy()
    for n, engine in itertools.product((0, 1, 5, 11, 1000), ("in-memory", "streaming")):
        expected = steps(whole, n).collect()
        for frame in frames:
            assert steps(frame, n).collect(engine=engine).equals(expected), (n, engine)


def test_polars_takes_the_first_rows_of_files_without_counts(tmp_path):
    from tests.support.tables.delta_log import simple

    log = simple(tmp_path / "t", 3)
    for entry in sorted((tmp_path / "t" / "_delta_log").glob("*.json"))[:2]:
        lines = [json.loads(line) for line in entry.read_text().splitlines()]
        for line in lines:
            line.get("add", {}).pop("stats", None)
        entry.write_text("\n".join(map(json.dumps, lines)))
    table = ss.scan_delta(log.folder)
    whole = pl.DataFrame(table.plan())
    assert table.to_polars().head(1).collect().equals(whole.head(1))


PRUNING = [
    x > 38, x >= 38.5, x == 39.0, x.is_in([1, 2]), x.is_between(1, 3), x.eq_missing(12),
    f.is_null() & (x > 30), s.str.starts_with("a"), s == "d12", s.is_in(["d12", None]), ~(s >= "b"),
    (x > 30) & (x % 2 == 0),
    (x > 38) | (s < "b"), ~((x < 38) | x.is_null()),
]  # fmt: skip


@pytest.mark.parametrize("condition", PRUNING, ids=str)
def test_filters_of_polars_prune(tmp_path, monkeypatch, condition):
    table, read = FORMATS["parquet"](tmp_path / "t"), []
    original = ss.Plan.to_batches
    monkeypatch.setattr(
        ss.Plan, "to_batches", lambda self, **how: (read.append(self), original(self, **how))[1]
    )
    for frame in (table.to_polars(), table.plan().to_polars()):
        read.clear()
        frame.filter(condition).collect()
        assert len(read[0].kept) < len(table.plan().kept)


@pytest.mark.parametrize(
    "arguments", [{"limit": 5}, {"order_by": "x DESC", "limit": 5}, {"order_by": "s, x"}]
)
def test_polars_filters_after_a_limit(table, arguments):
    plan = table.plan("x > 3", **arguments)
    whole = pl.DataFrame(plan)
    assert plan.to_polars().collect().equals(whole)
    for condition in (x > 30, s < "e", f.is_nan()):
        assert plan.to_polars().filter(condition).collect().equals(whole.filter(condition))


def test_polars_reads_what_its_filters_leave(tmp_path, monkeypatch):
    table = FORMATS["hive"](tmp_path / "t")
    read = []
    original = ss.Plan.to_batches
    monkeypatch.setattr(
        ss.Plan, "to_batches", lambda self, **how: (read.append(self), original(self, **how))[1]
    )
    frame = ss.polars.scan(tmp_path / "t")
    assert (
        frame.filter((k == "b") & (x > 35) & (s.str.len_chars() > 1)).select("x").collect().height
    )
    (plan,) = read
    assert plan.columns == ["x", "s", "k"]
    assert len(plan.row_groups) == 1 and plan.table.skipped_folders == 1
    assert len(plan.kept) < len(table.plan("k = 'b'").kept)
    read.clear()
    frame.head(2).collect()
    assert len(read[0].kept) == 1
    read.clear()
    table.plan("x > 3").to_polars().filter(x > 35).collect()
    assert len(read[0].kept) < len(table.plan("x > 3").kept)


@pytest.mark.parametrize("name", ["", "*", "^x.*$", "^x1$", "a.b", "`c`", 'q"'])
def test_polars_takes_columns_of_odd_names(tmp_path, name):
    """Some are patterns to Polars, and it renames a column without a name."""
    pq.write_table(pa.table({name: [1, 2, 3], "x1": [4, 5, 6]}), tmp_path / "t.parquet")
    plain = pl.scan_parquet(tmp_path / "t.parquet")
    for frame in (ss.polars.scan(str(tmp_path)), ss.scan(str(tmp_path)).plan().to_polars()):
        assert frame.collect_schema() == plain.collect_schema()
        assert frame.collect().equals(plain.collect())
        for n in (0, 1):
            some = frame.filter(pl.nth(n) > 1 + 3 * n)
            assert some.collect().rows() == [(2, 5), (3, 6)]
            assert some.select(pl.nth(n)).collect().rows() == [(2 + 3 * n,), (3 + 3 * n,)]


def test_polars_takes_the_options_of_scan(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    for n in (1, 2):
        deltalake.write_deltalake(str(tmp_path / "t"), pa.table({"x": [n]}), mode="append")
    assert ss.polars.scan(tmp_path / "t", version=0).collect()["x"].to_list() == [1]
    within = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
    (tmp_path / "p" / "k=07").mkdir(parents=True)
    pq.write_table(pa.table({"x": [3]}), tmp_path / "p" / "k=07" / "0.parquet")
    (tmp_path / "p" / "k=08").mkdir()
    (tmp_path / "p" / "k=08" / "1.parquet").write_bytes(b"damaged")
    options = {"partition_schema": {"k": pa.string()}, "on_error": "keep"}
    frame = ss.polars.scan("p", filesystem=within, **options)
    assert frame.filter(k == "07").collect().rows() == [(3, "07")]


TYPES = {
    "i8": (pa.int8(), [-5, 0, 7, None]),
    "u64": (pa.uint64(), [0, 7, 2**63, None]),
    "i64": (pa.int64(), [-(2**60) - 1, 2**53, 2**53 + 1, None]),
    "f32": (pa.float32(), [0.1, NAN, float("inf"), None]),
    "d": (pa.date32(), [dt.date(1, 1, 1), dt.date(2024, 2, 29), dt.date(9999, 12, 31), None]),
    "t": (pa.timestamp("us"), [dt.datetime(2024, 1, 1, 0, 0, 0, 1), dt.datetime(1969, 1, 1), None]),
    "z": (pa.timestamp("us", "UTC"), [dt.datetime(2024, 1, 1, tzinfo=dt.UTC), None]),
    "ns": (pa.timestamp("ns"), [dt.datetime(2024, 1, 1), dt.datetime(1700, 1, 1), None]),
    "b": (pa.bool_(), [True, False, None]),
    "y": (pa.binary(), [b"a", b"\xff", None]),
    "m": (pa.decimal128(9, 2), [1, -7, None]),
    "c": (pa.dictionary(pa.int32(), pa.string()), ["b", "a", None]),
}


@pytest.mark.parametrize("name", TYPES)
def test_literals_of_every_type(tmp_path, name):
    kind, values = TYPES[name]
    for i, value in enumerate(values):
        rows_ = pa.table({name: pa.array([value] * 3, pa.string() if name == "c" else kind)})
        pq.write_table(rows_.cast(pa.schema([(name, kind)])), tmp_path / f"{i}.parquet")
    table = ss.scan_parquet(tmp_path)
    frame, whole = table.to_polars(), pl.DataFrame(table.plan())
    column = pl.col(name)
    for value in values:
        if value is None:
            continue
        tests = [column == value, column != value, column.is_in([value]), ~column.is_in([value])]
        if name not in ("b", "c"):
            tests += [column > value, column <= value, column.is_between(value, value)]
        if name == "d":
            tests += [column > dt.datetime(2024, 2, 28, 23), column < dt.datetime(2024, 3, 1)]
        if name == "b":
            tests += [column, ~column, column & (column == value)]
        for test in tests:
            assert rows(frame.filter(test).collect()) == rows(whole.filter(test)), str(test)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"Literal": 1}', '{"BinaryExpr": {"op": "Eq"}}',
    '{"Function": {"input": [], "function": {"Boolean": "IsNull"}}}', "[" * 100_000])  # fmt: skip
def test_forms_that_are_not_known_are_unknown(text):
    class Serialised:
        meta = property(lambda self: self)

        def serialize(self, format):
            return text

    node = from_polars(Serialised(), pa.schema([("x", pa.int64())]))
    assert node.op is Op.UNKNOWN


def test_errors_are_our_own(tmp_path):
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "0.parquet")
    frame = ss.scan_parquet(tmp_path).plan("soundex(x) = 'a'").to_polars()
    with pytest.raises(ss.UnsupportedForm, match="filter=False"):
        frame.collect()


@pytest.mark.parametrize("own", [False, True])
def test_a_relation_of_duckdb(table, own):
    plan = table.plan("x > 11")
    relation = plan.to_duckdb(duckdb.connect() if own else None)
    expected = sorted(plan.to_arrow()["x"].to_pylist())
    for _ in range(2):
        assert sorted(v for (v,) in relation.project("x").fetchall()) == expected
        assert (
            len(relation.filter("k = 'b'").fetchall()) == table.plan("x > 11 AND k = 'b'").count()
        )
    unfiltered = plan.to_duckdb(filter=False)
    assert len(unfiltered.fetchall()) == plan.sizes.scan.rows
    assert len(unfiltered.filter("x > 11").fetchall()) == len(expected)


#    a type that the engine lacks      method
LACKED = [
    (pa.decimal256(60, 10),            "to_polars"),
    (pa.decimal256(60, 10),            "to_duckdb"),
    (pa.list_view(pa.int32()),         "to_polars"),
    (pa.float16(),                     "to_duckdb"),
]  # fmt: skip


@pytest.mark.parametrize("kind, method", LACKED)
def test_types_that_an_engine_lacks_name_the_column(tmp_path, kind, method):
    rows = pa.table({"x": [1], "a b": pa.nulls(1, kind)})
    pq.write_table(rows, tmp_path / "t.parquet")
    with pytest.raises(
        ss.UnsupportedForm, match=rf"{method}: .* does not read `a b` of type .*\); "
    ):
        getattr(ss.scan_parquet(tmp_path).plan("x = 1"), method)()
    getattr(ss.scan_parquet(tmp_path).plan("x = 1", columns=["x"]), method)()


def test_duckdb_reads_no_plan_without_columns(tmp_path):
    pq.write_table(pa.table({"x": [1]}).select([]), tmp_path / "t.parquet")
    with pytest.raises(ss.UnsupportedForm, match="does not read a plan without columns"):
        ss.scan_parquet(tmp_path).plan().to_duckdb()


def test_integers_of_duckdb_that_arrow_refuses(tmp_path):
    """DuckDB stores differences of 33 bits between INTEGER values; Arrow (26) allows 32."""
    path = tmp_path / "t.parquet"
    values = [(-1) ** i * (2**31 - 1 - i) for i in range(3000)]
    held = pa.table({"x": pa.array(values, pa.int32())})
    con = duckdb.connect()
    con.register("held", held)
    con.execute(f"COPY held TO '{path}' (FORMAT parquet, PARQUET_VERSION V2)")
    plan = ss.scan_parquet(path).plan("x > 2147483000")
    assert plan.to_arrow(reader="polars")["x"].to_pylist() == [v for v in values if v > 2147483000]
    with contextlib.suppress(pa.ArrowException, OSError):
        pq.read_table(path)
        return
    with pytest.raises(ss.SourceError, match='try reader="polars"'):
        plan.to_arrow(reader="arrow")
