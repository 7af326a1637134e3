"""The node type of every stage, and the operations that a node can carry."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from skipstone.ir.types import DType


class Op(enum.Enum):
    """The operation of a node.

    `ir/spec.py` lists the operations that a stage may hold, and their inputs.
    """

    __hash__ = object.__hash__  # members are singletons; Enum's own hash is slow

    # Leaves of a predicate.
    COLUMN = "column"  # value: a Name before binding, a Path after it
    LITERAL = "literal"  # value on the axis of dtype (ir/types.py), None for NULL
    UNKNOWN = "unknown"  # value: a Reason; may be true, false or null

    # Logic.
    AND = "and"
    OR = "or"
    NOT = "not"
    IS_NULL = "is null"
    IS_TRUE = "is true"
    BOTH = "both"  # two predicates that are equal on every row (ir/merge.py)

    # Comparisons.
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    EQ = "="
    NE = "<>"
    NULL_SAFE_EQ = "<=>"
    IN = "in"  # before binding: value, candidates...; after it: column, value a sorted tuple
    LIKE = "like"  # column, pattern; value: the escape character
    # column, low, high: low <= x <= high, which excludes NaN; ir/merge.py makes it for floats
    WITHIN = "within"
    DEFINED = "defined"  # x = x: TRUE, or NULL where x is NULL
    NAN = "nan"  # x = NaN in Spark

    # Scalars.
    CAST = "cast"  # before binding; value: the function, cast or try_cast
    LAMBDA = "lambda"  # before binding: its body; value: the Names of its parameters
    CALL = "call"  # value: the function's name; after binding (name, Session, ...)

    # Statistics that a program reads; value: the column's Path, or the call from which they are
    # derived.
    MIN = "min"  # scalar: no value of the column lies below
    MAX = "max"  # scalar: no value of the column lies above
    MAY_HOLD_VALUE = "may_hold_value"  # flag: may hold a value that is neither NULL nor NaN
    MAY_HOLD_NULL = "may_hold_null"  # flag: may hold NULL
    MAY_HOLD_NAN = "may_hold_nan"  # flag: may hold NaN
    MAY_RAISE = "may_raise"  # flag: Spark may raise an error for a row, or its value is unknown
    MAY_CONTAIN = "may_contain"  # flag; value: (Path, values): may hold one of the values
    MAY_CONTAIN_OTHER = "may_contain_other"  # flag; value: (Path, values): may hold another value
    MAY_HOLD_ROWS = "may_hold_rows"  # flag: the container may hold rows

    # Tests of a program.
    ANY_IN = "any in"  # min, max; value: sorted values. One of them lies in [min, max]
    NOT_ALL_IN = (
        # min, max; value: sorted values. [min, max] holds a value that is not among them
        "not all in"
    )

    # Inputs of a kernel; value: the position among the kernel's arguments.
    ARRAY = "array"
    PARAM = "param"
    SET = "set"
    PLANE = "plane"
    PACK = "pack"  # one bit for each container, packed into words


TERMS: Final = (Op.COLUMN, Op.CALL)  # the scalars that leaves of a bound predicate test
STRUCT: Final = "struct"  # the function that makes a row of values
FIELD: Final = "field of"  # the function from a struct and a name to the field, before binding
FIELDS: Final = "fields of"  # the function from structs to a field of each, after binding
# The last name in the path of an array's elements, and of a map's keys and values. Only statistics
# have such columns; no text can name them.
ELEMENT, KEY, VALUE = "\0element", "\0key", "\0value"
PARTS: Final = {ELEMENT: "value_type", KEY: "key_type", VALUE: "item_type"}  # -> Arrow's attribute


MAX_HASHED: Final = 1_000  # members of a list


@dataclass(frozen=True, slots=True, init=False)
class Node:
    """One operation and its inputs. Immutable; equal by structure.

    Example:
        >>> from skipstone.ir.types import INT32
        >>> x = Node(Op.COLUMN, value=("x",), dtype=INT32)
        >>> Node(Op.NOT, (x,)) == Node(Op.NOT, (x,))
        True
    """

    op: Op
    args: tuple[Node, ...] = ()
    value: object = None
    dtype: DType | None = None  # tells 1 from True and from 1.0
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    # Written by hand: the generated one takes 1.5 times as long, and a predicate makes dozens of
    # nodes.
    def __init__(
        self,
        op: Op,
        args: tuple[Node, ...] = (),
        value: object = None,
        dtype: DType | None = None,
    ) -> None:
        _set_op(self, op)
        _set_args(self, args)
        _set_value(self, value)
        _set_dtype(self, dtype)
        # Stored, so that a tree is hashed once and not once per level. For a long list, the hash
        # covers only its ends.
        if op is Op.IN and isinstance(value, tuple) and len(value) > MAX_HASHED:
            value = (len(value), value[0], value[-1])
        _set_hash(self, hash((op, args, value, dtype)))

    def __hash__(self) -> int:
        return self._hash

    # Hashes of strings and enums differ between processes, so a pickled node computes its own.
    def __reduce__(self) -> tuple[type[Node], tuple[object, ...]]:
        return Node, (self.op, self.args, self.value, self.dtype)

    def walk(self) -> Iterator[Node]:
        """Yield every node of the tree, parents first, left to right."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.args))


