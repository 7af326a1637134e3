"""Hive tables: which folders are listed and footers read, without losing a row."""

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.plans.work import Meter
from skipstone.bindings.tables.hive.tree import Tree
from tests.support.tables.lazy import Spy, write, years

INTS = {"year": pa.int32(), "month": pa.int32()}


def rows(table):
    return sorted(map(tuple, table.to_pandas().itertuples(index=False)))


#     predicate                         folders listed   footers   rows
LAZY = [
    ("year = 2021", 3 + 1 + 2, 2, 20),
    ("year = 2021 AND month = 2", 3 + 1 + 1, 1, 10),
    ("month = 2", 3 + 2 + 3, 3, 30),
    ("year > 2030", 3, 0, 0),
    ("year IS NULL", 3, 0, 0),
    ("x >= 55", 3 + 2 + 6, 6, 5),
    ("year = 2021 OR x = 0", 3 + 2 + 6, 6, 21),
    ("year = 2021 AND x < 25", 3 + 1 + 2, 2, 5),
    (None, 3 + 2 + 6, 6, 60),
    ("1 = 2", 3, 0, 0),
]


@pytest.mark.parametrize("where, folders, footers, found", LAZY, ids=[str(c[0]) for c in LAZY])
def test_only_what_may_match_is_read(tmp_path, where, folders, footers, found):
    table = ss.scan_hive(
        years(tmp_path), partition_schema=INTS, schema=pa.schema([("x", pa.int64())])
    )
    assert (table.work["folders"], table.work["footers"]) == (
        3,
        0,
    )  # only the folders on the way to the first file
    plan = table.plan(where)
    assert (table.work["folders"], table.work["footers"]) == (folders, footers)
    assert plan.to_arrow().num_rows == found
    assert rows(plan.to_arrow()) == rows(plan.unpruned().to_arrow())
    before = table.work
    assert table.plan(where).to_arrow().num_rows == found
    assert (table.work - before)["folders"] == (table.work - before)["footers"] == 0


def test_broken_folders_that_cannot_match_are_never_listed(tmp_path):
    years(tmp_path)
    (tmp_path / "year=2022" / "month=1" / "part.parquet").write_text("none of Parquet's")
    (tmp_path / "year=2020" / "month=1" / "deeper=1").mkdir()
    spy = Spy()
    table = ss.scan_hive(
        str(tmp_path),
        partition_schema=INTS,
        schema=pa.schema([("x", pa.int64())]),
        filesystem=spy.filesystem,
    )
    spy.listed.clear(), spy.opened.clear()
    assert table.plan("year = 2021 AND month = 1").to_arrow()["x"].to_pylist() == list(
        range(20, 30)
    )
    assert not [p for p in (*spy.listed, *spy.opened) if "2022" in p or "month=2" in p]
    with pytest.raises(ss.SourceError, match=r"month=1/part\.parquet: not a whole Parquet file"):
        table.plan("year = 2022")
    kept = ss.scan_hive(tmp_path, on_error="keep").plan("year = 2022 AND x = 999")
    assert [f[-len("month=1/part.parquet") :] for f in kept.files] == ["month=1/part.parquet"]


def test_inference_lists_folders_but_no_files(tmp_path):
    table = ss.scan_hive(years(tmp_path), schema=pa.schema([("x", pa.int64())]))
    assert [str(table.schema.field(n).type) for n in ("year", "month")] == ["int32", "int32"]
    assert (table.work["files"], table.work["footers"]) == (0, 0)
    assert ss.scan_hive(tmp_path, infer_types=False).schema.field("year").type == pa.string()


def test_folders_of_mixed_types_are_listed_until_one_holds_a_file(tmp_path):
    for folder in ("k=1/a=1", "k=1/a=2", "k=2/a=x", "k=2/a=y", "k=old/a=1", "k=old/a=z"):
        (tmp_path / folder).mkdir(parents=True)
        if "old" not in folder:
            pq.write_table(pa.table({"x": [1]}), tmp_path / folder / "part.parquet")
    table = ss.scan_hive(tmp_path, schema=pa.schema([("x", pa.int64())]))
    assert [str(table.schema.field(n).type) for n in ("k", "a")] == ["int32", "string"]
    assert (table.work["files"], table.work["footers"]) == (2, 0)
    assert table.plan("k > 1").count() == 2 and len(table.files) == 4


