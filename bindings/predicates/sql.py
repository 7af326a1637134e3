"""Parse SQL text to nodes, through sqlglot's Spark dialect. Only a tree is built; nothing runs.

`sql_tokens.py` makes tokens as Spark has them, sqlglot's parser makes a tree of them, and
`sql_reader.py` reads the classes and arguments that `sql_forms.py` lists. A form that is not
understood becomes UNKNOWN: it does not prune, and the rest of the condition still does.

A text is an error if Spark refuses it too: unmatched parentheses, a missing or surplus operand or
operator. Two forms are exceptions, as Spark may accept what sqlglot does not: a call with its own
syntax, and a subquery. If sqlglot cannot read the text in their parentheses, they are UNKNOWN
(`masked`). A name that is a keyword of sqlglot's grammar, but not of Spark's, is an error whose
message says which word to quote with backticks.
"""

from __future__ import annotations

import contextlib
import decimal
import functools
import sys
from typing import Any, Final

from skipstone.bindings.predicates.sql_cache import parse_cached
from skipstone.bindings.predicates.sql_forms import HIDDEN, UNSIGNED, not_understood
from skipstone.bindings.predicates.sql_lists import cut_lists, put_back
from skipstone.bindings.predicates.sql_reader import Positions, node_of
from skipstone.bindings.predicates.sql_tokens import (
    MAX_NESTING,
    check_commas,
    check_nesting,
    has_and,
    masked,
    quoted_word,
    tokens_of,
)
from skipstone.bindings.predicates.sqlglot_modules import FAULTS, sqlglot
from skipstone.ir.errors import PredicateSyntaxError, PredicateTooDeep, limited_nesting
from skipstone.ir.node import Node
from skipstone.kernels.run import forks

MAX_CHARACTERS: Final = 4_000_000  # a longer text is refused before it is read
# The trees of many texts are cached, of few longer ones, and of none that is longer still.
FEW_CHARACTERS, MAX_CACHED_CHARACTERS = 10_000, 1_000_000
MAX_BACKSLASHES: Final = 100_000  # sqlglot's time grows with the square of those in a string
# Nesting that fits Python's usual recursion limit, at some 20 frames a level.
SHALLOW_NESTING: Final = 30
RECURSION_LIMIT: Final = 10_000  # frames, while sqlglot reads deeper nesting
MAX_MASKS: Final = 8  # forms in one text that only Spark can read
MAX_TOKENS_FOR_ADVICE: Final = 1_000  # in a longer text, no word that needs backticks is sought


def parse(text: str) -> tuple[Node, Positions]:
    """Parse one condition of Spark SQL.

    Returns:
        The unbound predicate, and the position of each name's first mention.

    Raises:
        PredicateSyntaxError: the text is not one condition; the error holds the position.
        PredicateTooDeep: its nesting exceeds what the parser can follow.
    """
    if len(text) <= FEW_CHARACTERS:
        return _parse_short(text)
    return _parse_long(text) if len(text) <= MAX_CACHED_CHARACTERS else _parse_lists(text)


@functools.lru_cache(maxsize=512)
def _parse_short(text: str) -> tuple[Node, Positions]:
    return _parse_lists(text)


@functools.lru_cache(maxsize=8)
def _parse_long(text: str) -> tuple[Node, Positions]:
    return _parse_lists(text)


def _parse_lists(text: str) -> tuple[Node, Positions]:
    """Parse a text; its long lists are read in bulk."""
    cut = cut_lists(text) if len(text) <= MAX_CHARACTERS else None
    if cut is not None:
        with contextlib.suppress(PredicateSyntaxError):  # its position is one in the shorter text
            node, positions = _parse_literals(cut.text)
            if (whole := put_back(node, cut)) is not None:
                return whole, {name: cut.original_position(at) for name, at in positions.items()}
    return _parse_literals(text)


def _parse_literals(text: str) -> tuple[Node, Positions]:
    """Parse a text, or reuse the cached tree of a text that differs only in its literals."""
    cached = parse_cached(text, _parse) if len(text) <= FEW_CHARACTERS else None
    return _parse(text) if cached is None else cached


