"""Errors for rows that a condition cannot judge: which expression fails, and on which values."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from skipstone.ir.errors import UnsupportedForm, counted
from skipstone.ir.function import Call
from skipstone.ir.functions.build import TRUTH, call_of, function_of
from skipstone.ir.node import TERMS, Node, Op
from skipstone.ir.rows import FILTER_ELSEWHERE, column_at, judge, values_of
from skipstone.ir.session import CannotJudge
from skipstone.ir.text import show, show_value
from skipstone.ir.types import STRING, Kind

MAX_VALUE: Final = 60  # characters of a value that a message shows
GUARD: Final = "Guard it, as in TRY_CAST(...), nullif(n, 0) or CASE WHEN ... END"
# {} is a column of texts that Spark casts because the condition compares it with a number.
GUARD_TEXT: Final = "Compare {} with text, such as '5', or guard it, as in TRY_CAST(...)"


def unjudged(predicate: Node, rows: int, row: pa.RecordBatch) -> UnsupportedForm:
    """Return the error for rows for which Spark may raise an error, or whose value is not known.

    Args:
        predicate: The bound condition.
        rows: The number of such rows.
        row: One of them, with the columns of the condition.

    Example:
        >>> import skipstone as ss
        >>> row = pa.record_batch({"x": pa.array([127], pa.int8())})
        >>> node = ss.PruningPredicate("x * x > 9", row.schema).node
        >>> str(unjudged(node, 5, row)).partition(".")[0]
        'cannot filter 5 rows by (x * x) > 9: Spark raises an error for (x * x) where x is 127'
    """
    return UnsupportedForm(
        f"cannot filter {counted(rows, 'rows')} by {show(predicate):.300}: "
        f"{_reason(predicate, row)}. {FILTER_ELSEWHERE}."
    )


def _reason(predicate: Node, row: pa.RecordBatch) -> str:
    culprit = _culprit(predicate, row) or predicate
    if culprit.op is Op.COLUMN and culprit.dtype == STRING:
        return f"{show(culprit)} has text that is not UTF-8"
    columns = dict.fromkeys(n for n in culprit.walk() if n.op is Op.COLUMN)
    where = " and ".join(f"{show(column)} is {_value_of(column, row)}" for column in columns)
    shown = f"{show(culprit):.300}" + (f" where {where}" if where else "")
    call = call_of(culprit) if culprit.op is Op.CALL else None
    function = function_of(call.name) if call else None
    if function is not None and function.bounded:
        return f"the last digits of Spark's {shown} are not known here, and they decide the test"
    if call and function and not _is_clock(call) and not _never_raises(call):
        policy = function.policy(call)
        texts = call.name == "cast" and culprit.args[0].op is Op.COLUMN and call.types[0] == STRING
        guard = GUARD_TEXT.format(show(culprit.args[0])) if texts else GUARD
        if policy == "raise":
            return f"Spark raises an error for {shown}. {guard}"
        if policy != "unknown":
            return (
                f"Spark raises an error for {shown}, or has a value that is not known here. {guard}"
            )
    why = ""
    if call and _is_clock(call):
        why = "; offsets of time zones are certain from 1970 to 2200 only"
    return f"the value of {shown} is not known here{why}"


def _is_strict(n: Node) -> bool:
    """Return True if a call cannot be judged where any argument cannot."""
    name = call_of(n).name
    function = function_of(name)
    return function is not None and (function.rows is None or name == "compare")


def _never_raises(call: Call) -> bool:
    """Return True for casts that raise no errors."""
    text = call.dtype.kind is Kind.STRING
    return call.name == "try_cast" or (call.name == "cast" and (text or not call.session.ansi))


def _is_clock(call: Call) -> bool:
    """Return True if a call changes the time zone of times, which raises no errors."""
    return call.name == "cast" and call.types[0].kind is Kind.TIMESTAMP


def _culprit(n: Node, row: pa.RecordBatch) -> Node | None:
    """Return the innermost call or column that cannot be judged on the only row."""
    if n.op in (Op.CALL, Op.COLUMN):
        failing = [_culprit(a, row) for a in n.args if _fails(a, row)]
        # If several arguments of CASE and its like fail, any of them may be the cause, so the
        # message names the call.
        found = failing[0] if len(failing) == 1 or (failing and _is_strict(n)) else None
        is_condition = n.op is Op.CALL and call_of(n).name == TRUTH
        return found if found is not None or is_condition else n
    for a in n.args:
        if _fails(a, row) and (found := _culprit(a, row)) is not None:
            return found
    return None


def _fails(n: Node, row: pa.RecordBatch) -> bool:
    """Return True if a condition or a scalar cannot be judged on a row.

    A part that cannot be evaluated alone explains nothing; the message names the whole instead.
    """
    try:
        found = values_of(n, row, {}) if n.op in TERMS else judge(n, row, {})
    except (UnsupportedForm, CannotJudge):
        return False
    return bool(found.may_raise.any())


def _value_of(column: Node, row: pa.RecordBatch) -> str:
    """Return a column's value in the only row as text, shortened."""
    if column.dtype is not None and (column.dtype.ordered or column.dtype.nested):
        found = values_of(column, row, {})
        shown = show_value(found.points.tolist()[0] if found.valid[0] else None, found.dtype)
    else:
        assert isinstance(column.value, tuple)
        shown = str(column_at(row, column.value)[0].as_py())
    return shown if len(shown) <= MAX_VALUE else shown[: MAX_VALUE - 3] + "..."
