"""Spark as the judge of functions of maps, in both ANSI modes."""

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.predicates.sql import parse
from skipstone.ir.bind import bind_scalar
from skipstone.ir.node import Op
from skipstone.ir.rows import values_of
from skipstone.ir.session import Session
from skipstone.ir.types import leaves_of
from skipstone.ir.values import to_array
from tests.support.spark.answers import answers, set_in

DAY = dt.date(2024, 1, 1)
MAPS = [[("a", 1), ("b", None)], None, [], [("", 0)], [("é", -7), ("a", 2)], [(" a", 5)]]
ROWS = pa.table(
    {
        "id": pa.array(range(len(MAPS)), pa.int64()),
        "m": pa.array(MAPS, pa.map_(pa.string(), pa.int32())),
        "w": pa.array(
            [None if m is None else [(i, 1.5) for i in range(len(m))] for m in MAPS],
            pa.map_(pa.int32(), pa.float64()),
        ),
        "l": pa.array(
            [[(2**40, "x")], None, [], [(1, None)], [], []], pa.map_(pa.int64(), pa.string())
        ),
        "d": pa.array(
            [[(DAY, dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC))], None, [(DAY, None)], [], [], []],
            pa.map_(pa.date32(), pa.timestamp("us", "UTC")),
        ),
        "o": pa.array(
            [[("a", [1])], None, [], [], [], []], pa.map_(pa.string(), pa.list_(pa.int32()))
        ),
        "s": pa.array(["a", "b", None, "", "é", " a"], pa.string()),
        "i": pa.array([0, 1, None, -1, 1, 2], pa.int32()),
    }
)
DDL = (
    "id bigint, m map<string, int>, w map<int, double>, l map<bigint, string>, "
    "d map<date, timestamp>, o map<string, array<int>>, s string, i int"
)
VALUES = """
m['a'] ;; m['zz'] ;; m[s] ;; m[NULL] ;; m[''] ;; w[0] ;; w[i] ;; w[1L] ;; w[CAST(1 AS TINYINT)]
w[3000000000] ;; l[1] ;; l[i] ;; l[1099511627776] ;; d[DATE '2024-01-01']
element_at(m, 'a') ;; element_at(m, s) ;; element_at(m, NULL) ;; element_at(w, 1L)
element_at(w, 3000000000) ;; element_at(l, 1) ;; try_element_at(m, 'zz') ;; size(m) ;; size(o)
cardinality(w) ;; map_contains_key(m, 'a') ;; map_contains_key(m, s) ;; map_contains_key(w, 1L)
map_contains_key(l, i) ;; map_contains_key(o, 'a') ;; map_keys(m) ;; map_values(m) ;; map_keys(w)
try_element_at(map_keys(m), 1) ;; array_contains(map_keys(m), 'a')
array_max(map_values(m)) ;; m['a'] + 1
m['a'] IS NULL ;; m IS NULL ;; m['a'] = 1 ;; m['a'] IN (1, 2) ;; w[0] > 1 ;; l[1] <=> NULL
size(transform_keys(m, (k, v) -> k)) = 1
m.a = 1 ;; m.A IS NULL ;; o.a[0] ;; o['a'][0] = 1 ;; o['a'] IS NULL ;; get(map_values(w), 0) = 1
size(map_filter(m, (k, v) -> v > 1)) = 1 ;; size(m) = 0 OR m['b'] = 5
NOT map_contains_key(m, 'a') ;; coalesce(m['a'], i)
""".strip()
# Keys of other types, values without functions, and functions of whole maps.
REFUSED = """
m[1] = 1 ;; element_at(m, 1) = 1 ;; d['2024-01-01'] IS NULL ;; w.a = 1 ;; m[0][1] = 1
map('a', i)['a'] = 1 ;; map_contains_key(m, 1) ;; get(m, 'a') = 1 ;; map_contains_key(i, 1)
""".strip()


def listed(text):
    return [one for line in text.splitlines() for one in line.split(" ;; ")]


@pytest.mark.parametrize("ansi", [True, False], ids=["ansi", "legacy"])
def test_values_are_sparks(ansi, spark):
    batch, texts, n = ROWS.to_batches()[0], listed(VALUES), ROWS.num_rows
    scalars = [
        bind_scalar(parse(t)[0], leaves_of(ROWS.schema), Session("UTC", ansi)) for t in texts
    ]
    raised = ["w[3000000000]"] if ansi else []
    assert [t for t, x in zip(texts, scalars, strict=True) if x.op is Op.UNKNOWN] == raised
    texts, scalars = (
        [x for x, t in zip(every, texts, strict=True) if t not in raised]
        for every in (texts, scalars)
    )
    found = [values_of(x, batch, {}) for x in scalars]
    assert not any(v.may_raise.any() for v in found if len(v) > 1)
    spark.createDataFrame(ROWS, DDL).createOrReplaceTempView("maps")
    with set_in(spark, {"spark.sql.ansi.enabled": str(ansi).lower()}):
        theirs = answers(spark, texts, "maps")
    ours = [to_array(v, n).to_pylist() for v in found]
    assert [
        (t, a, b)
        for t, a, b in zip(texts, ours, theirs, strict=True)
        if b is None or a != b.to_pylist()
    ] == []


@pytest.mark.parametrize("text", listed(REFUSED))
def test_other_keys_and_values_do_not_prune(text):
    p = ss.PruningPredicate(text, ROWS.schema)
    assert any(n.op is Op.UNKNOWN for n in p.node.walk())
    stats = ss.Statistics.from_dict({"i": {"min": [0], "max": [1]}}, ROWS.schema, row_count=[1])
    assert p.evaluate(stats).tolist() == [ss.Verdict.MAYBE]


@pytest.mark.filterwarnings("ignore::skipstone.SkipstoneWarning")
@pytest.mark.parametrize("text", ["m['a'] = 1", "size(m) = 0", "map_contains_key(m, s) AND i > 0"])
def test_rows_of_files_are_sparks(text, spark, tmp_path):
    path = str(tmp_path / "m.parquet")
    pq.write_table(ROWS, path, row_group_size=2)
    ours = ss.scan(path).plan(text).to_arrow()["id"].to_pylist()
    assert ours == [r.id for r in spark.read.parquet(path).where(text).orderBy("id").collect()]


def test_the_first_of_equal_keys_counts_and_malformed_text_is_unknown():
    twice = pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int32()))
    bad = pa.array([[(b"\xff", 1)]], pa.map_(pa.binary(), pa.int32())).cast(
        pa.map_(pa.string(), pa.int32()), safe=False
    )
    for array, lost, value in ((twice, False, 1), (bad, True, None)):
        batch = pa.record_batch([array], ["m"])
        scalar = bind_scalar(parse("m['a']")[0], leaves_of(batch.schema), Session())
        found = values_of(scalar, batch, {})
        assert bool(found.may_raise[0]) is lost
        assert to_array(found, 1).to_pylist() == [value]
    sliced = pa.record_batch([ROWS["m"].combine_chunks()[3:]], ["m"])
    scalar = bind_scalar(parse("m['a']")[0], leaves_of(sliced.schema), Session())
    assert to_array(values_of(scalar, sliced, {}), 3).to_pylist() == [None, 2, None]
