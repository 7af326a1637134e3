"""Generated partition columns: their values bound the source columns in any zone."""

import datetime as dt
import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skipstone as ss
from skipstone.ir.errors import UnsupportedForm
from skipstone.ir.rows import evaluate_rows
from skipstone.ir.types import from_arrow
from tests.support.predicates.predicates import predicate
from tests.support.rows.strategies import Field, array_of, point
from tests.support.tables.delta_log import Log, Written, delta_schema
from tests.support.tables.generated_columns import (
    DATE,
    FORMS,
    NEST,
    STAMP,
    TEXT,
    WALL,
    add,
    described,
    schema_of,
    written,
)

ZONES = (
    "UTC",
    "America/Los_Angeles",
    "Asia/Kolkata",
    "Pacific/Apia",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "Pacific/Kiritimati",
    "+18:00",
    "-18:00",
)
FIXED = ("UTC", "+18:00", "-18:00", "+05:30")
FUNCTIONS = {
    STAMP: [
        "year(x) = 2023",
        "CAST(x AS DATE) = DATE '2024-01-01'",
        "month(x) = 12",
        "hour(x) < 5",
        "unix_seconds(x) > 1704067200",
    ],
    WALL: ["year(x) = 2023", "CAST(x AS DATE) = DATE '2024-01-01'", "hour(x) < 5"],
    DATE: [
        "year(x) = 2023",
        "month(x) = 1",
        "date_add(x, 3) > DATE '2024-01-05'",
        "weekday(x) = 2",
    ],
    TEXT: [
        "upper(x) = 'AB'",
        "length(x) = 2",
        "concat(x, 'c') < 'abcc'",
        "substring(x, 2, 1) = 'b'",
        "x LIKE '%b'",
        "x > 'ab' OR left(x, 1) = 'a'",
    ],
}


def checked(table, where, rows, files, **settings):
    """Check that no file with a matching row is pruned, and that ALWAYS holds for every row."""
    schema = pa.schema([table.schema.field("x")])
    try:
        truth = evaluate_rows(
            ss.PruningPredicate(where, schema, **settings).node, rows.to_batches()[0]
        ).to_pylist()
    except UnsupportedForm:
        return None
    for plan in (
        table.plan(where, **settings),
        table.plan(where, stats_skipping=False, **settings),
    ):
        for verdict, at in zip(plan.verdicts.tolist(), files, strict=True):
            found = [truth[i] is True for i in at]
            assert verdict != ss.Verdict.NEVER or not any(found), where
            assert verdict != ss.Verdict.ALWAYS or all(found), where
    return plan


