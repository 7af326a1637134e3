"""Advice: the best layout is found, predictions hold, and everything odd is said."""

import datetime as dt
import decimal
import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.layout.candidates import judge
from skipstone.bindings.layout.rows import RowColumn, Rows
from skipstone.bindings.layout.simulate import Layout, cut, ordered, simulate, statistics_of
from skipstone.bindings.layout.statements import statements_for
from skipstone.bindings.layout.workload import workload_of

N = 20_000
R = np.random.default_rng(5)
ROWS = pa.table(
    {
        "id": pa.array(np.arange(N)),
        "user": pa.array(R.integers(0, 5000, N)),
        "day": pa.array((R.integers(0, 365, N) + 18_262).astype(np.int32)).cast(pa.date32()),
        "country": pa.array(R.choice(["at", "be", "ch", "de"], N)),
        "price": pa.array(np.where(R.random(N) < 0.1, None, R.normal(0, 1, N)), pa.float64()),
        "fixed": pa.array(["same"] * N),
    }
)  # fmt: skip
WORKLOAD = ["user = 17", "user BETWEEN 100 AND 120", "user = 4000", "day = DATE '2020-05-05'"]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("t") / "t.parquet"
    pq.write_table(ROWS, path, row_group_size=500)
    return ss.scan_parquet(path)


@pytest.mark.parametrize("sample", [False, True, 4000])
def test_the_column_that_most_queries_name_comes_first(table, sample):
    advice = table.advise(WORKLOAD, sample=sample)
    assert advice.current.share > 0.9
    assert advice.best is not None
    assert "user" in advice.best.keys
    assert advice.best.share < 0.3
    assert advice.best.share <= min(c.share for c in advice.candidates if c.runnable) * 1.03
    assert [q.columns for q in advice.queries][-1] == ("day",)
    assert advice.statements[0].engine == "DuckDB"


