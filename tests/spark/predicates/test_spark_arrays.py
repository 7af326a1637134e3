"""Spark as the judge of functions of arrays, in both ANSI modes.

Every expression runs on every row. A row is lost if Spark raises, or if its result is not known
here; on all other rows, the value must equal Spark's.
"""

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.bindings.predicates.sql import parse
from skipstone.ir.bind import bind_scalar
from skipstone.ir.node import Op
from skipstone.ir.rows import judge, values_of
from skipstone.ir.session import Session
from skipstone.ir.types import leaves_of
from skipstone.ir.values import to_array
from tests.support.spark.answers import answers, set_in

LISTS = [[1, 2, 3], [], None, [None], [2, None, 2], [0], [3, 1], [None, 5], [-1, 7, 7, 7]]
RECORDS = [
    [{"k": 1, "t": "a"}, {"k": 2, "t": None}], [], None, [None], [{"k": None, "t": "ab"}, None],
    [{"k": 0, "t": ""}], [{"k": 3, "t": "b"}, {"k": 7, "t": "a"}], [{"k": -3, "t": "é"}] * 2,
    [{"k": 2, "t": "a"}],
]  # fmt: skip
ROWS = pa.table(
    {
        "id": pa.array(range(len(LISTS)), pa.int64()),
        "a": pa.array(LISTS, pa.list_(pa.int32())),
        "b": pa.array([*LISTS[3:], *LISTS[:3]], pa.list_(pa.int32())),
        "l": pa.array([*LISTS[1:], LISTS[0]], pa.large_list(pa.int64())),
        "w": pa.array(
            [["b", "a"], [], None, [None, "z"], ["é", "日本"], [""], ["a", "a"], ["10"], ["b"]],
            pa.list_(pa.string()),
        ),
        "d": pa.array([[i, None, 7 * i] for i in range(len(LISTS))], pa.list_(pa.date32())),
        "r": pa.array(RECORDS, pa.list_(pa.struct([("k", pa.int32()), ("t", pa.string())]))),
        "i": pa.array([1, 0, 2, None, -1, 5, 3, -3, 7], pa.int32()),
        "s": pa.array(["a-b", "", None, "-", "é", "a", "b", "a-b-c", "10"], pa.string()),
    }
)
DDL = (
    "id bigint, a array<int>, b array<int>, l array<bigint>, w array<string>, d array<date>, "
    "r array<struct<k:int,t:string>>, i int, s string"
)
VALUES = """
a ;; array(i, 2, NULL) ;; size(array(NULL)) ;; array(i, 3000000000)
array_size(a) ;; array_size(w)
size(a) ;; cardinality(w) ;; size(array()) ;; a[0] ;; a[i] ;; a[-1] ;; w[1] ;; get(d, 2)
element_at(a, 1) ;; element_at(a, -1) ;; element_at(a, i) ;; element_at(l, 2)
try_element_at(a, i) ;; try_element_at(w, -2) ;; get(a, i) ;; get(w, 0)
array_contains(a, 2) ;; array_contains(a, i) ;; array_contains(l, i)
array_contains(w, s) ;; array_contains(w, 'a') ;; array_contains(a, 3000000000)
array_position(a, 2) ;; array_position(w, 'a') ;; array_position(a, i)
array_max(a) ;; array_min(a) ;; array_max(w) ;; array_min(d) ;; array_max(array())
arrays_overlap(a, b) ;; arrays_overlap(a, array(1, NULL)) ;; arrays_overlap(a, array())
arrays_overlap(a, l) ;; arrays_overlap(w, array('a'))
sort_array(a) ;; sort_array(a, false) ;; sort_array(w) ;; array_distinct(a) ;; array_compact(a)
reverse(a) ;; reverse(w) ;; concat(a, b) ;; concat(a, array(1)) ;; concat(a, l)
slice(a, 1, 2) ;; slice(a, -2, 2) ;; slice(a, 2, 0) ;; slice(a, i, 1) ;; slice(a, 1, i)
array_remove(a, 2) ;; array_remove(a, i) ;; array_remove(w, 'a') ;; array_remove(a, NULL)
coalesce(a, b) ;; coalesce(a, array()) ;; if(i > 0, a, b) ;; CASE WHEN i > 1 THEN a END
nullif(a, b) ;; array_join(w, '-') ;; array_join(w, '-', '?') ;; array_join(w, s)
split(s, '-') ;; split(s, '-')[0] ;; split(s, '') ;; size(split(s, '-')) ;; split(s, 'a')
transform(a, q -> q + 1) ;; transform(a, q -> q % 2 = 0) ;; transform(w, q -> upper(q))
size(transform(a, q -> NULL)) ;; transform(d, q -> q + 1) ;; transform(a, q -> 6 div q)
filter(a, q -> q > 1) ;; filter(w, q -> q LIKE 'a%') ;; filter(a, q -> q IS NULL)
filter(a, Q -> q > 1 AND `q` < 3) ;; filter(a, i -> i > 1)
aggregate(a, 0, (acc, q) -> acc + coalesce(q, 0)) ;; aggregate(a, 1, (x, y) -> x * y)
aggregate(a, i, (acc, q) -> greatest(acc, q)) ;; aggregate(w, '', (acc, q) -> acc || q)
"""
CONDITIONS = """
a = b ;; a < b ;; a >= b ;; a <=> b ;; a <> array(1, 2, 3) ;; a > array() ;; a <= array(NULL, 5)
array(1, NULL) = array(1, NULL) ;; a = l ;; l < a ;; w > array('a') ;; d = d ;; a = a ;; a <=> a
a IN (array(0), array()) ;; a NOT IN (b, array(1, 2, 3)) ;; a IN (array(NULL), NULL)
a IS NULL ;; sort_array(a) IS NULL ;; a[0] IS NOT NULL ;; a IS DISTINCT FROM array(0)
array(2) BETWEEN array(1) AND a ;; size(filter(a, q -> q = 2)) > 0
exists(a, q -> q > 1) ;; exists(a, q -> q IS NULL) ;; exists(w, q -> q = 'a')
exists(a, q -> 6 div q = 3) ;; NOT exists(a, q -> q > 100)
forall(a, q -> q > 0) ;; forall(a, q -> q IS NULL OR q < 7) ;; forall(a, q -> 6 div q > 0)
exists(filter(a, q -> q > 1), q -> q < 3) ;; forall(a, q -> q IN (1, 2, NULL))
exists(r, q -> q.k > 1) ;; exists(r, Q -> q.K = 2 AND Q.t = 'a') ;; exists(r, q -> q IS NULL)
exists(r, q -> q.t IS NULL) ;; exists(r, q -> q.t LIKE 'a%' OR q.k = 0)
NOT exists(r, q -> q.k > 1) ;; exists(r, q -> q.k + 1 > 2)
exists(r, q -> 6 div q.k > 2) ;; forall(r, q -> q.k > 0) ;; forall(r, q -> q.t <> 'a')
array_contains(r.k, 2) ;; array_contains(r.T, 'a') ;; NOT array_contains(r.k, 7L)
array_contains(r.t, 'zz') IS NULL ;; array_contains(r.k, 3000000000)
exists(r, q -> q.k IN (7, 9, NULL)) ;; exists(r, q -> q.k <=> NULL) ;; r IS NULL
exists(a, q -> q > i) ;; transform(a, (q, n) -> q + n)[0] = 1 ;; exists(r, q -> q.k = i)
exists(a, q -> exists(b, p -> p = q)) ;; size(r) = 2 ;; r[0].k = 1 ;; r.k = a ;; r.k[0] = 1
array_contains(r.k, i) ;; transform(r, (q, n) -> q.k * n)[0] = 0
array_contains(a, 2) AND size(a) = 3 ;; element_at(a, 1) = 2 ;; element_at(a, 1) > 1 OR i = 1
"""
# Types that are not understood.
REFUSED = """
array(1.5D)[0] = 1 ;; array(a, b)[0] = a ;; a = w ;; array(1, 2)[0] = 1
exists(r, q -> q = r[0]) ;; array_contains(r.t, 5) ;; r.nope[0] = 1 ;; r[0].nope = 1
array_contains(a, '2') ;; aggregate(a, 0L, (x, y) -> y) = 1 ;; split(s, '[a-b]')[0] = 'a'
aggregate(a, 0, (x, y) -> x + y, x -> x * 2) = 1 ;; array_sort(a, (x, y) -> y - x) = a
"""


