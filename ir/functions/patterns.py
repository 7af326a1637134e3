"""Tests of text against patterns: LIKE, RLIKE, and the parts of text that simple ones look for."""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir import types as ty
from skipstone.ir.function import (
    VALUE_UNKNOWN,
    Call,
    Function,
    Signature,
    check_arity,
    fixed,
    int_literal,
    only_value,
    text_literal,
)
from skipstone.ir.functions import text_columns
from skipstone.ir.functions.text import check_text, map_elements
from skipstone.ir.like import check_length, decode, fits
from skipstone.ir.node import Node
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.values import Data, bytes_of


def _text_test(test: Callable[[bytes, bytes], bool], kernel: Callable[..., Any]) -> Function:
    return Function(
        fixed(ty.STRING, ty.STRING, returns=ty.BOOL),
        lambda call, a, b: map_elements(test, a, b, to=np.int64),
        column=text_columns.tested(kernel),
    )


def _like_signature(args: tuple[Node, ...], session: Session) -> Signature:
    check_arity(args, 3)
    decoded = decode(text_literal(args[1]), text_literal(args[2]))
    if args[0].dtype != ty.STRING or decoded is None:
        raise CannotJudge("LIKE expects STRING and a pattern that Spark accepts")
    check_length(decoded)
    return (ty.STRING,) * 3, ty.BOOL


def _like(call: Call, a: Data, pattern: Data, escape: Data) -> Any:
    decoded = decode(only_value(pattern).decode(), only_value(escape).decode())
    assert decoded is not None
    return text_columns.numbers(fits(decoded, _texts_of(a)))


def _texts_of(a: Data) -> pa.Array:
    """Convert text to an Arrow array; bytes that are not UTF-8 are replaced, as in Spark."""
    return pa.array([raw.decode("utf-8", "replace") for raw in a.tolist()], pa.large_string())


# The syntax that Java and RE2 read alike: no classes of letters, groups with options, references or
# lookaround.
_SAFE_REGEX: Final = re.compile(
    r"(?:[^\\()\[\]{}?*+|.^$]|\\[.^$*+?()\[\]{}|\\/dD-]|\((?:\?:|(?!\?))|[|.)]"
    r"|[\^$](?![?*+{])|(?:[?*+]|\{\d{1,2}(?:,\d{0,2})?\})\??(?![?*+{])"
    r"|\[\^?(?:[A-Za-z0-9 _]-[A-Za-z0-9]|[A-Za-z0-9 _])+\])*"
)
# Java's `.` and `$` recognize more line ends than RE2's.
_LINE_END: Final = "[\n\r\x85\u2028\u2029]"
_MAX_REGEX_LENGTH: Final = 1000
# The last repetition of a group may match nothing, which Java keeps and RE2 leaves out.
_REPEATED_GROUP: Final = re.compile(r"\)[*+{]")
_GROUPS: Final = re.compile(r"\$(\d)(?!\d)")  # the groups that a replacement names


def _rlike_signature(args: tuple[Node, ...], session: Session) -> Signature:
    check_arity(args, 2)
    check_text(args[0])
    text_literal(args[1])
    return (ty.STRING, ty.STRING), ty.BOOL


def _rlike(call: Call, a: Data, pattern: Data) -> Any:
    return _matches(_texts_of(a), only_value(pattern).decode())


def _rlike_column(call: Call, a: Any, pattern: bytes) -> Any:
    return _matches(a, pattern.decode()) if isinstance(a, pa.Array) else None


def _matches(shown: pa.Array, text: str) -> tuple[Data, Data]:
    if len(text) <= _MAX_REGEX_LENGTH and _SAFE_REGEX.fullmatch(text):
        # A pattern that RE2 refuses is an error in Spark, or uses a form that RE2 lacks.
        with contextlib.suppress(pa.ArrowInvalid):
            found = text_columns.numbers(pc.match_substring_regex(shown, pattern=text))
            return found, _unknown_at_line_ends(shown, text)
    return np.zeros(len(shown), np.int64), np.full(len(shown), VALUE_UNKNOWN, np.uint8)


def _unknown_at_line_ends(texts: pa.Array, pattern: str) -> Data:
    """Return a mask of the texts whose line ends Java and RE2 may read differently."""
    if not re.search(r"[.$]", pattern):
        return np.zeros(1, np.uint8)
    ends = pc.match_substring_regex(texts, pattern=_LINE_END)
    return text_columns.numbers(ends) * VALUE_UNKNOWN


def _groups_in(pattern: str) -> int:
    """Return the number of groups of a pattern that Java and RE2 read alike.

    Raises:
        CannotJudge: they may read it differently.
    """
    safe = len(pattern) <= _MAX_REGEX_LENGTH and _SAFE_REGEX.fullmatch(pattern)
    if safe and not _REPEATED_GROUP.search(re.sub(r"\\.", "", pattern)):
        with contextlib.suppress(re.error):
            return re.compile(pattern).groups
    raise CannotJudge("the regular expression has a form that Java and RE2 may read differently")


