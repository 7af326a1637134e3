"""Convert pyarrow expressions to nodes.

An Arrow expression has no public structure, but its serialised form, which pickling writes, does:
an IPC file whose schema metadata lists the tree in prefix order, and whose columns hold the
literals. The metadata repeats keys, so it is read through the C data interface, which keeps all.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from skipstone.bindings.statistics.members import typed_array
from skipstone.ir import types as ty
from skipstone.ir.coercion.literals import literal_type, scalar_type
from skipstone.ir.errors import PredicateError, describe_error
from skipstone.ir.node import Name, Node, Op, function_call, literal, unknown

if TYPE_CHECKING:
    import pyarrow.compute as pc

COMPARISONS: Final = {
    "equal": Op.EQ, "not_equal": Op.NE, "less": Op.LT, "less_equal": Op.LE, "greater": Op.GT,
    "greater_equal": Op.GE,
}  # fmt: skip
Tokens = list[tuple[str, str]]  # next token last
# Arrow functions that Spark also has, with Spark's names. Division is missing, because Arrow
# truncates quotients of integers.
CALLS: Final = {
    "add": "+", "subtract": "-", "multiply": "*", "negate": "negative", "abs": "abs",
    "if_else": "if", "coalesce": "coalesce", "year": "year", "quarter": "quarter",
    "month": "month", "day": "day", "hour": "hour", "minute": "minute", "second": "second",
    "utf8_upper": "upper", "utf8_lower": "lower", "utf8_length": "length",
    "binary_length": "octet_length",
}  # fmt: skip
# Arrow's plain "and" and "or" are missing: unlike SQL's, they are NULL if any input is NULL.
LOGIC: Final = {"and_kleene": Op.AND, "or_kleene": Op.OR, "invert": Op.NOT}
PATTERNS: Final[dict[str, Callable[[Node, Node], Node]]] = {
    "starts_with": lambda text, start: Node(Op.CALL, (text, start), "startswith"),
    "ends_with": lambda text, end: Node(Op.CALL, (text, end), "endswith"),
    "match_substring": lambda text, part: Node(Op.CALL, (text, part), "contains"),
    "match_like": lambda text, pattern: Node(Op.LIKE, (text, pattern), "\\"),
}


def from_expression(expression: pc.Expression) -> Node:
    """Convert an Arrow expression to an unbound predicate.

    Comparisons, AND, OR, NOT, `isin`, `is_null`, `is_valid`, nested fields and the functions of
    CALLS are understood; other functions become UNKNOWN. The predicate has Spark SQL's meaning:
    `f > 5` is TRUE for NaN, and `isin` is never TRUE for NULL, nor is its negation.

    Raises:
        PredicateError: pyarrow's serialised form is not the expected one.

    Example:
        >>> from skipstone.ir.text import show
        >>> import pyarrow.compute as pc
        >>> show(from_expression((pc.field("x") == 5) & ~pc.field("s").isin(["a"])))
        "x = 5 AND NOT (s IN ('a'))"
    """
    try:
        _, (buffer,) = expression.__reduce__()
    except pa.ArrowException as e:
        raise PredicateError(
            f"the pyarrow expression {expression} cannot be read ({describe_error(e)}); "
            "name its columns, or write it as SQL text"
        ) from None
    batch = pa.ipc.open_file(buffer).get_batch(0)
    tokens = _tokens(batch.schema)
    try:
        node = _read(tokens, batch, str(expression))
    except (KeyError, IndexError, ValueError) as e:
        raise PredicateError(
            f"the pyarrow expression {expression} cannot be read ({describe_error(e)}); "
            "write it as SQL text or with col()"
        ) from e
    if tokens:
        raise PredicateError(
            f"the pyarrow expression {expression} cannot be read; "
            "write it as SQL text or with col()"
        )
    return node


@dataclass(slots=True)
class _Call:
    """A function whose inputs are still being read."""

    name: str
    args: list[Node] = field(default_factory=list)
    options: pa.Scalar | None = None


def _read(tokens: Tokens, batch: pa.RecordBatch, text: str) -> Node:
    """Read a tree in prefix order, without recursion, as chains of AND and OR may be long."""
    open_calls: list[_Call] = []
    while True:
        kind, value = tokens.pop()
        match kind:
            case "call":
                open_calls.append(_Call(value))
                continue
            case "options":
                open_calls[-1].options = batch.column(int(value))[0]
                continue
            case "end":
                done = _call(open_calls.pop(), text)
            case "literal":
                done = literal_of(batch.column(int(value))[0])
            case "field_ref":
                done = Node(Op.COLUMN, value=Name((value,)))
            case "nested_field_ref":
                done = _nested([tokens.pop() for _ in range(int(value))], text)
            case _:
                raise ValueError(f"{kind} {value}")
        if not open_calls:
            return done
        open_calls[-1].args.append(done)


def _nested(parts: Tokens, text: str) -> Node:
    """Return a struct's field from the references that lead to it."""
    if any(word != "field_ref" for word, _ in parts):
        return unknown(text, "a nested field is named by position")
    return Node(Op.COLUMN, value=Name(tuple(part for _, part in parts)))


