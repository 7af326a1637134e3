"""Spark as the judge of fields of items, values of maps, and lambdas, in both ANSI modes.

Rows for which Spark raises an error are those that are not judged here.
"""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.ir.node import Op
from skipstone.ir.rows import judge
from tests.support.effort import LONG
from tests.support.spark.answers import answers, set_in

DAY, NOON = dt.date(2024, 3, 1), dt.datetime(2024, 3, 1, 12, tzinfo=dt.UTC)
NAN, INF = float("nan"), float("inf")
ITEM = pa.struct(
    [
        ("a", pa.int32()), ("b", pa.int64()), ("p", pa.float64()), ("d", pa.decimal128(9, 2)),
        ("day", pa.date32()), ("t", pa.string()), ("ts", pa.timestamp("us", "UTC")),
        ("o", pa.struct([("z", pa.int32())])), ("tags", pa.list_(pa.string())),
    ]
)  # fmt: skip


def item(a=None, b=None, p=None, d=None, day=None, t=None, ts=None, o=None, tags=None):
    return {
        "a": a, "b": b, "p": p, "d": None if d is None else Decimal(d), "day": day, "t": t,
        "ts": ts, "o": o, "tags": tags,
    }  # fmt: skip


FIRST = item(1, 5, 1.5, "1.50", DAY, "x", NOON, {"z": 3}, ["x", "y"])
SMALL = item(0, 0, 0.0, "0.00", dt.date(1, 1, 1), "", dt.datetime(1970, 1, 1, tzinfo=dt.UTC))
ITEMS = [
    [FIRST, item(2, None, NAN, "2.00", t="y", o={"z": None}, tags=[])], [], None, [None],
    [item(), None, item(5, 5, 5.0, "5.00", DAY, "é", NOON, {"z": 7}, [None])], [SMALL],
    [item(3, -7, NAN, "-3.25", DAY, "x", o={"z": 3}), item(7, 3, -0.0, "9.99", t="z", tags=["z"])],
    [item(-3, 2**40, INF, "9999999.99", t="long", tags=["y"])] * 2, [item(4, 4, 4.0, t="4")],
]  # fmt: skip
FS = [[1.0, NAN], [], None, [None], [NAN, None, -0.0], [-0.0, 0.0], [3.5, 1.25], [INF, -INF], [NAN]]
NN = [[[1, 2], [3]], [], None, [None], [[], None, [5]], [[0]], [[7, 7, 7]], [[None]], [[1], [4]]]
MAPS = [
    [("k1", 3), ("k2", None)], [], None, [("k1", None)], [("k2", 5)], [("k1", 0), ("", 1)],
    [("k1", 7)], [("K1", 3)], [("k1", 4), ("é", 2)],
]  # fmt: skip


def map_rows(value):
    """Return the maps with other values; NULL stays NULL."""
    return [
        None if m is None else [(k, None if v is None else value(v)) for k, v in m] for m in MAPS
    ]


