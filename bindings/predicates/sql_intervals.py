"""Read INTERVAL literals and the types of intervals.

Source: Spark, `AstBuilder.visitInterval`, `IntervalUtils`.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from skipstone.bindings.predicates.sqlglot_modules import sqlglot
from skipstone.ir import types as ty
from skipstone.ir.node import Node, literal
from skipstone.ir.types import DType
from skipstone.ir.zones import DAY

if TYPE_CHECKING:
    from sqlglot import exp as sg

SECOND: Final = 10**6
MONTHS: Final = {"year": 12, "month": 1}
MICROS: Final = {
    "week": 7 * DAY, "day": DAY, "hour": 3600 * SECOND, "minute": 60 * SECOND, "second": SECOND,
    "millisecond": 1000, "microsecond": 1,
}  # fmt: skip
_RANGES: Final = {
    ("year", "month"): r"(?P<year>\d{1,8})-(?P<month>\d{1,2})",
    ("day", "hour"): r"(?P<day>\d{1,8}) (?P<hour>\d{1,2})",
    ("day", "minute"): r"(?P<day>\d{1,8}) (?P<hour>\d{1,2}):(?P<minute>\d{1,2})",
    ("day", "second"): r"(?P<day>\d{1,8}) (?P<hour>\d{1,2}):(?P<minute>\d{1,2})"
    r":(?P<second>\d{1,2}(?:\.\d{1,6})?)",
}
_MOST: Final = {"hour": 23, "minute": 59, "second": 59, "month": 11}


def interval_of(e: sg.Interval) -> Node | None:
    """Return an INTERVAL literal; None if it is not understood."""
    exp = sqlglot()
    if not isinstance(e.this, exp.Literal):
        return None
    text, unit = e.this.name, e.args.get("unit")
    if unit is None:
        return _many(text)
    if isinstance(unit, exp.Var):
        return _one(text.strip(" "), unit.name)
    if isinstance(unit, exp.IntervalSpan):
        return _span(text, unit)
    return None


def interval_type(t: sg.DataType) -> DType | None:
    """Return the type of an interval that a cast names; None if it is not understood."""
    exp = sqlglot()
    unit = t.this.args.get("unit") if isinstance(t.this, exp.Interval) else None
    if isinstance(unit, exp.Var):
        return {"DAY": ty.DAYS, "MONTH": ty.YEAR_MONTH}.get(unit.name.upper())
    return None


def _one(text: str, unit: str) -> Node | None:
    """Return a number of one unit; only seconds have a fraction."""
    word = unit.lower()
    word = word.removesuffix("s")
    digits = r"\d{1,9}(?:\.\d{1,6})?" if word == "second" else r"\d{1,9}"
    if not re.fullmatch(rf"[+-]?{digits}", text, re.ASCII):
        return None
    if word in MONTHS:
        months = int(text) * MONTHS[word]
        return literal(months, ty.YEAR_MONTH) if abs(months) < 2**31 else None
    if word not in MICROS:
        return None
    micros = int(Fraction(text) * MICROS[word])
    if abs(micros) >= 2**63:
        return None
    return literal(micros, ty.DAYS if word in ("day", "week") else ty.DAY_TIME)


def _many(text: str) -> Node | None:
    """Return an interval of several numbers and units in one text."""
    parts = text.strip(" ").split(" ")
    if len(parts) % 2 or len(parts) < 2 or "" in parts:
        return None
    nodes = [_one(n, unit) for n, unit in zip(parts[::2], parts[1::2], strict=True)]
    types = {n.dtype for n in nodes if n is not None}
    months = types == {ty.YEAR_MONTH}
    if None in nodes or (ty.YEAR_MONTH in types and not months):
        return None
    total = sum(n.value for n in nodes if n is not None and isinstance(n.value, int))
    to = ty.YEAR_MONTH if months else ty.DAYS if types == {ty.DAYS} else ty.DAY_TIME
    low, high = to.lowest, to.highest
    assert isinstance(low, int) and isinstance(high, int)
    return literal(total, to) if low <= total <= high else None


def _span(text: str, unit: sg.IntervalSpan) -> Node | None:
    """Return an interval such as '1 02:03:04.5' DAY TO SECOND."""
    pattern = _RANGES.get((unit.this.name.lower(), unit.expression.name.lower()))
    m = pattern and re.fullmatch(rf"(?P<sign>[+-]?){pattern}", text, re.ASCII)
    if not m:
        return None
    parts = {name: Fraction(v) for name, v in m.groupdict().items() if name != "sign"}
    if any(v >= _MOST[name] + 1 for name, v in parts.items() if name in _MOST):
        return None
    units, to = (MONTHS, ty.YEAR_MONTH) if "year" in parts else (MICROS, ty.DAY_TIME)
    total = int(sum(v * units[name] for name, v in parts.items()))
    high = to.highest
    assert isinstance(high, int)
    return literal(-total if m["sign"] == "-" else total, to) if total <= high else None
