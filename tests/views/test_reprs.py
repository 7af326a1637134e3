"""What notebooks show of plans, tables, statistics and predicates: escaped and small."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings import hooks
from skipstone.bindings.html import STYLE
from tests.support.views import plan_over

EVIL = "<script>alert('x')</script>"


def text_of(html):
    """Return the text of a fragment, cells apart."""
    body = html.replace(f"<style>{STYLE}</style>", "")
    return re.sub(r"\s*\|[\s|]*", "|", re.sub(r"<[^>]*>", "|", body)).strip("|")


@pytest.fixture
def path(tmp_path):
    rows = pa.table({"x": range(100), EVIL: ["<b>"] * 100})
    pq.write_table(rows, tmp_path / "t.parquet", row_group_size=10)
    return str(tmp_path / "t.parquet")


def test_a_plan(path):
    plan = ss.scan_parquet(path).plan(f"x >= 15 AND `{EVIL}` = '<b>'")
    shown = text_of(plan._repr_html_())
    assert shown.startswith("Plan|pruned by column statistics|x &gt;= 15 AND `&lt;script&gt;")
    for part in (
        "|read, rows are filtered|",
        "|pruned|1|",
        "|row groups|10|9|90.0|",
        "|rows|100|90|90.0",
    ):
        assert part in shown


def test_a_plan_says_what_never_prunes(path):
    html = ss.scan_parquet(path).plan(f"rand() > 0.5 AND `{EVIL}` LIKE '%<i>'")._repr_html_()
    assert "never prunes: " in html


def test_limits_and_plans_without_a_condition(path):
    table = ss.scan_parquet(path)
    assert "left out: the limit is reached|9" in text_of(table.plan(limit=5)._repr_html_())
    assert "|read|10" in text_of(table.plan()._repr_html_())


def tables(tmp_path, path):
    import deltalake

    from tests.support.tables.iceberg_tables import make

    rows = pa.table({"x": range(10), EVIL: ["<b>"] * 10})
    deltalake.write_deltalake(str(tmp_path / "delta"), rows, partition_by=["x"])
    folder = tmp_path / "hive" / "x=1"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({EVIL: ["<b>"]}), folder / "p.parquet")
    made = make(tmp_path / "iceberg", rows.schema)
    made.append(rows)
    yield ss.scan_parquet(path), "ParquetTable|1 file, 10 row groups|"
    yield ss.scan_delta(str(tmp_path / "delta")), "DeltaTable|version 0, 10 files|"
    yield ss.scan_hive(str(tmp_path / "hive")), f"HiveTable|{tmp_path}/hive, partitioned by x|"
    yield ss.scan_iceberg(made), "IcebergTable|snapshot "


def test_tables_of_every_format(tmp_path, path):
    pytest.importorskip("deltalake")
    pytest.importorskip("pyiceberg")
    for table, start in tables(tmp_path, path):
        work = table.work.bytes
        shown = text_of(table._repr_html_())
        assert shown.startswith(start)
        assert "|&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;|STRING" in shown
        assert ("|partition" in shown) == bool(table.partition_columns)
        assert table.work.bytes == work


def test_types_as_sql_writes_them(tmp_path):
    point = pa.struct([("x", pa.int64()), ("Y", pa.list_(pa.int32()))])
    kinds = {
        "p": (point, "STRUCT&lt;x: BIGINT, Y: ARRAY&lt;INT&gt;&gt;"),
        "l": (pa.large_list(pa.string()), "ARRAY&lt;STRING&gt;"),
        "m": (pa.map_(pa.string(), point), "MAP&lt;STRING, STRUCT&lt;x: BIGINT, Y: ARRAY"),
        "d": (pa.dictionary(pa.int32(), pa.string()), "STRING"),
    }
    rows = pa.schema([(name, kind) for name, (kind, _) in kinds.items()]).empty_table()
    pq.write_table(rows, tmp_path / "t.parquet")
    shown = text_of(ss.scan_parquet(str(tmp_path / "t.parquet"))._repr_html_())
    for name, (_, text) in kinds.items():
        assert f"|{name}|{text}" in shown


def test_secrets_of_a_path_are_not_shown(path):
    table = ss.scan_parquet(path)

    class Remote(type(table)):
        path = "s3://key:secret@bucket/t?token=x"

    table.__class__ = Remote
    assert "secret" not in table._repr_html_()


def test_statistics():
    stats = ss.Statistics.from_dict(
        {"x": {"min": [3, None, 1], "max": [None, None, 9], "null_count": [0, 0, None]}},
        pa.schema([("x", pa.int64()), (EVIL, pa.string())]),
    )
    shown = text_of(stats._repr_html_())
    assert shown.startswith("Statistics|3 containers, 1 column|")
    assert "|x|BIGINT|1|9|2|1|2|" in shown


def test_bounds_read_as_on_a_map():
    low = {
        "b": pa.array([True]),
        "f": pa.array([1e15]),
        "t": pa.array([0], pa.timestamp("us", "UTC")),
        "r": pa.array([b"\x00\xff"]),
        "s": pa.array(["<b>"]),
        "late": pa.array([2**62]).cast(pa.timestamp("us")),  # beyond the years of Python
        "days": pa.array([2**30], pa.int32()).cast(pa.date32()),
    }
    schema = pa.schema([(name, values.type) for name, values in low.items()])
    stats = ss.Statistics.from_dict({name: {"min": v} for name, v in low.items()}, schema)
    shown = text_of(stats._repr_html_())
    for part in (
        "|b|BOOLEAN|true|",
        "|f|DOUBLE|1e+15|",
        "|t|TIMESTAMP|1970-01-01|",
        "|r|BINARY|X&#x27;00ff&#x27;|",
        "|s|STRING|&lt;b&gt;|",
        "|late|TIMESTAMP_NTZ|4,611,686,018,427,387,904 us since 1970|",
        "|days|DATE|1,073,741,824 days since 1970|",
    ):
        assert part in shown


def test_predicates():
    schema = pa.schema([("x", pa.int64()), ("s", pa.string())])
    shown = text_of(ss.PruningPredicate("x > 5 AND s = '<b>'", schema)._repr_html_())
    assert "|condition|x &gt; 5 AND s = &#x27;&lt;b&gt;&#x27;|prunes unless|" in shown
    assert "|columns|x (BIGINT), s (STRING)" in shown
    never = text_of(ss.PruningPredicate("nothing(x) > '<b>'", schema)._repr_html_())
    assert "no statistics can prune by this condition|not understood: " in never
    assert "<b>" not in never


def test_long_conditions_stay_short():
    schema = pa.schema([("x", pa.int64())])
    texts = (
        f"x IN ({', '.join(map(str, range(0, 40_000, 2)))})",
        " OR ".join(f"x + {k} > {k * k}" for k in range(700)),
        f"x IN ({', '.join(map(str, range(0, 20, 2)))})" + " AND x <> 9" * 100,
    )
    for text in texts:
        predicate = ss.PruningPredicate(text, schema)
        assert len(predicate._repr_html_()) < 9000


def test_large_statistics_are_not_decoded():
    n = 200_000

    class Columns:
        def __getitem__(self, key):
            raise AssertionError("a column was decoded")

    stats = ss.Statistics.from_dict({"x": {"min": np.arange(n)}}, pa.schema([("x", pa.int64())]))
    stats._raw = type("Mapping", (), {
        "__iter__": lambda self: iter([("x",)]), "__getitem__": Columns.__getitem__,
        "__len__": lambda self: 1, "get": Columns.__getitem__,
    })()  # fmt: skip
    assert "|x|BIGINT|" in text_of(stats._repr_html_()) + "|"


def test_ten_million_containers_are_not_judged_again(monkeypatch):
    n = 10_000_000
    low = np.arange(n)
    low.setflags(write=False)
    schema = pa.schema([(f"c{k}", pa.int64()) for k in range(50)])
    bounds = {f"c{k}": {"min": low, "max": low} for k in range(50)}
    stats = ss.Statistics.from_dict(bounds, schema)
    plan = plan_over(stats, "c0 > 5 AND c49 < 100")
    monkeypatch.setattr(ss.PruningPredicate, "evaluate", None)
    monkeypatch.setattr(ss.PruningPredicate, "prune", lambda *args: plan.verdicts > 0)  # of sizes
    for shown in (stats, plan, plan.predicate):
        html = shown._repr_html_()
        assert html is not None and len(html) < 9000


def test_a_failure_falls_back_to_text(path, monkeypatch):
    monkeypatch.setitem(hooks.HOOKS, "HTML of plan", "views.reprs:no_such_function")
    plan = ss.scan_parquet(path).plan()
    assert plan._repr_html_() is None
    assert repr(plan).startswith("Plan(")
