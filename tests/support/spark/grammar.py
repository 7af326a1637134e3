"""Random conditions of Spark's grammar, whether or not Skipstone supports them.

The rules follow `booleanExpression`, `predicate`, `valueExpression` and `primaryExpression` of
SqlBaseParser.g4; `tests/support/spark/scalars.py` lists scalars. A letter stands for a family of
types: Bool, Integer, Float, decimal (M), String, Date, Timestamp, timestamp without zone (Z),
binarY, day-time interval (V), year-month interval (W), Array, maP, X for any of them and N for a
number.
"""

import datetime as dt
import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

import pyarrow as pa

from tests.support.predicates.predicates import quote
from tests.support.spark.scalars import CONSTANTS, SCALARS, TYPE_NAMES, WORDS

COMPARE = ("=", "=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>", "!<", "!>")
ALIKE = ("LIKE", "LIKE", "NOT LIKE", "ILIKE", "NOT ILIKE")
QUANTIFIED = ("LIKE {} ({})", "NOT LIKE {} ({})", "ILIKE {} ({})", "NOT ILIKE {} ({})")
REGEX = ("RLIKE", "REGEXP", "NOT RLIKE", "NOT REGEXP")
TESTS = tuple(
    f"IS {no}{what}" for no in ("", "NOT ") for what in ("NULL", "NULL", "TRUE", "FALSE", "UNKNOWN")
)
FAMILIES = "BIFMSDTZYVWAP"
ORDERED = "IFMSDTZYVWB"
MIXED = {"I": "FMSDT", "F": "IMS", "M": "IFS", "S": "IDTNZBY", "D": "TZS", "T": "DZS", "Z": "DTS"}
MAX_YEAR = 253_402_300_799_999_999  # microseconds: the last instant that SQL text can write
MIN_YEAR = -62_135_596_800_000_000


