"""Random scalar expressions of every form, as Spark SQL text."""

import re
from dataclasses import dataclass

from skipstone.ir.types import DType, Kind
from tests.support.rows.strategies import Field

NUMERIC = (Kind.INT, Kind.UINT, Kind.FLOAT, Kind.DECIMAL)
# The placeholders of templates. Families of scalars:
#   N number  I integer  T text  D date  M timestamp  A date or timestamp  B boolean  Y binary
#   X anything
# and literals:
#   k small integer  p place  w text  u unit of a date  v unit of a timestamp
#   q count of an interval
FAMILIES = {
    "N": lambda t: t.kind in NUMERIC,
    "I": lambda t: t.kind in (Kind.INT, Kind.UINT),
    "T": lambda t: t.kind is Kind.STRING,
    "D": lambda t: t.kind is Kind.DATE,
    "M": lambda t: t.kind is Kind.TIMESTAMP,
    "A": lambda t: t.kind in (Kind.DATE, Kind.TIMESTAMP),
    "B": lambda t: t.kind is Kind.BOOL,
    "Y": lambda t: t.kind is Kind.BINARY,
    "X": lambda t: True,
}
TYPES = {
    "I": ("TINYINT", "SMALLINT", "INT", "BIGINT"),
    "N": (
        "TINYINT",
        "SMALLINT",
        "INT",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "DECIMAL(9,2)",
        "DECIMAL(5,0)",
        "DECIMAL(20,4)",
        "DECIMAL(38,10)",
    ),
    "T": ("STRING",),
    "D": ("DATE",),
    "M": ("TIMESTAMP", "TIMESTAMP_NTZ"),
    "B": ("BOOLEAN",),
    "Y": ("BINARY",),
}
NARROW = {"N": "NNI", "A": "DM"}

