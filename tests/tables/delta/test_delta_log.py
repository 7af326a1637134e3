"""Every form of a Delta log, its versions, damaged logs, and incremental reads."""

import datetime as dt
import json
import os
import re
import shutil

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.tables.delta import cache, snapshot
from skipstone.bindings.tables.delta.log import version_at
from skipstone.bindings.tables.delta.segment import segment
from tests.support.tables.delta_log import (
    Log,
    Written,
    delta_schema,
    rows_of,
    simple,
    xs,
)


def test_every_form_of_the_log_gives_the_same_files(tmp_path):
    """Commits, a checkpoint, one in parts, a compaction, and a v2 checkpoint with sidecars."""
    log = simple(tmp_path / "commits", 4)
    first = json.loads((log.log / f"{1:020}.json").read_text().splitlines()[1])["add"]["path"]
    log.commit({"remove": {"path": first, "dataChange": True, "deletionTimestamp": 1}})
    log.add(Written([{"x": 100, "s": "z"}]))
    expected = xs(ss.scan_delta(log.folder))
    assert expected == [*range(10, 40), 100]

    plain = tmp_path / "checkpoint"
    shutil.copytree(log.folder, plain)
    deltalake.DeltaTable(plain, version=5).create_checkpoint()
    for v in range(4):
        os.remove(plain / "_delta_log" / f"{v:020}.json")
    assert xs(ss.scan_delta(plain)) == expected
    whole = pq.read_table(plain / "_delta_log" / f"{5:020}.checkpoint.parquet")

    parts = tmp_path / "parts"
    shutil.copytree(plain, parts)
    os.remove(parts / "_delta_log" / f"{5:020}.checkpoint.parquet")
    for i in range(2):
        pq.write_table(
            whole.slice(
                i * whole.num_rows // 2, whole.num_rows // 2 + 1 if i else whole.num_rows // 2
            ),
            parts / "_delta_log" / f"{5:020}.checkpoint.{i + 1:010}.{2:010}.parquet",
        )
    assert xs(ss.scan_delta(parts)) == expected
    os.remove(parts / "_delta_log" / f"{5:020}.checkpoint.{2:010}.{2:010}.parquet")
    cache.forget()
    with pytest.raises(ss.SourceError, match="lacks the commit of version 0"):
        ss.scan_delta(parts)

    compacted = tmp_path / "compacted"
    shutil.copytree(log.folder, compacted)
    lines = []
    for v in range(1, 5):
        text = (compacted / "_delta_log" / f"{v:020}.json").read_text().splitlines()
        lines += [
            line
            for line in text
            if "commitInfo" not in line and not (first in line and "add" in json.loads(line))
        ]
        os.remove(compacted / "_delta_log" / f"{v:020}.json")
    (compacted / "_delta_log" / f"{1:020}.{4:020}.compacted.json").write_text("\n".join(lines))
    assert xs(ss.scan_delta(compacted)) == expected

    two = tmp_path / "two"
    shutil.copytree(plain, two)
    os.remove(two / "_delta_log" / f"{5:020}.checkpoint.parquet")
    (two / "_delta_log" / "_sidecars").mkdir()
    adds = whole.filter(pc.is_valid(whole.column("add"))).select(["add"])
    pq.write_table(adds, two / "_delta_log" / "_sidecars" / "one.parquet")
    settings = [json.loads(line) for line in (log.log / f"{0:020}.json").read_text().splitlines()]
    sidecar = {"sidecar": {"path": "one.parquet", "sizeInBytes": 1, "modificationTime": 1}}
    name = f"{5:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11"
    (two / "_delta_log" / f"{name}.json").write_text(
        "".join(json.dumps(a) + "\n" for a in (*settings, sidecar))
    )
    assert xs(ss.scan_delta(two)) == expected
    os.remove(two / "_delta_log" / f"{name}.json")
    setting = pa.struct(
        [
            ("id", pa.string()),
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.string())),
            ("configuration", pa.map_(pa.string(), pa.string())),
        ]
    )
    needs = pa.struct([("minReaderVersion", pa.int32()), ("readerFeatures", pa.list_(pa.string()))])
    kinds = pa.schema(
        [
            ("protocol", needs),
            ("metaData", setting),
            ("sidecar", pa.struct([("path", pa.string())])),
        ]
    )
    pq.write_table(
        pa.Table.from_pylist(
            [
                *(
                    {k: v | {"configuration": []} if k == "metaData" else v for k, v in a.items()}
                    for a in settings
                ),
                sidecar,
            ],
            kinds,
        ),
        two / "_delta_log" / f"{name}.parquet",
    )
    assert xs(ss.scan_delta(two)) == expected
    assert xs(ss.scan_delta(two), "x >= 30") == [*range(30, 40), 100]
    assert len(ss.scan_delta(two).plan("x >= 30").files) == 2


