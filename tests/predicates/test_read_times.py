"""Text that is read as times by a format: the values, and bounds that hold all of them."""

import datetime as dt
import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.ir import types as ty
from skipstone.ir.function import VALUE_UNKNOWN, Call
from skipstone.ir.functions import builtin_functions
from skipstone.ir.interval import apply
from skipstone.ir.interval import point as literal
from skipstone.ir.session import Session

READ = {
    "yyyy-MM-dd": "%Y-%m-%d", "yyyyMMdd": "%Y%m%d", "dd/MM/yyyy": "%d/%m/%Y", "yyyy": "%Y",
    "yyyy-MM-dd HH:mm:ss": "%Y-%m-%d %H:%M:%S", "yyyy-MM-dd'T'HH": "%Y-%m-%dT%H",
}  # fmt: skip


def read_by_python(text, form):
    """Return the microseconds of a text; None if it is not exactly as the form writes it."""
    try:
        time = dt.datetime.strptime(text, form)
    except ValueError:
        return None
    if time.strftime(form.replace("%Y", f"{time.year:04}")) != text:
        return None
    return (time - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)


def damaged(r, text):
    """Return a text with one character more, less or changed, or unchanged."""
    at = r.randrange(len(text) + 1)
    other = r.choice("0123456789-/: T")
    return r.choice((text, text[:at] + other + text[at:], text[:at] + other + text[at + 1 :],
                     text[:at] + text[at + 1 :]))  # fmt: skip


@pytest.mark.parametrize("pattern", READ)
def test_text_is_read_as_python_reads_it(pattern):
    r, form = random.Random(pattern), READ[pattern]
    first, last = dt.datetime(1000, 1, 1), dt.datetime(9999, 12, 31)
    times = [first + r.random() * (last - first) for _ in range(600)]
    texts = [damaged(r, t.strftime(form)) for t in times]
    call = Call("read_time", (ty.STRING, ty.STRING), ty.TIMESTAMP_NTZ, Session())
    read = builtin_functions()["read_time"]
    rows = np.array([*(t.encode() for t in texts), None], object)[:-1]
    clocks, bad = read.point(call, rows, np.array([pattern.encode()], object))
    for text, clock, mark in zip(texts, clocks.tolist(), bad.tolist(), strict=True):
        expected = read_by_python(text, form)
        if expected is None:  # a sign, or the year 0, is a year that Spark may read
            assert mark in (1, VALUE_UNKNOWN), text
            assert mark == 1 or "-" in text or "0000" in text, text
        else:
            assert (clock, mark) == (expected, 0), text
    whole = pa.array([t.strftime(form) for t in times], pa.large_string())
    column = read.column(call, whole, pattern.encode())
    assert column.tolist() == [read_by_python(t, form) for t in whole.to_pylist()]


@pytest.mark.parametrize(
    "pattern, text", [("yyyy'k'", "2024\u212a"), ("'is'yyyy", "\u0131\u017f2024")]
)
def test_other_cases_of_ascii_letters_are_not_judged(pattern, text):
    call = Call("read_time", (ty.STRING, ty.STRING), ty.TIMESTAMP_NTZ, Session())
    rows = np.array([text.encode()], object)
    _, bad = builtin_functions()["read_time"].point(
        call, rows, np.array([pattern.encode()], object)
    )
    assert bad.tolist() == [VALUE_UNKNOWN]


@pytest.mark.parametrize("ansi", [True, False])
@pytest.mark.parametrize(
    "low, kept",
    [
        ("", True), ("!", True), ("+", True), ("+10000-01-01", True), ("-", True),
        ("2023-12-31", False),
    ],
)  # fmt: skip
def test_years_after_a_sign_may_lie_between_bounds(low, kept, ansi):
    schema = pa.schema([("s", pa.string())])
    bounds = {"s": {"min": [low], "max": ["2024-01-01"], "null_count": [0]}}
    stats = ss.Statistics.from_dict(bounds, schema, [3])
    condition = "try_to_date(s, 'yyyy-MM-dd') > DATE '5000-01-01'"
    predicate = ss.PruningPredicate(condition, schema, ansi=ansi)
    assert predicate.prune(stats).tolist() == [kept]


def test_bounds_hold_all_times_that_are_read():
    r, call = random.Random(1), Call("try_read_time", (ty.STRING,) * 2, ty.TIMESTAMP_NTZ, Session())
    f, pattern = builtin_functions()["try_read_time"], b"yyyy-MM-dd"
    first = dt.date(1999, 12, 1)
    for _ in range(200):
        days = [first + dt.timedelta(r.randrange(100)) for _ in range(5)]
        texts = sorted(damaged(r, str(day)).encode() for day in days)
        rows = np.array([*texts, None], object)[:-1]
        box = replace(literal(b"", ty.STRING), low=rows[:1], high=rows[-1:])
        found = apply(call, f, (box, literal(pattern, ty.STRING)))
        clocks, bad = f.point(call, rows, np.array([pattern], object))
        for clock, mark in zip(clocks.tolist(), bad.tolist(), strict=True):
            if mark == VALUE_UNKNOWN:
                assert found.may_raise.any() or found.may_hold_value.any()
            elif mark:
                assert found.may_hold_null.any()
            else:
                assert found.low[0] <= clock <= found.high[0]
