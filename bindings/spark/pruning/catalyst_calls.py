"""The parts of Spark's optimised plans: classes that are calls of SQL functions, and literals.

A class's leading parts are its arguments. The remaining parts are settings that the expression
carries, because it may have been made under other settings than the session's current ones.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from skipstone.ir import types as ty
from skipstone.ir.node import Node, literal
from skipstone.ir.types import DType, Kind

# The function's name, and the number of arguments. The remaining parts must equal the session's
# settings.
CALLS: Final = {
    "IsNaN": ("isnan", 1), "StartsWith": ("startswith", 2), "EndsWith": ("endswith", 2),
    "Contains": ("contains", 2), "RLike": ("rlike", 2), "NaNvl": ("nanvl", 2),
    # Numbers
    "Add": ("+", 2), "Subtract": ("-", 2), "Multiply": ("*", 2), "Divide": ("/", 2),
    "IntegralDivide": ("div", 2), "Remainder": ("%", 2), "Pmod": ("pmod", 2),
    "UnaryMinus": ("negative", 1), "UnaryPositive": ("positive", 1), "Abs": ("abs", 1),
    "Round": ("round", 2), "BRound": ("bround", 2), "Rint": ("rint", 1), "Signum": ("sign", 1),
    "Sqrt": ("sqrt", 1), "ToDegrees": ("degrees", 1), "ToRadians": ("radians", 1),
    "Pow": ("pow", 2), "Log": ("ln", 1), "Log10": ("log10", 1), "Log2": ("log2", 1),
    "Log1p": ("log1p", 1), "Logarithm": ("log", 2), "Exp": ("exp", 1), "Expm1": ("expm1", 1),
    "Cbrt": ("cbrt", 1), "Hypot": ("hypot", 2),
    "Sin": ("sin", 1), "Cos": ("cos", 1), "Tan": ("tan", 1), "Cot": ("cot", 1), "Sec": ("sec", 1),
    "Csc": ("csc", 1), "Asin": ("asin", 1), "Acos": ("acos", 1), "Atan": ("atan", 1),
    "Atan2": ("atan2", 2), "Sinh": ("sinh", 1), "Cosh": ("cosh", 1), "Tanh": ("tanh", 1),
    # Bits
    "BitwiseAnd": ("&", 2), "BitwiseOr": ("|", 2), "BitwiseXor": ("^", 2), "BitwiseNot": ("~", 1),
    "BitwiseCount": ("bit_count", 1), "ShiftLeft": ("shiftleft", 2),
    "ShiftRight": ("shiftright", 2), "ShiftRightUnsigned": ("shiftrightunsigned", 2),
    # Dates and timestamps
    "Year": ("year", 1), "Quarter": ("quarter", 1), "Month": ("month", 1), "DayOfMonth": ("day", 1),
    "DayOfYear": ("dayofyear", 1), "DayOfWeek": ("dayofweek", 1), "WeekDay": ("weekday", 1),
    "WeekOfYear": ("weekofyear", 1), "LastDay": ("last_day", 1),
    "Hour": ("hour", 1), "Minute": ("minute", 1), "Second": ("second", 1),
    "SecondWithFraction": ("seconds_of", 1),
    "TruncDate": ("trunc", 2), "TruncTimestamp": ("date_trunc", 2),
    "DateFormatClass": ("date_format", 2), "FromUnixTime": ("from_unixtime", 2),
    "DateAdd": ("date_add", 2), "DateSub": ("date_sub", 2), "DateDiff": ("datediff", 2),
    "DayName": ("dayname", 1), "MonthName": ("monthname", 1), "NextDay": ("next_day", 2),
    "AddMonths": ("add_months", 2), "AddMonthsBase": ("add_months", 2),
    "MonthsBetween": ("months_between", 3), "MakeDate": ("make_date", 3),
    "UnixDate": ("unix_date", 1), "DateFromUnixDate": ("date_from_unix_date", 1),
    "UnixSeconds": ("unix_seconds", 1), "UnixMillis": ("unix_millis", 1),
    "UnixMicros": ("unix_micros", 1), "SecondsToTimestamp": ("timestamp_seconds", 1),
    "MillisToTimestamp": ("timestamp_millis", 1), "MicrosToTimestamp": ("timestamp_micros", 1),
    "FromUTCTimestamp": ("from_utc_timestamp", 2), "ToUTCTimestamp": ("to_utc_timestamp", 2),
    "ConvertTimezone": ("convert_timezone", 3),
    # Intervals
    "DateAddYMInterval": ("+", 2), "TimestampAddYMInterval": ("+", 2),
    "TimestampAddInterval": ("+", 2), "TimeAdd": ("+", 2),  # its name in Spark 4.0
    "MakeYMInterval": ("make_ym_interval", 2), "MakeDTInterval": ("make_dt_interval", 4),
    # Text
    "Upper": ("upper", 1), "Lower": ("lower", 1), "Length": ("length", 1),
    "OctetLength": ("octet_length", 1), "BitLength": ("bit_length", 1),
    "Substring": ("substring", 3), "SubstringIndex": ("substring_index", 3),
    "Overlay": ("overlay", 4), "Reverse": ("reverse", 1),
    "StringReplace": ("replace", 3), "StringRepeat": ("repeat", 2),
    "StringTranslate": ("translate", 3), "StringLPad": ("lpad", 3), "StringRPad": ("rpad", 3),
    "StringInstr": ("instr", 2), "FindInSet": ("find_in_set", 2),
    "RegExpExtract": ("regexp_extract", 3),
    "Ascii": ("ascii", 1), "Chr": ("chr", 1), "Hex": ("hex", 1), "Bin": ("bin", 1),
    # Arrays and maps
    "ArrayContains": ("array_contains", 2), "ArraysOverlap": ("arrays_overlap", 2),
    "ArrayPosition": ("array_position", 2), "ArrayMax": ("array_max", 1),
    "ArrayMin": ("array_min", 1), "SortArray": ("sort_array", 2),
    "ArrayDistinct": ("array_distinct", 1), "ArrayRemove": ("array_remove", 2),
    "GetMapValue": ("[]", 2), "MapKeys": ("map_keys", 1),
    "MapValues": ("map_values", 1),
    # Hashes
    "Md5": ("md5", 1), "Sha1": ("sha1", 1), "Sha2": ("sha2", 2), "Crc32": ("crc32", 1),
}  # fmt: skip
# These classes carry flags after their arguments which SQL sets to False in every session.
UNFLAGGED: Final[dict[str, tuple[str, int]]] = {
    "Unhex": ("unhex", 1),  # failOnError
    "UnBase64": ("unbase64", 1),  # failOnError
    "SubtractDates": ("-", 2),  # legacyInterval
    "SubtractTimestamps": ("-", 2),  # legacyInterval
}
# Functions with any number of arguments.
VARIADIC: Final = {
    "Coalesce": "coalesce",
    "Greatest": "greatest",
    "Least": "least",
    "Concat": "concat",
    "ConcatWs": "concat_ws",
    "CreateArray": "array",
}
# The functions that are NULL where others raise; they have the classes of the others.
TRIED: Final = {
    "+": "try_add", "-": "try_subtract", "*": "try_multiply", "/": "try_divide", "%": "try_mod",
}  # fmt: skip
# Each of these compares text with several patterns: (all patterns must hold, negated).
PATTERNS: Final = {
    "LikeAll": (True, False),
    "NotLikeAll": (True, True),
    "LikeAny": (False, False),
    "NotLikeAny": (False, True),
}

# The key under which `Json.java` writes values that are no JSON number.
FORMS: Final = {
    Kind.FLOAT: "float",
    Kind.DECIMAL: "decimal",
    Kind.BINARY: "bytes",
    Kind.STRING: "bytes",
}


def settings_of(parts: list[Any]) -> list[Any]:
    """Return the settings that an expression carries, without nesting.

    Arithmetic carries a pair: the mode, and whether decimals may lose digits. True is the default
    and is dropped; anything else is replaced by a value that equals no setting.
    """
    out: list[Any] = []
    for part in parts:
        if isinstance(part, list) and len(part) == 2 and isinstance(part[1], bool):
            out.append(part[0] if part[1] else {})
        else:
            out.append(part)
    return out


def interval_type(name: str) -> DType | None:
    """Return the type of a literal by the name that Spark prints, if it is an interval.

    The value is a number of months or of microseconds, regardless of the units in the name.
    """
    if not name.startswith("INTERVAL "):
        return None
    units = set(name.split()[1:]) - {"TO"}
    if units <= {"YEAR", "MONTH"}:
        return ty.YEAR_MONTH
    if units == {"DAY"}:
        return ty.DAYS
    return ty.DAY_TIME if units <= {"DAY", "HOUR", "MINUTE", "SECOND"} else None


def value_of(value: Any, dtype: DType | None) -> Node | None:
    """Make a literal from a value in Spark's internal form; None if it is not supported."""
    found = values_of([value], dtype)
    return None if found is None or dtype is None else literal(found[0], dtype)