def test_a_checkpoint_of_an_emptied_table(tmp_path):
    """Spark writes both forms of statistics, also where no file has any."""
    log = simple(tmp_path / "t", 1)
    log.remove(0)
    deltalake.DeltaTable(log.folder, version=2).create_checkpoint()
    path = log.log / f"{2:020}.checkpoint.parquet"
    whole = pq.read_table(path)
    assert not pc.any(pc.is_valid(whole.column("add"))).as_py()
    kind = pa.struct(
        [
            ("path", pa.string()),
            ("stats", pa.string()),
            ("stats_parsed", pa.struct([("numRecords", pa.int64())])),
        ]
    )
    at = whole.schema.get_field_index("add")
    pq.write_table(whole.set_column(at, "add", pa.nulls(whole.num_rows, kind)), path)
    for v in range(3):
        os.remove(log.log / f"{v:020}.json")
    assert xs(ss.scan_delta(log.folder)) == []
    log.add(Written([{"x": 7, "s": "z"}]))
    assert xs(ss.scan_delta(log.folder), "x = 7") == [7]
    assert xs(ss.scan_delta(log.folder), "x = 8") == []


def test_versions_and_times(tmp_path):
    log = simple(tmp_path / "t", 3)
    for v in range(4):
        os.utime(log.log / f"{v:020}.json", (1000 * v + 1000,) * 2)
    assert [ss.scan_delta(log.folder, v).num_files for v in range(4)] == [0, 1, 2, 3]
    at = dt.datetime.fromtimestamp(2500, dt.UTC)
    assert ss.scan_delta(log.folder, at).version == 1
    assert ss.scan_delta(log.folder, at.isoformat()).version == 1
    assert ss.scan_delta(log.folder, dt.datetime(2100, 1, 1, tzinfo=dt.UTC)).version == 3
    for bad, message in (
        (9, "there is no version 9; expected 0 to 3"),
        (-1, "no version -1"),
        ("2020-01-01", "names no time zone; add one, such as '2020-01-01T00:00:00+00:00'"),
    ):
        with pytest.raises(ss.SourceError, match=re.escape(message)):
            ss.scan_delta(log.folder, bad)
    with pytest.raises(ss.SourceError, match="no version is as old"):
        ss.scan_delta(log.folder, dt.datetime.fromtimestamp(5, dt.UTC))


@pytest.mark.parametrize(
    ("times", "at", "version"),
    [  # times of the commits' files, in ms, and the version by Spark
        ((1000, 1000, 1000, 1000), 1000, 0),
        ((1000, 1000, 1000, 1000), 1001, 1),
        ((1000, 1200, 1100, 1150), 1150, 0),
        ((1000, 1200, 1100, 1150), 1200, 1),
        ((1000, 1200, 1100, 1150), 1202, 3),
        ((2000, 1000, 1001, 3000), 1500, None),
        ((2000, 1000, 1001, 3000), 2001, 1),
        ((1000, 1000.4, 1000.9, 1001), 1000.9, 0),
        # The last two have inCommitTimestamps, of 5000 and 6000.
        ((1000, 7000, 0, 0), 1500, 0),
        ((1000, 7000, 0, 0), 4999, 0),
        ((1000, 7000, 0, 0), 5000, 2),
        ((1000, 1100, 9000, 9001), 4999, 1),
        ((1000, 1100, 9000, 9001), 6000, 3),
    ],
)
def test_times_of_commits_that_were_copied(tmp_path, times, at, version):
    """Files of commits may have one time, or times in another order than their versions."""
    log = simple(tmp_path / "t", 3)
    stamped = ((2, 5000), (3, 6000)) if at > 1300 and times[0] == 1000 else ()
    for v, stamp in stamped:
        path = log.log / f"{v:020}.json"
        info = json.dumps({"commitInfo": {"inCommitTimestamp": stamp}})
        path.write_text(f"{info}\n{path.read_text()}")
    for v, ms in enumerate(times):
        os.utime(log.log / f"{v:020}.json", ns=(int(ms * 10**6),) * 2)
    when = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=at)
    if version is None:
        with pytest.raises(ss.SourceError, match="no version is as old"):
            ss.scan_delta(log.folder, when)
    else:
        assert ss.scan_delta(log.folder, when).version == version


def test_storage_that_tells_no_times_chooses_no_version(tmp_path):
    log, fs = simple(tmp_path / "t", 3).log, pafs.LocalFileSystem()
    listed = [pafs.FileInfo(str(p), type=pafs.FileType.File) for p in sorted(log.iterdir())]
    when = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)
    with pytest.raises(ss.SourceError, match="does not say when it was written"):
        version_at(listed, when, fs, "here")
    assert version_at(listed, 1, fs, "here") == 1


