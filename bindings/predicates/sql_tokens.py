"""Tokens of Spark SQL: sqlglot's tokens, corrected where Spark's lexer differs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any, Final

from skipstone.bindings.predicates.sqlglot_modules import sqlglot
from skipstone.ir.errors import PredicateSyntaxError, PredicateTooDeep

MAX_NESTING: Final = 200  # levels of parentheses and brackets
MAX_JUNCTIONS: Final = 10_000  # ANDs and ORs; with more, reading takes seconds
CLOSES: Final = {"R_PAREN": "L_PAREN", "R_BRACKET": "L_BRACKET"}
STRINGS: Final = ("STRING", "RAW_STRING")

# Strings, quoted names and comments. Group 1 is a comment of one line; a backslash at its end
# continues it on the next line. Source: Spark, `SqlBaseLexer.g4`, SIMPLE_COMMENT.
QUOTED: Final = re.compile(
    r"""(?<!\w)[rR](?:'[^']*'|"[^"]*")|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`"""
    r"""|/\*.*?\*/|(--(?:\\\n|[^\r\n])*)""",
    re.DOTALL,
)


def tokens_of(dialect: Any, text: str) -> list[Any]:
    """Return the tokens of a text, as Spark's lexer makes them.

    Raises:
        sqlglot.errors.TokenError: a string, a quoted name or a comment is not closed.
    """
    tokens = _tokenized(dialect, _without_long_comments(text))
    out: list[Any] = []
    at = 0
    while at < len(tokens):
        correct = CORRECTIONS.get(tokens[at].token_type.name)
        token, at = (correct and correct(tokens, at, text)) or (tokens[at], at + 1)
        out.append(token)
    return _with_typed_strings(out)


def _without_long_comments(text: str) -> str:
    """Blank out comments that a backslash continues on the next line."""
    if "--" not in text or "\\\n" not in text:
        return text
    return QUOTED.sub(lambda m: " " * len(m[0]) if m[1] else m[0], text)


def _tokenized(dialect: Any, text: str) -> list[Any]:
    try:
        return list(dialect.tokenize(text))
    except sqlglot("errors").TokenError:
        # Other engines write the default escape as ESCAPE '\\'; Spark takes it for an open string.
        plain = re.sub(r"(?i)\bescape\s+'\\'", lambda m: " " * len(m[0]), text)
        if plain == text:
            raise
        return list(dialect.tokenize(plain))


