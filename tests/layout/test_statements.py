"""Statements: names are quoted, DuckDB runs its own, sqlglot reads the Spark ones."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlglot

import skipstone as ss
from skipstone.bindings.layout.simulate import Layout
from skipstone.bindings.layout.statements import statements_for
from skipstone.ir.types import Kind

A, B = ("a `x`",), ("b", "it's")
LAYOUTS = {
    "sort": Layout("sort", (A,)),
    "two": Layout("sort", (A, B)),
    "zorder": Layout("zorder", (A, B)),
    "flat": Layout("zorder", (A, ("it's",))),
    "hilbert": Layout("hilbert", (A, B)),
    "within": Layout("zorder", (A,), (("p",),)),
    "partition": Layout("partition", (A,), (("p q",),)),
}


def statements(layout, format, **more):
    given = {
        "path": "/lake/it`s 't'", "name": None, "files": ["/lake/it`s 't'/0.parquet"],
        "rows_per_group": 4096, "file_bytes": 1 << 20, **more,
    }  # fmt: skip
    return statements_for(layout, format, **given)


SIZED = "SET spark.databricks.delta.optimize.maxFileSize = 1048576;\n"
CUT = (
    "SET spark.sql.shuffle.partitions = 1;\n"
    "SET spark.sql.adaptive.coalescePartitions.enabled = false;\n"
)
# layout, what Delta runs
DELTA = {
    "sort": SIZED + "OPTIMIZE delta.`/lake/it``s 't'` ZORDER BY (`a ``x```);",
    "two": CUT + "INSERT OVERWRITE delta.`/lake/it``s 't'` SELECT * FROM delta.`/lake/it``s 't'` "
    "ORDER BY `a ``x```, `b`.`it's`;",
    "zorder": SIZED + "OPTIMIZE delta.`/lake/it``s 't'` ZORDER BY (`a ``x```, `b`.`it's`);",
    "hilbert": SIZED + "ALTER TABLE delta.`/lake/it``s 't'` CLUSTER BY (`a ``x```, `b`.`it's`);\n"
    "OPTIMIZE delta.`/lake/it``s 't'` FULL;",
    "within": SIZED + "OPTIMIZE delta.`/lake/it``s 't'` ZORDER BY (`a ``x```);",
    "partition": CUT + "CREATE OR REPLACE TABLE delta.`/lake/it``s 't'` USING delta PARTITIONED BY "
    "(`p q`) AS SELECT * FROM delta.`/lake/it``s 't'` ORDER BY `p q`, `a ``x```;",
}


@pytest.mark.parametrize("name", DELTA)
def test_delta(name):
    (found,) = statements(LAYOUTS[name], "delta")
    assert found.sql == DELTA[name]
    (named,) = statements(LAYOUTS[name], "delta", name="lake.t")
    assert "lake.t" in named.sql and "delta.`" not in named.sql


# layout, what Iceberg runs after the name
ICEBERG = {
    "sort": "sort_order => '`a ``x``` ASC NULLS LAST'",
    "flat": "sort_order => 'zorder(`a ``x```, `it\\'s`)'",
    "partition": "ALTER TABLE `lake`.`db`.`t` ADD PARTITION FIELD `p q`;",
}


@pytest.mark.parametrize("name", ICEBERG)
def test_iceberg(name):
    (found,) = statements(LAYOUTS[name], "iceberg", name="lake.db.t")
    assert ICEBERG[name] in found.sql
    assert "CALL `lake`.system.rewrite_data_files(table => 'db.t', strategy => 'sort'" in found.sql
    assert "'target-file-size-bytes', '1048576'" in found.sql
    assert ("DROP PARTITION FIELD" in found.note) == (name == "partition")
    (unnamed,) = statements(LAYOUTS[name], "iceberg")
    assert "your table's name" in unnamed.note


ROWS = pa.table(
    {
        'say "a"': [i * 7919 % 10_000 for i in range(20_000)],
        "b": [i * 104_729 % 10_007 for i in range(20_000)],
        "p'q": [f"v{i % 3}" for i in range(20_000)],
    }
)
DUCKDB = {
    "sort": Layout("sort", (('say "a"',), ("b",))),
    "zorder": Layout("zorder", (('say "a"',), ("b",))),
    "partition": Layout("partition", (("b",),), (("p'q",),)),
}


@pytest.mark.parametrize("name", DUCKDB)
def test_duckdb_runs_them(name, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    folder = tmp_path / "it's"
    folder.mkdir()
    pq.write_table(ROWS, folder / "0.parquet")
    layout = DUCKDB[name]
    (first, *_) = statements(layout, "parquet", path=str(folder), files=[str(folder / "0.parquet")])
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute(first.sql)
    clustered = ss.scan_parquet(tmp_path / "it's-clustered")
    rows = clustered.plan().to_arrow().select(ROWS.schema.names)
    order = [(c, "ascending") for c in ROWS.schema.names]
    assert rows.cast(ROWS.schema).sort_by(order) == ROWS.sort_by(order)
    plan = clustered.plan('`say "a"` < 300 AND b < 300' if name != "partition" else "b < 300")
    assert len(plan.kept) <= len(plan.verdicts) / 2
    if name == "partition":
        assert clustered.partition_columns == ("p'q",)


def test_duckdb_copies_the_files_of_the_table_with_all_columns(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    folder = tmp_path / "t"
    (folder / "_temporary").mkdir(parents=True)
    pq.write_table(pa.table({"k": [3, 1]}), folder / "a.parquet")
    pq.write_table(pa.table({"k": [2, 4], "later": ["x", "y"]}), folder / "b.parq")
    pq.write_table(pa.table({"k": [9]}), folder / "_temporary/c.parquet")
    # DuckDB would read `weird` and `aXb` for these names.
    pq.write_table(pa.table({"k": [5, 7]}), folder / "we[i]rd.parquet")
    pq.write_table(pa.table({"k": [6]}), folder / "weird.parquet")
    pq.write_table(pa.table({"k": [8]}), folder / "a*b?.parquet")
    pq.write_table(pa.table({"k": [10]}), folder / "aXbZ.parquet")
    table = ss.scan_parquet(folder)
    (first, *_) = statements(
        Layout("sort", (("k",),)), "parquet", path=str(folder), files=table.all_files
    )
    with duckdb.connect() as connection:
        connection.execute(first.sql)
    rows = ss.scan_parquet(tmp_path / "t-clustered").plan().to_arrow()
    later = [None, "x", None, "y", *[None] * 5]
    assert rows.to_pydict() == {"k": [1, 2, 3, 4, 5, 6, 7, 8, 10], "later": later}


def test_spark_reads_the_statements():
    for name in ("sort", "two", "partition"):
        _, spark = statements(LAYOUTS[name], "parquet", path="/lake/t")
        merge, create = spark.sql.rstrip(";").split(";\n")
        assert merge == "SET spark.sql.parquet.mergeSchema = true"  # else columns are lost
        assert "'parquet.block.row.count.limit' '4096'" in create  # else one row group a file
        assert sqlglot.parse_one(create, dialect="spark")
    assert statements(LAYOUTS["hilbert"], "parquet") == ()


# format, layout, types of its keys, what its statement has; None: there is no statement
LIMITS = [
    ("iceberg", "zorder", {A: Kind.INT, B: Kind.INT}, None),  # `b`.`it's` is a field
    ("iceberg", "hilbert", {A: Kind.INT, B: Kind.INT}, None),
    ("iceberg", "within", {A: Kind.DECIMAL}, None),
    ("iceberg", "within", {A: Kind.STRING}, "zorder("),
    ("iceberg", "two", {A: Kind.DECIMAL, B: Kind.INT}, "ORDERED BY"),
    ("delta", "hilbert", {A: Kind.DECIMAL, B: Kind.STRING}, "CLUSTER BY"),
    ("delta", "hilbert", {A: Kind.INT, B: Kind.BOOL}, "ZORDER BY"),
    ("delta", "hilbert", {A: Kind.BINARY, B: Kind.INT}, "ZORDER BY"),
]


@pytest.mark.parametrize("format, name, kinds, expected", LIMITS)
def test_types_that_an_engine_cannot_order(format, name, kinds, expected):
    """Iceberg and Delta refuse these; tests/support/spark/judge_advice.py runs the others."""
    found = statements(LAYOUTS[name], format, kinds=kinds)
    assert not found if expected is None else expected in found[0].sql
    if expected == "ZORDER BY":
        assert "A column of these types cannot have liquid clustering" in found[0].note
