"""User-defined functions: once registered, SQL text and `call` can use them by name."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from skipstone.ir.errors import PredicateError
from skipstone.ir.forms import CONDITIONS, SCALARS
from skipstone.ir.function import VALUE_UNKNOWN, Call, Function, Signature
from skipstone.ir.functions import builtin_functions
from skipstone.ir.functions.build import ALIASES, LATEST, REGISTERED
from skipstone.ir.interval import Interval, corners, end, merge, opaque
from skipstone.ir.node import Node
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import TEXT, DType, Kind, from_arrow, to_axis
from skipstone.ir.values import NO, Data, Mask, filler, numpy_type_of, python_values

Monotone: TypeAlias = Literal["increasing", "decreasing"] | None
Fn: TypeAlias = Callable[..., Any]
UNITS: Final = {
    "us": "datetime64[us]",
    "ms": "datetime64[ms]",
    "s": "datetime64[s]",
    "ns": "datetime64[ns]",
}


def register_function(
    name: str, fn: Fn, *, returns: pa.DataType, monotone: Monotone = None, range: Fn | None = None
) -> None:
    """Register a function, so that predicates can call it to prune and to filter.

    The function must be deterministic and return NULL for NULL; it is never called with NULL. It
    receives one NumPy array per argument, all of one length, and returns one value per element:
    integers as int64, floats in their width, booleans as bool, dates as datetime64[D], timestamps
    as datetime64 of their unit (zoned ones in UTC), strings, binary and decimals as objects. None
    in the result is NULL.

    A function that raises, or returns a wrong number of values, warns once; the containers that
    need it are kept. Registering a name again replaces the function for later predicates.

    Args:
        name: The name in predicates; case is ignored.
        fn: The function, vectorised, on arrays in host memory.
        returns: The type of its values.
        monotone: "increasing" or "decreasing" in every argument: bounds of the arguments then give
            bounds of the value. None: the function is computed only for containers that hold one
            value of each argument.
        range: For functions of one argument, instead of `monotone`: a function from two arrays, the
            lowest and highest argument of each container, to two arrays of bounds of the value.

    Raises:
        PredicateError: `name` is a Spark function, or not a valid name; the type `returns` has no
            order; or another argument is invalid.

    Example:
        >>> import numpy as np, pyarrow as pa, skipstone as ss
        >>> ss.register_function(
        ...     "celsius", lambda f: (f - 32) / 1.8, returns=pa.float64(), monotone="increasing"
        ... )
        >>> schema = pa.schema([("f", pa.float64())])
        >>> fahrenheit = {"min": [30.0, 90.0], "max": [80.0, 99.0], "nan_count": [0, 0]}
        >>> stats = ss.Statistics.from_dict({"f": fahrenheit}, schema)
        >>> ss.PruningPredicate("celsius(f) > 30", schema).prune(stats)
        array([False,  True])
    """
    if not isinstance(returns, pa.DataType):
        raise PredicateError(
            f"returns is {returns!r:.60}; expected an Arrow type, such as pyarrow.int64()"
        )
    key, dtype = name.lower(), from_arrow(returns)
    if not all(part.isidentifier() for part in key.split(".")):
        raise PredicateError(
            f"a function cannot be named {name!r}; expected letters, digits and underscores"
        )
    if key in builtin_functions() or key in ALIASES or key in CONDITIONS or key in SCALARS:
        raise PredicateError(
            f"{name!r} is a function of Spark's; register yours under another name"
        )
    if not dtype.ordered:
        raise PredicateError(
            f"{name!r} returns {returns}, which allows null tests only; "
            "expected a type whose values can be compared"
        )
    if monotone not in ("increasing", "decreasing", None):
        raise PredicateError(
            f"monotone is {monotone!r}; expected 'increasing', 'decreasing' or None"
        )
    if monotone and range:
        raise PredicateError(f"{name!r} has both monotone and range; give one of them")
    if not callable(fn) or not (range is None or callable(range)):
        raise PredicateError(
            f"{name!r} is registered with {fn if not callable(fn) else range!r}, "
            "which cannot be called; expected a function"
        )
    versions = sum(k.split("@")[0] == key for k in REGISTERED)
    LATEST[key] = f"{key}@{versions + 1}" if versions else key
    REGISTERED[LATEST[key]] = _function(key, fn, dtype, monotone is not None, range)


def _function(name: str, fn: Fn, dtype: DType, monotone: bool, bounds: Fn | None) -> Function:
    """Return the entry of a registered function for the table of functions."""
    registered = _Registered(name, fn, dtype, monotone, bounds)
    return Function(
        registered.signature, registered.point, bad="null", interval=registered.interval
    )


class _Registered:
    """A registered function: its types, its values and its intervals.

    Args:
        name: The name in predicates.
        fn: The function.
        dtype: The type of its values.
        monotone: True if bounds of the arguments give bounds of the value.
        bounds: The argument `range` of `register_function`.
    """

    def __init__(self, name: str, fn: Fn, dtype: DType, monotone: bool, bounds: Fn | None) -> None:
        self.name, self.fn, self.dtype, self.bounds = name, fn, dtype, bounds
        self.monotone, self.warned = monotone, False
        self.by_corners = Function(self.signature, self.point, monotone=monotone, bad="null")

    def signature(self, args: tuple[Node, ...], session: Session) -> Signature:
        """Accept arguments of any types; with `range`, one argument."""
        if not args or (self.bounds is not None and len(args) > 1):
            raise CannotJudge(
                f"{self.name} takes {'one argument' if self.bounds else 'at least one argument'}; "
                f"{len(args)} were given"
            )
        return [a.dtype for a in args if a.dtype is not None], self.dtype

    def point(self, call: Call, *data: Data) -> tuple[Data, Data]:
        """Return the function's values, and a mask of the NULL and the unknown ones."""
        n = max(map(len, data))
        result = self._apply(call, data, n)
        zeros = [
            np.asarray(a == 0, np.bool_) if t.kind is Kind.FLOAT else NO
            for a, t in zip(data, call.types, strict=True)
        ]
        if result is not None and any(z.any() for z in zeros):
            # 0.0 and -0.0 are equal in SQL, but the function may return different values for them.
            negated = [
                np.where(z, -a, a) if z.any() else a for a, z in zip(data, zeros, strict=True)
            ]
            other = self._apply(call, tuple(negated), n)
            if other is not None:
                same = _equal(result[0], other[0]) & (result[1] == other[1])
                return result[0], np.where(same, np.where(result[1], 1, 0), VALUE_UNKNOWN)
            result = None
        if result is None:
            unknown = np.full(n, VALUE_UNKNOWN, np.uint8)
            return np.full(n, filler(self.dtype), numpy_type_of(self.dtype)), unknown
        return result[0], result[1].astype(np.uint8)

    def interval(self, call: Call, args: tuple[Interval, ...]) -> Interval:
        """Return the interval of the function's values."""
        n = max(map(len, args))
        known = np.ones(n, np.bool_)
        single = np.ones(n, np.bool_)
        for a in args:
            single = single & a.single
            known = known & (~a.may_hold_value | ~_unbounded(a))
        fits = single | (known & self.monotone)
        rest = opaque(call, self.by_corners, args)
        if self.bounds is not None:
            rest = self._by_range(self.bounds, call, args[0], known, rest)
        if not fits.any():
            return rest
        at_corners = corners(call, self.by_corners, tuple(a.take(fits) for a in args))
        return merge(fits, at_corners, rest)

    def _apply(self, call: Call, data: tuple[Data, ...], n: int) -> tuple[Data, Mask] | None:
        """Call the function on n values; return axis values and where they are NULL.

        Returns:
            None if the function fails.
        """
        natural = [
            _natural(np.broadcast_to(a, n), t) for a, t in zip(data, call.types, strict=True)
        ]
        try:
            result = self.fn(*natural)
        except Exception as e:
            self._warn_once(f"raised {e!r:.200}")
            return None
        return self._axis_values(result, n)

    def _by_range(
        self, bounds: Fn, call: Call, a: Interval, known: Mask, rest: Interval
    ) -> Interval:
        """Return the interval from the user's `range` where bounds are known; elsewhere `rest`."""
        use = known & a.may_hold_value & ~a.may_hold_nan
        if not use.any():
            return rest
        taken = a.take(np.broadcast_to(use, max(len(a), len(use))))
        n = int(use.sum())
        natural = [_natural(np.broadcast_to(d, n), a.dtype) for d in (taken.low, taken.high)]
        try:
            low, high = bounds(*natural)
        except Exception as e:
            self._warn_once(f"has a range that raised {e!r:.200}")
            return rest
        ends = [self._axis_values(b, n) for b in (low, high)]
        if ends[0] is None or ends[1] is None:
            return rest
        (lows, no_low), (highs, no_high) = ends[0], ends[1]
        sound = np.asarray(lows <= highs, np.bool_) & ~no_low & ~no_high
        lows = np.where(sound, lows, end(call.dtype, high=False))
        highs = np.where(sound, highs, end(call.dtype, high=True))
        above = ~sound if call.dtype.kind in TEXT else NO
        return merge(use, taken.with_bounds(call.dtype, lows, highs, above), rest)

    def _axis_values(self, result: Any, n: int) -> tuple[Data, Mask] | None:
        """Convert the function's result to axis values, and where they are NULL.

        Returns:
            None if the result is not an array of n values of the type.
        """
        try:
            values = np.asarray(result)
        except Exception as e:
            self._warn_once(f"returned an object that is not an array ({e!r:.200})")
            return None
        if values.shape != (n,):
            self._warn_once(f"returned an array of shape {values.shape}; expected ({n},)")
            return None
        try:
            return _typed(values, self.dtype)
        except (ValueError, TypeError, OverflowError) as e:
            self._warn_once(f"returned values that are not {self.dtype} ({e!s:.200})")
            return None

    def _warn_once(self, what: str) -> None:
        if not self.warned:
            self.warned = True
            warnings.warn(
                f"the registered function {self.name!r} {what}; containers that need it are kept",
                RuntimeWarning,
                stacklevel=2,
            )


