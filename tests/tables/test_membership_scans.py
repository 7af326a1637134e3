"""Value lists and bloom filters: verdicts from them must agree with the rows of random tables."""

import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.ir import types as ty
from skipstone.ir.errors import UnsupportedForm
from skipstone.ir.rows import judge
from skipstone.ir.types import leaves_of
from tests.support.effort import LONG
from tests.support.predicates.predicates import predicate
from tests.support.rows.strategies import array_of, table
from tests.support.statistics.members import column_values

NEVER, MAYBE, ALWAYS = ss.Verdict


# Random rows: verdicts from lists and filters must agree with the rows.


def check(p, stats, batches):
    verdicts = p.evaluate(stats).tolist()
    assert p.prune(stats).tolist() == [v != NEVER for v in verdicts]
    for batch, v in zip(batches, verdicts, strict=True):
        try:
            truth = judge(p.node, batch, {})
        except UnsupportedForm:  # this form cannot filter rows
            return
        assert v != NEVER or not truth.true.any(), p
        assert v != ALWAYS or truth.true.all(), p


@pytest.mark.parametrize("seed", range(25 if LONG else 5))
def test_random_rows_under_lists(seed):
    r = random.Random(seed)
    t = table(r, containers=8)
    batches = [t.batch(i) for i in range(8)]
    given = {}
    for f in t.fields:
        values = [[row[f.path] for row in rows if row[f.path] is not None] for rows in t.containers]
        flat = array_of([v for some in values for v in some], f.arrow)
        lists = pa.ListArray.from_arrays(np.cumsum([0, *map(len, values)]).astype(np.int32), flat)
        nulls = [
            sum(row[f.path] is None for row in rows) if r.random() < 0.5 else None
            for rows in t.containers
        ]
        given[f.name] = {"values": lists, "null_count": nulls} | (
            {"bloom": [None] * 8} if r.random() < 0.1 else {}
        )
    stats = ss.Statistics.from_dict(given, t.schema, row_count=[len(rows) for rows in t.containers])
    for _ in range(60):
        check(
            ss.PruningPredicate(
                predicate(r, t.fields, plain=True, others=r.random() < 0.3).sql, t.schema
            ),
            stats,
            batches,
        )


def test_random_rows_under_filters(tmp_path):
    written = 0
    for seed in range(36 if LONG else 8):
        r = random.Random(seed)
        t = table(r, containers=6)
        batches = [b for b in map(t.batch, range(6)) if b.num_rows]
        options = {
            ".".join(f.path): {"ndv": 5, "fpp": 0.01}
            for f in t.fields
            if f.dtype.kind is not ty.Kind.BOOL
        }
        path = tmp_path / f"{seed}.parquet"
        try:
            with pq.ParquetWriter(
                path, t.schema, bloom_filter_options=options, write_statistics=r.random() < 0.5
            ) as writer:
                for b in batches:
                    writer.write_batch(b)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
            continue  # a type that Parquet lacks, or a time that overflows its units
        scanned = ss.scan_parquet(path)
        if len(scanned.groups) != len(batches):
            continue
        written += 1
        leaves = leaves_of(scanned.schema)
        if any(leaves[f.path].dtype != f.dtype for f in t.fields):
            continue  # seconds are stored as milliseconds
        groups = [
            pa.Table.from_batches([b]).cast(scanned.schema).combine_chunks().to_batches()[0]
            for b in batches
        ]
        for _ in range(30):
            check(
                ss.PruningPredicate(
                    predicate(r, t.fields, plain=True, others=r.random() < 0.3).sql, scanned.schema
                ),
                scanned.statistics,
                groups,
            )
    assert written > (12 if LONG else 5)


# Scans.


