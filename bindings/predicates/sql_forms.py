"""Declare which of sqlglot's forms are understood, and where Spark groups them differently.

sqlglot marks variants of a form by arguments: `ILike(negate=True)` is NOT ILIKE,
`Cast(format=...)` is a cast by a pattern. A reader that ignored one would read a different
condition from the one that was written. So a form is UNKNOWN if one of its arguments is set and not
listed in READ. UNREAD lists the other arguments that sqlglot is known to have;
`tests/predicates/test_sql_forms.py` fails when a version of sqlglot has an argument that neither
table lists.
"""

from __future__ import annotations

from typing import Any, Final

from skipstone.bindings.predicates.sqlglot_modules import text_of
from skipstone.ir.errors import clip
from skipstone.ir.functions.spark_names import explain_function

_BINARY: Final = "this expression"
UNSIGNED: Final = "unsigned"  # metadata of a shift to the right that is written `>>>`
HIDDEN: Final = "hidden"  # metadata of a placeholder: the text of the form that it stands for

# Class -> the arguments that `bindings/predicates/sql_reader.py` reads.
READ: Final[dict[str, frozenset[str]]] = {
    name: frozenset(arguments.split())
    for names, arguments in (
        ("EQ NEQ LT LTE GT GTE NullSafeEQ NullSafeNEQ And Or", _BINARY),
        ("Add Sub Mul Div IntDiv Mod BitwiseAnd BitwiseOr BitwiseXor DPipe", _BINARY),
        ("BitwiseLeftShift BitwiseRightShift", _BINARY),
        ("Is RegexpLike Escape Dot Extract", _BINARY),
        ("Like ILike", _BINARY + " negate"),
        ("Not Paren Neg BitwiseNot Any All", "this"),
        ("Between", "this low high"),
        ("In Anonymous", "this expressions"),
        ("Tuple", "expressions"),
        ("Cast TryCast", "this to safe"),
        ("DataType", "this expressions nested"),
        ("DataTypeParam Var Boolean RawString HexString", "this"),
        ("Column", "this table db catalog"),
        ("Identifier", "this quoted"),
        ("Literal", "this is_string"),
        ("Null CurrentDate CurrentTimestamp", ""),
        ("Case", "this ifs default"),
        ("If", "this true false"),
        ("Trim", "this position expression"),
        ("Overlay", "this expression from_ for_"),
        ("Substring", "this start length"),
        ("StrPosition", "this substr"),
        ("Bracket Lambda", "this expressions"),
        ("Transform", "this expression"),
        ("Interval", "this unit"),
        ("IntervalSpan", "this expression"),
        ("Order", "expressions"),
        ("Ordered", "this desc nulls_first"),
    )
    for name in names.split()
}  # fmt: skip
# Hints for sqlglot's own engines, which do not change the meaning in Spark.
for _name in ("Div", "DPipe"):
    READ[_name] |= {"typed", "safe"}

# Class -> known arguments that make the form UNKNOWN.
UNREAD: Final[dict[str, frozenset[str]]] = {
    name: frozenset(arguments.split())
    for name, arguments in {
        "Between": "symmetric",
        "Bracket": "offset safe returns_list_for_maps json_access",
        "BitwiseAnd": "padside",
        "BitwiseOr": "padside",
        "BitwiseXor": "padside",
        "BitwiseLeftShift": "requires_int128",
        "BitwiseRightShift": "requires_int128",
        "Cast": "format action default",
        "TryCast": "format action default requires_string null_on_text_overflow probe_date_format",
        "Column": "join_mark shadow",
        "CurrentDate": "this",
        "CurrentTimestamp": "this sysdate",
        "DataType": "values prefix kind nullable collate",
        "DataTypeParam": "expression",
        "HexString": "is_integer",
        "Identifier": "global global_ temporary",
        "In": "query unnest field is_global",
        "Interval": "fraction_in_string",
        "Is": "negate",
        "Order": "this siblings",
        "Ordered": "with_fill",
        "RegexpLike": "flag full_match",
        "Substring": "zero_start",
        "StrPosition": "position occurrence clamp_position",
        "Trim": "collation",
    }.items()
}

# Classes that occur only inside other forms, and are not conditions or values by themselves.
PARTS: Final = frozenset((
    "Any", "All", "DataType", "DataTypeParam", "Identifier", "If", "Interval", "IntervalSpan",
    "Literal", "Tuple", "Var",
))  # fmt: skip

# Functions whose first argument of three is a unit.
# Source: Spark, `SqlBaseParser.g4`, `primaryExpression`.
DIFFERENCES: Final = frozenset(("datediff", "date_diff", "timediff", "timestampdiff"))
_UNIT_FUNCTIONS: Final = DIFFERENCES | {"dateadd", "date_add", "timestampadd"}
# Source: Spark, `SqlBaseParser.g4`, `datetimeUnit`.
_UNITS: Final = frozenset((
    "year", "quarter", "month", "week", "day", "dayofyear",
    "hour", "minute", "second", "millisecond", "microsecond",
))  # fmt: skip