ROWS = pa.table(
    {
        "id": pa.array(range(9), pa.int64()),
        "items": pa.array(ITEMS, pa.list_(ITEM)),
        "fs": pa.array(FS, pa.list_(pa.float64())),
        "tss": pa.array(
            [[NOON], [], None, [None], [None, NOON], [NOON] * 2, [], [NOON], [NOON]],
            pa.list_(pa.timestamp("us", "UTC")),
        ),
        "nn": pa.array(NN, pa.list_(pa.list_(pa.int32()))),
        "xs": pa.array(
            [[1, 2, 3], [], None, [None], [2, None, 2], [0], [3, 1], [None, 5], [-1, 7, 7, 7]],
            pa.list_(pa.int32()),
        ),
        "m": pa.array(MAPS, pa.map_(pa.string(), pa.int32())),
        "mf": pa.array(map_rows(lambda v: v * 1.5), pa.map_(pa.string(), pa.float64())),
        "ms": pa.array(map_rows(lambda v: item(v, t="x", tags=["x"])), pa.map_(pa.string(), ITEM)),
        "ma": pa.array(map_rows(lambda v: [v, None]), pa.map_(pa.string(), pa.list_(pa.int32()))),
        "st": pa.array(
            [None if i == 4 else {"m": MAPS[i], "items": ITEMS[i]} for i in range(9)],
            pa.struct([("m", pa.map_(pa.string(), pa.int32())), ("items", pa.list_(ITEM))]),
        ),
        "row": pa.array(
            [
                None if v is None else {"a": v[0], "t": v[1]}
                for v in [
                    (1, "x"),
                    None,
                    (None, "b"),
                    (5, None),
                    (None, None),
                    (5, "b"),
                    (7, ""),
                    (-1, "é"),
                    (5, "ab"),
                ]
            ],
            pa.struct([("a", pa.int32()), ("t", pa.string())]),
        ),
        "x": pa.array([1, 0, 2, None, -1, 5, 3, -3, 7], pa.int32()),
        "s": pa.array(["x", "", None, "k1", "é", "k1", "z", "long", "4"], pa.string()),
    }
)
STRUCTS = """
row = struct(5, 'b') ;; row <> (5, 'b') ;; NOT (row = (5, s)) ;; row <=> (1, 'x')
row < (5, 'b') ;; row <= (5, 'b') ;; row > (5, 'b') ;; row >= (5, 'b') ;; (5, 'a') < row
NOT (row < (5, s)) ;; row IN (struct(1, 'x'), (7, '')) ;; row NOT IN ((1, 'x'), (5, 'ab'))
row = (x, s) ;; row <= (x, s) ;; NOT (row <=> (x, s)) ;; (x, s) >= row ;; (x, s) < (3, 'a')
struct(x) > struct(row.a) ;; row BETWEEN (1, 'a') AND (5, 'b') ;; (row = (5, 'b')) IS NULL
(x, s, row.a) < (5, 'k1', 1) ;; row.a = 5 AND row > (5, 'a')
"""
MAP_VALUES = """
m.k1 = 3 ;; m.K1 = 3 ;; m.zz IS NULL ;; mf.k1 > 5 ;; st.m.k1 = 3 ;; st.m['k1'] = 3 ;; m.k1 + 1 > 3
m.k1 IN (3, 4) ;; m.k1 BETWEEN 1 AND 4 ;; ms.k1.a = 3 ;; ms['k1'].t = 'x' ;; ms[s].a > 3
ms.k1 IS NULL ;; element_at(ms, 'k1').tags[0] = 'x' ;; ma.k1[0] = 3 ;; size(ma['k1']) = 2
array_contains(ma[s], 4) ;; get(ma.k1, 1) IS NULL ;; size(ms) = 1
exists(map_values(ms), v -> v.a > 3) ;; array_max(map_values(mf)) > 5 ;; map_values(mf)[0] > 5
size(map_entries(ms)) = 2 ;; exists(map_entries(m), e -> e.key = 'k1' AND e.value > x)
map_entries(ms)[0].value.a = 3 ;; size(map_filter(m, (k, v) -> v > 3 OR k = s)) = 1
map_filter(ms, (k, v) -> v.a > 3).k1.t = 'x' ;; transform_values(m, (k, v) -> v + x).k1 > 4
transform_values(m, (k, v) -> 6 div v)['k1'] = 2 ;; map_contains_key(m, s)
map_values(ms).a[0] = 3 ;; transform_keys(m, (k, v) -> concat(k, s))['k1x'] = 3
size(transform_keys(m, (k, v) -> upper(k))) > 1 ;; transform_keys(ms, (k, v) -> v.a)[3].t = 'x'
transform_keys(m, (k, v) -> v) IS NULL ;; map_keys(transform_keys(m, (k, v) -> length(k)))[0] = 2
"""
FIELDS = """
items[0].a = 1 ;; items[1].a IS NULL ;; items[x].a = 2 ;; items[-1].a = 1 ;; items[0]['a'] = 1
items[0].p > 1 ;; items[0].d = 1.50 ;; items[0].day = DATE '2024-03-01' ;; items[0].t = 'x'
items[0].ts > TIMESTAMP '2024-01-01' ;; items[0].o.z = 3 ;; items[0].tags[0] = 'x'
items[0] IS NULL ;; size(items[0].tags) = 2 ;; items[0].o IS NOT NULL ;; st.items[0].A = 1
coalesce(items[0].a, 0) = 1 ;; get(items, 1).a IS NULL ;; element_at(items, -1).a = 1
element_at(items, 0).a = 1 ;; element_at(items, x).a > 1 ;; try_element_at(items, 2).p > 1
get(items, 0) IS NULL ;; get(items.p, 0) > 1 ;; items.a IS NULL ;; items.a = array(1, 2)
get(items.tags, 0)[0] = 'x' ;; array_contains(items.a, 5) ;; array_contains(items.p, 2)
array_contains(items.p, double('NaN')) ;; array_contains(items.p, 0.0D)
array_contains(items.d, 1.5) ;; array_contains(items.d, 2) ;; array_contains(items.p, 5.0)
array_contains(items.a, x) ;; array_contains(items.ts, TIMESTAMP '2024-03-01 12:00:00')
array_contains(items.p, mf.k1) ;; size(items) > 1 ;; cardinality(items) = 1
array_size(fs) IS NULL ;; size(nn) = 2 ;; size(tss) = 1 ;; array_max(items.a) > 3
array_max(items.p) > 3 ;; array_min(items.p) < 1 ;; array_max(items.t) = 'z'
array_min(items.p) = double('NaN') ;; array_max(items.d) > 3
array_min(items.day) < DATE '2000-01-01' ;; array_max(items.ts) > TIMESTAMP '2024-01-01'
string(array_max(fs)) = '-0.0' ;; array_min(fs) < 1 ;; fs[0] > 1
element_at(fs, 1) = double('NaN') ;; tss[0] > TIMESTAMP '2024-01-01'
array_contains(fs, double(x)) ;; nn[0][0] = 1 ;; size(nn[0]) = 2 ;; nn[0] = array(1, 2)
get(get(nn, 0), 1) = 2 ;; nn[0] IS NULL ;; array_contains(flatten(nn), 7) ;; size(flatten(nn)) > 2
flatten(items.tags)[0] = 'x' ;; get(slice(items, 1, 1), 0).a = 1 ;; size(slice(fs, x, 2)) = 1
reverse(items)[0].a = 4 ;; size(array_compact(items)) = 1 ;; get(array_compact(fs), 1) > 1
sort_array(items.a)[0] = 1 ;; arrays_overlap(items.a, xs) ;; array_join(items.t, '-') = 'x-y'
concat(items.a, xs)[0] = 1 ;; sort_array(items.p)[0] > 1
sort_array(items.p) IS NULL ;; element_at(sort_array(items.p, false), 1) = double('NaN')
size(array_distinct(map_values(mf))) = 2 ;; get(array_distinct(items.p), 1) IS NULL
array_position(fs, 1.25D) = 2 ;; array_position(xs, NULL) = 1
array_position(fs, double('NaN')) > 0 ;; array_position(items.ts, items[0].ts) = 1
size(array_remove(fs, double('NaN'))) = 1 ;; get(array_remove(fs, double(x)), 0) > 1
sort_array(tss)[0] IS NULL ;; size(array_distinct(items.p)) = 2 ;; sort_array(items.d)[0] > 1
get(sort_array(items.t, false), 0) = 'z' ;; array_position(items.p, 4.0D) = 1
"""
LAMBDAS = """
exists(items.b, v -> v > 4) ;; forall(items.a, v -> v > 0) ;; exists(items.tags, v -> size(v) > 1)
exists(fs, v -> v > 2) ;; exists(tss, v -> v IS NULL) ;; exists(nn, v -> exists(v, w -> w > 4))
size(filter(items, v -> v.a > 2)) > 0 ;; size(filter(items, v -> v IS NULL)) = 1
size(filter(items, (v, i) -> i > 0 AND v.a > 1)) > 0 ;; filter(items, v -> v.a > 1)[0].t = 'y'
size(filter(items, v -> 6 div v.a > 1)) > 0 ;; filter(items, v -> v.a > 1).t = array('y')
exists(filter(items, v -> v.a > 1), v -> v.t = 'y') ;; size(filter(items, v -> v.a > x)) > 0
array_max(transform(items, v -> v.a)) > 3 ;; array_max(transform(items, v -> v.p * 2)) > 3
array_max(transform(items, v -> 6 div v.a)) > 3 ;; array_max(transform(items, v -> v.a + x)) > 3
transform(items, (v, i) -> v.a + i)[0] = 1 ;; size(transform(items, v -> v)) > 1
exists(transform(items, v -> v.o), v -> v.z = 3) ;; size(transform(items, v -> v.tags)) = 1
exists(transform(items, v -> v.a + 1), v -> v > 3) ;; transform(xs, (v, i) -> i)[0] = 0
get(transform(items, v -> v.ts), 0) > TIMESTAMP '2024-01-01'
array_max(transform(fs, v -> v + 1)) > 3 ;; exists(items, v -> v.a = x)
exists(items, v -> v.a > x AND v.t = s) ;; forall(xs, v -> v > x)
exists(items, v -> exists(v.tags, t -> t = v.t))
exists(items, v -> exists(v.tags, v -> v = 'x')) ;; exists(items, v -> v.tags[0] = 'x')
exists(items, v -> v.a = 1 OR 1 div v.a > 0) ;; forall(items, v -> 6 div v.a > 2)
exists(xs, v -> exists(items, w -> w.a = v)) ;; exists(xs, s -> s > x)
exists(items, v -> array_contains(xs, v.a)) ;; exists(xs, v -> m.k1 = v)
exists(xs, v -> 6 div v = x) ;; aggregate(items, 0, (acc, v) -> acc + v.a) > 3
aggregate(xs, x, (acc, v) -> acc + v + x) > 3 ;; aggregate(fs, 0D, (acc, v) -> acc + v) > 1
reduce(items.a, 0, (acc, v) -> acc + coalesce(v, 0)) > 3
aggregate(items, 0, (acc, v) -> acc + int(6 div v.a)) > 1 ;; exists(array(1, 2), v -> v = x)
zip_with(xs, items, (v, w) -> v + w.a)[0] = 2
exists(zip_with(fs, xs, (v, w) -> v * w), z -> z > 1)
size(zip_with(xs, fs, (v, w) -> coalesce(w, v + x))) = 3 ;; zip_with(xs, xs, (v, w) -> w) = xs
zip_with(xs, items.a, (v, w) -> 6 div w)[0] > 2
zip_with(xs, slice(nn, 1, 1), (v, w) -> w[0])[0] = 1
zip_with(split(s, ''), xs, (v, w) -> concat(v, w))[0] = 'x1'
"""
# Structs and arrays compared, keys that are cast, fields that are not there, other functions.
REFUSED = """
exists(items, v -> v = items[0]) ;; items[0] = items[1] ;; nn[0] = nn ;; ms['k1'] = items[0]
mi.nope = 1 ;; items.nope IS NULL ;; items[0].nope = 1 ;; m.k1.z = 1 ;; xs[0].a = 1
nn.a IS NULL ;; array_contains(f32, 16777217) ;; array_contains(nn, array(7))
array_max(items) IS NULL ;; array_distinct(fs) = fs ;; fs = array(1D) ;; sort_array(nn)[0] = xs
size(concat(items, items)) = 2 ;; transform_keys(m, (k, v) -> double(v)) IS NULL
array_contains(xs, NULL) ;; array_contains(fs, NULL)
map_contains_key(m, NULL)
transform(xs, x) = xs ;; exists(xs, x) ;; transform(xs) = xs
transform(xs, v -> items)[0] IS NULL ;; exists(xs, (v, i) -> v = i)
filter(xs, (v, v) -> v > 1) = xs ;; map_filter(items, (k, v) -> v > 1) IS NULL
aggregate(items, 0L, (acc, v) -> v.a) = 1
"""