def _parse(text: str) -> tuple[Node, Positions]:
    if len(text) > MAX_CHARACTERS:
        raise PredicateSyntaxError(
            f"the predicate has {len(text):,} characters; expected at most {MAX_CHARACTERS:,}. "
            "Write long lists as col(name).isin(values)."
        )
    if text.count("\\") > MAX_BACKSLASHES:
        raise PredicateSyntaxError(
            f"the predicate has more than {MAX_BACKSLASHES:,} backslashes; "
            "write such strings as col(name) == value"
        )
    try:
        trees = _trees(text)
    except RecursionError:
        raise PredicateTooDeep(
            "predicate is nested too deeply for the parser; "
            f"expected at most {MAX_NESTING} parentheses, and far fewer of other forms"
        ) from None
    if len(trees) != 1:
        holds = f"{len(trees)} statements" if trees else "nothing"
        joined = "; join conditions by AND or OR" if trees else ""
        raise PredicateSyntaxError(
            f"the text holds {holds}; expected one condition{joined}", text, 0
        )
    tree = trees[0]
    if not _is_condition(tree):
        from skipstone.bindings.predicates.sql_errors import no_condition

        raise no_condition(tree, text)
    positions: Positions = {}
    with limited_nesting():
        return node_of(tree, positions), positions


def parse_order(text: str) -> list[tuple[Node, bool, bool]]:
    """Parse the text after ORDER BY.

    Returns:
        For each key: its expression, True if it descends, True if NULL comes first.

    Raises:
        PredicateSyntaxError: the text cannot be read.
        PredicateTooDeep: it is nested too deeply.
    """
    if not text.strip():
        raise PredicateSyntaxError(
            "order_by is blank; expected a text such as 'x DESC NULLS LAST, y', or None"
        )
    try:
        trees = _trees(f"SELECT 1 ORDER BY {text}")
    except PredicateSyntaxError:
        raise PredicateSyntaxError(
            f"order_by is {text!r}, which cannot be read; "
            "expected a text such as 'x DESC NULLS LAST, `from`'"
        ) from None
    except RecursionError:
        raise PredicateTooDeep("order_by is nested too deeply; expected names of columns") from None
    order = trees[0].args.get("order") if len(trees) == 1 else None
    if (
        order is None
        or not_understood(order)
        or any(not_understood(one) for one in order.expressions)
        or any(v for k, v in trees[0].args.items() if k not in ("order", "expressions", "kind"))
    ):
        raise PredicateSyntaxError(
            f"order_by is {text!r}; expected a text such as 'x DESC NULLS LAST, y'"
        )
    return [
        (node_of(one.this, {}), bool(one.args.get("desc")), bool(one.args.get("nulls_first")))
        for one in order.expressions
    ]


def _is_condition(tree: Any) -> bool:
    """Return True if a tree is a condition or a value, and not a query or a statement."""
    exp = sqlglot()
    return isinstance(tree, exp.Condition) and not isinstance(tree, exp.Query)


def _trees(text: str) -> list[Any]:
    """Return the trees of a text's statements.

    Raises:
        PredicateSyntaxError: sqlglot cannot read the text.
        PredicateTooDeep: parentheses are nested too deeply.
        RecursionError: other forms are nested too deeply.
    """
    errors = sqlglot("errors")
    dialect = sqlglot("dialects.spark").Spark()
    try:
        tokens = tokens_of(dialect, text)
    except errors.SqlglotError:
        from skipstone.bindings.predicates.sql_errors import unclosed

        raise unclosed(text) from None
    check_commas(tokens, text)
    with (
        _deep_recursion
        if check_nesting(tokens, text) > SHALLOW_NESTING
        else contextlib.nullcontext()
    ):
        for masks in reversed(range(MAX_MASKS + 1)):
            try:
                trees = _parser()(dialect=dialect).parse(tokens, text)
                return [t for t in trees if t is not None]
            except errors.ParseError as e:
                position = _position(e, text)
                with_mask = masked(tokens, position, text) if masks else None
                if with_mask is None:
                    from skipstone.bindings.predicates.sql_errors import syntax_error

                    description = str(_details(e).get("description") or "")
                    words = _words_to_quote(tokens, text, position)
                    raise syntax_error(description, text, position, words) from None
                tokens = with_mask
            except FAULTS as e:
                from skipstone.bindings.predicates.sql_errors import syntax_error

                raise syntax_error("", text, 0, []) from e
    raise AssertionError("the last attempt returns or raises")


