"""First answers import neither pandas nor numba, which take as long to import as all the rest.

pyarrow imports pandas, if it is installed, for Python values and for `Array.to_numpy`. Each
question is asked three times, because what was read before changes how pages are chosen.

They do without `pyarrow.compute`, too, which wraps 300 functions when it is imported. Plain
conditions whose text an earlier process has parsed also do without sqlglot and `numpy.ma`.
"""

import datetime as dt
import json
import os
import subprocess
import sys
from decimal import Decimal
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pandas")

ROWS, FILES = 24_000, 4
BASE = dt.datetime(2024, 1, 1)
# column -> its values, and conditions. Every condition holds for some rows.
COLUMNS = {
    "i": (pa.array(range(ROWS), pa.int32()), ["i = 777", "i % 7 = 3 AND i < 100", "i IN (1, 777)"]),
    "f": (pa.array([x / 4 for x in range(ROWS)]), ["f < 3", "f BETWEEN 100.0D AND 101.0D"]),
    "m": (pa.array([Decimal(x) / 100 for x in range(ROWS)], pa.decimal128(15, 2)),
          ["m = 1.25", "m BETWEEN 1.25 AND 2.5 AND i > 3", "m * 2 > 470"]),
    "w": (pa.array([Decimal(x) for x in range(ROWS)], pa.decimal128(30, 4)), ["w < 5", "w = 3.0"]),
    "d": (pa.array([dt.date(2000, 1, 1) + dt.timedelta(x // 4) for x in range(ROWS)]),
          ["d = DATE '2001-01-05'", "year(d) = 2003 AND i < 9000"]),
    "t": (pa.array([BASE + dt.timedelta(seconds=x) for x in range(ROWS)],
                   pa.timestamp("us", "UTC")),
          ["t = TIMESTAMP '2024-01-01 00:10:00Z'", "hour(t) = 3"]),
    "s": (pa.array([f"k{x:06d}" for x in range(ROWS)]),
          ["s = 'k000777'", "s LIKE 'k0007%'", "s IN ('k000777', 'k012345')", "length(s) = 7",
           "upper(s) = 'K000777'", "n = 5 OR s = 'k000777'"]),
    "y": (pa.array([f"k{x:06d}".encode() for x in range(ROWS)]), ["y = X'6B303030373737'"]),
    "b": (pa.array([x < ROWS // 2 for x in range(ROWS)]), ["b", "NOT b AND i < 13000"]),
    "n": (pa.array([x if x % 3 else None for x in range(ROWS)]),
          ["n IS NULL AND i < 50", "coalesce(n, 0) = 5", "n <=> 5"]),
    "st": (pa.array([{"a": x, "c": str(x)} for x in range(ROWS)]), ["st.a = 777"]),
}  # fmt: skip
MAP = pa.map_(pa.string(), pa.int64())
TABLE = pa.table({name: values for name, (values, _) in COLUMNS.items()})

ASK = """
import os, sys, threading, traceback
import skipstone as ss

refused, source, *conditions = sys.argv[1:]

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name not in refused.split():
            return
        calls = traceback.extract_stack()
        # Polars looks for pandas without importing it; loops are compiled in the background.
        if any("/site-packages/polars/" in c.filename for c in calls):
            return
        if name == "numba" and threading.current_thread().name == "skipstone-compile":
            return
        ours = [c for c in calls if "skipstone" in c.filename]
        print(f"{name} is imported for", *(ours or calls)[-9:], sep="\\n", flush=True)
        os._exit(1)  # also from a thread

sys.meta_path.insert(0, Refused())
for _ in range(3):
    for where in conditions:
        assert ss.scan(source).plan(where, columns=["i", "s", "d"]).to_arrow().num_rows > 0, where
if "sqlglot" not in refused:  # it parses the order
    matching = ss.scan(source).plan(conditions[0])
    assert matching.count() > 0 and matching.min("i") is not None
    first = ss.scan(source).plan(conditions[0], columns=["i", "d"], order_by="d DESC, i", limit=3)
    assert first.to_arrow().num_rows > 0
"""


def parquet(folder, **options):
    folder.mkdir()
    for k in range(FILES):
        part = TABLE.slice(k * ROWS // FILES, ROWS // FILES)
        pq.write_table(
            part, folder / f"{k}.parquet", row_group_size=2000, data_page_size=4096, **options
        )
    return str(folder)


def delta(folder):
    deltalake = pytest.importorskip("deltalake")
    for k in range(FILES):
        part = TABLE.slice(k * ROWS // FILES, ROWS // FILES)
        deltalake.write_deltalake(str(folder), part, mode="append")
    return str(folder)


def partitioned_delta(folder):
    deltalake = pytest.importorskip("deltalake")
    table = TABLE.append_column("k", pa.array([x // 6000 for x in range(ROWS)], pa.int32()))
    deltalake.write_deltalake(str(folder), table, partition_by=["k"])
    return str(folder)


def checkpointed(folder):
    deltalake = pytest.importorskip("deltalake")
    source = delta(folder)
    deltalake.DeltaTable(source).create_checkpoint()
    return source


def many_deltas(folder):
    """Write a table whose log is parsed by compiled loops, though all but four files hold NULLs."""
    source = delta(folder)
    nulls = {"a": 10, "c": 10}
    counts = {"numRecords": 10, "nullCount": {n: 10 if n != "st" else nulls for n in COLUMNS}}
    add = {"partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    add["stats"] = json.dumps(counts)
    adds = ({"add": add | {"path": f"none-{i}.parquet"}} for i in range(5000))
    log = folder / "_delta_log" / f"{FILES:020}.json"
    log.write_text("".join(json.dumps(action) + "\n" for action in adds))
    return source


def hive(folder):
    for k in range(FILES):
        (folder / f"k={k}").mkdir(parents=True)
        pq.write_table(TABLE.slice(k * 6000, 6000), folder / f"k={k}" / "0.parquet")
    return str(folder)


def iceberg(folder):
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    folder.mkdir()
    catalog = sql.SqlCatalog("lake", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", TABLE.schema)
    for k in range(FILES):
        table.append(TABLE.slice(k * ROWS // FILES, ROWS // FILES))
    return table.metadata_location


WRITERS = {
    "parquet": parquet,
    "page indexes": partial(parquet, write_page_index=True),
    "decimals as integers": partial(parquet, store_decimal_as_integer=True),
    "hive": hive,
    "delta": delta,
    "partitioned delta": partitioned_delta,
    "many deltas": many_deltas,
    "checkpointed": checkpointed,
    "iceberg": iceberg,
}


def ask(refused, source, conditions, cache):
    """Ask all conditions in a fresh process that refuses to import some modules."""
    done = subprocess.run(
        [sys.executable, "-c", ASK, refused, source, *conditions],
        capture_output=True,
        text=True,
        env=os.environ | {"SKIPSTONE_CACHE_DIR": str(cache)},
    )
    assert done.returncode == 0, done.stdout + done.stderr


PLAIN = ("i = 777", "i IN (1, 777)", "f < 3", "m = 1.25", "m BETWEEN 1.25 AND 2.5 AND i > 3",
         "w < 5", "d = DATE '2001-01-05'", "s = 'k000777'", "s IN ('k000777', 'k012345')", "b",
         "n IS NULL AND i < 50", "NOT b AND i < 13000")  # fmt: skip


@pytest.mark.parametrize("writer", WRITERS)
def test_first_answers_import_little(writer, tmp_path):
    source, cache = WRITERS[writer](tmp_path / "lake"), tmp_path / "cache"
    conditions = (where for _, wheres in COLUMNS.values() for where in wheres)
    # A process saves its first 16 parses.
    asked = list(dict.fromkeys([*PLAIN, *conditions]))
    ask("pandas numba pyarrow.compute", source, asked, cache)
    ask("pandas numba pyarrow.compute sqlglot numpy.ma", source, PLAIN, cache)


def test_first_answers_about_lists_do_without_pandas(tmp_path):
    rows = TABLE.select(["i", "s", "d"])
    rows = rows.append_column("l", pa.array([[x, x + 1] for x in range(ROWS)]))
    rows = rows.append_column("it", pa.array([[{"k": str(x)}] for x in range(ROWS)]))
    rows = rows.append_column("m", pa.array([[("k", x)] for x in range(ROWS)], MAP))
    pq.write_table(rows, tmp_path / "t.parquet", row_group_size=2000)
    asked = [
        "array_contains(l, 777)", "get(l, 0) = 777", "exists(l, v -> v > 23990)", "m['k'] = 777",
        "exists(it, v -> v.k = '777')", "array_contains(it.k, '777')", "array_max(l) = 778",
    ]  # fmt: skip
    ask("pandas numba", str(tmp_path / "t.parquet"), asked, tmp_path / "cache")
