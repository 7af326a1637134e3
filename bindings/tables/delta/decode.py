"""Statistics of a Delta log as Arrow: texts of JSON become structs, a file's statistics at a time where one is malformed.

A text that is no JSON, or a value of another type, costs that file's statistics and no others: the
package `deltalake` loses those of a whole batch to one of them.
"""

from __future__ import annotations

import decimal
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skipstone.bindings.tables.delta.actions import parse_lines
from skipstone.bindings.tables.delta.fields import LeafField
from skipstone.kernels.decode.json_texts import at_hand, read_texts
from skipstone.kernels.run.pool import threads

CHUNK: Final = 1 << 16  # files whose texts are parsed at a time
SMALL: Final = 1 << 12  # texts for which nothing is compiled
MANY: Final = 1 << 18  # texts that take longer than compiling does, some 2 s
EXPONENT: Final = re.compile(rb"[eE][+-]?[0-9]{3}")
LARGE: Final = 400  # powers of ten that no type has
APART: Final = 16  # parts that a chunk with a malformed text is cut into
BOUNDS: Final = ("minValues", "maxValues")


def struct_of(leaves: Sequence[LeafField]) -> pa.StructType:
    """The type of a file's statistics, by physical names, as they are read from JSON."""
    bounded = [
        (leaf.physical, kind) for leaf in leaves if (kind := json_type(leaf.type)) is not None
    ]
    counted = [(leaf.physical, pa.int64()) for leaf in leaves]
    fields = [("numRecords", pa.int64()), ("tightBounds", pa.bool_())]
    fields += [(name, nested(bounded)) for name in BOUNDS]
    return pa.struct([*fields, ("nullCount", nested(counted))])


def nested(columns: Sequence[tuple[tuple[str, ...], pa.DataType]]) -> pa.StructType:
    """A struct of structs from paths.

    Example:
        >>> nested([(("a", "b"), pa.int64()), (("c",), pa.string())])
        StructType(struct<a: struct<b: int64>, c: string>)
    """
    heads: dict[str, list[tuple[tuple[str, ...], pa.DataType]]] = {}
    for path, kind in columns:
        heads.setdefault(path[0], []).append((path[1:], kind))
    return pa.struct(
        [
            (head, below[0][1] if below[0][0] == () else nested(below))
            for head, below in heads.items()
        ]
    )


def json_type(kind: pa.DataType) -> pa.DataType | None:
    """How a column's bounds are read from JSON; None: they have no order, or none that JSON keeps."""
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_string(kind):
        return kind
    return None


def parsed(texts: pa.ChunkedArray | pa.Array, leaves: Sequence[LeafField]) -> pa.ChunkedArray:
    """Statistics from their JSON, one struct for each text; null where there is none that can be read."""
    kind = struct_of(leaves)
    floating = any(pa.types.is_floating(leaf.type) for leaf in leaves)
    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    parts = [chunk.slice(start, CHUNK) for chunk in chunks for start in range(0, len(chunk), CHUNK)]
    read = _read if len(texts) >= SMALL and (len(texts) >= MANY or at_hand()) else _parse
    with ThreadPoolExecutor(threads(), "skipstone-log") as pool:
        found = list(pool.map(lambda part: list(read(part, kind, floating)), parts))
    return pa.chunked_array([rows for part in found for rows in part], kind)


def _lines(texts: pa.Array, floating: bool) -> bytes:
    """A line for each text."""
    texts = pc.fill_null(texts, "{}") if texts.null_count else texts
    data = _joined(texts)
    # One object in each line: Arrow reads two from a line, none from a blank one, and dies of a block that begins with `null`.
    objects = pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))
    plain = data.count(b"\n") == len(texts) - 1 and b"\r" not in data and pc.all(objects).as_py()
    if plain and not (floating and (b'NaN"' in data or b'Infinity"' in data)):
        return data
    texts = pc.utf8_trim_whitespace(pc.replace_substring_regex(texts, r"[\r\n]", " "))
    texts = pc.if_else(pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}")), texts, "{}")
    if floating:  # NaN and infinities, which stand as strings, become null: a bound that is unknown
        texts = pc.replace_substring_regex(texts, r':(\s*)"(?:NaN|[+-]?Infinity)"', r":\1null")
    return _joined(texts)


def _joined(texts: pa.Array) -> bytes:
    buffer = pc.binary_join(
        pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts), "\n"
    ).buffers()[2]
    return b"" if buffer is None else buffer.to_pybytes()


def _read(texts: pa.Array, kind: pa.StructType, floating: bool) -> Iterator[pa.StructArray]:
    """Texts of few forms by a loop for those; others, and what it leaves, by a parser of JSON."""
    texts = pc.fill_null(texts, "{}") if texts.null_count else texts
    try:
        found, left = read_texts(texts, kind)
    except pa.ArrowInvalid:
        yield from _parse(texts, kind, floating)
        return
    if not left.any():
        yield found
        return
    others = pa.chunked_array(
        list(_parse(texts.filter(pa.array(left)), kind, floating)), kind
    ).combine_chunks()
    at = np.arange(len(texts))
    at[left] = len(texts) + np.arange(len(others))
    yield pa.concat_arrays([found, others]).take(pa.array(at))


def _parse(texts: pa.Array, kind: pa.StructType, floating: bool) -> Iterator[pa.StructArray]:
    n = len(texts)
    try:
        lines = _lines(texts, floating)
        if EXPONENT.search(lines) and _has_decimals(kind):
            raise pa.ArrowInvalid(
                "Arrow ends the process on some numbers, such as 1E-1000000000, that are to be decimals (26.0)"
            )
        table = parse_lines(lines, pa.schema(list(kind)))
        if table.num_rows == n:
            yield from table.to_struct_array().chunks
            return
    except (pa.ArrowInvalid, UnicodeDecodeError):
        pass
    if n == 1:
        try:
            text = texts[0].as_py() or "{}"
        except UnicodeDecodeError:
            text = "{}"
        yield pa.array([_by_hand(text, kind)], kind)
        return
    step = -(-n // APART)
    for start in range(0, n, step):
        yield from _parse(texts.slice(start, step), kind, floating)


def _has_decimals(kind: pa.DataType) -> bool:
    return (
        any(map(_has_decimals, (f.type for f in kind)))
        if pa.types.is_struct(kind)
        else bool(pa.types.is_decimal(kind))
    )


def _by_hand(text: str, kind: pa.StructType) -> dict[str, Any] | None:
    """What can be used of one text; None: it is no JSON object."""
    try:
        found = json.loads(text, parse_float=decimal.Decimal)
    except (ValueError, RecursionError):
        return None
    return _fitting(found, kind) if isinstance(found, Mapping) else None


def _fitting(found: Any, kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        return (
            {f.name: _fitting(found.get(f.name), f.type) for f in kind}
            if isinstance(found, Mapping)
            else None
        )
    if isinstance(found, bool) is not pa.types.is_boolean(kind):
        return None
    if (
        isinstance(found, decimal.Decimal) and abs(found.adjusted()) > LARGE
    ):  # it would be written out
        return None
    if pa.types.is_floating(kind) and isinstance(found, int | decimal.Decimal):
        found = float(found)
    try:
        value = pa.scalar(found, kind).as_py()
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    return (
        None if isinstance(value, float) and math.isinf(value) else value
    )  # more than the type holds
