"""SQL text as nodes, through sqlglot's Spark dialect. Only a tree is built; nothing is ever run."""

from __future__ import annotations

import contextlib
import decimal
import functools
import math
import re
import sys
from typing import TYPE_CHECKING, Any, Final

from skipstone.ir import types as ty
from skipstone.ir.errors import PredicateSyntaxError, PredicateTooDeep
from skipstone.ir.functions.dates import FIELDS
from skipstone.ir.literals import literal_type
from skipstone.ir.node import Name, Node, Op, literal, unknown
from skipstone.kernels import forks
from skipstone.kernels.first_import import first_import

if TYPE_CHECKING:
    from sqlglot import exp as sg

LONGEST: Final = 4_000_000  # characters; a longer text is refused before it is read
KEPT: Final = 100_000  # characters; the tree of a longer text is not kept for the next time
DEEPEST: Final = 200  # nested parentheses or brackets
MOST: Final = 10_000  # ANDs and ORs; with more, reading takes seconds
ESCAPES: Final = 100_000  # backslashes; sqlglot's time grows with the square of those in a string
SHALLOW: Final = 30  # what sqlglot reads within Python's usual limit, at some 20 frames a level
FRAMES: Final = 10_000  # Python's limit while sqlglot reads the rest

# Where in the text each name stands: node identity is by structure, so the first place is kept.
Positions = dict[Name, int]


def parse(text: str) -> tuple[Node, Positions]:
    """Parse one condition of Spark SQL.

    Returns:
        The unbound predicate, and the position of each name's first mention.

    Raises:
        PredicateSyntaxError: the text is not one condition; it says where.
        PredicateTooDeep: its nesting exceeds what the parser can follow.
    """
    return _parse_kept(text) if len(text) <= KEPT else _parse(text)


@functools.lru_cache(maxsize=512)
def _parse_kept(text: str) -> tuple[Node, Positions]:
    return _parse(text)


def _parse(text: str) -> tuple[Node, Positions]:
    first_import("sqlglot.dialects.spark")
    import sqlglot
    from sqlglot.dialects.spark import Spark
    from sqlglot.errors import SqlglotError

    if len(text) > LONGEST:
        raise PredicateSyntaxError(
            f"the predicate has {len(text):,} characters; expected at most {LONGEST:,}. Give long lists as col(name).isin(values)."
        )
    if text.count("\\") > ESCAPES:
        raise PredicateSyntaxError(
            f"the predicate has more than {ESCAPES:,} backslashes; give such strings as col(name) == value"
        )
    try:
        dialect = Spark()
        tokens = _joined(_tokens(dialect, text), text)
        depth = _depth(tokens, text)
        with _deep if depth > SHALLOW else contextlib.nullcontext():
            trees = _parser()(dialect=dialect).parse(tokens, text)
    except SqlglotError as e:
        raise _syntax_error(e, text) from None
    except RecursionError:
        raise PredicateTooDeep(
            f"predicate is nested too deeply for the parser; expected at most {DEEPEST} parentheses, and far fewer of other forms"
        ) from None
    trees = [t for t in trees if t is not None]
    if len(trees) != 1:
        holds = f"{len(trees)} statements" if trees else "nothing"
        raise PredicateSyntaxError(f"the text holds {holds}; expected one condition", text, 0)
    tree = trees[0]
    assert tree is not None
    if not isinstance(tree, sqlglot.exp.Condition) or isinstance(tree, sqlglot.exp.Query):
        raise PredicateSyntaxError(
            f"the text is {type(tree).__name__.upper()}; expected a condition such as \"x = 5 AND y LIKE 'ab%'\"",
            text,
            0,
        )
    positions: Positions = {}
    try:
        return _Reader(positions).node(tree), positions
    except RecursionError:
        raise PredicateTooDeep(
            "predicate is nested too deeply; expected at most a few hundred levels"
        ) from None


