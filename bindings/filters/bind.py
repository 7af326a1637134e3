"""Bind the keys of dynamic filters to the columns of a scan."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pyarrow as pa

from skipstone.bindings.filters.data import DynamicFilterData
from skipstone.bindings.filters.filter import DynamicFilter
from skipstone.bindings.filters.judge import BoundFilter
from skipstone.bindings.filters.kinds import Needs
from skipstone.bindings.predicates.expr import col
from skipstone.ir.bind import bind_scalar
from skipstone.ir.coercion.char import is_char
from skipstone.ir.coercion.coerce import in_spark
from skipstone.ir.errors import DynamicFilterError, PredicateError
from skipstone.ir.functions.build import cast
from skipstone.ir.node import Name, Node, Op, show_path
from skipstone.ir.session import Session
from skipstone.ir.text import show
from skipstone.ir.types import DType, leaves_of


@dataclass(frozen=True, slots=True)
class BoundKeys:
    """The keys of a filter, bound to the columns of a scan.

    Attributes:
        data: The keys that fit columns; None if they are not known, or cannot be used.
        targets: The columns that the keys are compared with; several tuples, if a key is compared
            with several columns.
        all_fit: True if all keys of the filter fit columns.
    """

    data: DynamicFilterData | None
    targets: tuple[tuple[Node, ...], ...]
    all_fit: bool

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns."""
        paths = (t.value for terms in self.targets for t in terms)
        return tuple(dict.fromkeys(show_path(p) for p in paths if isinstance(p, tuple)))


def bind_filter(f: DynamicFilter, schema: pa.Schema, session: Session) -> BoundKeys:
    """Bind a filter's keys to the columns that they are compared with.

    A key that fits no column is left out, with a warning. If the join needs rows with a match, the
    other keys still filter, because such a row also matches by those keys. Otherwise the filter is
    not used.

    Raises:
        DynamicFilterError: the filter's `columns` name a key that it does not have.
    """
    data = f.data
    names = data.fields if data is not None else tuple(f.columns)
    if unknown := [name for name in f.columns if name not in names]:
        raise DynamicFilterError(
            f"the filter's columns name {unknown[0]!r}; its keys are {', '.join(names)}"
        )
    terms: dict[str, list[Node]] = {}
    all_fit = True
    for i, key in enumerate(names):
        columns = f.columns.get(key, key)
        for column in [columns] if isinstance(columns, str) else columns:
            declared = None if data is None else data.declared[i]
            term = _column_term(column, declared, schema, session)
            if isinstance(term, str):
                f.warn_once(f"a dynamic filter skips its key {key!r}: {term}")
                all_fit = False
            else:
                terms.setdefault(key, []).append(term)
    if data is not None and not all_fit:
        data = data.only(tuple(terms)) if terms and f.needs is Needs.MATCHED else None
    return BoundKeys(data, tuple(itertools.product(*terms.values())), all_fit)


def _column_term(
    column: str, declared: DType | None, schema: pa.Schema, session: Session
) -> Node | str:
    """Return the column of a name, or the reason why no key can be compared with it.

    Args:
        column: The name.
        declared: The type that the keys were collected for; None if they are not known.
        schema: The scan's columns.
        session: Spark's settings.
    """
    try:
        term = bind_scalar(column_node(column, schema, session), leaves_of(schema), session)
    except PredicateError as e:
        return str(e)
    if term.op is not Op.COLUMN or term.dtype is None:
        if is_char(term):
            return f"{column} is CHAR, whose values Spark pads; expected a column of another type"
        return f"it is compared with {show(term)}; expected a column of the scan"
    if declared is not None and in_spark(term.dtype) != declared:
        return (
            f"it was collected to be compared with {declared}, and {column} is {term.dtype}; "
            "give the collector the schema of the scan"
        )
    return term


def cast_terms(data: DynamicFilterData, terms: tuple[Node, ...]) -> BoundFilter:
    """Return a filter with its columns cast to the types in which keys are compared."""
    pairs = zip(terms, data.state.dtypes, strict=True)
    return BoundFilter(
        data, tuple(t if t.dtype == dtype else cast(t, dtype, data.session) for t, dtype in pairs)
    )


def column_node(name: str, schema: pa.Schema, session: Session) -> Node:
    """Return the column that a name means.

    The name is either one of the schema's, with any characters, or SQL: `a.b` is a struct's field.
    """
    fold = (lambda s: s) if session.case_sensitive else str.lower
    if fold(name) in map(fold, schema.names):
        return Node(Op.COLUMN, value=Name((name,)))
    return col(name).node
