"""Columns of type CHAR(n), of any depth: note them on Arrow fields, and pad their values.

Spark records the type as text in a column's metadata, and pads the values as it reads.
"""

from __future__ import annotations

import re
from typing import Any, Final

import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir.arrow import plain
from skipstone.ir.types import CHAR, NOTE

TOKEN: Final = re.compile(r"`(?:[^`]|``)*`|[^<>:,()\s`]+|[<>:,()]")
CHAR_KEY: Final = "__CHAR_VARCHAR_TYPE_STRING"  # Spark's key, in a column's metadata
_NAMES: Final = {
    pa.struct([]).id: "struct",
    pa.list_(pa.null()).id: "array",
    pa.map_(pa.int8(), pa.int8()).id: "map",
}


def declared(metadata: Any) -> str:
    """Return the type that Spark recorded for a column that holds CHAR; "" for all others."""
    kind = str((metadata or {}).get(CHAR_KEY, ""))
    return kind if "char(" in kind.lower().replace("varchar(", "") else ""


def with_char(field: pa.Field, kind: str) -> pa.Field:
    """Return a field with notes on all parts that are CHAR.

    Args:
        field: The field.
        kind: Its type as Spark recorded it, such as "struct<a:char(3)>".

    Raises:
        ValueError: the text is not the type of the field.

    Example:
        >>> with_char(pa.field("c", pa.string()), "char(5)").metadata
        {b'skipstone.type': b'CHAR(5)'}
    """
    tokens = TOKEN.findall(kind)
    noted = _noted(field, tokens)
    if tokens:
        raise ValueError(f"{kind!r:.200} is not the type of {field.type!s:.200}")
    return noted


def _noted(field: pa.Field, tokens: list[str]) -> pa.Field:
    """Return a field with the notes of the type at the start of `tokens`, which is taken off."""
    name, t = _next(tokens).lower(), field.type
    size = _size(tokens)
    if name == "char" and size and not pa.types.is_nested(t):
        return field.with_metadata({**(field.metadata or {}), NOTE: f"CHAR({size})"})
    if not pa.types.is_nested(t):
        return field
    if name != _NAMES.get(t.id):
        raise ValueError(f"found {name!r:.100}; expected a type like {t!s:.200}")
    map_ = name == "map"
    inner = [t.key_field, t.item_field] if map_ else [t.field(i) for i in range(t.num_fields)]
    _expect(tokens, "<")
    parts = []
    for i, part in enumerate(inner):
        if i:
            _expect(tokens, ",")
        if name == "struct":
            _next(tokens)  # the name
            _expect(tokens, ":")
        parts.append(_noted(part, tokens))
    _expect(tokens, ">")
    if name == "struct":
        return field.with_type(pa.struct(parts))
    return field.with_type(pa.list_(*parts) if name == "array" else pa.map_(*parts))


def _next(tokens: list[str]) -> str:
    if not tokens:
        raise ValueError("the text ends within a type")
    return tokens.pop(0)


def _expect(tokens: list[str], token: str) -> None:
    if (found := _next(tokens)) != token:
        raise ValueError(f"found {found!r:.100}; expected {token!r}")


def _size(tokens: list[str]) -> int:
    """Take off the arguments of a type; return the first of them, or 0."""
    if not tokens or tokens[0] != "(":
        return 0
    size, end = tokens[1] if len(tokens) > 1 else "", tokens.index(")") if ")" in tokens else -1
    if end < 2 or not size.isdecimal():
        raise ValueError(f"found {size!r:.100}; expected a number")
    del tokens[: end + 1]
    return int(size)


def holds_char(field: pa.Field) -> bool:
    """Return True if a field, or a part of it, is CHAR."""
    if CHAR.fullmatch((field.metadata or {}).get(NOTE, b"")):
        return True
    t = field.type
    return pa.types.is_nested(t) and any(holds_char(t.field(i)) for i in range(t.num_fields))


def padded(values: pa.Array, field: pa.Field) -> pa.Array:
    """Pad values of type CHAR to their length, as Spark does when it reads them.

    Args:
        values: The values of a column, of the type of `field`.
        field: The column.

    Example:
        >>> padded(pa.array(["ab"]), with_char(pa.field("c", pa.string()), "char(5)"))[0].as_py()
        'ab   '
    """
    if not holds_char(field):
        return values
    t = field.type
    if not pa.types.is_nested(t):
        m = CHAR.fullmatch(field.metadata[NOTE])
        assert m is not None
        return pc.utf8_rpad(plain(values).cast(t), int(m[1]))
    whole = pa.concat_arrays([values]) if values.offset else values
    if pa.types.is_struct(t):
        parts = [padded(whole.field(i), t.field(i)) for i in range(t.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=list(t), mask=whole.is_null())
    if pa.types.is_map(t):
        keys, items = padded(whole.keys, t.key_field), padded(whole.items, t.item_field)
        return pa.MapArray.from_arrays(
            whole.offsets, keys, items, type=t, mask=whole.is_null() if whole.null_count else None
        )
    mask = whole.is_null() if whole.null_count else None
    return pa.ListArray.from_arrays(
        whole.offsets, padded(whole.values, t.value_field), type=t, mask=mask
    )
