"""Build calls: names and bound arguments become bound scalars with Spark's implicit casts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from skipstone.ir import types as ty
from skipstone.ir.coercion.coerce import in_spark
from skipstone.ir.function import Call, Function, check_arity, has_items, int_literal, text_literal
from skipstone.ir.functions import builtin_functions, casts, clocks, intervals
from skipstone.ir.functions.arithmetic import number
from skipstone.ir.functions.casts import check_cast, steps
from skipstone.ir.functions.dates import FIELDS
from skipstone.ir.functions.instants import instants_of, is_only_bounded, wall_of
from skipstone.ir.functions.spark_names import explain_function, explain_method
from skipstone.ir.interval import evaluate_rows
from skipstone.ir.node import Node, Op, literal, unknown
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.text import show
from skipstone.ir.types import DType, Kind
from skipstone.ir.values import Values, constant

Build = Callable[[tuple[Node, ...], Session], Node]
# User-defined functions (bindings/predicates/register.py) by key, and the latest key of each name.
# A name that is registered again gets a new key, so that existing predicates and statistics keep
# the function that they were made with.
REGISTERED: Final[dict[str, Function]] = {}
LATEST: Final[dict[str, str]] = {}
TRUTH: Final = "truth"  # a condition as a BOOLEAN value


def function_of(name: str) -> Function | None:
    """Return the description of a built-in or user-defined function; None if it is unknown."""
    # A condition of casts alone, such as `d >= DATE '2024-01-01'`, imports no other table.
    return casts.FUNCTIONS.get(name) or builtin_functions().get(name) or REGISTERED.get(name)


def call_of(n: Node) -> Call:
    """Return the use of a function that a bound call describes."""
    assert isinstance(n.value, tuple) and n.dtype is not None
    types = tuple(a.dtype for a in n.args if a.dtype is not None)
    return Call(n.value[0], types, n.dtype, n.value[1], n.value[2:])


def build(name: str, args: tuple[Node, ...], session: Session) -> Node:
    """Build a call as a bound scalar: a column, a literal, a call, or UNKNOWN."""
    unsupported = next((a for a in args if a.op is Op.UNKNOWN), None)
    if unsupported is not None:
        return unsupported
    try:
        if name in ALIASES:
            return ALIASES[name](args, session)
        return plain_call(name, args, session)
    except CannotJudge as e:
        return unknown(_show_call(name, args), str(e), e.hint)


def plain_call(name: str, args: tuple[Node, ...], session: Session) -> Node:
    """Build a call of a function of the table, without aliases."""
    try:
        name = LATEST.get(name, name)
        function = function_of(name)
        if function is None:
            space, _, method = name.rpartition(".")
            known = space and explain_method(space, method, [*map(show, args)])
            why, hint = known or explain_function(name)
            if args and not hint:
                hint = "compare its columns, or register it by skipstone.register_function"
            raise CannotJudge(why, hint)
        others = [a.dtype for a in args if a.dtype is not None and a.dtype.kind is Kind.OTHER]
        if any(not function.takes(t) for t in others):
            raise CannotJudge(f"{others[0]} allows null tests only")
        args = instants_of(name, args, session, cast)
        types, dtype = function.signature(args, session)
        cast_args = tuple(cast(a, t, session) for a, t in zip(args, types, strict=True))
    except CannotJudge as e:
        return unknown(_show_call(name, args), str(e), e.hint)
    unsupported = next((a for a in cast_args if a.op is Op.UNKNOWN), None)
    return unsupported or fold(Node(Op.CALL, cast_args, (name, _call_session(session)), dtype))


def cast(n: Node, to: DType, session: Session, name: str = "cast") -> Node:
    """Cast a scalar to another type, with each intermediate cast as a call of its own."""
    if n.dtype == to or n.op is Op.UNKNOWN:
        return n
    if n.dtype == ty.NULL or (n.op is Op.LITERAL and n.value is None):
        return Node(Op.LITERAL, value=None, dtype=to)
    try:
        if to.element is not None:
            return _cast_elements(n, to, session)
        if to.kind is Kind.INTERVAL and n.dtype is not None and n.dtype.kind is not Kind.INTERVAL:
            return intervals.as_interval(n, to, session, build, cast)
        check_cast((n,), to, session)
        n = wall_of(n, to, session)
        assert n.dtype is not None
        wide = in_spark(n.dtype)
        if wide != n.dtype:  # Spark reads unsigned integers as wider ones
            n = Node(Op.CALL, (n,), ("widen", _call_session(session)), wide)
        for step in steps(wide, to):
            if n.dtype != step:
                n = fold(Node(Op.CALL, (n,), (name, _call_session(session)), step))
            if n.op is Op.UNKNOWN:
                break
    except CannotJudge as e:
        return unknown(f"CAST({show(n)} AS {to})", str(e))
    return n


def as_text(n: Node, session: Session) -> Node:
    """Cast a scalar to STRING as LIKE does; nested and collated values stay as they are."""
    kinds = (Kind.STRING, Kind.NULL, Kind.OTHER)
    if n.op is Op.UNKNOWN or n.dtype is None or n.dtype.kind in kinds:
        return n
    return cast(n, ty.STRING, session)


def _cast_elements(n: Node, to: DType, session: Session) -> Node:
    """Give an array a wider type of elements, which keeps the values."""
    own, wide = n.dtype.element if n.dtype is not None else None, to.element
    assert wide is not None
    if own is None or not (
        own in (ty.NULL, wide) or (own.kind is wide.kind is Kind.INT and own.bits <= wide.bits)
    ):
        raise CannotJudge(f"the cast from {n.dtype} to {to} is not understood")
    return fold(Node(Op.CALL, (n,), ("as_array", _call_session(session)), to))


def lambda_call(
    name: str, args: tuple[Node, ...], body: tuple[object, ...], dtype: DType, session: Session
) -> Node:
    """Build the call of a function that takes a lambda; see `Call.body`."""
    return fold(Node(Op.CALL, args, (name, _call_session(session), *body), dtype))


def _array(args: tuple[Node, ...], session: Session) -> Node:
    if not args:
        return Node(Op.LITERAL, value=(), dtype=ty.list_type(ty.NULL))
    return plain_call("array", args, session)


def _or_map(name: str, of_maps: str) -> Build:
    """Build a function of arrays or of maps."""

    def make(args: tuple[Node, ...], session: Session) -> Node:
        of_map = bool(args) and args[0].dtype is not None and args[0].dtype.entries is not None
        return plain_call(of_maps if of_map else name, args, session)

    return make


def _or_array(name: str, of_arrays: str) -> Build:
    """Build a function of text or of arrays."""

    def make(args: tuple[Node, ...], session: Session) -> Node:
        nested = any(has_items(a.dtype) and not a.dtype.entries for a in args if a.dtype)
        return plain_call(of_arrays if nested else name, args, session)

    return make


def _call_session(session: Session) -> Session:
    return Session(session.timezone, session.ansi)


def _show_call(name: str, args: tuple[Node, ...]) -> str:
    return show(Node(Op.CALL, args, (name, None)))


def fold(n: Node) -> Node:
    """Fold a call of literals into a literal.

    A call whose value is only bounded here stays a call: `exp(2)`, or a clock's time with an
    uncertain offset.
    The result is UNKNOWN if Spark raises an error or the value is not known here.
    """
    if any(a.op is not Op.LITERAL for a in n.args) or not n.args:
        return n
    v = evaluate(n, tuple(constant(a.value, a.dtype) for a in n.args if a.dtype is not None))
    if v.may_raise.any():
        function = function_of(call_of(n).name)
        if function is not None and is_only_bounded(call_of(n), function, n.args):
            return n
        why = "Spark raises an error for it, or its value is not certain here"
        from skipstone.ir.coercion.nearest import nearest_to_cast

        return unknown(show(n), why, nearest_to_cast(n))
    assert n.dtype is not None
    value = v.data[0]
    return literal(
        None if not v.valid[0] else value.item() if isinstance(value, np.generic) else value,
        n.dtype,
    )


def evaluate(n: Node, args: tuple[Values, ...]) -> Values:
    """Evaluate a bound call on rows."""
    function = function_of(call_of(n).name)
    if function is None:  # a user-defined function that this process has not registered
        return Values(
            call_of(n).dtype,
            constant(None, call_of(n).dtype).array,
            np.ones(1, np.bool_),
            np.ones(1, np.bool_),
        )
    return evaluate_rows(call_of(n), function, args)


# Functions that are rewritten into others. Each takes bound arguments and returns a bound scalar.


def _alias(name: str) -> Build:
    return lambda args, session: build(name, args, session)


def _cast_to(to: DType) -> Build:
    def make(args: tuple[Node, ...], session: Session) -> Node:
        check_arity(args, 1)
        return cast(args[0], to, session)

    return make


def _if(args: tuple[Node, ...], session: Session) -> Node:
    check_arity(args, 3)
    return build("case", args, session)


def _date_part(args: tuple[Node, ...], session: Session) -> Node:
    check_arity(args, 2)
    word = text_literal(args[0])
    field = FIELDS.get(word.lower(), f"extract {word}")
    return build(intervals.part_of(field, args[1].dtype) or field, args[1:], session)


def _left(args: tuple[Node, ...], session: Session) -> Node:
    check_arity(args, 2)
    return build("substring", (args[0], literal(1, ty.INT32), args[1]), session)


def _plus(sign: str) -> Build:
    """Build + and -, which also move dates and timestamps, and give the interval between them."""

    def make(args: tuple[Node, ...], session: Session) -> Node:
        check_arity(args, 2)
        moved = intervals.moved(sign, args, session, build, cast)
        return moved or build("add" if sign == "+" else "subtract", args, session)

    return make


def _negative(args: tuple[Node, ...], session: Session) -> Node:
    check_arity(args, 1)
    (a,) = args
    if a.op is Op.LITERAL and isinstance(a.value, int) and a.dtype is not None:
        # Fold the sign into a number, so that a list of 100,000 of them is not computed row by row.
        # The least integer has no negation.
        if a.dtype.kind is Kind.DECIMAL or (a.dtype.kind is Kind.INT and a.value != a.dtype.lowest):
            return literal(-a.value, a.dtype)
    return plain_call("negative", args, session)


def _make_interval(args: tuple[Node, ...], session: Session) -> Node:
    """Build an interval of years and months, which moves times as a year-month interval does."""
    check_arity(args, 1, 2)
    for a in args:
        int_literal(a)
    return build("make_ym_interval", args, session)


def _in_utf8(args: tuple[Node, ...], session: Session) -> Node:
    """Build encode and to_binary, whose result for UTF-8 is the text's bytes."""
    check_arity(args, 2)
    if text_literal(args[1]).lower() not in ("utf-8", "utf8") or args[0].dtype != ty.STRING:
        raise CannotJudge("only text in UTF-8 is understood")
    return cast(args[0], ty.BINARY, session)