@settings(max_examples=max(40, settings().max_examples // 5))
@given(st.randoms(use_true_random=False))
def test_no_row_is_lost(tmp_path_factory, r):
    kind, columns = r.choice(FORMS)
    short = any(unit in e for _, e in columns.values() for unit in ("HOUR'", "minute", "second"))
    writer, reader = r.choice(FIXED if short else ZONES), r.choice(ZONES)
    dtype, span = from_arrow(kind), {STAMP: 86_400_000_000, WALL: 86_400_000_000, DATE: 1}.get(kind)
    center, values = r.choice((0, 0, 90, 400, -20_000)), []
    for _ in range(r.randint(1, 12)):
        v = point(r, dtype, r.randint(-6, 6), kind, wild=0)
        values.append(
            None
            if r.random() < 0.1
            else v + (center + r.choice((0, 1, 31, 366)) * r.randint(-2, 2)) * span
            if span
            else v
        )
    if span and writer not in FIXED:
        # tz databases differ before 1970, so nobody but Spark knows what Spark wrote then.
        values = [None if v is None else abs(v) + 400 * span for v in values]
    rows = pa.table({"x": array_of(values, kind)})
    stats = r.choice((None, None, ...))
    log, files = written(
        tmp_path_factory.mktemp("t") / "t",
        described(kind, columns),
        rows,
        list(columns),
        writer,
        r.random() < 0.5,
        stats,
    )
    table = ss.scan_delta(log.folder)
    own = values[r.randrange(len(values))]
    for _ in range(4):
        where = (
            r.choice(FUNCTIONS[kind])
            if kind in FUNCTIONS and r.random() < 0.2
            else predicate(r, (Field(("x",), kind),), plain=True).sql
        )
        checked(table, where, rows, files, timezone=reader)
    literal = array_of([own], kind)[0].as_py()
    for where in (
        ss.col("x") == literal,
        ss.col("x") <= literal,
        ss.col("x") >= literal,
        ss.col("x") != literal,
        ~(ss.col("x") > literal),
    ):
        checked(table, where, rows, files, timezone=reader)


# Expressions that bound their source, and others that do not.


def kept(tmp_path, ddl, expressions, partitions, where, stats=None, mapping=None, **settings):
    """Return the kept partitions of a table whose files do not exist."""
    names = list(expressions)
    log = Log(
        tmp_path / "t",
        schema_of(ddl, expressions),
        names,
        features=("timestampNtz",),
        mapping=mapping,
    )
    log.commit(
        *(
            {
                "add": ADD
                | {
                    "path": f"{i}",
                    "partitionValues": {log.name(n): v for n, v in zip(names, p, strict=True)},
                }
                | ({"stats": json.dumps(stats)} if stats else {})
            }
            for i, p in enumerate(partitions)
        )
    )
    plan = ss.scan_delta(log.folder).plan(where, **settings)
    return [partitions[i] for i in plan.kept]


ADD = {"size": 1, "modificationTime": 1, "dataChange": True}
DAYS = [("2024-01-01",), ("2024-01-02",), ("2024-01-05",), (None,)]
AT = "x = TIMESTAMP '2024-01-02 12:00:00Z'"
EXPRESSIONS = [
    #  schema                             expression of p                 kept partitions
    # In another zone the timestamp has the date of the day before.
    ("x TIMESTAMP, p DATE",               "CAST(x AS DATE)",              DAYS[:2]),
    ("x TIMESTAMP, p DATE",               "cast(X as date)",              DAYS[:2]),
    ("x TIMESTAMP, p DATE",               "trunc(x, 'century')",          DAYS),
    ("x TIMESTAMP, p DATE",               "date_add(CAST(x AS DATE), 1)", DAYS),
    # Two columns differ only in case, so the source is ambiguous.
    ("x TIMESTAMP, X TIMESTAMP, p DATE",  "CAST(x AS DATE)",              None),
    ("x TIMESTAMP, p DATE",               "CAST(y AS DATE)",              DAYS),
    ("x TIMESTAMP, p DATE",               "CAST(x AS",                    DAYS),
    ("x TIMESTAMP, p DATE",               "",                             DAYS),
    ("x TIMESTAMP, p DATE",               "rand()",                       DAYS),
    ("x TIMESTAMP, p DATE",               "(" * 300 + "x" + ")" * 300,    DAYS),
    ("x TIMESTAMP, p STRING",             "CAST(x AS DATE)",              DAYS),
    ("x TIMESTAMP, p STRING",             "date_format(x, 'dd-MM-yyyy')", DAYS),
    ("x TIMESTAMP, p STRING",             "date_format(x, 'yyyy-MM-dd')", DAYS[:2]),
    ("x TIMESTAMP, s STRING, p DATE",     "CAST(s AS DATE)",              DAYS),
    ("x TIMESTAMP, y DATE, p INT",        "MONTH(CAST(y AS TIMESTAMP))",  DAYS),
    ("x TIMESTAMP, p INT",                "HOUR(CAST(x AS DATE))",        DAYS),
    ("x TIMESTAMP, s STRUCT<x: TIMESTAMP>, p DATE", "CAST(s.x AS DATE)",  DAYS),
]  # fmt: skip


@pytest.mark.parametrize(
    "ddl, expression, expected", EXPRESSIONS, ids=[f"{d}-{e[:40]}" for d, e, _ in EXPRESSIONS]
)
def test_unknown_expressions_bound_nothing(tmp_path, ddl, expression, expected):
    where, settings = (AT, {}) if expected is not None else (AT, {"case_sensitive": True})
    assert kept(tmp_path, ddl, {"p": expression}, DAYS, where, **settings) == (
        DAYS if expected is None else expected
    )


STRINGS = [("fo",), ("foo",), ("fon",), (None,)]
WHERE = [
    #  expression            where                        kept partitions
    # Not 'fon', nor NULL, which stands for ''.
    ("substring(x, 1, 3)",  "x >= 'foo'",                [("foo",)]),
    ("substring(x, 1, 3)",  "x = 'fo'",                  [("fo",)]),
    ("substring(x, 1, 3)",  "x = ''",                    [(None,)]),  # '' is written as NULL
    ("substring(x, 1, 3)",  "x IS NULL",                 [(None,)]),
    ("substring(x, 1, 3)",  "x IN ('foox', 'y', 'fon')", [("foo",), ("fon",)]),
    ("substring(x, 1, 3)",  "x LIKE 'fon%' OR x = 'fo'", [("fo",), ("fon",)]),
    ("substring(x, 1, 3)",  "x <=> NULL",                [(None,)]),
    ("substring(x, 1, 3)",  "x = NULL",                  []),
    ("substring(x, -3, 2)", "x = 'xfop'",                [("fo",)]),
    ("x",                   "x < 'fon'",                 [("fo",), (None,)]),  # NULL may be ''
    ("x",                   "x < ''",                    []),
    ("x",                   "NOT (x > 'fon')",           [("fo",), ("fon",), (None,)]),
]  # fmt: skip


@pytest.mark.parametrize("expression, where, expected", WHERE)
def test_substrings(tmp_path, expression, where, expected):
    ddl = "x STRING, p STRING"
    assert kept(tmp_path, ddl, {"p": expression}, STRINGS, where) == expected
    assert (
        kept(tmp_path / "mapped", ddl, {"p": expression}, STRINGS, where, mapping="name")
        == expected
    )


def test_nests_of_dates(tmp_path):
    """Year, month and day name one date, and are NULL only together.

    An invalid month, or a month alone, bounds nothing.
    """
    ddl, nests = "x DATE, y INT, m INT, d INT", {n: NEST[n].format("x") for n in "ymd"}
    partitions = [
        ("2023", "12", "31"),
        ("2024", "1", "1"),
        ("2024", "2", "30"),
        ("2024", "13", "1"),
        ("nonsense", "1", "1"),
        (None, None, None),
    ]
    odd = partitions[2:5]
    assert kept(tmp_path, ddl, nests, partitions, "x = DATE '2024-01-01'") == [partitions[1], *odd]
    assert kept(
        tmp_path / "1", ddl, nests, partitions, "x BETWEEN DATE '2024-03-01' AND DATE '2024-03-01'"
    ) == [*odd]
    assert kept(tmp_path / "2", ddl, nests, partitions, "x IS NULL") == [(None, None, None)]
    assert kept(
        tmp_path / "3", ddl, {"m": "MONTH(x)"}, [("1",), ("2",)], "x = DATE '2024-01-01'"
    ) == [("1",), ("2",)]


def test_statistics_and_partition_values_bound_together(tmp_path):
    """People see only the statistics of the log."""
    described = schema_of("x DATE, i INT, p INT", {"p": "YEAR(x)"})
    log = Log(tmp_path / "t", described, ["p"])
    for year, low, high in (
        ("2023", "2023-05-01", "2023-06-30"),
        ("2024", "1999-01-01", "2024-03-01"),
    ):
        rows = pa.table(
            {
                "x": pa.array([dt.date.fromisoformat(v) for v in (low, high)]),
                "i": pa.array([1, 2], pa.int32()),
            }
        )
        log.commit(add(f"{year}.parquet", {"p": year}, rows, ...))
    table = ss.scan_delta(log.folder)
    assert table.get_stats_column("min", "x").to_pylist() == [
        dt.date(2023, 5, 1),
        dt.date(1999, 1, 1),
    ]
    for where, data, partition in (
        ("x = DATE '2024-01-01'", 1, 1),
        ("x < DATE '2023-01-01'", 0, 0),
        ("x = DATE '2023-07-01'", 0, 1),
        ("i > 5 OR x > DATE '2024-01-01'", 1, 1),
    ):
        plan = table.plan(where)
        assert (len(plan.files), len(table.plan(where, stats_skipping=False).files)) == (
            data,
            2 if "OR" in where else partition,
        ), where
    assert table.plan("YEAR(x) = 2023").sizes.partition.files == 1


def test_rows_are_read_as_if_nothing_were_pruned(tmp_path):
    described = schema_of("x TIMESTAMP, p DATE", {"p": "CAST(x AS DATE)"})
    log = Log(tmp_path / "t", described, ["p"])
    start = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    for day in range(6):
        times = [start + dt.timedelta(days=day, hours=h) for h in range(24)]
        log.add(
            Written(
                [{"x": int(t.timestamp() * 10**6)} for t in times],
                {"p": str(times[0].date())},
                stats=None,
            )
        )
    table = ss.scan_delta(log.folder)
    for where in (
        "x < TIMESTAMP '2024-01-02 10:30:00Z'",
        "x BETWEEN '2024-01-03' AND '2024-01-03 05:00:00'",
        "x IS NULL",
        "NOT (x > '2024-01-01')",
    ):
        plan = table.plan(where)
        assert len(plan.files) < 6
        assert plan.to_arrow().equals(plan.unpruned().to_arrow())
        assert plan.count() == plan.unpruned().count()


def test_times_that_name_a_zone_are_not_read_as_local(tmp_path):
    log = Log(tmp_path / "t", delta_schema("i INT, x TIMESTAMP"), ["x"])
    for text in ("2024-01-01 00:00:00+1:00", "2024-01-01 00:00:00 UTC", "2024-01-01 00:00:00+01"):
        log.commit(add(text, {"x": text}, pa.table({"i": [1]}), None))
    assert len(ss.scan_delta(log.folder).plan("x < TIMESTAMP '2024-01-01 00:00:00Z'").files) == 3
