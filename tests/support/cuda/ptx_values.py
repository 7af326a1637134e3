"""Results of PTX instructions on values, as the PTX ISA defines them.

`ftz` flushes denormals to zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tests.support.cuda.memory import Wrong

Values = npt.NDArray[Any]
Function = Callable[..., Values]

DTYPES: Final = {
    f"{kind}{8 * size}": np.dtype(f"{code}{size}")
    for kind, code in (("u", "u"), ("s", "i"), ("b", "u"))
    for size in (1, 2, 4, 8)
}
DTYPES |= {"f32": np.dtype("f4"), "f64": np.dtype("f8"), "pred": np.dtype("?")}
INTEGERS: Final = tuple(t for t in DTYPES if t[0] in "us")
FLOATS: Final = ("f32", "f64")
JOINS: Final = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
SUMS: Final = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
COMPARES: Final = {
    "eq": np.equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
UNORDERED: Final = {
    "neu": "eq",
    "geu": "lt",
    "gtu": "le",
    "leu": "gt",
    "ltu": "ge",
}  # true if the opposite is false, so true for NaN


def pure(op: tuple[str, ...]) -> tuple[tuple[str, ...], str, Function] | None:
    """Return an instruction's result on values, or None if it does more than compute values."""
    match op:
        case ("mov", t) if t in DTYPES:
            return (t,), t, np.copy
        case ("cvta", "to", "global", "u64"):
            return ("u64",), "u64", np.copy
        case (("add" | "sub") as name, t) if t in INTEGERS:
            return (t, t), t, SUMS[name]
        case ("mul", "lo", t) if t in INTEGERS:
            return (t, t), t, np.multiply
        case ("mul", "wide", ("u16" | "u32" | "s16" | "s32") as t):
            return (t, t), _wider(t), _widened(np.multiply, t)
        case ("mad", "lo", t) if t in INTEGERS:
            return (t, t, t), t, lambda a, b, c: a * b + c
        case ("mad", "wide", ("u16" | "u32" | "s16" | "s32") as t):
            return (t, t, _wider(t)), _wider(t), lambda a, b, c: _widened(np.multiply, t)(a, b) + c
        case (("add" | "sub" | "mul") as name, "rn", *flush, t) if t in FLOATS and _is_flush(flush):
            return (t, t), t, _flushed(SUMS[name], flush, t)
        case (("min" | "max") as name, *flush, t) if t in (*INTEGERS, *FLOATS) and _is_flush(flush):
            return (t, t), t, _flushed({"min": np.fmin, "max": np.fmax}[name], flush, t)
        case ("neg", t) if t in (*INTEGERS, *FLOATS):
            return (t,), t, np.negative
        case (("and" | "or" | "xor") as name, ("pred" | "b16" | "b32" | "b64") as t):
            return (t, t), t, JOINS[name]
        case ("not", ("pred" | "b16" | "b32" | "b64") as t):
            return (t,), t, np.logical_not if t == "pred" else np.invert
        case ("shl", ("b16" | "b32" | "b64") as t):
            return (
                (t, "u32"),
                t,
                lambda a, by: np.where(
                    by < bits(t), a << (by % bits(t)).astype(a.dtype), a.dtype.type(0)
                ),
            )
        case ("shr", t) if t in DTYPES and t not in (*FLOATS, "pred"):
            return (t, "u32"), t, lambda a, by: _shifted_right(a, by, bits(t))
        case ("bfi", ("b32" | "b64") as t):
            return (t, t, "u32", "u32"), t, _inserted
        case ("popc", ("b32" | "b64") as t):
            return (t,), "u32", lambda a: np.bitwise_count(a).astype(np.uint32)
        case ("selp", t) if t in DTYPES:
            return (t, t, "pred"), t, lambda a, b, p: np.where(p, a, b)
        case ("setp", how, (("and" | "or" | "xor") as join), *flush, t) if (
            t in DTYPES and _is_flush(flush)
        ):
            test = _test(how, flush, t)
            return (t, t, "pred"), "pred", lambda a, b, p: JOINS[join](test(a, b), p)
        case ("setp", how, *flush, t) if t in DTYPES and _is_flush(flush):
            return (t, t), "pred", _test(how, flush, t)
        case ("cvt", *how, to, t) if to in DTYPES and t in DTYPES:
            return (t,), to, _converted(how, to, t)
    return None