def test_sizes_of_unlisted_folders_are_unknown(tmp_path):
    plan = ss.scan_hive(years(tmp_path)).plan("year = 2021 AND x < 25")
    assert plan.sizes.total.files is plan.sizes.total.rows is None
    assert (
        plan.sizes.partition.files,
        plan.sizes.partition.rows,
        plan.sizes.scan.files,
        plan.sizes.scan.rows,
    ) == (2, 20, 1, 5)
    by = "partition values and column statistics"
    shown = f"1 file, 1 of 4 row groups, 2 folders not listed, pruned by: {by}"
    assert repr(plan) == f"Plan({shown})"
    assert "keeps 1 of the 4 row groups listed, 1 file, " in plan.explain()
    assert ss.scan_hive(tmp_path).plan("x < 5").sizes.total.rows == 60
    assert ss.scan_hive(tmp_path).plan("year = 2021").count() == 20


#     another file in the tree                           error
DEPTHS = [
    ("year=2022/part.parquet", "lies next to .* column month; .* 2 folders below .*: move it"),
    ("year=2022/month=1/day=1/part.parquet", "more partition columns than year, month; .*: move"),
    (
        "year=2022/day=1/part.parquet",
        "the partition column day; expected month.* scan it by itself",
    ),
    ("other/part.parquet", "lies next to folders of the partition column year"),
    ("part.parquet", "lies next to folders of the partition column year"),
]


@pytest.mark.parametrize("path, why", DEPTHS, ids=[d[0] for d in DEPTHS])
def test_files_at_another_depth_are_refused(tmp_path, path, why):
    write(years(tmp_path) / path, {"x": [1]})
    with pytest.raises(ss.SourceError, match=why):
        ss.scan_hive(tmp_path, partition_schema=INTS, schema=pa.schema([("x", pa.int64())])).plan()


def test_hidden_files_and_empty_folders_are_skipped(tmp_path):
    years(tmp_path)
    for name in (
        "_temporary/0/x.parquet",
        ".hive-staging/x",
        "year=2020/_SUCCESS",
        "year=2020/month=1/.part.parquet.crc",
        "year=2020/month=1/a._COPYING_",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "year=2019").mkdir()  # empty, and first
    (tmp_path / "year=2020" / "month=1" / "sub").mkdir()
    write(tmp_path / "year=2020" / "month=1" / "sub" / "more.parquet", {"x": [7]})
    table = ss.scan_hive(tmp_path)
    assert table.partition_columns == ("year", "month")
    assert len(table.files) == 7
    assert table.plan("year = 2020 AND x = 7").to_arrow()["x"].to_pylist() == [7, 7]
    assert table.plan("year = 2019").to_arrow().num_rows == 0


def test_a_table_without_files_needs_a_schema(tmp_path):
    with pytest.raises(
        ss.SourceError, match=r"holds no Parquet file that can be read.*give schema="
    ):
        ss.scan_hive(tmp_path)
    assert (
        ss.scan_hive(tmp_path, schema=pa.schema([("x", pa.int64())]))
        .plan("x > 1")
        .to_arrow()
        .num_rows
        == 0
    )
    write(tmp_path / "a.parquet", {"x": [1, 2]})
    assert ss.scan_hive(tmp_path).plan("x > 1").to_arrow()["x"].to_pylist() == [2]
    with pytest.raises(
        ss.SourceError,
        match=r"partition_schema names 'day'; the folders of .* have no partition columns",
    ):
        ss.scan_hive(tmp_path, partition_schema={"day": pa.int32()})


def test_folders_and_columns_are_found_in_any_case(tmp_path):
    """Spark finds folders and columns in any case; statistics and rows must agree with it."""
    write(tmp_path / "Day=1" / "a.parquet", {"x": [1, 2], "s": [{"f": 1}, {"f": 2}]})
    write(tmp_path / "day=2" / "a.parquet", {"X": [3, 4], "s": [{"F": 3}, None]})
    table = ss.scan_hive(tmp_path)
    assert table.schema.names == ["x", "s", "Day"]
    assert table.plan("x = 3 AND day = 2").to_arrow()["x"].to_pylist() == [3]
    assert table.plan("x IS NULL").to_arrow().num_rows == 0
    assert table.plan("s.f = 3").to_arrow()["s"].to_pylist() == [{"f": 3}]
    assert table.plan("s.f IS NULL").to_arrow()["s"].to_pylist() == [None]


