"""Parse the statistics of a Delta log: JSON texts become Arrow structs.

A text that is not JSON, or a value of another type, only makes the statistics of its own file
unknown. (The package `deltalake` loses those of a whole batch to one such text.)
"""

from __future__ import annotations

import decimal
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skipstone.bindings.progress import Track
from skipstone.bindings.tables.delta.actions import parse_lines
from skipstone.bindings.tables.delta.fields import LeafField
from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, fill, scalar_of
from skipstone.kernels.decode.json_texts import compiled_or_start, read_texts
from skipstone.kernels.run.pool import ContextPool, threads

CHUNK: Final = 1 << 16  # texts in one parsing task
MIN_COMPILED: Final = 1 << 12  # with fewer texts, the compiled loop is not used
MIN_COMPILING: Final = 1 << 18  # with as many, parsing takes longer than compiling: about 2 s
LONG_EXPONENT: Final = re.compile(rb"[eE][+-]?[0-9]{3}")
MAX_EXPONENT: Final = 400  # powers of ten beyond which no type has a value
BISECT_PARTS: Final = 16  # parts into which a chunk with a malformed text is cut
BOUNDS: Final = ("minValues", "maxValues")


def statistics_type(leaves: Sequence[LeafField]) -> pa.StructType:
    """Return the type that a file's statistics are parsed into; its fields have physical names."""
    bounded = [
        (leaf.physical, kind) for leaf in leaves if (kind := json_type(leaf.type)) is not None
    ]
    counted = [(leaf.physical, pa.int64()) for leaf in leaves]
    fields = [("numRecords", pa.int64()), ("tightBounds", pa.bool_())]
    fields += [(name, nested(bounded)) for name in BOUNDS]
    return pa.struct([*fields, ("nullCount", nested(counted))])


def nested(columns: Sequence[tuple[tuple[str, ...], pa.DataType]]) -> pa.StructType:
    """Build a struct of structs from paths and their types.

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


def json_type(arrow_type: pa.DataType) -> pa.DataType | None:
    """Return the type that a column's bounds are parsed as.

    None means that the type has no order, or that JSON does not preserve it.
    """
    if pa.types.is_integer(arrow_type):
        return pa.int64()
    if pa.types.is_date(arrow_type) or pa.types.is_timestamp(arrow_type):
        return pa.string()
    if (
        pa.types.is_floating(arrow_type)
        or pa.types.is_decimal(arrow_type)
        or pa.types.is_string(arrow_type)
    ):
        return arrow_type
    return None


def parse_statistics(
    texts: pa.ChunkedArray | pa.Array, leaves: Sequence[LeafField]
) -> pa.ChunkedArray:
    """Parse statistics, one struct for each text; null where it is absent or malformed."""
    kind = statistics_type(leaves)
    floating = any(pa.types.is_floating(leaf.type) for leaf in leaves)
    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    parts = [chunk.slice(start, CHUNK) for chunk in chunks for start in range(0, len(chunk), CHUNK)]
    if len(texts) >= MIN_COMPILED and (len(texts) >= MIN_COMPILING or compiled_or_start()):
        read = _parse_compiled
    else:
        read = _parse_with_arrow
    with (
        Track("statistics", len(texts), "files") as track,
        ContextPool(threads(), "skipstone-log") as pool,
    ):
        read_parts = pool.map(lambda part: list(read(part, kind, floating)), parts)
        found = list(track.each(read_parts, map(len, parts)))
    return pa.chunked_array([rows for part in found for rows in part], kind)


def _lines(texts: pa.Array, floating: bool) -> bytes:
    """Return the texts as lines: one JSON object each, "{}" where a text is not an object."""
    texts = fill(texts, "{}")
    data = _joined(texts)
    # Each line must hold one object: Arrow reads two from a line that has two, none from a blank
    # one, and crashes on a block that begins with `null`.
    one_a_line = data.count(b"\n") == len(texts) - 1 and b"\r" not in data
    plain = one_a_line and pc.all(_are_objects(texts)).as_py()
    if plain and not (floating and (b'NaN"' in data or b'Infinity"' in data)):
        return data
    texts = pc.utf8_trim_whitespace(pc.replace_substring_regex(texts, r"[\r\n]", " "))
    texts = pc.if_else(_are_objects(texts), texts, scalar_of("{}", texts.type))
    if floating:  # NaN and infinities are strings; they become null, an unknown bound
        texts = pc.replace_substring_regex(texts, r':(\s*)"(?:NaN|[+-]?Infinity)"', r":\1null")
    return _joined(texts)


def _are_objects(texts: pa.Array) -> pa.Array:
    return pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))


def _joined(texts: pa.Array) -> bytes:
    buffer = pc.binary_join(
        pa.ListArray.from_arrays(arrow_of(np.array([0, len(texts)], np.int32)), texts),
        scalar_of("\n", texts.type),
    ).buffers()[2]
    return b"" if buffer is None else buffer.to_pybytes()


def _parse_compiled(
    texts: pa.Array, kind: pa.StructType, floating: bool
) -> Iterator[pa.StructArray]:
    """Parse texts by a compiled loop, and those whose form it does not know by Arrow's parser."""
    texts = fill(texts, "{}")
    try:
        found, unparsed = read_texts(texts, kind)
    except pa.ArrowInvalid:
        yield from _parse_with_arrow(texts, kind, floating)
        return
    if not unparsed.any():
        yield found
        return
    others = pa.chunked_array(
        list(_parse_with_arrow(pc.filter(texts, arrow_of(unparsed)), kind, floating)), kind
    ).combine_chunks()
    at = np.arange(len(texts))
    at[unparsed] = len(texts) + np.arange(len(others))
    yield pc.take(pa.concat_arrays([found, others]), arrow_of(at))


