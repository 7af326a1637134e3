"""Tests of rows: the leaves of a bound predicate on the values of a column or call.

The result for NULL is arbitrary.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir.arrow import Mask, booleans_of, fill, numbers_of, python_array, scalar_of, whole
from skipstone.ir.errors import UnsupportedForm
from skipstone.ir.like import fits, pattern_of
from skipstone.ir.node import Node, Op
from skipstone.ir.session import CannotJudge
from skipstone.ir.types import Kind, from_arrow, to_python
from skipstone.ir.values import Data

MAX_COMPARED: Final = 8  # the members of a longer IN list are looked up, not compared one by one


def fits_array(n: Node, values: pa.Array) -> Mask:
    """Test an Arrow array by a leaf.

    Raises:
        UnsupportedForm: a pattern is too long.
    """
    if n.op in (Op.GT, Op.GE):
        # Spark's order is total, so these are the negations, and NaN passes them.
        return ~fits_array(Node(Op.LE if n.op is Op.GT else Op.LT, n.args), values)
    match n.op:
        case Op.DEFINED:
            return np.ones(len(values), np.bool_)
        case Op.NAN:
            return booleans_of(pc.is_nan(values))
        case Op.WITHIN:
            x, low, high = n.args
            least, most = Node(Op.LT, (x, low)), Node(Op.LE, (x, high))
            return ~fits_array(least, values) & fits_array(most, values)
        case Op.IN:
            assert isinstance(n.value, tuple)
            return _is_in(n.value, values)
        case Op.LIKE:
            try:
                return booleans_of(fits(pattern_of(n), values))
            except CannotJudge as e:
                raise UnsupportedForm(f"cannot filter rows by {e}") from e
    compare: Callable[..., pa.Array] = {Op.LT: pc.less, Op.LE: pc.less_equal, Op.EQ: pc.equal}[n.op]
    return booleans_of(compare(values, _scalar_of(n.args[1].value, values.type)))


def fits_data(n: Node, data: Data) -> Mask:
    """Test axis values by a leaf; they are not text."""
    literals: list[Any] = [a.value for a in n.args[1:]]
    match n.op:
        case Op.DEFINED:
            found = np.ones(len(data), np.bool_)
        case Op.NAN:
            found = np.isnan(data)
        case Op.WITHIN:
            found = ~(data < literals[0]) & (data <= literals[1])
        case Op.IN:
            assert isinstance(n.value, tuple)
            found = _is_among(n.value, data)
        case Op.LT:
            found = data < literals[0]
        case Op.LE:
            found = data <= literals[0]
        case Op.GT:  # NaN passes it, as above
            found = ~(data <= literals[0])
        case Op.GE:
            found = ~(data < literals[0])
        case _:
            assert n.op is Op.EQ
            found = data == literals[0]
    return np.asarray(found, np.bool_)


def _is_among(members: tuple[Any, ...], data: Data) -> Mask:
    if len(members) <= MAX_COMPARED:
        found = [np.asarray(data == m, np.bool_) for m in members]
        return reduce(np.logical_or, found, np.zeros(len(data), np.bool_))
    if data.dtype != object:
        return np.isin(data, np.asarray(members, data.dtype))
    known = frozenset(members)
    return np.array([v in known for v in data.tolist()], np.bool_)


def _is_in(members: tuple[object, ...], values: pa.Array) -> Mask:
    dtype = from_arrow(values.type)
    if dtype.kind is Kind.FLOAT:
        floats = numbers_of(whole(fill(values, np.nan)))
        return np.isin(floats, np.asarray(members, floats.dtype))
    storage = {
        Kind.DATE: pa.int32(),
        Kind.TIME: pa.int32() if dtype.unit in ("s", "ms") else pa.int64(),
        Kind.TIMESTAMP: pa.int64(),
        Kind.STRING: pa.large_binary(),
        Kind.BINARY: pa.large_binary(),
    }.get(dtype.kind)
    wanted = (
        pc.cast(python_array(members, storage), values.type)
        if storage
        else python_array([to_python(m, dtype) for m in members], values.type)
    )
    return booleans_of(pc.is_in(values, value_set=wanted))


def _scalar_of(axis: object, arrow: pa.DataType) -> pa.Scalar:
    """Convert an axis value to an Arrow scalar of a column's type."""
    dtype = from_arrow(arrow)
    match dtype.kind:
        case Kind.DATE:
            return pc.cast(scalar_of(axis, pa.int32()), arrow)
        case Kind.TIME:
            return pc.cast(
                scalar_of(axis, pa.int32() if arrow.bit_width == 32 else pa.int64()), arrow
            )
        case Kind.TIMESTAMP:
            return pc.cast(scalar_of(axis, pa.int64()), arrow)
        case Kind.STRING | Kind.BINARY:
            return pc.cast(scalar_of(axis, pa.large_binary()), arrow)
    return scalar_of(to_python(axis, dtype), arrow)