def cut(log):
    path = log.log / f"{2:020}.json"
    path.write_bytes(path.read_bytes()[:-30])


def lost(log):
    os.remove(log.log / f"{2:020}.json")


def unknown_feature(log):
    log.commit(
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["teleportation"],
                "writerFeatures": ["teleportation"],
            }
        }
    )


def no_settings(log):
    (log.log / f"{0:020}.json").write_text('{"commitInfo": {}}\n')


def bad_type(log):
    path = log.log / f"{0:020}.json"
    path.write_text(path.read_text().replace("long", "lung"))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut, "00002.json: the commit is not JSON"),
        (lost, "lacks the commit of version 2"),
        (unknown_feature, "needs a reader that supports teleportation"),
        (no_settings, "has no metaData"),
        (bad_type, "the type 'lung'"),
    ],
)
def test_a_damaged_log_is_an_error_that_names_it(tmp_path, damage, message):
    log = simple(tmp_path / "t", 3)
    damage(log)
    with pytest.raises(ss.SourceError, match=message):
        ss.scan_delta(log.folder)


def test_a_missing_commit_after_a_checkpoint_is_named():
    names = [f"{5:020}.checkpoint.parquet", *(f"{v:020}.json" for v in (5, 6, 8))]
    with pytest.raises(ss.SourceError, match=r"lacks the commit of version 7; .* of version 5"):
        segment(names, 8, "t/_delta_log")


def test_no_table(tmp_path):
    with pytest.raises(ss.SourceError, match=r"no _delta_log folder; .*scan opens"):
        ss.scan_delta(tmp_path)


def test_a_version_is_read_once_and_newer_ones_incrementally(tmp_path, monkeypatch):
    log = simple(tmp_path / "t", 3, features=("deletionVectors",))
    first = ss.scan_delta(log.folder)
    assert ss.scan_delta(log.folder) is first
    fetched = []
    fetch = snapshot.fetch
    monkeypatch.setattr(
        snapshot,
        "fetch",
        lambda fs, folder, commits, meter: (
            fetched.extend(c.name for c in commits) or fetch(fs, folder, commits, meter)
        ),
    )
    actions = [
        json.loads((log.log / f"{v:020}.json").read_text().splitlines()[1])["add"] for v in (1, 2)
    ]
    log.commit({"remove": {"path": actions[0]["path"], "dataChange": True}})
    log.add(Written([{"x": 100, "s": "z"}], path="a%20b c.parquet"))
    log.commit(
        {"remove": {"path": actions[1]["path"], "dataChange": True}},
        {"add": actions[1] | {"deletionVector": log.vector([0])}},
    )
    newer = ss.scan_delta(log.folder)
    assert fetched == [f"{v:020}.json" for v in (4, 5, 6)]
    log.commit({"remove": {"path": "a%2520b%20c.parquet", "dataChange": True}})
    newest = ss.scan_delta(log.folder)
    assert xs(newer) == [*range(11, 30), 100]
    assert xs(newest) == [*range(11, 30)]
    assert xs(first) == [*range(30)]
    for table in (first, newer, newest):
        fresh = fresh_copy(tmp_path, log.folder, table.version)
        assert rows_of(fresh.plan("x > 12").to_arrow()) == rows_of(table.plan("x > 12").to_arrow())
        assert sorted(fresh.all_files) == sorted(table.all_files)


def fresh_copy(tmp_path, folder, version):
    cache.forget()
    return ss.scan_delta(folder, version)


def test_another_table_in_the_same_place_is_another_table(tmp_path):
    simple(tmp_path / "t", 2)
    first = ss.scan_delta(tmp_path / "t")
    shutil.rmtree(tmp_path / "t")
    log = Log(tmp_path / "t", delta_schema("y INT"))
    for i in range(4):
        log.add(Written([{"y": i}]))
    second = ss.scan_delta(tmp_path / "t")
    assert (first.schema.names, second.schema.names, second.num_files) == (["x", "s"], ["y"], 4)


def test_a_changed_schema_is_read_again(tmp_path):
    log = simple(tmp_path / "t", 2)
    assert ss.scan_delta(log.folder).schema.names == ["x", "s"]
    described = delta_schema("x BIGINT, s STRING, z INT")
    metadata = {
        "id": "a",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(described),
        "partitionColumns": [],
        "configuration": {},
    }
    log.commit({"metaData": metadata})
    table = ss.scan_delta(log.folder)
    assert table.schema.names == ["x", "s", "z"]
    assert xs(table, "z IS NULL") == [*range(20)]