PARTS = (
    "year",
    "quarter",
    "month",
    "day",
    "dayofmonth",
    "dayofyear",
    "dayofweek",
    "weekday",
    "weekofyear",
)
INTEGERS = (
    *("({I} + {I})", "({I} - {I})", "({I} * {I})", "({I} + {k})", "({I} * {k})", "({k} - {I})",
      "({I} % {k})", "({I} % {I})", "mod({I}, {k})"),
    *("({I} div {k})", "({I} div {I})", "pmod({I}, {k})", "pmod({I}, {I})", "(-{I})", "abs({I})",
      "negative({I})", "positive({I})"),
    *("length({T})", "char_length({T})", "octet_length({T})", "len({T})", "length({Y})",
      "character_length({T})"),
    *(f"{part}({{A}})" for part in PARTS), "hour({M})", "minute({M})", "second({M})",
    *("extract(year FROM {A})", "extract(month FROM {A})", "extract(dow FROM {A})",
      "extract(hour FROM {M})", "extract(week FROM {D})"),
    *("datediff({D}, {D})", "date_diff({D}, {A})", "unix_date({D})", "unix_seconds({z})",
      "unix_millis({z})", "unix_micros({z})"),
    *("unix_timestamp({A})", "to_unix_timestamp({A})", "floor({N})", "ceil({N})", "ceiling({N})",
      "int({N})", "bigint({N})", "smallint({N})", "tinyint({N})"),
)  # fmt: skip
NUMBERS = (
    *("({N} + {N})", "({N} - {N})", "({N} * {N})", "({N} / {N})", "({N} / {k})", "({N} * {k})",
      "({N} + {k})", "({k} - {N})", "({N} % {N})"),
    *("({N} % {k})", "pmod({N}, {k})", "pmod({N}, {N})", "(-{N})", "abs({N})", "round({N})",
      "round({N}, {p})", "sign({N})", "signum({N})", "sqrt({N})"),
    *("double({N})", "float({N})", "{I}", "{I}", "{I}", "({I} / {I})", "({m} div {k})"),
)  # fmt: skip
TEXTS = (
    *("substring({T}, 1, {p})", "substring({T}, {k}, {k})", "substr({T}, {k})",
      "substring({T} FROM 1 FOR {p})", "left({T}, {p})", "upper({T})", "ucase({T})"),
    *("lower({T})", "lcase({T})", "concat({T}, {w})", "concat({w}, {T})", "({T} || {T})",
      "concat({w}, {T}, {w})", "trim({T})", "ltrim({T})", "rtrim({T})"),
    *("reverse({T})", "string({X})", "trim(LEADING FROM {T})"),
)  # fmt: skip
DATES = (
    *("date_add({D}, {k})", "date_add({D}, {I})", "dateadd({D}, {k})", "date_sub({D}, {k})",
      "add_months({D}, {k})", "add_months({D}, {i})", "last_day({D})"),
    *("trunc({D}, {u})", "trunc({A}, {u})", "to_date({A})", "date({A})", "({D} + {k})",
      "({D} - {k})", "({D} + {i})", "date_from_unix_date({i})"),
    *("({D} + INTERVAL {q} DAYS)", "({D} - INTERVAL {q} MONTHS)", "({D} + INTERVAL '{q}' YEAR)",
      "({D} - INTERVAL {q} WEEKS)", "CAST({T} AS DATE)"),
)  # fmt: skip
MOMENTS = (
    *("date_trunc({v}, {A})", "timestamp_seconds({I})", "timestamp_millis({I})",
      "timestamp_micros({I})", "to_timestamp({A})", "timestamp({A})"),
    *("({M} + INTERVAL {q} HOURS)", "({M} - INTERVAL {q} MINUTES)", "({M} + INTERVAL '{q}' SECOND)",
      "({M} + INTERVAL {q} DAYS)", "CAST({T} AS TIMESTAMP)"),
)  # fmt: skip
BOOLEANS = (
    *("({N} > {N})", "({N} = {k})", "({D} < {D})", "({T} = {T})", "({X} IS NULL)", "({B} AND {B})",
      "({N} <=> {N})", "boolean({N})", "startswith({T}, {T})"),
    *("endswith({T}, {T})", "contains({T}, {T})", "isnull({X})", "isnotnull({X})", "isnan({N})",
      "equal_null({N}, {N})", "(NOT {B})"),
)  # fmt: skip
CHOICES = (
    *("CASE WHEN {B} THEN {S} ELSE {S} END", "CASE WHEN {B} THEN {S} END",
      "CASE WHEN {B} THEN {S} WHEN {B} THEN {S} ELSE {S} END", "if({B}, {S}, {S})"),
    *("CASE {i} WHEN {k} THEN {S} ELSE {S} END", "coalesce({S}, {S})", "coalesce({S}, {S}, {S})",
      "nvl({S}, {S})", "ifnull({S}, {S})", "nullif({S}, {S})"),
    *("nvl2({X}, {S}, {S})", "greatest({S}, {S})", "least({S}, {S})", "greatest({S}, {S}, {S})",
      "least({S}, {S}, {S})", "coalesce({S}, {L})"),
    *("greatest({S}, {L})", "least({S}, {L})", "nullif({S}, {L})", "if({B}, {S}, {L})"),
)  # fmt: skip
TEMPLATES = {
    "N": NUMBERS,
    "I": INTEGERS,
    "T": TEXTS,
    "D": DATES,
    "M": MOMENTS,
    "B": BOOLEANS,
    "Y": ("binary({T})",),
    "S": CHOICES,
}
# Forms on which DuckDB and Spark agree, on rows of `neighbours.table(odd=False)`. They differ in:
# quotients and remainders (by zero, of integers), casts that round (half even, or up), text as
# numbers and dates, upper case and reversal of non-ASCII text, concat and NULL, the spaces that
# are trimmed, days of the week, and everything that overflows.
AGREED = {
    "I": (
        *("({I} + {I})", "({I} - {I})", "({I} * {k})", "({I} + {k})", "({k} - {I})", "(-{I})",
          "abs({I})", "length({T})", "weekofyear({A})", "hour({M})"),
        *("year({A})", "quarter({A})", "month({A})", "day({A})", "dayofmonth({A})",
          "dayofyear({A})", "minute({M})", "extract(year FROM {A})"),
        *("CAST({B} AS INT)", "CAST({I} AS BIGINT)", "CAST({I} AS INT)", "TRY_CAST({I} AS BIGINT)"),
    ),
    "N": (
        *("({N} + {N})", "({N} - {N})", "({N} * {N})", "({N} + {k})", "({N} * {k})", "(-{N})",
          "abs({N})", "CAST({N} AS DOUBLE)"),
        *("CAST({B} AS DOUBLE)", "CAST({I} AS DECIMAL(20,4))", "TRY_CAST({N} AS DOUBLE)", "{I}",
          "{I}"),
    ),
    "T": ("substring({T}, 1, {p})", "left({T}, {p})", "lower({T})", "({T} || {T})", "({T} || {w})",
          "({w} || {T})", "CAST({I} AS STRING)"),
    "D": ("({D} + {k})", "({D} - {k})", "last_day({D})", "CAST({M} AS DATE)"),
    "M": ("CAST({D} AS TIMESTAMP_NTZ)",),
    "B": ("({N} > {N})", "({N} = {k})", "({D} < {D})", "({T} = {T})", "({X} IS NULL)",
          "({B} AND {B})", "({N} <=> {N})", "(NOT {B})", "CAST({I} AS BOOLEAN)"),
    "S": (
        *("CASE WHEN {B} THEN {S} ELSE {S} END", "CASE WHEN {B} THEN {S} END",
          "CASE WHEN {B} THEN {S} WHEN {B} THEN {S} ELSE {S} END", "if({B}, {S}, {S})"),
        *("coalesce({S}, {S})", "coalesce({S}, {S}, {S})", "ifnull({S}, {S})", "nullif({S}, {S})",
          "greatest({S}, {S})", "least({S}, {S})"),
        *("coalesce({S}, {L})", "greatest({S}, {L})", "least({S}, {S}, {S})", "nullif({S}, {L})",
          "if({B}, {S}, {L})"),
    ),
}  # fmt: skip
LITERALS = {
    "N": ("0", "1", "-3", "2.5", "1e0", "100", "0.5", "CAST('NaN' AS DOUBLE)", "NULL"),
    "I": ("0", "1", "-1", "7", "300", "-128", "2147483647", "NULL"),
    "T": ("''", "'a'", "'ab'", "'5'", "'é'", "NULL"),
    "D": ("DATE'2024-01-01'", "DATE'1969-12-31'", "DATE'2024-02-29'", "NULL"),
    "M": ("TIMESTAMP'2024-01-01 00:00:00'", "TIMESTAMP'2024-03-31 01:30:00'", "NULL"),
    "B": ("TRUE", "FALSE", "NULL"),
    "Y": ("X''", "X'61'", "NULL"),
    "k": ("0", "1", "2", "3", "7", "-1", "-2", "10", "100"),
    "p": ("0", "1", "2", "3"),
    "w": ("''", "'a'", "'x-'", "'é'", "' '"),
    "u": ("'week'", "'month'", "'MM'", "'quarter'", "'year'", "'YYYY'"),
    "v": (
        "'second'",
        "'minute'",
        "'hour'",
        "'DAY'",
        "'week'",
        "'month'",
        "'quarter'",
        "'year'",
        "'millisecond'",
    ),
    "q": ("1", "3", "-2", "40"),
}


