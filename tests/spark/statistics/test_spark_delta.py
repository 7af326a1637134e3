"""A Delta log's add files judged in Spark.

`stats`, `stats_parsed` and `partitionValues` mean the same there as in Skipstone's own reader.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.spark import delta_statistics, with_verdict
from tests.support.spark.session import QUIET
from tests.support.tables.delta_log import Log, Written, delta_schema
from tests.support.tables.delta_statistics import BAD

pytestmark = pytest.mark.filterwarnings(QUIET)

DDL = (
    "x BIGINT, i TINYINT, t TIMESTAMP, n TIMESTAMP_NTZ, d DATE, m DECIMAL(12,2), w "
    "DECIMAL(38,10), s STRING, g DOUBLE, st STRUCT<v: INT, `o'd d`: STRING>"
)
PARTS = "p DATE, q INT, r STRING, u TIMESTAMP, h DECIMAL(5,2), k BOOLEAN, z DOUBLE"
TIMES = [
    "1850-06-01T12:00:00.000Z",
    "2020-09-13T12:26:40.123Z",
    "2024-01-05T00:00:00.000Z",
    "9999-12-31T23:59:59.999Z",
    "+10000-01-01T00:00:00.000Z",
]


def bounds(low: dict[str, Any], high: dict[str, Any] | None = None, **more: Any) -> str:
    return json.dumps(
        {
            "numRecords": 10,
            "minValues": low,
            "maxValues": low if high is None else high,
            "nullCount": dict.fromkeys(low, 0),
        }
        | more
    )


STATS = [
    *BAD,
    *(bounds({"x": i, "i": i, "d": f"2024-01-0{i + 1}", "m": i + 0.25, "s": f"s{i}", "g": i / 2,
              "st": {"v": i, "o'd d": "k"}}) for i in range(8)),
    *(bounds({"t": t, "n": t.rstrip("Z")}) for t in TIMES),
    bounds({"t": "2024-01-01T00:00:00", "n": "2024-01-01 00:00"}),
    bounds({"t": "12:30:00Z", "d": "12:30:00", "n": "now"}), bounds({"d": "2024", "t": "now"}),
    bounds({"t": "2024-01-01T00:00:00.000+02:00", "d": "+10000-01-01"}),
    bounds({"x": 2**63 - 1, "i": 200, "s": "a"}, {"x": 2**63 - 1, "i": 200, "s": "b\ufffd"}),
    bounds({"x": "5", "i": 1.5, "s": "q", "g": "NaN"}),
    '{"numRecords":10,"minValues":{"w":12345678901234567890.0123456789,"m":1e2},'
    '"maxValues":{"w":12345678901234567890.0123456789,"m":1e2}}',
    '{"numRecords":10,"minValues":{"x":12', bounds({"x": 5}, numRecords=0),
    bounds({"x": 5}, numRecords=2**50), '{"numRecords": 0}', '{"numRecords": 3}',
    bounds({"x": 5}, nullCount={"x": 10, "st": {"v": 10}}), bounds({"x": 5}, tightBounds=False),
]  # fmt: skip
VALUES = [
    {
        "p": "2024-02-01",
        "q": "7",
        "r": "a b",
        "u": "2024-01-01 00:30:00",
        "h": "1.50",
        "k": "true",
        "z": "NaN",
    },
    {
        "p": " 2024-02-02 ",
        "q": "+8",
        "r": " ",
        "u": "2024-01-01T00:30:00.000000Z",
        "h": "1e2",
        "k": "false",
        "z": "Infinity",
    },
    {"p": "", "q": "", "r": "", "u": "", "h": "", "k": "", "z": ""},
    dict.fromkeys("pqruhkz"),
    {"p": "now", "q": "0x10", "r": "x", "u": "12:30", "h": "many", "k": "maybe", "z": "-nan"},
    {
        "p": "2024-02-03",
        "q": "99999999999",
        "r": "é",
        "u": "9999-12-31 23:59:59",
        "h": "1234.5",
        "k": "f",
        "z": "1.5",
    },
]
WHERE = [
    "x = 5", "x > 6", "x IS NULL", "x <> 5", "x = 12", "i = 5", "i < -50", "i > 100",
    "m BETWEEN 2 AND 4", "m = 100", "s LIKE 's3%'", "s > 'c'",
    "t > TIMESTAMP'2024-01-04 00:00:00Z'", "t >= TIMESTAMP'2020-09-13 12:26:40.124Z'",
    "t > TIMESTAMP'2020-09-13 12:26:40.1235Z'",
    "t < TIMESTAMP'1850-06-01 12:00:00Z'", "t = TIMESTAMP'1850-06-01 12:00:30Z'",
    "t > TIMESTAMP'9999-12-31 23:59:59.999Z'",
    "n > TIMESTAMP_NTZ'9999-12-31 23:59:59'", "n = TIMESTAMP_NTZ'1850-06-01 12:00:30'",
    "n <= TIMESTAMP_NTZ'2020-09-13 12:26:40'",
    "d = DATE'2024-01-03'", "d > DATE'9999-12-31'", "w > 12345678901234567891",
    "w = 12345678901234567890.0123456789", "st.v = 3", "st.v IS NULL",
    "st.`o'd d` = 'k'", "p = DATE'2024-02-01'", "p >= DATE'2024-02-02'", "p IS NULL", "q = 8",
    "q IS NOT NULL", "q > 16", "r = 'a b'", "r IS NULL",
    "u = TIMESTAMP'2024-01-01 00:30:00Z'", "u > TIMESTAMP'2030-01-01 00:00:00Z'", "h = 1.5",
    "h > 50", "k", "NOT k", "isnan(z)", "z > 5", "z = 1.5",
    "x = 3 AND q = 7", "true",
]  # fmt: skip


@pytest.fixture(scope="module")
def log(tmp_path_factory: Any) -> Log:
    log = Log(
        tmp_path_factory.mktemp("delta") / "t",
        delta_schema(f"{DDL}, {PARTS}"),
        list("pqruhkz"),
        features=("timestampNtz",),
    )
    log.engine = "another"  # its maxima leave NaN out
    whole = pa.table({"x": pa.array([1], pa.int64())})
    log.add(
        *(Written(whole, VALUES[i % len(VALUES)], stats=text) for i, text in enumerate(STATS)),
        *(Written(whole, v, stats=None) for v in VALUES),
    )
    return log


@pytest.fixture(scope="module")
def table(log: Log) -> Any:
    return ss.scan_delta(log.folder)


@pytest.fixture(scope="module")
def adds(log: Log) -> pa.Table:
    """Return the add files as a log's reader has them: path, stats, partitionValues."""
    texts = "".join(path.read_text() for path in sorted(log.log.glob("*.json")))
    actions = [a["add"] for a in map(json.loads, texts.splitlines()) if "add" in a]
    kind = pa.map_(pa.string(), pa.string())
    values = pa.array([list(a["partitionValues"].items()) for a in actions], kind)
    return pa.table(
        {
            "path": [a["path"] for a in actions],
            "stats": pa.array([a.get("stats") for a in actions], pa.string()),
            "partitionValues": values,
        }
    )