def _by_clock(make: Callable[..., Node]) -> Build:
    return lambda args, session: make(args, session, build, cast)


def _trim(name: str) -> Build:
    """Build ltrim and rtrim, whose characters come before the text."""

    def make(args: tuple[Node, ...], session: Session) -> Node:
        if len(args) == 2:
            return build(f"{name}_of", args[::-1], session)
        return plain_call(name, args, session)

    return make


def _btrim(args: tuple[Node, ...], session: Session) -> Node:
    return build("trim_of" if len(args) == 2 else "trim", args, session)


def _constant(value: float) -> Build:
    def make(args: tuple[Node, ...], session: Session) -> Node:
        check_arity(args, 0)
        return literal(value, ty.DOUBLE)

    return make


def _or_zero(args: tuple[Node, ...], session: Session) -> Node:
    check_arity(args, 1)
    number(args[0].dtype)
    return build("coalesce", (args[0], literal(0, ty.INT32)), session)


def _positive(args: tuple[Node, ...], session: Session) -> Node:
    """Return a number unchanged.

    Spark turns text into a DOUBLE, so `+ s = '5'` is also TRUE for '5.0'; text is refused here.
    """
    check_arity(args, 1)
    number(args[0].dtype)
    return args[0]


def truth(condition: Node, session: Session) -> Node:
    """Return a bound condition as a BOOLEAN scalar."""
    if condition.op in (Op.LITERAL, Op.UNKNOWN):
        return condition if condition.op is Op.UNKNOWN else literal(condition.value, ty.BOOL)
    return Node(Op.CALL, (condition,), (TRUTH, _call_session(session)), ty.BOOL)


