"""CHAR columns of Delta tables, which Spark pads when it reads and compares them.

The answers are those of Spark 4.1.2 with Delta 4.4.0 over the same rows; 4.3 agrees over Parquet.
"""

import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skipstone as ss
from skipstone.bindings.tables.char_columns import padded, with_char
from skipstone.ir.errors import UnsupportedForm

KEY = "__CHAR_VARCHAR_TYPE_STRING"
COLUMNS = [
    ("id", "integer", {}),
    ("c", "string", {KEY: "char(5)"}),
    ("v", "string", {KEY: "varchar(5)"}),
    (
        "s",
        {
            "type": "struct",
            "fields": [
                {"name": n, "type": "string", "nullable": True, "metadata": {}} for n in "cv"
            ],
        },
        {KEY: "struct<c:char(3),v:varchar(4)>"},
    ),
    (
        "a",
        {"type": "array", "elementType": "string", "containsNull": True},
        {KEY: "array<char(3)>"},
    ),
    ("p", "string", {KEY: "char(4)"}),
]
# partition value, rows: id, c, v, s.c, s.v, a
FILES = [
    (None, [(3, None, "abcde", None, None, None)]),
    ("k", [(1, "ab", "ab", "x", "y ", ["q"])]),
    ("kkkk", [(2, "abc  ", "ab ", "xyz", "yyyy", ["qq"])]),
    (
        "z",
        [
            (10, "ab", "x", "x", "q", ["q"]),
            (11, "a\x01", "x ", "x", "q", ["q"]),
            (12, "äb", "y", "x", "q", ["q"]),
            (13, "abcdefgh", "z", "x", "q", ["q"]),
        ],
    ),
]
#   condition, Spark's ids, files that we keep
CASES = [
    ("c = 'ab'", [1, 10], 2),
    ("'ab ' = c", [1, 10], 2),
    ("c = 'ab   '", [1, 10], 2),
    ("c IN ('ab', 'abc')", [1, 2, 10], 3),
    ("c IN ('abcdefgh', 'ab')", [1, 10, 13], 2),
    ("c NOT IN ('ab')", [2, 11, 12, 13], 2),
    ("c IN ('ab', NULL)", [], 1),
    ("c IN ('ab', CAST(NULL AS STRING))", [1, 10], 2),
    ("c IN (CAST(id AS STRING), 'ab')", [], 1),
    ("'ab' IN (c, 'x')", [], 1),
    ("c <=> 'ab'", [1, 10], 2),
    ("c <> 'ab'", [2, 11, 12, 13], 2),
    ("c LIKE 'ab'", [], 1),
    ("c LIKE 'ab%'", [1, 2, 10, 13], 3),
    ("c < 'ab '", [11], 1),
    ("c < 'a'", [11], 1),
    ("c > 'ab'", [2, 12, 13], 2),
    ("c > 'a\x01'", [1, 2, 10, 12, 13], 3),
    ("c = 'a\x01'", [11], 1),
    ("c = 'äb'", [12], 1),
    ("c = 'abcdefgh  '", [13], 1),
    ("c BETWEEN 'ab' AND 'ab'", [], 1),
    ("c = v", [], 1),
    ("c = concat('a', 'b')", [1, 10], 2),
    ("c = CAST('ab' AS CHAR(3))", [1, 10], 2),
    ("CAST(c AS STRING) = 'ab'", [], 1),
    ("string(c) = 'ab'", [], 1),
    ("c = X'6162'", [], 1),
    ("nullif(c, 'ab') IS NULL", [3], 2),
    ("CASE c WHEN 'ab' THEN true ELSE false END", [1, 10], 2),
    ("coalesce(c, '') = 'ab'", [], 1),
    ("upper(c) = 'AB'", [], 1),
    ("trim(c) = 'ab'", [1, 10], 2),
    ("length(c) = 5", [1, 2, 10, 11, 12], 3),
    ("c IS NULL", [3], 1),
    ("c > s.c", [12], 1),
    ("s.c = 'x'", [], 0),
    ("s.c = 'x  '", [1, 10, 11, 12, 13], 2),
    ("s.v = 'q'", [10, 11, 12, 13], 1),
    ("a[0] = 'q'", [], 4),
    ("a[0] = 'q  '", [1, 10, 11, 12, 13], 4),
    ("p = 'k'", [1], 1),
    ("p = 'k   '", [1], 1),
    ("p > 'k'", [2, 10, 11, 12, 13], 2),
    ("p IN ('k', 'z')", [1, 10, 11, 12, 13], 2),
    ("p = c", [], 1),
    ("v = 'ab'", [1], 1),
]


