"""Rows that matched a condition before are taken over, and only where they still match."""

import json
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.tables import identity
from skipstone.bindings.tables.parquet.pages import known_rows, row_groups
from skipstone.kernels.run.lru_cache import LruCache
from tests.support.effort import LONG
from tests.support.rows.alike import alike
from tests.support.tables.delta_log import Log, Written, delta_schema
from tests.support.tables.pages import CONDITIONS, compile_loops, table
from tests.support.tables.pages import write as write_pages

TICK = 0.02  # a file system's clock has ticks of at most 10 ms


@pytest.fixture(scope="module", autouse=True)
def _loops():
    compile_loops()


@pytest.fixture(autouse=True)
def kept(monkeypatch):
    """Keep matches, begin with none, and count files as settled at once."""
    monkeypatch.setattr(identity, "UNSETTLED", 0)
    monkeypatch.setenv("SKIPSTONE_KEEP_MATCHES", "1")
    known_rows._recent.clear()


@pytest.fixture
def judged(monkeypatch):
    """Return a list that gets the row counts of all row groups that are judged together."""
    found, inner = [], row_groups.PagedRowGroups.prune

    def counted(self, predicate, history):
        found.append(sum(w.rows for w in self.windows))
        inner(self, predicate, history)

    monkeypatch.setattr(row_groups.PagedRowGroups, "prune", counted)
    return found


def write(path, values, **how):
    data = pa.table({"x": pa.array(values, pa.int64()), "t": [f"{v:05}" for v in values]})
    pq.write_table(data, path, row_group_size=400, max_rows_per_page=50, **how)
    time.sleep(TICK)
    return str(path)


def anew(plan, **how):
    with ss.config.override(keep_matches=False):
        return plan.to_arrow(**how)


def shuffled(n, seed=1):
    return np.random.default_rng(seed).permutation(n)


@pytest.mark.parametrize("reader", ["arrow", "polars"])
@pytest.mark.parametrize(
    "where",
    ["x = 77", "x < 900", "x >= 0", "x < 5 OR t > '00990'", "x IN (1, 2) AND length(t) = 5"],
)
def test_rows_are_judged_once(where, reader, tmp_path, judged):
    path = write(tmp_path / "t.parquet", shuffled(1000))
    for columns in (["t"], ["x", "t"], ["x"]):
        plan = ss.scan_parquet(path).plan(where, columns=columns)
        found = plan.to_arrow(reader=reader)
        assert found.equals(anew(plan)) and found.num_rows
        assert plan.count() == found.num_rows
    # Once, and three times by `anew`; where statistics say ALWAYS, never.
    assert len(judged) == (0 if where == "x >= 0" else 1 + 3)


