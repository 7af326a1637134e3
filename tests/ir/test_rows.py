"""The row evaluator: Spark's semantics on every Arrow layout.

tests/spark/predicates/test_spark_coercion.py compares it with Spark itself.
"""

import datetime as dt
from decimal import Decimal as D

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.ir import types as ty
from skipstone.ir.node import Node, Op, literal
from skipstone.ir.rows import evaluate_rows, matching_rows
from skipstone.ir.simplify import is_in
from skipstone.ir.values import from_array

T, F, N = True, False, None
NAN, INF = float("nan"), float("inf")
FLOATS = pa.array([NAN, 6.0, None, -0.0, 0.0, INF])
TEXTS = ["a", "ab", None, "", "b\n"]
BYTES = [b"ab", b"\xff\xff", None]
DECIMALS = [D("1.50"), None, D("-2.00")]
TEXT_TYPES = (
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int8(), pa.string()),
)
BINARY_TYPES = (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2))
DECIMAL_TYPES = (
    pa.decimal32(9, 2),
    pa.decimal64(12, 2),
    pa.decimal128(20, 2),
    pa.decimal256(30, 2),
)


def outcomes(predicate, array):
    schema = pa.schema([("x", array.type)])
    return evaluate_rows(
        ss.PruningPredicate(predicate, schema).node, pa.record_batch([array], schema=schema)
    ).to_pylist()


#  predicate  rows  outcomes
CASES = [
    ("x > 5", FLOATS, [T, T, N, F, F, T]),
    ("x >= CAST('Infinity' AS DOUBLE)", FLOATS, [T, F, N, F, F, T]),
    ("x < 1", FLOATS, [F, F, N, T, T, F]),
    ("x = 0", FLOATS, [F, F, N, T, T, F]),
    ("x <> 0", FLOATS, [T, T, N, F, F, T]),
    ("x IN (0, CAST('NaN' AS DOUBLE))", FLOATS, [T, F, N, T, T, F]),
    ("x NOT IN (6, NULL)", FLOATS, [N, F, N, N, N, N]),
    ("x = CAST('NaN' AS DOUBLE)", FLOATS, [T, F, N, F, F, F]),
    ("x <= CAST('NaN' AS DOUBLE)", FLOATS, [T, T, N, T, T, T]),
    ("x = x", FLOATS, [T, T, N, T, T, T]),
    ("x <=> NULL", FLOATS, [F, F, T, F, F, F]),
    ("(x > 5) IS NULL", FLOATS, [F, F, T, F, F, F]),
    ("(x > 5) IS NOT TRUE", FLOATS, [F, F, T, T, T, F]),
    ("x < 0.1", pa.array([0.1, 0.0999], pa.float32()), [F, T]),
    ("x < TRUE", pa.array([T, F, N]), [F, T, N]),
    ("x IN (TRUE)", pa.array([T, F, N]), [T, F, N]),
    ("x > 9223372036854775807", pa.array([2**64 - 1, 0], pa.uint64()), [T, F]),
    ("x > 5", pc.run_end_encode(pa.array([7, 7, 1])), [T, T, F]),
    ("x IS NULL", pa.nulls(2), [T, T]),
    ("x = 1", pa.nulls(2), [N, N]),
    ("x IS NULL", pa.array([[1], None]), [F, T]),
    ("x.f >= 2", pa.StructArray.from_arrays([pa.array([1, 2, 3])], ["f"], mask=pa.array([F, T, F])),
     [F, N, T]),
    ("x.f IS NULL",
     pa.StructArray.from_arrays([pa.array([1, 2, 3])], ["f"], mask=pa.array([F, T, F])), [F, T, F]),
    ("x IS NULL",
     pa.StructArray.from_arrays([pa.array([1, 2, 3])], ["f"], mask=pa.array([F, T, F])), [F, T, F]),
    ("x = DATE '1970-01-02'", pa.array([dt.date(1970, 1, 2)], pa.date64()), [T]),
    # compared by bytes, not by appearance
    ("x = 'é'", pa.array(["é", "e\u0301"]), [T, F]),
    *((p, pa.array(TEXTS, t), o) for t in TEXT_TYPES for p, o in (
        ("x = 'ab'", [F, T, N, F, F]),
        ("x IN ('a', 'b')", [T, F, N, F, F]),
        ("x < 'b'", [T, T, N, T, F]),
        ("x LIKE 'a%'", [T, T, N, F, F]),
        ("x LIKE 'b_'", [F, F, N, F, T]),
        ("x NOT LIKE '%b'", [T, F, N, T, T]),
        ("x LIKE ''", [F, F, N, T, F]),
    )),
    *((p, pa.array(BYTES, t), o) for t in BINARY_TYPES for p, o in (
        ("x = X'6162'", [T, F, N]), ("x IN (X'6162', X'00')", [T, F, N]), ("x < X'ff'", [T, F, N]),
        ("x >= X''", [T, T, N]),
    )),
    *((p, pa.array(DECIMALS, t), o) for t in DECIMAL_TYPES for p, o in (
        ("x = 1.5", [T, N, F]), ("x IN (1.5, 2)", [T, N, F]), ("x < 1", [F, N, T]),
        ("x > 1.499", [T, N, F]), ("x >= 1.5e0", [T, N, F]),
    )),
]  # fmt: skip