@pytest.fixture
def scattered(tmp_path):
    """Two files of four row groups: bounds rule out nothing, filters nearly everything."""
    r = random.Random(3)
    kinds = {
        "k": pa.int64(),
        "s": pa.string(),
        "m": pa.decimal128(9, 2),
        "t": pa.timestamp("us", "UTC"),
        "f": pa.float32(),
    }
    tables = []
    for i in range(2):
        columns = {c: pa.array(column_values(kind, 2000, r), kind) for c, kind in kinds.items()}
        tables.append(
            pa.table(
                {
                    **columns,
                    "a": pa.array(
                        [{"b": v} for v in columns["k"].to_pylist()], pa.struct([("b", pa.int64())])
                    ),
                }
            )
        )
        options = {c: {"ndv": 500, "fpp": 0.001} for c in (*kinds, "a.b")}
        pq.write_table(
            tables[-1], tmp_path / f"{i}.parquet", row_group_size=500, bloom_filter_options=options
        )
    return tmp_path, tables


def test_scans_read_filters(scattered, monkeypatch):
    folder, tables = scattered
    table = ss.scan_parquet(folder)
    whole = pa.concat_tables(tables)
    kept = 0
    for c in ("k", "s", "m", "t", "f", "a.b"):
        column = whole["k"] if c == "a.b" else whole[c]
        for at in (0, 700, 3999):
            value = column[at].as_py()
            if value != value:
                continue
            p = ss.PruningPredicate(
                ss.col(c) == (column[at] if c != "f" else np.float32(value)), table.schema
            )
            rows = table.plan(p)
            assert rows.to_arrow().num_rows >= 1
            kept += len(rows.kept)
    assert kept <= 18 * 1.5  # of 18 * 8: nearly each value lies in one row group
    assert len(table.plan("k IN (1, 2, 3)").kept) == 0
    assert len(table.plan("k NOT IN (1, 2, 3)").kept) == 8
    assert (table.plan("k <> 1 OR k IS NULL").verdicts == ALWAYS).all()


def test_scans_skip_filters_that_bounds_make_needless(tmp_path):
    pq.write_table(
        pa.table({"k": range(0, 4000, 2)}),
        tmp_path / "t.parquet",
        row_group_size=500,
        bloom_filter_options={"k": {"ndv": 500, "fpp": 0.001}},
    )
    table = ss.scan_parquet(tmp_path)
    assert len(table.plan("k > 1001").kept) == 3
    assert table.work["bloom filters"] == 0
    for _ in range(2):
        assert len(table.plan("k = 1002").kept) == 1
        assert len(table.plan("k = 1001").kept) == 0
    assert table.work["bloom filters"] == 1
    (tmp_path / "t.parquet").unlink()
    assert len(table.plan("k = 3001").kept) == 1  # a removed file proves nothing


def test_filters_of_partition_columns_and_other_types(tmp_path):
    """A partition value overrides the file's column; a filter is probed in its file's own type."""
    (tmp_path / "k=5").mkdir()
    pq.write_table(
        pa.table({"k": [7, 8], "x": pa.array([1, 2], pa.int32())}),
        tmp_path / "k=5" / "a.parquet",
        bloom_filter_options={"k": True, "x": True},
    )
    pq.write_table(
        pa.table({"x": pa.array([1, 2**40], pa.int64())}),
        tmp_path / "k=5" / "b.parquet",
        bloom_filter_options={"x": True},
    )
    table = ss.scan_parquet(tmp_path)
    assert len(table.plan("k = 5").kept) == 2
    assert len(table.plan("x = 1").kept) == 2
    assert [len(table.plan(f"x = {v}").kept) for v in (2, 2**40, 3)] == [1, 1, 0]


def test_damaged_filters_rule_nothing_out(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(
        pa.table({"k": [0, 9]}), path, bloom_filter_options={"k": {"ndv": 10, "fpp": 0.01}}
    )
    at = pq.read_metadata(path).row_group(0).column(0).bloom_filter_offset
    whole = path.read_bytes()
    assert len(ss.scan_parquet(path).plan("k = 5").kept) == 0
    r = random.Random(1)
    for _ in range(60):
        head = bytearray(whole)
        head[at + r.randrange(12)] = r.randrange(256)
        path.write_bytes(head)
        for where in ("k = 0", "k = 9"):
            assert len(ss.scan_parquet(path).plan(where).kept) == 1
