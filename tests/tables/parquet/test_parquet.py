"""Parquet tables: statistics from footers as different writers store them."""

import datetime as dt
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from tests.support.tables.parquet_cases import CASES, LEGACY, WIDE, D


@pytest.fixture
def wide(tmp_path):
    path = tmp_path / "wide.parquet"
    pq.write_table(WIDE, path, row_group_size=2)
    return ss.scan_parquet(path)


@pytest.mark.parametrize("where, groups, rows", CASES, ids=[c[0] for c in CASES])
def test_row_groups_are_pruned_by_columns_of_every_type(wide, where, groups, rows):
    plan = wide.plan(where=where)
    assert plan.row_groups == ({wide.files[0]: groups} if groups else {})
    assert plan.to_arrow().num_rows == rows
    assert repr(plan.to_arrow().to_pydict()) == repr(
        plan.unpruned().to_arrow().to_pydict()
    )  # by text: NaN equals NaN


def test_columns_come_in_the_given_order(wide):
    assert wide.plan(where="i > 8", columns=["s", "m"]).to_arrow().to_pydict() == {
        "s": ["é"],
        "m": [D("0")],
    }
    with pytest.raises(ss.PredicateError, match="columns= names 'zz'"):
        wide.plan(columns=["zz"])
    with pytest.raises(ss.PredicateError, match=r"such as \['i'\]"):
        wide.plan(columns="i")


def test_fully_matched_row_groups_need_no_filter(tmp_path):
    pq.write_table(pa.table({"x": [1, 2, 3, 4]}), tmp_path / "t.parquet", row_group_size=2)
    plan = ss.scan_parquet(tmp_path).plan(where="x >= 2 OR soundex(x) = 0")
    with pytest.raises(ss.UnsupportedForm, match=r"soundex\(x\) = 0"):
        plan.to_arrow()
    # No column is requested.
    with pytest.raises(ss.UnsupportedForm, match=r"soundex\(x\) = 0"):
        ss.scan_parquet(tmp_path).plan(where="soundex(x) = 0").count()
    # The form is never needed where the other branch settles every row.
    assert ss.scan_parquet(tmp_path).plan(where="x >= 3 AND x < 9").verdicts.tolist() == [0, 2]
    assert ss.scan_parquet(tmp_path).plan(where="x >= 1 OR soundex(x) = 0").to_arrow().num_rows == 4


def test_bounds_of_int96_prune_nothing(tmp_path):
    table = pa.table({"t": pa.array([1, 2], pa.timestamp("ns"))})
    pq.write_table(table, tmp_path / "t.parquet", use_deprecated_int96_timestamps=True)
    assert ss.scan_parquet(tmp_path).plan(
        where="t > TIMESTAMP_NTZ '2020-01-01 00:00:00'"
    ).verdicts.tolist() == [1]


def test_a_column_without_statistics_prunes_nothing(tmp_path):
    pq.write_table(
        pa.table({"x": [1, None], "y": [1, 2]}), tmp_path / "t.parquet", write_statistics=["y"]
    )
    table = ss.scan_parquet(tmp_path)
    assert [
        int(table.plan(where=w).verdicts[0])
        for w in ("x = 9", "x IS NULL", "y = 9", "x = 9 AND y = 9")
    ] == [1, 1, 0, 0]


