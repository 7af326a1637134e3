"""Types, and the axis of each: the ordered line on which its values and bounds are compared.

Integers, dates (days), times of day and timestamps (in their unit), decimals (unscaled digits) and
booleans lie on an axis of Python integers. Floats lie on an axis of floats without NaN. Strings and
binary lie on an axis of bytes, whose order is Spark's. After `bind`, all code uses axis values.
"""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa

from skipstone.ir.node import Path

EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
NAIVE_EPOCH: Final = dt.datetime(1970, 1, 1)
EPOCH_DAY: Final = 719_163  # the ordinal of 1970-01-01 in Python
FIRST_DATE, LAST_DATE = -719_162, 2_932_896  # the days of the years 1 to 9999, which Python has
PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
# Enough digits for all that is computed here; the program's own context may have any precision.
_TRAPS: Final = [decimal.InvalidOperation, decimal.Overflow]
EXACT: Final = decimal.Context(100, decimal.ROUND_HALF_EVEN, -9999, 9999, traps=_TRAPS)


class Kind(enum.Enum):
    """Families of types that share an axis and coercion rules."""

    __hash__ = object.__hash__  # as in `Op`

    NULL = "void"
    BOOL = "boolean"
    INT = "int"
    UINT = "uint"
    FLOAT = "float"
    DECIMAL = "decimal"
    DATE = "date"
    TIME = "time"  # of day
    TIMESTAMP = "timestamp"
    STRING = "string"
    BINARY = "binary"
    INTERVAL = "interval"  # of calls and literals only
    OTHER = "other"  # null tests only


