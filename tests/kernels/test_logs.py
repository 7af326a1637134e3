"""Log records: which there are, what they hold, and that they are silent and keep secrets."""

import json
import logging
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.kernels import logs


@pytest.fixture
def records(caplog):
    caplog.set_level(logging.DEBUG, "skipstone")
    return caplog


def by_event(records):
    return {r.event: r for r in records.records}


@pytest.fixture
def path(tmp_path):
    pq.write_table(pa.table({"x": range(100)}), tmp_path / "t.parquet", row_group_size=10)
    return tmp_path


def test_a_scan_a_plan_and_a_read(path, records):
    plan = ss.scan(path).plan("x >= 85")
    assert plan.to_arrow().num_rows == 15
    found = by_event(records)
    opened, planned, read = (found[e] for e in ("table opened", "table planned", "rows read"))
    assert (opened.name, opened.levelname) == ("skipstone.scan", "INFO")
    assert (opened.work["format"], opened.work["table"]) == ("parquet", str(path))
    assert opened.work["read"]["footers"] == 1 and opened.work["seconds"] > 0
    assert planned.work | {"seconds": 0} == {
        "condition": "x >= 85",
        "unit": "row groups",
        "containers": 10,
        "kept": 2,
        "fully_matched": 1,
        "not_used": 0,
        "seconds": 0,
    }
    assert (read.work["rows"], read.work["complete"]) == (15, True)
    json.dumps([r.work for r in found.values()])


def test_a_stream_that_is_left_is_not_complete(path, records):
    stream = iter(ss.scan(path).plan().to_batches())
    next(stream)
    del stream
    assert by_event(records)["rows read"].work["complete"] is False


def test_a_part_that_is_not_used_is_counted(path, records):
    ss.scan(path).plan("x >= 85 AND rand() < 0.5")
    assert by_event(records)["table planned"].work["not_used"] == 1


def test_caches(tmp_path, records, monkeypatch):
    deltalake = pytest.importorskip("deltalake")
    from skipstone.bindings.tables.delta import cache

    deltalake.write_deltalake(str(tmp_path / "t"), pa.table({"x": [1]}))
    import os

    for one in (tmp_path / "t" / "_delta_log").iterdir():
        os.utime(one, (1e9, 1e9))
    monkeypatch.setattr(ss, "cache_dir", tmp_path / "cache")
    ss.scan_delta(tmp_path / "t")
    assert by_event(records)["statistics saved"].work["version"] == 0
    ss.scan_delta(tmp_path / "t")
    assert by_event(records)["log in memory"].work["table"].endswith("/t")
    cache.forget()
    records.clear()
    ss.scan_delta(tmp_path / "t")
    assert by_event(records)["statistics opened"].work == {
        "table": by_event(records)["statistics opened"].work["table"],
        "version": 0,
        "wanted": 0,
    }


def test_compiles_and_fallbacks(tmp_path):
    code = """
import logging, skipstone as ss, pyarrow as pa
handler = logging.StreamHandler()
handler.setFormatter(logging.Formatter("%(event)s %(name)s"))
logging.getLogger("skipstone").addHandler(handler)
logging.getLogger("skipstone").setLevel(logging.DEBUG)
schema = pa.schema([("x", pa.int64())])
stats = ss.Statistics.from_dict({"x": {"min": [0, 2], "max": [4, 9]}}, schema)
ss.PruningPredicate("x > 7", schema).prune(stats, "numba")
"""

    def said():
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PATH": "", "PYTHONPATH": ":".join(sys.path), "SKIPSTONE_CACHE_DIR": folder},
        )
        return [line for line in done.stderr.splitlines() if "skipstone" in line]

    folder = str(tmp_path / "cache")
    assert said() == ["kernel compiled skipstone.compile"]
    assert said() == ["kernel loaded skipstone.compile"]
    folder = "/dev/null/x"
    assert said() == ["fallback skipstone.fallback", "kernel compiled skipstone.compile"]


SECRETS = [
    "s3://key:secret@lake/t",
    "https://host/t?X-Amz-Signature=secret&v=1",
    "abfs://a?sig=secret",
]


@pytest.mark.parametrize("text", SECRETS)
def test_secrets_stay_out(text, records):
    logs.write("table opened", format="parquet", table=text, read={"footers": 1}, seconds=0.0)
    logs.fallback(f"{text} cannot be read\n[{text}]")
    for record in records.records:
        assert "secret" not in record.getMessage() + repr(record.work)
        assert "\n" not in record.getMessage()


def test_nothing_is_printed_or_counted_by_default(path, capfd, monkeypatch):
    monkeypatch.setattr(logs, "write", lambda *a, **k: pytest.fail("it was counted"))
    monkeypatch.setattr(logs.ROOT, "level", logging.WARNING)
    for logger in (logs.SCAN, logs.PLAN, logs.READ):
        monkeypatch.setattr(logger, "level", logging.WARNING)
        logger._cache.clear()
    assert ss.scan(path).plan("x = 3").files
    assert capfd.readouterr() == ("", "")
    assert any(isinstance(h, logging.NullHandler) for h in logging.getLogger("skipstone").handlers)


def test_all_events_have_own_loggers_below_skipstone():
    assert {logger.name.partition(".")[0] for logger, _, _ in logs.EVENTS.values()} == {"skipstone"}
