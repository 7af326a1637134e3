"""Explain why a text is not a condition: what is wrong, where, and what to write instead."""

from __future__ import annotations

import re
from typing import Any, Final

from skipstone.bindings.predicates.sql_tokens import QUOTED
from skipstone.bindings.predicates.sqlglot_modules import sqlglot, text_of
from skipstone.ir.errors import PredicateSyntaxError, clip
from skipstone.ir.node import quoted_name

# What is closed; then, as group 2, what opens something that never closes.
_CLOSED: Final = re.compile(rf"""{QUOTED.pattern}|(['"`]|/\*)""", re.DOTALL)
_OPENED: Final = {
    "'": ("string", "close it with ', and write a quote inside it as \\'"),
    '"': ("string", 'close it with ", and write a quote inside it as \\"'),
    "`": ("quoted name", "close it with `"),
    "/*": ("comment", "close it with */"),
}
_STATEMENT: Final = re.compile(
    r"[\s(]*(SELECT|WITH|FROM\s+\S+\s+WHERE|DELETE|INSERT|UPDATE|MERGE|CREATE|ALTER|DROP|EXPLAIN)"
    r"\s+[\w`*(\"]",
    re.IGNORECASE,
)
_LEADING: Final = re.compile(r"\s*(WHERE|HAVING|AND|OR)\b\s*", re.IGNORECASE)
_UNIT: Final = re.compile(
    r"(\d+ +(?:second|minute|hour|day|week|month|year)s?)\s*\Z", re.IGNORECASE
)
WHERE_ALONE: Final = 'expected the condition alone, what follows WHERE, such as "x = 5"'
# What people write by the habit of other languages, and what Spark SQL has instead.
ADVICE: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), advice)
    for pattern, advice in (
        (r"&&", "write AND instead of &&"),
        (r"=>", "write >= instead of =>"),
        (r"=<", "write <= instead of =<"),
        (r"!\s+=", "write != without a blank"),
        (r"%s|%\(\w*\)?s?", "write the value in place of the parameter"),
        (r"\d{4}-\d\d?-\d\d?[ T]\d\d?", "write TIMESTAMP '2024-01-31 12:00:00', in quotes"),
        (r"~", "write RLIKE instead of ~"),
        (r"\bGROUP\s+BY\b", "leave out GROUP BY"),
        (r"\bORDER\s+BY\b", "give the order by order_by="),
        (r"\bLIMIT\b", "give the number of rows by limit="),
        (r"\bcontains\s+'", "write contains(column, 'text')"),
        (r"\bstartswith\s+'", "write startswith(column, 'text')"),
        (r"\bendswith\s+'", "write endswith(column, 'text')"),
        (r"\bmatches\s+'", "write column RLIKE 'pattern'"),
        (r"\bbetween\b[^,]*,", "write BETWEEN low AND high"),
        ("[\u2018\u201c][^\u2019\u201d]*[\u2019\u201d]", "write straight quotes, such as 'text'"),
        (r"\d,\d{3}(?!\d)", "write a number without commas"),
        (r"\b(?:equals|eq)\s+['\d]", "write = instead of EQUALS"),
    )
)


# Two words that may be one name with a blank; then, what compares it.
_TWO_WORDS: Final = re.compile(r"([^\W\d]\w*) +([^\W\d]\w*)\s*\Z")
_COMPARES: Final = re.compile(r"[=<>!]|(?:IS|IN|LIKE|BETWEEN)\b", re.IGNORECASE)
MAX_NAME: Final = 100  # characters of such a name


def unclosed(text: str) -> PredicateSyntaxError:
    """Return the error for a string, a quoted name or a comment that is not closed."""
    opened = next((m for m in _CLOSED.finditer(text) if m[2]), None)
    if opened is None:
        what = "a string, a quoted name or a comment is not closed"
        return PredicateSyntaxError(f"cannot read the predicate: {what}", text, 0)
    what, way_out = _OPENED[opened[2]]
    return PredicateSyntaxError(
        f"cannot read the predicate: the {what} that begins here is never closed; {way_out}",
        text,
        opened.start(2),
    )