@dataclass(frozen=True, slots=True)
class DType:
    """The type of a column or literal.

    Attributes:
        kind: The family.
        bits: The width of integers and floats.
        precision, scale: The digits of decimals, and those after the point.
        unit, zoned: The unit of timestamps and times of day ("s", "ms", "us", "ns"), and whether
            timestamps are instants; the unit of intervals ("us", "month").
        name: The name of a type that allows null tests only; "day" for intervals of whole days.
        element: The type of an array's elements, if functions of arrays support it; `name` contains
            it as well. Rows can be compared by it, statistics cannot.
        entries: The types of a map's keys and values, if functions of maps support the keys.
        record: Other elements of an array, with an empty path, and the fields of structs in it; of
            structs in a map, their fields.
    """

    kind: Kind
    bits: int = 0
    precision: int = 0
    scale: int = 0
    unit: str = ""
    zoned: bool = False
    name: str = ""
    element: DType | None = field(compare=False, default=None)
    entries: tuple[DType, DType] | None = field(compare=False, default=None)
    record: tuple[Leaf, ...] = field(compare=False, default=())
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        # Stored: every member of an IN list carries its type and is hashed with it.
        object.__setattr__(self, "_hash", hash(self._key))

    def __hash__(self) -> int:
        return self._hash

    # Hashes of strings and enums differ between processes, so a pickled type computes its own.
    def __reduce__(self) -> tuple[type[DType], tuple[object, ...]]:
        return DType, (*self._key, self.element, self.entries, self.record)

    @property
    def _key(self) -> tuple[object, ...]:
        return self.kind, self.bits, self.precision, self.scale, self.unit, self.zoned, self.name

    def __str__(self) -> str:
        match self.kind:
            case Kind.INT:
                return {8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT"}[self.bits]
            case Kind.UINT:
                return f"UINT{self.bits}"
            case Kind.FLOAT:
                return "FLOAT" if self.bits == 32 else "DOUBLE"
            case Kind.DECIMAL:
                return f"DECIMAL({self.precision},{self.scale})"
            case Kind.TIMESTAMP:
                return "TIMESTAMP" if self.zoned else "TIMESTAMP_NTZ"
            case Kind.INTERVAL if self.unit == "month":
                return "INTERVAL YEAR TO MONTH"
            case Kind.INTERVAL:
                return "INTERVAL DAY" if self.name else "INTERVAL DAY TO SECOND"
            case Kind.OTHER:
                return self.name.upper()
            case _:
                return str(self.kind.value).upper()

    @property
    def nested(self) -> bool:
        """True if functions of arrays or maps take the type."""
        return self.element is not None or self.entries is not None

    @property
    def ordered(self) -> bool:
        """True if values can be compared; other types allow null tests only."""
        return self.kind not in (Kind.OTHER, Kind.NULL)

    @property
    def discrete(self) -> bool:
        """True if axis values are integers, so that values between two bounds can be counted."""
        return self.ordered and not self.coded and self.kind is not Kind.FLOAT

    @property
    def coded(self) -> bool:
        """True if values exceed a machine word, so that kernels see order-preserving codes."""
        return self.kind in TEXT or (self.kind is Kind.DECIMAL and self.precision > 18)

    @property
    def numpy_type(self) -> str:
        """NumPy's name of the type that a kernel compares; codes take int32 or int64, as needed."""
        match self.kind:
            case Kind.BOOL:
                return "uint8"
            case Kind.INT | Kind.UINT | Kind.FLOAT:
                return str(self.kind.value) + str(self.bits)
            case _:
                return "int32" if self.kind is Kind.DATE else "int64"

    @property
    def lowest(self) -> int | float | bytes:
        """The least value of the type, used for an unknown lower bound."""
        return _range(self)[0]

    @property
    def highest(self) -> int | float | None:
        """The greatest value below NaN; None for strings and binary, which have none."""
        return _range(self)[1]


@functools.lru_cache(maxsize=256)
def _range(t: DType) -> tuple[int | float | bytes, int | float | None]:
    match t.kind:
        case Kind.BOOL | Kind.UINT:
            return 0, 2 ** (t.bits or 1) - 1
        case Kind.FLOAT:
            return -np.inf, np.inf
        case Kind.DECIMAL:
            return -(10**t.precision) + 1, 10**t.precision - 1
        case Kind.STRING | Kind.BINARY:
            return b"", None
        case _:
            bits = t.bits or (32 if t.kind is Kind.DATE else 64)
            return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


NULL: Final = DType(Kind.NULL)
BOOL: Final = DType(Kind.BOOL)
INT8: Final = DType(Kind.INT, bits=8)
INT16: Final = DType(Kind.INT, bits=16)
INT32: Final = DType(Kind.INT, bits=32)
INT64: Final = DType(Kind.INT, bits=64)
FLOAT: Final = DType(Kind.FLOAT, bits=32)
DOUBLE: Final = DType(Kind.FLOAT, bits=64)
DATE: Final = DType(Kind.DATE)
TIME: Final = DType(Kind.TIME, unit="us")
TIMESTAMP: Final = DType(Kind.TIMESTAMP, unit="us", zoned=True)
TIMESTAMP_NTZ: Final = DType(Kind.TIMESTAMP, unit="us")
STRING: Final = DType(Kind.STRING)
BINARY: Final = DType(Kind.BINARY)
YEAR_MONTH: Final = DType(Kind.INTERVAL, bits=32, unit="month")
DAY_TIME: Final = DType(Kind.INTERVAL, bits=64, unit="us")
DAYS: Final = DType(Kind.INTERVAL, bits=64, unit="us", name="day")  # only a date keeps its type


TEXT: Final = (Kind.STRING, Kind.BINARY)  # kinds whose axis values are bytes
# Kinds of elements of the arrays that functions take; FLOAT has an order of its own.
ELEMENTS: Final = (Kind.INT, Kind.BOOL, Kind.DECIMAL, Kind.DATE, *TEXT)


def list_type(element: DType, fields: tuple[Leaf, ...] = ()) -> DType:
    """Return the type of arrays of an element type; structs have fields."""
    name = f"array<{str(element).lower()}>"
    if element.kind in (*ELEMENTS, Kind.NULL):
        return DType(Kind.OTHER, name=name, element=element)
    return DType(Kind.OTHER, name=name, record=(Leaf((), element, True), *fields))


def decimal_type(precision: int, scale: int) -> DType:
    """Return DECIMAL(precision, scale)."""
    return DType(Kind.DECIMAL, precision=precision, scale=scale)


def is_text(t: pa.DataType) -> bool:
    """Return True for Arrow's types of text."""
    return bool(pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t))


