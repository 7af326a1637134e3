"""Partition values in the names of Hive folders: their texts, inferred types and values.

Source: Spark, `PartitioningUtils`. It infers types from the escaped texts of the path, with their
percent signs; only timestamps are unescaped first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import cache, reduce
from typing import Final

import pyarrow as pa

from skipstone.bindings.tables.partition_values import (
    clock_of,
    is_clock,
    partition_values,
    why_no_value,
)
from skipstone.ir import compute as pc
from skipstone.ir.arrow import python_array
from skipstone.ir.errors import SourceError
from skipstone.kernels.decode.arrays import texts as texts_of

HIVE_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
INSTANT: Final = pa.timestamp("us", "UTC")
Texts = Mapping[str, str | None]

_INTEGER = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DOUBLE = re.compile(r"[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?)")
_HEX_DOUBLE = re.compile(r"[+-]?0[xX](?=\.?[0-9a-fA-F])[0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][+-]?\d+")
_TIMESTAMP = re.compile(r".+ \d\d:\d\d:\d\d(\.\d)?")  # one digit of a fraction
_JAVA_BLANKS: Final = "".join(map(chr, range(33)))  # characters that Java's parseDouble trims


def partition_texts(path: str, base: str) -> dict[str, str | None]:
    """Return the partition texts in a path below `base`, still escaped; None is NULL.

    Args:
        path: The path of a file.
        base: The folder below which folders `key=value` count.

    Example:
        >>> partition_texts("/t/day=2013-01-01/to=a%2Fb/x.parquet", "/t")
        {'day': '2013-01-01', 'to': 'a%2Fb'}
    """
    folders = path.removeprefix(base.rstrip("/")).strip("/").split("/")[:-1]
    return dict(map(pair_of, (f for f in folders if "=" in f)))


def pair_of(folder: str) -> tuple[str, str | None]:
    """Split a folder's name `key=value` into the column and its escaped text; None is NULL."""
    key, _, text = folder.partition("=")
    return unescaped(key), None if text == HIVE_NULL else text


def unescaped(text: str) -> str:
    """Decode the percent escapes of a text, as UTF-8 if possible, else byte by byte.

    Writers that escape more than ASCII mean UTF-8. Spark always decodes byte by byte, and itself
    escapes ASCII only. A percent sign without two digits after it stays a percent sign.

    Example:
        >>> unescaped("a%2Fb"), unescaped("Z%C3%BCrich"), unescaped("%FF"), unescaped("100%")
        ('a/b', 'Zürich', 'ÿ', '100%')
    """

    def decode(match: re.Match[str]) -> str:
        data = bytes.fromhex(match[0].replace("%", ""))
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data.decode("latin-1")

    return re.sub(r"(?:%[0-9a-fA-F]{2})+", decode, text) if "%" in text else text


# Types.


def partition_fields(
    folders: Iterable[tuple[str, Texts]],
    given: Mapping[str, pa.DataType] | None = None,
    *,
    infer: bool = True,
) -> list[pa.Field]:
    """Return the partition columns with their types, given or inferred.

    Args:
        folders: Path and texts of each folder that holds files.
        given: Types of some columns, by name in any case.
        infer: True to infer the other types as Spark does: INT, BIGINT, DECIMAL, DOUBLE, DATE,
            TIMESTAMP (in the session's zone), else STRING. False: they are STRING.

    Raises:
        SourceError: folders have different partition columns.
    """
    texts: dict[str, set[str]] = {}
    first: tuple[str, Texts] | None = None
    for path, own in folders:
        first = first or (path, own)
        if [k.lower() for k in own] != [k.lower() for k in first[1]]:
            raise SourceError(
                f"{path} has {_names(own)}, and {first[0]} has {_names(first[1])}; expected the "
                "same in all folders of one table: scan each table by itself"
            )
        for k, v in zip(first[1], own.values(), strict=True):
            texts.setdefault(k, set()).update(() if v is None else (v,))
    types = {k.lower(): t for k, t in (given or {}).items()}
    return [
        pa.field(
            k,
            types.get(k.lower()) or (common_type(values) if infer else pa.string()),
            nullable=True,
        )
        for k, values in texts.items()
    ]


def _names(texts: Iterable[str]) -> str:
    names = ", ".join(texts)
    return f"the partition columns {names}" if names else "no partition columns"


def common_type(texts: Iterable[str]) -> pa.DataType:
    """Return the type that Spark infers for a column of these texts.

    Example:
        >>> str(common_type(["1", "2.5"])), str(common_type(["1", "2013-01-01"]))
        ('double', 'string')
    """
    kinds = {type_of(t) for t in texts}
    return reduce(_wider, sorted(kinds, key=str)) if kinds else pa.string()


