"""The keys that were collected so far: a value that depends on the set of rows alone, and joins with others in any order."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skipstone.bindings.filters.domain import ALL, Domain, domain_of, joined, nbytes_of
from skipstone.bindings.filters.keys import in_bytes
from skipstone.bindings.filters.limits import Limits
from skipstone.ir.errors import DynamicFilterError
from skipstone.ir.types import DType


@dataclass(frozen=True, slots=True, eq=False)
class CollectedKeys:
    """Distinct rows, or what is left of each column where they are too many.

    Attributes:
        dtypes: What the lanes of each column are of.
        limits: How large it may grow.
        rows: Distinct rows of lanes, in columns named by number, in any order; None: there were too many.
        domains: Of each column, where there are no rows.
        seen: Whether there was any row, NULL or not.
        nulls: Whether rows were left out since a key that NULL equals nothing of is NULL.
        blank: Whether there was a row all of whose keys are NULL.
        dropped: Whether there were keys that equal no value of the column, and were left out for that.
        broken: Why nothing is known of the keys; "" where it is.
        as_text: Whether NOT IN compares some key as text, and other joins do not.
    """

    dtypes: tuple[DType, ...]
    limits: Limits
    rows: pa.Table | None
    domains: tuple[Domain, ...] = ()
    seen: bool = False
    nulls: bool = False
    blank: bool = False
    dropped: bool = False
    broken: str = ""
    as_text: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of the distinct rows; of the domains, where there are none."""
        return (
            sum(d.nbytes for d in self.domains)
            if self.rows is None
            else row_bytes(self.rows, self.dtypes)
        )

    def of_column(self, i: int) -> Domain:
        """What is known of one column alone; all of its values, where rows are."""
        if self.rows is None:
            return self.domains[i]
        return domain_of(_column(self.rows, i), self.dtypes[i], Limits(None, None, 1, True), 1)

    def only(self, at: list[int]) -> CollectedKeys:
        """Return what is known of some columns alone."""
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
        """The distinct rows, ascending by the first key, then the next; NULL last."""
        assert self.rows is not None
        names = self.rows.column_names
        return (
            self.rows.sort_by([(name, "ascending") for name in names]).combine_chunks()
            if names
            else self.rows
        )

    def fingerprint(self) -> str:
        """Equal for equal keys, in whatever order they came."""
        digest = hashlib.sha256(
            repr(
                (
                    self.dtypes,
                    self.seen,
                    self.nulls,
                    self.blank,
                    bool(self.broken),
                    self.as_text,
                    self.rows is None,
                )
            ).encode()
        )
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
                digest.update(
                    np.ascontiguousarray(
                        array.fill_null(0).to_numpy(zero_copy_only=False)
                    ).tobytes()
                )
        return digest.hexdigest()


def _column(rows: pa.Table, i: int) -> pa.Array:
    found = rows.column(i).combine_chunks()
    return (
        found
        if isinstance(found, pa.Array)
        else pa.concat_arrays(found.chunks)
        if found.num_chunks
        else pa.array([], found.type)
    )


def broken(state: CollectedKeys, why: str) -> CollectedKeys:
    """Return a state of keys of which nothing is known; `state` has the columns' own types."""
    return CollectedKeys(
        state.dtypes, state.limits, None, (ALL,) * len(state.dtypes), seen=True, broken=why
    )


def empty(dtypes: tuple[DType, ...], limits: Limits) -> CollectedKeys:
    """No rows."""
    columns = {
        str(i): pa.array([], pa.large_binary() if in_bytes(t) else pa.int64())
        for i, t in enumerate(dtypes)
    }
    return CollectedKeys(dtypes, limits, pa.table(columns))


def distinct(rows: pa.Table) -> pa.Table:
    """Each row once."""
    if not rows.num_columns:
        return rows
    if rows.num_columns == 1:
        return pa.table({"0": pc.unique(rows.column(0))})
    return rows.group_by(rows.column_names, use_threads=False).aggregate([])


def row_bytes(rows: pa.Table, dtypes: tuple[DType, ...]) -> int:
    """Bytes of rows as a threshold counts them: keys of a fixed width by it, others by their length."""
    return sum(nbytes_of(rows.column(i), t) for i, t in enumerate(dtypes))


def bounded(state: CollectedKeys) -> CollectedKeys:
    """A state of distinct rows within its limits."""
    rows, limits = state.rows, state.limits
    if rows is None or limits.fits(rows.num_rows, row_bytes(rows, state.dtypes)):
        return state
    n = len(state.dtypes)
    if not limits.degrade:
        return replace(state, rows=None, domains=(ALL,) * n)
    return replace(
        state,
        rows=None,
        domains=tuple(
            domain_of(_column(rows, i), t, limits, n) for i, t in enumerate(state.dtypes)
        ),
    )


def union(a: CollectedKeys, b: CollectedKeys) -> CollectedKeys:
    """The keys of both; associative, and the same in either order.

    Raises:
        DynamicFilterError: their keys are of different types.
    """
    flags = _flags([a, b])
    if a.broken or b.broken:  # one form, whichever rows were in the part that broke
        return broken(a if a.broken else b, min(filter(None, (a.broken, b.broken))))
    if a.dtypes != b.dtypes:
        # What has no rows has no say in their types; NULL alone says more of them than no key at
        # all.
        less, more = sorted((a, b), key=lambda s: (not _blank(s), s.seen, repr(s.dtypes)))
        if _blank(less):
            return replace(more, **flags)
        shown = " and ".join(f"({', '.join(map(str, s.dtypes))})" for s in (a, b))
        raise DynamicFilterError(
            f"keys are compared as {shown}, so they are no keys of one join; cast them to one type first"
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
    return replace(
        a,
        rows=None,
        domains=tuple(
            joined(x, y, t, a.limits, n) for x, y, t in zip(*parts, a.dtypes, strict=True)
        ),
        **flags,
    )


def _flags(states: list[CollectedKeys]) -> dict[str, Any]:
    """Return what is true of some row of any of them."""
    names = ("seen", "nulls", "blank", "dropped", "as_text")
    return {name: any(getattr(s, name) for s in states) for name in names}


def _blank(state: CollectedKeys) -> bool:
    """Return True if there are no keys that equal anything."""
    return state.rows is not None and not state.rows.num_rows


def union_all(states: list[CollectedKeys]) -> CollectedKeys:
    """The keys of all; distinct rows are looked for once, and what has none is joined in pairs."""
    first = states[0]
    rows = [
        s.rows for s in states if s.rows is not None and s.dtypes == first.dtypes and not s.broken
    ]
    if len(rows) == len(states):
        kept = distinct(pa.concat_tables(rows))
        return bounded(CollectedKeys(first.dtypes, first.limits, kept, **_flags(states)))
    while len(states) > 1:
        states = [
            union(*states[i : i + 2]) if i + 1 < len(states) else states[i]
            for i in range(0, len(states), 2)
        ]
    return states[0]