def listed(text):
    return [one for line in text.strip().splitlines() for one in line.split(" ;; ")]


def judged(ansi, texts, rows=ROWS):
    """Return the outcomes of conditions on all rows, and the masks of those that may raise."""
    batch = rows.to_batches()[0]
    nodes = [ss.PruningPredicate(t, rows.schema, ansi=ansi).node for t in texts]
    truths = [judge(n, batch, {}) for n in nodes]
    outcomes = [
        [True if t else False if f else None for t, f in zip(x.true, x.false, strict=True)]
        for x in truths
    ]
    return outcomes, [x.may_raise for x in truths]


@pytest.mark.parametrize("ansi", [True, False], ids=["ansi", "legacy"])
@pytest.mark.parametrize("text", [MAP_VALUES, FIELDS, LAMBDAS, STRUCTS], ids=range(4))
def test_rows_are_sparks(text, ansi, spark, tmp_path):
    texts = listed(text)
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    spark.read.parquet(str(tmp_path)).createOrReplaceTempView("nested")
    ours, lost = judged(ansi, texts)
    guarded = [
        f"CASE WHEN id IN ({', '.join(map(str, np.flatnonzero(~gone).tolist())) or -1}) "
        f"THEN {text} END"
        for text, gone in zip(texts, lost, strict=True)
    ]
    with set_in(spark, {"spark.sql.ansi.enabled": str(ansi).lower()}):
        theirs = answers(spark, guarded, "nested")
        raising = [t for t, x in zip(texts, lost, strict=True) if x.any()]
        raise_too = [answers(spark, [t], "nested") for t in raising[:: 1 if LONG else 3]]
    assert [
        (t, a, b and b.to_pylist())
        for t, a, b in zip(texts, ours, theirs, strict=True)
        if b is None or a != b.to_pylist()
    ] == []
    assert all(found == [None] for found in raise_too)


