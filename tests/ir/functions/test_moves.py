"""Bounds of moved and formatted times hold every value between, around changes of offset."""

import numpy as np
import pytest

from skipstone.ir import types as ty
from skipstone.ir.function import VALUE_UNKNOWN, Call
from skipstone.ir.functions import builtin_functions
from skipstone.ir.functions.formats import keeps_order, parts_of
from skipstone.ir.interval import Interval
from skipstone.ir.interval import point as literal
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.values import NO, YES
from skipstone.ir.zones import DAY, shifts_of

HOUR = 3600 * 10**6
MOVES = [("instant_add_days", k) for k in (DAY, -DAY, 30 * DAY, 36 * HOUR, -36 * HOUR)]
MOVES += [(n, k) for n in ("instant_add_months", "wall_add_months") for k in (1, -1, 12, -13)]
ZONES = ("America/New_York", "Europe/Berlin", "Pacific/Apia", "Australia/Lord_Howe", "Asia/Tehran")


def call_of(name, zone):
    dtype = ty.TIMESTAMP_NTZ if name.startswith("wall") else ty.TIMESTAMP
    amount = ty.INT64 if name.endswith("days") else ty.INT32
    return Call(name, (dtype, amount), dtype, Session(zone)), amount


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(("name", "amount"), MOVES)
def test_bounds_hold_all_moved_times(name, amount, zone):
    call, dtype = call_of(name, zone)
    function = builtin_functions()[name]
    rng = np.random.default_rng(1)
    changes = shifts_of(zone)[0].switches
    targets = changes - (amount if name.endswith("days") else amount * 30 * DAY)
    near = np.concatenate([changes, targets])
    low = rng.choice(near, 2000) + rng.integers(-2 * DAY, 2 * DAY, 2000)
    high = low + rng.integers(0, 40 * DAY, 2000) // rng.choice([1, 100, 10**6], 2000)
    a = Interval(call.dtype, low, high, NO, YES, NO, NO, NO)
    bounds = function.interval(call, (a, literal(amount, dtype)))
    known = ~np.broadcast_to(bounds.may_raise, 2000)
    assert known.mean() > 0.5
    for _ in range(20):
        x = low + (rng.random(2000) * (high - low + 1)).astype(np.int64)
        x = np.where(rng.random(2000) < 0.3, np.clip(rng.choice(near, 2000), low, high), x)
        moved, bad = function.point(call, x, np.array([amount]))
        good = known & (bad != VALUE_UNKNOWN)
        assert good[known].all()
        assert (bounds.low <= moved)[good].all() and (moved <= bounds.high)[good].all()
    # No wider than a day, a month's length and the zone's offsets explain.
    slack = (high - low) + (DAY if name.endswith("days") else 7 * DAY)
    slack += 3 * int(np.ptp(shifts_of(zone)[0].shifts))
    assert (bounds.high - bounds.low <= slack)[known].all()


def test_amounts_beyond_the_type_are_unknown():
    for name in ("instant_add_days", "instant_add_months", "wall_add_months"):
        call, dtype = call_of(name, "Europe/Berlin")
        for amount in (dtype.highest, dtype.lowest):
            a = Interval(call.dtype, np.zeros(1, np.int64), np.full(1, DAY), NO, YES, NO, NO, NO)
            assert (
                builtin_functions()[name]
                .interval(call, (a, literal(amount, dtype)))
                .may_raise.all()
            )
            assert (
                builtin_functions()[name].point(call, a.low, np.array([amount]))[1] == VALUE_UNKNOWN
            ).all()


#    pattern                     keeps order
PATTERNS = [
    ("yyyy",                     True),
    ("yyyy-MM",                  True),
    ("yyyyMMdd HH:mm:ss.SSS",    True),
    ("yyyy-MM-dd'T'HH",          True),
    ("'week' yyyy.MM",           True),
    ("yyyy-M",                   False),
    ("yyy-MM",                   False),
    ("yy-MM",                    False),
    ("yyyy-dd",                  False),
    ("MM/yyyy",                  False),
    ("HH:mm",                    False),
    ("yyyy-MM-dd HH:mm:ss.SSS S", False),
    ("",                         False),
    ("'yyyy'",                   False),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "expected"), PATTERNS)
def test_patterns_that_keep_order(pattern, expected):
    """Texts of ascending times ascend if a pattern keeps order; if not, some times show it."""
    assert keeps_order(pattern) is expected
    call = Call("wall_format", (ty.TIMESTAMP_NTZ, ty.STRING), ty.STRING, Session())
    rng = np.random.default_rng(2)
    first, last = -719162 * DAY, 2932897 * DAY
    times = np.sort(
        np.concatenate([
            rng.integers(first, last, 3000), rng.integers(0, 60 * DAY, 3000),
            rng.integers(0, 10**7, 300), [first, last - 1],
        ])
    )  # fmt: skip
    texts, bad = builtin_functions()["wall_format"].point(
        call, times, np.array([pattern.encode()], object)
    )
    assert not bad.any()
    ascending = bool((texts[1:] >= texts[:-1]).all())
    assert ascending if expected else (not ascending or len(set(texts)) == 1 or "S S" in pattern)


@pytest.mark.parametrize(
    "pattern", ["EEEEE", "MMMMM", "yyyyy", "ddd", "a hh", "[yyyy]", "'open", "x#", "{"]
)
def test_other_patterns_are_refused(pattern):
    with pytest.raises(CannotJudge):
        parts_of(pattern)


def test_times_beyond_the_years_are_unknown():
    call = Call("wall_format", (ty.TIMESTAMP_NTZ, ty.STRING), ty.STRING, Session())
    at = np.array([-719162 * DAY - 1, -719162 * DAY, 2932897 * DAY - 1, 2932897 * DAY])
    texts, bad = builtin_functions()["wall_format"].point(
        call, at, np.array([b"yyyy-MM-dd"], object)
    )
    assert (bad == VALUE_UNKNOWN).tolist() == [True, False, False, True]
    assert texts.tolist()[1:3] == [b"0001-01-01", b"9999-12-31"]
