"""Functions that are rewritten into other forms before binding.

Each rewrite takes unbound arguments and returns an unbound node.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from skipstone.ir import types as ty
from skipstone.ir.coercion.char import without_padding
from skipstone.ir.function import check_arity, text_literal
from skipstone.ir.like import decode, quoted
from skipstone.ir.node import Node, Op, literal
from skipstone.ir.session import CannotJudge

Rewrite = Callable[[tuple[Node, ...]], Node]


def like(subject: Node, pattern: str, escape: str = "\\") -> Node:
    """Return the node of `subject LIKE pattern`."""
    return Node(Op.LIKE, (subject, literal(pattern.encode(), ty.STRING)), escape)


def _is_null(args: tuple[Node, ...]) -> Node:
    check_arity(args, 1)
    return Node(Op.IS_NULL, args)


def _is_nan(args: tuple[Node, ...]) -> Node:
    """Rewrite isnan(x): TRUE for NaN, FALSE for everything else, NULL included."""
    check_arity(args, 1)
    return Node(Op.IS_TRUE, (Node(Op.EQ, (args[0], literal(math.nan, ty.DOUBLE))),))


def _same(args: tuple[Node, ...]) -> Node:
    check_arity(args, 2)
    return Node(Op.NULL_SAFE_EQ, args)


def _affix(name: str, before: str, after: str) -> Rewrite:
    """Return the rewrite of startswith, endswith or contains: LIKE if the text is a literal."""

    def make(args: tuple[Node, ...]) -> Node:
        check_arity(args, 2)
        subject, part = args
        if part.op is Op.LITERAL and part.dtype == ty.STRING and part.value is not None:
            return like(subject, before + quoted(text_literal(part)) + after)
        return Node(Op.EQ, (Node(Op.CALL, args, name), literal(1, ty.BOOL)))

    return make


def _like(args: tuple[Node, ...]) -> Node:
    check_arity(args, 2, 3)
    return Node(Op.LIKE, args[:2], text_literal(args[2]) if len(args) > 2 else "\\")


def _ilike(args: tuple[Node, ...]) -> Node:
    """Rewrite ILIKE, which in Spark compares lower case with lower case.

    Only ASCII patterns are lowered here; others are refused.
    """
    check_arity(args, 2, 3)
    pattern, escape = text_literal(args[1]), text_literal(args[2]) if len(args) > 2 else "\\"
    if not pattern.isascii() or decode(pattern, escape) is None or escape.isalpha():
        raise CannotJudge("ILIKE expects a pattern of ASCII characters")
    return like(Node(Op.CALL, args[:1], "lower"), pattern.lower(), escape)


def _rlike(args: tuple[Node, ...]) -> Node:
    """Rewrite RLIKE: the literal start of an anchored pattern prunes.

    The whole pattern is computed only for rows, and for containers that hold a single value.
    """
    from skipstone.ir.functions.patterns import regex_prefix

    check_arity(args, 2)
    prefix, whole = regex_prefix(text_literal(args[1]))
    start = like(args[0], quoted(prefix) + "%")
    if whole:
        return start
    test = Node(Op.EQ, (Node(Op.CALL, args, "matches"), literal(1, ty.BOOL)))
    return Node(Op.AND, (start, test)) if prefix else test


def _null_if(args: tuple[Node, ...]) -> Node:
    check_arity(args, 2)
    equal = Node(Op.EQ, (without_padding(args[0]), args[1]))
    return Node(Op.CALL, (equal, literal(None, ty.NULL), args[0]), "case")


def _nvl2(args: tuple[Node, ...]) -> Node:
    check_arity(args, 3)
    return Node(Op.CALL, (Node(Op.IS_NULL, args[:1]), args[2], args[1]), "case")


def _null_if_zero(args: tuple[Node, ...]) -> Node:
    check_arity(args, 1)
    return _null_if((args[0], literal(0, ty.INT32)))


def _space(args: tuple[Node, ...]) -> Node:
    check_arity(args, 1)
    return Node(Op.CALL, (literal(b" ", ty.STRING), args[0]), "repeat")


def _regexp_substr(args: tuple[Node, ...]) -> Node:
    """Rewrite regexp_substr, which is NULL without a match, and for an empty one."""
    check_arity(args, 2)
    found = Node(Op.CALL, (*args, literal(0, ty.INT32)), "regexp_extract")
    return _null_if((found, literal(b"", ty.STRING)))


def _array_size(args: tuple[Node, ...]) -> Node:
    """Rewrite array_size, which is NULL for NULL in every mode."""
    check_arity(args, 1)
    size = Node(Op.CALL, args, "size")
    return Node(Op.CALL, (Node(Op.IS_NULL, args), literal(None, ty.NULL), size), "case")


def _decode(args: tuple[Node, ...]) -> Node:
    """Rewrite decode(value, search, result, ..., default), in which NULL equals NULL.

    A missing default is a STRING, which widens the type of the results.

    Source: Spark 4, `Decode.createExpr` in `stringExpressions.scala`.
    """
    if len(args) < 3:
        raise CannotJudge("decode of binary values is not understood")
    value, pairs = args[0], args[1:]
    default = pairs[-1] if len(pairs) % 2 else literal(None, ty.STRING)
    cases = [
        part
        for search, result in zip(pairs[::2], pairs[1::2], strict=False)
        for part in (Node(Op.NULL_SAFE_EQ, (value, search)), result)
    ]
    return Node(Op.CALL, (*cases, default), "case")


CONDITIONS: Final[dict[str, Rewrite]] = {
    "isnull": _is_null,
    "isnotnull": lambda args: Node(Op.NOT, (_is_null(args),)),
    "isnan": _is_nan,
    "equal_null": _same,
    "startswith": _affix("has_prefix", "", "%"),
    "starts_with": _affix("has_prefix", "", "%"),
    "endswith": _affix("has_suffix", "%", ""),
    "contains": _affix("has_part", "%", "%"),
    "like": _like,
    "ilike": _ilike,
    "rlike": _rlike,
    "regexp": _rlike,
    "regexp_like": _rlike,
}
SCALARS: Final[dict[str, Rewrite]] = {
    "nullif": _null_if,
    "nullifzero": _null_if_zero,
    "nvl2": _nvl2,
    "space": _space,
    "regexp_substr": _regexp_substr,
    "array_size": _array_size,
    "decode": _decode,
}