@pytest.mark.parametrize("text", ["sort_array(fs)[0] > 1", "size(array_distinct(fs)) = 2"])
def test_two_zeros_are_not_judged(text):
    """Versions of Spark differ in the order and the number of 0.0 and -0.0."""
    outcomes, (lost,) = judged(False, [text])
    assert np.flatnonzero(lost).tolist() == [FS.index([-0.0, 0.0])]
    assert outcomes[0][7:] == [text.startswith("size"), True ^ text.startswith("size")]


def large(t):
    """Return a type with large lists and text, which Polars and DuckDB make."""
    if pa.types.is_list(t):
        return pa.large_list(large(t.value_type))
    if pa.types.is_struct(t):
        return pa.struct([(f.name, large(f.type)) for f in t])
    return pa.large_string() if pa.types.is_string(t) else t


@pytest.mark.parametrize("ansi", [True, False], ids=["ansi", "legacy"])
def test_slices_and_large_lists_are_judged_alike(ansi):
    texts = listed(MAP_VALUES) + listed(FIELDS) + listed(LAMBDAS) + listed(STRUCTS)
    whole, wide = judged(ansi, texts), {f.name: large(f.type) for f in ROWS.schema}
    for first, size in ((0, 9), (3, 4), (2, 1), (1, 3)):
        for schema in (ROWS.schema, pa.schema(wide)):
            part = ROWS.slice(first, size).cast(schema).combine_chunks()
            outcomes, lost = judged(ansi, texts, part)
            rows = slice(first, first + size)
            assert [
                t for t, a, b in zip(texts, outcomes, whole[0], strict=True) if a != b[rows]
            ] == []
            assert [a.tolist() for a in lost] == [b[rows].tolist() for b in whole[1]]


