"""Find out whether a session gives SQL text another meaning than Skipstone does.

`prune` and `enable` take conditions from Spark's analysed plans, where every setting has already
had its effect. Text that Skipstone parses itself is read with Spark's defaults, so other settings
must not pass unnoticed: a condition with another meaning would prune files that hold matching rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from skipstone.bindings.predicates.function_names import known_functions
from skipstone.bindings.spark.session.session import quiet
from skipstone.bindings.spark.session.zones import other_zone
from skipstone.ir.errors import UnsupportedForm, describe_error

ANSI: Final = "spark.sql.ansi.enabled"
POLICY: Final = "spark.sql.legacy.timeParserPolicy"


class Setting(NamedTuple):
    """A setting that changes what some texts mean.

    Attributes:
        key: The setting.
        default: Spark's default.
        pattern: What a text contains if the setting can change its meaning; "" for every text.
        strings: True if the pattern may be found in strings; else strings are left out.
        ansi: The only ANSI mode in which the setting matters, "true" or "false"; "" for both.
        usual: The values under which Spark reads text as Skipstone does, with `|` between them; ""
            for the default.
    """

    key: str
    default: str
    pattern: str = ""
    strings: bool = False
    ansi: str = ""
    usual: str = ""


_NUMBER: Final = r"(?<![\w`.])\.?\d"
_EXPONENT: Final = r"(?<![\w`.])\.?\d[\d.]*e[-+]?\d"
# Operators. A minus sign counts if it follows an operand, or precedes both in parentheses, as
# PySpark shows subtractions; the sign of a negative number does not.
_ARITHMETIC: Final = r"[+*/%]|[\w)`\]]\s*-|-\(|\b(?:div|mod|pmod|try_\w+)\b"
_LIST: Final = r"\bin\s*\("
_LEGACY: Final = "spark.sql.legacy."
# Source: Spark, `SQLConf`. tests/spark/session/test_text_meaning.py has rows that most of them
# change; the others are listed because of Spark's documentation.
SETTINGS: Final = (
    Setting("spark.sql.parser.escapedStringLiterals", "false"),
    Setting("spark.sql.ansi.doubleQuotedIdentifiers", "false", ansi="true"),
    Setting("spark.sql.timestampType", "TIMESTAMP_LTZ"),
    Setting(f"{_LEGACY}typeCoercion.datetimeToString.enabled", "false", ansi="false"),
    Setting(f"{_LEGACY}decimal.retainFractionDigitsOnTruncate", "false"),
    Setting("spark.sql.decimalOperations.allowPrecisionLoss", "true", _ARITHMETIC),
    Setting(f"{_LEGACY}literal.pickMinimumPrecision", "true", _NUMBER),
    Setting(f"{_LEGACY}exponentLiteralAsDecimal.enabled", "false", _EXPONENT),
    # It changes empty lists of Columns, whose text has several forms. The default depends on the
    # mode.
    Setting(f"{_LEGACY}nullInEmptyListBehavior", "false", _LIST, ansi="true"),
    Setting(f"{_LEGACY}nullInEmptyListBehavior", "true", _LIST, ansi="false"),
    Setting(f"{_LEGACY}allowNegativeScaleOfDecimal", "false", rf"\bb?round\b|{_EXPONENT}"),
    Setting(f"{_LEGACY}sizeOfNull", "true", r"\b(?:size|cardinality)\b", ansi="false"),
    Setting(f"{_LEGACY}followThreeValuedLogicInArrayExists", "true", r"\bexists\b"),
    Setting(f"{_LEGACY}castComplexTypesToString.enabled", "false", r"\bstring\b|char\b"),
    Setting(f"{_LEGACY}interval.enabled", "false", r"\binterval\b"),
    Setting(f"{_LEGACY}fromDayTimeString.enabled", "false", r"\binterval\b"),
    Setting(f"{_LEGACY}consecutiveStringLiterals.enabled", "false", "''|\"\"", strings=True),
    Setting("spark.sql.variable.substitute", "true", r"\$\{", strings=True, usual="false"),
    Setting("spark.sql.functionResolution.sessionOrder", "second", r"\w\s*\("),
    # Under LEGACY, S means milliseconds, and days and offsets are those of Java's old classes.
    # Under EXCEPTION, Spark raises where both formatters differ. Source: `DateTimeFormatterHelper`.
    Setting(POLICY, "CORRECTED", r"\b(?:date_format|from_unixtime)\b"),
    # Under EXCEPTION, Spark raises for a text that only the old formatter reads.
    Setting(
        POLICY,
        "CORRECTED",
        r"\b(?:(?:try_)?to_(?:date|timestamp(?:_ntz)?)|(?:to_)?unix_timestamp)\b",
        usual="CORRECTED|EXCEPTION",
    ),
)
_ZONED: Final = re.compile(r"utc_timestamp|convert_timezone", re.IGNORECASE)
# Zones, and other words. Texts of times name only zones with a slash.
_ZONE: Final = re.compile(r"[A-Za-z][\w+-]*(?:/[\w+-]+)*")
_CALL: Final = re.compile(r"\b([a-zA-Z_]\w*)`?\s*\(")
BUILT_IN: Final = "org.apache.spark.sql.catalyst.expressions."
# Words that precede an operand, so that a minus sign after them is not a subtraction.
_KEYWORD: Final = re.compile(r"\b(?:and|or|not|between|then|else|when|case)\b", re.IGNORECASE)
_COLUMN: Final = re.compile(r"Column<'(.*)'>", re.DOTALL)
_STRING: Final = re.compile(
    r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|(/\*.*?\*/|--[^\n]*)", re.DOTALL
)


def other_meaning(spark: Any, condition: object) -> str:
    """Return why a session gives a condition another meaning than Skipstone, or "" if it does not.

    Args:
        spark: The session, classic or Spark Connect.
        condition: SQL text, a Column, a predicate, or a list of these.
    """
    texts = list(_texts(condition))
    whole = " ; ".join(texts)
    bare = _KEYWORD.sub(";", " ; ".join(map(_without_strings, texts)))
    for setting in SETTINGS:
        if not re.search(setting.pattern, whole if setting.strings else bare, re.IGNORECASE):
            continue
        value = str(spark.conf.get(setting.key, setting.default))
        if value.lower() in (setting.usual or setting.default).lower().split("|"):
            continue
        if setting.ansi in ("", str(spark.conf.get(ANSI)).lower()):
            return f"{setting.key} is {value}"
    return _other_zone(spark, whole) or _replaced_function(spark, bare)


def other_policy(spark: Any, *usual: str) -> str:
    """Return why a session uses formats of times differently from Skipstone; "" if it does not.

    Args:
        spark: The session.
        usual: The policies, in capitals, under which Spark uses formats as Skipstone does.
    """
    value = str(spark.conf.get(POLICY, "CORRECTED"))
    return "" if value.upper() in usual else f"{POLICY} is {value}"


def require_usual_meaning(spark: Any, condition: object) -> None:
    """Check that a session and Skipstone understand a condition alike.

    Args:
        spark: The session.
        condition: SQL text, a Column, a predicate, or a list of these.

    Raises:
        UnsupportedForm: a setting, or a function of the session, changes what the condition means.
    """
    if why := other_meaning(spark, condition):
        raise UnsupportedForm(
            f"{why}, so Spark reads conditions differently from Skipstone; unset it, or leave the "
            "condition to Spark: df.where(...)"
        )


def _other_zone(spark: Any, text: str) -> str:
    """Return why the session's zone, or one that a text names, has other times; "" if none has."""
    named = [z for z in _ZONE.findall(text) if "/" in z or _ZONED.search(text)]
    zones = [str(spark.conf.get("spark.sql.session.timeZone")), *named]
    return next(filter(None, (other_zone(spark, zone) for zone in zones)), "")


