"""Random containers of odd rows: Spark judges the rows, and no verdict may contradict it.

The rows lie around changes of offset and at the ends of types; statistics are those of the rows.
"""

import datetime as dt
import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skipstone as ss
from skipstone.ir.rows import judge
from tests.support.spark.answers import answers, set_in

NEVER, ALWAYS = ss.Verdict.NEVER, ss.Verdict.ALWAYS
RANDOM = random.Random(5)
CHANGES = [
    (2024, 3, 10, 7), (2024, 11, 3, 6), (2024, 3, 31, 1), (2024, 10, 27, 1), (1945, 8, 14, 23),
]  # fmt: skip
ENDS = [
    (1, 1, 2), (1582, 10, 4), (1582, 10, 15), (1883, 11, 18, 17), (1900, 1, 2), (1970, 1, 1),
    (2024, 1, 31, 12), (2024, 2, 29), (2023, 12, 31, 23, 59, 59, 999999), (9999, 12, 30, 23),
]  # fmt: skip
TEXTS = [
    "", " ", "5", " 5 ", "+5", "-5", "--5", "5.0", "5.", ".5", "1e1", "NaN", "abc", "5d", "true",
    "2024-01-01", "2024-1-1", "2024", "2024-02-30", "0001-01-01", "9999-12-31", "12:00", "é",
    "2147483648", "9223372036854775808", "2024-03-10 02:30:00", "5\u00a0", "\t5", None,
]  # fmt: skip


def moments():
    near = [0, -1, 1, -1800, 1800, -3600, 3600, -86400, 86400, 30 * 86400, -31 * 86400]
    at = [dt.datetime(*parts, tzinfo=dt.UTC) for parts in [*CHANGES, *ENDS]]
    for parts in CHANGES:
        change = dt.datetime(*parts, tzinfo=dt.UTC)
        at += [change + dt.timedelta(seconds=s) for s in near]
    return [*at, None]


TIMES = moments()
N = len(TIMES)
ROWS = pa.table(
    {
        "id": pa.array(range(N), pa.int64()),
        "t": pa.array(TIMES, pa.timestamp("us", "UTC")),
        "n": pa.array([v and v.replace(tzinfo=None) for v in TIMES], pa.timestamp("us")),
        "d": pa.array([v and v.date() for v in TIMES], pa.date32()),
        "s": pa.array([TEXTS[i % len(TEXTS)] for i in range(N)], pa.string()),
        "i": pa.array(RANDOM.choices([0, 1, 5, -5, None, 2**31 - 1], k=N), pa.int32()),
        "f": pa.array(RANDOM.choices([0.0, 5.0, -5.5, float("nan"), None], k=N), pa.float64()),
    }
)
DDL = "id bigint, t timestamp, n timestamp_ntz, d date, s string, i int, f double"
FORMS = [
    f"{form} {op} {literal}"
    for forms, literals in (
        (
            (
                "t + INTERVAL 1 DAY", "t - INTERVAL 30 DAYS", "t + INTERVAL 1 MONTH",
                "t - INTERVAL 1 YEAR", "n + INTERVAL 1 MONTH", "n - INTERVAL 13 MONTHS",
                "t + INTERVAL '1 12' DAY TO HOUR", "timestampadd(WEEK, -1, t)",
            ),
            ("TIMESTAMP '2024-03-10 03:00:00'", "TIMESTAMP '2024-11-03 01:30:00'"),
        ),
        (
            (
                "date_format(t, 'yyyy-MM-dd')", "date_format(n, 'yyyy-MM-dd')",
                "date_format(d, 'yyyy-MM-dd')", "date_format(t, 'yyyy-MM-dd HH:mm')",
            ),
            ("'2024-03-10'", "'2024-11-03 01:30'", "'0001-01-02'"),
        ),
        (("date_format(t, 'yyyy-MM')", "date_format(d, 'MM/yyyy')"), ("'2024-03'", "'03/2024'")),
        (("s",), ("5", "5.5", "DATE '2024-01-01'", "TIMESTAMP '2024-01-01 00:00:00'", "true")),
        (("i", "f"), ("'5'", "' 5 '", "'abc'", "'NaN'")),
    )
    for form in forms
    for literal in literals
    for op in ("=", "<", ">=")
]  # fmt: skip
FORMS += [
    "date_format(t, 'yyyy-MM') IN ('2024-03', '2024-11')", "s IN (5, 6)", "s IN (5, 5.5)",
    "i IN ('5', '1')", "s <=> 5", "i BETWEEN 5 AND 5", "NOT (i <> 1 AND i <> 5)",
    "i IN (0, 1, 5) AND i NOT IN (1)", "f BETWEEN 5 AND 5",
]  # fmt: skip