@pytest.mark.parametrize("row_group_size", [1, 4])
def test_no_row_of_a_file_is_lost(row_group_size, tmp_path):
    """Plans read the rows for which a condition is TRUE, whatever they prune."""
    pq.write_table(ROWS, tmp_path / "rows.parquet", row_group_size=row_group_size)
    table = ss.scan_parquet(tmp_path)
    texts = listed(MAP_VALUES) + listed(FIELDS) + listed(LAMBDAS) + listed(STRUCTS)
    outcomes, lost = judged(True, texts)
    for text, outcome, gone in zip(texts, outcomes, lost, strict=True):
        if not gone.any():
            found = table.plan(text).to_arrow()["id"].to_pylist()
            assert (text, found) == (text, [i for i, o in enumerate(outcome) if o])
        else:
            read = table.plan(text).to_arrow(filter=False)["id"].to_pylist()
            assert set(read) >= {i for i, o in enumerate(outcome) if o or gone[i]}


@pytest.mark.parametrize("text", listed(REFUSED))
def test_other_forms_are_refused(text):
    schema = ROWS.schema.append(pa.field("mi", pa.map_(pa.int32(), pa.string())))
    schema = schema.append(pa.field("f32", pa.list_(pa.float32())))
    p = ss.PruningPredicate(text, schema)
    assert any(n.op is Op.UNKNOWN for n in p.node.walk())


#    Text                                             as the bound condition shows it
SHOWN = [
    ("items[0].o.Z = 1", "items.o.z[0] = 1"),
    ("filter(items, v -> v.a > x).t[0] = 'y'", "filter(items, (v) -> v.a > x).t[0] = 'y'"),
    ("m.k1 = 3", "m['k1'] = 3"),
    ("zip_with(xs, xs, (v, w) -> v + w)[0] = 2", "zip_with(xs, xs, (v, w) -> (v + w))[0] = 2"),
    ("exists(items.a, v -> v > x)", "exists(items, (v) -> v.a > x)"),
]


@pytest.mark.parametrize(("text", "shown"), SHOWN)
def test_bound_conditions_are_shown_as_sql(text, shown):
    p = ss.PruningPredicate(text, ROWS.schema)
    assert str(p.expr) == shown
    assert ss.PruningPredicate(shown, ROWS.schema).node == p.node
