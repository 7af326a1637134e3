"""Pruning by footers, for Delta files without bounds in the log."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from tests.support.effort import LONG
from tests.support.tables.delta_log import Log, Written, delta_schema, rows_of, simple, xs

COLUMNS = "x BIGINT, f DOUBLE, s STRING, b BOOLEAN, t TIMESTAMP, p INT, n STRUCT<v: INT>"
WHERE = (
    "x = {k}",
    "x < {k} OR p = 1",
    "f > {k}",
    "s LIKE 's{k}%'",
    "b",
    "t < TIMESTAMP '2024-01-0{d}'",
    "n.v >= {k}",
    "p = 1 AND x > {k}",
    "x IS NULL",
    "NOT (x < {k})",
)


def row(r, base):
    k = base + int(r.integers(0, 6))
    out = {
        "x": k,
        "f": float(k) if r.random() < 0.9 else float("nan"),
        "s": f"s{k}",
        "b": bool(k % 2),
        "t": f"2024-01-0{k % 9 + 1}T00:00:00.123456Z",
        "n": {"v": k},
    }
    return {name: None if r.random() < 0.05 else v for name, v in out.items()}


@pytest.mark.parametrize("seed", range(3 if LONG else 1))
def test_no_row_is_lost(tmp_path, seed):
    r = np.random.default_rng(seed)
    log = Log(tmp_path / "t", delta_schema(COLUMNS), ["p"], features=("deletionVectors",))
    for base in r.integers(0, 50, 12).tolist():
        rows = [row(r, base) for _ in range(int(r.integers(1, 6)))]
        dead = [0] if r.random() < 0.2 else None
        log.add(
            Written(
                rows,
                {"p": ["1", "2", None][r.integers(0, 3)]},
                dead=dead,
                stats=None if r.random() < 0.6 else ...,
            )
        )
    table = ss.scan_delta(log.folder)
    fewer = 0
    for _ in range(12):
        for text in WHERE:
            where = text.format(k=int(r.integers(0, 55)), d=int(r.integers(1, 10)))
            plan, without = table.plan(where), table.plan(where, footers=0)
            assert rows_of(plan.to_arrow()) == rows_of(plan.unpruned().to_arrow()), where
            assert set(plan.files) <= set(without.files)
            fewer += len(plan.files) < len(without.files)
    assert fewer > 10


def test_footers_are_read_of_a_few_files_once(tmp_path):
    log = simple(tmp_path / "t", 3)
    log.add(*(Written([{"x": 100 * i, "s": "q"}], stats=None) for i in range(5)))
    table = ss.scan_delta(log.folder)
    assert len(table.plan("x = 200", footers=4).files) == 5
    assert (len(table.plan("x = 200").files), table.work["footers"]) == (1, 5)
    assert (len(table.plan("x = 300").files), table.work["footers"]) == (1, 5)
    assert (len(table.plan("x = 200", stats_skipping=False).files), table.work["footers"]) == (8, 5)
    assert table.plan("x = 200").count() == 1
    assert len(table.plan("x >= 0", limit=3, order_by="x DESC").to_arrow()) == 3


def test_removing_a_dynamic_filter_keeps_what_footers_said(tmp_path):
    log = simple(tmp_path / "t", 1)
    log.add(*(Written([{"x": 100 * i, "s": "q"}], stats=None) for i in range(5)))
    table = ss.scan_delta(log.folder)
    pending = ss.DynamicFilter(columns={"k": "x"})
    plan = table.plan("x = 200", dynamic=[pending])
    assert len(plan.files) == 1
    assert (plan.with_dynamic([]).files, table.work["footers"]) == (plan.files, 5)


def test_a_file_that_lacks_a_column_or_cannot_be_read(tmp_path):
    log = Log(tmp_path / "t", delta_schema("x INT, y INT"))
    log.add(
        Written([{"x": 1}], stats=None, path="old.parquet"),
        Written([{"x": 2, "y": 5}], stats=None, path="torn.parquet"),
    )
    pq.write_table(pa.table({"x": pa.array([1], pa.int32())}), log.folder / "old.parquet")
    table = ss.scan_delta(log.folder)
    assert table.plan("y = 5").files == (f"{log.folder}/torn.parquet",)
    assert table.plan("y IS NULL").files == (f"{log.folder}/old.parquet",)
    (log.folder / "torn.parquet").write_bytes(b"PAR1")
    assert (
        ss.scan_delta(log.folder, version=1).plan("y = 7").files == ()
    )  # its footer was cached before
    from skipstone.bindings.tables.delta import cache

    cache.forget()
    assert ss.scan_delta(log.folder).plan("y = 7").files == (f"{log.folder}/torn.parquet",)


def test_column_mapping_is_left_alone(tmp_path):
    log = Log(tmp_path / "t", delta_schema("x INT, y INT"), mapping="name")
    log.add(Written([{"x": 1, "y": 2}], stats=None))
    assert xs(ss.scan_delta(log.folder), "x = 1") == [1]
    assert ss.scan_delta(log.folder).plan("x = 7").files
