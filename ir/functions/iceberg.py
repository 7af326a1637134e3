"""Iceberg's transforms as functions, by their names in Spark.

Examples are `system.bucket(16, x)` and `system.days(ts)`. They count from 1970 in UTC, whatever the
session's time zone is. `system.days` returns the number of days; beside a DATE it is read as a date
(ir/comparisons.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skipstone.ir import types as ty
from skipstone.ir.coercion.coerce import in_spark
from skipstone.ir.function import (
    VALUE_UNKNOWN,
    Call,
    Function,
    Signature,
    check_arity,
    int_literal,
    only_value,
)
from skipstone.ir.interval import Interval, apply
from skipstone.ir.node import Node
from skipstone.ir.partitioning.transforms import Transform
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import TEXT, DType
from skipstone.ir.values import Data, numpy_type_of

TIMES: Final = {
    "system.years": "year",
    "system.months": "month",
    "system.days": "day",
    "system.hours": "hour",
}


def _result(transform: Transform, source: DType) -> DType:
    if not transform.supports(source):
        raise CannotJudge(f"Iceberg defines no {transform} of {source}")
    return ty.INT32 if transform.name == "day" else transform.result_type(source)


def _time_signature(name: str) -> Any:
    def signature(args: tuple[Node, ...], session: Session) -> Signature:
        check_arity(args, 1)
        source = args[0].dtype
        assert source is not None
        return (source,), _result(Transform(name), source)

    return signature


def _fitted(call: Call, values: Data) -> Any:
    low, high = call.dtype.lowest, call.dtype.highest
    bad = np.asarray((values < low) | (values > high), np.bool_)
    return np.clip(values, low, high), np.where(bad, VALUE_UNKNOWN, 0)


def _time(name: str) -> Function:
    transform = Transform(name)
    return Function(
        _time_signature(name),
        lambda call, a: _fitted(call, transform.floor(a, call.types[0])),
        monotone=True,
        bad="unknown",
    )


def _sized(name: str) -> Any:
    def signature(args: tuple[Node, ...], session: Session) -> Signature:
        check_arity(args, 2)
        source = in_spark(args[1].dtype) if args[1].dtype is not None else ty.NULL
        return (ty.INT32, source), _result(Transform(name, int_literal(args[0])), source)

    return signature


def _transformed(name: str, call: Call, width: Data, a: Data) -> Data:
    transform = Transform(name, int(only_value(width)))
    if call.types[1].kind in TEXT:
        result = transform.apply(pa.array(a, pa.large_binary()), call.types[1])
        return np.asarray(result.to_numpy(zero_copy_only=False), numpy_type_of(call.dtype))
    return np.asarray(transform.apply(a, call.types[1]), numpy_type_of(call.dtype))


def _truncate(call: Call, width: Data, a: Data) -> Any:
    if call.types[1].kind in TEXT:
        return _transformed("truncate", call, width, a)
    exact = a.astype(object) if a.dtype != object and len(a) and int(a.min()) < -(2**62) else a
    return _fitted(call, Transform("truncate", int(only_value(width))).floor(exact, call.types[1]))


_TRUNCATE: Final = Function(_sized("truncate"), _truncate, monotone=True, bad="unknown")


def _truncate_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Return the interval of truncated text.

    Cutting both ends keeps their order; an unknown end stays unknown.
    """
    width, a = args
    if call.dtype.kind not in TEXT:
        return apply(call, _TRUNCATE, args)
    low, high = (_transformed("truncate", call, width.low, d) for d in (a.low, a.high))
    return a.with_bounds(call.dtype, low, high, a.unbounded_above)


_BUCKET: Final = Function(
    _sized("bucket"), lambda call, width, a: _transformed("bucket", call, width, a)
)


def _bucket_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    bucket, last = apply(call, _BUCKET, args), int(args[0].low[0]) - 1
    return replace(bucket, low=np.maximum(bucket.low, 0), high=np.minimum(bucket.high, last))


FUNCTIONS: Final = {
    **{name: _time(transform) for name, transform in TIMES.items()},
    "system.bucket": Function(_BUCKET.signature, _BUCKET.point, interval=_bucket_interval),
    "system.truncate": Function(
        _TRUNCATE.signature, _TRUNCATE.point, bad="unknown", interval=_truncate_interval
    ),
}
