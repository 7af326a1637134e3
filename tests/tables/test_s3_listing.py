"""Listing many keys in S3: requests are by pages, and only of the partitions that are asked for."""

import io
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from tests.support.effort import LONG
from tests.support.tables import s3
from tests.support.tables.s3_listing import LARGEST_PAGE, objects

KEYS = 100_000 if LONG else 3_500
PAGES = -(-KEYS // LARGEST_PAGE)
SMALL = 20


@pytest.fixture(scope="module")
def bucket():
    """A Hive table of two partitions: one of few files, and one of many."""
    out = io.BytesIO()
    pq.write_table(pa.table({"x": [1, 2, 3]}), out)
    keys = [f"t/k={k}/{i:06d}.parquet" for k, n in ((0, SMALL), (1, KEYS)) for i in range(n)]
    with objects(keys, out.getvalue()) as found:
        yield found


@pytest.fixture(autouse=True)
def reached(bucket, monkeypatch):
    for name, value in s3.environment(bucket[0]).items():
        monkeypatch.setenv(name, value)
    bucket[1].clear()


def listings(seen, folder=""):
    return [r for r in seen if "list-type=2" in r and "max-keys=1000" in r and folder in r]


def test_keys_are_listed_by_pages(bucket):
    seen = bucket[1]
    files = ss.scan_hive("s3://lake/t").all_files
    assert len(files) == len(set(files)) == KEYS + SMALL
    assert files[-1].endswith(f"t/k=1/{KEYS - 1:06d}.parquet")
    many = listings(seen, "k%3D1%2F")
    assert len([r for r in many if "continuation-token" in r]) == len(many) - 1 == PAGES - 1
    # A few more find out what the folder is; none asks for single keys.
    assert len(seen) <= PAGES + 30


def test_other_partitions_are_not_listed(bucket):
    seen = bucket[1]
    plan = ss.scan_hive("s3://lake/t").plan("k = 0")
    assert len(plan.files) == SMALL
    assert not listings(seen, "k%3D1%2F")
    assert len(seen) <= 2 * SMALL + 30


LIST = """
import resource, sys
import skipstone as ss
table = ss.scan_hive("s3://lake/t")
table.plan("k = 0")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert table.num_files == int(sys.argv[1])
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@pytest.mark.skipif(not LONG, reason="100,000 keys take some time; SKIPSTONE_TESTS=long")
def test_memory_is_bounded(bucket):
    """A key takes a few hundred bytes while it is listed."""
    done = subprocess.run(
        [sys.executable, "-c", LIST, str(KEYS + SMALL)],
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    assert int(done.stdout) < 2_000 * KEYS