def _replaced_function(spark: Any, bare: str) -> str:
    """Return which function of a text is not Spark's own in a session, or "" if all are.

    In Spark 4.0 to 4.2, a function that a program registers replaces a built-in one of its name.
    """
    from pyspark.errors import AnalysisException

    called = {name.lower() for name in _CALL.findall(bare)} & known_functions()
    for name in sorted(called):
        try:
            with quiet():
                found = spark.catalog.getFunction(name)
        except AnalysisException:  # the session has no such function, and Spark will say so
            continue
        except Exception as e:
            return f"the function {name} cannot be looked up ({describe_error(e)})"
        if not str(found.className).startswith(BUILT_IN):
            return f"the function {name} was replaced by {found.className}"
    return ""


def _without_strings(text: str) -> str:
    """Return a text without its strings and comments.

    PySpark shows the strings of a Column without quotes, so all of them stay.
    """
    column = _COLUMN.fullmatch(text)
    if column is not None:
        return column[1]
    return _STRING.sub(lambda m: " " if m[1] else "''", text)


def _texts(condition: object) -> Iterator[str]:
    """Yield texts that show all of a condition, including parts that binding folded."""
    if isinstance(condition, list | tuple):
        for one in condition:
            yield from _texts(one)
    else:
        yield str(condition)
        yield str(getattr(condition, "source", ""))
        yield str(getattr(condition, "expr", ""))
