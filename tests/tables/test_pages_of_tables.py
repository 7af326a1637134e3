"""Delta, Iceberg and Hive tables read by pages have the rows that their own readers give."""

import os
import re

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import StringType

import skipstone as ss
from skipstone.bindings.tables.delta import read_files as delta
from skipstone.bindings.tables.iceberg import read_files as iceberg
from skipstone.bindings.tables.parquet import read_groups
from tests.support.rows.alike import alike
from tests.support.tables.lazy import OLD
from tests.support.tables.pages import CONDITIONS, compile_loops, table

DATA = table(1, 3000).add_column(0, "part", pa.array([i % 3 for i in range(3000)], pa.int32()))
DATA = DATA.set_column(  # Iceberg's writer takes no nanoseconds
    DATA.schema.get_field_index("ns"), "ns", DATA["ns"].cast(pa.timestamp("us"))
)
DATA = DATA.append_column("row", pa.array(range(3000), pa.int64()))
OTHERS = ("u8", "u16", "u32", "u64", "span")  # types that Delta and Iceberg do not have
DATA = DATA.set_column(DATA.schema.get_field_index("c"), "c", DATA["c"].cast(pa.string()))
DATA = DATA.drop(OTHERS)
WHERE = [c for c in CONDITIONS if not re.search(rf"\b({'|'.join(OTHERS)})\b", c or "")]
MORE = ("part = 1 AND k < 50", "part = 2 OR k = 250", "extra IS NULL AND k > 400", "extra = 1")


@pytest.fixture(scope="module", autouse=True)
def _loops():
    compile_loops()


def delta_table(folder):
    path = os.path.join(folder, "delta")
    for i in range(3):
        rows = DATA.slice(i * 1000, 1000)
        if i == 2:
            rows = rows.append_column("extra", pa.array(range(1000), pa.int32()))
        deltalake.write_deltalake(
            path, rows, mode="append", partition_by=["part"], schema_mode="merge",
            writer_properties=deltalake.WriterProperties(
                data_page_row_count_limit=50, write_batch_size=25
            ),
        )  # fmt: skip
    return ss.scan_delta(path)


def iceberg_table(folder):
    catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/ice")
    catalog.create_namespace("n")
    pages = {"write.parquet.page-row-limit": "100", "write.parquet.page-size-bytes": "100"}
    made = catalog.create_table("n.t", DATA.schema, properties=pages)
    for i in range(3):
        if i == 2:
            with made.update_schema() as update:
                update.union_by_name(pa.schema([("extra", pa.int32())]))
        rows = DATA.slice(i * 1000, 1000)
        made.append(
            rows if i < 2 else rows.append_column("extra", pa.array(range(1000), pa.int32()))
        )
    made.delete("k = 77")
    with made.update_schema() as update:
        update.rename_column(("st", "b"), "old")
    with made.update_schema() as update:
        update.rename_column(("st", "a"), "b")
    with made.update_schema() as update:
        update.rename_column(("st", "old"), "a")
    return ss.scan_iceberg(made)


def iceberg_table_without_ids(folder):
    """Files that others wrote: a name mapping says which column is which."""
    catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/ice")
    catalog.create_namespace("n")
    numbers = pa.array(range(3000), pa.int32())
    rows = DATA.append_column("extra", numbers).append_column("more", numbers)
    made = catalog.create_table("n.t", rows.schema)
    paths = [os.path.join(folder, f"{i}.parquet") for i in range(3)]
    for i, path in enumerate(paths):
        pq.write_table(rows.slice(i * 1000, 1000), path, max_rows_per_page=100)
    made.add_files(paths)
    with made.update_schema() as update:
        update.rename_column("more", "renamed")
    with made.update_schema() as update:
        update.add_column("more", StringType())
    return ss.scan_iceberg(made)