SYNONYMS: Final = {
    "ceiling": "ceil", "char_length": "length", "character_length": "length", "len": "length",
    "ucase": "upper", "lcase": "lower",
    "substr": "substring", "dayofmonth": "day", "dateadd": "date_add", "date_diff": "datediff",
    "nvl": "coalesce", "ifnull": "coalesce",
    "signum": "sign", "power": "pow", "||": "concat",
    "cardinality": "size",
    "*": "multiply", "/": "divide", "%": "remainder", "mod": "remainder",
    "sha": "sha1", "char": "chr",
}  # fmt: skip
ALIASES: Final[dict[str, Build]] = {
    **{alias: _alias(name) for alias, name in SYNONYMS.items()},
    "to_date": _by_clock(clocks.read_as(ty.DATE)),
    "date": _cast_to(ty.DATE),
    "to_timestamp": _by_clock(clocks.read_as(ty.TIMESTAMP)),
    "timestamp": _cast_to(ty.TIMESTAMP),
    "int": _cast_to(ty.INT32), "bigint": _cast_to(ty.INT64), "smallint": _cast_to(ty.INT16),
    "tinyint": _cast_to(ty.INT8),
    "double": _cast_to(ty.DOUBLE), "float": _cast_to(ty.FLOAT), "string": _cast_to(ty.STRING),
    "boolean": _cast_to(ty.BOOL), "decimal": _cast_to(ty.decimal_type(10, 0)),
    "binary": _cast_to(ty.BINARY),
    "to_timestamp_ntz": _by_clock(clocks.read_as(ty.TIMESTAMP_NTZ)),
    "try_to_date": _by_clock(clocks.read_as(ty.DATE, tried=True)),
    "try_to_timestamp": _by_clock(clocks.read_as(ty.TIMESTAMP, tried=True)),
    "add_units": _by_clock(clocks.add_units),
    "units_between": _by_clock(clocks.units_between),
    "months_between": _by_clock(clocks.months_between),
    "convert_timezone": _by_clock(clocks.convert_timezone),
    "to_utc_timestamp": _by_clock(clocks.shifted(True)),
    "from_utc_timestamp": _by_clock(clocks.shifted(False)),
    "make_ym_interval": _by_clock(intervals.make_ym_interval),
    "make_dt_interval": _by_clock(intervals.make_dt_interval),
    "make_interval": _make_interval,
    "array": _array,
    "concat": _or_array("concat", "concat_arrays"),
    "reverse": _or_array("reverse", "reverse_array"),
    "[]": _or_map("[]", "map_value"),
    "element_at": _or_map("element_at", "map_element"),
    "try_element_at": _or_map("try_element_at", "map_element"),
    "size": _or_map("size", "map_size"),
    "encode": _in_utf8,
    "to_binary": _in_utf8,
    "btrim": _btrim,
    "ltrim": _trim("ltrim"),
    "rtrim": _trim("rtrim"),
    "pi": _constant(math.pi), "e": _constant(math.e),
    "zeroifnull": _or_zero,
    "if": _if,
    "date_trunc": _by_clock(clocks.date_trunc),
    "date_format": _by_clock(clocks.date_format),
    "unix_timestamp": _by_clock(clocks.unix_timestamp),
    "to_unix_timestamp": _by_clock(clocks.unix_timestamp),
    "from_unixtime": _by_clock(clocks.from_unixtime),
    "left": _left,
    "date_part": _date_part,
    "datepart": _date_part,
    "negative": _negative,
    "positive": _positive,
    "+": _plus("+"),
    "-": _plus("-"),
}  # fmt: skip