# Field metadata: what a column means to its writer, beyond its Arrow type. Its stored values are
# not comparable, except for CHAR(n).
NOTE: Final = b"skipstone.type"
CHAR: Final = re.compile(rb"CHAR\((\d{1,9})\)")
# Field metadata keys under which Spark and Delta, and other formats, record a collation.
COLLATIONS: Final = "__COLLATIONS"
COLLATION_KEYS: Final = (COLLATIONS.encode(), b"collation", b"spark.collation")


def from_arrow(t: pa.DataType, metadata: dict[bytes, bytes] | None = None) -> DType:
    """Return the type of an Arrow column.

    Dictionary, large and view types count as their value type.

    Example:
        >>> str(from_arrow(pa.dictionary(pa.int32(), pa.large_string())))
        'STRING'
    """
    if metadata and NOTE in metadata and not (is_text(t) and CHAR.fullmatch(metadata[NOTE])):
        return DType(Kind.OTHER, name=metadata[NOTE].decode(errors="replace"))
    while (
        pa.types.is_dictionary(t)
        or pa.types.is_run_end_encoded(t)
        or isinstance(t, pa.BaseExtensionType)
    ):
        t = t.storage_type if isinstance(t, pa.BaseExtensionType) else t.value_type
    # Collated text is not ordered by its bytes, so bounds in bytes prove nothing.
    collations = [metadata[k] for k in COLLATION_KEYS if k in metadata] if metadata else []
    plain = collations[:1] in ([], [b"UTF8_BINARY"])  # of a list or map: the text in it
    if is_text(t):
        return STRING if plain else DType(Kind.OTHER, name="collated string")
    if pa.types.is_boolean(t):
        return BOOL
    if pa.types.is_integer(t):
        return DType(Kind.INT if pa.types.is_signed_integer(t) else Kind.UINT, bits=t.bit_width)
    if pa.types.is_float32(t) or pa.types.is_float64(t):
        return DType(Kind.FLOAT, bits=t.bit_width)
    if pa.types.is_decimal(t) and t.precision <= 38 and 0 <= t.scale <= t.precision:
        return decimal_type(t.precision, t.scale)
    if pa.types.is_date(t):
        return DATE
    if pa.types.is_time(t):
        return DType(Kind.TIME, unit=t.unit)
    if pa.types.is_timestamp(t):
        return DType(Kind.TIMESTAMP, unit=t.unit, zoned=t.tz is not None)
    binary = pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_binary_view(t)
    if binary or pa.types.is_fixed_size_binary(t):
        return BINARY
    if pa.types.is_null(t):
        return NULL
    if plain and (pa.types.is_list(t) or pa.types.is_large_list(t)):
        element = from_arrow(t.value_type, t.value_field.metadata)
        if element.kind in ELEMENTS:
            return DType(Kind.OTHER, name=str(t), element=element)
        return DType(Kind.OTHER, name=str(t), record=_items(t.value_field))
    if plain and pa.types.is_map(t):
        key, (item, *fields) = from_arrow(t.key_type, t.key_field.metadata), _items(t.item_field)
        value = replace(item.dtype, record=tuple(fields)) if fields else item.dtype
        if key.kind in ELEMENTS:
            return DType(Kind.OTHER, name=str(t), entries=(key, value))
    return DType(Kind.OTHER, name=str(t))


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column that a predicate can name: path, type, and whether the schema allows NULL."""

    path: Path
    dtype: DType
    nullable: bool
    char_length: int = 0  # n of CHAR(n), which Spark pads; 0 for other types (ir/coercion/char.py)

    @property
    def struct(self) -> bool:
        """True if the column has fields."""
        return self.dtype.kind is Kind.OTHER and self.dtype.name.startswith("struct<")


# Schemas and their columns by identity: schemas with other metadata are equal for pyarrow.
MAX_SCHEMAS: Final = 64
_leaves: dict[int, tuple[pa.Schema, Mapping[Path, Leaf]]] = {}


def leaves_of(schema: pa.Schema) -> Mapping[Path, Leaf]:
    """Return every column of a schema and every field below structs, by path, in schema order."""
    known = _leaves.get(id(schema))
    if known is None:
        if len(_leaves) >= MAX_SCHEMAS:
            _leaves.clear()
        known = _leaves[id(schema)] = (schema, _leaves_of(schema))
    return known[1]


def _leaves_of(schema: pa.Schema) -> Mapping[Path, Leaf]:
    out: dict[Path, Leaf] = {}

    def add(field: pa.Field, above: Path, nullable: bool) -> None:
        path, nullable = (*above, field.name), nullable or field.nullable
        dtype = from_arrow(field.type, field.metadata)
        char = CHAR.fullmatch((field.metadata or {}).get(NOTE, b"")) if dtype == STRING else None
        out[path] = Leaf(path, dtype, nullable, int(char[1]) if char else 0)
        if pa.types.is_struct(field.type) and NOTE not in (field.metadata or {}):
            for i in range(field.type.num_fields):
                add(field.type.field(i), path, nullable)

    for f in schema:
        add(f, (), False)
    return out


def _items(field: pa.Field) -> tuple[Leaf, ...]:
    """Return the items of a list or map, whose path is empty, and their fields."""
    return tuple(replace(v, path=v.path[1:]) for v in _leaves_of(pa.schema([field])).values())


def to_axis(value: object, dtype: DType) -> int | float | bytes:
    """Convert a Python value of `dtype` to a point of its axis. The value must fit exactly.

    Raises:
        ValueError: the value is not one of the type.
    """
    match dtype.kind, value:
        case Kind.BOOL, bool():
            return int(value)
        case ((Kind.INT | Kind.UINT), int()) if not isinstance(value, bool):
            return value
        case Kind.FLOAT, float() | int() if not isinstance(value, bool):
            return float(value)
        case Kind.DECIMAL, decimal.Decimal() | int() if not isinstance(value, bool):
            scaled = decimal.Decimal(value).scaleb(dtype.scale, EXACT)
            if scaled.is_finite() and scaled == (whole := int(scaled)):
                return whole
        case Kind.DATE, dt.date() if not isinstance(value, dt.datetime):
            return value.toordinal() - EPOCH_DAY
        case Kind.TIME, dt.time() if value.tzinfo is None:
            seconds = (value.hour * 60 + value.minute) * 60 + value.second
            ticks, rest = divmod(
                (seconds * 10**6 + value.microsecond) * PER_SECOND[dtype.unit], 10**6
            )
            if rest == 0:
                return ticks
        case Kind.TIMESTAMP, dt.datetime():
            since = value - (EPOCH if value.tzinfo else NAIVE_EPOCH)
            micros = (since.days * 86400 + since.seconds) * 10**6 + since.microseconds
            ticks, rest = divmod(micros * PER_SECOND[dtype.unit], 10**6)
            if rest == 0:
                return ticks
        case Kind.STRING, str():
            return value.encode()  # of a lone surrogate: UnicodeEncodeError, a ValueError
        case Kind.BINARY, bytes() | bytearray() | memoryview():
            return bytes(value)
    raise ValueError(f"{value!r} is not a value of {dtype}")


def to_python(axis: object, dtype: DType) -> object:
    """Convert a point of the axis to the Python value that a user would write.

    Dates, times and timestamps that Python cannot represent stay integers.
    """
    if axis is None:
        return None
    match dtype.kind, axis:
        case Kind.BOOL, int():
            return bool(axis)
        case Kind.DECIMAL, int():
            return decimal.Decimal(axis).scaleb(-dtype.scale, EXACT)
        case Kind.DATE, int() if FIRST_DATE <= axis <= LAST_DATE:
            return dt.date.fromordinal(axis + EPOCH_DAY)
        case Kind.TIME, int() if 0 <= axis < 86_400 * PER_SECOND[dtype.unit]:
            micros, rest = divmod(axis * 10**6, PER_SECOND[dtype.unit])
            return axis if rest else (NAIVE_EPOCH + dt.timedelta(microseconds=micros)).time()
        case Kind.TIMESTAMP, int():
            micros, rest = divmod(axis * 10**6, PER_SECOND[dtype.unit])
            try:
                moment = NAIVE_EPOCH + dt.timedelta(microseconds=micros)
            except OverflowError:
                return axis
            return axis if rest else moment.replace(tzinfo=dt.UTC) if dtype.zoned else moment
        case Kind.STRING, bytes():
            return axis.decode("utf-8", "surrogatepass")
    return axis