def _extract_signature(args: tuple[Node, ...], session: Session) -> Signature:
    check_arity(args, 2, 3)
    check_text(args[0])
    group = int_literal(args[2]) if len(args) == 3 else 1
    if not 0 <= group <= _groups_in(text_literal(args[1])):
        raise CannotJudge(f"the pattern has no group {group}")
    return (ty.STRING, ty.STRING, *(ty.INT32 for _ in args[2:])), ty.STRING


def _extract(call: Call, a: Data, pattern: Data, *group: Data) -> Any:
    at = only_value(group[0]) if group else 1
    change = functools.partial(_group, at=at)
    changed, bad = _changed(_texts_of(a), only_value(pattern).decode(), change)
    return bytes_of(changed), bad


def _extract_column(call: Call, a: Any, pattern: bytes, at: int = 1) -> Any:
    if not isinstance(a, pa.Array):
        return None
    return _changed(a, pattern.decode(), functools.partial(_group, at=int(at)))


def _group(texts: pa.Array, pattern: str, at: int) -> pa.Array:
    """Return what a group matches first in each text; "" if it matches nothing."""
    named = _name_group(f"({pattern})", at)
    found = pc.struct_field(pc.extract_regex(texts, pattern=named), [0])
    return pc.fill_null(found, "")


def _name_group(pattern: str, at: int) -> str:
    """Return a pattern whose group number `at`, counted from 0, is the only one, with a name.

    Example:
        >>> _name_group("((a)(?:b)[(](c))", 2)
        '(?:(?:a)(?:b)[(](?P<g>c))'
    """
    number = itertools.count()

    def opened(m: re.Match[str]) -> str:
        if m[0] != "(":
            return m[0]
        return "(?P<g>" if next(number) == at else "(?:"

    return re.sub(r"\\.|\[[^\]]*\]|\(\?:|\(", opened, pattern)


def _replace_signature(args: tuple[Node, ...], session: Session) -> Signature:
    check_arity(args, 3)
    check_text(args[0])
    pattern, by = text_literal(args[1]), text_literal(args[2])
    groups = _groups_in(pattern)
    if re.match(pattern, "") is not None:
        raise CannotJudge("a pattern that matches no character is not replaced here")
    if set(_GROUPS.sub("", by)) & {"$", "\\"}:
        raise CannotJudge("the replacement holds signs other than groups, such as $1")
    if any(int(n) > groups for n in _GROUPS.findall(by)):
        raise CannotJudge("the replacement names a group that the pattern lacks")
    return (ty.STRING,) * 3, ty.STRING


def _replace(call: Call, a: Data, pattern: Data, by: Data) -> Any:
    changed, bad = _replaced(_texts_of(a), only_value(pattern).decode(), only_value(by).decode())
    return bytes_of(changed), bad


def _replace_column(call: Call, a: Any, pattern: bytes, by: bytes) -> Any:
    return _replaced(a, pattern.decode(), by.decode()) if isinstance(a, pa.Array) else None


def _replaced(texts: pa.Array, pattern: str, by: str) -> Any:
    to = _GROUPS.sub(r"\\\1", by)
    return _changed(
        texts, pattern, lambda t, p: pc.replace_substring_regex(t, pattern=p, replacement=to)
    )


def _changed(texts: pa.Array, pattern: str, change: Callable[[pa.Array, str], pa.Array]) -> Any:
    """Return changed texts; those with line ends are unknown if the pattern looks at them."""
    try:
        changed = change(texts, pattern)
    except pa.ArrowInvalid:  # RE2 lacks a form of the pattern
        return texts, np.full(len(texts), VALUE_UNKNOWN, np.uint8)
    return changed, _unknown_at_line_ends(texts, pattern)


def regex_prefix(pattern: str) -> tuple[str, bool]:
    """Return the literal prefix of every match of an anchored Java pattern.

    The second result is True if every text with that prefix matches.

    Example:
        >>> regex_prefix("^ab+c"), regex_prefix("^ab"), regex_prefix("^ab.*"), regex_prefix("ab")
        (('ab', False), ('ab', True), ('ab', True), ('', False))
    """
    if not pattern.startswith("^") or "|" in pattern or "\\Q" in pattern:
        return "", False
    plain = re.match(r"[A-Za-z0-9 _/:;,@#%&=~<>'\"!-]*", pattern[1:])
    assert plain is not None
    text, rest = plain[0], pattern[1 + plain.end() :]
    if rest[:1] in ("*", "?", "{"):
        return text[:-1], False
    return text, rest in ("", ".*")


FUNCTIONS: Final = {
    "regexp_extract": Function(_extract_signature, _extract, bad="unknown", column=_extract_column),
    "regexp_replace": Function(_replace_signature, _replace, bad="unknown", column=_replace_column),
    "has_prefix": _text_test(bytes.startswith, pc.starts_with),
    "has_suffix": _text_test(bytes.endswith, pc.ends_with),
    "has_part": _text_test(lambda a, b: b in a, pc.match_substring),
    "fits": Function(_like_signature, _like, column=text_columns.like),
    "matches": Function(_rlike_signature, _rlike, bad="unknown", column=_rlike_column),
}
