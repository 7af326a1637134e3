"""Annotations of Parquet's types that Arrow reads as another type than Spark."""

import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.tables.parquet.column_chunks import trusted_bounds
from tests.support.tables.footers import annotate

ENUM = 4  # in ConvertedType and in LogicalType
# How writers annotate: Avro's and Protobuf's by parquet-mr write both.
FORMS = {"both": (ENUM, ENUM), "converted": (ENUM, None), "logical": (None, ENUM)}
WORDS = ["red", "green", None, "über", "blue", "red"]
INTERVAL, UNKNOWN = 21, 11  # in ConvertedType; in LogicalType


def write_enums(path, form="both", **options):
    words = pa.array(WORDS)
    rows = pa.table(
        {
            "id": range(6),
            "e": words,
            "st": pa.StructArray.from_arrays([words], ["e"]),
            "l": pa.array([[word] for word in WORDS]),
            "m": pa.array([[(word or "-", word)] for word in WORDS], pa.map_("string", "string")),
            "b": pa.array([None if w is None else w.encode() for w in WORDS]),
        }
    )
    pq.write_table(rows, path, store_schema=False, row_group_size=2, **options)
    for name in ("e", "element", "key", "value"):
        annotate(path, name, *FORMS[form])
    return path


#     condition                              rows that Spark returns
CASES = [
    ("e = 'red'",                            [0, 5]),
    ("e IN ('blue', 'green')",               [1, 4]),
    ("e LIKE 'r%'",                          [0, 5]),
    ("e > 'red'",                            [3]),
    ("length(e) = 4",                        [3, 4]),
    ("upper(e) = 'ÜBER'",                    [3]),
    ("coalesce(e, 'none') = 'none'",         [2]),
    ("CAST(e AS INT) IS NULL",               [0, 1, 2, 3, 4, 5]),
    ("e IS NULL",                            [2]),
    ("st.e RLIKE '^b'",                      [4]),
    ("length(st.e) = 4",                     [3, 4]),
    ("array_contains(l, 'green')",           [1]),
    ("m['red'] = 'red'",                     [0, 5]),
    ("hex(b) = '726564'",                    [0, 5]),
]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("where", "rows"), CASES)
def test_enums_are_text(tmp_path, where, rows, form):
    table = ss.scan_parquet(write_enums(tmp_path / "a.parquet", form))
    plan = table.plan(where, ansi=False)
    assert plan.to_arrow()["id"].to_pylist() == rows and plan.count() == len(rows)
    assert plan.unpruned().to_arrow()["id"].to_pylist() == rows
    for reader in ("arrow", "polars"):
        got = plan.to_arrow(reader=reader)
        assert got["e"].to_pylist() == [WORDS[k] for k in rows]
        assert got["l"].to_pylist() == [[WORDS[k]] for k in rows]


def test_types_of_enums(tmp_path):
    write_enums(tmp_path / "a.parquet")
    for scan in (ss.scan_parquet, ss.scan_hive):
        table = scan(tmp_path)
        assert table.schema.equals(
            pa.schema(
                [
                    ("id", pa.int64()),
                    ("e", pa.string()),
                    ("st", pa.struct([("e", pa.string())])),
                    ("l", pa.list_(pa.string())),
                    ("m", pa.map_(pa.string(), pa.string())),
                    ("b", pa.binary()),
                ]
            )
        )
        assert table.plan().to_arrow().schema.equals(table.schema)


def test_bounds_of_enums_prune(tmp_path):
    table = ss.scan_parquet(write_enums(tmp_path / "a.parquet", write_page_index=True))
    plan = table.plan("e = 'blue'")
    assert list(plan.row_groups.values()) == [[2]]
    assert table.plan("st.e > 'red'").row_groups == {table.all_files[0]: [1]}
    assert table.plan("e > 'a'").min("e") == "blue"
    assert table.plan(order_by="e DESC", limit=1).to_arrow()["id"].to_pylist() == [3]
    assert table.check().ok


def test_enums_beside_text_and_saved_footers(tmp_path):
    write_enums(tmp_path / "a.parquet")
    pq.write_table(pq.read_table(tmp_path / "a.parquet", columns=["id", "b"]).append_column(
        "e", pa.array(WORDS)), tmp_path / "b.parquet")  # fmt: skip
    ss.scan_parquet(tmp_path).save_stats()
    for table in (ss.scan_parquet(tmp_path, stats=False), ss.scan_parquet(tmp_path)):
        assert table.schema.field("e").type == pa.string()
        assert table.plan("e LIKE 'ü%'").to_arrow()["id"].to_pylist() == [3, 3]


@pytest.mark.parametrize("n", [6, 50_000])
def test_intervals_that_arrow_reads_as_null(tmp_path, n):
    """parquet-mr annotates INTERVAL as UNKNOWN, whose values are all NULL."""
    values = pa.array([None if k % 3 == 1 else b"%012d" % k for k in range(n)], pa.binary(12))
    rows = {
        "id": range(n),
        "iv": values,
        "st": pa.StructArray.from_arrays([values], ["iv"]),
        "l": pa.array([[value] for value in values.to_pylist()], pa.list_(pa.binary(12))),
    }
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(rows), path, store_schema=False, row_group_size=n // 2)
    for name in ("iv", "element"):
        annotate(path, name, None, UNKNOWN)
    table = ss.scan_parquet(path)
    for where in ("iv IS NOT NULL", "iv IS NULL", "st.iv IS NOT NULL", "l[0] IS NULL"):
        plan = table.plan(where, columns=["id"])
        assert plan.row_groups == {str(path): [0, 1]}
        for read in (plan.to_arrow, plan.count):
            with pytest.raises(ss.UnsupportedForm):
                read()
    for column in ("iv", "st", "l"):
        with pytest.raises(ss.UnsupportedForm, match="INTERVAL"):
            table.plan("id = 5", columns=[column]).to_arrow()
    assert table.plan("id >= 4", columns=["id"]).to_arrow().num_rows == n - 4
    annotate(path, "iv", INTERVAL, None)  # as DuckDB writes it: bytes that Arrow reads
    assert ss.scan_parquet(path).plan("iv IS NULL", columns=["id"]).count() == len(range(1, n, 3))


