"""CHAR(n): text that Spark pads with spaces to n characters when it reads and compares it.

Files and statistics hold the text as it was written, padded or not. A bound column is therefore
wrapped in a call that pads it, and comparisons pad their literals.

Source: Spark, `CharVarcharUtils`, `ApplyCharTypePadding`; seen in 4.1 and 4.3.
"""

from __future__ import annotations

from typing import Final

from skipstone.ir import types as ty
from skipstone.ir.functions.build import build
from skipstone.ir.node import Node, Op, literal
from skipstone.ir.session import Session
from skipstone.ir.types import DType, Leaf
from skipstone.ir.values import character_count

PADDED: Final = "char_padding"  # a column of type CHAR, whose comparisons pad both sides
VALUE: Final = "char_value"  # its padded value as plain text
# Before binding: the call that makes a CHAR column plain text. SQL text has no such name.
PLAIN: Final = "as value"
Member = tuple[DType, object]


def char_column(leaf: Leaf, column: Node, session: Session) -> Node:
    """Return a bound column as Spark reads it; fields of structs are plain text to comparisons."""
    name = PADDED if len(leaf.path) == 1 else VALUE
    return _padded(name, column, leaf.char_length, session)


def is_char(n: Node) -> bool:
    """Return True if a bound scalar is a column of type CHAR."""
    return n.op is Op.CALL and isinstance(n.value, tuple) and n.value[0] == PADDED


def stored(n: Node) -> Node:
    """Return the column below the padding; any other node unchanged."""
    while n.op is Op.CALL and isinstance(n.value, tuple) and n.value[0] in (PADDED, VALUE):
        n = n.args[0]
    return n


def as_value(n: Node) -> Node:
    """Return a scalar whose comparisons do not pad, as Spark sees the result of an expression."""
    if not is_char(n):
        return n
    assert isinstance(n.value, tuple)
    return Node(Op.CALL, n.args, (VALUE, *n.value[1:]), n.dtype)


def without_padding(n: Node) -> Node:
    """Return an unbound scalar that is compared as written: a side of BETWEEN and NULLIF."""
    return Node(Op.CALL, (n,), PLAIN) if n.op is Op.COLUMN else n


def same_length(a: Node, b: Node, session: Session) -> tuple[Node, Node]:
    """Pad both sides of a comparison of a CHAR column with another one or with a literal.

    Other expressions are compared unchanged.
    """
    for one, other in ((a, b), (b, a)):
        if is_char(one) and (is_char(other) or _is_text(other)):
            most = max(_length(one), _length(other))
            return _pad_to(a, most, session), _pad_to(b, most, session)
    return a, b


def in_list(
    column: Node, members: list[Member], session: Session, *, literals: bool
) -> tuple[Node, list[Member]]:
    """Pad a CHAR column and the members of its IN list to one length.

    Spark pads none of them if a member is not a literal, is a plain NULL, or has a type other than
    STRING.

    Args:
        column: The column.
        members: The literals of the list.
        session: The Spark settings.
        literals: Whether the list has no other members.
    """
    if not literals or any(t != ty.STRING for t, _ in members):
        return as_value(column), members
    nodes = [literal(v, t) for t, v in members]
    most = max(map(_length, (column, *(n for n in nodes if n.value is not None))))
    padded = [n if n.value is None else _pad_to(n, most, session) for n in nodes]
    return _pad_to(column, most, session), [(ty.STRING, n.value) for n in padded]


def _is_text(n: Node) -> bool:
    return n.op is Op.LITERAL and n.dtype == ty.STRING and n.value is not None


def _length(n: Node) -> int:
    if n.op is Op.LITERAL:
        assert isinstance(n.value, bytes)
        return character_count(n.value)
    assert isinstance(n.args[1].value, int)
    return n.args[1].value


def _pad_to(n: Node, length: int, session: Session) -> Node:
    if n.op is Op.LITERAL:
        assert isinstance(n.value, bytes)
        return literal(n.value + b" " * (length - character_count(n.value)), ty.STRING)
    return _padded(PADDED, n.args[0], length, session)


def _padded(name: str, column: Node, length: int, session: Session) -> Node:
    return build(name, (column, literal(length, ty.INT32)), session)