def listed(text):
    return [one for line in text.strip().splitlines() for one in line.split(" ;; ")]


def spark_values(spark, ansi, texts, lost):
    """Return Spark's values; those of lost rows are NULL."""
    guarded = [
        f"CASE WHEN id IN ({', '.join(map(str, np.flatnonzero(~gone).tolist())) or -1}) "
        f"THEN {text} END"
        for text, gone in zip(texts, lost, strict=True)
    ]
    spark.createDataFrame(ROWS, DDL).createOrReplaceTempView("arrays")
    with set_in(spark, {"spark.sql.ansi.enabled": str(ansi).lower()}):
        return [
            None if found is None else found.to_pylist()
            for found in answers(spark, guarded, "arrays")
        ]


@pytest.mark.parametrize("ansi", [True, False], ids=["ansi", "legacy"])
def test_values_are_sparks(ansi, spark):
    batch = ROWS.to_batches()[0]
    texts, n = listed(VALUES), ROWS.num_rows
    scalars = [
        bind_scalar(parse(t)[0], leaves_of(ROWS.schema), Session("UTC", ansi)) for t in texts
    ]
    assert [t for t, x in zip(texts, scalars, strict=True) if x.op is Op.UNKNOWN] == []
    found = [values_of(x, batch, {}) for x in scalars]
    lost = [np.broadcast_to(v.may_raise, n) for v in found]
    ours = [to_array(v, n).to_pylist() for v in found]
    theirs = spark_values(spark, ansi, texts, lost)
    assert [(t, a, b) for t, a, b in zip(texts, ours, theirs, strict=True) if a != b] == []
    assert sum(map(np.sum, lost)) < n * len(texts) * 0.1