@pytest.mark.parametrize(
    "notes, kept",
    [
        (LEGACY, True),
        ({b"org.apache.spark.version": b"2.4.8"}, True),
        ({b"org.apache.spark.version": b"3.5.0"}, False),
    ],
)
def test_bounds_of_julian_dates_prune_nothing(tmp_path, notes, kept):
    days = pa.array([dt.date(1500, 1, 1), dt.date(1500, 1, 2)])
    stamps = pa.array([dt.datetime(1850, 1, 1), dt.datetime(1850, 1, 2)], pa.timestamp("us"))
    table = pa.table({"d": days, "t": stamps})
    with pq.ParquetWriter(tmp_path / "t.parquet", table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(notes)
    found = ss.scan_parquet(tmp_path)
    assert bool(found.plan(where="d = DATE '1500-01-09'").verdicts[0]) is kept
    assert bool(found.plan(where="t > TIMESTAMP_NTZ '1850-01-11 00:00:00'").verdicts[0]) is kept


def test_truncated_bounds_of_real_writers_lose_no_row(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    pl = pytest.importorskip("polars")
    table = pa.table({"s": ["x" * 500, "z" * 300]})
    pq.write_table(table, tmp_path / "arrow.parquet")
    pl.from_arrow(table).write_parquet(tmp_path / "polars.parquet")
    duckdb.register("long_strings", table)
    duckdb.sql(f"COPY long_strings TO '{tmp_path}/duckdb.parquet'")
    found = ss.scan_parquet(tmp_path)
    for value in table["s"].to_pylist():
        assert found.plan(where=ss.col("s") == value).to_arrow().num_rows == 3
    assert found.plan(where=ss.col("s") > "z" * 300).to_arrow().num_rows == 0
    exact = {
        f.rsplit("/", 1)[1]: flag
        for f, flag in zip(
            found.files, found.statistics.get("s", "max_exact").to_pylist(), strict=True
        )
    }
    assert exact == {"arrow.parquet": True, "duckdb.parquet": False, "polars.parquet": None}


# Tables of several files.


@pytest.fixture
def evolving(tmp_path):
    """Two files: one column widens, one appears, one is REQUIRED in the first file."""
    old = pa.schema([pa.field("x", pa.int32(), False), ("y", pa.float32())])
    pq.write_table(pa.table({"x": [1, 2], "y": [0.5, None]}, schema=old), tmp_path / "a.parquet")
    pq.write_table(
        pa.table({"x": pa.array([2**40, None]), "z": ["p", "q"]}), tmp_path / "b.parquet"
    )
    return ss.scan_parquet(tmp_path)


def test_the_schema_has_the_columns_and_widest_types_of_all_files(evolving):
    assert str(evolving.schema.field("x").type) == "int64"
    assert all(evolving.schema.field(n).nullable for n in ("x", "y", "z"))


@pytest.mark.parametrize(
    "where, files, rows",
    [
        ("x > 5", "b", 1),
        ("z IS NULL", "a", 2),
        ("z = 'p'", "b", 1),
        ("y IS NULL", "ab", 3),
        ("y = 0.5", "a", 1),
        ("x IS NULL", "b", 1),
        ("x < 5", "a", 2),
    ],
)
def test_files_are_pruned_by_absent_and_widened_columns(evolving, where, files, rows):
    plan = evolving.plan(where=where)
    assert "".join(f[-9] for f in plan.files) == files
    assert plan.to_arrow().num_rows == rows
    assert plan.to_arrow().schema.equals(evolving.schema)


def test_types_that_do_not_fit_are_an_error(tmp_path):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": ["1"]}), tmp_path / "b.parquet")
    with pytest.raises(ss.SourceError, match=r"b\.parquet: its columns do not fit"):
        ss.scan_parquet(tmp_path)


# Files that cannot be read.


@pytest.fixture
def broken(tmp_path):
    pq.write_table(pa.table({"x": [1, 2, 3]}), tmp_path / "good.parquet")
    data = (tmp_path / "good.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(data[: len(data) // 2])
    (tmp_path / "empty.parquet").write_bytes(b"")
    (tmp_path / "text.parquet").write_text("a,b\n1,2\n")
    (tmp_path / "encrypted.parquet").write_bytes(data[:-4] + b"PARE")
    noise = bytearray(data)
    noise[-60:-20] = np.random.default_rng(1).bytes(40)
    (tmp_path / "noise.parquet").write_bytes(noise)
    return tmp_path


@pytest.mark.parametrize(
    "name, why",
    [
        ("cut", "not a whole Parquet file"),
        ("empty", "the file is empty"),
        ("text", "not a whole"),
        ("encrypted", "encrypted"),
        ("noise", "footer"),
    ],
)
def test_an_unreadable_file_is_an_error_that_names_it(broken, name, why):
    with pytest.raises(ss.SourceError, match=rf"{name}\.parquet: .*{why}"):
        ss.scan_parquet(broken / f"{name}.parquet")


def test_on_error_keep_lists_unreadable_files(broken):
    table = ss.scan_parquet(
        [broken / f for f in ("good.parquet", "cut.parquet", "text.parquet")], on_error="keep"
    )
    assert [p.rsplit("/", 1)[1] for p in table.unreadable] == ["cut.parquet", "text.parquet"]
    plan = table.plan(where="x > 9")
    assert [f.rsplit("/", 1)[1] for f in plan.files] == ["cut.parquet", "text.parquet"]
    assert plan.sizes.scan.rows is None
    with pytest.raises(ss.SourceError, match=r"cut\.parquet"):
        plan.to_arrow()


def test_missing_files_and_folders_are_errors(tmp_path):
    with pytest.raises(ss.SourceError, match="does not exist"):
        ss.scan_parquet(tmp_path / "nothing")
    (tmp_path / "_SUCCESS").touch()
    with pytest.raises(ss.SourceError, match="holds no files"):
        ss.scan_parquet(tmp_path)
    with pytest.raises(ss.SourceError, match="list of paths is empty"):
        ss.scan_parquet([])


def test_a_file_removed_after_planning_is_stale(tmp_path):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "t.parquet")
    plan = ss.scan_parquet(tmp_path).plan()
    (tmp_path / "t.parquet").unlink()
    with pytest.raises(
        ss.StaleFile, match=r"t\.parquet: the file was removed after it was planned"
    ):
        plan.to_arrow()


# Ways to name the files of a table.


def test_every_way_to_name_files_finds_them(tmp_path):
    for day in (1, 2):
        (tmp_path / f"day={day}").mkdir()
        pq.write_table(pa.table({"x": [day]}), tmp_path / f"day={day}" / "p.parquet")
    (tmp_path / "day=1" / "_metadata").touch()
    (tmp_path / ".hidden").touch()
    files = [tmp_path / f"day={d}" / "p.parquet" for d in (1, 2)]
    local = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
    ways = {
        "folder": ss.scan_parquet(tmp_path),
        "glob": ss.scan_parquet(f"{tmp_path}/day=*"),
        "deep glob": ss.scan_parquet(f"{tmp_path}/**/*.parquet"),
        "uri": ss.scan_parquet(tmp_path.as_uri()),
        "list": ss.scan_parquet(files, base_path=str(tmp_path)),
        "file system": ss.scan_parquet("", filesystem=local),
    }
    for name, table in ways.items():
        assert table.plan(where="day = 2").to_arrow().to_pydict() == {"x": [2], "day": [2]}, name
    assert ss.scan_parquet(files).schema.names == [
        "x"
    ]  # files named one by one have no partitions, as in Spark


def test_a_file_whose_name_is_a_glob_is_found_first(tmp_path):
    """A file of that very name takes precedence over the glob."""
    for name in ("a[1]", "a1", "b1"):
        pq.write_table(pa.table({"x": [name]}), tmp_path / f"{name}.parquet")
    odd, plain, other = (f"{tmp_path}/{name}.parquet" for name in ("a[1]", "a1", "b1"))
    for where, found in [
        (odd, [odd]),
        ([odd, other], [odd, other]),
        (f"{tmp_path}/[ab]1.parquet", [plain, other]),
        ([f"{tmp_path}/a*", other], [plain, odd, other]),
    ]:
        assert list(ss.scan_parquet(where).plan().files) == found


@pytest.mark.parametrize("where", [None, 5, [None], [["a"]]])
def test_objects_that_are_no_paths_are_refused(where):
    with pytest.raises(ss.SourceError, match="is not a path; expected a file, a folder, a glob"):
        ss.scan_parquet(where)


def test_files_named_one_by_one_keep_their_order(tmp_path):
    """They keep their order, and a file counts once; folders and globs among them are listed."""
    for name in ("a", "b", "_c"):
        pq.write_table(pa.table({"x": [name]}), tmp_path / f"{name}.parquet")
    (tmp_path / "more").mkdir()
    pq.write_table(pa.table({"x": ["d"]}), tmp_path / "more" / "d.parquet")
    a, b = tmp_path / "a.parquet", tmp_path / "b.parquet"
    for named, found in [
        ([b, a], "ba"),
        ([b, a, b], "ba"),
        ([a.as_uri(), b], "ab"),
        ([b, tmp_path / "more", a], "bda"),
        ([b, f"{tmp_path}/?.parquet"], "ba"),
    ]:
        assert "".join(ss.scan_parquet(named).plan().to_arrow()["x"].to_pylist()) == found
    for named, why in [
        ([a, tmp_path / "z"], "z does not exist"),
        ([a, tmp_path / "_c.parquet"], "_c.parquet holds no files"),
        ([a, " "], "blank"),
    ]:
        with pytest.raises(ss.SourceError, match=why):
            ss.scan_parquet(named)


def test_progress_is_called_for_each_file(tmp_path):
    for i in range(5):
        pq.write_table(pa.table({"x": [i]}), tmp_path / f"{i}.parquet")
    seen = []
    ss.scan_parquet(tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(i, 5) for i in range(1, 6)]


def test_statistics_pickle_and_tables_and_plans_print_their_sizes(wide):
    again = pickle.loads(pickle.dumps(wide.statistics))
    p = ss.PruningPredicate("i > 8", wide.schema)
    assert p.prune(again).tolist() == p.prune(wide.statistics).tolist() == [False, True]
    assert "1 file, 2 row groups" in repr(wide)
    shown = "Plan(1 of 1 file, 1 of 2 row groups, pruned by: column statistics)"
    assert repr(wide.plan(where="i > 8")) == shown


def test_files_without_row_groups_are_not_scanned(tmp_path):
    empty = pa.table({"x": pa.array([], pa.int64())})
    pq.ParquetWriter(tmp_path / "a.parquet", empty.schema).close()
    table = ss.scan_parquet(str(tmp_path))
    assert table.num_files == 1 and table.plan().sizes.scan.files == len(table.plan().files) == 0
    pq.write_table(pa.table({"x": [1]}), tmp_path / "b.parquet")
    table = ss.scan_parquet(str(tmp_path))
    for where in (None, "x = 1", "x = 2"):
        plan = table.plan(where)
        assert plan.sizes.scan.files == len(plan.files) == (0 if where == "x = 2" else 1)