_SUBQUERY: Final = (
    "a subquery needs the rows of another table",
    "run it first and write its values, or join by skipstone.join",
)
_PARAMETER: Final = (
    "the value of a parameter is not known",
    "write the value in place of the parameter",
)
_PATTERN: Final = ("Spark has no such pattern", "write LIKE or RLIKE")
# Class -> why the form is not understood, and what to write instead.
EXPLAINED: Final[dict[str, tuple[str, str]]] = {
    "Subquery": _SUBQUERY,
    "Select": _SUBQUERY,
    "Exists": _SUBQUERY,
    "In with query": _SUBQUERY,
    "Placeholder": _PARAMETER,
    "Parameter": _PARAMETER,
    "SessionParameter": _PARAMETER,
    "Window": ("a window function needs other rows", "filter by it after reading"),
    "Star": ("* stands for all columns", "name one column"),
    "RegexpILike": _PATTERN,
    "SimilarTo": _PATTERN,
    "Glob": _PATTERN,
    "CurrentTime": explain_function("current_time"),
    "CurrentUser": explain_function("current_user"),
    "Localtimestamp": explain_function("localtimestamp"),
    "Localtime": explain_function("localtime"),
}


def explain_form(e: Any, reason: str) -> tuple[str, str]:
    """Return why a form is not understood, and what to write instead.

    Args:
        e: The form.
        reason: What `not_understood` says of it.
    """
    if (hidden := e.meta.get(HIDDEN)) is not None:  # only Spark can read it
        if hidden.startswith("("):
            return _SUBQUERY
        return f"the form is not understood: {clip(hidden)}", ""
    if reason == "In with field":
        in_parentheses = f"IN ({text_of(e.args['field'])})"
        return "IN expects a list", f"write it in parentheses: {clip(in_parentheses)}"
    return EXPLAINED.get(reason, (f"the form is not understood: {reason}", ""))


def not_understood(e: Any) -> str | None:
    """Return the class or argument in a form that the reader does not understand, if any."""
    name = type(e).__name__
    arguments = READ.get(name)
    if arguments is None:
        return name
    for key, value in e.args.items():
        for v in value if isinstance(value, list) else (value,):
            if v is None or v is False:
                continue
            if key not in arguments:
                return f"{name} with {key}"
            if type(v).__name__ in PARTS and (reason := not_understood(v)):
                return reason
    return None


# Classes of operators whose ranks differ.
_COMPARED: Final = frozenset(("EQ", "NEQ", "LT", "LTE", "GT", "GTE", "NullSafeEQ", "NullSafeNEQ"))
_LOOSE: Final = frozenset((
    "NullSafeEQ", "NullSafeNEQ", "Between", "In", "Is", "Like", "ILike", "RegexpLike", "Escape",
    "Not",
))  # fmt: skip
_BITS: Final = frozenset(("BitwiseAnd", "BitwiseOr", "BitwiseXor"))
_SHIFTS: Final = frozenset(("BitwiseLeftShift", "BitwiseRightShift"))


def grouping_differs(e: Any) -> str | None:
    """Return why Spark groups a form differently from sqlglot; None if both agree."""
    kind = type(e).__name__
    left, right = type(e.args.get("this")).__name__, type(e.args.get("expression")).__name__
    # Spark reads `a = b IN (c)` as `(a = b) IN (c)`, and `a LIKE b = c` as `a LIKE (b = c)`.
    if kind in _COMPARED and (left in _LOOSE or right in _LOOSE or right in _COMPARED):
        return "Spark groups tests next to a comparison differently; write parentheses"
    if kind in _BITS and any(side in _BITS and side != kind for side in (left, right)):
        return "Spark ranks & above ^ above |; write parentheses"
    if kind in _SHIFTS and left in _BITS:
        return "Spark ranks << and >> above &, ^ and |; write parentheses"
    if kind == "DPipe" and (left in _BITS or left in _SHIFTS or right in ("Add", "Sub")):
        return "Spark ranks || with + and -, above bits; write parentheses"
    return None


def is_name(column: Any) -> bool:
    """Return True if sqlglot's Column is a column; False if it is a unit or a collation."""
    parent = column.parent
    above = type(parent).__name__
    if above == "DataType" or (above == "Collate" and parent.expression is column):
        return False
    return not (
        above == "Anonymous"
        and str(parent.this).lower() in _UNIT_FUNCTIONS
        and len(parent.expressions) == 3
        and parent.expressions[0] is column
        and len(column.parts) == 1
        and not column.this.args.get("quoted")
        and column.name.lower() in _UNITS
    )