def _is_flush(how: Sequence[str]) -> bool:
    return tuple(how) in ((), ("ftz",))


def bits(t: str) -> int:
    return DTYPES[t].itemsize * 8


def _wider(t: str) -> str:
    return f"{t[0]}{2 * bits(t)}"


def _widened(f: Function, t: str) -> Function:
    wide = DTYPES[_wider(t)]
    return lambda a, b: f(a.astype(wide), b.astype(wide))


def _flush(a: Values) -> Values:
    """Return denormals as zeros of their sign, as `ftz` does."""
    return (
        np.where(np.abs(a) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), a), a)
        if a.dtype == np.float32
        else a
    )


def _flushed(f: Function, flush: Sequence[str], t: str) -> Function:
    if not flush or t != "f32":
        return f
    return lambda *args: _flush(f(*map(_flush, args)))


def _test(how: str, flush: Sequence[str], t: str) -> Function:
    if how == "ne":
        made: Function = np.not_equal if t not in FLOATS else lambda a, b: (a < b) | (a > b)
    elif how in UNORDERED and t in FLOATS:
        made = lambda a, b: ~COMPARES[UNORDERED[how]](a, b)
    elif how in ("num", "nan") and t in FLOATS:
        made = lambda a, b: (np.isnan(a) | np.isnan(b)) == (how == "nan")
    elif how in COMPARES:
        made = COMPARES[how]
    else:
        raise Wrong(f"not known: setp.{how}.{t}")
    return (lambda a, b: made(_flush(a), _flush(b))) if flush else made


def _shifted_right(a: Values, by: Values, bits: int) -> Values:
    by = np.minimum(by, bits - 1 if a.dtype.kind == "i" else bits)
    return np.where(by < bits, a >> (by % bits).astype(a.dtype), a.dtype.type(0))


def _inserted(a: Values, into: Values, at: Values, count: Values) -> Values:
    wide = into.dtype.type
    assert (at + count <= into.dtype.itemsize * 8).all() and (count < into.dtype.itemsize * 8).all()
    mask = ((wide(1) << count.astype(wide)) - wide(1)) << at.astype(wide)
    return (into & ~mask) | ((a << at.astype(wide)) & mask)


def _converted(how: Sequence[str], to: str, t: str) -> Function:
    source, target = DTYPES[t], DTYPES[to]
    flush = [h for h in how if h == "ftz"]
    rest = [h for h in how if h != "ftz"]
    exact = source.kind != "f" or (target.kind == "f" and target.itemsize >= source.itemsize)
    if rest not in ([], ["rn"]) if exact or target.kind == "f" else rest != ["rzi"]:
        raise Wrong(f"not known: cvt.{'.'.join(how)}.{to}.{t}")
    if source.kind == "f" and target.kind != "f":
        return lambda a: _truncated(_flush(a) if flush else a, target)
    return lambda a: (_flush(a) if flush else a).astype(target)


def _truncated(a: Values, target: np.dtype[Any]) -> Values:
    """Return a float's whole part, clamped to the ends of the type.

    PTX turns NaN into zero or the least value; no kernel converts NaN.
    """
    if np.isnan(a).any():
        raise Wrong("NaN becomes an integer")
    info = np.iinfo(target)
    low, high = a < float(info.min), a >= float(info.max)
    return np.where(
        low, info.min, np.where(high, info.max, np.where(low | high, 0, a).astype(target))
    ).astype(target)