def test_rows_are_sampled_if_that_is_cheap(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    pq.write_table(ROWS, path, row_group_size=500)
    table = ss.scan_parquet(path)
    advice = table.advise(WORKLOAD)
    assert advice.source == "all rows" and not any("No rows" in line for line in advice.limits)
    assert table.advise(WORKLOAD, sample=False).source == "statistics"
    with monkeypatch.context() as patch:
        patch.setattr("skipstone.bindings.layout.advise.MAX_SAMPLE_BYTES", 1000)
        advice = table.advise(WORKLOAD)
    assert advice.source == "statistics"
    assert any(line.startswith("No rows were sampled: it would read") for line in advice.limits)
    path.unlink()
    advice = table.advise(WORKLOAD)
    assert advice.source == "statistics" and advice.best is not None
    assert any("No rows were sampled" in line and "t.parquet" in line for line in advice.limits)
    with pytest.raises(ss.SourceError):
        table.advise(WORKLOAD, sample=True)


@pytest.mark.parametrize("sample", [None, True, False])
def test_columns_without_an_order_are_not_sampled(sample, tmp_path):
    pq.write_table(pa.table({"a": [[1], [2]]}), tmp_path / "t.parquet")
    advice = ss.scan_parquet(tmp_path).advise(["array_contains(a, 3)"], sample=sample)
    assert advice.source == "statistics" and advice.best is None


def test_containers_read_together_give_the_same_sample(table, monkeypatch):
    together = table.advise(WORKLOAD, sample=3000)
    monkeypatch.setattr("skipstone.bindings.layout.rows.MAX_SAMPLE_BYTES", 0)
    assert table.advise(WORKLOAD, sample=3000).to_dict() == together.to_dict()


def test_predictions_hold_when_the_rows_are_sorted(table, tmp_path):
    for sample in (False, True):
        advice = table.advise(WORKLOAD, sample=sample)
        best = next(c for c in advice.candidates if c.label == "sort by user, day")
        path = tmp_path / f"{sample}.parquet"
        pq.write_table(ROWS.sort_by([("user", "ascending"), ("day", "ascending")]), path,
                       row_group_size=500)  # fmt: skip
        after = ss.scan_parquet(path)
        left = [len(after.plan(q).kept) / 40 for q in WORKLOAD]
        assert 1 - np.mean(left) >= 0.8 * best.pruned
        assert np.mean(left) <= best.share + 0.1


def test_a_sample_of_all_rows_predicts_exactly(table, tmp_path):
    advice = table.advise(WORKLOAD, sample=N)
    assert advice.source == "all rows"
    for label, keys in (("sort by user", ["user"]), ("sort by day, user", ["day", "user"])):
        path = tmp_path / f"{label}.parquet"
        pq.write_table(ROWS.sort_by([(k, "ascending") for k in keys]), path, row_group_size=500)
        after = ss.scan_parquet(path)
        predicted = next(c for c in advice.candidates if c.label == label)
        assert predicted.shares == tuple(len(after.plan(q).kept) / 40 for q in WORKLOAD)


@pytest.mark.parametrize("sample", [True, False])
def test_files_that_may_hold_nan_are_read(tmp_path, sample):
    """Parquet files count no NaN, which Spark orders above every number."""
    workload = ["f > 100", "f < -100", "f BETWEEN 100 AND 150", "f <> 0"]
    rows = pa.table({"f": np.random.default_rng(1).normal(0, 100, 10_000)})
    (tmp_path / "t").mkdir()
    pq.write_table(rows, tmp_path / "t" / "t.parquet", row_group_size=500)
    advice = ss.scan_parquet(tmp_path / "t").advise(workload, sample=sample)
    (predicted,) = [c.shares for c in advice.candidates if c.label == "sort by f"]
    pq.write_table(rows.sort_by("f"), tmp_path / "sorted.parquet", row_group_size=500)
    after = ss.scan_parquet(tmp_path / "sorted.parquet")
    read = [len(after.plan(q).kept) / 20 for q in workload]
    assert np.abs(np.array(predicted) - read).max() < (0.06 if sample else 0.5)
    assert [read[0], read[3]] == [predicted[0], predicted[3]] == [1, 1]


def test_searches_count_the_bloom_filters_that_duckdb_writes(tmp_path):
    """Lines of one order have one customer, so row groups of some days hold few customers."""
    duckdb = pytest.importorskip("duckdb")
    order = np.arange(40_960) // 10
    rows = pa.table({"day": order // 16, "customer": order * 7919 % 1000, "price": order % 97.5})
    folder = tmp_path / "t"
    folder.mkdir()
    mixed = rows.take(pa.array(R.permutation(len(order))))
    pq.write_table(mixed, folder / "t.parquet", row_group_size=4096)
    workload = ["customer = 17", "customer IN (400, 801)", "day BETWEEN 10 AND 20", "price = 3.5"]
    for sample in (len(order), 8000):
        advice = ss.scan_parquet(folder).advise(workload, sample=sample)
        assert advice.best is not None and advice.best.keys[0] == "day"
        layout = Layout("sort", (("day",),))
        (made, *_) = statements_for(
            layout, "parquet", path=str(folder), name=None, files=[str(folder / "t.parquet")],
            rows_per_group=4096, file_bytes=1 << 20,
        )  # fmt: skip
        with duckdb.connect(config={"threads": 1}) as connection:
            connection.execute(made.sql)
        after = ss.scan_parquet(tmp_path / "t-clustered")
        left = [len(after.plan(q).kept) / len(after.plan().verdicts) for q in workload]
        shutil.rmtree(tmp_path / "t-clustered")
        (predicted,) = [c.shares for c in advice.candidates if c.label == "sort by day"]
        assert left[0] < 0.5 and np.abs(np.array(predicted) - left).max() < 0.25
    assert any("bloom filters that DuckDB writes" in limit for limit in advice.limits)


def test_bounds_of_text_are_cut_as_the_format_cuts_them():
    words = pa.array([f"https://example.org/{i:04}" for i in range(1000)])
    rows = Rows({("s",): RowColumn(words, np.arange(1000))}, 1000, 1.0, True, "all rows")
    schema = pa.schema([("s", pa.string())])
    workload = workload_of(["s = 'https://example.org/0007'"], schema)
    shares = {
        format: judge(rows, workload, schema, containers=10, files=10, format=format)[0].mean
        for format in ("parquet", "delta", "iceberg")
    }
    assert shares == {"parquet": 0.1, "delta": 0.1, "iceberg": 1.0}  # 16 characters are alike


def test_no_layout_is_advised_where_none_helps(table):
    advice = table.advise(["id BETWEEN 100 AND 200", "id = 5"])
    assert advice.best is None and advice.statements == ()
    assert "Keep the current layout" in str(advice)
    advice = table.advise(["upper(country) LIKE '%X%' OR rand() > 0.5"])
    assert advice.best is None
    assert advice.queries[0].note.startswith("cannot prune")


def test_without_a_workload_columns_are_ranked(table):
    advice = table.advise()
    assert not advice.has_workload
    assert "No workload" in str(advice)
    assert {c for q in advice.queries for c in q.columns} >= {"id", "user", "day"}


def test_what_was_not_used_is_shown(table):
    advice = table.advise("nosuch = 1\nuser = 3\nSELECT a FROM b")
    assert [text for text, _ in advice.unread] == ["SELECT a FROM b", "nosuch = 1"]
    for text in (str(advice), advice.to_json(), advice.to_html()):
        assert "nosuch" in text


def test_small_partitions_are_named(table):
    advice = table.advise(["country = 'at'"], sample=True)
    (found,) = [c for c in advice.candidates if c.label == "partition by country"]
    assert found.partition_bytes == advice.bytes // len(ROWS["country"].unique())
    shown = [line for line in str(advice).splitlines() if line.startswith("partition by country")]
    assert all("small partitions: " in line for line in shown) and shown
    assert all(c.partition_bytes is None for c in advice.candidates if c.kind != "partition")


def test_sizes_are_those_of_one_query(table):
    once, twice = table.advise(["user = 17"]), table.advise(["user = 17"] * 10)
    assert 10 * once.current.bytes == pytest.approx(twice.current.bytes, rel=1e-3)
    rows = [next(r for r in str(a).splitlines() if "current layout" in r) for a in (once, twice)]
    assert rows[0] == rows[1]


def test_the_report_in_all_forms(table):
    advice = table.advise(["user = 17 AND country <> '<b>'"])
    found = json.loads(advice.to_json())
    assert found["best"]["keys"][0] == "user"
    assert found["clustering"]["user"]["total_partition_count"] == 40
    assert found["statements"][0]["sql"].startswith("COPY")
    page = advice.to_html()
    assert page.startswith("<!doctype html>") and "&lt;b&gt;" in page and "<b>" not in page
    assert "http" not in page
    assert advice._repr_html_().startswith('<div class="skipstone"')
    for part in ("Layouts, predicted", "Workload", "Current clustering", "To run in DuckDB"):
        assert part in str(advice) and part in page


def test_a_table_whose_containers_are_files_has_one_column_of_them(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    for k in range(4):
        deltalake.write_deltalake(tmp_path, ROWS[k::4], mode="append")
    text = str(ss.scan(tmp_path).advise(["user = 17"]))
    heading = next(line for line in text.splitlines() if line.startswith("layout "))
    assert heading.split("  ")[0] == "layout" and heading.count("files read") == 1
    assert heading.rstrip().endswith("of table  files read")


def test_problems_are_named(tmp_path):
    words = pa.table({"s": ["x" * 40 + str(i % 9) for i in range(1000)], "y": list(range(1000))})
    pq.write_table(words.slice(0, 500), tmp_path / "0.parquet", write_statistics=False)
    pq.write_table(words.slice(500), tmp_path / "1.parquet", row_group_size=100)
    advice = ss.scan_parquet(tmp_path).advise(["s = 'a'", "y = 5"])
    said = "\n".join(advice.problems)
    assert "y: no bounds in 1 of 6 row groups" in said
    assert "2 of 2 files are smaller than 96 MiB" in said
    assert "no NULL counts in 1 of 6" in said


def test_bounds_that_writers_cut_are_named(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    for i in range(3):
        rows = pa.table({"s": [f"{'x' * 40}{i}{j}" for j in range(10)]})
        deltalake.write_deltalake(tmp_path, rows, mode="append")
    advice = ss.scan_delta(tmp_path).advise(["s = 'a'"])
    cut = [p for p in advice.problems if "end after" in p]
    stats = ss.scan_delta(tmp_path).statistics.get("s", "min")[0].as_py()
    assert bool(cut) == (len(stats) in (16, 32, 64))


def test_empty_and_odd_tables(tmp_path):
    pq.write_table(ROWS.slice(0, 0), tmp_path / "t.parquet")
    advice = ss.scan_parquet(tmp_path).advise(["user = 1"])
    assert advice.best is None and str(advice)
    with pytest.raises(ss.PredicateError, match="sample is -1"):
        ss.scan_parquet(tmp_path).advise(["user = 1"], sample=-1)
    with pytest.raises(ss.PredicateError, match="target_bytes"):
        ss.scan_parquet(tmp_path).advise(["user = 1"], target_bytes=0)


def test_partitioned_tables_keep_their_partitions(tmp_path):
    for country in ("at", "be"):
        (tmp_path / f"country={country}").mkdir()
        mine = ROWS.filter(pa.compute.equal(ROWS["country"], country)).drop_columns("country")
        pq.write_table(mine, tmp_path / f"country={country}" / "0.parquet", row_group_size=500)
    advice = ss.scan_hive(tmp_path).advise(["user = 17", "country = 'at' AND user < 50"])
    assert advice.format == "hive"
    assert advice.best is not None
    assert advice.best.label == "sort by user within country"
    assert 'PARTITION_BY ("country")' in advice.statements[0].sql


#    values of a column, a search that partitions would serve, and whether folders keep the values
FOLDERS = [
    (["at", "007"], "k = 'at'", True),
    (["007", "008"], "k = '007'", False),  # Spark reads the folder's name as 7
    (["2024-01-01", "2024-01-02"], "k = '2024-01-01'", False),
    (["x", ""], "k = 'x'", False),
    (["p" * 200 + "a", "p" * 200 + "b"], "k LIKE '%a'", False),
    ([1, 2], "k = 1", True),
    ([dt.date(2024, 1, 1), dt.date(2024, 1, 2)], "k = DATE'2024-01-01'", True),
    ([decimal.Decimal("1.50"), decimal.Decimal("2.00")], "k = 1.5", False),
    ([dt.datetime(2024, 1, 1, 0, 0, 1), dt.datetime(2024, 1, 2)], "k < '2024-01-02'", False),
]


@pytest.mark.parametrize(
    "values, where, kept", FOLDERS, ids=[str(v[0])[:12] for v, _, _ in FOLDERS]
)
def test_partitions_are_advised_if_folders_keep_the_values(tmp_path, values, where, kept):
    rows = pa.table({"k": values * 5000, "v": range(10_000)})
    pq.write_table(rows, tmp_path / "t.parquet", row_group_size=100)
    advice = ss.scan_parquet(tmp_path).advise([where], sample=True)
    assert any(c.kind == "partition" for c in advice.candidates) == kept


SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.int64())])


def rows_of(**columns):
    made = {}
    for name, values in columns.items():
        distinct = sorted({v for v in values if v is not None})
        codes = [-1 if v is None else distinct.index(v) for v in values]
        made[(name,)] = RowColumn(pa.array(distinct, pa.int64()), np.array(codes))
    count = len(next(iter(columns.values())))
    return Rows(made, count, 1.0, True, "all rows")


def test_cut_gives_each_partition_a_container():
    assert cut(np.zeros(10, np.int64), 3).tolist() == [0, 3, 6]
    assert cut(np.array([0] * 8 + [1, 2]), 4).tolist() == [0, 2, 5, 8, 9]
    assert cut(np.zeros(2, np.int64), 9).tolist() == [0, 1]


def test_statistics_of_ordered_rows():
    rows = rows_of(a=[3, 1, None, 2], b=[None, 5, None, 9])
    layout = Layout("sort", (("a",),))
    order, groups = ordered(rows, layout)
    assert order.tolist() == [1, 3, 0, 2]
    stats = statistics_of(rows, order, cut(groups, 2), layout, SCHEMA)
    assert stats.get("a", "min").to_pylist() == [1, 3]
    assert stats.get("a", "null_count").to_pylist() == [0, 1]
    assert stats.get("b", "max").to_pylist() == [9, None]


def test_bounds_of_a_sample_are_widened():
    r = np.random.default_rng(1)
    a, b = r.permutation(1000), r.permutation(1000)
    whole = rows_of(a=a.tolist(), b=b.tolist())
    part = Rows(whole.columns, 1000, 0.001, False, "a sample")
    layout = Layout("sort", (("a",),))
    for rows, wider in ((whole, False), (part, True)):
        order, groups = ordered(rows, layout)
        stats = statistics_of(rows, order, cut(groups, 10), layout, SCHEMA)
        assert stats.get("a", "min").to_pylist() == list(range(0, 1000, 100))  # the key is not
        b_min = np.mean(stats.get("b", "min").to_pylist())
        assert (b_min < 5) == wider


def test_the_simulation_never_says_less_than_the_rows():
    rows = rows_of(a=R.integers(0, 50, 400).tolist(), b=R.integers(0, 50, 400).tolist())
    workload = workload_of(["a = 7", "b > 45 AND a < 10", "b IS NULL"], SCHEMA)
    for layout in (Layout("sort", (("b",),)), Layout("hilbert", (("a",), ("b",)))):
        found = simulate(rows, layout, workload, 8, SCHEMA)
        order, _ = ordered(rows, layout)
        a, b = (rows.columns[(c,)].values.to_numpy()[rows.columns[(c,)].codes[order]] for c in "ab")
        container = np.repeat(np.arange(8), found.rows)
        for i, match in enumerate((a == 7, (b > 45) & (a < 10))):
            assert found.kept[i][np.unique(container[match])].all()
        assert not found.kept[2].any()
        assert found.shares[2] == 0


def test_judge_ranks_by_what_is_read():
    rows = rows_of(a=R.integers(0, 50, 3200).tolist(), b=R.integers(0, 50, 3200).tolist())
    workload = workload_of(["a = 7", "a = 9", "b = 3"], SCHEMA)
    found = judge(rows, workload, SCHEMA, containers=40, files=4)
    assert found[0].mean <= found[-1].mean
    assert {j.layout.kind for j in found} >= {"sort", "zorder", "hilbert"}
    assert judge(rows, workload_of([], SCHEMA), SCHEMA, containers=40, files=4) == []


def test_without_a_workload_the_first_columns_of_a_wide_table_are_tried(tmp_path):
    names = [f"c{i}" for i in range(40)]
    (tmp_path / "day=1").mkdir()
    wide = pa.table({name: np.arange(100) + i for i, name in enumerate(names)})
    pq.write_table(wide, tmp_path / "day=1" / "a.parquet", row_group_size=25)
    advice = ss.scan(tmp_path).advise()
    searched = {name for q in advice.queries for name in q.columns}
    assert searched <= {*names[:32], "day"} and "c31" in searched
    assert "not the other 8;" in advice.limits[0]
    assert "not the other" not in str(ss.scan(tmp_path).advise(["c39 = 50"]))


def test_one_row_group_of_no_rows_needs_no_smaller_ones(tmp_path):
    for rows, said in ((0, False), (10, True)):
        pq.write_table(pa.table({"x": pa.array(range(rows), pa.int64())}), tmp_path / "a.parquet")
        text = str(ss.scan(tmp_path).advise())
        assert ("1 row group in 1 file, up to 10 rows each: smaller" in text) == said