# Words that make the string after them a literal, and tokens that apply to the literal before them.
_TYPES: Final = frozenset(
    ("DATE", "TIME", "TIMETZ", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ")
)
_POSTFIX: Final = frozenset(
    ("DCOLON", "DOT", "L_BRACKET", "COLON", "ARROW", "DARROW", "HASH_ARROW", "DHASH_ARROW")
)


def _with_typed_strings(tokens: list[Any]) -> list[Any]:
    """Put parentheses around DATE '2024-01-01' if `::` or the like follows.

    Spark casts the date; sqlglot would cast the string, and make a date of the result.
    """
    if not any(t.token_type.name in _POSTFIX for t in tokens):
        return tokens
    out: list[Any] = []
    at = 0
    while at < len(tokens):
        kinds = [_kind(tokens, at + i) for i in range(3)]
        if kinds[0] in _TYPES and kinds[1] in STRINGS and kinds[2] in _POSTFIX:
            first, last = tokens[at : at + 2]
            out += [_made("L_PAREN", "(", first, first), first, last]
            out.append(_made("R_PAREN", ")", last, last))
            at += 2
        else:
            out.append(tokens[at])
            at += 1
    return out


# A correction takes the tokens, a position among them and the text. It returns a token that
# replaces those from the position on, and the position after them; or None to leave them.
Correction = Callable[[list[Any], int, str], "tuple[Any, int] | None"]


def _kind(tokens: list[Any], at: int) -> str:
    return str(tokens[at].token_type.name) if at < len(tokens) else ""


def _made(kind: str, text: str, first: Any, last: Any) -> Any:
    """Return a token of a kind that replaces those from `first` to `last`."""
    kinds = sqlglot("tokens").TokenType
    return type(last)(kinds[kind], text, last.line, last.col, first.start, last.end, last.comments)


def merged_strings(tokens: list[Any], at: int, text: str) -> tuple[Any, int] | None:
    """Merge adjacent strings. Since Spark 4, 'a' 'b' is 'ab' and 'it''s' is it's.

    In a raw string, doubled quotes have no meaning.
    """
    end = at
    while _kind(tokens, end) in STRINGS:
        end += 1
    if end < at + 2:
        return None
    run = tokens[at:end]
    whole = run[0].text
    for before, t in itertools.pairwise(run):
        plain = before.token_type == t.token_type and t.token_type.name == "STRING"
        doubled = plain and t.start == before.end + 1 and text[t.start] == text[before.end]
        whole += text[t.start] * doubled + t.text
    return _made("STRING", whole, tokens[at], tokens[end - 1]), end


def hex_string(tokens: list[Any], at: int, text: str) -> tuple[Any, int] | None:
    """Read X"61" and X '61' as binary literals, like X'61'."""
    t = tokens[at]
    if (
        t.token_type.name != "VAR"
        or t.text not in ("x", "X")
        or _kind(tokens, at + 1) not in STRINGS
    ):
        return None
    digits, end = merged_strings(tokens, at + 1, text) or (tokens[at + 1], at + 2)
    return _made("HEX_STRING", digits.text, t, digits), end


def hexadecimal_name(tokens: list[Any], at: int, text: str) -> tuple[Any, int] | None:
    """Read 0x1F as a name, as Spark does; sqlglot takes it for a number."""
    t = tokens[at]
    if text[t.start] != "0":
        return None
    return _made("VAR", text[t.start : t.end + 1], t, t), at + 1


def unsigned_shift(tokens: list[Any], at: int, text: str) -> tuple[Any, int] | None:
    """Read the operator `>>>`, of which sqlglot makes `>>` and `>`.

    The kind is that of an operator which Spark and sqlglot's parser for it do not have.
    """
    three = tokens[at : at + 3]
    if [t.token_type.name for t in three] != ["GT"] * 3 or three[2].start != three[0].start + 2:
        return None
    return _made("COLON_GT", ">>>", three[0], three[2]), at + 3


def not_less(tokens: list[Any], at: int, text: str) -> tuple[Any, int] | None:
    """Read `!<` as `>=`, and `!>` as `<=`.

    Source: Spark, `SqlBaseLexer.g4`, `GTE` and `LTE`.
    """
    kind = {"LT": "GTE", "GT": "LTE"}.get(_kind(tokens, at + 1))
    if kind is None or text[tokens[at].start : tokens[at + 1].end + 1] not in ("!<", "!>"):
        return None
    return _made(kind, {"GTE": ">=", "LTE": "<="}[kind], tokens[at], tokens[at + 1]), at + 2


def timestamp_ntz(tokens: list[Any], at: int, text: str) -> tuple[Any, int] | None:
    """Read TIMESTAMP WITHOUT TIME ZONE as TIMESTAMP_NTZ; sqlglot takes it for TIMESTAMP."""
    words = [t.text.upper() for t in tokens[at : at + 4]]
    if words != ["TIMESTAMP", "WITHOUT", "TIME", "ZONE"]:
        return None
    return _made("TIMESTAMPNTZ", "TIMESTAMP_NTZ", tokens[at], tokens[at + 3]), at + 4


# Kinds of tokens after which a minus sign belongs to the number behind it.
_BEFORE_SIGN: Final = frozenset((
    "L_PAREN", "COMMA", "EQ", "NEQ", "NULLSAFE_EQ", "LT", "LTE", "GT", "GTE", "AND", "OR",
    "BETWEEN", "WHEN", "THEN", "ELSE", "PLUS", "DASH", "STAR", "SLASH", "DIV", "MOD",
))  # fmt: skip


def signed_number(tokens: list[Any], at: int, text: str) -> tuple[Any, int] | None:
    """Read -128Y and -5::string as casts of a negative number, as Spark does."""
    kinds = [_kind(tokens, at + i) for i in (1, 2)]
    alone = at == 0 or _kind(tokens, at - 1) in _BEFORE_SIGN
    if kinds != ["NUMBER", "DCOLON"] or not alone:
        return None
    return _made("NUMBER", "-" + tokens[at + 1].text, tokens[at], tokens[at + 1]), at + 2


# By the kind of the first token.
CORRECTIONS: Final[dict[str, Correction]] = {
    "STRING": merged_strings,
    "RAW_STRING": merged_strings,
    "VAR": hex_string,
    "HEX_STRING": hexadecimal_name,
    "GT": unsigned_shift,
    "NOT": not_less,
    "DASH": signed_number,
    "TIMESTAMP": timestamp_ntz,
    "TIMESTAMPTZ": timestamp_ntz,
    "TIMESTAMPLTZ": timestamp_ntz,
}


def check_nesting(tokens: list[Any], text: str) -> int:
    """Return how deep parentheses and brackets are nested, before a recursive parser reads them.

    Raises:
        PredicateSyntaxError: one of them is unmatched, or there are too many ANDs and ORs.
        PredicateTooDeep: they are nested more than MAX_NESTING deep.
    """
    if sum(t.token_type.name in ("AND", "OR") for t in tokens) > MAX_JUNCTIONS:
        raise PredicateSyntaxError(
            f"the predicate joins more than {MAX_JUNCTIONS:,} conditions by AND and OR; "
            "write IN, or build it with col()"
        )
    opened: list[Any] = []
    deepest = 0
    for t in tokens:
        kind = t.token_type.name
        if kind in CLOSES.values():
            opened.append(t)
            deepest = max(deepest, len(opened))
        elif kind in CLOSES and not (opened and opened.pop().token_type.name == CLOSES[kind]):
            raise PredicateSyntaxError(
                f"cannot read the predicate: this {t.text} closes nothing", text, t.start
            )
        if len(opened) > MAX_NESTING:
            raise PredicateTooDeep(
                f"parentheses are nested too deeply; expected at most {MAX_NESTING} levels",
                text,
                t.start,
            )
    if opened:
        raise PredicateSyntaxError(
            f"cannot read the predicate: this {opened[-1].text} is never closed",
            text,
            opened[-1].start,
        )
    return deepest


def check_commas(tokens: list[Any], text: str) -> None:
    """Raise PredicateSyntaxError if a comma has no item beside it; sqlglot would skip the comma."""
    kinds = ["L_PAREN", *(t.token_type.name for t in tokens), "R_PAREN"]
    for i, t in enumerate(tokens):
        if t.token_type.name == "COMMA" and (
            kinds[i] in ("L_PAREN", "L_BRACKET", "COMMA") or kinds[i + 2] in CLOSES
        ):
            raise PredicateSyntaxError(
                "cannot read the predicate: an item is missing beside this comma", text, t.start
            )


def has_and(tokens: list[Any]) -> bool:
    """Return True if an AND stands outside parentheses and CASE; after a dot, words are names."""
    depth, before = 0, ""
    for t in tokens:
        kind, after_dot = t.token_type.name, before == "DOT"
        before = kind
        if after_dot:
            continue
        if kind == "AND" and depth <= 0:
            return True
        depth += (kind in CLOSES.values() or kind == "CASE") - (kind in CLOSES or kind == "END")
    return False


# Kinds of tokens that end a value.
_VALUES: Final = frozenset(
    ("VAR", "IDENTIFIER", "NUMBER", "STRING", "RAW_STRING", "R_PAREN", "R_BRACKET")
)
# Calls with a syntax of their own between the parentheses; sqlglot may not know all of its words.
_OWN_SYNTAX: Final = frozenset((
    "cast", "try_cast", "extract", "trim", "substring", "substr", "position", "overlay", "exists",
    "first", "last", "first_value", "last_value", "any_value", "struct",
))  # fmt: skip
_QUERY: Final = frozenset(("SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE"))


def masked(tokens: list[Any], position: int, text: str) -> list[Any] | None:
    """Return the tokens with a placeholder for a form that Spark may read, and sqlglot cannot.

    The form is the innermost subquery, or call with a syntax of its own, around the position.
    Everywhere else sqlglot knows Spark's grammar of conditions, and what it refuses is an error.

    Returns:
        None if no such form is around the position.
    """
    opened: list[int] = []
    for i, t in enumerate(tokens):
        kind = t.token_type.name
        if kind == "L_PAREN" and t.start <= position:
            opened.append(i)
        elif kind == "R_PAREN" and opened and t.start < position:
            opened.pop()
    for i in reversed(opened):
        query = i + 2 < len(tokens) and tokens[i + 1].text.upper() in _QUERY
        query = query and (
            tokens[i + 2].text.isidentifier()
            or _kind(tokens, i + 2) in ("IDENTIFIER", "NUMBER", "STRING", "L_PAREN", "STAR")
        )
        call = i > 0 and tokens[i - 1].text.lower() in _OWN_SYNTAX
        if query or call:
            start = i - 1 if call else i
            end = _partner(tokens, i)
            form = text[tokens[start].start : tokens[end].end + 1]
            hidden = _made("PLACEHOLDER", form, tokens[start], tokens[end])
            member = query and i > 0 and tokens[i - 1].text.upper() == "IN"
            replacement = [tokens[i], hidden, tokens[end]] if member else [hidden]
            return [*tokens[:start], *replacement, *tokens[end + 1 :]]
    return None


def _partner(tokens: list[Any], opening: int) -> int:
    """Return the position of the parenthesis that closes the one at `opening`."""
    depth = 0
    for i in range(opening, len(tokens)):
        kind = tokens[i].token_type.name
        depth += (kind == "L_PAREN") - (kind == "R_PAREN")
        if not depth:
            return i
    raise AssertionError("check_nesting has matched all parentheses")


# The token at fault is at most this far before the one at which sqlglot gave up.
MAX_TOKENS_BEFORE: Final = 4


def quoted_word(tokens: list[Any], position: int) -> tuple[list[Any], Any] | None:
    """Quote the nearest keyword used as a name; return the tokens and the quoted token."""
    at = next((i for i, t in enumerate(tokens) if t.start >= position), len(tokens) - 1)
    for i in range(at, max(at - MAX_TOKENS_BEFORE, 0) - 1, -1):
        kind, text = _kind(tokens, i), str(tokens[i].text)
        if (
            kind not in _VALUES
            and kind != "NOT"
            and text.isidentifier()
            and (i == 0 or _kind(tokens, i - 1) not in _VALUES)
        ):
            named = _made("IDENTIFIER", text, tokens[i], tokens[i])
            return [*tokens[:i], named, *tokens[i + 1 :]], named
    return None