def hive_table(folder):
    pq.write_to_dataset(
        DATA.append_column("extra", pa.array(range(3000), pa.int32())),
        os.path.join(folder, "hive"), partition_cols=["part"], max_rows_per_group=400,
        max_rows_per_page=50, write_batch_size=25, write_page_index=True,
    )  # fmt: skip
    return ss.scan_hive(os.path.join(folder, "hive"))


# Conditions on the fields of structs, which the first Iceberg table has exchanged.
STRUCTS = ("st.a > 45", "st.b = 'b 7' AND i8 = 7")
EXCHANGED = ("st.b > 45", "st.a = 'b 7' AND i8 = 7")
KINDS = {
    "delta": (delta_table, delta.FileReader, "read"),
    "iceberg": (iceberg_table, iceberg.FileReader, "read"),
    "iceberg without ids": (iceberg_table_without_ids, iceberg.FileReader, "read"),
    "hive": (hive_table, read_groups.GroupReader, "_by_row_groups"),
}


def conditions_of(kind):
    """Return the conditions that a table's columns allow."""
    plain = [c for c in WHERE if c not in STRUCTS]
    return [*plain, *(EXCHANGED if kind == "iceberg" else STRUCTS), *MORE]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_by_pages_are_those_of_the_tables_own_reader(kind, tmp_path, monkeypatch):
    make, reader, by_files = KINDS[kind]
    scan = make(str(tmp_path))
    own = getattr(reader, by_files)
    for where in conditions_of(kind):
        plan = scan.plan(where)
        with monkeypatch.context() as patch:
            tasks = plan.table.tasks(plan)
            expected = [b for t in tasks.each for b in own(tasks.reader, t)]
            patch.setattr(reader, by_files, None)  # so that only pages can give rows
            got = plan.to_arrow()
        wanted = pa.Table.from_batches(expected, got.schema)
        assert alike(got, wanted), where


def rows_in_ranges(scan, plan):
    """Return the numbers of the rows that lie in the ranges of a plan."""
    found, root = [], "" if scan.path.startswith("file:") else scan.path
    for path, groups in plan.pages.items():
        file = pq.ParquetFile(os.path.join(root, path.removeprefix("file://")))
        assert list(groups) == plan.row_groups[path] or plan.row_groups[path] == []
        for g, ranges in groups.items():
            rows = file.read_row_group(g, ["row"])["row"].to_pylist()
            found += [row for a, b in ranges for row in rows[a:b]]
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_pages_of_plans_leave_every_matching_row(kind, tmp_path):
    make, _, _ = KINDS[kind]
    scan = make(str(tmp_path))
    left = 0
    for where in conditions_of(kind):
        plan = scan.plan(where, columns=["row"])
        rows = rows_in_ranges(scan, plan)
        assert set(plan.to_arrow()["row"].to_pylist()) <= set(rows), where
        assert len(rows) == len(set(rows)) == plan.sizes.pages.rows
        left += len(rows) < (plan.sizes.scan.rows or 0)
    assert left > 5


def test_pages_of_saved_statistics_of_two_schemas(tmp_path):
    """Files are judged by their own schemas, whose footers are read only now."""
    x, y = list(range(4_000)), [-v for v in range(4_000)]
    for i, names in enumerate((("x", "y"), ("y", "x"), ("y", "z", "x"), ("x",))):
        columns = {name: {"x": x, "y": y, "z": y}[name] for name in names}
        path = tmp_path / "t" / f"{i}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table(columns), path, data_page_size=1_000, write_page_index=True)
        os.utime(path, (OLD, OLD))
    ss.scan_parquet(tmp_path / "t").save_stats(tmp_path / "saved")
    for where in ("x BETWEEN 100 AND 120", "y < -3900 AND x > 10", "x = 7 OR y IS NULL"):
        expected = ss.scan_parquet(tmp_path / "t", stats=False).plan(where)
        saved = ss.scan_parquet(tmp_path / "t", stats=tmp_path / "saved")
        assert saved.work["footers"] == 0
        assert saved.plan(where).pages == expected.pages, where
        assert saved.plan(where).to_arrow().equals(expected.to_arrow()), where
