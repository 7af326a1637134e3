"""Snapshots of footers: which files they serve, when they are stale; they never change a plan."""

import datetime as dt
import decimal
import os
import pickle
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.tables.parquet.options import SNAPSHOT_NAME
from tests.support.tables.lazy import OLD, Spy, write, years
from tests.support.tables.parquet_cases import CASES, WIDE

SCANS = {"parquet": ss.scan_parquet, "hive": ss.scan_hive}


def served(table):
    return table.work["footers from the snapshot"], table.work["footers"]


def plans(path, predicates, **options):
    """Return the rows of plans; verdicts and rows must be the same with a snapshot and without."""
    out = []
    for where in predicates:
        plain, saved = (
            ss.scan_parquet(path, stats=s, **options).plan(where) for s in (False, None)
        )
        assert plain.row_groups == saved.row_groups, where
        assert plain.verdicts.tolist() == saved.verdicts.tolist(), where
        assert repr(plain.to_arrow().to_pydict()) == repr(saved.to_arrow().to_pydict()), where
        out.append(saved.to_arrow())
    return out


def test_all_types_and_forms_keep_their_plans(tmp_path):
    write(tmp_path / "wide.parquet", WIDE, row_group_size=2)
    ss.scan_parquet(tmp_path).save_stats()
    table = ss.scan_parquet(tmp_path)
    assert served(table) == (1, 0)
    plans(tmp_path, [c[0] for c in CASES])
    plain = ss.scan_parquet(tmp_path, stats=False)
    assert table.schema.equals(plain.schema)
    for path in plain.statistics.leaf_paths():
        name = ".".join(path)
        for key in ("min", "max", "null_count", "nan_count", "min_exact", "max_exact"):
            a, b = (t.statistics.get(name, key) for t in (plain, table))
            assert repr(a.to_pylist()) == repr(b.to_pylist()), (name, key)
    assert plain.plan().sizes == table.plan().sizes
    assert table.work["footers"] == 0


def test_evolution_survives(tmp_path):
    """Columns widen, come and go. An absent one is NULL; a later file may widen one again."""
    write(
        tmp_path / "a.parquet",
        pa.table({"x": pa.array([1, 2], pa.int16()), "y": pa.array([0.5, None], pa.float32())}),
    )
    write(
        tmp_path / "b.parquet",
        pa.table({"x": pa.array([2**20, None], pa.int32()), "z": ["p", "q"]}),
    )
    ss.scan_parquet(tmp_path).save_stats()
    cases = ["x > 5", "z IS NULL", "z = 'p'", "y IS NULL", "y = 0.5", "x IS NULL", "x < 5", "x = 2"]
    plans(tmp_path, cases)
    write(
        tmp_path / "c.parquet", pa.table({"x": [2**40], "y": [1e300], "new": [dt.date(2024, 1, 1)]})
    )
    plans(tmp_path, [*cases, "x > 2000000", "new IS NULL", "new > DATE '2023-01-01'", "y > 1e200"])
    assert served(ss.scan_parquet(tmp_path)) == (2, 1)
    os.unlink(tmp_path / "b.parquet")
    # A removed file has no columns in the schema.
    assert ss.scan_parquet(tmp_path).schema.names == ["x", "y", "new"]
    plans(tmp_path, ["x > 5", "new IS NULL"])


def test_units_of_time_and_decimals(tmp_path):
    stamps = [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2, 3, 4, 5, 678_000)]
    for i, unit in enumerate(("ms", "us", "ns")):
        columns = {
            "t": pa.array(stamps, pa.timestamp(unit)),
            "d": pa.array([decimal.Decimal(i), decimal.Decimal("1.5")], pa.decimal128(9 + i, 2)),
        }
        write(tmp_path / f"{i}.parquet", pa.table(columns))
        ss.scan_parquet(tmp_path).save_stats()
        plans(
            tmp_path,
            [
                "t > TIMESTAMP_NTZ '2024-01-02 03:04:05.677'",
                "t > TIMESTAMP_NTZ '2024-01-02 03:04:05.678'",
                "d = 1.5",
                "d > 2",
                "d < 0.5",
            ],
        )