@pytest.mark.parametrize("ansi", [True, False], ids=["ansi", "legacy"])
def test_conditions_are_sparks(ansi, spark):
    batch, texts = ROWS.to_batches()[0], listed(CONDITIONS)
    predicates = [ss.PruningPredicate(t, ROWS.schema, ansi=ansi) for t in texts]
    truths = [judge(p.node, batch, {}) for p in predicates]
    ours = [
        [True if t else False if f else None for t, f in zip(x.true, x.false, strict=True)]
        for x in truths
    ]
    theirs = spark_values(spark, ansi, texts, [x.may_raise for x in truths])
    assert [(t, a, b) for t, a, b in zip(texts, ours, theirs, strict=True) if a != b] == []


def one_row_each():
    """Return the rows as containers of one row each; arrays have no bounds."""
    columns = {}
    for name in ROWS.column_names:
        array = ROWS[name].combine_chunks()
        columns[name] = {"null_count": array.is_null().cast(pa.int64())}
        if not pa.types.is_nested(array.type):
            columns[name] |= {"min": array, "max": array}
    return ss.Statistics.from_dict(columns, ROWS.schema, row_count=[1] * ROWS.num_rows)


@pytest.mark.parametrize("text", [*listed(CONDITIONS), *listed(REFUSED)])
def test_no_container_is_pruned_that_holds_a_row(text):
    """A row that passes, or may raise, is in no container that is pruned."""
    p = ss.PruningPredicate(text, ROWS.schema)
    verdicts = p.evaluate(one_row_each())
    assert any(n.op is Op.UNKNOWN for n in p.node.walk()) == (text in listed(REFUSED))
    if text in listed(REFUSED):
        assert (verdicts == ss.Verdict.MAYBE).all()
        return
    truth = judge(p.node, ROWS.to_batches()[0], {})
    assert not ((verdicts == ss.Verdict.NEVER) & (truth.true | truth.may_raise)).any()
    assert not ((verdicts == ss.Verdict.ALWAYS) & ~truth.true).any()