class Grammar:
    """Random scalars and conditions over columns.

    Args:
        r: The random generator.
        columns: Family -> expressions that name a column of it.
        values: Scalar -> values that rows have, to draw literals near them; may grow later.
    """

    def __init__(
        self,
        r: random.Random,
        columns: Mapping[str, Sequence[str]],
        values: Mapping[str, Sequence[object]] | None = None,
    ) -> None:
        self.r, self.columns = r, {k: list(v) for k, v in columns.items() if v}
        self.values: dict[str, Sequence[object]] = dict(values or {})
        self.known: dict[str, list[str]] = {}

    # Scalars.

    def scalar(self, family: str, depth: int = 1) -> str:
        r = self.r
        family = self._family(family)
        if depth <= 0 or r.random() < 0.08:
            return self.leaf(family)
        template = r.choice(SCALARS[family]) if SCALARS.get(family) else None
        return self.leaf(family) if template is None else self.filled(template, depth - 1)

    def filled(self, template: str, depth: int) -> str:
        """Fill the holes of a template: `{I}` is an expression, `{i}` a literal, `{k}` a word."""

        def fill(m: re.Match[str]) -> str:
            name = m[1]
            if name in WORDS:
                return self.r.choice(WORDS[name])
            if name == "pattern":
                return self.pattern("")
            if name == "cond":
                return self.condition(min(depth, 1))
            if name == "column":
                return self.leaf("X")
            if name.islower():
                return self.constant(name.upper())
            inner = self.scalar(name, depth)
            # Nested operators, mostly in parentheses; without them, Spark's precedence is also
            # tested.
            plain = re.fullmatch(r"[\w.`]+|[\w.]+\([^()]*\)", inner)
            return inner if plain or self.r.random() < 0.15 else f"({inner})"

        return re.sub(r"\{(\w+)\}", fill, template)

    def leaf(self, family: str) -> str:
        family = self._family(family)
        names = self.columns.get(family)
        if not names or self.r.random() < 0.06:
            return self.constant(family)
        return self.r.choice(names)

    def _family(self, family: str) -> str:
        r = self.r
        if family == "X":
            family = r.choice([f for f in self.columns if f != "P"])
        if family == "N":
            family = r.choice("IIFM")
        if family == "O":
            family = r.choice([f for f in self.columns if f in ORDERED])
        if r.random() < 0.04:
            family = r.choice(MIXED.get(family, family))
            return self._family(family)
        return family

    # Literals.

    def constant(self, family: str) -> str:
        """Return a literal of a family, independent of the rows."""
        r, family = self.r, self._family(family)
        if r.random() < 0.03:
            return "NULL"
        if family in TYPE_NAMES and r.random() < 0.02:
            return f"CAST(NULL AS {TYPE_NAMES[family]})"
        return r.choice(CONSTANTS[family])

    def near(self, scalar: str, family: str) -> str:
        """Return a literal at or beside a value of some row."""
        found, r = self.values.get(scalar), self.r
        if not found or r.random() < 0.08:
            return self.constant(family)
        value = r.choice(found)
        return self.constant(family) if value is None else spelled(r, value)

    def pattern(self, scalar: str, escape: str = "\\") -> str:
        """Return a literal for LIKE, made from the text of some row's value."""
        r = self.r
        texts = [t for v in self.values.get(scalar, ()) if (t := as_text(v)) is not None]
        texts = texts or ["a", "ab", ""]
        text = r.choice(texts)
        a, b = sorted((r.randint(0, len(text)), r.randint(0, len(text))))
        quoted = lambda t: "".join(escape + ch if ch in ("%", "_", escape) else ch for ch in t)
        made = r.choice(
            (
                quoted(text),
                quoted(text[:b]) + "%",
                quoted(text[:b]) + "%",
                "%" + quoted(text[a:]),
                "%" + quoted(text[a:b]) + "%",
                quoted(text[:a]) + "_" + quoted(text[a + 1 :]),
                quoted(text[:a]) + "%" + quoted(text[b:]),
                text[:b] + "%",
                "%",
                "_%",
                "",
            )
        )
        if r.random() < 0.2:
            made = made.swapcase()
        return string(r, made)

    # Conditions.

    def condition(self, depth: int = 2) -> str:
        r = self.r
        if depth <= 0 or r.random() < 0.45:
            return self.test()
        kind = r.random()
        if kind < 0.15:
            return f"{r.choice(('NOT ', 'NOT ', '! ', '!'))}{self.part(depth)}"
        if kind < 0.22:
            return f"{self.part(depth)} {r.choice(TESTS)}"
        if kind < 0.27:
            return f"{self.part(depth)} {r.choice(COMPARE)} {self.part(depth)}"
        if kind < 0.33:
            return self.filled(r.choice(SCALARS["B"]), depth - 1)
        word = r.choice((" AND ", " OR "))
        parts = [self.part(depth) for _ in range(r.choice((2, 2, 2, 3)))]
        if len(parts) == 3 and r.random() < 0.3:
            return f"{parts[0]} AND {parts[1]} OR {parts[2]}"
        return word.join(parts)

    def part(self, depth: int) -> str:
        inner = self.condition(depth - 1)
        return inner if self.r.random() < 0.2 else f"({inner})"

    def test(self) -> str:
        """Return one predicate of one or two scalars."""
        r = self.r
        family, x = self.subject()
        kind = r.random()
        if kind < (0.35 if family == "S" else 0.04):  # Spark casts other types to text
            return self.alike(x)
        if family == "B" and kind < 0.6:
            return r.choice((x, f"NOT {x}", f"{x} {r.choice(TESTS)}", f"! {x}"))
        if kind < 0.45:
            return self.compared(family, x)
        if kind < 0.57:
            a, b = self.near(x, family), self.near(x, family)
            return f"{x} {r.choice(('', 'NOT '))}BETWEEN {a} AND {b}"
        if kind < 0.72:
            return self.members(family, x)
        if kind < 0.82:
            return f"{x} {r.choice(TESTS[:2] if r.random() < 0.9 else TESTS)}".replace(
                "IS ", r.choice(("IS ", "IS ", "IS NOT ")), 1
            ).replace("NOT NOT", "NOT")
        if kind < 0.9:
            y = self.near(x, family) if r.random() < 0.7 else self.scalar(family, 0)
            return f"{x} IS {r.choice(('', 'NOT '))}DISTINCT FROM {y}"
        return f"{x} {r.choice(COMPARE)} {self.scalar(family, r.choice((0, 0, 1)))}"

    def subject(self) -> tuple[str, str]:
        """Return a scalar, mostly one with known values."""
        r = self.r
        families = [f for f in ORDERED if self.known.get(f)]
        if families and r.random() < 0.9:
            family = r.choice(families)
            names = self.columns.get(family)
            return family, r.choice(names if names and r.random() < 0.3 else self.known[family])
        family = self._family("X")
        return family, self.scalar(family, 1)

    def learn(self, family: str, scalar: str, values: Sequence[object]) -> None:
        """Use a scalar as a subject, with values of rows for its literals."""
        self.known.setdefault(family, []).append(scalar)
        self.values[scalar] = values

    def compared(self, family: str, x: str) -> str:
        r = self.r
        y = self.near(x, family)
        return (
            f"{x} {r.choice(COMPARE)} {y}" if r.random() < 0.85 else f"{y} {r.choice(COMPARE)} {x}"
        )

    def members(self, family: str, x: str) -> str:
        r = self.r
        word = r.choice(("IN", "IN", "NOT IN"))
        count = r.choice((1, 1, 2, 3, 5, 20))
        if r.random() < 0.06:
            return f"{x} {word} (({self.near(x, family)}))"
        if r.random() < 0.06:
            rows = ", ".join(f"({self.near(x, family)}, {self.constant('I')})" for _ in range(2))
            return f"({x}, {self.leaf('I')}) {word} ({rows})"
        items = [
            "NULL"
            if r.random() < 0.04
            else self.leaf(family)
            if r.random() < 0.04
            else self.near(x, family)
            for _ in range(count)
        ]
        return f"{x} {word} ({', '.join(items)})"

    def alike(self, x: str) -> str:
        r = self.r
        kind = r.random()
        if kind < 0.2:
            return f"{x} {r.choice(REGEX)} {string(r, r.choice(EXPRESSIONS))}"
        if kind < 0.45:
            patterns = ", ".join(self.pattern(x) for _ in range(r.choice((1, 2, 3))))
            return f"{x} {r.choice(QUANTIFIED).format(r.choice(('ANY', 'SOME', 'ALL')), patterns)}"
        if kind < 0.6:
            escape = r.choice(("!", "/", "#", "\\", "a"))
            mark = "'\\\\'" if escape == "\\" else f"'{escape}'"
            return f"{x} {r.choice(ALIKE)} {self.pattern(x, escape)} ESCAPE {mark}"
        return f"{x} {r.choice(ALIKE)} {self.pattern(x)}"