def test_bloom_filters_and_legacy_calendars(tmp_path):
    table = pa.table(
        {"s": ["ant", "yak", "bee", "wolf"], "d": [dt.date(1500, 1, 1), dt.date(1500, 1, 2)] * 2}
    )
    with pq.ParquetWriter(
        tmp_path / "a.parquet", table.schema, bloom_filter_options={"s": True}
    ) as writer:
        writer.write_table(table, row_group_size=2)
        writer.add_key_value_metadata(
            {b"org.apache.spark.version": b"3.1.0", b"org.apache.spark.legacyDateTime": b""}
        )
    os.utime(tmp_path / "a.parquet", (OLD, OLD))
    ss.scan_parquet(tmp_path).save_stats()
    assert ss.scan_parquet(tmp_path).plan("s = 'cat'").files == ()
    plans(tmp_path, ["s = 'cat'", "s = 'bee'", "d = DATE '1500-01-09'", "s IN ('yak', 'zoo')"])
    assert served(ss.scan_parquet(tmp_path)) == (1, 0)


def test_columns_that_a_narrow_table_lacked_are_saved(tmp_path):
    write(tmp_path / "k=1" / "a.parquet", pa.table({"x": pa.array([1, 2], pa.int32())}))
    write(tmp_path / "k=2" / "a.parquet", pa.table({"x": [2**40], "y": ["b"]}))
    narrow = ss.scan_hive(tmp_path, stats=False)
    narrow.save_stats()
    plans(tmp_path, ["x > 5", "y = 'a'", "y IS NULL", "x = 2"])
    for where in ("x > 5", "x = 2", "x IS NULL"):
        assert (
            ss.scan_hive(tmp_path).plan(where).verdicts.tolist()
            == narrow.plan(where).verdicts.tolist()
        )


def test_the_first_file_has_the_columns_with_a_snapshot_too(tmp_path):
    for k, columns in enumerate(({"z": [3]}, {"x": [1]}, {"x": [2], "y": [1]})):
        write(tmp_path / f"k={k}" / "a.parquet", columns)
    ss.scan_hive(tmp_path).save_stats()
    (tmp_path / "k=0" / "a.parquet").unlink()
    for stats in (None, False):
        assert ss.scan_hive(tmp_path, stats=stats).schema.names == ["x", "k"]
        assert ss.scan_parquet(tmp_path, stats=stats).schema.names == ["x", "y", "k"]


def test_names_and_types_of_partitions_are_read_from_paths(tmp_path):
    years(tmp_path)
    ss.scan_hive(tmp_path).save_stats()
    for scan in SCANS.values():
        table = scan(tmp_path, partition_schema={"year": pa.string()})
        assert table.plan("year = '2021' AND x < 25").to_arrow()["x"].to_pylist() == [
            20,
            21,
            22,
            23,
            24,
        ]
        assert table.work["footers"] == 0


# Staleness.


def other(path, age=20):
    """Write another file of the same size."""
    size = path.stat().st_size
    write(path, {"x": list(range(1000, 1010))}, row_group_size=5, age=age)
    assert path.stat().st_size == size


def in_place(path):
    """Write another file of the same size into the same file."""
    beside = Path(shutil.copy(path, path.with_name("_beside")))
    other(beside)
    path.write_bytes(beside.read_bytes()), shutil.copystat(beside, path)


def longer(path):
    write(path, {"x": list(range(1000, 1100))}, age=20)


#     what happens to year=2021/month=1             served  footers
CHANGES = {
    "nothing": (lambda p: None, 6, 0),
    "same size, other time": (lambda p: other(p, age=21), 5, 1),
    "same time, other size": (longer, 5, 1),
    "same size, same time": (other, 5, 1),
    "same size, in place": (in_place, 5, 1),
    "older, same size": (lambda p: other(p, age=-1000), 5, 1),
    "deleted": (lambda p: p.unlink(), 5, 0),
    "added": (lambda p: write(p.parent / "new.parquet", {"x": [1000, 1005]}), 6, 1),
    "moved": (lambda p: p.rename(p.parent / "renamed.parquet"), 5, 1),
    "touched": (lambda p: os.utime(p, (OLD, OLD + 7)), 5, 1),
    "by a nanosecond": (lambda p: os.utime(p, ns=(OLD * 10**9, (OLD + 20) * 10**9 + 1)), 5, 1),
    "swapped": (lambda p: swap(p, p.parents[1] / "month=2" / p.name), 4, 2),
}


def swap(a, b):
    a.rename(a.parent / "t"), b.rename(a), (a.parent / "t").rename(b)