def _unbounded(a: Interval) -> Mask:
    """Return where a bound may be unknown: where it is the end of its type, or text has none."""
    if a.dtype.kind in TEXT:
        return a.unbounded_above
    at_end = (a.low == end(a.dtype, high=False)) | (a.high == end(a.dtype, high=True))
    return np.asarray(at_end, np.bool_) | a.unbounded_above


def _natural(data: Data, dtype: DType) -> Data:
    """Convert axis values to those that a registered function receives."""
    match dtype.kind:
        case Kind.BOOL:
            return data.astype(np.bool_)
        case Kind.DATE:
            return data.astype("datetime64[D]")
        case Kind.TIMESTAMP:
            return data.astype(np.int64).view(UNITS[dtype.unit])
        case Kind.STRING | Kind.DECIMAL:
            return np.array(python_values(data, dtype), object)
    return data.copy()


def _typed(values: Any, dtype: DType) -> tuple[Data, Mask]:
    """Convert an array to axis values of a type, and where they are NULL.

    Raises:
        ValueError, TypeError, OverflowError: a value is not of the type.
    """
    if values.dtype.kind == "M":
        unit = "D" if dtype.kind is Kind.DATE else dtype.unit
        missing = np.isnat(values)
        ticks = values.astype(f"datetime64[{unit}]").astype(np.int64)
        return np.where(missing, 0, ticks), missing
    if values.dtype.kind in "biuf" and dtype.kind in (Kind.INT, Kind.FLOAT, Kind.BOOL):
        typed = values.astype(numpy_type_of(dtype))
        is_whole = dtype.kind is not Kind.FLOAT
        if is_whole and values.dtype.kind == "f" and not np.array_equal(typed, values):
            raise ValueError("numbers with fractions")
        if dtype.kind is Kind.INT and ((typed < dtype.lowest) | (typed > dtype.highest)).any():
            raise ValueError(f"numbers beyond {dtype}")
        return typed, np.zeros(len(values), np.bool_)
    missing = np.array([v is None for v in values.tolist()], np.bool_)
    out = np.empty(len(values), numpy_type_of(dtype))
    out[:] = [filler(dtype) if v is None else to_axis(v, dtype) for v in values.tolist()]
    return out, missing


def _equal(a: Data, b: Data) -> Mask:
    """Return where values are equal; NaN equals NaN."""
    nan = (a != a) & (b != b) if a.dtype.kind == "f" else NO
    return np.asarray((a == b) | nan, np.bool_)