def parse_order(text: str) -> list[tuple[Node, bool, bool]]:
    """Parse what stands after ORDER BY: expressions, whether each descends, and whether NULL comes first.

    Raises:
        PredicateSyntaxError: it cannot be read.
    """
    first_import("sqlglot.dialects.spark")
    import sqlglot
    from sqlglot.errors import SqlglotError

    if not text.strip():
        raise PredicateSyntaxError(
            "order_by is blank; expected such as 'x DESC NULLS LAST, y', or None"
        )
    try:
        tree = sqlglot.parse_one(f"SELECT 1 ORDER BY {text}", dialect="spark")
    except SqlglotError:
        raise PredicateSyntaxError(
            f"order_by is {text!r}, which cannot be read; expected such as 'x DESC NULLS LAST, `from`'"
        ) from None
    except RecursionError:
        raise PredicateTooDeep("order_by is nested too deeply; expected names of columns") from None
    order = tree.args.get("order")
    if order is None or any(
        value for key, value in tree.args.items() if key not in ("order", "expressions", "kind")
    ):
        raise PredicateSyntaxError(f"order_by is {text!r}; expected such as 'x DESC NULLS LAST, y'")
    return [
        (
            parse(one.this.sql(dialect="spark"))[0],
            bool(one.args.get("desc")),
            bool(one.args.get("nulls_first")),
        )
        for one in order.expressions
    ]


@functools.cache
def _parser() -> type[Any]:
    """sqlglot's Spark parser without its own table of functions: they stay names with arguments, as they were written."""
    from sqlglot.dialects.spark import Spark

    base = type(Spark().parser())
    kept = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "POSITION", "OVERLAY")
    return type(
        "Plain",
        (base,),
        {
            "FUNCTIONS": {},
            "FUNCTION_PARSERS": {k: v for k, v in base.FUNCTION_PARSERS.items() if k in kept},
        },
    )


class _Deep:
    """Room for sqlglot's recursion. The limit is the whole interpreter's, so one thread at a time has it."""

    def __init__(self) -> None:
        self.lock = forks.lock()

    def __enter__(self) -> None:
        self.lock.acquire()
        self.before = sys.getrecursionlimit()
        sys.setrecursionlimit(max(self.before, FRAMES))

    def __exit__(self, *exc: object) -> None:
        sys.setrecursionlimit(self.before)
        self.lock.release()


_deep = _Deep()


def _depth(tokens: list[Any], text: str) -> int:
    """How deep parentheses and brackets are nested; what is too deep is refused before the recursive parser meets it."""
    depth = deepest = 0
    if sum(t.token_type.name in ("AND", "OR") for t in tokens) > MOST:
        raise PredicateSyntaxError(
            f"the predicate joins more than {MOST:,} conditions by AND and OR; write IN, or build it with col()"
        )
    for t in tokens:
        depth += (
            (t.text in ("(", "[")) - (t.text in (")", "]")) if t.token_type.name != "STRING" else 0
        )
        deepest = max(deepest, depth)
        if depth > DEEPEST:
            raise PredicateTooDeep(
                f"parentheses are nested more than {DEEPEST} deep", text, t.start
            )
    return deepest


def _tokens(dialect: Any, text: str) -> list[Any]:
    from sqlglot.errors import TokenError

    try:
        return list(dialect.tokenize(text))
    except TokenError:
        # Other engines write the default escape as ESCAPE '\\', which Spark reads as an open string.
        plain = re.sub(r"(?i)\bescape\s+'\\'", lambda m: " " * len(m[0]), text)
        if plain == text:
            raise
        return list(dialect.tokenize(plain))


def _joined(tokens: list[Any], text: str) -> list[Any]:
    """Adjacent string tokens as one: Spark 4 reads 'it''s' as it's, where sqlglot sees two strings."""
    out: list[Any] = []
    run: list[Any] = []  # strings that touch each other

    def close() -> None:
        if len(run) > 1:
            first, last = run[0], run[-1]
            whole = text[first.start].join(t.text for t in run)
            run[:] = [
                type(last)(
                    last.token_type,
                    whole,
                    last.line,
                    last.col,
                    first.start,
                    last.end,
                    last.comments,
                )
            ]
        out.extend(run)
        run.clear()

    for t in tokens:
        if t.token_type.name != "STRING":
            close()
            out.append(t)
            continue
        if run and not (t.start == run[-1].end + 1 and text[t.start] == text[run[-1].end]):
            close()
        run.append(t)
    close()
    return out


def _syntax_error(e: Exception, text: str) -> PredicateSyntaxError:
    details = (getattr(e, "errors", None) or [{}])[0]
    line, column = details.get("line"), details.get("col")
    what = _plainly(str(details.get("description") or "the text cannot be read as SQL").rstrip("."))
    position = None
    if isinstance(line, int) and isinstance(column, int):
        starts = [0, *(i + 1 for i, ch in enumerate(text) if ch == "\n")]
        word = str(details.get("highlight") or "")
        end = starts[min(line, len(starts)) - 1] + column
        position = max(0, min(end - max(len(word), 1), len(text)))
    return PredicateSyntaxError(
        f"cannot read the predicate: {what}", text, position if position is not None else 0
    )


