"""Nodes as SQL text: predicates for messages and `explain`, programs as the rewritten predicate."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from typing import Any, Final

from skipstone.ir.node import FIELD, FIELDS, Name, Node, Op, Path, Reason, sql_path
from skipstone.ir.simplify import TRUE
from skipstone.ir.types import STRING, DType, Kind, to_python

MAX_MEMBERS: Final = 12  # members of a long list that are shown


def show_value(value: object, dtype: DType | None) -> str:
    """Return an axis value as a SQL literal.

    Example:
        >>> from skipstone.ir.types import DATE, decimal_type
        >>> show_value(19723, DATE), show_value(150, decimal_type(9, 2))
        ("DATE '2024-01-01'", '1.50')
    """
    if value is None or dtype is None:
        return "NULL"
    match dtype.kind, to_python(value, dtype):
        case Kind.BOOL, v:
            return "true" if v else "false"
        case Kind.FLOAT, float() as v if math.isnan(v) or math.isinf(v):
            special = "NaN" if math.isnan(v) else "Infinity" if v > 0 else "-Infinity"
            return f"CAST('{special}' AS {dtype})"
        case Kind.FLOAT, v:
            return f"{v!r}{'F' if dtype.bits == 32 else 'D'}"
        case Kind.STRING, str() as v:
            return "'" + v.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case Kind.DECIMAL, decimal.Decimal() as v:
            return format(v, "f")  # an exponent would make it a DOUBLE
        case Kind.BINARY, bytes() as v:
            return f"X'{v.hex()}'"
        case Kind.DATE, dt.date() as v:
            return f"DATE '{v}'"
        case Kind.TIME, dt.time() as v:
            return f"TIME '{v}'"
        case Kind.TIMESTAMP, dt.datetime() as v:
            return f"{dtype} '{v.isoformat(sep=' ')}'"
        case Kind.OTHER, tuple() as v:
            return f"array({', '.join(show_value(x, dtype.element) for x in v)})"
        case Kind.INTERVAL, int() as v if dtype.unit == "month":
            return f"INTERVAL '{v}' MONTH"
        case Kind.INTERVAL, int() as v:
            day, rest = divmod(abs(v), 86_400_000_000)
            if dtype.name and not rest:
                return f"INTERVAL '{'-' * (v < 0)}{day}' DAY"
            whole, micros = divmod(abs(v), 1_000_000)
            return f"INTERVAL '{'-' * (v < 0)}{whole}.{micros:06}' SECOND"
        # Times have no zone. The whole range of timestamps lies within Python's years.
        case ((Kind.TIME | Kind.TIMESTAMP), int()) if dtype.unit == "ns" and isinstance(value, int):
            shown = show_value(value - value % 1000, dtype).removesuffix("'").removesuffix("+00:00")
            fraction = "" if "." in shown else ".000000"
            zone = "+00:00" if dtype.zoned else ""
            return f"{shown}{fraction}{value % 1000:03d}{zone}'"
        case _, v:
            return str(v)


def show(n: Node) -> str:
    """Return a predicate, bound or not, as SQL text."""
    return _show(n, 0)


def unchained(op: Op, a: Node, b: Node) -> str:
    """Return what to write instead of `a op b`, where a is a condition and b is none.

    Example:
        >>> from skipstone.ir.node import literal
        >>> from skipstone.ir.types import INT32
        >>> x, low, high = Node(Op.COLUMN, value=("x",)), literal(60, INT32), literal(90, INT32)
        >>> unchained(Op.LT, Node(Op.LT, (low, x)), high)
        'write 60 < x AND x < 90'
    """
    parts = []
    while a.op in _INFIX:
        parts.append(show(Node(op, (a.args[1], b))))
        op, (a, b) = a.op, a.args
    parts.append(show(Node(op, (a, b))))
    return f"write {' AND '.join(reversed(parts))}" if len(parts) > 1 else ""


_INFIX: Final = {
    Op.LT: "<",
    Op.LE: "<=",
    Op.GT: ">",
    Op.GE: ">=",
    Op.EQ: "=",
    Op.NE: "<>",
    Op.NULL_SAFE_EQ: "<=>",
}


def _show(n: Node, tight: int) -> str:
    """Return a node as SQL text, with parentheses if it binds more loosely than its context.

    `tight` is 0 in OR, 1 in AND, 2 under NOT or a comparison.
    """
    match n.op:
        case Op.COLUMN:
            path: Any = n.value.parts if isinstance(n.value, Name) else n.value
            return sql_path((path[0].removeprefix("\0"), *path[1:]))
        case Op.LITERAL:
            return show_value(n.value, n.dtype)
        case Op.UNKNOWN:
            assert isinstance(n.value, Reason)
            return n.value.what
        case Op.AND | Op.OR:
            level = 1 if n.op is Op.AND else 0
            parts = (" AND " if level else " OR ").join(_show(a, level) for a in n.args) or "true"
            return f"({parts})" if tight > level else parts
        case Op.CAST:
            return f"{str(n.value or 'cast').upper()}({_show(n.args[0], 0)} AS {n.dtype})"
        case Op.LAMBDA:
            names: Any = n.value
            return f"({', '.join(p.parts[0][1:] for p in names)}) -> {_show(n.args[0], 0)}"
        case Op.CALL:
            return _call(n, tight)
        case Op.EQ if _is_flag(n):
            return _show(n.args[0], tight)
    text = _test(n)
    if text is None:
        return rewritten(n)
    return f"({text})" if tight > 1 else text


def _test(n: Node) -> str | None:
    """Return a test of a scalar, or NOT, as text without parentheses; None for other nodes."""
    if n.op in _INFIX:
        return _comparison(n, _INFIX[n.op])
    match n.op:
        case Op.NOT:
            return _negation(n.args[0])
        case Op.IS_NULL:
            return f"{_show(n.args[0], 2)} IS NULL"
        case Op.IS_TRUE:
            return f"{_show(n.args[0], 2)} IS TRUE"
        case Op.IN:
            return _in_list(n)
        case Op.LIKE:
            escape = "" if n.value == "\\" else f" ESCAPE '{n.value}'"
            return f"{_show(n.args[0], 2)} LIKE {_show(n.args[1], 2)}{escape}"
        case Op.WITHIN:
            x, low, high = (_show(a, 2) for a in n.args)
            return f"{x} BETWEEN {low} AND {high}"
        case Op.DEFINED:
            return f"{_show(n.args[0], 2)} = {_show(n.args[0], 2)}"
        case Op.NAN:
            return f"{_show(n.args[0], 2)} = CAST('NaN' AS DOUBLE)"
    return None


def _negation(n: Node) -> str:
    """Return NOT n as text."""
    if n.op is Op.DEFINED:
        return f"{_show(n.args[0], 2)} <> {_show(n.args[0], 2)}"
    if n.op is Op.IS_NULL:
        return f"{_show(n.args[0], 2)} IS NOT NULL"
    if n.op is Op.EQ and not _is_flag(n):
        return _comparison(n, "<>")
    return f"NOT {_show(n, 2)}"


def _in_list(n: Node) -> str:
    """Return IN as text; a long list is cut."""
    assert isinstance(n.value, tuple)
    pairs = [v if isinstance(v, tuple) else (n.dtype, v) for v in n.value[:MAX_MEMBERS]]
    shown = [show_value(v, t) for t, v in pairs] + [_show(a, 2) for a in n.args[1:]]
    more = f", ... {len(n.value) - MAX_MEMBERS} more" if len(n.value) > MAX_MEMBERS else ""
    return f"{_show(n.args[0], 2)} IN ({', '.join(shown)}{more})"


def _comparison(n: Node, sign: str) -> str:
    """Return a comparison as text; the sign of `compare(a, b)` is shown as a comparison of both."""
    left, right = n.args
    is_sign = left.op is Op.CALL and isinstance(left.value, tuple) and left.value[0] == "compare"
    if is_sign and right.value == 0:
        left, right = left.args
    return f"{_show(left, 2)} {sign} {_show(right, 2)}"


_SIGNS: Final = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "remainder": "%",
    "div": "div",
} | {s: s for s in "+-*/%&|^"}


_SHOWN: Final = {
    "map_element": "element_at",
    "map_size": "size",
    "wall_format": "date_format",
    "read_time": "to_timestamp_ntz",
    "try_read_time": "try_to_timestamp",
}


def _is_flag(n: Node) -> bool:
    """Return True for a BOOLEAN call that is used as a condition: it is shown without `= true`."""
    call, lit = n.args
    return (
        call.op is Op.CALL
        and lit.dtype is not None
        and lit.dtype.kind is Kind.BOOL
        and lit.value == 1
    )


def _call(n: Node, tight: int) -> str:
    name = n.value[0] if isinstance(n.value, tuple) else n.value
    if not n.args:
        return f"{name}()"
    if name in ("cast", "try_cast", "widen"):
        return f"{'TRY_CAST' if name == 'try_cast' else 'CAST'}({_show(n.args[0], 0)} AS {n.dtype})"
    if name in _SIGNS and len(n.args) == 2:
        return f"({_show(n.args[0], 2)} {_SIGNS[name]} {_show(n.args[1], 2)})"
    if name in ("[]", "map_value"):
        return f"{_show(n.args[0], 2)}[{_show(n.args[1], 0)}]"
    if name == FIELDS:
        path: Any = n.value
        return f"{_show(n.args[0], 2)}.{sql_path(path[2:])}"
    if name == FIELD:
        return f"{_show(n.args[0], 2)}.{sql_path((str(to_python(n.args[1].value, STRING)),))}"
    if isinstance(n.value, tuple) and len(n.value) > 2:
        return _lambda_call(n)
    if name == "negative":
        return f"(-{_show(n.args[0], 2)})"
    if name == "truth":
        return f"({_show(n.args[0], 0)})"
    if name == "as_array":
        return _show(n.args[0], tight)
    if name in ("fits", "matches"):
        word, escape = ("LIKE", n.args[2].value) if name == "fits" else ("RLIKE", b"\\")
        clause = "" if escape == b"\\" else f" ESCAPE {_show(n.args[2], 0)}"
        text = f"{_show(n.args[0], 2)} {word} {_show(n.args[1], 2)}{clause}"
        return f"({text})" if tight > 1 else text
    if name == "case":
        arms = "".join(
            f" WHEN {_show(c, 0)} THEN {_show(v, 0)}"
            for c, v in zip(n.args[:-1:2], n.args[1::2], strict=False)
        )
        return f"CASE{arms} ELSE {_show(n.args[-1], 0)} END"
    shown = _SHOWN.get(str(name), str(name)).partition("@")[0]
    return f"{shown}({', '.join(_show(a, 0) for a in n.args)})"


def _lambda_call(n: Node) -> str:
    """Return a bound call that takes a lambda as text."""
    value: Any = n.value
    name, _, body, *columns = value
    names = ", ".join(c.removeprefix("\0") for c in columns)
    # Further arguments are columns that the lambda reads.
    args = ", ".join(_show(a, 0) for a in n.args[: 2 if name in ("aggregate", "zip_with") else 1])
    return f"{name}({args}, ({names}) -> {_show(body, 0)})"


# The rewritten predicate, in DataFusion's form.


def column_name(path: Path, statistic: str) -> str:
    """Return the name of a statistic's column in the rewritten predicate.

    Example:
        >>> column_name(("x",), "min"), column_name(("a", "b"), "null_count")
        ('x_min', '`a.b_null_count`')
    """
    return sql_path((".".join(path) + "_" + statistic,))


def rewritten(n: Node) -> str:
    """Return a program's condition over columns `x_min`, `x_max`, `x_null_count`, `x_row_count`.

    FALSE prunes; TRUE and NULL keep, so unknown statistics may simply be NULL. Providers' answers
    about contained values and the container's own row count are left out.

    Source: DataFusion, PruningPredicate, "Contains analysis and min/max rewrite".
    """
    return _rewrite(_plain(n), tight=False)


def _plain(n: Node) -> Node:
    """Remove inputs that no column of statistics holds; only AND holds such inputs."""
    if n.op in (Op.MAY_HOLD_ROWS, Op.MAY_CONTAIN, Op.MAY_CONTAIN_OTHER, Op.MAY_RAISE):
        return TRUE
    args = [_plain(a) for a in n.args]
    if n.op is Op.AND:
        args = [a for a in args if a != TRUE]
        if len(args) < 2:
            return args[0] if args else TRUE
    return Node(n.op, tuple(args), n.value, n.dtype)


def _rewrite(n: Node, tight: bool) -> str:
    # The columns of a call's statistics are named after its text.
    path: Path = (
        n.value
        if isinstance(n.value, tuple)
        else (show(n.value),)
        if isinstance(n.value, Node)
        else ()
    )
    match n.op:
        case Op.LITERAL:
            return show_value(n.value, n.dtype)
        case Op.MIN | Op.MAX:
            return column_name(path, n.op.value)
        case Op.MAY_HOLD_NULL:
            return f"{column_name(path, 'null_count')} > 0"
        case Op.MAY_HOLD_NAN:
            nulls, nans, rows = (
                column_name(path, s) for s in ("null_count", "nan_count", "row_count")
            )
            return f"CASE WHEN {nulls} = {rows} THEN false ELSE {nans} > 0 END"
        case Op.MAY_HOLD_VALUE:
            return f"CASE WHEN {_all_null(n)} THEN false ELSE true END"
        case Op.ANY_IN:
            low, high = (_rewrite(a, False) for a in n.args)
            return f"exists(array({_members(n)}), v -> {low} <= v AND v <= {high})"
        case Op.NOT_ALL_IN:
            low, high = (_rewrite(a, False) for a in n.args)
            text = f"{low} <> {high} OR NOT {low} IN ({_members(n)})"
            return f"({text})" if tight else text
        case Op.AND:
            return _guarded(n, tight)
        case Op.OR:
            text = " OR ".join(_rewrite(a, True) for a in n.args)
            return f"({text})" if tight else text
    bound, v = n.args
    if bound.op is Op.MAX:  # written as 5 <= x_max
        return f"{_rewrite(v, False)} {'<=' if n.op is Op.GE else '<'} {_rewrite(bound, False)}"
    return f"{_rewrite(bound, False)} {n.op.value} {_rewrite(v, False)}"


def _members(n: Node) -> str:
    assert isinstance(n.value, tuple)
    return ", ".join(show_value(v, n.dtype) for v in n.value)


def _guarded(n: Node, tight: bool) -> str:
    """Return AND as text, with each column's all-NULL guard as a CASE around the guarded tests."""
    parts: list[str] = []
    args = list(n.args)
    for guard in [a for a in n.args if a.op is Op.MAY_HOLD_VALUE]:
        guarded = [a for a in args if a.op is not Op.MAY_HOLD_VALUE and _paths(a) == {guard.value}]
        args = [a for a in args if a not in guarded and a is not guard]
        body = " AND ".join(_rewrite(a, True) for a in guarded) or "true"
        parts.append(f"CASE WHEN {_all_null(guard)} THEN false ELSE {body} END")
    parts += [_rewrite(a, True) for a in args]
    text = " AND ".join(parts)
    return f"({text})" if tight and len(parts) > 1 else text


def _all_null(guard: Node) -> str:
    value: Any = guard.value
    path: Path = value if isinstance(value, tuple) else (show(value),)
    nulls, rows = (column_name(path, s) for s in ("null_count", "row_count"))
    plain = f"{nulls} = {rows}"
    if guard.dtype is not None and guard.dtype.kind is Kind.FLOAT:
        return f"{plain} OR {nulls} + {column_name(path, 'nan_count')} = {rows}"
    return plain


def _paths(n: Node) -> set[object]:
    return {
        m.value
        for m in n.walk()
        if m.op in (Op.MIN, Op.MAX, Op.MAY_HOLD_VALUE, Op.MAY_HOLD_NULL, Op.MAY_HOLD_NAN)
    }