def test_files_that_are_new_or_changed_are_judged(tmp_path, judged):
    paths = [write(tmp_path / f"{i}.parquet", shuffled(300, i)) for i in range(4)]

    def rows():
        return ss.scan_parquet(paths).plan("x IN (7, 8, 290)").to_arrow()

    before = rows()
    paths.insert(2, write(tmp_path / "new.parquet", shuffled(200, 9)))
    write(paths[0], shuffled(100, 10))
    found = rows()
    known_rows._recent.clear()
    assert found.equals(rows()) and found.num_rows == before.num_rows + 1
    assert judged == [1200, 300, 1200]


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("known_rows_half(x) = 3", 2),
        ("exists(array(x), v -> known_rows_half(v) = 3)", 2),  # within a lambda
        ("transform(array(x, x), v -> abs(known_rows_half(v)))[1] = 3 OR x = 1", 3),
        (f"x IN ({', '.join(map(str, range(0, 2200, 2)))})", 500),
    ],
)
def test_some_conditions_are_judged_each_time(where, count, tmp_path, judged):
    path = write(tmp_path / "t.parquet", shuffled(1000))
    ss.register_function("known_rows_half", lambda x: x // 2, returns=pa.int64())
    for _ in range(2):
        assert ss.scan_parquet(path).plan(where).to_arrow().num_rows == count
    assert len(judged) == 2 and not len(known_rows._recent)


def test_rows_that_are_left_for_others_to_judge_are_not_kept(tmp_path):
    path = write(tmp_path / "t.parquet", shuffled(1000))
    plan = ss.scan_parquet(path).plan("x > 5")
    assert sum(b.num_rows for b in plan.table.tasks(plan, lenient=True).batches()) == 994
    assert not len(known_rows._recent)


def test_memory_is_bounded(tmp_path, monkeypatch):
    path = write(tmp_path / "t.parquet", shuffled(1000))
    monkeypatch.setattr(known_rows, "_recent", LruCache(20 * known_rows.ENTRY_BYTES))
    for x in range(40):
        assert ss.scan_parquet(path).plan(f"x = {x}").to_arrow().num_rows == 1
    assert 1 < len(known_rows._recent) <= 20
    known_rows._recent.clear()
    for x in range(0, 8000, 200):  # lists take memory, too
        where = f"x IN ({', '.join(map(str, range(x, x + 200)))})"
        assert ss.scan_parquet(path).plan(where).to_arrow().num_rows == (200 if x < 1000 else 0)
    assert len(known_rows._recent) <= 3


def versions(folder):
    """Write a Delta table whose only file never changes, but what the log says of it."""
    log = Log(folder, delta_schema("p INT, x INT, y INT"), ["p"], mapping="name")
    rows = [{"p": 1, "x": int(x), "y": 999 - int(x)} for x in shuffled(1000)]
    first = log.written(Written(rows, {"p": "1"}))["add"]
    remove = {"remove": {"path": first["path"], "deletionTimestamp": 1, "dataChange": True}}
    log.commit({"add": first})
    deleted = {"deletionVector": log.vector(list(range(500)))}
    log.commit(remove, {"add": first | deleted})
    log.commit(
        {"remove": remove["remove"] | deleted},
        {"add": first | {"partitionValues": {log.name("p"): "2"}}},
    )
    _, x, y = log.schema["fields"]
    x["metadata"], y["metadata"] = y["metadata"], x["metadata"]  # each names the other's column
    metadata = {"id": "0", "format": {"provider": "parquet", "options": {}}, "createdTime": 1}
    metadata |= {"schemaString": json.dumps(log.schema), "partitionColumns": ["p"]}
    metadata |= {"configuration": {"delta.columnMapping.mode": "name"}}
    stats = {"partitionValues": first["partitionValues"], "stats": None}
    log.commit(remove, {"metaData": metadata}, {"add": first | stats})
    time.sleep(TICK)
    return [ss.scan_delta(folder, version=v) for v in range(1, 5)]


def ask(seed, tables, conditions):
    """Ask each table its conditions three times, in random order; return the numbers of rows."""
    asked = [(t, w) for t, own in enumerate(conditions) for w in own] * 3
    np.random.default_rng(seed).shuffle(asked)
    counts = {}
    for t, w in asked:
        plan = tables[int(t)].plan(w)
        found = plan.to_arrow()
        assert found.equals(anew(plan)), (t, w)
        counts[int(t), w] = found.num_rows
    return counts


@pytest.mark.parametrize("seed", range(3))
def test_what_the_log_says_of_a_file_counts(seed, tmp_path):
    """Deleted rows, partition values and the names of columns are those of each version."""
    tables = versions(tmp_path / "t")
    where = ["x < 300", "x < 300 AND p = 1", "p = 2 OR y = 7", "x + p = 12", "y IN (3, 4, 5)"]
    counts = ask(seed, tables, [where] * 4)
    assert counts[0, "x < 300"] == counts[3, "x < 300"] == 300 > counts[1, "x < 300"] > 0
    assert counts[2, "p = 2 OR y = 7"] == 1000 and counts[0, "x < 300 AND p = 1"] == 300
    assert len(known_rows._recent)


@pytest.mark.parametrize("seed", range(60 if LONG else 2))
@pytest.mark.parametrize("reader", ["arrow", "polars"])
def test_conditions(seed, reader, tmp_path):
    data = table(seed, 2000)
    paths = [str(tmp_path / f"{i}.parquet") for i in range(3)]
    for i, path in enumerate(paths):
        write_pages(path, data.slice(i * 700, 700), seed)
    time.sleep(TICK)
    for where in CONDITIONS:
        few, plan = (ss.scan_parquet(of).plan(where) for of in (paths[1:2], paths))
        some = ss.scan_parquet(paths).plan(where, columns=["u", "k"])
        for one in (few, plan, plan, some):  # one file is known, then all are
            found, expected = one.to_arrow(reader=reader), anew(one, reader=reader)
            assert alike(found, expected), where
    assert len(known_rows._recent) >= 45


@pytest.mark.parametrize("seed", range(3))
def test_what_the_metadata_says_of_a_file_counts(seed, tmp_path):
    """Names and types of columns, new columns and deleted rows are those of each snapshot."""
    types = pytest.importorskip("pyiceberg.types")
    from pyiceberg.schema import Schema

    from tests.support.tables.iceberg_tables import append, make, position_deletes

    fields = [types.NestedField(i + 1, n, types.IntegerType()) for i, n in enumerate("xy")]
    table_ = make(str(tmp_path), Schema(*fields))
    x = pa.array(shuffled(1000), pa.int32())
    table_ = append(table_, pa.table({"x": x, "y": pa.array(999 - x.to_numpy())}), 600)
    places = [table_.metadata_location]
    with table_.update_schema() as update:
        update.rename_column("x", "z")
        update.update_column("x", types.LongType())
        update.rename_column("y", "x")
        update.add_column("p", types.IntegerType())
    places.append(table_.metadata_location)
    path = ss.scan_iceberg(places[0]).plan("x >= 0").files[0]
    places.append(position_deletes(table_, [(path, i) for i in range(400)]).metadata_location)
    time.sleep(TICK)
    tables = [ss.scan_iceberg(p) for p in places]
    where = ["x < 300", "x < 300 AND x <> 7", "x IN (3, 4, 5) OR x > 900"]
    evolved = ["z < 300", "p IS NULL AND x < 300", "z = 7 OR p = 1"]
    counts = ask(seed, tables, [where, [*where, *evolved], [*where, *evolved]])
    assert counts[0, "x < 300"] == counts[1, "x < 300"] == 300 > counts[2, "x < 300"] > 0
    assert counts[1, "p IS NULL AND x < 300"] == 300 and counts[1, "z = 7 OR p = 1"] == 1
    assert len(known_rows._recent)