EXPRESSIONS = (
    *("^a", "^ab?", "b$", "[0-9]+", "a|b", ".", "", "^a.*", "^(a|k)", "é", "^K", "(?i)^key", "^$"),
    *("\\\\d", "^.b", "^a$", "x*", "^[a-c]", "日", "\\\\.", "^https", "\\\\p{L}", "a{2}"),
)


def as_text(value: object) -> str | None:
    """Return about the text that Spark casts a value to; None for NULL and nested values."""
    if value is None or isinstance(value, (list, dict)):
        return None
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value).lower() if isinstance(value, bool) else str(value)


def string(r: random.Random, text: str) -> str:
    """Return a text as one of Spark's literals for it."""
    if r.random() < 0.1 and "'" not in text and "\n" not in text and "\x00" not in text:
        return f"r'{text}'"
    if r.random() < 0.1 and text.isalnum() and text.isascii():
        return f'"{text}"'
    if r.random() < 0.05:
        return "'" + "".join(f"\\u{ord(c):04x}" if ord(c) < 0xD800 else c for c in text) + "'"
    if r.random() < 0.1 and "\\" not in text and "\x00" not in text:
        return "'" + text.replace("'", "''") + "'"
    return quote(text)


def spelled(r: random.Random, value: object) -> str:
    """Return a value as a literal, often of its own type, sometimes near it or of another type."""
    say: Callable[[object], str] = lambda v: str(v)
    match value:
        case bool():
            return r.choice(("TRUE", "FALSE") if r.random() < 0.1 else (str(value).upper(),))
        case int():
            value += r.choice((0, 0, 0, 0, 1, -1))
            forms = ["{}", "{}", "{}", "{}L", "{}.0", "{}.5", "{}D", "'{}'", "CAST({} AS DOUBLE)"]
            forms += ["{}BD", "{}::decimal(20,0)", "{}e0", "TRY_CAST('{}' AS INT)", "({} + 0)"]
        case float() if math.isnan(value) or math.isinf(value):
            say = lambda v: "NaN" if math.isnan(v) else "Infinity" if v > 0 else "-Infinity"
            forms = ["CAST('{}' AS DOUBLE)", "double('{}')", "CAST('{}' AS FLOAT)"]
        case float():
            say = repr
            forms = ["CAST('{}' AS DOUBLE)", "{}D", "{}D", "{}D", "CAST('{}' AS FLOAT)", "'{}'"]
            if abs(value) < 1e15:
                forms += [f"{round(value)}", f"{value:.3f}"]
        case Decimal():
            say = lambda v: format(v, "f")
            forms = [
                "{}",
                "{}",
                "{}BD",
                "'{}'",
                "CAST('{}' AS DOUBLE)",
                "CAST({} AS DECIMAL(38, 6))",
            ]
        case str():
            return string(r, value if r.random() < 0.85 else value[:2] + r.choice(("", "a", "~")))
        case bytes():
            return f"{r.choice('Xx')}'{value.hex()}'"
        case dt.datetime():
            value += dt.timedelta(microseconds=r.choice((0, 0, 0, 1, -1, 3_600_000_000)))
            say = lambda v: v.replace(tzinfo=None).isoformat(" ").rjust(19, "0")
            zone = "+00:00" if value.tzinfo else ""
            kind = "TIMESTAMP" if value.tzinfo else "TIMESTAMP_NTZ"
            forms = [kind + " '{}" + zone + "'"] * 4 + ["'{}" + zone + "'", "TIMESTAMP '{}'"]
            forms += [f"CAST('{{}}{zone}' AS {kind})", f"DATE '{value.date()}'"]
        case dt.date():
            if 400 < value.toordinal() < 3_652_000:
                value += dt.timedelta(days=r.choice((0, 0, 0, 1, -1)))
            forms = ["DATE '{}'", "DATE '{}'", "DATE'{}'", "'{}'", "TIMESTAMP '{} 00:00:00'"]
            forms += ["to_date('{}')", "TIMESTAMP_NTZ '{}'", "CAST('{}' AS DATE)", "'{}'::date"]
        case dt.timedelta():
            micros = value // dt.timedelta(microseconds=1)
            whole, rest = divmod(abs(micros), 1_000_000)
            sign = "-" if micros < 0 else ""
            return f"INTERVAL '{sign}{whole}.{rest:06}' SECOND"
        case _:
            return "NULL"
    return r.choice(forms).format(say(value))


