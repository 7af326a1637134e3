"""Each container of a plan is in one group: of the first conjunct that prunes it, or a decision."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.views.groups import MAX_CONJUNCTS, groups_of
from skipstone.bindings.views.map import Map
from tests.support.views import plan_over

SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.int64())])
STATS = ss.Statistics.from_dict(
    {
        "x": {"min": [0, 10, 20, 30], "max": [9, 19, 29, 39], "null_count": [0] * 4},
        "y": {"min": [0, 0, 5, 5], "max": [4, 4, 9, 9], "null_count": [0] * 4},
    },
    SCHEMA,
    row_count=[100] * 4,
)
LIMIT = "left out: the limit is reached"
FILTER, WHOLE, NONE = "read, rows are filtered", "read, every row matches", "there is no condition"

#    condition                         limit  groups, and the group of each container
CASES = [
    (None,                             None,  [f"read: {NONE}"],                    [0, 0, 0, 0]),
    ("x >= 15",                        None,  ["x >= 15", FILTER, WHOLE],           [0, 1, 2, 2]),
    ("x >= 15 AND y > 6",              None,  ["x >= 15", "y > 6", FILTER],         [0, 1, 2, 2]),
    ("y > 6 AND x >= 15",              None,  ["y > 6", FILTER],                    [0, 0, 1, 1]),
    ("x >= 10 AND x < 30",             None,  ["x >= 10", "x < 30", WHOLE],         [0, 2, 2, 1]),
    ("x >= 0",                         100,   [LIMIT, WHOLE],                     [1, 0, 0, 0]),
    ("x > 99",                         None,  ["x > 99"],                           [0, 0, 0, 0]),
    ("x < 5 OR y > 8",                 None,  ["x < 5 OR y > 8", FILTER],           [1, 0, 1, 1]),
]  # fmt: skip


@pytest.mark.parametrize(("where", "limit", "texts", "of"), CASES)
def test_groups(where, limit, texts, of):
    groups = groups_of(plan_over(STATS, where, limit))
    assert ([g.text for g in groups.groups], groups.of.tolist()) == (texts, of)
    assert [g.count for g in groups.groups] == np.bincount(groups.of).tolist()


def test_keys_of_a_join_and_partition_values(tmp_path):
    for k in range(2):
        (tmp_path / f"k={k}").mkdir()
        rows = pa.table({"x": range(10 * k, 10 * k + 10)})
        pq.write_table(rows, tmp_path / f"k={k}" / "p.parquet", row_group_size=5)
    table = ss.scan_parquet(str(tmp_path))
    collector = ss.DynamicFilterCollector(["x"], pa.schema([("x", pa.int64())]))
    collector.add(pa.table({"x": [3, 12]}))
    groups = groups_of(table.plan("x < 15", dynamic=collector.finish()))
    assert [g.text for g in groups.groups] == ["x < 15", "keys of a join", FILTER]
    assert groups.of.tolist() == [2, 1, 2, 0]
    # By partition values alone, the other conjunct rules out nothing.
    groups = groups_of(table.plan("x > 100 AND k = 1", stats_skipping=False))
    assert [(g.text, g.count) for g in groups.groups] == [("k = 1", 2), (FILTER, 2)]


def test_transformed_partition_values_are_attributed_to_their_conjunct(tmp_path):
    pytest.importorskip("pyiceberg")
    from pyiceberg.transforms import BucketTransform

    from tests.support.tables.iceberg_tables import append, make

    made = make(tmp_path, SCHEMA)
    with made.update_spec() as update:
        update.add_field("x", BucketTransform(8), "bucket")
    rows = pa.table({"x": range(100), "y": [1] * 100}, schema=SCHEMA)
    plan = ss.scan_iceberg(append(made.refresh(), rows)).plan("y > 0 AND x = 57")
    groups = groups_of(plan)
    assert [g.text for g in groups.groups] == ["x = 57", FILTER]
    assert groups.groups[1].count == len(plan.kept) == 1


def test_conjuncts_beyond_the_colours_share_one():
    n = MAX_CONJUNCTS + 3
    schema = pa.schema([(f"c{k}", pa.int64()) for k in range(n)])
    # Container k is pruned by conjunct k; the first conjunct prunes one more.
    highs = {f"c{k}": {"min": [0] * (n + 1), "max": [9] * (n + 1)} for k in range(n)}
    for k in range(n):
        highs[f"c{k}"]["max"][k] = 0
    highs["c0"]["max"][n] = 0
    stats = ss.Statistics.from_dict(highs, schema)
    groups = groups_of(plan_over(stats, " AND ".join(f"c{k} > 5" for k in range(n))))
    assert [g.count for g in groups.groups] == [2] + [1] * (MAX_CONJUNCTS - 1) + [3]
    assert groups.groups[-1].text == "3 other conjuncts"
    assert len(groups.conjuncts) == n


def test_the_marks_of_a_picture_stand_for_every_container():
    rng = np.random.default_rng(1)
    n = 20_000
    x, y = rng.integers(0, 10**6, n), rng.integers(0, 10**6, n)
    unknown = rng.random(n) < 0.1
    stats = ss.Statistics.from_dict(
        {
            "x": {"min": pa.array(x, mask=unknown), "max": pa.array(x + 1000, mask=unknown)},
            "y": {"min": y, "max": y + 5},
        },
        SCHEMA,
        row_count=[100] * n,
    )
    plan = plan_over(stats, "x < 500000 AND y < 100000")
    picture = Map(plan).picture
    by_group = [g["count"] for g in picture["groups"]]
    assert sum(by_group) == n
    assert picture["kept"] == len(plan.kept)
    for column in picture["columns"]:
        counted = np.zeros(len(by_group), np.int64)
        for marks in (column["marks"], column["margins"]):
            np.add.at(counted, marks["group"], marks["count"])
        assert counted.tolist() == by_group
    strip = picture["strip"]
    assert [sum(counts) for counts in strip["whole"]] == by_group
    judged = [plan.predicate.part(part).evaluate(stats) for part in plan.predicate.node.args]
    for row, verdicts in zip(strip["rows"], judged, strict=True):
        assert (sum(row["never"]), sum(row["always"])) == (
            (verdicts == 0).sum(),
            (verdicts == 2).sum(),
        )
    # A cell of the grid counts the containers whose rectangle covers it.
    cover = picture["boxes"]["cover"]
    assert max(max(counts) for counts in cover["counts"]) <= n
    assert picture["boxes"]["count"] == n


def test_names_are_those_of_files_and_row_groups(tmp_path):
    for name in ("a", "b"):
        pq.write_table(pa.table({"x": range(30)}), tmp_path / f"{name}.parquet", row_group_size=10)
    picture = Map(ss.scan_parquet(str(tmp_path)).plan("x > 5")).picture
    assert picture["folder"] == f"{tmp_path}/"
    assert picture["paths"] == ["a.parquet", "b.parquet"]
    assert picture["names"] == {k: [k // 3, k % 3] for k in range(6)}


def test_a_map_reads_nothing_more(tmp_path):
    path = str(tmp_path / "t.parquet")
    columns = {"x": list(range(100)), "s": [f"k{k:03}" for k in range(100)]}
    pq.write_table(pa.table(columns), path, row_group_size=10, bloom_filter_options={"s": True})
    table = ss.scan_parquet(path)
    plan = table.plan("s = 'k0425' AND x > 3")
    read = plan.table.work.bytes
    made = Map(plan, ["s", "x"])
    groups = [(g["text"], g["count"]) for g in made.picture["groups"]]
    assert groups == [("s = 'k0425'", 10)]
    (tmp_path / "t.parquet").unlink()
    assert "k0425" in made.to_html()
    assert plan.table.work.bytes == read