def test_files_are_read_with_the_schema_of_the_first(tmp_path):
    """A wider type, a type that does not fit, a new column, and a missing one."""
    write(
        tmp_path / "k=1" / "a.parquet",
        pa.table({"x": pa.array([1, 2], pa.int32()), "y": ["a", "b"]}),
    )
    write(tmp_path / "k=2" / "a.parquet", pa.table({"x": pa.array([3, 2**40]), "z": [1, 2]}))
    write(tmp_path / "k=3" / "a.parquet", pa.table({"x": [1.5, 2.5], "y": [1, 2]}))
    table = ss.scan_hive(tmp_path)
    assert [str(table.schema.field(n).type) for n in table.schema.names] == [
        "int32",
        "string",
        "int32",
    ]
    assert table.plan("x = 2 AND k < 3").verdicts.tolist() == [1, 1]
    assert table.plan("x = 9").verdicts.tolist() == [
        0,
        1,
        1,
    ]  # bounds of a type that does not fit are unknown
    assert table.plan("y IS NULL").verdicts.tolist() == [0, 2, 1]
    with pytest.raises(
        ss.SourceError, match=r"k=2/a\.parquet: its column 'x' of type int64 .* int32 .*; leave"
    ):
        table.plan("x = 2").to_arrow()
    kept = ss.scan_hive(tmp_path, schema=pa.schema([("x", pa.int32()), ("z", pa.int64())]))
    kept.save_stats()  # with all columns, each in its widest type
    for where in ("x = 2", "x > 5", "z IS NULL", "z = 9", "x IS NULL"):
        again = ss.scan_hive(tmp_path, schema=pa.schema([("x", pa.int32()), ("z", pa.int64())]))
        assert again.plan(where).verdicts.tolist() == kept.plan(where).verdicts.tolist()
        assert again.work["footers"] == 0
    wide = ss.scan_hive(tmp_path, schema=pa.schema([("x", pa.int64()), ("z", pa.int64())]))
    assert wide.plan("x > 2 AND k < 3").to_arrow().to_pydict() == {
        "x": [3, 2**40],
        "z": [1, 2],
        "k": [2, 2],
    }


def test_partition_times_are_read_in_the_sessions_zone(tmp_path):
    for hour in (0, 12):
        write(tmp_path / f"t=2024-01-01 {hour:02}%3A00%3A00" / "a.parquet", {"x": [hour]})
    table = ss.scan_hive(tmp_path)
    where = "t = TIMESTAMP '2024-01-01 12:00:00'"
    for zone in ("UTC", "Asia/Tokyo", "America/New_York"):
        assert table.plan(where, timezone=zone).to_arrow()["x"].to_pylist() == [12]
    at = ss.PruningPredicate(
        "t = TIMESTAMP '2024-01-01 03:00:00Z'", table.schema, timezone="Asia/Tokyo"
    )
    assert table.plan(at).to_arrow()["x"].to_pylist() == [12]


def test_a_file_changed_after_planning_is_an_error(tmp_path):
    path = write(tmp_path / "k=1" / "a.parquet", {"x": [1, 2]})
    plan = ss.scan_hive(tmp_path).plan("x = 1")
    write(path, {"x": list(range(100))})
    with pytest.raises(
        ss.SourceError,
        match=r"a\.parquet: the file had \d+ bytes when it was planned, and has \d+ now; ",
    ):
        plan.to_arrow()


EMPTY = pa.table({"id": [0], "x": pa.nulls(1), "st": pa.array([{"a": None}])})
FULL = pa.table({"id": [1], "x": ["v"], "st": [{"a": 7}]})
NULL_TESTS = ["x IS NOT NULL", "x IS NULL", "x = 'v'", "st.a = 7 OR id = 5", "id = 1 AND st.a > 0"]


@pytest.mark.parametrize("where", NULL_TESTS)
def test_columns_without_a_type_in_the_first_file_lose_no_row(tmp_path, where):
    write(tmp_path / "k=1" / "a.parquet", EMPTY)
    write(tmp_path / "k=2" / "a.parquet", FULL)
    table = ss.scan_hive(tmp_path)
    name = "st.a" if "st.a" in where else "x"
    with pytest.raises(ss.SourceError, match=rf"k=2/a\.parquet: its column {name} .* schema="):
        table.plan(where)
    assert table.plan("id = 1 AND k = 2", columns=["id"]).to_arrow()["id"].to_pylist() == [1]
    typed = ss.scan_hive(tmp_path, schema=FULL.schema)
    assert typed.plan(where).count() == ss.scan_parquet(tmp_path).plan(where).count() == 1


