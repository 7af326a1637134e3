"""Bounds of the elements of arrays, and of the keys and values of maps, in Parquet's footers."""

import datetime as dt
import os
import random
from decimal import Decimal as D

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.ir.errors import UnsupportedForm
from skipstone.ir.node import ELEMENT
from skipstone.ir.rows import evaluate_rows
from skipstone.kernels.index import descend
from tests.support.effort import LONG

# Each file of the table has its tens: file 3 has elements from 30 to 39.
FILES = 6


def rows_of(i):
    return {
        "xs": pa.array([[10 * i + j, 10 * i + j + 2] for j in range(8)], pa.list_(pa.int32())),
        "s": [[f"k{i}{j}", None] for j in range(8)],
        "d": pa.array([[dt.date(2024, 1 + i, 1 + j)] for j in range(8)], pa.list_(pa.date32())),
        "m": pa.array(
            [[(f"k{i}", i + j / 8)] for j in range(8)], pa.map_(pa.string(), pa.float64())
        ),
        "st": [{"ys": [100 * i, 100 * i + j]} for j in range(8)],
        "x": pa.array(range(10 * i, 10 * i + 8), pa.int32()),
        "nested": [[[i]] for _ in range(8)],
        "items": [[{"sku": f"s{i}{j}", "qty": 10 * i + j, "o": {"z": i}}, None] for j in range(8)],
        "fs": [[10.0 * i + j, None] for j in range(8)],
        "ts": [[dt.datetime(2024, 1 + i, 1 + j, tzinfo=dt.UTC)] for j in range(8)],
        "prices": [[{"p": 10.0 * i + j, "qty": i}] for j in range(8)],
        "empty": pa.array([[] if i else [5]] * 8, pa.list_(pa.int64())),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("elements")
    for i in range(FILES):
        pq.write_table(pa.table(rows_of(i)), out / f"{i}.parquet")
    return out


#    condition                                       files that are read
FORMS = [
    ("array_contains(xs, 33)",                       "3"),
    ("array_contains(xs, 33L)",                      "3"),
    ("array_contains(xs, 330)",                      ""),
    ("array_contains(xs, x)",                        "0 1 2 3 4 5"),
    ("array_contains(xs, x + 30)",                   ""),
    ("NOT array_contains(xs, 33)",                   "0 1 2 3 4 5"),
    ("array_contains(xs, 33) IS NULL",               "0 1 2 3 4 5"),
    ("array_contains(xs, 33) OR x = 51",             "3 5"),
    ("array_contains(xs, 33) AND array_contains(xs, 51)", ""),
    ("array_contains(s, 'k21')",                     "2"),
    ("array_contains(d, DATE '2024-02-03')",         "1"),
    ("array_contains(st.ys, 403)",                   "4"),
    ("exists(xs, v -> v = 33)",                      "3"),
    ("exists(xs, v -> v > 40 AND v < 60)",           "4 5"),
    ("exists(xs, v -> v % 10 = 3)",                  "0 1 2 3 4 5"),
    ("exists(xs, v -> v + 1 = 34)",                  "3"),
    ("exists(xs, v -> v IS NULL)",                   "0 1 2 3 4 5"),
    ("exists(s, v -> v LIKE 'k4%')",                 "4"),
    ("exists(s, v -> v IN ('k11', 'k55', 'z'))",     "1 5"),
    ("exists(array_distinct(xs), v -> v = 33)",      "0 1 2 3 4 5"),
    ("forall(xs, v -> v = 33)",                      "0 1 2 3 4 5"),
    ("arrays_overlap(xs, array(8, 33))",             "0 1 2 3"),
    ("arrays_overlap(xs, array(33, 34))",            "3"),
    ("arrays_overlap(xs, array(x, 21))",             "0 1 2 3 4 5"),
    ("array_position(xs, 33) > 0",                   "3"),
    ("array_position(xs, 33) = 0",                   "0 1 2 3 4 5"),
    ("get(xs, 0) = 33",                              "3"),
    ("try_element_at(xs, -1) >= 50",                 "5"),
    ("xs[0] = 33",                                   "0 1 2 3 4 5"),  # may raise an error
    ("array_max(xs) > 45",                           "4 5"),
    ("array_min(s) < 'k2'",                          "0 1"),
    ("array_contains(array_distinct(xs), 33)",       "3"),
    ("array_contains(array_remove(xs, 1 div (x - 50)), 70)", "5"),  # may raise an error
    ("array_contains(concat(xs, array(70)), 33)",    "0 1 2 3"),
    ("array_contains(slice(xs, 1, 1), 33)",          "0 1 2 3 4 5"),  # may raise an error
    ("m['k3'] > 0",                                  "3"),
    ("m['k3'] < 3",                                  ""),
    ("m['k3'] > 4",                                  "3"),  # NaN is above 4
    ("m['k3'] IS NULL",                              "0 1 2 3 4 5"),
    ("element_at(m, 'k3') = 3.5",                    "3"),
    ("map_contains_key(m, 'k1')",                    "1"),
    ("array_contains(map_keys(m), 'k5')",            "5"),
    ("size(xs) = 2",                                 "0 1 2 3 4 5"),
    ("array_contains(empty, 5)",                     "0 1 2 3 4 5"),  # no bounds: not known
    ("CASE WHEN array_contains(xs, 33) THEN 1 ELSE 0 END = 1", "3"),
    ("exists(items, v -> v.qty = 33)",               "3"),
    ("exists(items, v -> v.QTY > 44 AND v.sku < 's5')", "4"),
    ("exists(items, v -> v.sku LIKE 's4%')",         "4"),
    ("exists(items, v -> v.sku IN ('s11', 's55', 'z'))", "1 5"),
    ("exists(items, v -> v.o.z = 3)",                "3"),
    ("array_contains(items.sku, 's33')",             "3"),
    ("array_contains(items.QTY, 33L)",               "3"),
    ("array_contains(items.o.z, 3)",                 "3"),
    ("NOT array_contains(items.sku, 's33')",         "0 1 2 3 4 5"),
    ("exists(items, v -> v.qty < 10 AND v.o.z > 0)", ""),
    ("exists(items, v -> v.sku IS NULL)",            "0 1 2 3 4 5"),
    ("exists(items, v -> v IS NULL)",                "0 1 2 3 4 5"),
    ("NOT exists(items, v -> v.qty = 33)",           "0 1 2 3 4 5"),
    ("forall(items, v -> v.qty = 33)",               "0 1 2 3 4 5"),
    ("exists(items.qty, v -> v = 33)",               "3"),
    ("exists(items.o, v -> v.z = 3)",                "3"),
    ("exists(transform(items, v -> v.qty), v -> v = 33)", "3"),
    ("exists(items, v -> v.qty = x + 1)",            "0 1 2 3 4 5"),
    ("exists(items, v -> v.qty > x + 20)",           ""),
    ("exists(items, v -> v.qty = x AND v.sku = 's33')", "3"),
    ("exists(items, v -> exists(xs, w -> w = v.qty))", "0 1 2 3 4 5"),
    ("array_max(items.qty) > 44",                    "4 5"),
    ("array_min(transform(items, v -> v.o.z)) = 2",  "2"),
    ("get(items, 0).qty = 33",                       "3"),
    ("get(items.sku, 0) = 's33'",                    "3"),
    ("try_element_at(items, -2).o.z >= 4",           "4 5"),
    ("items[0].qty = 33",                            "0 1 2 3 4 5"),  # may raise an error
    ("arrays_overlap(items.qty, array(8, 33))",      "1 2 3"),
    ("get(items, 0) IS NULL",                        "0 1 2 3 4 5"),
    ("items.qty IS NULL",                            "0 1 2 3 4 5"),
    ("size(filter(items, v -> v.qty > 44)) > 0",     "4 5"),
    ("size(filter(items, v -> v.qty > 44)) = 0",     "0 1 2 3 4 5"),
    ("size(filter(items, (v, i) -> v.qty > 44 AND i = 0)) > 0", "0 1 2 3 4 5"),
    ("size(filter(xs, v -> v > 44)) > 1",            "4 5"),
    ("array_max(filter(xs, v -> v < 12)) > 0",       "0 1"),
    ("size(filter(xs, v -> v > x + 20)) > 0",        ""),
    ("size(xs) < 0",                                 ""),
    ("array_contains(fs, 33)",                       "3"),
    ("array_contains(fs, 33.5D)",                    "3"),
    ("array_contains(fs, CAST(x AS DOUBLE))",        "0 1 2 3 4 5"),
    ("exists(fs, v -> v < 12)",                      "0 1"),
    ("exists(fs, v -> v > 12)",                      "0 1 2 3 4 5"),  # NaN is above 12
    ("array_min(fs) < 12",                           "0 1"),
    ("get(fs, 0) = 33",                              "3"),
    ("exists(ts, v -> v < TIMESTAMP '2024-02-01')",  "0"),
    ("array_max(ts) > TIMESTAMP '2024-05-01'",       "4 5"),
    ("get(prices, 0).p < 12",                        "0 1"),
    ("m.k3 > 0",                                     "3"),
    ("m.K3 > 0",                                     ""),
]  # fmt: skip


@pytest.mark.parametrize("where, files", FORMS, ids=[f[0] for f in FORMS])
@pytest.mark.filterwarnings("ignore:.* cannot prune")
def test_files(folder, where, files):
    plan = ss.scan_parquet(folder).plan(where)
    assert " ".join(sorted(f[-9] for f in plan.files)) == files
    whole = pa.concat_tables([pa.table(rows_of(i)) for i in range(FILES)]).combine_chunks()
    node = ss.PruningPredicate(where, whole.schema).node
    try:
        true = evaluate_rows(node, whole.to_batches()[0])
    except UnsupportedForm:
        return
    assert plan.to_arrow().num_rows == (pc.sum(true).as_py() or 0)


#    condition about the elements of the first row of the last file        files that are read
BLOOMS = [
    ("array_contains(xs, {x})",                          "7"),
    ("array_contains(xs, {x}L)",                         "7"),
    ("array_contains(xs, 30000000000)",                  ""),
    ("NOT array_contains(xs, {x})",                      "0 1 2 3 4 5 6 7"),
    ("array_contains(xs, {x}) = false",                  "0 1 2 3 4 5 6 7"),
    ("array_contains(xs, {x}) OR array_contains(s, 't{y}')", "2 7"),
    ("array_contains(xs, {x}) AND array_contains(s, 't{y}')", ""),
    ("array_contains(s, 't{x}')",                        "7"),
    ("exists(xs, v -> v = {x})",                         "7"),
    ("exists(xs, v -> v <=> {x})",                       "7"),
    ("exists(xs, v -> v IN ({x}, {y}))",                 "2 7"),
    ("exists(xs, v -> NOT v = {x})",                     "0 1 2 3 4 5 6 7"),
    ("exists(xs, v -> v = {x} OR v > 5)",                "0 1 2 3 4 5 6 7"),
    ("arrays_overlap(xs, array({x}, {y}, NULL))",        "2 7"),
    ("map_contains_key(m, 'k{x}')",                      "7"),
    ("m['k{x}'] = 1",                                    "7"),
    ("m['k{x}'] = 2",                                    ""),
    ("m['k{x}'] IS NULL",                                "0 1 2 3 4 5 6 7"),
    ("coalesce(m['k{x}'], 1) = 1",                       "0 1 2 3 4 5 6 7"),
]  # fmt: skip


@pytest.fixture(scope="module")
def in_no_order(tmp_path_factory):
    """Return a folder of files with bloom filters, and elements of their first rows."""
    out, r = tmp_path_factory.mktemp("blooms"), random.Random(7)
    columns = ("xs.list.element", "s.list.element", "m.key_value.key")
    filters = {column: {"ndv": 200, "fpp": 1e-4} for column in columns}
    first = []
    for k in range(8):
        xs = [[r.randrange(10**6) * 8 + k for _ in range(3)] for _ in range(50)]
        table = pa.table(
            {
                "xs": pa.array(xs, pa.list_(pa.int32())),
                "s": [[f"t{v}" for v in x] for x in xs],
                "m": pa.array([[(f"k{x[0]}", 1)] for x in xs], pa.map_(pa.string(), pa.int64())),
            }
        )
        pq.write_table(table, out / f"{k}.parquet", bloom_filter_options=filters)
        first.append(xs[0][0])
    return out, {"x": first[7], "y": first[2]}


@pytest.mark.parametrize("where, files", BLOOMS, ids=[f[0] for f in BLOOMS])
@pytest.mark.filterwarnings("ignore:.* cannot prune")
def test_bloom_filters_of_elements(in_no_order, where, files):
    folder, values = in_no_order
    table = ss.scan_parquet(folder)
    plan = table.plan(where.format(**values))
    assert " ".join(sorted(f[-9] for f in plan.files)) == files
    whole = pa.concat_tables(map(pq.read_table, sorted(folder.iterdir()))).combine_chunks()
    node = ss.PruningPredicate(where.format(**values), table.schema).node
    true = evaluate_rows(node, whole.cast(table.schema).to_batches()[0])
    assert plan.to_arrow().num_rows == (pc.sum(true).as_py() or 0)


def test_saved_statistics_have_them(tmp_path):
    for i in range(FILES):
        pq.write_table(pa.table(rows_of(i)), tmp_path / f"{i}.parquet")
        os.utime(tmp_path / f"{i}.parquet", (1e9, 1e9))  # a file whose time is old is saved
    ss.scan_parquet(tmp_path).save_stats()
    saved = ss.scan_parquet(tmp_path)
    for where, files in (("array_contains(xs, 33)", "3"), ("m['k2'] > 0", "2"), ("x = 51", "5")):
        plan = saved.plan(where)
        assert " ".join(f[-9] for f in plan.files) == files
    assert saved.work["footers from the snapshot"] == FILES


def test_files_of_other_types_and_without_the_column(tmp_path):
    """Types widen; a file that lacks the column has no elements."""
    files = {
        "narrow": {"xs": pa.array([[1, 2]], pa.list_(pa.int8()))},
        "wide": {"xs": pa.array([[1, 2**40]], pa.list_(pa.int64()))},
        "lacks": {"y": [1]},
        "null": {"xs": pa.array([None], pa.null())},
        "other case": {"XS": pa.array([[1, 300]], pa.list_(pa.int64()))},
        "large": {"xs": pa.array([[500]], pa.large_list(pa.int64()))},
    }
    for name, columns in files.items():
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    table = ss.scan_parquet(
        [tmp_path / f"{name}.parquet" for name in ("wide", "narrow", "lacks", "other case")]
    )
    kept = {
        value: [f.rsplit("/", 1)[-1][:-8] for f in table.plan(f"array_contains(xs, {value})").files]
        for value in (2, 300, 2**40, -1)
    }
    assert kept == {
        2: ["wide", "narrow", "other case"],
        300: ["wide", "other case"],
        2**40: ["wide"],
        -1: [],
    }


def test_a_field_that_has_the_name_of_elements(tmp_path):
    pq.write_table(pa.table({"s": [{ELEMENT: 5}], "xs": [[5]]}), tmp_path / "0.parquet")
    table = ss.scan_parquet(tmp_path)
    for test in ("NULL", "NOT NULL"):
        assert len(table.plan(f"s IS {test} OR array_contains(xs, 7)").files) == 1


VALUES = {
    pa.int8(): [-128, -3, 0, 1, 2, 127],
    pa.int64(): [-(2**63), -5, 0, 3, 2**53 + 1, 2**63 - 1],
    pa.string(): ["", "a", "ab", "b" * 80, "ä", "z\U0001f600"],
    pa.binary(): [b"", b"a", b"\xff", b"\xff\xff", b"b" * 70, b"c"],
    pa.date32(): [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date(9999, 1, 1)],
    pa.decimal128(5, 2): [D("-999.99"), D("0.00"), D("1.50"), D("999.99")],
    pa.decimal128(30, 3): [D("-1e20"), D("0.000"), D("1.500"), D("1e25")],
    pa.bool_(): [False, True],
    pa.float64(): [float("nan"), float("inf"), -1.5, -0.0, 0.0, 2.5],
}


def sql(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, dt.date):
        return f"DATE '{value}'"
    return (
        f"'{value}'"
        if isinstance(value, str | float)
        else format(value, "f")
        if isinstance(value, D)
        else str(value)
    )


def conditions(r, pool, dtype):
    one, two = (f"CAST({sql(r.choice(pool))} AS {ss_type(dtype)})" for _ in range(2))
    forms = [
        f"array_contains(xs, {one})",
        f"arrays_overlap(xs, array({one}, {two}))",
        f"exists(xs, v -> v {r.choice(['<', '<=', '=', '>=', '>', '<>', '<=>'])} {one})",
        f"exists(xs, v -> v BETWEEN {one} AND {two})",
        f"exists(xs, v -> NOT v IN ({one}, {two}))",
        f"array_max(xs) {r.choice(['<', '=', '>'])} {one}",
        f"array_min(xs) {r.choice(['<', '=', '>'])} {one}",
        f"get(xs, {r.randint(0, 2)}) {r.choice(['<', '=', '>='])} {one}",
        f"try_element_at(xs, {r.choice([-1, 1, 2])}) = {one}",
        f"array_position(xs, {one}) {r.choice(['> 0', '= 0', '= 2'])}",
        f"array_contains(array_remove(xs, {one}), {two})",
        f"map_contains_key(m, {one})",
        f"m[{one}] {r.choice(['= 1', '> 2', 'IS NULL', 'IS NOT NULL'])}",
        f"array_contains(map_keys(m), {one})",
        f"array_contains(xs, get(xs, 0)) AND array_contains(xs, {one})",
    ]
    text = r.choice(forms)
    if r.random() < 0.3:
        text = f"NOT ({text})"
    if r.random() < 0.3:
        text = f"({text}) {r.choice(['AND', 'OR'])} {r.choice(forms)}"
    return text if r.random() > 0.15 else f"({text}) IS {r.choice(['NULL', 'NOT NULL', 'TRUE'])}"


def ss_type(dtype):
    names = {
        pa.int8(): "TINYINT", pa.int64(): "BIGINT", pa.string(): "STRING", pa.binary(): "BINARY",
        pa.date32(): "DATE", pa.bool_(): "BOOLEAN", pa.float64(): "DOUBLE",
    }  # fmt: skip
    return names.get(dtype) or f"DECIMAL({dtype.precision},{dtype.scale})"


@pytest.mark.parametrize("dtype", VALUES, ids=map(str, VALUES))
@pytest.mark.filterwarnings("ignore:.* cannot prune")
def test_no_row_is_lost(tmp_path, dtype):
    r = random.Random(str(dtype))
    pool = VALUES[dtype]

    def lists(part):
        values = [*part * 9, None]
        some = [[r.choice(values) for _ in range(r.choice((0, 1, 2, 4)))] for _ in range(11)]
        return [*some, None]

    tables = []
    for i in range(8):
        part = r.sample(pool, r.randint(1, max(len(pool) // 2, 1)))
        maps = [[(k, r.randint(0, 3)) for k in r.sample(part, 1)] for _ in range(12)]
        table = pa.table(
            {
                "xs": pa.array(lists(part) if i else [[]] * 12, pa.list_(dtype)),
                "m": pa.array(maps, pa.map_(dtype, pa.int32())),
            }
        )
        pq.write_table(table, tmp_path / f"{i}.parquet", row_group_size=5)
        tables.append(table)
    whole = pa.concat_tables(tables).combine_chunks().to_batches()[0]
    scanned, pruned = ss.scan_parquet(tmp_path), 0
    for _ in range(1200 if LONG else 30):
        where = conditions(r, pool, dtype)
        try:
            true = evaluate_rows(ss.PruningPredicate(where, whole.schema).node, whole)
        except UnsupportedForm:
            continue
        plan = scanned.plan(where)
        assert plan.to_arrow().num_rows == (pc.sum(true).as_py() or 0), where
        pruned += plan.sizes.scan.rows < plan.sizes.total.rows
    assert pruned > 5


def test_an_index_finds_the_same_containers(tmp_path, monkeypatch):
    monkeypatch.setattr(descend, "MIN_CONTAINERS", 0)
    lists = pa.array([[i, i + 2] for i in range(1500)], pa.list_(pa.int32()))
    items = [[{"q": i}] for i in range(1500)]
    pq.write_table(pa.table({"xs": lists, "it": items}), tmp_path / "t.parquet", row_group_size=1)
    table = ss.scan_parquet(tmp_path)
    stats = table.plan().statistics
    indexed = stats.index(block=64)
    for where, expected in (
        ("array_contains(xs, 700)", [698, 699, 700]),  # 699 lies between 697 and 701
        ("exists(it, v -> v.q BETWEEN 1000 AND 1002)", [1000, 1001, 1002]),
        ("array_max(xs) > 1499", [1498, 1499]),
    ):
        p = ss.PruningPredicate(where, table.schema)
        assert p.survivors(stats).tolist() == p.survivors(indexed).tolist() == expected
        found = descend.descend(indexed.levels, p.program, p.program, dense=False, backend="numpy")
        assert len(found.words) <= 2  # other blocks were not looked at
