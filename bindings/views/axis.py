"""The axis of a picture: how a column's values become positions, and positions become text."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir.types import PER_SECOND, TEXT, DType, Kind, to_python
from skipstone.kernels.pack.bounds import Bounds
from skipstone.kernels.pack.codes import encode, value_of_key

Positions = npt.NDArray[np.float64]
# Positions beyond these ends are drawn as open: sums of them would not be finite.
FAR: Final = 1e300
MILLISECONDS_PER_DAY: Final = 86_400_000
EXACT_FLOATS: Final = 2**53  # integers up to here are exact as positions
MAX_LABELS: Final = 400  # labels on an axis of ranks
MAX_TEXT: Final = 60  # characters of a value in a label


@dataclass(frozen=True, slots=True)
class Axis:
    """One column's axis.

    Attributes:
        kind: "number" and "time" (milliseconds since 1970) are by value, "clock" is a time of day
            in milliseconds, and "rank" numbers the distinct bounds in their order.
        low, high: The finite positions of all bounds lie between them; low < high.
        base: What to add to a position of a "number" to get the value; integers beyond 2**53 are
            moved, so that their differences stay exact.
        labels: Of a "rank" axis: position -> text, ascending, at most `MAX_LABELS`.
        zoned: True if a "time" is an instant, shown in UTC.
    """

    kind: Literal["number", "time", "clock", "rank"]
    low: float = 0.0
    high: float = 1.0
    base: int = 0
    labels: dict[float, str] = field(default_factory=dict)
    zoned: bool = False


@dataclass(frozen=True, slots=True)
class PlacedBounds:
    """Both bounds of n containers on one axis.

    Attributes:
        kind, base, labels, zoned: As in `Axis`.
        low, high: Positions, shape (n,); arbitrary where the bound is not known.
        text: Returns a bound as text, given its side ("min" or "max") and container.
        locate: Returns the position of any value of the column, given on its type's axis.
    """

    kind: Literal["number", "time", "clock", "rank"]
    low: Positions
    high: Positions
    text: Callable[[str, int], str]
    locate: Callable[[Any], float]
    base: int = 0
    labels: Callable[[], dict[float, str]] = dict
    zoned: bool = False


def place(low: Bounds | None, high: Bounds | None, dtype: DType, n: int) -> PlacedBounds:
    """Place the bounds of n containers on their column's axis.

    Args:
        low, high: The bounds; None if no container has one on that side.
        dtype: The column's type, which has an order.
        n: The number of containers.
    """
    if dtype.kind in TEXT:
        return _by_rank(low, high, dtype, n)
    sides = {"min": low, "max": high}

    def text(side: str, i: int) -> str:
        bounds = sides[side]
        return "" if bounds is None else show_value(_axis_value(bounds.values, i, dtype), dtype)

    values = [np.zeros(n, np.int64) if b is None else _numbers(b, dtype, n) for b in sides.values()]
    if dtype.kind is Kind.BOOL:
        names = {0.0: "false", 1.0: "true"}
        first, second = map(_floats, values)
        return PlacedBounds("rank", first, second, text, float, labels=lambda: names)
    # What to multiply and to divide a value by.
    times, per = {
        Kind.DATE: (MILLISECONDS_PER_DAY, 1),
        Kind.TIME: (1000, PER_SECOND.get(dtype.unit, 1)),
        Kind.TIMESTAMP: (1000, PER_SECOND.get(dtype.unit, 1)),
        Kind.DECIMAL: (1, 10**dtype.scale),
    }.get(dtype.kind, (1, 1))
    known = [
        v if b.known is None else v[b.known]
        for v, b in zip(values, sides.values(), strict=True)
        if b is not None
    ]
    base = _base(known) if dtype.kind in (Kind.INT, Kind.UINT) else 0
    first, second = (_floats(v, base) * times / per for v in values)
    kinds: dict[Kind, Literal["time", "clock"]] = {
        Kind.DATE: "time", Kind.TIMESTAMP: "time", Kind.TIME: "clock",
    }  # fmt: skip

    def locate(value: Any) -> float:
        return float((value - base) * times / per)

    return PlacedBounds(
        kinds.get(dtype.kind, "number"), first, second, text, locate, base=base, zoned=dtype.zoned
    )


def axis_of(placed: PlacedBounds, known: list[Positions]) -> Axis:
    """Return an axis that covers the finite positions.

    Args:
        placed: What was placed.
        known: Arrays of the positions that are known.
    """
    finite = [p[np.abs(p) <= FAR] for p in known]
    ends = [(float(p.min()), float(p.max())) for p in finite if len(p)]
    low, high = (min(a for a, _ in ends), max(b for _, b in ends)) if ends else (0.0, 1.0)
    if placed.kind == "rank":
        low, high = low - 0.5, high + 0.5
    elif low == high:
        pad = {"time": MILLISECONDS_PER_DAY, "clock": 60_000}.get(placed.kind, abs(low) or 1.0) / 2
        low, high = low - pad, high + pad
    return Axis(placed.kind, low, high, placed.base, placed.labels(), placed.zoned)


def show_value(value: object, dtype: DType) -> str:
    """Return an axis value as short text.

    Example:
        >>> from skipstone.ir.types import DATE, STRING
        >>> show_value(19723, DATE), show_value(b"JFK", STRING)
        ('2024-01-01', 'JFK')
    """
    v: Any = to_python(value, dtype)
    if isinstance(v, bool):
        text = str(v).lower()
    elif isinstance(v, float):
        text = f"{v:.12g}"
    elif isinstance(v, bytes):
        text = f"X'{v[:MAX_TEXT].hex()}'"
    elif dtype.kind is Kind.TIMESTAMP and not isinstance(v, int):
        text = v.replace(tzinfo=None).isoformat(sep=" ").removesuffix(" 00:00:00")
        text = text.removesuffix(":00") if text.count(":") == 2 else text
    elif dtype.kind in (Kind.TIMESTAMP, Kind.DATE) and isinstance(v, int):
        unit = "days" if dtype.kind is Kind.DATE else dtype.unit
        text = f"{v:,} {unit} since 1970"
    else:
        text = str(v)
    return shorten(text)


def shorten(text: str, limit: int = MAX_TEXT) -> str:
    """Return text with its middle left out if it is longer than a limit.

    Example:
        >>> shorten("abcdefghij", 7)
        'abc…hij'
    """
    if len(text) <= limit:
        return text
    head = limit // 2
    return f"{text[:head]}…{text[len(text) - (limit - head - 1) :]}"


def _by_rank(low: Bounds | None, high: Bounds | None, dtype: DType, n: int) -> PlacedBounds:
    """Number the distinct known bounds of strings or binary."""
    first, second, dictionary = encode(low, high, dtype)
    codes = [np.zeros(n, np.int32) if c is None else c for c in (first, second)]
    known = [
        np.zeros(0, np.int32) if b is None else c if b.known is None else c[b.known]
        for b, c in zip((low, high), codes, strict=True)
    ]
    used = np.flatnonzero(np.bincount(np.concatenate(known), minlength=len(dictionary) + 1))
    rank = np.zeros(len(dictionary) + 2, np.float64)
    rank[used] = np.arange(len(used))
    keys = dictionary.keys

    def labels() -> dict[float, str]:
        step = max(1, -(-len(used) // MAX_LABELS))
        return {
            float(k): show_value(keys[int(used[k])].as_py(), dtype)
            for k in range(0, len(used), step)
        }

    def text(side: str, i: int) -> str:
        return show_value(keys[int(codes[side == "max"][i])].as_py(), dtype)

    def locate(value: bytes) -> float:
        """Return the rank of a value; one between two bounds lies between their ranks."""
        k = bisect.bisect_left(used, value, key=lambda code: keys[int(code)].as_py())
        return k if k < len(used) and keys[int(used[k])].as_py() == value else k - 0.5

    return PlacedBounds("rank", rank[codes[0]], rank[codes[1]], text, locate, labels=labels)


def _numbers(bounds: Bounds, dtype: DType, n: int) -> npt.NDArray[Any]:
    """Return bounds as an array of numbers; unscaled digits for decimals."""
    if not dtype.coded:
        return np.asarray(bounds.values)
    # Long decimals: 16 bytes, most significant first, 2**127 above the digits.
    known = bounds.mask
    there = bounds.values.filter(pa.array(known)) if bounds.known is not None else bounds.values
    start = int(np.frombuffer(there.buffers()[1], np.int64, there.offset + 1)[-1])
    words = np.frombuffer(there.buffers()[2], ">u8", len(there) * 2, start).reshape(-1, 2)
    out = np.zeros(n)
    above = (words[:, 0] ^ np.uint64(1 << 63)).astype(np.int64)
    below = words[:, 1].astype(np.uint64)
    # Digits of one word would vanish in the sum of two.
    short = below.view(np.int64)
    out[known] = np.where(above == short >> 63, short, above * 2.0**64 + below)
    return out


def _axis_value(values: Any, i: int, dtype: DType) -> object:
    """Return one bound of `Bounds.values` as a point of its axis."""
    return value_of_key(values[i].as_py(), dtype) if dtype.coded else values[i].item()


def _base(known: list[npt.NDArray[Any]]) -> int:
    """Return what to subtract from integers too large to be exact as floats; 0 for others."""
    present = [k for k in known if len(k) and k.dtype.kind in "iu"]
    if not present:
        return 0
    low, high = min(int(k.min()) for k in present), max(int(k.max()) for k in present)
    return low if max(abs(low), abs(high)) > EXACT_FLOATS > high - low else 0


def _floats(values: npt.NDArray[Any], base: int = 0) -> Positions:
    if base:
        values = values - np.array(base, values.dtype)
    return np.asarray(values, np.float64)