# These take two thirds of the time of `object.__setattr__`.
_set_op, _set_args, _set_value, _set_dtype, _set_hash = (
    vars(Node)[name].__set__ for name in ("op", "args", "value", "dtype", "_hash")
)


@dataclass(frozen=True, slots=True)
class Reason:
    """The unsupported part of a predicate, and the reason; carried by UNKNOWN.

    Attributes:
        what: The part, as SQL text.
        why: The reason.
        hint: What to write instead, so that it prunes; "" if that is not known.
    """

    what: str
    why: str
    hint: str = ""


# A column's path in the schema: ("a", "b") is the leaf b of the struct a.
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Name:
    """A column as it was written, before it is looked up.

    Parts may be quoted, so they may hold dots.
    """

    parts: Path


# Names of columns by the identity of the columns; see `types.leaves_of`.
MAX_NAMED: Final = 64
_names: dict[tuple[int, bool], tuple[Mapping[Path, object], dict[Path, list[Path]]]] = {}


def paths_by_name(leaves: Mapping[Path, object], case_sensitive: bool) -> dict[Path, list[Path]]:
    """Return the columns that a name means, names in lower case unless case matters."""
    key = id(leaves), case_sensitive
    known = _names.get(key)
    if known is None:
        fold = str if case_sensitive else str.lower
        found: dict[Path, list[Path]] = {}
        for path in leaves:
            found.setdefault(tuple(map(fold, path)), []).append(path)
        if len(_names) >= MAX_NAMED:
            _names.clear()
        known = _names[key] = (leaves, found)
    return known[1]


def parameter(name: str) -> Name:
    """Return the name of a lambda's parameter, which no column has."""
    return Name((f"\0{name}",))


def is_tuple(n: Node) -> bool:
    """Return True if an unbound node is a row of values, such as `(a, b)`."""
    return n.op is Op.CALL and n.value == STRUCT


def is_parameter(n: Node) -> bool:
    """Return True for a lambda's parameter."""
    return isinstance(n.value, Name) and n.value.parts[0].startswith("\0")


def literal(value: object, dtype: DType) -> Node:
    """Return a literal node; -0.0 becomes 0.0, because Spark considers the two equal."""
    if isinstance(value, float) and value == 0.0:
        value = 0.0
    return Node(Op.LITERAL, value=value, dtype=dtype)


def function_call(name: str, args: tuple[Node, ...]) -> Node:
    """Return the call of a function by its name.

    The sign of a written `-5` is a part of the number. `negative(5)` is computed, so that it has
    the type of 5, and beside a decimal the digits of that type: the cast says so.
    """
    if name == "negative" and [(a.op, a.dtype is None) for a in args] == [(Op.LITERAL, False)]:
        args = (Node(Op.CAST, args, "cast", args[0].dtype),)
    return Node(Op.CALL, args, name)


def unknown(what: str, why: str, hint: str = "") -> Node:
    """Return a predicate of unknown outcome.

    It does not prune; the rest of the condition still does.
    """
    return Node(Op.UNKNOWN, value=Reason(what, why, hint))


def columns_of(node: Node) -> tuple[Path, ...]:
    """Return the columns that a bound predicate reads, in order of first use."""
    seen: dict[Path, None] = {}
    for n in node.walk():
        if n.op is Op.COLUMN:
            assert isinstance(n.value, tuple)
            seen.setdefault(n.value, None)
    return tuple(seen)