@pytest.mark.parametrize("scan", SCANS.values(), ids=SCANS)
@pytest.mark.parametrize("change, saved, footers", CHANGES.values(), ids=CHANGES)
def test_changed_files_are_read_again(tmp_path, scan, change, saved, footers):
    years(tmp_path)
    scan(tmp_path).save_stats()
    change(tmp_path / "year=2021" / "month=1" / "part.parquet")
    table = scan(tmp_path)
    for where in ("x >= 1000", "x < 30", "year = 2021 AND x BETWEEN 22 AND 1005"):
        plan = table.plan(where)
        assert plan.to_arrow().equals(
            ss.scan_parquet(tmp_path, stats=False).plan(where).unpruned().to_arrow()
        )
    table.plan()
    if scan is ss.scan_parquet:
        assert served(table) == (saved, footers)
    assert table.work["footers"] == footers


def test_files_that_just_changed_are_not_saved(tmp_path):
    path = write(tmp_path / "a.parquet", {"x": [1]})
    os.utime(path)  # now, so that it may change again within the same tick of the clock
    ss.scan_parquet(tmp_path).save_stats()
    assert served(ss.scan_parquet(tmp_path)) == (0, 1)


def test_times_and_etags_of_file_systems(tmp_path):
    paths = [str(write(tmp_path / f"{i}.parquet", {"x": [i]})) for i in range(3)]
    etags = {paths[0]: "v1", paths[1]: "v1"}
    ss.scan_parquet(str(tmp_path), filesystem=Spy(etags).filesystem).save_stats()

    def again(etags):
        return served(ss.scan_parquet(str(tmp_path), filesystem=Spy(etags).filesystem))

    assert again(etags) == (3, 0)
    assert again({**etags, paths[0]: "v2"}) == (2, 1)
    assert again({**etags, paths[2]: "v1"}) == (2, 1)  # it had no etag
    assert again({}) == (1, 2)
    untimed = Spy({paths[0]: "v1"})
    untimed.times = dict.fromkeys(paths, -1)
    assert served(ss.scan_parquet(str(tmp_path), filesystem=untimed.filesystem))[0] == 0


# Unusable snapshots.


DAMAGES = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "without its tail": lambda data: data[:-4],
    "one bit": lambda data: data[:500] + bytes([data[500] ^ 1]) + data[501:],
    "another version": lambda data: data[:-12] + (99).to_bytes(4, "little") + data[-8:],
    "of something else": lambda data: b"PAR1" * 100,
    "longer": lambda data: data + b"x",
}


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_file_is_skipped_but_an_error_if_named(tmp_path, how):
    years(tmp_path)
    path = ss.scan_parquet(tmp_path).save_stats()
    Path(path).write_bytes(DAMAGES[how](Path(path).read_bytes()))
    for scan in SCANS.values():
        table = scan(tmp_path)
        assert table.plan("x = 25").to_arrow()["x"].to_pylist() == [25]
        assert table.work["footers from the snapshot"] == 0
        with pytest.raises(ss.StatisticsError, match=f"{SNAPSHOT_NAME}: .*call save_stats again"):
            scan(tmp_path, stats=path)


def test_statistics_from_a_snapshot_are_values(tmp_path):
    years(tmp_path)
    path = ss.scan_parquet(tmp_path).save_stats()
    table = ss.scan_parquet(tmp_path)
    again = pickle.loads(pickle.dumps(table.statistics))
    os.unlink(path)
    p = ss.PruningPredicate("x = 25", table.schema)
    assert p.survivors(again).tolist() == p.survivors(table.statistics).tolist() == [5]


def test_a_file_elsewhere(tmp_path):
    years(tmp_path / "t")
    years(tmp_path / "u")
    path = tmp_path / "stats"
    assert ss.scan_parquet(tmp_path / "t").save_stats(path) == str(path)
    assert served(ss.scan_parquet(tmp_path / "t")) == (0, 6)
    assert served(ss.scan_parquet(tmp_path / "t", stats=path)) == (6, 0)
    assert served(ss.scan_parquet(tmp_path / "u", stats=path)) == (0, 6)  # of another table
    files = sorted((tmp_path / "t").rglob("*.parquet"))
    assert served(ss.scan_parquet(files[:2], stats=path)) == (2, 0)
    with pytest.raises(ss.SourceError, match="the statistics cannot be read"):
        ss.scan_hive(tmp_path / "t", stats=tmp_path / "none")
    with pytest.raises(ss.SourceError, match="give save_stats a path"):
        ss.scan_parquet(files).save_stats()


