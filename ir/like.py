"""LIKE patterns: decoding, the literal prefix, the next string after a prefix, and matching."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir.node import Node
from skipstone.ir.session import CannotJudge

# Tokens of a pattern. Arrow's regular expressions fail at some ten thousand.
MAX_TOKENS: Final = 2_000
# Characters of a pattern from its first wildcard on. Each may cost nanoseconds per character of
# text.
MAX_CHARACTERS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Pattern:
    """A decoded pattern: alternating literal text and wildcards, with escapes resolved.

    `tokens` holds pairs (is_wildcard, text); a wildcard's text is `%` or `_`.
    """

    tokens: tuple[tuple[bool, str], ...]

    @property
    def prefix(self) -> str:
        """The literal text before the first wildcard."""
        return "" if not self.tokens or self.tokens[0][0] else self.tokens[0][1]

    @property
    def is_literal(self) -> bool:
        """True if there is no wildcard, so that LIKE means `=`."""
        return not any(wild for wild, _ in self.tokens)

    @property
    def is_prefix(self) -> bool:
        """True for literal text followed by `%` only: the prefix alone decides."""
        rest = self.tokens[1:] if self.tokens and not self.tokens[0][0] else self.tokens
        return bool(rest) and all(token == (True, "%") for token in rest)

    @property
    def by_bytes(self) -> bool:
        """True if the pattern only tests how bytes start or end, or what they contain.

        Then text need not be UTF-8, as in Spark.
        """
        return self.is_prefix or self.is_literal or self.inner is not None

    @property
    def inner(self) -> str | None:
        """The text of `%text` or `%text%`; None for any other pattern."""
        inner = [text for wild, text in self.tokens if not wild]
        wild = tuple(wild for wild, _ in self.tokens)
        if wild in ((True, False), (True, False, True)) and (True, "_") not in self.tokens:
            return inner[0]
        return None

    @property
    def regex(self) -> str:
        """A regular expression for a full match. Wildcards also match line ends."""
        parts = (
            {"%": ".*", "_": "."}[text] if wild else re.escape(text) for wild, text in self.tokens
        )
        return "(?s)" + "".join(parts)


def decode(pattern: str, escape: str) -> Pattern | None:
    """Decode a pattern into tokens.

    Returns:
        The pattern; None if Spark refuses it because an escape ends it or precedes an ordinary
        character.

    Example:
        >>> decode(r"a\\_b%", "\\\\").prefix
        'a_b'
    """
    tokens: list[tuple[bool, str]] = []
    text: list[str] = []  # literal characters since the last wildcard
    chars = iter(pattern)
    for ch in chars:
        wild = False
        if ch == escape:
            ch = next(chars, "")
            if ch not in ("%", "_", escape) or not ch:
                return None
        else:
            wild = ch in "%_"
        if not wild:
            text.append(ch)
            continue
        if text:
            tokens.append((False, "".join(text)))
            text.clear()
        tokens.append((True, ch))
    if text:
        tokens.append((False, "".join(text)))
    return Pattern(tuple(tokens))


def fits(pattern: Pattern, texts: pa.Array) -> pa.BooleanArray:
    """Return a mask of the texts that match a pattern.

    RE2 never backtracks: its time grows at most with the product of both lengths.

    Raises:
        CannotJudge: the pattern is too long.
    """
    check_length(pattern)
    if pattern.is_prefix:
        return pc.starts_with(texts, pattern=pattern.prefix)
    if (inner := pattern.inner) is not None:
        if len(pattern.tokens) == 2:
            return pc.ends_with(texts, pattern=inner)
        return pc.match_substring(texts, pattern=inner)
    return pc.match_substring_regex(texts, pattern=rf"\A{pattern.regex}\z")


def check_length(pattern: Pattern) -> None:
    """Raise CannotJudge if a pattern is too long for `fits`."""
    if pattern.is_prefix:
        return
    if len(pattern.tokens) > MAX_TOKENS:
        raise CannotJudge(
            f"LIKE with {len(pattern.tokens):,} wildcards and texts between them; "
            f"expected at most {MAX_TOKENS:,}"
        )
    behind = sum(len(text) for _, text in pattern.tokens) - len(pattern.prefix)
    if behind > MAX_CHARACTERS:
        raise CannotJudge(
            f"LIKE with {behind:,} characters after the prefix; expected at most {MAX_CHARACTERS:,}"
        )


def quoted(text: str) -> str:
    """Return the pattern that matches exactly this text, with the backslash as escape.

    Example:
        >>> quoted("50%")
        '50\\\\%'
    """
    return "".join("\\" + c if c in "\\%_" else c for c in text)


def pattern_of(node: Node) -> Pattern:
    """Return the pattern of a bound LIKE node."""
    raw = node.args[1].value
    assert isinstance(raw, bytes) and isinstance(node.value, str)
    pattern = decode(raw.decode(), node.value)
    assert pattern is not None  # bind refuses invalid patterns
    return pattern


def after_prefix(prefix: bytes) -> bytes | None:
    """Return the least string above every string that starts with `prefix`; None if there is none.

    The last character becomes the next code point. If it has no next one, it is dropped and the
    character before it is advanced instead.

    Example:
        >>> after_prefix(b"ab"), after_prefix("\\U0010ffff".encode())
        (b'ac', None)
    """
    text = prefix.decode().rstrip("\U0010ffff")
    if not text:
        return None
    point = ord(text[-1]) + 1
    # Surrogates are not characters.
    return (text[:-1] + chr(0xE000 if point == 0xD800 else point)).encode()
