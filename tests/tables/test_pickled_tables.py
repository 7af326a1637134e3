"""Tables and plans of every format pickle: workers of Ray, Dask and multiprocessing take them."""

import copy
import json
import multiprocessing
import os
import pickle
import threading

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

import skipstone as ss
from tests.support.tables.iceberg_tables import make

CONDITION = "x >= 15 AND s <> 'c'"


def rows(first):
    return pa.table({"x": range(first, first + 10), "s": list("abcdefghij")})


def answers(data):
    """Plan and read each table, and read each plan. It runs in a child."""
    out = {}
    for name, (kind, packed) in data.items():
        found = pickle.loads(packed)
        plan = found.plan(CONDITION) if kind == "table" else found
        got = plan.to_arrow().column("x").to_pylist()
        out[name] = (sorted(got), plan.count(), len(plan.files), str(found.schema))
    return out


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    base = str(tmp_path_factory.mktemp("pickled"))
    for name in ("plain", "hive"):
        for i in range(3):
            folder = f"{base}/{name}" + (f"/k={i}" if name == "hive" else "")
            os.makedirs(folder, exist_ok=True)
            pq.write_table(rows(10 * i), f"{folder}/{i}.parquet", row_group_size=5)
            os.utime(f"{folder}/{i}.parquet", (1, 1))
            deltalake.write_deltalake(f"{base}/{name} delta", rows(10 * i), mode="append")
    ss.scan_parquet(f"{base}/plain").save_stats()
    fields = NestedField(1, "x", LongType()), NestedField(2, "s", StringType())
    lake = make(f"{base}/ice", Schema(*fields))
    for i in range(3):
        lake.append(rows(10 * i))
    found = {
        "parquet, saved footers": ss.scan_parquet(f"{base}/plain"),
        "parquet, footers": ss.scan_parquet(f"{base}/hive", stats=False),
        "hive": ss.scan_hive(f"{base}/hive"),
        "delta": ss.scan_delta(f"{base}/plain delta"),
        "iceberg of a catalog": ss.scan_iceberg(lake),
        "iceberg of a file": ss.scan_iceberg(lake.metadata_location),
    }
    ss.cache_dir = f"{base}/cache"
    try:
        ss.scan_delta(f"{base}/hive delta")
        found["delta, mapped from disk"] = ss.scan_delta(f"{base}/hive delta")
    finally:
        ss.cache_dir = None
    return found


def test_a_spawned_process_gives_equal_answers(tables):
    data = {}
    for name, table in tables.items():
        data[name] = ("table", pickle.dumps(table))  # before anything was planned
        plan = table.plan(CONDITION)
        data[f"{name}: plan"] = ("plan", pickle.dumps(plan))
        data[f"{name}: used"] = ("table", pickle.dumps(table))
    here = answers(data)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        there = pool.apply(answers, (data,))
    assert there == here
    wanted = [x for x in range(15, 30) if x % 10 != 2]
    for name, (got, count, files, _) in here.items():
        assert (name, got, count, files) == (name, wanted, len(wanted), 2)


def test_saved_statistics_pickle_by_value(tmp_path):
    schema = pa.schema([("x", pa.int64())])
    stats = ss.Statistics.from_dict({"x": {"min": [1, 5], "max": [2, 8]}}, schema)
    stats.save(tmp_path / "stats")
    packed = pickle.dumps(ss.Statistics.load(tmp_path / "stats"))
    os.remove(tmp_path / "stats")
    assert ss.PruningPredicate("x > 4", schema).prune(pickle.loads(packed)).tolist() == [
        False,
        True,
    ]


def test_an_iceberg_table_leaves_its_catalog_behind(tables):
    lake = tables["iceberg of a catalog"].source
    lake.catalog.properties["password"] = "hunter2"
    packed = pickle.dumps(tables["iceberg of a catalog"])
    assert b"hunter2" not in packed
    assert json.loads(pickle.loads(packed).metadata.model_dump_json())


def read_splits(packed):
    """Read each split. It runs in a child."""
    return [sorted(s.to_arrow().column("x").to_pylist()) for s in map(pickle.loads, packed)]


def test_splits_of_joins_pickle_before_and_after_their_keys(tables):
    keys = pa.table({"k": [2, 17, 28]})
    for name, table in tables.items():
        later = ss.DynamicFilter(columns={"k": "x"}, builders=2)
        splits = table.plan(CONDITION, dynamic=[later]).splits()
        early = splits.next_split()
        packed = [pickle.dumps(early)]
        collector = ss.DynamicFilterCollector(["k"], keys.schema)
        collector.add(keys)
        for builder in range(2):
            later.report(collector.finish(), builder)
        late = splits.next_split()
        packed += [pickle.dumps(late)]
        here = read_splits(packed)
        with multiprocessing.get_context("fork").Pool(1) as pool:
            assert pool.apply(read_splits, (packed,)) == here, name
        assert here[1] == sorted(late.to_arrow().column("x").to_pylist()), name
        again = pickle.loads(packed[0])
        assert again == early
        waiting = again.plan.dynamic.filters[0]
        assert not waiting.complete and waiting.wait(60) is None  # its keys went to the other one
        splits.return_split(pickle.loads(packed[1]))
        assert splits.next_split() == late


def test_a_failed_filter_pickles():
    lock = threading.Lock()
    found = ss.DynamicFilter(columns={"k": "x"})
    found.fail(RuntimeError(lock))
    again = pickle.loads(pickle.dumps(found))
    assert again.complete and again.data is None and "RuntimeError" in str(again.error)


def test_enumerators_refuse_copies_and_name_their_splits(tables):
    splits = tables["hive"].plan(CONDITION).splits()
    for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"cannot pickle a SplitEnumerator.*next_split\(\)"):
            duplicate(splits)
    packed = [pickle.dumps(split) for split in splits]  # the way out that the message names
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply(read_splits, (packed,))
    wanted = [x for x in range(15, 30) if x % 10 != 2]
    assert sorted(x for part in found for x in part) == wanted