def test_unreadable_files_and_files_without_rows(tmp_path):
    write(tmp_path / "a.parquet", {"x": [1]})
    write(
        tmp_path / "none.parquet",
        pa.table({"x": pa.array([], pa.int64()), "y": pa.array([], pa.int64())}),
    )
    (tmp_path / "b.parquet").write_text("none of Parquet's")
    ss.scan_parquet(tmp_path, on_error="keep").save_stats()
    table = ss.scan_parquet(tmp_path, on_error="keep")
    assert served(table) == (2, 1)
    assert [p[-9:] for p in table.unreadable] == ["b.parquet"]
    assert table.schema.names == ["x", "y"]  # of the file without rows
    assert [p[-9:] for p in table.plan("x = 9").files] == ["b.parquet"]


def test_hostile_contents_are_an_error(tmp_path):
    """A file with a valid checksum may still have invalid content."""
    from skipstone.bindings.statistics.store.table_file import read_table, write_table
    from skipstone.bindings.tables.parquet.saved_footers import METADATA_KEY

    years(tmp_path)
    path = ss.scan_parquet(tmp_path).save_stats()
    whole = read_table(path, pa.py_buffer(Path(path).read_bytes()))
    n = whole.num_rows
    about = whole.schema.metadata
    for wrong in (
        whole.drop_columns(["rows"]),
        whole.set_column(whole.schema.get_field_index("form"), "form", pa.array([7] * n)),
        whole.replace_schema_metadata({}),
        whole.replace_schema_metadata({METADATA_KEY: b"{}"}),
        whole.replace_schema_metadata(
            {METADATA_KEY: about[METADATA_KEY].replace(b'"schema"', b'"scheme"')}
        ),
        whole.take(pa.array(np.random.default_rng(1).permutation(n))),
        whole.set_column(whole.schema.get_field_index("group"), "group", pa.array(["x"] * n)),
    ):
        with open(path, "wb") as f:
            write_table(f, wrong)
        with pytest.raises(ss.StatisticsError, match="is not what this version writes"):
            ss.scan_parquet(tmp_path, stats=path)
        assert ss.scan_parquet(tmp_path).plan("x = 25").to_arrow().num_rows == 1


# Saving.

SAVE = (
    "import sys, skipstone as ss\n"
    "for _ in range(int(sys.argv[2])):\n"
    "    ss.scan_parquet(sys.argv[1], stats=False).save_stats()"
)


def test_two_processes_save_at_once(tmp_path):
    years(tmp_path)
    ss.scan_parquet(tmp_path).save_stats()
    saving = [subprocess.Popen([sys.executable, "-c", SAVE, str(tmp_path), "15"]) for _ in range(2)]
    seen = 0
    while any(p.poll() is None for p in saving):
        seen += served(ss.scan_parquet(tmp_path)) == (6, 0)
    assert [p.returncode for p in saving] == [0, 0]
    assert seen
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == [SNAPSHOT_NAME]


def test_a_process_that_is_killed_leaves_the_old_file(tmp_path):
    years(tmp_path)
    ss.scan_parquet(tmp_path).save_stats()
    for delay in (0.7, 0.9, 1.1):
        process = subprocess.Popen([sys.executable, "-c", SAVE, str(tmp_path), "1000"])
        threading.Event().wait(delay)
        process.kill()
        process.wait()
        assert served(ss.scan_parquet(tmp_path)) == (6, 0)
        # The temporary file that it left is hidden.
        assert ss.scan_hive(tmp_path).files == ss.scan_parquet(tmp_path).files


def test_a_save_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    years(tmp_path)
    path = ss.scan_parquet(tmp_path).save_stats()
    monkeypatch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        ss.scan_parquet(tmp_path).save_stats()
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == [SNAPSHOT_NAME]
    monkeypatch.undo()
    assert served(ss.scan_parquet(tmp_path, stats=path)) == (6, 0)


def test_a_place_that_does_not_exist_is_named(tmp_path):
    years(tmp_path)
    asked = str(tmp_path / "no" / "saved")
    with pytest.raises(FileNotFoundError) as found:
        ss.scan_parquet(tmp_path).save_stats(asked)
    assert found.value.filename == asked and ".tmp" not in str(found.value)
