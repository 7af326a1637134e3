"""`_metadata` and `_common_metadata`: when they replace footers, and when they must not."""

import datetime as dt
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from tests.support.tables.lazy import OLD, write, years

SCANS = {"parquet": ss.scan_parquet, "hive": ss.scan_hive}


def summarise(root, age=1000, names=None):
    """Write `_metadata` for the files below a folder, and `_common_metadata`."""
    found = []
    for path in sorted(root.rglob("*.parquet")):
        metadata = pq.read_metadata(path)
        metadata.set_file_path(str(path.relative_to(root)))
        found.append(metadata)
    for name in names or ("_metadata", "_common_metadata"):
        pq.write_metadata(
            found[0].schema.to_arrow_schema(), root / name, found if name == "_metadata" else None
        )
        os.utime(root / name, (OLD + age, OLD + age))


def counts(table):
    return table.work["footers from _metadata"], table.work["footers"]


@pytest.mark.parametrize("scan", SCANS.values(), ids=SCANS)
def test_no_footer_is_read(tmp_path, scan):
    summarise(years(tmp_path))
    table = scan(tmp_path)
    for where in ("x = 25", "year = 2021 AND x < 25", "x >= 55 OR month = 1"):
        plan = table.plan(where)
        assert (
            plan.row_groups == ss.scan_parquet(tmp_path, use_metadata=False).plan(where).row_groups
        )
        assert plan.to_arrow().equals(
            ss.scan_parquet(tmp_path, use_metadata=False).plan(where).unpruned().to_arrow()
        )
    assert counts(table) == (6, 0)
    assert scan(tmp_path, use_metadata=False).plan().table.work["footers"] >= 6


def rewrite(path, **options):
    write(path, {"x": list(range(90_000, 91_000))}, row_group_size=500, **options)


#     what happens to year=2021/month=1                            of _metadata, footers
CHANGES = {
    "newer": (lambda p: rewrite(p, age=10_001), 5, 1),
    "older, and too short": (lambda p: write(p, {"x": [90_001]}, age=1), 5, 1),
    "added": (lambda p: rewrite(p.parent / "new.parquet", age=1), 6, 1),
    "deleted": (lambda p: p.unlink(), 5, 0),
    "renamed": (lambda p: p.rename(p.parent / "b.parquet"), 5, 1),
}


@pytest.mark.parametrize("scan", SCANS.values(), ids=SCANS)
@pytest.mark.parametrize("change, known, footers", CHANGES.values(), ids=CHANGES)
def test_footers_of_files_that_it_does_not_fit_are_read(tmp_path, scan, change, known, footers):
    summarise(years(tmp_path, rows=1000, row_group_size=500), age=10_000)
    change(tmp_path / "year=2021" / "month=1" / "part.parquet")
    table = scan(tmp_path)
    for where in ("x >= 90000", "x < 30", "x BETWEEN 2200 AND 90005"):
        assert (
            table.plan(where)
            .to_arrow()
            .equals(ss.scan_parquet(tmp_path, use_metadata=False).plan(where).unpruned().to_arrow())
        )
    assert counts(table) == (known, footers)


def test_row_groups_that_are_missing_or_out_of_place(tmp_path):
    """A `_metadata` with only some of the row groups, or with others than the file has."""
    path = write(tmp_path / "a.parquet", {"x": list(range(30))}, row_group_size=10)
    for wrong in ([], [1, 2], [0, 2], [0, 1, 1, 2]):
        parts = [pq.read_metadata(path) for _ in range(3)]
        whole = None
        for g in wrong:
            one = one_group(path, g)
            one.set_file_path("a.parquet")
            whole = one if whole is None else (whole.append_row_groups(one), whole)[1]
        (whole or parts[0]).write_metadata_file(str(tmp_path / "_metadata"))
        table = ss.scan_parquet(tmp_path)
        assert counts(table) == (0, 1), wrong
        assert table.plan("x >= 0").to_arrow().num_rows == 30


def one_group(path, group):
    """Return the footer of a file, reduced to one row group."""
    from tests.support.tables.footers import ROW_GROUPS, read_footer, write_footer

    other = path.parent.parent / "other.parquet"
    other.write_bytes(path.read_bytes())
    footer = read_footer(other)
    kind, (item, groups) = footer[ROW_GROUPS]
    footer[ROW_GROUPS] = kind, (item, [groups[group]])
    write_footer(other, footer)
    return pq.read_metadata(other)


@pytest.mark.parametrize("content", [b"", b"PAR1PAR1", b"none of Parquet's" * 10])
def test_a_broken_summary_is_ignored(tmp_path, content):
    years(tmp_path)
    for name in ("_metadata", "_common_metadata"):
        (tmp_path / name).write_bytes(content)
    for scan in SCANS.values():
        table = scan(tmp_path)
        assert table.plan("x = 25").to_arrow().num_rows == 1
        assert counts(table)[0] == 0


def test_it_does_not_say_who_wrote_a_file(tmp_path):
    """Its key-value metadata comes from at most one of its files.

    Another file may be in the Julian calendar, or order NaN differently.
    """
    days = pa.table({"d": [dt.date(1500, 1, 1), dt.date(1500, 1, 2)], "f": [1.0, np.nan]})
    with pq.ParquetWriter(tmp_path / "b.parquet", days.schema) as writer:
        writer.write_table(days)
        writer.add_key_value_metadata(
            {b"org.apache.spark.version": b"3.1.0", b"org.apache.spark.legacyDateTime": b""}
        )
    os.utime(tmp_path / "b.parquet", (OLD, OLD))
    write(tmp_path / "a.parquet", days)
    summarise(tmp_path, names=["_metadata"])
    table = ss.scan_parquet(tmp_path)
    assert counts(table) == (2, 0)
    assert table.plan("d = DATE '1500-01-09'").verdicts.tolist() == [1, 1]
    assert ss.scan_parquet(tmp_path, use_metadata=False).plan(
        "d = DATE '1500-01-09'"
    ).verdicts.tolist() == [0, 1]


def test_the_schema_of_a_hive_table(tmp_path):
    years(tmp_path)
    pq.write_metadata(
        pa.schema([("x", pa.int64()), ("later", pa.string()), ("year", pa.int64())]),
        tmp_path / "_common_metadata",
    )
    table = ss.scan_hive(tmp_path)
    assert [f"{f.name} {f.type}" for f in table.schema] == [
        "x int64",
        "later string",
        "year int32",
        "month int32",
    ]
    assert counts(table) == (0, 0)
    assert table.plan("later IS NULL AND x = 25").to_arrow()["later"].to_pylist() == [None]


def test_a_snapshot_comes_first_and_includes_the_summary(tmp_path):
    summarise(years(tmp_path))
    ss.scan_hive(tmp_path).save_stats()
    os.unlink(tmp_path / "_metadata")
    table = ss.scan_parquet(tmp_path)
    assert (table.work["footers from the snapshot"], *counts(table)) == (6, 0, 0)
    assert table.plan("x = 25").to_arrow().num_rows == 1
