"""A new snapshot reads only its new manifests, and what is kept is bounded."""

import gc

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

import skipstone as ss
from skipstone.bindings.tables.iceberg import manifest
from skipstone.bindings.tables.iceberg.manifest_cache import MAX_CACHED_BYTES, ManifestCache
from tests.support.tables.iceberg_tables import make

SCHEMA = Schema(NestedField(1, "x", LongType()))
ARROW = pa.schema([pa.field("x", pa.int64(), metadata={"PARQUET:field_id": "1"})])


def put(source, *values):
    source.append(pa.table({"x": list(values)}, ARROW))


def scanned(source, where):
    """Return the rows, files and read manifests of a new table; nothing holds older ones."""
    gc.collect()
    table = ss.scan_iceberg(source)
    plan = table.plan(where)
    return sorted(plan.to_arrow()["x"].to_pylist()), len(plan.files), table.work["manifests"]


def test_a_new_snapshot_reads_only_new_manifests(tmp_path):
    manifest.forget()
    source = make(tmp_path, SCHEMA)
    for i in range(4):
        put(source, i * 10, i * 10 + 5)
    assert scanned(source, "x >= 25") == ([25, 30, 35], 2, 4)
    assert scanned(source, "x >= 25") == ([25, 30, 35], 2, 0)
    put(source, 26)
    assert scanned(source, "x >= 25") == ([25, 26, 30, 35], 3, 1)
    manifest.forget()
    assert scanned(source, "x >= 25") == ([25, 26, 30, 35], 3, 5)


def test_manifests_that_are_written_anew(tmp_path):
    """Files move to other manifests, and are removed: what was kept of the old ones is not used."""
    manifest.forget()
    source = make(tmp_path, SCHEMA)
    for i in range(3):
        put(source, i * 10, i * 10 + 5)
    assert scanned(source, "x >= 10") == ([10, 15, 20, 25], 2, 3)
    merging = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
    with source.transaction() as change:
        change.set_properties(merging)
    put(source, 30)
    assert len(ss.scan_iceberg(source).manifests) == 1
    assert scanned(source, "x >= 10") == ([10, 15, 20, 25, 30], 3, 1)
    source.delete("x >= 20 AND x <= 25")
    found, files, _ = scanned(source, "x >= 10")
    assert (found, files) == ([10, 15, 30], 2)
    old = source.snapshots()[2].snapshot_id
    plan = ss.scan_iceberg(source, old).plan("x >= 10")
    assert sorted(plan.to_arrow()["x"].to_pylist()) == [10, 15, 20, 25]


class Kept:
    def __init__(self, nbytes):
        self.held_bytes = nbytes


def test_the_latest_are_kept():
    cache, keys = ManifestCache(100), [(str(i), 1, 0, 0) for i in range(4)]
    for key in keys[:3]:
        cache.add({key: Kept(40)})
    gc.collect()
    assert cache.nbytes == 80 and set(cache.find(keys)) == set(keys[1:3])
    assert set(cache.find(keys[1:2])) == {keys[1]}  # used, so the other one goes next
    cache.add({keys[3]: Kept(30)})
    assert cache.nbytes == 70 and set(cache.find(keys)) == {keys[1], keys[3]}
    big = Kept(101)
    cache.add({keys[0]: big})  # while it is in use, it is found
    assert cache.nbytes == 70 and cache.find(keys)[keys[0]] is big
    del big
    gc.collect()
    assert set(cache.find(keys)) == {keys[1], keys[3]}
    cache.clear()
    assert cache.nbytes == 0 and cache.find(keys) == {}


@pytest.mark.parametrize("other", [("0", 2, 0, 0), ("0", 1, 1, 0), ("0", 1, 0, 1), ("1", 1, 0, 0)])
def test_another_length_or_place_is_another_manifest(other):
    cache = ManifestCache()
    cache.add({("0", 1, 0, 0): Kept(MAX_CACHED_BYTES // 2)})
    assert cache.find([other]) == {}