def values_of(values: list[Any], dtype: DType | None) -> list[Any] | None:
    """Return the axis values of many values of one type in Spark's internal form.

    None if a value is not supported. A list may be long, so a value takes no call of its own.
    """
    if dtype is None:
        return None
    given = [v for v in values if v is not None]
    axis = _axis_values(given, dtype)
    if axis is None or len(given) == len(values):
        return axis
    rest = iter(axis)
    return [None if v is None else next(rest) for v in values]


def _axis_values(values: list[Any], dtype: DType) -> list[Any] | None:
    form, kind = dtype.kind, set(map(type, values))
    if form in (Kind.INT, Kind.DATE, Kind.TIMESTAMP, Kind.INTERVAL):
        return values if kind <= {int} else None
    if form is Kind.BOOL:
        return list(map(int, values)) if kind <= {bool} else None
    key = FORMS.get(form)
    if key is None or not kind <= {dict} or not all(key in v for v in values):
        return None
    texts = [v[key] for v in values]
    if form is Kind.FLOAT:
        # Java writes NaN and Infinity, and Python reads both. The sum turns -0.0 into 0.0.
        return [float(t) + 0.0 for t in texts]
    if form is Kind.DECIMAL:
        return [ty.to_axis(Decimal(t), dtype) for t in texts]
    found = list(map(bytes.fromhex, texts))
    return found if form is Kind.BINARY or _is_utf8(found) else None


def _is_utf8(texts: list[bytes]) -> bool:
    """Return True if bytes are UTF-8; Spark's casts of BINARY to STRING keep bytes that are not."""
    try:
        b"\0".join(texts).decode()  # no zero byte is part of a longer character
    except UnicodeDecodeError:
        return False
    return True