@dataclass(frozen=True)
class Scalar:
    """An expression, and the name of its outermost form."""

    sql: str
    form: str


class Scalars:
    """Random expressions over some columns.

    `agreed` limits them to forms on which DuckDB agrees with Spark.
    """

    def __init__(self, r, fields: tuple[Field, ...], *, agreed: bool = False):
        self.r, self.agreed, self.templates = r, agreed, AGREED if agreed else TEMPLATES
        self.columns = {
            family: [f for f in fields if test(f.dtype)] for family, test in FAMILIES.items()
        }
        self.columns |= {
            "z": [f for f in fields if f.dtype.kind is Kind.TIMESTAMP and f.dtype.zoned],
            "m": [f for f in fields if f.dtype.kind is Kind.DECIMAL],
            "i": [f for f in fields if f.dtype.kind is Kind.INT and f.dtype.bits <= 32],
        }

    def column(self, family: str) -> Field:
        return self.r.choice(self.columns[family])

    def scalar(self, family: str = "X", depth: int = 1) -> Scalar:
        """Return an expression; it is a bare column only if depth is 0."""
        r = self.r
        if family == "X":
            family = r.choice("NNNNIITTDDMB" if self.agreed else "NNNNIITTDDMMB")
        family = r.choice(NARROW.get(family, family))
        if depth <= 0 or family not in self.templates:
            return Scalar(self.column(family).name, "column")
        kind = r.random()
        if kind < 0.25 and not self.agreed:
            return self.cast(family, depth)
        template = r.choice(self.templates["S" if kind < 0.42 else family])
        return Scalar(self.fill(template, family, depth), form_of(template))

    def cast(self, family: str, depth: int) -> Scalar:
        word, to = self.r.choice(("CAST", "CAST", "TRY_CAST")), self.r.choice(TYPES[family])
        source = self.r.choice("NNNITDMBYX"[: 10 if family in "NTM" else 9])
        if depth > 1:
            return Scalar(
                f"{word}({self.scalar(source, depth - 1).sql} AS {to})",
                f"cast to {to.partition('(')[0]}",
            )
        f = self.column(source)
        return Scalar(
            f"{word}({f.name} AS {to})", f"cast {kind_of(f.dtype)} to {to.partition('(')[0]}"
        )

    def fill(self, template: str, family: str, depth: int) -> str:
        def hole(m):
            what = m[1]
            if what in LITERALS and what.islower():
                return self.r.choice(LITERALS[what])
            if what in ("S", "L"):
                literal = what == "L" or self.r.random() < 0.2
                return self.r.choice(LITERALS[family]) if literal else self.part(family, depth)
            return self.part(what, depth)

        return re.sub(r"\{(\w)\}", hole, template)

    def part(self, family: str, depth: int) -> str:
        r = self.r
        if family not in TYPES and family not in "AX":
            return self.column(family).name
        if family == "B" and r.random() < 0.6:
            return self.fill(r.choice(self.templates["B"]), "B", depth - 1)
        if depth > 1 and r.random() < 0.6:
            return self.scalar(family, depth - 1).sql
        return self.column(family).name


def kind_of(dtype: DType) -> str:
    return str(dtype).partition("(")[0]


def form_of(template: str) -> str:
    """Return a name for the outermost form of a template.

    Example:
        >>> form_of("({I} + {k})"), form_of("abs({N})"), form_of("CASE WHEN {B} THEN {S} END")
        ('+', 'abs', 'case')
    """
    if m := re.match(r"(\w+)\(", template):
        return m[1].lower()
    if template.startswith("CASE"):
        return "case"
    if "INTERVAL" in template:
        return "interval"
    inner = re.sub(r"\{\w\}|[()]", " ", template).split()
    return inner[0].lower() if inner else "column"
