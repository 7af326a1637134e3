"""Translate conditions of Spark's optimised plans into predicates.

`prune` in classic Spark judges each scan by the conditions that the optimiser pushed down to it. In
an optimised plan names are resolved, casts are explicit and constants are folded, so expressions
are translated class by class. A class that this module does not list becomes UNKNOWN. `Json.java`
writes the trees. Values in them have Spark's internal form, never a text that would have to be
parsed in a time zone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

import pyarrow as pa

from skipstone.bindings.spark.pruning.catalyst_calls import (
    CALLS,
    PATTERNS,
    TRIED,
    UNFLAGGED,
    VARIADIC,
    interval_type,
    settings_of,
    value_of,
    values_of,
)
from skipstone.bindings.spark.pruning.column import (
    case,
    cast,
    field,
    in_values,
    member,
    opaque,
    type_named,
)
from skipstone.ir import types as ty
from skipstone.ir.node import Name, Node, Op, Path, function_call, is_parameter, literal, parameter
from skipstone.ir.session import Settings
from skipstone.ir.types import DType, Kind

Tree = Mapping[str, Any]
Unsure: TypeAlias = Callable[[Tree], str]

# Classes whose parts are the operands of an operation.
PLAIN: Final = {
    "And": Op.AND, "Or": Op.OR, "Not": Op.NOT, "IsNull": Op.IS_NULL,
    "EqualTo": Op.EQ, "EqualNullSafe": Op.NULL_SAFE_EQ,
    "LessThan": Op.LT, "LessThanOrEqual": Op.LE,
    "GreaterThan": Op.GT, "GreaterThanOrEqual": Op.GE,
}  # fmt: skip
ARRAY: Final = re.compile(r"ARRAY<([^<>]*)>")
TRIMS: Final = {"StringTrim": "trim", "StringTrimLeft": "ltrim", "StringTrimRight": "rtrim"}
# These classes change only what Spark knows about nullability, turn -0.0 into 0.0, or replace one
# NaN by another.
THROUGH: Final = (
    "KnownNotNull",
    "KnownNullable",
    "KnownFloatingPointNormalized",
    "NormalizeNaNAndZero",
)


def conjunction(
    conditions: Iterable[Tree],
    columns: Mapping[int, str],
    schema: pa.Schema,
    settings: Settings,
    unsure: Unsure,
) -> Node:
    """Combine conditions that must all hold into one unbound predicate.

    Args:
        conditions: Trees that `Json.java` wrote. It writes a chain of AND or OR as one node.
        columns: The names of a scan's columns by Spark's ids. Any other column becomes UNKNOWN.
        schema: The types of the columns. A struct field that it lacks becomes UNKNOWN.
        settings: The session's settings, under which the predicate will be bound.
        unsure: Returns why a tree is UNKNOWN in this session, or "".
    """
    reader = _Reader(columns, schema, settings, unsure)
    return Node(Op.AND, (*map(reader.node, conditions), literal(1, ty.BOOL)))


def conjuncts(conditions: Iterable[Tree]) -> list[Tree]:
    """Return the conditions of chains of AND one by one."""
    return [
        one for tree in conditions for one in (tree["parts"] if tree["class"] == "And" else [tree])
    ]


def casts_of(tree: Tree, settings: Settings) -> list[DType | None] | None:
    """Return the types that a column is cast to, from the inside out, under the session's settings.

    Return None if the tree is neither a column nor such a cast of one.
    """
    if tree["class"] in THROUGH:
        return casts_of(tree["parts"][0], settings)
    if tree["class"] != "Cast":
        return [] if tree["class"] == "AttributeReference" else None
    child, to, zone, mode = tree["parts"]
    if not _Reader({}, pa.schema([]), settings, lambda _: "").is_usual(mode) or zone not in (
        None,
        settings["timezone"],
    ):
        return None
    inner = casts_of(child, settings)
    return None if inner is None else [*inner, type_named(to["type"])]


class _Reader:
    """Translates one tree at a time; `as_<class>` methods handle classes with special parts."""

    def __init__(
        self,
        columns: Mapping[int, str],
        schema: pa.Schema,
        settings: Settings,
        unsure: Unsure,
    ) -> None:
        self.columns, self.settings, self.unsure = columns, settings, unsure
        self.fields = _paths(schema, ())
        self.parameters: dict[int, Name] = {}  # of lambdas, by Spark's ids

    def node(self, tree: Any) -> Node:
        if not isinstance(tree, dict) or "class" not in tree:
            return opaque("a part", "the form is not understood")
        kind, parts = tree["class"], tree["parts"]
        if why := self.unsure(tree):
            return self.opaque(tree, why)
        if kind in PLAIN:
            return Node(PLAIN[kind], tuple(map(self.node, parts)))
        if kind in CALLS:
            return self.call(tree, *CALLS[kind])
        if kind in UNFLAGGED:
            return self.unflagged(tree, *UNFLAGGED[kind])
        if kind in PATTERNS:
            return self.patterns(tree, *PATTERNS[kind])
        if kind in VARIADIC:
            return Node(Op.CALL, tuple(map(self.node, parts[0])), VARIADIC[kind])
        if kind in THROUGH:
            return self.node(parts[0])
        make: Callable[[Tree], Node] | None = getattr(self, f"as_{kind}", None)
        return self.opaque(tree, "the form is not understood") if make is None else make(tree)

    def opaque(self, tree: Tree, why: str) -> Node:
        return opaque(str(tree["name"]), why)

    def call(self, tree: Tree, name: str, arguments: int) -> Node:
        parts, settings = tree["parts"], settings_of(tree["parts"][arguments:])
        if settings == ["TRY"] and name in TRIED:
            name, settings = TRIED[name], []
        if not all(map(self.is_usual, settings)):
            return self.opaque(tree, "it was made under other settings than the session's")
        return function_call(name, tuple(map(self.node, parts[:arguments])))

    def unflagged(self, tree: Tree, name: str, arguments: int) -> Node:
        flag, parts = tree["parts"][arguments], tree["parts"]
        if flag is not False:
            return self.opaque(tree, "it was made under other settings than SQL makes it")
        return self.call(
            {**tree, "parts": parts[:arguments] + parts[arguments + 1 :]}, name, arguments
        )

    def patterns(self, tree: Tree, every: bool, negated: bool) -> Node:
        """Translate LIKE with several patterns; each is a value and its escape is a backslash."""
        subject, values = self.node(tree["parts"][0]), tree["parts"][1]
        patterns = [value_of(v, ty.STRING) for v in values]
        if any(p is None for p in patterns):
            return self.opaque(tree, "the patterns are not understood")
        likes = [Node(Op.LIKE, (subject, p), "\\") for p in patterns if p is not None]
        if negated:
            likes = [Node(Op.NOT, (like,)) for like in likes]
        return Node(Op.AND if every else Op.OR, tuple(likes))

    def is_usual(self, part: Any) -> bool:
        """Return True if a setting that an expression carries equals the session's setting."""
        mode = "ANSI" if self.settings["ansi"] else "LEGACY"
        if isinstance(part, bool):
            return part == self.settings["ansi"]
        return part is None or part in (mode, self.settings["timezone"])

    def as_AttributeReference(self, tree: Tree) -> Node:
        name = self.columns.get(tree["id"])
        if name is None:
            return opaque(tree["parts"][0], "statistics say nothing about it")
        return Node(Op.COLUMN, value=Name((name,)))

    def as_GetStructField(self, tree: Tree) -> Node:
        found = field(self.node(tree["parts"][0]), literal(tree["field"].encode(), ty.STRING))
        known = (
            found.op is Op.COLUMN
            and isinstance(found.value, Name)
            and (found.value.parts in self.fields or is_parameter(found))
        )
        return found if known else self.opaque(tree, "statistics say nothing about the field")

    def as_GetArrayStructFields(self, tree: Tree) -> Node:
        """Translate a field of all structs of an array."""
        array = self.node(tree["parts"][0])
        if array.op is not Op.COLUMN or not isinstance(array.value, Name):
            return self.opaque(tree, "the form is not understood")
        return Node(Op.COLUMN, value=Name((*array.value.parts, tree["field"])))

    def as_Literal(self, tree: Tree) -> Node:
        value, array = tree["parts"][0], ARRAY.fullmatch(tree["type"])
        dtype = interval_type(tree["type"]) or type_named(
            tree["type"] if array is None else array[1]
        )
        if array is not None and isinstance(value, list):
            elements = [value_of(v, dtype) for v in value]
            if all(e is not None for e in elements):
                return Node(Op.CALL, tuple(e for e in elements if e is not None), "array")
            return self.opaque(tree, f"a literal of type {tree['type']}")
        found = value_of(value, dtype)
        return (
            found if found is not None else self.opaque(tree, f"a literal of type {tree['type']}")
        )

    def as_IsNotNull(self, tree: Tree) -> Node:
        return Node(Op.NOT, (Node(Op.IS_NULL, (self.node(tree["parts"][0]),)),))

    def as_In(self, tree: Tree) -> Node:
        subject, members = tree["parts"]
        if not members:  # Spark's optimiser rewrites it, according to a setting
            return self.opaque(tree, "the list is empty")
        return member(self.node(subject), [self.node(m) for m in members])

    def as_InSet(self, tree: Tree) -> Node:
        """Translate an IN list of more than ten values.

        The values have the subject's type; the tree does not repeat it. Where the list holds NULL
        and no NaN, Spark's generated code returns NULL for NaN, but Spark's interpreter returns
        FALSE (seen in 4.1 and 4.3).
        """
        subject, members = self.node(tree["parts"][0]), tree["parts"][1]
        dtype = type_named(tree["subject"])
        values = values_of(members, dtype)
        if dtype is None or values is None:
            return self.opaque(tree, "the values are not understood")
        given = [v for v in values if v is not None]
        if dtype.kind is not Kind.FLOAT or len(given) == len(values):
            return in_values(subject, values, dtype)
        why = "Spark returns NULL or FALSE for NaN in a list of more than ten values with NULL"
        number = Node(Op.NOT, (Node(Op.EQ, (subject, literal(math.nan, dtype))),))
        null = Node(Op.AND, (literal(None, ty.BOOL), Node(Op.OR, (number, opaque("NaN", why)))))
        return Node(Op.OR, (in_values(subject, given, dtype), null))

    def as_Like(self, tree: Tree) -> Node:
        subject, pattern, escape = tree["parts"]
        return Node(Op.LIKE, (self.node(subject), self.node(pattern)), escape)

    def as_Cast(self, tree: Tree) -> Node:
        child, to, zone, mode = tree["parts"]
        if (mode != "TRY" and not self.is_usual(mode)) or zone not in (
            None,
            self.settings["timezone"],
        ):
            return self.opaque(tree, "it was made under other settings than the session's")
        return cast(self.node(child), to["type"], "try" if mode == "TRY" else "ansi")

    def as_CaseWhen(self, tree: Tree) -> Node:
        arms, last = tree["parts"]
        return case(
            [(self.node(condition), self.node(value)) for condition, value in arms],
            None if last is None else self.node(last),
        )

    def as_If(self, tree: Tree) -> Node:
        condition, yes, no = map(self.node, tree["parts"])
        return case([(condition, yes)], no)

    def as_StringTrim(self, tree: Tree) -> Node:
        text, characters = tree["parts"]
        if characters is None:
            return Node(Op.CALL, (self.node(text),), TRIMS[tree["class"]])
        return Node(Op.CALL, (self.node(text), self.node(characters)), f"{TRIMS[tree['class']]}_of")

    as_StringTrimLeft = as_StringTrimRight = as_StringTrim

    def as_Floor(self, tree: Tree) -> Node:
        return Node(Op.CALL, (self.node(tree["parts"][0]),), tree["class"].lower())

    as_Ceil = as_Floor

    def as_StringLocate(self, tree: Tree) -> Node:
        part, text, start = tree["parts"]
        args = tuple(map(self.node, (part, text, start)))
        if args[2] != literal(1, ty.INT32):
            return self.opaque(tree, "the start is not understood")
        return Node(Op.CALL, args[:2], "locate")

    def as_RegExpReplace(self, tree: Tree) -> Node:
        *args, start = map(self.node, tree["parts"])
        if start != literal(1, ty.INT32):
            return self.opaque(tree, "the start is not understood")
        return Node(Op.CALL, tuple(args), "regexp_replace")

    def as_TimestampAdd(self, tree: Tree) -> Node:
        return self.by_unit(tree, "add_units")

    def as_TimestampDiff(self, tree: Tree) -> Node:
        return self.by_unit(tree, "units_between")

    def by_unit(self, tree: Tree, name: str) -> Node:
        unit, *parts = tree["parts"]
        call = self.call({**tree, "parts": parts}, name, 2)
        if call.op is Op.CALL:
            unit = literal(str(unit).lower().encode(), ty.STRING)
            return Node(Op.CALL, (unit, *call.args), name)
        return call

    def as_UnixTimestamp(self, tree: Tree) -> Node:
        return self.call(tree, "unix_timestamp", 2)

    as_ToUnixTimestamp = as_UnixTimestamp

    def as_ArrayExists(self, tree: Tree) -> Node:
        array, function, three_valued = tree["parts"]
        is_lambda = function["class"] == "LambdaFunction" and len(function["parts"][1]) == 1
        if not is_lambda or three_valued is not True:
            return self.opaque(tree, "the form is not understood")
        body, (variable,), _ = function["parts"]
        name = parameter(variable["parts"][0])
        self.parameters[variable["id"]] = name
        condition = Node(Op.LAMBDA, (self.node(body),), (name,))
        return Node(Op.CALL, (self.node(array), condition), "exists")

    def as_NamedLambdaVariable(self, tree: Tree) -> Node:
        name = self.parameters.get(tree["id"])
        if name is None:
            return self.opaque(tree, "the form is not understood")
        return Node(Op.COLUMN, value=name)

    def as_GetArrayItem(self, tree: Tree) -> Node:
        array, at, failing = tree["parts"]
        name = "[]" if failing else "get"
        return self.call({**tree, "parts": [array, at, *[failing] * failing]}, name, 2)

    def as_ElementAt(self, tree: Tree) -> Node:
        """Translate element_at, and split_part: an element of a split text, '' if it has none."""
        split, at, default, failing = tree["parts"]
        is_split = (
            split["class"] == "StringSplitSQL"
            and default is not None
            and default["class"] == "Literal"
            and default["parts"][0] == {"bytes": ""}
            and failing is False
        )
        if default is None and isinstance(failing, bool):
            name = "element_at" if failing else "try_element_at"
            return self.call({**tree, "parts": [split, at, *[failing] * failing]}, name, 2)
        if not is_split:
            return self.opaque(tree, "the form is not understood")
        return Node(Op.CALL, tuple(map(self.node, (*split["parts"], at))), "split_part")


def _paths(fields: Iterable[pa.Field], above: Path) -> set[Path]:
    """Return the paths of all columns of a schema and of the fields of its structs."""
    out = set()
    for f in fields:
        path = (*above, f.name)
        out |= {path} | (_paths(f.type, path) if pa.types.is_struct(f.type) else set())
    return out