@cache
def type_of(text: str) -> pa.DataType:
    """Return the type that Spark infers for one text.

    Source: Spark, `PartitioningUtils.inferPartitionColumnValue`.
    """
    if _INTEGER.fullmatch(text) and -(2**63) <= int(text) < 2**63:
        return pa.int32() if -(2**31) <= int(text) < 2**31 else pa.int64()
    if _DECIMAL.fullmatch(text) and (digits := _whole_digits(text)) is not None:
        return pa.decimal128(digits, 0)
    if _double(text) is not None:
        return pa.float64()
    if _TIMESTAMP.fullmatch(unescaped(text)) and is_clock(unescaped(text)):
        return INSTANT
    return pa.date32() if clock_of(text, "D") is not None else pa.string()


def _whole_digits(text: str) -> int | None:
    """Count the digits of a number; None if it is spelled with a fraction or has more than 38."""
    try:
        _, digits, scale = Decimal(text).as_tuple()
    except InvalidOperation:
        return None
    if not isinstance(scale, int) or scale < 0:
        return None
    whole = (len(str(int("".join(map(str, digits))))) if any(digits) else 1) + scale
    return whole if whole <= 38 else None


def _double(text: str) -> float | None:
    text = text.strip(_JAVA_BLANKS)
    if _HEX_DOUBLE.fullmatch(text):
        return float.fromhex(text)
    if _DOUBLE.fullmatch(text):
        return float(text.rstrip("fFdD") if text[-1:] in "fFdD" else text)
    return None


def _wider(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """Return the common type of two types.

    The common type of several types does not depend on their order; STRING absorbs all others.

    Source: Spark, `PartitioningUtils.findWiderTypeForPartitionColumn`.
    """
    if a == b:
        return a
    digits = [_digits(t) for t in (a, b)]
    if None not in digits:
        widest = max(digits)  # type: ignore[type-var]
        if pa.types.is_decimal(a) or pa.types.is_decimal(b):
            return pa.decimal128(widest, 0)
        return pa.int64()
    if {a, b} == {pa.int32(), pa.float64()}:
        return pa.float64()
    return INSTANT if {a, b} == {pa.date32(), INSTANT} else pa.string()


def _digits(t: pa.DataType) -> int | None:
    return {pa.int32(): 10, pa.int64(): 20}.get(t) or (
        t.precision if pa.types.is_decimal(t) else None
    )


# Values.


def partition_column(
    folders: Sequence[tuple[str, Texts]], field: pa.Field, timezone: str = "UTC"
) -> pa.Array:
    """Return the values of a partition column, one per folder.

    Args:
        folders: Path and texts of each of n folders.
        field: The column.
        timezone: The zone in which timestamps without a zone are read.

    Returns:
        Array of the field's type, length n.

    Raises:
        SourceError: a text is not a value of the type.
    """
    name = field.name.lower()
    texts = [next(v for k, v in own.items() if k.lower() == name) for _, own in folders]
    plain = [None if t is None else unescaped(t) for t in texts]
    if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
        return python_array(plain, field.type)
    if pa.types.is_float64(field.type):
        values = python_array([None if t is None else _double(t) for t in texts], field.type)
    else:
        cast, _ = partition_values(
            texts_of([_spelled(t, field.type) for t in plain]), field.type, timezone
        )
        values = cast.combine_chunks()
    for (path, _), text, valid in zip(folders, plain, pc.is_valid(values).to_pylist(), strict=True):
        if text is not None and not valid:
            raise SourceError(
                f"{path}: the partition value {field.name}={text!r} "
                f"{why_no_value(text, field.type, timezone)}; rename the folder, or give another "
                f"type, such as partition_schema={{{field.name!r}: pa.string()}}"
            )
    return values


def values_of_folders(
    folders: Iterable[tuple[str, Texts]], fields: Sequence[pa.Field], timezone: str
) -> dict[str, dict[str, pa.Scalar]]:
    """Return the values of partition columns, column -> value, by the path of each folder.

    Args:
        folders: Path and texts of each folder; folders may repeat.
        fields: The columns.
        timezone, errors: As for `partition_column`.
    """
    distinct = dict(folders)
    columns = {f.name: partition_column(list(distinct.items()), f, timezone) for f in fields}
    return {
        path: {name: values[i] for name, values in columns.items()}
        for i, path in enumerate(distinct)
    }


def _spelled(text: str | None, arrow_type: pa.DataType) -> str | None:
    """Return a text as Arrow's casts accept it: ASCII digits, decimals without an exponent."""
    if text is None or not (pa.types.is_integer(arrow_type) or pa.types.is_decimal(arrow_type)):
        return text
    if _INTEGER.fullmatch(text):
        return str(int(text))
    if pa.types.is_decimal(arrow_type) and _DECIMAL.fullmatch(text):
        return format(Decimal(text), "f")
    return text
