"""Find the rows of two tables that join.

Arrow joins normalized keys, which are equal if Spark's join finds the original keys equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.filters.keys import (
    as_spark_reads,
    cast_array,
    compared_in,
    normalized_keys,
    not_in_as_text,
)
from skipstone.ir import compute as pc
from skipstone.ir.arrow import int64_of, plain, whole
from skipstone.ir.coercion.coerce import in_spark
from skipstone.ir.errors import UnsupportedForm
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import from_arrow

ARROW_JOIN_TYPES: Final = {
    "inner": "inner",
    "left": "left outer",
    "right": "right outer",
    "full": "full outer",
    "semi": "left semi",
    "anti": "left anti",
}


@dataclass(frozen=True, slots=True)
class RowPairs:
    """Pairs of rows that join: positions on each side, shape (rows,), int64.

    Pairs are in the order of the left side, then of the right side; -1 means that the side has no
    row.
    """

    left: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]


def match(
    left: list[pa.ChunkedArray],
    right: list[pa.ChunkedArray],
    how: str,
    null_safe: list[bool],
    session: Session,
) -> RowPairs:
    """Join rows by their keys.

    Args:
        left, right: The keys, column by column, of any types that Spark compares.
        how: "inner", "left", "right", "full", "semi", "anti" or "not in".
        null_safe: For each key, whether NULL equals NULL.
        session: Spark's settings, for casts.

    Returns:
        The pairs; for "semi", "anti" and "not in" the positions of the left side only.

    Raises:
        UnsupportedForm: Spark refuses to compare some keys, or raises an error for one, or the
            result is not known here.
    """
    pairs = [_comparable_keys(a, b, how, session) for a, b in zip(left, right, strict=True)]
    sides = [_key_table([pair[i] for pair in pairs], null_safe) for i in (0, 1)]
    if how == "not in":
        return RowPairs(_not_in(*sides), np.zeros(0, np.int64))
    keys = [name for name in sides[0].column_names if name != "row"]
    right_side = sides[1].rename_columns([*keys, "other"])
    joined = sides[0].join(right_side, keys=keys, join_type=ARROW_JOIN_TYPES[how])
    rows = _positions(joined.column("row"))
    if how in ("semi", "anti"):
        return RowPairs(np.sort(rows), np.zeros(0, np.int64))
    others = _positions(joined.column("other"))
    last = np.iinfo(np.int64).max  # rows without a left side come last
    order = np.lexsort((others, np.where(rows < 0, last, rows)))
    return RowPairs(rows[order], others[order])


def _comparable_keys(
    a: pa.ChunkedArray, b: pa.ChunkedArray, how: str, session: Session
) -> tuple[pa.Array, pa.Array]:
    """Return a pair of key columns as normalized keys of the type in which Spark compares them."""
    arrays = [as_spark_reads(plain(whole(side))) for side in (a, b)]
    types = [from_arrow(side.type) for side in arrays]
    try:
        to = compared_in(in_spark(types[0]), in_spark(types[1]), session)
        if not (len(a) and len(b)):  # nothing is compared, so no cast can raise, as in Spark
            return pa.nulls(len(a), pa.int64()), pa.nulls(len(b), pa.int64())
        if how == "not in" and not_in_as_text(types[0], types[1], session):
            raise CannotJudge("without ANSI mode Spark's NOT IN compares them as text")
        first, second = (normalized_keys(cast_array(side, to, session)) for side in arrays)
    except CannotJudge as e:
        raise incomparable_keys(a, b, e) from None
    return first, second


def incomparable_keys(a: pa.ChunkedArray, b: pa.ChunkedArray, why: CannotJudge) -> UnsupportedForm:
    """Return the error for keys that Spark does not compare, or that cannot be compared here."""
    return UnsupportedForm(
        f"keys of type {a.type} and {b.type} cannot be joined: {why}. "
        "Cast one of them, or join with another engine"
    )


def _key_table(keys: list[pa.Array], null_safe: list[bool]) -> pa.Table:
    """Return the keys in columns named by number, with the positions of their rows.

    A null-safe key has a second column that says whether it is NULL.
    """
    columns: dict[str, pa.Array] = {}
    for i, (key, safe) in enumerate(zip(keys, null_safe, strict=True)):
        if safe:
            columns[f"{i} null"] = key.is_null().cast(pa.int8())
            key = key.fill_null(b"" if pa.types.is_large_binary(key.type) else 0)
        columns[str(i)] = key
    return pa.table({**columns, "row": pa.array(np.arange(len(keys[0])))})


def _positions(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    return int64_of(column, -1)


def _not_in(left: pa.Table, right: pa.Table) -> npt.NDArray[np.int64]:
    """Return the rows of the left side whose keys certainly equal none of the right side's.

    NULL may equal anything.
    """
    rows = np.arange(left.num_rows)
    if not right.num_rows:
        return rows
    names = [name for name in left.column_names if name != "row"]
    keys = right.select(names).group_by(names, use_threads=False).aggregate([])
    may_match = np.zeros(left.num_rows, np.bool_)
    # Two rows are compared by the keys that are NULL in neither. There are few NULL patterns.
    for right_pattern, right_part in _by_null_pattern(keys, names):
        valid = [name for name, null in zip(names, right_pattern, strict=True) if not null]
        for left_pattern, left_part in _by_null_pattern(left, names):
            both = [
                name
                for name, null in zip(names, left_pattern, strict=True)
                if not null and name in valid
            ]
            if not both:
                may_match[_positions(left_part.column("row"))] = True
                continue
            matches = left_part.join(
                right_part.select(both), keys=both, join_type="left semi", use_threads=False
            )
            may_match[_positions(matches.column("row"))] = True
    return rows[~may_match]


def _by_null_pattern(table: pa.Table, names: list[str]) -> list[tuple[tuple[bool, ...], pa.Table]]:
    """Return the rows grouped by which of their keys are NULL."""
    nulls = np.stack(
        [np.asarray(table.column(name).is_null().to_numpy(), np.bool_) for name in names], axis=1
    )
    patterns = np.unique(nulls, axis=0) if len(nulls) else nulls
    return [(tuple(p.tolist()), table.filter(pa.array((nulls == p).all(axis=1)))) for p in patterns]


def take_rows(table: pa.Table, rows: npt.NDArray[np.int64]) -> pa.Table:
    """Return rows by position; position -1 gives a row of NULLs."""
    if not len(rows):
        return table.slice(0, 0)
    if not table.num_rows:
        return pa.table(
            [pa.nulls(len(rows), f.type) for f in table.schema],
            schema=pa.schema([f.with_nullable(True) for f in table.schema]),
        )
    at = pa.array(rows, mask=rows < 0)
    return pa.table(
        [pc.take(column, at) for column in table.columns],
        schema=pa.schema([f.with_nullable(True) for f in table.schema]),
    )
