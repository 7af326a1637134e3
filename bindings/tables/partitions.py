"""Hive partition folders: the texts in their names, the types that these have in common, and their values.

Source: Spark, `PartitioningUtils`. It infers types from texts as they stand in the path, percent signs and all, but for timestamps.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import cache, reduce
from typing import Final

import pyarrow as pa

from skipstone.bindings.tables.delta.columns import partition_values
from skipstone.ir.errors import SourceError

HIVE_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
INSTANT: Final = pa.timestamp("us", "UTC")
Texts = Mapping[str, str | None]

_INTEGER = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DOUBLE = re.compile(r"[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?)")
_HEX_DOUBLE = re.compile(r"[+-]?0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][+-]?\d+")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(\.\d)?")
_JAVA_BLANKS: Final = "".join(map(chr, range(33)))  # what Java's parseDouble trims


def partition_of(path: str, base: str) -> dict[str, str | None]:
    """The partition texts in a path below `base`, as they stand there; None is NULL.

    Example:
        >>> partition_of("/t/day=2013-01-01/to=a%2Fb/x.parquet", "/t")
        {'day': '2013-01-01', 'to': 'a%2Fb'}
    """
    folders = path.removeprefix(base.rstrip("/")).strip("/").split("/")[:-1]
    return dict(map(pair_of, (f for f in folders if "=" in f)))


def pair_of(folder: str) -> tuple[str, str | None]:
    """The column and the text in a folder's name."""
    key, _, text = folder.partition("=")
    return unescaped(key), None if text == HIVE_NULL else text


def unescaped(text: str) -> str:
    """A text with its percent signs decoded: as UTF-8, like writers that escape more than ASCII mean it, or else byte by byte.

    Spark decodes byte by byte always, and escapes no more than ASCII itself. A percent sign without two digits is one.

    Example:
        >>> unescaped("a%2Fb"), unescaped("Z%C3%BCrich"), unescaped("%FF"), unescaped("100%")
        ('a/b', 'Zürich', 'ÿ', '100%')
    """

    def decode(found: re.Match[str]) -> str:
        data = bytes.fromhex(found[0].replace("%", ""))
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
    """The partition columns, with given types or those that their values have in common.

    Args:
        folders: Path and texts of each folder that holds files.
        given: Types that are known, by name in any case.
        infer: Whether the others are inferred as Spark does: INT, BIGINT, DECIMAL, DOUBLE, DATE, TIMESTAMP (in the session's
            zone), else STRING; if not, they are STRING.

    Raises:
        SourceError: folders have different partition columns.
    """
    texts: dict[str, set[str]] = {}
    first: tuple[str, Texts] | None = None
    for path, own in folders:
        first = first or (path, own)
        if [k.lower() for k in own] != [k.lower() for k in first[1]]:
            raise SourceError(
                f"{path} has the partition columns {_names(own)}, and {first[0]} has {_names(first[1])}; expected the same in all files"
            )
        for k, v in zip(first[1], own.values(), strict=True):
            texts.setdefault(k, set()).update(() if v is None else (v,))
    types = {k.lower(): t for k, t in (given or {}).items()}
    return [
        pa.field(
            k, types.get(k.lower()) or (common_type(found) if infer else pa.string()), nullable=True
        )
        for k, found in texts.items()
    ]


def _names(texts: Iterable[str]) -> str:
    return ", ".join(texts) or "none"


def common_type(texts: Iterable[str]) -> pa.DataType:
    """The type that Spark gives to a column of these texts.

    Example:
        >>> str(common_type(["1", "2.5"])), str(common_type(["1", "2013-01-01"]))
        ('double', 'string')
    """
    kinds = {type_of(t) for t in texts}
    return reduce(_wider, sorted(kinds, key=str)) if kinds else pa.string()


@cache
def type_of(text: str) -> pa.DataType:
    """The type that Spark gives to one text.

    Source: Spark, `PartitioningUtils.inferPartitionColumnValue`.
    """
    if _INTEGER.fullmatch(text) and -(2**63) <= int(text) < 2**63:
        return pa.int32() if -(2**31) <= int(text) < 2**31 else pa.int64()
    if _DECIMAL.fullmatch(text) and (digits := _whole_digits(text)) is not None:
        return pa.decimal128(digits, 0)
    if _double(text) is not None:
        return pa.float64()
    if _TIMESTAMP.fullmatch(unescaped(text)) and _is_time(unescaped(text)):
        return INSTANT
    return pa.date32() if _DATE.fullmatch(text) and _is_time(text) else pa.string()


def _whole_digits(text: str) -> int | None:
    """The digits of a number without a fraction in its spelling; None: it has one, or more than 38 digits."""
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
    return (
        float(text.rstrip("fFdD") if text[-1:] in "fFdD" else text)
        if _DOUBLE.fullmatch(text)
        else None
    )


def _is_time(text: str) -> bool:
    try:
        dt.datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _wider(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """The type of two; sets of types have one whatever their order, but that STRING absorbs all.

    Source: Spark, `PartitioningUtils.findWiderTypeForPartitionColumn`.
    """
    if a == b:
        return a
    digits = [_digits(t) for t in (a, b)]
    if None not in digits:
        most = max(digits)  # type: ignore[type-var]
        return (
            pa.decimal128(most, 0)
            if pa.types.is_decimal(a) or pa.types.is_decimal(b)
            else pa.int64()
        )
    if {a, b} == {pa.int32(), pa.float64()}:
        return pa.float64()
    return INSTANT if {a, b} == {pa.date32(), INSTANT} else pa.string()


def _digits(t: pa.DataType) -> int | None:
    return {pa.int32(): 10, pa.int64(): 20}.get(t) or (
        t.precision if pa.types.is_decimal(t) else None
    )


# Values.


def values_of(
    folders: Sequence[tuple[str, Texts]], field: pa.Field, timezone: str = "UTC"
) -> pa.Array:
    """The value of a partition column in each of some folders.

    Args:
        folders: Path and texts of each.
        field: The column.
        timezone: What timestamps without a zone are read in.

    Raises:
        SourceError: a text is not a value of the type.
    """
    name = field.name.lower()
    texts = [next(v for k, v in own.items() if k.lower() == name) for _, own in folders]
    plain = [None if t is None else unescaped(t) for t in texts]
    if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
        return pa.array(plain, field.type)
    if pa.types.is_float64(field.type):
        read = pa.array([None if t is None else _double(t) for t in texts], field.type)
    else:
        found, _ = partition_values(
            pa.array([_spelled(t, field.type) for t in plain], pa.string()), field.type, timezone
        )
        read = found.combine_chunks()
    for (path, _), text, known in zip(folders, plain, read.is_valid().to_pylist(), strict=True):
        if text is not None and not known:
            raise SourceError(
                f"{path}: the partition value {field.name}={text!r} is not a {field.type}; give its type "
                f"by partition_schema={{{field.name!r}: ...}}, such as pa.string()"
            )
    return read


def _spelled(text: str | None, kind: pa.DataType) -> str | None:
    """A text as Arrow's casts read it: digits in ASCII, decimals without an exponent."""
    if text is None or not (pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
        return text
    if _INTEGER.fullmatch(text):
        return str(int(text))
    return (
        format(Decimal(text), "f")
        if pa.types.is_decimal(kind) and _DECIMAL.fullmatch(text)
        else text
    )
