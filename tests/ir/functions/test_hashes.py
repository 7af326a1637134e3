"""Spark's hashes: values of Spark 4.3, and rows, containers and peers that agree with them."""

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

import skipstone as ss
from skipstone.ir.functions.hashes import FUNCTIONS, SEED
from skipstone.ir.partitioning.murmur import hash_bytes, hash_ints
from skipstone.ir.rows import evaluate_rows

SCHEMA = pa.schema([("i", pa.int32()), ("s", pa.string()), ("p", pa.int64())])
# Arguments, and Spark's results of hash and of xxhash64.
CASES = [
    ("1Y", -559580957, -6698625589789238999),
    ("CAST(-7 AS SMALLINT)", -1618159745, 4987848727247274714),
    ("0", 933211791, 3614696996920510707),
    ("-2147483648", 723455942, 2073849959933241805),
    ("1L", -1712319331, -7001672635703045582),
    ("-9223372036854775808L", -853646085, -8619748838626508300),
    ("true", -559580957, -6698625589789238999),
    ("false", 933211791, 3614696996920510707),
    ("CAST(1.5 AS FLOAT)", -221251528, 6163473420726370430),
    ("CAST(-0.0 AS FLOAT)", 933211791, 3614696996920510707),
    ("CAST('NaN' AS FLOAT)", -349261430, 2692338816207849720),
    ("2.5D", -892273744, 2435211733827758672),
    ("-0.0D", -1670924195, -5252525462095825812),
    ("CAST('NaN' AS DOUBLE)", -1281358385, -3127944061524951246),
    ("'Spark'", 228093765, -4294468057691064905),
    ("''", 142593372, -7444071767201028348),
    ("'abc'", 1322437556, 1423657621850124518),
    ("'日本語 text of more than 32 bytes'", 144374960, 5711941841612566452),
    ("X'FF00'", 266084350, 7330825074997746532),
    ("X'80'", 775851899, -7898411661632158123),
    ("CAST(12.34 AS DECIMAL(12,2))", -1028144669, -3802813071951760351),
    ("CAST(-1 AS DECIMAL(38,0))", 1398487324, -4006032525457443936),
    ("CAST(12345678901234567890123 AS DECIMAL(30,2))", -832096464, 5682172890726077296),
    ("DATE '1969-12-31'", -1604776387, 2017008487422258757),
    ("TIMESTAMP '2024-01-02 03:04:05.678901'", 1083108272, -404791865445102892),
    ("TIMESTAMP_NTZ '1960-01-01 00:00:00'", -1530488822, -9221344757539345515),
    ("CAST(NULL AS INT)", 42, 42),
    ("NULL", 42, 42),
    ("1, 'a', 2.5D", 389417474, -198860653963387819),
    ("NULL, 'a'", 1485273170, -8582455328737087284),
    ("'a', NULL, 3L", -951283508, 7516910609690333830),
]
LONGS = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize(("values", "murmur", "xx"), CASES)
def test_spark_has_these_hashes(values, murmur, xx):
    for text, name, expected in ((f"hash({values})", "hash", murmur), (values, "xxhash64", xx)):
        test = f"{name}({values}) = {expected}"
        assert ss.PruningPredicate(test, SCHEMA, timezone="UTC").expr == "true", text


@given(st.lists(st.tuples(LONGS, st.binary(max_size=40)), min_size=1, max_size=20))
def test_peers_agree(rows):
    longs, texts = np.array([v for v, _ in rows], np.int64), [t for _, t in rows]
    batch = pa.record_batch({"p": longs, "b": pa.array(texts, pa.binary())})

    def is_true(condition):
        return evaluate_rows(ss.PruningPredicate(condition, batch.schema).node, batch).to_pylist()

    for i, (value, text) in enumerate(rows):
        first = xxhash.xxh64_intdigest(int(value).to_bytes(8, "little", signed=True), SEED)
        both = xxhash.xxh64_intdigest(text, first)
        signed = both - 2**64 * (both >= 2**63)
        assert is_true(f"xxhash64(p, b) = {signed}")[i]
        assert is_true(f"xxhash64(b, p) = xxhash64(b, {value}L)")[i]
        assert is_true(f"hash(b, p) = hash(b, {value}L)")[i]
    words = pa.array([int(v).to_bytes(8, "little", signed=True)[:4] for v in longs], "large_binary")
    seeds = np.arange(len(rows), dtype=np.uint32)
    assert hash_ints(longs, seeds).tolist() == hash_bytes(words, seeds).tolist()


def test_null_leaves_the_hash_of_the_values_before():
    batch = pa.record_batch([pa.array([1, None, 1]), pa.array(["a", "a", None])], ["i", "s"])
    for name in FUNCTIONS:
        for left, right in ((f"{name}(i, s)", f"{name}(s)"), (f"{name}(s, i)", f"{name}(s)")):
            found = evaluate_rows(
                ss.PruningPredicate(f"{left} = {right}", batch.schema).node, batch
            ).to_pylist()
            assert found[1]
            assert not found[0]


def test_containers_of_one_value_are_judged():
    statistics = ss.Statistics.from_dict(
        {"p": {"min": [1, 1, 1], "max": [1, 2, 1], "null_count": [0, 0, 1]}},
        SCHEMA,
        row_count=[3] * 3,
    )
    for test, expected in (("hash(p) = -1712319331", [2, 1, 1]), ("hash(p) = 5", [0, 1, 1])):
        assert ss.PruningPredicate(test, SCHEMA).evaluate(statistics).tolist() == expected
    assert ss.PruningPredicate("hash(p) IS NULL", SCHEMA).evaluate(statistics).tolist() == [0] * 3


@pytest.mark.parametrize("values", ["", "array(1)", "t"])
def test_other_values_are_not_understood(values):
    schema = pa.schema([("t", pa.timestamp("ns"))])
    assert ss.PruningPredicate(f"hash({values}) = 1", schema).has_unknown
