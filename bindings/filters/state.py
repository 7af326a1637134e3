"""`CollectedKeys`: a mergeable summary that depends only on the set of rows.

Summaries can be merged in any order.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from skipstone.bindings.filters.domain import ALL, Domain, domain_of, nbytes_of, union_domains
from skipstone.bindings.filters.keys import in_bytes
from skipstone.bindings.filters.limits import Limits
from skipstone.ir import compute as pc
from skipstone.ir.errors import DynamicFilterError
from skipstone.ir.types import DType


@dataclass(frozen=True, slots=True, eq=False)
class CollectedKeys:
    """Distinct rows of keys, or a domain for each column if there are too many rows.

    Attributes:
        dtypes: The types of the keys of each column.
        limits: The limits on the size.
        rows: Distinct rows of keys, in columns named by number, in any order; None if there were
            too many.
        domains: The domain of each column, if there are no `rows`.
        has_rows: True if there was any row, with NULL or without.
        null_dropped: True if rows were left out because a key is NULL and equals nothing.
        all_null_row: True if there was a row whose keys are all NULL.
        unmatchable: True if keys were left out because they equal no value of the column.
        failure: Why nothing is known of the keys; "" if they are known.
        as_text: True if NOT IN compares some key as text, and other joins do not.
    """

    dtypes: tuple[DType, ...]
    limits: Limits
    rows: pa.Table | None
    domains: tuple[Domain, ...] = ()
    has_rows: bool = False
    null_dropped: bool = False
    all_null_row: bool = False
    unmatchable: bool = False
    failure: str = ""
    as_text: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of the distinct rows, or of the domains if there are no rows."""
        if self.rows is None:
            return sum(d.nbytes for d in self.domains)
        return row_bytes(self.rows, self.dtypes)

    def of_column(self, i: int) -> Domain:
        """Return the domain of one column; with distinct rows it is the set of its values."""
        if self.rows is None:
            return self.domains[i]
        return domain_of(_column(self.rows, i), self.dtypes[i], Limits(None, None, 1, True), 1)

    def only(self, at: list[int]) -> CollectedKeys:
        """Return the keys restricted to some columns."""
        rows = self.rows
        if rows is not None:
            names = [str(i) for i in range(len(at))]
            rows = distinct(pa.table([rows.column(i) for i in at], names=names))
        return replace(
            self,
            dtypes=tuple(self.dtypes[i] for i in at),
            rows=rows,
            domains=tuple(self.domains[i] for i in at) if self.domains else (),
        )

    def ordered(self) -> pa.Table:
        """Return the distinct rows, ascending by the first key, then the next; NULL last."""
        assert self.rows is not None
        names = self.rows.column_names
        if names:
            return self.rows.sort_by([(name, "ascending") for name in names]).combine_chunks()
        return self.rows

    def fingerprint(self) -> str:
        """Return a hash that is equal for equal keys, regardless of their order."""
        flags = (
            self.dtypes, self.has_rows, self.null_dropped, self.all_null_row, bool(self.failure),
            self.as_text, self.rows is None,
        )  # fmt: skip
        digest = hashlib.sha256(repr(flags).encode())
        arrays: list[pa.Array] = []
        if self.rows is not None:
            table = self.ordered()
            arrays = [_column(table, i) for i in range(table.num_columns)]
            digest.update(repr(self.rows.num_rows).encode())
        for d in self.domains:
            digest.update(repr((d.kind, d.nan, d.null, len(d.firsts))).encode())
            arrays += [d.firsts, d.lasts]
        for array in arrays:
            digest.update(np.packbits(array.is_valid().to_numpy(zero_copy_only=False)).tobytes())
            if pa.types.is_large_binary(array.type):
                digest.update(pc.binary_length(array).fill_null(-1).to_numpy().tobytes())
                digest.update(b"".join(v.as_buffer() for v in array.drop_null()))
            else:
                values = array.fill_null(0).to_numpy(zero_copy_only=False)
                digest.update(np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()


def _column(rows: pa.Table, i: int) -> pa.Array:
    column = rows.column(i).combine_chunks()
    if isinstance(column, pa.Array):
        return column
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def failed_keys(state: CollectedKeys, why: str) -> CollectedKeys:
    """Return the state of keys about which nothing is known; `state` has the columns' own types."""
    return CollectedKeys(
        state.dtypes, state.limits, None, (ALL,) * len(state.dtypes), has_rows=True, failure=why
    )


def empty(dtypes: tuple[DType, ...], limits: Limits) -> CollectedKeys:
    """Return the state of no rows."""
    columns = {
        str(i): pa.array([], pa.large_binary() if in_bytes(t) else pa.int64())
        for i, t in enumerate(dtypes)
    }
    return CollectedKeys(dtypes, limits, pa.table(columns))


def distinct(rows: pa.Table) -> pa.Table:
    """Return each row once."""
    if not rows.num_columns:
        return rows
    if rows.num_columns == 1:
        return pa.table({"0": pc.unique(rows.column(0))})
    return rows.group_by(rows.column_names, use_threads=False).aggregate([])


def row_bytes(rows: pa.Table, dtypes: tuple[DType, ...]) -> int:
    """Return the bytes of rows as a threshold counts them.

    A key of a fixed-width type counts its width, others count their length.
    """
    return sum(nbytes_of(rows.column(i), t) for i, t in enumerate(dtypes))


def bounded(state: CollectedKeys) -> CollectedKeys:
    """Return a state of distinct rows, weakened to its limits."""
    rows, limits = state.rows, state.limits
    if rows is None or limits.fits(rows.num_rows, row_bytes(rows, state.dtypes)):
        return state
    n = len(state.dtypes)
    if not limits.degrade:
        return replace(state, rows=None, domains=(ALL,) * n)
    domains = (domain_of(_column(rows, i), t, limits, n) for i, t in enumerate(state.dtypes))
    return replace(state, rows=None, domains=tuple(domains))


def union(a: CollectedKeys, b: CollectedKeys) -> CollectedKeys:
    """Return the keys of both states; associative and commutative.

    Raises:
        DynamicFilterError: their keys have different types.
    """
    flags = _flags([a, b])
    if a.failure or b.failure:  # the result does not depend on which rows were in the failed part
        return failed_keys(a if a.failure else b, min(filter(None, (a.failure, b.failure))))
    if a.dtypes != b.dtypes:
        # The types of a state without keys do not count. If both have none, the state that has
        # rows with NULL decides the types.
        less, more = sorted((a, b), key=lambda s: (not _has_no_keys(s), s.has_rows, repr(s.dtypes)))
        if _has_no_keys(less):
            return replace(more, **flags)
        shown = " and ".join(f"({', '.join(map(str, s.dtypes))})" for s in (a, b))
        raise DynamicFilterError(
            f"keys are compared as {shown}; expected one type for the keys of one join: "
            "cast them to one type first"
        )
    if a.rows is not None and b.rows is not None:
        return bounded(replace(a, rows=distinct(pa.concat_tables([a.rows, b.rows])), **flags))
    if not a.limits.degrade:
        return replace(a, rows=None, domains=(ALL,) * len(a.dtypes), **flags)
    n = len(a.dtypes)
    parts = [
        s.domains
        or tuple(domain_of(_column(s.rows, i), t, s.limits, n) for i, t in enumerate(s.dtypes))
        for s in (a, b)
    ]
    pairs = zip(*parts, a.dtypes, strict=True)
    domains = tuple(union_domains(x, y, t, a.limits, n) for x, y, t in pairs)
    return replace(a, rows=None, domains=domains, **flags)


def _flags(states: list[CollectedKeys]) -> dict[str, Any]:
    """Return each flag, set if any of the states has it."""
    names = ("has_rows", "null_dropped", "all_null_row", "unmatchable", "as_text")
    return {name: any(getattr(s, name) for s in states) for name in names}


def _has_no_keys(state: CollectedKeys) -> bool:
    """Return True if no key equals anything."""
    return state.rows is not None and not state.rows.num_rows


def union_all(states: list[CollectedKeys]) -> CollectedKeys:
    """Return the keys of all states.

    The distinct rows of all states are found in one pass; states without rows are merged in pairs.
    """
    first = states[0]
    rows = [
        s.rows for s in states if s.rows is not None and s.dtypes == first.dtypes and not s.failure
    ]
    if len(rows) == len(states):
        merged = distinct(pa.concat_tables(rows))
        return bounded(CollectedKeys(first.dtypes, first.limits, merged, **_flags(states)))
    while len(states) > 1:
        states = [
            union(*states[i : i + 2]) if i + 1 < len(states) else states[i]
            for i in range(0, len(states), 2)
        ]
    return states[0]