def containers():
    """Return the rows of each container: alone, neighbours in time, and some at random."""
    in_order = sorted(range(N - 1), key=TIMES.__getitem__)
    around = [in_order[at : at + size] for size in (2, 4, 12) for at in range(0, N - 1, size)]
    return [[i] for i in range(N)] + around + [RANDOM.sample(range(N), 3) for _ in range(30)]


CONTAINERS = containers()


def statistics():
    columns = {}
    for name in ROWS.column_names[1:]:
        parts = [ROWS[name].combine_chunks().take(pa.array(rows)) for rows in CONTAINERS]
        ends = [pc.min_max(p).as_py() if name != "f" else _float_ends(p) for p in parts]
        columns[name] = {
            "min": pa.array([e["min"] for e in ends], ROWS[name].type),
            "max": pa.array([e["max"] for e in ends], ROWS[name].type),
            "null_count": [p.null_count for p in parts],
        }
        if name == "f":
            columns[name]["nan_count"] = [pc.sum(pc.is_nan(p)).as_py() or 0 for p in parts]
    return ss.Statistics.from_dict(columns, ROWS.schema, row_count=list(map(len, CONTAINERS)))


def _float_ends(values):
    return pc.min_max(values.filter(pc.invert(pc.is_nan(values)))).as_py()


@pytest.mark.parametrize(
    ("zone", "ansi"), [("UTC", True), ("America/New_York", True), ("America/New_York", False)]
)
def test_rows_are_sparks_and_no_row_is_lost(zone, ansi, spark):
    batch, stats = ROWS.to_batches()[0], statistics()
    spark.createDataFrame(ROWS, DDL).createOrReplaceTempView("odd")
    predicates = [ss.PruningPredicate(t, ROWS.schema, timezone=zone, ansi=ansi) for t in FORMS]
    known = [(t, p) for t, p in zip(FORMS, predicates, strict=True) if not p.has_unknown]
    assert {t for t, p in zip(FORMS, predicates, strict=True) if p.has_unknown} <= {
        t for t in FORMS if t.endswith(("'abc'", "'NaN'"))
    }
    truths = [judge(p.node, batch, {}) for _, p in known]
    settings = {"spark.sql.ansi.enabled": str(ansi).lower(), "spark.sql.session.timeZone": zone}
    with set_in(spark, settings):
        theirs = answers(
            spark, [_guarded(t, x) for (t, _), x in zip(known, truths, strict=True)], "odd"
        )
    pruned = 0
    for (text, p), truth, answer in zip(known, truths, theirs, strict=True):
        assert answer is not None, text
        spark_says = answer.to_pylist()
        ours = [
            True if t else False if f else None
            for t, f in zip(truth.true, truth.false, strict=True)
        ]
        decided = np.flatnonzero(~truth.may_raise).tolist()
        assert [ours[i] for i in decided] == [spark_says[i] for i in decided], text
        verdicts = p.evaluate(stats)
        pruned += int((verdicts == NEVER).sum())
        matches = np.array([answer is True for answer in spark_says])
        may_raise = truth.may_raise & (not _is_of_times(text))
        for rows, verdict in zip(CONTAINERS, verdicts.tolist(), strict=True):
            undecided = may_raise[rows].any()
            assert verdict != NEVER or not (undecided or matches[rows].any()), (text, rows)
            assert verdict != ALWAYS or (not undecided and matches[rows].all()), (text, rows)
    assert pruned > len(known) * len(CONTAINERS) * 0.2


def _is_of_times(text):
    """Return True if Spark has a value for all rows; some are not known before 1900."""
    return text.startswith(("t ", "n ", "timestampadd", "date_format"))


def _guarded(text, truth):
    """Return a condition as Spark is to judge it: without the rows where it may raise."""
    if _is_of_times(text):
        return text
    rows = ", ".join(map(str, np.flatnonzero(~truth.may_raise))) or "-1"
    return f"CASE WHEN id IN ({rows}) THEN {text} END"