def _call(call: _Call, text: str) -> Node:
    """Return a function whose inputs are all read; UNKNOWN if it is not understood."""
    name, args, options = call.name, call.args, call.options
    chosen: dict[str, Any] = options.as_py() if options is not None and name != "is_in" else {}
    match name:
        case _ if name in COMPARISONS:
            return Node(COMPARISONS[name], tuple(args))
        case _ if name in LOGIC:
            return Node(LOGIC[name], tuple(args))
        case "is_null" if not chosen.get("nan_is_null"):
            return Node(Op.IS_NULL, tuple(args))
        case "true_unless_null" if args[0].op is Op.COLUMN:
            return Node(Op.EQ, (args[0], args[0]))
        case "is_valid":
            return Node(Op.NOT, (Node(Op.IS_NULL, tuple(args)),))
        case "is_in" if options is not None:
            values = options["value_set"].values
            if (typed := typed_array(values)) is not None:
                return Node(Op.IN, tuple(args), typed)
            members = _members(_plain(values))
            literals = tuple(m for m in members if not isinstance(m, Node))
            return Node(Op.IN, (*args, *(m for m in members if isinstance(m, Node))), literals)
        case "is_nan":
            return Node(Op.EQ, (args[0], literal(math.nan, ty.DOUBLE)))
        case _ if name in PATTERNS and "pattern" in chosen and not chosen.get("ignore_case"):
            pattern = literal(_text(chosen["pattern"]).encode(), ty.STRING)
            return PATTERNS[name](args[0], pattern)
        case "cast" if options is not None:
            to = ty.from_arrow(options["to_type"].type)
            if to.ordered:
                return Node(Op.CAST, tuple(args), "cast", to)
        case _ if name.removesuffix("_checked") in CALLS:
            return function_call(CALLS[name.removesuffix("_checked")], tuple(args))
    inner = tuple(c for a in args for c in a.walk() if c.op is Op.COLUMN)
    return Node(
        Op.UNKNOWN, inner, unknown(text[:300], f"the function {name} is not understood").value
    )


def _members(values: pa.Array) -> list[tuple[ty.DType, Any] | Node]:
    """Return the members of a list: type and axis value, or UNKNOWN."""
    dtype = ty.from_arrow(values.type)
    if dtype.kind in (ty.Kind.INT, ty.Kind.UINT):
        return [literal_type(v) for v in values.to_pylist()]
    if dtype.kind is ty.Kind.STRING:
        return [(ty.NULL, None) if v is None else (dtype, v.encode()) for v in values.to_pylist()]
    nodes = map(literal_of, values)
    return [(m.dtype, m.value) if m.op is Op.LITERAL and m.dtype is not None else m for m in nodes]


def _plain(values: pa.Array) -> pa.Array:
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def literal_of(scalar: pa.Scalar) -> Node:
    """Return a scalar as a literal; UNKNOWN if SQL has no such literal."""
    try:
        dtype, axis = _typed(scalar)
    except (TypeError, ValueError, OverflowError):
        return unknown(f"a literal of type {scalar.type}", "the value has no SQL literal")
    return literal(axis, dtype)


def _typed(scalar: pa.Scalar) -> tuple[ty.DType, Any]:
    """Return the type and axis value of a scalar.

    The type is the scalar's own if Spark has it, so that no value is rounded.

    Raises:
        TypeError, ValueError, OverflowError: the value has no SQL literal.
    """
    dtype = ty.from_arrow(scalar.type)
    if not scalar.is_valid:
        return ty.NULL, None
    match dtype.kind:
        case ty.Kind.TIMESTAMP:
            return dtype, scalar.cast(pa.int64()).as_py() if pa.types.is_timestamp(
                scalar.type
            ) else None
        case ty.Kind.INT | ty.Kind.UINT | ty.Kind.TIME:
            return scalar_type(scalar)
        case ty.Kind.OTHER | ty.Kind.NULL:
            raise TypeError(f"{scalar.type} is not a literal")
    value = scalar.as_py()
    return dtype, ty.to_axis(value, dtype)


class _ArrowSchema(ctypes.Structure):
    # The first members of struct ArrowSchema in Arrow's C data interface.
    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
    )


def _tokens(schema: pa.Schema) -> Tokens:
    """Return the schema's metadata with repeated keys, last pair first.

    Counts and lengths are int32 in native byte order.
    """
    capsule = schema.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    at = _ArrowSchema.from_address(pointer(capsule, b"arrow_schema")).metadata
    pairs: Tokens = []
    if at:
        count, at = ctypes.c_int32.from_address(at).value, at + 4
        for _ in range(count):
            words = []
            for _ in range(2):
                size = ctypes.c_int32.from_address(at).value
                words.append(ctypes.string_at(at + 4, size).decode())
                at += 4 + size
            pairs.append((words[0], words[1]))
    return pairs[::-1]