@functools.cache
def _parser() -> type[Any]:
    """Return sqlglot's Spark parser, changed to leave function calls as names with arguments.

    It also keeps a plus sign, which turns text into a number, and paths into VARIANT.
    """
    exp, TokenType = sqlglot(), sqlglot("tokens").TokenType
    base = type(sqlglot("dialects.spark").Spark().parser())
    with_own_syntax = (
        "CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "POSITION", "OVERLAY",
    )  # fmt: skip

    def positive(parser: Any) -> Any:
        operand = parser._parse_unary()
        if operand is None:
            parser.raise_error("Required keyword: 'this' missing for a sign")
        return exp.Anonymous(this="positive", expressions=[operand])

    def placeholder(parser: Any) -> Any:
        made = parser.expression(exp.Placeholder())
        if (text := parser._prev.text) != "?":
            made.meta[HIDDEN] = text
        return made

    def between(parser: Any, this: Any) -> Any:
        first = parser._index
        made = base._parse_between(parser, this)
        if not has_and(parser._tokens[first : parser._index]):  # sqlglot makes do without
            parser.raise_error("Required keyword: 'expression' missing for BETWEEN")
        return made

    def variant_path(parser: Any, this: Any) -> Any:
        made = base._parse_colon_as_variant_extract(parser, this)
        if this is not None and parser._prev.token_type == TokenType.COLON:  # sqlglot drops it
            parser.raise_error("Required keyword: 'expression' missing for a path")
        return made

    def unsigned_shift(this: Any, expression: Any) -> Any:
        made = exp.BitwiseRightShift(this=this, expression=expression)
        made.meta[UNSIGNED] = True
        return made

    def build_cast(parser: Any, *args: Any, **given: Any) -> Any:
        try:
            return base.build_cast(parser, *args, **given)
        except decimal.InvalidOperation:  # sqlglot computes the type of 1e-2.5BD
            parser.raise_error("the number before BD cannot be read")

    def predicate(
        parser: Any, cls: Any, this: Any, expression: Any, *rest: Any, **more: Any
    ) -> Any:
        # sqlglot would put parentheses around operands, and hide where its grouping differs from
        # Spark's.
        made = cls(this=this, expression=expression)
        if more.get("negate"):
            made.set("negate", True)
        return parser.expression(made)

    return type(
        "Plain",
        (base,),
        {
            "FUNCTIONS": {},
            "FUNCTION_PARSERS": {
                k: v for k, v in base.FUNCTION_PARSERS.items() if k in with_own_syntax
            },
            "UNARY_PARSERS": base.UNARY_PARSERS | {TokenType.PLUS: positive},
            "PLACEHOLDER_PARSERS": base.PLACEHOLDER_PARSERS | {TokenType.PLACEHOLDER: placeholder},
            "BITWISE": base.BITWISE | {TokenType.COLON_GT: unsigned_shift},
            "COLON_IS_VARIANT_EXTRACT": True,
            "_build_predicate": predicate,
            "_parse_between": between,
            "_parse_colon_as_variant_extract": variant_path,
            "build_cast": build_cast,
        },
    )


class _DeepRecursion:
    """Raises Python's recursion limit. The limit is the interpreter's, so threads take turns."""

    def __init__(self) -> None:
        self.lock = forks.lock()

    def __enter__(self) -> None:
        self.lock.acquire()
        self.before = sys.getrecursionlimit()
        sys.setrecursionlimit(max(self.before, RECURSION_LIMIT))

    def __exit__(self, *exc: object) -> None:
        sys.setrecursionlimit(self.before)
        self.lock.release()


_deep_recursion = _DeepRecursion()


def _details(e: Any) -> dict[str, Any]:
    """Return sqlglot's description of its first error."""
    errors: list[dict[str, Any]] = getattr(e, "errors", None) or [{}]
    return errors[0]


def _position(e: Any, text: str) -> int:
    """Return the position of the token at which sqlglot gave up."""
    details = _details(e)
    line, column = details.get("line"), details.get("col")
    if not isinstance(line, int) or not isinstance(column, int):
        return 0
    starts = [0, *(i + 1 for i, ch in enumerate(text) if ch == "\n")]
    word = str(details.get("highlight") or "")
    end = starts[min(line, len(starts)) - 1] + column
    return max(0, min(end - max(len(word), 1), len(text)))


def _words_to_quote(tokens: list[Any], text: str, position: int) -> list[Any]:
    """Return the words that must be quoted to make the text a condition; [] if none do."""
    spark, errors = sqlglot("dialects.spark").Spark(), sqlglot("errors")
    if len(tokens) > MAX_TOKENS_FOR_ADVICE:
        return []
    words: list[Any] = []
    for _ in range(MAX_MASKS):
        tried = quoted_word(tokens, position)
        if tried is None:
            return []
        tokens, word = tried
        words.append(word)
        try:
            trees = _parser()(dialect=spark).parse(tokens, text)
        except errors.SqlglotError as e:
            position = _position(e, text)
        except FAULTS:
            return []
        else:
            return words if len(trees) == 1 and _is_condition(trees[0]) else []
    return []
