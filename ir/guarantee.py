"""Literal guarantees: the values that a column must, or must not, have for a predicate to be TRUE.

Source: DataFusion, `datafusion/physical-expr/src/utils/guarantee.rs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from skipstone.ir.merge import scalar_and_values
from skipstone.ir.node import ELEMENT, Node, Op, Path, parts_of, show_path
from skipstone.ir.ranges import ValueSet, few_members, value_set_of
from skipstone.ir.ranges import combined as combined_sets
from skipstone.ir.types import DType, Kind, to_python

Values = tuple[object, ...]  # ascending, without repeats
LISTS: Final = (Op.EQ, Op.IN)


@dataclass(frozen=True, slots=True)
class LiteralGuarantee:
    """A condition that one column must meet wherever the predicate is TRUE.

    Attributes:
        column: The column's name, as SQL would write it.
        kind: "in": its value is one of `literals`. "not_in": it is none of them.
        path: The column's path in the schema.
        values: The literals as axis values, ascending.
        dtype: The column's type.
    """

    column: str
    kind: Literal["in", "not_in"]
    path: Path
    values: Values
    dtype: DType

    @property
    def literals(self) -> frozenset[object]:
        """The literals as Python values, converted at each access."""
        return frozenset(to_python(v, self.dtype) for v in self.values)


class _Term(NamedTuple):
    column: Node
    positive: bool
    values: Values


# Functions that are TRUE only if an array or map holds one of some elements or keys, and functions
# that are NULL if a map lacks the key.
CONTAINING: Final = ("array_contains", "arrays_overlap", "exists", "map_contains_key")
OF_KEY: Final = ("map_value", "map_element")


def needed_elements(call: Node, values: Values) -> tuple[Node, Values] | None:
    """Return the elements one of which an array must hold, so that a call has one of some values.

    Args:
        call: A bound call.
        values: Axis values of its result.

    Returns:
        A column of the array's elements or the map's keys, and the values one of which must occur;
        None if the call needs none.
    """
    name: Any = call.value
    if name[0] not in OF_KEY and (name[0] not in CONTAINING or values != (1,)):
        return None
    source, *others = call.args
    match source:
        case Node(Op.CALL, (array,), ("as_array", _)):  # only the type of the elements gets wider
            source = array
    if source.op is not Op.COLUMN or source.dtype is None or not isinstance(source.value, tuple):
        return None
    if not (parts := parts_of(source.dtype)):
        return None
    part, dtype = next(iter(parts.items()))  # the elements, or the keys
    found: Any = ()
    match name[0], others:
        case "exists", _:
            term = _term(name[2])
            field: Any = None if term is None or not term.positive else term.column.value
            if term is not None and field and field[0] == name[3]:
                part = (ELEMENT, *field[1:])
                found, dtype = term.values, parts.get(part, dtype)
        case "arrays_overlap", [Node(Op.LITERAL) as array]:
            found = array.value or ()
        case "arrays_overlap", [Node(Op.CALL, elements, ("array", _))]:
            if all(e.op is Op.LITERAL for e in elements):
                found = [e.value for e in elements]
        case (
            ("array_contains" | "map_contains_key" | "map_value" | "map_element"),
            [Node(Op.LITERAL) as one],
        ):
            found = (one.value,)
    known: list[Any] = sorted({v for v in found if v is not None})
    if dtype.kind is Kind.INT:  # of wider numbers, only these may be elements
        known = [v for v in known if dtype.lowest <= v <= (dtype.highest or 0)]
    column = Node(Op.COLUMN, (), (*source.value, *part), dtype)
    return (column, tuple(known)) if known else None


def guarantees(n: Node) -> tuple[LiteralGuarantee, ...] | None:
    """Derive the guarantees of a bound predicate, in order of first mention.

    Returns:
        The guarantees; None if two of them contradict each other, so that the predicate is never
        TRUE.
    """
    terms: dict[tuple[Node, bool], list[Values]] = {}
    conjuncts = n.args if n.op is Op.AND else (n,)
    for conjunct in conjuncts:
        for t in _conjunct(conjunct):
            terms.setdefault((t.column, t.positive), []).append(t.values)
    combined = {key: _combined(sets, key[1]) for key, sets in terms.items()}
    for (column, positive), values in combined.items():
        if positive and set(values) <= set(combined.get((column, False), ())):
            return None
    for column, values in _finite_sets(conjuncts, combined).items():
        combined[column, True] = values
        combined.pop((column, False), None)
    found = list(combined.items())
    if len(found) > 1:
        names = dict.fromkeys(m for m in n.walk() if m.op is Op.COLUMN)
        first = {column: i for i, column in enumerate(names)}
        found.sort(key=lambda item: first[item[0][0]])
    return tuple(_guarantee(column, positive, values) for (column, positive), values in found)


def _finite_sets(
    conjuncts: Iterable[Node], listed: Mapping[tuple[Node, bool], Values]
) -> dict[Node, Values]:
    """Return the few values that all tests of a column together leave.

    They are at most as many as the tests list, or one value that ranges enclose, such as
    `x BETWEEN 5 AND 5`.
    """
    tests: dict[Node, list[tuple[Node, ValueSet | None]]] = {}
    for conjunct in conjuncts:
        if conjunct.op in LISTS:
            tests.setdefault(conjunct.args[0], []).append((conjunct, None))
        elif (tested := scalar_and_values(conjunct)) is not None:
            tests.setdefault(tested[0], []).append((conjunct, tested[1]))
    out: dict[Node, Values] = {}
    for column, pairs in tests.items():
        if column.op is not Op.COLUMN or (len(pairs) == 1 and pairs[0][1] is None):
            continue  # one = or IN lists all values
        sets = (value_set_of(c) if values is None else values for c, values in pairs)
        p = combined_sets(Op.AND, [values for values in sets if values is not None])
        if p.null is True or p.nan or not p.ranges or column.dtype is None:
            continue
        written = sum(_listed(n) for conjunct, _ in pairs for n in conjunct.walk())
        values = few_members(p.ranges, column.dtype, max(1, written))
        if values is None:
            continue
        known = listed.get((column, True))
        if kept := values if known is None else sorted(set(values).intersection(known)):
            out[column] = tuple(kept)
    return out


def _listed(n: Node) -> int:
    """Return the number of values that an = or IN lists."""
    if n.op is Op.IN:
        assert isinstance(n.value, tuple)
        return len(n.value)
    return int(n.op is Op.EQ)


def _guarantee(column: Node, positive: bool, values: Values) -> LiteralGuarantee:
    path, dtype = column.value, column.dtype
    assert isinstance(path, tuple) and isinstance(dtype, DType)
    return LiteralGuarantee(show_path(path), "in" if positive else "not_in", path, values, dtype)


def _combined(sets: list[Values], common: bool) -> Values:
    """Return the intersection of the sets if `common` is set, otherwise their union."""
    if len(sets) == 1:
        return sets[0]
    members: set[Any] = set.intersection(*map(set, sets)) if common else set.union(*map(set, sets))
    return tuple(sorted(members))


def _term(n: Node) -> _Term | None:
    match n:
        case Node(Op.EQ, (c, v)) if c.op is Op.COLUMN:
            return _Term(c, True, (v.value,))
        case Node(Op.IN, (c,)) if c.op is Op.COLUMN:
            assert isinstance(n.value, tuple)
            return _Term(c, True, n.value)
        case Node(
            Op.IS_TRUE, (Node(Op.EQ | Op.IN) as inner,)
        ):  # `bind` turns <=> with a literal into this.
            return _term(inner)
        case Node(Op.NOT, (Node(Op.EQ | Op.IN) as inner,)):
            positive = _term(inner)
            return _Term(positive.column, False, positive.values) if positive else None
    return None


def _conjunct(n: Node) -> Iterable[_Term]:
    """Return the terms of one conjunct."""
    if (t := _term(n)) is not None:
        return (t,)
    if n.op is not Op.OR:
        return ()
    # Only the = and IN terms of a branch count. A column is bound if every branch has exactly one
    # term for it. A branch without terms frees all columns.
    branches: list[dict[Node, Values]] = []
    for branch in n.args:
        terms_of_branch: dict[Node, Values] = {}
        for a in branch.args if branch.op is Op.AND else (branch,):
            t = _term(a)
            if t is None or not t.positive:
                continue
            if t.column in terms_of_branch:
                return ()
            terms_of_branch[t.column] = t.values
        branches.append(terms_of_branch)
    shared = [c for c in branches[0] if all(c in b for b in branches)]
    return tuple(_Term(c, True, _combined([b[c] for b in branches], common=False)) for c in shared)


def membership_paths(n: Node, guaranteed: Iterable[LiteralGuarantee] = ()) -> tuple[Path, ...]:
    """Return the columns with an `=` or IN leaf, by first mention, then those of guarantees.

    `contained` is called for these columns. `guaranteed` are the guarantees of the predicate, which
    may name further columns.
    """
    seen = {
        leaf.args[0].value: None
        for leaf in n.walk()
        if leaf.op in (Op.EQ, Op.IN) and leaf.args[0].op is Op.COLUMN
    }
    return tuple({**seen, **{g.path: None for g in guaranteed}})