@pytest.mark.parametrize(
    "predicate, rows, expected", CASES, ids=[f"{p} {a.type}" for p, a, _ in CASES]
)
def test_outcomes(predicate, rows, expected):
    assert outcomes(predicate, rows) == expected
    again = (
        pa.concat_arrays([pa.nulls(1, rows.type), rows])[1:]
        if not pa.types.is_run_end_encoded(rows.type)
        else rows
    )
    assert outcomes(predicate, again) == expected  # with an offset


@pytest.mark.parametrize(
    "arrow",
    [pa.date32(), pa.timestamp("s"), pa.timestamp("us", "UTC"), pa.timestamp("ns")],
    ids=str,
)
def test_values_beyond_python(arrow):
    dtype = ty.from_arrow(arrow)
    rows = pa.array(
        [dtype.lowest, 0, dtype.highest, None], pa.int32() if arrow == pa.date32() else pa.int64()
    ).view(arrow)
    batch, x = pa.record_batch([rows], names=["x"]), Node(Op.COLUMN, value=("x",), dtype=dtype)
    assert evaluate_rows(is_in(x, [dtype.highest, dtype.lowest]), batch).to_pylist() == [T, F, T, N]
    assert evaluate_rows(Node(Op.LT, (x, literal(dtype.highest, dtype))), batch).to_pylist() == [
        T,
        T,
        F,
        N,
    ]


def test_matching_rows_are_the_true_ones():
    batch = pa.record_batch([FLOATS], names=["x"])
    p = ss.PruningPredicate("x > 5", batch.schema)
    assert [str(v) for v in matching_rows(p.node, batch)["x"].to_pylist()] == ["nan", "6.0", "inf"]


def test_unsupported_forms_are_named():
    schema = pa.schema([("x", pa.int64())])
    with pytest.raises(
        ss.UnsupportedForm,
        match=r"cannot filter rows by 'soundex\(x\) = 2': .* Spark's function soundex",
    ):
        evaluate_rows(
            ss.PruningPredicate("x = 3 OR soundex(x) = 2", schema).node,
            pa.record_batch([pa.array([1])], schema=schema),
        )