def test_columns_without_a_type_in_every_file_are_null(tmp_path):
    write(tmp_path / "k=1" / "a.parquet", EMPTY)
    write(tmp_path / "k=2" / "a.parquet", EMPTY.drop_columns(["x"]))
    table = ss.scan_hive(tmp_path)
    assert table.plan("x IS NULL AND st.a IS NULL").count() == 2
    assert table.plan("x = 'v' OR st.a = 7").count() == 0


def test_a_limit_stops_at_the_first_files(tmp_path):
    plan = ss.scan_hive(years(tmp_path)).plan("year = 2021", limit=3, columns=["x", "year"])
    assert plan.to_arrow().to_pydict() == {"x": [20, 21, 22], "year": [2021] * 3}
    assert len(plan.files) == 1
    assert plan.skipping == "limit"


VALUES = ["1", "2", "10", "__HIVE_DEFAULT_PARTITION__", "007"]
PREDICATES = [
    "a = {0}",
    "a > {0} AND x < {1}",
    "b = '{0}' OR x = {1}",
    "a IS NULL",
    "b <> '{0}'",
    "NOT (a = {0} AND b <=> NULL)",
    "a IN ({0}, 2) AND x >= {1}",
]


@pytest.mark.parametrize("seed", range(6))
def test_no_row_is_lost(tmp_path, seed):
    r = random.Random(seed)
    expected = []
    for a in r.sample(VALUES, 3):
        for b in r.sample(VALUES, 2):
            for f in range(r.randint(0, 2)):
                x = [r.choice((None, r.randint(0, 20))) for _ in range(r.randint(1, 8))]
                write(
                    tmp_path / f"a={a}" / f"b={b}" / f"{f}.parquet",
                    pa.table({"x": pa.array(x, pa.int64())}),
                    row_group_size=3,
                )
                expected += [(v, a, b) for v in x]
    lazy, eager = ss.scan_hive(tmp_path), ss.scan_parquet(tmp_path)
    assert lazy.schema.equals(eager.schema)
    assert lazy.plan().to_arrow().num_rows == len(expected)
    for form in PREDICATES:
        where = form.format(r.choice((1, 2, 7, 10)), r.randint(0, 20))
        plan = lazy.plan(where)
        assert plan.to_arrow().equals(eager.plan(where).unpruned().to_arrow()), where
        assert plan.files == eager.plan(where).files, where


def test_folders_that_other_engines_escape_are_decoded(tmp_path):
    data = pa.table({"x": [1, 2, 3], "c": ["Zürich", "a/b", None]})
    pq.write_to_dataset(data, tmp_path / "arrow", partition_cols=["c"])
    table = ss.scan_hive(tmp_path / "arrow")
    assert table.plan("c = 'Zürich'").to_arrow()["x"].to_pylist() == [1]
    assert table.plan("c = 'a/b'").to_arrow()["x"].to_pylist() == [2]
    assert table.plan("c IS NULL").to_arrow()["x"].to_pylist() == [3]


def test_a_tree_lists_each_folder_once(tmp_path):
    spy = Spy()
    tree = Tree(str(years(tmp_path)), spy.filesystem, Meter())
    assert tree.columns == ("year", "month")
    assert len(tree.files(tree.folders()[0])) == len(tree.files(tree.folders()[0])) == 6
    # The first innermost folder is listed twice: for the columns, and for its files.
    assert len(spy.listed) == len(set(spy.listed)) + 1


def test_columns_named_like_sql_keywords_are_quoted_in_conditions(tmp_path):
    for k in (1, 2):
        (tmp_path / f"to={k}").mkdir()
        pq.write_table(pa.table({"from": [k, k + 10]}), tmp_path / f"to={k}" / "a.parquet")
    plan = ss.scan_hive(tmp_path).plan("`from` > 1 AND to < 3", order_by="`from` DESC", limit=2)
    assert plan.to_arrow()["from"].to_pylist() == [12, 11] and plan.unpruned().to_arrow()[
        "from"
    ].to_pylist() == [12, 11, 2]