def no_condition(tree: Any, text: str) -> PredicateSyntaxError:
    """Return the error for a tree that is a query, a statement or a part of one."""
    exp = sqlglot()
    name = type(tree).__name__.upper()
    if isinstance(tree, exp.Alias):
        return _word_after(tree.alias, text)
    if not isinstance(tree, exp.Query | exp.DML | exp.DDL | exp.Command | exp.Drop | exp.Merge):
        expected = "expected a condition such as \"x = 5 AND y LIKE 'ab%'\""
        return PredicateSyntaxError(f"the text is {name}; {expected}", text, 0)
    name = str(tree.this).upper() if isinstance(tree, exp.Command) else name
    where = tree.args.get("where")
    if where is None:
        return statement(name, text)
    return PredicateSyntaxError(
        f"the text is a whole {name} statement; expected its condition alone: "
        f"{clip(text_of(where.this))}",
        text,
        0,
    )


def _word_after(word: str, text: str) -> PredicateSyntaxError:
    """Return the error for a word after a condition, where SQL has the name of a result."""
    unit = _UNIT.search(text)
    way_out = f"write INTERVAL {unit[1].upper()}" if unit else "join conditions by AND or OR"
    what = f"cannot read the predicate: {clip(word)!r} follows a whole condition; {way_out}"
    return PredicateSyntaxError(what, text, max(text.rfind(word), 0))


def statement(name: str, text: str) -> PredicateSyntaxError:
    """Return the error for a text that is a whole statement."""
    return PredicateSyntaxError(f"the text is a whole {name} statement; {WHERE_ALONE}", text, 0)


def syntax_error(
    description: str, text: str, position: int, words: list[Any]
) -> PredicateSyntaxError:
    """Return the error for a text that sqlglot refuses, without naming sqlglot's classes.

    Args:
        description: sqlglot's own; "" if it has none.
        text: The text.
        position: Where sqlglot gave up.
        words: The tokens that would make it a condition if they were in backticks.
    """
    if words:
        shown = ", ".join(quoted_name(w.text) for w in words)
        what = (
            f"{words[0].text!r} is an SQL keyword; "
            f"quote a column of that name in backticks: {shown}"
        )
        position = words[0].start
    elif (found := _STATEMENT.match(text)) is not None:
        return statement(found[1].split()[0].upper(), text)
    elif (found := _LEADING.match(text)) is not None and text[found.end() :].strip():
        rest = clip(text[found.end() :].strip())
        what = f"a condition does not begin with {found[1].upper()}; write {rest}"
        position = found.start(1)
    else:
        what = description.rstrip(".") or "the text cannot be read as SQL"
        if what.startswith("Required keyword"):
            what = "an operand is missing here"
        elif what.startswith(("Expected table name", "Invalid expression")):
            what = "this is not expected here"
        elif what.startswith("Expecting "):
            what = what.replace("Expecting", "expected", 1)
        if (advice := _advice(text, position) or _blank(text, position)) is not None:
            what = f"{what}; {advice}"
    return PredicateSyntaxError(f"cannot read the predicate: {what}", text, position)


def _blank(text: str, position: int) -> str | None:
    """Return what to write if a comparison follows two words that may be one name."""
    words = _TWO_WORDS.search(text[max(0, position - MAX_NAME) : position])
    if words is None or _COMPARES.match(text, position) is None:
        return None
    return f"write a name that has blanks in backticks: {quoted_name(f'{words[1]} {words[2]}')}"


def _advice(text: str, position: int) -> str | None:
    """Return what to write instead of a form of another language at a position, if any."""
    start = text.rfind("\n", 0, position) + 1
    near = text[max(start, position - 60) : position + 20]
    at = position - max(start, position - 60)
    for pattern, advice in ADVICE:
        if any(m.start() <= at + 1 and at <= m.end() + 1 for m in pattern.finditer(near)):
            return advice
    return None