def _plainly(what: str) -> str:
    """What sqlglot found wrong, without the names of its classes; mostly it is a name that is a word of SQL."""
    if what.startswith("Required keyword"):
        what = "an operand is missing here"
    elif what.startswith(("Expected table name", "Invalid expression")):
        what = "this is not expected here"
    return f"{what}. A column whose name is a word of SQL wants backticks, as in `from` = 1"


class _Reader:
    """Turns sqlglot's tree into nodes. A form that it does not know becomes UNKNOWN, its columns kept inside."""

    def __init__(self, positions: Positions) -> None:
        from sqlglot import exp

        self.exp, self.positions = exp, positions
        self.binary = {
            exp.EQ: Op.EQ,
            exp.NEQ: Op.NE,
            exp.LT: Op.LT,
            exp.LTE: Op.LE,
            exp.GT: Op.GT,
            exp.GTE: Op.GE,
            exp.NullSafeEQ: Op.SAME,
        }
        self.calls: dict[type[Any], str] = {
            exp.BitwiseAnd: "&",
            exp.BitwiseOr: "|",
            exp.BitwiseXor: "^",
            exp.Add: "+",
            exp.Sub: "-",
            exp.Mul: "*",
            exp.Div: "/",
            exp.IntDiv: "div",
            exp.Mod: "%",
        }

        self.bits = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)

        # Spark's grammar takes `a = b IN (c)` for `(a = b) IN (c)`, and `a LIKE b = c` for `a LIKE (b = c)`.
        self.compared = (
            exp.EQ,
            exp.NEQ,
            exp.LT,
            exp.LTE,
            exp.GT,
            exp.GTE,
            exp.NullSafeEQ,
            exp.NullSafeNEQ,
        )
        self.loose = (
            exp.NullSafeEQ,
            exp.NullSafeNEQ,
            exp.Between,
            exp.In,
            exp.Is,
            exp.Like,
            exp.ILike,
            exp.RegexpLike,
            exp.Escape,
            exp.Not,
        )

    def node(self, e: sg.Expression) -> Node:
        exp = self.exp
        if isinstance(e, self.compared) and (
            isinstance(e.this, self.loose)
            or isinstance(e.expression, (*self.loose, *self.compared))
        ):
            return self.opaque(
                e, "Spark groups tests beside a comparison in another way; write parentheses"
            )
        if type(e) in self.binary:
            return Node(self.binary[type(e)], (self.node(e.this), self.node(e.expression)))
        if type(e) in self.bits and any(
            type(a) in self.bits and type(a) is not type(e) for a in (e.this, e.expression)
        ):
            return self.opaque(e, "Spark ranks & above ^ above |; write parentheses")
        if type(e) in self.calls:
            return self.arithmetic(e)
        match e:
            case exp.Paren():
                return self.node(e.this)
            case exp.And() | exp.Or():
                return Node(
                    Op.AND if isinstance(e, exp.And) else Op.OR,
                    tuple(self.node(a) for a in e.flatten()),
                )
            case exp.Not():
                return Node(Op.NOT, (self.node(e.this),))
            case exp.NullSafeNEQ():
                return Node(Op.NOT, (Node(Op.SAME, (self.node(e.this), self.node(e.expression))),))
            case exp.Between() if not e.args.get("symmetric"):
                x = self.node(e.this)
                return Node(
                    Op.AND,
                    (
                        Node(Op.GE, (x, self.node(e.args["low"]))),
                        Node(Op.LE, (x, self.node(e.args["high"]))),
                    ),
                )
            case exp.Is():
                return self.test(e)
            case exp.In() if not (
                e.args.get("query") or e.args.get("unnest") or e.args.get("field")
            ):
                return self.members(e)
            case exp.Like() | exp.Escape():
                return self.like(e)
            case exp.Column():
                return self.column(e)
            case exp.Dot() if isinstance(_first(e), exp.Column):
                return self.column(e)
            case exp.Cast() if isinstance(e.to, exp.DataType):
                return self.cast(e)
            case exp.DPipe():
                return Node(Op.CALL, tuple(map(self.node, e.flatten())), "concat")
            case exp.Neg():
                return Node(Op.CALL, (self.node(e.this),), "negative")
            case exp.Anonymous() if isinstance(e.this, str):
                return Node(Op.CALL, tuple(map(self.node, e.expressions)), e.this.lower())
            case exp.Dot() if isinstance(e.expression, exp.Anonymous) and isinstance(
                e.this, exp.Identifier
            ):
                return Node(
                    Op.CALL,
                    tuple(map(self.node, e.expression.expressions)),
                    f"{e.this.name}.{e.expression.this}".lower(),
                )
            case exp.Substring() if e.args.get("start") is not None:
                parts = (e.this, e.args["start"], *filter(None, (e.args.get("length"),)))
                return Node(Op.CALL, tuple(map(self.node, parts)), "substring")
            case exp.Trim() if e.args.get("expression") is None:
                return Node(
                    Op.CALL,
                    (self.node(e.this),),
                    {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(
                        str(e.args.get("position") or "").upper(), "trim"
                    ),
                )
            case exp.Case() | exp.If():
                return self.choice(e)
            case exp.BitwiseNot():
                return Node(Op.CALL, (self.node(e.this),), "~")
            case exp.ILike():
                return Node(Op.CALL, (self.node(e.this), self.node(e.expression)), "ilike")
            case exp.RegexpLike():
                return Node(Op.CALL, (self.node(e.this), self.node(e.expression)), "rlike")
            case exp.Extract():
                return Node(
                    Op.CALL,
                    (self.node(e.expression),),
                    FIELDS.get(e.this.name.lower(), f"extract {e.this.name}"),
                )
        found = self.literal(e)
        return found if found is not None else self.opaque(e, "the form is not understood")

    def opaque(self, e: sg.Expression, why: str) -> Node:
        """UNKNOWN, which still names its columns, so that a misspelt one is an error."""
        columns = tuple(
            self.column(_whole(c))
            for c in e.find_all(self.exp.Column)
            if not c.find_ancestor(self.exp.Lambda, self.exp.Query)
        )
        text = unknown(e.sql(dialect="spark")[:300].encode(errors="replace").decode(), why)
        return Node(Op.UNKNOWN, tuple(c for c in columns if c.op is Op.COLUMN), text.value)

    def test(self, e: sg.Expression) -> Node:
        """IS NULL, IS TRUE, IS FALSE."""
        subject, what = self.node(e.this), e.expression
        if isinstance(what, self.exp.Null):
            return Node(Op.IS_NULL, (subject,))
        if isinstance(what, self.exp.Boolean):
            return Node(Op.IS_TRUE, (subject if what.this else Node(Op.NOT, (subject,)),))
        return self.opaque(e, "the form is not understood")

    def members(self, e: sg.Expression) -> Node:
        subject = self.node(e.this)
        items = [self.node(m) for m in e.expressions]
        if not items:
            raise PredicateSyntaxError("IN has no members; expected at least one")
        typed = tuple((m.dtype, m.value) for m in items if m.op is Op.LITERAL)
        return Node(Op.IN, (subject, *(m for m in items if m.op is not Op.LITERAL)), typed)

    def like(self, e: sg.Expression) -> Node:
        escape, inner = "\\", e
        if isinstance(e, self.exp.Escape):
            given, inner = e.expression, e.this
            if not isinstance(inner, self.exp.Like) or not given.is_string or len(given.this) != 1:
                return self.opaque(e, "the form is not understood")
            escape = given.this
        if isinstance(inner.expression, self.exp.Any | self.exp.All | self.exp.Tuple):
            return self.opaque(e, "LIKE ANY and LIKE ALL are not understood")
        found = Node(Op.LIKE, (self.node(inner.this), self.node(inner.expression)), escape)
        return Node(Op.NOT, (found,)) if inner.args.get("negate") else found

    def column(self, e: sg.Expression) -> Node:
        parts = _parts(e)
        if not all(isinstance(p, self.exp.Identifier) for p in parts):
            return unknown(e.sql(dialect="spark")[:300], "the form is not understood")
        name = Name(tuple(p.name for p in parts))
        start = parts[0].meta.get("start")
        if isinstance(start, int):
            self.positions.setdefault(name, start)
        return Node(Op.COLUMN, value=name)

    def cast(self, e: sg.Expression) -> Node:
        to = self.type_of(e.to)
        if to is None:
            return self.opaque(e, f"the type {e.to.sql(dialect='spark')} is not understood")
        return Node(Op.CAST, (self.node(e.this),), "try_cast" if e.args.get("safe") else "cast", to)

    def choice(self, e: sg.Expression) -> Node:
        """CASE and IF as one list: condition, value, ..., and the value for none."""
        exp = self.exp
        arms = [e] if isinstance(e, exp.If) else e.args["ifs"]
        parts: list[Node] = []
        for arm in arms:
            condition, value = self.node(arm.this), self.node(arm.args["true"])
            if e.key == "case" and e.this is not None:
                condition = Node(Op.EQ, (self.node(e.this), condition))
            parts += [condition, value]
        last = e.args.get("false") or e.args.get("default")
        return Node(
            Op.CALL, (*parts, literal(None, ty.NULL) if last is None else self.node(last)), "case"
        )

    def arithmetic(self, e: sg.Expression) -> Node:
        """Operators; an INTERVAL literal moves a date by days or months, a timestamp by a time."""
        name = self.calls[type(e)]
        a, b = e.this, e.expression
        if isinstance(a, self.exp.Interval) and name == "+":
            a, b = b, a
        if not isinstance(b, self.exp.Interval) or name not in ("+", "-"):
            return Node(Op.CALL, (self.node(a), self.node(b)), name)
        moved = self.moved(a, b, -1 if name == "-" else 1)
        return moved if moved is not None else self.opaque(e, "the interval is not understood")

    def moved(self, e: sg.Expression, interval: sg.Expression, sign: int) -> Node | None:
        unit, count = interval.args.get("unit"), interval.this
        text = count.name if isinstance(count, self.exp.Literal) else ""
        if unit is None or not re.fullmatch(r"\s*[+-]?\d{1,9}\s*", text):
            return None
        n, word = int(text) * sign, unit.name.lower().removesuffix("s")
        return Node(
            Op.CALL, (self.node(e), literal(n, ty.INT32), literal(word.encode(), ty.STRING)), "move"
        )

    def type_of(self, t: sg.DataType) -> ty.DType | None:
        name = t.this.name if hasattr(t.this, "name") else str(t.this)
        plain = {
            "BOOLEAN": ty.BOOL, "TINYINT": ty.INT8, "SMALLINT": ty.INT16, "INT": ty.INT32, "BIGINT": ty.INT64,
            "FLOAT": ty.FLOAT, "DOUBLE": ty.DOUBLE, "DATE": ty.DATE, "TEXT": ty.STRING, "BINARY": ty.BINARY, "VARBINARY": ty.BINARY,
            "TIMESTAMP": ty.TIMESTAMP, "TIMESTAMPTZ": ty.TIMESTAMP, "TIMESTAMPLTZ": ty.TIMESTAMP, "TIMESTAMPNTZ": ty.TIMESTAMP_NTZ,
        }  # fmt: skip
        if name in ("DECIMAL", "NUMERIC"):
            sizes = [p.this.this for p in t.expressions] or ["10", "0"]
            if all(str(s).isdigit() for s in sizes):
                precision, scale = int(sizes[0]), int(sizes[1]) if len(sizes) > 1 else 0
                return (
                    ty.decimal_type(precision, scale)
                    if 0 < precision <= 38 and scale <= precision
                    else None
                )
            return None
        return plain.get(name) if not t.expressions else None

    def literal(self, e: sg.Expression) -> Node | None:
        exp = self.exp
        match e:
            case exp.Null():
                return literal(None, ty.NULL)
            case exp.Boolean():
                return literal(int(e.this), ty.BOOL)
            case exp.Literal() | exp.RawString() if isinstance(e, exp.RawString) or e.is_string:
                try:
                    return literal(ty.to_axis(e.this, ty.STRING), ty.STRING)
                except ValueError:
                    return None
            case exp.Literal():
                return _number(e.this)
            case exp.HexString():
                try:
                    return literal(
                        bytes.fromhex(("0" if len(e.this) % 2 else "") + e.this), ty.BINARY
                    )
                except ValueError:
                    return None
        return None


# sqlglot's Column has four parts at most; what follows are Dots around it.


def _first(e: sg.Expression) -> sg.Expression:
    return _first(e.this) if e.key == "dot" else e


def _parts(e: sg.Expression) -> list[sg.Expression]:
    return [*_parts(e.this), e.expression] if e.key == "dot" else list(e.parts)


def _whole(e: sg.Expression) -> sg.Expression:
    return (
        _whole(e.parent)
        if e.parent is not None and e.parent.key == "dot" and e.parent.this is e
        else e
    )


def _number(text: str) -> Node | None:
    """A number as Spark types it: an exponent makes a DOUBLE, a point a DECIMAL."""
    try:
        value: object = (
            float(text)
            if "e" in text.lower()
            else decimal.Decimal(text)
            if "." in text
            else int(text)
        )
        dtype, axis = literal_type(value)
    except (ValueError, TypeError, decimal.InvalidOperation):
        return None
    return (
        literal(axis, dtype) if axis not in (math.inf, -math.inf) else None
    )  # Spark refuses 1e400