def test_columns_of_no_type_are_null(tmp_path):
    pq.write_table(pa.table({"id": [1, 2], "x": pa.nulls(2)}), tmp_path / "a.parquet")
    table = ss.scan_parquet(tmp_path)
    assert table.plan("x IS NULL").to_arrow()["id"].to_pylist() == [1, 2]
    assert table.plan("x IS NOT NULL").files == ()


UUIDS = [bytes([16 * k, *range(15)]) for k in range(12)]


@pytest.mark.parametrize("form", ["plain", "struct", "list"])
@pytest.mark.parametrize("kinds", [(True, False), (False, True)], ids=str)
def test_uuids_of_files_with_and_without_arrows_schema(tmp_path, kinds, form):
    """pyarrow reads a UUID as a type of its own only where Arrow's schema is in the footer."""
    for k, stored in enumerate(kinds):
        values = pa.array(UUIDS[6 * k : 6 * k + 6], pa.uuid())
        if form == "struct":
            values = pa.StructArray.from_arrays([values], ["v"])
        elif form == "list":
            values = pa.ListArray.from_arrays(range(7), values)
        rows = pa.table({"u": values, "id": range(6 * k, 6 * k + 6)})
        pq.write_table(rows, tmp_path / f"{k}.parquet", store_schema=stored, row_group_size=3)
    table = ss.scan_parquet(tmp_path)
    name = {"plain": "u", "struct": "u.v", "list": "get(u, 0)"}[form]
    for k in (1, 4, 8):
        plan = table.plan(f"{name} = X'{UUIDS[k].hex()}'")
        assert plan.to_arrow()["id"].to_pylist() == [k]
        assert len(plan.files) == 1 and sum(map(len, plan.row_groups.values())) == 1
    assert table.plan(f"{name} >= X'a0'").count() == 2
    assert table.plan(f"{name} IS NULL").count() == 0


@pytest.mark.parametrize("kind", [pa.uuid(), pa.binary(16), pa.binary(3)], ids=str)
@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}], ids=str)
def test_pages_of_values_of_fixed_length(tmp_path, kind, options):
    """Conditions prune pages, and the rows are those of pyarrow."""
    width, n, path = 3 if kind == pa.binary(3) else 16, 6000, tmp_path / "a.parquet"
    values = [None if k % 97 == 5 else (k << 8).to_bytes(3, "big") + bytes(width - 3)
              for k in range(n)]  # fmt: skip
    rows = pa.table({"u": pa.array(values, kind), "id": range(n)})
    pq.write_table(rows, path, store_schema=False, write_page_index=True, row_group_size=n // 2,
                   write_batch_size=100, data_page_size=1000, **options)  # fmt: skip
    table = ss.scan_parquet(path)
    for k in (0, 2345, 4000):
        literal = f"X'{values[k].hex()}'"
        pages = table.plan(f"u = {literal}").pages
        assert (
            sum(stop - start for spans in pages[str(path)].values() for start, stop in spans)
            < n // 2
        )
        known = [i for i, v in enumerate(values) if v is not None]
        for where, wanted in {
            f"u = {literal}": [k],
            f"u < {literal}": [i for i in known if i < k],
            f"u >= {literal} AND id % 2 = 0": [i for i in known if i >= k and i % 2 == 0],
            f"u IN ({literal}, X'00')": [k],
            f"u IS NULL AND id > {k}": [i for i in range(k + 1, n) if values[i] is None],
        }.items():
            found = table.plan(where).to_arrow()
            assert found["id"].to_pylist() == wanted, where
            assert found["u"].to_pylist() == [values[i] for i in wanted], where


@pytest.mark.parametrize("kind", [pa.time64("ns"), pa.time64("us"), pa.time32("ms")], ids=str)
def test_bounds_of_times_of_day(tmp_path, kind):
    """pyarrow's bounds drop nanoseconds below a microsecond; a maximum would be too low."""
    ticks, path = range(1_499, 99_999, 7), tmp_path / "a.parquet"
    pq.write_table(pa.table({"t": pa.array(ticks, kind)}), path, row_group_size=100)
    chunk = pq.read_metadata(path).row_group(0).column(0)
    assert trusted_bounds(chunk.statistics, None) == (
        pa.scalar(ticks[0], kind),
        pa.scalar(ticks[99], kind),
    )
    # A fresh process without compiled loops has pyarrow read the bounds.
    asked = (
        "import sys, skipstone as ss; "
        "raw = ss.scan_parquet(sys.argv[1]).statistics.raw(('t',)); "
        "print(raw.min.type, [v.value for v in raw.min[:2]], [v.value for v in raw.max[:2]])"
    )
    env = os.environ | {"SKIPSTONE_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", asked, str(path)], capture_output=True, text=True, env=env
    )
    low, high = [ticks[0], ticks[100]], [ticks[99], ticks[199]]
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == f"{kind} {low} {high}"
