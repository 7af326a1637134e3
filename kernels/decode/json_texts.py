"""Parse JSON texts into columns: a compiled loop reads all texts that share a template.

The loop leaves escapes, numbers beyond 18 digits and rare layouts to a general parser.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, numbers_of
from skipstone.kernels.decode import json_loops
from skipstone.kernels.decode.json_loops import ANY, EXACT, NUMBER, TEXT, TRUTH, WHOLE
from skipstone.kernels.decode.spans import GATHER, Bytes, Longs, gathered
from skipstone.kernels.run import loops
from skipstone.kernels.run.loops import Loop, compiled

INNER: Final = (
    "skip_constant",
    "skip_digits",
    "skip_number",
    "has_no_exponent",
    "skip_text",
    "skip_keyword",
    "is_nan_or_infinity",
)
TEXTS: Final = Loop(
    json_loops,
    "read_texts",
    "i8(readonly, array, array, readonly, matrix, matrix, flags)",
    INNER,
)
# At most this many templates are tried on the texts of one part.
MAX_TEMPLATES: Final = 16
# If fewer texts than this remain, no further template is tried; nor if the last few templates fit
# less than this share of the texts, as for writers that order the keys of each object differently.
MIN_TEXTS: Final = 64
LAST_TEMPLATES, MIN_SHARE = 3, 1 / 16
PAD: Final = 72
TOKEN: Final = re.compile(
    rb'[ \t\n\r]*("(?:[^"\\\x00-\x1f]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null|[{}\[\],:])'
)

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TextTemplate:
    """A JSON text without its values.

    Attributes:
        constants: The bytes between values, concatenated.
        program: The program for `json_loops.read_texts`.
        paths: The path of each value; None if the value is not stored.
        objects: The paths of objects.
    """

    constants: Bytes
    program: Longs
    paths: tuple[Path | None, ...]
    objects: frozenset[Path]


def template_of(text: bytes, kind: pa.StructType) -> TextTemplate | None:
    """Return the template of a text.

    None means that it is not an object of objects, or that a value does not fit `kind`.
    """
    leaves = dict(_leaves(kind, ()))
    values = list[tuple[int, int, int, Path | None]]()
    keys = list[str | None]()
    last = 0
    seen, objects = set[Path](), set[Path]()
    key: str | None = None
    pos, expects = 0, "value"
    while pos < len(text):
        if (m := TOKEN.match(text, pos)) is None:
            break
        token, pos = m[1], m.end()
        path = tuple(k for k in keys[1:] if k is not None) + ((key,) if key is not None else ())
        match token, expects:
            case b"{", "value" if not keys or _struct(kind, path):
                keys.append(key)
                objects.add(path)
                key, expects = None, "key or end"
            case b"}", "key or end" | "more":
                key, expects = keys.pop(), "more" if keys else "nothing"
            case b",", "more":
                expects = "key"
            case b":", "colon":
                expects = "value"
            case _, "key" | "key or end" if token.startswith(b'"') and b"\\" not in token:
                key, expects = _text(token), "colon"
                path = (*(k for k in keys[1:] if k is not None), key or "")
                if key is None or path in seen:  # a dict holds one value per name
                    return None
                seen.add(path)
            case _, "value" if keys and token not in b"{}[],:" and not _struct(kind, path):
                values.append(
                    (leaves.get(path, ANY), last, m.start(1), path if path in leaves else None)
                )
                last, expects = pos, "more"
            case _:
                return None
    if expects != "nothing" or text[pos:].strip(b" \t\n\r"):
        return None
    values.append((ANY, last, len(text), None))
    constants, program = b"", []
    for what, first, stop, _ in values:
        program.append((what, len(constants), len(constants) + stop - first))
        constants += text[first:stop]
    return TextTemplate(
        np.frombuffer(constants, np.uint8),
        np.array(program, np.int64),
        tuple(p for *_, p in values[:-1]),
        frozenset(objects),
    )


def _text(token: bytes) -> str | None:
    try:
        return str(json.loads(token))
    except ValueError:
        return None


def _struct(arrow_type: pa.DataType, path: Path) -> bool:
    for name in path:
        if not pa.types.is_struct(arrow_type) or arrow_type.get_field_index(name) < 0:
            return False
        arrow_type = arrow_type.field(name).type
    return bool(pa.types.is_struct(arrow_type))


def _leaves(kind: pa.StructType, above: Path) -> Iterator[tuple[Path, int]]:
    for f in kind:
        if pa.types.is_struct(f.type):
            yield from _leaves(f.type, (*above, f.name))
        else:
            t = pa.types
            kinds = (
                (t.is_integer, WHOLE),
                (t.is_boolean, TRUTH),
                (t.is_string, TEXT),
                (t.is_decimal, EXACT),
            )
            yield (*above, f.name), next((what for is_it, what in kinds if is_it(f.type)), NUMBER)


def compiled_or_start() -> bool:
    """Return True if the loops are compiled; otherwise start compiling them in the background."""
    return all([loops.compiled_or_start(TEXTS), loops.compiled_or_start(GATHER)])


def read_texts(
    texts: pa.StringArray, kind: pa.StructType
) -> tuple[pa.StructArray, npt.NDArray[np.bool_]]:
    """Parse JSON texts into structs.

    Args:
        texts: JSON texts, none NULL, in one array.
        kind: A struct of whole numbers (int64), numbers, strings and booleans. Other keys of an
            object are skipped.

    Returns:
        The structs, and the mask of texts that need another parser; these are NULL.

    Raises:
        ArrowInvalid: a number does not fit its type.
    """
    n = len(texts)
    _, offset_buffer, buffer = texts.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, n + 1, texts.offset * 4).astype(np.int64)
    data = np.frombuffer(buffer, np.uint8) if buffer is not None else np.zeros(0, np.uint8)
    remaining, done, parts = np.arange(n), list[Longs](), list[pa.StructArray]()
    for _ in range(MAX_TEMPLATES):
        if not len(remaining) or (len(remaining) < MIN_TEXTS and done):
            break
        last = done[-LAST_TEMPLATES:]
        if len(last) == LAST_TEMPLATES and sum(map(len, last)) < MIN_SHARE * n:
            break
        first = data[offsets[remaining[0]] : offsets[remaining[0] + 1]].tobytes()
        template = template_of(first, kind)
        if template is None:
            remaining = remaining[1:]
            continue
        # Rows of a power of two in length would all start in one set of the cache.
        out = np.empty((2 * len(template.paths), len(remaining) + PAD), np.int64)
        odd = np.empty(len(remaining), np.bool_)
        other = compiled(TEXTS)(
            data, offsets, remaining, template.constants, template.program, out, odd
        )
        chosen = slice(len(remaining)) if not other else np.flatnonzero(~odd)
        slots = {
            path: (out[2 * i][chosen], out[2 * i + 1][chosen])
            for i, path in enumerate(template.paths)
            if path is not None
        }
        parts.append(_struct_array(kind, (), template.objects, slots, data, len(remaining) - other))
        done.append(remaining[chosen])
        # If the loop refused the first text, drop it: `template_of` accepts more than the loop.
        remaining = remaining[odd][int(odd[0]) :]
    rest = np.zeros(n, np.bool_)
    rest[
        np.setdiff1d(np.arange(n), np.concatenate(done), assume_unique=True)
        if done
        else slice(None)
    ] = True
    if len(done) == 1 and not rest.any():
        return parts[0], rest
    order = np.concatenate([*done, np.flatnonzero(rest)])
    back = np.empty(n, np.int64)
    back[order] = np.arange(n)
    whole = pa.concat_arrays([*parts, pa.nulls(int(rest.sum()), kind)])
    return pc.take(whole, arrow_of(back)), rest


def _struct_array(
    kind: pa.StructType,
    above: Path,
    objects: frozenset[Path],
    slots: Mapping[Path, tuple[Longs, Longs]],
    data: Bytes,
    n: int,
) -> pa.StructArray:
    columns: list[pa.Array] = []
    for f in kind:
        path = (*above, f.name)
        if pa.types.is_struct(f.type):
            columns.append(
                _struct_array(f.type, path, objects, slots, data, n)
                if path in objects
                else pa.nulls(n, f.type)
            )
        elif path not in slots:
            columns.append(pa.nulls(n, f.type))
        else:
            columns.append(_column(f.type, *slots[path], data))
    if columns:
        return pa.StructArray.from_arrays(columns, fields=list(kind))
    return pa.array([{}] * n, kind)


def _column(arrow_type: pa.DataType, first: Longs, second: Longs, data: Bytes) -> pa.Array:
    known = second >= 0
    if pa.types.is_integer(arrow_type):
        return arrow_of(first.copy(), known)  # a view would keep the slots of all columns alive
    if pa.types.is_boolean(arrow_type):
        return arrow_of(first != 0, known)
    texts = gathered(data, first, second, None if known.all() else known).view(pa.string())
    found = pc.cast(texts, arrow_type)
    if pa.types.is_floating(arrow_type) and np.isinf(numbers_of(found)).any():  # exceeds the type
        found = pc.if_else(pc.is_inf(found), None, found)
    return found