ROW = pa.record_batch(
    {
        "x": pa.array([7, 2_147_483_647], pa.int32()),
        "n": pa.array([2, 0], pa.int32()),
        "s": ["1", "a"],
        "xs": [[1, 2], []],
        "st": [{"f": 2.0}, {"f": 0.0}],
        "raw": pa.array([b"ab", b"\xff"]).view(pa.string()),
        "ts": pa.array([0, -(10**16)], pa.timestamp("us", "UTC")),
    }
)
# condition                     reason of the error, which names the second row's values
UNJUDGED = [
    ("x / n > 1", "error for (CAST(x AS DOUBLE) / CAST(n AS DOUBLE)) where x is 2147483647 and n"),
    ("n > 5 OR x + 1 < 3", "Spark raises an error for (x + 1) where x is 2147483647. Guard it"),
    ("abs(x * 2) = 3 AND n = 0", "Spark raises an error for (x * 2) where x is 2147483647. Guard"),
    ("NOT x = x + n + 1", "Spark raises an error for ((x + n) + 1) where x is 2147483647 and n is"),
    ("x / st.f > 1", "/ st.f) where x is 2147483647 and st.f is 0.0D. Guard it"),
    ("coalesce(10 % n, 3) = 2", "Spark raises an error for (10 % n) where n is 0. Guard it, as in"),
    ("CASE WHEN s = 'a' THEN 1 div n ELSE 2 END = 2", "(1 div CAST(n AS BIGINT)) where n is 0."),
    ("CAST(s AS INT) = 1", "Spark raises an error for CAST(s AS INT) where s is 'a', or has a"),
    ("s = 1", "known here. Compare s with text, such as '5', or guard it, as in TRY_CAST(...)"),
    ("xs[0] = 1", "Spark raises an error for xs[0] where xs is array(), or has a value that is"),
    ("raw LIKE 'a_'", "raw has text that is not UTF-8. Filter the rows elsewhere"),
    ("length(raw) = 2", "raw has text that is not UTF-8. Filter the rows elsewhere"),
    ("CAST(pow(st.f, 0.5) AS STRING) = 'a'", "the last digits of Spark's pow(st.f, 0.5D) where st"),
    ("log2(x) > log(2, x)", "the last digits of Spark's log2(CAST(x AS DOUBLE)) where x is 7 are"),
    ("log2(x + 0.5) > log(2, x + 0.5)", "the last digits of Spark's log2(CAST((CAST(x AS"),
    ("ts - ts = INTERVAL '0' SECOND", "the value of CAST(ts AS TIMESTAMP_NTZ) where ts is"),
    ("substring(raw, 1, 1) < raw", "raw has text that is not UTF-8. Filter the rows elsewhere"),
    ("CAST(st.f / 3 AS STRING) = 'a'", "the value of CAST((st.f / 3.0D) AS STRING) where st.f"),
    ("hour(ts) = 1", "is not known here; offsets of time zones are certain from 1970 to 2200 only"),
]  # fmt: skip


@pytest.mark.parametrize("where, reason", UNJUDGED, ids=[w for w, _ in UNJUDGED])
@pytest.mark.parametrize("stored", [False, True], ids=["in memory", "in a file"])
def test_errors_name_the_expression_and_the_values(tmp_path, where, reason, stored):
    def judge():
        if not stored:
            p = ss.PruningPredicate(where, ROW.schema, timezone="Asia/Tokyo")
            return evaluate_rows(p.node, ROW)
        pq.write_table(pa.table(ROW), tmp_path / "t.parquet")
        return ss.scan_parquet(tmp_path).plan(where, timezone="Asia/Tokyo").to_arrow()

    with pytest.raises(ss.UnsupportedForm, match=r"cannot filter \d rows? by .*") as e:
        judge()
    assert reason in str(e.value)


@pytest.mark.parametrize("high", [-2, -1, 0, 1, 2])
@pytest.mark.parametrize("low", [0, 1, 2**62 - 1, 2**62, 2**63 - 1, 2**63, 3 * 2**62, 2**64 - 1])
def test_decimals_of_two_words(high, low):
    """The upper word must repeat the sign of the lower one where that alone is kept."""
    digits = high * 2**64 + low
    array = pa.array([D(digits), D(5)], pa.decimal128(30, 0))
    assert [int(v) for v in from_array(array).points] == [digits, 5]
    rows = pa.record_batch({"d": array})
    for text in (f"d + 1 = {digits + 1}", f"abs(d) = {abs(digits)}"):
        node = ss.PruningPredicate(text, rows.schema).node
        assert evaluate_rows(node, rows).to_pylist() == [True, digits == 5], text