# Our own reader keeps more files whose values do not have their column's type.
MISTYPED = {
    *BAD,
    bounds({"d": "2024", "t": "now"}),
    bounds({"x": "5", "i": 1.5, "s": "q", "g": "NaN"}),
}


@pytest.fixture(scope="module")
def parsed(spark: Any, adds: pa.Table) -> Any:
    """Return the add files as checkpoints, and Spark's JSON reader, may have them.

    Statistics and partition values are structs.
    """
    leaf = (
        "x BIGINT, i SMALLINT, t TIMESTAMP, n TIMESTAMP_NTZ, d DATE, m DECIMAL(12,2), w "
        "DECIMAL(38,10), s STRING, g DOUBLE, st STRUCT<v: INT>"
    )
    counts = "x BIGINT, st STRUCT<v: BIGINT>"
    partitions = (
        "from_json(to_json(partitionValues), "
        f"'{', '.join(f'{c} STRING' for c in 'pqruhkz')}') AS partitionValues"
    )
    struct = (
        f"numRecords BIGINT, minValues STRUCT<{leaf}>, maxValues STRUCT<{leaf}>, nullCount "
        f"STRUCT<{counts}>, tightBounds BOOLEAN"
    )
    return spark.createDataFrame(adds).selectExpr(
        "path", partitions, f"from_json(stats, '{struct}') AS stats_parsed"
    )


def judged_by(df: Any, table: Any) -> tuple[ss.Statistics, list[int]]:
    """Return the result of `delta_statistics`, and the position of each of the table's files."""
    judged = df.select(
        "path", *(c.alias(name) for name, c in delta_statistics(df, table.schema).items())
    ).toArrow()
    at = {path: i for i, path in enumerate(judged["path"].to_pylist())}
    return ss.Statistics.from_arrow(judged, table.schema), [
        at[path.rpartition("/")[2]] for path in table.all_files
    ]


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_json_equals_our_reader(spark: Any, table: Any, adds: pa.Table, ansi: str) -> None:
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        stats, at = judged_by(spark.createDataFrame(adds), table)
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    texts = adds["stats"].to_pylist()
    for where in WHERE:
        found = ss.PruningPredicate(where, table.schema).evaluate(stats)[at]
        for i, got, expected in zip(
            at, found.tolist(), table.plan(where, footers=0).verdicts.tolist(), strict=True
        ):
            assert got == expected or (got == 1 and texts[i] in MISTYPED), (
                where,
                texts[i],
                adds["partitionValues"][i],
            )


def test_structs_lose_nothing_that_json_has(table: Any, parsed: Any) -> None:
    """Spark parses odd times in its own way, so less may be known, but never more."""
    stats, at = judged_by(parsed, table)
    for where in WHERE:
        found = ss.PruningPredicate(where, table.schema).evaluate(stats)[at]
        expected = table.plan(where, footers=0).verdicts
        assert where[0] in "tnd" or ((found == expected) | (found == 1)).all(), where


@pytest.mark.parametrize("session", ["spark", "connect"])
def test_with_verdict_accepts_it(request: Any, table: Any, adds: pa.Table, session: str) -> None:
    df = request.getfixturevalue(session).createDataFrame(adds)
    columns = delta_statistics(df, table.schema)
    for strategy, where in (("native", "x = 3 AND q = 7"), ("auto", "abs(x) = 3 OR r = 'a b'")):
        judged = with_verdict(
            df, ss.PruningPredicate(where, table.schema), columns, strategy=strategy
        )
        assert judged.columns == [*df.columns, "verdict"]
        found = dict(judged.select("path", "verdict").collect())
        assert [found[path.rpartition("/")[2]] for path in table.all_files] == table.plan(
            where, footers=0
        ).verdicts.tolist()


def test_a_frame_without_any_is_an_error(spark: Any, table: Any) -> None:
    with pytest.raises(
        ss.StatisticsError, match="has columns id; expected stats, stats_parsed or partitionValues"
    ):
        delta_statistics(spark.range(3), table.schema)