def conjuncts_of(n: Node) -> tuple[Node, ...]:
    """Return the parts of a predicate that are joined by AND."""
    return n.args if n.op is Op.AND else (n,)


def flatten_chain(n: Node) -> tuple[Node, ...]:
    """Flatten nested ANDs (or ORs) into their inputs, left to right.

    The length of a chain is unlimited: there is no recursion.

    Example:
        >>> a, b, c = (Node(Op.COLUMN, value=Name((x,))) for x in "abc")
        >>> flatten_chain(Node(Op.AND, (Node(Op.AND, (a, b)), c))) == (a, b, c)
        True
    """
    out, stack = [], [n]
    while stack:
        node = stack.pop()
        if node.op is n.op:
            stack.extend(reversed(node.args))
        else:
            out.append(node)
    return tuple(out)


def statistics_key(term: Node) -> Path | Node:
    """Return the key under which statistics have a scalar: a column's path, or the call itself."""
    if term.op is not Op.COLUMN:
        return term
    assert isinstance(term.value, tuple)
    return term.value


def not_understood(n: Node) -> list[Reason]:
    """Return the unsupported parts of a bound predicate, with reasons."""
    return [m.value for m in n.walk() if m.op is Op.UNKNOWN and isinstance(m.value, Reason)]


def has_unknown(n: Node) -> bool:
    """Return True if a part of a predicate is not supported."""
    return any(m.op is Op.UNKNOWN for m in n.walk())


# Words that our parser, or Spark's, reads as names only in backticks. Spark's wants names in ASCII.
WORDS: Final = frozenset((
    *("alter", "analyze", "and", "any", "as", "between", "cache", "case", "comment", "commit"),
    *("copy", "create", "cross", "current_date"),
    *("current_timestamp", "current_user", "declare", "delete", "desc", "describe", "distinct"),
    *("drop", "else", "except", "execute", "explain", "false"),
    *("fetch", "for", "from", "grant", "having", "if", "ilike", "inner", "insert", "intersect"),
    *("into", "join", "lateral", "like", "load", "merge"),
    *("minus", "not", "null", "on", "or", "outer", "pivot", "refresh", "rename", "revoke"),
    *("rlike", "rollback", "select", "session_user", "set", "show"),
    *("tablesample", "then", "true", "truncate", "uncache", "union", "unpivot", "update", "use"),
    *("using", "values", "when", "where", "while", "with"),
))  # fmt: skip


def show_path(path: Path) -> str:
    """Return a path as a dotted name; parts that are not identifiers are quoted.

    Example:
        >>> show_path(("a", "b.c")), show_path(("a", ELEMENT))
        ('a.`b.c`', 'a.element')
    """
    names = (p.removeprefix("\0") for p in path)
    return ".".join(p if p.isidentifier() else quoted_name(p) for p in names)


def sql_path(path: Path) -> str:
    """Return a path as SQL text that our parser and Spark's read as this path.

    Example:
        >>> sql_path(("a", "é", "from"))
        'a.`é`.`from`'
    """
    return ".".join(
        p if p.isascii() and p.isidentifier() and p.lower() not in WORDS else quoted_name(p)
        for p in path
    )


def parts_of(dtype: DType) -> dict[Path, DType]:
    """Return the types of the elements of an array, their fields, or a map's keys and values.

    The keys are the last names in their paths.
    """
    if dtype.element is not None:
        return {(ELEMENT,): dtype.element}
    if dtype.entries is not None:
        return {(KEY,): dtype.entries[0], (VALUE,): dtype.entries[1]}
    leaves = (leaf for leaf in dtype.record if leaf.path or leaf.dtype.ordered)
    return {(ELEMENT, *leaf.path): leaf.dtype for leaf in leaves}


def is_part(path: Path) -> bool:
    """Return True for the path of elements of an array, their fields, or parts of a map."""
    return any(name in PARTS for name in path)


def lowered(path: Path) -> Path:
    """Return a path in lower case, to compare it as Spark does by default."""
    return tuple(name.lower() for name in path)


def quoted_name(name: str) -> str:
    """Return any name as SQL text in backticks."""
    return "`" + name.replace("`", "``") + "`"


def quoted_path(path: Iterable[str]) -> str:
    """Return a path as SQL text with every part quoted, because a part may be a word of SQL.

    Example:
        >>> quoted_path(("a b", "c"))
        '`a b`.`c`'
    """
    return ".".join(map(quoted_name, path))