def learned(values: pa.ChunkedArray) -> list[object]:
    """Return the values of an answer that Python can represent."""
    kind = values.type
    if pa.types.is_nested(kind) or pa.types.is_interval(kind) or pa.types.is_null(kind):
        return []
    values = values.combine_chunks().drop_null()
    if pa.types.is_timestamp(kind):
        zone = dt.UTC if kind.tz else None
        start = dt.datetime(1970, 1, 1, tzinfo=zone)
        day = 86_400_000_000
        return [
            start + dt.timedelta(microseconds=v)
            for v in values.cast(pa.int64()).to_pylist()
            if MIN_YEAR + day <= v <= MAX_YEAR - day
        ]
    if pa.types.is_duration(kind):
        return [
            dt.timedelta(microseconds=v)
            for v in values.cast(pa.int64()).to_pylist()
            if abs(v) < 10**15
        ]
    if pa.types.is_date(kind):
        return [
            dt.date.fromordinal(v + 719_163)
            for v in values.cast(pa.int32()).to_pylist()
            if 0 < v + 719_163 <= 3_652_059
        ]
    if pa.types.is_string(kind):  # Spark's strings may hold bytes that are not UTF-8
        texts = [v.decode("utf-8", "replace") for v in values.cast(pa.binary()).to_pylist()]
        return [text for text in texts if "\ufffd" not in text]
    return list(values.to_pylist())
