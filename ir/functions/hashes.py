"""Spark's hashes of several values, by which samples and buckets are chosen.

Source: Spark 4, `hash.scala` and `XXH64.java`; seen in 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir import types as ty
from skipstone.ir.coercion.coerce import in_spark
from skipstone.ir.function import Call, Function, Signature, check_arity
from skipstone.ir.interval import Interval, exactly, merge, unknown
from skipstone.ir.node import Node
from skipstone.ir.partitioning.murmur import hash_bytes, hash_ints, hash_longs
from skipstone.ir.partitioning.transforms import twos_complement
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import TEXT, DType, Kind
from skipstone.ir.values import NO, YES, Data, Values, both, either, to_array

SEED: Final = 42
P1: Final = np.uint64(0x9E3779B185EBCA87)
P2: Final = np.uint64(0xC2B2AE3D27D4EB4F)
P3: Final = np.uint64(0x165667B19E3779F9)
P4: Final = np.uint64(0x85EBCA77C2B2AE63)
P5: Final = np.uint64(0x27D4EB2F165667C5)
LOWER: Final = np.uint64(0xFFFFFFFF)
MAX_LONG_DIGITS: Final = 18  # a DECIMAL of more digits is hashed as bytes

# Hashes integers of 4 or of 8 bytes, or bytes: (values, hashes so far) -> hashes.
Hash = Callable[[Any, Data], Data]


def _signature(returns: DType) -> Callable[..., Signature]:
    def signature(args: tuple[Node, ...], session: Session) -> Signature:
        check_arity(args, 1, 1000)
        return tuple(_hashed_as(a.dtype) for a in args), returns

    return signature


def _hashed_as(t: DType | None) -> DType:
    """Return the type of the values that Spark hashes."""
    if t is None or t == ty.NULL:
        return ty.BOOL  # any: NULL has no hash
    t = in_spark(t)
    if t.kind is Kind.TIMESTAMP and t.unit in ("s", "ms", "us"):
        return ty.TIMESTAMP if t.zoned else ty.TIMESTAMP_NTZ
    if t.kind in (Kind.INT, Kind.BOOL, Kind.DATE, Kind.DECIMAL, Kind.FLOAT, *TEXT):
        return t
    raise CannotJudge(f"the hash of {t} is not understood")


def _hashes(
    seed: Data, ints: Hash, longs: Hash, texts: Hash
) -> Callable[[Call, tuple[Values, ...]], Values]:
    """Return a function that hashes rows; NULL leaves the hash of the values before unchanged."""

    def rows(call: Call, args: tuple[Values, ...]) -> Values:
        n = max(map(len, args))
        hashes = np.broadcast_to(seed, n)
        for a in args:
            kind, values = _bits(a, n)
            hashed = {"int": ints, "long": longs, "bytes": texts}[kind](values, hashes)
            hashes = np.where(np.broadcast_to(a.valid, n), hashed, hashes)
        signed = hashes.view(np.int32 if hashes.itemsize == 4 else np.int64).astype(np.int64)
        return Values(call.dtype, signed, YES, either(NO, *(a.may_raise for a in args)))

    return rows


def _bits(a: Values, n: int) -> tuple[str, Any]:
    """Return what is hashed: "int", "long" or "bytes", and int64 of shape (n,), or Arrow bytes."""
    match a.dtype.kind:
        case Kind.STRING | Kind.BINARY:
            return "bytes", pc.cast(to_array(a, n), pa.large_binary())
        case Kind.DECIMAL if a.dtype.precision > MAX_LONG_DIGITS:
            whole = np.broadcast_to(a.points, n).astype(object)
            return "bytes", pa.array(map(twos_complement, whole.tolist()), pa.large_binary())
        case Kind.FLOAT:
            floats = np.broadcast_to(a.data, n) + a.data.dtype.type(0)  # -0.0 is hashed as 0.0
            floats = np.where(np.isnan(floats), np.full(1, np.nan, floats.dtype), floats)
            if a.dtype.bits == 32:
                return "int", floats.view(np.int32).astype(np.int64)
            return "long", floats.view(np.int64)
    whole = np.ascontiguousarray(np.broadcast_to(a.data, n), np.int64)
    is_int = a.dtype.kind in (Kind.BOOL, Kind.DATE) or (
        a.dtype.kind is Kind.INT and a.dtype.bits <= 32
    )
    return "int" if is_int else "long", whole


def _rotated(v: Data, by: int) -> Data:
    return np.asarray((v << np.uint64(by)) | (v >> np.uint64(64 - by)))


def _finished(h: Data) -> Data:
    h = (h ^ (h >> np.uint64(33))) * P2
    h = (h ^ (h >> np.uint64(29))) * P3
    return np.asarray(h ^ (h >> np.uint64(32)))


def _xx_ints(values: Data, seed: Data) -> Data:
    h = (seed + P5 + np.uint64(4)) ^ ((values.view(np.uint64) & LOWER) * P1)
    return _finished(_rotated(h, 23) * P2 + P3)


def _xx_longs(values: Data, seed: Data) -> Data:
    h = (seed + P5 + np.uint64(8)) ^ (_rotated(values.view(np.uint64) * P2, 31) * P1)
    return _finished(_rotated(h, 27) * P1 + P4)


def _xx_bytes(values: Any, seed: Data) -> Data:
    import xxhash

    each = zip(values.to_pylist(), seed.tolist(), strict=True)
    hashed = (0 if value is None else xxhash.xxh64_intdigest(value, own) for value, own in each)
    return np.fromiter(hashed, np.uint64, len(values))


def _function(returns: DType, seed: Data, ints: Hash, longs: Hash, texts: Hash) -> Function:
    rows = _hashes(seed, ints, longs, texts)

    def interval(call: Call, args: tuple[Interval, ...]) -> Interval:
        """Compute containers whose arguments all have a single value; others may have any hash."""
        may_raise = either(NO, *(a.may_raise for a in args))
        others = replace(unknown(returns), may_hold_null=NO, may_raise=may_raise)
        known = both(
            YES, ~may_raise, *(both(a.single, ~a.may_hold_nan, ~a.may_hold_null) for a in args)
        )
        if not known.any():
            return others
        where = np.broadcast_to(known, max(map(len, args)))
        values = tuple(Values(a.dtype, b.low, YES, NO) for a in args for b in (a.take(where),))
        return merge(where, exactly(rows(call, values)), others)

    return Function(_signature(returns), interval=interval, rows=rows)


FUNCTIONS: Final = {
    "hash": _function(
        ty.INT32,
        np.full(1, SEED, np.uint32),
        hash_ints,
        hash_longs,
        lambda values, seed: hash_bytes(values, seed, in_spark=True),
    ),
    "xxhash64": _function(ty.INT64, np.full(1, SEED, np.uint64), _xx_ints, _xx_longs, _xx_bytes),
}