def entry(path, p, rows):
    low, high = ({}, {})
    for name, at in (("c", 1), ("v", 2)):
        values = sorted((r[at] for r in rows if r[at] is not None), key=str.encode)
        if values:
            low[name], high[name] = values[0], values[-1]
    inner = [r[3:5] for r in rows if r[3] is not None]
    for side, pick in ((low, min), (high, max)):
        if inner:
            side["s"] = {"c": pick(r[0] for r in inner), "v": pick(r[1] for r in inner)}
    nulls = {n: sum(r[i] is None for r in rows) for n, i in (("c", 1), ("v", 2))}
    stats = {"numRecords": len(rows), "minValues": low, "maxValues": high, "nullCount": nulls}
    return {
        "add": {
            "path": os.path.basename(path),
            "partitionValues": {"p": p},
            "size": os.path.getsize(path),
            "modificationTime": 1,
            "dataChange": True,
            "stats": json.dumps(stats),
        }
    }


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("char")
    fields = [
        {"name": n, "type": kind, "nullable": True, "metadata": notes} for n, kind, notes in COLUMNS
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    log = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "t", "format": {"provider": "parquet"}, "schemaString": schema,
                "partitionColumns": ["p"], "configuration": {},
            }
        },
    ]  # fmt: skip
    for i, (p, rows) in enumerate(FILES):
        path = f"{folder}/{i}.parquet"
        ids, c, v, sc, sv, a = zip(*rows, strict=True)
        inner = [None if x is None else {"c": x, "v": y} for x, y in zip(sc, sv, strict=True)]
        pq.write_table(
            pa.table(
                {
                    "id": pa.array(ids, pa.int32()),
                    "c": pa.array(c, pa.string()),
                    "v": pa.array(v, pa.string()),
                    "s": pa.array(inner, pa.struct([("c", pa.string()), ("v", pa.string())])),
                    "a": pa.array(a, pa.list_(pa.string())),
                }
            ),
            path,
        )
        log.append(entry(path, p, rows))
    os.mkdir(f"{folder}/_delta_log")
    with open(f"{folder}/_delta_log/{0:020d}.json", "w") as out:
        out.write("\n".join(map(json.dumps, log)))
    return ss.scan_delta(str(folder))


@pytest.mark.parametrize(("condition", "ids", "files"), CASES)
def test_rows_are_those_of_spark(table, condition, ids, files):
    plan = table.plan(condition)
    assert sorted(plan.to_arrow().column("id").to_pylist()) == ids
    assert len(plan.files) == files


def test_values_are_padded_as_spark_reads_them(table):
    rows = table.plan("id IN (1, 2, 13)").to_arrow().sort_by("id").to_pylist()
    assert rows == [
        {"id": 1, "c": "ab   ", "v": "ab", "s": {"c": "x  ", "v": "y "}, "a": ["q  "], "p": "k   "},
        {"id": 2, "c": "abc  ", "v": "ab ", "s": {"c": "xyz", "v": "yyyy"}, "a": ["qq "],
         "p": "kkkk"},
        {"id": 13, "c": "abcdefgh", "v": "z", "s": {"c": "x  ", "v": "q"}, "a": ["q  "],
         "p": "z   "},
    ]  # fmt: skip


def test_other_engines_do_not_get_texts_that_are_not_padded(table):
    assert table.to_polars().collect()["c"].to_list()[1] == "ab   "
    assert table.plan().to_duckdb().order("id").fetchall()[0][1] == "ab   "
    with pytest.raises(UnsupportedForm, match="column c is CHAR"):
        table.plan().to_dataset()


TEXT = st.text(st.sampled_from("ab \x01\x1f!~é"), max_size=5)


@settings(max_examples=80, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=4), TEXT, st.sampled_from(["=", "<", "<=", ">", ">="]))
def test_bounds_of_texts_that_are_not_padded_lose_no_row(texts, literal, sign):
    schema = pa.schema([with_char(pa.field("c", pa.string()), "char(4)")])
    ordered = sorted(texts, key=str.encode)
    stats = ss.Statistics.from_dict(
        {"c": {"min": [ordered[0]], "max": [ordered[-1]], "null_count": [0]}},
        schema,
        row_count=[len(texts)],
    )
    verdict = ss.PruningPredicate(f"c {sign} '{literal}'", schema).evaluate(stats, backend="numpy")[
        0
    ]
    # Rows, by the definition.
    size = max(4, len(literal))
    right = literal.ljust(size).encode()
    compare = {"=": "__eq__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}[sign]
    matches = [getattr(t.ljust(size).encode(), compare)(right) for t in texts]
    assert verdict != ss.Verdict.NEVER or not any(matches)
    assert verdict != ss.Verdict.ALWAYS or all(matches)
    if len(set(texts)) == 1:  # a single value is computed
        assert verdict == (ss.Verdict.ALWAYS if all(matches) else ss.Verdict.NEVER)


@pytest.mark.parametrize(
    "kind",
    [
        "char(",
        "char(x)",
        "struct<a:char(3)>",
        "array<char(3)",
        "char(3)>",
        "map<char(3)>",
        "<,",
        "",
    ],
)
def test_a_text_that_is_not_the_type_is_refused(kind):
    field = pa.field("x", pa.struct([("a", pa.string()), ("b", pa.string())]))
    with pytest.raises(ValueError, match=r"type|expected"):
        with_char(field, kind)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.list_(pa.string()), "array<char(3)>"),
        (pa.map_(pa.string(), pa.list_(pa.string())), "map<char(2),array<char(3)>>"),
        (
            pa.struct([("a b", pa.string()), ("n", pa.decimal128(5, 2)), ("x", pa.string())]),
            "struct<`a b`:char(3),n:decimal(5,2),x:string>",
        ),
    ],
)
def test_values_of_any_depth_are_padded(kind, text):
    field = with_char(pa.field("f", kind), text)
    one = {
        "array<char(3)>": ["a", None, "abc"],
        "map<char(2),array<char(3)>>": [("k", ["a"]), ("kk", None)],
    }.get(text, {"a b": "x", "n": None, "x": "y"})
    wanted = {
        "array<char(3)>": ["a  ", None, "abc"],
        "map<char(2),array<char(3)>>": [("k ", ["a  "]), ("kk", None)],
    }.get(text, {"a b": "x  ", "n": None, "x": "y"})
    values = pa.array([one, None, one, one], kind)
    assert padded(values, field).to_pylist() == [wanted, None, wanted, wanted]
    assert padded(values.slice(1, 2), field).to_pylist() == [None, wanted]
    assert padded(values.slice(0, 0), field).to_pylist() == []