def _parse_with_arrow(
    texts: pa.Array, kind: pa.StructType, floating: bool
) -> Iterator[pa.StructArray]:
    n = len(texts)
    try:
        lines = _lines(texts, floating)
        if LONG_EXPONENT.search(lines) and _has_decimals(kind):
            raise pa.ArrowInvalid(
                "Arrow 26.0 crashes on some numbers, such as 1E-1000000000, when it parses decimals"
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
        yield pa.array([_parse_in_python(text, kind)], kind)
        return
    step = -(-n // BISECT_PARTS)
    for start in range(0, n, step):
        yield from _parse_with_arrow(texts.slice(start, step), kind, floating)


def _has_decimals(arrow_type: pa.DataType) -> bool:
    if pa.types.is_struct(arrow_type):
        return any(map(_has_decimals, (f.type for f in arrow_type)))
    return bool(pa.types.is_decimal(arrow_type))


def _parse_in_python(text: str, kind: pa.StructType) -> dict[str, Any] | None:
    """Return the usable values of one text; None if it is not a JSON object."""
    try:
        found = json.loads(text, parse_float=decimal.Decimal)
    except (ValueError, RecursionError):
        return None
    return _convert(found, kind) if isinstance(found, Mapping) else None


def _convert(found: Any, arrow_type: pa.DataType) -> Any:
    if pa.types.is_struct(arrow_type):
        if isinstance(found, Mapping):
            return {f.name: _convert(found.get(f.name), f.type) for f in arrow_type}
        return None
    if isinstance(found, bool) is not pa.types.is_boolean(arrow_type):
        return None
    if isinstance(found, decimal.Decimal) and abs(found.adjusted()) > MAX_EXPONENT:
        return None  # a conversion would write out all its digits
    if pa.types.is_floating(arrow_type) and isinstance(found, int | decimal.Decimal):
        found = float(found)
    try:
        value = pa.scalar(found, arrow_type).as_py()
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    # An infinity means that the number exceeds the type.
    return None if isinstance(value, float) and math.isinf(value) else value
