"""Counted work: immutable values, differences, and counting from many threads."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import skipstone as ss
from skipstone.bindings.plans.work import Meter
from tests.support.tables.lazy import years


def test_work_is_a_value():
    meter = Meter()
    meter.count("footers", 2, 100)
    before = meter.work
    with meter.phase("listing"):
        meter.count("folders")
    after = meter.work
    assert (before["footers"], before["folders"], before.bytes) == (2, 0, 100)
    assert (after - before).counts == {"folders": 1}
    assert (after - before).seconds["listing"] == after.seconds["listing"] > 0
    assert before - before == ss.Work()
    assert repr(ss.Work({"footers": 1200}, 5)) == "Work(1,200 footers, 5 bytes)"
    assert pickle.loads(pickle.dumps(after)) == after


def test_many_threads_count():
    meter = Meter()
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: meter.count("files", 1, 2), range(4000)))
    assert (meter.work["files"], meter.work.bytes) == (4000, 8000)
    assert pickle.loads(pickle.dumps(meter)).work == ss.Work()


def test_what_a_scan_counts(tmp_path):
    years(tmp_path)
    table = ss.scan_parquet(tmp_path)
    scanned = table.work
    assert scanned.counts == {"folders": 10, "files": 6, "footers": 6}
    assert scanned.bytes == sum(
        p.stat().st_size for p in tmp_path.rglob("*.parquet")
    )  # small files are read as a whole
    assert set(scanned.seconds) == {"listing", "footers"}
    table.plan("x = 5")
    assert set((table.work - scanned).seconds) == {"planning"}
